/*
 * The rows of labels as a relation that commands can select from.
 *
 * It is a named tuplestore, which costs nothing.  Citus plans a command that reads or writes its
 * tables in pieces and loses such a name on the way, so that command gets a function instead.
 */
#ifndef GK_LABELS_RELATION_H
#define GK_LABELS_RELATION_H

#include "postgres.h"

#include "utils/tuplestore.h"

/* The relation: what to write into a command that calls the labels l. */
typedef struct GkLabelsRelation
{
	const char *from;			/* after FROM, where the command only inserts */
	const char *with;			/* before a command that compares rows with the labels … */
	const char *compared;		/* … and after its FROM */
	bool		is_function;
} GkLabelsRelation;

/* What is done with the relation. */
typedef void (*GkUseLabels) (const GkLabelsRelation *relation, void *context);

/*
 * Makes rows of gk_labels_descriptor() a relation while `use` runs; `citus` says that it is used
 * beside a table of Citus.  SPI must be connected.
 */
extern void gk_use_labels(Tuplestorestate *labels, Oid id_type, bool citus, GkUseLabels use,
						  void *context);

#endif							/* GK_LABELS_RELATION_H */
