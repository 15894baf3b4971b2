-- Figures of a clustering: gkmeans_evaluate, gkmeans_evaluate_labels, gkmeans_cluster_quality.
\ir helpers.psql
\set iris `cat data/iris.csv`
\set ruspini `cat data/ruspini.csv`
\set wine `cat data/wine.csv`

CREATE TABLE iris AS SELECT f[1]::int AS id, f[2:5]::float8[] AS v, f[6] AS species FROM csv_lines(:'iris') f;
CREATE TABLE ruspini AS SELECT f[1]::int AS id, f[2]::float8 AS x, f[3]::float8 AS y FROM csv_lines(:'ruspini') f;
CREATE TABLE wine AS SELECT f[1]::int AS id, f[2:14]::float8[] AS v FROM csv_lines(:'wine') f;

-- What scikit-learn gives
CREATE FUNCTION figures(e record, inertia float8, silhouette float8, simplified float8, davies_bouldin float8, calinski_harabasz float8, explained float8, name text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT near(e.inertia, inertia, 1e-6, name || ': inertia');
	RETURN NEXT near(e.silhouette, silhouette, 1e-6, name || ': silhouette');
	RETURN NEXT near(e.simplified_silhouette, simplified, 1e-6, name || ': simplified silhouette');
	RETURN NEXT near(e.davies_bouldin, davies_bouldin, 1e-6, name || ': Davies-Bouldin');
	RETURN NEXT near(e.calinski_harabasz, calinski_harabasz, 1e-6, name || ': Calinski-Harabasz');
	IF explained IS NOT NULL THEN
		RETURN NEXT near(e.explained, explained, 1e-6, name || ': explained');
	END IF;
END $$;
SELECT gkmeans_create_model('i3', 'iris', '{v}', 3, n_init => 16);
SELECT gkmeans_create_model('r4', 'ruspini', '{x,y}', 4, n_init => 16);
SELECT gkmeans_create_model('w3', 'wine', '{v}', 3, n_init => 16, scale => 'standard');
SELECT gkmeans_create_model('i2', 'iris', '{v}', 2, n_init => 16);
SELECT gkmeans_create_model('i4', 'iris', '{v}', 4, n_init => 16);
SELECT figures(e, 78.8514414, 0.5528190124, 0.6663855565, 0.6619715465, 561.62775663, 0.8842752513, 'iris, k = 3') FROM gkmeans_evaluate('i3', 'iris') e;
SELECT figures(e, 12881.0512361, 0.7376569909, 0.8157677279, 0.3569642132, 425.32734309, 0.9472895715, 'ruspini, k = 4') FROM gkmeans_evaluate('r4', 'ruspini') e;
SELECT figures(e, 1277.9284888, 0.2848589192, 0.4163051126, 1.3891879777, 70.94000800, 0.4477404975, 'wine, k = 3') FROM gkmeans_evaluate('w3', 'wine') e;
SELECT near(e.silhouette, 0.681046, 1e-5, 'iris, k = 2: silhouette') FROM gkmeans_evaluate('i2', 'iris') e;
SELECT near(e.davies_bouldin, 0.404293, 1e-5, 'iris, k = 2: Davies-Bouldin') FROM gkmeans_evaluate('i2', 'iris') e;
SELECT near(e.simplified_silhouette, 0.769704, 1e-5, 'iris, k = 2: simplified silhouette') FROM gkmeans_evaluate('i2', 'iris') e;
SELECT near(e.calinski_harabasz, 513.9245, 1e-6, 'iris, k = 2: Calinski-Harabasz') FROM gkmeans_evaluate('i2', 'iris') e;
SELECT near(e.simplified_silhouette, 0.620738, 1e-5, 'iris, k = 4: simplified silhouette') FROM gkmeans_evaluate('i4', 'iris') e;
SELECT near(e.davies_bouldin, 0.780307, 1e-5, 'iris, k = 4: Davies-Bouldin') FROM gkmeans_evaluate('i4', 'iris') e;
SELECT near(e.silhouette, 0.498051, 1e-5, 'iris, k = 4: silhouette') FROM gkmeans_evaluate('i4', 'iris') e;
SELECT near(e.calinski_harabasz, 530.7658, 1e-5, 'iris, k = 4: Calinski-Harabasz') FROM gkmeans_evaluate('i4', 'iris') e;
SELECT is(row(version, rows, k, silhouette_rows)::text, '(1,150,3,150)', 'what was measured') FROM gkmeans_evaluate('i3', 'iris');
SELECT near(e.inertia, m.inertia, 1e-12, 'inertia of the model') FROM gkmeans_evaluate('i3', 'iris') e, i3 m;
SELECT near(e.total_ss, m.total_ss, 1e-12, 'total_ss of the model') FROM gkmeans_evaluate('i3', 'iris') e, i3 m;
SELECT near(e.mean_squared_distance, e.inertia / 150, 1e-12, 'mean_squared_distance') FROM gkmeans_evaluate('i3', 'iris') e;

-- The labels of the model, from a column
CREATE TABLE labelled AS SELECT v, 'cluster ' || gkmeans_predict('i3', v) AS label, species FROM iris;
SELECT figures(e, 78.8514414, 0.5528190124, 0.6663855565, 0.6619715465, 561.62775663, 0.8842752513, 'the same labels, from a column') FROM gkmeans_evaluate_labels('labelled', '{v}', 'label') e;
SELECT near(e.silhouette, 0.503477440693296, 1e-6, 'species: silhouette') FROM gkmeans_evaluate_labels('labelled', '{v}', 'species') e;
SELECT near(e.davies_bouldin, 0.7513707094756737, 1e-6, 'species: Davies-Bouldin') FROM gkmeans_evaluate_labels('labelled', '{v}', 'species') e;
SELECT near(e.calinski_harabasz, 487.33087637489984, 1e-6, 'species: Calinski-Harabasz') FROM gkmeans_evaluate_labels('labelled', '{v}', 'species') e;

-- Each cluster
SELECT near(sum(silhouette * rows) / 150, 0.5528190124, 1e-6, 'silhouettes of the clusters add up') FROM gkmeans_cluster_quality('i3', 'iris');
SELECT near(sum(simplified_silhouette * rows) / 150, 0.6663855565, 1e-6, 'the simplified ones as well') FROM gkmeans_cluster_quality('i3', 'iris');
SELECT is((SELECT array_agg(rows ORDER BY cluster_id) FROM gkmeans_cluster_quality('i3', 'iris')), (SELECT array_agg(size ORDER BY cluster_id) FROM gkmeans_clusters('i3')), 'their rows');
SELECT is((SELECT array_agg(nearest_cluster_id ORDER BY cluster_id) FROM gkmeans_cluster_quality('i3', 'iris')),
	(SELECT array_agg(nearest ORDER BY a) FROM (SELECT DISTINCT ON (a.cluster_id) a.cluster_id AS a, b.cluster_id AS nearest FROM gkmeans_clusters('i3') a JOIN gkmeans_clusters('i3') b ON a.cluster_id <> b.cluster_id
		ORDER BY a.cluster_id, (SELECT sum((x - y) ^ 2) FROM unnest(a.centroid, b.centroid) u(x, y))) n), 'their nearest neighbours');

-- Labels by direction: the centroids are unit vectors, as those of a model
SELECT gkmeans_create_model('directions', 'iris', '{v}', 3, metric => 'cosine', tol => 0);
SELECT near(l.value::text::float8, m.value::text::float8, 1e-9, 'by direction, labels from elsewhere as those of a model: ' || key)
FROM gkmeans_evaluate('directions', 'iris') e, gkmeans_evaluate_labels($$SELECT v, gkmeans_predict('directions', i) AS l FROM iris i$$, '{v}', 'l', metric => 'cosine') f,
	LATERAL jsonb_each(to_jsonb(e)) m JOIN LATERAL jsonb_each(to_jsonb(f)) l USING (key) ORDER BY key;
SELECT near(calinski_harabasz, expected, 1e-6, format('labels whose rows have nearly one direction, %s apart', apart)) FROM (VALUES (2e-7, 266126511620294.75), (1e-3, 19040087.4312053)) v(apart, expected),
	LATERAL gkmeans_evaluate_labels(format('SELECT 1 AS x, (1 + i %% 2 * %s) * CASE WHEN i %% 4 < 2 THEN 1 ELSE 2 END AS y, i %% 4 / 2 AS l FROM generate_series(1, 40) i', apart), '{x,y}', 'l', metric => 'cosine');

-- Not defined
SET LOCAL client_min_messages = error;
SELECT gkmeans_create_model('one', 'iris', '{v}', 1);
SELECT is(row(silhouette, simplified_silhouette, davies_bouldin, calinski_harabasz)::text, '(,,,)', 'one cluster: the indices are NULL') FROM gkmeans_evaluate('one', 'iris');
SELECT is(row(silhouette, simplified_silhouette, davies_bouldin, calinski_harabasz)::text, '(,,,)', 'as many clusters as rows') FROM gkmeans_evaluate_labels('SELECT id, v FROM iris WHERE id <= 5', '{v}', 'id');
SELECT is(row(k, silhouette_rows)::text, '(5,5)', 'which are counted') FROM gkmeans_evaluate_labels('SELECT id, v FROM iris WHERE id <= 5', '{v}', 'id');
SELECT is(row(rows, k, silhouette, calinski_harabasz)::text, '(6,2,1,1)', 'rows equal to their centroids') FROM gkmeans_evaluate_labels('SELECT i % 2 AS l, i % 2 * 10 AS x FROM generate_series(1, 6) i', '{x}', 'l');
SELECT is(rows, 100::bigint, 'rows without a label do not count') FROM gkmeans_evaluate_labels($$SELECT v, nullif(species, 'setosa') AS l FROM iris$$, '{v}', 'l');
SELECT is(rows, 149::bigint, 'nor those that cannot be compared') FROM gkmeans_evaluate_labels($$SELECT CASE WHEN id > 1 THEN v END AS v, species FROM iris$$, '{v}', 'species');
SELECT is(silhouette < 1 AND silhouette > 0.6, true, 'a cluster of one row counts 0') FROM gkmeans_evaluate_labels($$VALUES (0, 'a'), (0, 'a'), (10, 'b')$$, '{column1}', 'column2');

-- Samples: the same whatever the order of the rows, near the whole
CREATE TABLE many AS SELECT i AS id, (i % 3) * 2 + noise(i, 1) AS x, noise(i, 2) AS y FROM generate_series(1, 6000) i;
SELECT gkmeans_create_model('many3', 'many', '{x,y}', 3);
CREATE TABLE whole AS SELECT * FROM gkmeans_evaluate('many3', 'many');
SELECT is(silhouette_rows, 6000::bigint, 'a sample as large as the rows is all of them') FROM whole;
CREATE TABLE sampled AS SELECT * FROM gkmeans_evaluate('many3', 'many', sample => 500);
SELECT is(silhouette_rows, 500::bigint, 'a sample') FROM sampled;
SELECT near(s.silhouette, w.silhouette, 0.03, 'near the silhouette of all') FROM sampled s, whole w;
SELECT is((SELECT row(e.*)::text FROM gkmeans_evaluate('many3', 'SELECT * FROM many ORDER BY y', sample => 500) e), (SELECT row(s.*)::text FROM sampled s), 'rows in another order: the same bits');
SELECT isnt((SELECT e.silhouette FROM gkmeans_evaluate('many3', 'many', sample => 500, seed => 1) e), (SELECT s.silhouette FROM sampled s), 'another seed');
SELECT is((SELECT e.inertia FROM gkmeans_evaluate('many3', 'many', sample => 500, seed => 1) e), (SELECT s.inertia FROM whole s), 'only the silhouette is of the sample');

-- By the definition, in SQL
CREATE FUNCTION by_hand(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE result float8;
BEGIN
	EXECUTE format($q$ WITH p AS MATERIALIZED (%s), d AS (SELECT a.id, a.l, b.l AS other, sum(sqrt((a.x - b.x) ^ 2 + (a.y - b.y) ^ 2)) AS total, count(*) AS n FROM p a, p b GROUP BY 1, 2, 3),
		s AS (SELECT id, max(CASE WHEN l = other THEN total / nullif(n - 1, 0) END) AS a, min(CASE WHEN l <> other THEN total / n END) AS b FROM d GROUP BY 1)
		SELECT avg(CASE WHEN a IS NULL THEN 0 ELSE (b - a) / greatest(a, b) END) FROM s $q$, query) INTO result;
	RETURN result;
END $$;
SELECT near(e.silhouette, by_hand(query), 1e-6, 'silhouette by hand: ' || query) FROM unnest(ARRAY['SELECT id, x, y, id % 3 AS l FROM many WHERE id <= 200', 'SELECT id, x, y, CASE WHEN id = 7 THEN 9 ELSE id % 4 END AS l FROM many WHERE id <= 150',
	'SELECT id, round(x)::real AS x, round(y)::real AS y, id % 2 AS l FROM many WHERE id <= 100']) query, LATERAL gkmeans_evaluate_labels(query, '{x,y}', 'l') e;

-- Errors
SELECT fails_with($$SELECT gkmeans_evaluate('i3', 'SELECT * FROM iris WHERE false')$$, '22023', 'no rows', 'no usable row', 'returned no rows');

-- Without a source, that of the definition, for the owner
SELECT is((SELECT row(e.*)::text FROM gkmeans_evaluate('i3') e), (SELECT row(e.*)::text FROM gkmeans_evaluate('i3', 'iris') e), 'the source of the definition');
SELECT is((SELECT array_agg(q::text) FROM gkmeans_cluster_quality('i3') q), (SELECT array_agg(q::text) FROM gkmeans_cluster_quality('i3', 'iris') q), 'and of each cluster');
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.iris AS SELECT * FROM iris WHERE id <= 100;
SET LOCAL search_path = elsewhere, gk_test, public;
SELECT is(rows, 150::bigint, 'it is looked up as the definition says') FROM gkmeans_evaluate('i3');
SELECT is(rows, 100::bigint, 'what is given as the caller does') FROM gkmeans_evaluate('i3', 'iris');
SELECT is(current_setting('search_path'), 'elsewhere, gk_test, public', 'whose search_path stays');
SET LOCAL search_path = gk_test, public;
SELECT gkmeans_import_model('sourceless', '{{1},{2}}', '{x}');
SELECT fails_with($$SELECT gkmeans_evaluate('sourceless')$$, '55000', 'a model without a source', 'has no source', NULL, 'Give one');
CREATE ROLE gk_reader;
GRANT USAGE ON SCHEMA gk_test TO gk_reader;
GRANT SELECT ON iris, i3 TO gk_reader;
SET LOCAL ROLE gk_reader;
SELECT fails_with(call, '42501', 'who does not own the model: ' || call, 'definition of model "i3"', 'text of the model''s owner', 'Give a source') FROM unnest(ARRAY['SELECT gkmeans_evaluate(''i3'')', 'SELECT gkmeans_cluster_quality(''i3'')']) call;
SELECT is(rows, 150::bigint, 'gives a source') FROM gkmeans_evaluate('i3', 'iris');
RESET ROLE;

-- Other errors
SELECT fails_with($$SELECT gkmeans_evaluate('i3', 'iris', sample => 0)$$, '22023', 'no sample');
SELECT fails_with($$SELECT gkmeans_evaluate('i3', 'ruspini')$$, '42703', 'another source');
SELECT fails_with($$SELECT gkmeans_evaluate('iris', 'iris')$$, '42809', 'no model');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('iris', '{v}', 'no_column')$$, '42703', 'no such label column', NULL, 'named by the argument label_column');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('iris', '{v}', 'species', metric => 'manhattan')$$, '22023', 'another metric');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('iris', '{v}', 'species', scale => 'log')$$, '22023', 'another scaling');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('SELECT v, NULL::text AS l FROM iris', '{v}', 'l')$$, '22023', 'no labels', 'no row with a label', 'Column "l" is NULL');
SELECT fails_with($$SELECT gkmeans_evaluate_labels('SELECT NULL::real AS x, 1 AS l', '{x}', 'l')$$, '22023', 'no usable rows', 'no usable row', 'column "x" is NULL in it');

