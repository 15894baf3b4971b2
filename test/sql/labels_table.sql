-- labels_table: where the labels of a fit are written.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x, CASE WHEN i <= 290 THEN (i % 3) * 10 + noise(i, 2) END AS y FROM generate_series(1, 300) i;
CREATE TABLE reference AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id');
CREATE FUNCTION fit_into(name text, choice text DEFAULT 'error', source text DEFAULT 'data') RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM gkmeans_fit(source, '{x,y}', 3, id_column => 'id', labels_table => name, if_exists => choice)
$$;

SELECT is(fit_into('labels'), 3::bigint, 'a fit with a labels table returns its clusters');
SELECT columns_are('gk_test', 'labels', '{id,cluster_id,distance}'::name[], 'the labels table has its columns');
SELECT col_type_is('gk_test', 'labels', 'id', 'integer', 'the id has the type of the id column');
SELECT col_type_is('gk_test', 'labels', 'cluster_id', 'integer', 'the cluster is an integer');
SELECT col_type_is('gk_test', 'labels', 'distance', 'double precision', 'the distance is double precision');
SELECT set_eq('TABLE labels', 'TABLE reference', 'the same labels as gkmeans_fit_predict');
SELECT is(count(*)::int, 10, 'rows that cannot be clustered are in it, with a NULL cluster') FROM labels WHERE cluster_id IS NULL AND distance IS NULL;

-- if_exists
SELECT fails_with($$SELECT fit_into('labels')$$, '42P07', 'if_exists => error: it is there', 'labels.* already exists', NULL, 'replace.*append');
SELECT is(count(*)::int, 300, 'and unchanged') FROM labels;
SELECT lives_ok($$SELECT fit_into('labels', 'append')$$, 'append');
SELECT is(count(*)::int, 600, 'the labels are appended') FROM labels;
SELECT lives_ok($$SELECT fit_into('labels', 'replace')$$, 'replace');
SELECT set_eq('TABLE labels', 'TABLE reference', 'the labels are replaced');
SELECT lives_ok($$SELECT fit_into('new_one', 'append'), fit_into('new_two', 'replace')$$, 'append and replace where there is no table');
SELECT is((SELECT count(*)::int FROM new_one) + (SELECT count(*)::int FROM new_two), 600, 'make one');

-- Names
CREATE SCHEMA "Other Schema";
SELECT lives_ok(format('SELECT fit_into(%L)', name), 'labels table ' || name)
FROM unnest(ARRAY['gk_test.qualified', '"Other Schema"."The Labels"', '"Quoted"', 'UPPER', 'gkmeans_labels']) name;
SELECT has_table(schema, name, format('%s.%s is there', schema, name))
FROM (VALUES ('gk_test'::name, 'qualified'::name), ('Other Schema', 'The Labels'), ('gk_test', 'Quoted'), ('gk_test', 'upper'), ('gk_test', 'gkmeans_labels')) t(schema, name);
SELECT is(fit_into('pg_temp.' || name), 3::bigint, 'a temporary labels table ' || name) FROM unnest('{temporary,gkmeans_labels}'::text[]) name;
SELECT is((SELECT count(*)::int FROM pg_temp.temporary JOIN pg_temp.gkmeans_labels USING (id, cluster_id)), 290, 'is there');
SELECT fails_with($$SELECT fit_into('no_schema.labels')$$, '3F000', 'a schema that is not there');
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 3, labels_table => 'x')$$, '22023', 'a labels table without an id column', 'id_column');
SELECT hasnt_table('gk_test', 'x'::name, 'makes no table');

