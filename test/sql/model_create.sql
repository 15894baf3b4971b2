-- gkmeans_create_model and gkmeans_import_model: a model is a table of its user.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS sepal_length, f[3]::float8 AS sepal_width, f[4]::float8 AS petal_length, f[5]::float8 AS petal_width
	FROM csv_lines(:'iris') f;

-- The rows of gkmeans_fit, bit for bit
CREATE TABLE created AS SELECT * FROM gkmeans_create_model('m', 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16, note => 'the first');
CREATE TABLE fitted AS SELECT * FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 16);
SELECT is(fingerprint('TABLE created'), fingerprint('TABLE fitted'), 'gkmeans_create_model returns the rows of gkmeans_fit');
SELECT near(inertia, 78.85143964, 1e-9, 'the inertia of the version') FROM m;
SELECT is(sizes, '{62,50,38}'::bigint[], 'its sizes') FROM m;
SELECT near(between_ss / total_ss, 0.8842752513, 1e-6, 'the explained share') FROM m;
SELECT is(row(version, group_no, part, status, deployed, k, dimension, metric, rows_read, rows_used)::text, '(1,0,0,fitted,t,3,4,euclidean,150,150)', 'the head row') FROM m;
SELECT is(row(note, started_by, deployed_by)::text, format('("the first",%s,%s)', current_user, current_user), 'who made it') FROM m;
SELECT ok(finished_at >= started_at AND deployed_at >= started_at, 'and when') FROM m;
SELECT is(features, '{sepal_length,sepal_width,petal_length,petal_width}', 'its features') FROM m;
SELECT is((SELECT array_agg(round(v::numeric, 5)) FROM unnest(feature_mean) v), (SELECT ARRAY[avg(sepal_length), avg(sepal_width), avg(petal_length), avg(petal_width)]::numeric(9,5)[] FROM iris), 'means of the features') FROM m;
SELECT is((SELECT array_agg(round(v::numeric, 5)) FROM unnest(feature_deviation) v),
	(SELECT ARRAY[stddev_pop(sepal_length), stddev_pop(sepal_width), stddev_pop(petal_length), stddev_pop(petal_width)]::numeric(9,5)[] FROM iris), 'deviations of the features') FROM m;
SELECT is((feature_least || feature_greatest)::real[], (SELECT ARRAY[min(sepal_length), min(sepal_width), min(petal_length), min(petal_width), max(sepal_length), max(sepal_width), max(petal_length), max(petal_width)]::real[] FROM iris),
	'ranges of the features') FROM m;
SELECT is((SELECT array_agg(v ORDER BY n) FROM unnest(score_quantiles) WITH ORDINALITY u(v, n)), (SELECT array_agg(v ORDER BY v) FROM unnest(score_quantiles) v), 'the quantiles ascend') FROM m;
SELECT is(array_length(score_quantiles, 1), 47, 'there are 47 of them') FROM m;
SELECT is(fingerprint('SELECT cluster_id, centroid, size, weight, inertia, avg_distance, radius FROM gkmeans_clusters(''m'')'), fingerprint('TABLE fitted'), 'gkmeans_clusters gives the same again');
SELECT is((SELECT array_agg(c) FROM gkmeans_clusters('m') s, unnest(centroid) c), (SELECT array_agg(c) FROM unnest(gkmeans_centroids('m')) c), 'gkmeans_centroids as well');
SELECT is(count(*)::int, 3, 'gkmeans_centroids is fit for initial_centroids')
FROM gkmeans_fit('iris', '{sepal_length,sepal_width,petal_length,petal_width}', initial_centroids => gkmeans_centroids('m'));

-- Statistics with weights: Σ weight × d² to the weighted mean
CREATE TABLE weighted AS SELECT i AS id, (i % 7)::float8 AS x, 1000 + i % 11 AS y, (i % 5)::float8 AS w FROM generate_series(1, 200) i;
SELECT lives_ok($$SELECT gkmeans_create_model('w', 'weighted', '{x,y}', 4, weight_column => 'w')$$, 'a model with weights');
SELECT near((SELECT total_ss FROM w), (SELECT sum(w * ((x - mx) ^ 2 + (y - my) ^ 2)) FROM weighted, (SELECT sum(w * x) / sum(w) mx, sum(w * y) / sum(w) my FROM weighted) m), 1e-9, 'total_ss counts the weights');

