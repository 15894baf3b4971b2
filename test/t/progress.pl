# gkmeans.progress: the fits of a server as other databases, other roles and a standby see them, and what is left of them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = start_server('progress', allows_streaming => 1);
$node->append_conf('postgresql.conf', 'max_connections = 40');
$node->restart;
$node->safe_psql('postgres', <<~'SQL');
	CREATE DATABASE other;
	CREATE ROLE fitter LOGIN;
	CREATE ROLE looker LOGIN;
	CREATE ROLE watcher LOGIN;
	GRANT pg_read_all_stats TO watcher;
	GRANT SELECT ON ALL TABLES IN SCHEMA public TO fitter;
	GRANT CREATE ON SCHEMA public TO fitter;

	-- A row of a source that comes when nobody holds the lock any more.
	CREATE FUNCTION gate(int) RETURNS float8 LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
	BEGIN
		PERFORM pg_advisory_xact_lock_shared($1);
		RETURN 1;
	END $$;
	CREATE TABLE labels (id int PRIMARY KEY, cluster_id int, distance float8);
	GRANT ALL ON labels TO fitter;
	CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(2); RETURN NULL; END';
	CREATE TRIGGER hold BEFORE INSERT ON labels FOR EACH STATEMENT EXECUTE FUNCTION hold();
	SQL
$node->safe_psql('other', 'CREATE EXTENSION gkmeans');

# What the view says to a role in the other database.
sub progress
{
	my ($columns, $role, $server) = @_;
	return ($server // $node)->safe_psql('other', "SELECT $columns FROM gkmeans.progress ORDER BY 1",
		$role ? (extra_params => [ '-U', $role ]) : ());
}

# Waits until the view says this.
sub wait_for
{
	my ($columns, $wanted, $name) = @_;
	my $seen = '';
	for (1 .. 1800)
	{
		$seen = progress($columns);
		last if $seen =~ $wanted;
		usleep(50_000);
	}
	like($seen, $wanted, $name);
	return;
}

# Locks of fits, whoever holds them; gkmeans keeps others of its kind for GPUs.
sub locks_of_fits
{
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = 0 AND objsubid = 5");
}

# Nothing is shown, and nothing is there to be shown.
sub none_left
{
	my ($name) = @_;
	wait_for('count(*)', qr/^0$/, "$name: no fit is shown");
	is(locks_of_fits(), 0, "$name: no lock");
	is(segments($node), settled_segments($node), "$name: no segment");
	return;
}

my ($holder) = new_session($node);
my ($session, $pid) = new_session($node);
$session->query_safe('SET ROLE fitter');
my $gate = q{'SELECT id, x, y * gate(1) AS y FROM data'};

# Reading: the source waits.
$holder->query_safe('SELECT pg_advisory_lock(1)');
start_query($session, "SELECT count(*) FROM gkmeans_fit($gate, '{x,y}', 3)");
wait_for('phase', qr/^reading$/, 'reading is seen from another database');
is(progress(q{pid, database_name, role_name, model, phase, group_no, groups, start_no, starts, iteration, max_iterations, rows_done, inertia, moved, engine = CASE current_setting('gkmeans.engine') WHEN 'cuda' THEN 'cuda' ELSE 'cpu' END, (devices > 0) = (engine = 'cuda'), (device_bytes = 0) OR engine = 'cuda', nodes, remaining_seconds}),
	"$pid|postgres|fitter||reading|||||||0|||t|t|t|0|", 'what is known of it by then');
is(progress('rows_estimated BETWEEN 2900 AND 3100 AND started_at < clock_timestamp() AND seconds >= 0'), 't', 'rows and times');
is($node->safe_psql('postgres', "SELECT query ~ 'gkmeans_fit' FROM pg_stat_activity WHERE pid = $pid"), 't', 'the query is what it was');
SKIP:
{
	skip '/proc is not that of Linux', 1 unless -r "/proc/$pid/cmdline";
	like(slurp_file("/proc/$pid/cmdline"), qr/SELECT gkmeans reading/, 'the title of the process says so');
}

