/*
 * The state of a scoring function: a model, and how arguments become the numbers that are
 * compared with its centroids.  Each step is the same as in a fit.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "parser/parse_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/expandedrecord.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "alloc.h"
#include "model_cache.h"
#include "nearest.h"
#include "scorer.h"
#include "source_changes.h"

/* The most features in a HINT. */
#define MOST_LISTED 50

/* The name of a feature; that of an array is a column's, of which PostgreSQL keeps no more. */
char *
gk_feature_name(const GkModel *model, int feature)
{
	const char *array = model->array_column;
	int			length;

	if (model->features != NULL)
		return pstrdup(model->features[feature]);
	length = (int) strnlen(array, NAMEDATALEN);
	if (length == NAMEDATALEN)
		length = pg_mbcliplen(array, length, NAMEDATALEN - 1);
	return psprintf("%.*s[%d]", length, array, feature + 1);
}

/* The id of the cluster at a position. */
int
gk_cluster_id(const GkModel *model, int place)
{
	return model->cluster_ids != NULL ? model->cluster_ids[place] : place;
}

/* The name of the cluster at a position. */
char *
gk_cluster_name(const GkModel *model, int place)
{
	return model->names != NULL && model->names[place] != NULL ?
		pstrdup(model->names[place]) : psprintf("cluster %d", gk_cluster_id(model, place));
}

/* A name as SQL needs it; the beginning of one that no column can have. */
static const char *
quoted_name(const char *name)
{
	int			length = (int) strlen(name);

	if (length < NAMEDATALEN)
		return quote_identifier(name);
	return psprintf("%s...",
					quote_identifier(pnstrdup(name, pg_mbcliplen(name, length, NAMEDATALEN - 1))));
}

/* The columns that a row needs, for a HINT. */
static char *
list_features(const GkModel *model)
{
	StringInfoData list;

	if (model->array_column != NULL)
		return psprintf("The feature of the model is the array %s.",
						quoted_name(model->array_column));
	initStringInfo(&list);
	appendStringInfoString(&list, "The features of the model are: ");
	for (int j = 0; j < model->dimension && j < MOST_LISTED; j++)
		appendStringInfo(&list, "%s%s", j > 0 ? ", " : "", quoted_name(model->features[j]));
	appendStringInfoString(&list, model->dimension > MOST_LISTED ? ", ..." : ".");
	return list.data;
}

/* Reports a wrong number of features. */
static void
refuse_count(const GkModel *model, int64 count)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg(count == 1 ? "%lld feature given, the model has %d"
					: "%lld features given, the model has %d",
					(long long) count, model->dimension),
			 errhint("%s", list_features(model))));
}

/* Reports a type that cannot be a feature. */
static void
refuse_type(const char *what, Oid type)
{
	char		category;
	bool		preferred;

	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the type of %s was dropped meanwhile", what)));
	get_type_category_preferred(type, &category, &preferred);
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("%s is of type %s, which cannot be a feature", what, format_type_be(type)),
			 category == TYPCATEGORY_STRING ?
			 errhint("Cast it to float8[] if it holds all features, or to float8 if it holds "
					 "one.") :
			 type == UNKNOWNOID ? errhint("Write a number without quotes, or cast it to float8.") :
			 errhint("Pass a row, the features as numbers, or an array or vector of them.")));
}

/* Raises an error about a column that has all features where the model has one, or one for all. */
static void
refuse_shape(const GkModel *model, const char *name, Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" is of type %s, which does not fit the model", name,
					format_type_be(type)),
			 model->array_column != NULL ? errdetail("There, the model has an array of features.")
			 : errdetail("There, the model has one feature."),
			 errhint("If that is so from now on, gkmeans_create_model with if_exists => 'replace' "
					 "makes a version for it.")));
}

/* True if an argument is the constant NULL without a type. */
static bool
is_bare_null(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) &&
		get_fn_expr_argtype(fcinfo->flinfo, argument) == UNKNOWNOID &&
		get_fn_expr_arg_stable(fcinfo->flinfo, argument);
}

