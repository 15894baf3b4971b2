-- A session that reads alone moves the first rows into the engine itself, and a thread the others: the rows, ids and errors are those of workers.
\ir helpers.psql

CREATE TABLE many AS SELECT i AS id, (i * 7919 % 10007)::float8 / 7 AS a, 1e7 + i % 1000 AS b, sin(i) AS c, NULLIF(i % 13, 5)::real AS d,
	1 + i % 3 AS w, ARRAY[sin(i), cos(i), i % 17, 1, 2]::real[] AS v FROM generate_series(1, 150000) i;
ANALYZE many;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
CREATE FUNCTION clusters(source text, features text, weight text, workers text) RETURNS text LANGUAGE sql
SET max_parallel_workers_per_gather FROM CURRENT AS $$
	SELECT set_config('max_parallel_workers_per_gather', workers, true);
	SELECT string_agg(f::text, ' ' ORDER BY cluster_id) FROM gkmeans_fit(source, features::text[], 7, weight_column => weight, scale => 'standard',
		nulls => 'skip', quality => 'fast') f
$$;
-- 100 rows, 2 MB of rows and a little more, and 3 MB of them
SELECT is(clusters(source, features, weight, '0'), clusters(source, features, weight, '2'), format('%s, %s, %s', source, features, weight))
FROM unnest(ARRAY['SELECT * FROM many WHERE id <= 100', 'SELECT * FROM many WHERE id <= 131073', 'many']) source,
	unnest(ARRAY['{a,b,c,d}', '{v}']) features, unnest(ARRAY[NULL, 'w']) weight;
CREATE FUNCTION labels(workers text) RETURNS text LANGUAGE sql SET max_parallel_workers_per_gather FROM CURRENT AS $$
	SELECT set_config('max_parallel_workers_per_gather', workers, true);
	SELECT md5(string_agg(f::text, ' ' ORDER BY id)) FROM gkmeans_fit_predict(NULL::int, 'many', '{v}', 7, id_column => 'id', quality => 'fast') f
$$;
-- others may have taken all workers
CREATE FUNCTION by_workers() RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	FOR i IN 1..100 LOOP
		result := labels('2');
		EXIT WHEN (SELECT workers FROM gkmeans_last_fit()) > 0;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN result;
END $$;
SELECT is(labels('0'), by_workers(), 'the labels of all ids');
SELECT cmp_ok((SELECT workers FROM gkmeans_last_fit()), '>', 0, 'there were workers');
SELECT nothing_left('nothing is left');

-- The engine's error is that of the fit, whoever moves the rows.
SET LOCAL max_parallel_workers_per_gather = 0;
SELECT fails_with(format($$SET LOCAL gkmeans.host_memory_limit = '%s'; SELECT * FROM gkmeans_fit('many', '{v}', 3)$$, limit_), '53200', format('over a limit of %s', limit_),
	NULL, '[0-9]', 'gkmeans.host_memory_limit') FROM unnest(ARRAY['1MB', '2500kB']) limit_ WHERE current_setting('gkmeans.engine') <> 'cuda';
SELECT nothing_left('nothing is left after an error');
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('many', '{v}', 3)), 150000, 'a fit after it');

SELECT * FROM finish();
ROLLBACK;
