/*
 * The SQL functions that look up labels on a node, in the commands that write them there.
 *
 * They take the id in a row of its own: its type is then the very type that they declare, and no
 * other function of their name fits better.
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
	ROW
};

GK_SQL_FUNCTION(gk_label_exists);
GK_SQL_FUNCTION(gk_label_cluster);
GK_SQL_FUNCTION(gk_label_distance);

/* State that a call keeps for the next ones. */
typedef struct Lookup
{
	TupleDesc	row;			/* of the rows that hold the ids */
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

/* Finds the labels. */
static void
begin_lookup(FunctionCallInfo fcinfo, HeapTupleHeader row, Lookup *lookup)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(HANDLES);
	int			count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const int64 *numbers = (const int64 *) ARR_DATA_PTR(array);
	dsm_handle *handles = gk_allocate(count, sizeof(dsm_handle));

	/* a type that has a name may be altered meanwhile */
	if (HeapTupleHeaderGetTypeId(row) != RECORDOID)
		refuse();
	lookup->row = lookup_rowtype_tupdesc_copy(RECORDOID, HeapTupleHeaderGetTypMod(row));
	if (ARR_HASNULL(array) || !get_fn_expr_arg_stable(fcinfo->flinfo, HANDLES) ||
		!get_fn_expr_arg_stable(fcinfo->flinfo, KEY) || lookup->row->natts != 1)
		refuse();
	for (int i = 0; i < count; i++)
		handles[i] = numbers[i] > 0 && numbers[i] <= PG_UINT32_MAX ? (dsm_handle) numbers[i]
			: DSM_HANDLE_INVALID;
	lookup->view = gk_labels_view(handles, count, PG_GETARG_UUID_P(KEY),
								  TupleDescAttr(lookup->row, 0)->atttypid);
	pfree(handles);
}

/* The id in a row; false if it is NULL. */
static bool
take_id(const Lookup *lookup, HeapTupleHeader row, Datum *id)
{
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};
	bool		is_null;

	if (HeapTupleHeaderGetTypeId(row) != RECORDOID ||
		HeapTupleHeaderGetTypMod(row) != lookup->row->tdtypmod)
		refuse();
	*id = heap_getattr(&tuple, 1, lookup->row, &is_null);
	return !is_null;
}

/* Looks for an id; false if it is not there. */
static bool
look_up(FunctionCallInfo fcinfo, bool take, GkSharedLabel *label)
{
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(ROW);
	Lookup	   *lookup = fcinfo->flinfo->fn_extra;
	Datum		id;

	if (lookup == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		lookup = palloc0(sizeof(Lookup));
		begin_lookup(fcinfo, row, lookup);
		fcinfo->flinfo->fn_extra = lookup;
		MemoryContextSwitchTo(before);
	}
	return lookup->view != NULL && take_id(lookup, row, &id) &&
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
