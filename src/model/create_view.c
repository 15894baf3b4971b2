/*
 * The SQL function gkmeans_create_view.
 *
 * The view is created by CREATE VIEW as the current user.  Whoever reads it needs privileges on the
 * source and on the model.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteSupport.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "checked_command.h"
#include "definition.h"
#include "model.h"
#include "model_cache.h"
#include "model_type.h"
#include "output_table.h"
#include "own_function.h"
#include "scorer.h"
#include "snapshot_rows.h"
#include "source_query.h"
#include "source_tables.h"
#include "sql_function.h"
#include "sql_values.h"
#include "table_name.h"
#include "target.h"

GK_SQL_FUNCTION(gkmeans_create_view);

/* The function that scores a row. */
#define SCORE "gkmeans_score"
#define CLUSTERS "_gkmeans_clusters"
#define FEATURES "_gkmeans_centroid_features"

/* The name of a column of the view that would have the name of another. */
#define PREFIX "gkmeans_"

/* What a view shows. */
static const char *const kinds[] = {"scored", "clusters", NULL};

/* A view that is made. */
typedef struct View
{
	Relation	model;
	const RangeVar *name;
	bool		is_replace;		/* it takes the place of another, if there is one */
	const char *constant;		/* the model in SQL */
	const char *functions;		/* the schema of the extension, quoted */
	List	   *used;			/* of char *: names of columns */
	StringInfoData columns;		/* the list after SELECT */
	StringInfoData from;
} View;

/* True if a name is used already. */
static bool
is_used(const View *view, const char *name)
{
	ListCell   *cell;

	foreach(cell, view->used)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	return false;
}

/* A name that no other column has and that a column can have, and notes it. */
static const char *
choose_name(View *view, const char *name)
{
	char	   *chosen = makeObjectName(name[0] != '\0' ? name : "feature", NULL, NULL);

	/* no more of a long name than a column keeps: there may be as many tries as columns */
	if (strlen(name) >= NAMEDATALEN)
		name = pstrdup(chosen);
	for (int number = 2; is_used(view, chosen); number++)
	{
		CHECK_FOR_INTERRUPTS();
		chosen = makeObjectName(name, NULL, psprintf("%d", number));
	}
	view->used = lappend(view->used, chosen);
	return chosen;
}

/* Appends a column. */
static void
append_column(View *view, const char *value, const char *name)
{
	appendStringInfo(&view->columns, "%s\n    %s AS %s", view->columns.len > 0 ? "," : "", value,
					 quote_identifier(name));
}

/* Appends a column of gkmeans. */
static void
append_own(View *view, const char *value, const char *name)
{
	append_column(view, value, choose_name(view, is_used(view, name) ? psprintf(PREFIX "%s", name)
										   : name));
}

/* The names of the columns of a query over a source, which is analysed and no more. */
static List *
columns_of(const GkSourceText *source, const char *query)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, gk_query_analyze(source, query)->targetList)
		names = lappend(names, lfirst_node(TargetEntry, cell)->resname);
	return names;
}

/* Raises an error if a relation is no view, unless others have just dropped it. */
static void
check_kind(Oid existing, const RangeVar *name)
{
	char		kind = get_rel_relkind(existing);

	if (kind != RELKIND_VIEW && kind != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a view", name->relname),
				 errhint("Give the view another name.")));
}

/* Raises an error if a view cannot take the place of what has its name, or be left out for it. */
static void
check_taken(Oid existing, const RangeVar *name, GkModelExists if_exists)
{
	if (OidIsValid(existing) && if_exists == GK_MODEL_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name->relname),
				 errhint("Give the view another name, or, if it is a view, set if_exists to "
						 "\"replace\" or \"skip\".")));
	check_kind(existing, name);
}

/* Raises an error if the source reads the view to be replaced, whose query would be lost. */
static void
check_replaced(const View *view, const GkSourceText *source)
{
	Query	   *query = gk_query_analyze(source, psprintf("SELECT t.* FROM %s AS t", source->from));
	Oid			replaced = InvalidOid;

	/* as the command does: until now, others may have made it, or given another one its name */
	(void) RangeVarGetAndCheckCreationNamespace(copyObject(unconstify(RangeVar *, view->name)),
												AccessExclusiveLock, &replaced);
	check_kind(replaced, view->name);
	if (OidIsValid(replaced) && gk_reads_view(query, replaced))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("view \"%s\" cannot be replaced", view->name->relname),
				 errdetail("The source of model \"%s\" reads it, so it would read itself.",
						   gk_model_name(view->model)),
				 errhint("Give the view of the model another name.")));
}

