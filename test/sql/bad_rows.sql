-- Rows that cannot be clustered: NULL, NaN, infinite, arrays of the wrong shape.
\ir helpers.psql

-- Columns: skipped by default, an error if asked.
CREATE TABLE holes (id int, x float8, y float8);
INSERT INTO holes VALUES (1, 0, 0), (2, 1, 0), (3, 10, 10), (4, 11, 10), (5, NULL, 1), (6, 1, NULL), (7, NULL, NULL),
	(8, 'NaN', 0), (9, 0, 'Infinity'), (10, '-Infinity', 'NaN');
SELECT results_eq($$SELECT centroid, size FROM gkmeans_fit('holes', '{x,y}', 2)$$,
	$$VALUES ('{0.5,0}'::float8[], 2::bigint), ('{10.5,10}', 2)$$, 'NULL, NaN and infinite rows are left out');
SELECT is((SELECT (rows_read, rows_skipped)::text FROM gkmeans_last_fit()), '(10,6)', 'and counted');
SELECT results_eq($$SELECT id, cluster_id, distance FROM gkmeans_fit_predict(NULL::int, 'holes', '{x,y}', 2, id_column => 'id') ORDER BY id$$,
	$$VALUES (1, 0, 0.5::float8), (2, 0, 0.5), (3, 1, 0.5), (4, 1, 0.5), (5, NULL, NULL), (6, NULL, NULL), (7, NULL, NULL),
		(8, NULL, NULL), (9, NULL, NULL), (10, NULL, NULL)$$, 'their cluster is NULL');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('SELECT * FROM holes WHERE id <= 4 OR id = %s', '{x,y}', 2, nulls => 'error')$$, id), code,
	format('nulls => error: row %s', id))
FROM (VALUES (5, '22004'), (6, '22004'), (8, '22023'), (9, '22023')) bad(id, code);
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT * FROM holes WHERE id <= 4', '{x,y}', 2, nulls => 'error')$$, 'nulls => error without such rows');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT * FROM holes WHERE id > 4', '{x,y}', 2)$$, '22023', 'no usable row');
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (0, 0), (0, 0)', '{column1,column2}', 1, metric => 'cosine')$$, '22023', 'only rows of zeros', 'no usable row', 'all features are zero', 'no direction');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT * FROM holes WHERE false', '{x,y}', 2)$$, '22023', 'no row');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'SELECT * FROM holes WHERE false', '{x,y}', 2, id_column => 'id')$$, '22023', 'no row, fit_predict');

-- real, numeric and their special values; double precision that no float32 holds
SELECT is(sum(size)::int, 1, 'real: NaN and infinity') FROM gkmeans_fit('SELECT unnest(''{1,NaN,Infinity,-Infinity}''::real[]) AS x', '{x}', 1);
SELECT is(sum(size)::int, 1, 'numeric: NaN and infinity') FROM gkmeans_fit('SELECT unnest(''{1,NaN,Infinity,-Infinity}''::numeric[]) AS x', '{x}', 1);
SELECT is(sum(size)::int, 1, 'double precision past the range of float32 is unusable')
FROM gkmeans_fit('SELECT unnest(''{1,1e300,-1e300}''::float8[]) AS x', '{x}', 1);
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT unnest(''{1,1e300}''::float8[]) AS x', '{x}', 1, nulls => 'error')$$, '22023',
	'double precision past the range of float32: an error if asked');
SELECT is(sum(size)::int, 1, 'numeric past the range of double precision is unusable')
FROM gkmeans_fit('SELECT unnest(ARRAY[1, 1e1000, -1e1000]) AS x', '{x}', 1);
CREATE TABLE many_numerics AS SELECT i, i::numeric AS c1 FROM generate_series(1, 9) i;
DO $$ BEGIN FOR j IN 2 .. 91 LOOP EXECUTE format('ALTER TABLE many_numerics ADD c%s numeric DEFAULT 1', j); END LOOP; END $$;
UPDATE many_numerics SET c91 = CASE i WHEN 3 THEN -1e1000 WHEN 4 THEN 'NaN' END WHERE i IN (3, 4, 5);
SELECT is(sum(size)::int, 6, 'so it is in one of many columns') FROM gkmeans_fit('SELECT * FROM many_numerics', NULL, 1);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('SELECT * FROM many_numerics WHERE i <= 2 OR i = %s', NULL, 1, nulls => 'error')$$, i), code,
	format('in one of many columns, nulls => error: row %s', i)) FROM (VALUES (3, '22023'), (4, '22023'), (5, '22004')) bad(i, code);
-- Down to the least double: only what is nearer to 0 is 0.
SELECT is(float8send((SELECT centroid[91] FROM gkmeans_fit(format('SELECT c1, %s, %s AS c91 FROM many_numerics LIMIT 1', (SELECT string_agg('c' || j, ', ') FROM generate_series(2, 90) j), n), NULL, 1))), float8send(f), n || ' in one of many columns is ' || f)
FROM (VALUES (9.9e-301, 9.9e-301::float8), (-1e-310, -1e-310), (5e-324, 5e-324), (2.4703282292062328e-324, 5e-324), (2.47e-324, 0), (1e-400, 0)) v(n, f);
SELECT results_eq($$SELECT centroid FROM gkmeans_fit('SELECT unnest(''{-0,0,-0}''::float8[]) AS x', '{x}', 1)$$, $$VALUES ('{0}'::float8[])$$, '-0 is 0');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT unnest(''{1e-45,1e-40,-1e-42,0}''::real[]) AS x', '{x}', 2)$$, 'denormal numbers');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT unnest(''{3e38,-3e38,1}''::real[]) AS x', '{x}', 2)$$, 'the greatest real numbers');
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT unnest(''{5e-324,1e-310,0}''::float8[]) AS x', '{x}', 2)$$, 'denormal double precision');
SELECT is(array_agg(size ORDER BY cluster_id), '{2,1}', 'a value above the greatest real that rounds to it: ' || type)
FROM unnest('{float8,numeric}'::text[]) type, gkmeans_fit(format('SELECT unnest(''{1,1,3.4028235677973362e38,3.4028235677973366e38}''::%s[]) AS x', type), '{x}', 2) GROUP BY type;

