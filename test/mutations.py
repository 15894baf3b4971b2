#!/usr/bin/python3
"""Random calls, most of them wrong somewhere: each ends with an answer or with the right SQLSTATE, none with an
internal error, a crash or a leak. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE, as a superuser.

mutations.py [--calls N] [--seed S]: a call that does not behave is printed as SQL."""
import argparse
import random
import time

import psycopg2

SETUP = '''
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS gkmeans;
DROP SCHEMA IF EXISTS mutant CASCADE;
CREATE SCHEMA mutant;
SET search_path = mutant, public;
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS real CHECK (VALUE > 0);
CREATE TABLE plain AS SELECT i AS id, (i * 7 % 13)::real AS x, (i * 3 % 11)::float8 AS y, (i % 5)::smallint AS z,
	1 + i % 3 AS w FROM generate_series(1, 80) i;
CREATE TABLE typed AS SELECT i AS id, i::bigint AS big, i::numeric / 7 AS num, ARRAY[i, i % 3, 1]::real[] AS reals,
	ARRAY[i, -i]::float8[] AS doubles, ARRAY[i, i % 2]::int[] AS ints, ARRAY[i]::numeric[] AS numerics, i::text AS words,
	i % 2 = 0 AS truth, now() AS at, '{"a": 1}'::jsonb AS doc, md5(i::text)::uuid AS uid, 'high'::mood AS feeling,
	ROW(i, 'x')::pair AS both, (1 + i % 4)::positive AS domained, int4range(i, i + 1) AS span, '1'::bytea AS raw, i::oid AS number,
	ARRAY[[i, 1], [2, 3]]::real[] AS matrix, repeat('1', i % 5 + 1)::bit varying AS bits, '1 day'::interval AS long,
	(i / 10.0)::money AS cash, ARRAY[]::real[] AS none, CASE WHEN i % 2 = 0 THEN ARRAY[1, 2] ELSE ARRAY[1] END::real[] AS ragged,
	ARRAY[i, NULL]::real[] AS holes FROM generate_series(1, 60) i;
CREATE TABLE spoiled AS SELECT i AS id, CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE i::real END AS x,
	CASE WHEN i % 7 = 0 THEN 1e300 ELSE i END::float8 AS y, CASE i % 3 WHEN 0 THEN 0 ELSE i END::float8 AS w FROM generate_series(1, 50) i;
CREATE TABLE nothing (id int, x real, y float8, w int);
CREATE TABLE equal_rows AS SELECT i AS id, 1::real AS x, 2::float8 AS y, 1 AS w FROM generate_series(1, 40) i;
CREATE TABLE "odd ""name""" AS SELECT i AS "Id", i::real AS "a b", i % 3 AS "É", 1 AS "w;--" FROM generate_series(1, 30) i;
CREATE TABLE dropped AS SELECT * FROM plain;
ALTER TABLE dropped DROP COLUMN x;
CREATE TABLE parts (id int, x real, y float8, w int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (30);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (30) TO (100);
INSERT INTO parts SELECT id, x, y, w FROM plain;
CREATE VIEW shown AS SELECT id, x, y, w FROM plain;
CREATE VIEW fitted AS SELECT cluster_id AS id, centroid[1]::real AS x, centroid[2] AS y, size AS w FROM gkmeans_fit('mutant.plain', '{x,y}', 5);
CREATE MATERIALIZED VIEW kept AS SELECT id, x, y, w FROM plain;
CREATE SEQUENCE counter;
CREATE INDEX plain_index ON plain (x);
CREATE FUNCTION fail_at(n int) RETURNS int LANGUAGE plpgsql AS $$BEGIN
	IF n > 20 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = 'GK001'; END IF; RETURN n; END$$;
CREATE FUNCTION nested(n int) RETURNS float8 LANGUAGE sql AS $$SELECT sum(inertia) FROM gkmeans_fit('mutant.plain', '{x,y}', n)$$;
CREATE TABLE there (id int, cluster_id int, distance float8);
CREATE TABLE other_columns (a int, b text);
CREATE TABLE wide AS SELECT i AS id, array_agg(j::real) AS v FROM generate_series(1, 12) i, generate_series(1, 1700) j GROUP BY i;
GRANT USAGE ON SCHEMA mutant TO PUBLIC;
GRANT SELECT ON plain TO PUBLIC;
'''

