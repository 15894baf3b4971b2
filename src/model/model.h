/*
 * A model: a user's table of type gkmeans_model, with one head row per version.
 *
 * A model is read by a direct scan under the active snapshot, after explicit checks of the
 * table and of the user's privileges: no planner, no policy, no index expression, so nobody's
 * code runs.  Its rows are untrusted input: whoever may write to the table may have written
 * anything.
 */
#ifndef GK_MODEL_H
#define GK_MODEL_H

#include "postgres.h"

#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

#include "anomaly.h"
#include "fit.h"
#include "nearest.h"

/* The most numbers, k × dimension, in a model: a row of a table holds less than 1 GB. */
#define GK_MAX_MODEL_NUMBERS (INT64CONST(1) << 25)

/* The most bytes of a name in a model, so that a few of them fit in a row of a view. */
#define GK_MAX_NAME_BYTES (1 << 20)

/* The most bytes of the names of clusters of a version, which whoever scores reads. */
#define GK_MOST_NAME_BYTES ((Size) 128 << 20)

/*
 * More bytes than a history, a choice of k, a drift or a report that gkmeans writes: at most 3000
 * small objects, with names of at most a kilobyte.
 */
#define GK_MAX_JSON_BYTES (4 << 20)

/* The attributes of gkmeans_model, by their place in the type. */
typedef enum GkModelAttribute
{
	GK_MODEL_VERSION = 1,
	GK_MODEL_GROUP_NO,
	GK_MODEL_PART,
	GK_MODEL_STATUS,
	GK_MODEL_DEPLOYED,
	GK_MODEL_DEPLOYED_AT,
	GK_MODEL_DEPLOYED_BY,
	GK_MODEL_STARTED_AT,
	GK_MODEL_FINISHED_AT,
	GK_MODEL_STARTED_BY,
	GK_MODEL_OUTCOME,
	GK_MODEL_ERROR_CODE,
	GK_MODEL_ERROR_MESSAGE,
	GK_MODEL_NOTE,
	GK_MODEL_DEFINITION,
	GK_MODEL_METRIC,
	GK_MODEL_K,
	GK_MODEL_DIMENSION,
	GK_MODEL_FEATURES,
	GK_MODEL_ARRAY_COLUMN,
	GK_MODEL_SHIFT,
	GK_MODEL_SCALE_OFFSET,
	GK_MODEL_SCALE_FACTOR,
	GK_MODEL_FEATURE_MEAN,
	GK_MODEL_FEATURE_DEVIATION,
	GK_MODEL_FEATURE_LEAST,
	GK_MODEL_FEATURE_GREATEST,
	GK_MODEL_CENTROIDS,
	GK_MODEL_POINTS,
	GK_MODEL_TIES,
	GK_MODEL_CLUSTER_IDS,
	GK_MODEL_NAMES,
	GK_MODEL_SIZES,
	GK_MODEL_WEIGHTS,
	GK_MODEL_INERTIAS,
	GK_MODEL_AVG_DISTANCES,
	GK_MODEL_RADII,
	GK_MODEL_DEVIATIONS,
	GK_MODEL_ROWS_READ,
	GK_MODEL_ROWS_USED,
	GK_MODEL_INERTIA,
	GK_MODEL_BETWEEN_SS,
	GK_MODEL_TOTAL_SS,
	GK_MODEL_ITERATIONS,
	GK_MODEL_CONVERGED,
	GK_MODEL_MOVED,
	GK_MODEL_SCORE_QUANTILES,
	GK_MODEL_SILHOUETTE,
	GK_MODEL_SIMPLIFIED_SILHOUETTE,
	GK_MODEL_DAVIES_BOULDIN,
	GK_MODEL_CALINSKI_HARABASZ,
	GK_MODEL_HISTORY,
	GK_MODEL_K_SELECTION,
	GK_MODEL_DRIFT,
	GK_MODEL_MAP_X,
	GK_MODEL_MAP_Y,
	GK_MODEL_SAMPLE_POINTS,
	GK_MODEL_REPORT,
	GK_MODEL_ATTRIBUTES = GK_MODEL_REPORT
} GkModelAttribute;

