#include "host/space/sample/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/gcd.h"
#include "host/core/log.h"
#include "host/space/canvas/workshop.h"
#include "host/space/commute.h"
#include "host/space/evolve/evolve.h"
#include "host/space/file/assignment.h"
#include "host/space/file/kernel_json.h"
#include "host/space/name_set.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/nas_pte/nas_pte_layers.h"

int kas_sampler_version(const kas_sample_options *options)
{
    return options->space == KAS_SPACE_NAS_PTE ? KAS_PTE_VERSION : KAS_GUIDED_VERSION;
}

/* The most tries of one attempt. Options that hardly anything meets then end an attempt and
 * not the search. */
enum { MOST_TRIES = 200 };

/* Returns whether the guided sampler is asked for. NAS-PTE's space has a sampler of its own, which
 * rejects too. */
static bool is_guided(const kas_sample_options *o)
{
    return o->space == KAS_SPACE_CANVAS;
}

static bool has_sizes(void *context, const kas_kernel *kernel)
{
    const kas_workshop *w = context;
    kas_budget limits = w->options.budget;
    limits.max_flops_ratio = limits.max_params_ratio = 0;
    return kas_solver_run(w->solver, kernel, &limits) == KAS_OK;
}

/* Returns the greatest common divisors of the sizes of all targets. A sequence for all layers
 * begins with the convolution in one group. */
static kas_pte_sizes common_sizes(const kas_workshop *w)
{
    kas_pte_sizes all = {0};
    for (int t = 0; t < w->count; t++) {
        const kas_target *at = &w->target[t];
        all.c = (uint32_t)kas_gcd(all.c, at->c);
        all.h = (uint32_t)kas_gcd(all.h, at->h);
        all.w = (uint32_t)kas_gcd(all.w, at->w);
        all.kernel_h = (uint32_t)kas_gcd(all.kernel_h, at->kernel_h);
        all.kernel_w = (uint32_t)kas_gcd(all.kernel_w, at->kernel_w);
        all.stride = at->stride > all.stride ? at->stride : all.stride;
    }
    return all;
}

/* Draws a complete kernel of NAS-PTE's space into w->growth, or returns why there is none. */
static kas_reject draw_sequence(kas_workshop *w, uint64_t attempt)
{
    kas_pte_sequence sequence;
    const kas_pte_fit fit = {has_sizes, w, common_sizes(w)};
    kas_rng rng = kas_pte_rng(w->options.seed, attempt);
    return kas_pte_draw(&rng, &fit, 1, &sequence, &w->growth->kernel) ? KAS_REJECT_NONE
                                                                      : KAS_REJECT_DEAD_END;
}

static kas_reject draw_kernel(kas_workshop *w, uint64_t attempt)
{
    return is_guided(&w->options) ? kas_guided_try(&w->guided) : draw_sequence(w, attempt);
}

static kas_status try_until_done(kas_workshop *w, uint64_t attempt, kas_attempt *how)
{
    bool guided = is_guided(&w->options);
    *how = (kas_attempt){0};
    if (guided)
        kas_guided_begin(&w->guided, attempt);
    do {
        how->tries++;
        how->why = draw_kernel(w, attempt);
        if (how->why == KAS_REJECT_NONE)
            KAS_TRY(kas_workshop_complete(w, &how->why));
        how->rejected[how->why] += how->why != KAS_REJECT_NONE;
    } while (guided && how->why != KAS_REJECT_NONE && how->tries < MOST_TRIES &&
             !kas_guided_is_hopeless(&w->guided));
    return kas_pairs_status(w->growth->pairs);
}

/* Makes an attempt; leaves the kernel in w->growth and its sizes in w->solver. */
static kas_status make_attempt(kas_workshop *w, uint64_t attempt, kas_attempt *how)
{
    const bool quiet = kas_quiet(true);
    kas_status status = try_until_done(w, attempt, how);
    kas_quiet(quiet);
    return status;
}

kas_status kas_sample_attempt(const kas_sample_options *options, const kas_target *targets,
                              int count, uint64_t attempt, kas_replacement *out, kas_attempt *how)
{
    kas_workshop w;
    kas_status status = kas_workshop_open(options, targets, count, &w);
    if (status == KAS_OK)
        status = make_attempt(&w, attempt, how);
    if (status == KAS_OK && how->why == KAS_REJECT_NONE) {
        status = kas_workshop_take(&w, out);
        out->target = targets; /* the workshop's go with it */
    }
    kas_workshop_close(&w);
    return status;
}

