-- Far from the origin: the same labels, the centroids moved along.
\ir helpers.psql

CREATE TABLE data AS
	SELECT i AS id, (10 * noise(i, 1) + 20 * (i % 3))::numeric(12, 4)::float8 AS x, (10 * noise(i, 2))::numeric(12, 4)::float8 AS y,
		(100 * noise(i, 3))::int AS n
	FROM generate_series(1, 2000) i;

-- The columns of a type, shifted; centroids are given, shifted alike.
CREATE FUNCTION labels(source text, features text[], amount float8) RETURNS text LANGUAGE sql AS $$
	SELECT md5(string_agg(id || ':' || cluster_id, ',' ORDER BY id)) FROM gkmeans_fit_predict(NULL::int, source, features, 6,
		id_column => 'id', initial_centroids => (SELECT array_agg(ARRAY[c[1] + amount, c[2] + amount]) FROM (VALUES
			('{0,0}'::float8[]), ('{5,10}'), ('{20,5}'), ('{30,0}'), ('{45,3}'), ('{50,10}')) v(c)))
$$;
CREATE FUNCTION centroids(source text, features text[], amount float8) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT cluster_id || ':' || round((centroid[1] - amount)::numeric, 3) || ',' || round((centroid[2] - amount)::numeric, 3)
	FROM gkmeans_fit(source, features, 6, initial_centroids => (SELECT array_agg(ARRAY[c[1] + amount, c[2] + amount]) FROM (VALUES
			('{0,0}'::float8[]), ('{5,10}'), ('{20,5}'), ('{30,0}'), ('{45,3}'), ('{50,10}')) v(c)))
$$;
SELECT is(labels(format('SELECT id, x + %s AS x, y + %s AS y FROM data', amount, amount), '{x,y}', amount),
	labels('data', '{x,y}', 0), format('float8 columns + %s: the same labels', amount))
FROM unnest('{1e6,-1e6,123456.789,1e9}'::float8[]) amount;
SELECT results_eq(format('SELECT centroids(%L, %L, %L)', format('SELECT x + %s AS x, y + %s AS y FROM data', amount, amount), '{x,y}', amount),
	$$SELECT centroids('data', '{x,y}', 0)$$, format('float8 columns + %s: the centroids move along', amount))
FROM unnest('{1e6,-1e6,123456.789,1e9}'::float8[]) amount;
SELECT is(labels(format('SELECT id, ARRAY[x + %s, y + %s] AS v FROM data', amount, amount), '{v}', amount),
	labels('data', '{x,y}', 0), format('float8[] + %s: the same labels', amount))
FROM unnest('{1e6,-1e6}'::float8[]) amount;
SELECT is(labels('SELECT id, x::numeric + 1000000 AS x, y::numeric + 1000000 AS y FROM data', '{x,y}', 1e6),
	labels('data', '{x,y}', 0), 'numeric columns + 1e6: the same labels');
SELECT is(labels('SELECT id, ARRAY[x::numeric + 1000000, y::numeric + 1000000] AS v FROM data', '{v}', 1e6),
	labels('data', '{x,y}', 0), 'numeric[] + 1e6: the same labels');
SELECT is(labels('SELECT id, (x + n)::int + 1000000 AS x, n + 1000000 AS y FROM data', '{x,y}', 1e6),
	labels('SELECT id, (x + n)::int AS x, n AS y FROM data', '{x,y}', 0), 'int columns + 1e6: the same labels');
SELECT is(labels('SELECT id, ARRAY[(x + n)::int + 1000000, n + 1000000]::real[] AS v FROM data', '{v}', 1e6),
	labels('SELECT id, ARRAY[(x + n)::int, n]::real[] AS v FROM data', '{v}', 0), 'real[] of whole numbers + 1e6: the same labels');
SELECT is(labels('SELECT id, (x + n)::int::bigint + 1000000 AS x, n::bigint + 1000000 AS y FROM data', '{x,y}', 1e6),
	labels('SELECT id, (x + n)::int AS x, n AS y FROM data', '{x,y}', 0), 'bigint columns + 1e6: the same labels');

