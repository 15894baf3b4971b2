
-- Pictures and reports of models

CREATE FUNCTION gkmeans_plot(
    model regclass,
    what text DEFAULT 'clusters',
    version integer DEFAULT NULL,
    width integer DEFAULT 640,
    height integer DEFAULT 400,
    format text DEFAULT 'svg')
RETURNS text
AS 'MODULE_PATHNAME', 'gkmeans_plot'
LANGUAGE C STABLE PARALLEL SAFE
COST 10000;

COMMENT ON FUNCTION gkmeans_plot(regclass, text, integer, integer, integer, text)
IS 'a picture of the deployed version of a model, or of another, as SVG or as a data URI';

CREATE FUNCTION gkmeans_report(
    model regclass,
    version integer DEFAULT NULL,
    title text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'gkmeans_report'
LANGUAGE C STABLE PARALLEL SAFE
COST 100000;

COMMENT ON FUNCTION gkmeans_report(regclass, integer, text)
IS 'a page about the deployed version of a model, or about another: HTML in one file';

CREATE FUNCTION _gkmeans_pictures(id oid)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'gk_visible_pictures'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 1000 ROWS 5;

COMMENT ON FUNCTION _gkmeans_pictures(oid)
IS 'internal: what the views in schema gkmeans read';

CREATE FUNCTION _gkmeans_picture(id oid, what text, format text)
RETURNS text
AS 'MODULE_PATHNAME', 'gk_visible_picture'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
COST 10000;

COMMENT ON FUNCTION _gkmeans_picture(oid, text, text)
IS 'internal: what the views in schema gkmeans read';

-- as in views.sql
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW gkmeans.plots AS
SELECT pg_catalog.format('%I.%I/%s', m.schema_name, m.model_name, p.plot) AS plot_key,
    pg_catalog.format('%I.%I', m.schema_name, m.model_name) AS model,
    p.plot,
    @extschema@._gkmeans_picture(m.id, p.plot, 'svg') AS svg,
    @extschema@._gkmeans_picture(m.id, p.plot, 'data_uri') AS data_uri
FROM @extschema@._gkmeans_models() m, LATERAL @extschema@._gkmeans_pictures(m.id) AS p(plot);

COMMENT ON VIEW gkmeans.plots IS 'pictures of the deployed versions of the models that you may read';
COMMENT ON COLUMN gkmeans.plots.plot_key IS 'model and plot; the key of this view';
COMMENT ON COLUMN gkmeans.plots.model IS 'key of gkmeans.models';
COMMENT ON COLUMN gkmeans.plots.plot IS 'clusters, profile, sizes, elbow, convergence, drift or history';
COMMENT ON COLUMN gkmeans.plots.svg IS 'the picture as SVG';
COMMENT ON COLUMN gkmeans.plots.data_uri IS 'the picture as a data URI, for columns of images';

GRANT SELECT ON gkmeans.plots TO PUBLIC;

SET LOCAL search_path = @extschema@, pg_temp;