/* Finds out how to decode arguments that are one feature each. */
static void
describe_numbers(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	int			count = PG_NARGS() - scorer->first;

	scorer->form = GK_FORM_COLUMNS;
	scorer->columns = palloc(count * sizeof(GkColumn));
	for (int i = 0; i < count; i++)
	{
		int			argument = scorer->first + i;
		Oid			type = is_bare_null(fcinfo, argument) ? FLOAT8OID
			: get_fn_expr_argtype(fcinfo->flinfo, argument);

		if (!gk_describe_column(type, &scorer->columns[i]) ||
			scorer->columns[i].shape != GK_SCALAR)
			refuse_type(psprintf("argument %d", argument + 1), type);
	}
	if (count != scorer->model->dimension)
		refuse_count(scorer->model, count);
}

/* Finds out in which form the features are passed. */
static void
describe_arguments(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, scorer->first);
	GkColumn	column;

	/* the protocol's function call has no expression */
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the types of the features are not known"),
				 errhint("Call the function in a query.")));
	if (PG_NARGS() - scorer->first != 1)
		describe_numbers(scorer, fcinfo);
	else if (type == UNKNOWNOID)
		scorer->form = GK_FORM_LITERAL;
	else if (gk_describe_column(type, &column) && column.shape != GK_SCALAR)
		scorer->form = GK_FORM_ARRAY;
	else if (type_is_rowtype(type))
		scorer->form = GK_FORM_ROW;
	else
		describe_numbers(scorer, fcinfo);
	if (scorer->form == GK_FORM_LITERAL)
		(void) gk_describe_column(FLOAT8ARRAYOID, &column);
	if (scorer->form == GK_FORM_ARRAY || scorer->form == GK_FORM_LITERAL)
	{
		scorer->columns = palloc(sizeof(GkColumn));
		*scorer->columns = column;
	}
}

/* Creates an empty scorer, which the function keeps. */
GkScorer *
gk_new_scorer(FunctionCallInfo fcinfo)
{
	MemoryContext parent = fcinfo->flinfo->fn_mcxt;
	GkScorer   *scorer = MemoryContextAllocZero(parent, sizeof(GkScorer));

	scorer->context = AllocSetContextCreate(parent, "gkmeans scorer", ALLOCSET_SMALL_SIZES);
	return scorer;
}

/* Chooses the vectors that a test asks for, or the widest. */
static void
choose_vectors(void)
{
	static char **const *vectors = NULL;

	if (vectors == NULL)
		vectors = (char **const *) find_rendezvous_variable(GK_VECTORS);
	if (*vectors != NULL && !gk_nearest_use(**vectors))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this processor has no vectors \"%s\"", **vectors)));
}

/* Prepares a scorer for a model and the types of the arguments, in scorer->context. */
void
gk_prepare_scorer(GkScorer *scorer, const GkModel *model, FunctionCallInfo fcinfo, int first)
{
	MemoryContext before = MemoryContextSwitchTo(scorer->context);
	int			d = model->dimension;

	scorer->model = model;
	scorer->first = first;
	describe_arguments(scorer, fcinfo);
	memset(&scorer->fields, 0, sizeof(scorer->fields));
	scorer->values = gk_allocate(d, sizeof(double));
	scorer->stored = gk_allocate(d, sizeof(float));
	scorer->row = gk_allocate(d, sizeof(double));
	scorer->scratch = model->sieve == NULL ? NULL
		: gk_allocate(gk_sieve_scratch(d, model->k), sizeof(float));
	scorer->distances2 = NULL;
	choose_vectors();
	MemoryContextSwitchTo(before);
}

