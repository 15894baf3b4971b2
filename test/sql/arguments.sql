-- The arguments of gkmeans_fit and gkmeans_fit_predict: what is wrong with each, by SQLSTATE and HINT.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, i::float8 AS x, (i * 7 % 10)::float8 AS y, 1.0 AS w FROM generate_series(1, 20) i;

-- k
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', %s)$$, k), '22023', format('k = %s', k), 'k')
FROM unnest('{0,-1,-2147483648}'::int[]) k;
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}')$$, '22023', 'no k', 'k is missing', NULL, 'initial_centroids');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', NULL)$$, '22023', 'k NULL', 'k is missing');
SELECT is((SELECT array_agg(centroid)::text FROM gkmeans_fit('data', '{x,y}', NULL, initial_centroids => '{{1,2},{3,4}}')),
	(SELECT array_agg(centroid)::text FROM gkmeans_fit('data', '{x,y}', 2, initial_centroids => '{{1,2},{3,4}}')),
	'initial centroids tell k');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2147483647)$$, '54000', 'k over the limit');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 1000001)$$, '54000', 'k one over the limit');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('data', '{x,y}', 1000000)), 20, 'k at the limit: as many clusters as rows');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 0, id_column => 'id')$$, '22023', 'fit_predict, k = 0');

-- Words
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, %s => 'nonsense')$$, argument), '22023',
	format('unknown word for %s', argument), '"nonsense"', NULL, hint)
FROM (VALUES ('init', 'k-means\|\|.*k-means\+\+.*random'), ('metric', 'euclidean.*cosine'), ('scale', 'none.*standard.*minmax'),
	('nulls', 'skip.*error'), ('if_exists', 'error.*replace.*append')) word(argument, hint);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, %s => '')$$, argument), '22023', format('empty word for %s', argument))
FROM unnest('{init,metric,scale,nulls,if_exists}'::text[]) argument;
SELECT is(fingerprint(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, %s => NULL)$$, argument)), fingerprint($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2)$$),
	format('%s NULL is its default', argument))
FROM unnest('{init,metric,scale,nulls,if_exists,max_iter,tol,n_init,seed,options,labels_table,weight_column,id_column,initial_centroids}'::text[]) argument;

-- Numbers
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, tol => %L)$$, tol), '22023', format('tol = %s', tol), 'tol')
FROM unnest('{-1,-1e-300,NaN,Infinity,-Infinity}'::text[]) tol;
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, max_iter => %s)$$, n), '22023', format('max_iter = %s', n), 'max_iter')
FROM unnest('{0,-1,-2147483648}'::int[]) n;
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, n_init => %s)$$, n), '22023', format('n_init = %s', n), 'n_init')
FROM unnest('{0,-1,-2147483648}'::int[]) n;
SELECT lives_ok(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, seed => %s)$$, seed), format('seed = %s', seed))
FROM unnest('{-9223372036854775808,-1,0,9223372036854775807}'::bigint[]) seed;
SELECT lives_ok($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, max_iter => 2147483647, tol => 0)$$, 'the greatest max_iter');

-- Initial centroids
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, initial_centroids => %L)$$, centroids), '22023',
	format('initial centroids %s', centroids))
FROM unnest(ARRAY['{}', '{1,2}', '{{1,2}}', '{{1,2},{3,4},{5,6}}', '{{1},{2}}', '{{1,2,3},{4,5,6}}', '{{{1,2},{3,4}}}', '{{1,NaN},{3,4}}',
	'{{1,2},{3,Infinity}}']) centroids;
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, initial_centroids => '{{1,2},{3,NULL}}')$$, '22004', 'initial centroids with a NULL');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, init => 'random', initial_centroids => '{{1,2},{3,4}}')$$, '22023',
	'initial centroids and another init');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, init => 'given')$$, '22023', 'init given without centroids');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, init => 'given', initial_centroids => '[0:1][5:6]={{1,2},{3,4}}')$$,
	'initial centroids with lower bounds of their own');

-- Options
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, options => '{"nonsense": 1}')$$, '22023', 'unknown option', '"nonsense"', NULL, '.+');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, options => %L)$$, options), '22023', format('options %s', options))
FROM unnest(ARRAY['[]', '1', '"text"', 'null', '{"oversampling": 0}', '{"oversampling": -1}', '{"oversampling": "two"}', '{"oversampling": null}', '{"oversampling": [2]}',
	'{"rounds": -1}', '{"rounds": 101}', '{"rounds": 1.5}', '{"rounds": true}', '{"rounds": 1e10}', '{"oversampling": 1e400}', '{"Rounds": 1}']) options;
