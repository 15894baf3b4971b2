/*
 * The definition of a model: the arguments of its creation, as JSON.
 */
#ifndef GK_DEFINITION_H
#define GK_DEFINITION_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

#include "history.h"
#include "report.h"

/*
 * The most bytes that a definition may have in the catalogs: twice those of one with all features
 * that a model can have, with the longest names.  A byte of JSON has up to five there, and what is
 * beside it some more.
 */
#define GK_MOST_DEFINITION ((Size) 32 << 20)

/*
 * The arguments of a call by name, and the current search path.  NULLs are left out, and so are
 * arguments that do not affect how a model is fitted.  Of centroids, k is their number.  54000 if
 * that is too long.
 */
extern char *gk_definition(FunctionCallInfo fcinfo);

/*
 * The same with the features that were chosen because it names none.  A refit must not take them
 * from a version, which others than the owner may be allowed to write.
 */
extern char *gk_define_features(const char *definition, ArrayType *features);

/* The same with a number of clusters, for the version that is asked for it by no definition. */
extern Jsonb *gk_define_k(const Jsonb *definition, int64 k);

/*
 * The definition of a model: the default of its column "definition", which only its owner can
 * set.  55000 if that is no constant, 54000 if it is too long; a copy in the current memory
 * context.
 */
extern Jsonb *gk_model_definition(Relation relation);

/*
 * The same for a statement that is to run its text, or to store it, as the current user, who must
 * be the owner, whose text it is.  42501 for others, with this hint.
 */
extern Jsonb *gk_own_definition(Relation relation, const char *hint);

/* The labels table that a definition names; NULL if it names none, or is too long. */
extern char *gk_defined_labels_table(Relation relation);

/* True if a name means the labels table that a definition names; its search path must be set. */
extern bool gk_is_defined_labels_table(const Jsonb *definition, const char *name);

/*
 * Raises 40001 if the search path that was set when a definition was made stands for another one
 * now: another role may have made the schema that "$user" stands for.
 */
extern void gk_check_definition_path(const Jsonb *definition, const char *set);

/* Raises 54000 if a definition is too long for a model. */
extern void gk_check_definition(const char *definition);

/* True if a definition is that of a model. */
extern bool gk_is_defined_as(Relation relation, const char *definition);

/*
 * In REPEATABLE READ and SERIALIZABLE, raises 40001 if others have changed the definition of a
 * model since the transaction began: versions and rows would be older.
 */
extern void gk_check_definition_is_seen(Relation relation);

/*
 * Pushes the snapshot for a version of a model and for rows.  If their source is that of the
 * definition, it is newer than the active one if the definition was changed since, or 40001 is
 * raised as above.
 */
extern void gk_push_definition_snapshot(Oid model, bool of_definition);

/*
 * The source of an argument or, if that is NULL, of the definition of a model that the current
 * user owns; then the search path of the current nest level of the settings is the definition's.
 * 55000 if that names none.
 */
extern char *gk_source_argument(FunctionCallInfo fcinfo, int number, Oid model);

/* Raises 55000 for a model whose definition names no source. */
__attribute__((noreturn))
extern void gk_model_has_no_source(Relation relation);

/* True if an argument of gkmeans_create_model() is part of a definition. */
extern bool gk_is_definition_key(const char *name);

/*
 * The definition of a model that gets an imported version: its own, with what the import says
 * instead, and without what would contradict it: how the number of clusters was chosen, or a scale
 * if the version has none.  If the import names a source, all of it is that of the import.
 */
extern char *gk_define_again(Relation relation, const char *imported, bool is_scaled);

/* The current search path, as an object that is part of a definition. */
extern Jsonb *gk_search_path_json(void);

/* A text in it; NULL if it is not there or no text. */
extern char *gk_definition_text(const Jsonb *definition, const char *key);

/* A text among its options; the same. */
extern char *gk_definition_option(const Jsonb *definition, const char *key);

/*
 * Makes its search path, pg_catalog if it has none, that of the current nest level of the settings,
 * in which standard_conforming_strings is on from then on.  Temporary tables of a caller that
 * is another role come last, unless the path names them.
 */
extern void gk_use_definition_path(const Jsonb *definition);

/* Finds the value at a key; false if it is not there, or if the container is no object. */
extern bool gk_json_find(JsonbContainer *object, const char *key, JsonbValue *value);

/* A number in a JSON object; NaN if it is not there, no number, or too large. */
extern double gk_json_number(JsonbContainer *object, const char *key);

/* Appends a comma, a key and the shortest number that is read as this one; null if not finite. */
extern void gk_append_json_number(StringInfo json, const char *key, double number);

/* The report of a fit. */
extern char *gk_report_json(const GkReport *report);

/* Its iterations: an array of objects. */
extern char *gk_history_json(const GkHistory *history);

#endif							/* GK_DEFINITION_H */
