-- Models as tables of their owners: renamed, given away, reassigned, dropped; an attribute added to their type.
\ir helpers.psql

CREATE ROLE owner;
CREATE ROLE heir;
CREATE ROLE reader;
CREATE SCHEMA mine AUTHORIZATION owner;
GRANT USAGE ON SCHEMA mine TO heir, reader;
GRANT USAGE ON SCHEMA gk_test TO owner, heir, reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
CREATE TABLE customers AS SELECT i AS id, i % 7 * 10.0 AS spent, i % 3 AS visits FROM generate_series(1, 300) i;
GRANT SELECT ON customers TO PUBLIC;
SET LOCAL ROLE owner;
SELECT count(*) FROM gkmeans_create_model('mine.kinds', 'gk_test.customers', '{spent,visits}', 4, scale => 'standard');
SELECT gkmeans_name_clusters('mine.kinds', '{one,two,three,four}');
GRANT SELECT ON mine.kinds TO reader;
CREATE TABLE mine.seen AS SELECT id, gkmeans_predict('mine.kinds', c) AS cluster_id FROM gk_test.customers c;
GRANT SELECT ON mine.seen TO PUBLIC;
CREATE VIEW mine.labelled AS SELECT id, gkmeans_predict('mine.kinds', c) AS cluster_id FROM gk_test.customers c;
GRANT SELECT ON mine.labelled TO reader;
RESET ROLE;

-- Rows of the view that differ from what was seen at first
CREATE FUNCTION differ() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM mine.seen s FULL JOIN mine.labelled l USING (id) WHERE s.cluster_id IS DISTINCT FROM l.cluster_id';
SELECT is(differ(), 0::bigint, 'a view predicts');
SET LOCAL ROLE reader;
SELECT is(count(DISTINCT cluster_id)::int, 4, 'for a reader as well') FROM mine.labelled;
SELECT is(gkmeans_name('mine.kinds', 60, 2), gkmeans_name('mine.kinds', '{60,2}'), 'who may use the model');
SELECT fails_with($$SELECT gkmeans_deploy('mine.kinds', 1)$$, '42501', 'but not deploy');
SELECT fails_with($$ALTER TABLE mine.kinds RENAME TO stolen$$, '42501', 'nor rename');
RESET ROLE;

-- Names
ALTER ROLE owner RENAME TO "Former Owner";
SELECT is((SELECT owner FROM gkmeans.models WHERE model = 'mine.kinds'), 'Former Owner', 'a role that is renamed');
ALTER ROLE "Former Owner" RENAME TO owner;
ALTER SCHEMA mine RENAME TO "Mine too";
SELECT is((SELECT array_agg(cluster_key ORDER BY cluster_id) FROM gkmeans.clusters WHERE model ~ 'Mine too'),
	'{"\"Mine too\".kinds/1/0","\"Mine too\".kinds/1/1","\"Mine too\".kinds/1/2","\"Mine too\".kinds/1/3"}', 'a schema that is renamed');
ALTER SCHEMA "Mine too" RENAME TO mine;
ALTER TABLE mine.kinds RENAME TO sorts;
SELECT is(differ(), 0::bigint, 'the view predicts with a model that was renamed');
SELECT fails_with($$SELECT gkmeans_predict('mine.kinds', 60, 2)$$, '42P01', 'the old name is gone');
ALTER TABLE mine.sorts RENAME TO kinds;

