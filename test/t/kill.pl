# kill -9 of the backend and of a parallel worker: the server comes back by itself, without segments or processes of before.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('kill');
my $expected = $node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)});
my $iterating = q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 3000, init => 'random', n_init => 1000, tol => 0, quality => 'fast')};
my $loading = q{SELECT count(*) FROM gkmeans_fit('SELECT a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01', '{v}', 3)};

# Kills one process of a running fit and waits for the server to be back.
sub kill_and_recover
{
	my ($query, $whom, $name) = @_;
	my ($session, $pid) = new_session($node);
	start_query($session, $query);
	wait_until_active($node, $pid);
	my $victim = $pid;
	if ($whom eq 'worker')
	{
		my $workers = "FROM pg_stat_activity WHERE leader_pid = $pid AND backend_type = 'parallel worker'";
		ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT $workers)"), "$name: there is a worker");
		$victim = $node->safe_psql('postgres', "SELECT pid $workers LIMIT 1");
	}
	my $log_before = -s $node->logfile;
	kill 'KILL', $victim;
	ok($node->wait_for_log(qr/database system is ready to accept connections/, $log_before), "$name: the server is back");
	eval { $session->quit };
	ok(wait_until_ended($pid), "$name: the backend is gone");
	cmp_ok(segments($node), '<=', settled_segments($node), "$name: no shared memory segment left");
	is(backends_left($node), 0, "$name: no process left");
	is($node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}), $expected, "$name: a fit is what it was");
	return;
}

kill_and_recover($iterating, 'backend', 'backend, iterating');
kill_and_recover($loading, 'backend', 'backend, loading');
kill_and_recover($loading, 'worker', 'worker');

# Ends the postmaster at once in the middle of a fit: the backend notices, and the server starts again.
my ($session, $pid) = new_session($node);
start_query($session, $iterating);
wait_until_active($node, $pid);
my @processes = split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
my $lock_file = $node->data_dir . '/postmaster.pid';
my ($postmaster) = slurp_file($lock_file) =~ /^(\d+)/;
$node->kill9;
ok(wait_until_ended($pid), 'the backend ends with its postmaster');
# the others hold the shared memory of the server for a while; a zombie still counts as the owner of its lock files
wait_until_ended($_) for @processes, $postmaster;
unlink $lock_file, $node->host . '/.s.PGSQL.' . $node->port . '.lock';
eval { $session->quit };
$node->start;
is($node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}), $expected, 'the server starts again');

# An immediate and a fast stop do not wait for a fit.
for my $mode ('fast', 'immediate')
{
	my ($busy, $busy_pid) = new_session($node);
	start_query($busy, $iterating);
	wait_until_active($node, $busy_pid);
	# the fit has no end
	ok($node->stop($mode, fail_ok => 1), "a $mode stop does not wait for a fit");
	eval { $busy->quit };
	$node->start;
}
is($node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}), $expected, 'and a fit is what it was');

end_server($node, killed => 1);
done_testing();
