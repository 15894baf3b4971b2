/*
 * Which of many clusters become one: rounds of unions (merges.h).
 *
 * A round is four kernels: proposals, unions, the lists of neighbours, and how dear a union can be
 * from now on.  Those after the last round do nothing.
 */
#include "launch.h"
#include "merges.h"
#include "warp.cuh"

namespace gk
{

#define WARP 32
#define BLOCK 128				/* threads */
#define WARPS (BLOCK / WARP)
#define AT_ONCE (WARP / GK_MERGE_LANES) /* unions that a warp prices at once */
#define SEEKERS 4				/* clusters for which a warp looks whether they are united */
#define LIMIT_THREADS 1024

/* What the rounds have come to. */
struct MergeState
{
	uint32_t	bins[GK_COST_BINS];	/* unions so far, by their cost */
	unsigned long long found;	/* unions so far */
	unsigned long long before;	/* … and before this round */
	unsigned long long able;	/* clusters that have a union in this round */
	uint32_t	limit;			/* the bits of the greatest cost that counts */
	GkCoarseness coarseness;	/* of this round */
	int			round;
	int			ended;
};

/* Bytes of a state. */
uint64_t
merge_state_bytes()
{
	return sizeof(MergeState);
}

/* Where the device says that there are no more unions. */
const int *
merging_has_ended(const Clusters &clusters)
{
	return &clusters.state->ended;
}

/* Makes keys of unions out of those of neighbours, for the clusters from `first` on. */
static __global__ void
price_kernel(Clusters s, int64_t first, int64_t wanted, int shares, const uint64_t *neighbours)
{
	int64_t		at = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	int64_t		c = first + at;
	uint64_t	nearest[GK_NEIGHBOUR_COUNT];
	uint64_t	keys[GK_NEIGHBOUR_COUNT];

	if (at >= wanted)
		return;
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
		nearest[i] = keys[i] = GK_NO_NEIGHBOUR;
	for (int share = 0; share < shares; share++)
		for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
			gk_offer_neighbour(nearest,
							   neighbours[(share * wanted + at) * GK_NEIGHBOUR_COUNT + i]);
	for (int i = 0; i < GK_NEIGHBOUR_COUNT && nearest[i] != GK_NO_NEIGHBOUR; i++)
	{
		int32_t		other = gk_neighbour_number(nearest[i], c);

		gk_offer_union(keys, gk_union_key(gk_union_cost(s.weights[c], s.weights[other],
														gk_neighbour_distance(nearest[i])),
										  other));
	}
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
		s.lists[c * GK_NEIGHBOUR_COUNT + i] = keys[i];
}

/* Lists the unions of the clusters from `first` on with their neighbours. */
void
price_unions(Shard &shard, const Clusters &clusters, int64_t first, int64_t wanted, int shares,
			 const uint64_t *neighbours)
{
	shard.use();
	price_kernel<<<(unsigned) ((wanted + BLOCK - 1) / BLOCK), BLOCK, 0, shard.device->compute>>>
		(clusters, first, wanted, shares, neighbours);
	GK_LAUNCHED("price_kernel");
}

/* The state before the first round. */
static __global__ void
begin_kernel(Clusters s)
{
	int64_t		step = (int64_t) gridDim.x * blockDim.x;
	int64_t		first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;

	for (int64_t c = first; c < s.count; c += step)
	{
		s.best[c] = GK_NO_NEIGHBOUR;
		s.into[c] = s.rounds[c] = -1;
		s.costs[c] = 0.0f;
	}
	for (int64_t bin = first; bin < GK_COST_BINS; bin += step)
		s.state->bins[bin] = 0;
	if (first > 0)
		return;
	s.state->found = s.state->before = s.state->able = 0;
	s.state->limit = UINT32_MAX - 1;
	s.state->coarseness = {};
	s.state->round = s.state->ended = 0;
}

/* Begins with all clusters, whose lists are there. */
void
begin_merging(Shard &shard, const Clusters &clusters)
{
	shard.use();
	begin_kernel<<<blocks_for(shard, (clusters.count + BLOCK - 1) / BLOCK, 8), BLOCK, 0,
		shard.device->compute>>>
		(clusters);
	GK_LAUNCHED("begin_kernel");
}

/* A union of a cluster as others see it; none if it is too dear. */
static __device__ __forceinline__ uint64_t
key_of_cluster(const Clusters &s, int64_t c, uint64_t key)
{
	uint32_t	bits = gk_union_cost_bits(key);

	return bits > s.state->limit ? GK_NO_NEIGHBOUR
		: gk_round_key(bits, (int32_t) c, s.state->coarseness.bits, s.state->round);
}

/* Lowers the first union that a cluster can have. */
static __device__ __forceinline__ void
lower_best(uint64_t *best, uint64_t key)
{
	if (key < *(volatile uint64_t *) best)
		atomicMin((unsigned long long *) best, (unsigned long long) key);
}

/* Proposes the unions of the list of a cluster; false if it has none. */
static __device__ __forceinline__ bool
propose(const Clusters &s, int64_t c)
{
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
	{
		uint64_t	one = s.lists[c * GK_NEIGHBOUR_COUNT + i];
		uint64_t	key = key_of_cluster(s, c, one);

		if (key == GK_NO_NEIGHBOUR)
			return i > 0;
		if (i == 0)
			lower_best(&s.best[c], key);
		lower_best(&s.best[gk_union_number(one)], key);
	}
	return true;
}

/* Finds the first union that each cluster can have, of those that any cluster lists. */
static __global__ void
propose_kernel(Clusters s)
{
	int64_t		c = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	bool		can = false;
	int			able;

	if (s.state->ended)
		return;
	if (c < s.count)
	{
		s.parts[c] = -1;
		can = s.into[c] < 0 && propose(s, c);
	}
	able = __syncthreads_count(can);
	if (threadIdx.x == 0 && able > 0)
		atomicAdd(&s.state->able, (unsigned long long) able);
}

/* The sum of the lanes of d², in all lanes of a group. */
static __device__ __forceinline__ float
sum_merge_lanes(float sum)
{
	for (int other = GK_MERGE_LANES / 2; other > 0; other /= 2)
		sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, other));
	return sum;
}

