/*
 * Parameters of connections as libpq writes them: name=value, or name='value'.
 */
#ifndef GK_CONNINFO_H
#define GK_CONNINFO_H

/*
 * Reads parameters behind those that are there, up to `limit` of them; returns how many there are
 * then.  42601 if they cannot be read, or are too many.
 */
extern int	gk_read_conninfo(const char *text, const char **keywords, const char **values,
							 int count, int limit);

#endif							/* GK_CONNINFO_H */
