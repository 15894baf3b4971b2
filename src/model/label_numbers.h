/*
 * Numbers for labels of any type.  Labels are told apart by their texts under settings that show
 * each value as it is, whatever those of the session; functions and operators by their oids,
 * because several may have one text.
 */
#ifndef GK_LABEL_NUMBERS_H
#define GK_LABEL_NUMBERS_H

#include "postgres.h"

/* The labels that have been seen; in a memory context of its own. */
typedef struct GkLabelNumbers GkLabelNumbers;

/* No labels yet, of a type. */
extern GkLabelNumbers *gk_label_numbers_create(Oid type);

/* How many different labels have been seen. */
extern int	gk_label_numbers_count(const GkLabelNumbers *numbers);

/*
 * The number of a label: the next one if it has not been seen.  Call it between
 * gk_begin_id_texts() and gk_end_id_texts().  Raises an error beyond GK_MAX_CLUSTERS labels, or
 * 256 MB of their texts.
 */
extern int32 gk_label_number(GkLabelNumbers *numbers, Datum label);

/*
 * The place of each number in the order of the texts, so that the order in which labels came does
 * not show.
 */
extern int32 *gk_label_places(GkLabelNumbers *numbers);

/* Releases the labels. */
extern void gk_label_numbers_drop(GkLabelNumbers *numbers);

#endif							/* GK_LABEL_NUMBERS_H */
