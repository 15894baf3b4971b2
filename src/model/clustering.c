/*
 * A clustering that is to be measured.
 */
#include "postgres.h"

#include "clustering.h"
#include "engine_error.h"

/* The labels of some rows. */
void
gk_read_labels(const GkClustering *clustering, int64 from, int64 count, int32 *labels)
{
	if (clustering->labels != NULL)
		memcpy(labels, clustering->labels + from, count * sizeof(int32));
	else
		gk_check(clustering->engine->class_of->fetch(clustering->engine, from, count, labels,
													 NULL));
}
