-- gkmeans_create_view: views of the scored rows, and of the clusters.
\ir helpers.psql

CREATE TABLE customers AS SELECT i AS id, 'customer ' || i AS name, (i % 3) * 10 + noise(i, 1) AS recency, CASE WHEN i <> 7 THEN (i % 3) * 5 + noise(i, 2) END AS "Spent, in €", i % 2 = 0 AS distance, now() AS at FROM generate_series(1, 300) i;
SELECT gkmeans_create_model('rfm', 'customers', '{recency,"Spent, in €"}', 3, scale => 'standard');

-- The scored rows
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'scored')$$, 'a view of scored rows');
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'by_default', NULL, NULL)$$, 'NULL means the default kind');
SELECT is(pg_get_viewdef('by_default'), pg_get_viewdef('scored'), 'it is a view of scored rows');
DROP VIEW by_default;
SELECT fails_with('SELECT gkmeans_create_view(NULL, ''never'')', '22004', 'no model');
SELECT fails_with('SELECT gkmeans_create_view(''rfm'', NULL)', '22004', 'no name');
SELECT columns_are('gk_test', 'scored', ARRAY['id', 'name', 'recency', 'Spent, in €', 'distance', 'at', 'cluster_id', 'gkmeans_name', 'gkmeans_distance', 'second_cluster_id', 'second_distance', 'silhouette', 'anomaly_score', 'anomaly_percentile']::name[], 'columns of the source keep their names');
SELECT set_eq('SELECT id, name, distance, cluster_id, gkmeans_name, gkmeans_distance, second_cluster_id, second_distance, silhouette, anomaly_score, anomaly_percentile FROM scored', $$SELECT id, c.name, c.distance, s.* FROM customers c, LATERAL gkmeans_score('rfm', c) s(cluster_id, own_name, own_distance)$$, 'it says what gkmeans_score says');
SELECT is((SELECT num_nulls(cluster_id, gkmeans_name, gkmeans_distance) FROM scored WHERE id = 7), 3, 'a row that cannot be scored is there');
SELECT is((SELECT reloptions FROM pg_class WHERE oid = 'scored'::regclass), '{security_invoker=true}', 'with the privileges of its reader');
INSERT INTO customers VALUES (1000, 'new', 0.5, 0.5, true, now());
SELECT is((SELECT cluster_id FROM scored WHERE id = 1000), gkmeans_predict('rfm', 0.5, 0.5), 'it shows new rows');
SELECT gkmeans_name_clusters('rfm', '{a,b,c}');
ALTER TABLE rfm RENAME TO segments;
SELECT is((SELECT array_agg(DISTINCT gkmeans_name ORDER BY gkmeans_name) FROM scored WHERE cluster_id IS NOT NULL), '{a,b,c}', 'new names, of a model that is renamed');
ALTER TABLE segments RENAME TO rfm;
SELECT fails_with('DROP TABLE rfm', '2BP01', 'the model is not dropped under the view');
CREATE FUNCTION view_of(source text, kind text DEFAULT 'scored') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gkmeans_create_model('of_source', source, '{recency}', 3);
	PERFORM gkmeans_create_view('of_source', 'view_of_source', kind);
	RETURN set_eq('SELECT id, recency, cluster_id FROM view_of_source', 'SELECT id, recency, gkmeans_predict(''of_source'', recency) FROM customers', 'source: ' || translate(source, E'\n', ' '));
END $$;
CREATE VIEW a_view AS TABLE customers;
CREATE FUNCTION undo() RETURNS void LANGUAGE sql AS $$ DROP VIEW view_of_source; DROP TABLE of_source $$;
SELECT view_of(source), undo() FROM unnest(ARRAY['gk_test.customers', 'a_view', 'SELECT id, recency FROM customers', E'SELECT id, recency FROM customers -- a comment\n', 'TABLE customers;', 'WITH c AS (SELECT * FROM customers) SELECT * FROM c ORDER BY id', 'SELECT id, recency, 7 AS t, 8 AS s FROM customers AS s']) source;
SELECT gkmeans_create_model('arrays', 'SELECT id, ARRAY[recency, id] AS v FROM customers', '{v}', 3);
SELECT gkmeans_create_view('arrays', 'of_arrays');
SELECT set_eq('SELECT id, cluster_id FROM of_arrays', $$SELECT id, gkmeans_predict('arrays', ARRAY[recency, id]) FROM customers$$, 'an array');
CREATE SCHEMA "Other One";
CREATE TABLE "Other One".own AS SELECT * FROM customers WHERE id <= 10;
SET LOCAL search_path = "Other One", gk_test, public;
SELECT gkmeans_create_model('gk_test.elsewhere', 'own', '{recency}', 2);
SET LOCAL search_path = gk_test, public;
SELECT gkmeans_create_view('elsewhere', '"The View"');
SELECT is((SELECT count(*)::int FROM gk_test."The View"), 10, 'the source is looked up as when the model was made, the view as now');
CREATE TABLE taken AS SELECT 1 AS cluster_id, 2 AS gkmeans_cluster_id, 3.0 AS x;
SELECT gkmeans_create_model('of_taken', 'taken', '{x}', 1);
SELECT gkmeans_create_view('of_taken', 'view_of_taken');
SELECT is((SELECT row(cluster_id, gkmeans_cluster_id, x, gkmeans_cluster_id_2)::text FROM view_of_taken), '(1,2,3.0,0)', 'names that are taken twice');

