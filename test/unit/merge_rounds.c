/*
 * Clusters arranged so that each could have to wait for the next one: how many rounds GK_MERGE
 * takes.
 */
#include "merge_rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_cases.h"
#include "engine_drive.h"

/*
 * The most rounds: more than random clusters need, but they do not grow with the number of clusters
 * unless all have the same eight as neighbours.  Then a round unites eight pairs at most, and where
 * few clusters can unite, as of 600 around a hub, it may unite only one.
 */
#define MOST_ROUNDS 200
#define MOST_ROUNDS_AROUND_HUB 500
#define CLUSTERS_A_ROUND 6

/* Clusters to be merged. */
typedef struct Clusters
{
	int64_t		count;
	int			d;
	float	   *means;			/* count × d */
	double	   *weights;
} Clusters;

/* What GK_MERGE gives. */
typedef struct Unions
{
	int32_t    *into;
	int32_t    *rounds;
	float	   *costs;
} Unions;

/* A direction at random: 1 long. */
static void
random_direction(double *direction, int d)
{
	double		norm2 = 0.0;

	for (int j = 0; j < d; j++)
	{
		direction[j] = sqrt(-2.0 * log(1.0 - random_unit())) * cos(2.0 * M_PI * random_unit());
		norm2 += direction[j] * direction[j];
	}
	for (int j = 0; j < d; j++)
		direction[j] /= sqrt(norm2);
}

/* Clusters on a line, as far from the first as a function of their number says. */
static void
place_on_line(Clusters *clusters, double (*place) (double i, double count))
{
	for (int64_t i = 0; i < clusters->count; i++)
		clusters->means[i * clusters->d] = (float) place((double) i, (double) clusters->count);
}

static double
square(double i, double count)
{
	(void) count;
	return i * i;
}

static double
fifth_power(double i, double count)
{
	(void) count;
	return pow(i, 5.0);
}

static double
reciprocal(double i, double count)
{
	(void) count;
	return 1e6 / (i + 1.0);
}

static double
sine(double i, double count)
{
	return 1e3 * sin(20.0 * i / count);
}

static double
even(double i, double count)
{
	(void) count;
	return i;
}

/* From 2^-60 to 2^60, each as many times as far as the one before. */
static double
geometric(double i, double count)
{
	return exp2(120.0 * i / count - 60.0);
}

/* Gaps that alternate while they widen. */
static double
alternating(double i, double count)
{
	(void) count;
	return i * i + (fmod(i, 2.0) == 0.0 ? i / 2.0 : 0.0);
}

static void
make_squares(Clusters *clusters)
{
	place_on_line(clusters, square);
}

static void
make_powers(Clusters *clusters)
{
	place_on_line(clusters, fifth_power);
}

static void
make_reciprocals(Clusters *clusters)
{
	place_on_line(clusters, reciprocal);
}

static void
make_waves(Clusters *clusters)
{
	place_on_line(clusters, sine);
}

static void
make_even(Clusters *clusters)
{
	place_on_line(clusters, even);
}

static void
make_geometric(Clusters *clusters)
{
	place_on_line(clusters, geometric);
}

static void
make_alternating(Clusters *clusters)
{
	place_on_line(clusters, alternating);
}

/* On a line at even distances, but of weights that double, a hundred times over. */
static void
make_doubling(Clusters *clusters)
{
	place_on_line(clusters, even);
	for (int64_t i = 0; i < clusters->count; i++)
		clusters->weights[i] = exp2((double) (i % 100) - 100.0);
}

/* A path whose steps lengthen, each in another direction. */
static void
make_path(Clusters *clusters)
{
	double		place[64] = {0};
	double		direction[64];
	int			d = clusters->d;

	for (int64_t i = 0; i < clusters->count; i++)
	{
		random_direction(direction, d);
		for (int j = 0; j < d; j++)
		{
			place[j] += direction[j] * (1.0 + (double) i);
			clusters->means[i * d + j] = (float) place[j];
		}
	}
}

/* Points around a hub, at distances that grow by a factor in all. */
static void
place_around_hub(Clusters *clusters, double factor)
{
	double		direction[256];
	int			d = clusters->d;

	for (int64_t i = 1; i < clusters->count; i++)
	{
		double		radius = pow(factor, (double) i / (double) clusters->count);

		random_direction(direction, d);
		for (int j = 0; j < d; j++)
			clusters->means[i * d + j] = (float) (direction[j] * radius);
	}
}

static void
make_sphere(Clusters *clusters)
{
	place_around_hub(clusters, 1.0);
}

static void
make_ball(Clusters *clusters)
{
	place_around_hub(clusters, 1.1);
	clusters->weights[0] = 1.0;
	for (int64_t i = 1; i < clusters->count; i++)
		clusters->weights[i] = 1.0 / 1024.0;
}

static void
make_spiral(Clusters *clusters)
{
	place_around_hub(clusters, exp2(60.0));
}

/* A hub and points on all axes, one beyond the other. */
static void
make_star(Clusters *clusters)
{
	int			d = clusters->d;

	for (int64_t i = 1; i < clusters->count; i++)
		clusters->means[i * d + i % d] = (float) (i / d % 2 == 0 ? i : -i);
}

/* The rows of a table whose columns are whole numbers: many equal distances. */
static void
make_lattice(Clusters *clusters)
{
	int64_t		side = (int64_t) ceil(cbrt((double) clusters->count));

	for (int64_t i = 0; i < clusters->count; i++)
	{
		clusters->means[i * 3] = (float) (i % side);
		clusters->means[i * 3 + 1] = (float) (i / side % side);
		clusters->means[i * 3 + 2] = (float) (i / side / side);
	}
}

