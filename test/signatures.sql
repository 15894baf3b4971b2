-- The signatures of all functions for users, as docs/sql-reference.md lists them; test/signatures.sh
-- compares the two.
WITH arguments AS (
    SELECT p.oid, a.number, coalesce(p.proargmodes[a.number], 'i') AS mode,
           concat_ws(' ', CASE p.proargmodes[a.number] WHEN 'v' THEN 'VARIADIC' END, p.proargnames[a.number],
                     replace(replace(format_type(a.type, NULL), 'double precision', 'float8'), 'integer', 'int'),
                     'DEFAULT ' || regexp_replace(pg_get_function_arg_default(p.oid, a.number::int), '::[a-z ]+(\[\])?$', '')) AS text
    FROM pg_proc AS p, unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS a (type, number)
)
SELECT p.proname || '(' || coalesce(string_agg(text, ', ' ORDER BY number) FILTER (WHERE mode <> 'o'), '') || ')' ||
       CASE WHEN p.prokind = 'p' THEN ''
            ELSE ' → ' || CASE WHEN p.proretset THEN 'TABLE ' ELSE '' END ||
                coalesce('(' || string_agg(text, ', ' ORDER BY number) FILTER (WHERE mode = 'o') || ')',
                         replace(replace(format_type(p.prorettype, NULL), 'double precision', 'float8'), 'integer', 'int')) END
FROM pg_proc AS p
JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'gkmeans'
LEFT JOIN arguments AS a ON a.oid = p.oid
WHERE p.proname ~ '^gkmeans_' AND p.proname !~ '^gkmeans_node_'
GROUP BY p.oid, p.proname, p.prokind, p.proretset, p.prorettype ORDER BY p.proname;
