# A hot standby fits; it writes no labels table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', allows_streaming => 1);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

for my $query (q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3)}, q{SELECT * FROM gkmeans_fit('large', '{v}', 3, max_iter => 5)},
	q{SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id') ORDER BY id})
{
	is($standby->safe_psql('postgres', $query), $primary->safe_psql('postgres', $query), "the standby gives what the primary gives: $query");
}
is($standby->safe_psql('postgres', q{SELECT sum(bytes) FROM gkmeans_memory()}), 0, 'the standby: nothing held');
my ($status, $out, $error) = $standby->psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'labels')});
isnt($status, 0, 'no labels table on a standby');
like($error, qr/read-only transaction|recovery/, 'and it says why');

# A labels table of the primary arrives.
$primary->safe_psql('postgres', q{SELECT * FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'labels')});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT count(*) FROM labels'), 3000, 'the labels table is replicated');

# A fit on the standby is cancelled like any query.
my ($session, $pid) = new_session($standby);
my $threads = threads_of($pid);
start_query($session, q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 3000, init => 'random', n_init => 1000, tol => 0)});
wait_until_active($standby, $pid);
cmp_ok($standby->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')"), '<', slack_ms(), 'the standby: cancelled');
$session->{stderr} = '';
nothing_left($standby, $session, $pid, $threads, 'the standby, cancelled');
$session->quit;

# A transaction that waits for a synchronous standby while it is prepared: those that end meanwhile are seen.
$primary->safe_psql('postgres', 'CREATE TABLE swapped AS TABLE data');
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\nsynchronous_commit = local");
$primary->reload;
my %one = map { $_ => (new_session($primary))[0] } qw(preparing swapping fitting);
my $poll = sub { $primary->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = '$_[0]' AND wait_event = '$_[1]')") };
$one{preparing}->query_safe('BEGIN; CREATE TABLE prepared ()');
$one{swapping}->query_safe('BEGIN; CREATE TABLE fresh AS TABLE swapped; DROP TABLE swapped; ALTER TABLE fresh RENAME TO swapped');
$primary->safe_psql('postgres', 'CREATE TABLE later ()');
start_query($one{fitting}, q{SELECT count(*) FROM gkmeans_fit_predict(NULL::int, 'SELECT d.id, s.x FROM data d LEFT JOIN swapped s USING (id)', '{x}', 3, id_column => 'id') WHERE cluster_id >= 0});
ok($poll->('Lock', 'relation'), 'a fit waits for a table');
start_query($one{preparing}, q{SET synchronous_commit = on; PREPARE TRANSACTION 'waits'});
ok($poll->('IPC', 'SyncRep'), 'another transaction waits for its standby');
$one{swapping}->query_safe('COMMIT');
is($one{fitting}->query(''), '3000', 'the fit sees the table that it waited for');
$primary->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
$one{preparing}->query('');
$primary->safe_psql('postgres', q{ROLLBACK PREPARED 'waits'});
$_->quit for values %one;

# It becomes the primary and goes on.
$standby->promote;
is($standby->safe_psql('postgres', q{SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'promoted')}), 3, 'promoted: it writes labels');

end_server($standby);
end_server($primary);
done_testing();
