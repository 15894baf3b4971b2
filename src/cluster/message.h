/*
 * The wire format: messages to the nodes, and their answers.
 *
 * A message is a header, and behind it arrays, each padded with zeros to a multiple of 8 bytes; the
 * operation and numbers that came before say how long each is.  Numbers are as on little-endian
 * hosts: a header in another order is refused.  Nobody trusts what he reads: a reader hands
 * nothing out beyond the end of a message, and remembers that something was wrong.
 */
#ifndef GK_MESSAGE_H
#define GK_MESSAGE_H

#include "memory.h"

#define GK_MESSAGE_MAGIC UINT64_C(0x65726977736e6d6b)
#define GK_MESSAGE_ORDER UINT64_C(0x0102030405060708)
#define GK_MESSAGE_VERSION 1

/* What messages ask for besides the operations of an engine: labels and d² of rows. */
#define GK_FETCH GK_OPERATIONS
#define GK_MESSAGE_OPERATIONS (GK_OPERATIONS + 1)

/* What GK_ROWS, GK_FETCH and GK_SEPARATION are asked for. */
#define GK_ASK_LABELS 1
#define GK_ASK_WEIGHTS 2
#define GK_ASK_DISTANCES 4
#define GK_ASK_OTHERS 8

/* How every message and every answer begins. */
typedef struct GkHeader
{
	uint64_t	magic;
	uint64_t	order;
	uint32_t	version;
	uint32_t	operation;
	uint64_t	sequence;		/* ascending; that of an answer is its message's */
	int64_t		dimension;
	int64_t		centroids;		/* how many there are before the command */
	uint64_t	bytes;			/* of the message, the header included */
	uint64_t	nanoseconds;	/* of an answer: in the engine */
	uint64_t	held;			/* of an answer: bytes that the engine holds, and held at most */
	uint64_t	peak;
} GkHeader;

/* A message that is written. */
typedef struct GkMessage
{
	GkMemory   *memory;
	GkRoom		room;
	size_t		used;			/* measured first: then there is room for no more */
	bool		measuring;
	bool		too_large;
} GkMessage;

/* Writes the arrays of a message; the same ones whenever it is called. */
typedef void (*GkWriteMessage) (GkMessage *message, void *context);

/*
 * Writes a message: calls the function once to measure it, and once to fill it.  The bytes of the
 * header are set to those of the message.
 */
extern GkStatus gk_message_write(GkMessage *message, const GkHeader *header, GkWriteMessage write,
								 void *context);

/* Room for an array; NULL while measuring. */
extern void *gk_message_add(GkMessage *message, int64_t count, size_t size);

/* Adds a copy of an array, or a number. */
extern void gk_message_copy(GkMessage *message, const void *from, int64_t count, size_t size);
extern void gk_message_integer(GkMessage *message, int64_t value);
extern void gk_message_double(GkMessage *message, double value);

/* The header of a message that was written. */
extern GkHeader *gk_message_header(const GkMessage *message);

/* Cuts what was written short, so that it ends there. */
extern void gk_message_end(GkMessage *message, const void *end);

/* A message that is read. */
typedef struct GkReader
{
	const char *at;
	size_t		left;
	bool		good;
} GkReader;

/* The fault of a header, NULL if it has none. */
extern const char *gk_header_fault(const GkHeader *header);

/* A reader of the message, behind its header. */
extern GkReader gk_reader_begin(const void *message, size_t bytes);

/* The next array; NULL if it is not there. */
extern const void *gk_read_array(GkReader *reader, int64_t count, size_t size);

/* The next number; `least`, or 0, if it is not there or not in these bounds. */
extern int64_t gk_read_integer(GkReader *reader, int64_t least, int64_t greatest);
extern double gk_read_double(GkReader *reader, double least, double greatest);

/* The next array, each number of which is in these bounds; NULL if one is not. */
extern const double *gk_read_doubles(GkReader *reader, int64_t count, double limit);
extern const float *gk_read_floats(GkReader *reader, int64_t count);
extern const int64_t *gk_read_integers(GkReader *reader, int64_t count, int64_t least,
									   int64_t greatest);
extern const int32_t *gk_read_numbers(GkReader *reader, int64_t count, int32_t least,
									  int32_t greatest);

/* True if all was read, and nothing was wrong. */
extern bool gk_reader_end(const GkReader *reader);

#endif							/* GK_MESSAGE_H */