/* Divides a mean by its norm; a warp does it. */
static __device__ void
normalise(float *mean, int d)
{
	float		sum = 0.0f;
	float		norm;

	__syncwarp();
	for (int j = threadIdx.x % GK_MERGE_LANES; j < d; j += GK_MERGE_LANES)
		sum = gk_add_square_float(sum, mean[j], 0.0f);
	norm = __fsqrt_rn(sum_merge_lanes(sum));
	__syncwarp();
	for (int j = threadIdx.x % WARP; norm > 0.0f && j < d; j += WARP)
		mean[j] = __fdiv_rn(mean[j], norm);
}

/* Moves the mean of a cluster to that of itself and another one; a warp does it. */
static __device__ void
move_mean(const Clusters &s, int32_t to, int32_t from, float share)
{
	float	   *mean = s.means + (int64_t) to * s.d;
	const float *other = s.means + (int64_t) from * s.d;

	for (int j = threadIdx.x % WARP; j < s.d; j += WARP)
		mean[j] = gk_merge_mean(mean[j], other[j], share);
	if (s.spherical)
		normalise(mean, s.d);
}

/* Notes a union, and returns how far the mean moves. */
static __device__ float
note_union(const Clusters &s, int32_t to, int32_t from, uint32_t cost_bits)
{
	float		share = gk_merge_share(s.weights[to], s.weights[from]);

	s.weights[to] = GK_ADD(s.weights[to], s.weights[from]);
	s.parts[to] = from;
	s.into[from] = to;
	s.rounds[from] = s.state->round;
	s.costs[from] = __uint_as_float(cost_bits);
	atomicAdd(&s.state->bins[cost_bits >> GK_COST_SHIFT], 1u);
	atomicAdd(&s.state->found, 1ull);
	return share;
}

/* The union that a cluster would have in this round. */
static __device__ __forceinline__ uint64_t
choice_of(const Clusters &s, int64_t c)
{
	const uint64_t *list = s.lists + c * GK_NEIGHBOUR_COUNT;

	return list[gk_round_choice(list, s.state->coarseness.bits, s.state->round, s.state->limit)];
}

