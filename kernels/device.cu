/*
 * Devices and their memory.
 */
#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>

#include <cuda.h>
#include <pthread.h>
#include <unistd.h>

#include "device.cuh"
#include "pinned.cuh"

namespace gk
{

/*
 * The driver's calls for memory that is mapped; fetched by name, so that libcuda isn't linked.
 * The numbers of their errors are those of the runtime.
 */
struct Driver
{
	decltype(&cuMemAddressReserve) address_reserve;
	decltype(&cuMemAddressFree) address_free;
	decltype(&cuMemCreate) create;
	decltype(&cuMemRelease) release;
	decltype(&cuMemMap) map;
	decltype(&cuMemUnmap) unmap;
	decltype(&cuMemSetAccess) set_access;
	decltype(&cuMemGetAllocationGranularity) granularity;
};

/* Blocks all signals of this thread. */
SignalsBlocked::SignalsBlocked()
{
	sigset_t	all;

	static_assert(sizeof(sigset_t) <= sizeof(saved), "a sigset_t fits");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, (sigset_t *) saved);
}

/* Puts back which signals were blocked. */
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

	GK_CUDA(cudaGetDriverEntryPointByVersion, name, &address, 12000, cudaEnableDefault, &found);
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
		fetch_call("cuMemAddressReserve", &calls.address_reserve);
		fetch_call("cuMemAddressFree", &calls.address_free);
		fetch_call("cuMemCreate", &calls.create);
		fetch_call("cuMemRelease", &calls.release);
		fetch_call("cuMemMap", &calls.map);
		fetch_call("cuMemUnmap", &calls.unmap);
		fetch_call("cuMemSetAccess", &calls.set_access);
		fetch_call("cuMemGetAllocationGranularity", &calls.granularity);
		loaded = true;
	}
	return calls;
}