/*
 * The rows of the source with what gkmeans_score() says of them.  The source is looked up as it was
 * when the model was made; whoever sets that path ends it.
 */
static void
describe_scored(View *view)
{
	const Jsonb *definition = gk_own_definition(view->model, "Let the owner of the model call this "
												"function, or write a view with gkmeans_score().");
	const char *text = gk_definition_text(definition, "source");
	GkSourceText *source;
	ListCell   *cell;

	if (text == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("model \"%s\" has no source", gk_model_name(view->model)),
				 errhint("Its owner can set one with gkmeans_alter_model().")));
	gk_use_definition_path(definition);
	source = gk_source_text(text);
	if (view->is_replace)
		check_replaced(view, source);
	/* the source may have a column t, but none is called t.* */
	appendStringInfo(&view->from, "%s AS t,\n    LATERAL %s." SCORE "(%s, t.*) AS s",
					 source->from, view->functions, view->constant);
	view->used = columns_of(source, psprintf("SELECT t.* FROM %s", view->from.data));
	appendStringInfoString(&view->columns, "\n    t.*");
	foreach(cell, columns_of(source, psprintf("SELECT s.* FROM %s", view->from.data)))
		append_own(view, psprintf("s.%s", quote_identifier(lfirst(cell))), lfirst(cell));
}

/* Raises an error if a feature could not be found by its name, which views cut. */
static void
check_name(const char *feature, int number)
{
	if (strlen(feature) > GK_MAX_REPEATED_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("the name of feature %d is too long for a view", number),
				 errdetail("It has %zu bytes. The limit is %d.", strlen(feature),
						   GK_MAX_REPEATED_NAME)));
}

/* The clusters, with a column for each feature, which is found by its name. */
static void
describe_clusters(View *view)
{
	static const char *const own[] = {"cluster_id", "cluster_name", "size", "share", "weight",
	"inertia", "avg_distance", "radius", "profile"};
	const GkModel *model;
	StringInfoData features;
	char	   *constant;

	/* the call may have waited for another version */
	gk_push_writer_snapshot();
	model = gk_read_model(RelationGetRelid(view->model), 0, CurrentMemoryContext);
	PopActiveSnapshot();
	initStringInfo(&features);
	if (model->dimension + lengthof(own) > MaxHeapAttributeNumber)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("model \"%s\" has too many features for a view",
						gk_model_name(view->model)),
				 errdetail("It has %d, and a view has at most %d columns.", model->dimension,
						   MaxHeapAttributeNumber)));
	for (int j = 0; j < model->dimension; j++)
	{
		const char *feature = gk_feature_name(model, j);

		check_name(feature, j + 1);
		appendStringInfo(&features, ",\n    (f.numbers)[(f.places OPERATOR(pg_catalog.->>) %s)"
						 "::pg_catalog.int4] AS %s", quote_literal_cstr(feature),
						 quote_identifier(choose_name(view, feature)));
	}
	for (int i = 0; i < lengthof(own); i++)
		append_own(view, psprintf("c.%s", own[i]), own[i]);
	appendStringInfoString(&view->columns, features.data);
	/* of the very type that the functions have: no other function may fit better */
	constant = psprintf("%s::pg_catalog.oid", view->constant);
	appendStringInfo(&view->from, "%s." CLUSTERS "(%s) AS c\n    JOIN (SELECT v.cluster_id,"
					 " pg_catalog.jsonb_object_agg(v.feature, v.feature_no) AS places,\n"
					 "            pg_catalog.array_agg(v.value ORDER BY v.feature_no) AS numbers\n"
					 "        FROM %s." FEATURES "(%s) AS v\n"
					 "        WHERE v.deployed GROUP BY v.cluster_id) AS f\n"
					 "    ON c.cluster_id OPERATOR(pg_catalog.=) f.cluster_id\nWHERE c.deployed",
					 view->functions, constant, view->functions, constant);
}

/* The function of the extension that an entry of FROM is to call, by its alias. */
static const char *
function_of(const char *alias)
{
	return strcmp(alias, "c") == 0 ? CLUSTERS : strcmp(alias, "v") == 0 ? FEATURES : SCORE;
}

