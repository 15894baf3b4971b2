/*
 * From the definition of a model to the arguments of the call that it was made by.
 */
#ifndef GK_DEFINED_CALL_H
#define GK_DEFINED_CALL_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

/* The arguments of gkmeans_create_model(); what is not defined is NULL. */
typedef struct GkDefinedCall
{
	int			count;
	char	  **names;
	Oid		   *types;
	FunctionCallInfo arguments; /* for gk_read_arguments(); no function is called by it */
} GkDefinedCall;

/*
 * Fills in the arguments, in the current memory context; 55000 if the definition does not fit
 * them.  Without a model, the definition is an argument of a call: 22023.  NULL defines nothing.
 * Keys that are not arguments are ignored.
 */
extern void gk_define_call(Relation relation, const Jsonb *definition, GkDefinedCall *call);

/* The number of an argument. */
extern int	gk_defined_place(const GkDefinedCall *call, const char *name);

/* Sets an argument. */
extern void gk_set_defined(GkDefinedCall *call, const char *name, Datum value);

/* True if an argument is defined. */
extern bool gk_is_defined(const GkDefinedCall *call, const char *name);

#endif							/* GK_DEFINED_CALL_H */
