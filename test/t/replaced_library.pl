# A package that is updated under open sessions: their workers load another library than they did.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('replaced');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $library = "$folder/gkmeans.so";
my ($libraries) = run_command([ 'pg_config', '--pkglibdir' ]);
my ($shared) = run_command([ 'pg_config', '--sharedir' ]);
my $installed = slurp_file("$libraries/gkmeans.so");
my ($version) = slurp_file("$shared/extension/gkmeans.control") =~ /default_version = '([^']+)'/;

# Puts a library in the place from which this server loads it.
sub install
{
	my ($bytes) = @_;
	open(my $file, '>:raw', "$library.new") or die;
	print $file $bytes;
	close($file);
	rename "$library.new", $library or die;
}

install($installed);
$node->safe_psql('postgres', qq{
	SET allow_system_table_mods = on;
	UPDATE pg_proc SET probin = '$library' WHERE probin = '\$libdir/gkmeans';
	CREATE TABLE many AS SELECT i % 17 AS x FROM generate_series(1, 20000) i;
	ALTER TABLE many SET (parallel_workers = 2);
	ANALYZE many});

my $settings = q{SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET statement_timeout = '60s'};
my $fit = q{SELECT sum(size) FROM gkmeans_fit('many', '{x}', 3)};
my ($session) = new_session($node);
$session->query($settings);
is($session->query($fit), '20000', 'workers read');
isnt($session->query('SELECT workers FROM gkmeans_last_fit()'), '0', 'there were some');

# the same length, another version
my $other = $version =~ s/\d$/x/r;
(my $changed = $installed) =~ s/\Q$version\E\0/$other\0/g;
ok($changed ne $installed, 'a library of another version');
install($changed);
$session->query($fit);
like($session->{stderr}, qr/the library of gkmeans was replaced after this session had loaded it/,
	'workers with another library refuse');
my ($new) = new_session($node);
$new->query($settings);
is($new->query($fit), '20000', 'a new session reads');
done_testing();
