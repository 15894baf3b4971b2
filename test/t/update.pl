# The update from 0.1.0: views on the functions stay, and what there is afterwards equals a new installation.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Copy;
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

# 0.1.0 is no longer installed: its script lies beside the tests.
my ($share) = run_command([ 'pg_config', '--sharedir' ]);
my $script = "$share/extension/gkmeans--0.1.0.sql";
plan skip_all => "$script cannot be written" unless copy("$FindBin::Bin/../update/gkmeans--0.1.0.sql", $script);
END { unlink $script if defined $script }

my $node = start_server('update');
my ($new) = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'gkmeans'});
$node->safe_psql('postgres', "CREATE DATABASE $_") for 'updated', 'fresh', 'elsewhere';

# The contents of the extension: everything about its functions but their OIDs.
my $catalog = <<'SQL';
SELECT pg_describe_object(d.classid, d.objid, 0), p.proargnames, p.proargmodes, p.proargtypes::regtype[], p.proallargtypes::regtype[],
	p.prorettype::regtype, p.proretset, p.pronargdefaults, pg_get_expr(p.proargdefaults, 0), p.provolatile, p.proparallel, p.proisstrict,
	p.procost, p.prorows, p.prosrc, p.probin, p.proacl, obj_description(p.oid, 'pg_proc'), a.aggtransfn, a.aggfinalfn, a.aggcombinefn,
	a.aggserialfn, a.aggdeserialfn, a.aggtranstype::regtype, i.initprivs
FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
LEFT JOIN pg_init_privs i ON i.classoid = d.classid AND i.objoid = d.objid
WHERE d.deptype = 'e' AND e.extname = 'gkmeans'
ORDER BY 1
SQL
my $functions = q{SELECT count(*), count(*) FILTER (WHERE proname LIKE '%0\_1\_0%') FROM pg_proc WHERE proname LIKE '%gkmeans%'};
my $version = q{SELECT extversion FROM pg_extension WHERE extname = 'gkmeans'};
my $expected = do
{
	$node->safe_psql('fresh', 'CREATE EXTENSION gkmeans');
	$node->safe_psql('fresh', $catalog);
};
like($expected, qr/function gkmeans_fit\(/, 'a new installation');

# 0.1.0 with views, one of them with everything a view can have; and the same with the new version
my $made = <<'SQL';
CREATE SCHEMA "Other Schema";
CREATE TABLE points AS SELECT i AS id, i % 3 * 10 AS x, i % 7 AS y FROM generate_series(1, 70) i;
CREATE VIEW clusters AS SELECT * FROM gkmeans_fit('public.points', '{x,y}', 3);
CREATE VIEW "Other Schema"."the labels" (id, cluster, far) WITH (security_barrier, security_invoker = on) AS
	SELECT p.id, f.cluster_id, f.distance
	FROM public.points p JOIN gkmeans_fit_predict(NULL::int, 'TABLE public.points', '{x,y}', 3, id_column => 'id', n_init => 4) f USING (id)
	WHERE f.distance > 1;
CREATE VIEW above AS SELECT sum(size) AS rows FROM clusters;
CREATE VIEW last AS SELECT * FROM gkmeans_last_fit();
CREATE VIEW aliased AS SELECT "A b".cluster_id AS "(cluster_id, size)", ROW("A b".*)::text AS r FROM gkmeans_fit('VALUES (1), (5)', '{column1}', 2) "A b";
CREATE VIEW plain AS SELECT x FROM points;
CREATE VIEW constants AS SELECT 0.1::float8 + 0.2::float8 = 0.30000000000000004::float8 AS float, timestamptz '2024-02-03 04:05:06+00' = to_timestamp(1706933106) AS time, count(*) AS clusters FROM gkmeans_fit('public.points', '{x,y}', 3);
ALTER VIEW clusters RENAME COLUMN size TO members;
COMMENT ON VIEW clusters IS 'kept';
CREATE RULE no_rows AS ON INSERT TO clusters DO INSTEAD NOTHING;
GRANT SELECT ON clusters, points TO reporter;
ALTER VIEW "Other Schema"."the labels" OWNER TO reporter;
GRANT USAGE ON SCHEMA "Other Schema" TO reporter;
SQL
$node->safe_psql('updated', "CREATE ROLE reporter; CREATE EXTENSION gkmeans VERSION '0.1.0'; $made");
$node->safe_psql('fresh', $made);
my $views = <<'SQL';
SELECT oid::regclass, oid, relowner::regrole, relacl, reloptions, obj_description(oid, 'pg_class'),
	(SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
	(SELECT string_agg(rulename, ',' ORDER BY rulename) FROM pg_rewrite WHERE ev_class = c.oid)
FROM pg_class c WHERE relkind = 'v' AND relnamespace IN ('public'::regnamespace, '"Other Schema"'::regnamespace) ORDER BY 1
SQL
my $views_before = $node->safe_psql('updated', $views);
my $rows = 'TABLE clusters; TABLE above; TABLE aliased; TABLE constants; SELECT * FROM "Other Schema"."the labels" ORDER BY 1';
my $expected_rows = $node->safe_psql('fresh', $rows);
like($expected_rows, qr/\|24\|/, 'what the views show');

# What an update cannot keep is an error that leaves everything unchanged
$node->safe_psql('updated', q{CREATE MATERIALIZED VIEW stored AS SELECT * FROM gkmeans_fit('public.points', '{x,y}', 3) WITH NO DATA});
my (undef, undef, $error) = $node->psql('updated', 'ALTER EXTENSION gkmeans UPDATE');
like($error, qr/ERROR:  cannot drop function public\.gkmeans_fit_0_1_0.*because other objects depend on it\nDETAIL:  materialized view public\.stored depends on function/s, 'a materialized view is in the way');
is($node->safe_psql('updated', $version), '0.1.0', 'which leaves 0.1.0');
is($node->safe_psql('updated', $views), $views_before, 'and its views');
$node->safe_psql('updated', 'DROP MATERIALIZED VIEW stored');

# A temporary view, of this session or of another one, which only that can make again
my $temporary = q{CREATE TEMP VIEW temporary AS SELECT cluster_id FROM gkmeans_fit('public.points', '{x,y}', 3)};
$error = ($node->psql('updated', "$temporary; ALTER EXTENSION gkmeans UPDATE"))[2];
like($error, qr/ERROR:  view temporary is in the way\nDETAIL:  It is a temporary view of role \w+\.\nHINT:  Drop the view, or end the session/, 'a temporary view is in the way');
my $other = $node->background_psql('updated');
$other->query_safe($temporary);
$error = ($node->psql('updated', 'ALTER EXTENSION gkmeans UPDATE'))[2];
my ($found) = $error =~ /ERROR:  view (pg_temp_\d+\.temporary) is in the way\n/;
isnt($found, undef, 'and that of another session');
$node->safe_psql('updated', "DROP VIEW $found");
$other->quit;

# Nor does it change a text that lists the columns of a function elsewhere
for my $select (q{SELECT read, k_effective, iterations FROM gkmeans_last_fit() f (read)}, q{SELECT 1 AS "a'", ') x(kind, device, bytes, peak)'::text AS literal, m.k1 FROM gkmeans_memory() m(k1, d1, b1, p1)}, q{SELECT m.k1, ') x(kind, device, bytes, peak)'::text AS literal FROM gkmeans_memory() m(k1, d1, b1, p1)}, q{SELECT cluster_id, ') x(cluster_id, centroid, size, weight, inertia, avg_distance, radius)'::text AS help FROM gkmeans_fit('public.points', '{x,y}', 3)},
	q{SELECT f.cluster_id, s.inertia FROM gkmeans_fit('public.points', '{x,y}', 3) f JOIN (SELECT 0 AS cluster_id, 1 AS centroid, 2 AS size, 3 AS inertia, 4 AS weight, 5 AS avg_distance, 6 AS radius) s (cluster_id, centroid, size, weight, inertia, avg_distance, radius) USING (cluster_id)})
{
	$node->safe_psql('updated', "CREATE VIEW listed AS $select");
	$error = ($node->psql('updated', 'ALTER EXTENSION gkmeans UPDATE'))[2];
	like($error, qr/ERROR:  view public\.listed is in the way\nDETAIL:  Its text renames columns of public\.gkmeans_(last_fit|fit|memory)\(.*\), or lists them elsewhere as well\./, 'columns of a function elsewhere');
	$node->safe_psql('updated', 'DROP VIEW listed');
}

# Nor does it parse a text that runs functions of others
my $checked = <<~'SQL';
	CREATE SCHEMA others;
	CREATE FUNCTION others.checked(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE WARNING $$trapped$$; RETURN true; END';
	CREATE DOMAIN others.small AS int CHECK (others.checked(VALUE));
	CREATE TYPE others.pair AS (a others.small);
	CREATE TYPE others.word AS ENUM ('(1)');
	SQL
$node->safe_psql('updated', $checked);
for my $literal ([ q{'(1)'::others.pair}, 'type others.pair' ], [ q{'{1}'::others.small[]}, 'type others.small[]' ], [ q{'{"(1)"}'::others.pair[]}, 'type others.pair[]' ],
	[ q{'(1)'::others.word}, 'type others.word' ], [ q{(SELECT gkmeans_feed(1, 2, 3, 4, '(1)'))}, 'function public.gkmeans_feed(bigint,bigint,"any","any","any")' ])
{
	$node->safe_psql('updated', "CREATE VIEW trapped AS SELECT *, $literal->[0] AS literal FROM gkmeans_last_fit()");
	$error = ($node->psql('updated', 'ALTER EXTENSION gkmeans UPDATE'))[2];
	like($error, qr/^psql:<stdin>:1: ERROR:  view public\.trapped is in the way\nDETAIL:  It uses \Q$literal->[1]\E,/, "a literal that runs a check: $literal->[1]");
	$node->safe_psql('updated', 'DROP VIEW trapped');
}
$node->safe_psql('updated', 'SET client_min_messages = error; DROP SCHEMA others CASCADE');
$node->safe_psql('updated', 'CREATE FUNCTION gkmeans_fit(text, text[], integer) RETURNS TABLE (cluster_id int, centroid float8[], size bigint, weight float8, inertia float8, avg_distance float8, radius float8) LANGUAGE sql AS $$ SELECT NULL::int, NULL::float8[], NULL::bigint, 0.0::float8, 0.0::float8, 0.0::float8, 0.0::float8 $$');
$error = ($node->psql('updated', 'ALTER EXTENSION gkmeans UPDATE'))[2];
like($error, qr/ERROR:  view \S+ would use function (public\.)?gkmeans_fit\(text,text\[\],integer\), which it did not before/, 'nor lets a view call a function that fits better');
$node->safe_psql('updated', 'DROP FUNCTION gkmeans_fit(text, text[], integer)');
is($node->safe_psql('updated', $views), $views_before, 'which leaves the views');

# Nor may a view take the name of another one while the update waits for the readers of a third
$node->safe_psql('updated', "CREATE SCHEMA one; CREATE SCHEMA other; CREATE SCHEMA read; CREATE VIEW read.v AS SELECT cluster_id FROM gkmeans_fit('VALUES (0)', '{column1}', 1); CREATE VIEW one.v AS SELECT cluster_id FROM gkmeans_fit('VALUES (1)', '{column1}', 1); CREATE VIEW other.v AS SELECT cluster_id FROM gkmeans_fit('VALUES (2)', '{column1}', 1)");
my $reader = $node->background_psql('updated');
my $updater = $node->background_psql('updated', on_error_stop => 0);
$reader->query_safe('BEGIN; LOCK TABLE read.v IN ACCESS SHARE MODE');
start_query($updater, 'ALTER EXTENSION gkmeans UPDATE');
$node->poll_query_until('updated', "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'read.v'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)") or die 'the update does not wait';
$node->safe_psql('updated', q{SET lock_timeout = '1min'; ALTER SCHEMA one RENAME TO once; ALTER SCHEMA other RENAME TO one; ALTER SCHEMA once RENAME TO other});
$reader->quit;
$updater->query('');
like($updater->{stderr}, qr/ERROR:  another view took the name of view one\.v\n/, 'a view that takes the name of another');
$updater->quit;
like($node->safe_psql('updated', "SELECT pg_get_viewdef('one.v'::regclass)"), qr/VALUES \(2\)/, 'keeps its text');
$node->safe_psql('updated', 'DROP VIEW one.v, other.v, read.v; DROP SCHEMA one, other, read');

# The update, in the middle of a session that has the library
my ($status, $out, $said) = $node->psql('updated', "LOAD 'gkmeans'; SELECT count(*) FROM gkmeans_memory(); SET standard_conforming_strings = off; SET quote_all_identifiers = on; SET extra_float_digits = -5; SET datestyle = 'sql, dmy'; ALTER EXTENSION gkmeans UPDATE; RESET ALL; $rows; $version");
is($said, '', 'the update says nothing');
is($out, "4\n$expected_rows\n$new", 'the session goes on with its views');
is($node->safe_psql('updated', $catalog), $expected, 'the extension equals a new one');
is($node->safe_psql('updated', $functions), $node->safe_psql('fresh', $functions), 'there is no function besides');
like($node->safe_psql('updated', $functions), qr/\|0$/, 'and none of the old names');
is($node->safe_psql('updated', $views), $views_before, 'the views have their numbers, owners, privileges, options, comments and columns');
is($node->safe_psql('updated', $rows), $expected_rows, 'and the rows of a new installation');
is($node->safe_psql('updated', 'TABLE above; SELECT rows_read, k FROM last'), "70\n70|3", 'the view on gkmeans_last_fit() as well');
is($node->safe_psql('updated', 'SET ROLE reporter; SELECT count(*) FROM clusters'), 3, 'for those who may read them');
$error = ($node->psql('updated', 'DROP EXTENSION gkmeans'))[2];
like($error, qr/view clusters depends on function gkmeans_fit\(/, 'the views depend on the new functions');
is($node->safe_psql('updated', 'DROP EXTENSION gkmeans CASCADE; ' . $functions), '0|0', 'the extension can be dropped');

# In a schema of its own, and with privileges that were taken away
$node->safe_psql('elsewhere', <<'SQL');
CREATE SCHEMA ml;
CREATE EXTENSION gkmeans SCHEMA ml VERSION '0.1.0';
CREATE VIEW clusters AS SELECT * FROM ml.gkmeans_fit('VALUES (1), (2), (10)', '{column1}', 2);
REVOKE EXECUTE ON FUNCTION ml.gkmeans_devices() FROM PUBLIC;
SQL
$said = ($node->psql('elsewhere', 'ALTER EXTENSION gkmeans UPDATE'))[2];
like($said, qr/WARNING:  the privileges of function gkmeans_devices are those of a new installation\nHINT:  Grant and revoke again what was granted and revoked\./, 'privileges that are lost are told');
is($node->safe_psql('elsewhere', 'SELECT cluster_id, size FROM clusters'), "0|2\n1|1", 'a view on an extension in another schema');
is($node->safe_psql('elsewhere', "SET search_path = ml; $catalog"), $expected, 'which equals a new one as well');

# Before the update: functions that have other columns and other arguments now
for my $case ([ 'SELECT * FROM gkmeans_last_fit()', 'and its library have different versions' ], [ q{SELECT * FROM gkmeans_fit('points', '{x,y}', 3)}, 'and its library have different versions' ],
	[ q{SELECT * FROM gkmeans_fit_predict(NULL::int, 'points', '{x,y}', 3, id_column => 'id')}, 'and its library have different versions' ])
{
	my ($query, $wrong) = @$case;
	$node->safe_psql('fresh', 'DROP EXTENSION gkmeans CASCADE; CREATE EXTENSION gkmeans');
	$said = ($node->psql('fresh', "SELECT count(*) FROM gkmeans_fit('points', '{x,y}', 3); DROP EXTENSION gkmeans; CREATE EXTENSION gkmeans VERSION '0.1.0'; $query"))[2];
	like($said, qr/ERROR:  extension "gkmeans" $wrong\nHINT:  Run ALTER EXTENSION gkmeans UPDATE\.$/m, "before the update: $wrong");
}

# Operators and functions that fit better than those of PostgreSQL, or have names of the extension's, in the schema of the extension: neither its views nor its scripts call them.
my $traps = <<~'SQL';
	CREATE FUNCTION trap(float8, int) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION trap(float8, numeric) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION trap(oid, regclass) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION trap(text[], text) RETURNS text[] LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION trap(jsonb, jsonb) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION format(text, regprocedure, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION array_to_string(text[], text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE FUNCTION _gkmeans_feed_accumulate(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$trap$$; END';
	CREATE OPERATOR / (LEFTARG = float8, RIGHTARG = int, FUNCTION = trap);
	CREATE OPERATOR >= (LEFTARG = float8, RIGHTARG = numeric, FUNCTION = trap);
	CREATE OPERATOR <= (LEFTARG = float8, RIGHTARG = numeric, FUNCTION = trap);
	CREATE OPERATOR < (LEFTARG = float8, RIGHTARG = numeric, FUNCTION = trap);
	CREATE OPERATOR = (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = trap);
	CREATE AGGREGATE array_agg(text) (SFUNC = trap, STYPE = text[]);
	CREATE AGGREGATE jsonb_agg(jsonb) (SFUNC = trap, STYPE = jsonb);
	SQL
my $strange = <<~'SQL';
	SELECT r.ev_class::regclass, pg_describe_object(d.refclassid, d.refobjid, 0) FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
	JOIN pg_class v ON v.oid = r.ev_class JOIN pg_namespace n ON n.oid = v.relnamespace
	WHERE n.nspname = 'gkmeans' AND d.refclassid IN ('pg_proc'::pg_catalog.regclass, 'pg_operator'::pg_catalog.regclass)
	AND NOT EXISTS (SELECT FROM pg_depend m WHERE m.classid = d.refclassid AND m.objid = d.refobjid AND m.deptype = 'e')
	SQL
# The schema of its views, where names are quoted
$node->safe_psql('postgres', 'CREATE DATABASE quoted; ALTER DATABASE quoted SET quote_all_identifiers = on');
is($node->safe_psql('quoted', 'CREATE SCHEMA gkmeans; CREATE EXTENSION gkmeans SCHEMA gkmeans; SELECT count(*) FROM gkmeans.models'), 0, 'the extension in the schema of its views, with quote_all_identifiers');

for my $create ('CREATE EXTENSION gkmeans', "CREATE EXTENSION gkmeans VERSION '0.1.0'; CREATE VIEW old AS SELECT * FROM gkmeans_fit('public.data', '{x}', 2); ALTER EXTENSION gkmeans UPDATE")
{
	$node->safe_psql('elsewhere', 'SET client_min_messages = error; DROP EXTENSION IF EXISTS gkmeans CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE data AS SELECT generate_series(1, 9)::float8 AS x');
	$node->safe_psql('elsewhere', $traps);
	is(($node->psql('elsewhere', $create))[2], '', "$create: the script calls no trap");
	is($node->safe_psql('elsewhere', "SET search_path = pg_catalog; $strange"), '', 'the views depend on PostgreSQL and the extension alone');
	is($node->safe_psql('elsewhere', "SELECT FROM gkmeans_create_model('model', 'data', '{x}', 2); SELECT model, explained > 0, age_hours < 1, last_status FROM gkmeans.models"), "public.model|t|t|fitted", 'and show a model');
}

end_server($node);
done_testing();
