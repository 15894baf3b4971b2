# What superusers limit: threads, and the host memory of all sessions together, on the primary and on a standby.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('limits', allows_streaming => 1);
$node->append_conf('postgresql.conf', 'gkmeans.engine = cpu');
$node->reload;
$node->safe_psql('postgres', 'CREATE ROLE analyst LOGIN; CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION gkmeans');

# The results and the errors of some SQL in a session of its own.
sub ask
{
	my ($query, %options) = @_;
	my (undef, $out, $error) = ($options{on} // $node)->psql($options{in} // 'postgres', "\\set VERBOSITY verbose\n$query", on_error_stop => 0);
	return join "\n", grep { $_ ne '' } $out, $error =~ s/^psql:[^ ]* |\nLOCATION:.*//gmr;
}

my $fit = q{SELECT md5(string_agg(f::text, ' ' ORDER BY f)) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast') f};
my $large = q{SELECT sum(size) FROM gkmeans_fit('large', '{v}', 3, max_iter => 2, quality => 'fast')};
my $endless = q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 30000, init => 'random', n_init => 1000, tol => 0, quality => 'fast')};
my $bits = ask($fit);
my $threads = 'SELECT threads FROM gkmeans_last_fit()';

# Threads
is(ask("SET gkmeans.cpu_threads = 7; $fit; $threads"), "$bits\n7", 'no cap');
is(ask("SET gkmeans.cpu_threads = 7; SET gkmeans.max_cpu_threads = 3; $fit; $threads"), "$bits\n3", 'more threads than the cap are lowered to it');
is(ask("SET gkmeans.cpu_threads = 2; SET gkmeans.max_cpu_threads = 3; $fit; $threads"), "$bits\n2", 'fewer are left alone');
is(ask("SET gkmeans.max_cpu_threads = 1; $fit; $threads"), "$bits\n1", 'the number that is left open is capped too');
my $cores = () = `cat /proc/cpuinfo` =~ /^processor/mg;
is(ask("SET gkmeans.cpu_threads = 1024; $fit; $threads"), "$bits\n" . ($cores > 8 ? 2 * $cores : 16), 'nobody gets a thousand threads unless a superuser allows it');
is(ask("SET gkmeans.cpu_threads = 20; SET gkmeans.max_cpu_threads = 1024; $fit; $threads"), "$bits\n20", 'who may');
$node->safe_psql('postgres', 'ALTER ROLE analyst SET gkmeans.max_cpu_threads = 2');
my $as_analyst = $node->connstr('postgres') . " user=analyst";
$node->safe_psql('postgres', 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst');
for my $setting ('gkmeans.max_cpu_threads', 'gkmeans.total_host_memory_limit')
{
	is(ask("SET ROLE analyst; $fit; SET $setting = 0"), qq{$bits\nERROR:  42501: permission denied to set parameter "$setting"}, "only a superuser sets $setting");
}
is($node->safe_psql('postgres', "SET gkmeans.cpu_threads = 9; $fit; $threads", connstr => $as_analyst), "$bits\n2", 'a cap of a role');
is(ask("$fit; SET gkmeans.max_cpu_threads = -1"), "$bits\nERROR:  22023: -1 is outside the valid range for parameter \"gkmeans.max_cpu_threads\" (0 .. 1024)", 'a cap below 0');

# What the server says counts whatever a role tells its session before the library is loaded
$node->append_conf('postgresql.conf', "gkmeans.max_cpu_threads = 1\ngkmeans.host_memory_limit = '64MB'\ngkmeans.cpu_threads = 5");
$node->reload;
$node->safe_psql('postgres', 'CREATE ROLE guest LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest');
my $as_guest = $node->connstr('postgres') . ' user=guest';
my $shown = "SHOW gkmeans.max_cpu_threads; SHOW gkmeans.host_memory_limit";
my $limits = $node->safe_psql('postgres', q{LOAD 'gkmeans'; SELECT string_agg(name, ' ') FROM pg_settings WHERE name LIKE 'gkmeans.%' AND context = 'superuser'});
is(scalar(split ' ', $limits), 7, 'there are seven limits');
for my $limit (split ' ', $limits)
{
	my ($status, $out, $error) = $node->psql('postgres', $fit, connstr => "$as_guest options='-c $limit=0'");
	like($error, qr/^psql:<stdin>:1: ERROR:  permission denied to set parameter "$limit"$/m, "$limit: no option of a connection");
	is($out, '', "$limit: no fit, either");
	($status, $out, $error) = $node->psql('postgres', $fit, connstr => "$as_guest options='-c \U$limit\E=0'");
	like($error, qr/^psql:<stdin>:1: ERROR:  permission denied to set parameter "$limit"$/m, "$limit: nor in capitals");
	is($node->safe_psql('postgres', $fit, connstr => $node->connstr('postgres') . " options='-c $limit=" . ($limit =~ /devices/ ? '' : 1048576 >> ($limit =~ /threads|backends/ ? 11 : 0)) . "'"),
		$bits, "$limit: an option of a superuser");
}
# A timeout while the library is loaded, and warns of a setting
my $predict = "SELECT gkmeans_predict_centroids('{{1},{2}}', '{1}')";
my %second;
for my $try (1 .. 100)
{
	my (undef, $out, $error) = $node->psql('postgres', "SET gkmeans.max_cpu_threads = 2; SET statement_timeout = " . (1 + $try % 8) . "; $predict; RESET statement_timeout; \\echo second\n$predict",
		connstr => $as_guest, on_error_stop => 0);
	$second{$out =~ /second\n(.*)/ ? $1 : $error}++;
}
is(join(', ', keys %second), '0', 'the next call answers');
$node->safe_psql('postgres', 'GRANT SET ON PARAMETER gkmeans.max_cpu_threads TO guest');
is($node->safe_psql('postgres', "SELECT count(*) FROM gkmeans_memory(); $shown", connstr => "$as_guest options='-c gkmeans.max_cpu_threads=3'"), "4\n3\n64MB", 'an option of whoever may set it');
$node->safe_psql('postgres', 'REVOKE SET ON PARAMETER gkmeans.max_cpu_threads FROM guest');
is($node->safe_psql('postgres', "SET client_min_messages = error; SET gkmeans.max_cpu_threads = 1024; SELECT count(*) FROM gkmeans_memory(); $shown", connstr => $as_guest), "4\n1\n64MB", 'set before the library is loaded');
$node->safe_psql('postgres', q{
	CREATE FUNCTION load_below(float8) RETURNS float8 LANGUAGE plpgsql PARALLEL SAFE AS
		$$ BEGIN EXECUTE 'SELECT count(*) FROM gkmeans_memory()'; RETURN $1; END $$});
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0';
my ($status, $out, $error) = $node->psql('postgres', "$parallel; SELECT count(load_below(x)) FROM data; $shown; $fit; $threads", connstr => $as_guest);
is("$out\n$error", "3000\n1\n64MB\n$bits\n1\n", 'loaded below a Gather');
$node->append_conf('postgresql.conf', "gkmeans.max_cpu_threads = 0\ngkmeans.host_memory_limit = 0\ngkmeans.cpu_threads = 0");
$node->reload;
my $from_jobs = q{CREATE FUNCTION refit_it(int) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN EXECUTE 'SELECT gkmeans_refit(''m'')'; RETURN 1; END $$};
$node->safe_psql('postgres', "$from_jobs; SELECT count(*) FROM gkmeans_create_model('m', 'data', '{x,y}', 3)");
($status, $out, $error) = $node->psql('postgres', "$parallel; SELECT count(refit_it(id)) FROM data");
like($error, qr/ERROR:  cannot execute gkmeans_refit\(\) during a parallel operation/, 'a refit below a Gather');

# Memory that one session holds is not available to another, even in another database
sub held_by
{
	my ($pid, $on) = @_;
	return ($on // $node)->safe_psql('postgres', "SELECT coalesce(max(host_bytes), 0) FROM gkmeans_sessions() WHERE pid = $pid");
}
my ($session, $pid) = new_session($node);
is(held_by($pid), 0, 'a session without a fit holds nothing');
start_query($session, $endless);
wait_until_active($node, $pid);
# its memory no longer grows once it has moved the centroids of its first start
$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM gkmeans.progress WHERE pid = $pid AND iteration > 0)") or die 'the fit does not iterate';
my $bytes = held_by($pid);
cmp_ok($bytes, '>=', 200_000 * 16 * 4, 'a session that fits holds its rows');
my $peak = ask(q{SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast'); SELECT host_bytes_peak FROM gkmeans_last_fit()}) =~ s/.*\n//r;
my $kb = int(($bytes + $peak) / 1024) + 1;
my $refused = qr/^ERROR:  53200: gkmeans: the fits of all sessions together are out of host memory
DETAIL:  (\d+) bytes more are needed, (\d+) bytes are held, (\d+) bytes are allowed\.
HINT:  gkmeans_sessions\(\) shows who holds it: try again when they are done\. The setting "gkmeans\.total_host_memory_limit" limits this memory\.(?:\nCONTEXT:  (?:parallel worker\n)?source "data")?$/;

for my $database ('postgres', 'other')
{
	$node->safe_psql('other', 'CREATE TABLE data AS SELECT i % 3 * 10.0 + i / 3000.0 AS x, 1.0 AS y FROM generate_series(1, 3000) i') if $database eq 'other';
	like(ask("SET gkmeans.total_host_memory_limit = '$kb kB'; $fit", in => $database), qr/^[0-9a-f]{32}$/, "$database: enough for both");
	my $answer = ask("SET gkmeans.total_host_memory_limit = '@{[int($bytes / 1024)]} kB'; $fit; SELECT sum(bytes) FROM gkmeans_memory()", in => $database);
	my ($last) = $answer =~ /^(\d+)\n/;
	$answer =~ s/^\d+\n//;
	like($answer, $refused, "$database: over the limit");
	is($last, 0, "$database: nothing is held after it");
	my ($needed, $held, $allowed) = $answer =~ $refused;
	cmp_ok($held + $needed, '>', $allowed, "$database: its figures say why");
	cmp_ok($held, '>=', $bytes, "$database: they count the other session");
}
is(ask("SET gkmeans.total_host_memory_limit = '1 kB'; SET gkmeans.total_host_memory_limit = 0; $fit"), $bits, '0 leaves it to the memory of the host');
is(ask("SET gkmeans.host_memory_limit = '1TB'; $fit"), $bits, 'a limit of one fit that the host does not have');

# A worker that reports it knows the figures
$node->safe_psql('postgres', 'CREATE TABLE many AS SELECT i % 3 * 10.0 AS x, 1.0 AS y FROM generate_series(1, 2000000) i');
my $by_workers = ask(qq{SET parallel_leader_participation = off; SET gkmeans.total_host_memory_limit = '@{[int($bytes / 1024)]} kB'; }
	. q{SELECT count(*) FROM gkmeans_fit('many', '{x,y}', 3)});
like($by_workers, qr/\nCONTEXT:  parallel worker\nsource "many"$/, 'a worker reports that memory is refused');
my ($more, $taken, $limit) = $by_workers =~ /DETAIL:  (\d+) bytes more are needed, (\d+) bytes are held, (\d+) bytes are allowed/;
is($limit, int($bytes / 1024) * 1024, 'it names the limit');
cmp_ok($taken + $more, '>', $limit, 'and the bytes that exceed it');
$node->safe_psql('postgres', 'DROP TABLE many');

# It is returned however a fit ends
my $all = 'SELECT coalesce(sum(host_bytes), 0) FROM gkmeans_sessions()';
$node->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
is(ask($all), 0, 'a cancelled fit returns it');
$session->{stderr} = '';
$session->query("SET gkmeans.total_host_memory_limit = '8MB'");
for my $block ("BEGIN; SAVEPOINT s; $large; ROLLBACK TO s; $fit; COMMIT", "$large; $fit")
{
	$session->{stderr} = '';
	is($session->query($block), $bits, 'a fit that is refused leaves room for a smaller one');
	like($session->{stderr}, qr/the fits of all sessions together are out of host memory/, 'it was refused');
}
is(ask($all), 0, 'a refused fit returns it');
$session->query('RESET gkmeans.total_host_memory_limit');
is($session->query(q{SELECT count(*) FROM gkmeans_fit('SELECT x, y, 1 / (CASE WHEN (SELECT sum(size) FROM gkmeans_fit(''data'', ''{x,y}'', 3)) > 0 THEN 1 END) AS z FROM data', '{x,y}', 3)}),
	3, 'a fit inside a fit');
is(ask($all), 0, 'both return it');
start_query($session, $endless);
wait_until_active($node, $pid);
cmp_ok(held_by($pid), '>', 0, 'a session fits again');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
is(ask($all), 0, 'a terminated session returns it');
eval { $session->quit };

# Many sessions at once, too many for the memory: afterwards nothing is held
my @crowd = map { (new_session($node))[0] } 1 .. 6;
my ($gate) = new_session($node);
$gate->query('SELECT pg_advisory_lock(1)');
start_query($_, "SELECT pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1); SET gkmeans.total_host_memory_limit = '40MB'; $large; RESET gkmeans.total_host_memory_limit; $fit") for @crowd;
# what a session prints before all have started would be lost
$gate->query('SELECT pg_advisory_unlock(1)');
my @answers = map { $_->query('SELECT 1') } @crowd;
my $others = grep { $_->{stderr} =~ /ERROR/ && $_->{stderr} !~ /out of host memory/ } @crowd;
is(scalar(grep { /^$bits$/m } @answers), 6, 'six sessions: all go on');
is($others, 0, 'six sessions: no other error');
is(ask($all), 0, 'six sessions: all is returned');
$_->quit for @crowd, $gate;

# kill -9 of a backend: the server restarts, with an empty account
($session, $pid) = new_session($node);
start_query($session, $endless);
wait_until_active($node, $pid);
cmp_ok(held_by($pid), '>', 0, 'before a kill -9 a session holds memory');
my $log_before = -s $node->logfile;
kill 'KILL', $pid;
ok($node->wait_for_log(qr/database system is ready to accept connections/, $log_before), 'the server is back');
eval { $session->quit };
is(ask($all), 0, 'after a kill -9 nothing is held');
is(ask("SET gkmeans.total_host_memory_limit = '$peak'; SET gkmeans.total_host_memory_limit = '@{[int($peak / 1024) + 1]} kB'; $fit"), $bits, 'and all of it can be had');

# A standby has an account of its own
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
($session, $pid) = new_session($standby);
start_query($session, $endless);
wait_until_active($standby, $pid);
cmp_ok(held_by($pid, $standby), '>', 0, 'the standby: a session holds memory');
like(ask("SET gkmeans.total_host_memory_limit = '4MB'; $fit", on => $standby), $refused, 'the standby: over the limit');
is(ask($all), 0, 'the primary holds nothing');
$standby->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
is(ask($all, on => $standby), 0, 'the standby: it is returned');
$session->quit;
end_server($standby);

# The names of clusters are in memory once, not for each pair of them
my ($comparing, $comparing_pid) = new_session($node);
$comparing->query("SELECT gkmeans_import_model('grid_' || feature, (SELECT array_agg(ARRAY[i::float8]) FROM generate_series(1, 500) i), ARRAY[feature]) FROM unnest('{a,b}'::text[]) feature");
my $peak_of = sub { return `cat /proc/$comparing_pid/status` =~ /^VmHWM:\s+(\d+) kB$/m ? $1 : undef };
my $peak_before = $peak_of->();
is($comparing->query(q{SELECT count(*) FROM gkmeans_transitions('grid_a', 'grid_b', 'SELECT a, b FROM generate_series(1, 500) a, generate_series(1, 500) b')}), 250000, 'many pairs of clusters');
cmp_ok($peak_of->() - $peak_before, '<', 40000, 'many pairs of clusters: kB of memory');

# Nor do names that nobody gave need memory when labels are written with them
$comparing->query(q{SELECT gkmeans_import_model('numbered', (SELECT array_agg(ARRAY[i::float8]) FROM generate_series(1, 500000) i), '{x}');
	CREATE TABLE one_row AS SELECT 1 AS id, 5.0 AS x;
	CREATE TABLE plain_labels (id int PRIMARY KEY, cluster_id int);
	CREATE TABLE named_labels (id int PRIMARY KEY, cluster_id int, name text)});
my $assign_to = sub { return $comparing->query("SELECT labelled FROM gkmeans_assign('numbered', 'one_row', 'id', '$_[0]')") };
is($assign_to->('plain_labels'), 1, 'a label of many clusters');
$peak_before = $peak_of->();
is($assign_to->('named_labels'), 1, 'with its name');
cmp_ok($peak_of->() - $peak_before, '<', 100000, 'names that nobody gave: kB of memory');

# Nor do views unpack values that are longer than any that gkmeans writes
$node->safe_psql('postgres', q{
	SELECT gkmeans_import_model('swollen', '{{1,2},{3,4}}');
	ALTER TABLE swollen ALTER centroids SET STORAGE EXTENDED;
	UPDATE swollen SET centroids = array_fill(0::float8, '{10000000}'), sample_points = array_fill(0::real, '{40000000,1}'),
		drift = jsonb_build_object('psi', 0.1, 'clusters', repeat('x', 80000000)), history = jsonb_build_array(repeat('x', 80000000)), k_selection = jsonb_build_array(repeat('x', 80000000)), report = jsonb_build_object('engine', repeat('x', 80000000))});
$peak_before = $peak_of->();
is($comparing->query(qq{SELECT version FROM gkmeans.models WHERE model = 'public.swollen'; SELECT engine FROM gkmeans.versions WHERE model = 'public.swollen'}), "1\n", 'a model with long values');
is($comparing->query("SELECT count(*) FROM gkmeans.$_ WHERE model = 'public.swollen'"), 0, "gkmeans.$_ leaves it out") for qw(clusters centroid_features drift iterations k_selection plots);
cmp_ok($peak_of->() - $peak_before, '<', 40000, 'kB of memory');
$comparing->quit;

# Of many versions, a page has the texts of those that it lists, and a picture none
$node->safe_psql('postgres', q{
	SELECT gkmeans_import_model('wordy', '{{1,2},{3,4}}');
	INSERT INTO wordy (version, group_no, part, status, outcome, finished_at, inertia) SELECT i, 0, 0, repeat('s', 16004), repeat('o', 16004), now(), 1.5 FROM generate_series(2, 3000) i});
($comparing, $comparing_pid) = new_session($node);
$comparing->query("SELECT gkmeans_report('wordy', 1)");
$peak_before = $peak_of->();
is($comparing->query("SELECT gkmeans_report('wordy') LIKE '%ooo%', gkmeans_plot('wordy', 'history') LIKE '<svg%'"), 't|t', 'pictures of a model with many versions');
cmp_ok($peak_of->() - $peak_before, '<', 40000, 'many versions: kB of memory');
# Nor is a definition indented that is nested deeply
$node->safe_psql('postgres', q{UPDATE wordy SET definition = jsonb_build_object('deep', (repeat('[', 2000) || (SELECT string_agg('0', ',') FROM generate_series(1, 60000)) || repeat(']', 2000))::jsonb) WHERE version = 1});
$peak_before = $peak_of->();
is($comparing->query("SELECT gkmeans_report('wordy', 1) LIKE '%[[[[[[[[%'"), 't', 'a deep definition');
cmp_ok($peak_of->() - $peak_before, '<', 40000, 'a deep definition: kB of memory');
# Nor do views join more names of features than there may be
$node->safe_psql('postgres', q{UPDATE wordy SET features = array_fill(''::text, '{20000000}') WHERE version = 1});
$peak_before = $peak_of->();
is($comparing->query("SELECT features IS NULL FROM gkmeans.models WHERE model = 'public.wordy'"), 't', 'many features');
cmp_ok($peak_of->() - $peak_before, '<', 40000, 'many features: kB of memory');
$comparing->quit;

# Candidates of k: only the best one keeps its clusters, of 6 MB here, and no reference of the gap does
$node->safe_psql('postgres', "CREATE TABLE points_of_$_ AS SELECT array_agg(noise(i, f)::real) AS v FROM generate_series(1, 600) i, generate_series(1, $_) f GROUP BY i") for 512, 4000;
for (['simplified_silhouette', 4000, 100, 'sample => 2'], ['elbow', 4000, 100, 'sample => 2'], ['gap', 512, 400, 'gap_references => 1'])
{
	my ($criterion, $features, $k, $options) = @$_;
	my $source = "'points_of_$features', '{v}'";
	($comparing, $comparing_pid) = new_session($node);
	$comparing->query("SELECT count(*) FROM gkmeans_fit($source, $k, max_iter => 1, quality => 'fast')");
	$peak_before = $peak_of->();
	is($comparing->query("SELECT count(*) FROM gkmeans_select_k($source, ARRAY(SELECT generate_series($k, $k + 40)), '$criterion', max_iter => 1, n_init => 1, init => 'random', quality => 'fast', $options)"), 41, "$criterion: candidates");
	cmp_ok($peak_of->() - $peak_before, '<', 70000, "$criterion: kB of memory");
	$comparing->quit;
}

# A server without shared memory left: locks have taken it
$node->append_conf('postgresql.conf', "max_connections = 1000\nmax_wal_senders = 0\nwal_level = minimal");
$node->restart;
my ($hungry) = $node->background_psql('postgres', on_error_stop => 0);
$hungry->query('SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, 1000000) i');
like($hungry->{stderr}, qr/out of shared memory/, 'locks have taken the shared memory');
is(ask("SET gkmeans.total_host_memory_limit = '1GB'; $fit"), $bits, 'an account fits into what they have left');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_shmem_allocations WHERE name LIKE 'gkmeans host memory%' AND size < 10000}), 1, 'a smaller one');
$hungry->quit;
my ($counted, $counted_pid) = new_session($node);
start_query($counted, $endless);
wait_until_active($node, $counted_pid);
$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM gkmeans.progress WHERE pid = $counted_pid AND iteration > 0)") or die 'the fit does not iterate';
like(ask("SET gkmeans.total_host_memory_limit = '@{[int($bytes / 1024)]} kB'; $fit"), $refused, 'it counts other sessions');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($counted_pid)");
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $counted_pid)");
is(ask("SET gkmeans.total_host_memory_limit = '@{[int($bytes / 1024)]} kB'; $fit"), $bits, 'until they end');
eval { $counted->quit };

