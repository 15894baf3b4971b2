/*
 * Regions: centroids that lie near each other, with an origin of their own among them.
 *
 * A row is compared with the centroids of a region's list alone: the region's own, and those
 * nearest to its origin.  What is left out is farther from the origin than `reach`, which proves
 * for most rows of clustered data that it is farther from them than the best of the list; the other
 * rows are compared with all centroids.  Near its own origin the filter leaves fewer rows in doubt,
 * too.
 */
#include <math.h>
#include <string.h>

#include "state.h"

/* Fewer centroids than the first, or more than the second, have no regions. */
#define LEAST_CENTROIDS 128
#define MOST_CENTROIDS 16384

/* Centroids a region has on average, at least, and regions, at most and at least. */
#define CENTROIDS_PER_REGION 8
#define MOST_REGIONS 128
#define LEAST_REGIONS 8

/* Centroids of a list besides twice the region's own. */
#define NEIGHBOURS 32

/* Memory for the rows that wait for their region, a thread: these bytes, or a part of all rows. */
#define WAITING_BYTES ((size_t) 4 << 20)
#define WAITING_SHARE 16

#define LANES 8

/* What builds the regions. */
typedef struct Building
{
	GkPacked   *packed;
	const float *seed;			/* the origin that centroids are compared with */
	float	   *nearest2;		/* of each centroid, to the seeds so far */
} Building;

/* |c S - origin|², in lanes that vectorise. */
static double
square(const double *c, double scale, const float *origin, int d)
{
	double		lanes[LANES] = {0};
	double		sum = 0.0;
	int			j = 0;

	for (; j + LANES <= d; j += LANES)
		for (int i = 0; i < LANES; i++)
		{
			double		moved = c[j + i] * scale - origin[j + i];

			lanes[i] += moved * moved;
		}
	for (; j < d; j++)
		lanes[0] += (c[j] * scale - origin[j]) * (c[j] * scale - origin[j]);
	for (int i = 0; i < LANES; i++)
		sum += lanes[i];
	return sum;
}

/* The origin of a region. */
static float *
region_origin(const GkCpuEngine *engine, const GkPacked *packed, int region)
{
	return (float *) packed->region_origins.base + (int64_t) region * engine->d;
}

/* How many regions there can be: 0 if there is no use in them, or no memory. */
static int
count_regions(const GkCpuEngine *engine, int64_t k)
{
	size_t		share = engine->features.bytes / WAITING_SHARE;
	size_t		waiting = share / engine->pool.threads;
	size_t		count = k / CENTROIDS_PER_REGION;
	size_t		row_bytes = (engine->d + GK_BLOCK) * sizeof(float) + 2 * sizeof(int64_t);

	if (engine->regions_always && k >= 2 * CENTROIDS_PER_REGION)
		return count < MOST_REGIONS ? (int) count : MOST_REGIONS;
	if (k < LEAST_CENTROIDS || k > MOST_CENTROIDS)
		return 0;
	if (waiting > WAITING_BYTES)
		waiting = WAITING_BYTES;
	if (count > MOST_REGIONS)
		count = MOST_REGIONS;
	if (count > waiting / (GK_TILE * row_bytes))
		count = waiting / (GK_TILE * row_bytes);
	if (count > share / (k * sizeof(float)))
		count = share / (k * sizeof(float));
	return count < LEAST_REGIONS ? 0 : (int) count;
}

/* Takes a seed into account for the distances of some centroids to the nearest seed. */
static void
nearest_seed_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Building *building = context;
	const GkPacked *packed = building->packed;

	(void) worker;
	for (int64_t c = from; c < to; c++)
	{
		float		distance2 = (float) square(packed->exact + c * engine->d,
											   packed->filter.scale, building->seed, engine->d);

		if (distance2 < building->nearest2[c])
			building->nearest2[c] = distance2;
	}
}

/* The centroid farthest from all seeds. */
static int64_t
farthest(const Building *building, int64_t count)
{
	int64_t		best = 0;

	for (int64_t c = 1; c < count; c++)
		if (building->nearest2[c] > building->nearest2[best])
			best = c;
	return best;
}

