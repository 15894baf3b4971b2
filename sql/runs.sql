
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
