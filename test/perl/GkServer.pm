# What the tests of whole servers share: a server of their own, and counting what a fit leaves behind.
package GkServer;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(has_module start_server settled_segments segments backends_left threads_of resident_of new_session start_query wait_until_active
	wait_until_ended end_server nothing_left slack_ms);

# How many ms a thread may go on working where "within 100 ms" is meant: its CPU time, on a slow machine.
sub slack_ms { return 300; }

# True if a module that only tests load is installed: "make installcheck" does not install it.
sub has_module
{
	my ($name) = @_;
	my ($folder) = run_command([ 'pg_config', '--pkglibdir' ]);
	return -f "$folder/$name.so";
}

# The tables of every server.
my $tables = <<~'SQL';
	CREATE EXTENSION gkmeans;
	CREATE FUNCTION noise(bigint, int) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
		'SELECT (hashint8extended($1, $2) & 4294967295)::float8 / 4294967296.0';
	CREATE TABLE data AS SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x, (i % 3) * 10 + noise(i, 2) AS y
		FROM generate_series(1, 3000) i;
	CREATE TABLE rows_of_16 AS
		SELECT ARRAY(SELECT noise(i, f)::real FROM generate_series(1, 16) f) AS v FROM generate_series(1, 2000) i;
	CREATE TABLE large AS
		SELECT ARRAY[v[1] + j, v[2], v[3] + j % 7, v[4], v[5], v[6], v[7], v[8], v[9], v[10] * j, v[11], v[12], v[13], v[14], v[15], v[16]]::real[] AS v
		FROM rows_of_16, generate_series(1, 100) j;
	ANALYZE;
	SQL

# Functions that measure what a backend does.
my $work = <<~'SQL';
	-- The CPU time that a process has had, in ms, and its threads; NULL if it has ended.
	CREATE FUNCTION work_of(process int, OUT ms float8, OUT threads float8) LANGUAGE plpgsql AS $$
	DECLARE fields text[];
	BEGIN
		-- utime, stime and num_threads of proc(5); a tick is 10 ms
		fields := string_to_array(substring(pg_read_file(format('/proc/%s/stat', process), 0, 4096, true) FROM '.*\) (.*)'), ' ');
		ms := 10 * (fields[12]::float8 + fields[13]::float8);
		threads := fields[18];
	EXCEPTION WHEN OTHERS THEN  -- it ended while it was read
	END $$;

	-- Does something to a backend, and tells for how many ms a thread of it went on working.  That is CPU time: it does
	-- not depend on what else the machine does.
	CREATE FUNCTION ms_until_idle(target int, action text) RETURNS float8 LANGUAGE plpgsql AS $$
	DECLARE
		start timestamptz := clock_timestamp();
		before record := work_of(target);
	BEGIN
		EXECUTE format('SELECT %s(%s)', action, target);
		LOOP
			PERFORM pg_stat_clear_snapshot();
			EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = target AND state = 'active');
			IF clock_timestamp() > start + interval '3 min' THEN
				RAISE EXCEPTION '% had no effect on process %', action, target;
			END IF;
			PERFORM pg_sleep(0.002);
		END LOOP;
		RETURN coalesce(((work_of(target)).ms - before.ms) / before.threads, 0);
	END $$;
	SQL

# A server with the extension, functions for the tests and two tables; "data" is small, "large" takes a while.
sub start_server
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $options{install_path} ? (install_path => $options{install_path}) : ());
	# not the locale of the user, which may not even be installed
	$node->init(allows_streaming => $options{allows_streaming} // 0, extra => [ '--no-locale', '--encoding=UTF8' ]);
	$node->append_conf('postgresql.conf', <<~CONF);
		dynamic_shared_memory_type = mmap
		max_worker_processes = 16
		max_parallel_workers = 16
		max_prepared_transactions = 4
		min_parallel_table_scan_size = 0
		parallel_setup_cost = 0
		parallel_tuple_cost = 0
		restart_after_crash = on
		autovacuum = off
		log_line_prefix = '%m [%p] '
		gkmeans.host_memory_limit = 1GB
		CONF
	$node->start;
	$node->safe_psql('postgres', $tables);
	$node->safe_psql('postgres', $work);
	return $node;
}

# Dynamic shared memory segments of a server: more than settled_segments() are those of a fit or its workers.
sub segments
{
	my ($node) = @_;
	my @files = glob($node->data_dir . '/pg_dynshmem/mmap.*');
	return scalar(@files);
}

# The segments that PostgreSQL itself has, once it has run some queries.
my %settled;

sub settled_segments
{
	my ($node) = @_;
	return $settled{ $node->name };
}

# Client backends and parallel workers, except the one that counts.
sub backends_left
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()");
}

# Threads of a process.
sub threads_of
{
	my ($pid) = @_;
	my @tasks = glob("/proc/$pid/task/*");
	return scalar(@tasks);
}

# Memory of a process of its own, in kB.
sub resident_of
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
	return $kb;
}

# A session with its process id; one fit has run in it, so that what a session keeps is loaded.
sub new_session
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	# a timeout is for one query, not for the test
	$session->set_query_timer_restart() if $session->can('set_query_timer_restart');
	$session->query("SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3)");
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$settled{ $node->name } = segments($node);
	return ($session, $pid);
}

# Sends a query and does not wait for its end.
sub start_query
{
	my ($session, $query) = @_;
	$session->query_until(qr/started/, "\\echo started\n$query;\n");
	return;
}

# Waits until the fit of a backend has begun, and some more; it must still be running.
sub wait_until_active
{
	my ($node, $pid) = @_;
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM gkmeans.progress WHERE pid = $pid AND phase <> 'queued')")
		or die 'there is no fit: its query was too short or failed';
	usleep(500_000);
	$node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid") eq 'active'
		or die 'the backend is not active: its query was too short or failed';
	return;
}

# Waits until a process has ended.  It may stay as a zombie: not every container has an init that collects them.
sub wait_until_ended
{
	my ($pid) = @_;
	for (1 .. 1800)
	{
		my $status = eval { slurp_file("/proc/$pid/status") } // '';
		return 1 if $status eq '' || $status =~ /^State:\s+[ZX]/m;
		usleep(100_000);
	}
	return 0;
}

# Tests that a session holds nothing of a fit: segments, threads, memory.
sub nothing_left
{
	my ($node, $session, $pid, $threads, $name) = @_;
	is(segments($node), settled_segments($node), "$name: no shared memory segment left");
	is(threads_of($pid), $threads, "$name: no thread left");
	is($session->query("SELECT count(*) FROM gkmeans_memory() WHERE bytes <> 0"), '0', "$name: no memory left");
	is($session->query("SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'gkmeans'"), '0', "$name: no memory context left");
	return;
}

# Stops a server; its log must report no leak, and no crash that the test did not cause.
sub end_server
{
	my ($node, %options) = @_;
	$node->stop;
	my $log = slurp_file($node->logfile);
	unlike($log, qr/leak(?!proof)/i, 'the log tells of no leak');
	unlike($log, qr/PANIC|TRAP:|terminated by signal (?:4|6|7|8|11)\b/, 'the log tells of no crash');
	unlike($log, qr/terminated by signal 9\b/, 'the log tells of no killed process') unless $options{killed};
	my @files = glob($node->data_dir . '/base/pgsql_tmp/*');
	is(scalar(@files), 0, 'no temporary file is left');
	return;
}

1;
