/*
 * The inside of the cluster engine: shared by the files that make it, seen by nobody else.
 *
 * A command takes one round or several.  In a round some nodes get a message, and each of them
 * answers; the answers are taken in the order of the nodes.  Whatever takes long is done in
 * pieces, so that wait() returns in time.
 */
#ifndef GK_CLUSTER_STATE_H
#define GK_CLUSTER_STATE_H

#include "cluster_engine.h"
#include "engine_state.h"
#include "message.h"
#include "transport.h"

/* Values that a piece of work goes through: some milliseconds. */
#define GK_PIECE 1000000

typedef struct GkClusterEngine GkClusterEngine;

/* How far a piece of work came. */
typedef enum GkRoundProgress
{
	GK_DONE,
	GK_MORE,					/* to be called again, or another round was begun */
	GK_BAD						/* an answer is not valid, or engine->status says what is wrong */
} GkRoundProgress;

/* A node. */
typedef struct GkPeer
{
	GkClusterEngine *engine;
	int			number;
	int64_t		first;			/* number of its first row */
	int64_t		rows;
	GkMessage	message;
	bool		asked;			/* in this round */
	const void *answer;			/* NULL: it did not come yet */
	GkReader	reader;			/* of the answer */
	bool		begun;			/* a part of the answer was taken */
	int64_t		at;				/* how far it was taken, or of what it is asked */
	int64_t		count;
	int64_t		list_end;		/* of GK_FARTHEST */
	int64_t		run_end;
	const int32_t *clusters;	/* of the answer to a step */
	const int64_t *sums;
	GkNodeReport report;
} GkPeer;

/* A round. */
typedef struct GkRound
{
	uint32_t	operation;		/* of the message */

	/* Writes the message of a peer, or, if it is common, of all; NULL: it is empty. */
	void		(*write) (GkMessage *message, GkPeer *peer);
	bool		is_common;

	/* Takes the answer of a peer; NULL: it is empty. */
	GkRoundProgress (*take) (GkClusterEngine *engine, GkPeer *peer);

	/* Goes on after all answers; NULL: the command is done. */
	GkRoundProgress (*finish) (GkClusterEngine *engine);
} GkRound;

/* Rows that are fetched. */
typedef struct GkWantedRows
{
	const int64_t *rows;		/* count */
	int64_t		count;
	int			asked;			/* GK_ASK_… */
	float	   *features;		/* count × d */
	double	   *weights;		/* or d², of a fetch */
	int32_t    *labels;
} GkWantedRows;

struct GkClusterEngine
{
	GkEngine	base;
	const GkTransport *transport;
	GkMemory	memory;
	GkState		state;
	bool		given;			/* the nodes can tell how their sums changed since the last step */
	GkStatus	status;			/* of the command */
	int			d;
	int64_t		n;
	int64_t    *first_rows;		/* nodes + 1 */
	GkPeer	   *peers;

	/* the command and its round */
	GkCommand  *command;		/* NULL: none is running */
	int64_t		centroids_before;
	const GkRound *round;
	GkMessage	common;
	uint64_t	sequence;
	int			unanswered;
	int			next;			/* the peer whose answer is taken next */
	bool		is_first;		/* no answer of the command was taken */
	int			phase;			/* of finish functions */
	int64_t		at;
	double		begun;			/* in milliseconds */
	double		slowest;		/* seconds of the slowest node in this round */
	double		slowest_before; /* … in the rounds before it */
	double		exchange_seconds;	/* of all commands */

	/* the grid */
	bool		wide;
	int			rest_bits;
	GkRoom		exponents;		/* int, d + 1 */
	GkRoom		origin;			/* double, d */

	/* the centroids, and the sums of all nodes */
	int64_t		k;
	bool		spherical;
	GkRoom		centroids;		/* double, k × d */
	GkRoom		moved;			/* uint8, k: the nodes do not have it yet */
	GkRoom		sums;			/* int64, k × (d + 1), and as many second limbs if wide */
	bool		sums_own;		/* they are those that the nodes gave, all added up */
	GkRoom		shifts;			/* double, k: |new - old|² of an update; k: `between` of it */
	GkRoom		mean;			/* double, 2 × d */
	GkRoom		has_rows;		/* uint8, k: a label has rows, by the statistics */
	bool		counted;		/* those are of the labels as they are */

