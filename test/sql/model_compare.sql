-- gkmeans_compare, gkmeans_compare_labels, gkmeans_transitions, gkmeans_predict_version.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS SELECT f[1]::int AS id, f[2:5]::float8[] AS v, f[2]::float8 AS sepal_length, f[6] AS species FROM csv_lines(:'iris') f;
SELECT gkmeans_create_model('i3', 'iris', '{v}', 3, n_init => 16);
SELECT gkmeans_create_model('i4', 'iris', '{v}', 4, n_init => 16);
CREATE TABLE labelled AS SELECT id, gkmeans_predict('i3', v) AS three, gkmeans_predict('i4', v) AS four, species FROM iris;

-- What scikit-learn gives
SELECT near(adjusted_rand, 0.7302382723, 1e-9, 'k = 3 against species: adjusted Rand') FROM gkmeans_compare_labels('labelled', 'three', 'species');
SELECT near(normalized_mutual_info, 0.7581756800, 1e-9, 'k = 3 against species: mutual information') FROM gkmeans_compare_labels('labelled', 'three', 'species');
SELECT near(adjusted_rand, 0.7150245776, 1e-9, 'k = 3 against k = 4: adjusted Rand') FROM gkmeans_compare('i3', 'i4', 'iris');
SELECT near(normalized_mutual_info, 0.7919604058, 1e-9, 'k = 3 against k = 4: mutual information') FROM gkmeans_compare('i3', 'i4', 'iris');
SELECT is(row(rows, moved)::text, '(150,34)', 'rows, and those that moved') FROM gkmeans_compare('i3', 'i4', 'iris');
SELECT near(moved_share, 34 / 150.0, 1e-12, 'their share') FROM gkmeans_compare('i3', 'i4', 'iris');
SELECT is(a, b, 'models and labels are compared alike') FROM gkmeans_compare('i3', 'i4', 'iris') a, gkmeans_compare_labels('labelled', 'three', 'four') b;
SELECT is(row(b.adjusted_rand, b.moved)::text, row(a.adjusted_rand, a.moved)::text, 'the other way round') FROM gkmeans_compare('i3', 'i4', 'iris') a, gkmeans_compare('i4', 'i3', 'iris') b;
SELECT is(row(adjusted_rand, normalized_mutual_info, moved)::text, '(1,1,0)', 'a model agrees with itself') FROM gkmeans_compare('i3', 'i3', 'iris');

