/*
 * Page-locked host memory, and the thread that frees it.
 */
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/mman.h>

#include "pinned.h"

namespace gk
{

#define HUGE_PAGE (UINT64_C(2) << 20)

/* Less than this is freed at once. */
#define LARGE_BYTES (UINT64_C(1) << 20)

/* Mapped memory, page-locked while some device was the current one. */
struct Pages
{
	void	   *data;
	uint64_t	bytes;
	int			device;
};

/* Memory yet to be unpinned.  Never destroyed: static objects may go before the thread. */
struct Unpinning
{
	std::mutex	mutex;
	std::vector<Pages> pages;
	std::thread thread;
	bool		running = false;
	int			held = 0;		/* by so many */
};

static auto &unpinning = *new Unpinning;

/* So many bytes rounded up to whole pages, huge ones if there are some. */
static uint64_t
whole_pages(uint64_t bytes)
{
	uint64_t	page = bytes < HUGE_PAGE ? 4096 : HUGE_PAGE;

	return (bytes + page - 1) / page * page;
}

/* Maps memory that begins at a huge page if it is as large as one; NULL if there is none. */
static void *
map(uint64_t bytes)
{
	uint64_t	slack = bytes < HUGE_PAGE ? 0 : HUGE_PAGE;
	char	   *base = (char *) mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
									 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t	before;

	if (base == MAP_FAILED)
		return nullptr;
	before = slack == 0 ? 0 : (HUGE_PAGE - (uint64_t) base % HUGE_PAGE) % HUGE_PAGE;
	if (before > 0)
		(void) munmap(base, before);
	if (slack > before)
		(void) munmap(base + before + bytes, slack - before);
	(void) madvise(base + before, bytes, MADV_HUGEPAGE);
	/* a child's copy on write would move pages that a device reads */
	(void) madvise(base + before, bytes, MADV_DONTFORK);
	return base + before;
}

/* Maps and locks; false if there is not so much memory, or not so much may be locked. */
static bool
pin(Pages *pages)
{
	cudaError_t error;

	GK_CUDA(cudaGetDevice(&pages->device));
	pages->data = map(pages->bytes);
	if (pages->data == nullptr)
		return false;
	error = GK_ATTEMPT(cudaHostRegister(pages->data, pages->bytes,
										cudaHostRegisterPortable | cudaHostRegisterMapped));
	if (error == cudaSuccess)
		return true;
	(void) cudaGetLastError();
	(void) munmap(pages->data, pages->bytes);
	if (error != cudaErrorMemoryAllocation)
		check(error, "cudaHostRegister");
	return false;
}

/* Unlocks and unmaps; on the device that was current, so that CUDA opens no other. */
static void
unpin(const Pages &pages)
{
	(void) cudaSetDevice(pages.device);
	(void) cudaHostUnregister(pages.data);
	(void) munmap(pages.data, pages.bytes);
}

/* Unpins what is listed, to the end or until the thread is to pause. */
static void
unpin_listed(std::unique_lock<std::mutex> &lock, bool to_the_end)
{
	while (!unpinning.pages.empty() && (to_the_end || unpinning.held == 0))
	{
		Pages		pages = unpinning.pages.back();

		unpinning.pages.pop_back();
		lock.unlock();
		unpin(pages);
		lock.lock();
	}
}

/* The thread. */
static void
run_unpinning()
{
	std::unique_lock<std::mutex> lock(unpinning.mutex);

	unpin_listed(lock, false);
	unpinning.running = false;
}

/* Starts the thread unless it runs or is to pause; throws if no thread can be started. */
static void
start_unpinning()
{
	SignalsBlocked blocked;

	if (unpinning.running || unpinning.held > 0 || unpinning.pages.empty())
		return;
	if (unpinning.thread.joinable())
		unpinning.thread.join();
	unpinning.thread = std::thread(run_unpinning);
	unpinning.running = true;
}

/* Leaves pages to the thread; throws if that fails. */
static void
unpin_later(const Pages &pages)
{
	std::lock_guard<std::mutex> lock(unpinning.mutex);

	unpinning.pages.push_back(pages);
	try
	{
		start_unpinning();
	}
	catch (...)
	{
		unpinning.pages.pop_back();
		throw;
	}
}

/* Pauses the thread. */
UnpinningHeld::UnpinningHeld()
{
	std::lock_guard<std::mutex> lock(unpinning.mutex);

	unpinning.held++;
}

/* Lets the thread go on; without one, it is done here. */
UnpinningHeld::~UnpinningHeld()
{
	std::unique_lock<std::mutex> lock(unpinning.mutex);

	unpinning.held--;
	try
	{
		start_unpinning();
	}
	catch (const std::exception &)
	{
		unpin_listed(lock, false);
	}
}

/* Waits until the thread has ended and all memory is freed. */
void
finish_unpinning()
{
	std::thread ending;
	std::unique_lock<std::mutex> lock(unpinning.mutex);

	ending.swap(unpinning.thread);
	lock.unlock();
	if (ending.joinable())
		ending.join();
	lock.lock();
	unpin_listed(lock, true);
}

/* Maps and locks, if need be after what earlier fits are still giving back; throws if it fails. */
static void
pin_somehow(Pages *pages, const Account &account)
{
	if (pin(pages))
		return;
	finish_unpinning();
	if (!pin(pages))
		fail_memory(GK_NO_HOST_MEMORY, -1, account.used, account.used - pages->bytes,
					"out of page-locked host memory");
}

/* Takes page-locked memory. */
PinnedBlock::PinnedBlock(Account &a, uint64_t size) : bytes(whole_pages(size)), account(a)
{
	Pages		pages = {nullptr, bytes, 0};

	account.add(bytes);
	try
	{
		pin_somehow(&pages, account);
	}
	catch (...)
	{
		account.subtract(bytes);
		throw;
	}
	data = pages.data;
	device = pages.device;
}

/* Gives the memory back. */
PinnedBlock::~PinnedBlock()
{
	Pages		pages = {data, bytes, device};

	account.subtract(bytes);
	try
	{
		if (bytes >= LARGE_BYTES)
		{
			unpin_later(pages);
			return;
		}
	}
	catch (const std::exception &)
	{
		/* no memory for the list, or no thread: it is done here */
	}
	unpin(pages);
}

}								/* namespace gk */