# Who sees what.
my @hidden = qw(database_name role_name model start_no starts iteration max_iterations rows_done rows_estimated inertia moved engine devices device_bytes nodes started_at seconds remaining_seconds);
is(progress('pid, phase, num_nonnulls(' . join(', ', @hidden) . ')', 'looker'), "$pid|reading|0", 'others see that it runs, and nothing else');
is(progress('pid, role_name, rows_done', 'watcher'), "$pid|fitter|0", 'pg_read_all_stats shows all');
is(progress('pid, role_name, rows_done', 'fitter'), "$pid|fitter|0", 'one sees what one runs');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
none_left('the fit ended');
SKIP:
{
	skip '/proc is not that of Linux', 1 unless -r "/proc/$pid/cmdline";
	unlike(slurp_file("/proc/$pid/cmdline"), qr/gkmeans/, 'the title is what it was');
}

# Writing: the labels table waits.
$holder->query_safe('SELECT pg_advisory_lock(2)');
start_query($session, "SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, n_init => 2, max_iter => 7, quality => 'fast', id_column => 'id', labels_table => 'labels', if_exists => 'append')");
wait_for('phase', qr/^writing$/, 'writing is seen');
is(progress('start_no, starts, iteration BETWEEN 1 AND 7, max_iterations, rows_done, inertia > 0, moved >= 0'), '2|2|t|7|3000|t|t', 'what is known of it by then');
$holder->query_safe('SELECT pg_advisory_unlock(2)');
none_left('labels are written');

# A model: queued as long as another creates it, then under its name.
$holder->query_safe('BEGIN');
$holder->query_safe(q{SELECT gkmeans_import_model('kinds', '{{1}}')});
start_query($session, q{SELECT count(*) FROM gkmeans_create_model('public.kinds', 'SELECT x, y * gate(1) AS y FROM data', '{x,y}', 3)});
wait_for('phase', qr/^queued$/, 'queued is seen');
$holder->query_safe('ROLLBACK');
none_left('a model is created');
$holder->query_safe('SELECT pg_advisory_lock(1)');
start_query($session, q{SELECT count(*) FROM gkmeans_create_model('kinds', 'SELECT x, y * gate(1) AS y FROM data', '{x,y}', 3, if_exists => 'replace')});
wait_for('model, phase', qr/^public\.kinds\|reading$/, 'the name of a model is seen');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
none_left('a model is replaced');

