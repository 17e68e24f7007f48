/* What a GPU adds to the times of a launch: caches that other launches fill, blocks that wait for a
 * place, threads that wait for their loads. Internal to predict.
 *
 * A multiprocessor keeps as many blocks as threads and registers allow; more blocks come in waves,
 * one after the other. Within a wave all threads wait at the same time, so the latency of a launch
 * is that of one thread, as often as there are waves: its rounds of loads, each as long as a read
 * of L1, L2 or memory (schedule/waits.c counts the rounds). Many rounds with few threads leave
 * memory idle, which is why the latency can exceed the time of all bytes. */
#ifndef KAS_PREDICT_GPU_H
#define KAS_PREDICT_GPU_H

#include "host/predict/predict.h"

/* Returns the seconds of moving what a launch must, once. */
double kas_gpu_memory(const kas_machine *machine, double bytes);
/* Returns the seconds of a read that L1 does not hold, in a launch that moves `bytes`. */
double kas_gpu_latency(const kas_machine *machine, double bytes);
/* Returns how many lanes of warps a launch takes for each of its own: a row that is shorter than
 * the block's threads leaves some idle, and so does a block that is no multiple of a warp. */
double kas_gpu_idle(const kas_machine *machine, const kas_operation *op);
/* Sets memory, arithmetic and latency of a generated kernel's launch; `steps` of the machine's
 * cores. */
void kas_gpu_generated(const kas_machine *machine, const kas_operation *op, double steps,
                       double part[KAS_BOUNDS]);

#endif