-- What is there already
CREATE TABLE keyed (id int PRIMARY KEY, cluster_id int NOT NULL DEFAULT -1, distance float8, at timestamptz DEFAULT now());
SELECT lives_ok($$SELECT fit_into('keyed', 'append', 'SELECT * FROM data WHERE y IS NOT NULL')$$, 'append to a table with more columns');
SELECT is(count(*)::int, 290, 'that have their defaults') FROM keyed WHERE at IS NOT NULL;
SELECT fails_with($$SELECT fit_into('keyed', 'append', 'SELECT * FROM data WHERE y IS NOT NULL')$$, '23505', 'a unique index of the labels table holds');
SELECT fails_with($$SELECT fit_into('keyed', 'append', 'SELECT id + 1000 AS id, x, y FROM data')$$, '23502', 'so does NOT NULL');
CREATE TABLE other_type (id uuid, cluster_id int, distance float8);
SELECT fails_with($$SELECT fit_into('other_type', 'append')$$, '42804', 'append to an id of another type');
CREATE TABLE too_few (id int);
SELECT fails_with($$SELECT fit_into('too_few', 'append')$$, '42703', 'append to a table without the columns');
CREATE VIEW a_view AS SELECT * FROM reference;
SELECT fails_with(format($$SELECT fit_into('a_view', %L)$$, choice), code, 'a view where the labels table should be, ' || choice)
FROM (VALUES ('error', '42P07'), ('replace', '42809')) c(choice, code);
SELECT has_view('gk_test', 'a_view'::name, 'it is still there');
CREATE TABLE depended AS TABLE reference;
CREATE VIEW on_labels AS SELECT * FROM depended;
SELECT lives_ok($$SELECT fit_into('depended', 'replace', 'SELECT * FROM data WHERE id <= 100')$$, 'replace under a view');
SELECT is((SELECT count(*)::int FROM on_labels), 100, 'the view shows the new labels');
CREATE TABLE log (id int, cluster_id int, distance float8);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (NEW.id); RETURN NEW; END $$;
CREATE TABLE watched (id int, cluster_id int, distance float8);
CREATE TRIGGER watch BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION note();
SELECT lives_ok($$SELECT fit_into('watched', 'append')$$, 'append to a table with a trigger');
SELECT is((SELECT count(*)::int FROM log), 300, 'the trigger fires');
CREATE TABLE split (id int, cluster_id int, distance float8) PARTITION BY LIST (cluster_id);
CREATE TABLE split_default PARTITION OF split DEFAULT;
CREATE TABLE split_0 PARTITION OF split FOR VALUES IN (0);
SELECT lives_ok($$SELECT fit_into('split', 'append')$$, 'append to a partitioned table');
SELECT is((SELECT count(*) FROM split_0), (SELECT count(*) FROM reference WHERE cluster_id = 0), 'the rows are where they belong');

