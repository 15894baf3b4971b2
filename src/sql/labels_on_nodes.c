/*
 * Labels that stay on the nodes of a fit, because the workers of Citus write them there.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

#include "alloc.h"
#include "citus_sources.h"
#include "cluster_labels.h"
#include "label_columns.h"
#include "labels_on_nodes.h"
#include "seconds.h"
#include "source_query.h"
#include "source_text.h"

/* What is selected from; without a cluster, only its form. */
static char *
shared_labels(const GkCall *call, const GkServerCluster *cluster)
{
	const GkSourceSpec *source = &call->arguments.source;

	return gk_shared_labels(cluster, gk_source_text(source->source)->from, source->id_column,
							call->id_type);
}

/* Looks for functions that return sets among what is selected, and for domains. */
static bool
has_sets_or_domains(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain))
		return true;
	if (IsA(node, Query))
		return ((Query *) node)->hasTargetSRFs ||
			query_tree_walker((Query *) node, has_sets_or_domains, context, 0);
	return expression_tree_walker(node, has_sets_or_domains, context);
}

/*
 * True if Citus would compute parts of the source here before it has the workers insert: functions
 * that are not immutable and domains, also where no row needs them, and sets, which it cannot.
 */
static bool
is_computed_here(const GkCall *call)
{
	const GkSourceText *text = gk_source_text(call->arguments.source.source);
	Query	   *query = gk_query_rewrite(text, psprintf("SELECT * FROM %s AS source", text->from));

	return contain_mutable_functions((Node *) query) || has_sets_or_domains((Node *) query, NULL);
}

/* True if the workers of Citus can write the labels table themselves. */
bool
gk_labels_can_stay(const GkCall *call)
{
	char	   *insert;

	if (call->table == NULL || !call->arguments.labels_may_stay)
		return false;
	insert = gk_labels_table_insert(call->table, shared_labels(call, NULL));
	return insert != NULL && !is_computed_here(call) && gk_citus_inserts_on_workers(insert);
}

/* Has the nodes leave their labels. */
void
gk_share_labels(GkCall *call)
{
	const GkLabelling *labelling = &call->labelling;
	int32	   *clusters = gk_allocate(labelling->labels, sizeof(int32));
	instr_time	begin;

	gk_progress_phase(GK_PHASE_LABELLING);
	INSTR_TIME_SET_CURRENT(begin);
	for (int64 label = 0; label < labelling->labels; label++)
	{
		int			place = labelling->place_of_label == NULL ? (int) label
			: labelling->place_of_label[label];

		clusters[label] = labelling->ids != NULL && place >= 0 ? labelling->ids[place] : place;
	}
	gk_cluster_share_labels(call->cluster, clusters, labelling->labels,
							call->arguments.fit.metric == GK_COSINE);
	call->report.label_seconds += gk_seconds_since(begin);
	pfree(clusters);
}

/* The state of taking the rest. */
typedef struct Rest
{
	GkCall	   *call;
	Tuplestorestate *labels;	/* NULL = none so far */
	TupleDesc	descriptor;
} Rest;

/* Takes a label of the rest. */
static void
take_label(void *context, const Datum *values, const bool *nulls)
{
	Rest	   *rest = context;
	Datum		row[GK_LABEL_VALUES] = {0};
	bool		row_nulls[GK_LABEL_VALUES];

	if (rest->labels == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(gk_job_context(rest->call->job));

		rest->labels = tuplestore_begin_heap(false, false, work_mem);
		rest->descriptor = gk_labels_descriptor(rest->call->id_type);
		MemoryContextSwitchTo(before);
	}
	memset(row_nulls, true, sizeof(row_nulls));
	for (int i = 0; i <= GK_LABEL_DISTANCE; i++)
	{
		row[i] = values[i];
		row_nulls[i] = nulls[i];
	}
	tuplestore_putvalues(rest->labels, rest->descriptor, row, row_nulls);
}

/* Takes the labels that the workers lack, after so many were selected. */
static Tuplestorestate *
take_rest(void *context, int64 selected)
{
	Rest		rest = {.call = context};

	gk_cluster_take_rest(rest.call->cluster, rest.call->id_type, selected, take_label, &rest);
	return rest.labels;
}

/* Says how they are written. */
void
gk_use_shared_labels(GkCall *call, GkLabelsInput *input)
{
	input->relation = shared_labels(call, call->cluster);
	input->take_rest = take_rest;
	input->context = call;
}
