/*
 * A row of a model that is about to be written.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "alloc.h"
#include "draft.h"
#include "model_type.h"
#include "model_writes.h"

/* The attributes of models; raises 42704 if the extension is gone, for which this may wait. */
static TupleDesc
model_attributes(void)
{
	Oid			type = gk_model_type();
	Relation	relation = try_relation_open(get_typ_typrelid(type), AccessShareLock);
	TupleDesc	descriptor;

	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"gkmeans\" does not exist")));
	descriptor = lookup_rowtype_tupdesc_copy(type, -1);
	relation_close(relation, NoLock);
	return descriptor;
}

/* An empty row. */
void
gk_begin_draft(GkDraft *draft)
{
	draft->descriptor = model_attributes();
	memset(draft->nulls, true, sizeof(draft->nulls));
	gk_draft_set(draft, GK_MODEL_GROUP_NO, Int32GetDatum(0));
	gk_draft_set(draft, GK_MODEL_PART, Int32GetDatum(0));
}

/* Sets an attribute. */
void
gk_draft_set(GkDraft *draft, GkModelAttribute number, Datum value)
{
	draft->values[number - 1] = value;
	draft->nulls[number - 1] = false;
}

/* Sets a text; NULL leaves it unset. */
void
gk_draft_text(GkDraft *draft, GkModelAttribute number, const char *text)
{
	if (text != NULL)
		gk_draft_set(draft, number, CStringGetTextDatum(text));
}

/* Sets a jsonb. */
void
gk_draft_json(GkDraft *draft, GkModelAttribute number, const char *json)
{
	gk_draft_set(draft, number, DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
}

/* Sets an array of texts, of which some may be NULL. */
void
gk_draft_texts(GkDraft *draft, GkModelAttribute number, const char *const *texts, int count)
{
	Datum	   *elements = gk_allocate(count, sizeof(Datum));
	bool	   *nulls = gk_allocate(count, sizeof(bool));
	int			lower = 1;

	for (int i = 0; i < count; i++)
	{
		nulls[i] = texts[i] == NULL;
		elements[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}
	gk_draft_set(draft, number,
				 PointerGetDatum(construct_md_array(elements, nulls, 1, &count, &lower, TEXTOID,
													-1, false, TYPALIGN_INT)));
}

/* An array of numbers, its elements copied from where they lie. */
static Datum
make_array(const void *values, Size width, Oid type, int dimensions, int rows, int columns)
{
	Size		overhead = ARR_OVERHEAD_NONULLS(dimensions);
	Size		bytes = (Size) rows * columns * width;
	ArrayType  *array;

	if (bytes > MaxAllocSize - overhead)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("array of a model is too large")));
	array = palloc0(overhead + bytes);
	SET_VARSIZE(array, overhead + bytes);
	array->ndim = dimensions;
	array->dataoffset = 0;
	array->elemtype = type;
	ARR_DIMS(array)[0] = rows;
	ARR_LBOUND(array)[0] = 1;
	if (dimensions == 2)
	{
		ARR_DIMS(array)[1] = columns;
		ARR_LBOUND(array)[1] = 1;
	}
	memcpy(ARR_DATA_PTR(array), values, bytes);
	return PointerGetDatum(array);
}

/* Sets an array of doubles. */
void
gk_draft_doubles(GkDraft *draft, GkModelAttribute number, const double *values, int count)
{
	gk_draft_set(draft, number, make_array(values, sizeof(double), FLOAT8OID, 1, count, 1));
}

/* An array of numbers, NULL for those that are unknown: NaN. */
static Datum
make_measures(const double *values, int dimensions, int rows, int columns)
{
	int64		count = (int64) rows * columns;
	Datum	   *elements = gk_allocate(count, sizeof(Datum));
	bool	   *nulls = gk_allocate(count, sizeof(bool));
	int			sizes[] = {rows, columns};
	int			lower[] = {1, 1};
	ArrayType  *array;

	for (int64 i = 0; i < count; i++)
	{
		nulls[i] = isnan(values[i]);
		elements[i] = Float8GetDatum(values[i]);
	}
	array = construct_md_array(elements, nulls, dimensions, sizes, lower, FLOAT8OID,
							   sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	pfree(elements);
	pfree(nulls);
	return PointerGetDatum(array);
}

/* Sets an array of numbers of which some may be unknown. */
void
gk_draft_measures(GkDraft *draft, GkModelAttribute number, const double *values, int count)
{
	gk_draft_set(draft, number, make_measures(values, 1, count, 1));
}

/* Sets an array of arrays of such numbers. */
void
gk_draft_measure_matrix(GkDraft *draft, GkModelAttribute number, const double *values, int rows,
						int columns)
{
	gk_draft_set(draft, number, make_measures(values, 2, rows, columns));
}

/* Sets an array of arrays of doubles. */
void
gk_draft_matrix(GkDraft *draft, GkModelAttribute number, const double *values, int rows,
				int columns)
{
	gk_draft_set(draft, number, make_array(values, sizeof(double), FLOAT8OID, 2, rows, columns));
}

/* Sets an array of arrays of single-precision numbers. */
void
gk_draft_reals(GkDraft *draft, GkModelAttribute number, const float *values, int rows, int columns)
{
	gk_draft_set(draft, number, make_array(values, sizeof(float), FLOAT4OID, 2, rows, columns));
}

/* Sets an array of integers. */
void
gk_draft_integers(GkDraft *draft, GkModelAttribute number, const int32 *values, int count)
{
	gk_draft_set(draft, number, make_array(values, sizeof(int32), INT4OID, 1, count, 1));
}

/* Sets who created the version, and when. */
void
gk_draft_begun(GkDraft *draft)
{
	gk_draft_set(draft, GK_MODEL_STARTED_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	gk_draft_text(draft, GK_MODEL_STARTED_BY, GetUserNameFromId(GetUserId(), false));
}

/* Refuses names that gkmeans would not read again. */
void
gk_check_names(ArrayType *names)
{
	Datum	   *elements;
	bool	   *nulls;
	int			count;

	if (VARSIZE(names) > GK_MOST_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("the names are too long"),
				 errdetail("They have %zu bytes. The limit is %zu.", (Size) VARSIZE(names),
						   GK_MOST_NAME_BYTES)));
	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
		if (!nulls[i] && VARSIZE_ANY_EXHDR(DatumGetPointer(elements[i])) > GK_MAX_NAME_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_NAME_TOO_LONG),
					 errmsg("name %d is too long", i + 1),
					 errdetail("The limit is %d bytes.", GK_MAX_NAME_BYTES)));
	pfree(elements);
	pfree(nulls);
}

