/*
 * Two clusterings of the same rows: how many rows each pair of their clusters shares.
 */
#ifndef GK_CONTINGENCY_H
#define GK_CONTINGENCY_H

#include "postgres.h"

/* Rows that a cluster of the one shares with a cluster of the other. */
typedef struct GkShared
{
	int32		from;			/* label in the one */
	int32		to;				/* label in the other */
	int64		rows;
} GkShared;

typedef struct GkContingency
{
	int64		count;
	GkShared   *shared;			/* ascending by from, then to; none without rows */
} GkContingency;

/* How much two clusterings agree. */
typedef struct GkAgreement
{
	int64		rows;
	double		adjusted_rand;
	double		normalized_mutual_info;
	int64		moved;			/* rows outside the pairs of the matching that keeps most rows */
} GkAgreement;

/* Measures it; there are rows. */
extern void gk_measure_agreement(const GkContingency *contingency, GkAgreement *agreement);

#endif							/* GK_CONTINGENCY_H */
