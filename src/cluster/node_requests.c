/*
 * What a node reads: the commands of messages, checked before an engine sees them.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "exact.h"
#include "node_state.h"

/* Bits of a value on a grid, and of a sum of such values over the rows. */
#define VALUE_BITS 51
#define SUM_BITS 62

/* True if values up to `bound` can be added up on a grid of this exponent. */
static bool
fits_grid(const GkNode *node, double bound, int64_t exponent)
{
	double		value;

	if (exponent < -1022 || exponent > 1023)
		return false;
	value = ldexp(bound, (int) exponent);
	return value <= ldexp(1.0, VALUE_BITS) && value * (double) node->n <= ldexp(1.0, SUM_BITS);
}

/* True if second limbs of so many bits can be added up. */
static bool
fits_rest(const GkNode *node, int64_t bits)
{
	return bits >= 0 && bits < VALUE_BITS &&
		ldexp((double) node->n, (int) bits - 1) <= ldexp(1.0, SUM_BITS);
}

/* The least and the greatest value of a feature. */
static float
least_of(const GkNode *node, int j)
{
	return ((const float *) node->ranges.base)[j];
}
static float
greatest_of(const GkNode *node, int j)
{
	return ((const float *) node->ranges.base)[node->d + j];
}

/* Reads nothing. */
static bool
read_nothing(GkNode *node, GkReader *reader)
{
	(void) node;
	(void) reader;
	return true;
}

/* Reads GK_MOMENTS. */
static bool
read_moments(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;
	int			d = node->d;
	const double *pivot = gk_read_doubles(reader, d, GK_FARTHEST_CENTROID);
	const int  *first = gk_read_numbers(reader, d, -1022, 1023);
	const int  *second = gk_read_numbers(reader, d, -1022, 1023);
	bool		good;

	c->moments.weight_exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->moments.rest_bits = (int) gk_read_integer(reader, 0, VALUE_BITS);
	good = reader->good && fits_grid(node, node->greatest_weight, c->moments.weight_exponent) &&
		fits_rest(node, c->moments.rest_bits);
	for (int j = 0; good && j < d; j++)
	{
		double		bound = fmax(fabs(least_of(node, j) - pivot[j]),
								 fabs(greatest_of(node, j) - pivot[j]));

		good = fits_grid(node, bound, first[j]) && fits_grid(node, bound * bound, second[j]);
	}
	c->moments.pivot = pivot;
	c->moments.first_exponents = first;
	c->moments.second_exponents = second;
	return good;
}

/* Reads GK_TRANSFORM: no value may become infinite. */
static bool
read_transform(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;
	const double *offset = gk_read_doubles(reader, node->d, DBL_MAX);
	const double *factor = gk_read_doubles(reader, node->d, DBL_MAX);
	bool		good;

	c->transform.normalize = gk_read_integer(reader, 0, 1);
	good = reader->good;
	for (int j = 0; good && j < node->d; j++)
		good = gk_is_real((least_of(node, j) - offset[j]) * factor[j]) &&
			gk_is_real((greatest_of(node, j) - offset[j]) * factor[j]);
	c->transform.offset = offset;
	c->transform.factor = factor;
	return good;
}

/* Finds out whether the grid fits the rows, which a transformation changes. */
void
gk_node_check_grid(GkNode *node)
{
	const int  *exponents = node->exponents.base;
	bool		fits = fits_grid(node, node->greatest_weight, exponents[node->d]);

	for (int j = 0; fits && j < node->d; j++)
		fits = fits_grid(node, node->greatest_weight *
						 fmax(fabs(least_of(node, j)), fabs(greatest_of(node, j))), exponents[j]);
	node->grid_fits = fits;
}

/* Reads GK_GRID. */
static bool
read_grid(GkNode *node, GkReader *reader)
{
	GkGrid	   *grid = &node->command.grid;
	int			d = node->d;

	grid->wide = gk_read_integer(reader, 0, 1);
	grid->rest_bits = (int) gk_read_integer(reader, 0, VALUE_BITS);
	grid->exponents = gk_read_numbers(reader, d + 1, -1022, 1023);
	grid->origin = gk_read_doubles(reader, d, GK_FARTHEST_CENTROID);
	if (!reader->good || !fits_rest(node, grid->rest_bits))
		return false;
	memcpy(node->exponents.base, grid->exponents, (d + 1) * sizeof(int));
	gk_node_check_grid(node);
	return node->grid_fits;
}

