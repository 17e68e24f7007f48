/* Emission: writes the text of one scheduled kernel in the dialect (docs/dialect.md).
 *
 * Each expression becomes one named value in the outermost place where its variables exist. A long
 * reduction whose result each lane needs runs outside the lanes, its sums kept in KAS_LANE values:
 *
 *     KAS_LANE(float, s0, 64);
 *     KAS_THREADS (i, 64) { KAS_OF(s0, i) = 0.0f; }
 *     for (int v3 = 0; v3 < 1024; v3++)
 *         KAS_THREADS (i, 64) { KAS_OF(s0, i) += ...; }
 *     KAS_THREADS (i, 64) { p1[...] = KAS_OF(s0, i); }
 *
 * so that the lanes vectorise on the CPU and stay coalesced on the GPU. Other folders
 * include this header. */
#ifndef KAS_JIT_EMIT_EMIT_H
#define KAS_JIT_EMIT_EMIT_H

#include "host/core/buf.h"
#include "jit/schedule/schedule.h"

/* Appends the kernel `name` and its argument struct to `out`. args[0..*count) get the tensors whose
 * addresses the struct holds, those that are written last. Returns KAS_UNSUPPORTED when there are
 * more than KAS_MAX_LAUNCH_ARGS. */
kas_status kas_emit_kernel(const kas_ir *ir, const kas_nest *nest, const char *name, kas_buf *out,
                           int args[KAS_MAX_LAUNCH_ARGS], int *count);

#endif
