/*
 * The labels of the rows before a fit: which clusters go on in it, and how many rows it moves.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"

#include "alloc.h"
#include "engine_error.h"
#include "labels_before.h"

#define WINDOW_ROWS 16384

struct GkLabelsBefore
{
	BufFile    *file;
	int64		rows;
	int32	   *now;			/* WINDOW_ROWS: labels */
	int32	   *then;			/* WINDOW_ROWS: places */
};

/* Fetches the labels of a window; returns the number of its rows. */
static int
fetch(GkLabelsBefore *before, GkEngine *engine, int64 from)
{
	int			count = (int) Min(WINDOW_ROWS, before->rows - from);

	CHECK_FOR_INTERRUPTS();
	gk_check(engine->class_of->fetch(engine, from, count, before->now, NULL));
	return count;
}

/* Keeps the labels. */
GkLabelsBefore *
gk_keep_labels(GkEngine *engine, int64 rows, const int32 *places)
{
	GkLabelsBefore *before = palloc(sizeof(GkLabelsBefore));

	before->file = BufFileCreateTemp(false);
	before->rows = rows;
	before->now = gk_allocate(WINDOW_ROWS, sizeof(int32));
	before->then = gk_allocate(WINDOW_ROWS, sizeof(int32));
	for (int64 from = 0; from < rows; from += WINDOW_ROWS)
	{
		int			count = fetch(before, engine, from);

		for (int i = 0; i < count; i++)
			before->then[i] = places[before->now[i]];
		BufFileWrite(before->file, before->then, count * sizeof(int32));
	}
	return before;
}

/* Visits the rows of a window. */
typedef void (*Visit) (const int32 *then, const int32 *now, int count, void *context);

/* Visits all rows. */
static void
visit_rows(GkLabelsBefore *before, GkEngine *engine, Visit visit, void *context)
{
	if (BufFileSeek(before->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file: %m")));
	for (int64 from = 0; from < before->rows; from += WINDOW_ROWS)
	{
		int			count = fetch(before, engine, from);

		if (BufFileRead(before->file, before->then, count * sizeof(int32)) !=
			count * sizeof(int32))
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read a temporary file: %m")));
		visit(before->then, before->now, count, context);
	}
}

/* Rows of the labels now, and of the places before. */
typedef struct Majorities
{
	int32	   *candidates;		/* by label: the only place that most of its rows may have had */
	int64	   *votes;			/* by label: for it, less those against */
	int64	   *now;			/* by label: rows */
	int64	   *then;			/* by place: rows */
	int64	   *shared;			/* by label: rows that the candidate had, too */
} Majorities;

/* A visitor: lets rows vote for their place, against others (Boyer and Moore 1981). */
static void
vote(const int32 *then, const int32 *now, int count, void *context)
{
	Majorities *majorities = context;

	for (int i = 0; i < count; i++)
	{
		int64	   *votes = &majorities->votes[now[i]];

		if (*votes == 0)
			majorities->candidates[now[i]] = then[i];
		*votes += majorities->candidates[now[i]] == then[i] ? 1 : -1;
	}
}

/* A visitor: counts rows. */
static void
count_shared(const int32 *then, const int32 *now, int count, void *context)
{
	Majorities *majorities = context;

	for (int i = 0; i < count; i++)
	{
		majorities->now[now[i]]++;
		majorities->shared[now[i]] += majorities->candidates[now[i]] == then[i];
		if (then[i] >= 0)
			majorities->then[then[i]]++;
	}
}

/* Finds the clusters that keep most of their rows. */
void
gk_match_majorities(GkLabelsBefore *before, GkEngine *engine, int64 labels, int64 places,
					int32 *match)
{
	Majorities	majorities = {
		.candidates = match,
		.votes = gk_allocate_zero(labels, sizeof(int64)),
		.now = gk_allocate_zero(labels, sizeof(int64)),
		.then = gk_allocate_zero(places, sizeof(int64)),
		.shared = gk_allocate_zero(labels, sizeof(int64))
	};

	for (int64 label = 0; label < labels; label++)
		match[label] = -1;
	visit_rows(before, engine, vote, &majorities);
	visit_rows(before, engine, count_shared, &majorities);
	for (int64 label = 0; label < labels; label++)
		if (match[label] >= 0 && (majorities.shared[label] <= majorities.now[label] / 2 ||
								  majorities.shared[label] <= majorities.then[match[label]] / 2))
			match[label] = -1;
	pfree(majorities.votes);
	pfree(majorities.now);
	pfree(majorities.then);
	pfree(majorities.shared);
}

/* The ids that rows had and have, and how many have another one now. */
typedef struct Moves
{
	const int32 *ids_then;		/* by place */
	const int32 *ids_now;		/* by label */
	int64		moved;
} Moves;

/* A visitor: counts the rows that have another id. */
static void
count_moves(const int32 *then, const int32 *now, int count, void *context)
{
	Moves	   *moves = context;

	for (int i = 0; i < count; i++)
		moves->moved += then[i] < 0 || moves->ids_then[then[i]] != moves->ids_now[now[i]];
}

/* Counts the rows that now have another id. */
int64
gk_count_moved(GkLabelsBefore *before, GkEngine *engine, const int32 *ids_then,
			   const int32 *ids_now)
{
	Moves		moves = {.ids_then = ids_then,.ids_now = ids_now};

	visit_rows(before, engine, count_moves, &moves);
	BufFileClose(before->file);
	return moves.moved;
}
