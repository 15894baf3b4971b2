-- The same rows give the same bits: whatever their order, the workers, the threads, the ring, the run.
\ir helpers.psql

-- Features of very different size, duplicates, ties, an integer grid; weights over 16 powers of ten.
CREATE TABLE data AS
	SELECT i AS id,
		(noise(i, 1) + 5 * (i % 7))::real AS a,
		noise(i, 2) * 1e6 + 3e6 AS b,
		(i % 11)::smallint AS c,
		round((noise(i, 3) * 1e-3)::numeric, 7) AS d,
		ARRAY[noise(i, 4), noise(i, 5) * 100, i % 5, noise(i, 6) - 1e4]::real[] AS r,
		ARRAY[noise(i, 4), noise(i, 5) * 100, i % 5, noise(i, 6) - 1e4]::float8[] AS f,
		ARRAY[i % 13, (i / 13) % 17, (i * 7) % 5] AS n,
		10 ^ (noise(i, 7) * 16 - 8) AS w
	FROM generate_series(1, 20000) i;
CREATE TABLE reversed AS SELECT * FROM data ORDER BY id DESC;
CREATE TABLE shuffled AS SELECT * FROM data ORDER BY md5(id::text);
CREATE TABLE by_feature AS SELECT * FROM data ORDER BY b, a;
ANALYZE data; ANALYZE reversed; ANALYZE shuffled; ANALYZE by_feature;

-- Ways to ask: features, weights, init, scale, metric.
CREATE TABLE request (name text PRIMARY KEY, features text[], weight text, more text, quality text DEFAULT 'fast');
INSERT INTO request VALUES
	('k-means||', '{a,b,c,d}', NULL, 'init => ''k-means||''', 'fast'),
	('k-means++', '{a,b,c,d}', NULL, 'init => ''k-means++''', 'fast'),
	('random', '{a,b,c,d}', NULL, 'init => ''random''', 'fast'),
	('n_init', '{a,b}', NULL, 'n_init => 3, seed => -42', 'fast'),
	('real[]', '{r}', NULL, 'max_iter => 20', 'fast'),
	('float8[]', '{f}', NULL, 'max_iter => 20', 'fast'),
	('int[]', '{n}', NULL, 'tol => 0, max_iter => 30', 'fast'),
	('weighted', '{a,b,c,d}', 'w', 'init => ''k-means||''', 'fast'),
	('weighted k-means++', '{f}', 'w', 'init => ''k-means++'', max_iter => 10', 'fast'),
	('weighted random', '{n}', 'w', 'init => ''random'', max_iter => 10', 'fast'),
	('standard', '{a,b,c,d}', NULL, 'scale => ''standard''', 'fast'),
	('minmax', '{a,b,c,d}', 'w', 'scale => ''minmax''', 'fast'),
	('cosine', '{f}', NULL, 'metric => ''cosine''', 'fast'),
	('good', '{a,b,c,d}', NULL, 'seed => 3', 'good'),
	('good, weighted', '{f}', 'w', 'scale => ''standard''', 'good'),
	('good, cosine', '{r}', NULL, 'metric => ''cosine''', 'good'),
	('best', '{a,c}', 'w', 'max_iter => 5', 'best'),
	('given', '{a,c}', NULL, 'initial_centroids => ''{{0,0},{10,2},{20,4},{30,6},{1e6,8},{5,10},{1e7,0}}''', 'fast');

-- Centroids, statistics, labels, distances and iterations of a request, as one value.
CREATE FUNCTION answer(source text, asked request) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	arguments text := format('%L, %L, 7, weight_column => %L, quality => ''%s'', %s', source, asked.features, asked.weight, asked.quality, asked.more);
	first text;
BEGIN
	first := fingerprint(format('SELECT * FROM gkmeans_fit(%s)', arguments))
		|| (SELECT iterations || ' ' || inertia FROM gkmeans_last_fit());
	RETURN first || fingerprint(format('SELECT * FROM gkmeans_fit_predict(NULL::int, %s, id_column => ''id'') ORDER BY id', arguments));
END $$;

SET LOCAL max_parallel_workers_per_gather = 0;
CREATE TABLE answers AS SELECT name, answer('data', request) AS value FROM request;
SELECT is(answer('data', request), value, 'again: ' || name) FROM request JOIN answers USING (name);
SELECT isnt(a.value, b.value, 'another request, another answer')
FROM answers a, answers b WHERE a.name = 'k-means||' AND b.name = 'weighted';
SELECT is(answer(source, request), value, source || ': ' || name)
FROM request JOIN answers USING (name), unnest('{reversed,shuffled,by_feature}'::text[]) source;

-- Threads of the CPU engine.
SELECT is(answer('data', request), value, format('%s threads: %s', set_config('gkmeans.cpu_threads', threads, true), name))
FROM request JOIN answers USING (name), unnest('{2,3,16}'::text[]) threads;
RESET gkmeans.cpu_threads;

-- Parallel workers: with these costs every scan of the table has them.
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 4;
SELECT is(answer(source, request), value, format('%s workers at most, %s: %s',
	set_config('max_parallel_workers_per_gather', workers, true), source, name))
