# Labels that are merged while others read: nobody waits, all see whole sets, and only rows that changed are written, logged and published.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use GkServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 60000;
my $moved = $rows / 20;
my $node = start_server('labels_merge');
$node->append_conf('postgresql.conf', "gkmeans.engine = cpu\nwal_level = logical\nautovacuum = off\ncheckpoint_timeout = 1h\nmax_wal_size = 8GB\nclient_min_messages = warning");
$node->restart;
$node->safe_psql('postgres', <<~SQL);
	CREATE TABLE points AS SELECT i AS id, (i % 2) * 100 + noise(i, 1) AS x FROM generate_series(1, $rows) i;
	SELECT gkmeans_import_model('m', '{{0},{100}}', '{x}');
	CREATE TABLE labels (id int PRIMARY KEY, cluster_id int, distance float8);
	CREATE TABLE replaced (LIKE labels INCLUDING ALL);
	CREATE TABLE without_distance (id int PRIMARY KEY, cluster_id int);
	SELECT gkmeans_assign('m', 'points', 'id', 'labels'), gkmeans_assign('m', 'points', 'id', 'replaced'), gkmeans_assign('m', 'points', 'id', 'without_distance');
	CREATE PUBLICATION changes FOR TABLE labels, without_distance;
	SELECT pg_create_logical_replication_slot('published', 'pgoutput');
	CREATE TABLE written AS SELECT id, xmin::text::bigint AS writer FROM labels;
	UPDATE points SET x = x + 0.001;
	UPDATE points SET x = 100 - x WHERE id % 20 = 7;
	SQL

