/*
 * An engine that errs on purpose: it changes one bit in the answers of one kind of command, to
 * show that a comparison would notice.
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

/* All that can be spoiled. */
#define SPOILS 24
extern const int gk_spoils[SPOILS];

/* The class of such engines; one in a process. */
extern const GkEngineClass *gk_spoiled_engine(const GkEngineClass *inner, int what);

#endif							/* SPOILED_ENGINE_H */
