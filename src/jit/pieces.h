/* The text of a candidate's programs, cut into pieces that are compiled apart.
 *
 * Cut between kernels, so that several cores can compile one candidate; a piece should hold many
 * kernels, because starting the compiler and reading the prelude cost as much as a kernel or more.
 * The cut depends on the text and the architecture alone, so that whoever compiles a candidate
 * ahead of need finds the same pieces. */
#ifndef KAS_JIT_PIECES_H
#define KAS_JIT_PIECES_H

#include "host/core/buf.h"
#include "jit/program.h"

typedef struct kas_pieces {
    int count;
    kas_buf *text; /* [count] */
} kas_pieces;

/* Cuts the texts of `programs`, whose equal kernels may be shared (share.h), for `arch`
 * (compile.h). Sets `piece` of every launch. kas_pieces_free frees, also after a failure. */
kas_status kas_pieces_cut(kas_program *const *program, int programs, const char *arch,
                          kas_pieces *out);
void kas_pieces_free(kas_pieces *pieces);

#endif
