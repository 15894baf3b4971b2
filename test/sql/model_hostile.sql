-- Models are foreign input, and reading one runs nobody's code.
\ir helpers.psql

CREATE ROLE gk_owner;
CREATE ROLE gk_reader;
CREATE ROLE gk_writer;
GRANT CREATE, USAGE ON SCHEMA gk_test TO gk_owner, gk_reader, gk_writer;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
CREATE TABLE data AS SELECT i AS id, noise(i, 1) AS x, (i % 3) * 10 + noise(i, 2) AS y FROM generate_series(1, 300) i;
GRANT SELECT ON data TO PUBLIC;

-- A damaged row, attribute by attribute
SELECT gkmeans_create_model('good', 'data', '{x,y}', 3, scale => 'standard', initial_centroids => '{{0,20},{0,0},{0,10}}');
CREATE FUNCTION damage(attribute text, value text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	code text;
	call text;
BEGIN
	EXECUTE format('CREATE TABLE bad OF gkmeans_model');
	INSERT INTO bad SELECT * FROM good;
	EXECUTE format('UPDATE bad SET %I = %s', attribute, value);
	FOREACH call IN ARRAY '{"gkmeans_predict(''bad'', 1, 2)","(SELECT count(*) FROM gkmeans_clusters(''bad''))","gkmeans_predict(''bad'', d) FROM (SELECT 1 AS x, 2 AS y) d","(SELECT s.anomaly_percentile FROM gkmeans_score(''bad'', 1, 2) s)","gkmeans_report(''bad'')"}'::text[] LOOP
		code := 'none';
		BEGIN
			EXECUTE 'SELECT ' || call;
		EXCEPTION WHEN OTHERS THEN code := SQLSTATE;
		END;
		IF code = 'XX001' THEN
			EXIT;
		END IF;
		IF code NOT IN ('none', '55000', '42704') THEN
			RETURN NEXT fail(format('%s = %s: %s by %s', attribute, value, code, call));
		END IF;
	END LOOP;
	RETURN NEXT is(code, 'XX001', format('%s = %s', attribute, value));
	DROP TABLE bad;
END $$;
SELECT damage(attribute, value) FROM (VALUES
	('metric', 'NULL'), ('metric', '''manhattan'''), ('metric', ''''''), ('k', 'NULL'), ('k', '0'), ('k', '-1'), ('k', '2'), ('k', '4'), ('k', '1000000'), ('k', '2147483647'),
	('dimension', 'NULL'), ('dimension', '0'), ('dimension', '-2147483648'), ('dimension', '1'), ('dimension', '65535'), ('dimension', '65536'),
	('features', 'NULL'), ('features', '''{x}'''), ('features', '''{x,NULL}'''), ('features', '''{}'''), ('features', '''{{x,y}}'''), ('array_column', '''v'''),
	('shift', '''{}'''), ('shift', '''{1}'''), ('shift', '''{1,NULL}'''), ('shift', '''{1,NaN}'''), ('shift', '''{1,Infinity}'''), ('shift', '''{{1,2}}'''), ('shift', 'array_fill(1::float8, ''{100000}'')'),
	('scale_offset', 'NULL'), ('scale_offset', '''{1,2,3}'''), ('scale_offset', '''{NaN,1}'''), ('scale_factor', 'NULL'), ('scale_factor', '''{1}'''), ('scale_factor', '''{-1,1}'''), ('scale_factor', '''{5e-309,1}'''), ('scale_factor', '''{NaN,1}'''), ('scale_factor', '''{NULL,1}'''),
	('centroids', 'NULL'), ('centroids', '''{}'''), ('centroids', '''{1,2,3,4,5,6}'''), ('centroids', '''{{1,2},{3,4}}'''), ('centroids', '''{{1,2,3},{4,5,6}}'''), ('centroids', '''{{1,2},{3,NULL},{5,6}}'''), ('centroids', '''{{1,2},{3,NaN},{5,6}}'''),
	('centroids', '''{{{1,2},{3,4},{5,6}}}'''), ('points', '''{}'''), ('points', '''{{1,2}}'''), ('points', '''{{1,2},{3,4},{5,NULL}}'''), ('points', '''{{1,2},{3,4},{5,Infinity}}'''), ('points', '''{{1,2},{3,4},{5,1e300}}'''),
	('ties', '''{}'''), ('ties', '''{0,1}'''), ('ties', '''{0,1,1}'''), ('ties', '''{0,1,3}'''), ('ties', '''{0,1,-1}'''), ('ties', '''{0,1,NULL}'''), ('ties', '''{2147483647,1,0}'''), ('ties', '''{{0,1,2}}'''),
	('cluster_ids', '''{0,1}'''), ('cluster_ids', '''{0,2,1}'''), ('cluster_ids', '''{0,0,1}'''), ('cluster_ids', '''{-1,0,1}'''), ('cluster_ids', '''{0,1,NULL}'''), ('cluster_ids', '''{0,1,1000000}'''),
	('features', 'ARRAY[''x'', repeat(''y'', 1048577)]'), ('sizes', '''{1,2}'''), ('sizes', '''{1,2,-3}'''), ('sizes', '''{9223372036854775807,1,0}'''), ('sizes', '''{1,2,NULL}'''), ('weights', '''{1,2}'''), ('weights', '''{1,2,-1}'''), ('weights', '''{1,2,NaN}'''),
	('inertias', '''{}'''), ('inertias', '''{1,2,-1}'''), ('radii', '''{1}'''), ('radii', '''{1,2,-1}'''), ('deviations', '''{}'''), ('deviations', '''{{1,2}}'''), ('deviations', '''{{1,2},{3,4},{5,-6}}'''), ('deviations', '''{{1,2},{3,4},{5,NaN}}'''), ('deviations', '''{1,2,3,4,5,6}'''), ('avg_distances', '''{1,2,3,4}'''), ('avg_distances', '''{1,2,NaN}'''), ('avg_distances', '''{1,2,-1}'''),
	('score_quantiles', '''{}'''), ('score_quantiles', 'array_fill(1::float8, ''{46}'')'), ('score_quantiles', 'array_fill(NULL::float8, ''{47}'')'), ('score_quantiles', 'array_fill(-1::float8, ''{47}'')'),
	('score_quantiles', 'array_fill(''NaN''::float8, ''{47}'')'), ('score_quantiles', '(SELECT array_agg(-i::float8 + 100) FROM generate_series(1, 47) i)')) d(attribute, value);

-- Columns of other types than the extension's: CREATE TABLE OF looks the type up twice, and it can be another one each time
CREATE TABLE forged OF gkmeans_model;
UPDATE pg_attribute SET atttypid = 'int8'::regtype, attlen = 8, attbyval = true, attalign = 'd', attstorage = 'p' WHERE attrelid = 'forged'::regclass AND attname = 'centroids';
INSERT INTO forged (version, group_no, part, status, deployed, metric, k, dimension, features, centroids) VALUES (1, 0, 0, 'fitted', true, 'euclidean', 1, 2, '{x,y}', 4702111234474983745);
SELECT fails_with($$SELECT gkmeans_predict('forged', 1, 2)$$, '42809', 'a table whose columns have other types', 'is not a gkmeans model');
SELECT is((SELECT count(*)::int FROM gkmeans.clusters WHERE model LIKE '%forged'), 0, 'the views leave it out');
DROP TABLE forged;

-- What is odd but no damage
CREATE FUNCTION odd(change text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	CREATE TABLE odd_model OF gkmeans_model;
	INSERT INTO odd_model SELECT * FROM good;
	EXECUTE 'UPDATE odd_model SET ' || change;
	BEGIN
		EXECUTE 'SELECT ' || call INTO result;
	EXCEPTION WHEN OTHERS THEN result := SQLSTATE;
	END;
	DROP TABLE odd_model;
	RETURN result;
END $$;
SELECT gkmeans_predict('good', 0, 20)::text AS near_20 \gset
SELECT is(odd('version = NULL, status = NULL, definition = NULL, report = NULL', 'gkmeans_predict(''odd_model'', 0, 20)'), :'near_20', 'what scoring does not need may be anything');
SELECT is(odd('group_no = NULL', 'gkmeans_predict(''odd_model'', 0, 20)'), '55000', 'a row without a group is no head row');
SELECT is(odd('part = 1', 'gkmeans_predict(''odd_model'', 0, 20)'), '55000', 'nor is a part');
SELECT is(odd('deployed = false', 'gkmeans_predict(''odd_model'', 0, 20)'), '55000', 'false is not deployed');
SELECT is(odd('names = ''{<script>,<script>,<script>}''', 'gkmeans_name(''odd_model'', 0, 10)'), '<script>', 'names are text');
SELECT is(odd('names = ' || names, 'gkmeans_name(''odd_model'', 0, 10)'), 'cluster 2', 'names that do not fit are none: ' || left(names, 20))
FROM unnest(ARRAY['''{}''', '''{a,b}''', '''{a,b,c,d}''', '''{{a,b,c}}''', 'ARRAY[''a'', ''b'', repeat(''c'', 1048577)]', 'array_fill(repeat(''a'', 1048577), ''{4}'')']) names;
SELECT is(odd('names = ''{a,b}''', 'count(*) FROM gkmeans.clusters WHERE model LIKE ''%odd_model'''), '3', 'which the views show');
SELECT is(odd('sizes = NULL, weights = NULL, inertias = NULL, avg_distances = NULL, radii = NULL', 'gkmeans_predict(''odd_model'', 0, 20)'), :'near_20', 'statistics may be missing');

-- Points, but no centroids, or centroids that are not where the points are: rows are compared with the points
SELECT is(odd('centroids = NULL', call), 'XX001', 'points without centroids: ' || call)
FROM unnest(ARRAY['gkmeans_export(''odd_model'')', 'gkmeans_export(''odd_model'', ''predict'')', 'gkmeans_predict(''odd_model'', 0, 20)', 'gkmeans_drift(''odd_model'', ''data'')']) call;
SELECT gkmeans_create_model(metric || '_beside', 'data', '{x,y}', 3, metric => metric, scale => 'standard') FROM unnest('{euclidean,cosine}'::text[]) metric;
UPDATE euclidean_beside SET centroids = NULL;
SELECT fails_with('SELECT gkmeans_refit(''euclidean_beside'', rescale => true)', 'XX001', 'a refit in a new scale', 'is damaged', '"centroids"');
UPDATE cosine_beside SET points = COALESCE(points, centroids), centroids = '{{1e308,-1e308},{1e308,-1e308},{1e308,-1e308}}';
SELECT is(outcome, 'as good as version 1, 0 rows moved, not deployed', 'of directions') FROM gkmeans_refit('cosine_beside', rescale => true);
UPDATE cosine_beside SET points = '{{3e38,-3e38},{3e38,-3e38},{3e38,-3e38}}';
SELECT is(count(*)::int, 1, 'directions that are just not too far away') FROM gkmeans_refit('cosine_beside', rescale => true);
UPDATE cosine_beside SET points = '{{1e308,-1e308},{1e308,-1e308},{1e308,-1e308}}' WHERE deployed;
SELECT fails_with('SELECT gkmeans_refit(''cosine_beside'', rescale => true)', 'XX001', 'and those that are', 'is damaged', '"points"');

-- Privileges
SET LOCAL ROLE gk_owner;
SELECT gkmeans_create_model('owned', 'data', '{x,y}', 3, initial_centroids => '{{0,20.12345},{0,0},{0,10}}', max_iter => 1);
SELECT gkmeans_predict('owned', 0.5, 10.5) AS label \gset
SET LOCAL ROLE gk_reader;
SELECT fails_with(call, '42501', 'without SELECT: ' || call, '^permission denied for table owned$', '^$', '^$') FROM unnest(ARRAY['SELECT gkmeans_predict(''owned'', 1, 2)', 'SELECT gkmeans_distance(''owned'', d) FROM data d',
	'SELECT gkmeans_transform(''owned'', ''{1,2}'')', 'SELECT gkmeans_name(''owned'', 1, 2)', 'SELECT gkmeans_anomaly_score(''owned'', 1, 2)', 'SELECT gkmeans_anomaly_percentile(''owned'', 1, 2)', 'SELECT * FROM gkmeans_nearest(''owned'', 1, 1, 2)',
	'SELECT * FROM gkmeans_explain(''owned'', 1, 2)', 'SELECT gkmeans_score(''owned'', 1, 2)', 'SELECT gkmeans_clusters(''owned'')', 'SELECT gkmeans_centroids(''owned'')', 'SELECT gkmeans_centroids(''owned'', 99)']) call;
SELECT fails_with($$SELECT gkmeans_create_model('owned', 'data', '{x,y}', 3, if_exists => 'replace')$$, '42501', 'nor can it be replaced');
SELECT fails_with($$SELECT gkmeans_create_model('owned', 'data', '{x,y}', 3, if_exists => 'skip')$$, '42501', 'nor skipped');
RESET ROLE;
GRANT SELECT (version, group_no, part, deployed, k, dimension, metric, features, centroids, points, ties) ON owned TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_predict('owned', 1, 2)$$, '42501', 'SELECT on some columns is not enough');
RESET ROLE;
GRANT SELECT ON owned TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT is(gkmeans_predict('owned', 0.5, 10.5), :label, 'SELECT is enough to predict');
SELECT fails_with($$SELECT gkmeans_create_model('owned', 'data', '{x,y}', 3, if_exists => 'replace')$$, '42501', 'but not to replace');
RESET ROLE;
GRANT INSERT, UPDATE, DELETE ON owned TO gk_writer;
SET LOCAL ROLE gk_writer;
SELECT fails_with($$SELECT gkmeans_create_model('owned', 'data', '{x,y}', 3, if_exists => 'replace')$$, '42501', 'nor is the privilege to write');
RESET ROLE;
CREATE SCHEMA closed AUTHORIZATION gk_owner;
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_create_model('closed.m', 'data', '{x,y}', 3)$$, '42501', 'no CREATE in the schema');
RESET ROLE;