/* Reads what is to be known of a device and makes its streams. */
static void
set_up_device(Device *device, int ordinal)
{
	int			shared;
	size_t		free_bytes;
	size_t		total;

	GK_CUDA(cudaSetDevice, ordinal);
	device->ordinal = ordinal;
	GK_CUDA(cudaDeviceGetAttribute, &device->major, cudaDevAttrComputeCapabilityMajor, ordinal);
	GK_CUDA(cudaDeviceGetAttribute, &device->minor, cudaDevAttrComputeCapabilityMinor, ordinal);
	GK_CUDA(cudaDeviceGetAttribute, &device->processors, cudaDevAttrMultiProcessorCount, ordinal);
	GK_CUDA(cudaDeviceGetAttribute, &shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
	device->shared_memory = shared;
	if (device->major * 10 + device->minor < 75)
		fail(GK_NO_DEVICE, "open", "the GPU is older than compute capability 7.5");
	GK_CUDA(cudaMemGetInfo, &free_bytes, &total);
	device->total_memory = total;
	GK_CUDA(cudaStreamCreateWithFlags, &device->compute, cudaStreamNonBlocking);
	GK_CUDA(cudaStreamCreateWithFlags, &device->copy, cudaStreamNonBlocking);
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
	catch (const Failure &)
	{
		int			current;

		/* no half of a context stays behind */
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

/* Gives back all devices. */
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

/* Counts bytes that were given back. */
void
Account::subtract(uint64_t bytes)
{
	used -= bytes;
	if (give_back != nullptr)
		give_back(bytes);
	if (device != nullptr)
		device->own_bytes -= bytes;
}

/* At least this many bytes; what was in them is lost where it grows. */
void
Block::reserve(MemoryOwner &owner, uint64_t wanted)
{
	cudaError_t error;

	if (wanted <= bytes)
		return;
	release();
	wanted = (wanted + 511) / 512 * 512;
	GK_CUDA(cudaSetDevice, owner.device->ordinal);
	if (!owner.account.has_room(wanted))
		owner.make_room(wanted);
	error = GK_ATTEMPT(cudaMalloc, &data, wanted);
	if (error == cudaErrorMemoryAllocation)
	{
		(void) cudaGetLastError();
		owner.account.limit = owner.account.used;
		owner.account.full = true;
		owner.make_room(wanted);
		error = GK_ATTEMPT(cudaMalloc, &data, wanted);
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
	(void) cudaFree(data);
	holder->account.subtract(bytes);
	data = nullptr;
	bytes = 0;
}

/* Bytes of the first pieces of a mapping; what part of what is there later ones are, and at most. */
#define LEAST_PIECE (UINT64_C(16) << 20)
#define PIECE_SHARE 128
#define MOST_PIECE (UINT64_C(256) << 20)

/* What physical memory of a device is asked for by. */
static CUmemAllocationProp
memory_of(const Device *device)
{
	CUmemAllocationProp property = {};

	property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	property.location.id = device->ordinal;
	return property;
}

/* Reserves addresses for as much as the device has. */
void
Mapping::set_up(MemoryOwner &owner)
{
	CUmemAllocationProp property = memory_of(owner.device);
	size_t		granularity;
	CUdeviceptr address;
	uint64_t	share = std::min(owner.account.limit, owner.device->total_memory) / 64;

	GK_CUDA(driver().granularity, &granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	least_piece = std::min(share, LEAST_PIECE);
	least_piece = (least_piece + granularity - 1) / granularity * granularity;
	reserved = (owner.device->total_memory + least_piece - 1) / least_piece * least_piece;
	GK_CUDA(driver().address_reserve, &address, reserved, 0, 0, 0);
	base = address;
	holder = &owner;
}

/* Bytes of the piece that follows so many bytes. */
uint64_t
Mapping::next_piece(uint64_t there) const
{
	uint64_t	share = std::min(there / PIECE_SHARE, MOST_PIECE);

	return std::max(share / least_piece * least_piece, least_piece);
}

/* Bytes there after grow(wanted). */
uint64_t
Mapping::after(MemoryOwner &owner, uint64_t wanted)
{
	uint64_t	there = mapped;

	if (holder == nullptr)
		set_up(owner);
	while (there < wanted)
		there += next_piece(there);
	return there;
}

/* Maps so many bytes more; false where limit or device have no room. */
bool
Mapping::add_piece(uint64_t bytes)
{
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
	result = GK_ATTEMPT(driver().create, &handle, bytes, &property, 0);
	if (result == cudaErrorMemoryAllocation)
		return false;
	check(result, "cuMemCreate");
	result = GK_ATTEMPT(driver().map, base + mapped, bytes, 0, handle, 0);
	if (result == cudaSuccess)
	{
		result = GK_ATTEMPT(driver().set_access, base + mapped, bytes, &access, 1);
		if (result != cudaSuccess)
			(void) driver().unmap(base + mapped, bytes);
	}
	/* it stays as long as it is mapped */
	(void) driver().release(handle);
	check(result, "cuMemMap");
	pieces.push_back(bytes);
	mapped += bytes;
	holder->account.add(bytes);
	return true;
}

/* Grows to at least this many bytes; false where limit or device have no room. */
bool
Mapping::grow(MemoryOwner &owner, uint64_t wanted)
{
	GK_CUDA(cudaSetDevice, owner.device->ordinal);
	if (holder == nullptr)
		set_up(owner);
	while (mapped < wanted)
	{
		uint64_t	piece = next_piece(mapped);

		if (!add_piece(piece) && (piece == least_piece || !add_piece(least_piece)))
			return false;
	}
	return true;
}

/* Gives back what is not needed for this many bytes. */
void
Mapping::shrink(uint64_t wanted)
{
	while (!pieces.empty() && mapped - pieces.back() >= wanted)
	{
		mapped -= pieces.back();
		(void) driver().unmap(base + mapped, pieces.back());
		holder->account.subtract(pieces.back());
		pieces.pop_back();
	}
}

/* Gives all back, the addresses too. */
void
Mapping::release()
{
	if (holder == nullptr)
		return;
	(void) cudaSetDevice(holder->device->ordinal);
	shrink(0);
	(void) driver().address_free(base, reserved);
	holder = nullptr;
}

}								/* namespace gk */
