-- Columns of any type and number bring the same rows to the engine as an array of reals, which needs no rounding.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, noise(i, 1) AS a, (1000 * noise(i, 2))::int AS b, (100 * noise(i, 3))::numeric(8,2) AS c, (10 * noise(i, 4))::smallint AS d,
	noise(i, 5)::real AS e, noise(i, 6) > 0.5 AS f, (1e6 * noise(i, 7))::bigint AS g, noise(i, 8)::numeric AS h, (100 * noise(i, 9))::numeric(5,0) AS i,
	CASE WHEN i % 5 = 0 THEN noise(i, 10) END AS j FROM generate_series(1, 20000) i;
CREATE TABLE names AS SELECT * FROM unnest('{a,b,c,d,e,f,g,h,i}'::text[]) WITH ORDINALITY n(name, number);

-- The label and the distance of every row.
CREATE FUNCTION fitted(source text, features text[]) RETURNS text LANGUAGE sql AS $$
	SELECT fingerprint(format('SELECT * FROM gkmeans_fit_predict(NULL::int, %L, %L, 7, id_column => ''id'', max_iter => 3, quality => ''fast'') ORDER BY id', source, features))
$$;
-- The first `count` columns, beginning with the column number `start`, as they are and as an array of reals.
CREATE FUNCTION compare(start int, count int, rows int, more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT is(fitted(format('SELECT * FROM data WHERE id <= %s%s', rows, more), array_agg(name ORDER BY number)),
		fitted(format('SELECT id, ARRAY[%s] AS v FROM data WHERE id <= %s%s', string_agg(CASE name WHEN 'f' THEN 'f::int::real' ELSE name || '::float8::real' END, ', ' ORDER BY number), rows, more), '{v}'),
		format('%s from %s on: %s rows%s', count, start, rows, more))
	FROM (SELECT name, number + (number < start)::int * 9 AS number FROM names) n WHERE number < start + count
$$;
SELECT compare(start, count, 20000) FROM generate_series(1, 9) start, generate_series(1, 9) count WHERE (start + count) % 3 = 0;
SELECT compare(1 + rows % 9, 1 + rows % 7, rows) FROM generate_series(8, 24) rows;
SELECT compare(8, 1, rows) FROM unnest('{2047,2048,2049,2050,4095,4096,4097,16383,16384,16385}'::int[]) rows;
SELECT compare(1, 3, rows) FROM unnest('{681,682,683,684,685,1365,1366}'::int[]) rows;

-- More rows than are held until the range is known; rows that are left out between them.
SELECT is(fitted('SELECT data.id + 20000 * r AS id, a + r AS x FROM data, generate_series(0, 3) r', '{x}'),
	fitted('SELECT data.id + 20000 * r AS id, ARRAY[a + r]::real[] AS x FROM data, generate_series(0, 3) r', '{x}'), '80,000 rows of one column');
SELECT is(fitted('data', '{a,j,c}'), fitted('SELECT id, ARRAY[a, j, c]::real[] AS v FROM data', '{v}'), 'four rows of five are left out');
SELECT is(fitted('SELECT id, a, CASE WHEN id % 7 = 0 THEN ''NaN'' WHEN id % 7 = 1 THEN 1e39 ELSE c END AS c FROM data', '{a,c}'),
	fitted('SELECT id, CASE WHEN id % 7 > 1 THEN ARRAY[a, c]::real[] END AS v FROM data', '{v}'), 'some are not finite');

-- Columns of reals, which are read several at a time: what is unusable is so in any of them
CREATE TABLE reals AS SELECT i AS id, noise(i, 1)::real AS r1, noise(i, 2)::real AS r2, noise(i, 3)::real AS r3, noise(i, 4)::real AS r4, noise(i, 5)::real AS r5, noise(i, 6)::real AS r6,
	noise(i, 7)::real AS r7, noise(i, 8)::real AS r8, noise(i, 9)::real AS r9 FROM generate_series(1, 300) i;
DO $$ BEGIN
	FOR place IN 1 .. 9 LOOP
		FOR kind IN 1 .. 4 LOOP
			EXECUTE format('UPDATE reals SET r%s = (''{NaN,Infinity,-Infinity,NULL}''::real[])[%s] WHERE id = %s', place, kind, 10 * place + kind);
		END LOOP;
	END LOOP;
END $$;
UPDATE reals SET r1 = '-0', r2 = 0, r4 = '-0', r5 = '-0' WHERE id = 100;
SELECT is(fitted('reals', names), fitted(format('SELECT id, %s FROM reals', array_to_string(doubles, ', ')), names), format('%s columns of reals, as double precision', count))
FROM generate_series(4, 9) count, LATERAL (SELECT array_agg('r' || i), array_agg(format('r%s::float8', i)) FROM generate_series(1, count) i) c(names, doubles);
SELECT is((SELECT array_agg(id ORDER BY id) FROM gkmeans_fit_predict(NULL::int, 'reals', names, 7, id_column => 'id') WHERE cluster_id IS NULL), (SELECT array_agg(10 * place + kind ORDER BY place, kind) FROM generate_series(1, count) place, generate_series(1, 4) kind),
	format('%s columns of reals: no other row is left out', count))
FROM generate_series(4, 9) count, LATERAL (SELECT array_agg('r' || i) FROM generate_series(1, count) i) c(names);

SELECT * FROM finish();
ROLLBACK;
