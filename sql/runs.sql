
-- Runs: models that are fitted again

CREATE FUNCTION gkmeans_refit(
    model regclass,
    deploy text DEFAULT 'better',
    min_improvement double precision DEFAULT 0,
    only_if_drift double precision DEFAULT NULL,
    starts integer DEFAULT NULL,
    rescale boolean DEFAULT false,
    labels_table text DEFAULT NULL,
    labels_mode text DEFAULT NULL,
    changes_table text DEFAULT NULL,
    keep integer DEFAULT NULL,
    note text DEFAULT NULL,
    OUT version integer,
    OUT status text,
    OUT deployed boolean,
    OUT rows bigint,
    OUT inertia_before double precision,
    OUT inertia double precision,
    OUT improvement double precision,
    OUT psi double precision,
    OUT moved bigint,
    OUT outcome text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_refit'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 1;

COMMENT ON FUNCTION gkmeans_refit(regclass, text, double precision, double precision, integer,
    boolean, text, text, text, integer, text)
IS 'fits a new version of a model by its definition; its clusters keep their numbers and names';

CREATE PROCEDURE gkmeans_refresh(
    model regclass,
    deploy text DEFAULT 'better',
    min_improvement double precision DEFAULT 0,
    only_if_drift double precision DEFAULT NULL,
    starts integer DEFAULT NULL,
    rescale boolean DEFAULT false,
    labels_table text DEFAULT NULL,
    labels_mode text DEFAULT NULL,
    changes_table text DEFAULT NULL,
    keep integer DEFAULT NULL,
    note text DEFAULT NULL)
AS 'MODULE_PATHNAME', 'gkmeans_refresh'
LANGUAGE C;

COMMENT ON PROCEDURE gkmeans_refresh(regclass, text, double precision, double precision, integer,
    boolean, text, text, text, integer, text)
IS 'gkmeans_refit for jobs: in transactions of its own, with a record of runs that fail';

CREATE FUNCTION gkmeans_drift(
    model regclass,
    source text DEFAULT NULL,
    version integer DEFAULT NULL,
    OUT cluster_id integer,
    OUT name text,
    OUT rows_then bigint,
    OUT share_then double precision,
    OUT rows_now bigint,
    OUT share_now double precision,
    OUT psi double precision,
    OUT avg_distance_then double precision,
    OUT avg_distance_now double precision,
    OUT distance_ratio double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_drift'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 10;

COMMENT ON FUNCTION gkmeans_drift(regclass, text, integer)
IS 'how the rows of each cluster differ from those that the model was fitted to';

CREATE FUNCTION gkmeans_feature_drift(
    model regclass,
    source text DEFAULT NULL,
    version integer DEFAULT NULL,
    OUT feature text,
    OUT mean_then double precision,
    OUT mean_now double precision,
    OUT shift double precision,
    OUT deviation_then double precision,
    OUT deviation_now double precision,
    OUT deviation_ratio double precision,
    OUT unusable_now double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_feature_drift'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 10;

COMMENT ON FUNCTION gkmeans_feature_drift(regclass, text, integer)
IS 'how each feature differs from the rows that the model was fitted to';
