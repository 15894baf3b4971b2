
-- How good a clustering is

CREATE FUNCTION gkmeans_evaluate(
    model regclass,
    source text DEFAULT NULL,
    version integer DEFAULT NULL,
    sample integer DEFAULT NULL,
    seed bigint DEFAULT 0,
    OUT version integer,
    OUT rows bigint,
    OUT k integer,
    OUT inertia double precision,
    OUT mean_squared_distance double precision,
    OUT between_ss double precision,
    OUT total_ss double precision,
    OUT explained double precision,
    OUT silhouette double precision,
    OUT silhouette_rows bigint,
    OUT simplified_silhouette double precision,
    OUT davies_bouldin double precision,
    OUT calinski_harabasz double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_evaluate'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_evaluate(regclass, text, integer, integer, bigint)
IS 'how well a model fits the rows of a table, view or query';

CREATE FUNCTION gkmeans_evaluate_labels(
    source text,
    features text[],
    label_column text,
    metric text DEFAULT 'euclidean',
    scale text DEFAULT 'none',
    nulls text DEFAULT 'skip',
    sample integer DEFAULT NULL,
    seed bigint DEFAULT 0,
    OUT rows bigint,
    OUT k integer,
    OUT inertia double precision,
    OUT mean_squared_distance double precision,
    OUT between_ss double precision,
    OUT total_ss double precision,
    OUT explained double precision,
    OUT silhouette double precision,
    OUT silhouette_rows bigint,
    OUT simplified_silhouette double precision,
    OUT davies_bouldin double precision,
    OUT calinski_harabasz double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_evaluate_labels'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_evaluate_labels(text, text[], text, text, text, text, integer, bigint)
IS 'how well labels from any origin fit the rows of a table, view or query';

CREATE FUNCTION gkmeans_cluster_quality(
    model regclass,
    source text DEFAULT NULL,
    version integer DEFAULT NULL,
    sample integer DEFAULT NULL,
    seed bigint DEFAULT 0,
    OUT cluster_id integer,
    OUT name text,
    OUT rows bigint,
    OUT silhouette double precision,
    OUT simplified_silhouette double precision,
    OUT nearest_cluster_id integer,
    OUT separation double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_cluster_quality'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 10;

COMMENT ON FUNCTION gkmeans_cluster_quality(regclass, text, integer, integer, bigint)
IS 'how well the clusters of a model fit the rows of a table, view or query';

-- How many clusters

CREATE FUNCTION gkmeans_select_k(
    source text,
    features text[] DEFAULT NULL,
    k integer[] DEFAULT '{2,3,4,5,6,7,8,9,10,12,15,20}',
    criterion text DEFAULT 'simplified_silhouette',
    weight_column text DEFAULT NULL,
    init text DEFAULT 'k-means||',
    metric text DEFAULT 'euclidean',
    scale text DEFAULT 'none',
    nulls text DEFAULT 'skip',
    max_iter integer DEFAULT 300,
    tol double precision DEFAULT 1e-4,
    n_init integer DEFAULT 4,
    seed bigint DEFAULT 0,
    quality text DEFAULT 'auto',
    sample integer DEFAULT NULL,
    gap_references integer DEFAULT NULL,
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
AS 'MODULE_PATHNAME', 'gkmeans_select_k'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 12;

COMMENT ON FUNCTION gkmeans_select_k(text, text[], integer[], text, text, text, text, text, text,
    integer, double precision, integer, bigint, text, integer, integer)
IS 'how good clusterings with several k are, for a table, view or query that is read once';

-- How two models differ

CREATE FUNCTION gkmeans_compare(
    model_a regclass,
    model_b regclass,
    source text DEFAULT NULL,
    version_a integer DEFAULT NULL,
    version_b integer DEFAULT NULL,
    OUT rows bigint,
    OUT adjusted_rand double precision,
    OUT normalized_mutual_info double precision,
    OUT moved bigint,
    OUT moved_share double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_compare'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_compare(regclass, regclass, text, integer, integer)
IS 'how much two models, or two versions of one, agree on the rows of a table, view or query';

CREATE FUNCTION gkmeans_compare_labels(
    source text,
    label_a text,
    label_b text,
    OUT rows bigint,
    OUT adjusted_rand double precision,
    OUT normalized_mutual_info double precision,
    OUT moved bigint,
    OUT moved_share double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_compare_labels'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_compare_labels(text, text, text)
IS 'how much two columns of labels agree';

CREATE FUNCTION gkmeans_transitions(
    model_a regclass,
    model_b regclass,
    source text DEFAULT NULL,
    version_a integer DEFAULT NULL,
    version_b integer DEFAULT NULL,
    OUT from_cluster_id integer,
    OUT from_name text,
    OUT to_cluster_id integer,
    OUT to_name text,
    OUT rows bigint,
    OUT share double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_transitions'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000 ROWS 100;

COMMENT ON FUNCTION gkmeans_transitions(regclass, regclass, text, integer, integer)
IS 'how many rows of each cluster of one model or version are in each cluster of another';
