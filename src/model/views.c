/*
 * The functions behind the views in schema gkmeans: the models that the current user may read,
 * with their versions, clusters and features.
 *
 * A damaged version is left out with a WARNING, so that it does not hide the others.  Further ones
 * of a model are only counted: its owner could fill the logs of all readers otherwise.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "alloc.h"
#include "model.h"
#include "model_type.h"
#include "running.h"
#include "sql_function.h"
#include "sql_values.h"
#include "summary.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

GK_SQL_FUNCTION(gk_visible_models);
GK_SQL_FUNCTION(gk_visible_versions);
GK_SQL_FUNCTION(gk_visible_clusters);
GK_SQL_FUNCTION(gk_visible_features);

/* The most bytes of texts in a row of a view, which PostgreSQL limits to 1 GB. */
#define MOST_SHOWN ((Size) 128 << 20)

/* More bytes than a report that gkmeans writes. */
#define MOST_REPORT ((Size) 64 << 10)

/* The most bytes of names in all rows of a version: twice those of names as columns have them. */
#define MOST_REPEATED ((double) GK_MAX_MODEL_NUMBERS * 4 * NAMEDATALEN)

/* Puts the clusters of a version into a result. */
typedef void (*PutSummary) (const GkSummary *summary, ReturnSetInfo *result);

/* Puts the name and owner of a model, which is not open, into a result. */
static void
put_model(Form_pg_class table, ReturnSetInfo *result)
{
	const char *schema = get_namespace_name(table->relnamespace);
	const char *owner = GetUserNameFromId(table->relowner, true);
	Datum		values[4];
	bool		nulls[4] = {0};

	/* dropped by others since */
	if (schema == NULL || owner == NULL)
		return;
	values[0] = ObjectIdGetDatum(table->oid);
	values[1] = CStringGetTextDatum(schema);
	values[2] = CStringGetTextDatum(NameStr(table->relname));
	values[3] = CStringGetTextDatum(owner);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
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

/*
 * SQL: the models that the current user may read.  They are not opened: what is read of one are the
 * rows of a view, and a query may ask for others.
 */
Datum
gk_visible_models(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, find_tables())
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));

		CHECK_FOR_INTERRUPTS();
		if (!HeapTupleIsValid(tuple))
			continue;
		if (gk_is_listed_model((Form_pg_class) GETSTRUCT(tuple)))
			put_model((Form_pg_class) GETSTRUCT(tuple), (ReturnSetInfo *) fcinfo->resultinfo);
		ReleaseSysCache(tuple);
	}
	return (Datum) 0;
}

/*
 * The status of a version: a run that is recorded as running may be lost.  One whose row has been
 * changed since the snapshot has just ended; the snapshot still sees it running.
 */
static Datum
status_of(Relation relation, const GkModelRow *row, Datum status)
{
	if (gk_row_has_status(row, "running") &&
		!gk_is_running(RelationGetRelid(relation), row->version) &&
		table_tuple_satisfies_snapshot(relation, row->slot, SnapshotSelf))
		return CStringGetTextDatum("lost");
	return status;
}

/* The stability index that is written down in a row. */
static Datum
psi_of(const GkModelRow *row, bool *is_null)
{
	double		psi = gk_row_psi(row);

	*is_null = isnan(psi);
	return Float8GetDatum(psi);
}

/* True if a row of a view has room for values; else it may warn. */
static bool
has_room(const GkModelRow *row, const Datum *values, const bool *nulls, TupleDesc descriptor,
		 bool warns)
{
	Size		bytes = 0;

	for (int i = 0; i < descriptor->natts; i++)
		if (!nulls[i] && TupleDescAttr(descriptor, i)->attlen == -1)
			bytes += toast_raw_datum_size(values[i]);
	if (bytes > MOST_SHOWN && warns)
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("version %d of model \"%s\" is too large to be shown", row->version,
						gk_model_name(row->relation)),
				 errdetail("Its texts have %zu bytes. The limit is %zu.", bytes, MOST_SHOWN)));
	return bytes <= MOST_SHOWN;
}

/* Warns of versions that were left out without a word, because one before them was, too. */
static void
tell_of_others(Relation relation, int64 left_out)
{
	if (left_out > 1)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("model \"%s\" has more versions that are left out: %lld",
						gk_model_name(relation), (long long) left_out - 1)));
}

