"""What an enemy would do: calls of the feed that are forged, stolen, replayed or out of order, and sources
that fit, cancel, terminate, drop, commit and change settings while they are read.  Every attempt ends in an
answer or in an error of the caller's; no server process dies, no memory is left, and the next fit is right.

usage: hostile.py [seed]; prints TAP.  PGHOST, PGPORT and PGDATABASE name a server that may be spoiled;
HOSTILE says for how many minutes to go on (0.6).  Time decides how many attempts are made, not what they have to show.
"""

import itertools
import os
import random
import re
import sys
import threading
import time

import psycopg2
import psycopg2.errors
import psycopg2.extensions

from tap import finish, result

MINUTES = float(os.environ.get("HOSTILE", "0.6"))
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
SLOWDOWN = float(os.environ.get("SLOWDOWN", "1"))
dice = random.Random(SEED)


def connect(user="postgres"):
    """Opens a session."""
    session = psycopg2.connect(user=user, connect_timeout=60)
    session.autocommit = True
    return session


def for_a_while(share, cases, least=0):
    """The cases, as long as a share of the time lasts, but no fewer than the least number."""
    end = time.monotonic() + share * MINUTES * 60
    for number, case in enumerate(cases):
        if number >= least and time.monotonic() > end:
            break
        yield case


def endless(choose):
    """What a function chooses, again and again."""
    while True:
        yield choose()


def literal(text):
    """A string constant that may stand in another."""
    return "'" + text.replace("'", "''") + "'"


# PostgreSQL's own errors if a plan's tables are dropped or changed during planning.
VANISHED = re.compile("could not open relation with OID|cache lookup failed for|attribute [0-9]+ of ")

# Its errors about functions that write although they are marked parallel safe.
MISUSED = re.compile("cannot assign (Xids|XIDs|TransactionIds|transaction IDs) during a parallel operation", re.IGNORECASE)


class Attempts:
    """Counts the attempts of one test; what must not happen is kept for its result."""

    def __init__(self, name):
        self.name, self.made, self.wrong, self.states = name, 0, [], {}
        self.sentinel = connect()
        self.session = None

    def run(self, user, statements, want_error=False, may_die=False):
        """Runs statements in a transaction of a session that is kept while it lives."""
        self.made += 1
        if self.session is None or self.session.closed or self.session.info.user != user:
            self.close_session()
            self.session = connect(user)
        state = None
        cursor = self.session.cursor()
        try:
            for statement in ["BEGIN", *statements]:
                cursor.execute(statement)
        except psycopg2.Error as error:
            state = error.pgcode or ("lost" if self.session.closed else "client")
            if state.startswith("XX") and "act_at_planning" in str(statements) and VANISHED.match(str(error)):
                state = "vanished"
            if state.startswith("XX") and MISUSED.match(str(error)):
                state = "misused"
            if state.startswith("XX") or (state == "lost" and not may_die):
                self.wrong.append(f"{state}: {error}".strip() + "\nafter " + "; ".join(statements))
        self.states[state or "ok"] = self.states.get(state or "ok", 0) + 1
        if want_error and state is None:
            self.wrong.append("no error: " + "; ".join(statements))
        self.check_what_is_left(statements)
        return state

    def check_what_is_left(self, statements):
        """Nothing of a fit may be left in the session, and no process may have crashed."""
        try:
            if not self.session.closed:
                cursor = self.session.cursor()
                cursor.execute("ROLLBACK")
                cursor.execute("RESET ALL")
                cursor.execute("SELECT kind, bytes FROM public.gkmeans_memory() WHERE bytes <> 0")
                if left := cursor.fetchall():
                    self.wrong.append(f"memory left: {left} after " + "; ".join(statements))
        except psycopg2.Error as error:
            if not self.session.closed:
                self.wrong.append(f"{error} after " + "; ".join(statements))
        try:
            self.sentinel.cursor().execute("SELECT 1")
        except psycopg2.Error as error:
            self.wrong.append(f"the server crashed: {error}after " + "; ".join(statements))
            self.sentinel = wait_for_server()
            self.close_session()

    def close_session(self):
        if self.session is not None:
            self.session.close()
        self.session = None

    def end(self):
        """The next fit has its answer; prints the result of the test."""
        self.close_session()
        fit = connect("mallory")
        cursor = fit.cursor()
        cursor.execute("SELECT array_agg(size ORDER BY cluster_id)::text FROM gkmeans_fit('base', '{x,y}', 3)")
        if (answer := cursor.fetchone()[0]) != "{100,100,100}":
            self.wrong.append(f"a fit afterwards: {answer}")
        fit.close()
        self.sentinel.close()
        states = ", ".join(f"{state} {number}" for state, number in sorted(self.states.items()))
        result(not self.wrong, f"{self.name}: {self.made} attempts ({states})", "\n".join(self.wrong[:5]))


