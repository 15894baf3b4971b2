/*
 * How much of the host's memory a fit may take.
 */
#include "postgres.h"

#include <unistd.h>

#include "common/string.h"
#include "storage/fd.h"

#include "engine_error.h"
#include "host_account.h"
#include "host_memory.h"
#include "settings.h"

/* The least of `least` and the limits in the files of a control group and its ancestors. */
static uint64
least_group_limit(const char *root, char *group, const char *file, uint64 least)
{
	char	   *slash = group;

	while (slash != NULL)
	{
		FILE	   *limit = AllocateFile(psprintf("%s%s/%s", root, group, file), "r");
		unsigned long long bytes;

		if (limit != NULL && fscanf(limit, "%llu", &bytes) == 1)
			least = Min(least, bytes);
		if (limit != NULL)
			FreeFile(limit);
		slash = strrchr(group, '/');
		if (slash != NULL)
			*slash = '\0';
	}
	return least;
}

/* Bytes of memory of the host, or the limit of the container or service. */
static uint64
usable_memory(void)
{
	uint64		bytes = (uint64) sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	FILE	   *groups = AllocateFile("/proc/self/cgroup", "r");
	char		line[MAXPGPATH];

	while (groups != NULL && fgets(line, sizeof(line), groups) != NULL)
	{
		char	   *group = strchr(line, '/');

		if (group == NULL)
			continue;
		(void) pg_strip_crlf(line);
		if (strncmp(line, "0::", 3) == 0)
			bytes = least_group_limit("/sys/fs/cgroup", group, "memory.max", bytes);
		else if (strstr(line, ":memory:") != NULL)
			bytes = least_group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
									  bytes);
	}
	if (groups != NULL)
		FreeFile(groups);
	return bytes;
}

/* Limits the host memory of a fit that has some, and that of the fits of all sessions together. */
void
gk_limit_host_memory(GkEngineConfig *config, uint64 taken)
{
	uint64		by_the_host = usable_memory() / 4 * 3;
	uint64		one = (uint64) gk_host_memory_limit_kb * 1024;
	uint64		all = (uint64) gk_total_host_memory_limit_kb * 1024;

	config->host_memory_limit = one > 0 ? one : by_the_host;
	/* 0 would be no limit */
	config->host_memory_limit -= Min(taken, config->host_memory_limit - 1);
	gk_host_account_open(all > 0 ? all : Max(one, by_the_host), all > 0);
	config->draw_host_memory = gk_host_account_draw;
	config->return_host_memory = gk_host_account_return;
}

/* Draws bytes for what is no engine's. */
void
gk_draw_host_memory(uint64 bytes, uint64 taken)
{
	GkEngineConfig limits = {0};
	GkStatus	status = {.device = -1,.needed = bytes};

	gk_limit_host_memory(&limits, taken);
	strlcpy(status.message, "out of host memory", sizeof(status.message));
	if (bytes > limits.host_memory_limit)
	{
		status.code = GK_NO_HOST_MEMORY;
		status.allowed = limits.host_memory_limit;
	}
	else if (!gk_host_account_draw(bytes))
		status.code = GK_HOST_MEMORY_REFUSED;
	gk_check(status);
}
