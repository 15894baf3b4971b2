"""The CUDA engine through SQL: device memory, labels, rows beyond it, cancelling, many fits, many sessions, a killed backend.

Run it on the host of the server that PGHOST and PGPORT name, whose gkmeans has the GPU library, as a superuser of that
server who may kill its processes.  GPUs and server must be otherwise idle.  It creates its tables there (5 GB) and
prints Markdown.

    PGHOST=/tmp PGUSER=postgres python3 bench/gpu.py --gpus 1 2 4
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import psycopg2.errors

from common import Bench, Session

ROWS, DIMENSION, CLUSTERS, ITERATIONS = 4_000_000, 250, 10_000, 12
# device memory of these rows, labels and all else on one GPU; each further one has its own k × d buffers
MEMORY, FURTHER = 4.14e9, 65e6
LATE_MS = 100
# labels take no longer on several GPUs than on one, but for noise
LABEL_SLACK = 1.1
# a phase is left at these parts of its time
POINTS = (0.15, 0.5, 0.85)
SHORTEST_PHASE_MS = 12
DIGEST = "md5(string_agg(t::text, '|'))"


def fit(table, k, more=""):
    return f"gkmeans_fit('{table}', '{{f}}', {k}{more})"


def labels(table, k, more=""):
    return f"gkmeans_fit_predict(NULL::int, '{table}', '{{f}}', {k}, id_column => 'i'{more})"


CANCELLED = [
    (fit("bench_large", 8, ", init => 'random', max_iter => 2"), False),
    (fit("bench_large", 8000, ", init => 'random', max_iter => 40, tol => 0"), False),
    (fit("bench_large", 3000, ", max_iter => 1"), False),
    (fit("bench_large", 100, ", init => 'k-means++', max_iter => 2"), False),
    (fit("bench_large", 100, ", scale => 'standard', max_iter => 20, tol => 0"), False),
    (labels("bench_large", 1000, ", init => 'random', max_iter => 3"), False),
    (fit("bench_large", 100, ", init => 'random', max_iter => 20, tol => 0"), True),
]


class CopyLimit:
    """What copies of page-locked memory reach on some GPUs at once, by the driver alone."""

    BYTES = 256 << 20
    COPIES = 20

    def __init__(self, gpus):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.lanes = [self.open(gpu) for gpu in range(gpus)]

    def call(self, name, *values):
        status = getattr(self.cuda, name)(*values)
        if status != 0:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def open(self, gpu):
        """Context, stream, host and device memory of a GPU."""
        context, stream, host, device = (ctypes.c_void_p() for _ in range(4))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        self.call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(self.BYTES))
        self.call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(self.BYTES))
        return gpu, context, stream, host, device

    def bytes_a_second(self):
        self.copy(2)
        started = time.perf_counter()
        self.copy(self.COPIES)
        return self.COPIES * self.BYTES * len(self.lanes) / (time.perf_counter() - started)

    def copy(self, times):
        for _ in range(times):
            for _, context, stream, host, device in self.lanes:
                self.call("cuCtxSetCurrent", context)
                self.call("cuMemcpyHtoDAsync_v2", device, host, ctypes.c_size_t(self.BYTES), stream)
        for _, context, stream, _, _ in self.lanes:
            self.call("cuCtxSetCurrent", context)
            self.call("cuStreamSynchronize", stream)

    def close(self):
        for gpu, context, stream, host, device in self.lanes:
            self.call("cuCtxSetCurrent", context)
            self.call("cuMemFree_v2", device)
            self.call("cuMemFreeHost", host)
            self.call("cuStreamDestroy_v2", stream)
            self.call("cuDevicePrimaryCtxRelease_v2", gpu)


def use(session, gpus):
    """The first so many GPUs for this session's fits, opened."""
    session.cursor.execute("SET gkmeans.engine = cuda")
    session.cursor.execute("SET gkmeans.devices = %s", (",".join(str(gpu) for gpu in range(gpus)),))
    session.query("SELECT count(*) FROM gkmeans_fit('bench_small', '{a,b}', 3)")