-- Nothing of the owner's runs: index expressions, partial indexes, policies, rules, triggers
SET LOCAL ROLE gk_owner;
CREATE FUNCTION spy(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'gk_owner' THEN
		RAISE EXCEPTION 'spy runs as %', current_user;
	END IF;
	RETURN x;
END $$;
GRANT EXECUTE ON FUNCTION spy TO PUBLIC;
SET LOCAL client_min_messages = error;
CREATE INDEX ON owned (spy(version));
CREATE INDEX ON owned (version) WHERE spy(k) > 0;
CREATE STATISTICS watching ON (spy(version)), k FROM owned;
ANALYZE owned;
SET LOCAL client_min_messages = warning;
SET LOCAL ROLE gk_reader;
SELECT fails_with('SELECT count(*) FROM owned WHERE spy(version) > 0', 'P0001', 'the spy would be seen');
SELECT is(gkmeans_predict('owned', 0.5, 10.5), :label, 'a model with the owner''s functions in its indexes');
SELECT is(count(*)::int, 3, 'also its clusters') FROM gkmeans_clusters('owned');
RESET ROLE;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY watch ON owned USING (spy(version) > 0);
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT gkmeans_predict('owned', 0.5, 10.5)$$, '0A000', 'row-level security is refused', 'row-level security', NULL, 'Disable');
SET LOCAL row_security = off;
SELECT fails_with($$SELECT gkmeans_predict('owned', 0.5, 10.5)$$, '0A000', 'also if it is set off');
RESET row_security;
SET LOCAL ROLE gk_owner;
SELECT is(gkmeans_predict('owned', 0.5, 10.5), :label, 'it does not apply to the owner');
RESET ROLE;
ALTER TABLE owned FORCE ROW LEVEL SECURITY;
SET LOCAL ROLE gk_owner;
SELECT fails_with($$SELECT gkmeans_predict('owned', 0.5, 10.5)$$, '0A000', 'unless it is forced');
RESET ROLE;
ALTER TABLE owned DISABLE ROW LEVEL SECURITY;