/* Marks the version as complete, and to be deployed. */
void
gk_draft_deployed(GkDraft *draft, const char *status)
{
	gk_draft_text(draft, GK_MODEL_STATUS, status);
	gk_draft_set(draft, GK_MODEL_FINISHED_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	gk_draft_set(draft, GK_MODEL_DEPLOYED, BoolGetDatum(true));
	gk_draft_text(draft, GK_MODEL_DEPLOYED_BY, GetUserNameFromId(GetUserId(), false));
}

/* Raises an error if the row would be larger than PostgreSQL can make one. */
static void
check_size(const GkDraft *draft)
{
	Size		bytes = GK_MODEL_ATTRIBUTES * MAXIMUM_ALIGNOF + BLCKSZ;

	for (int i = 0; i < GK_MODEL_ATTRIBUTES; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(draft->descriptor, i);

		if (!draft->nulls[i])
			bytes += datumGetSize(draft->values[i], attribute->attbyval, attribute->attlen);
	}
	if (bytes > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of a model is too large"),
				 errdetail("It would have %zu bytes.", bytes)));
}

/* Writes the row into a model. */
void
gk_insert_draft(const GkDraft *draft, Oid relation_id)
{
	StringInfoData columns;
	StringInfoData places;
	Datum		values[GK_MODEL_ATTRIBUTES];
	Oid			types[GK_MODEL_ATTRIBUTES];
	int			count = 0;

	check_size(draft);
	initStringInfo(&columns);
	initStringInfo(&places);
	for (int i = 0; i < GK_MODEL_ATTRIBUTES; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(draft->descriptor, i);

		if (draft->nulls[i])
			continue;
		types[count] = attribute->atttypid;
		values[count++] = draft->values[i];
		appendStringInfo(&columns, "%s%s", count > 1 ? ", " : "",
						 quote_identifier(NameStr(attribute->attname)));
		appendStringInfo(&places, "%s$%d", count > 1 ? ", " : "", count);
	}
	gk_change_model(relation_id, psprintf("INSERT INTO %s (%s) VALUES (%s)",
										  gk_quoted_model_name(relation_id), columns.data,
										  places.data), SPI_OK_INSERT, count, types, values);
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the new version of model %s was not written",
						gk_quoted_model_name(relation_id)),
				 errdetail("The INSERT wrote %llu rows instead of one.",
						   (unsigned long long) SPI_processed)));
}

/* Writes what is set into the head row of a version. */
void
gk_update_draft(const GkDraft *draft, Oid relation_id, int version)
{
	StringInfoData command;
	Datum		values[GK_MODEL_ATTRIBUTES + 1];
	Oid			types[GK_MODEL_ATTRIBUTES + 1];
	int			count = 0;

	check_size(draft);
	initStringInfo(&command);
	appendStringInfo(&command, "UPDATE ONLY %s SET ", gk_quoted_model_name(relation_id));
	for (int i = 0; i < GK_MODEL_ATTRIBUTES; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(draft->descriptor, i);

		if (draft->nulls[i] || i + 1 == GK_MODEL_GROUP_NO || i + 1 == GK_MODEL_PART)
			continue;
		types[count] = attribute->atttypid;
		values[count++] = draft->values[i];
		appendStringInfo(&command, "%s%s = $%d", count > 1 ? ", " : "",
						 quote_identifier(NameStr(attribute->attname)), count);
	}
	types[count] = INT4OID;
	values[count++] = Int32GetDatum(version);
	appendStringInfo(&command, " WHERE version OPERATOR(pg_catalog.=) $%d"
					 " AND group_no OPERATOR(pg_catalog.=) 0"
					 " AND part OPERATOR(pg_catalog.=) 0", count);
	gk_change_model(relation_id, command.data, SPI_OK_UPDATE, count, types, values);
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("version %d of model %s was not changed", version,
						gk_quoted_model_name(relation_id)),
				 errdetail("The UPDATE changed %llu rows instead of one.",
						   (unsigned long long) SPI_processed)));
}
