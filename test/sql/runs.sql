-- Refits: numbers and names that stay, deployment, labels, privileges.
\ir helpers.psql

-- Three kinds of rows, whose numbers per kind are given; noise() spreads them.
CREATE TABLE kinds (id int PRIMARY KEY, kind int, x float8, y float8);
CREATE FUNCTION fill(a int, b int, c int, seed int DEFAULT 0) RETURNS void LANGUAGE sql AS $$
	TRUNCATE kinds;
	INSERT INTO kinds SELECT row_number() OVER (), k, 10 * k + noise(i, 1 + seed), (k % 2) * 10 + noise(i, 2 + seed)
	FROM unnest(ARRAY[a, b, c]) WITH ORDINALITY AS s(n, k), generate_series(1, n) i;
$$;
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('m', 'kinds', '{x,y}', 3, id_column => 'id', labels_table => 'kind_labels', seed => 3);
SELECT gkmeans_name_clusters('m', '{one,two,three}');
CREATE FUNCTION deployed() RETURNS int LANGUAGE sql AS $$ SELECT version FROM m WHERE deployed $$;
CREATE FUNCTION names_of_kinds() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(DISTINCT kind || ' ' || gkmeans_predict('m', k) || ' ' || gkmeans_name('m', k), ', ' ORDER BY kind || ' ' || gkmeans_predict('m', k) || ' ' || gkmeans_name('m', k)) FROM kinds k
$$;
SELECT is(names_of_kinds(), '1 0 one, 2 1 two, 3 2 three', 'numbers by size, and names');

-- Nothing changed
SELECT is(row(r.*)::text, '(2,rejected,f,100,' || m.inertia || ',' || m.inertia || ',0,0,0,"as good as version 1, 0 rows moved, not deployed")', 'a refit of the same rows is not better')
FROM gkmeans_refit('m') r, m WHERE m.version = 1;
SELECT is(row(d.*)::text, '(0,one,50,0.5,50,0.5,0,' || d.avg_distance_then || ',' || d.avg_distance_then || ',1)', 'the fit''s own rows did not drift') FROM gkmeans_drift('m') d WHERE cluster_id = 0;
SELECT ok(bool_and(shift = 0 AND deviation_ratio = 1 AND mean_now = mean_then AND unusable_now = 0), 'nor did their features') FROM gkmeans_feature_drift('m');
SELECT is(deployed(), 1, 'it is not deployed');
SELECT is(names, '{one,two,three}', 'it has the names') FROM m WHERE version = 2;

-- 30 refits of data whose sizes change their order
CREATE TEMP TABLE seen AS SELECT 0 AS number, ''::text AS names, 0 AS sizes, 0 AS same WHERE false;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		PERFORM gk_test.fill(20 + i * 37 % 61, 20 + i * 23 % 59, 20 + i * 11 % 53, i);
		PERFORM gkmeans_refit('m', deploy => 'always', starts => i % 4);
		INSERT INTO seen SELECT i, gk_test.names_of_kinds(),
			(SELECT string_agg(c, '' ORDER BY size DESC)::int FROM (SELECT (cluster_id + 1)::text AS c, size FROM gkmeans_clusters('m')) s),
			(SELECT count(*) FROM gk_test.kinds k JOIN gk_test.kind_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('m', k) AND l.distance = gkmeans_distance('m', k));
		ASSERT (SELECT same = (SELECT count(*) FROM gk_test.kinds) FROM seen WHERE number = i), 'a label is not what gkmeans_predict says';
	END LOOP;
END $$;
SELECT is((SELECT array_agg(DISTINCT names) FROM seen), '{"1 0 one, 2 1 two, 3 2 three"}', 'numbers and names stay through 30 refits');
SELECT is(count(DISTINCT sizes)::int, 6, 'while the sizes had every order') FROM seen;
SELECT is(deployed(), 32, 'each was deployed');
SELECT is(count(*)::int, 32, 'each is a version') FROM m;

-- The start from the deployed centroids alone is a fit from them
SELECT fill(60, 40, 20, 99);
CREATE TEMP TABLE before AS SELECT gkmeans_centroids('m') AS centroids;
SELECT gkmeans_refit('m', starts => 0);
SELECT is(fingerprint('SELECT cluster_id, centroid, size, weight, inertia, avg_distance, radius FROM gkmeans_clusters(''m'', 33)'),
	fingerprint('SELECT * FROM gkmeans_fit(''kinds'', ''{x,y}'', initial_centroids => (SELECT centroids FROM before))'), 'starts => 0 is a fit from the deployed centroids, bit for bit');

-- A fresh start wins: its clusters are matched with the old ones
SELECT fill(40, 40, 40);
SELECT gkmeans_create_model('m2', 'kinds', '{x,y}', initial_centroids => '{{30,10},{30.4,10.5},{15,5}}');
SELECT gkmeans_name_clusters('m2', '{right,also right,left}');
SELECT is(row(status, deployed, improvement > 0.5, psi < 1e-12)::text, '(fitted,t,t,t)', 'a bad optimum is left') FROM gkmeans_refit('m2', starts => 10);
SELECT is(gkmeans_name('m2', 10.5, 10.5), 'left', 'the cluster that was at the left is');
SELECT is(gkmeans_predict('m2', 10.5, 10.5), 2, 'with its number');
SELECT is((SELECT array_agg(name ORDER BY cluster_id) FROM gkmeans_clusters('m2')), '{right,also right,left}', 'all names are there');

-- A version that is hardly better
CREATE TABLE hardly AS SELECT (i % 10 + i / 50 * 100)::float8 AS x FROM generate_series(0, 99) i;
SELECT gkmeans_create_model('hm', 'hardly', '{x}', 2);
UPDATE hardly SET x = x + 0.01;
SELECT is(row(status, outcome)::text, '(fitted,"less than 0.1 % better than version 1, 0 rows moved")', 'its outcome') FROM gkmeans_refit('hm');

-- deploy, min_improvement
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('d', 'kinds', '{x,y}', 3);
UPDATE kinds SET x = x + 0.5;
SELECT is(row(status, deployed)::text, '(fitted,f)', 'deploy => never') FROM gkmeans_refit('d', deploy => 'never');
SELECT is(row(status, deployed, outcome ~ '^[1-9].* % better than version 1, 0 rows moved, not deployed$')::text, '(rejected,f,t)', 'less than min_improvement') FROM gkmeans_refit('d', min_improvement => 0.9);
SELECT is(row(status, deployed, version)::text, '(fitted,t,4)', 'enough') FROM gkmeans_refit('d', min_improvement => 0.1, note => 'the fourth');
SELECT is(row(status, deployed, deployed_by, started_by, note, moved)::text, format('(fitted,t,%s,%s,"the fourth",0)', session_user, session_user), 'its row') FROM d WHERE version = 4;
SELECT is(row(status, deployed, outcome)::text, '(fitted,t,"as good as version 4, 0 rows moved")', 'deploy => always') FROM gkmeans_refit('d', deploy => 'always');
SELECT is(gkmeans_rollback('d'), 4, 'rollback knows the one before');
SELECT gkmeans_refit('d', keep => 2);
SELECT is(array_agg(version ORDER BY version), '{1,4,5,6}', 'keep => 2 keeps two, the deployed one and that before it') FROM d;
UPDATE d SET deployed_at = clock_timestamp() + interval '1 hour' WHERE version = 1;
SELECT version FROM gkmeans_refit('d', deploy => 'always');
SELECT is((SELECT version FROM d WHERE deployed_at IS NOT NULL ORDER BY deployed_at DESC LIMIT 1), 7, 'after the clock went back, a refit is the last deployment all the same');

-- Labels of a version that is not deployed stay those of the one that is
SELECT fill(50, 30, 20, 1);
SELECT gkmeans_refit('m', deploy => 'always');
SELECT fill(20, 30, 50, 2);
SELECT is(row(status, deployed)::text, '(rejected,f)', 'a refit that is rejected') FROM gkmeans_refit('m', min_improvement => 1);
SELECT is((SELECT count(*)::int FROM kinds k JOIN kind_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('m', k) AND l.distance = gkmeans_distance('m', k)), 100, 'the labels are those of the deployed version, bit for bit');
SELECT count(*) FROM gkmeans_fit('kinds', '{x,y}', 7);
SELECT is(row(status, deployed, rows, moved, inertia)::text, '(checked,f,100,,)', 'only_if_drift') FROM gkmeans_refit('m', only_if_drift => 10);
SELECT is(row(k, k_effective)::text, '(7,7)', 'the last fit is the one before, since nothing was fitted') FROM gkmeans_last_fit();
SELECT is(row(status, psi IS NOT NULL, k, centroids IS NULL, drift ? 'clusters', outcome ~ '^psi 0\.\d+, below 10$')::text, '(checked,t,,t,t,t)', 'its row') FROM m, LATERAL (SELECT (drift ->> 'psi')::float8 AS psi) p WHERE version = (SELECT max(version) FROM m);
SELECT ok(below[1]::float8 < below[2]::float8, format('a drift just below the limit is shown below it: %s', outcome)) FROM
	(SELECT r.outcome, regexp_match(r.outcome, '^psi (.*), below (.*)$') AS below FROM gkmeans_refit('m', only_if_drift =>
		(SELECT (drift ->> 'psi')::float8 * (1 + 1e-9) FROM m ORDER BY version DESC LIMIT 1)) r) o;
DELETE FROM kind_labels WHERE id <= 10;
SELECT gkmeans_refit('m', only_if_drift => 10);
SELECT is(count(*)::int, 100, 'a check writes the labels as well') FROM kind_labels;
SELECT is(row(status)::text, '(fitted)', 'enough drift') FROM gkmeans_refit('m', only_if_drift => 0.1);

-- Changes of the labels, and more columns of them
CREATE TEMP TABLE labels_before AS SELECT id, cluster_id FROM kind_labels;
UPDATE kinds SET x = 30.5, y = 10.5 WHERE id <= 5;
DELETE FROM kinds WHERE id = 6;
INSERT INTO kinds VALUES (1001, 2, 20.5, 0.5);
ALTER TABLE kind_labels ADD name text, ADD version int, ADD anomaly_percentile float8, ADD second_cluster_id int;
SELECT gkmeans_refit('m', deploy => 'always', changes_table => 'kind_changes');
SELECT results_eq($$SELECT id, from_cluster_id, to_cluster_id FROM kind_changes ORDER BY id$$,
	$$SELECT id, b.cluster_id, l.cluster_id FROM labels_before b FULL JOIN kind_labels l USING (id) WHERE b.cluster_id IS DISTINCT FROM l.cluster_id ORDER BY id$$, 'changes_table');
SELECT is((SELECT array_agg(DISTINCT version) FROM kind_changes), (SELECT array_agg(version) FROM m WHERE deployed), 'with the version');
SELECT is((SELECT count(*)::int FROM kinds k JOIN kind_labels l USING (id), LATERAL gkmeans_score('m', k) s WHERE row(s.cluster_id, s.name, s.anomaly_percentile, s.second_cluster_id, deployed()) = row(l.cluster_id, l.name, l.anomaly_percentile, l.second_cluster_id, l.version)), 100, 'names and scores in the labels table');
UPDATE kinds SET x = x + 1;
SELECT gkmeans_refit('m', deploy => 'never');
SELECT is((SELECT count(*)::int FROM kinds k JOIN kind_labels l USING (id), LATERAL gkmeans_score('m', k) s WHERE row(s.cluster_id, s.name, s.anomaly_percentile, s.second_cluster_id, deployed()) = row(l.cluster_id, l.name, l.anomaly_percentile, l.second_cluster_id, l.version)), 100, 'those of the deployed version where the new one is not');

-- The changes are those of the labels table that the definition names, by merging
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('h', 'kinds', '{x,y}', 3, id_column => 'id', labels_table => 'h_labels', changes_table => 'h_changes');
SELECT gkmeans_refit('h', labels_table => 'h_others');
SELECT gkmeans_refit('h', labels_mode => 'delete');
SELECT is(row((SELECT count(*) FROM h_others), (SELECT count(*) FROM h_changes))::text, '(100,100)', 'a refit that labels another table, or deletes, writes none');
UPDATE kinds SET kind = kind % 3 + 1, x = (kind % 3 + 1) * 10 + 0.5, y = 0.5 WHERE id <= 10;
SELECT gkmeans_refit('h', labels_table => '"h_labels"', deploy => 'always');
SELECT is((SELECT count(*) > 0 AND count(*) = count(from_cluster_id) FROM h_changes WHERE version = 4), true, 'one that names that table does');
SELECT gkmeans_refit('h', labels_table => 'h_others', changes_table => 'other_changes');
SELECT is((SELECT count(*) > 0 FROM other_changes), true, 'as does one that names a table for them');
DROP TABLE h_labels;
CREATE TEMP TABLE changes_before AS SELECT count(*) FROM h_changes;
SELECT gkmeans_refit('h', labels_table => 'gk_test."h_labels"');
SELECT is((SELECT count(*) FROM h_changes) - count, 100::bigint, 'also where the table is gone') FROM changes_before;