-- Arrays
CREATE TABLE arrays (id int, v float8[]);
INSERT INTO arrays VALUES (1, '{1,2,3}'), (2, '{1,2,4}'), (3, '{10,20,30}'), (4, NULL), (5, '{1,NULL,3}'), (6, '{1,NaN,3}'), (7, '{1,2,-Infinity}');
SELECT results_eq($$SELECT id, cluster_id FROM gkmeans_fit_predict(NULL::int, 'arrays', '{v}', 2, id_column => 'id') ORDER BY id$$,
	'VALUES (1, 0), (2, 0), (3, 1), (4, NULL), (5, NULL), (6, NULL), (7, NULL)', 'NULL arrays, NULL and NaN elements are left out');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('SELECT * FROM arrays WHERE id <= 3 OR id = %s', '{v}', 2, nulls => 'error')$$, id), code,
	format('nulls => error: array %s', id))
FROM (VALUES (4, '22004'), (5, '22004'), (6, '22023'), (7, '22023')) bad(id, code);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit(%L, '{v}', 2, nulls => %L)$$,
		format('SELECT ''{1,2,3}''::%s[] AS v UNION ALL SELECT %L::%s[]', type, v, type), nulls), code, format('%s[] %s after one of 3 elements, nulls => %s', type, v, nulls), NULL, detail)
FROM unnest('{real,float8,int,numeric,smallint,bigint}'::text[]) type, unnest('{skip,error}'::text[]) nulls,
	(VALUES ('{1,2}', '22000', 'has 2 elements, expected 3'), ('{1,2,3,4}', '22000', 'has 4 elements, expected 3'),
		('{}', '22000', 'has 0 elements, expected 3'), ('{{1,2,3}}', '22000', 'dimension'), ('{{1},{2},{3}}', '22000', 'dimension')) bad(v, code, detail);
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 7 AS id, ''{1,2,3}''::real[] AS v UNION ALL SELECT 8, ''{1,2}''', '{v}', 2, id_column => 'id')$$,
	'22000', 'the DETAIL tells the id of the row', NULL, '8.*has 2 elements, expected 3');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT ''{}''::real[] AS v FROM generate_series(1, 3)', '{v}', 2)$$, '22000', 'empty arrays alone');
SELECT is(cardinality(centroid), 3, 'lower bounds do not matter') FROM gkmeans_fit($$SELECT '[5:7]={1,2,3}'::int[] AS v UNION ALL SELECT '{1,2,3}'$$, '{v}', 1);

-- Weights
SELECT results_eq($$SELECT size, weight, centroid FROM gkmeans_fit('VALUES (1, 1), (3, 1), (100, 0)', '{column1}', 1, weight_column => 'column2')$$,
	$$VALUES (3::bigint, 2::float8, '{2}'::float8[])$$, 'a row of weight 0 gets a label but moves nothing');
SELECT is(sum(size)::int, 2, 'a row with a NULL weight is left out')
FROM gkmeans_fit('VALUES (1, 1::float8), (3, 1), (100, NULL)', '{column1}', 1, weight_column => 'column2');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('VALUES (1, 1::float8), (3, ''%s'')', '{column1}', 1, weight_column => 'column2')$$, weight), '22023', 'a weight of ' || weight)
FROM unnest('{-1,-1e-300,NaN,Infinity,-Infinity}'::text[]) weight;
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (1, 0), (3, 0)', '{column1}', 1, weight_column => 'column2')$$, '22023', 'all weights 0');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('SELECT %s::real * i AS x, %s::float8 AS w FROM generate_series(1, 9) i', '{x}', 2, weight_column => 'w')$$, unit, weight), '22003',
	format('weights of %s and features of %s', weight, unit), 'out of range', NULL, hint)
FROM (VALUES ('1', '5e-324', 'Multiply'), ('1e-30', '1e-290', 'Multiply'), ('1e30', '1e300', 'Divide'), ('1e-30', '1e308', 'Divide')) v(unit, weight, hint);
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit(format('SELECT %s::real * i AS x, %s::float8 AS w FROM generate_series(1, 9) i', unit, weight), '{x}', 2, weight_column => 'w')), '{5,4}',
	format('weights of %s and features of %s', weight, unit))
FROM (VALUES ('1', '1e-270'), ('1e-30', '1e-210'), ('1e-30', '1e300'), ('1e30', '1e200')) v(unit, weight);
SELECT fails_with($$SELECT * FROM gkmeans_fit('VALUES (1, NULL::float8), (3, 1)', '{column1}', 1, weight_column => 'column2', nulls => 'error')$$,
	'22004', 'a NULL weight, nulls => error');
SELECT results_eq(format($$SELECT round(centroid[1]::numeric, 4) FROM gkmeans_fit('SELECT i AS x, (i %% 5 = 0)::int AS w FROM generate_series(1, 100) i',
		'{x}', 20, weight_column => 'w', init => %L) ORDER BY 1$$, init),
	'SELECT 5.0000 * i FROM generate_series(1, 20) i', format('rows of weight 0 are never seeds (%s)', init))
FROM unnest('{k-means||,k-means++,random}'::text[]) init;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