-- The limits
CREATE TABLE pairs (a text, b int);
INSERT INTO pairs SELECT 'only', 7 FROM generate_series(1, 5);
CREATE VIEW numbered AS SELECT (i * i) % 17 AS a, (i * 7 + i / 5) % 12 AS b FROM generate_series(1, 200) i;
SELECT is(c, d, 'whatever the labels are called') FROM gkmeans_compare_labels('numbered', 'a', 'b') c, gkmeans_compare_labels('SELECT lpad(a::text, 3, ''0'') AS a, lpad(b::text, 3, ''0'') AS b FROM numbered', 'a', 'b') d;
SELECT is(row(rows, adjusted_rand, normalized_mutual_info, moved)::text, '(5,1,1,0)', 'one cluster each') FROM gkmeans_compare_labels('pairs', 'a', 'b');
SELECT is(row(adjusted_rand, normalized_mutual_info, moved)::text, '(1,1,0)', 'one row') FROM gkmeans_compare_labels('SELECT * FROM pairs LIMIT 1', 'a', 'b');
SELECT is(row(adjusted_rand, normalized_mutual_info, moved)::text, '(0,0,4)', 'one cluster against single rows') FROM gkmeans_compare_labels('SELECT 1 AS a, i AS b FROM generate_series(1, 5) i', 'a', 'b');
SELECT is(row(adjusted_rand, normalized_mutual_info, moved)::text, '(1,1,0)', 'single rows each') FROM gkmeans_compare_labels('SELECT -i AS a, i AS b FROM generate_series(1, 50) i', 'a', 'b');
SELECT is(row(rows, adjusted_rand, normalized_mutual_info, moved)::text, '(25,1,1,0)', 'the same clusters, whose information is not quite their entropy in double precision: ' || a)
FROM (VALUES ('i % 3'), ('i % 7'), ('(i * i) % 11'), ('i / 2')) v(a), gkmeans_compare_labels(format('SELECT %s AS a, -(%s) AS b FROM generate_series(1, 25) i', a, a), 'a', 'b');
SELECT is(rows, 2::bigint, 'rows without a label do not count') FROM gkmeans_compare_labels('VALUES (1, 1), (NULL, 1), (2, NULL), (2, 2)', 'column1', 'column2');
SELECT is(moved, 4::bigint, 'the matching is the best one, not that of the largest first') FROM gkmeans_compare_labels('SELECT a, b FROM (VALUES (1, 1, 4), (1, 2, 3), (2, 1, 3)) v(a, b, n), generate_series(1, n)', 'a', 'b');
SELECT is(row(rows, moved)::text, '(9000,3000)', 'more clusters than are matched exactly') FROM gkmeans_compare_labels('SELECT i / 3 AS a, (i + 1) / 3 AS b FROM generate_series(0, 8999) i', 'a', 'b');
SELECT is(row(rows, moved)::text, '(6000,2000)', 'as many as are matched exactly') FROM gkmeans_compare_labels('SELECT i / 3 AS a, (i + 1) / 3 AS b FROM generate_series(0, 5999) i', 'a', 'b');
SELECT is(row(rows, moved)::text, '(4200,2100)', 'many on one side') FROM gkmeans_compare_labels('SELECT i AS a, i / 2 AS b FROM generate_series(0, 4199) i', 'a', 'b');

-- Labels are compared by their text, whatever their type
CREATE TABLE "Odd Names" AS SELECT i % 2 AS "A b", (ARRAY['x', 'y'])[i % 2 + 1] AS "c""d", point(i % 3, 0) AS p, i % 3 AS source FROM generate_series(1, 12) i;
SELECT is(adjusted_rand, 1::float8, 'names that are quoted') FROM gkmeans_compare_labels('"Odd Names"', 'A b', 'c"d');
SELECT is(adjusted_rand, 1::float8, 'a type without an order, a column called source') FROM gkmeans_compare_labels('"Odd Names"', 'p', 'source');
SELECT gkmeans_import_model('thirds', '{{0},{1},{2}}', features => '{source}');
SELECT is(row(rows, moved)::text, '(12,0)', 'a column called source, and models') FROM gkmeans_compare('thirds', 'thirds', '"Odd Names"');

