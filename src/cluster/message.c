/*
 * The wire format: writing and reading messages.
 */
#include <math.h>
#include <string.h>

#include "message.h"

#define WORD sizeof(uint64_t)

/* Room for an array; NULL while measuring. */
void *
gk_message_add(GkMessage *message, int64_t count, size_t size)
{
	size_t		bytes;
	size_t		end;
	char	   *array;

	if (count < 0 || __builtin_mul_overflow((size_t) count, size, &bytes) ||
		bytes > SIZE_MAX / 8 - message->used)
	{
		message->too_large = true;
		return NULL;
	}
	end = message->used + (bytes + WORD - 1) / WORD * WORD;
	array = message->measuring ? NULL : (char *) message->room.base + message->used;
	if (array != NULL && end > message->used)
		memset((char *) message->room.base + end - WORD, 0, WORD);
	message->used = end;
	return array;
}

/* Adds a copy of an array. */
void
gk_message_copy(GkMessage *message, const void *from, int64_t count, size_t size)
{
	void	   *to = gk_message_add(message, count, size);

	if (to != NULL && count > 0)
		memcpy(to, from, (size_t) count * size);
}

/* Adds an integer. */
void
gk_message_integer(GkMessage *message, int64_t value)
{
	gk_message_copy(message, &value, 1, sizeof(value));
}

/* Adds a double. */
void
gk_message_double(GkMessage *message, double value)
{
	gk_message_copy(message, &value, 1, sizeof(value));
}

/* The header of a message that was written. */
GkHeader *
gk_message_header(const GkMessage *message)
{
	return message->room.base;
}

/* Writes a message. */
GkStatus
gk_message_write(GkMessage *message, const GkHeader *header, GkWriteMessage write, void *context)
{
	GkStatus	status;

	message->measuring = true;
	message->too_large = false;
	message->used = sizeof(GkHeader);
	write(message, context);
	if (message->too_large)
		return gk_status_error(GK_LIMIT, "message", "a message is too large");
	status = gk_room_need(message->memory, &message->room, message->used, 1);
	if (status.code != GK_OK)
		return status;
	message->measuring = false;
	message->used = sizeof(GkHeader);
	*gk_message_header(message) = *header;
	write(message, context);
	gk_message_header(message)->bytes = message->used;
	return gk_status_ok();
}

/* Cuts what was written short. */
void
gk_message_end(GkMessage *message, const void *end)
{
	message->used = (size_t) ((const char *) end - (const char *) message->room.base);
	gk_message_header(message)->bytes = message->used;
}

/* The fault of a header, NULL if it has none. */
const char *
gk_header_fault(const GkHeader *header)
{
	if (header->magic != GK_MESSAGE_MAGIC)
		return "it is no message of gkmeans";
	if (header->order != GK_MESSAGE_ORDER)
		return "it comes from a host with another order of bytes";
	if (header->version != GK_MESSAGE_VERSION)
		return "it comes from another version of gkmeans";
	if (header->operation >= GK_MESSAGE_OPERATIONS)
		return "its operation is unknown";
	if (header->bytes < sizeof(GkHeader))
		return "its length is wrong";
	return NULL;
}

/* A reader of the message, behind its header. */
GkReader
gk_reader_begin(const void *message, size_t bytes)
{
	return (GkReader) {
		.at = (const char *) message + sizeof(GkHeader),.left = bytes - sizeof(GkHeader),
		.good = true
	};
}

/* The next array; NULL if it is not there. */
const void *
gk_read_array(GkReader *reader, int64_t count, size_t size)
{
	const char *array = reader->at;
	size_t		bytes;

	if (!reader->good || count < 0 || __builtin_mul_overflow((size_t) count, size, &bytes) ||
		bytes > reader->left || (bytes + WORD - 1) / WORD * WORD > reader->left)
	{
		reader->good = false;
		return NULL;
	}
	bytes = (bytes + WORD - 1) / WORD * WORD;
	reader->at += bytes;
	reader->left -= bytes;
	return array;
}

/* The next integer; `least` if it is not there or not in these bounds. */
int64_t
gk_read_integer(GkReader *reader, int64_t least, int64_t greatest)
{
	const int64_t *values = gk_read_integers(reader, 1, least, greatest);

	return values == NULL ? least : values[0];
}

/* The next double; 0 if it is not there or not in these bounds. */
double
gk_read_double(GkReader *reader, double least, double greatest)
{
	const double *values = gk_read_array(reader, 1, sizeof(double));

	if (values == NULL)
		return 0.0;
	if (!(values[0] >= least && values[0] <= greatest))
	{
		reader->good = false;
		return 0.0;
	}
	return values[0];
}

/* The next doubles, none of which exceeds the limit; NULL if one does. */
const double *
gk_read_doubles(GkReader *reader, int64_t count, double limit)
{
	const double *values = gk_read_array(reader, count, sizeof(double));
	bool		good = true;

	for (int64_t i = 0; values != NULL && i < count; i++)
		good &= fabs(values[i]) <= limit;
	reader->good &= good;
	return good ? values : NULL;
}

/* The next floats, all finite; NULL if one is not. */
const float *
gk_read_floats(GkReader *reader, int64_t count)
{
	const float *values = gk_read_array(reader, count, sizeof(float));
	bool		good = true;

	for (int64_t i = 0; values != NULL && i < count; i++)
		good &= fabsf(values[i]) <= 0x1.fffffep127f;
	reader->good &= good;
	return good ? values : NULL;
}

/* The next integers, each in these bounds; NULL if one is not. */
const int64_t *
gk_read_integers(GkReader *reader, int64_t count, int64_t least, int64_t greatest)
{
	const int64_t *values = gk_read_array(reader, count, sizeof(int64_t));
	bool		good = true;

	for (int64_t i = 0; values != NULL && i < count; i++)
		good &= values[i] >= least && values[i] <= greatest;
	reader->good &= good;
	return good ? values : NULL;
}

/* The same of 32 bits. */
const int32_t *
gk_read_numbers(GkReader *reader, int64_t count, int32_t least, int32_t greatest)
{
	const int32_t *values = gk_read_array(reader, count, sizeof(int32_t));
	bool		good = true;

	for (int64_t i = 0; values != NULL && i < count; i++)
		good &= values[i] >= least && values[i] <= greatest;
	reader->good &= good;
	return good ? values : NULL;
}

/* True if all was read, and nothing was wrong. */
bool
gk_reader_end(const GkReader *reader)
{
	return reader->good && reader->left == 0;
}
