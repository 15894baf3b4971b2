/*
 * GK_DRAW: rows drawn by mass, on a device that has all rows in its memory.
 */
#include "cuda/draws.h"

#include <cstring>

#include "cuda_engine.h"
#include "exact.h"

namespace gk
{

/* A bucket has fewer rows than this on average … */
#define ROWS_A_BUCKET 8

/* … unless there would be more bits. */
#define MOST_BUCKET_BITS 24

/* Of few rows, one block draws so many at most, of so many numbers in all … */
#define FEW_DRAWN 512
#define FEW_NUMBERS (INT64_C(1) << 19)

/* … and they are compared by the definition if that is so many products. */
#define FEW_PRODUCTS (INT64_C(1) << 23)

/* Room for the features of all candidates, over those of the first draw. */
#define DRAWN_ROUNDS 4

/* Room in the list, over the number of rows to be expected. */
#define LIST_ROOM 2
#define LIST_MORE 1024

/* Bits of the number of buckets for so many rows. */
static int
bits_for(int64_t rows)
{
	int			bits = 0;

	while (bits < MOST_BUCKET_BITS && rows >> bits >= ROWS_A_BUCKET)
		bits++;
	return bits;
}

/* Rows that the list is to have room for. */
static int64_t
list_room(int64_t rows, int64_t points, int bits)
{
	int64_t		expected = points * (1 + (rows >> bits));

	return std::min(rows, LIST_ROOM * expected + LIST_MORE);
}

/* The draw of a command; its memory is to be taken. */
static Draw
make_draw(const GkCommand *c, const Shard &shard)
{
	Draw		draw = {};

	draw.count = c->draw.count;
	draw.seed = c->draw.seed;
	draw.start = c->draw.start;
	draw.round = c->draw.round;
	draw.bits = bits_for(shard.rows);
	draw.capacity = list_room(shard.rows, draw.count, draw.bits);
	draw.d = shard.dimension;
	return draw;
}

/* True if one block draws the rows. */
static bool
is_few(const Draw &draw, const Shard &shard)
{
	return draw.bits <= FEW_BITS && draw.count <= FEW_DRAWN &&
		shard.rows * draw.d <= FEW_NUMBERS && shard.hash_heads.get() != nullptr;
}

/* Bytes of what a draw comes to, with the features of the rows. */
static uint64_t
answer_bytes(const Draw &draw)
{
	return sizeof(DrawEnd) + (uint64_t) draw.count * draw.d * sizeof(float);
}

/* True if one kernel compares all rows with those drawn by one block. */
static bool
compares_few(const Draw &draw, const Shard &shard)
{
	return is_few(draw, shard) && shard.rows * draw.d * draw.count <= FEW_PRODUCTS &&
		answer_bytes(draw) <= STAGING_BYTES;
}

/* Takes the memory of the buckets, which is to be zero. */
static void
take_buckets(Draw *draw, Scratch *plan)
{
	int64_t		buckets = INT64_C(1) << draw->bits;

	draw->begins = plan->take<int64_t>(buckets + 1);
	draw->drawn = plan->take<int32_t>(buckets + 1);
	draw->wanted = plan->take<uint8_t>(buckets);
	draw->chains = plan->take<int32_t>(buckets);
}

/* Takes its memory: first that which is to be zero. */
static void
take_memory(Draw *draw, Scratch *plan)
{
	plan->used = 0;
	take_buckets(draw, plan);
	draw->end = plan->take<DrawEnd>(1);
	draw->zeros = plan->used;
	/* follow what the draw comes to */
	draw->drawn_features = plan->take<float>(draw->count * draw->d);
	draw->begin_sums = plan->take<int64_t>(draw_tiles(draw->bits));
	draw->drawn_sums = plan->take<int32_t>(draw_tiles(draw->bits));
	draw->points = plan->take<DrawnPoint>(draw->count);
	draw->list = plan->take<Listed>(draw->capacity);
	draw->next = plan->take<int32_t>(draw->capacity);
	draw->is_drawn = plan->take<int>(draw->capacity);
	draw->rows = plan->take<int64_t>(draw->count);
}

static_assert(sizeof(DrawEnd) % 16 == 0, "the features follow at once");

/*
 * Makes room for a draw; false if rows are not in device memory, or would have to leave it.
 */
bool
Engine::reserve_draw(Shard &shard, Draw *draw)
{
	/* with room for a round that stands for two, which comes next */
	Draw		next = *draw;
	Scratch		plan;

	next.count *= 2;
	next.capacity = list_room(shard.rows, next.count, next.bits);
	take_memory(&next, &plan);
	if (!shard.can_spare(plan.used))
		return false;
	shard.need_distance2();
	shard.want_hash_heads();
	if (compares_few(*draw, shard))
		shard.need_labels();
	shard.scratch.reserve(shard, plan.used);
	plan.base = shard.scratch.get();
	take_memory(draw, &plan);
	draw->features = shard.device_features();
	draw->weights = shard.weighted ? shard.device_weights() : nullptr;
	return shard.resident == shard.rows;
}

/* What the rows are drawn by. */
static Mass
mass_of(const GkCommand *c)
{
	return {c->draw.mass == GK_MASS_DISTANCE, gk_power_of_two(c->draw.exponent)};
}

/* Begins to find the rows that contain the points. */
void
Engine::begin_draw(const GkCommand *c, Shard &shard, const Draw &draw)
{
	Mass		mass = mass_of(c);
	Wanted		wanted = {};

	zero(shard, (char *) draw.begins, draw.zeros);
	walk("masses of a draw", plain_rows(dimension * 8.0), [&](Shard &on, const Slice &slice)
		 { masses_slice(on, slice, mass, draw.bits, draw.begins); });
	if (draw.bits > 0)
		shard.hash_heads_valid = shard.hash_heads.get() != nullptr;
	draw_points(shard, draw);
	wanted.mass = mass;
	wanted.buckets = draw.wanted;
	wanted.bits = draw.bits;
	walk("rows of a draw", plain_rows(dimension * 8.0), [&](Shard &on, const Slice &slice)
		 { list_slice(on, slice, wanted, draw.list, (uint64_t) draw.capacity); });
	find_drawn_rows(shard, draw);
}

/* The same where one block does it. */
void
Engine::begin_few(const GkCommand *c, Shard &shard, const Draw &draw)
{
	Slice		slice;

	shard.check_stop();
	slice = shard.start_slice(0, shard.rows);
	if (!shard.hash_heads_valid)
		hash_slice(shard, slice);
	shard.hash_heads_valid = true;
	draw_few(shard, slice, draw, mass_of(c));
	shard.finish_slice(slice, false);
}

/* Compares all rows with few drawn ones, before it is known here which these are. */
void
Engine::compare_drawn_few(GkCommand *c, Shard &shard, const Draw &draw)
{
	GkState		before = state;
	DrawEnd		end;

	gk_forget_for_drawn(&state);
	compare_few(shard, draw, c->draw.first_label);
	GK_CUDA(cudaMemcpyAsync(shard.staging(), draw.end, answer_bytes(draw), cudaMemcpyDeviceToHost,
							shard.device->compute));
	shard.wait();
	memcpy(&end, shard.staging(), sizeof(end));
	if (end.is_left || end.found == 0)
		state = before;
	if (end.is_left)
		return;
	c->draw.total = end.total;
	c->draw.found = end.found;
	if (end.found == 0)
		return;
	shard.drawn_count = -1;
	sums_valid = false;
	c->draw.greatest = from_bits(end.greatest);
	memcpy(c->draw.features, (char *) shard.staging() + sizeof(end),
		   (uint64_t) end.found * draw.d * sizeof(float));
}

/* Prepares the comparison with what is drawn, while that goes on; false if rows had to leave. */
bool
Engine::prepare_drawn(Shard &shard, int64_t count, int64_t first_label)
{
	int64_t		most = most_candidates();

	shard.need_labels();
	if (first_label == 0)
		reserve_drawn(shard, count);
	reserve_centroids(shard, shard.candidates, std::min(2 * count, most));
	reserve_centroids(shard, shard.candidates, std::min(count, most));
	if (count > 1)
		prepare_filter(shard.candidates.count, shard.candidates.narrow, true);
	return shard.resident == shard.rows;
}

/* Makes room for the features of all candidates, where so many are drawn at first. */
void
Engine::reserve_drawn(Shard &shard, int64_t count)
{
	uint64_t	values = DRAWN_ROUNDS * (uint64_t) count * dimension;

	shard.drawn_count = -1;
	if (!shard.can_spare(values * sizeof(float)))
		return;
	shard.drawn.reserve(shard, values);
	shard.drawn_count = 0;
}

/* Keeps the features of those drawn for GK_MERGE, if there is room. */
void
Engine::keep_drawn(Shard &shard, const Draw &draw, int64_t first, int64_t found)
{
	uint64_t	values = (uint64_t) found * draw.d;

	if (shard.drawn_count != first || shard.drawn.capacity() < first * draw.d + values)
	{
		shard.drawn_count = -1;
		return;
	}
	GK_CUDA(cudaMemcpyAsync(shard.drawn.get() + first * draw.d, draw.drawn_features,
							values * sizeof(float), cudaMemcpyDeviceToDevice,
							shard.device->compute));
	shard.drawn_count += found;
}

/* Compares all rows with those drawn, whose features go to the caller meanwhile. */
void
Engine::compare_drawn(GkCommand *c, Shard &shard, const Draw &draw)
{
	int64_t		found = c->draw.found;
	uint64_t	bytes = (uint64_t) found * dimension * sizeof(float);
	bool		at_once = found <= most_candidates();

	gather_drawn(shard, draw, found, at_once ? shard.candidates.exact.get() : nullptr);
	keep_drawn(shard, draw, c->draw.first_label, found);
	if (bytes <= STAGING_BYTES)
		GK_CUDA(cudaMemcpyAsync(shard.staging(), draw.drawn_features, bytes,
								cudaMemcpyDeviceToHost, shard.device->compute));
	else
		shard.let_copies_follow();
	c->draw.greatest = compare_candidates(
		found, c->draw.first_label,
		[&](Shard &on, int64_t from, int64_t count)
		{
			if (!at_once)
				widen_features(on, draw.drawn_features + from * dimension, count * dimension,
							   on.candidates.exact.get());
		},
		[&](int64_t from, int64_t count)
		{
			if (bytes > STAGING_BYTES)
				copy_beside(shard, c->draw.features + from * dimension,
							draw.drawn_features + from * dimension, count * dimension);
		});
	if (bytes <= STAGING_BYTES)
		memcpy(c->draw.features, shard.staging(), bytes);
}

/* GK_DRAW: draws rows, and compares all rows with them. */
void
Engine::draw(GkCommand *c)
{
	Shard	   &shard = *shards[0];
	Draw		draw = make_draw(c, shard);
	DrawEnd		end;

	c->draw.found = -1;
	c->draw.total = 0;
	if (shards.size() > 1 || shard.rows >> draw.bits >= ROWS_A_BUCKET ||
		!reserve_draw(shard, &draw))
		return;
	if (is_few(draw, shard))
		begin_few(c, shard, draw);
	else
		begin_draw(c, shard, draw);
	if (compares_few(draw, shard))
		return compare_drawn_few(c, shard, draw);
	if (!prepare_drawn(shard, draw.count, c->draw.first_label))
		return;
	to_host(shard, &end, (const DrawEnd *) draw.end, 1);
	if (end.is_left)
		return;
	c->draw.total = end.total;
	c->draw.found = end.found;
	if (end.found == 0)
		return;
	gk_forget_for_drawn(&state);
	compare_drawn(c, shard, draw);
}

}								/* namespace gk */
