"""Models whose owner set columns and definitions by hand: every function and view that reads models answers or has an
error of the user's, ends when it has to, and leaves the other models as they are.

usage: tampered.py [seed [case]]; prints TAP.  PGHOST, PGPORT and PGDATABASE name a server that may be spoiled, on this machine;
HOSTILE says for how many minutes to go on (0.15).  Every case has dice of its own, so that one can be repeated alone.
"""

import json
import os
import random
import re
import signal
import sys
import threading
import time

import psycopg2
import psycopg2.extensions

import tampering
from tap import finish, result

MINUTES = float(os.environ.get("HOSTILE", "0.15"))
SLOWDOWN = float(os.environ.get("SLOWDOWN", "1"))
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
ONLY = int(sys.argv[2]) if len(sys.argv) > 2 else None
LIMIT = 3 * SLOWDOWN
# How long after that a statement may go on.  In short runs only an endless one counts, because the
# machine may be busy.
GRACE = (2 if MINUTES > 1 else 300) * SLOWDOWN

SETUP = """
CREATE EXTENSION IF NOT EXISTS gkmeans SCHEMA public;
DROP SCHEMA IF EXISTS tampered CASCADE;
CREATE SCHEMA tampered AUTHORIZATION tamperer;
GRANT USAGE, CREATE ON SCHEMA tampered TO onlooker;
GRANT onlooker TO tamperer;
SET search_path = tampered, public;
CREATE TABLE rows AS SELECT i AS id, (i % 3) * 10 + sin(i) AS x, (i % 3) * 5 + cos(7 * i) AS y, 1.0 + i % 2 AS w,
    ARRAY[i % 3 + sin(i), 1 + cos(i)]::real[] AS v FROM generate_series(1, 60) i;
CREATE TABLE far AS SELECT id, x + 1e6 AS x, y - 1e6 AS y FROM rows;
CREATE TABLE circle AS SELECT i AS id, 100 * sin(i) AS x, 100 * cos(i * i) AS y FROM generate_series(1, 300) i;
CREATE TABLE wide AS SELECT i AS id, ARRAY[i % 4, sin(i), cos(i), sin(2 * i), i % 3, cos(3 * i), i % 5, sin(5 * i), 1]::real[] AS v
    FROM generate_series(1, 150) i;
ANALYZE;
GRANT SELECT ON ALL TABLES IN SCHEMA tampered TO PUBLIC;
"""

# Models of every kind, and the source of each.
MODELS = {
    "scaled": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3, scale => 'standard')"]),
    "plain": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3)"]),
    "cosine": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3, metric => 'cosine', scale => 'standard')"]),
    "directions": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3, metric => 'cosine', id_column => 'id')"]),
    "unnamed": ("SELECT x, y FROM rows", ["SELECT gkmeans_create_model('{m}', 'SELECT x, y FROM rows', k => 3, scale => 'minmax')"]),
    "shifted": ("far", ["SELECT gkmeans_create_model('{m}', 'far', '{x,y}', 4)", "SELECT gkmeans_refit('{m}', deploy => 'always', rescale => true)"]),
    "arrays": ("wide", ["SELECT gkmeans_create_model('{m}', 'wide', '{v}', 5, scale => 'minmax')"]),
    "weighted": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3, weight_column => 'w', id_column => 'id',"
                          " labels_table => '{m}_labels', changes_table => '{m}_changes')", "SELECT gkmeans_refit('{m}', deploy => 'always')"]),
    "chosen": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', k_candidates => '{2,3,4}', n_init => 2, scale => 'standard')"]),
    "versions": ("rows", ["SELECT gkmeans_create_model('{m}', 'rows', '{x,y}', 3, scale => 'standard', n_init => 3)",
                          "SELECT gkmeans_name_clusters('{m}', '{low,mid,high}')", "SELECT gkmeans_refit('{m}', deploy => 'always', starts => 2)",
                          "SELECT gkmeans_refit('{m}', deploy => 'never')", "SELECT gkmeans_refit('{m}', only_if_drift => 10)",
                          "SELECT gkmeans_alter_model('{m}', '{{\"k\": 4}}')", "SELECT gkmeans_refit('{m}', deploy => 'always')",
                          "INSERT INTO {m} (version, group_no, part, status, started_at, error_code, error_message)"
                          " VALUES (90, 0, 0, 'failed', now(), '22012', 'division by zero'), (91, 0, 0, 'running', now(), NULL, NULL)"]),
    "many": ("circle", ["SELECT gkmeans_create_model('{m}', 'circle', '{x,y}', 64)"]),
    "imported": ("rows", ["SELECT gkmeans_import_model('{m}', '{{{{0,0}},{{10,5}},{{20,10}}}}', '{x,y}', names => '{a,b,c}', source => 'rows')"]),
    "copied": ("rows", ["SELECT gkmeans_import_model('{m}', exported => gkmeans_export('untouched')::jsonb, source => 'rows')"]),
}
ANSWER = "SELECT string_agg(gkmeans_predict('untouched', x, y)::text, '' ORDER BY id) FROM rows"
UNTOUCHED = "SELECT gkmeans_create_model('untouched', 'rows', '{x,y}', 3, scale => 'standard')"