-- Children, partitions, a view and a type of the same shape are no models; a child's rows are not read
CREATE TABLE child () INHERITS (owned);
INSERT INTO child SELECT * FROM good;
SELECT is(gkmeans_predict('owned', 0.5, 10.5), :label, 'the rows of a child are not the model''s');
SELECT fails_with($$SELECT gkmeans_predict('child', 1, 2)$$, '42809', 'a child is no model');
CREATE TABLE partitioned OF gkmeans_model PARTITION BY LIST (version);
SELECT fails_with($$SELECT gkmeans_predict('partitioned', 1, 2)$$, '42809', 'a partitioned table is no model');
CREATE TABLE alike (LIKE good);
INSERT INTO alike SELECT * FROM good;
SELECT fails_with($$SELECT gkmeans_predict('alike', 1, 2)$$, '42809', 'a table of the same columns is no model');
DO $$ BEGIN EXECUTE (
	SELECT format('CREATE TABLE shifted (%s)', string_agg(CASE attname WHEN 'iterations' THEN 'junk int, more int, ' ELSE '' END || format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum))
	FROM pg_attribute WHERE attrelid = 'good'::regclass AND attnum > 0);
END $$;
INSERT INTO shifted (version, group_no, part, deployed, metric, k, dimension, features, centroids, iterations) VALUES (1, 0, 0, true, 'euclidean', 1, 1, '{x}', '{{1}}', 1094795585);
ALTER TABLE shifted DROP junk, DROP more;
ALTER TABLE shifted OF public.gkmeans_model;
SELECT fails_with($$SELECT gkmeans_predict('shifted', 1)$$, '42809', 'a table whose columns have other numbers is no model');
SELECT is((SELECT count(*)::int FROM gkmeans.models WHERE model_name = 'shifted'), 0, 'and is not seen as one');
-- what a race of CREATE TABLE OF with those who rename schemas can leave
CREATE TABLE exchanged OF public.gkmeans_model;
UPDATE pg_attribute SET attname = 'free' WHERE attrelid = 'exchanged'::regclass AND attname = 'scale_offset';
UPDATE pg_attribute SET attname = 'scale_offset' WHERE attrelid = 'exchanged'::regclass AND attname = 'scale_factor';
UPDATE pg_attribute SET attname = 'scale_factor' WHERE attrelid = 'exchanged'::regclass AND attname = 'free';
SELECT fails_with($$SELECT gkmeans_predict('exchanged', 1)$$, '42809', 'a table with exchanged columns is no model');
SELECT is((SELECT count(*)::int FROM gkmeans.models WHERE model_name = 'exchanged'), 0, 'nor seen as one');
CREATE TYPE gkmeans_model AS (version int);
CREATE TABLE typed OF gk_test.gkmeans_model;
SELECT fails_with($$SELECT gkmeans_predict('typed', 1, 2)$$, '42809', 'a type of the same name makes no model');
SELECT lives_ok($$SELECT gkmeans_import_model('beside', '{{1}}')$$, 'and is not taken for the right one');
SELECT is(gkmeans_predict('beside', 2), 0, 'the model is one');
CREATE UNLOGGED TABLE unlogged OF public.gkmeans_model;
INSERT INTO unlogged SELECT * FROM good;
SELECT is(gkmeans_predict('unlogged', 0, 20)::text, :'near_20', 'an unlogged model');

