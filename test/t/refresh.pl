# gkmeans_refresh: its own transactions and record, errors, cancel, kill -9 in every phase, jobs of another role.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('refresh');

# Sources and triggers wait where a test tells them to: for an advisory lock that another session holds.
$node->safe_psql('postgres', <<~'SQL');
	CREATE TABLE stops (place text);
	CREATE FUNCTION stop_at(here text) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM stops WHERE place = here) THEN PERFORM pg_advisory_xact_lock(77); END IF;
		RETURN 1;
	END $$;
	CREATE FUNCTION stop_in_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM stop_at(tg_argv[0]); RETURN new; END $$;
	CREATE FUNCTION stop_in_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM stop_at('row ' || new.status); RETURN new; END $$;
	CREATE TABLE points AS SELECT i AS id, i % 3 * 10 + noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 3000) i;
	CREATE VIEW source_of_m AS SELECT p.id, p.x * s.one AS x, p.y FROM (SELECT stop_at('reading') AS one OFFSET 0) s, points p;
	SELECT gkmeans_create_model('m', 'source_of_m', '{x,y}', 3, id_column => 'id', labels_table => 'labels');
	CREATE TRIGGER wait_for_it BEFORE INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION stop_in_row();
	CREATE TRIGGER wait_for_it AFTER UPDATE ON labels FOR EACH STATEMENT EXECUTE FUNCTION stop_in_trigger('labels');
	CREATE CONSTRAINT TRIGGER wait_at_commit AFTER UPDATE ON labels DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.id = 1) EXECUTE FUNCTION stop_in_trigger('commit');
	SQL

sub sql { return $node->safe_psql('postgres', $_[0]); }
my $superuser = sql('SELECT current_user');
sub version { return sql("SELECT version || ' ' || status || ' ' || coalesce(error_code, '-') FROM gkmeans.versions WHERE model = 'public.m' ORDER BY version DESC LIMIT 1"); }
sub deployed { return sql('SELECT version FROM m WHERE deployed'); }
sub move_points { sql('UPDATE points SET x = x + 0.25 + id / 100000.0'); return; }

# Labels are whole: each is what the deployed version says of the rows that it was fitted to or labelled.
my $labels_of_then = sql('SELECT md5(string_agg(l::text, \',\' ORDER BY id)) FROM labels l');
sub labels_are
{
	my ($then, $name) = @_;
	is(sql('SELECT count(*) FROM labels'), 3000, "$name: every row has its label");
	is(sql('SELECT md5(string_agg(l::text, \',\' ORDER BY id)) FROM labels l'), $then, "$name: as before") if defined $then;
	return;
}

# Two sessions: one that refreshes, one that holds what stops it.
my ($session, $pid) = new_session($node);
my ($holder) = new_session($node);
sub stop_at
{
	my ($place) = @_;
	sql(qq{TRUNCATE stops; INSERT INTO stops VALUES ('$place')});
	$holder->query_safe('SELECT pg_advisory_lock(77)');
	return;
}
sub go_on { $holder->query_safe('SELECT pg_advisory_unlock_all()'); return; }
sub wait_until_stopped
{
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE pid = $pid AND locktype = 'advisory' AND NOT granted")
		or die 'it did not stop there';
	return;
}
sub wait_until_idle
{
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid AND state = 'active'") or die 'it goes on';
	return;
}
# Nothing of a run is left in the session; the workers of what was asked before end a little after their query.
sub session_is_clean
{
	my ($name) = @_;
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'") or die 'workers go on';
	nothing_left($node, $session, $pid, threads_of($pid), $name);
	return;
}
sub errors_of
{
	$session->query('SELECT 1');
	my $said = $session->{stderr};
	$session->{stderr} = '';
	return $said;
}

# A refresh that goes well
move_points();
is($session->query(q{CALL gkmeans_refresh('m', note => 'nightly')}), '', 'a refresh');
is(errors_of(), '', 'without an error');
is(version(), '2 fitted -', 'its record');
is(deployed(), 2, 'it is deployed');
is(sql(q{SELECT note || ' ' || started_by || ' ' || (finished_at > started_at) || ' ' || (report ? 'engine') FROM m WHERE version = 2}), "nightly $superuser true true", 'the row of the run is that of the version');
is(sql('SELECT count(*) FROM labels l JOIN source_of_m s USING (id) WHERE l.cluster_id = gkmeans_predict(\'m\', s.x, s.y) AND l.distance = gkmeans_distance(\'m\', s.x, s.y)'), 3000, 'labels are those of the new version');
is(sql('SELECT count(*) FROM pg_locks WHERE relation = \'m\'::regclass OR objid = \'m\'::regclass'), 0, 'no lock is left');
session_is_clean('a refresh');

