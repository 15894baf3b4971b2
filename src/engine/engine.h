/*
 * The engine interface: what a k-means engine does for the fit layer.
 *
 * An engine holds one data set (rows of `dimension` float32 features, with a
 * double weight each if `weighted`), k centroids, and one label per row.  The
 * fit layer (fit.c, seed.c) is the algorithm; an engine only does the passes over
 * the rows.  Every result below is defined exactly (exact.h), so two engines
 * that hold the same set of rows give the same bits, whatever the order of
 * the rows, the threads or the devices.
 *
 * No PostgreSQL and no CUDA here: plain C, usable from both sides and from C++.
 *
 * Errors: every call that can fail returns a GkStatus; nothing throws, jumps
 * or prints.  Ownership: the engine owns all it allocates and frees it in
 * close(); pointers in a command belong to the caller and must stay valid
 * until wait() no longer returns GK_RUNNING, or close() has returned.
 *
 * Threads: one thread at a time drives an engine.  append(), reclaim() and set_dimension()
 * are called by the drain thread while the rows are read, everything else by
 * the backend's main thread.  Library and pool threads block all signals.
 */
#ifndef GK_ENGINE_H
#define GK_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits: exceeding one is a checked error (SQLSTATE 54000), never an overflow. */
#define GK_MAX_DIMENSION 65535
#define GK_MAX_CLUSTERS 1000000
#define GK_MAX_ROWS (INT64_C(1) << 40)

/* The most devices that a fit can use. */
#define GK_MAX_DEVICES 16

typedef enum GkCode
{
	GK_OK = 0,
	GK_RUNNING,				/* not an error: the command is still running */
	GK_NO_DEVICE,			/* no usable device or library; message names the cause */
	GK_NO_DEVICE_MEMORY,	/* `needed` and `allowed` are set */
	GK_NO_HOST_MEMORY,		/* `needed` and `allowed` are set */
	GK_LIMIT,				/* a size exceeds a limit of the engine */
	GK_DEVICE_ERROR,		/* a device call failed; the next fit may succeed */
	GK_CONTEXT_LOST,		/* the device context is dead for this process */
	GK_HOST_MEMORY_REFUSED,	/* draw_host_memory() refused the bytes `needed` */
	GK_INTERNAL,			/* should not happen */
	GK_INVALID_ANSWER		/* another server sent what cannot be; message names it */
} GkCode;

typedef struct GkStatus
{
	GkCode		code;
	int			device;			/* -1 where no device is concerned */
	int			native;			/* the library's own error number, 0 if none */
	uint64_t	needed;			/* bytes, with the memory codes */
	uint64_t	allowed;
	uint64_t	held;			/* by all engines of the account, where it refused; no engine sets
								 * it, or `allowed`, for GK_HOST_MEMORY_REFUSED */
	char		where[40];		/* the call that failed */
	char		message[216];	/* one line of English, without a full stop */
} GkStatus;

/* How to open an engine. 0 means "the engine chooses". */
typedef struct GkEngineConfig
{
	bool		weighted;
	int			threads;			/* CPU engine: threads to use, the caller's included */
	int			max_threads;		/* CPU engine: upper limit */
	int			device_count;		/* CUDA engine: devices[] in use; 0 = all visible */
	int			devices[GK_MAX_DEVICES];
	uint64_t	device_memory_limit;	/* bytes per device, 0 = what is free */
	uint64_t	host_memory_limit;	/* bytes of row storage in host memory, 0 = none */
	const struct GkTransport *transport;	/* cluster engine: how to reach its nodes */

	/*
	 * An account of host memory shared with other engines, NULL = none.  The engine draws what
	 * counts against host_memory_limit before it allocates, unless refused, and returns it
	 * after freeing.  Any thread may call these.
	 */
	bool		(*draw_host_memory) (uint64_t bytes);
	void		(*return_host_memory) (uint64_t bytes);
} GkEngineConfig;

