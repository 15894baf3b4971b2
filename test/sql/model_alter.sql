-- gkmeans_alter_model: the definition by which a model is refitted.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, i AS "The Id", (i % 3) * 10 + noise(i, 1) AS x, (i % 3) * 5 + noise(i, 2) AS y, 'text' AS word FROM generate_series(1, 300) i;
SELECT gkmeans_create_model('m', 'data', '{x}', 3, note => 'a note');
CREATE FUNCTION definition(model regclass) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE result jsonb;
BEGIN
	EXECUTE 'SELECT ' || (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid = model AND attname = 'definition') INTO result;
	RETURN result - 'search_path';
END $$;
CREATE TABLE first AS SELECT definition('m') AS d;

-- Keys are set, and go back to their defaults
SELECT is(gkmeans_alter_model('m', '{"k": 4, "scale": "standard"}') - 'search_path', d || '{"k": 4, "scale": "standard"}', 'it returns the new definition') FROM first;
SELECT is(definition('m'), d || '{"k": 4, "scale": "standard"}', 'which is that of the model') FROM first;
SELECT is((SELECT definition - 'search_path' FROM m), d, 'the version has the one that it was fitted by') FROM first;
SELECT is(gkmeans_alter_model('m', '{"k": null, "scale": null, "n_init": 5}') - 'search_path', (d || '{"n_init": 5}') - 'k' - 'scale', 'null takes a key away') FROM first;
SELECT is(gkmeans_alter_model('m', '{}') - 'search_path', (d || '{"n_init": 5}') - 'k' - 'scale', 'nothing changes nothing') FROM first;
SELECT lives_ok(format('SELECT gkmeans_alter_model(''m'', %L)', change), 'a change: ' || change) FROM unnest(ARRAY['{"notify": "segments"}', '{"notify": null}', '{"source": "SELECT x, y FROM data WHERE x > 0"}', '{"source": "data", "features": ["y", "x"]}', '{"id_column": "id", "labels_table": "labels"}',
	'{"labels_mode": "append", "options": {"id_name": "The Id", "rounds": 3}}', '{"labels_mode": "merge", "changes_table": "changes"}', '{"weight_column": "y", "features": ["x"]}', '{"metric": "cosine", "nulls": "error", "max_iter": 7, "tol": 0.5, "seed": 8589934592, "init": "random"}']) change;
SELECT is(gkmeans_alter_model('m', '{"k": 3}') -> 'k', '3', 'k is back where it was');
SELECT is(definition('m') @> '{"source": "data", "features": ["x"], "id_column": "id", "labels_table": "labels", "labels_mode": "merge", "changes_table": "changes", "options": {"id_name": "The Id", "rounds": 3}, "weight_column": "y", "metric": "cosine", "nulls": "error", "max_iter": 7, "tol": 0.5, "seed": 8589934592, "init": "random"}', true, 'all of them are there');
SELECT is(gkmeans_predict('m', 5), gkmeans_predict_with(gkmeans_export('m')::jsonb, 5), 'it still scores as before');

