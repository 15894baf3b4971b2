/*
 * The kernels for any machine: vectors of four (SSE2, NEON), lowered by the compiler.
 */
#include <stdint.h>

#define GK_KERNELS gk_cpu_kernels_generic
#define GK_KERNELS_NAME "generic"
#define GK_PANEL 4
#define GK_WIDTH 4

typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));

/* Four doubles, and two. */
typedef double Q __attribute__((vector_size(32)));
typedef double D2 __attribute__((vector_size(16)));

#define GENERIC static inline __attribute__((always_inline))

/* Four floats from memory, aligned or not. */
GENERIC V
v_load(const float *from)
{
	V			v;

	__builtin_memcpy(&v, from, sizeof(v));
	return v;
}

/* Four floats to memory, aligned or not. */
GENERIC void
v_store(float *to, V v)
{
	__builtin_memcpy(to, &v, sizeof(v));
}

/* Four integers from memory, aligned or not. */
GENERIC VI
vi_load(const int32_t *from)
{
	VI			v;

	__builtin_memcpy(&v, from, sizeof(v));
	return v;
}

/* Four integers to memory, aligned or not. */
GENERIC void
vi_store(int32_t *to, VI v)
{
	__builtin_memcpy(to, &v, sizeof(v));
}

/* The same float in all lanes. */
GENERIC V
v_set(float x)
{
	return (V) {x, x, x, x};
}

/* a where the mask is set, else b. */
GENERIC V
v_select(VI mask, V a, V b)
{
	return (V) ((mask & (VI) a) | (~mask & (VI) b));
}

/* c - a b, rounded twice here. */
GENERIC V
v_fnmadd(V a, V b, V c)
{
	return c - a * b;
}

/* a b - c, rounded twice here. */
GENERIC V
v_fmsub(V a, V b, V c)
{
	return a * b - c;
}

/* The lesser of each lane; b where they do not compare. */
GENERIC V
v_min(V a, V b)
{
	return v_select(a < b, a, b);
}

/* The greater of each lane; b where they do not compare. */
GENERIC V
v_max(V a, V b)
{
	return v_select(a > b, a, b);
}

/* The square root of each lane. */
GENERIC V
v_sqrt(V v)
{
	return (V) {__builtin_sqrtf(v[0]), __builtin_sqrtf(v[1]), __builtin_sqrtf(v[2]),
		__builtin_sqrtf(v[3])};
}

/* One value where a is less than b, another elsewhere. */
GENERIC V
v_if_less(V a, V b, V yes, V no)
{
	return v_select(a < b, yes, no);
}

/* id where value is less than best, else index. */
GENERIC VI
v_take(VI index, V value, V best, int32_t id)
{
	VI			mask = value < best;
	VI			ids = {id, id, id, id};

	return (mask & ids) | (~mask & index);
}

/* A bit for each lane: not (a > b). */
GENERIC uint32_t
v_not_above(V a, V b)
{
	VI			above = a > b;

	return (uint32_t) (15 + above[0] + 2 * above[1] + 4 * above[2] + 8 * above[3]);
}

/* A bit for each lane: a != b. */
GENERIC uint32_t
v_differs(VI a, VI b)
{
	VI			equal = a == b;

	return (uint32_t) (15 + equal[0] + 2 * equal[1] + 4 * equal[2] + 8 * equal[3]);
}

/* Two doubles of two floats. */
GENERIC D2
d_load(const float *from)
{
	return (D2) {from[0], from[1]};
}

/* The square root of each lane. */
GENERIC Q
q_sqrt(Q q)
{
	return (Q) {__builtin_sqrt(q[0]), __builtin_sqrt(q[1]), __builtin_sqrt(q[2]),
		__builtin_sqrt(q[3])};
}

/* Four doubles of four floats. */
GENERIC Q
q_widen(V four)
{
	return (Q) {four[0], four[1], four[2], four[3]};
}

/* Rows to columns. */
GENERIC void
turn_4x4(Q *v)
{
	for (int i = 1; i < 4; i++)
		for (int j = 0; j < i; j++)
		{
			double		above = v[j][i];

			v[j][i] = v[i][j];
			v[i][j] = above;
		}
}

#include "kernels_template.h"
