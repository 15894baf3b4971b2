/*
 * A numeric as a double, from its digits.
 *
 * PostgreSQL's cast prints the number and reads the text.  Here the digits, as they are stored,
 * become an integer, and one division or multiplication by a power of ten rounds it: as the cast
 * does, to the nearest double, ties to even.  That is exact because
 *
 * - an integer below 2^53 and a power of ten up to 10^22 are doubles, and IEEE division rounds
 *   their quotient once;
 * - otherwise a quotient of integers has more than 64 bits, the last of which is set if anything
 *   remains, and the conversion to double rounds it once.
 *
 * Numbers of more than 36 digits or 24 decimal places, and those from 10^28 on, are printed and
 * read, too, but with an exponent: PostgreSQL's text of 1e131071 has 131,072 characters, though the
 * number is stored in ten bytes.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "fmgr.h"
#include "utils/builtins.h"

#include "numeric_value.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * How a numeric is stored, after the length: a header of 16 bits, in the long form another 16 for
 * the weight, then the digits to base 10,000.  The first has the value 10000^weight.
 */
#define KIND_MASK 0xc000
#define KIND_LONG_NEGATIVE 0x4000
#define KIND_SHORT 0x8000
#define KIND_SPECIAL 0xc000
#define SHORT_NEGATIVE 0x2000
#define SHORT_WEIGHT_NEGATIVE 0x0040
#define SHORT_WEIGHT_MASK 0x003f
#define DIGIT_BASE 10000
#define DIGIT_DECIMALS 4

/* So many digits always fit 64 bits and 128 bits. */
#define DIGITS_OF_64_BITS 4
#define DIGITS_OF_128_BITS 9
/* The greatest power of ten, in digits, whose power of five fits 64 bits. */
#define MOST_PLACES 6
/* The greatest one that is a double. */
#define MOST_EXACT_PLACES 5
/* Doubles hold all integers up to this one. */
#define EXACT_INTEGER (UINT64CONST(1) << 53)

typedef unsigned __int128 Wide;

/* A numeric, as it is stored. */
typedef struct Digits
{
	bool		negative;
	int			count;
	int			places;			/* digits after the point; negative: zeros before it */
	const char *data;			/* not aligned */
} Digits;

/* 10000^i and 625^i = 10000^i / 16^i. */
static const double powers_of_ten[] = {1e0, 1e4, 1e8, 1e12, 1e16, 1e20};
static const uint64 powers_of_five[] = {1, 625, 390625, UINT64CONST(244140625),
	UINT64CONST(152587890625), UINT64CONST(95367431640625), UINT64CONST(59604644775390625)};

/* Sixteen bits at an address that need not be aligned. */
static inline uint16
read_uint16(const char *place)
{
	uint16		value;

	memcpy(&value, place, sizeof(value));
	return value;
}

/* Finds the digits of a numeric; false if it is none that is stored in place, or not a number. */
static inline bool
find_digits(const struct varlena *stored, Digits *digits)
{
	const char *data;
	Size		bytes;
	Size		header_bytes;
	uint16		header;
	int			weight;

	if (VARATT_IS_EXTERNAL(stored) || VARATT_IS_COMPRESSED(stored))
		return false;
	data = VARDATA_ANY(stored);
	bytes = VARSIZE_ANY_EXHDR(stored);
	header = bytes < sizeof(uint16) ? 0 : read_uint16(data);
	if ((header & KIND_MASK) == KIND_SPECIAL)
		return false;
	header_bytes = (header & KIND_MASK) == KIND_SHORT ? sizeof(uint16) : 2 * sizeof(uint16);
	if (bytes < header_bytes)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("numeric has %zu bytes", bytes)));
	if ((header & KIND_MASK) == KIND_SHORT)
	{
		digits->negative = (header & SHORT_NEGATIVE) != 0;
		weight = header & SHORT_WEIGHT_MASK;
		if (header & SHORT_WEIGHT_NEGATIVE)
			weight -= SHORT_WEIGHT_MASK + 1;
	}
	else
	{
		digits->negative = (header & KIND_MASK) == KIND_LONG_NEGATIVE;
		weight = (int16) read_uint16(data + sizeof(uint16));
	}
	digits->count = (bytes - header_bytes) / sizeof(int16);
	digits->places = digits->count - 1 - weight;
	digits->data = data + header_bytes;
	return true;
}

/* The double nearest to an integer over a power of five and a power of two; 0 <= places. */
static double
divide(Wide integer, int places)
{
	uint64		high = (uint64) (integer >> 64);
	int			shift = high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll((uint64) integer);
	Wide		dividend = integer << shift;
	Wide		quotient = dividend / powers_of_five[places];
	bool		remains = quotient * powers_of_five[places] != dividend;

	return ldexp((double) (quotient | remains), -shift - DIGIT_DECIMALS * places);
}

/* The double nearest to a number with more digits than a division of doubles can take. */
static double
many_digits(const Digits *digits)
{
	Wide		integer = 0;

	for (int i = 0; i < digits->count; i++)
		integer = integer * DIGIT_BASE + read_uint16(digits->data + i * sizeof(uint16));
	if (integer == 0)
		return 0.0;
	if (digits->places >= 0)
		return divide(integer, digits->places);
	return ldexp((double) (integer * powers_of_five[-digits->places]),
				 -DIGIT_DECIMALS * digits->places);
}

/* The double nearest to a number of few digits; false if one division might round twice. */
static inline bool
few_digits(const Digits *digits, double *value)
{
	uint64		integer = 0;

	if (FLT_EVAL_METHOD != 0 || digits->count > DIGITS_OF_64_BITS || digits->places < 0 ||
		digits->places > MOST_EXACT_PLACES)
		return false;
	for (int i = 0; i < digits->count; i++)
		integer = integer * DIGIT_BASE + read_uint16(digits->data + i * sizeof(uint16));
	*value = (double) integer / powers_of_ten[digits->places];
	return integer <= EXACT_INTEGER;
}

/* The double nearest to a number, from a text that is about as long as what is stored. */
static double
read_text(const Digits *digits)
{
	Size		length = (Size) digits->count * DIGIT_DECIMALS;
	char	   *text = palloc(length + 16);
	double		value;

	for (int i = 0; i < digits->count; i++)
		(void) snprintf(text + i * DIGIT_DECIMALS, DIGIT_DECIMALS + 1, "%04d",
						read_uint16(digits->data + i * sizeof(uint16)));
	(void) snprintf(text + length, 16, "e%d", -DIGIT_DECIMALS * digits->places);
	value = strtod(text, NULL);
	pfree(text);
	return value;
}

/* The double nearest to a numeric. */
double
gk_numeric_value(Datum value)
{
	Digits		digits;
	double		magnitude;

	if (!find_digits((const struct varlena *) DatumGetPointer(value), &digits))
		return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, value));
	if (!few_digits(&digits, &magnitude))
		/* with zeros before the point, the product needs the digits below 64 bits */
		magnitude = digits.places > MOST_PLACES || digits.places < -MOST_PLACES ||
			digits.count > (digits.places >= 0 ? DIGITS_OF_128_BITS : DIGITS_OF_64_BITS)
			? read_text(&digits) : many_digits(&digits);
	return digits.negative ? -magnitude : magnitude;
}
