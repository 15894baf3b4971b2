/*
 * Portals, such as cursors, that code of another role leaves in the session.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "portals.h"

/*
 * The mark of a portal: the note that saw it first.  It lives in the memory context of the portal,
 * which has no other list.  Addresses, names and times of portals recur within a statement.
 */
typedef struct Mark
{
	MemoryContextCallback callback;
	uint64		note;
} Mark;

static uint64 last_note = 0;

/* Nothing happens at the end of a mark; its address tells that a callback is one. */
static void
end_mark(void *argument)
{
}

/* The mark of a portal, or NULL. */
static const Mark *
mark_of(Portal portal)
{
	const MemoryContextCallback *callback = portal->portalContext->reset_cbs;

	while (callback != NULL && callback->func != end_mark)
		callback = callback->next;
	return (const Mark *) callback;
}

/* Marks a portal. */
static void
mark(Portal portal, uint64 note)
{
	Mark	   *mark = MemoryContextAllocZero(portal->portalContext, sizeof(Mark));

	mark->callback.func = end_mark;
	mark->note = note;
	MemoryContextRegisterResetCallback(portal->portalContext, &mark->callback);
}

/* The first of the contexts of portals: pg_cursor() needs a privilege, and does not list all. */
static MemoryContext
first_context(void)
{
	MemoryContext context = TopMemoryContext->firstchild;

	while (context != NULL && strcmp(context->name, "TopPortalContext") != 0)
		context = context->nextchild;
	if (context == NULL)
		elog(ERROR, "could not find the portals");
	return context->firstchild;
}

/*
 * The portal of a context, or NULL.  That without a name is not found: it belongs to the protocol,
 * and SQL cannot make it.
 */
static Portal
portal_of(MemoryContext context)
{
	Portal		portal = GetPortalByName(context->ident);

	return portal != NULL && portal->portalContext == context ? portal : NULL;
}

/* Notes which portals there are. */
uint64
gk_note_portals(void)
{
	last_note++;
	for (MemoryContext context = first_context(); context != NULL; context = context->nextchild)
	{
		Portal		portal = portal_of(context);

		if (portal != NULL && mark_of(portal) == NULL)
			mark(portal, last_note);
	}
	return last_note;
}

/* A portal that was made since a note, or NULL. */
static Portal
find_since(uint64 note)
{
	for (MemoryContext context = first_context(); context != NULL; context = context->nextchild)
	{
		Portal		portal = portal_of(context);
		const Mark *seen = portal == NULL ? NULL : mark_of(portal);

		if (portal != NULL && (seen == NULL || seen->note > note))
			return portal;
	}
	return NULL;
}

/* Drops such portals.  To drop one can run code, so the search begins anew. */
void
gk_drop_portals_since(uint64 note)
{
	Portal		portal;

	while ((portal = find_since(note)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (portal->portalPinned)
			UnpinPortal(portal);
		PortalDrop(portal, false);
	}
}
