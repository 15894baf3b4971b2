-- The views in schema gkmeans, as BI tools see them.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS sepal_length, f[3]::float8 AS sepal_width, f[4]::float8 AS petal_length, f[5]::float8 AS petal_width
	FROM csv_lines(:'iris') f;
CREATE ROLE bi;
CREATE ROLE other;
CREATE SCHEMA "An Area";
GRANT USAGE ON SCHEMA "An Area" TO bi;
SELECT gkmeans_create_model('"An Area".flowers', 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16, scale => 'standard', note => 'a note');
SELECT gkmeans_name_clusters('"An Area".flowers', '{common,NULL,rare}');
COMMENT ON TABLE "An Area".flowers IS 'kinds of iris';
SELECT gkmeans_create_model('secret', 'iris', '{sepal_length}', 2);
SELECT gkmeans_import_model('imported', '{{1,2},{3,4}}');
CREATE SCHEMA closed;
SELECT gkmeans_import_model('closed.hidden', '{{1}}');
GRANT USAGE ON SCHEMA gk_test TO bi;
GRANT SELECT ON closed.hidden TO bi;
GRANT SELECT ON "An Area".flowers TO bi;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;

-- A role with SELECT on one model, and nothing else
SET LOCAL ROLE bi;
SELECT is((SELECT array_agg(model) FROM gkmeans.models), '{"\"An Area\".flowers"}', 'one sees the model that one has SELECT on');
SELECT is(row(schema_name, model_name, owner, description, version, versions, k, dimension, metric, scale, features, source, rows_used, last_status)::text,
	format('("An Area",flowers,%s,"kinds of iris",1,1,3,4,euclidean,standard,"sepal_length, sepal_width, petal_length, petal_width",iris,150,fitted)', session_user), 'its row in gkmeans.models') FROM gkmeans.models;
