#include "host/space/canvas/workshop.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/commute.h"

kas_status kas_workshop_open(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_workshop *out)
{
    *out = (kas_workshop){.options = *options, .count = count};
    if (count < 1)
        return kas_fail(KAS_BAD_INPUT, "there is no convolution to replace");
    out->target = malloc((size_t)count * sizeof *out->target);
    if (!out->target)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d targets", count);
    memcpy(out->target, targets, (size_t)count * sizeof *out->target);
    KAS_TRY(kas_growth_create(&out->options, out->target, count, &out->growth));
    if (options->space == KAS_SPACE_CANVAS)
        KAS_TRY(kas_guided_create(&out->options, out->target, count, out->growth, &out->guided));
    return kas_solver_create(out->target, count, &out->solver);
}

kas_status kas_workshop_open_guided(const char *what, const kas_sample_options *options,
                                    const kas_target *targets, int count, kas_workshop *out)
{
    *out = (kas_workshop){0};
    if (options->space != KAS_SPACE_CANVAS)
        return kas_fail(KAS_USAGE,
                        "--space nas-pte: its samples are sequences of transformations, and %s are "
                        "made of primitives; use --space canvas, where kernels of either space "
                        "can be parents or come first",
                        what);
    return kas_workshop_open(options, targets, count, out);
}

void kas_workshop_close(kas_workshop *w)
{
    kas_guided_free(&w->guided);
    kas_solver_free(w->solver);
    kas_growth_free(w->growth);
    free(w->target);
    *w = (kas_workshop){0};
}

kas_status kas_workshop_complete(kas_workshop *w, kas_reject *why)
{
    kas_kernel *kernel = &w->growth->kernel;
    KAS_TRY(kas_kernel_canonicalize_unordered(kernel, kernel));
    return kas_reject_of(kas_solver_run(w->solver, kernel, &w->options.budget), why);
}

kas_status kas_workshop_take(const kas_workshop *w, kas_replacement *out)
{
    *out = (kas_replacement){.target = w->target};
    KAS_TRY(kas_solver_solution(w->solver, &out->solution));
    return kas_replacement_set(out, &w->growth->kernel, 1, NULL);
}
