/*
 * Queries over a source: analysed, planned and run without SPI, so that errors show the source
 * as the user wrote it, and nothing of the query around it.
 */
#ifndef GK_SOURCE_QUERY_H
#define GK_SOURCE_QUERY_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"
#include "utils/snapshot.h"

#include "source_text.h"

/*
 * The query, parsed and analysed, its views not yet expanded.  This and the others raise 42501 if a
 * name means a temporary table or view of a caller who could not act as the current user.
 */
extern Query *gk_query_analyze(const GkSourceText *source, const char *text);

/* The query, its views expanded, not yet planned; it has no parameter. */
extern Query *gk_query_rewrite(const GkSourceText *source, const char *text);

/* What a query selects as a column, which is not a reference to what it groups by. */
extern const Node *gk_query_column(const Query *query, const TargetEntry *entry);

/* What the source is called in a query over it whose meaning is compared. */
#define GK_SOURCE_ALIAS "source"

/* The query ready to run; it is read-only. */
typedef struct GkSourceQuery
{
	const GkSourceText *source;
	const char *text;
	PlannedStmt *plan;
	bool		is_of_citus;	/* Citus has planned it */
	List	   *tables;			/* tables and views that it reads: OIDs */
	List	   *named;			/* other relations that its constants name */
	Node	   *meaning;		/* its source by what names mean, if that is compared; or NULL */
	Query	   *rewritten;		/* and the query, its views and policies expanded */
	List	   *functions;		/* that it calls: OIDs */
	uint64		changes;		/* gk_name_changes() … */
	CommandId	command;		/* … and the own transaction's command, before it was analysed … */
	char	   *moment;			/* … and a snapshot of then, serialized; NULL = nothing changes */
} GkSourceQuery;

/* How often a query is planned again, at most, if what it names changes all the time. */
#define GK_MOST_PLANS 10

/* Raises an error where an analysed query must not be planned; may set what it is planned with. */
typedef void (*GkCheckQuery) (const Query *query, const void *context);

/*
 * Analyses and plans a query, for parallel workers if possible, without JIT compilation; it has one
 * parameter of that type, or none.  A check that is not NULL comes between the two: planning may
 * call functions of the query.
 */
extern GkSourceQuery *gk_query_plan(const GkSourceText *source, const char *text, Oid parameter,
									GkCheckQuery check, const void *context);

/*
 * The same without a parameter, and again while a name may not have meant, when it was analysed,
 * what it means now: for what is read otherwise than by gk_query_run().
 */
extern GkSourceQuery *gk_query_plan_by_names(const GkSourceText *source, const char *text,
											 GkCheckQuery check);

/* True if two plans of a text read the same relations and call the same functions. */
extern bool gk_query_are_alike(const GkSourceQuery *one, const GkSourceQuery *other);

/* Raises 55000: what the query names changed each time that it was planned. */
extern void gk_query_refuse_plan(void);

/*
 * True if the own transaction has changed what it names since it was analysed: functions that the
 * analysis, the planner or its rows called did so, as no lock keeps them from it.
 */
extern bool gk_query_is_old(const GkSourceQuery *query);

/*
 * Pushes the snapshot to run it under: the active one, or a newer one if what it names was changed
 * since, or Citus has planned it.  True if it is newer.
 */
extern bool gk_query_push_snapshot(const GkSourceQuery *query, bool *is_changed);

/* True if a table that the plan reads is a foreign one. */
extern bool gk_query_has_foreign_table(const GkSourceQuery *query);

/*
 * True if the active snapshot may miss rows of what it names, which others or the own transaction
 * have replaced since.
 */
extern bool gk_query_is_replaced(const GkSourceQuery *query);

/*
 * True if a name may not have meant, when it was analysed, what it means now: not even if it meant
 * that before as well.
 */
extern bool gk_query_is_named_anew(const GkSourceQuery *query);

/* gk_usable_schemas() and gk_are_other_schemas() by the search_path of its source. */
extern List *gk_query_schemas(const GkSourceQuery *query);
extern bool gk_query_has_other_schemas(const GkSourceQuery *query, const List *first,
									   const List *last, Snapshot snapshot, CommandId command);

/* True if what it names was replaced since it was analysed, so that the plan may lack tables. */
extern bool gk_query_is_overtaken(const GkSourceQuery *query);

/*
 * Runs it under the active snapshot; its rows go to the receiver.  55000 if it cannot be run any
 * more, because it is old.
 */
extern void gk_query_run(const GkSourceQuery *query, ParamListInfo parameters,
						 DestReceiver *receiver);

/*
 * In PG_CATCH, raises the current error again: an internal one about an object that is gone as
 * 55000, that the source changed.  The memory context is that of before.
 */
extern void gk_rethrow_as_change(MemoryContext context) __attribute__((noreturn));

/* Raises the errors of a query that the user may not run; connects to nothing. */
extern void gk_query_check(const GkSourceQuery *query);

#endif							/* GK_SOURCE_QUERY_H */