/* Unites the pairs that are each other's best: SEEKERS clusters a warp, which moves the means. */
static __global__ void
unite_kernel(Clusters s)
{
	int64_t		warp = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / WARP;
	int64_t		c = threadIdx.x % WARP < SEEKERS ? warp * SEEKERS + threadIdx.x % WARP : s.count;
	int32_t		other = 0;
	int32_t		to = 0;
	int32_t		from = 0;
	float		share = 0.0f;
	uint64_t	choice = GK_NO_NEIGHBOUR;
	uint64_t	key = GK_NO_NEIGHBOUR;
	bool		unites;
	unsigned	lanes;

	if (s.state->ended)
		return;
	if (c < s.count && s.into[c] < 0)
		key = key_of_cluster(s, c, s.lists[c * GK_NEIGHBOUR_COUNT]);
	if (key != GK_NO_NEIGHBOUR && s.best[c] == key)
		choice = choice_of(s, c);
	if (choice != GK_NO_NEIGHBOUR)
		other = gk_union_number(choice);
	unites = choice != GK_NO_NEIGHBOUR && s.best[other] == key;
	if (unites)
	{
		to = min((int32_t) c, other);
		from = max((int32_t) c, other);
		share = note_union(s, to, from, gk_union_cost_bits(choice));
	}
	lanes = __ballot_sync(0xffffffffu, unites);
	for (; lanes != 0; lanes &= lanes - 1)
	{
		int			lane = __ffs(lanes) - 1;

		move_mean(s, __shfl_sync(0xffffffffu, to, lane), __shfl_sync(0xffffffffu, from, lane),
				  __shfl_sync(0xffffffffu, share, lane));
	}
}

/* The lane of a bit that is set and has so many before it; WARP if there is none. */
static __device__ __forceinline__ unsigned
lane_of(unsigned bits, int before)
{
	for (int i = 0; i < before; i++)
		bits &= bits - 1;
	return bits == 0 ? WARP : (unsigned) __ffs(bits) - 1;
}

/* Prices the unions of cluster c with the others of some lanes; returns the key of each lane. */
static __device__ uint64_t
price_lanes(const Clusters &s, int64_t c, int32_t other, bool wanted, uint64_t key)
{
	unsigned	lanes = __ballot_sync(0xffffffffu, wanted);
	int			lane = threadIdx.x % WARP;

	while (lanes != 0)
	{
		unsigned	mine = lane_of(lanes, lane / GK_MERGE_LANES);
		int32_t		its = __shfl_sync(0xffffffffu, other, mine < WARP ? (int) mine : 0);
		int			place = __popc(lanes & ((1u << lane) - 1));
		float		sum = 0.0f;
		uint64_t	fresh;

#pragma unroll 4
		for (int j = lane % GK_MERGE_LANES; mine < WARP && j < s.d; j += GK_MERGE_LANES)
			sum = gk_add_square_float(sum, s.means[c * s.d + j], s.means[(int64_t) its * s.d + j]);
		sum = sum_merge_lanes(sum);
		fresh = mine < WARP ? gk_union_key(gk_union_cost(s.weights[c], s.weights[its], sum), its)
			: GK_NO_NEIGHBOUR;
		fresh = __shfl_sync(0xffffffffu, fresh, place < AT_ONCE ? place * GK_MERGE_LANES : 0);
		if ((lanes >> lane & 1) != 0 && place < AT_ONCE)
			key = fresh;
		for (int i = 0; i < AT_ONCE; i++)
			lanes &= lanes - 1;
	}
	return key;
}

/* Writes the least of the keys that the lanes of a warp have, each once. */
static __device__ void
write_list(uint64_t *list, uint64_t key)
{
	int			lane = threadIdx.x % WARP;
	int			place = 0;
	int			count;
	bool		again = false;

	for (int other = 0; other < 2 * GK_NEIGHBOUR_COUNT; other++)
	{
		uint64_t	its = __shfl_sync(0xffffffffu, key, other);

		again |= other < lane && its == key;
	}
	key = again ? GK_NO_NEIGHBOUR : key;
	for (int other = 0; other < 2 * GK_NEIGHBOUR_COUNT; other++)
		place += __shfl_sync(0xffffffffu, key, other) < key;
	count = __popc(__ballot_sync(0xffffffffu, key != GK_NO_NEIGHBOUR));
	if (key != GK_NO_NEIGHBOUR && place < GK_NEIGHBOUR_COUNT)
		list[place] = key;
	if (lane >= count && lane < GK_NEIGHBOUR_COUNT)
		list[lane] = GK_NO_NEIGHBOUR;
}

