/*
 * The SQL function gkmeans_alter_model: changes of the definition by which a model is refitted.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "defined_call.h"
#include "definition.h"
#include "fit_call.h"
#include "model.h"
#include "model_cache.h"
#include "model_writes.h"
#include "owner.h"
#include "run.h"
#include "selection.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gkmeans_alter_model);

/* The key of the names of the features. */
#define FEATURES "features"

/* Keys besides the arguments of gkmeans_create_model(). */
static const char *const other_keys[] = {"notify", "search_path", NULL};

/* Keys whose change calls for another look at the source and the tables. */
static const char *const source_keys[] = {"source", FEATURES, "id_column", "weight_column",
"labels_table", "labels_mode", "changes_table", "options", "search_path", NULL};

/* True if a word is in a list that ends with NULL. */
static bool
is_among(const char *word, const char *const *list)
{
	for (int i = 0; list[i] != NULL; i++)
		if (strcmp(word, list[i]) == 0)
			return true;
	return false;
}

/* The keys that there are, for a HINT. */
static char *
list_keys(const GkDefinedCall *call)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < call->count; i++)
		if (gk_is_definition_key(call->names[i]))
			appendStringInfo(&list, "%s, ", call->names[i]);
	appendStringInfo(&list, "%s and %s", other_keys[0], other_keys[1]);
	return list.data;
}

/* Raises an error unless a key is one of a definition. */
static void
check_key(const GkDefinedCall *call, const char *key)
{
	if (is_among(key, other_keys))
		return;
	for (int i = 0; i < call->count; i++)
		if (strcmp(call->names[i], key) == 0 && gk_is_definition_key(key))
			return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid key: \"%s\"", key),
			 errhint("Valid keys are %s.", list_keys(call))));
}

/* Raises an error unless a value of one of those other keys is a name, or null. */
static void
check_other(const char *key, const JsonbValue *value)
{
	int			limit = strcmp(key, "notify") == 0 ? NAMEDATALEN - 1 : INT_MAX;

	if (is_among(key, other_keys) && value->type != jbvNull &&
		(value->type != jbvString || value->val.string.len == 0 || value->val.string.len > limit))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is out of range", key),
				 limit < INT_MAX ? errhint("Valid values are names of 1 to %d bytes.", limit)
				 : errhint("Name schemas in a string: \"pg_catalog\" if no other is needed.")));
}

/* What the changes are. */
typedef struct Changes
{
	Jsonb	   *json;
	List	   *nulls;			/* of char *: keys that go back to their defaults */
	bool		of_source;		/* one of source_keys is among them */
} Changes;

/* Reads and checks the changes by themselves. */
static void
read_changes(Changes *changes)
{
	JsonbIterator *iterator = JsonbIteratorInit((JsonbContainer *) &changes->json->root);
	GkDefinedCall call;
	JsonbIteratorToken token;
	JsonbValue	value;
	char	   *key = NULL;

	if (!JB_ROOT_IS_OBJECT(changes->json))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("changes is not a JSON object")));
	gk_define_call(NULL, NULL, &call);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			key = pnstrdup(value.val.string.val, value.val.string.len);
			check_key(&call, key);
			changes->of_source = changes->of_source || is_among(key, source_keys);
		}
		else if (token == WJB_VALUE)
		{
			check_other(key, &value);
			if (value.type == jbvNull)
				changes->nulls = lappend(changes->nulls, key);
		}
	}
	gk_define_call(NULL, changes->json, &call);
}

/* True if a definition names the features. */
static bool
names_features(Jsonb *definition)
{
	JsonbValue	value;

	return gk_json_find(&definition->root, FEATURES, &value) && value.type != jbvNull;
}

/* The definition with the changes. */
static Jsonb *
apply(Jsonb *definition, const Changes *changes)
{
	Datum		changed = JsonbPGetDatum(changes->json);
	Datum		result;
	ListCell   *cell;

	/* it keeps the features that it names */
	if (names_features(definition) && !names_features(changes->json))
		changed = DirectFunctionCall2(jsonb_delete, changed, CStringGetTextDatum(FEATURES));
	result = DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(definition), changed);
	foreach(cell, changes->nulls)
	{
		const char *key = lfirst(cell);

		if (strcmp(key, FEATURES) != 0)
			result = DirectFunctionCall2(jsonb_delete, result, CStringGetTextDatum(key));
		if (strcmp(key, "search_path") == 0)
			result = DirectFunctionCall2(jsonb_concat, result,
										 JsonbPGetDatum(gk_search_path_json()));
	}
	return DatumGetJsonbP(result);
}

