-- What a source may be, what it may not, and the types of its columns.
\ir helpers.psql

CREATE TABLE data AS
	SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x, (i % 3) * 10 + noise(i, 2) AS y, i % 4 AS part FROM generate_series(1, 600) i;
CREATE FUNCTION sizes(source text, features text[] DEFAULT '{x,y}') RETURNS text LANGUAGE sql AS $$
	SELECT array_agg(size ORDER BY cluster_id)::text FROM gkmeans_fit(source, features, 3, n_init => 4)
$$;
CREATE VIEW plain_view AS SELECT x, y FROM data;
CREATE MATERIALIZED VIEW stored_view AS SELECT x, y FROM data;
CREATE TABLE parts (id int, x float8, y float8, part int) PARTITION BY LIST (part);
CREATE TABLE part_0 PARTITION OF parts FOR VALUES IN (0, 1);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2) PARTITION BY RANGE (id);
CREATE TABLE part_2_low PARTITION OF part_2 FOR VALUES FROM (0) TO (300);
CREATE TABLE part_2_high PARTITION OF part_2 DEFAULT;
CREATE TABLE part_3 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT * FROM data;
CREATE TABLE parent (id int, x float8, y float8);
CREATE TABLE child (more text) INHERITS (parent);
INSERT INTO parent SELECT id, x, y FROM data WHERE id <= 300;
INSERT INTO child SELECT id, x, y, 'more' FROM data WHERE id > 300;
CREATE TEMP TABLE temporary AS SELECT * FROM data;
CREATE FUNCTION all_data() RETURNS SETOF data LANGUAGE sql STABLE AS 'SELECT * FROM data';
CREATE SCHEMA "Other Schema";
CREATE TABLE "Other Schema"."The Table" AS SELECT * FROM data;
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM data;

SELECT is(sizes(source), '{200,200,200}', translate(source, E'\n', ' ')) FROM unnest(ARRAY[
	'data', 'gk_test.data', '  data  ', 'DATA', '"data"', 'plain_view', 'stored_view', 'parts', 'parent', 'temporary', 'pg_temp.temporary', 'unlogged',
	'"Other Schema"."The Table"',
	'SELECT * FROM data', 'select x, y from data', 'SELECT * FROM data;', ' ; SELECT * FROM data ; ', E'-- a comment\nSELECT * FROM data -- another',
	'/* a comment */ SELECT x, y FROM data', '(SELECT x, y FROM data)', 'TABLE data', 'TABLE parts',
	'SELECT x, y FROM data ORDER BY x DESC LIMIT 600', 'SELECT x, y FROM data OFFSET 0',
	'SELECT a.x, b.y FROM data a JOIN parts b USING (id)', 'SELECT l.x, l.y FROM data d, LATERAL (SELECT d.x, d.y) l',
	'WITH w AS (SELECT * FROM data) SELECT x, y FROM w', 'WITH w AS MATERIALIZED (SELECT * FROM data) SELECT x, y FROM w',
	'WITH RECURSIVE w(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM w WHERE i < 600) SELECT x, y FROM w JOIN data ON id = i',
	'SELECT x, y FROM all_data()', 'SELECT (all_data()).*', 'SELECT x, y FROM data WHERE part < 2 UNION ALL SELECT x, y FROM data WHERE part >= 2',
	'SELECT avg(x) AS x, min(y) AS y FROM data GROUP BY id', 'SELECT DISTINCT x, y FROM data', 'SELECT x, lag(y, 0) OVER (ORDER BY id) AS y FROM data',
	'SELECT x, y FROM ROWS FROM (unnest((SELECT array_agg(x ORDER BY id) FROM data), (SELECT array_agg(y ORDER BY id) FROM data))) u(x, y)',
	'SELECT x, y FROM data TABLESAMPLE SYSTEM (100)', 'SELECT x, y FROM data WHERE part::oid <> 42',
	$$SELECT x, y FROM data WHERE pg_typeof(x) = 'float8'::regtype$$]) source;
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit('VALUES (1, 1), (1, 1), (9, 9)', '{column1,column2}', 2)), '{2,1}', 'VALUES');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT 1 AS x', '{x}', 1)), 1, 'a SELECT without FROM');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT generate_series(1, 10) AS x', '{x}', 3)), 3, 'a set-returning function in the target list');

