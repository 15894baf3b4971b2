-- Versions of a model: deploy, rollback, prune, names.
\ir helpers.psql

SELECT gkmeans_import_model('m', '{{0},{10}}');
CREATE FUNCTION make(n int) RETURNS void LANGUAGE sql AS $$ SELECT gkmeans_import_model('m', ARRAY[[0.0], [n * 10.0]], if_exists => 'replace', note => 'number ' || n) $$;
CREATE FUNCTION deployed() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(version::text, ',') FROM m WHERE deployed $$;
SELECT make(2);
SELECT make(3);
SELECT is(deployed(), '3', 'the newest is deployed');
SELECT is(gkmeans_deploy('m', 1), 3, 'gkmeans_deploy returns the version before');
SELECT is(deployed(), '1', 'and deploys');
SELECT is(gkmeans_distance('m', 30), 20::float8, 'it scores');
SELECT is(gkmeans_deploy('m', 1), 1, 'once more changes nothing');
SELECT is(gkmeans_rollback('m'), 3, 'gkmeans_rollback returns to the one before');
SELECT is(gkmeans_distance('m', 30), 0::float8, 'which scores');
SELECT is(gkmeans_rollback('m'), 2, 'again: the one before that');
SELECT fails_with($$SELECT gkmeans_rollback('m')$$, '55000', 'version 1 was withdrawn: there is none before', 'deployed before', NULL, 'gkmeans_deploy');
SELECT is(deployed(), '2', 'nothing was changed');
SELECT is(gkmeans_deploy('m', 3), 2, 'deploy after rollback');
SELECT is(gkmeans_rollback('m'), 2, 'rollback goes to what was deployed before');
UPDATE m SET deployed = NULL WHERE deployed;
SELECT is(gkmeans_deploy('m', 1), NULL, 'none was deployed');
SELECT fails_with($$SELECT gkmeans_deploy('m', 7)$$, '42704', 'a version that is not there', 'no version 7', NULL, '1, 2, 3');
SELECT fails_with(call, '42704', 'version 0 is none: ' || call, 'no version 0$') FROM unnest(ARRAY['SELECT gkmeans_deploy(''m'', 0)', 'SELECT gkmeans_clusters(''m'', 0)', 'SELECT gkmeans_plot(''m'', version => 0)']) call;
INSERT INTO m (version, group_no, part, status) VALUES (4, 0, 0, 'failed');
SELECT fails_with('SELECT ' || call, '55000', 'a version without centroids: ' || call, 'no centroids')
FROM unnest(ARRAY['gkmeans_deploy(''m'', 4)', 'gkmeans_clusters(''m'', 4)', 'gkmeans_centroids(''m'', 4)', 'gkmeans_export(''m'', ''json'', 4)', 'gkmeans_predict_rows(NULL::int, ''m'', ''SELECT 1 AS id, 2 AS x'', ''id'', 4)']) call;
SELECT is(deployed(), '1', 'nothing was changed by these');

-- Prune
SELECT make(n) FROM generate_series(5, 9) n;
SELECT is(array_agg(version ORDER BY version), '{1,2,3,4,5,6,7,8,9}', 'nine versions') FROM m;
SELECT gkmeans_deploy('m', 6);
SELECT is(gkmeans_prune('m'), 0, 'ten are kept by default');
SELECT is(gkmeans_prune('m', NULL), 0, 'NULL means that default');
SELECT fails_with('SELECT gkmeans_prune(NULL)', '22004', 'no model');
SELECT is(gkmeans_prune('m', 2), 6, 'gkmeans_prune returns how many it deleted');
SELECT is(array_agg(version ORDER BY version), '{6,8,9}', 'the newest two and the deployed one are left') FROM m;
SELECT is(gkmeans_rollback('m'), 9, 'the one before is among them');
SELECT gkmeans_deploy('m', 6);
SELECT is(gkmeans_prune('m', 0), 1, 'keep none');
SELECT is(array_agg(version ORDER BY version), '{6,9}', 'but the deployed one and the one before') FROM m;
SELECT gkmeans_import_model('m', '{{0},{10}}', if_exists => 'replace'), gkmeans_rollback('m');
SELECT is(gkmeans_prune('m', 0), 0, 'nor is the newest one deleted, even if none is kept');
SELECT gkmeans_import_model('m', '{{0},{10}}', if_exists => 'replace');
SELECT is(max(version), 11, 'so its number is not used again') FROM m;
SELECT gkmeans_deploy('m', 6);
DELETE FROM m WHERE version > 9;
SELECT fails_with($$SELECT gkmeans_prune('m', -1)$$, '22023', 'less than none');

