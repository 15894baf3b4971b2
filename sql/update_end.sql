
SET LOCAL search_path = pg_catalog, pg_temp;

-- The views call the new functions now; the old ones go, unless something else needs them.
DO $do$
DECLARE
    view record;
    member record;
BEGIN
    FOR view IN
        SELECT v->>'name' AS name, v->>'text' AS text,
               CASE WHEN v->>'options' <> '' THEN format('WITH (%s)', v->>'options') END AS options
        FROM jsonb_array_elements(current_setting('update_of_gkmeans.views')::jsonb) v
    LOOP
        -- an extension replaces no view but its own
        EXECUTE format('ALTER EXTENSION gkmeans ADD VIEW %s', view.name);
        EXECUTE format('CREATE OR REPLACE VIEW %s %s AS %s', view.name, view.options, view.text);
        EXECUTE format('ALTER EXTENSION gkmeans DROP VIEW %s', view.name);
        -- anybody who may create functions there may have made one that fits better
        SELECT p.oid::regprocedure AS routine INTO member
        FROM pg_rewrite r
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_proc'::regclass
        JOIN pg_proc p ON d.refobjid = p.oid
        JOIN pg_extension e ON e.extname = 'gkmeans' AND e.extnamespace = p.pronamespace
        WHERE r.ev_class = view.name::regclass AND p.proname LIKE 'gkmeans\_%' AND NOT EXISTS (
            SELECT FROM pg_depend m
            WHERE m.classid = 'pg_proc'::regclass AND m.objid = p.oid AND m.deptype = 'e');
        IF FOUND THEN
            RAISE EXCEPTION 'view % would call function %, which is not the extension''s', view.name,
                member.routine
                USING HINT = 'Drop or rename that function.', ERRCODE = 'ambiguous_function';
        END IF;
    END LOOP;

    FOR member IN
        SELECT p.oid::regprocedure AS routine, replace(proname, '_0_1_0', '') AS name, proacl
        FROM pg_depend m
        JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
        JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
        WHERE m.deptype = 'e' AND e.extname = 'gkmeans' AND proname LIKE '%\_0\_1\_0'
        ORDER BY prokind    -- an aggregate before its functions
    LOOP
        IF member.proacl IS NOT NULL THEN
            RAISE WARNING 'the privileges of function % are those of a new installation', member.name
                USING HINT = 'Grant and revoke again what was granted and revoked.';
        END IF;
        EXECUTE format('DROP ROUTINE %s', member.routine);
    END LOOP;
END $do$;
