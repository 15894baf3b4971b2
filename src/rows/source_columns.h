/*
 * The columns of a described source; for the files that describe and read it.
 */
#ifndef GK_SOURCE_COLUMNS_H
#define GK_SOURCE_COLUMNS_H

#include "nodes/parsenodes.h"

#include "decode.h"
#include "source.h"
#include "source_text.h"

struct GkSource
{
	GkSourceSpec spec;
	const GkSourceText *text;
	Query	   *query;			/* SELECT * FROM it, analysed */
	TupleDesc	columns;
	int			id;				/* numbers of columns, from 1; 0 = none */
	int			weight;
	Oid			id_type;		/* after the cast */
	List	   *id_parts;		/* see gk_id_parts() */
	int			count;			/* features */
	int		   *features;		/* their columns */
	const char **names;			/* and their names */
	GkColumn   *described;		/* how to decode them */
	bool		by_direction;	/* see gk_source_by_direction() */
	List	   *forbidden;		/* OIDs of tables, see gk_source_forbid() */
	bool		is_written;		/* see gk_source_write() */
	struct GkFeedQuery *feeding;	/* its plan, if there was an estimate, or it is read again */
	char	   *read_by;		/* the snapshot, serialized, if a node may read it again */
};

/* The name and the type of a column. */
extern const char *gk_column_name(const GkSource *source, int column);
extern Oid	gk_column_type(const GkSource *source, int column);

/*
 * Finds a column by its name, which an argument gives, or a model if that is NULL: 42703, or 42702
 * if there are two.
 */
extern int	gk_find_column(const GkSource *source, const char *name, const char *argument);

/* Raises 55000: the columns of a source are not those that were described. */
extern void gk_refuse_change(void) __attribute__((noreturn));

/* The same if a type that was there before was dropped. */
extern void gk_require_type(Oid type);

/* The columns that a query selects by its target list; that error if the type of one is gone. */
extern TupleDesc gk_selected_columns(List *targets);

/* The name of a type for a query, whatever its search_path; that error if it was dropped. */
extern char *gk_type_name(Oid type);

/* The same for a message, as the search_path shows it. */
extern char *gk_shown_type(Oid type);

/* Adds a column to the features. */
extern void gk_add_feature(GkSource *source, int column);

#endif							/* GK_SOURCE_COLUMNS_H */
