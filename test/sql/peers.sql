-- Cases that other databases test: MADlib, PostGIS, HeavyDB, PGPU, ClickHouse.
\ir helpers.psql

-- MADlib, the example of its documentation
CREATE TABLE km_sample (pid int, points float8[]);
INSERT INTO km_sample VALUES
	(1, '{14.23,1.71,2.43,15.6,127,2.8,3.06,0.28,2.29,5.64,1.04,3.92,1065}'),
	(2, '{13.2,1.78,2.14,11.2,1,2.65,2.76,0.26,1.28,4.38,1.05,3.49,1050}'),
	(3, '{13.16,2.36,2.67,18.6,101,2.8,3.24,0.3,2.81,5.6799,1.03,3.17,1185}'),
	(4, '{14.37,1.95,2.5,16.8,113,3.85,3.49,0.24,2.18,7.8,0.86,3.45,1480}'),
	(5, '{13.24,2.59,2.87,21,118,2.8,2.69,0.39,1.82,4.32,1.04,2.93,735}'),
	(6, '{14.2,1.76,2.45,15.2,112,3.27,3.39,0.34,1.97,6.75,1.05,2.85,1450}'),
	(7, '{14.39,1.87,2.45,14.6,96,2.5,2.52,0.3,1.98,5.25,1.02,3.58,1290}'),
	(8, '{14.06,2.15,2.61,17.6,121,2.6,2.51,0.31,1.25,5.05,1.06,3.58,1295}'),
	(9, '{14.83,1.64,2.17,14,97,2.8,2.98,0.29,1.98,5.2,1.08,2.85,1045}'),
	(10, '{13.86,1.35,2.27,16,98,2.98,3.15,0.22,1.85,7.2199,1.01,3.55,1045}');
SELECT near(sum(inertia), 151184.962671616, 1e-7, 'MADlib''s sample: the global optimum')
FROM gkmeans_fit('km_sample', '{points}', 2, n_init => 32);
SELECT set_eq($$SELECT array_agg(pid ORDER BY pid) FROM gkmeans_fit_predict(NULL::int, 'km_sample', '{points}', 2,
		id_column => 'pid', n_init => 32) f(pid) GROUP BY cluster_id$$,
	$$VALUES ('{1,2,5,9,10}'::int[]), ('{3,4,6,7,8}')$$, 'MADlib''s sample: its members');
SELECT near(sum(inertia), 153560.858466013, 1e-7, 'MADlib''s run: the local optimum of its manual')
FROM gkmeans_fit('km_sample', '{points}', 2, initial_centroids => (
	SELECT array_agg(c) FROM (SELECT array_agg(a ORDER BY i) AS c FROM (
		SELECT pid IN (4, 6, 7, 8) AS part, i, avg(p) AS a FROM km_sample, unnest(points) WITH ORDINALITY u(p, i)
		GROUP BY 1, 2) means GROUP BY part) centroids));
-- MADlib's test: the last row is NULL, the first centroid far from all rows
UPDATE km_sample SET points = NULL WHERE pid = 10;
SELECT is(sum(size)::int, 9, 'MADlib''s test: a NULL row is left out') FROM gkmeans_fit('km_sample', '{points}', 2);
SELECT is((SELECT (rows_read, rows_skipped)::text FROM gkmeans_last_fit()), '(10,1)', 'and counted');
SELECT results_eq($$SELECT cluster_id IS NULL, distance IS NULL FROM gkmeans_fit_predict(NULL::int, 'km_sample', '{points}', 2,
		id_column => 'pid') f WHERE id = 10$$, 'VALUES (true, true)', 'its label is NULL');

-- MADlib's test of simple silhouettes: a centroid of ones, and the first row
SELECT gkmeans_import_model('madlib', (SELECT ARRAY[array_fill(1::float8, '{13}'), points] FROM km_sample WHERE pid = 1));
SELECT is(row(s.cluster_id, s.second_cluster_id)::text, CASE WHEN pid < 10 THEN '(1,0)' ELSE '(,)' END, 'MADlib''s row ' || pid || ' is nearer to the first row') FROM km_sample k, LATERAL gkmeans_score('madlib', k.points) s;
SELECT ok(s.silhouette IS NULL AND v IS NULL OR abs(s.silhouette - v) <= 1e-4, 'its silhouette') FROM km_sample k, LATERAL gkmeans_score('madlib', k.points) s,
	LATERAL (SELECT ('{1,.8789,.8966,.7200,.5560,.7348,.8242,.8229,.9655,NULL}'::float8[])[pid]) e(v);