# While it runs
move_points();
stop_at('reading');
start_query($session, q{CALL gkmeans_refresh('m')});
wait_until_stopped();
is(version(), '3 running -', 'a run is seen as running');
is(sql(qq{SELECT (report ->> 'pid')::int = $pid AND (report ->> 'backend_start')::timestamptz = (SELECT backend_start FROM pg_stat_activity WHERE pid = $pid) FROM m WHERE version = 3}), 't', 'its session is written down');
is(sql('SELECT gkmeans_predict(\'m\', 10, 0) IS NOT NULL'), 't', 'others predict');
like(($node->psql('postgres', q{SET lock_timeout = '10ms'; CALL gkmeans_refresh('m')}))[2], qr/lock timeout/, 'another refresh waits');
is(sql('SELECT count(*) FROM m'), 3, 'and has no record before it begins');
go_on();
wait_until_idle();
is(version(), '3 fitted -', 'then it is fitted');

# NOTIFY, once a commit, and for a failure
sql(q{DO $$ BEGIN EXECUTE format('ALTER TABLE m ALTER definition SET DEFAULT %L', (SELECT definition || '{"notify": "segments"}' FROM m WHERE version = 1)); END $$});
my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN segments');
move_points();
$session->query(q{CALL gkmeans_refresh('m')});
my $said = $listener->query_safe('SELECT 1');
my @heard = $said =~ /"segments" with payload "(\{.*?\})"/g;
is(scalar(@heard), 1, 'one notification');
like($heard[0] // '', qr/^\{"model":"public\.m","version":4,"status":"fitted","deployed":true,"psi":[-0-9.e]+,"moved":0\}$/, 'what it says');

# A source that fails: the error is raised, and recorded
sub break_source { sql('CREATE OR REPLACE VIEW source_of_m AS SELECT p.id, p.x / (s.one - 1) AS x, p.y FROM (SELECT stop_at(\'reading\') AS one OFFSET 0) s, points p'); return; }
sub mend_source { sql('CREATE OR REPLACE VIEW source_of_m AS SELECT p.id, p.x * s.one AS x, p.y FROM (SELECT stop_at(\'reading\') AS one OFFSET 0) s, points p'); return; }
sql('TRUNCATE stops');
break_source();
$labels_of_then = sql('SELECT md5(string_agg(l::text, \',\' ORDER BY id)) FROM labels l');
$session->query(q{CALL gkmeans_refresh('m')});
like(errors_of(), qr/ERROR:  division by zero/, 'the error of the source');
is(version(), '5 failed 22012', 'is recorded');
is(sql('SELECT outcome || \'|\' || error_message FROM gkmeans.versions WHERE version = 5 AND model = \'public.m\''), 'failed: division by zero|division by zero', 'with its message');
is(sql(q{SELECT last_status || '|' || last_error FROM gkmeans.models WHERE model = 'public.m'}), 'failed|division by zero', 'and seen in gkmeans.models');

# A message that quotes a whole value
sql(<<~'SQL');
	CREATE TABLE quoted AS SELECT i AS id, (i % 5)::text AS t FROM generate_series(1, 50) i;
	SELECT gkmeans_create_model('quoted_kinds', 'SELECT id, t::float8 AS a FROM quoted', '{a}', 2);
	UPDATE quoted SET t = repeat('7x', 100000) WHERE id = 7;
	SQL
$node->psql('postgres', q{CALL gkmeans_refresh('quoted_kinds')});
is(sql(q{SELECT last_status || '|' || (last_error ~ '^invalid input syntax for type double precision: "7x7x.*\.\.\.$') || '|' || octet_length(last_error) FROM gkmeans.models WHERE model = 'public.quoted_kinds'}), 'failed|true|10003', 'of a long message, the beginning is kept');
sql('DROP TABLE quoted_kinds, quoted');

# An error without a message
SKIP:
{
	skip 'test/modules is not installed', 2 unless has_module('gkmeans_faults');
	sql(<<~'SQL');
		CREATE FUNCTION raise_silently(boolean) RETURNS int AS '$libdir/gkmeans_faults', 'gkmeans_raise_silently' LANGUAGE C;
		CREATE VIEW silent AS SELECT i AS x FROM generate_series(1, 9) i;
		SELECT gkmeans_create_model('silent_kinds', 'silent', '{x}', 2);
		CREATE OR REPLACE VIEW silent AS SELECT i + raise_silently(false) AS x FROM generate_series(1, 9) i;
		SQL
	$node->psql('postgres', q{CALL gkmeans_refresh('silent_kinds')});
	is(sql(q{SELECT last_status || '|' || last_error FROM gkmeans.models WHERE model = 'public.silent_kinds'}), 'failed|missing error text', 'an error without a message is recorded');
	like(($node->psql('postgres', q{SELECT gkmeans_fit('SELECT raise_silently(true) AS x', '{x}', 1)}))[2], qr/ERROR:  missing error text/, 'and raised');
	sql('DROP TABLE silent_kinds; DROP VIEW silent; DROP FUNCTION raise_silently');
}
is(deployed(), 4, 'the old version is deployed');
labels_are($labels_of_then, 'a failed run');
@heard = $listener->query_safe('SELECT 1') =~ /"segments" with payload "(\{.*?\})"/g;
is("@heard", '{"model":"public.m","version":5,"status":"failed","deployed":false,"psi":null,"moved":null,"error_code":"22012"}', 'and told');
is($session->query('SELECT 1'), 1, 'the session goes on');
session_is_clean('a failed run');
mend_source();

# Cancel and statement_timeout, which may come before there is a record
stop_at('reading');
start_query($session, q{CALL gkmeans_refresh('m')});
wait_until_stopped();
sql("SELECT pg_cancel_backend($pid)");
wait_until_idle();
like(errors_of(), qr/canceling statement due to user request/, 'pg_cancel_backend: the error');
is(version(), '6 cancelled 57014', 'pg_cancel_backend: the record');
for (my $seconds = 1; $seconds < 100 && version() =~ /^6 /; $seconds *= 2)
{
	$session->query_safe("SET statement_timeout = '${seconds}s'");
	$session->query(q{CALL gkmeans_refresh('m')});
	like(errors_of(), qr/canceling statement due to statement timeout/, "statement_timeout of $seconds s: the error");
}
is(version(), '7 cancelled 57014', 'statement_timeout: the record');
go_on();
$session->query_safe('RESET statement_timeout');
is(deployed(), 4, 'the old version is deployed');
session_is_clean('a cancelled run');

# In blocks and procedures
sql('TRUNCATE stops');
my $count = sql('SELECT max(version) FROM m');
$session->query_safe(q{DO $$ BEGIN CALL gkmeans_refresh('m', deploy => 'always'); ROLLBACK; END $$});
is(sql('SELECT max(version) FROM m'), $count + 1, 'a procedure that may commit: it does');
$session->query_safe(q{DO $$ BEGIN BEGIN CALL gkmeans_refresh('m', deploy => 'always'); EXCEPTION WHEN division_by_zero THEN NULL; END; ROLLBACK; END $$});
is(sql('SELECT max(version) FROM m'), $count + 1, 'a block with EXCEPTION: it does not');
$session->query_safe(q{BEGIN; CALL gkmeans_refresh('m', deploy => 'always'); ROLLBACK});
is(sql('SELECT max(version) FROM m'), $count + 1, 'a transaction block: it does not');
is(errors_of(), '', 'no error');
like(($node->psql('postgres', q{DO $$ BEGIN SET default_transaction_read_only = on; CALL gkmeans_refresh('m'); END $$}))[2], qr/commits, and the next transaction is read-only/, 'a transaction before one that cannot write');
is(sql('SELECT max(version) FROM m'), $count + 1, 'no run begins');

# Somebody holds the row of a run that is cancelled: the record does not wait for him for ever
my ($keeper) = new_session($node);
move_points();
stop_at('reading');
start_query($session, q{CALL gkmeans_refresh('m')});
wait_until_stopped();
$keeper->query_safe(q{BEGIN; UPDATE m SET names = names WHERE status = 'running'});
sql("SELECT pg_cancel_backend($pid)");
$session->query('SELECT 1');
like(errors_of(), qr/WARNING:  could not record that version \d+ failed: canceling statement due to lock timeout.*ERROR:  canceling statement due to user request/s, 'a record that cannot be written');
like(version(), qr/ lost -$/, 'the run is lost');
$keeper->query_safe('ROLLBACK');
$keeper->quit;
go_on();

# An error at the commit
sql(q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused at the commit'; END $$;
	CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON labels DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.id = 2) EXECUTE FUNCTION refuse()});
