/*
 * Measures durations, for the report of a fit.
 */
#ifndef GK_SECONDS_H
#define GK_SECONDS_H

#include "portability/instr_time.h"

/* Seconds since `begin`. */
static inline double
gk_seconds_since(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

#endif							/* GK_SECONDS_H */
