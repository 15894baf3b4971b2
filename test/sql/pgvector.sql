-- vector and halfvec of pgvector, where that extension is installed.
\ir helpers.psql

SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS available \gset
\if :available
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
CREATE TABLE data AS
	SELECT i AS id, ARRAY[(i % 3) * 16 + noise(i, 1), (i % 3) * 16 + noise(i, 2), noise(i, 3)]::real[] AS v FROM generate_series(1, 600) i;
CREATE TABLE vectors AS SELECT id, v::vector AS v, v::vector(3) AS fixed FROM data;
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('vectors', '{v}', 3)$$), fingerprint($$SELECT * FROM gkmeans_fit('data', '{v}', 3)$$), 'vector, as real[]');
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('vectors', '{fixed}', 3)$$), fingerprint($$SELECT * FROM gkmeans_fit('data', '{v}', 3)$$), 'vector(3)');
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'vectors', '{v}', 3, id_column => 'id') ORDER BY id$$),
	fingerprint($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{v}', 3, id_column => 'id') ORDER BY id$$), 'labels of vectors');
SELECT is((SELECT cardinality(centroid) FROM gkmeans_fit('SELECT id, v FROM vectors', NULL, 1, id_column => 'id')), 3, 'the one vector column, found by itself');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT unnest(ARRAY[''[1,2,3]'', ''[1,2]'']::vector[]) AS v', '{v}', 1)$$, '22000', 'vectors of different length', NULL, 'has 2 elements, expected 3');
SELECT is((SELECT (rows_read, rows_skipped)::text FROM (SELECT count(*) FROM gkmeans_fit('SELECT unnest(ARRAY[''[1,2]'', NULL, ''[3,4]'']::vector[]) AS v', '{v}', 1)) f, gkmeans_last_fit()), '(3,1)', 'NULL vectors are left out');
ALTER TABLE vectors ALTER v SET STORAGE EXTERNAL;
CREATE TABLE wide AS SELECT i AS id, ARRAY(SELECT (i % 3 * 10 + noise(i, f))::real FROM generate_series(1, 1500) f)::vector AS v FROM generate_series(1, 60) i;
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit('wide', '{v}', 3)), '{20,20,20}', 'toasted vectors');
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0;
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('vectors', '{v}', 3)$$), fingerprint($$SELECT * FROM gkmeans_fit('data', '{v}', 3)$$), 'vectors, with workers');

-- The HINT for a vector beside other features
CREATE TABLE beside AS SELECT '[0.5,2]'::vector AS v, '[3]'::vector AS u, '{t,f}'::boolean[] AS flags, 1700000001::float8 AS epoch, 16777217 AS n;
SELECT is(joined_by_hint('beside', features::text[]), joined::float8[], features) FROM (VALUES ('{v,epoch,n}', '{0.5,2,1700000001,16777217}'), ('{n,v}', '{16777217,0.5,2}'), ('{v,u}', '{0.5,2,3}'),
	('{v,flags}', '{0.5,2,1,0}'), ('{flags,v,epoch,u}', '{1,0,0.5,2,1700000001,3}')) AS f(features, joined);

