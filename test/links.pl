# Every relative link of the pages in Markdown leads to a file, and to a heading if it names one.
# Prints TAP.  Run from the top of the sources.

use strict;
use warnings;

use File::Basename;
use Test::More tests => 1;

# What a heading is called in a link, as GitHub makes it.
sub anchor_of
{
	my ($heading) = @_;
	$heading = lc($heading =~ s/\[([^]]*)\]\([^)]*\)/$1/gr);
	return $heading =~ s/[^\w\- ]//gr =~ tr/ /-/r;
}

# The anchors of a page.
sub anchors_of
{
	my ($page) = @_;
	open my $handle, '<:encoding(UTF-8)', $page or die "$page: $!";
	return { map { /^#+ (.*?)\s*$/ ? (anchor_of($1) => 1) : () } <$handle> };
}

my @broken;
for my $page (glob '*.md docs/*.md data/*.md')
{
	open my $handle, '<:encoding(UTF-8)', $page or die "$page: $!";
	my $text = join '', <$handle>;
	$text =~ s/^(```.*?^```|    .*?)$//gms;
	while ($text =~ /\]\(([^)\s]+)\)/g)
	{
		my $link = $1;
		my ($target, $anchor) = split /#/, $link, 2;
		next if $target =~ /^[a-z]+:/;
		my $file = $target eq '' ? $page : dirname($page) . "/$target";
		push @broken, "$page: $link" if !-e $file || (defined $anchor && $file =~ /\.md$/ && !anchors_of($file)->{$anchor});
	}
}
is(join("\n", @broken), '', 'all links lead somewhere');
