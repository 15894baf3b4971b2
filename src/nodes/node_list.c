/*
 * The nodes of a fit, and what each of them is to read.
 */
#include "postgres.h"

#include "node_list.h"

/* Compares two nodes by their names. */
static int
compare_names(const void *left, const void *right, void *arg)
{
	return strcmp(((const GkNodeSource *) left)->name, ((const GkNodeSource *) right)->name);
}

/* Sorts a list by name. */
void
gk_sort_nodes(GkNodeSources *list)
{
	qsort_interruptible(list->nodes, list->count, sizeof(GkNodeSource), compare_names, NULL);
}
