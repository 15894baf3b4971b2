-- What a user may get wrong, and what gkmeans says to it: test/mistakes.sh compares this with
-- expected/mistakes.out, where every message can be read beside the statement that it answers.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gkmeans;
CREATE TYPE plan AS ENUM ('basic', 'gold');
CREATE TABLE customers (
	customer_id bigint PRIMARY KEY, "Name" text, plan plan, age int, income numeric(9,2), recency float8,
	ordered_at timestamptz, birthday date, wakes time, stays interval, spent money, extra jsonb,
	key uuid, picture bytea, home point, seen daterange, tags text[], days date[], active boolean);
INSERT INTO customers (customer_id, "Name", age, income, recency, active)
SELECT i, 'Name ' || i, 20 + i % 50, 1000 * (i % 7), i % 30, i % 2 = 0 FROM generate_series(1, 40) i;
CREATE TABLE documents (id int PRIMARY KEY, topic int, emb real[], title_emb real[]);
INSERT INTO documents SELECT i, i % 3, ARRAY[i, i % 2, 1], ARRAY[i, 1] FROM generate_series(1, 20) i;
CREATE TABLE spots (x int, y int, PRIMARY KEY (x, y));
CREATE VIEW segments AS SELECT 1 AS cluster_id;
CREATE TABLE labels (id int, cluster_id int, distance float8);
CREATE TABLE other_labels (id bigint, cluster int);
RESET client_min_messages;

-- source
SELECT * FROM gkmeans_fit(NULL, '{age,income}', 3);
SELECT * FROM gkmeans_fit('', '{age,income}', 3);
SELECT * FROM gkmeans_fit('custmers', '{age,income}', 3);
SELECT * FROM gkmeans_fit('crm.customers', '{age,income}', 3);
SELECT * FROM gkmeans_fit('"Customers"', '{age,income}', 3);
SELECT * FROM gkmeans_fit('SELECT age, salary FROM customers', k => 3);
SELECT * FROM gkmeans_fit('SELECT age, income FORM customers', '{age,income}', 3);
SELECT * FROM gkmeans_fit('customers WHERE age > 30', '{age,income}', 3);
SELECT * FROM gkmeans_fit('SELECT age FROM customers; SELECT income FROM customers', '{age}', 3);
SELECT * FROM gkmeans_fit('DELETE FROM customers RETURNING age', '{age}', 3);
SELECT * FROM gkmeans_fit('SELECT age FROM customers FOR UPDATE', '{age}', 3);
SELECT * FROM gkmeans_fit('SELECT age, income / (age - 30) AS ratio FROM customers', '{age,ratio}', 3);
SELECT * FROM gkmeans_fit('SELECT age, avg(income) FROM customers', '{age,avg}', 3);
SELECT * FROM gkmeans_fit('SELECT age, age FROM customers', '{age}', 3);
SELECT * FROM gkmeans_fit('SELECT age FROM customers WHERE age > 1000', '{age}', 3);
SELECT * FROM gkmeans_fit('SELECT $1 + age AS age FROM customers', '{age}', 3);
CREATE FUNCTION nightly() RETURNS bigint LANGUAGE sql SET search_path = pg_catalog AS
	$$ SELECT count(*) FROM public.gkmeans_fit('customers', '{age,income}', 3) $$;
SELECT nightly();

