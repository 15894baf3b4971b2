-- gkmeans_select_k, and k_candidates of gkmeans_create_model.
\ir helpers.psql
\set iris `cat data/iris.csv`
\set ruspini `cat data/ruspini.csv`
\set wine `cat data/wine.csv`

CREATE TABLE iris AS SELECT f[1]::int AS id, f[2:5]::float8[] AS v, f[6] AS species FROM csv_lines(:'iris') f;
CREATE TABLE ruspini AS SELECT f[1]::int AS id, f[2]::float8 AS x, f[3]::float8 AS y FROM csv_lines(:'ruspini') f;
CREATE TABLE wine AS SELECT f[1]::int AS id, f[2:14]::float8[] AS v FROM csv_lines(:'wine') f;
CREATE TABLE uniform AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 1000) i;
CREATE FUNCTION chosen(criterion text, source text, features text[], k int[] DEFAULT '{1,2,3,4,5,6,7,8,9,10}', scale text DEFAULT 'none') RETURNS int LANGUAGE sql AS
	$$SELECT s.k FROM gkmeans_select_k(source, features, k, criterion, n_init => 16, quality => 'fast', scale => scale) s WHERE chosen$$;

-- What each criterion chooses
SELECT is(chosen(c, 'ruspini', '{x,y}'), 4, 'ruspini: ' || c) FROM unnest('{simplified_silhouette,silhouette,calinski_harabasz,davies_bouldin,elbow}'::text[]) c;
SELECT is(chosen(c, 'wine', '{v}', scale => 'standard'), 3, 'wine: ' || c) FROM unnest('{simplified_silhouette,silhouette,calinski_harabasz,davies_bouldin,gap}'::text[]) c;
SELECT is(chosen(c, 'iris', '{v}'), 2, 'iris: ' || c) FROM unnest('{simplified_silhouette,silhouette,davies_bouldin}'::text[]) c;
SELECT is(chosen(c, 'iris', '{v}'), 3, 'iris: ' || c) FROM unnest('{calinski_harabasz,elbow}'::text[]) c;
SELECT is(chosen('elbow', 'iris', '{v}', '{2,3,4,5,6,7,8,9,10,12,15,20}'), 3, 'the elbow does not need k = 1: the inertia of a single cluster is known');
SELECT is(chosen(c, 'uniform', '{x,y}'), 1, 'uniform rows have no clusters: ' || c) FROM unnest('{gap,bic}'::text[]) c;
SELECT is(chosen(c, 'SELECT * FROM (VALUES (1, 1), (5, 5), (9, 3)) v, generate_series(1, 20)', '{column1,column2}', '{1,2,3}'), 3, 'three different rows: ' || c) FROM unnest('{simplified_silhouette,silhouette,davies_bouldin,calinski_harabasz,bic}'::text[]) c;
SELECT is((SELECT array_agg(k ORDER BY k) FROM gkmeans_select_k('iris', '{v}', '{1}') WHERE chosen), NULL, 'nothing is chosen where the criterion is not defined');
SELECT is(chosen(c, 'SELECT 5 AS x FROM iris', '{x}', '{1,2,4}'), 1, 'equal rows are one cluster: ' || c) FROM unnest('{gap,bic}'::text[]) c;
SELECT is(chosen(c, 'iris', '{v}', '{1}'), 1, 'one cluster can be chosen by ' || c) FROM unnest('{gap,bic}'::text[]) c;

-- The figures are those of fits and of gkmeans_evaluate, bit for bit
CREATE TABLE tried AS SELECT * FROM gkmeans_select_k('iris', '{v}', '{7,3,2,3,1}', gap_references => 5);
SELECT is(array_agg(k), '{1,2,3,7}', 'each k once, ascending') FROM tried;
CREATE FUNCTION after(k int) RETURNS text LANGUAGE sql AS $$SELECT after_fit(format('gkmeans_fit(''iris'', ''{v}'', %s, n_init => 4)', k), 'row(inertia, iterations)')$$;
SELECT is(row(inertia, iterations)::text, after(k), 'k = ' || k || ': the inertia of gkmeans_fit') FROM tried;
SELECT count(*) FROM tried t, LATERAL gkmeans_create_model('i' || t.k, 'iris', '{v}', t.k, n_init => 4);
SELECT is(row(t.explained, t.silhouette, t.simplified_silhouette, t.davies_bouldin, t.calinski_harabasz)::text, row(e.explained, e.silhouette, e.simplified_silhouette, e.davies_bouldin, e.calinski_harabasz)::text,
	'k = ' || t.k || ': the figures of gkmeans_evaluate') FROM tried t, LATERAL gkmeans_evaluate(('i' || t.k)::regclass, 'iris') e;
