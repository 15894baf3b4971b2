-- Draws docs/clusters.svg from the rows of ruspini and the result of gkmeans_fit.  In the demo's database:
--     psql -X -q -A -t -f scripts/picture.sql -o docs/clusters.svg demo
-- Its colours are readable on light and on dark pages.
SET client_min_messages = warning;

CREATE TEMP TABLE clusters AS
SELECT cluster_id, size, centroid, radius
FROM gkmeans_fit('ruspini', '{x,y}', 4, n_init => 16, id_column => 'id', labels_table => 'pg_temp.labels');

-- Where a row stands in the picture, in pixels; y grows upward.
CREATE FUNCTION pg_temp.px(x float8) RETURNS numeric LANGUAGE sql AS 'SELECT round((30 + 4.5 * x)::numeric, 1)';
CREATE FUNCTION pg_temp.py(y float8) RETURNS numeric LANGUAGE sql AS 'SELECT round((420 - 2.1 * y)::numeric, 1)';
CREATE FUNCTION pg_temp.colour(cluster_id int) RETURNS text LANGUAGE sql AS
    $$SELECT (ARRAY['#4a86d8', '#d9822b', '#2f9e6e', '#c2569b'])[cluster_id + 1]$$;

SELECT '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 435" width="620" height="435" role="img"
 font-family="sans-serif" font-size="14">
<title>75 rows in four clusters, found by gkmeans_fit</title>
<text x="310" y="20" text-anchor="middle" fill="#808080"
 font-family="monospace">SELECT * FROM gkmeans_fit(''ruspini'', ''{x,y}'', 4);</text>
<path d="M30 50 V420 H600" fill="none" stroke="#808080"/>
<text x="594" y="413" fill="#808080">x</text><text x="38" y="62" fill="#808080">y</text>';

SELECT format('<ellipse cx="%s" cy="%s" rx="%s" ry="%s" fill="%s" fill-opacity="0.12"/>',
              pg_temp.px(centroid[1]), pg_temp.py(centroid[2]), round((4.5 * radius)::numeric, 1),
              round((2.1 * radius)::numeric, 1), pg_temp.colour(cluster_id))
FROM clusters ORDER BY cluster_id;

SELECT format('<circle cx="%s" cy="%s" r="4" fill="%s"/>', pg_temp.px(x), pg_temp.py(y), pg_temp.colour(cluster_id))
FROM ruspini JOIN pg_temp.labels USING (id) ORDER BY id;

SELECT format('<path d="M%s %s m-8 0 h16 m-8 -8 v16" stroke="%s" stroke-width="3"/>',
              pg_temp.px(centroid[1]), pg_temp.py(centroid[2]), pg_temp.colour(cluster_id))
FROM clusters ORDER BY cluster_id;

SELECT format('<text x="%s" y="%s" text-anchor="middle" fill="%s">cluster %s: %s rows</text>',
              pg_temp.px(centroid[1]), pg_temp.py(centroid[2] + radius) - 6,
              pg_temp.colour(cluster_id), cluster_id, size)
FROM clusters ORDER BY cluster_id;

SELECT '</svg>';