-- features
SELECT * FROM gkmeans_fit('customers', 'age,income', 3);
SELECT * FROM gkmeans_fit('customers', '{}', 3);
SELECT * FROM gkmeans_fit('customers', '{age,NULL}', 3);
SELECT * FROM gkmeans_fit('customers', '{age,salary}', 3);
SELECT * FROM gkmeans_fit('customers', '{Age}', 3);
SELECT * FROM gkmeans_fit('customers', '{name}', 3);
SELECT * FROM gkmeans_fit('customers', ARRAY['age,income'], 3);
SELECT * FROM gkmeans_fit('customers', '{age,age}', 3);
SELECT * FROM gkmeans_fit('customers', '{customers.age}', 3);
SELECT * FROM gkmeans_fit('customers', '{ln(income)}', 3);
SELECT * FROM gkmeans_fit('customers', '{*}', 3);
SELECT * FROM gkmeans_fit('customers', '{Name}', 3);
SELECT * FROM gkmeans_fit('customers', '{plan}', 3);
SELECT * FROM gkmeans_fit('customers', '{ordered_at}', 3);
SELECT * FROM gkmeans_fit('customers', '{birthday}', 3);
SELECT * FROM gkmeans_fit('customers', '{wakes}', 3);
SELECT * FROM gkmeans_fit('customers', '{stays}', 3);
SELECT * FROM gkmeans_fit('customers', '{spent}', 3);
SELECT * FROM gkmeans_fit('customers', '{extra}', 3);
SELECT * FROM gkmeans_fit('customers', '{key}', 3);
SELECT * FROM gkmeans_fit('customers', '{picture}', 3);
SELECT * FROM gkmeans_fit('customers', '{home}', 3);
SELECT * FROM gkmeans_fit('customers', '{seen}', 3);
SELECT * FROM gkmeans_fit('customers', '{tags}', 3);
SELECT * FROM gkmeans_fit('customers', '{days}', 3);
SELECT * FROM gkmeans_fit('SELECT c FROM customers c', '{c}', 3);
SELECT * FROM gkmeans_fit('documents', '{topic,emb}', 3);
SELECT count(*) FROM gkmeans_fit('SELECT customer_id, age, recency, birthday FROM customers', k => 3);
SELECT * FROM gkmeans_fit('documents', k => 3);
SELECT * FROM gkmeans_fit('SELECT emb, title_emb FROM documents', k => 3);
SELECT * FROM gkmeans_fit('spots', k => 3);
SELECT * FROM gkmeans_fit('SELECT birthday FROM customers', k => 3);
SELECT * FROM gkmeans_fit('SELECT', k => 3);

-- k
SELECT * FROM gkmeans_fit('customers', '{age,income}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 0);
SELECT * FROM gkmeans_fit('customers', '{age,income}', 5000000000);
SELECT count(*) FROM gkmeans_fit('SELECT age / 10 AS decade FROM customers', '{decade}', 30);

SELECT * FROM gkmeans_fit('customers', '{age,income}', clusters => 3);

-- id_column, weight_column
SELECT * FROM gkmeans_fit_predict(NULL, 'customers', '{age,income}', 3, id_column => 'customer_id');
SELECT * FROM gkmeans_fit_predict(NULL::int, 'customers', '{age,income}', 3);
SELECT * FROM gkmeans_fit_predict(NULL::int, 'customers', '{age,income}', 3, id_column => 'id');
SELECT * FROM gkmeans_fit_predict(NULL::text, 'customers', '{age,income}', 3, id_column => 'plan,Name');
SELECT * FROM gkmeans_fit_predict(NULL::text, 'customers', '{age,income}', 3, id_column => '{plan,Name}');
SELECT * FROM gkmeans_fit_predict(NULL::int, 'customers', '{age,income}', 3, id_column => 'customer_id');
SELECT * FROM gkmeans_fit_predict(NULL::uuid, 'customers', '{age,income}', 3, id_column => 'Name');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, weight_column => 'weight');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, weight_column => '{recency,income}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, weight_column => 'spent');
SELECT * FROM gkmeans_fit('documents', '{topic}', 3, weight_column => 'emb');
SELECT * FROM gkmeans_fit('SELECT age, income, age - 30 AS w FROM customers', '{age,income}', 3, weight_column => 'w');
SELECT * FROM gkmeans_fit('SELECT age, income, 0 AS w FROM customers', '{age,income}', 3, weight_column => 'w');

