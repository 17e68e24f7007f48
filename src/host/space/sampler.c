#include "host/space/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/grow.h"
#include "host/space/nas_pte.h"

kas_sample_options kas_sample_defaults(void)
{
    return (kas_sample_options){.min_primitives = 3, .max_primitives = 12, .max_width = 3};
}

const char *kas_reject_name(kas_reject why)
{
    static const char *const names[KAS_REJECT_COUNT] = {
        "accepted",    "dead end",  "output shape", "redundant", "no integer sizes",
        "over budget", "too large", "duplicate",    "no weight", "sees one pixel"};
    return (unsigned)why < KAS_REJECT_COUNT ? names[why] : "unknown";
}

const char *kas_space_name(kas_space space)
{
    static const char *const names[KAS_SPACE_COUNT] = {"canvas", "nas-pte"};
    return (unsigned)space < KAS_SPACE_COUNT ? names[space] : "unknown";
}

int kas_space_find(const char *name)
{
    for (int space = 0; space < KAS_SPACE_COUNT; space++)
        if (strcmp(kas_space_name((kas_space)space), name) == 0)
            return space;
    return -1;
}

/* Both spaces leave a complete kernel, or say why there is none. */
static kas_reject draw_kernel(kas_growth *g, const kas_target *targets, int count, uint64_t attempt)
{
    if (g->options->space == KAS_SPACE_CANVAS)
        return kas_grow(g, targets, count, attempt);
    kas_pte_sequence sequence;
    kas_rng rng = kas_rng_make(g->options->seed ^ ((uint64_t)KAS_PTE_VERSION << 48),
                               KAS_PURPOSE_SAMPLE, attempt);
    bool redundant;
    kas_pte_draw(&rng, &sequence, &g->kernel);
    if (sequence.steps == 0 || kas_pte_is_redundant(&sequence, &redundant) != KAS_OK)
        return KAS_REJECT_DEAD_END;
    return redundant ? KAS_REJECT_REDUNDANT : KAS_REJECT_NONE;
}

/* An attempt in memory that is there already; leaves the kernel canonical in g->kernel. */
static kas_status attempt_in(kas_growth *g, kas_solver *solver, const kas_target *targets,
                             int count, uint64_t attempt, kas_reject *why)
{
    *why = draw_kernel(g, targets, count, attempt);
    if (*why != KAS_REJECT_NONE)
        return KAS_OK;
    KAS_TRY(kas_kernel_canonicalize(&g->kernel, &g->kernel));
    kas_status status = kas_solver_run(solver, &g->kernel, &g->options->budget);
    switch (status) {
    case KAS_OK:
        return KAS_OK;
    case KAS_ILLEGAL:
        *why = KAS_REJECT_VARIABLES;
        return KAS_OK;
    case KAS_OVER_BUDGET:
        *why = KAS_REJECT_BUDGET;
        return KAS_OK;
    case KAS_UNSUPPORTED:
        *why = KAS_REJECT_SIZE;
        return KAS_OK;
    default:
        return status;
    }
}

kas_status kas_sample_attempt(const kas_sample_options *options, const kas_target *targets,
                              int count, uint64_t attempt, kas_kernel *kernel,
                              kas_solution *solution, kas_reject *why)
{
    kas_growth *g;
    kas_solver *solver = NULL;
    kas_status status;
    KAS_TRY(kas_growth_create(options, targets, count, &g));
    KAS_TRY_GOTO(kas_solver_create(targets, count, &solver), out);
    KAS_TRY_GOTO(attempt_in(g, solver, targets, count, attempt, why), out);
    if (*why == KAS_REJECT_NONE) {
        KAS_TRY_GOTO(kas_solver_solution(solver, solution), out);
        *kernel = g->kernel;
    }
out:
    kas_solver_free(solver);
    kas_growth_free(g);
    return status;
}

/* Names given so far: open addressing over their 64 bits, which are as good as random. */
typedef struct name_set {
    uint64_t *slot; /* 0 = empty */
    size_t size, used;
    bool has_zero;
} name_set;

struct kas_sampler {
    kas_sample_options options;
    kas_growth *growth; /* these two are made by the first attempt */
    kas_solver *solver;
    kas_target *targets;
    int count;
    uint64_t attempt, index; /* of the next */
    kas_sample_stats stats;
    name_set names;
};

