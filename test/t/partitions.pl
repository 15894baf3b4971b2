# gkmeans.nodes = auto over foreign tables: which sources are divided, and the bits of a local table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node, $remote) = map { PostgreSQL::Test::Cluster->new($_) } qw(coordinator remote);
for ($node, $remote)
{
	$_->init;
	$_->append_conf('postgresql.conf', "max_connections = 40\ngkmeans.cpu_threads = 1");
	$_->start;
}

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# The rows of each server, and a table of this server with all of them.
my $rows = q{SELECT i AS id, i % 5 AS region, (i % 3) * 10 + i * 7919 % 1000 / 1000.0::float8 AS x,
	CASE WHEN i % 100 > 0 THEN (i % 3) * 5 + i * 104729 % 1000 / 1000.0::float8 END AS "y or none", 'r' || i AS name
	FROM generate_series(1, 6000) i};
for my $server (qw(east west))
{
	my $low = $server eq 'east' ? 0 : 2;
	$remote->safe_psql('postgres', "CREATE DATABASE $server");
	$remote->safe_psql($server, <<~SQL);
		CREATE EXTENSION gkmeans;
		CREATE SCHEMA data;
		CREATE TABLE data.first (name text, "y or none" float8, "the id" int, region int, x float8);
		CREATE TABLE data.second (LIKE data.first);
		INSERT INTO data.first SELECT name, "y or none", id, region, x FROM ($rows) r WHERE region = $low;
		INSERT INTO data.second SELECT name, "y or none", id, region, x FROM ($rows) r WHERE region = $low + 1 OR (region = 4 AND $low = 2);
		SQL
}
sql(<<~SQL);
	CREATE EXTENSION gkmeans;
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE local AS $rows;
	CREATE TABLE parted (LIKE local) PARTITION BY LIST (region);
	SQL
for my $server (qw(east west))
{
	my $low = $server eq 'east' ? 0 : 2;
	my $more = $server eq 'west' ? ', 4' : '';
	sql(<<~SQL);
		CREATE SERVER $server FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '@{[ $remote->host ]}', port '@{[ $remote->port ]}', dbname '$server');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $server;
		CREATE FOREIGN TABLE ${server}_first PARTITION OF parted
			FOR VALUES IN ($low) SERVER $server OPTIONS (schema_name 'data', table_name 'first');
		ALTER FOREIGN TABLE ${server}_first ALTER id OPTIONS (column_name 'the id');
		CREATE FOREIGN TABLE ${server}_second PARTITION OF parted
			FOR VALUES IN ($low + 1$more) SERVER $server OPTIONS (schema_name 'data', table_name 'second');
		ALTER FOREIGN TABLE ${server}_second ALTER id OPTIONS (column_name 'the id');
		SQL
}

# A digest of a fit, how many nodes it had, and why.
sub fit
{
	my ($source, $nodes, $before) = @_;
	my @said = split /\n/, sql(<<~SQL);
		@{[ $before // '' ]}
		SET gkmeans.nodes = '$nodes';
		SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit(\$s\$$source\$s\$, '{x,"y or none"}', 3, id_column => 'id') f;
		SELECT nodes, engine_reason FROM gkmeans_last_fit();
		SQL
	return ($said[0], split(/\|/, $said[1], 2));
}

# Sources that are divided, with the number of their servers
for my $case (
	[ 'parted', 2 ], [ 'east_first', 1 ],
	[ 'SELECT * FROM parted WHERE x > 5 AND id % 3 < 2', 2 ],
	[ 'SELECT region, "y or none", id, x FROM parted', 2 ],
	[ 'SELECT * FROM parted WHERE region < 2', 1 ],
	[ q{SELECT * FROM parted WHERE name <> 'r1''0"'}, 2 ],
	[ 'SELECT x, "y or none", id FROM east_first UNION ALL SELECT x, "y or none", id FROM west_second', 2 ])
{
	my ($source, $count) = @$case;
	my ($digest, $nodes, $reason) = fit($source, 'auto');
	is($nodes, $count, "$source: $count of the servers are nodes");
	my ($same) = fit($source, '');
	is($digest, $same, "$source: the same bits as without nodes");
}
is((fit('parted', 'auto'))[0], (fit('local', ''))[0], 'those of a local table');
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM gkmeans_fit_predict(NULL::int, 'parted', '{x}', 3, id_column => 'id') p}),
	sql(q{SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM gkmeans_fit_predict(NULL::int, 'local', '{x}', 3, id_column => 'id') p}), 'the labels of the rows');

