# A fault in engine call number N, for every N, at the top level and in a transaction block: a clean error, nothing left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'test/modules is not installed' unless has_module('gkmeans_faults');
my $node = start_server('faults');
my ($session, $pid) = new_session($node);
my $threads = threads_of($pid);
$session->query_safe("LOAD 'gkmeans_faults'");

for my $init ('k-means||', 'k-means++', 'random')
{
	for my $call ("gkmeans_fit('data', '{x,y}', 3, quality => 'fast', init => '$init')", "gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id', quality => 'fast', init => '$init')")
	{
		my $expected = $session->query("SELECT * FROM $call f ORDER BY f");
		my ($fault, $bad) = (0, 0);
		for (;;)
		{
			$fault++;
			my $block = $fault % 3;    # alone, in a transaction block, behind a savepoint
			my $before = $block == 0 ? '' : $block == 1 ? 'BEGIN;' : "BEGIN; SAVEPOINT s;";
			my $after = $block == 0 ? '' : $block == 1 ? 'ROLLBACK;' : 'ROLLBACK TO s; COMMIT;';
			my $got = $session->query("SET gkmeans.fault_at = $fault; $before SELECT * FROM $call f ORDER BY f; $after SET gkmeans.fault_at = 0;");
			my $error = $session->{stderr};
			$session->{stderr} = '';
			if ($error eq '')
			{
				is($got, $expected, "$call: without a fault as before");
				last;
			}
			my $clean = $error =~ /ERROR:/ && $error !~ /WARNING|FATAL|PANIC|server closed/;
			my $empty = $session->query("SELECT count(*) FROM gkmeans_memory() WHERE bytes <> 0") eq '0'
				&& segments($node) == settled_segments($node) && threads_of($pid) == $threads;
			if (!$clean || !$empty)
			{
				$bad++;
				diag("fault $fault: $error");
			}
			last if $fault > 3000;
		}
		cmp_ok($fault, '>', 10, "$call: " . ($fault - 1) . ' faults');
		is($bad, 0, "$call: clean errors, nothing left");
		is($session->query("SELECT * FROM $call f ORDER BY f"), $expected, "$call: and afterwards as before");
	}
}
nothing_left($node, $session, $pid, $threads, 'after all faults');

# A subtransaction within a refresh cannot begin: the run has failed, and the session goes on.  From
# 17 on, PostgreSQL ends the session itself.
if ($node->pg_version < 17)
{
	$node->safe_psql('postgres', q{CREATE FUNCTION fail_to_begin() RETURNS void LANGUAGE c AS 'gkmeans_faults', 'gkmeans_fail_to_begin';
		CREATE FUNCTION in_subtransaction() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM fail_to_begin(); BEGIN RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN 1; END; END $$;
		CREATE VIEW source AS SELECT id, x + 0 * zero AS x, y FROM data, (SELECT 0 AS zero) z});
	$node->safe_psql('postgres', q{SELECT gkmeans_create_model('refreshed', 'source', '{x,y}', 3); CREATE OR REPLACE VIEW source AS SELECT id, x + 0 * in_subtransaction() AS x, y FROM data});
	$session->query(q{CALL gkmeans_refresh('refreshed')});
	like($session->{stderr}, qr/ERROR:  a subtransaction could not begin/, 'a refresh in which a subtransaction cannot begin');
	$session->{stderr} = '';
	is($session->query('SELECT status, outcome FROM refreshed ORDER BY version DESC LIMIT 1'), 'failed|failed: a subtransaction could not begin', 'is recorded, and the session goes on');
	is($session->{stderr}, '', 'outside of a transaction');

	# Nor can that of the record of a failure: the run is lost, but its error is raised.
	$node->safe_psql('postgres', q{CREATE FUNCTION fail_twice() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM fail_to_begin(); RETURN 1 / 0; END $$;
		CREATE OR REPLACE VIEW source AS SELECT id, x + 0 * fail_twice() AS x, y FROM data});
	$session->query(q{CALL gkmeans_refresh('refreshed')});
	like($session->{stderr}, qr/WARNING:  could not record that version 3 failed: a subtransaction could not begin.*ERROR:  division by zero/s, 'a refresh that fails, and whose record cannot begin');
	$session->{stderr} = '';
	is($session->query('SELECT status FROM gkmeans.versions WHERE version = 3'), 'lost', 'is not recorded');
	is($session->{stderr}, '', 'but the session goes on');
}

# Without libpq's list of parameters a node cannot be reached: it must not be sought elsewhere.
$node->safe_psql('postgres', qq{CREATE EXTENSION postgres_fdw;
	CREATE SERVER itself FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '@{[ $node->host ]}', port '@{[ $node->port ]}', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER itself});
my $fit = "SET gkmeans.nodes = 'itself'; SELECT sum(size) FROM gkmeans_fit('data', '{x,y}', 3); RESET gkmeans.nodes";
my $size = $session->query($fit);
cmp_ok($size, '>', 0, 'a fit over a node');
$session->query("SET gkmeans.no_parameters = on; $fit");
like($session->{stderr}, qr/ERROR: +out of memory/, 'and one where libpq lacks memory for its parameters');
$session->{stderr} = '';
is($session->query("SET gkmeans.no_parameters = off; $fit"), $size, 'and afterwards as before');
# the backends of the node end by themselves
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()")
	or die 'a node goes on';
nothing_left($node, $session, $pid, $threads, 'after these');

$session->quit;
end_server($node);
done_testing();
