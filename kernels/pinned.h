/*
 * Page-locked host memory in huge pages: allocation takes half the time of cudaHostAlloc,
 * freeing a fifth.
 */
#ifndef GK_PINNED_H
#define GK_PINNED_H

#include "device.h"

namespace gk
{

/* Page-locked memory of one owner, counted.  It is initially zero. */
class PinnedBlock
{
public:
	PinnedBlock(Account &account, uint64_t bytes);
	PinnedBlock(const PinnedBlock &) = delete;
	PinnedBlock & operator=(const PinnedBlock &) = delete;

	/* Counts the memory as free; a thread unpins it, at 20 ms a gigabyte. */
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