FROM request JOIN answers USING (name), unnest('{1,4}'::text[]) workers, unnest('{shuffled}'::text[]) source;
-- the leader reads no row: all of them come from workers
SET LOCAL parallel_leader_participation = off;
SELECT is(answer('data', request), value, format('%s workers alone: %s', set_config('max_parallel_workers_per_gather', workers, true), name))
FROM request JOIN answers USING (name), unnest('{1,4}'::text[]) workers;
SELECT cmp_ok(after_fit($$gkmeans_fit('data', '{a,b}', 3, quality => 'fast')$$, 'workers')::int, '>', 0, 'workers took part');
SET LOCAL parallel_leader_participation = on;
SET LOCAL max_parallel_workers_per_gather = 0;
SELECT is(after_fit($$gkmeans_fit('data', '{a,b}', 3, quality => 'fast')$$, 'workers'), '0', 'no worker took part');

-- The ring: from the least size to a large one, with and without workers.
SELECT is(answer('data', request), value, format('ring of %s, %s workers: %s',
	set_config('gkmeans.ring_size', size, true), set_config('max_parallel_workers_per_gather', workers, true), name))
FROM request JOIN answers USING (name), unnest('{1MB,3MB,256MB}'::text[]) size, unnest('{0,2}'::text[]) workers
WHERE name IN ('k-means||', 'float8[]', 'weighted');
RESET gkmeans.ring_size;

-- Another plan of the same rows: a join, a sort, an index.
SELECT is(answer('SELECT l.* FROM data l JOIN shuffled s USING (id) ORDER BY l.w', request), value, 'a join and a sort: ' || name)
FROM request JOIN answers USING (name) WHERE name IN ('k-means||', 'weighted', 'int[]');
SELECT is(answer('SELECT * FROM data WHERE id % 2 = 0 UNION ALL SELECT * FROM shuffled WHERE id % 2 = 1', request), value,
	'UNION ALL of halves: ' || name)
FROM request JOIN answers USING (name) WHERE name IN ('k-means||', 'weighted', 'int[]');

-- Another seed gives another draw; the same seed the same.
SELECT isnt(fingerprint($$SELECT * FROM gkmeans_fit('data', '{a,b}', 50, max_iter => 1, seed => 1)$$),
	fingerprint($$SELECT * FROM gkmeans_fit('data', '{a,b}', 50, max_iter => 1, seed => 2)$$), 'another seed, another draw');
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('data', '{a,b}', 50, max_iter => 1, seed => 9223372036854775807)$$),
	fingerprint($$SELECT * FROM gkmeans_fit('shuffled', '{a,b}', 50, max_iter => 1, seed => 9223372036854775807)$$), 'the greatest seed');

-- Rows made to share their hash: pairs of features whose mixes add up to the same.
CREATE TABLE colliding (id int, a real, b real, c real, d real);
INSERT INTO colliding VALUES (1, 16, 7, 1, 35), (2, 13, 36, 2.593029499053955, 4.218295574188232),
	(3, 15, 40, 1.723854422569275, -1.6520527601242065), (4, 12, 13, 15, 20);
SELECT is(
	(SELECT string_agg(fingerprint(format('SELECT * FROM gkmeans_fit(%L, ''{a,b,c,d}'', 2, init => %L, max_iter => 1, seed => %s)',
		'SELECT * FROM colliding ORDER BY ' || other, init, seed)), ',' ORDER BY seed) FROM generate_series(1, 20) seed),
	(SELECT string_agg(fingerprint(format('SELECT * FROM gkmeans_fit(''SELECT * FROM colliding ORDER BY id'', ''{a,b,c,d}'', 2, init => %L,'
		' max_iter => 1, seed => %s)', init, seed)), ',' ORDER BY seed) FROM generate_series(1, 20) seed),
	format('rows with the same hash by %s: %s', other, init))
FROM unnest('{id DESC,d,"b DESC"}'::text[]) other, unnest('{k-means||,k-means++,random}'::text[]) init;

-- A duplicate row is a row of weight 2; equal weights change nothing.
SELECT is(
	(SELECT array_agg((cluster_id, centroid, inertia, size)::text ORDER BY cluster_id) FROM gkmeans_fit(
		'SELECT n FROM data, generate_series(1, 2)', '{n}', 3, initial_centroids => '{{0,0,0},{6,6,2},{12,12,4}}')),
	(SELECT array_agg((cluster_id, centroid, inertia, 2 * size)::text ORDER BY cluster_id) FROM gkmeans_fit(
		'SELECT n, 2 AS w FROM data', '{n}', 3, weight_column => 'w', initial_centroids => '{{0,0,0},{6,6,2},{12,12,4}}')),
	'twice or of weight 2');
SELECT is(
	(SELECT array_agg((cluster_id, centroid, size)::text ORDER BY cluster_id) FROM gkmeans_fit(
		'SELECT n, 1 AS w FROM data', '{n}', 3, weight_column => 'w', initial_centroids => '{{0,0,0},{6,6,2},{12,12,4}}')),
	(SELECT array_agg((cluster_id, centroid, size)::text ORDER BY cluster_id) FROM gkmeans_fit(
		'data', '{n}', 3, initial_centroids => '{{0,0,0},{6,6,2},{12,12,4}}')),
	'weights of 1 or none');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
