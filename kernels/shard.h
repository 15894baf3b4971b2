/*
 * A shard: the rows of one device, and everything that the device holds for them.
 *
 * The first rows lie in device memory; those that do not fit lie in page-locked host memory.  A
 * pass walks over slices and does not see the difference.
 */
#ifndef GK_SHARD_H
#define GK_SHARD_H

#include <deque>
#include <memory>
#include <vector>

#include "device.h"
#include "pinned.h"

struct __half;

namespace gk
{

/* Tells if an engine is being closed; a test can make a chosen check say so. */
class StopFlag
{
public:
	void		close() { closing = true; }
	bool		is_closing() const { return closing; }

	/* For commands: true if they must end at once. */
	bool		is_set() { return closing || (counting && --looks <= 0); }

	/* As gk_cuda_stop(). */
	int64_t		plan(int64_t look);
	bool		is_planned() const { return counting; }

private:
	std::atomic<bool> closing{false};
	std::atomic<bool> counting{false};
	std::atomic<int64_t> looks{0};
};

/* Rows in device memory during a pass. */
struct Slice
{
	float	   *features;
	double	   *weights;		/* NULL if not weighted */
	int64_t		first;			/* number of the first row in the shard */
	int64_t		rows;
	int			slot;			/* of the stream buffers; -1 = resident */
};

/* Rows in host memory. */
struct Chunk
{
	Chunk(Account &account, int64_t capacity, int dimension, bool weighted);

	float	   *features() const { return (float *) memory.data; }
	double	   *weights() const { return (double *) ((char *) memory.data + weights_at); }

	int64_t		capacity;
	int64_t		first = 0;
	int64_t		rows = 0;
	uint64_t	weights_at;
	PinnedBlock memory;
};

/* Scale and constants of a set of centroids for the filter (centroids.cu). */
struct CentroidScale
{
	unsigned long long greatest_norm;	/* bits of a double */
	double		error_log;		/* sums of log2 over the centroids, by their weights … */
	double		norm_log;
	double		weight;			/* … and of these */
	int			exponent;		/* centroids are scaled by 2^exponent */
	float		lambda;
	float		mu;
	unsigned	greatest_error;	/* bits of a float */
	float		greatest_slack;	/* as great as any centroid's */
	unsigned	fractions;		/* not 0: some centroid has a coordinate that is no whole number */
	unsigned	exact;			/* not 0: no score is rounded */
};

/* Centroids in the order of their lower bounds, padded. */
struct SortedCentroids
{
	Buffer<__half> rounded;
	Buffer<float> lower;
	Buffer<int32_t> numbers;
	Buffer<int32_t> unsorted;	/* if there are many: their numbers as they come … */
	Buffer<unsigned char> workspace;	/* … and what CUB needs */
};

/* A set of centroids, or of candidates, that rows are compared with. */
struct Centroids
{
	void		release();

	int64_t		count = 0;
	bool		narrow = false;	/* rows are compared with them by narrow.cu */
	bool		ordered = false;	/* rows are compared with them by filter_hopper.cu */
	int64_t		padded = 0;
	bool		prepared = false;
	Buffer<double> exact;		/* count × d */
	Buffer<__half> rounded;		/* minus origin, scaled, rounded: tiles of filter.cuh */
	Buffer<float> lower;		/* padded: |c|²/2 minus the centroid's part of the error bound */
	Buffer<float> slack;		/* padded: |c|²/2 - lower */
	Buffer<float> norm;			/* padded */
	Buffer<float> error;		/* padded */
	Buffer<CentroidScale> scale;
	SortedCentroids sorted;		/* if filter_hopper.cu compares rows with them */
	Buffer<uint64_t> hashes;	/* a hash table, to find equal ones … */
	Buffer<unsigned> firsts;	/* … and the first one of each slot, then the slot of each */
	Buffer<float> packed;		/* for narrow.cu, which needs but the exact ones besides */
};

/* Mean logarithms of the rows' norms, for the constants of the filter. */
struct RowStatistics
{
	double		norm_log;
	double		error_log;
	unsigned long long count;
};

/* The list of a region, on the device. */
struct RegionList
{
	int			first;			/* in the lists of all regions */
	int			count;			/* of centroids; 0: the region's rows are compared with all */
	int			padded;
	float		reach;			/* all others are at least so far from the origin, scaled */
};

/* Rows of a region that a block compares at a time. */
struct alignas(16) RegionTile
{
	int			region;
	int			from;			/* in the order of rows */
	int			count;
};

/* The centroids of its region's list that can be nearest to a row, as many as there are numbers. */
#define REGION_CANDIDATES 14
struct alignas(16) RegionFlag
{
	int			row;			/* in the slice */
	int			count;
	int			candidates[REGION_CANDIDATES];
};

/* Regions of centroids, with an origin and a scale of their own (regions.cpp). */
struct Regions
{
	void		release();

