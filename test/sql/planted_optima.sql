-- Clusters of very unequal sizes in many features: every seed finds the planted ones, by default.
\ir helpers.psql

-- Cluster c has sizes[c] rows; the centers are spread as far as the rows of a cluster, in each feature.
CREATE FUNCTION plant(sizes int[], features int, spread float8)
RETURNS TABLE (cluster int, v real[]) LANGUAGE sql AS $$
	SELECT c::int, ARRAY(SELECT (noise(c, f) * spread + noise(c * 1000 + i, f + features))::real FROM generate_series(1, features) f)
	FROM unnest(sizes) WITH ORDINALITY AS clusters(size, c), generate_series(1, size) i
$$;
CREATE TABLE planted AS
	SELECT name, p.* FROM (VALUES
		('50 of 10 to 108 rows, 64 features', ARRAY(SELECT 10 + 2 * c FROM generate_series(0, 49) c), 64, 0.8),
		('20 of 8 to 274 rows, 256 features', ARRAY(SELECT (8 * 1.2 ^ c)::int FROM generate_series(0, 19) c), 256, 0.5),
		('150 of 6 rows, 64 features', array_fill(6, ARRAY[150]), 64, 1.0)) sets(name, sizes, features, spread), plant(sizes, features, spread) p;
CREATE TABLE known AS
	SELECT name, k, sum(within) AS inertia FROM (
		SELECT name, sum(value::float8 ^ 2) - sum(value::float8) ^ 2 / count(*) AS within
		FROM planted, unnest(v) WITH ORDINALITY AS features(value, f) GROUP BY name, cluster, f) parts
	JOIN (SELECT name, max(cluster) AS k FROM planted GROUP BY name) sets USING (name) GROUP BY name, k;
SELECT cmp_ok((SELECT sum(f.inertia) FROM gkmeans_fit(format('SELECT v FROM planted WHERE name = %L', name), '{v}', k, seed => seed) f) / inertia, '<=', 1.001::float8,
	format('%s, seed %s', name, seed))
FROM known, generate_series(1, 4) seed;
SELECT * FROM finish();
ROLLBACK;
