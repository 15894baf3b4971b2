/*
 * Parameters of connections as libpq writes them.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"

#include "conninfo.h"

/* Raises the error that parameters cannot be read; they may hold a password. */
__attribute__((noreturn))
static void
refuse(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("cannot read the connection parameters of Citus"),
			 errhint("They are in citus.node_conninfo and pg_dist_authinfo.")));
}

/* Skips space. */
static const char *
skip_space(const char *text)
{
	while (isspace((unsigned char) *text))
		text++;
	return text;
}

/* Reads a name, and the sign behind it. */
static const char *
read_name(const char *text, const char **name)
{
	const char *begin = text;

	while (isalnum((unsigned char) *text) || *text == '_')
		text++;
	*name = pnstrdup(begin, text - begin);
	text = skip_space(text);
	if (**name == '\0' || *text != '=')
		refuse();
	return skip_space(text + 1);
}

/* Reads a value, in quotes or up to a space; a backslash stands before a character as it is. */
static const char *
read_value(const char *text, const char **value)
{
	bool		quoted = *text == '\'';
	StringInfoData read;

	initStringInfo(&read);
	if (quoted)
		text++;
	while (*text != '\0' && (quoted ? *text != '\'' : !isspace((unsigned char) *text)))
	{
		if (*text == '\\' && text[1] != '\0')
			text++;
		appendStringInfoChar(&read, *text++);
	}
	if (quoted && *text++ != '\'')
		refuse();
	*value = read.data;
	return text;
}

/* Reads parameters. */
int
gk_read_conninfo(const char *text, const char **keywords, const char **values, int count, int limit)
{
	text = skip_space(text);
	while (*text != '\0')
	{
		if (count == limit)
			refuse();
		text = read_name(text, &keywords[count]);
		text = skip_space(read_value(text, &values[count++]));
	}
	return count;
}
