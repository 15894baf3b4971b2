-- A numeric becomes the double that PostgreSQL's cast makes of it, bit for bit.
\ir helpers.psql

LOAD 'gkmeans_faults';
CREATE FUNCTION numeric_value(numeric) RETURNS float8 AS '$libdir/gkmeans_faults', 'gkmeans_numeric_value' LANGUAGE C STRICT;

-- How many of a query's numerics, and of their negatives, the cast converts otherwise; and how many there are.
CREATE FUNCTION differ(query text, OUT wrong bigint, OUT compared bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FILTER (WHERE float8send(numeric_value(n)) <> float8send(n::float8)
		OR float8send(numeric_value(-n)) <> float8send((-n)::float8)), count(*) FROM (%s) q(n)', query) INTO wrong, compared;
END $$;

-- Up to 40 digits, the point anywhere near them.
SELECT is(d::text, '(0,60000)', 'random digits') FROM differ($$
	SELECT (left(translate(md5(i::text) || md5((-i)::text), 'abcdef', '123456'), 1 + i % 40) || 'e' || (i / 40 % 75 - 45))::numeric
	FROM generate_series(1, 60000) i$$) d;
SELECT is(d::text, '(0,50000)', 'amounts of money') FROM differ('SELECT (noise(i, 1) * 1e6)::numeric(8,2) FROM generate_series(1, 50000) i') d;
SELECT is(d::text, '(0,30000)', 'quotients, as avg() gives them') FROM differ('SELECT i::numeric / (1 + i % 997) FROM generate_series(1, 30000) i') d;
SELECT is(d::text, '(0,30000)', 'integers around 2^53') FROM differ('SELECT 9007199254740992::numeric - 15000 + i FROM generate_series(1, 30000) i') d;

-- Halfway between two doubles, and a little beside: one more digit decides.
SELECT is(d::text, '(0,90000)', 'halfway between two doubles, and beside') FROM differ($$
	SELECT (9007199254740993 + 2 * (i % 5000) + 131072::numeric * i) * scale + nudge
	FROM generate_series(1, 5000) i, unnest('{1,0.5,0.25,0.00390625,1024,10000}'::numeric[]) scale, unnest('{0,1e-15,-1e-15}'::numeric[]) nudge$$) d;
SELECT is(d::text, '(0,3600)', 'powers of ten and of two, and their neighbours') FROM differ($$
	SELECT power * ('1e' || e)::numeric + nudge * ('1e' || e - 12)::numeric
	FROM unnest('{1,2,4,8,9999,10000,99999999,18446744073709551615,18446744073709551616,340282366920938463463374607431768211455}'::numeric[]) power,
		generate_series(-40, 79) e, unnest('{-1,0,1}'::numeric[]) nudge$$) d;

-- Far from 1, with few digits and with many, and with zeros that are not stored.
SELECT is(d::text, '(0,29935)', 'magnitudes of any size') FROM differ($$
	SELECT n FROM (SELECT (left(translate(repeat(md5(i::text), 4), 'abcdef', '123456'), 1 + i % 127) || 'e' || (i / 40 % 320 - 140))::numeric FROM generate_series(1, 20000) i
		UNION ALL SELECT (left(translate(md5(i::text), 'abcdef', '123456'), 1 + i % 17) || 'e' || -(i % 300))::numeric + ('0.' || repeat('0', i))::numeric FROM generate_series(1, 10000) i) q(n)
	WHERE n < 1e308 AND n > 1e-300$$) d;

-- As they are stored: with a short header, a long one, in an array, compressed and out of line.
CREATE TABLE stored (n numeric, w numeric);
ALTER TABLE stored ALTER w SET STORAGE EXTERNAL;
INSERT INTO stored SELECT n, n FROM (SELECT (i || '.' || repeat('1', i))::numeric FROM generate_series(1, 300) i
	UNION ALL SELECT ('1.' || repeat('0', 9000 + i) || '5')::numeric FROM generate_series(1, 9) i
	UNION ALL SELECT (repeat('12345678', 2040) || 'e-16310')::numeric) q(n);
SELECT cmp_ok(max(pg_column_size(w)), '>', 8000, 'some are larger than a row may be') FROM stored;
SELECT is(d::text, '(0,310)', 'columns of a table') FROM differ('SELECT n FROM stored') d;
SELECT is(d::text, '(0,310)', 'out of line') FROM differ('SELECT w FROM stored') d;
SELECT is(d::text, '(0,310)', 'in memory') FROM differ('SELECT n + 0 FROM stored OFFSET 0') d;

-- Nothing and everything.
SELECT is(float8send(numeric_value(n)), float8send(f), n || ' is ' || f)
FROM (VALUES (0::numeric, 0::float8), (0.000, 0), ('NaN', 'NaN'), ('Infinity', 'Infinity'), ('-Infinity', '-Infinity'), (1e400, 'Infinity'), (-1e400, '-Infinity'), (1e-400, 0), (3e-320, 3e-320),
	(1e131071, 'Infinity'), (-1e131071, '-Infinity'), (1e-16383, 0), (-1e-16383, '-0'), (2.4e-324, 0), (2.5e-324, 5e-324), (1.797e308, 1.797e308), (1.798e308, 'Infinity')) v(n, f);

-- The same through a fit: the centroid of one row is its double.
CREATE TABLE numbers AS SELECT i AS x, (left(translate(md5(i::text), 'abcdef', '123456'), 1 + i % 20) || 'e' || (i / 20 % 10 - 5))::numeric AS w FROM generate_series(1, 200) i;
SELECT results_eq(format($$SELECT float8send(centroid[1]), float8send(centroid[2]) FROM gkmeans_fit('SELECT w, ARRAY[w] a, x FROM numbers WHERE x = %s', '{w,x}', 1)$$, x),
	format('SELECT float8send(w::float8), float8send(x::float8) FROM numbers WHERE x = %s', x), 'as a feature: row ' || x)
FROM generate_series(20, 200, 20) x;
SELECT results_eq(format($$SELECT float8send(centroid[1]) FROM gkmeans_fit('SELECT ARRAY[w] a FROM numbers WHERE x = %s', '{a}', 1)$$, x),
	format('SELECT float8send(w::float8) FROM numbers WHERE x = %s', x), 'in an array: row ' || x)
FROM generate_series(20, 200, 20) x;

SELECT * FROM finish();
ROLLBACK;
