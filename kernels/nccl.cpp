/*
 * Sums over the devices, by NCCL.
 *
 * NCCL is loaded only if more than one device is used, so that a host without it can use one.
 * The few types needed are declared here; NCCL's interface fixes their values.
 */
#include <cstdio>
#include <cstdlib>
#include <map>

#include <dlfcn.h>

#include "nccl.h"

namespace gk
{

typedef struct ncclComm *NcclCommunicator;

#define NCCL_INT64 4
#define NCCL_SUM 0

struct Nccl
{
	int			(*init_all) (NcclCommunicator *, int, const int *);
	int			(*destroy) (NcclCommunicator);
	int			(*abort) (NcclCommunicator);
	int			(*all_reduce) (const void *, void *, size_t, int, int, NcclCommunicator,
							   cudaStream_t);
	int			(*group_start) ();
	int			(*group_end) ();
	const char *(*error_string) (int);
};

static Nccl nccl;

/* Communicators by their devices; never destroyed: NCCL's own exit handlers may come first. */
static auto &communicators = *new std::map<std::vector<int>, std::vector<NcclCommunicator>>;

/* Turns off what has no place in a server: listening sockets, plugins, files. */
static void
pin_environment()
{
	static const char *const settings[][2] = {
		{"NCCL_RAS_ENABLE", "0"}, {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_NET_PLUGIN", "none"},
		{"NCCL_TUNER_PLUGIN", "none"}, {"NCCL_PROFILER_PLUGIN", "none"},
		{"NCCL_GIN_PLUGIN", "none"}, {"NCCL_ENV_PLUGIN", "none"}, {"NCCL_CONF_FILE", "/dev/null"},
		{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_IB_DISABLE", "1"}, {"NCCL_DEBUG", "NONE"}
	};

	for (auto setting : settings)
		(void) setenv(setting[0], setting[1], 1);
	(void) unsetenv("NCCL_DEBUG_FILE");
	(void) unsetenv("NCCL_TOPO_FILE");
	(void) unsetenv("NCCL_TOPO_DUMP_FILE");
	(void) unsetenv("NCCL_GRAPH_FILE");
	(void) unsetenv("NCCL_GRAPH_DUMP_FILE");
}

/* Finds a function of the library. */
template <typename F> static void
find(void *library, const char *name, F *function)
{
	*function = (F) dlsym(library, name);
	if (*function == nullptr)
		fail(GK_NO_DEVICE, name, "libnccl.so.2 lacks a function that is needed for several GPUs");
}

/* Throws unless the call succeeded. */
static void
check_nccl(int result, GkCode code, const char *where)
{
	GkStatus	status;

	if (result == 0)
		return;
	status = make_status(code, where, "");
	status.native = result;
	snprintf(status.message, sizeof(status.message), "NCCL: %s", nccl.error_string(result));
	throw Failure{status};
}

/* Loads NCCL, once. */
static void
load_nccl()
{
	static void *library = nullptr;
	void	   *loaded;

	if (library != nullptr)
		return;
	pin_environment();
	loaded = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	if (loaded == nullptr)
		fail(GK_NO_DEVICE, "dlopen",
			 "several GPUs need NCCL, and libnccl.so.2 cannot be loaded");
	find(loaded, "ncclCommInitAll", &nccl.init_all);
	find(loaded, "ncclCommDestroy", &nccl.destroy);
	find(loaded, "ncclCommAbort", &nccl.abort);
	find(loaded, "ncclAllReduce", &nccl.all_reduce);
	find(loaded, "ncclGroupStart", &nccl.group_start);
	find(loaded, "ncclGroupEnd", &nccl.group_end);
	find(loaded, "ncclGetErrorString", &nccl.error_string);
	library = loaded;
}

/* The devices of the shards. */
static std::vector<int>
ordinals_of(const std::vector<std::unique_ptr<Shard>> &shards)
{
	std::vector<int> ordinals;

	for (const auto &shard : shards)
		ordinals.push_back(shard->device->ordinal);
	return ordinals;
}

/* Adds `count` integers over the devices, to the same place on each. */
static int
add_up(const std::vector<NcclCommunicator> &ours, const std::vector<Device *> &devices,
	   const std::vector<int64_t *> &sums, const std::vector<int64_t *> &totals, int64_t count)
{
	int			result = nccl.group_start();

	if (result != 0)
		return result;
	for (size_t i = 0; i < devices.size() && result == 0; i++)
		result = nccl.all_reduce(sums[i], totals[i], count, NCCL_INT64, NCCL_SUM, ours[i],
								 devices[i]->compute);
	return nccl.group_end() ?: result;
}

/* Aborts communicators, which may have become unusable. */
static void
abort_all(const std::vector<NcclCommunicator> &ours)
{
	for (NcclCommunicator communicator : ours)
		(void) nccl.abort(communicator);
}

/* Connects the devices, by a first sum; throws on failure. */
static void
connect(const std::vector<NcclCommunicator> &ours, const std::vector<Device *> &devices)
{
	std::vector<int64_t *> one(devices.size());
	cudaError_t error = cudaSuccess;
	int			result = 0;

	for (size_t i = 0; i < devices.size() && error == cudaSuccess; i++)
	{
		error = GK_ATTEMPT(cudaSetDevice(devices[i]->ordinal));
		if (error == cudaSuccess)
			error = GK_ATTEMPT(cudaMalloc((void **) &one[i], sizeof(int64_t)));
		if (error == cudaSuccess)
			error = GK_ATTEMPT(cudaMemsetAsync(one[i], 0, sizeof(int64_t), devices[i]->compute));
	}
	if (error == cudaSuccess)
		result = add_up(ours, devices, one, one, 1);
	/* a sum that was started may wait for one that was not */
	if (error != cudaSuccess || result != 0)
		abort_all(ours);
	for (size_t i = 0; i < devices.size(); i++)
	{
		(void) cudaSetDevice(devices[i]->ordinal);
		(void) cudaStreamSynchronize(devices[i]->compute);
		(void) cudaFree(one[i]);
	}
	check(error, "connecting devices");
	check_nccl(result, GK_NO_DEVICE, "ncclAllReduce");
}

/* Prepares devices for sums; once in a process. */
void
open_reduce(const std::vector<Device *> &devices)
{
	std::vector<int> ordinals;
	std::vector<NcclCommunicator> opened(devices.size());
	SignalsBlocked blocked;

	for (const Device *device : devices)
		ordinals.push_back(device->ordinal);
	if (communicators.count(ordinals) != 0)
		return;
	load_nccl();
	check_nccl(nccl.init_all(opened.data(), (int) ordinals.size(), ordinals.data()),
			   GK_NO_DEVICE, "ncclCommInitAll");
	connect(opened, devices);
	communicators[ordinals] = opened;
}

/* Aborts a sum that does not end. */
void
abort_reduce(const std::vector<std::unique_ptr<Shard>> &shards)
{
	auto		ours = communicators.find(ordinals_of(shards));

	if (ours == communicators.end())
		return;
	abort_all(ours->second);
	communicators.erase(ours);
}

/* Destroys the communicators. */
void
close_reduce()
{
	for (auto &one : communicators)
		for (NcclCommunicator communicator : one.second)
			(void) nccl.destroy(communicator);
	communicators.clear();
}

/* totals of every shard := the sums of all shards. */
void
reduce_sums(const std::vector<std::unique_ptr<Shard>> &shards, int64_t count)
{
	auto		ours = communicators.find(ordinals_of(shards));
	std::vector<Device *> devices;
	std::vector<int64_t *> sums;
	std::vector<int64_t *> totals;
	int			result;

	if (ours == communicators.end())
		fail(GK_DEVICE_ERROR, "ncclAllReduce", "another fit has lost the links between the GPUs");
	for (const auto &shard : shards)
	{
		devices.push_back(shard->device);
		sums.push_back(shard->sums.get());
		totals.push_back(shard->totals.get());
	}
	result = add_up(ours->second, devices, sums, totals, count);
	if (result != 0)
		abort_reduce(shards);
	check_nccl(result, GK_DEVICE_ERROR, "ncclAllReduce");
}

}								/* namespace gk */