SELECT near(explained, 1 - inertia / 600, 1e-6, 'explained: the total of standardised rows is their number times that of the features') FROM gkmeans.models;
SELECT ok(age_hours BETWEEN -0.1 AND 1 AND fitted_at <= clock_timestamp() AND last_run_at <= fitted_at, 'its times') FROM gkmeans.models;
SELECT is(row(version_key, model, version, status, deployed, rows_read, k, converged, engine IS NOT NULL, note)::text, '("""An Area"".flowers/1","""An Area"".flowers",1,fitted,t,150,3,t,t,"a note")', 'its version') FROM gkmeans.versions;
SELECT is(array_agg(row(cluster_key, version_key, cluster_name)::text ORDER BY cluster_id), ARRAY['("""An Area"".flowers/1/0","""An Area"".flowers/1",common)', '("""An Area"".flowers/1/1","""An Area"".flowers/1","cluster 1")', '("""An Area"".flowers/1/2","""An Area"".flowers/1",rare)'], 'its clusters') FROM gkmeans.clusters;
SELECT is(sum(size), 150::numeric, 'their sizes') FROM gkmeans.clusters;
SELECT near(sum(share), 1, 1e-12, 'their shares') FROM gkmeans.clusters;
SELECT ok(bool_and(profile ~ '^(average|[a-z_]+ [+-]\d\.\d σ(, [a-z_]+ [+-]\d\.\d σ){0,2})$'), 'profiles read well') FROM gkmeans.clusters;
SET client_encoding = 'LATIN1';
SELECT ok(bool_and(profile ~ '^(average|[a-z_]+ [+-]\d\.\d sd(, [a-z_]+ [+-]\d\.\d sd){0,2})$'), 'profiles for a client whose encoding has no sigma') FROM gkmeans.clusters;
SET client_encoding = 'UTF8';
SELECT is(count(*)::int, 12, 'three clusters of four features') FROM gkmeans.centroid_features;
SELECT ok(bool_and(deviation > 0 AND deviation < overall_deviation), 'clusters are narrower than all rows') FROM gkmeans.centroid_features WHERE feature LIKE 'petal%';
SELECT ok(bool_and(abs(z_score - (value - overall_mean) / overall_deviation) < 1e-9), 'z_score') FROM gkmeans.centroid_features;
SELECT is((SELECT array_agg(feature ORDER BY importance_rank) FROM gkmeans.centroid_features WHERE cluster_id = 0), (SELECT array_agg(feature ORDER BY abs(z_score) DESC) FROM gkmeans.centroid_features WHERE cluster_id = 0), 'importance_rank');
SELECT is((SELECT array_agg(value ORDER BY feature_no) FROM gkmeans.centroid_features WHERE cluster_id = 1), (SELECT centroid FROM gkmeans_clusters('"An Area".flowers') WHERE cluster_id = 1), 'the values are the centroid');
SELECT is((SELECT count(*)::int FROM gkmeans.centroid_features f JOIN gkmeans.clusters c USING (cluster_key) JOIN gkmeans.versions USING (version_key) JOIN gkmeans.models m ON m.model = f.model), 12, 'the keys relate the views');
SELECT is_empty($$SELECT * FROM gkmeans.models WHERE model ~ 'secret|hidden|imported'$$, 'no other model is seen');
SELECT fails_with('SELECT * FROM secret', '42501', 'nor read');
SET LOCAL ROLE other;
SELECT is((SELECT count(*)::int FROM gkmeans.models) + (SELECT count(*)::int FROM gkmeans.versions) + (SELECT count(*)::int FROM gkmeans.clusters) + (SELECT count(*)::int FROM gkmeans.centroid_features), 0, 'a role without models sees empty views');
RESET ROLE;
SELECT is((SELECT array_agg(model_name ORDER BY model_name) FROM gkmeans.models WHERE schema_name IN ('gk_test', 'closed', 'An Area')), '{flowers,hidden,imported,secret}', 'a superuser sees all');
SELECT is(row(version, k, features, rows_used, inertia, explained, last_status)::text, '(1,2,"x1, x2",,,,imported)', 'an imported model') FROM gkmeans.models WHERE model_name = 'imported';
SELECT is((SELECT count(*)::int FROM gkmeans.clusters WHERE model = 'gk_test.imported' AND size IS NULL AND profile IS NULL), 2, 'its clusters');

-- Types, keys, comments
SELECT tables_are('gkmeans', ARRAY['labelled_tables'], 'BI tools find views, and one table for calls');
SELECT is_empty($$SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'gkmeans' AND table_name <> 'labelled_tables'
	AND data_type NOT IN ('text', 'integer', 'bigint', 'double precision', 'boolean', 'timestamp with time zone')$$, 'plain types only');
SELECT is_empty($$SELECT attrelid::regclass, attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'gkmeans'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0 AND col_description(attrelid, attnum) IS NULL$$, 'every column is commented');
SELECT is(count(*), count(DISTINCT model), 'gkmeans.models has a key') FROM gkmeans.models;
SELECT is(count(*), count(DISTINCT version_key), 'gkmeans.versions has one') FROM gkmeans.versions;
SELECT is(count(*), count(DISTINCT cluster_key), 'gkmeans.clusters has one') FROM gkmeans.clusters;
SELECT is(count(*), count(DISTINCT centroid_feature_key), 'gkmeans.centroid_features has one') FROM gkmeans.centroid_features;
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND deptype = 'e' JOIN pg_extension e ON e.oid = refobjid
	WHERE extname = 'gkmeans' AND prosecdef$$, 'no function is SECURITY DEFINER');
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND deptype = 'e' JOIN pg_extension e ON e.oid = refobjid
	WHERE extname = 'gkmeans' AND proname ~ '^gkmeans_(?!feed)' AND obj_description(p.oid, 'pg_proc') IS NULL$$, 'every function is commented');

