# A node that lies: whatever it answers, the server that fits reports an error or ends the fit, and never crashes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $server = start_server('server');
my $host = $server->host;
my $port = $server->port;
$server->safe_psql('postgres', <<~SQL);
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE few AS SELECT i AS id, noise(i, 1) AS x, 1e9 + noise(i, 2) AS y, ARRAY[noise(i, 3), noise(i, 4)] AS v FROM generate_series(1, 60) i;
	CREATE SERVER liar FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'liar');
	CREATE SERVER honest FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'honest');
	CREATE USER MAPPING FOR CURRENT_USER SERVER liar;
	CREATE USER MAPPING FOR CURRENT_USER SERVER honest;
	SQL
for my $database ('liar', 'honest')
{
	$server->safe_psql('postgres', "CREATE DATABASE $database");
	$server->safe_psql($database, <<~'SQL');
		CREATE EXTENSION gkmeans;
		CREATE FUNCTION noise(bigint, int) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
			'SELECT (hashint8extended($1, $2) & 4294967295)::float8 / 4294967296.0';
		CREATE TABLE few AS SELECT i AS id, noise(i, 1) AS x, 1e9 + noise(i, 2) AS y, ARRAY[noise(i, 3), noise(i, 4)] AS v FROM generate_series(1, 40) i;
		SQL
}