# What the server writes ahead, from a checkpoint on: the pages that are touched are logged as a whole.
sub bytes_of
{
	my ($query) = @_;
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $before = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	my $answer = $node->safe_psql('postgres', $query);
	return ($node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'"), $answer);
}

# Messages of the publication since the last call, by their kind: U = update …
sub published
{
	return $node->safe_psql('postgres', q{SELECT string_agg(kind || n, ' ' ORDER BY kind) FROM (SELECT chr(get_byte(data, 0)) AS kind, count(*) AS n
		FROM pg_logical_slot_get_binary_changes('published', NULL, NULL, 'proto_version', '1', 'publication_names', 'changes') GROUP BY 1) k WHERE kind IN ('D', 'I', 'T', 'U')});
}

is($node->safe_psql('postgres', q{SELECT updated FROM gkmeans_assign('m', 'points', 'id', 'without_distance')}), $moved, 'without a distance the rows that moved are written');
is(published(), "U$moved", 'and published: the others are not');
is($node->safe_psql('postgres', q{SELECT updated FROM gkmeans_assign('m', 'points', 'id', 'labels')}), $rows, 'with a distance all whose distance changed');
is(published(), "U$rows", 'and published');
is($node->safe_psql('postgres', 'SELECT count(*) FROM labels JOIN written USING (id) WHERE labels.xmin::text::bigint = writer'), '0', 'no row is the one of before');

# 5 % of the rows move, and no other changes, in a table without gaps
$node->safe_psql('postgres', "VACUUM FULL $_") for ('labels', 'replaced');
$node->safe_psql('postgres', q{CREATE TABLE kept AS SELECT id, xmin::text::bigint AS writer, ctid::text AS place FROM labels; UPDATE points SET x = 100 - x WHERE id % 20 = 3});
# the reading of the source is to log nothing
$node->safe_psql('postgres', 'VACUUM points');
my ($merged, $updated) = bytes_of(q{SELECT updated FROM gkmeans_assign('m', 'points', 'id', 'labels', 'merge')});
my ($replaced, $inserted) = bytes_of(q{SELECT inserted FROM gkmeans_assign('m', 'points', 'id', 'replaced', 'replace')});
is("$updated $inserted", "$moved $rows", 'a merge updates what moved, TRUNCATE and INSERT write all');
is($node->safe_psql('postgres', q{SELECT count(*) FROM labels JOIN replaced USING (id, cluster_id, distance)}), $rows, 'the labels are the same');
cmp_ok($merged, '<=', 0.6 * $replaced, "a merge logs at most 0.6 of that: $merged of $replaced bytes");
is($node->safe_psql('postgres', q{SELECT count(*) FROM labels l JOIN kept k USING (id) WHERE l.xmin::text::bigint = k.writer AND l.ctid::text = k.place AND id % 20 <> 3}), $rows - $moved, 'rows that did not change are not touched');
is($node->safe_psql('postgres', q{SELECT count(*) FROM labels l JOIN kept k USING (id) WHERE l.xmin::text::bigint = k.writer AND id % 20 = 3}), '0', 'those that moved are');
is(published(), "U$moved", 'a subscriber gets these');
my ($nothing) = bytes_of(q{SELECT gkmeans_assign('m', 'points', 'id', 'labels')});
cmp_ok($nothing, '<', $merged / 10, "a merge of what is there logs next to nothing: $nothing bytes");

# Readers beside writers: each version of the model puts its number into all rows
$node->safe_psql('postgres', <<~SQL);
	SELECT gkmeans_import_model('m', '{{1},{101}}', '{x}', if_exists => 'replace');
	CREATE TABLE small AS SELECT * FROM points WHERE id <= 5000;
	CREATE TABLE watched (id int PRIMARY KEY, cluster_id int, distance float8, version int);
	SELECT gkmeans_assign('m', 'small', 'id', 'watched');
	CREATE TABLE finished (yes bool);
	CREATE TABLE seen (isolation text, least bigint, most bigint, versions bigint, same bool, reads bigint);
	CREATE PROCEDURE watch() LANGUAGE plpgsql AS \$\$
	DECLARE
		one record; other record; least bigint := 5000; most bigint := 5000; versions bigint := 1; same bool := true; reads bigint := 0;
	BEGIN
		LOOP
			SELECT count(*) AS n, count(DISTINCT version) AS v, sum(distance) AS d INTO one FROM watched;
			PERFORM pg_sleep(0.001);
			SELECT count(*) AS n, count(DISTINCT version) AS v, sum(distance) AS d INTO other FROM watched;
			least := least(least, one.n, other.n); most := greatest(most, one.n, other.n); versions := greatest(versions, one.v, other.v);
			same := same AND one = other; reads := reads + 1;
			COMMIT;
			EXIT WHEN (SELECT count(*) > 0 FROM finished);
			COMMIT;
		END LOOP;
		INSERT INTO seen VALUES (current_setting('default_transaction_isolation'), least, most, versions, same, reads);
	END \$\$;
	SQL
my @readers;
for my $isolation ('read committed', 'repeatable read')
{
	my $reader = $node->background_psql('postgres', on_error_stop => 0);
	# whoever waits for a lock of a table gives up
	$reader->query_safe("SET default_transaction_isolation = '$isolation'; SET lock_timeout = '10ms'");
	start_query($reader, 'CALL watch()');
	push @readers, $reader;
}
for my $number (0 .. 11)
{
	my ($mode, $version) = ($number % 3 == 2 ? 'delete' : 'merge', 1 + $number % 2);
	is($node->safe_psql('postgres', "SELECT updated + inserted FROM gkmeans_assign('m', 'small', 'id', 'watched', '$mode', version => $version)"), '5000', "write number $number, $mode: all rows get version $version");
}
$node->safe_psql('postgres', 'INSERT INTO finished VALUES (true)');
for my $reader (@readers)
{
	is($reader->query('SELECT 1'), '1', 'a reader goes on');
	is($reader->{stderr}, '', 'it never had to wait');
	$reader->quit;
}
is($node->safe_psql('postgres', 'SELECT min(least), max(most), max(versions), count(*), min(reads) > 3 FROM seen'), '5000|5000|1|2|t', 'every reader saw all rows of one version, always');
is($node->safe_psql('postgres', q{SELECT same FROM seen WHERE isolation = 'repeatable read'}), 't', 'a snapshot does not change');

end_server($node);
done_testing();
