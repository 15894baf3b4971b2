# Between SQL and a CUDA engine, without a GPU: which engine a fit gets, what errors of devices become, and the slots.
# test/unit/cuda_stand_in.c replaces the GPU library; a file in the data directory plans its failures.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Copy;
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

for my $program ('make', 'cc')
{
	plan skip_all => "$program is not installed" unless grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

# The extension's functions come from a copy of its library, which finds the stand-in beside it.
# GK_UNIT_BUILD is where the programs of test/unit were built, if they were.
my $folder = "$PostgreSQL::Test::Utils::tmp_check/stand_in";
my $built = $ENV{GK_UNIT_BUILD} // $folder;
system_or_bail('make', '-s', '-C', "$FindBin::Bin/../unit", "BUILD=$built", "$built/gkmeans_cuda.so");
my ($installed) = run_command([ 'pg_config', '--pkglibdir' ]);
mkdir $folder;
copy("$installed/$_.so", "$folder/$_.so") or die "$_.so: $!" for 'gkmeans', 'gkmeans_links';
$built eq $folder or copy("$built/gkmeans_cuda.so", "$folder/gkmeans_cuda.so") or die "gkmeans_cuda.so: $!";

my $node = start_server('devices', allows_streaming => 1);
$node->safe_psql('postgres', "UPDATE pg_proc SET probin = '$folder/gkmeans' WHERE probin = '\$libdir/gkmeans'");
$node->append_conf('postgresql.conf', "gkmeans.engine = auto\ngkmeans.cpu_threads = 1\ndeadlock_timeout = 100ms\n");
$node->reload;

# Plans the failures from now on; without arguments, none.
sub pretend
{
	my (%words) = @_;
	my $path = $node->data_dir . '/cuda_stand_in';
	unlink $path;
	append_to_file($path, "$_ $words{$_}\n") for sort keys %words;
	return;
}

# A session whose errors come with their SQLSTATE.
sub connect_to
{
	my ($to, $settings) = @_;
	my $session = $to->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\n$settings");
	return ($session, $session->query_safe('SELECT pg_backend_pid()'));
}

# The output of a session, results and errors, without positions in the sources.
sub answer
{
	my ($session, $query) = @_;
	my $answer = join "\n", grep { $_ ne '' } scalar($session->query($query)), $session->{stderr};
	$session->{stderr} = '';
	return $answer =~ s/^psql:[^ ]* |\nLOCATION:.*//gmr;
}

# The same from a new session.
sub ask
{
	my ($settings, $query) = @_;
	my ($session) = connect_to($node, $settings);
	my $answer = answer($session, $query);
	$session->quit;
	return $answer;
}

# The bits of a fit, and its engine.
my $fit = q{SELECT md5(string_agg(f::text, ' ' ORDER BY f)) FROM gkmeans_fit('data', '{x,y}', 3) f};
my $labels = q{SELECT md5(string_agg(f::text, ' ' ORDER BY f)) FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id') f};
my $engine = 'SELECT engine, devices, engine_reason FROM gkmeans_last_fit()';
my $cuda = 'SET gkmeans.engine = cuda;';
my $auto = 'SET gkmeans.engine = auto;';
my $bits = ask('SET gkmeans.engine = cpu', $fit);
my $label_bits = ask('SET gkmeans.engine = cpu', $labels);

# A fit of few rows where the planner expects many.
sub promised
{
	my ($rows, $arguments) = @_;
	$node->safe_psql('postgres', "CREATE OR REPLACE FUNCTION promised_$rows() RETURNS SETOF data ROWS $rows LANGUAGE sql AS 'TABLE data'");
	return "SELECT md5(string_agg(f::text, ' ' ORDER BY f)) FROM gkmeans_fit('SELECT x, y FROM promised_$rows()', '{x,y}', $arguments) f";
}
my $promised = promised('1000000000', 3);    # about 6 s by one thread
my $promised_long = promised('20000000000', 3);

my $unusable = 'ERROR:  58000: the CUDA engine cannot be used:';
my $instead = "\nHINT:  Set gkmeans.engine to auto or cpu.";
my $full = 'has too little memory free: 1000 of 2000 bytes';

# engine = cuda, and the devices
for my $case ([ '', 1 ], [ '0', 1 ], [ '3', 1 ], [ '0,1', 2 ], [ 'all', 4 ])
{
	my ($devices, $count) = @$case;
	is(ask("$cuda SET gkmeans.devices = '$devices'", "$fit; $labels; $engine"), "$bits\n$label_bits\ncuda|$count|gkmeans.engine is cuda", "cuda, devices = '$devices'");
}
is(ask("$cuda SET gkmeans.devices = '4'", $fit), "$unusable invalid device ordinal$instead", 'a device that is not there');
my ($session, $pid) = connect_to($node, $cuda . q{SET gkmeans.devices = '1,2'});
my $rows = 'SELECT * FROM gkmeans_devices()';
is(answer($session, $rows), join("\n", map { "$_|Stand-in $_|9.0|85899345920||0" } 0 .. 3), 'gkmeans_devices() before a fit');
is(answer($session, "$fit; SELECT device_bytes_peak > 0, host_bytes_peak FROM gkmeans_last_fit()"), "$bits\nt|0", 'memory of devices');
is(answer($session, $rows), join("\n", map { "$_|Stand-in $_|9.0|85899345920|" . ($_ == 1 || $_ == 2 ? 75161927680 : '') . '|0' } 0 .. 3), 'gkmeans_devices() after a fit: two are open');
my $by_device = q{SELECT kind, device, bytes, peak > 0 FROM gkmeans_memory() ORDER BY device, kind};
is(answer($session, $by_device), "device|1|0|t\ndevice|2|0|t\nhost||0|f\njobs||0|f\npinned||0|f\nring||0|t", 'gkmeans_memory() tells the devices apart');
is(answer($session, q{SELECT round(a.peak / b.peak::numeric, 2), a.peak + b.peak <= f.device_bytes_peak FROM gkmeans_memory() a, gkmeans_memory() b, gkmeans_last_fit() f WHERE a.device = 2 AND b.device = 1}),
	'2.00|t', 'and each has its own bytes');
answer($session, 'CREATE OR REPLACE FUNCTION of_device(d int) RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT bytes FROM gkmeans_memory() WHERE device = d $$');
is(answer($session, q{SELECT size FROM gkmeans_fit('SELECT x, y, of_device(1) AS z FROM data', '{x,y}', 1) UNION ALL SELECT count(*) FROM gkmeans_memory() WHERE device IN (1, 2)}), "3000\n2", 'no device stands twice');
is(answer($session, "SET gkmeans.devices = '0,1'; SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3); SELECT device FROM gkmeans_memory() WHERE kind = 'device' ORDER BY 1"),
	"3\n0\n1\n2", 'a device of a later fit comes beside');
is(answer($session, q{SELECT size FROM gkmeans_fit('SELECT x, y FROM data WHERE (SELECT sum(g.size) FROM gkmeans_fit(''data'', ''{x,y}'', 1) g) > 0', '{x,y}', 1)}), '3000', 'a fit inside a fit, on the same devices');
is(ask('SET gkmeans.engine = cpu', "SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3); SELECT kind FROM gkmeans_memory() ORDER BY 1"), "3\nhost\njobs\npinned\nring", 'no device, no row of one');
$session->quit;
$node->safe_psql('postgres', 'CREATE ROLE somebody');
for my $setting ('gkmeans.devices', 'gkmeans.max_gpu_backends', 'gkmeans.device_memory_limit')
{
	is(ask('SET ROLE somebody', "$rows LIMIT 0; SET $setting = '1'"), qq{ERROR:  42501: permission denied to set parameter "$setting"}, "only a superuser sets $setting");
}
is(ask("SET ROLE somebody; $cuda", "$engine; $rows LIMIT 0; SHOW gkmeans.engine"), 'cuda', 'anybody chooses the engine');

# No driver, no device
for my $case ([ 'driver', 'the driver is missing' ], [ 'devices', 'no CUDA device found' ])
{
	my ($word, $reason) = @$case;
	pretend($word => 0);
	is(ask($cuda, $fit), "$unusable $reason$instead", "$reason: cuda");
	is(ask($auto, "$promised; $engine"), "$bits\ncpu|0|$reason", "$reason: auto");
	is(ask($auto, $rows), '', "$reason: gkmeans_devices() has no row");
}

# auto, by the expected time
pretend();
for my $case (
	[ $fit, 'cpu|0|about 0.0 s on the CPUs' ],
	[ $promised, 'cuda|1|about 6.0 s on the CPUs, 0.5 s on 1 GPU' ],
	[ promised('200000000', 3), 'cuda|1|about 1.2 s on the CPUs, 0.4 s on 1 GPU' ],
	[ promised('200000000', '3, max_iter => 10'), 'cpu|0|about 0.6 s on the CPUs' ],
	[ promised('2000000000', '3, n_init => 250'), 'cuda|4|about 3000.0 s on the CPUs, 12.4 s on 4 GPUs' ],
	[ promised('100000000000', '3, max_iter => 1'), 'cuda|4|about 30.0 s on the CPUs, 2.5 s on 4 GPUs' ])
{
	my ($query, $expected) = @$case;
	my ($arguments) = $query =~ /'\{x,y\}', (.*)\) f/;
	like(ask($auto, "$query; $engine"), qr/^[0-9a-f]{32}\n\Q$expected\E$/, "auto: $expected");
}
pretend(gflops => 100);
is(ask($auto, "$promised; $engine"), "$bits\ncpu|0|about 6.0 s on the CPUs, no more on GPUs", 'auto: devices that are slow');
pretend(gflops => 10000);
is(ask($auto, "$promised; $engine"), "$bits\ncuda|1|about 6.0 s on the CPUs, 0.9 s on 1 GPU", 'auto: devices that are not so fast');
pretend();
is(ask("$auto SET gkmeans.devices = '2,3'", "$promised; $engine"), "$bits\ncuda|2|about 6.0 s on the CPUs, 1.8 s on 2 GPUs", 'auto: devices that are named');
is(ask("$cuda SET gkmeans.devices = '2'", "$fit; $auto $promised; $engine"), "$bits\n$bits\ncuda|1|about 6.0 s on the CPUs, 0.1 s on 1 GPU", 'auto: a device that is named and open');
is(ask("$cuda SET gkmeans.devices = '0'", "$fit; SET gkmeans.devices = '2'; $auto $promised; $engine"), "$bits\n$bits\ncuda|1|about 6.0 s on the CPUs, 0.5 s on 1 GPU", 'auto: a device that is named and not open');
is(ask("$auto SET gkmeans.devices = ' all '", promised('300000000', 3) . "; $engine"), "$bits\ncpu|0|about 1.8 s on the CPUs, no more on GPUs", 'auto: devices that take longer to open');

# Several devices do not work together, one does
for my $case ([ 2, '58000: the CUDA engine cannot be used: several devices fail' ], [ 6, '58030: gkmeans: several devices fail' ])
{
	my ($code, $error) = @$case;
	pretend(several => $code);
	like(ask("$cuda SET gkmeans.devices = '0,1'", $fit), qr/^ERROR:  $error\n/, "several devices fail with $code: cuda");
	is(ask("$cuda SET gkmeans.devices = '0'", "$fit; $engine"), "$bits\ncuda|1|gkmeans.engine is cuda", "several devices fail with $code: one works");
	is(ask("$auto SET gkmeans.devices = 'all'", "$promised; $engine"), "$bits\ncuda|1|about 6.0 s on the CPUs, 2.4 s on 4 GPUs, but: several devices fail",
		"several devices fail with $code: auto takes one");
}

# A device without memory
pretend(full => 0);
is(ask($cuda, $fit), join("\n", 'ERROR:  53200: gkmeans: out of memory of GPU 0', 'DETAIL:  5000 bytes are needed, 1000 bytes are free.',
	'HINT:  Other processes may hold its memory; "gkmeans.devices" names the GPUs to use, "gkmeans.engine" the engine.'), 'a full device: cuda');
is(ask($auto, "$promised; $engine"), "$bits\ncpu|0|GPU 0 $full", 'a full device: auto');
is(ask("$auto SET gkmeans.devices = '1'", "$promised; $engine"), "$bits\ncuda|1|about 6.0 s on the CPUs, 0.5 s on 1 GPU", 'a full device: another one');
pretend(full => 3);
is(ask("$auto SET gkmeans.devices = 'all'", "$promised; $engine"), "$bits\ncuda|1|about 6.0 s on the CPUs, 2.4 s on 4 GPUs, but: GPU 3 $full",
	'one of the devices is full: auto takes the first');

is(ask("$auto SET gkmeans.devices = '3'", "BEGIN; $promised; SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 3; $engine"),
	"$bits\n0\ncpu|0|GPU 3 $full", 'no slot for a fit on the CPUs');
is(ask("$cuda SET gkmeans.devices = '2'", "BEGIN; $fit; SET gkmeans.devices = '3'; $auto $promised; SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 3; $engine"),
	"$bits\n$bits\n1\ncpu|0|GPU 3 $full", 'but that of a fit before is kept');

# A device that fails
pretend(failed => 1);
is(ask($cuda, $fit), "ERROR:  58030: gkmeans: operation not supported\nDETAIL:  cudaStreamCreate failed on device 0 with error 801.", 'a device fails when it is opened: cuda');
is(ask($auto, "$promised; $engine"), "$bits\ncpu|0|operation not supported", 'a device fails when it is opened: auto');
pretend(failed => 5);
($session, $pid) = connect_to($node, $cuda);
is(answer($session, $fit), "ERROR:  58030: gkmeans: operation not supported\nDETAIL:  cudaLaunchKernel failed on device 0 with error 801.", 'a device fails in a command');
pretend();
is(answer($session, $fit), $bits, 'and the next fit of the session succeeds');
$session->quit;

# A context that is lost
my $lost = "ERROR:  58030: gkmeans: an illegal memory access\nDETAIL:  %s failed.\nHINT:  Reconnect: this session cannot use its devices any more.";
pretend(lost => 5);
($session, $pid) = connect_to($node, $cuda);
is(answer($session, $fit), sprintf($lost, 'cudaLaunchKernel'), 'a lost context: cuda');
pretend();
is(answer($session, $fit), sprintf($lost, 'an earlier call'), 'a lost context: the next fit under cuda');
is(answer($session, $rows), sprintf($lost, 'an earlier call'), 'a lost context: gkmeans_devices()');
is(answer($session, "$auto $promised; $engine"), "$bits\ncpu|0|an illegal memory access", 'a lost context: the next fit under auto');
is(answer($session, "SET gkmeans.engine = cpu; $fit; SELECT sum(bytes) FROM gkmeans_memory()"), "$bits\n0", 'a lost context: the CPU engine, and nothing held');
my ($host, $port) = ($node->host, $node->port);
$node->safe_psql('postgres', "CREATE EXTENSION postgres_fdw; CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER here");
my $sampled = q{SELECT md5(string_agg(f::text, ' ' ORDER BY f)) FROM gkmeans_fit('SELECT sin(i::float8 * i) AS x FROM generate_series(1, 150000) i', '{x}', 20) f};
is(answer($session, "$cuda SET gkmeans.nodes = 'here'; $sampled"), ask('SET gkmeans.engine = cpu', $sampled), 'a lost context: the sample of a fit over nodes');
$session->quit;
is(ask($cuda, "$fit; $engine"), "$bits\ncuda|1|gkmeans.engine is cuda", 'a lost context: a new session');
pretend(lost => 5);
is(ask($auto, $promised), sprintf($lost, 'cudaLaunchKernel'), 'a lost context in a fit under auto');
pretend(lost => 1);
is(ask($auto, "$promised; $engine"), "$bits\ncpu|0|an illegal memory access", 'a context that is lost when it is opened: auto');
pretend();

# The slots of a process, and who waits for one
my $locks = q{FROM pg_locks WHERE locktype = 'advisory' AND database = 0 AND objsubid = 3};

sub slots_of
{
	my ($process) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(objid::text, ',' ORDER BY objid) $locks AND granted AND pid = $process");
}

# Waits until a process is in the queue: the first has its lock.
sub wait_until_queued
{
	my ($process, $first) = @_;
	return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT $locks AND objid = 0 AND granted = $first AND pid = $process) AND EXISTS
		(SELECT FROM pg_stat_activity WHERE pid = $process AND wait_event_type = 'Lock' AND wait_event = 'advisory')");
}

