# Models beyond one session: dump and restore by the owner of a database, a standby, logical replication, prepared
# statements while another session deploys, and damaged rows under valgrind.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', allows_streaming => 'logical');
$primary->safe_psql('postgres', <<~'SQL');
	CREATE ROLE tenant LOGIN;
	CREATE DATABASE shop OWNER tenant;
	SQL
$primary->safe_psql('shop', <<~'SQL');
	CREATE EXTENSION gkmeans;
	SET ROLE tenant;
	CREATE TABLE customers AS SELECT i AS id, i % 7 * 10.0 AS spent, i % 3 AS visits FROM generate_series(1, 500) i;
	SET search_path = "$user", public;
	CREATE SCHEMA area;
	SELECT gkmeans_create_model('area.segments', 'public.customers', '{spent,visits}', 4, scale => 'standard', id_column => 'id', labels_table => 'area.labels');
	SELECT gkmeans_create_model('area.segments', 'public.customers', '{spent,visits}', 3, scale => 'minmax', if_exists => 'replace');
	SELECT gkmeans_name_clusters('area.segments', '{one,two,three}');
	COMMENT ON TABLE area.segments IS 'kinds of customers';
	CREATE VIEW area.scored AS SELECT c.id, gkmeans_predict('area.segments', c) AS segment FROM public.customers c;
	CREATE TABLE public.generated (spent float8, visits int);
	SQL
my $scores = q{SELECT string_agg(gkmeans_predict('area.segments', c) || gkmeans_name('area.segments', c), ',' ORDER BY id) FROM public.customers c};
my $seen = q{SELECT * FROM gkmeans.clusters ORDER BY 1};
my $expected = $primary->safe_psql('shop', $scores);

# Dump by the owner of the database, restore by the same
my $dump = PostgreSQL::Test::Utils::tempdir() . '/shop.dump';
$primary->command_ok([ 'pg_dump', '-U', 'tenant', '-Fc', '-f', $dump, $primary->connstr('shop') ], 'the owner of the database dumps it');
$primary->safe_psql('postgres', 'CREATE DATABASE copy OWNER tenant');
$primary->safe_psql('copy', 'CREATE EXTENSION gkmeans');
$primary->command_ok([ 'pg_restore', '-U', 'tenant', '--no-comments', '-d', $primary->connstr('copy'), '-L', restorable($dump), $dump ], 'and restores it');
is($primary->safe_psql('copy', $scores), $expected, 'the copy gives the same labels and names');
is($primary->safe_psql('copy', 'SELECT count(DISTINCT segment) FROM area.scored'), 3, 'a view that predicts was restored');
is($primary->safe_psql('copy', 'SELECT count(*) FROM area.segments'), 2, 'with all versions');
is($primary->safe_psql('copy', $seen), $primary->safe_psql('shop', $seen), 'the views show the same');
is($primary->safe_psql('copy', "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'area.segments'::regclass"),
	$primary->safe_psql('shop', "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'area.segments'::regclass"), 'the definition was restored');
my ($one) = run_command([ 'pg_dump', '-U', 'tenant', '-t', 'area.segments', $primary->connstr('shop') ]);
$primary->safe_psql('postgres', 'CREATE DATABASE single OWNER tenant');
$primary->safe_psql('single', "CREATE EXTENSION gkmeans; CREATE SCHEMA area AUTHORIZATION tenant;");
$primary->safe_psql('single', $one);
is($primary->safe_psql('single', q{SELECT gkmeans_predict('area.segments', 60, 2)}), $primary->safe_psql('shop', q{SELECT gkmeans_predict('area.segments', 60, 2)}), 'one model alone');

