-- The search for better centroids: what it finds, what it keeps, when it is made.
\ir helpers.psql

-- 64 round clusters on a grid, and the inertia of the clustering that everybody sees.
CREATE TABLE grid AS
	SELECT i AS id, i % 8 * 10 + noise(i, 1) + noise(i, 2) AS x, i / 8 % 8 * 10 + noise(i, 3) + noise(i, 4) AS y, 1 + i % 3 AS w FROM generate_series(0, 3199) i;
CREATE FUNCTION inertia(source text, k int, more text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE result float8;
BEGIN
	EXECUTE format('SELECT sum(inertia) FROM gkmeans_fit(%L, ''{x,y}'', %s, %s)', source, k, more) INTO result;
	RETURN result;
END $$;
CREATE TABLE known AS
	SELECT sum((x - mean_x) ^ 2 + (y - mean_y) ^ 2) AS inertia
	FROM (SELECT x, y, avg(x) OVER w AS mean_x, avg(y) OVER w AS mean_y FROM grid WINDOW w AS (PARTITION BY id % 64)) rows;
SELECT near(inertia('grid', 64, format('quality => %L, init => %L, seed => %s', quality, init, seed)), inertia, 1e-5, format('64 clusters, %s from %s, seed %s', quality, init, seed))
FROM known, unnest('{k-means||,random}'::text[]) init, unnest('{good,best,auto}'::text[]) quality, generate_series(1, 3) seed;
SELECT cmp_ok(max(inertia('grid', 64, format('quality => ''fast'', init => ''random'', seed => %s', seed))), '>', 1.05 * min(known.inertia), 'one start alone misses some of the 64 clusters')
FROM known, generate_series(1, 3) seed;

-- A start's outcome is never made worse.
SELECT ok(inertia('grid', k, format('quality => ''good'', seed => %s, init => %L', seed, init)) <= inertia('grid', k, format('quality => ''fast'', seed => %s, init => %L', seed, init)),
	format('k = %s, %s, seed %s: good is not worse than fast', k, init, seed))
FROM unnest('{2,5,100}'::int[]) k, unnest('{k-means||,k-means++,random}'::text[]) init, generate_series(1, 2) seed;
SELECT ok(inertia('grid', 100, 'quality => ''best''') <= inertia('grid', 100, 'quality => ''good'''), 'best is not worse than good');

-- Weights count like repeated rows, scaling and directions are searched as well.
SELECT near(inertia('grid', 20, 'quality => ''best'', weight_column => ''w'''), inertia('SELECT x, y FROM grid, generate_series(1, w)', 20, 'quality => ''best'''), 1e-2, 'weights, or rows as often');
SELECT near(inertia('SELECT x * 1000 AS x, y FROM grid', 64, 'quality => ''good'', scale => ''standard'''), inertia('grid', 64, 'quality => ''good'', scale => ''standard'''), 1e-4, 'standardised columns');
CREATE TABLE directions AS SELECT i AS id, cos(i % 40 * pi() / 20 + noise(i, 1) / 50) * (1 + noise(i, 2)) AS x, sin(i % 40 * pi() / 20 + noise(i, 1) / 50) * (1 + noise(i, 2)) AS y FROM generate_series(1, 2000) i;
SELECT is((SELECT array_agg(DISTINCT size) FROM gkmeans_fit('directions', '{x,y}', 40, metric => 'cosine', quality => 'good', seed => seed)), '{50}', format('40 directions, seed %s', seed))
FROM generate_series(1, 3) seed;

-- Of 40 features, some tell which unions are cheap, or say nothing about it.
CREATE TABLE deep AS SELECT ARRAY(SELECT (noise(i % 60, f) * 100 * (f > 5)::int + noise(i, f + 50))::real FROM generate_series(1, 40) f) AS late,
	ARRAY(SELECT (noise(i % 60, f) * 100 + noise(i, f + 50))::real FROM generate_series(1, 40) f) AS all_of_them FROM generate_series(1, 1800) i;
SELECT is((SELECT array_agg(DISTINCT size) FROM gkmeans_fit('deep', ARRAY[features], 60, quality => 'good', init => init, seed => seed)), '{30}',
	format('60 clusters of 40 features (%s), from %s, seed %s', features, init, seed))
FROM unnest('{late,all_of_them}'::text[]) features, unnest('{k-means||,random}'::text[]) init, generate_series(1, 3) seed;

-- The labels are those of the centroids returned.
CREATE TABLE fitted AS SELECT * FROM gkmeans_fit('grid', '{x,y}', 30, quality => 'good', seed => 7);
SELECT is((SELECT count(*) FROM grid g JOIN gkmeans_fit_predict(NULL::int, 'grid', '{x,y}', 30, id_column => 'id', quality => 'good', seed => 7) p USING (id)
	WHERE p.cluster_id IS DISTINCT FROM (SELECT f.cluster_id FROM fitted f ORDER BY (g.x::real - f.centroid[1]) ^ 2 + (g.y::real - f.centroid[2]) ^ 2 LIMIT 1)), 0::bigint,
	'each row has the label of its nearest centroid');
SELECT ok((SELECT array_agg(size ORDER BY cluster_id) FROM fitted) = (SELECT array_agg(size ORDER BY size DESC) FROM fitted), 'the clusters are numbered by size');

-- Rows that are few, equal or on a line.
SELECT isnt((SELECT sum(inertia) FROM gkmeans_fit('SELECT x, y FROM grid LIMIT 40', '{x,y}', k, quality => quality)), NULL, format('40 rows, k = %s, %s', k, quality))
FROM unnest('{1,2,38,39,40}'::int[]) k, unnest('{good,best}'::text[]) quality;
SELECT is((SELECT sum(inertia) FROM gkmeans_fit('SELECT x, y FROM grid LIMIT 40', '{x,y}', 40, quality => 'good')), 0::float8, 'a cluster for each row');
SELECT is((SELECT array_agg(size) FROM gkmeans_fit('SELECT i % 3 AS x, 1 AS y FROM generate_series(1, 300) i', '{x,y}', 5, quality => quality)), '{100,100,100}',
	format('three distinct rows, k = 5, %s', quality)) FROM unnest('{good,best}'::text[]) quality;
SELECT is((SELECT array_agg(size) FROM gkmeans_fit('SELECT i % 6 AS x, 1 AS y FROM generate_series(1, 600) i', '{x,y}', 6, quality => quality)), '{100,100,100,100,100,100}',
	format('six distinct rows, k = 6, %s', quality)) FROM unnest('{good,best}'::text[]) quality;
SELECT ok(inertia('SELECT x * 1e30 AS x, y * 1e-30 AS y FROM grid', 8, $$quality => 'good'$$) <= inertia('SELECT x * 1e30 AS x, y * 1e-30 AS y FROM grid', 8, $$quality => 'fast'$$),
	'numbers of extreme sizes');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT x, y, CASE id % 2 WHEN 0 THEN 1e-200 ELSE 1e200 END AS w FROM grid', '{x,y}', 8, weight_column => 'w', quality => 'good')$$,
	'weights of extreme sizes');

