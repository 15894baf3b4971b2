-- Scoring rows by a model: the labels of the fit bit for bit, in every form of the arguments.
\ir helpers.psql
\set iris `cat data/iris.csv`
\set ruspini `cat data/ruspini.csv`
\set wine `cat data/wine.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[4]::float8 AS c, f[5]::float8 AS d FROM csv_lines(:'iris') f;
CREATE TABLE far AS SELECT id, a + 1e6 AS a, b + 1e6 AS b, c + 1e6 AS c, d + 1e6 AS d FROM iris;
CREATE TABLE ruspini AS SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[3]::float8 AS c, f[2]::float8 AS d FROM csv_lines(:'ruspini') f;
CREATE TABLE wine AS SELECT f[1]::int AS id, f[2]::float8 AS a, f[6]::float8 AS b, f[11]::float8 AS c, f[14]::float8 AS d FROM csv_lines(:'wine') f;
-- many rows as far from one centroid as from another
CREATE TABLE grid AS SELECT i AS id, (i % 5)::float8 AS a, (i / 5 % 5)::float8 AS b, (i / 25 % 5)::float8 AS c, (i % 3)::float8 AS d FROM generate_series(0, 374) i;

-- How many rows a query labels as the fit did, label and distance.
CREATE FUNCTION labels_of(source text, form text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE result bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM labels JOIN %s t USING (id) WHERE gkmeans_predict(''model'', %s) = cluster_id AND gkmeans_distance(''model'', %s) = distance',
		source, form, form) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION compare(source text, scale text, metric text, k int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	form text;
	count bigint;
	arguments text := format('%L, ''{a,b,c,d}'', %s, id_column => ''id'', scale => %L, metric => %L, seed => 3', source, k, scale, metric);
BEGIN
	EXECUTE format('CREATE TABLE labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, %s)', arguments);
	EXECUTE format('SELECT FROM gkmeans_create_model(''model'', %s)', arguments);
	SELECT count(*) INTO count FROM labels WHERE cluster_id IS NOT NULL;
	FOREACH form IN ARRAY '{t,"(SELECT r FROM (SELECT d, 1 AS other, c, b, a) r)","a, b, c, d","ARRAY[a,b,c,d]","ARRAY[a,b,c,d]::numeric[]","VARIADIC ARRAY[a,b,c,d]","a::numeric, b, c::numeric, d"}'::text[] LOOP
		RETURN NEXT is(labels_of(source, form), count, format('%s, scale %s, %s, as %s', source, scale, metric, form));
	END LOOP;
	RETURN NEXT is((SELECT count(*) FROM gkmeans_clusters('model') c WHERE size = (SELECT count(*) FROM labels WHERE labels.cluster_id = c.cluster_id)), (SELECT count(DISTINCT cluster_id) FROM labels), 'sizes are those of the labels');
	DROP TABLE labels, model;
END $$;
SET LOCAL client_min_messages = error;
SELECT compare(source, scale, metric, k) FROM (VALUES ('iris', 3), ('far', 3), ('ruspini', 4), ('wine', 3), ('wine', 40), ('grid', 7), ('grid', 12), ('iris', 1)) s(source, k),
	unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;

-- Ties go to the centroid that the fit chose, also where the clusters were numbered anew.
SELECT gkmeans_create_model('ties', 'SELECT i % 10 AS x FROM generate_series(0, 99) i UNION ALL SELECT 9 FROM generate_series(1, 5)', '{x}', initial_centroids => '{{4},{0},{9}}');
CREATE TABLE tie_labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'SELECT 100 * i + i % 10 AS id, i % 10 AS x FROM generate_series(0, 99) i UNION ALL SELECT -9, 9 FROM generate_series(1, 5)', '{x}', id_column => 'id', initial_centroids => '{{4},{0},{9}}');
SELECT is((SELECT count(*)::int FROM tie_labels WHERE gkmeans_predict('ties', abs(id) % 10) = cluster_id), 105, 'ties as the fit decided them');

-- Given centroids keep their numbers; one that ends empty leaves its number free.
CREATE TABLE gaps AS SELECT i AS id, i % 3 * 10.0 AS x FROM generate_series(1, 30) i;
CREATE TABLE gap_labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'gaps', '{x}', id_column => 'id', initial_centroids => '{{20},{500},{0},{600},{10}}', max_iter => 1);
CREATE TABLE gap_clusters AS SELECT * FROM gkmeans_create_model('gap', 'gaps', '{x}', initial_centroids => '{{20},{500},{0},{600},{10}}', max_iter => 1);
SELECT is((SELECT count(*)::int FROM gap_labels l JOIN gaps g USING (id) WHERE gkmeans_predict('gap', g) = l.cluster_id), 30, 'ids with gaps are those of the fit');
SELECT is((SELECT array_agg(cluster_id) FROM gkmeans_clusters('gap')), (SELECT array_agg(cluster_id) FROM gap_clusters), 'also in gkmeans_clusters');
SELECT is(cardinality(gkmeans_transform('gap', 7)), (SELECT count(*)::int FROM gap_clusters), 'gkmeans_transform has as many distances as there are clusters');

-- Arrays, vectors of real, digits
\set digits `cat data/digits.csv`
CREATE TABLE digits AS SELECT m[1]::int AS id, m[2]::real[] AS v FROM regexp_matches(:'digits', '(\d+),\d,"(\{[^"]*\})"', 'g') m;
SELECT is(count(*)::int, 1797, 'digits has its rows') FROM digits;
CREATE FUNCTION compare_arrays(scale text, metric text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE form text;
BEGIN
	CREATE TABLE labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'digits', '{v}', 10, id_column => 'id', scale => compare_arrays.scale, metric => compare_arrays.metric, max_iter => 20);
	PERFORM gkmeans_create_model('model', 'digits', '{v}', 10, id_column => 'id', scale => compare_arrays.scale, metric => compare_arrays.metric, max_iter => 20);
	FOREACH form IN ARRAY '{t,v,v::float8[],v::numeric[],v::int[],VARIADIC v,(SELECT r FROM (SELECT v::float8[] AS v) r)}'::text[] LOOP
		RETURN NEXT is(labels_of('digits', form), 1797::bigint, format('digits, scale %s, %s, as %s', scale, metric, form));
	END LOOP;
	DROP TABLE labels, model;
END $$;
SELECT compare_arrays(scale, metric) FROM unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SET LOCAL client_min_messages = warning;

-- The other functions
CREATE TABLE labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'iris', '{a,b,c,d}', 3, id_column => 'id', n_init => 16);
SELECT gkmeans_create_model('m', 'iris', '{a,b,c,d}', 3, n_init => 16);
SELECT is(gkmeans_predict('m', '{5.1,3.5,1.4,0.2}'), 1, 'a literal');
SELECT is((SELECT count(*)::int FROM iris i WHERE (gkmeans_transform('m', i))[gkmeans_predict('m', i) + 1] = gkmeans_distance('m', i)), 150, 'gkmeans_transform has the distance at the place of the cluster');
SELECT is((SELECT count(*)::int FROM iris i WHERE (SELECT min(t) FROM unnest(gkmeans_transform('m', i)) t) = gkmeans_distance('m', i)), 150, 'and it is the least');
SELECT ok(bool_and(abs(t - sqrt((SELECT sum((x::real - e) ^ 2) FROM unnest(ARRAY[a,b,c,d], cs.centroid) u(x, e)))) < 1e-6), 'distances are distances')
FROM iris i, gkmeans_clusters('m') cs, LATERAL (SELECT (gkmeans_transform('m', i))[cs.cluster_id + 1]) t(t);
SELECT is((SELECT array_agg(cluster_id ORDER BY distance) FROM gkmeans_nearest('m', 2, '{5.1,3.5,1.4,0.2}')), '{1,0}', 'gkmeans_nearest');
SELECT is((SELECT count(*)::int FROM gkmeans_nearest('m', 100, '{5.1,3.5,1.4,0.2}')), 3, 'gives at most k');
SELECT fails_with($$SELECT gkmeans_nearest('m', 0, '{5.1,3.5,1.4,0.2}')$$, '22023', 'and at least one');
SELECT is((SELECT array_agg(name) FROM gkmeans_nearest('m', 1, 5.1, 3.5, 1.4, 0.2)), '{cluster 1}', 'with its name');
SELECT gkmeans_import_model('around', '{{1,0},{3,3},{0,1},{-1,0},{0,-1}}');
SELECT is((SELECT array_agg(cluster_id) FROM gkmeans_nearest('around', 5, 0, 0)), '{0,2,3,4,1}', 'those that are as near in the order of a fit');
SELECT is(num_nulls(gkmeans_transform('around', NULL::float8, 1), gkmeans_transform('around', 'NaN'::float8, 1), gkmeans_transform('around', 1, 1)), 2, 'no distances of a row that cannot be scored');
SELECT gkmeans_import_model('angles', '{{1,0},{0,1}}', metric => 'cosine');
SELECT results_eq($$SELECT feature, value::numeric(9,6), centroid, difference::numeric(9,6), share::numeric(9,6) FROM gkmeans_explain('angles', 30, 40)$$,
	$$VALUES ('x1', 0.6, 0::float8, 0.6, 0.9), ('x2', 0.8, 1, -0.2, 0.1)$$, 'cosine: gkmeans_explain compares directions');
SELECT ok(bool_and(abs(total - 1) < 1e-12), 'the shares of gkmeans_explain add up to 1') FROM iris i, LATERAL (SELECT sum(share) FROM gkmeans_explain('m', i)) s(total);
SELECT is((SELECT array_agg(feature) FROM (SELECT feature FROM gkmeans_explain('m', 5.0, 3.4, 9.0, 0.2) LIMIT 1) f), '{c}', 'and the feature that is displaced comes first');
SELECT ok(bool_and(abs(value - centroid - difference) < 1e-12 AND share BETWEEN 0 AND 1), 'its columns') FROM gkmeans_explain('m', 5.0, 3.4, 9.0, 0.2);
SELECT is((SELECT round(value::numeric, 6) FROM gkmeans_explain('m', 5.0, 3.4, 9.0, 0.2) WHERE feature = 'b'), 3.4, 'the value is in the units of the feature');
-- What is called for each row keeps nothing of it until the query ends
CREATE FUNCTION kept_after(calls int, call text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE result bigint;
BEGIN
	EXECUTE format('WITH called AS MATERIALIZED (SELECT count(*) FROM generate_series(1, %s) i, LATERAL %s)
		SELECT (SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name = ''ExecutorState'') FROM called', calls, call) INTO result;
	RETURN result;
END $$;
SELECT cmp_ok(kept_after(3000, call) - kept_after(10, call), '<', 300000::bigint, 'no memory is kept by ' || call)
FROM unnest('{"gkmeans_nearest(''m'', 2, 5.1, 3.5, 1.4, i)","gkmeans_explain(''m'', 5.1, 3.5, 1.4, i)","gkmeans_clusters(''m'', i - i + 1)"}'::text[]) call;
CREATE TABLE coarse AS SELECT base, base + i % 4 AS x FROM unnest('{0,4503599627370496}'::bigint[]) base, generate_series(1, 800) i;
SELECT gkmeans_create_model(format('coarse_%s_%s', left(base::text, 1), scale), format('SELECT x FROM gk_test.coarse WHERE base = %s', base), '{x}', 2, scale => scale) FROM unnest('{0,4503599627370496}'::bigint[]) base, unnest('{none,standard}'::text[]) scale;
SELECT is(f.difference, n.difference, 'a difference does not go through the units, where doubles are as far apart as the rows: ' || scale)
FROM unnest('{none,standard}'::text[]) scale, gkmeans_explain(('coarse_4_' || scale)::regclass, 4503599627370497) f, gkmeans_explain(('coarse_0_' || scale)::regclass, 1) n;
SELECT ok(bool_and(s.cluster_id = l.cluster_id AND s.distance = l.distance AND s.second_distance >= s.distance AND s.second_cluster_id <> s.cluster_id
		AND abs(s.silhouette - (s.second_distance - s.distance) / s.second_distance) < 1e-15 AND s.name = 'cluster ' || l.cluster_id), 'gkmeans_score')
FROM iris i JOIN labels l USING (id), LATERAL gkmeans_score('m', i) s;
SELECT near(avg(silhouette), 0.6663855565, 1e-6, 'the mean of the silhouettes by row is the simplified silhouette') FROM iris i, LATERAL gkmeans_score('m', i) s;
SELECT near(avg(score), 1, 1e-6, 'the mean anomaly score of a cluster is 1') FROM (SELECT gkmeans_anomaly_score('m', i) AS score, gkmeans_predict('m', i) AS cluster_id FROM iris i) s WHERE cluster_id = 0;
SELECT ok(bool_and(abs(percentile - share) < 0.03), 'the percentile is the share of rows with a lower score')
FROM (SELECT gkmeans_anomaly_percentile('m', i) AS percentile, percent_rank() OVER (ORDER BY gkmeans_anomaly_score('m', i)) AS share FROM iris i) s;
CREATE TABLE thirds AS SELECT i % 3 AS x FROM generate_series(1, 1000) i;
SELECT gkmeans_create_model('tied', 'thirds', '{x}', 2);
SELECT ok(bool_and(abs(percentile - share) <= 0.05), 'the percentile of many equal scores')
FROM (SELECT gkmeans_anomaly_percentile('tied', t) AS percentile, percent_rank() OVER (ORDER BY gkmeans_anomaly_score('tied', t)) AS share FROM thirds t) s;
SELECT is(gkmeans_anomaly_percentile('m', 100, 100, 100, 100), 1::float8, 'a row that is farther than all');
SELECT gkmeans_create_model('spread', 'SELECT noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 20000) i', '{x,y}', 5);
SELECT ok(abs(count(*) / 20000.0 - 0.01) <= 1e-4, 'one row of a hundred has a percentile above 0.99') FROM generate_series(1, 20000) i WHERE gkmeans_anomaly_percentile('spread', noise(i, 1), noise(i, 2)) > 0.99;

-- Many centroids far from each other: which one is near can be told without looking at another
CREATE TABLE apart AS SELECT i AS id, (SELECT array_agg((1000 * noise(i, j))::real) FROM generate_series(1, 100) j) AS v FROM generate_series(1, 120) i;
SELECT gkmeans_import_model('apart_kinds', (SELECT array_agg(v::float8[] ORDER BY id) FROM apart));
CREATE TABLE near_them AS SELECT id, (SELECT array_agg((x + noise(id, j::int))::real ORDER BY j) FROM unnest(v) WITH ORDINALITY u(x, j)) AS v FROM apart;
SELECT is(count(*)::int, 120, 'the nearest of many centroids') FROM near_them WHERE gkmeans_predict('apart_kinds', v) = id - 1 AND gkmeans_predict_centroids(gkmeans_centroids('apart_kinds'), v::float8[]) = id - 1;
SELECT is(count(*)::int, 120, 'and its distance') FROM near_them WHERE gkmeans_distance('apart_kinds', v) = (gkmeans_transform('apart_kinds', v))[id];

-- MADlib's example: silhouettes by row of two given centroids
CREATE TABLE km_sample (id int, points float8[]);
INSERT INTO km_sample VALUES (1, '{14.23,1.71,2.43,15.6,127,2.8,3.06,0.28,2.29,5.64,1.04,3.92,1065}'), (2, '{13.2,1.78,2.14,11.2,1,2.65,2.76,0.26,1.28,4.38,1.05,3.49,1050}'),
	(3, '{13.16,2.36,2.67,18.6,101,2.8,3.24,0.3,2.81,5.6799,1.03,3.17,1185}'), (4, '{14.37,1.95,2.5,16.8,113,3.85,3.49,0.24,2.18,7.8,0.86,3.45,1480}'), (5, '{13.24,2.59,2.87,21,118,2.8,2.69,0.39,1.82,4.32,1.04,2.93,735}');
SELECT gkmeans_import_model('madlib', (SELECT ARRAY[(SELECT points FROM km_sample WHERE id = 4), (SELECT points FROM km_sample WHERE id = 5)]));
SELECT is((SELECT array_agg(s.cluster_id ORDER BY k.id) FROM km_sample k, LATERAL gkmeans_score('madlib', points) s), '{1,1,0,0,1}', 'given centroids');
SELECT ok(bool_and(s.silhouette > 1 - 1e-8), 'a row on its centroid has a silhouette of 1') FROM km_sample k, LATERAL gkmeans_score('madlib', points) s WHERE id >= 4;

-- Rows that cannot be scored
CREATE TABLE odd (id int, a float8, b float8, c float8, d float8, other text);
INSERT INTO odd VALUES (1, 5, NULL, 1, 0, NULL), (2, 5, 'NaN', 1, 0, NULL), (3, 5, 'Infinity', 1, 0, NULL), (4, 5, 1e39, 1, 0, NULL), (5, 5, 3, 1, 0, NULL);
SELECT is((SELECT array_agg(gkmeans_predict('m', o) ORDER BY id) FROM odd o), '{NULL,NULL,NULL,NULL,1}', 'NULL, NaN, infinite and too large are unusable; other columns do not matter');
SELECT is((SELECT array_agg(gkmeans_predict('m', a, b, c, d) ORDER BY id) FROM odd), '{NULL,NULL,NULL,NULL,1}', 'so as columns');
SELECT is((SELECT array_agg(gkmeans_predict('m', ARRAY[a, b, c, d]) ORDER BY id) FROM odd), '{NULL,NULL,NULL,NULL,1}', 'and as arrays');
SELECT is((SELECT array_agg(gkmeans_predict('m', ARRAY[a, b, c, d]::numeric[]) ORDER BY id) FROM odd WHERE id <> 3), '{NULL,NULL,NULL,1}', 'of numeric');
SELECT is((SELECT count(*)::int FROM odd o, LATERAL gkmeans_score('m', o) s WHERE s.cluster_id IS NULL AND s.name IS NULL AND s.distance IS NULL), 4, 'gkmeans_score gives a row of NULLs');
SELECT is((SELECT count(*)::int FROM odd o, LATERAL gkmeans_nearest('m', 1, o) s), 1, 'gkmeans_nearest none');
SELECT is(count(*)::int, 2, 'a row that is NULL') FROM iris i RIGHT JOIN generate_series(149, 151) n ON i.id = n, LATERAL gkmeans_score('m', i) s WHERE s.cluster_id IS NOT NULL;
SELECT is(gkmeans_predict('m', NULL::float8[]), NULL, 'an array that is NULL');
SELECT is(gkmeans_predict(NULL, 1, 2), NULL, 'no model');
SELECT is((SELECT row(s.*)::text FROM gkmeans_score(NULL, 1) s), '(,,,,,,,)', 'no model, as a row');
SELECT gkmeans_create_model('direction', 'iris', '{a,b}', 2, metric => 'cosine');
SELECT is(gkmeans_predict('direction', 0, 0), NULL, 'a row without direction');
SELECT gkmeans_import_model('steep', '{{0},{1}}', scale_offset => '{0}', scale_factor => '{1e30}');
SELECT is(gkmeans_predict('steep', 1e20), NULL, 'a row that is too large when scaled');

-- Errors
SELECT fails_with($$SELECT gkmeans_predict('m', 1, 2, 3)$$, '22000', 'too few features', '3 features given.* has 4', NULL, 'a, b, c, d');
SELECT fails_with($$SELECT gkmeans_predict('m', 1)$$, '22000', 'one feature', '1 feature given');
SELECT fails_with($$SELECT gkmeans_predict('m', ARRAY[1, 2, 3])$$, '22000', 'an array that is too short');
SELECT fails_with($$SELECT gkmeans_predict('m', '{}'::float8[])$$, '22000', 'an empty array');
SELECT fails_with($$SELECT gkmeans_predict('m', '{{1,2},{3,4}}'::float8[])$$, '22000', 'an array of arrays');
SELECT fails_with($$SELECT gkmeans_predict('m', array_fill(1::real, '{100000}'))$$, '22000', 'an array that is much too long');
SELECT fails_with($$SELECT gkmeans_predict('m', r) FROM (SELECT 1 AS a, 2 AS b, 3 AS c) r$$, '42703', 'a row without a column', 'no column "d"', NULL, 'a, b, c, d');
SELECT fails_with($$SELECT gkmeans_predict('m', r) FROM (SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS d) r$$, '42702', 'a row with two columns of the name');
SELECT fails_with($$SELECT gkmeans_predict('m', r) FROM (SELECT 1 AS a, 2 AS b, 'x' AS c, 4 AS d) r$$, '42804', 'a column that is no number');
SELECT fails_with($$SELECT gkmeans_predict('m', r) FROM (SELECT 1 AS a, 2 AS b, '{1}'::int[] AS c, 4 AS d) r$$, '42804', 'a column that is an array');
SELECT gkmeans_import_model('numbered', '{{1,10},{20,2}}', '{f1,f2}'), gkmeans_import_model('crossed', '{{1,10},{20,2}}', '{f2,f1}');
SELECT is(gkmeans_transform('numbered', r)::text, '{19,8}', 'a subquery whose columns are called f1 and f2') FROM (SELECT 20.0 AS f1, 10 AS f2 OFFSET 0) r;
SELECT fails_with(format($$SELECT gkmeans_predict(%L, ROW(20%s))$$, model, rest), '22023', format('a record without names: %s, %s', model, rest), NULL, NULL, 'alias') FROM (VALUES ('crossed', ', 10'), ('numbered', ', 10, 5'), ('numbered', '')) v(model, rest);
SELECT fails_with($$SELECT gkmeans_predict('m', ROW(1, 2, 3, 4))$$, '22023', 'a record without names', NULL, NULL, 'alias');
SELECT fails_with($$SELECT gkmeans_predict('m', '{1,2,3,4}'::text)$$, '42804', 'a text', 'argument 2 is of type text', NULL, 'Cast it to float8\[]');
SELECT is(gkmeans_predict('m', '{5.1,3.5,1.4,0.2}'::text::float8[]), gkmeans_predict('m', 5.1, 3.5, 1.4, 0.2), 'which helps');
SELECT fails_with($$SELECT gkmeans_predict('m', 1, 2, 3, 'x'::text)$$, '42804', 'a text among numbers', 'argument 5');
SELECT fails_with($$SELECT gkmeans_predict('m', 1, 2, 3, '4')$$, '42804', 'a number in quotes', 'argument 5 is of type unknown', NULL, 'cast it to float8');
SELECT ok(gkmeans_score('m', 1, NULL, 3, NULL) IS NULL AND gkmeans_predict('m', 1, NULL, 3, 4) IS NULL, 'a NULL without a type');
SELECT fails_with($$SELECT gkmeans_score('m', 1, NULL, '3', 4)$$, '42804', 'beside a number in quotes', 'argument 4 is of type unknown');
SELECT fails_with($$SELECT gkmeans_score('m', 1, NULL, 3)$$, '22000', 'among too few numbers', '3 features given, the model has 4');
SELECT fails_with($$SELECT gkmeans_predict('m', '{"a": 1}'::jsonb)$$, '42804', 'a jsonb');
SELECT fails_with($$SELECT gkmeans_predict('m', '{1,2')$$, '22P02', 'a literal that is no array');
SELECT fails_with($$SELECT gkmeans_predict('iris', 1)$$, '42809', 'a table that is no model', 'not a gkmeans model');
SELECT fails_with($$SELECT gkmeans_predict('no_such', 1)$$, '42P01', 'no table');
SELECT fails_with($$SELECT gkmeans_predict(4000000000, 1)$$, '42P01', 'an OID of nothing');
SELECT fails_with($$SELECT gkmeans_predict('pg_class', 1)$$, '42809', 'a catalog');
CREATE VIEW model_view AS TABLE m;
SELECT fails_with($$SELECT gkmeans_predict('model_view', 1)$$, '42809', 'a view of a model');
CREATE TABLE empty OF gkmeans_model;
SELECT fails_with($$SELECT gkmeans_predict('empty', 1)$$, '55000', 'no version at all', NULL, NULL, 'Make one with gkmeans_create_model');
SELECT gkmeans_import_model('withdrawn', '{{1}}');
UPDATE withdrawn SET deployed = NULL;
SELECT fails_with($$SELECT gkmeans_predict('withdrawn', 1)$$, '55000', 'no deployed version', NULL, NULL, 'Deploy one with gkmeans_deploy');

-- Types: domains, rows of composite types, jsonb_to_record, every number
CREATE DOMAIN positive AS float8 CHECK (VALUE >= 0);
CREATE TYPE flower AS (d real, c numeric, b int, a bigint);
CREATE DOMAIN some_flower AS flower;
SELECT is(gkmeans_predict('m', 5::positive, 3::smallint, 1::numeric, 0::bigint), 1, 'numbers of all types');
SELECT is(gkmeans_predict('m', '(0,1,3,5)'::flower), 1, 'a composite type');
SELECT is(gkmeans_predict('m', '(0,1,3,5)'::some_flower), 1, 'a domain over one');
SELECT is((SELECT gkmeans_predict('m', r) FROM jsonb_to_record('{"a": 5, "b": 3, "c": 1, "d": 0}') AS r(a float8, b float8, c float8, d float8)), 1, 'jsonb_to_record');
SELECT is((SELECT count(*)::int FROM (SELECT gkmeans_predict('m', r) AS p FROM (SELECT * FROM iris WHERE id <= 20 ORDER BY id) r) s WHERE p = 1), 20, 'a subquery');
ALTER TABLE iris DROP COLUMN id;
ALTER TABLE iris ADD COLUMN e int DEFAULT 3;
SELECT is((SELECT count(*)::int FROM iris i WHERE gkmeans_predict('m', i) = 1), 50, 'a table with a dropped column and one added');
SELECT is((SELECT array_agg(gkmeans_predict(model, 5, 3, 1, 0)) FROM unnest('{m,m}'::regclass[]) model), '{1,1}', 'the model is a value');
SELECT is((SELECT array_agg(gkmeans_predict(model, f) ORDER BY n) FROM unnest('{m,spread,m,spread}'::text[]) WITH ORDINALITY u(model, n), LATERAL (SELECT 5 AS a, 3 AS b, 1 AS c, 0 AS d, 0.5 AS x, 0.5 AS y) f),
	(SELECT ARRAY[1, s, 1, s] FROM gkmeans_predict('spread', 0.5, 0.5) s), 'another one in every row');

-- Types that are altered in the statement while older rows wait to be scored: after the first of them, or before
CREATE TYPE waiting AS (other int, x float8, y float8);
SELECT gkmeans_import_model('waited', '{{1,0},{3,3},{0,1}}', features => '{x,y}');
CREATE FUNCTION alter_at(i int, place int, alteration text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF i = place THEN EXECUTE 'ALTER TYPE waiting ' || replace(alteration, ';', '; ALTER TYPE waiting'); END IF;
	RETURN i;
END $$;
CREATE FUNCTION altered(call text, alteration text, is_early boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	EXECUTE format('SELECT count(s), count(alter_at(i, %1$s, %3$L)) FROM (SELECT ROW(1, 5.408927614e-315, 0)::waiting AS r, alter_at(i, %2$s, %3$L) AS i FROM generate_series(1, 9) i ORDER BY 2) q, LATERAL %4$s s',
		CASE WHEN is_early THEN 0 ELSE 5 END, CASE WHEN is_early THEN 5 ELSE 0 END, alteration, call);
	RAISE EXCEPTION 'no error';
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT is(altered(call, 'ALTER ATTRIBUTE x TYPE numeric', is_early), '55000 type waiting was altered while its rows were being scored', call || CASE WHEN is_early THEN ', before the first row' ELSE '' END)
FROM unnest('{"gkmeans_predict(''waited'', r)","gkmeans_predict_version(''waited'', 1, r)","gkmeans_distance(''waited'', r)","gkmeans_transform(''waited'', r)","gkmeans_name(''waited'', r)","gkmeans_anomaly_score(''waited'', r)","gkmeans_anomaly_percentile(''waited'', r)","gkmeans_nearest(''waited'', 1, r)","gkmeans_explain(''waited'', r)","gkmeans_score(''waited'', r)","gkmeans_predict_with((SELECT gkmeans_export(''waited'')::jsonb), r)"}'::text[]) call, unnest('{false,true}'::boolean[]) is_early;
SELECT is(altered('gkmeans_predict(''waited'', r)', alteration, is_early), result, alteration || CASE WHEN is_early THEN ', before the first row' ELSE '' END)
FROM (VALUES ('ALTER ATTRIBUTE other TYPE text', '55000 type waiting was altered while its rows were being scored'),
	('RENAME ATTRIBUTE x TO z; RENAME ATTRIBUTE y TO x; RENAME ATTRIBUTE z TO y', '55000 type waiting was altered while its rows were being scored'),
	('ALTER ATTRIBUTE other TYPE text; DROP ATTRIBUTE other', '55000 type waiting was altered while its rows were being scored'),
	('DROP ATTRIBUTE x, ADD ATTRIBUTE x numeric', 'P0001 no error'), ('DROP ATTRIBUTE other', 'P0001 no error'), ('ADD ATTRIBUTE z text', 'P0001 no error'), ('OWNER TO CURRENT_USER', 'P0001 no error')) alterations (alteration, result), unnest('{false,true}'::boolean[]) is_early;
CREATE FUNCTION all_waiting() RETURNS SETOF waiting LANGUAGE sql VOLATILE AS $$ SELECT 5, 5.408927614e-315, 0 FROM generate_series(1, 9) i $$;
SELECT fails_with($$SELECT gkmeans_predict('waited', w), alter_at(w.other, 5, 'ALTER ATTRIBUTE x TYPE numeric') FROM all_waiting() w$$, '55000', 'rows of a function', 'type waiting was altered while its rows were being scored');
-- Rows that are older than the snapshot, or of a function while a cursor has the table open: refused by the server (22P07) or by gkmeans
CREATE FUNCTION refuses_old(query text, name text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	EXECUTE query;
	RETURN fail(name);
EXCEPTION WHEN OTHERS THEN RETURN ok(SQLSTATE IN ('22P07', '55000', 'XX001'), name || ': ' || SQLSTATE || ' ' || SQLERRM);
END $$;
CREATE FUNCTION alter_first(w waiting) RETURNS int LANGUAGE sql VOLATILE AS $$
	ALTER TYPE waiting ALTER ATTRIBUTE x TYPE numeric;
	SELECT gkmeans_predict('waited', w) $$;
SELECT refuses_old(format('SELECT alter_first(ROW(1, %s, 0))', x), 'an argument, ' || x) FROM unnest('{5.408927614e-315,2261634.5097962623,0}'::float8[]) x;
CREATE FUNCTION alter_beside(w anyarray, alteration text, model text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	EXECUTE format('ALTER TYPE %s %s', pg_typeof(w[1]), alteration);
	RETURN (SELECT gkmeans_predict(model, w[1]));
END $$;
SELECT refuses_old(format($$SELECT alter_beside(ARRAY[ROW(%s, %s, 0)]::waiting[], 'ALTER ATTRIBUTE %s', 'waited')$$, other, x, alteration), 'an array, ' || x || ', ' || alteration)
FROM (VALUES (1, 5.408927614e-315, 'x TYPE numeric'), (1, 2261634.5097962623, 'x TYPE numeric'), (1, 0, 'x TYPE numeric'),
	(1, 0, 'other TYPE name'), (1, 0, 'other TYPE text'), (1000000, 0, 'other TYPE text'), (4, 0, 'other TYPE text'), (514, 0, 'other TYPE text')) altered_rows (other, x, alteration);
CREATE TYPE waiting_integers AS (x int, y int);
SELECT gkmeans_import_model('of_integers', '{{1,0},{3,3}}', features => '{x,y}');
CREATE FUNCTION score_assigned() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	waits waiting_integers[] := ARRAY[ROW(2130706432, 1), ROW(80, 2)];
	assigned waiting_integers;
BEGIN
	EXECUTE 'ALTER TYPE waiting_integers ALTER ATTRIBUTE x TYPE numeric';
	assigned := waits[1];
	RETURN (SELECT gkmeans_predict('of_integers', assigned));
END $$;
SELECT refuses_old('SELECT score_assigned()', 'an element that is assigned to a record');
-- numbers without digits, and arrays that say that they have more elements than they have
CREATE TYPE bytes AS (v bytea);
SELECT gkmeans_import_model('of_bytes', '{{1},{3}}', features => '{v}');
SELECT FROM gkmeans_create_model('of_arrays', 'SELECT ARRAY[i, 0, i * i, 1]::float8[] AS v FROM generate_series(1, 9) i', '{v}', 2);
SELECT refuses_old(format($$SELECT alter_beside(ARRAY[ROW(%L)]::bytes[], 'ALTER ATTRIBUTE v TYPE numeric', 'of_bytes')$$, v), 'bytes of a number, ' || v) FROM unnest(ARRAY['\x', '\x01', '\x0101']) v;
SELECT refuses_old(format($$SELECT alter_beside(ARRAY[ROW(%L)]::bytes[], 'ALTER ATTRIBUTE v TYPE %s[]', 'of_arrays')$$, '\x01000000' || start || element || count || '01000000' || more, type), concat_ws(' ', 'bytes of an array:', type, start, count, more))
FROM (VALUES ('float8', 'bd020000'), ('numeric', 'a4060000')) types (type, element), unnest('{00000000,1c000000,ffffff7f}'::text[]) start, unnest('{04000000,ffffffff}'::text[]) count, unnest(ARRAY['', 'ff0101', repeat('ff', 29)]) more;
CREATE TABLE kept (x float8, y float8, id int);
INSERT INTO kept VALUES (1, 1, 1);
CREATE FUNCTION all_kept() RETURNS SETOF kept LANGUAGE sql VOLATILE AS $$ SELECT 2261634.5097962623::float8, 0::float8, i FROM generate_series(1, 9) i $$;
CREATE FUNCTION alter_kept(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	beside refcursor;
	seen record;
BEGIN
	IF i = 4 THEN
		ALTER TABLE kept ALTER x TYPE numeric;
		OPEN beside FOR EXECUTE 'SELECT * FROM kept';
		FETCH beside INTO seen;
	END IF;
	RETURN i;
END $$;
SELECT refuses_old($$SELECT gkmeans_predict('waited', k), alter_kept(k.id) FROM all_kept() k$$, 'rows of a function while a cursor is open');
-- Tables that are altered may score their rows
CREATE TABLE scored (x float8, y float8, CHECK (gkmeans_predict('waited', scored) = 1));
INSERT INTO scored SELECT 3, i FROM generate_series(2, 9) i;
SELECT format('CREATE INDEX ON scored (gkmeans_predict_with(%L::jsonb, scored))', gkmeans_export('waited')) AS create_index \gset
:create_index;
CREATE FUNCTION cluster_of(s scored) RETURNS int LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$ SELECT gkmeans_predict('waited', s) $$;
CREATE INDEX ON scored (cluster_of(scored));
ALTER TABLE scored ALTER x TYPE numeric, ADD z int DEFAULT 3;
SELECT is(count(*), 8::bigint, 'a table that is altered scores its rows') FROM scored s WHERE gkmeans_predict('waited', s) = 1;

-- Arrays of every type of number: elements that are NULL or no number, and wrong counts of them
CREATE TABLE corners AS SELECT i AS id, ARRAY[i & 1, i >> 1 & 1, i >> 2 & 1] AS v FROM generate_series(0, 7) i;
SELECT gkmeans_import_model('corner', ARRAY(SELECT v::float8[] FROM corners ORDER BY id));
CREATE FUNCTION scores_arrays(type text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	form text;
	odd text;
	count int;
	value int;
BEGIN
	FOREACH form IN ARRAY '{"v::%s","VARIADIC v::%s"}'::text[] LOOP
		EXECUTE format('SELECT count(*) FROM corners WHERE gkmeans_predict(''corner'', %s) = id', format(form, type)) INTO count;
		RETURN NEXT is(count, 8, format(form, type));
	END LOOP;
	EXECUTE format('SELECT count(*) FROM corners, (SELECT gkmeans_export(''corner'')::jsonb AS e OFFSET 0) e WHERE gkmeans_predict_with(e, v::%s) = id', type) INTO count;
	RETURN NEXT is(count, 8, 'gkmeans_predict_with, ' || type);
	EXECUTE format('SELECT gkmeans_predict(''corner'', ''{1,NULL,0}''::%s)', type) INTO value;
	RETURN NEXT is(value, NULL, 'an element that is NULL, ' || type);
	EXECUTE format('SELECT gkmeans_predict(''corner'', NULL::%s)', type) INTO value;
	RETURN NEXT is(value, NULL, 'an array that is NULL, ' || type);
	EXECUTE format('SELECT gkmeans_predict(''corner'', ''[5:7]={1,1,0}''::%s)', type) INTO value;
	RETURN NEXT is(value, 3, 'other subscripts, ' || type);
	FOREACH odd IN ARRAY '{"{}","{1}","{1,0}","{1,0,1,0}","{NULL}","{NULL,NULL,NULL,NULL}","{{1,0,1}}","{{1},{0},{1}}"}'::text[] LOOP
		RETURN NEXT fails_with(format('SELECT gkmeans_predict(''corner'', %L::%s)', odd, type), '22000', odd || ', ' || type);
	END LOOP;
	FOREACH odd IN ARRAY CASE WHEN type IN ('float8[]', 'numeric[]') THEN '{NaN,Infinity,-Infinity,1e39,-4e38}' WHEN type = 'real[]' THEN '{NaN,Infinity,-Infinity}' ELSE '{}' END::text[] LOOP
		EXECUTE format('SELECT gkmeans_predict(''corner'', ARRAY[0, 1, %L]::%s)', odd, type) INTO value;
		RETURN NEXT is(value, NULL, odd || ', ' || type);
	END LOOP;
END $$;
SELECT scores_arrays(type) FROM unnest('{smallint[],int[],bigint[],real[],float8[],numeric[]}'::text[]) type;
SELECT is((SELECT count(*)::int FROM corners WHERE gkmeans_predict('corner', ARRAY[v[1] = 1, v[2] = 1, v[3] = 1]) = id), 8, 'boolean[]');
SELECT is(gkmeans_predict('corner', ARRAY[true, NULL, false]), NULL, 'an element that is NULL, boolean[]');
SELECT is((SELECT count(*)::int FROM corners WHERE gkmeans_predict('corner', v[1]::smallint, v[2]::numeric, v[3] = 1) = id), 8, 'numbers and a boolean');

-- Many centroids: floats tell first which of them can be the nearest, and the definition decides
CREATE TABLE distant AS SELECT i AS id, ARRAY(SELECT (scale * noise(i, 7 * j) + CASE kind WHEN 'far' THEN 1e6 WHEN 'lattice' THEN 0 ELSE 1 END)::real FROM generate_series(1, 33) j) AS v, kind
	FROM (VALUES ('plain', 1.0), ('far', 1e-3), ('large', 1e15), ('small', 1e-20)) k(kind, scale), generate_series(1, 150) i;
CREATE FUNCTION agrees_with_definition(kind text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	centroids float8[] := ARRAY(SELECT d.v::float8[] FROM distant d, generate_series(1, 2) WHERE d.kind = agrees_with_definition.kind ORDER BY d.id);
BEGIN
	PERFORM gkmeans_import_model('many_centroids', centroids, if_exists => 'replace');
	RETURN NEXT is((SELECT count(*)::int FROM distant WHERE gkmeans_predict('many_centroids', v) = gkmeans_predict_centroids(centroids, v::float8[])), (SELECT count(*)::int FROM distant),
		'300 centroids of 33 features, each twice: ' || kind);
	RETURN NEXT is((SELECT count(*)::int FROM distant a, distant b, LATERAL (SELECT ARRAY(SELECT ((x + y) / 2)::real FROM unnest(a.v, b.v) u(x, y)) AS v) middle
			WHERE a.kind = agrees_with_definition.kind AND b.kind = a.kind AND a.id < 20 AND b.id = a.id + 30 AND gkmeans_predict('many_centroids', middle.v) = gkmeans_predict_centroids(centroids, middle.v::float8[])), 19, 'half way between two of them: ' || kind);
	RETURN NEXT is((SELECT count(*)::int FROM distant d, gkmeans_predict_with(gkmeans_export('many_centroids')::jsonb, d.v) p WHERE d.kind = agrees_with_definition.kind AND p = gkmeans_predict('many_centroids', d.v)), 150, 'exported: ' || kind);
END $$;
SELECT agrees_with_definition(kind) FROM unnest('{plain,far,large,small}'::text[]) kind;

-- The cache of the session; from 18 on a path of numbers tells what a context is in
CREATE VIEW cached AS WITH contexts AS MATERIALIZED (SELECT to_jsonb(m) AS c FROM pg_backend_memory_contexts m)
	SELECT (c->>'total_bytes')::bigint AS total_bytes FROM contexts WHERE c->>'name' = 'gkmeans model' AND (c->>'parent' = 'CacheMemoryContext' OR
		c->'path'->-2 = (SELECT c->'path'->-1 FROM contexts WHERE c->>'name' = 'CacheMemoryContext'));
SET LOCAL gkmeans.model_cache_size = 0;
SELECT is(gkmeans_predict('m', 5, 3, 1, 0), 1, 'without a cache');
SELECT is((SELECT count(*)::int FROM cached), 0, 'no model is kept');
SET LOCAL gkmeans.model_cache_size = '1MB';
SELECT gkmeans_import_model('wide_' || i, ARRAY(SELECT ARRAY(SELECT noise(j, i) FROM generate_series(1, 500) j) FROM generate_series(1, 100)), if_exists => 'error') FROM generate_series(1, 6) i;
SELECT is(count(gkmeans_predict(('wide_' || i)::regclass, array_fill(0.5, '{500}')))::int, 6, 'models larger than the cache') FROM generate_series(1, 6) i;
SELECT ok(sum(total_bytes) BETWEEN 1 AND 1024 * 1024, 'the cache keeps to its size, and keeps something') FROM cached;

RESET gkmeans.model_cache_size;

-- In a plan of parallel workers, in expressions of PL/pgSQL, in generated columns of a view, in a trigger
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
CREATE TABLE many AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 20000) i;
ANALYZE many;
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END $$;
SELECT matches(string_agg(line, E'\n'), 'Gather', 'scoring runs in parallel workers') FROM plan_of($$SELECT gkmeans_predict('spread', m), count(*) FROM many m GROUP BY 1$$) line;
CREATE TABLE parallel_result AS SELECT gkmeans_predict('spread', m) AS cluster_id, count(*) AS size FROM many m GROUP BY 1;
SELECT set_eq('SELECT * FROM parallel_result', $$SELECT cluster_id, size FROM gkmeans_clusters('spread')$$, 'and gives the sizes of the clusters');
CREATE TABLE arriving (x float8, y float8, cluster_id int);
CREATE FUNCTION label() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.cluster_id := gkmeans_predict('spread', NEW); RETURN NEW; END $$;
CREATE TRIGGER label BEFORE INSERT ON arriving FOR EACH ROW EXECUTE FUNCTION label();
INSERT INTO arriving SELECT x, y FROM many WHERE id <= 100;
SELECT is((SELECT count(*)::int FROM arriving a WHERE cluster_id = gkmeans_predict('spread', a)), 100, 'a trigger that labels rows');

-- Never stale: in one expression of PL/pgSQL, and after a savepoint is rolled back
CREATE FUNCTION follow() RETURNS text LANGUAGE plpgsql AS $$
DECLARE seen text := '';
BEGIN
	FOR i IN 1 .. 3 LOOP
		PERFORM gkmeans_import_model('moving', ARRAY[[0.0], [i * 10.0]], if_exists => 'replace');
		seen := seen || gkmeans_distance('moving', 30) || ' ';
		BEGIN
			PERFORM gkmeans_import_model('moving', '{{29}}', if_exists => 'replace');
			seen := seen || gkmeans_distance('moving', 30) || ' ';
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
		seen := seen || gkmeans_distance('moving', 30) || ', ';
	END LOOP;
	UPDATE moving SET deployed = NULL WHERE deployed;
	UPDATE moving SET deployed = true WHERE version = 1;
	seen := seen || gkmeans_distance('moving', 30);
	RETURN seen;
END $$;
SELECT is(follow(), '20 1 20, 10 1 10, 0 1 0, 20', 'each expression sees the version that is deployed');

-- A variable of PL/pgSQL keeps the columns that it was made by
CREATE FUNCTION keep_waiting() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kept waiting := ROW(1, 3, 3);
	seen text := '';
BEGIN
	FOR i IN 1 .. 3 LOOP
		seen := seen || gkmeans_predict('waited', kept);
		IF i = 1 THEN ALTER TYPE waiting ALTER ATTRIBUTE x TYPE numeric; END IF;
		IF i = 2 THEN kept := ROW(1, 0, 1); END IF;
	END LOOP;
	RETURN seen;
END $$;
SELECT is(keep_waiting(), '112', 'a variable that is older than its type');

-- Rows of two types in turn: what is known of a type is freed with the next one
CREATE TYPE one_way AS (x float8, y float8);
CREATE TYPE other_way AS (y float8, x float8);
CREATE FUNCTION in_turn(i int) RETURNS record LANGUAGE plpgsql AS $$ BEGIN
	IF i % 2 = 0 THEN RETURN (i, 1)::one_way; ELSE RETURN (1, i)::other_way; END IF;
END $$;
CREATE FUNCTION scorer_bytes(i int) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN
	RETURN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('gkmeans scorer', 'gkmeans fields'));
END $$;
CREATE TEMP TABLE turns AS SELECT i, gkmeans_predict('spread', in_turn(i)) AS cluster_id, CASE WHEN i % 1000 = 0 THEN scorer_bytes(i) END AS bytes FROM generate_series(1, 3000) i;
SELECT is((SELECT count(*) FROM turns WHERE cluster_id IS DISTINCT FROM gkmeans_predict('spread', i::float8, 1::float8)), 0::bigint, 'rows of two types in turn');
SELECT is((SELECT count(DISTINCT bytes) FROM turns WHERE bytes > 0), 1::bigint, 'their memory does not grow');
SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