-- What gkmeans_create_model would refuse
CREATE TABLE mistakes (changes jsonb, code text, message text);
INSERT INTO mistakes VALUES ('[]', '22023', 'not a JSON object'), ('1', '22023', 'not a JSON object'), ('{"kk": 3}', '22023', 'invalid key: "kk"'), ('{"model": "x"}', '22023', 'invalid key'), ('{"note": "x"}', '22023', 'invalid key'), ('{"initial_centroids": [[1]]}', '22023', 'invalid key'),
	('{"k": 0}', '22023', 'k is out of range'), ('{"k": "3"}', '22023', 'invalid k'), ('{"k": 2.5}', '22023', 'invalid k'), ('{"seed": 1e-3}', '22023', 'invalid seed'), ('{"n_init": 1.5}', '22023', 'invalid n_init'), ('{"k": null, "k_candidates": [2, 3.5]}', '22023', 'invalid k_candidates'), ('{"k": 2000000}', '54000', 'limit'), ('{"k": 1e30}', '22023', 'invalid k'), ('{"max_iter": 2147483648}', '22023', 'invalid max_iter'), ('{"tol": 1e400}', '22023', 'tol is out of range'), ('{"k": null, "k_candidates": [2, -2147483649]}', '22023', 'invalid k_candidates'), ('{"features": "x"}', '22023', 'invalid features'), ('{"features": [1]}', '22023', 'invalid features'), ('{"features": []}', '22023', 'features is empty'),
	('{"metric": "manhattan"}', '22023', 'invalid metric'), ('{"scale": 1}', '22023', 'invalid scale'), ('{"init": "given"}', '22023', 'initial_centroids'), ('{"n_init": 0}', '22023', 'n_init'), ('{"tol": -1}', '22023', 'tol'), ('{"options": {"rouns": 3}}', '22023', 'invalid option'), ('{"options": []}', '22023', 'options'),
	('{"labels_mode": "upsert"}', '22023', 'invalid labels_mode'), ('{"labels_mode": "append"}', '22023', 'changes_table'), ('{"labels_table": null}', '22023', 'needs a labels_table'), ('{"labels_table": null, "options": null}', '22023', 'changes_table needs'), ('{"id_column": null}', '22023', 'labels_table needs'),
	('{"k_candidates": [2, 3]}', '22023', 'k_candidates and k'), ('{"criterion": "best"}', '22023', 'invalid criterion'), ('{"k": null, "k_candidates": [0]}', '22023', 'k_candidates'), ('{"k": null, "k_candidates": [2, 3], "criterion": "best"}', '22023', 'criterion'), ('{"source": null, "k": -1}', '22023', 'k is out of range'), ('{"source": "nowhere"}', '42P01', 'nowhere'), ('{"source": "DELETE FROM data"}', '42601', 'source'), ('{"features": ["z"]}', '42703', 'z'), ('{"features": ["word"]}', '42804', 'word'), ('{"id_column": "z"}', '42703', 'z'), ('{"weight_column": "word"}', '42804', 'word'),
	('{"labels_table": "data"}', '42703', 'cluster_id'), ('{"changes_table": "data"}', '42703', 'from_cluster_id'), ('{"notify": ""}', '22023', 'notify'), ('{"notify": 7}', '22023', 'notify'), (jsonb_build_object('notify', repeat('n', 64)), '22023', 'notify'), ('{"search_path": 1}', '22023', 'search_path'), ('{"search_path": "\"a"}', '22023', 'search_path');
CREATE TABLE as_it_is AS SELECT definition('m') AS d;
SELECT fails_with(format('SELECT gkmeans_alter_model(''m'', %L)', changes), code, 'refused: ' || left(changes::text, 60), message) FROM mistakes;
SELECT fails_with($$SELECT gkmeans_alter_model('m', '{"n_init": 2147483648}')$$, '22023', 'the range', 'invalid n_init', NULL, '^It must be a whole number from -2147483648 to 2147483647\.$');
SELECT is(definition('m'), d, 'nothing was changed') FROM as_it_is;
SELECT fails_with($$SELECT gkmeans_alter_model('m', '{"kk": 3}')$$, '22023', 'the HINT lists the keys', NULL, NULL, 'source, features, k, id_column, .*changes_table, notify and search_path');
SELECT is(gkmeans_alter_model('m', NULL), NULL, 'no changes at all');
SELECT fails_with($$SELECT gkmeans_alter_model('data', '{}')$$, '42809', 'no model');

-- A table that must not be there at the first fit is there now
SELECT gkmeans_create_model('n', 'data', '{x}', 3, id_column => 'id', labels_table => 'labels_of_n', labels_mode => 'error');
SELECT fails_with($$SELECT gkmeans_alter_model('n', '{"features": ["x", "y"]}')$$, '42P10', 'a refit would merge', 'no unique index', NULL, 'delete');
SELECT lives_ok($$SELECT gkmeans_alter_model('n', '{"features": ["x", "y"], "labels_mode": "delete"}')$$, 'or delete');
SELECT gkmeans_import_model('i', '{{0},{1}}');
SELECT is(gkmeans_alter_model('i', '{"seed": 7}') -> 'seed', '7', 'a model without a source');
SELECT is(gkmeans_alter_model('i', '{"source": "SELECT x AS x1 FROM data"}') ->> 'source', 'SELECT x AS x1 FROM data', 'gets one');
SELECT gkmeans_create_model('given', 'data', '{x}', initial_centroids => '{{0},{10}}', init => 'given');
SELECT is(gkmeans_alter_model('given', '{"n_init": 3}') - 'search_path', '{"k": 2, "source": "data", "features": ["x"], "n_init": 3}' || defaults, 'of initial centroids, their number is part of a definition') FROM (SELECT d - '{k,source,features,init,n_init}'::text[] AS defaults FROM first) AS first;

