-- The caller's privileges, row-level security and security barriers hold for the source and the labels table.
\ir helpers.psql

CREATE ROLE gk_reader;
CREATE ROLE gk_other;
GRANT USAGE ON SCHEMA gk_test TO gk_reader, gk_other;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO gk_reader, gk_other;
CREATE TABLE secrets (id int, owner text, x float8, y float8);
INSERT INTO secrets SELECT i, CASE WHEN i <= 40 THEN 'gk_reader' ELSE 'gk_other' END, i % 2 * 100, i FROM generate_series(1, 100) i;
CREATE TABLE columns_only (id int, x float8, hidden float8);
INSERT INTO columns_only SELECT i, i, -i FROM generate_series(1, 10) i;
GRANT SELECT (id, x) ON columns_only TO gk_reader;
CREATE VIEW through_a_view AS SELECT id, x FROM secrets WHERE id <= 10;
GRANT SELECT ON through_a_view TO gk_reader;
CREATE SCHEMA gk_closed;
CREATE TABLE gk_closed.data AS SELECT 1 AS x;
GRANT SELECT ON gk_closed.data TO gk_reader;
CREATE FUNCTION private() RETURNS SETOF float8 LANGUAGE sql AS 'SELECT generate_series(1, 3)::float8';
REVOKE EXECUTE ON FUNCTION private() FROM PUBLIC;

-- SELECT privilege: tables, columns, views, schemas, functions
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT * FROM gkmeans_fit('secrets', '{x,y}', 2)$$, '42501', 'no SELECT privilege on a table');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x, y FROM secrets', '{x,y}', 2)$$, '42501', 'nor on the table of a query');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'secrets', '{x,y}', 2, id_column => 'id')$$, '42501', 'nor with fit_predict');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x FROM through_a_view WHERE (SELECT count(*) FROM secrets) > 0', '{x}', 2)$$, '42501', 'nor in a subquery');
SELECT fails_with($$SELECT * FROM gkmeans_fit('columns_only', '{hidden}', 2)$$, '42501', 'no privilege on a column');
SELECT fails_with($$SELECT * FROM gkmeans_fit('columns_only', '{x}', 2, weight_column => 'hidden')$$, '42501', 'no privilege on the weight');
SELECT fails_with($$SELECT * FROM gkmeans_fit_predict(NULL::float8, 'columns_only', '{x}', 2, id_column => 'hidden')$$, '42501', 'no privilege on the id');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('SELECT id, x FROM columns_only', '{x}', 2)), 2, 'a privilege on these columns is enough for a query of them');
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('through_a_view', '{x}', 2)), 10, 'a view opens what its owner may read');
SELECT fails_with($$SELECT * FROM gkmeans_fit('gk_closed.data', '{x}', 1)$$, '42501', 'no USAGE on the schema');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT private() AS x', '{x}', 1)$$, '42501', 'no EXECUTE on a function');
RESET ROLE;

-- Row-level security
GRANT SELECT ON secrets TO gk_reader, gk_other;
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON secrets FOR SELECT USING (owner = current_user);
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('secrets', '{x,y}', 2)), 100, 'the owner of the table sees all rows');
SET LOCAL ROLE gk_reader;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('secrets', '{x,y}', 2)), 40, 'a policy shows a role its rows');
SELECT is((SELECT rows_read::int FROM gkmeans_last_fit()), 40, 'the others are not even counted');
SELECT is((SELECT max(id) FROM gkmeans_fit_predict(NULL::int, 'SELECT * FROM secrets', '{x,y}', 2, id_column => 'id')), 40, 'nor are their ids seen');
SET LOCAL row_security = off;
SELECT fails_with($$SELECT * FROM gkmeans_fit('secrets', '{x,y}', 2)$$, '42501', 'row_security = off: an error rather than less rows');
SET LOCAL row_security = on;
RESET ROLE;
SET LOCAL ROLE gk_other;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('secrets', '{x,y}', 2)), 60, 'and another role its own');
RESET ROLE;
-- with parallel workers
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL ROLE gk_other;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('secrets', '{x,y}', 2)), 60, 'the policy holds in workers');
RESET ROLE;
-- in a SECURITY DEFINER function the definer reads, and only there
CREATE FUNCTION as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = gk_test, public AS
	$$SELECT sum(size)::bigint FROM gkmeans_fit('secrets', '{x,y}', 2)$$;
