/*
 * Memory of the cluster engine and of its nodes, drawn from the account of host memory; statuses.
 */
#ifndef GK_CLUSTER_MEMORY_H
#define GK_CLUSTER_MEMORY_H

#include "engine.h"

/* The account; see GkEngineConfig. */
typedef struct GkMemory
{
	bool		(*draw) (uint64_t bytes);	/* NULL: no account */
	void		(*give_back) (uint64_t bytes);
	uint64_t	bytes;
	uint64_t	peak;
} GkMemory;

/* An array that grows, and keeps what is in it. */
typedef struct GkRoom
{
	void	   *base;			/* aligned to 8 bytes; NULL while bytes is 0 */
	size_t		bytes;
} GkRoom;

/* Makes room for at least count × size bytes. */
extern GkStatus gk_room_need(GkMemory *memory, GkRoom *room, size_t count, size_t size);

/* Frees a room; it may be used again. */
extern void gk_room_free(GkMemory *memory, GkRoom *room);

extern GkStatus gk_status_ok(void);
extern GkStatus gk_status_running(void);

/* The status of an error; the message as printf() makes it. */
extern GkStatus gk_status_error(GkCode code, const char *where, const char *format, ...)
			__attribute__((format(printf, 3, 4)));

#endif							/* GK_CLUSTER_MEMORY_H */
