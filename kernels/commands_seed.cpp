/*
 * The commands of seeding and of relocation: candidates, masses, lists of rows.
 */
#include <cstddef>
#include <cstring>

#include "cuda_engine.h"
#include "exact.h"
#include "filter.h"

namespace gk
{

/* The least capacity, in rows, of a list on the device, if there are so many rows. */
#define LIST_ROWS UINT64_C(65536)

static_assert(sizeof(Listed) == sizeof(GkEntry) &&
			  offsetof(Listed, row) == offsetof(GkEntry, row) &&
			  offsetof(Listed, hash) == offsetof(GkEntry, hash) &&
			  offsetof(Listed, mass) == offsetof(GkEntry, mass) &&
			  offsetof(Listed, distance2) == offsetof(GkEntry, distance2),
			  "a listed row is an entry with the shard's number");

/* Besides twice as many rows as wanted, a list can have so many before it is made shorter. */
#define FEW_LISTED 128

/* How many candidates rows are compared with at a time. */
int64_t
Engine::most_candidates() const
{
	return std::max<int64_t>((32 << 20) / (dimension * 10), 64);
}

/*
 * Compares all rows with candidates, whose labels begin with `first`: the nearest of the old and
 * the new ones.  fill(shard, from, count) puts some of them there; begun(from, count) is called
 * while they are compared.  Returns the greatest weight × d².
 */
double
Engine::compare_candidates(int64_t total, int64_t first,
						   const std::function<void(Shard &, int64_t, int64_t)> &fill,
						   const std::function<void(int64_t, int64_t)> &begun)
{
	int64_t		most = most_candidates();
	double		greatest = 0.0;

	for (auto &shard : shards)
	{
		shard->need_labels();
		shard->need_distance2();
	}
	sums_valid = false;
	for (int64_t from = 0; from < total; from += most)
	{
		int64_t		count = std::min(most, total - from);
		int64_t		first_label = first + from;

		for (auto &shard : shards)
		{
			reserve_centroids(*shard, shard->candidates, count);
			fill(*shard, from, count);
		}
		if (count > 1)
		{
			prepare_filter(count, shards[0]->candidates.narrow, true);
			for (auto &shard : shards)
				if (shard->rows > 0)
					prepare_centroids(*shard, shard->candidates);
		}
		reset_counters();
		walk("candidates", filter_rows(count), [&](Shard &shard, const Slice &slice)
		{
			if (count > 1 && first_label > 0)
				filter_nearer(shard, slice, shard.candidates);
			else if (count > 1)
				filter_slice(shard, slice, shard.candidates, false);
			label_distances(shard, slice, shard.candidates, USE_CANDIDATES, first_label,
							first_label == 0);
		});
		copy_counters(0);
		begun(from, count);
		await_counters(0);
		greatest = 0.0;
		for (auto &shard : shards)
			greatest = std::max(greatest, from_bits(shard->result->greatest));
	}
	return greatest;
}

/* GK_CANDIDATES: the nearest of the candidates, old and new. */
void
Engine::run_candidates(GkCommand *c)
{
	c->candidates.greatest = compare_candidates(
		c->candidates.count, c->candidates.first_label,
		[&](Shard &shard, int64_t from, int64_t count)
		{
			to_device(shard, shard.candidates.exact.get(),
					  c->candidates.candidates + from * dimension, count * dimension);
		},
		[](int64_t, int64_t) {});
}

/* GK_POTENTIALS: the sum of the masses if each trial were chosen. */
void
Engine::potentials(GkCommand *c)
{
	int			count = c->potentials.count;
	double		scale = gk_power_of_two(c->potentials.exponent);

	for (auto &shard : shards)
	{
		shard->need_distance2();
		shard->scratch.reserve(*shard, (count + (uint64_t) count * dimension) * sizeof(int64_t));
		zero(*shard, (int64_t *) shard->scratch.get(), count);
		to_device(*shard, (double *) shard->scratch.get() + count, c->potentials.trials,
				  (uint64_t) count * dimension);
	}
	walk("potentials", plain_rows(dimension * (4.0 + 2.0 * count)),
		 [&](Shard &shard, const Slice &slice)
	{
		potentials_slice(shard, slice, (const double *) shard.scratch.get() + count, count, scale,
						 (int64_t *) shard.scratch.get());
	});
	sum_scratch(0, c->potentials.potentials, count);
}

/* GK_MASSES: Σ of the masses by leading bits of the hash. */
void
Engine::masses(GkCommand *c)
{
	int64_t		count = INT64_C(1) << c->masses.bits;
	Mass		mass = {c->masses.mass == GK_MASS_DISTANCE,
		gk_power_of_two(c->masses.exponent)};

	for (auto &shard : shards)
	{
		shard->need_distance2();
		shard->scratch.reserve(*shard, count * sizeof(int64_t));
		zero(*shard, (int64_t *) shard->scratch.get(), count);
		if (c->masses.bits > 0)
			shard->want_hash_heads();
	}
	walk("masses", plain_rows(dimension * 8.0), [&](Shard &shard, const Slice &slice)
		 { masses_slice(shard, slice, mass, c->masses.bits, (int64_t *) shard.scratch.get()); });
	for (auto &shard : shards)
		if (c->masses.bits > 0)
			shard->hash_heads_valid = shard->hash_heads.get() != nullptr;
	sum_scratch(0, c->masses.buckets, count);
}

/*
 * Lists the wanted rows from .. to - 1 in any order; false if a device has more than its list can
 * hold: then *most is the greatest number.
 */
bool
Engine::list(const Wanted &filter, int64_t from, int64_t to, uint64_t capacity,
			 std::vector<GkEntry> *found, uint64_t *most)
{
	*most = 0;
	for (auto &shard : shards)
	{
		shard->need_distance2();
		zero(*shard, &shard->counters.get()->listed, 1);
	}
	walk("list rows", from, to, plain_rows(dimension * 8.0), false,
		 [&](Shard &shard, const Slice &slice)
	{
		Wanted		its = filter;

		/* the table of buckets follows the list */
		if (its.buckets != nullptr)
			its.buckets = (const uint8_t *) (shard.scratch.get() + capacity * sizeof(Listed));
		list_slice(shard, slice, its, (Listed *) shard.scratch.get(), capacity);
	});
	read_counters();
	for (auto &shard : shards)
		*most = std::max<uint64_t>(*most, shard->result->listed);
	if (*most > capacity)
		return false;
	for (size_t s = 0; s < shards.size(); s++)
	{
		size_t		before = found->size();
		uint64_t	listed = shards[s]->result->listed;

		if (listed == 0)
			continue;
		found->resize(before + listed);
		to_host(*shards[s], (Listed *) found->data() + before,
				(const Listed *) shards[s]->scratch.get(), listed);
		for (size_t i = before; i < found->size(); i++)
			(*found)[i].row = global_row((int) s, (*found)[i].row);
	}
	return true;
}

/* The least capacity of a list; a histogram fits into its memory too. */
uint64_t
Engine::list_rows() const
{
	return std::clamp<uint64_t>((uint64_t) rows,
								DIGIT_VALUES * sizeof(uint64_t) / sizeof(Listed), LIST_ROWS);
}

/*
 * Lists at most `most` of the wanted rows, the first ones, and returns the row to continue from.
 * The list's memory must have been reserved.
 */
int64_t
Engine::list_in_order(const Wanted &filter, int64_t from, int64_t most, std::vector<GkEntry> *found)
{
	int64_t		window = rows - from;

	while (from < rows)
	{
		int64_t		to = std::min(rows, from + window);
		uint64_t	most_listed;

		if (!list(filter, from, to, list_rows(), found, &most_listed))
		{
			window = std::max<int64_t>(
				(int64_t) ((double) (to - from) * (double) list_rows() / 2 / most_listed), 1024);
			continue;
		}
		from = to;
		if ((int64_t) found->size() > most)
		{
			std::nth_element(found->begin(), found->begin() + most, found->end(),
							 [](const GkEntry &a, const GkEntry &b) { return a.row < b.row; });
			from = (*found)[most].row;
			found->resize(most);
			break;
		}
	}
	return from;
}

/* GK_ENTRIES: the rows of the wanted buckets. */
void
Engine::entries(GkCommand *c)
{
	uint64_t	buckets = UINT64_C(1) << c->entries.bits;
	std::vector<GkEntry> found;
	Wanted		filter = {};

	filter.mass = Mass{c->entries.mass == GK_MASS_DISTANCE,
		gk_power_of_two(c->entries.exponent)};
	filter.buckets = c->entries.wanted;
	filter.bits = c->entries.bits;
	for (auto &shard : shards)
	{
		shard->scratch.reserve(*shard, list_rows() * sizeof(Listed) + buckets);
		to_device(*shard, (uint8_t *) shard->scratch.get() + list_rows() * sizeof(Listed),
				  c->entries.wanted, buckets);
	}
	c->entries.next = list_in_order(filter, c->entries.from, c->entries.capacity, &found);
	c->entries.count = (int64_t) found.size();
	for (size_t i = 0; i < found.size(); i++)
	{
		c->entries.entries[i] = found[i];
		c->entries.entries[i].distance2 = 0.0;
	}
}

/* GK_LABEL_WEIGHTS: Σ of the weights by label. */
void
Engine::label_weights(GkCommand *c)
{
	int64_t		count = c->label_weights.count;

	for (auto &shard : shards)
	{
		shard->need_labels();
		shard->scratch.reserve(*shard, count * sizeof(GkSum));
		zero(*shard, (GkSum *) shard->scratch.get(), count);
	}
	walk("label weights", plain_rows(12), [&](Shard &shard, const Slice &slice)
		 { label_weights_slice(shard, slice, grid, (int64_t *) shard.scratch.get()); });
	sum_scratch(0, (int64_t *) c->label_weights.weights, 2 * count);
}

/* Rows of weight > 0 by a digit of d² or of the hash, summed over the devices. */
std::vector<unsigned long long>
Engine::histogram(const Digit &digit)
{
	std::vector<unsigned long long> total(DIGIT_VALUES);

	for (auto &shard : shards)
		zero(*shard, (unsigned long long *) shard->scratch.get(), DIGIT_VALUES);
	walk("histogram", plain_rows(digit.of_hash ? dimension * 8.0 : 8.0),
		 [&](Shard &shard, const Slice &slice)
		 { histogram_slice(shard, slice, digit, (unsigned long long *) shard.scratch.get()); });
	sum_scratch(0, total.data(), DIGIT_VALUES);
	return total;
}

/* The first digit of d² or of the hash. */
static Digit
first_digit(bool of_hash, uint64_t distance)
{
	return {of_hash, distance, 0, 64, 64 - DIGIT_BITS};
}

/* Goes on to the digit after this one, which has the value; false if it is the last. */
static bool
next_digit(Digit *digit, uint64_t value)
{
	digit->prefix = digit->prefix << (digit->known - digit->shift) | value;
	digit->known = digit->shift;
	digit->shift = std::max(digit->shift - DIGIT_BITS, 0);
	return digit->known > 0;
}

/* The filter that passes what a filter passes, without the last rows, which tie. */
static Wanted
before_ties(Wanted filter)
{
	if (filter.hash_limit > 0)
		filter.hash_limit--;
	else
	{
		filter.hash_limit = UINT64_MAX;
		filter.key++;
	}
	return filter;
}

/*
 * A filter that passes the `count` farthest rows, and few enough for a list.  It refines d² from
 * the top, a digit at a time; if that is not enough, the hash likewise from the bottom.  If too
 * many rows are equal in both, *ties describes these and *equal says how many of them to take,
 * the first by their bits.
 */
Wanted
Engine::find_farthest(int64_t count, uint64_t capacity, int64_t *equal, Wanted *ties)
{
	Wanted		filter = {};
	uint64_t	taken = 0;
	uint64_t	wanted_rows = (uint64_t) count;
	uint64_t	most = 2 * wanted_rows + FEW_LISTED;
	Digit		digit = first_digit(false, 0);
	int			value;

	*equal = 0;
	filter.hash_limit = UINT64_MAX;
	do
	{
		std::vector<unsigned long long> counts = histogram(digit);

		value = (1 << (digit.known - digit.shift)) - 1;
		for (; value > 0 && taken + counts[value] < wanted_rows; value--)
			taken += counts[value];
		filter.key = (digit.prefix << (digit.known - digit.shift) | (uint64_t) value) <<
			digit.shift >> 1;
		/* a second look takes less time than a long list */
		if (taken + counts[value] <= std::min(most, capacity))
			return filter;
		most = capacity;
	} while (next_digit(&digit, value));
	digit = first_digit(true, filter.key);
	do
	{
		std::vector<unsigned long long> counts = histogram(digit);
		int			last = (1 << (digit.known - digit.shift)) - 1;

		for (value = 0; value < last && taken + counts[value] < wanted_rows; value++)
			taken += counts[value];
		filter.hash_limit = ((digit.prefix << (digit.known - digit.shift) | (uint64_t) value) <<
							 digit.shift) + ((UINT64_C(1) << digit.shift) - 1);
		if (taken + counts[value] <= capacity)
			return filter;
	} while (next_digit(&digit, value));
	*equal = (int64_t) (wanted_rows - taken);
	*ties = filter;
	ties->only_equal = true;
	return before_ties(filter);
}

/*
 * Prepares what moving empty clusters to the farthest rows needs, if no row must leave the device
 * for it: d², room for a list, and the kernels.
 */
void
Engine::prepare_relocation(int64_t k)
{
	uint64_t	bytes = ((uint64_t) std::min(k, rows) + list_rows()) * sizeof(Listed);

	for (auto &shard : shards)
	{
		if (shard->rows == 0)
			continue;
		shard->want_distance2();
		shard->use();
		if (shard->can_spare(bytes))
			shard->scratch.reserve(*shard, bytes);
		load_distances();
		load_lists();
	}
}

/* GK_FARTHEST: the rows with the greatest d². */
void
Engine::farthest(GkCommand *c)
{
	int64_t		count = std::min(c->farthest.count, rows);
	uint64_t	capacity = (uint64_t) count + list_rows();
	std::vector<GkEntry> found;
	int64_t		equal = 0;
	uint64_t	most;
	Wanted		ties = {};
	Wanted		filter;

	c->farthest.found = 0;
	if (count < 1)
		return;
	for (auto &shard : shards)
	{
		shard->need_distance2();
		shard->scratch.reserve(*shard, capacity * sizeof(Listed));
	}
	filter = find_farthest(count, capacity, &equal, &ties);
	if (!list(filter, 0, rows, capacity, &found, &most))
		fail(GK_INTERNAL, "GK_FARTHEST", "the list of the farthest rows is too short");
	if (equal > 0)
		take_ties(ties, equal, capacity, &found);
	order_farthest(&found, count);
	for (GkEntry &one : found)
		one.mass = 0;
	std::copy(found.begin(), found.end(), c->farthest.entries);
	c->farthest.found = (int64_t) found.size();
}

}								/* namespace gk */
