/*
 * Prepares the rows of a fit: scaling, normalising, and the grids of the sums.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "fixed_point.h"
#include "prepare.h"
#include "seconds.h"

/* The smallest maximum of weight × spread² for which the grids of the sums are fine enough. */
#define LEAST_PRODUCT 1e-280

/* Bits that a typical value should have on a grid; if one limb gives fewer, two are used. */
#define ENOUGH_BITS 30

/*
 * A WARNING says so if at most this share of the rows makes a mean so great that typical values are
 * fewer than this many of its steps as a real.
 */
#define FEW_ROWS 0.05
#define FEW_STEPS 8

/* Unscaled features whose standard deviations differ by more than this factor cause a WARNING. */
#define FAR_APART 100.0

/* The profile of the features as currently stored. */
typedef struct Profile
{
	float	   *least;
	float	   *greatest;
	double		greatest_weight;
	double	   *mean;
	double	   *variance;
	double	   *spread;			/* greatest exponent minus the mean exponent */
	double		weight_spread;
} Profile;

/* Allocates a profile. */
static void
allocate_profile(Profile *profile, int dimension)
{
	profile->least = gk_allocate(dimension, sizeof(float));
	profile->greatest = gk_allocate(dimension, sizeof(float));
	profile->mean = gk_allocate(dimension, sizeof(double));
	profile->variance = gk_allocate(dimension, sizeof(double));
	profile->spread = gk_allocate(dimension, sizeof(double));
}

/* Refuses weights with which the arithmetic would overflow, or round everything to zero. */
static void
check_products(const GkFitSpec *spec, const Profile *profile)
{
	double		largest = 1.0;
	double		spread = 0.0;
	double		least;

	for (int j = 0; j < spec->dimension; j++)
	{
		double		range = (double) profile->greatest[j] - profile->least[j];

		largest += 4 * range * range + fabs(profile->least[j]) + fabs(profile->greatest[j]);
		spread += range * range;
	}
	least = profile->greatest_weight * (spread > 0.0 ? Min(spread, 1.0) : 1.0);
	/* the sum over all rows, too */
	if (!isfinite(largest * profile->greatest_weight * (double) spec->rows) ||
		least < LEAST_PRODUCT)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("the products of weights and features are out of range"),
				 least < LEAST_PRODUCT ? errhint("Multiply the weights by a constant.")
				 : errhint("Divide the weights by a constant.")));
}

