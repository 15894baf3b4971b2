/*
 * Compares plans of a source.
 *
 * PostgreSQL has no equal() for plans, but writes all of their fields as text.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodes.h"
#include "utils/memutils.h"

#include "source_plan.h"

/* What grows with a table, as the text has it; it writes a space in a name as "\ ". */
static const char *const estimates[] = {
	" :startup_cost ",
	" :total_cost ",
	" :plan_rows ",
	" :plan_width ",
	" :per_call_cost ",
	" :numGroups ",
	" :rows_total ",
	" :est_entries ",
};

/* How many characters an estimate takes with its name; 0 if there is none. */
static size_t
length_of_estimate(const char *text)
{
	for (int i = 0; i < lengthof(estimates); i++)
	{
		size_t		length = strlen(estimates[i]);

		if (strncmp(text, estimates[i], length) == 0)
			return length + strcspn(text + length, " })");
	}
	return 0;
}

/* True if two texts differ in estimates alone. */
static bool
are_same_texts(const char *one, const char *other)
{
	while (*one == *other && *one != '\0')
	{
		size_t		length = *one == ' ' ? length_of_estimate(one) : 0;

		if (length > 0)
		{
			CHECK_FOR_INTERRUPTS();
			one += length;
			other += length_of_estimate(other);
		}
		else
		{
			one++;
			other++;
		}
	}
	return *one == *other;
}

/* The text of a plan: that of a copy, in which an array without elements is always NULL. */
static const char *
text_of(const PlannedStmt *plan)
{
	return nodeToString(copyObject(plan));
}

/* True if two plans are the same, but for estimates. */
bool
gk_are_same_plans(const PlannedStmt *one, const PlannedStmt *other)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans plans",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	bool		are_same = are_same_texts(text_of(one), text_of(other));

	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return are_same;
}
