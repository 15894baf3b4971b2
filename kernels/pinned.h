/*
 * Page-locked host memory, in huge pages: a fifth of the time of cudaHostAlloc to give back, half
 * of it to take.
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

	/* The memory counts as given back; the work of it, 20 ms a gigabyte, goes on in a thread. */
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

/* Waits until all memory is given back; before the process gives its devices back. */
void		finish_unpinning();

}								/* namespace gk */

#endif							/* GK_PINNED_H */
