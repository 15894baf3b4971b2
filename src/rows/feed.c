/*
 * The feed's memory: its size, layout and initial state.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "feed.h"
#include "library_id.h"
#include "settings.h"

#define FEED_MAGIC UINT64CONST(0x676b6d65616e7331)

/* A slot of arrays holds at least a row of GK_MAX_DIMENSION; rows of scalars are shorter. */
#define ARRAY_SLOT_BYTES (512 * 1024)
#define SCALAR_SLOT_BYTES (256 * 1024)
/* Making shared memory takes time: a source that is expected to be so small gets small slots. */
#define SMALL_SLOT_BYTES (64 * 1024)
#define SMALL_SOURCE_BYTES (4 * 1024 * 1024)

/* Adds room for an array to a layout; returns where it begins. */
static Size
add_array(Size *end, int64 count, Size size)
{
	Size		begin = TYPEALIGN(64, *end);

	*end = add_size(begin, mul_size(count, size));
	return begin;
}

/* Explains a lack of shared memory. */
static void
explain_lack_of_memory(void *arg)
{
	int			code = geterrcode();

	if (code != ERRCODE_DISK_FULL && code != ERRCODE_OUT_OF_MEMORY)
		return;
	errcode(ERRCODE_OUT_OF_MEMORY);
	errhint("Lower the setting \"gkmeans.ring_size\", now %d kB, or enlarge the server's shared "
			"memory (/dev/shm).", gk_ring_size_kb);
}

/* Creates a segment that stays mapped until it is detached explicitly; NULL if none is left. */
static dsm_segment *
create_segment(Size bytes)
{
	ErrorContextCallback callback = {.callback = explain_lack_of_memory};
	dsm_segment *segment;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	segment = dsm_create(bytes, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	error_context_stack = callback.previous;
	if (segment != NULL)
		dsm_pin_mapping(segment);
	return segment;
}

/* Maps memory of this process alone. */
static void *
map_memory(Size bytes)
{
	void	   *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
							MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed on request of size %zu.", bytes),
				 errhint("Lower the setting \"gkmeans.ring_size\", now %d kB.", gk_ring_size_kb)));
	/* copy-on-write after a fork would move pages that a GPU reads */
	(void) madvise(base, bytes, MADV_DONTFORK);
	return base;
}

/* Finds room for a feed. */
static GkFeedPlace
make_place(const GkFeedSpec *spec, Size bytes)
{
	GkFeedPlace place = {.bytes = bytes};

	if (!spec->alone)
		place.segment = create_segment(bytes);
	place.feed = place.segment != NULL ? dsm_segment_address(place.segment) : map_memory(bytes);
	return place;
}

/* Frees a feed. */
void
gk_feed_free(const GkFeedPlace *place)
{
	if (place->segment != NULL)
		dsm_detach(place->segment);
	else if (place->feed != NULL)
		munmap(place->feed, place->bytes);
}

/* The size of a slot. */
static Size
choose_slot_bytes(const GkFeedSpec *spec)
{
	if (spec->width == 0)
		return ARRAY_SLOT_BYTES;
	return spec->expected_bytes <= SMALL_SOURCE_BYTES ? SMALL_SLOT_BYTES : SCALAR_SLOT_BYTES;
}

/* The number of slots: each process fills one while another of its slots is read. */
static int
count_slots(const GkFeedSpec *spec, Size slot_bytes)
{
	Size		allowed = (Size) gk_ring_size_kb * 1024 / slot_bytes;
	Size		useful = 2 * (Size) spec->processes + 2;

	return (int) Max(2, Min(Min(allowed, useful), GK_MAX_SLOTS));
}

/* Stores the names of the columns, for messages. */
static void
name_columns(GkFeed *feed, const GkFeedSpec *spec)
{
	NameData   *names = gk_feed_names(feed);

	feed->columns = spec->columns;
	for (int i = 0; i < spec->columns; i++)
		namestrcpy(&names[i], spec->names[i]);
	namestrcpy(&names[spec->columns], spec->weight != NULL ? spec->weight : "");
}

