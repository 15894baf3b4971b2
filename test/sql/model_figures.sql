-- The figures of a fit, as they are stored with its version: those of gkmeans_evaluate.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[4]::float8 AS c, f[5]::float8 AS d FROM csv_lines(:'iris') f;
CREATE TABLE many AS SELECT i AS id, (i % 4) * 2 + noise(i, 1) AS x, noise(i, 2) * 1000 + 1e5 AS y, 1 + i % 5 AS w FROM generate_series(1, 11000) i;
CREATE FUNCTION stored(model regclass, of_version int DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT row(silhouette, simplified_silhouette, davies_bouldin, calinski_harabasz)::text FROM %s WHERE coalesce(version = $1, deployed)', model) INTO result USING of_version;
	RETURN result;
END $$;
CREATE FUNCTION evaluated(model regclass, source text DEFAULT NULL, of_version int DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT row(silhouette, simplified_silhouette, davies_bouldin, calinski_harabasz)::text FROM gkmeans_evaluate(model, source, of_version)
$$;
SET LOCAL client_min_messages = error;

-- Bit for bit, whatever was asked for
CREATE FUNCTION agrees(source text, features text, arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT FROM gkmeans_create_model(''agrees'', %L, %L, %s)', source, features, arguments);
	result := is(stored('agrees'), evaluated('agrees'), format('%s of %s, %s', features, source, arguments));
	DROP TABLE agrees;
	RETURN result;
END $$;
SELECT agrees('iris', '{a,b,c,d}', format('3, scale => %L, metric => %L', scale, metric)) FROM unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SELECT agrees('SELECT a + 1e6 AS a, b, c * 1e9 AS c, d FROM iris', '{a,b,c,d}', '5');
SELECT agrees('many', '{x,y}', arguments) FROM unnest(ARRAY['4', '7, scale => ''standard''', '60, max_iter => 2', '1', 'k_candidates => ''{2,4,6}'', scale => ''standard''', 'k_candidates => ''{6,4}'', criterion => ''davies_bouldin'', scale => ''standard'', seed => 3']) arguments;
SELECT agrees('SELECT round(a) AS a, round(b) AS b FROM iris', '{a,b}', '4, seed => 3');
SELECT agrees('SELECT array_agg(noise(i, j)) AS v FROM generate_series(1, 400) i, generate_series(1, 70) j GROUP BY i', '{v}', '3');
SELECT gkmeans_create_model('empty', 'iris', '{a}', initial_centroids => '{{5},{1000},{7}}');
SELECT is(stored('empty'), evaluated('empty'), 'an initial centroid without rows');

-- Weights count in none of them
SELECT gkmeans_create_model('weighted', 'many', '{x,y}', 4, scale => 'standard', weight_column => 'w');
SELECT is(m.silhouette, e.silhouette, 'with weights: silhouette') FROM weighted m, gkmeans_evaluate('weighted') e;
SELECT near(m.simplified_silhouette, e.simplified_silhouette, 1e-12, 'simplified silhouette') FROM weighted m, gkmeans_evaluate('weighted') e;
SELECT near(m.davies_bouldin, e.davies_bouldin, 1e-12, 'Davies-Bouldin') FROM weighted m, gkmeans_evaluate('weighted') e;
SELECT near(m.calinski_harabasz, e.calinski_harabasz, 1e-12, 'Calinski-Harabasz') FROM weighted m, gkmeans_evaluate('weighted') e;

-- What is known of iris
SELECT gkmeans_create_model('i3', 'iris', '{a,b,c,d}', 3, n_init => 16);
SELECT near(silhouette, 0.5528190124, 1e-6, 'silhouette of iris') FROM i3;
SELECT near(simplified_silhouette, 0.6663855565, 1e-6, 'simplified silhouette') FROM i3;
SELECT near(davies_bouldin, 0.6619715465, 1e-6, 'Davies-Bouldin') FROM i3;
SELECT near(calinski_harabasz, 561.62775663, 1e-6, 'Calinski-Harabasz') FROM i3;
SELECT is(row(v.silhouette, v.simplified_silhouette, v.davies_bouldin, v.calinski_harabasz)::text, stored('i3'), 'gkmeans.versions shows them') FROM gkmeans.versions v WHERE model = 'gk_test.i3';
SELECT is(row(v.silhouette, v.davies_bouldin)::text, (SELECT row(silhouette, davies_bouldin)::text FROM i3), 'and gkmeans.models') FROM gkmeans.models v WHERE model = 'gk_test.i3';
SELECT gkmeans_create_model('one', 'iris', '{a,b,c,d}', 1);
SELECT is(stored('one'), '(,,,)', 'one cluster has none');
SELECT ok((report ->> 'measure_seconds')::float8 >= 0, 'how long it took') FROM i3;

-- The same whatever the order of the rows and who reads them
SELECT gkmeans_create_model('ordered', 'SELECT x, y FROM many ORDER BY noise(id, 9)', '{x,y}', 4);
SET LOCAL max_parallel_workers_per_gather = 0;
SELECT gkmeans_create_model('alone', 'many', '{x,y}', 4);
RESET max_parallel_workers_per_gather;
SELECT is(stored('ordered'), stored('alone'), 'the order of the rows does not matter');

-- The sample of rows of which many are equal is like all of them
CREATE TABLE repeated AS SELECT i AS id, i % 6 * (i % 3) AS x, i % 2 AS y FROM generate_series(1, 30000) i;
SELECT gkmeans_create_model('repeated3', 'repeated', '{x,y}', 3);
SELECT near(m.silhouette, e.silhouette, 1e-3, 'rows that are often equal') FROM repeated3 m, gkmeans_evaluate('repeated3', sample => 30000) e;
SELECT near(l.silhouette, e.silhouette, 1e-3, 'with labels from a column') FROM gkmeans_evaluate('repeated3', sample => 30000) e, gkmeans_evaluate_labels('SELECT x, y, gkmeans_predict(''repeated3'', r) AS l FROM repeated r', '{x,y}', 'l') l;
SELECT near(e.silhouette, 1, 1e-12, 'two kinds of rows, seed ' || seed) FROM generate_series(1, 4) seed, LATERAL gkmeans_evaluate_labels('SELECT i % 2 AS x, i % 2 AS l FROM generate_series(1, 12000) i', '{x}', 'l', seed => seed) e;
SELECT is(e.silhouette_rows, 4000::bigint, 'as many as were asked for') FROM gkmeans_evaluate('repeated3', sample => 4000) e;
SELECT is(e.silhouette_rows, 256::bigint, 'fewer of very many features') FROM gkmeans_evaluate_labels('SELECT array_fill(i, ARRAY[16384]) AS v, i % 2 AS l FROM generate_series(1, 300) i', '{v}', 'l') e;
SELECT is(e.silhouette_rows, 300::bigint, 'unless they are asked for') FROM gkmeans_evaluate_labels('SELECT array_fill(i, ARRAY[16384]) AS v, i % 2 AS l FROM generate_series(1, 300) i', '{v}', 'l', sample => 10000) e;

-- Refits; the labels of the table are not touched by measuring
CREATE TABLE growing AS SELECT * FROM many WHERE id <= 3000;
ALTER TABLE growing ADD PRIMARY KEY (id);
SELECT gkmeans_create_model('g', 'growing', '{x,y}', 4, id_column => 'id', labels_table => 'g_labels', scale => 'standard');
CREATE FUNCTION labels_are_right(version int) RETURNS boolean LANGUAGE sql AS $$
	SELECT count(*) = (SELECT count(*) FROM growing) AND bool_and(l.cluster_id = gkmeans_predict_version('g', version, r) AND l.distance = gkmeans_distance('g', r)) FROM growing r JOIN g_labels l USING (id)
$$;
SELECT ok(labels_are_right(1), 'labels of a new model');
INSERT INTO growing SELECT * FROM many WHERE id BETWEEN 3001 AND 5000;
SELECT is(deployed, true, 'a refit') FROM gkmeans_refit('g', deploy => 'always');
SELECT is(stored('g'), evaluated('g'), 'its figures');
SELECT ok(labels_are_right(2), 'its labels');
SELECT isnt(stored('g', 1), stored('g', 2), 'not those of the version before');
INSERT INTO growing SELECT * FROM many WHERE id BETWEEN 5001 AND 6000;
SELECT is(row(status, deployed)::text, '(fitted,f)', 'a refit that is not deployed') FROM gkmeans_refit('g', deploy => 'never');
SELECT is(stored('g', 3), evaluated('g', NULL, 3), 'its figures');
SELECT ok(labels_are_right(2), 'the labels of the deployed version');
SELECT is(deployed, true, 'a new scale') FROM gkmeans_refit('g', deploy => 'always', rescale => true);
SELECT is(stored('g'), evaluated('g'), 'its figures');
SELECT is(status, 'checked', 'only looked at') FROM gkmeans_refit('g', only_if_drift => 1);
SELECT is(stored('g', 5), '(,,,)', 'without figures');
CALL gkmeans_refresh('g', deploy => 'always');
SELECT is(stored('g', 6), evaluated('g', NULL, 6), 'gkmeans_refresh');
SELECT gkmeans_import_model('i', '{{1,2},{3,4}}');
SELECT is(stored('i'), '(,,,)', 'an imported model has none');

SELECT nothing_left('nothing is left of these jobs');
SELECT * FROM finish();
ROLLBACK;