-- PostGIS, cluster.sql: duplicates, NULLs, as many clusters as points, grids, weights
SELECT is(count(*), 1::bigint, 'all points equal: one cluster')
FROM gkmeans_fit('SELECT 1.0::float8 AS x, 2.0::float8 AS y FROM generate_series(1, 10)', '{x,y}', 3);
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT NULL::float8 AS x FROM generate_series(1, 5)', '{x}', 2)$$,
	'22023', 'all rows NULL: an error');
SELECT is(count(DISTINCT cluster_id), 25::bigint, '5 x 5 grid, k = 25: 25 clusters')
FROM gkmeans_fit_predict(NULL::int, 'SELECT 5 * x + y AS id, x, y FROM generate_series(1, 5) x, generate_series(1, 5) y',
	'{x,y}', 25, id_column => 'id');
SELECT ok(min(size) BETWEEN 16 AND 25, '45 x 45 grid, k = 81: the smallest cluster has 16 to 25 points')
FROM gkmeans_fit('SELECT x, y FROM generate_series(1, 45) x, generate_series(1, 45) y', '{x,y}', 81, initial_centroids => (
	SELECT array_agg(ARRAY[5 * x - 2, 5 * y - 2]::float8[]) FROM generate_series(1, 9) x, generate_series(1, 9) y));
SELECT ok(min(size) >= 5 AND count(*) = 81, '45 x 45 grid, k = 81, seeded: 81 clusters, none of them tiny')
FROM gkmeans_fit('SELECT x, y FROM generate_series(1, 45) x, generate_series(1, 45) y', '{x,y}', 81);
SELECT results_eq($$SELECT round(centroid[1]::numeric, 9), weight FROM gkmeans_fit('VALUES (0, 1), (1, 1), (2, 10000)', '{column1}', 1,
	weight_column => 'column2')$$, 'SELECT round(20001 / 10002.0, 9), 10002::float8', 'a heavy point pulls the centroid');

-- HeavyDB: iris as integers, every k from 1 to 9, purity
\set iris `cat data/iris.csv`
CREATE TABLE iris AS
	SELECT f[1]::int AS id, ARRAY(SELECT (10 * v::numeric)::int FROM unnest(f[2:5]) v) AS tenths, f[6] AS species FROM csv_lines(:'iris') f;
SELECT is((SELECT (count(DISTINCT cluster_id), count(*))::text FROM gkmeans_fit_predict(NULL::int, 'iris', '{tenths}', k, id_column => 'id')),
	format('(%s,150)', k), format('iris as int[], k = %s: as many clusters, every row', k))
FROM generate_series(1, 9) k;
SELECT cmp_ok((SELECT sum(most) FROM (SELECT DISTINCT ON (cluster_id) count(*) AS most
		FROM gkmeans_fit_predict(NULL::int, 'iris', '{tenths}', 3, id_column => 'id', n_init => 16) JOIN iris USING (id)
		GROUP BY cluster_id, species ORDER BY cluster_id, 1 DESC) largest), '>=', 120::numeric, 'iris, k = 3: purity of 0.8 or more');

-- PGPU: 100 distinct vectors, 1000 copies of each: all are found
CREATE TABLE copies AS
	SELECT ARRAY(SELECT (10 * noise(v, f))::real FROM generate_series(1, 2000) f) AS v FROM generate_series(1, 100) v;
SELECT results_eq($$SELECT count(*), min(size), max(size), sum(inertia) FROM gkmeans_fit(
		'SELECT v FROM copies, generate_series(1, 1000)', '{v}', 100)$$,
	'VALUES (100::bigint, 1000::bigint, 1000::bigint, 0::float8)', '100 distinct vectors, 1000 copies each: all 100 found');

-- ClickHouse #119117: far from the origin
CREATE TABLE tight AS
	SELECT i AS id, (i % 4) % 2 * 10 + noise(i, 1) AS x, (i % 4) / 2 * 10 + noise(i, 2) AS y FROM generate_series(1, 400) i;
SELECT results_eq(format($$SELECT array_agg(id ORDER BY id)::text FROM gkmeans_fit_predict(NULL::int,
		'SELECT id, x + %s AS x, y - %s AS y FROM tight', '{x,y}', 4, id_column => 'id', n_init => 4) f
		GROUP BY cluster_id ORDER BY 1$$, offset_by, offset_by),
	$$SELECT array_agg(id ORDER BY id)::text FROM tight GROUP BY id % 4 ORDER BY 1$$,
	format('four groups at an offset of %s', offset_by))
FROM unnest('{0,1e3,1e5,1e6,1e9}'::float8[]) offset_by;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