-- Scoring: labels and distances of the fit, as a row and as a vector
CREATE FUNCTION scores_as_fitted(source text, form text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE result bigint;
BEGIN
	EXECUTE format('SELECT FROM gkmeans_create_model(''fitted'', %L, ''{v}'', 3)', source);
	EXECUTE format('CREATE TEMP TABLE labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, %L, ''{v}'', 3, id_column => ''id'')', source);
	EXECUTE format('SELECT count(*) FROM labels JOIN (%s) t USING (id) WHERE gkmeans_predict(''fitted'', %s) = cluster_id AND gkmeans_distance(''fitted'', %s) = distance', source, form, form) INTO result;
	RETURN NEXT is(result, 600::bigint, format('%s of %s', form, source));
	DROP TABLE labels, fitted;
END $$;
SELECT scores_as_fitted('SELECT id, v FROM vectors', form) FROM unnest('{t,v,v::vector(3),v::real[],v::real[]::float8[]}'::text[]) form;
SELECT scores_as_fitted('SELECT id, fixed AS v FROM vectors', form) FROM unnest('{t,v}'::text[]) form;
SELECT gkmeans_create_model('kinds', 'vectors', '{v}', 3);
SELECT is((SELECT count(*)::int FROM vectors, (SELECT gkmeans_export('kinds')::jsonb AS e OFFSET 0) e WHERE gkmeans_predict_with(e, v) = gkmeans_predict('kinds', v)), 600, 'vector, exported');
SELECT is((SELECT count(*)::int FROM vectors t, LATERAL gkmeans_score('kinds', t) s WHERE s.cluster_id = gkmeans_predict('kinds', v)), 600, 'gkmeans_score of a row with a vector');
SELECT is(gkmeans_predict('kinds', NULL::vector), NULL, 'a vector that is NULL');
SELECT is(gkmeans_predict('kinds', t), NULL, 'a row with a vector that is NULL') FROM (SELECT NULL::vector AS v) t;
SELECT fails_with($$SELECT gkmeans_predict('kinds', '[1,2]'::vector)$$, '22000', 'a vector that is too short', '2 features given.* has 3');
SELECT fails_with($$SELECT gkmeans_predict('kinds', '[1,2,3,4]'::vector)$$, '22000', 'a vector that is too long', '4 features given.* has 3');
SELECT fails_with($$SELECT gkmeans_predict('kinds', '[1]'::vector, '[2]'::vector, '[3]'::vector)$$, '42804', 'vectors for numbers');
SELECT is(gkmeans_import_model('topics', (SELECT array_agg(v::real[]::float8[] ORDER BY id) FROM (SELECT * FROM wide ORDER BY id LIMIT 40) w), if_exists => 'replace'), 40, 'a model of vectors');
SELECT is((SELECT count(*)::int FROM wide WHERE gkmeans_predict('topics', v) = gkmeans_predict_centroids(gkmeans_centroids('topics'), v::real[]::float8[])), 60, 'toasted vectors, many centroids');

-- since pgvector 0.7
SELECT to_regtype('halfvec') IS NOT NULL AS has_halfvec \gset
\if :has_halfvec
CREATE TABLE halves AS SELECT id, v::halfvec AS h FROM vectors;
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('halves', '{h}', 3)$$), fingerprint($$SELECT * FROM gkmeans_fit('SELECT h::vector::real[] AS v FROM halves', '{v}', 3)$$),
	'halfvec, as its real[]');
SELECT is(array_agg(centroid[1] ORDER BY centroid[1])::text, '{-65504,0,6.103515625e-05,65504}', 'halfvec: its greatest numbers')
FROM gkmeans_fit('SELECT unnest(ARRAY[''[65504]'', ''[-65504]'', ''[0]'', ''[6.103515625e-05]'']::halfvec[]) AS h', '{h}', 4);
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT unnest(ARRAY[''[5.9604645e-08]'', ''[-0]'', ''[0.00006]'']::halfvec[]) AS h', '{h}', 3)), 3, 'halfvec: denormal numbers');
ALTER TABLE beside ADD h halfvec DEFAULT '[0.25,4]';
SELECT is(joined_by_hint('beside', features::text[]), joined::float8[], features) FROM (VALUES ('{h,n}', '{0.25,4,16777217}'), ('{h,v}', '{0.25,4,0.5,2}'), ('{flags,h}', '{1,0,0.25,4}')) AS f(features, joined);
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT unnest(ARRAY[''[1,2,3]'', ''[1,2]'']::halfvec[]) AS v', '{v}', 1)$$, '22000', 'halfvecs of different length', NULL, 'has 2 elements, expected 3');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT ''{1:1}/3''::sparsevec AS v', '{v}', 1)$$, '42804', 'sparsevec is not supported');
SELECT scores_as_fitted('SELECT id, h AS v FROM halves', form) FROM unnest('{t,v,v::halfvec(3),v::vector,v::vector::real[]}'::text[]) form;
SELECT is(gkmeans_predict('kinds', NULL::halfvec), NULL, 'a halfvec that is NULL');
SELECT fails_with($$SELECT gkmeans_predict('kinds', '[1,2]'::halfvec)$$, '22000', 'a halfvec that is too short', '2 features given.* has 3');
SELECT fails_with($$SELECT gkmeans_predict('kinds', '{1:1}/3'::sparsevec)$$, '42804', 'a sparsevec');
\endif
\else
SELECT skip('pgvector is not installed', 1);
\endif

SELECT * FROM finish();
ROLLBACK;
