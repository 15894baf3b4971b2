/*
 * Devices and their memory.
 */
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include <cuda.h>
#include <pthread.h>
#include <unistd.h>

#include "accumulation.h"
#include "cuda/launch.h"
#include "pinned.h"
#include "speed.h"

namespace gk
{

/*
 * The driver calls for mapped memory, fetched by name so that libcuda is not linked.  Their
 * error numbers are those of the runtime.
 */
struct Driver
{
	decltype(&cuMemAddressReserve) MemAddressReserve;
	decltype(&cuMemAddressFree) MemAddressFree;
	decltype(&cuMemCreate) MemCreate;
	decltype(&cuMemRelease) MemRelease;
	decltype(&cuMemMap) MemMap;
	decltype(&cuMemUnmap) MemUnmap;
	decltype(&cuMemSetAccess) MemSetAccess;
	decltype(&cuMemGetAllocationGranularity) MemGetAllocationGranularity;
};

/* Blocks all signals of this thread. */
SignalsBlocked::SignalsBlocked()
{
	sigset_t	all;

	static_assert(sizeof(sigset_t) <= sizeof(saved), "a sigset_t fits");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, (sigset_t *) saved);
}

/* Restores the signal mask. */
SignalsBlocked::~SignalsBlocked()
{
	pthread_sigmask(SIG_SETMASK, (sigset_t *) saved, nullptr);
}

/* Fetches one call of the driver. */
template <typename F> static void
fetch_call(const char *name, F *function)
{
	cudaDriverEntryPointQueryResult found;
	void	   *address = nullptr;

	GK_CUDA(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found));
	if (found != cudaDriverEntryPointSuccess || address == nullptr)
		fail(GK_NO_DEVICE, name, "the NVIDIA driver is too old: it cannot map device memory");
	*function = (F) address;
}

/* The driver's calls. */
static const Driver &
driver()
{
	static std::mutex mutex;
	static Driver calls;
	static bool loaded = false;
	std::lock_guard<std::mutex> lock(mutex);

	if (!loaded)
	{
		fetch_call("cuMemAddressReserve", &calls.MemAddressReserve);
		fetch_call("cuMemAddressFree", &calls.MemAddressFree);
		fetch_call("cuMemCreate", &calls.MemCreate);
		fetch_call("cuMemRelease", &calls.MemRelease);
		fetch_call("cuMemMap", &calls.MemMap);
		fetch_call("cuMemUnmap", &calls.MemUnmap);
		fetch_call("cuMemSetAccess", &calls.MemSetAccess);
		fetch_call("cuMemGetAllocationGranularity", &calls.MemGetAllocationGranularity);
		loaded = true;
	}
	return calls;
}

/* An attribute of a device. */
static int
attribute_of(int ordinal, cudaDeviceAttr attribute)
{
	int			value = 0;

	GK_CUDA(cudaDeviceGetAttribute(&value, attribute, ordinal));
	return value;
}

/* The speed of a device: two transfers a cycle of its memory. */
Speed
speed_of(int ordinal)
{
	double		cycles = attribute_of(ordinal, cudaDevAttrClockRate) * 1e3;
	double		memory_cycles = attribute_of(ordinal, cudaDevAttrMemoryClockRate) * 1e3;
	double		flops = cycles * attribute_of(ordinal, cudaDevAttrMultiProcessorCount) *
		gk_tensor_flops_a_cycle(attribute_of(ordinal, cudaDevAttrComputeCapabilityMajor),
								attribute_of(ordinal, cudaDevAttrComputeCapabilityMinor));
	double		bandwidth =
		memory_cycles * 2 * attribute_of(ordinal, cudaDevAttrGlobalMemoryBusWidth) / 8;

	return {flops > 0.0 ? flops : GK_DEVICE_FLOPS,
		bandwidth > 0.0 ? bandwidth : GK_DEVICE_BANDWIDTH};
}

/*
 * For tests: the compute capability that devices have at most, as 75, or -75: those that come after
 * the first; 0: that which they have.
 */
static std::atomic<int> pretended_capability{0};

/* The shared memory that a block can have on GPUs of older compute capabilities. */
static size_t
shared_memory_of(int capability)
{
	switch (capability)
	{
		case 75:
			return 64 << 10;
		case 80:
		case 87:
			return 163 << 10;
		default:
			return 99 << 10;
	}
}

