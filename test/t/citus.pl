# Tables that Citus keeps: the bits of a local table, labels into them, models over them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'Citus is not installed' unless has_module('citus') && has_module('citus_columnar');

# A coordinator and two workers.
my @nodes;
for my $name (qw(coordinator first second))
{
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', <<~CONF);
		shared_preload_libraries = 'citus'
		max_prepared_transactions = 20
		max_connections = 60
		max_worker_processes = 16
		citus.node_conninfo = 'sslmode=disable'
		citus.shard_count = 6
		citus.local_hostname = '@{[ $node->host ]}'
		gkmeans.cpu_threads = 1
		autovacuum = off
		CONF
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION citus; CREATE EXTENSION citus_columnar');
	push @nodes, $node;
}
my $node = $nodes[0];

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Waits until a session on a worker waits for a lock.
sub wait_on_workers
{
	for (1 .. 1800)
	{
		return 1 if grep { $_->safe_psql('postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)}) eq 't' } @nodes;
		usleep(100_000);
	}
	return 0;
}

# The message of a query that must fail, without what surrounds it.
sub failure
{
	my ($query) = @_;
	my ($result, undef, $error) = $node->psql('postgres', $query);
	return $result == 0 ? "no error" : $error;
}

sql("SELECT citus_set_coordinator_host('@{[ $node->host ]}', @{[ $node->port ]})");
sql("SELECT citus_add_node('@{[ $_->host ]}', @{[ $_->port ]})") for @nodes[ 1, 2 ];
sql(<<~'SQL');
	CREATE EXTENSION gkmeans;
	CREATE FUNCTION noise(bigint, int) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
		'SELECT (hashint8extended($1, $2) & 4294967295)::float8 / 4294967296.0';
	CREATE TABLE local AS SELECT i AS id, i % 5 AS region, (i % 3) * 10 + noise(i, 1) AS x,
		CASE WHEN i % 100 > 0 THEN (i % 3) * 10 + noise(i, 2) END AS y, noise(i, 3)::real AS weight,
		ARRAY[(i % 3) * 10 + noise(i, 1), noise(i, 4), noise(i, 5)]::real[] AS v
		FROM generate_series(1, 6000) i;
	CREATE TABLE regions AS SELECT i AS region, i * 3.5 AS height FROM generate_series(0, 4) i;
	CREATE TABLE distributed (LIKE local);
	ALTER TABLE distributed ADD PRIMARY KEY (id);
	SELECT create_distributed_table('distributed', 'id');
	CREATE TABLE columnar (LIKE local) USING columnar;
	SELECT create_distributed_table('columnar', 'id', colocate_with => 'distributed');
	CREATE TABLE partitioned (LIKE local) PARTITION BY RANGE (region);
	CREATE TABLE partitioned_0 PARTITION OF partitioned FOR VALUES FROM (0) TO (2);
	CREATE TABLE partitioned_2 PARTITION OF partitioned FOR VALUES FROM (2) TO (9);
	SELECT create_distributed_table('partitioned', 'id', colocate_with => 'distributed');
	CREATE TABLE reference (LIKE local);
	SELECT create_reference_table('reference');
	CREATE TABLE managed (LIKE local);
	SELECT citus_add_local_table_to_metadata('managed');
	CREATE TABLE heights (LIKE regions);
	SELECT create_reference_table('heights');
	CREATE VIEW seen AS SELECT d.*, h.height FROM distributed d JOIN heights h USING (region);
	INSERT INTO distributed SELECT * FROM local;
	INSERT INTO columnar SELECT * FROM local;
	INSERT INTO partitioned SELECT * FROM local;
	INSERT INTO reference SELECT * FROM local;
	INSERT INTO managed SELECT * FROM local;
	INSERT INTO heights SELECT * FROM regions;
	CREATE TABLE labels (id int PRIMARY KEY, cluster_id int, distance float8);
	SELECT create_distributed_table('labels', 'id', colocate_with => 'distributed');
	SQL

# A digest of what a fit says.
sub fit
{
	my ($source, $arguments) = @_;
	return sql("SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit(\$s\$$source\$s\$, $arguments) f");
}

# A digest of the labels that it gives.
sub labels_of
{
	my ($source) = @_;
	return sql("SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM gkmeans_fit_predict(NULL::bigint, \$s\$$source\$s\$, '{x,y}', 3, id_column => 'id') p");
}

# Sources, each with the source that has the same rows without Citus
my %same = (
	distributed => 'local',
	columnar => 'local',
	partitioned => 'local',
	reference => 'local',
	managed => 'local',
	'SELECT * FROM distributed WHERE id % 7 < 3' => 'SELECT * FROM local WHERE id % 7 < 3',
	'SELECT * FROM distributed WHERE id = 17 OR x > 5' => 'SELECT * FROM local WHERE id = 17 OR x > 5',
	'SELECT d.id, d.weight, d.x, l.y, d.v FROM distributed d JOIN columnar l USING (id)' =>
		'SELECT d.id, d.weight, d.x, l.y, d.v FROM local d JOIN local l USING (id)',
	'SELECT d.id, d.weight, d.x, l.y, d.v FROM distributed d JOIN local l USING (id)' =>
		'SELECT d.id, d.weight, d.x, l.y, d.v FROM local d JOIN local l USING (id)',
	'SELECT id, weight, x, height AS y, v FROM seen' =>
		'SELECT id, weight, x, height AS y, v FROM local JOIN regions USING (region)',
	'SELECT region AS id, 1 AS weight, sum(x) AS x, min(y) AS y, ARRAY[max(x), min(y)] AS v FROM distributed GROUP BY region' =>
		'SELECT region AS id, 1 AS weight, sum(x) AS x, min(y) AS y, ARRAY[max(x), min(y)] AS v FROM local GROUP BY region',
	'SELECT * FROM distributed ORDER BY id LIMIT 1000' => 'SELECT * FROM local ORDER BY id LIMIT 1000',
	'SELECT * FROM distributed UNION ALL SELECT * FROM local' => 'SELECT * FROM local UNION ALL SELECT * FROM local',
	'WITH d AS (SELECT * FROM distributed OFFSET 0) SELECT * FROM d' => 'local',
);
for my $source (sort keys %same)
{
	for my $arguments (q('{x,y}', 3), q('{v}', 3), q('{x,y}', 3, weight_column => 'weight', scale => 'standard'),
		q('{x,y}', 4, n_init => 3, init => 'random', metric => 'cosine'))
	{
		is(fit($source, $arguments), fit($same{$source}, $arguments), "$source: $arguments");
	}
	next if $source =~ /GROUP|UNION/;
	is(labels_of($source), labels_of($same{$source}), "$source: the labels of its rows");
}

# More features than a function takes arguments
my $many = join ', ', map { "x * $_ AS f$_" } 1 .. 150;
is(fit("SELECT $many FROM distributed", 'NULL, 3'), fit("SELECT $many FROM local", 'NULL, 3'), '150 features');
like(failure("SELECT * FROM gkmeans_fit('distributed', '{x,y}', 3, nulls => 'error')"),
	qr/The row \(.*null\) cannot be clustered/, 'a row that cannot be clustered is shown');
is(sql(q{SELECT count(*) FROM gkmeans_fit('SELECT * FROM distributed WHERE id < 0 OR id = 5', '{x}', 1)}), 1, 'one row');
like(failure(q{SELECT * FROM gkmeans_fit('SELECT * FROM distributed WHERE id < 0', '{x}', 1)}), qr/no usable row/, 'no row');

# A function of a source that fits itself, and one that calls the feed
like(failure(q{SELECT * FROM gkmeans_fit('SELECT _gkmeans_feed(NULL::uuid, 1, 1.0::float8, x) AS x FROM distributed', '{x}', 1)}),
	qr/the feed of gkmeans can only be called by the functions of gkmeans/, 'the feed in a source is refused');
like(failure('SELECT * FROM gkmeans._gkmeans_labels() AS l(id bigint)'), qr/the labels of gkmeans can only be read/, 'so are the labels in a query');

# What waits on a worker for a lock can be cancelled, in the session that reads as in one that only plans
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $held = $nodes[1]->safe_psql('postgres', q{SET citus.override_table_visibility = off; SELECT min(relname) FROM pg_class WHERE relname ~ '^distributed_[0-9]+$' AND relkind = 'r'});
my $holder = $nodes[1]->background_psql('postgres', on_error_stop => 1);
$holder->query_safe($_) for 'SET citus.enable_manual_changes_to_shards = on', 'BEGIN', "LOCK TABLE $held";
for my $nodes ('', 'auto')
{
	like(failure("SET gkmeans.nodes = '$nodes'; SET statement_timeout = 500; SELECT * FROM gkmeans_fit('distributed', '{x,y}', 3)"), qr/statement timeout/, "a wait on a worker ends, nodes '$nodes'");
}
$holder->quit;

# Labels
my $local_labels = q{SELECT md5(string_agg(l::text, '|' ORDER BY id)) FROM local_labels l};
sql(q{SELECT 1 FROM gkmeans_fit('local', '{x,y}', 3, id_column => 'id', labels_table => 'local_labels', if_exists => 'merge')});
my $expected = sql($local_labels);
my $digest = q{SELECT md5(string_agg(l::text, '|' ORDER BY id)) FROM %s l};

sub label
{
	my ($table, $mode, $rest, $source) = @_;
	$rest //= '';
	$source //= 'distributed';
	return qq{SELECT count(*) FROM gkmeans_fit('$source', '{x,y}', 3, id_column => 'id', labels_table => '$table', if_exists => '$mode'$rest)};
}
for my $mode (qw(append replace delete merge))
{
	sql('TRUNCATE labels') if $mode eq 'append';
	is(sql(label('labels', $mode)), 3, "labels into a distributed table: $mode");
	is(sql(sprintf $digest, 'labels'), $expected, "$mode: they are those of the local table");
}
# A publication has the table, not the shards in which rows are changed
sql(q{CREATE TABLE published (id int, cluster_id int, distance float8); SELECT create_distributed_table('published', 'id', colocate_with => 'distributed'); CREATE PUBLICATION labels FOR TABLE published});
is(sql(label('published', 'delete')), 3, 'labels into a published table without a replica identity') for 1, 2;
is(sql(sprintf $digest, 'published'), $expected, 'they are those of the local table');
sql('DROP PUBLICATION labels; DROP TABLE published');

sql('UPDATE labels SET cluster_id = cluster_id + 1 WHERE id % 10 = 0; DELETE FROM labels WHERE id % 10 = 1; INSERT INTO labels VALUES (-5, 1, 2.0)');
is(sql(label('labels', 'merge')), 3, 'merged into what others have changed');
is(sql(sprintf $digest, 'labels'), $expected, 'merged: they are those of the local table');
is(sql('BEGIN; ' . label('labels', 'merge') . "; SELECT count(*) FROM labels; COMMIT"), "3\n6000", 'in a transaction');
is(sql('BEGIN; UPDATE distributed SET x = 0, y = 0 WHERE id <= 3000; ' . label('labels', 'merge') . q{; SELECT count(DISTINCT distance) FROM labels WHERE id <= 3000 AND id % 100 > 0; ROLLBACK}),
	"3\n1", 'a transaction sees what it has written');
is(sql(sprintf $digest, 'labels'), $expected, 'and takes it back');

sql(q{CREATE TABLE reference_labels (LIKE labels INCLUDING ALL); SELECT create_reference_table('reference_labels')});
sql(q{CREATE TABLE columnar_labels (LIKE labels) USING columnar; SELECT create_distributed_table('columnar_labels', 'id', colocate_with => 'distributed')});
sql(q{CREATE TABLE region_labels (region int, id int, cluster_id int, distance float8); SELECT create_distributed_table('region_labels', 'region')});
for my $mode (qw(append replace delete merge))
{
	sql('UPDATE reference_labels SET cluster_id = 7 WHERE id % 3 = 0; DELETE FROM reference_labels WHERE id % 5 = 1; UPDATE reference_labels SET id = -id WHERE id = 5') if $mode eq 'merge';
	is(sql(label('reference_labels', $mode)), 3, "labels into a reference table: $mode");
	is(sql(sprintf $digest, 'reference_labels'), $expected, "$mode: they are those of the local table");
	is(sql(label('local_labels', $mode)), 3, "labels of a distributed table into a local one: $mode") if $mode ne 'append';
}
is(sql(sprintf $digest, 'local_labels'), $expected, 'they are those of the local table');
sql(q{CREATE TABLE managed_labels (LIKE labels INCLUDING ALL); SELECT citus_add_local_table_to_metadata('managed_labels')});
for my $mode (qw(append replace delete merge))
{
	sql('UPDATE managed_labels SET cluster_id = 7 WHERE id % 3 = 0; DELETE FROM managed_labels WHERE id % 5 = 1; UPDATE managed_labels SET id = -id WHERE id = 5') if $mode eq 'merge';
	is(sql(label('managed_labels', $mode)), 3, "labels into a local table that Citus knows: $mode");
	is(sql(sprintf $digest, 'managed_labels'), $expected, "$mode: they are those of the local table");
}
for my $mode (qw(append replace))
{
	is(sql(label('columnar_labels', $mode)), 3, "labels into a columnar table: $mode");
	is(sql(sprintf $digest, 'columnar_labels'), $expected, "$mode: they are those of the local table");
}
is(sql('SET citus.enable_ddl_propagation = off; ' . label('columnar_labels', 'replace') . '; SHOW citus.enable_ddl_propagation'), "3\noff", 'replaced in a session whose commands stay on this server');
is(sql(sprintf $digest, 'columnar_labels'), $expected, 'they are those of the local table, and no others');

# What cannot work is refused before a row is read
sub fails_early
{
	my ($table, $mode, $message) = @_;
	like(failure(label($table, $mode, '', 'SELECT id, x, 1 / (id - id) AS y FROM distributed')), $message, "$table: $mode, before the rows are read");
	return;
}
fails_early('columnar_labels', 'delete', qr/table "columnar_labels" is columnar.*neither updated nor deleted.*'replace' or 'append'/s);
fails_early('columnar_labels', 'merge', qr/table "columnar_labels" (is columnar|has no unique index)/);
sql('CREATE TABLE partly_columnar (LIKE labels, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE TABLE columnar_part PARTITION OF partly_columnar FOR VALUES FROM (0) TO (100000) USING columnar');
for my $mode (qw(delete merge))
{
	fails_early('partly_columnar', $mode, qr/table "columnar_part" is columnar.*neither updated nor deleted.*'replace' or 'append'/s);
}
fails_early('region_labels', 'append', qr/distributed by column "region".*column "id"/s);

# Row-level security and privileges, on the shards
sql(<<~'SQL');
	CREATE ROLE reader LOGIN;
	GRANT SELECT ON local, distributed TO reader;
	GRANT CREATE ON SCHEMA public TO reader;
	ALTER TABLE local ENABLE ROW LEVEL SECURITY;
	ALTER TABLE distributed ENABLE ROW LEVEL SECURITY;
	CREATE POLICY low ON local FOR SELECT TO reader USING (region < 2);
	CREATE POLICY low ON distributed FOR SELECT TO reader USING (region < 2);
	SQL
my $as_reader = 'SET ROLE reader; ';
my $fit_of = q{SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)), sum(size) FROM gkmeans_fit('%s', '{x,y}', 3) f};
is(sql($as_reader . sprintf($fit_of, 'distributed')), sql($as_reader . sprintf($fit_of, 'local')), 'row-level security');
isnt(sql($as_reader . sprintf($fit_of, 'distributed')), sql(sprintf($fit_of, 'distributed')), 'leaves rows out');
like(failure($as_reader . label('labels', 'append')), qr/permission denied for table labels/, 'a role without privileges on the labels');
like(failure($as_reader . sprintf($fit_of, 'columnar')), qr/permission denied/, 'and without those on a table');