SELECT is(row(silhouette, simplified_silhouette, davies_bouldin, calinski_harabasz, elbow, explained)::text, '(,,,,0,0)', 'k = 1 has no indices') FROM tried WHERE k = 1;
SELECT ok(bool_and(bic IS NOT NULL AND gap IS NOT NULL AND gap_error > 0 AND seconds >= 0), 'the others are there') FROM tried;
SELECT ok(bool_and(gap IS NULL AND gap_error IS NULL), 'no gap unless it is asked for') FROM gkmeans_select_k('iris', '{v}', '{2,3}');
SELECT near(bic, (SELECT sum(size * ln(size / 150.0)) FROM gkmeans_clusters('i3')) - 150 * 4 / 2 * ln(2 * pi() * inertia / (4 * 147)) - 4 * 147 / 2 - (2 + 12 + 1) / 2.0 * ln(150), 1e-9, 'bic by its definition') FROM tried WHERE k = 3;
SELECT near(elbow, (681.3705911 - inertia) / (681.3705911 - (SELECT inertia FROM tried WHERE k = 7)) - 2 / 6.0, 1e-6, 'elbow by its definition') FROM tried WHERE k = 3;

SELECT ok(bool_and(abs(elbow - (single - inertia) / (single - last) + (k - 1) / 3.0) < 1e-9), 'cosine: the elbow begins at the inertia of a single unit vector')
FROM (SELECT k, inertia, elbow, first_value(inertia) OVER w AS single, last_value(inertia) OVER w AS last
	FROM gkmeans_select_k('SELECT v, 1 + v[1]::int % 3 AS w FROM iris', '{v}', '{1,2,3,4}', 'elbow', weight_column => 'w', metric => 'cosine', scale => 'standard')
	WINDOW w AS (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) t;

-- The same bits whatever the order of the rows and the engine's threads; another seed, another gap
CREATE FUNCTION figures(query text, seed int DEFAULT 0, cosine bool DEFAULT false) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(row(k, inertia, silhouette, bic, gap, gap_error, elbow, chosen)::text, ' ' ORDER BY k) FROM gkmeans_select_k(query, '{v}', '{1,2,3,4}', 'gap', gap_references => 4, seed => seed, metric => CASE WHEN cosine THEN 'cosine' ELSE 'euclidean' END, sample => 100) $$;
CREATE TABLE first_figures AS SELECT figures('iris') AS f, figures('iris', cosine => true) AS c;
SELECT is(figures('SELECT * FROM iris ORDER BY v DESC'), f, 'another order: the same bits') FROM first_figures;
SELECT is(figures('SELECT * FROM iris ORDER BY v DESC', cosine => true), c, 'cosine: the same bits') FROM first_figures;
SET LOCAL gkmeans.cpu_threads = 3;
SELECT is(figures('iris'), f, 'three threads: the same bits') FROM first_figures;
RESET gkmeans.cpu_threads;
SELECT isnt(figures('iris', 1), f, 'another seed') FROM first_figures;
SELECT cmp_ok(abs(a.gap - b.gap), '<', 0.05::float8, 'a sample has about the gap of all rows, k = ' || a.k) FROM gkmeans_select_k('SELECT x * 3 AS x, y FROM uniform', '{x,y}', '{1,2,3}', 'gap', sample => 300) a JOIN gkmeans_select_k('SELECT x * 3 AS x, y FROM uniform', '{x,y}', '{1,2,3}', 'gap') b USING (k);
SELECT ok(min(gap) > 0.5 AND max(gap) < 0.65, 'the gap of uniform rows hardly depends on k') FROM gkmeans_select_k('uniform', '{x,y}', '{1,2,3,5}', 'gap');
-- Equal rows count as often in a sample as among all rows: their axes are other ones than those of the different rows
CREATE TABLE places AS SELECT i % 10 * 10.0 AS x, 0.0 AS y FROM generate_series(1, 950) i UNION ALL
	SELECT 45 + 0.6 * u - 0.8 * v, 0.8 * u + 0.6 * v FROM (SELECT i % 10 * 12 - 60 AS u, i / 10 * 3 - 7 AS v FROM generate_series(0, 49) i) AS band;
SELECT near(a.gap, b.gap, 0.01, 'rows that come twice have the gap of a half of them, k = ' || a.k)
FROM gkmeans_select_k('places', '{x,y}', '{1,2,3}', 'gap', sample => 1000) a JOIN gkmeans_select_k('SELECT places.* FROM places, generate_series(1, 2)', '{x,y}', '{1,2,3}', 'gap', sample => 1000) b USING (k);
SELECT is(chosen('gap', 'SELECT id, x + (id % 3 = 1)::int * 3 AS x, y + (id % 3 = 2)::int * 3 AS y FROM uniform', '{x,y}', '{1,2,3,4,5}'), 3, 'three squares: gap');
-- References are fitted as the rows are: `auto` looks no longer than it does, `best` makes all its searches
SELECT cmp_ok(abs(a.gap + ln(a.inertia) - b.gap - ln(b.inertia)), '>', 1e-9::float8, 'references have the limits of the rows')
FROM gkmeans_select_k('uniform', '{x,y}', '{50}', gap_references => 1) a, gkmeans_select_k('uniform', '{x,y}', '{50}', gap_references => 1, quality => 'best') b;

-- Weights, metric, limits reach the fits
SELECT is((SELECT k FROM gkmeans_select_k('SELECT x, w FROM (VALUES (0, 1), (4, 1), (100, 1), (104, 1)) v (x, w) UNION ALL SELECT 2 + i % 5 * 0.1 + i % 2 * 100, 0 FROM generate_series(1, 40) i', '{x}', '{2,3,4}', weight_column => 'w', criterion => 'calinski_harabasz') WHERE chosen), 2, 'rows without weight count in the criterion');
SELECT is((SELECT inertia FROM gkmeans_select_k('SELECT *, 1 + id % 3 AS w FROM iris', '{v}', '{3}', weight_column => 'w')), after_fit('gkmeans_fit(''SELECT *, 1 + id % 3 AS w FROM iris'', ''{v}'', 3, weight_column => ''w'', n_init => 4)', 'inertia')::float8, 'weights');
SELECT is((SELECT inertia FROM gkmeans_select_k('iris', '{v}', '{3}', metric => 'cosine', init => 'random', seed => 5, n_init => 2)), after_fit('gkmeans_fit(''iris'', ''{v}'', 3, metric => ''cosine'', init => ''random'', seed => 5, n_init => 2)', 'inertia')::float8, 'metric, init, seed, n_init');
SELECT is((SELECT iterations FROM gkmeans_select_k('iris', '{v}', '{3}', max_iter => 1)), 1, 'max_iter');
SELECT is((SELECT count(*)::int FROM gkmeans_select_k('iris', '{v}')), 12, 'twelve candidates if none are named');
CREATE FUNCTION after_starts(k int, n_init int) RETURNS float8 LANGUAGE sql AS $$SELECT after_fit(format('gkmeans_fit(''uniform'', ''{x,y}'', %s, n_init => %s, quality => ''fast'')', k, n_init), 'inertia')::float8$$;
SELECT is(inertia, after_starts(k, 4), 'four starts if their number is NULL, k = ' || k) FROM gkmeans_select_k('uniform', '{x,y}', '{5,7}', n_init => NULL, quality => 'fast');
SELECT ok(after_starts(7, 3) > after_starts(7, 4) AND after_starts(5, 4) > after_starts(5, 5), 'which are neither three nor five');
SELECT is((SELECT array_agg(inertia > 0) FROM gkmeans_select_k('SELECT * FROM iris WHERE id <= 5', '{v}', '{2,4,5}')), '{t,t,f}', 'as many clusters as rows');

-- Errors
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{}')$$, '22023', 'no k');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', NULL)$$, '22004', 'k is NULL');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2,NULL}')$$, '22004', 'a NULL among them');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2,0}')$$, '22023', 'k = 0', detail => 'Element 2 is 0');
SELECT fails_with($$SELECT gkmeans_create_model('unbent', 'iris', '{v}', k_candidates => '{1,2}', criterion => 'elbow')$$, '22023', 'no elbow of two numbers of clusters', 'is not defined for any', NULL, 'a k above 2');
SELECT fails_with(format($$SELECT gkmeans_create_model('few_rows', 'SELECT generate_series(1, 3) AS x', '{x}', k_candidates => '{3}', criterion => %L)$$, c), '22023', c || ' of as many clusters as rows', 'is not defined for any', NULL, 'fewer clusters than there are rows') FROM unnest('{bic,gap}'::text[]) c;
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{1000001}')$$, '54000', 'k = 1000001');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', (SELECT array_agg(i) FROM generate_series(1, 1001) i))$$, '54000', 'too many');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', 'dunn')$$, '22023', 'another criterion', hint => 'simplified_silhouette');
SELECT fails_with($$SELECT gkmeans_create_model('unchosen', 'iris', '{v}', 2, criterion => 'dunn')$$, '22023', 'it is checked where nothing is chosen', 'invalid criterion');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', 'gap_error')$$, '22023', 'a figure that is no criterion');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', 'gap', gap_references => 0)$$, '22023', 'gap without references');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', gap_references => -1)$$, '22023', 'fewer than none');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', sample => 0)$$, '22023', 'no sample');
SELECT fails_with($$SELECT gkmeans_select_k('SELECT array_fill(id::real, ARRAY[513]) AS v FROM iris', '{v}', '{2}', 'gap')$$, '54000', 'too many features for the axes');
SELECT fails_with($$SELECT gkmeans_select_k('SELECT ((id - 50) * 6.5e36)::real AS a, ((50 - id) * 6.5e36)::real AS b, ((id - 50) * 6.4e36)::real AS c FROM generate_series(0, 100) id', '{a,b,c}', '{2}', 'gap')$$, '22003', 'too large for the axes');
SELECT fails_with($$SELECT gkmeans_select_k('SELECT * FROM iris WHERE false', '{v}', '{2}')$$, '22023', 'no rows');
SELECT fails_with($$SELECT gkmeans_select_k(NULL)$$, '22004', 'no source');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}', init => 'given')$$, '22023', 'initial centroids that cannot be given');

