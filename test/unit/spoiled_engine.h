/*
 * An engine that errs on purpose: it changes one bit in the answers of one kind of command, to
 * show that a comparison would notice.
 */
#ifndef SPOILED_ENGINE_H
#define SPOILED_ENGINE_H

#include "engine.h"

/* What can be spoiled besides the operations: what is fetched. */
#define SPOIL_LABELS (GK_GET_CENTROIDS + 1)
#define SPOIL_DISTANCES (GK_GET_CENTROIDS + 2)

/* All that can be spoiled. */
#define SPOILS 18
extern const int gk_spoils[SPOILS];

/* The class of such engines; one in a process. */
extern const GkEngineClass *gk_spoiled_engine(const GkEngineClass *inner, int what);

#endif							/* SPOILED_ENGINE_H */