my ($schema) = run_command([ 'pg_dump', '-U', 'tenant', '-n', 'area', $primary->connstr('shop') ]);
$primary->safe_psql('postgres', 'CREATE DATABASE schema OWNER tenant');
$primary->safe_psql('schema', "CREATE EXTENSION gkmeans; SET ROLE tenant; CREATE TABLE public.customers (id int, spent numeric, visits int)");
$primary->safe_psql('schema', "SET ROLE tenant;\n$schema");
is($primary->safe_psql('schema', $seen), $primary->safe_psql('shop', $seen), 'one schema, restored by the same role');
is($primary->safe_psql('schema', q{INSERT INTO public.customers VALUES (1, 60, 2); SET ROLE tenant; SELECT segment FROM area.scored}), $primary->safe_psql('shop', q{SELECT gkmeans_predict('area.segments', 60, 2)}), 'with its view');

# DROP EXTENSION
my ($status, $out, $error) = $primary->psql('single', 'DROP EXTENSION gkmeans');
like($error, qr/other objects depend on it/, 'DROP EXTENSION refuses while there is a model');
$primary->safe_psql('single', 'DROP EXTENSION gkmeans CASCADE');
is($primary->safe_psql('single', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'area'::regnamespace}), 0, 'CASCADE drops it');
is($primary->safe_psql('single', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'gkmeans'}), 0, 'and the schema of the views');
$primary->safe_psql('single', 'CREATE SCHEMA gkmeans');
($status, $out, $error) = $primary->psql('single', 'CREATE EXTENSION gkmeans');
like($error, qr/schema "gkmeans" already exists/, 'a foreign schema of the name stops the installation');
$primary->safe_psql('single', 'ALTER SCHEMA gkmeans OWNER TO tenant');
($status, $out, $error) = $primary->psql('single', 'CREATE EXTENSION gkmeans SCHEMA gkmeans');
like($error, qr/schema "gkmeans" belongs to another role.*could put functions into it.*HINT:  Drop or rename it/s, 'and is not installed into');
$primary->safe_psql('single', 'ALTER SCHEMA gkmeans RENAME TO theirs; CREATE SCHEMA gkmeans; CREATE EXTENSION gkmeans SCHEMA gkmeans');
is($primary->safe_psql('single', q{SELECT gkmeans.gkmeans_import_model('public.m', '{{1}}'); SELECT count(*) FROM gkmeans.models}), "1\n1", 'the extension may be in a schema of that name itself');

# Roles
$primary->safe_psql('shop', 'CREATE ROLE heir; REASSIGN OWNED BY tenant TO heir; ALTER ROLE heir RENAME TO keeper; GRANT USAGE ON SCHEMA area TO keeper');
is($primary->safe_psql('shop', $scores), $expected, 'predictions go on under another owner');
is($primary->safe_psql('shop', q{SELECT owner FROM gkmeans.models}), 'keeper', 'whom the view shows');
$primary->safe_psql('shop', 'REASSIGN OWNED BY keeper TO tenant');

# A prepared statement, while another session deploys
my $session = $primary->background_psql('shop', on_error_stop => 0);
$session->query_safe(q{PREPARE p AS SELECT gkmeans_name('area.segments', $1::float8, $2::float8) IN ('one', 'two', 'three')});
is($session->query_safe('EXECUTE p (60, 2)'), 't', 'a prepared statement') for 1 .. 6;
is($primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 1)}), 2, 'another session deploys');
is($session->query_safe('EXECUTE p (60, 2)'), 'f', 'the statement follows');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($session->query_safe('EXECUTE p (60, 2)'), 'f', 'a snapshot');
is($primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 2)}), 1, 'another deployment');
is($session->query_safe('EXECUTE p (60, 2)'), 'f', 'the snapshot stays');
$session->query_safe('SAVEPOINT s');
$session->query(q{SELECT gkmeans_refit('area.segments', deploy => 'never')});
like($session->{stderr}, qr/could not serialize.*after this transaction began/s, 'a refit reads none that the transaction does not see');
$session->{stderr} = '';
$session->query_safe('ROLLBACK TO s');
$session->query(q{SELECT gkmeans_assign('area.segments', 'SELECT 1 AS id, 60 AS spent, 2 AS visits', 'id', 'area.assigned')});
like($session->{stderr}, qr/version 1 is no longer deployed.*after the transaction began.*HINT:  Repeat the transaction/s, 'labels of that version are refused');
$session->{stderr} = '';
$session->query_safe('ROLLBACK');
is($session->query_safe('EXECUTE p (60, 2)'), 't', 'the next transaction follows');
$primary->safe_psql('shop', 'VACUUM FULL area.segments');
is($session->query_safe('EXECUTE p (60, 2)'), 't', 'a table that was rewritten');
$session->quit;

