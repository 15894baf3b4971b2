/*
 * Acting as the owner of a model, because a refit runs the owner's SQL.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "definition.h"
#include "model.h"
#include "owner.h"

#if PG_VERSION_NUM >= 160000
#define OWNS_RELATION(id) object_ownercheck(RelationRelationId, (id), GetUserId())
#else
#define OWNS_RELATION(id) pg_class_ownercheck((id), GetUserId())
#endif

/* Becomes the owner of a table. */
void
gk_begin_as_owner(Relation relation, GkOwner *owner)
{
	Oid			role = relation->rd_rel->relowner;

	if (!OWNS_RELATION(RelationGetRelid(relation)))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(relation));
	GetUserIdAndSecContext(&owner->caller, &owner->security_context);
	owner->is_other = owner->caller != role;
	owner->nest_level = NewGUCNestLevel();
	if (owner->is_other)
		SetUserIdAndSecContext(role, owner->security_context | SECURITY_RESTRICTED_OPERATION);
}

/* True if a search path names the schema of temporary tables. */
static bool
names_temporary(const char *path)
{
	List	   *schemas;
	ListCell   *cell;

	if (!SplitIdentifierString(pstrdup(path), ',', &schemas))
		return false;
	foreach(cell, schemas)
		if (strcmp(lfirst(cell), "pg_temp") == 0)
			return true;
	return false;
}

/*
 * Sets the search path of a definition.  Unless it names the schema of temporary tables, these
 * would come first; another role's must not replace the owner's tables.
 */
void
gk_use_search_path(const GkOwner *owner, const Jsonb *definition)
{
	const char *path = gk_definition_text(definition, "search_path");

	if (path == NULL || strspn(path, " ") == strlen(path))
		path = "pg_catalog";
	if (owner->is_other && !names_temporary(path))
		path = psprintf("%s, pg_temp", path);
	(void) set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

/* Becomes the caller again. */
void
gk_end_as_owner(const GkOwner *owner)
{
	AtEOXact_GUC(false, owner->nest_level);
	if (owner->is_other)
		SetUserIdAndSecContext(owner->caller, owner->security_context);
}

/* Becomes the owner of a model, by its OID. */
static Relation
begin_as_owner_of(Oid relation_id, GkOwner *owner)
{
	Relation	model = try_relation_open(relation_id, AccessShareLock);

	if (model == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("model with OID %u does not exist", relation_id)));
	gk_begin_as_owner(model, owner);
	return model;
}

/*
 * Opens a model as its owner.  Its kind and the caller's privileges are checked before waiting for
 * the lock; the owner is looked up once more when it cannot change any more.
 */
void
gk_open_as_owner(Oid relation_id, Relation *relation, GkOwner *owner)
{
	relation_close(begin_as_owner_of(relation_id, owner), AccessShareLock);
	relation_close(gk_open_model_to_change(relation_id), NoLock);
	gk_end_as_owner(owner);
	relation_close(begin_as_owner_of(relation_id, owner), NoLock);
	*relation = gk_open_model(relation_id);
}

/* Closes the model. */
void
gk_close_as_owner(Relation relation, const GkOwner *owner)
{
	relation_close(relation, NoLock);
	gk_end_as_owner(owner);
}
