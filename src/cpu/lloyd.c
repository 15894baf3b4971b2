/*
 * Lloyd's iteration on the CPU engine.
 */
#include <string.h>

#include "state.h"
#include "exact.h"

/* With fewer operations a row than this, all distances are cheaper than moving two bounds. */
#define BOUNDS_PAY 256

/* Takes the grid of the sums; what was made on another grid is no longer valid. */
void
gk_cpu_run_grid(GkCpuEngine *engine, GkCommand *command)
{
	const GkGrid *grid = &command->grid;
	double	   *scales;

	if (!gk_cpu_array_need(engine, &engine->exponents, engine->d + 1, sizeof(int)) ||
		!gk_cpu_array_need(engine, &engine->scales, engine->d + 1, sizeof(double)) ||
		!gk_cpu_array_need(engine, &engine->grid_origin, engine->d, sizeof(double)))
		return;
	memcpy(engine->exponents.base, grid->exponents, (engine->d + 1) * sizeof(int));
	memcpy(engine->grid_origin.base, grid->origin, engine->d * sizeof(double));
	scales = engine->scales.base;
	for (int j = 0; j <= engine->d; j++)
		scales[j] = gk_power_of_two(grid->exponents[j]);
	engine->quantizer = (GkQuantizer) {
		.d = engine->d,.wide = grid->wide,.scales = scales,
		.rest_scale = gk_power_of_two(grid->rest_bits)
	};
	engine->wide = grid->wide;
	engine->rest_bits = grid->rest_bits;
	engine->has_grid = true;
	engine->sums_valid = false;
	engine->packed_valid = false;
	engine->per_row_state = GK_PER_ROW_NOTHING;
}

/* Takes the first centroids; no row has a label then. */
void
gk_cpu_run_centroids(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		k = command->centroids.k;

	if (k < 1 || k > GK_MAX_CLUSTERS)
	{
		gk_cpu_fail(engine, GK_LIMIT, "centroids", "too many clusters");
		return;
	}
	gk_cpu_array_free(engine, &engine->hashes);
	gk_cpu_array_free(engine, &engine->earlier);
	gk_cpu_array_free(engine, &engine->reaches);
	engine->hashes_valid = false;
	if (!gk_cpu_array_need(engine, &engine->centroids, k, engine->d * sizeof(double)))
		return;
	memcpy(engine->centroids.base, command->centroids.centroids,
		   (size_t) k * engine->d * sizeof(double));
	engine->k = k;
	engine->regions_failed = false;
	engine->spherical = command->centroids.spherical;
	engine->packed_valid = false;
	engine->sums_valid = false;
	engine->moved = false;
	engine->per_row_state = GK_PER_ROW_NOTHING;
	gk_cpu_forget_labels(engine);
}

/* How far the centroids moved. */
static void
find_moves(const GkCpuEngine *engine, GkMoves *moves)
{
	const float *deltas = engine->deltas.base;

	*moves = (GkMoves) {.deltas = deltas,.greatest_mover = -1};
	for (int64_t c = 0; c < engine->k; c++)
		if (deltas[c] > moves->greatest)
		{
			moves->second = moves->greatest;
			moves->greatest = deltas[c];
			moves->greatest_mover = (int32_t) c;
		}
		else if (deltas[c] > moves->second)
			moves->second = deltas[c];
}

/* Packs the centroids and readies the bounds for an assignment to them. */
static bool
prepare(GkCpuEngine *engine, GkAssignment *assignment)
{
	bool		bounds = engine->per_row_state == GK_PER_ROW_BOUNDS;
	float		scale = engine->packed.filter.scale;

	if (!gk_cpu_array_need(engine, &engine->per_row, gk_cpu_padded_rows(engine), sizeof(double)))
		return false;
	if (!engine->packed_valid &&
		!gk_cpu_pack(engine, &engine->packed, engine->centroids.base, engine->k, bounds))
		return false;
	if (!engine->packed_valid)
	{
		if (engine->regions_failed)
			gk_cpu_regions_free(engine, &engine->packed);
		else if (!gk_cpu_regions_pack(engine, &engine->packed, bounds))
			return false;
		engine->regions_failed |= engine->packed.region_count == 0;
	}
	engine->packed_valid = true;
	assignment->packed = &engine->packed;
	if (bounds && scale == engine->packed.filter.scale)
	{
		assignment->use_bounds = true;
		find_moves(engine, &assignment->moves);
	}
	engine->per_row_state = GK_PER_ROW_NOTHING;
	return true;
}

/* Counts the empty clusters. */
static int64_t
count_empty(const GkCpuEngine *engine)
{
	int64_t		empty = 0;

	for (int64_t c = 0; c < engine->k; c++)
		empty += !(gk_cpu_cluster_weight(engine, c) > 0.0);
	return empty;
}