/* Least and greatest values. */
static void
find_range(GkJob *job, const GkFitSpec *spec, Profile *profile)
{
	GkCommand	command = {.operation = GK_RANGE};

	command.range.least = profile->least;
	command.range.greatest = profile->greatest;
	gk_run(job, &command);
	profile->greatest_weight = command.range.greatest_weight;
	if (!(profile->greatest_weight > 0.0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no row has a weight above zero")));
	check_products(spec, profile);
}

/* Mean and variance of a feature from its sums. */
static void
derive_moments(Profile *profile, const GkCommand *command, int64 rows, int j)
{
	int			rest_bits = command->moments.rest_bits;
	const GkSum *firsts = command->moments.first;
	const GkSum *seconds = command->moments.second;
	double		first = gk_grid_value(firsts[j].high, firsts[j].low,
									  command->moments.first_exponents[j], rest_bits);
	double		second = gk_grid_value(seconds[j].high, seconds[j].low,
									   command->moments.second_exponents[j], rest_bits);

	profile->mean[j] = command->moments.pivot[j] + first / rows;
	profile->variance[j] = Max((second - first * first / rows) / rows, 0.0);
}

/* The difference between the greatest and the mean exponent of some values. */
static double
spread_of(int greatest, int64 exponent_sum, int64 nonzero)
{
	return nonzero == 0 ? 0.0 : greatest - (double) exponent_sum / nonzero;
}

/* The greatest absolute value of a feature. */
static float
largest_of(const Profile *profile, int j)
{
	return Max(fabsf(profile->least[j]), fabsf(profile->greatest[j]));
}

/* Fills in the inputs of GK_MOMENTS. */
static void
describe_moments(const GkFitSpec *spec, const Profile *profile, int bits, GkCommand *command)
{
	int			d = spec->dimension;
	double	   *pivot = gk_allocate(d, sizeof(double));
	int		   *first_exponents = gk_allocate(d, sizeof(int));
	int		   *second_exponents = gk_allocate(d, sizeof(int));

	for (int j = 0; j < d; j++)
	{
		double		range = (double) profile->greatest[j] - profile->least[j];

		pivot[j] = profile->least[j] + range / 2;
		first_exponents[j] = gk_grid_exponent(range, bits);
		second_exponents[j] = gk_grid_exponent(range * range, bits);
	}
	command->moments.pivot = pivot;
	command->moments.first_exponents = first_exponents;
	command->moments.second_exponents = second_exponents;
	command->moments.weight_exponent = gk_grid_exponent(profile->greatest_weight, bits);
	command->moments.rest_bits = bits;
	command->moments.first = gk_allocate(d, sizeof(GkSum));
	command->moments.second = gk_allocate(d, sizeof(GkSum));
	command->moments.exponent_sum = gk_allocate(d + 1, sizeof(int64));
	command->moments.nonzero = gk_allocate(d + 1, sizeof(int64));
}

/* Means, variances and the spread of the exponents. */
static void
find_moments(GkJob *job, const GkFitSpec *spec, Profile *profile, int bits)
{
	GkCommand	command = {.operation = GK_MOMENTS};
	int			d = spec->dimension;

	describe_moments(spec, profile, bits, &command);
	gk_run(job, &command);
	for (int j = 0; j < d; j++)
	{
		derive_moments(profile, &command, spec->rows, j);
		profile->spread[j] = spread_of(gk_exponent(largest_of(profile, j)),
									   command.moments.exponent_sum[j],
									   command.moments.nonzero[j]);
	}
	profile->weight_spread = spread_of(gk_exponent_double(profile->greatest_weight),
									   command.moments.exponent_sum[d],
									   command.moments.nonzero[d]);
}

/* Offset and factor of every feature, by the kind of scaling; a constant feature becomes 0. */
static void
choose_scale(const GkFitSpec *spec, const Profile *profile, GkPrepared *prepared)
{
	for (int j = 0; j < spec->dimension; j++)
	{
		double		unit = 1.0;

		if (spec->scale == GK_SCALE_GIVEN)
		{
			prepared->offset[j] = spec->offset[j];
			prepared->factor[j] = spec->factor[j];
			continue;
		}
		prepared->offset[j] = 0.0;
		if (spec->scale == GK_SCALE_STANDARD)
		{
			prepared->offset[j] = profile->mean[j];
			unit = sqrt(profile->variance[j]);
		}
		else if (spec->scale == GK_SCALE_MINMAX)
		{
			prepared->offset[j] = profile->least[j];
			unit = (double) profile->greatest[j] - profile->least[j];
		}
		prepared->factor[j] = unit > 0.0 ? 1.0 / unit : 0.0;
	}
}

/* The name of a feature: the column's name, or the number of the element. */
static const char *
feature_name(const GkFitSpec *spec, int j)
{
	return spec->names != NULL ? psprintf("\"%s\"", spec->names[j]) : psprintf("%d", j + 1);
}

/* Refuses rows that a scale from elsewhere makes infinite: no sum, label or distance is right. */
static void
check_scaled(const GkFitSpec *spec, const Profile *profile, const GkPrepared *prepared)
{
	for (int j = 0; j < spec->dimension; j++)
	{
		double		least = (profile->least[j] - prepared->offset[j]) * prepared->factor[j];
		double		greatest = (profile->greatest[j] - prepared->offset[j]) * prepared->factor[j];

		if (!gk_is_real(least) || !gk_is_real(greatest))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("feature %s is out of range", feature_name(spec, j)),
					 errdetail("In the scale of the model, it would be infinite in some row."),
					 errhint("Leave such rows out of the source: gkmeans_predict() returns NULL "
							 "for them.")));
	}
}

/* True if a feature has changed that a scale from elsewhere leaves out, as it was constant. */
static bool
has_changed(const Profile *profile, const GkPrepared *prepared, int j)
{
	return prepared->factor[j] == 0.0 && (profile->least[j] != prepared->offset[j] ||
										  profile->greatest[j] != prepared->offset[j]);
}

/* Finds the moments of such features, before the scale makes zeros of them. */
static void
keep_left_out(GkJob *job, const GkFitSpec *spec, const Profile *profile, GkPrepared *prepared)
{
	Profile		before = {.least = profile->least,.greatest = profile->greatest};
	bool		is_any = false;

	for (int j = 0; j < spec->dimension && !is_any; j++)
		is_any = has_changed(profile, prepared, j);
	if (!is_any)
		return;
	before.greatest_weight = profile->greatest_weight;
	before.mean = prepared->left_out_mean = gk_allocate(spec->dimension, sizeof(double));
	before.variance = prepared->left_out_variance = gk_allocate(spec->dimension, sizeof(double));
	before.spread = gk_allocate(spec->dimension, sizeof(double));
	find_moments(job, spec, &before, prepared->value_bits);
}

