/*
 * How fast machines are: peak rates, and the shares of them that a fit achieves.
 *
 * Rough on purpose: good enough to tell jobs of milliseconds from jobs of minutes, and to cut
 * passes into short pieces.  No result depends on it.
 */
#ifndef GK_SPEED_H
#define GK_SPEED_H

/* Operations per second of a thread: in the filter, and elsewhere. */
#define GK_THREAD_FILTER_FLOPS 4e10
#define GK_THREAD_FLOPS 4e9

/*
 * Achieved share of the tensor cores' peak: by the filter alone, by its kernel for rows of many
 * columns, and by a whole iteration.
 */
#define GK_DEVICE_FILTER_SHARE 0.2
#define GK_DEVICE_WIDE_SHARE 0.4
#define GK_DEVICE_FIT_SHARE 0.05

/* Achieved share of the memory bandwidth: by a pass that only reads the rows, and by others. */
#define GK_DEVICE_READ_SHARE 0.4
#define GK_DEVICE_WORK_SHARE 0.1

/* Peak rates assumed for a device that does not report them: those of an NVIDIA H100. */
#define GK_DEVICE_FLOPS 1e15
#define GK_DEVICE_BANDWIDTH 5e12

/*
 * Operations per cycle of a multiprocessor's tensor cores (fp16 products, fp32 sums) by compute
 * capability: from the data sheets of T4, A100, RTX A6000, L40S, H100 and B200.
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
