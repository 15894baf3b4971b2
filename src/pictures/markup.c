/*
 * Text in markup.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "alloc.h"
#include "markup.h"

/* Replaces characters that markup must not contain, or that are unreadable. */
#define REPLACEMENT 0xfffd

/* The most characters that fit the widest picture. */
#define MOST_CHARACTERS 1000

#define ELLIPSIS "&#8230;"

/* The characters of a text, as code points of Unicode. */
typedef struct Characters
{
	int			count;
	pg_wchar   *points;
} Characters;

/* True if a character is allowed in markup, and does not affect the text around it. */
static bool
is_shown(pg_wchar point)
{
	if (point < 0x20)
		return point == '\n';
	if (point >= 0x7f && point < 0xa0)
		return false;
	/* direction marks, surrogates, noncharacters */
	if (point == 0x061c || point == 0x200e || point == 0x200f ||
		(point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069))
		return false;
	return !(point >= 0xd800 && point <= 0xdfff) && (point & 0xfffe) != 0xfffe &&
		point <= 0x10ffff;
}

/* The bytes of a text that need no conversion; the others become question marks. */
static const char *
ascii_of(const char *text)
{
	char	   *copy = pstrdup(text);

	for (char *c = copy; *c != '\0'; c++)
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	return copy;
}

/* A text in UTF-8, by a conversion; a question mark for each character that it does not know. */
static const char *
convert(const char *text, Oid conversion)
{
	int			encoding = GetDatabaseEncoding();
	int			left = (int) strlen(text);
	int			room = Max(left, 1) * MAX_CONVERSION_GROWTH + 1;
	char	   *utf8 = palloc(room);
	int			used = 0;

	while (left > 0)
	{
		int			done = pg_do_encoding_conversion_buf(conversion, encoding, PG_UTF8,
														 (unsigned char *) text, left,
														 (unsigned char *) utf8 + used,
														 room - used, true);
		int			unknown = done < left ? Min(pg_mblen(text + done), left - done) : 0;

		used += (int) strlen(utf8 + used);
		if (unknown > 0)
			utf8[used++] = '?';
		text += done + unknown;
		left -= done + unknown;
	}
	utf8[used] = '\0';
	return utf8;
}

/* A text of the database in UTF-8; what has no known meaning becomes question marks. */
static const char *
to_utf8(const char *text)
{
	int			encoding = GetDatabaseEncoding();
	Oid			conversion;

	if (encoding == PG_UTF8)
		return text;
	conversion = encoding == PG_SQL_ASCII ? InvalidOid
		: FindDefaultConversionProc(encoding, PG_UTF8);
	return OidIsValid(conversion) ? convert(text, conversion) : ascii_of(text);
}

/* The characters of a text of the database; of a long one, some more than are needed. */
static Characters
characters_of(const char *text, int needed)
{
	int			limit = (needed + 1) * MAX_MULTIBYTE_CHAR_LEN;
	int			bytes = (int) strlen(text);
	const char *beginning = bytes <= limit ? text
		: pnstrdup(text, pg_mbcliplen(text, bytes, limit));
	const char *utf8 = to_utf8(beginning);
	Size		length = strlen(utf8);
	Characters	characters = {0, gk_allocate(Max(1, length), sizeof(pg_wchar))};

	for (Size i = 0; i < length;)
	{
		Size		width = pg_utf_mblen((const unsigned char *) utf8 + i);
		pg_wchar	point = '\t';

		if (i + width <= length)
			point = utf8_to_unicode((const unsigned char *) utf8 + i);
		if (point == '\t' || point == '\r')
			point = ' ';
		characters.points[characters.count++] = is_shown(point) ? point : REPLACEMENT;
		i += width;
	}
	return characters;
}

/* The width of a character at a font size of 12 pixels, rounded up generously. */
static double
width_of(pg_wchar point)
{
	if (point >= 0x1100)
		return 12.5;
	if (point >= 0x80)
		return 8.0;
	if (strchr("iljtfrI.,:;'|!()[]/ ", (int) point) != NULL)
		return 4.2;
	if (strchr("mwMW%@", (int) point) != NULL)
		return 11.8;
	return point >= 'A' && point <= 'Z' ? 8.6 : 7.4;
}

/* Pixels of a text, or of more than the beginning of it that fits a picture. */
double
gk_text_width(const char *text)
{
	Characters	characters = characters_of(text, MOST_CHARACTERS);
	double		width = 0.0;

	for (int i = 0; i < characters.count; i++)
		width += width_of(characters.points[i]);
	pfree(characters.points);
	return width;
}

