/*
 * The engine that a program is asked to time.
 */
#ifndef ENGINE_LIBRARY_H
#define ENGINE_LIBRARY_H

#include "engine.h"

/*
 * The class of the CPU engine if the name is NULL or empty, else of the CUDA engine in the library
 * of that name; ends the program if it cannot be loaded.
 */
extern const GkEngineClass *class_of_engine(const char *library);

#endif							/* ENGINE_LIBRARY_H */