-- "$user" in the search path of a definition is the schema that the role had then
SET LOCAL search_path = "$user", gk_test, public;
CREATE SCHEMA owner AUTHORIZATION owner;
CREATE TABLE owner.customers AS SELECT * FROM customers WHERE id <= 30;
GRANT SELECT ON owner.customers TO owner;
GRANT CREATE ON SCHEMA mine TO heir;
SET LOCAL ROLE owner;
SELECT count(*) FROM gkmeans_create_model('mine.home', 'customers', '{spent,visits}', 2);
SET LOCAL ROLE heir;
SELECT count(*) FROM gkmeans_create_model('mine.homeless', 'customers', '{spent,visits}', 2);
RESET ROLE;
ALTER ROLE owner RENAME TO renamed;
CREATE SCHEMA heir;
GRANT USAGE ON SCHEMA heir TO heir;
CREATE TABLE heir.customers AS SELECT * FROM customers WHERE id <= 10;
GRANT SELECT ON heir.customers TO heir;
SELECT is((SELECT rows FROM gkmeans_refit('mine.home')), 30::bigint, 'a role with another name refits rows of its schema');
SELECT is((SELECT rows FROM gkmeans_refit('mine.homeless')), 300::bigint, 'a schema of the name of a role that had none is not its own');
ALTER ROLE renamed RENAME TO owner;
DROP TABLE mine.home, mine.homeless;
REVOKE CREATE ON SCHEMA mine FROM heir;
SET LOCAL search_path = gk_test, public;

-- Owners
ALTER TABLE mine.kinds OWNER TO heir;
SELECT is(differ(), 0::bigint, 'the view of the former owner predicts');
SET LOCAL ROLE owner;
SELECT fails_with('SELECT * FROM mine.labelled', '42501', 'but not for him', 'permission denied for table kinds');
SET LOCAL ROLE reader;
SELECT is(count(DISTINCT cluster_id)::int, 4, 'but for a reader of both') FROM mine.labelled;
SET LOCAL ROLE heir;
SELECT is(gkmeans_deploy('mine.kinds', 1), 1, 'the new owner deploys');
SELECT lives_ok($$SELECT gkmeans_name_clusters('mine.kinds', '{a,b,c,d}')$$, 'and names clusters');
RESET ROLE;
REASSIGN OWNED BY heir TO owner;
SELECT is((SELECT owner FROM gkmeans.models WHERE model = 'mine.kinds'), 'owner', 'REASSIGN OWNED');
SELECT is(differ(), 0::bigint, 'the view predicts');
SET LOCAL ROLE owner;
SELECT is(count(*)::int, 2, 'and the owner makes a version') FROM gkmeans_create_model('mine.kinds', 'gk_test.customers', '{spent,visits}', 2, if_exists => 'replace');
SELECT is(gkmeans_rollback('mine.kinds'), 1, 'and rolls back');
RESET ROLE;
DROP OWNED BY heir;
DROP ROLE heir;
SELECT is(differ(), 0::bigint, 'a role that owned the model once is dropped');

-- A superuser replaces no model that another role has made ready: its triggers would run as the superuser
CREATE TABLE ran_as (who text);
GRANT INSERT ON ran_as TO owner;
SET LOCAL ROLE owner;
SELECT count(*) FROM gkmeans_create_model('mine.ready', 'gk_test.customers', '{spent,visits}', 2);
CREATE FUNCTION mine.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO gk_test.ran_as VALUES (current_user); RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT ON mine.ready FOR EACH STATEMENT EXECUTE FUNCTION mine.tell();
RESET ROLE;
CREATE FUNCTION replaces() RETURNS SETOF text LANGUAGE sql AS $$
	VALUES ('SELECT count(*) FROM gkmeans_create_model(''mine.ready'', ''gk_test.customers'', ''{spent,visits}'', 2, if_exists => ''replace'')'),
		('SELECT gkmeans_import_model(''mine.ready'', ''{{1,2}}'', if_exists => ''replace'')') $$;