-- Relations created while the fit ran
CREATE FUNCTION make_table(name text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE IF NOT EXISTS %I AS TABLE reference', name);
	RETURN 0;
END $$;
SELECT is(fit_into(choice || '_meanwhile', choice, format('SELECT id, x + make_table(%L) AS x, y FROM data WHERE id <= 9', choice || '_meanwhile')), 3::bigint,
	format('a table made during the fit, if_exists => %s', choice)) FROM unnest('{append,replace}'::text[]) choice;
SELECT is((SELECT count(*)::int FROM append_meanwhile), 309, 'is appended to');
SELECT is((SELECT count(*)::int FROM replace_meanwhile), 9, 'or replaced');
SELECT fails_with($$SELECT fit_into('error_meanwhile', 'error', 'SELECT id, x + make_table(''error_meanwhile'') AS x, y FROM data')$$, '42P07', 'or an error');

-- Labels may be appended to the source
CREATE TABLE self AS SELECT id, x, y, NULL::int AS cluster_id, NULL::float8 AS distance FROM data;
SELECT lives_ok($$SELECT fit_into('self', 'append', 'self')$$, 'append to the source itself');
SELECT is(count(*)::int, 600, 'rows that the fit wrote are not read by it') FROM self;

-- But labels must not replace rows that hold data of the source, however it reads them
CREATE TABLE people (id int PRIMARY KEY, x int, y int, cluster_id int, twice int GENERATED ALWAYS AS (2 * id) STORED);
INSERT INTO people SELECT id, x, y FROM data;
CREATE VIEW some_people AS SELECT * FROM people WHERE id > 10;
CREATE TABLE no_people (id int, x int, y int);
CREATE VIEW nearly_all_people AS SELECT id, x, y FROM some_people UNION ALL TABLE no_people;
CREATE MATERIALIZED VIEW counted_people AS SELECT id, x, y FROM people;
SELECT fails_with(format('SELECT fit_into(%L, %L, %L)', 'people', choice, source), '42809', choice || ' of ' || source,
	'table "people" holds data of the source, and cannot be a table of labels', 'deletes rows of the table, with their column "[xy]"', 'Name another table, and join it by its column "id"')
FROM unnest('{replace,delete,merge}'::text[]) choice, unnest(ARRAY['people', 'some_people', 'nearly_all_people', 'counted_people',
	'WITH p AS (TABLE some_people) SELECT id, ln(x + 1) AS x, y FROM p', 'SELECT id, (p).x, 1 AS y FROM people p', 'SELECT d.*, (SELECT max(x) FROM people) FROM data d']) source;
SELECT fails_with($$SELECT count(*) FROM gkmeans_create_model('kinds_of_people', 'some_people', '{x,y}', 3, id_column => 'id', labels_table => 'people')$$, '42809', 'nor of a model',
	'table "people" holds data of the source');
SELECT is((SELECT count(*)::int FROM people WHERE x IS NOT NULL AND cluster_id IS NULL), 300, 'all people are there');
CREATE TABLE all_years (id int, x int, y int, cluster_id int, distance float8) PARTITION BY RANGE (id);
CREATE TABLE one_year PARTITION OF all_years FOR VALUES FROM (0) TO (1000);
INSERT INTO all_years SELECT id, x, y FROM data;
SELECT fails_with(format('SELECT fit_into(%L, %L, %L)', name, 'replace', source), '42809', format('%s into %s', source, name), 'holds data of the source')
FROM (VALUES ('all_years', 'one_year'), ('one_year', 'all_years')) f(source, name);
CREATE TABLE whole (id int PRIMARY KEY, cluster_id int);
CREATE TABLE part (x int, y int) INHERITS (whole);
SELECT fails_with($$SELECT fit_into('whole', 'delete', 'part')$$, '42809', 'a child whose columns its parent lacks', 'table "whole" holds data of the source', 'with their column "x"');
SELECT current_setting('server_version_num')::int >= 160000 AS children_may_differ \gset
\if :children_may_differ
CREATE TABLE whole_made (id int PRIMARY KEY, cluster_id int, z int GENERATED ALWAYS AS (id) STORED);
CREATE TABLE part_made (id int PRIMARY KEY, cluster_id int, x int, z int GENERATED ALWAYS AS (x) STORED) INHERITS (whole_made);
SELECT fails_with(format('SELECT fit_into(%L, %L, %L)', name, 'delete', 'SELECT id, z AS x, id AS y FROM whole_made'), '42809', name || ': a child generates a column of its data',
	'holds data of the source', 'with their column "x"')
FROM unnest('{whole_made,part_made}'::text[]) name;
\endif
CREATE TABLE made (id int PRIMARY KEY, x int, y int, cluster_id int, far int GENERATED ALWAYS AS (cluster_id + x) STORED, z int GENERATED ALWAYS AS (y) STORED);
SELECT fails_with(format('SELECT fit_into(%L, %L, %L)', 'made', choice, source), '42809', choice || ' of what is made of data: ' || source, 'table "made" holds data of the source', 'with their column "[xy]"')
FROM unnest('{replace,delete,merge}'::text[]) choice, unnest('{"SELECT id, far AS x, 1 AS y FROM made","SELECT id, 1 AS x, z AS y FROM made"}'::text[]) source;
SELECT lives_ok(format('SELECT fit_into(%L, %L, %L)', 'people', choice, 'SELECT d.*, cluster_id AS before, twice FROM data d JOIN people USING (id)'), choice || ' may read ids, labels and what is generated')
FROM unnest('{merge,delete}'::text[]) choice;
CREATE TABLE trips (id int PRIMARY KEY, cluster_id int, distance float8, distance_in_miles float8 GENERATED ALWAYS AS (distance / 1.609) STORED);
INSERT INTO trips SELECT id, NULL, x FROM data;
CREATE VIEW seen_trips AS SELECT id, distance AS x FROM trips;
SELECT fails_with(format($$SELECT count(*) FROM gkmeans_fit(%L, %L, 3, id_column => 'id', labels_table => 'trips', if_exists => %L)$$, source, format('{%s}', feature), choice), '42809',
	format('%s of a feature called like a label: %s', choice, source), 'table "trips" holds data of the source', 'with their column "distance"')
FROM unnest('{replace,delete,merge}'::text[]) choice, (VALUES ('trips', 'distance'), ('SELECT id, distance_in_miles AS x FROM trips', 'x'), ('seen_trips', 'x'),
	('SELECT id, ln(distance + 1) AS x FROM trips', 'x'), ('SELECT * FROM trips JOIN (SELECT id, y FROM data) d USING (id)', 'y,distance'),
	('WITH t AS (SELECT id, distance AS far FROM trips) SELECT id, y, far AS x FROM t JOIN data d USING (id)', 'y,x'),
	('SELECT id, y, s.x FROM seen_trips s JOIN data d USING (id)', 'y,x')) s(source, feature);
-- nor what is computed from data, however deep
CREATE VIEW seen_data AS SELECT id, x FROM data;
CREATE VIEW seen_again AS SELECT id, x FROM seen_data;
CREATE VIEW far_trips AS SELECT t.id, ln(x + 1) AS far FROM seen_trips t;
SELECT fails_with(format($$SELECT count(*) FROM gkmeans_fit(%L, '{x,y}', 3, id_column => 'id', labels_table => 'trips', if_exists => 'merge')$$, source), '42809',
	'a feature that is made of a label: ' || source, 'table "trips" holds data of the source', 'with their column "distance"')
FROM unnest(ARRAY['SELECT id, t.distance * 2 AS x, y FROM trips t JOIN data USING (id)', 'SELECT id, t.distance_in_miles AS x, y FROM trips t JOIN data USING (id)',
	'SELECT id, far AS x, y FROM far_trips JOIN data USING (id)', 'SELECT id, (SELECT max(distance) FROM trips t WHERE t.id = d.id) AS x, y FROM data d',
	'SELECT id, m.x, y FROM data d JOIN trips t USING (id), LATERAL (SELECT t.distance + 1 AS x) m', 'SELECT id, u.x, y FROM data d JOIN trips t USING (id), unnest(ARRAY[t.distance]) u(x)',
	'SELECT id, (t).distance AS x, y FROM data d JOIN trips t USING (id)', 'SELECT id, avg(t.distance + 1) AS x, max(y) AS y FROM data d JOIN trips t USING (id) GROUP BY id',
	'SELECT id, t.distance + 1 AS x, y FROM data d JOIN trips t USING (id) GROUP BY id, t.distance + 1, y', 'SELECT id, sum(t.distance) OVER (ORDER BY id) AS x, y FROM data d JOIN trips t USING (id)',
	'WITH RECURSIVE w AS (SELECT id, distance AS x FROM trips UNION ALL SELECT id, x + 1 FROM w WHERE x < 0) SELECT id, w.x, y FROM w JOIN data d USING (id)',
	'SELECT id, percent_rank() OVER (ORDER BY distance) AS x, y FROM trips JOIN data d USING (id)', 'SELECT id, count(*) OVER w AS x, y FROM trips JOIN data d USING (id) WINDOW w AS (PARTITION BY distance)',
	'SELECT d.id, n.c AS x, y FROM data d JOIN (SELECT min(id) AS id, count(*) AS c FROM trips GROUP BY round(distance)) n USING (id)',
	'WITH RECURSIVE w AS (SELECT id, distance FROM trips UNION ALL SELECT id, distance FROM w WHERE false) CYCLE distance SET c TO 1 DEFAULT 0 USING path SELECT id, c AS x, y FROM w JOIN data USING (id)',
	'SELECT id, v.x, y FROM data d JOIN trips t USING (id), LATERAL (VALUES (1, 2.0), (2, t.distance)) v(n, x) WHERE n = 2',
	'SELECT j.id, (row_to_json(j) ->> ''distance'')::float8 AS x, j.y FROM (trips JOIN data USING (id)) j',
	'SELECT d.id, (SELECT count(d.id) FROM (VALUES (1)) v(i)) AS x, d.id AS y FROM data d JOIN trips t USING (id) GROUP BY d.id, t.distance',
	'SELECT id, x, y FROM data UNION ALL SELECT -id, t.distance - 1, 2 FROM trips t', 'WITH t AS (TABLE trips) SELECT id, s.x, y FROM data d JOIN LATERAL (SELECT distance + 1 AS x FROM t WHERE t.id = d.id) s ON true']) source;
SELECT fails_with($$SELECT count(*) FROM gkmeans_fit('SELECT d.*, t.distance + 1 AS w FROM data d JOIN trips t USING (id)', '{x,y}', 3, id_column => 'id', weight_column => 'w', labels_table => 'trips', if_exists => 'merge')$$, '42809', 'nor the weight');
SELECT is(count(*)::int, 300, 'all distances are there') FROM trips JOIN data USING (id) WHERE distance = x;
SELECT lives_ok(format('SELECT fit_into(%L, %L, %L)', 'trips', choice, 'SELECT d.* FROM data d JOIN trips USING (id) WHERE distance >= 0'), choice || ' may read distances')
FROM unnest('{merge,delete}'::text[]) choice;
SELECT lives_ok($$SELECT fit_into('trips', 'merge', 'SELECT id, n + d.x AS x, y FROM data d JOIN trips t USING (id), LATERAL (VALUES (1, 2.0), (2, t.distance)) v(n, x) WHERE v.x = 2')$$, 'a column of values beside one of distances');
SELECT lives_ok(format('SELECT fit_into(%L, %L, %L)', 'trips', 'merge', source), 'what is made of data beside distances: ' || source) FROM unnest(ARRAY[
	'SELECT j.id, (row_to_json(j) ->> ''x'')::float8 AS x, j.y FROM (data JOIN (SELECT id FROM data) d USING (id)) j JOIN trips t USING (id) WHERE t.distance >= 0',
	'SELECT d.id, (SELECT count(d.id) FROM (VALUES (1)) v(i)) AS x, d.id AS y FROM data d JOIN trips t USING (id) WHERE t.distance >= 0 GROUP BY d.id']) source;
CREATE FUNCTION has_xml() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM '<a/>'::xml; RETURN true; EXCEPTION WHEN feature_not_supported THEN RETURN false; END $$;
SELECT has_xml() \gset
\if :has_xml
SELECT fails_with($$SELECT fit_into('trips', 'merge', 'SELECT d.id, m.x, y FROM data d, LATERAL xmltable(''/a'' PASSING (SELECT xmlelement(NAME a, distance) FROM trips t WHERE t.id = d.id) COLUMNS x float8 PATH ''.'') m')$$,
	'42809', 'XML that is made of a label', 'table "trips" holds data of the source', 'with their column "distance"');
SELECT lives_ok($$SELECT fit_into('trips', 'merge', 'SELECT d.id, m.x, y FROM trips t JOIN data d USING (id), LATERAL xmltable(''/a'' PASSING (SELECT xmlelement(NAME a, d.x)) COLUMNS x float8 PATH ''.'') m WHERE t.distance >= 0')$$, 'but not of data');
\else
SELECT skip('PostgreSQL was built without libxml', 2);
\endif
-- What is named twice, again and again, is looked at once
SELECT lives_ok(format($$SELECT fit_into('trips', 'merge', %L)$$, source), 'deep: ' || left(source, 100)) FROM (VALUES
	((SELECT 'SELECT id, f40.x, y FROM data JOIN trips t USING (id), generate_series(1, 1) f0(x)' || string_agg(format(', LATERAL generate_series(f%s.x, f%1$s.x) f%s(x)', i - 1, i), '') || ' WHERE t.distance >= 0' FROM generate_series(1, 40) i)),
	('SELECT id, ' || repeat('(SELECT v + v * 0 FROM (SELECT ', 40) || 'd.x' || repeat(' AS v OFFSET 0) q)', 40) || ' AS x, y FROM data d JOIN trips t USING (id) WHERE t.distance >= 0')) s(source);
-- Caches that are built anew all the time change nothing; they can be only where PostgreSQL has assertions
SELECT set_config('debug_discard_caches', least(1, max_val::int)::text, true) FROM pg_settings WHERE name = 'debug_discard_caches';
SELECT fails_with($$SELECT fit_into('trips', 'merge', 'SELECT id, a.x * 0 + b.x * 0 + c.far AS x, a.x AS y FROM seen_data a JOIN seen_again b USING (id) JOIN far_trips c USING (id)')$$, '42809', 'views beside views');
RESET debug_discard_caches;
CREATE TABLE roads AS SELECT id, x AS distance, y FROM data;
SELECT lives_ok(format($$SELECT count(*) FROM gkmeans_fit('SELECT r.* FROM roads r JOIN trips t USING (id) WHERE t.distance >= 0', '{distance,y}', 3, id_column => 'id', labels_table => 'trips', if_exists => %L)$$, choice),
	choice || ' may read distances beside those of another table')
FROM unnest('{merge,delete}'::text[]) choice;

-- The ids of any type
SELECT lives_ok($$SELECT * FROM gkmeans_fit('SELECT md5(id::text)::uuid AS "The Id", x FROM data', '{x}', 3, id_column => 'The Id', labels_table => 'uuid_labels')$$, 'ids of type uuid');
SELECT col_type_is('gk_test', 'uuid_labels', (SELECT attname FROM pg_attribute WHERE attrelid = 'uuid_labels'::regclass AND attnum = 1), 'uuid', 'are uuid in the labels table');
SELECT lives_ok(format($$SELECT * FROM gkmeans_fit(%L, '{x}', 3, id_column => 'id', labels_table => %L)$$,
	format('SELECT (%s)::%s AS id, x FROM data', value, type), name), 'ids of type ' || type)
FROM (VALUES ('lpad(id::text, 5, ''0'')', 'char(5)', 'char_labels'), ('id::bit(16)', 'bit(16)', 'bit_labels'), ('id::text', 'varchar(9)', 'varchar_labels')) ids(value, type, name);
SELECT is((SELECT array_agg(id::text ORDER BY id) FROM char_labels), (SELECT array_agg(lpad(id::text, 5, '0') ORDER BY id) FROM data), 'of their whole length');
SELECT lives_ok($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id', labels_table => 'both_ways')$$, 'gkmeans_fit_predict with a labels table');
SELECT set_eq('TABLE both_ways', 'TABLE reference', 'writes the same labels');

-- The name of the id column
CREATE VIEW customers AS SELECT id AS customer_id, id AS distance, x, y FROM data;
CREATE FUNCTION fit_named(name text, choice text DEFAULT 'error', id_name text DEFAULT NULL, id_is text DEFAULT 'customer_id') RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM gkmeans_fit('customers', '{x,y}', 3, id_column => id_is, labels_table => name, if_exists => choice,
		options => CASE WHEN id_name IS NULL THEN '{}' ELSE jsonb_build_object('id_name', id_name) END)
$$;
SELECT lives_ok(format('SELECT fit_named(%L, id_name => %L)', 'named_' || number, id_name), 'a table is made with the id column ' || id_name) FROM (VALUES (1, 'customer_id'), (2, 'The "Id"'), (3, repeat('n', 63))) n(number, id_name);
SELECT columns_are('gk_test', 'named_1', '{customer_id,cluster_id,distance}'::name[], 'so it is called');
SELECT columns_are('gk_test', 'named_2', ARRAY['The "Id"', 'cluster_id', 'distance']::name[], 'be it quoted');
SELECT columns_are('gk_test', 'named_3', ARRAY[repeat('n', 63), 'cluster_id', 'distance']::name[], 'or as long as can be');
SELECT set_eq('SELECT customer_id, cluster_id, distance FROM named_1', 'TABLE reference', 'and has the labels');
SELECT is((SELECT count(*)::int FROM customers JOIN named_1 USING (customer_id)), 300, 'joined with USING');
SELECT is(fit_named('unnamed'), 3::bigint, 'without a name');
SELECT columns_are('gk_test', 'unnamed', '{id,cluster_id,distance}'::name[], 'it is id');
SELECT lives_ok(format('SELECT fit_named(%L, %L, %L)', name, choice, id_name), format('%s: %s, id_name %s', name, choice, id_name))
FROM (VALUES ('named_1', 'replace', 'customer_id'), ('named_1', 'append', 'customer_id'), ('named_1', 'replace', NULL), ('named_1', 'append', NULL), ('unnamed', 'replace', NULL), ('unnamed', 'append', 'id')) n(name, choice, id_name);
SELECT is((SELECT array_agg(count) FROM (SELECT count(*) FROM named_1 UNION ALL SELECT count(*) FROM unnamed) counts), '{600,600}', 'both have their labels twice');
CREATE TABLE both_names (id uuid DEFAULT gen_random_uuid(), customer_id int, cluster_id int, distance float8);
SELECT lives_ok($$SELECT fit_named('both_names', 'append')$$, 'the name of the source goes before id');
SELECT set_eq('SELECT customer_id, cluster_id, distance FROM both_names', 'TABLE reference', 'in a table that has both');
SELECT lives_ok($$SELECT fit_named('unnamed', 'replace', id_is => 'distance'), fit_named('new_named', id_is => 'distance')$$, 'an id column called as another of the labels');
SELECT set_eq('SELECT * FROM ' || name, 'TABLE reference', 'is id in ' || name) FROM unnest('{unnamed,new_named}'::text[]) name;
SELECT fails_with(format('SELECT fit_named(%L, %L, %L)', 'named_1', choice, 'client'), code, 'an id column that is not there, ' || choice, 'table "named_1" has no column "client"', NULL, 'has the columns client and cluster_id')
FROM (VALUES ('append', '42703'), ('replace', '42804')) c(choice, code);
SELECT fails_with($$SELECT fit_named('named_2', 'append')$$, '42703', 'no id column of either name', 'has no column "id"', NULL, 'has the columns id \(or customer_id\) and cluster_id');
SELECT fails_with(format($$SELECT fit_named('bad_name', id_name => %L)$$, id_name), '22023', 'the id column cannot be called ' || left(id_name, 20), message)
FROM (VALUES ('cluster_id', 'name of another column of the labels: "cluster_id"'), ('distance', 'name of another column'), ('', 'option id_name is out of range'), (repeat('n', 64), 'option id_name is out of range')) n(id_name, message);
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('data', '{x}', 3, id_column => 'id', labels_table => 'bad_name', options => %L)$$, options), '22023', 'options ' || options, 'option id_name', NULL, 'names of 1 to 63 bytes')
FROM unnest(ARRAY['{"id_name": 1}', '{"id_name": null}']) options;
SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x}', 3, id_column => 'id', options => '{"id_name": "customer_id"}')$$, '22023', 'a name without a labels table', 'option id_name needs a labels_table', NULL, 'It names the id column of that table');
SELECT hasnt_table('gk_test', 'bad_name'::name, 'makes no table');