/* The arrangements; where there are many dimensions, of fewer clusters. */
static const struct
{
	const char *name;
	void		(*make) (Clusters *clusters);
	int			d;
	int			fewer;
	bool		hub;			/* all have neighbours in common */
}			arrangements[] = {
	{"squares", make_squares, 1, 1, false}, {"fifth powers", make_powers, 1, 1, false},
	{"reciprocals", make_reciprocals, 1, 1, false}, {"waves", make_waves, 1, 1, false},
	{"even distances", make_even, 1, 1, false},
	{"geometric distances", make_geometric, 1, 1, false},
	{"alternating gaps", make_alternating, 1, 1, false},
	{"doubling weights", make_doubling, 1, 1, false},
	{"squares in a plane", make_squares, 2, 1, false},
	{"a path in a plane", make_path, 2, 1, false},
	{"a path in many dimensions", make_path, 64, 2, false},
	{"a sphere", make_sphere, 128, 4, false},
	{"a ball around a heavy hub", make_ball, 128, 4, false}, {"a spiral", make_spiral, 16, 2, true},
	{"a flat spiral", make_spiral, 2, 1, false}, {"a star", make_star, 256, 4, true},
	{"a lattice", make_lattice, 3, 1, false}
};

/* Makes an arrangement of clusters that weigh the same unless it says otherwise. */
static Clusters
make_clusters(size_t arrangement, int64_t count)
{
	Clusters	clusters = {.count = count / arrangements[arrangement].fewer,
	.d = arrangements[arrangement].d};

	clusters.means = calloc(clusters.count * clusters.d, sizeof(float));
	clusters.weights = malloc(clusters.count * sizeof(double));
	for (int64_t i = 0; i < clusters.count; i++)
		clusters.weights[i] = 1.0;
	arrangements[arrangement].make(&clusters);
	return clusters;
}

/* Merges clusters, down to a third of them or fewer. */
static Unions
merge(const GkEngineClass *class_of, const Clusters *clusters, int devices)
{
	Data		data = make_data(NORMAL, 2, clusters->d, 1, false, false, false);
	GkEngine   *engine = feed(class_of, &data, (Feeding) {.threads = 2,.batch = 2,
		.devices = devices});
	GkCommand	c = {.operation = GK_MERGE};
	Unions		unions;

	unions.into = c.merge.into = malloc(clusters->count * sizeof(int32_t));
	unions.rounds = c.merge.rounds = malloc(clusters->count * sizeof(int32_t));
	unions.costs = c.merge.costs = malloc(clusters->count * sizeof(float));
	c.merge.points = clusters->means;
	c.merge.weights = clusters->weights;
	c.merge.count = clusters->count;
	c.merge.wanted = clusters->count - clusters->count / 3;
	run(engine, &c);
	engine->class_of->close(engine);
	free_data(&data);
	return unions;
}

/* Frees what GK_MERGE gave. */
static void
free_unions(Unions *unions)
{
	free(unions->into);
	free(unions->rounds);
	free(unions->costs);
}

/* How many rounds united clusters. */
static int32_t
rounds_of(const Unions *unions, int64_t count)
{
	int32_t		most = -1;

	for (int64_t i = 0; i < count; i++)
		most = unions->rounds[i] > most ? unions->rounds[i] : most;
	return most + 1;
}

/* True if two engines have made the same unions. */
static bool
same_unions(const Unions *a, const Unions *b, int64_t count)
{
	return memcmp(a->into, b->into, count * sizeof(int32_t)) == 0 &&
		memcmp(a->rounds, b->rounds, count * sizeof(int32_t)) == 0 &&
		memcmp(a->costs, b->costs, count * sizeof(float)) == 0;
}

/* Merges an arrangement; true if that is right. */
static bool
merges_right(const GkEngineClass *tested, const GkEngineClass *oracle, size_t arrangement,
			 const Clusters *clusters, int devices)
{
	Unions		unions = merge(tested, clusters, devices);
	int32_t		rounds = rounds_of(&unions, clusters->count);
	int64_t		most = arrangements[arrangement].hub ?
		MOST_ROUNDS_AROUND_HUB + clusters->count / CLUSTERS_A_ROUND : MOST_ROUNDS;
	bool		good = rounds <= most;

	printf("# %s: %lld clusters, %d rounds\n", arrangements[arrangement].name,
		   (long long) clusters->count, rounds);
	if (oracle != NULL)
	{
		Unions		expected = merge(oracle, clusters, 1);

		if (!same_unions(&unions, &expected, clusters->count))
		{
			printf("# %s: other unions than expected\n", arrangements[arrangement].name);
			good = false;
		}
		free_unions(&expected);
	}
	free_unions(&unions);
	return good;
}

/* Merges every arrangement. */
bool
merges_in_few_rounds(const GkEngineClass *tested, const GkEngineClass *oracle, int64_t count,
					 int devices)
{
	bool		good = true;

	for (size_t i = 0; i < sizeof(arrangements) / sizeof(*arrangements); i++)
	{
		Clusters	clusters = make_clusters(i, count);

		good &= merges_right(tested, oracle, i, &clusters, devices);
		free(clusters.means);
		free(clusters.weights);
	}
	return good;
}
