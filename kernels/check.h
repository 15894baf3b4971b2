/*
 * Errors inside the CUDA engine: a Failure carries the status to the C boundary, where
 * cuda_engine.cpp catches it.
 */
#ifndef GK_CHECK_H
#define GK_CHECK_H

#include <cuda_runtime.h>

#include "engine.h"

namespace gk
{

/* The exception of the library; never thrown past its boundary. */
struct Failure
{
	GkStatus	status;
};

/* Thrown to leave a pass because the engine is being closed. */
struct Stopped
{
};

/* A status without a device error. */
GkStatus	make_status(GkCode code, const char *where, const char *message);

/* Throws a status. */
[[noreturn]] void fail(GkCode code, const char *where, const char *message);
[[noreturn]] void fail_memory(GkCode code, int device, uint64_t needed, uint64_t allowed,
							  const char *message);

/* Throws the error that a device has too little free memory, whoever uses it. */
[[noreturn]] void fail_device_full(int device, uint64_t needed);

/*
 * Throws unless the call succeeded; remembers errors that leave the context dead.  `where` is the
 * call: its name is what stands before the parenthesis.
 */
void		check(cudaError_t error, const char *call);

/* Throws if an earlier error has left the context dead. */
void		check_context();

/*
 * The error that a test has planned for this call, or cudaSuccess.  Used at every CUDA call that
 * can fail.
 */
cudaError_t planned_fault();

/* the cast is for clang, which makes an int of it */
#define GK_ATTEMPT(call) ((cudaError_t) (gk::planned_fault() ?: (cudaError_t) (call)))
#define GK_CUDA(call) gk::check(GK_ATTEMPT(call), #call)
#define GK_LAUNCHED(name) gk::check(GK_ATTEMPT(cudaGetLastError()), name)

}								/* namespace gk */

#endif							/* GK_CHECK_H */