-- A constant far from zero: float32 holds it, but not the values beside it, which come later.
CREATE TABLE constant AS SELECT i AS id, 1600000000::float8 AS x, i % 2 * 10 AS y FROM generate_series(1, 100) i;
SELECT gkmeans_create_model('constants', 'constant', '{x,y}', 2);
SELECT gkmeans_import_model('imported_constants', '{{1e9,0},{1e9,1}}');
SELECT is(ARRAY[gkmeans_distance('constants', 1600000003, 10), gkmeans_distance('imported_constants', 1000000003, 0)], '{3,3}', 'rows beside a constant feature');
SELECT gkmeans_create_model('constants_' || type, format('SELECT i, %s::%s AS x FROM generate_series(1, 9) i', value, type), '{x}', 1) FROM (VALUES ('int', 16777216), ('bigint', -16777216), ('numeric', 16777216)) t(type, value);
SELECT is(ARRAY[gkmeans_distance('constants_int', 16777217), gkmeans_distance('constants_bigint', -16777217), gkmeans_distance('constants_numeric', 16777217)], '{1,1,1}', 'be they integers at 2^24');

-- Integers that neither float32 nor float64 holds: a row just above the middle of two reals
CREATE TABLE wide AS SELECT i AS id, ARRAY[(CASE WHEN i <= 3 THEN -1 ELSE 1 END) * 1152921504606846976 + CASE WHEN i > 9 THEN 137438953472 WHEN i > 6 THEN 68719476737 ELSE 0 END, 0]::bigint[] AS v
	FROM generate_series(1, 12) i;
SELECT gkmeans_create_model('wide_kinds', 'wide', '{v}', 3, initial_centroids => '{{1152921504606846976,0},{1152921642045800448,0},{-1152921504606846976,0}}', id_column => 'id', labels_table => 'wide_labels');
SELECT is((SELECT count(*)::int FROM wide JOIN wide_labels USING (id) WHERE cluster_id = gkmeans_predict('wide_kinds', wide)), 12, 'bigint[]: the labels of a fit are those of predictions');
SELECT is((SELECT count(*)::int FROM wide_labels l JOIN gkmeans_predict_rows(NULL::int, 'wide_kinds', 'wide', 'id') p USING (id) WHERE l.cluster_id = p.cluster_id), 12, 'of rows as well');
CREATE TABLE wide_again (id int PRIMARY KEY, cluster_id int);
SELECT gkmeans_refit('wide_kinds', deploy => 'never', labels_table => 'wide_again');
SELECT results_eq('SELECT id, cluster_id FROM wide_again ORDER BY id', 'SELECT id, cluster_id FROM wide_labels ORDER BY id', 'and of a refit');

-- Arrays of booleans beside a shift are those of their numbers
CREATE TABLE flags AS SELECT i AS id, ARRAY[i % 2 = 0, i % 3 = 0, true] AS v FROM generate_series(1, 60) i;
SELECT gkmeans_create_model('far_kinds', 'SELECT ARRAY[100000 + i % 7 * 0.001, 1 + i % 3 * 1e-5, 0.5]::float8[] AS v FROM generate_series(1, 200) i', '{v}', 4);
SELECT is((SELECT shift[1] FROM far_kinds), 100000::float8, 'a model with a shift');
CREATE FUNCTION labels_by_far_kinds(elements text) RETURNS text LANGUAGE sql AS $$
	SELECT fingerprint(format('SELECT * FROM gkmeans_predict_rows(NULL::int, ''far_kinds'', %L, ''id'') ORDER BY id', format('SELECT id, %s AS v FROM flags', elements)))
$$;
SELECT is(labels_by_far_kinds('v'), labels_by_far_kinds('v' || type), 'booleans are read as v' || type) FROM unnest('{::int[],::int[]::real[],::int[]::float8[]}'::text[]) type;
SELECT near(distance, sqrt((SELECT sum((c - x) ^ 2) FROM unnest(centroid, '{1,0,1}'::float8[]) u(c, x))), 1e-9, 'with the distances of these')
FROM gkmeans_predict_rows(NULL::int, 'far_kinds', 'flags', 'id') JOIN gkmeans_clusters('far_kinds') USING (cluster_id) WHERE id = 2;