/* Chooses origins among the centroids, each as far from those before as can be. */
static bool
choose_origins(GkCpuEngine *engine, GkPacked *packed)
{
	Building	building = {.packed = packed};
	int			d = engine->d;
	int64_t		seed = 0;

	/* the places of the first distances are free until they are measured */
	building.nearest2 = packed->region_norms.base;
	for (int64_t c = 0; c < packed->count; c++)
		building.nearest2[c] = INFINITY;
	for (int r = 0; r < packed->region_count; r++)
	{
		float	   *origin = region_origin(engine, packed, r);

		for (int j = 0; j < d; j++)
			origin[j] = (float) (packed->exact[seed * d + j] * packed->filter.scale);
		building.seed = origin;
		if (!gk_cpu_for_each(engine, packed->count, 3.0 * d, nearest_seed_chunk, &building))
			return false;
		seed = farthest(&building, packed->count);
	}
	return true;
}

/* Upper bounds of the norms of all centroids in the spaces of some regions. */
static void
region_norms_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	GkPacked   *packed = context;

	(void) worker;
	for (int64_t r = from; r < to && !gk_cpu_stopped(engine); r++)
	{
		const float *origin = region_origin(engine, packed, (int) r);
		float	   *norms = (float *) packed->region_norms.base + r * packed->count;

		for (int64_t c = 0; c < packed->count; c++)
			norms[c] = (float) (sqrt(square(packed->exact + c * engine->d, packed->filter.scale,
											origin, engine->d)) * (1.0 + 0x1p-20)) + 0x1p-120f;
	}
}

/* Says to which region each centroid belongs, and lays out the lists. */
static void
share_out(const GkCpuEngine *engine, GkPacked *packed)
{
	const float *norms = packed->region_norms.base;
	GkRegion   *regions = packed->regions.base;
	int32_t    *region_of = packed->region_of.base;
	int			width = engine->kernels->panel;
	int			neighbours = engine->regions_always ? 1 : NEIGHBOURS;
	int64_t		first = 0;

	for (int r = 0; r < packed->region_count; r++)
		regions[r].count = 0;
	for (int64_t c = 0; c < packed->count; c++)
	{
		int			best = 0;

		for (int r = 1; r < packed->region_count; r++)
			if (norms[r * packed->count + c] < norms[best * packed->count + c])
				best = r;
		region_of[c] = best;
		regions[best].count++;
	}
	for (int r = 0; r < packed->region_count; r++)
	{
		int64_t		count = (2 * regions[r].count + neighbours + width - 1) / width * width;

		regions[r].count = count < packed->count ? count : packed->count;
		regions[r].first = first;
		first += (regions[r].count + width - 1) / width * width;
	}
	packed->listed = first;
}

/* The `rank`-th least of some numbers, from 0 on; disorders them. */
static float
select_least(float *numbers, int64_t count, int64_t rank)
{
	int64_t		from = 0;
	int64_t		to = count - 1;

	while (from < to)
	{
		float		pivot = numbers[from + (to - from) / 2];
		int64_t		left = from;
		int64_t		right = to;

		while (left <= right)
		{
			while (numbers[left] < pivot)
				left++;
			while (numbers[right] > pivot)
				right--;
			if (left <= right)
			{
				float		number = numbers[left];

				numbers[left++] = numbers[right];
				numbers[right--] = number;
			}
		}
		if (rank <= right)
			to = right;
		else if (rank >= left)
			from = left;
		else
			break;
	}
	return numbers[rank];
}

/* Lists the centroids of a region, and finds what is the least norm of all others. */
static void
list_region(const GkCpuEngine *engine, GkPacked *packed, int region, float *work)
{
	const float *norms = (float *) packed->region_norms.base + region * packed->count;
	GkRegion   *r = (GkRegion *) packed->regions.base + region;
	int32_t    *ids = (int32_t *) packed->region_ids.base + r->first;
	float	   *listed = (float *) packed->listed_norms.base + r->first;
	float		limit;
	float		least = INFINITY;
	int64_t		count = 0;

	memcpy(work, norms, packed->count * sizeof(float));
	limit = select_least(work, packed->count, r->count - 1);
	r->filter = packed->filter;
	r->filter.origin = region_origin(engine, packed, region);
	r->filter.norms = listed;
	r->filter.greatest_norm = 0.0f;
	for (int64_t c = 0; c < packed->count; c++)
	{
		if (norms[c] > r->filter.greatest_norm)
			r->filter.greatest_norm = norms[c];
		if (norms[c] <= limit && count < r->count)
		{
			ids[count] = (int32_t) c;
			listed[count++] = norms[c];
		}
		else if (norms[c] < least)
			least = norms[c];
	}
	r->count = count;
	r->filter.reach = least * (1.0f - 0x1p-18f) - 0x1p-118f;
}