# Ends the transactions of sessions, which leaves no slot.
sub end_transactions
{
	my ($name, @sessions) = @_;
	$_->query('ROLLBACK') for @sessions;
	$_->{stderr} = '' for @sessions;
	is($node->safe_psql('postgres', "SELECT count(*) $locks"), 0, "$name: no lock left");
	return;
}

my $one = "$cuda SET gkmeans.max_gpu_backends = 1;";
my $two = "$cuda SET gkmeans.max_gpu_backends = 2;";
my ($holder, $holder_pid) = connect_to($node, $one);
my ($waiter, $waiter_pid) = connect_to($node, $one);
my ($third, $third_pid) = connect_to($node, $one);

# One slot, and how it becomes free
is(answer($holder, "BEGIN; $fit; $fit; SAVEPOINT s; $fit; ROLLBACK TO s; $labels"), "$bits\n$bits\n$bits\n$label_bits", 'fits of one transaction');
is(slots_of($holder_pid), '1', 'fits of one transaction: one slot');
end_transactions('fits of one transaction', $holder);
for my $case ([ '', 'COMMIT' ], [ '', 'ROLLBACK' ], [ '', 'SELECT 1 / 0' ], [ 'SAVEPOINT s;', 'ROLLBACK TO s' ], [ 'SAVEPOINT s; SAVEPOINT t;', 'RELEASE t; ROLLBACK TO s' ])
{
	my ($before, $end) = @$case;
	is(answer($holder, "BEGIN; $before $fit"), $bits, "$end: the holder");
	start_query($waiter, "$fit");
	ok(wait_until_queued($waiter_pid, 'true'), "$end: the other waits");
	is($node->safe_psql('postgres', "SELECT phase FROM gkmeans.progress WHERE pid = $waiter_pid"), 'queued', "$end: others see that it does");
	$holder->query($end);
	is(answer($waiter, ''), $bits, "$end: the other goes on");
	end_transactions($end, $holder);
}

