/*
 * Decoding: from a Datum of a feature column to numbers.
 *
 * The elements of an array are read in place, aligned or not, so that an array with a short
 * header needs no copy.  The loop that converts them also checks for NaN and infinities.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "catalog/dependency.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "decode.h"
#include "engine.h"
#include "numeric_value.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Bytes between the length word and the elements of a one-dimensional array without NULLs. */
#define ARRAY_HEADER (ARR_OVERHEAD_NONULLS(1) - VARHDRSZ)
/* Bytes before the bitmap of NULLs. */
#define BITMAP_OFFSET (sizeof(ArrayType) + 2 * sizeof(int32) - VARHDRSZ)
/* The part of the header that every array has. */
#define ARRAY_START (sizeof(ArrayType) - VARHDRSZ)
/* The header of pgvector's types: int16 dimension, int16 unused. */
#define VECTOR_HEADER 4

/* Finds the element of one of pgvector's types; false for another type. */
static bool
describe_vector(Oid type, GkColumn *column)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool		is_half = false;
	bool		is_vector = false;
	Oid			extension;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_type form = (Form_pg_type) GETSTRUCT(tuple);
		const char *name = NameStr(form->typname);

		is_half = strcmp(name, "halfvec") == 0;
		is_vector = is_half || strcmp(name, "vector") == 0;
		/* another extension of that name may have types of these names */
		is_vector = is_vector && form->typtype == TYPTYPE_BASE && form->typlen == -1 &&
			!form->typbyval;
		ReleaseSysCache(tuple);
	}
	if (!is_vector)
		return false;
	extension = get_extension_oid("vector", true);
	if (!OidIsValid(extension) || getExtensionOfObject(TypeRelationId, type) != extension)
		return false;
	column->shape = GK_VECTOR;
	column->element = is_half ? GK_HALF : GK_FLOAT4;
	return true;
}

/* Finds the element of a plain numeric type or of boolean. */
static bool
describe_number(Oid type, GkElement *element)
{
	switch (type)
	{
		case INT2OID:
			*element = GK_INT2;
			return true;
		case INT4OID:
			*element = GK_INT4;
			return true;
		case INT8OID:
			*element = GK_INT8;
			return true;
		case FLOAT4OID:
			*element = GK_FLOAT4;
			return true;
		case FLOAT8OID:
			*element = GK_FLOAT8;
			return true;
		case NUMERICOID:
			*element = GK_NUMERIC;
			return true;
		case BOOLOID:
			*element = GK_BOOL;
			return true;
		default:
			return false;
	}
}

/* Looks up how to decode a type; false if it does not hold numbers. */
static bool
look_up_column(Oid type, GkColumn *column)
{
	Oid			base;

	/* a query that runs may outlive a type in it */
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		return false;
	base = getBaseType(type);
	memset(column, 0, sizeof(GkColumn));
	column->shape = GK_SCALAR;
	if (describe_number(base, &column->element))
		return true;
	column->element_type = get_element_type(base);
	if (!OidIsValid(column->element_type))
		return describe_vector(base, column);
	column->shape = GK_ARRAY;
	get_typlenbyvalalign(column->element_type, &column->length, &column->by_value, &column->align);
	return describe_number(getBaseType(column->element_type), &column->element);
}

/* Finds out how to decode a type; false if it does not hold numbers. */
bool
gk_describe_column(Oid type, GkColumn *column)
{
	static Oid	last_type = InvalidOid;
	static GkColumn last_column;

	if (type != last_type || !OidIsValid(type))
	{
		if (!look_up_column(type, column))
			return false;
		/* only these types never change */
		if (type >= FirstGenbkiObjectId)
			return true;
		last_type = type;
		last_column = *column;
	}
	*column = last_column;
	return true;
}

/* True if float32 holds every value of the type exactly. */
bool
gk_is_exact(const GkColumn *column)
{
	return column->element == GK_FLOAT4 || column->element == GK_INT2 ||
		column->element == GK_HALF || column->element == GK_BOOL;
}

/* True if all values of the type are integers. */
bool
gk_is_integer(const GkColumn *column)
{
	return column->element == GK_INT2 || column->element == GK_INT4 || column->element == GK_INT8;
}

