/*
 * The subject of a picture or a report.
 */
#include "postgres.h"

#include <math.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "alloc.h"
#include "subject.h"

/* The most bytes of a text that is shown: 4000 characters, and one to tell that there are more. */
#define MOST_TEXT_BYTES (4 * 4001)

/* A number of a row; NaN if it is not known. */
static double
number_of(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = slot_getattr(row->slot, number, &is_null);

	return is_null || !isfinite(DatumGetFloat8(value)) ? NAN : DatumGetFloat8(value);
}

/* The day of a time; "" if there is none. */
static const char *
day_of(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = slot_getattr(row->slot, number, &is_null);
	struct pg_tm tm;
	fsec_t		fraction;
	int			zone;

	if (is_null || TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(value)) ||
		timestamp2tm(DatumGetTimestampTz(value), &zone, &tm, &fraction, NULL, NULL) != 0)
		return "";
	return psprintf("%04d-%02d-%02d", tm.tm_year, tm.tm_mon, tm.tm_mday);
}

/* The beginning of a text of a row; NULL if there is none. */
char *
gk_row_beginning(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = slot_getattr(row->slot, number, &is_null);
	text	   *beginning;
	int			length;

	if (is_null)
		return NULL;
	beginning = DatumGetTextPSlice(value, 0, MOST_TEXT_BYTES);
	length = VARSIZE_ANY_EXHDR(beginning);
	return pnstrdup(VARDATA_ANY(beginning),
					pg_mbcliplen(VARDATA_ANY(beginning), length, length));
}

/* Reads what is known of a version, but its texts: there may be many versions. */
static void
read_past(GkSubject *subject, const GkModelRow *row, GkPast *past)
{
	bool		is_null;
	Datum		value;

	past->version = row->version;
	past->day = day_of(row, GK_MODEL_FINISHED_AT);
	value = slot_getattr(row->slot, GK_MODEL_DEPLOYED, &is_null);
	past->deployed = !is_null && DatumGetBool(value);
	past->was_deployed = past->deployed || !slot_attisnull(row->slot, GK_MODEL_DEPLOYED_AT);
	value = slot_getattr(row->slot, GK_MODEL_ROWS_USED, &is_null);
	past->rows = is_null ? -1 : Max(DatumGetInt64(value), -1);
	value = slot_getattr(row->slot, GK_MODEL_K, &is_null);
	past->k = is_null ? 0 : Max(DatumGetInt32(value), 0);
	past->inertia = number_of(row, GK_MODEL_INERTIA);
	past->explained = number_of(row, GK_MODEL_BETWEEN_SS) / number_of(row, GK_MODEL_TOTAL_SS);
	past->explained = isfinite(past->explained) ? past->explained : NAN;
	past->silhouette = number_of(row, GK_MODEL_SILHOUETTE);
	if (isnan(past->silhouette))
	{
		past->silhouette = number_of(row, GK_MODEL_SIMPLIFIED_SILHOUETTE);
		subject->is_simplified = subject->is_simplified || !isnan(past->silhouette);
	}
	past->psi = gk_row_psi(row);
}

/* The order of versions. */
static int
compare_past(const void *a, const void *b, void *argument)
{
	int			left = ((const GkPast *) a)->version;
	int			right = ((const GkPast *) b)->version;

	return (left > right) - (left < right);
}

/* Reads what is known of all versions. */
static void
read_all(GkSubject *subject)
{
	GkHeads    *heads = gk_begin_heads(subject->relation);
	int			room = 16;

	subject->past = gk_allocate(room, sizeof(GkPast));
	while (gk_next_head(heads))
	{
		GkModelRow	row;

		if (subject->count == room)
			subject->past = repalloc_huge(subject->past, mul_size(room *= 2, sizeof(GkPast)));
		gk_open_row(&row, subject->relation, gk_head(heads));
		read_past(subject, &row, &subject->past[subject->count++]);
	}
	gk_end_heads(heads);
	qsort_interruptible(subject->past, subject->count, sizeof(GkPast), compare_past, NULL);
}

/* Begins to read a model. */
void
gk_open_subject(GkSubject *subject, Relation relation)
{
	memset(subject, 0, sizeof(*subject));
	subject->relation = relation;
	subject->model = quote_qualified_identifier(
		get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation));
	read_all(subject);
	subject->heads = gk_begin_heads(relation);
}

/* Moves to a version. */
bool
gk_find_subject(GkSubject *subject, int version)
{
	if (!gk_find_head(subject->heads, version))
		return false;
	gk_open_row(&subject->row, subject->relation, gk_head(subject->heads));
	return true;
}

/* Moves to the deployed version, without an error where rows contradict each other. */
bool
gk_find_deployed_subject(GkSubject *subject)
{
	int			deployed = 0;
	int			same = 0;
	int			version = 0;

	for (int i = 0; i < subject->count; i++)
		if (subject->past[i].deployed)
		{
			deployed++;
			version = subject->past[i].version;
		}
	for (int i = 0; i < subject->count; i++)
		same += subject->past[i].version == version;
	return deployed == 1 && same == 1 && gk_find_subject(subject, version);
}

/* The recorded drift of a version. */
static Jsonb *
read_drift(const GkSubject *subject, int version)
{
	GkHeads    *heads = gk_begin_heads(subject->relation);
	Jsonb	   *drift = NULL;

	while (drift == NULL && gk_next_head(heads))
	{
		GkModelRow	row;

		gk_open_row(&row, subject->relation, gk_head(heads));
		if (row.version == version)
			drift = gk_row_json(&row, GK_MODEL_DRIFT);
	}
	gk_end_heads(heads);
	return drift;
}

/* Reads what is known of its clusters and of its drift. */
void
gk_read_subject(GkSubject *subject)
{
	const GkPast *past = gk_subject_drift(subject);

	if (past != NULL)
		subject->drift = read_drift(subject, past->version);
	if (gk_row_has_centroids(&subject->row))
		gk_read_summary(&subject->row, false, &subject->summary);
}

/* Ends reading. */
void
gk_close_subject(GkSubject *subject)
{
	gk_end_heads(subject->heads);
}

/* A number of the version. */
double
gk_subject_number(const GkSubject *subject, GkModelAttribute number)
{
	return number_of(&subject->row, number);
}

/* A jsonb of the version. */
Jsonb *
gk_subject_json(const GkSubject *subject, GkModelAttribute number)
{
	return gk_row_json(&subject->row, number);
}

/* The newest version with a drift, or this one. */
const GkPast *
gk_subject_drift(const GkSubject *subject)
{
	const GkPast *found = NULL;

	for (int i = 0; i < subject->count; i++)
	{
		if (isnan(subject->past[i].psi))
			continue;
		found = &subject->past[i];
		if (found->version == subject->row.version)
			break;
	}
	return found;
}

/* The order of clusters by size. */
static int
compare_sizes(const void *a, const void *b, void *argument)
{
	const GkSummary *summary = argument;
	int			left = *(const int *) a;
	int			right = *(const int *) b;

	if (summary->sizes != NULL && summary->sizes[left] != summary->sizes[right])
		return summary->sizes[left] > summary->sizes[right] ? -1 : 1;
	return (left > right) - (left < right);
}

/* The places of clusters, the largest first. */
int *
gk_clusters_by_size(const GkSummary *summary)
{
	int		   *order = gk_allocate(Max(summary->k, 1), sizeof(int));

	for (int c = 0; c < summary->k; c++)
		order[c] = c;
	qsort_interruptible(order, summary->k, sizeof(int), compare_sizes, (void *) summary);
	return order;
}
