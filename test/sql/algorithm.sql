-- Scale, metric, weights, inits, tol, max_iter: what they mean.
\ir helpers.psql

CREATE TABLE data AS
	SELECT i AS id, (i % 4) % 2 * 10 + noise(i, 1) AS x, (i % 4) / 2 * 10000 + 1000 * noise(i, 2) AS y, 5.0 AS constant, 1 + i % 3 AS w FROM generate_series(1, 800) i;

-- scale: the fit is that of the scaled columns, the centroids are in the user's units
CREATE TABLE standardised AS SELECT id, w, (x - avg(x) OVER ()) / stddev_pop(x) OVER () AS x, (y - avg(y) OVER ()) / stddev_pop(y) OVER () AS y FROM data;
CREATE TABLE ranged AS SELECT id, w, (x - min(x) OVER ()) / (max(x) OVER () - min(x) OVER ()) AS x, (y - min(y) OVER ()) / (max(y) OVER () - min(y) OVER ()) AS y FROM data;
SELECT is(
	(SELECT array_agg((id, cluster_id)::text ORDER BY id) FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 4, id_column => 'id', n_init => 8, scale => scale)),
	(SELECT array_agg((id, cluster_id)::text ORDER BY id) FROM gkmeans_fit_predict(NULL::int, scaled, '{x,y}', 4, id_column => 'id', n_init => 8)),
	format('scale %s: labels of the scaled columns', scale))
FROM (VALUES ('standard', 'standardised'), ('minmax', 'ranged')) v(scale, scaled);
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('data', '{x,y}', 4, n_init => 8, scale => scale)),
	(SELECT sum(inertia) FROM gkmeans_fit(scaled, '{x,y}', 4, n_init => 8)), 1e-5, format('scale %s: inertia of the scaled columns', scale))
FROM (VALUES ('standard', 'standardised'), ('minmax', 'ranged')) v(scale, scaled);
SELECT results_eq(format($$SELECT round(centroid[1]::numeric, 3), round(centroid[2]::numeric, 0) FROM gkmeans_fit('data', '{x,y}', 4, n_init => 8, scale => %L) ORDER BY 1, 2$$, scale),
	$$SELECT round(avg(x)::numeric, 3), round(avg(y)::numeric, 0) FROM data GROUP BY id % 4 ORDER BY 1, 2$$, format('scale %s: centroids are means in the units of the columns', scale))
FROM unnest('{standard,minmax}'::text[]) scale;
SELECT results_eq(format($$SELECT DISTINCT round(centroid[2]::numeric, 9), count(*) OVER () FROM gkmeans_fit('data', '{x,constant,y}', 4, n_init => 8, scale => %L)$$, scale),
	'VALUES (5.000000000, 4::bigint)', format('scale %s: a constant column does no harm', scale))
FROM unnest('{standard,minmax}'::text[]) scale;
SELECT is((SELECT (centroid, inertia)::text FROM gkmeans_fit('SELECT 3 AS x, 4 AS y FROM generate_series(1, 5)', '{x,y}', 1, scale => scale)), '("{3,4}",0)',
	format('scale %s: only constant columns', scale)) FROM unnest('{standard,minmax}'::text[]) scale;
-- given centroids are in the user's units as well
SELECT is((SELECT array_agg(size ORDER BY size)::text FROM gkmeans_fit('data', '{x,y}', 4, scale => scale, initial_centroids => '{{0,0},{10,0},{0,10000},{10,10000}}')),
	'{200,200,200,200}', format('scale %s: given centroids are in the units of the columns', scale)) FROM unnest('{standard,minmax}'::text[]) scale;
-- one feature a billion times the other
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit('SELECT x * 1e9 AS x, y / 1e4 AS y FROM data', '{x,y}', 4, n_init => 8, scale => 'standard')),
	'{200,200,200,200}', 'standard: one feature a billion times the other');
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('data', '{x,y}', 1, scale => 'standard')), 2 * 800, 1e-6, 'standard: the inertia of one cluster is d times n');