-- The clusters
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'wide', 'clusters')$$, 'a view of the clusters');
SELECT columns_are('gk_test', 'wide', ARRAY['cluster_id', 'cluster_name', 'size', 'share', 'weight', 'inertia', 'avg_distance', 'radius', 'profile', 'recency', 'Spent, in €']::name[], 'with a column for each feature');
SELECT set_eq('SELECT cluster_id, cluster_name, size, ARRAY[recency, "Spent, in €"] FROM wide', $$SELECT cluster_id, name, size, centroid FROM gkmeans_clusters('rfm')$$, 'its centroids, bit for bit');
SELECT col_type_is('gk_test', 'wide', 'recency', 'double precision', 'a number');
-- a function in the extension's schema that would fit better, if the view called it with a regclass
CREATE FUNCTION public._gkmeans_clusters(regclass) RETURNS TABLE (cluster_id int) LANGUAGE sql AS 'SELECT 1';
SET LOCAL extra_float_digits = -15;
SELECT is(count(DISTINCT recency)::int, (SELECT count(DISTINCT value)::int FROM gkmeans.centroid_features WHERE model = 'gk_test.rfm' AND deployed AND feature = 'recency'), 'numbers keep their digits') FROM wide JOIN gkmeans.centroid_features f ON f.value = recency AND f.model = 'gk_test.rfm' AND deployed AND feature = 'recency';
RESET extra_float_digits;
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'untrapped', 'clusters')$$, 'the view does not depend on other functions');
SELECT set_eq('TABLE untrapped', 'TABLE wide', 'and shows the clusters');
CREATE FUNCTION take_public() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
	ALTER SCHEMA public RENAME TO away;
	CREATE SCHEMA public;
	CREATE FUNCTION public._gkmeans_clusters(oid) RETURNS SETOF gkmeans.clusters LANGUAGE sql AS 'TABLE gkmeans.clusters';
	CREATE FUNCTION public._gkmeans_centroid_features(oid) RETURNS SETOF gkmeans.centroid_features LANGUAGE sql AS 'TABLE gkmeans.centroid_features';
