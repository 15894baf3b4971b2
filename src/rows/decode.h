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

typedef enum GkShape
{
	GK_SCALAR,
	GK_ARRAY,
	GK_VECTOR					/* pgvector: vector and halfvec */
} GkShape;

/* What is to be known of a column to decode it. */
typedef struct GkColumn
{
	GkShape		shape;
	GkElement	element;
	Oid			element_type;	/* of the array's elements, as arrays store it */
	int16		length;			/* typlen, typbyval, typalign of the element */
	bool		by_value;
	char		align;
} GkColumn;

/* What a value turned out to be. */
typedef enum GkDecoded
{
	GK_DECODED,
	GK_DECODED_NULL,			/* a NULL element */
	GK_DECODED_INFINITE			/* NaN, infinite, or too large for float32 */
} GkDecoded;

/* The elements of an array or a vector. */
typedef struct GkElements
{
	int			dimensions;		/* of the array: 1 is what we want */
	int64		count;
	bool		has_nulls;
	const char *data;			/* NULL if it was too large to be brought in; not aligned */
} GkElements;

/* Finds out how to decode a type; false if it is none that holds numbers. */
extern bool gk_describe_column(Oid type, GkColumn *column);

/* Whether float32 and so the engine hold every value of the type exactly. */
extern bool gk_is_exact(const GkColumn *column);

/* Whether all values of the type are integers. */
extern bool gk_is_integer(const GkColumn *column);

/*
 * Opens an array or a vector; what it detoasts is in the current memory context.
 * An array of other than one dimension and `expected` (0: up to GK_MAX_DIMENSION)
 * elements may come back without its data.
 */
extern void gk_open_elements(const GkColumn *column, Datum value, int expected,
							 GkElements *elements);

/* Decodes all elements. */
extern GkDecoded gk_decode_floats(const GkColumn *column, const GkElements *elements, float *out);
extern GkDecoded gk_decode_doubles(const GkColumn *column, const GkElements *elements, double *out);

/* Decodes a scalar; NaN and infinities come through. */
extern double gk_decode_scalar(GkElement element, Datum value);

#endif							/* GK_DECODE_H */
