-- What errors tell beside what expected/mistakes.out shows: from workers, from many columns, of long and odd rows, of every type.
\ir helpers.psql

-- The CONTEXT of an error.
CREATE FUNCTION context_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE context text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RETURN context;
END $$;
CREATE TABLE data AS SELECT i AS id, i::real AS x, CASE WHEN i <> 77 THEN i END AS y, 1 AS w FROM generate_series(1, 2000) i;
SELECT matches(context_of(query), '^(parallel worker\n)?source "' || source || '"', 'the CONTEXT is the source: ' || source) FROM (VALUES
	($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, nulls => 'error')$$, 'data'),
	($$SELECT * FROM gkmeans_fit('SELECT 1 / (x - 9)::int AS q FROM data', '{q}', 2)$$, 'SELECT 1 / \(x - 9\)::int AS q FROM data')) v(query, source);
SELECT doesnt_match(context_of(query), 'gkmeans_feed|AS source|\mc1\M', 'and nothing internal: ' || query) FROM unnest(ARRAY[
	$$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, nulls => 'error')$$, $$SELECT * FROM gkmeans_fit('SELECT 1 / 0 AS q', '{q}', 2)$$,
	$$SELECT * FROM gkmeans_fit('nowhere', '{x,y}', 2)$$, $$SELECT * FROM gkmeans_fit('SELECT nothing FROM data', '{x,y}', 2)$$]) query;

-- Where an error is, in the text of the source
CREATE FUNCTION nothing_there() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM nowhere_at_all); END $$;
SELECT fails_with(format('SELECT * FROM gkmeans_fit(%L, k => 2)', source), code, source, message, NULL, hint) FROM (VALUES
	('  ; SELECT ''é'', absent FROM data', '42703', 'column "absent" does not exist', NULL), ('SELECT x FROM nowhere', '42P01', '"nowhere"', 'search_path, which is gk_test, public here'),
	('nowhere', '42P01', '"nowhere"', 'write its schema as well'), ('SELECT e.x FROM data d', '42P01', 'missing FROM-clause', NULL), ('SELECT data.x FROM data d', '42P01', NULL, 'Perhaps you meant to reference'),
	('SELECT $1 AS x', '42P02', NULL, 'no parameters'), ('SELECT nothing_there() AS x', '42P01', 'nowhere_at_all', 'search_path')) v(source, code, message, hint);
SELECT fails_with($$SELECT * FROM gkmeans_fit('public.nowhere', '{x}', 2)$$, '42P01', 'a name with a schema has no use for the hint', NULL, NULL, '^$');
CREATE FUNCTION far_away() RETURNS bigint LANGUAGE sql SET search_path = pg_catalog AS $$ SELECT count(*) FROM public.gkmeans_fit('data', '{x}', 2) $$;
SELECT fails_with('SELECT far_away()', '42P01', 'a function with a search_path of its own', NULL, NULL, 'search_path, which is pg_catalog here.*function');

CREATE MATERIALIZED VIEW nightly AS SELECT * FROM gkmeans_fit('data', '{x}', 2) WITH NO DATA;
SELECT set_config('search_path', '', true) AS path \gset
DO $$ BEGIN
	REFRESH MATERIALIZED VIEW gk_test.nightly;
EXCEPTION WHEN undefined_table THEN
	DECLARE said text;
	BEGIN
		GET STACKED DIAGNOSTICS said = PG_EXCEPTION_HINT;
		PERFORM set_config('gk_test.said', said, true);
	END;
END $$;
SET LOCAL search_path = gk_test, public;
SELECT matches(current_setting('gk_test.said', true), 'search_path, which is (empty|pg_catalog, pg_temp) here\. .*write its schema as well', 'a materialised view that is refreshed with another search_path, as by a restored dump');