/* Reads GK_CANDIDATES. */
static bool
read_candidates(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->candidates.first_label = gk_read_integer(reader, 0, INT32_MAX);
	c->candidates.count = gk_read_integer(reader, 1, INT32_MAX - c->candidates.first_label);
	c->candidates.candidates = gk_read_doubles(reader, c->candidates.count * node->d,
											   GK_FARTHEST_CENTROID);
	return reader->good &&
		(c->candidates.first_label == 0 || c->candidates.first_label == node->state.labels);
}

/* Reads GK_POTENTIALS. */
static bool
read_potentials(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->potentials.count = (int) gk_read_integer(reader, 1, 64);
	c->potentials.exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->potentials.trials = gk_read_doubles(reader, (int64_t) c->potentials.count * node->d,
										   GK_FARTHEST_CENTROID);
	return reader->good && fits_grid(node, node->greatest_mass, c->potentials.exponent);
}

/* True if the masses of the rows can be added up on a grid. */
static bool
fits_mass(const GkNode *node, GkMass mass, int exponent)
{
	return fits_grid(node, mass == GK_MASS_WEIGHT ? node->greatest_weight : node->greatest_mass,
					 exponent);
}

/* Reads GK_MASSES. */
static bool
read_masses(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->masses.mass = (GkMass) gk_read_integer(reader, GK_MASS_WEIGHT, GK_MASS_DISTANCE);
	c->masses.exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->masses.bits = (int) gk_read_integer(reader, 0, 20);
	return reader->good && fits_mass(node, c->masses.mass, c->masses.exponent);
}

/* Reads GK_ENTRIES. */
static bool
read_entries(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->entries.mass = (GkMass) gk_read_integer(reader, GK_MASS_WEIGHT, GK_MASS_DISTANCE);
	c->entries.exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->entries.bits = (int) gk_read_integer(reader, 0, 20);
	c->entries.from = gk_read_integer(reader, 0, node->n);
	c->entries.capacity = gk_read_integer(reader, 0, INT64_MAX);
	c->entries.wanted = gk_read_array(reader, INT64_C(1) << c->entries.bits, 1);
	if (c->entries.capacity > node->n - c->entries.from)
		c->entries.capacity = node->n - c->entries.from;
	return reader->good && fits_mass(node, c->entries.mass, c->entries.exponent);
}

/* Reads GK_LABEL_WEIGHTS: of just the labels that there are. */
static bool
read_label_weights(GkNode *node, GkReader *reader)
{
	node->command.label_weights.count = gk_read_integer(reader, 1, INT32_MAX);
	return node->command.label_weights.count == node->state.labels;
}

/* Reads GK_ROWS. */
static bool
read_rows(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	node->asked = (int) gk_read_integer(reader, 0, GK_ASK_WEIGHTS | GK_ASK_LABELS);
	c->rows.count = gk_read_integer(reader, 0, INT64_MAX);
	c->rows.rows = gk_read_integers(reader, c->rows.count, 0, node->n - 1);
	return reader->good && ((node->asked & GK_ASK_LABELS) == 0 || node->state.labels > 0);
}

/* Reads GK_COMPARE. */
static bool
read_compare(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->compare.count = gk_read_integer(reader, 0, INT64_MAX);
	c->compare.rows = gk_read_integers(reader, c->compare.count, 0, node->n - 1);
	c->compare.others = gk_read_integers(reader, c->compare.count, 0, node->n - 1);
	return reader->good;
}

/* Reads GK_CENTROIDS. */
static bool
read_centroids(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->centroids.spherical = gk_read_integer(reader, 0, 1);
	c->centroids.k = gk_read_integer(reader, 1, GK_MAX_CLUSTERS);
	c->centroids.centroids = gk_read_doubles(reader, c->centroids.k * node->d,
											 GK_FARTHEST_CENTROID);
	return reader->good;
}