-- Foreign tables
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER gk_files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE lines (x float8, y float8) SERVER gk_files OPTIONS (program 'printf "1,1\n1,1\n9,9\n"', format 'csv');
SELECT is((SELECT array_agg(size)::text FROM gkmeans_fit('lines', '{x,y}', 2)), '{2,1}', 'a foreign table of file_fdw');
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
DO $$ BEGIN
	EXECUTE format('CREATE SERVER gk_loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
		split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
	EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER gk_loopback OPTIONS (user %L, password_required ''false'')', current_user);
END $$;
CREATE FOREIGN TABLE far_operators (oprname name, oprleft oid, oprright oid) SERVER gk_loopback OPTIONS (schema_name 'pg_catalog', table_name 'pg_operator');
SELECT is(
	fingerprint($$SELECT * FROM gkmeans_fit('SELECT oprleft::bigint AS l, oprright::bigint AS r FROM far_operators', '{l,r}', 5)$$),
	fingerprint($$SELECT * FROM gkmeans_fit('SELECT oprleft::bigint AS l, oprright::bigint AS r FROM pg_operator', '{l,r}', 5)$$),
	'a foreign table of postgres_fdw');
ALTER SERVER gk_loopback OPTIONS (ADD extensions 'gkmeans');
CREATE FOREIGN TABLE far_ids (oid oid, oprleft oid, oprright oid) SERVER gk_loopback OPTIONS (schema_name 'pg_catalog', table_name 'pg_operator');
CREATE TEMP TABLE many_features AS SELECT string_agg(format('oprleft::bigint %% %s AS f%s', i + 1, i), ', ')
	FROM generate_series(1, 100) AS i;
SELECT is(fingerprint(format(call, 'far_ids')), fingerprint(format(call, 'pg_operator')), 'a server that may run functions of gkmeans: ' || what)
FROM (VALUES
	('clusters', $$SELECT * FROM gkmeans_fit('SELECT oprleft::bigint AS l, oprright::bigint AS r FROM %s', '{l,r}', 5)$$),
	('columns of one name', $$SELECT * FROM gkmeans_fit('SELECT oprleft::bigint AS l, oid, oid FROM %s', '{l}', 5)$$),
	('labels', $$SELECT * FROM gkmeans_fit_predict(NULL::oid, 'SELECT oid, oprleft::bigint AS l, oid::bigint AS w FROM %s', '{l}', 5,
		id_column => 'oid', weight_column => 'w') ORDER BY id$$),
	('an array', $$SELECT * FROM gkmeans_fit('SELECT ARRAY[oprleft::bigint, oprright::bigint] AS a FROM %s', '{a}', 5)$$),
	('a choice of k', $$SELECT k, inertia FROM gkmeans_select_k('SELECT oprleft::bigint AS l FROM %s', '{l}', '{2,3}')$$),
	('many features', (SELECT format($$SELECT * FROM gkmeans_fit('SELECT %s FROM %%s', k => 5)$$, replace(string_agg, '%', '%%')) FROM many_features))) v(what, call);

-- A type that is dropped while a source is planned whose foreign tables may be read by their servers
CREATE DOMAIN passing AS bigint;
CREATE FUNCTION drop_passing() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN DROP DOMAIN passing; RETURN true; END $$;
CREATE FUNCTION drop_early() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN drop_passing(); END $$;
SET LOCAL gkmeans.nodes = 'auto';
SELECT fails_with($$SELECT gkmeans_fit('SELECT oprleft::bigint::passing AS l FROM far_ids WHERE drop_early()', '{l}', 2)$$, '55000', 'a type that is dropped while the source is planned', 'source changed while it was being read');
RESET gkmeans.nodes;

-- A foreign table that has no row, perhaps for a moment only, deletes no labels
CREATE FOREIGN TABLE reloaded (id int, x float8) SERVER gk_files OPTIONS (program 'printf "1,1\n2,9\n"', format 'csv');
CREATE TABLE none_here (id int, x float8);
CREATE FUNCTION reloaded_rows() RETURNS SETOF reloaded LANGUAGE sql STABLE AS 'SELECT * FROM reloaded';
CREATE VIEW reloaded_view AS SELECT id, x FROM reloaded UNION ALL SELECT id, x FROM none_here;
SELECT gkmeans_import_model('of_reloaded', '{{0},{10}}', '{x}');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('of_reloaded', 'reloaded', 'id', 'reloaded_labels') s), '(2,2,2,0,0)', 'labels of a foreign table');
ALTER FOREIGN TABLE reloaded OPTIONS (SET program 'true');
SELECT fails_with(format($$SELECT gkmeans_assign('of_reloaded', %L, 'id', 'reloaded_labels', %L)$$, source, mode), '55000', format('no row of %s, %s', source, mode), 'has no row', '^All (2 )?labels', 'repeat the call.*yourself' || CASE mode WHEN 'replace' THEN ', .* foreign table, .*''delete''' ELSE '\.$' END)
FROM unnest('{reloaded,reloaded_view,SELECT * FROM reloaded_rows()}'::text[]) source, unnest('{merge,delete,replace}'::text[]) mode;
SELECT is(count(*)::int, 2, 'no label was deleted') FROM reloaded_labels;
CREATE TABLE no_labels (id int PRIMARY KEY, cluster_id int, distance float8);
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('of_reloaded', 'reloaded', 'id', 'no_labels', 'replace') s), '(0,0,0,0,0)', 'a table without labels may be replaced');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('of_reloaded', 'none_here', 'id', 'reloaded_labels') s), '(0,0,0,0,2)', 'a table of this server that has no row deletes them');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('of_reloaded', 'reloaded', 'id', 'reloaded_labels') s), '(0,0,0,0,0)', 'without labels, none can be lost');