struct kas_sampler {
    kas_sample_options options;
    kas_workshop workshop;  /* opened by the first attempt, unless children are made */
    kas_pte_layers *layers; /* likewise, of a sampler per layer; else NULL */
    kas_target *targets;
    int count;
    uint64_t attempt, index; /* numbers of the next attempt and the next kernel */
    kas_sample_stats stats;
    kas_name_set names;     /* given so far */
    kas_children *children; /* of `parent`; NULL = kernels are drawn */
    kas_kernel *parent;     /* owned: [parents] */
    int parents;
};

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
    kas_workshop_close(&sampler->workshop);
    kas_pte_layers_free(sampler->layers);
    kas_children_free(sampler->children);
    free(sampler->parent);
    kas_name_set_free(&sampler->names);
    free(sampler->targets);
    free(sampler);
}

/* Notes a parent under the name that its equals among samples have. */
static kas_status note_parent(kas_sampler *s, const kas_kernel *parent)
{
    kas_kernel form;
    char name[KAS_NAME_SIZE];
    bool is_new;
    KAS_TRY(kas_kernel_canonicalize_unordered(parent, &form));
    KAS_TRY(kas_canonical_name(&form, name));
    return kas_name_set_add(&s->names, name, &is_new);
}

kas_status kas_sampler_set_parents(kas_sampler *s, const kas_kernel *parents, int count)
{
    KAS_TRY(kas_children_create(&s->options, s->targets, s->count, &s->children));
    s->parent = malloc((size_t)count * sizeof *parents);
    if (!s->parent)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d parents", count);
    memcpy(s->parent, parents, (size_t)count * sizeof *parents);
    s->parents = count;
    for (int i = 0; i < count; i++)
        KAS_TRY(note_parent(s, &parents[i]));
    return KAS_OK;
}

static void count_attempt(kas_sample_stats *stats, const kas_attempt *how, bool found)
{
    stats->attempts++;
    stats->tries += how->tries;
    stats->accepted += found;
    for (int r = 0; r < KAS_REJECT_COUNT; r++)
        stats->rejected[r] += how->rejected[r];
    stats->rejected[KAS_REJECT_DUPLICATE] += how->why == KAS_REJECT_NONE && !found;
}

/* Attempts one kernel for all layers. */
static kas_status attempt_kernel(kas_sampler *s, kas_sample *out, kas_attempt *how)
{
    kas_workshop *w = &s->workshop;
    KAS_TRY(make_attempt(w, out->attempt, how));
    if (how->why != KAS_REJECT_NONE)
        return KAS_OK;
    KAS_TRY(kas_canonical_name(&w->growth->kernel, out->name));
    return kas_workshop_take(w, &out->replacement);
}

/* Attempts a kernel for each layer. */
static kas_status attempt_layers(kas_sampler *s, kas_sample *out, kas_attempt *how)
{
    *how = (kas_attempt){.tries = 1};
    KAS_TRY(kas_pte_layers_attempt(s->layers, s->options.seed, out->attempt, out->name,
                                   &out->replacement, &how->why));
    how->rejected[how->why] += how->why != KAS_REJECT_NONE;
    return KAS_OK;
}

/* Attempts a child. */
static kas_status attempt_child(kas_sampler *s, kas_sample *out, kas_attempt *how)
{
    int a, b;
    kas_change what;
    kas_child_parents(s->options.seed, out->attempt, s->parents, &a, &b);
    KAS_TRY(kas_child_attempt(s->children, &s->parent[a], &s->parent[b], out->attempt,
                              &out->replacement, how, &what));
    out->change = kas_change_name(what);
    return how->why == KAS_REJECT_NONE ? kas_canonical_name(out->replacement.kernel, out->name)
                                       : KAS_OK;
}

/* Makes and counts one attempt; *found is set when it gave a kernel that was not given before. */
static kas_status attempt_once(kas_sampler *s, kas_sample *out, bool *found)
{
    kas_attempt how;
    *found = false;
    *out = (kas_sample){.attempt = s->attempt++};
    kas_status status = (s->children ? attempt_child
                         : s->layers ? attempt_layers
                                     : attempt_kernel)(s, out, &how);
    if (status == KAS_OK && how.why == KAS_REJECT_NONE)
        status = kas_name_set_add(&s->names, out->name, found);
    if (status == KAS_OK)
        count_attempt(&s->stats, &how, *found);
    if (!*found)
        kas_sample_free(out);
    return status;
}