-- Workers name column and row as well
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_leader_participation = off;
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, nulls => 'error')$$, '22004', 'a NULL in a worker', 'column "y" is NULL', 'The row \(77, null\)', 'nulls => ''skip''');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, id_column => 'id', nulls => 'error')$$, '22004', 'by its id', 'column "y" is NULL', 'The row with id 77 ');
SELECT doesnt_match(context_of($$SELECT * FROM gkmeans_fit('data', '{x,y}', 2, nulls => 'error')$$), 'gkmeans_feed|AS source|\mc1\M', 'the CONTEXT of a worker');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x, y / (id - id + 1) + NULL AS gone FROM data', '{x,gone}', 2)$$, '22023', 'no usable row, counted in workers', 'no usable row',
	'^2000 rows were read: column "gone" is NULL in all of them\.$', 'coalesce');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x, nullif(w, 1) AS "No weight" FROM data', '{x}', 2, weight_column => 'No weight')$$, '22023', 'no row with a weight', 'no usable row',
	'^2000 rows were read: column "No weight" is NULL in all of them\.$', 'coalesce\("No weight", 1\)');
SELECT cmp_ok(after_fit($$gkmeans_fit('data', '{x}', 2)$$, 'workers')::int, '>', 0, 'workers read these');
RESET parallel_leader_participation; RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET max_parallel_workers_per_gather;

-- The column, even among very many; the row, even if very long
DO $$ BEGIN
	EXECUTE (SELECT 'CREATE TABLE wide AS SELECT ' || string_agg(format('(i + %s)::float8 AS "Field %s"', f, f), ', ') || ' FROM generate_series(1, 10) i' FROM generate_series(1, 200) f);
END $$;
UPDATE wide SET "Field 150" = NULL WHERE "Field 1" = 5;
SELECT fails_with($$SELECT * FROM gkmeans_fit('wide', k => 2, nulls => 'error')$$, '22004', 'a NULL in one of 200 columns', 'column "Field 150" is NULL', '^The row \(5,6,7.*\.\.\.\) cannot');
UPDATE wide SET "Field 150" = 1e200;
SELECT fails_with($$SELECT * FROM gkmeans_fit('wide', k => 2, nulls => 'error')$$, '22023', 'too large, in one of 200 columns', 'column "Field 150" is too large for real');
SELECT fails_with($$SELECT * FROM gkmeans_fit('wide', k => 2)$$, '22023', 'no usable row among 200 columns', NULL, '^10 rows were read: column "Field 150" is NaN, infinite or too large in all of them\.$', 'abs\(column\) < 1e38');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT CASE WHEN abs("Field 150") < 1e38 THEN "Field 150" ELSE 0 END AS x FROM wide', '{x}', 1)), 1, 'which helps');
SELECT fails_with((SELECT format('SELECT * FROM gkmeans_fit(%L, k => 1, nulls => ''error'')', 'SELECT ' || string_agg(format('%L::numeric AS c%s', CASE WHEN i = 3 THEN special ELSE '1' END, i), ', '))
	FROM generate_series(1, 120) i), '22023', special || ' as numeric among 120 columns', message, 'row \(1,1,' || CASE WHEN special LIKE '-%' THEN '-' ELSE '' END || '(NaN|Infinity|1\.797)') FROM (VALUES ('NaN', 'column "c3" is NaN'), ('-infinity', 'column "c3" is infinite'), ('-1.7976931348623158e308', 'column "c3" is too large for real'), ('1.7976931348623159e308', 'column "c3" is infinite, or too large')) v(special, message);
SELECT fails_with(format('SELECT * FROM gkmeans_fit(%L, ''{v}'', 1, nulls => ''error'')', source), '22004', left(source, 60), 'element 5 of column "v" is NULL', detail) FROM (VALUES
	('SELECT ARRAY[1, 2, 3, 4, NULL]::int[] AS v', '^The row \(\{1,2,3,4,NULL\}\) cannot'),
	('SELECT array_fill(7::float8, ''{4}'') || NULL::float8 || array_fill(7::float8, ''{40000}'') AS v', '^The row \(\{7,7,7,7,NULL,7,7.{40,60}\.\.\.\) cannot'),
	('SELECT array_fill(7::float8, ''{4}'') || NULL::float8 || array_fill(7::float8, ''{65000}'') || array_fill(0.5::float8, ''{500}'') AS v', '^The row \(.*\.\.\.\) cannot')) v(source, detail);
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (''{1,2}''::real[]), (''{1,2,NaN}'')', '{column1}', 1)$$, '22000', 'a row of another length is named by what it holds', 'differ in length',
	'^The row \(\{1,2,NaN\}\) has 3 elements, expected 2', 'WHERE cardinality\(column1\) = 2');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (''{1,2}''::real[]), (''{1}'')', '{column1}', 1)$$, '22000', 'one element', NULL, ' has 1 element, expected 2\.$');