/* Says which clusters are empty. */
static void
mark_empty(const GkCpuEngine *engine, const GkCommand *command)
{
	for (int64_t c = 0; c < engine->k && command->step.is_empty != NULL; c++)
		command->step.is_empty[c] = !(gk_cpu_cluster_weight(engine, c) > 0.0);
}

/* Readies the sums for a step; those of all rows are to be added if they are not valid. */
static bool
prepare_sums(GkCpuEngine *engine, const GkCommand *command, GkAssignment *assignment)
{
	bool		give = command->step.sums != NULL;

	assignment->add_changed = engine->sums_valid && engine->sums_given == give &&
		(!give || command->step.changes);
	assignment->add_all = !assignment->add_changed;
	engine->sums_valid = false;
	engine->sums_given = give;
	if (!assignment->add_all)
		return true;
	engine->per_row_state = GK_PER_ROW_NOTHING;
	return gk_cpu_sums_prepare(engine, engine->wide);
}

/* The end of a step: the sums go to the caller, or make new centroids unless clusters are empty. */
static bool
finish_step(GkCpuEngine *engine, GkCommand *command)
{
	if (!gk_cpu_array_need(engine, &engine->deltas, engine->k, sizeof(float)))
		return false;
	memset(engine->deltas.base, 0, engine->k * sizeof(float));
	engine->moved = false;
	if (command->step.sums != NULL)
		return gk_cpu_sums_give(engine, command->step.sums);
	command->step.empty = count_empty(engine);
	if (command->step.empty == 0)
		return gk_cpu_centroids_update(engine, &command->step.shift2, &command->step.between);
	mark_empty(engine, command);
	return true;
}

/* One iteration: labels, sums, and new centroids unless clusters are empty. */
void
gk_cpu_run_step(GkCpuEngine *engine, GkCommand *command)
{
	bool		bounds = (double) engine->k * (engine->d + 4) > BOUNDS_PAY;
	GkAssignment assignment = {.keep_bounds = bounds};

	command->step.changed = 0;
	command->step.empty = command->step.earlier = 0;
	command->step.shift2 = command->step.between = 0.0;
	if (!prepare_sums(engine, command, &assignment) || !prepare(engine, &assignment) ||
		!gk_cpu_assign_rows(engine, &assignment) || !gk_cpu_sums_merge(engine))
		return;
	engine->regions_failed |= assignment.regions_fail;
	command->step.changed = assignment.changed;
	if (!finish_step(engine, command))
		return;
	engine->sums_valid = true;
	if (bounds)
		engine->per_row_state = GK_PER_ROW_BOUNDS;
}

/* Takes new centroids that were made elsewhere. */
void
gk_cpu_run_move(GkCpuEngine *engine, GkCommand *command)
{
	(void) gk_cpu_centroids_move(engine, command->move.centroids);
}

/* Moves the rows of a relocation to their clusters, or back; false if it is stopped. */
static bool
move_rows(GkCpuEngine *engine, const GkCommand *command, bool back)
{
	for (int64_t i = 0; i < command->relocate.count; i++)
	{
		int64_t		row = command->relocate.rows[i];
		int64_t		own = gk_cpu_labels(engine)[row];
		int64_t		other = command->relocate.clusters[i];

		if (gk_cpu_stopped(engine))
			return false;
		gk_cpu_sums_add_row(engine, 0, row, back ? other : own, back ? own : other);
	}
	return true;
}

/* The update of a step with rows lent to its empty clusters; the sums are as before then. */
void
gk_cpu_run_relocate(GkCpuEngine *engine, GkCommand *command)
{
	command->relocate.shift2 = command->relocate.between = 0.0;
	engine->sums_valid = false;
	if (move_rows(engine, command, false) && gk_cpu_sums_merge(engine) &&
		gk_cpu_centroids_update(engine, &command->relocate.shift2, &command->relocate.between))
		engine->sums_valid = move_rows(engine, command, true) && gk_cpu_sums_merge(engine);
}

/* Labels and d² of all rows with the centroids as they are. */
void
gk_cpu_run_assign(GkCpuEngine *engine, GkCommand *command)
{
	GkAssignment assignment = {.exact = true};

	command->assign.changed = 0;
	command->assign.greatest = command->assign.greatest_distance = 0.0;
	if (!prepare(engine, &assignment) || !gk_cpu_assign_rows(engine, &assignment))
		return;
	command->assign.changed = assignment.changed;
	if (assignment.changed > 0)
		engine->sums_valid = false;
	engine->per_row_state = GK_PER_ROW_DISTANCE2;
	command->assign.greatest = assignment.greatest_mass;
	command->assign.greatest_distance = assignment.greatest_distance;
}

/* Copies the centroids out. */
void
gk_cpu_run_get_centroids(GkCpuEngine *engine, GkCommand *command)
{
	memcpy(command->get_centroids.centroids, engine->centroids.base,
		   (size_t) engine->k * engine->d * sizeof(double));
}