/* The columns of a model, as text[]. */
static ArrayType *
columns_of(const GkModel *model)
{
	int			count = model->array_column != NULL ? 1 : model->dimension;
	Datum	   *names = gk_allocate(count, sizeof(Datum));

	for (int i = 0; i < count; i++)
		names[i] = CStringGetTextDatum(model->array_column != NULL ? model->array_column
									   : model->features[i]);
	return construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT);
}

/*
 * The definition with the features of the deployed version, if there is one and it names none.
 * Other roles may have written the names in that version, so the owner is told.
 */
static Jsonb *
keep_features(Relation relation, Jsonb *definition)
{
	Oid			id = RelationGetRelid(relation);
	const GkModel *model;
	ArrayType  *columns;
	const char *text;

	if (names_features(definition) || gk_deployed_version(id) <= 0)
		return definition;
	/* the call may have waited for another version */
	PushActiveSnapshot(GetLatestSnapshot());
	model = gk_read_model(id, 0, CurrentMemoryContext);
	PopActiveSnapshot();
	columns = columns_of(model);
	ereport(NOTICE,
			(errmsg("features are those of the deployed version: %s",
					OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(columns)))));
	text = gk_define_features(JsonbToCString(NULL, &definition->root, VARSIZE(definition)),
							  columns);
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
}

/* Sets what a definition may leave open to something that is valid. */
static void
fill_in(GkDefinedCall *call, const char *mode)
{
	if (!gk_is_defined(call, "source"))
		gk_set_defined(call, "source", CStringGetTextDatum("none"));
	if (!gk_is_defined(call, "k"))
		gk_set_defined(call, "k", Int64GetDatum(1));
	/* what a refit makes of a table that must not be there, but is */
	if (mode == NULL || gk_if_exists("labels_mode", mode) == GK_EXISTS_ERROR)
		gk_set_defined(call, "labels_mode", CStringGetTextDatum("merge"));
}

/* Checks the candidates from which k is chosen where a model is made. */
static void
check_candidates(const GkDefinedCall *call)
{
	GkCandidateSpec candidates = {0};

	if (gk_read_candidates(call->arguments, gk_defined_place(call, "k_candidates"),
						   "k_candidates", &candidates) && gk_is_defined(call, "k"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k_candidates and k cannot both be given"),
				 errhint("Set one of the two to null.")));
}

/* Raises the errors that gkmeans_create_model() would before it reads rows. */
static void
check_definition(Relation relation, const Jsonb *definition, bool look_at_source)
{
	GkDefinedCall defined;
	GkCall		call;

	gk_define_call(relation, definition, &defined);
	look_at_source = look_at_source && gk_is_defined(&defined, "source");
	check_candidates(&defined);
	fill_in(&defined, gk_definition_text(definition, "labels_mode"));
	gk_call_open(&call);
	gk_read_arguments(defined.arguments, 1, &call.arguments);
	gk_call_track_changes(&call, gk_definition_text(definition, "changes_table"));
	call.arguments.of_model = true;
	if (look_at_source)
		gk_call_describe(&call);
	MemoryContextSwitchTo(call.caller);
	gk_job_end(call.job);
	gk_call_close(&call);
}

/* SQL: changes the definition of a model; returns it.  Its text is the owner's: checked as him. */
Datum
gkmeans_alter_model(PG_FUNCTION_ARGS)
{
	Changes		changes = {.json = PG_GETARG_JSONB_P(1)};
	Relation	relation;
	GkOwner		owner;
	Jsonb	   *definition;

	PreventCommandIfReadOnly("gkmeans_alter_model()");
	PreventCommandIfParallelMode("gkmeans_alter_model()");
	read_changes(&changes);
	gk_open_as_owner(PG_GETARG_OID(0), &relation, &owner);
	definition = keep_features(relation, apply(gk_model_definition(relation), &changes));
	gk_use_definition_path(definition);
	check_definition(relation, definition, changes.of_source);
	/* an open relation would keep the command from changing it */
	gk_close_as_owner(relation, &owner);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	gk_set_model_definition(PG_GETARG_OID(0),
							JsonbToCString(NULL, &definition->root, VARSIZE(definition)));
	SPI_finish();
	PG_RETURN_JSONB_P(definition);
}
