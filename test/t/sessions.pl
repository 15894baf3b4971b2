# Long and concurrent sessions: memory stays flat, threads block signals, two fits at once, errors and abandoned cursors leave nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('sessions');
my $fit = q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')};
my $expected = $node->safe_psql('postgres', $fit);

# 1000 fits in one session
my ($session, $pid) = new_session($node);
my $threads = threads_of($pid);
sub fits
{
	my ($count) = @_;
	return $session->query(<<~SQL);
		DO \$\$
		BEGIN
			FOR i IN 1 .. $count LOOP
				BEGIN
					PERFORM * FROM gkmeans_fit('data', CASE WHEN i % 10 = 0 THEN '{nowhere}'::text[] ELSE '{x,y}' END, 1 + i % 7, quality => 'fast',
						init => (ARRAY['k-means||', 'k-means++', 'random'])[1 + i % 3], weight_column => CASE WHEN i % 2 = 0 THEN 'y' END);
					PERFORM * FROM gkmeans_fit_predict(NULL::int, 'data', '{x}', 2, id_column => 'id', seed => i, quality => 'fast');
				EXCEPTION WHEN undefined_column THEN
				END;
				COMMIT;
			END LOOP;
		END \$\$;
		SQL
}
fits(100);
my $before = resident_of($pid);
my $contexts = $session->query('SELECT sum(total_bytes) FROM pg_backend_memory_contexts');
fits(900);
my $after = resident_of($pid);
cmp_ok($after - $before, '<', 4096, "memory stays flat over 1000 fits ($before kB, then $after kB)");
cmp_ok($session->query('SELECT sum(total_bytes) FROM pg_backend_memory_contexts') - $contexts, '<', 1_000_000, 'so do the memory contexts');
nothing_left($node, $session, $pid, $threads, '1000 fits');

# many fits in one transaction
$session->query('BEGIN');
$session->query($fit) for 1 .. 20;
is(segments($node), settled_segments($node), 'many fits in one transaction: no shared memory segment left');
is(threads_of($pid), $threads, 'many fits in one transaction: no thread left');
$session->query('COMMIT');

# An error in a transaction block, before the ROLLBACK
$session->query('BEGIN');
$session->query(q{SELECT * FROM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 3)});
like($session->{stderr}, qr/division by zero/, 'an error in a transaction block');
$session->{stderr} = '';
is(segments($node), settled_segments($node), 'before the ROLLBACK: no shared memory segment left');
is(threads_of($pid), $threads, 'before the ROLLBACK: no thread left');
$session->query('ROLLBACK');
nothing_left($node, $session, $pid, $threads, 'after the ROLLBACK');

# ROLLBACK TO SAVEPOINT, abandoned cursors, LIMIT 1
$session->query("BEGIN; SAVEPOINT s; $fit; ROLLBACK TO s; SELECT * FROM gkmeans_fit('data', '{x,y}', 3) LIMIT 1");
nothing_left($node, $session, $pid, $threads, 'ROLLBACK TO and LIMIT 1');
$session->query("DECLARE c CURSOR FOR $fit; FETCH 1 FROM c");
nothing_left($node, $session, $pid, $threads, 'an abandoned cursor');
$session->query("DECLARE h CURSOR WITH HOLD FOR $fit; COMMIT");
nothing_left($node, $session, $pid, $threads, 'a cursor WITH HOLD');
is($session->query('FETCH ALL FROM h'), $expected, 'a cursor WITH HOLD gives its rows after the COMMIT');
$session->query('CLOSE h');
$session->query(q{DO $$ BEGIN PERFORM * FROM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 3);
	EXCEPTION WHEN division_by_zero THEN PERFORM * FROM gkmeans_fit('data', '{x,y}', 3); END $$});
nothing_left($node, $session, $pid, $threads, 'an error caught in PL/pgSQL');