/* Brings the list of a cluster up to date after a round; a warp does it. */
static __device__ void
refresh_list(const Clusters &s, int64_t c)
{
	int			lane = threadIdx.x % WARP;
	int32_t		part = s.parts[c];
	uint64_t	key = GK_NO_NEIGHBOUR;
	int32_t		was = 0;
	int32_t		now = 0;
	bool		is_stale = false;

	if (lane < GK_NEIGHBOUR_COUNT)
		key = s.lists[c * GK_NEIGHBOUR_COUNT + lane];
	else if (lane < 2 * GK_NEIGHBOUR_COUNT && part >= 0)
		key = s.lists[(int64_t) part * GK_NEIGHBOUR_COUNT + lane - GK_NEIGHBOUR_COUNT];
	if (key != GK_NO_NEIGHBOUR)
	{
		was = gk_union_number(key);
		now = s.into[was] < 0 ? was : s.into[was];
		is_stale = now != was || s.parts[now] >= 0 || part >= 0;
	}
	if (!__any_sync(0xffffffffu, is_stale))
		return;
	if (now == c && key != GK_NO_NEIGHBOUR)
	{
		key = GK_NO_NEIGHBOUR;
		is_stale = false;
	}
	key = price_lanes(s, c, now, is_stale, key);
	write_list(s.lists + c * GK_NEIGHBOUR_COUNT, key);
}

/* Brings all lists up to date after a round. */
static __global__ void
refresh_kernel(Clusters s)
{
	int64_t		c = (int64_t) blockIdx.x * WARPS + threadIdx.x / WARP;

	if (s.state->ended || c >= s.count)
		return;
	if (threadIdx.x % WARP == 0)
		s.best[c] = GK_NO_NEIGHBOUR;
	if (s.into[c] < 0)
		refresh_list(s, c);
}

/* Finds how dear a union can be from now on; one block. */
static __global__ void
__launch_bounds__(LIMIT_THREADS)
limit_kernel(Clusters s)
{
	const int	share = GK_COST_BINS / LIMIT_THREADS;
	__shared__ unsigned long long sums[LIMIT_THREADS];
	MergeState *state = s.state;
	unsigned long long mine = 0;
	unsigned long long wanted = (unsigned long long) s.wanted;

	if (state->ended)
		return;
	for (int i = 0; i < share; i++)
		mine += state->bins[threadIdx.x * share + i];
	sums[threadIdx.x] = mine;
	__syncthreads();
	for (int step = 1; step < LIMIT_THREADS; step *= 2)
	{
		unsigned long long before = (int) threadIdx.x >= step ? sums[threadIdx.x - step] : 0;

		__syncthreads();
		sums[threadIdx.x] += before;
		__syncthreads();
	}
	if (sums[threadIdx.x] >= wanted && sums[threadIdx.x] - mine < wanted)
	{
		unsigned long long found = sums[threadIdx.x] - mine;
		uint32_t	bin = threadIdx.x * share;

		while (found + state->bins[bin] < wanted)
			found += state->bins[bin++];
		state->limit = ((bin + 1) << GK_COST_SHIFT) - 1;
	}
	if (threadIdx.x > 0)
		return;
	state->ended = state->found == state->before;
	gk_judge_round(&state->coarseness, state->found - state->before, state->able);
	state->able = 0;
	state->before = state->found;
	state->round++;
}

/* Some rounds. */
void
merge_rounds(Shard &shard, const Clusters &clusters, int rounds)
{
	unsigned	blocks = (unsigned) ((clusters.count + BLOCK - 1) / BLOCK);
	unsigned	warps = (unsigned) ((clusters.count + WARPS - 1) / WARPS);
	unsigned	seeking = (unsigned) ((clusters.count + WARPS * SEEKERS - 1) / (WARPS * SEEKERS));

	shard.use();
	for (int i = 0; i < rounds; i++)
	{
		propose_kernel<<<blocks, BLOCK, 0, shard.device->compute>>>(clusters);
		GK_LAUNCHED("propose_kernel");
		unite_kernel<<<seeking, BLOCK, 0, shard.device->compute>>>(clusters);
		GK_LAUNCHED("unite_kernel");
		refresh_kernel<<<warps, BLOCK, 0, shard.device->compute>>>(clusters);
		GK_LAUNCHED("refresh_kernel");
		limit_kernel<<<1, LIMIT_THREADS, 0, shard.device->compute>>>(clusters);
		GK_LAUNCHED("limit_kernel");
	}
}

}								/* namespace gk */