/*
 * Makes sure that a query calls the extension's functions, not others that took their names, or fit
 * better.  What is in a subquery of a view of scored rows is the source.
 */
static void
check_functions(const Query *query, bool scored)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		const Node *call;

		if (entry->rtekind == RTE_SUBQUERY && !scored)
			check_functions(entry->subquery, scored);
		if (entry->rtekind != RTE_FUNCTION)
			continue;
		call = linitial_node(RangeTblFunction, entry->functions)->funcexpr;
		gk_check_own_function(IsA(call, FuncExpr) ? ((const FuncExpr *) call)->funcid : InvalidOid,
							  function_of(entry->eref->aliasname));
	}
}

/* The same for a view that was just made. */
static void
check_view(Oid relation_id, bool scored)
{
	/* whoever made it has the lock */
	Relation	relation = relation_open(relation_id, NoLock);

	check_functions(get_view_query(relation), scored);
	relation_close(relation, NoLock);
}

/* Makes the view of a kind. */
static void
make_view(View *view, bool scored)
{
	int			nest_level = NewGUCNestLevel();
	CommandId	before = GetCurrentCommandId(false);
	GkCheckedCommand command = {0};
	int			code;

	if (scored)
		describe_scored(view);
	else
		describe_clusters(view);
	command.text =
		psprintf("CREATE %sVIEW %s WITH (security_invoker = true) AS\nSELECT%s\nFROM %s",
				 view->is_replace ? "OR REPLACE " : "", gk_quoted_name(view->name),
				 view->columns.data, view->from.data);
	SPI_freeplan(gk_execute_checked(&command, 0, 0, NULL, NULL, NULL, &code));
	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command.text, SPI_result_code_string(code));
	check_view(gk_made_relation(view->name, RULERELNAME, CStringGetDatum(ViewSelectRuleName),
								before), scored);
	AtEOXact_GUC(false, nest_level);
}

/* Begins the description of a view of a model. */
static void
begin_view(View *view, Relation model, const RangeVar *name, bool is_replace)
{
	memset(view, 0, sizeof(*view));
	view->model = model;
	view->name = name;
	view->is_replace = is_replace;
	/* its name may mean another model before the view is there */
	view->constant = psprintf("'%u'::pg_catalog.regclass", RelationGetRelid(model));
	view->functions = gk_extension_schema_name();
	initStringInfo(&view->columns);
	initStringInfo(&view->from);
}

/*
 * The relation that has a name; if none has, it keeps others from creating one, if the user may
 * create it himself.
 */
static Oid
find_taken(RangeVar *name)
{
	Oid			existing = InvalidOid;
	Oid			taken = RangeVarGetRelid(name, NoLock, true);
	Oid			schema;

	if (OidIsValid(taken))
		return taken;
	schema = RangeVarGetAndCheckCreationNamespace(name, NoLock, &existing);
	gk_lock_table_name(name);
	taken = RangeVarGetRelid(name, NoLock, true);
	if (!OidIsValid(taken))
		gk_check_type_name(name->relname, schema);
	return taken;
}

/* SQL: creates a view of the scored rows of a model, or of its clusters. */
Datum
gkmeans_create_view(PG_FUNCTION_ARGS)
{
	bool		scored = gk_find_word("kind", gk_text_or(fcinfo, 2, kinds[0]), kinds) == 0;
	GkModelExists if_exists = gk_model_exists_word(gk_text_or(fcinfo, 3, "error"));
	Relation	model;
	RangeVar   *name;
	Oid			existing;
	View		view;

	PreventCommandIfReadOnly("gkmeans_create_view()");
	PreventCommandIfParallelMode("gkmeans_create_view()");
	gk_require_argument(fcinfo, 0, "model");
	model = gk_open_model(PG_GETARG_OID(0));
	name = gk_table_name("view_name", gk_required_text(fcinfo, 1, "view_name"));
	existing = find_taken(name);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	check_taken(existing, name, if_exists);
	if (if_exists != GK_MODEL_SKIP || !OidIsValid(existing))
	{
		begin_view(&view, model, name, if_exists == GK_MODEL_REPLACE);
		make_view(&view, scored);
	}
	SPI_finish();
	relation_close(model, NoLock);
	PG_RETURN_VOID();
}
