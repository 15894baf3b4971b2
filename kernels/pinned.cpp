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

/* Blocks smaller than this are freed at once. */
#define LARGE_BYTES (UINT64_C(1) << 20)

/* Mapped memory, and the device that was current when it was page-locked. */
struct Pages
{
	void	   *data;
	uint64_t	bytes;
	int			device;
};

/* Memory to be unpinned.  Never destroyed: static objects may go before the thread ends. */
struct Unpinning
{
	std::mutex	mutex;
	std::vector<Pages> pages;
	std::thread thread;
	bool		running = false;
	int			held = 0;		/* how many */
};

static auto &unpinning = *new Unpinning;

/* Bytes rounded up to whole pages, huge ones if there are any. */
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
	/* copy-on-write after a fork would move pages that a device reads */
	(void) madvise(base + before, bytes, MADV_DONTFORK);
	return base + before;
}

/* Maps and locks memory; false if there is not enough, or not enough may be locked. */
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

/* Unlocks and unmaps memory, on the device that was current then, so that CUDA opens no other. */
static void
unpin(const Pages &pages)
{
	(void) cudaSetDevice(pages.device);
	(void) cudaHostUnregister(pages.data);
	(void) munmap(pages.data, pages.bytes);
}

/* Unpins the listed memory, until the list is empty or the thread is to pause. */
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

/* The thread's main function. */
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

/* Resumes the thread; if there is none, unpins here. */
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

/* Maps and locks memory; if that fails, waits for memory that is still being freed; then throws. */
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

/* Frees the memory. */
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
		/* no memory for the list, or no thread: frees it here */
	}
	unpin(pages);
}

}								/* namespace gk */