def wait_for_server():
    """A session, as soon as the server has recovered."""
    for _ in range(int(60 * SLOWDOWN)):
        try:
            return connect()
        except psycopg2.OperationalError:
            time.sleep(1)
    raise SystemExit("Bail out! the server does not come back")


SETUP = """
CREATE EXTENSION IF NOT EXISTS gkmeans SCHEMA public;
DROP OWNED BY mallory CASCADE;
DROP TABLE IF EXISTS base, many, parts CASCADE;
CREATE TABLE base AS SELECT i AS id, (i % 3) * 100 + i * 0.001::float8 AS x, (i % 3) * 50.0::float8 AS y,
    1.0 + i % 2 AS w FROM generate_series(1, 300) i;
CREATE TABLE many AS SELECT i AS id, (i % 3) * 100 + i * 1e-6::float8 AS x, ARRAY[i % 3, 7]::real[] AS v, i % 5 AS g
    FROM generate_series(1, 20000) i;
CREATE TABLE parts (g int, v float8) PARTITION BY LIST (g);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
INSERT INTO parts SELECT i % 2, i FROM generate_series(1, 500) i;
ANALYZE;
GRANT SELECT ON base, many, parts TO PUBLIC;
GRANT CREATE ON SCHEMA public TO mallory;
CREATE OR REPLACE FUNCTION as_ticket(handle bigint) RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex(handle & 255), 2, '0') || lpad(to_hex(handle >> 8 & 255), 2, '0')
        || lpad(to_hex(handle >> 16 & 255), 2, '0') || lpad(to_hex(handle >> 24 & 255), 2, '0')
        || repeat('0', 24))::uuid
$$;
-- Runs an action once, at a row of a source.
CREATE OR REPLACE FUNCTION act(i int, at int, action text) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i = at THEN EXECUTE action; END IF;
    RETURN i;
END $$;
-- The same, marked as safe for workers, which it is not.
CREATE OR REPLACE FUNCTION act_anywhere(i int, at int, action text) RETURNS float8 LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
    IF i = at THEN EXECUTE action; END IF;
    RETURN i;
END $$;
-- The same, with its error caught.
CREATE OR REPLACE FUNCTION act_caught(i int, at int, action text) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i = at THEN
        BEGIN EXECUTE action; EXCEPTION WHEN OTHERS THEN NULL; END;
    END IF;
    RETURN i;
END $$;
-- Runs when the source is planned: what was described is not what is read.
CREATE OR REPLACE FUNCTION act_at_planning(action text) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM act(1, 1, action);
    RETURN 1;
END $$;
CREATE OR REPLACE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
CREATE OR REPLACE PROCEDURE rolls_back() LANGUAGE plpgsql AS $$ BEGIN ROLLBACK; END $$;
CREATE OR REPLACE FUNCTION recurse(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN recurse(i + 1); END $$;
"""

