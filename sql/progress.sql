
-- How far the fits of the server are

CREATE FUNCTION _gkmeans_progress(
    OUT pid integer,
    OUT database_name text,
    OUT role_name text,
    OUT model text,
    OUT phase text,
    OUT group_no integer,
    OUT groups integer,
    OUT start_no integer,
    OUT starts integer,
    OUT iteration integer,
    OUT max_iterations integer,
    OUT rows_done bigint,
    OUT rows_estimated bigint,
    OUT inertia double precision,
    OUT moved bigint,
    OUT engine text,
    OUT devices integer,
    OUT device_bytes bigint,
    OUT nodes integer,
    OUT started_at timestamptz,
    OUT seconds double precision,
    OUT remaining_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gk_running_fits'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
COST 1000 ROWS 5;

COMMENT ON FUNCTION _gkmeans_progress()
IS 'internal: what the view gkmeans.progress reads';

-- as in views.sql
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW gkmeans.progress AS
SELECT p.pid, p.database_name, p.role_name, p.model, p.phase, p.group_no, p.groups, p.start_no, p.starts,
    p.iteration, p.max_iterations, p.rows_done, p.rows_estimated, p.inertia, p.moved, p.engine, p.devices,
    p.device_bytes, p.nodes, p.started_at, p.seconds, p.remaining_seconds
FROM @extschema@._gkmeans_progress() p;

COMMENT ON VIEW gkmeans.progress IS 'fits that run on the server now, in all databases; for fits of other roles, only pid and phase, unless you are a member of pg_read_all_stats';
COMMENT ON COLUMN gkmeans.progress.pid IS 'process that runs the fit';
COMMENT ON COLUMN gkmeans.progress.database_name IS 'database of the process';
COMMENT ON COLUMN gkmeans.progress.role_name IS 'role of the process';
COMMENT ON COLUMN gkmeans.progress.model IS 'model, with its schema; NULL for gkmeans_fit';
COMMENT ON COLUMN gkmeans.progress.phase IS 'queued, reading, seeding, iterating, labelling, measuring or writing';
COMMENT ON COLUMN gkmeans.progress.group_no IS 'always NULL: there are no groups yet';
COMMENT ON COLUMN gkmeans.progress.groups IS 'always NULL: there are no groups yet';
COMMENT ON COLUMN gkmeans.progress.start_no IS 'current start, from 1';
COMMENT ON COLUMN gkmeans.progress.starts IS 'number of starts';
COMMENT ON COLUMN gkmeans.progress.iteration IS 'iterations of this start so far';
COMMENT ON COLUMN gkmeans.progress.max_iterations IS 'limit of the iterations of a start';
COMMENT ON COLUMN gkmeans.progress.rows_done IS 'usable rows read so far';
COMMENT ON COLUMN gkmeans.progress.rows_estimated IS 'rows of the source, as estimated by the planner';
COMMENT ON COLUMN gkmeans.progress.inertia IS 'least inertia of the starts that are done';
COMMENT ON COLUMN gkmeans.progress.moved IS 'rows that changed their cluster in the last iteration';
COMMENT ON COLUMN gkmeans.progress.engine IS 'cpu, cuda, or cluster for several servers';
COMMENT ON COLUMN gkmeans.progress.devices IS 'number of GPUs';
COMMENT ON COLUMN gkmeans.progress.device_bytes IS 'bytes of their memory in use';
COMMENT ON COLUMN gkmeans.progress.nodes IS 'number of servers that read the rows; 0 if this server reads them';
COMMENT ON COLUMN gkmeans.progress.started_at IS 'when the fit began';
COMMENT ON COLUMN gkmeans.progress.seconds IS 'seconds since then';
COMMENT ON COLUMN gkmeans.progress.remaining_seconds IS 'estimated seconds left: of reading, or at most of the starts, without a search';

GRANT SELECT ON gkmeans.progress TO PUBLIC;

SET LOCAL search_path = @extschema@, pg_temp;