-- The definition is the default of a column
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'm'::regclass), (SELECT quote_literal(definition) || '::jsonb' FROM m), 'the definition is the default of its column, and in the row');
SELECT is(definition - '{search_path,quality,options,init,nulls,tol,seed,max_iter,labels_mode}'::text[],
	'{"k": 3, "scale": "none", "metric": "euclidean", "n_init": 16, "source": "iris", "features": ["sepal_length", "sepal_width", "petal_length", "petal_width"]}', 'the definition has the arguments') FROM m;
SELECT is(definition ->> 'search_path', current_setting('search_path'), 'and the search path') FROM m;
SET LOCAL extra_float_digits = -15;
SELECT count(*) FROM gkmeans_create_model('digits', 'iris', '{sepal_length}', 2, tol => 0.00012345678901234567);
RESET extra_float_digits;
SELECT is(definition ->> 'tol', '0.00012345678901234567', 'all digits of numbers, whatever extra_float_digits says') FROM digits;

-- Names
CREATE SCHEMA "Other Schema";
SELECT lives_ok(format('SELECT gkmeans_create_model(%L, ''iris'', ''{sepal_length}'', 2)', name), 'a model ' || name) FROM unnest(ARRAY['gk_test.qualified', '"Other Schema"."The Model"', 'UPPER']) name;
SELECT is(gkmeans_predict('"Other Schema"."The Model"', 4.0), gkmeans_predict('upper', 4.0), 'they are there');
SELECT fails_with($$SELECT gkmeans_create_model('no_schema.m', 'iris', '{sepal_length}', 2)$$, '3F000', 'a schema that is not there');
SELECT fails_with($$SELECT gkmeans_create_model('never', 'SELECT * FROM (VALUES (1e-29::float8, 0::float8), (1e-4, 3e38), (1e26, 1e30)) v (w, x)', '{x}', 5, weight_column => 'w')$$, '22003', 'a mean that lost its digits', 'the centroid of a cluster is out of range');
SELECT fails_with($$SELECT gkmeans_create_model('pg_temp.t', 'iris', '{sepal_length}', 2)$$, '0A000', 'a temporary model');
SELECT fails_with($$SELECT gkmeans_create_model(NULL, 'iris', '{sepal_length}', 2)$$, '22004', 'no name');
SELECT fails_with($$SELECT gkmeans_create_model('never', 'SELECT 1 / (id - 20) AS x FROM iris', '{x}', 2)$$, '22012', 'an error in the source');
SELECT hasnt_table('gk_test', 'never'::name, 'leaves no model');
CREATE TEMP TABLE temporary OF gkmeans_model;
SELECT fails_with($$SELECT gkmeans_predict('temporary', 1.0)$$, '0A000', 'a temporary table of the type is refused', 'temporary');