/* Reads which centroids moved since the last command that needs them; they go with this one. */
static bool
read_moves(GkNode *node, GkReader *reader)
{
	int64_t		k = node->state.centroids;
	int64_t		count = gk_read_integer(reader, 0, k);
	const int32_t *clusters = gk_read_numbers(reader, count, 0, (int32_t) (k - 1));
	const double *fresh = gk_read_doubles(reader, count * node->d, GK_FARTHEST_CENTROID);
	double	   *centroids = node->centroids.base;

	if (!reader->good)
		return false;
	for (int64_t i = 1; i < count; i++)
		if (clusters[i] <= clusters[i - 1])
			return false;
	for (int64_t i = 0; i < count; i++)
		memcpy(centroids + (int64_t) clusters[i] * node->d, fresh + i * node->d,
			   node->d * sizeof(double));
	if (count > 0)
		node->move = (GkCommand) {.operation = GK_MOVE,.move = {.centroids = centroids}};
	return true;
}

/* Reads GK_STEP: its sums are always asked for. */
static bool
read_step(GkNode *node, GkReader *reader)
{
	node->command.step.changes = gk_read_integer(reader, 0, 1);
	return node->grid_fits && read_moves(node, reader);
}

/* Reads GK_FARTHEST. */
static bool
read_farthest(GkNode *node, GkReader *reader)
{
	int64_t		count = gk_read_integer(reader, 0, INT64_MAX);

	node->command.farthest.count = count < node->n ? count : node->n;
	return reader->good;
}

/* Reads GK_STATISTICS. */
static bool
read_statistics(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->statistics.inertia_exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->statistics.distance_exponent = (int) gk_read_integer(reader, -1022, 1023);
	c->statistics.rest_bits = (int) gk_read_integer(reader, 0, VALUE_BITS);
	return reader->good && fits_rest(node, c->statistics.rest_bits) &&
		fits_grid(node, node->greatest_mass, c->statistics.inertia_exponent) &&
		fits_grid(node, node->greatest_distance, c->statistics.distance_exponent);
}

/*
 * Reads GK_SQUARES.  How far rows are from their own centroids is not known here: squares beyond
 * their grid spoil the sums of who asks, and nothing else.
 */
static bool
read_squares(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->squares.rest_bits = (int) gk_read_integer(reader, 0, VALUE_BITS);
	c->squares.exponents = gk_read_numbers(reader, node->d + 1, -1022, 1023);
	return read_moves(node, reader) && fits_rest(node, c->squares.rest_bits) &&
		fits_grid(node, node->greatest_weight, c->squares.exponents[node->d]);
}

/* Reads the points of GK_SEPARATION. */
static bool
read_points(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;
	int64_t		groups = gk_read_integer(reader, 1, INT32_MAX);
	const int64_t *ends = gk_read_integers(reader, groups, 1, INT32_MAX);

	if (!reader->good)
		return false;
	for (int64_t i = 1; i < groups; i++)
		if (ends[i] <= ends[i - 1])
			return false;
	c->separation.groups = groups;
	c->separation.ends = ends;
	c->separation.points = gk_read_doubles(reader, ends[groups - 1] * node->d,
										   GK_FARTHEST_CENTROID);
	return reader->good;
}

/* Reads GK_SEPARATION: of rows of the engine, or of rows that come with it. */
static bool
read_separation(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;
	bool		own_rows = gk_read_integer(reader, 0, 1);

	c->separation.cosine = gk_read_integer(reader, 0, 1);
	node->asked = (int) (gk_read_integer(reader, 0, GK_ASK_OTHERS) & GK_ASK_OTHERS);
	c->separation.first = gk_read_integer(reader, 0, own_rows ? node->n : 0);
	c->separation.count = gk_read_integer(reader, 1, own_rows ? node->n - c->separation.first
										  : INT64_MAX);
	if (!reader->good || !read_points(node, reader))
		return false;
	c->separation.labels = gk_read_numbers(reader, c->separation.count, 0,
										   (int32_t) (c->separation.groups - 1));
	if (own_rows || !reader->good)
		return reader->good;
	if (c->separation.count > INT64_MAX / node->d)
		return false;
	c->separation.features = gk_read_floats(reader, c->separation.count * node->d);
	return reader->good;
}

