# Cancel, statement_timeout, termination and a lost client: within 100 ms of CPU time, in every phase of a fit, and nothing is left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = start_server('cancel');
my $slack = slack_ms();

# Fits that do not end by themselves, by the phase that takes the time.
my %phase = (
	'load, without workers' =>
		q{SELECT count(*) FROM gkmeans_fit('SELECT a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01 AND random() < 2', '{v}', 3)},
	'load, a source that sleeps' =>
		q{SELECT count(*) FROM gkmeans_fit('SELECT 1 AS x FROM pg_sleep(1000)', '{x}', 1)},
	'load, with workers' =>
		q{SELECT count(*) FROM gkmeans_fit('SELECT a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01', '{v}', 3)},
	'load, with ids' =>
		q{SELECT count(*) FROM gkmeans_fit_predict(NULL::bigint, 'SELECT 1::bigint AS id, a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01', '{v}', 3, id_column => 'id')},
	'seed, k-means||' =>
		q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 3000, init => 'k-means||', n_init => 1000, max_iter => 1)},
	'seed, k-means++' =>
		q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 20000, init => 'k-means++', n_init => 1000, max_iter => 1)},
	'seed, random' =>
		q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 500, init => 'random', n_init => 1000, max_iter => 1)},
	'iterate, small steps' =>
		q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 2, init => 'random', n_init => 1000, tol => 0)},
	'iterate, large steps' =>
		q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 30000, init => 'random', n_init => 1000, tol => 0)},
);

for my $name (sort keys %phase)
{
	my ($session, $pid) = new_session($node);
	my $threads = threads_of($pid);

	# cancel, outside a transaction and in one
	for my $block ('', 'BEGIN; ')
	{
		start_query($session, "$block$phase{$name}");
		wait_until_active($node, $pid);
		my $ms = $node->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
		cmp_ok($ms, '<', $slack, "$name: cancelled");
		$session->query('ROLLBACK') if $block;
		nothing_left($node, $session, $pid, $threads, "$name, cancelled");
		like($session->{stderr}, qr/canceling statement due to user request/, "$name: says so");
		$session->{stderr} = '';
		is($session->query("SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3)"), 3, "$name: the session goes on");
	}

	# statement_timeout, caught: the engine is gone at the moment of the error
	my $result = $session->query(<<~SQL);
		DO \$do\$
		DECLARE start timestamptz := clock_timestamp();
		BEGIN
			PERFORM set_config('statement_timeout', '600', false);
		END \$do\$;
		SELECT extract(epoch FROM clock_timestamp()) AS start \\gset
		$phase{$name};
		SET statement_timeout = 0;
		SELECT round(1000 * (extract(epoch FROM clock_timestamp()) - :start));
		SQL
	cmp_ok($result, '>=', 600, "$name: statement_timeout, not before its time");
	like($session->{stderr}, qr/canceling statement due to statement timeout/, "$name: says so");
	$session->{stderr} = '';
	nothing_left($node, $session, $pid, $threads, "$name, statement_timeout");

	# terminate
	start_query($session, $phase{$name});
	wait_until_active($node, $pid);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)"), "$name: terminated");
	is(backends_left($node), 0, "$name, terminated: no process left");
	cmp_ok(segments($node), '<=', settled_segments($node), "$name, terminated: no shared memory segment left");
	eval { $session->quit };
}

# Rows equally near to two centroids, which the definition decides: a timeout while it does.
my ($session, $pid) = new_session($node);
$session->query(<<~'SQL');
	CREATE TABLE doubtful AS SELECT ARRAY(SELECT noise(i, f)::real FROM generate_series(1, 64) f) AS v FROM generate_series(1, 5000) i;
	CREATE TABLE equal_centroids AS SELECT array_agg(a) AS c FROM (SELECT array_fill(0.5::float8, ARRAY[64]) AS a FROM generate_series(1, 3000)) s;
	CREATE TABLE small_integers AS SELECT ARRAY(SELECT (3 * noise(i, f))::int::real FROM generate_series(1, 24) f) AS v FROM generate_series(1, 4000) i;
	SQL
