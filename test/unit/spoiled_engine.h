/*
 * An engine that errs on purpose, to show that a comparison would notice: it changes one bit in the
 * answers of one kind of command, or iterates once too often.
 */
#ifndef SPOILED_ENGINE_H
#define SPOILED_ENGINE_H

#include "engine.h"

/* What can be spoiled besides the operations: what is fetched, and what is written if asked for. */
#define SPOIL_LABELS GK_OPERATIONS
#define SPOIL_DISTANCES (GK_OPERATIONS + 1)
#define SPOIL_SUMS (GK_OPERATIONS + 2)
#define SPOIL_ROW_WEIGHTS (GK_OPERATIONS + 3)
#define SPOIL_ROW_LABELS (GK_OPERATIONS + 4)

/*
 * An iteration begins ahead of the one before it.  If a shift within the tolerance ends that one,
 * labels are newer than the centroids, and the next iteration changes none; rightly (SPOIL_NOTHING)
 * it is the last, wrongly (SPOIL_AHEAD) the one that has begun ahead moves the centroids as well.
 */
#define SPOIL_NOTHING (GK_OPERATIONS + 5)
#define SPOIL_AHEAD (GK_OPERATIONS + 6)

/* All answers that can be spoiled. */
#define SPOILS 24
extern const int gk_spoils[SPOILS];

/* The class of such engines; one in a process. */
extern const GkEngineClass *gk_spoiled_engine(const GkEngineClass *inner, int what);

#endif							/* SPOILED_ENGINE_H */