-- Scales: kept, and found anew
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('s', 'kinds', '{x,y}', 3, scale => 'standard', id_column => 'id', labels_table => 's_labels');
UPDATE kinds SET x = x * 3 + kind;
SELECT gkmeans_refit('s');
SELECT is(b.scale_factor, a.scale_factor, 'the scale stays') FROM s a, s b WHERE a.version = 1 AND b.version = 2;
SELECT is(row(status, deployed, psi < 1e-9)::text, '(fitted,t,t)', 'rescale') FROM gkmeans_refit('s', rescale => true, deploy => 'always', min_improvement => -1);
SELECT is(read_twice, true, 'the report says that it has read the source twice') FROM gkmeans_last_fit();
SELECT is((SELECT report->>'read_twice' FROM s WHERE version = (SELECT max(version) FROM s)), 'true', 'as does that of the version');
SELECT isnt(b.scale_factor, a.scale_factor, 'finds it anew') FROM s a, s b WHERE a.version = 2 AND b.version = 3;
SELECT gkmeans_create_model('s_anew', 'kinds', '{x,y}', 3, scale => 'standard');
SELECT is(s.scale_factor, n.scale_factor, 'as a first fit') FROM s, s_anew n WHERE s.version = 3;
SELECT is((SELECT count(*)::int FROM kinds k JOIN s_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('s', k) AND l.distance = gkmeans_distance('s', k)), 100, 'labels after it');
SELECT near(inertia_before, (SELECT sum(inertia) FROM gkmeans_clusters('s', 3)), 1e-3, 'inertia_before is in the new scale') FROM gkmeans_refit('s', rescale => true, deploy => 'never');
SELECT is((SELECT count(*)::int FROM kinds k JOIN s_labels l USING (id) WHERE l.distance = gkmeans_distance('s', k)), 100, 'labels of the old version after one that is not deployed');

-- Directions in a scale that is found anew
SELECT gkmeans_create_model(scale || '_turned', 'SELECT id, x + 100 AS x, y * 50 + 5 AS y FROM kinds', '{x,y}', 3, metric => 'cosine', scale => scale) FROM unnest('{standard,minmax}'::text[]) scale;
SELECT gkmeans_name_clusters((scale || '_turned')::regclass, '{a,b,c}') FROM unnest('{standard,minmax}'::text[]) scale;
SELECT is(row(inertia_before = inertia, improvement, moved, outcome)::text, '(t,0,0,"as good as version 1, 0 rows moved")', scale || ': the same rows, the same directions')
	FROM unnest('{standard,minmax}'::text[]) scale, gkmeans_refit((scale || '_turned')::regclass, rescale => true, deploy => 'always');
SELECT is(names, '{a,b,c}', 'with their names') FROM standard_turned WHERE deployed;
SELECT gkmeans_create_model('auto_turned', 'SELECT id, ARRAY[x + 100, y * 50 + 5] AS v FROM kinds', '{v}', 3, metric => 'cosine', scale => 'auto');
SELECT is(outcome, 'as good as version 1, 0 rows moved', 'auto, which scales no array') FROM gkmeans_refit('auto_turned', rescale => true, deploy => 'always');
SELECT gkmeans_alter_model('minmax_turned', '{"scale": "standard"}');
SELECT is(row(deployed, inertia_before, moved, outcome)::text, '(t,,,"the definition differs from that of version 2")', 'in another scale they are others') FROM gkmeans_refit('minmax_turned');

-- Another definition
ALTER TABLE s ALTER definition SET DEFAULT '{"source": "gk_test.kinds", "features": ["x", "y"], "k": 2, "scale": "standard", "search_path": ""}';
SELECT is(row(status, deployed, inertia_before, improvement, moved, outcome)::text, '(fitted,t,,,,"the definition differs from that of version 3")', 'another k') FROM gkmeans_refit('s', only_if_drift => 100);
SELECT is(k, 2, 'has effect') FROM s WHERE deployed;
ALTER TABLE s ALTER definition SET DEFAULT '{"source": "SELECT x, y, x + y AS z FROM gk_test.kinds", "features": ["z", "x"], "k": 2, "n_init": 2, "metric": "cosine", "search_path": "public"}';
SELECT is(row(status, deployed, psi, moved)::text, '(fitted,t,,)', 'other features') FROM gkmeans_refit('s');
SELECT is(row(features, metric, scale_factor)::text, '("{z,x}",cosine,)', 'have effect') FROM s WHERE deployed;
SELECT is((SELECT status FROM gkmeans_refit('s')), 'rejected', 'and the next refit compares with it');

-- A model that found fewer clusters than it was asked for
CREATE TABLE scarce AS SELECT i AS id, (i % 3) * 10.0 AS x FROM generate_series(1, 30) i;
SELECT gkmeans_create_model('fewer', 'scarce', '{x}', 4);
SELECT gkmeans_name_clusters('fewer', ARRAY(SELECT 'at ' || centroid[1] FROM gkmeans_clusters('fewer') ORDER BY cluster_id));
CREATE TABLE named_so AS SELECT cluster_id, name, centroid FROM gkmeans_clusters('fewer');
INSERT INTO scarce SELECT i, 20 FROM generate_series(31, 50) i;
SELECT is(row(status, psi > 0.1, moved)::text, '(checked,t,)', 'the definition is the same: only if it drifted more') FROM gkmeans_refit('fewer', only_if_drift => 0.9);
SELECT is(row(status, improvement, moved)::text, '(rejected,0,0)', 'no better') FROM gkmeans_refit('fewer');
SELECT is(row(status, improvement, moved)::text, '(fitted,0,0)', 'nor from its own centroids, of which there are too few') FROM gkmeans_refit('fewer', starts => 0, deploy => 'always');
SELECT set_eq('SELECT cluster_id, name, centroid FROM gkmeans_clusters(''fewer'')', 'TABLE named_so', 'clusters keep their numbers and names');
INSERT INTO scarce SELECT i, 30 FROM generate_series(51, 55) i;
SELECT is(row(status, improvement)::text, '(fitted,1)', 'the missing cluster is found as soon as there is one') FROM gkmeans_refit('fewer', starts => 0);
SELECT is(k, 4, 'all are there') FROM fewer WHERE deployed;

-- The definition may leave out what was chosen
CREATE TABLE chosen AS SELECT i AS a, noise(i, 1) * 10 AS b FROM generate_series(1, 100) i;
SELECT gkmeans_create_model('auto', 'chosen', k => 2);
ALTER TABLE chosen ADD c float8 DEFAULT 1;
SELECT gkmeans_refit('auto', deploy => 'always');
SELECT is(features, '{a,b}', 'a new column does not change the model') FROM auto WHERE deployed;
UPDATE auto SET features = '{a,c}' WHERE deployed;
SELECT gkmeans_refit('auto', deploy => 'always');
SELECT is(row(features, definition -> 'features')::text, '("{a,b}","[""a"", ""b""]")', 'nor does who writes its rows: the owner''s definition has the features') FROM auto WHERE deployed;
UPDATE auto SET features = '{a,c}' WHERE deployed;
SELECT is(gkmeans_alter_model('auto', '{"features": null}') -> 'features', '["a", "b"]', 'nor if the owner sets the features to null');
UPDATE auto SET features = '{a,c}' WHERE deployed;
SELECT gkmeans_refit('auto', deploy => 'always');
SELECT is(features, '{a,b}', 'for good') FROM auto WHERE deployed;
SELECT gkmeans_import_model('numbered', '{{0,0},{100,10}}', source => 'SELECT a AS x1, b AS x2, c FROM chosen');
UPDATE numbered SET features = '{x1,c}';
SELECT gkmeans_refit('numbered', deploy => 'always');
SELECT is(features, '{x1,x2}', 'an imported model has them, too') FROM numbered WHERE deployed;
ALTER TABLE numbered ALTER definition SET DEFAULT '{"source": "chosen"}';
SELECT fails_with($$SELECT gkmeans_refit('numbered')$$, '55000', 'a definition without features', 'names no features', NULL, 'gkmeans_alter_model');
ALTER TABLE numbered ALTER definition SET DEFAULT '{}';
SELECT is(gkmeans_alter_model('numbered', '{"k": null}'), '{"features": ["x1", "x2"]}', 'gets them when it is altered');
SELECT gkmeans_import_model('imported', '{{0,0},{100,10}}', '{a,b}', source => 'chosen');
SELECT is(row(status, deployed, psi, inertia_before > inertia)::text, '(fitted,t,,t)', 'an imported model is refitted') FROM gkmeans_refit('imported', starts => 0);
SELECT ok((SELECT bool_and(rows_then IS NULL AND psi IS NULL AND rows_now > 0) FROM gkmeans_drift('imported', version => 1)), 'what it was fitted to is not known');
SELECT gkmeans_import_model('scaled', '{{0,0},{100,10}}', '{a,b}', scale_offset => '{50,5}', scale_factor => '{0.02,0.2}', source => 'chosen');
SELECT is((SELECT row(status, deployed)::text FROM gkmeans_refit('scaled', deploy => 'always')), '(fitted,t)', 'a scale that was imported');
SELECT is((SELECT row(scale_offset, scale_factor)::text FROM scaled WHERE deployed), '("{50,5}","{0.02,0.2}")', 'and is kept');
SELECT fails_with($$SELECT gkmeans_refit('scaled', rescale => true)$$, '55000', 'nobody knows how to find it anew', 'cannot be found anew', NULL, 'gkmeans_alter_model');
SELECT gkmeans_alter_model('scaled', '{"features": ["b"]}');
SELECT fails_with($$SELECT gkmeans_refit('scaled')$$, '55000', 'nor of other features', 'cannot be found anew');
SELECT gkmeans_alter_model('scaled', '{"features": ["a", "b"], "scale": "minmax"}');
SELECT is((SELECT row(status, deployed)::text FROM gkmeans_refit('scaled', deploy => 'always', rescale => true)), '(fitted,t)', 'unless the definition says so');
SELECT ok((SELECT scale_factor <> '{0.02,0.2}' FROM scaled WHERE deployed), 'then it is found anew');
SELECT gkmeans_alter_model('scaled', '{"scale": null}');
SELECT is((SELECT row(status, deployed)::text FROM gkmeans_refit('scaled', deploy => 'always', rescale => true)), '(fitted,t)', 'a scale can also be left out');
SELECT is((SELECT scale_factor FROM scaled WHERE deployed), NULL, 'then there is none');

-- Imported centroids in a new scale: as they are, also where the imported one has a factor of 0, or rounds them
CREATE TABLE flat AS SELECT (i % 2) * 10.0 AS x, (i % 4) * 100.0 AS y FROM generate_series(1, 120) i;
SELECT gkmeans_import_model('flat_scale', '{{0,0},{10,300}}', '{x,y}', scale_offset => '{0,50}', scale_factor => '{1,0}', source => 'flat');
SELECT gkmeans_alter_model('flat_scale', '{"scale": "minmax"}');
SELECT is((SELECT round(inertia_before::numeric, 5) FROM gkmeans_refit('flat_scale', deploy => 'never', starts => 0)), (SELECT round(sum(least((x / 10) ^ 2 + (y / 300) ^ 2, ((x - 10) / 10) ^ 2 + ((y - 300) / 300) ^ 2))::numeric, 5) FROM flat), 'a factor of 0');
CREATE TABLE high AS SELECT 4503599627370496 + (i % 8)::float8 AS x, (i % 3) * 2.0 AS y FROM generate_series(1, 120) i;
SELECT gkmeans_import_model('high_scale', '{{4503599627370497,2},{4503599627370502,2}}', '{x,y}', scale_offset => '{0,0}', scale_factor => '{0.37,1}', source => 'high');
SELECT gkmeans_alter_model('high_scale', '{"scale": "minmax"}');
SELECT is((SELECT round(inertia_before::numeric, 6) FROM gkmeans_refit('high_scale', deploy => 'never', starts => 0)), (SELECT round(sum(least(((x - 4503599627370497) / 7) ^ 2, ((x - 4503599627370502) / 7) ^ 2) + ((y - 2) / 4) ^ 2)::numeric, 6) FROM high), 'an offset of 0 far from it');