-- metric cosine: rays
CREATE TABLE rays AS
	SELECT i AS id, (1 + 100 * noise(i, 3)) * cos(angle) AS x, (1 + 100 * noise(i, 3)) * sin(angle) AS y, i % 3 AS ray
	FROM generate_series(1, 600) i, LATERAL (SELECT radians(120 * (i % 3) + 10 * noise(i, 4)) AS angle OFFSET 0) a;
SELECT results_eq($$SELECT count(*), min(ray) = max(ray) FROM gkmeans_fit_predict(NULL::int, 'rays', '{x,y}', 3, id_column => 'id', metric => 'cosine', n_init => 4) JOIN rays USING (id)
	GROUP BY cluster_id$$, 'SELECT 200::bigint, true FROM generate_series(1, 3)', 'cosine: rays, whatever the length');
SELECT ok(bool_and(abs(sqrt(centroid[1] ^ 2 + centroid[2] ^ 2) - 1) < 1e-12), 'cosine: centroids have the norm 1')
FROM gkmeans_fit('rays', '{x,y}', 3, metric => 'cosine');
SELECT ok(bool_and(abs(f.distance - (1 - (r.x * c.centroid[1] + r.y * c.centroid[2]) / sqrt(r.x ^ 2 + r.y ^ 2))) < 1e-6), 'cosine: the distance is 1 - cos')
FROM gkmeans_fit_predict(NULL::int, 'rays', '{x,y}', 3, id_column => 'id', metric => 'cosine') f
JOIN rays r USING (id) JOIN gkmeans_fit('rays', '{x,y}', 3, metric => 'cosine') c USING (cluster_id);
SELECT results_eq($$SELECT id, cluster_id IS NULL FROM gkmeans_fit_predict(NULL::int, 'VALUES (1, 0, 0), (2, 1, 0), (3, 0, 1)', '{column2,column3}', 2,
	id_column => 'column1', metric => 'cosine') ORDER BY id$$, 'VALUES (1, true), (2, false), (3, false)', 'cosine: a row of zeros has no direction and no cluster');
SELECT is((SELECT centroid::text FROM gkmeans_fit('VALUES (0, 1), (0, -1)', '{column1,column2}', metric => 'cosine', initial_centroids => '{{-1,-0}}')), '{-1,0}',
	'cosine: an initial centroid that stays, as its rows have no common direction, has no negative zero');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (0, 0), (1, 0)', '{column1,column2}', 1, metric => 'cosine', nulls => 'error')$$, '22023', 'cosine: an error if asked');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('rays', '{x,y}', 3, metric => 'cosine', scale => 'standard')$$, 'cosine of standardised columns');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('VALUES (1, 0), (2, 0), (3, 0), (0, 5)', '{column1,column2}', 4, metric => 'cosine')), 2, 'cosine: rows of one direction are one distinct row');

-- weights: none are integers twice over; the statistics are weighted, the size is not
SELECT ok(bool_and(abs(f.weight - s.weight) < 1e-9 AND f.size = s.rows AND abs(f.inertia / s.inertia - 1) < 1e-6 AND abs(f.avg_distance / s.average - 1) < 1e-6 AND abs(f.radius / s.radius - 1) < 1e-6),
	'weighted statistics are those that SQL finds')
FROM gkmeans_fit('data', '{x,y}', 4, weight_column => 'w', n_init => 8) f JOIN (
	SELECT cluster_id, sum(w) AS weight, count(*) AS rows, sum(w * distance ^ 2) AS inertia, sum(w * distance) / sum(w) AS average, max(distance) AS radius
	FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 4, id_column => 'id', weight_column => 'w', n_init => 8) JOIN data USING (id) GROUP BY 1) s USING (cluster_id);
