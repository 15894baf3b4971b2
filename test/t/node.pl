# The functions of a node, called by anyone with anything in any order: errors, never a crash, and nothing outlives the transaction.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = start_server('node');
my $open = "SELECT * FROM gkmeans.gkmeans_node_open(1, 'data', '{x,y}', 'id', 'bigint', NULL, false, false, 3, 1, 10)";
my $load = 'SELECT rows_read, rows_skipped, rows_dimension FROM gkmeans.gkmeans_node_load(0, NULL)';
my ($session, $pid) = new_session($server);
my $threads = threads_of($pid);

# What statements in one transaction print, and their first error.
sub in_transaction
{
	my (@statements) = @_;
	$session->{stderr} = '';
	my $out = $session->query(join('; ', 'BEGIN', @statements));
	my ($error) = $session->{stderr} =~ /ERROR: +(.*)/;
	my ($detail) = $session->{stderr} =~ /DETAIL: +(.*)/;
	$session->query('ROLLBACK');
	$session->{stderr} = '';
	return defined $error ? $error . (defined $detail ? " ($detail)" : '') : $out;
}

my $not_open = qr/this step of a gkmeans node is not due \(This session is not the node of a fit: gkmeans_node_open\(\) comes first\.\)/;
my %too_early = (
	gkmeans_node_load => $load, gkmeans_node_ids => 'SELECT * FROM gkmeans.gkmeans_node_ids()', gkmeans_node_put => "SELECT gkmeans.gkmeans_node_put('x')",
	gkmeans_node_run => "SELECT gkmeans.gkmeans_node_run('x')", gkmeans_node_take => 'SELECT gkmeans.gkmeans_node_take()');
like(in_transaction($too_early{$_}), $not_open, "$_ before gkmeans_node_open") for sort keys %too_early;
is(in_transaction('SELECT gkmeans.gkmeans_node_close()'), '', 'there may be nothing to close');

