/*
 * The CPU engine's inside: shared by the files of this folder, seen by nobody else.
 *
 * Rows lie in blocks of GK_BLOCK rows, transposed: feature j of row r of a block is
 * block[j × GK_BLOCK + r].  So a vector's lanes are rows everywhere, and a sum
 * "in index order" is a loop over j.  The last block is padded with copies of the last row.
 */
#ifndef GK_STATE_H
#define GK_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine.h"
#include "engine_state.h"
#include "kernels.h"
#include "speed.h"

#define GK_SUM_LOCKS 256

/* Memory that grows without being copied; base is NULL while bytes is 0. */
typedef struct GkArray
{
	void	   *base;
	size_t		bytes;
	size_t		mapped;			/* of a mapping: bytes, or more if they are few */
} GkArray;

typedef struct GkCpuEngine GkCpuEngine;

/* Does items from .. to - 1 as worker number `worker`. */
typedef void (*GkChunkFunction) (GkCpuEngine *engine, void *context, int worker, int64_t from,
								 int64_t to);

/* Runs a command on the calling thread, which leads the others. */
typedef void (*GkExecuteFunction) (GkCpuEngine *engine, GkCommand *command);

/* The threads: number 0 leads (runs commands), the others help in gk_cpu_parallel(). */
typedef struct GkPool
{
	GkExecuteFunction execute;
	int			threads;		/* wanted */
	int			started;		/* as many as the largest command so far could use */
	int			useful;			/* to the command that runs */
	pthread_t  *ids;
	pthread_mutex_t mutex;
	pthread_cond_t wake;		/* a command for the leader, a job for the helpers, or the end */
	pthread_cond_t idle;		/* the last helper left the job */
	pthread_cond_t finished;	/* the command has ended */
	GkCommand  *command;		/* under the mutex, as all down to `limit` */
	bool		open;			/* helpers may join the job */
	uint64_t	generation;
	int			active;			/* helpers inside the job */
	GkChunkFunction function;
	void	   *context;
	int64_t		count;
	int64_t		grain;
	int			limit;			/* workers that may take part */
	atomic_llong next;
	atomic_bool done;			/* the command has ended */
	atomic_bool stop;			/* the engine is closing: every loop ends at once */
} GkPool;

/* Centroids, or seeding's candidates for them, packed for the filter (centroids.c). */
typedef struct GkPacked
{
	const double *exact;		/* count × d */
	int64_t		count;
	GkArray		panels;			/* see kernels.h */
	GkArray		norms;			/* float, count: upper bounds of the norms in filter space */
	GkArray		origin;			/* float, d: filter space = x × scale - origin */
	GkFilter	filter;
	size_t		panel_floats;
	int64_t		panel_count;
	int64_t		set_panels;		/* panels that stay in the cache together */

	/* the regions (regions.c), if there are any */
	int			region_count;
	int			region_most;	/* there might have been */
	float		region_scale;	/* the scale that their origins are in */
	GkArray		region_origins; /* float, regions × d */
	GkArray		region_norms;	/* float, regions × count: as norms, in the space of the region */
	GkArray		region_of;		/* int32, count: to which region a centroid belongs */
	GkArray		regions;		/* GkRegion */
	int64_t		listed;			/* places of all lists together, whole panels */
	GkArray		region_ids;		/* int32, listed: the centroids of the lists */
	GkArray		listed_norms;	/* float, listed */
	GkArray		region_panels;	/* of the lists */
	GkArray		origin_panels;	/* of the origins, in the filter space */
} GkPacked;

/* A region: which centroids its rows are compared with. */
typedef struct GkRegion
{
	int64_t		first;			/* place of the first, a whole number of panels */
	int64_t		count;
	float		radius;			/* norm of the farthest of its own centroids */
	float		limit;			/* no centroid of the list has a greater norm */
	GkFilter	filter;
} GkRegion;

/* What the 8 bytes a row of GkCpuEngine.per_row hold now. */
typedef enum GkPerRow
{
	GK_PER_ROW_NOTHING,
	GK_PER_ROW_DISTANCE2,		/* double d² */
	GK_PER_ROW_BOUNDS			/* per block: GK_BLOCK upper, then GK_BLOCK lower bounds, float */
} GkPerRow;

struct GkCpuEngine
{
	GkEngine	base;
	bool		weighted;
	uint64_t	host_limit;
	bool		(*draw_host_memory) (uint64_t bytes);	/* see GkEngineConfig */
	void		(*return_host_memory) (uint64_t bytes);
	const GkKernels *kernels;
	GkPool		pool;
	GkStatus	status;			/* of the command */
	GkState		state;
	atomic_ullong host_bytes;
	atomic_ullong host_peak;

	/* the rows */
	int			d;
	int64_t		n;
	uint64_t	tickets;
	GkArray		features;		/* blocks */
	GkArray		weights;		/* double, n */
	GkArray		labels;			/* int32, padded to blocks; -1 = none; of the padding 0 always */
	bool		no_labels;		/* all are "none" */
	GkArray		per_row;		/* 8 bytes a row, padded to blocks */
	GkPerRow	per_row_state;
	GkArray		hashes;			/* uint64, padded to blocks; seeding only */
	bool		hashes_valid;
	GkArray		earlier;		/* float, blocks: the candidates of seeding so far … */
	int64_t		earlier_count;	/* … or -1: they are not known */
	GkArray		reaches;		/* double, one each of them: see GkAssignment */

