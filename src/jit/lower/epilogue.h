/* Epilogues: what a network does with the layer's output (device/epilogue.h), as part of the kernel
 * that writes it.
 *
 * The value of Y becomes an operand of the epilogue's expression; schedule, check and emission are
 * those of every kernel, so that lanes, 16-byte accesses and the proof of every address come by
 * themselves.  Loads of the four vectors are a channel's, the residual's the element's own.  Other
 * folders include this header. */
#ifndef KAS_JIT_LOWER_EPILOGUE_H
#define KAS_JIT_LOWER_EPILOGUE_H

#include "jit/ir/ir.h"

/* Tensors that the caller gives; the indices of what is computed for an element of Y. */
typedef struct kas_epilogue_tensors {
    int norm[KAS_NORM_PARTS], residual;
    kas_ix channel, address;
} kas_epilogue_tensors;

/* Whether a kernel of this value, and what an epilogue reads, is within the limits of one kernel.
 */
bool kas_epilogue_fits(const kas_ir *ir, kas_ex value);
/* After kas_rows_find. */
void kas_epilogue_add_tensors(kas_ir *ir, int y, kas_epilogue_tensors *out);
/* `value`: what Y's own kernel writes. */
kas_ex kas_epilogue_value(kas_ir *ir, const kas_epilogue_tensors *tensors, kas_ex value,
                          kas_epilogue epilogue);

#endif