/* Makes a device seem older, if a test wants that; as 7.5, it has no cooperative kernels either. */
static void
pretend_capability(Device *device)
{
	int			pretended = pretended_capability;
	int			capability = std::abs(pretended);

	if (pretended == 0 || (pretended < 0 && device->ordinal == 0) ||
		device->major * 10 + device->minor <= capability)
		return;
	device->major = capability / 10;
	device->minor = capability % 10;
	device->cooperative = device->cooperative && capability >= 80;
	device->shared_memory = std::min(device->shared_memory, shared_memory_of(capability));
}

/* Reads a device's properties and creates its streams. */
static void
set_up_device(Device *device, int ordinal)
{
	size_t		free_bytes;
	size_t		total;

	GK_CUDA(cudaSetDevice(ordinal));
	device->ordinal = ordinal;
	device->major = attribute_of(ordinal, cudaDevAttrComputeCapabilityMajor);
	device->minor = attribute_of(ordinal, cudaDevAttrComputeCapabilityMinor);
	device->processors = attribute_of(ordinal, cudaDevAttrMultiProcessorCount);
	device->cooperative = attribute_of(ordinal, cudaDevAttrCooperativeLaunch) != 0;
	device->shared_memory = attribute_of(ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin);
	device->speed = speed_of(ordinal);
	if (device->major * 10 + device->minor < 75)
		fail(GK_NO_DEVICE, "open", "the GPU is older than compute capability 7.5");
	pretend_capability(device);
	device->warpgroups = has_warpgroups(*device);
	GK_CUDA(cudaMemGetInfo(&free_bytes, &total));
	device->total_memory = total;
	GK_CUDA(cudaStreamCreateWithFlags(&device->compute, cudaStreamNonBlocking));
	GK_CUDA(cudaStreamCreateWithFlags(&device->copy, cudaStreamNonBlocking));
	device->accumulation = check_accumulation(*device);
}

/* The devices that this process has open; never destroyed: CUDA's exit handlers may come first. */
static std::mutex devices_mutex;
static auto &devices = *new std::map<int, std::unique_ptr<Device>>;

/* Opens a device, once for the process. */
Device *
open_device(int ordinal)
{
	static pid_t owner = getpid();
	std::lock_guard<std::mutex> lock(devices_mutex);
	auto		found = devices.find(ordinal);

	if (owner != getpid())
		fail(GK_NO_DEVICE, "open", "CUDA was first used by the parent of this process");
	if (found != devices.end())
		return found->second.get();

	SignalsBlocked blocked;
	auto		device = std::make_unique<Device>();

	try
	{
		set_up_device(device.get(), ordinal);
		(void) driver();
	}
	catch (...)
	{
		int			current;

		/* leaves no half-made context behind */
		if (cudaGetDevice(&current) == cudaSuccess && current == ordinal)
			(void) cudaDeviceReset();
		throw;
	}
	return (devices[ordinal] = std::move(device)).get();
}

/* A device that this process has open, or NULL. */
Device *
find_device(int ordinal)
{
	std::lock_guard<std::mutex> lock(devices_mutex);
	auto		found = devices.find(ordinal);

	return found == devices.end() ? nullptr : found->second.get();
}

/* Releases all devices. */
void
close_devices()
{
	std::lock_guard<std::mutex> lock(devices_mutex);

	finish_unpinning();
	for (auto &device : devices)
	{
		(void) cudaSetDevice(device.first);
		(void) cudaDeviceReset();
	}
	devices.clear();
}

/* Counts bytes that were taken. */
void
Account::add(uint64_t bytes)
{
	uint64_t	now;

	if (draw != nullptr && !draw(bytes))
		fail_memory(GK_HOST_MEMORY_REFUSED, -1, bytes, 0, "host memory is refused");
	now = used += bytes;
	if (now > peak)
		peak = now;
	if (device != nullptr)
		device->own_bytes += bytes;
}

/* Counts bytes that were freed. */
void
Account::subtract(uint64_t bytes)
{
	used -= bytes;
	if (give_back != nullptr)
		give_back(bytes);
	if (device != nullptr)
		device->own_bytes -= bytes;
}

/* Bytes of the largest block in the arena of an engine. */
#define MOST_SMALL (UINT64_C(1) << 20)

/* Bytes of a pool, and of the largest block in it. */
#define POOL_BYTES (UINT64_C(24) << 20)
#define MOST_POOLED (UINT64_C(4) << 20)

/* Where so many times more memory is in use, a few allocations take little of the time. */
#define POOL_SHARE 16

