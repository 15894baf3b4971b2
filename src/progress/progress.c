/*
 * The progress of this backend's fits, published for others.
 */
#include "postgres.h"

#include <math.h>
#include <pthread.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/ps_status.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "library_id.h"
#include "progress.h"
#include "shared_progress.h"

/* The most fits of a backend at the same time. */
#define MOST_NESTED 10

/* Bytes of the process title that are kept. */
#define TITLE_BYTES 128

struct GkProgress
{
	uint64		number;
	ResourceOwner owner;
	dsm_segment *segment;		/* NULL = nobody sees this fit */
	GkSharedProgress *shared;	/* in the segment, or `unseen` */
	GkSharedProgress unseen;
	LOCKTAG		tag;
	bool		is_locked;
	bool		has_title;
	char		title[TITLE_BYTES]; /* of the process before */
	GkProgress *outer;			/* the fit that this one is nested in */
};

static GkProgress *innermost = NULL;

/* Held while the list of fits changes, and while another thread looks a fit up in it. */
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;

static const char *const phase_names[] = {
	"queued", "reading", "seeding", "iterating", "labelling", "measuring", "writing"
};

/* The name of a phase. */
const char *
gk_phase_name(GkPhase phase)
{
	return phase >= 0 && phase < lengthof(phase_names) ? phase_names[phase] : "unknown";
}

/* Takes the lock that names the segment, unless the lock table is full. */
static void
lock_segment(GkProgress *progress)
{
	LockAcquireResult result;

	GK_SET_PROGRESS_TAG(progress->tag, dsm_segment_handle(progress->segment));
#if PG_VERSION_NUM >= 180000
	result = LockAcquireExtended(&progress->tag, ShareLock, false, true, false, NULL, false);
#else
	result = LockAcquireExtended(&progress->tag, ShareLock, false, true, false, NULL);
#endif
	progress->is_locked = result != LOCKACQUIRE_NOT_AVAIL;
}

/* Releases the lock. */
static void
unlock_segment(GkProgress *progress)
{
	ResourceOwner before = CurrentResourceOwner;

	if (!progress->is_locked)
		return;
	CurrentResourceOwner = progress->owner;
	(void) LockRelease(&progress->tag, ShareLock, false);
	CurrentResourceOwner = before;
}

/* Releases everything of a fit. */
static void
release_progress(GkProgress *progress)
{
	GkProgress **link = &innermost;

	(void) pthread_mutex_lock(&listing);
	while (*link != progress)
		link = &(*link)->outer;
	*link = progress->outer;
	(void) pthread_mutex_unlock(&listing);
	unlock_segment(progress);
	if (progress->segment != NULL)
		dsm_detach(progress->segment);
	if (progress->has_title)
		set_ps_display(progress->title);
	pfree(progress);
}

/* Releases the fits of an ending resource owner. */
static void
release_of_owner(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	GkProgress *next;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	for (GkProgress *progress = innermost; progress != NULL; progress = next)
	{
		next = progress->outer;
		if (progress->owner == CurrentResourceOwner)
			release_progress(progress);
	}
}

/* Initialises a fit's progress. */
static void
fill_in(GkSharedProgress *shared)
{
	union
	{
		double		number;
		uint64		bits;
	}			unknown = {NAN};

	memset(shared, 0, sizeof(*shared));
	shared->pid = MyProcPid;
	shared->database = MyDatabaseId;
	shared->role = GetUserId();
	shared->started = GetCurrentTimestamp();
	atomic_store(&shared->phase_started, shared->started);
	atomic_store(&shared->moved, -1);
	atomic_store(&shared->inertia, unknown.bits);
	pg_write_barrier();
	shared->library = gk_library_id(sizeof(*shared));
}

/* In PG_CATCH: ends an error for want of room, and raises every other one again. */
static void
end_want_of_room(void)
{
	ErrorData  *error = CopyErrorData();

	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_INSUFFICIENT_RESOURCES)
		PG_RE_THROW();
	FlushErrorState();
	FreeErrorData(error);
}

/* Creates a segment; NULL if the server has no more of them, or no room for one. */
static dsm_segment *
try_segment(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ResourceOwner own = ResourceOwnerCreate(owner, "gkmeans progress");
	dsm_segment *volatile segment = NULL;

	CurrentResourceOwner = own;
	PG_TRY();
	{
		segment = dsm_create(sizeof(GkSharedProgress), DSM_CREATE_NULL_IF_MAXSEGMENTS);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		end_want_of_room();
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	if (segment != NULL)
		dsm_pin_mapping(segment);
	/* a segment that could not be made is still the owner's */
	ResourceOwnerRelease(own, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	ResourceOwnerDelete(own);
	return segment;
}

/* Creates the fit's segment, if there is room: others see it then. */
static void
make_segment(GkProgress *progress)
{
	progress->segment = try_segment();
	if (progress->segment != NULL)
		progress->shared = dsm_segment_address(progress->segment);
}

/* Raises an error if so many fits are too many for one more. */
void
gk_check_nesting(int fits)
{
	if (fits >= MOST_NESTED)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("fits are nested too deeply"),
				 errdetail("A fit runs in the source of another one, or in a trigger on what that "
						   "one writes, and so on; the limit is %d.", MOST_NESTED)));
}

/* How many fits publish their progress. */
static int
count_fits(void)
{
	int			fits = 0;

	for (GkProgress *progress = innermost; progress != NULL; progress = progress->outer)
		fits++;
	return fits;
}