my %tied = (
	'equal centroids, one thread' =>
		q{SET gkmeans.cpu_threads = 1; SELECT count(*) FROM gkmeans_fit('doubtful', '{v}', initial_centroids => (SELECT c FROM equal_centroids), max_iter => 2)},
	'small integers' =>
		q{SET gkmeans.cpu_threads = 2; SELECT count(*) FROM gkmeans_fit('small_integers', '{v}', 1000, max_iter => 3)},
);
for my $name (sort keys %tied)
{
	my $start = time;
	$session->query($tied{$name});
	my $ms = 1000 * (time - $start);
	my $cancelled = 0;
	my $threads = threads_of($pid);
	$session->{stderr} = '';
	for my $i (1 .. 15)
	{
		my $timeout = int(1 + $ms * $i / 16);
		$session->query("SET statement_timeout = $timeout; $tied{$name}; SET statement_timeout = 0");
		$cancelled++ if $session->{stderr} =~ /statement timeout/;
		$session->{stderr} = '';
	}
	cmp_ok($cancelled, '>', 0, "$name: timeouts all over a fit");
	is($session->query('SELECT pg_backend_pid()'), $pid, "$name: the server is alive");
	nothing_left($node, $session, $pid, $threads, "$name, timeouts");
}

# Columns of a view whose names are alike in the bytes that PostgreSQL keeps: numbers tell them apart, after many tries.
$session->query(<<~'SQL');
	SELECT gkmeans_import_model('alike', exported => jsonb_build_object('gkmeans', 1, 'k', 1, 'dimension', 1590, 'metric', 'euclidean',
		'features', (SELECT jsonb_agg(repeat('a', 70) || i) FROM generate_series(1, 1590) i),
		'points', jsonb_build_array((SELECT jsonb_agg(i) FROM generate_series(1, 1590) i))));
	SQL