-- Types that the source alters while labels wait to be shown
CREATE TYPE part AS (a bigint, b bigint);
CREATE DOMAIN parts AS part[];
CREATE FUNCTION alter_at_nine(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 9 THEN ALTER TYPE part ALTER ATTRIBUTE a TYPE text; END IF; RETURN i; END $$;
SELECT fails_with(format($$SELECT gkmeans_compare_labels('SELECT %s AS part, alter_at_nine(i) AS number FROM generate_series(1, 9) i', '%s', '%s')$$, part, a, b), '55000', format('%s as %s', part, a), 'the type of column "part" was altered while the source was being read')
FROM unnest('{"ROW(i, i)::part","ARRAY[ROW(i, i)::part]::parts"}'::text[]) part, (VALUES ('part', 'number'), ('number', 'part')) columns (a, b);
-- or drops, as soon as it is planned, or while it is read
CREATE DOMAIN short_lived AS int;
CREATE FUNCTION drop_at_nine(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 9 THEN DROP DOMAIN short_lived; END IF; RETURN i; END $$;
CREATE FUNCTION drop_now() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN drop_at_nine(9) = 9; END $$;
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT i::short_lived AS a, i AS b FROM generate_series(1, 9) i WHERE drop_now()', 'a', 'b')$$, '55000', 'a type that is dropped while the source is planned', 'source changed while it was being read');
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT i::short_lived AS a, drop_at_nine(i) AS b FROM generate_series(1, 9) i', 'a', 'b')$$, '42704', 'or read', 'the type of column "a" was dropped while the source was being read');

-- Models with other features and scales, versions, rows that cannot be scored
SELECT gkmeans_create_model('by_length', 'iris', '{sepal_length}', 3, scale => 'standard');
SELECT is(row(c.rows, c.adjusted_rand)::text, row(l.rows, l.adjusted_rand)::text, 'models with other features') FROM gkmeans_compare('i3', 'by_length', 'iris') c,
	gkmeans_compare_labels('SELECT gkmeans_predict(''i3'', i) AS a, gkmeans_predict(''by_length'', i) AS b FROM iris i', 'a', 'b') l;
SELECT gkmeans_create_model('i3', 'iris', '{v}', 4, n_init => 16, if_exists => 'replace');
SELECT near(adjusted_rand, 0.7150245776, 1e-9, 'two versions of one model') FROM gkmeans_compare('i3', 'i3', 'iris', 1, 2);
SELECT near(adjusted_rand, 0.7150245776, 1e-9, 'the deployed one if none is named') FROM gkmeans_compare('i3', 'i3', 'iris', 1);
SELECT is(rows, 148::bigint, 'rows that one of them cannot score') FROM gkmeans_compare('i4', 'by_length', 'SELECT CASE WHEN id > 1 THEN v END AS v, CASE WHEN id < 150 THEN sepal_length END AS sepal_length FROM iris');
SELECT is((SELECT array_agg(gkmeans_predict_version('i3', 1, i) ORDER BY id) FROM iris i), (SELECT array_agg(three ORDER BY id) FROM labelled), 'gkmeans_predict_version');
SELECT is((SELECT array_agg(gkmeans_predict_version('i3', 2, v) ORDER BY id) FROM iris i), (SELECT array_agg(four ORDER BY id) FROM labelled), 'another version');
SELECT is((SELECT array_agg(gkmeans_predict_version('i3', n, v) ORDER BY n) FROM iris, unnest('{1,2}'::int[]) n WHERE id = 60), (SELECT ARRAY[three, four] FROM labelled WHERE id = 60), 'the version may change from row to row');

-- Transitions
SELECT is(array_agg(row(from_cluster_id, to_cluster_id, rows)::text ORDER BY 1), (SELECT array_agg(row(three, four, n)::text ORDER BY three, four) FROM (SELECT three, four, count(*) AS n FROM labelled GROUP BY 1, 2) l), 'transitions') FROM (SELECT * FROM gkmeans_transitions('i3', 'i4', 'iris', 1) ORDER BY 1, 3) t;
SELECT is(sum(rows), 150::numeric, 'of all rows') FROM gkmeans_transitions('i3', 'i4', 'iris', 1);
SELECT ok(bool_and(abs(total - 1) < 1e-12), 'the shares of a cluster add up') FROM (SELECT sum(share) AS total FROM gkmeans_transitions('i3', 'i4', 'iris', 1) GROUP BY from_cluster_id) t;
SELECT gkmeans_name_clusters('i4', '{one,NULL,three,four}');
SELECT is(array_agg(DISTINCT to_name), '{"cluster 1",four,one,three}', 'names') FROM gkmeans_transitions('i3', 'i4', 'iris', 1);
CREATE TABLE spots AS SELECT * FROM (VALUES (0.0, 0.0), (5, 0), (9, 9)) v(x, y);
SET LOCAL client_min_messages = error;
SELECT gkmeans_create_model('with_gaps', 'spots', '{x,y}', initial_centroids => '{{0,0},{100,100},{5,0},{9,9}}', max_iter => 1);
RESET client_min_messages;
SELECT is((SELECT array_agg(to_name ORDER BY to_cluster_id) FROM gkmeans_transitions('with_gaps', 'with_gaps', 'spots')), '{cluster 0,cluster 2,cluster 3}', 'ids with a gap have their names');

-- In a parallel plan
CREATE TABLE many AS SELECT ARRAY[noise(i, 1) * 8, noise(i, 2) * 4, noise(i, 3) * 7, noise(i, 4) * 2] AS v FROM generate_series(1, 20000) i;
ANALYZE many;
CREATE TABLE alone AS SELECT * FROM gkmeans_compare('i3', 'i4', 'many', 1);
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SELECT is(c::text, a::text, 'in parallel: the same') FROM gkmeans_compare('i3', 'i4', 'many', 1) c, alone a;

-- Privileges: both models, and the source
CREATE ROLE reader;
GRANT USAGE ON SCHEMA gk_test TO reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
GRANT SELECT ON i3, iris TO reader;
SET LOCAL ROLE reader;
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i4', 'iris')$$, '42501', 'no privilege on the second model', 'permission denied for table i4');
SELECT fails_with($$SELECT gkmeans_transitions('i4', 'i3', 'iris')$$, '42501', 'nor on the first', 'permission denied for table i4');
SELECT is(rows, 150::bigint, 'with SELECT on both') FROM gkmeans_compare('i3', 'i3', 'iris', 1, 2);
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i3', 'many')$$, '42501', 'no privilege on the source', 'permission denied for table many');
RESET ROLE;

-- Errors
SELECT fails_with($$SELECT gkmeans_compare('i3', 'iris', 'iris')$$, '42809', 'no model');
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i4', 'iris', 9)$$, '42704', 'no such version');
SELECT fails_with($$SELECT gkmeans_predict_version('i3', 0, '{5,3,4,1}')$$, '42704', 'version 0 is not the deployed one');
SELECT fails_with($$SELECT gkmeans_compare('i3', NULL, 'iris')$$, '22004', 'model_b is NULL');
SELECT is((SELECT row(c.*)::text FROM gkmeans_compare('i3', 'i4') c), (SELECT row(c.*)::text FROM gkmeans_compare('i3', 'i4', 'iris') c), 'without a source, that of the definition of the first model');
SELECT is((SELECT array_agg(t::text) FROM gkmeans_transitions('i3', 'i4') t), (SELECT array_agg(t::text) FROM gkmeans_transitions('i3', 'i4', 'iris') t), 'transitions as well');
CREATE ROLE gk_reader;
GRANT USAGE ON SCHEMA gk_test TO gk_reader;
GRANT SELECT ON iris, i3, i4 TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT gk_test.fails_with(call, '42501', 'only for its owner: ' || call, 'definition of model "i3"', NULL, 'Give a source') FROM unnest(ARRAY['SELECT gkmeans_compare(''i3'', ''i4'')', 'SELECT gkmeans_transitions(''i3'', ''i4'')']) call;
RESET ROLE;
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i4', 'spots')$$, '42703', 'a source without the columns', 'has no column');
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i4', 'SELECT * FROM iris WHERE false')$$, '22023', 'no rows');
SELECT fails_with($$SELECT gkmeans_compare('i3', 'i4', 'DELETE FROM iris')$$, '42601', 'a source that changes rows');
SELECT fails_with($$SELECT gkmeans_compare_labels('labelled', 'three', 'five')$$, '42703', 'no such label', 'source has no column "five"', 'label_b');
SELECT fails_with($$SELECT gkmeans_compare_labels('labelled', '', 'three')$$, '42703', 'an empty name');
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT 1 AS a, 2 AS a', 'a', 'a')$$, '42702', 'a name of two columns');
SELECT fails_with($$SELECT gkmeans_compare_labels('labelled', NULL, 'three')$$, '22004', 'label_a is NULL');
SELECT fails_with($$SELECT gkmeans_compare_labels('labelled', 'three) FROM iris; --', 'three')$$, '42703', 'names are quoted');

SET LOCAL extra_float_digits = -5;
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels('SELECT i % 2 AS a, 1 + i % 2 * 1e-12::float8 AS b FROM generate_series(1, 100) i', 'a', 'b')), 1::float8, 'numbers that are displayed alike are different labels');
RESET extra_float_digits;
SET LOCAL DateStyle = 'SQL';
SET LOCAL TimeZone = 'Europe/Moscow';
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels('SELECT i % 2 AS a, ''2014-10-25 21:30+00''::timestamptz + i % 2 * ''1 hour''::interval AS b FROM generate_series(1, 100) i', 'a', 'b')), 1::float8, 'times that are displayed alike are different labels');
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels(format('SELECT i %% 2 AS a, %s AS b FROM generate_series(1, 100) i, LATERAL (SELECT ''2014-10-25 21:30+00''::timestamptz + i %% 2 * ''1 hour''::interval AS t) l', label), 'a', 'b')),
	1::float8, 'they are within other labels, too: ' || label)