END $$;
CREATE EVENT TRIGGER gk_take ON ddl_command_start WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION take_public();
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'usurped', 'clusters')$$, '42725', 'nor on those of a schema that took the name of the extension''s', 'outside extension "gkmeans"');
DROP EVENT TRIGGER gk_take;
DROP FUNCTION public._gkmeans_clusters(regclass);
CREATE FUNCTION public.gkmeans_score(regclass, customers) RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'trapped')$$, '42725', 'a view of scores is not made of another function', 'function "gkmeans_score" resolves to one outside extension "gkmeans"');
DROP FUNCTION public.gkmeans_score(regclass, customers);
SELECT gkmeans_create_model('rfm', 'customers', '{"Spent, in €",recency}', 2, if_exists => 'replace');
SELECT set_eq('SELECT cluster_id, size, ARRAY["Spent, in €", recency] FROM wide', $$SELECT cluster_id, size, centroid FROM gkmeans_clusters('rfm')$$, 'features are found by their names in the next version');
SELECT gkmeans_create_model('rfm', 'customers', '{recency}', 2, if_exists => 'replace');
SELECT set_eq('SELECT cluster_id, recency, "Spent, in €" FROM wide', $$SELECT cluster_id, centroid[1] AS recency, NULL::float8 AS gone FROM gkmeans_clusters('rfm')$$, 'one that is gone is NULL');
SELECT gkmeans_import_model('odd', '{{1,2,3,4,5}}', ARRAY['size', 'cluster_id', 'a "quoted" ''name''', repeat('ü', 31), 'gkmeans_size']);
SELECT gkmeans_create_view('odd', 'odd_clusters', 'clusters');
SELECT is((SELECT row(size, cluster_id, "a ""quoted"" 'name'", gkmeans_cluster_id, gkmeans_size, gkmeans_size_2)::text FROM odd_clusters), '(1,2,3,0,5,)', 'features keep their names, the others make way');
SELECT is((SELECT format('%s', c.*) FROM odd_clusters c) ~ ',4,', true, 'a long name') ;
INSERT INTO odd SELECT (r).* FROM (SELECT jsonb_populate_record(odd, jsonb_build_object('version', 2, 'features', ARRAY[repeat('n', 70) || 'a', repeat('n', 70) || 'b', 'x', 'x', ''], 'deployed', NULL)) AS r FROM odd) x;
SELECT gkmeans_deploy('odd', 2);
SELECT lives_ok($$SELECT gkmeans_create_view('odd', 'longer', 'clusters')$$, 'names too long for a column, and the same twice, as nobody but a hand can write them');
SELECT is((SELECT count(*)::int FROM pg_attribute WHERE attrelid = 'longer'::regclass AND attnum > 0), 14, 'have a column each');
SELECT is((SELECT row(first, second)::text FROM (SELECT * FROM longer) l(a, b, c, d, e, f, g, h, i, first, second)), '(1,2)', 'with their values');
SELECT gkmeans_create_view('arrays', 'arrays_wide', 'clusters');
SELECT set_eq('SELECT cluster_id, "v[1]", "v[2]" FROM arrays_wide', $$SELECT cluster_id, centroid[1] AS one, centroid[2] AS two FROM gkmeans_clusters('arrays')$$, 'the elements of an array');
SELECT gkmeans_import_model('thousands', ARRAY[(SELECT array_agg(i::float8) FROM generate_series(1, 1591) i)]);
SELECT lives_ok($$SELECT gkmeans_create_view('thousands', 'thousands_wide', 'clusters')$$, 'as many columns as a view can have');
SELECT is((SELECT row(x1, x1591)::text FROM thousands_wide), '(1,1591)', 'are read');
SELECT gkmeans_import_model('more', ARRAY[(SELECT array_agg(i::float8) FROM generate_series(1, 1592) i)]);
SELECT fails_with($$SELECT gkmeans_create_view('more', 'x', 'clusters')$$, '54011', 'more than that', 'too many features', '1592.*1600');

-- if_exists, and mistakes
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'wide', 'clusters')$$, '42P07', 'the view is there', 'already exists');
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'wide', 'clusters', 'skip')$$, 'it is skipped');
SELECT has_column('gk_test', 'wide', 'Spent, in €', 'and as it was');
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'wide', 'clusters', 'replace')$$, '42P16', 'PostgreSQL replaces no view by one with fewer columns');
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'scored', 'scored', 'replace')$$, 'the same columns can be replaced');
SELECT lives_ok($$SELECT gkmeans_create_view('rfm', 'new_one', 'clusters', 'replace'), gkmeans_create_view('rfm', 'new_two', 'scored', 'skip')$$, 'views that are not there');
-- The view that the source reads
CREATE VIEW early AS SELECT id, recency FROM customers WHERE id < 100;
CREATE VIEW below AS SELECT * FROM early;
SELECT gkmeans_create_model('of_view', 'SELECT b.* FROM below b JOIN customers USING (id)', '{recency}', 2);
SELECT fails_with(format($$SELECT gkmeans_create_view('of_view', %L, if_exists => 'replace')$$, v), '42P17', 'a view of the source is not replaced: ' || v, format('view "%s" cannot be replaced', v), 'source of model "of_view" reads it', 'another name') FROM unnest('{early,below}'::text[]) v;
SELECT is((SELECT count(*)::int FROM below), 99, 'and stays');
SELECT gkmeans_create_model('of_part' || part, source, '{recency}', 2) FROM (VALUES (1, 'SELECT *, (SELECT avg(recency) FROM early) AS other FROM customers'),
	(2, 'WITH w AS (SELECT * FROM early) SELECT * FROM customers'), (3, 'SELECT * FROM customers WHERE false AND EXISTS (SELECT FROM early) UNION ALL SELECT * FROM customers')) parts(part, source);
