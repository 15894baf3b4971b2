-- Shown by scripts/demo.  Run it in the top folder of the sources; `report` is the file of the page at its end.
\if :{?report}
\else
\set report wine_kinds.html
\endif
\pset footer off
\set QUIET on
SET client_min_messages = warning;

CREATE EXTENSION gkmeans;
CREATE TABLE iris (id int PRIMARY KEY, sepal_length float8, sepal_width float8,
                   petal_length float8, petal_width float8, species text);
CREATE TABLE ruspini (id int PRIMARY KEY, x int, y int);
CREATE TABLE wine (id int PRIMARY KEY, alcohol float8, malic_acid float8, ash float8,
                   alcalinity_of_ash float8, magnesium float8, total_phenols float8,
                   flavanoids float8, nonflavanoid_phenols float8, proanthocyanins float8,
                   color_intensity float8, hue float8, od280_od315 float8, proline float8,
                   cultivar int);
CREATE TABLE digits (id int PRIMARY KEY, digit int, pixels real[]);
\copy iris FROM 'data/iris.csv' (FORMAT csv, HEADER)
\copy ruspini FROM 'data/ruspini.csv' (FORMAT csv, HEADER)
\copy wine FROM 'data/wine.csv' (FORMAT csv, HEADER)
\copy digits FROM 'data/digits.csv' (FORMAT csv, HEADER)
VACUUM ANALYZE;

\echo
\echo 'Iris: 150 flowers, four measures in cm, three clusters'
\echo
\echo '    SELECT * FROM gkmeans_fit(''iris'', ''{sepal_length,sepal_width,petal_length,petal_width}'', 3, n_init => 16);'
\echo
SELECT cluster_id, size, round(inertia::numeric, 4) AS inertia,
       round(avg_distance::numeric, 3) AS avg_distance, round(radius::numeric, 3) AS radius,
       ARRAY(SELECT round(x::numeric, 3) FROM unnest(centroid) WITH ORDINALITY AS c(x, i) ORDER BY i) AS centroid
FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16);

\echo 'How the clusters agree with the species, which the fit has not seen: gkmeans_fit_predict'
\echo
SELECT cluster_id, count(*) FILTER (WHERE species = 'setosa') AS setosa,
       count(*) FILTER (WHERE species = 'versicolor') AS versicolor,
       count(*) FILTER (WHERE species = 'virginica') AS virginica
FROM gkmeans_fit_predict(NULL::int, 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3,
                         id_column => 'id', n_init => 16)
JOIN iris USING (id)
GROUP BY cluster_id ORDER BY cluster_id;

\echo 'Ruspini: 75 points of the plane, four clusters, the labels written to a table'
\echo
SELECT cluster_id, size, round(inertia::numeric, 4) AS inertia,
       round(centroid[1]::numeric, 2) AS x, round(centroid[2]::numeric, 2) AS y
FROM gkmeans_fit('ruspini', '{x,y}', 4, n_init => 16, id_column => 'id',
                 labels_table => 'ruspini_labels', if_exists => 'replace');

\pset tuples_only on
SELECT string_agg(coalesce(mark, ' '), '' ORDER BY x)
FROM generate_series(0, 60) AS x
CROSS JOIN generate_series(0, 20) AS y
LEFT JOIN (SELECT DISTINCT ON (x / 2, y / 8) x / 2 AS x, y / 8 AS y, cluster_id::text AS mark
           FROM ruspini JOIN ruspini_labels USING (id)) AS points USING (x, y)
GROUP BY y ORDER BY y DESC;
\pset tuples_only off

\echo 'Digits: 1797 pictures of 8 × 8 pixels in one array column, the ten centroids as pictures'
\echo
CREATE TABLE shapes AS
SELECT * FROM gkmeans_fit('digits', '{pixels}', 10, n_init => 16);
\pset tuples_only on
SELECT string_agg(picture, '  ' ORDER BY cluster_id)
FROM (SELECT cluster_id, (i - 1) / 8 AS line,
             string_agg(repeat(substr(' .:-=+*#%@', 1 + floor(grey / 16 * 9.99)::int, 1), 1), '' ORDER BY i) AS picture
      FROM shapes, unnest(centroid) WITH ORDINALITY AS pixel(grey, i)
      GROUP BY cluster_id, line) AS lines
GROUP BY line ORDER BY line;
\pset tuples_only off

\echo 'What the last fit of the session did: gkmeans_last_fit'
\echo
SELECT rows_read, k_effective, iterations, converged, round(inertia::numeric, 2) AS inertia, engine,
       round((read_seconds + seed_seconds + iterate_seconds + label_seconds)::numeric, 3) AS seconds
FROM gkmeans_last_fit();

\echo 'Wine: thirteen measures of 178 wines, kept as a model: gkmeans_create_model chooses among 2 to 6 clusters'
\echo
SELECT count(*) AS clusters
FROM gkmeans_create_model('wine_kinds', 'SELECT * FROM wine',
         '{alcohol,malic_acid,ash,alcalinity_of_ash,magnesium,total_phenols,flavanoids,nonflavanoid_phenols,proanthocyanins,color_intensity,hue,od280_od315,proline}',
         k_candidates => '{2,3,4,5,6}', scale => 'standard', n_init => 8);
SELECT cluster_name, size, profile FROM gkmeans.clusters WHERE model = 'public.wine_kinds' ORDER BY cluster_id;

\echo 'The model in pictures, on a page for the browser: gkmeans_report'
\echo
\pset format unaligned
\pset tuples_only on
\o :report
SELECT gkmeans_report('wine_kinds', title => 'Kinds of wine');
\o
\pset tuples_only off
\pset format aligned
\echo '    ' :report
