/*
 * The functions behind the views in schema gkmeans: the models that the current user may read,
 * with their versions, clusters and features.
 *
 * A damaged version is left out with a WARNING, so that it does not hide the others.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "alloc.h"
#include "model.h"
#include "model_type.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gk_visible_models);
GK_SQL_FUNCTION(gk_visible_versions);
GK_SQL_FUNCTION(gk_visible_clusters);
GK_SQL_FUNCTION(gk_visible_features);

/* The most features in a profile, and the least deviation from the mean that is mentioned. */
#define PROFILE_FEATURES 3
#define PROFILE_LEAST 0.5

/* What is known of the clusters of a version. */
typedef struct Summary
{
	int			version;
	bool		deployed;
	int			k;
	int			dimension;
	char	  **features;		/* NULL if they are elements of array_column */
	char	   *array_column;
	double	   *centroids;
	int32	   *ids;
	char	  **names;
	int64	   *sizes;
	double	   *weights;
	double	   *inertias;
	double	   *avg_distances;
	double	   *radii;
	double	   *mean;
	double	   *deviation;
} Summary;

/* Puts the clusters of a version into a result. */
typedef void (*PutSummary) (const Summary *summary, ReturnSetInfo *result);

/* True if the current user may use a schema and read a table; no lock is taken. */
static bool
is_visible(Oid relation_id)
{
	bool		is_missing = false;
	Oid			schema = get_rel_namespace(relation_id);

	if (!OidIsValid(schema) || isAnyTempNamespace(schema))
		return false;
#if PG_VERSION_NUM >= 160000
	if (object_aclcheck(NamespaceRelationId, schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		return false;
#else
	if (pg_namespace_aclcheck(schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		return false;
#endif
	return pg_class_aclcheck_ext(relation_id, GetUserId(), ACL_SELECT, &is_missing) ==
		ACLCHECK_OK && !is_missing;
}

/* Opens a model if the current user may see it, and nobody has locked it against readers. */
static Relation
open_visible(Oid relation_id)
{
	bool		is_locked;

	return is_visible(relation_id) ? gk_try_open_model(relation_id, &is_locked) : NULL;
}

/* Says that a model is left out because its readers would have to wait. */
static void
tell_of_lock(Oid relation_id)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	Form_pg_class table;

	if (!HeapTupleIsValid(tuple))
		return;
	table = (Form_pg_class) GETSTRUCT(tuple);
	if (table->reloftype == gk_model_type())
		ereport(WARNING,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("model \"%s\" is left out: another transaction has locked it",
						NameStr(table->relname))));
	ReleaseSysCache(tuple);
}

/* Puts the name and owner of a model into a result. */
static void
put_model(Oid relation_id, ReturnSetInfo *result)
{
	bool		is_locked = false;
	Relation	relation = is_visible(relation_id) ? gk_try_open_model(relation_id, &is_locked)
		: NULL;
	Datum		values[4];
	bool		nulls[4] = {0};

	if (is_locked)
		tell_of_lock(relation_id);
	if (relation == NULL)
		return;
	values[0] = ObjectIdGetDatum(relation_id);
	values[1] = CStringGetTextDatum(get_namespace_name(RelationGetNamespace(relation)));
	values[2] = CStringGetTextDatum(RelationGetRelationName(relation));
	values[3] = CStringGetTextDatum(GetUserNameFromId(relation->rd_rel->relowner, false));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	relation_close(relation, AccessShareLock);
}

/* The tables that depend on the type of models. */
static List *
find_tables(void)
{
	Relation	dependencies = table_open(DependRelationId, AccessShareLock);
	List	   *tables = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(gk_model_type()));
	scan = systable_beginscan(dependencies, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend dependency = (Form_pg_depend) GETSTRUCT(tuple);

		if (dependency->classid == RelationRelationId && dependency->objsubid == 0)
			tables = lappend_oid(tables, dependency->objid);
	}
	systable_endscan(scan);
	table_close(dependencies, AccessShareLock);
	return tables;
}

/* SQL: the models that the current user may read. */
Datum
gk_visible_models(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, find_tables())
	{
		CHECK_FOR_INTERRUPTS();
		put_model(lfirst_oid(cell), (ReturnSetInfo *) fcinfo->resultinfo);
	}
	return (Datum) 0;
}

/* The attributes of the model that have the names of the result's columns. */
static int *
match_attributes(Relation relation, TupleDesc descriptor)
{
	int		   *numbers = palloc(descriptor->natts * sizeof(int));

	for (int i = 0; i < descriptor->natts; i++)
		numbers[i] = get_attnum(RelationGetRelid(relation),
								NameStr(TupleDescAttr(descriptor, i)->attname));
	return numbers;
}

/* SQL: attributes of the versions of a model. */
Datum
gk_visible_versions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	relation = open_visible(PG_GETARG_OID(0));
	int		   *numbers;
	Datum	   *values;
	bool	   *nulls;
	GkHeads    *heads;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return (Datum) 0;
	numbers = match_attributes(relation, result->setDesc);
	values = palloc(result->setDesc->natts * sizeof(Datum));
	nulls = palloc(result->setDesc->natts * sizeof(bool));
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		for (int i = 0; i < result->setDesc->natts; i++)
			values[i] = slot_getattr(gk_head(heads), numbers[i], &nulls[i]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	gk_end_heads(heads);
	relation_close(relation, AccessShareLock);
	return (Datum) 0;
}

