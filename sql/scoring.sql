
-- Scoring

CREATE FUNCTION gkmeans_predict(model regclass, VARIADIC features "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_predict'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_predict(regclass, "any")
IS 'the cluster that a row belongs to';

CREATE FUNCTION gkmeans_predict_version(model regclass, version integer, VARIADIC features "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_predict_version'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_predict_version(regclass, integer, "any")
IS 'the cluster that a row belongs to, by a version of a model';

CREATE FUNCTION gkmeans_distance(model regclass, VARIADIC features "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'gkmeans_distance'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_distance(regclass, "any")
IS 'the distance of a row to the nearest centroid';

CREATE FUNCTION gkmeans_transform(model regclass, VARIADIC features "any")
RETURNS double precision[]
AS 'MODULE_PATHNAME', 'gkmeans_transform'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_transform(regclass, "any")
IS 'the distances of a row to all centroids, by the number of the cluster';

CREATE FUNCTION gkmeans_name(model regclass, VARIADIC features "any")
RETURNS text
AS 'MODULE_PATHNAME', 'gkmeans_name'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_name(regclass, "any")
IS 'the name of the cluster that a row belongs to';

CREATE FUNCTION gkmeans_anomaly_score(model regclass, VARIADIC features "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'gkmeans_anomaly_score'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_anomaly_score(regclass, "any")
IS 'the distance of a row to the nearest centroid, divided by the average distance in that cluster';

CREATE FUNCTION gkmeans_anomaly_percentile(model regclass, VARIADIC features "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'gkmeans_anomaly_percentile'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_anomaly_percentile(regclass, "any")
IS 'the share of the rows of the fit, 0 to 1, that have a lower anomaly score';

CREATE FUNCTION gkmeans_nearest(
    model regclass,
    n integer,
    VARIADIC features "any",
    OUT cluster_id integer,
    OUT name text,
    OUT distance double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_nearest'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100 ROWS 5;

COMMENT ON FUNCTION gkmeans_nearest(regclass, integer, "any")
IS 'the n clusters nearest to a row';

CREATE FUNCTION gkmeans_explain(
    model regclass,
    VARIADIC features "any",
    OUT feature text,
    OUT value double precision,
    OUT centroid double precision,
    OUT difference double precision,
    OUT share double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_explain'
LANGUAGE C STABLE STRICT PARALLEL SAFE
COST 100 ROWS 10;

COMMENT ON FUNCTION gkmeans_explain(regclass, "any")
IS 'the features of a row by their share of the squared distance to the nearest centroid';

CREATE FUNCTION gkmeans_score(
    model regclass,
    VARIADIC features "any",
    OUT cluster_id integer,
    OUT name text,
    OUT distance double precision,
    OUT second_cluster_id integer,
    OUT second_distance double precision,
    OUT silhouette double precision,
    OUT anomaly_score double precision,
    OUT anomaly_percentile double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_score'
LANGUAGE C STABLE PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_score(regclass, "any")
IS 'everything that a model says about a row, as one row: for use in FROM with LATERAL';

-- Without the table: generated columns, indexes, partitions, other databases

CREATE FUNCTION gkmeans_export(
    model regclass,
    format text DEFAULT 'json',
    version integer DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'gkmeans_export'
LANGUAGE C STABLE PARALLEL SAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_export(regclass, text, integer)
IS 'the deployed version of a model, or another, as JSON for gkmeans_import_model and gkmeans_predict_with';

CREATE FUNCTION gkmeans_predict_with(exported jsonb, VARIADIC features "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_predict_with'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans_predict_with(jsonb, "any")
IS 'the cluster that a row belongs to, by an exported model';

CREATE FUNCTION gkmeans_predict_centroids(centroids double precision[], features double precision[])
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_predict_centroids'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
COST 10;

COMMENT ON FUNCTION gkmeans_predict_centroids(double precision[], double precision[])
IS 'the number of the nearest centroid, counted from 0';

-- Many rows at once

CREATE FUNCTION gkmeans_predict_rows(
    id_type anyelement,
    model regclass,
    source text,
    id_column text,
    version integer DEFAULT NULL,
    OUT id anyelement,
    OUT cluster_id integer,
    OUT distance double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_predict_rows'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 100000;

COMMENT ON FUNCTION gkmeans_predict_rows(anyelement, regclass, text, text, integer)
IS 'the cluster and distance of every row of a table, view or query by a model';

CREATE FUNCTION gkmeans_assign(
    model regclass,
    source text DEFAULT NULL,
    id_column text DEFAULT NULL,
    labels_table text DEFAULT NULL,
    labels_mode text DEFAULT NULL,
    changes_table text DEFAULT NULL,
    version integer DEFAULT NULL,
    OUT rows bigint,
    OUT labelled bigint,
    OUT inserted bigint,
    OUT updated bigint,
    OUT deleted bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_assign'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_assign(regclass, text, text, text, text, text, integer)
IS 'writes the cluster and distance of every row of a table, view or query to a labels table';
