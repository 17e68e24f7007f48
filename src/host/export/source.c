/* Writes the generated source: the text that would be compiled to train the network, with one
 * program for each distinct shape of a target. */
#include "host/export/export.h"

#include "host/core/machine.h"
#include "host/recipe/recipe.h"
#include "jit/programs.h"
#include "jit/tuned.h"

static void put_comment(const kas_programs *programs, int program, kas_buf *out)
{
    const kas_program *p = programs->program[program];
    kas_buf_printf(out, "/* ---- %s: [%u, %u, %u] -> [%u, %u, %u], %u instances, batch %d",
                   p->prefix, p->target.c_in, p->x_h, p->x_w, p->target.c_out, p->target.h,
                   p->target.w, p->target.parts_in * p->target.parts_out, p->batch);
    if (p->pieces > 1)
        kas_buf_printf(out, " in %d pieces", p->pieces);
    if (p->tuned)
        kas_buf_printf(out, ", %d launches with tuned schedules", p->tuned);
    kas_buf_puts(out, "\n * layers:");
    for (int t = 0; t < programs->replacement->solution.targets; t++)
        if (programs->program_of[t] == program)
            kas_buf_printf(out, " %s", programs->replacement->target[t].name);
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

kas_status kas_export_source(const kas_export_net *net, const kas_device_info *tuned_on,
                             kas_buf *out)
{
    kas_programs programs;
    char folder[4096];
    kas_program_options options = {.batch = kas_recipe_default().batch, .training = true};
    if (tuned_on) {
        KAS_TRY(kas_tuned_folder(tuned_on, folder));
        options.tuned = folder;
        options.linear_policy = kas_linear_policy_of(tuned_on->arch);
        options.lanes = kas_cpu_lanes();
        options.piece_bytes = kas_piece_bytes(options.linear_policy, kas_cores());
    }
    KAS_TRY(kas_programs_build(net->replacement, &options, &programs));
    for (int i = 0; i < programs.count; i++) {
        put_comment(&programs, i, out);
        kas_buf_puts(out, programs.program[i]->source);
        kas_buf_puts(out, "\n");
    }
    kas_programs_free(&programs);
    return kas_buf_status(out);
}
