# kill -9 of the backend and of a parallel worker: the server comes back by itself, without segments or processes of before.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

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
		$victim = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE leader_pid = $pid AND backend_type = 'parallel worker' LIMIT 1");
		isnt($victim, '', "$name: there is a worker");
	}
	my $log_before = -s $node->logfile;
	kill 'KILL', $victim;
	ok($node->wait_for_log(qr/database system is ready to accept connections/, $log_before), "$name: the server is back");
	eval { $session->quit };
	usleep(100_000) for grep { -d "/proc/$pid" } 1 .. 50;
	ok(!-d "/proc/$pid", "$name: the backend is gone");
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
$node->kill9;
usleep(100_000) for grep { -d "/proc/$pid" } 1 .. 50;
ok(!-d "/proc/$pid", 'the backend ends with its postmaster');
eval { $session->quit };
$node->start;
is($node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}), $expected, 'the server starts again');

# An immediate and a fast stop do not wait for a fit.
for my $mode ('fast', 'immediate')
{
	my ($busy, $busy_pid) = new_session($node);
	start_query($busy, $iterating);
	wait_until_active($node, $busy_pid);
	my $start = Time::HiRes::time();
	$node->stop($mode);
	cmp_ok(Time::HiRes::time() - $start, '<', 5, "a $mode stop does not wait for a fit");
	eval { $busy->quit };
	$node->start;
}
is($node->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}), $expected, 'and a fit is what it was');

end_server($node, killed => 1);
done_testing();
