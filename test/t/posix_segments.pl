# With POSIX shared memory, the default: a fit leaves no segment in /dev/shm, and one that is too large is a clean error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

# A container may have none, or one that is mounted read-only.
my $probe = "/dev/shm/gkmeans.$$";
open(my $handle, '>', $probe) or plan skip_all => "/dev/shm cannot be written: $!";
close($handle);
unlink $probe;

my $node = start_server('posix');
$node->append_conf('postgresql.conf', 'dynamic_shared_memory_type = posix');
$node->restart;

# Segments that a process of this server maps.
sub mapped
{
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my %names;
	for my $pid ($postmaster, split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity'))
	{
		my $maps = eval { slurp_file("/proc/$pid/maps") } // '';
		$names{$1}++ while $maps =~ m{/dev/shm/(PostgreSQL\.\d+)}g;
	}
	return join ' ', sort keys %names;
}

my ($session, $pid) = new_session($node);
my $threads = threads_of($pid);
my $before = mapped();
isnt($before, '', 'the server maps its control segment');
$session->query(q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 20, max_iter => 3)}) for 1 .. 5;
is(mapped(), $before, 'after five fits the same');
$session->query(q{SELECT count(*) FROM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 3)});
is(mapped(), $before, 'after an error the same');
start_query($session, q{SELECT count(*) FROM gkmeans_fit('SELECT a.v FROM large a, rows_of_16 b, rows_of_16 c WHERE a.v[2] + b.v[2] + c.v[2] < 0.01', '{v}', 3)});
wait_until_active($node, $pid);
my $during = mapped();
isnt($during, $before, 'while the rows are read there is a segment more');
$node->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
is(mapped(), $before, 'after a cancel the same');
my %kept = map { $_ => 1 } split / /, $before;
is(join(' ', grep { !$kept{$_} && -e "/dev/shm/$_" } split / /, $during), '', 'and no file of it is left in /dev/shm');
is(threads_of($pid), $threads, 'no thread is left');

# Where there is no room at all, a fit that needs none goes on, and nobody sees its progress
my ($poor, $poor_pid) = new_session($node);
system_or_bail('prlimit', "--pid=$poor_pid", '--fsize=100:');
is($poor->query(q{SELECT sum(size) FROM gkmeans_fit('VALUES (1), (2), (10)', '{column1}', 2)}), 3, 'without room for a segment');
is($poor->{stderr}, '', 'no error and no warning');

$poor->quit;
$session->quit;
end_server($node);
done_testing();