def used_megabytes():
    """Memory in use on each GPU, by all processes, as the driver counts it."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(line) for line in out.split()]


class GpuBench(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.rows = ROWS // options.shrink

    def load(self):
        """The tables, all of them in the cache of the server or of the system."""
        self.cursor.execute("DROP TABLE IF EXISTS bench_large, bench_medium, bench_small")
        self.cursor.execute("CREATE TABLE bench_small AS SELECT i, random() a, random() b"
                            " FROM generate_series(1, 2000) i")
        self.cursor.execute("CREATE TABLE bench_large (i int, f real[])")
        self.cursor.execute("ALTER TABLE bench_large ALTER f SET STORAGE PLAIN")
        parts = 16
        self.in_sessions([f"INSERT INTO bench_large SELECT i, ARRAY(SELECT (random() + 0 * i)::real"
                          f" FROM generate_series(1, {DIMENSION})) FROM generate_series({self.rows * part // parts + 1},"
                          f" {self.rows * (part + 1) // parts}) i" for part in range(parts)])
        self.cursor.execute("CREATE TABLE bench_medium AS SELECT i, f[1:32] AS f FROM bench_large"
                            " WHERE i % 8 = 0")
        self.cursor.execute("VACUUM ANALYZE")
        self.cursor.execute("CHECKPOINT")

    @staticmethod
    def in_sessions(statements):
        """Each statement in a session of its own, all at once; their first values."""
        def work(statement):
            session = Session()
            try:
                session.cursor.execute("SET gkmeans.engine = cuda")
                session.cursor.execute("SET gkmeans.devices = '0'")
                session.cursor.execute(statement)
                return session.cursor.fetchone()[0] if session.cursor.description else None
            finally:
                session.connection.close()

        with ThreadPoolExecutor(len(statements)) as threads:
            return list(threads.map(work, statements))

    def memory(self):
        """The greatest device memory of whole fits, seeding and labels included."""
        print("| GPUs | fit | greatest device memory, GB | allowed | met |")
        print("|--:|---|--:|--:|---|")
        for gpus in self.options.gpus:
            use(self, gpus)
            allowed = MEMORY * 1.01 if gpus == 1 else MEMORY * 1.02 + FURTHER * (gpus - 1)
            for call in (fit("bench_large", CLUSTERS, f", init => 'random', max_iter => {ITERATIONS}, tol => 0"),
                         fit("bench_large", CLUSTERS, ", max_iter => 2"),
                         labels("bench_large", CLUSTERS, ", init => 'random', max_iter => 2")):
                self.query(f"SELECT count(*) FROM {call}")
                peak = self.last_fit("device_bytes_peak")
                print(f"| {gpus} | `{call}` | {peak / 1e9:.3f} | {allowed / 1e9:.3f} |"
                      f" {self.verdict(peak <= allowed)} |", flush=True)
        print()

    def label(self):
        """What labels by id take of a call, on each number of GPUs."""
        call = labels("bench_large", 1000, ", init => 'random', max_iter => 5, tol => 0")
        one = None
        print(f"| GPUs | the labels of `{call}`, s | the whole call, s | labels, to the first row | met |")
        print("|--:|--:|--:|--:|---|")
        for gpus in self.options.gpus:
            use(self, gpus)
            runs = [(self.timed(f"SELECT count(*) FROM {call}")[0], self.last_fit("label_seconds")) for _ in range(4)]
            whole, seconds = (min(values) for values in zip(*runs[1:]))
            one = one or seconds
            print(f"| {gpus} | {seconds:.3f} | {whole:.2f} | {seconds / one:.2f} | {self.verdict(seconds <= one * LABEL_SLACK)} |", flush=True)
        print()

    def streaming(self):
        """Three times as many rows as the devices may hold, against all rows on the devices, and against copies alone."""
        call = fit("bench_large", 100, f", init => 'random', max_iter => {ITERATIONS}, tol => 0")
        phases = "read_seconds, iterate_seconds, pinned_bytes_peak, iterations"
        print("| GPUs | rows, GB | in host memory, GB | read s | iterate s | resident: read s | iterate s | GB/s a pass |"
              " copies alone, GB/s | ratio | same bits |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|")
        for gpus in self.options.gpus:
            limit = CopyLimit(gpus)
            most = limit.bytes_a_second()
            limit.close()
            use(self, gpus)
            resident_digest = self.query(f"SELECT {DIGEST} FROM {call} t")
            resident = self.last_fit(phases)
            self.limit_memory(gpus)
            digest = self.query(f"SELECT {DIGEST} FROM {call} t")
            read, iterate, host, iterations = self.last_fit(phases)
            self.cursor.execute("RESET gkmeans.device_memory_limit")
            speed = host * iterations / iterate
            print(f"| {gpus} | {self.rows * DIMENSION * 4e-9:.2f} | {host * 1e-9:.2f} | {read:.2f} | {iterate:.3f} |"
                  f" {resident[0]:.2f} | {resident[1]:.3f} | {speed * 1e-9:.1f} | {most * 1e-9:.1f} | {speed / most:.2f} |"
                  f" {self.verdict(digest == resident_digest and host > 0)} |", flush=True)
        print()

    def limit_memory(self, gpus):
        """A third of the rows on the devices."""
        megabytes = self.rows * DIMENSION * 4 * 1.005 / 3 / gpus / 1e6
        self.cursor.execute(f"SET gkmeans.device_memory_limit = '{megabytes:.0f}MB'")

    def late(self, call, milliseconds):
        """How late a statement_timeout ends a call, in milliseconds; None if the call was done before."""
        self.cursor.execute(f"SET statement_timeout = {milliseconds}")
        started = time.perf_counter()
        try:
            self.query(f"SELECT count(*) FROM {call}")
        except psycopg2.errors.QueryCanceled:
            return (time.perf_counter() - started) * 1e3 - milliseconds
        finally:
            self.cursor.execute("SET statement_timeout = 0")
        return None

    def cancel(self):
        """Milliseconds from a statement_timeout in each phase to its error."""
        names = ("read", "seed", "iterate", "label")
        print("| GPUs | fit | rows in host memory | " + " | ".join(f"{name} ms: late" for name in names) + " | met |")
        print("|--:|---|---|" + "---|" * len(names) + "---|")
        for gpus in self.options.gpus:
            use(self, gpus)
            for call, limited in CANCELLED:
                if limited:
                    self.limit_memory(gpus)
                self.query(f"SELECT count(*) FROM {call}")
                phases = [seconds * 1e3 for seconds in
                          self.last_fit(", ".join(f"{name}_seconds" for name in names))]
                cells, greatest = [], 0.0
                for number, length in enumerate(phases):
                    late = [self.late(call, round(sum(phases[:number]) + length * point)) for point in POINTS
                            if length >= SHORTEST_PHASE_MS]
                    late = [value for value in late if value is not None]
                    greatest = max([greatest, *late])
                    cells.append(f"{length:.0f}: " + " ".join(f"{value:.0f}" for value in late))
                self.cursor.execute("RESET gkmeans.device_memory_limit")
                print(f"| {gpus} | `{call}` | {'two thirds' if limited else 'none'} | {' | '.join(cells)} |"
                      f" {self.verdict(greatest <= LATE_MS)} |", flush=True)
        print()

    def device_state(self):
        """Free bytes of all GPUs, and bytes that this session has taken for rows and results."""
        return self.query("SELECT sum(free_bytes)::bigint, coalesce(sum(own_bytes), 0)::bigint FROM gkmeans_devices()")[0]

    def life(self):
        """What a session keeps: after many fits, and after all ways in which a fit ends."""
        fits = 2000 // self.options.shrink
        looks = (fits // 10, fits // 4, fits // 2, fits)
        print("| GPUs | after fits | resident MB | free on the GPUs, bytes | flat |")
        print("|--:|---|---|---|---|")
        for gpus in self.options.gpus:
            use(self, gpus)
            resident, free = [], []
            for number in range(1, fits + 1):
                self.query(f"SELECT count(*) FROM gkmeans_fit('bench_small', '{{a,b}}', {3 + number % 7}, seed => {number})")
                if number in looks:
                    resident.append(self.own_memory())
                    free.append(self.device_state()[0])
            flat = len(set(free)) == 1 and resident[-1] - resident[0] < 1e6
            print(f"| {gpus} | {', '.join(str(look) for look in looks)} | {', '.join(f'{size / 1e6:.2f}' for size in resident)} |"
                  f" {', '.join(str(size) for size in dict.fromkeys(free))} | {self.verdict(flat)} |", flush=True)
        print()
        print("| GPUs | after | free on the GPUs as after a small fit | bytes of gkmeans there | met |")
        print("|--:|---|---|--:|---|")
        for gpus in self.options.gpus:
            use(self, gpus)
            self.endings(gpus)
        print()

    def endings(self, gpus):
        """The ways in which a fit ends, and what is on the devices at once."""
        large = fit("bench_large", 1000, ", init => 'random', max_iter => 5")
        wrong = f"gkmeans_fit('SELECT f[1] x, 1 / (i - {self.rows // 2}) z FROM bench_large', '{{x,z}}', 64)"
        bare = self.device_state()

        def state(after):
            free, own = self.device_state()
            print(f"| {gpus} | {after} | {'yes' if free == bare[0] else free - bare[0]} | {own} |"
                  f" {self.verdict(free >= bare[0] and own == 0)} |", flush=True)

        self.query(f"SELECT count(*) FROM {large}")
        state("a commit")
        self.cursor.execute("BEGIN; SAVEPOINT one")
        self.query(f"SELECT count(*) FROM {large}")
        self.cursor.execute("ROLLBACK TO one")
        state("ROLLBACK TO")
        self.fails(f"SELECT count(*) FROM {wrong}", psycopg2.errors.DivisionByZero)
        self.cursor.execute("ROLLBACK TO one")
        state("an error in a transaction block, and ROLLBACK TO")
        self.cursor.execute(f"SET LOCAL statement_timeout = {1000 // self.options.shrink + 100}")
        self.fails(f"SELECT count(*) FROM {fit('bench_large', 3000, ', max_iter => 5000, tol => 0')}",
                   psycopg2.errors.QueryCanceled)
        self.cursor.execute("ROLLBACK")
        state("a cancel")

    def fails(self, statement, error):
        try:
            self.cursor.execute(statement)
        except error:
            return
        raise RuntimeError(f"no error from {statement}")

    def sessions(self):
        """Twenty sessions at once, with four slots."""
        call = fit("bench_medium", 200, ", max_iter => 30, tol => 0")
        use(self, 1)
        self.cursor.execute("ALTER SYSTEM SET gkmeans.max_gpu_backends = 4")
        self.query("SELECT pg_reload_conf()")
        time.sleep(0.5)
        try:
            started = time.perf_counter()
            answers = self.in_sessions([f"SELECT {DIGEST} FROM {call} t"] * 20)
            seconds = time.perf_counter() - started
        finally:
            self.cursor.execute("ALTER SYSTEM RESET gkmeans.max_gpu_backends")
            self.query("SELECT pg_reload_conf()")
        print(f"20 sessions, 4 slots, `{call}`: {seconds:.1f} s, all finish with the same bits:"
              f" {self.verdict(len(set(answers)) == 1)}\n", flush=True)

    def kill(self):
        """kill -9 of a backend while it iterates: the server is back, and the devices' memory."""
        gpus = max(self.options.gpus)
        self.connection.close()
        time.sleep(1)
        before = used_megabytes()
        victim = Session()
        use(victim, gpus)
        process = victim.connection.get_backend_pid()
        endless = threading.Thread(target=self.endless, args=(victim,))
        endless.start()
        time.sleep(4)
        during = used_megabytes()
        started = time.perf_counter()
        os.kill(process, signal.SIGKILL)
        while max(now - was for now, was in zip(used_megabytes(), before)) > 16 and time.perf_counter() - started < 20:
            pass
        back = time.perf_counter() - started
        endless.join()
        while time.perf_counter() - started < 60:
            try:
                use(Session(), 1)
                break
            except psycopg2.Error:
                time.sleep(0.05)
        again = time.perf_counter() - started
        print(f"kill -9 on {gpus} GPUs: MB in use before {before}, while iterating {during}; back after {back:.2f} s;"
              f" the next fit, on one GPU, is done after {again:.2f} s: {self.verdict(back < 20 and again < 60)}\n")

    @staticmethod
    def endless(session):
        try:
            session.query(f"SELECT count(*) FROM {fit('bench_large', 8000, ', max_iter => 100000, tol => 0')}")
        except psycopg2.Error:
            pass


def main():
    parts = ["memory", "label", "streaming", "cancel", "life", "sessions", "kill"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[1], help="numbers of GPUs to try")
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows, to try it out")
    parser.add_argument("--only", choices=parts, action="append")
    parser.add_argument("--loaded", action="store_true", help="the tables are there from a run before")
    options = parser.parse_args()
    bench = GpuBench(options)
    devices = bench.query("SELECT name FROM gkmeans_devices()")
    print(f"{len(devices)} × {devices[0][0]}; PostgreSQL {bench.query('SHOW server_version')[0][0]}; {bench.rows:,} × {DIMENSION}\n")
    if not options.loaded:
        bench.load()
    for part in parts:
        if options.only is None or part in options.only:
            getattr(bench, part)()
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