	bool		decided = false;	/* if there are any for so many centroids */
	bool		placed = false;		/* all rows have a region */
	bool		ordered = false;	/* one slice has all rows, and is in their order */
	bool		left_clear = false;	/* what left_count() counts is 0, or will be, in stream order */
	int			wish = 0;			/* of a test, when that was decided */
	int			count = 0;			/* of regions; 0 = none */
	int64_t		width = 0;			/* the most centroids that they have room for */
	int64_t		room = 0;			/* of all lists, in centroids */
	int			most = 0;			/* centroids of a list */
	Centroids	centers;			/* the origins, to find a row's region */
	Buffer<char> memory;			/* of all that follows */
	float	   *origins;			/* count × d */
	float	   *norms;				/* count × k, at most width: upper bounds of |c - origin| */
	float	   *radii;				/* count: how far from the origin the nearest centroids were */
	float	   *limits;				/* count: how far centroids of a list may be; 0: unknown */
	RegionList *lists;				/* count */
	CentroidScale *scales;			/* count */
	RowStatistics *statistics;		/* count: of rows of the pass before */
	uint32_t   *reaches;			/* count × REACHES: rows that need such a reach */
	uint32_t   *used;				/* of the room */
	uint32_t   *places;				/* see filter_regions.cu */
	/* of the centroids in lists */
	int32_t    *ids;
	__half	   *rounded;			/* for each region: tiles of its list × 64 columns */
	float	   *lower;
	float	   *slack;
	float	   *norm;
	float	   *error;
	Buffer<uint16_t> region_of;		/* of each row: the one with the nearest origin, or nearly */
	/* of the rows of a slice */
	Buffer<int32_t> order;			/* the rows, by region */
	Buffer<int32_t> left;			/* those that no region has decided */
	Buffer<RegionTile> tiles;
	Buffer<RegionFlag> flags;		/* rows that have several candidates */
};

/* Counters of a pass, on the device. */
struct Counters
{
	unsigned long long changed;
	unsigned long long empty;
	unsigned long long greatest;			/* bits of a double >= 0 */
	unsigned long long greatest_distance;
	double		shift2;
	double		between;
	unsigned long long listed;
	unsigned long long left;				/* rows that no region has decided */
};

/* Iterations that are under way at a time. */
#define STEPS_UNDER_WAY 2

/* Bytes of copies that pass through page-locked memory. */
#define STAGING_BYTES 65536

/* Page-locked memory that the device reads and writes. */
struct Shared
{
	Counters	counters[STEPS_UNDER_WAY];
	int			stop;			/* the engine is being closed */
	char		staging[STAGING_BYTES];	/* for copies to memory that is not page-locked */
};

/* Backs off (30 µs) after 2000 unsuccessful polls. */
void		pause_between_looks(int tries);

/* Events, destroyed with the object. */
struct Events
{
	~Events()
	{
		for (cudaEvent_t event : list)
			(void) cudaEventDestroy(event);
	}

	std::vector<cudaEvent_t> list;
};

/* The rows of an engine on one device, and their state. */
class Shard final : public MemoryOwner
{
public:
	Shard(Device *on, Account &host, bool weighted, uint64_t limit, StopFlag &stop);
	~Shard();

	void		set_dimension(int d);

	/* Takes rows; the event fires when the batch's memory is free; none if it is at once. */
	cudaEvent_t append(const float *x, const double *w, int64_t count);
	void		clear();
	void		recycle(cudaEvent_t event) { spare_events.push_back(event); }

	void		use() const { GK_CUDA(cudaSetDevice(device->ordinal)); }

	/* Throws Stopped if the engine is being closed; hurry() makes kernels end soon as well. */
	void		check_stop() const;
	void		hurry(bool now);

	/* The slice at `from` of at most `most` rows; finish() ends its use. */
	Slice		start_slice(int64_t from, int64_t most);
	void		finish_slice(const Slice &slice, bool write_back);

	/* Waits for the compute stream, or throws Stopped. */
	void		wait();
	void		wait_event(cudaEvent_t event);

	/* Has the copy stream wait for what the compute stream has been given. */
	void		let_copies_follow();

	/* Page-locked memory for a copy. */
	void	   *staging() const { return shared()->staging; }

	/* Has the device bring its counters to a place; tells if they are there, or throws Stopped. */
	void		send_counters(int place);
	Counters   *device_place(int place) const { return device_results + place; }
	void		mark_counters(int place);
	bool		has_counters(int place) const;
	const Counters &counters_at(int place) const;