/* A batch of rows, row-major, as it lies in the ring. */
typedef struct GkBatch
{
	int64_t		rows;
	const float *features;		/* rows × dimension, finite, no -0 */
	const double *weights;		/* rows, finite, >= 0; NULL if not weighted */
} GkBatch;

/* Bytes of one device that an engine holds, and the most it held. */
typedef struct GkDeviceUsage
{
	int			number;			/* as GkEngineConfig.devices names it */
	uint64_t	bytes;
	uint64_t	peak;
} GkDeviceUsage;

/* Bytes that an engine holds, and the most it held. */
typedef struct GkUsage
{
	uint64_t	host_bytes;
	uint64_t	host_peak;
	uint64_t	pinned_bytes;
	uint64_t	pinned_peak;
	uint64_t	device_bytes;		/* summed over the devices */
	uint64_t	device_peak;
	int			devices;			/* devices in use, 0 for the CPU engine */
	GkDeviceUsage device[GK_MAX_DEVICES];	/* of each of them */
	int			threads;
} GkUsage;

/*
 * Fixed-point grid of a sum: a value v goes to the integer rint(v × 2^exponent), and,
 * if `wide`, the remainder goes to rint(rest × 2^GkGrid.rest_bits).
 * See gk_quantize() in exact.h.
 */
typedef struct GkGrid
{
	bool		wide;				/* two limbs instead of one */
	int			rest_bits;
	const int  *exponents;			/* dimension + 1: one a feature, the last for the weights
									 * (0 if not weighted: a row counts 1) */
	const double *origin;			/* dimension: near the mean of the rows; a hint for the
									 * engine's filter, and what `between` is measured from */
} GkGrid;

/* A two-limb sum: value = (high × 2^rest_bits + low) / 2^(exponent + rest_bits). */
typedef struct GkSum
{
	int64_t		high;
	int64_t		low;
} GkSum;

/* A row as a candidate for something: seeding and relocation. */
typedef struct GkEntry
{
	int64_t		row;			/* the engine's number of the row: its place in append order */
	uint64_t	hash;			/* of the row's bits, see exact.h; other rows may share it */
	int64_t		mass;			/* its quantised mass (GK_ENTRIES) */
	double		distance2;		/* its d² (GK_FARTHEST) */
} GkEntry;

typedef enum GkMass
{
	GK_MASS_WEIGHT,				/* v = weight (1 if not weighted) */
	GK_MASS_DISTANCE			/* v = weight × d², d² of the last GK_CANDIDATES */
} GkMass;

/* How many neighbours GK_MERGE keeps of a cluster. */
#define GK_NEIGHBOUR_COUNT 8

typedef enum GkOperation
{
	/* all rows have been appended: finish the transfers, count the rows; once until clear() */
	GK_SEAL,
	/* the least and greatest value of each feature and of the weights */
	GK_RANGE,
	/* per feature fixed-point Σ(x-p) and Σ(x-p)², exponent statistics */
	GK_MOMENTS,
	/* x := float((x - offset) × factor) in double, then x := x / |x| if asked, in place */
	GK_TRANSFORM,
	/* the grid of the centroid sums; before GK_STEP and GK_LABEL_WEIGHTS */
	GK_GRID,
	/* seeding: d² and label := the nearest of the old and the new candidates */
	GK_CANDIDATES,
	/* seeding: Σ of weight × min(d², d² to the trial) for each trial candidate */
	GK_POTENTIALS,
	/* seeding: Σ of the masses by leading bits of the hash */
	GK_MASSES,
	/* seeding: the rows whose bucket is asked for */
	GK_ENTRIES,
	/* seeding: draws rows by mass and goes on as GK_CANDIDATES with them, or leaves it to others */
	GK_DRAW,
	/* seeding: Σ of the weights by label */
	GK_LABEL_WEIGHTS,
	/* seeding: which of many clusters become one */
	GK_MERGE,
	/* features of the rows of the given numbers; weights and labels if asked for */
	GK_ROWS,
	/* the order of pairs of rows by their bits */
	GK_COMPARE,
	/* set k and the centroids; forgets labels and sums */
	GK_CENTROIDS,
	/* one Lloyd iteration: assign, sum, and update unless clusters are empty or sums asked for */
	GK_STEP,
	/* new centroids in place of the old ones, from an update elsewhere; labels stay */
	GK_MOVE,
	/* the update of a step that had empty clusters, after the given moves */
	GK_RELOCATE,
	/* d² of every row to the centroid that its label was chosen with */
	GK_DISTANCES,
	/* the rows with the greatest d² of GK_DISTANCES, ties to the least hash, then by their bits */
	GK_FARTHEST,
	/* labels and d² with the centroids as they are */
	GK_ASSIGN,
	/* per cluster statistics of the labels and d² of GK_ASSIGN */
	GK_STATISTICS,
	/* per cluster and feature fixed-point Σ weight × (x - c)², by the labels as they are */
	GK_SQUARES,
	/* how far rows are from the points of their own group, and from those of the nearest other */
	GK_SEPARATION,
	/* copy the centroids out */
	GK_GET_CENTROIDS
} GkOperation;

