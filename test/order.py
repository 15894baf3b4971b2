#!/usr/bin/python3
"""The answer does not depend on the order of the rows, the parallel workers, the threads, the ring or the engine:
random tables full of ties, equal rows and extreme values, compared bit for bit. Prints TAP. Connects by PGHOST,
PGPORT, PGUSER and PGDATABASE.

order.py [--cases N] [--seed S] [module ...]: a module, gkmeans_engine_*.so of test/unit/Makefile, has engines of its
own, among them the plain one that defines what others must answer, and clusters of up to seven nodes; in some
different rows share hashes everywhere.
Each takes its turn; the environment variable GK_ENGINE_MODULES may name them. A failing case is printed as SQL that shows it, with as few rows as still do."""
import argparse
import itertools
import os
import random
import time

import psycopg2

TYPES = {"small": "smallint", "integer": "integer", "big": "bigint", "numeric": "numeric", "real": "real",
         "double": "double precision"}
PLAIN = {"max_parallel_workers_per_gather": 0, "gkmeans.cpu_threads": 1, "gkmeans.ring_size": "32MB",
         "parallel_leader_participation": "on"}


def exact(number):
    """A number as text that reads back as the same float8."""
    return repr(float(number))


# One maker of values for each kind of feature: called once, it gives a function of no argument.
def small_integers(dice):
    most = dice.choice([1, 2, 3, 8])
    return lambda: str(dice.randint(0, most))


def signed_integers(dice):
    most = dice.choice([2, 50, 30000])
    return lambda: str(dice.randint(-most, most))


def powers_of_two(dice):
    most = dice.choice([3, 10, 60])
    return lambda: exact(dice.choice([-1, 1]) * 2.0 ** dice.randint(-most, most))


def uniform(dice):
    return lambda: exact(dice.random())


def decimals(dice):
    step = dice.choice([0.01, 0.1, 2.5])
    return lambda: exact(dice.randint(-20, 20) * step)


def constant(dice):
    value = dice.choice(["0", "1", "-3", "0.1", "1e20"])
    return lambda: value


def extreme(dice):
    scale = 10.0 ** dice.randint(-30, 30)
    return lambda: exact(dice.choice([dice.gauss(0, 1), dice.randint(-3, 3)]) * scale)


def mixed_scales(dice):
    return lambda: exact(dice.gauss(0, 1) * 10.0 ** dice.randint(-25, 15))


def denormals(dice):
    return lambda: exact(dice.randint(-9, 9) * 1.4013e-45 * dice.choice([1, 1, 1000]))


def zeros(dice):
    return lambda: dice.choice(["0", "-0", "0", "1"])


def far_away(dice):
    far = dice.choice([1e9, -3e12, 1.7e308 / 1e290])
    return lambda: exact(far + dice.choice([dice.gauss(0, 1), dice.randint(-3, 3)]))


REAL_KINDS = [small_integers, signed_integers, powers_of_two, uniform, decimals, constant, extreme, mixed_scales,
              denormals, zeros, far_away]
INTEGER_KINDS = [small_integers, signed_integers]


def make_weights(dice, rows):
    """No weights, equal ones, or such as tell equal features apart."""
    kind = dice.choice([None, None, "equal", "few", "zeros", "wide"])
    if kind is None:
        return None
    if kind == "equal":
        return [dice.choice(["2.5"])] * rows
    if kind == "few":
        return [dice.choice(["1", "2", "0.5"]) for _ in range(rows)]
    if kind == "zeros":
        return [dice.choice(["0", "0", "1", "3"]) for _ in range(rows)]
    return [exact(10.0 ** dice.uniform(-8, 8)) for _ in range(rows)]


