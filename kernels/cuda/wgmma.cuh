/*
 * Hopper's tensor cores: products of rows and centroids in tiles in shared memory.
 */
#ifndef GK_WGMMA_CUH
#define GK_WGMMA_CUH

#include <cuda/ptx>

#include "filter.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#endif

#ifdef HAS_WGMMA

namespace gk
{

/* wgmma's descriptor of a tile: 1024 bytes from 8 rows to the next 8, 128-byte swizzle. */
static __device__ __forceinline__ uint64_t
describe(const __half *tile)
{
	return (uint64_t) (shared_address(tile) & 0x3ffff) >> 4 | UINT64_C(1) << 16 |
		UINT64_C(64) << 32 | UINT64_C(1) << 62;
}

#define FOUR(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define SIXTEEN(n) FOUR(n), FOUR(n + 1), FOUR(n + 2), FOUR(n + 3)

/* sums (+)= 64 rows × 64 centroids, 16 deep. */
static __device__ __forceinline__ void
multiply(float (&sums)[8][4], uint64_t a, uint64_t b, int more)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
				 "%32, %33, p, 1, 1, 0, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4) : "l"(a), "l"(b), "r"(more));
}

/* sums (+)= 64 rows × 128 centroids, 16 deep. */
static __device__ __forceinline__ void
multiply(float (&sums)[16][4], uint64_t a, uint64_t b, int more)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
				 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
				 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
				 "%64, %65, p, 1, 1, 0, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12) : "l"(a), "l"(b), "r"(more));
}

/* The low half of describe(); the high one is the same for all tiles. */
#define DESCRIBED_HIGH 0x40000040
static __device__ __forceinline__ uint32_t
describe_low(uint32_t address)
{
	return (address & 0x3ffff) >> 4 | 1 << 16;
}

/*
 * sums (+)= 64 rows × 128 centroids, 16 deep; a thread has its share of the rows in registers, b
 * is the low half of a description.
 */
static __device__ __forceinline__ void
multiply(float (&sums)[16][4], const uint32_t (&a)[4], uint32_t b, int more)
{
	asm volatile("{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %69, 0;\nmov.b64 b, {%68, %70};\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
				 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
				 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
				 "{%64,%65,%66,%67}, b, p, 1, 1, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12)
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(more),
				   "n"(DESCRIBED_HIGH));
}

/* sums (+)= 64 rows × 256 centroids, 16 deep. */
static __device__ __forceinline__ void
multiply(float (&sums)[32][4], uint64_t a, uint64_t b, int more)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
				 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
				 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
				 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
				 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
				 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
				 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,"
				 "%124,%125,%126,%127}, "
				 "%128, %129, p, 1, 1, 0, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12), SIXTEEN(16), SIXTEEN(20),
				   SIXTEEN(24), SIXTEEN(28) : "l"(a), "l"(b), "r"(more));
}

#undef SIXTEEN
#undef FOUR

/* Orders earlier writes of sums and tiles before later products. */
static __device__ __forceinline__ void
start_products()
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Commits the products since the last group as a group. */
static __device__ __forceinline__ void
commit_products()
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most N groups of products are in flight. */
template <int N> static __device__ __forceinline__ void
wait_products()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}

/* sums (+)= tiles of 64 rows and N × 8 centroids, `steps` × 16 deep, as one group. */
template <int N> static __device__ __forceinline__ void
multiply_tile(float (&sums)[N][4], uint64_t a, uint64_t b, int steps, bool first)
{
	start_products();
	if (steps == TILE_COLUMNS / 16)
	{
		multiply(sums, a, b, !first);
		multiply(sums, a + 2, b + 2, 1);
		multiply(sums, a + 4, b + 4, 1);
		multiply(sums, a + 6, b + 6, 1);
	}
	else
		for (int step = 0; step < steps; step++)
			multiply(sums, a + step * 2, b + step * 2, !first || step > 0);
	commit_products();
}

/* Makes stores to shared memory visible to wgmma, once a barrier follows. */
static __device__ __forceinline__ void
publish_stores()
{
	cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
}

}								/* namespace gk */

#endif							/* HAS_WGMMA */

#endif							/* GK_WGMMA_CUH */
