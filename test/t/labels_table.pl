# A labels table that is replaced while others use it: what the manual says of deadlocks, readers and MERGE.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('labels');
$node->append_conf('postgresql.conf', "gkmeans.engine = cpu\ndeadlock_timeout = 20ms");
$node->reload;
$node->safe_psql('postgres', q{SELECT 1 FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'labels')});

# The output of a session, results and errors, without positions in the sources.
sub answer
{
	my ($session, $query) = @_;
	my $answer = join "\n", grep { $_ ne '' } scalar($session->query($query)), $session->{stderr};
	$session->{stderr} = '';
	return $answer =~ s/^psql:[^ ]* |\nLOCATION:.*|\nCONTEXT:.*//gmr;
}

sub connect_to
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	return ($session, $session->query_safe('SELECT pg_backend_pid()'));
}

sub wait_until_locked
{
	my ($process) = @_;
	return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND pid = $process)");
}

my ($first, $first_pid) = connect_to();
my ($second, $second_pid) = connect_to();
my $count = 'SELECT count(*) FROM labels';
my $source = 'SELECT d.* FROM data d JOIN labels USING (id)';
my $replace = qq{SELECT count(*) FROM gkmeans_fit('$source', '{x,y}', 3, id_column => 'id', labels_table => 'labels', if_exists => 'replace')};

# Two fits that join the table which they replace: each has read it when the other wants to empty it
for my $session ($first, $second)
{
	is(answer($session, "BEGIN; $count"), '3000', 'a transaction reads the table');
}
start_query($first, $replace);
ok(wait_until_locked($first_pid), 'its fit waits for the other reader');
start_query($second, $replace);
my $said = answer($second, '') . answer($first, 'ROLLBACK; SELECT 1');
my @deadlocks = $said =~ /(deadlock detected)/g;
is(scalar(@deadlocks), 1, 'one of the two is a deadlock');
like($said, qr/Begin (both|transactions .*) with "LOCK TABLE public\.labels IN SHARE UPDATE EXCLUSIVE MODE"[.,]/, 'its HINT says what to do');
answer($second, 'ROLLBACK');
is(answer($first, $count), '3000', 'the labels are there');

# What the HINT says
my $lock = 'BEGIN; LOCK TABLE labels IN SHARE UPDATE EXCLUSIVE MODE';
is(answer($first, "$lock; $count; $replace"), "3000\n3", 'with the lock, the first');
start_query($second, "$lock; $count; $replace; COMMIT");
ok(wait_until_locked($second_pid), 'with the lock, the second waits');
answer($first, 'COMMIT');
is(answer($second, ''), "3000\n3", 'with the lock, the second goes on');

