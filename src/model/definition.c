/*
 * The definition of a model: the arguments of its creation, as JSON.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "nodes/readfuncs.h"
#include "parser/parser.h"
#include "tcop/pquery.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "definition.h"
#include "model.h"
#include "numeric_value.h"
#include "settings.h"
#include "source_changes.h"
#include "table_name.h"

/* The most bytes of a search path. */
#define LONGEST_PATH 65536

/* Arguments that are not part of a definition. */
static const char *const left_out[] = {
	"model", "initial_centroids", "centroids", "names", "exported", "scale_offset", "scale_factor",
	"if_exists", "note", NULL
};

/* True if an argument is part of a definition. */
bool
gk_is_definition_key(const char *name)
{
	for (int i = 0; left_out[i] != NULL; i++)
		if (strcmp(left_out[i], name) == 0)
			return false;
	return true;
}

/* True if an argument says that initial centroids are given, which are not part of a definition. */
static bool
is_given(const char *name, Oid type, Datum value)
{
	return strcmp(name, "init") == 0 && type == TEXTOID &&
		strcmp(TextDatumGetCString(value), "given") == 0;
}

/*
 * The number of clusters that a call asks for by an array of centroids, which is no part of a
 * definition; 0 if by none.  A version may have found fewer.
 */
static int
centroids_given(FunctionCallInfo fcinfo, char *const *names)
{
	for (int i = 0; i < PG_NARGS(); i++)
	{
		if (PG_ARGISNULL(i))
			continue;
		if (strcmp(names[i], "k") == 0)
			return 0;
		if (strcmp(names[i], "initial_centroids") == 0 || strcmp(names[i], "centroids") == 0)
		{
			ArrayType  *array = PG_GETARG_ARRAYTYPE_P(i);

			return ARR_NDIM(array) == 2 ? ARR_DIMS(array)[0] : 0;
		}
	}
	return 0;
}

/* Appends an array of texts. */
static void
append_texts(StringInfo json, ArrayType *array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			count;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	appendStringInfoChar(json, '[');
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfoString(json, i > 0 ? ", " : "");
		if (nulls[i])
			appendStringInfoString(json, "null");
		else
			escape_json(json, TextDatumGetCString(elements[i]));
	}
	appendStringInfoChar(json, ']');
}

/* Appends an array of integers; one that was read as an argument has no NULLs. */
static void
append_integers(StringInfo json, ArrayType *array)
{
	int			count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const int32 *values = (const int32 *) ARR_DATA_PTR(array);

	appendStringInfoChar(json, '[');
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfo(json, "%s%d", i > 0 ? ", " : "", values[i]);
	}
	appendStringInfoChar(json, ']');
}

/* Appends a finite number, with all its digits whatever extra_float_digits says. */
static void
append_number(StringInfo json, double number)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN];

	double_to_shortest_decimal_buf(number, digits);
	appendStringInfoString(json, digits);
}

/* Appends a value. */
static void
append_value(StringInfo json, Oid type, Datum value)
{
	switch (type)
	{
		case TEXTOID:
			escape_json(json, TextDatumGetCString(value));
			break;
		case TEXTARRAYOID:
			append_texts(json, DatumGetArrayTypeP(value));
			break;
		case INT4ARRAYOID:
			append_integers(json, DatumGetArrayTypeP(value));
			break;
		case INT4OID:
			appendStringInfo(json, "%d", DatumGetInt32(value));
			break;
		case INT8OID:
			appendStringInfo(json, INT64_FORMAT, DatumGetInt64(value));
			break;
		case FLOAT8OID:
			append_number(json, DatumGetFloat8(value));
			break;
		case JSONBOID:
			(void) JsonbToCString(json, &DatumGetJsonbP(value)->root, -1);
			break;
		default:
			elog(ERROR, "type %u in the definition of a model", type);
	}
}

/* Refuses a source whose constants a refit would read otherwise. */
static void
check_strings(const char *name, Datum value)
{
	if (standard_conforming_strings || strcmp(name, "source") != 0 ||
		strchr(TextDatumGetCString(value), '\\') == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("source of a model has a backslash while standard_conforming_strings is off"),
			 errdetail("Refits read it with the setting on."),
			 errhint("Set it on, and write E'…' for a constant with escapes.")));
}

