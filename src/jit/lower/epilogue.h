/* Epilogues: what a network does with a layer's output (device/epilogue.h), done by the kernel that
 * writes it.
 *
 * The value of Y becomes an operand of the epilogue's expression. Schedule, check and emission are
 * those of every kernel, so lanes, 16-byte accesses and the proof of every address need nothing
 * special. The four vectors of a norm are loaded by channel, the residual by element. Other folders
 * include this header. */
#ifndef KAS_JIT_LOWER_EPILOGUE_H
#define KAS_JIT_LOWER_EPILOGUE_H

#include "jit/ir/ir.h"

/* The tensors that the caller gives, and the indices of an element of Y: its channel and
 * its flat address. */
typedef struct kas_epilogue_tensors {
    int norm[KAS_NORM_PARTS], residual;
    kas_ix channel, address;
} kas_epilogue_tensors;

/* Returns whether a kernel that computes this value and reads what an epilogue reads is within the
 * limits of one kernel. */
bool kas_epilogue_fits(const kas_ir *ir, kas_ex value);
/* Adds the epilogue's tensors for Y to the IR. Call it after kas_rows_find. */
void kas_epilogue_add_tensors(kas_ir *ir, int y, kas_epilogue_tensors *out);
/* Returns the expression of the epilogue over `value`, which is what Y's own kernel writes. */
kas_ex kas_epilogue_value(kas_ir *ir, const kas_epilogue_tensors *tensors, kas_ex value,
                          kas_epilogue epilogue);

#endif