SELECT is(fingerprint($$SELECT cluster_id, centroid, size FROM gkmeans_fit('data', '{x,y}', 4, weight_column => 'w', initial_centroids => '{{0,0},{10,0},{0,10000},{10,10000}}')$$),
	fingerprint($$SELECT cluster_id, centroid, size FROM gkmeans_fit('SELECT x, y, 1024 * w AS w FROM data', '{x,y}', 4, weight_column => 'w', initial_centroids => '{{0,0},{10,0},{0,10000},{10,10000}}')$$),
	'weights times 1024: the same centroids');

-- tol, max_iter, n_init
CREATE TABLE cloud AS SELECT i AS id, ARRAY(SELECT (noise(i, f) + noise(i, f + 100) + noise(i, f + 200))::real FROM generate_series(1, 10) f) AS v FROM generate_series(1, 5000) i;
SELECT is(after_fit($$gkmeans_fit('cloud', '{v}', 5, tol => 0, quality => 'fast')$$, 'iterations < 300 AND converged'), 'true', 'tol = 0 comes to an end before max_iter');
SELECT is(after_fit(format($$gkmeans_fit('cloud', '{v}', 5, max_iter => %s, quality => 'fast')$$, n), '(iterations, converged)'), format('(%s,f)', n), format('max_iter = %s', n))
FROM unnest('{1,2,3}'::int[]) n;
CREATE FUNCTION iterations_at(tol float8) RETURNS int LANGUAGE sql AS $$
	SELECT after_fit(format('gkmeans_fit(''cloud'', ''{v}'', 5, tol => %s, quality => ''fast'')', tol), 'iterations')::int
$$;
SELECT ok(iterations_at(1e-2) <= iterations_at(1e-4) AND iterations_at(1e-4) <= iterations_at(0), 'a smaller tol, more iterations');
SELECT ok((SELECT sum(inertia) FROM gkmeans_fit('cloud', '{v}', 20, n_init => 5, quality => 'fast')) <= (SELECT sum(inertia) FROM gkmeans_fit('cloud', '{v}', 20, quality => 'fast')), 'the best of 5 is no worse than the first');
SELECT ok((SELECT sum(inertia) FROM gkmeans_fit('cloud', '{v}', 20, max_iter => n + 1, tol => 0, quality => 'fast')) <= (SELECT sum(inertia) FROM gkmeans_fit('cloud', '{v}', 20, max_iter => n, tol => 0, quality => 'fast')),
	format('iteration %s does not raise the inertia', n + 1)) FROM generate_series(1, 8) n;
-- seeding: k-means|| and k-means++ find well separated groups that random rows often miss
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT (i % 25) * 1000 + noise(i, 9) AS x FROM generate_series(1, 5000) i', '{x}', 25, init => init, n_init => 4) WHERE size = 200), 25,
	format('%s finds 25 groups', init)) FROM unnest('{k-means||,k-means++}'::text[]) init;
SELECT is((SELECT count(DISTINCT x)::int FROM (SELECT centroid[1] AS x FROM gkmeans_fit('SELECT i AS x FROM generate_series(1, 100) i', '{x}', 100, init => init)) c), 100,
	format('%s with k = n draws every row once', init)) FROM unnest('{k-means||,k-means++,random}'::text[]) init;
-- more numbers than k-means|| merges in reasonable time: many points at a time are drawn instead, until there are no others
CREATE TABLE five AS SELECT i, array_fill((i * i)::real, '{65535}') AS v FROM generate_series(1, 5) i;
SELECT is((SELECT array_agg(centroid[65535] || ' ' || size ORDER BY size) FROM gkmeans_fit('SELECT v FROM five, generate_series(1, 15 + 2 * i)', '{v}', 50, init => init, max_iter => 1, quality => 'fast')),
	'{"1 17","4 19","9 21","16 23","25 25"}', format('%s finds five different rows of many features', init)) FROM unnest('{k-means||,k-means++}'::text[]) init;

-- large k
SELECT is((SELECT (count(*), sum(size))::text FROM gkmeans_fit('SELECT noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 6000) i', '{x,y}', 2000, max_iter => 3)), '(2000,6000)', 'k = 2000');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