/* The size of a value of variable length of which some bytes are there; 0 if it is not in place. */
static inline Size
varlena_size(const char *place, Size bytes, bool is_aligned)
{
	Size		size;

	if (VARATT_IS_1B(place))
		return VARATT_IS_1B_E(place) ? 0 : VARSIZE_1B(place);
	if (!is_aligned || bytes < VARHDRSZ)
		return 0;
	size = VARSIZE_4B(place);
	return size < (VARATT_IS_4B_C(place) ? VARHDRSZ_COMPRESSED : VARHDRSZ) ? 0 : size;
}

/* Moves an offset past the next value; false if it is not whole within some bytes. */
bool
gk_pass_value(const char *data, Size bytes, Size *offset, int16 length, char align)
{
	Size		start = att_align_nominal(*offset, align);
	Size		size = length;

	if (length == -1 && *offset < bytes && VARATT_NOT_PAD_BYTE(data + *offset))
	{
		/* only short headers are not aligned */
		size = varlena_size(data + *offset, bytes - *offset, start == *offset);
		start = *offset;
	}
	else if (start >= bytes)
		return false;
	else if (length == -1)
		size = varlena_size(data + start, bytes - start, true);
	else if (length < 0)
		size = strnlen(data + start, bytes - start) + 1;
	*offset = start + size;
	return size > 0 && *offset <= bytes;
}

/* An int at an address that need not be aligned. */
static inline int32
read_int32(const char *place)
{
	int32		value;

	memcpy(&value, place, sizeof(value));
	return value;
}

/* Reads the header of a vector, of which `bytes` bytes after the length word are available. */
static void
read_vector_header(const GkColumn *column, const char *payload, Size bytes, bool whole,
				   GkElements *elements)
{
	Size		width = column->element == GK_HALF ? 2 : 4;
	int16		count = 0;

	if (bytes >= VECTOR_HEADER)
		memcpy(&count, payload, sizeof(count));
	if (count <= 0 || (whole && bytes < VECTOR_HEADER + count * width))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("vector of %d dimensions has %zu bytes", count, bytes)));
	elements->dimensions = 1;
	elements->count = count;
	elements->has_nulls = false;
	elements->data = whole ? payload + VECTOR_HEADER : NULL;
	elements->bytes = bytes - VECTOR_HEADER;
}

/* True if the bitmap of an array has a NULL. */
static bool
bitmap_has_null(const char *bitmap, int64 count)
{
	for (int64 i = 0; i < count; i++)
		if ((bitmap[i / 8] & (1 << (i % 8))) == 0)
			return true;
	return false;
}

/* Finds the elements of an array of one dimension; false if they are not whole. */
static bool
find_elements(const GkColumn *column, const char *payload, Size bytes, GkElements *elements)
{
	int32		offset = read_int32(payload + 4);
	Size		start = offset == 0 ? ARRAY_HEADER : offset - VARHDRSZ;
	Size		bitmap = offset == 0 ? 0 : (elements->count + 7) / 8;

	if (elements->count < 0 || start > bytes || start < BITMAP_OFFSET + bitmap)
		return false;
	elements->data = payload + start;
	elements->bytes = bytes - start;
	elements->has_nulls = offset != 0 &&
		bitmap_has_null(payload + BITMAP_OFFSET, elements->count);
	return elements->has_nulls || column->length < 0 ||
		(Size) elements->count * column->length <= elements->bytes;
}

/*
 * Reads the header of an array of which the first `bytes` bytes are available; finds its elements
 * only if that is all.
 */
static void
read_array_header(const GkColumn *column, const char *payload, Size bytes, bool whole,
				  GkElements *elements)
{
	if ((Oid) read_int32(payload + 8) != column->element_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("array of features has elements of the wrong type")));
	elements->dimensions = read_int32(payload);
	if (elements->dimensions < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array has %d dimensions", elements->dimensions)));
	elements->count = elements->dimensions == 0 || bytes < ARRAY_HEADER ? 0
		: read_int32(payload + ARRAY_START);
	elements->has_nulls = false;
	elements->data = NULL;
	if (elements->dimensions == 1 && whole && !find_elements(column, payload, bytes, elements))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of %lld elements has %zu bytes", (long long) elements->count,
						bytes)));
}

/* Reads the header of an array or a vector of which the first `bytes` bytes are available. */
static void
read_header(const GkColumn *column, const char *payload, Size bytes, bool whole,
			GkElements *elements)
{
	if (column->shape == GK_VECTOR)
		read_vector_header(column, payload, bytes, whole, elements);
	else if (bytes >= ARRAY_START + 2 * sizeof(int32) || (whole && bytes >= ARRAY_START))
		read_array_header(column, payload, bytes, whole, elements);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED), errmsg("array is too short")));
}