/* Appends a character. */
static void
append_character(StringInfo markup, pg_wchar point)
{
	switch (point)
	{
		case '<':
			appendStringInfoString(markup, "&lt;");
			break;
		case '>':
			appendStringInfoString(markup, "&gt;");
			break;
		case '&':
			appendStringInfoString(markup, "&amp;");
			break;
		case '"':
			appendStringInfoString(markup, "&#34;");
			break;
		case '\'':
			appendStringInfoString(markup, "&#39;");
			break;
		default:
			if (point < 0x80)
				appendStringInfoChar(markup, (char) point);
			else
				appendStringInfo(markup, "&#%u;", point);
	}
}

/* Appends a text of the database. */
void
gk_append_escaped(StringInfo markup, const char *text, int most)
{
	Characters	characters = characters_of(text, most);

	for (int i = 0; i < characters.count && i < most; i++)
		append_character(markup, characters.points[i]);
	if (characters.count > most)
		appendStringInfoString(markup, ELLIPSIS);
	pfree(characters.points);
}

/* A text of the database as markup, clipped. */
const char *
gk_clip(const char *text, double width)
{
	Characters	characters = characters_of(text, MOST_CHARACTERS);
	double		used = 0.0;
	int			fitting = 0;
	int			shorter = 0;
	StringInfoData markup;

	while (fitting < characters.count && used + width_of(characters.points[fitting]) <= width)
	{
		used += width_of(characters.points[fitting++]);
		if (used <= width - 10.0)
			shorter = fitting;
	}
	initStringInfo(&markup);
	for (int i = 0; i < (fitting < characters.count ? shorter : fitting); i++)
		append_character(&markup, characters.points[i]);
	if (fitting < characters.count)
		appendStringInfoString(&markup, ELLIPSIS);
	pfree(characters.points);
	return markup.data;
}

/* Drops zeros at the end of a fraction. */
static char *
drop_zeros(char *number)
{
	char	   *end = number + strlen(number);

	if (strchr(number, '.') == NULL)
		return number;
	while (end[-1] == '0')
		*--end = '\0';
	if (end[-1] == '.')
		*--end = '\0';
	return number;
}

/* The digits after the first one of a number of this size, so that it shows a step. */
static int
digits_after_first(double size, double step, int least)
{
	if (!(step > 0.0) || !isfinite(step))
		return least;
	return (int) Max(least, Min(floor(log10(size)) - floor(log10(step) + 1e-9), 14.0));
}

/* A number as digits and a power of ten: 1.5e-7. */
static const char *
power_text(double value, int digits)
{
	char	   *number = psprintf("%.*e", digits, value);
	char	   *exponent = strchr(number, 'e') + 2;

	if (exponent[0] == '0')
		memmove(exponent, exponent + 1, strlen(exponent));
	return number;
}

/* A number in a readable form. */
const char *
gk_short_number(double value)
{
	return gk_number_in_steps(value, 0.0);
}

/* The same, with the digits in which numbers differ that lie a step apart. */
const char *
gk_number_in_steps(double value, double step)
{
	static const char *const suffixes[] = {"", "k", "M", "G", "T"};
	double		size = fabs(value);
	int			thousands = 0;
	int			decimals;

	if (!isfinite(value))
		return "n/a";
	if (size == 0.0)
		return "0";
	if (size < 1e-3 || size >= 999.5e12)
		return power_text(value, digits_after_first(size, step, 1));
	while (size >= (thousands == 0 ? 9999.5 : 999.5))
	{
		size /= 1000.0;
		step /= 1000.0;
		thousands++;
	}
	decimals = Max(0, digits_after_first(size, step, 2) - (int) floor(log10(size)));
	return psprintf("%s%s%s", value < 0.0 ? "-" : "",
					drop_zeros(psprintf("%.*f", decimals, size)), suffixes[thousands]);
}

/* A number with the digits in which a deviation shows. */
const char *
gk_number_beside(double value, double deviation)
{
	double		size = fabs(value);
	int			decimals;

	if (!isfinite(value) || !isfinite(deviation) || !(deviation > 0.0) ||
		size < 100.0 * deviation || size < 1e-3 || size >= 1e15)
		return gk_short_number(value);
	decimals = Min(-(int) floor(log10(deviation)), 15 - (int) floor(log10(size)));
	return drop_zeros(psprintf("%.*f", Max(0, decimals), value));
}

/* A number of rows. */
const char *
gk_count_text(int64 count)
{
	char	   *digits = psprintf("%lld", (long long) count);
	int			length = (int) strlen(digits);
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < length; i++)
	{
		if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
			appendStringInfoChar(&text, ',');
		appendStringInfoChar(&text, digits[i]);
	}
	return text.data;
}

/* Says how many more of something there are. */
const char *
gk_more_text(int64 count, const char *what)
{
	return psprintf("and %s more %s%s", gk_count_text(count), what, count == 1 ? "" : "s");
}

/* A share. */
const char *
gk_share_text(double share)
{
	if (!isfinite(100.0 * share))
		return "n/a";
	return psprintf(fabs(share) < 0.0995 ? "%.1f %%" : "%.0f %%", 100.0 * share);
}