# Every function of the extension that takes a model, or what was made of one, with its arguments.
FUNCTIONS = """
SELECT p.proname, p.prokind, array_agg(a.name ORDER BY a.number), array_agg(format_type(a.type, NULL) ORDER BY a.number),
    p.provariadic <> 0, p.pronargdefaults
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gkmeans' AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass
    JOIN pg_proc p ON p.oid = d.objid,
    LATERAL (SELECT t.type, t.number, (ARRAY(SELECT n FROM unnest(p.proargnames) WITH ORDINALITY AS n(n, number)
        WHERE p.proargmodes IS NULL OR p.proargmodes[number] IN ('i', 'v') ORDER BY number))[t.number] AS name
        FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY t(type, number)) a
GROUP BY p.oid HAVING bool_or(a.type = 'regclass'::regtype OR a.name IN ('model', 'exported') OR (a.name = 'id' AND a.type = 'oid'::regtype))
ORDER BY p.oid
"""
VIEWS = """
SELECT d.objid::regclass::text, EXISTS (SELECT FROM pg_attribute WHERE attrelid = d.objid AND attname = 'model')
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gkmeans' JOIN pg_class c ON c.oid = d.objid
WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relkind = 'v' ORDER BY 1
"""
# What forbids some of the changes: keys, indexes, checks and NOT NULL.
DROPPING = """DO $$
DECLARE c record;
BEGIN
    FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = '{m}'::regclass LOOP
        EXECUTE format('ALTER TABLE {m} DROP CONSTRAINT %I', c.conname);
    END LOOP;
    FOR c IN SELECT indexrelid::regclass AS i FROM pg_index WHERE indrelid = '{m}'::regclass LOOP
        EXECUTE format('DROP INDEX %s', c.i);
    END LOOP;
    FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = '{m}'::regclass AND attnotnull AND attnum > 0 LOOP
        EXECUTE format('ALTER TABLE {m} ALTER %I DROP NOT NULL', c.attname);
    END LOOP;
END$$"""
LEFT_OUT = ("weight_column init initial_centroids metric scale nulls max_iter tol n_init quality options k_candidates criterion scale_offset"
                   " scale_factor").split()