-- A clock that went back
SELECT gkmeans_import_model('late', '{{0},{10}}');
SELECT gkmeans_import_model('late', ARRAY[[0.0], [n * 10.0]], if_exists => 'replace') FROM generate_series(2, 3) n;
UPDATE late SET deployed_at = deployed_at + interval '1 hour' WHERE version = 2;
SELECT gkmeans_deploy('late', 1), gkmeans_deploy('late', 3);
SELECT is(array_agg(version ORDER BY deployed_at DESC), '{3,1,2}', 'versions deployed after one of a later time come after it') FROM late;
UPDATE late SET deployed_at = deployed_at + interval '1 hour' WHERE version = 2;
SELECT gkmeans_import_model('late', '{{0},{40}}', if_exists => 'replace');
SELECT is((SELECT version FROM late ORDER BY deployed_at DESC LIMIT 1), 4, 'so does a new version');
SELECT gkmeans_deploy('late', 1), gkmeans_deploy('late', 3);
DELETE FROM late WHERE version = 4;
SELECT is(gkmeans_prune('late', 0), 1, 'gkmeans_prune keeps the two that were deployed last');
SELECT is(gkmeans_rollback('late'), 1, 'and gkmeans_rollback goes back to the one before');
UPDATE late SET deployed_at = 'infinity' WHERE version = 3;
SELECT lives_ok($$SELECT gkmeans_deploy('late', 3)$$, 'a time without end does no harm');

-- Names
SELECT lives_ok($$SELECT gkmeans_name_clusters('m', '{near,NULL}')$$, 'gkmeans_name_clusters');
SELECT is((SELECT array_agg(name) FROM gkmeans_clusters('m')), '{near,NULL}', 'the names are there');
SELECT is(gkmeans_name('m', 1), 'near', 'a name');
SELECT is(gkmeans_name('m', 1000), 'cluster 1', 'no name');
SELECT fails_with(format('SELECT gkmeans_name_clusters(''m'', %L)', names), '22023', 'names ' || names, 'does not fit', '2 elements') FROM unnest('{"{a}","{a,b,c}","{}","{{a,b}}"}'::text[]) names;
SELECT fails_with(call, '42622', 'a name of more than 1 MB: ' || call, 'name 2 is too long') FROM unnest('{"SELECT gkmeans_name_clusters(''m'', ARRAY[NULL, repeat(''n'', 1048577)])","SELECT gkmeans_import_model(''long'', ''{{1},{2}}'', names => ARRAY[NULL, repeat(''n'', 1048577)])"}'::text[]) call;