/* Allocates so many bytes, unless that would be much of the device's. */
void
Arena::open(MemoryOwner &owner, uint64_t bytes)
{
	cudaError_t error;

	if (owner.account.limit / 32 < bytes)
		return;
	GK_CUDA(cudaSetDevice(owner.device->ordinal));
	error = GK_ATTEMPT(cudaMalloc((void **) &base, bytes));
	if (error != cudaSuccess)
		base = nullptr;
	if (error == cudaErrorMemoryAllocation)
	{
		(void) cudaGetLastError();
		return;
	}
	check(error, "cudaMalloc");
	holder = &owner;
	size = bytes;
	owner.account.add(size);
}

/* Frees the memory. */
Arena::~Arena()
{
	if (base == nullptr)
		return;
	(void) cudaSetDevice(holder->device->ordinal);
	(void) cudaFree(base);
	holder->account.subtract(size);
}

/* Takes memory; NULL if there is no room. */
void *
Arena::take(uint64_t bytes)
{
	char	   *data = base + used;

	if (!has_room(bytes))
		return nullptr;
	used += bytes;
	taken++;
	return data;
}

/* Takes memory back. */
void
Arena::put_back(void *data, uint64_t bytes)
{
	taken--;
	if (taken == 0)
		used = 0;
	else if ((char *) data + bytes == base + used)
		used -= bytes;
}

/* The arena for a block of this size, or NULL. */
static Arena *
arena_for(MemoryOwner &owner, uint64_t bytes)
{
	if (bytes <= MOST_SMALL)
		return &owner.arena;
	if (bytes > MOST_POOLED)
		return nullptr;
	if (!owner.pool.is_open() && owner.account.used < POOL_SHARE * POOL_BYTES &&
		owner.account.has_room(POOL_BYTES))
		owner.pool.open(owner, POOL_BYTES);
	return &owner.pool;
}

/* At least this many bytes; growing loses the contents. */
void
Block::reserve(MemoryOwner &owner, uint64_t wanted)
{
	cudaError_t error;

	if (wanted <= bytes)
		return;
	release();
	wanted = (wanted + 511) / 512 * 512;
	arena = arena_for(owner, wanted);
	data = arena != nullptr ? arena->take(wanted) : nullptr;
	if (data != nullptr)
	{
		holder = &owner;
		bytes = wanted;
		return;
	}
	arena = nullptr;
	GK_CUDA(cudaSetDevice(owner.device->ordinal));
	if (!owner.account.has_room(wanted))
		owner.make_room(wanted);
	error = GK_ATTEMPT(cudaMalloc(&data, wanted));
	if (error == cudaErrorMemoryAllocation)
	{
		(void) cudaGetLastError();
		owner.account.limit = owner.account.used;
		owner.account.full = true;
		owner.make_room(wanted);
		error = GK_ATTEMPT(cudaMalloc(&data, wanted));
	}
	if (error != cudaSuccess)
		data = nullptr;
	check(error, "cudaMalloc");
	holder = &owner;
	bytes = wanted;
	owner.account.add(bytes);
}

/* Frees the memory. */
void
Block::release()
{
	if (data == nullptr)
		return;
	if (arena != nullptr)
		arena->put_back(data, bytes);
	else
	{
		(void) cudaFree(data);
		holder->account.subtract(bytes);
	}
	data = nullptr;
	bytes = 0;
}

/* Bytes of the first pieces of a mapping; later ones are a share of its size, up to a maximum. */
#define LEAST_PIECE (UINT64_C(16) << 20)
#define PIECE_SHARE 128
#define MOST_PIECE (UINT64_C(256) << 20)

/* The properties of physical memory of a device. */
static CUmemAllocationProp
memory_of(const Device *device)
{
	CUmemAllocationProp property = {};

	property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	property.location.id = device->ordinal;
	return property;
}

