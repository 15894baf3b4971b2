/*
 * A stand-in for the GPU library, to test everything between SQL and a CUDA engine without a
 * GPU: it pretends that there are devices, and uses a CPU engine of its own.
 *
 * The file "cuda_stand_in" in the working directory, a server's data directory, controls it:
 * lines of a word and a number.
 *
 *   devices N   there are N devices (default 4)
 *   driver 0    there is no driver
 *   gflops N    the speed of a device, in billions of operations per second
 *   several N   several devices cannot be opened together, with the GkCode N
 *   full N      device number N has no memory left
 *   lost N      call number N loses the context: open is number 1, commands follow
 *   failed N    call number N fails
 *   interface N the library was built for another interface
 *
 * A command of process PID keeps running while a file "cuda_stand_in.hold.PID" exists.  Each
 * release_process() appends the PID to "cuda_stand_in.released".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

#define TOTAL_BYTES (UINT64_C(80) << 30)
#define FREE_BYTES (UINT64_C(70) << 30)
#define MAX_DEVICES GK_MAX_DEVICES

/* This process's devices, and the engine that it opened last. */
static bool is_open[MAX_DEVICES];
static bool is_lost;
static int	device_count;
static int	device_numbers[MAX_DEVICES];
static int	calls;

/* The number after a word of the file, or its default. */
static int
told(const char *word, int otherwise)
{
	FILE	   *file = fopen("cuda_stand_in", "r");
	char		found[32];
	int			number;

	while (file != NULL && fscanf(file, "%31s %d", found, &number) == 2)
		if (strcmp(found, word) == 0)
			otherwise = number;
	if (file != NULL)
		fclose(file);
	return otherwise;
}

/* A status without memory. */
static GkStatus
make_status(GkCode code, int device, int native, const char *where, const char *message)
{
	GkStatus	status = {.code = code,.device = device,.native = native};

	snprintf(status.where, sizeof(status.where), "%s", where);
	snprintf(status.message, sizeof(status.message), "%s", message);
	return status;
}

/* The error of the real library for a device without memory. */
static GkStatus
full_device(int device)
{
	GkStatus	status = make_status(GK_NO_DEVICE_MEMORY, device, 2, "cudaMalloc", "");

	snprintf(status.message, sizeof(status.message),
			 "GPU %d has too little memory free: 1000 of 2000 bytes", device);
	status.needed = 5000;
	status.allowed = 1000;
	return status;
}

/* Counts a call; returns an error if it is to fail. */
static GkStatus
count_call(const char *where)
{
	calls++;
	is_lost = is_lost || calls == told("lost", 0);
	if (is_lost)
		return make_status(GK_CONTEXT_LOST, -1, 700, where, "an illegal memory access");
	return make_status(calls == told("failed", 0) ? GK_DEVICE_ERROR : GK_OK, 0, 801, where,
					   "operation not supported");
}

/* Lists the devices without opening them. */
static GkStatus
list_devices(GkDevice *devices, int capacity, int *count)
{
	*count = told("devices", 4);
	if (is_lost)
		return make_status(GK_CONTEXT_LOST, -1, 700, "an earlier call", "an illegal memory access");
	if (told("driver", 1) == 0)
		return make_status(GK_NO_DEVICE, -1, 35, "cudaGetDeviceCount", "the driver is missing");
	for (int i = 0; i < *count && i < capacity; i++)
	{
		devices[i] = (GkDevice) {.number = i,.major = 9,.total_bytes = TOTAL_BYTES,
			.free_bytes = is_open[i] ? FREE_BYTES : 0,.open = is_open[i],
			.flops = 1e9 * told("gflops", 0)};
		snprintf(devices[i].name, sizeof(devices[i].name), "Stand-in %d", i);
	}
	return make_status(GK_OK, -1, 0, "", "");
}

/* The reason why the devices of a configuration cannot be opened. */
static GkStatus
open_devices(const GkEngineConfig *config)
{
	for (int i = 0; i < config->device_count; i++)
	{
		int			device = config->devices[i];

		if (device >= told("devices", 4))
			return make_status(GK_NO_DEVICE, -1, 101, "cudaSetDevice", "invalid device ordinal");
		if (device == told("full", -1))
			return full_device(device);
		is_open[device] = true;
	}
	return make_status(config->device_count > 1 ? told("several", GK_OK) : GK_OK, -1, 0,
					   "ncclCommInitAll", "several devices fail");
}

/* Opens a CPU engine that passes for this one. */
static GkStatus
open_engine(const GkEngineConfig *config, GkEngine **engine)
{
	GkStatus	status;

	*engine = NULL;
	calls = 0;
	status = count_call("cudaStreamCreate");
	if (status.code == GK_OK)
		status = open_devices(config);
	if (status.code == GK_OK)
		status = gk_cpu_engine()->open(config, engine);
	if (status.code == GK_OK)
		(*engine)->class_of = gk_cuda_engine();
	device_count = config->device_count;
	memcpy(device_numbers, config->devices, device_count * sizeof(int));
	return status;
}

/* Starts a command, unless this call is to fail. */
static GkStatus
submit(GkEngine *engine, GkCommand *command)
{
	GkStatus	status = count_call("cudaLaunchKernel");

	return status.code == GK_OK ? gk_cpu_engine()->submit(engine, command) : status;
}

/* Waits for a command, which keeps running while it is held. */
static GkStatus
wait(GkEngine *engine, int milliseconds)
{
	char		path[64];

	snprintf(path, sizeof(path), "cuda_stand_in.hold.%d", (int) getpid());
	if (access(path, F_OK) != 0)
		return gk_cpu_engine()->wait(engine, milliseconds);
	usleep(1000 * milliseconds);
	return make_status(GK_RUNNING, -1, 0, "", "");
}

/* Reports the CPU engine's memory as the devices': one share of the first, two of the second. */
static void
usage(const GkEngine *engine, GkUsage *usage)
{
	gk_cpu_engine()->usage(engine, usage);
	usage->device_bytes = usage->host_bytes;
	usage->device_peak = usage->host_peak;
	usage->host_bytes = usage->host_peak = 0;
	usage->devices = device_count;
	for (int i = 0; i < device_count; i++)
	{
		int			shares = device_count * (device_count + 1) / 2;

		usage->device[i].number = device_numbers[i];
		usage->device[i].bytes = usage->device_bytes / shares * (i + 1);
		usage->device[i].peak = usage->device_peak / shares * (i + 1);
	}
}

/* Releases the devices, and records that. */
static void
release_process(void)
{
	FILE	   *file = fopen("cuda_stand_in.released", "a");

	memset(is_open, 0, sizeof(is_open));
	if (file == NULL)
		return;
	fprintf(file, "%d\n", (int) getpid());
	fclose(file);
}

/* The one symbol of the library. */
const GkEngineClass *
gk_cuda_engine(void)
{
	static GkEngineClass class_of;

	class_of = *gk_cpu_engine();
	class_of.interface += told("interface", 0);
	class_of.name = "cuda";
	class_of.open = open_engine;
	class_of.submit = submit;
	class_of.wait = wait;
	class_of.usage = usage;
	class_of.list_devices = list_devices;
	class_of.release_process = release_process;
	return &class_of;
}