# The owner of a schema lets a view take the name of another role's model, again and again: its function is not called
$primary->safe_psql('shop', <<~'SQL');
	CREATE ROLE analyst;
	CREATE TABLE called (role name);
	CREATE TABLE stop ();
	GRANT INSERT ON called TO analyst;
	CREATE SCHEMA here;
	CREATE SCHEMA there;
	GRANT ALL ON SCHEMA here, there TO analyst;
	SET ROLE analyst;
	SELECT gkmeans_import_model('here.model', '{{1},{100}}');
	SELECT gkmeans_import_model('here.model', '{{2},{200}}', if_exists => 'replace');
	RESET ROLE;
	CREATE FUNCTION trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN true; END $$;
	CREATE VIEW there.model WITH (security_invoker) AS SELECT * FROM here.model WHERE trap();
	GRANT ALL ON there.model TO analyst;
	SQL
my $owner = $primary->background_psql('shop');
$owner->query_until(qr/begins/, <<~'SQL');
	\echo begins
	DO $$ BEGIN
		WHILE NOT EXISTS (SELECT FROM stop) LOOP
			ALTER SCHEMA here RENAME TO old; ALTER SCHEMA there RENAME TO here; COMMIT;
			ALTER SCHEMA here RENAME TO there; ALTER SCHEMA old RENAME TO here; COMMIT;
		END LOOP;
	END $$;
	SQL
$primary->safe_psql('shop', <<~'SQL');
	SET ROLE analyst;
	DO $$ DECLARE model regclass := (SELECT oid FROM pg_class WHERE relname = 'model' AND relkind = 'r'); BEGIN
		FOR i IN 1 .. 3000 LOOP
			BEGIN
				PERFORM gkmeans_deploy(model, 1 + i % 2);
			EXCEPTION WHEN object_not_in_prerequisite_state OR undefined_table THEN NULL;
			END;
			COMMIT;
		END LOOP;
	END $$;
	RESET ROLE;
	INSERT INTO stop DEFAULT VALUES;
	SQL
$owner->quit;
is($primary->safe_psql('shop', 'SELECT DISTINCT role FROM called'), '', 'a view that takes the name of a model');
$primary->safe_psql('shop', 'DROP TABLE called, stop; DROP SCHEMA here, there CASCADE; DROP FUNCTION trap; DROP ROLE analyst');

# What a session keeps of a model is another row's no more when the table is filled again by the same transaction: the
# field for the command then holds a number for two of them, here one after the other
$primary->safe_psql('shop', q{SELECT gkmeans_import_model('kept_' || n, '{{1},{100}}', names => ARRAY[n || '0', n || '1']) FROM unnest('{a,b}'::text[]) n; CREATE TABLE scratch (x int)});
my @answers = map { (split /\n/, $primary->safe_psql('shop', <<~"SQL"))[-1] } 0 .. 9;
	BEGIN;
	CREATE TABLE filled OF gkmeans_model;
	INSERT INTO filled SELECT * FROM kept_a;
	SELECT gkmeans_name('filled', 1.0);
	TRUNCATE filled;
	DO \$\$ BEGIN FOR i IN 1 .. $_ LOOP INSERT INTO scratch VALUES (i); DELETE FROM scratch; END LOOP; END \$\$;
	INSERT INTO filled SELECT * FROM kept_b;
	DECLARE c CURSOR FOR SELECT gkmeans_name('filled', 1.0);
	DELETE FROM filled;
	FETCH c;
	ROLLBACK;
	SQL
