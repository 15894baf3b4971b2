-- Ids of any type come back as they went in, in one row for every row of the source.
\ir helpers.psql

CREATE TYPE pair AS (a int, b text);
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN code AS varchar(8);
CREATE TABLE kinds (type text, expression text);
INSERT INTO kinds VALUES ('int', 'i'), ('bigint', 'i::bigint << 33'), ('smallint', 'i::smallint'), ('uuid', 'md5(i::text)::uuid'), ('text', '''row '' || i'), ('varchar', '''v'' || i'),
	('char(5)', 'i::char(5)'), ('numeric', 'i + 0.25'), ('real', 'i + 0.5'), ('float8', 'i / 3.0'), ('timestamptz', '''2024-01-01 00:00+00''::timestamptz + i * interval ''1 h'''),
	('date', '''2024-01-01''::date + i'), ('pair', 'ROW(i, ''b'' || i)::pair'), ('bool', 'i % 2 = 0'), ('bytea', 'decode(md5(i::text), ''hex'')'),
	('int[]', 'ARRAY[i, NULL, i]'), ('jsonb', 'jsonb_build_object(''i'', i)'), ('mood', 'CASE WHEN i > 50 THEN ''high'' ELSE ''low'' END::mood'), ('code', '(''c'' || i)::code'),
	('name', '(''n'' || i)::name'), ('inet', '''10.0.0.0''::inet + i'), ('point', 'point(i, i)'), ('oid', 'i::oid'), ('int4range', 'int4range(i, i + 1)'),
	('text', 'repeat(md5(i::text), 200)'), ('tid', 'format(''(%s,1)'', i)::tid'), ('interval', 'i * interval ''1 day''');
SELECT results_eq(
	format($$SELECT id::text COLLATE "default", cluster_id FROM gkmeans_fit_predict(NULL::%s, 'SELECT %s AS the_id, (i - 1) / 40 AS x FROM generate_series(1, 100) i', '{x}', 3,
		id_column => 'the_id') ORDER BY 1, 2$$, type, replace(expression, '''', '''''')),
	format($$SELECT (%s)::%s::text COLLATE "default", CASE (i - 1) / 40 WHEN 2 THEN 2 ELSE (i - 1) / 40 END FROM generate_series(1, 100) i ORDER BY 1, 2$$, expression, type),
	format('ids of type %s: %s', type, left(expression, 20)))
FROM kinds;
SELECT is((SELECT pg_typeof(id)::text FROM gkmeans_fit_predict(NULL::bigint, 'SELECT 1::int AS id, 1 AS x', '{x}', 1, id_column => 'id')), 'bigint', 'an int id asked for as bigint');
SELECT is((SELECT id FROM gkmeans_fit_predict(NULL::text, 'SELECT ''one''::varchar AS id, 1 AS x', '{x}', 1, id_column => 'id')), 'one', 'a varchar id asked for as text');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::text, 'SELECT 1 AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, '42804', 'an int id asked for as text');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'SELECT ''one''::text AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, '42804', 'a text id asked for as int');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::uuid, 'SELECT 1 AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, '42804', 'an int id asked for as uuid');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::smallint, 'SELECT 100000 AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, '42804', 'an int id asked for as smallint');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL, 'SELECT 1 AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, '42804', 'an id type that is unknown');

SELECT results_eq($$SELECT id, count(*) FROM gkmeans_fit_predict(NULL::int, 'SELECT NULLIF(i % 3, 0) AS id, i AS x FROM generate_series(1, 30) i', '{x}', 2, id_column => 'id')
	GROUP BY 1 ORDER BY 1 NULLS LAST$$, 'VALUES (1, 10::bigint), (2, 10), (NULL, 10)', 'NULL ids and equal ids come back as often as they came');
SELECT results_eq($$SELECT id, cluster_id FROM gkmeans_fit_predict(NULL::int, 'SELECT i AS id, NULLIF(i, 3)::float8 AS x FROM generate_series(1, 4) i', '{x}', 3, id_column => 'id') ORDER BY id$$,
	'VALUES (1, 0), (2, 1), (3, NULL), (4, 2)', 'a row that cannot be clustered keeps its id');
SELECT results_eq($$SELECT id, cluster_id FROM gkmeans_fit_predict(NULL::float8, 'SELECT i AS x FROM generate_series(1, 3) i', '{x}', 3, id_column => 'x') ORDER BY id$$,
	'VALUES (1::float8, 0), (2, 1), (3, 2)', 'the id may be a feature');

-- Enough ids to spill, with workers and without
CREATE TABLE many AS SELECT i AS id, (i % 5)::float8 AS x FROM generate_series(1, 100000) i;
ANALYZE many;
SET LOCAL work_mem = '64kB';
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0;
SELECT results_eq(format($$SELECT count(*), count(DISTINCT id), min(id), max(id), bool_and(f.x = c.x), %L FROM (
		SELECT id, cluster_id, (id %% 5)::float8 AS x FROM gkmeans_fit_predict(NULL::int, 'many', '{x}', 5, id_column => 'id')) f
		JOIN (SELECT cluster_id, centroid[1] AS x FROM gkmeans_fit('many', '{x}', 5)) c USING (cluster_id)$$,
		set_config('max_parallel_workers_per_gather', workers, true)),
	format('SELECT 100000::bigint, 100000::bigint, 1, 100000, true, %L', workers), format('100000 ids, %s workers', workers))
FROM unnest('{0,2}'::text[]) workers;
-- each with its own label, whether or not it is NULL, and whether or not its row can be clustered
SELECT results_eq(format($$SELECT f.id, c.x, count(*) FROM gkmeans_fit_predict(NULL::bigint,
		'SELECT CASE WHEN id %% 7 > 0 THEN (id - 50000) * 184467440737095 END AS id, CASE WHEN id %% 11 > 0 THEN x END AS x FROM many', '{x}', 5, id_column => 'id') f
		LEFT JOIN (SELECT cluster_id, centroid[1] AS x FROM gkmeans_fit('many', '{x}', 5)) c USING (cluster_id) WHERE %L <> '' GROUP BY 1, 2 ORDER BY 1, 2$$,
		set_config('max_parallel_workers_per_gather', workers, true)),
	$$SELECT CASE WHEN id % 7 > 0 THEN (id - 50000) * 184467440737095 END, CASE WHEN id % 11 > 0 THEN x END, count(*) FROM many GROUP BY 1, 2 ORDER BY 1, 2$$,
	format('ids of bigint, some of them NULL, some rows that cannot be clustered, %s workers', workers))
FROM unnest('{0,2}'::text[]) workers;
SELECT results_eq($$SELECT count(*), count(DISTINCT id), min(length(id)) FROM gkmeans_fit_predict(NULL::text,
	'SELECT repeat(md5(id::text), 10) AS id, x FROM many WHERE id <= 20000', '{x}', 5, id_column => 'id')$$,
	'VALUES (20000::bigint, 20000::bigint, 320)', 'text ids with workers');

-- record for any composite type, anyarray for any array; other pseudo-types are errors of the caller
CREATE TABLE rows_as_ids AS SELECT ROW(i, 'b' || i)::pair AS id, ARRAY[ROW(i, 'b')::pair] AS several, ARRAY[i, -i] AS numbers, i::float8 AS x FROM generate_series(1, 9) i;
SELECT results_eq($$SELECT id::text FROM gkmeans_fit_predict(NULL::record, 'rows_as_ids', '{x}', 2, id_column => 'id') ORDER BY 1$$, 'SELECT id::text FROM rows_as_ids ORDER BY 1', 'a composite type as record');
SELECT results_eq($$SELECT id::text FROM gkmeans_fit_predict(NULL::record, 'SELECT t AS id, x FROM rows_as_ids t', '{x}', 2, id_column => 'id') ORDER BY 1$$, 'SELECT t::text FROM rows_as_ids t ORDER BY 1', 'the row of a table as record');
SELECT results_eq($$SELECT id::text FROM gkmeans_fit_predict(NULL::record, 'SELECT ROW(x, several) AS id, x FROM rows_as_ids', '{x}', 2, id_column => 'id') ORDER BY 1$$, 'SELECT ROW(x, several)::text FROM rows_as_ids ORDER BY 1', 'a row without a type');
SELECT results_eq($$SELECT id::text FROM gkmeans_fit_predict(NULL::record[], 'SELECT several AS id, x FROM rows_as_ids', '{x}', 2, id_column => 'id') ORDER BY 1$$, 'SELECT several::text FROM rows_as_ids ORDER BY 1', 'composite arrays as record[]');
DO $$ BEGIN
	FOR level IN 0..4 LOOP
		EXECUTE (SELECT format('CREATE TYPE level_%s AS (%s)', level, string_agg(format('c%s int', i), ',')) FROM generate_series(1, 100) i);
	END LOOP;
	-- by hand, as PostgreSQL would look at all columns of columns
	FOR level IN 1..4 LOOP
		UPDATE pg_attribute SET (atttypid, attlen, attbyval, attalign, attstorage) = (SELECT oid, typlen, typbyval, typalign, typstorage FROM pg_type WHERE oid = ('level_' || level - 1)::regtype) WHERE attrelid = ('level_' || level)::regclass;
	END LOOP;
END $$;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT NULL::level_4 AS id, x FROM rows_as_ids', '{x}', 2, id_column => 'id')), 9, 'a type of ten thousand million columns of columns');
SELECT results_eq($$SELECT id::text FROM gkmeans_fit_predict(NULL::anyarray, 'SELECT numbers AS id, x FROM rows_as_ids', '{x}', 2, id_column => 'id') ORDER BY 1$$, 'SELECT numbers::text FROM rows_as_ids ORDER BY 1', 'arrays as anyarray');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit_predict(NULL::%s, 'SELECT x::int AS id, x FROM rows_as_ids', '{x}', 2, id_column => 'id')$$, type), '42804', 'a number as ' || type)
FROM unnest('{record,record[],anyarray,cstring}'::text[]) type;

-- A source that drops the type of its ids with its last row.
CREATE FUNCTION drop_at_nine(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 9 THEN DROP TYPE passing CASCADE; END IF; RETURN i; END $$;
CREATE TYPE passing AS RANGE (subtype = int);
SELECT fails_with($$SELECT gkmeans_fit('SELECT passing(0, i) AS id, drop_at_nine(i) AS x FROM generate_series(1, 9) i', '{x}', 2, 'id', labels_table => 'passing_labels')$$, '42704', 'a type that is dropped cannot be written', 'was dropped while the source was being read');
SELECT fails_with($$SELECT gkmeans_fit_predict(NULL::passing, 'SELECT passing(0, i) AS id, drop_at_nine(i) AS x FROM generate_series(1, 9) i', '{x}', 2, 'id')$$, '42704', 'nor returned', 'was dropped while the source was being read');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('SELECT passing(0, i) AS id, drop_at_nine(i) AS x FROM generate_series(1, 9) i', '{x}', 'id')$$, '42704', 'nor evaluated', 'was dropped while the source was being read');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('SELECT ROW(passing(0, i)) AS id, drop_at_nine(i) AS x FROM generate_series(1, 9) i', '{x}', 'id')$$, '55000', 'nor evaluated in a row without a type', 'source changed while it was being read');

-- One that drops a type before its first row is taken, or between two readings.
CREATE DOMAIN number AS float8;
CREATE FUNCTION drop_number(i int, at int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF i = at THEN DROP DOMAIN number; END IF; RETURN true; END $$;
SELECT fails_with(format($$SELECT * FROM gkmeans_fit%s 'SELECT %s FROM generate_series(1, 9) i WHERE drop_number(i, 1)', '{x}', 2%s)$$, call, columns, rest), '55000', columns, 'source changed while it was being read')
FROM unnest('{(,(,(,"_predict(NULL::number,"}'::text[],
	'{i::number AS x,"ARRAY[i, i]::number[] AS x","i AS x, i::number AS w","i AS x, i::number AS id"}'::text[],
	'{"","",", weight_column => ''w''",", id_column => ''id''"}'::text[]) AS calls (call, columns, rest);
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::number, 'SELECT i::number AS id, i + CASE WHEN i = 120000 THEN 1e15 ELSE 1e9 END::float8 AS x FROM generate_series(1, 120000) i WHERE drop_number(i, 9)', '{x}', 2, 'id')$$,
	'42704', 'ids that would be read once more', 'was dropped while the source was being read');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT i::number AS x, CASE WHEN i <> 2 THEN i END AS y FROM generate_series(1, 9) i WHERE drop_number(i, 2)', '{x,y}', 2, nulls => 'error')$$,
	'22004', 'a row whose values cannot be shown', 'column "y" is NULL', 'The row \(\.\.\., null\)');
SELECT gkmeans_import_model('of_numbers', '{{1}}', '{x}');
SELECT fails_with($$SELECT gkmeans_predict('of_numbers', i::number) FROM generate_series(1, 9) i WHERE drop_number(i, 1)$$, '42704', 'a prediction', 'the type of argument 2 was dropped meanwhile');

-- The name of the type that is asked for comes to mean another one, whose code a cast to it would run, whenever the source is analysed.
CREATE SCHEMA gk_types;
CREATE SCHEMA gk_traps;
CREATE DOMAIN gk_types.number AS int;
CREATE FUNCTION trap(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the code of another'; END $$;
CREATE DOMAIN gk_traps.number AS int CHECK (trap(VALUE));
CREATE SEQUENCE analysed;
CREATE FUNCTION swap_types(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('analysed') = current_setting('gk_test.swap_at')::int THEN ALTER SCHEMA gk_types RENAME TO gk_away; ALTER SCHEMA gk_traps RENAME TO gk_types; END IF;
	RETURN true;
END $$;
CREATE DOMAIN swapping AS int CHECK (swap_types(VALUE));
CREATE FUNCTION swapped(at int, source text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	PERFORM set_config('gk_test.swap_at', at::text, true), setval('analysed', 1, false);
	PERFORM gkmeans_fit_predict(NULL::gk_types.number, source, '{x}', 2, id_column => 'id');
	-- an error brings the schemas back
	RAISE EXCEPTION 'no error';
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;
-- what the literal has is checked as soon as it is read
SELECT is(array_agg(DISTINCT result ORDER BY result), '{"no error","source changed while it was being read"}', 'a type that takes the name of that which is asked for, ids are ' || id)
FROM unnest('{i,1}'::text[]) id, generate_series(1, 6) at, swapped(at, format('SELECT %s AS id, i AS x FROM generate_series(1, 9) i WHERE 1 = ANY (''{1}''::swapping[])', id)) result
GROUP BY id ORDER BY id;

-- Types that the analysis of the source drops: in the same expression, and in another column.
CREATE DOMAIN short_lived AS float8;
CREATE FUNCTION drop_it(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN DROP DOMAIN IF EXISTS short_lived; RETURN true; END $$;
CREATE DOMAIN dropping AS text CHECK (drop_it(VALUE));
CREATE TYPE drops AS (a dropping);
SELECT fails_with(format($$SELECT gkmeans_fit('SELECT %s FROM generate_series(1, 9) AS x', '{x}', 2)$$, columns), '55000', columns, 'changed while it was being read')
FROM unnest(ARRAY['x + CAST((''''(1)''''::drops).a AS short_lived) AS x', 'x::short_lived AS x, (''''(1)''''::drops).a AS y']) columns;

-- A table that it drops: its children are listed for a labels table, one that is there and one that is not.
CREATE TABLE read_once AS SELECT i AS id, i AS x FROM generate_series(1, 9) i;
CREATE TABLE its_labels (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE FUNCTION drop_table(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN DROP TABLE IF EXISTS read_once; RETURN true; END $$;
CREATE DOMAIN dropping_table AS text CHECK (drop_table(VALUE));
CREATE TYPE drops_table AS (a dropping_table);
SELECT fails_with(format($$SELECT gkmeans_fit('SELECT * FROM read_once WHERE (''(1)''::drops_table).a IS NOT NULL', '{x}', 2, 'id', labels_table => %L, if_exists => 'merge')$$, labels), '42P01', labels, '"read_once" does not exist')
FROM unnest('{its_labels,its_new_labels}'::text[]) labels;

-- One that alters it, wherever its values are: they would be taken for those of another type.
CREATE FUNCTION alter_at_nine(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 9 THEN ALTER TYPE part ALTER ATTRIBUTE b TYPE text; END IF; RETURN i; END $$;
CREATE TYPE part AS (a int, b bigint);
CREATE DOMAIN parts AS part[];
CREATE TYPE whole AS (parts parts);
CREATE TYPE span AS RANGE (subtype = part);
SELECT fails_with(format($$SELECT %s 'SELECT %s AS id, alter_at_nine(i) AS x FROM generate_series(1, 9) i', '{x}', 2, 'id'%s)$$, call, id, rest), '55000', call || ', ids are ' || id, 'was altered while the source was being read')
FROM unnest('{gkmeans_fit(,gkmeans_fit(,gkmeans_fit(,"gkmeans_fit_predict(NULL::part,","gkmeans_fit_predict(NULL::record,"}'::text[],
	'{"ROW(i, i)::part","ROW(ARRAY[ROW(i, i)::part]::parts)::whole","span(ROW(1, i)::part, NULL)","ROW(i, i)::part","ROW(i, i)::part"}'::text[],
	'{", labels_table => ''altered_labels''",", labels_table => ''altered_labels''",", labels_table => ''altered_labels''","",""}'::text[]) AS calls (call, id, rest);

-- What is done when the source is analysed for the nth time: the type that is asked for is dropped, or that of ids altered whose labels wait for a second reading.
CREATE FUNCTION act(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('analysed') = current_setting('gk_test.at')::int THEN EXECUTE current_setting('gk_test.action'); END IF;
	RETURN true;
END $$;
CREATE DOMAIN acting AS text CHECK (act(VALUE));
CREATE TYPE acts AS (a acting);
CREATE FUNCTION acted(at int, action text, call text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	PERFORM set_config('gk_test.at', at::text, true), set_config('gk_test.action', action, true), setval('analysed', 1, false);
	EXECUTE call;
	RAISE EXCEPTION 'no error';
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;
CREATE DOMAIN asked_for AS int;
SELECT is(array_agg(DISTINCT result ORDER BY result), '{"no error","source changed while it was being read","type \"gk_test.asked_for\" does not exist"}', call)
FROM unnest('{"gkmeans_fit_predict(NULL::asked_for, %L, ''{x}'', 2, id_column => ''id'')","gkmeans_predict_rows(NULL::asked_for, ''of_numbers'', %L, ''id'')"}'::text[]) call, generate_series(1, 6) at,
	acted(at, 'DROP DOMAIN asked_for', format('SELECT * FROM ' || call, $$SELECT i AS id, i AS x FROM generate_series(1, 9) i WHERE ('(1)'::acts).a <> ''$$)) result
GROUP BY call;
SELECT set_config('gk_test.at', '0', true);
SELECT gkmeans_create_model('read_twice', $$SELECT ROW(i, i)::part AS id, i AS x FROM generate_series(1, 9) i WHERE ('(1)'::acts).a <> ''$$, '{x}', 2, id_column => 'id', scale => 'standard');
SELECT is(array_agg(DISTINCT result ORDER BY result), '{"no error","source changed between two readings","the type of column \"id\" was altered while the source was being read"}', 'a refit that reads twice')
FROM generate_series(1, 20) at,
	acted(at, 'ALTER TYPE part ALTER ATTRIBUTE b TYPE text', $$SELECT gkmeans_refit('read_twice', rescale => true, labels_table => 'twice_labels')$$) result;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
