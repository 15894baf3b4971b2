-- Pictures and reports of models, the map that they show, and the view gkmeans.plots.
\ir helpers.psql
\set iris `cat data/iris.csv`
\set ruspini `cat data/ruspini.csv`

CREATE TABLE iris AS
	SELECT f[1]::int AS id, f[2]::float8 AS sepal_length, f[3]::float8 AS sepal_width, f[4]::float8 AS petal_length, f[5]::float8 AS petal_width
	FROM csv_lines(:'iris') f;
CREATE TABLE ruspini AS SELECT f[1]::int AS id, f[2]::int AS x, f[3]::int AS y FROM csv_lines(:'ruspini') f;
CREATE TABLE large AS SELECT i AS id, noise(i, 1) * 10 + i % 5 * 20 AS a, noise(i, 2) * 10 + i % 3 * 30 AS b, noise(i, 3) AS c FROM generate_series(1, 5000) i;

SELECT gkmeans_create_model('flowers', 'iris', '{sepal_length,sepal_width,petal_length,petal_width}', 3, n_init => 4, scale => 'standard');
SELECT gkmeans_create_model('two', 'ruspini', '{x,y}', 2);
SELECT gkmeans_create_model('one', 'ruspini', '{x,y}', 1);
SELECT gkmeans_create_model('line', 'ruspini', '{x}', 3);
SELECT gkmeans_create_model('fifty', 'large', '{a,b,c}', 50);
SELECT gkmeans_import_model('imported', '{{1,2,3},{3,4,9},{5,1,100}}', names => '{north,NULL,south}');
SELECT gkmeans_import_model('lonely', '{{7}}');
SELECT gkmeans_create_model('hostile', $$SELECT x AS "<script>alert(1)&""'</script>", y AS "]]>--><!--{{&amp;}}" FROM ruspini$$, NULL, 5);
SELECT gkmeans_name_clusters('hostile', ARRAY['<script>&"''', repeat('0123456789', 20), E'tab\tnew\nline\x01\x1f', 'Größe 日本語 ' || chr(x'fffe'::int) || chr(x'202e'::int), NULL]);
COMMENT ON TABLE hostile IS '<b>&"</b>';

