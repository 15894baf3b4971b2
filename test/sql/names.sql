-- Names with quotes, semicolons, spaces and upper case are names; text in an argument is never SQL.
\ir helpers.psql

CREATE TABLE witness AS SELECT 1 AS here;
CREATE TABLE "Odd Table" (
	"Upper" float8, "with space" float8, "quo""te" float8, "apo'strophe" float8, "semi;colon" float8, "dash--dash" float8,
	"select" float8, "back\slash" float8, "é" float8, "comma,comma" float8, "{brace}" float8, "a.b" float8, "$1" float8, "%s" float8,
	"); DROP TABLE witness; --" float8, "/* */" float8, "name of sixty-three bytes, the most that PostgreSQL keeps of one ab" float8,
	"the id""; --" int, "the weight'; --" float8);
INSERT INTO "Odd Table" SELECT i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, 1 FROM generate_series(1, 10) i;
SELECT is((SELECT array_agg(centroid)::text FROM gkmeans_fit('"Odd Table"', ARRAY[attname::text], 1)), '{{5.5}}', 'a column named ' || attname)
FROM pg_attribute WHERE attrelid = '"Odd Table"'::regclass AND attnum BETWEEN 1 AND 17;
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit('SELECT * FROM "Odd Table"', ARRAY['Upper', 'quo"te', '); DROP TABLE witness; --'], 2, n_init => 8)), '{5,5}',
	'several of them in a query');
SELECT results_eq($$SELECT id FROM gkmeans_fit_predict(NULL::int, '"Odd Table"', '{Upper}', 2, id_column => 'the id"; --',
	weight_column => 'the weight''; --') ORDER BY id$$, 'SELECT generate_series(1, 10)', 'an odd id and an odd weight');
SELECT is((SELECT cardinality(centroid) FROM gkmeans_fit('"Odd Table"', NULL, 1, id_column => 'the id"; --')), 18, 'every numeric column, found by itself');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT 1 AS "?column?"', '{?column?}', 1)), 1, 'a column named ?column?');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT 1', '{?column?}', 1)), 1, 'a column that PostgreSQL named');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT 1 AS s, 2 AS row, 3 AS ring, 4 AS source', '{s,row,ring,source}', 1)), 1, 'names that the extension itself may use');