/* A version unpacked for scoring.  Everything in one memory context. */
typedef struct GkModel
{
	MemoryContext context;
	Oid			relation;
	int			version;
	GkMetric	metric;
	int			k;
	int			dimension;
	char	  **features;		/* dimension; NULL if they are elements of array_column */
	char	   *array_column;	/* NULL = every feature is a column */
	double	   *shift;			/* dimension; NULL = none */
	double	   *offset;			/* dimension; NULL = not scaled */
	double	   *factor;
	double	   *packed;			/* centroids as compared, in the order of ties (nearest.h) */
	GkSieve    *sieve;			/* of many centroids; NULL = they are few */
	int32	   *ties;			/* packed position → the cluster's; NULL = identity */
	int32	   *cluster_ids;	/* k, ascending; NULL = 0 … k - 1 */
	char	  **names;			/* k, NULL = unnamed; NULL = no names */
	double	   *avg_distances;	/* k, NaN = unknown; NULL = all unknown */
	double	   *score_quantiles;	/* GK_QUANTILES; NULL = not known */
} GkModel;

/* The name of a relation for messages. */
extern const char *gk_model_name(Relation relation);

/*
 * Opens a model for reading, with AccessShareLock.  Errors: 42P01 if it does not exist, 42809 if
 * it is not a model, 42501 if the current user may not read it, 0A000 if it is under row-level
 * security.
 */
extern Relation gk_open_model(Oid relation_id);

/*
 * Its steps, for a session that knows which tables are models: opens a table, or raises 42P01;
 * raises 42809, or 0A000 if nobody can read it; raises 42501, or 0A000 because of the user.
 */
extern Relation gk_open_model_table(Oid relation_id);
extern void gk_check_model(Relation relation);
extern void gk_check_model_reader(Relation relation);

/* The same with ShareUpdateExclusiveLock as well: those who change a model follow one another. */
extern Relation gk_open_model_to_change(Oid relation_id);

/* True if a table that is not open may be a model that the current user can see in the views. */
extern bool gk_is_listed_model(Form_pg_class table);

/*
 * Opens a model for the views, which need USAGE on the schema too.  Returns NULL instead of an
 * error, and instead of waiting for a lock, with a WARNING.
 */
extern Relation gk_open_visible_model(Oid relation_id);

/* Closes it. */
extern void gk_close_visible_model(Relation relation);

/* Goes through the head rows that the active snapshot sees; false at the end. */
typedef struct GkHeads GkHeads;
extern GkHeads *gk_begin_heads(Relation relation);
extern bool gk_next_head(GkHeads *heads);
extern TupleTableSlot *gk_head(const GkHeads *heads);
extern void gk_end_heads(GkHeads *heads);

/* What stands for an argument 0, as 0 means the deployed version. */
#define GK_VERSION_ZERO PG_INT32_MIN

/* The version that an argument names; 0, the deployed one, for NULL. */
extern int	gk_version_argument(FunctionCallInfo fcinfo, int number);

/*
 * Positions the heads at a version, at the deployed one if it is 0, before any has been read; false
 * if there is none, XX001 if there are several.
 */
extern bool gk_find_head(GkHeads *heads, int version);

/*
 * Keeps others, also those that lock no model but UPDATE its rows, from changing the row of the
 * deployed version, or those of all, until the transaction ends.
 */
extern void gk_lock_deployed(Relation relation);
extern void gk_lock_versions(Relation relation);

/* The version deployed by now, by others or this transaction; 0 = none, -1 = the model is gone. */
extern int	gk_deployed_version(Oid relation_id);

/*
 * True if a version is deployed as the active snapshot sees it, and the transaction has not
 * withdrawn it since: if it is not deployed by now, others have.
 */
extern bool gk_leaves_deployed(Oid relation_id, int version);

/*
 * Raises 40001 if a version, a deployed one for version 0, is there by now, but newer than what the
 * transaction sees, by which commands change the model.
 */
extern void gk_check_is_seen(Relation relation, int version);

/*
 * In REPEATABLE READ and SERIALIZABLE, raises 40001 unless the transaction sees the deployed
 * version, if any, as it is by now: another may have been deployed, or its clusters renamed.
 */
extern void gk_check_deployed_is_seen(Relation relation);

