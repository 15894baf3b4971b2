/*
 * The error of a device's tensor cores when they add up products of 16-bit values: what the
 * filter's bound assumes, and its check when a device is opened (docs/filter.md).
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
 * The factor for a device: that of its generation if its products are as exact as assumed; else
 * a larger one, or infinity, with which the filter decides nothing.
 */
double		check_accumulation(const Device &device);

}								/* namespace gk */

#endif							/* GK_ACCUMULATION_H */