/* Creates a feed. */
GkFeedPlace
gk_feed_create(const GkFeedSpec *spec)
{
	Size		slot_bytes = choose_slot_bytes(spec);
	int			slots = count_slots(spec, slot_bytes);
	int			features = !spec->shifting ? 0 : spec->width > 0 ? spec->width : GK_MAX_DIMENSION;
	Size		end = sizeof(GkFeed);
	Size		shift = add_array(&end, gk_shift_bytes(features), 1);
	Size		names = add_array(&end, spec->columns + 1, sizeof(NameData));
	Size		troubles = add_array(&end, spec->columns + 1, sizeof(GkTroubles));
	Size		memory = add_array(&end, slots, slot_bytes);
	GkFeedPlace place = make_place(spec, end);
	GkFeed	   *feed = place.feed;

	memset(feed, 0, sizeof(GkFeed));
	feed->magic = FEED_MAGIC;
	feed->leader_pid = MyProcPid;
	feed->library = gk_library_id(sizeof(GkFeed));
	feed->nulls_are_errors = spec->nulls_are_errors;
	feed->zero_is_unusable = spec->zero_is_unusable;
	feed->shifting = spec->shifting;
	feed->width = spec->width;
	feed->id_type = spec->id_type;
	feed->max_participants = spec->participants;
	feed->shift = shift;
	feed->names = names;
	feed->troubles = troubles;
	if (spec->shifting)
		gk_shift_init(gk_feed_shift(feed), features, spec->classes, Max(1, spec->width));
	name_columns(feed, spec);
	gk_ring_init(&feed->ring, slots, slot_bytes, memory - offsetof(GkFeed, ring), spec->weighted);
	place.ring_bytes = slots * slot_bytes;
	return place;
}

/* Resets it for a reading; keeps the shift if it is set. */
void
gk_feed_reset(GkFeed *feed, dsm_handle ids)
{
	GkRing	   *ring = &feed->ring;

	gk_ring_init(ring, ring->slots, ring->slot_bytes, ring->memory, ring->weighted);
	feed->ids = ids;
	atomic_store(&feed->participants, 0);
	atomic_store(&feed->workers, 0);
	atomic_store(&feed->read, 0);
	atomic_store(&feed->skipped, 0);
	atomic_store(&feed->zeros, 0);
	for (int i = 0; i <= feed->columns; i++)
	{
		atomic_store(&gk_feed_troubles(feed)[i].nulls, 0);
		atomic_store(&gk_feed_troubles(feed)[i].not_finite, 0);
	}
	atomic_store(&feed->dimension_known, GK_UNSET);
	if (feed->width > 0)
		gk_feed_learn_dimension(feed, feed->width);
}

/* True if a segment is the feed with that key and leader. */
bool
gk_feed_is_ours(const GkFeed *feed, const uint8 *key, int leader_pid)
{
	return feed->magic == FEED_MAGIC && feed->leader_pid == leader_pid &&
		memcmp(feed->key, key, sizeof(feed->key)) == 0;
}

/* True if the leader of such a feed has the same library as this process. */
bool
gk_feed_is_known(const GkFeed *feed)
{
	return feed->library == gk_library_id(sizeof(GkFeed));
}

/* Sets the number of features of a row, unless another process has. */
void
gk_feed_learn_dimension(GkFeed *feed, int dimension)
{
	if (!gk_once_begin(&feed->dimension_known))
		return;
	if (feed->shifting)
		gk_shift_begin(gk_feed_shift(feed), dimension);
	atomic_store(&feed->ring.dimension, dimension);
	gk_once_end(&feed->dimension_known);
}

/* The shift of the features. */
GkShift *
gk_feed_shift(GkFeed *feed)
{
	return feed->shifting ? (GkShift *) ((char *) feed + feed->shift) : NULL;
}

/* The name of each column. */
NameData *
gk_feed_names(GkFeed *feed)
{
	return (NameData *) ((char *) feed + feed->names);
}

/* The number of rows that each column made unusable. */
GkTroubles *
gk_feed_troubles(GkFeed *feed)
{
	return (GkTroubles *) ((char *) feed + feed->troubles);
}