SELECT fails_with(format($$SELECT gkmeans_create_view('of_part%s', 'early', if_exists => 'replace')$$, part), '42P17', 'nor where the planner leaves it out: ' || part, 'view "early" cannot be replaced') FROM generate_series(1, 3) part;
CREATE TABLE guarded AS TABLE early;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY those ON guarded USING (id IN (SELECT id FROM early) OR id IN (SELECT id FROM guarded));
SELECT gkmeans_create_model('of_guarded', 'guarded', '{recency}', 2);
SELECT fails_with($$SELECT gkmeans_create_view('of_guarded', 'early', if_exists => 'replace')$$, '42P17', 'nor for whom a policy holds', 'view "early" cannot be replaced');
CREATE VIEW aside AS SELECT id, recency FROM customers;
CREATE VIEW naming AS SELECT id, recency, 'aside'::regclass AS part FROM customers;
SELECT gkmeans_create_model('of_constant', 'SELECT id, recency, ''aside''::regclass AS part FROM naming', '{recency}', 2);
SELECT lives_ok($$SELECT gkmeans_create_view('of_constant', 'aside', if_exists => 'replace')$$, 'a constant that names it reads nothing');
CREATE MATERIALIZED VIEW kept AS SELECT * FROM below;
SELECT gkmeans_create_model('of_kept', 'kept', '{recency}', 2);
SELECT fails_with($$SELECT gkmeans_create_view('of_kept', 'early', if_exists => 'replace')$$, '42P17', 'nor behind a materialized view', 'view "early" cannot be replaced');
SELECT fails_with($$SELECT gkmeans_create_view('of_view', 'below')$$, '42P07', 'nor is it made again', 'relation "below" already exists', NULL, 'set if_exists to');
SELECT lives_ok($$SELECT gkmeans_create_view('of_view', 'below', if_exists => 'skip')$$, 'it can be skipped');
SELECT lives_ok($$SELECT gkmeans_create_view('of_view', 'above'), gkmeans_create_view('of_view', 'above', if_exists => 'replace')$$, 'a view of its rows can be replaced');
-- Nothing of the source is run
SET LOCAL gk_test.least = '0';
SELECT gkmeans_create_model('of_setting', $$SELECT * FROM customers WHERE id > current_setting('gk_test.least')::int$$, '{recency}', 2);
SET LOCAL gk_test.least = 'no number';
SELECT lives_ok($$SELECT gkmeans_create_view('of_setting', 'of_setting_scored'), gkmeans_create_view('of_setting', 'of_setting_scored', if_exists => 'replace')$$, 'conditions of the source are not looked at');
-- A name that is taken
CREATE TYPE level AS ENUM ('low');
SELECT fails_with(format($$SELECT gkmeans_create_view('rfm', 'level', if_exists => %L)$$, word), '42710', 'a type has the name of the view: ' || word, 'type "level" already exists', NULL, 'another name') FROM unnest('{error,skip,replace}'::text[]) word;
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'customers', if_exists => 'skip')$$, '42809', 'nor is a table taken for one', '"customers" is not a view', NULL, 'another name');
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'customers', if_exists => 'replace')$$, '42809', 'a table is no view', '"customers" is not a view');
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'x', 'wide')$$, '22023', 'another kind', 'invalid kind', NULL, 'scored.*clusters');
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'x', if_exists => 'append')$$, '22023', 'another word', 'if_exists');
SELECT fails_with($$SELECT gkmeans_create_view('customers', 'x')$$, '42809', 'no model');
SELECT fails_with($$SELECT gkmeans_create_view('odd', 'x')$$, '55000', 'a model without a source', 'has no source', NULL, 'gkmeans_alter_model');
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'nowhere.x')$$, '3F000', 'no such schema');
UPDATE rfm SET deployed = NULL;
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'x', 'clusters')$$, '55000', 'no deployed version');
SELECT hasnt_view('gk_test', 'x'::name, 'none was made');
DROP TABLE customers CASCADE;
SELECT fails_with($$SELECT gkmeans_create_view('rfm', 'x')$$, '42P01', 'the source is gone');

