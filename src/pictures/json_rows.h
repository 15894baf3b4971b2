/*
 * Rows of a JSON array from untrusted input: anything unexpected counts as unknown.
 */
#ifndef GK_JSON_ROWS_H
#define GK_JSON_ROWS_H

#include "postgres.h"

#include "utils/jsonb.h"

/* Objects of an array. */
typedef struct GkJsonRows
{
	int			count;
	JsonbContainer **rows;
} GkJsonRows;

/* The objects of an array, or of the array at a key of an object if `key` is not NULL. */
extern GkJsonRows gk_json_rows(JsonbContainer *container, const char *key);

/* A number of an object; NaN if it is missing or not finite. */
extern double gk_read_number(JsonbContainer *object, const char *key);

/* True if a key of an object is true. */
extern bool gk_json_true(JsonbContainer *object, const char *key);

/* A text of an object; NULL if it is missing. */
extern const char *gk_json_text(JsonbContainer *object, const char *key);

#endif							/* GK_JSON_ROWS_H */