-- A table that cannot be emptied, and the hint about it
CREATE TABLE referred (id int PRIMARY KEY, cluster_id int, distance float8);
SELECT lives_ok($$SELECT fit_into('referred', 'append', 'SELECT * FROM data WHERE id <= 100')$$, 'labels that a foreign key will refer to');
CREATE TABLE campaign (customer int REFERENCES referred DEFERRABLE);
INSERT INTO campaign VALUES (7);
SELECT fails_with($$SELECT fit_into('referred', 'replace')$$, '0A000', 'replace under a foreign key', 'cannot truncate', 'campaign', 'merge.*delete');
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM referred;
SELECT lives_ok($$SELECT fit_into('referred', 'append')$$, 'DELETE and append under a foreign key');
SELECT lives_ok('SET CONSTRAINTS ALL IMMEDIATE', 'which holds');
SELECT set_eq('TABLE referred', 'TABLE reference', 'gives the labels');
UPDATE referred SET cluster_id = -1, distance = 0 WHERE id > 200;
DELETE FROM referred WHERE id > 250;
SELECT lives_ok($$
	MERGE INTO referred t
	USING gkmeans_fit_predict(NULL::int, 'SELECT d.* FROM data d LEFT JOIN referred USING (id)', '{x,y}', 3, id_column => 'id') f ON t.id = f.id
	WHEN MATCHED AND (t.cluster_id, t.distance) IS DISTINCT FROM (f.cluster_id, f.distance) THEN UPDATE SET cluster_id = f.cluster_id, distance = f.distance
	WHEN NOT MATCHED THEN INSERT (id, cluster_id, distance) VALUES (f.id, f.cluster_id, f.distance)$$, 'MERGE under a foreign key');
