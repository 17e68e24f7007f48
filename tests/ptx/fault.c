/* Messages of what is wrong, and memory that must be there. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/run.h"

void *ptx_new(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (memory)
        return memory;
    fputs("ptx: out of memory\n", stderr);
    abort();
}

bool ptx_fault(char fault[PTX_FAULT], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault, PTX_FAULT, format, args);
    va_end(args);
    return false;
}

bool ptx_run_fault(const ptx_run_state *x, const ptx_warp *w, const ptx_instruction *i, int lane,
                   const char *format, ...)
{
    const uint32_t *s = (const uint32_t *)w->place[PTX_SPECIAL_REGISTER] + lane;
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(x->fault, PTX_FAULT,
             "%s: %s (block %u,%u,%u, thread %u,%u,%u, line %d of the PTX: %.120s)", x->f->name,
             what, x->at[0], x->at[1], x->at[2], s[PTX_TID_X * PTX_LANES], s[PTX_TID_Y * PTX_LANES],
             s[PTX_TID_Z * PTX_LANES], i->line, i->text);
    return false;
}
