/*
 * The table to which a new version of a model is written.
 */
#ifndef GK_TARGET_H
#define GK_TARGET_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "draft.h"

typedef enum GkModelExists
{
	GK_MODEL_ERROR,
	GK_MODEL_REPLACE,
	GK_MODEL_SKIP
} GkModelExists;

/* A model that is created or gets a version; lies in the memory context current at opening. */
typedef struct GkTarget
{
	char	   *name;			/* quoted */
	const char *definition;		/* that it was created with, unless it existed before */
	Oid			relation_id;
	bool		exists;			/* it existed before */
	int			version;		/* the version to be written */
} GkTarget;

/* Parses if_exists. */
extern GkModelExists gk_model_exists_word(const char *word);

/*
 * Creates the model with this definition, or locks an existing one: 42P07 if it must not exist,
 * 42501 if the current user must not replace it.  With GK_MODEL_SKIP, leaves an existing one alone.
 * SPI must be connected.
 */
extern void gk_open_target(GkTarget *target, const char *name, GkModelExists if_exists,
						   const char *definition);

/*
 * Writes the new version, whose copy of the definition is drafted, and deploys it; the definition,
 * which may differ from that at opening, becomes that of the model.
 */
extern void gk_write_target(const GkTarget *target, GkDraft *draft, const char *definition);

/* The number after the highest version that is committed or the transaction's own, or 54000. */
extern int	gk_next_version(Oid relation_id);

/* When a version is deployed now: after all other versions, even if the clock went back. */
extern TimestampTz gk_deployment_time(Oid relation_id);

/* Withdraws the deployed version of a model, which must be locked.  SPI must be connected. */
extern void gk_withdraw_deployed(Oid relation_id);

#endif							/* GK_TARGET_H */