# For each argument: values that are right, and values with the SQLSTATEs (by their beginning) that they may end with.
SOURCES = {
    "good": ["'plain'", "'mutant.plain'", "'TABLE plain'", "'SELECT * FROM plain'", "'parts'", "'shown'", "'kept'", "'fitted'",
             "'WITH a AS (SELECT * FROM plain) SELECT * FROM a'", "'SELECT id, x, y, w FROM plain ORDER BY random()'",
             "'SELECT p.id, p.x, q.y, p.w FROM plain p JOIN plain q USING (id)'", "'  SELECT * FROM plain  -- end'",
             "'SELECT * FROM (SELECT * FROM plain) s LIMIT 30'", "'SELECT id, x, y, w FROM plain UNION ALL SELECT id, x, y, w FROM plain'",
             "'/* a */ SELECT * FROM plain'", "'(SELECT * FROM plain)'", "'equal_rows'",
             "'SELECT id, nested(2)::real AS x, y, w FROM plain LIMIT 3'", "'VALUES (1, 1.0::real, 2.0::float8, 1)'"],
    "bad": [("NULL", "22004"), ("''", "42"), ("' '", "42"), ("'SELECT'", "42|22"), ("'nowhere'", "42P01|42"),
            ("'SELECT * FROM nowhere'", "42P01"), ("'SELECT 1; SELECT 2'", "42601"), ("'DROP TABLE plain'", "42|0A"),
            ("'DELETE FROM plain RETURNING *'", "42|0A|25"), ("'SELECT * FROM plain FOR UPDATE'", "42|0A|25"),
            ("'WITH d AS (DELETE FROM plain RETURNING *) SELECT * FROM d'", "42|0A|25"), ("'COMMIT'", "42|0A|2D"),
            ("'SELECT id, fail_at(id)::real AS x, y, w FROM plain'", "GK001"), ("'SELECT id, 1 / (id - 9) AS x, y, w FROM plain'", "22012"),
            ("'SELECT pg_sleep(0.01)'", "42|22"), ("'nothing'", "22023"), ("'typed'", "42|22"), ("'spoiled'", "22"), ("'dropped'", "42"),
            ("'counter'", "42|22"), ("'plain_index'", "42"), ("'pg_class'", "42|22"), ("'\"odd \"\"name\"\"\"'", "42"),
            ("'SELECT'' '", "42"), ("'a.b.c.d.e'", "42|0A"), ("'SELECT $1'", "42"), ("'SELECT * INTO made FROM plain'", "42|0A|25"),
            ("'EXPLAIN SELECT 1'", "42|0A"), ("'SHOW ALL'", "42|0A"), ("repeat('(', 5000)", "42|54"), ("repeat('x', 100000)", "42"),
            ("'SELECT ' || repeat('1,', 1600) || '1'", "42|54|22"), ("E'SELECT \\'\\\\u0041\\''", "42|22"), ("'SELECT nextval(''counter'')::real AS x, 1::float8 AS y, 1 AS w, 1 AS id'", "25|42|22"),
            ("'SELECT set_config(''gkmeans.engine'', ''cpu'', true), * FROM plain'", "42"), ("'wide'", "42|22")],
}
FEATURES = {
    "good": ["'{x,y}'", "'{x}'", "'{y,x}'", "ARRAY['x','y']"],
    "bad": [("NULL", "42|22"), ("'{}'", "22023"), ("'{x,x}'", "42|22"), ("'{nowhere}'", "42703"), ("'{x,NULL}'", "22004"), ("'{X}'", "42703"),
            ("'{\"\"}'", "42703"), ("'{id,x}'", "42|22"), ("'{w}'", "42|22"), ("'{{x},{y}}'", "42|22"), ("'{x;DROP TABLE plain}'", "42703"),
            ("ARRAY[repeat('x', 70000)]", "42"), ("(SELECT array_agg('x'::text) FROM generate_series(1, 3000))", "42|54|22"),
            ("'{ctid}'", "42"), ("'{tableoid}'", "42"), ("'{\"x\\\"\"}'", "42703")],
}
TYPED_FEATURES = ["big", "num", "reals", "doubles", "ints", "numerics", "words", "truth", "at", "doc", "uid", "feeling", "both", "domained", "span",
                  "raw", "number", "matrix", "bits", "long", "cash", "none", "ragged", "holes"]
