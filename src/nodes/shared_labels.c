/*
 * The labels of this node's rows by their ids, in shared memory.
 *
 * A segment has a header, slots that are found by hashing, and the entries.  Ids are compared byte
 * by byte: a row whose id has other bytes when it is read again counts as another row.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "host_account.h"
#include "host_memory.h"
#include "library_id.h"
#include "shared_labels.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * A slot has the place of an entry in units of this size, plus 1.  The bits that no place needs are
 * bits of the hash, so that few other entries are compared.
 */
#define UNIT 8

/* Rows that wait while their slots come into the cache. */
#define WAITING 16

/* What is known of an entry, beside the length of its id. */
#define HAS_CLUSTER (UINT32_C(1) << 31)
#define IS_NULL (UINT32_C(1) << 30)
#define IS_TAKEN (UINT32_C(1) << 29)
#define IS_AMBIGUOUS (UINT32_C(1) << 28)
#define LENGTH (IS_AMBIGUOUS - 1)

typedef struct Entry
{
	double		distance;
	int32		cluster;
	pg_atomic_uint32 state;
	char		id[FLEXIBLE_ARRAY_MEMBER];
} Entry;

/* The header of a segment; slots and entries follow. */
typedef struct Shared
{
	uint64		library;		/* that made it, once it is complete */
	pg_uuid_t	key;
	Oid			user;
	Oid			database;
	Oid			id_type;
	int16		id_length;		/* as in pg_type */
	bool		id_by_value;
	uint64		seed;
	uint64		slots;			/* a power of two */
	int			place_bits;		/* of a slot; the others are of the hash */
	uint64		bytes;			/* of all entries, and of those that are there */
	uint64		used;
} Shared;

/* The bytes of an id. */
typedef struct Image
{
	const char *bytes;
	Size		length;
	Datum		value;			/* where they are, if the type is passed by value */
} Image;

/* A segment that this process looks at, by one view or several. */
typedef struct Attached
{
	dsm_handle	handle;
	dsm_segment *segment;
	int			views;
	uint64		last;			/* the place of the entry that was found last */
	struct Attached *next;
} Attached;

struct GkLabelsView
{
	Attached   *attached;
	Shared	   *shared;
	MemoryContextCallback end;
};

/* What this session has left, what it has drawn for it, and whether in this transaction. */
static dsm_segment *own = NULL;
static uint64 drawn = 0;
static bool is_new = false;

/* Rows that are not yet in the slots. */
typedef struct Waiting
{
	uint64		place;
	uint64		hash;
} Waiting;

static Waiting waiting[WAITING];
static uint64 came = 0;
static uint64 entered = 0;

static Attached *all_attached = NULL;

/* The slots of a segment. */
static uint32 *
slots_of(Shared *shared)
{
	return (uint32 *) ((char *) shared + MAXALIGN(sizeof(Shared)));
}

/* Its entries. */
static char *
entries_of(Shared *shared)
{
	return (char *) slots_of(shared) + shared->slots * sizeof(uint32);
}

/* The size of an entry. */
static Size
entry_bytes(Size id_length)
{
	return TYPEALIGN(UNIT, offsetof(Entry, id) + id_length);
}

/* The bytes of an id. */
static void
take_image(int16 type_length, bool by_value, Datum id, Image *image)
{
	if (by_value)
	{
		image->value = id;
		image->bytes = (const char *) &image->value;
		image->length = sizeof(Datum);
	}
	else if (type_length > 0)
	{
		image->bytes = DatumGetPointer(id);
		image->length = type_length;
	}
	else
	{
		struct varlena *value = PG_DETOAST_DATUM_PACKED(id);

		image->bytes = VARDATA_ANY(value);
		image->length = VARSIZE_ANY_EXHDR(value);
	}
	if (image->length > LENGTH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("an id has more than %u bytes", LENGTH)));
}

/* The bytes that a row with this id takes. */
Size
gk_shared_id_bytes(Oid type, Datum id, bool is_null)
{
	int16		length;
	bool		by_value;
	Image		image = {0};

	get_typlenbyval(type, &length, &by_value);
	if (!is_null)
		take_image(length, by_value, id, &image);
	return entry_bytes(image.length) - entry_bytes(0);
}

