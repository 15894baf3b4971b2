-- Where a fit may stand: CREATE TABLE AS, INSERT, PL/pgSQL, prepared statements, cursors, views, savepoints.
\ir helpers.psql

CREATE TABLE data AS SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x, (i % 3) * 10 + noise(i, 2) AS y FROM generate_series(1, 300) i;
CREATE TABLE reference AS SELECT * FROM gkmeans_fit('data', '{x,y}', 3);
CREATE TABLE reference_labels AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id');
SELECT is(count(*)::int, 3, 'CREATE TABLE AS') FROM reference;
SELECT nothing_left('nothing is left after CREATE TABLE AS');
SELECT columns_are('gk_test', 'reference', '{cluster_id,centroid,size,weight,inertia,avg_distance,radius}'::name[], 'the columns of gkmeans_fit');
SELECT columns_are('gk_test', 'reference_labels', '{id,cluster_id,distance}'::name[], 'the columns of gkmeans_fit_predict');
SELECT is(array_agg(format_type(atttypid, atttypmod) ORDER BY attnum)::text, '{integer,"double precision[]",bigint,"double precision","double precision","double precision","double precision"}',
	'the types of gkmeans_fit') FROM pg_attribute WHERE attrelid = 'reference'::regclass AND attnum > 0;

CREATE TABLE inserted (LIKE reference);
INSERT INTO inserted SELECT * FROM gkmeans_fit('data', '{x,y}', 3);
SELECT set_eq('TABLE inserted', 'TABLE reference', 'INSERT … SELECT');
INSERT INTO inserted SELECT (gkmeans_fit('data', '{x,y}', 3)).*;
SELECT is(count(*)::int, 6, 'INSERT … SELECT, in the target list') FROM inserted;
SELECT set_eq($$SELECT (f).* FROM (SELECT gkmeans_fit('data', '{x,y}', 3) AS f OFFSET 0) q$$, 'TABLE reference', 'in the target list of a subquery');
SELECT nothing_left('nothing is left after INSERT');
-- a table that is clustered into itself
CREATE TABLE growing AS SELECT x, y FROM data;
INSERT INTO growing SELECT centroid[1], centroid[2] FROM gkmeans_fit('growing', '{x,y}', 3);
SELECT is(count(*)::int, 303, 'the source may be the target') FROM growing;
UPDATE data SET y = y FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id') f WHERE f.id = data.id;
SELECT is((SELECT count(*)::int FROM data), 300, 'UPDATE … FROM');

-- PL/pgSQL
CREATE FUNCTION fit_in_a_loop() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	row record; sizes bigint := 0; errors int := 0;
BEGIN
	FOR k IN 1 .. 10 LOOP
		BEGIN
			FOR row IN SELECT * FROM gkmeans_fit('data', '{x,y}', CASE WHEN k % 3 = 0 THEN -1 ELSE k END) LOOP
				sizes := sizes + row.size;
			END LOOP;
		EXCEPTION WHEN invalid_parameter_value THEN
			errors := errors + 1;
		END;
	END LOOP;
	RETURN sizes || ' ' || errors;
END $$;
SELECT is(fit_in_a_loop(), '2100 3', 'a loop in PL/pgSQL with an EXCEPTION block');
SELECT nothing_left('nothing is left after the loop');
CREATE FUNCTION fit_and_fail() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM * FROM gkmeans_fit('SELECT 1 / (id - 200) AS x FROM data ORDER BY id', '{x}', 3);
	RETURN 'no error';
EXCEPTION WHEN division_by_zero THEN
	RETURN 'caught ' || (SELECT count(*) FROM gkmeans_memory() WHERE bytes <> 0) || (SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'gkmeans');
