/*
 * Chooses the features if the user did not name them.
 */
#ifndef GK_SOURCE_CHOICE_H
#define GK_SOURCE_CHOICE_H

#include "source_columns.h"

/* Chooses the features if the user did not name them, and reports the choice as a NOTICE. */
extern void gk_choose_features(GkSource *source);

#endif							/* GK_SOURCE_CHOICE_H */