-- labels_mode
CREATE TABLE flower_kinds (id int PRIMARY KEY, cluster_id int);
CREATE FUNCTION create_labelled(mode text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM gkmeans_create_model('with_labels', 'iris', '{sepal_length}', 2, id_column => 'id', labels_table => 'flower_kinds',
		labels_mode => mode, changes_table => 'flower_moves', if_exists => 'replace')
$$;
SELECT lives_ok('SELECT create_labelled(NULL)', 'labels_mode => NULL means merge, as its default');
SELECT is((SELECT count(*) FROM flower_kinds JOIN flower_moves USING (id) WHERE to_cluster_id = cluster_id), 150::bigint, 'the labels are merged');
SELECT fails_with($$SELECT create_labelled('skip')$$, '22023', 'a word that is none', 'labels_mode.*skip');
SELECT fails_with($$SELECT gkmeans_create_model('never', 'iris', '{sepal_length}', 2, id_column => 'id', labels_table => 'flower_kinds', labels_mode => 'error')$$, '42P07', 'a labels table that is there', 'flower_kinds', NULL, 'labels_mode.*merge');
CREATE TYPE taken_name AS ENUM ('a');
SELECT fails_with($$SELECT gkmeans_create_model('taken_name', 'SELECT 1 AS x', '{x}', 1)$$, '42710', 'the name of a type', 'type "taken_name" already exists', NULL, 'Choose another name');
ALTER TABLE flower_kinds DROP CONSTRAINT flower_kinds_pkey;
SELECT fails_with($$SELECT gkmeans_create_model('never', 'iris', '{sepal_length}', 2, id_column => 'id', labels_table => 'flower_kinds')$$, '42P10', 'one that cannot be merged', 'flower_kinds', NULL, 'labels_mode.*delete');

-- if_exists
SELECT fails_with($$SELECT gkmeans_create_model('m', 'iris', '{sepal_length}', 2)$$, '42P07', 'if_exists => error', 'already exists', NULL, 'replace.*skip');
SELECT fails_with($$SELECT gkmeans_create_model('iris', 'iris', '{sepal_length}', 2)$$, '42P07', 'a table that is no model: there already');
SELECT fails_with($$SELECT gkmeans_create_model('iris', 'iris', '{sepal_length}', 2, if_exists => 'replace')$$, '42809', 'a table that is no model cannot be replaced');
SELECT fails_with($$SELECT gkmeans_create_model('m', 'iris', '{sepal_length}', 2, if_exists => 'append')$$, '22023', 'another word', NULL, NULL, 'error.*replace.*skip');
SELECT is(fingerprint($$SELECT * FROM gkmeans_create_model('m', 'no_such_source', '{x}', 2, if_exists => 'skip')$$), fingerprint('TABLE fitted'), 'if_exists => skip gives the clusters that are there');
SELECT is(count(*)::int, 1, 'and makes no version') FROM m;
SELECT is(count(*)::int, 2, 'if_exists => replace') FROM gkmeans_create_model('m', 'iris', '{petal_length}', 2, if_exists => 'replace');
SELECT is(array_agg(row(version, deployed)::text ORDER BY version), '{"(1,)","(2,t)"}', 'adds a version and deploys it') FROM m;
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'm'::regclass), (SELECT quote_literal(definition) || '::jsonb' FROM m WHERE version = 2), 'the definition is the new one');
SELECT is(gkmeans_predict('m', 1.4), 1, 'and scores');
SELECT is((SELECT count(*)::int FROM gkmeans_clusters('m', 1)), 3, 'the older version is there');
SELECT fails_with($$SELECT gkmeans_clusters('m', 3)$$, '42704', 'a version that is not there', 'no version 3', NULL, 'versions are: 1, 2');
SELECT gkmeans_create_model('redefined', 'iris', '{petal_length}', 2);
CREATE TABLE defined_before AS SELECT oid FROM pg_attrdef WHERE adrelid = 'redefined'::regclass;
SELECT gkmeans_create_model('redefined', 'iris', '{petal_length}', 2, if_exists => 'replace');
SELECT set_eq($$SELECT oid FROM pg_attrdef WHERE adrelid = 'redefined'::regclass$$, 'TABLE defined_before', 'the same definition is not written again');
ALTER TABLE redefined ALTER definition SET DEFAULT jsonb_build_object('source', 'iris');
SELECT is(count(*)::int, 2, 'one that is no constant is replaced') FROM gkmeans_create_model('redefined', 'iris', '{petal_length}', 2, if_exists => 'replace');
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'redefined'::regclass), (SELECT quote_literal(definition) || '::jsonb' FROM redefined WHERE deployed), 'by the new one');
SELECT fails_with($$SELECT gkmeans_clusters('m', 0)$$, '42704', 'version 0 is none');
CREATE FUNCTION do_nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION do_nothing();
SELECT is(count(*)::int, 3, 'also where a trigger of the model is deferred') FROM gkmeans_create_model('m', 'iris', '{petal_length}', 3, if_exists => 'replace');
SET CONSTRAINTS ALL IMMEDIATE;
DROP TRIGGER later ON m;
DELETE FROM m WHERE version = 3;
SELECT gkmeans_deploy('m', 2);

-- A source that takes the table away while its rows are read
CREATE TABLE one_row AS SELECT 1 AS x;
CREATE FUNCTION take_away(again boolean) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE taken;
	IF again THEN
		PERFORM gkmeans_create_model('taken', 'one_row', '{x}', 1);
	END IF;
	RETURN 1;
END $$;
SELECT fails_with(format('SELECT gkmeans_create_model(''taken'', ''SELECT take_away(%s) AS x FROM one_row'', ''{x}'', 1)', again), '42P01', 'a source that drops the model: ' || again, 'model with OID [0-9]+ does not exist') FROM unnest('{false,true}'::text[]) again;

-- Features that are chosen
SELECT gkmeans_create_model('choosing', 'iris', k => 3);
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'choosing'::regclass), quote_literal(definition) || '::jsonb', 'features that were chosen are in the definition') FROM choosing;
SELECT is(definition -> 'features', to_jsonb(features), 'as if they had been given') FROM choosing;

