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

-- Deviations within the clusters, in the units of the features; weights count
CREATE FUNCTION deviations(model regclass, source text, weight text DEFAULT '1', tolerance float8 DEFAULT 1e-9) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE f record; expected float8;
BEGIN
	FOR f IN SELECT * FROM gkmeans.centroid_features v WHERE v.model = format('gk_test.%I', $1::text) AND v.deployed LOOP
		EXECUTE format('SELECT sqrt(sum(w * (v - mean) ^ 2) / sum(w)) FROM (SELECT v, w, sum(w * v) OVER () / sum(w) OVER () AS mean FROM (SELECT %I AS v, %s AS w, gkmeans_predict(%L, r) AS label FROM (%s) r) l WHERE label = %s) m',
			f.feature, weight, $1, source, f.cluster_id) INTO expected;
		RETURN NEXT ok(abs(f.deviation - expected) <= tolerance * greatest(expected, 1e-3), format('%s: deviation of %s in cluster %s: %s, %s', $1, f.feature, f.cluster_id, f.deviation, expected));
	END LOOP;
END $$;
CREATE TABLE halves AS SELECT i AS id, (i % 3) * 100 + round(noise(i, 1) * 64) / 64 AS x, 1e4 + round(noise(i, 2) * 1024) / 4 AS y, i % 4 AS w FROM generate_series(1, 3000) i;
SELECT gkmeans_create_model('within', 'halves', '{x,y}', 6);
SELECT deviations('within', 'SELECT * FROM halves');
SELECT is((SELECT array_agg(deviation ORDER BY cluster_id, feature_no) FROM gkmeans.centroid_features WHERE model = 'gk_test.within'), (SELECT array_agg(d) FROM within, unnest(deviations) d), 'they are an attribute of the model');
SELECT gkmeans_create_model('within_weighted', 'halves', '{x,y}', 6, weight_column => 'w', max_iter => 2);
SELECT deviations('within_weighted', 'SELECT * FROM halves', 'w');
SELECT gkmeans_create_model('within_ordered', 'SELECT * FROM halves ORDER BY y', '{x,y}', 6, weight_column => 'w', max_iter => 2);
SELECT is(o.deviations, w.deviations, 'whatever the order of the rows') FROM within_ordered o, within_weighted w;
SELECT gkmeans_create_model('within_standard', 'halves', '{x,y}', 6, scale => 'standard');
SELECT gkmeans_create_model('within_units', 'SELECT x * 8 + 3 AS x, y / 2 AS y FROM halves', '{x,y}', 6, scale => 'standard');
SELECT ok(bool_and(abs(u - s * CASE WHEN i % 2 = 1 THEN 8 ELSE 0.5 END) <= 1e-6 * u), 'in the units of the features') FROM within_units b, within_standard a, unnest(b.deviations, a.deviations) WITH ORDINALITY d(u, s, i);
SELECT gkmeans_create_model('within_cosine', 'SELECT cos(i % 2 + noise(i, 1) / 8) * 5 AS x, sin(i % 2 + noise(i, 1) / 8) * 5 AS y FROM generate_series(1, 500) i', '{x,y}', 2, metric => 'cosine');
SELECT ok(bool_and(d > 0 AND d < 1), 'those of a model by cosine are of unit vectors') FROM within_cosine, unnest(deviations) d;
SELECT gkmeans_create_model('within_equal', 'SELECT i % 3 AS x, 7 AS y FROM generate_series(1, 90) i', '{x,y}', 3, scale => 'standard');
SELECT is(deviations, '{{0,0},{0,0},{0,0}}', 'equal rows') FROM within_equal;
SELECT gkmeans_create_model('within_one', 'SELECT * FROM (VALUES (1e30, 0), (-1e30, 8), (5, 4)) v(x, y)', '{x,y}', 1);
SELECT ok(abs(deviations[1][1] / (1e30 * sqrt(2 / 3.0)) - 1) < 1e-6 AND abs(deviations[1][2] - sqrt(32 / 3.0)) < 1e-12, 'one cluster of very different features') FROM within_one;
SELECT gkmeans_create_model('within_far', 'SELECT CASE WHEN i % 2 = 0 THEN 1e6 ELSE (i % 8) / 1024.0 END AS x FROM generate_series(1, 1000) i', '{x}', 2, initial_centroids => '{{1e6},{0}}');
SELECT near(deviations[2][1], sqrt(5) / 1024, 1e-9, 'a cluster that is small beside the range of the rows') FROM within_far;
CREATE TABLE placeholder AS SELECT i AS id, CASE WHEN i = 7 THEN 999999999999999 ELSE i * 7919 % 1000 / 1000.0 END::float8 AS x, (i % 7)::float8 AS y, i % 3 + 1 AS w FROM generate_series(1, 20000) i;
SELECT gkmeans_create_model('within_placeholder', 'placeholder', '{x,y}', 4);
SELECT deviations('within_placeholder', 'SELECT * FROM placeholder', tolerance => 1e-6);
SELECT gkmeans_create_model('within_placeholder_weighted', 'placeholder', '{x,y}', 4, weight_column => 'w');
SELECT deviations('within_placeholder_weighted', 'SELECT * FROM placeholder', 'w', tolerance => 1e-6);
SELECT isnt(a.deviations, b.deviations, 'a refit has its own') FROM g a, g b WHERE a.version = 1 AND b.version = 2;
SELECT deviations('g', 'SELECT * FROM growing', tolerance => 1e-6);
SELECT is(deviations, NULL, 'an imported model has none') FROM i;
SELECT is(count(value), count(*), 'its features are shown') FROM gkmeans.centroid_features WHERE model = 'gk_test.i' AND deviation IS NULL;

