/*
 * Advice for columns that hold no numbers: an expression that turns them into numbers.
 */
#ifndef GK_FEATURE_HINT_H
#define GK_FEATURE_HINT_H

#include "postgres.h"

/* A HINT for a column of a type that cannot be a feature. */
extern const char *gk_feature_hint(Oid type, const char *column);

#endif							/* GK_FEATURE_HINT_H */
