-- The numbers of clusters: by size where they are seeded, as given where the centroids are.
\ir helpers.psql

CREATE TABLE visits (id int, x float8, y float8);
INSERT INTO visits SELECT i, 0 + i % 3, 0 FROM generate_series(1, 50) i;
INSERT INTO visits SELECT 100 + i, 100 + i % 3, 0 FROM generate_series(1, 30) i;
INSERT INTO visits SELECT 200 + i, 0 + i % 3, 100 FROM generate_series(1, 20) i;
CREATE TABLE segments AS SELECT * FROM gkmeans_fit('visits', '{x,y}', 3, n_init => 4);
SELECT is((SELECT array_agg(size ORDER BY cluster_id)::text FROM segments), '{50,30,20}', 'the first night: by size');

-- The second night the sizes are reversed: each segment keeps its number
INSERT INTO visits SELECT 1000 + i, 0 + i % 3, 100 FROM generate_series(1, 90) i;
INSERT INTO visits SELECT 2000 + i, 100 + i % 3, 0 FROM generate_series(1, 60) i;
CREATE FUNCTION yesterday() RETURNS float8[] LANGUAGE sql AS 'SELECT array_agg(centroid ORDER BY cluster_id) FROM segments';
SELECT is((SELECT array_agg(size ORDER BY cluster_id)::text FROM gkmeans_fit('visits', '{x,y}', 3, n_init => 4)), '{110,90,50}', 'seeded anew they are by size again');
SELECT results_eq($$SELECT cluster_id, size, round(centroid[1]), round(centroid[2]) FROM gkmeans_fit('visits', '{x,y}', initial_centroids => yesterday())$$,
	'VALUES (0, 50::bigint, 1::float8, 0::float8), (1, 90, 101, 0), (2, 110, 1, 100)', 'from yesterday''s centroids each has its number');
SELECT results_eq($$SELECT id % 1000 / 100, min(cluster_id), max(cluster_id) FROM gkmeans_fit_predict(NULL::int, 'visits', '{x,y}', id_column => 'id', initial_centroids => yesterday())
	WHERE id < 1000 GROUP BY 1 ORDER BY 1$$, 'VALUES (0, 0, 0), (1, 1, 1), (2, 2, 2)', 'and so have the rows');
SELECT count(*) AS clusters FROM gkmeans_fit('visits', '{x,y}', initial_centroids => yesterday(), scale => 'standard', id_column => 'id', labels_table => 'visit_segments') \gset
SELECT results_eq('SELECT cluster_id, count(*) FROM visit_segments GROUP BY 1 ORDER BY 1', 'VALUES (0, 50::bigint), (1, 90), (2, 110)', 'and so has the labels table');
SELECT results_eq($$SELECT cluster_id, size FROM gkmeans_fit('visits', '{x,y}', initial_centroids => '{{0,100},{0,0},{100,0}}', metric => 'euclidean', scale => 'minmax')$$,
	'VALUES (0, 110::bigint), (1, 50), (2, 90)', 'any order that is given');
SELECT results_eq($$SELECT cluster_id, size FROM gkmeans_fit('SELECT x, y FROM visits WHERE x > 50 OR y > 50', '{x,y}', initial_centroids => '{{1,0},{0,1}}', metric => 'cosine')$$,
	'VALUES (0, 90::bigint), (1, 110)', 'with cosine too');

-- A segment that ends empty leaves its number free; the others keep theirs
SELECT results_eq($$SELECT cluster_id, size FROM gkmeans_fit('VALUES (1), (1), (9)', '{column1}', initial_centroids => '{{1},{5},{9}}')$$,
	'VALUES (0, 2::bigint), (2, 1)', 'the middle of three is empty');
SELECT is((SELECT (k, k_effective)::text FROM gkmeans_last_fit()), '(3,2)', 'and told in the report');
SELECT results_eq($$SELECT column1, cluster_id FROM (VALUES (1), (9)) v LEFT JOIN gkmeans_fit_predict(NULL::int, 'VALUES (1), (1), (9)', '{column1}', id_column => 'column1',
	initial_centroids => '{{1},{5},{9}}') p ON id = column1 GROUP BY 1, 2 ORDER BY 1$$, 'VALUES (1, 0), (9, 2)', 'so it is with the rows');
SELECT results_eq($$SELECT cluster_id, size FROM gkmeans_fit('VALUES (1), (2), (9)', '{column1}', initial_centroids => '{{500},{1},{9}}')$$,
	'VALUES (0, 1::bigint), (1, 1), (2, 1)', 'while there are rows, none ends empty');

-- Rows that differ from their centroid by rounding alone stay in it when another cluster is empty
CREATE FUNCTION equals(kinds int, seed int, condition text DEFAULT 'true') RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT * FROM (SELECT i %% %s AS kind, noise(i %% %s, 1)::real AS x, noise(i %% %s, 2)::real AS y, noise(i %% %s, 3)::real AS z, (ARRAY[0.1, 0.3, 7.3, 1 / 3.0])[1 + floor(4 * noise(i, %s))::int]::float8 AS w
		FROM generate_series(1, 19) i) s WHERE %s', kinds, kinds, kinds, kinds, seed, condition)
$$;
CREATE TEMP TABLE ended AS SELECT 0 AS seed, ''::text AS metric, 0 AS iterations, true AS converged WHERE false;
CREATE TEMP TABLE kept AS SELECT 0 AS seed, ''::text AS metric, ''::text AS before, ''::text AS after WHERE false;
SET LOCAL client_min_messages = error;
DO $$
DECLARE
	first float8[];
	sizes text;
BEGIN
	FOR seed IN 1 .. 30 LOOP
		FOR metric IN 1 .. 2 LOOP
			PERFORM gkmeans_fit(gk_test.equals(2, seed), '{x,y,z}', weight_column => 'w', metric => (ARRAY['euclidean', 'cosine'])[metric], initial_centroids => '{{1,0,0},{0,1,0},{0,0,1}}', tol => 0);
			INSERT INTO ended SELECT seed, metric, iterations, converged FROM gkmeans_last_fit();
			SELECT array_agg(centroid ORDER BY cluster_id), string_agg(cluster_id || ' ' || round(centroid[1]::numeric, 5), ', ' ORDER BY cluster_id) FILTER (WHERE cluster_id > 0) INTO first, sizes
			FROM gkmeans_fit(gk_test.equals(3, seed), '{x,y,z}', 3, weight_column => 'w', metric => (ARRAY['euclidean', 'cosine'])[metric]);
			INSERT INTO kept SELECT seed, metric, sizes, string_agg(cluster_id || ' ' || round(centroid[1]::numeric, 5), ', ' ORDER BY cluster_id)
			FROM gkmeans_fit(gk_test.equals(3, seed, 'kind <> 1'), '{x,y,z}', initial_centroids => first, weight_column => 'w', metric => (ARRAY['euclidean', 'cosine'])[metric]);
		END LOOP;
	END LOOP;
END $$;
RESET client_min_messages;
SELECT ok(max(iterations) < 10 AND bool_and(converged), 'fits of two kinds of rows, and three centroids, end') FROM ended;
SELECT is_empty('SELECT * FROM kept WHERE before <> after', 'the clusters whose rows stay keep their numbers');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
