/*
 * Clusters arranged so that each could have to wait for the next one: how many rounds GK_MERGE
 * takes.
 */
#ifndef MERGE_ROUNDS_H
#define MERGE_ROUNDS_H

#include "engine.h"

/*
 * Merges every arrangement of about `count` clusters on so many devices, and tells of any that
 * takes too many rounds, or, with an oracle, that it merges otherwise.  True if all are right.
 */
extern bool merges_in_few_rounds(const GkEngineClass *tested, const GkEngineClass *oracle,
								 int64_t count, int devices);

#endif							/* MERGE_ROUNDS_H */