ARGUMENTS = {
    "k": (["2", "3", "1", "7", "200", "1000000"],
          [("0", "22023"), ("-1", "22023"), ("NULL", "22023"), ("2147483647", "54000"), ("1000001", "54000"), ("-2147483648", "22023")]),
    "weight_column": (["'w'", "NULL"], [("'nowhere'", "42703"), ("''", "42703"), ("'x'", "42|22"), ("'id'", "42|22"), ("repeat('w', 1000)", "42")]),
    "id_column": (["'id'", "NULL"], [("'nowhere'", "42703"), ("''", "42703"), ("'x'", "42|22"), ("'tableoid'", "42")]),
    "init": (["'k-means||'", "'k-means++'", "'random'", "NULL"], [("'given'", "22023"), ("''", "22023"), ("'K-MEANS'", "22023"), ("repeat('k', 9999)", "22023")]),
    "initial_centroids": (["NULL", "'{{1,2},{3,4}}'", "'{{1,2},{3,4},{1e6,-1e6}}'"],
                          [("'{}'", "22023"), ("'{1,2}'", "22023"), ("'{{1,2,3}}'", "22023"), ("'{{1,NULL},{2,3}}'", "22004"), ("'{{NaN,1},{2,3}}'", "22023"),
                           ("'{{Infinity,1},{2,3}}'", "22023"), ("'{{1e300,1},{2,3}}'", "22003|22023"), ("'{{{1,2}}}'", "22023"), ("'{{1,2},{1,2}}'", "22")]),
    "metric": (["'euclidean'", "'cosine'", "NULL"], [("'manhattan'", "22023"), ("''", "22023")]),
    "scale": (["'none'", "'standard'", "'minmax'", "NULL"], [("'robust'", "22023"), ("' none'", "22023")]),
    "nulls": (["'skip'", "NULL"], [("'error'", "22"), ("'ignore'", "22023")]),
    "max_iter": (["1", "10", "2147483647", "NULL"], [("0", "22023"), ("-5", "22023")]),
    "tol": (["0", "1e-4", "1e300", "5e-324", "NULL"], [("-1", "22023"), ("'NaN'", "22023"), ("'Infinity'", "22023"), ("'-0'", "22023")]),
    "n_init": (["1", "4", "NULL"], [("0", "22023"), ("1001", "22023"), ("-2147483648", "22023")]),
    "seed": (["0", "-1", "9223372036854775807", "(-9223372036854775808)", "NULL"], []),
    "labels_table": (["NULL", "'made'", "'mutant.made'", "'there'", "'\"Made It\"'"],
                     [("''", "42"), ("'nowhere.made'", "3F000|42"), ("'other_columns'", "42"), ("'shown'", "42"), ("'counter'", "42"), ("'pg_catalog.made'", "42"),
                      ("'a.b.c.d'", "42|0A"), ("'made; DROP TABLE plain'", "42"), ("repeat('m', 200)", "42|22|"), ("'information_schema.made'", "42|"), ("'pg_temp.made'", "25|42|")]),
    "if_exists": (["'replace'", "'append'"], [("'error'", "42P07"), ("'maybe'", "22023")]),
    "options": (["'{}'", "NULL", "'{\"oversampling\": 2}'", "'{\"rounds\": 0}'", "'{\"rounds\": 100, \"oversampling\": 0.01}'"],
                [("'[]'", "22023"), ("'1'", "22023"), ("'{\"rounds\": 101}'", "22023"), ("'{\"rounds\": null}'", "22023"), ("'{\"a\": {\"b\": [1]}}'", "22023"),
                 ("'{\"oversampling\": 1e999}'", "22023"), ("'{\"oversampling\": \"2\"}'", "22023"), ("'{\"rounds\": [1, 2]}'", "22023"), ("'{'", "22P02"),
                 ("('{\"' || repeat('k', 5000) || '\": 1}')::jsonb", "22023"), ("'{\"rounds\": 1e-400}'", "22023|")]),
}
ID_TYPES = [("NULL::int", ""), ("7", ""), ("NULL::bigint", ""), ("NULL::text", "42804"), ("NULL::uuid", "42804"), ("NULL::numeric", ""), ("NULL::float8", ""),
            ("NULL::mutant.mood", "42804"), ("NULL::mutant.pair", "42804"), ("NULL::int[]", "42804"), ("NULL::json", "42804"), ("NULL::smallint", "42804"),
            ("NULL", "42|"), ("NULL::oid", "42804|"), ("NULL::mutant.positive", "42804|22|23"), ("NULL::\"char\"", "42804")]