-- Privileges: those of the UPDATE or DELETE, no others
CREATE ROLE gk_deployer;
CREATE ROLE gk_reader;
GRANT USAGE ON SCHEMA gk_test TO gk_deployer, gk_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gk_test TO PUBLIC;
GRANT SELECT ON m TO gk_deployer, gk_reader;
GRANT UPDATE (deployed, deployed_at, deployed_by) ON m TO gk_deployer;
SET LOCAL ROLE gk_reader;
SELECT fails_with(call, '42501', 'SELECT alone is not enough: ' || call) FROM unnest(ARRAY['SELECT gkmeans_deploy(''m'', 9)', 'SELECT gkmeans_rollback(''m'')', 'SELECT gkmeans_prune(''m'', 0)', 'SELECT gkmeans_name_clusters(''m'', ''{a,b}'')']) call;
SET LOCAL ROLE gk_deployer;
SELECT is(gkmeans_deploy('m', 9), 6, 'UPDATE on the columns is enough to deploy');
SELECT is(gkmeans_rollback('m'), 6, 'and to roll back');
SELECT fails_with($$SELECT gkmeans_name_clusters('m', '{a,b}')$$, '42501', 'not to name');
SELECT fails_with($$SELECT gkmeans_prune('m', 0)$$, '42501', 'nor to prune');
RESET ROLE;
SELECT is(deployed_by, current_user::text, 'who deployed version 6') FROM m WHERE version = 6;

-- A trigger that has the last word
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON m FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT gkmeans_import_model('n', '{{1}}');
SELECT fails_with($$SELECT gkmeans_name_clusters('m', '{a,b}')$$, '55000', 'a trigger that refuses the change is not passed over');
DROP TRIGGER refuse ON m;
CREATE TRIGGER refuse BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT fails_with($$SELECT gkmeans_import_model('m', '{{1}}', if_exists => 'replace')$$, '55000', 'nor one that refuses a version', 'was not written');
DROP TRIGGER refuse ON m;