start_query($session, q{SELECT gkmeans_create_view('alike', 'alike_clusters', 'clusters')});
$node->poll_query_until('postgres', "SELECT state = 'active' AND query LIKE '%alike_clusters%' FROM pg_stat_activity WHERE pid = $pid");
cmp_ok($node->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')"), '<', $slack, 'a view of features whose names are alike: cancelled');
like($session->query('SELECT 1'), qr/1/, 'a view of features whose names are alike: the session goes on');
like($session->{stderr}, qr/canceling statement due to user request/, 'a view of features whose names are alike: says so');

# Views of unions of views, which have a key if all sides have it: 2^40 of them
$session->query(<<~'SQL');
	CREATE VIEW united_0 AS SELECT 1 AS x;
	DO $do$ BEGIN FOR i IN 1 .. 40 LOOP
		EXECUTE format('CREATE VIEW united_%s AS SELECT x FROM united_%s UNION ALL SELECT x FROM united_%2$s', i, i - 1);
	END LOOP; END $do$;
	CREATE TABLE keyed (x int PRIMARY KEY);
	CREATE OR REPLACE VIEW united_0 AS SELECT x FROM keyed;
	SQL
$session->{stderr} = '';
$session->query("SET statement_timeout = '1min'");
$session->query(q{SELECT count(*) FROM gkmeans_fit('SELECT x FROM united_40', k => 2)});
like($session->{stderr}, qr/no numbers besides its keys/, 'keys of views of unions: each view is looked at once');
$session->query('RESET statement_timeout');
$session->{stderr} = '';

# Features of one column of another table, beside a labels table with many partitions.
$session->query(<<~'SQL');
	CREATE TABLE trips AS SELECT i AS id, i::float8 AS distance FROM generate_series(1, 100) i;
	CREATE TABLE parted (id int PRIMARY KEY, cluster_id int, distance float8) PARTITION BY RANGE (id);
	DO $do$ BEGIN FOR i IN 0 .. 499 LOOP
		EXECUTE format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES FROM (%s) TO (%s)', i, 10 * i, 10 * i + 10);
	END LOOP; END $do$;
	SQL
my $work = $node->safe_psql('postgres', "SELECT (work_of($pid)).ms");
$session->query(<<~'SQL');
	SELECT count(*) FROM gkmeans_fit(
		(SELECT 'SELECT t.id, l.distance AS old, ' || string_agg(format('t.distance AS f%s', i), ', ') FROM generate_series(1, 500) i)
			|| ' FROM trips t LEFT JOIN parted l USING (id)',
		(SELECT array_agg('f' || i) FROM generate_series(1, 500) i), 2, id_column => 'id', labels_table => 'parted', if_exists => 'merge');
	SQL
$work = $node->safe_psql('postgres', "SELECT (work_of($pid)).ms") - $work;
note "worked for $work ms, slack $slack";
cmp_ok($work, '<', $slack * 20, 'many features and partitions: soon checked');

# Means of many numbers: cancels all over the call.
my $means = q{SELECT rows FROM gkmeans_evaluate_labels('SELECT i / 2 AS l, array_fill((0.1 + random())::real, ARRAY[20000]) AS f FROM generate_series(0, 399) i', '{f}', 'l', sample => 10)};
my $began = time;
$session->query("SET gkmeans.cpu_threads = 1; $means");
my $lasts = time - $began;
my ($latest, $cancels) = (0, 0);
for my $i (1 .. 10)
{
	$session->{stderr} = '';
	start_query($session, $means);
	wait_until_active($node, $pid);
	$node->safe_psql('postgres', "SELECT pg_sleep(@{[ $lasts * $i / 11 ]})");
	my $ms = $node->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
	$latest = $ms if $ms > $latest;
	$session->query('SELECT 1');
	$cancels++ if $session->{stderr} =~ /canceling statement due to user request/;
}
$session->query('RESET gkmeans.cpu_threads');
$session->{stderr} = '';
note sprintf('%.1f s, %d cancelled', $lasts, $cancels);
cmp_ok($cancels, '>', 0, 'means of many numbers: cancelled');
cmp_ok($latest, '<', $slack, 'means of many numbers: soon');

# A picture of many centroids without rows: to place a cell among all of them takes each of them, once for a feature.
$session->query(<<~'SQL');
	SELECT gkmeans_import_model('many', (SELECT array_agg(a) FROM (SELECT array_fill((i % 7)::float8, ARRAY[40]) AS a FROM generate_series(1, 100000) i) s));
	SQL
my $before = $node->safe_psql('postgres', "SELECT (work_of($pid)).ms");
cmp_ok($session->query(q{SELECT length(gkmeans_plot('many', 'profile', width => 1600, height => 1200))}), '>', 1000, 'a picture of many centroids');
cmp_ok($node->safe_psql('postgres', "SELECT (work_of($pid)).ms") - $before, '<', 1500, 'a picture of many centroids: soon ready');

# Numbers whose texts are far longer than what is stored of them.
$session->query(<<~'SQL');
	SELECT gkmeans_import_model('brief', ARRAY[[1], [2]]::float8[]);
	UPDATE brief SET history = (SELECT '[' || string_agg(format('{"start": 1, "iteration": %s, "inertia": 1e131071}', i), ', ') || ']'
		FROM generate_series(1, 40000) i)::jsonb;
	SQL
$before = $node->safe_psql('postgres', "SELECT (work_of($pid)).ms");
is($session->query(q{SELECT count(*) FROM gkmeans.plots WHERE model = 'public.brief'}), 2, 'long numbers: pictures');
is($session->query(q{SELECT count(*) FROM gkmeans.iterations WHERE model = 'public.brief' AND inertia IS NULL}), 40000, 'long numbers: iterations');
cmp_ok($node->safe_psql('postgres', "SELECT (work_of($pid)).ms") - $before, '<', 1500, 'long numbers: soon ready');

# Versions whose texts are long, of which pictures show the beginnings, if anything.
$session->query(<<~'SQL');
	SELECT count(*) FROM gkmeans_create_model('wordy', 'data', '{x,y}', 30);
	INSERT INTO wordy (version, group_no, part, status, outcome) SELECT i, 0, 0, 'failed', repeat('x', 200000000) FROM generate_series(2, 5) i;
	UPDATE wordy SET names = (SELECT array_agg(repeat('x', 1000000) || i) FROM generate_series(1, 30) i) WHERE version = 1;
	SQL
$before = $node->safe_psql('postgres', "SELECT (work_of($pid)).ms");
like($session->query(q{SELECT gkmeans_plot('wordy', 'sizes', width => 4000, height => 4000)}), qr/^<svg/, 'long texts: a picture');
cmp_ok($node->safe_psql('postgres', "SELECT (work_of($pid)).ms") - $before, '<', 1500, 'long texts: soon ready');
eval { $session->quit };

# The client disconnects in the middle of a fit: the backend continues unless told to check.
my ($silent, $silent_pid) = new_session($node);
start_query($silent, $phase{'iterate, large steps'});
wait_until_active($node, $silent_pid);
$silent->{run}->kill_kill(grace => 0);
wait_until_active($node, $silent_pid);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($silent_pid)");
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $silent_pid)"), 'a lost client: the fit goes on until it is ended');
$node->append_conf('postgresql.conf', 'client_connection_check_interval = 50');
$node->reload;
for my $name ('load, a source that sleeps', 'load, with workers', 'seed, k-means||', 'iterate, large steps')
{
	my ($lost, $lost_pid) = new_session($node);
	start_query($lost, $phase{$name});
	wait_until_active($node, $lost_pid);
	$lost->{run}->kill_kill(grace => 0);
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $lost_pid)"), "$name: a lost client ends its backend with client_connection_check_interval");
	cmp_ok(segments($node), '<=', settled_segments($node), "$name: a lost client leaves no shared memory segment");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM gkmeans_sessions()'), 0, "$name: a lost client leaves no host memory");
}

end_server($node);
done_testing();