/* The scorer of a call: that of the previous call if it would read the same model. */
GkScorer *
gk_version_scorer(FunctionCallInfo fcinfo, int version, int first)
{
	GkScorer   *scorer = fcinfo->flinfo->fn_extra;
	Oid			relation_id = PG_GETARG_OID(0);
	MemoryContext before;

	if (scorer != NULL && scorer->model->relation == relation_id &&
		scorer->version == version && gk_is_same_moment(scorer->moment))
		return scorer;
	fcinfo->flinfo->fn_extra = NULL;
	if (scorer == NULL)
		scorer = gk_new_scorer(fcinfo);
	else
		MemoryContextReset(scorer->context);
	before = MemoryContextSwitchTo(scorer->context);
	scorer->moment = gk_note_moment();
	MemoryContextSwitchTo(before);
	gk_prepare_scorer(scorer, gk_read_model(relation_id, version, scorer->context), fcinfo, first);
	scorer->version = version;
	fcinfo->flinfo->fn_extra = scorer;
	return scorer;
}

/* The same with the deployed version. */
GkScorer *
gk_scorer(FunctionCallInfo fcinfo, int first)
{
	return gk_version_scorer(fcinfo, 0, first);
}

/* Stores a feature as a fit does; false if it cannot be compared. */
static inline bool
store_feature(GkScorer *scorer, int feature, double value)
{
	const double *shift = scorer->model->shift;

	if (!isfinite((float) value))
		return false;
	scorer->stored[feature] = shift == NULL ? (float) value + 0.0f
		: (float) (value + 0.0 - shift[feature]) + 0.0f;
	return true;
}

/* Takes features that are arguments of their own. */
static bool
take_columns(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	for (int j = 0; j < scorer->model->dimension; j++)
	{
		const NullableDatum *argument = &fcinfo->args[scorer->first + j];

		if (argument->isnull ||
			!store_feature(scorer, j, gk_decode_scalar(scorer->columns[j].element,
													   argument->value)))
			return false;
	}
	return true;
}

/* Takes features that are the elements of an array or a vector. */
static bool
take_array(GkScorer *scorer, Datum array)
{
	const GkModel *model = scorer->model;
	const GkColumn *column = scorer->columns;
	GkElements	elements;
	bool		usable = true;

	gk_open_elements(column, array, model->dimension, &elements);
	if (elements.dimensions > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("array of features must have one dimension"),
				 errdetail("It has %d dimensions.", elements.dimensions)));
	if (elements.count != model->dimension)
		refuse_count(model, elements.count);
	if (elements.data == NULL)
		elog(ERROR, "array of features has no data");
	if (model->shift == NULL)
		return gk_decode_floats(column, &elements, scorer->stored) == GK_DECODED;
	if (gk_decode_doubles(column, &elements, scorer->values) != GK_DECODED)
		return false;
	for (int j = 0; usable && j < model->dimension; j++)
		usable = store_feature(scorer, j, scorer->values[j]);
	return usable;
}

/* Takes a literal: an array of double precision. */
static bool
take_literal(GkScorer *scorer, const char *literal)
{
	Datum		array = OidInputFunctionCall(F_ARRAY_IN, pstrdup(literal), FLOAT8OID, -1);

	return take_array(scorer, array);
}

/* True if the fields of a record are the features, in their order. */
static bool
are_features(const GkModel *model, TupleDesc descriptor)
{
	bool		are = model->features != NULL && descriptor->natts == model->dimension;

	for (int i = 0; are && i < descriptor->natts; i++)
		are = strcmp(NameStr(TupleDescAttr(descriptor, i)->attname), model->features[i]) == 0;
	return are;
}

/* Refuses a record that has lost the names of its fields; features may be called f1, f2, …, too. */
static void
refuse_nameless(const GkModel *model, TupleDesc descriptor)
{
	if (are_features(model, descriptor))
		return;
	for (int i = 0; i < descriptor->natts; i++)
	{
		char		name[NAMEDATALEN];

		snprintf(name, sizeof(name), "f%d", i + 1);
		if (strcmp(NameStr(TupleDescAttr(descriptor, i)->attname), name) != 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the row has no column names"),
			 errhint("Pass the alias of a table or subquery instead of ROW(...).")));
}

