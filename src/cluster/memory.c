/*
 * Memory of the cluster engine and of its nodes; statuses.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

/* The status of success. */
GkStatus
gk_status_ok(void)
{
	return (GkStatus) {.code = GK_OK,.device = -1};
}

/* The status of what is not finished. */
GkStatus
gk_status_running(void)
{
	return (GkStatus) {.code = GK_RUNNING,.device = -1};
}

/* The status of an error. */
GkStatus
gk_status_error(GkCode code, const char *where, const char *format, ...)
{
	GkStatus	status = {.code = code,.device = -1};
	va_list		arguments;

	snprintf(status.where, sizeof(status.where), "%s", where);
	va_start(arguments, format);
	vsnprintf(status.message, sizeof(status.message), format, arguments);
	va_end(arguments);
	return status;
}

/* The status of memory that the account refuses. */
static GkStatus
refused(uint64_t needed)
{
	GkStatus	status = gk_status_error(GK_HOST_MEMORY_REFUSED, "malloc",
										 "the account of host memory is exhausted");

	status.needed = needed;
	return status;
}

/* Makes room for at least count × size bytes. */
GkStatus
gk_room_need(GkMemory *memory, GkRoom *room, size_t count, size_t size)
{
	size_t		bytes;
	void	   *base;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
		return gk_status_error(GK_LIMIT, "malloc", "a message is too large");
	if (bytes <= room->bytes)
		return gk_status_ok();
	/* what grows piece by piece is not copied each time */
	bytes += room->bytes < bytes / 2 ? 0 : bytes / 2;
	if (memory->draw != NULL && !memory->draw(bytes - room->bytes))
		return refused(bytes - room->bytes);
	base = realloc(room->base, bytes);
	if (base == NULL)
	{
		if (memory->give_back != NULL)
			memory->give_back(bytes - room->bytes);
		return gk_status_error(GK_NO_HOST_MEMORY, "realloc", "out of memory");
	}
	memory->bytes += bytes - room->bytes;
	if (memory->bytes > memory->peak)
		memory->peak = memory->bytes;
	*room = (GkRoom) {base, bytes};
	return gk_status_ok();
}

/* Frees a room; it may be used again. */
void
gk_room_free(GkMemory *memory, GkRoom *room)
{
	free(room->base);
	memory->bytes -= room->bytes;
	if (memory->give_back != NULL && room->bytes > 0)
		memory->give_back(room->bytes);
	*room = (GkRoom) {NULL, 0};
}