-- Drift as it is defined
CREATE TABLE shares AS SELECT (i % 10 >= 2)::int * 10 + (i % 10 >= 7)::int * 10 AS v FROM generate_series(0, 99) i;
SELECT gkmeans_create_model('sh', 'shares', '{v}', initial_centroids => '{{0},{10},{20}}');
SELECT near(sum(psi), 0.0875469, 1e-6, 'shares .2, .5, .3 → .1, .6, .3: psi') FROM gkmeans_drift('sh', 'SELECT (i % 10 >= 1)::int * 10 + (i % 10 >= 7)::int * 10 AS v FROM generate_series(0, 9) i');
SELECT is(array_agg(row(share_then, share_now)::text ORDER BY cluster_id), '{"(0.2,0.1)","(0.5,0.6)","(0.3,0.3)"}', 'the shares') FROM gkmeans_drift('sh', 'SELECT (i % 10 >= 1)::int * 10 + (i % 10 >= 7)::int * 10 AS v FROM generate_series(0, 9) i');
SELECT near(psi, (0.005 - 0.2) * ln(0.005 / 0.2), 1e-12, 'an empty cluster counts as half a row') FROM gkmeans_drift('sh', 'SELECT 10 AS v FROM generate_series(1, 100)') WHERE cluster_id = 0;
SELECT is(row(avg_distance_now, distance_ratio)::text, '(,)', 'and has no distance') FROM gkmeans_drift('sh', 'SELECT 10 AS v FROM generate_series(1, 100)') WHERE cluster_id = 0;
SELECT is(unusable_now, 0.25::float8, 'unusable rows') FROM gkmeans_feature_drift('sh', 'SELECT nullif(i, 4) AS v FROM generate_series(1, 4) i');
CREATE TABLE unusable AS SELECT CASE WHEN i <> 2 THEN ARRAY[x, 0] END AS v, x, 0 AS y, nullif(i % 4, 1) AS weight
FROM generate_series(1, 10) i, LATERAL (SELECT CASE WHEN i IN (5, 7) THEN 'NaN' WHEN i > 2 THEN i::float8 END AS x) f;
SELECT gkmeans_create_model('of_' || form, 'unusable', features, 2, weight_column => 'weight') FROM (VALUES ('array', '{v}'::text[]), ('columns', '{x,y}')) forms (form, features);
SELECT is(max(unusable_now), 0.4::float8, 'unusable rows, of which some have no weight: ' || model) FROM unnest('{of_array,of_columns}'::text[]) model, gkmeans_feature_drift(model::regclass) GROUP BY model;
CREATE TABLE once_same AS SELECT i AS id, (i % 10)::float8 AS a, 100.1::float8 AS b FROM generate_series(1, 100) i;
SELECT gkmeans_create_model('same_' || scale, 'once_same', '{a,b}', 3, scale => scale) FROM unnest('{standard,minmax}'::text[]) scale;
UPDATE once_same SET b = 5 + id;
SELECT is(row(mean_then, round(mean_now::numeric, 4), shift, deviation_then, round(deviation_now::numeric, 4), deviation_ratio)::text, '(100.1,55.5000,,0,28.8661,)', 'a feature that was constant at the fit: ' || scale)
FROM unnest('{standard,minmax}'::text[]) scale, gkmeans_feature_drift(('same_' || scale)::regclass) WHERE feature = 'b';
SELECT is(row(round(mean_now::numeric, 4), deviation_now)::text, '(7.0000,0)', 'one that is another constant now: ' || scale)
FROM unnest('{standard,minmax}'::text[]) scale, gkmeans_feature_drift(('same_' || scale)::regclass, 'SELECT id, a, 7 AS b FROM once_same') WHERE feature = 'b';
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('far', 'kinds', '{x,y}', 3);
UPDATE kinds SET x = x + 3 * (SELECT stddev_pop(x) FROM kinds) WHERE kind = 2;
SELECT is((SELECT cluster_id FROM gkmeans_drift('far') ORDER BY psi DESC LIMIT 1), 1, 'a cluster that moved far has the greatest psi');
SELECT is((SELECT feature FROM gkmeans_feature_drift('far') ORDER BY abs(shift) DESC LIMIT 1), 'x', 'and its feature the greatest shift');
CREATE TEMP TABLE far_drift AS SELECT * FROM gkmeans_drift('far');
SELECT gkmeans_refit('far');
SELECT is((SELECT array_agg(psi ORDER BY cluster_id) FROM gkmeans.drift WHERE model = 'gk_test.far'), array_agg(psi ORDER BY cluster_id), 'a refit writes the same down') FROM far_drift;
SELECT is((SELECT row(version, psi)::text FROM gkmeans.versions WHERE model = 'gk_test.far' AND version = 2), (SELECT row(2, sum(psi))::text FROM (SELECT psi FROM gkmeans.drift WHERE model = 'gk_test.far' ORDER BY cluster_id) d), 'gkmeans.versions has the sum');
SELECT is((SELECT psi FROM gkmeans.models WHERE model = 'gk_test.far'), (SELECT psi FROM gkmeans.versions WHERE model = 'gk_test.far' AND version = 2), 'and gkmeans.models the newest');
SELECT is(array_agg(key ORDER BY key), '{checked_at,clusters,features,psi,version}', 'the drift of a version') FROM far, jsonb_object_keys(drift) key WHERE version = 2;
SELECT is(array_agg(key ORDER BY key), '{avg_distance_now,avg_distance_then,cluster_id,name,psi,rows_now,rows_then,share_now,share_then}', 'of a cluster') FROM far, jsonb_object_keys(drift -> 'clusters' -> 0) key WHERE version = 2;
SELECT is(array_agg(key ORDER BY key), '{deviation_now,deviation_ratio,deviation_then,feature,mean_now,mean_then,shift,unusable_now}', 'of a feature') FROM far, jsonb_object_keys(drift -> 'features' -> 0) key WHERE version = 2;
SELECT is((SELECT row(drift ->> 'psi')::text FROM far WHERE version = 2), (SELECT row(psi)::text FROM gkmeans.versions WHERE model = 'gk_test.far' AND version = 2), 'its psi');

-- The clusters are those of the version that was deployed then
SELECT gkmeans_name_clusters('far', '{one,two,three}');
SELECT is(array_agg(status), '{checked}', 'a check') FROM gkmeans_refit('far', only_if_drift => 9);
SELECT gkmeans_alter_model('far', '{"k": 2}');
SELECT is(array_agg(status), '{fitted}', 'a refit with fewer clusters') FROM gkmeans_refit('far', deploy => 'always');
SELECT is(array_agg(row(version, cluster_key, cluster_name)::text ORDER BY version, cluster_key), ARRAY['(3,gk_test.far/2/0,one)', '(3,gk_test.far/2/1,two)', '(3,gk_test.far/2/2,three)', '(4,gk_test.far/2/0,one)', '(4,gk_test.far/2/1,two)', '(4,gk_test.far/2/2,three)'],
	'the view of drift has their keys and names') FROM gkmeans.drift WHERE model = 'gk_test.far' AND version > 2;
SELECT is(count(*)::int, 9, 'which are keys of gkmeans.clusters') FROM gkmeans.drift d JOIN gkmeans.clusters c USING (cluster_key) WHERE d.model = 'gk_test.far';
SAVEPOINT pruned;
DELETE FROM far WHERE version = 2;
SELECT is(array_agg(DISTINCT cluster_key), '{NULL}', 'clusters of a version that was deleted have no key') FROM gkmeans.drift WHERE model = 'gk_test.far' AND version > 2;
ROLLBACK TO pruned;
SELECT ok(svg ~ '>one<' AND svg ~ '>two<' AND svg ~ '>three<', 'the picture has their names') FROM gkmeans.plots WHERE plot_key = 'gk_test.far/drift';
SELECT gkmeans_create_model('other', 'SELECT i AS v FROM generate_series(1, 50) i', '{v}', 3);
SELECT gkmeans_import_model('other', exported => gkmeans_export('far')::jsonb, if_exists => 'replace');
SELECT is(array_agg(row(version, cluster_key, cluster_name)::text ORDER BY cluster_name), ARRAY['(2,,one)', '(2,,three)', '(2,,two)'], 'an imported drift has no keys: its clusters were those of another model') FROM gkmeans.drift WHERE model = 'gk_test.other';
SELECT gkmeans_import_model('doubled', exported => jsonb_set(e, '{drift,clusters}', (e -> 'drift' -> 'clusters') || (e -> 'drift' -> 'clusters') || '{"cluster_id": 7.5}')) FROM (SELECT gkmeans_export('other')::jsonb AS e) exported;
SELECT is(count(*)::int, count(DISTINCT drift_key)::int, 'nor has a cluster that it lists twice two rows') FROM gkmeans.drift WHERE model = 'gk_test.doubled';
SELECT gkmeans_name_clusters('far', ARRAY[repeat('n', 1000000), NULL]);
SELECT is(array_agg(status), '{checked}', 'a check of a cluster with a long name') FROM gkmeans_refit('far', only_if_drift => 9);
SELECT is(octet_length(cluster_name), 1000, 'of which the drift has the beginning') FROM gkmeans.drift WHERE drift_key = 'gk_test.far/5/0/drift';

-- Of very many clusters, those that drifted most are written down
CREATE TABLE many AS SELECT i AS v FROM generate_series(1, 2400) i;
SELECT gkmeans_create_model('many_m', 'many', '{v}', initial_centroids => (SELECT array_agg(ARRAY[2 * i - 0.5]) FROM generate_series(1, 1200) i));
INSERT INTO many SELECT 1999 FROM generate_series(1, 100);
SELECT gkmeans_refit('many_m', starts => 0);
SELECT is(row(jsonb_array_length(drift -> 'clusters'), jsonb_path_exists(drift, '$.clusters[*] ? (@.cluster_id == 999 && @.rows_now == 102)'))::text, '(1000,t)', 'a thousand clusters at most') FROM many_m WHERE version = 2;
SELECT near((drift ->> 'psi')::float8, (SELECT sum(psi) FROM gkmeans_drift('many_m', version => 1)), 1e-9, 'psi is that of all') FROM many_m WHERE version = 2;

-- Of every scale and metric the own rows did not drift
SELECT fill(50, 30, 20);
SELECT gkmeans_create_model('m_' || s || '_' || c, 'kinds', '{x,y}', 3, scale => s, metric => c, seed => 1) FROM unnest(ARRAY['none', 'standard', 'minmax']) s, unnest(ARRAY['euclidean', 'cosine']) c;
SELECT is(array_agg(DISTINCT row(psi, distance_ratio)::text), '{"(0,1)"}', 'drift of its own rows: ' || s || ', ' || c) FROM unnest(ARRAY['none', 'standard', 'minmax']) s, unnest(ARRAY['euclidean', 'cosine']) c, LATERAL gkmeans_drift(format('m_%s_%s', s, c)::regclass) GROUP BY s, c;
SELECT is(array_agg(DISTINCT row(shift, deviation_ratio)::text), '{"(0,1)"}', 'of features: ' || s || ', ' || c) FROM unnest(ARRAY['none', 'standard', 'minmax']) s, unnest(ARRAY['euclidean', 'cosine']) c, LATERAL gkmeans_feature_drift(format('m_%s_%s', s, c)::regclass) GROUP BY s, c;
SELECT is(array_agg(DISTINCT row(r.status, r.psi, r.moved)::text), '{"(rejected,0,0)"}', 'a refit of its own rows: ' || s || ', ' || c) FROM unnest(ARRAY['none', 'standard', 'minmax']) s, unnest(ARRAY['euclidean', 'cosine']) c, LATERAL gkmeans_refit(format('m_%s_%s', s, c)::regclass) r GROUP BY s, c;

-- Arrays, weights, clusters that end empty
CREATE TABLE arrays AS SELECT i AS id, ARRAY[i % 4 * 10 + noise(i, 1), noise(i, 2)]::real[] AS v, 1 + i % 3 AS w FROM generate_series(1, 200) i;
SELECT gkmeans_create_model('arr', 'arrays', '{v}', 4, weight_column => 'w', id_column => 'id', labels_table => 'arr_labels');
SELECT is(row(psi, moved)::text, '(0,0)', 'a refit of arrays with weights') FROM gkmeans_refit('arr');
SELECT ok(bool_and(psi = 0 AND distance_ratio = 1), 'and their drift') FROM gkmeans_drift('arr');
SELECT fails_with($$SELECT gkmeans_drift('arr', 'SELECT ARRAY[1,2,3]::real[] AS v')$$, '22000', 'arrays of another length', '3 features, the model has 2', NULL, 'if_exists => ''replace'' makes a version for them');
SELECT gkmeans_create_model('few', 'SELECT * FROM arrays', '{v}', 4, id_column => 'id');
DELETE FROM arrays WHERE id % 4 = 1 OR id > 40;
UPDATE arrays SET v = ARRAY[id % 4 * 10, 0]::real[];
SELECT gkmeans_name_clusters('few', (SELECT array_agg('at ' || round(centroid[1]::numeric, -1) ORDER BY cluster_id) FROM gkmeans_clusters('few')));
SELECT is(row(k, cluster_ids, names)::text, (SELECT format('(3,%s,%s)', quote_ident(array_agg(c.cluster_id ORDER BY c.cluster_id)::text), quote_ident(array_agg(c.name ORDER BY c.cluster_id)::text))
	FROM gkmeans_clusters('few', 1) c WHERE c.name <> 'at 10'), 'a cluster without rows is left out, the others keep their numbers and names') FROM (SELECT gkmeans_refit('few', starts => 0, deploy => 'always')) r, few WHERE version = 2;

