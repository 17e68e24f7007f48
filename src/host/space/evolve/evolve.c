#include "host/space/evolve/evolve.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/canonical.h"
#include "host/space/canvas/workshop.h"
#include "host/space/commute.h"
#include "host/space/evolve/edit.h"
#include "host/space/evolve/rebuild.h"
#include "host/space/split.h"

/* The most tries of one attempt, all with the same kind of change: a kind that seldom gives a
 * kernel then has nearly as many children as the others. */
enum { MOST_TRIES = 8 };

struct kas_children {
    kas_workshop workshop;
};

const char *kas_change_name(kas_change change)
{
    static const char *const names[KAS_CHANGE_COUNT] = {"change", "replace", "insert",
                                                        "delete", "regrow",  "graft"};
    return (unsigned)change < KAS_CHANGE_COUNT ? names[change] : "unknown";
}

/* ---- memory ---- */

kas_status kas_children_create(const kas_sample_options *options, const kas_target *targets,
                               int count, kas_children **out)
{
    *out = NULL;
    kas_children *c = calloc(1, sizeof *c);
    if (!c)
        return kas_fail(KAS_NO_MEMORY, "no memory for children of kernels");
    kas_status status =
        kas_workshop_open_guided("children of kernels", options, targets, count, &c->workshop);
    if (status != KAS_OK)
        kas_children_free(c);
    else
        *out = c;
    return status;
}

void kas_children_free(kas_children *c)
{
    if (!c)
        return;
    kas_workshop_close(&c->workshop);
    free(c);
}

/* ---- a child ---- */

static bool has_length(const kas_workshop *c, const kas_outline *o)
{
    return o->nodes > c->options.min_primitives && o->nodes - 1 <= c->options.max_primitives;
}

/* Rebuilds a changed outline. Sizes stay as they were in the parents if the rules allow it, because
 * a child should differ from its parent in one thing; else they are matched again. */
static kas_reject rebuild(kas_workshop *c, const kas_outline *o)
{
    if (!has_length(c, o))
        return KAS_REJECT_DEAD_END;
    const kas_reject why = kas_rebuild(&c->guided, o, o->nodes, o->nodes - 1, true);
    if (why == KAS_REJECT_NONE || why == KAS_REJECT_REDUNDANT)
        return why;
    return kas_rebuild(&c->guided, o, o->nodes, o->nodes - 1, false);
}

/* Keeps the nodes up to one that is drawn, and lets the guided sampler draw the others, so many
 * that the kernel has a number of primitives that is drawn too. */
static kas_reject regrow(kas_workshop *c, const kas_outline *parent)
{
    const int least = c->options.min_primitives, most = c->options.max_primitives;
    kas_guided *d = &c->guided;
    kas_outline o;
    if (most < 2 || !kas_outline_tidy(parent, parent->nodes - 1, &o))
        return KAS_REJECT_DEAD_END;
    const int most_kept = o.nodes - 1 < most ? o.nodes - 1 : most - 1;
    const int kept = 1 + (int)kas_rng_below(&d->rng, (uint32_t)most_kept);
    const int fewest = kept + 1 > least ? kept + 1 : least;
    const int primitives = fewest + (int)kas_rng_below(&d->rng, (uint32_t)(most - fewest + 1));
    const kas_reject why = kas_rebuild(d, &o, kept + 1, primitives, true);
    return why == KAS_REJECT_NONE ? kas_guided_complete(d) : why;
}

/* Draws a change of that kind and leaves the changed kernel in c->growth: complete and pruned, but
 * neither canonical nor solved. */
static kas_reject draw_child(kas_workshop *c, const kas_kernel *a, const kas_kernel *b,
                             kas_change what)
{
    kas_guided *d = &c->guided;
    kas_outline o, other;
    bool changed = false;
    kas_outline_begin(d, a, &o);
    switch (what) {
    case KAS_CHANGE_ATTRIBUTE:
        changed = kas_edit_attribute(d, &o);
        break;
    case KAS_CHANGE_REPLACE:
        changed = kas_edit_replace(d, &o);
        break;
    case KAS_CHANGE_INSERT:
        changed = kas_edit_insert(d, &o);
        break;
    case KAS_CHANGE_DELETE:
        changed = kas_edit_delete(d, &o);
        break;
    case KAS_CHANGE_REGROW:
        return regrow(c, &o);
    default:
        kas_outline_begin(d, b, &other);
        changed = kas_edit_graft(d, &other, &o);
        break;
    }
    return changed ? rebuild(c, &o) : KAS_REJECT_DEAD_END;
}