# Aggregates that only a superuser can create: the feed's functions in the wrong places.
EVIL = {
    "evil_state": '(uuid, "any", "any", VARIADIC "any") (SFUNC = _gkmeans_feed_accumulate, STYPE = internal,'
    " FINALFUNC = numeric_avg)",
    "evil_final": "(anynonarray) (SFUNC = array_agg_transfn, STYPE = internal, FINALFUNC = _gkmeans_feed_final)",
    "evil_moving": '(uuid, "any", "any", VARIADIC "any") (SFUNC = _gkmeans_feed_accumulate, STYPE = internal,'
    " FINALFUNC = numeric_avg, MSFUNC = _gkmeans_feed_accumulate, MINVFUNC = _gkmeans_feed_accumulate, MSTYPE = internal,"
    " MFINALFUNC = numeric_avg)",
    "evil_send": "(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg, PARALLEL = SAFE,"
    " COMBINEFUNC = numeric_avg_combine, SERIALFUNC = _gkmeans_feed_serialize, DESERIALFUNC = _gkmeans_feed_deserialize)",
    "evil_combine": "(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg, PARALLEL = SAFE,"
    " COMBINEFUNC = _gkmeans_feed_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_avg_deserialize)",
    "evil_copy": '(uuid, "any", "any", VARIADIC "any") (SFUNC = _gkmeans_feed_accumulate, STYPE = internal, PARALLEL = SAFE,'
    " FINALFUNC = _gkmeans_feed_final, COMBINEFUNC = _gkmeans_feed_combine, SERIALFUNC = _gkmeans_feed_serialize,"
    " DESERIALFUNC = _gkmeans_feed_deserialize)",
}

PARALLEL = ["SET LOCAL parallel_setup_cost = 0", "SET LOCAL parallel_tuple_cost = 0",
            "SET LOCAL min_parallel_table_scan_size = 0", "SET LOCAL max_parallel_workers_per_gather = 2"]
SETTINGS = [[], PARALLEL, ["SET LOCAL enable_sort = off"], ["SET LOCAL enable_hashagg = off"], PARALLEL + ["SET LOCAL enable_partitionwise_aggregate = on"],
            PARALLEL + ["SET LOCAL parallel_leader_participation = off"], ["SET LOCAL plan_cache_mode = force_custom_plan"],
            ["SET LOCAL jit_above_cost = 0", "SET LOCAL jit = on"]]

TICKETS = ["NULL::uuid", "gen_random_uuid()", "'00000000-0000-0000-0000-000000000000'::uuid", "md5(v::text)::uuid",
           "(SELECT min(md5(g::text)::uuid) FROM parts)"]
CALLS = ["_gkmeans_feed({t}, NULL::int, NULL::float8, v)", "_gkmeans_feed({t}, g, v, v, v)", "_gkmeans_feed({t}, g, 1.0, ARRAY[v]::real[])",
         "_gkmeans_feed({t}, NULL::int, NULL::float8, VARIADIC ARRAY[v, v])"]
PLACES = [
    "SELECT {c} FROM parts",
    "SELECT {c} FROM parts WHERE false",
    "SELECT g, {c} FROM parts GROUP BY g",
    "SELECT g, v, {c} FROM parts GROUP BY CUBE (g, v)",
    "SELECT {c} OVER () FROM parts",
    "SELECT {c} OVER (PARTITION BY g ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM parts",
    "SELECT {d} FROM parts",
    "SELECT {c} FILTER (WHERE v > 3) FROM parts",
    "SELECT {c}, {c} FROM parts",
    "SELECT g FROM parts GROUP BY g HAVING {c} IS NULL",
    "SELECT (SELECT {c} FROM parts p WHERE p.g = q.g) FROM parts q LIMIT 5",
    "WITH c AS MATERIALIZED (SELECT {c} AS f FROM parts) SELECT * FROM c",
    "CREATE TEMP TABLE made ON COMMIT DROP AS SELECT {c} FROM parts",
    "EXPLAIN (ANALYZE, VERBOSE) SELECT {c} FROM parts",
    "DO $$BEGIN PERFORM {c} FROM parts; END$$",
]


