/*
 * Acting as the owner of a model, because a refit runs the owner's SQL.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "model.h"
#include "owner.h"
#include "portals.h"
#include "temporary_objects.h"

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
	if (!owner->is_other)
		return;
	owner->portals = gk_note_portals();
	owner->command = GetCurrentCommandId(false);
	SetUserIdAndSecContext(role, owner->security_context | SECURITY_RESTRICTED_OPERATION);
}

/* Becomes the caller again. */
void
gk_end_as_owner(const GkOwner *owner)
{
	/* while he is the owner still: to drop a portal can run its code */
	if (owner->is_other)
	{
		gk_drop_portals_since(owner->portals);
		gk_check_temporary_objects(owner->command, owner->caller);
	}
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

/* Opens a model as its owner without waiting for others who change it. */
Relation
gk_open_as_owner_at_once(Oid relation_id, GkOwner *owner)
{
	relation_close(begin_as_owner_of(relation_id, owner), NoLock);
	return gk_open_model(relation_id);
}

/* Closes the model. */
void
gk_close_as_owner(Relation relation, const GkOwner *owner)
{
	relation_close(relation, NoLock);
	gk_end_as_owner(owner);
}