# The workers as nodes: how many, and why none
sub on_nodes
{
	my ($source, $arguments, $before, $after) = @_;
	my @said = split /\n/, sql(<<~SQL);
		SET gkmeans.nodes = 'auto';
		@{[ $before // '' ]}
		SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit(\$s\$$source\$s\$, $arguments) f;
		SELECT nodes, engine_reason FROM gkmeans_last_fit();
		@{[ $after // '' ]}
		SQL
	return ($said[0], split(/\|/, $said[1], 2));
}
my %nodes_of = (
	distributed => 2, columnar => 2, partitioned => 2,
	reference => 'Citus shows no tasks of the source',
	managed => 'Citus shows no tasks of the source',
	local => 'the rows of the source are on this server',
	'SELECT * FROM distributed WHERE id % 7 < 3' => 2,
	'SELECT * FROM distributed WHERE id = 17 OR x > 5' => 2,
	'SELECT * FROM distributed WHERE id = 17' => 'Citus shows no tasks of the source',
	'SELECT d.id, d.weight, d.x, l.y, d.v FROM distributed d JOIN columnar l USING (id)' => 2,
	'SELECT id, weight, x, height AS y, v FROM seen' => 2,
	'SELECT id, 1 AS weight, x * 2 AS "the x", y AS x, coalesce(y, 0) AS y, v FROM distributed' => 2,
	'SELECT id, x, x AS y FROM distributed' => 2,
	q{SELECT id, x, y, E'<> "a" (b) {c} :taskList \\\\ d' AS "e {f} :g" FROM distributed} => 2,
	'SELECT * FROM distributed WHERE length(now()::text) > 0' => 2,
	'SELECT id, sum(x) AS x, max(y) AS y FROM distributed GROUP BY id' => 2,
	'SELECT d.id, d.weight, d.x, l.y, d.v FROM distributed d JOIN local l USING (id)' => 'Citus reads the source in several steps',
	'SELECT * FROM distributed ORDER BY id LIMIT 1000' => 'Citus ',
	'SELECT region AS id, sum(x) AS x, min(y) AS y FROM distributed GROUP BY region' => 'Citus ',
	'SELECT * FROM distributed UNION ALL SELECT * FROM local' => 'Citus ',
	# queries of different types, once for each shard
	'SELECT id, x, y FROM distributed UNION ALL SELECT id, region, weight FROM columnar' => 2,
	'SELECT id, x, y FROM of_two_types' => 2,
);
sql('CREATE VIEW of_two_types AS SELECT id, x, y FROM distributed UNION ALL SELECT id, region, weight FROM columnar');
for my $source (sort keys %nodes_of)
{
	my $expected = $nodes_of{$source};
	my $arguments = $source =~ /id = 17$/ ? q('{x,y}', 1) : q('{x,y}', 3, scale => 'standard');
	my ($digest, $nodes, $reason) = on_nodes($source, $arguments);
	is($nodes, $expected =~ /^\d+$/ ? $expected : 0, "$source: $expected");
	like($reason, qr/not over nodes: \Q$expected\E/, "$source: says why") if $expected !~ /^\d+$/;
	is($digest, fit($source, $arguments), "$source: the same bits over nodes");
}
is((on_nodes('distributed', q('{v}', 4, weight_column => 'weight', n_init => 2)))[0], fit('local', q('{v}', 4, weight_column => 'weight', n_init => 2)), 'arrays and weights');
is(sql(qq{SET gkmeans.nodes = 'auto'; SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM gkmeans_fit_predict(NULL::bigint, 'distributed', '{x,y}', 3, id_column => 'id') p}),
	labels_of('local'), 'the labels of the rows');
for my $mode (qw(delete merge replace append))
{
	sql('TRUNCATE labels') if $mode eq 'append';
	is(sql("SET gkmeans.nodes = 'auto'; " . label('labels', $mode)), 3, "nodes, labels into a distributed table: $mode");
	is(sql(sprintf $digest, 'labels'), $expected, "$mode: they are those of the local table");
}

# Reading over nodes sends nothing through Citus, so a transaction may do so again
is((on_nodes('distributed', q('{x,y}', 2), q{BEGIN; DO $d$ BEGIN PERFORM gkmeans_fit('distributed', '{x,y}', 3); END $d$;}, 'COMMIT;'))[1], 2, 'a second fit of a transaction, over nodes as well');

# Labels that the workers write themselves
my $sent = q{SET client_min_messages = notice; SET citus.log_remote_commands = on; SET gkmeans.nodes = 'auto'; };

sub what_is_sent
{
	my ($fit) = @_;
	return ($node->psql('postgres', $sent . $fit))[2];
}

# How labels come to the workers: "select" if they look them up themselves, "copy" if rows are sent.
sub way_of
{
	my $said = what_is_sent(@_);
	my @ways = ($said =~ /issuing INSERT INTO [^\n]*_gkmeans_label_cluster/ ? 'select' : (), $said =~ /issuing COPY/ ? 'copy' : ());
	return join(' and ', @ways);
}
is(way_of(label('labels', $_)), 'select', "$_: the workers write the labels of their rows") for qw(delete replace);
is(way_of(label('labels', 'delete', '', 'SELECT id, x, height AS y FROM seen')), 'select', 'those of a view as well');
is(way_of(label('labels', 'delete', '', $_) =~ s/, 3, id_column/, 1, id_column/r), 'copy', "not those of $_")
	for 'SELECT id, x, generate_series(1, 1) * 1.0 AS y FROM distributed', q{SELECT id, x, CASE WHEN id < 0 THEN current_setting(''no.such'')::float8 ELSE 1 END AS y FROM distributed};
is(way_of(label('labels', 'delete')), 'select', 'again');
is(sql(sprintf $digest, 'labels'), $expected, 'they are those of the local table');
sql('TRUNCATE labels');
my $said = what_is_sent('SET citus.force_max_query_parallelization = on; ' . label('labels', 'append'));
my %sessions = map { $_ => 1 } $said =~ /issuing INSERT INTO [^\n]*_gkmeans_label_cluster[^\n]*\n[^\n]* connectionId: (\d+)/g;
is(scalar(keys %sessions), sql(q{SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'labels'::regclass}), 'as many sessions as Citus may take write them');
unlike($said, qr/EXPLAIN/, 'the workers are not asked for their tasks');
is(sql(sprintf $digest, 'labels'), $expected, 'they are those of the local table');
unlike(what_is_sent(label('labels', 'delete', '', 'SELECT * FROM distributed WHERE id = 17') =~ s/, 3, id_column/, 1, id_column/r), qr/EXPLAIN/, 'nor for those of one row');
is(sql('SELECT count(*), min(id) FROM labels'), '1|17', 'whose labels are written');
is(way_of(label('labels', 'delete')), 'select', 'all of them again');
is(way_of(label('labels', 'merge')), 'copy', 'labels that are merged come through the coordinator');
is(way_of(label('reference_labels', 'delete')), 'copy', 'so do those of a reference table');
like(what_is_sent("SET citus.enable_ddl_propagation = $_; " . label('labels', 'merge')), qr/^LOCK public\.labels /m, "which writers of other servers wait for: commands to others $_") for qw(on off);
sql(q{CREATE TABLE stamped (LIKE labels); ALTER TABLE stamped ADD version int, ADD labelled_at timestamptz; SELECT create_distributed_table('stamped', 'id', colocate_with => 'distributed')});
is(way_of(label('stamped', 'append')), 'select', 'columns that are the same in all rows');
is(sql('SELECT count(*), count(version), count(DISTINCT labelled_at) FROM stamped'), '6000|0|1', 'are filled');
sql(q{CREATE TABLE elsewhere (LIKE labels); SELECT create_distributed_table('elsewhere', 'id', shard_count => 5)});
is(way_of(label('elsewhere', 'append')), 'copy', 'shards that are elsewhere');
is(sql(sprintf $digest, 'elsewhere'), $expected, 'have the same labels');
is(sql("SET gkmeans.nodes = 'auto'; " . label('labels', 'delete', q{, metric => 'cosine', init => 'random'})), 3, 'cosine distances');
is( sql(sprintf $digest, 'labels'),
	sql(label('local_labels', 'delete', q{, metric => 'cosine', init => 'random'}, 'local') . "; $local_labels") =~ s/^3\n//r, 'are those of the local table');
sql(q{SET gkmeans.nodes = 'auto'; SELECT gkmeans_create_model('written', 'distributed', '{x,y}', 3, id_column => 'id', labels_table => 'labels', labels_mode => 'delete')});
is(sql(sprintf $digest, 'labels'), $expected, 'those of a model');
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT rows, labelled, inserted FROM gkmeans_assign('written', labels_mode => 'delete')}), '6000|5940|6000', 'its labels are written again');
is(sql(sprintf $digest, 'labels'), $expected, 'and are the same');

# Values that Citus writes as text are the same in all styles: constants of sources, the time of labels, ids
my $styles = q{SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kolkata'; SET IntervalStyle = 'sql_standard'; SET extra_float_digits = -5; SET plan_cache_mode = 'force_generic_plan';};
for my $x (q{(id * 0.123456789012345678::float8 - id * 0.123456789::float8) * 1e10}, q{extract(epoch FROM '12.05.2026 10:00'::timestamptz + id * '-1 2:00'::interval)})
{
	is((on_nodes("SELECT $x AS x FROM distributed", q('{x}', 3), $styles))[0], (split /\n/, sql("$styles SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit(\$s\$SELECT $x AS x FROM local\$s\$, '{x}', 3) f"))[-1], "nodes, in other styles: $x");
}
sql(<<~'SQL');
	CREATE TABLE at_times (id int PRIMARY KEY, cluster_id int, distance float8, labelled_at timestamptz);
	SELECT create_distributed_table('at_times', 'id', colocate_with => 'distributed');
	CREATE TYPE moment AS (day date, part float8);
	CREATE TABLE moments AS SELECT ROW('2026-01-01'::date + id % 365, id / 7.0)::moment AS id, x, y FROM local;
	CREATE TABLE at_moments (id moment PRIMARY KEY, cluster_id int, distance float8);
	SELECT create_distributed_table('at_moments', 'id');
	SQL
for my $nodes ('', 'auto')
{
	for my $mode (qw(append merge delete))
	{
		sql('UPDATE at_times SET cluster_id = 9 WHERE id % 2 = 0; DELETE FROM at_times WHERE id % 2 = 1') if $mode eq 'merge';
		sql("SET gkmeans.nodes = '$nodes'; $styles " . label('at_times', $mode));
		is(sql('SELECT count(*), count(DISTINCT labelled_at), bool_and(labelled_at <= now()) FROM at_times'), '6000|1|t', "$mode, nodes '$nodes': the time of labels");
	}
	sql('TRUNCATE at_times');
}
for my $mode (qw(append merge))
{
	sql('DELETE FROM at_moments WHERE cluster_id = 1') if $mode eq 'merge';
	is(sql("$styles SELECT sum(size) FROM gkmeans_fit('moments', '{x}', 3, id_column => 'id', labels_table => 'at_moments', if_exists => '$mode')"), 6000, "$mode: ids with parts");
	is(sql('SELECT count(*), (SELECT count(*) FROM at_moments) FROM moments JOIN (SELECT * FROM at_moments OFFSET 0) l USING (id)'), '6000|6000', 'which are those of the rows');
}

# Labels and rows with foreign keys to a reference table that the source reads
sql(<<~'SQL');
	CREATE TABLE kinds AS SELECT i AS kind FROM generate_series(0, 9) i;
	ALTER TABLE kinds ADD PRIMARY KEY (kind);
	SELECT create_reference_table('kinds');
	CREATE TABLE of_kinds (id int PRIMARY KEY, kind int REFERENCES kinds, x float8);
	SELECT create_distributed_table('of_kinds', 'id', colocate_with => 'distributed');
	INSERT INTO of_kinds SELECT id, region, x FROM local;
	CREATE TABLE kind_labels (id int PRIMARY KEY, cluster_id int REFERENCES kinds);
	SELECT create_distributed_table('kind_labels', 'id', colocate_with => 'distributed');
	CREATE TABLE kind_parts (id int PRIMARY KEY, cluster_id int) PARTITION BY RANGE (id);
	CREATE TABLE kind_part PARTITION OF kind_parts DEFAULT;
	SELECT create_distributed_table('kind_parts', 'id', colocate_with => 'distributed');
	ALTER TABLE kind_part ADD CONSTRAINT of_kind FOREIGN KEY (cluster_id) REFERENCES kinds;
	SQL
for my $labels ('kind_labels', 'kind_parts')
{
	for my $nodes ('', 'auto')
	{
		is(sql("SET gkmeans.nodes = '$nodes'; SELECT sum(size) FROM gkmeans_fit('SELECT id, x FROM of_kinds JOIN kinds USING (kind)', '{x}', 3, id_column => 'id', labels_table => '$labels', if_exists => 'replace'); SELECT count(*), max(cluster_id) FROM $labels; SHOW citus.multi_shard_modify_mode"), "6000\n6000|2\nparallel", "$labels with a foreign key are replaced, nodes '$nodes'") for 1, 2;
	}
}

# A shard moves while a fit waits to know whether the workers can write the labels
sql(q{CREATE TABLE wandering (LIKE local); SELECT create_distributed_table('wandering', 'id', shard_count => 2, colocate_with => 'none'); INSERT INTO wandering SELECT * FROM local;
	CREATE TABLE wandering_labels (LIKE labels); SELECT create_distributed_table('wandering_labels', 'id', colocate_with => 'wandering')});
my $mover = $node->background_psql('postgres', on_error_stop => 1);
my $waiting = $node->background_psql('postgres', on_error_stop => 0);
$mover->query_safe('BEGIN');
$mover->query_safe("SELECT citus_move_shard_placement(shardid, nodename, nodeport, '@{[ $nodes[2]->host ]}', @{[ $nodes[2]->port ]}, 'block_writes') FROM citus_shards WHERE table_name = 'wandering'::regclass AND nodeport = @{[ $nodes[1]->port ]}");
start_query($waiting, "SET gkmeans.nodes = 'auto'; " . label('wandering_labels', 'append', '', 'wandering'));
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%wandering_labels%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())}), 'a fit waits for a shard that moves');
$mover->query_safe('COMMIT');
is($waiting->query('SELECT nodes FROM gkmeans_last_fit(); SELECT count(*) FROM wandering_labels'), "3\n1\n6000", 'and reads it where it is then');
$_->quit for $mover, $waiting;

