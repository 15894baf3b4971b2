-- if_exists => merge and delete: a labels table that readers never see empty, and of which only what differs is written.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x FROM generate_series(1, 300) i;
CREATE FUNCTION fit_into(name text, choice text, source text DEFAULT 'data') RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM gkmeans_fit(source, '{x}', initial_centroids => '{{0},{10},{20}}', id_column => 'id', labels_table => name, if_exists => choice)
$$;
CREATE FUNCTION labels_of(source text) RETURNS TABLE (id int, cluster_id int, distance float8) LANGUAGE sql AS $$
	SELECT * FROM gkmeans_fit_predict(NULL::int, source, '{x}', initial_centroids => '{{0},{10},{20}}', id_column => 'id')
$$;

-- merge
SELECT is(fit_into('merged', 'merge'), 3::bigint, 'merge makes the table');
SELECT col_is_pk('gk_test', 'merged', 'id', 'with a primary key');
SELECT set_eq('TABLE merged', $$SELECT * FROM labels_of('data')$$, 'and all labels');
CREATE TABLE versions_before AS SELECT id, ctid::text AS place FROM merged;
SELECT is(fit_into('merged', 'merge'), 3::bigint, 'the same again');
SELECT set_eq('SELECT id, ctid::text AS place FROM merged', 'TABLE versions_before', 'writes no row');
CREATE VIEW changed AS SELECT CASE WHEN id <= 10 THEN 1000 + id ELSE id END AS id, CASE WHEN id = 11 THEN x + 10 WHEN id = 12 THEN NULL ELSE x END AS x FROM data WHERE id <> 13;
CREATE TABLE log (what text, id int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (TG_OP, coalesce(NEW.id, OLD.id)); RETURN NULL; END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE OR DELETE ON merged FOR EACH ROW EXECUTE FUNCTION note();
SELECT is(fit_into('merged', 'merge', 'changed'), 3::bigint, 'a source that has changed');
SELECT set_eq('TABLE merged', $$SELECT * FROM labels_of('changed')$$, 'the table follows');
SELECT is((SELECT array_agg(id ORDER BY id) FROM log WHERE what = 'INSERT'), ARRAY(SELECT generate_series(1001, 1010)), 'new rows are inserted');
SELECT is((SELECT array_agg(id ORDER BY id) FROM log WHERE what = 'DELETE'), ARRAY(SELECT generate_series(1, 10)) || 13, 'those that are gone are deleted');
SELECT ok((SELECT array_agg(id) @> '{11,12}' FROM log WHERE what = 'UPDATE'), 'those that moved are updated');
SELECT is((SELECT row(cluster_id, distance)::text FROM merged WHERE id = 12), '(,)', 'a row that cannot be clustered any more is NULL');
CREATE TABLE keyed (id int UNIQUE, cluster_id int, distance float8, at text DEFAULT 'new');
INSERT INTO keyed SELECT *, 'old' FROM labels_of('data') WHERE id <= 200;
SELECT is(fit_into('keyed', 'merge'), 3::bigint, 'merge into a table with a unique index and more columns');
SELECT is((SELECT array_agg(at || n ORDER BY at) FROM (SELECT at, count(*) AS n FROM keyed GROUP BY at) k), '{new100,old200}', 'the others are left alone');
CREATE TABLE "Named Ids" ("The Id" text PRIMARY KEY, cluster_id int, distance float8);
SELECT lives_ok($$SELECT gkmeans_fit('SELECT id::text AS "The Id", x FROM data', '{x}', 3, id_column => 'The Id', labels_table => '"Named Ids"', if_exists => 'merge')$$, 'ids of another type and name');
SELECT is(count(*)::int, 300, 'are there') FROM "Named Ids";
SELECT is(count(*)::int, 300, 'gkmeans_fit_predict merges as well') FROM gkmeans_fit_predict(NULL::int, 'data', '{x}', initial_centroids => '{{0},{10},{20}}', id_column => 'id', labels_table => 'merged', if_exists => 'merge');
SELECT set_eq('TABLE merged', $$SELECT * FROM labels_of('data')$$, 'the same labels');

-- What merge cannot do
CREATE TABLE no_index (id int, cluster_id int, distance float8);
CREATE UNIQUE INDEX ON no_index (id) WHERE id > 0;
CREATE UNIQUE INDEX ON no_index (id, cluster_id);
CREATE UNIQUE INDEX ON no_index ((id + 0));
CREATE INDEX ON no_index (id);
SELECT fails_with($$SELECT fit_into('no_index', 'merge')$$, '42P10', 'no unique index on the id alone', 'no unique index', NULL, 'delete');
CREATE TABLE deferred (id int UNIQUE DEFERRABLE, cluster_id int, distance float8);
SELECT fails_with($$SELECT fit_into('deferred', 'merge')$$, '42P10', 'one that is checked later');
SELECT fails_with(format('SELECT fit_into(%L, ''merge'', ''SELECT id / 2 AS id, x FROM data'')', name), '21000', 'ids that are not unique, ' || name, 'more than once') FROM unnest('{merged,fresh}'::text[]) name;
SELECT fails_with(format('SELECT fit_into(%L, ''merge'', ''SELECT nullif(id, 7) AS id, x FROM data'')', name), '21000', 'an id that is NULL, ' || name, 'NULL') FROM unnest('{merged,fresh}'::text[]) name;
SELECT hasnt_table('gk_test', 'fresh'::name, 'no table is made');
SELECT set_eq('TABLE merged', $$SELECT * FROM labels_of('data')$$, 'the table is as it was');
SELECT fails_with(format($$SELECT gkmeans_fit('SELECT %s AS id, 1 / (id - id) AS x FROM data', '{x}', 3, id_column => 'id', labels_table => 'json_ids', if_exists => 'merge')$$, id), '42704', 'ids that have no order, before rows are read: ' || id, 'cannot be merged', NULL, 'id::text') FROM (VALUES ('json_build_object(1, id)'), ('array[json_build_object(1, id)]')) AS ids(id);
CREATE DOMAIN named AS int;
SELECT fails_with($$SELECT gkmeans_fit('SELECT id, 1 / (id - id) AS x FROM data', '{x}', 3, id_column => 'id', labels_table => 'named')$$, '42710', 'a type has the name, before rows are read', 'type "named" already exists');
SELECT lives_ok($$SELECT gkmeans_fit('data', '{x}', 3, id_column => 'id', labels_table => '_named')$$, 'types of arrays make way');
SET client_min_messages = error;
CREATE TABLE published (id int, cluster_id int, distance float8);
CREATE UNIQUE INDEX published_ids ON published (id);
CREATE PUBLICATION labels_of_all FOR TABLE published;
CREATE TABLE published_parts (LIKE published) PARTITION BY RANGE (id);
CREATE TABLE published_part PARTITION OF published_parts DEFAULT;
CREATE UNIQUE INDEX ON published_parts (id);
ALTER PUBLICATION labels_of_all ADD TABLE published_parts;
RESET client_min_messages;
SELECT fails_with(format($$SELECT gkmeans_fit('SELECT id, 1 / (id - id) AS x FROM data', '{x}', 3, id_column => 'id', labels_table => %L, if_exists => %L)$$, name, if_exists), '55000', format('a published table whose rows nothing identifies, before rows are read: %s, %s', name, if_exists), 'does not have a replica identity')
FROM unnest('{merge,delete}'::text[]) AS if_exists, unnest('{published,published_parts}'::text[]) AS name;
ALTER TABLE published ALTER id SET NOT NULL;
ALTER TABLE published REPLICA IDENTITY USING INDEX published_ids;
SELECT lives_ok(format($$SELECT gkmeans_fit('SELECT id, id AS x FROM data', '{x}', 3, id_column => 'id', labels_table => 'published', if_exists => %L)$$, if_exists), 'one whose rows an index identifies: ' || if_exists)
FROM unnest('{merge,delete}'::text[]) AS if_exists;
DROP PUBLICATION labels_of_all;

-- Sources that look at the table of labels, but read no data of it
CREATE TABLE looked_at (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE FUNCTION rows_of() RETURNS TABLE (id int, x int) LANGUAGE sql STABLE AS 'SELECT d.id, d.id FROM gk_test.data d WHERE NOT EXISTS (SELECT FROM gk_test.looked_at)';
SELECT lives_ok(format($$SELECT gkmeans_fit(%L, '{x}', 3, id_column => 'id', labels_table => 'looked_at', if_exists => %L)$$, source, if_exists), format('%s: %s', if_exists, source))
FROM unnest('{merge,delete,replace}'::text[]) if_exists, unnest(ARRAY['SELECT id, id AS x FROM data WHERE NOT EXISTS (SELECT FROM looked_at WHERE false)', 'SELECT id, id AS x FROM data WHERE (SELECT count(*) FROM looked_at) >= 0']) source;
TRUNCATE looked_at;
SELECT lives_ok($$SELECT gkmeans_fit('SELECT id, x FROM rows_of()', '{x}', 3, id_column => 'id', labels_table => 'looked_at', if_exists => 'delete')$$, 'a function that is inlined looks at it');
CREATE RULE none AS ON INSERT TO looked_at DO INSTEAD NOTIFY news;
SELECT lives_ok($$SELECT gkmeans_fit('SELECT id, id AS x FROM data', '{x}', 3, id_column => 'id', labels_table => 'looked_at', if_exists => 'delete')$$, 'a rule leaves nothing of the command');

-- delete
CREATE TABLE plain (id int, cluster_id int, distance float8);
INSERT INTO plain SELECT i, -1, 0 FROM generate_series(1, 5) i;
SELECT is(fit_into('plain', 'delete'), 3::bigint, 'delete');
SELECT set_eq('TABLE plain', $$SELECT * FROM labels_of('data')$$, 'replaces all rows');
SELECT is(fit_into('plain', 'delete', 'SELECT id % 5 AS id, x FROM data'), 3::bigint, 'also where ids are not unique');
SELECT is(count(*)::int, 300, 'all are there') FROM plain;
SELECT is(fit_into('new_one', 'delete'), 3::bigint, 'delete where there is no table');
SELECT hasnt_pk('gk_test', 'new_one', 'makes one without a key');

-- Models
CREATE TABLE made AS SELECT * FROM gkmeans_create_model('m', 'data', '{x}', initial_centroids => '{{0},{10},{20}}', id_column => 'id', labels_table => 'model_labels');
SELECT col_is_pk('gk_test', 'model_labels', 'id', 'a model merges its labels');
SELECT is((SELECT count(*)::int FROM model_labels l JOIN data d USING (id) WHERE gkmeans_predict('m', d) = cluster_id AND gkmeans_distance('m', d) = distance), 300, 'which are those that it predicts');
SELECT lives_ok($$SELECT gkmeans_create_model('m', 'changed', '{x}', initial_centroids => '{{0},{10},{20}}', id_column => 'id', labels_table => 'model_labels', if_exists => 'replace')$$, 'again');
SELECT is((SELECT count(*)::int FROM model_labels), 299, 'merged');

-- Privileges, and conflicting names
CREATE ROLE gk_writer;
GRANT USAGE, CREATE ON SCHEMA gk_test TO gk_writer;
GRANT SELECT ON data TO gk_writer;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO gk_writer;
GRANT SELECT, INSERT, UPDATE ON merged TO gk_writer;
GRANT INSERT ON log TO gk_writer;
SET LOCAL ROLE gk_writer;
SELECT fails_with($$SELECT fit_into('merged', 'merge')$$, '42501', 'merge needs DELETE');
RESET ROLE;
GRANT DELETE ON merged TO gk_writer;
SET LOCAL ROLE gk_writer;
SELECT is(fit_into('merged', 'merge'), 3::bigint, 'and SELECT, INSERT and UPDATE');
RESET ROLE;
CREATE TABLE t (id int PRIMARY KEY, cluster_id int, distance float8);
SELECT is(fit_into('t', 'merge'), 3::bigint, 'a table called t');
CREATE TABLE l (id int PRIMARY KEY, cluster_id int, distance float8);
SELECT is(fit_into('l', 'merge') + fit_into('l', 'merge'), 6::bigint, 'a table called l');

-- Ids are told apart as the index tells them apart that makes them unique
SELECT EXISTS (SELECT 1 FROM pg_collation WHERE collprovider = 'i') AS has_icu \gset
\if :has_icu
CREATE COLLATION either_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE cases (id text, x float8);
INSERT INTO cases VALUES ('a', 0), ('A', 20), ('b', 10);
CREATE FUNCTION ids_in(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE ids text;
BEGIN
	EXECUTE format('SELECT string_agg(id || cluster_id, '' '' ORDER BY id COLLATE "C") FROM %I', name) INTO ids;
	RETURN ids;
END $$;
CREATE TABLE in_either_case (id text COLLATE either_case PRIMARY KEY, cluster_id int);
INSERT INTO in_either_case VALUES ('a', 7), ('B', 7);
SELECT fails_with($$SELECT fit_into('in_either_case', 'merge', 'cases')$$, '21000', 'ids that differ in the source, but not in the table', 'more than once');
SELECT is(ids_in('in_either_case'), 'B7 a7', 'neither of them is written');
DELETE FROM cases WHERE id = 'a';
SELECT lives_ok($$SELECT fit_into('in_either_case', 'merge', 'cases')$$, 'ids in another case');
SELECT is(ids_in('in_either_case'), 'B1 a2', 'are those of the table');
CREATE TABLE in_each_case (id text COLLATE either_case, cluster_id int);
CREATE UNIQUE INDEX ON in_each_case (id COLLATE "C");
INSERT INTO cases VALUES ('a', 0);
SELECT lives_ok($$SELECT fit_into('in_each_case', 'merge', 'cases'), fit_into('in_each_case', 'merge', 'cases')$$, 'an index that tells more ids apart than the column does');
SELECT is(ids_in('in_each_case'), 'A2 a0 b1', 'keeps them apart');
CREATE TABLE in_both_cases (id text COLLATE either_case, cluster_id int);
CREATE TABLE in_both_cases_too (LIKE in_both_cases);
CREATE UNIQUE INDEX ON in_both_cases (id COLLATE "C");
CREATE UNIQUE INDEX ON in_both_cases (id);
CREATE UNIQUE INDEX ON in_both_cases_too (id);
CREATE UNIQUE INDEX ON in_both_cases_too (id COLLATE "C");
SELECT fails_with(format('SELECT fit_into(%L, ''merge'', ''cases'')', name), '21000', 'of two indexes, that of the column tells ids apart: ' || name, 'more than once') FROM unnest('{in_both_cases,in_both_cases_too}'::text[]) name;
CREATE TABLE named_in_either_case (id int PRIMARY KEY, cluster_id int, name text COLLATE either_case);
SELECT gkmeans_import_model('cased', '{{0},{10}}', '{x}', names => '{low,high}');
SELECT gkmeans_assign('cased', 'data', 'id', 'named_in_either_case');
SELECT gkmeans_name_clusters('cased', '{Low,high}');
SELECT is((SELECT updated FROM gkmeans_assign('cased', 'data', 'id', 'named_in_either_case')), 100::bigint, 'a name in another case is another name');
SELECT is((SELECT count(*)::int FROM named_in_either_case WHERE name COLLATE "C" = 'low'), 0, 'and is written');
\else
SELECT skip('PostgreSQL was built without ICU', 10);
\endif
-- Operators of the caller's schemas have no effect
CREATE FUNCTION always(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
CREATE OPERATOR = (LEFTARG = int, RIGHTARG = int, PROCEDURE = always);
CREATE TABLE by_operator (id int PRIMARY KEY, cluster_id int);
INSERT INTO by_operator SELECT id, 7 FROM generate_series(1, 9) id;
SELECT gkmeans_import_model('operated', '{{0},{10}}', '{x}');
SET LOCAL search_path = gk_test, pg_catalog, public;
CREATE TABLE by_operator_written AS SELECT inserted, updated FROM gkmeans_assign('operated', 'data', 'id', 'by_operator', changes_table => 'by_operator_changes');
SET LOCAL search_path = gk_test, public;
SELECT is(row(inserted, updated)::text, '(291,9)', 'an operator of the search path compares no labels') FROM by_operator_written;
CREATE TYPE amount AS (value numeric);
CREATE TABLE by_image (id amount, cluster_id int);
CREATE UNIQUE INDEX ON by_image (id record_image_ops);
SELECT fails_with($$SELECT fit_into('by_image', 'merge', 'SELECT row(id)::amount AS id, x FROM data')$$, '42P10', 'an index with another equality than that of the type', 'no unique index');

-- Ids of a domain over a type whose operators are where others may make some: one for the domain would fit better.
CREATE TYPE code;
CREATE FUNCTION code_in(cstring) RETURNS code LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION code_out(code) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE code (INPUT = code_in, OUTPUT = code_out, LIKE = int4);
CREATE FUNCTION code_eq(code, code) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
CREATE FUNCTION code_lt(code, code) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
CREATE FUNCTION code_gt(code, code) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
CREATE FUNCTION code_cmp(code, code) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE OPERATOR = (LEFTARG = code, RIGHTARG = code, FUNCTION = code_eq, COMMUTATOR = =, MERGES);
CREATE OPERATOR < (LEFTARG = code, RIGHTARG = code, FUNCTION = code_lt);
CREATE OPERATOR > (LEFTARG = code, RIGHTARG = code, FUNCTION = code_gt);
CREATE OPERATOR CLASS code_ops DEFAULT FOR TYPE code USING btree AS OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 code_cmp(code, code);
CREATE DOMAIN ticket AS code;
CREATE FUNCTION never(ticket, ticket) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
CREATE OPERATOR = (LEFTARG = ticket, RIGHTARG = ticket, FUNCTION = never);
SELECT is(fit_into('tickets', 'merge', 'SELECT id::text::ticket AS id, x FROM data'), 3::bigint, 'ids of a domain over a type of its own');
SELECT is((SELECT count(*) FROM gkmeans_create_model('of_tickets', 'data', '{x}', 3)), 3::bigint, 'a model of these rows');
CREATE TABLE tickets_written AS SELECT updated, inserted, deleted FROM gkmeans_assign('of_tickets', 'SELECT id::text::ticket AS id, 20 - x AS x FROM data', 'id', 'tickets', 'merge', 'ticket_changes');
SELECT is((SELECT row(updated, inserted, deleted)::text FROM tickets_written), '(300,0,0)', 'ids of a domain are compared as those of its type');
SELECT is((SELECT count(*) FROM tickets t JOIN ticket_changes c ON t.id::text = c.id::text WHERE t.cluster_id = c.to_cluster_id), (SELECT count(*) FROM ticket_changes), 'and so are their changes');

-- A source that changes the labels table while it is read.
CREATE COLLATION passing (provider = libc, locale = 'POSIX');
CREATE TABLE passing_labels (id text COLLATE passing PRIMARY KEY, cluster_id int);
CREATE FUNCTION run_at_nine(i int, command text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 9 THEN EXECUTE command; END IF; RETURN i; END $$;
SELECT lives_ok($$SELECT gkmeans_fit('SELECT i::text AS id, run_at_nine(i, ''ALTER TABLE passing_labels ALTER id TYPE text COLLATE "C"; DROP COLLATION passing'') AS x FROM generate_series(1, 9) i', '{x}', 2, 'id', labels_table => 'passing_labels', if_exists => 'merge')$$, 'a collation that is dropped when the rows are read');
SELECT is((SELECT count(*) FROM passing_labels), 9::bigint, 'all rows have labels');
SELECT fails_with($$SELECT gkmeans_fit('SELECT i::text AS id, run_at_nine(i, ''ALTER TABLE passing_labels DROP CONSTRAINT passing_labels_pkey'') AS x FROM generate_series(1, 9) i', '{x}', 2, 'id', labels_table => 'passing_labels', if_exists => 'merge')$$, '42P10', 'an index that is dropped then', 'no unique index');
CREATE TABLE other_ids AS SELECT 1000 AS id, 1 AS cluster_id;
ALTER TABLE other_ids ADD PRIMARY KEY (id);
CREATE TABLE other_id_changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
SELECT gkmeans_assign('operated', 'SELECT i AS person, run_at_nine(i, ''ALTER TABLE other_ids RENAME id TO person; ALTER TABLE other_ids ADD id int DEFAULT 77'') AS x FROM generate_series(1, 9) i', 'person', 'other_ids', changes_table => 'other_id_changes');
SELECT is((SELECT array_agg(id) FROM other_id_changes WHERE to_cluster_id IS NULL), '{1000}', 'a column that takes the name of the ids then: changes have the ids');

-- Others drop a child of the labels, which nothing locks, together with its access method.
CREATE ACCESS METHOD short_lived TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE parent (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE TABLE short_lived_child () INHERITS (parent) USING short_lived;
SELECT is(count(*)::int, 0, 'a child, which the cache knows now') FROM parent;
SAVEPOINT s;
DELETE FROM pg_am WHERE amname = 'short_lived';
CREATE FUNCTION fit_or_fail() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN fit_into('parent', 'delete'); EXCEPTION WHEN internal_error THEN RETURN SQLERRM; END $$;
SELECT matches(fit_or_fail(), '^(3|cache lookup failed for access method \d+)$', 'its access method is gone: the server goes on');
ROLLBACK TO s;

-- The name of the collation that makes ids unique comes to mean another one amid the merge.
CREATE SCHEMA gk_ids;
CREATE SCHEMA gk_others;
CREATE COLLATION gk_ids.plain (provider = libc, locale = 'POSIX');
CREATE COLLATION gk_others.plain (provider = libc, locale = 'C');
CREATE TABLE plain_labels (id text COLLATE gk_ids.plain PRIMARY KEY, cluster_id int);
INSERT INTO plain_labels VALUES ('1', -1), ('gone', -1);
CREATE FUNCTION swap_collations() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ALTER SCHEMA gk_ids RENAME TO gk_away; ALTER SCHEMA gk_others RENAME TO gk_ids; RETURN NULL; END $$;
CREATE TRIGGER swap BEFORE UPDATE ON plain_labels EXECUTE FUNCTION swap_collations();
SELECT fails_with($$SELECT gkmeans_fit('SELECT i::text AS id, i AS x FROM generate_series(1, 9) i', '{x}', 2, 'id', labels_table => 'plain_labels', if_exists => 'merge')$$, '55000', 'a collation that takes the name of that of the ids',
	'could not write to table gk_test.plain_labels', 'Another operator or collation has taken the name');

-- Where Citus keeps the labels, commands read new ones from a function: another one takes its place meanwhile.
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partkey text, repmodel "char");
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass);
RESET allow_system_table_mods;
CREATE TABLE kept_by_citus (id int PRIMARY KEY, cluster_id int, distance float8);
INSERT INTO pg_catalog.pg_dist_partition VALUES ('kept_by_citus', NULL, 't');
CREATE SCHEMA not_public;
CREATE FUNCTION not_public._gkmeans_labels() RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
CREATE FUNCTION swap_schemas() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	ALTER SCHEMA public RENAME TO renamed;
	ALTER SCHEMA not_public RENAME TO public;
	RETURN NULL;
END $$;
CREATE TRIGGER swap BEFORE DELETE ON kept_by_citus FOR EACH STATEMENT EXECUTE FUNCTION swap_schemas();
SET LOCAL search_path = gk_test, public, renamed;
SELECT is(fit_into('kept_by_citus', 'merge'), 3::bigint, 'the function that gives the labels is told by more than the name of its schema');
SELECT set_eq('TABLE kept_by_citus', $$SELECT * FROM labels_of('data')$$, 'and gives all labels');
ALTER SCHEMA public RENAME TO not_public;
ALTER SCHEMA renamed RENAME TO public;

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
