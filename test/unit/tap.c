/*
 * Results of tests as TAP.
 */
#include <stdarg.h>
#include <stdio.h>

#include "tap.h"

static int	tests = 0;
static int	failures = 0;

/* Reports a test. */
void
ok(bool good, const char *format, ...)
{
	va_list		arguments;

	printf("%sok %d - ", good ? "" : "not ", ++tests);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	failures += !good;
}

/* Prints the plan; the exit status of the program. */
int
done_testing(void)
{
	printf("1..%d\n", tests);
	return failures > 0;
}