/* Opens an array or a vector that is compressed or stored out of line. */
static void
open_toasted(const GkColumn *column, Datum value, int expected, GkElements *elements)
{
	int64		limit = expected > 0 ? expected : GK_MAX_DIMENSION;
	int64		width = column->length > 0 ? column->length : 16;
	int64		bytes = toast_raw_datum_size(value);
	struct varlena *whole;

	/* the header tells whether to fetch the rest of a large one */
	if (bytes > VARHDRSZ + ARRAY_HEADER + limit * width + limit / 8 + MAXIMUM_ALIGNOF)
	{
		struct varlena *head = PG_DETOAST_DATUM_SLICE(value, 0, ARRAY_HEADER);

		read_header(column, VARDATA_ANY(head), VARSIZE_ANY_EXHDR(head), false, elements);
		if (elements->dimensions != 1 || elements->count > limit ||
			(expected > 0 && elements->count != expected))
			return;
	}
	whole = PG_DETOAST_DATUM(value);
	read_header(column, VARDATA_ANY(whole), VARSIZE_ANY_EXHDR(whole), true, elements);
}

/* Opens an array or a vector. */
void
gk_open_elements(const GkColumn *column, Datum value, int expected, GkElements *elements)
{
	struct varlena *array = (struct varlena *) DatumGetPointer(value);

	/* elements with their own headers have to be aligned */
	if (VARATT_IS_EXTERNAL(array) || VARATT_IS_COMPRESSED(array) ||
		(column->length < 0 && VARATT_IS_SHORT(array)))
		open_toasted(column, value, expected, elements);
	else
		read_header(column, VARDATA_ANY(array), VARSIZE_ANY_EXHDR(array), true, elements);
}

/* The top bit is set if the float of these bits is NaN or infinite. */
static inline uint32
not_finite(uint32 bits)
{
	return (bits & 0x7fffffff) + 0x00800000;
}

/* The bits of a float. */
static inline uint32
float_bits(float value)
{
	uint32		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/*
 * A number counts as infinite if it is so as float32; adding 0 turns -0 into 0.  Integers of 64
 * bits are rounded to double first, as where a shift is subtracted.
 */
#define DEFINE_CONVERSION_BY(name, in_type, by_type, out_type) \
static GkDecoded \
name(const char *in, int64 count, out_type *out) \
{ \
	uint32		check = 0; \
\
	for (int64 i = 0; i < count; i++) \
	{ \
		in_type		stored; \
		by_type		value; \
\
		memcpy(&stored, in + i * sizeof(stored), sizeof(stored)); \
		value = (by_type) stored; \
		check |= not_finite(float_bits((float) value)); \
		out[i] = (out_type) value + (out_type) 0; \
	} \
	return check >> 31 ? GK_DECODED_INFINITE : GK_DECODED; \
}

#define DEFINE_CONVERSION(name, in_type, out_type) \
	DEFINE_CONVERSION_BY(name, in_type, in_type, out_type)

DEFINE_CONVERSION(bool_to_float, uint8, float)
DEFINE_CONVERSION(int2_to_float, int16, float)
DEFINE_CONVERSION(int4_to_float, int32, float)
DEFINE_CONVERSION_BY(int8_to_float, int64, double, float)
DEFINE_CONVERSION(float4_to_float, float, float)
DEFINE_CONVERSION(float8_to_float, double, float)
DEFINE_CONVERSION(bool_to_double, uint8, double)
DEFINE_CONVERSION(int2_to_double, int16, double)
DEFINE_CONVERSION(float4_to_double, float, double)
DEFINE_CONVERSION(int4_to_double, int32, double)
DEFINE_CONVERSION(int8_to_double, int64, double)
DEFINE_CONVERSION(float8_to_double, double, double)

/* Half precision is exact in float32: moves the bits, and corrects the exponent by a product. */
static GkDecoded
half_to_float(const char *in, int64 count, float *out)
{
	uint32		check = 0;

	for (int64 i = 0; i < count; i++)
	{
		uint16		half;
		uint32		bits;
		float		value;

		memcpy(&half, in + i * sizeof(half), sizeof(half));
		bits = (uint32) (half & 0x7fff) << 13;
		memcpy(&value, &bits, sizeof(value));
		value *= 0x1p112f;
		check |= (half & 0x7c00) + 0x0400;
		out[i] = (half & 0x8000 ? -value : value) + 0.0f;
	}
	return check & 0x8000 ? GK_DECODED_INFINITE : GK_DECODED;
}

/* Elements of any length; numeric is the only such type. */
static GkDecoded
numeric_to_double(const GkColumn *column, const GkElements *elements, double *out)
{
	Size		offset = 0;

	for (int64 i = 0; i < elements->count; i++)
	{
		const char *place;

		offset = att_align_nominal(offset, column->align);
		place = elements->data + offset;
		if (!gk_pass_value(elements->data, elements->bytes, &offset, column->length,
						   column->align))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("array of %lld elements has too few bytes",
							(long long) elements->count)));
		out[i] = gk_decode_scalar(column->element, PointerGetDatum(place)) + 0.0;
		if (!isfinite((float) out[i]))
			return GK_DECODED_INFINITE;
	}
	return GK_DECODED;
}

