/*
 * The reference engine: engine.h written down as plainly as possible, one
 * thread, no filter, no bounds.  The oracle of the unit tests; slow by design.
 */
#ifndef GK_REFERENCE_ENGINE_H
#define GK_REFERENCE_ENGINE_H

#include "engine.h"

extern const GkEngineClass *gk_reference_engine(void);

#endif							/* GK_REFERENCE_ENGINE_H */