/* Begins publishing a fit's progress. */
GkProgress *
gk_progress_begin(void)
{
	static bool registered = false;
	static uint64 fits = 0;
	GkProgress *progress;

	gk_check_nesting(count_fits());
	if (!registered)
		RegisterResourceReleaseCallback(release_of_owner, NULL);
	registered = true;

	progress = MemoryContextAllocZero(TopMemoryContext, sizeof(GkProgress));
	progress->number = ++fits;
	progress->owner = CurrentResourceOwner;
	progress->shared = &progress->unseen;
	progress->outer = innermost;
	(void) pthread_mutex_lock(&listing);
	innermost = progress;
	(void) pthread_mutex_unlock(&listing);
	make_segment(progress);
	fill_in(progress->shared);
	if (progress->segment != NULL)
		lock_segment(progress);
	return progress;
}

/* Ends it. */
void
gk_progress_end(GkProgress *progress)
{
	release_progress(progress);
}

/* Appends a phase to the process title. */
static void
show_title(GkProgress *progress, GkPhase phase)
{
	char		title[TITLE_BYTES + 32];
	int			length;

	if (!update_process_title)
		return;
	if (!progress->has_title)
	{
		const char *before = get_ps_display(&length);

		length = Min(length, TITLE_BYTES - 1);
		memcpy(progress->title, before, length);
		progress->title[length] = '\0';
		progress->has_title = true;
	}
	snprintf(title, sizeof(title), "%s gkmeans %s", progress->title, gk_phase_name(phase));
	set_ps_display(title);
}

/* A phase begins. */
void
gk_progress_phase(GkPhase phase)
{
	if (innermost == NULL)
		return;
	atomic_store(&innermost->shared->phase_started, GetCurrentTimestamp());
	atomic_store(&innermost->shared->phase, phase);
	show_title(innermost, phase);
}

/* The wait event while an engine works. */
uint32
gk_progress_wait_event(void)
{
#if PG_VERSION_NUM >= 170000
	static const char *const names[] = {
		"GkmeansQueued", "GkmeansReading", "GkmeansSeeding", "GkmeansIterating",
		"GkmeansLabelling", "GkmeansMeasuring", "GkmeansWriting"
	};
	static uint32 events[lengthof(names)];
	int			phase = innermost != NULL ? atomic_load(&innermost->shared->phase) : -1;

	if (phase < 0 || phase >= (int) lengthof(names))
		return PG_WAIT_EXTENSION;
	if (events[phase] == 0)
		events[phase] = WaitEventExtensionNew(names[phase]);
	return events[phase];
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* The name of the model that the fit is for; of a long one the beginning, in whole characters. */
void
gk_progress_model(const char *name)
{
	if (innermost == NULL || atomic_load(&innermost->shared->has_model))
		return;
	strlcpy(innermost->shared->model, name,
			pg_mbcliplen(name, strlen(name), GK_PROGRESS_NAME - 1) + 1);
	atomic_store(&innermost->shared->has_model, true);
}

/* The engine, its devices and the bytes that it holds of them. */
void
gk_progress_engine(const char *name, int devices, uint64 device_bytes)
{
	GkSharedProgress *shared;

	if (innermost == NULL)
		return;
	shared = innermost->shared;
	if (!atomic_load(&shared->has_engine))
	{
		strlcpy(shared->engine, name, GK_PROGRESS_ENGINE);
		atomic_store(&shared->has_engine, true);
	}
	atomic_store(&shared->devices, devices);
	atomic_store(&shared->device_bytes, device_bytes);
}

/* The number of nodes that the fit runs on. */
void
gk_progress_nodes(int nodes)
{
	if (innermost != NULL)
		atomic_store(&innermost->shared->nodes, nodes);
}

/* The number of rows expected. */
void
gk_progress_expect(double rows)
{
	if (innermost != NULL)
		atomic_store(&innermost->shared->expected, rows >= 1.0 && rows < 1e18 ? (int64) rows : 0);
}

/* A number for the innermost fit. */
uint64_t
gk_progress_number(void)
{
	return innermost != NULL ? innermost->number : 0;
}

/* The rows that were read for a fit. */
void
gk_progress_count(uint64_t number, int64_t rows)
{
	GkProgress *progress;

	(void) pthread_mutex_lock(&listing);
	for (progress = innermost; progress != NULL && progress->number != number;)
		progress = progress->outer;
	if (progress != NULL)
		atomic_store(&progress->shared->rows, rows);
	(void) pthread_mutex_unlock(&listing);
}

/* A start begins. */
void
gk_progress_start(int start, int starts, int max_iterations)
{
	if (innermost == NULL)
		return;
	atomic_store(&innermost->shared->iteration, 0);
	atomic_store(&innermost->shared->moved, -1);
	atomic_store(&innermost->shared->max_iterations, max_iterations);
	atomic_store(&innermost->shared->starts, starts);
	atomic_store(&innermost->shared->start, start);
}

/* An iteration of it ended. */
void
gk_progress_iteration(int iteration, int64 moved)
{
	if (innermost == NULL)
		return;
	atomic_store(&innermost->shared->moved, moved);
	atomic_store(&innermost->shared->iteration, iteration);
}

/* The least inertia of the starts so far. */
void
gk_progress_inertia(double inertia)
{
	uint64		bits;

	memcpy(&bits, &inertia, sizeof(bits));
	if (innermost != NULL)
		atomic_store(&innermost->shared->inertia, bits);
}