move_points();
$labels_of_then = sql('SELECT md5(string_agg(l::text, \',\' ORDER BY id)) FROM labels l');
my $before = deployed();
$session->query(q{CALL gkmeans_refresh('m')});
like(errors_of(), qr/ERROR:  refused at the commit/, 'an error at the commit');
like(version(), qr/failed P0001$/, 'is recorded');
is(deployed(), $before, 'the old version is deployed');
labels_are($labels_of_then, 'an error at the commit');
# but that of a session which keeps its GPU
is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid' AND (locktype, classid) IS DISTINCT FROM ('advisory', 'pg_extension'::regclass)"), 0, 'no lock is left');
sql('DROP TRIGGER refuse ON labels');

# The record cannot be written: the error of the run is raised all the same
sql(q{CREATE FUNCTION refuse_record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no failures here'; END $$;
	CREATE TRIGGER refuse BEFORE UPDATE ON m FOR EACH ROW WHEN (new.status = 'failed') EXECUTE FUNCTION refuse_record()});
break_source();
$session->query(q{CALL gkmeans_refresh('m')});
$said = errors_of();
like($said, qr/WARNING:  could not record that version \d+ failed: no failures here/, 'a record that cannot be written is a WARNING');
like($said, qr/ERROR:  division by zero/, 'the error is that of the run');
like(version(), qr/^\d+ lost -$/, 'which is seen as lost, though its session is there');
is($session->query(q{SELECT status FROM gkmeans.versions WHERE model = 'public.m' ORDER BY version DESC LIMIT 1}), 'lost', 'by that session as well');
sql('DROP TRIGGER refuse ON m');
mend_source();
$session->query_safe(q{CALL gkmeans_refresh('m', deploy => 'always')});
is(sql(q{SELECT status || '|' || outcome FROM m ORDER BY version DESC OFFSET 1 LIMIT 1}), 'failed|lost: its session ended before the run did', 'the next refresh marks it');