-- Beside a row that is far away, what is small is not rounded away
CREATE TABLE outlier AS SELECT i % 20 / 20.0 AS x, i * 7 % 20 / 20.0 AS y, i % 2 AS label FROM generate_series(1, 60) i UNION ALL SELECT 1e9, 1e9, 2;
SELECT gkmeans_create_model('with_outlier', 'outlier', '{x,y}', 3, n_init => 4);
SELECT near(e.inertia, m.inertia, 1e-6, 'the inertia of the fit') FROM gkmeans_evaluate('with_outlier', 'outlier') e, with_outlier m;
SELECT near(e.calinski_harabasz, m.between_ss / 2 / (m.inertia / 58), 1e-6, 'Calinski-Harabasz') FROM gkmeans_evaluate('with_outlier', 'outlier') e, with_outlier m;

CREATE FUNCTION beside(far float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	near record;
	beside record;
BEGIN
	SELECT * INTO near FROM gkmeans_evaluate_labels('SELECT * FROM outlier WHERE x < 2', '{x,y}', 'label');
	SELECT * INTO beside FROM gkmeans_evaluate_labels(format('SELECT * FROM outlier WHERE x < 2 UNION ALL SELECT %s, %s, 2', far, far), '{x,y}', 'label');
	RETURN NEXT near(beside.inertia, near.inertia, 1e-6, 'inertia beside a row at ' || far);
	RETURN NEXT near(beside.calinski_harabasz, beside.between_ss / 2 / (near.inertia / 58), 1e-6, 'Calinski-Harabasz beside it');
	RETURN NEXT near(beside.davies_bouldin, near.davies_bouldin * 2 / 3, 1e-6, 'Davies-Bouldin beside it');
END $$;
SELECT beside(far) FROM unnest(ARRAY[1e9, 1e17, 1e25, 1e37]) far;

-- Neither the order of the rows nor the numbers that labels get shows
CREATE TABLE in_order AS SELECT i AS id, noise(i, 5) * 10 ^ (i % 7) AS x, noise(i, 6) AS y, i % 40 AS label FROM generate_series(1, 4000) i;
SELECT is((SELECT row(e.*)::text FROM gkmeans_evaluate_labels('SELECT * FROM in_order ORDER BY y', '{x,y}', 'label', sample => 700) e),
	(SELECT row(e.*)::text FROM gkmeans_evaluate_labels('SELECT * FROM in_order ORDER BY x', '{x,y}', 'label', sample => 700) e), 'labels from a column, rows in another order: the same bits');
SELECT is((SELECT row(e.*)::text FROM gkmeans_evaluate_labels('SELECT id % 3 AS x, id % 40 AS label FROM in_order ORDER BY id', '{x}', 'label', sample => 500) e),
	(SELECT row(e.*)::text FROM gkmeans_evaluate_labels('SELECT id % 3 AS x, id % 40 AS label FROM in_order ORDER BY -id', '{x}', 'label', sample => 500) e), 'equal rows with different labels, some of them drawn: the same bits');

-- Some clusters of a model have no rows in the source
SELECT is((SELECT array_agg(row(rows, silhouette IS NULL, nearest_cluster_id IS NULL)::text ORDER BY cluster_id) FROM gkmeans_cluster_quality('i3', 'SELECT v FROM iris WHERE gkmeans_predict(''i3'', v) <> 1')),
	ARRAY['(62,f,f)', '(0,t,f)', '(38,f,f)'], 'clusters without rows');
SELECT near(e.silhouette, l.silhouette, 1e-12, 'silhouette without them') FROM gkmeans_evaluate('i3', 'SELECT v FROM iris WHERE gkmeans_predict(''i3'', v) <> 1') e,
	gkmeans_evaluate_labels('SELECT v, label FROM labelled WHERE label <> ''cluster 1''', '{v}', 'label') l;

SET LOCAL extra_float_digits = -5;
SELECT is((SELECT k FROM gkmeans_evaluate_labels('SELECT i AS x, oid::regproc AS label FROM pg_proc, generate_series(1, 2) i WHERE proname = ''abs''', '{x}', 'label')), (SELECT count(*)::int FROM pg_proc WHERE proname = 'abs'), 'functions of one name are different labels');
SELECT is((SELECT k FROM gkmeans_evaluate_labels('SELECT i AS x, 1 + i % 2 * 1e-12::float8 AS label FROM generate_series(1, 100) i', '{x}', 'label')), 2, 'numbers that are displayed alike are different labels');
RESET extra_float_digits;

-- Rows that are all equal, and far from zero
CREATE TABLE equal AS SELECT 999986991104::real * 1000 AS a, i % 3 AS label FROM generate_series(1, 29) i;
SELECT is(row(total_ss, between_ss, inertia, explained)::text, '(0,0,0,)', 'equal rows are in one place') FROM gkmeans_evaluate_labels('equal', '{a}', 'label');

-- Labels of equal means are left out, whatever the least value of each and how many rows it has.
SELECT cmp_ok(davies_bouldin, '<', 0.3::float8, format('means of %s and of 5/3', means)) FROM unnest(ARRAY['{0,2,3}', '{1,1,3}', '{0,1,1,3,3,2}', '{1,2,2,1,2,2,1,2,2,1,2,2,1,2,2}']) AS means,
	gkmeans_evaluate_labels(format('SELECT x, ''a'' AS l FROM unnest(%L::float8[]) x UNION ALL SELECT x, ''b'' FROM unnest(ARRAY[2.0, 1, 2]) x UNION ALL SELECT x, ''c'' FROM unnest(ARRAY[9.0, 10]) x', means), '{x}', 'l');
SELECT is(row(davies_bouldin, between_ss)::text, '(0,0)', 'values beside far smaller ones') FROM gkmeans_evaluate_labels('SELECT l, x FROM (VALUES (1, ARRAY[1, -1, 1e-9, -1e-9]), (2, ARRAY[4, -4, 0])) AS v(l, v), unnest(v) x', '{x}', 'l');

-- The names of labels do not decide about the last bits.
CREATE TABLE named AS SELECT i, ARRAY[sin(i), cos(i * i), sin(2 * i) / 3] AS v, i % 7 AS l FROM generate_series(1, 200) i;
SELECT is(count(DISTINCT row(e.*)::text), 1::bigint, 'labels by other names: the same bits') FROM generate_series(1, 20) n,
	gkmeans_evaluate_labels(format('SELECT v, md5(l::text || %s) AS m FROM named', n), '{v}', 'm') e;

-- Labels of equal rows, beside values that are far greater.
CREATE TABLE copied AS SELECT a, b, l FROM (VALUES (1788.6284::real, 43.650986::real, 1), (9.649747e-06, -1.8634927, 2), (-277.3882, -3547.5898, 3)) v(a, b, l), generate_series(1, 3);
SELECT is(row(e.inertia, e.davies_bouldin, e.calinski_harabasz)::text, '(0,0,1)', 'figures of labels of equal rows') FROM gkmeans_evaluate_labels('copied', '{a,b}', 'l') e;

-- What many labels take counts.
CREATE TABLE numbered AS SELECT i AS l, array_fill(i::real, ARRAY[64]) AS v FROM generate_series(1, 10000) i;
SET LOCAL gkmeans.host_memory_limit = '14MB';
SELECT is(k, 10, 'few labels') FROM gkmeans_evaluate_labels('SELECT l % 10 AS l, v FROM numbered', '{v}', 'l', sample => 10);
SELECT fails_with($$SELECT * FROM gkmeans_evaluate_labels('numbered', '{v}', 'l', sample => 10)$$, '53200', 'many labels: refused',
	'gkmeans: out of host memory', '30720000 bytes are needed, 1[0-9]{7} bytes are allowed.', 'The setting "gkmeans.host_memory_limit" limits this memory.');
RESET gkmeans.host_memory_limit;
SET LOCAL gkmeans.total_host_memory_limit = '14MB';
SELECT fails_with($$SELECT * FROM gkmeans_evaluate_labels('numbered', '{v}', 'l', sample => 10)$$, '53200', 'many labels: refused for all sessions together',
	'gkmeans: the fits of all sessions together are out of host memory', '30720000 bytes more are needed, [1-9][0-9]+ bytes are held, 14680064 bytes are allowed.');
RESET gkmeans.total_host_memory_limit;
SELECT is((SELECT host_bytes FROM gkmeans_sessions() WHERE pid = pg_backend_pid()), NULL, 'nothing of it is left drawn');

SELECT nothing_left('nothing is left of these jobs');
SELECT * FROM finish();
ROLLBACK;
