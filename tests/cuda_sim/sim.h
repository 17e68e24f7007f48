/* What the files of the stand-in share. */
#ifndef KAS_TESTS_CUDA_SIM_SIM_H
#define KAS_TESTS_CUDA_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "control.h"
#include "cuda/cuda_api.h"

enum { SIM_MAX_DEVICES = 16, SIM_IMAGE_FORMAT = 3 };
static const char sim_image_magic[8] = "KASSIM\n";

_Noreturn void sim_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lets a process that was forked from one that had initialised the driver initialise it, too. */
void sim_driver_reset(void);

uint32_t sim_random(uint32_t below);

/* ---- failures -------------------------------------------------------------------------------- */

/* Counts a call and returns 0 or the code that the call must return. `fitting` is the code for a
 * plain failure of this call, `dead` the code that its library returns once the GPU is dead (0: the
 * call goes on working). */
int sim_call(const char *name, int fitting, int dead);

/* Does so for a call that must not wait for another thread: it is not counted while one holds the
 * lock, and no work of streams is done. */
int sim_planted(const char *name, int fitting);

/* Locks the stand-in from here to the function's end, because each thread may have a device. */
int sim_enter(void);
void sim_leave(int *held);
#define SIM_LOCKED() __attribute__((cleanup(sim_leave), unused)) int sim_held_ = sim_enter()
#define SIM_CALL(name, fitting, dead)                                                              \
    SIM_LOCKED();                                                                                  \
    do {                                                                                           \
        int sim_code_ = sim_call(#name, (fitting), (dead));                                        \
        if (sim_code_)                                                                             \
            return sim_code_;                                                                      \
    } while (0)
extern int sim_sticky; /* the error of a dead GPU, or 0 */
bool sim_refuses(const char *library);
bool sim_loses_nan(const char *library);
extern int sim_live, sim_launches, sim_matmuls, sim_convolutions, sim_graphs, sim_plans, sim_waits,
    sim_idle_waits;

/* ---- memory ---------------------------------------------------------------------------------- */

CUresult sim_alloc(int device, size_t bytes, void **out);
bool sim_free(void *memory); /* returns false when it is not the start of an allocation */
size_t sim_used(int device);
size_t sim_capacity(void);
/* Aborts unless [p, p + bytes) lies in one live allocation of the device. */
void sim_check_range(const char *what, int device, const void *p, size_t bytes);
void sim_unlock_memory(void);
void sim_lock_memory(void);

/* ---- elements of matrices and tensors -------------------------------------------------------- */

typedef enum sim_number { SIM_F32, SIM_F16, SIM_BF16 } sim_number;
size_t sim_number_size(sim_number number);
float sim_load(sim_number number, const void *memory, int64_t i);
void sim_store(sim_number number, void *memory, int64_t i, double value); /* rounds to nearest */

/* ---- streams --------------------------------------------------------------------------------- */

struct CUctx_st {
    int device, references;
    unsigned flags;
};
extern _Thread_local CUcontext sim_context;

/* Queues run(data), or adds it to the graph that the stream captures. `data`, of `bytes` bytes and
 * without pointers to memory of its own, is freed afterwards. */
typedef void sim_work(void *data);
void sim_enqueue(CUstream stream, sim_work *run, void *data, size_t bytes);
/* Returns 0, or the code that this call, which allocates or waits, must return because a stream
 * captures for this thread; the capture is then spoilt. */
int sim_spoils_capture(void);
bool sim_capturing(void); /* whether a stream captures for this thread */
bool sim_captures(CUstream stream);
/* Returns whether a graph that exists has such work, whose data begins with this pointer. */
bool sim_in_a_graph(sim_work *run, const void *first);
#define SIM_NOT_IN_CAPTURE()                                                                       \
    do {                                                                                           \
        if (sim_spoils_capture())                                                                  \
            return KAS_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                      \
    } while (0)
void *sim_new(size_t bytes); /* returns zeroed memory; aborts when there is none */
int sim_stream_device(CUstream stream);
void sim_drain(CUstream stream); /* NULL: all streams */
/* For work: pretends that it took this long, as events see it. */
void sim_pass_time(int microseconds);
void sim_some_progress(void);

#endif