-- A model whose k is chosen: the fit of that k, bit for bit, wherever it is among the candidates
SELECT is(fingerprint(format('SELECT * FROM gkmeans_create_model(%L, ''iris'', ''{v}'', n_init => 4, k_candidates => %L, criterion => ''calinski_harabasz'')', 'chosen' || i, c)), fingerprint('SELECT * FROM gkmeans_fit(''iris'', ''{v}'', 3, n_init => 4)'), 'candidates ' || c)
	FROM unnest('{"{2,3,4,5}","{2,3}","{3,4}"}'::text[]) WITH ORDINALITY u(c, i);
SELECT is(row(k, dimension, inertia, iterations, score_quantiles, sizes)::text, (SELECT row(k, dimension, inertia, iterations, score_quantiles, sizes)::text FROM i3), 'the whole row') FROM chosen1;
SELECT is((SELECT array_agg(cluster_id ORDER BY id) FROM gkmeans_predict_rows(NULL::int, 'chosen1', 'iris', 'id')), (SELECT array_agg(cluster_id ORDER BY id) FROM gkmeans_fit_predict(NULL::int, 'iris', '{v}', 3, 'id', n_init => 4)), 'its predictions');
SELECT count(*) FROM gkmeans_create_model('with_labels', 'iris', '{v}', id_column => 'id', n_init => 4, k_candidates => '{2,3,4,5}', criterion => 'calinski_harabasz', labels_table => 'labels');
SELECT is(fingerprint('SELECT * FROM labels ORDER BY id'), fingerprint('SELECT * FROM gkmeans_fit_predict(NULL::int, ''iris'', ''{v}'', 3, ''id'', n_init => 4) ORDER BY id'), 'labels and distances of the chosen one');
CREATE TABLE spread AS SELECT i AS id, i % 4 AS x, i % 3 AS y FROM generate_series(1, 36) i;
SET LOCAL client_min_messages = error;
SELECT count(*) FROM gkmeans_create_model('few', 'spread', '{x,y}', id_column => 'id', k_candidates => '{12,30}', criterion => 'davies_bouldin', labels_table => 'few_labels');
SELECT is(fingerprint('SELECT * FROM few_labels ORDER BY id'), fingerprint('SELECT * FROM gkmeans_fit_predict(NULL::int, ''spread'', ''{x,y}'', 12, ''id'') ORDER BY id'), 'more candidates than rows that differ');
RESET client_min_messages;
SELECT is(jsonb_array_length(k_selection), 4, 'the table is kept') FROM chosen1;
SELECT is((SELECT array_agg(key ORDER BY key) FROM jsonb_object_keys(k_selection -> 0) key), '{bic,calinski_harabasz,chosen,davies_bouldin,elbow,explained,gap,gap_error,inertia,iterations,k,seconds,silhouette,simplified_silhouette}', 'its keys') FROM chosen1;
SELECT is((SELECT array_agg(row(t.k, t.inertia, t.explained, t.silhouette, t.simplified_silhouette, t.davies_bouldin, t.calinski_harabasz, t.bic, t.elbow, t.iterations, t.chosen)::text ORDER BY k) FROM jsonb_to_recordset(k_selection) AS t(k int, inertia float8, explained float8, silhouette float8, simplified_silhouette float8, davies_bouldin float8, calinski_harabasz float8, bic float8, elbow float8, iterations int, chosen bool)),
	(SELECT array_agg(row(t.k, t.inertia, t.explained, t.silhouette, t.simplified_silhouette, t.davies_bouldin, t.calinski_harabasz, t.bic, t.elbow, t.iterations, t.chosen)::text ORDER BY k) FROM gkmeans_select_k('iris', '{v}', '{2,3,4,5}', 'calinski_harabasz') t), 'its figures') FROM chosen1;