/* Refuses a search path that takes long to read: nothing ends that before it is read. */
static void
check_length(const char *path, const char *hint)
{
	if (strlen(path) > LONGEST_PATH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the search_path of the model's definition is too long"),
				 errdetail("It has %zu bytes, more than %d.", strlen(path), LONGEST_PATH),
				 errhint("%s", hint)));
}

/*
 * What a search path stands for, with the schema of the current user, if there is one, in place of
 * "$user": a role may get another name, and another role may make a schema of its name.
 */
static char *
resolve_path(const char *set)
{
	StringInfoData path;
	int			nest_level;
	ListCell   *cell;
	List	   *names;

	if (!SplitIdentifierString(pstrdup(set), ',', &names))
		return pstrdup(set);
	/* the same names are the same text */
	nest_level = NewGUCNestLevel();
	gk_set_locally("quote_all_identifiers", "off");
	initStringInfo(&path);
	foreach(cell, names)
	{
		const char *name = lfirst(cell);

		if (strcmp(name, "$user") == 0)
			name = GetUserNameFromId(GetUserId(), false);
		if (name == lfirst(cell) || OidIsValid(get_namespace_oid(name, true)))
			appendStringInfo(&path, "%s%s", path.len > 0 ? ", " : "", quote_identifier(name));
	}
	AtEOXact_GUC(true, nest_level);
	return path.data;
}

/* Appends the current search path as a key. */
static void
append_path(StringInfo json)
{
	const char *set = GetConfigOption("search_path", false, false);
	const char *path;

	check_length(set, "Set a shorter one.");
	path = resolve_path(set);
	check_length(path, "Set a shorter one.");
	appendStringInfoString(json, "\"search_path\": ");
	escape_json(json, path);
}

/* Refuses a path by which what was looked up meanwhile may not be found again. */
void
gk_check_definition_path(const Jsonb *definition, const char *set)
{
	const char *then = gk_definition_text(definition, "search_path");
	const char *now = resolve_path(set);

	if (strcmp(then, now) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("search_path changed while the model was being created"),
				 errdetail("Its schemas were %s, and are %s.", *then == '\0' ? "none" : then,
						   *now == '\0' ? "none" : now),
				 errhint("Try again.")));
}

/* Refuses a definition that would be too long in the catalogs. */
void
gk_check_definition(const char *definition)
{
	Size		longest = GK_MOST_DEFINITION / 6;

	if (strlen(definition) > longest)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the definition of the model is too long"),
				 errdetail("As JSON it has %zu bytes, more than %zu.", strlen(definition), longest),
				 errhint("If its source is a long query, make a view of it.")));
}

/* The arguments of a call by their names. */
char *
gk_definition(FunctionCallInfo fcinfo)
{
	HeapTuple	function = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid));
	StringInfoData json;
	Oid		   *types;
	char	  **names;
	char	   *modes;
	int			given;

	if (!HeapTupleIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", fcinfo->flinfo->fn_oid)));
	(void) get_func_arg_info(function, &types, &names, &modes);
	ReleaseSysCache(function);
	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	append_path(&json);
	for (int i = 0; i < PG_NARGS(); i++)
	{
		if (PG_ARGISNULL(i) || !gk_is_definition_key(names[i]) ||
			is_given(names[i], types[i], PG_GETARG_DATUM(i)))
			continue;
		check_strings(names[i], PG_GETARG_DATUM(i));
		/* it has a default, and says nothing where k is not chosen */
		if (strcmp(names[i], "criterion") == 0 && PG_ARGISNULL(i - 1))
			continue;
		appendStringInfoString(&json, ", ");
		escape_json(&json, names[i]);
		appendStringInfoString(&json, ": ");
		append_value(&json, types[i], PG_GETARG_DATUM(i));
	}
	given = centroids_given(fcinfo, names);
	if (given > 0)
		appendStringInfo(&json, ", \"k\": %d", given);
	appendStringInfoChar(&json, '}');
	gk_check_definition(json.data);
	return json.data;
}

/* Adds the features that were chosen. */
char *
gk_define_features(const char *definition, ArrayType *features)
{
	StringInfoData json;

	initStringInfo(&json);
	appendBinaryStringInfo(&json, definition, strlen(definition) - 1);
	if (json.len > 1)
		appendStringInfoString(&json, ", ");
	appendStringInfoString(&json, "\"features\": ");
	append_texts(&json, features);
	appendStringInfoChar(&json, '}');
	return json.data;
}