def direct_calls():
    """Every way to call the aggregate, with every kind of ticket, outside of a fit."""
    attempts = Attempts("the feed called directly")
    cases = list(itertools.product(TICKETS, CALLS, PLACES, SETTINGS, ("mallory", "postgres")))
    dice.shuffle(cases)
    for ticket, call, place, setting, user in for_a_while(0.15, cases, 50):
        call = call.format(t=ticket)
        text = place.format(c=call, d=call.replace("(", "(DISTINCT ", 1))
        # without a row there is nothing to feed, and the answer is NULL
        attempts.run(user, setting + [text], want_error="WHERE false" not in place)
    cases = list(itertools.product(TICKETS, CALLS, SETTINGS))
    dice.shuffle(cases)
    for ticket, call, setting in for_a_while(0.05, cases, 10):
        inside = f"(SELECT {call.format(t=ticket)} AS fed FROM parts) AS forged"
        for source in (f"SELECT CASE WHEN fed IS NULL THEN x END AS x, y FROM base, {inside}",
                       f"SELECT fed AS x, 1 AS y FROM {inside}"):
            attempts.run("mallory", setting + [f"SELECT count(*) FROM gkmeans_fit({literal(source)}, '{{x,y}}', 2)"], want_error=True)
    for setting in SETTINGS:
        for user in ("mallory", "postgres"):
            attempts.run(user, setting + ["DECLARE c CURSOR FOR SELECT g, _gkmeans_feed(NULL, g, v, v) FROM parts GROUP BY g", "FETCH 1 FROM c"],
                         want_error=True)
            attempts.run(user, setting + ["PREPARE replay(uuid) AS SELECT _gkmeans_feed($1, g, v, v) FROM parts", "EXECUTE replay(gen_random_uuid())"],
                         want_error=True)
            attempts.run(user, ["DEALLOCATE ALL"])
    attempts.end()


def support_functions():
    """The functions behind the aggregate, called by name and made parts of other aggregates."""
    attempts = Attempts("the functions behind the aggregate")
    values = ["NULL", "NULL::internal", "''", "''::bytea", "1", "NULL::uuid", "gen_random_uuid()", "0.5::float8"]
    for name, most in (("accumulate", 6), ("combine", 2), ("serialize", 1), ("deserialize", 2), ("final", 1)):
        for _ in for_a_while(0.01, range(1000), 5):
            arguments = ", ".join(dice.choice(values) for _ in range(dice.randint(1, most)))
            for user in ("mallory", "postgres"):
                attempts.run(user, [f"SELECT _gkmeans_feed_{name}({arguments})"],
                             want_error=name not in ("serialize", "deserialize"))
    for name, definition in EVIL.items():
        attempts.run("mallory", [f"CREATE AGGREGATE {name} {definition}"], want_error=True)
        call = {"evil_final": "(v)", "evil_send": "(v::numeric)", "evil_combine": "(v::numeric)"}.get(name, "(gen_random_uuid(), g, v, v)")
        cases = list(itertools.product(PLACES, SETTINGS))
        dice.shuffle(cases)
        for place, setting in for_a_while(0.02, cases, 10):
            text = place.format(c=name + call, d=name + "(DISTINCT " + call[1:])
            attempts.run("postgres", [f"CREATE AGGREGATE {name} {definition}", *setting, text])
        inside = call.replace("v", "x").replace("g,", "id,")
        for setting in SETTINGS:
            attempts.run("postgres", [f"CREATE AGGREGATE {name} {definition}", *setting,
                                      f"SELECT count(*) FROM gkmeans_fit('SELECT CASE WHEN e IS NULL THEN x END AS x, y FROM base, "
                                      f"(SELECT {name}{inside} AS e FROM base) s', '{{x,y}}', 2)"],
                         want_error=name not in ("evil_send", "evil_combine"))
    attempts.end()