-- NaN, infinite, too large; weights; rows without a direction
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('SELECT 1 AS a, ''%s''::%s AS x', '{a,x}', 1, nulls => 'error')$$, value, type), '22023', format('%s as %s', value, type), 'column "x" is ' || kind)
FROM (VALUES ('NaN', 'float8', 'NaN'), ('NaN', 'real', 'NaN'), ('NaN', 'numeric', 'NaN'), ('-Infinity', 'float8', 'infinite'), ('Infinity', 'real', 'infinite'), ('1e39', 'float8', 'too large for real'),
	('-1e39', 'numeric', 'too large for real'), ('1e400', 'numeric', 'infinite, or too large')) v(value, type, kind);
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (1, NULL::int)', '{column1}', 1, weight_column => 'column2', nulls => 'error')$$, '22004', 'a weight that is NULL', 'column "column2" is NULL');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (1, NULL::int), (2, NULL)', '{column1}', 1, weight_column => 'column2')$$, '22023', 'all weights NULL', NULL, 'column "column2" is NULL in all of them');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT ARRAY[i, 1] AS v, NULL::int AS w FROM generate_series(1, 5) i UNION ALL SELECT ARRAY[i, NULL], 1 FROM generate_series(1, 3) i', '{v}', 1, weight_column => 'w')$$,
	'22023', 'weights NULL beside arrays', NULL, '^8 rows were read: column "w" is NULL in 5, column "v" is NULL or has a NULL element in 3\.$');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (1, -2.5)', '{column1}', 1, weight_column => 'column2')$$, '22023', 'a negative weight', NULL, '^The row \(1\) has the weight -2.5 in column "column2"');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (0, 0), (0, 0), (NULL, 1)', '{column1,column2}', 1, metric => 'cosine')$$, '22023', 'rows without a direction', NULL,
	'^3 rows were read: column "column1" is NULL in 1, all features are zero in 2\.$');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (''{1,NULL}''::real[]), (NULL), (''{1,Infinity}'')', '{column1}', 1)$$, '22023', 'unusable arrays', NULL,
	'^3 rows were read: column "column1" is NULL or has a NULL element in 2, column "column1" has an element that is NaN, infinite or too large in 1\.$');
CREATE FUNCTION cured_rows(source text) RETURNS TABLE (size bigint, centroid float8[]) LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
	PERFORM gkmeans_fit(source, '{column1}', 1);
EXCEPTION WHEN invalid_parameter_value THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN QUERY SELECT f.size, f.centroid FROM gkmeans_fit(format('SELECT %s AS v FROM (%s) AS source', substring(hint FROM ': (.*)\.$'), source), '{v}', 1) AS f;
END $$;
SELECT results_eq(format('SELECT * FROM cured_rows(%L)', source), format('VALUES (%s::bigint, %L::float8[])', size, centroid), 'the HINT for arrays works: ' || source) FROM (VALUES
	('VALUES (''{1,NULL}''::real[]), (NULL), (''{1,Infinity}'')', 2, '{1,0}'), ('VALUES (''{1,NaN}''::numeric[])', 1, '{1,0}'),
	('VALUES (''{7,NULL}''::int[]), (NULL)', 1, '{7,0}'), ('VALUES (''{t,NULL}''::boolean[])', 1, '{1,0}')) AS v(source, size, centroid);

-- The HINT for each type works: its expression is a feature, and NULL stays NULL
CREATE TYPE mood AS ENUM ('so-so', 'fine');
CREATE DOMAIN city AS text;
CREATE DOMAIN stay AS daterange;
CREATE DOMAIN feeling AS mood;
CREATE TYPE delays AS RANGE (subtype = interval);
CREATE TYPE pair AS (field int, other int);
CREATE TABLE zoo ("A text" text, c char(3), v varchar, n name, q "char", d date, ts timestamp, tz timestamptz, t time, ttz timetz, i interval, e mood, m money, jb jsonb, j json, b bytea, o oid,
	p point, bx box, ci circle, po polygon, l lseg, pa path, dr daterange, nr numrange, nmr nummultirange, ip inet, net cidr, bt bit(3), vb varbit, ts_v tsvector, x xml, dom city, pr pair, lsn pg_lsn,
	da date[], ma money[], ta text[], ea mood[], sa stay[], fa feeling[], f feeling, ds delays);
