/*
 * Decoding: from a Datum of a feature column to numbers.
 */
#ifndef GK_DECODE_H
#define GK_DECODE_H

#include "postgres.h"

/* How one number is stored. */
typedef enum GkElement
{
	GK_INT2,
	GK_INT4,
	GK_INT8,
	GK_FLOAT4,
	GK_FLOAT8,
	GK_NUMERIC,
	GK_HALF,
	GK_BOOL
} GkElement;

#define GK_ELEMENTS (GK_BOOL + 1)

typedef enum GkShape
{
	GK_SCALAR,
	GK_ARRAY,
	GK_VECTOR					/* pgvector: vector and halfvec */
} GkShape;

/* How to decode a column. */
typedef struct GkColumn
{
	GkShape		shape;
	GkElement	element;
	Oid			element_type;	/* of the array's elements, as arrays store it */
	int16		length;			/* typlen, typbyval, typalign of the element */
	bool		by_value;
	char		align;
} GkColumn;

/* The result of decoding a value. */
typedef enum GkDecoded
{
	GK_DECODED,
	GK_DECODED_NULL,			/* a NULL element */
	GK_DECODED_INFINITE			/* NaN, infinite, or too large for float32 */
} GkDecoded;

/* The elements of an array or a vector. */
typedef struct GkElements
{
	int			dimensions;		/* of the array; must be 1 */
	int64		count;
	bool		has_nulls;
	const char *data;			/* NULL if it was too large to fetch; not aligned */
	Size		bytes;			/* of the data */
} GkElements;

/*
 * Moves an offset in some bytes, which are aligned, past the next value there; false if it is not
 * whole within them, or stored elsewhere.  The length and alignment are typlen and typalign.
 */
extern bool gk_pass_value(const char *data, Size bytes, Size *offset, int16 length, char align);

/* Finds out how to decode a type; false if it does not hold numbers. */
extern bool gk_describe_column(Oid type, GkColumn *column);

/* True if float32 and so the engine hold every value of the type exactly. */
extern bool gk_is_exact(const GkColumn *column);

/* True if all values of the type are integers. */
extern bool gk_is_integer(const GkColumn *column);

/*
 * Opens an array or a vector; detoasts into the current memory context.
 * The data may be missing unless the array has one dimension and `expected` elements (0: up to
 * GK_MAX_DIMENSION).
 */
extern void gk_open_elements(const GkColumn *column, Datum value, int expected,
							 GkElements *elements);

/* Decodes all elements. */
extern GkDecoded gk_decode_floats(const GkColumn *column, const GkElements *elements, float *out);
extern GkDecoded gk_decode_doubles(const GkColumn *column, const GkElements *elements, double *out);

/* Decodes a scalar; NaN and infinities are returned as they are. */
extern double gk_decode_scalar(GkElement element, Datum value);

#endif							/* GK_DECODE_H */