# Two fits at once, and the threads of a fit that runs
my ($other, $other_pid) = new_session($node);
start_query($session, q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 3000, init => 'random', n_init => 1000, tol => 0, quality => 'fast')});
start_query($other, q{SELECT count(*) FROM gkmeans_fit('SELECT a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01', '{v}', 3)});
wait_until_active($node, $pid);
wait_until_active($node, $other_pid);
is($node->safe_psql('postgres', $fit), $expected, 'a third fit beside two others');
for my $process ($pid, $other_pid)
{
	my @open;
	for my $task (glob("/proc/$process/task/*"))
	{
		next if $task =~ m{/$process$};
		my ($blocked) = eval { slurp_file("$task/status") } =~ /^SigBlk:\s+([0-9a-f]+)/m;
		# HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD URG
		for my $signal (1, 2, 3, 10, 12, 13, 14, 15, 17, 23)
		{
			push @open, "$task: $signal" unless hex($blocked) >> ($signal - 1) & 1;
		}
	}
	is("@open", '', 'threads block all signals');
}
cmp_ok(threads_of($other_pid), '>', 1, 'the rows are drained by a thread');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($_)") for $pid, $other_pid;
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE state = 'active' AND pid IN ($pid, $other_pid)");
$_->{stderr} = '' for $session, $other;
nothing_left($node, $session, $pid, $threads, 'two fits at once, the first');
nothing_left($node, $other, $other_pid, $threads, 'two fits at once, the second');

# Eight sessions at once give the same result as one alone
my @sessions = map { $node->background_psql('postgres') } 1 .. 8;
$_->query_until(qr/started/, "\\echo started\n\\o /dev/null\n" . "$fit;\n" x 20 . "\\o\n") for @sessions;
is($_->query($fit), $expected, 'eight sessions at once') for @sessions;
$_->quit for @sessions;

# The operating system refuses memory, or a thread
my ($poor, $poor_pid) = new_session($node);
my $poor_threads = threads_of($poor_pid);
my ($address_space) = slurp_file("/proc/$poor_pid/status") =~ /^VmSize:\s+(\d+) kB/m;
system_or_bail('prlimit', "--pid=$poor_pid", '--as=' . 1024 * ($address_space + 40 * 1024) . ':');
$poor->query(q{SET gkmeans.engine = cpu; SELECT count(*) FROM gkmeans_fit('SELECT v FROM large, generate_series(1, 5)', '{v}', 3)});
like($poor->{stderr}, qr/gkmeans: out of memory.*DETAIL:  mmap failed for \d+ bytes/s, 'memory that the system refuses is told from the limit');
$poor->{stderr} = '';
nothing_left($node, $poor, $poor_pid, $poor_threads, 'refused memory');
is($poor->query($fit), $expected, 'and the session goes on');
system_or_bail('prlimit', "--pid=$poor_pid", '--nproc=1:');
$poor->query($fit);
like($poor->{stderr}, qr/gkmeans: could not start a thread.*DETAIL:  pthread_create failed\./s, 'so is a thread that the system refuses');
$poor->{stderr} = '';
nothing_left($node, $poor, $poor_pid, $poor_threads, 'a refused thread');
$poor->quit;

