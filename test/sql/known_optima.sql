-- Real data with known best clusterings.
\ir helpers.psql
\set iris `cat data/iris.csv`
\set ruspini `cat data/ruspini.csv`
\set wine `cat data/wine.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS sepal_length, f[3]::float8 AS sepal_width, f[4]::float8 AS petal_length, f[5]::float8 AS petal_width
	FROM csv_lines(:'iris') f;
CREATE TABLE ruspini AS SELECT f[1]::int AS id, f[2]::float8 AS x, f[3]::float8 AS y FROM csv_lines(:'ruspini') f;
CREATE TABLE wine AS SELECT f[1]::int AS id, f[2:14]::float8[] AS v FROM csv_lines(:'wine') f;
SELECT is(count(*), 150::bigint, 'iris has its rows') FROM iris;
SELECT is(count(*), 75::bigint, 'ruspini has its rows') FROM ruspini;
SELECT is(count(*), 178::bigint, 'wine has its rows') FROM wine;

-- iris; rows are float32, so inertia is that of the rounded rows
CREATE TABLE iris_fit AS
	SELECT * FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16);
SELECT near(sum(inertia), 78.8514414261, 1e-7, 'iris, k = 3: the best inertia') FROM iris_fit;
SELECT near(sum(inertia), (SELECT sum(nearest) FROM (SELECT min((SELECT sum((v - c) ^ 2) FROM
		unnest(ARRAY[sepal_length, sepal_width, petal_length, petal_width]::real[]::float8[], centroid) u(v, c))) AS nearest
	FROM iris, iris_fit GROUP BY id) rounded), 1e-14, 'iris, k = 3: the inertia of rows rounded to real, to the last digits') FROM iris_fit;
SELECT is(array_agg(size ORDER BY cluster_id), '{62,50,38}'::bigint[], 'iris, k = 3: the sizes') FROM iris_fit;
SELECT is(array_agg(cluster_id ORDER BY cluster_id), '{0,1,2}'::int[], 'iris: cluster ids count from 0') FROM iris_fit;
SELECT is(array_agg(round(c::numeric, 4) ORDER BY n), '{5.9016,2.7484,4.3935,1.4339}'::numeric[],
	'iris, k = 3: the centroid of the largest cluster')
FROM iris_fit, unnest(centroid) WITH ORDINALITY u(c, n) WHERE cluster_id = 0;
SELECT is(array_agg(round(c::numeric, 3) ORDER BY n), '{5.006,3.428,1.462,0.246}'::numeric[],
	'iris, k = 3: the centroid of setosa')
FROM iris_fit, unnest(centroid) WITH ORDINALITY u(c, n) WHERE cluster_id = 1;
SELECT near((SELECT inertia FROM gkmeans_last_fit()), 78.8514414261, 1e-7, 'gkmeans_last_fit tells the inertia');
SELECT is((SELECT rows_read FROM gkmeans_last_fit()), 150::bigint, 'gkmeans_last_fit tells the rows');
SELECT ok((SELECT converged FROM gkmeans_last_fit()), 'gkmeans_last_fit tells that it converged');
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('iris',
	'{sepal_length,sepal_width,petal_length,petal_width}', k, n_init => 64)), best, 1e-2,
	format('iris, k = %s: within 1 %% of the best known', k))
FROM (VALUES (2, 152.34795176), (4, 57.2284732143), (5, 46.4461820513), (6, 39.0399872461)) known(k, best);
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('SELECT sepal_length, sepal_width, petal_length, petal_width FROM iris',
	k => 3, n_init => 16, init => init)), 78.8514414261, 1e-7, format('iris, k = 3 with %s', init))
FROM unnest('{k-means||,k-means++,random}'::text[]) init;
SELECT near((SELECT inertia FROM gkmeans_last_fit()), 139.82049636, 1e-7, 'iris standardised, k = 3')
FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16, scale => 'standard') LIMIT 1;

-- Distances, sizes and radius agree with one another.
CREATE TABLE iris_labels AS
	SELECT * FROM gkmeans_fit_predict(NULL::int, 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3,
		id_column => 'id', n_init => 16);
SELECT results_eq(
	'SELECT cluster_id, count(*), round(max(distance)::numeric, 9), round(avg(distance)::numeric, 9),
		round(sum(distance ^ 2)::numeric, 9) FROM iris_labels GROUP BY 1 ORDER BY 1',
	'SELECT cluster_id, size, round(radius::numeric, 9), round(avg_distance::numeric, 9),
		round(inertia::numeric, 9) FROM iris_fit ORDER BY 1',
	'the labels add up to the clusters');
SELECT is(count(*)::int, 150, 'every row has the centroid that SQL finds nearest')
FROM iris JOIN iris_labels l USING (id), LATERAL (
	SELECT cluster_id, sqrt((sepal_length - centroid[1]) ^ 2 + (sepal_width - centroid[2]) ^ 2
		+ (petal_length - centroid[3]) ^ 2 + (petal_width - centroid[4]) ^ 2) AS distance
	FROM iris_fit ORDER BY 2, 1 LIMIT 1) nearest
WHERE l.cluster_id = nearest.cluster_id AND abs(l.distance - nearest.distance) < 1e-6;

-- ruspini
SELECT results_eq(
	$$SELECT size FROM gkmeans_fit('ruspini', '{x,y}', 4, n_init => 16)$$, '{23,20,17,15}'::bigint[],
	'ruspini, k = 4: the sizes');
SELECT near((SELECT inertia FROM gkmeans_last_fit()), 12881.0512361, 1e-9, 'ruspini, k = 4: the best inertia');
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('ruspini', '{x,y}', k, n_init => 32)), best, 1e-2,
	format('ruspini, k = %s: within 1 %% of the best known', k))
FROM (VALUES (2, 89337.8321429), (3, 51063.4750457), (5, 10126.7197882)) known(k, best);

-- wine
SELECT results_eq(
	$$SELECT size FROM gkmeans_fit('wine', '{v}', 3, n_init => 16)$$,
	'{69,62,47}'::bigint[], 'wine, k = 3: the sizes');
SELECT near((SELECT inertia FROM gkmeans_last_fit()), 2370689.68678, 1e-9, 'wine, k = 3: the best inertia');
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('wine', '{v}', 3,
	n_init => 16, scale => 'standard')), 1277.92848884, 1e-7, 'wine standardised, k = 3');

-- 1000 groups of 10 rows, not too far from each other: k-means|| finds each of them
CREATE TABLE groups AS
	SELECT g, ARRAY(SELECT abs(hashint4(g * 16 + j)) % 1000 + abs(hashint4(1000000 + i * 16 + j)) % 1000 / 12.0 FROM generate_series(0, 15) j)::real[] AS v
	FROM generate_series(0, 9999) i, LATERAL (SELECT i % 1000 AS g) g;
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('groups', '{v}', 1000, quality => 'fast', seed => seed)),
	(SELECT sum(v) FROM (SELECT var_pop(v[j]::float8) * count(*) AS v FROM groups, generate_series(1, 16) j GROUP BY g, j) v), 1e-6, format('no group is missed from seed %s', seed))
FROM generate_series(0, 2) seed;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