/* Lists and packs the centroids of some regions. */
static void
lists_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	GkPacked   *packed = context;
	int			width = engine->kernels->panel;
	int			d = engine->d;
	double	   *few = (double *) engine->scratch.base +
		(int64_t) worker * (packed->count + (int64_t) width * d);

	for (int64_t i = from; i < to && !gk_cpu_stopped(engine); i++)
	{
		GkRegion   *r = (GkRegion *) packed->regions.base + i;
		const int32_t *ids;

		list_region(engine, packed, (int) i, (float *) (few + (int64_t) width * d));
		ids = (int32_t *) packed->region_ids.base + r->first;
		for (int64_t c = 0; c < r->count; c += width)
		{
			int			count = r->count - c < width ? (int) (r->count - c) : width;

			for (int j = 0; j < count; j++)
				memcpy(few + (int64_t) j * d, packed->exact + (int64_t) ids[c + j] * d,
					   d * sizeof(double));
			engine->kernels->fill(d, few, count, packed->filter.scale, r->filter.origin,
								  (float *) packed->region_panels.base +
								  (r->first + c) / width * packed->panel_floats);
		}
	}
}

/* Packs the origins, to find the region of a row that has no label. */
static bool
pack_origins(GkCpuEngine *engine, GkPacked *packed)
{
	int			regions = packed->region_count;
	int			width = engine->kernels->panel;
	int			d = engine->d;
	double	   *few = engine->scratch.base;

	if (!gk_cpu_array_need(engine, &packed->origin_panels, (regions + width - 1) / width,
						   packed->panel_floats * sizeof(float)))
		return false;
	for (int r = 0; r < regions; r += width)
	{
		int			count = regions - r < width ? regions - r : width;
		float	   *panel = (float *) packed->origin_panels.base + r / width * packed->panel_floats;

		for (int i = 0; i < count; i++)
			for (int j = 0; j < d; j++)
				few[(int64_t) i * d + j] = (double) region_origin(engine, packed, r + i)[j] /
					packed->filter.scale;
		engine->kernels->fill(d, few, count, packed->filter.scale, packed->origin.base, panel);
	}
	return true;
}

/* Gets the memory whose size the number of regions decides. */
static bool
need_memory(GkCpuEngine *engine, GkPacked *packed)
{
	int64_t		scratch = packed->count + (int64_t) engine->kernels->panel * engine->d;

	return gk_cpu_array_need(engine, &packed->region_origins, packed->region_count,
							 engine->d * sizeof(float)) &&
		gk_cpu_array_need(engine, &packed->region_norms, packed->region_count,
						  packed->count * sizeof(float)) &&
		gk_cpu_array_need(engine, &packed->regions, packed->region_count, sizeof(GkRegion)) &&
		gk_cpu_array_need(engine, &packed->region_of, packed->count, sizeof(int32_t)) &&
		gk_cpu_array_need(engine, &engine->scratch, engine->pool.threads, scratch * sizeof(double));
}

/* Packs the regions of centroids that are packed. */
bool
gk_cpu_regions_pack(GkCpuEngine *engine, GkPacked *packed, bool keep_origins)
{
	int			count = isfinite(packed->filter.gamma) ? count_regions(engine, packed->count) : 0;
	bool		known = keep_origins && packed->region_count == count &&
		packed->region_scale == packed->filter.scale;

	packed->region_count = count;
	packed->region_scale = packed->filter.scale;
	if (count == 0)
		return true;
	if (!need_memory(engine, packed) || (!known && !choose_origins(engine, packed)) ||
		!gk_cpu_for_each(engine, count, 3.0 * packed->count * engine->d, region_norms_chunk,
						 packed))
		return false;
	share_out(engine, packed);
	if (!gk_cpu_array_need(engine, &packed->region_ids, packed->listed, sizeof(int32_t)) ||
		!gk_cpu_array_need(engine, &packed->listed_norms, packed->listed, sizeof(float)) ||
		!gk_cpu_array_need(engine, &packed->region_panels,
						   packed->listed / engine->kernels->panel,
						   packed->panel_floats * sizeof(float)))
		return false;
	return gk_cpu_for_each(engine, count, 4.0 * (double) packed->listed / count * engine->d,
						   lists_chunk, packed) && (known || pack_origins(engine, packed));
}

/* Frees the regions. */
void
gk_cpu_regions_free(GkCpuEngine *engine, GkPacked *packed)
{
	GkArray    *arrays[] = {
		&packed->region_origins, &packed->region_norms, &packed->regions, &packed->region_of,
		&packed->region_ids, &packed->listed_norms, &packed->region_panels, &packed->origin_panels
	};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		gk_cpu_array_free(engine, arrays[i]);
	packed->region_count = 0;
}