/* The number of the field with this name. */
static int
find_field(const GkModel *model, TupleDesc descriptor, const char *name)
{
	int			found = 0;

	for (int i = 1; i <= descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i - 1);

		if (attribute->attisdropped || strcmp(NameStr(attribute->attname), name) != 0)
			continue;
		if (found > 0)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("the row has more than one column \"%s\"", name)));
		found = i;
	}
	if (found == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("the row has no column \"%s\"", name),
				 errhint("%s", list_features(model))));
	return found;
}

/* How many fields are needed. */
static int
count_fields(const GkModel *model)
{
	return model->array_column != NULL ? 1 : model->dimension;
}

/* Finds the features in a row type. */
static void
describe_fields(GkScorer *scorer, TupleDesc descriptor)
{
	const GkModel *model = scorer->model;
	GkFields   *fields = &scorer->fields;
	int			count = count_fields(model);

	scorer->columns = gk_allocate(count, sizeof(GkColumn));
	fields->numbers = gk_allocate(count, sizeof(int));
	for (int j = 0; j < count; j++)
	{
		const char *name = model->array_column != NULL ? model->array_column : model->features[j];
		int			number = find_field(model, descriptor, name);
		Oid			type = TupleDescAttr(descriptor, number - 1)->atttypid;

		if (!gk_describe_column(type, &scorer->columns[j]))
			refuse_type(psprintf("column \"%s\"", name), type);
		if ((scorer->columns[j].shape != GK_SCALAR) != (model->array_column != NULL))
			refuse_shape(model, name, type);
		fields->numbers[j] = number;
	}
	fields->values = gk_allocate(descriptor->natts, sizeof(Datum));
	fields->nulls = gk_allocate(descriptor->natts, sizeof(bool));
}

/* A context for the fields of a row type, instead of those of the one before. */
static MemoryContext
fields_context(GkScorer *scorer)
{
	GkFields   *fields = &scorer->fields;

	fields->descriptor = NULL;
	if (fields->context == NULL)
		fields->context = AllocSetContextCreate(scorer->context, "gkmeans fields",
												ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(fields->context);
	return fields->context;
}

/* The record that a row of a type with a name is the handle of; NULL = none. */
static ExpandedRecordHeader *
record_of(Datum row)
{
	ExpandedRecordHeader *record;

	if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(row)))
		return NULL;
	record = (ExpandedRecordHeader *) DatumGetEOHP(row);
	Assert(record->er_magic == ER_MAGIC);
	return record->er_typeid != RECORDOID ? record : NULL;
}

/* True if the columns of a row are those that were described. */
static bool
is_described(const GkFields *fields, HeapTupleHeader row, const ExpandedRecordHeader *record)
{
	if (fields->descriptor == NULL || fields->type != HeapTupleHeaderGetTypeId(row) ||
		fields->typmod != HeapTupleHeaderGetTypMod(row))
		return false;
	if (record != NULL)
		return fields->cached == NULL && fields->identifier == record->er_tupdesc_id;
	return fields->type == RECORDOID ||
		(fields->cached != NULL && fields->cached->tupDesc_identifier == fields->identifier);
}

/* Describes rows without a type that has a name. */
static TupleDesc
describe_nameless(GkScorer *scorer)
{
	TupleDesc	descriptor = lookup_rowtype_tupdesc_copy(RECORDOID, scorer->fields.typmod);

	refuse_nameless(scorer->model, descriptor);
	describe_fields(scorer, descriptor);
	return descriptor;
}

/* Describes rows by the record that knows what it was made by. */
static TupleDesc
describe_record(GkScorer *scorer, const ExpandedRecordHeader *record)
{
	scorer->fields.identifier = record->er_tupdesc_id;
	describe_fields(scorer, record->er_tupdesc);
	return CreateTupleDescCopyConstr(record->er_tupdesc);
}

/* Reports rows that were made before their type was altered. */
static void
refuse_altered(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("type %s was altered while its rows were being scored", format_type_be(type)),
			 errhint("Try again.")));
}