# A long fit, and its backend ends
my $hold = $node->data_dir . "/cuda_stand_in.hold.$holder_pid";
append_to_file($hold, '');
start_query($holder, $fit);
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 $locks AND granted AND pid = $holder_pid"), 'a long fit: it has a slot');
is(ask("$auto SET gkmeans.max_gpu_backends = 1", "$promised; $engine"), "$bits\ncpu|0|every GPU slot is taken", 'a long fit: auto does not wait if the CPUs are soon done');
is(ask($two, "$fit; $fit"), "$bits\n$bits", 'a long fit: another limit, another slot');
start_query($waiter, "$auto $promised_long; $engine");
ok(wait_until_queued($waiter_pid, 'true'), 'a long fit: auto waits if the CPUs take long');
is(ask("$cuda SET gkmeans.max_gpu_backends = 0", $fit), $bits, 'a long fit: no limit, no waiting');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($holder_pid)");
is(answer($waiter, ''), "$bits\ncuda|3|about 120.0 s on the CPUs, 2.6 s on 3 GPUs", 'a terminated backend: the other goes on');
eval { $holder->quit };
unlink $hold;
$waiter->query($cuda);

# Cancelled and timed out: first in the queue, and behind another
($holder, $holder_pid) = connect_to($node, $one);
answer($holder, "BEGIN; $fit");
for my $place ('first', 'second')
{
	my $first = $place eq 'first' ? 'true' : 'false';
	is(answer($waiter, "SET gkmeans.queue_timeout = '150ms'; SET lock_timeout = '10ms'; $fit"), join("\n", 'ERROR:  53300: no GPU slot became free within gkmeans.queue_timeout',
		'DETAIL:  All 1 slots of gkmeans.max_gpu_backends are taken.', 'HINT:  Try again later, or set gkmeans.engine to cpu.'), "too late, $place in the queue");
	start_query($waiter, "SET gkmeans.queue_timeout = 0; RESET lock_timeout; $fit");
	ok(wait_until_queued($waiter_pid, $first), "cancelled, $place in the queue: it waits");
	cmp_ok($node->safe_psql('postgres', "SELECT ms_until_idle($waiter_pid, 'pg_cancel_backend')"), '<', slack_ms(), "cancelled, $place in the queue");
	is(answer($waiter, 'SHOW deadlock_timeout'), "100ms\nERROR:  57014: canceling statement due to user request", "cancelled, $place in the queue: it says so");
	is(slots_of($waiter_pid), '', "cancelled, $place in the queue: it holds nothing");
	is(answer($waiter, "SET statement_timeout = 100; $fit; SET statement_timeout = 0"), 'ERROR:  57014: canceling statement due to statement timeout', "statement_timeout, $place in the queue");
	next if $place eq 'second';
	start_query($third, $fit);
	ok(wait_until_queued($third_pid, 'true'), 'another comes first');
}
answer($holder, 'COMMIT');
is(answer($third, ''), $bits, 'and gets the slot');
end_transactions('cancelled and too late', $holder, $waiter, $third);