/* Scales and normalises the rows in place. */
static void
transform(GkJob *job, const GkFitSpec *spec, const GkPrepared *prepared)
{
	GkCommand	command = {.operation = GK_TRANSFORM};

	command.transform.offset = prepared->offset;
	command.transform.factor = prepared->factor;
	command.transform.normalize = spec->metric == GK_COSINE;
	gk_run(job, &command);
}

/* The feature whose values lie farthest apart. */
static int
widest_feature(const GkFitSpec *spec, const Profile *profile)
{
	int			widest = 0;

	for (int j = 1; j < spec->dimension; j++)
		if (profile->spread[j] > profile->spread[widest])
			widest = j;
	return widest;
}

/* Says by how much the greatest value exceeds a typical one, and what to do. */
static int
explain_spread(double spread)
{
	errdetail("The greatest is about 10^%.0f times a typical one.", log10(2.0) * spread);
	return errhint("Leave out values that stand for something else, such as missing data.");
}

/* Warns if this many bits are too few for typical weights and features, so that sums lose them. */
static void
warn_of_spread(const GkFitSpec *spec, const Profile *profile, int widest, int bits)
{
	bool		weights = profile->weight_spread > profile->spread[widest];

	if (bits - profile->weight_spread - profile->spread[widest] >= ENOUGH_BITS)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 weights ? errmsg("the weights lie too far apart to be added up exactly")
			 : errmsg("the values of feature %s lie too far apart to be averaged exactly",
					  feature_name(spec, widest)),
			 explain_spread(Max(profile->weight_spread, profile->spread[widest]))));
}

/*
 * Warns if few rows make the mean that is taken off so great, beside a typical value, that the
 * difference, a real, has next to nothing of this value.
 */
static void
warn_of_scale(const GkFitSpec *spec, const Profile *profile)
{
	int			widest = widest_feature(spec, profile);
	double		mean = fabs(profile->mean[widest]);
	double		greatest = largest_of(profile, widest);
	double		typical = greatest * exp2(-profile->spread[widest]);

	if (spec->is_inner || mean > FEW_ROWS * greatest ||
		typical >= FEW_STEPS * FLT_EPSILON * mean)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("the values of feature %s lie too far apart to be scaled exactly",
					feature_name(spec, widest)),
			 explain_spread(profile->spread[widest])));
}

/*
 * Warns if the standard deviations of unscaled columns differ by orders of magnitude: only the
 * widest ones then affect the distances.  Constant columns are ignored.
 */
static void
warn_of_units(const GkFitSpec *spec, const Profile *profile)
{
	const double *variance = profile->variance;
	int			widest = 0;
	int			narrowest = -1;

	if (spec->labels_only || spec->names == NULL || spec->scale != GK_SCALE_NONE ||
		spec->metric != GK_EUCLIDEAN)
		return;
	for (int j = 0; j < spec->dimension; j++)
	{
		if (variance[j] > variance[widest])
			widest = j;
		if (variance[j] > 0.0 && (narrowest < 0 || variance[j] < variance[narrowest]))
			narrowest = j;
	}
	if (narrowest < 0 || sqrt(variance[widest]) <= FAR_APART * sqrt(variance[narrowest]))
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("feature \"%s\" outweighs feature \"%s\"",
					spec->names[widest], spec->names[narrowest]),
			 errdetail("Their standard deviations are %.4g and %.4g.",
					   sqrt(variance[widest]), sqrt(variance[narrowest])),
			 errhint("Add scale => 'standard' to let all features count alike.")));
}

/* Sets the grid of the centroid sums. */
static void
set_grid(GkJob *job, const GkFitSpec *spec, const Profile *profile, GkPrepared *prepared)
{
	GkCommand	command = {.operation = GK_GRID};
	int			d = spec->dimension;
	int			bits = prepared->value_bits;
	int			widest = widest_feature(spec, profile);
	int		   *exponents = gk_allocate(d + 1, sizeof(int));

	for (int j = 0; j < d; j++)
		exponents[j] = gk_grid_exponent(profile->greatest_weight * largest_of(profile, j), bits);
	exponents[d] = spec->weighted ? gk_grid_exponent(profile->greatest_weight, bits) : 0;
	command.grid.wide = spec->weighted || bits - profile->spread[widest] < ENOUGH_BITS;
	command.grid.rest_bits = bits;
	command.grid.exponents = exponents;
	command.grid.origin = profile->mean;
	gk_run(job, &command);
	prepared->rest_bits = command.grid.wide ? bits : 0;
	prepared->exponents = exponents;
	prepared->weight_exponent = exponents[d];
	/* labels alone need no sums, and what holds for a sample was said of all rows */
	if (!spec->labels_only && !spec->is_inner)
		warn_of_spread(spec, profile, widest, bits + prepared->rest_bits);
}