# A name that in the encoding of another database is text, but not that of a character that the client knows
$node->safe_psql('postgres', q{CREATE DATABASE encoded ENCODING 'WIN1252' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
$node->safe_psql('encoded', 'CREATE EXTENSION gkmeans');
$holder->query_safe('SELECT pg_advisory_lock(1)');
start_query($session, qq{SELECT count(*) FROM gkmeans_create_model('public."\x{c4}\x{81}"', 'SELECT x, y * gate(1) AS y FROM data', '{x,y}', 3)});
wait_for(q{model = U&'public."\0101"', phase}, qr/^t\|reading$/, 'a name of the same encoding is seen');
is($node->safe_psql('encoded', 'SELECT model FROM gkmeans.progress'), '?', 'that of another one is not');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
$session->query_safe('SELECT 1');
none_left('a model with such a name');

# The phases of the engine: starts without end, until each was seen.
my %seen;
start_query($session, q{SELECT count(*) FROM gkmeans_fit('large', '{v}', 40, init => 'k-means++', n_init => 1000, max_iter => 3, tol => 0, quality => 'fast')});
for (1 .. 2000)
{
	my ($phase, $start, $event) = split /\|/, $node->safe_psql('other',
		"SELECT phase, start_no, wait_event FROM gkmeans.progress p JOIN pg_stat_activity USING (pid)");
	$seen{$phase} = 1;
	$seen{event} = 1 if $node->pg_version < 17 ? $event eq 'Extension' : $event =~ /^Gkmeans(?:Seeding|Iterating|Labelling)$/;
	$seen{start} = 1 if ($start || 0) > 1;
	last if 5 == grep { $seen{$_} } qw(seeding iterating labelling start event);
}
ok($seen{$_}, "$_ is seen") for qw(seeding iterating labelling start event);
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
none_left('cancelled');

# Measuring: silhouettes of all rows.
$session->query('RESET ROLE');
$session->{stderr} = '';
$node->safe_psql('postgres', q{SELECT gkmeans_create_model('parts', 'large', '{v}', 5, max_iter => 2)});
start_query($session, q{SELECT count(*) FROM gkmeans_evaluate('parts', 'large', sample => 200000)});
wait_for('model, phase', qr/^public\.parts\|measuring$/, 'measuring is seen');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
none_left('an evaluation is cancelled');
$session->query('SELECT 1');
$session->{stderr} = '';

# Candidates for k are measured one after the other, and the next has no inertia before a start has ended.
start_query($session, q{SELECT count(*) FROM gkmeans_select_k('large', '{v}', ARRAY(SELECT generate_series(2, 400)), max_iter => 1, n_init => 1, quality => 'fast', sample => 20000)});
%seen = ();
for (1 .. 2000)
{
	my ($phase, $inertia) = split /\|/, progress("phase, inertia IS NULL") || '|';
	$seen{measuring} = 1 if $phase eq 'measuring';
	$seen{anew} = 1 if $seen{measuring} && $phase =~ /^(?:seeding|iterating)$/ && $inertia eq 't';
	last if $seen{anew};
}
ok($seen{$_}, "candidates for k: $_") for qw(measuring anew);
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
none_left('a selection is cancelled');
$session->query('SELECT 1');
$session->{stderr} = '';

# However it ends: an error that is caught, an error.
is($session->query_safe(q{BEGIN; DO $$ BEGIN PERFORM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 2); EXCEPTION WHEN division_by_zero THEN NULL; END $$; SELECT count(*) FROM gkmeans.progress}), '0', 'an error that is caught ends it, not the transaction');
is(locks_of_fits(), 0, 'and gives its lock back');
$session->query_safe('COMMIT');
$session->query(q{SELECT gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 2)});
$session->{stderr} = '';
none_left('an error');

# Fits that look at themselves and at the fits in their sources.
is($session->query_safe(q{SELECT size FROM gkmeans_fit('SELECT pid, seconds FROM gkmeans.progress', '{pid,seconds}', 1)}), '1', 'a fit of what a fit sees of itself');
$session->query_safe(q{CREATE FUNCTION inner_fit() RETURNS SETOF float8 LANGUAGE sql AS $$
	SELECT count(*)::float8 FROM gkmeans.progress UNION ALL SELECT inertia FROM gkmeans_fit('SELECT count(*) AS n FROM gkmeans.progress', '{n}', 1) $$});
is($session->query_safe(q{SELECT centroid[1] FROM gkmeans_fit('SELECT n FROM inner_fit() n LIMIT 1', '{n}', 1)}), '1', 'a fit in a source sees the one around it');
none_left('fits in fits');

# Twenty at once, which would wait for slots of a GPU.
my $segments_before = segments($node);
$holder->query_safe('SELECT pg_advisory_lock(1)');
my @sessions = map { [ new_session($node) ] } 1 .. 20;
start_query($_->[0], "SET gkmeans.engine = cpu; SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM gkmeans_fit($gate, '{x,y}', 3)") for @sessions;
wait_for('count(DISTINCT pid), min(phase), max(phase)', qr/^20\|reading\|reading$/, 'twenty fits at once');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
wait_for('count(*)', qr/^0$/, 'twenty fits ended');
is(locks_of_fits(), 0, 'twenty fits: no lock');
$_->[0]->quit for @sessions;
for (1 .. 1800)
{
	last if segments($node) == $segments_before;
	usleep(50_000);
}
is(segments($node), $segments_before, 'twenty fits: no segment');