SELECT set_eq('TABLE referred', 'TABLE reference', 'gives the labels too');
SELECT fails_with($$SELECT count(*) FROM reference r, gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'reference', if_exists => 'replace')$$,
	'55006', 'the statement reads the table that its fit replaces', 'being used by active queries', NULL, 'call the fit in a statement of its own');
SELECT is(count(*)::int, 300, 'which is as it was') FROM reference;

-- An error in the fit leaves no table
SELECT fails_with($$SELECT fit_into('never', 'error', 'SELECT id, 1 / (id - 200) AS x, y FROM data')$$, '22012', 'an error in the source');
SELECT hasnt_table('gk_test', 'never'::name, 'leaves no labels table');
SELECT fails_with($$SELECT fit_into('reference', 'replace', 'SELECT id, 1 / (id - 200) AS x, y FROM data')$$, '22012', 'an error while a table is replaced');
SELECT is(count(*)::int, 300, 'leaves the old one') FROM reference;

SELECT fails_with($$SELECT * FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'new_labels', options => '{"id_name": "ctid"}')$$, '42701', 'an id column called like one of the system', 'system column');

-- The name of the type of the ids comes to mean another one while a table is made.
CREATE SCHEMA gk_types;
CREATE SCHEMA gk_traps;
CREATE TYPE gk_types.color AS ENUM ('red', 'green', 'blue');
CREATE FUNCTION trap(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the code of another'; END $$;
CREATE DOMAIN gk_traps.color AS gk_types.color CHECK (trap(VALUE));
CREATE TABLE colors AS SELECT color AS id, number AS x FROM unnest(enum_range(NULL::gk_types.color)) WITH ORDINALITY AS c(color, number);
SELECT gkmeans_create_model('colors_model', 'colors', '{x}', 2);
CREATE TABLE colored (id gk_types.color PRIMARY KEY, cluster_id int);
CREATE FUNCTION swap_types() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN ALTER SCHEMA gk_types RENAME TO gk_away; ALTER SCHEMA gk_traps RENAME TO gk_types; END $$;
CREATE EVENT TRIGGER gk_swap ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION swap_types();
SELECT fails_with(call, '55000', 'a type that takes the name of that of the ids: ' || call, 'could not write to table gk_test.new_colors', 'Another type has taken the name of that of the ids')
FROM unnest(ARRAY[$$SELECT gkmeans_fit('colors', '{x}', 2, 'id', labels_table => 'new_colors')$$, $$SELECT gkmeans_fit('colors', '{x}', 2, 'id', labels_table => 'new_colors', if_exists => 'merge')$$,
	$$SELECT gkmeans_assign('colors_model', 'colors', 'id', 'colored', changes_table => 'new_colors')$$]) call;
DROP EVENT TRIGGER gk_swap;
SELECT lives_ok($$SELECT gkmeans_assign('colors_model', 'colors', 'id', 'colored', changes_table => 'new_colors')$$, 'without that it is made');

-- Domains over enums, which no operator of these takes
CREATE DOMAIN shade AS gk_types.color;
CREATE TABLE shades AS SELECT id::shade, x FROM colors;
SELECT gkmeans_create_model('shades_model', 'shades', '{x}', 2, id_column => 'id', labels_table => 'shaded', changes_table => 'shade_changes');
UPDATE shaded SET cluster_id = 1 - cluster_id;
SELECT is((SELECT row(inserted, updated, deleted)::text FROM gkmeans_assign('shades_model')), '(0,3,0)', 'labels whose ids are of a domain over an enum are merged');
SELECT is((SELECT count(*)::int FROM shade_changes WHERE from_cluster_id IS NOT NULL), 3, 'and their changes recorded');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