/*
 * Puts attributes of a version into a result; number 0 is psi.  False if it is left out, perhaps
 * with a WARNING.
 */
static bool
put_version(Relation relation, TupleTableSlot *slot, const int *numbers, bool warns,
			ReturnSetInfo *result)
{
	int			count = result->setDesc->natts;
	Datum	   *values = palloc(count * sizeof(Datum));
	bool	   *nulls = palloc(count * sizeof(bool));
	GkModelRow	row;

	gk_open_row(&row, relation, slot);
	for (int i = 0; i < count; i++)
	{
		if (numbers[i] == InvalidAttrNumber)
			values[i] = psi_of(&row, &nulls[i]);
		else
			values[i] = slot_getattr(slot, numbers[i], &nulls[i]);
		/* the views read it */
		if (numbers[i] == GK_MODEL_REPORT && !nulls[i])
			nulls[i] = toast_raw_datum_size(values[i]) > MOST_REPORT;
		if (numbers[i] == GK_MODEL_FEATURES)
			nulls[i] = nulls[i] || !gk_row_has_few(&row, GK_MODEL_FEATURES);
	}
	if (!has_room(&row, values, nulls, result->setDesc, warns))
		return false;
	for (int i = 0; i < count; i++)
	{
		if (numbers[i] == GK_MODEL_STATUS)
			values[i] = status_of(relation, &row, values[i]);
		/* the table may be gone when the result is read */
		if (!nulls[i] && TupleDescAttr(result->setDesc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			values[i] = PointerGetDatum(detoast_external_attr((struct varlena *)
															  DatumGetPointer(values[i])));
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return true;
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

/* Puts a row of NULLs, which says that the model itself is visible. */
static void
put_presence(ReturnSetInfo *result)
{
	int			count = result->setDesc->natts;
	Datum	   *values = palloc0(count * sizeof(Datum));
	bool	   *nulls = palloc(count * sizeof(bool));

	memset(nulls, true, count * sizeof(bool));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* SQL: attributes of the versions of a model, after a row of NULLs; no row if it is not visible. */
Datum
gk_visible_versions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans version",
												  ALLOCSET_DEFAULT_SIZES);
	int64		left_out = 0;
	int		   *numbers;
	GkHeads    *heads;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return (Datum) 0;
	put_presence(result);
	numbers = match_attributes(relation, result->setDesc);
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);

		left_out += !put_version(relation, gk_head(heads), numbers, left_out == 0, result);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	tell_of_others(relation, left_out);
	gk_close_visible_model(relation);
	return (Datum) 0;
}

/* True if what a view repeats of the names of a version is not too much; else it may warn. */
static bool
names_have_room(const GkModelRow *row, const GkSummary *summary, bool warns)
{
	double		bytes = 0.0;

	for (int j = 0; summary->features != NULL && j < summary->dimension; j++)
		bytes += (double) strlen(summary->features[j]) * summary->k;
	for (int c = 0; summary->names != NULL && c < summary->k; c++)
		if (summary->names[c] != NULL)
			bytes += (double) gk_repeated_length(summary->names[c]) * summary->dimension;
	if (bytes > MOST_REPEATED && warns)
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("version %d of model \"%s\" is too large to be shown", row->version,
						gk_model_name(row->relation)),
				 errdetail("The names of its clusters and features would take %.0f bytes. The "
						   "limit is %.0f.", bytes, MOST_REPEATED)));
	return bytes <= MOST_REPEATED;
}

/* Puts the clusters of a version into a result; false if it is left out. */
static bool
put_summary(const GkModelRow *row, bool with_deviations, bool warns, PutSummary put,
			ReturnSetInfo *result)
{
	GkSummary	summary = {0};

	if (!gk_row_has_centroids(row))
		return true;
	if (!gk_try_summary(row, with_deviations, warns, &summary) ||
		!names_have_room(row, &summary, warns))
		return false;
	put(&summary, result);
	return true;
}

/* Puts the clusters of all versions of a model into a result. */
static void
put_summaries(FunctionCallInfo fcinfo, bool with_deviations, PutSummary put)
{
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans summary",
												  ALLOCSET_DEFAULT_SIZES);
	int64		left_out = 0;
	GkHeads    *heads;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return;
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		left_out += !put_summary(&row, with_deviations, left_out == 0, put,
								 (ReturnSetInfo *) fcinfo->resultinfo);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	tell_of_others(relation, left_out);
	gk_close_visible_model(relation);
}

