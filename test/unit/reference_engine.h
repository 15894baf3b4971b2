/*
 * The reference engine: engine.h written down as plainly as possible, one
 * thread, no filter, no bounds.  The oracle of the unit tests; slow by design.
 */
#ifndef GK_REFERENCE_ENGINE_H
#define GK_REFERENCE_ENGINE_H

#include "engine.h"

extern const GkEngineClass *gk_reference_engine(void);

/* As plan_cpu_stop(). */
extern int64_t plan_reference_stop(GkEngine *engine, int64_t look);

#endif							/* GK_REFERENCE_ENGINE_H */