-- An ordinary table in every other way
SELECT is(reloftype::regtype::text, 'gkmeans_model', 'a model is a typed table') FROM pg_class WHERE oid = 'm'::regclass;
SELECT fails_with('ALTER TABLE m ADD COLUMN x int', '42809', 'its shape cannot be altered');
CREATE VIEW labelled AS SELECT id, gkmeans_predict('m', i) AS cluster_id FROM iris i;
SELECT is((SELECT count(DISTINCT cluster_id)::int FROM labelled), 2, 'a view that predicts');
SELECT fails_with('DROP TABLE m', '2BP01', 'holds the model');
ALTER TABLE m RENAME TO renamed;
SELECT is((SELECT count(DISTINCT cluster_id)::int FROM labelled), 2, 'a rename does not matter to it');
ALTER TABLE renamed SET SCHEMA "Other Schema";
SELECT is((SELECT count(DISTINCT cluster_id)::int FROM labelled), 2, 'nor another schema');
ALTER TABLE "Other Schema".renamed SET SCHEMA gk_test;
ALTER TABLE renamed RENAME TO m;
SELECT fails_with('DROP EXTENSION gkmeans', '2BP01', 'DROP EXTENSION refuses while there are models');
CREATE TABLE log (version int, deployed boolean);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (NEW.version, NEW.deployed); RETURN NEW; END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE OF deployed ON m FOR EACH ROW EXECUTE FUNCTION note();
SELECT lives_ok($$SELECT gkmeans_create_model('m', 'iris', '{petal_length}', 3, if_exists => 'replace')$$, 'a model with a trigger');
SELECT is(array_agg(log::text), '{"(2,)","(3,t)"}', 'which fires for both versions') FROM log;

-- Wide, few, odd
SELECT lives_ok($$SELECT gkmeans_create_model('arrays', 'SELECT id, ARRAY[sepal_length, petal_length]::real[] AS v FROM iris', '{v}', 3, id_column => 'id', labels_table => 'array_labels')$$, 'a model of an array column, with labels');
SELECT is(row(array_column, features)::text, '(v,)', 'its array is named') FROM arrays;
SELECT is((SELECT count(*)::int FROM array_labels JOIN iris USING (id) WHERE gkmeans_predict('arrays', sepal_length::real, petal_length::real) = cluster_id), 150, 'the labels table has the labels of the model');
SET LOCAL client_min_messages = error;
SELECT is(count(*)::int, 1, 'fewer clusters than asked for') FROM gkmeans_create_model('few', 'SELECT 7 AS x FROM iris', '{x}', 5);
SET LOCAL client_min_messages = warning;
SELECT is(row(k, score_quantiles[1], score_quantiles[47])::text, '(1,0,0)', 'rows that are all equal') FROM few;
SELECT is(row(gkmeans_distance('few', 7), gkmeans_anomaly_score('few', 7), gkmeans_anomaly_score('few', 8))::text, '(0,0,Infinity)', 'score 0, and others infinity');