SELECT fails_with(call, '42501', 'a superuser: ' || call, 'model "ready" exists and belongs to another role', format('as role "%s"', current_user), 'in a session of role "owner", not after SET ROLE') FROM replaces() AS call;
SELECT current_user AS superuser \gset
GRANT owner TO :"superuser";
SELECT fails_with(call, '42501', 'also as a member: ' || call, 'belongs to another role') FROM replaces() AS call;
REVOKE owner FROM :"superuser";
SELECT is(count(*)::int, 0, 'no trigger has run') FROM ran_as;
GRANT EXECUTE ON FUNCTION replaces(), lives_ok(text, text) TO owner;
SET LOCAL ROLE owner;
SELECT lives_ok(call, 'its owner: ' || call) FROM replaces() AS call;
RESET ROLE;
SELECT is(array_agg(DISTINCT who), '{owner}', 'whose triggers run as he') FROM ran_as;
CREATE ROLE gk_peer SUPERUSER;
ALTER TABLE mine.ready OWNER TO gk_peer;
SELECT lives_ok(call, 'one of another superuser: ' || call) FROM replaces() AS call;
ALTER TABLE mine.ready OWNER TO CURRENT_USER;
SELECT lives_ok(call, 'or his own: ' || call) FROM replaces() AS call;
ALTER TABLE mine.ready OWNER TO reader;
GRANT :"superuser" TO reader;
SELECT lives_ok(call, 'or one of a role that may become he: ' || call) FROM replaces() AS call;
REVOKE :"superuser" FROM reader;
DROP TABLE mine.ready, ran_as;
DROP FUNCTION mine.tell, replaces;

-- An attribute that a later version of the extension adds, here in the middle of a session that has the model cached
SELECT is(gkmeans_predict('mine.kinds', 60, 2), (SELECT cluster_id FROM mine.seen JOIN customers USING (id) WHERE spent = 60 AND visits = 2 LIMIT 1), 'the session keeps the model');
ALTER TYPE gkmeans_model ADD ATTRIBUTE of_tomorrow jsonb CASCADE;
SELECT is((SELECT count(*)::int FROM mine.kinds WHERE of_tomorrow IS NULL), 2, 'the models have the attribute');
SELECT is(differ(), 0::bigint, 'and predict');
SELECT is((SELECT versions FROM gkmeans.models WHERE model = 'mine.kinds'), 2::bigint, 'the views show them');
SET LOCAL ROLE owner;
SELECT is(count(*)::int, 3, 'a version is added') FROM gkmeans_create_model('mine.kinds', 'gk_test.customers', '{spent,visits}', 3, if_exists => 'replace');
SELECT is(count(*)::int, 2, 'and a model made') FROM gkmeans_create_model('mine.later', 'gk_test.customers', '{spent,visits}', 2);
SELECT is(gkmeans_predict_with(gkmeans_export('mine.kinds', version => 1)::jsonb, 60, 2), (SELECT cluster_id FROM mine.seen JOIN customers USING (id) WHERE spent = 60 AND visits = 2 LIMIT 1), 'the older version can be exported');
SELECT is(gkmeans_deploy('mine.kinds', 1), 3, 'and deployed');
RESET ROLE;
SELECT is(differ(), 0::bigint, 'and predicts');
ALTER TYPE gkmeans_model DROP ATTRIBUTE of_tomorrow CASCADE;
SELECT is(differ(), 0::bigint, 'without it again');
SELECT is(gkmeans_predict('mine.later', 60, 2), gkmeans_predict('mine.later', '{60,2}'), 'also the model that was made in between');

-- The end of an owner
SELECT fails_with('DROP ROLE owner', '2BP01', 'a role that owns a model is not dropped', NULL, 'owner of table mine.kinds');
SELECT fails_with('DROP TABLE mine.kinds', '2BP01', 'nor a model with which a view predicts', NULL, 'view mine.labelled depends on table mine.kinds');
SET LOCAL ROLE reader;
SELECT is((SELECT array_agg(model) FROM gkmeans.models), '{mine.kinds}', 'a reader sees the model');
RESET ROLE;
DROP OWNED BY reader;
SET LOCAL ROLE reader;
SELECT is((SELECT count(*)::int FROM gkmeans.models), 0, 'DROP OWNED takes the privilege');
RESET ROLE;
DROP OWNED BY owner CASCADE;
DROP ROLE owner;
SELECT is((SELECT count(*)::int FROM gkmeans.models WHERE schema_name = 'mine') + (SELECT count(*)::int FROM pg_class WHERE reloftype = 'gkmeans_model'::regtype AND relnamespace::regnamespace::text = 'mine'), 0, 'and his models');
SELECT is(to_regclass('mine.kinds'), NULL, 'which are gone');

