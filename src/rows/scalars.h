/*
 * Columns that each hold one feature: from the arguments of a row to doubles, type by type.
 */
#ifndef GK_SCALARS_H
#define GK_SCALARS_H

#include "postgres.h"

#include "decode.h"

/* Columns in the order of their types; opaque. */
typedef struct GkScalars GkScalars;

/* Plans the decoding of columns; allocates in the current memory context. */
extern GkScalars *gk_plan_scalars(const GkColumn *columns, int count);

/* Decodes a row of `count` arguments into as many doubles, none of which is -0. */
extern GkDecoded gk_decode_row(const GkScalars *scalars, const NullableDatum *arguments,
							   double *values);

#endif							/* GK_SCALARS_H */