# … and a transaction that keeps its snapshots waits for a shard of the labels, with labels that it would not see
# there, though a unique index would
for my $labels ('held_labels', 'keyed_labels')
{
	my $key = $labels eq 'keyed_labels' ? ' PRIMARY KEY' : '';

	sql("CREATE TABLE $labels (id int$key, cluster_id int); SELECT create_distributed_table('$labels', 'id', shard_count => 2, colocate_with => 'none'); INSERT INTO $labels SELECT id, 0 FROM local");
	$mover = $node->background_psql('postgres', on_error_stop => 1);
	$waiting = $node->background_psql('postgres', on_error_stop => 0);
	$mover->query_safe('BEGIN');
	$waiting->query_safe("SET default_transaction_isolation = 'repeatable read'; BEGIN; SELECT count(*) FROM distributed");
	$mover->query_safe("SELECT citus_move_shard_placement(shardid, nodename, nodeport, '@{[ $nodes[2]->host ]}', @{[ $nodes[2]->port ]}, 'block_writes') FROM citus_shards WHERE table_name = '$labels'::regclass AND nodeport = @{[ $nodes[1]->port ]}");
	start_query($waiting, label($labels, 'delete', '', 'distributed'));
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%$labels%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())"), "a fit waits for a shard of $labels that moves");
	$mover->query_safe('COMMIT');
	is($waiting->query("ROLLBACK; SELECT count(*), count(DISTINCT id), max(cluster_id) FROM $labels") =~ s/.*\n//sr, '6000|6000|0', 'and leaves the labels as they were');
	like($waiting->{stderr}, qr/could not serialize access/, 'with an error');
	$_->quit for $mover, $waiting;
}