#define GK_OPERATIONS (GK_GET_CENTROIDS + 1)

/* What an iteration came to that another one followed in the same GK_STEP. */
typedef struct GkIterated
{
	int64_t		changed;
	double		shift2;
	double		between;
} GkIterated;

/*
 * One command.  Inputs first, outputs after "out:"; arrays are the caller's,
 * of the shape given.  `d` is the dimension, `k` the number of centroids.
 */
typedef struct GkCommand
{
	GkOperation operation;
	union
	{
		struct
		{
			int64_t		rows;			/* out: */
		}			seal;
		struct
		{
			float	   *least;			/* out: d */
			float	   *greatest;		/* out: d */
			double		least_weight;	/* out: 1 if not weighted */
			double		greatest_weight;
		}			range;
		struct
		{
			const double *pivot;		/* d: z = (double) x - pivot */
			const int  *first_exponents;	/* d: grid of z */
			const int  *second_exponents;	/* d: grid of z × z */
			int			weight_exponent;
			int			rest_bits;
			GkSum	   *first;			/* out: d, Σ z */
			GkSum	   *second;			/* out: d, Σ z² */
			int64_t    *exponent_sum;	/* out: d + 1, Σ gk_exponent(x) of x ≠ 0; last: weights */
			int64_t    *nonzero;		/* out: d + 1, how many x ≠ 0; last: weights */
			GkSum		weight;			/* out: Σ weight */
		}			moments;
		struct
		{
			const double *offset;		/* d */
			const double *factor;		/* d */
			bool		normalize;
		}			transform;
		GkGrid		grid;
		struct
		{
			const double *candidates;	/* count × d */
			int64_t		count;
			int64_t		first_label;	/* label of the first; 0 = forget earlier candidates */
			double		greatest;		/* out: max over the rows of weight × d² */
		}			candidates;
		struct
		{
			const double *trials;		/* count × d */
			int			count;			/* 1 .. 64 */
			int			exponent;		/* one limb: rint(w × d² × 2^exponent) */
			int64_t    *potentials;		/* out: count */
		}			potentials;
		struct
		{
			GkMass		mass;
			int			exponent;
			int			bits;			/* 0 .. 20: 2^bits buckets, see gk_hash_bucket() */
			int64_t    *buckets;		/* out: 2^bits */
		}			masses;
		struct
		{
			GkMass		mass;
			int			exponent;
			int			bits;
			const uint8_t *wanted;		/* 2^bits: 1 = list the rows of this bucket with mass > 0 */
			int64_t		from;			/* first row to look at */
			int64_t		capacity;
			GkEntry    *entries;		/* out: at most capacity, in any order, all before `next` */
			int64_t		count;			/* out: */
			int64_t		next;			/* out: the row to continue from; = rows at the end */
		}			entries;

		/*
		 * The rows lie on a line in the order of their hashes and, if these are equal, of their
		 * bits; each is as long as its mass.  Number i of the points that are drawn is
		 * gk_random_below(total, seed, start, round, i).  The rows that contain one, of equal rows
		 * one, are candidates from label first_label on, in the order of the line.
		 */
		struct
		{
			GkMass		mass;
			int			exponent;
			int64_t		count;			/* of points, at least 1 */
			uint64_t	seed;
			uint32_t	start;
			uint32_t	round;
			int64_t		first_label;	/* as in GK_CANDIDATES */
			float	   *features;		/* out: found × d; room for count × d */
			int64_t		found;			/* out: 0 if there is no mass; -1: the caller is to draw;
										 * if not above 0, nothing has changed */
			int64_t		total;			/* out: the mass of all rows; 0 if the draw is left */
			double		greatest;		/* out: as in GK_CANDIDATES, if found > 0 */
		}			draw;
		struct
		{
			int64_t		count;			/* labels 0 .. count - 1 */
			GkSum	   *weights;		/* out: count, on the grid's weight exponent */
		}			label_weights;

		/*
		 * Clusters of the caller; nothing that the engine knows of its rows is used or changed.
		 * The union of two costs w v / (w + v) × d² of their means, w and v being their weights.
		 * First, each has the GK_NEIGHBOUR_COUNT others nearest to it as neighbours: Σ (x - y)²
		 * in float and in index order, of equals those whose numbers come next after its own,
		 * number 0 coming after the last one.  Then there are rounds.  In a round, a cluster and
		 * that of its neighbours which gk_round_choice() says become one if their union comes
		 * first of all that either of them could have with a neighbour, or with one whose
		 * neighbour it is: by gk_round_key() with the number of the cluster that has the other
		 * as a neighbour.  The one with the greater number becomes a part of the other, which
		 * has the neighbours of both that then cost least.  Once `wanted` unions are found, one
		 * counts only up to gk_union_limit().  After each round, gk_judge_round() says how
		 * exactly the next one compares costs; the rounds end when no two become one.
		 */
		struct
		{
			const float *points;		/* count × d, finite: the means */
			const double *weights;		/* count, >= 0 */
			int64_t		count;			/* below 2^31 */
			int64_t		wanted;			/* unions, at least 1 */
			bool		spherical;		/* a mean is divided by its norm */
			bool		drawn;			/* the points are all candidates, in order, that GK_DRAW
										 * has given since its first_label was 0 */
			int32_t    *into;			/* out: count: of which one it became a part; -1 = none */
			int32_t    *rounds;			/* out: count: in which round, from 0; -1 if none */
			float	   *costs;			/* out: count: what that union cost; 0 if none */
		}			merge;
		struct
		{
			const int64_t *rows;		/* count, each < the number of rows */
			int64_t		count;
			float	   *features;		/* out: count × d */
			double	   *weights;		/* out: count, 1 if not weighted; may be NULL */
			int32_t    *labels;			/* out: count; may be NULL */
		}			rows;
		struct
		{
			const int64_t *rows;		/* count, each < the number of rows */
			const int64_t *others;		/* count, likewise; cheapest if they repeat */
			int64_t		count;
			int8_t	   *order;			/* out: count: -1, 0 or 1 where the row comes before the
										 * other, has the same bits, or comes after it: by the
										 * features in turn, then the weight, their bits as integers
										 * without sign */
		}			compare;
		struct
		{
			const double *centroids;	/* k × d */
			int64_t		k;
			bool		spherical;		/* the update divides a centroid by its norm */
		}			centroids;
		struct
		{
			int64_t		changed;		/* out: rows with a new label (all, the first time) */
			int64_t		empty;			/* out: clusters of weight 0; if > 0, GK_RELOCATE is due */
			double		shift2;			/* out: Σ (new - old)² over the centroids, 0 if empty > 0 */
			double		between;		/* out: Σ weight × (d² to the grid's origin - d² to the new
										 * centroid) over the rows as labelled, 0 if empty > 0 */
			uint8_t    *is_empty;		/* out: k, only written if empty > 0; may be NULL */

			/*
			 * If not NULL, the sums go to the caller, and the update is his: GK_MOVE brings its
			 * result.  `empty`, `shift2` and `between` are 0 then.
			 */
			int64_t    *sums;			/* out: k × (d + 1), features and weight; if the grid is
										 * wide, as many second limbs behind them */
			bool		changes;		/* write how the sums differ from those of the last step,
										 * which must have been such a step with these centroids,
										 * but for GK_MOVE; otherwise the whole sums */

			/*
			 * So many more iterations may follow in the same command, each if labels have changed,
			 * no cluster is empty, and shift2 exceeds the tolerance, or that is 0.  The outputs
			 * above are those of the last one.  If a shift within the tolerance ended them,
			 * labels and sums are unknown.
			 */
			int64_t		more;			/* 0 if sums are asked for */
			double		tolerance;
			int64_t		earlier;		/* out: iterations before the last one, `more` or fewer … */
			GkIterated *iterated;		/* out: `more`: … and what they came to */
		}			step;
		struct
		{
			const double *centroids;	/* k × d */
		}			move;
		struct
		{
			const int64_t *rows;		/* count: leave the sums of their label's cluster … */
			const int64_t *clusters;	/* count: … for this one; for this update only */
			int64_t		count;			/* 0 .. empty */
			double		shift2;			/* out: */
			double		between;		/* out: of the rows as they were moved */
		}			relocate;
		struct
		{
			int64_t		count;
			GkEntry    *entries;		/* out: count or fewer, weight > 0 only; d² descending,
										 * hash ascending, then as GK_COMPARE, then by number */
			int64_t		found;			/* out: */
		}			farthest;
		struct
		{
			int64_t		changed;		/* out: rows whose label is not that of the last step */
			double		greatest;		/* out: max of weight × d² */
			double		greatest_distance;	/* out: max of weight × d */
		}			assign;
		struct
		{
			int			inertia_exponent;
			int			distance_exponent;
			int			rest_bits;
			int64_t    *sizes;			/* out: k, rows */
			GkSum	   *weights;		/* out: k, on the grid's weight exponent and rest_bits */
			GkSum	   *inertia;		/* out: k, Σ weight × d² */
			GkSum	   *distance;		/* out: k, Σ weight × d */
			double	   *radius2;		/* out: k, max d² */
		}			statistics;

		/*
		 * c is the centroid of the row's label as it is now; sums of the last step are lost.  Sums
		 * of values beyond their grid mean nothing.
		 */
		struct
		{
			const int  *exponents;		/* d + 1: grids of weight × (x - c)², and of the weights */
			int			rest_bits;
			int64_t    *sums;			/* out: k × (d + 1), features and weight, and as many second
										 * limbs behind them */
		}			squares;

		/*
		 * Rows and points of the caller; nothing that the engine knows of its rows is used or
		 * changed.  A distance is sqrt(d²), or d²/2 if cosine; distances are summed in double in
		 * the order of the points.
		 */
		struct
		{
			const double *points;		/* ends[groups - 1] × d, one group after the other */
			const int64_t *ends;		/* groups: how many points there are up to its last one;
										 * each has one at least */
			int64_t		groups;
			const float *features;		/* count × d; NULL: the engine's rows from `first` on */
			int64_t		first;
			int64_t		count;
			const int32_t *labels;		/* count: the own group */
			bool		cosine;
			double	   *own;			/* out: count: Σ distance to the points of the own group */
			double	   *other;			/* out: count: the least mean distance to those of another
										 * group; infinite if there is none; NULL = not wanted,
										 * which may be faster */
		}			separation;
		struct
		{
			double	   *centroids;		/* out: k × d */
		}			get_centroids;
	};
} GkCommand;