-- Weights may take the centroid of greatest reals, a usual placeholder, a little above them
CREATE TABLE placeholders AS SELECT i AS id, '3.4028235e38'::real AS x, 0::real AS y, w FROM unnest('{197.06283419393264,309.312195448048,321.2990741696683,36.934596261884245,8.448322979120551}'::float8[]) WITH ORDINALITY AS u(w, i);
SELECT gkmeans_create_model('p', 'placeholders', '{x,y}', 1, id_column => 'id', weight_column => 'w');
SELECT ok(centroids[1][1] > '3.4028234663852886e38'::float8, 'a centroid above the greatest real') FROM p;
SELECT is(array_agg(DISTINCT gkmeans_predict('p', x, y)), '{0}', 'its model predicts') FROM placeholders;
SELECT is(array_agg(status), '{fitted}', 'is refitted') FROM gkmeans_refit('p', deploy => 'always');
SELECT gkmeans_import_model('q', exported => gkmeans_export('p')::jsonb), gkmeans_import_model('r', gkmeans_centroids('p'), '{x,y}');
SELECT is((SELECT gkmeans_centroids('q')), gkmeans_centroids('p'), 'exported and imported') UNION ALL SELECT is((SELECT gkmeans_centroids('r')), gkmeans_centroids('p'), 'imported from its centroids');
SELECT is(count(*), 1::bigint, 'and these begin a fit') FROM gkmeans_fit('placeholders', '{x,y}', initial_centroids => gkmeans_centroids('p'));

-- Weights that are fine for the rows, but not for the distances from a model that is far away
CREATE TABLE heavy AS SELECT i AS id, (i % 2)::real AS x, 1e250 AS w FROM generate_series(1, 10) i;
SELECT gkmeans_create_model('h', 'heavy', '{x}', 2, id_column => 'id', weight_column => 'w');
UPDATE heavy SET x = 3e38;
SELECT fails_with($$SELECT gkmeans_refit('h')$$, '22003', 'weight × d² beyond double', 'the products of weights and squared distances are out of range', NULL, 'Divide the weights by a constant.');

SELECT nothing_left('nothing is left of these jobs');
SELECT * FROM finish();
ROLLBACK;
