"""Fits over several servers, beside the same rows in a local table of the server that fits.

Connects to the server that PGHOST and PGPORT name, one that scripts/cluster has started: with Citus it
makes distributed tables, without it partitions on the foreign servers.  Prints a Markdown table of seconds,
the least of several runs in turn, and checks that every fit gave the same bits.
"""

import argparse
import sys
import time

from common import Bench

DIMENSION = 32
K = 100
ITERATIONS = 12


class ClusterBench(Bench):
    """The same rows kept in several ways."""

    def __init__(self, options):
        super().__init__(options)
        self.citus = bool(self.query("SELECT FROM pg_extension WHERE extname = 'citus'"))
        self.digests = set()

    def run(self, text):
        self.cursor.execute(text)

    def make_tables(self):
        self.run("DROP TABLE IF EXISTS bench_local, bench_labels_local")
        self.run("DROP TABLE IF EXISTS bench_labels, bench_copy, bench_rows CASCADE")
        self.run(f"""CREATE TABLE bench_local AS SELECT i::bigint AS id, ARRAY(SELECT
            ((hashint8extended(i, j) & 4294967295)::float8 / 429496729.6 + i % {K} * 7 % 13)::real
            FROM generate_series(1, {DIMENSION}) j)::real[] AS v FROM generate_series(1, {self.options.rows}) i""")
        self.run("CREATE TABLE bench_labels_local (id bigint, cluster_id int, distance float8)")
        if self.citus:
            self.distribute()
        else:
            self.partition()
        if not self.citus:
            self.run("CREATE TABLE bench_copy (LIKE bench_labels_local)")
        self.run("INSERT INTO bench_rows SELECT * FROM bench_local")
        self.run("VACUUM ANALYZE bench_local")
        self.run("ANALYZE bench_rows")

    def distribute(self):
        self.run("CREATE TABLE bench_rows (LIKE bench_local)")
        self.run("SELECT create_distributed_table('bench_rows', 'id', shard_count => 8)")
        for name in ("bench_labels", "bench_copy"):
            self.run(f"CREATE TABLE {name} (id bigint, cluster_id int, distance float8)")
            self.run(f"SELECT create_distributed_table('{name}', 'id', colocate_with => 'bench_rows')")

    def partition(self):
        servers = [row[0] for row in self.query("SELECT srvname FROM pg_foreign_server ORDER BY 1")]
        self.run("CREATE TABLE bench_rows (LIKE bench_local) PARTITION BY HASH (id)")
        self.run("CREATE EXTENSION IF NOT EXISTS dblink")
        for number, server in enumerate(servers):
            self.run(f"SELECT dblink_exec('{server}', 'DROP TABLE IF EXISTS bench_rows')")
            self.run(f"SELECT dblink_exec('{server}', 'CREATE TABLE bench_rows (id bigint, v real[])')")
            self.run(f"""CREATE FOREIGN TABLE bench_rows_{number} PARTITION OF bench_rows
                FOR VALUES WITH (MODULUS {len(servers)}, REMAINDER {number}) SERVER {server}
                OPTIONS (table_name 'bench_rows', batch_size '1000')""")

    def fit(self, source, nodes, labels):
        """Seconds of a fit: reading, iterations and labels, and all of it."""
        self.run(f"SET gkmeans.nodes = '{nodes}'")
        into = f", id_column => 'id', labels_table => '{labels}', if_exists => 'replace'" if labels else ""
        seconds, answer = self.timed(
            f"SELECT md5(string_agg(f::text, '|' ORDER BY cluster_id)) FROM gkmeans_fit('{source}', '{{v}}', {K},"
            f" max_iter => {ITERATIONS}, tol => 0, quality => 'fast'{into}) f")
        self.digests.add(answer[0][0])
        return (*self.last_fit("read_seconds, iterate_seconds, nodes"), seconds)

    def least(self, ways):
        """The least seconds of each way, in rounds so that other work on the machine meets all of them alike."""
        found = {}
        for _ in range(self.options.repeat):
            for name, arguments in ways.items():
                got = self.fit(*arguments)
                if name not in found or got[-1] < found[name][-1]:
                    found[name] = got
        return found

    def fits(self):
        spread = "distributed" if self.citus else "partitioned"
        ways = {
            "local table": ("bench_local", "", None),
            f"{spread} table, gkmeans.nodes = ''": ("bench_rows", "", None),
            f"{spread} table, gkmeans.nodes = 'auto'": ("bench_rows", "auto", None),
        }
        found = self.least(ways)
        local = found["local table"]
        print("\n| source | nodes | read s | iterate s | whole s | read, as a multiple of the local table's |")
        print("|---|--:|--:|--:|--:|--:|")
        for name, (read, iterate, nodes, whole) in found.items():
            print(f"| {name} | {nodes} | {read:.2f} | {iterate:.2f} | {whole:.2f} | {read / local[0]:.1f} |")
        print(f"\nthe same bits: {self.verdict(len(self.digests) == 1)}")

    def copy_seconds(self, source, target):
        """The same labels, copied into a table like theirs by one INSERT."""
        least = None
        for _ in range(self.options.repeat):
            self.run(f"TRUNCATE {target}")
            started = time.perf_counter()
            self.run(f"INSERT INTO {target} SELECT * FROM {source}")
            seconds = time.perf_counter() - started
            least = seconds if least is None else min(least, seconds)
        return least

    def labels(self):
        table = "bench_labels" if self.citus else "bench_labels_local"
        ways = {}
        for nodes in ("", "auto"):
            ways[f"fit, gkmeans.nodes = '{nodes}'"] = ("bench_rows", nodes, None)
            ways[f"fit with labels, gkmeans.nodes = '{nodes}'"] = ("bench_rows", nodes, table)
        found = self.least(ways)
        print("\n| labels into a " + ("co-located distributed table" if self.citus else "local table") + " | whole s |")
        print("|---|--:|")
        for name, got in found.items():
            print(f"| {name} | {got[-1]:.2f} |")
        print(f"| INSERT … SELECT of the labels, once written | {self.copy_seconds(table, 'bench_copy'):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--repeat", type=int, default=3)
    bench = ClusterBench(parser.parse_args())
    bench.make_tables()
    bench.fits()
    bench.labels()
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
