/*
 * Compares rows by their bits, on the devices: the order of pairs, and of the farthest rows if
 * d² and hash are equal.
 */
#include <cstring>

#include "cuda_engine.h"
#include "exact.h"
#include "ties.h"

namespace gk
{

/* Pairs compared at once, and bytes for the rows with which others are compared. */
#define PAIRS_AT_ONCE 65536
#define OTHERS_BYTES (2 << 20)

/* The order of two rows on the host. */
static int
compare_on_host(const float *x, const double *w, const float *other, const double *other_weight,
				int d)
{
	uint64_t	weights[2] = {0, 0};

	for (int j = 0; j < d; j++)
	{
		uint32_t	left;
		uint32_t	right;

		memcpy(&left, x + j, sizeof(left));
		memcpy(&right, other + j, sizeof(right));
		if (left != right)
			return left < right ? -1 : 1;
	}
	if (w != nullptr)
	{
		memcpy(&weights[0], w, sizeof(double));
		memcpy(&weights[1], other_weight, sizeof(double));
	}
	return (weights[0] > weights[1]) - (weights[0] < weights[1]);
}

/* The rows with which others are compared. */
struct Others
{
	std::vector<float> features;
	std::vector<double> weights;
};

/* The addresses of all that on a device. */
struct CompareRoom
{
	RowPair    *pairs;
	float	   *features;
	double	   *weights;
	int8_t	   *order;
};

/* Allocates room for this many pairs and others. */
static CompareRoom
take_room(Scratch *scratch, uint64_t pairs, uint64_t others, int d)
{
	CompareRoom room;

	room.pairs = scratch->take<RowPair>(pairs);
	room.features = scratch->take<float>(others * d);
	room.weights = scratch->take<double>(others);
	room.order = scratch->take<int8_t>(pairs);
	return room;
}

/* Compares resident rows of a shard, and copies the results to their positions. */
static void
compare_resident(Shard &shard, const std::vector<RowPair> &pairs,
				 const std::vector<int64_t> &places, const Others &others, int8_t *order)
{
	int64_t		count = (int64_t) pairs.size();
	std::vector<int8_t> found(count);
	Scratch		scratch;
	CompareRoom room;

	if (count == 0)
		return;
	scratch.base = shard.scratch.get();
	room = take_room(&scratch, count, others.weights.size(), shard.dimension);
	to_device(shard, room.pairs, pairs.data(), count);
	to_device(shard, room.features, others.features.data(), others.features.size());
	to_device(shard, room.weights, others.weights.data(), others.weights.size());
	compare_pairs(shard, room.pairs, count, room.features, room.weights, room.order);
	to_host(shard, found.data(), (const int8_t *) room.order, count);
	for (int64_t i = 0; i < count; i++)
		order[places[i]] = found[i];
}

/* Makes room on a device to compare this many pairs. */
static void
reserve_room(Shard &shard, uint64_t pairs, uint64_t others)
{
	Scratch		scratch;

	(void) take_room(&scratch, pairs, others, shard.dimension);
	shard.scratch.reserve(shard, scratch.used);
}

/* Compares each row with the one of the others that `which` names. */
void
Engine::compare_with(const int64_t *numbers, const std::vector<int64_t> &others,
					 const std::vector<int64_t> &which, int8_t *order)
{
	Others		values;
	std::vector<std::vector<RowPair>> pairs(shards.size());
	std::vector<std::vector<int64_t>> places(shards.size());

	/* comes first: making room may move rows to the host */
	for (auto &shard : shards)
		reserve_room(*shard, which.size(), others.size());
	values.features.resize(others.size() * dimension);
	values.weights.resize(others.size());
	read_rows(others.data(), (int64_t) others.size(), values.features.data(),
			  values.weights.data());
	for (size_t i = 0; i < which.size(); i++)
	{
		const Range &one = range_of(numbers[i]);
		Shard	   &shard = *shards[one.shard];
		int64_t		row = one.local + (numbers[i] - one.first);
		const float *x;
		const double *w;

		if (row < shard.resident)
		{
			pairs[one.shard].push_back(RowPair{row, which[i]});
			places[one.shard].push_back((int64_t) i);
			continue;
		}
		shard.check_stop();
		shard.host_row(row, &x, &w);
		order[i] = (int8_t) compare_on_host(x, w, &values.features[which[i] * dimension],
											&values.weights[which[i]], dimension);
	}
	for (size_t s = 0; s < shards.size(); s++)
		compare_resident(*shards[s], pairs[s], places[s], values, order);
}

/* The order of pairs of rows: in portions, so that the others take little memory. */
void
Engine::compare_rows(const int64_t *numbers, const int64_t *others, int64_t count, int8_t *order)
{
	size_t		most = std::max<size_t>(OTHERS_BYTES / (dimension * sizeof(float)), 1);
	int64_t		to;

	for (int64_t from = 0; from < count; from = to)
	{
		std::vector<int64_t> distinct;
		std::vector<int64_t> which;

		if (stopping.is_set())
			throw Stopped{};
		for (to = from; to < count && to - from < PAIRS_AT_ONCE; to++)
		{
			if (distinct.empty() || distinct.back() != others[to])
			{
				if (distinct.size() == most)
					break;
				distinct.push_back(others[to]);
			}
			which.push_back((int64_t) distinct.size() - 1);
		}
		compare_with(numbers + from, distinct, which, order + from);
	}
}

/* GK_COMPARE: the order of pairs of rows. */
void
Engine::compare(GkCommand *c)
{
	compare_rows(c->compare.rows, c->compare.others, c->compare.count, c->compare.order);
}

/* For gk_order_ties(): the context is the engine. */
void
Engine::compare_for_ties(void *context, const int64_t *rows, const int64_t *others, int64_t count,
						 int8_t *order)
{
	((Engine *) context)->compare_rows(rows, others, count, order);
}

/* Sorts rows in the order of GK_FARTHEST, and keeps the first `most`. */
void
Engine::order_farthest(std::vector<GkEntry> *found, int64_t most)
{
	int64_t		count = (int64_t) found->size();
	std::vector<int64_t> numbers(3 * count);
	std::vector<int8_t> order(count);
	GkTies		ties = {numbers.data(), numbers.data() + count, numbers.data() + 2 * count,
		order.data()};
	GkEntry    *entries = found->data();

	std::sort(found->begin(), found->end(), [](const GkEntry &a, const GkEntry &b)
	{
		return a.distance2 != b.distance2 ? a.distance2 > b.distance2 : a.hash < b.hash;
	});
	for (int64_t begin = 0, end; begin < count; begin = end)
	{
		for (end = begin + 1; end < count && entries[end].hash == entries[begin].hash &&
			 entries[end].distance2 == entries[begin].distance2;)
			end++;
		gk_tie_mark(&ties, begin, end, false);
	}
	gk_order_ties(entries, count, &ties, compare_for_ties, this);
	for (int64_t begin = 0, end; begin < count; begin = end)
	{
		end = gk_tie_end(&ties, begin);
		std::sort(entries + begin, entries + end,
				  [](const GkEntry &a, const GkEntry &b) { return a.row < b.row; });
	}
	if (count > most)
		found->resize(most);
}

/*
 * Of any number of rows that are equal in d² and hash, finds the first `most` by their bits: a
 * window of rows at a time.
 */
void
Engine::take_ties(const Wanted &ties, int64_t most, uint64_t capacity, std::vector<GkEntry> *found)
{
	std::vector<GkEntry> kept;
	int64_t		window = rows;

	for (int64_t from = 0; from < rows;)
	{
		int64_t		to = std::min(rows, from + window);
		uint64_t	listed;

		if (!list(ties, from, to, capacity, &kept, &listed))
		{
			window = std::max<int64_t>(
				(int64_t) ((double) (to - from) * capacity / 2 / listed), 1024);
			continue;
		}
		from = to;
		order_farthest(&kept, most);
	}
	found->insert(found->end(), kept.begin(), kept.end());
}

}								/* namespace gk */