# What others change while a fit waits: its source is planned again
for my $case ([ 'DROP FUNCTION same(float8)', qr/^ERROR:  42883: function same\(double precision\) does not exist/ ],
	[ 'ALTER DOMAIN number ADD CHECK (VALUE < 0)', qr/^ERROR:  23514: value for domain number violates check constraint/ ])
{
	my ($change, $expected) = @$case;
	$node->safe_psql('postgres', "DROP FUNCTION IF EXISTS same(float8); DROP DOMAIN IF EXISTS number; CREATE DOMAIN number AS float8;
		CREATE FUNCTION same(float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RETURN \$1; END'");
	answer($holder, "BEGIN; $fit");
	start_query($waiter, q{SELECT count(*) FROM gkmeans_fit('SELECT same(abs(x)) AS x, abs(y)::number AS y FROM data', '{x,y}', 3)});
	ok(wait_until_queued($waiter_pid, 'true'), "a fit waits: $change");
	$node->safe_psql('postgres', $change);
	answer($holder, 'COMMIT');
	like(answer($waiter, ''), $expected, "and then: $change");
	end_transactions($change, $holder, $waiter);
}

# Errors that are caught leave nothing behind, and a fit works after one
answer($holder, "BEGIN; $fit");
like(answer($waiter, "SET gkmeans.queue_timeout = '50ms'; BEGIN; SAVEPOINT s; $fit; ROLLBACK TO s; SET LOCAL gkmeans.engine = cpu; $fit; COMMIT"),
	qr/^$bits\nERROR:  53300: /, 'a savepoint before a fit that is too late');
is(answer($waiter, "RESET gkmeans.queue_timeout; SHOW lock_timeout"), '0', 'the settings are as before');
end_transactions('a savepoint', $holder, $waiter);

# Two slots: waiters get the first free one, in the order of the queue
$_->query($two) for $holder, $waiter, $third;
my ($fourth, $fourth_pid) = connect_to($node, $two);
for my $first (1, 2)
{
	answer($holder, "BEGIN; $fit");
	answer($third, "BEGIN; $fit");
	is(slots_of($holder_pid) . slots_of($third_pid), '12', 'two slots are taken');
	start_query($waiter, "BEGIN; $fit");
	ok(wait_until_queued($waiter_pid, 'true'), 'two slots: the third waits');
	start_query($fourth, "BEGIN; $fit");
	ok(wait_until_queued($fourth_pid, 'false'), 'two slots: the fourth waits behind it');
	answer($first == 1 ? $holder : $third, 'COMMIT');
	is(answer($waiter, ''), $bits, "slot $first becomes free: the third goes on");
	is(slots_of($waiter_pid), $first, "slot $first becomes free: it has that one");
	ok(wait_until_queued($fourth_pid, 'true'), "slot $first becomes free: the fourth still waits");
	answer($first == 1 ? $third : $holder, 'COMMIT');
	is(answer($fourth, ''), $bits, 'the fourth goes on');
	is(slots_of($fourth_pid), 3 - $first, 'it has the other slot');
	end_transactions("slot $first", $waiter, $fourth);
}

# The limit changes while slots are held
answer($holder, "BEGIN; $fit");
answer($third, "BEGIN; $fit");
is(answer($third, "SET LOCAL gkmeans.max_gpu_backends = 1; SET LOCAL gkmeans.queue_timeout = '5s'; $fit"), $bits, 'a lower limit: the slot that is held still counts');
is(slots_of($third_pid), '2', 'a lower limit: no second slot');
is(answer($third, "SET LOCAL gkmeans.max_gpu_backends = 5; $fit"), $bits, 'a higher limit');
is(slots_of($third_pid), '2', 'a higher limit: no second slot');

# A deadlock is one when no slot can become free any more
sub wait_until_locked
{
	my ($process) = @_;
	return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND pid = $process)");
}
start_query($waiter, "BEGIN; LOCK TABLE large; $fit");
ok(wait_until_queued($waiter_pid, 'true'), 'it waits for a slot');
start_query($third, 'LOCK TABLE large');
ok(wait_until_locked($third_pid), 'one that has a slot waits for it');
usleep(500_000);
answer($holder, 'COMMIT');
is(answer($waiter, ''), $bits, 'no deadlock: another slot became free');
answer($waiter, 'COMMIT');
is(answer($third, ''), '', 'no deadlock: both go on');
answer($holder, "BEGIN; $fit");
start_query($waiter, "BEGIN; LOCK TABLE rows_of_16; $fit");
ok(wait_until_queued($waiter_pid, 'true'), 'it waits for a slot again');
start_query($third, 'LOCK TABLE rows_of_16');
ok(wait_until_locked($third_pid), 'one that has a slot waits for it again');
start_query($holder, 'LOCK TABLE large');
is(answer($waiter, ''), "ERROR:  40P01: deadlock detected\nDETAIL:  Every backend that has a GPU slot waits for a lock of this one.", 'a deadlock is found');
is(answer($third, ''), '', 'a deadlock: the other goes on');
answer($third, 'COMMIT');
is(answer($holder, ''), '', 'a deadlock: all go on');
end_transactions('a deadlock', $holder, $waiter, $third);

# A prepared transaction has its slot whatever its session does next: that is no deadlock
is(answer($holder, "SET gkmeans.max_gpu_backends = 1; BEGIN; $fit; PREPARE TRANSACTION 'one'"), $bits, 'a prepared transaction has a slot');
start_query($holder, $fit);
ok(wait_until_queued($holder_pid, 'true'), 'its session waits for it');
usleep(500_000);
$node->safe_psql('postgres', "COMMIT PREPARED 'one'");
is(answer($holder, ''), $bits, 'its session gets the slot after COMMIT PREPARED');

# As many sessions as there are slots keep their devices open, until they end
my $released = $node->data_dir . '/cuda_stand_in.released';
my $open = 'SELECT count(free_bytes) FROM gkmeans_devices()';
sub releases_of { my ($process) = @_; return scalar(grep { $_ == $process } split /\n/, slurp_file($released)); }
$_->quit for $holder, $waiter, $third, $fourth;
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid IN ($waiter_pid, $third_pid, $fourth_pid))");
my $one_slot = "$two SET gkmeans.max_gpu_backends = 1;";
my ($keeper, $keeper_pid) = connect_to($node, $one_slot);
my ($guest, $guest_pid) = connect_to($node, $one_slot);
is(answer($keeper, "$fit; $open; $fit; $open"), "$bits\n1\n$bits\n1", 'the first session: the device stays open');
is(releases_of($keeper_pid), 0, 'the first session: not given back in between');
is(answer($guest, "$fit; $open"), "$bits\n0", 'one more than there are slots: the device is given back');
is(releases_of($guest_pid), 1, 'one more than there are slots: once');
like(answer($guest, q{SELECT * FROM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 3)}), qr/22012/, 'one more: a fit that fails');
is(answer($guest, $open), 0, 'one more: given back after an error too');
is(answer($guest, "SET gkmeans.max_gpu_backends = 0; $fit; $open"), "$bits\n1", 'no limit: it stays open');
is(answer($keeper, "DISCARD ALL; $open"), 0, 'DISCARD ALL gives the devices back');
is(answer($keeper, "$one_slot $fit; $open"), "$bits\n1", 'and the next fit opens them again');
$keeper->quit;
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $keeper_pid)");
is(releases_of($keeper_pid), 2, 'a session that ends gives its devices back');
is(answer($guest, "SET gkmeans.max_gpu_backends = 1; $fit; $open"), "$bits\n1", 'and another may keep them');
$guest->quit;

