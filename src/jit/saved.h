/* Which of a program's buffers live from the forward to the backward pass. */
#ifndef KAS_JIT_SAVED_H
#define KAS_JIT_SAVED_H

#include "jit/ir/program.h"

/* Gives the scratch buffers that both passes touch the role KAS_ROLE_SAVED, and both kinds their
 * numbers. */
kas_status kas_program_mark_saved(kas_program *program);

#endif
