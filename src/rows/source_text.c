/*
 * The text of a source: a relation name or one statement that yields rows.
 *
 * The statement is parsed by itself before it is put into parentheses, so nothing
 * in it can end them early.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "settings.h"
#include "source_text.h"

#define SOURCE_HINT "The source is the name of a relation, or one SELECT, VALUES, TABLE or WITH."

/* The settings: how names are looked up, how tokens are read, and how constants are converted. */
static const char *const text_settings[GK_TEXT_SETTINGS] = {
	"search_path", "standard_conforming_strings", "backslash_quote", "client_encoding",
	"transform_null_equals", "array_nulls", "xmloption", "DateStyle", "IntervalStyle", "TimeZone",
	"timezone_abbreviations", "lc_monetary"
};

/* The settings as they are now. */
GkTextSettings
gk_text_settings(void)
{
	GkTextSettings settings;

	for (int i = 0; i < GK_TEXT_SETTINGS; i++)
		settings.values[i] = pstrdup(GetConfigOption(text_settings[i], false, false));
	return settings;
}

/* True if a setting has another value by now. */
static bool
is_other(int i, const GkTextSettings *settings)
{
	return strcmp(GetConfigOption(text_settings[i], false, false), settings->values[i]) != 0;
}

/* Sets the first ones; to set one again can read a file. */
void
gk_set_text_settings(const GkTextSettings *settings, int count)
{
	for (int i = 0; i < count; i++)
		if (is_other(i, settings))
			gk_set_locally(text_settings[i], settings->values[i]);
}

/* Sets back those of the first that were set otherwise, as SET LOCAL does. */
void
gk_restore_text_settings(const GkTextSettings *before, int count)
{
	for (int i = 0; i < count; i++)
		if (is_other(i, before))
			(void) set_config_option(text_settings[i], before->values[i], PGC_USERSET,
									 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/* True if the text could be a name: SplitIdentifierString() accepts more. */
static bool
looks_like_name(const char *source)
{
	bool		quoted = false;

	for (const char *c = source; *c != '\0'; c++)
	{
		if (*c == '"')
			quoted = !quoted;
		else if (!quoted && !IS_HIGHBIT_SET(*c) && !isalnum((unsigned char) *c) &&
				 !isspace((unsigned char) *c) && strchr("_$.", *c) == NULL)
			return false;
	}
	return true;
}

/* The quoted name of a relation, or NULL if the text is not one. */
static char *
relation_name(const char *source)
{
	List	   *parts;
	ListCell   *cell;
	StringInfoData name;

	if (strlen(source) > GK_LONGEST_NAME || !looks_like_name(source) ||
		!SplitIdentifierString(pstrdup(source), '.', &parts) || parts == NIL)
		return NULL;
	initStringInfo(&name);
	foreach(cell, parts)
		appendStringInfo(&name, "%s%s", name.len > 0 ? "." : "", quote_identifier(lfirst(cell)));
	return name.data;
}

/* Reports that the text is not a valid source. */
static void
refuse(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("%s", message),
			 errhint("%s", hint)));
}

/* Refuses what would change or lock rows, anywhere in a statement. */
static bool
refuse_changes(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_SelectStmt:
			if (((SelectStmt *) node)->intoClause != NULL)
				refuse("source must not be a SELECT INTO", "Leave out INTO: a source only reads.");
			if (((SelectStmt *) node)->lockingClause != NIL)
				refuse("source must not lock rows", "Leave out FOR UPDATE and FOR SHARE.");
			break;
		case T_InsertStmt:
		case T_UpdateStmt:
		case T_DeleteStmt:
		case T_MergeStmt:
			refuse("source must not change rows", "Change them in a statement before the fit.");
			break;
		default:
			break;
	}
	return raw_expression_tree_walker(node, refuse_changes, context);
}

/* Shows a syntax error in the text of the source, not in the statement that called us. */
static void
locate_error(void *arg)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery((const char *) arg);
	}
	if (geterrcode() == ERRCODE_SYNTAX_ERROR)
		errhint(SOURCE_HINT);
}

/* Parses the text. */
static List *
parse(const char *source)
{
	ErrorContextCallback callback = {.callback = locate_error, .arg = unconstify(char *, source)};
	List	   *statements;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	statements = raw_parser(source, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return statements;
}

/* Turns the user's text into what follows FROM. */
GkSourceText *
gk_source_text(const char *source)
{
	GkSourceText *text = palloc0(sizeof(GkSourceText));
	List	   *statements;
	RawStmt    *statement;
	int			length;

	text->source = source;
	text->settings = gk_text_settings();
	text->from = relation_name(source);
	text->is_name = text->from != NULL;
	if (text->is_name)
		return text;
	statements = parse(source);
	if (list_length(statements) != 1)
		refuse(statements == NIL ? "source is empty" : "source must be a single statement",
			   SOURCE_HINT);
	statement = linitial_node(RawStmt, statements);
	if (!IsA(statement->stmt, SelectStmt))
		refuse("source must be a SELECT, VALUES, TABLE or WITH statement", SOURCE_HINT);
	refuse_changes(statement->stmt, NULL);

	text->location = statement->stmt_location;
	length = statement->stmt_len > 0 ? statement->stmt_len :
		(int) strlen(source) - statement->stmt_location;
	text->from = psprintf("(\n%.*s\n)", length, source + statement->stmt_location);
	return text;
}

/* The same by settings of before. */
GkSourceText *
gk_source_text_by(const char *source, const GkTextSettings *settings)
{
	int			nest_level = NewGUCNestLevel();
	GkSourceText *text;

	gk_set_text_settings(settings, GK_TEXT_SETTINGS);
	text = gk_source_text(source);
	AtEOXact_GUC(true, nest_level);
	return text;
}