# A trigger that leaves rows out
sql(<<~'SQL');
	CREATE TABLE even_labels (LIKE labels);
	SELECT create_distributed_table('even_labels', 'id', colocate_with => 'distributed');
	CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN CASE WHEN NEW.id % 2 = 0 THEN NEW END; END';
	SET citus.enable_unsafe_triggers = on;
	CREATE TRIGGER leave_out BEFORE INSERT ON even_labels FOR EACH ROW EXECUTE FUNCTION leave_out();
	SQL
is(way_of(label('even_labels', 'append')), 'copy', 'labels of which a trigger leaves some out');
is(sql('SELECT count(*) FROM even_labels'), 3000, 'are written without them');
sql(<<~'SQL');
	CREATE TABLE parted_labels (LIKE labels) PARTITION BY RANGE (id);
	CREATE TABLE parted_labels_1 PARTITION OF parted_labels FOR VALUES FROM (MINVALUE) TO (3001);
	CREATE TABLE parted_labels_2 PARTITION OF parted_labels FOR VALUES FROM (3001) TO (MAXVALUE);
	SELECT create_distributed_table('parted_labels', 'id', colocate_with => 'distributed');
	SQL
is(way_of(label('parted_labels', 'append')), 'select', 'a labels table with partitions');
is(sql(sprintf $digest, 'parted_labels'), $expected, 'has the same labels');
sql(q{SET citus.enable_unsafe_triggers = on; CREATE TRIGGER leave_out BEFORE INSERT ON parted_labels_2 FOR EACH ROW EXECUTE FUNCTION leave_out()});
is(way_of(label('parted_labels', 'replace')), 'copy', 'a partition with a trigger that leaves rows out');
is(sql('SELECT count(*) FROM parted_labels'), sql('SELECT count(*) FILTER (WHERE id <= 3000 OR id % 2 = 0) FROM local'), 'is filled without them');

# Copies of rows are on several workers, of which one has the labels
sql(q{SET citus.shard_replication_factor = 2; CREATE TABLE twice (LIKE local); SELECT create_distributed_table('twice', 'id', colocate_with => 'none');
	CREATE TABLE twice_labels (LIKE labels); SELECT create_distributed_table('twice_labels', 'id', colocate_with => 'twice'); INSERT INTO twice SELECT * FROM local});
is(way_of(label('twice_labels', 'append', '', 'twice')), 'copy', 'rows with copies');
is(sql(q{SELECT count(*), sum(result::int) FROM run_command_on_placements('twice_labels', 'SELECT count(*) FROM %s')}), '12|12000', 'have labels with copies');

# Ids of other types, and the same id in several rows
sql(<<~'SQL');
	CREATE TABLE texts AS SELECT repeat(chr(97 + i % 26), i % 300) || i % 900 AS id, x, y FROM local, LATERAL (SELECT id AS i) l;
	CREATE TABLE uuids AS SELECT md5(id::text)::uuid AS id, x, y FROM local;
	CREATE TABLE numerics AS SELECT id / 8.0 AS id, x, y FROM local;
	CREATE TABLE pairs AS SELECT id / 2 AS id, x, y FROM local;
	SQL
for my $table (qw(texts uuids numerics pairs))
{
	sql(qq{CREATE TABLE d_$table (LIKE $table); SELECT create_distributed_table('d_$table', 'id'); INSERT INTO d_$table SELECT * FROM $table;
		CREATE TABLE l_$table AS SELECT id, 0 AS cluster_id, 0.5::float8 AS distance FROM $table LIMIT 0; CREATE TABLE dl_$table (LIKE l_$table);
		SELECT create_distributed_table('dl_$table', 'id', colocate_with => 'd_$table')});
	like(way_of(label("dl_$table", 'append', '', "d_$table")), qr/^select/, "ids of $table: written by the workers");
	sql(label("l_$table", 'append', '', $table));
	my $sum = q{SELECT count(*), md5(string_agg(l::text, '|' ORDER BY l::text)) FROM %s l};
	is(sql(sprintf $sum, "dl_$table"), sql(sprintf $sum, "l_$table"), 'the labels of a local table');
}