-- The map: its axes are orthogonal and keep the distances of centroids that lie in a plane
CREATE FUNCTION place(model regclass, cluster int) RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE r float8[]; BEGIN EXECUTE format('SELECT ARRAY[map_x[%s], map_y[%s]] FROM %s WHERE version = 1', cluster + 1, cluster + 1, model) INTO r; RETURN r; END $$;
CREATE FUNCTION apart(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS $$ SELECT sqrt(sum((x - y) ^ 2)) FROM unnest(a, b) AS u(x, y) $$;
CREATE TABLE flower_points AS SELECT c - 1 AS cluster, ARRAY(SELECT points[c][j] FROM generate_series(1, 4) j ORDER BY j) AS point FROM flowers, generate_series(1, 3) c;
SELECT near(apart(place('flowers', p.cluster), place('flowers', q.cluster)), apart(p.point, q.point), 1e-9, format('clusters %s and %s are as far apart as in the map', p.cluster, q.cluster))
	FROM flower_points p JOIN flower_points q ON p.cluster < q.cluster ORDER BY p.cluster, q.cluster;
SELECT ok(abs(sum(w * px * py)) < 1e-6 * sum(w * px ^ 2) AND sum(w * px ^ 2) > sum(w * py ^ 2), 'the axes are the main ones, the first before the second')
	FROM fifty, unnest(map_x, map_y, weights) AS u(px, py, w);
SELECT ok(abs(sum(w * px)) < 1e-6 AND abs(sum(w * py)) < 1e-6, 'the centre of the map is the mean') FROM fifty, unnest(map_x, map_y, weights) AS u(px, py, w);
SELECT is((SELECT array_agg(c ORDER BY map_x[c]) FROM line, generate_series(1, 3) c), (SELECT array_agg(c ORDER BY centroids[c][1]) FROM line, generate_series(1, 3) c), 'the largest component of an axis is positive');
SELECT ok((SELECT bool_and(y = 0) FROM line, unnest(map_y) y), 'one feature: all on a line');
SELECT near(apart(place('two', 0), place('two', 1)), (SELECT apart(ARRAY[centroids[1][1], centroids[1][2]], ARRAY[centroids[2][1], centroids[2][2]]) FROM two), 1e-9, 'two clusters: their distance along the first axis');
SELECT ok((SELECT bool_and(abs(y) < 1e-9) FROM two, unnest(map_y) y) AND (SELECT stddev(sample_points[i][2]) > 10 FROM two, generate_series(1, 75) i), 'two clusters: the second axis is the main one of the rows');
SELECT ok((SELECT stddev(sample_points[i][1]) > stddev(sample_points[i][2]) AND stddev(sample_points[i][2]) > 10 FROM one, generate_series(1, 75) i), 'one cluster: both axes are those of the rows');
CREATE TABLE ends AS SELECT x, y, z FROM (SELECT sign * size AS x, 0::numeric AS y, 0::numeric AS z FROM generate_series(6, 9) AS size, (VALUES (-1), (1)) AS signs(sign)
	UNION ALL VALUES (0, 10, 0), (0, -10, 0), (0, 0, 9.5), (0, 0, -9.5)) AS places, generate_series(1, 5);
SELECT gkmeans_create_model('star', 'ends', '{x,y,z}', 12);
SELECT is((SELECT array_agg(round((map_x[c] ^ 2 + map_y[c] ^ 2)::numeric, 6) ORDER BY map_x[c] ^ 2 DESC, map_y[c] ^ 2 DESC) FROM star, generate_series(1, 12) c), '{81,81,64,64,49,49,36,36,100,100,0,0}'::numeric[], 'the farthest points need not lie along the main axis');
CREATE TABLE unordered AS SELECT i, noise(i, 1) AS x, noise(i, 2) * 3 AS y, noise(i, 3) + i % 2 * 9 AS z FROM generate_series(1, 300) i;
SELECT gkmeans_create_model('order_' || n, 'SELECT x, y, z FROM unordered ORDER BY ' || o, '{x,y,z}', 2) FROM (VALUES (1, 'i'), (2, 'i DESC'), (3, 'y')) AS orders(n, o);
SELECT is((SELECT count(DISTINCT row(map_x, map_y, sample_points)::text)::int FROM (TABLE order_1 UNION ALL TABLE order_2 UNION ALL TABLE order_3) AS versions), 1, 'the map of few rows does not depend on their order');
SELECT ok(map_x IS NOT NULL AND map_y IS NOT NULL AND sample_points IS NULL, 'an imported model has a map without rows') FROM imported;
SELECT is(array_length(sample_points, 1), 150, 'all rows of a small source') FROM flowers;
SELECT ok(array_length(sample_points, 1) BETWEEN 400 AND 500, 'some rows of a large one') FROM fifty;
SELECT near((SELECT avg(sample_points[i][1]) FROM flowers, generate_series(1, 150) i WHERE sample_points[i][3] = 2), (place('flowers', 2))[1], 1e-5, 'the rows lie about their centroid');
SELECT gkmeans_create_model('shuffled', 'SELECT * FROM large ORDER BY noise(id, 9)', '{a,b,c}', 50);
SELECT is((SELECT md5(row(map_x, map_y, sample_points)::text) FROM shuffled), (SELECT md5(row(map_x, map_y, sample_points)::text) FROM fifty), 'the map does not depend on the order of the rows');
SELECT is((SELECT array_agg(round(map_x::numeric, 9) ORDER BY cluster_id) FROM gkmeans.clusters WHERE model = 'gk_test.flowers'), (SELECT array_agg(round(x::numeric, 9) ORDER BY n) FROM flowers, unnest(map_x) WITH ORDINALITY u(x, n)), 'gkmeans.clusters shows the map');

-- What other functions record
UPDATE flowers SET silhouette = 0.46, simplified_silhouette = 0.6,
	k_selection = (SELECT jsonb_agg(jsonb_build_object('k', k, 'inertia', 600 / k, 'silhouette', 0.5 - 0.03 * abs(k - 3), 'chosen', k = 3)) FROM unnest('{2,3,4,5,6,8,10,20}'::float8[]) k),
	history = (SELECT jsonb_agg(jsonb_build_object('start', s, 'iteration', i, 'inertia', 140 + 100 * exp(-i) + s, 'shift', 1, 'moved', 2)) FROM generate_series(1, 4) s, generate_series(1, 8) i);
INSERT INTO flowers (version, group_no, part, status, inertia, silhouette, finished_at, deployed_at, drift)
	SELECT v, 0, 0, 'fitted', 140 + v, 0.45, now() + v * interval '1 day', CASE WHEN v % 2 = 0 THEN now() END,
		jsonb_build_object('psi', 0.02 * v, 'clusters', '[{"cluster_id": 0, "share_then": 0.4, "share_now": 0.1}, {"cluster_id": 7, "share_then": 0.4, "share_now": 0.6}]'::jsonb,
			'features', '[{"feature": "<i>&", "mean_then": 1, "mean_now": 2, "shift": 0.3}]'::jsonb)
	FROM generate_series(2, 15) v;

-- Every picture of every model, in several sizes
CREATE TABLE pictures AS
SELECT m.model, what, width, gkmeans_plot(m.model, what, width => width, height => height) AS svg, gkmeans_plot(m.model, what, width => width, height => height, format => 'data_uri') AS uri
FROM (VALUES ('flowers'::regclass, '{clusters,profile,sizes,elbow,convergence,drift,history}'::text[]), ('two', '{clusters,profile,sizes,history}'), ('one', '{clusters,profile,sizes,history}'),
	('line', '{clusters,profile,sizes}'), ('fifty', '{clusters,profile,sizes}'), ('imported', '{clusters,profile}'), ('lonely', '{clusters,profile}'), ('hostile', '{clusters,profile,sizes}')) AS m(model, plots),
	unnest(plots) what, (VALUES (640, 400), (240, 160), (320, 1000), (4000, 4000)) AS s(width, height);
SELECT is(count(*)::int, 28 * 4, 'all pictures are drawn') FROM pictures;
SELECT is_empty('SELECT model, what, width FROM pictures WHERE NOT xml_is_well_formed_document(svg)', 'they are XML');
SELECT is_empty('SELECT model, what, width FROM pictures WHERE octet_length(svg) > 24000', 'of 24,000 bytes at most');
SELECT is_empty('SELECT model, what, width FROM pictures WHERE octet_length(uri) > 32766', 'as data URI of 32,766 characters at most');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE uri !~ '^data:image/svg\+xml;base64,' OR convert_from(decode(substr(uri, 27), 'base64'), 'UTF8') <> svg$$, 'a data URI is the picture');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE svg !~ '^<svg [^>]*viewBox="0 0 \d+ \d+"[^>]* role="img"[^>]*><title>[^<]+</title><desc>[^<]+</desc>'$$, 'with viewBox, role, title and description');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE replace(svg, 'xmlns="http://www.w3.org/2000/svg"', '') ~* 'script>|://|url\(|href|@import|src=|\son[a-z]+=|<style'$$, 'nothing points outside, nothing runs');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE svg ~ '[^\n -~]'$$, 'in ASCII, whatever the encodings');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE svg ~ '(nan|inf)\M'$$, 'no place is out of this world');
SELECT is_empty($$SELECT model, what, width FROM pictures WHERE svg ~ '#(000|fff)'$$, 'text is in currentColor');
SELECT ok(svg ~ '&lt;script&gt;&amp;&#34;&#39;' AND svg ~ '0123456[0-9]*&#8230;' AND svg ~ 'tab new\nline&#65533;&#65533;' AND svg ~ 'Gr&#246;&#223;e &#26085;&#26412;', 'names are escaped and cut off')
	FROM pictures WHERE model = 'hostile'::regclass AND what = 'sizes' AND width = 4000;
