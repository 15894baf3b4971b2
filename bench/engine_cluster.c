/*
 * What the exchange of a cluster takes, with nodes in this process: the messages of a step written,
 * read and merged, and new centroids made.  All centroids move in every step, and so do all rows.
 *
 * Usage: engine_cluster_bench [rows [dimension [k [nodes]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_cases.h"
#include "engine_drive.h"
#include "local_cluster.h"

#define STEPS 40

/* Seconds that a step takes after a movement of all centroids. */
static double
time_steps(const GkEngineClass *class_of, const Data *data)
{
	int64_t		values = data->k * data->d;
	double	   *centroids = malloc(2 * values * sizeof(double));
	GkEngine   *engine = feed(class_of, data, (Feeding) {.threads = 1,.batch = data->n});
	double		seconds = 0.0;

	/* twice one after the other: any part of this length holds all of them */
	memcpy(centroids, data->centroids, values * sizeof(double));
	memcpy(centroids + values, data->centroids, values * sizeof(double));
	begin_fit(engine, data);
	for (int step = 0; step < STEPS + 2; step++)
	{
		GkCommand	move = {.operation = GK_MOVE};
		GkCommand	c = {.operation = GK_STEP};

		move.move.centroids = centroids + (step * 7 % data->k) * data->d;
		if (step == 2)
			seconds = -worked();
		run(engine, &move);
		run(engine, &c);
	}
	seconds += worked();
	engine->class_of->close(engine);
	free(centroids);
	return seconds / STEPS;
}

/* One line of figures. */
int
main(int argc, char **argv)
{
	int64_t		n = argc > 1 ? atoll(argv[1]) : 2048;
	int			d = argc > 2 ? atoi(argv[2]) : 128;
	int64_t		k = argc > 3 ? atoll(argv[3]) : 1024;
	LocalPlan	plan = {.nodes = argc > 4 ? atoi(argv[4]) : 2};
	Data		data = make_data(NORMAL, n, d, k, false, false, false);
	double		alone;
	double		together;

	for (int i = 0; i < plan.nodes; i++)
	{
		plan.shares[i] = 1;
		plan.classes[i] = gk_cpu_engine();
	}
	alone = time_steps(gk_cpu_engine(), &data);
	together = time_steps(gk_local_cluster(&plan), &data);
	printf("%d nodes, %lld x %d, k %lld: %.2f ms a step, %.2f of one engine: exchange %.2f\n",
		   plan.nodes, (long long) n, d, (long long) k, 1e3 * together, 1e3 * alone,
		   1e3 * (together - alone));
	free_data(&data);
	return 0;
}