/* Reads what is known of the clusters of a version. */
static void
read_summary(GkModelRow *row, Summary *summary)
{
	bool		is_null;
	Datum		deployed = slot_getattr(row->slot, GK_MODEL_DEPLOYED, &is_null);
	GkMetric	metric;

	summary->version = row->version;
	summary->deployed = !is_null && DatumGetBool(deployed);
	gk_row_shape(row, &summary->k, &summary->dimension, &metric);
	summary->centroids = gk_row_matrix(row, GK_MODEL_CENTROIDS, summary->k, summary->dimension);
	summary->array_column = gk_row_text(row, GK_MODEL_ARRAY_COLUMN);
	summary->features = gk_row_texts(row, GK_MODEL_FEATURES, summary->dimension, false);
	if ((summary->features == NULL) != (summary->array_column != NULL))
		gk_model_is_damaged(row->relation, row->version, "features");
	summary->ids = gk_row_ids(row, GK_MODEL_CLUSTER_IDS, summary->k);
	summary->names = gk_row_texts(row, GK_MODEL_NAMES, summary->k, true);
	summary->sizes = gk_row_counts(row, GK_MODEL_SIZES, summary->k);
	summary->weights = gk_row_measures(row, GK_MODEL_WEIGHTS, summary->k);
	summary->inertias = gk_row_measures(row, GK_MODEL_INERTIAS, summary->k);
	summary->avg_distances = gk_row_measures(row, GK_MODEL_AVG_DISTANCES, summary->k);
	summary->radii = gk_row_measures(row, GK_MODEL_RADII, summary->k);
	summary->mean = gk_row_doubles(row, GK_MODEL_FEATURE_MEAN, summary->dimension);
	summary->deviation = gk_row_measures(row, GK_MODEL_FEATURE_DEVIATION, summary->dimension);
}

/* Reports a damaged version as a WARNING. */
static void
tell_of_damage(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("%s", error->message),
			 error->detail != NULL ? errdetail("%s", error->detail) : 0));
	FreeErrorData(error);
}

/*
 * Reads a version; false if it is damaged.  The code that raises that error acquires nothing but
 * memory, so it can be caught without a subtransaction.
 */
static bool
try_summary(GkModelRow *row, Summary *summary)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool is_whole = true;

	PG_TRY();
	{
		read_summary(row, summary);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		tell_of_damage(context);
		is_whole = false;
	}
	PG_END_TRY();
	return is_whole;
}

/* Puts the clusters of all versions of a model into a result. */
static void
put_summaries(FunctionCallInfo fcinfo, PutSummary put)
{
	Relation	relation = open_visible(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans summary",
												  ALLOCSET_DEFAULT_SIZES);
	GkHeads    *heads;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return;
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);
		Summary		summary = {0};
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		if (gk_row_has_centroids(&row) && try_summary(&row, &summary))
			put(&summary, (ReturnSetInfo *) fcinfo->resultinfo);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	relation_close(relation, AccessShareLock);
}

/* The id of a cluster. */
static int
id_of(const Summary *summary, int c)
{
	return summary->ids != NULL ? summary->ids[c] : c;
}

/* The name of a cluster. */
static Datum
name_of(const Summary *summary, int c)
{
	return summary->names != NULL && summary->names[c] != NULL ?
		CStringGetTextDatum(summary->names[c])
		: PointerGetDatum(cstring_to_text(psprintf("cluster %d", id_of(summary, c))));
}

/* The name of a feature. */
static char *
feature_of(const Summary *summary, int j)
{
	return summary->features != NULL ? summary->features[j]
		: psprintf("%s[%d]", summary->array_column, j + 1);
}

/* By how many standard deviations a centroid differs from the rows' mean; NaN if unknown. */
static double
z_score(const Summary *summary, int c, int j)
{
	if (summary->mean == NULL || summary->deviation == NULL || !(summary->deviation[j] > 0.0))
		return NAN;
	return (summary->centroids[(int64) c * summary->dimension + j] - summary->mean[j]) /
		summary->deviation[j];
}

/* Puts a number that may be unknown. */
static void
put_number(Datum *value, bool *is_null, double number)
{
	*is_null = isnan(number);
	*value = Float8GetDatum(number);
}

/* One of several numbers that may be unknown. */
static double
number_of(const double *numbers, int i)
{
	return numbers != NULL ? numbers[i] : NAN;
}

/* A feature and how far it stands out. */
typedef struct Rank
{
	int			feature;
	double		z;				/* absolute, -1 if unknown */
} Rank;

/* The order of features: those that stand out most first. */
static int
compare_ranks(const void *a, const void *b, void *argument)
{
	const Rank *left = a;
	const Rank *right = b;

	if (left->z != right->z)
		return left->z > right->z ? -1 : 1;
	return (left->feature > right->feature) - (left->feature < right->feature);
}

