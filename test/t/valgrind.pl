# Fits in a single-user server under valgrind: no invalid access, no use of undefined memory.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'valgrind is not installed' if system('valgrind --version >/dev/null 2>&1') != 0;
plan skip_all => 'valgrind and GPU drivers do not go together' if ($ENV{TEMP_CONFIG} // '') ne '' && slurp_file($ENV{TEMP_CONFIG}) =~ /cuda/;

plan skip_all => 'test/modules is not installed' unless has_module('gkmeans_faults');

my $node = start_server('valgrind');
$node->stop;
$node->append_conf('postgresql.conf', "shared_buffers = 16MB\ngkmeans.cpu_threads = 2");

my @queries = (
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x,y}', 17, init => 'k-means++', n_init => 2, quality => 'good')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', NULL, 5, init => 'random', id_column => 'id', quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x,y}', 3, initial_centroids => '{{0,0},{10,10},{1000,1000}}')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x}', 4, weight_column => 'y', scale => 'standard', quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x,y}', 4, metric => 'cosine', scale => 'minmax', quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('rows_of_16', '{v}', 33, max_iter => 5, quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('SELECT ARRAY[x, NULL, y] AS v FROM data UNION ALL SELECT ''{1,2,3}''', '{v}', 1)",
	"SELECT count(*), sum(size) FROM gkmeans_fit('SELECT x::numeric AS a, y::int AS b, id::smallint AS c, x::real AS d FROM data', '{a,b,c,d}', 7, quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('SELECT ARRAY[x, y]::numeric[] AS v FROM data', '{v}', 7, quality => 'fast')",
	"SELECT count(*), sum(size) FROM gkmeans_fit('SELECT array_fill(id::real, ''{3000}'') AS v FROM data WHERE id <= 50', '{v}', 7, quality => 'fast')",
	"SELECT count(*), sum(cluster_id) FROM gkmeans_fit_predict(NULL::text, 'SELECT ''id '' || id AS id, x FROM data', '{x}', 3, id_column => 'id')",
	"SELECT count(*), sum(cluster_id) FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id', labels_table => 'labels', quality => 'fast')",
	"SELECT count(*) FROM gkmeans_fit('SELECT ''{1,2}''::real[] AS v UNION ALL SELECT ''{1}''', '{v}', 3)",
	"SELECT count(*) FROM gkmeans_fit('SELECT 1 / (id - 2000) AS x FROM data', '{x}', 3)",
	"CREATE TABLE few AS SELECT * FROM data WHERE id <= 200",
	"CREATE TABLE full_labels (id int PRIMARY KEY, cluster_id int, name text, second_cluster_id int, second_distance float8, anomaly_score float8, anomaly_percentile float8, version int, labelled_at timestamptz)",
	"SELECT count(*), sum(size) FROM gkmeans_create_model('model', 'few', '{x,y}', 5, scale => 'standard', id_column => 'id', labels_table => 'full_labels', changes_table => 'changes')",
	"UPDATE few SET x = x + 5 WHERE id <= 30",
	"SELECT updated FROM gkmeans_assign('model')",
	q{SELECT gkmeans_alter_model('model', '{"n_init": 2, "k": null, "notify": "channel"}')},
	q{SELECT gkmeans_alter_model('model', '{"n_init": 0}')},
	"SELECT gkmeans_create_view('model', 'scored'), gkmeans_create_view('model', 'wide', 'clusters')",
	"SELECT count(s), (SELECT count(w) FROM wide w) FROM scored s",
	"LOAD 'gkmeans_faults'",
	"SET gkmeans.fault_at = 4",
	"SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')",
	"SET gkmeans.fault_at = 9",
	"SELECT count(*) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')",
	"SET gkmeans.fault_at = 0",
	"SELECT count(*), sum(size) FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')",
	"SELECT count(*) FROM gkmeans_create_model('m', 'data', '{x,y}', 3, quality => 'fast', id_column => 'id', labels_table => 'm_labels', scale => 'standard')",
	"SELECT status FROM gkmeans_refit('m', deploy => 'always', starts => 2)",
	"SELECT status FROM gkmeans_refit('m', rescale => true, deploy => 'never')",
	"SELECT status FROM gkmeans_refit('m', only_if_drift => 0.1)",
	"SELECT sum(psi) FROM gkmeans_drift('m')",
	"CALL gkmeans_refresh('m', deploy => 'always', keep => 2)",
	"ALTER TABLE m ALTER definition SET DEFAULT '{\"source\": \"SELECT 1 / (id - 2000) AS x, y FROM public.data\", \"features\": [\"x\", \"y\"], \"k\": 3}'",
	"CALL gkmeans_refresh('m')",
	"SELECT status AS failed, psi FROM gkmeans.versions ORDER BY version DESC LIMIT 1",
	"SELECT sum(bytes) FROM gkmeans_memory()",
	"SELECT iterations FROM gkmeans_last_fit()",
);
my $log = PostgreSQL::Test::Utils::tempdir() . '/valgrind.log';
my $postgres = $node->config_data('--bindir') . '/postgres';
my ($out, $error) = ('', '');
my $input = join("\n", @queries) . "\n";
IPC::Run::run(
	[ 'valgrind', '--quiet', '--trace-children=no', '--leak-check=no', '--error-exitcode=9', '--num-callers=30', "--log-file=$log",
		"--suppressions=$FindBin::Bin/../valgrind.supp", $postgres, '--single', '-D', $node->data_dir, 'postgres' ],
	'<', \$input, '>', \$out, '2>', \$error);
my $status = $? >> 8;
is($status, 0, 'valgrind finds nothing') or diag(slurp_file($log));
my @errors = $error =~ /ERROR:  (.*)/g;
is(scalar(@errors), 6, 'six queries fail as they should') or diag($error);
like($out, qr/sum = "3000"/, 'the others give all rows');
like($out, qr/failed = "failed"/, 'a refresh that fails is recorded');
unlike($error, qr/leak/i, 'no leak is told of');

done_testing();