INSERT INTO zoo VALUES ('a', 'b', 'c', 'd', 'e', '2026-01-01', '2026-01-01', '2026-01-01', '12:00', '12:00+1', '1 day', 'fine', 1, '{"key": 2}', '{"key": 2}', 'abc', 1, '(1,2)', '((1,2),(3,4))', '<(1,2),3>',
	'((1,2),(3,4),(5,6))', '((1,2),(3,4))', '((1,2),(3,4))', '[2026-01-01,2026-02-01)', '[1,2)', '{[1,2)}', '10.1.2.3', '10.0.0.0/8', '101', '1', 'word', '<path>1</path>', 'x', '(1,2)', '0/1',
	'{2026-01-01}', '{1}', '{value}', '{fine}', '{"[2026-01-01,2026-02-01)"}', '{fine}', 'fine', '[1 h,2 h)');
INSERT INTO zoo DEFAULT VALUES;
CREATE FUNCTION cure_of(type_column text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
	EXECUTE format('SELECT * FROM gkmeans_fit(''zoo'', ARRAY[%L], 1)', type_column);
	RETURN NULL;
EXCEPTION WHEN datatype_mismatch THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN substring(hint FROM '^Give a query as the source, with (.*?) (and .*)?in place of the column');
END $$;
SELECT lives_ok(format('SELECT * FROM gkmeans_fit(%L, ''{cured}'', 1)', format('SELECT %s AS cured FROM zoo', cure_of(attname))), format('%s: %s', format_type(atttypid, atttypmod), cure_of(attname)))
FROM pg_attribute WHERE attrelid = 'zoo'::regclass AND attnum > 0 ORDER BY attnum;
SELECT is((SELECT count(*)::int FROM pg_attribute WHERE attrelid = 'zoo'::regclass AND attnum > 0 AND cure_of(attname) IS NULL), 0, 'no type is without one');
UPDATE zoo SET jb = '[1,2]', j = '[1,2]' WHERE jb IS NOT NULL;
CREATE FUNCTION cure_of_list(list_column text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
	PERFORM gkmeans_fit('zoo', ARRAY[list_column], 1);
EXCEPTION WHEN datatype_mismatch THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN substring(hint FROM ', or (.*) if it holds arrays');
END $$;
SELECT is(centroid, '{1,2}', 'the cure of lists in ' || list_column) FROM unnest('{jb,j}'::text[]) AS list_column, LATERAL gkmeans_fit(format('SELECT %s AS cured FROM zoo', cure_of_list(list_column)), '{cured}', 1);
SELECT matches(cure_of(type_column), cure, 'the cure of ' || type_column) FROM (VALUES ('A text', '^\("A text" = ''value''\)::int$'), ('e', '^\(e = ''so-so''\)::int$'), ('ts', '^extract\(epoch FROM ts\)$')) v(type_column, cure);
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT gen_random_uuid() AS "the id"', '{the id}', 1)$$, '42804', 'a uuid', NULL, NULL, 'id_column => ''the id''');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT ''a:b:c:d:e:f''::macaddr AS x', '{x}', 1)$$, '42804', 'a type without a cure', NULL, NULL, 'A feature is a number');

-- The HINT for an array beside other features joins them all, and loses nothing
CREATE DOMAIN choice AS boolean;
CREATE DOMAIN share AS numeric;
CREATE DOMAIN shares AS share[];
CREATE TABLE mixed AS SELECT ARRAY[i % 2 = 0, i % 3 = 0] AS flags, ARRAY[i, 7]::smallint[] AS shorts, ARRAY[16777217, i] AS ints, ARRAY[i, 9007199254740991] AS longs, ARRAY[i / 4.0]::real[] AS reals,
	ARRAY[i / 10.0]::float8[] AS doubles, ARRAY[0.1, i / 8.0] AS numerics, ARRAY[i = 1]::choice[] AS choices, ARRAY[0.3, i]::shares AS shares,
	i % 2 = 0 AS flag, i::smallint AS short, 16777219 + i AS int, 9007199254740990 + i % 2 AS long, (i / 8.0)::real AS real, 1.7e9::float8 + i / 25.0 AS "Epoch", i / 10.0 AS numeric, (i = 2)::choice AS choice, (i / 5.0)::share AS share
FROM generate_series(1, 4) AS i;
CREATE FUNCTION numbers_of(feature jsonb) RETURNS SETOF float8 LANGUAGE sql AS $$
	SELECT CASE jsonb_typeof(n) WHEN 'boolean' THEN n::boolean::int ELSE n::float8 END
	FROM jsonb_array_elements(CASE jsonb_typeof(feature) WHEN 'array' THEN feature ELSE jsonb_build_array(feature) END) AS n $$;
CREATE FUNCTION joins(features text[]) RETURNS boolean LANGUAGE sql AS $$
	SELECT ARRAY(SELECT joined_by_hint('mixed', features)) = ARRAY(SELECT ARRAY(SELECT numbers_of(to_jsonb(m) -> f) FROM unnest(features) AS f) FROM mixed AS m) $$;
CREATE VIEW kinds AS SELECT attname::text AS name, attndims > 0 OR attname = 'shares' AS is_array FROM pg_attribute WHERE attrelid = 'mixed'::regclass AND attnum > 0;
SELECT is((SELECT string_agg(a.name || ',' || b.name, ' ') FROM kinds AS a, kinds AS b WHERE (a.is_array OR b.is_array) AND a.name <> b.name AND NOT joins(ARRAY[a.name, b.name])), NULL, 'each array with each feature');
SELECT ok(joins(features), features::text) FROM unnest(ARRAY['{reals,longs,"Epoch"}', '{short,flags,choice,flag,numerics,ints,real,numeric}', '{flags,choices,doubles}']) AS texts, CAST(texts AS text[]) AS features;
SELECT fails_with($$SELECT gkmeans_fit('SELECT reals, reals AS more FROM mixed', '{reals,more}', 1)$$, '42804', 'arrays of one type stay of that type', NULL, NULL, 'THEN reals \|\| more END\.$');
CREATE TABLE lacking AS TABLE mixed;
INSERT INTO lacking DEFAULT VALUES;
SELECT is((SELECT string_agg(a.name || ',' || b.name, ' ') FROM kinds AS a, kinds AS b WHERE (a.is_array OR b.is_array) AND a.name <> b.name
	AND (SELECT count(*) FROM joined_by_hint('lacking', ARRAY[a.name, b.name]) AS j WHERE j IS NULL) <> 1), NULL, 'a NULL array stays NULL beside each feature');

-- The type of an id
SELECT fails_with(format($$SELECT * FROM gkmeans_fit_predict(NULL::%s, 'SELECT NULL::%s AS id, 1 AS x', '{x}', 1, id_column => 'id')$$, asked, type), '42804', format('%s, not %s', type, asked), NULL, NULL,
	format('NULL::%s as the first', type))
FROM (VALUES ('int', 'bigint'), ('int', 'uuid'), ('bigint', 'character varying'), ('date', 'timestamp with time zone'), ('text', 'integer')) v(asked, type);

-- Columns that a model reads, but now of another shape
CREATE TABLE shapes AS SELECT i * 1.5 AS one, ARRAY[i * 2.5, i] AS several FROM generate_series(1, 4) AS i;
SELECT gkmeans_create_model('of_one', 'shapes', '{one}', 2), gkmeans_create_model('of_several', 'shapes', '{several}', 2);
ALTER TABLE shapes RENAME one TO other;
ALTER TABLE shapes RENAME several TO one;
ALTER TABLE shapes RENAME other TO several;
SELECT fails_with(format('SELECT gkmeans_predict(%L, shapes) FROM shapes', model), '42804', model || ': a shape that does not fit', 'does not fit the model', detail, 'if_exists => ''replace''')
FROM (VALUES ('of_one', 'has one feature'), ('of_several', 'has an array of features')) AS models(model, detail);

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