-- A version that is there twice, where there is no index that forbids it
CREATE TABLE two OF public.gkmeans_model;
INSERT INTO two SELECT * FROM good;
INSERT INTO two SELECT * FROM good;
SELECT fails_with($$SELECT gkmeans_predict('two', 0, 20)$$, 'XX001', 'a model without its indexes', 'model "two" has version 1 more than once');

-- Emptied and filled again in the transaction that made it: the same file, place and writer
CREATE TABLE anew OF public.gkmeans_model;
INSERT INTO anew (version, group_no, part, deployed, metric, k, dimension, features, centroids) VALUES (1, 0, 0, true, 'euclidean', 1, 1, '{x}', '{{0}}');
SELECT is(gkmeans_distance('anew', 1), 1::float8, 'a model that is still to be emptied');
TRUNCATE anew;
INSERT INTO anew (version, group_no, part, deployed, metric, k, dimension, features, centroids) VALUES (1, 0, 0, true, 'euclidean', 1, 1, '{x}', '{{100}}');
SELECT is(gkmeans_distance('anew', 1), 99::float8, 'what it is filled with afterwards');

-- What a function of PL/pgSQL keeps is not another role's
SELECT lives_ok($$SELECT gkmeans_import_model('private', '{{0},{10}}')$$, 'a model that only its owner may read');
CREATE FUNCTION inner_distance() RETURNS float8 STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN gkmeans_distance('private', 1); END $$;
CREATE FUNCTION outer_distance() RETURNS float8 STABLE SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN RETURN inner_distance(); END $$;
SET LOCAL ROLE gk_reader;
SELECT is(outer_distance(), 1::float8, 'through a function of the owner');
SELECT fails_with('SELECT outer_distance(), inner_distance()', '42501', 'but not by what that left behind');
RESET ROLE;