class Case:
    """Rows as text, and the arguments of the call."""

    def __init__(self, seed):
        dice = random.Random(seed)
        self.seed = seed
        self.dice = dice
        self.rows_wanted = dice.choice([1, 2, 3, 7, 20, 20, 60, 60, 150, 400, 2500])
        self.dimension = dice.choice([1, 2, 2, 3, 4, 5, 7, 16, 33])
        self.is_array = dice.random() < 0.4
        self.choose_types()
        self.rows = self.make_rows()
        self.arguments = self.make_arguments()

    def choose_types(self):
        dice = self.dice
        same = dice.choice(list(TYPES))
        self.types = [same if self.is_array else dice.choice(list(TYPES)) for _ in range(self.dimension)]

    def make_rows(self):
        """Rows of which many are equal; some have no value, or none that counts."""
        dice = self.dice
        kinds = [dice.choice(INTEGER_KINDS if t in ("small", "integer", "big") else REAL_KINDS) for t in self.types]
        if dice.random() < 0.3:
            kinds = [dice.choice(INTEGER_KINDS)] * self.dimension
        makers = [kind(dice) for kind in kinds]
        distinct = max(1, int(self.rows_wanted * dice.choice([0.05, 0.3, 1, 1])))
        pool = [[self.fit_type(t, maker()) for t, maker in zip(self.types, makers)] for _ in range(distinct)]
        unusable = dice.choice([0, 0, 0.1])
        rows = [list(dice.choice(pool)) for _ in range(self.rows_wanted)]
        for row in rows:
            if dice.random() < unusable:
                place = dice.randrange(self.dimension)
                row[place] = dice.choice(["NaN", "NULL"] if self.types[place] in ("real", "double") else ["NULL"])
        weights = make_weights(dice, self.rows_wanted)
        self.weighted = weights is not None
        return [(i, row, weights[i] if weights else None) for i, row in enumerate(rows)]

    @staticmethod
    def fit_type(name, value):
        """What a real would not take becomes 0."""
        if name == "real" and value not in ("NaN", "NULL") and not 1e-44 < abs(float(value)) < 3e38:
            return "-0" if value == "-0" else "0"
        return value

    def make_arguments(self):
        dice = self.dice
        rows = len(self.rows)
        k = dice.choice([1, 2, 3, 5, min(rows, 30), rows + 2 if rows < 100 else 40])
        arguments = {
            "seed": dice.randint(-10, 10),
            "metric": dice.choice(["euclidean", "euclidean", "cosine"]),
            "scale": dice.choice(["none", "none", "standard", "minmax"]),
            "max_iter": dice.choice([1, 2, 10, 300]),
            "tol": dice.choice(["0", "1e-4", "0.1"]),
            "n_init": dice.choice([1, 1, 3]),
            "init": dice.choice(["k-means||", "k-means||", "k-means++", "random", None]),
            "options": dice.choice(["{}", '{"oversampling": 0.5}', '{"oversampling": 3, "rounds": 2}', '{"rounds": 0}']),
        }
        if arguments["init"] is None:
            del arguments["init"]
            arguments["initial_centroids"] = self.make_centroids(max(k, 1))
        else:
            arguments["k"] = k
            arguments["quality"] = dice.choice(["auto", "fast", "good", "best"])
        return arguments

    def make_centroids(self, k):
        """Rows, and some that no row will be near to: their clusters will be empty."""
        dice = self.dice
        centroids = []
        for _ in range(k):
            row = dice.choice(self.rows)[1]
            values = ["1" if value in ("NaN", "NULL") else value for value in row]
            if dice.random() < 0.3:
                values = [exact(dice.uniform(-1e3, 1e3)) for _ in values]
            centroids.append("{" + ",".join(values) + "}")
        return "{" + ",".join(centroids) + "}"

    def columns(self):
        """The columns of the features."""
        if self.is_array:
            return [f"v {TYPES[self.types[0]]}[]"]
        return [f"f{i} {TYPES[t]}" for i, t in enumerate(self.types)]

    def create(self, name, rows):
        """Commands that make a table with the rows in this order, on many pages."""
        lines = []
        for number, values, weight in rows:
            cells = ["NULL" if value == "NULL" else f"'{value}'" for value in values]
            if self.is_array:
                cells = ["'{" + ",".join(values) + "}'"]
            lines.append(f"({number}, {weight or 1}, {', '.join(cells)})")
        return (f"DROP TABLE IF EXISTS {name};\n"
                f"CREATE UNLOGGED TABLE {name} (id int, w float8, {', '.join(self.columns())})"
                " WITH (fillfactor = 10, parallel_workers = 3);\n"
                f"INSERT INTO {name} VALUES\n" + ",\n".join(lines) + ";\n") if rows else None

    def call(self, function, table):
        names = "'{" + ",".join(c.split()[0] for c in self.columns()) + "}'"
        given = ", ".join(f"{name} => '{value}'" for name, value in self.arguments.items())
        weight = ", weight_column => 'w'" if self.weighted else ""
        head = "NULL::int, " if function == "gkmeans_fit_predict" else ""
        tail = ", id_column => 'id'" if function == "gkmeans_fit_predict" else ""
        return f"{function}({head}'{table}', {names}{weight}, {given}{tail})"


