/*
 * Ranges that a profiler shows: commands, and the passes over the rows in them.  Without a profiler
 * a range is a test of a pointer.
 */
#ifndef GK_PROFILE_H
#define GK_PROFILE_H

#if __has_include(<nvtx3/nvtx3.hpp>)
#include <nvtx3/nvtx3.hpp>
#endif

namespace gk
{

#if __has_include(<nvtx3/nvtx3.hpp>)

/* The domain that ranges are listed under. */
struct ProfileDomain
{
	static constexpr const char *name{"gkmeans"};
};

/* From here to the end of the block. */
using ProfileRange = nvtx3::scoped_range_in<ProfileDomain>;

#else

class ProfileRange
{
public:
	explicit ProfileRange(const char *) {}
	~ProfileRange() {}
};

#endif

}								/* namespace gk */

#endif							/* GK_PROFILE_H */
