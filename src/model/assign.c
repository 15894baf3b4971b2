/*
 * The SQL functions that label all rows of a source by a model: gkmeans_assign and
 * gkmeans_predict_rows.
 *
 * Rows take the same path as in a fit, into the engine that the settings choose; shift, scale
 * and centroids are the model's.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "assign.h"
#include "assignment.h"
#include "model_cache.h"
#include "nearest.h"
#include "scorer.h"
#include "snapshot_rows.h"
#include "sql_function.h"
#include "sql_values.h"
#include "subtransaction.h"

GK_SQL_FUNCTION(gkmeans_assign);
GK_SQL_FUNCTION(gkmeans_predict_rows);

/* What an assignment did. */
typedef struct Assigned
{
	int64		read;
	int64		skipped;
	GkLabelsWritten written;
	bool		is_bound;		/* if nothing was written: nor can the rows be read anew */
} Assigned;

/* The columns that the source must have. */
static List *
feature_columns(const GkModel *model)
{
	List	   *columns = NIL;

	if (model->array_column != NULL)
		return list_make1(model->array_column);
	for (int j = 0; j < model->dimension; j++)
		columns = lappend(columns, model->features[j]);
	return columns;
}

/* The centroids as rows are compared with them, in the order of ties. */
static double *
unpack_points(const GkModel *model)
{
	int64		d = model->dimension;
	double	   *points = gk_allocate(model->k * d, sizeof(double));

	for (int64 i = 0; i < model->k; i++)
		gk_unpack_centroid(model->packed, model->dimension, i, points + i * d);
	return points;
}

/* Has rows read and compared as the model requires. */
void
gk_call_compare_as(GkCall *call, const GkModel *model)
{
	GkFitSpec  *spec = &call->arguments.fit;

	call->arguments.source.features = feature_columns(model);
	call->arguments.source.dimension = model->dimension;
	call->arguments.source.shift = model->shift;
	spec->metric = model->metric;
	spec->scale = model->factor != NULL ? GK_SCALE_GIVEN : GK_SCALE_NONE;
	spec->offset = model->offset;
	spec->factor = model->factor;
	spec->points = unpack_points(model);
	spec->labels_only = true;
}

/* Says that the labels are a model's. */
void
gk_call_describe_model(GkCall *call, const GkModel *model)
{
	GkLabelling *labelling = &call->labelling;

	memset(labelling, 0, sizeof(*labelling));
	labelling->version = model->version;
	labelling->labels = labelling->k = model->k;
	labelling->place_of_label = labelling->ties = model->ties;
	labelling->ids = model->cluster_ids;
	labelling->names = model->names;
	labelling->avg_distances = model->avg_distances;
	labelling->score_quantiles = model->score_quantiles;
	labelling->packed = model->packed;
}

/* The same, for labels alone. */
static void
ask_for_model(GkCall *call, const GkModel *model)
{
	GkFitSpec  *spec = &call->arguments.fit;

	gk_call_compare_as(call, model);
	gk_call_describe_model(call, model);
	call->fit.k = model->k;
	spec->k = model->k;
	spec->n_init = 1;
	spec->max_iter = 1;
}

/* Raises an error unless the rows have as many features as the model. */
void
gk_call_check_as(const GkCall *call, const GkModel *model)
{
	bool		is_array;
	int			count;

	(void) gk_source_features(call->source, &count, &is_array);
	if (is_array != (model->array_column != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the features of the source do not fit the model"),
				 is_array ? errdetail("They are elements of an array, the model has columns.")
				 : errdetail("They are columns, the model has an array.")));
	if (call->rows.dimension > 0 && call->rows.dimension != model->dimension)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the rows have %d feature%s, the model has %d", call->rows.dimension,
						call->rows.dimension == 1 ? "" : "s", model->dimension),
				 errhint("If arrays have another length from now on, gkmeans_create_model with "
						 "if_exists => 'replace' makes a version for them.")));
}