-- The search path is that of the definition
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.other_data AS SELECT * FROM data;
SELECT fails_with($$SELECT gkmeans_alter_model('m', '{"source": "other_data"}')$$, '42P01', 'not on the path');
SELECT is(gkmeans_alter_model('m', '{"source": "other_data", "search_path": "elsewhere, public, gk_test"}') ->> 'search_path', 'elsewhere, public, gk_test', 'another path');
SET LOCAL search_path = gk_test, public, pg_catalog;
SELECT is(gkmeans_alter_model('m', '{"source": "data", "search_path": null}') ->> 'search_path', 'gk_test, public, pg_catalog', 'null is the path of now');

-- A default that somebody else has set
CREATE TABLE set_by_hand OF gkmeans_model (definition WITH OPTIONS DEFAULT jsonb_build_object('k', 3));
SELECT fails_with($$SELECT gkmeans_alter_model('set_by_hand', '{"k": 4}')$$, '55000', 'a default that is no constant', 'has no definition');
ALTER TABLE set_by_hand ALTER definition DROP DEFAULT;
SELECT fails_with($$SELECT gkmeans_alter_model('set_by_hand', '{"k": 4}')$$, '55000', 'none');

-- Who may: the owner; what he wrote runs as him, and is looked at as him
CREATE ROLE gk_owner;
CREATE ROLE gk_writer;
GRANT USAGE, CREATE ON SCHEMA gk_test TO gk_owner;
GRANT USAGE ON SCHEMA gk_test TO gk_writer;
GRANT SELECT ON data TO gk_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
SET LOCAL ROLE gk_owner;
CREATE TABLE whose (name text);
CREATE FUNCTION note_user() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'looked at by %', current_user; IF current_user <> 'gk_owner' THEN RAISE EXCEPTION 'trapped %', current_user; END IF; RETURN 1; END $$;
SELECT gkmeans_create_model('owned', 'SELECT x FROM data', '{x}', 2);
GRANT ALL ON owned TO gk_writer;
RESET ROLE;
SET LOCAL client_min_messages = error;
SELECT lives_ok($$SELECT gkmeans_alter_model('owned', '{"source": "SELECT x * gk_test.note_user() AS x FROM data WHERE gk_test.note_user() = 1"}')$$, 'a superuser changes it: the owner looks at the source');
SET LOCAL ROLE gk_writer;
SELECT fails_with($$SELECT gkmeans_alter_model('owned', '{"k": 4}')$$, '42501', 'who may write rows may not', 'must be owner');
RESET ROLE;

-- The command names the model: a schema that is renamed while it begins must not lead it to another one
CREATE SCHEMA gk_one;
CREATE SCHEMA gk_two;
SELECT gkmeans_import_model(schema || '.m', '{{1},{2}}') FROM unnest('{gk_one,gk_two}'::text[]) schema;
CREATE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN ALTER SCHEMA gk_one RENAME TO gk_three; ALTER SCHEMA gk_two RENAME TO gk_one; END $$;
CREATE EVENT TRIGGER gk_swap ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION swap();
SELECT fails_with($$SELECT gkmeans_alter_model('gk_one.m', '{"k": 2}')$$, '55000', 'a definition', 'could not write to model gk_three.m', 'Its schema was renamed meanwhile.', 'Try again.');
SELECT fails_with($$SELECT gkmeans_import_model('gk_one.m', '{{3}}', '{x}', if_exists => 'replace')$$, '55000', 'a new version');
DROP EVENT TRIGGER gk_swap;
CREATE OR REPLACE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN ALTER SCHEMA gk_one RENAME TO gk_four; ALTER SCHEMA gk_two RENAME TO gk_one; END $$;
CREATE VIEW gk_two.w AS SELECT 1 AS x;
CREATE EVENT TRIGGER gk_swap ON ddl_command_end WHEN TAG IN ('CREATE VIEW', 'ALTER TABLE') EXECUTE FUNCTION swap();
CREATE TABLE gk_two.v (x int);
CREATE TABLE gk_two.created (x int);
SELECT fails_with($$SELECT gkmeans_create_view('m', 'gk_one.v')$$, '55000', 'a view', 'could not create gk_one.v', 'Its schema was renamed meanwhile.', 'Try again.');
SELECT fails_with($$SELECT gkmeans_import_model('gk_one.created', '{{1},{2}}')$$, '55000', 'a model', 'could not create gk_one.created', 'Its schema was renamed meanwhile.', 'Try again.');
SELECT fails_with($$SELECT gkmeans_create_view('m', 'gk_one.w')$$, '55000', 'a view instead of one that this transaction made');
DROP EVENT TRIGGER gk_swap;
CREATE TABLE gk_two.made (deployed boolean);
CREATE OR REPLACE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN ALTER SCHEMA gk_one RENAME TO gk_three; ALTER SCHEMA gk_two RENAME TO gk_one; ALTER SCHEMA gk_three RENAME TO gk_two; END $$;
CREATE EVENT TRIGGER gk_swap ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION swap();
CREATE EVENT TRIGGER gk_swap_back ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION swap();
SELECT fails_with($$SELECT gkmeans_import_model('gk_one.made', '{{1},{2}}')$$, '55000', 'a model whose index another table got', 'could not create gk_one.made', 'Its schema was renamed meanwhile.', 'Try again.');
DROP EVENT TRIGGER gk_swap_back;
DROP EVENT TRIGGER gk_swap;

