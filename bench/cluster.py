"""Fits over several servers, beside the same rows in a local table of the server that fits.

Connects to the server that PGHOST and PGPORT name, one that scripts/cluster has started: with Citus it
makes distributed tables, without it partitions on the foreign servers.  Prints Markdown tables of seconds,
the least of several runs in turn, and checks that every fit gave the same bits.  With --processor it counts the
seconds that all processes of the three servers have run on processors, which other work on the machine does not
change: it must run on that machine, and as their owner or root.
"""

import argparse
import os
import statistics
import sys
import time

from common import Bench

DIMENSION = 32
K = 100
ITERATIONS = 12

# Labels are measured with fits that take little beside them
LABEL_K = 20
LABEL_ITERATIONS = 3

# The exchange is measured with these: nearly all centroids move in each iteration
WIDE_ROWS = 50000
WIDE = 128
WIDE_K = 1024
WIDE_ITERATIONS = (1, 11)


def process_times(process):
    """The parent of a process, what it has run, and what its children had run that have ended; in seconds."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / tick, (int(fields[13]) + int(fields[14])) / tick


class ClusterBench(Bench):
    """The same rows kept in several ways."""

    def __init__(self, options):
        super().__init__(options)
        self.citus = bool(self.query("SELECT FROM pg_extension WHERE extname = 'citus'"))
        self.digests = set()
        self.servers = self.find_servers() if options.processor else []

    def run(self, text):
        self.cursor.execute(text)

    def find_servers(self):
        """The main processes of the servers: those with the program of this one, under other parents."""
        own = process_times(self.connection.get_backend_pid())[0]
        program = os.readlink(f"/proc/{own}/exe")
        parents = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{process}/exe") == program:
                    parents[int(process)] = process_times(process)[0]
            except OSError:
                pass
        return [process for process, parent in parents.items() if parent not in parents]

    def processor(self):
        """Seconds that the processes of all servers have run."""
        time.sleep(0.2)
        total = sum(process_times(server)[2] for server in self.servers)
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                parent, own, _ = process_times(process)
                total += own if parent in self.servers else 0
            except OSError:
                pass
        return total

    def seconds_of(self, call):
        """What a call takes: seconds on processors if they are counted, else elapsed ones."""
        if self.servers:
            started = self.processor()
            call()
            return self.processor() - started
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    def make_tables(self):
        self.run("DROP TABLE IF EXISTS bench_local, bench_labels_local, bench_start")
        self.run("DROP TABLE IF EXISTS bench_labels, bench_copy, bench_rows, bench_wide CASCADE")
        self.run(f"""CREATE TABLE bench_local AS SELECT i::bigint AS id, ARRAY(SELECT
            ((hashint8extended(i, j) & 4294967295)::float8 / 429496729.6 + i % {K} * 7 % 13)::real
            FROM generate_series(1, {DIMENSION}) j)::real[] AS v FROM generate_series(1, {self.options.rows}) i""")
        self.run("CREATE TABLE bench_labels_local (id bigint, cluster_id int, distance float8)")
        for name in ("bench_rows", "bench_wide"):
            self.run(f"CREATE TABLE {name} (LIKE bench_local)" + ("" if self.citus else " PARTITION BY HASH (id)"))
            if self.citus:
                self.run(f"SELECT create_distributed_table('{name}', 'id', shard_count => 8)")
            else:
                self.partition(name)
        if self.citus:
            for name in ("bench_labels", "bench_copy"):
                self.run(f"CREATE TABLE {name} (id bigint, cluster_id int, distance float8)")
                self.run(f"SELECT create_distributed_table('{name}', 'id', colocate_with => 'bench_rows')")
        else:
            self.run("CREATE TABLE bench_copy (LIKE bench_labels_local)")
        self.run("INSERT INTO bench_rows SELECT * FROM bench_local")
        self.run(f"""INSERT INTO bench_wide SELECT i, ARRAY(SELECT x * sin(j) + y * cos(j) FROM generate_series(1, {WIDE}) j)::real[]
            FROM generate_series(1, {WIDE_ROWS}) i, LATERAL (SELECT hashint8extended(i, 1) & 65535 AS x,
            hashint8extended(i, 2) & 65535 AS y) r""")
        self.run("VACUUM ANALYZE bench_local")
        self.run("ANALYZE bench_rows")

    def partition(self, name):
        servers = [row[0] for row in self.query("SELECT srvname FROM pg_foreign_server ORDER BY 1")]
        self.run("CREATE EXTENSION IF NOT EXISTS dblink")
        for number, server in enumerate(servers):
            self.run(f"SELECT dblink_exec('{server}', 'DROP TABLE IF EXISTS {name}')")
            self.run(f"SELECT dblink_exec('{server}', 'CREATE TABLE {name} (id bigint, v real[])')")
            self.run(f"""CREATE FOREIGN TABLE {name}_{number} PARTITION OF {name}
                FOR VALUES WITH (MODULUS {len(servers)}, REMAINDER {number}) SERVER {server}
                OPTIONS (table_name '{name}', batch_size '1000')""")

    def fit_query(self, what, source, k, iterations, labels=None, mode=None):
        into = f", id_column => 'id', labels_table => '{labels}', if_exists => '{mode}'" if labels else ""
        return (f"SELECT {what} FROM gkmeans_fit('{source}', '{{v}}', {k}, max_iter => {iterations}, tol => 0,"
                f" quality => 'fast'{into}) f")

    def fit(self, source, nodes):
        """Seconds of a fit: reading, iterations, and all of it."""
        self.run(f"SET gkmeans.nodes = '{nodes}'")
        seconds, answer = self.timed(
            self.fit_query("md5(string_agg(f::text, '|' ORDER BY cluster_id))", source, K, ITERATIONS))
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
            "local table": ("bench_local", ""),
            f"{spread} table, gkmeans.nodes = ''": ("bench_rows", ""),
            f"{spread} table, gkmeans.nodes = 'auto'": ("bench_rows", "auto"),
        }
        found = self.least(ways)
        local = found["local table"]
        print("\n| source | nodes | read s | iterate s | whole s | read, as a multiple of the local table's |")
        print("|---|--:|--:|--:|--:|--:|")
        for name, (read, iterate, nodes, whole) in found.items():
            print(f"| {name} | {nodes} | {read:.2f} | {iterate:.2f} | {whole:.2f} | {read / local[0]:.1f} |")
        print(f"\nthe same bits: {self.verdict(len(self.digests) == 1)}")

    def insert(self, query, whole):
        """As many rows into a table like the labels, by one INSERT; with all that a fit does around it, or not."""
        self.run("BEGIN")
        if whole:
            self.run("TRUNCATE bench_copy")
        self.run(f"INSERT INTO bench_copy {query}")
        if whole and not self.citus:
            self.run("ANALYZE bench_copy")
        self.run("COMMIT")

    def label_ways(self, table):
        """What is compared: a call, and the call whose seconds are taken off its own."""
        inserted = "SELECT id, 7, 1.5 FROM bench_rows"
        written = f"SELECT * FROM {table}"
        analyzed = "" if self.citus else ", ANALYZE"
        ways = {
            "INSERT … SELECT of the same rows": (lambda: self.insert(inserted, False), None),
            "INSERT … SELECT of the labels": (lambda: self.insert(written, False), None),
            f"TRUNCATE, INSERT … SELECT of the same rows{analyzed}": (lambda: self.insert(inserted, True), None),
            f"TRUNCATE, INSERT … SELECT of the labels{analyzed}": (lambda: self.insert(written, True), None),
        }
        for nodes in ("auto", ""):
            without = f"a fit without labels, gkmeans.nodes = '{nodes}'"
            ways[without] = (lambda nodes=nodes: self.label_fit(nodes), None)
            for mode in ("append", "replace"):
                ways[f"labels, {mode}, gkmeans.nodes = '{nodes}'"] = (
                    lambda nodes=nodes, mode=mode: self.label_fit(nodes, table, mode), without)
        return ways

    def label_fit(self, nodes, table=None, mode=None):
        self.run(f"SET gkmeans.nodes = '{nodes}'")
        self.run(self.fit_query("count(*)", "bench_rows", LABEL_K, LABEL_ITERATIONS, table, mode))

    def check_labels(self, table, digests):
        """Notes what labels a fit has written: those of all fits must be the same."""
        digests.add(self.query(f"""SELECT count(*), count(DISTINCT id), sum(cluster_id), md5(string_agg(
            id || ' ' || cluster_id || ' ' || distance, ',' ORDER BY id)) FROM {table}""")[0])

    def labels(self):
        table = "bench_labels" if self.citus else "bench_labels_local"
        self.label_fit("auto", table, "replace")
        least = {}
        digests = set()
        ways = self.label_ways(table)
        for _ in range(self.options.repeat):
            for name, (call, _) in ways.items():
                self.run(f"TRUNCATE {table if 'append' in name else 'bench_copy'}")
                seconds = self.seconds_of(call)
                least[name] = min(seconds, least.get(name, seconds))
                if name.startswith("labels"):
                    self.check_labels(table, digests)
        kind = "s on processors" if self.servers else "s"
        first = least["INSERT … SELECT of the same rows"]
        print("\n| into a " + ("co-located distributed table" if self.citus else "local table")
              + f" | {kind} | beyond the fit without labels | as a multiple of the first |")
        print("|---|--:|--:|--:|")
        for name, seconds in least.items():
            beyond = seconds - (least[ways[name][1]] if ways[name][1] else 0)
            ratio = "" if "without" in name else f"{beyond / first:.2f}"
            print(f"| {name} | {seconds:.2f} | {f'{beyond:.2f}' if ways[name][1] else ''} | {ratio} |")
        print(f"\nthe same labels: {self.verdict(len(digests) == 1 and next(iter(digests))[0] == self.options.rows)}")

    def limit_threads(self, threads):
        """Sets the threads of each node's engine, if they are to differ from its own settings."""
        setting = f"ALTER ROLE CURRENT_USER SET gkmeans.cpu_threads = {threads}" if threads else "ALTER ROLE CURRENT_USER RESET gkmeans.cpu_threads"
        if self.citus:
            self.run(setting)
            return
        for (server,) in self.query("SELECT srvname FROM pg_foreign_server"):
            self.run(f"SELECT dblink_exec('{server}', '{setting}')")

    def exchange(self):
        """What an iteration takes besides the node that is slower in it: from fits that differ in iterations alone."""
        self.limit_threads(self.options.threads)
        self.run("SET gkmeans.nodes = 'auto'")
        start = f"(SELECT array_agg(v::float8[]) FROM (SELECT v FROM bench_wide ORDER BY id LIMIT {WIDE_K}) r)"
        self.run(f"CREATE TEMP TABLE bench_start AS SELECT {start} AS centroids")
        rounds = []
        for _ in range(5 * self.options.repeat):
            found = []
            for iterations in WIDE_ITERATIONS:
                before = self.processor_seconds()
                self.run(f"SELECT count(*) FROM bench_start, gkmeans_fit('bench_wide', '{{v}}', {WIDE_K},"
                         f" initial_centroids => centroids, max_iter => {iterations}, tol => 0, quality => 'fast')")
                processor = self.processor_seconds() - before
                exchange, iterate, done = self.last_fit("exchange_seconds, iterate_seconds, iterations")
                sent, received = self.query("SELECT max(bytes_sent), max(bytes_received) FROM gkmeans_last_fit_nodes()")[0]
                found.append((exchange, iterate, processor, float(sent), float(received), done))
            rounds.append([(b - a) / (found[1][-1] - found[0][-1]) for a, b in zip(*found)])
        exchange, iterate, processor, sent, received, _ = map(statistics.median, zip(*rounds))
        print(f"\nan iteration, k = {WIDE_K}, {WIDE} features, medians of {len(rounds)}: {iterate * 1000:.1f} ms,"
              f" of which exchange {exchange * 1000:.1f} ms (least {min(rounds)[0] * 1000:.1f});"
              f" {processor * 1000:.1f} ms of this server's processor; to a node {sent / 1e6:.2f} MB,"
              f" from it {received / 1e6:.2f} MB")
        self.limit_threads(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of each node's engine while the exchange is measured")
    parser.add_argument("--exchange", action="store_true", help="measure the exchange of an iteration alone")
    parser.add_argument("--labels", action="store_true", help="measure the writing of labels alone")
    parser.add_argument("--processor", action="store_true", help="count seconds on processors where that says more")
    bench = ClusterBench(parser.parse_args())
    bench.make_tables()
    alone = bench.options.exchange or bench.options.labels
    if not alone:
        bench.fits()
    if bench.options.labels or not alone:
        bench.labels()
    if bench.options.exchange or not alone:
        bench.exchange()
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
