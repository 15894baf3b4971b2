/*
 * NVTX ranges: commands, and their passes over the rows.  Without a profiler a range costs the
 * test of a pointer.
 */
#ifndef GK_PROFILE_H
#define GK_PROFILE_H

#if __has_include(<nvtx3/nvtx3.hpp>)
#include <nvtx3/nvtx3.hpp>
#endif

namespace gk
{

#if __has_include(<nvtx3/nvtx3.hpp>)

/* The domain of the ranges. */
struct ProfileDomain
{
	static constexpr const char *name{"gkmeans"};
};

/* A range from here to the end of the block. */
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