-- A path that is long: each name in it is looked up once, also by who refits the model.
CREATE FUNCTION public.alter_something() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE something (); DROP TABLE something; RETURN 0; END $$;
CREATE FUNCTION public.alter_while_planned() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN public.alter_something(); END $$;
SELECT gkmeans_create_model('public.long_path', 'SELECT i AS x FROM generate_series(1, 9) i WHERE i > public.alter_while_planned()', '{x}', 2);
SELECT gkmeans_alter_model('public.long_path', jsonb_build_object('search_path', repeat('public, ', 8000) || 'pg_catalog'));
CREATE FUNCTION looks_at_schemas() RETURNS bigint LANGUAGE sql AS $$ SELECT idx_scan FROM pg_stat_xact_sys_tables WHERE relid = 'pg_namespace'::regclass $$;
SELECT looks_at_schemas() AS before \gset
SELECT is((SELECT count(*) FROM gkmeans_refit('public.long_path')), 1::bigint, 'a refit by a long path');
SELECT fails_with($$SELECT gkmeans_alter_model('public.long_path', jsonb_build_object('search_path', '"' || repeat('""', 40000) || '"'))$$, '54000', 'one that takes long to read', 'the search_path of the model''s definition is too long', 'It has 80002 bytes, more than 65536.');
SELECT fails_with($$SELECT gkmeans_alter_model('public.long_path', jsonb_build_object('labels_table', '"' || repeat('""', 40000) || '"', 'id_column', 'x'))$$, '42602', 'so is the name of a labels table', 'labels_table is not a name: it is too long', 'It has 80002 bytes, more than 2048.');
SELECT fails_with($$SELECT * FROM gkmeans_fit('"' || repeat('""', 40000) || '"', '{x}', 2)$$, '42601', 'and that of a source');
SELECT fails_with($$SELECT gkmeans_create_model('public.long_one', 'SELECT 1 AS x --' || repeat('x', 7000000), '{x}', 1)$$, '54000', 'a definition of seven megabytes', 'the definition of the model is too long');
SELECT fails_with($$SELECT gkmeans_alter_model('m', jsonb_build_object('k', null, 'k_candidates', (SELECT jsonb_agg(3) FROM generate_series(1, 65536))))$$, '22023', 'more candidates than are read', 'invalid k_candidates', NULL, 'It must be an array of at most 65535 elements.');
SELECT fails_with($$SELECT gkmeans_alter_model('public.long_path', jsonb_build_object('source', 'SELECT 1 AS x --' || repeat('x', 7000000)))$$, '54000', 'that is altered so', 'the definition of the model is too long');
DO $$ BEGIN
	EXECUTE format('ALTER TABLE public.long_path ALTER definition SET DEFAULT %L::jsonb', (SELECT definition || jsonb_build_object('note', repeat('x', 12000000)) FROM public.long_path WHERE version = 1));
END $$;
SELECT fails_with(format('SELECT count(*) FROM %s', call), '54000', 'a longer one is not read: ' || call, 'the definition of model "long_path" is too long')
FROM unnest(ARRAY[$$gkmeans_refit('public.long_path')$$, $$gkmeans_drift('public.long_path')$$, $$gkmeans_alter_model('public.long_path', '{"k": 3}')$$, $$gkmeans_assign('public.long_path', id_column => 'x', labels_table => 'public.l')$$]) call;
UPDATE public.long_path SET deployed = NULL;
SELECT gkmeans_deploy('public.long_path', 1);
SELECT is(version, 1, 'a deployment needs none') FROM public.long_path WHERE deployed;

SELECT cmp_ok(looks_at_schemas() - :before, '<', 1000::bigint, 'looks at few schemas');

SET LOCAL transaction_read_only = on;
SELECT fails_with($$SELECT gkmeans_alter_model('m', '{"k": 4}')$$, '25006', 'a read-only transaction');

SELECT nothing_left('nothing is left');
SELECT * FROM finish();
ROLLBACK;
