# Jobs of pg_cron that refresh models, over connections and in background workers: schedule, failure, cancel, timeout, overlap, restart.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

has_module('pg_cron') or plan skip_all => 'pg_cron is not installed';

# Both servers at once: a job begins with a minute.
my %servers;
for my $mode ('connections', 'background workers')
{
	my $node = start_server($mode =~ s/ /_/gr);
	my $workers = $mode eq 'background workers' ? 'on' : 'off';
	$node->append_conf('postgresql.conf', <<~CONF);
		shared_preload_libraries = 'pg_cron'
		cron.database_name = 'postgres'
		cron.use_background_workers = $workers
		cron.host = '@{[ $node->host ]}'
		cron.max_running_jobs = 10
		max_worker_processes = 30
		CONF
	$node->restart;
	$servers{$mode} = $node;
	$node->safe_psql('postgres', <<~'SQL');
		CREATE EXTENSION pg_cron;
		CREATE TABLE points AS SELECT i AS id, i % 3 * 10 + noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 300) i;
		SELECT count(*) FROM gkmeans_create_model('nightly', 'points', '{x,y}', 3, id_column => 'id', labels_table => 'labels');
		SELECT count(*) FROM unnest('{twice,quiet,broken,stuck,late,restarted}'::text[]) name, LATERAL gkmeans_create_model(name, 'points', '{x,y}', 3);
		UPDATE points SET x = x + 1 + id / 1000.0;
		CREATE FUNCTION redefine(model regclass, source text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			EXECUTE format('ALTER TABLE %s ALTER definition SET DEFAULT %L', model, jsonb_build_object('source', source, 'features', '["x", "y"]'::jsonb, 'k', 3));
		END $$;
		SELECT redefine('broken', 'SELECT x / (id - 7) AS x, y FROM public.points'), redefine('stuck', 'SELECT x, y FROM pg_sleep(1000), public.points'),
			redefine('late', 'SELECT x, y FROM pg_sleep(1000), public.points'), redefine('restarted', 'SELECT x, y FROM pg_sleep(1000), public.points');
		CREATE TABLE alert (id int, score float8);
		INSERT INTO points VALUES (9001, 500, 500);
		CREATE ROLE impatient LOGIN SUPERUSER;
		ALTER ROLE impatient SET statement_timeout = '20s';
		SELECT cron.schedule('nightly', '* * * * *', $$CALL gkmeans_refresh('nightly')$$);
		SELECT cron.schedule('one', '* * * * *', $$CALL gkmeans_refresh('twice', deploy => 'always')$$);
		SELECT cron.schedule('other', '* * * * *', $$CALL gkmeans_refresh('twice', deploy => 'always')$$);
		SELECT cron.schedule('quiet', '* * * * *', $$CALL gkmeans_refresh('quiet', only_if_drift => 10)$$);
		SELECT cron.schedule('broken', '* * * * *', $$CALL gkmeans_refresh('broken')$$);
		SELECT cron.schedule('alerts', '* * * * *', $$INSERT INTO alert SELECT id, gkmeans_anomaly_score('nightly', p) FROM points p WHERE gkmeans_anomaly_percentile('nightly', p) > 0.999$$);
		SELECT cron.schedule('late', '* * * * *', $$CALL gkmeans_refresh('late')$$);
		UPDATE cron.job SET username = 'impatient' WHERE jobname = 'late';
		SQL
}

# The blocks of docs/jobs.md, and then the jobs that they schedule, one after the other
{
	my $node = $servers{connections};
	my $page = slurp_file("$FindBin::Bin/../../docs/jobs.md");
	my $blocks = join "\n", $page =~ /^```sql\n(.*?)^```$/msg;
	my ($status, $out, $err) = $node->psql('postgres', $blocks, on_error_stop => 1);
	is($err, '', 'the blocks of docs/jobs.md run');
	$node->safe_psql('postgres', 'CREATE TABLE labels_then AS SELECT * FROM buyer_segments');
	my @jobs = split /\n/, $node->safe_psql('postgres', q{SELECT jobname FROM cron.job WHERE jobname LIKE 'buyer%' ORDER BY jobid});
	cmp_ok(scalar(@jobs), '>=', 6, 'they schedule jobs');
	for my $job (@jobs)
	{
		$node->safe_psql('postgres', 'UPDATE buyers SET recency = recency + buyer_id % 3, seen_at = now() WHERE buyer_id <= 1000');
		my $command = $node->safe_psql('postgres', "SELECT command FROM cron.job WHERE jobname = '$job'");
		is(($node->psql('postgres', $command))[2], '', "$job runs");
	}
	is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE status IN ('failed', 'running')) FROM buyer_kinds}), 0, 'no run failed');
	my $moved = q{SELECT count(*) FROM labels_then t FULL JOIN buyer_segments s USING (id) WHERE t.cluster_id IS DISTINCT FROM s.cluster_id};
	cmp_ok($node->safe_psql('postgres', $moved), '>', 0, 'buyers moved');
	is($node->safe_psql('postgres', "$moved AND id NOT IN (SELECT id FROM buyer_moves)"), 0, 'who moved is recorded, whichever job wrote it');
	$node->safe_psql('postgres', q{SELECT cron.unschedule(jobid) FROM cron.job WHERE jobname LIKE 'buyer%'});
}

