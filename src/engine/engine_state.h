/*
 * What an engine knows between two commands; every engine uses it.
 *
 * Before it begins, a command marks as unknown all that it will change; when it succeeds, it
 * marks what it produced as known.  So the partial results of a command that failed or was
 * stopped are never used: a command that needs them is refused until they are computed again.
 */
#ifndef GK_ENGINE_STATE_H
#define GK_ENGINE_STATE_H

#include "engine.h"

typedef struct GkState
{
	bool		sealed;
	bool		rows_spoiled;	/* some were transformed, others not; or sealing them failed */
	bool		grid;
	bool		distances;		/* every row has its d² */
	bool		sums;			/* of the last step, for a relocation */
	bool		given;			/* the caller has the sums of the last step */
	int64_t		centroids;		/* how many there are, 0 = none */
	int64_t		labels;			/* every row has one below this, 0 = unknown */
} GkState;

/* True if a command changes nothing. */
static inline bool
gk_only_reads(GkOperation operation)
{
	switch (operation)
	{
		case GK_RANGE:
		case GK_MOMENTS:
		case GK_POTENTIALS:
		case GK_MASSES:
		case GK_ENTRIES:
		case GK_DRAW:			/* until there are rows: see gk_forget_for_drawn() */
		case GK_LABEL_WEIGHTS:
		case GK_MERGE:
		case GK_ROWS:
		case GK_COMPARE:
		case GK_FARTHEST:
		case GK_STATISTICS:
		case GK_SEPARATION:
		case GK_GET_CENTROIDS:
			return true;
		default:
			return false;
	}
}

/* True if a command has the labels and d² that it needs. */
static inline bool
gk_has_rows_for(const GkState *state, const GkCommand *command)
{
	bool		labels = state->labels > 0 && state->labels <= state->centroids;

	switch (command->operation)
	{
		case GK_CANDIDATES:
			return command->candidates.first_label == 0 ||
				(state->labels > 0 && state->distances);
		case GK_MASSES:
			return command->masses.mass == GK_MASS_WEIGHT || state->distances;
		case GK_ENTRIES:
			return command->entries.mass == GK_MASS_WEIGHT || state->distances;
		case GK_DRAW:
			return state->distances ? command->draw.first_label == 0 || state->labels > 0 :
				command->draw.mass == GK_MASS_WEIGHT && command->draw.first_label == 0;
		case GK_LABEL_WEIGHTS:
			return state->labels > 0 && state->labels <= command->label_weights.count;
		case GK_ROWS:
			return command->rows.labels == NULL || state->labels > 0;
		case GK_POTENTIALS:
		case GK_FARTHEST:
			return state->distances;
		case GK_DISTANCES:
			return labels;
		case GK_RELOCATE:
			return labels && state->sums;
		case GK_STATISTICS:
			return labels && state->distances;
		case GK_SQUARES:
			return labels;
		default:
			return true;
	}
}

/* True if a command has all that it needs. */
static inline bool
gk_can_run(const GkState *state, const GkCommand *command)
{
	bool		good = !state->rows_spoiled && gk_has_rows_for(state, command);

	switch (command->operation)
	{
		case GK_SEAL:
			return good && !state->sealed;
		case GK_STEP:
			return good && state->grid && state->centroids > 0 &&
				(state->given || !command->step.changes);
		case GK_MOVE:
		case GK_ASSIGN:
		case GK_DISTANCES:
		case GK_GET_CENTROIDS:
			return good && state->centroids > 0;
		case GK_LABEL_WEIGHTS:
		case GK_STATISTICS:
			return good && state->grid;
		default:
			return good;
	}
}

/* Marks as unknown what an operation is about to change. */
static inline void
gk_forget_for(GkState *state, GkOperation operation)
{
	if (gk_only_reads(operation))
		return;
	if (operation == GK_TRANSFORM || operation == GK_SEAL)
		state->rows_spoiled = true;
	if (operation == GK_GRID)
		state->grid = false;
	if (operation == GK_CENTROIDS || operation == GK_STEP || operation == GK_MOVE ||
		operation == GK_RELOCATE)
		state->centroids = 0;
	if (operation == GK_SEAL || operation == GK_CANDIDATES || operation == GK_CENTROIDS ||
		operation == GK_STEP || operation == GK_ASSIGN)
		state->labels = 0;
	if (operation != GK_RELOCATE && operation != GK_SQUARES)
		state->distances = false;
	if (operation != GK_DISTANCES)
		state->sums = false;
	if (operation != GK_DISTANCES && operation != GK_MOVE)
		state->given = false;
}

/* The same for a command. */
static inline void
gk_forget(GkState *state, const GkCommand *command)
{
	gk_forget_for(state, command->operation);
}

/* Marks as unknown what GK_DRAW is about to change once it has drawn rows. */
static inline void
gk_forget_for_drawn(GkState *state)
{
	gk_forget_for(state, GK_CANDIDATES);
}

/* True if a step was ended by a shift within its tolerance, and another one may have begun. */
static inline bool
gk_ended_at_rest(const GkCommand *step)
{
	return step->step.more > 0 && step->step.tolerance > 0.0 && step->step.changed > 0 &&
		step->step.empty == 0 && step->step.shift2 <= step->step.tolerance;
}

/* Marks as known what a command has produced; `centroids` is how many there were before it. */
static inline void
gk_note(GkState *state, const GkCommand *command, int64_t centroids)
{
	switch (command->operation)
	{
		case GK_SEAL:
			state->sealed = true;
			state->rows_spoiled = false;
			break;
		case GK_TRANSFORM:
			state->rows_spoiled = false;
			break;
		case GK_GRID:
			state->grid = true;
			break;
		case GK_CANDIDATES:
			state->labels = command->candidates.first_label + command->candidates.count;
			state->distances = true;
			break;
		case GK_DRAW:
			if (command->draw.found > 0)
			{
				state->labels = command->draw.first_label + command->draw.found;
				state->distances = true;
			}
			break;
		case GK_CENTROIDS:
			state->centroids = command->centroids.k;
			break;
		case GK_STEP:
			state->centroids = centroids;
			state->labels = gk_ended_at_rest(command) ? 0 : centroids;
			state->sums = command->step.sums == NULL && state->labels > 0;
			state->given = command->step.sums != NULL;
			break;
		case GK_MOVE:
			state->centroids = centroids;
			break;
		case GK_RELOCATE:
			state->centroids = centroids;
			state->sums = true;
			break;
		case GK_DISTANCES:
			state->distances = true;
			break;
		case GK_ASSIGN:
			state->labels = centroids;
			state->distances = true;
			break;
		default:
			break;
	}
}

#endif							/* GK_ENGINE_STATE_H */