SETTINGS = {
    "gkmeans.engine": ["auto", "cpu", "cpu"], "gkmeans.cpu_threads": ["0", "1", "3", "64"], "gkmeans.ring_size": ["1MB", "8MB", "32MB"],
    "gkmeans.host_memory_limit": ["0", "1kB", "200kB", "64MB"], "work_mem": ["64kB", "4MB"], "max_parallel_workers_per_gather": ["0", "2"],
    "min_parallel_table_scan_size": ["0", "8MB"], "parallel_setup_cost": ["0", "1000"], "parallel_tuple_cost": ["0", "0.1"],
    "parallel_leader_participation": ["on", "off"], "statement_timeout": ["20s", "20s", "20s", "1ms", "5ms"], "search_path": ["mutant, public"] * 4 + ["public", ""],
    "default_transaction_read_only": ["off"] * 6 + ["on"], "enable_seqscan": ["on", "off"], "jit": ["off"], "gkmeans.fault_at": ["0"] * 6 + ["1", "3", "9", "25"],
    "plan_cache_mode": ["auto", "force_generic_plan"], "force_parallel_mode": ["off"] * 3 + ["on"], "default_transaction_isolation": ["read committed", "serializable"],
    "temp_file_limit": ["-1", "-1", "0"], "role": ["none"] * 8 + ["mutant_nobody"], "row_security": ["on", "off"], "transform_null_equals": ["off", "on"],
}
# What a setting may end a call with that would else be right.
SETTING_CODES = {("gkmeans.host_memory_limit", "1kB"): "53200", ("gkmeans.host_memory_limit", "200kB"): "53200", ("statement_timeout", "1ms"): "57014",
                 ("statement_timeout", "5ms"): "57014", ("search_path", "public"): "42P01|42|3F", ("search_path", ""): "42P01|42|3F",
                 ("default_transaction_read_only", "on"): "25006", ("temp_file_limit", "0"): "53400", ("role", "mutant_nobody"): "42501|42"}
# How a call is made; {call} stands for it.
WRAPPERS = ["SELECT * FROM {call}"] * 6 + [
    "SELECT count(*), sum((f).cluster_id) FROM (SELECT {call} AS f) s", "SELECT * FROM {call} LIMIT 1", "SELECT * FROM {call} a, {call} b LIMIT 3",
    "CREATE TEMP TABLE taken ON COMMIT DROP AS SELECT * FROM {call}", "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM {call}",
    "WITH a AS MATERIALIZED (SELECT * FROM {call}) SELECT * FROM a UNION ALL SELECT * FROM a",
    "PREPARE p AS SELECT * FROM {call}; EXECUTE p; EXECUTE p; DEALLOCATE p",
    "DECLARE c CURSOR FOR SELECT * FROM {call}; FETCH 2 FROM c; CLOSE c", "DECLARE c SCROLL CURSOR FOR SELECT * FROM {call}; FETCH LAST FROM c; FETCH FIRST FROM c",
    "DO $do$BEGIN PERFORM * FROM {call}; EXCEPTION WHEN division_by_zero THEN NULL; END$do$",
    "SAVEPOINT s; SELECT * FROM {call}; ROLLBACK TO s; SELECT * FROM {call}",
    "SELECT (SELECT max(cluster_id) FROM {call}) FROM generate_series(1, 2)", "SELECT g, f.* FROM generate_series(1, 2) g, LATERAL (SELECT * FROM {call}) f",
    "SELECT CASE WHEN false THEN (SELECT count(*) FROM {call}) END", "DELETE FROM there WHERE id IN (SELECT cluster_id FROM {call})"]


