-- Types that are called vector, halfvec or sparsevec, but are not pgvector's.
\ir helpers.psql

CREATE SCHEMA alike;
CREATE TABLE numbers AS SELECT i AS id, i % 7 AS x FROM generate_series(1, 60) i;
SELECT FROM gkmeans_create_model('columns', 'numbers', '{x}', 3);
SELECT FROM gkmeans_create_model('arrays', 'SELECT ARRAY[x, id]::real[] AS v FROM numbers', '{v}', 3);

-- A type of that name: what it stores is up to the input function.
CREATE FUNCTION make_type(name text, kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	like_it text := substring(kind FROM 'base type like (.*)');
BEGIN
	IF like_it IS NULL THEN
		EXECUTE format(CASE kind WHEN 'composite' THEN 'CREATE TYPE alike.%I AS (x float8)' WHEN 'range' THEN 'CREATE TYPE alike.%I AS RANGE (SUBTYPE = float8)'
			WHEN 'enum' THEN 'CREATE TYPE alike.%I AS ENUM (''1'')' ELSE 'CREATE DOMAIN alike.%I AS ' || kind END, name);
		RETURN;
	END IF;
	SET LOCAL client_min_messages = error;
	EXECUTE format('CREATE TYPE alike.%I', name);
	EXECUTE format('CREATE FUNCTION alike.input(cstring) RETURNS alike.%I LANGUAGE internal IMMUTABLE STRICT AS %L', name, (SELECT typinput::text FROM pg_type WHERE oid = like_it::regtype));
	EXECUTE format('CREATE FUNCTION alike.output(alike.%I) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS %L', name, (SELECT typoutput::text FROM pg_type WHERE oid = like_it::regtype));
	EXECUTE format('CREATE TYPE alike.%I (INPUT = alike.input, OUTPUT = alike.output, LIKE = %s)', name, like_it);
	SET LOCAL client_min_messages = warning;
END $$;

-- The SQLSTATEs of a feature, a weight, a row, a value and an array of a type.
CREATE FUNCTION tried(type text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	call text;
	codes text[] := '{}';
BEGIN
	EXECUTE format('CREATE TABLE alike.data AS SELECT id, x, %L::alike.%I AS v FROM numbers', value, type);
	FOREACH call IN ARRAY ARRAY['FROM gkmeans_fit(''alike.data'', ''{v}'', 1)', 'FROM gkmeans_fit(''SELECT id, v FROM alike.data'', k => 1, id_column => ''id'')',
		'FROM gkmeans_fit(''SELECT ARRAY[v] AS v FROM alike.data'', ''{v}'', 1)', 'FROM gkmeans_fit(''alike.data'', ''{x}'', 1, weight_column => ''v'')',
		'gkmeans_predict(''columns'', v) FROM alike.data', 'gkmeans_predict(''arrays'', v) FROM alike.data', 'gkmeans_predict(''arrays'', d) FROM alike.data d',
		'gkmeans_predict(''columns'', d) FROM (SELECT v AS x FROM alike.data) d', 'gkmeans_predict(''arrays'', ARRAY[v, v]) FROM alike.data',
		'gkmeans_predict(''arrays'', v, v) FROM alike.data', 'FROM alike.data, LATERAL gkmeans_score(''arrays'', v)'] LOOP
		BEGIN
			EXECUTE 'SELECT ' || call;
			codes := codes || 'ok'::text;
		EXCEPTION WHEN OTHERS THEN codes := codes || SQLSTATE::text;
		END;
	END LOOP;
	RETURN array_to_string(codes, ' ');
END $$;
CREATE FUNCTION alike(name text, kind text, value text, expected text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	BEGIN
		PERFORM make_type(name, kind);
		got := tried(name, value);
		RAISE EXCEPTION USING ERRCODE = 'GK001';
	EXCEPTION WHEN SQLSTATE 'GK001' THEN NULL;
	END;
	RETURN is(got, expected, name || ': ' || kind);
END $$;

-- None holds numbers; one that does by itself is what it is.
SELECT alike(name, kind, value, CASE kind WHEN 'float8' THEN 'ok ok ok ok ok 22000 42804 ok ok ok 22000' WHEN 'real[]' THEN 'ok ok 42804 42804 22000 ok ok 42804 42804 42804 ok'
	WHEN 'composite' THEN '42804 42804 42804 42804 ok 42703 42804 42804 42804 42804 42703' ELSE '42804 42804 42804 42804 42804 42804 42804 42804 42804 42804 42804' END)
FROM unnest('{vector,halfvec,sparsevec}'::text[]) name,
	(VALUES ('base type like text', '[1,2]'), ('base type like bytea', '\x0200000000000000803f0000803f'), ('base type like int4', '7'), ('base type like uuid', md5('1')),
		('base type like cstring', '1'), ('composite', '(1)'), ('range', '[1,2]'), ('enum', '1'), ('text', '[1,2]'), ('float8', '1'), ('real[]', '{1,2}')) kinds(kind, value);

-- An extension called vector that is not pgvector, or whose values are damaged
SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS present \gset
\if :present
SELECT skip('pgvector is installed in this database', 1);
\else
SET LOCAL allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) SELECT 99999, 'vector', extowner, extnamespace, false, '1' FROM pg_extension WHERE extname = 'gkmeans';
RESET allow_system_table_mods;
CREATE FUNCTION owned(name text, kind text, value text, expected text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	BEGIN
		PERFORM make_type(name, kind);
		SET LOCAL allow_system_table_mods = on;
		INSERT INTO pg_depend VALUES ('pg_type'::regclass, format('alike.%I', name)::regtype, 0, 'pg_extension'::regclass, 99999, 0, 'e');
		SET LOCAL allow_system_table_mods = off;
		got := tried(name, value);
		RAISE EXCEPTION USING ERRCODE = 'GK001';
	EXCEPTION WHEN SQLSTATE 'GK001' THEN NULL;
	END;
	RETURN is(got, expected, format('%s of an extension called vector, %s: %s', name, kind, left(value, 40)));
END $$;
SELECT owned('vector', 'base type like bytea', '\x020000000000803f0000803f', 'ok ok 42804 42804 22000 ok ok 42804 42804 42804 ok');
SELECT owned('halfvec', 'base type like bytea', '\x02000000003c003c', 'ok ok 42804 42804 22000 ok ok 42804 42804 42804 ok');
SELECT owned(name, 'base type like bytea', value, 'XX001 XX001 42804 42804 XX001 XX001 XX001 42804 42804 42804 XX001')
FROM unnest('{vector,halfvec}'::text[]) name, unnest(ARRAY['\x', '\x02', '\x020000', '\x02000000', '\x0200000000', '\x00000000', '\xffff0000', '\x02000000003c00', '\x0080' || repeat('00', 9000)]) value;
SELECT owned(name, 'base type like bytea', '\xff7f' || repeat('01', bytes), 'XX001 XX001 42804 42804 22000 22000 22000 42804 42804 42804 22000')
FROM (VALUES ('vector', 100000), ('halfvec', 50000)) longer(name, bytes);
SELECT owned('vector', 'base type like text', '[1,2]', 'XX001 XX001 42804 42804 XX001 XX001 XX001 42804 42804 42804 XX001');
SELECT owned(name, kind, value, '42804 42804 42804 42804 42804 42804 42804 42804 42804 42804 42804')
FROM unnest('{vector,halfvec,sparsevec}'::text[]) name, (VALUES ('base type like int4', '7'), ('base type like uuid', md5('1')), ('base type like cstring', '1'), ('enum', '1'), ('text', '[1,2]')) kinds(kind, value);
\endif

SELECT nothing_left('nothing is left of these calls');
SELECT * FROM finish();
ROLLBACK;