SELECT is(definition -> 'k_candidates', '[2, 3, 4, 5]', 'the definition has the candidates') FROM chosen1;
SELECT is(row(definition ->> 'criterion', definition ->> 'k')::text, format('(calinski_harabasz,%s)', k), 'the criterion, and what it chose') FROM chosen1;
SELECT is(row(definition ? 'criterion', k_selection IS NULL)::text, '(f,t)', 'neither without candidates') FROM i3;
SELECT is(after_fit('gkmeans_create_model(''last'', ''iris'', ''{v}'', n_init => 4, k_candidates => ''{3,4,5}'', criterion => ''calinski_harabasz'')', 'row(k, k_effective)'), '(3,3)', 'the last fit is the chosen one');
-- The silhouette is that of the same sample for a candidate and for a version, whatever seed the fit had
CREATE TABLE blurred AS SELECT i AS id, noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 10500) i;
SELECT count(*) FROM gkmeans_create_model('seeded', 'blurred', '{x,y}', seed => 5, quality => 'fast', k_candidates => '{3}');
SELECT is((SELECT array_agg(e.silhouette) FROM gkmeans_evaluate('seeded') e), ARRAY[silhouette], 'a version has the silhouette of gkmeans_evaluate') FROM seeded;
SELECT is((k_selection -> 0 ->> 'silhouette')::float8, silhouette, 'so has its candidate') FROM seeded;
SELECT is((SELECT silhouette FROM gkmeans_select_k('blurred', '{x,y}', '{3}', n_init => 1, seed => 5, quality => 'fast')), silhouette, 'and that of gkmeans_select_k') FROM seeded;
SELECT is((SELECT s.silhouette FROM gkmeans_select_k('blurred', '{x,y}', '{3}', n_init => 1, seed => 5, quality => 'fast', sample => 500) s), (SELECT e.silhouette FROM gkmeans_evaluate('seeded', sample => 500) e), 'of another sample, too');