/* Adds a number of clusters. */
Jsonb *
gk_define_k(const Jsonb *definition, int64 k)
{
	char	   *json = psprintf("{\"k\": " INT64_FORMAT "}", k);
	Datum		added = DirectFunctionCall1(jsonb_in, CStringGetDatum(json));

	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(definition), added));
}

/* The default of the definition in the catalogs; NULL if it has none. */
static const char *
default_of(Relation relation)
{
	const TupleConstr *constraints = RelationGetDescr(relation)->constr;

	for (int i = 0; constraints != NULL && i < constraints->num_defval; i++)
		if (constraints->defval[i].adnum == GK_MODEL_DEFINITION)
			return constraints->defval[i].adbin;
	return NULL;
}

/* True if a default is too long: nothing ends PostgreSQL's reading of it. */
static bool
is_long(const char *text)
{
	return text != NULL && strlen(text) > GK_MOST_DEFINITION;
}

/* The definition of a model; NULL if its default is something else, or too long. */
static Jsonb *
find_definition(Relation relation)
{
	const char *text = default_of(relation);
	Node	   *node = text != NULL && !is_long(text) ? stringToNode(text) : NULL;
	Const	   *constant = node != NULL && IsA(node, Const) ? (Const *) node : NULL;
	Jsonb	   *definition = NULL;

	if (constant != NULL && constant->consttype == JSONBOID && !constant->constisnull)
		definition = DatumGetJsonbPCopy(constant->constvalue);
	return definition != NULL && JB_ROOT_IS_OBJECT(definition) ? definition : NULL;
}

/* The definition of a model. */
Jsonb *
gk_model_definition(Relation relation)
{
	Jsonb	   *definition = find_definition(relation);

	if (is_long(default_of(relation)))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the definition of model \"%s\" is too long", gk_model_name(relation)),
				 errdetail("In the catalogs it has %zu bytes, more than %zu.",
						   strlen(default_of(relation)), GK_MOST_DEFINITION),
				 errhint("Set a shorter default of the column \"definition\" with ALTER TABLE.")));
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("model \"%s\" has no definition", gk_model_name(relation)),
				 errdetail("The default of its column \"definition\" is not a constant JSON "
						   "object.")));
	return definition;
}

/* The labels table that the definition of a model names; NULL if it names none. */
char *
gk_defined_labels_table(Relation relation)
{
	const Jsonb *definition = find_definition(relation);

	return definition == NULL ? NULL : gk_definition_text(definition, "labels_table");
}

/* True if a name means the labels table that a definition names. */
bool
gk_is_defined_labels_table(const Jsonb *definition, const char *name)
{
	const char *defined = gk_definition_text(definition, "labels_table");

	return defined != NULL && gk_is_same_table(defined, name);
}

/* True if a definition is that of a model. */
bool
gk_is_defined_as(Relation relation, const char *definition)
{
	Jsonb	   *now = find_definition(relation);
	Jsonb	   *other = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(definition)));

	return now != NULL && compareJsonbContainers(&now->root, &other->root) == 0;
}

/* A definition without a key. */
static Datum
without(Datum definition, const char *key)
{
	return DirectFunctionCall2(jsonb_delete, definition, CStringGetTextDatum(key));
}

/* The definition of a model that gets an imported version. */
char *
gk_define_again(Relation relation, const char *imported, bool is_scaled)
{
	static const char *const of_choice[] = {"k_candidates", "criterion"};
	Jsonb	   *now = find_definition(relation);
	Datum		kept = JsonbPGetDatum(now);
	Datum		added = DirectFunctionCall1(jsonb_in, CStringGetDatum(imported));
	const char *scale;

	/* by the search path of a source, the tables of the old definition could be others */
	if (now == NULL || gk_definition_text(DatumGetJsonbP(added), "source") != NULL)
		return pstrdup(imported);
	for (int i = 0; i < lengthof(of_choice); i++)
		kept = without(kept, of_choice[i]);
	/* a refit keeps the scale of the version, and finds one anew as it is called here */
	scale = gk_definition_text(now, "scale");
	if (!is_scaled || (scale != NULL && strcmp(scale, "none") == 0))
		kept = without(kept, "scale");
	/* by which the names that stay are found */
	if (gk_definition_text(now, "search_path") != NULL)
		added = without(added, "search_path");
	now = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, kept, added));
	return JsonbToCString(NULL, &now->root, VARSIZE(now));
}

