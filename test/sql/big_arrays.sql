-- Arrays near the limit of 1 GB: refused by their size, before they are decompressed.
\ir helpers.psql

-- 120 million elements that compress to nothing: 960 MB once decompressed
CREATE TABLE big (id int, v float8[]);
INSERT INTO big VALUES (1, array_fill(1::float8, '{120000000}'));
SELECT cmp_ok(pg_column_size(v), '<', 100 * 1000 * 1000, 'the array is compressed in the table') FROM big;
SELECT fails_with($$SELECT * FROM gkmeans_fit('big', '{v}', 1)$$, '54000', 'an array of 960 MB', 'dimension|elements|features');
INSERT INTO big VALUES (0, '{1,2,3}');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT * FROM big ORDER BY id', '{v}', 1)$$, '22000', 'an array of 960 MB after one of 3 elements');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT * FROM big ORDER BY id DESC', '{v}', 1)$$, '54000', 'and before it');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'SELECT * FROM big ORDER BY id', '{v}', 1, id_column => 'id')$$, '22000', 'with ids');
-- only its size was read
SELECT cmp_ok((SELECT sum(total_bytes) FROM pg_backend_memory_contexts), '<', 500 * 1000 * 1000::numeric, 'nothing of that size is left');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT array_fill(1::numeric, ''{5000000}'') AS v', '{v}', 1)$$, '54000', 'a numeric array of 5 million elements');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT array_fill(NULL::float8, ''{100000000}'') AS v', '{v}', 1)$$, '54000', 'an array of 100 million NULLs');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT array_fill(1::smallint, ''{400000000}'') AS v', '{v}', 1)$$, '54000', 'an array of 400 million smallint');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 AS x', '{x}', 1, initial_centroids => array_fill(1::float8, '{1,5000000}'))$$, '22023', 'initial centroids of 40 MB');

-- An id of a great size
SELECT is((SELECT length(id) FROM gkmeans_fit_predict(NULL::text, 'SELECT repeat(''x'', 100000000) AS id, 1 AS x', '{x}', 1, id_column => 'id')), 100000000, 'an id of 100 MB');

SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT repeat(''x'', 540000000) AS a, repeat(''y'', 540000000) AS b', 'a', 'b')$$, '54000', 'labels of 540 MB each', 'the labels of a row have more than', NULL, 'md5');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('SELECT i AS x, repeat(''x'', 300000000) AS l FROM generate_series(1, 3) AS i', '{x}', 'l')$$, '54000', 'a label of 300 MB', 'an id or a label has more than');

-- The host memory limit; each thread takes some of it
SET LOCAL gkmeans.cpu_threads = 2;
SET LOCAL gkmeans.host_memory_limit = '1MB';
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT array_fill(i::real, ''{1000}'') AS v FROM generate_series(1, 2000) i', '{v}', 3)$$, '53200', 'over gkmeans.host_memory_limit',
	NULL, '[0-9]', 'gkmeans.host_memory_limit') WHERE current_setting('gkmeans.engine') <> 'cuda';
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT array_fill(i::real, ''{10}'') AS v FROM generate_series(1, 2000) i', '{v}', 3)), 2000, 'under gkmeans.host_memory_limit');
RESET gkmeans.host_memory_limit;
RESET gkmeans.cpu_threads;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