/*
 * True if rows that the statement made can be read by what their type is now; they may be older
 * than the call, as those of a sort.  A table that is open elsewhere is mostly being scanned, and
 * so not altered, or being altered, and its new rows checked or indexed.
 *
 * Rows can still be older than the type: those of a function while something else has the table
 * open, and those that are older than the snapshot, as arguments of volatile SQL functions, and
 * arrays and fields of records in PL/pgSQL.  The server refuses them if they have a version.  Of
 * others, bytes may be taken for other values, but only those within the row are read.
 */
static bool
is_readable(const GkScorer *scorer, Relation type, TupleDesc columns)
{
	return (type->rd_rel->relkind != RELKIND_COMPOSITE_TYPE && type->rd_refcnt > 1) ||
		gk_sees_columns(RelationGetRelid(type), columns, scorer->fields.numbers,
						count_fields(scorer->model), gk_active_snapshot());
}

/* Describes rows by what their type is now; whoever else alters it waits for the transaction. */
static TupleDesc
describe_named(GkScorer *scorer)
{
	GkFields   *fields = &scorer->fields;
	TypeCacheEntry *cached = lookup_type_cache(fields->type, TYPECACHE_TUPDESC);
	Relation	relation = try_relation_open(cached->typrelid, AccessShareLock);
	TupleDesc	descriptor;

	if (relation == NULL)
		refuse_type("the row", fields->type);
	descriptor = lookup_rowtype_tupdesc_copy(fields->type, fields->typmod);
	fields->identifier = cached->tupDesc_identifier;
	describe_fields(scorer, descriptor);
	if (!is_readable(scorer, relation, descriptor))
		refuse_altered(fields->type);
	fields->cached = cached;
	relation_close(relation, NoLock);
	return descriptor;
}

/* Describes the columns of a row, unless they are the same as in the previous call. */
static void
learn_fields(GkScorer *scorer, HeapTupleHeader row, const ExpandedRecordHeader *record)
{
	GkFields   *fields = &scorer->fields;
	MemoryContext before;

	if (is_described(fields, row, record))
		return;
	before = MemoryContextSwitchTo(fields_context(scorer));
	fields->type = HeapTupleHeaderGetTypeId(row);
	fields->typmod = HeapTupleHeaderGetTypMod(row);
	fields->cached = NULL;
	fields->descriptor = record != NULL ? describe_record(scorer, record)
		: fields->type == RECORDOID ? describe_nameless(scorer) : describe_named(scorer);
	MemoryContextSwitchTo(before);
}

/* True if the server compares the columns that a row was made by with those that it is read by. */
static inline bool
has_version(HeapTupleHeader row)
{
	/* 15.20 and 17.12 do, 18.6 does not */
#ifdef VersionedDatumOffsetNumber
	return HeapTupleHeaderIsVersionedDatum(row);
#else
	return false;
#endif
}

/* True if the fields lie within a row that may be older than its type: values hold no pointers. */
static bool
is_within(HeapTupleHeader row, TupleDesc descriptor)
{
	const char *data = (const char *) row + row->t_hoff;
	Size		bytes = HeapTupleHeaderGetDatumLength(row) - row->t_hoff;
	int			count = Min(HeapTupleHeaderGetNatts(row), descriptor->natts);
	bool		has_nulls = (row->t_infomask & HEAP_HASNULL) != 0;
	Size		offset = 0;
	bool		within = true;

	for (int i = 0; within && i < count; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		within = (has_nulls && att_isnull(i, row->t_bits)) ||
			gk_pass_value(data, bytes, &offset, attribute->attlen, attribute->attalign);
	}
	return within;
}