-- init, initial_centroids
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, init => 'kmeans++');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, init => 'given');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 2, initial_centroids => '{30,1000}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, initial_centroids => '{{30,1000},{50,5000}}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', initial_centroids => '{{30},{50}}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', initial_centroids => '{{30,NULL},{50,5000}}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', initial_centroids => '{{30,NaN},{50,5000}}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', init => 'random', initial_centroids => '{{30,1000},{50,5000}}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', initial_centroids => '{{0,0},{50,5000}}', metric => 'cosine');
SELECT * FROM gkmeans_fit('VALUES (1, 5), (3, 5)', '{column1,column2}', initial_centroids => '{{1,3},{2,5}}', metric => 'cosine', scale => 'standard');
SELECT * FROM gkmeans_fit('customers', '{age,income}', initial_centroids => '{{1e200,0},{50,5000}}');
SELECT cluster_id, size FROM gkmeans_fit('VALUES (1), (1), (9)', '{column1}', initial_centroids => '{{1},{5},{9}}');

-- metric, scale, nulls
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, metric => 'manhattan');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, scale => 'zscore');
SELECT count(*) FROM gkmeans_fit('customers', '{recency,age,income}', 3);
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, nulls => 'ignore');
SELECT * FROM gkmeans_fit('SELECT age, nullif(income, 2000) AS income FROM customers ORDER BY age', '{age,income}', 3, nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT customer_id, age, nullif(income, 2000) AS income FROM customers', '{age,income}', 3, id_column => 'customer_id', nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT ln(recency::real - 1) AS r FROM customers WHERE recency > 0 UNION ALL SELECT ''NaN''', '{r}', 3, nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT 1e300::float8 AS r', '{r}', 1, nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT ''{1,NULL,3}''::real[] AS v', '{v}', 1, nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT ''{0,0,0}''::real[] AS v', '{v}', 1, metric => 'cosine', nulls => 'error');
SELECT * FROM gkmeans_fit('SELECT age, recency, NULL::float8 AS score FROM customers', '{age,recency,score}', 3);
SELECT * FROM gkmeans_fit('SELECT NULL::real AS score, 7 AS age', '{age,score}', 3);
SELECT * FROM gkmeans_fit('SELECT nullif(age % 2, 0) AS odd, nullif((age + 1) % 2, 0) AS even FROM customers', '{odd,even}', 3);
SELECT * FROM gkmeans_fit('SELECT emb || title_emb AS v FROM documents UNION ALL SELECT emb FROM documents', '{v}', 3);
SELECT * FROM gkmeans_fit('SELECT ''{}''::real[] AS v', '{v}', 1);
SELECT * FROM gkmeans_fit('SELECT ''{{1,2},{3,4}}''::real[] AS v', '{v}', 1);

-- max_iter, tol, n_init, options
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, max_iter => 0);
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, tol => -1);
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, n_init => 100000);
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, options => '[]');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, options => '{"rouns": 3}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, options => '{"rounds": "three"}');

-- labels_table, if_exists
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, labels_table => 'customer_segments');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'labels');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'labels', if_exists => 'overwrite');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'labels', if_exists => 'replace');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'other_labels', if_exists => 'append');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'segments', if_exists => 'replace');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'nowhere.labels');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'customer segments');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'fresh', options => '{"id_name": "distance"}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', labels_table => 'fresh', options => '{"id_name": ""}');
SELECT * FROM gkmeans_fit('customers', '{age,income}', 3, id_column => 'customer_id', options => '{"id_name": "customer_id"}');

-- an earlier version, whose labels are not those in the table
SELECT count(*) FROM gkmeans_create_model('kinds', 'customers', '{age}', 2, id_column => 'customer_id', labels_table => 'kind_labels');
SELECT count(*) FROM gkmeans_create_model('kinds', 'customers', '{age}', 3, id_column => 'customer_id', labels_table => 'kind_labels', if_exists => 'replace');
SELECT gkmeans_rollback('kinds');
SELECT gkmeans_deploy('kinds', 2);
SELECT gkmeans_deploy('kinds', 2);
