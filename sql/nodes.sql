
-- Nodes: what the session of another server calls to use this server for its fit
--
-- They are in schema gkmeans, which whoever made the extension owns: commands call them by name, and
-- the owner of the database may rename the schema of the extension in the middle of a fit.

CREATE FUNCTION gkmeans.gkmeans_node_open(
    protocol integer,
    source text,
    features text[],
    id_column text,
    id_type text,
    weight_column text,
    nulls_are_errors boolean,
    by_direction boolean,
    k bigint,
    n_init bigint,
    max_iter bigint,
    OUT engine text,
    OUT engine_reason text,
    OUT columns text)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_node_open'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_open(integer, text, text[], text, text, text, boolean, boolean,
    bigint, bigint, bigint)
IS 'internal: makes this session a node of another server''s fit';

CREATE FUNCTION gkmeans.gkmeans_node_load(
    dimension integer,
    shift double precision[],
    OUT rows_read bigint,
    OUT rows_skipped bigint,
    OUT rows_dimension integer,
    OUT rows_shift double precision[],
    OUT rows_least double precision[],
    OUT rows_greatest double precision[],
    OUT nulls bigint[],
    OUT not_finite bigint[],
    OUT zeros bigint,
    OUT workers integer,
    OUT read_twice boolean,
    OUT seconds double precision,
    OUT has_foreign_table boolean)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_node_load'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_load(integer, double precision[])
IS 'internal: reads the rows of this node';

CREATE FUNCTION gkmeans.gkmeans_node_ids(OUT id text, OUT row_number bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_node_ids'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000 ROWS 100000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_ids()
IS 'internal: the ids of the rows of this node';

CREATE FUNCTION gkmeans.gkmeans_node_publish(
    key uuid,
    clusters integer[],
    by_cosine boolean,
    OUT handle bigint,
    OUT labels bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_node_publish'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_publish(uuid, integer[], boolean)
IS 'internal: leaves the labels of this node for the sessions that write them';

CREATE FUNCTION gkmeans.gkmeans_node_rest(
    key uuid,
    OUT id text,
    OUT cluster_id integer,
    OUT distance double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_node_rest'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000 ROWS 1000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_rest(uuid)
IS 'internal: the labels of this node that no session has taken';

CREATE FUNCTION gkmeans.gkmeans_node_put(piece bytea) RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_node_put'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_put(bytea)
IS 'internal: a piece of a message to this node';

CREATE FUNCTION gkmeans.gkmeans_node_run(piece bytea) RETURNS bytea
AS 'MODULE_PATHNAME', 'gkmeans_node_run'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 100000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_run(bytea)
IS 'internal: the last piece of a message to this node, which carries it out';

CREATE FUNCTION gkmeans.gkmeans_node_take() RETURNS bytea
AS 'MODULE_PATHNAME', 'gkmeans_node_take'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_take()
IS 'internal: the next part of the answer of this node';

CREATE FUNCTION gkmeans.gkmeans_node_close() RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_node_close'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans.gkmeans_node_close()
IS 'internal: ends what this session does as a node';

REVOKE EXECUTE ON FUNCTION gkmeans.gkmeans_node_open, gkmeans.gkmeans_node_load,
    gkmeans.gkmeans_node_ids, gkmeans.gkmeans_node_publish, gkmeans.gkmeans_node_rest,
    gkmeans.gkmeans_node_put, gkmeans.gkmeans_node_run, gkmeans.gkmeans_node_take,
    gkmeans.gkmeans_node_close FROM PUBLIC;

-- The labels of a fit, for the commands that write them to a table of Citus, which sends no volatile
-- function to other servers.

CREATE FUNCTION gkmeans._gkmeans_labels()
RETURNS SETOF record AS 'MODULE_PATHNAME', 'gk_labels'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000 ROWS 1000000;

COMMENT ON FUNCTION gkmeans._gkmeans_labels()
IS 'internal: the labels that a fit is about to write';

-- gkmeans_predict_with() for comparisons of rows that Citus keeps, which looks the name up again when
-- it has the rows: nobody else makes functions in this schema.

CREATE FUNCTION gkmeans._gkmeans_predict_with(exported jsonb, VARIADIC features "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'gkmeans_predict_with'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
COST 100;

COMMENT ON FUNCTION gkmeans._gkmeans_predict_with(jsonb, "any")
IS 'internal: the cluster that a row belongs to, by an exported model';

-- What the sessions of Citus look up while they write labels: with a key that the session of the
-- fit has made, as its role.  They are marked stable because Citus sends no other function to the
-- workers.  They take an id of the very type that they declare, or in a row of its own, so that no
-- function of others fits better.

-- as in views.sql
SET LOCAL search_path = pg_catalog, pg_temp;

DO $do$
DECLARE
    type text;
BEGIN
    FOREACH type IN ARRAY '{integer,bigint,uuid,text,record}'::text[]
    LOOP
        EXECUTE replace($$
            CREATE FUNCTION gkmeans._gkmeans_label_exists(handles bigint[], key uuid, id TYPE_OF_ID)
            RETURNS boolean
            AS 'MODULE_PATHNAME', 'gk_label_exists'
            LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
            COST 10;

            COMMENT ON FUNCTION gkmeans._gkmeans_label_exists(bigint[], uuid, TYPE_OF_ID)
            IS 'internal: true if this node has left a label of that id';

            CREATE FUNCTION gkmeans._gkmeans_label_cluster(handles bigint[], key uuid, id TYPE_OF_ID)
            RETURNS integer
            AS 'MODULE_PATHNAME', 'gk_label_cluster'
            LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
            COST 10;

            COMMENT ON FUNCTION gkmeans._gkmeans_label_cluster(bigint[], uuid, TYPE_OF_ID)
            IS 'internal: takes the cluster that this node has left for that id';

            CREATE FUNCTION gkmeans._gkmeans_label_distance(handles bigint[], key uuid, id TYPE_OF_ID)
            RETURNS double precision
            AS 'MODULE_PATHNAME', 'gk_label_distance'
            LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
            COST 10;

            COMMENT ON FUNCTION gkmeans._gkmeans_label_distance(bigint[], uuid, TYPE_OF_ID)
            IS 'internal: the distance that this node has left for that id'$$, 'TYPE_OF_ID', type);
    END LOOP;
END $do$;

SET LOCAL search_path = @extschema@, pg_temp;