SELECT ok(svg ~ '>3</text>' AND svg ~ 'clusters; chosen: 3', 'the chosen k is marked') FROM pictures WHERE what = 'elbow' AND width = 640;
SELECT ok(svg ~ 'best of 4 starts: number 1', 'the best start is named') FROM pictures WHERE what = 'convergence' AND width = 640;
CREATE FUNCTION names_best(starts int, seed int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gkmeans_create_model('cut', 'ruspini', '{x,y}', 5, n_init => starts, init => 'random', quality => 'fast', max_iter => 1, seed => seed, if_exists => 'replace');
	RETURN is(substring(gkmeans_plot('cut', 'convergence') FROM 'best of \d+ starts: number \d+'), (SELECT format('best of %s starts: number %s', starts, best_start) FROM gkmeans_last_fit()), format('the best of %s starts that were cut short, seed %s', starts, seed));
END $$;
SELECT names_best(4, seed) FROM generate_series(1, 8) seed;
SELECT names_best(300, seed) FROM generate_series(1, 2) seed;
SELECT gkmeans_create_model('long', 'ruspini', '{x,y}', 2);
SELECT gkmeans_refit('long', deploy => 'never');
INSERT INTO long SELECT (jsonb_populate_record(long, jsonb_build_object('version', n, 'deployed', NULL, 'deployed_at', NULL, 'inertia', noise(n, 1), 'silhouette', noise(n, 2), 'drift', (long).drift || jsonb_build_object('psi', noise(n, 3))))).*
	FROM (SELECT long FROM long WHERE version = 2) AS last(long), generate_series(3, 3000) n;
UPDATE long SET k_selection = (SELECT jsonb_agg(jsonb_build_object('k', n, 'inertia', noise(n, 1), 'silhouette', noise(n, 2), 'chosen', n = 7)) FROM generate_series(1, 1000) n) WHERE deployed;
SELECT ok(bool_and(length(gkmeans_plot('long', what, width => width, height => height)) <= 24000), format('%s of many, %s pixels wide', what, width)) FROM unnest('{elbow,drift,history}'::text[]) what, (VALUES (240, 160), (640, 400), (4000, 4000)) v(width, height) GROUP BY what, width ORDER BY what, width;
SELECT ok(length(gkmeans_report('long')) > 20000, 'the report of many versions');
SELECT is((regexp_match(picture, '>marks from version (\d+) on<'))[1]::int, 3000 - (length(picture) - length(replace(picture, '<circle', ''))) / 7 / 2 + 3, 'the picture says which versions are marked') FROM gkmeans_plot('long', 'history') picture;
SELECT gkmeans_import_model('wide', (SELECT array_agg(p) FROM (SELECT array_agg(noise(i, j) * 1e6) AS p FROM generate_series(1, 300) i, generate_series(1, 40) j GROUP BY i) AS points),
	names => ARRAY(SELECT repeat('日本&"', 20) || i FROM generate_series(1, 300) i), features => ARRAY(SELECT repeat('特徴', 9) || j FROM generate_series(1, 40) j));
SELECT ok(length(gkmeans_plot('wide', what, width => width, height => 4000)) <= 24000, format('%s of many, with long names, %s × 4000 pixels', what, width)) FROM unnest('{clusters,profile}'::text[]) what, unnest('{640,4000}'::int[]) width;
SELECT is((regexp_match(picture, '>the first (\d+) of 300 clusters<'))[1]::int, (length(picture) - length(replace(picture, 'fill-opacity', ''))) / 12, 'the picture says how many clusters it shows') FROM gkmeans_plot('wide', 'clusters') picture;
SELECT fails_with(format('SELECT %s(''one'', version => 0)', call), '42704', call || ': version 0 is none') FROM unnest('{gkmeans_plot,gkmeans_report}'::text[]) call;
SELECT ok(svg ~ '>watch<' AND svg ~ '>refit<' AND svg ~ 'cluster 7' AND svg ~ 'now: version 15', 'the limits of drift, and the newest') FROM pictures WHERE what = 'drift' AND width = 640;
SELECT is(regexp_count(svg, '<circle[^>]*r="7"'), 2 + 1, 'the deployed version is marked in both figures and in the legend') FROM pictures WHERE what = 'history' AND width = 640 AND model = 'flowers'::regclass;
SELECT is(regexp_count(svg, '<tspan'), 12, 'a number in each cell of a profile') FROM pictures WHERE what = 'profile' AND width = 640 AND model = 'flowers'::regclass;
SELECT is((SELECT count(DISTINCT c) FROM regexp_matches(svg, '#[0-9a-f]{6}', 'g') c), 8::bigint, 'eight colours for fifty clusters') FROM pictures WHERE what = 'clusters' AND width = 640 AND model = 'fifty'::regclass;
SELECT is(gkmeans_plot('flowers'), gkmeans_plot('flowers', NULL, NULL, NULL, NULL, NULL), 'NULLs are the defaults');
SELECT is(gkmeans_plot(NULL), NULL, 'no model, no picture');
SELECT is(gkmeans_plot('flowers', version => 1), gkmeans_plot('flowers'), 'a version');

-- Errors
SELECT fails_with($$SELECT gkmeans_plot('flowers', 'pie')$$, '22023', 'an unknown plot', 'there is no plot "pie"', NULL, '"clusters", "profile", "sizes", "elbow", "convergence", "drift", "history"');
SELECT fails_with($$SELECT gkmeans_plot('flowers', width => 10)$$, '22023', 'too narrow', 'width must be between 240 and 4000');
SELECT fails_with($$SELECT gkmeans_plot('flowers', height => 100000)$$, '22023', 'too high', 'height must be between 160 and 4000');
SELECT fails_with($$SELECT gkmeans_plot('flowers', format => 'png')$$, '22023', 'an unknown format', 'invalid format: "png"');
SELECT fails_with($$SELECT gkmeans_plot('flowers', version => 99)$$, '42704', 'no such version');
SELECT fails_with($$SELECT gkmeans_plot('iris')$$, '42809', 'no model');
SELECT fails_with($$SELECT gkmeans_plot('two', 'elbow')$$, '55000', 'no choice of k', 'version 1 of model "two" cannot be drawn as "elbow"', 'It has no table of the choice of k.');
SELECT fails_with($$SELECT gkmeans_plot('two', 'drift')$$, '55000', 'no drift');
SELECT fails_with($$SELECT gkmeans_plot('imported', 'sizes')$$, '55000', 'no sizes');
SELECT fails_with($$SELECT gkmeans_plot('flowers', 'clusters', 2)$$, '55000', 'a version without centroids');
SELECT fails_with($$SELECT gkmeans_report('flowers', 99)$$, '42704', 'no report of a version that is not there');

-- The report
CREATE TABLE reports AS SELECT m AS model, gkmeans_report(m) AS page FROM unnest('{flowers,two,one,line,fifty,imported,lonely,hostile}'::regclass[]) m;
SELECT is_empty('SELECT model FROM reports WHERE NOT xml_is_well_formed_document(page)', 'reports are XML as well');
SELECT is_empty($$SELECT model FROM reports WHERE regexp_replace(page, 'xmlns="http://www.w3.org/(2000/svg|1999/xhtml)"', '', 'g') ~* '<script|://|url\(|href|@import|src=|<link|<img|<object|\son[a-z]+='$$, 'nothing points outside, nothing runs');
SELECT is_empty($$SELECT model FROM reports WHERE page ~ '[^\n -~]'$$, 'in ASCII');
SELECT ok(page ~ 'prefers-color-scheme:dark' AND page ~ '@media print', 'light, dark and on paper') FROM reports WHERE model = 'flowers'::regclass;
SELECT is(regexp_count(page, '<figure><svg'), 7, 'all pictures') FROM reports WHERE model = 'flowers'::regclass;
SELECT ok(page ~ '<h2>Drift</h2><p>Version 15 found a psi of 0.3' AND page ~ '&lt;i&gt;&amp;' AND page ~ '<h2>Versions</h2>' AND page ~ '&#34;source&#34;: &#34;iris&#34;', 'drift, versions, definition') FROM reports WHERE model = 'flowers'::regclass;
SELECT ok(page ~ '&lt;b&gt;&amp;&#34;&lt;/b&gt;' AND page !~ '<b>&', 'a comment is escaped') FROM reports WHERE model = 'hostile'::regclass;
SELECT ok(gkmeans_report('two', title => '<Segments & more>') ~ '<title>&lt;Segments &amp; more&gt;</title>', 'a title');
SELECT gkmeans_import_model('seventeen', (SELECT array_agg(array_fill(i, ARRAY[51])) FROM generate_series(1, 17) i)::float8[]);
SELECT ok(gkmeans_report('seventeen') ~ '>and 1 more cluster<.*>and 1 more feature<', 'one more than a table shows');
SELECT count(*) FROM gkmeans_create_model('crowded', 'SELECT (SELECT array_agg(noise(i, j)::real) FROM generate_series(1, 52) j) AS v FROM generate_series(1, 300) i', '{v}', 203, quality => 'fast');
SELECT gkmeans_refit('crowded', starts => 0, deploy => 'always');
SELECT is((SELECT array_agg(more[1]) FROM regexp_matches(gkmeans_report('crowded'), '<p[^>]*>(and [0-9]+ more[^<]*)<', 'g') more), '{"and 3 more","and 187 more clusters","and 2 more features","and 2 more features"}', 'what its tables leave out');
SELECT is((SELECT array_agg(part[1] ORDER BY n) FROM regexp_matches(gkmeans_plot('crowded', 'drift'), '>(cluster [0-9]+|and [0-9]+ more clusters)<', 'g') WITH ORDINALITY p(part, n)),
	(SELECT array_agg('cluster ' || i) || ARRAY['and 189 more clusters'] FROM generate_series(0, 13) i), 'and the picture of its drift');
SELECT ok(xml_is_well_formed_document(gkmeans_report('flowers', 2)), 'of a version without centroids');
SELECT is(gkmeans_report(NULL), NULL, 'no model, no report');
SELECT ok(page ~ '<td>[^<]+</td><td class="n">[0-9.]+&#160;&#177;&#160;[0-9.]+</td>', 'centroids with their deviations') FROM reports WHERE model = 'flowers'::regclass;
SELECT ok(page ~ 'Features of the clusters' AND page !~ '&#177;', 'centroids without') FROM reports WHERE model = 'imported'::regclass;
SELECT gkmeans_create_model('far', 'SELECT 1700000000 + 3600 * (i % 2) + i % 5 AS at FROM generate_series(0, 99) i', '{at}', 2);
SELECT ok(gkmeans_report('far') ~ '>1700000002&#160;&#177;&#160;1.41<.*>1700003602&#160;&#177;&#160;1.41<', 'centroids far from zero can be told apart');

SELECT is((SELECT array_agg(c[1]) FROM regexp_matches(gkmeans_plot('far', 'profile'), '<tspan[^>]*>([^<]+)<', 'g') c), '{1.7G,1.700004G}', 'also in the picture of their profiles');
-- The numbers along an axis, from the bottom
CREATE FUNCTION axis(model text, what text) RETURNS text[] LANGUAGE sql AS $$
	SELECT array_agg(n[1] ORDER BY i DESC) FROM regexp_matches(gkmeans_plot(model, what), '<text[^>]*text-anchor="end"[^>]*opacity=".8"[^>]*>([-0-9.e]+[kMG]?)<', 'g') WITH ORDINALITY AS r(n, i) $$;
CREATE FUNCTION with_inertias(float8[]) RETURNS text[] LANGUAGE sql VOLATILE AS $$
	UPDATE far SET history = (SELECT jsonb_agg(jsonb_build_object('start', 1, 'iteration', i, 'inertia', inertia)) FROM unnest($1) WITH ORDINALITY AS u(inertia, i));
	SELECT axis('far', 'convergence') $$;
SELECT is(with_inertias('{20000,10000}'), '{20k,18k,16k,14k,12k,10k}', 'numbers of an axis');
SELECT is(with_inertias('{12889,12885,12881}'), '{12.889k,12.888k,12.887k,12.886k,12.885k,12.884k,12.883k,12.882k,12.881k}', 'values that are close have the digits in which they differ');
SELECT is(with_inertias('{8.912e-9,8.911e-9}'), '{8.9120e-9,8.9118e-9,8.9116e-9,8.9114e-9,8.9112e-9,8.9110e-9}', 'small ones, too');
SELECT is(with_inertias('{0.89,0.890000001}'), '{0.98,0.96,0.94,0.92,0.9,0.88,0.86,0.84,0.82,0.8}', 'values that are all but equal are drawn as equal');
SELECT is(with_inertias('{1.9e-20,1.9e-20}'), '{2.10e-20,2.05e-20,2.00e-20,1.95e-20,1.90e-20,1.85e-20,1.80e-20,1.75e-20,1.70e-20}', 'also where they are small');
SELECT is(with_inertias('{0,0}'), '{0.001,8.0e-4,6.0e-4,4.0e-4,2.0e-4,0}', 'or zero');

-- Foreign input: what JSON there may be is no error, and what arrays are damaged is one
UPDATE two SET history = '"x"', k_selection = '[1, null, "a", {"k": "b"}, {"k": 1e400}, {"k": 3, "inertia": 1e400, "silhouette": {}}, {"k": 2}, {"k": 4, "inertia": -1e308}, {"k": 5, "inertia": 1e308}]', drift = '{"psi": 1e308, "clusters": {"a": 1}, "features": [7]}';
SELECT ok(xml_is_well_formed_document(gkmeans_plot('two', what)), 'odd JSON: ' || what) FROM unnest('{elbow,drift,history}'::text[]) what;
SELECT fails_with($$SELECT gkmeans_plot('two', 'convergence')$$, '55000', 'odd JSON: convergence');
UPDATE two SET history = '[{"start": 1e300, "iteration": 5, "inertia": 1e308}, {"start": 2, "iteration": -5, "inertia": 3}, {"start": 3, "iteration": 1, "inertia": -1e308}, [], {"start": 3}]', inertia = 'infinity', drift = '{"psi": -5, "clusters": [{}, {"cluster_id": 1e300, "share_then": -4, "share_now": 1.7e308}]}', finished_at = '-infinity';
SELECT ok(xml_is_well_formed_document(gkmeans_plot('two', what)), 'odder JSON: ' || what) FROM unnest('{convergence,drift}'::text[]) what;
SELECT ok(xml_is_well_formed_document(gkmeans_report('two')), 'odder JSON: the report');
SELECT ok(gkmeans_plot('two', 'drift') !~ 'Infinity', 'odder JSON: no infinite shares');
CREATE FUNCTION damaged(what text, change text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'UPDATE fifty SET ' || change;
	RETURN fails_with(format('SELECT gkmeans_plot(%L, %L)', 'fifty', what), 'XX001', 'damaged: ' || change);
END $$;
SELECT damaged('clusters', 'map_x = map_x[1:49]');
UPDATE fifty SET map_x = (SELECT map_x FROM shuffled);
SELECT damaged('clusters', 'map_y[3] = ''NaN''');
UPDATE fifty SET map_y = (SELECT map_y FROM shuffled);
SELECT damaged('clusters', 'sample_points = ''{1,2,3}''');
SELECT damaged('clusters', 'sample_points = ''{{1,2,3,4}}''');
SELECT damaged('clusters', 'sample_points = ''{{1,NULL,3}}''');
SELECT damaged('clusters', 'sample_points = ''{{1,infinity,3}}''');
UPDATE fifty SET sample_points = '{{1,2,3},{1,2,-1},{1,2,1e30},{3,3,2.5}}';
SELECT ok(xml_is_well_formed_document(gkmeans_plot('fifty')), 'rows of clusters that are not there');
UPDATE fifty SET sample_points = '{}';
SELECT ok(xml_is_well_formed_document(gkmeans_plot('fifty')), 'no rows, as a restored dump has an array of none');
UPDATE fifty SET sample_points = NULL, map_x = (SELECT array_agg(1e300 * (-1) ^ i) FROM generate_series(1, 50) i), sizes = array_fill(0::bigint, ARRAY[50]);
SELECT ok(xml_is_well_formed_document(gkmeans_plot('fifty', what)), 'far away, and without rows: ' || what) FROM unnest('{clusters,sizes,profile}'::text[]) what;

-- The view
SELECT is((SELECT array_agg(plot_key ORDER BY plot_key) FROM gkmeans.plots WHERE model = 'gk_test.flowers'),
	(SELECT array_agg('gk_test.flowers/' || p ORDER BY p) FROM unnest('{clusters,profile,sizes,elbow,convergence,drift,history}'::text[]) p), 'the plots that there are');
SELECT is_empty($$SELECT plot_key FROM gkmeans.plots WHERE svg IS DISTINCT FROM gkmeans_plot(model::regclass, plot) OR data_uri IS DISTINCT FROM gkmeans_plot(model::regclass, plot, format => 'data_uri')$$, 'they are the pictures of the deployed versions');
CREATE FUNCTION quietly(query text) RETURNS bigint LANGUAGE plpgsql SET client_min_messages = error AS $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(svg) FROM ' || query INTO n; RETURN n; END $$;
UPDATE fifty SET sizes = '{1}';
SELECT is(quietly($$gkmeans.plots WHERE model = 'gk_test.fifty'$$), 0::bigint, 'a damaged version has no pictures');
UPDATE fifty SET sizes = NULL, sample_points = '{1}';
SELECT is(quietly($$gkmeans.plots WHERE model = 'gk_test.fifty'$$), 3::bigint, 'or none of those that what is damaged shows');
SELECT ok(quietly('gkmeans.plots') > 20, 'the others are there');
CREATE ROLE looker;
GRANT USAGE ON SCHEMA gk_test TO looker;
GRANT SELECT ON flowers TO looker;
SET LOCAL ROLE looker;
SELECT ok((SELECT array_agg(DISTINCT model) FROM gkmeans.plots) = '{gk_test.flowers}', 'one sees the pictures of models that one may read');
SELECT ok(length(gkmeans_report('flowers')) > 1000, 'and reports of them');
RESET ROLE;
GRANT EXECUTE ON FUNCTION fails_with TO looker;
SET LOCAL ROLE looker;
SELECT fails_with($$SELECT gkmeans_plot('two')$$, '42501', 'of no others');
SELECT fails_with($$SELECT gkmeans_report('two')$$, '42501', 'nor reports');
RESET ROLE;

-- In a parallel worker
SELECT set_config(CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END, 'on', true) AS setting \gset
SELECT is(gkmeans_plot('flowers', 'profile'), (SELECT svg FROM pictures WHERE model = 'flowers'::regclass AND what = 'profile' AND width = 640), 'a parallel worker draws the same');

SELECT * FROM finish();
ROLLBACK;
