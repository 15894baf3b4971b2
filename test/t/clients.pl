# What BI tools see through their drivers (psycopg 2 and 3, ODBC, JDBC), as a role with SELECT on one model and nothing
# else: every view of schema gkmeans with its types, keys and comments, no other model; and scoring with parameters.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $programs = "$FindBin::Bin/../clients";
my $python = $ENV{PYTHON} // '/usr/bin/python3';
my $jdbc = '/usr/share/java/postgresql.jar';
my $classes = PostgreSQL::Test::Utils::tempdir();

my $node = start_server('clients');
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\ntimezone = 'Asia/Kolkata'");
$node->restart;
$node->safe_psql('postgres', <<~'SQL');
	CREATE ROLE tool LOGIN;
	CREATE TABLE customers AS SELECT i AS id, i % 7 * 10.0 AS spent, i % 3 AS visits FROM generate_series(1, 500) i;
	SELECT gkmeans_create_model('segments', 'customers', '{spent,visits}', 4, id_column => 'id', labels_table => 'labels');
	SELECT gkmeans_create_model('segments', 'customers', '{spent,visits}', 3, scale => 'standard', if_exists => 'replace',
		note => E'a "note",\twith a tab and\ntwo lines: é ∑ 😀');
	SELECT gkmeans_name_clusters('segments', '{Über uns,NULL,"<b>''c''</b>"}');
	INSERT INTO customers SELECT i, i % 5 * 12.0, i % 4 FROM generate_series(501, 700) i;
	SELECT gkmeans_refit('segments', deploy => 'always', note => 'once more');
	COMMENT ON TABLE segments IS 'kinds of customers';
	SELECT gkmeans_create_model('secret', 'customers', '{spent,visits}', 3);
	SELECT gkmeans_import_model('imported', '{{1,2},{3,4}}');
	GRANT SELECT ON segments TO tool;
	SQL

# What the views hold, as the programs print it
my @allowed = ('bool', 'float8', 'int4', 'int8', 'text', 'timestamptz');
my $columns = q{SELECT c.relname, a.attname, t.typname, a.attnum, col_description(c.oid, a.attnum)
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 JOIN pg_type t ON t.oid = a.atttypid
	WHERE relnamespace = 'gkmeans'::regnamespace AND relkind = 'v' ORDER BY 1, 4};
my (%types, %keys, @remarks, @expected);
for my $line (split /\n/, $node->safe_psql('postgres', $columns))
{
	my ($view, $column, $type, $number, $remark) = split /\|/, $line, 5;
	$types{$view}{$column} = $type;
	$keys{$view} = $column if $number == 1;
	push @remarks, "remark\t$view\t$column\t$remark";
	push @expected, "column\t$view\t$column\t$type";
}
is(scalar(grep { my $type = $_; !grep { $_ eq $type } @allowed } map { values %$_ } values %types), 0, 'no column of another type than those listed');
is(scalar(grep { /\t$/ } @remarks), 0, 'every column is commented');
my %documented = slurp_file("$FindBin::Bin/../../docs/models.md") =~ /^\| `(\w+)` \| [^|]+ \| `(\w+)`/mg;
is_deeply(\%keys, \%documented, 'the documentation lists the views and their keys');
for my $refers (slurp_file("$FindBin::Bin/../../docs/models.md") =~ /^\| (`\w+` \| [^|]+ \| `\w+_key`[^|]* \|.*) \|$/mg)
{
	my ($view, @names) = $refers =~ /`(\w+)`/g;
	is(scalar(grep { !exists $types{$view}{$_} } @names), 0, "gkmeans.$view has the keys that the documentation lists");
}
my %form = (
	bool => q{CASE WHEN %1$s THEN 'true' ELSE 'false' END},
	float8 => q{'float ' || encode(float8send(%1$s), 'hex')},
	int4 => q{%1$s::text},
	int8 => q{%1$s::text},
	text => q{replace(replace(%1$s, E'\n', '\n'), E'\t', '\t')},
	timestamptz => q{'at ' || (extract(epoch FROM %1$s) * 1000000)::bigint});

# What changes from one statement to the next is not compared.  Pictures show times in the zone of the session.
sub is_constant { return $_[0] !~ /^(?:value\tmodels\t[^\t]*\tage_hours|[a-z]+\tprogress)\t/; }

