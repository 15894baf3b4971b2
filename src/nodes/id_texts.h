/*
 * Ids of rows as texts, on their way from a node to the server that fits.
 */
#ifndef GK_ID_TEXTS_H
#define GK_ID_TEXTS_H

#include "postgres.h"

/*
 * True if ids of a type can be sent: they contain no rows, whose columns another statement may
 * change in between.
 */
extern bool gk_can_send_ids(Oid type);

/*
 * Sets what the texts of values depend on, alike on both sides, until the call of
 * gk_end_id_texts() with the result.
 */
extern int	gk_begin_id_texts(void);
extern void gk_end_id_texts(int nest_level);

#endif							/* GK_ID_TEXTS_H */