-- In a function that acts as another role, temporary tables of its caller replace nothing that a definition names
CREATE ROLE gk_definer;
CREATE ROLE gk_caller;
CREATE SCHEMA of_definer AUTHORIZATION gk_definer;
GRANT USAGE ON SCHEMA of_definer TO gk_caller;
GRANT USAGE ON SCHEMA gk_test TO gk_caller;
CREATE TABLE found (what text, rows bigint);
GRANT INSERT ON found TO gk_caller;
SET LOCAL ROLE gk_definer;
SET LOCAL search_path = of_definer, public;
CREATE TABLE customers AS SELECT i AS id, i % 2 * 10 + i * 0.01 AS x FROM generate_series(1, 40) i;
SELECT gkmeans_create_model('m', 'customers', '{x}', 2, id_column => 'id', labels_table => 'labels');
CREATE FUNCTION counted(what text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = of_definer, pg_temp AS $$
	DECLARE result bigint; BEGIN EXECUTE what INTO result; RETURN result; END $$;
SET LOCAL ROLE gk_caller;
SET LOCAL search_path = public;
CREATE TEMP TABLE customers AS SELECT i AS id, 1.0 * i AS x FROM generate_series(1, 3) i;
CREATE TEMP TABLE labels (id int PRIMARY KEY, cluster_id int, distance float8);
GRANT ALL ON customers, labels TO PUBLIC;
INSERT INTO gk_test.found SELECT what, of_definer.counted(format('SELECT sum(%s)', what)) FROM unnest(ARRAY[
	$$rows) FROM public.gkmeans_refit('m', deploy => 'always'$$, $$labelled) FROM public.gkmeans_assign('m'$$, $$rows_now) FROM public.gkmeans_drift('m'$$,
	$$rows) FROM public.gkmeans_evaluate('m'$$, $$rows) FROM public.gkmeans_compare('m', 'm'$$]) what;
SELECT count(*) AS labels_of_caller FROM labels \gset
DROP TABLE customers, labels;
RESET ROLE;
SET LOCAL search_path = gk_test, public;
SELECT is(rows, 40::bigint, 'the rows of the owner: ' || what) FROM found;
SELECT is(:labels_of_caller, 0, 'no labels in the table of the caller');
SELECT is((SELECT count(*)::int FROM of_definer.labels), 40, 'but in that of the owner');

-- Nor are they taken where there is no table of that name
CREATE FUNCTION calls(call text) RETURNS text LANGUAGE sql AS $$ SELECT format('SELECT of_definer.counted(%L)', 'SELECT count(*) FROM ' || call) $$;
CREATE FUNCTION refused(call text, relation text, name text) RETURNS text LANGUAGE sql AS $$
	SELECT fails_with(calls(call), '42501', name, format('role "gk_definer" cannot use temporary relation "%s" of another role', relation), 'would run as role "gk_definer"', 'Write the schema') $$;
CREATE FUNCTION run_code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'as %', current_user; END $$;
CREATE FUNCTION run_code(x float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'as %', current_user; END $$;
SET LOCAL ROLE gk_definer;
SELECT gkmeans_alter_model('of_definer.m', '{"labels_table": "later", "changes_table": "later_changes"}');
SET LOCAL ROLE gk_caller;
CREATE TEMP TABLE later (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE TEMP TABLE later_changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
GRANT ALL ON later, later_changes TO PUBLIC;
CREATE TRIGGER t BEFORE INSERT ON later FOR EACH STATEMENT EXECUTE FUNCTION run_code();
CREATE TRIGGER t BEFORE INSERT ON later_changes FOR EACH STATEMENT EXECUTE FUNCTION run_code();
SELECT refused($$public.gkmeans_refit('m', deploy => 'always')$$, 'later', 'labels of a refit');
SELECT refused($$public.gkmeans_assign('m')$$, 'later', 'labels of an assignment');
SELECT refused($$public.gkmeans_fit('customers', '{x}', 2, id_column => 'id', labels_table => 'later', if_exists => 'merge')$$, 'later', 'labels of a fit');
SELECT refused($$public.gkmeans_create_view('m', 'later')$$, 'later', 'the name of a view');
RESET ROLE;
CREATE FUNCTION of_superuser() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT count(*) FROM gkmeans_refit('of_definer.m', deploy => 'always') $$;
SELECT fails_with('SELECT of_superuser()', '42501', 'a superuser is not the owner', 'cannot use temporary relation "later"');
SET LOCAL ROLE gk_caller;
SELECT fails_with('SELECT gk_test.of_superuser()', '42501', 'nor is his function', 'cannot use temporary relation "later"');
DROP TABLE later;
SELECT refused($$public.gkmeans_refit('m', deploy => 'always')$$, 'later_changes', 'changes of a refit');
DROP TABLE later_changes;
SELECT lives_ok(calls($$public.gkmeans_refit('m', deploy => 'always')$$), 'without them the refit makes its own');
RESET ROLE;
SELECT is((SELECT count(*)::int FROM of_definer.later), 40, 'as the owner expects');
ALTER TABLE of_definer.customers RENAME TO gone;
SET LOCAL ROLE gk_caller;
CREATE TEMP VIEW customers AS SELECT i AS id, gk_test.run_code(i) AS x FROM generate_series(1, 3) i;
GRANT ALL ON customers TO PUBLIC;
SELECT refused(format('public.gkmeans_%s', call), 'customers', 'the source of ' || call)
FROM unnest(ARRAY[$$refit('m')$$, $$assign('m')$$, $$drift('m')$$, $$evaluate('m')$$, $$compare('m', 'm')$$, $$create_view('m', 'of_definer.scored')$$, $$fit('customers', '{x}', 2)$$, $$fit('SELECT (SELECT min(x) FROM customers) AS x', '{x}', 1)$$,
	$$fit_predict(NULL::int, 'WITH c AS (TABLE customers) SELECT * FROM c', '{x}', 2, id_column => 'id')$$, $$compare_labels('SELECT id AS a, id AS b FROM customers', 'a', 'b')$$]) call;
DROP VIEW customers;
-- nor temporary types, whose checks run while the source is analysed or read
CREATE DOMAIN pg_temp.measure AS float8 CHECK (gk_test.run_code(VALUE) > 0);
CREATE TYPE pg_temp.pair AS (a pg_temp.measure);
SELECT fails_with(calls(format($$public.gkmeans_fit('SELECT %s AS x FROM gone', '{x}', 2)$$, expression)), '42501', 'a temporary type in ' || expression, 'role "gk_definer" cannot use temporary type', 'would run as role "gk_definer"', 'Write the schema')
FROM unnest(ARRAY['x::measure', 'CAST(x AS measure)', '(''''(1)''''::pair).a', '(NULL::pair[])[1]::text::float8', '(SELECT min(a) FROM jsonb_to_record(''''{}'''') AS r (a measure))', '(WITH RECURSIVE w AS (SELECT 1.0 AS a UNION ALL SELECT a + 1 FROM w WHERE a < 5) CYCLE a SET c TO measure ''''1'''' DEFAULT measure ''''0'''' USING p SELECT min(a) FROM w)', '(SELECT min(a) FROM XMLTABLE(''''/r'''' PASSING (NULL::xml) COLUMNS a measure PATH ''''a'''') AS r)']) expression;
SET LOCAL ROLE gk_definer;
ALTER TABLE of_definer.m ALTER definition SET DEFAULT '{"source": "SELECT id, (''(1)''::pair).a AS x FROM gone", "features": ["x"], "search_path": "of_definer, pg_temp"}';
SET LOCAL ROLE gk_caller;
SELECT fails_with(calls($$public.gkmeans_create_view('m', 'of_definer.scored')$$), '42501', 'in a view of scored rows', 'role "gk_definer" cannot use temporary type', 'would run as role "gk_definer"', 'Write the schema');
DROP TYPE pg_temp.pair;
DROP DOMAIN pg_temp.measure;
-- but those of the role itself, and of whoever could act as it, are
CREATE TEMP TABLE customers AS SELECT i AS id, 1.0 * i AS x FROM generate_series(1, 3) i;
GRANT ALL ON customers TO PUBLIC;
SELECT lives_ok($$SELECT gkmeans_fit('customers', '{x}', 2, id_column => 'id', labels_table => 'pg_temp.own')$$, 'a role may use its own');
RESET ROLE;
SELECT lives_ok($$SELECT gkmeans_fit('pg_temp.customers', '{x}', 2)$$, 'and another in the session itself');
GRANT gk_definer TO gk_caller;
SET LOCAL ROLE gk_caller;
SELECT lives_ok(calls($$public.gkmeans_fit('customers', '{x}', 2)$$), 'a caller who could be the owner');
SET LOCAL ROLE gk_definer;
SELECT lives_ok($$SELECT gkmeans_fit('customers', '{x}', 2)$$, 'and is');
DROP TABLE of_definer.later;
RESET ROLE;
REVOKE gk_definer FROM gk_caller;
CREATE FUNCTION with_own() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = of_definer, public, pg_temp AS $$
BEGIN
	CREATE TEMP TABLE of_function AS SELECT i AS id, 1.0 * i AS x FROM generate_series(1, 30) i;
	RETURN (SELECT sum(size) FROM gkmeans_fit('of_function', '{x}', 2, id_column => 'id', labels_table => 'pg_temp.of_function_labels'));
END $$;
GRANT gk_definer TO CURRENT_USER;
GRANT CREATE ON SCHEMA gk_test TO gk_definer;
ALTER FUNCTION with_own() OWNER TO gk_definer;
SET LOCAL ROLE gk_caller;
SELECT is(with_own(), 30::bigint, 'temporary tables of the function itself');
RESET ROLE;

-- Cursors that functions of an owner's source open, or put in the place of the caller's, end with the call
LOAD 'gkmeans_faults';
CREATE FUNCTION gk_test.leave_cursor(text) RETURNS void AS '$libdir/gkmeans_faults', 'gkmeans_leave_cursor' LANGUAGE C;
CREATE ROLE gk_sly;
CREATE SCHEMA of_sly AUTHORIZATION gk_sly;
GRANT USAGE ON SCHEMA gk_test TO gk_sly;
GRANT INSERT ON found TO gk_sly;
TRUNCATE found;
SET LOCAL ROLE gk_sly;
SET LOCAL search_path = of_sly, public;
CREATE FUNCTION replaced(x float8, cursor_name refcursor) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE other refcursor;
BEGIN
	IF EXISTS (SELECT FROM pg_cursors WHERE name = cursor_name::text) THEN
		CLOSE cursor_name;
		OPEN cursor_name FOR SELECT 'not yours as ' || current_user;
		OPEN other FOR SELECT 1;
		PERFORM gk_test.leave_cursor('SELECT 1');
		INSERT INTO gk_test.found VALUES ('replaced', 1);
	END IF;
	RETURN x;
END $$;
CREATE TABLE points AS SELECT i AS id, i % 2 * 10 + i * 0.01 AS x FROM generate_series(1, 40) i;
SELECT gkmeans_create_model('sly', 'SELECT CASE WHEN id = 5 THEN replaced(x, ''theirs'') ELSE x END AS x FROM points', '{x}', 2);
RESET ROLE;
SET LOCAL search_path = gk_test, public;
CREATE FUNCTION my_cursors() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(name, ' ' ORDER BY name) FROM pg_cursors WHERE name !~ 'unnamed' OR statement !~ 'pg_cursors|call' $$;
CREATE FUNCTION after_call(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	theirs refcursor := 'theirs'; mine refcursor := 'mine'; r record; found text := 'nothing'; turns int := 0;
BEGIN
	OPEN theirs FOR SELECT 'caller'::text;
	OPEN mine FOR SELECT 'caller'::text;
	FOR r IN SELECT i FROM generate_series(1, 2) i LOOP
		EXECUTE 'SELECT count(*) FROM public.gkmeans_' || call;
		turns := turns + 1;
		BEGIN
			FETCH theirs INTO found;
		EXCEPTION WHEN invalid_cursor_name THEN found := SQLSTATE;
		END;
	END LOOP;
	FETCH mine INTO r;
	CLOSE mine;
	RETURN format('%s, %s turns, mine of %s, %s', found, turns, r, my_cursors());
END $$;
SELECT is(after_call(call), '34000, 2 turns, mine of (caller), ', 'cursors after ' || call)
FROM unnest(ARRAY[$$refit('of_sly.sly')$$, $$drift('of_sly.sly')$$, $$feature_drift('of_sly.sly')$$]) call;
SELECT is(count(*)::int, 3, 'each of which replaced one') FROM found;
DECLARE theirs CURSOR FOR SELECT 'caller'::text;
DECLARE mine CURSOR FOR SELECT 'caller'::text;
SELECT is(count(*)::int, 1, 'also in another statement') FROM gkmeans_refit('of_sly.sly');
SELECT is(my_cursors(), 'mine', 'the cursor of the owner is gone');
SELECT fails_with('FETCH theirs', '34000', 'none is fetched from');
SELECT lives_ok('MOVE mine', 'another is as it was');
CLOSE mine;

-- Nothing that they create in the temporary schema stays there: the caller would run it
SET LOCAL ROLE gk_sly;
SET LOCAL search_path = of_sly, public;
CREATE TABLE commands (command text);
CREATE FUNCTION creating(x float8) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE command text := (SELECT commands.command FROM of_sly.commands);
BEGIN
	IF command IS NOT NULL THEN EXECUTE command; END IF;
	RETURN x;
END $$;
SELECT gkmeans_create_model('creator', 'SELECT CASE WHEN id = 5 THEN creating(x) ELSE x END AS x FROM points', '{x}', 2);
RESET ROLE;
SET LOCAL search_path = gk_test, public;
CREATE FUNCTION after_creating(what text, call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM of_sly.commands;
	INSERT INTO of_sly.commands VALUES ('CREATE ' || what);
	RETURN fails_with(format('SELECT gkmeans_%s(''of_sly.creator'')', call), '42501', format('%s after CREATE %s', call, what), 'cannot create temporary objects as the owner of a model', 'in the session of role', 'or let the owner make the call');
END $$;
SELECT after_creating(what, 'refit') FROM unnest(ARRAY['FUNCTION pg_temp.abs(float8) RETURNS float8 LANGUAGE sql AS ''SELECT $1''',
	'AGGREGATE pg_temp.sum(int) (sfunc = int4pl, stype = int)', 'OPERATOR pg_temp.+ (leftarg = int, rightarg = int, function = int4mi)',
	'COLLATION pg_temp.c FROM "C"', 'TEXT SEARCH DICTIONARY pg_temp.d (template = simple)']) what;
SELECT after_creating('FUNCTION pg_temp.abs(float8) RETURNS float8 LANGUAGE sql AS ''SELECT $1''', call) FROM unnest('{drift,feature_drift}'::text[]) call;
INSERT INTO of_sly.commands VALUES ('CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE <> '''')');
DELETE FROM of_sly.commands WHERE command !~ 'DOMAIN';
SELECT fails_with($$SELECT gkmeans_refit('of_sly.creator')$$, '42501', 'a type, which some releases refuse themselves');
UPDATE of_sly.commands SET command = $$DO 'BEGIN CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS ''SELECT 1''; EXCEPTION WHEN OTHERS THEN NULL; END'$$;
SELECT fails_with($$SELECT gkmeans_refit('of_sly.creator')$$, '42501', 'in a subtransaction', 'cannot create temporary objects as the owner of a model');
UPDATE of_sly.commands SET command = 'CREATE TYPE of_sly.r AS RANGE (subtype = int, multirange_type_name = pg_temp.text)';
SELECT fails_with($$SELECT gkmeans_refit('of_sly.creator')$$, '42501', 'the multirange of a range elsewhere');
SELECT is(to_regprocedure('pg_temp.f()')::text, NULL, 'nothing of it is left');
UPDATE of_sly.commands SET command = 'CREATE OR REPLACE FUNCTION of_sly.abs(float8) RETURNS float8 LANGUAGE sql AS ''SELECT $1''';
SELECT lives_ok($$SELECT gkmeans_refit('of_sly.creator')$$, 'they may create in a schema of the owner');
CREATE FUNCTION pg_temp.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
UPDATE of_sly.commands SET command = NULL;
SELECT lives_ok($$SELECT gkmeans_refit('of_sly.creator')$$, 'the caller has a function there');

-- Nor can they leave a trigger that would run at COMMIT, as the caller
SET LOCAL ROLE gk_sly;
CREATE FUNCTION of_sly.later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'as %', current_user; END $$;
CREATE TABLE of_sly.queue (i int);
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON of_sly.queue DEFERRABLE FOR EACH ROW EXECUTE FUNCTION of_sly.later();
INSERT INTO of_sly.commands VALUES ($$DO 'BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO of_sly.queue VALUES (1); END'$$);
DELETE FROM of_sly.commands WHERE command IS NULL;
RESET ROLE;
SELECT fails_with(format('SELECT gkmeans_%s(''of_sly.creator'')', call), '42501', 'a deferred trigger, by ' || call, 'cannot fire deferred trigger within security-restricted operation') FROM unnest('{refit,drift,feature_drift}'::text[]) call;
DELETE FROM of_sly.commands;
SET LOCAL ROLE gk_sly;
CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON of_sly.creator DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION of_sly.later();
RESET ROLE;
SELECT fails_with($$SELECT gkmeans_refit('of_sly.creator')$$, '42501', 'nor one of the model', 'cannot fire deferred trigger within security-restricted operation');
SET LOCAL ROLE gk_sly;
DROP TRIGGER later ON of_sly.creator;
RESET ROLE;

-- A superuser who alters an attribute of the extension's type
CREATE FUNCTION refit_altered() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	ALTER TYPE gkmeans_model ALTER ATTRIBUTE version TYPE text CASCADE;
	PERFORM gkmeans_refit('of_sly.creator');
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT is(refit_altered(), '42809 "creator" is not a gkmeans model', 'a model whose attributes have other types is none');
SELECT isnt((SELECT psi FROM gkmeans.models WHERE model_name = 'creator'), NULL, 'a model with a psi');
ALTER TYPE gkmeans_model RENAME ATTRIBUTE note TO remark CASCADE;
SELECT is((SELECT count(*) FROM gkmeans.versions WHERE model LIKE '%creator'), 0::bigint, 'nor one whose attributes have other names');
SELECT fails_with($$SELECT gkmeans_clusters('of_sly.creator')$$, '42809', 'nor can it be read');

SELECT * FROM finish();
ROLLBACK;