/* The features of a cluster in that order. */
static void
rank_features(const Summary *summary, int c, Rank *order)
{
	for (int j = 0; j < summary->dimension; j++)
	{
		double		z = z_score(summary, c, j);

		order[j] = (Rank) {j, isnan(z) ? -1.0 : fabs(z)};
	}
	qsort_interruptible(order, summary->dimension, sizeof(Rank), compare_ranks, NULL);
}

/* The features that stand out, and by how much; NULL if the rows' statistics are unknown. */
static char *
describe_profile(const Summary *summary, int c, Rank *order)
{
	StringInfoData profile;

	if (summary->mean == NULL || summary->deviation == NULL)
		return NULL;
	initStringInfo(&profile);
	rank_features(summary, c, order);
	for (int i = 0; i < PROFILE_FEATURES && i < summary->dimension; i++)
		if (order[i].z >= PROFILE_LEAST)
			appendStringInfo(&profile, "%s%s %+.1f %s", i > 0 ? ", " : "",
							 feature_of(summary, order[i].feature),
							 z_score(summary, c, order[i].feature),
							 GetDatabaseEncoding() == PG_UTF8 ? "σ" : "sd");
	return profile.len > 0 ? profile.data : "average";
}

/* The number of rows of all clusters; 0 if unknown. */
static double
total_size(const Summary *summary)
{
	double		total = 0.0;

	for (int c = 0; summary->sizes != NULL && c < summary->k; c++)
		total += (double) summary->sizes[c];
	return total;
}

/* Puts the clusters of a version into a result. */
static void
put_clusters(const Summary *summary, ReturnSetInfo *result)
{
	double		total = total_size(summary);
	Rank	   *order = gk_allocate(summary->dimension, sizeof(Rank));

	for (int c = 0; c < summary->k; c++)
	{
		char	   *profile = describe_profile(summary, c, order);
		Datum		values[11] = {0};
		bool		nulls[11] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(summary->version);
		values[1] = BoolGetDatum(summary->deployed);
		values[2] = Int32GetDatum(id_of(summary, c));
		values[3] = name_of(summary, c);
		nulls[4] = summary->sizes == NULL;
		values[4] = Int64GetDatum(nulls[4] ? 0 : summary->sizes[c]);
		put_number(&values[5], &nulls[5], total > 0.0 ? summary->sizes[c] / total : NAN);
		put_number(&values[6], &nulls[6], number_of(summary->weights, c));
		put_number(&values[7], &nulls[7], number_of(summary->inertias, c));
		put_number(&values[8], &nulls[8], number_of(summary->avg_distances, c));
		put_number(&values[9], &nulls[9], number_of(summary->radii, c));
		nulls[10] = profile == NULL;
		values[10] = nulls[10] ? (Datum) 0 : CStringGetTextDatum(profile);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/* SQL: the clusters of the versions of a model. */
Datum
gk_visible_clusters(PG_FUNCTION_ARGS)
{
	put_summaries(fcinfo, put_clusters);
	return (Datum) 0;
}

/* Puts one feature of a cluster into a result. */
static void
put_feature(const Summary *summary, int c, int j, int rank, Datum name, ReturnSetInfo *result)
{
	Datum		values[11] = {0};
	bool		nulls[11] = {0};

	values[0] = Int32GetDatum(summary->version);
	values[1] = BoolGetDatum(summary->deployed);
	values[2] = Int32GetDatum(id_of(summary, c));
	values[3] = name;
	values[4] = Int32GetDatum(j + 1);
	values[5] = CStringGetTextDatum(feature_of(summary, j));
	values[6] = Float8GetDatum(summary->centroids[(int64) c * summary->dimension + j]);
	put_number(&values[7], &nulls[7], number_of(summary->mean, j));
	put_number(&values[8], &nulls[8], number_of(summary->deviation, j));
	put_number(&values[9], &nulls[9], z_score(summary, c, j));
	nulls[10] = nulls[9];
	values[10] = Int32GetDatum(rank);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Puts the features of a version's clusters into a result. */
static void
put_features(const Summary *summary, ReturnSetInfo *result)
{
	int		   *ranks = gk_allocate(summary->dimension, sizeof(int));
	Rank	   *order = gk_allocate(summary->dimension, sizeof(Rank));

	for (int c = 0; c < summary->k; c++)
	{
		MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "gkmeans features",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext before = MemoryContextSwitchTo(scratch);
		Datum		name = name_of(summary, c);

		rank_features(summary, c, order);
		for (int j = 0; j < summary->dimension; j++)
			ranks[order[j].feature] = j + 1;
		for (int j = 0; j < summary->dimension; j++)
		{
			CHECK_FOR_INTERRUPTS();
			put_feature(summary, c, j, ranks[j], name, result);
		}
		MemoryContextSwitchTo(before);
		MemoryContextDelete(scratch);
	}
}

/* SQL: the features of the clusters of the versions of a model. */
Datum
gk_visible_features(PG_FUNCTION_ARGS)
{
	put_summaries(fcinfo, put_features);
	return (Datum) 0;
}