-- Injection: every text argument
CREATE TABLE attack (value text);
INSERT INTO attack VALUES ('x); DROP TABLE witness; --'), ('x"; DROP TABLE witness; --'), ('x''; DROP TABLE witness; --'), ('x FROM data; DROP TABLE witness'),
	('(SELECT here FROM witness)'), ('"x"'), ('x, here'), ('*'), (''), ('x::text'), ('s.x'), ('x) FROM data) s; DROP TABLE witness; --'), (E'x\n; DROP TABLE witness'),
	('$$'), ('%I'), ('x/*'), (repeat('x', 100)), (repeat('"', 63)), ('\'), ('ctid'), ('NULL'), ('1');
CREATE TABLE data AS SELECT i AS id, i::float8 AS x FROM generate_series(1, 10) i;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(''data'', ARRAY[%L], 2)', value), '42703', 'as a feature: ' || left(value, 30)) FROM attack;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(''data'', ''{x}'', 2, weight_column => %L)', value), '42703', 'as the weight: ' || left(value, 30)) FROM attack;
SELECT fails_with(format('SELECT * FROM gkmeans_fit_predict(NULL::int, ''data'', ''{x}'', 2, id_column => %L)', value), '42703', 'as the id: ' || left(value, 30)) FROM attack;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(''data'', ''{x}'', 2, %s => %L)', argument, value), '22023', format('as %s: %s', argument, left(value, 30)))
FROM attack, unnest('{init,metric,scale,nulls,if_exists}'::text[]) argument;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(%L, ''{x}'', 2)', 'SELECT x FROM data WHERE x = ''' || value), '42601', 'an unfinished source: ' || left(value, 30))
FROM attack WHERE value !~ '''';
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x FROM data) s; DROP TABLE witness; SELECT 1 FROM (SELECT 1', '{x}', 2)$$, '42601', 'a source that closes the parenthesis');
-- as the labels table: a valid odd name makes a table of that name, nothing else
SELECT lives_ok(format('SELECT * FROM gkmeans_fit(''data'', ''{x}'', 2, id_column => ''id'', labels_table => %L)', quote_ident(name)), 'a labels table named ' || name)
FROM unnest(ARRAY['Labels', 'x"; DROP TABLE witness; --', 'x''; DROP TABLE witness; --', 'x); DROP TABLE witness; --', 'a.b', 'select', 'é', 'x y']) name;
SELECT has_table('gk_test', name, 'it is there: ' || name)
FROM unnest(ARRAY['Labels', 'x"; DROP TABLE witness; --', 'x''; DROP TABLE witness; --', 'x); DROP TABLE witness; --', 'a.b', 'select', 'é', 'x y']::name[]) name;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(''data'', ''{x}'', 2, id_column => ''id'', labels_table => %L)', name), '42602', 'no name: ' || name)
FROM unnest(ARRAY['', ' ', 'a b', 'a; DROP TABLE witness', '"unfinished', 'a.', '.a']) name;
SELECT is((SELECT here FROM witness), 1, 'the witness is still there');

-- An id whose value is SQL, a manipulated search path
SELECT results_eq($$SELECT id FROM gkmeans_fit_predict(NULL::text, 'SELECT value, length(value) AS n FROM attack', '{n}', 2, id_column => 'value') ORDER BY id COLLATE "C"$$,
	'SELECT value FROM attack ORDER BY value COLLATE "C"', 'ids that look like SQL come back as they are');
CREATE FUNCTION _gkmeans_feed(VARIADIC "any") RETURNS int LANGUAGE internal AS 'pg_num_nonnulls';
CREATE OPERATOR gk_test.= (LEFTARG = text, RIGHTARG = text, FUNCTION = textne);
SET LOCAL search_path = gk_test, pg_catalog, public;
SELECT count(*) AS clusters FROM gkmeans_fit('data', '{x}', 2) \gset meddled_
SELECT count(*) AS labels FROM gkmeans_fit_predict(NULL::int, 'data', '{x}', 2, id_column => 'id') \gset meddled_
SET LOCAL search_path = gk_test, public;
DROP OPERATOR gk_test.= (text, text);
SELECT is((:meddled_clusters, :meddled_labels)::text, '(2,10)', 'a search path with other operators and functions first');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('data', '{x}', 2)), 2, 'another function of the name of the aggregate');
-- column names with a meaning in the feed's query, or not unique
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT id AS source, x AS "select", id * 2 AS "q"";u o", 1 AS ctid FROM data', ARRAY['select', 'q";u o'], 2, id_column => 'source')), 2, 'columns named source, select and ctid');
SELECT is((SELECT count(*)::int FROM gkmeans_fit_predict(NULL::int, 'SELECT id, x AS c1, id + 0.5 AS twice, 0 AS twice FROM data', '{c1}', 2, id_column => 'id')), 10, 'columns of the same name beside one named c1');
SELECT is((SELECT count(*)::int FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gkmeans' WHERE left(proname, 8) = 'gkmeans_' AND proname LIKE '%feed%'), 0, 'the functions named gkmeans_ are those for users');
SET LOCAL search_path = pg_catalog;
SELECT (SELECT count(*) FROM public.gkmeans_fit('gk_test.data', '{x}', 2)) AS clusters, (SELECT count(*) FROM public.gkmeans_fit_predict(NULL::int, 'gk_test.data', '{x}', 2, id_column => 'id')) AS labels \gset
SET LOCAL search_path = gk_test, public;
SELECT is((:clusters, :labels)::text, '(2,10)', 'a search path without the schema of the extension');

-- A source whose functions, called to plan it, set the path: its names mean what they did
CREATE SCHEMA gk_aside;
ANALYZE data;
CREATE FUNCTION aside() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN PERFORM set_config('search_path', 'gk_aside, public', true); RETURN 0; END $$;
CREATE FUNCTION rows_aside(source text) RETURNS numeric LANGUAGE sql AS $$ SELECT sum(size) FROM gkmeans_fit(source, '{x}', 2) $$;
ALTER FUNCTION rows_aside SET search_path = gk_test, public;
SELECT is(rows_aside('SELECT x FROM data WHERE id >= gk_test.aside()'), 10::numeric, 'where there is no such table');
CREATE TABLE gk_aside.data AS SELECT i AS id, i AS x FROM generate_series(1, 3) i;
CREATE SEQUENCE alterations;
CREATE FUNCTION alter_data() RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF nextval('gk_test.alterations') = 1 THEN ALTER TABLE gk_test.data SET UNLOGGED; END IF; END $$;
CREATE OR REPLACE FUNCTION aside() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM gk_test.alter_data(), set_config('search_path', 'gk_aside, public', true); RETURN 0; END $$;
SELECT is(rows_aside('SELECT x + gk_test.aside() AS x FROM data'), 10::numeric, 'or another one, and they alter theirs');

-- … and its constants
ALTER TABLE data SET LOGGED;
ALTER FUNCTION rows_aside SET DateStyle = 'SQL, MDY';
CREATE OR REPLACE FUNCTION aside() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM gk_test.alter_data(), set_config('DateStyle', 'SQL, DMY', true); RETURN 0; END $$;
CREATE SEQUENCE plans;
CREATE OR REPLACE FUNCTION alter_data() RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF nextval('gk_test.plans') = 1 THEN ALTER TABLE gk_test.data SET UNLOGGED; END IF; END $$;
SELECT is(rows_aside('SELECT x + gk_test.aside() AS x FROM data WHERE ''02/03/2024'' < DATE ''2024-02-15'''), 10::numeric, 'also by another DateStyle');
CREATE FUNCTION abbreviate(value int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('timezone_abbreviations', 'Australia', true); RETURN true; END $$;
CREATE DOMAIN abbreviating AS int CHECK (gk_test.abbreviate(VALUE));
SET LOCAL TimeZone = 'UTC';
SELECT is(sum(size), 10::numeric, 'and other abbreviations of time zones') FROM gkmeans_fit('SELECT x FROM data WHERE timestamptz ''2024-01-01 00:00 UTC'' < ''2023-12-31 22:00 EST'' AND ''{1}''::gk_test.abbreviating[] IS NOT NULL', '{x}', 2);
RESET TimeZone;
CREATE FUNCTION encode_otherwise(value int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('client_encoding', 'SJIS', true); RETURN true; END $$;
CREATE DOMAIN encoding_otherwise AS int CHECK (gk_test.encode_otherwise(VALUE));
SELECT is(sum(size), 10::numeric, 'and an encoding in which a backslash is not safe') FROM gkmeans_fit('SELECT x FROM data WHERE E''\'''' <> ''a'' AND ''{1}''::gk_test.encoding_otherwise[] IS NOT NULL', '{x}', 2);
-- … nor do those that are called to analyse it, before the table of labels is looked up
CREATE FUNCTION step_aside(value int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'gk_aside, public', true); RETURN true; END $$;
CREATE DOMAIN stepping AS int CHECK (gk_test.step_aside(VALUE));
CREATE TABLE aside_labels (id int, cluster_id int);
CREATE TABLE gk_aside.aside_labels AS SELECT 7 AS id, 7 AS cluster_id;
SELECT is(sum(size), 10::numeric, 'a check of a domain that sets the path') FROM gkmeans_fit('SELECT id, x FROM data WHERE ''{1}''::gk_test.stepping[] IS NOT NULL', '{x}', 2, id_column => 'id', labels_table => 'aside_labels', if_exists => 'replace');
SELECT gkmeans_create_model('aside_model', 'SELECT id, x FROM data WHERE ''{1}''::gk_test.stepping[] IS NOT NULL', '{x}', 2, id_column => 'id', labels_table => 'aside_labels', labels_mode => 'replace');
SELECT gkmeans_refit('gk_test.aside_model', deploy => 'always');
SELECT gkmeans_create_view('gk_test.aside_model', 'gk_test.aside_view');
SELECT is((SELECT count(*) FROM aside_view), 10::bigint, 'does not change what a view reads');
SELECT is((SELECT count(*) FROM aside_labels), 10::bigint, 'nor where labels go');
SELECT is((SELECT row(l.*)::text FROM gk_aside.aside_labels l), '(7,7)', 'nor which are replaced');
CREATE OR REPLACE FUNCTION step_aside(value int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'gk_aside, public', false); RETURN true; END $$;
SELECT is(sum(size), 10::numeric, 'for the session') FROM gkmeans_fit('SELECT id, x FROM data WHERE ''{1}''::gk_test.stepping[] IS NOT NULL', '{x}', 2, id_column => 'id', labels_table => 'aside_labels', if_exists => 'replace');
SELECT is((SELECT count(*) FROM aside_labels), 10::bigint, 'neither');

-- The progress of a model with the longest names: a source says what the view shows
CREATE FUNCTION shown() RETURNS float8 LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
	INSERT INTO gk_test.seen SELECT model FROM gkmeans.progress WHERE pid = pg_backend_pid() AND NOT EXISTS (SELECT FROM gk_test.seen);
	RETURN random();
END $$;
CREATE TABLE seen (model text);
CREATE FUNCTION progress_of(schema_name text, model_name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM gk_test.seen;
	EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', schema_name);
	PERFORM gkmeans_import_model(format('%I.%I', schema_name, model_name), '{{0}}', '{x}');
	PERFORM gkmeans_evaluate(format('%I.%I', schema_name, model_name)::regclass, 'SELECT gk_test.shown() AS x FROM generate_series(1, 3)');
	RETURN (SELECT model FROM gk_test.seen);
END $$;
SELECT is(progress_of('gk_test', 'm'), 'gk_test.m', 'progress shows the name of the model');
SELECT is(progress_of(repeat('€', 21), repeat('ß', 31) || 'x'), format('%I.%I', repeat('€', 21), repeat('ß', 31) || 'x'), 'names of 63 bytes');
SELECT is(progress_of(repeat('"', 63), repeat('"', 60) || '€'), format('%I.%I', repeat('"', 63), repeat('"', 60) || '€'), 'names of which the quotes are doubled');

SELECT * FROM finish();
ROLLBACK;
