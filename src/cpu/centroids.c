/*
 * Centroids, or seeding's candidates for them, packed for the filter: see kernels.h.
 */
#include <math.h>
#include <string.h>

#include "state.h"

/* Bytes of centroids whose panels are in the L2 cache while rows stream past. */
#define SET_BYTES ((int64_t) 512 << 10)

typedef struct Packing
{
	GkPacked   *packed;
	double		scale;
} Packing;

/* Norms in filter space, of centroids from .. to - 1. */
static void
norms_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Packing *packing = context;
	GkPacked   *packed = packing->packed;
	const float *origin = packed->origin.base;
	float	   *norms = packed->norms.base;
	int			d = engine->d;

	(void) worker;
	for (int64_t i = from; i < to; i++)
	{
		const double *c = packed->exact + i * d;
		double		sum = 0.0;

		for (int j = 0; j < d; j++)
		{
			double		moved = c[j] * packing->scale - origin[j];

			sum += moved * moved;
		}
		norms[i] = (float) (sqrt(sum) * (1.0 + 0x1p-20)) + 0x1p-120f;
	}
}

/* Panels from .. to - 1. */
static void
panels_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Packing *packing = context;
	GkPacked   *packed = packing->packed;
	const float *origin = packed->origin.base;
	int			width = engine->kernels->panel;
	int			d = engine->d;

	(void) worker;
	for (int64_t p = from; p < to; p++)
	{
		int64_t		left = packed->count - p * width;

		engine->kernels->fill(d, packed->exact + p * width * d, left < width ? (int) left : width,
							  packing->scale, origin,
							  (float *) packed->panels.base + p * packed->panel_floats);
	}
}

/* The origin of the filter space: the grid's, or the mean of the centroids. */
static void
set_origin(GkCpuEngine *engine, GkPacked *packed, double scale)
{
	float	   *origin = packed->origin.base;
	const double *grid_origin = engine->grid_origin.base;
	int			d = engine->d;
	int64_t		sample = packed->count < 64 ? packed->count : 64;

	for (int j = 0; j < d; j++)
	{
		double		sum = 0.0;

		if (engine->has_grid)
			sum = grid_origin[j];
		else
		{
			for (int64_t i = 0; i < sample; i++)
				sum += packed->exact[i * d + j];
			sum /= sample;
		}
		origin[j] = (float) (sum * scale);
	}
}

/* The greatest norm. */
static float
greatest_norm(const GkPacked *packed)
{
	const float *norms = packed->norms.base;
	float		greatest = 0.0f;

	for (int64_t i = 0; i < packed->count; i++)
		if (!(norms[i] <= greatest))
			greatest = norms[i];
	return greatest;
}

/* Computes the norms in the space of a scale. */
static bool
measure(GkCpuEngine *engine, Packing *packing, float scale)
{
	GkPacked   *packed = packing->packed;

	packing->scale = scale;
	set_origin(engine, packed, scale);
	if (!gk_cpu_for_each(engine, packed->count, 2.0 * engine->d, norms_chunk, packing))
		return false;
	packed->filter.scale = scale;
	packed->filter.greatest_norm = greatest_norm(packed);
	return true;
}

/* Measures the centroids in a space where the greatest norm is about 1. */
static bool
choose_scale(GkCpuEngine *engine, Packing *packing, bool keep_scale)
{
	GkFilter   *filter = &packing->packed->filter;
	int			exponent;

	if (!measure(engine, packing, keep_scale ? filter->scale : 1.0f))
		return false;
	if (!isfinite(filter->greatest_norm))
		return true;
	if (keep_scale && filter->greatest_norm < 0x1p20f && filter->greatest_norm > 0x1p-20f)
		return true;
	frexpf(filter->greatest_norm, &exponent);
	exponent = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
	return exponent == 0 || measure(engine, packing, filter->scale * ldexpf(1.0f, -exponent));
}

/*
 * Packs centroids for the filter.  keep_scale: the bounds of the rows are in the space in
 * which these were packed last.
 */
bool
gk_cpu_pack(GkCpuEngine *engine, GkPacked *packed, const double *exact, int64_t count,
			bool keep_scale)
{
	int			d = engine->d;
	int			width = engine->kernels->panel;
	Packing		packing = {.packed = packed};

	packed->exact = exact;
	packed->count = count;
	packed->panel_floats = (size_t) width * (gk_cpu_depth(engine) + 1);
	packed->panel_count = (count + width - 1) / width;
	packed->set_panels = SET_BYTES / (int64_t) (packed->panel_floats * sizeof(float));
	if (packed->set_panels < 1)
		packed->set_panels = 1;
	if (!gk_cpu_array_need(engine, &packed->panels, packed->panel_count,
						   packed->panel_floats * sizeof(float)) ||
		!gk_cpu_array_need(engine, &packed->norms, count, sizeof(float)) ||
		!gk_cpu_array_need(engine, &packed->origin, d, sizeof(float)))
		return false;
	if (!choose_scale(engine, &packing, keep_scale))
		return false;
	packed->filter.d = d;
	packed->filter.origin = packed->origin.base;
	packed->filter.norms = packed->norms.base;
	packed->filter.gamma = isfinite(packed->filter.greatest_norm) ?
		(float) (d + 16) * 0x1p-24f * 1.01f + engine->kernels->split_error : INFINITY;
	packed->filter.gamma_double = (float) (d + 16) * 0x1p-49f;
	packed->filter.reach = INFINITY;
	return gk_cpu_for_each(engine, packed->panel_count, 2.0 * width * d, panels_chunk, &packing);
}

/* Frees the packed centroids. */
void
gk_cpu_packed_free(GkCpuEngine *engine, GkPacked *packed)
{
	gk_cpu_array_free(engine, &packed->panels);
	gk_cpu_array_free(engine, &packed->norms);
	gk_cpu_array_free(engine, &packed->origin);
	gk_cpu_regions_free(engine, packed);
}