/* Seals the rows. */
static void
seal_rows(GkJob *job, const GkFitSpec *spec)
{
	GkCommand	seal = {.operation = GK_SEAL};

	gk_run(job, &seal);
	if (seal.seal.rows != spec->rows)
		elog(ERROR, "gkmeans engine holds %lld rows instead of %lld",
			 (long long) seal.seal.rows, (long long) spec->rows);
}

/* Seals the rows, transforms them as the spec asks, and sets the grid. */
void
gk_prepare(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared)
{
	Profile		profile;
	double		sum = 0.0;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	seal_rows(job, spec);
	prepared->value_bits = gk_value_bits(spec->rows);
	prepared->offset = gk_allocate(spec->dimension, sizeof(double));
	prepared->factor = gk_allocate(spec->dimension, sizeof(double));
	allocate_profile(&profile, spec->dimension);
	find_range(job, spec, &profile);
	if (spec->scale == GK_SCALE_STANDARD)
	{
		find_moments(job, spec, &profile, prepared->value_bits);
		warn_of_scale(spec, &profile);
	}
	choose_scale(spec, &profile, prepared);
	prepared->left_out_mean = prepared->left_out_variance = NULL;
	if (spec->scale == GK_SCALE_GIVEN)
	{
		check_scaled(spec, &profile, prepared);
		if (spec->metric == GK_EUCLIDEAN)
			keep_left_out(job, spec, &profile, prepared);
	}
	if (spec->scale != GK_SCALE_NONE || spec->metric == GK_COSINE)
	{
		transform(job, spec, prepared);
		find_range(job, spec, &profile);
	}
	find_moments(job, spec, &profile, prepared->value_bits);
	warn_of_units(spec, &profile);
	set_grid(job, spec, &profile, prepared);
	prepared->greatest_weight = profile.greatest_weight;
	prepared->mean = profile.mean;
	prepared->variance = profile.variance;
	prepared->least = profile.least;
	prepared->greatest = profile.greatest;
	for (int j = 0; j < spec->dimension; j++)
		sum += profile.variance[j];
	prepared->mean_variance = sum / spec->dimension;
	prepared->total = NAN;
	prepared->seconds = gk_seconds_since(begin);
}

/* Makes a vector of reals one of length 1; false if it has no direction. */
bool
gk_make_unit(double *vector, int dimension)
{
	double		sum = 0.0;
	double		greatest = 0.0;

	for (int j = 0; j < dimension; j++)
		greatest = Max(greatest, fabs(vector[j]));
	/* the squares of very small numbers underflow */
	for (int j = 0; greatest < 1e-140 && j < dimension; j++)
		vector[j] = vector[j] * 0x1p300 * 0x1p300;
	for (int j = 0; j < dimension; j++)
		sum += vector[j] * vector[j];
	for (int j = 0; greatest > 0.0 && j < dimension; j++)
		vector[j] /= sqrt(sum);
	return greatest > 0.0;
}

/* Makes a unit vector of a given centroid. */
static void
normalize(const GkFitSpec *spec, int64 number, double *centroid)
{
	if (!gk_make_unit(centroid, spec->dimension))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("initial centroid %lld has no direction", (long long) number),
				 spec->scale == GK_SCALE_NONE
				 ? errdetail("All its features are zero, and the metric is cosine.")
				 : errdetail("All its features are zero in the scale of the rows, and the metric "
							 "is cosine.")));
}

/* Converts centroids from the user's units to the engine's. */
void
gk_to_stored(const GkFitSpec *spec, const GkPrepared *prepared,
			 const double *from, int64 count, double *to)
{
	int			d = spec->dimension;

	for (int64 c = 0; c < count; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
		{
			double		value = from[c * d + j] - spec->shift[j] - prepared->offset[j];

			value *= prepared->factor[j];
			if (!gk_is_real(value))
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("feature %s of initial centroid %lld is out of range",
								feature_name(spec, j), (long long) c + 1)));
			to[c * d + j] = value;
		}
		if (spec->metric == GK_COSINE)
			normalize(spec, c + 1, to + c * d);
	}
}

/* And back; unit vectors stay as they are. */
void
gk_to_user(const GkFitSpec *spec, const GkPrepared *prepared,
		   const double *from, int64 count, double *to)
{
	int			d = spec->dimension;

	for (int64 c = 0; c < count; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
		{
			double		value = from[c * d + j];

			if (spec->metric == GK_EUCLIDEAN)
			{
				value = prepared->factor[j] > 0.0 ? value / prepared->factor[j] : 0.0;
				value += prepared->offset[j] + spec->shift[j];
			}
			to[c * d + j] = value;
		}
	}
}