-- Nor is a rule that does something else
CREATE FUNCTION ruled(event text, instead text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('CREATE RULE r AS ON %s TO m DO INSTEAD %s', event, instead);
	result := fails_with('SELECT ' || call, '55000', 'a rule on ' || event, 'could not write to model', 'A rule of the table');
	DROP RULE r ON m;
	RETURN result;
END $$;
SELECT ruled(event, instead, call) FROM (VALUES ('INSERT', 'UPDATE n SET note = NULL', $$gkmeans_import_model('m', '{{1}}', if_exists => 'replace')$$),
	('INSERT', 'INSERT INTO n (version, group_no, part) VALUES (77, 0, 0)', $$gkmeans_import_model('m', '{{1}}', if_exists => 'replace')$$),
	('UPDATE', 'NOTHING', $$gkmeans_name_clusters('m', '{a,b}')$$), ('UPDATE', 'NOTHING', $$gkmeans_deploy('m', (SELECT max(version) FROM m WHERE deployed IS NULL))$$),
	('DELETE', 'UPDATE n SET note = NULL RETURNING n.*', $$gkmeans_prune('m', 0)$$)) r(event, instead, call);
CREATE TABLE plain (x int);
SELECT fails_with(call, '42809', 'no model: ' || call) FROM unnest(ARRAY['SELECT gkmeans_deploy(''plain'', 1)', 'SELECT gkmeans_rollback(''plain'')', 'SELECT gkmeans_prune(''plain'')', 'SELECT gkmeans_name_clusters(''plain'', ''{a}'')']) call;
SELECT is(gkmeans_deploy(NULL, 1), NULL, 'no model at all');

-- Neither is one guessed with an index that only looks alike
SELECT gkmeans_import_model('guarded', '{{0},{10}}');
SELECT gkmeans_import_model('guarded', '{{0},{20}}', if_exists => 'replace');
DO $$ BEGIN EXECUTE format('DROP INDEX %s', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'guarded'::regclass AND indpred IS NOT NULL)); END $$;
CREATE FUNCTION with_index(definition text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	UPDATE guarded SET deployed = NULL WHERE version = 1;
	EXECUTE format('CREATE %s', replace(definition, ' ON ', ' lookalike ON guarded '));
	PERFORM gkmeans_predict('guarded', 5), gkmeans_predict('guarded', 5);
	UPDATE guarded SET deployed = true WHERE version = 1;
	BEGIN
		PERFORM gkmeans_predict('guarded', 5);
		RETURN fail(definition);
	EXCEPTION WHEN data_corrupted THEN
		DROP INDEX lookalike;
		RETURN pass(definition);
	END;
END $$;
SELECT with_index(definition) FROM unnest(ARRAY['INDEX ON ((true)) WHERE deployed', 'UNIQUE INDEX ON ((true), version) WHERE deployed', 'UNIQUE INDEX ON (version) WHERE deployed', 'UNIQUE INDEX ON ((NULL::boolean)) WHERE deployed', 'UNIQUE INDEX ON ((deployed::text || version)) WHERE deployed',
	'UNIQUE INDEX ON ((true)) WHERE version = 2', 'UNIQUE INDEX ON ((true)) WHERE deployed AND version = 2', 'UNIQUE INDEX ON ((version)) INCLUDE (deployed)']) definition;

-- Indexes that were dropped: nothing is guessed
SELECT gkmeans_import_model('doubled', '{{0},{10}}');
SELECT gkmeans_import_model('doubled', '{{0},{20}}', if_exists => 'replace');
SELECT gkmeans_import_model('doubled', '{{0},{30}}', if_exists => 'replace');
SELECT is(gkmeans_predict('doubled', 25), 1, 'the deployed version is known to the session');
DO $$ BEGIN EXECUTE format('DROP INDEX %s', (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'doubled'::regclass AND indpred IS NOT NULL)); END $$;
UPDATE doubled SET deployed = true WHERE version IN (1, 3);
SELECT fails_with(call, 'XX001', 'several versions are deployed: ' || call, 'model "doubled" has several deployed versions', CASE WHEN call ~ 'rollback|name_' THEN NULL ELSE 'Versions 1 and 3' END, 'gkmeans_deploy')
FROM unnest(ARRAY['SELECT gkmeans_predict(''doubled'', 5)', 'SELECT gkmeans_clusters(''doubled'')', 'SELECT gkmeans_rollback(''doubled'')', 'SELECT gkmeans_name_clusters(''doubled'', ''{a,b}'')', 'SELECT gkmeans_assign(''doubled'', ''SELECT 1 AS id, 2 AS x1'', ''id'', ''x'')']) call;
SELECT is(array_agg(centroid[1]), '{0,20}', 'a version that is named can be read') FROM gkmeans_clusters('doubled', 2);
SELECT lives_ok('SELECT * FROM gkmeans.' || name, 'and gkmeans.' || name || ' is no error') FROM unnest('{models,versions,clusters,centroid_features,iterations,k_selection,drift,plots}'::text[]) name;
SELECT is(gkmeans_prune('doubled', 0), 0, 'gkmeans_prune keeps all that are deployed, and the one before');
SELECT is(gkmeans_deploy('doubled', 1), 3, 'gkmeans_deploy repairs it');
SELECT is(array_agg(version), '{1}', 'one is deployed') FROM doubled WHERE deployed;
SELECT is(gkmeans_distance('doubled', 11), 1::float8, 'it scores');
UPDATE doubled SET deployed = true;
SELECT is(gkmeans_deploy('doubled', 1), 3, 'also if it is deployed already');
SELECT is(array_agg(version), '{1}', 'one is deployed again') FROM doubled WHERE deployed;
ALTER TABLE doubled DROP CONSTRAINT doubled_pkey;
INSERT INTO doubled SELECT * FROM doubled WHERE version = 3;
SELECT fails_with($$SELECT gkmeans_clusters('doubled', 3)$$, 'XX001', 'a version that is there twice', 'model "doubled" has version 3 more than once', NULL, 'primary key');

-- Prune says what it deleted, whatever triggers do
SELECT gkmeans_import_model('kept', '{{1}}');
SELECT gkmeans_import_model('kept', '{{1}}', if_exists => 'replace') FROM generate_series(2, 6);
CREATE FUNCTION keep_odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN OLD.version % 2 = 0 THEN OLD END; END $$;
CREATE TRIGGER keep_odd BEFORE DELETE ON kept FOR EACH ROW EXECUTE FUNCTION keep_odd();
INSERT INTO kept (version, group_no, part) VALUES (2, 1, 0), (4, 0, 1);
SELECT is(gkmeans_prune('kept', 0), 2, 'two of the four were deleted');
SELECT is(array_agg(version ORDER BY version), '{1,3,5,6}', 'these are left') FROM kept;

-- A table that inherits from a model, such as an archive of versions, is no part of it
SELECT gkmeans_import_model('parent', '{{1}}');
SELECT gkmeans_import_model('parent', '{{1}}', if_exists => 'replace') FROM generate_series(2, 5);
CREATE TABLE archive () INHERITS (parent);
INSERT INTO archive SELECT * FROM ONLY parent;
SELECT is(gkmeans_prune('parent', 2), 3, 'gkmeans_prune deletes versions of the model');
SELECT is(gkmeans_deploy('parent', 4), 5, 'gkmeans_deploy changes it');
SELECT is(gkmeans_rollback('parent'), 5, 'and gkmeans_rollback');
SELECT lives_ok($$SELECT gkmeans_name_clusters('parent', '{a}')$$, 'and gkmeans_name_clusters');
SELECT lives_ok($$SELECT gkmeans_import_model('parent', '{{2}}', if_exists => 'replace')$$, 'and a new version');
SELECT is(array_agg(version ORDER BY version), '{4,5,6}', 'the model has its versions') FROM ONLY parent;
SELECT is(array_agg(version ORDER BY version), '{1,2,3,4,5}', 'and the archive its own') FROM archive;
SELECT is(array_agg(version || coalesce(names::text, '')), '{5}', 'as they were') FROM archive WHERE deployed;

-- A version may have any number by hand, and none need be deployed
SELECT gkmeans_import_model('numbered', '{{1}}');
SELECT gkmeans_import_model('numbered', '{{1}}', if_exists => 'replace') FROM generate_series(2, 5);
UPDATE numbered SET deployed_at = NULL, version = CASE version WHEN 1 THEN -1 WHEN 2 THEN -2147483648 WHEN 3 THEN 0 ELSE 4 END WHERE version < 5;
SELECT is(gkmeans_prune('numbered', 1), 4, 'none of them is the one to go back to');
SELECT gkmeans_import_model('zero', '{{1}}');
UPDATE zero SET version = 0, deployed = NULL;
SELECT is(gkmeans_rollback('zero'), 0, 'back to version 0');
SELECT is(array_agg(version), '{0}', 'it is deployed') FROM zero WHERE deployed;

-- A thousand versions
INSERT INTO n SELECT (r).* FROM (SELECT jsonb_populate_record(n, jsonb_build_object('version', v, 'deployed', NULL)) AS r FROM n, generate_series(2, 1000) v) x;
SELECT is(gkmeans_deploy('n', 1000), 1, 'deploy among a thousand versions');
SELECT is(gkmeans_predict('n', 5), 0, 'and predict');
SELECT is(gkmeans_prune('n', 1), 998, 'and prune');
-- The version after the highest possible one would be negative.
SELECT lives_ok($$UPDATE n SET version = 2147483647 WHERE version = (SELECT max(version) FROM n)$$, 'a version of 2147483647');
SELECT fails_with($$SELECT gkmeans_import_model('n', '{{1,2}}', if_exists => 'replace')$$, '54000', 'none can follow', 'highest possible version');
TRUNCATE n;
SELECT fails_with($$SELECT gkmeans_deploy('n', 1)$$, '42704', 'a model without versions', 'has no version 1', NULL, 'It has none');

SET LOCAL transaction_read_only = on;
SELECT fails_with($$SELECT gkmeans_deploy('n', 1)$$, '25006', 'a read-only transaction');

SELECT * FROM finish();
ROLLBACK;
