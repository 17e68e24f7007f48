/* The stand-in for NVIDIA's libraries (docs/design.md, decision 13): what tests can ask of it.
 *
 * libkas_cuda_sim.so exports the functions of src/cuda/cuda_api.h. With $KAS_CUDA_LIBS the CUDA
 * device opens it in the place of NVIDIA's libraries. A launch runs the kernel's own text, built by
 * the host compiler.
 *
 * It checks the following, so that mistakes show which a real GPU would hide or report much later:
 *   - device memory can be touched only while the stand-in runs queued work: the host reading it
 *     crashes, and so does work that was queued on memory freed since;
 *   - memory starts as NaN and lies between guard pages;
 *   - work is queued and done late, at a wait or at a random moment before, streams interleaved at
 *     random and blocks of a launch in random order;
 *   - every pointer given to a library lies in a live allocation of the right device, descriptors
 *     fit each other, and a kernel's block is as wide as its KAS_THREADS;
 *   - what a stream captures is not done, and every launch of its graph does it anew; a call
 *     of the same thread that allocates or waits spoils the capture.
 * With KAS_CUDA_SIM=ptx kernels are compiled by the real NVRTC instead, and their PTX is executed
 * and judged (tests/ptx/ptx.h); the libraries stay the stand-in's own.
 * A broken rule prints "cuda_sim: ..." and aborts. Threads may use it side by side; the controls
 * below may be called only while one thread does.
 *
 * Environment:
 *   KAS_SIM_DEVICES (1), KAS_SIM_SEED (1), KAS_SIM_MEMORY (bytes of one GPU), KAS_SIM_NCCL (22809: the
 *                   version that NCCL says it has);
 *   KAS_CUDA_SIM    "ptx", see above; KAS_PTX_REPORT  a file that gets a line for each kernel of
 *                   a module that is unloaded (docs/ptx.md); KAS_PTX_REQUIRED  without NVRTC the
 *                   process fails; otherwise it ends with 77, which tests/run.sh counts as skipped;
 *   KAS_SIM_FAIL    see kas_sim_fail: "cuMemAlloc_v2:3:2:once"; also ":sticky"; ":hang": the call
 *                   never returns; ":kill": the process ends by SIGKILL; ":delay": the call
 *                   succeeds after as many milliseconds as the code;
 *   KAS_SIM_FAIL_ONCE  a file: of all processes only the one that creates it fails;
 *   KAS_SIM_REFUSE  "cublasLt", "cudnn" or both: the library refuses every problem as not
 *                   supported;
 *   KAS_SIM_LOSE_NAN  "cublasLt", "cudnn", "fastest" (cuDNN's fastest engine) or several: a fused
 *                   ReLU makes 0 of NaN whatever is asked. Otherwise cuBLASLt's ReLU keeps NaN,
 *                   which no documentation says, and cuDNN's does where the attribute asks for it.
 */
#ifndef KAS_TESTS_CUDA_SIM_CONTROL_H
#define KAS_TESTS_CUDA_SIM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the `nth` call from now on (1 = the next) of `function` ("*": of any function, "nccl*": of any
 * that begins so) fail with `code` (0: one that fits the call). `sticky`: the GPU is dead from then on. `function` NULL:
 * nothing fails. */
void kas_sim_fail(const char *function, int nth, int code, bool sticky);
/* Returns whether that failure has taken place. `name` gets the function that failed, with
 * "captured " in front where the call was made while a stream captured. */
bool kas_sim_failed(char name[64]);
/* Returns the number of objects that exist: allocations, streams, events, modules, contexts,
 * handles, descriptors. */
int kas_sim_live(void);
/* Counts launches, library products and convolutions done so far. */
void kas_sim_counts(int *launches, int *matmuls, int *convolutions);
/* kas_sim_waits counts the calls so far in which the host waited for the device (freeing
 * memory, and copies to or from memory that is not page-locked, are among them), and how many
 * of those waited for the last work of their stream: the device is then idle until the host
 * gives it more. kas_sim_makings counts the calls that make something: memory, streams, events,
 * modules, graphs, handles. */
void kas_sim_waits(int *all, int *idle);
int kas_sim_makings(void);
/* Counts launches of graphs; their parts count above */
int kas_sim_graphs(void);
/* Counts the plans that cuDNN was asked to make, also those that it refused */
int kas_sim_plans(void);
void kas_sim_refuse(const char *libraries);   /* as KAS_SIM_REFUSE */
void kas_sim_lose_nan(const char *libraries); /* as KAS_SIM_LOSE_NAN */
/* Returns the minor version that the stand-in's NVRTC would have if it added that text to every
 * kernel's; NULL: the text that it does add. So images of a stand-in that checks other things are
 * not taken from a cache. */
int kas_sim_version(const char *added);
void kas_sim_reset(void); /* clears counts, failures and sticky errors; objects stay */

#endif
