/*
 * The fits that are running on the server.
 *
 * They are found through the lock table.  A lock only says where to look: the memory there must
 * prove that it is the segment of a fit of the process that holds the lock.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "library_id.h"
#include "live_fits.h"
#include "shared_progress.h"

/* True if a lock is that of a fit. */
static bool
is_lock_of_fit(const LockInstanceData *instance)
{
	const LOCKTAG *tag = &instance->locktag;

	return tag->locktag_type == LOCKTAG_ADVISORY && tag->locktag_field1 == InvalidOid &&
		tag->locktag_field2 == ExtensionRelationId && tag->locktag_field4 == GK_PROGRESS_KIND &&
		(instance->holdMask & LOCKBIT_ON(ShareLock)) != 0;
}

/* A name in shared memory, which may lack its terminator. */
static char *
copy_name(const char *name, Size room)
{
	return pnstrdup(name, strnlen(name, room));
}

/* Copies a segment; false if it does not belong to a fit of the process. */
static bool
copy_progress(dsm_segment *segment, int pid, GkLiveFit *fit)
{
	GkSharedProgress *shared = dsm_segment_address(segment);
	uint64		bits;

	if (dsm_segment_map_length(segment) < sizeof(GkSharedProgress) ||
		shared->library != gk_library_id(sizeof(*shared)) || shared->pid != pid)
		return false;
	pg_read_barrier();
	fit->pid = pid;
	fit->database = shared->database;
	fit->role = shared->role;
	fit->started = shared->started;
	fit->model = atomic_load(&shared->has_model) ? copy_name(shared->model, GK_PROGRESS_NAME)
		: NULL;
	fit->engine = atomic_load(&shared->has_engine) ?
		copy_name(shared->engine, GK_PROGRESS_ENGINE) : NULL;
	fit->phase = atomic_load(&shared->phase);
	fit->phase_started = atomic_load(&shared->phase_started);
	fit->start = atomic_load(&shared->start);
	fit->starts = atomic_load(&shared->starts);
	fit->iteration = atomic_load(&shared->iteration);
	fit->max_iterations = atomic_load(&shared->max_iterations);
	fit->moved = atomic_load(&shared->moved);
	fit->rows = atomic_load(&shared->rows);
	fit->expected = atomic_load(&shared->expected);
	bits = atomic_load(&shared->inertia);
	memcpy(&fit->inertia, &bits, sizeof(bits));
	fit->devices = atomic_load(&shared->devices);
	fit->device_bytes = atomic_load(&shared->device_bytes);
	fit->nodes = atomic_load(&shared->nodes);
	return true;
}

/* Reads the segment of a handle, if it exists and belongs to a fit of the process. */
static bool
read_segment(dsm_handle handle, int pid, GkLiveFit *fit)
{
	dsm_segment *segment = dsm_find_mapping(handle);
	bool		is_fit;

	/* this process's own must not be attached twice */
	if (segment != NULL)
		return copy_progress(segment, pid, fit);
	segment = dsm_attach(handle);
	if (segment == NULL)
		return false;
	is_fit = copy_progress(segment, pid, fit);
	dsm_detach(segment);
	return is_fit;
}

/* How many locks are those of fits. */
static int
count_fits(const LockData *locks)
{
	int			count = 0;

	for (int i = 0; i < locks->nelements; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_lock_of_fit(&locks->locks[i]))
			count++;
	}
	return count;
}

/* All fits that run. */
GkLiveFit *
gk_live_fits(int *count)
{
	LockData   *locks = GetLockStatusData();
	GkLiveFit  *fits = palloc(Max(count_fits(locks), 1) * sizeof(GkLiveFit));

	*count = 0;
	for (int i = 0; i < locks->nelements; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_lock_of_fit(&locks->locks[i]) &&
			read_segment(locks->locks[i].locktag.locktag_field3, locks->locks[i].pid,
						 &fits[*count]))
			(*count)++;
	}
	return fits;
}