-- A row type that changes between two rows
CREATE TYPE changing AS (x numeric, y numeric);
CREATE FUNCTION before_change() RETURNS changing LANGUAGE plpgsql AS $$ DECLARE r changing; BEGIN EXECUTE 'SELECT 0.0, 20.0' INTO r; RETURN r; END $$;
CREATE FUNCTION after_change() RETURNS changing LANGUAGE plpgsql AS $$ DECLARE r changing; BEGIN EXECUTE 'SELECT 0::bigint, 20::bigint' INTO r; RETURN r; END $$;
CREATE FUNCTION change() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER TYPE changing ALTER ATTRIBUTE x TYPE bigint, ALTER ATTRIBUTE y TYPE bigint'; RETURN 0; END $$;
SELECT results_eq($$SELECT gkmeans_predict('good', CASE i WHEN 1 THEN before_change() WHEN 3 THEN after_change() END)::text, CASE i WHEN 2 THEN change() END FROM generate_series(1, 3) i$$,
	format('VALUES (%L, NULL::int), (NULL, 0), (%L, NULL)', :'near_20', :'near_20'), 'a row type that changes from row to row');

-- More names than whoever scores should read
CREATE TABLE points AS SELECT i::float8 AS x FROM generate_series(1, 130) i;
SELECT gkmeans_create_model('much_named', 'points', '{x}', 130);
SELECT fails_with($$SELECT gkmeans_name_clusters('much_named', array_fill(repeat('n', 1048576), '{130}'))$$, '42622', 'names of 130 MB', 'the names are too long', '136[0-9]{6} bytes');
UPDATE much_named SET names = array_fill(repeat('n', 1048576), '{130}');
SELECT is((SELECT count(name) FROM gkmeans_clusters('much_named')), 0::bigint, 'which an UPDATE sets, count as none');
UPDATE much_named SET names = array_fill(repeat('n', 1000000), '{130}');
SELECT is((SELECT count(*) FROM gkmeans_clusters('much_named') WHERE length(name) = 1000000), 130::bigint, 'those of 124 MB are read');
DROP TABLE much_named, points;

