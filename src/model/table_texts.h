/*
 * How much text PostgreSQL reads from the catalogs, and parses, when it opens a table.
 */
#ifndef GK_TABLE_TEXTS_H
#define GK_TABLE_TEXTS_H

/*
 * Bytes of the missing values, defaults, checks, rules, policies and triggers of a table, without
 * reading them; 0 if there is no such table.  It should be locked.
 */
extern Size gk_table_texts(Oid relation_id);

/* Bytes of the default of one of its columns. */
extern Size gk_default_text(Oid relation_id, AttrNumber column);

#endif							/* GK_TABLE_TEXTS_H */
