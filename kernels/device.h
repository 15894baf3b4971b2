/*
 * Devices and their memory: contexts that stay for the process, memory that is counted
 * against a limit, and a mapping that grows in place.
 */
#ifndef GK_DEVICE_H
#define GK_DEVICE_H

#include <atomic>
#include <cstdint>
#include <vector>

#include <cuda_runtime.h>

#include "check.h"

namespace gk
{

/* Bytes of a device to leave free: the driver needs them to run kernels. */
#define DRIVER_RESERVE (UINT64_C(256) << 20)

/* Blocks all signals in this thread, and so in the threads that libraries start meanwhile. */
class SignalsBlocked
{
public:
	SignalsBlocked();
	~SignalsBlocked();

private:
	unsigned char saved[128];	/* a sigset_t */
};

/* Peak speed of a device, per second. */
struct Speed
{
	double		flops;			/* of 16-bit products in the tensor cores */
	double		bandwidth;		/* bytes of its memory */
};

/* The speed of a device, from its attributes; opens nothing. */
Speed		speed_of(int ordinal);

/* A device of this process. */
struct Device
{
	int			ordinal;
	int			major;			/* compute capability */
	int			minor;
	int			processors;
	bool		cooperative;	/* blocks of a kernel can wait for each other */
	bool		warpgroups;		/* the library has kernels whose products are by warpgroups */
	Speed		speed;
	double		accumulation;	/* the factor of accumulation_bound() */
	size_t		shared_memory;	/* bytes that a block can have */
	uint64_t	total_memory;
	cudaStream_t compute;
	cudaStream_t copy;
	std::atomic<uint64_t> own_bytes{0};	/* of all engines of this process */
};

/* Opens a device, once for the process. */
Device	   *open_device(int ordinal);

/* A device that this process has open, or NULL. */
Device	   *find_device(int ordinal);

/* Releases all devices; no engine may be open. */
void		close_devices();

/* Bytes in use against a limit. */
class Account
{
public:
	void		add(uint64_t bytes);	/* throws if a shared account refuses */
	void		subtract(uint64_t bytes);
	bool		has_room(uint64_t bytes) const { return used + bytes <= limit; }

	uint64_t	limit = UINT64_MAX;
	bool		full = false;	/* the limit is the device's memory, not a setting */
	Device	   *device = nullptr;	/* that counts them too, if any */
	bool		(*draw) (uint64_t bytes) = nullptr;	/* of a shared account, if any */
	void		(*give_back) (uint64_t bytes) = nullptr;
	std::atomic<uint64_t> used{0};
	std::atomic<uint64_t> peak{0};
};

class MemoryOwner;

/*
 * Device memory for small blocks: few calls allocate and free it.  What is taken is used by one
 * stream, or between synchronisations; what is returned is taken again only if it was the last.
 */
class Arena
{
public:
	Arena() = default;
	Arena(const Arena &) = delete;
	Arena & operator=(const Arena &) = delete;
	~Arena();

	/* Allocates so many bytes, unless that would be much of the device's. */
	void		open(MemoryOwner &owner, uint64_t bytes);

	/* Takes memory, aligned to 512 bytes; NULL if there is no room. */
	void	   *take(uint64_t bytes);
	void		put_back(void *data, uint64_t bytes);
	bool		has_room(uint64_t bytes) const { return used + bytes <= size; }
	bool		is_open() const { return holder != nullptr; }

private:
	MemoryOwner *holder = nullptr;
	char	   *base = nullptr;
	uint64_t	size = 0;
	uint64_t	used = 0;
	int			taken = 0;		/* blocks */
};

/* Makes room on a device that is full, by moving rows off it. */
class MemoryOwner
{
public:
	virtual void make_room(uint64_t bytes) = 0;

	Device	   *device = nullptr;
	Account		account;
	Arena		arena;			/* goes before the account */
	Arena		pool;			/* for blocks of some MB, opened with the first of them */

protected:
	~MemoryOwner() = default;
};

/* Memory of a device for `count` values; freed with the object. */
class Block
{
public:
	Block() = default;
	Block(const Block &) = delete;
	Block & operator=(const Block &) = delete;
	~Block() { release(); }

	/* At least this many bytes; growing loses the contents. */
	void		reserve(MemoryOwner &owner, uint64_t wanted);
	void		release();

	void	   *data = nullptr;
	uint64_t	bytes = 0;

private:
	MemoryOwner *holder = nullptr;
	Arena	   *arena = nullptr;	/* that it was taken from, if any */
};

/* A block of values of one type. */
template <typename T> class Buffer
{
public:
	void		reserve(MemoryOwner &owner, uint64_t count)
	{
		block.reserve(owner, count * sizeof(T));
	}
	void		release() { block.release(); }
	T		   *get() const { return (T *) block.data; }
	uint64_t	capacity() const { return block.bytes / sizeof(T); }

private:
	Block		block;
};

/*
 * Device memory at one address that grows and shrinks at its end: in pieces of 16 MB, later of
 * 1/128 of its size up to 256 MB, because each takes 20 µs to free.  Little is at first in the
 * arena, and moves when it grows; the copy stream alone may use it then.
 */
class Mapping
{
public:
	Mapping() = default;
	Mapping(const Mapping &) = delete;
	Mapping & operator=(const Mapping &) = delete;
	~Mapping() { release(); }

	/* Grows to at least this many bytes; false if the limit or the device has no room. */
	bool		grow(MemoryOwner &owner, uint64_t wanted);

	/* Shrinks to what this many bytes need. */
	void		shrink(uint64_t wanted);
	void		release();

	void	   *data() const { return small != nullptr ? small : (void *) base; }
	uint64_t	after(MemoryOwner &owner, uint64_t wanted);	/* size after grow(wanted) */

private:
	void		set_up(MemoryOwner &owner);
	uint64_t	next_piece(uint64_t there) const;
	bool		add_piece(uint64_t bytes);
	bool		is_small(const MemoryOwner &owner, uint64_t wanted) const;
	void		leave_arena(MemoryOwner &owner);

	MemoryOwner *holder = nullptr;
	unsigned long long base = 0;
	uint64_t	reserved = 0;
	uint64_t	least_piece = 0;
	uint64_t	mapped = 0;
	std::vector<uint64_t> pieces;
	void	   *small = nullptr;	/* in the arena */
	Arena	   *arena = nullptr;
};

}								/* namespace gk */

#endif							/* GK_DEVICE_H */
