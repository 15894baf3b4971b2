
SET LOCAL search_path = pg_catalog, pg_temp;

-- Default privileges may open to others what is not theirs: a table that all calls write as its owner,
-- functions that only the extension calls, and its schema, whose functions nodes take for its own.
DO $$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT DISTINCT format('REVOKE %s ON %s FROM %s CASCADE', o.privileges, o.name,
            CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
        FROM (
            SELECT 'ALL' AS privileges, 'TABLE gkmeans.labelled_tables' AS name, c.relacl AS acl, c.relowner AS owner
            FROM pg_class c WHERE c.oid = 'gkmeans.labelled_tables'::regclass
            UNION ALL
            SELECT 'ALL', 'FUNCTION ' || p.oid::regprocedure, p.proacl, p.proowner
            FROM pg_proc p
            JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
            JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
            WHERE e.extname = 'gkmeans' AND p.prokind = 'f' AND p.proname ~ '^(_gkmeans_feed_|gkmeans_node_)'
            UNION ALL
            SELECT 'CREATE', 'SCHEMA gkmeans', n.nspacl, n.nspowner
            FROM pg_namespace n
            -- the schema of the extension was made by its administrator
            WHERE n.nspname = 'gkmeans' AND '@extschema@' NOT IN ('gkmeans', '"gkmeans"')) o,
            LATERAL aclexplode(o.acl) a
        WHERE a.grantee <> o.owner
    LOOP
        EXECUTE command;
    END LOOP;
END
$$;
