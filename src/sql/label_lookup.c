/*
 * The SQL functions that look up labels on a node, in the commands that write them there.
 */
#include "postgres.h"

#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "alloc.h"
#include "shared_labels.h"
#include "sql_function.h"

/* The arguments. */
enum
{
	HANDLES,
	KEY,
	ID
};

GK_SQL_FUNCTION(gk_label_exists);
GK_SQL_FUNCTION(gk_label_cluster);
GK_SQL_FUNCTION(gk_label_distance);

/* State that a call keeps for the next ones. */
typedef struct Lookup
{
	GkLabelsView *view;			/* NULL = this server has no such labels */
} Lookup;

/* Finds the labels. */
static void
begin_lookup(FunctionCallInfo fcinfo, Lookup *lookup)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(HANDLES);
	int			count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const int64 *numbers = (const int64 *) ARR_DATA_PTR(array);
	dsm_handle *handles = gk_allocate(count, sizeof(dsm_handle));

	if (ARR_HASNULL(array) || !get_fn_expr_arg_stable(fcinfo->flinfo, HANDLES) ||
		!get_fn_expr_arg_stable(fcinfo->flinfo, KEY))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the labels of a node can only be read by the functions of gkmeans")));
	for (int i = 0; i < count; i++)
		handles[i] = numbers[i] > 0 && numbers[i] <= PG_UINT32_MAX ? (dsm_handle) numbers[i]
			: DSM_HANDLE_INVALID;
	lookup->view = gk_labels_view(handles, count, PG_GETARG_UUID_P(KEY),
								  get_fn_expr_argtype(fcinfo->flinfo, ID));
	pfree(handles);
}

/* Looks for an id; false if it is not there. */
static bool
look_up(FunctionCallInfo fcinfo, bool take, GkSharedLabel *label)
{
	Lookup	   *lookup = fcinfo->flinfo->fn_extra;

	if (lookup == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		lookup = palloc0(sizeof(Lookup));
		begin_lookup(fcinfo, lookup);
		fcinfo->flinfo->fn_extra = lookup;
		MemoryContextSwitchTo(before);
	}
	return lookup->view != NULL && gk_labels_find(lookup->view, PG_GETARG_DATUM(ID), take, label);
}

/* SQL: true if this node has left a label of an id. */
Datum
gk_label_exists(PG_FUNCTION_ARGS)
{
	GkSharedLabel label;

	PG_RETURN_BOOL(look_up(fcinfo, false, &label));
}

/* SQL: takes the cluster that this node has left for an id. */
Datum
gk_label_cluster(PG_FUNCTION_ARGS)
{
	GkSharedLabel label;

	if (!look_up(fcinfo, true, &label) || !label.has_cluster)
		PG_RETURN_NULL();
	PG_RETURN_INT32(label.cluster);
}

/* SQL: the distance that this node has left for an id. */
Datum
gk_label_distance(PG_FUNCTION_ARGS)
{
	GkSharedLabel label;

	if (!look_up(fcinfo, false, &label) || !label.has_cluster)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(label.distance);
}
