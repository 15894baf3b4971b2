\echo Use "ALTER EXTENSION gkmeans UPDATE" to load this file. \quit

-- As in views.sql; and the texts of views name the schema of everything else.
SET LOCAL search_path = pg_catalog, pg_temp;
-- what the blocks below, and the texts of views, are read and written by
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
SET LOCAL datestyle = 'ISO';
SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 3;

-- The functions of 0.1.0 make way for those that follow.  Views that call them are remembered: they
-- are made again, with the same text, when the new functions exist.
DO $do$
DECLARE
    member regprocedure;
    columns text;
    ids oid[];
    id oid;
    views text;
    view record;
BEGIN
    SELECT coalesce(array_agg(DISTINCT v.oid), '{}') INTO ids
    FROM pg_class v
    JOIN pg_rewrite r ON r.ev_class = v.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        AND d.refclassid = 'pg_proc'::regclass
    JOIN pg_depend m ON m.classid = 'pg_proc'::regclass AND m.objid = d.refobjid AND m.deptype = 'e'
    JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
    WHERE v.relkind = 'v' AND e.extname = 'gkmeans';

    FOR view IN
        SELECT oid::regclass AS name, pg_get_userbyid(relowner) AS owner
        FROM pg_class WHERE oid = ANY (ids) AND relpersistence = 't'
    LOOP
        RAISE EXCEPTION 'view % is in the way', view.name
            USING DETAIL = format('It is a temporary view of role %s.', view.owner),
            HINT = 'Drop the view, or end the session that made it.',
            ERRCODE = 'dependent_objects_still_exist';
    END LOOP;

    -- An extension replaces no view but its own.  And from here on, none of them changes.
    FOREACH id IN ARRAY ids LOOP
        EXECUTE format('ALTER EXTENSION gkmeans ADD VIEW %s', id::regclass);
        IF NOT EXISTS (
            SELECT FROM pg_depend m
            WHERE m.classid = 'pg_class'::regclass AND m.objid = id AND m.deptype = 'e')
        THEN
            RAISE EXCEPTION 'another view took the name of view %', id::regclass
                USING HINT = 'Try again.', ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;

    -- A view is made again from its text, and a literal may run functions of anybody: if it is of a type
    -- whose name may mean another one by then, or an argument of any type.
    FOR view IN
        SELECT r.ev_class::regclass AS name, pg_describe_object(d.refclassid, d.refobjid, 0) AS used
        FROM pg_rewrite r
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = ANY (ids) AND d.refobjid >= 16384
            AND (d.refclassid = 'pg_type'::regclass OR d.refclassid = 'pg_proc'::regclass AND EXISTS (
                SELECT FROM pg_proc p WHERE p.oid = d.refobjid AND '"any"'::regtype = ANY (p.proargtypes)))
    LOOP
        RAISE EXCEPTION 'view % is in the way', view.name
            USING DETAIL = format('It uses %s, and reading its text again may run functions of other roles.',
                view.used),
            HINT = 'Drop the view, and create it again after the update.',
            ERRCODE = 'dependent_objects_still_exist';
    END LOOP;

    SELECT coalesce(jsonb_agg(jsonb_build_object('id', v.oid, 'name', v.oid::regclass::text,
               'options', array_to_string(v.reloptions, ', '), 'text', pg_get_viewdef(v.oid),
               'uses', (
                   SELECT jsonb_agg(format('%s %s %s', d.refclassid, d.refobjid, d.refobjsubid))
                   FROM pg_rewrite r
                   JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                   WHERE r.ev_class = v.oid)) ORDER BY v.oid)::text, '[]')
    INTO views
    FROM pg_class v WHERE v.oid = ANY (ids);

    FOR member IN
        SELECT m.objid FROM pg_depend m
        JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
        WHERE m.classid = 'pg_proc'::regclass AND m.deptype = 'e' AND e.extname = 'gkmeans'
    LOOP
        -- a view lists the columns by place: without the list it finds those of the same names
        SELECT string_agg(quote_ident(name), ', ' ORDER BY number) INTO columns
        FROM pg_proc, unnest(proargnames, proargmodes) WITH ORDINALITY AS a(name, mode, number)
        WHERE oid = member AND mode = 'o';
        FOR view IN
            SELECT v.oid::regclass AS name
            FROM pg_class v JOIN pg_rewrite r ON r.ev_class = v.oid
            -- the lists that remain without the literals, and all of them, are those of its calls
            WHERE v.oid = ANY (ids) AND r.rulename = '_RETURN' AND EXISTS (
                SELECT FROM unnest(ARRAY[pg_get_viewdef(v.oid),
                    regexp_replace(pg_get_viewdef(v.oid), $re$'[^']*'|("[^"]*")$re$, '\1', 'g')]) AS text
                WHERE (
                    SELECT count(*) FROM regexp_matches(text, format('\) (\w+|"[^"]+")\(%s\)', columns), 'g')) <> (
                    SELECT count(*) FROM regexp_matches(r.ev_action::text,
                        format(':funcexpr \{FUNCEXPR :funcid %s ', member::oid), 'g')))
        LOOP
            RAISE EXCEPTION 'view % is in the way', view.name
                USING DETAIL = format('Its text renames columns of %s, or lists them elsewhere as well.', member),
                HINT = 'Drop the view, and create it again after the update.',
                ERRCODE = 'dependent_objects_still_exist';
        END LOOP;
        views := regexp_replace(views, format('\) (\w+|\\"[^"]+\\")\(%s\)', columns), ') \1', 'g');
        EXECUTE format('ALTER ROUTINE %s RENAME TO %I', member,
            (SELECT proname || '_0_1_0' FROM pg_proc WHERE oid = member));
    END LOOP;
    PERFORM set_config('update_of_gkmeans.views', views, true);
END $do$;

SET LOCAL search_path = @extschema@, pg_temp;