-- Import
SELECT is(gkmeans_import_model('plain', '{{0,0},{10,10},{20,0}}'), 3, 'import from centroids');
SELECT fails_with(format('SELECT gkmeans_import_model(''long'', ''{{1,2}}'', ARRAY[%L, %L])', 'a', name), code, 'a feature that no column can be called') FROM (VALUES (repeat('ä', 32), '42622'), ('', '42602')) n(name, code);
SELECT is(gkmeans_import_model('long', '{{1,2}}', ARRAY['a', repeat('n', 63)]), 1, 'the longest name that a column can have');
SELECT is(row(status, deployed, features, metric, k, dimension)::text, '(imported,t,"{x1,x2}",euclidean,3,2)', 'a version of status imported') FROM plain;
SELECT is(gkmeans_predict('plain', 9, 9), 1, 'it scores');
SELECT is(gkmeans_name('plain', 9, 9), 'cluster 1', 'a cluster without a name');
SELECT is(row(gkmeans_anomaly_score('plain', 9, 9), gkmeans_anomaly_percentile('plain', 9, 9))::text, '(,)', 'what is not known of it is NULL');
SELECT is((SELECT count(*)::int FROM gkmeans_clusters('plain') WHERE size IS NULL AND weight IS NULL AND radius IS NULL), 3, 'also in gkmeans_clusters');
SELECT is(gkmeans_import_model('scaled', '{{0,100},{10,100}}', '{a,b}', scale_offset => '{5,50}', scale_factor => '{0.1,0.01}', names => '{left,NULL}'), 2, 'import with scale and names');
SELECT is(gkmeans_name('scaled', 1, 100), 'left', 'a name');
SELECT near(gkmeans_distance('scaled', 1, 150), sqrt(0.1 ^ 2 + 0.5 ^ 2), 1e-6, 'distances are scaled');
SELECT is(gkmeans_import_model('unit', '{{3,4},{-1,0}}', metric => 'cosine'), 2, 'import with the cosine metric');
SELECT is(gkmeans_centroids('unit'), '{{0.6,0.8},{-1,0}}', 'its centroids are of length 1');
SELECT gkmeans_import_model('tiny_directions', '{{3e-161,4e-161},{3e-170,4e-170}}', metric => 'cosine');
SELECT is(gkmeans_centroids('tiny_directions')::real[], '{{0.6,0.8},{0.6,0.8}}', 'however small the squares of those given are');
SELECT near(gkmeans_distance('unit', 6, 8) + 1, 1, 1e-6, 'and its distances 1 - cos');
SELECT gkmeans_import_model('far_' || name, '{{1700000001},{1700000030}}', '{a}', scale_offset => scale_offset, scale_factor => scale_factor)
FROM (VALUES ('plain', NULL::float8[], NULL::float8[]), ('scaled', '{1700000010.5}', '{0.125}')) scales(name, scale_offset, scale_factor);
CREATE TABLE far_rows AS SELECT 1700000000 + i AS a, i <= 15 AS is_first FROM generate_series(0, 40) i;
SELECT is(count(*) FILTER (WHERE gkmeans_predict(model, a::float8) = (NOT is_first)::int AND gkmeans_distance(model, f) = least(abs(a - 1700000001), abs(a - 1700000030)) * unit), 41::bigint, 'features far from zero are not rounded: ' || model)
FROM far_rows f, (VALUES ('far_plain'::regclass, 1), ('far_scaled', 0.125)) models(model, unit) GROUP BY model;
SELECT gkmeans_import_model(model || '_again', exported => gkmeans_export(model)::jsonb) FROM unnest('{far_plain,far_scaled}'::regclass[]) model;
SELECT is(count(*) FILTER (WHERE cluster_id = gkmeans_predict(model, id) AND distance = gkmeans_distance(model, id) AND distance = gkmeans_distance((model || '_again')::regclass, ARRAY[id])), 41::bigint, 'nor by the engine, nor after an export: ' || model)
FROM unnest('{far_plain,far_scaled}'::regclass[]) model, gkmeans_predict_rows(NULL::int, model, 'SELECT a AS id, a FROM far_rows', 'id') GROUP BY model;
SELECT is(gkmeans_centroids(model), '{{1700000001},{1700000030}}', 'the centroids are as given: ' || model) FROM unnest('{far_plain,far_scaled}'::regclass[]) model;
SELECT gkmeans_import_model('far_directions', '{{1,0},{0,1}}', '{a,b}', 'cosine', scale_offset => '{1700000000,5}', scale_factor => '{1,1}');
SELECT near(gkmeans_distance('far_directions', 1700000003::float8, 9), 0.2, 1e-6, 'directions in a scale that is far from zero');
SELECT is(gkmeans_import_model('plain', '{{1}}', if_exists => 'replace'), 1, 'if_exists => replace');
SELECT is(gkmeans_import_model('plain', '{{1},{2},{3}}', if_exists => 'skip'), 1, 'if_exists => skip');
SELECT gkmeans_create_model('job', 'SELECT row_number() OVER () AS id, sepal_length, petal_length FROM iris', '{sepal_length,petal_length}', 3, scale => 'standard', seed => 7, n_init => 2, id_column => 'id', labels_table => 'job_labels');
SELECT gkmeans_alter_model('job', '{"notify": "jobs"}');
CREATE TABLE job_definition AS SELECT gkmeans_alter_model('job', '{}') AS definition;
SET LOCAL search_path = public, gk_test;
SELECT is(gkmeans_import_model('job', '{{5,1},{6,5}}', '{sepal_length,petal_length}', if_exists => 'replace'), 2, 'another version of a model that has a job');
SET LOCAL search_path = gk_test, public;
SELECT is((SELECT definition FROM job WHERE deployed), (SELECT definition - 'scale' || '{"k": 2}' FROM job_definition), 'keeps its definition, but for what the import contradicts');
SELECT is((SELECT labelled FROM gkmeans_assign('job')), 150::bigint, 'rows are labelled');
SELECT is((SELECT status FROM gkmeans_refit('job', deploy => 'always')), 'fitted', 'and fitted again');
SELECT is((SELECT k FROM job WHERE deployed), 2, 'with as many clusters as were imported');
SELECT gkmeans_alter_model('job', '{"scale": "minmax"}');
SELECT gkmeans_import_model('job', '{{5,1},{6,5},{7,6}}', '{sepal_length,petal_length}', scale_offset => '{5,3}', scale_factor => '{1,2}', metric => 'cosine', if_exists => 'replace');
SELECT is((SELECT definition FROM job WHERE deployed), (SELECT definition || '{"k": 3, "scale": "minmax", "metric": "cosine"}' FROM job_definition), 'another metric, and a scale that has a name');
SELECT gkmeans_rollback('job');
SELECT is((SELECT row(labelled, k)::text FROM gkmeans_assign('job'), job WHERE deployed), '(150,2)', 'after a rollback');
SELECT gkmeans_import_model('job', '{{1},{2}}', '{a}', source => 'other', if_exists => 'replace');
SELECT is((SELECT row(definition ->> 'source', definition -> 'features', definition ->> 'search_path', definition ?| '{id_column,labels_table,changes_table,notify}')::text FROM job WHERE deployed), row('other', '["a"]'::jsonb, current_setting('search_path'), false)::text, 'with another source, it is that of the import');
SELECT fails_with(format('SELECT gkmeans_import_model(%L, %s)', 'bad', arguments), code, 'import: ' || arguments)
FROM (VALUES ('NULL', '22004'), ('''{1,2}''', '22023'), ('''{{1,NULL}}''', '22004'), ('''{{1,NaN}}''', '22023'), ('''{{1e300}}''', '22023'),
	('''{{1,2}}'', ''{a}''', '22023'), ('''{{1,2}}'', ''{a,a}''', '42701'), ('''{{1}}'', metric => ''manhattan''', '22023'), ('''{{0,0}}'', metric => ''cosine''', '22023'),
	('''{{1}}'', scale_offset => ''{1}''', '22023'), ('''{{1}}'', scale_offset => ''{0}'', scale_factor => ''{-1}''', '22023'), ('''{{1}}'', names => ''{a,b}''', '22023'), ('''{{1}}'', if_exists => ''x''', '22023')) t(arguments, code);