# A labels table whose partitions are on other servers
sql('CREATE TABLE labels_local (id int, cluster_id int, distance float8); CREATE TABLE labels (LIKE labels_local) PARTITION BY HASH (id)');
for my $server (qw(east west))
{
	my $remainder = $server eq 'east' ? 0 : 1;
	$remote->safe_psql($server, 'CREATE TABLE data.labels (id int, cluster_id int, distance float8)');
	sql("CREATE FOREIGN TABLE labels_$server PARTITION OF labels FOR VALUES WITH (MODULUS 2, REMAINDER $remainder)
		SERVER $server OPTIONS (schema_name 'data', table_name 'labels', batch_size '100')");
}
my $labelled = "SELECT FROM gkmeans_fit('%s', '{x}', %d, id_column => 'id', labels_table => '%s', if_exists => '%s')";
for my $mode (qw(append delete replace))
{
	my $k = $mode eq 'append' ? 2 : $mode eq 'delete' ? 3 : 4;
	sql("SET gkmeans.nodes = 'auto'; " . sprintf($labelled, 'parted', $k, 'labels', $mode));
	sql(sprintf($labelled, 'local', $k, 'labels_local', $mode));
	is(sql("SELECT md5(string_agg(l::text, '|' ORDER BY id)), count(*) FROM labels l"),
		sql("SELECT md5(string_agg(l::text, '|' ORDER BY id)), count(*) FROM labels_local l"), "labels in partitions on other servers, $mode");
}
my ($failed, $shown, $refused) = $node->psql('postgres', "SET gkmeans.nodes = 'auto'; " . sprintf($labelled, 'parted', 2, 'labels', 'merge'));
like($refused, qr/table "labels" has no unique index on "id" alone/, 'they cannot be merged');

# A labels table on another server
$remote->safe_psql('east', 'CREATE TABLE data.far_labels (id int, cluster_id int, distance float8)');
sql("CREATE FOREIGN TABLE far_labels (id int, cluster_id int, distance float8) SERVER east OPTIONS (schema_name 'data', table_name 'far_labels')");
for my $mode (qw(append delete replace))
{
	sql(sprintf($labelled, 'local', 3, 'far_labels', $mode));
	is(sql("SELECT md5(string_agg(l::text, '|' ORDER BY id)) FROM far_labels l"),
		sql(q{SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM gkmeans_fit_predict(NULL::int, 'local', '{x}', 3, id_column => 'id') p}),
		"labels in a foreign table, $mode");
}

# Sources that this server reads, and why
sql(<<~'SQL');
	CREATE TABLE here PARTITION OF parted FOR VALUES IN (9);
	CREATE FUNCTION doubled(float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 * 2; END';
	CREATE SCHEMA first_of_all;
	SQL
for my $case (
	[ 'local', 'the rows of the source are on this server' ],
	[ 'parted', 'part of the source is on this server' ],
	[ 'SELECT id, doubled(x) AS x, "y or none" FROM east_first', 'this server computes columns of the source' ],
	[ 'SELECT * FROM east_first WHERE doubled(x) > 1', 'server "east" cannot check all conditions' ],
	[ 'SELECT * FROM east_first ORDER BY doubled(x) LIMIT 100', 'the source is more than scans of foreign tables' ],
	[ 'SELECT e.id, e.x, l."y or none" FROM east_first e JOIN local l USING (id)', 'the source is more than scans of foreign tables' ],
	[ 'SELECT * FROM east_first WHERE x < (SELECT max(x) FROM local)', 'the source is more than scans of foreign tables' ])
{
	my ($source, $expected) = @$case;
	my ($digest, $nodes, $reason) = fit($source, 'auto');
	is($nodes, 0, "$source is read by this server");
	like($reason, qr/not over nodes: \Q$expected\E/, "$source: says why");
	is($digest, (fit($source, ''))[0], "$source: the bits");
}

# A view of the remote server that depends on settings gives the rows that postgres_fdw reads
$remote->safe_psql('east', q{CREATE VIEW data.hours AS SELECT "the id" AS id, extract(hour FROM '2026-01-01 00:00+00'::timestamptz + "the id" * interval '37 minutes')::float8 AS hour,
	length((interval '-1 day -2 hours' * "the id")::text || (TIMESTAMP '2026-01-01' + "the id" * interval '1 day')::text)::float8 AS letters FROM data.first});
sql(q{CREATE FOREIGN TABLE hours (id int, hour float8, letters float8) SERVER east OPTIONS (schema_name 'data')});
for my $setting (q{TimeZone = 'Asia/Kolkata'}, q{DateStyle = 'postgres'}, q{IntervalStyle = 'sql_standard'}, 'row_security = off')
{
	my @said = map { sql("SET $setting; SET gkmeans.nodes = '$_'; SELECT sum(size), sum(inertia + centroid[2]) FROM gkmeans_fit('hours', '{hour,letters}', 2); SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto');
	is($said[1] =~ s/\n1$/\n0/r, $said[0], "with $setting, a view of the node has the same rows");
}

# The names in the queries of postgres_fdw are those of pg_catalog, whatever else the search_path has on the node
$remote->safe_psql('east', <<~'SQL');
	CREATE TABLE data.coded AS SELECT name::varchar AS name, "the id" AS id, (x / 7)::numeric(12, 6) AS x, ARRAY[x / 7, region]::numeric(12, 6)[] AS v FROM data.first;
	CREATE FUNCTION public.other(varchar, varchar) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN false; END';
	CREATE OPERATOR public.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.other);
	SQL
sql(q{CREATE FOREIGN TABLE coded (name varchar, id int, x numeric(12, 1), v numeric(12, 1)[]) SERVER east OPTIONS (schema_name 'data')});
for my $path ('"$user", public', 'public, pg_catalog')
{
	my @sizes = map { sql("SET search_path = $path; SET gkmeans.nodes = '$_'; SELECT sum(size) FROM gkmeans_fit(\$s\$SELECT * FROM coded WHERE name <> 'r5'\$s\$, '{id}', 2); SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto');
	is_deeply(\@sizes, [ "1199\n0", "1199\n1" ], "an operator of the node in the search_path $path: not called");
}

# A foreign table with fewer decimals than the table of the node
for my $feature (qw(x v))
{
	my @digests = map { sql("SET gkmeans.nodes = '$_'; SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit('coded', '{$feature}', 3) f; SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto');
	is($digests[1], $digests[0] =~ s/0$/1/r, "$feature with one decimal here: the same bits");
}

# Columns of the node that have other types than the foreign table, and its precision: this server would convert them otherwise
$remote->safe_psql('east', <<~'SQL');
	CREATE DOMAIN named AS real;
	CREATE TABLE data.typed AS SELECT i AS id, i::smallint AS whole, (i / 3.0)::real AS single, ARRAY[0.125 - 1e-17, i % 3]::float8[] AS v, '02/03/2024 0:0:0.12345'::text AS written, (100000.1 + i * 0.3)::named AS named,
		timestamp '2024-02-03 00:00:00.12345' + i * interval '1 s' AS at, ARRAY[timestamp '2024-02-03 00:00:00.12345' + i * interval '1 s'] AS ats, interval '1.2345 s' * i AS lasts, (i || 'x')::char(4) AS padded, timestamptz '2024-02-03 00:00:00.12345' AS zoned
		FROM generate_series(1, 9) i;
	UPDATE data.typed SET at = NULL, ats = NULL WHERE id = 9;
	SQL
sql('CREATE DOMAIN named AS float8');
sql(q{CREATE FOREIGN TABLE typed (id int, whole bigint, single float8, v numeric(5, 2)[], written timestamp(3), named named, at timestamp(3), ats timestamp(1)[], lasts interval second(2), padded text, zoned timestamptz(2)) SERVER east OPTIONS (schema_name 'data')});
for my $case ([ "'{v}', 1", 'typed', 'v' ], [ "'{named}', 2", 'typed', 'named' ], [ "'{id}', 1, id_column => 'written'", 'timestamp', 'written' ],
	[ "'{id}', 1, id_column => 'single'", 'float8', 'single' ], [ "'{id}', 1, id_column => 'padded'", 'text', 'padded' ])
{
	my ($arguments, $type, $column) = @$case;
	my $call = $arguments =~ /id_column/ ? "gkmeans_fit_predict(NULL::$type, 'typed', $arguments)" : "gkmeans_fit('typed', $arguments)";
	like(($node->psql('postgres', "SET gkmeans.nodes = 'auto'; SELECT * FROM $call"))[2], qr/the columns of the source on node "east" differ|node "east": CASE types .* cannot be matched/, "$column of another type on the node");
}
for my $case ([ 'timestamp', 'at' ], [ 'timestamp[]', 'ats' ], [ 'interval', 'lasts' ], [ 'bigint', 'whole' ])
{
	my ($type, $column) = @$case;
	my @said = map { sql("SET gkmeans.nodes = '$_'; SELECT string_agg(p.id::text, '|' ORDER BY p.id) FROM gkmeans_fit_predict(NULL::$type, 'typed', '{id}', 1, id_column => '$column') p; SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto');
	is($said[1], $said[0] =~ s/0$/1/r, "$column: the ids that this server reads");
}
like(sql(q{SET gkmeans.nodes = 'auto'; SELECT count(*) FROM gkmeans_fit_predict(NULL::timestamptz, 'typed', '{id}', 1, id_column => 'zoned'); SELECT nodes, engine_reason FROM gkmeans_last_fit()}), qr/^9\n0\|.*this server rounds or pads a column/, 'times with time zones');

# Ids that become values of another type, which depends on the settings of who converts them
$remote->safe_psql('east', q{CREATE TABLE data.timed AS SELECT i AS id, timestamp '2020-06-01' + i * interval '1 h' AS at, date '2020-06-01' + i AS day, time '10:00' + i * interval '1 min' AS clock FROM generate_series(1, 5) i});
sql(q{CREATE FOREIGN TABLE timed (id int, at timestamp, day date, clock time) SERVER east OPTIONS (schema_name 'data')});
for my $case ([ 'timestamptz', 'at' ], [ 'timestamptz', 'day' ], [ 'timetz', 'clock' ], [ 'timestamp', 'day' ])
{
	my ($type, $column) = @$case;
	my @said = map { sql("SET TimeZone = 'America/New_York'; SET gkmeans.nodes = '$_'; SELECT string_agg(p.id::text, '|' ORDER BY p.id) FROM gkmeans_fit_predict(NULL::$type, 'timed', '{id}', 1, id_column => '$column') p") } ('', 'auto');
	is($said[1], $said[0], "$column as $type: the ids that this server reads");
}
like(sql(q{SET gkmeans.nodes = 'auto'; SELECT count(*) FROM gkmeans_fit_predict(NULL::timestamptz, 'timed', '{id}', 1, id_column => 'at'); SELECT nodes, engine_reason FROM gkmeans_last_fit()}), qr/^5\n0\|.*this server converts the ids/, 'and why');

# Tables of one server that have a column of different types, which their union would hide
$remote->safe_psql('east', q{CREATE TABLE data.ones (id text, v float8[], x float8, at timestamptz, n int); CREATE TABLE data.others (id char(4), v real[], x real, at timestamp, n bigint);
	INSERT INTO data.ones SELECT 'a' || i, ARRAY[i * 0.1], i * 0.1, timestamptz '2020-01-01 00:00+00' + i * interval '1 h', i FROM generate_series(1, 9) i; INSERT INTO data.others SELECT 'b' || i, ARRAY[i * 0.7], i * 0.7, timestamp '2020-02-01' + i * interval '1 h', i FROM generate_series(1, 9) i});
sql(q{CREATE TABLE united (id text, v float8[], x float8, at timestamptz, n bigint) PARTITION BY HASH (n)});
sql("CREATE FOREIGN TABLE united_$_ PARTITION OF united FOR VALUES WITH (MODULUS 2, REMAINDER " . ($_ eq 'ones' ? 0 : 1) . ") SERVER east OPTIONS (schema_name 'data', table_name '$_')") for qw(ones others);
for my $case ([ q{gkmeans_fit('united', '{x}', 2)}, 'x double precision made of double precision, real' ], [ q{gkmeans_fit('united', '{v}', 2)}, 'v double precision\[\] made of double precision\[\], real\[\]' ],
	[ q{gkmeans_fit('united', '{n}', 2, weight_column => 'x')}, 'n bigint made of integer, bigint; weight x double precision made of double precision, real' ],
	[ q{gkmeans_fit('united', '{x}', 2)} =~ s/united/SELECT * FROM (SELECT x + 0 AS y, * FROM united OFFSET 0) s WHERE x > 0/r, '' ],
	[ q{gkmeans_fit_predict(NULL::text, 'united', '{n}', 2, id_column => 'id')}, 'id id text made of text, character' ],
	[ q{gkmeans_fit_predict(NULL::timestamptz, 'SELECT at, x FROM united_ones UNION ALL SELECT at, x FROM united_others', '{x}', 2, id_column => 'at')}, 'id at timestamp with time zone made of timestamp with time zone, timestamp without time zone' ])
{
	my ($call, $types) = @$case;
	my $said = ($node->psql('postgres', "SET gkmeans.nodes = 'auto'; SELECT FROM $call"))[2];
	$types eq '' ? is($said, '', "$call: read here") : like($said, qr/node "east" differ.*There: .*$types/s, "$call: the types of all tables are compared");
}
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT count(*) FROM gkmeans_fit_predict(NULL::bigint, 'SELECT id, n, n + 0 AS m FROM united', '{m}', 2, id_column => 'n')}), 18, 'not those of texts that are read here');

# Only the columns that a call needs are read
$remote->safe_psql('east', q{CREATE TABLE data.secrets AS SELECT i AS id, i % 4 AS x, 's' AS secret FROM generate_series(1, 20) i; CREATE ROLE some_columns LOGIN; GRANT USAGE ON SCHEMA data TO some_columns;
	GRANT SELECT (id, x) ON data.secrets TO some_columns; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gkmeans TO some_columns});
sql(q{CREATE ROLE local_reader; GRANT USAGE ON FOREIGN SERVER east TO local_reader; CREATE USER MAPPING FOR local_reader SERVER east OPTIONS (user 'some_columns', password_required 'false');
	CREATE FOREIGN TABLE secrets (id int, secret text, x int, later text) SERVER east OPTIONS (schema_name 'data'); CREATE VIEW of_secrets WITH (security_invoker = true) AS SELECT x + 1 AS next, x, id FROM secrets;
	GRANT SELECT (id, x) ON secrets TO local_reader; GRANT SELECT ON of_secrets TO local_reader});
is(sql(qq{SET ROLE local_reader; SET gkmeans.nodes = 'auto'; SELECT sum(size) FROM gkmeans_fit('$_', '{x}', 2, weight_column => 'id'); SELECT nodes FROM gkmeans_last_fit()}), "20\n1", "columns of $_") for qw(secrets of_secrets);

# A source that loses a column that nobody reads while it is planned
sql(q{CREATE VIEW changing AS SELECT id, x, "y or none" FROM east_first;
	CREATE FUNCTION change() RETURNS bool LANGUAGE plpgsql AS 'BEGIN DROP VIEW changing; CREATE VIEW changing AS SELECT id, x FROM east_first; RETURN true; END';
	CREATE FUNCTION called_to_plan() RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN change(); END'});
like(($node->psql('postgres', q{SET gkmeans.nodes = 'auto'; SELECT FROM gkmeans_fit('SELECT * FROM changing WHERE called_to_plan()', '{x}', 2)}))[2], qr/source changed while it was being planned/, 'a source that loses a column');

# Subqueries that the planner keeps
sql(q{CREATE VIEW twice AS SELECT x, id, name, "y or none" FROM east_first UNION ALL SELECT x, id, name, "y or none" FROM west_second; CREATE VIEW barrier WITH (security_barrier) AS SELECT name, x, id, "y or none" FROM twice});
for my $source ('barrier', 'SELECT "y or none", name, x, id FROM twice OFFSET 0', 'SELECT * FROM (SELECT * FROM twice OFFSET 0) s OFFSET 0')
{
	my ($digest, $nodes, $reason) = fit($source, 'auto');
	is($nodes, 2, "$source: over nodes") or diag($reason);
	is($digest, (fit($source, ''))[0], "$source: the same bits");
}
is((fit('SELECT * FROM (SELECT *, x * 2 AS other FROM twice OFFSET 0) s WHERE other > 1', 'auto'))[1], 0, 'a subquery whose rows are chosen here');

sql('CREATE VIEW locking AS SELECT id, x, "y or none" FROM east_first FOR UPDATE');
is_deeply([ (fit('locking', 'auto'))[0, 1] ], [ (fit('locking', ''))[0], 0 ], 'a view that locks rows is read here');

# What is computed here is, also if nobody reads it
sql(q{CREATE TABLE noted (id int); CREATE FUNCTION noted(id int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO noted VALUES (id); RETURN id; END'});
for my $source ('SELECT x, noted(id) AS n FROM east_first', 'SELECT x, noted(id) AS n FROM east_first UNION ALL SELECT x, noted(id) FROM west_second', 'SELECT * FROM (SELECT x, noted(id) AS n FROM east_first OFFSET 0) s')
{
	my @said = map { sql("TRUNCATE noted; SET gkmeans.nodes = '$_'; SELECT sum(size) FROM gkmeans_fit('$source', '{x}', 1); SELECT count(*) FROM noted") } ('', 'auto');
	is($said[1], $said[0], "$source: functions are called");
	unlike($said[0], qr/\n0$/, 'as without nodes');
}

# A domain of another precision
$remote->safe_psql('east', 'CREATE DOMAIN four AS numeric(10, 4); CREATE DOMAIN rounded AS four; CREATE TABLE data.finer AS SELECT i AS id, (i / 77.0)::rounded AS x FROM generate_series(1, 9) i');
sql(q{CREATE DOMAIN one AS numeric(5, 1); CREATE DOMAIN rounded AS one; CREATE FOREIGN TABLE finer (id int, x rounded) SERVER east OPTIONS (schema_name 'data')});
like(($node->psql('postgres', "SET gkmeans.nodes = 'auto'; SELECT * FROM $_"))[2], qr/There: .*numeric\(10,4\).* Here: .*numeric\(5,1\)/, "a domain of another precision: $_")
	for q{gkmeans_fit('finer', '{x}', 2)}, q{gkmeans_fit_predict(NULL::rounded, 'finer', '{id}', 2, id_column => 'x')};

# Ids of a type that the node does not have, or that is another one there: by auto and by a list
$remote->safe_psql('east', q{CREATE DOMAIN amount AS numeric(6, 1); CREATE DOMAIN short AS char(6); CREATE SCHEMA other; CREATE TYPE other.kind AS ENUM ('a', 'b', 'c');
	CREATE TABLE data.bills AS SELECT i AS number, (i * 1.2345)::numeric AS id, 'a' || i AS c, chr(97 + i % 3)::other.kind AS kind, i % 7 AS x FROM generate_series(1, 9) i});
sql(q{CREATE SCHEMA data; CREATE DOMAIN amount AS numeric; CREATE DOMAIN short AS text; CREATE DOMAIN known AS int CHECK (VALUE <> 0); CREATE TYPE kind AS ENUM ('a', 'b', 'c');
	CREATE FOREIGN TABLE data.bills (number known, id amount, c short, kind kind, x int) SERVER east OPTIONS (schema_name 'data')});
for my $case ([ 'amount', 'id' ], [ 'short', 'c' ], [ 'known', 'number' ], [ 'kind', 'kind' ], [ 'int', 'number' ], [ 'numeric', 'id' ])
{
	my ($type, $column) = @$case;
	my @said = map { sql("SET gkmeans.nodes = '$_'; SELECT string_agg(p.id::text, '|' ORDER BY p.id) FROM gkmeans_fit_predict(NULL::$type, 'data.bills', '{x}', 1, id_column => '$column') p; SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto', 'east');
	is($said[$_], $said[0] =~ s/0$/1/r, "$column as $type: the ids that this server reads") for 1, 2;
}
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT FROM gkmeans_fit('data.bills', '{x}', 1, id_column => 'id', labels_table => 'billed'); SELECT count(*) FROM billed JOIN data.bills USING (id)}), 9, 'in a labels table');
sql('ALTER DOMAIN known ADD CHECK (VALUE <> 4) NOT VALID');
like(($node->psql('postgres', "SET gkmeans.nodes = '$_'; SELECT FROM gkmeans_fit_predict(NULL::known, 'data.bills', '{x}', 1, id_column => 'number')"))[2], qr/value for domain known violates check constraint/, "with gkmeans.nodes '$_', ids that their domain refuses") for '', 'auto';

$remote->safe_psql('east', 'CREATE TABLE data.plain AS SELECT i AS id, i % 3 AS x FROM generate_series(1, 9) i');
sql(q{CREATE FOREIGN TABLE data.plain (id int, x int) SERVER east});

# An id_type that cuts values: this server does; and one that is converted, of which nodes of a list may have another one
sql(q{CREATE DOMAIN cut AS varchar(1)});
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT min(id), max(id), count(*) FROM gkmeans_fit_predict(NULL::cut, 'SELECT name, x FROM east_first', '{x}', 1, id_column => 'name'); SELECT nodes FROM gkmeans_last_fit()}), "r|r|1200\n0", 'a domain that cuts texts');
$remote->safe_psql('east', 'CREATE TABLE data.lists AS SELECT ARRAY[i * 1.26] AS id, i AS x FROM generate_series(1, 9) i');
sql(q{CREATE FOREIGN TABLE data.lists (id numeric[], x int) SERVER east OPTIONS (schema_name 'data')});
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT max(id::numeric[]) FROM gkmeans_fit_predict(NULL::amount[], 'data.lists', '{x}', 1, id_column => 'id')}), '{11.34}', 'arrays of a domain');
like(($node->psql('postgres', q{SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_fit_predict(NULL::amount[], 'data.lists', '{x}', 1, id_column => 'id')}))[2], qr/nodes cannot convert ids of type numeric\[\] to type amount\[\]\n.*\nHINT:  Give NULL::numeric\[\] as/, 'by a list');

$remote->safe_psql('east', q{CREATE SCHEMA first; CREATE TYPE first.color AS ENUM ('red', 'green'); CREATE TABLE data.colors AS SELECT (ARRAY['red', 'green'])[1 + i % 2]::first.color AS id, i AS x FROM generate_series(1, 9) i});
sql(q{CREATE SCHEMA first; CREATE SCHEMA second; CREATE TYPE first.color AS ENUM ('red', 'green'); CREATE TYPE second.color AS ENUM ('red', 'green', 'rouge', 'vert');
	CREATE FUNCTION translated(first.color) RETURNS second.color LANGUAGE sql IMMUTABLE AS $$SELECT (CASE $1 WHEN 'red' THEN 'rouge' ELSE 'vert' END)::second.color$$;
	CREATE CAST (first.color AS second.color) WITH FUNCTION translated(first.color) AS IMPLICIT; CREATE FOREIGN TABLE data.colors (id first.color, x int) SERVER east});
is(sql(qq{SET gkmeans.nodes = '$_'; SELECT string_agg(DISTINCT id::text, ' ') FROM gkmeans_fit_predict(NULL::second.color, 'data.colors', '{x}', 1, id_column => 'id')}), 'rouge vert', "nodes '$_': a type of the same name in another schema") for '', 'auto';
sql(q{CREATE FUNCTION shown(first.color) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT upper(enum_out($1)::text)$$; CREATE CAST (first.color AS text) WITH FUNCTION shown(first.color) AS IMPLICIT});
is(sql(qq{SET gkmeans.nodes = '$_'; SELECT string_agg(DISTINCT id, ' ') FROM gkmeans_fit_predict(NULL::text, 'data.colors', '{x}', 1, id_column => 'id')}), 'GREEN RED', "nodes '$_': a cast of one's own") for '', 'auto';
like(($node->psql('postgres', q{SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_fit_predict(NULL::text, 'data.colors', '{x}', 1, id_column => 'id')}))[2], qr/nodes cannot convert ids of type first.color to type text/, 'by a list');

# Names of objects, which each database has its own OIDs for
$remote->safe_psql('east', q{CREATE DOMAIN tables AS regclass[]; CREATE TABLE data.objects AS SELECT i::oid::regclass AS r, ARRAY[i] AS many, ARRAY[i::oid::regclass]::tables AS known, i AS x FROM generate_series(1, 9) i});
sql(q{CREATE DOMAIN tables AS regclass[]; CREATE FOREIGN TABLE data.objects (r regclass, many int[], known tables, x int) SERVER east});
for my $case ([ 'regclass', 'r' ], [ 'regproc', 'x' ], [ 'oid', 'r' ], [ 'regclass[]', 'many' ], [ 'tables', 'known' ])
{
	my ($type, $column) = @$case;
	my $fit = "SELECT count(DISTINCT id) FROM gkmeans_fit_predict(NULL::$type, 'data.objects', '{x}', 1, id_column => '$column')";
	is(sql("SET gkmeans.nodes = '$_'; $fit"), 9, "nodes '$_': $column as $type") for '', 'auto';
	my $names = $column =~ /^(?:r|known)$/ ? qr/column "$column" of type \S+ cannot be sent from a node.*\n.*\nHINT:  Take a column of another type as id_column,/
		: qr/ids of type \Q$type\E cannot be sent from a node.*\n.*\nHINT:  Give NULL::integer(?:\[\])? as the first argument/;
	like(($node->psql('postgres', "SET gkmeans.nodes = 'east'; $fit"))[2], $names, "$column as $type, by a list");
}

# Names of types by a setting of one server
is(sql(q{SET quote_all_identifiers = on; SET gkmeans.nodes = 'auto'; SELECT count(*) FROM gkmeans_fit_predict(NULL::date, 'timed', '{id}', 1, id_column => 'day'); SELECT nodes FROM gkmeans_last_fit()}), "5\n1", 'quote_all_identifiers');

# Lengths of texts in arrays, and a UNION of two types in another order
$remote->safe_psql('east', q{CREATE TABLE data.spaced AS SELECT ARRAY['a' || i]::char(6)[] AS many, i::float8 AS x FROM generate_series(1, 9) i; CREATE TABLE data.floats AS SELECT i::real AS x FROM generate_series(1, 9) i});
sql(q{CREATE FOREIGN TABLE data.spaced (many char(4)[], x real) SERVER east; CREATE FOREIGN TABLE data.floats (x float8) SERVER east});
like(($node->psql('postgres', q{SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_fit_predict(NULL::char(4)[], 'SELECT many, 1 AS x FROM data.spaced', '{x}', 1, id_column => 'many')}))[2], qr/There: x integer; id many character\(6\)\[\]\. Here: x integer; id many character\(4\)\[\]/, 'arrays of padded texts');
like(($node->psql('postgres', q{SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_fit('SELECT x FROM data.spaced UNION ALL SELECT x FROM data.floats', '{x}', 1)}))[2], qr/There: x double precision made of double precision, real\. Here: x double precision made of real, double precision/, 'a UNION in another order');

# The checks of a domain drop what they use, or the domain, while ids come
sql(q{CREATE DOMAIN dropped AS int; CREATE FUNCTION drop_it(i int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN IF i = 3 THEN DROP DOMAIN dropped CASCADE; END IF; RETURN true; END'; ALTER DOMAIN dropped ADD CHECK (drop_it(VALUE))});
like(($node->psql('postgres', qq{SET gkmeans.nodes = '$_'; SELECT FROM gkmeans_fit_predict(NULL::dropped, 'data.plain', '{x}', 2, id_column => 'id')}))[2], qr/source changed while it was being read|type of column "id" was dropped/, "nodes '$_': a domain that drops itself") for '', 'auto', 'east';

# NULL ids, which a domain refuses
$remote->safe_psql('east', 'CREATE TABLE data.nulls AS SELECT nullif(i, 2) AS id, i AS x FROM generate_series(1, 9) i');
sql(q{CREATE DOMAIN present AS int NOT NULL; CREATE FOREIGN TABLE data.nulls (id present, x int) SERVER east; CREATE FOREIGN TABLE data.with_nulls (id int, x int) SERVER east OPTIONS (table_name 'nulls')});
like(($node->psql('postgres', qq{SET gkmeans.nodes = '$_'; SELECT FROM gkmeans_fit('data.nulls', '{x}', 2, id_column => 'id', labels_table => 'labels_of_nulls')}))[2], qr/domain present does not allow null values/, "nodes '$_': NULL as id of a domain that is NOT NULL") for '', 'auto', 'east';
is(sql(q{SET gkmeans.nodes = 'auto'; SELECT FROM gkmeans_fit('data.with_nulls', '{x}', 1, id_column => 'id', labels_table => 'labels_of_nulls'); SELECT count(*), count(id) FROM labels_of_nulls}), '9|8', 'and of another type');

# The checks of a domain by the settings of the session
sql(q{CREATE DOMAIN german AS date CHECK (VALUE::text LIKE '__.__.____')});
is(sql(qq{SET DateStyle = 'German'; SET gkmeans.nodes = '$_'; SELECT min(id), count(*) FROM gkmeans_fit_predict(NULL::german, 'timed', '{id}', 1, id_column => 'day')}), '02.06.2020|5', "nodes '$_': checks of a domain depend on DateStyle") for '', 'auto';

# Ids of many lengths
$remote->safe_psql('east', q{CREATE TABLE data.lengths AS SELECT repeat(md5(i::text), CASE WHEN i % 1000 = 999 THEN 100000 ELSE i % 7 END) || i AS id, i % 7 AS x FROM generate_series(1, 4321) i});
sql(q{CREATE FOREIGN TABLE data.lengths (id text, x int) SERVER east});
is_deeply([ map { sql("SET gkmeans.nodes = '$_'; SELECT count(*), md5(string_agg(md5(id) || cluster_id, '' ORDER BY md5(id))) FROM gkmeans_fit_predict(NULL::text, 'data.lengths', '{x}', 3, id_column => 'id')") } 'auto' ],
	[ sql(q{SELECT count(*), md5(string_agg(md5(id) || cluster_id, '' ORDER BY md5(id))) FROM gkmeans_fit_predict(NULL::text, 'data.lengths', '{x}', 3, id_column => 'id')}) ], 'ids of many lengths');

# Types below a UNION in a WITH query and in a LATERAL one
$remote->safe_psql('east', 'CREATE TABLE data.halves AS SELECT i AS id, i * 0.5 AS x FROM generate_series(1, 9) i; CREATE TABLE data.wholes AS SELECT i AS id, i AS x FROM generate_series(1, 9) i');
sql(q{CREATE TABLE data.halves (id int, x numeric); CREATE TABLE data.wholes (id int, x numeric)});
for my $source ('WITH u AS (TABLE data.halves UNION ALL TABLE data.wholes) SELECT * FROM u', 'WITH RECURSIVE u AS (SELECT * FROM data.halves UNION SELECT w.* FROM data.wholes w JOIN u USING (id)) SELECT * FROM u',
	'SELECT s.* FROM (TABLE data.halves UNION ALL TABLE data.wholes) u, LATERAL (SELECT u.id, u.x) s')
{
	like(($node->psql('postgres', "SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_fit(\$s\$$source\$s\$, '{x}', 2)"))[2], qr/There: x numeric made of numeric, integer\. Here: x numeric\./, "$source: types are compared");
}

# A type below a UNION of ids that the analysis of the source drops
$_->[0]->safe_psql($_->[1], q{CREATE SCHEMA falling; CREATE DOMAIN falling.number AS int; CREATE TABLE falling.rows AS SELECT i AS id, i % 7 AS x FROM generate_series(1, 9) i}) for [ $node, 'postgres' ], [ $remote, 'east' ];
$remote->safe_psql('east', 'CREATE DOMAIN falling.noted AS int');
sql(q{CREATE FUNCTION falling.fall() RETURNS bool LANGUAGE plpgsql AS 'BEGIN DROP DOMAIN falling.number; CREATE DOMAIN falling.number AS int; RETURN true; END'; CREATE DOMAIN falling.noted AS int CHECK (falling.fall())});
for my $call ('gkmeans_fit_predict(NULL::int, $s$%s$s$, \'{x}\', 2, \'id\')', 'gkmeans_evaluate_labels($s$%s$s$, \'{x}\', \'id\')')
{
	my $statement = sprintf $call, q{SELECT s.*, '{5}'::falling.noted[] AS noted FROM (SELECT id::falling.number AS id, x FROM falling.rows UNION ALL SELECT id, x FROM falling.rows) s};
	like(($node->psql('postgres', "SET gkmeans.nodes = 'east'; SELECT FROM $statement"))[2], qr/source changed while it was being read/, "a type that is gone: $call");
}

# Texts that are padded
$remote->safe_psql('east', q{CREATE TABLE data.padded AS SELECT i AS id, i % 7 AS x, ('c' || i % 3)::char(10) AS c FROM generate_series(1, 60) i});
sql(q{CREATE FOREIGN TABLE padded (id int, x int, c char(7)) SERVER east OPTIONS (schema_name 'data'); CREATE SCHEMA IF NOT EXISTS data; CREATE TABLE data.padded (id int, x int, c char(7))});
is_deeply([ map { sql("SET gkmeans.nodes = '$_'; SELECT k, inertia FROM gkmeans_evaluate_labels('padded', '{x}', 'c')") } 'auto' ], [ sql(q{SELECT k, inertia FROM gkmeans_evaluate_labels('padded', '{x}', 'c')}) ], 'labels that this server pads');
like(($node->psql('postgres', q{SET gkmeans.nodes = 'east'; SELECT FROM gkmeans_evaluate_labels('data.padded', '{x}', 'c')}))[2], qr/There: .*id c character\(10\).* Here: .*id c character\(7\)/, 'and that a node pads otherwise');

# Two servers of one database: by their settings they may have different rows, and a source may read rows twice
$remote->safe_psql('east', q{CREATE TABLE data.tenants AS SELECT i AS id, i % 7 + 20 * (i % 2) AS x, i % 2 AS tenant FROM generate_series(1, 60) i;
	CREATE VIEW data.mine AS SELECT id, x FROM data.tenants WHERE tenant = current_setting('app.tenant')::int});
sql(sprintf q{CREATE SERVER tenant_%1$s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%2$s', port '%3$s', dbname 'east', options '-c app.tenant=%1$s'); CREATE USER MAPPING FOR CURRENT_USER SERVER tenant_%1$s;
	CREATE FOREIGN TABLE mine_%1$s (id int, x int) SERVER tenant_%1$s OPTIONS (schema_name 'data', table_name 'mine'); CREATE FOREIGN TABLE all_%1$s (id int, x int) SERVER tenant_%1$s OPTIONS (schema_name 'data', table_name 'tenants')},
	$_, $remote->host, $remote->port) for 0, 1;
for my $case ([ 'SELECT * FROM mine_0 UNION ALL SELECT * FROM mine_1', 60 ], [ 'SELECT * FROM all_0 UNION ALL SELECT * FROM all_1', 120 ])
{
	my ($source, $rows) = @$case;
	my @said = map { sql("SET gkmeans.nodes = '$_'; SELECT sum(size), md5(string_agg(f::text, '|')) FROM gkmeans_fit('$source', '{x}', 3) f; SELECT nodes FROM gkmeans_last_fit()") } ('', 'auto');
	is($said[1], $said[0] =~ s/0$/2/r, "$source: as without nodes");
	like($said[1], qr/^$rows\|/, 'all rows');
}
is(sql(q{CREATE TABLE data.mine (id int, x int); SET gkmeans.nodes = 'tenant_0, tenant_1'; SELECT sum(size) FROM gkmeans_fit('SELECT * FROM data.mine', '{x}', 3)}), 60, 'a list of servers with different options');

# A node that reads a foreign table, which is empty while another server reloads it: no label is lost
$remote->safe_psql('west', 'CREATE TABLE data.loaded AS SELECT region, "the id" AS id, x FROM data.first; CREATE TABLE data.kept AS TABLE data.loaded');
$remote->safe_psql('east', <<~SQL);
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER west FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[ $remote->host ]}', port '@{[ $remote->port ]}', dbname 'west');
	CREATE USER MAPPING FOR CURRENT_USER SERVER west;
	CREATE FOREIGN TABLE data.loaded (region int, id int, x float8) SERVER west OPTIONS (schema_name 'data');
	SQL
sql(<<~'SQL');
	CREATE TABLE far (region int, id int, x float8) PARTITION BY LIST (region);
	CREATE FOREIGN TABLE far_2 PARTITION OF far FOR VALUES IN (2) SERVER east OPTIONS (schema_name 'data', table_name 'loaded');
	CREATE FOREIGN TABLE far_3 PARTITION OF far FOR VALUES IN (3, 4) SERVER west OPTIONS (schema_name 'data', table_name 'second');
	ALTER FOREIGN TABLE far_3 ALTER id OPTIONS (column_name 'the id');
	SELECT gkmeans_import_model('far_model', ARRAY[[0.0], [20.0]], ARRAY['x']);
	SQL
for my $case ([ 'far_2', 1200 ], [ 'far', 3600 ])
{
	my ($source, $count) = @$case;
	for my $mode (qw(merge delete replace))
	{
		my $assign = "SET gkmeans.nodes = 'auto'; SELECT labelled FROM gkmeans_assign('far_model', '$source', 'id', 'of_$source', '$mode')";
		is(sql($assign), $count, "$source, $mode: labelled over nodes");
		$remote->safe_psql('west', 'TRUNCATE data.loaded');
		my ($status, $rows, $said) = $node->psql('postgres', $assign);
		like($said, qr/the source, which reads a foreign table on node "east", has no row there/, "$source, $mode: a node without rows");
		is(sql("SELECT count(*) FROM of_$source"), $count, "$source, $mode: the labels are there");
		is(sql($assign =~ s/of_far/fresh_${mode}_/r), $count - 1200, "$source, $mode: where there are none, nothing is lost");
		$remote->safe_psql('west', 'INSERT INTO data.loaded TABLE data.kept');
	}
}

sql("SET gkmeans.nodes = 'auto'; SELECT FROM gkmeans_create_model('far_fit', 'far', '{x}', 2, id_column => 'id', labels_table => 'far_labels_of_fit', labels_mode => 'merge')");
$remote->safe_psql('west', 'TRUNCATE data.loaded');
for my $call (q{gkmeans_refit('far_fit')}, q{gkmeans_create_model('far_fit', 'far', '{x}', 2, id_column => 'id', labels_table => 'far_labels_of_fit', if_exists => 'replace')},
	q{gkmeans_fit('far', '{x}', 2, id_column => 'id', labels_table => 'far_labels_of_fit', if_exists => 'replace')})
{
	my ($status, $rows, $said) = $node->psql('postgres', "SET gkmeans.nodes = 'auto'; SELECT FROM $call");
	like($said, qr/the source, which reads a foreign table on node "east", has no row there/, "$call: a node without rows");
	is(sql('SELECT (SELECT count(*) FROM far_labels_of_fit), (SELECT count(*) FROM gkmeans.versions WHERE model = \'public.far_fit\')'), '3600|1', "$call: labels and version are there");
}

# With a list of nodes, this server cannot compare clusterings of rows that are theirs
sql("SELECT gkmeans_create_model('m2', 'east_first', '{x}', 2), gkmeans_create_model('m3', 'east_first', '{x}', 3)");
for my $call (q{gkmeans_compare('m2', 'm3', 'east_first')}, q{gkmeans_transitions('m2', 'm3')}, q{gkmeans_compare_labels('SELECT 1 AS a, 2 AS b', 'a', 'b')})
{
	my ($result, $output, $error) = $node->psql('postgres', "SET gkmeans.nodes = 'east'; SELECT * FROM $call");
	like($error, qr/cannot compare clusterings while gkmeans.nodes is a list of servers/, "$call with a list of nodes: refused");
	is(($node->psql('postgres', "SET gkmeans.nodes = 'auto'; SELECT * FROM $call"))[0], 0, 'with auto: this server reads');
}

# What the user may not read stays unread: privileges, policies, views of others
my $superuser = sql('SELECT current_user');
sql("CREATE ROLE reader LOGIN; CREATE USER MAPPING FOR reader SERVER east OPTIONS (user '$superuser', password_required 'false')");
sql(<<~'SQL');
	CREATE VIEW seen AS SELECT * FROM east_first;
	GRANT SELECT ON seen TO reader;
	CREATE TABLE kept (LIKE local) PARTITION BY LIST (region);
	CREATE FOREIGN TABLE kept_0 PARTITION OF kept
		FOR VALUES IN (0) SERVER east OPTIONS (schema_name 'data', table_name 'first');
	ALTER FOREIGN TABLE kept_0 ALTER id OPTIONS (column_name 'the id');
	ALTER TABLE kept ENABLE ROW LEVEL SECURITY;
	CREATE POLICY low ON kept TO reader USING (id < 1000);
	CREATE POLICY odd ON kept AS RESTRICTIVE TO reader USING (doubled(id) > 20);
	GRANT SELECT ON kept TO reader;
	SQL
my $as_reader = "SET ROLE reader; SET gkmeans.nodes = 'auto';";
my $fit_of = q{SELECT sum(size) FROM gkmeans_fit('%s', '{x}', 1)};
my ($result, $output, $error) = $node->psql('postgres', $as_reader . sprintf($fit_of, 'east_first'));
like($error, qr/permission denied for foreign table east_first/, 'a foreign table that one may not read');
like(sql("$as_reader " . sprintf($fit_of, 'kept') . '; SELECT engine_reason FROM gkmeans_last_fit()'), qr/^197\n.*cannot check all conditions/, 'a policy that the server cannot check');
sql('DROP POLICY odd ON kept');
like(sql("$as_reader " . sprintf($fit_of, 'kept') . '; SELECT engine_reason FROM gkmeans_last_fit()'), qr/^199\n.*lack USAGE on server "east"/, 'a role without USAGE on the server');
sql('GRANT USAGE ON FOREIGN SERVER east TO reader');
is(sql("$as_reader " . sprintf($fit_of, 'kept') . '; SELECT nodes FROM gkmeans_last_fit()'), "199\n1", 'a policy that the node checks');
like(sql("$as_reader " . sprintf($fit_of, 'seen') . '; SELECT engine_reason FROM gkmeans_last_fit()'), qr/^1200\n.*read as the owner of a view/, 'a view of another role');

# A name that means another table while the source is planned, and then that of before again
sql(sprintf q{
	CREATE EXTENSION dblink;
	CREATE SCHEMA live;
	CREATE SCHEMA behind;
	CREATE FOREIGN TABLE live.points (id int, x float8) SERVER east OPTIONS (schema_name 'data', table_name 'first');
	ALTER FOREIGN TABLE live.points ALTER id OPTIONS (column_name 'the id');
	CREATE FOREIGN TABLE behind.points (id int, x float8) SERVER west OPTIONS (schema_name 'data', table_name 'second');
	ALTER FOREIGN TABLE behind.points ALTER id OPTIONS (column_name 'the id');
	CREATE FUNCTION swap() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('test.is_swapped', true) IS NULL THEN
			PERFORM set_config('test.is_swapped', 'yes', false), dblink_exec('host=%s port=%s dbname=postgres',
				'BEGIN; ALTER SCHEMA live RENAME TO between; ALTER SCHEMA behind RENAME TO live; ALTER SCHEMA between RENAME TO behind; COMMIT');
		END IF;
		RETURN true;
	END $$;
	SELECT swap()}, $node->host, $node->port);
is(sql("SET gkmeans.nodes = 'auto'; SELECT sum(size) FROM gkmeans_fit('SELECT * FROM live.points WHERE swap()', '{x}', 3); SELECT nodes FROM gkmeans_last_fit()"), "1200\n1", 'schemas that are swapped back while the source is planned');

# An error of another server about a name, which it did not look up in the search_path of this one
$remote->safe_psql('east', q{
	CREATE FUNCTION data.priced(x float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT x * rate FROM rates); END $$;
	CREATE VIEW data.prices AS SELECT "the id" AS id, data.priced(x) AS x FROM data.first});
sql(q{CREATE FOREIGN TABLE prices (id int, x float8) SERVER east OPTIONS (schema_name 'data', table_name 'prices')});
my ($status, $out, $error) = $node->psql('postgres', q{SELECT * FROM gkmeans_fit('SELECT x FROM prices WHERE random() < 2', '{x}', 2)});
like($error, qr/relation "rates" does not exist/, 'a table that is not there');
unlike($error, qr/HINT/, 'another search_path');

$_->stop for $node, $remote;
done_testing();