	/* the grid */
	bool		has_grid;
	bool		wide;
	int			rest_bits;
	GkArray		exponents;		/* int, d + 1 */
	GkArray		scales;			/* double, d + 1 */
	GkQuantizer quantizer;		/* of these scales */
	GkArray		grid_origin;	/* double, d */

	/* the centroids */
	int64_t		k;
	bool		spherical;
	GkArray		centroids;		/* double, k × d */
	GkPacked	packed;			/* of the centroids, or of seeding's candidates */
	bool		packed_valid;	/* packed holds the centroids as they are */
	bool		regions_failed; /* they did not pay since the centroids were set */
	bool		regions_always; /* and reaches, however few centroids and rows, for tests */
	GkArray		shifts;			/* double, k: |new - old|² of the last update; k: `between` of it */
	GkArray		deltas;			/* float, k: |new - old| in filter space, rounded up */
	GkArray		sums;			/* int64, k × sum_stride: highs, and the lows if wide */
	GkArray		partial_sums;	/* the same for each worker, or nothing if they were too many */
	bool		sums_valid;		/* sums are those of the labels … */
	bool		sums_given;		/* … less those that the caller has */
	bool		moved;			/* the centroids moved since the labels were chosen */
	int64_t		sum_stride;
	atomic_flag locks[GK_SUM_LOCKS];	/* of the sums, without partial ones */
	GkArray		scratch;		/* of the workers */
};

/* Bytes that the address sanitizer guards behind a part of an array. */
#ifdef __SANITIZE_ADDRESS__
#define GK_GAP 64
#else
#define GK_GAP 0
#endif

/* memory.c; the first failure of a command is its status */
extern void gk_cpu_fail(GkCpuEngine *engine, GkCode code, const char *where, const char *message);
extern void gk_cpu_guard_gap(void *gap);
extern bool gk_cpu_array_resize(GkCpuEngine *engine, GkArray *array, size_t count, size_t size);
extern bool gk_cpu_array_grow(GkCpuEngine *engine, GkArray *array, size_t count, size_t size);
extern bool gk_cpu_array_need(GkCpuEngine *engine, GkArray *array, size_t count, size_t size);
extern void gk_cpu_array_free(GkCpuEngine *engine, GkArray *array);
extern void gk_cpu_array_populate(GkArray *array, size_t from, size_t to);

/* pool.c */
extern GkStatus gk_cpu_pool_init(GkPool *pool, int threads, int max_threads,
								 GkExecuteFunction execute);
extern GkStatus gk_cpu_pool_submit(GkCpuEngine *engine, GkCommand *command, int threads);
extern bool gk_cpu_pool_wait(GkPool *pool, int milliseconds);
extern void gk_cpu_pool_close(GkCpuEngine *engine);
extern int	gk_cpu_workers(const GkCpuEngine *engine, int64_t chunks);
extern bool gk_cpu_parallel(GkCpuEngine *engine, int64_t count, int64_t grain, int limit,
							GkChunkFunction function, void *context);
extern int64_t gk_cpu_grain(const GkCpuEngine *engine, int64_t count, double work);
extern bool gk_cpu_for_each(GkCpuEngine *engine, int64_t count, double work,
							GkChunkFunction function, void *context);

/* stop.c: whether a command is to end at once */
extern bool gk_cpu_stopped(GkCpuEngine *engine);

/*
 * engine.c; for tests: engines opened from now on use these kernels (NULL: the best).  If as_large,
 * the smallest command runs on the threads, and few centroids have regions.
 */
extern void gk_cpu_engine_use(const GkKernels *kernels, bool as_large);