/* The current search path, as part of a definition. */
Jsonb *
gk_search_path_json(void)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	append_path(&json);
	appendStringInfoChar(&json, '}');
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}

/* The value at a key; false if there is none, or if the container is no object. */
bool
gk_json_find(JsonbContainer *object, const char *key, JsonbValue *value)
{
	return JsonContainerIsObject(object) &&
		getKeyJsonValueFromContainer(object, key, strlen(key), value) != NULL;
}

/* A text in an object; NULL if it is not there or no text. */
static char *
text_in(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	if (!gk_json_find(object, key, &value) || value.type != jbvString)
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* A text in a definition. */
char *
gk_definition_text(const Jsonb *definition, const char *key)
{
	return text_in((JsonbContainer *) &definition->root, key);
}

/* A text among the options of a definition. */
char *
gk_definition_option(const Jsonb *definition, const char *key)
{
	JsonbValue	options;

	if (!gk_json_find((JsonbContainer *) &definition->root, "options", &options) ||
		options.type != jbvBinary)
		return NULL;
	return text_in(options.val.binary.data, key);
}

/* True if a search path names the schema of temporary tables. */
static bool
names_temporary(const char *path)
{
	List	   *schemas;
	ListCell   *cell;

	if (!SplitIdentifierString(pstrdup(path), ',', &schemas))
		return false;
	foreach(cell, schemas)
		if (strcmp(lfirst(cell), "pg_temp") == 0)
			return true;
	return false;
}

/*
 * Sets the search path of a definition, and how its constants are read.  Unless it names the schema
 * of temporary tables, these would come first.  In a function that acts as another role they are
 * the caller's, who must not replace that role's tables.
 */
void
gk_use_definition_path(const Jsonb *definition)
{
	const char *path = gk_definition_text(definition, "search_path");

	if (path == NULL || strspn(path, " \t\n\r\f\v") == strlen(path))
		path = "pg_catalog";
	check_length(path, "Set a shorter one with gkmeans_alter_model().");
	if (GetUserId() != GetOuterUserId() && !names_temporary(path))
		path = psprintf("%s, pg_temp", path);
	gk_set_locally("search_path", path);
	gk_set_locally("standard_conforming_strings", "on");
}

/* The definition of a model for its owner. */
Jsonb *
gk_own_definition(Relation relation, const char *hint)
{
	if (relation->rd_rel->relowner != GetUserId())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to use the definition of model \"%s\"",
						gk_model_name(relation)),
				 errdetail("It is the text of the model's owner, and would run as you."),
				 errhint("%s", hint)));
	return gk_model_definition(relation);
}

/*
 * True if a snapshot sees the definition of a model and no other: each is a row of a catalog.  One
 * that others have replaced can be seen beside one that the transaction has written since.
 */
static bool
is_seen(Relation relation, Snapshot snapshot)
{
	Relation	catalog = table_open(AttrDefaultRelationId, AccessShareLock);
	Oid			now = GetAttrDefaultOid(RelationGetRelid(relation), GK_MODEL_DEFINITION);
	bool		has_other = false;
	int			count = 0;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&keys[0], Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(relation)));
	ScanKeyInit(&keys[1], Anum_pg_attrdef_adnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(GK_MODEL_DEFINITION));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, snapshot, 2, keys);
	for (; HeapTupleIsValid(row = systable_getnext(scan)); count++)
		has_other |= ((Form_pg_attrdef) GETSTRUCT(row))->oid != now;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return !has_other && (count > 0 || !OidIsValid(now));
}

/* Raises 40001 if others have changed the definition of a model since the transaction began. */
void
gk_check_definition_is_seen(Relation relation)
{
	if (IsolationUsesXactSnapshot() && !is_seen(relation, GetTransactionSnapshot()))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("The definition of model \"%s\" was changed after this transaction "
						   "began.", gk_model_name(relation))));
}