-- A cluster that loses its rows: those that take its place have its number, but not its name
CREATE TABLE leaving AS SELECT i AS id, i % 3 * 100 + i % 7 AS x, i % 3 * 50 AS y FROM generate_series(1, 300) i;
SELECT gkmeans_create_model('left_m', 'leaving', '{x,y}', 3, id_column => 'id', labels_table => 'left_labels');
SELECT gkmeans_name_clusters('left_m', (SELECT array_agg('at ' || round(centroid[2]) ORDER BY cluster_id) FROM gkmeans_clusters('left_m')));
CREATE TABLE those_there AS SELECT cluster_id, name FROM gkmeans_clusters('left_m') WHERE name <> 'at 0';
SELECT cluster_id AS lost FROM gkmeans_clusters('left_m') WHERE name = 'at 0' \gset
SAVEPOINT all_there;
DELETE FROM leaving WHERE y = 0;
SELECT is(regexp_replace(outcome, '^[0-9.]+', 'x'), format('x %% better than version 1, %s rows moved, cluster %s lost its rows and began anew', moved, :lost), 'the outcome tells of a cluster without rows') FROM gkmeans_refit('left_m', starts => 0);
SELECT results_eq($$SELECT cluster_id, name FROM gkmeans_clusters('left_m') WHERE name IS NOT NULL$$, 'TABLE those_there ORDER BY 1', 'the others keep their numbers and names');
SELECT is(name, NULL, 'the one that began anew has none') FROM gkmeans_clusters('left_m') WHERE cluster_id = :lost;
SELECT is(row(status, outcome)::text, '(rejected,"as good as version 2, 0 rows moved, not deployed")', 'the next night is as any other') FROM gkmeans_refit('left_m', starts => 0);
ROLLBACK TO all_there;
DELETE FROM leaving WHERE y = 0;
SELECT is(moved > 0 AND outcome ~ 'lost its rows and began anew$', true, 'so does that of fresh starts') FROM gkmeans_refit('left_m', starts => 4);
SELECT results_eq($$SELECT cluster_id, name FROM gkmeans_clusters('left_m') WHERE name IS NOT NULL$$, 'TABLE those_there ORDER BY 1', 'with the same numbers and names');
ROLLBACK TO all_there;

-- One bad night with few rows
DELETE FROM leaving WHERE id NOT IN (1, 2);
UPDATE leaving SET x = x + 2;
SELECT is(regexp_replace(outcome, '^.*moved', 'x'), format('x, cluster %s lost its rows and ended', :lost), 'two rows of three clusters') FROM gkmeans_refit('left_m');
SELECT results_eq($$SELECT cluster_id, name FROM gkmeans_clusters('left_m')$$, 'TABLE those_there ORDER BY 1', 'are the clusters in which they were');
INSERT INTO leaving SELECT i, i % 3 * 100 + i % 7, i % 3 * 50 FROM generate_series(3, 300) i;
SELECT is(status, 'fitted', 'the next night all rows are there') FROM gkmeans_refit('left_m');
SELECT results_eq($$SELECT cluster_id, name FROM gkmeans_clusters('left_m')$$, format('SELECT * FROM those_there UNION ALL SELECT %s, NULL ORDER BY 1', :lost), 'and the names of those that went on');

-- One that has rows by the deployed centroids, but loses them in a later iteration
CREATE TABLE later AS SELECT i AS id, (ARRAY[0, 0.1, 10, 10.1, 100, 100.2])[i] AS x FROM generate_series(1, 6) i;
SELECT gkmeans_create_model('later_m', 'later', '{x}', initial_centroids => '{{0},{10},{100}}', id_column => 'id', labels_table => 'later_labels');
SELECT gkmeans_name_clusters('later_m', '{low,mid,high}');
TRUNCATE later;
INSERT INTO later SELECT row_number() OVER (), v FROM unnest('{0,4.5,4.6,4.7,4.8,4.9,5.2,54,55.5,56,56.2,56.6,99,-60}'::float8[]) v;
SAVEPOINT later_rows;
SELECT matches(outcome, '3 rows moved, cluster 1 lost its rows and began anew$', 'the outcome tells of it') FROM gkmeans_refit('later_m', starts => 0);
SELECT results_eq($$SELECT cluster_id, name, size FROM gkmeans_clusters('later_m')$$, $$VALUES (0, 'low', 7::bigint), (1, NULL, 1), (2, 'high', 6)$$, 'the rows that took its place have no name');
ROLLBACK TO later_rows;
SELECT gkmeans_alter_model('later_m', '{"max_iter": 1}');
SELECT matches(outcome, '2 rows moved, cluster 1 lost its rows and ended$', 'one that loses them at the end') FROM gkmeans_refit('later_m', starts => 0);
ROLLBACK TO later_rows;

-- A cluster far from its centroid whose rows all go to the place of another that has none
TRUNCATE later;
INSERT INTO later SELECT i, 20 + i % 2 * 80 FROM generate_series(1, 20) i;
SELECT matches(outcome, ', 0 rows moved, cluster 0 lost its rows and ended$', 'rows that stay together') FROM gkmeans_refit('later_m', starts => 0);
SELECT results_eq($$SELECT cluster_id, name, size, centroid FROM gkmeans_clusters('later_m')$$, $$VALUES (1, 'mid', 10::bigint, '{20}'::float8[]), (2, 'high', 10, '{100}')$$, 'keep their number and name');

-- Equal rows, whose centroids differ from them by rounding
CREATE TABLE equal_rows AS SELECT i AS id, (ARRAY[1, 3, 7])[i % 3 + 1] AS a, (ARRAY[6, 3, 1])[i % 3 + 1] AS b, (ARRAY[2, 5, 3])[i % 3 + 1] AS c FROM generate_series(1, 30) i;
SELECT gkmeans_create_model('equal_m', 'equal_rows', '{a,b,c}', 3, metric => 'cosine', id_column => 'id', labels_table => 'equal_labels');
SELECT gkmeans_name_clusters('equal_m', '{one,two,three}');
CREATE TABLE equal_before AS SELECT * FROM gkmeans_clusters('equal_m');
DELETE FROM equal_rows r USING equal_labels l WHERE r.id = l.id AND cluster_id = 0;
SELECT is(row(moved, outcome)::text, '(0,"as good as version 1, 0 rows moved, cluster 0 lost its rows and ended")', 'no row moves') FROM gkmeans_refit('equal_m', deploy => 'always', starts => 0);
SELECT results_eq($$SELECT cluster_id, name, size FROM gkmeans_clusters('equal_m')$$, 'SELECT cluster_id, name, size FROM equal_before WHERE cluster_id > 0', 'nor does a name');

-- A cluster that has no rows in its own scale gives its name to nobody who is near it in a new one
CREATE TABLE abroad AS SELECT i AS id, i % 2 AS is_abroad, 10 + i * 7919 % 13 AS spend FROM generate_series(1, 200) i;
SELECT gkmeans_create_model('abroad_m', 'abroad', '{is_abroad,spend}', initial_centroids => '{{0,16},{1,16}}', scale => 'standard', id_column => 'id', labels_table => 'abroad_labels');
SELECT gkmeans_name_clusters('abroad_m', '{home,abroad}');
DELETE FROM abroad WHERE is_abroad = 0;
SAVEPOINT abroad_rows;
SELECT is(row(moved, outcome ~ '45 rows moved, cluster 0 lost its rows and began anew$')::text, '(45,t)', 'a feature that is constant now, in a new scale') FROM gkmeans_refit('abroad_m', starts => 0, rescale => true);
SELECT results_eq($$SELECT cluster_id, name, size FROM gkmeans_clusters('abroad_m')$$, $$VALUES (0, NULL, 45::bigint), (1, 'abroad', 55)$$, 'the rows at the place of the cluster that is lost have no name');
ROLLBACK TO abroad_rows;
SELECT matches(outcome, ', cluster 0 lost its rows and began anew$', 'a fresh start') FROM gkmeans_refit('abroad_m', rescale => true);
SELECT results_eq($$SELECT cluster_id, name FROM gkmeans_clusters('abroad_m')$$, $$VALUES (0, NULL), (1, 'abroad')$$, 'does not name them either');
ROLLBACK TO abroad_rows;
UPDATE abroad SET spend = 16;
SELECT is(row(moved, outcome)::text, '(0,"as good as version 1, 0 rows moved, cluster 0 lost its rows and ended")', 'rows that are all equal, where all centroids are in the new scale') FROM gkmeans_refit('abroad_m', rescale => true, deploy => 'always');
SELECT results_eq($$SELECT cluster_id, name, size FROM gkmeans_clusters('abroad_m')$$, $$VALUES (1, 'abroad', 100::bigint)$$, 'keep their number and name');
ROLLBACK TO abroad_rows;