/* Reads GK_MERGE. */
static bool
read_merge(GkNode *node, GkReader *reader)
{
	GkCommand  *c = &node->command;

	c->merge.count = gk_read_integer(reader, 1, INT32_MAX);
	c->merge.wanted = gk_read_integer(reader, 1, INT32_MAX);
	c->merge.spherical = gk_read_integer(reader, 0, 1);
	c->merge.drawn = false;
	if (!reader->good)
		return false;
	c->merge.points = gk_read_floats(reader, c->merge.count * node->d);
	c->merge.weights = gk_read_doubles(reader, c->merge.count, DBL_MAX);
	for (int64_t i = 0; reader->good && i < c->merge.count; i++)
		if (!(c->merge.weights[i] >= 0.0))
			return false;
	return reader->good;
}

/* Reads what fetch() is asked for. */
static bool
read_fetch(GkNode *node, GkReader *reader)
{
	node->asked = (int) gk_read_integer(reader, 0, GK_ASK_LABELS | GK_ASK_DISTANCES);
	node->from = gk_read_integer(reader, 0, node->n);
	node->count = gk_read_integer(reader, 0, node->n - node->from);
	return reader->good && ((node->asked & GK_ASK_DISTANCES) == 0 || node->state.distances);
}

/* The function that reads an operation; NULL: no message asks for it. */
static bool (*const readers[]) (GkNode *node, GkReader *reader) = {
	[GK_SEAL] = read_nothing,
	[GK_RANGE] = read_nothing,
	[GK_MOMENTS] = read_moments,
	[GK_TRANSFORM] = read_transform,
	[GK_GRID] = read_grid,
	[GK_CANDIDATES] = read_candidates,
	[GK_POTENTIALS] = read_potentials,
	[GK_MASSES] = read_masses,
	[GK_ENTRIES] = read_entries,
	[GK_LABEL_WEIGHTS] = read_label_weights,
	[GK_MERGE] = read_merge,
	[GK_ROWS] = read_rows,
	[GK_COMPARE] = read_compare,
	[GK_CENTROIDS] = read_centroids,
	[GK_STEP] = read_step,
	[GK_DISTANCES] = read_moves,
	[GK_FARTHEST] = read_farthest,
	[GK_ASSIGN] = read_moves,
	[GK_STATISTICS] = read_statistics,
	[GK_SQUARES] = read_squares,
	[GK_SEPARATION] = read_separation,
	[GK_FETCH] = read_fetch
};

/* True if an operation uses the centroids that the engine has. */
static bool
uses_centroids(uint32_t operation)
{
	return operation == GK_STEP || operation == GK_DISTANCES || operation == GK_ASSIGN ||
		operation == GK_STATISTICS || operation == GK_SQUARES;
}

/* Reads the command of a message; what is wrong with it, NULL if nothing is. */
const char *
gk_node_read(GkNode *node)
{
	uint32_t	operation = node->header.operation;

	node->command = (GkCommand) {.operation = (GkOperation) operation};
	node->move = node->command;
	node->reader = gk_reader_begin(node->put.base, node->put_bytes);
	if (readers[operation] == NULL)
		return "its operation is not for nodes";
	if (node->sealed == (operation == GK_SEAL))
		return node->sealed ? "the rows are sealed already" : "the rows are not sealed";
	if (node->n == 0 && operation != GK_SEAL)
		return "there are no rows";
	if (uses_centroids(operation) && node->header.centroids != node->state.centroids)
		return "it is for another number of centroids";
	if (!readers[operation] (node, &node->reader) || !gk_reader_end(&node->reader))
		return "its contents are not valid";
	if (operation != GK_FETCH && !gk_can_run(&node->state, &node->command))
		return "the engine lacks what it needs";
	return NULL;
}
