-- gkmeans_predict_rows and gkmeans_assign: all rows of a source by a model, through the engine.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[4]::float8 AS c, f[5]::float8 AS d FROM csv_lines(:'iris') f;
CREATE TABLE far AS SELECT id, a + 1e6 AS a, b + 1e6 AS b, c + 1e9 AS c, d AS d FROM iris;
CREATE TABLE grid AS SELECT i AS id, (i % 5)::float8 AS a, (i / 5 % 5)::float8 AS b, (i / 25 % 5)::float8 AS c, (i % 3)::float8 AS d FROM generate_series(0, 374) i;
CREATE FUNCTION compare(source text, arguments text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, %L, ''{a,b,c,d}'', 7, id_column => ''id'', %s)', source, arguments);
	EXECUTE format('SELECT FROM gkmeans_create_model(''model'', %L, ''{a,b,c,d}'', 7, %s)', source, arguments);
	RETURN NEXT set_eq(format('SELECT * FROM gkmeans_predict_rows(NULL::int, ''model'', %L, ''id'')', source), 'TABLE labels', format('%s, %s: the labels of the fit', source, arguments));
	EXECUTE format('CREATE TABLE scored AS SELECT id, gkmeans_predict(''model'', t) AS cluster_id, gkmeans_distance(''model'', t) AS distance FROM (SELECT id, a * 1.1 AS a, b * 0.9 AS b, c + 1 AS c, d + 0.5 AS d FROM %s) t', source);
	RETURN NEXT set_eq(format('SELECT * FROM gkmeans_predict_rows(NULL::int, ''model'', ''SELECT d + 0.5 AS d, b * 0.9 AS b, 7 AS other, id, c + 1 AS c, a * 1.1 AS a FROM %s'', ''id'')', source), 'TABLE scored', 'other rows, in another order: as gkmeans_predict');
	DROP TABLE labels, model, scored;
