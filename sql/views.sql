
-- What BI tools see: models that the reader has SELECT on, in columns of plain types

CREATE FUNCTION _gkmeans_models(
    OUT id oid,
    OUT schema_name text,
    OUT model_name text,
    OUT owner text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_models'
LANGUAGE C STABLE PARALLEL RESTRICTED
COST 1000 ROWS 10;

COMMENT ON FUNCTION _gkmeans_models()
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_versions(
    id oid,
    OUT version integer,
    OUT status text,
    OUT deployed boolean,
    OUT deployed_at timestamptz,
    OUT deployed_by text,
    OUT started_at timestamptz,
    OUT finished_at timestamptz,
    OUT started_by text,
    OUT outcome text,
    OUT error_code text,
    OUT error_message text,
    OUT note text,
    OUT definition jsonb,
    OUT metric text,
    OUT k integer,
    OUT dimension integer,
    OUT features text[],
    OUT array_column text,
    OUT rows_read bigint,
    OUT rows_used bigint,
    OUT inertia double precision,
    OUT between_ss double precision,
    OUT total_ss double precision,
    OUT silhouette double precision,
    OUT simplified_silhouette double precision,
    OUT davies_bouldin double precision,
    OUT calinski_harabasz double precision,
    OUT iterations integer,
    OUT converged boolean,
    OUT moved bigint,
    OUT psi double precision,
    OUT report jsonb)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_versions'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 5;

COMMENT ON FUNCTION _gkmeans_versions(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_clusters(
    id oid,
    OUT version integer,
    OUT deployed boolean,
    OUT cluster_id integer,
    OUT cluster_name text,
    OUT size bigint,
    OUT share double precision,
    OUT weight double precision,
    OUT inertia double precision,
    OUT avg_distance double precision,
    OUT radius double precision,
    OUT profile text,
    OUT map_x double precision,
    OUT map_y double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_clusters'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 20;

COMMENT ON FUNCTION _gkmeans_clusters(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_centroid_features(
    id oid,
    OUT version integer,
    OUT deployed boolean,
    OUT cluster_id integer,
    OUT cluster_name text,
    OUT feature_no integer,
    OUT feature text,
    OUT value double precision,
    OUT deviation double precision,
    OUT overall_mean double precision,
    OUT overall_deviation double precision,
    OUT z_score double precision,
    OUT importance_rank integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_features'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 100;

COMMENT ON FUNCTION _gkmeans_centroid_features(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_drift(
    id oid,
    OUT version integer,
    OUT checked_at timestamptz,
    OUT cluster_id integer,
    OUT cluster_name text,
    OUT share_then double precision,
    OUT share_now double precision,
    OUT psi double precision,
    OUT avg_distance_then double precision,
    OUT avg_distance_now double precision,
    OUT version_then integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_drift'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 20;

COMMENT ON FUNCTION _gkmeans_drift(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_iterations(
    id oid,
    OUT version integer,
    OUT start integer,
    OUT iteration integer,
    OUT inertia double precision,
    OUT shift double precision,
    OUT moved bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_iterations'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 100;

COMMENT ON FUNCTION _gkmeans_iterations(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_k_selection(
    id oid,
    OUT version integer,
    OUT k integer,
    OUT inertia double precision,
    OUT explained double precision,
    OUT silhouette double precision,
    OUT simplified_silhouette double precision,
    OUT davies_bouldin double precision,
    OUT calinski_harabasz double precision,
    OUT bic double precision,
    OUT gap double precision,
    OUT gap_error double precision,
    OUT elbow double precision,
    OUT iterations integer,
    OUT seconds double precision,
    OUT chosen boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_visible_k_selection'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 100 ROWS 10;

COMMENT ON FUNCTION _gkmeans_k_selection(oid)
IS 'internal: what the views in schema gkmeans read';

-- An operator or function of the extension's schema may fit the arguments of an expression better than
-- that of PostgreSQL: whoever may create things there must not decide what the views call.
SET LOCAL search_path = pg_catalog, pg_temp;

-- The owner of a schema decides what the names in it mean, too, and the views and the functions of nodes
-- are called by theirs.
DO $$
BEGIN
    -- quote_all_identifiers puts its name in quotes
    IF '@extschema@' NOT IN ('gkmeans', '"gkmeans"') THEN
        CREATE SCHEMA gkmeans;
        COMMENT ON SCHEMA gkmeans IS 'models of gkmeans for BI tools';
    ELSIF NOT EXISTS (
        SELECT FROM pg_namespace n JOIN pg_roles o ON n.nspowner = o.oid
        WHERE n.nspname = 'gkmeans' AND (o.rolsuper OR o.rolname = current_user))
    THEN
        RAISE EXCEPTION 'schema "gkmeans" belongs to another role'
            USING DETAIL = 'Its owner could put functions into it, and give its name to another schema.',
            HINT = 'Drop or rename it: without SCHEMA, CREATE EXTENSION makes a schema of that name. '
                'To restore a dump or to update, ALTER SCHEMA gkmeans OWNER TO CURRENT_USER.',
            ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

GRANT USAGE ON SCHEMA gkmeans TO PUBLIC;

CREATE UNLOGGED TABLE gkmeans.labelled_tables (
    table_id oid PRIMARY KEY,
    labelled_at timestamptz NOT NULL
) USING heap;

COMMENT ON TABLE gkmeans.labelled_tables
IS 'internal: when calls labelled a table, for calls that have read older rows';
COMMENT ON COLUMN gkmeans.labelled_tables.table_id IS 'labels table, or a partition or child of one, in pg_class';
COMMENT ON COLUMN gkmeans.labelled_tables.labelled_at IS 'when the last transaction began that labelled it';

CREATE VIEW gkmeans.models AS
SELECT pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    m.schema_name, m.model_name, m.owner,
    pg_catalog."left"(pg_catalog.obj_description(m.id, 'pg_class'), 10000) AS description,
    v.version, v.versions, v.k, v.dimension, v.metric, v.scale, v.features, v.source,
    v.labels_table, v.rows_used, v.inertia, v.explained, v.silhouette, v.davies_bouldin,
    v.fitted_at,
    (pg_catalog.date_part('epoch', pg_catalog.now())
        - pg_catalog.date_part('epoch', v.fitted_at)) / 3600 AS age_hours,
    v.last_status, v.last_run_at, v.last_error, v.psi
FROM @extschema@._gkmeans_models() m,
    LATERAL (
        SELECT max(version) FILTER (WHERE deployed) AS version,
            count(version) AS versions,
            max(k) FILTER (WHERE deployed) AS k,
            max(dimension) FILTER (WHERE deployed) AS dimension,
            max(metric) FILTER (WHERE deployed) AS metric,
            max(definition ->> 'scale') FILTER (WHERE deployed) AS scale,
            max(COALESCE(pg_catalog.array_to_string(features, ', '), array_column))
                FILTER (WHERE deployed) AS features,
            max(definition ->> 'source') FILTER (WHERE deployed) AS source,
            max(definition ->> 'labels_table') FILTER (WHERE deployed) AS labels_table,
            max(rows_used) FILTER (WHERE deployed) AS rows_used,
            max(inertia) FILTER (WHERE deployed) AS inertia,
            max(CASE WHEN total_ss BETWEEN 1e-150 AND 1e150 AND abs(between_ss) <= 1e150
                THEN CASE WHEN abs(between_ss) < 1e-150 THEN 0 ELSE between_ss / total_ss END END)
                FILTER (WHERE deployed) AS explained,
            max(silhouette) FILTER (WHERE deployed) AS silhouette,
            max(davies_bouldin) FILTER (WHERE deployed) AS davies_bouldin,
            max(finished_at) FILTER (WHERE deployed) AS fitted_at,
            max(status) FILTER (WHERE version = newest) AS last_status,
            max(started_at) FILTER (WHERE version = newest) AS last_run_at,
            max(CASE WHEN status = 'lost' THEN 'its session ended before the run did'
                ELSE error_message END) FILTER (WHERE version = newest) AS last_error,
            max(psi) FILTER (WHERE version = newest_checked) AS psi
        FROM (
            SELECT *, max(version) OVER () AS newest,
                max(version) FILTER (WHERE psi IS NOT NULL) OVER () AS newest_checked
            FROM @extschema@._gkmeans_versions(m.id)) v
        -- a model that was locked or dropped since it was listed has no rows
        HAVING count(*) > 0) v;

COMMENT ON VIEW gkmeans.models IS 'models that you may read, one row each; figures are those of the deployed version';
COMMENT ON COLUMN gkmeans.models.model IS 'schema and name; the key of this view';
COMMENT ON COLUMN gkmeans.models.schema_name IS 'schema of the model';
COMMENT ON COLUMN gkmeans.models.model_name IS 'name of the model';
COMMENT ON COLUMN gkmeans.models.owner IS 'role that owns the model';
COMMENT ON COLUMN gkmeans.models.description IS 'comment on the model, its first 10,000 characters';
COMMENT ON COLUMN gkmeans.models.version IS 'the deployed version; NULL if there is none';
COMMENT ON COLUMN gkmeans.models.versions IS 'number of versions';
COMMENT ON COLUMN gkmeans.models.k IS 'number of clusters';
COMMENT ON COLUMN gkmeans.models.dimension IS 'number of features';
COMMENT ON COLUMN gkmeans.models.metric IS 'euclidean or cosine';
COMMENT ON COLUMN gkmeans.models.scale IS 'scaling of the features';
COMMENT ON COLUMN gkmeans.models.features IS 'names of the features, or of the array that holds them';
COMMENT ON COLUMN gkmeans.models.source IS 'table, view or query that was clustered, by the definition of the deployed version';
COMMENT ON COLUMN gkmeans.models.labels_table IS 'table of labels, by the definition of the deployed version';
COMMENT ON COLUMN gkmeans.models.rows_used IS 'rows that were clustered';
COMMENT ON COLUMN gkmeans.models.inertia IS 'sum of the squared distances to the centroids';
COMMENT ON COLUMN gkmeans.models.explained IS 'share of the variance that the clusters explain, at most 1';
COMMENT ON COLUMN gkmeans.models.silhouette IS 'mean silhouette of a sample of the rows, -1 to 1; higher is better';
COMMENT ON COLUMN gkmeans.models.davies_bouldin IS 'Davies-Bouldin index; lower is better';
COMMENT ON COLUMN gkmeans.models.fitted_at IS 'when the version was finished';
COMMENT ON COLUMN gkmeans.models.age_hours IS 'hours since fitted_at';
COMMENT ON COLUMN gkmeans.models.last_status IS 'status of the newest version';
COMMENT ON COLUMN gkmeans.models.last_run_at IS 'when the newest version was started';
COMMENT ON COLUMN gkmeans.models.last_error IS 'why the newest version failed; NULL if it did not';
COMMENT ON COLUMN gkmeans.models.psi IS 'population stability index at the last refit or check: below 0.1 no drift worth noting, above 0.25 time for a refit';

CREATE VIEW gkmeans.versions AS
SELECT pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, v.version) AS version_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    v.version, v.status, COALESCE(v.deployed, false) AS deployed, v.deployed_at, v.deployed_by,
    v.started_at, v.finished_at,
    pg_catalog.date_part('epoch', v.finished_at)
        - pg_catalog.date_part('epoch', v.started_at) AS seconds,
    v.started_by, v.rows_read, v.rows_used, v.k, v.dimension, v.metric, v.inertia,
    CASE WHEN v.total_ss BETWEEN 1e-150 AND 1e150 AND abs(v.between_ss) <= 1e150
        THEN CASE WHEN abs(v.between_ss) < 1e-150 THEN 0 ELSE v.between_ss / v.total_ss END
        END AS explained,
    v.silhouette, v.simplified_silhouette, v.davies_bouldin, v.calinski_harabasz,
    v.iterations, v.converged, v.psi, v.moved, v.report ->> 'engine' AS engine,
    -- other collations have other digits
    CASE WHEN (v.report ->> 'devices') COLLATE "C" ~ '^[0-9]{1,4}$'
        THEN (v.report ->> 'devices')::integer END AS devices,
    v.outcome, v.error_code,
    CASE WHEN v.status = 'lost' THEN 'its session ended before the run did'
        ELSE v.error_message END AS error_message,
    v.note
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_versions(m.id) v
WHERE v.version IS NOT NULL;

COMMENT ON VIEW gkmeans.versions IS 'versions of the models that you may read';
COMMENT ON COLUMN gkmeans.versions.version_key IS 'model and version; the key of this view';
COMMENT ON COLUMN gkmeans.versions.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.versions.version IS 'number of the version';
COMMENT ON COLUMN gkmeans.versions.status IS 'running, fitted, rejected (fitted, not better), checked (drift only), failed, cancelled, lost (its session ended before it did) or imported';
COMMENT ON COLUMN gkmeans.versions.deployed IS 'whether this version scores';
COMMENT ON COLUMN gkmeans.versions.deployed_at IS 'when it was last deployed';
COMMENT ON COLUMN gkmeans.versions.deployed_by IS 'role that deployed it';
COMMENT ON COLUMN gkmeans.versions.started_at IS 'when the run started';
COMMENT ON COLUMN gkmeans.versions.finished_at IS 'when the run finished; NULL if its session ended before it did';
COMMENT ON COLUMN gkmeans.versions.seconds IS 'duration of the run';
COMMENT ON COLUMN gkmeans.versions.started_by IS 'role that started the run';
COMMENT ON COLUMN gkmeans.versions.rows_read IS 'rows of the source';
COMMENT ON COLUMN gkmeans.versions.rows_used IS 'rows that were clustered';
COMMENT ON COLUMN gkmeans.versions.k IS 'number of clusters';
COMMENT ON COLUMN gkmeans.versions.dimension IS 'number of features';
COMMENT ON COLUMN gkmeans.versions.metric IS 'euclidean or cosine';
COMMENT ON COLUMN gkmeans.versions.inertia IS 'sum of the squared distances to the centroids';
COMMENT ON COLUMN gkmeans.versions.explained IS 'share of the variance that the clusters explain, at most 1';
COMMENT ON COLUMN gkmeans.versions.silhouette IS 'mean silhouette of a sample of the rows, -1 to 1; higher is better';
COMMENT ON COLUMN gkmeans.versions.simplified_silhouette IS 'mean silhouette with distances to centroids, 0 to 1; higher is better';
COMMENT ON COLUMN gkmeans.versions.davies_bouldin IS 'Davies-Bouldin index; lower is better';
COMMENT ON COLUMN gkmeans.versions.calinski_harabasz IS 'Calinski-Harabasz index; higher is better';
COMMENT ON COLUMN gkmeans.versions.iterations IS 'iterations of the best start, without its search';
COMMENT ON COLUMN gkmeans.versions.converged IS 'whether it converged before the limit of iterations';
COMMENT ON COLUMN gkmeans.versions.psi IS 'population stability index, compared with the rows of the version that was deployed then';
COMMENT ON COLUMN gkmeans.versions.moved IS 'rows whose cluster differs from the one which that version gives them';
COMMENT ON COLUMN gkmeans.versions.engine IS 'cpu, cuda, or cluster for several servers';
COMMENT ON COLUMN gkmeans.versions.devices IS 'number of GPUs';
COMMENT ON COLUMN gkmeans.versions.outcome IS 'the outcome in words';
COMMENT ON COLUMN gkmeans.versions.error_code IS 'SQLSTATE of a run that failed';
COMMENT ON COLUMN gkmeans.versions.error_message IS 'message and detail of a run that failed';
COMMENT ON COLUMN gkmeans.versions.note IS 'note of whoever started the run';

CREATE VIEW gkmeans.clusters AS
SELECT pg_catalog.format('%I.%I/%s/%s', m.schema_name, m.model_name, c.version, c.cluster_id) AS cluster_key,
    pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, c.version) AS version_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    c.version, c.deployed, c.cluster_id, c.cluster_name, c.size, c.share, c.weight, c.inertia,
    c.avg_distance, c.radius, c.profile, c.map_x, c.map_y
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_clusters(m.id) c;

COMMENT ON VIEW gkmeans.clusters IS 'clusters of the models that you may read';
COMMENT ON COLUMN gkmeans.clusters.cluster_key IS 'model, version and cluster; the key of this view';
COMMENT ON COLUMN gkmeans.clusters.version_key IS 'key of gkmeans.versions';
COMMENT ON COLUMN gkmeans.clusters.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.clusters.version IS 'number of the version';
COMMENT ON COLUMN gkmeans.clusters.deployed IS 'whether this version scores';
COMMENT ON COLUMN gkmeans.clusters.cluster_id IS 'number of the cluster';
COMMENT ON COLUMN gkmeans.clusters.cluster_name IS 'name of the cluster, or "cluster 3" if it has none';
COMMENT ON COLUMN gkmeans.clusters.size IS 'number of rows';
COMMENT ON COLUMN gkmeans.clusters.share IS 'share of the rows that were clustered, 0 to 1';
COMMENT ON COLUMN gkmeans.clusters.weight IS 'sum of the weights of the rows';
COMMENT ON COLUMN gkmeans.clusters.inertia IS 'sum of the squared distances to the centroid';
COMMENT ON COLUMN gkmeans.clusters.avg_distance IS 'average distance to the centroid';
COMMENT ON COLUMN gkmeans.clusters.radius IS 'greatest distance to the centroid';
COMMENT ON COLUMN gkmeans.clusters.profile IS 'the features that stand out, in standard deviations from the mean of all rows';
COMMENT ON COLUMN gkmeans.clusters.map_x IS 'x for a scatter plot, in the plane in which the clusters lie farthest apart';
COMMENT ON COLUMN gkmeans.clusters.map_y IS 'y for a scatter plot, in the same plane';

CREATE VIEW gkmeans.centroid_features AS
SELECT pg_catalog.format('%I.%I/%s/%s/%s', m.schema_name, m.model_name, f.version, f.cluster_id,
        f.feature_no) AS centroid_feature_key,
    pg_catalog.format('%I.%I/%s/%s', m.schema_name, m.model_name, f.version, f.cluster_id) AS cluster_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    f.version, f.deployed, f.cluster_id, f.cluster_name, f.feature_no, f.feature, f.value,
    f.deviation, f.overall_mean, f.overall_deviation, f.z_score, f.importance_rank
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_centroid_features(m.id) f;

COMMENT ON VIEW gkmeans.centroid_features IS 'features of the clusters of the models that you may read';
COMMENT ON COLUMN gkmeans.centroid_features.centroid_feature_key IS 'model, version, cluster and feature; the key of this view';
COMMENT ON COLUMN gkmeans.centroid_features.cluster_key IS 'key of gkmeans.clusters';
COMMENT ON COLUMN gkmeans.centroid_features.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.centroid_features.version IS 'number of the version';
COMMENT ON COLUMN gkmeans.centroid_features.deployed IS 'whether this version scores';
COMMENT ON COLUMN gkmeans.centroid_features.cluster_id IS 'number of the cluster';
COMMENT ON COLUMN gkmeans.centroid_features.cluster_name IS 'name of the cluster, or "cluster 3" if it has none';
COMMENT ON COLUMN gkmeans.centroid_features.feature_no IS 'position of the feature, from 1';
COMMENT ON COLUMN gkmeans.centroid_features.feature IS 'name of the feature';
COMMENT ON COLUMN gkmeans.centroid_features.value IS 'value of the centroid, in the units of the feature';
COMMENT ON COLUMN gkmeans.centroid_features.deviation IS 'standard deviation within the cluster';
COMMENT ON COLUMN gkmeans.centroid_features.overall_mean IS 'mean of all rows';
COMMENT ON COLUMN gkmeans.centroid_features.overall_deviation IS 'standard deviation of all rows';
COMMENT ON COLUMN gkmeans.centroid_features.z_score IS 'how many standard deviations the centroid is from the mean';
COMMENT ON COLUMN gkmeans.centroid_features.importance_rank IS 'rank of the feature in its cluster; 1 stands out most';

CREATE VIEW gkmeans.drift AS
SELECT pg_catalog.format('%I.%I/%s/%s/drift', m.schema_name, m.model_name, d.version, d.cluster_id) AS drift_key,
    CASE WHEN d.version_then IS NOT NULL
        THEN pg_catalog.format('%I.%I/%s/%s', m.schema_name, m.model_name, d.version_then, d.cluster_id)
        END AS cluster_key,
    pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, d.version) AS version_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    d.version, d.checked_at, d.cluster_id, d.cluster_name, d.share_then, d.share_now, d.psi,
    d.avg_distance_then, d.avg_distance_now
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_drift(m.id) d;

COMMENT ON VIEW gkmeans.drift IS 'how the rows of each cluster had changed when a model was refitted or checked';
COMMENT ON COLUMN gkmeans.drift.drift_key IS 'model, version and cluster; the key of this view';
COMMENT ON COLUMN gkmeans.drift.cluster_key IS 'key of gkmeans.clusters: the cluster of the version that was deployed then; NULL if it is not known which one that was, or if it was deleted';
COMMENT ON COLUMN gkmeans.drift.version_key IS 'key of gkmeans.versions';
COMMENT ON COLUMN gkmeans.drift.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.drift.version IS 'the refit or check; its rows are compared with those of the version that was deployed then';
COMMENT ON COLUMN gkmeans.drift.checked_at IS 'when the version that records it was finished';
COMMENT ON COLUMN gkmeans.drift.cluster_id IS 'number of the cluster';
COMMENT ON COLUMN gkmeans.drift.cluster_name IS 'name that the cluster had then, or "cluster 3" if it had none';
COMMENT ON COLUMN gkmeans.drift.share_then IS 'its share of the rows that the deployed version was fitted to, 0 to 1';
COMMENT ON COLUMN gkmeans.drift.share_now IS 'its share of the rows of the refit or check';
COMMENT ON COLUMN gkmeans.drift.psi IS 'its part of the population stability index';
COMMENT ON COLUMN gkmeans.drift.avg_distance_then IS 'average distance to the centroid then';
COMMENT ON COLUMN gkmeans.drift.avg_distance_now IS 'average distance of the present rows to the same centroid';

CREATE VIEW gkmeans.iterations AS
SELECT pg_catalog.format('%I.%I/%s/%s/%s', m.schema_name, m.model_name, i.version, i.start, i.iteration)
        AS iteration_key,
    pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, i.version) AS version_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    i.version, i.start AS start_no, i.iteration, i.inertia, i.shift, i.moved
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_iterations(m.id) i;

COMMENT ON VIEW gkmeans.iterations IS 'iterations of the fits of the models that you may read; of very long fits, a selection';
COMMENT ON COLUMN gkmeans.iterations.iteration_key IS 'model, version, start and iteration; the key of this view';
COMMENT ON COLUMN gkmeans.iterations.version_key IS 'key of gkmeans.versions';
COMMENT ON COLUMN gkmeans.iterations.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.iterations.version IS 'number of the version';
COMMENT ON COLUMN gkmeans.iterations.start_no IS 'number of the start, from 1; 0 is the start of a refit from the deployed centroids';
COMMENT ON COLUMN gkmeans.iterations.iteration IS 'iteration of that start, from 1; a search is one row, whose rounds count on as iterations';
COMMENT ON COLUMN gkmeans.iterations.inertia IS 'sum of the squared distances to the centroids that the iteration ended with';
COMMENT ON COLUMN gkmeans.iterations.shift IS 'how far the centroids moved: root of the sum of their squared distances, as rows are compared';
COMMENT ON COLUMN gkmeans.iterations.moved IS 'rows that changed their cluster; all rows in the first iteration; NULL for a search';

CREATE VIEW gkmeans.k_selection AS
SELECT pg_catalog.format('%I.%I/%s/%s', m.schema_name, m.model_name, s.version, s.k) AS k_key,
    pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, s.version) AS version_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    s.version, s.k, s.inertia, s.explained, s.silhouette, s.simplified_silhouette,
    s.davies_bouldin, s.calinski_harabasz, s.bic, s.gap, s.gap_error, s.elbow, s.iterations,
    s.seconds, s.chosen
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_k_selection(m.id) s;

COMMENT ON VIEW gkmeans.k_selection IS 'numbers of clusters that were tried for the models that you may read';
COMMENT ON COLUMN gkmeans.k_selection.k_key IS 'model, version and number of clusters; the key of this view';
COMMENT ON COLUMN gkmeans.k_selection.version_key IS 'key of gkmeans.versions';
COMMENT ON COLUMN gkmeans.k_selection.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.k_selection.version IS 'number of the version';
COMMENT ON COLUMN gkmeans.k_selection.k IS 'number of clusters that was tried';
COMMENT ON COLUMN gkmeans.k_selection.inertia IS 'sum of the squared distances to the centroids';
COMMENT ON COLUMN gkmeans.k_selection.explained IS 'share of the variance that the clusters explain, at most 1';
COMMENT ON COLUMN gkmeans.k_selection.silhouette IS 'mean silhouette of a sample, -1 to 1; higher is better';
COMMENT ON COLUMN gkmeans.k_selection.simplified_silhouette IS 'mean silhouette with distances to centroids, 0 to 1; higher is better';
COMMENT ON COLUMN gkmeans.k_selection.davies_bouldin IS 'Davies-Bouldin index; lower is better';
COMMENT ON COLUMN gkmeans.k_selection.calinski_harabasz IS 'Calinski-Harabasz index; higher is better';
COMMENT ON COLUMN gkmeans.k_selection.bic IS 'Bayesian information criterion; higher is better';
COMMENT ON COLUMN gkmeans.k_selection.gap IS 'gap statistic; NULL if it was not computed';
COMMENT ON COLUMN gkmeans.k_selection.gap_error IS 'its standard error';
COMMENT ON COLUMN gkmeans.k_selection.elbow IS 'how far the inertia is below the chord of its curve; higher is better';
COMMENT ON COLUMN gkmeans.k_selection.iterations IS 'iterations of the best start, without its search';
COMMENT ON COLUMN gkmeans.k_selection.seconds IS 'duration of the fit';
COMMENT ON COLUMN gkmeans.k_selection.chosen IS 'whether the model has this number of clusters';

GRANT SELECT ON gkmeans.models, gkmeans.versions, gkmeans.clusters, gkmeans.centroid_features,
    gkmeans.iterations, gkmeans.k_selection, gkmeans.drift TO PUBLIC;

SET LOCAL search_path = @extschema@, pg_temp;