-- What a fit says of its search.
SELECT is(after_fit(format($$gkmeans_fit('grid', '{x,y}', 100, quality => %L)$$, quality), '(quality, search_rounds > 0, search_improvement > 0)'), format('(%s,%s)', quality, searched),
	format('gkmeans_last_fit() of %s', quality))
FROM (VALUES ('fast', 'f,f'), ('good', 't,t')) v(quality, searched);
SELECT near(after_fit($$gkmeans_fit('grid', '{x,y}', 100, quality => 'good')$$, 'inertia / (1 - search_improvement)')::float8, inertia('grid', 100, $$quality => 'fast'$$), 1e-12,
	'search_improvement is relative to the start');
SELECT cmp_ok(after_fit($$gkmeans_fit('grid', '{x,y}', 64, quality => 'good')$$, 'search_rounds')::int, '<=', 20, 'a search that finds nothing more ends soon');
-- auto goes by rows × k × (features + 8)
SELECT is(after_fit(format($$gkmeans_fit('SELECT 1 AS x, i AS y FROM generate_series(1, %s) i', '{x,y}', %s, max_iter => 1)$$, n, k), 'quality'), quality, format('auto, %s rows, k = %s', n, k))
FROM (VALUES (200000, 1000, 'best'), (200001, 1000, 'fast')) v(n, k, quality);
SELECT is(after_fit($$gkmeans_fit('grid', '{x,y}', initial_centroids => '{{0,0},{1,1}}')$$, 'quality'), 'fast', 'given centroids are not searched from');
SELECT fails_with($$SELECT * FROM gkmeans_fit('grid', '{x,y}', initial_centroids => '{{0,0},{1,1}}', quality => 'good')$$, '22023', 'a search from given centroids', hint => 'Leave out one');
SELECT fails_with($$SELECT * FROM gkmeans_fit('grid', '{x,y}', 3, quality => 'perfect')$$, '22023', 'another word', hint => '"auto", "fast", "good", "best"');

-- With large work, a search makes few passes over the rows.
CREATE TABLE large AS SELECT ARRAY(SELECT (noise(i % 1000, f) * 100 + noise(i, f + 50) * 30)::real FROM generate_series(1, 10) f) AS v FROM generate_series(1, 60000) i;
CREATE TABLE searches AS SELECT quality, string_to_array(btrim(after_fit(format($$gkmeans_fit('large', '{v}', 1000, quality => %L)$$, quality),
	'(iterations, search_rounds, inertia, converged)'), '()'), ',') AS facts FROM unnest('{fast,good}'::text[]) quality;
SELECT unnest(ARRAY[cmp_ok(5 * good.facts[2]::int, '<=', 11 * fast.facts[1]::int, 'the rounds make at most 11 times the steps of the start'),
	cmp_ok(good.facts[3]::float8, '<', 0.999 * fast.facts[3]::float8, 'they find better clusters'), is(good.facts[4], 't', 'the last iteration converges')])
