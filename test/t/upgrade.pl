# pg_upgrade: models, views that predict, generated columns, indexes, partitions and labels tables of the owner of a
# database give the same afterwards.
#
# It upgrades to the version of PostgreSQL that runs the tests; oldinstall, as in PostgreSQL's own test, may name the
# installation of an older one that has gkmeans as well (the folder of its bin).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = PostgreSQL::Test::Cluster->new('old', $ENV{oldinstall} ? (install_path => $ENV{oldinstall}) : ());
my $new = PostgreSQL::Test::Cluster->new('new');
my $bin = $new->config_data('--bindir');
plan skip_all => "$bin has no pg_upgrade or no vacuumdb" unless -x "$bin/pg_upgrade" && -x "$bin/vacuumdb";

# A server whose settings of initdb do not differ between versions of PostgreSQL
sub make
{
	my ($node) = @_;
	my ($major) = $node->pg_version =~ /^(\d+)/;
	$node->init(extra => [ '--locale=C', '--encoding=UTF8', $major >= 18 ? '--no-data-checksums' : () ]);
	return;
}

make($old);
$old->start;
$old->safe_psql('postgres', <<~'SQL');
	CREATE ROLE tenant LOGIN;
	CREATE ROLE dashboard;
	CREATE DATABASE shop OWNER tenant;
	CREATE DATABASE elsewhere;
	SQL
$old->safe_psql('elsewhere', q{CREATE SCHEMA ml; CREATE EXTENSION gkmeans SCHEMA ml; SELECT ml.gkmeans_import_model('ml.plain', '{{1,2},{3,4}}')});
$old->safe_psql('shop', <<~'SQL');
	CREATE EXTENSION gkmeans;
	SET ROLE tenant;
	CREATE SCHEMA area;
	CREATE TABLE public.customers AS SELECT i AS id, i % 7 * 10.0 AS spent, i % 3 AS visits, ARRAY[i % 5, i % 11, i % 2]::real[] AS embedding FROM generate_series(1, 500) i;
	SELECT gkmeans_create_model('area.segments', 'public.customers', '{spent,visits}', 4, scale => 'standard', id_column => 'id', labels_table => 'area.labels');
	SELECT gkmeans_create_model('area.segments', 'public.customers', '{spent,visits}', 3, scale => 'minmax', id_column => 'id', labels_table => 'area.labels', if_exists => 'replace');
	SELECT gkmeans_name_clusters('area.segments', '{one,two,three}');
	SELECT gkmeans_refit('area.segments', deploy => 'never');
	SELECT gkmeans_create_model('area.topics', 'public.customers', '{embedding}', 5, metric => 'cosine');
	SELECT gkmeans_import_model('area.imported', '{{0,0},{30,1},{60,2}}', features => '{spent,visits}', names => '{a,NULL,c}');
	ALTER TABLE area.imported SET UNLOGGED;
	COMMENT ON TABLE area.segments IS 'kinds of customers';
	GRANT USAGE ON SCHEMA area TO dashboard;
	GRANT SELECT ON area.segments TO dashboard;
	CREATE VIEW area.scored AS SELECT c.id, gkmeans_predict('area.segments', c) AS segment, s.* FROM public.customers c, LATERAL gkmeans_score('area.topics', embedding) s;
	CREATE MATERIALIZED VIEW area.counted AS SELECT gkmeans_name('area.segments', c), count(*) FROM public.customers c GROUP BY 1;
	CREATE FUNCTION area.segment_of(spent float8, visits float8) RETURNS int LANGUAGE sql STABLE RETURN gkmeans_predict('area.segments', spent, visits);
	ALTER TABLE public.customers ADD PRIMARY KEY (id);
	ALTER TABLE area.labels ADD FOREIGN KEY (id) REFERENCES public.customers;
	SELECT format('CREATE TABLE area.arriving (spent float8, visits int, segment int GENERATED ALWAYS AS (gkmeans_predict_with(%1$L, spent, visits)) STORED)', gkmeans_export('area.segments', 'predict')) \gexec
	INSERT INTO area.arriving SELECT spent, visits FROM public.customers;
	SELECT format('CREATE INDEX nearest_topic ON public.customers (gkmeans_predict_with(%L, embedding))', gkmeans_export('area.topics', 'predict')) \gexec
	SELECT format('CREATE TABLE area.parts (spent float8, visits int) PARTITION BY LIST (gkmeans_predict_with(%L, spent, visits))', gkmeans_export('area.segments', 'predict')) \gexec
	SELECT format('CREATE TABLE area.part_%s PARTITION OF area.parts FOR VALUES IN (%1$s)', i) FROM generate_series(0, 2) i \gexec
	INSERT INTO area.parts SELECT spent, visits FROM public.customers;
	CREATE FUNCTION area.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'deployed: %', NEW.deployed; RETURN NEW; END $$;
	CREATE TRIGGER watch AFTER UPDATE OF deployed ON area.segments FOR EACH ROW EXECUTE FUNCTION area.note();
	SQL