# The source changes between the reading and the labels: they are those of the rows that were read
sql('CREATE TABLE moving (LIKE local)');
sql(q{SELECT create_distributed_table('moving', 'id', colocate_with => 'distributed'); INSERT INTO moving SELECT * FROM local});
my $locker = $node->background_psql('postgres', on_error_stop => 0);
my $fitting = $node->background_psql('postgres', on_error_stop => 0);
$locker->query_safe('BEGIN');
$locker->query_safe('LOCK TABLE labels IN SHARE UPDATE EXCLUSIVE MODE');
start_query($fitting, "SET gkmeans.nodes = 'auto'; " . label('labels', 'delete', '', 'moving'));
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM gkmeans.progress WHERE phase = 'writing')}), 'a fit waits with its labels');
is(sql('SELECT engine, nodes, rows_done FROM gkmeans.progress'), 'cluster|2|5940', 'its progress shows the nodes');
sql(q{DELETE FROM moving WHERE id % 7 = 0; UPDATE moving SET x = -100, y = 500 WHERE id % 7 = 1; INSERT INTO moving SELECT id + 100000, region, x, y, weight, v FROM local WHERE id % 7 = 2});
is($nodes[1]->safe_psql('postgres', q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE application_name = 'gkmeans' AND l.locktype = 'relation'}), 0, 'its nodes hold no locks then');
is($nodes[1]->safe_psql('postgres', q{SELECT state, backend_xmin, count(*) FROM pg_stat_activity WHERE application_name = 'gkmeans' GROUP BY 1, 2}), 'idle in transaction||1', 'nor snapshots, but are in a transaction: a pooler keeps to them');
$locker->query_safe('COMMIT');
is($fitting->query('SELECT 1'), "3\n1", 'it succeeds');
is(sql(sprintf $digest, 'labels'), $expected, 'with the labels of the rows that it has read');
$_->quit for $locker, $fitting;
ok($nodes[1]->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans')}), 'no session is left on a worker');

# The extension is dropped while a fit reads
$locker = $nodes[1]->background_psql('postgres', on_error_stop => 0);
$fitting = $node->background_psql('postgres', on_error_stop => 0);
my $shard = sql(q{SELECT min(shard_name) FROM citus_shards WHERE table_name = 'moving'::regclass AND nodeport = } . $nodes[1]->port);
$locker->query_safe($_) for 'SET citus.enable_manual_changes_to_shards = on', 'BEGIN', "LOCK TABLE $shard";
start_query($fitting, "SET gkmeans.nodes = 'auto'; " . label('labels', 'delete', '', 'moving'));
ok($nodes[1]->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans' AND wait_event_type = 'Lock')}), 'a fit waits for a shard');
sql('SET citus.enable_ddl_propagation = off; DROP EXTENSION gkmeans CASCADE');
$locker->query_safe('COMMIT');
$fitting->query('SELECT 1');
like($fitting->{stderr}, qr/(extension|schema) "gkmeans" does not exist/, 'it fails if the extension is dropped meanwhile');
$_->quit for $locker, $fitting;
sql('SET citus.enable_ddl_propagation = off; CREATE EXTENSION gkmeans');

# Nobody else reads the labels, and a worker that lies is an error
my $worker = $nodes[1];

sub on_worker { return $worker->safe_psql('postgres', "SET citus.enable_ddl_propagation = off; $_[0]"); }
my $publish = q{BEGIN; SELECT engine FROM gkmeans.gkmeans_node_open(1, 'SELECT i AS id, i * 1.5 AS x FROM generate_series(1, 50) i', '{x}', 'id', 'int', NULL, false, false, 1, 1, 1)};
like(($worker->psql('postgres', "$publish; SELECT * FROM gkmeans.gkmeans_node_publish('00000000-0000-0000-0000-000000000001', '{0}', false)"))[2], qr/There are no ids, or they were taken before/, 'labels before the rows');
is($worker->safe_psql('postgres', q{SELECT gkmeans._gkmeans_label_exists('{-1,0,1,4294967295,99999999999}', '00000000-0000-0000-0000-000000000001', ROW(1)), gkmeans._gkmeans_label_cluster('{}', '00000000-0000-0000-0000-000000000001', ROW('x'::text)) IS NULL}),
	'f|t', 'labels that nobody has left');
on_worker('ALTER FUNCTION gkmeans.gkmeans_node_publish RENAME TO true_publish; ALTER FUNCTION gkmeans.gkmeans_node_rest RENAME TO true_rest');
for my $lie ([ 'NULL::bigint, labels', 'handle' ], [ '-1::bigint, labels', 'handle' ], [ 'handle, labels + 1', 'labels' ], [ 'handle, NULL::bigint', 'labels' ], [ '1::bigint << 40, labels', 'handle' ])
{
	on_worker(qq{CREATE OR REPLACE FUNCTION gkmeans.gkmeans_node_publish(key uuid, clusters int[], by_cosine bool, OUT handle bigint, OUT labels bigint) LANGUAGE sql VOLATILE AS
		'SELECT $lie->[0] FROM gkmeans.true_publish(key, clusters, by_cosine) p'});
	like(failure("SET gkmeans.nodes = 'auto'; " . label('labels', 'delete')), qr/sent an invalid answer/, "a worker that lies about its labels: $lie->[0]");
}
on_worker(q{CREATE OR REPLACE FUNCTION gkmeans.gkmeans_node_publish(key uuid, clusters int[], by_cosine bool, OUT handle bigint, OUT labels bigint) LANGUAGE sql VOLATILE AS
	'SELECT 12345::bigint, labels FROM gkmeans.true_publish(key, clusters, by_cosine) p'; CREATE FUNCTION gkmeans.gkmeans_node_rest(key uuid) RETURNS TABLE (id text, cluster_id int, distance float8) LANGUAGE sql AS 'SELECT * FROM gkmeans.true_rest(key)'});
is(sql("SET gkmeans.nodes = 'auto'; " . label('labels', 'delete')), 3, 'a handle that leads nowhere: the labels come through the coordinator');
is(sql(sprintf $digest, 'labels'), $expected, 'and are right');
for my $lie (q{SELECT * FROM gkmeans.true_rest(key) LIMIT 10}, q{SELECT * FROM gkmeans.true_rest(key) UNION ALL SELECT * FROM gkmeans.true_rest(key)}, q{SELECT 'x'::text, 1, 2.0::float8}, q{SELECT NULL::text, 1, 2.0::float8 FROM generate_series(1, 3000)})
{
	on_worker(qq{CREATE OR REPLACE FUNCTION gkmeans.gkmeans_node_rest(key uuid) RETURNS TABLE (id text, cluster_id int, distance float8) LANGUAGE sql AS \$\$ $lie \$\$});
	like(failure("SET gkmeans.nodes = 'auto'; " . label('labels', 'delete')), qr/sent an invalid answer|changed while their labels were being written|invalid input syntax|null value/, "a worker that lies about the rest: $lie");
	is(sql(sprintf $digest, 'labels'), $expected, 'nothing of it stays');
}
on_worker('DROP FUNCTION gkmeans.gkmeans_node_publish, gkmeans.gkmeans_node_rest; ALTER FUNCTION gkmeans.true_publish RENAME TO gkmeans_node_publish; ALTER FUNCTION gkmeans.true_rest RENAME TO gkmeans_node_rest');

# Citus leaves functions of pg_catalog unqualified: they are not those of a schema that the caller's path names first
$_->safe_psql('postgres', q{SET citus.enable_ddl_propagation = off; CREATE SCHEMA ahead; CREATE FUNCTION ahead.abs(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 7.0::float8'}) for @nodes;
for my $path ('ahead, public, pg_catalog', 'public')
{
	my ($fitted, $by) = on_nodes('SELECT pg_catalog.abs(x) AS x FROM distributed', q('{x}', 3), "SET search_path = $path;");
	is("$by $fitted", '2 ' . fit('SELECT pg_catalog.abs(x) AS x FROM local', q('{x}', 3)), "a function of pg_catalog, search_path $path");
}
is((split /\n/, sql(q{SET gkmeans.nodes = 'auto'; SET search_path = ''; SELECT count(*) FROM public.gkmeans_fit('SELECT pg_catalog.abs(x) AS x FROM public.distributed', '{x}', 3); SELECT nodes FROM public.gkmeans_last_fit()}))[1], 2, 'with an empty path');

# Functions of others that would fit better, where these may create some in the schema of the extension
sql(<<~'SQL');
	CREATE TABLE short (id smallint PRIMARY KEY, x float8, y float8);
	SELECT create_distributed_table('short', 'id');
	INSERT INTO short SELECT id, x, y FROM local;
	CREATE TABLE short_labels (id smallint PRIMARY KEY, cluster_id int, distance float8);
	SELECT create_distributed_table('short_labels', 'id', colocate_with => 'short');
	SQL
my $trapped = join "\n", map { "CREATE FUNCTION gkmeans._gkmeans_label_$_->[0](bigint[], uuid, smallint) RETURNS $_->[1] LANGUAGE plpgsql STABLE AS 'BEGIN RAISE EXCEPTION ''trapped''; END';" } [ exists => 'boolean' ], [ cluster => 'integer' ], [ distance => 'float8' ];
$_->safe_psql('postgres', "SET citus.enable_ddl_propagation = off; $trapped") for @nodes;
is(way_of(label('short_labels', 'delete', '', 'short')), 'select', 'the workers write labels beside functions that would fit better');
is(sql(sprintf $digest, 'short_labels'), $expected, 'are those of the local table');

# What this transaction has written is on its own sessions alone
my $change = 'UPDATE distributed SET x = 3, y = 4 WHERE id <= 3000';
my ($written, $nodes, $why) = on_nodes('distributed', q('{x,y}', 2), "BEGIN; $change;", 'ROLLBACK;');
is($nodes, 0, 'a transaction that has written reads by itself');
like($why, qr/this transaction has used the workers of Citus before/, 'and says why');
is($written, sql("BEGIN; $change; SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit('distributed', '{x,y}', 2) f; ROLLBACK"), 'it sees what it has written');
isnt($written, fit('distributed', q('{x,y}', 2)), 'which is something else');

# On the nodes, a user is who he is here
sub as_reader_on_nodes
{
	my ($source) = @_;
	return on_nodes($source, q('{x,y}', 3), 'SET ROLE reader;');
}
like(failure("SET gkmeans.nodes = 'auto'; $as_reader " . sprintf($fit_of, 'distributed')), qr/permission denied for function gkmeans_node_open/, 'a role that may not use nodes');
for my $worker (@nodes[ 1, 2 ])
{
	$worker->safe_psql('postgres', <<~'SQL');
		DO $$ DECLARE f regprocedure; BEGIN
			FOR f IN SELECT oid FROM pg_proc WHERE proname LIKE 'gkmeans\_node\_%' LOOP
				EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO reader', f);
			END LOOP; END $$
		SQL
}
my ($low, $nodes_of_reader) = as_reader_on_nodes('distributed');
is($nodes_of_reader, 2, 'a role with policies: over nodes');
is($low, sql("$as_reader SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit('local', '{x,y}', 3) f"), 'row-level security holds on the nodes');
like(failure("SET gkmeans.nodes = 'auto'; $as_reader " . sprintf($fit_of, 'columnar')), qr/permission denied/, 'privileges hold as well');

# Models over nodes
sql(q{SET gkmeans.nodes = 'auto'; SELECT gkmeans_create_model('node_segments', 'distributed', '{x,y}', 3, id_column => 'id')});

# Models
for my $kind ('', 'local_')
{
	my $source = $kind ? 'local' : 'distributed';
	sql(qq{SELECT gkmeans_create_model('${kind}segments', '$source', '{x,y}', 3, id_column => 'id', labels_table => '${kind}assigned', labels_mode => 'merge')});
}

# Compares what a query says of the model of the distributed table and of the local one.
sub same
{
	my ($query, $name) = @_;
	my $other = $query =~ s/%table%/local/gr =~ s/%model%/local_segments/gr;
	is(sql($query =~ s/%table%/distributed/gr =~ s/%model%/segments/gr), sql($other), $name);
	return;
}
my $rows_of = q{SELECT md5(string_agg(r::text, '|' ORDER BY r::text)) FROM (%s) r};
same(sprintf($rows_of, q{SELECT * FROM gkmeans_clusters('%model%')}), 'a model of a distributed table');
is( sql(sprintf $rows_of, q{SELECT * FROM gkmeans_clusters('node_segments')}),
	sql(sprintf $rows_of, q{SELECT * FROM gkmeans_clusters('local_segments')}), 'a model made over nodes');
same(sprintf($rows_of, q{SELECT * FROM gkmeans_evaluate('%model%', '%table%')}), 'its evaluation');
same(sprintf($rows_of, q{SELECT * FROM gkmeans_predict_rows(NULL::bigint, '%model%', '%table%', 'id')}), 'the clusters of its rows');
same(q{SELECT rows, labelled FROM gkmeans_assign('%model%')}, 'its labels');

# Labels of the model, merged with their changes into distributed tables
sql(<<~'SQL');
	CREATE TABLE model_labels (id int PRIMARY KEY, cluster_id int, name text, distance float8, second_cluster_id int, second_distance float8,
		anomaly_score float8, anomaly_percentile float8, version int, labelled_at timestamptz);
	SELECT create_distributed_table('model_labels', 'id', colocate_with => 'distributed');
	CREATE TABLE local_model_labels (LIKE model_labels INCLUDING ALL);
	CREATE TABLE changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
	SELECT create_distributed_table('changes', 'id', colocate_with => 'distributed');
	CREATE TABLE local_changes (LIKE changes);
	SQL
my $assign = q{SELECT * FROM gkmeans_assign('%ssegments', '%s', 'id', '%smodel_labels', 'merge', '%schanges')};
my $all_columns = q{SELECT string_agg((to_jsonb(l) - 'labelled_at')::text, '|' ORDER BY id) FROM %s l};
for my $what ('a new table', 'nothing new', 'rows changed, gone and added')
{
	is(sql(sprintf $assign, '', 'distributed', '', ''), sql(sprintf $assign, 'local_', 'local', 'local_', 'local_'), "$what: the counts");
	is(sql(sprintf $all_columns, 'model_labels'), sql(sprintf $all_columns, 'local_model_labels'), "$what: every column of the labels");
	is(sql(q{SELECT md5(string_agg((to_jsonb(c) - 'changed_at')::text, '|' ORDER BY id, from_cluster_id, to_cluster_id)) FROM changes c}),
		sql(q{SELECT md5(string_agg((to_jsonb(c) - 'changed_at')::text, '|' ORDER BY id, from_cluster_id, to_cluster_id)) FROM local_changes c}), "$what: the changes");
	sql("UPDATE $_ SET cluster_id = cluster_id + 1, name = NULL WHERE id % 10 = 0; DELETE FROM $_ WHERE id % 10 = 1; INSERT INTO $_ (id, cluster_id) VALUES (-5, 1)")
		for qw(model_labels local_model_labels);
}

# The changes, in a table that does not take them
sql(q{CREATE TABLE region_changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz); SELECT create_distributed_table('region_changes', 'to_cluster_id')});
like(failure(q{SELECT gkmeans_assign('segments', 'SELECT id, x, 1 / (id - id) AS y FROM distributed', 'id', 'model_labels', 'merge', 'region_changes')}),
	qr/distributed by column "to_cluster_id"/, 'changes that cannot be written are refused before the rows are read');

like(failure(q{SELECT gkmeans_assign('segments', 'SELECT id, x, 1 / (id - id) AS y FROM distributed', 'id', 'reference_labels', 'merge', 'changes')}),
	qr/changes of the labels in table "reference_labels" cannot be found/, 'so are those of a reference table');

# Labels in one shard, with and without changes, of which Citus would send the comparison away
for my $column (q('id', shard_count => 1), 'NULL')
{
	for my $changes (undef, q('id', shard_count => 1), 'NULL')
	{
		sql(qq{CREATE TABLE few_labels (id int PRIMARY KEY, cluster_id int); SELECT create_distributed_table('few_labels', $column, colocate_with => 'none');
			CREATE TABLE few_changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz)} . (defined $changes ? "; SELECT create_distributed_table('few_changes', $changes, colocate_with => 'none')" : ''));
		my $few = q{SELECT inserted, updated, deleted FROM gkmeans_assign('segments', 'SELECT * FROM local WHERE id < 100', 'id', 'few_labels', '%s'%s)};
		is(sql(sprintf $few, 'merge', q(, 'few_changes')), '99|0|0', 'labels in one shard by ' . $column . ', changes ' . ($changes // 'in a local table'));
		sql('UPDATE few_labels SET cluster_id = -1 WHERE id % 10 = 0; DELETE FROM few_labels WHERE id % 10 = 1; INSERT INTO few_labels VALUES (-5, 1)');
		is(sql(sprintf $few, 'merge', q(, 'few_changes')), '10|9|1', 'merged');
		is(sql('SELECT count(*), count(*) FILTER (WHERE from_cluster_id IS NULL), count(*) FILTER (WHERE to_cluster_id IS NULL) FROM few_changes'), '119|109|1', 'and the changes');
		is(sql(sprintf $few, $_, ''), "99|0|@{[ $_ eq 'delete' ? 99 : 0 ]}", $_) for qw(delete replace);
		sql('DROP TABLE few_labels, few_changes');
	}
}

# A refit, over nodes and not
sql("UPDATE $_ SET x = x + 40 WHERE id % 3 = 1") for qw(distributed local);
same(q{SELECT version, status, deployed, rows, inertia_before, inertia, moved FROM gkmeans_refit('%model%')}, 'a refit');
same(sprintf($rows_of, q{SELECT * FROM gkmeans_clusters('%model%')}), 'its clusters');
sql(q{SET gkmeans.nodes = 'auto'; SELECT gkmeans_refit('node_segments')});
is( sql(sprintf $rows_of, q{SELECT * FROM gkmeans_clusters('node_segments')}),
	sql(sprintf $rows_of, q{SELECT * FROM gkmeans_clusters('local_segments')}), 'a refit over nodes');

# Labels that rules turn into something else
sql(q{CREATE TABLE ruled (LIKE labels); SELECT create_distributed_table('ruled', 'id', colocate_with => 'distributed')});
sql(q{CREATE TABLE instead (LIKE labels); SELECT create_distributed_table('instead', 'id', colocate_with => 'distributed')});
for my $action ('NOTHING', 'NOTIFY written', 'SELECT 1', 'DELETE FROM ruled', 'INSERT INTO instead VALUES (NEW.id, NEW.cluster_id, NEW.distance)')
{
	sql("CREATE OR REPLACE RULE other AS ON INSERT TO ruled DO INSTEAD $action");
	is(sql("SET gkmeans.nodes = '$_'; SELECT sum(size) FROM gkmeans_fit('distributed', '{x}', 3, id_column => 'id', labels_table => 'ruled', if_exists => 'append')"), 6000, "a rule that does $action instead, nodes '$_'") for '', 'auto';
}

# Rows on this server, which the transaction has used before
sql(<<~"SQL");
	SELECT citus_set_node_property('@{[ $node->host ]}', @{[ $node->port ]}, 'shouldhaveshards', true);
	CREATE TABLE here (LIKE local);
	SELECT create_distributed_table('here', 'id', colocate_with => 'none');
	SELECT citus_set_node_property('@{[ $node->host ]}', @{[ $node->port ]}, 'shouldhaveshards', false);
	INSERT INTO here SELECT * FROM local;
	SQL
my $fit_here = q{SELECT sum(size) FROM gkmeans_fit('here', '{x}', 3)};
for my $before ('SELECT count(*) FROM here', 'SELECT count(*) FROM here WHERE id = 5', 'UPDATE here SET x = x WHERE id = 5')
{
	like(sql("BEGIN; $before; $fit_here; $fit_here; COMMIT"), qr/6000\n6000$/, "fits after $before");
	like(sql("BEGIN; $fit_here; $before; $fit_here; COMMIT"), qr/^6000\n.*6000$/s, 'and around it');
}

# Labels of an ordinary table, which Citus writes on this server and on others
sql(<<~"SQL");
	CREATE TABLE everywhere (id int PRIMARY KEY, cluster_id int, distance float8);
	SELECT create_reference_table('everywhere');
	CREATE TABLE only_here (LIKE everywhere INCLUDING ALL);
	SELECT citus_add_local_table_to_metadata('only_here');
	SELECT citus_set_node_property('@{[ $node->host ]}', @{[ $node->port ]}, 'shouldhaveshards', true);
	CREATE TABLE also_here (LIKE everywhere INCLUDING ALL);
	SELECT create_distributed_table('also_here', 'id', colocate_with => 'here');
	SELECT citus_set_node_property('@{[ $node->host ]}', @{[ $node->port ]}, 'shouldhaveshards', false);
	SQL
for my $labels (qw(everywhere only_here also_here))
{
	for my $mode (qw(append delete replace merge))
	{
		sql("DELETE FROM $labels");
		is(sql("SELECT sum(size) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => '$labels', if_exists => '$mode')"), 6000, "labels in $labels, $mode");
		is(sql("SELECT count(*) FROM $labels"), 6000, 'they are there');
	}
	is(sql("BEGIN; DELETE FROM $labels WHERE id = 5; SELECT sum(size) FROM gkmeans_fit('here', '{x}', 3, id_column => 'id', labels_table => '$labels', if_exists => 'merge'); COMMIT"), 6000, "rows of Citus after an own change of $labels");
}
sql(q{CREATE TABLE by_columns (id int, cluster_id int, distance float8) USING columnar; SELECT create_distributed_table('by_columns', 'id', colocate_with => 'distributed')});
like(sql(q{BEGIN; SELECT sum(size) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'by_columns', if_exists => 'append'); SELECT count(*) FROM by_columns; COMMIT}), qr/6000\n6000$/, 'columnar labels can be read in the transaction');
like(sql(q{BEGIN; INSERT INTO by_columns VALUES (-1, 1, 1); SELECT sum(size) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'also_here', if_exists => 'merge'); SELECT count(*) FROM by_columns; COMMIT}), qr/6000\n6001$/, 'and so can those that it wrote before');
is(sql(q{SELECT count(*) FROM everywhere JOIN gkmeans_fit_predict(NULL::int, 'everywhere', '{distance}', 3, id_column => 'id') USING (id)}), 6000, 'a source that the statement reads as well');

# Operators that come before those of PostgreSQL
sql(<<~'SQL');
	CREATE SCHEMA before_all;
	CREATE SEQUENCE before_all.calls;
	CREATE FUNCTION before_all.equal(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('before_all.calls') IS NULL; END $$;
	CREATE OPERATOR before_all.= (LEFTARG = int, RIGHTARG = int, FUNCTION = before_all.equal);
	CREATE FUNCTION before_all.equal(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('before_all.calls') IS NULL; END $$;
	CREATE OPERATOR before_all.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = before_all.equal);
	SQL
like(sql(q{SET search_path = before_all, pg_catalog, public; SELECT sum(size) FROM gkmeans_fit('public.local', '{x}', 3, id_column => 'id', labels_table => 'public.labels', if_exists => 'replace')}), qr/6000/, 'operators of others');
is(sql('SELECT is_called FROM before_all.calls'), 'f', 'are not called');
sql(q{CREATE FUNCTION before_all.call(bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$; CREATE AGGREGATE before_all.count(*) (SFUNC = before_all.call, STYPE = bigint, INITCOND = '0')});
is( sql(q{SET search_path = before_all, pg_catalog, public; SELECT rows FROM gkmeans_compare('public.segments', 'public.segments', 'public.distributed')}),
	sql(q{SELECT rows FROM gkmeans_compare('segments', 'segments', 'distributed')}), 'an aggregate of others');
# what Citus writes anew: types, and functions of its own
sql(<<~'SQL');
	CREATE FUNCTION before_all.note() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
	CREATE DOMAIN before_all.uuid AS pg_catalog.uuid CHECK (before_all.note());
	CREATE DOMAIN before_all.text AS pg_catalog.text CHECK (before_all.note());
	CREATE FUNCTION before_all.read_intermediate_result(pg_catalog.text, pg_catalog.citus_copy_format) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
	SQL
my $evil = 'SET search_path = before_all, pg_catalog, public';
is(sql("$evil; SELECT sum(size) FROM gkmeans_fit('public.$_', '{id}', 3)"), 6000, "domains of others beside $_") for qw(distributed here everywhere only_here);
for my $labels (qw(everywhere only_here also_here))
{
	sql("DELETE FROM $labels WHERE id % 3 = 0; UPDATE $labels SET cluster_id = 9 WHERE id % 3 = 1; INSERT INTO $labels (id, cluster_id) VALUES (-7, 1)");
	is(sql("$evil; SELECT sum(size) FROM gkmeans_fit('public.local', '{x}', 3, id_column => 'id', labels_table => 'public.$labels', if_exists => 'merge')"), 6000, "functions of others beside labels in $labels");
	is(sql("SELECT count(*), min(id), max(cluster_id) FROM $labels"), '6000|1|2', 'which are merged');
}
# a function of others that would label the rows, made while they are read
sql(q{CREATE FUNCTION make_better(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	CREATE OR REPLACE FUNCTION public.gkmeans_predict_with(jsonb, record) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END';
	RETURN id; END $$});
is(sql(q{SET citus.enable_ddl_propagation = off; SELECT rows FROM gkmeans_compare('segments', 'segments', 'SELECT d.id, d.x, d.y FROM distributed d JOIN (SELECT make_better(i) AS id FROM generate_series(1, 2) i OFFSET 0) m ON m.id = d.id')}), 2, 'a function that fits better meanwhile');
sql(q{DROP FUNCTION public.gkmeans_predict_with(jsonb, record); DROP FUNCTION make_better(int)});
sql(q{CREATE FUNCTION public.cbrt(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 9.9 - $1'});
my $shadowed = q{SET search_path = public, pg_catalog; SELECT from_cluster_id, sum(rows) FROM gkmeans_transitions('segments', 'segments', 'SELECT id, cbrt(x) AS x, y FROM %s', 1, 2) GROUP BY 1 ORDER BY 1};
is(sql(sprintf $shadowed, 'distributed'), sql(sprintf $shadowed, 'local'), "the source's own names");

# Local tables of labels and changes, whose rules and policies lead to tables of Citus
sql(<<~'SQL');
	CREATE TABLE beside (id int, cluster_id int, distance float8);
	SELECT create_distributed_table('beside', 'id');
	CREATE TABLE ruled_here (id int PRIMARY KEY, cluster_id int, distance float8);
	CREATE RULE beside AS ON INSERT TO ruled_here DO ALSO INSERT INTO beside VALUES (NEW.id, NEW.cluster_id, NEW.distance);
	CREATE TABLE policed (LIKE ruled_here INCLUDING ALL);
	ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
	ALTER TABLE policed FORCE ROW LEVEL SECURITY;
	CREATE POLICY known ON policed USING (id IN (SELECT id FROM beside)) WITH CHECK (true);
	CREATE ROLE policed LOGIN; GRANT ALL ON policed, beside TO policed;
	SQL
for my $mode (qw(append replace delete))
{
	sql('DELETE FROM ruled_here; DELETE FROM beside');
	is(sql("SELECT sum(size) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'ruled_here', if_exists => '$mode')"), 6000, "labels with a rule, $mode");
	is(sql('SELECT (SELECT count(*) FROM ruled_here), (SELECT count(*) FROM beside)'), '6000|6000', 'they are in both tables');
}
like(failure("SELECT gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'ruled_here', if_exists => 'merge')"), qr/INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules/, 'but are not merged');
my $thirds = 'SELECT id, id % 3 * 10 AS x FROM generate_series(1, 6000) id';
is(sql("SET ROLE policed; SELECT sum(size) FROM gkmeans_fit('$thirds', '{x}', 3, id_column => 'id', labels_table => 'policed', if_exists => 'append')"), 6000, 'labels with a policy');
is(sql('SELECT count(*) FROM policed'), 6000, 'they are there');
like(failure("\\set VERBOSITY verbose\nSET ROLE policed; SELECT gkmeans_fit('$thirds', '{x}', 2, id_column => 'id', labels_table => 'policed', if_exists => 'merge')"), qr/0A000: complex joins/, 'but are not merged, as Citus updates no such table');

# Tables that become those of Citus while a fit waits for them
for my $table (qw(late_labels late_changes))
{
	sql(q{DROP TABLE IF EXISTS late_labels, late_changes; CREATE TABLE late_labels (id int PRIMARY KEY, cluster_id int, distance float8);
		CREATE TABLE late_changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz)});
	$locker = $node->background_psql('postgres', on_error_stop => 1);
	$fitting = $node->background_psql('postgres', on_error_stop => 0);
	$locker->query_safe("BEGIN; SELECT create_distributed_table('$table', 'id')");
	start_query($fitting, $table eq 'late_labels'
		? "SELECT count(*) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'late_labels', if_exists => 'append')"
		: "SELECT rows / rows FROM gkmeans_assign('segments', 'local', labels_table => 'late_labels', labels_mode => 'merge', changes_table => 'late_changes')");
	ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%late_labels%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())}), "a fit waits for $table");
	$locker->query_safe('COMMIT');
	$locker->quit;
	is($fitting->query('SELECT count(*) FROM late_labels') =~ s/.*\n//sr, 6000, 'it goes on when Citus keeps them');
	unlike($fitting->{stderr}, qr/ERROR/, 'without an error');
	$fitting->quit;
}

# Changes whose shards are split just then, beside which an INSERT … SELECT of Citus is an internal error
sql('TRUNCATE late_labels, late_changes');
$locker = $node->background_psql('postgres', on_error_stop => 1);
$fitting = $node->background_psql('postgres', on_error_stop => 0);
$locker->query_safe(q{BEGIN; SELECT citus_split_shard_by_split_points(shardid, ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text], ARRAY(SELECT nodeid FROM pg_dist_node WHERE groupid > 0), 'block_writes')
	FROM pg_dist_shard WHERE logicalrelid = 'late_changes'::regclass ORDER BY shardid LIMIT 1});
start_query($fitting, q{SELECT rows / rows FROM gkmeans_assign('segments', 'local', 'id', 'late_labels', 'merge', 'late_changes')});
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM gkmeans.progress WHERE phase = 'writing')}), 'labels are being written');
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%late_changes%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())}), 'and wait for the split');
$locker->query_safe('COMMIT');
is($fitting->query('SELECT count(*) FROM late_labels') =~ s/.*\n//sr, 0, 'which undoes the labels');
like($fitting->{stderr}, qr/could not serialize access due to concurrent update.*Shards of a table that is written were split/s, 'with an error');
is(sql(q{SELECT inserted FROM gkmeans_assign('segments', 'local', 'id', 'late_labels', 'merge', 'late_changes'); SELECT count(*) FROM late_changes}), "6000\n5940", 'and then they are written');
$_->quit for $locker, $fitting;

# A source that must be read twice, and whose rows move in between
sql(q{CREATE TABLE far_off (id int PRIMARY KEY, x float8, y float8); SELECT create_distributed_table('far_off', 'id', colocate_with => 'none');
	INSERT INTO far_off SELECT i, 1000000 + i % 3 * 10 + i * 0.00001 + CASE WHEN i > 158000 THEN 5000 ELSE 0 END, 0 FROM generate_series(1, 160000) i});
is(sql("SELECT round(sum(size * centroid[1])) FROM gkmeans_fit('far_off', '{x,y}', 3)"), sql('SELECT round(sum(x)) FROM far_off'), 'rows that are read twice');
my $here = "dbname=postgres host=@{[ $node->host ]} port=@{[ $node->port ]}";
my $split = q{SELECT citus_split_shard_by_split_points(shardid, ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text], ARRAY(SELECT nodeid FROM pg_dist_node WHERE groupid > 0), 'block_writes')::text
	FROM pg_dist_shard WHERE logicalrelid = 'far_off'::regclass ORDER BY shardid LIMIT 1};
