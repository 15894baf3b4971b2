/*
 * The principal axes of points: the eigenvectors of their covariances.
 */
#ifndef GK_AXES_H
#define GK_AXES_H

#include "postgres.h"

/*
 * The eigenvectors of a symmetric matrix, dimension × dimension, which is overwritten;
 * axes[i × dimension …] is one of them, of length 1.  In no particular order.
 */
extern void gk_find_axes(double *matrix, int dimension, double *axes);

#endif							/* GK_AXES_H */
