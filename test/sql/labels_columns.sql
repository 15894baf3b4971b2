-- The columns that a labels table may have, its comments and statistics, and the table of changes.
\ir helpers.psql
\set iris `cat data/iris.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS a, f[3]::float8 AS b, f[4]::float8 AS c, f[5]::float8 AS d FROM csv_lines(:'iris') f;
CREATE TABLE grid AS SELECT i AS id, (i % 5)::float8 AS a, (i / 5 % 5)::float8 AS b, (i / 25 % 5)::float8 AS c, (i % 3)::float8 AS d FROM generate_series(0, 374) i;
CREATE FUNCTION make_table(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY, mine text DEFAULT ''new'', anomaly_percentile float8, cluster_id int, second_distance float8, name text,
		second_cluster_id int, distance float8, version int, labelled_at timestamptz, anomaly_score float8)', name);
END $$;
-- What gkmeans_score says of the same rows: every column must agree bit for bit.
CREATE FUNCTION agrees(labels text, model text, source text, number int, name text) RETURNS text LANGUAGE sql AS $$
	SELECT set_eq(format('SELECT id, cluster_id, name, distance, second_cluster_id, second_distance, anomaly_score, anomaly_percentile, version FROM %I', labels),
		format('SELECT id, s.cluster_id, s.name, s.distance, s.second_cluster_id, s.second_distance, s.anomaly_score, s.anomaly_percentile, %s FROM %I t, LATERAL gkmeans_score(%L, t) s', number, source, model), name)
$$;

-- By a model: made with it, and by gkmeans_assign
CREATE FUNCTION compare(source text, arguments text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM make_table('made'), make_table('assigned');
	EXECUTE format('SELECT FROM gkmeans_create_model(''model'', %L, ''{a,b,c,d}'', 7, id_column => ''id'', labels_table => ''made'', %s)', source, arguments);
	RETURN NEXT agrees('made', 'model', source, 1, format('%s, %s: gkmeans_create_model', source, arguments));
	PERFORM gkmeans_assign('model', source, 'id', 'assigned');
	RETURN NEXT agrees('assigned', 'model', source, 1, format('%s, %s: gkmeans_assign', source, arguments));
	DROP TABLE model, made, assigned;
END $$;
SET LOCAL client_min_messages = error;
SELECT compare(source, format('scale => %L, metric => %L', scale, metric)) FROM unnest('{iris,grid}'::text[]) source, unnest('{none,standard}'::text[]) scale, unnest('{euclidean,cosine}'::text[]) metric;
SELECT compare('grid', 'initial_centroids => ''{{4,4,4,2},{0,0,0,0},{2,2,2,1},{0,4,0,1},{900,0,0,0},{4,0,4,1},{4,4,0,0}}'', max_iter => 2');
SET LOCAL client_min_messages = warning;
SELECT make_table('labels');
SELECT gkmeans_create_model('m', 'iris', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'labels');
SELECT gkmeans_name_clusters('m', '{one,NULL,three}');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'iris', 'id', 'labels') s), (SELECT format('(150,150,0,%s,0)', count(*)) FROM labels WHERE cluster_id IN (0, 2)), 'names that are new are written, where they are');
SELECT agrees('labels', 'm', 'iris', 1, 'with names');
SELECT ok(bool_and(mine = 'new'), 'other columns are left alone') FROM labels;
SELECT gkmeans_import_model('one', '{{5,5,5,5}}', '{a,b,c,d}');
SELECT make_table('labels_of_one');
SELECT gkmeans_assign('one', 'SELECT id, nullif(a, 5) AS a, b, c, d FROM iris', 'id', 'labels_of_one');
SELECT is((SELECT count(*)::int FROM labels_of_one WHERE second_cluster_id IS NULL AND second_distance IS NULL AND anomaly_score IS NULL AND anomaly_percentile IS NULL AND version = 1 AND labelled_at IS NOT NULL), 150, 'one cluster has no second one, an imported model no scores');
SELECT is((SELECT count(*)::int FROM labels_of_one WHERE name = 'cluster 0' AND distance > 0), (SELECT count(*)::int FROM iris WHERE a <> 5), 'what is known is there');
SELECT is((SELECT count(*)::int FROM labels_of_one WHERE num_nulls(cluster_id, name, distance) = 3), (SELECT count(*)::int FROM iris WHERE a = 5), 'a row that cannot be labelled has no more than its id, version and time');

-- Plain fits: without versions and names, which are left alone; the rest as a model would say
SELECT make_table('plain');
INSERT INTO plain (id, name, version) VALUES (1, 'a name', 77);
SELECT gkmeans_fit('iris', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'plain', if_exists => 'merge');
SELECT set_eq('SELECT id, cluster_id, distance, second_cluster_id, second_distance, anomaly_score, anomaly_percentile FROM plain', 'SELECT id, cluster_id, distance, second_cluster_id, second_distance, anomaly_score, anomaly_percentile FROM labels', 'gkmeans_fit: the same figures');
SELECT is((SELECT array_agg(row(name, version)::text ORDER BY id) FROM plain WHERE id <= 2), ARRAY['("a name",77)', '(,)'], 'name and version are left alone');
SELECT make_table('plain_too');
CREATE TABLE predicted AS SELECT * FROM gkmeans_fit_predict(NULL::int, 'iris', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'plain_too', if_exists => 'merge');
SELECT set_eq('SELECT id, cluster_id, distance FROM predicted', 'SELECT id, cluster_id, distance FROM plain', 'gkmeans_fit_predict returns the labels');
SELECT set_eq('SELECT id, cluster_id, distance, second_cluster_id, second_distance, anomaly_score, anomaly_percentile FROM plain_too', 'SELECT id, cluster_id, distance, second_cluster_id, second_distance, anomaly_score, anomaly_percentile FROM plain', 'and writes the same figures');
CREATE TABLE score_alone (id int PRIMARY KEY, cluster_id int, anomaly_score float8);
SELECT gkmeans_fit('iris', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'score_alone', if_exists => 'append');
SELECT set_eq('TABLE score_alone', 'SELECT id, cluster_id, anomaly_score FROM plain', 'one of the columns alone');

-- A row is written only where something differs; the time is that of its last change
CREATE TABLE before AS SELECT id, xmin::text AS writer, labelled_at FROM labels;
SELECT pg_sleep(0.001);
SELECT is((SELECT updated FROM gkmeans_assign('m', 'iris', 'id', 'labels')), 0::bigint, 'nothing differs');
SELECT set_eq('SELECT id, xmin::text AS writer, labelled_at FROM labels', 'TABLE before', 'nothing is written, nor is the time');
UPDATE labels SET cluster_id = 9 WHERE id = 7;
SELECT is((SELECT updated FROM gkmeans_assign('m', 'iris', 'id', 'labels')), 1::bigint, 'one row differs');
SELECT is((SELECT array_agg(id) FROM labels l JOIN before b USING (id) WHERE l.labelled_at > b.labelled_at), '{7}', 'its time is new');
CREATE TABLE moves_only (id int PRIMARY KEY, cluster_id int, labelled_at timestamptz);
SELECT gkmeans_assign('m', 'iris', 'id', 'moves_only');
SELECT is((SELECT row(s.*)::text FROM gkmeans_assign('m', 'SELECT id, a + CASE WHEN id = 1 THEN 100 ELSE 0.01 END AS a, b, c, d FROM iris', 'id', 'moves_only') s), '(150,150,0,1,0)', 'without a distance only a row that moved is written');

-- Columns of another type, and ids that are called like one of the columns
CREATE FUNCTION run(command text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; END $$;
CREATE TABLE types AS SELECT * FROM (VALUES ('distance', 'real'), ('name', 'varchar'), ('second_cluster_id', 'bigint'), ('second_distance', 'numeric'), ('anomaly_score', 'real'), ('anomaly_percentile', 'real'), ('version', 'text'), ('labelled_at', 'timestamp')) t(name, type);
SELECT run(format('CREATE TABLE wrong_%s (id int PRIMARY KEY, cluster_id int, %s %s)', name, name, type)) FROM types;
SELECT fails_with(format('SELECT gkmeans_assign(''m'', ''iris'', ''id'', %L)', 'wrong_' || name), '42804', format('%s %s', name, type), format('column "%s" of table "wrong_%s" has the wrong type', name, name)) FROM types;
SELECT is((SELECT inserted FROM gkmeans_assign('m', 'SELECT id::text AS name, * FROM iris', 'name', 'named_ids')), 150::bigint, 'ids called name') FROM (SELECT run('CREATE TABLE named_ids (name text PRIMARY KEY, cluster_id int)')) made;
SELECT set_eq('TABLE named_ids', 'SELECT id::text, cluster_id FROM labels', 'are the ids');
SELECT is((SELECT inserted FROM gkmeans_assign('m', 'SELECT ''row '' || id AS name, * FROM iris', 'name', 'both_names')), 150::bigint, 'ids called name beside an id') FROM (SELECT run('CREATE TABLE both_names (id text PRIMARY KEY, cluster_id int, name text)')) made;
SELECT set_eq('TABLE both_names', 'SELECT ''row '' || id, cluster_id, name FROM labels', 'leave the name to the clusters');
SELECT fails_with(format($$SELECT gkmeans_fit('iris', '{a}', 3, id_column => 'id', labels_table => 'x', options => '{"id_name": "%s"}')$$, name), '22023', 'a table is made without ids called ' || name, 'name of another column') FROM types;

-- Comments and statistics
SELECT gkmeans_assign('m', 'SELECT id AS "The Id", * FROM iris', 'The Id', 'fresh');
SELECT isnt(obj_description('fresh'::regclass, 'pg_class'), NULL, 'a table that is made has a comment');
SELECT is((SELECT count(*)::int FROM pg_attribute WHERE attrelid = 'fresh'::regclass AND attnum > 0 AND col_description(attrelid, attnum) <> ''), 3, 'and each of its columns');
SELECT is((SELECT reltuples FROM pg_class WHERE oid = 'fresh'::regclass), 150::real, 'the planner knows how many rows it has');
SELECT is((SELECT count(*)::int FROM pg_stats WHERE schemaname = 'gk_test' AND tablename = 'fresh'), 3, 'and what they are like');
SELECT is(obj_description('labels'::regclass, 'pg_class'), NULL, 'one that was there has none');
SELECT is((SELECT n_distinct FROM pg_stats WHERE schemaname = 'gk_test' AND tablename = 'labels' AND attname = 'cluster_id'), 3::real, 'but statistics');
CREATE ROLE gk_other_writer;
GRANT USAGE ON SCHEMA gk_test TO gk_other_writer;
GRANT SELECT ON m, iris TO gk_other_writer;
CREATE TABLE of_another (id int PRIMARY KEY, cluster_id int, distance float8);
GRANT SELECT, INSERT, UPDATE, DELETE ON of_another TO gk_other_writer;
SET LOCAL ROLE gk_other_writer;
SET LOCAL client_min_messages = warning;
SELECT is((SELECT inserted FROM gkmeans_assign('m', 'iris', 'id', 'of_another')), 150::bigint, 'who does not own the table writes it');
RESET ROLE;
SELECT is((SELECT reltuples FROM pg_class WHERE oid = 'of_another'::regclass), (-1)::real, 'without statistics');

-- Changes: they add up to the difference of two sets of labels
CREATE TABLE tracked (id int PRIMARY KEY, cluster_id int);
CREATE TABLE steps (step int PRIMARY KEY, source text);
INSERT INTO steps VALUES (1, 'SELECT * FROM iris WHERE id <= 100'), (2, 'SELECT id, CASE WHEN id % 7 = 0 THEN a + 3 ELSE a END AS a, b, c, d FROM iris WHERE id > 20'),
	(3, 'SELECT id, CASE WHEN id % 11 <> 0 THEN a END AS a, b, c, d FROM iris'), (4, 'SELECT * FROM iris WHERE false'), (5, 'SELECT id, c AS a, b, a AS c, d FROM iris'), (6, 'SELECT id, c AS a, b, a AS c, d FROM iris');
CREATE TABLE states (step int, id int, cluster_id int);
CREATE FUNCTION take_steps() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE s record; counted bigint;
BEGIN
	FOR s IN SELECT * FROM steps ORDER BY step LOOP
		SELECT count(*) INTO counted FROM changes;
		PERFORM gkmeans_assign('m', s.source, 'id', 'tracked', changes_table => 'changes');
		INSERT INTO states SELECT s.step, * FROM tracked;
		RETURN NEXT (SELECT count(*) FROM changes) - counted;
	END LOOP;
END $$;
SELECT gkmeans_assign('m', 'SELECT * FROM iris WHERE false', 'id', 'tracked', changes_table => 'changes');
SELECT columns_are('gk_test', 'changes', '{id,from_cluster_id,to_cluster_id,version,changed_at}'::name[], 'the table of changes is made');
SELECT is((SELECT count(*)::int FROM pg_attribute WHERE attrelid = 'changes'::regclass AND attnum > 0 AND col_description(attrelid, attnum) <> ''), 5, 'with comments');
CREATE TABLE counts AS SELECT row_number() OVER () AS step, n FROM take_steps() n;
-- a row that is not there is in no cluster, as one that could not be clustered
CREATE FUNCTION differences(old int, new int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (SELECT * FROM states WHERE step = old) o FULL JOIN (SELECT * FROM states WHERE step = new) n USING (id) WHERE o.cluster_id IS DISTINCT FROM n.cluster_id
$$;
SELECT is((SELECT array_agg(n ORDER BY step) FROM counts), (SELECT array_agg(differences(step - 1, step) ORDER BY step) FROM steps), 'as many changes as rows that differ');
SELECT is((SELECT n FROM counts WHERE step = 6), 0::bigint, 'none where nothing differs');
CREATE FUNCTION state_by_changes(until int) RETURNS TABLE (id int, cluster_id int) LANGUAGE sql AS $$
	SELECT DISTINCT ON (id) id, to_cluster_id FROM (SELECT c.*, dense_rank() OVER (ORDER BY changed_at) AS step FROM changes c) c WHERE step <= until ORDER BY id, step DESC
$$;
SELECT set_eq(format('SELECT * FROM state_by_changes(%s) WHERE cluster_id IS NOT NULL', step), format('SELECT id, cluster_id FROM states WHERE step = %s AND cluster_id IS NOT NULL', step), format('the changes add up to step %s', step)) FROM generate_series(1, 5) step;
SELECT is((SELECT count(*)::int FROM (SELECT from_cluster_id, lag(to_cluster_id) OVER (PARTITION BY id ORDER BY changed_at) AS before FROM changes) c WHERE from_cluster_id IS DISTINCT FROM before), 0, 'each goes on from the one before');
SELECT is((SELECT array_agg(DISTINCT version) FROM changes), '{1}', 'with the version');
SELECT is((SELECT count(*)::int FROM changes WHERE from_cluster_id IS NOT DISTINCT FROM to_cluster_id), 0, 'none without a difference');
SELECT gkmeans_assign('m', 'SELECT id AS "The Id", * FROM iris', 'The Id', 'named', changes_table => '"Changes of 2"') FROM (SELECT run('CREATE TABLE named ("The Id" int PRIMARY KEY, cluster_id int, version int, labelled_at timestamptz)')) made;
SELECT set_eq('SELECT "The Id", to_cluster_id, version, changed_at FROM "Changes of 2" WHERE from_cluster_id IS NULL', 'TABLE named', 'ids of another name; changed_at is labelled_at');
SELECT gkmeans_create_model('m2', 'iris', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'labels_of_m2', changes_table => 'changes_of_m2');
SELECT set_eq('SELECT id, NULL::int, cluster_id, 1 FROM labels_of_m2', 'SELECT id, from_cluster_id, to_cluster_id, version FROM changes_of_m2', 'gkmeans_create_model: all rows came');
SELECT gkmeans_create_model('m2', 'iris', '{a,b}', 3, id_column => 'id', labels_table => 'labels_of_m2', changes_table => 'changes_of_m2', if_exists => 'replace');
SELECT is((SELECT array_agg(DISTINCT version) FROM changes_of_m2), '{1,2}', 'the next version');
SELECT is((SELECT count(*)::int FROM (SELECT id, (array_agg(to_cluster_id ORDER BY version DESC))[1] AS cluster_id FROM changes_of_m2 GROUP BY id) c JOIN labels_of_m2 USING (id, cluster_id)), 150, 'adds up');
CREATE FUNCTION assign_with(changes text, mode text DEFAULT 'merge') RETURNS text LANGUAGE sql AS $$ SELECT format('SELECT gkmeans_assign(''m'', ''iris'', ''id'', ''tracked'', %L, %L)', mode, changes) $$;
CREATE TABLE too_few (id int, from_cluster_id int, to_cluster_id int, version int);
CREATE TABLE wrong_type (id int, from_cluster_id int, to_cluster_id bigint, version int, changed_at timestamptz);
CREATE TABLE wrong_id (id text, from_cluster_id int, to_cluster_id int, version int, changed_at timestamptz);
CREATE VIEW a_view AS TABLE changes;
SELECT fails_with(assign_with('too_few'), '42703', 'a table of changes that lacks a column', 'no column "changed_at"', NULL, 'columns id, from_cluster_id, to_cluster_id, version and changed_at');
SELECT fails_with(assign_with(name), '42804', name, 'has the wrong type') FROM unnest('{wrong_type,wrong_id}'::text[]) name;
SELECT fails_with(assign_with('a_view'), '42809', 'a view');
SELECT fails_with(assign_with('tracked'), '22023', 'the labels table itself', 'the same table');
CREATE TABLE child_changes (from_cluster_id int, to_cluster_id int, changed_at timestamptz, version int) INHERITS (tracked);
SELECT fails_with(assign_with('child_changes'), '22023', 'a child of the labels table', 'share rows');
ALTER TABLE child_changes NO INHERIT tracked;
CREATE FUNCTION attach(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF id = 1 THEN ALTER TABLE child_changes INHERIT tracked; END IF; RETURN id; END $$;
SELECT fails_with($$SELECT gkmeans_assign('m', 'SELECT attach(id) AS id, a, b, c, d FROM iris', 'id', 'tracked', 'merge', 'child_changes')$$, '22023', 'one that becomes a child meanwhile', 'share rows');
DROP TABLE child_changes;
SELECT fails_with(assign_with('changes', mode), '22023', 'mode ' || mode, 'labels_mode') FROM unnest('{delete,replace,append}'::text[]) mode;
SELECT fails_with($$SELECT gkmeans_create_model('m3', 'iris', '{a}', 2, changes_table => 'x')$$, '22023', 'changes without labels', 'needs a labels_table');
SELECT fails_with($$SELECT gkmeans_assign('m', 'SELECT id AS version, * FROM iris', 'version', 'ids_of_version', changes_table => 'x')$$, '42701', 'ids called like a column of changes', '"version"') FROM (SELECT run('CREATE TABLE ids_of_version (version int PRIMARY KEY, cluster_id int)')) made;
GRANT ALL ON tracked TO gk_other_writer;
GRANT SELECT ON changes, labels TO gk_other_writer;
SET LOCAL ROLE gk_other_writer;
SELECT fails_with($$SELECT gkmeans_assign('m', 'SELECT id, 1 / (id - 7) AS a, b, c, d FROM iris', 'id', 'tracked', changes_table => 'changes')$$, '42501', 'no INSERT on the changes, before the rows are read', 'permission denied for table changes');
SELECT fails_with($$SELECT gkmeans_assign('m', 'SELECT id, 1 / (id - 7) AS a, b, c, d FROM iris', 'id', 'tracked', changes_table => 'other_changes')$$, '42501', 'no CREATE on the schema', 'permission denied for schema');
RESET ROLE;
GRANT INSERT ON changes TO gk_other_writer;
SET LOCAL ROLE gk_other_writer;
SELECT is((SELECT updated FROM gkmeans_assign('m', 'iris', 'id', 'tracked', changes_table => 'changes')), (SELECT count(*) FROM labels l JOIN tracked t USING (id) WHERE l.cluster_id <> t.cluster_id), 'INSERT is enough');
RESET ROLE;

-- Refits: by the version that is deployed then, with its names
CREATE TABLE moving AS SELECT * FROM iris;
SELECT make_table('refitted');
SELECT gkmeans_create_model('r', 'moving', '{a,b,c,d}', 3, id_column => 'id', labels_table => 'refitted', changes_table => 'moves_of_r');
SELECT gkmeans_name_clusters('r', '{one,NULL,three}');
UPDATE moving SET a = a + id / 50.0, c = c - id % 3;
SELECT is((SELECT row(version, deployed)::text FROM gkmeans_refit('r', deploy => 'always')), '(2,t)', 'a refit');
SELECT agrees('refitted', 'r', 'moving', 2, 'its labels are those of version 2');
UPDATE moving SET b = b + id % 7;
SELECT is((SELECT row(version, deployed)::text FROM gkmeans_refit('r', deploy => 'never')), '(3,f)', 'one that is not deployed');
SELECT agrees('refitted', 'r', 'moving', 2, 'the labels are those of version 2');
SELECT gkmeans_alter_model('r', '{"k": 5, "n_init": 4, "scale": "standard", "metric": "cosine"}');
SELECT is((SELECT row(version, deployed)::text FROM gkmeans_refit('r', deploy => 'always')), '(4,t)', 'other clusters');
SELECT agrees('refitted', 'r', 'moving', 4, 'the labels are those of version 4');
SELECT is((SELECT count(*)::int FROM (SELECT DISTINCT ON (id) id, to_cluster_id AS cluster_id FROM moves_of_r ORDER BY id, changed_at DESC) c JOIN refitted USING (id, cluster_id)), 150, 'the changes add up');

SELECT nothing_left('nothing is left of these fits');
SELECT * FROM finish();
ROLLBACK;