my $engine = $session->query('SHOW gkmeans.engine') eq 'cuda' ? 'cuda' : 'cpu';
like(in_transaction($open), qr/^$engine\|.+\|x double precision, y double precision; id id integer$/, 'a node opens its engine');
is(in_transaction($open, 'SELECT gkmeans.gkmeans_node_close()', 'SELECT count(*) FROM gkmeans_memory() WHERE bytes > 0') =~ s/.*\n//sr, 0, 'and closes it');
is(in_transaction($open, $load) =~ s/.*\n//sr, '3000|0|2', 'it reads its rows');
is(in_transaction($open, $load, $load) =~ s/.*\n//sr, '3000|0|2', 'it reads them again');
is(in_transaction($open, $open, $load) =~ s/.*\n//sr, '3000|0|2', 'it is opened again');
is(in_transaction($open, $load, 'SELECT count(*), count(DISTINCT id), min(row_number), max(row_number) FROM gkmeans.gkmeans_node_ids()') =~ s/.*\n//sr, '3000|3000|0|2999', 'it has ids');
is(in_transaction($open, "SELECT rows_shift, rows_least FROM gkmeans.gkmeans_node_load(2, '{0.5,0}')") =~ s/.*\n//sr =~ s/\|.*//r, '{0.5,0}', 'it takes a shift');
nothing_left($server, $session, $pid, $threads, 'transactions of a node');

# A commit ends it as well, without a warning.
is($session->query("BEGIN; $open; $load; COMMIT") =~ s/.*\n//sr, '3000|0|2', 'a transaction of a node may be committed');
is($session->{stderr}, '', 'without a warning');
nothing_left($server, $session, $pid, $threads, 'a committed transaction of a node');
is($session->query($open) =~ s/\|.*//sr, $engine, 'a node outside of a transaction block');
nothing_left($server, $session, $pid, $threads, 'a node without a transaction block');

# Rows that are read again are the same: also if what the source names has changed meanwhile.
$session->query("BEGIN ISOLATION LEVEL REPEATABLE READ; $open; $load");
$server->safe_psql('postgres', 'BEGIN; DELETE FROM data WHERE id <= 100; GRANT SELECT ON data TO pg_monitor; COMMIT');
is($session->query($load), '3000|0|2', 'rows that were deleted after the first reading');
$session->query('ROLLBACK');
is(in_transaction($open, $load) =~ s/.*\n//sr, '2900|0|2', 'are not there in the next transaction');

# By another plan, if the session itself has altered what the old one names.
$server->safe_psql('postgres', "CREATE TABLE indexed AS SELECT * FROM data; CREATE INDEX indexed_id ON indexed (id)");
(my $by_index = $open) =~ s/'data'/'SELECT * FROM indexed WHERE id < 2000'/;
is(in_transaction('SET LOCAL transaction_isolation = \'repeatable read\'', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_bitmapscan = off', $by_index, $load, 'DROP INDEX indexed_id', $load) =~ s/.*\n//sr, '1899|0|2', 'an index that the session drops between two readings');
$server->safe_psql('postgres', 'INSERT INTO data SELECT i, 0, 0 FROM generate_series(1, 100) i');
like(in_transaction($open, 'CREATE TEMP TABLE data (id bigint, x int2, y float8)', $load), qr/source changed while it was being read \(Its columns, or their types/, 'another table of that name, with another type');

# Types that are dropped between the steps.
$server->safe_psql('postgres', 'CREATE TYPE mood AS ENUM (\'low\'); CREATE DOMAIN number AS bigint');
my $open_moods = $open =~ s/'data'/'SELECT ''low''::mood AS id, x, y FROM data'/r =~ s/'bigint'/'mood'/r;
my $labels = "SELECT gkmeans.gkmeans_node_publish(gen_random_uuid(), '{0,1,2}', false)";
like(in_transaction($open_moods, $load, 'DROP TYPE mood', 'SELECT * FROM gkmeans.gkmeans_node_ids()'), qr/the type of column "id" was dropped/, 'a type that was dropped: ids');
like(in_transaction($open_moods, $load, 'DROP TYPE mood', $labels), qr/the type of column "id" was dropped/, 'labels');
like(in_transaction($open =~ s/'bigint'/'number'/r, 'DROP DOMAIN number', $load), qr/source changed while it was being read/, 'a type of ids that was dropped before they are read');

# Steps in a wrong order.
like(in_transaction($open, 'SELECT * FROM gkmeans.gkmeans_node_ids()'), qr/not due \(There are no ids, or they were taken before\.\)/, 'ids before the rows');
like(in_transaction($open, $load, 'SELECT count(*) FROM gkmeans.gkmeans_node_ids()', 'SELECT count(*) FROM gkmeans.gkmeans_node_ids()'), qr/not due \(There are no ids/, 'ids twice');
like(in_transaction($open, "SELECT gkmeans.gkmeans_node_put('x')"), qr/not due \(This node has no rows\.\)/, 'a message before the rows');
like(in_transaction($open, $load, 'SELECT gkmeans.gkmeans_node_take()'), qr/not due \(There is no answer\.\)/, 'an answer before the message');
like(in_transaction($open, $load, "SELECT gkmeans.gkmeans_node_put('x')", $load), qr/not due \(The rows of this node are already in use\.\)/, 'rows after a message');
like(in_transaction($open, "SELECT * FROM gkmeans.gkmeans_node_load(0, NULL), gkmeans.gkmeans_node_close()", $load), $not_open, 'closing in between');

# Wrong arguments.
my @wrong = (
	[ "2, 'data', '{x}', NULL, NULL, NULL, false, false, 3, 1, 10", qr/the two servers have different versions of gkmeans/ ],
	[ "NULL, 'data', '{x}', NULL, NULL, NULL, false, false, 3, 1, 10", qr/the two servers have different versions of gkmeans/ ],
	[ "1, NULL, '{x}', NULL, NULL, NULL, false, false, 3, 1, 10", qr/source is NULL/ ],
	[ "1, 'data', NULL, NULL, NULL, NULL, false, false, 3, 1, 10", qr/features is NULL/ ],
	[ "1, 'data', '{z}', NULL, NULL, NULL, false, false, 3, 1, 10", qr/"z" .*does not exist|no column "z"/ ],
	[ "1, 'DELETE FROM data', '{x}', NULL, NULL, NULL, false, false, 3, 1, 10", qr/source must be a SELECT/ ],
	[ "1, 'data', '{x}', 'id', 'no such type', NULL, false, false, 3, 1, 10", qr/syntax error|does not exist|invalid type name/ ],
	[ "1, 'data', '{x}', 'id', 'box', NULL, false, false, 3, 1, 10", qr/id column "id" is of type/ ],
	[ "1, 'SELECT data, x FROM data', '{x}', 'data', NULL, NULL, false, false, 3, 1, 10", qr/ids of type data cannot be sent/ ],
	[ "1, 'SELECT ARRAY[data] AS d, x FROM data', '{x}', 'd', NULL, NULL, false, false, 3, 1, 10", qr/ids of type data\[\] cannot be sent/ ],
	[ "1, 'data', '{x}', NULL, NULL, NULL, false, false, 0, 1, 10", qr/k must be|k is out of range|invalid k|at least 1/ ],
	[ "1, 'data', '{x}', NULL, NULL, NULL, false, false, NULL, -1, 10", qr/./ ],
);
like(in_transaction("SELECT gkmeans.gkmeans_node_open($_->[0])"), $_->[1], "gkmeans.gkmeans_node_open($_->[0])") for @wrong;
my @wrong_loads = ("-1, NULL", "70000, NULL", "2, '{1}'", "2, '{1,NULL}'", "2, '{{1,2}}'", "2, '{1,NaN}'", "2, '{1,Infinity}'", "0, '{1}'", "1, '{}'");
like(in_transaction($open, "SELECT gkmeans.gkmeans_node_load($_)"), qr/dimension|shift/, "gkmeans.gkmeans_node_load($_)") for @wrong_loads;
is(in_transaction($open, "SELECT rows_read, rows_dimension FROM gkmeans.gkmeans_node_load(1, '{1}')") =~ s/.*\n//sr, '3000|2', 'a shift of fewer features than there are');
is(in_transaction($open, "SELECT rows_read, rows_dimension FROM gkmeans.gkmeans_node_load(3, '{1,2,3}')") =~ s/.*\n//sr, '3000|2', 'a shift of more features');
nothing_left($server, $session, $pid, $threads, 'wrong arguments');

# Subtransactions, and steps within a step.
like(in_transaction('SAVEPOINT s', $open), qr/cannot be in a subtransaction/, 'a subtransaction');
like(in_transaction($open, 'SAVEPOINT s', $load), qr/cannot be in a subtransaction/, 'a subtransaction later');
like(in_transaction($open, 'SAVEPOINT s', 'ROLLBACK TO s', 'RELEASE s', $load) =~ s/.*\n//sr, qr/3000/, 'a subtransaction that is over');
for my $step ('gkmeans.gkmeans_node_close()', "gkmeans.gkmeans_node_put('x')", 'gkmeans.gkmeans_node_take()', "gkmeans.gkmeans_node_run('x')", 'gkmeans.gkmeans_node_load(0, NULL)')
{
	my $nested = $open =~ s/'data'/'SELECT 1.5 AS x, 2.5 AS y, 1 AS id FROM $step'/r;
	$nested = $open =~ s/'data'/\$\$SELECT 1.5 AS x, 2.5 AS y, 1 AS id FROM $step\$\$/r;
	like(in_transaction($nested, $load), qr/another step of this gkmeans node is under way/, "$step in the source of a node");
}
my $caught = $open =~ s/'data'/'SELECT 1.5 AS x, 2.5 AS y, 1 AS id WHERE closes() IS NULL'/r;
is(in_transaction("CREATE FUNCTION closes() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM gkmeans.gkmeans_node_close(); RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN NULL; END'",
		$caught, $load) =~ s/.*\n//sr, '1|0|2', 'a source that catches the error of such a step');
like(in_transaction("CREATE FUNCTION fits() RETURNS bigint LANGUAGE sql AS \$\$ SELECT count(*) FROM gkmeans_fit('data', '{x}', 2) \$\$",
		$open =~ s/'data'/'SELECT x, y, id FROM data WHERE id > (SELECT fits())'/r, $load) =~ s/.*\n//sr, qr/^2998\|0\|2$/, 'a fit in the source of a node');
is(in_transaction($open, $load, "SELECT count(*) FROM gkmeans_fit('data', '{x}', 4)", 'SELECT count(*) FROM gkmeans.gkmeans_node_ids()') =~ s/.*\n//sr, 3000, 'a fit between two steps');

# What a role has read is not for another one that the session takes on.
$server->safe_psql('postgres', 'CREATE ROLE other; GRANT EXECUTE ON FUNCTION gkmeans.gkmeans_node_load, gkmeans.gkmeans_node_ids, gkmeans.gkmeans_node_put, gkmeans.gkmeans_node_run, gkmeans.gkmeans_node_take, gkmeans.gkmeans_node_publish, gkmeans.gkmeans_node_close TO other');
like(in_transaction($open, $load, 'SET LOCAL ROLE other', $_), qr/^this gkmeans node was opened by another role$/, "$_ as another role")
	for $load, 'SELECT * FROM gkmeans.gkmeans_node_ids()', "SELECT gkmeans.gkmeans_node_put('x')", "SELECT gkmeans.gkmeans_node_run('x')", 'SELECT gkmeans.gkmeans_node_take()',
	"SELECT * FROM gkmeans.gkmeans_node_publish('00000000-0000-0000-0000-00000000000a', '{5}', false)";
is(in_transaction($open, $load, 'SET LOCAL ROLE other', 'SELECT gkmeans.gkmeans_node_close()', 'RESET ROLE', 'SELECT count(*) FROM gkmeans_memory() WHERE bytes > 0') =~ s/.*\n//sr, 0, 'which may close it');

# Labels for other sessions.
my $key = '00000000-0000-0000-0000-00000000000a';
my $publish = "SELECT handle, labels FROM gkmeans.gkmeans_node_publish('$key', '{5}', false)";
like(in_transaction($publish), $not_open, 'labels of no node');
like(in_transaction($open, $publish), qr/There are no ids, or they were taken before/, 'labels before the rows');
like(in_transaction($open, $load, $publish), qr/The rows of this node have no labels/, 'labels before there are any');
like(in_transaction($open, $load, "SELECT gkmeans.gkmeans_node_put('')", $publish), qr/there are no such labels/, 'nor after an empty message');
like(($server->psql('postgres', "\\set VERBOSITY sqlstate\nBEGIN;\n$open;\n$load;\nSELECT gkmeans.gkmeans_node_put('');\n$publish"))[2], qr/08P01/, 'a fault of the client');
like(in_transaction($open, $load, "SELECT * FROM gkmeans.gkmeans_node_publish('$key', '$_', false)"), qr/clusters/, "clusters $_") for '{{1},{2}}', '{NULL}';
like(in_transaction($open, $load, "SELECT gkmeans.gkmeans_node_publish('$key', '{}', true)"), qr/no labels/, 'no clusters');
my $rest = "SELECT count(*) FROM gkmeans.gkmeans_node_rest('$key')";
my $no_labels = qr/this session of a gkmeans node does not have the labels of the fit/;
like(in_transaction($rest), $no_labels, 'nothing is left of what there never was');
nothing_left($server, $session, $pid, $threads, 'labels that were refused');

# Rows that cannot be clustered have labels, though there is no engine of theirs.
my $unusable = "SELECT * FROM gkmeans.gkmeans_node_open(1, 'SELECT i % 40 AS id, NULL::float8 AS x FROM generate_series(1, 50) i', '{x}', 'id', 'int', NULL, false, false, 1, 1, 1)";
my ($handle, $count) = split /\|/, (split /\n/, $session->query("BEGIN; $unusable; $load; $publish; COMMIT; BEGIN"))[-1];
is($count, 50, 'labels outlive the transaction');
my $look = "SELECT count(*) FILTER (WHERE gkmeans._gkmeans_label_exists('{%s}', '%s', ROW(i))), count(gkmeans._gkmeans_label_cluster('{%s}', '%s', ROW(i))), count(gkmeans._gkmeans_label_distance('{%s}', '%s', ROW(i))) FROM generate_series(0, 99) i";
sub look { my ($handles, $with) = @_; return sprintf($look, ($handles, $with) x 3); }
is($session->query(look($handle, $key)), '0|0|0', 'they are not for the session that left them');
is($server->safe_psql('postgres', look($handle, $key)), '30|0|0', 'others find the ids that are there once');
is($server->safe_psql('postgres', look("7,-3,$handle", $key)), '30|0|0', 'among other handles');
is($server->safe_psql('postgres', look($handle, '00000000-0000-0000-0000-00000000000b')), '0|0|0', 'not without the key');
is($server->safe_psql('postgres', look($handle, $key) =~ s/ROW\(i\)/i/gr), '30|0|0', 'by ids without a row, too');
is($server->safe_psql('postgres', look($handle, $key) =~ s/ROW\(i\)/$_/gr), '0|0|0', "not by ids of another type: $_") for qw(ROW(i::bigint) i::bigint i::text);
is($server->safe_psql('postgres', look($handle, $key) =~ s/ROW\(i\)/ROW(NULLIF(i, i))/gr), '0|0|0', 'nor without one');
like(($server->psql('postgres', "SELECT gkmeans._gkmeans_label_exists('{$handle}', '$key', r) FROM (VALUES (ROW(1)), (ROW(1::bigint))) v (r)"))[2], qr/can only be read by the functions of gkmeans/, 'not by ids of types that change');
like(($server->psql('postgres', "SELECT gkmeans._gkmeans_label_exists('{$handle}', '$key', ROW(1, 2))"))[2], qr/can only be read by the functions of gkmeans/, 'nor by two');
is($server->safe_psql('postgres', "CREATE TYPE pg_temp.named AS (id int); SELECT gkmeans._gkmeans_label_exists('{$handle}', '$key', ROW(1)::pg_temp.named)"), 'f', 'nor by a row of a type that could change');
is($server->safe_psql('postgres', 'CREATE ROLE stranger; SET ROLE stranger; ' . look($handle, $key)), '0|0|0', 'not as another role');
like(($server->psql('postgres', "SELECT gkmeans._gkmeans_label_exists(ARRAY[i::bigint], '$key', ROW(i)) FROM generate_series(1, 3) i"))[2], qr/can only be read by the functions of gkmeans/, 'not with handles that change');
like(($server->psql('postgres', "SELECT gkmeans._gkmeans_label_exists('{1,NULL}', '$key', ROW(1))"))[2], qr/can only be read by the functions of gkmeans/, 'nor with none');
is($session->query("SELECT count(*), count(DISTINCT id), count(cluster_id) FROM gkmeans.gkmeans_node_rest('$key')"), '20|10|0', 'the others are the rest');
$session->query('SELECT gkmeans.gkmeans_node_close()');
is($server->safe_psql('postgres', look($handle, $key)), '0|0|0', 'and no longer');
$session->query('COMMIT');
nothing_left($server, $session, $pid, $threads, 'labels that were closed');
# The rest is that of the fit: a pooler may have given the session to another one.
for my $other ([ "the rest of another fit", $rest =~ s/0a'/0b'/r ], [ "the rest as another role", 'GRANT EXECUTE ON FUNCTION gkmeans.gkmeans_node_rest TO stranger', 'SET LOCAL ROLE stranger', $rest ])
{
	my ($name, @statements) = @$other;
	$session->query("BEGIN; $unusable; $load; $publish; COMMIT");
	like(in_transaction(@statements), qr/$no_labels/, $name);
	nothing_left($server, $session, $pid, $threads, "$name: after that transaction");
}
like(($server->psql('postgres', "\\set VERBOSITY sqlstate\n$rest"))[2], qr/55000/, 'with an SQLSTATE of its own');
my $typed = $unusable =~ s/i % 40 AS id/''kept''::kept AS id/r =~ s/'int'/'kept'/r;
$session->query("BEGIN; CREATE TYPE kept AS ENUM ('kept'); $typed; $load; $publish; COMMIT");
like(in_transaction('DROP TYPE kept', $rest), qr/the type of the ids has been dropped/, 'ids of a type that is gone');
my $leaver = $server->background_psql('postgres', on_error_stop => 0);
($handle) = split /\|/, (split /\n/, $leaver->query("BEGIN; $unusable; $load; $publish; COMMIT; BEGIN"))[-1];
is($server->safe_psql('postgres', look($handle, $key)), '30|0|0', 'another session leaves some');
$leaver->quit;
ok($server->poll_query_until('postgres', look($handle, $key), '0|0|0'), 'they end with it');
is(segments($server), settled_segments($server), 'no segment is left');
my $many = $unusable =~ s/i % 40 AS id/(i || ''th'')::text AS id/r =~ s/'int'/'text'/r =~ s/1, 50\)/1, 400000)/r;
for my $milliseconds (1, 5, 20)
{
	$session->query("BEGIN; $many; $load; SET LOCAL statement_timeout = $milliseconds; $publish");
	like($session->{stderr}, qr/canceling statement due to statement timeout/, "labels of many rows: cancelled after $milliseconds ms");
	$session->{stderr} = '';
	$session->query('ROLLBACK');
	like(in_transaction($rest), $no_labels, 'none are left');
	nothing_left($server, $session, $pid, $threads, 'cancelled labels');
}
$session->query("BEGIN; $many; $load; $publish; COMMIT");
is(in_transaction($rest =~ s/\*/DISTINCT id/r), 400000, 'all of many rows are there');
nothing_left($server, $session, $pid, $threads, 'labels of many rows');

# Messages of any bytes.
my $before = $server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my $refused = 0;
my @messages = map { 'decode(' . join(' || ', map { "md5('$_')" } $_ .. $_ + $_ % 20) . ", 'hex')" } 1 .. 60;
push @messages, "''::bytea", map { "decode(repeat('$_', 100), 'hex')" } '00', 'ff', '7f', '80', '01';
for my $message (@messages)
{
	$refused++ if in_transaction($open, $load, "SELECT gkmeans.gkmeans_node_run($message)") !~ /^\\x/m;
}
is($refused, scalar(@messages), 'random messages are refused');
my ($status, $shown, $sqlstate) = $server->psql('postgres', "\\set VERBOSITY sqlstate\nBEGIN;\n$open;\n$load;\nSELECT gkmeans.gkmeans_node_run('x')");
like($sqlstate, qr/08P01/, 'with the SQLSTATE of a fault of the client');
like(in_transaction($open, $load, "SELECT gkmeans.gkmeans_node_put('x')", "SELECT count(gkmeans.gkmeans_node_put(convert_to(repeat('x', 1000000), 'utf8'))) FROM generate_series(1, 300)", "SELECT gkmeans.gkmeans_node_run('y')"), qr/gkmeans/, 'a long message');
is($server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $before, 'the server did not restart');
nothing_left($server, $session, $pid, $threads, 'messages');

# Cancelling.
my ($other, $other_pid) = new_session($server);
start_query($other, 'BEGIN; ' . ($open =~ s/'data'/'SELECT 1 AS x, 2 AS y, 1 AS id FROM pg_sleep(1000)'/r) . "; $load");
ok($server->poll_query_until('postgres', "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $other_pid"), 'reading on a node');
my $ms = $server->safe_psql('postgres', "SELECT ms_until_idle($other_pid, 'pg_cancel_backend')");
cmp_ok($ms, '<', slack_ms(), 'reading on a node: cancelled');
$other->query('ROLLBACK');
nothing_left($server, $other, $other_pid, threads_of($other_pid), 'a cancelled node');
eval { $other->quit };

# A session that was a node, and then fits: what the threads of a fit write to lasts until they end.
my $wide = q{SELECT count(*) FROM gkmeans_fit('SELECT v FROM generate_series(1, 100000) i, (SELECT array_agg(j::real) AS v FROM generate_series(1, 4000) j) a', '{v}', 1, quality => 'fast', max_iter => 1)};
my (undef, undef, $cancels) = $server->psql('postgres', "BEGIN; $open; ROLLBACK;\n" . join("\n", map { "SET statement_timeout = @{[20 + $_ % 40]}; $wide;" } 1 .. 60), on_error_stop => 0);
# on a busy machine, so can be a SET
cmp_ok(scalar(() = $cancels =~ /canceling statement due to statement timeout/g), '>=', 60, 'fits of what was a node are cancelled while they read');
# The same where the source of a fit makes its session a node.
my $long = q{SELECT engine FROM gkmeans.gkmeans_node_open(1, 'SELECT v FROM generate_series(1, 100000) i, (SELECT array_agg(j::real) AS v FROM generate_series(1, 4000) j) a', '{v}', NULL, NULL, NULL, false, false, 1, 1, 1)};
my $loads = q{SELECT count(*) FROM gkmeans_fit('SELECT (SELECT rows_read FROM gkmeans.gkmeans_node_load(0, NULL))::float8 AS x', '{x}', 1)};
(undef, undef, $cancels) = $server->psql('postgres', join("\n", map { "BEGIN; $long; SET LOCAL statement_timeout = @{[30 + $_]}; $loads; ROLLBACK;" } 1 .. 30), on_error_stop => 0);
is(scalar(() = $cancels =~ /canceling statement due to statement timeout/g), 30, 'fits of nodes that are cancelled while they read');
is($server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $before, 'the server did not restart');

# Only those who may.
$server->safe_psql('postgres', 'CREATE ROLE nobody; GRANT SELECT ON data TO nobody');
for my $call (values %too_early, $publish, $rest, 'SELECT gkmeans.gkmeans_node_close()', $open)
{
	like(in_transaction('SET LOCAL ROLE nobody', $call), qr/permission denied for function gkmeans_node/, "$call needs EXECUTE");
}
$server->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION gkmeans.gkmeans_node_open, gkmeans.gkmeans_node_load TO nobody');
is(in_transaction('SET LOCAL ROLE nobody', $open, $load) =~ s/.*\n//sr, '3000|0|2', 'a role with EXECUTE and SELECT');
like(in_transaction('SET LOCAL ROLE nobody', $open =~ s/'data'/'SELECT v[1] AS x, v[2] AS y, 1 AS id FROM large'/r, $load), qr/permission denied for table large/, 'a role without SELECT');
$session->quit;
end_server($server);
done_testing();