/* Drops what this session has left, at the end of a transaction unless it was left in that. */
static void
drop_own(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_ABORT || !is_new)
		gk_shared_labels_drop();
	is_new = false;
}

/* Makes room for rows. */
void
gk_shared_labels_create(Oid id_type, int64 rows, Size id_bytes, const pg_uuid_t *key)
{
	static bool registered = false;
	uint64		slots = pg_nextpower2_64((uint64) Max(rows, 4) * 4 / 3);
	uint64		bytes = (uint64) rows * entry_bytes(0) + id_bytes;
	Size		size;
	Shared	   *shared;

	gk_shared_labels_drop();
	if (bytes / UNIT >= PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many labels for the shared memory of a node"),
				 errdetail("%lld labels are %llu bytes.", (long long) rows,
						   (unsigned long long) bytes)));
	if (!registered)
		RegisterXactCallback(drop_own, NULL);
	registered = true;
	is_new = true;
	size = MAXALIGN(sizeof(Shared)) + slots * sizeof(uint32) + bytes;
	gk_draw_host_memory(size, 0);
	drawn = size;
	own = dsm_create(size, 0);
	dsm_pin_mapping(own);
	shared = dsm_segment_address(own);
	memset(shared, 0, size - bytes);
	shared->key = *key;
	shared->user = GetUserId();
	shared->database = MyDatabaseId;
	shared->id_type = id_type;
	get_typlenbyval(id_type, &shared->id_length, &shared->id_by_value);
	if (!pg_strong_random(&shared->seed, sizeof(shared->seed)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	shared->slots = slots;
	shared->place_bits = pg_leftmost_one_pos64(bytes / UNIT + 1) + 1;
	came = entered = 0;
	shared->bytes = bytes;
}

/* The entry at a place. */
static Entry *
entry_at(Shared *shared, uint64 place)
{
	return (Entry *) (entries_of(shared) + place);
}

/* True if an entry is that of an id. */
static bool
is_entry_of(Entry *entry, const Image *image)
{
	uint32		state = pg_atomic_read_u32(&entry->state);

	if ((state & LENGTH) != image->length || (state & IS_NULL) != 0)
		return false;
	/* of this length without a call */
	return image->length == sizeof(Datum) ? memcmp(entry->id, image->bytes, sizeof(Datum)) == 0
		: memcmp(entry->id, image->bytes, image->length) == 0;
}

/* The hash of an id. */
static uint64
hash_of(const Shared *shared, const Image *image)
{
	return hash_bytes_extended((const unsigned char *) image->bytes, (int) image->length,
							   shared->seed);
}

/* The bits of a slot that are of the hash. */
static uint32
tag_of(const Shared *shared, uint64 hash)
{
	return (uint32) ((hash >> 32) << shared->place_bits);
}

/* The entry of a slot that is not empty. */
static Entry *
entry_of(Shared *shared, uint32 slot)
{
	uint64		mask = (UINT64CONST(1) << shared->place_bits) - 1;

	return entry_at(shared, ((slot & mask) - 1) * UNIT);
}

/* The slot of an id with this hash, or the empty one where it would be. */
static uint32 *
find_slot(Shared *shared, const Image *image, uint64 hash)
{
	uint32	   *slots = slots_of(shared);
	uint32		tag = tag_of(shared, hash);

	for (uint64 place = hash;; place++)
	{
		uint32	   *slot = &slots[place & (shared->slots - 1)];

		if (*slot == 0 || ((uint64) (*slot ^ tag) >> shared->place_bits == 0 &&
						   is_entry_of(entry_of(shared, *slot), image)))
			return slot;
	}
}

/* Enters the row that came first into the slots; the first of several with an id has the slot. */
static void
enter_next(Shared *shared)
{
	const Waiting *next = &waiting[entered++ % WAITING];
	Entry	   *entry = entry_at(shared, next->place);
	Image		image = {entry->id, pg_atomic_read_u32(&entry->state) & LENGTH};
	uint32	   *slot = find_slot(shared, &image, next->hash);

	if (*slot == 0)
		*slot = (uint32) (next->place / UNIT + 1) | tag_of(shared, next->hash);
	else
	{
		pg_atomic_fetch_or_u32(&entry_of(shared, *slot)->state, IS_AMBIGUOUS);
		pg_atomic_fetch_or_u32(&entry->state, IS_AMBIGUOUS);
	}
}

/* Lets a row wait for its slot. */
static void
enter_soon(Shared *shared, const Image *image, uint64 place)
{
	uint64		hash = hash_of(shared, image);

	if (came - entered == WAITING)
		enter_next(shared);
	__builtin_prefetch(&slots_of(shared)[hash & (shared->slots - 1)], 1);
	waiting[came++ % WAITING] = (Waiting) {place, hash};
}

/* Adds a row. */
void
gk_shared_labels_add(Datum id, bool is_null, const GkSharedLabel *label)
{
	Shared	   *shared = dsm_segment_address(own);
	Entry	   *entry = entry_at(shared, shared->used);
	Image		image = {0};
	uint32		state = is_null ? IS_NULL : 0;

	if (!is_null)
		take_image(shared->id_length, shared->id_by_value, id, &image);
	if (shared->bytes - shared->used < entry_bytes(image.length))
		elog(ERROR, "there are more labels than expected");
	entry->distance = label->has_cluster ? label->distance : 0.0;
	entry->cluster = label->has_cluster ? label->cluster : 0;
	if (label->has_cluster)
		state |= HAS_CLUSTER;
	pg_atomic_init_u32(&entry->state, state | (uint32) image.length);
	if (image.length > 0)
		memcpy(entry->id, image.bytes, image.length);
	if (!is_null)
		enter_soon(shared, &image, shared->used);
	shared->used += entry_bytes(image.length);
}

/* Lets others look. */
dsm_handle
gk_shared_labels_publish(void)
{
	Shared	   *shared = dsm_segment_address(own);

	while (entered < came)
		enter_next(shared);
	pg_write_barrier();
	shared->library = gk_library_id(sizeof(*shared));
	return dsm_segment_handle(own);
}

/* Drops what this session has left. */
void
gk_shared_labels_drop(void)
{
	if (own != NULL)
		dsm_detach(own);
	own = NULL;
	if (drawn > 0)
		gk_host_account_return(drawn);
	drawn = 0;
}

/* The label of an entry. */
static void
read_label(Entry *entry, GkSharedLabel *label)
{
	label->has_cluster = (pg_atomic_read_u32(&entry->state) & HAS_CLUSTER) != 0;
	label->cluster = entry->cluster;
	label->distance = entry->distance;
}

/* A copy of the id of an entry. */
static Datum
copy_id(const Shared *shared, const Entry *entry, Size length)
{
	Datum		value;
	char	   *copy;

	if (shared->id_by_value)
	{
		memcpy(&value, entry->id, sizeof(Datum));
		return value;
	}
	copy = palloc(length + VARHDRSZ);
	if (shared->id_length > 0)
		memcpy(copy, entry->id, length);
	else
	{
		SET_VARSIZE(copy, length + VARHDRSZ);
		memcpy(VARDATA(copy), entry->id, length);
	}
	return PointerGetDatum(copy);
}

/* True if this session has left the labels of that key; it may have another role now. */
bool
gk_shared_labels_are(const pg_uuid_t *key)
{
	const Shared *shared = own == NULL ? NULL : dsm_segment_address(own);

	return shared != NULL && memcmp(&shared->key, key, sizeof(*key)) == 0 &&
		shared->user == GetUserId();
}

/* The rows that nobody has taken, in turn. */
bool
gk_shared_labels_rest(uint64 *place, Oid *id_type, Datum *id, bool *is_null, GkSharedLabel *label)
{
	Shared	   *shared = own == NULL ? NULL : dsm_segment_address(own);

	while (shared != NULL && *place < shared->used)
	{
		Entry	   *entry = entry_at(shared, *place);
		uint32		state = pg_atomic_read_u32(&entry->state);

		*place += entry_bytes(state & LENGTH);
		if (state & IS_TAKEN)
			continue;
		*id_type = shared->id_type;
		*is_null = (state & IS_NULL) != 0;
		*id = *is_null ? (Datum) 0 : copy_id(shared, entry, state & LENGTH);
		read_label(entry, label);
		return true;
	}
	return false;
}

/* Ends a view; the last one of a segment detaches it. */
static void
end_view(void *arg)
{
	Attached   *attached = ((GkLabelsView *) arg)->attached;
	Attached  **link = &all_attached;

	if (--attached->views > 0)
		return;
	while (*link != attached)
		link = &(*link)->next;
	*link = attached->next;
	dsm_detach(attached->segment);
	free(attached);
}

/* True if a segment has the labels of that key, for this role. */
static bool
has_labels(dsm_segment *segment, const pg_uuid_t *key)
{
	const Shared *shared = dsm_segment_address(segment);

	return dsm_segment_map_length(segment) >= sizeof(Shared) &&
		shared->library == gk_library_id(sizeof(*shared)) &&
		memcmp(&shared->key, key, sizeof(*key)) == 0 && shared->user == GetUserId() &&
		shared->database == MyDatabaseId;
}

/*
 * Attaches a segment; NULL if it is none of those labels.  Whatever this process has mapped for
 * other purposes is left alone: its own labels too, which it may drop while a query runs.
 */
static Attached *
attach(dsm_handle handle, const pg_uuid_t *key)
{
	Attached   *attached = all_attached;
	dsm_segment *segment;

	while (attached != NULL && attached->handle != handle)
		attached = attached->next;
	if (attached != NULL)
		return has_labels(attached->segment, key) ? attached : NULL;
	if (handle == DSM_HANDLE_INVALID || dsm_find_mapping(handle) != NULL)
		return NULL;
	segment = dsm_attach(handle);
	if (segment == NULL)
		return NULL;
	attached = has_labels(segment, key) ? malloc(sizeof(Attached)) : NULL;
	if (attached == NULL)
	{
		dsm_detach(segment);
		return NULL;
	}
	dsm_pin_mapping(segment);
	*attached = (Attached) {.handle = handle,.segment = segment,.next = all_attached};
	all_attached = attached;
	return attached;
}

/* Finds the labels of that key among the handles. */
GkLabelsView *
gk_labels_view(const dsm_handle *handles, int count, const pg_uuid_t *key, Oid id_type)
{
	GkLabelsView *view = palloc0(sizeof(GkLabelsView));

	for (int i = 0; i < count && view->attached == NULL; i++)
	{
		CHECK_FOR_INTERRUPTS();
		view->attached = attach(handles[i], key);
	}
	if (view->attached == NULL)
		return NULL;
	view->shared = dsm_segment_address(view->attached->segment);
	view->attached->views++;
	view->end.func = end_view;
	view->end.arg = view;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &view->end);
	return view->shared->id_type == id_type ? view : NULL;
}

