-- Small cases that can be followed by hand, most of them from the test suites of other implementations.
\ir helpers.psql

-- scikit-learn, test_kmeans_results
CREATE TABLE corner (id int, x float8, y float8, w float8);
INSERT INTO corner VALUES (1, 0, 0, 3), (2, 0.5, 0, 1), (3, 0.5, 1, 1), (4, 1, 1, 3);
SELECT results_eq($$SELECT cluster_id, centroid, size, weight, inertia FROM gkmeans_fit('corner', '{x,y}', 2,
		weight_column => 'w', initial_centroids => '{{0,0},{1,1}}')$$,
	$$VALUES (0, '{0.125,0}'::float8[], 2::bigint, 4::float8, 0.1875::float8), (1, '{0.875,1}', 2, 4, 0.1875)$$,
	'weighted example: centroids and inertia');
SELECT is((SELECT iterations FROM gkmeans_last_fit()), 2, 'weighted example: 2 iterations');
SELECT results_eq($$SELECT id, cluster_id FROM gkmeans_fit_predict(NULL::int, 'corner', '{x,y}', 2,
		id_column => 'id', weight_column => 'w', initial_centroids => '{{0,0},{1,1}}') ORDER BY id$$,
	'VALUES (1, 0), (2, 0), (3, 1), (4, 1)', 'weighted example: labels');

-- scikit-learn, test_kmeans_relocated_clusters
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('corner', '{x,y}', 2, initial_centroids => '{{0.5,0.5},{3,3}}')$$,
	$$VALUES ('{0.75,1}'::float8[], 2::bigint), ('{0.25,0}', 2)$$, 'relocated example: centroids');
SELECT is((SELECT (inertia, iterations)::text FROM gkmeans_last_fit()), '(0.25,3)', 'relocated example: inertia, 3 iterations');

-- scikit-learn, test_kmeans_empty_cluster_relocated
SELECT results_eq($$SELECT centroid FROM gkmeans_fit('VALUES (-1, 1.9), (1, 0.1)', '{column1}', 2,
		weight_column => 'column2', initial_centroids => '{{-1},{10}}')$$,
	$$VALUES ('{-1}'::float8[]), ('{1}')$$, 'an empty cluster takes the farthest row');

-- scikit-learn, test_relocate_empty_clusters: one iteration shows where the two empty clusters went
CREATE TABLE line (x float8);
INSERT INTO line VALUES (-10), (-9.5), (-9), (-8.5), (-8), (-1), (1), (9), (9.5), (10);
SELECT results_eq($$SELECT cluster_id, round(centroid[1]::numeric, 6) FROM gkmeans_fit('line', '{x}', 3,
		initial_centroids => '{{-10},{-10},{-10}}', max_iter => 1) ORDER BY centroid[1]$$,
	$$SELECT * FROM (VALUES (0, -4.5), (2, 9.5), (1, 10)) v(i, c)$$, 'two empty clusters take the two farthest rows');

-- scikit-learn #28055: a relocation among duplicates must come to an end
SELECT lives_ok($$SELECT * FROM gkmeans_fit(
		'VALUES (100, 100), (100, 102), (106, 100), (107, 101), (107, 101), (108, 100)', '{column1,column2}', 6,
		initial_centroids => '{{100,100},{100,102},{106,100},{107,101},{107,101},{108,100}}', tol => 0)$$,
	'six clusters of six rows with a duplicate come to an end');
SELECT ok((SELECT iterations < 300 FROM gkmeans_last_fit()), '... before max_iter');
SELECT is((SELECT inertia FROM gkmeans_last_fit()), 0::float8, '... with inertia 0');

-- An iteration moves the row 15 to the third cluster, though no label changes: it is not the last one
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('VALUES (15, 1), (39, 1), (11, 10), (39, 1), (14, 10)', '{column1}',
		weight_column => 'column2', initial_centroids => '{{45},{11},{56}}', tol => 0)$$,
	$$VALUES ('{39}'::float8[], 2::bigint), ('{11}', 1), (ARRAY[155 / 11.0::float8], 2)$$, 'every centroid is the mean of its rows');
SELECT ok(converged, '... at the end of the iterations') FROM gkmeans_last_fit();