class Server:
    """A session, with the engines of a module or those of gkmeans."""

    def __init__(self, module):
        self.module = module
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET client_min_messages = error; SET extra_float_digits = 1;"
                            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
                            "SET min_parallel_table_scan_size = 0; CREATE EXTENSION IF NOT EXISTS gkmeans")
        self.engines = [("gkmeans.engine", "cpu")]
        if module:
            self.cursor.execute(f"LOAD '{module}'")
            self.engines = [("gkmeans.test_engine", number) for number in (0, -1, 1, 2, 3, 7)]
        elif self.run("SELECT count(*) FROM gkmeans_devices()")[0][0] > 0:
            self.engines.append(("gkmeans.engine", "cuda"))

    def run(self, command):
        self.cursor.execute(command)
        return self.cursor.fetchall() if self.cursor.description else None

    def answer(self, case, table, settings):
        """All that a call says, or its error."""
        for name, value in settings.items():
            self.run(f"SET {name} = '{value}'")
        try:
            return (self.run(f"SELECT string_agg(f::text, '|' ORDER BY cluster_id) FROM {case.call('gkmeans_fit', table)} f")[0],
                    self.run("SELECT rows_read, rows_skipped, k_effective, iterations, converged, inertia::text, best_start"
                             " FROM gkmeans_last_fit()")[0],
                    self.run("SELECT md5(string_agg(p::text, '|' ORDER BY id)) FROM "
                             f"{case.call('gkmeans_fit_predict', table)} p")[0])
        except psycopg2.Error as error:
            if error.pgcode is None:
                raise
            return error.pgcode

    def vary(self, case, orders):
        """Random ways of asking: the first is plain."""
        dice = case.dice
        yield "t0", PLAIN | dict(self.engines[:1])
        for number in range(1, 6):
            yield f"t{dice.randrange(orders) if number > 3 else min(number, orders - 1)}", {
                "max_parallel_workers_per_gather": dice.choice([0, 0, 1, 3]),
                "parallel_leader_participation": dice.choice(["on", "on", "off"]),
                "gkmeans.cpu_threads": dice.choice([1, 2, 5]),
                "gkmeans.ring_size": dice.choice(["1MB", "32MB"]),
                **dict([dice.choice(self.engines)])}

    def differs(self, case, orders, ways):
        """The first way whose answer is not that of the plain one, with both answers; None if there is none."""
        for number, rows in enumerate(orders):
            self.run(case.create(f"t{number}", rows))
        known = None
        for table, settings in ways:
            found = self.answer(case, table, settings)
            if known is None:
                known = found
            elif found != known:
                return table, settings, known, found
        return None


def make_orders(case):
    """The rows in several orders."""
    dice = case.dice
    shuffled = case.rows[:]
    dice.shuffle(shuffled)
    by_value = sorted(case.rows, key=lambda row: (row[1], row[2] or ""))
    return [case.rows, case.rows[::-1], shuffled, by_value]


def shrink(server, case, orders, table, settings):
    """Two orders with as few rows as still differ."""
    ways = [("t0", PLAIN | dict(server.engines[:1])), ("t1", settings)]
    pair = [orders[0], orders[int(table[1:])]]
    step = len(pair[0]) // 2
    while step > 0:
        for start in itertools.count(0, step):
            if start >= len(pair[0]):
                break
            dropped = {row[0] for row in pair[0][start:start + step]}
            fewer = [[row for row in rows if row[0] not in dropped] for rows in pair]
            if fewer[0] and server.differs(case, fewer, ways):
                pair = fewer
        step //= 2
    return pair


def explain(server, case, orders, table, settings, known, found):
    """A failing case as SQL."""
    pair = shrink(server, case, orders, table, settings)
    print(f"# case {case.seed}{' with ' + server.module if server.module else ''}: {table} {settings}\n# {known}\n# {found}")
    commands = [f"LOAD '{server.module}';"] if server.module else []
    commands += [case.create(f"t{number}", rows) for number, rows in enumerate(pair)]
    for number, ways in enumerate([PLAIN | dict(server.engines[:1]), settings]):
        commands += [f"SET {name} = '{value}';" for name, value in ways.items()]
        commands.append(f"SELECT * FROM {case.call('gkmeans_fit', f't{number}')} ORDER BY 1;")
    for line in "\n".join(commands).splitlines():
        print("#", line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=15)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("modules", nargs="*", default=os.environ.get("GK_ENGINE_MODULES", "").split())
    options = parser.parse_args()
    print(f"# order.py --cases {options.cases} --seed {options.seed} {' '.join(options.modules)}")
    for number, module in enumerate([None] + options.modules):
        server = Server(module)
        wrong = 0
        errors = 0
        for seed in range(options.seed, options.seed + options.cases):
            case = Case(seed)
            orders = make_orders(case)
            difference = server.differs(case, orders, server.vary(case, len(orders)))
            errors += isinstance(server.answer(case, "t0", {}), str)
            if difference:
                wrong += 1
                explain(server, case, orders, *difference)
        name = f"{options.cases} random tables in several orders" + (f", {module.rsplit('/', 1)[-1]}" if module else "")
        print(f"{'not ok' if wrong else 'ok'} {number * 2 + 1} - {name}")
        print(f"{'ok' if errors * 2 < options.cases else 'not ok'} {number * 2 + 2} - most of them have an answer"
              f" ({errors} errors)")
    print(f"1..{2 * len(options.modules) + 2}")


if __name__ == "__main__":
    main()
