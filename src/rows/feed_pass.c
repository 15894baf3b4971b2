/*
 * Who may feed: the query of a reading, and no other.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "executor/execExpr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "storage/proc.h"

#include "feed_pass.h"

/* The ticket: the parameter of the query, and all that a worker receives. */
typedef struct Ticket
{
	dsm_handle	handle;
	uint8		key[GK_FEED_KEY_BYTES];
} Ticket;

StaticAssertDecl(sizeof(Ticket) == UUID_LEN, "a ticket is a uuid");

/* The readings of this process, the innermost first. */
static GkFeedPass *passes = NULL;

/*
 * Gives the executor its ticket.  Speculative requests, such as the planner's, get none;
 * PostgreSQL does not log the parameters of a list with this hook.
 */
static ParamExternData *
fetch_ticket(ParamListInfo params, int paramid, bool speculative, ParamExternData *workspace)
{
	GkFeedPass *pass = params->paramFetchArg;

	memset(workspace, 0, sizeof(*workspace));
	workspace->isnull = true;
	if (speculative)
		return workspace;
	workspace->value = UUIDPGetDatum(&pass->ticket);
	workspace->isnull = false;
	workspace->ptype = GK_TICKET_TYPE;
	return workspace;
}

/* Compiles the parameter into a constant, so that the backend does not fetch it for each row. */
static void
compile_ticket(ParamListInfo params, Param *param, ExprState *expression, Datum *value,
			   bool *is_null)
{
	GkFeedPass *pass = params->paramCompileArg;
	ExprEvalStep step = {.opcode = EEOP_CONST,.resvalue = value,.resnull = is_null};

	step.d.constval.value = UUIDPGetDatum(&pass->ticket);
	step.d.constval.isnull = false;
	ExprEvalPushStep(expression, &step);
}

/* Makes the parameter list; its static entry, which nobody should use, has no type. */
static ParamListInfo
make_params(GkFeedPass *pass, MemoryContext context)
{
	ParamListInfo params = MemoryContextAllocZero(context, offsetof(ParamListInfoData, params) +
												  sizeof(ParamExternData));

	params->paramFetch = fetch_ticket;
	params->paramFetchArg = pass;
	params->paramCompile = compile_ticket;
	params->paramCompileArg = pass;
	params->numParams = 1;
	return params;
}

/* Lets the query that runs with pass->params feed. */
void
gk_feed_pass_open(GkFeedPass *pass, const GkFeedPlace *place, MemoryContext context)
{
	Ticket		ticket = {.handle = DSM_HANDLE_INVALID};

	if (place->segment != NULL)
		ticket.handle = dsm_segment_handle(place->segment);
	memset(pass, 0, sizeof(*pass));
	pass->feed = place->feed;
	if (!pg_strong_random(ticket.key, sizeof(ticket.key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	memcpy(pass->feed->key, ticket.key, sizeof(ticket.key));
	memcpy(pass->ticket.data, &ticket, sizeof(ticket));
	pass->params = make_params(pass, context);
	pass->outer = passes;
	passes = pass;
}

/* Closes the pass. */
void
gk_feed_pass_close(GkFeedPass *pass)
{
	GkFeedPass **link = &passes;

	while (*link != NULL && *link != pass)
		link = &(*link)->outer;
	if (*link == NULL)
		return;
	*link = pass->outer;
	pass->params = NULL;
	pass->feeder = NULL;
}

/* Refuses a call from elsewhere. */
void
gk_feed_refuse(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the feed of gkmeans can only be called by the functions of gkmeans"),
			 errhint("Call gkmeans_fit or gkmeans_fit_predict.")));
}

/* The executor of the calling aggregate; an error if there is none, or a window's. */
static EState *
executor_of(FunctionCallInfo fcinfo)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, AggState))
		gk_feed_refuse();
	return ((AggState *) fcinfo->context)->ss.ps.state;
}

/* The pass of the query that calls an aggregate's function. */
GkFeedPass *
gk_feed_pass_find(FunctionCallInfo fcinfo)
{
	EState	   *executor = executor_of(fcinfo);

	/* an outer reading is suspended: its query calls nothing until the inner one ends */
	if (passes == NULL || executor->es_param_list_info != passes->params)
		gk_feed_refuse();
	return passes;
}

/* True if the aggregate's argument is a parameter of its query: not called from the source. */
static bool
has_ticket(FunctionCallInfo fcinfo)
{
	Aggref	   *call = AggGetAggref(fcinfo);
	Node	   *first;

	if (call == NULL || call->args == NIL)
		return false;
	first = (Node *) linitial_node(TargetEntry, call->args)->expr;
	return IsA(first, Param) && ((Param *) first)->paramkind == PARAM_EXTERN;
}

/* Raises the error that a worker has loaded another library than its leader. */
static void
raise_replaced(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the library of gkmeans was replaced after this session had loaded it"),
			 errhint("Start a new session.")));
}

/* Finds the feed of a worker's ticket; NULL if it is not a feed of its leader. */
static GkFeed *
attach_feed(const Ticket *ticket)
{
	dsm_segment *segment;
	bool		attached;
	GkFeed	   *feed;

	/* the feed of a reading without workers */
	if (ticket->handle == DSM_HANDLE_INVALID)
		return NULL;
	segment = dsm_find_mapping(ticket->handle);
	attached = segment == NULL;
	if (attached)
		segment = dsm_attach(ticket->handle);
	if (segment == NULL || dsm_segment_map_length(segment) < offsetof(GkFeed, aggregate))
		return NULL;
	feed = dsm_segment_address(segment);
	if (!gk_feed_is_ours(feed, ticket->key, MyProc->lockGroupLeader->pid))
		return NULL;
	if (!gk_feed_is_known(feed))
		raise_replaced();

	/* a worker may keep it mapped: it ends with the query */
	if (attached)
		dsm_pin_mapping(segment);
	return feed;
}

/* Opens the pass of a worker: only its own query, which comes first, gets one. */
static void
admit_worker(FunctionCallInfo fcinfo)
{
	static GkFeedPass pass;
	EState	   *executor = executor_of(fcinfo);
	Ticket		ticket;

	/* only a worker's own query shares memory with its leader's */
	if (executor->es_query_dsa == NULL || MyProc->lockGroupLeader == NULL ||
		!has_ticket(fcinfo) || PG_ARGISNULL(GK_TICKET))
		gk_feed_refuse();
	memcpy(&ticket, PG_GETARG_UUID_P(GK_TICKET)->data, sizeof(ticket));
	pass.feed = attach_feed(&ticket);
	if (pass.feed == NULL)
		gk_feed_refuse();
	pass.params = executor->es_param_list_info;
	passes = &pass;
}

/* The pass of a query, at its first row in this process. */
GkFeedPass *
gk_feed_pass_enter(FunctionCallInfo fcinfo)
{
	GkFeedPass *pass;

	if (IsParallelWorker() && passes == NULL)
		admit_worker(fcinfo);
	pass = gk_feed_pass_find(fcinfo);
	if (!has_ticket(fcinfo) || AggGetAggref(fcinfo)->aggfnoid != pass->feed->aggregate ||
		pass->feeder != NULL)
		gk_feed_refuse();
	return pass;
}