/* Returns whether the kernels are the same up to the order of operands that commute. `canonical` is
 * in the form that all these share. Most kernels differ in what costs little to compare. */
static kas_status is_same(const kas_kernel *canonical, const kas_kernel *parent, bool *same)
{
    uint64_t ops[2] = {0};
    kas_kernel form;
    char name[2][KAS_NAME_SIZE];
    *same = false;
    if (!parent || canonical->nodes != parent->nodes)
        return KAS_OK;
    for (int i = 0; i < parent->nodes; i++) { /* a sum does not depend on the order of nodes */
        ops[0] += ((uint64_t)canonical->node[i].op + 1) * (uint64_t)(canonical->node[i].op + 64);
        ops[1] += ((uint64_t)parent->node[i].op + 1) * (uint64_t)(parent->node[i].op + 64);
    }
    if (ops[0] != ops[1])
        return KAS_OK;
    KAS_TRY(kas_kernel_canonicalize_unordered(parent, &form));
    KAS_TRY(kas_canonical_name(&form, name[0]));
    KAS_TRY(kas_canonical_name(canonical, name[1]));
    *same = strcmp(name[0], name[1]) == 0;
    return KAS_OK;
}

/* Makes the grown kernel canonical. */
static kas_status order(kas_workshop *c, kas_reject *why)
{
    kas_kernel *kernel = &c->growth->kernel;
    /* A size may be the rest of a split that takes equal shares since the change. */
    KAS_TRY(kas_reject_of(kas_splits_check(kernel), why));
    return *why == KAS_REJECT_NONE ? kas_kernel_canonicalize_unordered(kernel, kernel) : KAS_OK;
}

/* Makes the grown kernel canonical, compares it with its parents and solves its sizes. */
static kas_status complete(kas_workshop *c, const kas_kernel *a, const kas_kernel *b,
                           kas_reject *why)
{
    const kas_kernel *kernel = &c->growth->kernel;
    bool is_a, is_b;
    KAS_TRY(order(c, why));
    if (*why != KAS_REJECT_NONE)
        return KAS_OK;
    KAS_TRY(is_same(kernel, a, &is_a));
    KAS_TRY(is_same(kernel, b, &is_b));
    if (is_a || is_b) {
        *why = KAS_REJECT_DUPLICATE;
        return KAS_OK;
    }
    return kas_reject_of(kas_solver_run(c->solver, kernel, &c->options.budget), why);
}

static kas_status try_until_done(kas_workshop *c, const kas_kernel *a, const kas_kernel *b,
                                 kas_change what, kas_attempt *how)
{
    *how = (kas_attempt){0};
    do {
        how->tries++;
        how->why = draw_child(c, a, b, what);
        if (how->why == KAS_REJECT_NONE)
            KAS_TRY(complete(c, a, b, &how->why));
        how->rejected[how->why] += how->why != KAS_REJECT_NONE;
    } while (how->why != KAS_REJECT_NONE && how->tries < MOST_TRIES);
    return kas_pairs_status(c->growth->pairs);
}

kas_status kas_child_attempt(kas_children *children, const kas_kernel *a, const kas_kernel *b,
                             uint64_t key, kas_replacement *out, kas_attempt *how, kas_change *what)
{
    const uint64_t version = (uint64_t)KAS_CHILDREN_VERSION << 48;
    const int kinds = b ? KAS_CHANGE_COUNT : KAS_CHANGE_GRAFT;
    kas_workshop *c = &children->workshop;
    c->guided.rng = kas_rng_make(c->options.seed ^ version, KAS_PURPOSE_CHILD, key);
    *what = (kas_change)kas_rng_below(&c->guided.rng, (uint32_t)kinds);
    const bool quiet = kas_quiet(true);
    kas_status status = try_until_done(c, a, b, *what, how);
    kas_quiet(quiet);
    return status != KAS_OK || how->why != KAS_REJECT_NONE ? status : kas_workshop_take(c, out);
}