-- Rows that are large, and a step of real apart, may move as any others; all of these are reals
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('VALUES (1000000000::float8), (1000000064), (1000000128), (0), (10)', '{column1}',
		initial_centroids => '{{1000000064},{5},{-1e15}}', tol => 0)$$,
	$$VALUES ('{1000000032}'::float8[], 2::bigint), ('{5}', 2), ('{1000000128}', 1)$$, 'a row a step of real away moves to an empty cluster');
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('VALUES (1000000000::float8), (1000000064), (0), (1), (2), (3)', '{column1}',
		initial_centroids => '{{1000000032},{1.5},{-5e9}}')$$,
	$$VALUES ('{1000000064}'::float8[], 1::bigint), ('{1.5}', 4), ('{1000000000}', 1)$$, 'so it does with the default tolerance');
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('VALUES (1e18::float8), (1e18 + 128), (1e18 + 256)', '{column1}',
		initial_centroids => '{{1000000000000000128},{1000000000000000256},{5e17}}', max_iter => 2)$$,
	$$VALUES (ARRAY[1e18::float8 + 128], 1::bigint), (ARRAY[1e18::float8 + 256], 1), (ARRAY[1e18::float8], 1)$$, 'and one a step of double away from a given centroid');

-- Equal rows that rounding keeps farther from their centroid than others are from theirs
CREATE TABLE hidden AS SELECT 1e9 / 3 AS x, (ARRAY[0.1, 7.3, 1 / 3.0])[1 + i % 3]::float8 AS w FROM generate_series(1, 1000) i UNION ALL VALUES (0, 1), (1e-9, 1);
SELECT is(count(*), 3::bigint, 'do not hide these') FROM gkmeans_fit('hidden', '{x}', weight_column => 'w', initial_centroids => '{{1},{333333333},{-1e15}}', tol => 0);

-- A feature in which a value leaves no digits for the others
SELECT is(count(*), 3::bigint, 'a row that no centroid of its own would be nearer to') FROM gkmeans_fit('VALUES (1e36::float8, -7.39::float8), (14.42, -20.68), (12.47, -12.28)', '{column1,column2}',
		initial_centroids => '{{-1e36,-7.11},{-1e36,-10.96},{-1e36,-7.24},{12.88,-12.35}}', tol => 0);
SELECT ok(converged AND iterations < 10, 'does not move for ever: ' || iterations) FROM gkmeans_last_fit();

-- scikit-learn #25527: weights of very different size
SELECT results_eq($$SELECT centroid FROM gkmeans_fit('VALUES (1, 1e8), (2, 1e-8), (5, 1e8)', '{column1}', 2,
		weight_column => 'column2', n_init => 10)$$,
	$$VALUES ('{1}'::float8[]), ('{5}')$$, 'a row of weight 1e-8 does not move a centroid of weight 1e8');
SELECT results_eq($$SELECT round(centroid[1]::numeric, 12) FROM gkmeans_fit('VALUES (1, 1e-8), (2, 1e-8), (5, 1e-8)', '{column1}', 2,
		weight_column => 'column2', n_init => 10)$$,
	$$VALUES (1.500000000000), (5.000000000000)$$, 'weights of 1e-8 alone count as any other');

-- scikit-learn, test_k_means_1_iteration: what one iteration gives, assigned once more
SELECT results_eq($$SELECT id, cluster_id FROM gkmeans_fit_predict(NULL::int, 'SELECT * FROM (VALUES (1, 0), (2, 4), (3, 5), (4, 20)) v(id, x)',
		'{x}', 2, id_column => 'id', initial_centroids => '{{0},{6}}', max_iter => 1) ORDER BY id$$,
	'VALUES (1, 0), (2, 0), (3, 1), (4, 1)', 'labels of a fit that did not converge follow the returned centroids');
SELECT ok(NOT converged AND iterations = 1, 'a fit that is cut short says so') FROM gkmeans_last_fit();

-- scikit-learn, test_kmeans_init_fitted_centers: the optimum is a fixed point
SELECT is((SELECT array_agg(centroid ORDER BY cluster_id) FROM gkmeans_fit('line', '{x}', 3,
		initial_centroids => (SELECT array_agg(centroid ORDER BY cluster_id) FROM gkmeans_fit('line', '{x}', 3, n_init => 10)))),
	(SELECT array_agg(centroid ORDER BY cluster_id) FROM gkmeans_fit('line', '{x}', 3, n_init => 10)),
	'a fit from its own centroids gives them again');
