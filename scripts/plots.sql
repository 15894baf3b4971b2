-- Draws the pictures of docs/plots.  In the demo's database, with FOLDER a folder that psql may write to:
--     psql -X -q -A -t -v folder=FOLDER -f scripts/plots.sql demo
-- In a page of its own a picture is black on nothing: these get a white background for dark pages.
BEGIN;
SET LOCAL client_min_messages = error;
DROP TABLE IF EXISTS shops, shop_kinds, wine_kinds;

-- Thirteen measures of wine
SELECT count(*) FROM gkmeans_create_model('wine_kinds', 'wine', '{alcohol,malic_acid,ash,alcalinity_of_ash,magnesium,
    total_phenols,flavanoids,nonflavanoid_phenols,proanthocyanins,color_intensity,hue,od280_od315,proline}',
    k_candidates => '{2,3,4,5,6,7,8,10,12,15}', scale => 'standard', init => 'random', n_init => 5);
SELECT gkmeans_name_clusters('wine_kinds', '{light,full-bodied,dark}');

-- Shops whose customers change from week to week, and at once in the ninth
CREATE TEMP TABLE kinds AS
SELECT * FROM (VALUES (1, 0.30, 4.2, 0.3, 3.0), (2, 0.60, 2.5, 2.0, 4.2), (3, 0.72, 1.2, 3.0, 6.0),
    (4, 0.90, 5.2, 0.2, 4.6), (5, 9.00, 3.2, 1.2, 2.2)) AS k(kind, until, recency, frequency, monetary);
CREATE FUNCTION pg_temp.uniform(i bigint, stream int) RETURNS float8 LANGUAGE sql IMMUTABLE AS
    'SELECT ((hashint8extended(i, stream) & 4294967295) + 1) / 4294967297.0';
CREATE FUNCTION pg_temp.normal(i bigint, stream int) RETURNS float8 LANGUAGE sql IMMUTABLE AS
    'SELECT sqrt(-2 * ln(pg_temp.uniform(i, stream))) * cos(2 * pi() * pg_temp.uniform(i, stream + 100))';
CREATE FUNCTION pg_temp.customers(week int) RETURNS TABLE (id int, recency float8, frequency float8, monetary float8)
LANGUAGE sql AS $$
    SELECT i, k.recency + 0.45 * pg_temp.normal(i, week), k.frequency + 0.35 * pg_temp.normal(i, week + 1000),
        k.monetary + 0.45 * pg_temp.normal(i, week + 2000) + CASE WHEN week > 8 AND kind = 3 THEN 0.8 ELSE 0 END
    FROM generate_series(1, 5000) AS i, LATERAL (
        SELECT * FROM kinds
        WHERE until > pg_temp.uniform(i, 7) - 0.008 * week - CASE WHEN week > 8 THEN 0.2 ELSE 0 END
        ORDER BY until LIMIT 1) AS k $$;
CREATE TABLE shops AS SELECT * FROM pg_temp.customers(0);
SELECT count(*) FROM gkmeans_create_model('shop_kinds', 'shops', '{recency,frequency,monetary}', 5, scale => 'standard', n_init => 4);
SELECT gkmeans_name_clusters('shop_kinds', (SELECT array_agg(CASE WHEN c[3] > 5.5 THEN 'loyal' WHEN c[1] > 4.8 THEN 'lost big spenders'
    WHEN c[3] > 4 THEN 'regular' WHEN c[1] > 3.7 THEN 'lapsed' ELSE 'occasional' END ORDER BY cluster_id)
    FROM gkmeans_clusters('shop_kinds') AS f(cluster_id, name, c)));
DO $$ BEGIN
    FOR week IN 1 .. 12 LOOP
        TRUNCATE shops;
        INSERT INTO shops SELECT * FROM pg_temp.customers(week);
        PERFORM gkmeans_refit('shop_kinds', deploy => CASE WHEN week % 4 = 0 THEN 'always' ELSE 'never' END);
    END LOOP;
    -- as if they had been a week apart
    UPDATE shop_kinds SET finished_at = timestamptz '2026-01-05 02:15+00' + version * interval '7 days';
END $$;

CREATE FUNCTION pg_temp.on_white(svg text) RETURNS text LANGUAGE sql AS
    $$SELECT regexp_replace(svg, '^<svg', '<svg style="background:#fff;color:#1c2126"')$$;
\o :folder/clusters.svg
SELECT pg_temp.on_white(gkmeans_plot('wine_kinds', 'clusters'));
\o :folder/profile.svg
SELECT pg_temp.on_white(gkmeans_plot('wine_kinds', 'profile'));
\o :folder/sizes.svg
SELECT pg_temp.on_white(gkmeans_plot('shop_kinds', 'sizes', height => 260));
\o :folder/elbow.svg
SELECT pg_temp.on_white(gkmeans_plot('wine_kinds', 'elbow'));
\o :folder/convergence.svg
SELECT pg_temp.on_white(gkmeans_plot('wine_kinds', 'convergence'));
\o :folder/drift.svg
SELECT pg_temp.on_white(gkmeans_plot('shop_kinds', 'drift'));
\o :folder/history.svg
SELECT pg_temp.on_white(gkmeans_plot('shop_kinds', 'history'));
\o
ROLLBACK;
