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

/* Centroids a region has on average, at least, and regions, at most. */
#define CENTROIDS_PER_REGION 8
#define MOST_REGIONS 128

/* Origins are chosen until the next one would be so much nearer, squared, than the last one was. */
#define GAP 16.0f

/* Memory for the rows that wait for their region, a thread: these bytes, or a part of all rows. */
#define WAITING_BYTES ((size_t) 4 << 20)
#define WAITING_SHARE 16
#define WAITING_SHARE_OF_FEW 4
#define FEW_BYTES ((size_t) 64 << 20)

/* The lists take no more than such a part of all rows. */
#define LISTS_SHARE 8

#define LANES 8

/* The regions under construction. */
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
	size_t		share = engine->features.bytes /
		(engine->features.bytes < FEW_BYTES ? WAITING_SHARE_OF_FEW : WAITING_SHARE);
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
	return count < 2 ? 0 : (int) count;
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

/* Chooses origins among the centroids, at most so many, each as far from those before as can be. */
static bool
choose_origins(GkCpuEngine *engine, GkPacked *packed, int most)
{
	Building	building = {.packed = packed};
	int			d = engine->d;
	int64_t		seed = 0;
	float		last2 = 0.0f;

	/* the places of the first distances are free until they are measured */
	building.nearest2 = packed->region_norms.base;
	for (int64_t c = 0; c < packed->count; c++)
		building.nearest2[c] = INFINITY;
	packed->region_count = 0;
	for (int r = 0; r < most; r++)
	{
		float	   *origin = region_origin(engine, packed, r);

		packed->region_count++;
		for (int j = 0; j < d; j++)
			origin[j] = (float) (packed->exact[seed * d + j] * packed->filter.scale);
		building.seed = origin;
		if (!gk_cpu_for_each(engine, packed->count, 3.0 * d, nearest_seed_chunk, &building))
			return false;
		seed = farthest(&building, packed->count);
		if (r > 0 && building.nearest2[seed] * GAP < last2)
			break;
		last2 = building.nearest2[seed];
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

/* Says to which region each centroid belongs: whose origin is the nearest. */
static void
share_out(GkPacked *packed)
{
	const float *norms = packed->region_norms.base;
	GkRegion   *regions = packed->regions.base;
	int32_t    *region_of = packed->region_of.base;

	for (int r = 0; r < packed->region_count; r++)
		regions[r] = (GkRegion) {.filter = packed->filter};
	for (int64_t c = 0; c < packed->count; c++)
	{
		int			best = 0;
		float	   *radius;

		for (int r = 1; r < packed->region_count; r++)
			if (norms[r * packed->count + c] < norms[best * packed->count + c])
				best = r;
		region_of[c] = best;
		radius = &regions[best].radius;
		if (norms[best * packed->count + c] > *radius)
			*radius = norms[best * packed->count + c];
	}
}

/*
 * Says how near to the origin the centroids of a list are.  A row is compared with all centroids
 * that are nearer than |e| + 2 X, X <= |e| + u, where e is its own one, u away.  That is no farther
 * than the radius, and u is taken for the distance between neighbours.
 */
static void
measure_list(const GkCpuEngine *engine, GkPacked *packed, int region)
{
	const float *norms = (float *) packed->region_norms.base + (int64_t) region * packed->count;
	GkRegion   *r = (GkRegion *) packed->regions.base + region;
	float		least = INFINITY;
	float		second = INFINITY;

	for (int64_t c = 0; c < packed->count; c++)
	{
		second = norms[c] < least ? least : norms[c] < second ? norms[c] : second;
		least = norms[c] < least ? norms[c] : least;
		r->filter.greatest_norm = c == 0 || norms[c] > r->filter.greatest_norm ? norms[c] :
			r->filter.greatest_norm;
	}
	r->limit = 3.0f * r->radius + 2.0f * second;
	if (engine->regions_always && r->limit > r->radius + second)
		r->limit = r->radius + second;
	for (int64_t c = 0; c < packed->count; c++)
		r->count += norms[c] <= r->limit;
}

/* Lays out the lists; false if they are so long that they do not pay. */
static bool
lay_out_lists(GkCpuEngine *engine, GkPacked *packed)
{
	int			width = engine->kernels->panel;
	size_t		panel = packed->panel_floats * sizeof(float);
	int64_t		most = packed->count * packed->region_count / 2;

	packed->listed = 0;
	for (int r = 0; r < packed->region_count; r++)
	{
		GkRegion   *region = (GkRegion *) packed->regions.base + r;

		measure_list(engine, packed, r);
		region->first = packed->listed;
		packed->listed += (region->count + width - 1) / width * width;
	}
	return engine->regions_always ||
		(packed->listed <= most && packed->listed / width * panel <=
		 engine->features.bytes / LISTS_SHARE);
}

/* Lists the centroids of a region, and finds what is the least norm of all others. */
static void
list_region(const GkCpuEngine *engine, GkPacked *packed, int region)
{
	const float *norms = (float *) packed->region_norms.base + (int64_t) region * packed->count;
	GkRegion   *r = (GkRegion *) packed->regions.base + region;
	int32_t    *ids = (int32_t *) packed->region_ids.base + r->first;
	float	   *listed = (float *) packed->listed_norms.base + r->first;
	float		least = INFINITY;
	int64_t		count = 0;

	for (int64_t c = 0; c < packed->count; c++)
		if (norms[c] <= r->limit)
		{
			ids[count] = (int32_t) c;
			listed[count++] = norms[c];
		}
		else if (norms[c] < least)
			least = norms[c];
	r->filter.origin = region_origin(engine, packed, region);
	r->filter.norms = listed;
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
		(int64_t) worker * width * d;

	for (int64_t i = from; i < to && !gk_cpu_stopped(engine); i++)
	{
		GkRegion   *r = (GkRegion *) packed->regions.base + i;
		const int32_t *ids;

		list_region(engine, packed, (int) i);
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

/* Gets the memory for so many regions. */
static bool
need_memory(GkCpuEngine *engine, GkPacked *packed, int most)
{
	int64_t		scratch = (int64_t) engine->kernels->panel * engine->d;

	return gk_cpu_array_need(engine, &packed->region_origins, most, engine->d * sizeof(float)) &&
		gk_cpu_array_need(engine, &packed->region_norms, most, packed->count * sizeof(float)) &&
		gk_cpu_array_need(engine, &packed->regions, most, sizeof(GkRegion)) &&
		gk_cpu_array_need(engine, &packed->region_of, packed->count, sizeof(int32_t)) &&
		gk_cpu_array_need(engine, &engine->scratch, gk_cpu_workers(engine, most),
						  scratch * sizeof(double));
}

/* Lists and packs the centroids of all regions. */
static bool
pack_lists(GkCpuEngine *engine, GkPacked *packed)
{
	double		work = 4.0 * (double) packed->listed / packed->region_count * engine->d;

	return gk_cpu_array_need(engine, &packed->region_ids, packed->listed, sizeof(int32_t)) &&
		gk_cpu_array_need(engine, &packed->listed_norms, packed->listed, sizeof(float)) &&
		gk_cpu_array_need(engine, &packed->region_panels,
						  packed->listed / engine->kernels->panel,
						  packed->panel_floats * sizeof(float)) &&
		gk_cpu_for_each(engine, packed->region_count, work, lists_chunk, packed);
}

/* Packs the regions of centroids that are packed; there are none if they do not pay. */
bool
gk_cpu_regions_pack(GkCpuEngine *engine, GkPacked *packed, bool keep_origins)
{
	int			most = isfinite(packed->filter.gamma) ? count_regions(engine, packed->count) : 0;
	bool		known = keep_origins && packed->region_count > 0 && packed->region_most == most &&
		packed->region_scale == packed->filter.scale;

	packed->region_most = most;
	packed->region_scale = packed->filter.scale;
	if (most == 0)
	{
		packed->region_count = 0;
		return true;
	}
	if (!need_memory(engine, packed, most) ||
		(!known && !choose_origins(engine, packed, most)) ||
		!gk_cpu_for_each(engine, packed->region_count, 3.0 * packed->count * engine->d,
						 region_norms_chunk, packed))
		return false;
	share_out(packed);
	if (!lay_out_lists(engine, packed))
	{
		gk_cpu_regions_free(engine, packed);
		return true;
	}
	return pack_lists(engine, packed) && (known || pack_origins(engine, packed));
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