-- Who reads it needs what it reads
CREATE TABLE data AS SELECT i AS id, i % 3 * 10 AS x FROM generate_series(1, 30) i;
SELECT gkmeans_create_model('m', 'data', '{x}', 3);
SELECT gkmeans_create_view('m', 'm_scored'), gkmeans_create_view('m', 'm_clusters', 'clusters');
CREATE ROLE gk_reader;
GRANT USAGE ON SCHEMA gk_test TO gk_reader;
GRANT SELECT ON m_scored, m_clusters TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with('SELECT * FROM m_scored', '42501', 'the source cannot be read', 'table data');
SELECT is_empty('SELECT * FROM m_clusters', 'the clusters of a model that cannot be read are not shown');
SELECT fails_with($$SELECT gkmeans_create_view('m', 'x')$$, '42501', 'who may not read the model makes no view of it', 'table m');
RESET ROLE;
GRANT SELECT ON data TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with('SELECT * FROM m_scored', '42501', 'nor the model', 'table m');
RESET ROLE;
GRANT SELECT ON m TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_create_view('m', 'pg_temp.x')$$, '42501', 'nor does who may read both take over its source', 'definition of model "m"');
SELECT is((SELECT count(*)::int FROM m_scored), 30, 'with SELECT on both it is shown');
SELECT is((SELECT count(*)::int FROM m_clusters), 3, 'and the clusters');
SELECT fails_with($$SELECT gkmeans_create_view('m', 'x', 'clusters')$$, '42501', 'no CREATE on the schema', 'schema gk_test');
RESET ROLE;

-- Who makes a view of another's model runs none of his code
GRANT CREATE ON SCHEMA gk_test TO gk_reader;
SET LOCAL ROLE gk_reader;
CREATE FUNCTION trap() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF current_user <> 'gk_reader' THEN RAISE EXCEPTION 'trapped %', current_user; END IF; RETURN 1; END $$;
SELECT gkmeans_create_model('of_reader', 'SELECT id, x * gk_test.trap() AS x FROM data WHERE gk_test.trap() = 1', '{x}', 2);
RESET ROLE;
SELECT fails_with($$SELECT gkmeans_create_view('of_reader', 'of_reader_scored')$$, '42501', 'a superuser does not take over the source of another', 'definition of model "of_reader"', 'text of the model''s owner', 'owner of the model call this function');
SELECT lives_ok($$SELECT gkmeans_create_view('of_reader', 'of_reader_clusters', 'clusters')$$, 'but a view of the clusters');
SELECT is((SELECT count(*)::int FROM of_reader_clusters), 2, 'which he reads');
SET LOCAL ROLE gk_reader;
SELECT lives_ok($$SELECT gkmeans_create_view('of_reader', 'of_reader_scored')$$, 'the owner makes it');
SELECT is((SELECT count(*)::int FROM of_reader_scored), 30, 'and reads it');
RESET ROLE;
SELECT fails_with('SELECT * FROM of_reader_scored', 'P0001', 'with security_invoker, the source runs as whoever reads it', 'trapped');

-- Names that no column can have
SELECT gkmeans_import_model(repeat('n', length - 997), exported => jsonb_build_object('gkmeans', 1, 'metric', 'euclidean', 'k', 2, 'dimension', 2,
	'features', jsonb_build_array('z', repeat('n', length)), 'points', to_jsonb(ARRAY[1, 2, 3, 4]))) FROM (VALUES (1000), (1001)) v(length);
SELECT gkmeans_create_view('nnn', 'of_long_names', 'clusters');
SELECT is((SELECT array_agg(row_to_json(v)::jsonb ->> repeat('n', 63) ORDER BY cluster_id) FROM of_long_names v), '{2,4}', 'long names in a view');
SELECT fails_with($$SELECT gkmeans_create_view('nnnn', 'of_longer_names', 'clusters')$$, '42622', 'names that views cut', 'feature 2 is too long', '1001 bytes');
SELECT gkmeans_import_model('long_array', exported => jsonb_build_object('gkmeans', 1, 'metric', 'euclidean', 'k', 2, 'dimension', 3, 'array_column', jsonb_build_array(repeat('é', 40)), 'points', to_jsonb(ARRAY[1, 2, 3, 4, 5, 6])));
SELECT gkmeans_create_view('long_array', 'of_long_array', 'clusters');
SELECT is((SELECT count(*)::int FROM of_long_array v, json_each(row_to_json(v)) j WHERE j.key LIKE 'éé%' AND j.value::text <> 'null'), 6, 'and that of an array');

SET LOCAL transaction_read_only = on;
SELECT fails_with($$SELECT gkmeans_create_view('m', 'x')$$, '25006', 'a read-only transaction');

SELECT * FROM finish();
ROLLBACK;