void kas_sample_free(kas_sample *sample)
{
    kas_replacement_free(&sample->replacement);
}

kas_status kas_sample_write_json(const kas_sample *s, kas_buf *out)
{
    kas_assignment layers;
    if (!s->replacement.kernel_of)
        return kas_kernel_write_json(s->replacement.kernel, &s->replacement.solution, out);
    KAS_TRY(kas_assignment_make(&s->replacement, &layers));
    kas_status status = kas_assignment_write_json(&layers, out);
    kas_assignment_free(&layers);
    return status;
}

kas_status kas_sample_text(const kas_replacement *replacement, char **out)
{
    const kas_sample sample = {.replacement = *replacement};
    kas_buf text = {0};
    const kas_status status = kas_sample_write_json(&sample, &text);
    const kas_status taken = kas_buf_take(&text, out);
    if (status == KAS_OK)
        return taken;
    free(*out);
    *out = NULL;
    return status;
}

static kas_status fail_least(const char *what, double least, double allowed)
{
    return kas_fail(
        KAS_NOTHING_VALID,
        "no kernel needs so few %s: every kernel needs at least %.2g times the convolutions', and "
        "%.2g times are allowed",
        what, least, allowed);
}

/* Checks the budget against what every kernel for all layers costs: FLOPs of the sums of input
 * parts around it, and of the average pools unless it takes the stride as NAS-PTE's kernels do; and
 * one parameter in each instance, because it has a weight. */
static kas_status check_least(const kas_sampler *s)
{
    const kas_budget *budget = &s->options.budget;
    double flops = 0, params = 0, conv_flops = 0, conv_params = 0;
    for (int t = 0; t < s->count; t++) {
        const kas_target *at = &s->targets[t];
        flops += kas_target_fixed_flops(at, s->options.space == KAS_SPACE_NAS_PTE);
        params += (double)at->parts_in * at->parts_out;
        conv_flops += kas_target_conv_flops(at);
        conv_params += kas_target_conv_params(at);
    }
    if (kas_sample_is_per_layer(&s->options)) /* a layer may keep its convolution */
        return KAS_OK;
    if (budget->max_flops_ratio > 0 && flops > budget->max_flops_ratio * conv_flops)
        return fail_least("FLOPs", flops / conv_flops, budget->max_flops_ratio);
    if (budget->max_params_ratio > 0 && s->options.min_weighted > 0 &&
        params > budget->max_params_ratio * conv_params)
        return fail_least("parameters", params / conv_params, budget->max_params_ratio);
    return KAS_OK;
}

static kas_status open_workshop(kas_sampler *s)
{
    kas_status status = kas_workshop_open(&s->options, s->targets, s->count, &s->workshop);
    if (status == KAS_OK && kas_sample_is_per_layer(&s->options))
        status = kas_pte_layers_create(s->targets, s->count, &s->options.budget, &s->layers);
    if (status != KAS_OK)
        kas_workshop_close(&s->workshop);
    return status;
}

/* Reports tries: a line after 500 tries, which take seconds, and whenever their number has doubled.
 * So a search for a kernel that hardly any draw gives is never silent for minutes. */
static void tell_tries(uint64_t tries, uint64_t *told, uint64_t most)
{
    if (tries < *told)
        return;
    kas_info("no new kernel in %llu attempts; giving up after %llu", (unsigned long long)tries,
             (unsigned long long)most);
    *told = 2 * tries;
}

kas_status kas_sampler_next(kas_sampler *sampler, uint64_t max_attempts, kas_sample *out)
{
    bool found;
    if (max_attempts == 0)
        max_attempts = 1000000;
    if (sampler->attempt == 0)
        KAS_TRY(check_least(sampler));
    if (!sampler->workshop.growth && !sampler->children)
        KAS_TRY(open_workshop(sampler));
    uint64_t before = sampler->stats.tries, tries = 0, told = 500;
    while (tries < max_attempts) {
        KAS_TRY(attempt_once(sampler, out, &found));
        tries = sampler->stats.tries - before;
        if (found) {
            out->index = sampler->index++;
            return KAS_OK;
        }
        tell_tries(tries, &told, max_attempts);
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