# The functions of a node, between the server and the true ones; settings of the database say what to change.
$server->safe_psql('liar', <<~'SQL');
	ALTER SCHEMA gkmeans RENAME TO honest;
	CREATE SCHEMA gkmeans;
	CREATE SCHEMA lies;
	CREATE FUNCTION lies.asked(what text) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT nullif(current_setting('lies.' || what, true), '') $$;
	CREATE FUNCTION gkmeans.gkmeans_node_open(int, text, text[], text, text, text, bool, bool, bigint, bigint, bigint, OUT engine text, OUT engine_reason text, OUT columns text)
		LANGUAGE plpgsql AS $$ BEGIN
			SELECT * INTO engine, engine_reason, columns FROM honest.gkmeans_node_open($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);
			IF lies.asked('open') IS NOT NULL THEN EXECUTE 'SELECT ' || lies.asked('open') INTO engine, engine_reason, columns; END IF;
		END $$;
	CREATE FUNCTION gkmeans.gkmeans_node_load(int, float8[], OUT r bigint, OUT s bigint, OUT d int, OUT shift float8[], OUT least_ float8[], OUT greatest_ float8[],
			OUT nulls_ bigint[], OUT not_finite bigint[], OUT zeros bigint, OUT workers int, OUT twice bool, OUT seconds float8, OUT has_foreign bool)
		LANGUAGE plpgsql AS $$ DECLARE l record; BEGIN
			SELECT * INTO r, s, d, shift, least_, greatest_, nulls_, not_finite, zeros, workers, twice, seconds, has_foreign FROM honest.gkmeans_node_load($1, $2);
			IF lies.asked('load') IS NOT NULL THEN
				EXECUTE format('SELECT %s FROM (VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)) AS l (r, s, d, shift, least, greatest, nulls, not_finite, zeros, workers, twice, seconds, has_foreign)', lies.asked('load'))
					INTO r, s, d, shift, least_, greatest_, nulls_, not_finite, zeros, workers, twice, seconds, has_foreign
					USING r, s, d, shift, least_, greatest_, nulls_, not_finite, zeros, workers, twice, seconds, has_foreign;
			END IF;
		END $$;
	CREATE FUNCTION gkmeans.gkmeans_node_ids() RETURNS TABLE (id text, row_number text) LANGUAGE plpgsql AS $$ BEGIN
			RETURN QUERY EXECUTE 'SELECT lies.id, lies.number::text FROM (SELECT ' || coalesce(lies.asked('ids'), '*') || ' FROM honest.gkmeans_node_ids() i) AS lies(id, number)';
		END $$;
	CREATE FUNCTION gkmeans.gkmeans_node_put(bytea) RETURNS void LANGUAGE sql AS 'SELECT honest.gkmeans_node_put($1)';
	CREATE FUNCTION gkmeans.gkmeans_node_take() RETURNS bytea LANGUAGE plpgsql AS $$ DECLARE part bytea; BEGIN
			part := honest.gkmeans_node_take();
			IF lies.asked('take') IS NOT NULL THEN EXECUTE 'SELECT ' || lies.asked('take') INTO part USING part; END IF;
			RETURN part;
		END $$;
	-- lies.answer: the number of the answer to change, and an SQL expression of $1, its bytes
	CREATE FUNCTION gkmeans.gkmeans_node_run(bytea) RETURNS bytea LANGUAGE plpgsql AS $$ DECLARE part bytea; BEGIN
			part := honest.gkmeans_node_run($1);
			PERFORM set_config('lies.count', (coalesce(lies.asked('count'), '0')::int + 1)::text, false);
			IF lies.asked('answer')::int = lies.asked('count')::int THEN
				EXECUTE 'SELECT ' || lies.asked('change') INTO part USING part;
			END IF;
			-- lies.operation: which answers to change; lies.fake: an expression of the answer, the message, and how often it was so before
			IF get_byte($1, 20)::text = lies.asked('operation') THEN
				EXECUTE 'SELECT ' || lies.asked('fake') INTO part USING part, $1, coalesce(lies.asked('times'), '0')::int;
				PERFORM set_config('lies.times', (coalesce(lies.asked('times'), '0')::int + 1)::text, false);
			END IF;
			RETURN part;
		END $$;
	-- an answer whose header tells another size
	CREATE FUNCTION lies.sized(answer bytea, bytes bigint) RETURNS bytea LANGUAGE sql AS $$
		SELECT overlay(answer PLACING (SELECT string_agg(substr(int8send(bytes), n, 1), ''::bytea ORDER BY n DESC) FROM generate_series(1, 8) n) FROM 49) $$;
	-- an answer whose bytes from one on are these words again and again
	CREATE FUNCTION lies.words(answer bytea, words text, begin_at int = 81) RETURNS bytea LANGUAGE sql AS $$
		SELECT substr(answer, 1, begin_at - 1) || substr(decode(repeat(words, length(answer) / 8), 'hex'), 1, length(answer) - begin_at + 1) $$;
	CREATE FUNCTION lies.flipped(answer bytea, seed int) RETURNS bytea LANGUAGE sql AS $$
		SELECT CASE WHEN length(answer) = 0 THEN answer ELSE set_byte(answer, abs(hashint4(seed)) % length(answer), get_byte(answer, abs(hashint4(seed)) % length(answer)) # (1 << abs(hashint4(seed + 1)) % 8)) END $$;
	SQL

my $started = $server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my $fit = "SELECT count(*) FROM gkmeans_fit('few', '{x,y}', 3, n_init => 2, scale => 'standard')";
my $ids = "SELECT count(*) FROM gkmeans_fit_predict(NULL::int, 'few', '{x,y}', 3, id_column => 'id')";

# Runs a fit while the node lies in some way; its error, or what it returns.
my @internal;
sub answer_to
{
	my ($query, %lies) = @_;
	my $nodes = delete $lies{nodes} // 'honest, liar';
	my $settings = join(' ', map { my $value = $lies{$_} =~ s/([\\ ])/\\$1/gr; "-c lies.$_=$value" } sort keys %lies);
	$settings =~ s/'/''/g;
	my ($status, $out, $error) = $server->psql('postgres', <<~SQL, on_error_stop => 0);
		\\set VERBOSITY verbose
		ALTER SERVER liar OPTIONS (ADD options '$settings');
		SET statement_timeout = '20s';
		SET gkmeans.nodes = '$nodes';
		$query;
		ALTER SERVER liar OPTIONS (DROP options);
		SQL
	die "the server is gone: $error" if $status != 0;
	push @internal, $error if $error =~ /:  XX/;
	return $error =~ /ERROR:/ ? $error : $out;
}

is($server->safe_psql('postgres', "SET gkmeans.nodes = 'honest, liar'; $fit"), 3, 'without a lie, the fit succeeds');
is($server->safe_psql('postgres', "SET gkmeans.nodes = 'honest, liar'; $ids"), 80, 'with ids as well');
my $invalid = qr/08P01: node "liar" sent an invalid answer/;

like(answer_to($fit, open => "NULL, 'x', 'y'"), $invalid, 'no engine');
like(answer_to($fit, open => "'cpu', 'x', 'y'"), qr/columns of the source on node "liar" differ/, 'other columns');
my @same = qw(r s d shift least greatest nulls not_finite zeros workers twice seconds has_foreign);
my %loads = (
	r => [ '-1', 'NULL::bigint', '9223372036854775807', '1::bigint<<41', '0::bigint', '39::bigint' ],
	s => [ '-1', '41::bigint', 'NULL::bigint', '40::bigint' ],
	d => [ '-1', '0', '3', '65536', 'NULL::int', '2147483647' ],
	shift => [ 'NULL::float8[]', "'{}'::float8[]", "'{1}'::float8[]", "'{NaN,0}'::float8[]", "'{Infinity,0}'::float8[]", "'{NULL,0}'::float8[]", "'{1,2,3}'::float8[]" ],
	least => [ "'{}'::float8[]", "'{NaN,0}'::float8[]", "'{1e300,1e300}'::float8[]", 'NULL::float8[]' ],
	greatest => [ 'NULL::float8[]', "'{-1e300,0}'::float8[]", "'{-Infinity,0}'::float8[]" ],
	nulls => [ 'NULL::bigint[]', "'{}'::bigint[]", "'{1,2,3}'::bigint[]", "'{-1,0,0}'::bigint[]", "'{0,0}'::bigint[]" ],
	not_finite => [ 'NULL::bigint[]', "'{9223372036854775807,0,0}'::bigint[]" ],
	zeros => [ '-1', '1::bigint', 'NULL::bigint' ],
	workers => [ 'NULL::int', '-1', '2147483647' ], twice => ['NULL::bool'],
	seconds => [ 'NULL::float8', "'NaN'::float8", "'Infinity'::float8", '-1::float8' ],
	has_foreign => ['NULL::bool'],
);
for my $column (sort keys %loads)
{
	for my $lie (@{ $loads{$column} })
	{
		my $answer = answer_to($fit, load => join(',', map { $_ eq $column ? "($lie)" : "l.$_" } @same));
		like($answer, $invalid, "rows: $column = $lie");
	}
}
like(answer_to($fit, load => join(',', map { $_ eq 'shift' ? "'{0,1e300}'::float8[]" : "l.$_" } @same)), qr/^3$|rows of the nodes changed|08P01: node "liar"/, 'a shift that it did not subtract');
my %again = (
	d => "CASE current_setting('lies.loaded', true) WHEN 'once' THEN 60000 ELSE l.d END",
	shift => "CASE current_setting('lies.loaded', true) WHEN 'once' THEN array_fill(1::float8, ARRAY[60000]) ELSE '{5,5}' END",
	least => "CASE current_setting('lies.loaded', true) WHEN 'once' THEN NULL ELSE l.least END",
	seconds => "CASE set_config('lies.loaded', 'once', false) WHEN 'once' THEN l.seconds END");
like(answer_to("SELECT count(*) FROM gkmeans_fit('few', '{v}', 3)", nodes => 'liar', load => join(',', map { $again{$_} // "l.$_" } @same)),
	qr/40001: the rows of the nodes changed/, 'more features the second time');
my @wrong_ids = ("i.id,i.row_number+1", "i.id,-2::bigint", "i.id,NULL::bigint", "i.id,(1::bigint<<62)");
like(answer_to($ids, ids => $_), $invalid, "ids: $_") for @wrong_ids, map { "i.id,$_" } ("'5&'::text", "''::text", "'9223372036854775808'::text", "'x'::text");
like(answer_to($ids, ids => "'x'||i.id,i.row_number"), qr/invalid input syntax for type integer/, 'ids of another type');
is(answer_to($ids, ids => 'NULL::text,i.row_number'), 80, 'ids that are NULL');
is(answer_to($ids, ids => 'i.id,0::bigint'), 80, 'ids of the same row');
my $figures = "SELECT count(*) FROM gkmeans_evaluate_labels('few', '{x,y}', label_column => 'id')";
is(answer_to($figures), 1, 'labels that are true');
like(answer_to($figures, ids => $_), qr/08P01: answers of nodes "honest", "liar" contradict each other\nDETAIL:  In them, rows have several labels, or none/, "labels: $_")
	for ('i.id,0::bigint', 'i.id,i.row_number/2', 'i.id,-1::bigint', "CASE WHEN i.row_number > 0 THEN i.id END,0::bigint");

# A pooler between the servers does not know what was prepared by SQL.
is(answer_to($fit, answer => 3, change => q{CASE WHEN EXISTS (SELECT FROM pg_prepared_statements WHERE from_sql) THEN NULL ELSE $1 END}), 3, 'no statements prepared by SQL');

# Answers to messages.
my @changes = ((map { "overlay(\$1 PLACING decode('ffffffffffffffff', 'hex') FROM $_)" } 57, 65, 73), 'NULL::bytea', "''::bytea", "'x'::bytea", '$1 || $1', "decode(repeat('ff', length(\$1)), 'hex')", "decode(repeat('00', length(\$1)), 'hex')",
	'substr($1, 1, length($1) / 2)', 'substr($1, 1, length($1) - 1)', (map { "lies.sized(\$1, $_)" } '-1', '0', '1', 'length($1) + 1', 'length($1) - 1', '1::bigint<<62', '9223372036854775807'),
	'lies.sized($1 || $1, 2 * length($1))', 'lies.sized(substr($1, 1, length($1) / 2), length($1) / 2)', 'lies.sized(substr($1, 1, length($1) - 1), length($1) - 1)');
for my $number (1, 2, 3, 6, 9)
{
	for my $change (@changes)
	{
		my $answer = answer_to($fit, answer => $number, change => $change);
		like($answer, $invalid, "answer $number: $change");
	}
}

# Answers that are as they should be, but not true.
my %operations = (masses => 7, entries => 8, label_weights => 10, rows => 12, statistics => 21, fetch => 25);
my $contradiction = qr/08P01: answers of node "liar" contradict each other/;
my $drawn = "SELECT count(*) FROM gkmeans_select_k('few', '{x,y}', '{2,3}', criterion => 'silhouette', sample => 20)";
my $model = "SELECT count(*) FROM gkmeans_create_model('lied', 'few', '{x,y}', 3)";
my $labels = "SELECT count(*) FROM gkmeans_fit_predict(NULL::int, 'few', '{x,y}', 3, id_column => 'id')";
sub fake { my ($operation, $fake) = @_; return (operation => $operations{$operation}, fake => $fake, nodes => 'liar'); }
is(answer_to($_, nodes => 'liar'), $_ eq $labels ? 40 : $_ eq $drawn ? 2 : 3, "without a lie: $_") for ($drawn, $labels);
for my $words ('0000000000000000', '0100000000000000', '0000000000000010', 'ffffffffffffff7f')
{
	# the grid of whole numbers counts the rows
	my $lie = "CASE WHEN substr(\$2, 89, 8) = decode(repeat('00', 8), 'hex') THEN lies.words(\$1, '$words') ELSE \$1 END";
	like(answer_to($drawn, fake('masses', $lie)), qr/$contradiction\nDETAIL:  In them, the rows were summed to another number|$invalid/, "rows in each bucket: $words");
}
my $fewer = "lies.sized(substr(\$1, 1, 80) || decode(repeat('00', 8), 'hex') || substr(\$1, 89, 8), 96)";
like(answer_to($drawn, fake('entries', $fewer)), qr/$contradiction\nDETAIL:  In them, fewer rows are listed than were summed/, 'no rows of those buckets');
my $relocated = "SELECT count(*) FROM gkmeans_fit('few', '{v}', initial_centroids => '{{0,0},{1,1},{1000,1000}}')";
is(answer_to($relocated, nodes => 'liar'), 3, 'without a lie, an empty cluster gets a row');
like(answer_to($relocated, fake('rows', "lies.words(\$1, '0000000000000070')")), $contradiction, 'weights that the sums do not have');
my $none = "overlay(\$1 PLACING decode(repeat('00', 24), 'hex') FROM 81)";
my $one = "overlay(\$1 PLACING decode('28' || repeat('00', 23), 'hex') FROM 81)";
for my $query ($labels, $model)
{
	like(answer_to($query, fake('statistics', $none)), $invalid, "no cluster has rows: $query");
	like(answer_to($query, fake('statistics', $one)), $invalid, "one has all of them: $query");
}
my $other = "CASE WHEN length(\$1) = 560 THEN lies.words(\$1, CASE \$3 % 2 WHEN 0 THEN '000000000000f03f' ELSE '0000000000000041' END, 241) ELSE \$1 END";
my $changed = qr/contradict each other\nDETAIL:  In them, distances are not those of before/;
like(answer_to($model, fake('fetch', $other)), qr/08P01: answers of node "liar" $changed/, 'other distances each time');
like(answer_to($model, fake('fetch', $other), nodes => 'honest, liar'), qr/08P01: answers of nodes "honest", "liar" $changed/, 'other distances of one of two');
my $seeded = "SELECT count(*) FROM gkmeans_fit('few', '{x,y}', 3, init => 'k-means||', quality => 'fast')";
is(answer_to($seeded, fake('label_weights', "lies.words(\$1, 'ffffffffffffff7f')")), 3, 'candidates of great weight');
like(answer_to($seeded, fake('label_weights', "lies.words(\$1, '0000000000000080')")), $invalid, 'candidates of negative weight');
like(answer_to($seeded, fake('label_weights', "lies.words(\$1, 'ffffffffffffff7f')"), nodes => 'honest, liar'), $invalid, 'weights that overflow');

# A chain of many unions, and as many that are looked for from its end on: it takes seconds, and can be cancelled.
$server->safe_psql('liar', <<~'SQL');
	CREATE TABLE many AS SELECT noise(i, 1) AS x FROM generate_series(1, 100000) i;
	CREATE FUNCTION lies.integers(numbers int[]) RETURNS bytea LANGUAGE sql AS $$
		SELECT string_agg(substr(b, 4, 1) || substr(b, 3, 1) || substr(b, 2, 1) || substr(b, 1, 1), '' ORDER BY o) || CASE WHEN cardinality(numbers) % 2 = 1 THEN '\x00000000'::bytea ELSE '' END
		FROM (SELECT int4send(n) AS b, o FROM unnest(numbers) WITH ORDINALITY u (n, o)) s $$;
	CREATE FUNCTION lies.chain(answer bytea, message bytea) RETURNS bytea LANGUAGE plpgsql AS $$
	DECLARE
		points int := get_byte(message, 80) + 256 * get_byte(message, 81) + 65536 * get_byte(message, 82);
		half int := points / 2;
		parts int[];
		rounds int[];
	BEGIN
		SELECT array_agg(CASE WHEN i <= half THEN i - 1 ELSE half END ORDER BY i), array_agg(CASE WHEN i = 0 THEN -1 WHEN i <= half THEN half - i ELSE i - 1 END ORDER BY i)
			INTO parts, rounds FROM generate_series(0, points - 1) i;
		PERFORM pg_advisory_lock(1);
		RETURN substr(answer, 1, 80) || lies.integers(parts) || lies.integers(rounds) || lies.integers(array_fill(0, ARRAY[points]));
	END $$;
	SQL
$server->safe_psql('postgres', 'CREATE TABLE many (x float8)');
my ($session, $pid) = new_session($server);
$server->safe_psql('postgres', "ALTER SERVER liar OPTIONS (ADD options '-c lies.operation=11 -c lies.fake=lies.chain(\$1,\$2)')");
start_query($session, "SET gkmeans.nodes = 'liar'; SELECT count(*) FROM gkmeans_fit('many', '{x}', 40000, max_iter => 1, quality => 'fast', init => 'k-means||')");
ok($server->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND state = 'idle in transaction')"),
	'the node has told of a chain of unions');
usleep(300_000);
cmp_ok($server->safe_psql('postgres', "SELECT ms_until_idle($pid, 'pg_cancel_backend')"), '<', slack_ms(), 'cancelled while they are made');
$session->query('SELECT 1');
like($session->{stderr}, qr/canceling statement due to user request/, 'and not before');
eval { $session->quit };
$server->safe_psql('postgres', 'ALTER SERVER liar OPTIONS (DROP options)');

my $refused = 0;
for my $seed (1 .. 150)
{
	my $answer = answer_to($seed % 3 ? $fit : $ids, answer => 1 + $seed % 25, change => "lies.flipped(\$1, $seed)");
	$refused++ if $answer =~ /ERROR/;
}
cmp_ok($refused, '>', 20, "of 150 answers with one bit flipped, $refused are refused, and the others harm nobody");
is(join("\n", @internal), '', 'no lie is an internal error');
is($server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server did not restart');
ok($server->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'gkmeans')"), 'no session is left');
is($server->safe_psql('postgres', "$fit"), 3, 'and it goes on');
end_server($server);
done_testing();