SELECT ok((SELECT iterations <= 2 FROM (SELECT gkmeans_fit('line', '{x}', 3,
		initial_centroids => '{{-9},{0},{9.5}}')) f, gkmeans_last_fit() LIMIT 1), 'and takes at most two iterations');

-- sklearnex #25: differences in the fourth digit of float32
SELECT near(sum(inertia), 4.0013276e-8, 1e-6, 'an inertia of 4e-8 is exact to float32 rows')
FROM gkmeans_fit('SELECT unnest(''{1.0001,0.9999,-1.0001,-0.9999}''::real[]) AS x', '{x}', 2, n_init => 4);

-- umitanuki: k above the number of rows
CREATE TABLE forty AS SELECT i AS id, noise(i, 1)::real AS x, noise(i, 2)::real AS y FROM generate_series(1, 40) i;
SELECT is(count(*), 40::bigint, 'k = 75 over 40 rows gives 40 clusters') FROM gkmeans_fit('forty', '{x,y}', 75);
SELECT is((SELECT k_effective::int FROM gkmeans_last_fit()), 40, 'gkmeans_last_fit tells how many clusters came out');
SELECT results_eq($$SELECT count(DISTINCT cluster_id), max(distance) FROM gkmeans_fit_predict(NULL::int, 'forty', '{x,y}', 75, id_column => 'id')$$,
	'VALUES (40::bigint, 0::float8)', 'and every row its own');
SELECT results_eq($$SELECT count(*) FROM gkmeans_fit('forty', '{x,y}', 3, initial_centroids => '{{0,0},{1,.5},{-1,-.5}}')$$,
	'VALUES (3::bigint)', 'given centroids, one of them far away');

-- k = n, k = 1, n = 1, all rows equal
SELECT results_eq($$SELECT size, inertia FROM gkmeans_fit('forty', '{x,y}', 40)$$,
	'SELECT 1::bigint, 0::float8 FROM generate_series(1, 40)', 'k = n: one row a cluster');
SELECT results_eq($$SELECT round(centroid[1]::numeric, 6), size FROM gkmeans_fit('forty', '{x}', 1)$$,
	'SELECT round(avg(x::float8)::numeric, 6), 40::bigint FROM forty', 'k = 1: the mean');
SELECT results_eq($$SELECT cluster_id, centroid, size, inertia, avg_distance, radius FROM gkmeans_fit('VALUES (3.5, -7)', NULL, 1)$$,
	$$VALUES (0, '{3.5,-7}'::float8[], 1::bigint, 0::float8, 0::float8, 0::float8)$$, 'n = 1');
SELECT results_eq(format($$SELECT cluster_id, centroid, size, inertia FROM gkmeans_fit('SELECT 7::int AS x, 2.5::float8 AS y FROM generate_series(1, 1000)',
		'{x,y}', 5, init => %L)$$, init),
	$$VALUES (0, '{7,2.5}'::float8[], 1000::bigint, 0::float8)$$, format('all rows equal: one cluster (%s)', init))
FROM unnest('{k-means||,k-means++,random}'::text[]) init;
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('SELECT 7::int AS x FROM generate_series(1, 10)', '{x}', 2,
		initial_centroids => '{{0},{100}}')$$,
	$$VALUES ('{7}'::float8[], 10::bigint)$$, 'all rows equal, given centroids: one cluster');
SELECT results_eq($$SELECT cluster_id, size FROM gkmeans_fit('SELECT i % 4 AS x FROM generate_series(0, 99) i', '{x}', 4)$$,
	'SELECT i, 25::bigint FROM generate_series(0, 3) i', 'as many clusters as distinct rows');

-- Ids go by size, then by centroid.
SELECT results_eq($$SELECT cluster_id, centroid, size FROM gkmeans_fit('SELECT unnest(''{9,9,1,1,5,5,5}''::int[]) AS x', '{x}', 3)$$,
	$$VALUES (0, '{5}'::float8[], 3::bigint), (1, '{1}', 2), (2, '{9}', 2)$$, 'ids go by size, ties by centroid');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
