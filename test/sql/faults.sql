-- The call number N of the engine fails, for every N of a fit: a clean error each time, and nothing left.
\ir helpers.psql

LOAD 'gkmeans';
SELECT fails_with('SET gkmeans.fault_at = 1', '42602', 'gkmeans itself injects no faults');
LOAD 'gkmeans_faults';
CREATE ROLE gk_plain;
GRANT USAGE ON SCHEMA gk_test TO gk_plain;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO gk_plain;
SET LOCAL ROLE gk_plain;
SELECT fails_with('SET LOCAL gkmeans.fault_at = 1', '42501', 'they belong to superusers');
RESET ROLE;

CREATE TABLE data AS
	SELECT i AS id, (i % 3) * 10 + noise(i, 1) AS x, (i % 3) * 10 + noise(i, 2) AS y, 1 + i % 2 AS w FROM generate_series(1, 300) i;

-- Runs a fit with a fault at 1, 2, … until it succeeds; returns the number of faults, or what was wrong.
CREATE FUNCTION sweep(fit text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	expected text := fingerprint(fit);
	code text; said text; fault int := 0;
BEGIN
	LOOP
		fault := fault + 1;
		PERFORM set_config('gkmeans.fault_at', fault::text, true);
		BEGIN
			PERFORM fingerprint(fit);
			code := NULL;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
		END;
		IF EXISTS (SELECT FROM gkmeans_memory() WHERE bytes <> 0) OR EXISTS (SELECT FROM pg_backend_memory_contexts WHERE name = 'gkmeans') THEN
			RETURN format('fault %s left memory behind', fault);
		END IF;
		PERFORM set_config('gkmeans.fault_at', '0', true);
		IF (code IS NULL OR fault % 3 = 0) AND fingerprint(fit) IS DISTINCT FROM expected THEN
			RETURN format('the fit after fault %s is another one', fault);
		END IF;
		EXIT WHEN code IS NULL;
		IF code NOT IN ('58030', '53200', '58000') THEN
			RETURN format('fault %s: %s %s', fault, code, said);
		END IF;
		IF fault > 5000 THEN
			RETURN 'no end';
		END IF;
	END LOOP;
	RETURN CASE WHEN fault > 10 THEN 'swept' ELSE format('only %s faults', fault - 1) END;
END $$;

SELECT is(sweep(format($$SELECT * FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast', %s)$$, more)), 'swept', 'gkmeans_fit, ' || more)
FROM unnest(ARRAY['init => ''k-means||''', 'init => ''k-means++''', 'init => ''random''', 'initial_centroids => ''{{0,0},{10,10},{1000,1000}}''', 'n_init => 3',
	'weight_column => ''w''', 'scale => ''standard''', 'scale => ''minmax'', weight_column => ''w''', 'metric => ''cosine''', 'max_iter => 1']) more;
SELECT is(sweep($$SELECT * FROM gkmeans_fit('SELECT * FROM data WHERE id <= 40', '{x,y}', 3, quality => 'good')$$), 'swept', 'gkmeans_fit, quality => ''good''');
SELECT is(sweep(format($$SELECT * FROM gkmeans_fit_predict(NULL::int, 'data', '{x,y}', 3, id_column => 'id', quality => 'fast', init => %L) ORDER BY id$$, init)), 'swept', 'gkmeans_fit_predict, ' || init)
FROM unnest('{k-means||,k-means++,random}'::text[]) init;
SELECT is(sweep($$SELECT * FROM gkmeans_fit('data', '{x,y}', 3, id_column => 'id', quality => 'fast', labels_table => 'labels', if_exists => 'replace')$$), 'swept', 'with a labels table');
SELECT is(sweep($$SELECT * FROM gkmeans_fit('SELECT x + 1e9 AS x, y FROM data', '{x,y}', 3, quality => 'fast')$$), 'swept', 'double precision far from the origin');
SELECT is(sweep($$SELECT * FROM gkmeans_create_model('model', 'data', '{x,y}', 3, weight_column => 'w', scale => 'standard', quality => 'fast', id_column => 'id', labels_table => 'model_labels', if_exists => 'replace')$$), 'swept', 'gkmeans_create_model');
SELECT is((SELECT count(*)::int FROM model WHERE deployed), 1, 'one version is deployed after all that');
SELECT is(sweep($$SELECT * FROM gkmeans_predict_rows(NULL::int, 'model', 'data', 'id') ORDER BY id$$), 'swept', 'gkmeans_predict_rows');
SELECT is(sweep($$SELECT * FROM gkmeans_assign('model', 'data', 'id', 'model_labels', 'delete')$$), 'swept', 'gkmeans_assign');
CREATE TABLE full_labels (id int PRIMARY KEY, cluster_id int, distance float8, name text, second_cluster_id int, second_distance float8, anomaly_score float8, anomaly_percentile float8, labelled_at timestamptz);
SELECT is(sweep($$SELECT * FROM gkmeans_create_model('model', 'data', '{x,y}', 3, id_column => 'id', labels_table => 'full_labels', changes_table => 'changes', if_exists => 'replace')$$), 'swept', 'all columns of a labels table');
SELECT is((SELECT count(*)::int FROM changes JOIN full_labels USING (id) WHERE from_cluster_id IS NULL AND to_cluster_id = cluster_id), 300, 'a fault writes no change');
SELECT is((SELECT count(*)::int FROM changes), 300, 'and none twice');
SELECT is(sweep($$SELECT * FROM gkmeans_evaluate('model', 'data')$$), 'swept', 'gkmeans_evaluate');
SELECT is(sweep($$SELECT * FROM gkmeans_evaluate_labels('data', '{x,y}', 'w')$$), 'swept', 'gkmeans_evaluate_labels');
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0;
SELECT is(sweep($$SELECT * FROM gkmeans_fit('data', '{x,y}', 3, quality => 'fast')$$), 'swept', 'with workers');

-- A number always means the same call: names of the calls by their numbers
CREATE FUNCTION failing_calls(fit text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE calls text[] := '{}'; said text;
BEGIN
	LOOP
		PERFORM set_config('gkmeans.fault_at', (cardinality(calls) + 1)::text, true);
		BEGIN
			PERFORM fingerprint(fit);
			PERFORM set_config('gkmeans.fault_at', '0', true);
			RETURN calls;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
		END;
		calls := calls || substring(said, '^(\S+) failed');
	END LOOP;
END $$;
SET LOCAL max_parallel_workers_per_gather = 0;
CREATE TABLE batches AS SELECT i::real AS x, (i % 7)::real AS y FROM generate_series(1, 100000) i;
\set fit '$$SELECT * FROM gkmeans_fit(''batches'', k => 3, max_iter => 2, init => ''random'', quality => ''fast'')$$'
CREATE TABLE calls AS SELECT turn, failing_calls(:fit) AS calls FROM generate_series(1, 3) turn;
SELECT is((SELECT count(DISTINCT calls)::int FROM calls), 1, 'the calls have the same numbers each time');
SELECT cmp_ok(cardinality(array_positions(calls, 'reclaim')), '>', 1, 'a reclaim fails for each of several batches') FROM calls WHERE turn = 1;
SELECT is(cardinality(array_positions(calls, 'reclaim')), cardinality(array_positions(calls, 'append')), 'as many as there are') FROM calls WHERE turn = 1;
SELECT set_has($$SELECT unnest(calls) FROM calls$$, $$SELECT unnest('{open,lend_buffer,set_dimension,append,reclaim,submit,wait}'::text[])$$, 'every kind of call fails');

-- At the top level of a transaction, with a savepoint
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
SAVEPOINT before;
\set ON_ERROR_STOP 0
SET LOCAL gkmeans.fault_at = 7;
SELECT * FROM gkmeans_fit('data', '{x,y}', 3) \g /dev/null
\set state :LAST_ERROR_SQLSTATE
ROLLBACK TO before;
\set ON_ERROR_STOP 1
SELECT matches(:'state'::text, '^(58030|53200|58000)$', 'a fault outside PL/pgSQL');
SELECT nothing_left('leaves nothing either');
SELECT is((SELECT count(*)::int FROM gkmeans_fit('data', '{x,y}', 3)), 3, 'and the next fit is right');

SELECT * FROM finish();
ROLLBACK;