# A reader whose snapshot is older than the TRUNCATE sees no row
is(answer($second, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM data"), '3000', 'a snapshot is taken');
is(answer($first, $replace), '3', 'the table is replaced');
is(answer($second, "$count; COMMIT; $count"), "0\n3000", 'the snapshot shows no row, the next one all');

# A session that is idle in a transaction blocks the fit, and the readers behind it
my ($reader, $reader_pid) = connect_to();
is(answer($second, "BEGIN; $count"), '3000', 'a reader stays in its transaction');
start_query($first, $replace);
ok(wait_until_locked($first_pid), 'the fit waits for it');
start_query($reader, $count);
ok(wait_until_locked($reader_pid), 'another reader waits for the fit');
is($node->safe_psql('postgres', "SELECT pg_blocking_pids($reader_pid)"), "{$first_pid}", 'as pg_blocking_pids() tells');
answer($second, 'COMMIT');
is(answer($first, ''), '3', 'the fit goes on');
is(answer($reader, ''), '3000', 'the reader goes on');
answer($second, "BEGIN; $count");
is(answer($first, "SET lock_timeout = '50ms'; $replace"), "ERROR:  canceling statement due to lock timeout\n" .
	'HINT:  A transaction that has read the table is still open; new readers wait behind this fit. pg_stat_activity shows it, with state "idle in transaction".',
	'lock_timeout ends the wait, and its HINT says who is in the way');
is(answer($reader, $count), '3000', 'the table is as it was');
answer($second, 'COMMIT');
answer($first, 'RESET lock_timeout');

# merge waits for no reader, and no reader for it
my $merge = qq{MERGE INTO labels t USING gkmeans_fit_predict(NULL::int, '$source', '{x,y}', 3, id_column => 'id') f ON t.id = f.id
	WHEN MATCHED THEN UPDATE SET cluster_id = f.cluster_id, distance = f.distance
	WHEN NOT MATCHED THEN INSERT (id, cluster_id, distance) VALUES (f.id, f.cluster_id, f.distance)};
my $snapshot = "SELECT count(*), count(*) FILTER (WHERE cluster_id < 0) FROM labels";
answer($first, 'UPDATE labels SET cluster_id = -1');
is(answer($second, "BEGIN ISOLATION LEVEL REPEATABLE READ; $snapshot"), '3000|3000', 'a reader before MERGE');
answer($first, "BEGIN; $merge");
is(answer($reader, $snapshot), '3000|3000', 'a reader during MERGE does not wait');
answer($first, 'COMMIT');
is(answer($reader, $snapshot), '3000|0', 'a reader after MERGE sees the labels');
is(answer($second, "$snapshot; COMMIT"), '3000|3000', 'an older snapshot sees what it saw');

# Default privileges open what is the extension's own to nobody.
$node->safe_psql('postgres', 'CREATE DATABASE opened; CREATE ROLE "an app"');
is($node->safe_psql('opened', q{ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO "an app", PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO "an app"; ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO "an app", PUBLIC;
	CREATE EXTENSION gkmeans;
	SELECT string_agg(privilege_type, ' ') FROM pg_class, aclexplode(relacl) WHERE oid = 'gkmeans.labelled_tables'::regclass AND grantee <> relowner}), '', 'default privileges: tables');
is($node->safe_psql('opened', q{SELECT count(*) FILTER (WHERE has_function_privilege('an app', oid, 'EXECUTE')), count(*) FROM pg_proc WHERE proname ~ '^(_gkmeans_feed_|gkmeans_node_)'}), '0|14', 'functions');
is($node->safe_psql('opened', q{SELECT bool_and(has_function_privilege('an app', oid, 'EXECUTE')) FROM pg_proc WHERE proname ~ '^gkmeans_(fit|assign)'}), 't', 'but those that are for all');
is($node->safe_psql('opened', q{SELECT has_schema_privilege('an app', 'gkmeans', 'USAGE'), has_schema_privilege('an app', 'gkmeans', 'CREATE')}), 't|f', 'schemas');

$_->quit for $first, $second, $reader;

# What a long transaction of others leaves in the extension's table costs calls nothing.
$node->safe_psql('postgres', q{CREATE TABLE few AS SELECT i AS id, i % 2 AS x FROM generate_series(1, 4) i; CREATE TABLE many (id int PRIMARY KEY, cluster_id int) PARTITION BY RANGE (id);
	DO $$ BEGIN FOR i IN 0 .. 199 LOOP EXECUTE format('CREATE TABLE many_%s PARTITION OF many FOR VALUES FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END $$;
	SELECT FROM gkmeans_create_model('m_few', 'few', '{x}', 2, id_column => 'id', labels_table => 'labels_of_few'); SELECT gkmeans_assign('m_few')});
my $long = $node->background_psql('postgres');
$long->query_safe(q{BEGIN; SELECT count(gkmeans_assign('m_few', labels_table => 'many')) FROM generate_series(1, 30)});
my $blocks = q{SELECT heap_blks_read + heap_blks_hit FROM pg_statio_all_tables WHERE relid = 'gkmeans.labelled_tables'::regclass};
my $call = q{SELECT FROM gkmeans_assign('m_few'); SELECT pg_stat_force_next_flush()};
$node->safe_psql('postgres', $call);
my $blocks_before = $node->safe_psql('postgres', $blocks);
$node->safe_psql('postgres', $call);
my $blocks_of_all = $node->safe_psql('postgres', q{SELECT pg_relation_size('gkmeans.labelled_tables') / 8192});
cmp_ok($node->safe_psql('postgres', $blocks) - $blocks_before, '<', $blocks_of_all, "not all of $blocks_of_all blocks are read");
$long->quit;

# A transaction that labelled and was prepared outlives a crash, but not the word that it has left.
$node->safe_psql('postgres', q{CREATE TABLE moved AS SELECT i AS id, i % 2 * 100 AS x FROM generate_series(1, 20) i; SELECT FROM gkmeans_create_model('m_moved', 'moved', '{x}', 2, id_column => 'id', labels_table => 'labels_of_moved', labels_mode => 'merge');
	UPDATE moved SET x = 0 WHERE id = 3});
is($node->safe_psql('postgres', q{BEGIN; UPDATE moved SET x = 100 WHERE id = 3; SELECT updated FROM gkmeans_assign('m_moved'); PREPARE TRANSACTION 'labelled'}), 0, 'the labels are right');
$node->stop('immediate');
$node->start;
my $older = $node->background_psql('postgres');
start_query($older, q{SELECT updated FROM gkmeans_assign('m_moved')});
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'labels_of_moved'::regclass)}) or die 'the older call does not wait';
$node->safe_psql('postgres', q{COMMIT PREPARED 'labelled'});
like($older->query('SELECT 1'), qr/^0\n/, 'they stay right');
$older->quit;
end_server($node);
done_testing();