is("@answers", join(' ', ('b0') x 10), 'a table that is filled again');

# An index that is younger than the snapshot says nothing of what the snapshot sees
$primary->safe_psql('shop', q{SELECT gkmeans_import_model('kept_a', '{{1},{100}}', if_exists => 'replace'); DROP INDEX kept_a_expr_idx; UPDATE kept_a SET deployed = true});
my $old = $primary->background_psql('shop', on_error_stop => 0);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$primary->safe_psql('shop', q{UPDATE kept_a SET deployed = NULL WHERE version = 2; CREATE UNIQUE INDEX ON kept_a ((true)) WHERE deployed});
is($old->query(q{SELECT gkmeans_predict_version('kept_a', 1, 1.0)}), 0, 'a version of a model with two that are deployed');
$old->query(q{SELECT gkmeans_name('kept_a', 1.0)});
like($old->{stderr}, qr/several deployed versions/, 'the deployed one');
$old->quit;
$primary->safe_psql('shop', 'DROP TABLE kept_a, kept_b, scratch');

# A standby
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
is($standby->safe_psql('shop', $scores), $expected, 'a standby predicts the same');
is($standby->safe_psql('shop', $seen), $primary->safe_psql('shop', $seen), 'and shows the same');
for my $call (q{gkmeans_create_model('m', 'public.customers', '{spent}', 2)}, q{gkmeans_import_model('m', '{{1}}')}, q{gkmeans_deploy('area.segments', 1)}, q{gkmeans_rollback('area.segments')},
	q{gkmeans_prune('area.segments')}, q{gkmeans_name_clusters('area.segments', '{a,b,c}')})
{
	(undef, undef, $error) = $standby->psql('shop', "\\set VERBOSITY verbose\nSELECT $call");
	like($error, qr/25006/, "the standby refuses $call");
}
$primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 1)});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('shop', $scores), $primary->safe_psql('shop', $scores), 'a deployment arrives');
$primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 2)});
$standby->stop;

# Logical replication
$primary->safe_psql('shop', 'CREATE PUBLICATION models FOR TABLE area.segments');
my $subscriber = start_server('subscriber');
$subscriber->safe_psql('postgres', 'CREATE SCHEMA area');
$subscriber->safe_psql('postgres', q{CREATE TABLE area.segments OF gkmeans_model (PRIMARY KEY (version, group_no, part))});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION models CONNECTION '" . $primary->connstr . " dbname=shop' PUBLICATION models");
$subscriber->wait_for_subscription_sync($primary, 'models');
is($subscriber->safe_psql('postgres', q{SELECT gkmeans_predict('area.segments', 60, 2)}), $primary->safe_psql('shop', q{SELECT gkmeans_predict('area.segments', 60, 2)}), 'a subscriber predicts the same');
$primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 1)});
$primary->wait_for_catchup('models');
is($subscriber->safe_psql('postgres', q{SELECT version FROM area.segments WHERE deployed}), 1, 'a deployment is replicated');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION models');