FROM unnest(ARRAY['ARRAY[t]', 'tstzrange(t, t, ''[]'')', 'ROW(t)']) label;
RESET DateStyle;
RESET TimeZone;

-- The source means what it means to its user.
SET LOCAL DateStyle = 'German';
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels('SELECT left((date ''2026-01-01'' + i)::text, 2) AS a, extract(day FROM date ''2026-01-01'' + i) AS b FROM generate_series(0, 99) i', 'a', 'b')), 1::float8, 'a source displays dates as its user does');
RESET DateStyle;
SET LOCAL IntervalStyle = 'sql_standard';
SELECT is((SELECT rows FROM gkmeans_compare_labels('SELECT 1 AS a, 1 AS b FROM generate_series(0, 99) i WHERE make_interval(hours => i) + ''-1 2:03:04''::interval > ''0''', 'a', 'b')), 73::bigint, 'a source reads intervals as its user does');
RESET IntervalStyle;
SET LOCAL extra_float_digits = 0;
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels('SELECT (i * 0.1::float8)::text = ''0.3'' AS a, i = 3 AS b FROM generate_series(1, 9) i', 'a', 'b')), 1::float8, 'a source displays numbers as its user does');
RESET extra_float_digits;
SELECT is((SELECT adjusted_rand FROM gkmeans_compare_labels('SELECT oid::regproc AS a, oid AS b FROM pg_proc, generate_series(1, 5) WHERE proname = ''abs''', 'a', 'b')), 1::float8, 'functions of one name are different labels');
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT i AS a, 1 AS b FROM generate_series(0, 1000000) i', 'a', 'b')$$, '54000', 'more labels than clusters can be', 'more than 1000000 different labels');
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT repeat(md5(i::text), 3000) AS a, 1 AS b FROM generate_series(1, 3000) i', 'a', 'b')$$, '54000', 'texts of more than 256 MB', 'more than 256 MB', NULL, 'md5');

