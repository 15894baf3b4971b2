#!/usr/bin/python3
"""Random calls, most of them wrong somewhere: each ends with an answer or with the right SQLSTATE, none with an
internal error, a crash or a leak. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE, as a superuser.

mutations.py [--calls N] [--seed S]: a call that does not behave is printed as SQL."""
import argparse
import random
import time

import psycopg2
import psycopg2.errors

SETUP = '''
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS gkmeans;
DROP SCHEMA IF EXISTS mutant CASCADE;
CREATE SCHEMA mutant;
SET search_path = mutant, public;
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS real CHECK (VALUE > 0);
CREATE DOMAIN counted AS int;
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
CREATE TABLE vectors AS SELECT id, ARRAY[x, y]::real[] AS v, x::int AS label FROM plain;
CREATE TABLE "Labels" (id int PRIMARY KEY, cluster_id int, distance float8);
CREATE TABLE full_labels (id int PRIMARY KEY, cluster_id int, distance float8, name text, second_cluster_id int, second_distance float8, anomaly_score float8,
	anomaly_percentile float8, version int, labelled_at timestamptz, more text DEFAULT 'x');
INSERT INTO full_labels SELECT i, i % 3 FROM generate_series(1, 100, 3) i;
CREATE TABLE changes (id int, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
CREATE TABLE policed AS SELECT * FROM plain;
ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
SELECT FROM gkmeans_create_model('rfm', 'plain', '{x,y}', 3);
SELECT FROM gkmeans_create_model('twice', 'plain', '{x,y}', 4, scale => 'standard', metric => 'cosine', id_column => 'id', labels_table => 'kinds');
SELECT FROM gkmeans_create_model('twice', 'shown', '{y,x}', 2, scale => 'minmax', if_exists => 'replace', note => 'smaller');
SELECT gkmeans_name_clusters('twice', '{"a <b>",NULL}');
SELECT FROM gkmeans_create_model('arrays', 'vectors', '{v}', 5);
SELECT gkmeans_import_model('"Odd ""model"""', '{{1,2},{3,4},{5,6}}', '{x,y}', names => '{one,"",NULL}', source => 'plain');
SELECT FROM gkmeans_create_model('undeployed', 'plain', '{x,y}', 2);
UPDATE undeployed SET deployed = NULL, deployed_at = NULL;
CREATE TABLE unfilled OF gkmeans_model;
CREATE TABLE damaged OF gkmeans_model;
INSERT INTO damaged SELECT * FROM rfm;
UPDATE damaged SET centroids = '{{1,2}}';
CREATE TABLE exports AS SELECT m, gkmeans_export(m::regclass)::jsonb AS doc FROM unnest('{rfm,twice,arrays}'::text[]) m;
CREATE TABLE wide AS SELECT i AS id, array_agg(j::real) AS v FROM generate_series(1, 12) i, generate_series(1, 1700) j GROUP BY i;
GRANT USAGE ON SCHEMA mutant TO PUBLIC;
GRANT SELECT ON plain, rfm TO PUBLIC;
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
# Sources whose ids are rows or arrays, for which few types of ids are right.
ODD_IDS = ["'SELECT p AS id, x, y, w FROM plain p'", "'SELECT ROW(id, x) AS id, x, y, w FROM plain'", "'SELECT ARRAY[id, 1] AS id, x, y, w FROM plain'",
           "'SELECT ARRAY[ROW(id, 1)] AS id, x, y, w FROM plain'", "'SELECT ARRAY[p] AS id, x, y, w FROM plain p'", "'SELECT NULL AS id, x, y, w FROM plain'",
           "'SELECT ROW(id, 1)::mutant.pair AS id, x, y, w FROM plain'", "'SELECT (id % 3)::mutant.counted AS id, x, y, w FROM plain'",
           "'SELECT ROW() AS id, x, y, w FROM plain'", "'SELECT most_common_vals AS id, 1 AS x, 2 AS y, 1 AS w FROM pg_stats'"]
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
    "quality": (["'auto'", "'fast'", "'good'", "'best'", "NULL"], [("'worst'", "22023"), ("''", "22023"), ("repeat('q', 9999)", "22023")]),
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
            ("NULL", "42|"), ("NULL::oid", "42804|"), ("NULL::mutant.positive", "42804|22|23"), ("NULL::\"char\"", "42804"), ("NULL::record", "42"),
            ("NULL::record[]", "42"), ("NULL::anyarray", "42|0A"), ("ROW(1, 'x')", "42"), ("ARRAY[ROW(1, 2)]", "42"), ("ROW(1, 'x')::mutant.pair::record", "42"),
            ("NULL::mutant.plain", "42804"), ("NULL::mutant.pair[]", "42804"), ("'7'::mutant.counted", "42804|"), ("NULL::anyelement", "42|0A"), ("NULL::void", "42|0A"),
            ("NULL::internal", "42|0A"), ("NULL::cstring", "42|0A"), ("NULL::unknown", "42|"), ("NULL::trigger", "42|0A"), ("NULL::refcursor", "42804"),
            ("NULL::int2vector", "42804"), ("NULL::regclass", "42804|"), ("(SELECT p FROM mutant.plain p LIMIT 1)", "42804"), ("(SELECT s FROM pg_stats s LIMIT 1)", "42804"),
            ("(SELECT most_common_vals FROM pg_stats LIMIT 1)", "42|0A"), ("NULL::mutant.positive[]", "42804")]
SETTINGS = {
    "gkmeans.engine": ["auto", "cpu", "cpu"], "gkmeans.cpu_threads": ["0", "1", "3", "64"], "gkmeans.ring_size": ["1MB", "8MB", "32MB"],
    "gkmeans.host_memory_limit": ["0", "1kB", "200kB", "64MB"], "work_mem": ["64kB", "4MB"], "max_parallel_workers_per_gather": ["0", "2"],
    "min_parallel_table_scan_size": ["0", "8MB"], "parallel_setup_cost": ["0", "1000"], "parallel_tuple_cost": ["0", "0.1"],
    "parallel_leader_participation": ["on", "off"], "statement_timeout": ["300s"] * 3 + ["1ms", "5ms"], "search_path": ["mutant, public"] * 4 + ["public", ""],
    "default_transaction_read_only": ["off"] * 6 + ["on"], "enable_seqscan": ["on", "off"], "gkmeans.fault_at": ["0"] * 6 + ["1", "3", "9", "25"],
    "plan_cache_mode": ["auto", "force_generic_plan"], "force_parallel_mode": ["off"] * 3 + ["on"], "default_transaction_isolation": ["read committed", "serializable"],
    "temp_file_limit": ["-1", "-1", "0"], "role": ["none"] * 8 + ["mutant_nobody"], "row_security": ["on", "off"], "transform_null_equals": ["off", "on"],
}
# SQLSTATEs with which a setting may end a call that would otherwise succeed.
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

# Models: the name, whether their feature is an array, and the SQLSTATEs that they may lead to.
MODELS = [("'rfm'", False, "")] * 4 + [("'twice'", False, "")] * 2 + [
    ("'arrays'", True, ""), ("'mutant.rfm'::regclass", False, ""), ("'\"Odd \"\"model\"\"\"'", False, ""), ("'undeployed'", False, "55000"),
    ("'unfilled'", False, "55000|42704"), ("'damaged'", False, "XX001"), ("'nowhere'", False, "42P01"), ("'plain'", False, "42809"), ("'shown'", False, "42809"),
    ("'pg_class'", False, "42809"), ("'parts'", False, "42809"), ("'counter'", False, "42809"), ("'plain_index'", False, "42809"), ("NULL", False, "22004"),
    ("NULL::regclass", False, "22004"), ("0::oid", False, "42P01|42809"), ("4294967295::oid", False, "42P01"), ("'rfm'::text", False, ""), ("'\"Rfm\"'", False, "42P01"),
    ("''", False, "42"), ("'a.b.c.d'", False, "42|0A"), ("repeat('m', 300)", False, "42"), ("'mutant.rfm_pkey'", False, "42809")]
EXPORTS = [("(SELECT doc FROM exports WHERE m = 'rfm')", False, "")] * 3 + [
    ("(SELECT doc FROM exports WHERE m = 'arrays')", True, ""), ("(SELECT doc FROM exports WHERE m = 'twice')", False, ""), ("'{}'", False, "22023"),
    ("(SELECT doc - 'points' FROM exports WHERE m = 'rfm')", False, "22023"), ("(SELECT doc || '{\"k\": 1000000}' FROM exports WHERE m = 'rfm')", False, "22023"),
    ("(SELECT doc || '{\"dimension\": -1}' FROM exports WHERE m = 'rfm')", False, "22023"), ("(SELECT doc || '{\"points\": [1e999]}' FROM exports WHERE m = 'rfm')", False, "22023"),
    ("(SELECT jsonb_build_array(doc) FROM exports WHERE m = 'rfm')", False, "22023"), ("'null'", False, "22023"), ("NULL", False, ""), ("'['", False, "22P02"),
    ("(SELECT doc FROM exports WHERE m = 'none')", False, "")]
# The forms of the features: SQLSTATEs for a model of columns, and for one of an array.
FORMS = [("p", "", "42703"), ("p", "", "42703"), ("p.x, p.y", "", ""), ("p.y, p.x", "", ""), ("ARRAY[p.x, p.y]", "", ""), ("VARIADIC ARRAY[p.x, p.y]", "", ""),
         ("'{1,2}'", "", ""), ("'{1,NULL}'", "", ""), ("'{NaN,Infinity}'", "", ""), ("'[0:1]={1,2}'", "", ""), ("1e300, (-1e300)", "", ""), ("NULL", "", ""),
         ("NULL::record", "", ""), ("NULL::mutant.plain", "", "42703"), ("VARIADIC NULL::real[]", "", ""), ("p.x, NULL::int", "", ""), ("ARRAY[p.x, NULL]", "", ""),
         ("ARRAY[p.id, p.w]::int[]", "", ""), ("ARRAY[p.id, 1e300]::numeric[]", "", ""), ("'1e400'::numeric, 'NaN'::numeric", "", ""), ("true, false", "", ""),
         ("9::mutant.positive, 1", "", ""), ("ARRAY[1, 2]::mutant.positive[]", "", ""), ("(SELECT q FROM mutant.plain q LIMIT 1)", "", "42703"),
         ("(SELECT q FROM (SELECT 1 AS x, 2 AS y) q)", "", "42703"), ("(SELECT q FROM (SELECT ARRAY[1, 2] AS v) q)", "42703", ""), ("(SELECT q FROM mutant.vectors q LIMIT 1)", "42703", ""),
         ("jsonb_populate_record(NULL::mutant.plain, to_jsonb(p))", "", "42703"), ("'1 2'::int2vector", "", ""),
         ("p.*", "", "42703"), ("", "42883", "42883"), ("VARIADIC ARRAY[[p.x, p.y]]", "22000", "22000"), ("ROW(p.x, p.y)", "22023", "22023"),
         ("ROW(1, 'x')::mutant.pair", "42703", "42703"), ("p.x", "22000", "22000"), ("p.x, p.y, p.w", "22000", "22000"), ("'{{1,2}}'", "22000", "22000"), ("'{1,x}'", "22P02", "22P02"),
         ("'x'", "22P02", "22P02"), ("''", "22P02", "22P02"), ("'1', '2'", "42804", "42804"), ("p.x, NULL", "42804", "42804"), ("ARRAY[]::real[]", "22000", "22000"),
         ("'1 2'::oidvector", "42804", "42804"), ("point(p.x, p.y)", "42804", "42804"), ("row_to_json(p)", "42804", "42804"), ("to_jsonb(p)", "42804", "42804"),
         ("(SELECT q FROM (SELECT 1 AS x, 2 AS y, 3 AS x) q)", "42702", "42703"), ("(SELECT q FROM (SELECT 'a'::text AS x, 2 AS y) q)", "42804", "42703"), ("p, p", "42804", "42804"),
         ("ARRAY[p]", "42804", "42804"), ("p.x::numeric, p.y::numeric::money", "42804", "42804"), ("p.ctid", "42804", "42804"), ("'high'::mutant.mood, 1", "42804", "42804"),
         ("(-9)::mutant.positive, 1", "23514", "23514"), ("repeat('1', 70000)", "42804", "42804"), ("(SELECT array_agg(i) FROM generate_series(1, 100000) i)", "22000", "22000"),
         ("p.x, 1 / (p.id - 9)", "22012", "22012"), ("ROW()", "22023|42703", "22023|42703"), ("(SELECT s FROM pg_stats s LIMIT 1)", "42703", "42703")]
ROWS = ["plain"] * 5 + ["parts", "shown", "kept", "nothing", "equal_rows", "spoiled", "(SELECT * FROM plain ORDER BY id LIMIT 3)", "(SELECT id, y, x, w, 1 AS z FROM plain)"]
# Functions that score a row: kinds are one value, one row, or a set of rows.
SCORING = {"gkmeans_predict": "value", "gkmeans_distance": "value", "gkmeans_transform": "value", "gkmeans_name": "value", "gkmeans_anomaly_score": "value",
           "gkmeans_anomaly_percentile": "value", "gkmeans_predict_with": "value", "gkmeans_predict_version": "value", "gkmeans_score": "row", "gkmeans_explain": "set", "gkmeans_nearest": "set"}
SCORE_WRAPPERS = {
    "value": ["SELECT {call} FROM {rows} p"] * 3 + [
        "SELECT count({call}), max({call}) FROM {rows} p", "SELECT count(*) FROM {rows} p WHERE {call} IS NULL", "SELECT {call} AS c, count(*) FROM {rows} p GROUP BY 1 ORDER BY 1",
        "SELECT lag({call}) OVER (ORDER BY {call}) FROM {rows} p", "CREATE TEMP VIEW v AS SELECT {call} AS c FROM {rows} p; SELECT * FROM v; DROP VIEW v",
        "PREPARE q AS SELECT {call} FROM {rows} p; EXECUTE q; EXECUTE q", "SELECT (SELECT {call}) FROM {rows} p", "SELECT f.* FROM {rows} p, LATERAL {call} f",
        "DECLARE c CURSOR FOR SELECT {call} FROM {rows} p; FETCH 2 FROM c; UPDATE rfm SET centroids = '{{{{9,9}},{{8,8}},{{7,7}}}}', points = NULL; FETCH 2 FROM c",
        "DECLARE c SCROLL CURSOR FOR SELECT {call} FROM {rows} p; FETCH LAST FROM c; FETCH FIRST FROM c", "SELECT CASE WHEN p.id < 0 THEN {call} END FROM {rows} p",
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT {call} FROM {rows} p"],
    "row": ["SELECT {call} FROM {rows} p", "SELECT ({call}).* FROM {rows} p", "SELECT f.* FROM {rows} p, LATERAL {call} f", "SELECT ({call}).name FROM {rows} p ORDER BY 1",
            "SELECT count(*) FROM {rows} p WHERE {call} IS NULL"],
    "set": ["SELECT {call} FROM {rows} p", "SELECT f.* FROM {rows} p, LATERAL {call} f", "SELECT f.* FROM {rows} p, LATERAL {call} f LIMIT 1",
            "SELECT count(*) FROM {rows} p LEFT JOIN LATERAL {call} f ON true", "SELECT ({call}).* FROM {rows} p LIMIT 2"]}
LARGEST = "(SELECT array_agg(ARRAY[i, i]) FROM generate_series(1, 1000001) i)::float8[]"
MODEL_ARGUMENTS = {
    "version": (["NULL", "1"], [("2", "42704|55000"), ("0", "42704"), ("-1", "42704"), ("2147483647", "42704"), ("-2147483648", "42704")]),
    "keep": (["0", "1", "10", "2147483647", "NULL"], [("-1", "22023")]),
    "names": (["'{a,b,c}'", "'{\"<b>\",NULL,c}'", "ARRAY[repeat('n', 100000), '', E'\\n']", "'[5:7]={a,b,c}'", "NULL"], [("'{}'", "22023"), ("'{{a,b,c}}'", "22023"), ("'{a}'", "22023")]),
    "sample": (["2", "10", "1000000", "10000"], [("0", "22023"), ("1", "22023"), ("-1", "22023"), ("2147483647", "22023|54|53"), ("NULL", "22")]),
    "k_sample": (["2", "10", "1000", "1"], [("0", "22023"), ("-1", "22023"), ("2147483647", "22023")]),
    "label_column": (["'w'"], [("'z'", "42703|"), ("'nowhere'", "42703"), ("''", "42703"), ("'x'", "42|22"), ("NULL", "22004")]),
    "labels_mode": (["'replace'", "'append'", "'merge'", "'delete'", "NULL"], [("'error'", "42P07|22023"), ("'maybe'", "22023")]),
    "changes_table": (["'changes'", "'made_changes'", "'\"Made; changes\"'", "NULL"],
                      [("''", "42"), ("'there'", "42"), ("'shown'", "42"), ("'nowhere.changes'", "3F000"), ("'counter'", "42"), ("'\"Labels\"'", "22023|42"), ("'pg_temp.changes'", "25|42|")]),
    "n": (["1", "2", "1000000", "NULL"], [("0", "22023"), ("-1", "22023")]),
    "centroids": (["'{{1,2},{3,4}}'", "'{{1,2}}'", "'[0:0][5:6]={{1,2}}'"], [("NULL", "22004"), ("'{}'", "22023"), ("'{1,2}'", "22023"), ("'{{1,NULL}}'", "22004"), ("'{{NaN,1}}'", "22023"),
                  ("'{{1e300,1}}'", "22023"), ("'{{{1}}}'", "22023"), (LARGEST, "54000")]),
    "scale_offset": (["NULL"], [("'{1,2}'", "22023"), ("'{NaN,1}'", "22023"), ("'{1}'", "22023"), ("'{{1,2}}'", "22023"), ("'{1,NULL}'", "22004")]),
    "scale_factor": (["NULL"], [("'{1,2}'", "22023"), ("'{-1,1}'", "22023"), ("'{}'", "22023"), ("'{1,NULL}'", "22004")]),
    "if_exists": (["'replace'", "'skip'", "NULL"], [("'error'", "42P07|"), ("'maybe'", "22023"), ("'append'", "22023")]),
    "new_model": (["'made_model'", "'mutant.made_model'", "'\"Made <Model>\"'"],
                  [("NULL", "22004"), ("''", "42"), ("'rfm'", "42P07|"), ("'plain'", "42P07|42809"), ("'shown'", "42P07|42809"), ("'nowhere.model'", "3F000"), ("'pg_catalog.model'", "42"),
                   ("'pg_temp.model'", "0A000|42"), ("'a.b.c.d'", "42|0A"), ("'made; DROP TABLE rfm'", "42"), ("repeat('m', 300)", "42|22|"), ("'counter'", "42"), ("'mood'", "42")]),
    "note": (["NULL", "''", "repeat('n', 100000)", "E'\\n<script>'"], []),
    "features": (["NULL", "'{x,y}'", "'{\"<a>\",\"\\\"\"}'"], [("'{\"\",x}'", "42602"), ("'{x}'", "22023"), ("'{x,x}'", "42701"), ("'{x,NULL}'", "22004"), ("'{}'", "22023"), ("'{{x,y}}'", "22023")]),
    "given": (["'{{1,2},{3,4}}'", "'{{0,0}}'"], [("'{}'", "22023"), ("NULL", ""), ("'{{1,NULL}}'", "22004"), ("'{{1,2,3}}'", "22000"), ("'{1,2}'", "22023"), ("'{{NaN,1}}'", "22|")]),
    "k_list": (["'{2,3}'", "'{1}'", "'{3,2,3}'", "'{{2,3},{4,5}}'", "'[5:6]={2,40}'"], [("NULL", "22004"), ("'{}'", "22023"), ("'{0,1}'", "22023"), ("'{2,NULL}'", "22004"), ("'{1000001}'", "22023"),
                                                                           ("(SELECT array_agg(i) FROM generate_series(1, 1001) i)", "54000")]),
    "criterion": (["'gap'", "'bic'", "'elbow'", "'silhouette'", "'davies_bouldin'", "NULL"], [("'best'", "22023"), ("''", "22023"), ("'gap_error'", "22023")]),
    "gap_references": (["1", "3", "NULL"], [("0", "22023|"), ("-1", "22023"), ("1001", "22023")]),
    "deploy": (["'better'", "'always'", "'never'", "NULL"], [("'maybe'", "22023"), ("''", "22023")]),
    "min_improvement": (["0", "0.5", "-1", "1", "NULL"], [("2", "22023"), ("'NaN'", "22023"), ("'-Infinity'", "22023")]),
    "only_if_drift": (["NULL", "0", "0.1", "1e300"], [("-1", "22023"), ("'NaN'", "22023")]),
    "starts": (["NULL", "0", "2"], [("-1", "22023"), ("1001", "22023"), ("2147483647", "22023")]),
    "rescale": (["true", "false", "NULL"], []),
    "kept_runs": (["1", "NULL", "2147483647"], [("0", "22023"), ("-1", "22023")]),
    "what": (["'clusters'", "'profile'", "'sizes'", "'elbow'", "'convergence'", "'drift'", "'history'"], [("'nothing'", "22023"), ("''", "22023"), ("'<svg>'", "22023"), ("NULL", "22|")]),
    "width": (["640", "400", "NULL"], [("0", "22023"), ("-5", "22023"), ("2147483647", "22023")]),
    "format": (["'svg'", "'data_uri'", "NULL"], [("'png'", "22023")]),
    "export_format": (["'json'", "'predict'", "NULL"], [("'svg'", "22023"), ("''", "22023")]),
    "title": (["NULL", "'<b>'", "repeat('t', 100000)"], []),
    "changes": (["'{}'", "'{\"k\": 4}'", "'{\"seed\": 7, \"max_iter\": null}'", "'{\"notify\": \"channel\"}'", "'{\"search_path\": \"mutant, public\"}'", "'{\"scale\": \"standard\", \"k\": 2}'",
                 "'{\"source\": \"parts\"}'", "NULL"],
                [("'[]'", "22023"), ("'1'", "22023"), ("'{\"nothing\": 1}'", "22023"), ("'{\"k\": \"x\"}'", "22023|55000"), ("'{\"k\": 0}'", "22023"), ("'{\"k\": 1e30}'", "22|54"), ("'{\"source\": \"nowhere\"}'", "42P01"),
                 ("'{\"source\": \"DROP TABLE plain\"}'", "42|0A"), ("'{\"features\": [\"nowhere\"]}'", "42703"), ("'{\"features\": [1]}'", "22023|55000"), ("'{\"features\": [[\"x\"]]}'", "22023|55000|42"), ("'{\"notify\": 1}'", "22023"),
                 ("('{\"notify\": \"' || repeat('n', 100) || '\"}')::jsonb", "22023"), ("'{\"search_path\": 1}'", "22023"), ("'{\"metric\": \"\"}'", "22023"), ("'{'", "22P02"), ("'{\"labels_table\": \"a.b.c.d\"}'", "42|0A|22"),
                 ("'{\"options\": []}'", "22023"), ("'{\"tol\": -1}'", "22023"), ("'{\"k_candidates\": [2, 3]}'", "22023"), ("'{\"k\": null, \"k_candidates\": [2, null]}'", "22")]),
    "view_name": (["'made_view'", "'mutant.made_view'", "'\"Made; view\"'"],
                  [("NULL", "22004"), ("''", "42"), ("'rfm'", "42P07|42809"), ("'shown'", "42P07|42P16|42809|"), ("'nowhere.v'", "3F000"), ("'a.b.c.d'", "42|0A"), ("'pg_catalog.v'", "42"), ("'counter'", "42")]),
    "kind": (["'scored'", "'clusters'", "NULL"], [("'other'", "22023"), ("''", "22023")]),
    "ks": (["'{2,3}'", "'{1,2,3,4,5}'", "'{3}'", "'{7,2,2}'", "'[0:1]={2,3}'"], [("NULL", "22004"), ("'{}'", "22"), ("'{0}'", "22"), ("'{-1,2}'", "22"), ("'{2,NULL}'", "22"), ("'{{2,3}}'", "22"), ("'{2147483647}'", "22|54"),
            ("(SELECT array_agg(i) FROM generate_series(1, 3000) i)", "22|54")]),
    "criterion": (["'simplified_silhouette'", "'silhouette'", "'davies_bouldin'", "'calinski_harabasz'", "'bic'", "'gap'", "'elbow'", "NULL"], [("'nothing'", "22023"), ("''", "22023")]),
    "gap_references": (["NULL", "0", "1", "3"], [("-1", "22023"), ("2147483647", "22023")]),
    "oid": (["'rfm'::regclass", "0", "4294967295", "NULL", "'plain'::regclass", "'damaged'::regclass", "'pg_class'::regclass", "'plain_index'::regclass", "'parts'::regclass"], []),
    "point": (["'{1,2}'", "'{1,NULL}'", "'{NaN,1}'", "NULL", "'{1e300,1}'"], [("'{1}'", "22000"), ("'{}'", "22000"), ("'{{1,2}}'", "22000")]),
}
# Other functions of models: their arguments, with the pool of values if it has another name.
MODEL_FUNCTIONS = {
    "gkmeans_clusters": ["model", "version"], "gkmeans_centroids": ["model", "version"], "gkmeans_export": ["model", "format=export_format", "version"], "gkmeans_deploy": ["model", "version"],
    "gkmeans_rollback": ["model"], "gkmeans_prune": ["model", "keep"], "gkmeans_name_clusters": ["model", "names"],
    "gkmeans_import_model": ["model=new_model", "centroids", "features", "metric", "scale_offset", "scale_factor", "source", "if_exists", "note"],
    "gkmeans_predict_centroids": ["centroids=given", "features=point"],
    "gkmeans_predict_rows": ["id_type", "model", "source", "id_column", "version"],
    "gkmeans_assign": ["model", "source", "id_column", "labels_table", "labels_mode", "changes_table", "version"],
    "gkmeans_evaluate": ["model", "source", "version", "sample", "seed"], "gkmeans_cluster_quality": ["model", "source", "version", "sample", "seed"],
    "gkmeans_evaluate_labels": ["source", "features=some_features", "label_column", "metric", "scale", "nulls", "sample", "seed"],
    "gkmeans_select_k": ["source", "features=some_features", "k=k_list", "criterion", "weight_column", "init", "metric", "scale", "nulls", "max_iter", "tol", "n_init", "seed", "sample=k_sample", "gap_references"],
    "gkmeans_compare": ["model_a=model", "model_b=model", "source", "version_a=version", "version_b=version"],
    "gkmeans_transitions": ["model_a=model", "model_b=model", "source", "version_a=version", "version_b=version"],
    "gkmeans_compare_labels": ["source", "label_a=label_column", "label_b=label_column"],
    "gkmeans_refit": ["model", "deploy", "min_improvement", "only_if_drift", "starts", "rescale", "labels_table", "labels_mode", "changes_table", "keep=kept_runs", "note"],
    "gkmeans_refresh": ["model", "deploy", "min_improvement", "only_if_drift", "starts", "rescale", "labels_table", "labels_mode", "changes_table", "keep=kept_runs", "note"],
    "gkmeans_drift": ["model", "source=any_source", "version"], "gkmeans_feature_drift": ["model", "source=any_source", "version"],
    "gkmeans_plot": ["model", "what", "version", "width", "height=width", "format"], "gkmeans_report": ["model", "version", "title"],
    "gkmeans_alter_model": ["model", "changes"], "gkmeans_create_view": ["model", "view_name", "kind", "if_exists"],
    "gkmeans_select_k": ["source", "features=some_features", "k=ks", "criterion", "weight_column", "init", "metric", "scale", "nulls", "max_iter", "tol", "n_init", "seed", "quality",
                         "sample", "gap_references"],
    "gkmeans_compare": ["model_a=model", "model_b=model", "source", "version_a=version", "version_b=version"],
    "gkmeans_transitions": ["model_a=model", "model_b=model", "source", "version_a=version", "version_b=version"],
    "gkmeans_compare_labels": ["source", "label_a=label_column", "label_b=label_column"],
    "_gkmeans_versions": ["id=oid"], "_gkmeans_clusters": ["id=oid"], "_gkmeans_centroid_features": ["id=oid"], "_gkmeans_drift": ["id=oid"],
    "_gkmeans_pictures": ["id=oid"], "_gkmeans_picture": ["id=oid", "what", "format"],
}
# Where a labels table may be left out.
OPTIONAL_LABELS = ("gkmeans_refit", "gkmeans_refresh")
# Those that must have all of these.
NEEDED = {"model", "new_model", "version of gkmeans_deploy", "format of _gkmeans_picture", "names", "centroids", "given", "point", "oid", "what", "changes", "view_name", "id_type", "source", "id_column", "labels_table", "some_features", "label_column"}
MODEL_WRAPPERS = ["SELECT * FROM {call}"] * 6 + [
    "SELECT {call}", "SELECT * FROM {call} LIMIT 1", "SELECT count(*) FROM {call} f", "SELECT f.* FROM generate_series(1, 2), LATERAL {call} f", "SELECT {call} FROM generate_series(1, 2)",
    "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM {call}", "PREPARE q AS SELECT * FROM {call}; EXECUTE q; EXECUTE q", "SAVEPOINT s; SELECT {call}; ROLLBACK TO s; SELECT * FROM {call}",
    "DECLARE c CURSOR FOR SELECT * FROM {call}; FETCH 1 FROM c; FETCH 1 FROM c", "DO $do$BEGIN PERFORM {call}; EXCEPTION WHEN division_by_zero THEN NULL; END$do$",
    "CREATE TEMP TABLE taken ON COMMIT DROP AS SELECT * FROM {call}", "SELECT CASE WHEN false THEN (SELECT count(*) FROM {call}) END"]
# Statements before a call of a model's function.
BEFORE = [("", "")] * 14 + [
    ("DELETE FROM rfm", "55000|42704"), ("DROP TABLE rfm", "42P01"), ("SAVEPOINT b; DROP TABLE rfm; ROLLBACK TO b", ""), ("SAVEPOINT b; TRUNCATE rfm; ROLLBACK TO b", ""),
    ("ALTER TABLE rfm RENAME TO renamed", "42P01"), ("CREATE TEMP TABLE rfm (x int)", "42809"), ("UPDATE rfm SET version = version + 1", "42704|55000"),
    ("UPDATE rfm SET centroids = NULL", "55000|XX001"), ("UPDATE rfm SET sizes = '{}'", "XX001"), ("UPDATE rfm SET score_quantiles = NULL, radii = NULL, avg_distances = NULL", ""),
    ("UPDATE twice SET shift = '{1e30,-1e30}'", ""), ("INSERT INTO rfm (version, group_no, part, status) VALUES (2, 0, 0, 'failed')", "55000"), ("ALTER TABLE rfm ENABLE ROW LEVEL SECURITY", "0A000"),
    ("CREATE TRIGGER t BEFORE UPDATE ON rfm FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()", ""), ("VACUUM rfm", "25001"), ("CLUSTER rfm USING rfm_pkey", ""),
    ("CREATE RULE r AS ON UPDATE TO rfm DO INSTEAD NOTHING", "55000|0A"), ("SELECT gkmeans_predict('rfm', 1, 2); ALTER TABLE rfm SET SCHEMA public", "42P01"), ("ALTER TABLE rfm OWNER TO mutant_nobody", "42501"),
    ("CREATE RULE r AS ON INSERT TO rfm DO INSTEAD UPDATE plain SET z = 1", "55000|0A"), ("CREATE RULE r AS ON DELETE TO rfm DO INSTEAD NOTHING", "55000|0A"),
    ("UPDATE rfm SET drift = '[1]', history = '[1]', k_selection = '[1]', definition = '[1]', report = '[1]'", "XX001"),
    ("UPDATE rfm SET drift = '7', history = '\"x\"', k_selection = 'null', definition = 'true', report = '[]'", "XX001"),
    ("UPDATE rfm SET drift = '{\"clusters\": [[1], {}, 7]}', history = '[[{}], {\"iteration\": []}]', k_selection = '[[1], {\"k\": {}}, {\"chosen\": []}]'", "XX001"),
    ("TRUNCATE twice", "55000|42704"), ("SELECT gkmeans_rollback('twice')", ""), ("SELECT gkmeans_deploy('twice', 1)", ""), ("ALTER TABLE plain DROP COLUMN x CASCADE", "42"), ("LOCK TABLE rfm", "")]
VIEWS = ["gkmeans.models", "gkmeans.versions", "gkmeans.clusters", "gkmeans.centroid_features", "gkmeans.iterations", "gkmeans.k_selection",
         "gkmeans.drift", "gkmeans.plots", "gkmeans.progress"]


class Call:
    """A statement, the settings around it, and the SQLSTATEs that it may end with: none if it must succeed."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.codes = set()
        self.wrong = 0
        self.settings = {}
        self.before = ""
        self.text = ""

    def allow(self, codes):
        """One more thing may be wrong, with these beginnings of SQLSTATEs."""
        found = [code for code in codes.split("|") if code]
        self.codes.update(found)
        self.wrong += len(found) > 0

    def choose(self, pool, share=0.45):
        """A value of an argument: right, or wrong."""
        good, bad = pool
        if not bad or self.dice.random() >= share:
            return self.dice.choice(good)
        value, codes = self.dice.choice(bad)
        self.allow(codes)
        return value

    def choose_settings(self):
        settings = self.settings
        for name in self.dice.sample(list(SETTINGS), self.dice.choice([0, 1, 2, 4])):
            settings[name] = self.dice.choice(SETTINGS[name])
            self.allow(SETTING_CODES.get((name, settings[name]), ""))
            if name == "gkmeans.fault_at" and settings[name] != "0":
                self.allow("58|53|XX000")

    def may_end_with(self, code):
        return any(allowed and code.startswith(allowed) for allowed in self.codes)

    def commands(self):
        """The settings, those that must come before the transaction as SET, and the statement."""
        early = ("default_transaction_read_only", "default_transaction_isolation")
        return [f"SET {'' if name in early else 'LOCAL '}{name} = "
                + (value or "''" if name == "search_path" else f"'{value}'") for name, value in self.settings.items()] \
            + [text for text in (self.before, self.text) if text]


class Fit(Call):
    """A call of a function that fits."""

    def __init__(self, seed):
        super().__init__(seed)
        dice = self.dice
        self.function = dice.choice(["gkmeans_fit", "gkmeans_fit_predict", "gkmeans_create_model"])
        self.pools = {**ARGUMENTS, "source": tuple(SOURCES.values()), "features": tuple(FEATURES.values())}
        arguments = {"source": dice.choice(SOURCES["good"]), "features": dice.choice(FEATURES["good"]), "k": "3"}
        if self.function == "gkmeans_fit_predict":
            arguments["id_column"] = "'id'"
        if self.function == "gkmeans_create_model":
            arguments["model"] = "'made_model'"
            self.pools.update({"model": MODEL_ARGUMENTS["new_model"], **{name: MODEL_ARGUMENTS[name] for name in ("if_exists", "labels_mode", "changes_table", "criterion", "note")},
                               "k_candidates": (["'{2,3}'", "NULL"], [("'{}'", "22"), ("'{2,NULL}'", "22"), ("'{0}'", "22"), ("'{{2}}'", "22")])})
        for _ in range(dice.choice([0, 1, 1, 2, 2, 3, 5])):
            self.mutate(arguments)
        self.head = ""
        if self.function == "gkmeans_fit_predict":
            self.choose_id_type(arguments)
        self.consider_pairs(arguments)
        self.choose_settings()
        given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        self.text = dice.choice(WRAPPERS).format(call=f"{self.function}({self.head}{given})")
        self.consider_context(arguments)

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
        name = dice.choice(["source", "source", "typed", "odd ids"] + list(self.pools))
        if name == "odd ids":
            arguments["source"] = dice.choice(ODD_IDS)
            return self.allow("42|22")
        if name == "typed":
            arguments["source"] = "'typed'"
            arguments["features"] = "'{" + ",".join(dice.sample(TYPED_FEATURES, dice.choice([1, 1, 1, 2]))) + "}'"
            return self.allow("42|22")
        arguments[name] = self.choose(self.pools[name])

    def consider_pairs(self, arguments):
        """What only two arguments together make wrong."""
        values = " ".join(arguments.values())
        if arguments.get("initial_centroids", "NULL") != "NULL":
            self.allow("22023|22003")
        if arguments.get("labels_table", "NULL") != "NULL":
            self.allow("22023|42P07|42|55|23|25|21000")
        if "VALUES" in values:
            self.allow("42703|42")
        if arguments.get("metric") == "'cosine'" or "equal_rows" in values or "spoiled" in values:
            self.allow("22")
        if any(name in values for name in ("nested", "fitted")):
            self.allow("53200|57014|0A|55|42|25|58")
        if self.function == "gkmeans_create_model":
            self.allow("22023" if "k_candidates" in arguments or "criterion" in arguments else "")
            self.allow("22023|42" if arguments.get("changes_table", "NULL") != "NULL" else "")
            self.allow("42P07|42|54|55" if "made" not in arguments["model"] or arguments.get("labels_table", "NULL") != "NULL" else "")
        # of two mistakes either may be found first, and one may make another of the rest
        if self.wrong > 1:
            self.allow("42|22")

    def consider_context(self, arguments):
        """What only the statement around the call makes wrong."""
        twice = self.text.count(self.function) > 1 or "EXECUTE p; EXECUTE" in self.text or "generate_series(1, 2)" in self.text
        makes = arguments.get("labels_table", "NULL") != "NULL" or self.function == "gkmeans_create_model"
        if makes and (twice or "EXPLAIN" in self.text or "CURSOR" in self.text):
            self.allow("42|55|25")
        if "there" in self.text or "CREATE" in self.text:
            self.allow("25006" if self.settings.get("default_transaction_read_only") == "on" else "")
            self.allow("42" if "role" in self.settings else "")


class Score(Call):
    """A call of a function that scores rows."""

    def __init__(self, seed):
        super().__init__(seed)
        dice = self.dice
        function = dice.choice(list(SCORING))
        model, is_array, codes = dice.choice(EXPORTS if function == "gkmeans_predict_with" else MODELS)
        form, *of_form = dice.choice(FORMS)
        rows = dice.choice(ROWS) if dice.random() < 0.4 else "plain"
        self.allow(codes)
        self.allow(of_form[is_array])
        number = {"gkmeans_nearest": "n", "gkmeans_predict_version": "version"}.get(function)
        arguments = [model] + ([self.choose(MODEL_ARGUMENTS[number])] if number else []) + [form] * (form != "")
        if number == "version" and "rfm" not in model:
            self.allow("55000|42704")
        self.before, codes = dice.choice(BEFORE)
        self.allow(codes)
        if rows != "plain":
            self.allow("42|22")
        self.choose_settings()
        kind = SCORING[function]
        self.text = dice.choice(SCORE_WRAPPERS[kind]).format(call=f"{function}({', '.join(arguments)})", rows=rows)
        self.consider_context(kind)

    def consider_context(self, kind):
        """What only the statement around the call makes wrong."""
        if kind == "row" and "NULL" in self.text:
            self.allow("42")
        if any(word in self.text for word in ("CURSOR", "CREATE")):
            self.allow("25006" if self.settings.get("default_transaction_read_only") == "on" else "")
            self.allow("42P01|55|42" if self.before or "role" in self.settings else "")
            self.allow("XX001")
        # types are found out before the values and the model
        if self.wrong > 1:
            self.allow("42|22")


class Management(Call):
    """A call of another function of models, or a view of them."""

    def __init__(self, seed):
        super().__init__(seed)
        dice = self.dice
        self.before, codes = dice.choice(BEFORE)
        self.allow(codes)
        function = dice.choice(list(MODEL_FUNCTIONS) + ["view"])
        if function == "view":
            view = dice.choice(VIEWS)
            self.text = dice.choice(["SELECT * FROM {0}", "SELECT count(*) FROM {0}", "SELECT * FROM {0} WHERE model = 'mutant.rfm'",
                                     "SELECT v FROM {0} v", "SELECT to_jsonb(v) FROM {0} v, generate_series(1, 2)"]).format(view)
        else:
            self.arguments = {}
            self.is_array = False
            self.choose_arguments(function)
            self.consider_pairs(function)
            given = ", ".join(f"{name} => {value}" for name, value in self.arguments.items())
            wrapper = "CALL {call}" if function == "gkmeans_refresh" else dice.choice(MODEL_WRAPPERS)
            self.text = wrapper.format(call=f"{function}({given})")
        self.choose_settings()
        self.consider_context()

    def choose_arguments(self, function):
        """Values for the arguments that are needed, and for some of the others."""
        dice = self.dice
        for argument in MODEL_FUNCTIONS[function]:
            name, _, pool = argument.partition("=")
            pool = pool or name
            is_needed = pool in NEEDED or f"{pool} of {function}" in NEEDED
            if (not is_needed or (pool == "labels_table" and function in OPTIONAL_LABELS)) and dice.random() < 0.6:
                continue
            if pool == "model":
                self.arguments[name], self.is_array, codes = dice.choice(MODELS)
                self.allow(codes)
            elif pool == "id_type":
                self.arguments[name], codes = ("NULL::int", "") if dice.random() < 0.6 else dice.choice(ID_TYPES)
                self.allow(codes)
            elif pool == "labels_table" and dice.random() < 0.5:
                self.arguments[name] = dice.choice(["'\"Labels\"'", "'full_labels'", "'kinds'", "'made'"])
            else:
                pools = {**ARGUMENTS, **MODEL_ARGUMENTS, "source": tuple(SOURCES.values()), "any_source": tuple(SOURCES.values()),
                         "some_features": tuple(FEATURES.values())}
                self.arguments[name] = self.choose(pools[pool], 0.25)

    def consider_pairs(self, function):
        """What only two arguments together, or an argument and the model, make wrong."""
        arguments = self.arguments
        source = arguments.get("source", "")
        if arguments.get("model") in ("'twice'", "'arrays'", "'\"Odd \"\"model\"\"\"'", "'undeployed'"):
            self.allow("22023" if "names" in arguments else "")
        if "rfm" not in arguments.get("model", "") and (function == "gkmeans_rollback" or "version" in arguments):
            self.allow("55000|42704")
        if function == "gkmeans_rollback":
            self.allow("55000")
        if "source" in arguments and (self.is_array or "VALUES" in source or "cosine" in str(arguments) or "equal_rows" in source):
            self.allow("42|22")
        if "NULL" in (arguments.get("id_column"), arguments.get("source"), arguments.get("labels_table")):
            self.allow("22004|55000")
        if function in OPTIONAL_LABELS:
            self.allow("55000" if "rfm" not in arguments["model"] else "")
            self.allow("42|22|21|23|55" if any(name in arguments for name in ("labels_table", "labels_mode", "changes_table")) else "")
        if function == "gkmeans_plot" or function == "_gkmeans_picture":
            self.allow("55000")
        if function in ("gkmeans_create_view", "gkmeans_alter_model"):
            self.allow("55000|42703|42804|42P16" if "rfm" not in arguments["model"] else "42P16")
        if function in ("gkmeans_compare", "gkmeans_transitions"):
            self.allow("22|42|55000" if any("rfm" not in arguments[name] for name in ("model_a", "model_b")) else "")
        if function in ("gkmeans_drift", "gkmeans_feature_drift"):
            self.allow("55000" if "rfm" not in arguments["model"] else "")
        if "labels_table" in arguments and "id_column" in arguments:
            self.allow("22004" if arguments["labels_table"] == "NULL" else "42|23|21|55|22023" if arguments["labels_table"] not in ("'\"Labels\"'", "'full_labels'", "'made'") else "")
            self.allow("22023|42" if arguments.get("changes_table", "NULL") != "NULL" else "")
            self.allow("21000|42P10|42" if "UNION ALL" in source or "fitted" in source or "labels_mode" in arguments or arguments["id_column"] != "'id'" else "")
        if any(name in source for name in ("nested", "fitted")):
            self.allow("53200|57014|0A|55|42|25|58")
        if function == "gkmeans_import_model":
            self.allow("42P07|42809" if "'rfm'" in arguments["model"] else "")
            self.allow("22023|22000|22004" if len(arguments) > 2 else "")
        if function == "gkmeans_predict_rows" and "VALUES" in source:
            self.allow("42703")
        if self.wrong > 1:
            self.allow("42|22")

    def consider_context(self):
        """What only the statement around the call makes wrong."""
        twice = any(word in self.text for word in ("EXECUTE q; EXECUTE", "generate_series(1, 2)", "ROLLBACK TO s"))
        if any(word in self.text for word in ("labels_table", "import_model", "rollback", "deploy", "prune", "refit", "create_view", "alter_model")) and (twice or "CURSOR" in self.text):
            self.allow("42|55|25")
        if "name_clusters" in self.text and "SELECT * FROM" in self.text and "TABLE taken" in self.text:
            self.allow("42P16|42")
        if any(word in self.text for word in ("deploy", "rollback", "name_clusters", "refit", "refresh", "alter_model", "create_view", "CREATE")):
            self.allow("25006" if self.settings.get("default_transaction_read_only") == "on" else "")
            self.allow("42" if "role" in self.settings else "")
            self.allow("55000|XX001" if self.before else "")


def make_call(seed):
    """A call of one of the kinds."""
    return random.Random(f"kind {seed}").choice([Fit, Fit, Score, Management])(seed)


# kB: what malloc may need more by chance, and what PostgreSQL itself keeps of the catalogs of a table that is rolled back.
MOST_GROWTH, PER_CALL = 16384, 4


class Session:
    """A session that makes calls, and what it holds."""

    def __init__(self, options):
        self.connection = psycopg2.connect(options=options)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET client_min_messages = error; SET search_path = mutant, public; SET statement_timeout = '300s'")
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
        try:
            self.cursor.execute("ROLLBACK")
        except psycopg2.errors.QueryCanceled:
            # the timeout of the call counts for this too
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
    if code.startswith("XX") and not (code == "XX001" and "XX001" in call.codes) and not (call.settings.get("gkmeans.fault_at", "0") != "0" and "injected fault" in message):
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


def grow(session, seed, again):
    """By how many kB a session grows when the first calls are made again: malloc and caches have had their largest sizes before."""
    before = session.status("RssAnon")
    for number in range(again):
        session.make(make_call(seed * 1000003 + number))
    return session.status("RssAnon") - before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"# mutations.py --calls {options.calls} --seed {options.seed}")
    prepare()
    # LLVM takes some 20 MB when it is loaded: its calls have a session of their own
    session, compiling = Session("-c jit=off"), Session("-c jit=on -c jit_above_cost=0")
    wrong = answers = 0
    codes = {}
    for number in range(options.calls):
        call = make_call(options.seed * 1000003 + number)
        maker = compiling if number % 10 == 9 else session
        code, message = maker.make(call)
        complaint = judge(call, code, message, maker.held())
        answers += code is None
        codes[code] = codes.get(code, 0) + 1
        if complaint:
            wrong += 1
            print(f"# call {number}: {complaint}\n#   " + ";\n#   ".join(["BEGIN"] + [c[:2000] for c in call.commands()] + ["ROLLBACK"]))
    again = options.calls // 3
    growth = grow(session, options.seed, again)
    print(f"# {sorted(codes.items(), key=lambda item: -item[1])}")
    print(f"{'not ok' if wrong else 'ok'} 1 - {options.calls} calls end with an answer or the right error, and leave nothing")
    print(f"{'ok' if options.calls / 5 < answers < options.calls * 4 / 5 else 'not ok'} 2 - some are right and some are wrong ({answers} answers)")
    print(f"{'ok' if growth < MOST_GROWTH + again * PER_CALL else 'not ok'} 3 - the session does not grow when {again} of them are made again ({growth} kB)")
    print("1..3")


if __name__ == "__main__":
    main()
