\echo Use "CREATE EXTENSION gkmeans" to load this file. \quit

-- The row path: gkmeans_fit reads its source through this aggregate.  Its functions are nobody's but
-- the aggregate's, and the aggregate serves no query but that of a fit.

CREATE FUNCTION _gkmeans_feed_accumulate(internal, uuid, "any", "any", VARIADIC "any")
RETURNS internal AS 'MODULE_PATHNAME', 'gk_feed_accumulate'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION _gkmeans_feed_combine(internal, internal)
RETURNS internal AS 'MODULE_PATHNAME', 'gk_feed_combine'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION _gkmeans_feed_serialize(internal)
RETURNS bytea AS 'MODULE_PATHNAME', 'gk_feed_serialize'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION _gkmeans_feed_deserialize(bytea, internal)
RETURNS internal AS 'MODULE_PATHNAME', 'gk_feed_deserialize'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION _gkmeans_feed_final(internal)
RETURNS bigint AS 'MODULE_PATHNAME', 'gk_feed_final'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- with their arguments: others may have made functions of these names
REVOKE EXECUTE ON FUNCTION _gkmeans_feed_accumulate(internal, uuid, "any", "any", VARIADIC "any"),
    _gkmeans_feed_combine(internal, internal), _gkmeans_feed_serialize(internal),
    _gkmeans_feed_deserialize(bytea, internal), _gkmeans_feed_final(internal) FROM PUBLIC;

CREATE AGGREGATE _gkmeans_feed(uuid, "any", "any", VARIADIC "any") (
    SFUNC = _gkmeans_feed_accumulate,
    STYPE = internal,
    FINALFUNC = _gkmeans_feed_final,
    COMBINEFUNC = _gkmeans_feed_combine,
    SERIALFUNC = _gkmeans_feed_serialize,
    DESERIALFUNC = _gkmeans_feed_deserialize,
    PARALLEL = SAFE
);

COMMENT ON AGGREGATE _gkmeans_feed(uuid, "any", "any", VARIADIC "any")
IS 'internal: brings the rows of a source to the engine of a fit';

-- Fitting

CREATE FUNCTION gkmeans_fit(
    source text,
    features text[] DEFAULT NULL,
    k bigint DEFAULT NULL,
    id_column text DEFAULT NULL,
    weight_column text DEFAULT NULL,
    init text DEFAULT 'k-means||',
    initial_centroids double precision[] DEFAULT NULL,
    metric text DEFAULT 'euclidean',
    scale text DEFAULT 'none',
    nulls text DEFAULT 'skip',
    max_iter integer DEFAULT 300,
    tol double precision DEFAULT 1e-4,
    n_init integer DEFAULT 1,
    seed bigint DEFAULT 0,
    quality text DEFAULT 'auto',
    labels_table text DEFAULT NULL,
    if_exists text DEFAULT 'error',
    options jsonb DEFAULT '{}',
    OUT cluster_id integer,
    OUT centroid double precision[],
    OUT size bigint,
    OUT weight double precision,
    OUT inertia double precision,
    OUT avg_distance double precision,
    OUT radius double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_fit'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 10;

COMMENT ON FUNCTION gkmeans_fit(text, text[], bigint, text, text, text, double precision[], text,
    text, text, integer, double precision, integer, bigint, text, text, text, jsonb)
IS 'k-means over the rows of a table, view or query: one row for every cluster';

CREATE FUNCTION gkmeans_fit_predict(
    id_type anyelement,
    source text,
    features text[] DEFAULT NULL,
    k bigint DEFAULT NULL,
    id_column text DEFAULT NULL,
    weight_column text DEFAULT NULL,
    init text DEFAULT 'k-means||',
    initial_centroids double precision[] DEFAULT NULL,
    metric text DEFAULT 'euclidean',
    scale text DEFAULT 'none',
    nulls text DEFAULT 'skip',
    max_iter integer DEFAULT 300,
    tol double precision DEFAULT 1e-4,
    n_init integer DEFAULT 1,
    seed bigint DEFAULT 0,
    quality text DEFAULT 'auto',
    labels_table text DEFAULT NULL,
    if_exists text DEFAULT 'error',
    options jsonb DEFAULT '{}',
    OUT id anyelement,
    OUT cluster_id integer,
    OUT distance double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_fit_predict'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 100000;

COMMENT ON FUNCTION gkmeans_fit_predict(anyelement, text, text[], bigint, text, text, text,
    double precision[], text, text, text, integer, double precision, integer, bigint, text, text,
    text, jsonb)
IS 'k-means over the rows of a table, view or query: the cluster of every row';


-- What the session did

CREATE FUNCTION gkmeans_last_fit(
    OUT rows_read bigint,
    OUT rows_skipped bigint,
    OUT features text[],
    OUT dimension integer,
    OUT k integer,
    OUT k_effective integer,
    OUT iterations integer,
    OUT converged boolean,
    OUT inertia double precision,
    OUT best_start integer,
    OUT quality text,
    OUT search_rounds integer,
    OUT search_improvement double precision,
    OUT engine text,
    OUT engine_reason text,
    OUT devices integer,
    OUT threads integer,
    OUT workers integer,
    OUT read_twice boolean,
    OUT open_seconds double precision,
    OUT read_seconds double precision,
    OUT prepare_seconds double precision,
    OUT seed_seconds double precision,
    OUT iterate_seconds double precision,
    OUT label_seconds double precision,
    OUT total_seconds double precision,
    OUT host_bytes_peak bigint,
    OUT pinned_bytes_peak bigint,
    OUT device_bytes_peak bigint,
    OUT ring_bytes bigint,
    OUT nodes integer,
    OUT exchange_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_last_fit'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 1;

COMMENT ON FUNCTION gkmeans_last_fit()
IS 'report of the last fit of this session; no row before the first';

CREATE FUNCTION gkmeans_last_fit_nodes(
    OUT node text,
    OUT rows_read bigint,
    OUT rows_skipped bigint,
    OUT engine text,
    OUT engine_reason text,
    OUT read_seconds double precision,
    OUT compute_seconds double precision,
    OUT bytes_peak bigint,
    OUT bytes_sent bigint,
    OUT bytes_received bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_last_fit_nodes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 3;

COMMENT ON FUNCTION gkmeans_last_fit_nodes()
IS 'what each node of the last fit of this session did; no row if it had no nodes';

CREATE FUNCTION gkmeans_memory(
    OUT kind text,
    OUT device integer,
    OUT bytes bigint,
    OUT peak bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_memory'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 5;

COMMENT ON FUNCTION gkmeans_memory()
IS 'memory that the fits of this session hold now, and the most they held';

CREATE FUNCTION gkmeans_sessions(
    OUT pid integer,
    OUT host_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_sessions'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 4;

COMMENT ON FUNCTION gkmeans_sessions()
IS 'sessions of the server, in all databases, whose fits hold host memory now';

CREATE FUNCTION gkmeans_devices(
    OUT device integer,
    OUT name text,
    OUT compute_capability text,
    OUT total_bytes bigint,
    OUT free_bytes bigint,
    OUT own_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_devices'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 4;

COMMENT ON FUNCTION gkmeans_devices()
IS 'GPUs of the host: their memory, and how much of it this session holds; no row without GPUs';
