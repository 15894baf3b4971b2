/*
 * How far the tensor cores of a device may be wrong when they add up products of 16-bit values:
 * what the filter's bound assumes, and the check of it when a device is opened (docs/filter.md).
 */
#ifndef GK_ACCUMULATION_H
#define GK_ACCUMULATION_H

#include <cstdint>

#include "device.h"

namespace gk
{

/*
 * The error of a product of `depth` columns over the norms of its factors: at most
 * (factor × (depth + 16) + 8) × 2^-24.
 */
double		accumulation_bound(double factor, int depth);

/*
 * The factor for a device: that of its generation if its products are as exact as is assumed, else
 * a wider one, or infinity, with which no product decides anything.
 */
double		check_accumulation(const Device &device);

}								/* namespace gk */

#endif							/* GK_ACCUMULATION_H */
