/*
 * The definition of a model: the arguments of its creation, as JSON.
 */
#ifndef GK_DEFINITION_H
#define GK_DEFINITION_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

#include "report.h"

/*
 * The arguments of a call by name, and the current search path.  NULLs are left out, and so are
 * arguments that do not affect how a model is fitted.
 */
extern char *gk_definition(FunctionCallInfo fcinfo);

/*
 * The definition of a model: the default of its column "definition", which only its owner can
 * set.  55000 if that is no constant; a copy in the current memory context.
 */
extern Jsonb *gk_model_definition(Relation relation);

/* A text in it; NULL if it is not there or no text. */
extern char *gk_definition_text(const Jsonb *definition, const char *key);

/* A number in a JSON object; NaN if it is not there, no number, or too large. */
extern double gk_json_number(JsonbContainer *object, const char *key);

/* The report of a fit. */
extern char *gk_report_json(const GkReport *report);

#endif							/* GK_DEFINITION_H */
