/*
 * A fit of very many rows, checked over all of them by the definition and by plain addition.
 */
#ifndef ENGINE_LARGE_H
#define ENGINE_LARGE_H

#include "engine_cases.h"

/*
 * Fits n rows and tests every answer; true if all rows were on the devices.
 */
extern void test_large(const GkEngineClass *class_of, int64_t n, int d, int64_t k, bool wide,
					   Feeding feeding);

#endif							/* ENGINE_LARGE_H */