END $$;
SET LOCAL client_min_messages = error;
SELECT compare(source, format('scale => %L, metric => %L', scale, metric)) FROM unnest('{iris,far,grid}'::text[]) source, unnest('{none,standard,minmax}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SELECT compare('grid', 'initial_centroids => ''{{4,4,4,2},{0,0,0,0},{2,2,2,1},{0,4,0,1},{900,0,0,0},{4,0,4,1},{4,4,0,0}}'', max_iter => 2');

-- Types of the columns: also those that hold less than what the model was fitted on
SELECT gkmeans_create_model('m', 'far', '{a,b,c,d}', 5, scale => 'standard');
SELECT set_eq(format('SELECT * FROM gkmeans_predict_rows(NULL::int, ''m'', %L, ''id'')', source), format('SELECT id, gkmeans_predict(''m'', t), gkmeans_distance(''m'', t) FROM (%s) t', source), 'columns of other types: ' || source) FROM unnest(ARRAY[
	'SELECT id, a::real AS a, b::real AS b, c::real AS c, d::real AS d FROM far', 'SELECT id, a::numeric AS a, b::int AS b, c::bigint AS c, d::smallint AS d FROM far']) source;
SELECT gkmeans_create_model('v', 'SELECT ARRAY[a, b, c] AS v FROM far', '{v}', 5);
SELECT set_eq(format('SELECT * FROM gkmeans_predict_rows(NULL::int, ''v'', %L, ''id'')', source), format('SELECT id, gkmeans_predict(''v'', v), gkmeans_distance(''v'', v) FROM (%s) t', source), 'arrays: ' || source) FROM unnest(ARRAY['SELECT id, ARRAY[a, b, c] AS v FROM far',
	'SELECT id, ARRAY[a, b, c]::real[] AS v FROM far', 'SELECT id, ARRAY[a, b, c]::numeric[] AS v FROM far', 'SELECT id, ARRAY[id, id, id]::smallint[] AS v FROM far', 'SELECT id, CASE WHEN id > 5 THEN ARRAY[a, NULL, c] END AS v FROM far']) source;
SET LOCAL client_min_messages = warning;

-- Ids, rows without label, nothing at all, versions
SELECT is(pg_typeof(id)::text, 'text', 'ids are of the type asked for') FROM gkmeans_predict_rows(NULL::text, 'm', 'SELECT id::text AS id, a, b, c, d FROM far', 'id') LIMIT 1;
SELECT is((SELECT count(*)::int FROM gkmeans_predict_rows(NULL::int, 'm', 'SELECT id, nullif(a, 1000005.1) AS a, b, c, d FROM far', 'id') WHERE cluster_id IS NULL AND distance IS NULL), (SELECT count(*)::int FROM far WHERE a = 1000005.1), 'rows that cannot be scored have no label');
SELECT is((SELECT count(*)::int FROM gkmeans_predict_rows(NULL::int, 'm', 'SELECT id, NULL::float8 AS a, b, c, d FROM far', 'id') WHERE cluster_id IS NULL), 150, 'none can be scored');
SELECT is_empty($$SELECT * FROM gkmeans_predict_rows(NULL::int, 'm', 'SELECT * FROM far WHERE false', 'id')$$, 'no row');
SELECT gkmeans_import_model('i', '{{0},{10}}', '{a}');
SELECT gkmeans_import_model('i', '{{10},{0}}', '{a}', if_exists => 'replace');
SELECT is((SELECT array_agg(cluster_id) FROM gkmeans_predict_rows(NULL::int, 'i', 'SELECT 1 AS id, 9 AS a', 'id', version) p), ARRAY[label], format('version %s', version)) FROM (VALUES (NULL, 0), (1, 1), (2, 0)) v(version, label);
SELECT is((SELECT count(*)::int FROM gkmeans_predict_rows(NULL::int, 'm', 'far', 'id') p JOIN far f USING (id) WHERE p.cluster_id = gkmeans_predict('m', f)), 150, 'joined with the source');

-- gkmeans_assign
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'far', 'id', 'labels') s), '(150,150,150,0,0)', 'a labels table that is made');
SELECT col_is_pk('gk_test', 'labels', 'id', 'with a primary key');
SELECT set_eq('TABLE labels', $$SELECT * FROM gkmeans_predict_rows(NULL::int, 'm', 'far', 'id')$$, 'its labels');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'far', 'id', 'labels') s), '(150,150,0,0,0)', 'merged once more: nothing is written');
UPDATE labels SET cluster_id = cluster_id + 1 WHERE id <= 20;
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'SELECT * FROM far WHERE id > 10 UNION ALL SELECT 1000 + id, a, b, c, NULL FROM far WHERE id <= 5', 'id', 'labels') s), '(145,140,5,10,10)', 'merged: inserted, updated, deleted');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'far', 'id', 'labels', 'delete') s), '(150,150,150,0,145)', 'delete');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'far', 'id', 'labels', 'replace') s), '(150,150,150,0,0)', 'replace');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'SELECT id + 1000 AS id, a, b, c, d FROM far', 'id', 'labels', 'append') s), '(150,150,150,0,0)', 'append');
SELECT is(count(*)::int, 300, 'appended') FROM labels;
SELECT fails_with($$SELECT gkmeans_assign('m', 'far', 'id', 'labels', 'error')$$, '42P07', 'error');
SELECT fails_with($$SELECT gkmeans_assign('m', 'far', 'id', 'labels', 'upsert')$$, '22023', 'another word', 'labels_mode', NULL, 'merge');

