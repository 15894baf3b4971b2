/*
 * How fast machines are: what a device says of itself, and the share of it that a fit makes use of.
 *
 * Rough on purpose.  It tells jobs of milliseconds from jobs of minutes, and cuts passes into pieces
 * that end soon.  No result depends on it.
 */
#ifndef GK_SPEED_H
#define GK_SPEED_H

/* Operations that a thread does in a second: in the filter, and elsewhere. */
#define GK_THREAD_FILTER_FLOPS 4e10
#define GK_THREAD_FLOPS 4e9

/* The shares of a device's tensor cores: of the filter alone, and of a whole iteration. */
#define GK_DEVICE_FILTER_SHARE 0.2
#define GK_DEVICE_FIT_SHARE 0.05

/* The shares of its memory's bandwidth: of a pass that reads the rows, and of one that works on them. */
#define GK_DEVICE_READ_SHARE 0.4
#define GK_DEVICE_WORK_SHARE 0.1

/* What is expected of a device that does not say: as of an NVIDIA H100. */
#define GK_DEVICE_FLOPS 1e15
#define GK_DEVICE_BANDWIDTH 5e12

/*
 * Operations on halves, summed as floats, that the tensor cores of a multiprocessor do in a cycle, by
 * the compute capability: from the data sheets of T4, A100, RTX A6000, L40S, H100 and B200.
 */
static inline double
gk_tensor_flops_a_cycle(int major, int minor)
{
	if (major >= 10)
		return major >= 12 ? 1024 : 8192;
	if (major == 9)
		return 4096;
	if (major == 8)
		return minor == 0 ? 2048 : 1024;
	return 1024;
}

#endif							/* GK_SPEED_H */
