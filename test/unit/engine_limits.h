/*
 * Data sets at the limits of the arithmetic, in random shapes.
 */
#ifndef ENGINE_LIMITS_H
#define ENGINE_LIMITS_H

#include "engine_cases.h"

/* The size of a data set. */
typedef struct Shape
{
	int64_t		n;
	int			d;
	int64_t		k;				/* may exceed n */
} Shape;

/* Replaces rows, weights and centroids of a data set. */
extern void fill_at_limits(Data *data);

/* A random shape that the reference engine can do in a moment. */
extern Shape random_shape(void);

#endif							/* ENGINE_LIMITS_H */