-- Privileges
CREATE ROLE owner_of_m;
CREATE ROLE stranger;
CREATE ROLE writer;
CREATE ROLE writer_of_all IN ROLE pg_write_all_data;
GRANT USAGE, CREATE ON SCHEMA gk_test TO owner_of_m;
GRANT USAGE ON SCHEMA gk_test TO stranger, writer;
GRANT SELECT ON kinds TO owner_of_m;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
SET LOCAL ROLE owner_of_m;
CREATE TABLE witness (what text);
CREATE FUNCTION told(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '%: %', what, current_user; RETURN 1; END $$;
CREATE FUNCTION gk_test.spy(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN IF current_user <> 'owner_of_m' THEN RAISE EXCEPTION 'seen as %', current_user; END IF; RETURN v; END $$;
CREATE FUNCTION gk_test.climb(v float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN SET LOCAL ROLE NONE; RETURN v; END $$;
SET LOCAL search_path = gk_test, public;
SELECT gkmeans_create_model('owned', 'SELECT id, spy(x) AS x, y FROM kinds', '{x,y}', 3, id_column => 'id', labels_table => 'owned_labels');
SELECT is((SELECT status FROM gkmeans_refit('owned')), 'rejected', 'the owner refits');
GRANT SELECT ON owned TO stranger, writer;
GRANT INSERT, UPDATE ON owned TO writer;
SET LOCAL ROLE stranger;
SELECT fails_with($$SELECT gkmeans_refit('owned')$$, '42501', 'SELECT is not enough', 'must be owner of table owned');
SELECT fails_with($$CALL gkmeans_refresh('owned')$$, '42501', 'nor for gkmeans_refresh', 'must be owner of table owned');
SELECT fails_with($$SELECT gkmeans_drift('owned')$$, '42501', 'nor to read the source of the definition', 'must be owner');
SELECT lives_ok($$SELECT gkmeans_drift('owned', 'SELECT 1.0 AS x, 2.0 AS y')$$, 'but to look at other rows');
RESET ROLE;
SELECT fill(50, 30, 20, 5);
SET LOCAL search_path = pg_catalog;
CREATE TEMP TABLE by_superuser AS SELECT deployed, version FROM public.gkmeans_refit('gk_test.owned', deploy => 'always');
CREATE TEMP TABLE who_after AS SELECT current_user::text AS who, current_setting('search_path') AS path, array_agg(DISTINCT d.name) AS names FROM public.gkmeans_drift('gk_test.owned') d;
SET LOCAL search_path = gk_test, public;
SELECT is(row(b.*)::text, '(t,3)', 'a superuser refits as the owner, with the search path of the definition') FROM by_superuser b;
SELECT is(row(w.*)::text, format('(%s,pg_catalog,"{""cluster 0"",""cluster 1"",""cluster 2""}")', session_user), 'and is himself again, with his own search path; drift as well') FROM who_after w;
SELECT is(row(started_by, deployed_by)::text, format('(%s,%s)', session_user, session_user), 'the row tells who asked') FROM owned WHERE version = 3;
SELECT is((SELECT tableowner::text FROM pg_tables WHERE tablename = 'owned_labels'), 'owner_of_m', 'the labels are the owner''s');
SELECT is((SELECT count(*)::int FROM kinds k JOIN owned_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('owned', k)), 100, 'and are written');
ALTER TABLE owned ALTER definition SET DEFAULT '{"source": "gk_test.kinds", "features": ["x", "y"], "k": 3, "search_path": "\t"}';
SELECT lives_ok($$SELECT gkmeans_drift('owned')$$, 'a search path of blanks is none');
ALTER TABLE owned ALTER definition SET DEFAULT '{"source": "SELECT gk_test.climb(x) AS x, y FROM gk_test.kinds", "features": ["x", "y"], "k": 3, "search_path": "public"}';
SELECT fails_with($$SELECT gkmeans_refit('owned')$$, '42501', 'a function of the source cannot become the caller again', 'within security-restricted operation');
SELECT is(current_user::text, session_user::text, 'the caller is himself after the error');
SELECT fails_with($$SELECT gkmeans_drift('owned')$$, '42501', 'nor when drift is looked at', 'within security-restricted operation');
SET LOCAL ROLE writer;
UPDATE owned SET definition = '{"source": "SELECT gk_test.told(''evil'') AS x, 1 AS y", "features": ["x", "y"], "k": 1, "scale": "none"}';
SELECT fails_with($$ALTER TABLE owned ALTER definition SET DEFAULT '{}'$$, '42501', 'a writer cannot change the definition');
SET LOCAL ROLE writer_of_all;
UPDATE gk_test.owned SET definition = '{"source": "SELECT gk_test.told(''worse'') AS x, 1 AS y", "features": ["x", "y"], "k": 1, "scale": "none"}', report = '{"source": "SELECT gk_test.told(''worst'')"}';
SELECT throws_ok($$ALTER TABLE gk_test.owned ALTER definition SET DEFAULT '{}'$$, '42501', NULL, 'nor can a member of pg_write_all_data');
SELECT throws_ok($$SELECT public.gkmeans_alter_model('gk_test.owned', '{"source": "SELECT 1 AS x, 2 AS y"}')$$, '42501', NULL, 'not with gkmeans_alter_model either');
RESET ROLE;
ALTER TABLE owned ALTER definition SET DEFAULT '{"source": "SELECT gk_test.spy(x) AS x, y FROM gk_test.kinds", "features": ["x", "y"], "k": 3, "search_path": "public"}';
SELECT is((SELECT row(rows)::text FROM gkmeans_refit('owned')), '(100)', 'what writers wrote into rows is not run');

-- In a transaction block gkmeans_refresh commits nothing, and records nothing but what comes of it
SELECT fill(50, 30, 20, 8);
CALL gkmeans_refresh('d', note => 'by CALL');
SELECT is(note, 'by CALL', 'CALL gkmeans_refresh in a transaction block') FROM d ORDER BY version DESC LIMIT 1;
ALTER TABLE d ALTER definition SET DEFAULT '{"source": "SELECT x / (kind - 2) AS x, y FROM gk_test.kinds", "features": ["x", "y"], "k": 3}';
SELECT fails_with($$CALL gkmeans_refresh('d')$$, '22012', 'an error is just the error');
SELECT is_empty($$SELECT * FROM d WHERE status IN ('running', 'failed')$$, 'without a record');
SELECT nothing_left('nothing of it is left');

-- Errors
SELECT fails_with($$SELECT gkmeans_refit(NULL)$$, '22004', 'no model');
SELECT fails_with($$SELECT gkmeans_refit('kinds')$$, '42809', 'no model, but a table');
SELECT fails_with($$SELECT gkmeans_refit('m', deploy => 'sometimes')$$, '22023', 'an unknown word', 'invalid deploy', NULL, '"better", "always", "never"');
SELECT fails_with($$SELECT gkmeans_refit('m', starts => -1)$$, '22023', 'starts', 'starts is out of range');
SELECT fails_with($$SELECT gkmeans_refit('m', keep => 0)$$, '22023', 'keep', 'keep is out of range');
SELECT fails_with($$SELECT gkmeans_refit('m', only_if_drift => 'NaN')$$, '22023', 'only_if_drift', 'only_if_drift is out of range');
SELECT fails_with($$SELECT gkmeans_refit('m', min_improvement => 2)$$, '22023', 'min_improvement', 'min_improvement is out of range');
SELECT gkmeans_import_model('sourceless', '{{1},{2}}');
SELECT fails_with($$SELECT gkmeans_refit('sourceless')$$, '55000', 'a model without a source', 'has no source');
SELECT fails_with($$SELECT gkmeans_drift('sourceless')$$, '55000', 'its drift', 'has no source');
UPDATE sourceless SET deployed = NULL;
SELECT fails_with($$SELECT gkmeans_refit('sourceless')$$, '55000', 'no deployed version', 'no deployed version');
CREATE FUNCTION text_of_mine() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"source": "kinds"}'::jsonb $$;
ALTER TABLE d ALTER definition SET DEFAULT text_of_mine();
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'a definition that is no constant', 'has no definition');
ALTER TABLE d ALTER definition SET DEFAULT '["source"]';
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'no object', 'has no definition');
ALTER TABLE d ALTER definition SET DEFAULT '{"source": "kinds", "k": "three"}';
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'a key of another type', 'definition of model "d" is not valid', 'Key "k" must be a number');
ALTER TABLE d ALTER definition SET DEFAULT '{"source": "kinds", "features": "x"}';
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'no array', NULL, 'Key "features" must be an array');
ALTER TABLE d ALTER definition SET DEFAULT '{"source": "kinds", "features": ["x", 7]}';
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'an array of something else', NULL, 'Key "features" must be an array of strings');
ALTER TABLE d ALTER definition DROP DEFAULT;
SELECT fails_with($$SELECT gkmeans_refit('d')$$, '55000', 'no definition at all');

-- Foreign rows in the view of drift
INSERT INTO m (version, group_no, part, status, drift) VALUES (901, 0, 0, 'checked', '[1]'), (902, 0, 0, 'checked', '{"psi": "x", "clusters": [1, {}, {"cluster_id": -1}, {"cluster_id": 1e300}, {"cluster_id": 1, "psi": 1e400, "share_now": "x"}]}'), (903, 0, 0, 'checked', '7');
SELECT is((SELECT array_agg(row(version, cluster_id, cluster_name, psi, share_now)::text) FROM gkmeans.drift WHERE model = 'gk_test.m' AND version > 900), '{"(902,1,\"cluster 1\",,)"}', 'what is not as gkmeans writes it is left out');
SELECT is((SELECT count(*)::int FROM gkmeans.versions WHERE model = 'gk_test.m' AND version > 900 AND psi IS NULL), 3, 'and has no psi');
INSERT INTO m (version, group_no, part, status, drift, report) SELECT 910 + i, 0, 0, 'checked', '{"psi": 0.5, "clusters": [{"cluster_id": 1}]}'::jsonb || padding, '{"engine": "cpu"}' || padding FROM (VALUES
	(1, jsonb_build_object('longer than any other key', repeat('x', 1000))), (2, jsonb_build_object('longer than any other key', repeat('x', 3000000))), (3, jsonb_build_object('x', repeat('x', 3000000))),
	(4, (SELECT jsonb_object_agg('k' || i, i) FROM generate_series(1, 300) i)), (5, jsonb_build_object('longer than any other key', repeat('x', 5000000)))) p(i, padding);
SELECT is((SELECT array_agg(row(version, psi, engine)::text ORDER BY version) FROM gkmeans.versions WHERE model = 'gk_test.m' AND version > 910), '{"(911,0.5,cpu)","(912,0.5,)","(913,,)","(914,,cpu)","(915,,)"}', 'nor has a long one that does not begin with it');
SELECT is((SELECT array_agg(version ORDER BY version) FROM gkmeans.drift WHERE model = 'gk_test.m' AND version > 910), '{911,912,913,914}', 'or that is much longer than any that gkmeans writes');
DELETE FROM m WHERE version > 910;
UPDATE m SET definition = '["scale"]' WHERE deployed;
SELECT lives_ok($$SELECT gkmeans_refit('m', deploy => 'never'), gkmeans_drift('m')$$, 'a row whose definition is no object');
UPDATE m SET definition = '7' WHERE deployed;
SELECT lives_ok($$SELECT gkmeans_refit('m', deploy => 'never')$$, 'or a number');
UPDATE m SET status = 'running' WHERE version = 901;
SELECT is((SELECT row(status, seconds, error_message)::text FROM gkmeans.versions WHERE model = 'gk_test.m' AND version = 901), '(lost,,"its session ended before the run did")', 'a run without a session is lost');
CREATE TABLE archived () INHERITS (m);
INSERT INTO archived SELECT * FROM ONLY m WHERE version = 901;
SELECT gkmeans_refit('m');
SELECT is((SELECT row(status, outcome, seconds, error_message)::text FROM gkmeans.versions WHERE model = 'gk_test.m' AND version = 901), '(failed,"lost: its session ended before the run did",,"its session ended before the run did")', 'the next refit marks it');
SELECT is((SELECT status FROM archived), 'running', 'but no row of a table that inherits from the model');
DROP TABLE archived;
UPDATE m SET version = 1000, status = 'running', finished_at = NULL, error_message = NULL WHERE version = 901;
SELECT is((SELECT row(last_status, last_error)::text FROM gkmeans.models WHERE model = 'gk_test.m'), '(lost,"its session ended before the run did")', 'the last run of a model');
DELETE FROM m WHERE version = 1000;

-- A group appears at one end and two merge at the other: all others keep their numbers, however far those are
CREATE TABLE towns AS SELECT i AS id, t * 100 + i % 3 * 0.1 AS x, 0 AS y FROM generate_series(0, 9) t, generate_series(t * 100 + 1, t * 100 + 100) i;
INSERT INTO towns SELECT 2000 + i, far + i * 4 - 4, 0 FROM generate_series(1, 2) i, (VALUES (1e4)) f(far);
CREATE TABLE planets AS SELECT id, CASE WHEN id > 2000 THEN 401 + (id - 2001) * 4 ELSE x END AS x, CASE WHEN id > 2000 THEN 1e9 ELSE 0 END AS y FROM towns;
SELECT gkmeans_create_model(name || '_kinds', name, '{x,y}', 12) FROM unnest('{towns,planets}'::text[]) name;
SELECT gkmeans_name_clusters(name || '_kinds', (SELECT array_agg(format('%s %s', round(centroid[1]), round(centroid[2])) ORDER BY cluster_id) FROM gkmeans_clusters(name || '_kinds'))) FROM unnest('{towns,planets}'::text[]) name;
INSERT INTO towns SELECT 3000 + i, -7, 0 FROM generate_series(1, 400) i;
INSERT INTO planets SELECT 3000 + i, 407, 0 FROM generate_series(1, 400) i;
SELECT is(gkmeans_refit(name || '_kinds') IS NOT NULL, true, 'a refit of ' || name) FROM unnest('{towns,planets}'::text[]) name;
SELECT is((SELECT count(*)::int FROM gkmeans_clusters(name || '_kinds') WHERE centroid[1] BETWEEN 0 AND 950 AND centroid[1] <> 407 AND centroid[2] = 0 AND name = format('%s %s', round(centroid[1]), 0)), 10, 'each of the others keeps its name: ' || name)
FROM unnest('{towns,planets}'::text[]) name;

-- An outlier pulls away the centroid of a cluster, whose rows go to another one
CREATE TABLE spend AS SELECT i AS id, (CASE WHEN i <= 5 THEN 0 WHEN i <= 10 THEN 9 ELSE 20 END + (i % 5 - 2) * 0.1)::float8 AS x FROM generate_series(1, 1010) i;
SELECT gkmeans_create_model('spend_kinds', 'spend', '{x}', 3, id_column => 'id', n_init => 4);
SELECT gkmeans_name_clusters('spend_kinds', (SELECT array_agg(round(centroid[1])::text ORDER BY cluster_id) FROM gkmeans_clusters('spend_kinds')));
INSERT INTO spend VALUES (2000, 1000000);
SELECT is(row(version, moved)::text, '(2,6)', 'no other rows move') FROM gkmeans_refit('spend_kinds', starts => 0);
SELECT is((SELECT row(cluster_id, name)::text FROM gkmeans_clusters('spend_kinds', 1) WHERE size = 1000), (SELECT row(cluster_id, name)::text FROM gkmeans_clusters('spend_kinds') WHERE size = 1000), 'and their cluster keeps number and name');

-- Two outliers: one begins a cluster, and the other pulls another cluster's centroid away, which keeps its rows
CREATE TABLE lone AS SELECT i AS id, (CASE WHEN i <= 200 THEN 0 WHEN i <= 205 THEN 10 ELSE 80 END + i % 4 * 0.1)::float8 AS x FROM generate_series(1, 405) i;
SELECT gkmeans_create_model('lone_kinds', 'lone', '{x}', 3);
SELECT gkmeans_name_clusters('lone_kinds', (SELECT array_agg(round(centroid[1])::text ORDER BY cluster_id) FROM gkmeans_clusters('lone_kinds')));
INSERT INTO lone VALUES (1000, 1000000), (1001, 10000);
SELECT is(row(version, moved)::text, '(2,6)', 'the others do not move') FROM gkmeans_refit('lone_kinds', starts => 0);
SELECT is((SELECT name FROM gkmeans_clusters('lone_kinds') WHERE size = 201), '80', 'and their cluster keeps its name');

