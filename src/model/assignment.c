/*
 * What gkmeans_assign() is asked for: its arguments, and where they are left out, the definition of
 * the model.
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "assignment.h"
#include "definition.h"
#include "model.h"
#include "sql_values.h"
#include "table_name.h"

/* Places of the arguments. */
enum
{
	MODEL,
	SOURCE,
	ID_COLUMN,
	LABELS_TABLE,
	LABELS_MODE,
	CHANGES_TABLE,
	VERSION
};

/* The name of a table, qualified by the current search path; NULL for NULL. */
static const char *
qualify(const char *argument, const char *name)
{
	return name != NULL ? gk_quoted_name(gk_table_name(argument, name)) : NULL;
}

/* What is to be done where the table exists: it was made by an earlier call, if it must be new. */
static GkIfExists
mode_of_definition(const Jsonb *definition)
{
	const char *word = gk_definition_text(definition, "labels_mode");
	GkIfExists	mode = word != NULL ? gk_if_exists("labels_mode", word) : GK_EXISTS_MERGE;

	return mode == GK_EXISTS_ERROR ? GK_EXISTS_MERGE : mode;
}

/*
 * Where and how the labels are written by the definition; a mode that was asked for stays.  What it
 * says of them does not go for another table.
 */
static void
define_labels(GkArguments *arguments, const Jsonb *definition, bool has_mode)
{
	if (arguments->labels_table == NULL)
		arguments->labels_table = qualify("labels_table",
										  gk_definition_text(definition, "labels_table"));
	else if (!gk_is_defined_labels_table(definition, arguments->labels_table))
		return;
	arguments->id_name = gk_definition_option(definition, "id_name");
	if (!has_mode)
		arguments->if_exists = mode_of_definition(definition);
	if (arguments->changes_table == NULL && arguments->if_exists == GK_EXISTS_MERGE)
		arguments->changes_table = qualify("changes_table",
										   gk_definition_text(definition, "changes_table"));
}

/* Fills in what was left out. */
static void
define(GkAssignRequest *assignment, bool has_mode)
{
	GkArguments *arguments = &assignment->arguments;
	bool		has_source = arguments->source.source != NULL;
	Relation	relation = gk_open_model(assignment->model);
	const Jsonb *definition;

	definition = gk_own_definition(relation, "Name source, id_column and labels_table, or "
								   "let the owner of the model call this function.");
	gk_use_definition_path(definition);
	if (!has_source)
		arguments->source.source = gk_definition_text(definition, "source");
	if (arguments->source.source == NULL)
		gk_model_has_no_source(relation);
	if (arguments->source.id_column == NULL)
		arguments->source.id_column = gk_definition_text(definition, "id_column");
	define_labels(arguments, definition, has_mode);
	/* a source that was given is looked up as the caller does */
	if (has_source)
	{
		gk_end_assignment(assignment);
		assignment->nest_level = NewGUCNestLevel();
	}
	relation_close(relation, NoLock);
}

/* True if the caller named all that an assignment needs. */
static bool
is_complete(const GkArguments *arguments)
{
	return arguments->source.source != NULL && arguments->source.id_column != NULL &&
		arguments->labels_table != NULL;
}

/* True if a definition is needed, or says how the caller's own labels are written. */
static bool
is_defined(const GkAssignRequest *assignment)
{
	Relation	relation = gk_open_model(assignment->model);
	bool		is_needed = !is_complete(&assignment->arguments);

	if (relation->rd_rel->relowner == GetUserId())
	{
		/* the labels table may have been the model's own when the transaction began */
		gk_check_definition_is_seen(relation);
		is_needed |= gk_defined_labels_table(relation) != NULL;
	}
	relation_close(relation, NoLock);
	return is_needed;
}

/* Raises an error if something is said nowhere. */
static void
check_value(const char *value, const char *argument)
{
	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s is NULL", argument),
				 errdetail("The definition of the model does not name one."),
				 errhint("Name it in the call, or for all calls with gkmeans_alter_model().")));
}

/* Reads what is asked for. */
void
gk_begin_assignment(FunctionCallInfo fcinfo, GkAssignRequest *assignment)
{
	GkArguments *arguments = &assignment->arguments;
	const char *mode = gk_text_or(fcinfo, LABELS_MODE, NULL);

	memset(assignment, 0, sizeof(*assignment));
	assignment->nest_level = NewGUCNestLevel();
	gk_require_argument(fcinfo, MODEL, "model");
	assignment->model = PG_GETARG_OID(MODEL);
	assignment->version = gk_version_argument(fcinfo, VERSION);
	arguments->source.source = gk_text_or(fcinfo, SOURCE, NULL);
	arguments->source.id_column = gk_text_or(fcinfo, ID_COLUMN, NULL);
	arguments->labels_table = qualify("labels_table", gk_text_or(fcinfo, LABELS_TABLE, NULL));
	arguments->changes_table = qualify("changes_table", gk_text_or(fcinfo, CHANGES_TABLE, NULL));
	arguments->if_exists = mode != NULL ? gk_if_exists("labels_mode", mode) : GK_EXISTS_MERGE;
	if (is_defined(assignment))
		define(assignment, mode != NULL);
	check_value(arguments->source.id_column, "id_column");
	check_value(arguments->labels_table, "labels_table");
}

/* Sets the search path back. */
void
gk_end_assignment(const GkAssignRequest *assignment)
{
	AtEOXact_GUC(false, assignment->nest_level);
}