-- A source that changes the types of its columns after they were looked at: a literal runs the check of a domain.
CREATE TABLE changing (a text, b text);
INSERT INTO changing SELECT i % 2, i % 3 FROM generate_series(1, 9) i;
CREATE SEQUENCE looks;
CREATE FUNCTION change(look int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('looks') = 1 THEN
		ALTER TABLE changing DROP a, DROP b;
		ALTER TABLE changing ADD a int DEFAULT 1, ADD b int DEFAULT 2;
	END IF;
	RETURN true;
END $$;
CREATE DOMAIN looked_at AS int CHECK (change(VALUE));
CREATE TYPE looked AS (at looked_at);
SELECT is((SELECT rows FROM gkmeans_compare_labels('SELECT * FROM changing WHERE ''(1)''::looked IS NOT NULL', 'a', 'b')), 9::bigint, 'labels are shown by the types that they have');

-- A type that is dropped while the source is planned.
CREATE DOMAIN passing AS int;
CREATE FUNCTION drop_passing() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN DROP DOMAIN passing; RETURN true; END $$;
CREATE FUNCTION drop_early() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN drop_passing(); END $$;
SELECT fails_with($$SELECT gkmeans_compare_labels('SELECT i::passing AS a, i AS b FROM generate_series(1, 9) i WHERE drop_early()', 'a', 'b')$$, '55000', 'a type that is dropped while the source is planned', 'source changed while it was being read');

-- Functions in the schema of the extension that fit better: of the table's type, and of any row.
CREATE TABLE outside AS SELECT i::float8 AS x FROM generate_series(1, 9) i;
SELECT gkmeans_create_model('outside_model', 'outside', '{x}', 2);
CREATE FUNCTION public.gkmeans_predict_version(regclass, int, outside) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it ran'; END $$;
CREATE FUNCTION public.gkmeans_predict_version(regclass, int, record) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it ran'; END $$;
SELECT fails_with($$SELECT gkmeans_compare('outside_model', 'outside_model')$$, '42725', 'a function that fits better does not compare models', 'function "gkmeans_predict_version" resolves to one outside extension "gkmeans"');
SELECT fails_with($$SELECT gkmeans_transitions('outside_model', 'outside_model', 'SELECT 1::float8 AS x')$$, '42725', 'not even if it can be called when the query is planned', 'function "gkmeans_predict_version" resolves to one outside extension "gkmeans"');
CREATE FUNCTION call_at_planning(int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it ran'; END $$;
CREATE FUNCTION public._gkmeans_feed(uuid, int, float8, float8) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT call_at_planning(1)';
SELECT fails_with($$SELECT gkmeans_fit('outside', '{x}', 2)$$, '42725', 'nor does one read rows', 'function "_gkmeans_feed" resolves to one outside extension "gkmeans"');
DROP FUNCTION public._gkmeans_feed(uuid, int, float8, float8);
DROP FUNCTION public.gkmeans_predict_version(regclass, int, outside);
DROP FUNCTION public.gkmeans_predict_version(regclass, int, record);

-- Many functions of other roles that have the names: each fit looks at none of them.
CREATE FUNCTION looks_at_dependencies() RETURNS bigint LANGUAGE sql AS $$ SELECT idx_scan FROM pg_stat_xact_sys_tables WHERE relid = 'pg_depend'::regclass $$;
CREATE SCHEMA others;
DO $$
DECLARE
	kind oid;
	called text;
BEGIN
	FOR kind IN SELECT oid FROM pg_type WHERE typtype = 'b' AND typnamespace = 'pg_catalog'::regnamespace LOOP
		FOREACH called IN ARRAY ARRAY['_gkmeans_feed', 'gkmeans_create_model', 'gkmeans_predict_version'] LOOP
			EXECUTE format('CREATE FUNCTION others.%I(%s) RETURNS int LANGUAGE sql RETURN 1', called, format_type(kind, NULL));
		END LOOP;
	END LOOP;
END $$;
SELECT looks_at_dependencies() AS before \gset
SELECT is((SELECT sum(size) FROM gkmeans_fit('outside', '{x}', 2)), 9::numeric, 'a fit beside many functions of the name of the feed');
SELECT is((SELECT rows FROM gkmeans_compare('outside_model', 'outside_model')), 9::bigint, 'a comparison');
SELECT is((SELECT count(*) FROM gkmeans_refit('outside_model')), 1::bigint, 'a refit');
SELECT cmp_ok(looks_at_dependencies() - :before, '<', 100::bigint, 'look at few dependencies');

-- The extension goes while the rows are read
CREATE FUNCTION drops_extension(number int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF number = 1 THEN DROP EXTENSION gkmeans CASCADE; END IF; RETURN true; END $$;
SELECT throws_ok($$SELECT 1 / (rows - 9) FROM gkmeans_compare_labels('SELECT i AS a, i % 3 AS b FROM generate_series(1, 9) i WHERE drops_extension(i)', 'a', 'b')$$, '22012', NULL, 'labels are compared while the extension is dropped');
SELECT nothing_left('nothing is left of these calls');
SELECT * FROM finish();
ROLLBACK;
