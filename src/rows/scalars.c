/*
 * Columns that each hold one feature: from the arguments of a row to doubles.
 *
 * Columns of the same type are decoded by one loop, so that no value costs a branch.
 */
#include "postgres.h"

#include "fmgr.h"

#include "numeric_value.h"
#include "scalars.h"

/* Columns of the same type, and where they begin and end in the order. */
typedef struct Run
{
	GkElement	element;
	int			begin;
	int			end;
	bool		adjacent;		/* they lie side by side, in their order */
} Run;

struct GkScalars
{
	int			count;
	int			runs;
	Run			run[GK_ELEMENTS];
	int			order[FLEXIBLE_ARRAY_MEMBER];	/* numbers of columns */
};

/* Plans the decoding of columns. */
GkScalars *
gk_plan_scalars(const GkColumn *columns, int count)
{
	GkScalars  *scalars = palloc0(offsetof(GkScalars, order) + count * sizeof(int));

	for (int element = 0; element < GK_ELEMENTS; element++)
	{
		Run			run = {.element = element,.begin = scalars->count};

		for (int i = 0; i < count; i++)
			if (columns[i].element == (GkElement) element)
				scalars->order[scalars->count++] = i;
		run.end = scalars->count;
		run.adjacent = run.begin < run.end &&
			scalars->order[run.end - 1] - scalars->order[run.begin] == run.end - 1 - run.begin;
		if (run.begin < run.end)
			scalars->run[scalars->runs++] = run;
	}
	return scalars;
}

/* True if an argument is NULL. */
static inline bool
has_null(const NullableDatum *arguments, int count)
{
	bool		null = false;

#pragma GCC unroll 8
	for (int i = 0; i < count; i++)
		null |= arguments[i].isnull;
	return null;
}

/* The top bit is set if a double is NaN or infinite as float32. */
static inline uint32
not_finite(double value)
{
	float		rounded = (float) value;
	uint32		bits;

	memcpy(&bits, &rounded, sizeof(bits));
	return (bits & 0x7fffffff) + 0x00800000;
}

/* Takes a number, and as not_finite(); adding 0 turns -0 into 0. */
static inline uint32
take_value(double value, double *to)
{
	*to = value + 0.0;
	return not_finite(value);
}

/* Decodes the columns of a run. */
#define DECODE_RUN(convert) \
	if (run->adjacent) \
	{ \
		_Pragma("GCC unroll 4") \
		for (int i = 0; i < count; i++) \
			check |= take_value((double) convert(from[i].value), to + i); \
	} \
	else \
		for (int i = run->begin; i < run->end; i++) \
			check |= take_value((double) convert(arguments[order[i]].value), values + order[i])

/* Decodes the columns of a run; the top bit is set if a number is not finite as float32. */
static inline uint32
decode_run(const Run *run, const int *order, const NullableDatum *arguments, double *values)
{
	const NullableDatum *from = arguments + order[run->begin];
	double	   *to = values + order[run->begin];
	int			count = run->end - run->begin;
	uint32		check = 0;

	switch (run->element)
	{
		case GK_FLOAT8:
			DECODE_RUN(DatumGetFloat8);
			break;
		case GK_FLOAT4:
			DECODE_RUN(DatumGetFloat4);
			break;
		case GK_NUMERIC:
			DECODE_RUN(gk_numeric_value);
			break;
		case GK_INT4:
			DECODE_RUN(DatumGetInt32);
			break;
		case GK_INT8:
			DECODE_RUN(DatumGetInt64);
			break;
		case GK_INT2:
			DECODE_RUN(DatumGetInt16);
			break;
		case GK_BOOL:
			DECODE_RUN(DatumGetBool);
			break;
		default:
			elog(ERROR, "unknown element %d of a column", (int) run->element);
	}
	return check;
}

/* Decodes a row. */
GkDecoded
gk_decode_row(const GkScalars *scalars, const NullableDatum *arguments, double *values)
{
	uint32		check = 0;

	if (has_null(arguments, scalars->count))
		return GK_DECODED_NULL;
	for (int i = 0; i < scalars->runs; i++)
		check |= decode_run(&scalars->run[i], scalars->order, arguments, values);
	return check >> 31 ? GK_DECODED_INFINITE : GK_DECODED;
}