VERSION = ["NULL", "NULL", "1", "2", "3", "5", "90", "91", "0", "-1", "2147483647"]
ARGUMENTS = {
    "version": VERSION, "version_a": VERSION, "version_b": VERSION,
    "id": ["'{m}'::regclass::oid"], "id_type": ["NULL::int"], "id_column": ["NULL", "'id'"],
    "source": ["NULL", "NULL", "{source}", "'rows'"], "sample": ["NULL", "10"], "seed": ["0"],
    "deploy": ["'better'", "'always'", "'never'"], "min_improvement": ["0", "0.5", "1e-300"], "only_if_drift": ["NULL", "NULL", "0", "0.1", "1e308"],
    "starts": ["NULL", "1", "2"], "rescale": ["true", "false"], "labels_table": ["NULL", "NULL", "'made_labels'"],
    "labels_mode": ["NULL", "'merge'", "'append'", "'replace'"], "changes_table": ["NULL", "NULL", "'made_changes'"],
    "keep": ["1", "2", "10"], "note": ["NULL", "'a note'"], "names": ["'{a,b,c}'", "'{a,a,a,a}'", "'{one,two,three,four,five}'"],
    "changes": ["'{\"k\": 4}'", "'{\"scale\": \"minmax\"}'", "'{\"metric\": \"cosine\"}'", "'{\"seed\": 1, \"n_init\": 2}'",
                "'{}'", "'{\"source\": \"circle\"}'", "'{\"k_candidates\": [2, 3]}'", "'{\"features\": null}'"],
    "view_name": ["'made_view'"], "kind": ["'scored'", "'clusters'"], "if_exists": ["'error'", "'replace'", "'skip'"],
    "what": ["'clusters'", "'profile'", "'sizes'", "'elbow'", "'convergence'", "'drift'", "'history'"], "width": ["640", "100"], "height": ["400"],
    "title": ["NULL", "'title'"], "n": ["1", "3", "1000"], "k": ["3"], "centroids": ["NULL"],
    "exported": ["gkmeans_export('{m}')::jsonb", "gkmeans_export('{m}', 'predict')::jsonb", "gkmeans_export('{m}', version => 1)::jsonb"],
}
FORMATS = {"gkmeans_export": ["'json'", "'predict'"]}
ROWS = ["0.5, 1", "11, 4.5", "NULL, 1", "'NaN'::float8, 1", "1e308, -1e308", "3e38, 1e-320", "ARRAY[0.5, 1]::real[]",
        "ARRAY[11, 4, 3, 2, 1, 0, 9, 8, 1]::float8[]", "(SELECT r FROM rows r LIMIT 1)", "(SELECT r FROM circle r LIMIT 1)",
        "(SELECT r FROM wide r LIMIT 1)", "0.5", "0.5, 1, 2"]


def filled(text, model, source=""):
    """A statement for a model; doubled braces stand for braces of arrays in it."""
    return text.replace("{m}", model).replace("{source}", source).replace("{{", "{").replace("}}", "}")


class Watch:
    """Ends the server process of a statement that goes on after its time."""

    def __init__(self):
        self.process = self.end = None
        self.stuck = False
        threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        """Looks every moment."""
        while True:
            time.sleep(0.2)
            end = self.end
            if end is not None and time.monotonic() > end and not self.stuck:
                self.stuck = True
                try:
                    os.kill(self.process, signal.SIGQUIT)
                except OSError as error:
                    print(f"Bail out! a statement does not end: {error}", flush=True)
                    os._exit(1)


