# What a curious user can have logged of a fit: plans, durations, nested statements, statistics.  All of it is the same for two
# equal fits, so nothing secret is in it, and the query that reads the rows can be understood.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('logging');
$node->append_conf('postgresql.conf', <<~'CONF');
	shared_preload_libraries = 'auto_explain, pg_stat_statements'
	pg_stat_statements.track = all
	compute_query_id = on
	auto_explain.log_min_duration = 0
	auto_explain.log_nested_statements = on
	auto_explain.log_verbose = on
	auto_explain.log_settings = on
	log_min_duration_statement = 0
	log_statement = all
	log_parameter_max_length = -1
	log_parameter_max_length_on_error = -1
	CONF
$node->restart;
$node->safe_psql('postgres', <<~'SQL');
	CREATE EXTENSION pg_stat_statements;
	CREATE ROLE curious LOGIN;
	GRANT SELECT ON data TO curious;
	GRANT SET ON PARAMETER auto_explain.log_min_duration, auto_explain.log_nested_statements TO curious;
	GRANT pg_read_all_stats TO curious;
	CREATE FUNCTION fit_inside(i bigint) RETURNS float8 LANGUAGE plpgsql AS $$
	BEGIN
		IF i = 7 THEN PERFORM gkmeans_fit('data', '{x}', 2); END IF;
		RETURN i;
	END $$;
	SQL

# What PostgreSQL tells the client that runs it; times, costs and processes left out.
sub told
{
	my ($query) = @_;
	my ($out, $err);
	$node->psql('postgres', <<~SQL, connstr => $node->connstr('postgres') . ' user=curious', stdout => \$out, stderr => \$err, on_error_stop => 0);
		SET client_min_messages = debug1;
		SET debug_print_parse = on; SET debug_print_rewritten = on; SET debug_print_plan = on; SET debug_pretty_print = on;
		$query
		SQL
	$err =~ s/duration: [0-9.]+ ms/duration: ms/g;
	$err =~ s/^psql:<stdin>:\d+: //mg;
	return $err;
}

my %fit = (
	'without workers' => q{SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id');},
	'with workers' => q{SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id');},
	'planned anew' => q{SET plan_cache_mode = force_custom_plan; SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id');},
	'read twice' => q{SELECT count(*) FROM gkmeans_fit('SELECT id, CASE WHEN id > 2990 THEN 1e12 ELSE x END AS x FROM data ORDER BY id', '{x}', 3);},
	'with a fit inside' => q{SELECT count(*) FROM gkmeans_fit('SELECT fit_inside(id) AS x FROM data', '{x}', 3);},
	'with an error' => q{SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM gkmeans_fit('SELECT 1 / (id - 7) AS x FROM data', '{x}', 3);},
);

for my $name (sort keys %fit)
{
	my ($first, $second) = (told($fit{$name}), told($fit{$name}));
	like($first, qr/:aggfnoid/, "$name: the plan of the query that reads is told");
	is($first, $second, "$name: two equal fits tell the same, so nothing random") or diag(difference($first, $second));
	# 2950 is uuid, the type of what lets the query feed
	unlike($first, qr/:consttype 2950/, "$name: no constant in a plan that lets others feed");
	unlike($first, qr/parameters: \$1|Query Parameters/, "$name: no parameter is told");
}

# The first lines that differ.
sub difference
{
	my ($first, $second) = map { [ split /\n/ ] } @_;
	for my $i (0 .. $#$first)
	{
		return "$first->[$i]\n" . ($second->[$i] // '') if $first->[$i] ne ($second->[$i] // '');
	}
	return 'the second is longer';
}

my $log = slurp_file($node->logfile);
like($log, qr/Query Text: SELECT public\._gkmeans_feed\(\$1, id, NULL::pg_catalog\.float8, x, y\) FROM data AS source \(id, x, y\)\n/,
	'the query that reads names the source and its columns');
unlike($log, qr/:consttype 2950/, 'no such constant in the log');
unlike($log, qr/parameters: \$1|Query Parameters/, 'no parameter in the log');

is($node->safe_psql('postgres', q{SELECT count(DISTINCT query) FROM pg_stat_statements WHERE query LIKE '%\_gkmeans\_feed(%x, y) FROM data AS source (id, x, y)'}),
	1, 'one statement in pg_stat_statements for all fits of a source');
is($node->safe_psql('postgres', q{SELECT query FROM pg_stat_statements WHERE query LIKE '%\_gkmeans\_feed(%x, y) FROM data AS source (id, x, y)' LIMIT 1}),
	'SELECT public._gkmeans_feed($1, id, $2::pg_catalog.float8, x, y) FROM data AS source (id, x, y)', 'which can be read');

# A source has no parameter that could get it.
my ($out, $err);
$node->psql('postgres', q{SELECT count(*) FROM gkmeans_fit('SELECT length($1::text) AS x FROM data', '{x}', 1)}, stderr => \$err);
like($err, qr/there is no parameter \$1/, 'the source cannot name the parameter of the query that reads it');

end_server($node);
done_testing();