SELECT count(*) FROM gkmeans_create_model('by_gap', 'uniform', '{x,y}', k_candidates => '{1,2,3}', criterion => 'gap');
SELECT is(row(k, k_selection -> 0 -> 'gap' IS NOT NULL)::text, '(1,t)', 'no clusters, by gap') FROM by_gap;
SELECT fails_with($$SELECT gkmeans_create_model('no', 'iris', '{v}', 3, k_candidates => '{2,3}')$$, '22023', 'k beside k_candidates');
SELECT fails_with($$SELECT gkmeans_create_model('no', 'ruspini', '{x,y}', initial_centroids => '{{1,2}}', k_candidates => '{2,3}')$$, '22023', 'initial centroids beside k_candidates');
SELECT fails_with($$SELECT gkmeans_create_model('no', 'iris', '{v}', k_candidates => '{1}')$$, '22023', 'none can be chosen', 'not defined for any');
SELECT fails_with($$SELECT gkmeans_create_model('no', 'iris', '{v}', k_candidates => '{2,3}', criterion => 'best')$$, '22023', 'another criterion');
SELECT hasnt_table('no', 'nothing was made');

-- The iterations that every model keeps
CREATE FUNCTION by_start(model text) RETURNS TABLE (start_no int, n bigint, last_iteration int, first_moved bigint, falls bool, ends float8) LANGUAGE sql AS $$
	SELECT start_no, count(moved), max(iteration) FILTER (WHERE moved IS NOT NULL), max(moved) FILTER (WHERE iteration = 1), bool_and(inertia <= coalesce(before, inertia) * (1 + 1e-12)), min(inertia)
	FROM (SELECT *, lag(inertia) OVER (PARTITION BY start_no ORDER BY iteration) AS before FROM gkmeans.iterations i WHERE i.model = 'gk_test.' || $1) i GROUP BY 1 $$;