-- A damaged version is left out, and the others are seen; what is odd is shown as it is
CREATE FUNCTION quietly(query text) RETURNS bigint LANGUAGE plpgsql SET client_min_messages = error AS $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM ' || query INTO n; RETURN n; END $$;
UPDATE secret SET centroids = '{{1,2,3}}', definition = '[1]', report = '{"devices": "many"}', features = '{a}';
SELECT is(quietly('gkmeans.clusters WHERE model = ''gk_test.secret'''), 0::bigint, 'a damaged version has no clusters');
SELECT is(quietly('gkmeans.clusters'), 6::bigint, 'the others are there');
SELECT is(quietly('gkmeans.centroid_features'), 17::bigint, 'also their features');
SELECT is((SELECT count(*)::int FROM gkmeans.versions WHERE model = 'gk_test.secret' AND devices IS NULL), 1, 'and the version itself');
SELECT is((SELECT count(*)::int FROM gkmeans.models WHERE model = 'gk_test.secret' AND source IS NULL), 1, 'and the model');
UPDATE secret SET started_at = 'infinity', finished_at = 'infinity', between_ss = 1e308, total_ss = 1e-300;
SELECT lives_ok('SELECT * FROM gkmeans.models', 'models in spite of infinite times and figures that overflow');
SELECT lives_ok('SELECT * FROM gkmeans.versions', 'versions likewise');
UPDATE secret SET started_at = '4713-01-01 BC', finished_at = '294276-12-31', between_ss = 1e-300, total_ss = 1e300;
SELECT lives_ok('SELECT * FROM gkmeans.models', 'models in spite of a long run and figures that underflow');
SELECT lives_ok('SELECT * FROM gkmeans.versions', 'versions likewise');
UPDATE secret SET names = '{<script>,"a''b"}', centroids = '{{1},{2}}';
SELECT is((SELECT array_agg(cluster_name ORDER BY cluster_id) FROM gkmeans.clusters WHERE model = 'gk_test.secret'), '{<script>,"a''b"}', 'names as they are');
UPDATE secret SET deviations = '{{1,2},{3,4}}';
SELECT is(quietly('gkmeans.centroid_features WHERE model = ''gk_test.secret'''), 0::bigint, 'damaged deviations leave a version out');
SELECT is(quietly('gkmeans.clusters WHERE model = ''gk_test.secret'''), 2::bigint, 'of the view that shows them');
UPDATE secret SET deviations = '{{Infinity},{NULL}}';
SELECT is((SELECT array_agg(deviation ORDER BY cluster_id) FROM gkmeans.centroid_features WHERE model = 'gk_test.secret'), '{Infinity,NULL}', 'what is unknown is NULL');
ALTER TABLE imported ENABLE ROW LEVEL SECURITY;
ALTER TABLE imported OWNER TO bi;
ALTER TABLE imported FORCE ROW LEVEL SECURITY;
SET LOCAL ROLE bi;
SELECT is((SELECT count(*)::int FROM gkmeans.models WHERE model_name = 'imported'), 0, 'a model under row-level security is left out');
RESET ROLE;

-- Long texts are there to the end, even if the model is emptied meanwhile
SELECT gkmeans_create_model('brief', 'iris', '{sepal_length}', 2);
SELECT gkmeans_refit('brief', deploy => 'always');
UPDATE brief SET note = (SELECT string_agg(md5(i::text || version), '') FROM generate_series(1, 1500) i);
DECLARE versions CURSOR FOR SELECT version, md5(note) AS got FROM gkmeans.versions WHERE model = 'gk_test.brief';
FETCH versions \gset
TRUNCATE brief;
FETCH versions \gset
SELECT is(:'got', (SELECT md5(string_agg(md5(i::text || :'version'), '')) FROM generate_series(1, 1500) i), 'a note of a model that is emptied');