# What must be the same afterwards
my %queries = (
	'scores by row, columns and array' => q{SELECT id, gkmeans_predict('area.segments', c), gkmeans_distance('area.topics', embedding), gkmeans_transform('area.imported', spent, visits), gkmeans_name('area.imported', c),
		gkmeans_anomaly_percentile('area.segments', c) FROM public.customers c ORDER BY id},
	'a view that scores' => 'SELECT * FROM area.scored ORDER BY id',
	'a materialized view' => 'SELECT * FROM area.counted ORDER BY 1',
	'a function' => 'SELECT id, area.segment_of(spent, visits) FROM public.customers ORDER BY id',
	'a generated column' => 'SELECT * FROM area.arriving ORDER BY 1, 2',
	'partitions' => 'SELECT tableoid::regclass, * FROM area.parts ORDER BY 2, 3',
	'labels' => 'SELECT * FROM area.labels ORDER BY id',
	'gkmeans.models' => q{SELECT to_jsonb(m) - 'age_hours' FROM gkmeans.models m ORDER BY model},
	'gkmeans.versions' => 'SELECT * FROM gkmeans.versions ORDER BY 1',
	'gkmeans.clusters' => 'SELECT * FROM gkmeans.clusters ORDER BY 1',
	'gkmeans.centroid_features' => 'SELECT * FROM gkmeans.centroid_features ORDER BY 1',
	'gkmeans.drift' => 'SELECT * FROM gkmeans.drift ORDER BY 1',
	'what a role may see' => 'SET ROLE dashboard; SELECT model, cluster_name FROM gkmeans.clusters ORDER BY 1, 2',
	'the definition' => q{SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'area.segments'::regclass},
	'exports' => q{SELECT gkmeans_export('area.segments', version => 1), gkmeans_export('area.topics')});
my %expected = map { $_ => $old->safe_psql('shop', $queries{$_}) } keys %queries;
isnt($expected{$_}, '', "before: $_") for sort keys %expected;
$old->stop;

make($new);
my @options = map { ("--$_->[0]", $_->[1]) } [ 'old-datadir', $old->data_dir ], [ 'new-datadir', $new->data_dir ], [ 'old-bindir', $old->config_data('--bindir') ], [ 'new-bindir', $bin ],
	[ 'old-port', $old->port ], [ 'new-port', $new->port ], [ 'socketdir', $new->host ];
chdir PostgreSQL::Test::Utils::tempdir();
my $said = '';
my $upgraded = IPC::Run::run([ 'pg_upgrade', '--no-sync', @options ], '<', \undef, '>&', \$said);
ok($upgraded, 'pg_upgrade') or BAIL_OUT($said);
$new->start;
for my $name (sort keys %queries)
{
	is($new->safe_psql('shop', $queries{$name}), $expected{$name}, "after: $name");
}
is($new->safe_psql('elsewhere', q{SELECT ml.gkmeans_predict('ml.plain', 3, 3)}), 1, 'another schema');

# It all goes on
my $as_tenant = sub { return $new->safe_psql('shop', "SET ROLE tenant; $_[0]") };
is($as_tenant->(q{INSERT INTO area.arriving VALUES (60, 2) RETURNING segment = gkmeans_predict('area.segments', 60, 2)}), 't', 'a new row is labelled');
is($as_tenant->(q{SELECT updated + inserted + deleted FROM gkmeans_assign('area.segments', 'public.customers', 'id', 'area.labels')}), 0, 'no label differs');
is($as_tenant->(q{SET client_min_messages = warning; SELECT count(*) FROM gkmeans_create_model('area.segments', 'public.customers', '{spent,visits}', 2, if_exists => 'replace')}), 2, 'a version is added');
is($as_tenant->(q{SET client_min_messages = warning; CALL gkmeans_refresh('area.segments', deploy => 'never'); SELECT count(*), max(status) FILTER (WHERE version = 5) FROM area.segments}), '5|fitted', 'and refitted');
is($as_tenant->(q{SET client_min_messages = warning; SELECT gkmeans_rollback('area.segments')}), 2, 'and rolled back');
is($new->safe_psql('shop', $queries{'a view that scores'}), $expected{'a view that scores'}, 'which the view follows');
(undef, undef, my $error) = $new->psql('shop', 'DROP TABLE area.segments');
like($error, qr/view area.scored depends on table area.segments/, 'the view depends on the model');
(undef, undef, $error) = $new->psql('shop', 'DROP EXTENSION gkmeans');
like($error, qr/other objects depend on it/, 'and the models on the extension');
is($new->safe_psql('shop', q{DROP EXTENSION gkmeans CASCADE; SELECT count(*) FROM pg_class WHERE relname IN ('segments', 'scored', 'models')}), 0, 'which can be dropped');

end_server($new);
done_testing();
