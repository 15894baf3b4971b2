/*
 * Errors: from CUDA's codes to a GkStatus.
 */
#include <atomic>
#include <cstdio>
#include <cstring>

#include "check.h"

namespace gk
{

static std::atomic<int> lost_error{0};
static std::atomic<int64_t> calls_to_fault{0};
static std::atomic<int> fault_error{0};

/* The planned fault of this call, if any. */
cudaError_t
planned_fault()
{
	if (calls_to_fault.load(std::memory_order_relaxed) == 0 || --calls_to_fault != 0)
		return cudaSuccess;
	return (cudaError_t) fault_error.load();
}

/* A status without a device error. */
GkStatus
make_status(GkCode code, const char *where, const char *message)
{
	GkStatus	status;

	memset(&status, 0, sizeof(status));
	status.code = code;
	status.device = -1;
	snprintf(status.where, sizeof(status.where), "%s", where);
	snprintf(status.message, sizeof(status.message), "%s", message);
	return status;
}

/* Throws a status. */
void
fail(GkCode code, const char *where, const char *message)
{
	throw Failure{make_status(code, where, message)};
}

/* Throws a status about memory. */
void
fail_memory(GkCode code, int device, uint64_t needed, uint64_t allowed, const char *message)
{
	GkStatus	status = make_status(code, "", message);

	status.device = device;
	status.needed = needed;
	status.allowed = allowed;
	throw Failure{status};
}

/* Throws the error that a device has too little free memory, whoever uses it. */
void
fail_device_full(int device, uint64_t needed)
{
	GkStatus	status = make_status(GK_NO_DEVICE_MEMORY, "cudaMalloc", "");
	size_t		free_bytes = 0;
	size_t		total;

	(void) cudaSetDevice(device);
	(void) cudaMemGetInfo(&free_bytes, &total);
	snprintf(status.message, sizeof(status.message),
			 "GPU %d has too little memory free: %llu of %llu bytes", device,
			 (unsigned long long) free_bytes, (unsigned long long) total);
	status.device = device;
	status.native = (int) cudaErrorMemoryAllocation;
	status.needed = needed;
	status.allowed = free_bytes;
	throw Failure{status};
}

/* True for errors after which nothing works in this process any more. */
static bool
is_sticky(cudaError_t error)
{
	switch (error)
	{
		case cudaErrorIllegalAddress:
		case cudaErrorLaunchTimeout:
		case cudaErrorAssert:
		case cudaErrorHardwareStackError:
		case cudaErrorIllegalInstruction:
		case cudaErrorMisalignedAddress:
		case cudaErrorInvalidAddressSpace:
		case cudaErrorInvalidPc:
		case cudaErrorLaunchFailure:
		case cudaErrorECCUncorrectable:
		case cudaErrorNvlinkUncorrectable:
		case cudaErrorContained:
		case cudaErrorTensorMemoryLeak:
		case cudaErrorMpsClientTerminated:
		case cudaErrorExternalDevice:
		case cudaErrorCudartUnloading:
		case cudaErrorContextIsDestroyed:
			return true;
		default:
			return false;
	}
}

/* The status code of a CUDA error that is not sticky. */
static GkCode
code_of(cudaError_t error)
{
	switch (error)
	{
		case cudaErrorMemoryAllocation:
			return GK_NO_DEVICE_MEMORY;
		case cudaErrorNoDevice:
		case cudaErrorInvalidDevice:
		case cudaErrorInsufficientDriver:
		case cudaErrorSystemDriverMismatch:
		case cudaErrorSystemNotReady:
		case cudaErrorCompatNotSupportedOnDevice:
		case cudaErrorDevicesUnavailable:
		case cudaErrorNoKernelImageForDevice:
		case cudaErrorUnsupportedPtxVersion:
		case cudaErrorInitializationError:
		case cudaErrorStubLibrary:
			return GK_NO_DEVICE;
		default:
			return GK_DEVICE_ERROR;
	}
}

/* Throws unless the call succeeded; remembers errors that leave the context dead. */
void
check(cudaError_t error, const char *call)
{
	GkStatus	status;
	int			device = -1;

	if (error == cudaSuccess)
		return;
	(void) cudaGetLastError();
	if (is_sticky(error))
		lost_error = (int) error;
	else
		(void) cudaGetDevice(&device);
	status = make_status(is_sticky(error) ? GK_CONTEXT_LOST : code_of(error), "", "");
	snprintf(status.where, sizeof(status.where), "%.*s", (int) strcspn(call, "("), call);
	status.device = device;
	status.native = (int) error;
	snprintf(status.message, sizeof(status.message), "%s: %s", cudaGetErrorName(error),
			 cudaGetErrorString(error));
	throw Failure{status};
}

/* Throws if an earlier error has left the context dead. */
void
check_context()
{
	if (lost_error != 0)
		check((cudaError_t) lost_error.load(), "an earlier call");
}

}								/* namespace gk */

/*
 * For tests: CUDA call number `call` from now on fails with this error; 0 cancels the plan.
 * Returns how many calls an earlier plan was still waiting for, 0 if it has fired.
 */
extern "C" __attribute__((visibility("default"))) int64_t
gk_cuda_fault(int64_t call, int error)
{
	gk::fault_error = error;
	return gk::calls_to_fault.exchange(call);
}