-- The outlier pulls it to the centroid of a small one, which joins it
CREATE TABLE joined AS SELECT i AS id, (CASE WHEN i <= 200 THEN 0 WHEN i <= 205 THEN 130 ELSE 80 END + i % 4 * 0.1)::float8 AS x FROM generate_series(1, 405) i;
SELECT gkmeans_create_model('joined_kinds', 'joined', '{x}', 3);
SELECT gkmeans_name_clusters('joined_kinds', (SELECT array_agg(round(centroid[1])::text ORDER BY cluster_id) FROM gkmeans_clusters('joined_kinds')));
INSERT INTO joined VALUES (1000, 1000000), (1001, 10000);
SELECT is(row(version, moved)::text, '(2,6)', 'those that it joins do not move') FROM gkmeans_refit('joined_kinds', starts => 0);
SELECT is((SELECT name FROM gkmeans_clusters('joined_kinds') WHERE size = 206), '80', 'and keep the name');

-- One takes the place of its rows, and another one the place that it leaves, whose centroid it had
CREATE TABLE chain AS SELECT CASE WHEN i <= 100 THEN 100 ELSE 0 END + i % 4 * 0.1 AS x, CASE WHEN i <= 100 THEN 201 WHEN i <= 200 THEN 200 WHEN i <= 300 THEN 101 ELSE 51 END AS y FROM generate_series(1, 325) i;
SELECT gkmeans_create_model('chain_kinds', 'chain', '{x,y}', 4);
SELECT gkmeans_name_clusters('chain_kinds', (SELECT array_agg(CASE WHEN centroid[1] > 50 THEN 's' ELSE round(centroid[2])::text END ORDER BY cluster_id) FROM gkmeans_clusters('chain_kinds')));
UPDATE chain SET x = CASE y WHEN 101 THEN -300 ELSE x END, y = CASE y WHEN 200 THEN 151 ELSE y END WHERE y IN (101, 200);
INSERT INTO chain SELECT 1100, 1000 FROM generate_series(1, 45);
SELECT is(moved, 70::bigint, 'rows that moved in a chain') FROM gkmeans_refit('chain_kinds', starts => 3);
SELECT is(array_agg(name ORDER BY name), '{101,200}', 'those that kept their rows') FROM gkmeans_clusters('chain_kinds') WHERE size >= 100 AND round(centroid[1]) <> 100;

-- More clusters than are matched exactly, all of them on one side of where they were
CREATE TABLE crowd AS SELECT i AS x FROM generate_series(1, 2100) i;
SELECT count(*) FROM gkmeans_create_model('crowd_kinds', 'crowd', '{x}', 2100, quality => 'fast');
UPDATE crowd SET x = x + 1000000;
SELECT is(row(status, deployed)::text, '(fitted,t)', 'a refit of many clusters far away') FROM gkmeans_refit('crowd_kinds', starts => 1, deploy => 'always');
SELECT is(array_agg(cluster_id ORDER BY cluster_id), (SELECT array_agg(i) FROM generate_series(0, 2099) i), 'each has a number of its own') FROM gkmeans_clusters('crowd_kinds');

-- So many clusters that have rows are matched by their distance: the nearest centroid first, and each with the nearest that is free
CREATE TABLE mass AS SELECT i::float8 AS x FROM generate_series(0, 2399) i;
SELECT count(*) FROM gkmeans_create_model('mass_kinds', 'mass', '{x}', 2400, quality => 'fast');
CREATE TABLE places AS SELECT cluster_id, centroid[1] AS x FROM gkmeans_clusters('mass_kinds');
UPDATE mass SET x = x + 0.25 * sign(x - 1000);
DELETE FROM mass WHERE x = 1000;
SELECT is(status, 'fitted', 'a refit of many clusters, one of which has no row') FROM gkmeans_refit('mass_kinds', starts => 0, deploy => 'always');
SELECT results_eq($$SELECT count(*), sum(abs(c.centroid[1] - p.x)) FROM gkmeans_clusters('mass_kinds') c JOIN places p USING (cluster_id)$$, 'VALUES (2399::bigint, 2399 * 0.25::float8)', 'the others keep their numbers');
SELECT count(*) FROM gkmeans_deploy('mass_kinds', 1);
INSERT INTO mass SELECT 1000 UNION ALL SELECT 10000 + 100 * i FROM generate_series(1, 2400) i;
SELECT is(status, 'fitted', 'a refit of which most clusters are far away, all on one side') FROM gkmeans_refit('mass_kinds', deploy => 'always');
CREATE TABLE far_places AS SELECT c.centroid[1] AS x, p.x AS place FROM gkmeans_clusters('mass_kinds') c JOIN places p USING (cluster_id) WHERE c.centroid[1] >= 10000;
SELECT ok(count(*) > 1900 AND max(place) > 2390 AND bool_and(place < before OR before IS NULL), 'the farther they are, the farther are those that they continue') FROM (SELECT place, lag(place) OVER (ORDER BY x) AS before FROM far_places) f;

-- A row between two centroids keeps its cluster in a new scale, too
CREATE TABLE tie (id int, x float8);
INSERT INTO tie VALUES (1, 0), (2, 2);
SELECT gkmeans_create_model('tied', 'tie', '{x}', 2);
SELECT isnt(ties, NULL, 'ties are not decided in the order of ids') FROM tied;
UPDATE tie SET x = 1 WHERE id = 2;
SELECT is(row(psi, moved)::text, '(0,0)', format('rescale => %s: a row between two centroids does not move', rescale))
FROM unnest('{f,t}'::bool[]) rescale, gkmeans_refit('tied', deploy => 'never', rescale => rescale);

-- A row of weight 0 is as far from two centroids, whose order in the fit is that of their numbers, or is not
CREATE TABLE between AS SELECT i AS id, CASE WHEN i <= 6 THEN 0 WHEN i <= 10 THEN 2 ELSE 1 END::float8 AS x, (i <= 10)::int AS w FROM generate_series(1, 11) i;
SELECT gkmeans_create_model('between_' || seed, 'between', '{x}', 2, weight_column => 'w', seed => seed, quality => 'fast', n_init => 1) FROM generate_series(1, 20) seed;
CREATE FUNCTION label_between(seed int) RETURNS int LANGUAGE sql AS $$ SELECT gkmeans_predict('between_' || seed, 1::float8) $$;
CREATE TABLE sides AS SELECT seed, label_between(seed) AS side FROM generate_series(1, 20) seed;
SELECT is(count(DISTINCT side)::int, 2, 'it belongs to either of them') FROM sides;
SELECT is(array_agg(DISTINCT row(moved, status)::text), '{"(0,fitted)"}', format('starts => %s: it does not move in a refit', starts))
FROM unnest('{0,1}'::int[]) starts, sides, gkmeans_refit('between_' || seed, deploy => 'always', starts => starts) GROUP BY starts;
SELECT is(count(*)::int, 20, 'nor does the new version score it otherwise') FROM sides WHERE label_between(seed) = side;
CREATE TABLE weightless (id int, x float8, w float8);
INSERT INTO weightless VALUES (1, 0, 1), (2, 1, 1), (3, 5, 0), (4, 3, 0);
SELECT gkmeans_create_model('weightless_kinds', 'weightless', '{x}', weight_column => 'w', initial_centroids => '{{5},{0},{1}}');
SELECT is(row(gkmeans_predict('weightless_kinds', 3::float8), moved)::text, '(0,0)', 'nor from a cluster whose rows all have weight 0') FROM gkmeans_refit('weightless_kinds', starts => 0);
-- Weights that sums lose beside others: all rows are clusters of their own, and the ties in another order
CREATE TABLE lost_weights (id int, x float8, w float8);
INSERT INTO lost_weights VALUES (1, 0, 1e-100), (2, 1, 1e-100), (3, 2, 1e-100), (4, 7, 1), (5, 7.5, 1e-100);
SELECT gkmeans_create_model('lost_' || seed, 'lost_weights', '{x}', 5, weight_column => 'w', init => 'random', seed => seed) FROM generate_series(1, 8) seed;
SELECT is(array_agg(DISTINCT moved), '{0}', 'clusters without weight keep their numbers') FROM generate_series(1, 8) seed, gkmeans_refit('lost_' || seed, starts => 0);
SELECT gkmeans_create_model('gaps', 'weightless', '{x}', weight_column => 'w', initial_centroids => '{{0},{50},{1},{5}}');
SELECT gkmeans_import_model('gaps_again', exported => gkmeans_export('gaps')::jsonb, source => 'weightless');
SELECT gkmeans_alter_model('gaps_again', '{"weight_column": "w"}');
SELECT is(array_agg(cluster_id ORDER BY cluster_id)::text, '{0,2,3}', 'also with gaps between the numbers') FROM gkmeans_clusters('gaps_again');
SELECT is(moved, 0::bigint, 'by a refit of an import') FROM gkmeans_refit('gaps_again', starts => 0);
CREATE TABLE heavy (id int, x float8, w float8);
INSERT INTO heavy VALUES (0, 0, 1), (1, 100, 2), (2, 98, 0);
SELECT gkmeans_create_model('heavy_kinds', 'heavy', '{x}', id_column => 'id', weight_column => 'w', labels_table => 'heavy_labels', initial_centroids => '{{0},{100}}');
SELECT gkmeans_name_clusters('heavy_kinds', '{zero,hundred}');
DELETE FROM heavy WHERE id = 0;
UPDATE heavy SET x = 105 WHERE id = 1;
SELECT gkmeans_refit('heavy_kinds', starts => 0, deploy => 'always');
SELECT is((SELECT row(cluster_id, name, centroid)::text FROM gkmeans_clusters('heavy_kinds') WHERE weight > 0), '(1,hundred,{105})', 'a cluster continues where its rows with weight go');
-- A source that sets the search_path is read again by that of the definition, and so are the labels
CREATE SCHEMA gk_elsewhere;
CREATE TABLE here AS SELECT i AS id, i % 7 AS x FROM generate_series(1, 60) i;
CREATE TABLE gk_elsewhere.here AS SELECT i AS id, 1000 + i % 9 AS x FROM generate_series(1, 30) i;
CREATE TABLE gk_elsewhere.here_labels (id int, cluster_id int, distance float8);
CREATE FUNCTION leave(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'gk_elsewhere, gk_test, public', true); RETURN i; END $$;
SELECT gkmeans_create_model('here_kinds', 'SELECT gk_test.leave(id) AS id, x FROM here', '{x}', 3, scale => 'standard', id_column => 'id', labels_table => 'here_labels');
SET LOCAL search_path = gk_test, public;
SELECT is(row(r.rows, moved, improvement)::text, '(60,0,0)', 'a second reading is of the same table') FROM gkmeans_refit('here_kinds', rescale => true, deploy => 'always') r;
SET LOCAL search_path = gk_test, public;
SELECT is((SELECT count(*) FROM here_labels), 60::bigint, 'its labels');
SELECT is_empty('SELECT FROM gk_elsewhere.here_labels', 'stay where they were');
SELECT is(round(feature_mean[1]::numeric, 6), (SELECT round(avg(x), 6) FROM here), 'with the mean of these rows') FROM here_kinds WHERE deployed;