class Tampering:
    """Cases, one after the other, and what must not happen in them."""

    def __init__(self):
        self.watch = Watch()
        self.cases = self.calls = self.refused = 0
        self.states, self.wrong, self.kinds = {}, [], set()
        self.session = self.sentinel = None
        self.connect()
        self.functions = self.ask(FUNCTIONS, all_rows=True)
        self.views = self.ask(VIEWS, all_rows=True)
        self.columns = self.ask("SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = (SELECT typrelid FROM pg_type"
                                " WHERE oid = 'public.gkmeans_model'::regtype) AND attnum > 0 ORDER BY attnum", all_rows=True)
        self.right = self.answers()
        self.exports = [json.loads(self.ask(f"SELECT gkmeans_export('{model}')")) for model in ("untouched", "cosine", "arrays", "versions")]
        known = {*ARGUMENTS, *LEFT_OUT, "model", "model_a", "model_b", "features", "format"}
        self.unknown = {name for _, _, names, *_ in self.functions for name in names} - known

    def connect(self):
        """Opens the session of the owner, and one that sees whether the server is there."""
        for _ in range(int(60 * SLOWDOWN)):
            try:
                self.session = psycopg2.connect(user="tamperer", connect_timeout=60)
                self.session.autocommit = True
                self.watch.process = self.session.info.backend_pid
                self.ask(f"SET search_path = tampered, public; SET statement_timeout = {int(LIMIT * 1000)};"
                         " SET client_min_messages = error; SET gkmeans.cpu_threads = 1")
                self.sentinel = psycopg2.connect(user="tamperer", connect_timeout=60)
                self.sentinel.autocommit = True
                return
            except psycopg2.OperationalError:
                time.sleep(1)
        raise SystemExit("Bail out! the server does not come back")

    def ask(self, statement, all_rows=False):
        """Runs a statement; its answer, or its only value."""
        cursor = self.session.cursor()
        self.watch.end = time.monotonic() + LIMIT + GRACE
        try:
            cursor.execute(statement)
        finally:
            self.watch.end = None
        if cursor.description is None:
            return None
        rows = cursor.fetchall()
        return rows if all_rows else rows[0][0] if rows else None

    def answers(self):
        """What the model that nobody touched answers, and what the views show of it."""
        shown = [self.ask(f"SELECT md5(string_agg((to_jsonb(v) - 'age_hours')::text, ' ' ORDER BY to_jsonb(v)::text)) FROM {view} v"
                          " WHERE model = 'tampered.untouched'") for view, has_model in self.views if has_model]
        return [self.ask(ANSWER), *shown]

    def blame(self, why, statements):
        """Keeps what went wrong, once for each kind."""
        short = "; ".join(each if len(each) < 600 else each[:300] + " … " + each[-100:] for each in statements)
        called = re.search(r"gkmeans\w+(?!.*gkmeans)", statements[-1])
        key = re.sub(r"[0-9]+|\"[^\"]*\"", "", why.splitlines()[0])[:80] + (called[0] if called else "")
        if key not in self.kinds:
            self.kinds.add(key)
            self.wrong.append(f"case {self.cases}: {why.strip()}\nafter {short}")
            print(f"# case {self.cases}: {why.strip()[:300]}".replace("\n", " "), flush=True)

    def attempt(self, statement, before, must_answer=False):
        """Runs one call; true if it answered."""
        self.calls += 1
        state = "ok"
        began = time.monotonic()
        try:
            self.ask(statement)
        except psycopg2.Error as error:
            state = error.pgcode or ("lost" if self.session.closed else "client")
            bad = state != "XX001" and (state[:2] in ("XX", "58", "08") or state in ("lost", "client"))
            if bad or (must_answer and state != "57014"):
                self.blame(("it did not end: " if self.watch.stuck else "") + f"{state}: {error}", before + [statement])
        if time.monotonic() - began > LIMIT + GRACE and not self.watch.stuck:
            self.blame(f"it ended after {time.monotonic() - began:.1f} s", before + [statement])
        self.states[state] = self.states.get(state, 0) + 1
        return state == "ok"

    def call(self, dice, function, model, source):
        """A call of a function with a model."""
        name, kind, names, types, variadic, defaults = function
        given = []
        for number, (argument, of_type) in enumerate(zip(names, types)):
            optional = number >= len(names) - defaults
            if argument in LEFT_OUT:
                continue
            if argument.startswith("model"):
                other = dice.choice(["untouched", "scaled", model]) if argument != "model" else model
                made = f"'{other}'" + ("::regclass" if of_type == "regclass" else "")
                if name == "gkmeans_import_model":
                    made = dice.choice(["'made_model'", made])
            elif argument == "features":
                made = dice.choice(ROWS) if variadic else "NULL"
            elif argument == "format":
                made = dice.choice(FORMATS.get(name, ["'svg'", "'data_uri'"]))
            elif argument == "exported" and dice.random() < 0.5:
                made = tampering.tampered(dice, argument, "jsonb", dice.choice(self.exports))
            else:
                made = filled(dice.choice(ARGUMENTS[argument]), model, tampering.quoted(source))
            if optional and dice.random() < 0.4 and argument != "exported":
                continue
            given.append(made if variadic else f"{argument} => {made}")
        if kind == "p":
            return f"CALL {name}({', '.join(given)})"
        return f"SELECT sum(length(r::text)) FROM {name}({', '.join(given)}) r"

    def changes(self, dice, model):
        """Statements that tamper with a model: as its owner may, after dropping what forbids it."""
        if dice.random() < 0.4:
            column = dice.choice(tampering.READ)
            kind = dict(self.columns)[column]
            value = self.ask(f"SELECT {column} FROM {model} WHERE deployed LIMIT 1")
            # what is compared is the points, if there are any, and then nothing looks at the centroids before
            points = "points = COALESCE(points, centroids), " if column != "points" and dice.random() < 0.5 else ""
            return [f"UPDATE {model} SET {points}{column} = {tampering.extreme(dice, column, kind, value)}"
                    + dice.choice(["", " WHERE deployed", " WHERE deployed"])]
        statements = []
        if dice.random() < 0.5:
            statements.append(DROPPING.replace("{m}", model))
        for _ in range(dice.choice([1, 1, 2])):
            statements.append(self.change(dice, model))
        return statements

    def change(self, dice, model):
        """A statement that sets one column, the definition, or rows."""
        way = dice.random()
        if way < 0.12:
            stored = self.ask(f"SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum"
                              f" WHERE adrelid = '{model}'::regclass AND attname = 'definition'")
            value = self.ask(f"SELECT {stored or 'NULL'}")
            if dice.random() < 0.05:
                return f"ALTER TABLE {model} ALTER definition SET DEFAULT to_jsonb(now())"
            return f"ALTER TABLE {model} ALTER definition SET DEFAULT {tampering.tampered(dice, 'definition', 'jsonb', value)}"
        if way < 0.15:
            return dice.choice([f"DELETE FROM {model} WHERE version = 1", f"DELETE FROM {model} WHERE deployed",
                                f"INSERT INTO {model} SELECT * FROM {model}", f"TRUNCATE {model}", f"INSERT INTO {model} DEFAULT VALUES"])
        where = dice.choice(["", " WHERE deployed", " WHERE deployed", " WHERE version = 1", " WHERE NOT deployed"])
        if way < 0.25:
            # what another model, or another version of it, has there
            chosen = [column for column, _ in dice.sample(self.columns, dice.choice([1, 2, 5]))]
            other = dice.choice([f"{model} WHERE version < 5", "cosine", "arrays", "shifted", "chosen", "many", "versions WHERE deployed"])
            return f"UPDATE {model} SET ({', '.join(chosen)}) = (SELECT {', '.join('o.' + column for column in chosen)} FROM {other.split()[0]} o" \
                   + (" WHERE " + other.split("WHERE ")[1] if "WHERE" in other else "") + f" ORDER BY o.version LIMIT 1){where}"
        if way < 0.3:
            # what another column of the same type has
            column, kind = dice.choice(self.columns)
            other = dice.choice([each for each, of_kind in self.columns if of_kind == kind])
            return f"UPDATE {model} SET {column} = {other}{where}"
        column, kind = dice.choice(self.columns)
        value = self.ask(f"SELECT {column} FROM {model}{where} ORDER BY version LIMIT 1")
        return f"UPDATE {model} SET {column} = {tampering.tampered(dice, column, kind, value)}{where}"

    def run(self, number):
        """One case: a model is changed, and read in many ways."""
        self.cases = number
        dice = random.Random(f"{SEED} {number}")
        self.watch.stuck = False
        model, (source, building) = dice.choice(list(MODELS.items()))
        committed = dice.random() < 0.1
        statements = []
        try:
            if committed:
                self.ask("DROP TABLE IF EXISTS victim, victim_labels, victim_changes, made_labels, made_changes, made_model CASCADE")
                for statement in building:
                    self.ask(filled(statement, "victim", ""))
                self.ask("GRANT SELECT ON victim TO onlooker")
                model = "victim"
            else:
                self.ask("BEGIN")
            for statement in self.changes(dice, model):
                statements.append(statement)
                self.ask(statement)
            self.read(dice, model, source, statements, committed)
        except psycopg2.Error as error:
            self.refused += 1
            if self.session.closed or (error.pgcode or "XX")[:2] in ("XX", "58"):
                self.blame(f"a change: {error.pgcode}: {error}", statements or ["BEGIN"])
        self.check(statements)

    def read(self, dice, model, source, statements, committed):
        """A call of every function, and of some views, by the owner and by another role."""
        calls = [*self.functions, *[each for each in self.functions if each[0] == "gkmeans_refit"] * 3, *dice.sample(self.views, 2)]
        dice.shuffle(calls)
        before = "" if committed else "SAVEPOINT s"
        for called in calls:
            of_view = len(called) == 2
            call = f"SELECT sum(length(r::text)) FROM {called[0]} r" if of_view else self.call(dice, called, model, source)
            if call.startswith("CALL") and not committed:
                continue
            role = dice.choice(["tamperer", "tamperer", "onlooker"])
            self.ask(f"SET ROLE {role}" if committed else f"{before}; SET LOCAL ROLE {role}")
            answered = self.attempt(call, statements + [f"SET ROLE {role}"], of_view)
            if answered and called[0] == "gkmeans_create_view":
                answered = self.attempt("SELECT sum(length(r::text)) FROM made_view r", statements + [call])
            if answered and called[0] == "gkmeans_import_model" and "made_model" in call:
                reader = self.call(dice, dice.choice([each for each in self.functions if each[1] == "f"]), "made_model", source)
                answered = self.attempt(reader, statements + [call])
            if self.session.closed:
                return
            before = "RELEASE s; SAVEPOINT s" if answered and dice.random() < 0.5 else "ROLLBACK TO s"
            if before.startswith("RELEASE") and not of_view and not committed:
                statements = statements + [call]
        if not committed and dice.random() < 0.1:
            self.ask(before + "; SET LOCAL ROLE onlooker")
            self.compare("beside it", statements)

    def compare(self, when, statements):
        """The model that nobody touched answers as before, and the views show it."""
        if (seen := self.answers()) != self.right:
            self.blame(f"the untouched model {when}: {seen}", statements or ["BEGIN"])

    def check(self, statements):
        """The server is there, nothing is left in the session, and the other model answers."""
        if not self.session.closed:
            try:
                self.ask("ROLLBACK")
                self.ask("RESET ROLE; SET statement_timeout = 0")
                if left := self.ask("SELECT kind, bytes FROM gkmeans_memory() WHERE bytes <> 0", all_rows=True):
                    self.blame(f"memory left: {left}", statements or ["BEGIN"])
                if self.cases % 10 == 0:
                    self.compare("afterwards", statements)
                elif (seen := self.ask(ANSWER)) != self.right[0]:
                    self.blame(f"the untouched model afterwards: {seen}", statements or ["BEGIN"])
                self.ask(f"SET statement_timeout = {int(LIMIT * 1000)}")
            except psycopg2.Error as error:
                self.blame(f"afterwards: {error}", statements or ["BEGIN"])
        try:
            self.sentinel.cursor().execute("SELECT 1")
        except psycopg2.Error as error:
            self.blame(f"the server crashed: {error}", statements or ["BEGIN"])
            self.session.close()
        if self.session.closed:
            self.connect()


