/*
 * Records what a process does on its GPUs: the time of each kernel, and the calls that allocate or
 * free memory, with those between the first and the last iteration counted separately.
 *
 * CUDA loads it into any program.  It prints to stderr when the process ends.
 *
 *   cc -O2 -shared -fPIC -I$CUDA_HOME/include bench/cuda_trace.c -o cuda_trace.so \
 *       -L$CUDA_HOME/lib64 -lcupti
 *   CUDA_INJECTION64_PATH=$PWD/cuda_trace.so engine_cuda_bench LIBRARY 1 5.2 0
 */
#include <cupti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES ((size_t) 8 << 20)
#define ITERATION "centroids_kernel"	/* ends each iteration */

typedef struct Call
{
	uint64_t	at;
	const char *name;
} Call;

typedef struct Run
{
	uint64_t	start;
	uint64_t	end;
	char		name[64];
} Run;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Call *calls;
static size_t call_count;
static size_t call_room;
static Run *runs;
static size_t run_count;
static size_t run_room;

int			InitializeInjection(void);

/* Room for one more. */
static void *
grow(void *list, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return list;
	*room = *room * 2 + 1024;
	return realloc(list, *room * size);
}

/* Records a driver call about memory. */
static void CUPTIAPI
note_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
		  const CUpti_CallbackData *data)
{
	static const char *const about[] = {
		"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemHostRegister", "cuMemHostUnregister",
		"cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap"
	};

	(void) unused;
	(void) domain;
	(void) id;
	if (data->callbackSite != CUPTI_API_ENTER)
		return;
	for (size_t i = 0; i < sizeof(about) / sizeof(*about); i++)
		if (strncmp(data->functionName, about[i], strlen(about[i])) == 0)
		{
			uint64_t	at;

			cuptiGetTimestamp(&at);
			pthread_mutex_lock(&lock);
			calls = grow(calls, call_count, &call_room, sizeof(Call));
			calls[call_count++] = (Call) {at, data->functionName};
			pthread_mutex_unlock(&lock);
			return;
		}
}

static void CUPTIAPI
give_buffer(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = BUFFER_BYTES;
	*records = 0;
}

/* The name of a kernel without namespace, arguments and return type. */
static void
short_name(char *to, size_t size, const char *mangled)
{
	const char *at = strncmp(mangled, "_ZN", 3) == 0 ? mangled + 3 : mangled;

	while (*at == 'N' || (*at >= '0' && *at <= '9'))
	{
		size_t		length = strtoul(at, (char **) &at, 10);

		snprintf(to, size, "%.*s", (int) length, at);
		at += length;
	}
	if (*at == 'I')
		snprintf(to + strlen(to), size - strlen(to), " %.*s", (int) strcspn(at, "v"), at);
}

static void CUPTIAPI
take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;

	(void) context;
	(void) stream;
	(void) size;
	pthread_mutex_lock(&lock);
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
	{
		Run			run = {0};

		if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		{
			CUpti_ActivityKernel9 *kernel = (CUpti_ActivityKernel9 *) record;

			run.start = kernel->start;
			run.end = kernel->end;
			short_name(run.name, sizeof(run.name), kernel->name);
		}
		else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET)
		{
			CUpti_ActivityMemset4 *set = (CUpti_ActivityMemset4 *) record;

			run.start = set->start;
			run.end = set->end;
			strcpy(run.name, "(memset)");
		}
		else
			continue;
		runs = grow(runs, run_count, &run_room, sizeof(Run));
		runs[run_count++] = run;
	}
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static int
by_name(const void *a, const void *b)
{
	int			order = strcmp(((const Run *) a)->name, ((const Run *) b)->name);

	return order != 0 ? order : (((const Run *) a)->start > ((const Run *) b)->start) * 2 - 1;
}

/* Prints everything recorded. */
static void
report(void)
{
	uint64_t	first = UINT64_MAX;
	uint64_t	last = 0;
	size_t		inside = 0;

	cuptiActivityFlushAll(1);
	qsort(runs, run_count, sizeof(Run), by_name);
	for (size_t i = 0, next; i < run_count; i = next)
	{
		uint64_t	total = 0;
		uint64_t	greatest = 0;

		for (next = i; next < run_count && strcmp(runs[next].name, runs[i].name) == 0; next++)
		{
			uint64_t	took = runs[next].end - runs[next].start;

			total += took;
			greatest = took > greatest ? took : greatest;
			if (strcmp(runs[next].name, ITERATION) == 0)
			{
				first = runs[next].end < first ? runs[next].end : first;
				last = runs[next].start > last ? runs[next].start : last;
			}
		}
		fprintf(stderr, "  %-40s %6zu times %10.3f ms, last %9.3f, greatest %9.3f\n",
				runs[i].name, next - i, (double) total * 1e-6,
				(double) (runs[next - 1].end - runs[next - 1].start) * 1e-6,
				(double) greatest * 1e-6);
	}
	for (size_t i = 0; i < call_count; i++)
		if (calls[i].at > first && calls[i].at < last)
		{
			inside++;
			fprintf(stderr, "  between the iterations: %s\n", calls[i].name);
		}
	fprintf(stderr, "  %zu memory calls, %zu between the first and the last iteration\n",
			call_count, inside);
}

/* CUDA calls this when it has loaded the library. */
int
InitializeInjection(void)
{
	CUpti_SubscriberHandle subscriber;

	if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc) note_call, NULL) != CUPTI_SUCCESS)
		return 0;
	cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
	atexit(report);
	return 1;
}