/* Shows others which model it is; nothing if it has just been dropped. */
static void
show_model(Oid relation_id)
{
	char	   *name = get_rel_name(relation_id);
	char	   *schema = get_namespace_name(get_rel_namespace(relation_id));

	if (name != NULL && schema != NULL)
		gk_progress_model(quote_qualified_identifier(schema, name));
}

/* Raises 40001: a version is no longer deployed. */
static void
raise_overtaken(const GkModel *model)
{
	bool		is_fixed = IsolationUsesXactSnapshot();

	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("version %d is no longer deployed", model->version),
			 is_fixed ? errdetail("Another version was deployed after the transaction began.")
			 : errdetail("Another version was deployed while the call waited or read the "
						 "rows."),
			 is_fixed ? errhint("Repeat the transaction.") : errhint("Repeat the call.")));
}

/* Raises 40001 if another version is deployed by now. */
static void
check_deployed(const GkModel *model)
{
	int			deployed = gk_deployed_version(model->relation);

	if (deployed != model->version && deployed >= 0)
		raise_overtaken(model);
}

/* Raises 40001 if others have deployed another version since. */
void
gk_check_overtaken(const GkModel *model)
{
	int			deployed = gk_deployed_version(model->relation);

	if (deployed != model->version && deployed >= 0 &&
		gk_leaves_deployed(model->relation, model->version))
		raise_overtaken(model);
}

/* Reads the rows of a source and labels them by a model; begins the job and SPI. */
static void
label_rows(GkCall *call, const GkModel *model, int version, const GkArguments *asked)
{
	gk_call_open(call);
	show_model(model->relation);
	call->arguments = *asked;
	call->arguments.of_model = true;
	ask_for_model(call, model);
	gk_call_read(call);
	gk_call_check_as(call, model);
	if (version == 0 && (call->rows.is_newer || call->cluster != NULL))
		gk_check_overtaken(model);
	if (call->arguments.fit.rows > 0)
		gk_label(call->job, &call->arguments.fit);
}

/* The same, for others. */
const GkModel *
gk_label_source(GkCall *call, Oid relation_id, int version, const char *source,
				const char *id_column, Oid id_type, const char *labels_table,
				GkIfExists if_exists)
{
	const GkModel *model = gk_read_model(relation_id, version, CurrentMemoryContext);
	GkArguments asked = {.labels_table = labels_table,.if_exists = if_exists};

	asked.source.source = source;
	asked.source.id_column = id_column;
	asked.source.id_type = id_type;
	label_rows(call, model, version, &asked);
	return model;
}

/* SQL: the cluster and distance of every row of a source. */
Datum
gkmeans_predict_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkCall		call;

	InitMaterializedSRF(fcinfo, 0);
	gk_require_argument(fcinfo, 1, "model");
	gk_label_source(&call, PG_GETARG_OID(1), gk_version_argument(fcinfo, 4),
					gk_required_text(fcinfo, 2, "source"), gk_required_text(fcinfo, 3, "id_column"),
					get_fn_expr_argtype(fcinfo->flinfo, 0), NULL, GK_EXISTS_ERROR);
	gk_call_put_labels(&call, result->setResult, result->setDesc);
	gk_call_end_job(&call);
	gk_call_close(&call);
	return (Datum) 0;
}

/* Reads the version of a model to label by. */
static const GkModel *
read_model(Oid relation_id, int version)
{
	const GkModel *model;

	/* it may have been deployed while the call waited, or by the calling statement */
	gk_push_writer_snapshot();
	model = gk_read_model(relation_id, version, CurrentMemoryContext);
	PopActiveSnapshot();
	return model;
}

/* True if a version is there by now. */
static bool
is_there(const GkModel *model)
{
	Relation	relation = gk_open_model(model->relation);
	GkHeads    *heads = gk_begin_heads(relation);
	bool		found = gk_find_head(heads, model->version);

	gk_end_heads(heads);
	relation_close(relation, NoLock);
	return found;
}

/* True if a cluster has no name of its own. */
static bool
is_unnamed(const GkModel *model, int64 place)
{
	return model->names == NULL || model->names[place] == NULL;
}