END $$;
SELECT is(fit_and_fail(), 'caught 00', 'at the moment of an error everything is released');
CREATE FUNCTION fit_in_sql() RETURNS SETOF float8[] LANGUAGE sql AS $$ SELECT centroid FROM gkmeans_fit('data', '{x,y}', 3) $$;
SELECT set_eq('SELECT fit_in_sql()', 'SELECT centroid FROM reference', 'a function in SQL');
SELECT is((SELECT count(*)::int FROM (VALUES (2), (3), (4)) v(k), LATERAL gkmeans_fit('data', '{x,y}', k)), 9, 'LATERAL, a fit for every k');
-- a fit inside the source of a fit
SELECT is((SELECT count(*)::int FROM gkmeans_fit($$SELECT centroid FROM gkmeans_fit('data', '{x,y}', 10)$$, '{centroid}', 3)), 3, 'a fit of the centroids of a fit');
SELECT nothing_left('nothing is left after a fit in a fit');
SELECT fails_with($q$SELECT * FROM gkmeans_fit($$SELECT centroid FROM gkmeans_fit('data', '{x,y}', 0)$$, '{centroid}', 3)$q$, '22023', 'an error in the inner fit');
SELECT nothing_left('nothing is left after an error in the inner fit');

-- Prepared statements, with parameters; more than five times, so that the plan becomes generic
PREPARE fitted (text, text[], int, bigint) AS SELECT * FROM gkmeans_fit($1, $2, $3, seed => $4);
SELECT set_eq($$EXECUTE fitted('data', '{x,y}', 3, 0)$$, 'TABLE reference', 'prepared, run ' || i) FROM generate_series(1, 7) i;
DEALLOCATE fitted;

-- Cursors
DECLARE all_rows CURSOR FOR SELECT * FROM gkmeans_fit('data', '{x,y}', 3);
FETCH 1 FROM all_rows \gset first_
SELECT is(:first_cluster_id, 0, 'FETCH 1');
SELECT nothing_left('an open cursor holds nothing of the engine');
SELECT set_eq('TABLE reference', 'SELECT * FROM gkmeans_fit(''data'', ''{x,y}'', 3)', 'another fit while the cursor is open');
FETCH 1 FROM all_rows \gset second_
SELECT is(:second_cluster_id, 1, 'FETCH goes on');
CLOSE all_rows;
DECLARE scrolled SCROLL CURSOR FOR SELECT cluster_id FROM gkmeans_fit('data', '{x,y}', 3);
FETCH LAST FROM scrolled \gset last_
FETCH FIRST FROM scrolled \gset again_
SELECT is((:last_cluster_id, :again_cluster_id)::text, '(2,0)', 'a scrollable cursor');
CLOSE scrolled;
DECLARE abandoned CURSOR FOR SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id');
FETCH 1 FROM abandoned \gset abandoned_
\unset abandoned_
SELECT nothing_left('an abandoned cursor holds nothing of the engine');

-- LIMIT, EXISTS, a view
SELECT is((SELECT count(*)::int FROM (SELECT * FROM gkmeans_fit('data', '{x,y}', 3) LIMIT 1) l), 1, 'LIMIT 1');
SELECT nothing_left('nothing is left after LIMIT 1');
SELECT is((SELECT count(*)::int FROM (SELECT gkmeans_fit('data', '{x,y}', 3) LIMIT 1) l), 1, 'LIMIT 1 in the target list');
SELECT nothing_left('nothing is left after LIMIT 1 in the target list');
SELECT ok(EXISTS (SELECT FROM gkmeans_fit('data', '{x,y}', 3)), 'EXISTS');
CREATE VIEW segments AS SELECT cluster_id, size, centroid FROM gkmeans_fit('data', '{x,y}', 3);
SELECT set_eq('TABLE segments', 'SELECT cluster_id, size, centroid FROM reference', 'a view');
CREATE MATERIALIZED VIEW stored AS SELECT * FROM gkmeans_fit('gk_test.data', '{x,y}', 3);
SELECT set_eq('TABLE stored', 'TABLE reference', 'a materialised view');
REFRESH MATERIALIZED VIEW stored;
SELECT set_eq('TABLE stored', 'TABLE reference', 'and refreshed');
SELECT is((SELECT count(*)::int FROM segments a JOIN segments b USING (cluster_id)), 3, 'a view joined with itself');
SELECT lives_ok('EXPLAIN SELECT * FROM segments', 'EXPLAIN');
SELECT lives_ok('EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM gkmeans_fit(''data'', ''{x,y}'', 3)', 'EXPLAIN ANALYZE');

