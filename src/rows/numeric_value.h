/*
 * A numeric as a double, from its digits.
 */
#ifndef GK_NUMERIC_VALUE_H
#define GK_NUMERIC_VALUE_H

#include "postgres.h"

/*
 * The double nearest to a numeric: the bits of CAST(… AS float8).  Values that the cast refuses
 * are infinite or 0; detoasts into the current memory context.
 */
extern double gk_numeric_value(Datum value);

#endif							/* GK_NUMERIC_VALUE_H */
