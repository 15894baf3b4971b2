
SET LOCAL search_path = pg_catalog, pg_temp;

-- The views call the new functions now; the old ones go, unless something else needs them.
DO $do$
DECLARE
    view record;
    member record;
    rule_before tid;
BEGIN
    FOR view IN
        SELECT (v->>'id')::oid AS id, v->>'name' AS name, v->>'text' AS text, v->'uses' AS uses,
               CASE WHEN v->>'options' <> '' THEN format('WITH (%s)', v->>'options') END AS options
        FROM jsonb_array_elements(current_setting('update_of_gkmeans.views')::jsonb) v
    LOOP
        SELECT ctid INTO rule_before FROM pg_rewrite WHERE ev_class = view.id AND rulename = '_RETURN';
        EXECUTE format('CREATE OR REPLACE VIEW %s %s AS %s', view.name, view.options, view.text);
        EXECUTE format('ALTER EXTENSION gkmeans DROP VIEW %s', view.name);
        IF EXISTS (
            SELECT FROM pg_rewrite
            WHERE ev_class = view.id AND rulename = '_RETURN' AND ctid = rule_before)
        THEN
            RAISE EXCEPTION 'another view took the name of view %', view.name
                USING HINT = 'Try again.', ERRCODE = 'serialization_failure';
        END IF;
        -- names in its text may mean others now, and anybody who may create functions in the schema of
        -- the extension may have made one that fits better
        SELECT pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) AS used INTO member
        FROM pg_rewrite r
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = view.id
            AND NOT view.uses ? format('%s %s %s', d.refclassid, d.refobjid, d.refobjsubid)
            AND NOT EXISTS (
                SELECT FROM pg_depend m
                JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
                WHERE d.refclassid = 'pg_proc'::regclass AND m.classid = d.refclassid
                    AND m.objid = d.refobjid AND m.deptype = 'e' AND e.extname = 'gkmeans');
        IF FOUND THEN
            RAISE EXCEPTION 'view % would use %, which it did not before', view.name, member.used
                USING HINT = 'Drop or rename that.', ERRCODE = 'ambiguous_function';
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