/* Reports a missing version: 55000 for version 0 (none is deployed), 42704 for others. */
__attribute__((noreturn))
extern void gk_model_has_no_version(Relation relation, int version);

/* Raises 55000. */
__attribute__((noreturn))
extern void gk_version_has_no_centroids(Relation relation, int version);

/* Positions the heads at a version that can score, or raises one of these errors. */
extern void gk_find_head_or_fail(GkHeads *heads, Relation relation, int version);

/* Raises XX001. */
__attribute__((noreturn))
extern void gk_model_is_damaged(Relation relation, int version, const char *attribute);

/* True if an error is that one, which can be caught without a subtransaction. */
extern bool gk_is_damage(const ErrorData *error);

/* The numbers of the versions that the snapshot sees, ascending, palloc'd. */
extern int *gk_model_versions(Relation relation, int *count);

/* A row whose attributes are read and checked; the version is for errors. */
typedef struct GkModelRow
{
	Relation	relation;
	TupleTableSlot *slot;
	int			version;
} GkModelRow;

extern void gk_open_row(GkModelRow *row, Relation relation, TupleTableSlot *slot);
extern int	gk_row_integer(const GkModelRow *row, GkModelAttribute number, int least,
						   int greatest);

/* A text of at most GK_MAX_NAME_BYTES; NULL for NULL. */
extern char *gk_row_short_text(const GkModelRow *row, GkModelAttribute number);

/* True if the version has this status; a text that is too long for one is none. */
extern bool gk_row_has_status(const GkModelRow *row, const char *status);

/* The most bytes of a name where it is shown again and again. */
#define GK_MAX_REPEATED_NAME 1000

/* Rows that all clusters of a version may have together. */
#define GK_MOST_COUNTED (INT64CONST(1) << 61)

/* An array of `count` elements (or rows × columns), palloc'd; NULL for NULL.  Texts are names. */
extern double *gk_row_doubles(const GkModelRow *row, GkModelAttribute number, int count);
extern double *gk_row_matrix(const GkModelRow *row, GkModelAttribute number, int rows, int columns);
extern char **gk_row_texts(const GkModelRow *row, GkModelAttribute number, int count);
extern int64 *gk_row_counts(const GkModelRow *row, GkModelAttribute number, int count);
extern int32 *gk_row_ids(const GkModelRow *row, GkModelAttribute number, int count);

/* The names of the clusters, NULL for one without a name; NULL if they do not fit the clusters. */
extern char **gk_row_names(const GkModelRow *row, int k);

/* A jsonb but the definition, palloc'd; NULL for NULL, and for a longer one than gkmeans writes. */
extern Jsonb *gk_row_json(const GkModelRow *row, GkModelAttribute number);

/* True unless an array of a version has more elements than there may be features; true for NULL. */
extern bool gk_row_has_few(const GkModelRow *row, GkModelAttribute number);

/* The stability index of such a drift; NaN if it is not known. */
extern double gk_row_psi(const GkModelRow *row);

/* An array of arrays of `columns` finite single-precision numbers; how many, 0 for NULL: *rows. */
extern float *gk_row_reals(const GkModelRow *row, GkModelAttribute number, int columns, int *rows);

/* Numbers that may be unknown (NaN) or infinite, as distances. */
extern double *gk_row_measures(const GkModelRow *row, GkModelAttribute number, int count);
extern double *gk_row_measure_matrix(const GkModelRow *row, GkModelAttribute number, int rows,
									 int columns);

/*
 * True if a number can be a factor of a scale: 0, where all values are the same, or one by which
 * can be divided as well.
 */
extern bool gk_is_factor(double number);

/* The shape of a version: k, dimension and metric, checked. */
extern void gk_row_shape(const GkModelRow *row, int *k, int *dimension, GkMetric *metric);

/* True if the row is a version that can score: one with centroids. */
extern bool gk_row_has_centroids(const GkModelRow *row);

/*
 * Packs the centroids of a model, k × dimension, in an order (NULL: as they are), in the current
 * memory context.
 */
extern void gk_pack_points(GkModel *model, const double *points, const int32 *order);

/* Unpacks a head row into a context of its own below `parent`. */
extern GkModel *gk_unpack_model(Relation relation, TupleTableSlot *slot, MemoryContext parent);

#endif							/* GK_MODEL_H */