SET LOCAL ROLE gk_reader;
SELECT is(as_owner(), 100::bigint, 'a SECURITY DEFINER function reads as its owner');
SELECT is((SELECT count(*)::int FROM gkmeans_last_fit()), 0, 'and its caller learns nothing of what it read');
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('secrets', '{x,y}', 2)), 40, 'and the caller still as himself');
SELECT is((SELECT rows_read::int FROM gkmeans_last_fit()), 40, 'who sees what he read');
RESET ROLE;
GRANT pg_read_all_stats TO gk_other;
SET LOCAL ROLE gk_other;
SELECT is((SELECT rows_read::int FROM gkmeans_last_fit()), 40, 'as do members of pg_read_all_stats');
RESET ROLE;
REVOKE pg_read_all_stats FROM gk_other;
SELECT is((SELECT rows_read::int FROM gkmeans_last_fit()), 40, 'and superusers');

-- Security barrier: a leaky function of the caller sees no row that the view hides
CREATE TABLE seen (value float8);
GRANT INSERT, SELECT ON seen TO gk_reader;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, x, y FROM secrets WHERE owner = current_user;
CREATE VIEW no_barrier AS SELECT id, x, y FROM secrets WHERE owner = current_user;
GRANT SELECT ON barrier, no_barrier TO gk_reader;
CREATE SEQUENCE rows_seen;
GRANT USAGE, SELECT ON rows_seen TO gk_reader;
CREATE FUNCTION leaky(value float8) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS $$
BEGIN
	IF value > 40 THEN RAISE EXCEPTION 'saw %', value; END IF;
	RETURN true;
END $$;
GRANT EXECUTE ON FUNCTION leaky(float8) TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT x, y FROM barrier WHERE leaky(y)', '{x,y}', 2)), 40, 'a leaky function sees only rows behind the barrier');
SELECT fails_with($$SELECT * FROM gkmeans_fit('SELECT x, y FROM no_barrier WHERE leaky(y)', '{x,y}', 2)$$, 'P0001', 'without the barrier it sees more, as in PostgreSQL');
RESET ROLE;
-- the row-level policy is such a barrier as well
SET LOCAL ROLE gk_reader;
SELECT is((SELECT sum(size)::int FROM gkmeans_fit('SELECT x, y FROM secrets WHERE leaky(y)', '{x,y}', 2)), 40, 'a leaky function sees only rows of the policy');
RESET ROLE;

-- The labels table is created by the caller, with the caller's privileges
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'gk_test.labels')$$, '42501', 'no CREATE on the schema');
RESET ROLE;
GRANT CREATE ON SCHEMA gk_test TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT lives_ok($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'labels')$$, 'with it the table is made');
SELECT table_owner_is('gk_test', 'labels', 'gk_reader', 'and belongs to the caller');
RESET ROLE;
CREATE TABLE owned_labels (id int, cluster_id int, distance float8);
SET LOCAL ROLE gk_reader;
SELECT fails_with(format($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'owned_labels', if_exists => %L)$$, choice), '42501',
	format('another''s labels table, if_exists => %s', choice)) FROM unnest('{append,replace}'::text[]) choice;