/*
 * Finds the entry of an id; NULL if there is none.  Mostly it is the last one, which several
 * functions ask for, or the one behind: rows come again in the order in which they were read.
 */
static Entry *
find_entry(Attached *attached, Shared *shared, const Image *image)
{
	Entry	   *entry = entry_at(shared, attached->last);
	uint64		next;
	uint32	   *slot;

	if (shared->used == 0)
		return NULL;
	if (is_entry_of(entry, image))
		return entry;
	next = attached->last + entry_bytes(pg_atomic_read_u32(&entry->state) & LENGTH);
	if (next >= shared->used || !is_entry_of(entry_at(shared, next), image))
	{
		slot = find_slot(shared, image, hash_of(shared, image));
		if (*slot == 0)
			return NULL;
		next = (char *) entry_of(shared, *slot) - entries_of(shared);
	}
	attached->last = next;
	return entry_at(shared, next);
}

/* Looks for an id. */
bool
gk_labels_find(const GkLabelsView *view, Datum id, bool take, GkSharedLabel *label)
{
	Shared	   *shared = view->shared;
	Image		image = {0};
	Entry	   *entry;

	take_image(shared->id_length, shared->id_by_value, id, &image);
	entry = find_entry(view->attached, shared, &image);
	if (entry == NULL || (pg_atomic_read_u32(&entry->state) & IS_AMBIGUOUS))
		return false;
	if (take)
		pg_atomic_fetch_or_u32(&entry->state, IS_TAKEN);
	read_label(entry, label);
	return true;
}