-- Foreign tables that take no labels are refused before the rows are read
CREATE FOREIGN TABLE file_labels (id int, cluster_id int, distance float8) SERVER gk_files OPTIONS (filename '/dev/null', format 'csv');
CREATE FOREIGN TABLE kept_labels (id int, cluster_id int, distance float8) SERVER gk_loopback OPTIONS (updatable 'false');
SELECT fails_with(format($$SELECT gkmeans_fit('SELECT id, 1 / (id - id) AS x FROM generate_series(1, 3) AS id', '{x}', 2, id_column => 'id', labels_table => %L, if_exists => %L)$$, name, mode),
	code, format('%s to %s', mode, name), pattern)
FROM unnest('{append,delete,replace}'::text[]) mode, (VALUES
	('file_labels', '0A000', 'cannot insert into foreign table'), ('kept_labels', '55000', 'does not allow inserts')) v(name, code, pattern);
CREATE TABLE parted_labels (id int, cluster_id int, distance float8) PARTITION BY LIST (id);
ALTER TABLE parted_labels ATTACH PARTITION file_labels DEFAULT;
SELECT fails_with($$SELECT gkmeans_fit('SELECT id, 1 / (id - id) AS x FROM generate_series(1, 3) AS id', '{x}', 2, id_column => 'id', labels_table => 'parted_labels', if_exists => 'delete')$$, '0A000', 'and their tables', 'cannot delete from foreign table');