-- Timestamps as seconds since 1970: hours are told apart.
SELECT results_eq($$SELECT count(*), max(id) - min(id) FROM gkmeans_fit_predict(NULL::int,
		'SELECT i AS id, extract(epoch FROM timestamp ''2024-05-01'' + (i / 100) * interval ''1 day'' + (i % 100) * interval ''1 second'')
			AS at FROM generate_series(0, 499) i', '{at}', 5, id_column => 'id', n_init => 8) GROUP BY cluster_id$$,
	'SELECT 100::bigint, 99 FROM generate_series(1, 5)', 'five days, as seconds since 1970');
-- Seeded fits: the draw may differ with the rounding, the quality may not.
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('SELECT x + 1e6 AS x, y + 1e6 AS y FROM data', '{x,y}', 3, n_init => 4)),
	(SELECT sum(inertia) FROM gkmeans_fit('data', '{x,y}', 3, n_init => 4)), 1e-5, 'inertia at an offset of 1e6');
-- One column far away, the other not.
SELECT is(labels('SELECT id, x + 1e12 AS x, y FROM data', '{x,y}', 0) IS NOT NULL, true, 'one column at 1e12');
SELECT near((SELECT sum(inertia) FROM gkmeans_fit('SELECT x + 1e9 AS x, y FROM data', '{x,y}', 3, n_init => 4)),
	(SELECT sum(inertia) FROM gkmeans_fit('data', '{x,y}', 3, n_init => 4)), 1e-4, 'inertia with one column at 1e9');