# Many at once
my @crowd = map { (connect_to($node, $two))[0] } 1 .. 8;
start_query($_, "$fit; $labels; $fit") for @crowd;
is(answer($_, ''), "$bits\n$label_bits\n$bits", 'eight sessions, two slots') for @crowd;
$_->quit for @crowd;

# A standby has slots as well
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
($session, $pid) = connect_to($standby, $one);
is(answer($session, "$fit; $engine"), "$bits\ncuda|1|gkmeans.engine is cuda", 'a standby');
$session->quit;

# A fit over nodes waits for a slot of the first one while it has none of the other, whatever their names say
my $other = start_server('other');
$other->safe_psql('postgres', "UPDATE pg_proc SET probin = '$folder/gkmeans' WHERE probin = '\$libdir/gkmeans'; CREATE TABLE halves AS SELECT id, x, y FROM data WHERE id % 2 = 1");
$node->safe_psql('postgres', 'CREATE TABLE halves AS SELECT id, x, y FROM data WHERE id % 2 = 0; CREATE DATABASE over');
$_->append_conf('postgresql.conf', "gkmeans.engine = cuda\ngkmeans.max_gpu_backends = 1\n") for $node, $other;
$_->reload for $node, $other;
$node->safe_psql('over', 'CREATE EXTENSION gkmeans; CREATE EXTENSION postgres_fdw; CREATE TABLE halves (id int, x float8, y float8)');
for my $server ([ a => $other ], [ b => $node ], [ c => $node ], [ d => $other ])
{
	my ($name, $to) = @$server;
	$node->safe_psql('over', "CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[ $to->host ]}', port '@{[ $to->port ]}', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $name");
}
my ($started, $other_started) = map { $_->safe_psql('postgres', 'SELECT extract(epoch FROM pg_postmaster_start_time())') } $node, $other;
my ($earlier, $later) = $started < $other_started ? ($node, $other) : ($other, $node);
for my $names ('a, b', 'c, d')
{
	($holder) = connect_to($earlier, '');
	is(answer($holder, "BEGIN; SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3)"), 3, "nodes $names: one has no slot left");
	my $spread = $node->background_psql('over', on_error_stop => 0);
	$spread->query("SET gkmeans.nodes = '$names'; SET gkmeans.engine = cpu");
	start_query($spread, q{SELECT sum(size) FROM gkmeans_fit('halves', '{x,y}', 3)});
	ok($earlier->poll_query_until('postgres', "SELECT EXISTS (SELECT $locks AND objid = 0 AND granted)"), "nodes $names: a fit waits for it");
	is($later->safe_psql('postgres', "SELECT count(*) $locks"), 0, "nodes $names: it has no slot on the other");
	$holder->query('ROLLBACK');
	is(answer($spread, ''), 3000, "nodes $names: it goes on");
	$_->quit for $holder, $spread;
}
end_server($other);