SELECT count(*) FROM gkmeans_create_model('fast3', 'iris', '{v}', 3, n_init => 4, quality => 'fast');
SELECT is((SELECT array_agg(start_no ORDER BY start_no) FROM by_start('fast3')), '{1,2,3,4}', 'all starts');
SELECT ok(bool_and(n = last_iteration AND first_moved = 150 AND falls), 'every iteration; the inertia never rises') FROM by_start('fast3');
SELECT is((SELECT array_agg(last_iteration) FROM by_start('fast3') WHERE ends < (SELECT inertia FROM fast3) * (1 + 1e-12)) @> (SELECT ARRAY[iterations] FROM fast3), true, 'the best start ends with the inertia and iterations of the fit');
SELECT ok(bool_and((moved = 0) = (shift = 0)), 'nothing moves in the last iteration alone') FROM gkmeans.iterations WHERE model = 'gk_test.fast3';
CREATE FUNCTION ends_as_fit(model text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE known float8;
BEGIN
	EXECUTE format('SELECT inertia FROM %I', model) INTO known;
	RETURN near((SELECT min(ends) FROM by_start(model)), known, 1e-9, 'the best start ends with the inertia of the fit: ' || model)
		|| E'\n' || ok((SELECT bool_and(falls) FROM by_start(model)), 'the inertia never rises: ' || model);
END $$;
SELECT count(*) FROM gkmeans_create_model('weighted', 'SELECT *, 0.5 + id % 4 AS w FROM iris', '{v}', 5, weight_column => 'w', seed => 1);
SELECT count(*) FROM gkmeans_create_model('angular', 'iris', '{v}', 5, metric => 'cosine', seed => 3, tol => 0);
SELECT count(*) FROM gkmeans_create_model('far', 'SELECT x + 1e6 AS x, y - 1e6 AS y FROM uniform', '{x,y}', 20, tol => 0);
SELECT count(*) FROM gkmeans_create_model('good', 'uniform', '{x,y}', 20, n_init => 3, quality => 'good');
SELECT count(*) FROM gkmeans_create_model('relocated', 'ruspini', '{x,y}', initial_centroids => '{{10,10},{500,500},{600,600},{100,150}}', tol => 0);
SELECT ends_as_fit(model) FROM unnest('{fast3,i3,weighted,angular,far,good,relocated}'::text[]) model;
SELECT is(count(*), 1::bigint, 'the search is one row') FROM gkmeans.iterations WHERE model = 'gk_test.good' AND moved IS NULL AND shift IS NULL;
SELECT is(i.iteration > s.last_iteration, true, 'after the iterations of its start') FROM gkmeans.iterations i JOIN by_start('good') s USING (start_no) WHERE model = 'gk_test.good' AND moved IS NULL;
SELECT is(m.iterations, s.last_iteration, 'iterations of the best start, without its search') FROM good m JOIN by_start('good') s ON s.start_no = (m.report ->> 'best_start')::int;
CREATE TABLE line AS SELECT i / 300.0 + noise(i, 1) / 100 AS x FROM generate_series(1, 300) i;
SET LOCAL client_min_messages = error;
SELECT count(*) FROM gkmeans_create_model('long', 'line', '{x}', 20, init => 'random', n_init => 200, max_iter => 2000, tol => 0, quality => 'fast');
RESET client_min_messages;
SELECT ok(jsonb_array_length(history) BETWEEN 700 AND 1400, 'very many iterations: a part of them') FROM long;
SELECT is(count(*), 200::bigint, 'of each start') FROM by_start('long');
SELECT ends_as_fit('long');
SELECT is(count(*), count(DISTINCT iteration_key), 'their keys are unique') FROM gkmeans.iterations;
SELECT is(count(*), count(DISTINCT k_key), 'and those of the candidates') FROM gkmeans.k_selection;
SELECT is((SELECT array_agg(row(k, inertia, explained, silhouette, bic, gap, chosen)::text ORDER BY k) FROM gkmeans.k_selection WHERE version_key = 'gk_test.chosen1/1'), (SELECT array_agg(row(k, inertia, explained, silhouette, bic, gap, chosen)::text ORDER BY k) FROM gkmeans_select_k('iris', '{v}', '{2,3,4,5}', 'calinski_harabasz')), 'gkmeans.k_selection');
SELECT is(count(*), 0::bigint, 'nothing of models whose k was given') FROM gkmeans.k_selection WHERE model = 'gk_test.i3';

-- What others have written there is left out where it cannot be
UPDATE i3 SET history = '[{"start": 1, "iteration": 2, "inertia": 5, "shift": "wide", "moved": 1e99}, {"start": 1, "iteration": 2}, {"start": 1, "iteration": 1}, {"start": 1e400, "iteration": 1}, {"start": 1.5, "iteration": 3}, {"iteration": 9}, 7, null, [], {"start": 2, "iteration": 1, "moved": -1, "inertia": 1e400}]';
SELECT is(array_agg(row(start_no, iteration, inertia, shift, moved)::text ORDER BY start_no), '{"(1,2,5,,)","(2,1,,,)"}', 'odd iterations') FROM gkmeans.iterations WHERE model = 'gk_test.i3';
UPDATE i3 SET history = '{"start": 1, "iteration": 2}', k_selection = '[{"k": 3, "chosen": "yes", "inertia": []}, {"k": 2}]';
SELECT is(count(*), 0::bigint, 'no array') FROM gkmeans.iterations WHERE model = 'gk_test.i3';
SELECT is(array_agg(row(k, inertia, chosen)::text), '{"(3,,)"}', 'odd candidates') FROM gkmeans.k_selection WHERE model = 'gk_test.i3';
UPDATE i3 SET history = '"scalar"', k_selection = 'null';
SELECT is((SELECT count(*) FROM gkmeans.iterations WHERE model = 'gk_test.i3') + (SELECT count(*) FROM gkmeans.k_selection WHERE model = 'gk_test.i3'), 0::bigint, 'scalars');
UPDATE i3 SET history = jsonb_build_array(jsonb_build_object('start', 1, 'iteration', 1, 'x', repeat('x', 5000000))), k_selection = jsonb_build_array(jsonb_build_object('k', 3, 'x', repeat('x', 5000000)));
SELECT is((SELECT count(*) FROM gkmeans.iterations WHERE model = 'gk_test.i3') + (SELECT count(*) FROM gkmeans.k_selection WHERE model = 'gk_test.i3'), 0::bigint, 'much longer ones than gkmeans writes');

-- A reader without SELECT sees neither
CREATE ROLE bi;
GRANT USAGE ON SCHEMA gk_test TO bi;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
GRANT SELECT ON chosen1 TO bi;
SET LOCAL ROLE bi;
SELECT is((SELECT array_agg(DISTINCT model) FROM gkmeans.iterations), '{gk_test.chosen1}', 'iterations of the model that one may read');
SELECT is((SELECT array_agg(DISTINCT model) FROM gkmeans.k_selection), '{gk_test.chosen1}', 'candidates as well');
SELECT fails_with($$SELECT gkmeans_select_k('iris', '{v}', '{2}')$$, '42501', 'select_k reads as the caller', 'permission denied for table iris');
RESET ROLE;

SELECT nothing_left('nothing is left of these jobs');
-- A call inside a longer statement leaves no progress behind
CREATE FUNCTION left_after(query text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN (SELECT count(*) FROM gkmeans.progress WHERE pid = pg_backend_pid());
END $$;
SELECT is(left_after($$SELECT * FROM gkmeans_select_k('iris', '{v}', '{2,3}', quality => 'fast')$$), 0::bigint, 'gkmeans_select_k ends its progress');
SELECT is(left_after($$SELECT gkmeans_alter_model('i3', '{"seed": 5}')$$), 0::bigint, 'gkmeans_alter_model ends its progress');
SELECT * FROM finish();
ROLLBACK;
