/*
 * Sums over the devices, by NCCL.
 */
#ifndef GK_REDUCE_CUH
#define GK_REDUCE_CUH

#include <memory>
#include <vector>

#include "shard.cuh"

namespace gk
{

/* Makes the devices of the shards ready to sum; once for the process. */
void		open_reduce(const std::vector<std::unique_ptr<Shard>> &shards);

/* sums of every shard := their sum over all shards. */
void		reduce_sums(const std::vector<std::unique_ptr<Shard>> &shards, int64_t count);

/* Gives back the communicators; before the devices. */
void		close_reduce();

}								/* namespace gk */

#endif							/* GK_REDUCE_CUH */