# The first commit of the record fails as with a full queue: it is recorded without a notification
$listener->query_safe('SELECT 1');
sql(q{CREATE SEQUENCE records;
	CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('records') = 1 THEN RAISE program_limit_exceeded USING MESSAGE = 'too many notifications in the NOTIFY queue'; END IF;
		RETURN NULL;
	END $$;
	CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.status = 'failed') EXECUTE FUNCTION refuse_first()});
break_source();
$session->query(q{CALL gkmeans_refresh('m')});
unlike(errors_of(), qr/WARNING/, 'a record that is not committed is written again');
like(version(), qr/failed 22012$/, 'and is there');
unlike($listener->query_safe('SELECT 1'), qr/segments/, 'without a notification if none can be sent');
is(sql('SELECT last_value FROM records'), 2, 'the second time');
sql('DROP TRIGGER refuse ON m');
mend_source();

# A channel that an owner set by hand, and that is none
sql(q{CREATE TABLE unnotified (x float8); INSERT INTO unnotified SELECT generate_series(1, 9); SELECT gkmeans_create_model('of_unnotified', 'unnotified', '{x}', 2)});
sql(q{DO $$ BEGIN EXECUTE format('ALTER TABLE of_unnotified ALTER definition SET DEFAULT %L', (SELECT definition || '{"notify": ""}' FROM of_unnotified)); END $$});
$session->query(q{CALL gkmeans_refresh('of_unnotified')});
unlike(errors_of(), qr/WARNING/, 'a channel without a name');
is(sql(q{SELECT outcome FROM of_unnotified WHERE version = 2}), 'failed: channel name cannot be empty', 'is recorded as the error of the run');

# pg_terminate_backend
move_points();
stop_at('labels');
start_query($session, q{CALL gkmeans_refresh('m')});
wait_until_stopped();
$before = deployed();
sql("SELECT pg_terminate_backend($pid, 10000)");
like(version(), qr/^\d+ lost -$/, 'a run whose session was terminated is lost');
is(deployed(), $before, 'the old version is deployed');
go_on();
eval { $session->quit };

