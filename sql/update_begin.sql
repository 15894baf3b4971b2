\echo Use "ALTER EXTENSION gkmeans UPDATE" to load this file. \quit

-- As in views.sql; and the texts of views name the schema of everything else.
SET LOCAL search_path = pg_catalog, pg_temp;

-- The functions of 0.1.0 make way for those that follow.  Views that call them are remembered: they
-- are made again, with the same text, when the new functions exist.
DO $do$
DECLARE
    member regprocedure;
    columns text;
    views text;
    view record;
BEGIN
    -- A view is made again from its text, and a literal of such a type may run functions of anybody.
    FOR view IN
        SELECT DISTINCT r.ev_class::regclass AS name, t.oid::regtype AS type
        FROM pg_rewrite r
        JOIN pg_class v ON r.ev_class = v.oid AND v.relkind = 'v'
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_proc'::regclass
        JOIN pg_depend m ON m.classid = 'pg_proc'::regclass AND m.objid = d.refobjid AND m.deptype = 'e'
        JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
        JOIN pg_depend l ON l.classid = 'pg_rewrite'::regclass AND l.objid = r.oid
            AND l.refclassid = 'pg_type'::regclass
        JOIN pg_type t ON l.refobjid = t.oid
        WHERE e.extname = 'gkmeans' AND t.oid >= 16384
            AND (t.typtype IN ('c', 'd', 'r', 'm') OR t.typelem <> 0)
    LOOP
        RAISE EXCEPTION 'view % is in the way', view.name
            USING DETAIL = format('It uses type %s, and what is made of a text of that type may run '
                'functions of other roles.', view.type),
            HINT = 'Drop the view, and create it again after the update.',
            ERRCODE = 'dependent_objects_still_exist';
    END LOOP;

    SELECT coalesce(jsonb_agg(jsonb_build_object('name', v.oid::regclass::text,
               'options', array_to_string(v.reloptions, ', '), 'text', pg_get_viewdef(v.oid)))::text, '[]')
    INTO views
    FROM pg_class v
    WHERE v.relkind = 'v' AND EXISTS (
        SELECT FROM pg_rewrite r
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_proc'::regclass
        JOIN pg_depend m ON m.classid = 'pg_proc'::regclass AND m.objid = d.refobjid AND m.deptype = 'e'
        JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
        WHERE r.ev_class = v.oid AND e.extname = 'gkmeans');

    FOR member IN
        SELECT m.objid FROM pg_depend m
        JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
        WHERE m.classid = 'pg_proc'::regclass AND m.deptype = 'e' AND e.extname = 'gkmeans'
    LOOP
        -- a view lists the columns by place: without the list it finds those of the same names
        SELECT string_agg(quote_ident(name), ', ' ORDER BY number) INTO columns
        FROM pg_proc, unnest(proargnames, proargmodes) WITH ORDINALITY AS a(name, mode, number)
        WHERE oid = member AND mode = 'o';
        views := regexp_replace(views, format('\) (\w+|\\"[^"]+\\")\(%s\)', columns), ') \1', 'g');
        EXECUTE format('ALTER ROUTINE %s RENAME TO %I', member,
            (SELECT proname || '_0_1_0' FROM pg_proc WHERE oid = member));
    END LOOP;
    PERFORM set_config('update_of_gkmeans.views', views, true);
END $do$;

SET LOCAL search_path = @extschema@, pg_temp;
