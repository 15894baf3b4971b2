# Pictures and reports: on a standby, in databases of other encodings, and as xmllint reads them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('pictures', allows_streaming => 1);
$node->safe_psql('postgres', <<~'SQL');
	SELECT gkmeans_create_model('kinds', 'data', '{x,y}', 3, n_init => 4);
	SELECT gkmeans_name_clusters('kinds', ARRAY['<a & "b">', 'it''s', repeat('long ', 40)]);
	SELECT gkmeans_refit('kinds', deploy => 'never');
	SQL
my @plots = split /\n/, $node->safe_psql('postgres', 'SELECT plot FROM gkmeans.plots ORDER BY 1');
is("@plots", 'clusters convergence drift history profile sizes', 'the plots of a model that was fitted again');

# A standby draws the same.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my %markup = ((map { $_ => "SELECT gkmeans_plot('kinds', '$_')" } @plots), report => "SELECT gkmeans_report('kinds')");
for my $name (sort keys %markup)
{
	my $text = $node->safe_psql('postgres', $markup{$name});
	is($standby->safe_psql('postgres', $markup{$name}), $text, "a standby: $name");
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$name.xml";
	append_to_file($file, $text);
	SKIP:
	{
		skip 'xmllint is not installed', 1 unless grep { -x "$_/xmllint" } split /:/, $ENV{PATH};
		ok(run_log([ 'xmllint', '--noout', '--nonet', $file ]), "xmllint: $name");
	}
}
is($standby->safe_psql('postgres', 'SELECT count(svg) FROM gkmeans.plots'), scalar(@plots), 'a standby: the view');
$standby->stop;

# Names are the same characters whatever the encoding of the database; without one, no character is made up.
# Nor do characters that are none in UTF-8 keep others from being read.
for my $encoding ('UTF8', 'LATIN1', 'EUC_JP', 'SQL_ASCII', 'WIN1252', 'MULE_INTERNAL')
{
	my $name = { EUC_JP => q{convert_from('\xc6fc', 'EUC_JP')}, SQL_ASCII => q{convert_from('\x47f6', 'SQL_ASCII')},
		WIN1252 => q{chr(129) || 'G' || chr(246) || chr(129) || chr(141)}, MULE_INTERNAL => q{convert_from('\x4781f6', 'MULE_INTERNAL')} }->{$encoding} // q{'G' || chr(246)};
	my $database = lc $encoding;
	my $shown = { UTF8 => 'G&#246;', LATIN1 => 'G&#246;', EUC_JP => '&#26085;', SQL_ASCII => 'G\?', WIN1252 => '\?G&#246;\?\?', MULE_INTERNAL => 'G\?\?' }->{$encoding};
	$node->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	$node->safe_psql($database, 'CREATE EXTENSION gkmeans');
	$node->safe_psql($database, "SELECT gkmeans_import_model('m', '{{1},{2}}', names => ARRAY[$name, 'z'])");
	like($node->safe_psql($database, "SELECT gkmeans_plot('m')"), qr/>$shown</, "$encoding: a picture");
	like($node->safe_psql($database, "SELECT convert_from(decode(substr(gkmeans_plot('m', format => 'data_uri'), 27), 'base64'), 'SQL_ASCII')"), qr/>$shown</, "$encoding: a data URI");
	like($node->safe_psql($database, "SELECT gkmeans_report('m')"), qr/>$shown</, "$encoding: a report");
	is($node->safe_psql($database, "SELECT count(svg) FROM gkmeans.plots"), 2, "$encoding: the view");
}

# Text that ends within a character, as settings of roles bring it from a database without an encoding
$node->safe_psql('postgres', 'CREATE ROLE foreigner');
$node->safe_psql('sql_ascii', q{ALTER ROLE foreigner SET search_path = E'xxxxxx\xc2'});
for my $changed (q{names = ARRAY[cut, 'z']}, q{names = NULL, array_column = NULL, features = ARRAY[cut]})
{
	$node->safe_psql('utf8', "UPDATE m SET $changed FROM (SELECT split_part(setconfig[1], '\"', 2) AS cut FROM pg_db_role_setting WHERE setrole = 'foreigner'::regrole) s");
	my $column = $changed =~ /features/ ? 'feature' : 'cluster_name';
	is($node->safe_psql('utf8', "SELECT encode(textsend($column), 'hex') FROM gkmeans.centroid_features WHERE cluster_id = 0"), '787878787878c2', "damaged text of a $column");
}

end_server($node);
done_testing();