my $move = "SELECT citus_move_shard_placement(shardid, nodename, nodeport, '@{[ $nodes[2]->host ]}', @{[ $nodes[2]->port ]}, 'block_writes')::text FROM citus_shards WHERE table_name = '%s'::regclass AND nodeport = @{[ $nodes[1]->port ]} LIMIT 1";
sql(qq{CREATE EXTENSION dblink; CREATE SEQUENCE ends; CREATE FUNCTION at_end(id int, command text) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN
	IF id = 160000 AND nextval('ends') = 1 THEN PERFORM FROM dblink('$here', command) AS d(done text); END IF; RETURN true; END \$\$;
	CREATE TABLE far_labels (id int PRIMARY KEY, cluster_id int); SELECT create_distributed_table('far_labels', 'id', colocate_with => 'none'); INSERT INTO far_labels SELECT id, 0 FROM far_off});

# A fit of these rows, at the end of whose first reading another session runs a command
sub fit_beside
{
	my ($command, $labels) = @_;
	$labels //= '';
	return "ALTER SEQUENCE ends RESTART; SELECT round(sum(size * centroid[1])) FROM gkmeans_fit(\$s\$SELECT * FROM (SELECT * FROM far_off ORDER BY id OFFSET 0) s WHERE at_end(id, \$c\$$command\$c\$)\$s\$, '{x,y}', 3$labels)";
}
my $far_labels = q{, id_column => 'id', labels_table => 'far_labels', if_exists => 'delete'};
my $are_moved = qr/could not serialize access due to concurrent update.*Shards of the source were moved or split/s;
is(sql(fit_beside($split) . '; SELECT read_twice FROM gkmeans_last_fit()'), sql('SELECT round(sum(x)) FROM far_off') . "\nt", 'while a shard is split in between');
# … in REPEATABLE READ, where the sessions of before see no rows in new shards
like(failure('BEGIN ISOLATION LEVEL REPEATABLE READ; ' . fit_beside($split, $far_labels)), $are_moved, 'an error in REPEATABLE READ');
like(failure(q{SET default_transaction_isolation = 'repeatable read'; } . fit_beside(sprintf($move, 'far_off'), $far_labels)), $are_moved, 'and outside a transaction, where a shard that was moved is left over');
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM far_off; SELECT FROM dblink('$here', \$c\$$split\$c\$) AS d(done text); SELECT gkmeans_fit('far_off', '{x,y}', 3$far_labels)"), $are_moved, 'and before the source is planned');
like(failure("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM far_labels; SELECT FROM dblink('$here', \$c\$@{[ sprintf $move, 'far_labels' ]}\$c\$) AS d(done text); SELECT gkmeans_fit('far_off', '{x,y}', 3$far_labels)"),
	qr/could not serialize access due to concurrent update.*Table \S*far_labels was labelled, written, altered or moved/s, 'and where those of the labels were');
