/*
 * Points (centroids, candidates) as the filter wants them: see kernels.h.
 */
#include <math.h>
#include <string.h>

#include "state.h"

/* Points whose panels are in the L2 cache while rows stream past. */
#define SET_BYTES ((int64_t) 512 << 10)

typedef struct Packing
{
	GkPoints   *points;
	double		scale;
} Packing;

/* Norms in filter space, of points from .. to - 1. */
static void
norms_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Packing *packing = context;
	GkPoints   *points = packing->points;
	const float *center = points->center.base;
	float	   *norms = points->norms.base;
	int			d = engine->d;

	(void) worker;
	for (int64_t i = from; i < to; i++)
	{
		const double *c = points->exact + i * d;
		double		sum = 0.0;

		for (int j = 0; j < d; j++)
		{
			double		moved = c[j] * packing->scale - center[j];

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
	GkPoints   *points = packing->points;
	const float *center = points->center.base;
	int			width = engine->kernels->panel;
	int			d = engine->d;

	(void) worker;
	for (int64_t p = from; p < to; p++)
	{
		float	   *panel = (float *) points->panels.base + p * points->panel_floats;

		for (int i = 0; i < width; i++)
		{
			int64_t		point = p * width + i;
			const double *c = points->exact + point * d;
			double		sum = 0.0;

			for (int j = 0; j < d; j++)
			{
				double		moved = point < points->count ? c[j] * packing->scale - center[j] : 0.0;

				panel[(j + 1) * width + i] = (float) moved;
				sum += moved * moved;
			}
			panel[i] = point < points->count ? (float) (sum / 2) : INFINITY;
		}
	}
}

/* The origin of the filter space: the grid's center, or the mean of the points. */
static void
set_center(GkCpuEngine *engine, GkPoints *points, double scale)
{
	float	   *center = points->center.base;
	const double *grid_center = engine->grid_center.base;
	int			d = engine->d;
	int64_t		sample = points->count < 64 ? points->count : 64;

	for (int j = 0; j < d; j++)
	{
		double		sum = 0.0;

		if (engine->has_grid)
			sum = grid_center[j];
		else
		{
			for (int64_t i = 0; i < sample; i++)
				sum += points->exact[i * d + j];
			sum /= sample;
		}
		center[j] = (float) (sum * scale);
	}
}

/* The greatest norm. */
static float
greatest_norm(const GkPoints *points)
{
	const float *norms = points->norms.base;
	float		greatest = 0.0f;

	for (int64_t i = 0; i < points->count; i++)
		if (!(norms[i] <= greatest))
			greatest = norms[i];
	return greatest;
}

/* Computes the norms in the space of a scale. */
static bool
measure(GkCpuEngine *engine, Packing *packing, float scale)
{
	GkPoints   *points = packing->points;

	packing->scale = scale;
	set_center(engine, points, scale);
	if (!gk_cpu_for_each(engine, points->count, 2.0 * engine->d, norms_chunk, packing))
		return false;
	points->filter.scale = scale;
	points->filter.greatest_norm = greatest_norm(points);
	return true;
}

/* Measures the points in a space where the greatest norm is about 1. */
static bool
choose_scale(GkCpuEngine *engine, Packing *packing, bool keep_scale)
{
	GkFilter   *filter = &packing->points->filter;
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
 * Packs points for the filter.  keep_scale: the bounds of the rows are in the
 * space of these points as they were packed last.
 */
bool
gk_cpu_points_prepare(GkCpuEngine *engine, GkPoints *points, const double *exact, int64_t count,
					  bool keep_scale)
{
	int			d = engine->d;
	int			width = engine->kernels->panel;
	Packing		packing = {.points = points};

	points->exact = exact;
	points->count = count;
	points->panel_floats = (size_t) width * (d + 1);
	points->panel_count = (count + width - 1) / width;
	points->set_panels = SET_BYTES / (int64_t) (points->panel_floats * sizeof(float));
	if (points->set_panels < 1)
		points->set_panels = 1;
	if (!gk_cpu_array_need(engine, &points->panels, points->panel_count,
						   points->panel_floats * sizeof(float)) ||
		!gk_cpu_array_need(engine, &points->norms, count, sizeof(float)) ||
		!gk_cpu_array_need(engine, &points->center, d, sizeof(float)))
		return false;
	if (!choose_scale(engine, &packing, keep_scale))
		return false;
	points->filter.d = d;
	points->filter.center = points->center.base;
	points->filter.norms = points->norms.base;
	points->filter.gamma = isfinite(points->filter.greatest_norm) ?
		(float) (d + 16) * 0x1p-24f * 1.01f : INFINITY;
	points->filter.gamma_double = (float) (d + 16) * 0x1p-49f;
	return gk_cpu_for_each(engine, points->panel_count, 2.0 * width * d, panels_chunk, &packing);
}

/* Gives the memory of the points back. */
void
gk_cpu_points_free(GkCpuEngine *engine, GkPoints *points)
{
	gk_cpu_array_free(engine, &points->panels);
	gk_cpu_array_free(engine, &points->norms);
	gk_cpu_array_free(engine, &points->center);
}