-- Names of a megabyte, which the views would repeat for each cluster and feature
CREATE TABLE wide AS SELECT i, array_fill((i % 7)::float8, ARRAY[5000]) AS v FROM generate_series(1, 9) i;
SELECT gkmeans_create_model('wide_model', 'wide', '{v}', 2);
UPDATE wide_model SET names = ARRAY[repeat('x', 1000000), repeat('y', 1000000)];
SELECT is((SELECT row(max(octet_length(from_name)), max(octet_length(to_name)))::text FROM gkmeans_transitions('wide_model', 'wide_model', 'wide')), '(1000,1000)', 'transitions show the beginnings of long names');
UPDATE wide_model SET array_column = repeat('v', 1000000), names = NULL;
SELECT is((SELECT max(octet_length(feature)) FROM gkmeans.centroid_features WHERE model = 'gk_test.wide_model'), 63 + length('[5000]'), 'a view names an array as PostgreSQL names a column');
SELECT is((SELECT max(octet_length(feature)) FROM gkmeans_explain('wide_model', array_fill(1, ARRAY[5000]))), 63 + length('[5000]'), 'and so does an explanation');
UPDATE wide_model SET names = ARRAY[repeat('x', 1000000), repeat('y', 1000000)];
SELECT is((SELECT row(count(*), max(octet_length(cluster_name)))::text FROM gkmeans.centroid_features WHERE model = 'gk_test.wide_model'), '(10000,1000)', 'a view that repeats names shows the beginnings of long ones');
SELECT is((SELECT max(octet_length(cluster_name)) FROM gkmeans.clusters WHERE model = 'gk_test.wide_model'), 1000000, 'one that does not shows all of them');
UPDATE wide_model SET names = ARRAY[repeat('é', 800), repeat('€', 800)];
SELECT is((SELECT array_agg(DISTINCT length(cluster_name)) FROM gkmeans.centroid_features WHERE model = 'gk_test.wide_model'), '{333,500}', 'whole characters of them');
DROP TABLE wide_model;
SELECT gkmeans_import_model('vast_model', (SELECT array_agg(array_fill(i::float8, ARRAY[4400])) FROM generate_series(1, 1000) i));
UPDATE vast_model SET array_column = NULL, features = ARRAY(SELECT repeat('f', 1000) || i FROM generate_series(1, 4400) i), names = ARRAY(SELECT repeat('n', 1000) || i FROM generate_series(1, 1000) i);
SELECT is((SELECT count(*) FROM gkmeans.centroid_features WHERE model = 'gk_test.vast_model'), 0::bigint, 'names that would take 8.8 GB in a view are left out');
DROP TABLE vast_model;

