# A fit over three servers: the bits of one server, failures of every kind in every phase, privileges, and nothing is left on any node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $first = start_server('coordinator');
my @names = ('a', 'b', 'c');
my %node = map { $_ => start_server("node_$_") } @names;

# the nodes differ in threads, ring and parallel workers
$node{a}->append_conf('postgresql.conf', "gkmeans.cpu_threads = 1\nmax_parallel_workers_per_gather = 0");
$node{b}->append_conf('postgresql.conf', "gkmeans.cpu_threads = 3\ngkmeans.ring_size = '1MB'\nmax_parallel_workers_per_gather = 3");
$node{c}->append_conf('postgresql.conf', "gkmeans.cpu_threads = 2\nDateStyle = 'SQL, DMY'");
$_->restart for values %node;

sub sql { return $first->safe_psql('postgres', $_[0]); }

# The error of statements that must fail.
sub failure
{
	my ($sql, $server) = @_;
	my ($status, $out, $error) = ($server // $first)->psql('postgres', $sql);
	return $status == 0 ? 'no error' : $error;
}

# The node whose engine a fit opens first: the one that was started first, whatever their names say.
sub opened_first
{
	my %started = map { $_ => $node{$_}->safe_psql('postgres', 'SELECT extract(epoch FROM pg_postmaster_start_time())') } @names;
	return (sort { $started{$a} <=> $started{$b} } @names)[0];
}

# Rows of every kind; `node` says which server has a row.
sql(<<~'SQL');
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE points AS
		SELECT i AS id, 'row ' || i AS name, timestamptz '2020-01-01 00:00:00+00' + i * interval '61.123457 s' AS seen,
			1.0 / i AS fraction,
			noise(i, 1) * 10 + (i % 5) * 30 AS x, (1e9 + noise(i, 2) * (CASE WHEN i % 10 < 3 THEN 1 ELSE 50 END))::float8 AS far,
			(noise(i, 3) * 1000)::int + 20000000 AS whole, (noise(i, 4) * 100)::numeric(10, 4) AS exact,
			(noise(i, 5) * 3)::real AS small, noise(i, 6) < 0.3 AS yes,
			1 + noise(i, 7) * 3 AS weight, exp(40 * noise(i, 8) - 20) AS wild,
			ARRAY[noise(i, 9), noise(i, 10) * 2, noise(i, 11) + i % 7]::real[] AS v,
			ARRAY(SELECT noise(i, f + 20)::real FROM generate_series(1, 16) f) AS v16,
			CASE WHEN i % 10 < 1 THEN 'a' WHEN i % 10 < 9 THEN 'b' ELSE 'c' END AS node
		FROM generate_series(1, 6000) i;
	UPDATE points SET x = NULL WHERE id % 97 = 0;
	UPDATE points SET x = 'NaN' WHERE id % 199 = 0;
	UPDATE points SET v = NULL WHERE id % 53 = 0;
	-- rows that are equal to others, on the same node and on another
	INSERT INTO points SELECT id + 6000, name, seen, fraction, x, far, whole, exact, small, yes, weight, wild, v, v16,
		CASE WHEN id % 2 = 0 THEN node ELSE 'c' END FROM points WHERE id % 7 = 0;
	CREATE TABLE toasted AS SELECT i AS id, ARRAY(SELECT noise(i, f) FROM generate_series(1, 700) f) AS v,
		CASE WHEN i % 3 = 0 THEN 'a' WHEN i % 3 = 1 THEN 'b' ELSE 'c' END AS node FROM generate_series(1, 300) i;
	ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL;
	CREATE TABLE one_sided AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y, 'b' AS node FROM generate_series(1, 1000) i;
	CREATE TABLE few AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y, chr(97 + i % 3) AS node FROM generate_series(1, 20) i;
	CREATE TABLE unusable AS SELECT i AS id, NULL::float8 AS x, 'Infinity'::float8 AS y, chr(97 + i % 3) AS node FROM generate_series(1, 20) i;
	CREATE TABLE nothing AS SELECT * FROM few LIMIT 0;
	-- the greatest real, a usual placeholder
	CREATE TABLE extreme AS SELECT i AS id, CASE WHEN i = 7 THEN '3.4028235e38'::real ELSE i END AS x, i::real AS y, chr(97 + i % 3) AS node FROM generate_series(1, 20) i;
	ANALYZE;
	SQL
my @tables = qw(points toasted one_sided few unusable nothing extreme);
my $folder = PostgreSQL::Test::Utils::tempdir();
for my $name (@names)
{
	my $host = $node{$name}->host;
	my $port = $node{$name}->port;
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', use_remote_estimate 'on');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $name");
	for my $table (@tables)
	{
		my $columns = sql("SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
			FROM pg_attribute WHERE attrelid = '$table'::regclass AND attnum > 0");
		my $file = "$folder/$table.$name";
		sql("COPY (SELECT * FROM $table WHERE node = '$name') TO '$file'");
		$node{$name}->safe_psql('postgres', "CREATE TABLE $table ($columns); COPY $table FROM '$file'; ANALYZE $table");
	}
}
my $nodes = "SET gkmeans.nodes = 'c, a, b';";

# The segments that PostgreSQL itself keeps there.
my %settled;
for my $name (@names)
{
	$node{$name}->safe_psql('postgres', "SELECT FROM gkmeans_fit('points', '{x}', 2)");
	$settled{$name} = segments($node{$name});
}

# What a session of a fit leaves on the nodes.
sub nothing_is_left
{
	my ($what) = @_;
	for my $name (@names)
	{
		ok($node{$name}->poll_query_until('postgres',
				"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans')"), "$what: no session is left on $name");
		is($node{$name}->safe_psql('postgres', "SELECT (SELECT count(*) FROM pg_prepared_xacts) + (SELECT count(*) FROM gkmeans_sessions())
				+ (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"), 0, "$what: neither memory nor a lock nor a prepared transaction on $name");
		for (1 .. 9000)
		{
			last if segments($node{$name}) <= $settled{$name};
			usleep(20_000);
		}
		cmp_ok(segments($node{$name}), '<=', $settled{$name}, "$what: no shared memory segment is left on $name");
	}
	return;
}

# The nodes choose their engines; this server may have no GPU for the sample that is fitted here.
my $middle = "SELECT md5(string_agg(centroid::text, ' ' ORDER BY cluster_id))
	FROM gkmeans_fit('SELECT sin(i::float8 * i) AS x FROM generate_series(1, 150000) i', '{x}', 20)";
is(sql("$nodes SET gkmeans.engine = 'cuda'; $middle"), sql("$nodes SET gkmeans.engine = 'cpu'; $middle"), 'a sample is fitted here, GPU or not');

# One answer: the same query here and over the nodes.
my $order = 'ORDER BY r.cluster_id';
my @fits = (
	[ 'defaults', "'points', '{x,small}', 5" ],
	[ 'k-means++', "'points', '{x,small,wild}', 7, init => 'k-means++'" ],
	[ 'random, several starts', "'points', '{x,small}', 9, init => 'random', n_init => 3, seed => 7" ],
	[ 'shifts that nodes find differently', "'points', '{far,x}', 4" ],
	[ 'integers and numerics', "'points', '{whole,exact,yes}', 6" ],
	[ 'standard scale', "'points', '{x,far,whole,small}', 5, scale => 'standard'" ],
	[ 'automatic scale', "'points', '{x,far}', 5, scale => 'auto'" ],
	[ 'range scale', "'points', '{x,small}', 5, scale => 'minmax', n_init => 2" ],
	[ 'weights', "'points', '{x,small}', 5, weight_column => 'weight'" ],
	[ 'weights of 35 orders', "'points', '{x,small}', 5, weight_column => 'wild'" ],
	[ 'cosine', "'points', '{v}', 5, metric => 'cosine', init => 'k-means++'" ],
	[ 'cosine, scaled', "'points', '{x,small}', 5, metric => 'cosine', scale => 'standard'" ],
	[ 'arrays', "'points', '{v}', 8" ],
	[ 'longer arrays', "'points', '{v16}', 40, n_init => 2" ],
	[ 'toasted arrays', "'toasted', '{v}', 10" ],
	[ 'many clusters', "'points', '{v16}', 1000, max_iter => 5" ],
	[ 'best quality', "'points', '{x,small}', 12, quality => 'best'" ],
	[ 'fast quality', "'points', '{x,small}', 12, quality => 'fast'" ],
	[ 'given centroids', "'points', '{x,small}', initial_centroids => '{{0,0},{30,1},{60,2},{1e6,1e6}}'" ],
	[ 'a node alone has rows', "'one_sided', '{x,y}', 5" ],
	[ 'more clusters than a node has rows', "'few', '{x,y}', 12" ],
	[ 'as many clusters as rows', "'few', '{x,y}', 20" ],
	[ 'a query', "\$\$SELECT x + 1 AS p, small * 2 AS q FROM points WHERE name LIKE '%1' AND seen > '2020-01-02'\$\$, NULL, 4" ],
	[ 'the choice of features', "'few', k => 3" ],
);
for my $fit (@fits)
{
	my ($name, $call) = @$fit;
	my $query = "SET client_min_messages = error; SELECT md5(string_agg(r::text, ';' $order)), count(*) FROM gkmeans_fit($call) r";
	my $alone = sql($query);
	is(sql("$nodes $query"), $alone, "$name: the bits of one server");
	like($alone, qr/^[0-9a-f]{32}\|[1-9]/, "$name: there are clusters");
}

# Rows that lie elsewhere when the nodes read them again, for their shifts differ.
sub create_everywhere
{
	my ($command) = @_;
	$_->safe_psql('postgres', $command) for $first, values %node;
	return;
}
create_everywhere(q{CREATE FUNCTION moving(moves int) RETURNS TABLE (x float8) LANGUAGE plpgsql AS $$
	DECLARE readings int := coalesce(current_setting('test.readings', true), '0')::int + 1;
	BEGIN
		PERFORM set_config('test.readings', readings::text, false);
		RETURN QUERY SELECT 3e9::float8 * (1 + least(readings - 1, moves)) + 10 * (SELECT count(*) FROM points) + i % 3 * 10 FROM generate_series(1, 300) i;
	END $$});
my $moving = "$nodes SELECT sum(size), bool_and(centroid[1] > 5e9), count(DISTINCT round(centroid[1])) FROM gkmeans_fit('SELECT * FROM moving(%d)', '{x}', 3)";
is(sql(sprintf($moving, 1)), '900|t|3', 'rows that move once are read a third time');
like(failure(sprintf($moving, 1000)), qr/source changed between two readings/, 'rows that move each time are an error');
# Less the shift of before, rows are infinite, and a value is rounded that is the only one by then
create_everywhere(q{CREATE FUNCTION leaping() RETURNS TABLE (x float8, y float8) LANGUAGE plpgsql AS $$
	DECLARE
		readings int := coalesce(current_setting('test.readings', true), '0')::int + 1;
		place int := (SELECT count(*) FROM points);
	BEGIN
		PERFORM set_config('test.readings', readings::text, false);
		RETURN QUERY SELECT CASE WHEN readings = 1 THEN 1e38 + place * 1e32 + i % 3 * 1e30 ELSE (i % 3 - 1) * 3e38 END::float8,
			1700000000.123::float8 + CASE WHEN readings = 1 THEN i % 3 * place ELSE 0 END FROM generate_series(1, 300) i;
	END $$});
is(sql("$nodes SELECT sum(size), min(centroid[1]) < -1e38, bool_and(centroid[2] = 1700000000.123) FROM gkmeans_fit('SELECT * FROM leaping()', '{x,y}', 3)"), '900|t|t', 'rows on both sides of where they lay, and one value');
sql("SELECT FROM gkmeans_create_model('apart', 'SELECT 3e38::float8 + 1e34 * (i % 10) AS x FROM generate_series(1, 100) i', '{x}', 3)");
like(failure("$nodes SELECT FROM gkmeans_evaluate('apart', 'SELECT -3e38::float8 AS x FROM points')"), qr/ERROR:  node "\w": feature "x" is out of range.*Less the shift of the model/s, 'rows that the shift of a model makes infinite');
sql('DROP TABLE apart');
# The names of a source come to mean other tables between two readings of a node
create_everywhere(q{CREATE EXTENSION dblink; CREATE SCHEMA live; CREATE SCHEMA behind;
	CREATE TABLE live.points AS SELECT i AS id, (SELECT count(*) FROM points) * 1e7 + i % 3 AS x FROM generate_series(1, 30) i;
	CREATE TABLE behind.points AS TABLE live.points;
	CREATE FUNCTION swap_once(id int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
		IF id = 30 AND current_setting('test.is_swapped', true) IS NULL THEN
			PERFORM set_config('test.is_swapped', 'yes', false), dblink_exec(format('host=%s port=%s dbname=%s', split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database()),
				'BEGIN; ALTER SCHEMA live RENAME TO older; ALTER SCHEMA behind RENAME TO live; COMMIT');
		END IF;
		RETURN true;
	END $$});
like(failure("$nodes SELECT FROM gkmeans_fit('SELECT * FROM live.points WHERE swap_once(id)', '{x}', 3)"), qr/source changed between two readings/, 'schemas that are swapped between two readings of a node');
my $report = 'SELECT rows_read, rows_skipped, dimension, k_effective, iterations, converged, inertia, best_start, quality FROM gkmeans_last_fit()';
my $query = "SELECT FROM gkmeans_fit('points', '{x,small}', 5)";
is(sql("$nodes $query; $report"), sql("$query; $report"), 'the report says the same');
is(sql("$nodes $query; SELECT engine, engine_reason, nodes, exchange_seconds > 0, exchange_seconds < total_seconds FROM gkmeans_last_fit()"),
	'cluster|3 nodes of gkmeans.nodes|3|t|t', 'the report names the engine and the nodes, and says how long the exchange took');
is(sql("$query; SELECT nodes, exchange_seconds FROM gkmeans_last_fit(); SELECT count(*) FROM gkmeans_last_fit_nodes()"), "0|0\n0", 'without nodes there are none in it');
my $engine = sql(q{SELECT current_setting('gkmeans.engine', true)}) eq 'cuda' ? 'cuda' : 'cpu';
is(sql("$nodes $query; SELECT node, rows_read, rows_skipped > 0, engine, engine_reason <> '', read_seconds > 0, compute_seconds > 0, bytes_peak > 0, bytes_sent > 0, bytes_received > 0
		FROM gkmeans_last_fit_nodes()"),
	join("\n", map { "$_|" . sql("SELECT count(*) FROM points WHERE node = '$_'") . "|t|$engine|t|t|t|t|t|t" } @names), 'a row for each node');

# Labels and ids come here.
my @ids = (
	[ 'bigint', 'id' ], [ 'text', 'name' ], [ 'timestamptz', 'seen' ], [ 'numeric', 'fraction' ], [ 'float8', 'wild' ],
	[ 'text', "CASE WHEN id % 3 > 0 THEN name END" ], [ 'text[]', "ARRAY[name, CASE WHEN id % 2 = 0 THEN 'NULL' END]" ]);
for my $id (@ids)
{
	my ($type, $column) = @$id;
	for my $settings ('', "SET DateStyle = 'German'; SET extra_float_digits = 0; SET IntervalStyle = 'sql_standard'; SET TimeZone = 'Asia/Kolkata'; SET array_nulls = off;")
	{
		my $labels = "SELECT md5(string_agg(r::text, ';' ORDER BY r::text)), count(*), count(r.id), count(r.cluster_id)
			FROM gkmeans_fit_predict(NULL::$type, \$\$SELECT $column AS id, x, small FROM points\$\$, '{x,small}', 5, id_column => 'id') r";
		my $alone = sql("$settings $labels");
		is(sql("$settings $nodes $labels"), $alone, "ids of type $type: the labels of one server");
	}
}
like(failure("$nodes SELECT FROM gkmeans_fit_predict(NULL::points, 'SELECT points, x FROM points', '{x}', 5, id_column => 'points')"),
	qr/column "\w+" of type points cannot be sent from a node/, 'ids that are rows are refused');
is(sql("$nodes SELECT count(*), count(cluster_id) FROM gkmeans_fit_predict(NULL::bigint, 'points', '{x}', 5, id_column => 'id')"),
	sql('SELECT count(*), count(*) FILTER (WHERE x <> \'NaN\') FROM points'), 'every row has its id, and a usable one its label');

# Settings by which the text of a source is read.
for my $case (
	[ 'transform_null_equals = on', '(nullif(id % 4, 0) = NULL) IS NOT TRUE' ],
	[ "timezone_abbreviations = 'India'", q{extract(hour FROM timestamptz '2026-01-01 12:00 IST' AT TIME ZONE 'UTC') = 6 OR id % 2 = 0} ],
	[ 'array_nulls = off', q{array_position('{1,NULL}'::text[], NULL) IS NULL OR id % 2 = 0} ])
{
	my ($setting, $condition) = @$case;
	my $rows = "SELECT sum(size) FROM gkmeans_fit(\$\$SELECT x FROM points WHERE $condition\$\$, '{x}', 3)";
	my $alone = sql("SET $setting; $rows");
	is(sql("SET $setting; $nodes $rows"), $alone, "$setting: the rows of one server");
	isnt(sql("$nodes $rows"), $alone, "$setting: others without");
}

# Tables of labels, models and what is made of them.
my @models = (
	[ 'labels_table', "SELECT FROM gkmeans_fit('points', '{x,small}', 5, id_column => 'id', labels_table => 'l', if_exists => 'replace')", 'SELECT md5(string_agg(l::text, \';\' ORDER BY id)) FROM l' ],
	[ 'labels that are merged', "SELECT FROM gkmeans_fit('points', '{x,small}', 4, id_column => 'id', labels_table => 'merged', if_exists => 'merge')", 'SELECT md5(string_agg(l::text, \';\' ORDER BY id)) FROM merged l' ],
	[ 'a model', "SELECT md5(string_agg(r::text, ';' $order)) FROM gkmeans_create_model('m', 'points', '{x,small}', 5, id_column => 'id', seed => 3, n_init => 2) r",
		"SELECT md5(string_agg(gkmeans_predict('m', p.x, p.small)::text, ';' ORDER BY p.id)) FROM points p; SELECT md5(string_agg(size || profile, ';' ORDER BY cluster_id)) FROM gkmeans.clusters; SELECT deviations FROM m" ],
	[ 'gkmeans_assign', "SELECT * FROM gkmeans_assign('m', 'points', id_column => 'id', labels_table => 'assigned', labels_mode => 'replace')",
		'SELECT md5(string_agg(l::text, \';\' ORDER BY id)) FROM assigned l' ],
	[ 'gkmeans_assign of no rows', "SELECT * FROM gkmeans_assign('m', 'SELECT * FROM points WHERE id < 0', id_column => 'id', labels_table => 'assigned', labels_mode => 'replace')",
		'SELECT count(*) FROM assigned l' ],
	[ 'gkmeans_predict_rows', "SELECT md5(string_agg(r::text, ';' ORDER BY id)) FROM gkmeans_predict_rows(NULL::bigint, 'm', 'points', 'id') r", 'SELECT 1' ],
	[ 'gkmeans_evaluate', "SELECT * FROM gkmeans_evaluate('m', 'points')", 'SELECT 1' ],
	[ 'a value that a scale brings to the greatest real', "SELECT * FROM gkmeans_evaluate('scaled', 'extreme')", 'SELECT 1' ],
	[ 'gkmeans_drift', "SELECT * FROM gkmeans_drift('m', 'SELECT * FROM points WHERE id % 3 = 0')", 'SELECT 1' ],
	[ 'gkmeans_select_k', "SELECT k, inertia, simplified_silhouette, davies_bouldin, calinski_harabasz, chosen FROM gkmeans_select_k('points', '{x,small}', '{3,4,5}')", 'SELECT 1' ],
	[ 'gkmeans_refit', "SELECT version, status, deployed, rows, inertia FROM gkmeans_refit('m', starts => 2)",
		"SELECT md5(string_agg(gkmeans_predict('m', p.x, p.small)::text, ';' ORDER BY p.id)) FROM points p" ],
);
sql("SELECT gkmeans_import_model('scaled', '{{1,1},{3e38,1}}', '{x,y}', scale_offset => '{0,0}', scale_factor => '{1.0000000009,1}')");
for my $case (@models)
{
	my ($name, $call, $figures) = @$case;
	my ($alone, $over_nodes) = map { sql("SET client_min_messages = error; BEGIN; $_ $call; RESET gkmeans.nodes; $figures; ROLLBACK") } '', $nodes;
	is($over_nodes, $alone, "$name: as on one server");
	sql("SET client_min_messages = error; $nodes $call") if $name =~ /^labels_table|^a model/;
}
# Calls beside a deployment in the same statement
sql("SELECT FROM gkmeans_create_model('moved', 'points', '{x,small}', $_, if_exists => 'replace')") for 3, 4;
for my $call ("gkmeans_evaluate('moved')", "gkmeans_predict_rows(NULL::bigint, 'moved', 'points', 'id')", "gkmeans_drift('moved')")
{
	my ($alone, $over_nodes) = map { sql("BEGIN; $_ SELECT gkmeans_deploy('moved', 1), (SELECT md5(string_agg(r::text, ';' ORDER BY r::text)) FROM $call r); ROLLBACK") } '', $nodes;
	is($over_nodes, $alone, "$call beside a deployment: as on one server");
}
sql('DROP TABLE moved');
nothing_is_left('fits that succeed');

# A refit that finds a new scale reads its source twice, in other sessions of the nodes, which may see other rows.
$_->safe_psql('postgres', 'CREATE TABLE steady AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 200) i; CREATE VIEW restless AS SELECT * FROM steady UNION ALL SELECT 0, -pg_backend_pid(), 0')
	for $first, values %node;
sql("$nodes SELECT FROM gkmeans_create_model('m_$_', '$_', '{x,y}', 2, scale => 'standard', n_init => 2)") for 'steady', 'restless';
is(sql("BEGIN; $nodes SELECT status FROM gkmeans_refit('m_steady', rescale => true, deploy => 'never'); ROLLBACK"), 'fitted', 'rows that are the same are read twice');
like(failure("$nodes SELECT FROM gkmeans_refit('m_restless', rescale => true)"), qr/source changed between two readings/, 'rows that are others');
# Rows of zeros have no direction, but have values in a scale.
$_->safe_psql('postgres', 'CREATE TABLE with_zeros AS SELECT id, CASE WHEN id % 10 > 0 THEN 1 + x END::float8 AS x, y FROM steady; UPDATE with_zeros SET x = 0, y = 0 WHERE x IS NULL') for $first, values %node;
sql("$nodes SELECT FROM gkmeans_create_model('m_with_zeros', 'with_zeros', '{x,y}', 2, metric => 'cosine'); SELECT gkmeans_alter_model('m_with_zeros', '{\"scale\": \"standard\"}')");
is(sql("$nodes SELECT status FROM gkmeans_refit('m_with_zeros', deploy => 'always')"), 'fitted', 'a new scale of directions, beside rows of zeros');
nothing_is_left('refits that read twice');

# Functions of the source that set the search_path and more on the nodes, which read again in a common shift, and plan again.
my $shift = 0;
for ($first, values %node)
{
	my $itself = "dbname=postgres host=@{[ $_->host ]} port=@{[ $_->port ]}";
	$_->safe_psql('postgres', "CREATE EXTENSION IF NOT EXISTS dblink; CREATE SCHEMA aside; CREATE TABLE remote AS SELECT i AS id, 5e8 + $shift + noise(i, 1) AS x FROM generate_series(1, 100) i;
		CREATE TABLE aside.remote AS SELECT id + 1000 AS id, x + 50 AS x FROM remote WHERE id % 2 = 0;
		CREATE FUNCTION step_aside(id int) RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN IF id = 1 THEN
			PERFORM set_config('search_path', 'aside, public', true), set_config('DateStyle', 'SQL, DMY', true), dblink_exec('$itself', 'CREATE TABLE aside.made (); DROP TABLE aside.made'); END IF;
			RETURN id; END \$\$");
	$shift += 1e5;
}
is(sql("$nodes SET DateStyle = 'SQL, MDY'; SELECT sum(size), min(centroid[1])::int8 < 50000 + 5e8 FROM gkmeans_fit('SELECT step_aside(id) AS id, x FROM remote WHERE ''02/03/2024'' < DATE ''2024-02-15''', '{x}', 2); SELECT read_twice FROM gkmeans_last_fit()"), "300|f\nt", 'rows of the same tables');
create_everywhere(q{CREATE FUNCTION lead_aside(id int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'aside, public', true); RETURN true; END $$;
	CREATE DOMAIN leading_aside AS int CHECK (lead_aside(VALUE))});
is(sql("$nodes SELECT sum(size) FROM gkmeans_fit('SELECT id, x FROM remote WHERE ''{1}''::leading_aside[] IS NOT NULL', '{x}', 2)"), 300, 'nor where a domain in it sets that before the nodes are called');
create_everywhere(q{CREATE FUNCTION in_latin1(id int, is_local boolean) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('client_encoding', 'LATIN1', is_local); RETURN id; END $$});
is(sql("$nodes SELECT count(*) FROM gkmeans_fit_predict(NULL::text, 'SELECT ''é'' || in_latin1(id, $_) AS id, x FROM remote', '{x}', 2, id_column => 'id') WHERE id LIKE 'é%'"), 300, "ids of a source that sets another encoding: $_") for qw(true false);
create_everywhere(q{CREATE FUNCTION be_in_latin1(id int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('client_encoding', 'LATIN1', true); RETURN true; END $$;
	CREATE DOMAIN in_latin1 AS int CHECK (be_in_latin1(VALUE))});
is(sql("$nodes SELECT count(*) FROM gkmeans_fit_predict(NULL::text, 'SELECT ''é'' || id AS id, x FROM remote WHERE ''{1}''::in_latin1[] IS NOT NULL', '{x}', 2, id_column => 'id') WHERE id LIKE 'é%'"), 300, 'or a domain in which does');
nothing_is_left('such fits');

# Labels of the first reading are not written over those that others have written since of newer rows.
$_->safe_psql('postgres', 'CREATE TABLE swapped (id int, x float8); CREATE VIEW swaps AS SELECT swapped.* FROM swapped, (SELECT pg_advisory_xact_lock_shared(9)) AS waits') for $first, values %node;
$node{b}->safe_psql('postgres', 'INSERT INTO swapped SELECT i, i % 2 * 100 + i FROM generate_series(1, 20) i');
sql("$nodes SELECT FROM gkmeans_create_model('m_swaps', 'swaps', '{x}', 2, id_column => 'id', labels_table => 'labels_of_swaps', labels_mode => 'merge')");
my $holder = $node{b}->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(9)');
my $refit = $first->background_psql('postgres', on_error_stop => 0);
start_query($refit, "$nodes SELECT status FROM gkmeans_refit('m_swaps', rescale => true, min_improvement => 0.9)");
$node{b}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory')") or die 'the refit does not wait';
$node{b}->safe_psql('postgres', 'UPDATE swapped SET x = CASE id WHEN 1 THEN 2 ELSE 101 END WHERE id IN (1, 2)');
is(sql("$nodes SELECT updated FROM gkmeans_assign('m_swaps', 'swapped')"), 2, 'labels are written while a refit reads');
my $newer = sql('SELECT md5(string_agg(l::text, \';\' ORDER BY id)) FROM labels_of_swaps l');
$holder->quit;
is($refit->query('SELECT 1') =~ s/\n.*//sr, 'rejected', 'the refit reads again, and is rejected');
$refit->quit;
is(sql('SELECT md5(string_agg(l::text, \';\' ORDER BY id)) FROM labels_of_swaps l'), $newer, 'the newer labels stay');
nothing_is_left('a refit beside others');

# Begins a call that reads slowly, and has others label newer rows meanwhile; its session, and the one that it waits for.
sub overtake
{
	my ($call, $assign) = @_;
	my $holder = $node{b}->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(9)');
	my $slow = $first->background_psql('postgres', on_error_stop => 0);
	start_query($slow, $call);
	$node{b}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory')") or die "$call does not wait";
	$node{b}->safe_psql('postgres', 'UPDATE swapped SET x = 102 - x WHERE id = 3');
	is(sql($assign), 1, "$call: labels are written while it reads");
	return ($slow, $holder);
}

# A call that reads rows again, with the labels table locked, does not wait for ever for one who has locked a node's table and may be waiting for the labels.
sub read_again
{
	my ($call, $table, $rest) = @_;
	my ($again, $holder) = overtake("$nodes $call", "$nodes SELECT updated FROM gkmeans_assign('m_swaps', 'swapped')");
	my $loader = $node{b}->background_psql('postgres');
	$loader->query_safe('BEGIN');
	start_query($loader, "TRUNCATE $table; $rest");
	$node{b}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '$table'::regclass)") or die 'nobody truncates the table';
	$holder->quit;
	my $result = $again->query('SELECT 1');
	my $error = $again->{stderr};
	$_->quit for $again, $loader;
	return ($result, $error);
}
(undef, my $error) = read_again("SELECT FROM gkmeans_assign('m_swaps', 'swaps')", 'swapped', '');
like($error, qr/canceling statement due to lock timeout.*Repeat the transaction\. .*nodes wait for a lock 10 seconds at most/s, 'a call that reads rows again gives up');
is(sql("$nodes SELECT rows FROM gkmeans_assign('m_swaps', 'swaps')"), 20, 'the next one does not wait');
$_->safe_psql('postgres', 'CREATE TABLE swapped_too AS SELECT 1 AS one; CREATE OR REPLACE VIEW swaps AS SELECT swapped.* FROM swapped, swapped_too, (SELECT pg_advisory_xact_lock_shared(9)) AS waits') for $first, values %node;
my $until_it_waits = q{DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'swapped_too'::regclass) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$};
for my $case ([ 'a lock', 'swapped', '' ], [ 'a deadlock', 'swapped_too', "SET LOCAL deadlock_timeout = '1h'; $until_it_waits; TRUNCATE swapped" ])
{
	my ($what, @loads) = @$case;
	sql("$nodes SELECT FROM gkmeans_assign('m_swaps', 'swaps')");
	(my $result, $error) = read_again("SELECT status, outcome FROM gkmeans_refit('m_swaps', deploy => 'always')", @loads);
	like($result, qr/^fitted\|.*, labels not written\n/, "$what: a refit keeps its version");
	like($error, qr/labels were not written to table labels_of_swaps.*could not be read anew because of a lock/s, "$what: and warns");
}
is(sql("SELECT outcome LIKE '%, labels not written', deployed FROM gkmeans.versions WHERE model = 'public.m_swaps' ORDER BY version DESC LIMIT 1"), 't|t', 'it is written down');
nothing_is_left('calls that gave up');

# postgres_fdw has asked the node for estimates, and so has a snapshot of old rows there, when this server is to read the rows again.
sql(q{CREATE TABLE grown (id int, x float8) PARTITION BY RANGE (id);
	CREATE FOREIGN TABLE grown_far PARTITION OF grown FOR VALUES FROM (1) TO (100) SERVER b OPTIONS (table_name 'swaps');
	CREATE FOREIGN TABLE near (id int, x float8) SERVER b OPTIONS (table_name 'swapped');
	SET gkmeans.nodes = 'auto'; SELECT FROM gkmeans_create_model('m_grown', 'grown', '{x}', 2, id_column => 'id', labels_table => 'labels_of_grown', labels_mode => 'merge')});
my $times = 0;
sub read_here_again
{
	my ($call) = @_;
	my ($grown, $holder) = overtake("SET gkmeans.nodes = 'auto'; $call", "SELECT updated FROM gkmeans_assign('m_grown', 'near')");
	my $here = 'grown_here_' . ++$times;
	sql("CREATE TABLE $here (id int, x float8); ALTER TABLE grown ATTACH PARTITION $here FOR VALUES FROM (${times}00) TO (${times}99)");
	$holder->quit;
	my $result = $grown->query('SELECT 1');
	my $error = $grown->{stderr};
	$grown->quit;
	sql("ALTER TABLE grown DETACH PARTITION $here");
	return ($result, $error);
}
(undef, $error) = read_here_again("SELECT FROM gkmeans_assign('m_grown')");
like($error, qr/could not serialize access due to concurrent update/, 'old rows are not labelled again');
(my $result, $error) = read_here_again("SELECT status, outcome FROM gkmeans_refit('m_grown', deploy => 'always')");
like($result, qr/^fitted\|.*, labels not written\n/, 'a refit keeps its version then');
like($error, qr/a foreign table cannot be read anew in this transaction/, 'and says why labels are not written');
nothing_is_left('calls that read here the second time');

# Rows that cannot be clustered.
for my $table ('unusable', 'nothing')
{
	my $call = "SELECT FROM gkmeans_fit('$table', '{x,y}', 3)";
	my $alone = failure($call);
	is(failure("$nodes $call"), $alone, "$table: the error of one server");
}
like(failure("$nodes SELECT FROM gkmeans_fit('points', '{x}', 3, nulls => 'error')"), qr/node "[abc]": column "x" is (?:NULL|NaN)/, 'a row that is an error: the node and the column');
$node{b}->safe_psql('postgres', 'CREATE TABLE lengths AS SELECT ARRAY[1.0, i] AS v FROM generate_series(1, 9) i');
$_->safe_psql('postgres', 'CREATE TABLE lengths AS SELECT ARRAY[1.0, i, 2] AS v FROM generate_series(1, 9) i') for $first, @node{ 'a', 'c' };
like(failure("$nodes SELECT FROM gkmeans_fit('lengths', '{v}', 3)"), qr/arrays of features differ in length.*Those of node "a" have 3 elements, those of node "b" have 2/s, 'arrays of different length');
$_->safe_psql('postgres', 'CREATE TABLE other_types AS SELECT i::real AS x FROM generate_series(1, 9) i') for $first, @node{ 'a', 'b' };
$node{c}->safe_psql('postgres', 'CREATE TABLE other_types AS SELECT i::float8 AS x FROM generate_series(1, 9) i');
like(failure("$nodes SELECT FROM gkmeans_fit('other_types', '{x}', 3)"), qr/columns of the source on node "c" differ.*There: x double precision. Here: x real/s, 'columns of different types');
sql('CREATE TABLE only_here AS SELECT 1 AS x');
like(failure("$nodes SELECT FROM gkmeans_fit('only_here', '{x}', 1)"), qr/node "@{[ opened_first() ]}": relation "only_here" does not exist/, 'a table that a node does not have');
nothing_is_left('errors of the source');

# The setting.
like(failure("LOAD 'gkmeans'; SET gkmeans.nodes = 'a,a'"), qr/invalid value for parameter "gkmeans.nodes".*list of different foreign servers/s, 'a node named twice');
like(failure("LOAD 'gkmeans'; SELECT set_config('gkmeans.nodes', string_agg('n' || g, ','), false) FROM generate_series(1, 1001) g"), qr/invalid value for parameter "gkmeans.nodes".*at most 1000/s, 'too many nodes');
like(failure("LOAD 'gkmeans'; SET gkmeans.nodes = 'a b'"), qr/invalid value for parameter "gkmeans.nodes"/, 'no list');
like(failure("SET gkmeans.nodes = 'a, nowhere'; $query"), qr/server "nowhere" does not exist/, 'a server that does not exist');
{
	my ($host, $port) = ($node{a}->host, $node{a}->port);
	sql("CREATE SERVER again FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER again");
	like(failure("SET gkmeans.nodes = 'b, again, a'; $query"), qr/nodes "a" and "again" are the same database/, 'two servers that are the same database');
	$node{a}->safe_psql('postgres', 'CREATE DATABASE spaced; CREATE DATABASE "spaced out"; CREATE ROLE "out late" SUPERUSER LOGIN; CREATE ROLE late SUPERUSER LOGIN');
	$node{a}->safe_psql($_, 'CREATE EXTENSION gkmeans; CREATE TABLE spaced AS SELECT i AS x FROM generate_series(1, 5) i') for 'spaced', 'spaced out';
	sql("CREATE TABLE spaced (x int); CREATE SERVER spaced FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'spaced'); CREATE USER MAPPING FOR CURRENT_USER SERVER spaced OPTIONS (user 'out late');
		CREATE SERVER spaced_out FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'spaced out'); CREATE USER MAPPING FOR CURRENT_USER SERVER spaced_out OPTIONS (user 'late')");
	is(sql("SET gkmeans.nodes = 'spaced, spaced_out'; SELECT sum(size) FROM gkmeans_fit('spaced', '{x}', 2)"), 10, 'names with spaces are told apart');
}
sql('CREATE FOREIGN DATA WRAPPER other; CREATE SERVER strange FOREIGN DATA WRAPPER other; CREATE USER MAPPING FOR CURRENT_USER SERVER strange');
like(failure("SET gkmeans.nodes = 'strange'; $query"), qr/foreign server "strange" cannot be a node/, 'a server of another wrapper');
like(failure("BEGIN; DELETE FROM pg_foreign_data_wrapper; $nodes $query"), qr/the foreign server of a node was dropped meanwhile/, 'a server that is dropped meanwhile, with its wrapper');

# Privileges: the role that fits has to have them, here and there.
my $password = q{PASSWORD 'secret'};
$_->safe_psql('postgres', "CREATE ROLE fitter LOGIN $password; GRANT SELECT ON ALL TABLES IN SCHEMA public TO fitter") for $first, values %node;
my $as = "SET ROLE fitter; $nodes";
like(failure("$as $query"), qr/permission denied for foreign server c/, 'USAGE on the servers is needed');
sql("GRANT USAGE ON FOREIGN SERVER $_ TO fitter") for @names;
like(failure("$as $query"), qr/user mapping not found for (user )?"fitter"/, 'a user mapping is needed');
sql("CREATE USER MAPPING FOR fitter SERVER $_ OPTIONS (user 'fitter')") for @names;
like(failure("$as $query"), qr/password is required for node "c"/, 'a password in it is needed');
sql("ALTER USER MAPPING FOR fitter SERVER $_ OPTIONS (password 'secret')") for @names;
like(failure("$as $query"), qr/password is required for node "[abc]".*does not request a password/s, 'and the server must ask for it');
for my $name (@names)
{
	my $hba = $node{$name}->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $file, '>', $hba or die $!;
	print $file "local all fitter scram-sha-256\n$old";
	close $file;
	$node{$name}->reload;
}
like(failure("$as $query"), qr/node "@{[ opened_first() ]}": permission denied for function gkmeans_node_open/, 'EXECUTE on the functions of a node is needed');
$_->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION gkmeans.gkmeans_node_open, gkmeans.gkmeans_node_load, gkmeans.gkmeans_node_ids, gkmeans.gkmeans_node_put, gkmeans.gkmeans_node_run, gkmeans.gkmeans_node_take, gkmeans.gkmeans_node_close TO fitter') for values %node;
my $md5 = "SELECT md5(string_agg(r::text, ';' $order)) FROM gkmeans_fit('points', '{x,small}', 5) r";
is(sql("$as $md5"), sql($md5), 'then any role can');
# functions of the same names that would fit better, if the calls gave other types
$node{b}->safe_psql('postgres', q{CREATE FUNCTION gkmeans.gkmeans_node_open(int, text, text[], text, text, text, bool, bool, int, int, int) RETURNS int LANGUAGE sql AS 'SELECT 1'});
$node{b}->safe_psql('postgres', q{CREATE FUNCTION gkmeans.gkmeans_node_load(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'});
is(sql("$as $md5"), sql($md5), "other functions of a node's schema are not called");
$node{b}->safe_psql('postgres', 'DROP FUNCTION gkmeans.gkmeans_node_load(int, text)');
$node{b}->safe_psql('postgres', 'DROP FUNCTION gkmeans.gkmeans_node_open(int, text, text[], text, text, text, bool, bool, int, int, int)');
# The owner of a node's database renames the schema of the extension in the middle of a fit, and puts functions of his own in its place.
$_->safe_psql('postgres', 'CREATE SCHEMA kept; CREATE TABLE kept.few AS SELECT * FROM few') for $first, values %node;
my $of_kept = "SELECT md5(string_agg(r::text, ';' $order)) FROM gkmeans_fit('kept.few', '{x,y}', 3) r";
my $owner = $node{b}->background_psql('postgres');
$owner->query_safe('SET client_min_messages = warning; BEGIN; LOCK TABLE kept.few IN ACCESS EXCLUSIVE MODE');
my $waiting = $first->background_psql('postgres', on_error_stop => 0);
start_query($waiting, "$nodes $of_kept");
$node{b}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'kept.few'::regclass)") or die 'the fit does not wait';
$owner->query_safe(<<~'SQL');
	ALTER SCHEMA public RENAME TO away;
	CREATE SCHEMA public;
	CREATE FUNCTION gkmeans_node_load(int, float8[]) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not the function of gkmeans''; END';
	CREATE FUNCTION gkmeans_node_put(bytea) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not the function of gkmeans''; END';
	CREATE FUNCTION gkmeans_node_run(bytea) RETURNS bytea LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not the function of gkmeans''; END';
	COMMIT
	SQL
like($waiting->query('SELECT 1'), qr/^[0-9a-f]{32}\n/, "the owner of a node's database does not choose the functions of a fit");
is($waiting->{stderr}, '', 'none of his is called');
$owner->query_safe('DROP SCHEMA public CASCADE; ALTER SCHEMA away RENAME TO public; CREATE ROLE another; ALTER SCHEMA gkmeans OWNER TO another');
like(failure("$nodes $of_kept"), qr/schema "gkmeans" of node "b" does not belong to the owner of the extension/, 'he may not own the schema of these functions');
$owner->query_safe('ALTER SCHEMA gkmeans OWNER TO CURRENT_USER');
$_->quit for $owner, $waiting;

sql("ALTER USER MAPPING FOR fitter SERVER b OPTIONS (SET password 'wrong')");
like(failure("$as $query"), qr/could not connect to node "b".*password authentication failed/s, 'a wrong password');
sql("ALTER USER MAPPING FOR fitter SERVER b OPTIONS (SET password 'secret')");
$node{b}->safe_psql('postgres', 'REVOKE SELECT ON points FROM fitter');
like(failure("$as $query"), qr/node "b": permission denied for table points/, 'a node checks the privileges on its table');
$node{b}->safe_psql('postgres', 'GRANT SELECT ON points TO fitter');
$_->safe_psql('postgres', 'ALTER TABLE points ENABLE ROW LEVEL SECURITY; CREATE POLICY odd ON points TO fitter USING (id % 2 = 1)') for $first, values %node;
my $alone = sql("SET ROLE fitter; $md5");
isnt($alone, sql($md5), 'row-level security hides rows');
is(sql("$as $md5"), $alone, 'and does so on the nodes');
like(failure("$as SET row_security = off; $query"), qr/node "[abc]": query would be affected by row-level security policy/, 'the setting row_security goes to the nodes');

# Whoever calls another role's function does not choose its nodes, nor does the owner of a database those of a superuser.
sql(<<~SQL);
	CREATE ROLE caller LOGIN;
	CREATE FUNCTION as_superuser() RETURNS text LANGUAGE sql SECURITY DEFINER AS \$\$ $md5 \$\$;
	CREATE FUNCTION as_fitter() RETURNS text LANGUAGE sql SECURITY DEFINER AS \$\$ $md5 \$\$;
	ALTER FUNCTION as_fitter OWNER TO fitter;
	CREATE FUNCTION on_nodes() RETURNS text LANGUAGE sql SECURITY DEFINER SET gkmeans.nodes = 'a,b,c' AS \$\$ $md5 \$\$;
	SQL
my $whole = sql($md5);
for my $role ('superuser', 'fitter')
{
	my $refused = qr/role "\w+" cannot use the nodes that another role has named/;
	like(failure("SET ROLE caller; $nodes SELECT as_$role()"), $refused, "SECURITY DEFINER, as $role: not the nodes of the caller, set before the library was loaded");
	like(failure("SET ROLE caller; SELECT FROM gkmeans_memory(); $nodes SELECT as_$role()"), $refused, 'nor those set afterwards');
	sql("ALTER ROLE caller SET gkmeans.nodes = 'a,b,c'");
	my ($status, $out, $error) = $first->psql('postgres', "SELECT as_$role()", extra_params => [ '-U', 'caller' ]);
	like($error, $refused, 'nor those of the role that has logged in');
	sql('ALTER ROLE caller RESET gkmeans.nodes');
	my $own = $role eq 'fitter' ? $alone : $whole;
	is(sql("SET ROLE caller; SELECT as_$role()"), $own, 'without nodes it runs');
	is(sql("$nodes SET ROLE caller; SELECT as_$role()"), $own, 'with those that a superuser has named as well');
}
SKIP:
{
	skip 'members can always act as the role', 2 if sql('SHOW server_version_num') < 160000;
	sql('GRANT fitter TO caller WITH INHERIT FALSE, SET FALSE');
	like(failure("SET ROLE caller; $nodes SELECT as_fitter()"), qr/role "fitter" cannot use the nodes.*set by a role that cannot SET ROLE "fitter"/s, 'nor those of a member that cannot act as the role');
	sql('GRANT fitter TO caller WITH SET TRUE');
	is(sql("SET ROLE caller; $nodes SELECT as_fitter()"), $alone, 'but those of one that can');
	sql('REVOKE fitter FROM caller');
}
is(sql('SET ROLE caller; SELECT on_nodes()'), $whole, 'and with those of the function itself');
sql("ALTER DATABASE postgres OWNER TO caller; ALTER DATABASE postgres SET gkmeans.nodes = 'a,b,c'");
like(failure($query), qr/role "\w+" cannot use the nodes that another role has named/, 'a superuser: not those of the owner of the database');
is(sql("$nodes $md5"), $whole, 'but those of the session');
is(sql("SET ROLE fitter; $md5"), $alone, 'other roles: those as well');
sql('ALTER DATABASE postgres RESET gkmeans.nodes; ALTER DATABASE postgres OWNER TO CURRENT_USER');

$_->safe_psql('postgres', 'ALTER ROLE fitter CONNECTION LIMIT 0') for $node{b};
like(failure("$as $query"), qr/could not connect to node "b".*too many connections for role "fitter"/s, 'a node whose connections are used up');
nothing_is_left('errors of privileges');

# Extensions that are not there, or of another version.
$node{b}->safe_psql('postgres', "UPDATE pg_extension SET extversion = '9.9' WHERE extname = 'gkmeans'");
like(failure("$nodes $query"), qr/node "b" has version 9.9 of extension "gkmeans", this server has /, 'another version of the extension');
$node{b}->safe_psql('postgres', "UPDATE pg_extension SET extversion = '0.2.0', extname = 'hidden' WHERE extname = 'gkmeans'");
like(failure("$nodes $query"), qr/node "b" has no extension "gkmeans"/, 'no extension');
$node{b}->safe_psql('postgres', "UPDATE pg_extension SET extname = 'gkmeans' WHERE extname = 'hidden'");
$node{c}->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION gkmeans CASCADE; CREATE SCHEMA "Else where"; CREATE EXTENSION gkmeans SCHEMA "Else where"');
is(sql("$nodes $md5"), sql($md5), 'the extension in another schema');
$node{c}->safe_psql('postgres', 'DROP EXTENSION gkmeans; CREATE EXTENSION gkmeans');

# Phases of a fit over the nodes that do not end by themselves.
$_->safe_psql('postgres', 'CREATE TABLE wide AS SELECT a.v[1] + b.v[2] AS x, a.v[3] AS y, a.v FROM rows_of_16 a, (SELECT v FROM rows_of_16 LIMIT 40) b; ANALYZE wide') for $first, values %node;
my %phase = (
	'reading' => "SELECT FROM gkmeans_fit('SELECT 1 AS x FROM pg_sleep(1000)', '{x}', 1)",
	'seeding' => "SELECT FROM gkmeans_fit('wide', '{v}', 20000, init => 'k-means++', n_init => 1000, max_iter => 1)",
	'iterating' => "SELECT FROM gkmeans_fit('wide', '{v}', 300, init => 'random', n_init => 1000, tol => 0)",
	'large messages' => "SELECT FROM gkmeans_fit('wide', '{v}', 30000, init => 'random', n_init => 1000, tol => 0)",
	'ids' => "SELECT count(*) FROM gkmeans_fit_predict(NULL::bigint, 'SELECT 1::bigint AS id, y FROM wide, generate_series(1, 200)', '{y}', 3, id_column => 'id', max_iter => 1)",
);

# Waits until the nodes work for a fit.
sub wait_for_nodes
{
	my ($phase) = @_;
	usleep(700_000);
	for my $name (@names)
	{
		$node{$name}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans')")
			or die "$phase: node $name has no session";
	}
	return;
}

for my $name (sort keys %phase)
{
	my ($session, $pid) = new_session($first);
	start_query($session, "$nodes $phase{$name}");
	wait_for_nodes($name);
	my $ms = $first->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
	cmp_ok($ms, '<', slack_ms(), "$name: cancelled");
	like($session->{stderr}, qr/canceling statement due to user request/, "$name: says so") if $session->query('SELECT 1') eq 1;
	$session->{stderr} = '';
	nothing_is_left("$name, cancelled");
	$session->query("SET statement_timeout = 900; $phase{$name}; SET statement_timeout = 0");
	like($session->{stderr}, qr/canceling statement due to statement timeout/, "$name: statement_timeout");
	$session->{stderr} = '';
	nothing_is_left("$name, statement_timeout");
	is($session->query("SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'gkmeans'"), 0, "$name: no memory is left here");
	start_query($session, $phase{$name});
	wait_for_nodes($name);
	$first->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	nothing_is_left("$name, terminated");
	eval { $session->quit };
}

# A node's session that stands still: only the user can tell that from work.
sub node_pid
{
	my ($name) = @_;
	return $node{$name}->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'gkmeans' LIMIT 1");
}

# How an error begins if a node's session is ended.  Who writes to it at that moment loses the
# connection before its last words are read.
sub ended
{
	my ($name) = @_;
	return qr/lost the connection to node "$name"|node "$name": terminating connection due to administrator command/;
}

for my $name ('iterating', 'large messages', 'ids')
{
	my ($session, $pid) = new_session($first);
	start_query($session, "$nodes $phase{$name}");
	wait_for_nodes($name);
	my $stopped = node_pid('b');
	kill 'STOP', $stopped;
	usleep(300_000);
	# it would go on for ever
	my $ms = $first->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')");
	cmp_ok($ms, '<', slack_ms(), "$name, a node stands still: cancelled");
	kill 'CONT', $stopped;
	nothing_is_left("$name, a node that stood still");
	eval { $session->quit };
}

# A server that accepts nobody: the connection is waited for no longer than the user does.
{
	my $port = $node{c}->port + 1000;
	my $silent = IO::Socket::UNIX->new(Local => $node{c}->host . "/.s.PGSQL.$port", Listen => 5) or die $!;
	sql("CREATE SERVER silent FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '" . $node{c}->host . "', port '$port', connect_timeout '3'); CREATE USER MAPPING FOR CURRENT_USER SERVER silent");
	# sooner than its own timeout
	like(failure("SET statement_timeout = 500; SET gkmeans.nodes = 'a, silent'; $query"), qr/statement timeout/, 'a server that does not answer: statement_timeout');
	like(failure("SET gkmeans.nodes = 'a, silent'; $query"), qr/could not connect to node "silent".*did not answer within 3 seconds/s, 'connect_timeout of the server');

	# the others do not wait for it, so that idle_session_timeout does not end them
	sql("ALTER SERVER silent OPTIONS (SET connect_timeout '1000')");
	my ($session, $pid) = new_session($first);
	start_query($session, "SET gkmeans.nodes = 'a, silent'; $query");
	ok($node{a}->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans' AND state = 'idle in transaction')"),
		'a node that is connected begins its transaction');
	sql("SELECT pg_cancel_backend($pid)");
	nothing_is_left('a node that waited for another one');
	eval { $session->quit };
}

# A backend of a node that is killed takes its server down for a moment; one that is terminated does not.
for my $signal ('TERM', 'KILL')
{
	my ($session, $pid) = new_session($first);
	start_query($session, "$nodes $phase{iterating}");
	wait_for_nodes("SIG$signal");
	# the fit has no end of its own
	kill $signal, node_pid('b');
	ok($first->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid AND state = 'active')"), "SIG$signal of a node's backend: the fit ends");
	$session->query('SELECT 1');
	like($session->{stderr}, $signal eq 'TERM' ? ended('b') : qr/node "b"/, "SIG$signal: the error names the node");
	ok($node{b}->poll_query_until('postgres', 'SELECT true'), "SIG$signal: the node is there");
	nothing_is_left("SIG$signal");
	eval { $session->quit };
	is(sql("$nodes $md5"), sql($md5), "SIG$signal: the next fit is right");
}
{
	my ($session, $pid) = new_session($first);
	start_query($session, "$nodes $phase{iterating}");
	wait_for_nodes('restart');
	$node{c}->restart;
	$session->query('SELECT 1');
	like($session->{stderr}, ended('c'), 'a node that restarts');
	nothing_is_left('a node that restarts');
	$node{c}->stop;
	$session->{stderr} = '';
	$session->query("$nodes $query");
	like($session->{stderr}, qr/could not connect to node "c"/, 'a node that is not there');
	$node{c}->start;
	is($session->query("$nodes $md5"), sql($md5), 'a node that is there again, for the same session');
	nothing_is_left('a node that was not there');
	eval { $session->quit };
}

# Two fits at once over the same nodes, named in opposite order, and one in the other.
{
	my ($one, $one_pid) = new_session($first);
	my ($two, $two_pid) = new_session($first);
	my $again = join(' UNION ALL ', ("($md5)") x 5);
	start_query($one, "SET gkmeans.nodes = 'a, b, c'; SELECT string_agg(DISTINCT md5, '') FROM ($again) s");
	is($two->query("SET gkmeans.nodes = 'c, b, a'; SELECT string_agg(DISTINCT md5, '') FROM ($again) s"), sql($md5), 'two fits at once over the same nodes');
	$one->query('SELECT 1');
	is($one->{stderr}, '', 'the other one succeeds as well');
	eval { $_->quit } for $one, $two;
	is(sql("SET gkmeans.nodes = 'b'; SELECT count(*) FROM gkmeans_fit('few', '{x,y}', 2) AS r, gkmeans_fit('few', '{x,y}', 3) AS s"), 6, 'two fits of one query');
	nothing_is_left('fits beside each other');
}

$_->stop for values %node;
end_server($first);
done_testing();