# What pg_cron says of the last run of a job, and what the model says.
sub run_of
{
	my ($node, $job) = @_;
	return $node->safe_psql('postgres', "SELECT d.status || ' ' || coalesce(return_message, '') FROM cron.job_run_details d JOIN cron.job USING (jobid) WHERE jobname = '$job' ORDER BY runid LIMIT 1");
}
sub version_of
{
	my ($node, $model, $version) = @_;
	return $node->safe_psql('postgres', "SELECT concat_ws(' ', status, error_code, CASE WHEN deployed THEN 'deployed' END) FROM gkmeans.versions WHERE model = 'public.$model' AND version = $version");
}
sub wait_for
{
	my ($node, $condition) = @_;
	$node->poll_query_until('postgres', "SELECT $condition") or die "it did not come to $condition";
	return;
}
sub wait_for_version
{
	my ($node, $model, $version, $status) = @_;
	wait_for($node, "EXISTS (SELECT FROM gkmeans.versions WHERE model = 'public.$model' AND version = $version AND status = '$status')");
	return;
}
sub wait_for_run
{
	my ($node, $job, $status) = @_;
	wait_for($node, "EXISTS (SELECT FROM cron.job_run_details JOIN cron.job USING (jobid) WHERE jobname = '$job' AND cron.job_run_details.status = '$status')");
	return;
}

for my $mode (sort keys %servers)
{
	my $node = $servers{$mode};

	wait_for_run($node, 'nightly', 'succeeded');
	like(version_of($node, 'nightly', 2), qr/^fitted deployed$/, "$mode: a refresh on schedule deploys version 2");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM points p JOIN labels l USING (id) WHERE l.cluster_id = gkmeans_predict('nightly', p)}), 301, "$mode: with its labels");
	like(run_of($node, 'nightly'), qr/^succeeded /, "$mode: pg_cron says that it succeeded");

	wait_for_run($node, 'broken', 'failed');
	like(run_of($node, 'broken'), qr/division by zero/, "$mode: pg_cron shows the error of a source");
	is(version_of($node, 'broken', 2), 'failed 22012', "$mode: so does gkmeans.versions");
	is(version_of($node, 'broken', 1), 'fitted deployed', "$mode: the old version is deployed");

	wait_for_run($node, 'late', 'failed');
	like(run_of($node, 'late'), qr/statement timeout/, "$mode: statement_timeout");
	is(version_of($node, 'late', 2), 'cancelled 57014', "$mode: is recorded as cancelled");

	wait_for_run($node, 'one', 'succeeded');
	wait_for_run($node, 'other', 'succeeded');
	is($node->safe_psql('postgres', q{SELECT string_agg(status, ' ' ORDER BY version) FROM twice WHERE version IN (2, 3)}), 'fitted fitted', "$mode: two refreshes of a model at once follow one another");
	is($node->safe_psql('postgres', q{SELECT bool_and(b.started_at >= a.finished_at) FROM twice a JOIN twice b ON b.version = a.version + 1}), 't', "$mode: the second begins when the first has ended");

	wait_for_run($node, 'quiet', 'succeeded');
	is(version_of($node, 'quiet', 2), 'checked', "$mode: less drift than only_if_drift");
	wait_for_run($node, 'alerts', 'succeeded');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM alert WHERE id = 9001'), 1, "$mode: a job that looks for outliers");
	$node->safe_psql('postgres', q{SELECT cron.unschedule(jobid) FROM cron.job; SELECT cron.schedule(name, '* * * * *', format('CALL gkmeans_refresh(%L)', name)) FROM unnest('{stuck,restarted}'::text[]) name});
}

# Jobs that run on, in background workers one of them is all that pg_cron looks at: cancel, and a restart of the server,
# after which the run is lost, and the next one on schedule marks it.
for my $mode (sort keys %servers)
{
	my $node = $servers{$mode};

	wait_for_version($node, $_, 2, 'running') for 'stuck', 'restarted';
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend((report ->> 'pid')::int) FROM stuck WHERE status = 'running'});
	wait_for_version($node, 'stuck', 2, 'cancelled');
	is(version_of($node, 'stuck', 2), 'cancelled 57014', "$mode: pg_cancel_backend");
	if ($mode eq 'connections')
	{
		wait_for_run($node, 'stuck', 'failed');
		like(run_of($node, 'stuck'), qr/canceling statement due to user request/, "$mode: pg_cron says so as well");
	}
	$node->safe_psql('postgres', q{SELECT cron.unschedule('stuck')});
	$node->restart;
	is(version_of($node, 'restarted', 2), 'lost', "$mode: a run that a restart ended is lost");
	is(version_of($node, 'restarted', 1), 'fitted deployed', "$mode: the old version is deployed");
	$node->safe_psql('postgres', q{SELECT redefine('restarted', 'SELECT x, y FROM public.points')});
}
for my $mode (sort keys %servers)
{
	my $node = $servers{$mode};

	wait_for_version($node, 'restarted', 3, 'fitted');
	is(version_of($node, 'restarted', 2), 'failed', "$mode: the next run marks it");
	is(version_of($node, 'restarted', 3), 'fitted deployed', "$mode: and deploys");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE relation = 'restarted'::regclass OR objid = 'restarted'::regclass}), 0, "$mode: no lock is left");
	$node->safe_psql('postgres', 'SELECT cron.unschedule(jobid) FROM cron.job');
	end_server($node, killed => 1);
}
done_testing();
