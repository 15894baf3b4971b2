/*
 * One call of a function that fits, from its arguments to its result.
 */
#ifndef GK_FIT_CALL_H
#define GK_FIT_CALL_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "portability/instr_time.h"

#include "arguments.h"
#include "cluster.h"
#include "fit.h"
#include "job.h"
#include "label_rows.h"
#include "labels_table.h"
#include "progress.h"
#include "reading.h"
#include "report.h"

typedef struct GkCall
{
	GkArguments arguments;
	MemoryContext caller;		/* outlives the job */
	instr_time	begin;
	GkJob	   *job;
	GkProgress *progress;		/* outlives the job: until SPI is finished */
	GkEngine   *engine;
	GkServerCluster *cluster;		/* NULL = this server reads the rows alone */
	GkSource   *source;
	Oid			id_type;		/* InvalidOid without an id column */
	GkLabelsTable *table;		/* NULL = none; in the caller's context */
	bool		labels_stay;	/* on the nodes, which write them; the job lasts until then */
	Snapshot	read_by;		/* this one or a newer one; NULL = it does not matter */
	GkRows		rows;
	GkFit		fit;
	GkLabelling labelling;		/* of the labels in the engine; k is 0 until it is described */
	GkReport	report;
} GkCall;

/* Begins the job; leaves SPI connected and the job's memory context current. */
extern void gk_call_open(GkCall *call);

/*
 * Begins the job and reads the arguments from number `first` on; leaves SPI connected and
 * the job's memory context current.
 */
extern void gk_call_begin(GkCall *call, FunctionCallInfo fcinfo, int first);

/*
 * Asks for the changes of the labels in a table, NULL for none; before the source is read.  Raises
 * 22023 without a labels table.
 */
extern void gk_call_track_changes(GkCall *call, const char *changes_table);

/* Describes the source, and checks the tables of labels and changes; part of gk_call_read(). */
extern void gk_call_describe(GkCall *call);

/* Reads the rows of the source into an engine. */
extern void gk_call_read(GkCall *call);

/* Raises an error if there is no row to fit, or the initial centroids do not fit the rows. */
extern void gk_call_check_rows(const GkCall *call);

/* Fits, after that check. */
extern void gk_call_fit(GkCall *call);

/* Puts one row for every cluster into the result. */
extern void gk_call_put_clusters(const GkCall *call, ReturnSetInfo *result);

/*
 * The GK_QUANTILES quantiles of the anomaly scores of a fit whose labels are in the engine; NULL if
 * no row has a score.  They are computed once, in the current memory context.
 */
extern const double *gk_call_quantiles(GkCall *call);

/*
 * Describes the labels of the fit, which are in the engine, for the columns of a labels table: the
 * version of the model, 0 for none, and the names of the clusters by place, NULL for none.  Without
 * this call, the labels belong to no model.
 */
extern void gk_call_describe_fit(GkCall *call, int version, char *const *names);

/* Puts id, cluster and distance of every row of the source into a tuplestore. */
extern void gk_call_put_labels(GkCall *call, Tuplestorestate *store, TupleDesc descriptor);

/*
 * The labels for the table of labels, in the caller's context; NULL if there is none, or they stay
 * on the nodes.  The ids can be gone through once: either this or gk_call_put_labels().
 */
extern Tuplestorestate *gk_call_labels(GkCall *call);

/*
 * Fills in the report, and ends the job; if the labels stay on the nodes, their work alone: the job
 * ends with gk_call_write_labels().
 */
extern void gk_call_end_job(GkCall *call);

/*
 * Writes the table of labels and that of changes, if there are to be any.  False if nothing was
 * written, because others have written labels since the rows were read, perhaps of newer rows: the
 * table is locked by now, so that rows that are read from here on may be labelled.
 */
extern bool gk_call_write_labels(GkCall *call, Tuplestorestate *labels, GkLabelsWritten *written);

/*
 * True if what a call has read may not be read anew before its transaction ends: until then,
 * postgres_fdw reads by the snapshot of the first time.  Over nodes, each reading has sessions of
 * its own.  The call may have ended.
 */
extern bool gk_call_is_bound(const GkCall *call);

/* Raises 40001 where they would have to be. */
__attribute__((noreturn))
extern void gk_refuse_bound(void);

/*
 * How often rows are read again, at most, because others have written labels meanwhile.  The last
 * time, labels are written whatever others have inserted, unless the lock keeps them from it: where
 * they do so all the time, as by a trigger, no call would end otherwise.
 */
#define GK_MOST_READINGS 5

/* Ends the call: what its job leaves, after the job has ended.  Nothing is remembered of it. */
extern void gk_call_close(GkCall *call);

/* The same, and remembers it as the session's last fit. */
extern void gk_call_end(GkCall *call);

#endif							/* GK_FIT_CALL_H */