-- Errors
SELECT gkmeans_import_model('sourceless', '{{1}}');
SELECT fails_with($$SELECT gkmeans_assign('sourceless', id_column => 'id', labels_table => 'labels')$$, '55000', 'no source anywhere', 'model "sourceless" has no source', 'does not name one', 'Give one as source');
SELECT fails_with($$SELECT gkmeans_assign('m', 'far', labels_table => 'labels')$$, '22004', 'no id column anywhere', 'id_column is NULL', 'does not name one', 'gkmeans_alter_model');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'iris', 'no_id')$$, '42703', 'no such id column');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'SELECT id, a, b, c FROM far', 'id')$$, '42703', 'a feature is missing', '"d"', 'It is a feature of the model');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'SELECT id, a, b, c, ''x'' AS d FROM far', 'id')$$, '42804', 'a feature that is no number');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'v', 'SELECT id, ARRAY[a, b] AS v FROM far', 'id')$$, '22000', 'arrays that are too short', '2 features.* 3');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'v', 'SELECT id, a AS v FROM far', 'id')$$, '42804', 'a number instead of an array');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'i', 'SELECT id, ARRAY[a] AS a FROM far', 'id')$$, '42804', 'an array instead of a number');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::uuid, 'm', 'far', 'id')$$, '42804', 'ids of another type');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'far', 'id', 9)$$, '42704', 'no such version');
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'far', 'far', 'id')$$, '42809', 'no model');
SELECT fails_with(format('SELECT gkmeans_assign(%s)', arguments), '22004', arguments) FROM unnest(ARRAY['NULL, ''far'', ''id'', ''x''', '''m'', ''far'', NULL, ''x''', '''m'', ''far'', ''id'', NULL']) arguments;
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'SELECT id, 1 / (id - 100) AS a, b, c, d FROM far', 'id')$$, '22012', 'an error in the source');
CREATE ROLE gk_reader;
GRANT USAGE ON SCHEMA gk_test TO gk_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO gk_reader;
GRANT SELECT ON far TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'far', 'id')$$, '42501', 'without SELECT on the model', 'table m');
RESET ROLE;
GRANT SELECT ON m TO gk_reader;
REVOKE SELECT ON far FROM gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_predict_rows(NULL::int, 'm', 'far', 'id')$$, '42501', 'without SELECT on the source', 'table far');
RESET ROLE;

-- Parallel workers read
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
CREATE TABLE many AS SELECT i AS id, 1e6 + noise(i, 1) AS a, noise(i, 2) * 100 AS b, noise(i, 3) AS c, noise(i, 4) AS d FROM generate_series(1, 20000) i;
ANALYZE many;
SELECT gkmeans_create_model('large', 'many', '{a,b,c,d}', 20, scale => 'minmax', max_iter => 5);
SELECT is((SELECT count(*)::int FROM gkmeans_predict_rows(NULL::int, 'large', 'many', 'id') p JOIN many m USING (id) WHERE p.cluster_id = gkmeans_predict('large', m) AND p.distance = gkmeans_distance('large', m)), 20000, 'read in parallel');

-- Without arguments: those of the definition, for the owner alone
CREATE SCHEMA elsewhere;
SET LOCAL search_path = elsewhere, gk_test, public;
CREATE TABLE rows AS SELECT id AS "The Id", a, b FROM iris;
SELECT gkmeans_create_model('gk_test.defined', 'rows', '{a,b}', 3, id_column => 'The Id', labels_table => 'kinds', options => '{"id_name": "of_row"}', changes_table => 'moves');
SET LOCAL search_path = gk_test, public;
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('defined') s), '(150,150,0,0,0)', 'source, id and tables of the definition, by its search path');
UPDATE elsewhere.rows SET a = a + 3 WHERE "The Id" <= 10;
SELECT is((SELECT updated >= 10 AND inserted = 0 AND deleted = 0 FROM gkmeans_assign('defined')), true, 'rows that changed');
SELECT is((SELECT count(*)::int FROM elsewhere.moves), 150 + (SELECT count(*)::int FROM elsewhere.moves WHERE from_cluster_id IS NOT NULL), 'with their changes');
SELECT is((SELECT count(*) > 0 FROM elsewhere.moves WHERE from_cluster_id IS NOT NULL), true, 'which are some');
SELECT is(current_setting('search_path'), 'gk_test, public', 'the search path is as it was');
SELECT is((SELECT inserted FROM gkmeans_assign('defined', labels_table => 'here')), 150::bigint, 'another table of labels');
SELECT columns_are('gk_test', 'here', '{id,cluster_id,distance}'::name[], 'is where the caller looks for it, and as it would be without the definition');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('defined', 'SELECT id AS "The Id", a, b FROM iris WHERE id <= 20') s), '(20,20,0,10,130)', 'another source') FROM (SELECT 1 FROM gkmeans_assign('defined')) first;
SELECT fails_with($$SELECT gkmeans_assign('defined', 'rows')$$, '42P01', 'which is looked up as the caller does');
SELECT fails_with($$SELECT gkmeans_assign('defined', labels_mode => 'append', changes_table => 'moves')$$, '22023', 'changes where nothing is merged');
SELECT is((SELECT inserted FROM gkmeans_assign('defined', labels_mode => 'delete')), 150::bigint, 'another mode writes no changes');
CREATE TABLE batch AS SELECT id, a, b FROM iris WHERE id <= 50;
SELECT gkmeans_create_model('appends', 'batch', '{a,b}', 3, id_column => 'id', labels_table => 'appended', labels_mode => 'append', options => '{"id_name": "of_row"}');
UPDATE batch SET id = id + 50;
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('appends', labels_table => 'appended') s), '(50,50,50,0,0)', 'the labels table of the definition is written by its mode where it is named, too');
UPDATE batch SET id = id + 50;
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('appends', 'batch', 'id', 'gk_test."appended"') s), '(50,50,50,0,0)', 'and where all is named');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('appends', 'batch', 'id', 'appended', 'delete') s), '(50,50,50,0,150)', 'unless another mode is named');
CREATE TEMP TABLE moves_before AS SELECT count(*) FROM elsewhere.moves;
CREATE TEMP TABLE assigned AS SELECT * FROM gkmeans_assign('defined', 'SELECT id AS "The Id", 9 - a AS a, b FROM iris', 'The Id', 'elsewhere.kinds');
SELECT is(inserted = 0 AND (SELECT count(*) FROM elsewhere.moves) > count, true, 'with its changes, too') FROM assigned, moves_before;
DROP TABLE elsewhere.kinds;
SELECT is((SELECT inserted FROM gkmeans_assign('defined', labels_table => 'elsewhere."kinds"')), 150::bigint, 'the labels table of the definition is gone');
SELECT columns_are('elsewhere', 'kinds', '{of_row,cluster_id,distance}'::name[], 'where it is named, it is made again by the definition');
SET LOCAL search_path = missing, "$user", pg_temp, gk_test, public;
SELECT gkmeans_create_model('gk_test.temporarily', 'batch', '{a}', 2, id_column => 'id', labels_table => 'no_labels', options => '{"id_name": "of_row"}');
DROP TABLE no_labels;
SELECT is((SELECT inserted FROM gkmeans_assign('gk_test.temporarily', labels_table => 'no_labels')), 50::bigint, 'the same name by the same search_path');
SELECT columns_are((SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()), 'no_labels', '{of_row,cluster_id,distance}'::name[], 'it is that of the definition');
DROP TABLE pg_temp.no_labels;
SET LOCAL search_path = gk_test, public;
SELECT is((SELECT inserted FROM gkmeans_assign('temporarily', 'batch', 'id', 'no_labels')), 50::bigint, 'where that of the definition would be a temporary one');
SELECT columns_are('gk_test', 'no_labels', '{id,cluster_id,distance}'::name[], 'the named one is another one');
CREATE TABLE own_data AS SELECT id, a FROM iris;
CREATE ROLE gk_owner;
CREATE SCHEMA closed;
GRANT ALL ON SCHEMA closed, gk_test TO gk_owner;
ALTER TABLE own_data OWNER TO gk_owner;
SET LOCAL ROLE gk_owner;
SELECT gkmeans_create_model('closed_model', 'own_data', '{a}', 2, id_column => 'id', labels_table => 'closed.labels');
RESET ROLE;
REVOKE ALL ON SCHEMA closed FROM gk_owner;
SET LOCAL ROLE gk_owner;
SELECT is((SELECT inserted FROM gkmeans_assign('closed_model', 'own_data', 'id', 'open_labels')), 150::bigint, 'another table, where that of the definition is out of reach');
SELECT is((SELECT rows FROM gkmeans_refit('closed_model', labels_table => 'open_labels')), 150::bigint, 'so for a refit');
RESET ROLE;
SELECT gkmeans_create_model('undefined', 'iris', '{a}', 2);
SELECT fails_with($$SELECT gkmeans_assign('undefined')$$, '22004', 'a definition without an id', 'id_column is NULL', 'definition');
SELECT fails_with($$SELECT gkmeans_assign('undefined', id_column => 'id')$$, '22004', 'nor labels', 'labels_table is NULL');
CREATE ROLE gk_superuser SUPERUSER;
SET LOCAL ROLE gk_superuser;
SELECT fails_with($$SELECT gkmeans_assign('defined')$$, '42501', 'not even a superuser runs the text of another', 'definition of model "defined"', 'would run as you', 'owner of the model call this function');
RESET ROLE;

-- A row that the scale of the model makes infinite
CREATE TABLE narrow AS SELECT i AS id, 1e-25 * (i % 5) AS a, 1e-20 * (i % 7) AS b FROM generate_series(1, 200) i;
SELECT gkmeans_create_model(metric || '_model', 'narrow', '{a,b}', 3, scale => 'standard', metric => metric) FROM unnest('{euclidean,cosine}'::text[]) metric;
INSERT INTO narrow VALUES (201, 3e38, 0);
SELECT fails_with(format(call, metric || '_model'), '22003', format(call, metric || '_model'), 'feature "a" is out of range', 'In the scale of the model', 'Leave such rows out') FROM unnest('{euclidean,cosine}'::text[]) metric,
	unnest(ARRAY['SELECT gkmeans_assign(%L, ''narrow'', ''id'', ''infinite'')', 'SELECT gkmeans_predict_rows(NULL::int, %L, ''narrow'', ''id'')', 'SELECT gkmeans_evaluate(%L)', 'SELECT gkmeans_drift(%L)', 'SELECT gkmeans_refit(%L, deploy => ''always'')']) call;
SELECT is((SELECT array_agg(gkmeans_predict((metric || '_model')::regclass, n)) FROM narrow n WHERE id = 201), '{NULL}'::int[], metric || ': its label alone is NULL') FROM unnest('{euclidean,cosine}'::text[]) metric;
CREATE TABLE apart AS SELECT i AS id, 3e38 + 1e34 * (i % 10) AS a, ARRAY[1, 3e38 + 1e34 * (i % 10)] AS v FROM generate_series(1, 100) i;
SELECT gkmeans_create_model(feature || '_model', 'apart', ARRAY[feature], 3) FROM unnest('{a,v}'::text[]) feature;
INSERT INTO apart VALUES (101, -3e38, '{1,-3e38}');
SELECT fails_with(format('SELECT gkmeans_assign(%L, ''apart'', ''id'', ''infinite'')', feature || '_model'), '22003', feature || ': nor may the shift', CASE feature WHEN 'a' THEN 'feature "a" is out of range' ELSE 'feature 2 is out of range' END, 'Less the shift', 'Leave such rows out') FROM unnest('{a,v}'::text[]) feature;

-- What the calling statement has done to the model counts
SELECT gkmeans_create_model('stated', 'own_data', '{a}', 2, id_column => 'id', labels_table => 'stated_labels', labels_mode => 'merge');
ALTER TABLE stated_labels ADD version int, ADD name text;
SELECT gkmeans_create_model('stated', 'own_data', '{a}', 3, id_column => 'id', labels_table => 'stated_labels', labels_mode => 'merge', if_exists => 'replace');
CREATE FUNCTION stated(call text, OUT version text, OUT labels text, OUT names text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE call;
	SELECT string_agg(m.version::text, ' ') INTO version FROM stated m WHERE deployed;
	SELECT string_agg(DISTINCT l.version::text, ' '), string_agg(DISTINCT name, ' ') INTO labels, names FROM stated_labels l;
END $$;
SELECT is(stated(call)::text, wanted, call) FROM (VALUES
	($$SELECT gkmeans_deploy('stated', 1), gkmeans_assign('stated')$$, '(1,1,"cluster 0 cluster 1")'),
	($$SELECT gkmeans_name_clusters('stated', '{p,q}'), gkmeans_assign('stated')$$, '(1,1,"p q")'),
	($$WITH w AS (UPDATE stated SET deployed = NULL WHERE deployed RETURNING version) SELECT gkmeans_deploy('stated', version), gkmeans_assign('stated') FROM w$$, '(1,1,"p q")'),
	($$WITH w AS (UPDATE stated SET names = '{r,s}' WHERE deployed RETURNING version) SELECT gkmeans_assign('stated') FROM w$$, '(1,1,"r s")'),
	($$SELECT gkmeans_deploy('stated', 2), gkmeans_assign('stated')$$, '(2,2,"cluster 0 cluster 1 cluster 2")'),
	($$WITH w AS (UPDATE stated SET names = '{t,u,v}' WHERE deployed RETURNING version) SELECT gkmeans_refit('stated', deploy => 'always', starts => 0) FROM w$$, '(3,3,"t u v")'),
	($$WITH w AS (DELETE FROM stated WHERE deployed RETURNING version) SELECT gkmeans_deploy('stated', 1), gkmeans_rollback('stated'), gkmeans_assign('stated') FROM w$$, '(2,2,"t u v")'),
	($$WITH w AS (UPDATE stated SET version = 9 WHERE deployed RETURNING version) SELECT gkmeans_refit('stated', deploy => 'always', starts => 0) FROM w$$, '(10,10,"t u v")')) t(call, wanted);
SELECT fails_with($$WITH w AS (UPDATE stated SET deployed = NULL WHERE deployed RETURNING version) SELECT c FROM w, gkmeans_create_model('stated', 'own_data', '{a}', version, if_exists => 'skip') c$$, '55000', 'a model that its statement withdraws is none to skip', 'no deployed version');

-- And what it has done to the rows
CREATE FUNCTION labelled(call text, OUT rows bigint, OUT labels bigint, OUT strays bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE call;
	SELECT count(*) INTO rows FROM own_data;
	SELECT count(*), count(*) FILTER (WHERE id NOT IN (SELECT id FROM own_data)) INTO labels, strays FROM stated_labels;
END $$;
SELECT is(labelled(call)::text, wanted, call) FROM (VALUES
	($$INSERT INTO own_data VALUES (1001, 1) RETURNING gkmeans_assign('stated')$$, '(151,151,0)'),
	($$WITH w AS (DELETE FROM own_data WHERE id > 140 RETURNING id), n AS (SELECT count(*) FROM w) SELECT count, gkmeans_assign('stated') FROM n$$, '(140,140,0)'),
	($$WITH w AS (DELETE FROM own_data WHERE id > 130 RETURNING id), n AS (SELECT count(*) FROM w) SELECT gkmeans_refit('stated', min_improvement => count / 10) FROM n$$, '(130,130,0)'),
	($$WITH w AS (DELETE FROM own_data WHERE id > 120 RETURNING id), n AS (SELECT count(*) FROM w) SELECT f.* FROM n, gkmeans_fit('own_data', '{a}', count::int / 5, id_column => 'id', labels_table => 'stated_labels', if_exists => 'delete') f$$, '(120,120,0)'),
	($$WITH w AS (DELETE FROM own_data WHERE id > 110 RETURNING id), n AS (SELECT count(*) FROM w) SELECT f.* FROM n, gkmeans_create_model('stated', 'own_data', '{a}', count::int / 5, id_column => 'id', labels_table => 'stated_labels', labels_mode => 'merge', if_exists => 'replace') f$$, '(110,110,0)')) t(call, wanted);

SELECT nothing_left('nothing is left of these jobs');
SELECT * FROM finish();
ROLLBACK;