-- Values between bounds: the first rows show that their range will not grow, whatever is near a limit of the rule.
CREATE FUNCTION reads_twice(x text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
	PERFORM FROM gkmeans_fit(format('SELECT %s AS x FROM generate_series(1, 120000) i', x), '{x}', 1, max_iter => 1);
	RETURN (SELECT read_twice FROM gkmeans_last_fit());
END $$;
SELECT is(reads_twice('1.8e6 + i * 7919 % 100000'), false, '19 times its range away, where more than 16 are shifted');
SELECT is(reads_twice('1e9 + i * 7919 % 60000'), false, 'a range just below a power of 16');
SELECT is(reads_twice('1.5e6 + i'), true, 'values that go on rising');
SELECT is(reads_twice('CASE WHEN i <= 30000 THEN 1 ELSE 0 END::float8'), false, 'a small constant in the first rows');

-- A source that changes between two readings
CREATE TABLE far AS SELECT i, 1e9 + i % 7 + CASE WHEN i > 100000 THEN 1e12 ELSE 0 END AS x FROM generate_series(1, 120000) i;
CREATE FUNCTION read_otherwise() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN 0.0 * length(set_config('standard_conforming_strings', 'off', true)); END$$;
SELECT is((SELECT sum(size) FROM gkmeans_fit($$SELECT CASE WHEN i = 1 THEN x + read_otherwise() ELSE x END AS x, 'a\' AS t, ' AS t, $1 AS u -- ' AS u
	FROM far$$, '{x}', 2)), 120000::numeric, 'a setting that would change what the text says');
SET LOCAL standard_conforming_strings = on;
CREATE TEMP TABLE hidden AS SELECT i, ARRAY[i % 2 = 0] AS v FROM generate_series(1, 10) i;
CREATE TABLE farther AS SELECT i, ARRAY[x] AS v FROM far;
CREATE FUNCTION hide(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF i = 5 AND to_regclass('pg_temp.hidden') IS NOT NULL THEN ALTER TABLE pg_temp.hidden RENAME TO farther; END IF;
	RETURN i;
END $$;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT v FROM farther WHERE hide(i) > 0', '{v}', 2)), 120000, 'a table of booleans that hides the first one after its fifth row');
SELECT is((SELECT read_twice FROM gkmeans_last_fit()), true, 'which is read twice');
CREATE FUNCTION size_of(float8) RETURNS float8 LANGUAGE internal AS 'float8abs';
CREATE FUNCTION drop_size_of(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF i = 5 THEN DROP FUNCTION size_of; END IF;
	RETURN i;
END $$;
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT size_of(x) AS x FROM far WHERE drop_size_of(i) > 0', '{x}', 2)$$, '42883', 'a function that is dropped between two readings', 'was dropped while it was being read');

-- Other things that it drops or replaces, and that nothing keeps: those that a plan names, and what the first reading left out.
CREATE TABLE parts (part int, i int, x float8) PARTITION BY LIST (part);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT 1, i, x FROM far;
INSERT INTO parts VALUES (2, 1, 1e9);
CREATE FUNCTION part() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN CASE current_setting('gk_test.change') WHEN '' THEN 2 ELSE 1 END; END $$;
CREATE FUNCTION change_at_last(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE command text := current_setting('gk_test.change'); BEGIN
	IF i = 120000 AND command <> '' THEN EXECUTE command; PERFORM set_config('gk_test.change', '', true); END IF;
	RETURN i;
END $$;
CREATE FUNCTION read_changed(make text, change text, source text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	EXECUTE make;
	PERFORM set_config('gk_test.change', change, true), set_config('enable_seqscan', 'off', true);
	PERFORM gkmeans_fit(source, '{x}', 2);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT is(read_changed(make, change, format('SELECT x FROM %s AND change_at_last(i) > 0', rest)), '55000 source changed while it was being read', change)
FROM (VALUES ('CREATE DOMAIN dropped AS float8 CHECK (VALUE > -1)', 'DROP DOMAIN dropped', '(SELECT i, x::dropped AS x FROM part_1 OFFSET 0) AS q WHERE true'),
	('CREATE TYPE dropped AS ENUM (''a'')', 'DROP TYPE dropped', 'part_1 WHERE CASE WHEN x > 0 THEN ''a'' END::text::dropped::text <> ''b'''),
	('CREATE SEQUENCE dropped', 'DROP SEQUENCE dropped', 'part_1 WHERE nextval(''dropped'') > 0'),
	('CREATE INDEX dropped ON part_2 (i)', 'DROP INDEX dropped', 'parts WHERE i > 0 AND part = part()'),
	('CREATE OPERATOR <<< (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int); CREATE OPERATOR CLASS dropped FOR TYPE int USING btree AS OPERATOR 1 <<<, OPERATOR 3 =, FUNCTION 1 btint4cmp(int, int)',
		'DROP OPERATOR FAMILY dropped USING btree', '(SELECT i, x FROM part_1 ORDER BY i USING <<< LIMIT 200000) AS q WHERE true')) of_source (make, change, rest);
SELECT is(read_changed('ALTER TABLE parts DETACH PARTITION part_2; CREATE TABLE family PARTITION OF parts FOR VALUES IN (2) PARTITION BY LIST (i); CREATE TABLE dropped PARTITION OF family FOR VALUES IN (1)',
	'DROP TABLE dropped', 'SELECT x FROM parts WHERE part = part() AND change_at_last(i) > 0'), '55000 source changed while it was being read', 'a partition that the second reading begins with');
CREATE TABLE written (i int);
SELECT is(read_changed('SELECT', change, 'SELECT x FROM parts WHERE part = part() AND change_at_last(i) > 0'), 'no error', change)
FROM unnest('{INSERT INTO written VALUES (1),CREATE TEMP TABLE passing (),ANALYZE parts,GRANT SELECT ON part_2 TO public,ALTER TABLE part_2 SET (fillfactor = 50),CREATE INDEX ON part_2 (x)}'::text[]) AS change;
CREATE FUNCTION next_number(int8, text) RETURNS int8 LANGUAGE sql AS 'SELECT $1 + 1';
CREATE FUNCTION number_of(text) RETURNS int8 LANGUAGE sql AS 'SELECT length($1)::int8';
CREATE AGGREGATE joined(anycompatible) (SFUNC = array_append, STYPE = anycompatiblearray, INITCOND = '{}');
SELECT is(read_changed('CREATE OR REPLACE AGGREGATE replaced(text) (SFUNC = text_larger, STYPE = text, FINALFUNC = number_of, INITCOND = ''1'')',
	format('CREATE OR REPLACE AGGREGATE replaced(text) (%s, INITCOND = ''1'')', definition),
	'SELECT x FROM part_1 WHERE change_at_last(i) > 0 AND (SELECT joined(g) FROM generate_series(1, 2) AS g) <> ''{}'' AND (SELECT replaced(''b'') FROM generate_series(1, 2)) <> 0'), result, definition)
FROM (VALUES ('SFUNC = next_number, STYPE = int8', '55000 source changed while it was being read'),
	('SFUNC = text_smaller, STYPE = text, FINALFUNC = number_of', 'no error')) of_aggregate (definition, result);

-- The same by one of the calls of a function that the planner and the executor call to leave out partitions.
CREATE FUNCTION next_part() RETURNS int LANGUAGE plpgsql AS $$ DECLARE calls int := current_setting('gk_test.calls'); BEGIN
	PERFORM set_config('gk_test.calls', (calls - 1)::text, true);
	IF calls = 1 THEN EXECUTE current_setting('gk_test.change'); END IF;
	RETURN 2;
END $$;
CREATE FUNCTION pruned_part() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN next_part(); END $$;
SELECT is(array_agg(DISTINCT result ORDER BY result), '{"55000 source changed while it was being read","no error"}', 'an aggregate that is replaced before it begins')
FROM (SELECT read_changed(format('CREATE OR REPLACE AGGREGATE replaced(text) (SFUNC = text_larger, STYPE = text, FINALFUNC = number_of, INITCOND = ''1''); SET LOCAL gk_test.calls = %s', calls),
	'CREATE OR REPLACE AGGREGATE replaced(text) (SFUNC = next_number, STYPE = int8, INITCOND = ''1'')',
	'SELECT (SELECT replaced(i::text) FROM parts WHERE part = pruned_part()) + g AS x FROM generate_series(1, 9) AS g') AS result
	FROM generate_series(1, 9) AS calls) AS each;
CREATE TABLE ranges (i int, y float8) PARTITION BY RANGE (i);
CREATE TABLE range_1 PARTITION OF ranges FOR VALUES FROM (0) TO (1000);
CREATE TABLE range_2 PARTITION OF ranges FOR VALUES FROM (1000) TO (10000);
SELECT is(array_agg(DISTINCT left(result, 5) ORDER BY left(result, 5)), '{55006,"no er"}', 'a partition that is detached while the plan begins')
FROM (SELECT read_changed(format('DROP TABLE IF EXISTS family, few CASCADE; CREATE TABLE family (part int, i int, x float8) PARTITION BY LIST (part); CREATE TABLE family_1 PARTITION OF family FOR VALUES IN (1);
		CREATE TABLE family_2 PARTITION OF family FOR VALUES IN (2) PARTITION BY RANGE (i); CREATE TABLE few PARTITION OF family_2 FOR VALUES FROM (0) TO (50); CREATE TABLE others PARTITION OF family_2 FOR VALUES FROM (50) TO (500);
		INSERT INTO family SELECT 2, i, i FROM generate_series(1, 100) AS i; SET LOCAL gk_test.calls = %s', calls),
	'ALTER TABLE family_2 DETACH PARTITION few', 'SELECT coalesce((SELECT max(y) FROM ranges WHERE i < pruned_part() + 3), 0) + x AS x FROM family WHERE part = pruned_part()') AS result FROM generate_series(1, 20) AS calls) AS of_calls;

-- A column that a function which the planner calls drops from a table with children
CREATE FUNCTION planned_part() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN next_part(); END $$;
SELECT is(array_agg(DISTINCT left(result, 5) ORDER BY left(result, 5)), '{55000,"no er"}', 'a column that is dropped while it is planned')
FROM (SELECT read_changed(format('DROP TABLE IF EXISTS grown CASCADE; CREATE TABLE grown AS SELECT i, i * 1.0 AS x, i * 2.0 AS y FROM generate_series(1, 30) AS i; CREATE TABLE child () INHERITS (grown); SET LOCAL gk_test.calls = %s', calls),
	'ALTER TABLE grown DROP COLUMN y', 'SELECT x + y AS x FROM grown WHERE planned_part() = 2') AS result FROM generate_series(1, 3) AS calls) AS of_calls;

-- A source with other rows each time that it is read: the shift is that of those that are taken
CREATE SEQUENCE readings;
CREATE FUNCTION wandering(times int) RETURNS TABLE (id int, x float8) LANGUAGE plpgsql AS $$
DECLARE far float8 := 1e9 * least(nextval('readings'), times);
BEGIN
	RETURN QUERY SELECT i, far + i % 3 * 10 + i * 0.00001 + CASE WHEN i > 158000 THEN 5000 ELSE 0 END FROM generate_series(1, 160000) AS i;
END $$;
SELECT is((SELECT round(sum(size * centroid[1]) / 1e6) FROM gkmeans_fit('SELECT * FROM wandering(3)', '{x}', 3)), (SELECT round(sum(x) / 1e6) FROM wandering(3)), 'rows that move until they are read a third time');
CREATE SEQUENCE leaps;
CREATE FUNCTION leaping() RETURNS TABLE (x float8) LANGUAGE plpgsql AS $$
DECLARE here bool := nextval('leaps') = 1;
BEGIN
	RETURN QUERY SELECT CASE WHEN here THEN 1e38 + i * 1e30 + (i > 69000)::int * 1e36 ELSE (i % 3 - 1) * 3e38 END::float8 FROM generate_series(1, 70000) AS i;
END $$;
CREATE FUNCTION falling() RETURNS TABLE (x float8) LANGUAGE plpgsql AS $$
DECLARE here bool := nextval('leaps') = 1;
BEGIN
	RETURN QUERY SELECT CASE WHEN here THEN 2::float8 ^ 60 + CASE WHEN i > 69000 THEN -1 ELSE 1 END * 2::float8 ^ 44 ELSE 0.1 END FROM generate_series(1, 70000) AS i;
END $$;
CREATE FUNCTION drawn(value float8, beside float8) RETURNS TABLE (x float8) LANGUAGE plpgsql AS $$
DECLARE here bool := nextval('leaps') = 1;
BEGIN
	RETURN QUERY SELECT value + CASE WHEN here AND i > 69000 THEN beside ELSE 0 END FROM generate_series(1, 70000) AS i;
END $$;
CREATE FUNCTION rarely() RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT 1700000000.123 + CASE WHEN random() < 0.0001 THEN 31536000 ELSE 0 END';
CREATE FUNCTION tail() RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT 1.7e9 + 60 * (1 - random()) ^ (-0.7)';
CREATE TABLE heavy_tail AS SELECT 1.7e9 + 100 / (0.0001 + random()) AS x FROM generate_series(1, 30000);
SELECT lives_ok($$SELECT gkmeans_fit('SELECT x FROM heavy_tail TABLESAMPLE BERNOULLI (30)', '{x}', 3) FROM generate_series(1, 50)$$, 'samples whose ranges differ');
CREATE TABLE tails AS SELECT tail() AS a, tail() AS b, tail() AS c, tail() AS d, tail() AS e, tail() AS f FROM generate_series(1, 60000);
SELECT lives_ok($$SELECT gkmeans_fit('SELECT * FROM tails TABLESAMPLE BERNOULLI (10)', '{a,b,c,d,e,f}', 3, max_iter => 2) FROM generate_series(1, 10)$$, 'samples of several features with outliers');
CREATE TABLE mostly AS SELECT rarely() AS a, rarely() AS b, rarely() AS c, rarely() AS d, i % 7 AS x FROM generate_series(1, 60000) AS i;
SELECT lives_ok($$SELECT gkmeans_fit('SELECT * FROM mostly TABLESAMPLE BERNOULLI (10)', '{a,b,c,d,x}', 3, max_iter => 2) FROM generate_series(1, 10)$$, 'samples of features that are mostly one value');
SELECT setval('leaps', 1, false);
SELECT is((SELECT centroid[1] FROM gkmeans_fit('SELECT * FROM falling()', '{x}', 1)), 0.1::float8, 'one value that lies far from before');
SELECT setval('leaps', 1, false);
SELECT is((SELECT centroid[1] FROM gkmeans_fit('SELECT * FROM drawn(1700000000.123, 31536000)', '{x}', 1)), 1700000000.123::float8, 'one value, read with the shift of others');
SELECT is((SELECT last_value FROM leaps), 2::bigint, 'which is not read again');
SELECT setval('leaps', 1, false);
SELECT is((SELECT centroid[1] FROM gkmeans_fit('SELECT * FROM drawn(2147483000 + 2 ^ (-22), 1000000)', '{x}', 1)), 2147483000 + 2::float8 ^ (-22), 'one that no shift gives back');
SELECT is((SELECT last_value FROM leaps), 3::bigint, 'which is');
SELECT setval('leaps', 1, false);
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT * FROM leaping()', '{x}', 3)), 70000, 'rows on both sides of where they lay before');
SELECT fails_with($$SELECT gkmeans_fit('SELECT * FROM wandering(1000)', '{x}', 3)$$, '40001', 'rows that move each time', 'source changed between two readings');

SELECT * FROM finish();
ROLLBACK;