-- Not a source
SELECT fails_with(format($$SELECT * FROM gkmeans_fit(%L, '{x,y}', 3)$$, source), code, 'not a source: ' || source)
FROM (VALUES
	('', '42601'), ('   ', '42601'), (';', '42601'), ('nowhere', '42P01'), ('no_schema.data', '42P01'), ('SELECT * FROM nowhere', '42P01'),
	('SELECT * FROM data; SELECT * FROM data', '42601'), ('data; DROP TABLE data', '42601'), ('data, parts', '42601'), ('data d', '42601'),
	('SELECT x, y FROM', '42601'), ('SELEC x FROM data', '42601'), ('SELECT x, y FROM data)', '42601'), ('SELECT x, y FROM data) s; --', '42601'),
	('SELECT * FROM data) s, (SELECT 1', '42601'), ('SELECT $1::int AS x', '42P02'), ('SELECT ''unfinished', '42601'),
	('INSERT INTO data VALUES (1)', '42601'), ('UPDATE data SET x = 1', '42601'), ('DELETE FROM data', '42601'),
	('DELETE FROM data RETURNING x, y', '42601'), ('TRUNCATE data', '42601'), ('DROP TABLE data', '42601'), ('CREATE TABLE t AS SELECT 1 AS x', '42601'),
	('COPY data TO STDOUT', '42601'), ('EXPLAIN SELECT * FROM data', '42601'), ('SELECT x, y INTO elsewhere FROM data', '42601'),
	('BEGIN', '42P01'), ('COMMIT', '42P01'), ('BEGIN WORK', '42601'), ('COMMIT; SELECT 1 AS x', '42601'), ('SET work_mem = 1', '42601'), ('CALL nothing()', '42601'), ('DO $x$ $x$', '42601'),
	('EXECUTE something', '42601'), ('SHOW work_mem', '42601'), ('VACUUM', '42P01'), ('VACUUM data', '42601'), ('NOTIFY n', '42601'), ('LISTEN n', '42601'), ('FETCH 1 FROM c', '42601'),
	('data*', '42601'), ('ONLY data', '42601')) bad(source, code);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit(%L, '{x,y}', 3)$$, source), code, 'not a source: ' || source)
FROM (VALUES
	('WITH w AS (DELETE FROM data RETURNING x, y) SELECT x, y FROM w', '42601'),
	('WITH w AS (INSERT INTO data VALUES (1000, 1, 1, 1) RETURNING x, y) SELECT x, y FROM w', '42601'),
	('WITH w AS (UPDATE data SET x = 0 RETURNING x, y) SELECT x, y FROM w', '42601'),
	('SELECT x, y FROM data FOR UPDATE', '42601'), ('SELECT x, y FROM data FOR SHARE', '42601')) bad(source, code);
CREATE FUNCTION meddle() RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN DELETE FROM data; RETURN 1; END $$;
SELECT is((SELECT count(*)::int FROM data), 600, 'none of these sources changed the table');
CREATE INDEX data_index ON data (x);
CREATE SEQUENCE counter;
CREATE TYPE pair AS (x float8, y float8);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit(%L, '{x,y}', 3)$$, relation), '42809', 'not a table: ' || relation) FROM unnest('{data_index,pair}'::text[]) relation;
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 / 0 AS x', '{x}', 1)$$, '22012', 'an error of the source passes through');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 / (x::int - 10) AS x FROM data', '{x}', 1)$$, '22012', 'an error in the middle of the source passes through');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 AS x, 2 AS x', '{x}', 1)$$, '42702', 'a column name twice');

-- Types of the feature columns
CREATE DOMAIN positive AS float8 CHECK (VALUE >= 0);
CREATE DOMAIN coordinates AS real[] CHECK (cardinality(VALUE) = 2);
SELECT is(sizes(format('SELECT x::%s AS x, y::%s AS y FROM data', type, type)), '{200,200,200}', 'columns of type ' || type)
FROM unnest(ARRAY['smallint', 'int', 'bigint', 'real', 'float8', 'numeric', 'numeric(8,3)', 'positive']) type;
SELECT is(sizes(format('SELECT ARRAY[x, y]::%s AS v FROM data', type), '{v}'), '{200,200,200}', 'a column of type ' || type)
FROM unnest(ARRAY['smallint[]', 'int[]', 'bigint[]', 'real[]', 'float8[]', 'numeric[]', 'positive[]', 'coordinates']) type;
SELECT is(sizes('SELECT x::real AS a, y::numeric AS b, (x + y)::int AS c, x::smallint AS d, y::bigint AS e, x AS f FROM data', '{a,b,c,d,e,f}'),
	'{200,200,200}', 'columns of six types');