# kill -9 in every phase: after the first commit, and before the last
sql('ALTER TABLE m ALTER definition SET DEFAULT ' . $node->safe_psql('postgres', q{SELECT quote_literal(definition - 'notify') FROM m WHERE version = 1}));
my $iterating = q{'{"source": "large", "features": ["v"], "k": 3000, "n_init": 1000, "tol": 0, "init": "random", "search_path": "public"}'};
for my $phase ('reading', 'iterating', 'labels', 'row fitted', 'commit', 'row failed')
{
	($session, $pid) = new_session($node);
	($holder) = new_session($node);
	my $definition = sql(q{SELECT quote_literal(definition) FROM m WHERE version = 1});
	$before = deployed();
	move_points();
	$labels_of_then = sql('SELECT md5(string_agg(l::text, \',\' ORDER BY id)) FROM labels l');
	sql("ALTER TABLE m ALTER definition SET DEFAULT $iterating") if $phase eq 'iterating';
	break_source() if $phase eq 'row failed';
	stop_at($phase);
	start_query($session, q{CALL gkmeans_refresh('m')});
	if ($phase eq 'iterating') { wait_until_active($node, $pid) } else { wait_until_stopped() }
	like(version(), qr/ running -$/, "$phase: it runs");
	my $log_before = -s $node->logfile;
	kill 'KILL', $pid;
	ok($node->wait_for_log(qr/database system is ready to accept connections/, $log_before), "$phase: the server is back");
	eval { $session->quit };
	eval { $holder->quit };
	like(version(), qr/ lost -$/, "$phase: the run is lost");
	is(sql(q{SELECT status FROM m ORDER BY version DESC LIMIT 1}), 'running', "$phase: its row says that it runs");
	is(deployed(), $before, "$phase: the old version is deployed");
	labels_are($labels_of_then, $phase);
	is(sql("SELECT count(DISTINCT gkmeans_predict('m', x, y)) FROM points"), 3, "$phase: it predicts");
	sql('TRUNCATE stops');
	sql("ALTER TABLE m ALTER definition SET DEFAULT $definition");
	mend_source();
	sql(q{CALL gkmeans_refresh('m', deploy => 'always')});
	is(sql(q{SELECT string_agg(status, ' ' ORDER BY version) FROM (SELECT * FROM m ORDER BY version DESC LIMIT 2) l}), 'failed fitted', "$phase: the next refresh marks it, and goes well");
	is(sql('SELECT count(*) FROM labels l JOIN points p USING (id) WHERE l.cluster_id = gkmeans_predict(\'m\', p.x, p.y)'), 3000, "$phase: labels are those of the new version");
}

