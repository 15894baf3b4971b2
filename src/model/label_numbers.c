/*
 * Numbers for labels of any type.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "alloc.h"
#include "engine.h"
#include "label_numbers.h"

/* The most bytes that the texts of different labels may have. */
#define MOST_BYTES ((Size) 256 << 20)

/* A label and its number. */
typedef struct Label
{
	struct Label *next;			/* another one whose text has the same hash */
	int32		number;
	char		text[FLEXIBLE_ARRAY_MEMBER];
} Label;

/* An entry of the hash table. */
typedef struct Bucket
{
	uint64		hash;			/* key */
	Label	   *first;
} Bucket;

struct GkLabelNumbers
{
	MemoryContext context;
	MemoryContext text_context; /* for the text of one label */
	FmgrInfo	output;
	uint64		seed;			/* of the hashes: nobody can choose labels that share a bucket */
	HTAB	   *buckets;
	int			count;
	Size		bytes;			/* of their texts */
};

/* The function that shows values of a type. */
static Oid
output_function(Oid type)
{
	Oid			function;
	bool		is_varlena;

	type = getBaseType(type);
	if (type == REGPROCOID || type == REGOPEROID)
		return F_OIDOUT;
	getTypeOutputInfo(type, &function, &is_varlena);
	return function;
}

GkLabelNumbers *
gk_label_numbers_create(Oid type)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "labels of gkmeans",
												  ALLOCSET_DEFAULT_SIZES);
	GkLabelNumbers *numbers = MemoryContextAllocZero(context, sizeof(GkLabelNumbers));
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(Bucket),.hcxt = context};

	numbers->context = context;
	numbers->text_context = AllocSetContextCreate(context, "text of a label",
												  ALLOCSET_SMALL_SIZES);
	fmgr_info_cxt(output_function(type), &numbers->output, context);
	(void) pg_strong_random(&numbers->seed, sizeof(numbers->seed));
	numbers->buckets = hash_create("labels of gkmeans", 64, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return numbers;
}

int
gk_label_numbers_count(const GkLabelNumbers *numbers)
{
	return numbers->count;
}

/* Notes a new label under the next number. */
static Label *
add_label(GkLabelNumbers *numbers, const char *text, Size length)
{
	Label	   *label;

	if (numbers->count >= GK_MAX_CLUSTERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("there are more than %d different labels", GK_MAX_CLUSTERS)));
	numbers->bytes += length;
	if (numbers->bytes > MOST_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the different labels have more than %zu MB of text", MOST_BYTES >> 20),
				 errhint("Use md5() of the labels.")));
	label = MemoryContextAllocHuge(numbers->context, offsetof(Label, text) + length + 1);
	memcpy(label->text, text, length + 1);
	label->number = numbers->count++;
	return label;
}

/* The number of a text. */
static int32
number_of_text(GkLabelNumbers *numbers, const char *text)
{
	Size		length = strlen(text);
	uint64		hash = DatumGetUInt64(hash_any_extended((const unsigned char *) text,
														(int) length, numbers->seed));
	bool		found;
	Bucket	   *bucket = hash_search(numbers->buckets, &hash, HASH_ENTER, &found);
	Label	   *label;

	if (!found)
		bucket->first = NULL;
	for (label = bucket->first; label != NULL; label = label->next)
		if (strcmp(label->text, text) == 0)
			return label->number;
	label = add_label(numbers, text, length);
	label->next = bucket->first;
	bucket->first = label;
	return label->number;
}

int32
gk_label_number(GkLabelNumbers *numbers, Datum label)
{
	MemoryContext old_context = MemoryContextSwitchTo(numbers->text_context);
	int32		number = number_of_text(numbers, OutputFunctionCall(&numbers->output, label));

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(numbers->text_context);
	return number;
}

/* The order of labels. */
static int
compare_labels(const void *a, const void *b, void *argument)
{
	return strcmp((*(Label *const *) a)->text, (*(Label *const *) b)->text);
}

/* Lists the labels as their hashes have it: they may have come in an order made to sort slowly. */
static Label **
list_labels(GkLabelNumbers *numbers)
{
	Label	  **labels = gk_allocate(numbers->count, sizeof(Label *));
	int			count = 0;
	HASH_SEQ_STATUS search;
	Bucket	   *bucket;

	hash_seq_init(&search, numbers->buckets);
	while ((bucket = hash_seq_search(&search)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		for (Label *label = bucket->first; label != NULL; label = label->next)
			labels[count++] = label;
	}
	return labels;
}

int32 *
gk_label_places(GkLabelNumbers *numbers)
{
	int32	   *places = gk_allocate(numbers->count, sizeof(int32));
	Label	  **ordered = list_labels(numbers);

	qsort_interruptible(ordered, numbers->count, sizeof(Label *), compare_labels, NULL);
	for (int i = 0; i < numbers->count; i++)
		places[ordered[i]->number] = i;
	pfree(ordered);
	return places;
}

void
gk_label_numbers_drop(GkLabelNumbers *numbers)
{
	MemoryContextDelete(numbers->context);
}
