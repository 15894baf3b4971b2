-- The extension as installed, on real data: what `make installcheck` compares with test/regress/expected.
-- Numbers are rounded, so that the output is that of every engine and every processor.
\set iris `cat "${PG_ABS_SRCDIR:-.}/../../data/iris.csv"`
SET client_min_messages = warning;

CREATE TABLE iris (id int PRIMARY KEY, sepal_length float8, sepal_width float8,
                   petal_length float8, petal_width float8, species text);
INSERT INTO iris
SELECT f[1]::int, f[2]::float8, f[3]::float8, f[4]::float8, f[5]::float8, f[6]
FROM string_to_table(replace(:'iris', E'\r', ''), E'\n') WITH ORDINALITY AS lines(line, number),
     LATERAL (SELECT string_to_array(line, ',') AS f) AS fields
WHERE number > 1 AND line <> '';
SELECT count(*) FROM iris;

-- Clusters
SELECT cluster_id, size, weight, round(inertia::numeric, 4) AS inertia,
       round(avg_distance::numeric, 4) AS avg_distance, round(radius::numeric, 4) AS radius,
       ARRAY(SELECT round(x::numeric, 4) FROM unnest(centroid) WITH ORDINALITY AS c(x, i) ORDER BY i) AS centroid
FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16);
SELECT rows_read, rows_skipped, dimension, k, k_effective, converged, round(inertia::numeric, 6) AS inertia
FROM gkmeans_last_fit();

-- Labels
SELECT species, cluster_id, count(*), round(avg(distance)::numeric, 4) AS distance
FROM gkmeans_fit_predict(NULL::int, 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3,
                         id_column => 'id', n_init => 16)
JOIN iris USING (id)
GROUP BY species, cluster_id ORDER BY species, cluster_id;

-- A query, an array, weights, scaling, cosine
SELECT cluster_id, size FROM gkmeans_fit('SELECT petal_length * petal_width AS area FROM iris', '{area}', 2, n_init => 16);
SELECT cluster_id, size, round(weight::numeric, 2) AS weight
FROM gkmeans_fit('SELECT ARRAY[petal_length, petal_width] AS v, sepal_length AS w FROM iris', '{v}', 2,
                 weight_column => 'w', n_init => 8);
SELECT cluster_id, size FROM gkmeans_fit('iris', '{petal_length,sepal_width}', 3, scale => 'standard', n_init => 16);
SELECT cluster_id, size FROM gkmeans_fit('iris', '{petal_length,sepal_width}', 2, metric => 'cosine', n_init => 16);

-- A labels table: made, replaced, appended to
SELECT cluster_id, size
FROM gkmeans_fit('iris', '{petal_length,petal_width}', 2, n_init => 8, id_column => 'id', labels_table => 'labels');
SELECT cluster_id, size
FROM gkmeans_fit('SELECT * FROM iris WHERE id <= 100', '{petal_length,petal_width}', 2, n_init => 8, id_column => 'id',
                 labels_table => 'labels', if_exists => 'replace');
SELECT cluster_id, size
FROM gkmeans_fit('SELECT * FROM iris WHERE id > 100', '{petal_length,petal_width}', 1, id_column => 'id',
                 labels_table => 'labels', if_exists => 'append');
\d labels
SELECT cluster_id, count(*), min(id), max(id) FROM labels GROUP BY cluster_id ORDER BY cluster_id;

-- Errors, by their SQLSTATE
\set VERBOSITY sqlstate
SELECT * FROM gkmeans_fit('iris', '{petal_length}', 0);
SELECT * FROM gkmeans_fit('iris', '{petal_size}', 2);
SELECT * FROM gkmeans_fit('no_such_table', '{x}', 2);
SELECT * FROM gkmeans_fit('iris', '{petal_length}', 2, init => 'best');
SELECT * FROM gkmeans_fit('iris', '{petal_length}', 2, id_column => 'id', labels_table => 'labels');
SELECT * FROM gkmeans_fit('SELECT 1 AS x WHERE false', '{x}', 2);

\set VERBOSITY default
-- Nothing is held afterwards
SELECT kind, bytes FROM gkmeans_memory() WHERE bytes <> 0;
SELECT * FROM gkmeans_sessions() WHERE pid = pg_backend_pid();
DROP TABLE iris, labels;