# A publication of all tables, to a server with the same tables; the models that are made later arrive as well
$primary->safe_psql('shop', 'CREATE PUBLICATION everything FOR ALL TABLES');
my $all = $primary->connstr . ' dbname=shop';
$subscriber->safe_psql('postgres', 'CREATE DATABASE replica');
my ($shape) = run_command([ 'pg_dump', '--schema-only', '--no-owner', '--no-publications', $primary->connstr('shop') ]);
$subscriber->safe_psql('replica', $shape);
$subscriber->safe_psql('replica', "CREATE SUBSCRIPTION everything CONNECTION '$all' PUBLICATION everything");
$subscriber->wait_for_subscription_sync($primary, 'everything', 'replica');
is($subscriber->safe_psql('replica', $scores), $primary->safe_psql('shop', $scores), 'a subscriber to all tables predicts the same');
is($subscriber->safe_psql('replica', $seen), $primary->safe_psql('shop', $seen), 'and shows the same');
$primary->safe_psql('shop', q{SELECT gkmeans_deploy('area.segments', 2); SET ROLE tenant; SELECT gkmeans_create_model('area.later', 'public.customers', '{spent}', 2)});
$subscriber->safe_psql('replica', 'CREATE TABLE area.later OF gkmeans_model (PRIMARY KEY (version, group_no, part)); ALTER SUBSCRIPTION everything REFRESH PUBLICATION');
$subscriber->wait_for_subscription_sync($primary, 'everything', 'replica');
$primary->wait_for_catchup('everything');
is($subscriber->safe_psql('replica', $scores), $expected, 'a deployment is replicated');
is($subscriber->safe_psql('replica', q{SELECT gkmeans_predict('area.later', 60)}), $primary->safe_psql('shop', q{SELECT gkmeans_predict('area.later', 60)}), 'and a new model');
# A subscriber does not know whether a run goes on
my $running = q{SELECT status FROM gkmeans.versions WHERE model = 'area.segments' AND version = 99};
$primary->safe_psql('shop', q{INSERT INTO area.segments (version, group_no, part, status, started_at) VALUES (99, 0, 0, 'running', now())});
$primary->wait_for_catchup('everything');
is($subscriber->safe_psql('replica', $running), 'running', 'a run of the publisher');
is($primary->safe_psql('shop', $running), 'lost', 'where it is known that it has ended');
$subscriber->safe_psql('replica', 'DROP SUBSCRIPTION everything');
is($subscriber->safe_psql('replica', $running), 'lost', 'and without the subscription');
$primary->safe_psql('shop', 'DELETE FROM area.segments WHERE version = 99');
$primary->safe_psql('shop', 'DROP TABLE area.later');
end_server($subscriber);

# After a commit, PL/pgSQL checks a domain before there is a snapshot.
for my $call (
	"gkmeans_predict('area.segments', VALUE, 1)", "gkmeans_score('area.segments', VALUE, 1)", "gkmeans_centroids('area.segments')",
	"gkmeans_export('area.segments')", "gkmeans_plot('area.segments')", "gkmeans_report('area.segments')",
	"gkmeans_create_view('area.segments', 'area.kinds', 'clusters', 'replace')", "gkmeans_evaluate('area.segments', 'public.customers')",
	"gkmeans_evaluate_labels('public.customers', '{spent}', 'visits')", "gkmeans_compare('area.segments', 'area.segments', 'public.customers', 1, 2)",
	"gkmeans_compare_labels('public.customers', 'visits', 'visits')", "gkmeans_deploy('area.segments', 2)",
	"gkmeans_assign('area.segments', 'public.customers', 'id', 'area.assigned', 'replace')")
{
	my ($status, $out, $error) = $primary->psql('shop', <<~SQL);
		CREATE DOMAIN area.number AS int CHECK (($call) IS NOT NULL OR VALUE >= 0);
		DO \$\$ DECLARE n area.number; BEGIN COMMIT; GET DIAGNOSTICS n = ROW_COUNT; COMMIT; GET DIAGNOSTICS n = ROW_COUNT; END \$\$;
		SELECT 'alive';
		DROP DOMAIN area.number;
		SQL
	is("$out$error", 'alive', "without a snapshot: $call");
}