class Call:
    """A call, the settings around it, and the SQLSTATEs that it may end with: none if it must succeed."""

    def __init__(self, seed):
        dice = random.Random(seed)
        self.seed = seed
        self.dice = dice
        self.codes = set()
        self.wrong = 0
        self.function = dice.choice(["gkmeans_fit", "gkmeans_fit_predict"])
        arguments = {"source": dice.choice(SOURCES["good"]), "features": dice.choice(FEATURES["good"]), "k": "3"}
        if self.function == "gkmeans_fit_predict":
            arguments["id_column"] = "'id'"
        for _ in range(dice.choice([0, 1, 1, 2, 2, 3, 5])):
            self.mutate(arguments)
        self.head = ""
        if self.function == "gkmeans_fit_predict":
            self.choose_id_type(arguments)
        self.consider_pairs(arguments)
        self.settings = self.choose_settings()
        given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        self.text = dice.choice(WRAPPERS).format(call=f"{self.function}({self.head}{given})")
        self.consider_context(arguments)

    def allow(self, codes):
        """One more thing may be wrong, with these beginnings of SQLSTATEs."""
        found = [code for code in codes.split("|") if code]
        self.codes.update(found)
        self.wrong += len(found) > 0

    def choose_id_type(self, arguments):
        """The type of the ids; one that an int does not become is an error."""
        text, codes = ("NULL::int", "") if self.dice.random() < 0.5 else self.dice.choice(ID_TYPES)
        self.head = f"id_type => {text}, "
        self.allow(codes)
        if arguments.get("id_column") != "'id'":
            self.allow("22023|42|22004")
        if any(name in arguments["source"] for name in ("typed", "fitted", "VALUES", "odd")):
            self.allow("42804|42703")

    def mutate(self, arguments):
        """Another value for one argument: right, or wrong."""
        dice = self.dice
        name = dice.choice(["source", "source", "features", "typed"] + list(ARGUMENTS))
        if name == "typed":
            arguments["source"] = "'typed'"
            arguments["features"] = "'{" + ",".join(dice.sample(TYPED_FEATURES, dice.choice([1, 1, 1, 2]))) + "}'"
            return self.allow("42|22")
        good, bad = {"source": SOURCES.values(), "features": FEATURES.values()}.get(name) or ARGUMENTS[name]
        if bad and dice.random() < 0.45:
            arguments[name], codes = dice.choice(bad)
            self.allow(codes)
        else:
            arguments[name] = dice.choice(good)

    def consider_pairs(self, arguments):
        """What only two arguments together make wrong."""
        values = " ".join(arguments.values())
        if arguments.get("initial_centroids", "NULL") != "NULL":
            self.allow("22023|22003")
        if arguments.get("labels_table", "NULL") != "NULL":
            self.allow("22023|42P07|42|55|23|25")
        if "VALUES" in values:
            self.allow("42703|42")
        if arguments.get("metric") == "'cosine'" or "equal_rows" in values or "spoiled" in values:
            self.allow("22")
        if any(name in values for name in ("nested", "fitted")):
            self.allow("53200|57014|0A|55|42|25|58")
        # of two mistakes either may be found first, and one may make another of the rest
        if self.wrong > 1:
            self.allow("42|22")

    def choose_settings(self):
        settings = {}
        for name in self.dice.sample(list(SETTINGS), self.dice.choice([0, 1, 2, 4])):
            settings[name] = self.dice.choice(SETTINGS[name])
            self.allow(SETTING_CODES.get((name, settings[name]), ""))
            if name == "gkmeans.fault_at" and settings[name] != "0":
                self.allow("58|53|XX000")
        return settings

    def consider_context(self, arguments):
        """What only the statement around the call makes wrong."""
        twice = self.text.count(self.function) > 1 or "EXECUTE p; EXECUTE" in self.text or "generate_series(1, 2)" in self.text
        if arguments.get("labels_table", "NULL") != "NULL" and (twice or "EXPLAIN" in self.text):
            self.allow("42|55|25")
        if "there" in self.text or "CREATE" in self.text:
            self.allow("25006" if self.settings.get("default_transaction_read_only") == "on" else "")
            self.allow("42" if "role" in self.settings else "")

    def may_end_with(self, code):
        return any(allowed and code.startswith(allowed) for allowed in self.codes)

    def commands(self):
        """The settings, those that must come before the transaction as SET, and the statement."""
        early = ("default_transaction_read_only", "default_transaction_isolation")
        return [f"SET {'' if name in early else 'LOCAL '}{name} = "
                + (value or "''" if name == "search_path" else f"'{value}'") for name, value in self.settings.items()] + [self.text]


