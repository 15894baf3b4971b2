/*
 * The columns of a described source; between source.c and reading.c.
 */
#ifndef GK_SOURCE_COLUMNS_H
#define GK_SOURCE_COLUMNS_H

#include "decode.h"
#include "source.h"

struct GkSource
{
	GkSourceSpec spec;
	const char *from;			/* what stands after FROM */
	TupleDesc	columns;
	int			id;				/* numbers of columns, from 1; 0 = none */
	int			weight;
	Oid			id_type;		/* after the cast */
	int			count;			/* features */
	int		   *features;		/* their columns */
	GkColumn   *described;		/* how to decode them */
};

#endif							/* GK_SOURCE_COLUMNS_H */