/* A device as gkmeans_devices() shows it. */
typedef struct GkDevice
{
	int			number;			/* as GkEngineConfig.devices names it */
	char		name[64];
	int			major;			/* compute capability */
	int			minor;
	uint64_t	total_bytes;
	uint64_t	free_bytes;
	uint64_t	own_bytes;		/* held by the engines of this process */
	bool		open;			/* this process has a context on it */
	double		flops;			/* peak of its tensor cores, a second; 0 = unknown */
	double		bandwidth;		/* peak bytes of its memory, a second; 0 = unknown */
} GkDevice;

typedef struct GkEngine GkEngine;

/* The functions of an engine. */
typedef struct GkEngineClass
{
	uint64_t	interface;		/* GK_ENGINE_INTERFACE, where this was compiled */
	const char *name;			/* "cpu", "cuda" */

	/* Makes an engine without rows.  On an error *engine is NULL. */
	GkStatus	(*open) (const GkEngineConfig *config, GkEngine **engine);

	/*
	 * Lends the memory that will hold the batches: an engine may pin it.  NULL takes it back:
	 * once the call returns, even with an error, the engine no longer touches it, whatever was
	 * pending.
	 */
	GkStatus	(*lend_buffer) (GkEngine *engine, void *base, size_t bytes);

	/* Sets the number of features of a row; once, before the first append. */
	GkStatus	(*set_dimension) (GkEngine *engine, int dimension);

	/*
	 * Takes a batch.  Its rows follow those appended before.  The memory of the batch
	 * is the engine's until reclaim() has returned a ticket >= *ticket.
	 */
	GkStatus	(*append) (GkEngine *engine, const GkBatch *batch, uint64_t *ticket);

	/* The greatest ticket up to which all batches' memory is free again. */
	GkStatus	(*reclaim) (GkEngine *engine, uint64_t *ticket);

	/* Drops all rows (and the dimension): the source is read again. */
	GkStatus	(*clear) (GkEngine *engine);

	/* Starts a command; one at a time.  It belongs to the engine until wait() reports its end. */
	GkStatus	(*submit) (GkEngine *engine, GkCommand *command);

	/* Waits at most this long for the command; GK_RUNNING if it is still running. */
	GkStatus	(*wait) (GkEngine *engine, int milliseconds);

	/* Copies labels and d² of rows from .. from + count - 1; either pointer may be NULL. */
	GkStatus	(*fetch) (GkEngine *engine, int64_t from, int64_t count, int32_t *labels,
						  double *distance2);

	void		(*usage) (const GkEngine *engine, GkUsage *usage);

	/* Stops a running command within 100 ms and frees everything.  Never fails; NULL is allowed. */
	void		(*close) (GkEngine *engine);

	/*
	 * Lists the devices, at most `capacity` of them; *count is how many there are.  Opens none:
	 * free_bytes is 0 for a device that this process has not opened.  NULL for an engine without
	 * devices.
	 */
	GkStatus	(*list_devices) (GkDevice *devices, int capacity, int *count);

	/*
	 * Releases what the process keeps between engines: contexts, communicators.  Only while no
	 * engine is open.  NULL if it keeps nothing.
	 */
	void		(*release_process) (void);

	/*
	 * The status of answers that contradict each other, which whoever asked has found out; its
	 * message names the servers that they came from.  NULL for an engine that answers by itself.
	 */
	GkStatus	(*doubt) (const GkEngine *engine);
} GkEngineClass;

/*
 * Tells one state of this header from another: a library on disk may be older or newer than the
 * program that loads it.  The version is to be raised with changes that no size shows.
 */
#define GK_ENGINE_VERSION 4
#define GK_ENGINE_INTERFACE \
	((uint64_t) GK_ENGINE_VERSION << 56 | (uint64_t) GK_OPERATIONS << 48 | \
	 (uint64_t) sizeof(GkCommand) << 32 | (uint64_t) sizeof(GkEngineConfig) << 16 | \
	 (uint64_t) sizeof(GkEngineClass))

/* Every engine begins with its class. */
struct GkEngine
{
	const GkEngineClass *class_of;
};

/* The CPU engine (engine.c). */
extern const GkEngineClass *gk_cpu_engine(void);

/* The CUDA engine (kernels/cuda_engine.cpp); gkmeans_cuda exports it. */
extern const GkEngineClass *gk_cuda_engine(void);

#ifdef __cplusplus
}
#endif

#endif							/* GK_ENGINE_H */
