/*
 * The rows of labels as a relation that commands can select from.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/queryenvironment.h"

#include "citus.h"
#include "label_columns.h"
#include "labels_relation.h"
#include "settings.h"
#include "sql_function.h"

/* The name of the tuplestore, and of the function. */
#define NAME "gkmeans_labels"
#define FUNCTION_NAME "gkmeans._gkmeans_labels"

/* How Citus begins to say that it cannot write a query with a tuplestore. */
#define RTE_KIND "unrecognized RTE kind"

/* The beginning of what Citus says of a shard that is gone. */
#define LOST_SHARD "could not find valid entry for shard"

/* Citus keeps what it sends to the workers within this. */
#define CITUS_LIMIT "citus.max_intermediate_result_size"

/* Labels that the function returns. */
typedef struct Labels
{
	Tuplestorestate *rows;
	TupleDesc	descriptor;
	Oid			user;			/* who writes them */
	struct Labels *outer;		/* those of a fit whose command runs this one */
} Labels;

/* Those of the innermost fit; NULL = none are being written. */
static Labels *current = NULL;

GK_SQL_FUNCTION(gk_labels);

/* Copies rows into a tuplestore. */
static void
copy_rows(const Labels *labels, Tuplestorestate *copy)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(labels->descriptor, &TTSOpsMinimalTuple);

	tuplestore_rescan(labels->rows);
	while (tuplestore_gettupleslot(labels->rows, true, false, slot))
	{
		CHECK_FOR_INTERRUPTS();
		tuplestore_puttupleslot(copy, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
}

/* SQL: the labels that are being written; the columns are those of gk_labels_descriptor(). */
Datum
gk_labels(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext before;

	if (current == NULL || current->user != GetUserId() || result == NULL ||
		!IsA(result, ReturnSetInfo) || (result->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the labels of gkmeans can only be read by the functions of gkmeans"),
				 errhint("Give a labels_table, and read that.")));
	before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	result->returnMode = SFRM_Materialize;
	result->setResult = tuplestore_begin_heap(false, false, work_mem);
	/* the executor compares it with the columns that the query gives */
	result->setDesc = CreateTupleDescCopy(current->descriptor);
	copy_rows(current, result->setResult);
	MemoryContextSwitchTo(before);
	return (Datum) 0;
}

/* A call of the function, and the list of its columns. */
static char *
call_function(const char *alias, Oid id_type)
{
	TupleDesc	descriptor = gk_labels_descriptor(id_type);
	StringInfoData call;

	initStringInfo(&call);
	appendStringInfo(&call, FUNCTION_NAME "() AS %s (", alias);
	for (int i = 0; i < descriptor->natts; i++)
		appendStringInfo(&call, "%s%s %s", i > 0 ? ", " : "",
						 NameStr(TupleDescAttr(descriptor, i)->attname),
						 format_type_extended(TupleDescAttr(descriptor, i)->atttypid, -1,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
	appendStringInfoChar(&call, ')');
	return call.data;
}

/* True if an internal error is what Citus says, in any language, of a name that it has lost. */
static bool
has_lost_name(const char *message)
{
	return strstr(message, NAME) != NULL ||
		strncmp(message, RTE_KIND, strlen(RTE_KIND)) == 0;
}

/* True if it is what Citus says of a shard that others have split while it waited. */
static bool
has_lost_shard(const char *message)
{
	return strncmp(message, LOST_SHARD, strlen(LOST_SHARD)) == 0;
}

/* Raises that as what it is. */
static void
raise_split(ErrorData *error)
{
	FlushErrorState();
	error->sqlerrcode = ERRCODE_T_R_SERIALIZATION_FAILURE;
	error->detail = psprintf(_("Shards of a table that is written were split: %s."),
							 error->message);
	error->message = pstrdup(_("could not serialize access due to concurrent update"));
	error->hint = pstrdup(_("The transaction might succeed if retried."));
	ReThrowError(error);
}

/*
 * Raises the current error again, but internal ones of Citus as those of a change: shards of a
 * table that is written can be split, and what rules and policies read can become a table of Citus
 * between two commands, so that it loses the name.
 */
static void
rethrow_of_citus(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (error->sqlerrcode != ERRCODE_INTERNAL_ERROR || error->message == NULL)
		PG_RE_THROW();
	if (has_lost_shard(error->message))
		raise_split(error);
	if (!has_lost_name(error->message))
		PG_RE_THROW();
	FlushErrorState();
	error->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	error->detail = psprintf(_("What the labels table depends on was altered: %s."),
							 error->message);
	error->message = pstrdup(_("the labels table changed while it was being written"));
	error->hint = pstrdup(_("Try again."));
	ReThrowError(error);
}

/* Uses the labels. */
static void
use_relation(const GkLabelsRelation *relation, GkUseLabels use, void *context)
{
	MemoryContext before = CurrentMemoryContext;
	bool		has_citus = gk_has_citus();

	PG_TRY();
	{
		use(relation, context);
	}
	PG_CATCH();
	{
		if (has_citus)
			rethrow_of_citus(before);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* Lets the function return the labels. */
static void
use_by_function(Tuplestorestate *rows, Oid id_type, GkUseLabels use, void *context)
{
	Labels		labels = {rows, gk_labels_descriptor(id_type), GetUserId(), current};
	GkLabelsRelation relation = {.compared = "l",.is_function = true};
	int			nest_level = NewGUCNestLevel();

	relation.from = call_function("l", id_type);
	/*
	 * Citus plans what compares its rows with a function only if that is in a query of its own, and
	 * sends this one away as well, where one shard has all rows, unless it reads a local table.
	 */
	relation.with = psprintf("WITH l AS MATERIALIZED (SELECT * FROM %s"
							 " WHERE EXISTS (SELECT FROM pg_catalog.pg_am)) ",
							 call_function("f", id_type));
	if (GetConfigOption(CITUS_LIMIT, true, false) != NULL)
		gk_set_locally(CITUS_LIMIT, "-1");
	current = &labels;
	PG_TRY();
	{
		use_relation(&relation, use, context);
	}
	PG_FINALLY();
	{
		current = labels.outer;
	}
	PG_END_TRY();
	AtEOXact_GUC(true, nest_level);
}

/* Registers the labels with SPI. */
static void
use_by_name(Tuplestorestate *rows, Oid id_type, GkUseLabels use, void *context)
{
	EphemeralNamedRelationData named = {0};
	GkLabelsRelation relation = {.from = NAME " AS l",.with = "",.compared = NAME " AS l"};

	named.md.name = pstrdup(NAME);
	named.md.reliddesc = InvalidOid;
	named.md.tupdesc = gk_labels_descriptor(id_type);
	named.md.enrtype = ENR_NAMED_TUPLESTORE;
	named.md.enrtuples = (double) tuplestore_tuple_count(rows);
	named.reldata = rows;
	if (SPI_register_relation(&named) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the labels with SPI");
	use_relation(&relation, use, context);
	SPI_unregister_relation(named.md.name);
}

/* Makes the labels a relation. */
void
gk_use_labels(Tuplestorestate *labels, Oid id_type, bool citus, GkUseLabels use, void *context)
{
	if (citus)
		use_by_function(labels, id_type, use, context);
	else
		use_by_name(labels, id_type, use, context);
}