for my $view (sort keys %types)
{
	my $key = sprintf($form{ $types{$view}{ $keys{$view} } }, qq{"$keys{$view}"});
	my @values = map { sprintf(q{('%s', COALESCE(%s, 'NULL'))}, $_, sprintf($form{ $types{$view}{$_} }, qq{"$_"})) } sort keys %{ $types{$view} };
	my $rows = $node->safe_psql('postgres', "SET ROLE tool; SET timezone = 'UTC'; SELECT concat_ws(E'\\t', 'value', '$view', $key, c, v) FROM gkmeans.$view, LATERAL (VALUES " . join(', ', @values) . ') v(c, v)');
	push @expected, split /\n/, $rows;
	my ($count, $distinct, $nulls) = split /\|/, $node->safe_psql('postgres', "SELECT count(*), count(DISTINCT $keys{$view}), count(*) FILTER (WHERE $keys{$view} IS NULL) FROM gkmeans.$view");
	is("$distinct $nulls", "$count 0", "the key of gkmeans.$view is unique and not NULL, over all models");
	is($node->safe_psql('postgres', "SET ROLE tool; SELECT string_agg(DISTINCT model, ',') FROM gkmeans.$view"), $count > 0 ? 'public.segments' : '', "gkmeans.$view shows the role one model alone")
		if exists $types{$view}{model};
}
my @scores;
for my $i (1 .. 12)
{
	my ($spent, $visits) = ($i * 7.25, $i % 5);
	my $array = "'public.segments', ARRAY[$spent, $visits]";
	push @scores, split /\n/, $node->safe_psql('postgres', <<~SQL);
		SELECT E'array $i\\t' || gkmeans_predict($array) || '|float ' || encode(float8send(gkmeans_distance($array)), 'hex');
		SELECT E'columns $i\\t' || gkmeans_name('public.segments', $spent, $visits);
		SQL
}
my $one = $node->safe_psql('postgres', q{SELECT gkmeans_predict('segments', 14.5, 2)});
push @scores, "row\t$one", "NULL\tNULL", "model without cast\t$one", "other model\t42501\tpermission denied for table secret",
	"no model\t42P01\trelation \"public.nothing\" does not exist";
like("@scores", qr/\t$_/, "a customer is in $_") for 'Über uns', 'cluster 1', '<b>';

# What a parameter without a cast becomes is the driver's business.
my $unknown = "42P18\tcould not determine data type of parameter \$2";
my $varchar = "42804\targument 2 is of type character varying, which cannot be a feature";
my %uncast = (
	psycopg2 => [ $one, $one, 'NULL' ],        # puts the values into the text
	psycopg => [ $one, $unknown, $unknown ],
	pyodbc => [ $unknown, $unknown, $unknown ],
	jdbc => [ $one, $varchar, $unknown ]);

# What one driver sees
sub compare
{
	my ($driver, @command) = @_;
	my ($out, $error) = ('', '');
	my $ended = IPC::Run::run([ @command, '127.0.0.1', $node->port, 'postgres', 'tool' ], '<', \undef, '>', \$out, '2>', \$error);
	ok($ended, "$driver: the program ends") or diag($error);
	my @lines = grep { is_constant($_) } split /\n/, $out;
	my $lines = sub { return join("\n", sort(@_)) . "\n" };
	is($lines->(grep { /^column\t/ } @lines), $lines->(grep { /^column\t/ && is_constant($_) } @expected), "$driver: the views have the columns and types that are listed");
	is($lines->(grep { /^value\t/ } @lines), $lines->(grep { /^value\t/ && is_constant($_) } @expected), "$driver: every value arrives, bit for bit");
	is($lines->(grep { /^remark\t/ } @lines), $lines->(grep { is_constant($_) } @remarks), "$driver: the comments as well") if $driver eq 'jdbc';
	my ($numbers, $text, $null) = @{ $uncast{$driver} };
	is($lines->(grep { !/^(?:column|value|remark)\t/ } @lines), $lines->(@scores, "numbers without casts\t$numbers", "text without cast\t$text", "NULL without cast\t$null"), "$driver: scoring with parameters");
	return;
}

for my $driver ('psycopg2', 'psycopg', 'pyodbc')
{
	SKIP:
	{
		skip "$python has no $driver, or there is no ODBC driver for it", 4 if system("$python $programs/client.py $driver 2>/dev/null") != 0;
		compare($driver, $python, "$programs/client.py", $driver);
	}
}

SKIP:
{
	# The compiler of a JDK, or the one of Eclipse, which runs on a mere JRE; Debian 13 packages it without its classes
	my ($compiler) = grep { system("$_ -version >/dev/null 2>&1") == 0 } 'javac', 'ecj',
		'java -cp /usr/share/java/eclipse-jdt-core-compiler-batch.jar org.eclipse.jdt.internal.compiler.batch.Main';
	skip "there is no Java, no compiler for it, or no $jdbc", 5 if !$compiler || !-f $jdbc || system('java -version 2>/dev/null') != 0;
	system("$compiler -proc:none -source 11 -target 11 -nowarn -cp $jdbc -d $classes $programs/Client.java 2>$classes/said") == 0
		or BAIL_OUT("$compiler: " . slurp_file("$classes/said"));
	compare('jdbc', 'java', '-Duser.timezone=UTC', '-cp', "$classes:$jdbc", 'Client');
}

end_server($node);
done_testing();