# What only looks like a fit.
SKIP:
{
	skip 'test/modules is not installed', 11 unless has_module('gkmeans_faults');
	$node->safe_psql('postgres', <<~'SQL');
		CREATE FUNCTION forge_lock(bigint) RETURNS void AS '$libdir/gkmeans_faults', 'gkmeans_forge_lock' LANGUAGE C;
		CREATE FUNCTION forge_segment(int, int) RETURNS bigint AS '$libdir/gkmeans_faults', 'gkmeans_forge_segment' LANGUAGE C;
		SQL
	my ($forger, $forger_pid) = new_session($node);
	my %segments = ('a handle of nothing' => '4711', 'the handle of no segment' => '0', 'a segment of a few bytes' => 'forge_segment(8, 0)', 'one of a page without meaning' => 'forge_segment(4096, 0)',
		'one of another process' => 'forge_segment(4096, 1)', 'one that ends too early' => 'forge_segment(24, pg_backend_pid())');
	for my $what (sort keys %segments)
	{
		$forger->query_safe("BEGIN; SELECT forge_lock($segments{$what})");
		is(progress('count(*)'), '0', "not a fit: $what");
		$forger->query_safe('ROLLBACK');
	}
	$forger->query_safe('BEGIN; SELECT forge_lock(forge_segment(4096, pg_backend_pid()))');
	is(progress('pid, phase, length(model) < 300, engine IS NULL OR length(engine) < 20'), "$forger_pid|unknown|t|t", 'one that is full of ones: names end, numbers are numbers');
	is($forger->query_safe('SELECT count(*) FROM gkmeans.progress'), '1', 'also in the session itself');
	$forger->query_safe('ROLLBACK');

	# A session that has taken all segments.
	my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;';
	my $fit = "SELECT string_agg(k::text, ' ') FROM gkmeans_fit('many', '{x}', 3) k";
	$node->safe_psql('postgres', 'CREATE TABLE many AS SELECT i % 3 * 10 + i / 1e6 AS x FROM generate_series(1, 30000) i');
	my $before = $node->safe_psql('postgres', "$parallel $fit; SELECT workers > 0 FROM gkmeans_last_fit()");
	like($before, qr/\nt$/, 'workers read, where there are segments');
	my ($taker) = new_session($node);
	$taker->query_safe('DO $$ BEGIN FOR i IN 1 .. 100000 LOOP PERFORM forge_segment(8, 0); END LOOP; EXCEPTION WHEN insufficient_resources THEN NULL; END $$');
	is($node->safe_psql('postgres', "$parallel $fit; SELECT workers > 0 FROM gkmeans_last_fit()"), $before =~ s/t$/f/r, 'without segments, a fit goes on without workers');
	$taker->quit;
	is($node->safe_psql('postgres', "$parallel $fit; SELECT true"), $before, 'and both find the same');
	$forger->quit;
}
is($node->safe_psql('other', "SELECT pg_advisory_lock(3079, 1), pg_advisory_lock_shared((3079::bigint << 32) + 1); SELECT count(*) FROM gkmeans.progress"), "|\n0", 'locks of users are others');

# On a standby.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my ($guest, $guest_pid) = new_session($standby);
my $keeper = $standby->background_psql('postgres', on_error_stop => 0);
$keeper->query_safe('SELECT pg_advisory_lock(1)');
start_query($guest, "SELECT count(*) FROM gkmeans_fit($gate, '{x,y}', 3)");
my $seen = '';
for (1 .. 600)
{
	$seen = progress('pid, phase, database_name', undef, $standby);
	last if $seen ne '';
	usleep(50_000);
}
like($seen, qr/^$guest_pid\|(?:queued|reading)\|postgres$/, 'a standby shows its fits');
$keeper->query_safe('SELECT pg_advisory_unlock(1)');
$guest->quit;
$keeper->quit;
$standby->stop;

# Killed, the server comes back without any.
$holder->query_safe('SELECT pg_advisory_lock(1)');
start_query($session, "SELECT count(*) FROM gkmeans_fit($gate, '{x,y}', 3)");
wait_for('phase', qr/^reading$/, 'a fit that is to be killed');
my $log_before = -s $node->logfile;
kill 'KILL', $pid;
ok($node->wait_for_log(qr/database system is ready to accept connections/, $log_before), 'the server is back');
eval { $session->quit };
eval { $holder->quit };
is(progress('count(*)'), '0', 'killed: no fit is shown');
is(locks_of_fits(), 0, 'killed: no lock');
cmp_ok(segments($node), '<=', settled_segments($node), 'killed: no segment');

end_server($node, killed => 1);
done_testing();
