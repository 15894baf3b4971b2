/*
 * The tasks of a plan of Citus.
 *
 * They are in nodes of types that Citus has defined, which PostgreSQL can write as text:
 * "{TYPE :name value …}", where a value is a token, a node, or a list of values in parentheses.
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodes.h"
#include "nodes/readfuncs.h"

#include "alloc.h"
#include "citus_plan.h"

/* A token of the text, not terminated; NULL = its end. */
typedef struct Token
{
	const char *text;
	int			length;
} Token;

/* True if a character is a token of its own. */
static bool
is_bracket(char c)
{
	return c == '(' || c == ')' || c == '{' || c == '}';
}

/* Takes the next token; a backslash makes the next character a part of it. */
static Token
next_token(const char **at)
{
	const char *end = *at + strspn(*at, " \n\t");
	Token		token = {end, 1};

	if (*end == '\0')
		return (Token) {0};
	if (is_bracket(*end))
		end++;
	else
		while (*end != '\0' && strchr(" \n\t", *end) == NULL && !is_bracket(*end))
			end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
	token.length = end - token.text;
	*at = end;
	return token;
}

/* True if a token is that text. */
static bool
is_token(Token token, const char *text)
{
	return token.text != NULL && token.length == (int) strlen(text) &&
		memcmp(token.text, text, token.length) == 0;
}

/* Passes a value: a token, or all of a node or list. */
static void
pass_value(const char **at)
{
	int			depth = 0;
	Token		token;

	do
	{
		token = next_token(at);
		if (is_token(token, "{") || is_token(token, "("))
			depth++;
		else if (is_token(token, "}") || is_token(token, ")"))
			depth--;
	} while (token.text != NULL && depth > 0);
}

/* The value of a node's field; NULL if there is no such node or field. */
static const char *
find_field(const char *node, const char *name)
{
	const char *at = node;
	Token		token;

	if (node == NULL || !is_token(next_token(&at), "{"))
		return NULL;
	while ((token = next_token(&at)).text != NULL && !is_bracket(*token.text))
	{
		if (is_token(token, name))
			return at;
		if (*token.text == ':')
			pass_value(&at);
	}
	return NULL;
}

/* True if a node has a field with that value. */
static bool
has_field(const char *node, const char *name, const char *value)
{
	const char *at = find_field(node, name);

	return at != NULL && is_token(next_token(&at), value);
}

/* A field that is a string; NULL if there is none. */
static char *
find_text(const char *node, const char *name)
{
	const char *at = find_field(node, name);
	Token		token = at == NULL ? (Token) {0} : next_token(&at);

	if (token.text == NULL || is_bracket(*token.text) || is_token(token, "<>"))
		return NULL;
	return debackslash(token.text, token.length);
}

/* Moves to the next node of a list, whose begin was passed; NULL at its end. */
static const char *
next_node(const char **at)
{
	const char *node = *at;
	const char *begin = *at;

	if (!is_token(next_token(&begin), "{"))
		return NULL;
	pass_value(at);
	return node;
}

/* The nodes of a list, for next_node(); NULL if the field is no list. */
static const char *
find_list(const char *node, const char *name)
{
	const char *at = find_field(node, name);

	return at != NULL && is_token(next_token(&at), "(") ? at : NULL;
}

/* Reads a task, which goes to the first of its placements; false if it is not as expected. */
static bool
read_task(const char *node, GkCitusTask *task)
{
	const char *placements = find_list(node, ":taskPlacementList");
	const char *placement = placements == NULL ? NULL : next_node(&placements);
	char	   *host = find_text(placement, ":nodeName");
	char	   *port = find_text(placement, ":nodePort");

	task->query = find_text(node, ":taskQuery.data.queryStringLazy");
	if (task->query == NULL || host == NULL || port == NULL)
		return false;
	task->address = psprintf("host=%s port=%s dbname=%s", host, port,
							 get_database_name(MyDatabaseId));
	return true;
}

/* Reads the tasks of a job; false if they are not all known yet, or not as expected. */
static bool
read_job(const char *job, GkCitusTasks *tasks)
{
	const char *list = find_list(job, ":taskList");
	const char *at = list;
	const char *node;

	if (list == NULL || !has_field(job, ":deferredPruning", "false"))
		return false;
	tasks->count = 0;
	while (next_node(&at) != NULL)
		tasks->count++;
	tasks->all = gk_allocate(Max(tasks->count, 1), sizeof(GkCitusTask));
	for (int i = 0; i < tasks->count; i++)
		if ((node = next_node(&list)) == NULL || !read_task(node, &tasks->all[i]))
			return false;
	return tasks->count > 0 && is_token(next_token(&at), ")");
}

/* True if a plan is that of tasks of Citus and nothing else. */
bool
gk_citus_plan_is_of_tasks(const PlannedStmt *plan)
{
	const CustomScan *scan = (const CustomScan *) plan->planTree;

	return scan != NULL && IsA(scan, CustomScan) &&
		strcmp(scan->methods->CustomName, "Citus Adaptive") == 0 &&
		scan->scan.plan.lefttree == NULL && scan->custom_plans == NIL;
}

/* True if this server passes on the columns of the tasks as they are, and none of them twice. */
static bool
passes_columns(const CustomScan *scan)
{
	Bitmapset  *passed = NULL;
	ListCell   *cell;

	foreach(cell, scan->scan.plan.targetlist)
	{
		const Var  *column = (const Var *) lfirst_node(TargetEntry, cell)->expr;
		const TargetEntry *remote;

		if (!IsA(column, Var) || column->varattno <= 0 ||
			column->varattno > list_length(scan->custom_scan_tlist) ||
			bms_is_member(column->varattno, passed))
			return false;
		remote = list_nth_node(TargetEntry, scan->custom_scan_tlist, column->varattno - 1);
		if (!IsA(remote->expr, Var))
			return false;
		passed = bms_add_member(passed, column->varattno);
	}
	return scan->scan.plan.qual == NIL;
}

/*
 * True if a field of a node is a list that is not empty.  Where one server has all rows, the text
 * of the plan ends within its task, and such fields are not there.
 */
static bool
has_steps(const char *node, const char *name)
{
	return find_field(node, name) != NULL && !has_field(node, name, "<>");
}

/* Reads the tasks of a plan. */
const char *
gk_citus_plan_tasks(const PlannedStmt *plan, GkCitusTasks *tasks)
{
	const CustomScan *scan = (const CustomScan *) plan->planTree;
	const char *text;
	const char *job;

	if (!gk_citus_plan_is_of_tasks(plan) || !passes_columns(scan) ||
		list_length(scan->custom_private) != 1)
		return "Citus leaves part of the source to this server";
	text = nodeToString(linitial(scan->custom_private));
	job = find_field(text, ":workerJob");
	if (has_steps(text, ":subPlanList") || has_steps(job, ":dependentJobList"))
		return "Citus reads the source in several steps";
	return read_job(job, tasks) ? NULL : "Citus shows no tasks of the source";
}