-- Savepoints
SAVEPOINT before;
SELECT lives_ok('CREATE TABLE made AS SELECT * FROM gkmeans_fit(''data'', ''{x,y}'', 3)', 'a fit in a subtransaction');
ROLLBACK TO before;
SELECT hasnt_table('gk_test', 'made'::name, 'is rolled back');
SELECT nothing_left('nothing is left after ROLLBACK TO');
\set ON_ERROR_STOP 0
\set ON_ERROR_ROLLBACK off
SELECT * FROM gkmeans_fit('SELECT 1 / (id - 200) AS x FROM data', '{x}', 3) \g /dev/null
ROLLBACK TO before;
\set ON_ERROR_STOP 1
SELECT nothing_left('nothing is left after an error and ROLLBACK TO');
SELECT set_eq('SELECT * FROM gkmeans_fit(''data'', ''{x,y}'', 3)', 'TABLE reference', 'and the next fit is right');
RELEASE before;
SAVEPOINT outer_one;
SAVEPOINT inner_one;
INSERT INTO inserted SELECT * FROM gkmeans_fit('data', '{x,y}', 3);
RELEASE inner_one;
SELECT nothing_left('nothing is left after RELEASE');
ROLLBACK TO outer_one;
SELECT is(count(*)::int, 6, 'what a released savepoint did is rolled back with the outer one') FROM inserted;

-- The fit sees the caller's snapshot and the transaction's own changes
INSERT INTO data VALUES (301, 1000, 1000);
SELECT is((SELECT max(centroid[1]) FROM gkmeans_fit('data', '{x,y}', 4)), 1000::float8, 'a row that this transaction inserted is seen');
DELETE FROM data WHERE id = 301;
SELECT is((SELECT rows_read::int FROM gkmeans_last_fit()), 301, 'gkmeans_last_fit is about the last fit');
SELECT set_eq('SELECT * FROM gkmeans_fit(''data'', ''{x,y}'', 3)', 'TABLE reference', 'and a deleted one is not');
CREATE FUNCTION fit_in_stable(float8) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT sum(size)::bigint FROM gkmeans_fit('data', '{x,y}', 3) $$;
SELECT is(fit_in_stable(1), 300::bigint, 'inside a function called STABLE');

-- gkmeans_last_fit: the columns, and that an error leaves the fit before in place or nothing, never half a fit
SELECT is((SELECT count(*)::int FROM gkmeans_last_fit()), 1, 'one row');
SELECT ok(engine IN ('cpu', 'cuda') AND devices >= 0 AND read_seconds >= 0 AND seed_seconds >= 0 AND iterate_seconds >= 0 AND label_seconds >= 0
	AND device_bytes_peak >= 0 AND pinned_bytes_peak >= 0 AND rows_read = 300 AND rows_skipped = 0 AND k_effective = 3 AND iterations > 0 AND converged,
	'every column has a value that can be') FROM gkmeans_last_fit();