FITS = [
    "SELECT count(*) FROM gkmeans_fit({s}, '{{x,y}}', 2)",
    "SELECT count(*) FROM gkmeans_fit_predict(NULL::int, {s}, '{{x,y}}', 2, id_column => 'id')",
    "SELECT count(*) FROM gkmeans_fit({s}, '{{x}}', 2, weight_column => 'w', nulls => 'error', scale => 'standard')",
    "SELECT count(*) FROM gkmeans_fit({s}, '{{x,y}}', 2, id_column => 'id', labels_table => 'labels')",
    "SELECT count(*) FROM gkmeans_fit({s}, '{{v}}', 2)",
]

OTHER_FIT = "SELECT count(*) FROM gkmeans_fit('SELECT x, y FROM base', '{x,y}', 3)"
ACTIONS = [
    OTHER_FIT,
    "SELECT count(*) FROM gkmeans_fit_predict(NULL::int, 'base', '{x,y}', 3, id_column => 'id', labels_table => 'inner_labels')",
    "SELECT count(*) FROM gkmeans_fit('SELECT act(id, 5, $$SELECT count(*) FROM gkmeans_fit(''base'', ''{x}'', 2)$$) AS x FROM base', '{x}', 3)",
    "SELECT count(*) FROM gkmeans_fit('SELECT act(id, 5, $$SELECT 1/0$$) AS x FROM base', '{x}', 3)",
    "SELECT count(*) FROM gkmeans_fit('no such source', '{x}', 3)",
    "SELECT _gkmeans_feed(gen_random_uuid(), g, v, v) FROM parts",
    "SELECT _gkmeans_feed(as_ticket(i), g, v, v) FROM parts, generate_series(1, 3) i",
    "DO $$DECLARE c refcursor; r record; BEGIN OPEN c FOR SELECT g, _gkmeans_feed(gen_random_uuid(), g, v, v) FROM parts GROUP BY g; FETCH c INTO r; END$$",
    "DO $$DECLARE c refcursor := 'kept'; r record; BEGIN OPEN c FOR SELECT * FROM gkmeans_fit('base', '{x}', 2); FETCH c INTO r; END$$",
    "CALL commits()", "CALL rolls_back()", "DO $$BEGIN COMMIT; END$$", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT", "ROLLBACK",
    "DO $$BEGIN BEGIN PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN NULL; END; END$$",
    f"DO $d$BEGIN BEGIN {OTHER_FIT.replace('SELECT', 'PERFORM', 1)}; PERFORM 1/0; EXCEPTION WHEN OTHERS THEN NULL; END; END$d$",
    "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(1)",
    "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(1)",
    "SELECT pg_cancel_backend(leader_pid), pg_sleep(0.1) FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE leader_pid = pg_backend_pid()",
    "DROP EXTENSION gkmeans CASCADE", "ALTER EXTENSION gkmeans SET SCHEMA pg_temp", "DROP FUNCTION recurse",
    "DROP AGGREGATE _gkmeans_feed(uuid, \"any\", \"any\", VARIADIC \"any\")", "ALTER EXTENSION gkmeans DROP FUNCTION _gkmeans_feed_final(internal)",
    "DROP TABLE base CASCADE", "TRUNCATE base, many", "DELETE FROM base", "INSERT INTO base SELECT * FROM base", "ALTER TABLE base ALTER x TYPE text",
    "ALTER TABLE base DROP COLUMN x", "CREATE INDEX ON base (id)", "CLUSTER base", "LOCK base", "VACUUM base", "CREATE TEMP TABLE base (id text)",
    "SET ROLE mallory", "SET SESSION AUTHORIZATION mallory", "SET ROLE nobody_at_all", "RESET ALL", "DISCARD ALL", "DISCARD PLANS", "DEALLOCATE ALL", "CLOSE ALL",
    "SET search_path = pg_temp", "SET statement_timeout = 1", "SET LOCAL statement_timeout = 1", "SET work_mem = '64kB'", "SET jit = on", "SET row_security = off",
    "SET enable_partitionwise_aggregate = on", "SET max_parallel_workers = 0", "SET max_parallel_workers = 1024", "SET gkmeans.ring_size = '2MB'",
    "SET gkmeans.engine = cpu", "SET gkmeans.cpu_threads = 1", "SET plan_cache_mode = force_custom_plan", "SET default_transaction_read_only = on",
    "SET transaction_read_only = on", "SET max_stack_depth = '100kB'", "SET debug_print_plan = on", "SET client_min_messages = debug5",
    "SELECT recurse(0)", "SELECT 1/0", "DO $$BEGIN RAISE EXCEPTION SQLSTATE '57014'; END$$", "DO $$BEGIN RAISE EXCEPTION SQLSTATE 'XY000'; END$$",
    "LISTEN a", "NOTIFY a", "SELECT pg_advisory_xact_lock(1)", "SELECT lo_create(0)", "PREPARE TRANSACTION 'a'", "COPY base TO PROGRAM 'cat >/dev/null'",
    "SELECT setseed(0), random() FROM generate_series(1, 10)", "LOAD 'gkmeans'", "SELECT gkmeans_memory(), gkmeans_last_fit()", "CHECKPOINT",
    "ALTER SYSTEM SET work_mem = '1MB'", "CREATE EXTENSION gkmeans", "REINDEX TABLE base", "REFRESH MATERIALIZED VIEW no_view",
]
SOURCES = [
    "SELECT id, {f}(id, {at}, {a}) AS x, y, w, ARRAY[x, y] AS v FROM base",
    "SELECT id, x, y, w, ARRAY[{f}(id, {at}, {a}), 1] AS v FROM base WHERE {f}(id, {at}, {a}) > 0 ORDER BY y",
    "SELECT id, {f}(id, {at}, {a}) AS x, x AS y, 1 AS w, v FROM many",
    "SELECT id, x + 1e9 * {f}(id, {at}, {a}) AS x, x AS y, 1 AS w, v FROM many WHERE id < 5000",
    "SELECT id, s.x, y, w, ARRAY[s.x] AS v FROM base, LATERAL (SELECT {f}(id, {at}, {a}) AS x) s",
    "SELECT id, act_at_planning({a}) + x AS x, y, w, ARRAY[x, y] AS v FROM base",
]


