# Servers of two versions of PostgreSQL as nodes of one fit: the bits of one table, whichever of them fits.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# What another version is installed in, with gkmeans; scripts/test sets it.
my $other = $ENV{GK_OTHER_POSTGRESQL};
plan skip_all => 'there is no second version of PostgreSQL, or GK_OTHER_POSTGRESQL does not name it' unless defined $other && -x "$other/bin/postgres";

my %server = (this => start_server('this'), other => start_server('other', install_path => $other));
my %version = map { $_ => $server{$_}->safe_psql('postgres', "SELECT current_setting('server_version_num')::int / 10000") } keys %server;
isnt($version{this}, $version{other}, "PostgreSQL $version{this} and $version{other}");

# Rows with NULLs, and arrays so long that they are compressed or stored elsewhere; the last half of them on the other server.
my $make = <<~'SQL';
	CREATE TABLE %s AS SELECT i AS id, CASE WHEN i %% 50 > 0 THEN (i %% 3) * 10 + noise(i, 1) END AS x, (i %% 3) * 1e6 + noise(i, 2) AS y, noise(i, 3)::real AS weight,
		ARRAY(SELECT CASE WHEN i %% 2 = 0 THEN (i %% 7) * 2.0 ELSE noise(i, j) + i %% 3 END FROM generate_series(1, 700) j)::real[] AS v
	FROM generate_series(%d, %d) i
	SQL
my $noise = q{CREATE FUNCTION noise(bigint, int) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT (hashint8extended($1, $2) & 4294967295)::float8 / 4294967296.0'};
for my $name (sort keys %server)
{
	$server{$name}->safe_psql('postgres', 'CREATE DATABASE part');
	$server{$name}->safe_psql('part', "CREATE EXTENSION gkmeans; $noise; " . sprintf($make, 'rows', $name eq 'this' ? (1, 700) : (701, 2000)));
	$server{$name}->safe_psql('postgres', 'CREATE EXTENSION postgres_fdw; ' . sprintf($make, 'rows', 1, 2000));
	for my $node (sort keys %server)
	{
		my ($host, $port) = ($server{$node}->host, $server{$node}->port);
		$server{$name}->safe_psql('postgres', "CREATE SERVER $node FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'part'); CREATE USER MAPPING FOR CURRENT_USER SERVER $node");
	}
}

# Digests of a fit, of its clusters and of the labels of its rows, with nodes or without
sub digests
{
	my ($name, $nodes, $arguments) = @_;
	return $server{$name}->safe_psql('postgres', <<~SQL);
		SET gkmeans.nodes = '$nodes';
		SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)), count(*) FROM gkmeans_fit('rows', $arguments) f;
		SELECT md5(string_agg(p::text, '|' ORDER BY id)), count(*) FROM gkmeans_fit_predict(NULL::int, 'rows', $arguments, id_column => 'id') p;
		SELECT rows_read, rows_skipped, nodes FROM gkmeans_last_fit();
		SQL
}
for my $arguments (
	q('{x,y}', 3), q('{v}', 5), q('{x,y}', 4, weight_column => 'weight', scale => 'standard', n_init => 2),
	q('{v}', 3, metric => 'cosine', init => 'k-means++'), q('{x,y}', 3, init => 'random'))
{
	my $whole = digests('this', '', $arguments);
	is(digests('other', '', $arguments), $whole, "$arguments: one table, PostgreSQL $version{other}");
	$whole =~ s/\|0$/|2/;
	is(digests($_, 'this, other', $arguments), $whole, "$arguments: nodes of both, fitted by PostgreSQL $version{$_}") for sort keys %server;
}
my $model = q{SELECT gkmeans_create_model('m', 'rows', '{x,y}', 3); SELECT md5(string_agg(c::text, '|' ORDER BY cluster_id)), count(*) FROM gkmeans_clusters('m') c};
my $whole = $server{this}->safe_psql('postgres', "BEGIN; $model; ROLLBACK") =~ s/.*\n//sr;
like($whole, qr/\|3$/, 'a model of one table');
is($server{$_}->safe_psql('postgres', "SET gkmeans.nodes = 'this, other'; $model") =~ s/.*\n//sr, $whole, "a model over both, fitted by PostgreSQL $version{$_}") for sort keys %server;

# An error on the other version keeps its words
for my $name (sort keys %server)
{
	my (undef, undef, $error) = $server{$name}->psql('postgres', q{SET gkmeans.nodes = 'this, other'; SELECT gkmeans_fit('SELECT 1 / (id - 1500) AS x FROM rows', '{x}', 3)});
	like($error, qr/node "other": division by zero/, "an error of PostgreSQL $version{other} on PostgreSQL $version{$name}");
}
end_server($_) for values %server;
done_testing();
