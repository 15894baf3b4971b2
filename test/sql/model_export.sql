-- Predictions without the table: gkmeans_export, gkmeans_predict_with, gkmeans_predict_centroids.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[4]::float8 AS c, f[5]::float8 AS d, ARRAY[f[2], f[3]]::real[] AS v FROM csv_lines(:'iris') f;
SET LOCAL client_min_messages = error;
CREATE FUNCTION agrees(source text, features text, form text, arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text := format('%s, %s', form, arguments);
	result bigint;
BEGIN
	EXECUTE format('SELECT FROM gkmeans_create_model(''model'', %L, %L, 5, %s)', source, features, arguments);
	EXECUTE format('SELECT count(*) FROM (%s) t, (SELECT gkmeans_export(''model'')::jsonb AS e OFFSET 0) e WHERE gkmeans_predict_with(e, %s) = gkmeans_predict(''model'', %s)', source, form, form) INTO result;
	DROP TABLE model;
	RETURN is(result, 150::bigint, name);
END $$;
SELECT agrees('SELECT id, a + 1e6 AS a, b, c * 1e9 AS c, d FROM iris', '{a,b,c,d}', form, format('scale => %L, metric => %L', scale, metric))
FROM unnest('{t,"a, b, c, d"}'::text[]) form, unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SELECT agrees('SELECT v FROM iris', '{v}', form, 'initial_centroids => ''{{5,3},{4,3},{100,100},{6,3},{7,3}}'', max_iter => 1') FROM unnest('{t,v,v[1]\,v[2]}'::text[]) form;
SET LOCAL client_min_messages = warning;

-- Where only an immutable function may stand
SELECT gkmeans_create_model('m', 'iris', '{a,b,c,d}', 3);
SELECT gkmeans_name_clusters('m', ARRAY['x', NULL, 'y "z"']);
SELECT gkmeans_export('m') AS exported \gset
SELECT is(:'exported'::jsonb ->> 'names', '["x", null, "y \"z\""]', 'names are exported');
CREATE TABLE generated (a float8, b float8, c float8, d float8, cluster_id int GENERATED ALWAYS AS (gkmeans_predict_with(:'exported', a, b, c, d)) STORED);
INSERT INTO generated SELECT a, b, c, d FROM iris;
SELECT is(count(*)::int, 150, 'a generated column') FROM generated g WHERE cluster_id = gkmeans_predict('m', g);
UPDATE generated SET a = NULL;
SELECT is(count(*)::int, 0, 'follows the row') FROM generated WHERE cluster_id IS NOT NULL;
SELECT gkmeans_export('m', 'predict') AS brief \gset
CREATE INDEX ON iris (gkmeans_predict_with(:'brief', a, b, c, d));
SET LOCAL enable_seqscan = off;
SELECT is(count(*)::int, (SELECT count(*)::int FROM iris i WHERE gkmeans_predict('m', i) = 1), 'an index expression') FROM iris WHERE gkmeans_predict_with(:'brief', a, b, c, d) = 1;
RESET enable_seqscan;
SELECT is((SELECT array_agg(gkmeans_predict_with(e, 6, 3, 5, 2) ORDER BY n) FROM (VALUES (1, :'exported'::jsonb), (2, :'exported'::jsonb || '{"cluster_ids": [3,5,7]}'), (3, :'exported'::jsonb)) t(n, e)),
	(SELECT ARRAY[p, (ARRAY[3,5,7])[p + 1], p] FROM gkmeans_predict('m', 6, 3, 5, 2) p), 'another model in every row');
SET LOCAL extra_float_digits = 0;
SELECT is(gkmeans_export('m'), :'exported', 'no digit is lost whatever the settings');
RESET extra_float_digits;
SELECT is(gkmeans_export('m', version => 1), :'exported', 'by version');
SELECT fails_with($$SELECT gkmeans_export('m', version => 0)$$, '42704', 'version 0 is none');
SELECT fails_with($$SELECT gkmeans_export('m', 'json', 2)$$, '42704', 'a version that is not there');
SELECT fails_with($$SELECT gkmeans_export('iris')$$, '42809', 'no model');
SELECT is(gkmeans_export(NULL), NULL, 'no model at all');

-- JSON that is no model
SELECT fails_with(format('SELECT gkmeans_predict_with(%L, 1, 2, 3, 4)', :'exported'::jsonb || change::jsonb), '22023', 'exported model: ' || change, 'not an exported model') FROM unnest(ARRAY['{"gkmeans": 2}', '{"gkmeans": null}', '{"k": 0}', '{"k": 2}', '{"k": 4}', '{"k": 1e9}', '{"k": 2.5}',
	'{"k": "3"}', '{"dimension": 3}', '{"dimension": 65536}', '{"metric": "x"}', '{"metric": 1}', '{"features": ["a"]}', '{"features": [1,2,3,4]}', '{"features": ["a","b","c",null]}', '{"features": "a"}', '{"array_column": ["v"]}', '{"shift": [1]}', '{"shift": [1,2,3,"x"]}', '{"shift": [1,2,3,1e999]}',
	'{"shift": {"a": 1}}', '{"scale_factor": [1,2,3,4]}', '{"scale_offset": [1,2,3,4], "scale_factor": [1,2,3,-4]}', '{"scale_offset": [1,2,3,4], "scale_factor": [1,2,3,5e-309]}', '{"points": []}', '{"points": [1,2,3]}', '{"points": null}', '{"points": [[1,2,3,4],[1,2,3,4],[1,2,3,1e99]]}', '{"ties": [0,1]}', '{"ties": [0,1,1]}', '{"ties": [0,1,3]}',
	'{"ties": [0,1,-1]}', '{"cluster_ids": [0,1,1000000]}', '{"names": ["a"]}', '{"names": [1,2,3]}']) change;
SELECT fails_with(format('SELECT gkmeans_predict_with(%L, 1, 2, 3, 4)', json), '22023', 'exported model: ' || json) FROM unnest('{[],1,"null","{}","\"x\""}'::text[]) json;
SELECT fails_with(format('SELECT gkmeans_predict_with(%L, 1, 2, 3)', :'exported'), '22000', 'too few features');
SELECT is(gkmeans_predict_with(NULL, 1), NULL, 'no model');
SELECT is(gkmeans_predict_with(:'exported', 5.1, x, 1.4, 0.2), known, coalesce('a feature that is ' || x, 'a feature that is NULL')) FROM (VALUES (NULL::float8, NULL), ('NaN', NULL), (1e39, NULL), (3.5, gkmeans_predict('m', 5.1, 3.5, 1.4, 0.2))) v(x, known);

-- The way back: a model of what was exported is the same, bit for bit
CREATE FUNCTION carried(model regclass) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE result jsonb;
BEGIN
	EXECUTE format('SELECT to_jsonb(m) - ''{version,status,deployed,deployed_at,deployed_by,started_at,finished_at,started_by,definition}''::text[] FROM %s m WHERE deployed', model) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION goes_round(source text, features text, arguments text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	name text := format('%s of %s, %s', features, source, arguments);
	k int;
BEGIN
	EXECUTE format('SELECT FROM gkmeans_create_model(''there'', %L, %L, 5, note => ''a "note"'', %s)', source, features, arguments);
	k := gkmeans_import_model('back', exported => gkmeans_export('there')::jsonb);
	RETURN NEXT is(k, (SELECT there.k FROM there), 'there and back: ' || name);
	RETURN NEXT is(carried('back'), carried('there'), 'every attribute: ' || name);
	RETURN NEXT is(gkmeans_export('back')::jsonb - 'definition', gkmeans_export('there')::jsonb - 'definition', 'and the JSON: ' || name);
	DROP TABLE there;
	DROP TABLE back;
END $$;
SET LOCAL client_min_messages = error;
SELECT goes_round('SELECT id, a + 1e6 AS a, b, c * 1e9 AS c, d FROM iris', '{a,b,c,d}', format('scale => %L, metric => %L', scale, metric))
FROM unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SELECT goes_round('SELECT v, a FROM iris', '{v}', 'initial_centroids => ''{{5,3},{4,3},{100,100},{6,3},{7,3}}'', max_iter => 1, weight_column => ''a''');
SELECT goes_round('SELECT round(a) AS a, round(b) AS b FROM iris', '{a,b}', 'seed => 3');
SELECT goes_round('SELECT 0 AS a FROM iris', '{a}', 'scale => ''standard''');
SET LOCAL client_min_messages = warning;

-- No attribute of a version is forgotten: all but those that say when, by whom and how it came to the table
CREATE TABLE spread AS SELECT i AS id, (i % 4) * 2 + noise(i, 1) + 1e9 AS x, noise(i, 2) AS y FROM generate_series(1, 800) i;
SELECT gkmeans_create_model('complete', 'spread', '{x,y}', k_candidates => '{3,5}', scale => 'standard', note => 'a note');
SELECT gkmeans_name_clusters('complete', (SELECT array_agg('cluster ' || i) FROM complete f, generate_series(1, f.k) i));
INSERT INTO spread SELECT 1000 + id, x + 1, y FROM spread WHERE id <= 100;
SELECT is(deployed, true, 'a refit') FROM gkmeans_refit('complete', deploy => 'always', note => 'again');
UPDATE complete SET k_selection = (SELECT f.k_selection FROM complete f WHERE version = 1), cluster_ids = (SELECT array_agg(2 * i ORDER BY i) FROM generate_series(1, k) i), ties = (SELECT array_agg(k - i ORDER BY i) FROM generate_series(1, k) i) WHERE deployed;
SELECT gkmeans_import_model('complete_back', exported => gkmeans_export('complete')::jsonb);
SELECT is(carried('complete_back'), carried('complete'), 'every attribute of a refit');
SELECT set_eq($$SELECT attname::text FROM pg_attribute JOIN complete f ON deployed WHERE attrelid = 'complete'::regclass AND attnum > 0 AND to_jsonb(f) ->> attname IS NULL$$,
	'{error_code,error_message,array_column}'::text[], 'it has all attributes, except those of versions that failed and of arrays');
SELECT set_eq($$SELECT attname::text FROM pg_attribute JOIN complete_back b ON true WHERE attrelid = 'complete_back'::regclass AND attnum > 0 AND to_jsonb(b) ->> attname IS NULL$$,
	'{error_code,error_message,array_column}'::text[], 'and so has the copy');
SELECT set_eq($$SELECT attname::text FROM pg_attribute WHERE attrelid = 'complete'::regclass AND attnum > 0 EXCEPT SELECT jsonb_object_keys(gkmeans_export('complete')::jsonb)$$,
	'{version,group_no,part,status,deployed,deployed_at,deployed_by,started_at,finished_at,started_by,error_code,error_message,array_column}'::text[], 'an attribute that is new is exported, or named here');
SELECT is((SELECT status FROM complete_back), 'imported', 'what it is');
SELECT is(gkmeans_import_model('other', exported => :'exported'), 3, 'import');
SELECT is((SELECT array_agg(gkmeans_anomaly_percentile('other', a, b, c, d) ORDER BY id) FROM iris), (SELECT array_agg(gkmeans_anomaly_percentile('m', a, b, c, d) ORDER BY id) FROM iris), 'percentiles as before');
SELECT is((SELECT array_agg(gkmeans_name('other', i) ORDER BY id) FROM iris i), (SELECT array_agg(gkmeans_name('m', i) ORDER BY id) FROM iris i), 'names as before');
SELECT is((SELECT definition - 'search_path' FROM other), '{"k": 3, "metric": "euclidean", "features": ["a","b","c","d"]}', 'what else the model was asked for is not taken over');
SELECT is((SELECT status FROM other), 'imported', 'status');
SELECT fails_with(format('SELECT gkmeans_import_model(''other'', exported => %L, metric => ''manhattan'')', :'exported'), '22023', 'a metric that there is not', 'invalid metric');
SELECT is(gkmeans_import_model('other', exported => :'exported', if_exists => 'replace', note => 'again'), 3, 'another version');
SELECT is((SELECT array_agg(note ORDER BY version) FROM other), '{NULL,again}', 'with a note of its own');
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L)', :'exported'::jsonb || change::jsonb), '22023', 'import: ' || change, 'not an exported model') FROM unnest(ARRAY['{"gkmeans": 2}', '{"points": []}', '{"centroids": [1]}', '{"sizes": [1,2]}', '{"sizes": [1,2,-3]}', '{"sizes": [4611686018427387000,4611686018427387000,1]}',
	'{"sizes": [1,2,2.5]}', '{"sizes": 3}', '{"sizes": null}', '{"weights": [1,2,-1]}', '{"radii": [1,2,"x"]}', '{"feature_deviation": [1,2,3,-1]}', '{"deviations": [[1,2,3,4],[1,2,3,4],[1,2,3]]}', '{"deviations": [[1,2,3,4],[1,2,3,4],[1,2,3,-4]]}', '{"deviations": {}}', '{"deviations": 1}', '{"avg_distances": {}}', '{"score_quantiles": [1,2]}', '{"feature_mean": [1]}', '{"feature_mean": [1,2,3,null]}', '{"rows_used": -1}', '{"rows_used": 1e30}', '{"inertia": "much"}', '{"iterations": 1e10}',
	'{"converged": 1}', '{"note": {}}', '{"report": 1}', '{"history": "x"}', '{"map_x": [1]}', '{"map_y": [1,2,null]}', '{"sample_points": [[1,2]]}', '{"sample_points": [[1,2,1e39]]}', '{"sample_points": {}}', '{"silhouette": true}', '{"cluster_ids": [2,1,0]}']) change;
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L)', jsonb_build_object('gkmeans', 1, 'metric', 'euclidean', 'k', 1, 'dimension', 1, 'features', '["x"]'::jsonb, 'scale_offset', '[1.7e308]'::jsonb, 'points', '[[3e38]]'::jsonb) || scale::jsonb), '22023', 'import of centroids that are infinite in the units of the features: ' || scale, 'not an exported model') FROM unnest(ARRAY['{"shift": [1.7e308], "scale_factor": [1]}', '{"scale_factor": [1e-300]}']) scale;
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L)', jsonb_set(:'exported'::jsonb, '{features,1}', :'exported'::jsonb #> '{features,0}')), '42701', 'two features of one name', 'named more than once');
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L)', :'exported'::jsonb || jsonb_build_object('score_quantiles', (SELECT jsonb_agg(-i) FROM generate_series(1, 47) i))), '22023', 'quantiles that are negative');
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L)', :'exported'::jsonb || jsonb_build_object('score_quantiles', (SELECT jsonb_agg(47 - i) FROM generate_series(1, 47) i))), '22023', 'quantiles that descend');
SELECT is(gkmeans_import_model('unknown', exported => :'exported'::jsonb || '{"avg_distances": [null, "Infinity", 2]}'), 3, 'import of unknown and infinite numbers');
SELECT is((SELECT avg_distances FROM unknown), '{NULL,Infinity,2}', 'what is unknown or infinite');
SELECT is(gkmeans_export('unknown')::jsonb -> 'avg_distances', '[null, "Infinity", 2]', 'and back');
SELECT is(gkmeans_import_model('empty', exported => :'exported'::jsonb || '{"sample_points": []}'), 3, 'import of a map without rows');
SELECT is((SELECT sample_points FROM empty), NULL, 'which is none: an array of no rows would not be the same after a dump');
SELECT fails_with(format('SELECT gkmeans_import_model(''bad'', exported => %L, %s)', :'exported', other), '22023', other || ' as well') FROM unnest('{"centroids => ''{{1}}''","features => ''{a}''","names => ''{a}''","scale_offset => ''{1}''","scale_factor => ''{1}''"}'::text[]) other;
SELECT fails_with('SELECT gkmeans_import_model(''bad'')', '22004', 'nothing to import');
SELECT fails_with($$SELECT gkmeans_import_model(NULL, '{{1,2}}')$$, '22004', 'no name', 'model is NULL');
SELECT fails_with($$SELECT gkmeans_import_model('bad', '{{3e38,0}}', scale_offset => '{0,0}', scale_factor => '{2,1}')$$, '22023', 'a centroid that is too large in its scale', 'centroids contains a value that is too large when scaled');
SELECT fails_with(format($$SELECT gkmeans_import_model('bad', '{{1,5},{5,12}}', scale_offset => '{0,0}', scale_factor => '{1,%s}')$$, factor), '22023', 'a factor of ' || factor, 'scale_factor contains a number that is negative or too small to divide by') FROM unnest('{-1,5e-309,5e-324}'::text[]) factor;
SELECT is(gkmeans_import_model('flattened', '{{1,5},{5,12}}', scale_offset => '{0,0}', scale_factor => '{1,2.3e-308}', source => 'SELECT i % 7 AS x1, i % 17 AS x2 FROM generate_series(1, 300) i'), 2, 'a factor that makes all rows 0 in a feature');
SELECT lives_ok('SELECT gkmeans_refit(''flattened'', deploy => ''always'')', 'a refit, and night ' || night) FROM generate_series(1, 2) night;
SELECT is(gkmeans_import_model('halved', '{{3e38,0}}', scale_offset => '{0,0}', scale_factor => '{0.5,1}'), 1, 'or not');
SELECT fails_with(format(call, '{"gkmeans": 1, "metric": "euclidean", "k": 1000000, "dimension": 60000, "features": ["x"], "points": [[1]]}'), '22023', 'an exported model that would be too large: ' || call, 'not an exported model', '"k"')
FROM unnest('{"SELECT gkmeans_import_model(''bad'', exported => %L)","SELECT gkmeans_predict_with(%L, 1)"}'::text[]) call;
SELECT is(gkmeans_centroids(NULL), NULL, 'no model, no centroids');
SELECT fails_with('SELECT gkmeans_export(''m'', ''pickle'')', '22023', 'another format', 'invalid format', NULL, 'json.*predict');
SELECT is(gkmeans_export('m', NULL), :'exported', 'no format is json');
SELECT is((SELECT array_agg(key ORDER BY key) FROM jsonb_object_keys(:'brief'::jsonb) key WHERE key <> 'ties'), '{dimension,features,gkmeans,k,metric,names,points}', 'what predictions need, beside the order of the comparisons where it is not that of the ids');
SELECT is(:'exported'::jsonb @> :'brief'::jsonb, true, 'is part of the whole');
SELECT gkmeans_create_model('scaled', 'SELECT a + 1e6 AS a, b, c * 1e9 AS c, d FROM iris', '{a,b,c,d}', 3, scale => 'standard');
SELECT is(gkmeans_import_model('brief', exported => gkmeans_export('scaled', 'predict')::jsonb), 3, 'it can be imported');
SELECT ok(bool_and(abs(x - y) <= 1e-12 * abs(y)), 'centroids in the units of the features') FROM unnest(gkmeans_centroids('brief'), gkmeans_centroids('scaled')) u(x, y);
SELECT is((SELECT array_agg(gkmeans_distance('brief', a + 1e6, b, c * 1e9, d) ORDER BY id) FROM iris), (SELECT array_agg(gkmeans_distance('scaled', a + 1e6, b, c * 1e9, d) ORDER BY id) FROM iris), 'distances bit for bit');