SELECT is(after_fit(fit, 'open_seconds > 0 AND read_seconds > 0 AND prepare_seconds > 0 AND seed_seconds > 0 AND iterate_seconds > 0 AND label_seconds > 0
	AND open_seconds + read_seconds + prepare_seconds + seed_seconds + iterate_seconds + label_seconds <= total_seconds'), 'true', 'the parts take no longer than the whole: ' || fit)
FROM unnest('{"gkmeans_fit(''data'', ''{x,y}'', 3)", "gkmeans_fit(''data'', ''{x,y}'', 3, scale => ''standard'', n_init => 3, quality => ''best'')",
	"gkmeans_fit(''data'', ''{x,y}'', 3, id_column => ''id'', labels_table => ''timed'')", "gkmeans_fit_predict(NULL::int, ''data'', ''{x,y}'', 3, id_column => ''id'')",
	"gkmeans_create_model(''timed_model'', ''data'', ''{x,y}'', 3, id_column => ''id'')", "gkmeans_create_model(''timed_models'', ''data'', ''{x,y}'', criterion => ''silhouette'', k_candidates => ''{2,3,4}'')"}'::text[]) fit;
SELECT ok(report ?& '{open_seconds,read_seconds,prepare_seconds,seed_seconds,iterate_seconds,label_seconds}', 'a model keeps them') FROM timed_model WHERE report IS NOT NULL;
SELECT cmp_ok((SELECT sum(peak) FROM gkmeans_memory()), '>', 0::numeric, 'gkmeans_memory tells the peak of the last fit');

-- gkmeans_memory while the rows are read, called by the source
CREATE FUNCTION held(what text) RETURNS real LANGUAGE sql VOLATILE AS $$ SELECT bytes FROM gkmeans_memory() WHERE kind = what $$;
CREATE VIEW looking AS SELECT held('ring') AS ring FROM generate_series(1, 10);
SELECT is(centroid[1]::bigint, (SELECT ring_bytes FROM gkmeans_last_fit()), 'the ring is there while the rows are read')
FROM gkmeans_fit('looking', k => 1);
SELECT cmp_ok(centroid[1], '>', 0::float8, 'and so is the job') FROM gkmeans_fit('SELECT held(''jobs'') AS jobs FROM generate_series(1, 10)', k => 1);
SELECT is(centroid[1]::bigint, 2 * (SELECT ring_bytes FROM gkmeans_last_fit()), 'two rings in a fit within a fit')
FROM gkmeans_fit('SELECT centroid[1] AS ring FROM gkmeans_fit(''looking'', k => 1)', k => 1);
SELECT is((SELECT array_agg(bytes ORDER BY kind) FROM gkmeans_memory() WHERE kind IN ('jobs', 'ring')), '{0,0}', 'nothing is held afterwards');
SELECT cmp_ok(peak, '>=', 2 * (SELECT ring_bytes FROM gkmeans_last_fit()), 'the most were two rings or more') FROM gkmeans_memory() WHERE kind = 'ring';
SELECT sum(peak) AS peak_before FROM gkmeans_memory() WHERE kind IN ('device', 'host') \gset
SAVEPOINT before_error;
\set ON_ERROR_STOP 0
SELECT * FROM gkmeans_fit('SELECT 1 / (7000000 - i)::float8 AS x FROM generate_series(1, 7000000) i', k => 2) \g /dev/null
\set ON_ERROR_STOP 1
ROLLBACK TO before_error;
SELECT cmp_ok(sum(peak), '>', :peak_before::numeric, 'a fit that failed counts for the peak as well') FROM gkmeans_memory() WHERE kind IN ('device', 'host');
SELECT nothing_left('and leaves nothing');

-- A read-only transaction: a fit reads; with a labels table it writes and is refused
SAVEPOINT writable;
SET LOCAL transaction_read_only = on;
SELECT sum(size)::int AS read_only_rows FROM gkmeans_fit('data', '{x,y}', 3) \gset
\set ON_ERROR_STOP 0
SELECT * FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', labels_table => 'labels') \g /dev/null
\set read_only_state :LAST_ERROR_SQLSTATE
ROLLBACK TO writable;
\set ON_ERROR_STOP 1
SELECT is(:read_only_rows::int, 300, 'a fit in a read-only transaction');
SELECT is(:'read_only_state'::text, '25006', 'no labels table in a read-only transaction');

SELECT nothing_left('nothing is left at the end');
-- A setting that the analysis of the source makes, which gkmeans makes as well while it plans
CREATE FUNCTION set_at_second() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gk_test.calls', (coalesce(nullif(current_setting('gk_test.calls', true), ''), '0')::int + 1)::text, false);
	IF current_setting('gk_test.calls') = '2' THEN PERFORM set_config('enable_partitionwise_aggregate', 'on', false); END IF;
	RETURN true;
END $$;
CREATE FUNCTION is_set(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN set_at_second(); END $$;
CREATE DOMAIN setting AS int CHECK (is_set(VALUE));
SELECT is(sum(size), 20::numeric, 'a source whose analysis sets something') FROM gkmeans_fit($$SELECT i * 1.0 AS x, ('{1}'::setting[])[1] AS y FROM generate_series(1, 20) i$$, '{x}', 2);
SELECT is(current_setting('enable_partitionwise_aggregate'), 'on', 'it stays as it was set');
RESET enable_partitionwise_aggregate;

SELECT * FROM finish();
ROLLBACK;
