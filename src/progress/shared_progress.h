/*
 * The segment into which a fit writes its progress, and from which others read it.
 */
#ifndef GK_SHARED_PROGRESS_H
#define GK_SHARED_PROGRESS_H

#include <stdatomic.h>

#include "postgres.h"

#include "catalog/pg_extension.h"
#include "storage/dsm.h"
#include "storage/lock.h"

/*
 * The lock that names a segment: an advisory lock of no database and of a kind that SQL cannot
 * take.  The segment is checked nevertheless.
 */
#define GK_PROGRESS_KIND 5
#define GK_SET_PROGRESS_TAG(tag, handle) \
	SET_LOCKTAG_ADVISORY(tag, InvalidOid, ExtensionRelationId, handle, GK_PROGRESS_KIND)

/* Bytes of a qualified name, each character a quote, with its terminator. */
#define GK_PROGRESS_NAME (4 * NAMEDATALEN + 8)
#define GK_PROGRESS_ENGINE 16

/* The segment.  Numbers are written one by one without a lock: each is correct by itself. */
typedef struct GkSharedProgress
{
	uint64		library;		/* that made it; written last */
	int			pid;
	Oid			database;
	Oid			role;
	int64		started;		/* TimestampTz */
	char		model[GK_PROGRESS_NAME];	/* valid once has_model is set */
	char		engine[GK_PROGRESS_ENGINE]; /* valid once has_engine is set */
	atomic_bool has_model;
	atomic_bool has_engine;
	atomic_int	phase;
	atomic_llong phase_started; /* TimestampTz */
	atomic_int	start;			/* 0 = none has begun */
	atomic_int	starts;
	atomic_int	iteration;
	atomic_int	max_iterations;
	atomic_llong moved;			/* -1 = not known */
	atomic_llong rows;
	atomic_llong expected;		/* 0 = not known */
	atomic_ullong inertia;		/* the bits of a double, NaN = not known */
	atomic_int	nodes;			/* 0 = none */
	atomic_int	devices;
	atomic_ullong device_bytes;
} GkSharedProgress;

#endif							/* GK_SHARED_PROGRESS_H */