/* True if a cluster has another name in another reading of its version. */
static bool
is_renamed(const GkModel *model, const GkModel *now, int64 place)
{
	char	   *name;
	char	   *name_now;
	bool		is_other;

	if (is_unnamed(model, place) && is_unnamed(now, place))
		return gk_cluster_id(model, place) != gk_cluster_id(now, place);
	name = gk_cluster_name(model, place);
	name_now = gk_cluster_name(now, place);
	is_other = strcmp(name, name_now) != 0;
	pfree(name);
	pfree(name_now);
	return is_other;
}

/* True if clusters have other names by now; one that others have deleted has none. */
static bool
are_renamed(const GkModel *model)
{
	const GkModel *now = NULL;

	PushActiveSnapshot(GetLatestSnapshot());
	if (is_there(model))
		now = gk_read_model(model->relation, model->version, CurrentMemoryContext);
	PopActiveSnapshot();
	for (int64 i = 0; now != NULL && i < model->k && i < now->k; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_renamed(model, now, i))
			return true;
	}
	return false;
}

/* Raises 40001 if labels were written with names that clusters do not have any more. */
static void
check_names(const GkCall *call, const GkModel *model)
{
	bool		is_fixed = IsolationUsesXactSnapshot();

	if ((gk_labels_table_columns(call->table) & GK_LABEL_SET(GK_LABEL_NAME)) != 0 &&
		are_renamed(model))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("clusters of version %d were renamed", model->version),
				 is_fixed ? errdetail("They had other names when the transaction began.")
				 : errdetail("They had other names while the rows were labelled."),
				 is_fixed ? errhint("Repeat the transaction.") : errhint("Repeat the call.")));
}

/*
 * True if this server read no row, but perhaps only seemingly: postgres_fdw takes its snapshot
 * before it waits for whoever truncates and fills the table there.
 */
static bool
is_doubtful(const GkCall *call)
{
	return call->rows.read == 0 && call->rows.has_foreign_table;
}

/* What to do then. */
#define REPEAT_OR_DELETE \
	"The table seems to be empty while a transaction of its server truncates and fills it: " \
	"repeat the call. If it is empty, delete the labels yourself"

/* Raises 55000 if labels were deleted because of that. */
static void
check_deleted(const GkLabelsWritten *written)
{
	if (written->deleted == 0 && !written->emptied)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the source, which reads a foreign table, has no row"),
			 written->emptied ? errdetail("All labels would be deleted.") :
			 errdetail_plural("%lld label would be deleted.", "All %lld labels would be deleted.",
							  written->deleted, (long long) written->deleted),
			 written->emptied ?
			 errhint(REPEAT_OR_DELETE ", and if they are in a foreign table, write labels_mode => "
					 "'delete' then: 'replace' does not look for them there.") :
			 errhint(REPEAT_OR_DELETE ".")));
}

/* Raises an error if what was written must not stay. */
static void
check_written(const GkCall *call, const GkModel *model, int version, bool is_doubtful,
			  const GkLabelsWritten *written)
{
	if (is_doubtful)
		check_deleted(written);
	/* the labels table is locked: whoever deploys and writes labels later comes after these */
	if (version == 0)
		check_deployed(model);
	check_names(call, model);
}

/*
 * Labels all rows of a source into a table; false if that is to be repeated, with the table locked,
 * by the model as it is then, and without what functions of the source have set.
 */
static bool
assign(Oid relation_id, int version, const GkArguments *asked, Assigned *assigned)
{
	const GkModel *model = read_model(relation_id, version);
	int			nest_level = NewGUCNestLevel();
	Tuplestorestate *labels;
	GkCall		call;
	bool		is_written;

	label_rows(&call, model, version, asked);
	labels = gk_call_labels(&call);
	gk_call_end_job(&call);
	is_written = gk_call_write_labels(&call, labels, &assigned->written);
	if (is_written)
		check_written(&call, model, version, is_doubtful(&call), &assigned->written);
	assigned->is_bound = gk_call_is_bound(&call);
	assigned->read = call.rows.read;
	assigned->skipped = call.rows.skipped;
	gk_call_close(&call);
	if (labels != NULL)
		tuplestore_end(labels);
	AtEOXact_GUC(is_written, nest_level);
	return is_written;
}

