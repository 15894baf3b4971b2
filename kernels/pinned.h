/*
 * Page-locked host memory, in huge pages: it takes half the time of cudaHostAlloc to get, a fifth
 * to free.
 */
#ifndef GK_PINNED_H
#define GK_PINNED_H

#include "device.h"

namespace gk
{

/* Page-locked memory of one owner, counted.  It is zero at first. */
class PinnedBlock
{
public:
	PinnedBlock(Account &account, uint64_t bytes);
	PinnedBlock(const PinnedBlock &) = delete;
	PinnedBlock & operator=(const PinnedBlock &) = delete;

	/* The memory counts as free; a thread unpins it, 20 ms a gigabyte. */
	~PinnedBlock();

	void	   *data = nullptr;
	uint64_t	bytes;

private:
	int			device;
	Account    &account;
};

/* While one exists, the unpinning thread pauses; otherwise it delays freeing device memory. */
class UnpinningHeld
{
public:
	UnpinningHeld();
	~UnpinningHeld();
};

/* Waits until all memory is freed; before the devices are released. */
void		finish_unpinning();

}								/* namespace gk */

#endif							/* GK_PINNED_H */
