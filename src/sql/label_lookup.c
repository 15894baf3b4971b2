/*
 * The SQL functions that look up labels on a node, in the commands that write them there.
 *
 * Ids of most types come in a row of their own: the type of that is the very type that the function
 * declares, and no other function of its name fits better.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/typcache.h"
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
	TupleDesc	row;			/* of the rows that hold the ids; NULL = ids come as they are */
	GkLabelsView *view;			/* NULL = this server has no such labels */
} Lookup;

/* Raises an error: nobody but the commands of gkmeans calls in this way. */
__attribute__((noreturn))
static void
refuse(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the labels of a node can only be read by the functions of gkmeans")));
}

/* Finds out in what rows ids come, if they do; returns the type of the ids. */
static Oid
describe_ids(FunctionCallInfo fcinfo, Lookup *lookup)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, ID);
	HeapTupleHeader row;

	if (type != RECORDOID)
		return type;
	row = PG_GETARG_HEAPTUPLEHEADER(ID);
	/* a type that has a name may be altered meanwhile */
	if (HeapTupleHeaderGetTypeId(row) != RECORDOID)
		refuse();
	lookup->row = lookup_rowtype_tupdesc_copy(RECORDOID, HeapTupleHeaderGetTypMod(row));
	if (lookup->row->natts != 1)
		refuse();
	return TupleDescAttr(lookup->row, 0)->atttypid;
}

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
		refuse();
	for (int i = 0; i < count; i++)
		handles[i] = numbers[i] > 0 && numbers[i] <= PG_UINT32_MAX ? (dsm_handle) numbers[i]
			: DSM_HANDLE_INVALID;
	lookup->view = gk_labels_view(handles, count, PG_GETARG_UUID_P(KEY),
								  describe_ids(fcinfo, lookup));
	pfree(handles);
}

/* The id of a call; false if it is NULL. */
static inline bool
take_id(FunctionCallInfo fcinfo, const Lookup *lookup, Datum *id)
{
	HeapTupleData tuple = {0};
	bool		is_null;

	if (lookup->row == NULL)
	{
		*id = PG_GETARG_DATUM(ID);
		return true;
	}
	tuple.t_data = PG_GETARG_HEAPTUPLEHEADER(ID);
	tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
	if (HeapTupleHeaderGetTypeId(tuple.t_data) != RECORDOID ||
		HeapTupleHeaderGetTypMod(tuple.t_data) != lookup->row->tdtypmod)
		refuse();
	*id = heap_getattr(&tuple, 1, lookup->row, &is_null);
	return !is_null;
}

/* Looks for an id; false if it is not there. */
static bool
look_up(FunctionCallInfo fcinfo, bool take, GkSharedLabel *label)
{
	Lookup	   *lookup = fcinfo->flinfo->fn_extra;
	Datum		id;

	if (lookup == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		lookup = palloc0(sizeof(Lookup));
		begin_lookup(fcinfo, lookup);
		fcinfo->flinfo->fn_extra = lookup;
		MemoryContextSwitchTo(before);
	}
	return lookup->view != NULL && take_id(fcinfo, lookup, &id) &&
		gk_labels_find(lookup->view, id, take, label);
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