FROM searches fast, searches good WHERE fast.quality = 'fast' AND good.quality = 'good';

-- `auto` makes fewer starts where several end alike, and where they take many steps, but all that it is asked for.
CREATE TABLE even AS SELECT i AS id, ARRAY[noise(i, 1), noise(i, 2)]::real[] AS v FROM generate_series(1, 120000) i;
SELECT count(*) FROM gkmeans_create_model('made_even', 'even', '{v}', 10);
SELECT count(*) FROM gkmeans_create_model('made_even_12', 'even', '{v}', 10, n_init => 12);
SELECT count(*) FROM gkmeans_create_model('made_grid', 'SELECT x, y FROM grid', '{x,y}', 64);
SELECT ok(max(start_no) BETWEEN 2 AND 11, 'auto makes ' || max(start_no) || ' starts') FROM gkmeans.iterations WHERE model LIKE '%.made_even';
SELECT is(max(start_no), 12, 'twelve starts that were asked for') FROM gkmeans.iterations WHERE model LIKE '%.made_even_12';
SELECT ok(max(start_no) BETWEEN 4 AND 16, max(start_no) || ' starts find the same clusters') FROM gkmeans.iterations WHERE model LIKE '%.made_grid';

-- Where `auto` has few steps, it fits a sample first if rows are many for their clusters (k = 20), and cuts the first start short (k = 300).
CREATE TABLE many AS SELECT ARRAY[hashint8extended(i, 1) & 65535, hashint8extended(i, 2) & 65535]::real[] AS v FROM generate_series(1, 150000) i;
CREATE FUNCTION fit_of_many(rows text, k int, quality text) RETURNS TABLE (f float8, digest text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT sum(inertia), md5(string_agg(f::text, '' '' ORDER BY cluster_id)) FROM gkmeans_fit(%L, ''{v}'', %s, quality => %L) f', rows, k, quality);
END $$;
CREATE TABLE fits_of_many AS SELECT k, f.*, after_fit(format($$gkmeans_fit('many', '{v}', %s)$$, k), '(quality, search_rounds > 0, converged)') AS facts
FROM unnest('{20,300}'::int[]) k, fit_of_many('many', k, 'auto') f;
SELECT is(facts, '(best,t,t)', 'k = ' || k || ': a search that converges') FROM fits_of_many;
SELECT cmp_ok(m.f, '<', 0.9995 * fast.f, 'k = ' || k || ': it finds better clusters') FROM fits_of_many m, fit_of_many('many', k, 'fast') fast;
SET LOCAL gkmeans.cpu_threads = 3;
SELECT is(other.digest, m.digest, 'k = ' || k || ': another order of the rows and three threads, the same bits') FROM fits_of_many m, fit_of_many('SELECT v FROM many ORDER BY v DESC', k, 'auto') other;
RESET gkmeans.cpu_threads;

-- The sample that is fitted first shares the memory of the fit: `best` searches as `auto` does, but fits no sample.
CREATE TEMP TABLE bytes_of_many AS SELECT quality, after_fit(format($$gkmeans_fit('many', '{v}', 20, max_iter => 1, quality => %L)$$, quality), 'host_bytes_peak')::bigint AS bytes
FROM unnest('{best,auto}'::text[]) quality WHERE current_setting('gkmeans.engine') <> 'cuda';
SELECT cmp_ok(sampled.bytes, '>', plain.bytes + 1000000, 'the sample counts') FROM bytes_of_many plain, bytes_of_many sampled WHERE plain.quality = 'best' AND sampled.quality = 'auto';
SELECT fails_with(format($$SET LOCAL gkmeans.host_memory_limit = '%skB'; SELECT * FROM gkmeans_fit('many', '{v}', 20, max_iter => 1)$$, bytes / 1024 - 1), '53200', 'the limit holds for both',
	NULL, NULL, 'gkmeans.host_memory_limit') FROM bytes_of_many WHERE quality = 'auto';

-- A model is made alike, and a search can be cancelled.
SELECT results_eq($$SELECT cluster_id, centroid, size, inertia FROM gkmeans_create_model('searched', 'grid', '{x,y}', 64, quality => 'good')$$,
	$$SELECT cluster_id, centroid, size, inertia FROM gkmeans_fit('grid', '{x,y}', 64, quality => 'good')$$, 'a model has the clusters of the fit');
CREATE TABLE noisy AS SELECT ARRAY(SELECT noise(i, f)::real FROM generate_series(1, 20) f) AS v FROM generate_series(1, 20000) i;
CREATE FUNCTION cancelled(query text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN false;
EXCEPTION WHEN query_canceled THEN
	RETURN true;
END $$;
SET LOCAL statement_timeout = 700;
SELECT ok(cancelled($$SELECT * FROM gkmeans_fit('noisy', '{v}', 200, n_init => 1000, quality => 'best')$$), 'a timeout ends a search');
SET LOCAL statement_timeout = 0;
SELECT nothing_left('nothing is left of a search that was cancelled');
SELECT * FROM finish();
ROLLBACK;