/* The snapshot for what is read by a definition that was changed since the active one. */
static Snapshot
newer_snapshot(Relation relation)
{
	Snapshot	active = GetActiveSnapshot();

	gk_check_definition_is_seen(relation);
	if (IsolationUsesXactSnapshot())
		return is_seen(relation, active) ? active : GetTransactionSnapshot();
	return gk_is_changed(list_make1_oid(RelationGetRelid(relation)), NIL, active)
		? GetLatestSnapshot() : active;
}

/* Pushes the snapshot for what is read by a definition. */
void
gk_push_definition_snapshot(Oid model, bool of_definition)
{
	Relation	relation;

	EnsurePortalSnapshotExists();
	if (!of_definition || IsInParallelMode())
	{
		PushActiveSnapshot(GetActiveSnapshot());
		return;
	}
	/* waits for whoever changes it */
	relation = gk_open_model(model);
	PushActiveSnapshot(newer_snapshot(relation));
	relation_close(relation, NoLock);
}

/* Raises the error of a definition without a source. */
void
gk_model_has_no_source(Relation relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("model \"%s\" has no source", gk_model_name(relation)),
			 errdetail("Its definition does not name one."),
			 errhint("Give one as source.")));
}

/* The source of an argument, or of the definition of a model. */
char *
gk_source_argument(FunctionCallInfo fcinfo, int number, Oid model)
{
	Relation	relation;
	const Jsonb *definition;
	char	   *source;

	if (!PG_ARGISNULL(number))
		return text_to_cstring(PG_GETARG_TEXT_PP(number));
	relation = gk_open_model(model);
	definition = gk_own_definition(relation, "Give a source, or let the owner of the model "
								   "call this function.");
	source = gk_definition_text(definition, "source");
	if (source == NULL)
		gk_model_has_no_source(relation);
	gk_use_definition_path(definition);
	relation_close(relation, NoLock);
	return source;
}

/* A number in a JSON object. */
double
gk_json_number(JsonbContainer *object, const char *key)
{
	JsonbValue	value;
	double		number;

	if (!gk_json_find(object, key, &value) || value.type != jbvNumeric)
		return NAN;
	number = gk_numeric_value(NumericGetDatum(value.val.numeric));
	return isfinite(number) ? number : NAN;
}

/* The report of a fit. */
char *
gk_report_json(const GkReport *report)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"engine\": ");
	escape_json(&json, report->engine);
	appendStringInfoString(&json, ", \"engine_reason\": ");
	escape_json(&json, report->engine_reason);
	appendStringInfo(&json, ", \"devices\": %d, \"threads\": %d, \"workers\": %d, "
					 "\"read_twice\": %s, \"best_start\": %d", report->usage.devices,
					 report->usage.threads, report->workers, report->read_twice ? "true" : "false",
					 report->best_start + 1);
	appendStringInfo(&json, ", \"open_seconds\": %.6f, \"read_seconds\": %.6f, "
					 "\"prepare_seconds\": %.6f, \"seed_seconds\": %.6f, "
					 "\"iterate_seconds\": %.6f, \"label_seconds\": %.6f, "
					 "\"measure_seconds\": %.6f}",
					 report->open_seconds, report->read_seconds, report->prepare_seconds,
					 report->seed_seconds, report->iterate_seconds, report->label_seconds,
					 report->measure_seconds);
	return json.data;
}

/* Appends a key and a number, null if it is not finite. */
void
gk_append_json_number(StringInfo json, const char *key, double number)
{
	char		buffer[DOUBLE_SHORTEST_DECIMAL_LEN] = "null";

	if (isfinite(number))
		double_to_shortest_decimal_buf(number, buffer);
	appendStringInfo(json, ", \"%s\": %s", key, buffer);
}

/* The iterations of a fit. */
char *
gk_history_json(const GkHistory *history)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '[');
	for (int i = 0; i < history->count; i++)
	{
		const GkIteration *iteration = &history->iterations[i];

		appendStringInfo(&json, "%s{\"start\": %d, \"iteration\": %d", i > 0 ? ", " : "",
						 iteration->start, iteration->iteration);
		gk_append_json_number(&json, "inertia", iteration->inertia);
		gk_append_json_number(&json, "shift", iteration->shift);
		gk_append_json_number(&json, "moved",
							  iteration->moved < 0 ? NAN : (double) iteration->moved);
		appendStringInfoChar(&json, '}');
	}
	appendStringInfoChar(&json, ']');
	return json.data;
}
