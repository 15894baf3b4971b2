/*
 * Prepares the rows of a fit: scaling, normalising, and the grids of the sums.
 */
#ifndef GK_PREPARE_H
#define GK_PREPARE_H

#include "postgres.h"

#include "fit_spec.h"
#include "job.h"

typedef struct GkPrepared
{
	double	   *offset;			/* dimension: a stored feature is … */
	double	   *factor;			/* dimension: … (value - shift - offset) × factor */
	double		greatest_weight;
	double	   *mean;			/* dimension: of the features as stored */
	double	   *variance;
	float	   *least;
	float	   *greatest;
	double	   *left_out_mean;	/* dimension: as stored, but not scaled, where the factor is 0 … */
	double	   *left_out_variance;	/* … and the feature is no longer constant; NULL = it is */
	double		mean_variance;
	int			value_bits;		/* of a value in a sum over all rows */
	int			rest_bits;		/* of the grid of the centroids; 0 if it is not wide */
	int		   *exponents;		/* dimension: of the grid of the centroids */
	int			weight_exponent;
	double		seconds;		/* that all this took */
	double		total;			/* Σ weight × d² to the mean of all rows; NaN = not found yet */
	double		single;			/* the inertia of a single cluster */
	double		total_to_origin;	/* as total, to the origin of the grid, which is near it */
} GkPrepared;

/* Seals the rows, transforms them as the spec asks, and sets the grid. */
extern void gk_prepare(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared);

/* Makes a vector of reals one of length 1; false if it has no direction. */
extern bool gk_make_unit(double *vector, int dimension);

/* Converts centroids from the user's units to the engine's. */
extern void gk_to_stored(const GkFitSpec *spec, const GkPrepared *prepared,
						 const double *from, int64 count, double *to);

/* And back; unit vectors stay as they are. */
extern void gk_to_user(const GkFitSpec *spec, const GkPrepared *prepared,
					   const double *from, int64 count, double *to);

#endif							/* GK_PREPARE_H */