/* ---- a kernel as it is ---- */

/* Returns whether an outline has the group numbers of its kernel, and not others in their place. */
static bool keeps_groups(const kas_outline *o, const kas_kernel *kernel)
{
    bool keeps = true;
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        keeps = keeps && (!kernel->group_value[g] || kernel->group_value[g] == o->group);
    return keeps;
}

/* Returns whether the grown kernel is the wanted one, but for how a window that all targets have is
 * said, and for how many symbols its one group number has. It may have other sizes where the wanted
 * ones cannot be. */
static kas_status is_wanted(const kas_workshop *c, const kas_kernel *wanted, bool *is)
{
    kas_kernel form = *wanted;
    for (int i = 0; i < form.nodes; i++) {
        kas_node *node = &form.node[i];
        if (node->kernel == c->guided.guide.equal_window)
            node->kernel = 0;
        node->symbol = 0;
        kas_outline_merge_groups(&node->out);
    }
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        kas_outline_merge_groups(&form.split[s].whole);
    memcpy(form.group_value, c->growth->kernel.group_value, sizeof form.group_value);
    KAS_TRY(kas_kernel_infer(&form));
    return is_same(&c->growth->kernel, &form, is);
}

/* Rebuilds an outline as it is; *why says whether that gives the wanted kernel. */
static kas_status rebuild_wanted(kas_workshop *c, const kas_outline *o, const kas_kernel *wanted,
                                 kas_reject *why)
{
    bool is;
    *why = kas_rebuild(&c->guided, o, o->nodes, o->nodes - 1, true);
    if (*why == KAS_REJECT_NONE)
        KAS_TRY(order(c, why));
    KAS_TRY(kas_pairs_status(c->growth->pairs));
    if (*why != KAS_REJECT_NONE)
        return KAS_OK;
    KAS_TRY(is_wanted(c, wanted, &is));
    *why = is ? KAS_REJECT_NONE : KAS_REJECT_DEAD_END;
    return KAS_OK;
}

/* Which steps are allowed depends on the order of nodes, so there are two tries: the order with few
 * branches at once, which is the tidy one, and that of the kernel. */
static kas_status admit(kas_workshop *c, const kas_kernel *wanted, kas_reject *why)
{
    kas_outline as_it_is, tidy;
    kas_outline_begin(&c->guided, wanted, &as_it_is);
    *why = KAS_REJECT_VARIABLES;
    if (!keeps_groups(&as_it_is, wanted))
        return KAS_OK;
    *why = KAS_REJECT_DEAD_END;
    if (!kas_outline_tidy(&as_it_is, as_it_is.nodes - 1, &tidy) || !has_length(c, &tidy))
        return KAS_OK;
    KAS_TRY(rebuild_wanted(c, &tidy, wanted, why));
    if (*why != KAS_REJECT_NONE && tidy.nodes == as_it_is.nodes)
        KAS_TRY(rebuild_wanted(c, &as_it_is, wanted, why));
    return *why == KAS_REJECT_NONE
               ? kas_reject_of(kas_solver_run(c->solver, &c->growth->kernel, &c->options.budget),
                               why)
               : KAS_OK;
}

kas_status kas_children_admit(kas_children *children, const kas_kernel *kernel,
                              kas_replacement *out, kas_reject *why)
{
    kas_workshop *c = &children->workshop;
    c->guided.rng = kas_rng_make(c->options.seed, KAS_PURPOSE_CHILD, 0);
    const bool quiet = kas_quiet(true);
    const kas_status status = admit(c, kernel, why);
    kas_quiet(quiet);
    return status != KAS_OK || *why != KAS_REJECT_NONE ? status : kas_workshop_take(c, out);
}

void kas_child_parents(uint64_t seed, uint64_t key, int count, int *a, int *b)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_CHILD, key);
    *a = (int)kas_rng_below(&rng, (uint32_t)count);
    *b = (int)kas_rng_below(&rng, (uint32_t)count);
}
