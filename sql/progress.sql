
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

CREATE VIEW gkmeans.progress AS
SELECT p.pid, p.database_name, p.role_name, p.model, p.phase, p.group_no, p.groups, p.start_no, p.starts,
    p.iteration, p.max_iterations, p.rows_done, p.rows_estimated, p.inertia, p.moved, p.engine, p.devices,
    p.device_bytes, p.nodes, p.started_at, p.seconds, p.remaining_seconds
FROM @extschema@._gkmeans_progress() p;

COMMENT ON VIEW gkmeans.progress IS 'fits of the server that run now, in all databases; of other roles'' fits only pid and phase without pg_read_all_stats';
COMMENT ON COLUMN gkmeans.progress.pid IS 'process that runs the fit';
COMMENT ON COLUMN gkmeans.progress.database_name IS 'its database';
COMMENT ON COLUMN gkmeans.progress.role_name IS 'role that it runs as';
COMMENT ON COLUMN gkmeans.progress.model IS 'model that it is for';
COMMENT ON COLUMN gkmeans.progress.phase IS 'queued, reading, seeding, iterating, labelling, measuring or writing';
COMMENT ON COLUMN gkmeans.progress.group_no IS 'group that it is at, from 1; NULL without groups';
COMMENT ON COLUMN gkmeans.progress.groups IS 'number of groups; NULL without groups';
COMMENT ON COLUMN gkmeans.progress.start_no IS 'start that it is at, from 1';
COMMENT ON COLUMN gkmeans.progress.starts IS 'number of starts';
COMMENT ON COLUMN gkmeans.progress.iteration IS 'iterations of this start so far';
COMMENT ON COLUMN gkmeans.progress.max_iterations IS 'limit of the iterations of a start';
COMMENT ON COLUMN gkmeans.progress.rows_done IS 'usable rows read so far';
COMMENT ON COLUMN gkmeans.progress.rows_estimated IS 'rows of the source as the planner estimates them';
COMMENT ON COLUMN gkmeans.progress.inertia IS 'least inertia of the starts that are done';
COMMENT ON COLUMN gkmeans.progress.moved IS 'rows that changed their cluster in the last iteration';
COMMENT ON COLUMN gkmeans.progress.engine IS 'cpu, cuda, or cluster for one over nodes';
COMMENT ON COLUMN gkmeans.progress.devices IS 'GPUs that it runs on';
COMMENT ON COLUMN gkmeans.progress.device_bytes IS 'bytes that it holds of their memory';
COMMENT ON COLUMN gkmeans.progress.nodes IS 'servers that have its rows; 0 if it is this one alone';
COMMENT ON COLUMN gkmeans.progress.started_at IS 'when it was begun';
COMMENT ON COLUMN gkmeans.progress.seconds IS 'seconds since then';
COMMENT ON COLUMN gkmeans.progress.remaining_seconds IS 'seconds that reading still takes by the estimate, or iterating at most';

GRANT SELECT ON gkmeans.progress TO PUBLIC;