static void put(name_set *set, uint64_t name)
{
    size_t i = name & (set->size - 1);
    while (set->slot[i])
        i = (i + 1) & (set->size - 1);
    set->slot[i] = name;
}

static kas_status grow_set(name_set *set)
{
    name_set larger = {.size = set->size ? set->size * 2 : 1024, .used = set->used};
    larger.slot = calloc(larger.size, sizeof *larger.slot);
    if (!larger.slot)
        return kas_fail(KAS_NO_MEMORY, "no memory to remember %zu kernels", larger.size);
    for (size_t i = 0; i < set->size; i++)
        if (set->slot[i])
            put(&larger, set->slot[i]);
    larger.has_zero = set->has_zero;
    free(set->slot);
    *set = larger;
    return KAS_OK;
}

static kas_status add_name(name_set *set, uint64_t name, bool *is_new)
{
    if (name == 0) {
        *is_new = !set->has_zero;
        set->has_zero = true;
        return KAS_OK;
    }
    if (2 * (set->used + 1) > set->size)
        KAS_TRY(grow_set(set));
    size_t i = name & (set->size - 1);
    while (set->slot[i] && set->slot[i] != name)
        i = (i + 1) & (set->size - 1);
    *is_new = set->slot[i] == 0;
    set->used += *is_new;
    set->slot[i] = name;
    return KAS_OK;
}

kas_status kas_sampler_create(const kas_sample_options *options, const kas_target *targets,
                              int count, kas_sampler **out)
{
    if (count < 1)
        return kas_fail(KAS_BAD_INPUT, "there is no convolution to replace");
    kas_sampler *sampler = calloc(1, sizeof *sampler);
    kas_target *copy = malloc((size_t)count * sizeof *copy);
    if (!sampler || !copy) {
        free(sampler);
        free(copy);
        return kas_fail(KAS_NO_MEMORY, "no memory for a sampler");
    }
    memcpy(copy, targets, (size_t)count * sizeof *copy);
    sampler->options = *options;
    sampler->targets = copy;
    sampler->count = count;
    *out = sampler;
    return KAS_OK;
}

void kas_sampler_free(kas_sampler *sampler)
{
    if (!sampler)
        return;
    kas_growth_free(sampler->growth);
    kas_solver_free(sampler->solver);
    free(sampler->names.slot);
    free(sampler->targets);
    free(sampler);
}

/* One attempt of the sampler, counted; *found when it gave a kernel that was not there before. */
static kas_status attempt_once(kas_sampler *s, kas_sample *out, bool *found)
{
    kas_reject why;
    *found = false;
    out->attempt = s->attempt++;
    s->stats.attempts++;
    KAS_TRY(attempt_in(s->growth, s->solver, s->targets, s->count, out->attempt, &why));
    if (why == KAS_REJECT_NONE) {
        KAS_TRY(kas_kernel_name(&s->growth->kernel, out->name));
        KAS_TRY(add_name(&s->names, strtoull(out->name, NULL, 16), found));
        if (*found) {
            out->kernel = s->growth->kernel;
            KAS_TRY(kas_solver_solution(s->solver, &out->solution));
        }
        why = *found ? KAS_REJECT_NONE : KAS_REJECT_DUPLICATE;
    }
    if (*found)
        s->stats.accepted++;
    else
        s->stats.rejected[why]++;
    return KAS_OK;
}

kas_status kas_sampler_next(kas_sampler *sampler, uint64_t max_attempts, kas_sample *out)
{
    bool found;
    if (max_attempts == 0)
        max_attempts = 1000000;
    if (!sampler->growth)
        KAS_TRY(kas_growth_create(&sampler->options, sampler->targets, sampler->count,
                                  &sampler->growth));
    if (!sampler->solver)
        KAS_TRY(kas_solver_create(sampler->targets, sampler->count, &sampler->solver));
    for (uint64_t n = 0; n < max_attempts; n++) {
        KAS_TRY(attempt_once(sampler, out, &found));
        if (found) {
            out->index = sampler->index++;
            return KAS_OK;
        }
    }
    return kas_fail(KAS_NOTHING_VALID,
                    "no new kernel in %llu attempts; allow more FLOPs or parameters, or other "
                    "numbers of primitives",
                    (unsigned long long)max_attempts);
}

kas_sample_stats kas_sampler_stats(const kas_sampler *sampler)
{
    return sampler->stats;
}