-- Centroids
SELECT is((SELECT count(*)::int FROM iris i WHERE gkmeans_predict_centroids(gkmeans_centroids('m'), ARRAY[a, b, c, d]) = gkmeans_predict('m', i)), 150, 'gkmeans_predict_centroids');
SELECT is(gkmeans_predict_centroids('{{1},{3},{1}}', '{2}'), 0, 'the first of equals');
SELECT is(gkmeans_predict_centroids('{{1e15},{1000000000000001}}', '{1000000000000001}'), 1, 'in double precision');
SELECT is(gkmeans_predict_centroids('{{1e200},{3e200},{-1e308}}', '{2.1e200}'), 1, 'squares beyond the range of double');
SELECT is(gkmeans_predict_centroids('{{-1e308},{1e308}}', '{1.7e308}'), 1, 'at its end');
SELECT is(gkmeans_predict_centroids('{{1},{1e-200},{3e-200},{1e300}}', '{2.1e-200}'), 2, 'squares below it');
SELECT is(gkmeans_predict_centroids('{{5e-324,0},{0,0}}', '{0,0}'), 1, 'the least number');
SELECT is(gkmeans_predict_centroids('{{1},{3}}', values), NULL, 'features ' || values::text) FROM unnest(ARRAY['{NULL}', '{NaN}', '{Infinity}']) f, LATERAL (SELECT f::float8[]) v(values);
SELECT is(ARRAY[gkmeans_predict_centroids('{{NaN,1}}', '{1,2}'), gkmeans_predict_centroids('{{NaN,1},{1,Infinity},{7,8}}', '{1,2}')], '{NULL,2}', 'centroids that are no points are not near');
SELECT fails_with($$SELECT gkmeans_predict_centroids('{1,2}', '{1}')$$, '22023', 'centroids of one dimension');
SELECT fails_with($$SELECT gkmeans_predict_centroids('{{1,2}}', '{1}')$$, '22000', 'too few features');
SELECT fails_with($$SELECT gkmeans_predict_centroids('{{1,NULL}}', '{1,2}')$$, '22004', 'a NULL among the centroids');

SELECT * FROM finish();
ROLLBACK;