-- Rows that have moved so far that float32 would not tell them apart where they were
CREATE TABLE moving AS SELECT i AS id, (i % 2 * 0.5 + i % 10 * 0.01)::float8 AS x, ARRAY[i % 2 * 0.5 + i % 10 * 0.01, 7]::numeric[] AS v, i % 10 AS n FROM generate_series(1, 200) i;
SELECT gkmeans_create_model('moving_kinds', 'moving', '{x}', 2, id_column => 'id', labels_table => 'moving_labels');
SELECT gkmeans_create_model('moving_arrays', 'moving', '{v}', 2);
SELECT gkmeans_create_model('moving_integers', 'moving', '{n}', 2);
UPDATE moving SET x = x + 1e9, v = ARRAY[v[1] + 1e9, v[2]], n = n + 10000000;
SELECT is(row(deployed, moved)::text, '(f,100)', 'a refit of them that is not deployed') FROM gkmeans_refit('moving_kinds', deploy => 'never');
SELECT is((SELECT count(*)::int FROM moving t JOIN moving_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('moving_kinds', t) AND l.distance = gkmeans_distance('moving_kinds', t)), 200, 'labels of the deployed version');
SELECT is(row(status, deployed, moved)::text, '(fitted,t,100)', 'and one that is') FROM gkmeans_refit('moving_kinds');
SELECT results_eq('SELECT centroid, size, inertia FROM gkmeans_clusters(''moving_kinds'') ORDER BY centroid', 'SELECT centroid, size, inertia FROM gkmeans_fit(''moving'', ''{x}'', 2) ORDER BY centroid', 'finds the clusters of a fit');
SELECT is((SELECT count(*)::int FROM moving t JOIN moving_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('moving_kinds', t) AND l.distance = gkmeans_distance('moving_kinds', t)), 200, 'and writes its labels');
SELECT is(outcome, 'as good as version 3, 0 rows moved, not deployed', 'the next one stays where it is') FROM gkmeans_refit('moving_kinds');
SELECT is(row(status, deployed)::text, '(fitted,t)', 'arrays') FROM gkmeans_refit('moving_arrays');
SELECT results_eq('SELECT centroid, size FROM gkmeans_clusters(''moving_arrays'') ORDER BY centroid', 'SELECT centroid, size FROM gkmeans_fit(''moving'', ''{v}'', 2) ORDER BY centroid', 'likewise');
SELECT is(row(status, deployed)::text, '(fitted,t)', 'integers') FROM gkmeans_refit('moving_integers');
SELECT is(m.shift, NULL, 'which float32 tells apart in any case') FROM moving_integers m WHERE deployed;
CREATE TABLE resting AS SELECT i AS id, 1e9::float8 AS x FROM generate_series(1, 100) i;
SELECT gkmeans_create_model('resting_kinds', 'resting', '{x}', 1);
SELECT gkmeans_alter_model('resting_kinds', '{"k": 2}');
UPDATE resting SET x = x + id % 2 * 0.5;
SELECT is(row(deployed, inertia)::text, '(t,0)', 'values that were all equal') FROM gkmeans_refit('resting_kinds');
SELECT is(array_agg(row(centroid, size)::text ORDER BY centroid), '{"({1000000000},50)","({1000000000.5},50)"}', 'are told apart, too') FROM gkmeans_clusters('resting_kinds');
ALTER TABLE resting ALTER x TYPE real USING id % 2 * 0.5;
SELECT is(row(deployed, inertia)::text, '(t,0)', 'values of a type that needs no shift, where the model has one') FROM gkmeans_refit('resting_kinds');
SELECT is(array_agg(row(centroid, size)::text ORDER BY centroid), '{"({0},50)","({0.5},50)"}', 'likewise') FROM gkmeans_clusters('resting_kinds');
CREATE TABLE still (id int, x int, y bigint, z float8, n numeric);
INSERT INTO still SELECT i, 2147483647, 100, 123456789, i * 1000000.5 FROM generate_series(1, 10) i;
SELECT gkmeans_create_model('still_kinds', 'still', '{x,y,z,n}', 1);
UPDATE still SET x = 0, y = 123456789, z = 10000, n = 123456789.5;
SELECT is(row(status, deployed)::text, '(fitted,t)', 'values that are all equal now') FROM gkmeans_refit('still_kinds', deploy => 'always');
SELECT is(centroid, '{0,123456789,10000,123456789.5}', 'are the centroid') FROM gkmeans_clusters('still_kinds');
CREATE TABLE gathering AS SELECT i AS id, (1.5e9 + i * 1e6)::float8 AS x FROM generate_series(1, 300) i;
SELECT gkmeans_create_model('gathering_kinds', 'gathering', '{x}', 3);
UPDATE gathering SET x = 1.75e9 + id % 3 * 20;
SELECT is(row(deployed, rows, inertia)::text, '(t,300,0)', 'times of years, and then of a minute') FROM gkmeans_refit('gathering_kinds');
SELECT is(array_agg(row(centroid, size)::text ORDER BY centroid), '{"({1750000000},100)","({1750000020},100)","({1750000040},100)"}', 'are told apart as well') FROM gkmeans_clusters('gathering_kinds');
SELECT is(outcome, 'as good as version 2, 0 rows moved, not deployed', 'from then on with the same shift') FROM gkmeans_refit('gathering_kinds');

-- Rows that stay where doubles are as far apart as they are, compared with centroids that are between doubles
CREATE TABLE coarse AS SELECT base, i AS id, base + i % 4 + i % 8 / 4 * 100 AS x, base + i % 3 AS y FROM unnest('{0,4503599627370496}'::bigint[]) base, generate_series(1, 840) i;
SELECT gkmeans_create_model(format('coarse_%s_%s', scale, left(base::text, 1)), format('SELECT x, y FROM gk_test.coarse WHERE base = %s', base), '{x,y}', 4, scale => scale, tol => 0)
FROM unnest('{none,standard,minmax}'::text[]) scale, unnest('{0,4503599627370496}'::bigint[]) base;
SELECT is(row(inertia_before = inertia, improvement, outcome)::text, '(t,0,"as good as version 1, 0 rows moved, not deployed")', 'none of them moves in a new scale: ' || scale)
FROM unnest('{none,standard,minmax}'::text[]) scale, gkmeans_refit(('coarse_' || scale || '_4')::regclass, rescale => true);
SELECT is(gkmeans_alter_model(format('coarse_%s_%s', scale, base)::regclass, jsonb_build_object('scale', other)) ->> 'scale', other) FROM unnest('{none,standard,minmax}'::text[], '{minmax,minmax,standard}'::text[]) s(scale, other), unnest('{0,4}'::int[]) base;
SELECT is(row(a.inertia_before, a.moved)::text, row(b.inertia_before, b.moved)::text, format('from %s to another scale, as those near zero', scale))
FROM unnest('{none,standard,minmax}'::text[]) scale, gkmeans_refit(format('coarse_%s_0', scale)::regclass) a, gkmeans_refit(format('coarse_%s_4', scale)::regclass) b;
SELECT gkmeans_create_model('epoch', 'SELECT 1.7e12::float8 + round(noise(i, 1) * 10) + i % 3 * 100 AS ms FROM generate_series(1, 900) i', '{ms}', 3);
SELECT is(improvement, 0::float8, 'milliseconds since 1970') FROM gkmeans_refit('epoch', rescale => true);

-- Centroids that are out of range in a new scale: of a placeholder that is cleaned away
CREATE TABLE soils AS SELECT i AS id, CASE WHEN i % 50 = 0 THEN 9.97e36 ELSE i % 20 * 0.001 END::float8 AS soil, i % 7 AS b FROM generate_series(1, 1000) i;
SET LOCAL client_min_messages = error;
SELECT gkmeans_create_model('soil_kinds', 'soils', '{soil,b}', 3, scale => 'standard', id_column => 'id', labels_table => 'soil_labels');
SET LOCAL client_min_messages = warning;
SELECT gkmeans_name_clusters('soil_kinds', '{one,two,three}');
DELETE FROM soils WHERE soil > 1e30;
SELECT is(row(status, deployed, inertia_before, improvement, moved, outcome)::text, '(fitted,f,,,,"centroids of version 1 lie too far from these rows to be compared, not deployed")', 'a refit that is not deployed')
FROM gkmeans_refit('soil_kinds', rescale => true, deploy => 'never', starts => 0);
SELECT is(count(*)::int, 980, 'labels of the deployed version') FROM soils s JOIN soil_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('soil_kinds', s);
SELECT is(row(status, deployed, inertia_before, improvement, moved, outcome)::text, '(fitted,t,,,,"centroids of version 1 lie too far from these rows to be compared")', 'and one that is: nothing is better or worse')
FROM gkmeans_refit('soil_kinds', rescale => true);
SELECT is(row(max(abs(c.centroid[1])) < 1, array_agg(c.name))::text, '(t,"{NULL,NULL,NULL}")', 'its clusters are new') FROM gkmeans_clusters('soil_kinds') c;
SELECT is(count(*)::int, 980, 'so are its labels') FROM soils s JOIN soil_labels l USING (id) WHERE l.cluster_id = gkmeans_predict('soil_kinds', s);
SELECT is(outcome, 'as good as version 3, 0 rows moved, not deployed', 'the next refit compares with it') FROM gkmeans_refit('soil_kinds', rescale => true);

-- 'auto' is the scale that it stands for
SELECT gkmeans_create_model('stands_for_standard', 'SELECT id, x, y FROM kinds', '{x,y}', 3, scale => 'auto');
SELECT gkmeans_create_model('stands_for_none', 'SELECT id, x FROM kinds', '{x}', 3, scale => 'auto');
SELECT gkmeans_alter_model('stands_for_standard', '{"scale": "standard"}'), gkmeans_alter_model('stands_for_none', '{"scale": null}');
SELECT is(status, 'checked', 'a definition that says the same in other words: ' || model) FROM unnest('{stands_for_standard,stands_for_none}'::regclass[]) model, gkmeans_refit(model, only_if_drift => 1);
UPDATE kinds SET x = x * 2;
SELECT gkmeans_refit('stands_for_standard', deploy => 'always');
SELECT is(b.scale_factor, a.scale_factor, 'keeps the scale') FROM stands_for_standard a, stands_for_standard b WHERE a.version = 1 AND b.deployed;
SELECT gkmeans_alter_model('stands_for_none', '{"scale": "standard"}');
SELECT is(row(status, psi IS NULL)::text, '(fitted,f)', 'with another one, drift decides nothing') FROM gkmeans_refit('stands_for_none', only_if_drift => 100);

-- A model whose rows a publication cannot identify once they change is refused before rows are read
CREATE TABLE unread (id int, x float8);
INSERT INTO unread SELECT i, i FROM generate_series(1, 9) i;
SELECT gkmeans_create_model('published_kinds', 'SELECT 1 / x AS x FROM unread', '{x}', 2);
UPDATE unread SET x = 0;
SET LOCAL client_min_messages = error;
CREATE PUBLICATION some_versions FOR TABLE published_kinds WHERE (status = 'fitted');
RESET client_min_messages;
SELECT fails_with($$SELECT gkmeans_refit('published_kinds')$$, '42P10', 'a refit', 'cannot update table "published_kinds"');
SELECT fails_with($$CALL gkmeans_refresh('published_kinds')$$, '42P10', 'a refresh', 'cannot update table "published_kinds"');
SELECT fails_with($$SELECT gkmeans_create_model('published_kinds', 'SELECT 1 / x AS x FROM unread', '{x}', 2, if_exists => 'replace')$$, '42P10', 'a replacement', 'cannot update table "published_kinds"');
SELECT fails_with($$SELECT gkmeans_refit('published_kinds', deploy => 'never')$$, '22012', 'a refit that deploys nothing reads them');
DROP PUBLICATION some_versions;
ALTER TABLE published_kinds REPLICA IDENTITY NOTHING;
SET LOCAL client_min_messages = error;
CREATE PUBLICATION deleted_versions FOR TABLE published_kinds WITH (publish = 'delete');
RESET client_min_messages;
SELECT fails_with($$SELECT gkmeans_refit('published_kinds', keep => 1)$$, '55000', 'a refit that would delete versions', 'cannot delete from table "published_kinds"');
SELECT fails_with($$SELECT gkmeans_refit('published_kinds')$$, '22012', 'and one that would not');
DROP PUBLICATION deleted_versions;