RESET ROLE;
GRANT INSERT ON owned_labels TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT lives_ok($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'owned_labels', if_exists => 'append')$$, 'INSERT is enough to append');
SELECT fails_with($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'owned_labels', if_exists => 'replace')$$, '42501', 'but not to replace');
RESET ROLE;
SELECT is((SELECT count(*)::int FROM owned_labels), 10, 'the labels are there, once');
-- Missing privileges are found before the rows are read: this source must not be
CREATE FUNCTION never() RETURNS float8 LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'the source was read'; END $$;
CREATE FUNCTION fit_into(labels text, if_exists text, id text DEFAULT '1') RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT * FROM gkmeans_fit(%L, ''{x}'', 1, id_column => ''id'', labels_table => %L, if_exists => %L)', 'SELECT ' || id || ' AS id, gk_test.never() AS x', labels, if_exists)
$$;
CREATE TABLE one_column (id int, cluster_id int, distance float8);
CREATE TABLE all_columns (id int, cluster_id int, distance float8, more int);
CREATE TABLE referenced (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE TABLE referring (id int REFERENCES referenced);
CREATE TABLE generated (id int, cluster_id int, distance float8 GENERATED ALWAYS AS (id) STORED);
CREATE TABLE identity (id int GENERATED ALWAYS AS IDENTITY, cluster_id int, distance float8);
CREATE TABLE other_type (id text, cluster_id int, distance float8);
CREATE TABLE too_few (id int, distance float8);
CREATE TABLE in_parts (id int, cluster_id int, distance float8) PARTITION BY RANGE (id);
CREATE VIEW a_view AS SELECT * FROM one_column;
CREATE TABLE merged (id int PRIMARY KEY, cluster_id int, distance float8, labelled_at timestamptz, more int);
CREATE TYPE gk_private AS ENUM ('a');
REVOKE USAGE ON TYPE gk_private FROM PUBLIC;
CREATE TABLE gk_closed.labels (id int, cluster_id int, distance float8);
CREATE DOMAIN gk_closed.number AS int;
CREATE COLLATION gk_closed.plain FROM "C";
CREATE TABLE merged_texts (id text COLLATE gk_closed.plain PRIMARY KEY, cluster_id int, distance float8, number gk_closed.number);
CREATE SCHEMA gk_no_create;
GRANT USAGE ON SCHEMA gk_no_create TO gk_reader;
GRANT INSERT (id) ON one_column TO gk_reader;
GRANT INSERT (id, cluster_id, distance) ON all_columns TO gk_reader;
GRANT ALL ON referenced, generated, identity, other_type, too_few, a_view, merged_texts TO gk_reader;
GRANT EXECUTE ON FUNCTION never(), fit_into(text, text, text) TO gk_reader;
DO $$BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$;
SET LOCAL ROLE gk_reader;
SELECT fails_with(fit_into('gk_no_create.labels', 'error'), '42501', 'no CREATE on the schema, before the rows', 'permission denied for schema gk_no_create');
SELECT fails_with(fit_into('gk_closed.labels', choice), '42501', 'no USAGE on the schema, if_exists => ' || choice, 'permission denied for schema gk_closed') FROM unnest('{error,append,replace}'::text[]) choice;
SELECT fails_with(fit_into('pg_temp.labels', 'error'), '42501', 'no TEMPORARY on the database', 'permission denied');
SELECT fails_with(fit_into('one_column', 'append'), '42501', 'INSERT on one of the columns', 'permission denied for table one_column');
SELECT fails_with(fit_into('in_parts', 'append'), '42501', 'no INSERT on a partitioned table', 'permission denied for table in_parts');
SELECT fails_with(fit_into('all_columns', 'append'), 'P0001', 'INSERT on the three columns is enough');
SELECT fails_with(fit_into('all_columns', 'replace'), '42501', 'but not to replace', 'permission denied for table all_columns');
SELECT fails_with(fit_into('referenced', 'replace'), '0A000', 'a table that others refer to', 'cannot truncate a table referenced in a foreign key');
SELECT fails_with(fit_into('referenced', 'append'), 'P0001', 'which can be appended to');
SELECT fails_with(fit_into('generated', 'append'), '428C9', 'a generated column', 'cannot insert a non-DEFAULT value into column "distance"', 'is a generated column');
SELECT fails_with(fit_into('identity', 'append'), '428C9', 'an identity column', 'cannot insert a non-DEFAULT value into column "id"', 'GENERATED ALWAYS');
SELECT fails_with(fit_into('other_type', 'append'), '42804', 'an id of another type');
SELECT fails_with(fit_into('too_few', 'append'), '42703', 'a column is missing');
SELECT fails_with(fit_into('a_view', 'append'), '42809', 'a view');
SELECT fails_with(fit_into('fresh', 'error', '''a''::gk_private'), '42501', 'no USAGE on the type of the id', 'permission denied for type gk_private');
SELECT fails_with(fit_into('fresh', choice, '(SELECT number FROM gk_test.merged_texts)'), '42501', 'no USAGE on the schema of that type, if_exists => ' || choice, 'permission denied for schema gk_closed') FROM unnest('{error,merge}'::text[]) choice;
SELECT fails_with(fit_into('merged_texts', 'merge', '''a'''), '42501', 'no USAGE on the schema of the collation', 'permission denied for schema gk_closed');
SELECT fails_with(fit_into('merged_texts', 'append', '''a'''), 'P0001', 'which is not named to append');
SELECT fails_with(fit_into('fresh', 'error', 'ROW(1, 2)'), '42P16', 'a type that no column can have', 'pseudo-type record');
SET LOCAL default_tablespace = pg_global;
SELECT fails_with(fit_into('fresh', 'error'), '42501', 'no CREATE on the tablespace', 'permission denied for tablespace pg_global');
SELECT fails_with(fit_into('all_columns', 'append'), 'P0001', 'where no table is created, none is needed');
SELECT set_config('default_tablespace', spcname, true) AS tablespace FROM pg_database d JOIN pg_tablespace t ON t.oid = dattablespace WHERE datname = current_database() \gset
SELECT fails_with(fit_into('fresh', 'error'), 'P0001', 'nor on that of the database');
RESET default_tablespace;
RESET ROLE;
SELECT fails_with(fit_into('pg_catalog.fresh', 'error'), '42501', 'nobody creates tables in pg_catalog', 'permission denied to create "pg_catalog.fresh"', 'currently disallowed');
SET LOCAL default_tablespace = pg_global;
SELECT fails_with(fit_into('fresh', 'error'), '22023', 'nor in pg_global', 'only shared relations');
RESET default_tablespace;
-- Whoever may have a trigger on the extension's table runs nothing as its owner
GRANT ALL ON gkmeans.labelled_tables TO gk_reader;
GRANT CREATE ON SCHEMA gk_test TO gk_reader;
SET LOCAL ROLE gk_reader;
CREATE TABLE own_rows AS SELECT i AS id, i % 2 * 100 + i AS x FROM generate_series(1, 20) i;
SELECT gkmeans_create_model('own_model', 'own_rows', '{x}', 2, id_column => 'id', labels_table => 'own_labels', labels_mode => 'merge');
SELECT gkmeans_assign('own_model');
CREATE TABLE gone (id int PRIMARY KEY, cluster_id int);
SELECT gkmeans_assign('own_model', labels_table => 'gone');
SELECT 'gone'::regclass::oid AS gone \gset
SELECT is((SELECT count(*) FROM gkmeans.labelled_tables WHERE table_id = :gone), 1::bigint, 'a table that will be dropped');
DROP TABLE gone;
CREATE TABLE next (id int PRIMARY KEY, cluster_id int);
SELECT gkmeans_assign('own_model', labels_table => 'next');
SELECT is((SELECT count(*) FROM gkmeans.labelled_tables WHERE table_id = :gone), 0::bigint, 'which is forgotten');
SELECT is((SELECT count(*) FROM gkmeans.labelled_tables WHERE table_id = 'own_labels'::regclass), 1::bigint, 'a call notes which table it has labelled');
CREATE FUNCTION run_as_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'this ran as %', current_user; END $$;
CREATE TRIGGER run_as_owner BEFORE INSERT OR UPDATE ON gkmeans.labelled_tables FOR EACH ROW EXECUTE FUNCTION run_as_owner();
SELECT is((SELECT labelled FROM gkmeans_assign('own_model')), 20::bigint, 'no trigger on the table of the extension runs');
RESET ROLE;
DROP TRIGGER run_as_owner ON gkmeans.labelled_tables;
SELECT relowner::regrole AS owner FROM pg_class WHERE oid = 'gkmeans.labelled_tables'::regclass \gset
ALTER TABLE gkmeans.labelled_tables OWNER TO gk_other;
REVOKE USAGE ON SCHEMA gkmeans FROM PUBLIC;
SELECT is((SELECT labelled FROM gkmeans_assign('own_model', 'own_rows', 'id', 'own_labels', 'merge')), 20::bigint, 'nor does a call fail whose owner may not write there');
GRANT USAGE ON SCHEMA gkmeans TO PUBLIC;
ALTER TABLE gkmeans.labelled_tables OWNER TO :owner;
CREATE TEMPORARY TABLE fleeting (id int PRIMARY KEY, cluster_id int);
SELECT gkmeans_assign('own_model', 'own_rows', 'id', 'pg_temp.fleeting', 'merge');
SELECT is((SELECT count(*) FROM gkmeans.labelled_tables WHERE table_id = 'pg_temp.fleeting'::regclass), 0::bigint, 'nobody else labels a temporary table');
REVOKE ALL ON gkmeans.labelled_tables FROM gk_reader;
REVOKE CREATE ON SCHEMA gk_test FROM gk_reader;

-- Each privilege that a merge needs, on columns where there is one
CREATE FUNCTION lacks(privileges text, if_exists text, code text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('GRANT %s ON merged TO gk_reader', privileges);
	SET LOCAL ROLE gk_reader;
	result := fails_with(fit_into('merged', if_exists), code, if_exists || ' with ' || privileges, CASE code WHEN '42501' THEN 'permission denied for table merged' ELSE 'the source was read' END);
	RESET ROLE;
	REVOKE ALL ON merged FROM gk_reader;
	RETURN result;
END $$;
SELECT lacks(privileges, if_exists, code) FROM (VALUES ('INSERT', 'delete', '42501'), ('INSERT, DELETE', 'delete', 'P0001'), ('INSERT, UPDATE, DELETE', 'merge', '42501'),
	('SELECT, INSERT, DELETE', 'merge', '42501'), ('SELECT, INSERT, UPDATE', 'merge', '42501'), ('SELECT, UPDATE, DELETE', 'merge', '42501'), ('SELECT, INSERT, UPDATE, DELETE', 'merge', 'P0001'),
	('SELECT (id, cluster_id), INSERT, UPDATE, DELETE', 'merge', '42501'), ('SELECT, INSERT, UPDATE (cluster_id, distance), DELETE', 'merge', '42501'),
	('SELECT (id, cluster_id, distance), INSERT (id, cluster_id, distance, labelled_at), UPDATE (cluster_id, distance, labelled_at), DELETE', 'merge', 'P0001')) p(privileges, if_exists, code);

-- a policy on the labels table
ALTER TABLE owned_labels ENABLE ROW LEVEL SECURITY;
CREATE POLICY low_ids ON owned_labels FOR INSERT WITH CHECK (id <= 5);
SET LOCAL ROLE gk_reader;
SELECT fails_with($$SELECT * FROM gkmeans_fit('through_a_view', '{x}', 2, id_column => 'id', labels_table => 'owned_labels', if_exists => 'append')$$, '42501', 'a policy on the labels table holds');
RESET ROLE;

-- Labels of a new model are not written into a table that another role has made ready
CREATE SCHEMA gk_team;
GRANT ALL ON SCHEMA gk_team TO gk_reader, gk_other;
CREATE TABLE gk_team.prepared (id int PRIMARY KEY, cluster_id int);
SET LOCAL ROLE gk_other;
CREATE TABLE gk_team.segments (id int PRIMARY KEY, cluster_id int);
CREATE TABLE gk_team.moves (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
RESET ROLE;
GRANT ALL ON ALL TABLES IN SCHEMA gk_team TO PUBLIC;
CREATE FUNCTION label(more text) RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT count(*) FROM gkmeans_create_model(''gk_team.kinds'', ''gk_test.through_a_view'', ''{x}'', 2, id_column => ''id'', if_exists => ''replace'', %s)', more) $$;
GRANT EXECUTE ON FUNCTION label(text) TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with(label($$labels_table => 'gk_team.segments'$$), '42501', 'labels in a table of another role', 'table "segments" exists and belongs to another role', 'as role "gk_reader"', $$labels_mode => 'merge'$$);
SELECT fails_with(label($$labels_table => 'gk_team.new', changes_table => 'gk_team.moves'$$), '42501', 'changes as well', 'table "moves" exists and belongs to another role');
SELECT hasnt_table('gk_team', 'kinds'::name, 'no model is made');
SELECT lives_ok(label($$labels_table => 'gk_team.segments', changes_table => 'gk_team.moves', labels_mode => 'merge'$$), 'unless that is asked for');
SELECT lives_ok($$SELECT gkmeans_refit('gk_team.kinds', deploy => 'always')$$, 'as it is in a refit then');
SELECT lives_ok(label($$labels_table => 'gk_team.prepared'$$), 'a table of a superuser');
SELECT lives_ok(label($$labels_table => 'gk_team.own'$$), 'one that is not there');
SELECT lives_ok(label($$labels_table => 'gk_team.own'$$), 'or the role''s own');
RESET ROLE;
SELECT fails_with(replace(label($$labels_table => 'gk_team.segments'$$), 'kinds', 'others'), '42501', 'superusers are no exception', 'belongs to another role');
GRANT gk_other TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT lives_ok(label($$labels_table => 'gk_team.segments'$$), 'one of a role that the caller is a member of');
RESET ROLE;
REVOKE gk_other FROM gk_reader;
-- whoever administers a role makes anyone its member, as here a superuser
SELECT current_user AS superuser \gset
GRANT gk_other TO gk_reader WITH ADMIN OPTION;
SET LOCAL ROLE gk_reader;
GRANT gk_other TO :"superuser";
RESET ROLE;
SELECT ok(EXISTS (SELECT FROM pg_auth_members WHERE roleid = 'gk_other'::regrole AND member = current_user::regrole), 'a superuser is a member');
SELECT fails_with(replace(label($$labels_table => 'gk_team.segments'$$), 'kinds', 'others'), '42501', 'superusers are no exception as members either', 'belongs to another role');
SET LOCAL ROLE gk_reader;
REVOKE gk_other FROM :"superuser";
RESET ROLE;
REVOKE gk_other FROM gk_reader;
-- From PostgreSQL 16 on, who created a role is a member of it, but may only grant it to others
SELECT current_setting('server_version_num')::int >= 160000 AS members_may_differ \gset
\if :members_may_differ
GRANT gk_other TO gk_reader WITH ADMIN TRUE, INHERIT FALSE, SET FALSE;
SET LOCAL ROLE gk_reader;
SELECT fails_with(label($$labels_table => 'gk_team.segments'$$), '42501', 'one of a role that the caller administers', 'belongs to another role');
RESET ROLE;
GRANT gk_other TO gk_reader WITH INHERIT FALSE, SET TRUE;
SET LOCAL ROLE gk_reader;
SELECT lives_ok(label($$labels_table => 'gk_team.segments'$$), 'one of a role that he may become');
RESET ROLE;
GRANT gk_other TO gk_reader WITH INHERIT TRUE, SET FALSE;
SET LOCAL ROLE gk_reader;
SELECT lives_ok(label($$labels_table => 'gk_team.segments'$$), 'or whose privileges he has');
RESET ROLE;
REVOKE gk_other FROM gk_reader;
\endif

-- The extension's own functions
SELECT is(count(*)::int, 0, 'no function of the extension is SECURITY DEFINER')
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gkmeans' WHERE p.prosecdef;

-- Where EXECUTE was revoked from everybody: what calls and views need, as docs/sql-reference.md lists it
CREATE TABLE members AS SELECT p.oid::regprocedure AS routine, proname::text AS name
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gkmeans';
DO $$ DECLARE member record; BEGIN
	FOR member IN SELECT * FROM members LOOP EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', member.routine); END LOOP;
END $$;
CREATE ROLE gk_few;
GRANT USAGE, CREATE ON SCHEMA gk_test TO gk_few;
CREATE FUNCTION needed(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE granted text[] := '{}'; missing text; said text;
BEGIN
	LOOP
		BEGIN
			SET LOCAL ROLE gk_few;
			EXECUTE call;
			RESET ROLE;
			EXIT;
		EXCEPTION WHEN insufficient_privilege THEN
			GET STACKED DIAGNOSTICS said = MESSAGE_TEXT;
			missing := substring(said FROM '^permission denied for (?:function|aggregate|procedure) (\w+)$');
			IF missing IS NULL OR missing = ANY (granted) THEN RETURN said; END IF;
			EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO gk_few', (SELECT routine FROM members WHERE name = missing));
			granted := granted || missing;
		END;
	END LOOP;
	FOREACH missing IN ARRAY granted LOOP EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM gk_few', (SELECT routine FROM members WHERE name = missing)); END LOOP;
	RETURN string_agg(name, ' ' ORDER BY name COLLATE "C") FROM unnest(granted) AS name;
END $$;
CREATE TABLE rows_of_few AS SELECT i AS id, i % 2 * 10 + i / 100.0 AS x, i % 2 AS label FROM generate_series(1, 40) AS i;
GRANT SELECT ON rows_of_few TO gk_few;
SELECT is(needed(call), needs, call) FROM (VALUES
	($$SELECT gkmeans_fit('rows_of_few', '{x}', 2)$$, '_gkmeans_feed gkmeans_fit'),
	($$SELECT gkmeans_fit('rows_of_few', '{x}', 2, id_column => 'id', labels_table => 'labels_of_few')$$, '_gkmeans_feed gkmeans_fit'),
	($$SELECT gkmeans_fit_predict(NULL::int, 'rows_of_few', '{x}', 2, id_column => 'id')$$, '_gkmeans_feed gkmeans_fit_predict'),
	($$SELECT gkmeans_create_model('model_of_few', 'rows_of_few', '{x}', 2, id_column => 'id', labels_table => 'segments_of_few')$$, '_gkmeans_feed gkmeans_create_model'),
	($$SELECT gkmeans_import_model('imported_of_few', '{{0},{10}}', '{x}', source => 'rows_of_few')$$, 'gkmeans_import_model'),
	($$SELECT gkmeans_select_k('rows_of_few', '{x}', '{2,3}')$$, '_gkmeans_feed gkmeans_select_k'),
	($$SELECT gkmeans_refit('model_of_few')$$, '_gkmeans_feed gkmeans_refit'),
	($$SELECT gkmeans_assign('model_of_few')$$, '_gkmeans_feed gkmeans_assign'),
	($$SELECT gkmeans_predict_rows(NULL::int, 'model_of_few', 'rows_of_few', 'id')$$, '_gkmeans_feed gkmeans_predict_rows'),
	($$SELECT gkmeans_evaluate('model_of_few')$$, '_gkmeans_feed gkmeans_evaluate'),
	($$SELECT gkmeans_evaluate_labels('rows_of_few', '{x}', 'label')$$, '_gkmeans_feed gkmeans_evaluate_labels'),
	($$SELECT gkmeans_cluster_quality('model_of_few')$$, '_gkmeans_feed gkmeans_cluster_quality'),
	($$SELECT gkmeans_drift('model_of_few')$$, '_gkmeans_feed gkmeans_drift'),
	($$SELECT gkmeans_feature_drift('model_of_few')$$, '_gkmeans_feed gkmeans_feature_drift'),
	($$SELECT gkmeans_compare('model_of_few', 'imported_of_few')$$, 'gkmeans_compare gkmeans_predict_version'),
	($$SELECT gkmeans_transitions('model_of_few', 'imported_of_few')$$, 'gkmeans_predict_version gkmeans_transitions'),
	($$SELECT gkmeans_compare_labels('rows_of_few', 'id', 'label')$$, 'gkmeans_compare_labels'),
	($$SELECT gkmeans_score('model_of_few', r) FROM rows_of_few r$$, 'gkmeans_score'),
	($$SELECT gkmeans_predict_with(gkmeans_export('model_of_few')::jsonb, 1)$$, 'gkmeans_export gkmeans_predict_with'),
	($$SELECT gkmeans_alter_model('model_of_few', '{"n_init": 2}')$$, 'gkmeans_alter_model'),
	($$SELECT gkmeans_report('model_of_few')$$, 'gkmeans_report'),
	($$SELECT gkmeans_create_view('model_of_few', 'scored_of_few')$$, 'gkmeans_create_view'),
	($$SELECT * FROM scored_of_few$$, 'gkmeans_score'),
	($$SELECT gkmeans_create_view('model_of_few', 'clusters_of_few', 'clusters')$$, 'gkmeans_create_view'),
	($$SELECT * FROM clusters_of_few$$, '_gkmeans_centroid_features _gkmeans_clusters'),
	($$SELECT * FROM gkmeans.models$$, '_gkmeans_models _gkmeans_versions'),
	($$SELECT * FROM gkmeans.versions$$, '_gkmeans_models _gkmeans_versions'),
	($$SELECT * FROM gkmeans.clusters$$, '_gkmeans_clusters _gkmeans_models'),
	($$SELECT * FROM gkmeans.centroid_features$$, '_gkmeans_centroid_features _gkmeans_models'),
	($$SELECT * FROM gkmeans.drift$$, '_gkmeans_drift _gkmeans_models'),
	($$SELECT * FROM gkmeans.iterations$$, '_gkmeans_iterations _gkmeans_models'),
	($$SELECT * FROM gkmeans.k_selection$$, '_gkmeans_k_selection _gkmeans_models'),
	($$SELECT * FROM gkmeans.plots$$, '_gkmeans_models _gkmeans_picture _gkmeans_pictures'),
	($$SELECT * FROM gkmeans.progress$$, '_gkmeans_progress')) AS calls(call, needs);
SELECT is((SELECT array_agg(DISTINCT table_name ORDER BY table_name)::text FROM information_schema.views WHERE table_schema = 'gkmeans'),
	'{centroid_features,clusters,drift,iterations,k_selection,models,plots,progress,versions}', 'these are all views');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
