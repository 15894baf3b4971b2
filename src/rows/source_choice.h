/*
 * The choice of the features where the user left them out.
 */
#ifndef GK_SOURCE_CHOICE_H
#define GK_SOURCE_CHOICE_H

#include "source_columns.h"

/* Chooses the features where the user left them out, and tells which. */
extern void gk_choose_features(GkSource *source);

#endif							/* GK_SOURCE_CHOICE_H */