def sources_that_act():
    """Sources that do something else while they are read."""
    attempts = Attempts("sources that act")
    more = endless(lambda: (dice.choice(ACTIONS), dice.randrange(1, 400)))
    for action, at in for_a_while(0.35, itertools.chain([(action, None) for action in ACTIONS], more), len(ACTIONS)):
        function = dice.choice(["act", "act", "act_caught", "act_anywhere"])
        source = dice.choice(SOURCES).format(f=function, at=at or 7, a=literal(action))
        statements = dice.choice(SETTINGS) + [dice.choice(FITS).format(s=literal(source))]
        if dice.random() < 0.5:
            statements = statements + statements[-1:] + [OTHER_FIT]
        if dice.random() < 0.3:
            statements = [*statements[:-1], "DO " + literal("BEGIN " + statements[-1].replace("SELECT", "PERFORM", 1)
                          + "; EXCEPTION WHEN OTHERS THEN NULL; END"), OTHER_FIT]
        if dice.random() < 0.3:
            statements = ["SAVEPOINT before", *statements, "ROLLBACK TO before", OTHER_FIT]
        if "refcursor := 'kept'" in action:
            statements.append("FETCH ALL FROM kept")
        attempts.run(dice.choice(["mallory", "postgres"]), statements, may_die="terminate" in action)
    attempts.end()