-- More rows on the map than any picture has room for
SELECT gkmeans_create_model('dotted', 'data', '{x,y}', 3);
UPDATE dotted SET sample_points = array_fill(0::real, ARRAY[1000000, 3]);
SELECT is((SELECT count(svg) FROM gkmeans.plots WHERE model = 'gk_test.dotted' AND plot = 'clusters'), 1::bigint, 'a million rows on the map');
DROP TABLE dotted;

-- Objects in front of the search path do not come between
CREATE SCHEMA trap;
CREATE FUNCTION trap.raise() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
CREATE FUNCTION trap.trapped(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT trap.raise()';
CREATE OPERATOR trap.= (LEFTARG = int, RIGHTARG = int, FUNCTION = trap.trapped);
CREATE DOMAIN trap.jsonb AS int;
CREATE TABLE trap.beside (x int);
CREATE FUNCTION careful(if_exists text) RETURNS text LANGUAGE plpgsql SET search_path = trap, gk_test, public, pg_catalog AS $$
BEGIN
	PERFORM gkmeans_create_model('gk_test.careful', 'gk_test.data', '{x,y}', 2, if_exists => careful.if_exists);
	PERFORM gkmeans_import_model('gk_test.careful', '{{1,2}}', if_exists => 'replace');
	RETURN gkmeans_predict('gk_test.careful', 1, 2);
END $$;
SELECT is(careful('error'), '0', 'create with traps in the search path');
SELECT is(careful('replace'), '0', 'replace as well');

-- Nor does a function with the name and arguments of the extension's, but other types
DO $$
DECLARE
	arguments text;
BEGIN
	SELECT string_agg(quote_ident(name) || ' int', ', ' ORDER BY number) INTO arguments
	FROM pg_proc p, unnest(p.proargnames[1:p.pronargs]) WITH ORDINALITY names(name, number) WHERE p.oid = 'gkmeans_create_model'::regproc;
	EXECUTE format('CREATE FUNCTION public.gkmeans_create_model(%s, more int) RETURNS int LANGUAGE sql AS %L', arguments, 'SELECT 1');
END $$;
SELECT is((SELECT status FROM gkmeans_refit('good', deploy => 'never')), 'fitted', 'a refit takes the function of the extension');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
