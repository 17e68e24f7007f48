/* Into how many pieces a program cuts its batch (ir/program.h), so that what one operation writes is
 * still in the core's own cache when the next one reads it. */
#ifndef KAS_JIT_PIECES_H
#define KAS_JIT_PIECES_H

#include "jit/ir/ir.h"
#include "jit/ir/program.h"

/* Returns the number of pieces of equal size by the bytes of X and of Y; 1 where only very small ones
 * divide the batch. */
int kas_pieces_of(const kas_target *target, bool stride_inside, const kas_program_options *options);
/* Returns how many pieces there should be, once a piece is lowered in `pieces` of them: one where no
 * tensor lies between X and Y, and more where such a tensor is several times as large. */
int kas_pieces_within(const kas_ir *ir, const kas_program_options *options, int pieces);
/* Makes a buffer of one piece's bytes hold all pieces, `step` bytes apart. */
void kas_pieces_cut(const kas_program *program, kas_buffer *buffer, size_t step);

#endif