def tickets_of_segments():
    """Tickets with the handle of each segment of shared memory there is, that of the reading among them, and no key."""
    attempts = Attempts("tickets with a true handle")
    handles = {"mmap": "SELECT substr(f, 6)::bigint FROM pg_ls_dir('pg_dynshmem') f WHERE f ~ '^mmap[.][0-9]+$'",
               "posix": "SELECT substr(f, 12)::bigint FROM pg_ls_dir('/dev/shm') f WHERE f ~ '^PostgreSQL[.][0-9]+$'",
               "sysv": "SELECT split_part(ltrim(l), ' ', 1)::bigint & 4294967295 FROM"
                       " regexp_split_to_table(pg_read_file('/proc/sysvipc/shm', 0, 1000000), e'\\n') l WHERE l ~ '^ *-?[1-9]'"}
    replay = (f"DO $do$DECLARE handle bigint; BEGIN FOR handle IN {handles[setting_of('dynamic_shared_memory_type')]}"
              " LOOP BEGIN EXECUTE format('EXECUTE replay(%L)', as_ticket(handle));"
              " RAISE EXCEPTION SQLSTATE 'XX999'; EXCEPTION WHEN object_not_in_prerequisite_state THEN PERFORM nextval('refused'); END; END LOOP; END$do$")
    attempts.run("postgres", ["CREATE SEQUENCE refused", "COMMIT"])
    for number, setting in enumerate(for_a_while(0.05, SETTINGS * 30, len(SETTINGS))):
        source = f"SELECT id, act(id, {number + 1}, {literal(replay)}) AS x FROM base"
        # a generic plan has the ticket as a parameter, and a leader that keeps out leaves the verdict to the workers
        state = attempts.run("postgres", [*setting, *PARALLEL, "DEALLOCATE ALL", "SET LOCAL plan_cache_mode = force_generic_plan",
                             "SET LOCAL parallel_leader_participation = off",
                             "PREPARE replay(uuid) AS SELECT _gkmeans_feed($1, id, NULL::float8, x) FROM many",
                             f"SELECT count(*) FROM gkmeans_fit_predict(NULL::int, {literal(source)}, '{{x}}', 2, id_column => 'id')"])
        if state is not None:
            attempts.wrong.append(f"a fit whose source replayed tickets failed: {state}")
    session = connect()
    cursor = session.cursor()
    cursor.execute("SELECT last_value FROM refused")
    refused = cursor.fetchone()[0]
    cursor.execute("DROP SEQUENCE refused")
    session.close()
    if refused < attempts.made:
        attempts.wrong.append(f"only {refused} tickets were tried")
    attempts.end()


def fits_inside_fits():
    """A reading that waits for another one inside it gives the answer that it gives alone."""
    attempts = Attempts("fits inside fits")
    alone = "SELECT act(id, 0, '') AS x, y FROM base"
    session = connect("mallory")
    cursor = session.cursor()
    answer = "SELECT md5(string_agg(f::text, ',' ORDER BY cluster_id)) FROM gkmeans_fit({s}, '{{x,y}}', 3) f"
    cursor.execute(answer.format(s=literal(alone)))
    expected = cursor.fetchone()
    for setting in SETTINGS:
        source = alone
        for depth in range(1, 6 if MINUTES > 1 else 4):
            inner = f"SELECT count(*) FROM gkmeans_fit({literal(source)}, '{{x,y}}', 3)"
            source = f"SELECT act(id, {dice.randrange(1, 301)}, {literal(inner)}) AS x, y FROM base"
            attempts.made += 1
            for statement in ["BEGIN", *setting, answer.format(s=literal(source))]:
                cursor.execute(statement)
            if (got := cursor.fetchone()) != expected:
                attempts.wrong.append(f"{got} instead of {expected} at depth {depth} with {setting}")
            cursor.execute("COMMIT")
    session.close()
    attempts.end()


def setting_of(name):
    """A setting of the server."""
    session = connect()
    cursor = session.cursor()
    cursor.execute(f"SHOW {name}")
    value = cursor.fetchone()[0]
    session.close()
    return value