/* Takes features that are columns of a row, or the elements of its array. */
static bool
take_row(GkScorer *scorer, Datum datum)
{
	const ExpandedRecordHeader *record = record_of(datum);
	HeapTupleHeader row = DatumGetHeapTupleHeader(datum);
	GkFields   *fields = &scorer->fields;
	HeapTupleData tuple = {0};

	learn_fields(scorer, row, record);
	if (fields->type != RECORDOID && !has_version(row) && !is_within(row, fields->descriptor))
		refuse_altered(fields->type);
	tuple.t_len = HeapTupleHeaderGetDatumLength(row);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_data = row;
	heap_deform_tuple(&tuple, fields->descriptor, fields->values, fields->nulls);
	if (scorer->model->array_column != NULL)
		return !fields->nulls[fields->numbers[0] - 1] &&
			take_array(scorer, fields->values[fields->numbers[0] - 1]);
	for (int j = 0; j < scorer->model->dimension; j++)
	{
		int			place = fields->numbers[j] - 1;

		if (fields->nulls[place] ||
			!store_feature(scorer, j, gk_decode_scalar(scorer->columns[j].element,
													   fields->values[place])))
			return false;
	}
	return true;
}

/* Scales and normalises as the engines do; false if the row has no direction, or overflows. */
static bool
compare_row(GkScorer *scorer)
{
	const GkModel *model = scorer->model;
	bool		finite = true;
	double		norm2 = 0.0;

	for (int j = 0; j < model->dimension; j++)
	{
		float		x = scorer->stored[j];

		if (model->factor != NULL)
			x = (float) (((double) x - model->offset[j]) * model->factor[j]) + 0.0f;
		finite &= isfinite(x) != 0;
		norm2 += (double) x * (double) x;
		scorer->row[j] = x;
	}
	if (!finite || model->metric == GK_EUCLIDEAN)
		return finite;
	if (!(norm2 > 0.0))
		return model->factor != NULL;
	norm2 = sqrt(norm2);
	for (int j = 0; j < model->dimension; j++)
		scorer->row[j] = (float) (scorer->row[j] / norm2) + 0.0f;
	return true;
}

/* Puts the features of a call into ->row. */
bool
gk_take_features(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	Datum		first = fcinfo->args[scorer->first].value;
	bool		usable = false;

	if (fcinfo->args[scorer->first].isnull)
		return false;
	switch (scorer->form)
	{
		case GK_FORM_COLUMNS:
			usable = take_columns(scorer, fcinfo);
			break;
		case GK_FORM_ARRAY:
			usable = take_array(scorer, first);
			break;
		case GK_FORM_LITERAL:
			usable = take_literal(scorer, DatumGetCString(first));
			break;
		case GK_FORM_ROW:
			usable = take_row(scorer, first);
			break;
	}
	return usable && compare_row(scorer);
}

/* The position of the cluster that is number `i` in the order of ties. */
int
gk_cluster_at(const GkModel *model, int i)
{
	return model->ties != NULL ? model->ties[i] : i;
}

/* The position of the nearest cluster, and its d². */
int
gk_nearest_cluster(const GkScorer *scorer, double *distance2)
{
	const GkModel *model = scorer->model;
	int			d = model->dimension;
	int64		place = model->sieve == NULL
		? gk_nearest(model->packed, scorer->row, d, model->k, distance2)
		: gk_nearest_sieved(model->sieve, scorer->scratch, model->packed, scorer->row, d, model->k,
							distance2);

	return gk_cluster_at(model, (int) place);
}

/* d² to all centroids. */
void
gk_all_distances2(GkScorer *scorer)
{
	const GkModel *model = scorer->model;
	MemoryContext before = MemoryContextSwitchTo(scorer->context);

	if (scorer->distances2 == NULL)
		scorer->distances2 = gk_allocate(GK_GROUPS((int64) model->k) * GK_GROUP, sizeof(double));
	MemoryContextSwitchTo(before);

	gk_distances2(model->packed, scorer->row, model->dimension, model->k, scorer->distances2);
}

/* A coordinate as compared, in the units of the feature. */
double
gk_in_units(const GkModel *model, int feature, double value)
{
	if (model->metric == GK_COSINE)
		return value;
	if (model->factor != NULL)
		value = model->factor[feature] > 0.0 ? value / model->factor[feature] : 0.0;
	return value + ((model->offset != NULL ? model->offset[feature] : 0.0) +
					(model->shift != NULL ? model->shift[feature] : 0.0));
}