-- Texts that no row of a view could hold
SELECT gkmeans_import_model('vast', '{{1},{2}}');
SELECT gkmeans_import_model('vast', '{{1},{2}}', if_exists => 'replace');
UPDATE vast SET note = repeat('a', 60000000), outcome = note, error_message = note WHERE version = 1;
UPDATE vast SET outcome = note, error_message = note WHERE version = 1;
UPDATE vast SET error_message = 'short' WHERE version = 2;
SELECT is(array_agg(version), '{2}', 'a version that is too large is left out') FROM gkmeans.versions WHERE model = 'gk_test.vast';
SELECT is(row(version, versions, last_error)::text, '(2,1,short)', 'of the model, too') FROM gkmeans.models WHERE model_name = 'vast';
SELECT is(count(*)::int, 4, 'but not its clusters') FROM gkmeans.clusters WHERE model = 'gk_test.vast';
DO $$ BEGIN EXECUTE format('COMMENT ON TABLE vast IS %L', repeat('é', 20000)); END $$;
SELECT is(description, repeat('é', 10000), 'a long comment is cut') FROM gkmeans.models WHERE model_name = 'vast';
DROP TABLE vast;

-- Texts of the catalogs, which PostgreSQL would read when the model is opened
SELECT gkmeans_import_model(name || '_long', '{{1},{2}}') FROM unnest('{definition,default,check,rule,deep_rule,policy,deep_policy,trigger,half,nothing}'::text[]) name;
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
DO $$
DECLARE
	text CONSTANT text := quote_literal(repeat('a', 30000));
	-- with ten times as many levels, PostgreSQL could not open the table again
	deep CONSTANT text := 'k' || repeat(' + 1', 700) || ' > 0';
BEGIN
	EXECUTE format('ALTER TABLE definition_long ALTER definition SET DEFAULT %L::jsonb', to_json(repeat('a', 12000000)));
	EXECUTE format('ALTER TABLE half_long ALTER definition SET DEFAULT %L::jsonb, ALTER note SET DEFAULT %L', to_json(repeat('a', 1000000)), repeat('a', 10000));
	EXECUTE 'ALTER TABLE default_long ALTER note SET DEFAULT ' || text;
	EXECUTE format('ALTER TABLE check_long ADD CHECK (note <> %s)', text);
	EXECUTE format('CREATE RULE long AS ON DELETE TO rule_long WHERE note = %s DO INSTEAD NOTHING', text);
	EXECUTE format('CREATE RULE long AS ON UPDATE TO deep_rule_long WHERE old.%s DO INSTEAD NOTHING', deep);
	EXECUTE format('CREATE POLICY long ON policy_long USING (note <> %s)', text);
	EXECUTE format('CREATE POLICY long ON deep_policy_long USING (%s)', deep);
	ALTER TABLE policy_long ENABLE ROW LEVEL SECURITY;
	ALTER TABLE deep_policy_long ENABLE ROW LEVEL SECURITY;
	EXECUTE format('CREATE TRIGGER long BEFORE UPDATE ON trigger_long FOR EACH ROW WHEN (new.note <> %s) EXECUTE FUNCTION pass()', text);
END $$;
SELECT is(array_agg(model_name ORDER BY model_name), '{half_long,nothing_long}', 'models whose definitions, other defaults, checks, rules, policies or triggers are too long are left out') FROM gkmeans.models WHERE model_name LIKE '%_long';
SELECT is(gkmeans_predict('default_long', 2), 1, 'but not lost');
ALTER TABLE default_long ALTER note DROP DEFAULT;
SELECT is(count(*)::int, 1, 'and back when they are short') FROM gkmeans.models WHERE model_name = 'default_long';

-- A thousand models
DO $$ BEGIN FOR i IN 1 .. 300 LOOP PERFORM gkmeans_import_model('many_' || i, '{{1},{2}}'); END LOOP; END $$;
SELECT is(count(*)::int, 300, 'many models') FROM gkmeans.models WHERE model_name LIKE 'many%';
SELECT is(count(*)::int, 600, 'and their clusters') FROM gkmeans.clusters WHERE model LIKE 'gk\_test.many%';

SELECT * FROM finish();
ROLLBACK;