# auto_explain shows the plan of the source
SKIP:
{
	my ($library) = run_command([ 'pg_config', '--pkglibdir' ]);
	skip 'auto_explain is not installed', 5 unless -f "$library/auto_explain.so";
	my ($status, $out, $said) = $node->psql('postgres', <<~SQL);
		LOAD 'auto_explain';
		SET auto_explain.log_min_duration = 0;
		SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_analyze = on;
		SET client_min_messages = log;
		$fit;
		SQL
	is($out, $expected, 'a fit under auto_explain');
	like($said, qr/Query Text: SELECT \S*gkmeans_feed\(.*Gather .*Workers Launched: [1-9].*Parallel Seq Scan on data/s, 'auto_explain.log_nested_statements shows how the source is read');
	like($said, qr/Query Text: SELECT \* FROM gkmeans_fit.*Function Scan on gkmeans_fit/s, 'and the fit around it');

	# nothing can interrupt JIT compilation
	(undef, undef, $said) = $node->psql('postgres', <<~SQL);
		LOAD 'auto_explain';
		SET auto_explain.log_min_duration = 0;
		SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_analyze = on;
		SET jit = on;
		SET jit_above_cost = 0;
		SELECT gkmeans_import_model('two_kinds', '{{0},{1}}', '{x}');
		SET client_min_messages = log;
		SELECT rows FROM gkmeans_compare('two_kinds', 'two_kinds', 'SELECT i % 2 AS x FROM generate_series(1, 9) i');
		SELECT count(*) FROM gkmeans_fit('SELECT i % 2 AS x FROM generate_series(1, 9) i', '{x}', 2);
		SQL
	my @read = grep { /^\) AS source/m } split /LOG:/, $said;
	is(scalar(@read), 2, 'two queries read a source');
	unlike($_, qr/^JIT:/m, 'neither of them is compiled') for join '', @read;
}

# No fit in a parallel worker, none while idle; the extension is loaded on its first call only
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
	AND e.extname = 'gkmeans' WHERE d.classid = 'pg_proc'::regclass AND p.proname LIKE 'gkmeans_fit%' AND p.proparallel <> 'u'}), 0, 'fits are parallel unsafe');

# The protocol's function call, which has no query: an answer or an error of its own for each function that returns no set.
sub function_call
{
	my ($socket, $oid, @texts) = @_;
	my $send = sub { $socket->syswrite($_[0] . pack('N', length($_[1]) + 4) . $_[1]) };
	my $read = sub { my $bytes = ''; while (length($bytes) < $_[0]) { $socket->sysread($bytes, $_[0] - length($bytes), length($bytes)) or die 'closed' } return $bytes };
	my $answer = sub {
		my $result = '';
		for (;;)
		{
			my ($kind, $length) = unpack('aN', $read->(5));
			my $body = $length > 4 ? $read->($length - 4) : '';
			return $result if $kind eq 'Z';
			$result = 'answer' if $kind eq 'V';
			$result = $1 if $kind eq 'E' && $body =~ /\0C(.{5})/s;
		}
	};
	if (!defined $oid)
	{
		my ($user) = $node->safe_psql('postgres', 'SELECT current_user');
		$send->('', pack('N', 196608) . "user\0$user\0database\0postgres\0\0");
		return $answer->();
	}
	$send->('F', pack('Nnnn', $oid, 1, 0, scalar(@texts)) . join('', map { defined $_ ? pack('N/a', $_) : pack('N', 0xFFFFFFFF) } @texts) . pack('n', 0));
	return $answer->();
}
$node->safe_psql('postgres', q{SELECT gkmeans_import_model('called', '{{0,1},{1,0}}', '{x,y}')});
my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die $!;
function_call($socket);
my %called = map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{SELECT proname, oid FROM pg_proc WHERE proname IN ('gkmeans_score', 'gkmeans_predict', 'gkmeans_centroids', 'gkmeans_evaluate', 'gkmeans_fit')});
is(function_call($socket, $called{gkmeans_score}, 'called', undef), '0A000', 'a function call: the types of features are not known');
is(function_call($socket, $called{gkmeans_predict}, 'called', undef), 'answer', 'of a NULL, no type is needed');
is(function_call($socket, $called{gkmeans_predict}, 'called', '1'), '0A000', 'of "any" only a query knows the type');
is(function_call($socket, $called{gkmeans_centroids}, 'called', '1'), 'answer', 'other functions answer');
is(function_call($socket, $called{gkmeans_evaluate}, 'called', 'SELECT x, y FROM data', undef, undef, '0'), 'answer', 'even those that read rows');
is(function_call($socket, $called{gkmeans_fit}, (undef) x 18), '0A000', 'no function that returns a set can be called');
$socket->close;

$session->quit;
$other->quit;
end_server($node);
done_testing();