/* One of several numbers that may be unknown. */
static double
number_of(const double *numbers, int i)
{
	return numbers != NULL ? numbers[i] : NAN;
}

/* Puts a cluster into a result. */
static void
put_cluster(const GkSummary *summary, int c, double total, GkRank *order, ReturnSetInfo *result)
{
	const char *profile = gk_describe_profile(summary, c, order, true);
	Datum		values[13] = {0};
	bool		nulls[13] = {0};

	values[0] = Int32GetDatum(summary->version);
	values[1] = BoolGetDatum(summary->deployed);
	values[2] = Int32GetDatum(gk_summary_id(summary, c));
	values[3] = CStringGetTextDatum(gk_summary_name(summary, c));
	nulls[4] = summary->sizes == NULL;
	values[4] = Int64GetDatum(nulls[4] ? 0 : summary->sizes[c]);
	gk_put_number(&values[5], &nulls[5], total > 0.0 ? summary->sizes[c] / total : NAN);
	gk_put_number(&values[6], &nulls[6], number_of(summary->weights, c));
	gk_put_number(&values[7], &nulls[7], number_of(summary->inertias, c));
	gk_put_number(&values[8], &nulls[8], number_of(summary->avg_distances, c));
	gk_put_number(&values[9], &nulls[9], number_of(summary->radii, c));
	nulls[10] = profile == NULL;
	values[10] = nulls[10] ? (Datum) 0 : CStringGetTextDatum(profile);
	gk_put_number(&values[11], &nulls[11], number_of(summary->map_x, c));
	gk_put_number(&values[12], &nulls[12], number_of(summary->map_y, c));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Puts the clusters of a version into a result. */
static void
put_clusters(const GkSummary *summary, ReturnSetInfo *result)
{
	double		total = gk_total_size(summary);
	GkRank	   *order = gk_allocate(summary->dimension, sizeof(GkRank));
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "gkmeans cluster",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(scratch);

	for (int c = 0; c < summary->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		put_cluster(summary, c, total, order, result);
		MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(scratch);
}

/* SQL: the clusters of the versions of a model. */
Datum
gk_visible_clusters(PG_FUNCTION_ARGS)
{
	put_summaries(fcinfo, false, put_clusters);
	return (Datum) 0;
}

/* Puts one feature of a cluster into a result. */
static void
put_feature(const GkSummary *summary, int c, int j, int rank, Datum name, ReturnSetInfo *result)
{
	int64		at = (int64) c * summary->dimension + j;
	Datum		values[12] = {0};
	bool		nulls[12] = {0};

	values[0] = Int32GetDatum(summary->version);
	values[1] = BoolGetDatum(summary->deployed);
	values[2] = Int32GetDatum(gk_summary_id(summary, c));
	values[3] = name;
	values[4] = Int32GetDatum(j + 1);
	values[5] = CStringGetTextDatum(gk_summary_feature(summary, j));
	values[6] = Float8GetDatum(summary->centroids[at]);
	gk_put_number(&values[7], &nulls[7],
				  summary->deviations != NULL ? summary->deviations[at] : NAN);
	gk_put_number(&values[8], &nulls[8], number_of(summary->mean, j));
	gk_put_number(&values[9], &nulls[9], number_of(summary->deviation, j));
	gk_put_number(&values[10], &nulls[10], gk_z_score(summary, c, j));
	nulls[11] = nulls[10];
	values[11] = Int32GetDatum(rank);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[5]));
}

/* Puts the features of a version's clusters into a result. */
static void
put_features(const GkSummary *summary, ReturnSetInfo *result)
{
	int		   *ranks = gk_allocate(summary->dimension, sizeof(int));
	GkRank	   *order = gk_allocate(summary->dimension, sizeof(GkRank));

	for (int c = 0; c < summary->k; c++)
	{
		MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "gkmeans features",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext before = MemoryContextSwitchTo(scratch);
		const char *whole = gk_summary_name(summary, c);
		Datum		name = PointerGetDatum(cstring_to_text_with_len(whole,
																	gk_repeated_length(whole)));

		gk_rank_features(summary, c, order);
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
	put_summaries(fcinfo, true, put_features);
	return (Datum) 0;
}
