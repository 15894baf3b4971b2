
-- Nodes: what the session of another server calls to use this server for its fit

CREATE FUNCTION gkmeans_node_open(
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

COMMENT ON FUNCTION gkmeans_node_open(integer, text, text[], text, text, text, boolean, boolean,
    bigint, bigint, bigint)
IS 'internal: makes this session a node of another server''s fit';

CREATE FUNCTION gkmeans_node_load(
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
    OUT seconds double precision)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_node_load'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000000;

COMMENT ON FUNCTION gkmeans_node_load(integer, double precision[])
IS 'internal: reads the rows of this node';

CREATE FUNCTION gkmeans_node_ids(OUT id text, OUT row_number bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gkmeans_node_ids'
LANGUAGE C VOLATILE PARALLEL UNSAFE
COST 1000 ROWS 100000;

COMMENT ON FUNCTION gkmeans_node_ids()
IS 'internal: the ids of the rows of this node';

CREATE FUNCTION gkmeans_node_put(piece bytea) RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_node_put'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_node_put(bytea)
IS 'internal: a piece of a message to this node';

CREATE FUNCTION gkmeans_node_run(piece bytea, OUT answer_bytes bigint, OUT part bytea)
RETURNS record
AS 'MODULE_PATHNAME', 'gkmeans_node_run'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 100000;

COMMENT ON FUNCTION gkmeans_node_run(bytea)
IS 'internal: the last piece of a message to this node, which carries it out';

CREATE FUNCTION gkmeans_node_take() RETURNS bytea
AS 'MODULE_PATHNAME', 'gkmeans_node_take'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_node_take()
IS 'internal: the next part of the answer of this node';

CREATE FUNCTION gkmeans_node_close() RETURNS void
AS 'MODULE_PATHNAME', 'gkmeans_node_close'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
COST 1000;

COMMENT ON FUNCTION gkmeans_node_close()
IS 'internal: ends what this session does as a node';

REVOKE EXECUTE ON FUNCTION gkmeans_node_open, gkmeans_node_load, gkmeans_node_ids, gkmeans_node_put,
    gkmeans_node_run, gkmeans_node_take, gkmeans_node_close FROM PUBLIC;