SELECT fails_with(format($$SELECT * FROM gkmeans_fit(%L, '{x}', 1)$$, format('SELECT %s AS x', value)), '42804', 'not numeric: ' || value, '"x"')
FROM unnest(ARRAY['''1''::text', 'now()', '''{1}''::text[]', '''a''::"char"', 'current_date', '''1''::money', 'ROW(1, 2)', 'NULL', '''{}''::jsonb', '1::oid',
	'''(1,2)''::point', '''\x00''::bytea', '''1.2.3.4''::inet', 'interval ''1 day''']) value;
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT ''{1,2}''::real[] AS v, 3 AS x', '{v,x}', 1)$$, '42804', 'an array and a number');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 AS x, ''1''::text AS w', '{x}', 1, weight_column => 'w')$$, '42804', 'a weight that is no number', '"w"');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT 1 AS x, ''{1}''::int[] AS w', '{x}', 1, weight_column => 'w')$$, '42804', 'a weight that is an array', '"w"');
SELECT is(weight, 6::float8, 'weights of type ' || type)
FROM unnest('{smallint,int,bigint,real,float8,numeric}'::text[]) type, LATERAL gkmeans_fit(format('SELECT i AS x, i::%s AS w FROM generate_series(1, 3) i', type), '{x}', 1, weight_column => 'w');

-- Numeric: precise where float8 is, whatever its form
SELECT is(centroid[1], '12345.678'::float8, 'numeric 12345.678') FROM gkmeans_fit('SELECT 12345.678 AS x', '{x}', 1);

-- Toasted, compressed and inline arrays
CREATE TABLE toasted (id int, v real[]);
ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT i, ARRAY(SELECT (i % 3) * 10 + noise(i, f) FROM generate_series(1, 1000) f) FROM generate_series(1, 60) i;
CREATE TABLE compressed (id int, v float8[]);
INSERT INTO compressed SELECT i, array_fill((i % 3)::float8, '{2000}') FROM generate_series(1, 60) i;
CREATE TABLE inline_arrays (id int, v real[]);
ALTER TABLE inline_arrays ALTER v SET STORAGE PLAIN;
INSERT INTO inline_arrays SELECT * FROM toasted;
SELECT is(sizes(source, '{v}'), '{20,20,20}', source) FROM unnest('{toasted,compressed,inline_arrays}'::text[]) source;
SELECT cmp_ok(pg_relation_size(reltoastrelid), '>', 0::bigint, 'the toasted table is toasted') FROM pg_class WHERE oid = 'toasted'::regclass;
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('toasted', '{v}', 3)$$), fingerprint($$SELECT * FROM gkmeans_fit('inline_arrays', '{v}', 3)$$),
	'toasted or not, the same bits');

-- Many features, up to what a row and the engine hold
SELECT is(cardinality(centroid), 65535, 'as many features as there may be')
FROM gkmeans_fit('SELECT array_fill(i::real, ''{65535}'') AS v FROM generate_series(1, 3) i', '{v}', 2) LIMIT 1;
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT array_fill(i::real, ''{65536}'') AS v FROM generate_series(1, 3) i', '{v}', 2)$$, '54000', 'one feature more');
DO $$ BEGIN
	EXECUTE (SELECT 'CREATE TABLE wide AS SELECT ' || string_agg(format('(i + %s)::real AS f%s', f, f), ', ') || ' FROM generate_series(1, 10) i' FROM generate_series(1, 1500) f);
END $$;
SELECT is(cardinality(centroid), 1500, 'a table of 1500 columns') FROM gkmeans_fit('wide', NULL, 1);
SELECT is(cardinality(centroid), 1500, 'and its columns by name')
FROM gkmeans_fit('wide', (SELECT array_agg('f' || f) FROM generate_series(1, 1500) f), 1);

-- The whole query in a worker, which sees no row
SELECT set_config(CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END, 'on', true) AS setting \gset
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x FROM data WHERE x IS NULL', '{x}', 1)$$, '22023', 'no row in a worker', 'no usable row');
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT x FROM data', '{x}', 1)), (SELECT count(*)::int FROM data), 'all rows in a worker');
SELECT set_config(CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END, 'off', true) AS setting \gset

-- Numbers too small for double precision are 0, in however many columns
DO $$ BEGIN
	EXECUTE (SELECT 'CREATE TABLE tiny AS SELECT ' || string_agg(format('(i * 1e-400)::numeric AS c%s', c), ', ') || ' FROM generate_series(1, 3) i' FROM generate_series(1, 120) c);
END $$;
SELECT is((SELECT centroid[120] FROM gkmeans_fit('tiny', (SELECT array_agg('c' || c) FROM generate_series(1, 120) c), 1)), 0::float8, 'tiny numerics in many columns');
SELECT is((SELECT centroid FROM gkmeans_fit('tiny', '{c1,c2}', 1)), '{0,0}', 'tiny numerics in a few');

-- Fits in the sources of fits: each has shared memory, of which others need some, too
CREATE FUNCTION nested(depth int) RETURNS SETOF float8 LANGUAGE plpgsql AS $$ BEGIN
	IF depth > 0 THEN PERFORM * FROM gkmeans_fit(format('SELECT x FROM nested(%s) x', depth - 1), '{x}', 1); END IF;
	RETURN QUERY SELECT i::float8 FROM generate_series(1, 3) i;
END $$;
SELECT is((SELECT count(*)::int FROM nested(10)), 3, 'ten fits, one in the source of another');
SELECT fails_with('SELECT * FROM nested(11)', '54001', 'eleven', 'nested too deeply', 'the limit is 10');
CREATE TABLE nested_labels (id int, cluster_id int, distance float8);
CREATE FUNCTION nest_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM * FROM gkmeans_fit('VALUES (1, 1.0), (2, 2.0)', '{column2}', 1, id_column => 'column1', labels_table => 'nested_labels', if_exists => 'append');
	RETURN NULL;
END $$;
CREATE TRIGGER again AFTER INSERT ON nested_labels FOR EACH STATEMENT EXECUTE FUNCTION nest_again();
SELECT fails_with($$INSERT INTO nested_labels VALUES (1, 1, 1)$$, '54001', 'fits in a trigger on their labels', 'nested too deeply', 'in a trigger on what that one writes');
CREATE FUNCTION nested_above(rows text, depth int) RETURNS SETOF float8 LANGUAGE plpgsql AS $$ BEGIN
	PERFORM * FROM gkmeans_fit(CASE WHEN depth > 1 THEN format('SELECT x FROM nested_above(%L, %s) x', rows, depth - 1) ELSE rows END, '{x}', CASE WHEN depth > 1 THEN 1 ELSE 20 END);
	RETURN QUERY SELECT i::float8 FROM generate_series(1, 3) i;
END $$;
SELECT is((SELECT count(*)::int FROM nested_above('SELECT sin(i::float8 * i) AS x FROM generate_series(1, 150000) i', 10)), 3, 'the sample that the tenth fits first is no eleventh');

-- What is expected is the rows of the source, not those that it groups
CREATE TABLE estimates (rows bigint);
CREATE FUNCTION estimated() RETURNS bool LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
	INSERT INTO gk_test.estimates SELECT rows_estimated FROM gkmeans.progress WHERE pid = pg_backend_pid() RETURNING true
$$;
CREATE TABLE grouped AS SELECT i % 10 AS g, i AS x FROM generate_series(1, 10000) i;
ANALYZE grouped;
SELECT count(*) FROM gkmeans_fit('SELECT g, avg(x) AS x FROM gk_test.grouped GROUP BY g HAVING gk_test.estimated()', '{x}', 2);
SELECT cmp_ok(max(rows), '<=', 10::bigint, 'groups are estimated, not their rows') FROM estimates;

-- A setting that gives a process more than one share of the rows, while the source is planned
CREATE TABLE shared_out (x float8) PARTITION BY RANGE (x);
CREATE TABLE shared_out_1 PARTITION OF shared_out FOR VALUES FROM (0) TO (10);
CREATE TABLE shared_out_2 PARTITION OF shared_out FOR VALUES FROM (10) TO (20);
INSERT INTO shared_out SELECT i FROM generate_series(0, 19) i;
CREATE FUNCTION share_out() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('enable_partitionwise_aggregate', 'on', true); RETURN 0; END $$;
SELECT fails_with($$SELECT gkmeans_fit('SELECT x FROM shared_out WHERE x >= share_out()', '{x}', 2)$$, '55000', 'enable_partitionwise_aggregate', 'changed while the source was being planned');
SET LOCAL enable_partitionwise_aggregate = on;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('shared_out', '{x}', 2)), 20, 'which may be set before');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