	/* rows */
	GkWantedRows wanted;
	GkRoom		owners;			/* int32: the peer of each */
	GkRoom		pair_owners;	/* int32: the peer of both rows of a pair, -1 if they lie apart */
	GkRoom		features;
	GkRoom		weights;
	GkRoom		labels;
	GkRoom		numbers;		/* int64: rows that are asked for on behalf of a command */
	GkRoom		entries;		/* of GK_FARTHEST */
	int64_t		entry_count;
};

/* rounds.c */

/* Begins a round with the peers that are `asked`. */
extern GkStatus gk_begin_round(GkClusterEngine *engine, const GkRound *round);

/* The same with all peers that have rows. */
extern GkStatus gk_ask_all(GkClusterEngine *engine, const GkRound *round);

/*
 * Does the next piece of the command, and waits at most this long for an answer.  GK_DONE or GK_BAD
 * is the end of the command; engine->status has the error.
 */
extern GkRoundProgress gk_go_on(GkClusterEngine *engine, int milliseconds);

/* Notes an error of the command; returns GK_BAD. */
extern GkRoundProgress gk_cluster_fail(GkClusterEngine *engine, GkStatus status);

/* GkEngineClass.doubt */
extern GkStatus gk_cluster_doubt(const GkEngine *base);

/* The peer that has a row. */
extern int	gk_peer_of(const GkClusterEngine *engine, int64_t row);

/*
 * Lets each peer take its part of `count` rows from number `first` on: peer->at is the first one,
 * counted from its own, and peer->count how many.
 */
extern void gk_split_range(GkClusterEngine *engine, int64_t first, int64_t count);

/*
 * What begins each command.  It begins a round, or notes that the command is done by leaving
 * engine->round NULL.
 */
typedef GkStatus (*GkBeginCommand) (GkClusterEngine *engine, GkCommand *command);

/* cluster_data.c */
extern GkStatus gk_begin_seal(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_range(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_moments(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_transform(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_candidates(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_potentials(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_masses(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_entries(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_cluster_draw(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_label_weights(GkClusterEngine *engine, GkCommand *command);

/* cluster_fit.c */
extern GkStatus gk_begin_grid(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_centroids(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_step(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_move(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_relocate(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_distances(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_assign(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_statistics(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_squares(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_get_centroids(GkClusterEngine *engine, GkCommand *command);

/* cluster_rows.c */
extern GkStatus gk_begin_rows(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_compare(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_separation(GkClusterEngine *engine, GkCommand *command);
extern GkStatus gk_begin_cluster_merge(GkClusterEngine *engine, GkCommand *command);
extern void gk_write_fetch(GkMessage *message, GkPeer *peer);
extern GkRoundProgress gk_take_fetch(GkClusterEngine *engine, GkPeer *peer);

/*
 * Fetches features and weights of rows, labels if asked for, into the rooms of the engine; finish()
 * goes on then.
 */
extern GkStatus gk_fetch_wanted(GkClusterEngine *engine, const int64_t *rows, int64_t count,
								int asked, const GkRound *round);
extern void gk_write_wanted(GkMessage *message, GkPeer *peer);
extern GkRoundProgress gk_take_wanted(GkClusterEngine *engine, GkPeer *peer);

/* The order of two rows that were fetched, by their bits. */
extern int	gk_compare_wanted(const GkClusterEngine *engine, int64_t row, int64_t other);

/* True if rows can have these labels: those without rows, by the statistics, have none. */
extern bool gk_are_labels_of_rows(const GkClusterEngine *engine, const int32_t *labels,
								  int64_t count);

/* cluster_farthest.c */
extern GkStatus gk_begin_farthest(GkClusterEngine *engine, GkCommand *command);

/* to += from, as two's complement: what a node says may be anything. */
static inline void
gk_add_integers(int64_t *to, const int64_t *from, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		to[i] = (int64_t) ((uint64_t) to[i] + (uint64_t) from[i]);
}

#endif							/* GK_CLUSTER_STATE_H */