# The job of another role: as the owner, in all its transactions, and back again
sql(<<~'SQL');
	CREATE ROLE analyst;
	CREATE SCHEMA lab AUTHORIZATION analyst;
	GRANT SELECT ON points TO analyst;
	SET ROLE analyst;
	SET search_path = lab, public;
	CREATE FUNCTION lab.who(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN IF current_user <> 'analyst' THEN RAISE EXCEPTION 'run as %', current_user; END IF; RETURN v; END $$;
	CREATE FUNCTION lab.in_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM lab.who(0); RETURN new; END $$;
	CREATE TABLE lab.mine AS SELECT * FROM points;
	SELECT gkmeans_create_model('kinds', 'SELECT id, who(x) AS x, y FROM mine', '{x,y}', 3, id_column => 'id', labels_table => 'kind_labels', changes_table => 'kind_changes');
	CREATE TRIGGER as_whom BEFORE INSERT OR UPDATE OR DELETE ON kinds FOR EACH ROW EXECUTE FUNCTION in_trigger();
	CREATE TRIGGER as_whom BEFORE INSERT OR UPDATE OR DELETE ON kind_labels FOR EACH ROW EXECUTE FUNCTION in_trigger();
	UPDATE mine SET x = x + 1;
	SQL
($session, $pid) = new_session($node);
$session->query_safe('CREATE TEMP TABLE mine AS SELECT 1 AS id, 2.0 AS x, 3.0 AS y');
$session->query(q{CALL gkmeans_refresh('lab.kinds')});
is(errors_of(), '', 'a superuser refreshes the model of another role');
is(sql('SELECT status || \' \' || rows_used || \' \' || started_by FROM lab.kinds WHERE deployed AND version = 2'), "fitted 3000 $superuser", 'with the rows of the table of the owner, not of a temporary one');
is($session->query('SELECT current_user, current_setting(\'search_path\')'), $superuser . '|"$user", public', 'the session is as before');
sql('UPDATE lab.mine SET x = \'NaN\'; ');
$session->query(q{CALL gkmeans_refresh('lab.kinds')});
like(errors_of(), qr/ERROR:  the source has no usable row/, 'it fails');
is(sql('SELECT string_agg(status, \' \' ORDER BY version) FROM lab.kinds'), 'fitted fitted failed', 'the record is written as the owner');
is($session->query('SELECT current_user, current_setting(\'search_path\')'), $superuser . '|"$user", public', 'the session is as before');
sql('ALTER FUNCTION lab.who(float8) RENAME TO who_was_it');
sql(q{CREATE FUNCTION lab.who(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'RESET SESSION AUTHORIZATION'; RETURN v; END $$; UPDATE lab.mine SET x = id; DROP TRIGGER as_whom ON lab.kinds});
$session->query(q{CALL gkmeans_refresh('lab.kinds')});
like(errors_of(), qr/within security-restricted operation/, 'the source cannot become the caller');
is(sql(q{SELECT error_code FROM lab.kinds ORDER BY version DESC LIMIT 1}), '42501', 'which is recorded');

# Cursors that the owner's code leaves pinned, as PL/Perl does, do not run as the caller when a transaction ends
SKIP:
{
	skip 'test/modules is not installed', 9 unless has_module('gkmeans_faults');
	sql(<<~'SQL');
		CREATE FUNCTION leave_cursor(text) RETURNS void AS '$libdir/gkmeans_faults', 'gkmeans_leave_cursor' LANGUAGE C;
		SET ROLE analyst;
		SET search_path = lab, public;
		CREATE FUNCTION lab.payload() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'run as %', current_user; RETURN 1; END $$;
		CREATE FUNCTION lab.leave(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN IF current_query() LIKE 'CALL%' THEN PERFORM leave_cursor('SELECT lab.payload()'); END IF; RETURN v; END $$;
		CREATE FUNCTION lab.leave_in_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.status = tg_argv[0] THEN PERFORM lab.leave(0); END IF; RETURN new; END $$;
		CREATE FUNCTION lab.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.status = 'fitted' THEN RAISE EXCEPTION 'not today'; END IF; RETURN new; END $$;
		SELECT gkmeans_create_model('sly_' || place, CASE WHEN place = 'source' THEN 'SELECT id, CASE WHEN id = 5 THEN leave(x) ELSE x END AS x, y FROM mine' ELSE 'mine' END, '{x,y}', 3, scale => 'standard') FROM unnest('{source,running,failed}'::text[]) place;
		CREATE TRIGGER leave BEFORE INSERT OR UPDATE ON sly_running FOR EACH ROW EXECUTE FUNCTION leave_in_trigger('running');
		CREATE TRIGGER leave BEFORE INSERT OR UPDATE ON sly_failed FOR EACH ROW EXECUTE FUNCTION leave_in_trigger('failed');
		CREATE TRIGGER fail BEFORE UPDATE ON sly_failed FOR EACH ROW EXECUTE FUNCTION fail();
		SQL
	for my $place (qw(source running failed))
	{
		$session->query(qq{CALL gkmeans_refresh('lab.sly_$place', deploy => 'always')});
		is(join(' ', map { s/^psql:.*?: //r } grep { /WARNING|ERROR/ } split /\n/, errors_of()), $place eq 'failed' ? 'ERROR:  not today' : '', "$place: nothing runs as the caller");
		is(sql(qq{SELECT status FROM lab.sly_$place ORDER BY version DESC LIMIT 1}), $place eq 'failed' ? 'failed' : 'fitted', "$place: the run ends as without it");
		is($session->query('SELECT count(*) FROM pg_cursors'), '0', "$place: no cursor is left");
	}
}

# Two at once: one after the other
sql('TRUNCATE stops');
my ($first, $first_pid) = new_session($node);
my ($second, $second_pid) = new_session($node);
($holder) = new_session($node);
$pid = $first_pid;
move_points();
$count = sql('SELECT max(version) FROM m');
stop_at('reading');
start_query($first, q{CALL gkmeans_refresh('m', deploy => 'always')});
wait_until_stopped();
start_query($second, q{CALL gkmeans_refresh('m', deploy => 'always')});
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE pid = $second_pid AND relation = 'm'::regclass AND NOT granted") or die 'the second does not wait';
go_on();
wait_until_idle();
$pid = $second_pid;
wait_until_idle();
is(sql("SELECT string_agg(status, ' ') FROM m WHERE version > $count"), 'fitted fitted', 'two refreshes at once: one after the other');
$_->quit for $first, $second, $holder, $session, $listener;

end_server($node, killed => 1);
done_testing();