	/* The features and weight of a row that is not on the device. */
	void		host_row(int64_t row, const float **x, const double **w) const;
	const float *device_features() const { return (const float *) features.data(); }
	const double *device_weights() const { return (const double *) weights.data(); }

	/* The state of each row, made when first needed. */
	void		need_labels();
	void		need_distance2();

	/* True if so many bytes leave enough for a command's work, with all rows where they are. */
	bool		can_spare(uint64_t bytes) const { return account.has_room(bytes + work_bytes()); }

	/* The same for d², if no row must leave the device for it. */
	void		want_distance2();

	/* Memory for the leading bits of the hashes, likewise. */
	void		want_hash_heads();
	void		drop_hash_heads();

	void		make_room(uint64_t bytes) override;

	int			dimension = 0;
	int			depth = 0;				/* dimension rounded up to 16 */
	bool		weighted;
	int64_t		rows = 0;
	int64_t		resident = 0;

	Buffer<int32_t> labels;				/* -1 = none */
	Buffer<uint32_t> bounds;			/* norm and rounding error of a row, see centroids.cu */
	Buffer<double> distance2;
	bool		bounds_valid = false;
	Buffer<uint32_t> hash_heads;		/* the leading bits of the rows' hashes, if there is room */
	bool		hash_heads_valid = false;
	Buffer<float> origin;				/* dimension */

	/*
	 * If rows and origin are whole numbers small enough for 16 bits: no row less the origin has a
	 * greater norm.  Otherwise 0.
	 */
	double		whole_norm = 0.0;
	Buffer<RowStatistics> row_statistics;

	/* The features of the candidates that GK_DRAW has given, unless there was no room for all. */
	Buffer<float> drawn;
	int64_t		drawn_count = -1;

	Centroids		centroids;
	Centroids		candidates;
	Regions			regions;

	Buffer<double> grid_scales;			/* dimension + 1: 2^exponent */
	Buffer<int> grid_exponents;
	Buffer<double> grid_origin;			/* dimension */
	Buffer<int64_t> sums;				/* limbs × k × (d + 1), of this shard's rows */
	Buffer<int64_t> totals;				/* the same over all shards, if there are several */
	Buffer<double> shifts;				/* k, and k: what the clusters explain */

	/* of one slice in a pass */
	Buffer<int32_t> fresh;				/* new labels */
	Buffer<uint32_t> flag_counts;		/* see filter.cpp */
	bool		flags_clear = false;	/* these are 0, or will be, in stream order */
	Buffer<int32_t> flag_rows;
	Buffer<float> flag_limits;
	Buffer<double> found_distances;
	Buffer<int32_t> found_centroids;

	Buffer<char> scratch;				/* of one command */
	Buffer<Counters> counters;
	bool		counters_clear = false;		/* or will be, in stream order; for the next step */
	Buffer<unsigned> resting;			/* of a command: the centroids move no more */
	const Counters *result = nullptr;	/* page-locked: the counters that came last */
	const int  *stop_flag = nullptr;	/* Shared.stop, for the device */

private:
	uint64_t	row_bytes() const;
	uint64_t	work_bytes() const;
	int64_t		chunk_rows() const;
	bool		fits(int64_t count);
	void		append_to_host(const float *x, const double *w, int64_t count);
	void		demote();
	void		reserve_stream();
	void		check_room(uint64_t bytes) const;
	const Chunk &chunk_of(int64_t row) const;
	void		load(const Chunk &chunk, Slice *slice);
	cudaEvent_t new_event();

	Account    &host;
	StopFlag   &stopping;
	Mapping		features;
	Mapping		weights;
	std::deque<std::unique_ptr<Chunk>> spilled;
	Buffer<float> stream_features[2];
	Buffer<double> stream_weights[2];
	cudaEvent_t loaded[2] = {};
	cudaEvent_t done[2] = {};
	bool		streaming = false;			/* reserve_stream() has been entered */
	int			next_slot = 0;
	cudaEvent_t paces[2] = {};
	cudaEvent_t markers[STEPS_UNDER_WAY] = {};
	cudaEvent_t forks = nullptr;
	int			next_pace = 0;
	Events		all_events;
	std::vector<cudaEvent_t> spare_events;
	Shared	   *shared() const { return (Shared *) shared_block->data; }

	std::unique_ptr<PinnedBlock> shared_block;
	Counters   *device_results = nullptr;	/* Shared.counters, for the device */
};

}								/* namespace gk */

#endif							/* GK_SHARD_H */