SELECT hasnt_table('gk_test', 'bad'::name, 'none of them leaves a model');

-- How the constants of a source are read
CREATE TABLE marked (x float8, mark text);
INSERT INTO marked VALUES (1, 'a\b'), (2, 'a\b'), (3, 'ab');
SELECT is(count(*), 1::bigint, 'a source with a backslash') FROM gkmeans_create_model('read', $$SELECT x FROM marked WHERE mark = 'a\b'$$, '{x}', 1);
SET LOCAL escape_string_warning = off;
SET LOCAL standard_conforming_strings = off;
SELECT is(rows, 2::bigint, 'a refit reads it as before') FROM gkmeans_refit('read', deploy => 'always');
SELECT fails_with($test$SELECT gkmeans_create_model('otherwise', $$SELECT x FROM marked WHERE mark = 'a\b'$$, '{x}', 1)$test$, '22023', 'what a refit would read otherwise is refused', 'standard_conforming_strings is off');
SET LOCAL standard_conforming_strings = on;

-- The schema that "$user" stands for appears while rows are read
CREATE ROLE gk_settler;
GRANT CREATE ON SCHEMA gk_test TO gk_settler;
GRANT USAGE ON SCHEMA gk_test TO gk_settler;
CREATE FUNCTION settle() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = gk_test AS $$ BEGIN EXECUTE 'CREATE SCHEMA IF NOT EXISTS gk_settler AUTHORIZATION gk_settler'; RETURN 1; END $$;
SET LOCAL search_path = "$user", gk_test, public;
SET LOCAL ROLE gk_settler;
SELECT fails_with($$SELECT gkmeans_create_model('gk_test.settled', 'SELECT gk_test.settle() * i AS x FROM generate_series(1, 5) i', '{x}', 2)$$, '40001', 'a schema of the user that was made meanwhile', 'search_path changed while the model was being created', 'Its schemas were gk_test, public, and are gk_settler, gk_test, public.', 'Try again.');
RESET ROLE;
SET LOCAL search_path = gk_test, public;
-- … while a path that the source sets is not that of the definition
CREATE FUNCTION set_path() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'public, gk_test', true); RETURN 1; END $$;
SELECT is(count(*), 2::bigint, 'a source that sets the path') FROM gkmeans_create_model('gk_test.moved_path', 'SELECT gk_test.set_path() * i AS x FROM generate_series(1, 5) i', '{x}', 2);
SET LOCAL search_path = gk_test, public;
SELECT is(definition ->> 'search_path', 'gk_test, public', 'has the path that was set before') FROM moved_path;
-- … nor is it another one where names are quoted otherwise
CREATE FUNCTION quote_all() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('quote_all_identifiers', 'on', true); RETURN 1; END $$;
SELECT is(count(*), 2::bigint, 'a source that has all names quoted') FROM gkmeans_create_model('quoted_path', 'SELECT quote_all() * i AS x FROM generate_series(1, 5) i', '{x}', 2);
SET LOCAL quote_all_identifiers = off;
-- … and long ones only until the statement ends: 18 reports them to the client, which cannot read them
CREATE FUNCTION create_by(path text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	PERFORM set_config('search_path', path, true);
	PERFORM gkmeans_create_model('gk_test.long_path', 'SELECT 1 AS x', '{x}', 1);
END $$;
SELECT fails_with($$SELECT gk_test.create_by('gk_test, public, ' || string_agg('s' || i || repeat('x', 50), ', ')) FROM generate_series(1, 1300) i$$, '54000', 'a path that is too long for a refit', 'the search_path of the model''s definition is too long');
CREATE SCHEMA gk_settler;
GRANT gk_settler TO CURRENT_USER;
SET LOCAL ROLE gk_settler;
SELECT fails_with($$SELECT gk_test.create_by('gk_test, public' || repeat(', "$user"', 6000))$$, '54000', 'and one of few bytes that stands for many', 'the search_path of the model''s definition is too long');
RESET ROLE;
SET LOCAL search_path = gk_test, public;
SELECT fails_with($$SELECT gkmeans_import_model('gk_test.long_names', exported => jsonb_build_object('gkmeans', 1, 'metric', 'euclidean', 'k', 1, 'dimension', 9,
	'features', (SELECT jsonb_agg(rpad('f' || i, 1000000, 'x')) FROM generate_series(1, 9) i), 'points', '[[0,0,0,0,0,0,0,0,0]]'::jsonb))$$, '54000', 'an import with names of nine megabytes', 'the definition of the model is too long');

-- An export may have names that no column has; a message has their beginnings
SELECT gkmeans_import_model('gk_test.long_features', exported => jsonb_build_object('gkmeans', 1, 'metric', 'euclidean', 'k', 1, 'dimension', 2, 'features', jsonb_build_array(repeat('é', 100000), 'y'), 'points', '[[0,0]]'::jsonb));
SELECT fails_with($$SELECT gkmeans_predict('gk_test.long_features', 1.0)$$, '22000', 'one feature of two', '1 feature given, the model has 2', NULL, '^The features of the model are: "é{31}"..., y\.$');

-- Models, and labels that later calls change, are heap tables whatever the default is
CREATE ACCESS METHOD gk_other_heap TYPE TABLE HANDLER heap_tableam_handler;
SET LOCAL default_table_access_method = gk_other_heap;
SELECT gkmeans_create_model('kept_in_heap', 'SELECT i AS id, i AS x FROM generate_series(1, 9) AS i', '{x}', 2, id_column => 'id', labels_table => 'heap_labels');
SELECT gkmeans_fit('SELECT i AS id, i AS x FROM generate_series(1, 9) AS i', '{x}', 2, id_column => 'id', labels_table => mode || '_labels', if_exists => mode) FROM unnest('{merge,delete,append,replace}'::text[]) AS mode;
SELECT is(string_agg(relname || ' ' || amname, ', ' ORDER BY relname::text COLLATE "C"), 'append_labels gk_other_heap, delete_labels heap, heap_labels heap, kept_in_heap heap, merge_labels heap, replace_labels gk_other_heap', 'models and labels are heap tables')
FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE relname ~ '^(kept_in_heap|(heap|merge|delete|append|replace)_labels)$';
RESET default_table_access_method;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
