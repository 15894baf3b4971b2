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

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
