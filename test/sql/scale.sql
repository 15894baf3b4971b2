-- scale => 'auto', and what scaling does to features of different orders.
\ir helpers.psql

CREATE TABLE customers AS
	SELECT i AS customer_id, (i % 2) * 10 + noise(i, 1) AS recency, (i / 2 % 2) * 10 + noise(i, 2) AS frequency, (i / 4 % 2) * 50000 + 2000 * noise(i, 3) AS monetary FROM generate_series(1, 400) i;
CREATE FUNCTION of(features text, more text) RETURNS text LANGUAGE sql AS
	$$ SELECT fingerprint(format('SELECT * FROM gkmeans_fit(''customers'', %L, 4, n_init => 4, %s)', features, more)) $$;
SELECT is(of('{recency,frequency,monetary}', 'scale => ''auto'''), of('{recency,frequency,monetary}', 'scale => ''standard'''), 'several columns: auto is standard');
SELECT isnt(of('{recency,frequency,monetary}', 'scale => ''auto'''), of('{recency,frequency,monetary}', 'scale => ''none'''), 'and not none');
SELECT is(of('{monetary}', 'scale => ''auto'''), of('{monetary}', 'scale => ''none'''), 'one column: auto is none');
SELECT is(of('{recency,frequency}', 'metric => ''cosine'', scale => ''auto'''), of('{recency,frequency}', 'metric => ''cosine'', scale => ''standard'''), 'with cosine too');
SELECT is(fingerprint($$SELECT * FROM gkmeans_fit('SELECT ARRAY[recency,frequency] AS v FROM customers', '{v}', 4, scale => 'auto')$$),
	fingerprint($$SELECT * FROM gkmeans_fit('SELECT ARRAY[recency,frequency] AS v FROM customers', '{v}', 4)$$), 'an array: auto is none');
SELECT is(after_fit($$gkmeans_fit('VALUES (''{0,0}''::real[]), (''{1,0}''), (''{0,1}'')', '{column1}', 2, metric => 'cosine', scale => 'auto')$$, 'rows_skipped'), '1',
	'auto on an array with cosine: a row of zeros has no direction');
SELECT is(after_fit($$gkmeans_fit('VALUES (0, 0), (1, 0), (0, 1)', '{column1,column2}', 2, metric => 'cosine', scale => 'auto')$$, 'rows_skipped'), '0',
	'auto on columns with cosine: it has');

-- Eight groups, of which the unscaled features show two
CREATE FUNCTION groups_found(scale text) RETURNS int LANGUAGE sql SET client_min_messages = error AS $$
	SELECT count(DISTINCT ARRAY[round(centroid[1] / 10), round(centroid[2] / 10), round(centroid[3] / 50000)])::int
	FROM gkmeans_fit('customers', '{recency,frequency,monetary}', 8, n_init => 8, scale => scale)
$$;
SELECT cmp_ok(groups_found('none'), '<', 8, 'unscaled, the largest column hides the groups of the others');
SELECT is(groups_found('auto'), 8, 'scaled, they are found');

-- Rows that the scale makes zero are as near to each direction, and stay where they are
CREATE TABLE directions AS SELECT i AS id, ('{0,3,1,0,1}'::int[])[i % 5 + 1] AS x, ('{0,3,0,3,2}'::int[])[i % 5 + 1] AS y FROM generate_series(0, 499) i;
DO $$ BEGIN PERFORM gkmeans_fit('SELECT * FROM directions WHERE id < 5', '{x,y}', 2, initial_centroids => '{{0.5,0},{2.5,3}}', metric => 'cosine', scale => 'minmax', tol => 0, max_iter => 300); END $$;
SELECT ok(converged, 'a fit that ends when no label changes') FROM gkmeans_last_fit();
SELECT is((SELECT count(*) FROM gkmeans_create_model('pointing', 'directions', '{x,y}', 2, initial_centroids => '{{0.5,0},{2.5,3}}', metric => 'cosine', scale => 'minmax', id_column => 'id', labels_table => 'pointed')), 2::bigint, 'a model of them');
SELECT is(moved, 0::bigint, 'whose refit moves none') FROM gkmeans_refit('pointing', deploy => 'always');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