# A library of another version, none, and one that cannot be loaded
append_to_file($node->data_dir . '/cuda_stand_in', "interface 1\n");
{
	my $reason = 'gkmeans_cuda library belongs to another version of gkmeans';
	like(ask($cuda, $fit), qr/^$unusable $reason\Q$instead\E$/, "$reason: cuda");
	like(ask($auto, "$promised; $engine"), qr/^$bits\ncpu\|0\|$reason$/, "$reason: auto");
	is(ask($auto, $rows), '', "$reason: gkmeans_devices() has no row");
}
unlink "$folder/gkmeans_cuda.so";
for my $reason ('gkmeans_cuda library not installed', 'gkmeans_cuda library not loaded: .*: file too short')
{
	like(ask($cuda, $fit), qr/^$unusable $reason\Q$instead\E$/, "$reason: cuda");
	like(ask($auto, "$promised; $engine"), qr/^$bits\ncpu\|0\|$reason$/, "$reason: auto");
	is(ask($auto, $rows), '', "$reason: gkmeans_devices() has no row");
	append_to_file("$folder/gkmeans_cuda.so", '');
}

# A reason that is too long for the report ends with a whole character, also in a table.
my $deep = "$folder/" . 'x' x (150 - length("$folder//gkmeans_cuda.so"));
SKIP:
{
	skip 'the folder has too long a name', 2 if length($folder) > 120;
	mkdir $deep;
	copy("$installed/$_.so", "$deep/$_.so") or die "$_.so: $!" for 'gkmeans', 'gkmeans_links';
	append_to_file("$deep/gkmeans_cuda.so", '');
	$node->safe_psql('postgres', "UPDATE pg_proc SET probin = '$deep/gkmeans' WHERE probin = '$folder/gkmeans'");
	for my $name ("\xc3\xa9" x 31, 'x' . "\xc3\xa9" x 31)
	{
		$node->safe_psql('postgres', qq{
			CREATE SERVER "$name" FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[ $node->host ]}', port '@{[ $node->port ]}', dbname 'postgres');
			CREATE USER MAPPING FOR CURRENT_USER SERVER "$name";
			CREATE FOREIGN TABLE far (id int, x float8, y float8) SERVER "$name" OPTIONS (table_name 'data')});
		my $few = "SELECT * FROM far WHERE random() < 2 AND CASE WHEN id < 100 THEN 1 END IS NOT NULL";
		is(ask("$auto SET gkmeans.nodes = ' auto '; SET client_min_messages = error;",
				"SELECT count(*) FROM gkmeans_fit('$few', '{x,y}', 1000, n_init => 1000, quality => 'fast');
				SELECT convert_from(convert_to(engine_reason, 'UTF8'), 'UTF8') ~ 'server \"' FROM gkmeans_last_fit()"), "99\nt", 'a reason of many bytes');
		$node->safe_psql('postgres', qq{DROP SERVER "$name" CASCADE});
	}
}

end_server($standby);
end_server($node);
done_testing();