def set_up():
    """Roles, rows and models."""
    session = psycopg2.connect(user="postgres", connect_timeout=60)
    session.autocommit = True
    cursor = session.cursor()
    cursor.execute("SET client_min_messages = error")
    for role in ("tamperer", "onlooker"):
        cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", [role])
        if cursor.rowcount == 0:
            cursor.execute(f"CREATE ROLE {role} LOGIN")
    cursor.execute(SETUP)
    cursor.execute("SET SESSION AUTHORIZATION onlooker")
    cursor.execute(UNTOUCHED)
    cursor.execute("GRANT SELECT ON untouched TO tamperer")
    cursor.execute("SET SESSION AUTHORIZATION tamperer")
    for model, (_, building) in MODELS.items():
        for statement in building:
            cursor.execute(filled(statement, model))
        cursor.execute(f"GRANT SELECT ON {model} TO onlooker")
    session.close()


def main():
    print(f"# seed {SEED}, {MINUTES} minutes")
    set_up()
    cases = Tampering()
    result(not cases.unknown, "arguments of every function that reads models are known", cases.unknown)
    end = time.monotonic() + MINUTES * 60
    number = 0
    while (number == 0 or time.monotonic() < end) if ONLY is None else number == 0:
        cases.run(number if ONLY is None else ONLY)
        number += 1
    states = ", ".join(f"{state} {times}" for state, times in sorted(cases.states.items()))
    result(not cases.wrong, f"tampered models: {number} cases, {cases.refused} not to be made, {cases.calls} calls ({states})",
           "\n".join(cases.wrong))
    return finish()


sys.exit(main())
