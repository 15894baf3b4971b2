/*
 * Sums over the devices, by NCCL.
 *
 * NCCL is loaded when more than one device is used, so that a host without it can use one.  Its
 * few types are declared here: their values are fixed in NCCL's interface.
 */
#include <cstdio>
#include <cstdlib>
#include <map>

#include <dlfcn.h>

#include "reduce.cuh"

namespace gk
{

typedef struct ncclComm *NcclCommunicator;

#define NCCL_INT64 4
#define NCCL_SUM 0

struct Nccl
{
	int			(*init_all) (NcclCommunicator *, int, const int *);
	int			(*destroy) (NcclCommunicator);
	int			(*all_reduce) (const void *, void *, size_t, int, int, NcclCommunicator,
							   cudaStream_t);
	int			(*group_start) ();
	int			(*group_end) ();
	const char *(*error_string) (int);
};

static Nccl nccl;

/* By the devices they join; never destroyed: NCCL's own exit handlers may come first. */
static auto &communicators = *new std::map<std::vector<int>, std::vector<NcclCommunicator>>;

/* Takes from NCCL what has no place in a server: listening sockets, plugins, files. */
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
check_nccl(int result, const char *where)
{
	GkStatus	status;

	if (result == 0)
		return;
	status = make_status(GK_DEVICE_ERROR, where, "");
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

/* Makes the devices of the shards ready to sum; once for the process. */
void
open_reduce(const std::vector<std::unique_ptr<Shard>> &shards)
{
	std::vector<int> ordinals = ordinals_of(shards);
	std::vector<NcclCommunicator> opened(ordinals.size());
	SignalsBlocked blocked;

	if (communicators.count(ordinals) != 0)
		return;
	load_nccl();
	check_nccl(nccl.init_all(opened.data(), (int) ordinals.size(), ordinals.data()),
			   "ncclCommInitAll");
	communicators[ordinals] = opened;
}

/* Gives back the communicators. */
void
close_reduce()
{
	for (auto &one : communicators)
		for (NcclCommunicator communicator : one.second)
			(void) nccl.destroy(communicator);
	communicators.clear();
}

/* sums of every shard := their sum over all shards. */
void
reduce_sums(const std::vector<std::unique_ptr<Shard>> &shards, int64_t count)
{
	const std::vector<NcclCommunicator> &ours = communicators.at(ordinals_of(shards));
	int			result = 0;

	check_nccl(nccl.group_start(), "ncclGroupStart");
	for (size_t i = 0; i < shards.size() && result == 0; i++)
	{
		int64_t    *sums = shards[i]->sums.get();

		result = nccl.all_reduce(sums, sums, count, NCCL_INT64, NCCL_SUM, ours[i],
								 shards[i]->device->compute);
	}
	check_nccl(nccl.group_end(), "ncclGroupEnd");
	check_nccl(result, "ncclAllReduce");
}

}								/* namespace gk */