def hostile_fit(session, own):
    """A fit of a hostile source in a transaction."""
    cursor = session.cursor()
    action = own.choice([OTHER_FIT, "SELECT pg_sleep(0.01)", ACTIONS[2], ACTIONS[3], ACTIONS[7]])
    source = own.choice(SOURCES[:5]).format(f=own.choice(["act", "act_caught", "act_anywhere"]), at=own.randrange(1, 9), a=literal(action))
    for statement in ["BEGIN", *own.choice(SETTINGS), own.choice(FITS).format(s=literal(source))]:
        cursor.execute(statement)


def memory_left(session):
    """What gkmeans still holds after a rollback."""
    session.cursor().execute("ROLLBACK")
    cursor = session.cursor()
    cursor.execute("SELECT kind, bytes FROM gkmeans_memory() WHERE bytes <> 0")
    return cursor.fetchall()


def fit_until(stop, attempts, pids, number, lock):
    """Fits hostile sources, in a new session whenever the last one was terminated."""
    own = random.Random(f"{SEED} {number}")
    session = None
    while time.monotonic() < stop:
        state = "ok"
        try:
            if session is None or session.closed:
                session = connect(own.choice(["mallory", "postgres"]))
                pids[number] = session.info.backend_pid
                session.cursor().execute("SELECT count(*) FROM gkmeans_fit('base', '{x}', 2)")
            hostile_fit(session, own)
        except psycopg2.Error as error:
            state = error.pgcode or ("lost" if session is not None and session.closed else "client")
            if state.startswith("XX") and not MISUSED.match(str(error)):
                attempts.wrong.append(f"{state}: {error}")
        try:
            if session is not None and not session.closed and (left := memory_left(session)):
                attempts.wrong.append(f"memory left: {left}")
        except psycopg2.Error:
            pass
        with lock:
            attempts.made += 1
            attempts.states[state] = attempts.states.get(state, 0) + 1


def interrupt_until(stop, attempts, pids):
    """Cancels and terminates these backends and their workers at random times."""
    while time.monotonic() < stop:
        time.sleep(dice.random() * 0.1 * SLOWDOWN)
        action = "pg_terminate_backend" if dice.random() < 0.2 else "pg_cancel_backend"
        victims = list(pids.values())
        try:
            if victims:
                attempts.sentinel.cursor().execute(
                    f"SELECT {action}(pid) FROM pg_stat_activity WHERE pid = %s OR leader_pid = %s", [dice.choice(victims)] * 2)
        except psycopg2.Error as error:
            attempts.wrong.append(f"the server crashed: {error}")
            attempts.sentinel = wait_for_server()


def interrupted_by_others():
    """Sessions with hostile sources, cancelled and terminated by another at any time."""
    attempts = Attempts("cancelled and terminated at any time")
    stop = time.monotonic() + 0.2 * MINUTES * 60
    lock = threading.Lock()
    pids = {}
    threads = [threading.Thread(target=fit_until, args=(stop, attempts, pids, number, lock)) for number in range(3)]
    for thread in threads:
        thread.start()
    interrupt_until(stop, attempts, pids)
    for thread in threads:
        thread.join()
    attempts.end()


def set_up():
    """Tables, functions and a role without privileges."""
    session = connect()
    cursor = session.cursor()
    cursor.execute("SELECT FROM pg_roles WHERE rolname = 'mallory'")
    if cursor.rowcount == 0:
        cursor.execute("CREATE ROLE mallory LOGIN")
    cursor.execute("SET client_min_messages = warning")
    cursor.execute(SETUP)
    session.close()


def main():
    print(f"# seed {SEED}, {MINUTES} minutes")
    set_up()
    for test in (direct_calls, support_functions, sources_that_act, fits_inside_fits, tickets_of_segments, interrupted_by_others):
        began = time.monotonic()
        test()
        print(f"# {time.monotonic() - began:.0f} s")
    return finish()


sys.exit(main())
