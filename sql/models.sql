
-- Models

CREATE TYPE gkmeans_model AS (
    version integer,
    group_no integer,
    part integer,
    status text,
    deployed boolean,
    deployed_at timestamptz,
    deployed_by text,
    started_at timestamptz,
    finished_at timestamptz,
    started_by text,
    outcome text,
    error_code text,
    error_message text,
    note text,
    definition jsonb,
    metric text,
    k integer,
    dimension integer,
    features text[],
    array_column text,
    shift double precision[],
    scale_offset double precision[],
    scale_factor double precision[],
    feature_mean double precision[],
    feature_deviation double precision[],
    feature_least double precision[],
    feature_greatest double precision[],
    centroids double precision[],
    points double precision[],
    ties integer[],
    cluster_ids integer[],
    names text[],
    sizes bigint[],
    weights double precision[],
    inertias double precision[],
    avg_distances double precision[],
    radii double precision[],
    deviations double precision[],
    rows_read bigint,
    rows_used bigint,
    inertia double precision,
    between_ss double precision,
    total_ss double precision,
    iterations integer,
    converged boolean,
    moved bigint,
    score_quantiles double precision[],
    silhouette double precision,
    simplified_silhouette double precision,
    davies_bouldin double precision,
    calinski_harabasz double precision,
    history jsonb,
    k_selection jsonb,
    drift jsonb,
    map_x double precision[],
    map_y double precision[],
    sample_points real[],
    report jsonb
);

COMMENT ON TYPE gkmeans_model
IS 'row of a model: a version of it; a table of this type is a model of gkmeans';

CREATE FUNCTION gkmeans_create_model(
    model text,
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
    labels_mode text DEFAULT NULL,
    options jsonb DEFAULT '{}',
    k_candidates integer[] DEFAULT NULL,
    criterion text DEFAULT 'simplified_silhouette',
    changes_table text DEFAULT NULL,
    if_exists text DEFAULT 'error',
    note text DEFAULT NULL,
    OUT cluster_id integer,
    OUT centroid double precision[],
    OUT size bigint,
    OUT weight double precision,
    OUT inertia double precision,
    OUT avg_distance double precision,
    OUT radius double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_create_model'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 10;

COMMENT ON FUNCTION gkmeans_create_model(text, text, text[], bigint, text, text, text,
    double precision[], text, text, text, integer, double precision, integer, bigint, text, text,
    text, jsonb, integer[], text, text, text, text)
IS 'k-means as gkmeans_fit, kept as a model: a table with which rows can be scored';

CREATE FUNCTION gkmeans_import_model(
    model text,
    centroids double precision[] DEFAULT NULL,
    features text[] DEFAULT NULL,
    metric text DEFAULT 'euclidean',
    scale_offset double precision[] DEFAULT NULL,
    scale_factor double precision[] DEFAULT NULL,
    names text[] DEFAULT NULL,
    source text DEFAULT NULL,
    if_exists text DEFAULT 'error',
    note text DEFAULT NULL,
    exported jsonb DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_import_model'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_import_model(text, double precision[], text[], text,
    double precision[], double precision[], text[], text, text, text, jsonb)
IS 'makes a model from centroids, or from what gkmeans_export wrote; returns the number of clusters';

CREATE FUNCTION gkmeans_clusters(
    model regclass,
    version integer DEFAULT NULL,
    OUT cluster_id integer,
    OUT name text,
    OUT centroid double precision[],
    OUT size bigint,
    OUT weight double precision,
    OUT inertia double precision,
    OUT avg_distance double precision,
    OUT radius double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_clusters'
LANGUAGE C STABLE PARALLEL SAFE
COST 1000 ROWS 10;

COMMENT ON FUNCTION gkmeans_clusters(regclass, integer)
IS 'the clusters of the deployed version of a model, or of another';

CREATE FUNCTION gkmeans_centroids(
    model regclass,
    version integer DEFAULT NULL)
RETURNS double precision[]
AS 'MODULE_PATHNAME', 'gkmeans_centroids'
LANGUAGE C STABLE PARALLEL SAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_centroids(regclass, integer)
IS 'the centroids of the deployed version of a model, or of another, by the number of the cluster';

-- Versions

CREATE FUNCTION gkmeans_deploy(model regclass, version integer)
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_deploy'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_deploy(regclass, integer)
IS 'deploys a version, which then scores; returns the version deployed before';

CREATE FUNCTION gkmeans_rollback(model regclass)
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_rollback'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_rollback(regclass)
IS 'withdraws the deployed version and deploys the one before it; returns that version';

CREATE FUNCTION gkmeans_prune(model regclass, keep integer DEFAULT 10)
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_prune'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_prune(regclass, integer)
IS 'deletes old versions, but neither the deployed one nor the one before it; returns how many';

CREATE FUNCTION gkmeans_name_clusters(model regclass, names text[])
RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_name_clusters'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_name_clusters(regclass, text[])
IS 'names the clusters of the deployed version, in the order of their ids';

CREATE FUNCTION gkmeans_alter_model(model regclass, changes jsonb)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'gkmeans_alter_model'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_alter_model(regclass, jsonb)
IS 'changes the definition by which a model is refitted; returns it';

CREATE FUNCTION gkmeans_create_view(
    model regclass,
    view_name text,
    kind text DEFAULT 'scored',
    if_exists text DEFAULT 'error')
RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_create_view'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_create_view(regclass, text, text, text)
IS 'creates a view of the scored rows of a model, or of its clusters with a column for each feature';