SELECT lives_ok(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, options => %L)$$, options), format('options %s', options))
FROM unnest(ARRAY['{}', '{"oversampling": 0.5}', '{"oversampling": 10, "rounds": 2}', '{"rounds": 0}', '{"rounds": 100}']) options;

-- Features, id and weight
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{}', 2)$$, '22023', 'no features');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', array_fill('x'::text, ARRAY[65536]), 2)$$, '54000', 'more features than there can be', 'features has 65536 elements, more than the limit of 65535');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,NULL}', 2)$$, '22004', 'a NULL feature');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y,x}', 2)$$, '42701', 'a feature twice', '"x"');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{z}', 2)$$, '42703', 'a missing feature', '"z"');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{X}', 2)$$, '42703', 'a feature in upper case', '"X"');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, weight_column => 'z')$$, '42703', 'a missing weight', '"z"');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 2, id_column => 'z')$$, '42703', 'a missing id', '"z"');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 2)$$, '22023', 'fit_predict without an id column', 'id_column');
SELECT fails_with($$SELECT * FROM gkmeans_fit(NULL, '{x,y}', 2)$$, '22004', 'source NULL', 'source');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{tableoid}', 2)$$, '42703', 'a system column');

-- features NULL: every numeric column but id and weight
SELECT is((SELECT cardinality(centroid) FROM gkmeans_fit('data', NULL, 1)), 4, 'NULL features: every numeric column');
SELECT is((SELECT cardinality(centroid) FROM gkmeans_fit('data', NULL, 1, weight_column => 'w', id_column => 'id')), 2,
	'NULL features: not the id, not the weight');
SELECT is((SELECT cardinality(centroid) FROM gkmeans_fit('SELECT id, ARRAY[x, y, x] AS v, ''t'' AS t FROM data', NULL, 1, id_column => 'id')), 3,
	'NULL features: the one array column');

-- k above the number of rows: fewer clusters and a WARNING
CREATE FUNCTION clusters_of(k int) RETURNS int LANGUAGE sql AS $$ SELECT count(*)::int FROM gkmeans_fit('data', '{x,y}', k) $$;
SELECT is(clusters_of(25), 20, 'k = 25 over 20 rows: 20 clusters');
SELECT is(clusters_of(20), 20, 'k = 20 over 20 rows: 20 clusters');

-- The library
SELECT current_setting('server_version_num')::int >= 180000 AS modules_are_named \gset
\if :modules_are_named
SELECT is(version, (SELECT extversion FROM pg_extension WHERE extname = 'gkmeans'), 'the library has the version of the extension')
FROM (SELECT) r LEFT JOIN pg_get_loaded_modules() ON module_name = 'gkmeans';
\endif

-- Settings
SELECT fails_with('SET gkmeans.engine = ''abacus''', '22023', 'no such engine', NULL, NULL, 'auto.*cpu.*cuda');
SELECT fails_with('SET gkmeans.cpu_threads = -1', '22023', 'a negative number of threads');
SELECT fails_with(format('SET gkmeans.devices = %L', list), '22023', 'devices: ' || list, 'gkmeans.devices', 'at most 16 different device numbers, "all", or empty') FROM unnest(ARRAY['0,0', '-1', 'all,1', '1 2', 'x', '0,', (SELECT string_agg(i::text, ',') FROM generate_series(0, 16) i)]) list;
SELECT lives_ok(format('SET LOCAL gkmeans.devices = %L', list), 'devices: ' || list) FROM unnest(ARRAY['', ' ALL ', '1, 0', (SELECT string_agg(i::text, ',') FROM generate_series(0, 15) i)]) list;
RESET gkmeans.devices;
SELECT fails_with('SET gkmeans.nonsense = 1', '42602', 'no such setting') WHERE current_setting('server_version_num')::int >= 150000;
CREATE ROLE gk_plain;
SELECT is(count(*), 0::bigint, 'limits are settings of superusers') FROM pg_settings
WHERE name IN ('gkmeans.ring_size', 'gkmeans.host_memory_limit') AND context <> 'superuser';
GRANT USAGE ON SCHEMA gk_test TO gk_plain;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO gk_plain;
SET LOCAL ROLE gk_plain;
SELECT fails_with('SET LOCAL gkmeans.ring_size = ''1MB''', '42501', 'the ring belongs to superusers');
SELECT fails_with('SET LOCAL gkmeans.host_memory_limit = ''1MB''', '42501', 'the memory limit belongs to superusers');
SELECT lives_ok('SET LOCAL gkmeans.cpu_threads = 2', 'threads belong to everyone');
RESET ROLE;
RESET gkmeans.cpu_threads;

SELECT nothing_left('nothing is left after these errors');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('data', '{x,y}', 3)), 3, 'and a fit goes on');
SELECT * FROM finish();
ROLLBACK;