/* rows.c */
extern GkStatus gk_cpu_rows_append(GkCpuEngine *engine, const GkBatch *batch);
extern void gk_cpu_run_seal(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_range(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_moments(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_transform(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_rows(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_forget_labels(GkCpuEngine *engine);
extern void gk_cpu_run_compare(GkCpuEngine *engine, GkCommand *command);
extern int	gk_cpu_compare_rows(const GkCpuEngine *engine, int64_t row, int64_t other);
extern uint64_t gk_cpu_row_hash(const GkCpuEngine *engine, int64_t row);

/* centroids.c */
extern bool gk_cpu_pack(GkCpuEngine *engine, GkPacked *packed, const double *exact,
						int64_t count, bool keep_scale);
extern void gk_cpu_packed_free(GkCpuEngine *engine, GkPacked *packed);

/* regions.c */
extern bool gk_cpu_regions_pack(GkCpuEngine *engine, GkPacked *packed, bool keep_origins);
extern void gk_cpu_regions_free(GkCpuEngine *engine, GkPacked *packed);

/* assign.c */
typedef struct GkAssignment
{
	GkPacked   *packed;
	bool		use_bounds;		/* skip the rows whose bounds allow it */
	bool		keep_bounds;	/* write bounds for the next time */
	bool		add_changed;	/* move the changed rows between the sums */
	bool		add_all;		/* add all rows to the sums */
	bool		exact;			/* leave d² in per_row */
	bool		keep_nearer;	/* seeding: labels change only where the new d² is less … */
	int64_t		first_label;	/* … or always if this is 0 */
	const double *reaches;		/* by label: no row up to this d² is compared; NULL = all are */
	GkMoves		moves;			/* of the centroids, with use_bounds */
	atomic_llong changed;
	atomic_bool regions_fail;	/* too many rows had to be compared with all centroids */
	pthread_mutex_t mutex;		/* of what follows, with `exact` */
	double		greatest_mass;	/* weight × d² */
	double		greatest_distance;	/* weight × d */
} GkAssignment;

extern bool gk_cpu_assign_rows(GkCpuEngine *engine, GkAssignment *assignment);

/* sums.c */
extern bool gk_cpu_sums_prepare(GkCpuEngine *engine, bool wide);
extern void gk_cpu_sums_add_row(GkCpuEngine *engine, int worker, int64_t row, int64_t from,
								int64_t to);
extern void gk_cpu_sums_add_blocks(GkCpuEngine *engine, int worker, int64_t from, int64_t to);
extern bool gk_cpu_sums_merge(GkCpuEngine *engine);
extern bool gk_cpu_sums_give(GkCpuEngine *engine, int64_t *sums);
extern bool gk_cpu_centroids_move(GkCpuEngine *engine, const double *centroids);
extern bool gk_cpu_centroids_update(GkCpuEngine *engine, double *shift2, double *between);
extern void gk_cpu_run_squares(GkCpuEngine *engine, GkCommand *command);
extern double gk_cpu_cluster_weight(const GkCpuEngine *engine, int64_t cluster);

/* lloyd.c */
extern void gk_cpu_run_grid(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_centroids(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_step(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_move(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_relocate(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_assign(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_get_centroids(GkCpuEngine *engine, GkCommand *command);

/* seed.c */
extern void gk_cpu_run_candidates(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_potentials(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_masses(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_entries(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_draw(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_label_weights(GkCpuEngine *engine, GkCommand *command);

/* statistics.c */
extern bool gk_cpu_need_distances(GkCpuEngine *engine);
extern int	gk_cpu_partial_workers(const GkCpuEngine *engine, size_t bytes);
extern void gk_cpu_run_distances(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_farthest(GkCpuEngine *engine, GkCommand *command);
extern void gk_cpu_run_statistics(GkCpuEngine *engine, GkCommand *command);

/* separation.c */
extern void gk_cpu_run_separation(GkCpuEngine *engine, GkCommand *command);

/* neighbours.c */
extern bool gk_cpu_list_neighbours(GkCpuEngine *engine, const float *points, int64_t count,
								   uint64_t *keys);

/* merges.c */
extern void gk_cpu_run_merge(GkCpuEngine *engine, GkCommand *command);

/* The features of a row as the filter multiplies them. */
static inline int
gk_cpu_depth(const GkCpuEngine *engine)
{
	int			depth = engine->kernels->depth;

	return (engine->d + depth - 1) / depth * depth;
}

/* Blocks in use. */
static inline int64_t
gk_cpu_block_count(const GkCpuEngine *engine)
{
	return (engine->n + GK_BLOCK - 1) / GK_BLOCK;
}

/* Rows with the padding. */
static inline int64_t
gk_cpu_padded_rows(const GkCpuEngine *engine)
{
	return gk_cpu_block_count(engine) * GK_BLOCK;
}

/* The features of a block. */
static inline float *
gk_cpu_block(const GkCpuEngine *engine, int64_t block)
{
	return (float *) engine->features.base + block * GK_BLOCK * engine->d;
}

/* How many rows of a block are no padding. */
static inline int
gk_cpu_block_rows(const GkCpuEngine *engine, int64_t block)
{
	int64_t		left = engine->n - block * GK_BLOCK;

	return left < GK_BLOCK ? (int) left : GK_BLOCK;
}

/* The labels of the rows. */
static inline int32_t *
gk_cpu_labels(const GkCpuEngine *engine)
{
	return (int32_t *) engine->labels.base;
}

/*
 * Gives the padding of a block the label that it always has: one of a centroid, however few there
 * are, since whatever looks up by labels does so for whole blocks.
 */
static inline void
gk_cpu_pad_labels(const GkCpuEngine *engine, int64_t block)
{
	for (int i = gk_cpu_block_rows(engine, block); i < GK_BLOCK; i++)
		gk_cpu_labels(engine)[block * GK_BLOCK + i] = 0;
}

/* The d² of the rows; only while per_row_state is GK_PER_ROW_DISTANCE2, or is about to be. */
static inline double *
gk_cpu_distance2(const GkCpuEngine *engine)
{
	return (double *) engine->per_row.base;
}

/* The weight of a row. */
static inline double
gk_cpu_weight(const GkCpuEngine *engine, int64_t row)
{
	return engine->weighted ? ((const double *) engine->weights.base)[row] : 1.0;
}

#endif							/* GK_STATE_H */
