/* Generated source: the text that would be compiled to train the network, one program for each
 * distinct shape of target. */
#include "host/export/export.h"

#include "host/recipe/recipe.h"
#include "jit/replaced.h"

static void put_comment(const kas_replaced *replaced, int program, kas_buf *out)
{
    const kas_program *p = replaced->program[program];
    kas_buf_printf(out,
                   "/* ---- %s: [%u, %u, %u] -> [%u, %u, %u], %u instances, batch %d\n"
                   " * layers:",
                   p->prefix, p->target.c_in, p->target.h, p->target.w, p->target.c_out,
                   p->target.h, p->target.w, p->target.parts_in * p->target.parts_out, p->batch);
    for (int t = 0; t < replaced->targets; t++)
        if (replaced->program_of[t] == program)
            kas_buf_printf(out, " %s", replaced->target[t].name);
    kas_buf_puts(out, "\n");
    const kas_operation *passes[] = {p->forward, p->backward};
    const int counts[] = {p->forwards, p->backwards};
    for (int k = 0; k < 2; k++) {
        kas_buf_printf(out, " * %s:", k == 0 ? "forward" : "backward");
        for (int i = 0; i < counts[k]; i++) {
            bool launch = passes[k][i].kind == KAS_OPERATION_LAUNCH;
            kas_buf_printf(out, " %s", launch ? passes[k][i].function : "(library convolution)");
        }
        kas_buf_puts(out, "\n");
    }
    kas_buf_puts(out, " */\n");
}

kas_status kas_export_source(const kas_export_net *net, kas_buf *out)
{
    kas_replaced replaced = {0};
    KAS_TRY(kas_replaced_build(
        net->replacement,
        &(kas_program_options){.batch = kas_recipe_default().batch, .training = true}, &replaced));
    for (int i = 0; i < replaced.programs; i++) {
        put_comment(&replaced, i, out);
        kas_buf_puts(out, replaced.program[i]->source);
        kas_buf_puts(out, "\n");
    }
    kas_replaced_free(&replaced);
    return kas_buf_status(out);
}