/* Keeps what a call asks for, to label rows after it. */
void
gk_keep_request(const GkCall *call, GkArguments *asked)
{
	const GkArguments *arguments = &call->arguments;
	MemoryContext before = MemoryContextSwitchTo(call->caller);

	memset(asked, 0, sizeof(*asked));
	if (arguments->labels_table != NULL)
	{
		asked->source.source = pstrdup(arguments->source.source);
		asked->source.id_column = pstrdup(arguments->source.id_column);
		asked->source.nulls_are_errors = arguments->source.nulls_are_errors;
		asked->labels_table = pstrdup(arguments->labels_table);
	}
	/* rows without a weight get no label */
	if (arguments->source.weight_column != NULL)
		asked->source.weight_column = pstrdup(arguments->source.weight_column);
	asked->fit.weighted = asked->source.weight_column != NULL;
	asked->if_exists = arguments->if_exists;
	if (arguments->id_name != NULL)
		asked->id_name = pstrdup(arguments->id_name);
	if (arguments->changes_table != NULL)
		asked->changes_table = pstrdup(arguments->changes_table);
	asked->labels_are_new = arguments->labels_are_new;
	asked->labels_may_stay = arguments->labels_may_stay;
	MemoryContextSwitchTo(before);
}

/* Says that the labels stay as others have written them, and why. */
static void
warn_of_labels(const GkArguments *asked, const char *reason)
{
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("labels were not written to table %s", asked->labels_table),
			 errdetail("Others have labelled, written or altered it since the rows were read, "
					   "and %s.", reason),
			 errhint("Call gkmeans_assign in another transaction.")));
}

/* What gk_assign_newer() is asked for. */
typedef struct Newer
{
	Oid			model;
	int			version;
	GkArguments *asked;
	bool		is_written;
} Newer;

/* Labels rows by a version of a model into a table that is locked, if they can be read anew. */
static void
assign_newer(void *argument)
{
	Newer	   *newer = argument;
	Assigned	assigned = {.is_bound = false};

	while (!newer->is_written && !assigned.is_bound)
	{
		newer->asked->readings++;
		newer->is_written = assign(newer->model, newer->version, newer->asked, &assigned);
	}
}

/* True if a statement failed because of the locks of others. */
static bool
is_of_lock(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		error->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED;
}

/* The same; false, with a WARNING, if not. */
bool
gk_assign_newer(const GkCall *call, Oid relation_id, int version, GkArguments *asked)
{
	Newer		newer = {relation_id, version, asked};
	ErrorData  *error = NULL;

	/* nodes may read rows again even if this server has read them */
	if (call->cluster != NULL || !gk_call_is_bound(call))
		error = gk_try(assign_newer, &newer, true);
	if (error != NULL && !is_of_lock(error))
		ReThrowError(error);
	if (error != NULL)
		warn_of_labels(asked, "they could not be read anew because of a lock");
	else if (!newer.is_written)
		warn_of_labels(asked, "a foreign table cannot be read anew in this transaction");
	return newer.is_written;
}

/* SQL: labels all rows of a source into a table; what that did to it. */
Datum
gkmeans_assign(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, 5);
	GkAssignRequest assignment;
	Assigned	assigned;
	Datum		values[5];
	bool		nulls[5] = {0};

	PreventCommandIfParallelMode("gkmeans_assign()");
	gk_begin_assignment(fcinfo, &assignment);
	assignment.arguments.labels_may_stay = true;
	while (!assign(assignment.model, assignment.version, &assignment.arguments, &assigned))
	{
		if (assigned.is_bound)
			gk_refuse_bound();
		assignment.arguments.readings++;
	}
	gk_end_assignment(&assignment);
	values[0] = Int64GetDatum(assigned.read);
	values[1] = Int64GetDatum(assigned.read - assigned.skipped);
	values[2] = Int64GetDatum(assigned.written.inserted);
	values[3] = Int64GetDatum(assigned.written.updated);
	values[4] = Int64GetDatum(assigned.written.deleted);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}
