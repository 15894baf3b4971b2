/*
 * Sums over the devices, by NCCL.
 */
#ifndef GK_NCCL_H
#define GK_NCCL_H

#include <memory>
#include <vector>

#include "shard.h"

namespace gk
{

/* Prepares devices for sums; once in a process. */
void		open_reduce(const std::vector<Device *> &devices);

/* totals of every shard := the sums of all shards. */
void		reduce_sums(const std::vector<std::unique_ptr<Shard>> &shards, int64_t count);

/* Aborts a sum that does not end; the next engine connects its devices again. */
void		abort_reduce(const std::vector<std::unique_ptr<Shard>> &shards);

/* Destroys the communicators; before the devices are released. */
void		close_reduce();

}								/* namespace gk */

#endif							/* GK_NCCL_H */