/* Reserves addresses for all memory of the device. */
void
Mapping::set_up(MemoryOwner &owner)
{
	const Driver &cu = driver();
	CUmemAllocationProp property = memory_of(owner.device);
	size_t		granularity;
	CUdeviceptr address;
	uint64_t	share = std::min(owner.account.limit, owner.device->total_memory) / 64;

	GK_CUDA(cu.MemGetAllocationGranularity(&granularity, &property,
										   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	least_piece = std::min(share, LEAST_PIECE);
	least_piece = (least_piece + granularity - 1) / granularity * granularity;
	reserved = (owner.device->total_memory + least_piece - 1) / least_piece * least_piece;
	GK_CUDA(cu.MemAddressReserve(&address, reserved, 0, 0, 0));
	base = address;
	holder = &owner;
}

/* The size of the next piece of a mapping of this size. */
uint64_t
Mapping::next_piece(uint64_t there) const
{
	uint64_t	share = std::min(there / PIECE_SHARE, MOST_PIECE);

	return std::max(share / least_piece * least_piece, least_piece);
}

/* The size after grow(wanted). */
uint64_t
Mapping::after(MemoryOwner &owner, uint64_t wanted)
{
	uint64_t	there = mapped;

	if (is_small(owner, wanted))
		return 0;
	if (holder == nullptr)
		set_up(owner);
	while (there < wanted)
		there += next_piece(there);
	return there;
}

/* Maps this many more bytes; false if the limit or the device has no room. */
bool
Mapping::add_piece(uint64_t bytes)
{
	const Driver &cu = driver();
	CUmemAllocationProp property = memory_of(holder->device);
	CUmemAccessDesc access;
	CUmemGenericAllocationHandle handle;
	cudaError_t result;

	if (!holder->account.has_room(bytes) || mapped + bytes > reserved)
		return false;
	/* nothing may fail once it is mapped */
	pieces.reserve(pieces.size() + 1);
	access.location = property.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	result = GK_ATTEMPT(cu.MemCreate(&handle, bytes, &property, 0));
	if (result == cudaErrorMemoryAllocation)
		return false;
	check(result, "cuMemCreate");
	result = GK_ATTEMPT(cu.MemMap(base + mapped, bytes, 0, handle, 0));
	if (result == cudaSuccess)
	{
		result = GK_ATTEMPT(cu.MemSetAccess(base + mapped, bytes, &access, 1));
		if (result != cudaSuccess)
			(void) cu.MemUnmap(base + mapped, bytes);
	}
	/* it lives as long as it is mapped */
	(void) cu.MemRelease(handle);
	check(result, "cuMemMap");
	pieces.push_back(bytes);
	mapped += bytes;
	holder->account.add(bytes);
	return true;
}

/* True if so many bytes are in the arena, or can be. */
bool
Mapping::is_small(const MemoryOwner &owner, uint64_t wanted) const
{
	return wanted <= MOST_SMALL && mapped == 0 &&
		(small != nullptr || owner.arena.has_room(MOST_SMALL));
}

/* Moves what lies in the arena into the memory that is mapped now. */
void
Mapping::leave_arena(MemoryOwner &owner)
{
	void	   *from = small;

	GK_CUDA(cudaMemcpyAsync((void *) base, from, MOST_SMALL, cudaMemcpyDeviceToDevice,
							owner.device->copy));
	GK_CUDA(cudaStreamSynchronize(owner.device->copy));
	small = nullptr;
	arena->put_back(from, MOST_SMALL);
}

/* Grows to at least this many bytes; false if the limit or the device has no room. */
bool
Mapping::grow(MemoryOwner &owner, uint64_t wanted)
{
	if (is_small(owner, wanted))
	{
		arena = &owner.arena;
		small = small != nullptr ? small : arena->take(MOST_SMALL);
		return true;
	}
	GK_CUDA(cudaSetDevice(owner.device->ordinal));
	if (holder == nullptr)
		set_up(owner);
	while (mapped < wanted)
	{
		uint64_t	piece = next_piece(mapped);

		if (!add_piece(piece) && (piece == least_piece || !add_piece(least_piece)))
			return false;
	}
	if (small != nullptr)
		leave_arena(owner);
	return true;
}

/* Shrinks to what this many bytes need. */
void
Mapping::shrink(uint64_t wanted)
{
	const Driver &cu = driver();

	while (!pieces.empty() && mapped - pieces.back() >= wanted)
	{
		mapped -= pieces.back();
		(void) cu.MemUnmap(base + mapped, pieces.back());
		holder->account.subtract(pieces.back());
		pieces.pop_back();
	}
}

/* Frees everything, including the addresses. */
void
Mapping::release()
{
	if (small != nullptr)
		arena->put_back(small, MOST_SMALL);
	small = nullptr;
	if (holder == nullptr)
		return;
	(void) cudaSetDevice(holder->device->ordinal);
	shrink(0);
	(void) driver().MemAddressFree(base, reserved);
	holder = nullptr;
}

}								/* namespace gk */

/*
 * For tests: GPUs opened from now on get the kernels that one of this compute capability gets, as
 * 75 for 7.5, and no more shared memory than it has; -75: all but number 0 get these; 0: their own.
 */
extern "C" __attribute__((visibility("default"))) void
gk_cuda_pretend_capability(int capability)
{
	gk::pretended_capability = capability;
}
