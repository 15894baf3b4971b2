/*
 * An engine that fails on purpose.
 */
#ifndef FAULT_ENGINE_H
#define FAULT_ENGINE_H

#include "engine.h"

/* Wraps `inner` so that its call number `call` (from 1) fails with `code`. */
extern const GkEngineClass *gk_fault_engine(const GkEngineClass *inner, int64_t call, GkCode code);

#endif							/* FAULT_ENGINE_H */
