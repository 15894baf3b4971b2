/*
 * Results of tests as TAP.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>

/* Reports a test. */
extern void ok(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the plan; the exit status of the program. */
extern int	done_testing(void);

#endif							/* TAP_H */
