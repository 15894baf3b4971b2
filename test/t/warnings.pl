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
is($said, "WARNING:  found 2 clusters instead of 3\nDETAIL:  There are only 2 distinct rows with a weight above zero.", 'too few distinct rows');

# Sums lose what is too small beside the greatest value
my $hint = "\nHINT:  Leave out values that stand for something else, such as missing data.";
my $placeholder = 'SELECT i, CASE WHEN i = 1 THEN %s ELSE 15 + i %% 3 END::float8 AS x FROM generate_series(1, 30000) i';
($out, $said) = fit(sprintf("'$placeholder', '{x}', 2, init => 'k-means++'", '9007199254740992'));
is("$out|$said", '16 29999, 9.007199254740992e+15 1|', 'one value is great, and nothing is lost');
($out, $said) = fit(sprintf("'$placeholder', '{i,x}', 2", '9.96921e36'));
is($said, "WARNING:  the values of feature 2 lie too far apart to be averaged exactly\nDETAIL:  The greatest is about 10^36 times a typical one.$hint",
	'a placeholder is far greater than the values');
($out, $said) = fit(q{'VALUES (1, 1e18::float8), (100, 1), (102, 1)', '{column1}', 2, weight_column => 'column2', initial_centroids => '{{1},{100}}'});
is("$out|$said", '101 2, 1 1|', 'one weight is great, and nothing is lost');
($out, $said) = fit(q{'VALUES (1, 1e32::float8), (100, 1), (102, 1)', '{column1}', 2, weight_column => 'column2', initial_centroids => '{{1},{100}}'});
is($said, "WARNING:  the weights lie too far apart to be added up exactly\nDETAIL:  The greatest is about 10^21 times a typical one.$hint",
	'one weight is too great');

done_testing();