# No shared memory is left at all
SKIP:
{
	skip 'test/modules is not installed', 3 unless has_module('gkmeans_faults');
	$node->restart;
	$node->safe_psql('postgres', q{
		CREATE FUNCTION take_shared_memory() RETURNS void AS '$libdir/gkmeans_faults', 'gkmeans_take_shared_memory' LANGUAGE C;
		LOAD 'gkmeans';
		SELECT take_shared_memory()});
	my $missing = qr/no shared memory for the sum of the host memory of all sessions/;
	my $hint = qr/HINT:  Locks have taken it for good\. Raise "max_locks_per_transaction", and restart the server\./;
	like(ask("$fit; $fit"), qr/^$bits\n$bits\nWARNING:  53200: $missing\nDETAIL:  Fits of this session count only their own memory\.\n$hint$/, 'a fit goes on, with one warning');
	is(ask("SET client_min_messages = error; SET gkmeans.host_memory_limit = '1MB'; $fit"), $bits, 'the limit of one fit needs no account');
	like(ask("SET gkmeans.total_host_memory_limit = '1GB'; $fit"), qr/^ERROR:  53200: $missing\nDETAIL:  gkmeans\.total_host_memory_limit limits that sum\.\n$hint$/, 'but a limit that is set is an error');
}

end_server($node, killed => 1);
done_testing();