# A collation may have more digits than those that make a number
SKIP:
{
	my ($status) = $primary->psql('postgres', q{CREATE DATABASE digits TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'});
	skip 'this server has no ICU', 1 if $status != 0;
	is($primary->safe_psql('digits', <<~SQL), '', 'a report with digits of another script');
		SET client_min_messages = warning;
		CREATE EXTENSION gkmeans;
		\\o /dev/null
		SELECT gkmeans_create_model('m', 'SELECT i AS x FROM generate_series(1, 9) i', '{x}', 3);
		\\o
		UPDATE m SET report = jsonb_set(report, '{devices}', U&'"\\0663"');
		SELECT devices FROM gkmeans.versions;
		SQL
}

# What a session reads of models with long texts in the catalogs is not kept
$primary->safe_psql('postgres', 'CREATE DATABASE texts');
$primary->safe_psql('texts', <<~'SQL');
	CREATE EXTENSION gkmeans;
	SELECT gkmeans_import_model('long_' || i, '{{1},{2}}') FROM generate_series(1, 20) i;
	DO $$ BEGIN FOR i IN 1 .. 20 LOOP EXECUTE format('ALTER TABLE long_%s ALTER note SET DEFAULT %L', i, repeat('a', 2000000)); END LOOP; END $$;
	SQL
my $kept = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'CacheMemoryContext'";
for my $view (qw(models versions clusters centroid_features drift iterations k_selection plots))
{
	my ($rows, $bytes) = split /\n/, $primary->safe_psql('texts', "SELECT count(*) FROM gkmeans.$view; $kept");
	cmp_ok($bytes, '<', 8_000_000, "$view: $rows rows of models with long defaults, which are not kept in memory");
}

# Damaged rows and every form of scoring under valgrind
SKIP:
{
	skip 'valgrind is not installed', 1 if system('valgrind --version >/dev/null 2>&1') != 0;
	skip 'valgrind and GPU drivers do not go together', 1 if ($ENV{TEMP_CONFIG} // '') ne '' && slurp_file($ENV{TEMP_CONFIG}) =~ /cuda/;
	$primary->stop;
	$primary->append_conf('postgresql.conf', "shared_buffers = 16MB\ngkmeans.cpu_threads = 2\njit = off");
	my @queries = (
		q{SELECT count(gkmeans_predict('area.segments', c)), count(gkmeans_transform('area.segments', spent, visits)), count(gkmeans_anomaly_percentile('area.segments', ARRAY[spent, visits])) FROM public.customers c WHERE id <= 50},
		q{SELECT count(*) FROM public.customers c, LATERAL gkmeans_score('area.segments', c) s, LATERAL gkmeans_nearest('area.segments', 2, c) n, LATERAL gkmeans_explain('area.segments', c) e WHERE id <= 20},
		q{SELECT count(gkmeans_predict_with(e, spent, visits)) FROM public.customers, (SELECT gkmeans_export('area.segments')::jsonb e) x WHERE id <= 20},
		q{SELECT count(*), sum(cluster_id) FROM gkmeans_predict_rows(NULL::int, 'area.segments', 'public.customers', 'id')},
		q{SELECT * FROM gkmeans_assign('area.segments', 'public.customers', 'id', 'area.labels')},
		q{SELECT count(*) FROM gkmeans_create_model('public.v', 'public.customers', '{spent,visits}', 3, metric => 'cosine')},
		q{SELECT gkmeans_import_model('public.bad', '{{1,2},{3,4},{5,6}}', scale_offset => '{0,0}', scale_factor => '{1,1}', names => '{a,b,c}')},
		q{SELECT count(*) FROM gkmeans.models, gkmeans.clusters, gkmeans.centroid_features});
	for my $damage (q{k = 2}, q{k = 1000000}, q{dimension = 65535}, q{dimension = 1}, q{features = '{}'}, q{shift = '{1}'}, q{scale_offset = '{{1,2}}'}, q{scale_factor = '{}'}, q{centroids = '{1,2}'}, q{points = '{{1}}'},
		q{points = '{}'}, q{ties = '{5,6,7}'}, q{cluster_ids = '{1,1,1}'}, q{names = '{}'}, q{sizes = '{1}'}, q{weights = '{}'}, q{avg_distances = '{1}'}, q{score_quantiles = '{1,2,3}'}, q{radii = '{1}'}, q{inertias = '{1}'}, q{deviations = '{{1}}'}, q{deviations = '{{1,2},{3,-4},{5,6}}'})
	{
		my ($attribute) = $damage =~ /(\w+)/;
		push @queries, "UPDATE public.bad SET $damage", q{SELECT gkmeans_predict('public.bad', 1, 2)}, q{SELECT count(*) FROM gkmeans_clusters('public.bad')}, q{SELECT count(*) FROM gkmeans.clusters}, q{SELECT count(*) FROM gkmeans.centroid_features}, q{SELECT length(gkmeans_report('public.bad'))},
			"UPDATE public.bad b SET $attribute = g.$attribute FROM public.good g";
	}
	splice(@queries, 7, 0, 'CREATE TABLE public.good AS TABLE public.bad');
	my $log = PostgreSQL::Test::Utils::tempdir() . '/valgrind.log';
	my $postgres = $primary->config_data('--bindir') . '/postgres';
	my $input = join("\n", @queries) . "\n";
	($out, $error) = ('', '');
	IPC::Run::run(
		[ 'valgrind', '--quiet', '--trace-children=no', '--leak-check=no', '--error-exitcode=9', '--num-callers=30', "--log-file=$log",
			"--suppressions=$FindBin::Bin/../valgrind.supp", $postgres, '--single', '-D', $primary->data_dir, 'shop' ],
		'<', \$input, '>', \$out, '2>', \$error);
	my $status = $? >> 8;
	is($status, 0, 'valgrind finds nothing') or diag(slurp_file($log));
	my @errors = $error =~ /ERROR:  (.*)/g;
	is(scalar(grep { !/is damaged/ } @errors), 0, 'no other error than damage') or diag($error);
	cmp_ok(scalar(@errors), '>=', 20, 'every damage is found');
	unlike($error, qr/leak/i, 'no leak is told of');
	$primary->start;
}

# A page that cannot be read is an error in the views as well, and no session waits for it
$primary->safe_psql('shop', q{SELECT count(*) FROM gkmeans_create_model('public.wide', 'SELECT array_agg(random() * j) AS v FROM generate_series(1, 10) j, generate_series(1, 1000) i GROUP BY i', '{v}', 300); CHECKPOINT});
my $views = q{SET statement_timeout = '60s'; SELECT count(*) FROM gkmeans.clusters; SELECT count(*) FROM gkmeans.centroid_features; SELECT count(*) FROM gkmeans.plots; SELECT gkmeans_predict('public.wide', ARRAY[1,2,3,4,5,6,7,8,9,10])};
my $file = $primary->data_dir . '/' . $primary->safe_psql('shop', q{SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = 'public.wide'::regclass});
my $pages = (-s $file) / 8192;
for (["\xff" x 18, 8, 'invalid page in block'], ["\0" x 8192, 0, 'missing chunk number'])
{
	my ($bytes, $place, $message) = @$_;
	$primary->stop;
	open my $damaged, '+<', $file or die $!;
	for my $page (0 .. $pages - 1)
	{
		seek $damaged, 8192 * $page + $place, 0;
		print $damaged $bytes;
	}
	close $damaged;
	$primary->start;
	for my $session (1, 2)
	{
		my (undef, undef, $said) = $primary->psql('shop', $views, on_error_stop => 0);
		is(scalar(() = $said =~ /ERROR:  $message/g), 4, "$message, session $session: errors");
		unlike($said, qr/leak|timeout/, "$message, session $session: nothing else");
	}
}
end_server($primary);
done_testing();

# The list of a dump without what only a superuser restores.
sub restorable
{
	my ($file) = @_;
	my ($list) = run_command([ 'pg_restore', '-l', $file ]);
	my $name = PostgreSQL::Test::Utils::tempdir() . '/list';
	append_to_file($name, join("\n", grep { !/ EXTENSION | SCHEMA - public/ } split(/\n/, $list)) . "\n");
	return $name;
}