class Session:
    """The session that makes the calls, and what it holds."""

    def __init__(self):
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SELECT pg_backend_pid()")
        self.pid = self.cursor.fetchone()[0]
        try:
            self.cursor.execute("LOAD 'gkmeans_faults'")
        except psycopg2.Error:
            SETTINGS.pop("gkmeans.fault_at", None)
        if self.connection.server_version >= 160000 and "force_parallel_mode" in SETTINGS:
            SETTINGS["debug_parallel_query"] = SETTINGS.pop("force_parallel_mode")

    def make(self, call):
        """Makes a call in a transaction that is rolled back; its SQLSTATE, None if it ends well."""
        code = message = None
        early = [c for c in call.commands() if c.startswith("SET ") and not c.startswith("SET LOCAL")]
        try:
            for command in early:
                self.cursor.execute(command)
            self.cursor.execute("BEGIN")
            for command in call.commands():
                if command not in early:
                    self.cursor.execute(command)
        except psycopg2.Error as error:
            if error.pgcode is None or error.pgcode.startswith("57P"):
                raise
            code, message = error.pgcode, str(error).splitlines()[0]
        self.cursor.execute("ROLLBACK")
        self.cursor.execute("DEALLOCATE ALL")
        for command in early:
            self.cursor.execute("RESET " + command.split()[1])
        return code, message

    def held(self):
        """What is left of a fit: bytes, memory contexts, threads."""
        self.cursor.execute("SELECT coalesce(sum(bytes), 0), (SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'gkmeans')"
                            " FROM gkmeans_memory()")
        left = [int(value) for value in self.cursor.fetchone()]
        return left + [self.status("Threads") - 1]

    def status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def judge(call, code, message, left):
    """What is wrong with the end of a call, or None."""
    if any(left):
        return f"bytes, memory contexts and threads left: {left}"
    if code is None:
        return None
    if code.startswith("XX") and not (call.settings.get("gkmeans.fault_at", "0") != "0" and "injected fault" in message):
        return f"an internal error: {message}"
    if not call.may_end_with(code):
        return f"SQLSTATE {code} instead of {sorted(call.codes) or 'an answer'}: {message}"
    return None


def prepare():
    """The tables of the calls, and a role without privileges."""
    with psycopg2.connect("") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname = 'mutant_nobody'")
        if cursor.fetchone()[0] == 0:
            cursor.execute("CREATE ROLE mutant_nobody")
        cursor.execute(SETUP)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"# mutations.py --calls {options.calls} --seed {options.seed}")
    prepare()
    session = Session()
    session.cursor.execute("SET client_min_messages = error; SET search_path = mutant, public; SET statement_timeout = '20s'")
    wrong = answers = 0
    codes = {}
    resident = None
    for number in range(options.calls):
        call = Call(options.seed * 1000003 + number)
        code, message = session.make(call)
        complaint = judge(call, code, message, session.held())
        answers += code is None
        codes[code] = codes.get(code, 0) + 1
        if number == options.calls // 3:
            resident = session.status("RssAnon")
        if complaint:
            wrong += 1
            print(f"# call {number}: {complaint}\n#   " + ";\n#   ".join(["BEGIN"] + [c[:2000] for c in call.commands()] + ["ROLLBACK"]))
    growth = session.status("RssAnon") - resident
    print(f"# {sorted(codes.items(), key=lambda item: -item[1])}")
    print(f"{'not ok' if wrong else 'ok'} 1 - {options.calls} calls end with an answer or the right error, and leave nothing")
    print(f"{'ok' if options.calls / 5 < answers < options.calls * 4 / 5 else 'not ok'} 2 - some are right and some are wrong ({answers} answers)")
    print(f"{'ok' if growth < 65536 else 'not ok'} 3 - the memory of the session does not grow ({growth} kB in the last two thirds)")
    print("1..3")


if __name__ == "__main__":
    main()