is(sql('SELECT count(*) FROM far_labels WHERE cluster_id = 0'), 160000, 'which loses no labels');
# … and that the transaction moved itself: Citus' sessions copy the rows
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; @{[ sprintf $move, 'far_labels' ]}; SELECT gkmeans_fit('far_off', '{x,y}', 3$far_labels)"),
	qr/could not serialize access due to concurrent update.*Table \S*far_labels was labelled, written, altered or moved/s, 'or of labels that it moved itself');
like(failure("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; @{[ sprintf $move, 'far_off' ]}; SELECT gkmeans_fit('far_off', '{x,y}', 3$far_labels)"), $are_moved, 'or of the source');
is(sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM local; CREATE TABLE own AS SELECT * FROM local; SELECT create_distributed_table('own', 'id'); CREATE TABLE own_labels (id int, cluster_id int); SELECT create_distributed_table('own_labels', 'id');
	SELECT sum(size) FROM gkmeans_fit('own', '{x}', 3, id_column => 'id', labels_table => 'own_labels', if_exists => 'delete'); SELECT count(*) FROM own_labels; COMMIT; DROP TABLE own, own_labels") =~ s/\n+/\n/gr, "6000\n6000\n6000", 'but not of tables that it made and distributed');
# … between the plan and the first reading, with another snapshot than that of the statement
$mover = $node->background_psql('postgres', on_error_stop => 1);
$waiting = $node->background_psql('postgres', on_error_stop => 0);
$mover->query_safe('BEGIN; LOCK TABLE pg_inherits');
start_query($waiting, "SELECT round(sum(size * centroid[1])) FROM dblink('$here', 'SELECT txid_current()') AS d(id text), gkmeans_fit('far_off' || left(d.id, 0), '{x,y}', 3)");
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'pg_inherits'::regclass AND NOT granted)}), 'a fit waits that is planned');
$mover->query_safe("$split; COMMIT");
is($waiting->query('SELECT 1'), sql('SELECT round(sum(x)) FROM far_off') . "\n1", 'and reads a shard that was split where it is then');
$_->quit for $mover, $waiting;
is(sql(fit_beside('UPDATE far_off SET x = x + 1e9 WHERE x < 1e9')), sql('SELECT round(sum(x)) FROM far_off'), 'and move away in between');
# … and a refit in a new scale, which reads twice, while rows go
sql(q{CREATE TABLE rescaled AS SELECT id, x, coalesce(y, 0) AS y FROM local WHERE id <= 600; SELECT create_distributed_table('rescaled', 'id');
	CREATE FUNCTION thin_out(id int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END'});
sql(q{SELECT gkmeans_create_model('of_rescaled', 'SELECT * FROM (SELECT * FROM rescaled OFFSET 0) s WHERE thin_out(id)', '{x,y}', 3, scale => 'standard'); UPDATE rescaled SET x = x * 3});
sql(sprintf q{CREATE OR REPLACE FUNCTION thin_out(id int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
	IF id = 1 THEN PERFORM dblink_exec('dbname=postgres host=%s port=%s', 'DELETE FROM rescaled WHERE id %% 2 = 0'); END IF; RETURN true; END $$}, $node->host, $node->port);
like(failure(q{SELECT gkmeans_refit('of_rescaled', rescale => true)}), qr/source changed between two readings/, 'rows that go between two readings of a refit');

sql(q{CREATE TABLE triggered (id int PRIMARY KEY, cluster_id int, distance float8); SELECT citus_add_local_table_to_metadata('triggered'); INSERT INTO triggered SELECT id FROM local WHERE id <= 100;
	CREATE FUNCTION alter_label() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.cluster_id := -1; RETURN NEW; END';
	CREATE TRIGGER alter_label BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION alter_label()});
sql("SELECT gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'triggered', if_exists => 'merge')");
is(sql('SELECT count(*) FROM triggered WHERE (cluster_id = -1) = (id > 100)'), 6000, 'a trigger alters only what is inserted');

# Labels that are merged beside an id that another session has inserted, or a policy hides
sql(q{CREATE TABLE beside_others (id int PRIMARY KEY, cluster_id int, distance float8, writer name DEFAULT current_user); SELECT create_distributed_table('beside_others', 'id')});
$locker = $node->background_psql('postgres', on_error_stop => 1);
$fitting = $node->background_psql('postgres', on_error_stop => 0);
$locker->query_safe('BEGIN; INSERT INTO beside_others VALUES (5, 99, 0)');
start_query($fitting, "SELECT sum(size) FROM gkmeans_fit('local', '{x}', 3, id_column => 'id', labels_table => 'beside_others', if_exists => 'merge')");
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM gkmeans.progress WHERE phase = 'writing')}), 'labels are being merged');
ok(wait_on_workers(), 'and wait for an INSERT');
$locker->query_safe('COMMIT');
is($fitting->query('SELECT count(*), max(cluster_id) FROM beside_others'), "6000\n6000|2", 'and end as those of the fit');
$_->quit for $locker, $fitting;
sql(q{ALTER TABLE beside_others ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON beside_others USING (writer = current_user); GRANT ALL ON beside_others TO policed});
like(failure("SET ROLE policed; SELECT gkmeans_fit('$thirds', '{x}', 3, id_column => 'id', labels_table => 'beside_others', if_exists => 'merge')"), qr/violates row-level security policy/, 'ids that a policy hides');

