/*
 * The definition of a model: the arguments of its creation, as JSON.
 */
#ifndef GK_DEFINITION_H
#define GK_DEFINITION_H

#include "postgres.h"

#include "fmgr.h"

#include "history.h"
#include "report.h"

/*
 * The arguments of a call by name, and the current search path.  NULLs are left out, and so are
 * arguments that do not affect how a model is fitted.
 */
extern char *gk_definition(FunctionCallInfo fcinfo);

/* The report of a fit. */
extern char *gk_report_json(const GkReport *report);

/* Its iterations: an array of objects. */
extern char *gk_history_json(const GkHistory *history);

#endif							/* GK_DEFINITION_H */