/* The same for float32. */
static GkDecoded
numeric_to_float(const GkColumn *column, const GkElements *elements, float *out)
{
	double	   *values = palloc(elements->count * sizeof(double));
	GkDecoded	decoded = numeric_to_double(column, elements, values);

	if (decoded == GK_DECODED)
		decoded = float8_to_float((char *) values, elements->count, out);
	pfree(values);
	return decoded;
}

/* Decodes all elements as float32. */
GkDecoded
gk_decode_floats(const GkColumn *column, const GkElements *elements, float *out)
{
	if (elements->has_nulls)
		return GK_DECODED_NULL;
	switch (column->element)
	{
		case GK_BOOL:
			return bool_to_float(elements->data, elements->count, out);
		case GK_INT2:
			return int2_to_float(elements->data, elements->count, out);
		case GK_INT4:
			return int4_to_float(elements->data, elements->count, out);
		case GK_INT8:
			return int8_to_float(elements->data, elements->count, out);
		case GK_FLOAT4:
			return float4_to_float(elements->data, elements->count, out);
		case GK_FLOAT8:
			return float8_to_float(elements->data, elements->count, out);
		case GK_HALF:
			return half_to_float(elements->data, elements->count, out);
		case GK_NUMERIC:
			return numeric_to_float(column, elements, out);
	}
	elog(ERROR, "unknown element %d of an array", (int) column->element);
}

/* Half precision as double, by way of float32. */
static GkDecoded
half_to_double(const GkElements *elements, double *out)
{
	float	   *values = palloc(elements->count * sizeof(float));
	GkDecoded	decoded = half_to_float(elements->data, elements->count, values);

	for (int64 i = 0; i < elements->count; i++)
		out[i] = values[i];
	pfree(values);
	return decoded;
}

/* Decodes all elements as double. */
GkDecoded
gk_decode_doubles(const GkColumn *column, const GkElements *elements, double *out)
{
	if (elements->has_nulls)
		return GK_DECODED_NULL;
	switch (column->element)
	{
		case GK_BOOL:
			return bool_to_double(elements->data, elements->count, out);
		case GK_INT2:
			return int2_to_double(elements->data, elements->count, out);
		case GK_FLOAT4:
			return float4_to_double(elements->data, elements->count, out);
		case GK_HALF:
			return half_to_double(elements, out);
		case GK_INT4:
			return int4_to_double(elements->data, elements->count, out);
		case GK_INT8:
			return int8_to_double(elements->data, elements->count, out);
		case GK_FLOAT8:
			return float8_to_double(elements->data, elements->count, out);
		case GK_NUMERIC:
			return numeric_to_double(column, elements, out);
		default:
			elog(ERROR, "unknown element %d of an array", (int) column->element);
	}
}

/* Decodes a scalar; NaN and infinities are returned as they are. */
double
gk_decode_scalar(GkElement element, Datum value)
{
	switch (element)
	{
		case GK_BOOL:
			return DatumGetBool(value) ? 1.0 : 0.0;
		case GK_INT2:
			return DatumGetInt16(value);
		case GK_INT4:
			return DatumGetInt32(value);
		case GK_INT8:
			return (double) DatumGetInt64(value);
		case GK_FLOAT4:
			return DatumGetFloat4(value);
		case GK_FLOAT8:
			return DatumGetFloat8(value);
		case GK_NUMERIC:
			return gk_numeric_value(value);
		default:
			elog(ERROR, "unknown element %d of a column", (int) element);
	}
}