# Sources that are loaded again while a fit waits for them
sql('CREATE TABLE loaded AS TABLE local; CREATE TABLE loaded_everywhere AS TABLE local');
sql("SELECT create_distributed_table('loaded', 'id', colocate_with => 'here'); SELECT create_reference_table('loaded_everywhere')");
for my $table (qw(loaded loaded_everywhere))
{
	for my $call ("gkmeans_fit('$table', '{x}', 3)", "gkmeans_compare('segments', 'segments', '$table')")
	{
		my $count = $call =~ /fit/ ? 'sum(size)' : 'rows';
		$locker = $node->background_psql('postgres', on_error_stop => 1);
		$fitting = $node->background_psql('postgres', on_error_stop => 0);
		$locker->query_safe("BEGIN; TRUNCATE $table; INSERT INTO $table TABLE local");
		start_query($fitting, "SELECT $count FROM $call");
		ok($node->poll_query_until('postgres', qq{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%$table%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())}), "$call waits");
		$locker->query_safe('COMMIT');
		is($fitting->query('SELECT 1'), sql("SELECT $count FROM " . $call =~ s/loaded\w*/local/r) . "\n1", 'and has all rows');
		$_->quit for $locker, $fitting;
	}
}

# … and whose model gets another version with that
sql("SELECT gkmeans_create_model('of_loaded', 'loaded', '{x,y}', 3)");
for my $call ("gkmeans_evaluate('of_loaded')", "gkmeans_compare('of_loaded', 'of_loaded')")
{
	$locker = $node->background_psql('postgres', on_error_stop => 1);
	$fitting = $node->background_psql('postgres', on_error_stop => 0);
	$locker->query_safe(q{BEGIN; TRUNCATE loaded; INSERT INTO loaded TABLE local; SELECT gkmeans_refit('of_loaded', deploy => 'always')});
	start_query($fitting, "SELECT rows FROM $call");
	ok(wait_on_workers(), "$call waits");
	$locker->query_safe('COMMIT');
	$fitting->query('SELECT 1');
	like($fitting->{stderr}, qr/version \d is no longer deployed/, 'and takes no older version');
	$_->quit for $locker, $fitting;
}

# A source that is loaded again after a transaction with one snapshot has begun
$fitting = $node->background_psql('postgres', on_error_stop => 1);
$fitting->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM local});
sql("BEGIN; TRUNCATE $_; INSERT INTO $_ TABLE local; COMMIT") for qw(loaded loaded_everywhere);
is($fitting->query_safe("SELECT sum(size) FROM gkmeans_fit('$_', '{x}', 3, id_column => 'id', labels_table => 'labels_of_$_')"), 6000, "all rows of $_") for qw(loaded loaded_everywhere);
$fitting->query_safe('ROLLBACK');
$fitting->quit;

# Rows on this server beside what only this session sees, and after what was undone
sql(q{CREATE TABLE names AS SELECT 1 AS id; SELECT citus_add_local_table_to_metadata('names'); INSERT INTO names SELECT id FROM local WHERE id > 1; CREATE TABLE plain AS SELECT id FROM local});
for my $nodes ('', 'auto')
{
	my $fit_names = "SELECT sum(size) FROM gkmeans_fit('SELECT n.id FROM names n JOIN %s USING (id)', '{id}', 3)";
	my $begin = "SET gkmeans.nodes = '$nodes'; SET statement_timeout = '30s'; BEGIN";
	is(sql("SET gkmeans.nodes = '$nodes'; CREATE TEMP TABLE mine AS SELECT id FROM local; " . sprintf($fit_names, 'mine')), 6000, "a temporary table, nodes '$nodes'");
	is(sql("$begin; TRUNCATE plain; INSERT INTO plain SELECT id FROM local; " . sprintf($fit_names, 'plain') . '; COMMIT'), 6000, 'a table that the transaction has locked');
	like(sql("$begin; SAVEPOINT s; SELECT count(*) FROM names; ROLLBACK TO s; $fit_here; COMMIT"), qr/\n6000$/, 'rows that were read before a savepoint was undone');
	is(sql("$begin; SAVEPOINT s; DELETE FROM here WHERE id = 7; ROLLBACK TO s; SELECT sum(size) FROM gkmeans_fit('here', '{x}', 3, id_column => 'id', labels_table => 'also_here', if_exists => 'merge'); COMMIT"), 6000, 'labels after that');
}

# Comparisons, of models that the workers do not have, or have as others of the same name
same("SELECT * FROM gkmeans_compare('segments', 'node_segments', '%table%')", 'a comparison of two models');
same("SELECT * FROM gkmeans_transitions('segments', 'segments', '%table%', 1, 2)", 'transitions between two versions');
same("SELECT * FROM gkmeans_compare('segments', 'node_segments', 'SELECT x, y FROM %table% WHERE id = 17')", 'a comparison of one row');
same("SELECT * FROM gkmeans_compare('segments', 'node_segments', '$_')", "a comparison over $_")
	for 'SELECT * FROM %table% WHERE id % 7 = 3', 'SELECT d.id, d.x, d.y FROM %table% d JOIN heights h ON h.region = d.region', 'SELECT x, avg(y) AS y FROM %table% GROUP BY x', 'SELECT * FROM %table% ORDER BY id LIMIT 100';
sql(q{SELECT run_command_on_workers('SELECT gkmeans_import_model(''public.segments'', ''{{0,0},{1,1}}'', ''{x,y}'')')});
same("SELECT * FROM gkmeans_compare('segments', 'node_segments', '%table%')", 'beside other models on the workers');
sql(q{SELECT run_command_on_workers('DROP TABLE public.segments')});

# Predictions in queries over distributed tables
my $exported = sql(q{SELECT gkmeans_export('segments')});
my $with = qq{gkmeans_predict_with('$exported', x, y)};
same("SELECT count(*), sum(id * $with) FROM %table%", 'gkmeans_predict_with in a query that Citus sends to the workers');
sql(qq{SELECT run_command_on_workers(format('SELECT %s.gkmeans_import_model(%L, exported => %L)', 'public', 'public.segments', gkmeans_export('segments')))});
sql(q{SELECT gkmeans_import_model('local_copy', exported => gkmeans_export('segments')::jsonb)});
is(sql(q{SELECT sum(id * gkmeans_predict('segments', x, y)) FROM distributed}), sql(q{SELECT sum(id * gkmeans_predict('local_copy', x, y)) FROM local}), 'gkmeans_predict with a copy of the model on each worker');
sql(q{SELECT gkmeans_create_model('of_citus', 'local', '{x,y}', 3); SELECT create_reference_table('of_citus')});
like(failure(q{SELECT gkmeans_predict('of_citus', 1, 2)}), qr/model "of_citus" is kept by Citus.*Leave a model a local table/s, 'a model that Citus keeps is refused');
like(sql("EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM distributed WHERE $with = 1"), qr/Custom Scan.*Filter: \(gkmeans_predict_with/s, 'it runs on the workers');

done_testing();