-- Rows that are read twice: by what the source is then, it may be another
CREATE SEQUENCE calls;
CREATE FUNCTION elements(i int, base float8, later int) RETURNS float8[] VOLATILE LANGUAGE sql AS $$ SELECT array_agg(base + i * j * 7 % 1301 + j) FROM generate_series(1, CASE WHEN nextval('gk_test.calls') <= 600 THEN 10 ELSE later END) j $$;
CREATE TABLE lengths (id int, base float8, later int);
INSERT INTO lengths SELECT i, 0, 10 FROM generate_series(1, 300) i;
SELECT setval('calls', 300, true);
SELECT gkmeans_create_model('by_scale', 'SELECT gk_test.elements(id, base, later) AS v FROM gk_test.lengths', '{v}', 100, scale => 'standard', quality => 'fast');
SELECT setval('calls', 300, true);
SELECT gkmeans_create_model('by_shift', 'SELECT gk_test.elements(id, base, later) AS v FROM gk_test.lengths', '{v}', 100, quality => 'fast');
UPDATE lengths SET base = 1e9;
CREATE FUNCTION read_with(later int, call text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM setval('gk_test.calls', 300, true); UPDATE gk_test.lengths l SET later = $1; EXECUTE call; END $$;
SELECT fails_with(format('SELECT read_with(%s, $q$SELECT gkmeans_refit(%L, rescale => %L, deploy => %L)$q$)', later, model, model = 'by_scale', deploy), '22000', format('arrays of %s elements in the second reading: %s, %s', later, model, deploy), 'the rows have ' || later || ' features, the model has 10')
FROM (VALUES (40), (4)) lengths(later), (VALUES ('by_scale'), ('by_shift')) models(model), unnest('{always,never}'::text[]) deploy;
SELECT lives_ok('SELECT read_with(10, $q$SELECT gkmeans_refit(''by_scale'', rescale => true)$q$)', 'of as many elements');
CREATE SCHEMA gk_early;
CREATE TABLE people (id int, x float8, y float8);
INSERT INTO people SELECT 2000000000 + i * 4, i % 10, i * 7 % 13 FROM generate_series(1, 100) i;
CREATE TABLE kept_labels (id int, cluster_id int);
CREATE FUNCTION changes(what text) RETURNS boolean VOLATILE LANGUAGE plpgsql AS $$ BEGIN
	IF current_setting('gk_test.changes', true) = 'on' AND to_regclass('gk_early.people') IS NULL THEN
		CREATE TABLE gk_early.people AS SELECT id::text AS id, x, y FROM gk_test.people;
		ALTER TABLE gk_test.kept_labels ALTER id TYPE text;
	END IF;
	RETURN true;
END $$;
SET LOCAL search_path = gk_early, gk_test, public;
SELECT gkmeans_create_model('gk_test.of_people', 'SELECT id, x, y FROM people WHERE gk_test.changes(id::text)', '{x,y}', 2, id_column => 'id', scale => 'standard', labels_table => 'gk_test.kept_labels', labels_mode => 'delete');
SET LOCAL gk_test.changes = 'on';
SELECT fails_with($$SELECT gkmeans_refit('of_people', rescale => true, deploy => 'never')$$, '40001', 'ids of another type in the second reading', 'source changed between two readings');
SET LOCAL search_path = gk_test, public;
SET LOCAL gk_test.changes = 'off';
CREATE FUNCTION grants() RETURNS boolean VOLATILE LANGUAGE plpgsql AS $$ BEGIN GRANT SELECT ON gk_test.people TO PUBLIC; RETURN true; END $$;
SELECT gkmeans_create_model('of_granted', 'SELECT x, y FROM gk_test.people, (SELECT gk_test.grants()) AS granted', '{x,y}', 2, scale => 'standard');
SELECT lives_ok($$SELECT gkmeans_refit('of_granted', rescale => true)$$, 'a GRANT since the first reading');
CREATE OR REPLACE FUNCTION grants() RETURNS boolean VOLATILE LANGUAGE plpgsql AS $$ BEGIN ALTER FUNCTION gk_test.grants() COST 101; RETURN true; END $$;
SELECT fails_with($$SELECT gkmeans_refit('of_granted', rescale => true)$$, '40001', 'a function that was altered since the first reading', 'source changed between two readings');

-- A plan of the second reading that reads a table as often as costs suggest then
CREATE TABLE costly (id int PRIMARY KEY, x float8);
INSERT INTO costly VALUES (1, 1);
ANALYZE costly;
CREATE FUNCTION grow(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF id = 2000000004 AND current_setting('gk_test.grows', true) = 'on' THEN INSERT INTO gk_test.costly SELECT i, i FROM generate_series(2, 20000) i ON CONFLICT DO NOTHING; END IF;
	RETURN id; END $$;
SELECT gkmeans_create_model('of_costly', 'SELECT grow(id) AS id, x - (SELECT min(id) FROM costly) AS x, y FROM people', '{x,y}', 2, scale => 'standard');
SET LOCAL gk_test.grows = 'on';
SELECT lives_ok($$SELECT gkmeans_refit('of_costly', rescale => true)$$, 'a table that grows between two readings');
-- Names that mean other tables in the second reading, because the user became member of a role
CREATE ROLE gk_joiner;
CREATE ROLE gk_joined;
CREATE SCHEMA gk_of_joined;
GRANT USAGE ON SCHEMA gk_of_joined TO gk_joined;
GRANT ALL ON SCHEMA gk_test TO gk_joiner;
CREATE TABLE gk_of_joined.joints AS SELECT i AS id, i % 3 * 10 AS x FROM generate_series(1, 30) i;
CREATE TABLE joints AS SELECT i AS id, i % 4 * 100 AS x FROM generate_series(1, 40) i;
GRANT SELECT ON joints, gk_of_joined.joints TO PUBLIC;
CREATE FUNCTION join_role(id int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
	IF id = 1 AND current_setting('gk_test.joins', true) = 'on' THEN
		GRANT gk_joined TO gk_joiner; CREATE SCHEMA gk_made; DROP SCHEMA gk_made;
	END IF;
	RETURN id; END $$;
SET LOCAL search_path = gk_of_joined, gk_test, public;
SET LOCAL ROLE gk_joiner;
SELECT gkmeans_create_model('gk_test.of_joints', 'SELECT join_role(id) AS id, x FROM joints', '{x}', 3, id_column => 'id', scale => 'standard');
RESET ROLE;
SET LOCAL search_path = gk_test, public;
SELECT lives_ok($$SELECT gkmeans_refit('of_joints', rescale => true)$$, 'two readings of a table');
SET LOCAL gk_test.joins = 'on';
SELECT fails_with($$SELECT gkmeans_refit('of_joints', rescale => true)$$, '40001', 'the second one of another', 'source changed between two readings');
SET LOCAL gk_test.joins = 'off';
REVOKE gk_joined FROM gk_joiner;
CREATE FUNCTION read_joints(OUT id int, OUT x int) RETURNS SETOF record STABLE LANGUAGE sql AS 'SELECT id, x FROM joints';
CREATE VIEW counted_joints AS SELECT count(*) AS joints FROM gk_of_joined.joints;
GRANT SELECT ON counted_joints TO PUBLIC;
SET LOCAL search_path = gk_of_joined, gk_test, public;
SET LOCAL ROLE gk_joiner;
SELECT gkmeans_create_model('gk_test.of_read_joints', 'SELECT gk_test.join_role(id) AS id, x FROM gk_test.read_joints(), gk_test.counted_joints', '{x}', 3, id_column => 'id', scale => 'standard');
RESET ROLE;
SET LOCAL search_path = gk_test, public;
SELECT lives_ok($$SELECT gkmeans_refit('of_read_joints', rescale => true)$$, 'two readings of a table in a function that is inlined');
SET LOCAL gk_test.joins = 'on';
SELECT fails_with($$SELECT gkmeans_refit('of_read_joints', rescale => true)$$, '40001', 'the second one of another by its name there', 'source changed between two readings');
SET LOCAL gk_test.joins = 'off';
REVOKE gk_joined FROM gk_joiner;

-- A source that makes a schema of its search_path at each reading, or at the first one
CREATE FUNCTION stage(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF id = 1 THEN DROP SCHEMA IF EXISTS gk_staging; CREATE SCHEMA gk_staging; CREATE SCHEMA IF NOT EXISTS gk_staged; END IF;
	RETURN id; END $$;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = gk_staging, gk_staged, gk_test, public;
SELECT gkmeans_create_model('gk_test.of_staged', 'SELECT stage(id) AS id, x FROM joints', '{x}', 2, scale => 'standard');
SELECT lives_ok($$SELECT gkmeans_refit('gk_test.of_staged', rescale => true)$$, 'a schema that each reading makes anew');
DROP SCHEMA gk_staging, gk_staged;
SELECT lives_ok($$SELECT gkmeans_refit('gk_test.of_staged', rescale => true)$$, 'a schema that the first reading makes');
CREATE SCHEMA gk_staged_before;
CREATE FUNCTION gk_test.unstage(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF id = 1 THEN DROP SCHEMA IF EXISTS gk_staged_before; END IF;
	RETURN id; END $$;
SET LOCAL search_path = gk_staged_before, gk_test, public;
SELECT gkmeans_alter_model('gk_test.of_staged', '{"source": "SELECT unstage(id) AS id, x FROM joints"}');
SELECT lives_ok($$SELECT gkmeans_refit('gk_test.of_staged', rescale => true)$$, 'a schema that the first reading drops');
SET LOCAL search_path = gk_test, public;
RESET client_min_messages;

CREATE TABLE joint_kinds AS SELECT i AS id, i % 4 * 100 AS x, CASE WHEN i % 2 = 0 THEN 'gk_test.joints'::regclass ELSE 'gk_of_joined.joints' END AS kind FROM generate_series(1, 40) i;
GRANT SELECT ON joint_kinds TO PUBLIC;
SET LOCAL search_path = gk_of_joined, gk_test, public;
SET LOCAL ROLE gk_joiner;
SELECT gkmeans_create_model('gk_test.of_kinds', 'SELECT join_role(row_number() OVER ()::int) AS id, x FROM joint_kinds WHERE kind = ''joints''::regclass', '{x}', 2, id_column => 'id', scale => 'standard');
RESET ROLE;
SET LOCAL search_path = gk_test, public;
SELECT lives_ok($$SELECT gkmeans_refit('of_kinds', rescale => true)$$, 'two readings with a constant');
SET LOCAL gk_test.joins = 'on';
SELECT fails_with($$SELECT gkmeans_refit('of_kinds', rescale => true)$$, '40001', 'which names another table', 'source changed between two readings');

-- A table that a function which the planner calls writes anew before the second reading of a refit
CREATE TABLE first_half AS SELECT i AS id, i % 3 * 100.0 + i % 7 AS x, i * 2.0 AS y FROM generate_series(1, 30) AS i;
CREATE TABLE second_half AS SELECT i + 30 AS id, x, y FROM first_half, LATERAL (SELECT id AS i) AS numbered;
CREATE SEQUENCE rewrites;
CREATE FUNCTION rewrite_at() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('rewrites') = 1000 THEN ALTER TABLE first_half SET UNLOGGED; END IF;
	RETURN 0;
END $$;
CREATE FUNCTION planned_zero() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN rewrite_at(); END $$;
SELECT gkmeans_create_model('halves', 'SELECT id, x, y FROM first_half WHERE planned_zero() = 0 UNION ALL SELECT id, x, y FROM second_half', '{x,y}', 3, scale => 'standard', id_column => 'id', labels_table => 'half_labels');
CREATE FUNCTION refit_at(calls int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	PERFORM setval('rewrites', 1000 - calls);
	RAISE '% rows', (SELECT rows FROM gkmeans_refit('halves', rescale => true, deploy => 'always'));
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;
SELECT is(array_agg(DISTINCT refit_at(calls) ORDER BY refit_at(calls)), '{60 rows,source changed between two readings}', 'all rows of a table that is written anew, or none') FROM generate_series(1, 6) AS calls;

-- A night with few different rows takes no clusters for good, whatever says how many there are to be
CREATE TABLE steps AS SELECT i AS id, i % 5 * 10 AS x FROM generate_series(1, 100) AS i;
CREATE TABLE more_steps AS SELECT * FROM steps WHERE x > 10;
SELECT gkmeans_import_model('steps_imported', '{{0},{10},{20},{30},{40}}', '{x}', source => 'steps');
SELECT gkmeans_import_model('steps_restored', exported => gkmeans_export('steps_imported')::jsonb, source => 'steps');
SELECT gkmeans_create_model('steps_replaced', 'steps', '{x}', 3);
SELECT gkmeans_import_model('steps_replaced', '{{0},{10},{20},{30},{40}}', '{x}', if_exists => 'replace');
SELECT gkmeans_create_model('steps_given', 'steps', '{x}', initial_centroids => '{{0},{10},{20},{30},{40}}');
SELECT gkmeans_create_model('steps_chosen', 'steps', '{x}', k_candidates => '{2,5}', n_init => 4, criterion => 'bic');
DELETE FROM steps WHERE x > 10;
SELECT gkmeans_create_model('steps_few', 'steps', '{x}', initial_centroids => '{{0},{10},{20},{30},{40}}');
SELECT gkmeans_create_model('steps_scarce', 'steps', '{x}', k_candidates => '{5,7}');
SELECT is(definition ->> 'k', '5', 'the version notes the candidate that was chosen for it') FROM steps_scarce;
SELECT is(gkmeans_alter_model('steps_scarce', '{}') -> 'k', NULL, 'and the definition of the model does not');
CREATE FUNCTION step_clusters(model regclass) RETURNS bigint LANGUAGE sql AS $$ SELECT gkmeans_refit(model, deploy => 'always', keep => 1); SELECT count(*) FROM gkmeans_clusters(model) $$;
CREATE TABLE step_models AS SELECT unnest('{steps_imported,steps_restored,steps_replaced,steps_given,steps_chosen,steps_few,steps_scarce}'::regclass[]) AS model;
SELECT is(step_clusters(model), 2::bigint, format('%s: few different rows, night %s', model, night)) FROM step_models, generate_series(1, 2) AS night;
INSERT INTO steps SELECT * FROM more_steps;
SELECT is(step_clusters(model), 5::bigint, model || ': all rows again') FROM step_models;
-- k of a version's own copy of the definition may be the choice of a role that can merely write it
UPDATE steps_chosen SET definition = definition || '{"k": 60}' WHERE deployed;
SELECT is(step_clusters('steps_chosen'), 5::bigint, 'no other k than the candidates');

SELECT * FROM finish();
ROLLBACK;
