/*
 * The commands about the rows: range, moments, transform, fetching rows.
 */
#include <cstring>

#include "cuda_engine.h"
#include "exact.h"

namespace gk
{

/* The float of an integer in the order of floats. */
static float
from_ordered(uint32_t key)
{
	uint32_t	bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
	float		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Of a range: least and greatest weight, a number above 0 if a value is no whole number … */
#define RANGE_FRACTIONS 2
#define RANGE_COLUMNS 3			/* … and from here on d least and d greatest values */

/* Widens a range by another. */
static void
widen_range(std::vector<uint64_t> *range, const std::vector<uint64_t> &other, int d)
{
	uint32_t   *mine = (uint32_t *) (range->data() + RANGE_COLUMNS);
	const uint32_t *its = (const uint32_t *) (other.data() + RANGE_COLUMNS);

	for (int j = 0; j < d; j++)
	{
		mine[j] = std::min(mine[j], its[j]);
		mine[d + j] = std::max(mine[d + j], its[d + j]);
	}
	(*range)[0] = std::min((*range)[0], other[0]);
	(*range)[1] = std::max((*range)[1], other[1]);
	(*range)[RANGE_FRACTIONS] |= other[RANGE_FRACTIONS];
}

/* The range of no values. */
static std::vector<uint64_t>
empty_range(int d)
{
	std::vector<uint64_t> range(RANGE_COLUMNS + d);

	range[0] = UINT64_MAX;
	std::fill_n((uint32_t *) (range.data() + RANGE_COLUMNS), d, 0xffffffffu);
	return range;
}

/* GK_RANGE: least and greatest values. */
void
Engine::range(GkCommand *c)
{
	int			d = dimension;
	std::vector<uint64_t> start = empty_range(d);
	std::vector<uint64_t> all = start;
	const uint32_t *columns;

	whole_range.clear();
	for (auto &shard : shards)
	{
		shard->scratch.reserve(*shard, start.size() * sizeof(uint64_t));
		to_device(*shard, (uint64_t *) shard->scratch.get(), start.data(), start.size());
	}
	walk("range", plain_rows(d * 4.0), [&](Shard &shard, const Slice &slice)
	{
		unsigned long long *weights = (unsigned long long *) shard.scratch.get();
		uint32_t   *found = (uint32_t *) (weights + RANGE_COLUMNS);

		range_slice(shard, slice, found, found + d, weights, weights + RANGE_FRACTIONS);
	});
	for (auto &shard : shards)
	{
		std::vector<uint64_t> found(start.size());

		to_host(*shard, found.data(), (const uint64_t *) shard->scratch.get(), found.size());
		widen_range(&all, found, d);
	}
	c->range.least_weight = c->range.greatest_weight = 1.0;
	if (rows == 0)
		return;
	columns = (const uint32_t *) (all.data() + RANGE_COLUMNS);
	for (int j = 0; j < d; j++)
	{
		c->range.least[j] = from_ordered(columns[j]);
		c->range.greatest[j] = from_ordered(columns[d + j]);
	}
	if (all[RANGE_FRACTIONS] == 0)
	{
		whole_range.assign(c->range.least, c->range.least + d);
		whole_range.insert(whole_range.end(), c->range.greatest, c->range.greatest + d);
	}
	if (weighted)
	{
		c->range.least_weight = from_bits(all[0]);
		c->range.greatest_weight = from_bits(all[1]);
	}
}

/* GK_MOMENTS: sums of z and z², and the exponents. */
void
Engine::moments(GkCommand *c)
{
	int			d = dimension;
	int64_t		columns = d + 1;
	std::vector<double> parameters(3 * d);
	std::vector<int64_t> total(6 * columns);

	for (int j = 0; j < d; j++)
	{
		parameters[j] = c->moments.pivot[j];
		parameters[d + j] = gk_power_of_two(c->moments.first_exponents[j]);
		parameters[2 * d + j] = gk_power_of_two(c->moments.second_exponents[j]);
	}
	for (auto &shard : shards)
	{
		shard->scratch.reserve(*shard, parameters.size() * sizeof(double) +
							   total.size() * sizeof(int64_t));
		to_device(*shard, (double *) shard->scratch.get(), parameters.data(), parameters.size());
		zero(*shard, (int64_t *) shard->scratch.get() + parameters.size(), total.size());
	}
	walk("moments", plain_rows(d * 8.0), [&](Shard &shard, const Slice &slice)
	{
		const double *p = (const double *) shard.scratch.get();
		MomentGrid	scales;

		scales.pivot = p;
		scales.first_scales = p + d;
		scales.second_scales = p + 2 * d;
		scales.weight_scale = gk_power_of_two(c->moments.weight_exponent);
		scales.rest_scale = gk_power_of_two(c->moments.rest_bits);
		moments_slice(shard, slice, scales, (int64_t *) shard.scratch.get() + 3 * d);
	});
	sum_scratch(parameters.size(), total.data(), total.size());
	for (int j = 0; j < d; j++)
	{
		c->moments.first[j] = GkSum{total[j], total[columns + j]};
		c->moments.second[j] = GkSum{total[2 * columns + j], total[3 * columns + j]};
	}
	memcpy(c->moments.exponent_sum, &total[4 * columns], columns * sizeof(int64_t));
	memcpy(c->moments.nonzero, &total[5 * columns], columns * sizeof(int64_t));
	c->moments.weight = GkSum{total[d], total[columns + d]};
}

/* GK_TRANSFORM: rows in place. */
void
Engine::transform(GkCommand *c)
{
	for (auto &shard : shards)
	{
		double	   *to;

		shard->scratch.reserve(*shard, 2 * dimension * sizeof(double));
		to = (double *) shard->scratch.get();
		to_device(*shard, to, c->transform.offset, dimension);
		to_device(*shard, to + dimension, c->transform.factor, dimension);
		shard->bounds_valid = shard->hash_heads_valid = false;
		shard->regions.release();
		shard->origin.release();
		shard->centroids.prepared = shard->candidates.prepared = false;
	}
	sums_valid = false;
	whole_range.clear();
	walk("transform", 0, rows, plain_rows(dimension * 16.0), true,
		 [&](Shard &shard, const Slice &slice)
	{
		const double *parameters = (const double *) shard.scratch.get();

		transform_slice(shard, slice, parameters, parameters + dimension, c->transform.normalize);
	});
	for (auto &shard : shards)
		shard->wait();
}

/* The rows of a list that a shard holds, and their positions in the list. */
struct Part
{
	std::vector<int64_t> rows;
	std::vector<int64_t> places;
};

/* Copies the values of rows, `width` each, to their positions. */
template <typename T> static void
gather(Shard &shard, const Part &part, const T *values, int width, T *to)
{
	int64_t		count = (int64_t) part.rows.size();
	bool		is_all = count > 0 && part.places.back() == count - 1;
	std::vector<T> found(is_all ? 0 : count * width);
	T		   *together;

	if (count == 0)
		return;
	shard.scratch.reserve(shard, count * (sizeof(int64_t) + width * sizeof(T)));
	together = (T *) (shard.scratch.get() + count * sizeof(int64_t));
	to_device(shard, (int64_t *) shard.scratch.get(), part.rows.data(), count);
	gather_rows(shard, values, width, (const int64_t *) shard.scratch.get(), count, together);
	to_host(shard, is_all ? to : found.data(), (const T *) together, count * width);
	for (int64_t i = 0; !is_all && i < count; i++)
		memcpy(to + part.places[i] * width, &found[i * width], width * sizeof(T));
}

/* Features, and weights unless NULL, of rows. */
void
Engine::read_rows(const int64_t *numbers, int64_t count, float *features, double *weights)
{
	std::vector<Part> resident(shards.size());

	/* comes first: making room may move rows to the host */
	for (auto &shard : shards)
		shard->scratch.reserve(*shard, count * (sizeof(int64_t) + std::max<uint64_t>(
												dimension * sizeof(float), sizeof(double))));
	for (int64_t i = 0; i < count; i++)
	{
		const Range &one = range_of(numbers[i]);
		Shard	   &shard = *shards[one.shard];
		int64_t		row = one.local + (numbers[i] - one.first);
		const float *x;
		const double *w;

		if (weights != nullptr)
			weights[i] = 1.0;
		if (row < shard.resident)
		{
			resident[one.shard].rows.push_back(row);
			resident[one.shard].places.push_back(i);
			continue;
		}
		shard.host_row(row, &x, &w);
		memcpy(features + i * dimension, x, dimension * sizeof(float));
		if (weights != nullptr && w != nullptr)
			weights[i] = *w;
	}
	for (size_t s = 0; s < shards.size(); s++)
	{
		gather(*shards[s], resident[s], shards[s]->device_features(), dimension, features);
		if (weights != nullptr && weighted)
			gather(*shards[s], resident[s], shards[s]->device_weights(), 1, weights);
	}
}

/* Labels of rows. */
void
Engine::read_labels(const int64_t *numbers, int64_t count, int32_t *labels)
{
	std::vector<Part> parts(shards.size());

	for (int64_t i = 0; i < count; i++)
	{
		const Range &one = range_of(numbers[i]);

		parts[one.shard].rows.push_back(one.local + (numbers[i] - one.first));
		parts[one.shard].places.push_back(i);
	}
	for (size_t s = 0; s < shards.size(); s++)
		gather(*shards[s], parts[s], (const int32_t *) shards[s]->labels.get(), 1, labels);
}

/* GK_ROWS: features of rows, and weights and labels if asked for. */
void
Engine::get_rows(GkCommand *c)
{
	int64_t		most = std::max<int64_t>((2 << 20) / (dimension * sizeof(float)), 64);

	for (int64_t from = 0; from < c->rows.count; from += most)
	{
		int64_t		count = std::min(most, c->rows.count - from);

		if (stopping.is_set())
			throw Stopped{};
		read_rows(c->rows.rows + from, count, c->rows.features + from * dimension,
				  c->rows.weights == nullptr ? nullptr : c->rows.weights + from);
		if (c->rows.labels != nullptr)
			read_labels(c->rows.rows + from, count, c->rows.labels + from);
	}
}

}								/* namespace gk */
