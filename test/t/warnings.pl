# What a fit that ends well says besides its result.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = start_server('warnings');

# The result of a fit, and what it says.
sub fit
{
	my ($arguments) = @_;
	my ($code, $out, $said) = $node->psql('postgres', "SELECT string_agg(round(centroid[1]) || ' ' || size, ', ' ORDER BY cluster_id) FROM gkmeans_fit($arguments)");
	is($code, 0, "$arguments: ends well");
	return ($out, $said =~ s/^psql:[^ ]* //gmr);
}

my ($out, $said) = fit(q{'data', '{x,y}', 3});
is($said, '', 'an ordinary fit says nothing');
($out, $said) = fit(q{'VALUES (1), (1), (2)', NULL, 3});
is($said, "NOTICE:  features are not given: clustering by column \"column1\"\nHINT:  Name the features to choose others: features => '{column1}'.\n"
	. "WARNING:  found 2 clusters instead of 3\nDETAIL:  Rounded to real, there are only 2 distinct rows.", 'too few distinct rows');
($out, $said) = fit(q{'VALUES (1, 1), (2, 2), (0, 1)', '{column1,column2}', 3, metric => 'cosine'});
is($said, "WARNING:  found 2 clusters instead of 3\nDETAIL:  The rows have only 2 directions.", 'too few directions');

# Columns of different orders: the largest decides alone, unless they are scaled
my $units = 'SELECT i % 10 AS visits, i * 50 AS spent, 7 AS constant FROM generate_series(1, 1000) i';
($out, $said) = fit("'$units', '{visits,spent}', 3");
is($said, "WARNING:  feature \"spent\" outweighs feature \"visits\"\nDETAIL:  Their standard deviations are 1.443e+04 and 2.872.\nHINT:  Add scale => 'standard' to let all features count alike.",
	'a column 5000 times as wide as another');
for my $quiet ("'{visits,spent}', 3, scale => 'standard'", "'{visits,spent}', 3, scale => 'auto'", "'{visits,spent}', 3, scale => 'minmax'", "'{visits,spent}', 3, metric => 'cosine'",
	"'{visits,constant}', 3", "'{spent}', 3", "'{constant}', 1")
{
	($out, $said) = fit("'$units', $quiet");
	is($said, '', "nothing to say: $quiet");
}
($out, $said) = fit("'SELECT ARRAY[i % 10, i * 50] AS v FROM generate_series(1, 1000) i', '{v}', 3");
is($said, '', 'the elements of an array are taken to be of one unit');
for my $ratio (['99.9', ''], ['100.1', 'WARNING:  feature "b" outweighs feature "a"'])
{
	($out, $said) = fit("'SELECT i AS a, i * $ratio->[0] AS b FROM generate_series(1, 1000) i', '{a,b}', 3");
	is(($said =~ s/\n.*//sr), $ratio->[1], "$ratio->[0] times as wide");
}

# Sums lose what is too small beside the greatest value
my $hint = "\nHINT:  Leave out values that stand for something else, such as missing data.";
my $placeholder = 'SELECT i, CASE WHEN i = 1 THEN %s ELSE 15 + i %% 3 END::float8 AS x FROM generate_series(1, 30000) i';
($out, $said) = fit(sprintf("'$placeholder', '{x}', 2, init => 'k-means++'", '9007199254740992'));
is("$out|$said", '16 29999, 9.007199254740992e+15 1|', 'one value is great, and nothing is lost');
($out, $said) = fit(sprintf("'$placeholder', '{i,x}', 2", '9.96921e36'));
is($said, "WARNING:  feature \"x\" outweighs feature \"i\"\nDETAIL:  Their standard deviations are 5.756e+34 and 8660.\nHINT:  Add scale => 'standard' to let all features count alike.\n"
	. "WARNING:  the values of feature \"x\" lie too far apart to be averaged exactly\nDETAIL:  The greatest is about 10^36 times a typical one.$hint",
	'a placeholder is far greater than the values');
# So many rows that a sample is fitted first: what is said of all of them is not said of it as well
my $many = $placeholder =~ s/30000/300000/r =~ s/i = 1 /i %% 1000 = 1 /r;
($out, $said) = fit(sprintf("'$many', '{x}', 2", '9.96921e36'));
is(scalar(() = $said =~ /WARNING/g), 1, 'a sample says nothing') or diag($said);
($out, $said) = fit(q{'VALUES (1, 1e18::float8), (100, 1), (102, 1)', '{column1}', 2, weight_column => 'column2', initial_centroids => '{{1},{100}}'});
is("$out|$said", '1 1, 101 2|', 'one weight is great, and nothing is lost');
# A placeholder that makes the mean so great that nothing is left of the other values when it is taken off
for my $case (['9.97e36', 35], ['1e11', 9], ['1e6', 0])
{
	($out, $said) = fit("'SELECT $case->[0] AS t, 1 AS u UNION ALL SELECT i, i % 5 FROM generate_series(1, 50) i', '{t,u}', 3, scale => 'standard'");
	is($said, $case->[1] ? "WARNING:  the values of feature \"t\" lie too far apart to be scaled exactly\nDETAIL:  The greatest is about 10^$case->[1] times a typical one.$hint" : '', "a placeholder of $case->[0], scaled");
}
($out, $said) = fit(q{'VALUES (1, 1e32::float8), (100, 1), (102, 1)', '{column1}', 2, weight_column => 'column2', initial_centroids => '{{1},{100}}'});
is($said, "WARNING:  the weights lie too far apart to be added up exactly\nDETAIL:  The greatest is about 10^21 times a typical one.$hint",
	'one weight is too great');

# What a model says of rows: as much as a fit if they are fitted, and nothing if they are labelled
sub said
{
	my ($sql) = @_;
	my ($code, $out, $said) = $node->psql('postgres', $sql);
	is($code, 0, "$sql: ends well");
	return $said =~ s/^psql:[^ ]* //gmr;
}
$node->safe_psql('postgres', 'CREATE TABLE seen AS SELECT i AS id, i % 10 AS a, 15 + i % 3 AS b FROM generate_series(1, 30000) i');
is(said(qq{SELECT gkmeans_create_model('kinds_$_', 'seen', '{a,b}', 2, scale => '$_')}), '', 'a model of ordinary rows') for 'none', 'standard';
$node->safe_psql('postgres', 'ALTER TABLE seen ALTER b TYPE float8; UPDATE seen SET b = 9.96921e36 WHERE id = 1');
for my $call (q{gkmeans_evaluate('kinds_none')}, q{gkmeans_drift('kinds_none')}, q{gkmeans_feature_drift('kinds_none')}, q{gkmeans_cluster_quality('kinds_none')},
	q{gkmeans_predict_rows(NULL::int, 'kinds_none', 'seen', 'id')}, q{gkmeans_assign('kinds_none', 'seen', 'id', 'labels')})
{
	is(said("SELECT count(*) FROM $call"), '', "$call says nothing");
}
my $units_of_b = qr/WARNING:  feature "b" outweighs feature "a"\n[^\n]*\n[^\n]*\n/;
my $values_of_b = qr/WARNING:  the values of feature "b" lie too far apart to be averaged exactly\n[^\n]*\n[^\n]*/;
like(said(q{SELECT gkmeans_refit('kinds_none', deploy => 'never')}), qr/^$units_of_b$values_of_b$/, 'a refit says what a fit says');
like(said(q{SELECT gkmeans_refit('kinds_standard', deploy => 'never')}), qr/^$values_of_b$/, 'also in the scale of the version');
like(said(q{SELECT gkmeans_refit('kinds_none', deploy => 'never', rescale => true)}), qr/^$units_of_b$values_of_b$/, 'and not twice of rows that it reads twice');

# Rows that have moved so far that they lose digits
$node->safe_psql('postgres', 'CREATE TABLE moving AS SELECT i AS id, (i % 2 * 0.5 + i % 10 * 0.01)::float8 AS x FROM generate_series(1, 200) i');
is(said(qq{SELECT gkmeans_create_model('moving_$_', 'moving', '{x}', 2, scale => '$_')}), '', 'a model of rows that will move') for 'none', 'standard';
is(said(q{SELECT gkmeans_create_model('moving_cosine', 'moving', '{x}', 2, scale => 'standard', metric => 'cosine')}), '', 'and one of their directions');
$node->safe_psql('postgres', 'UPDATE moving SET x = x + 10');
is(said(qq{SELECT gkmeans_refit('moving_$_', deploy => 'never')}), '', 'not far') for 'none', 'standard';
$node->safe_psql('postgres', 'UPDATE moving SET x = x + 1e6');
is(said(q{SELECT gkmeans_refit('moving_none', deploy => 'never')}), '', 'far, without a scale');
is(said(q{SELECT gkmeans_refit('moving_standard', deploy => 'never')}),
	"WARNING:  the values of feature \"x\" have moved so far that they lose digits\nDETAIL:  They are rounded in the scale of version 1.\nHINT:  Refit the model with rescale => true.", 'with one');
like(said(q{SELECT gkmeans_refit('moving_cosine', deploy => 'never')}), qr/^WARNING:  the values of feature "x" have moved so far that they lose digits\n/, 'also by direction');
is(said(q{SELECT gkmeans_refit('moving_standard', deploy => 'never', rescale => true)}), '', 'as the hint says');
$node->safe_psql('postgres', 'CREATE TABLE uneven AS SELECT i AS id, (i % 3)::float8 AS x, i % 5 * 1e6::float8 AS y FROM generate_series(1, 300) i');
like(said(q{SELECT gkmeans_create_model('uneven_kinds', 'uneven', '{x,y}', 3)}), qr/^WARNING:  feature "y" outweighs feature "x"\n.*\n.*$/, 'features of other sizes');
$node->safe_psql('postgres', 'UPDATE uneven SET x = x + 1e9');
like(said(q{SELECT gkmeans_refit('uneven_kinds', deploy => 'never')}), qr/^WARNING:  feature "y" outweighs feature "x"\nDETAIL:  Their standard deviations are 1.414e\+06 and 0.8165.\n[^\n]*$/, 'are warned of once where rows are read again');

# Versions that somebody has damaged do not fill the logs of all who read the views.
$node->safe_psql('postgres', q{SELECT gkmeans_import_model('broken', '{{1},{2}}');
	INSERT INTO broken (version, group_no, part, status, centroids) SELECT i, 0, 0, 'fitted', '{}' FROM generate_series(2, 301) i});
is(said('SELECT * FROM gkmeans.clusters'), "WARNING:  version 2 of model \"broken\" is damaged\nDETAIL:  Attribute \"k\" is not as gkmeans writes it.\nWARNING:  model \"broken\" has more versions that are left out: 299", 'one is named, the others are counted');

done_testing();
