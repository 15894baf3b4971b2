CREATE TABLE points AS SELECT i AS id, (i % 7)::float8 + sin(i) AS x, (i % 5)::real AS y, i % 3 AS w FROM generate_series(1, 2000) AS i;

CREATE TABLE arrays AS SELECT i AS id, ARRAY[i % 7, sin(i), cos(i), i % 11, (i % 5) * 100]::real[] AS v FROM generate_series(1, 2000) AS i;

SELECT count(*) FROM gkmeans_fit('points', '{x,y}', 5);

SELECT count(*) FROM gkmeans_fit('points', '{x,y}', 5, init => 'k-means++', n_init => 2, weight_column => 'w');

SELECT count(*) FROM gkmeans_fit('points', '{x,y}', 40, init => 'random', scale => 'standard', tol => 0);

SELECT count(*) FROM gkmeans_fit('arrays', '{v}', 6, metric => 'cosine', scale => 'minmax');

SELECT count(*) FROM gkmeans_fit('SELECT 1.0 AS x UNION ALL SELECT NULL UNION ALL SELECT 3', NULL, 2, initial_centroids => '{{0},{4}}');

SELECT count(DISTINCT cluster_id) FROM gkmeans_fit_predict(NULL::int, 'arrays', '{v}', 4, id_column => 'id');

SELECT count(DISTINCT cluster_id) FROM gkmeans_fit_predict(NULL::text, 'SELECT id::text, v FROM arrays', '{v}', 4, id_column => 'id');

SELECT count(*) FROM gkmeans_fit('points', '{x,y}', 3, id_column => 'id', labels_table => 'labels');

SELECT count(*) FROM labels;

DO $$ BEGIN PERFORM gkmeans_fit('points', '{x,nowhere}', 3); EXCEPTION WHEN undefined_column THEN NULL; END $$;

DO $$ BEGIN PERFORM gkmeans_fit('SELECT 1/(i-500) AS x FROM generate_series(1,1000) i', NULL, 3); EXCEPTION WHEN division_by_zero THEN NULL; END $$;

SELECT * FROM gkmeans_last_fit();

SELECT * FROM gkmeans_memory();

