#include "host/strategy/kernel_tree.h"

#include <inttypes.h>
#include <stdlib.h>

#include "host/core/arena.h"
#include "host/space/sample/beginning.h"
#include "host/strategy/select.h"
#include "host/strategy/tree.h"

/* Attempts in a row to get a new kernel out of a leaf; then it is passed, or closed if there was no
 * kernel at all. */
enum { MOST_TRIES = 16 };

struct kas_kernel_tree {
    const kas_search_options *options;
    kas_beginnings *beginnings;
    kas_tree *tree; /* node k is beginning k */
    int64_t found;
    uint64_t attempt; /* number of the next one */
    int deepest;      /* choices on the longest way to a leaf that was completed */
    int closed;       /* leaves that gave no kernel, or only kernels that the study has */
    int64_t *dropped; /* [drops] visits without a candidate, in order */
    int64_t drops;
};

/* ---- the tree over beginnings ---------------------------------------------------------------- */

static kas_status make(void *context, int parent, int choice, int *choices, bool *open)
{
    kas_beginnings *b = ((kas_kernel_tree *)context)->beginnings;
    int number = 0; /* that of the root, which is there */
    if (parent >= 0)
        KAS_TRY(kas_beginnings_extend(b, parent, choice, &number));
    *choices = kas_beginnings_choices(b, number);
    *open = kas_beginnings_is_open(b, number);
    return KAS_OK;
}

static uint64_t key(void *context, int node, int choice)
{
    return kas_beginnings_key(((kas_kernel_tree *)context)->beginnings, node, choice);
}

kas_status kas_kernel_tree_create(const kas_search_options *options,
                                  const kas_sample_options *sample, const kas_target *target,
                                  int targets, kas_kernel_tree **out)
{
    kas_kernel_tree *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return kas_fail(KAS_NO_MEMORY, "a search tree: out of memory");
    g->options = options;
    kas_status status = kas_beginnings_create(sample, target, targets, &g->beginnings);
    if (status == KAS_OK)
        status = kas_tree_create(options->exploration, &(kas_tree_space){make, key, g}, &g->tree);
    if (status != KAS_OK)
        kas_kernel_tree_free(g);
    else
        *out = g;
    return status;
}

void kas_kernel_tree_free(kas_kernel_tree *g)
{
    if (!g)
        return;
    kas_tree_free(g->tree);
    kas_beginnings_free(g->beginnings);
    free(g->dropped);
    free(g);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static kas_status visit(kas_kernel_tree *g, int leaf, const kas_replacement *candidate)
{
    uint64_t keys[2 * KAS_MAX_NODES];
    const bool one = candidate->kernel_of == NULL; /* kernels by layer have no place in the tree */
    return kas_tree_visit(g->tree, leaf, keys,
                          one ? kas_beginnings_keys(candidate->kernel, keys) : 0);
}

/* Attempts to get a new kernel with this beginning; *twice counts those that are not new. */
static kas_status complete(kas_kernel_tree *g, int leaf, kas_name_set *names, kas_replacement *out,
                           char name[KAS_NAME_SIZE], int64_t *attempt, int *twice, bool *found)
{
    kas_attempt how;
    *found = false;
    *twice = 0;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        *attempt = (int64_t)g->attempt++;
        KAS_TRY(kas_beginnings_attempt(g->beginnings, leaf, (uint64_t)*attempt, out, &how));
        if (how.why != KAS_REJECT_NONE)
            continue;
        kas_status status = kas_canonical_name(out->kernel, name);
        if (status == KAS_OK)
            status = kas_name_set_add(names, name, found);
        if (*found)
            return KAS_OK;
        kas_replacement_free(out);
        KAS_TRY(status);
        ++*twice;
    }
    return KAS_OK;
}

kas_status kas_kernel_tree_propose(kas_kernel_tree *g, kas_name_set *names, kas_replacement *out,
                                   char name[KAS_NAME_SIZE], int64_t *attempt, bool *found)
{
    *found = false;
    while (!*found) {
        kas_rng rng = kas_rng_make(g->options->seed, KAS_PURPOSE_SELECT, g->attempt);
        int leaf, twice;
        KAS_TRY(kas_tree_select(g->tree, &rng, &leaf));
        if (leaf < 0)
            return KAS_OK;
        KAS_TRY(complete(g, leaf, names, out, name, attempt, &twice, found));
        if (!*found) {
            (twice > 0 ? kas_tree_pass : kas_tree_close)(g->tree, leaf);
            g->closed++;
            continue;
        }
        const int level = kas_tree_level(g->tree, leaf);
        g->deepest = level > g->deepest ? level : g->deepest;
        g->found++;
        const kas_status status = visit(g, leaf, out);
        if (status != KAS_OK) {
            kas_replacement_free(out);
            return status;
        }
    }
    return KAS_OK;
}

kas_status kas_kernel_tree_visit(kas_kernel_tree *g, const kas_replacement *candidate)
{
    int at = 0;
    while (!candidate->kernel_of) {
        const int choice = kas_beginnings_choice_of(g->beginnings, at, candidate->kernel);
        if (choice < 0)
            break;
        KAS_TRY(kas_tree_open(g->tree, at, choice, &at));
    }
    return visit(g, at, candidate);
}

kas_status kas_kernel_tree_drop(kas_kernel_tree *g)
{
    if (!KAS_GROW(g->dropped, g->drops))
        return kas_fail(KAS_NO_MEMORY, "a search tree: out of memory");
    g->dropped[g->drops++] = kas_tree_visits(g->tree) - 1;
    return KAS_OK;
}

/* Moves the rewards of candidates to their visits; a visit without a candidate has none. */
static void spread(const kas_kernel_tree *g, int64_t visits, double *reward)
{
    int64_t drops = g->drops;
    for (int64_t v = visits - 1; v >= 0 && drops > 0; v--)
        if (g->dropped[drops - 1] == v) {
            reward[v] = 0;
            drops--;
        } else {
            reward[v] = reward[v - drops];
        }
}

kas_status kas_kernel_tree_learn(kas_kernel_tree *g, const kas_work *items, int count,
                                 int generation)
{
    const int64_t visits = kas_tree_visits(g->tree);
    double *reward = calloc((size_t)visits + 1, sizeof *reward);
    if (!reward)
        return kas_fail(KAS_NO_MEMORY, "a search tree: out of memory");
    const kas_status status =
        kas_rewards(g->options, items, count, generation, visits - g->drops, reward);
    spread(g, visits, reward);
    if (status == KAS_OK)
        kas_tree_reward(g->tree, reward);
    free(reward);
    return status;
}

void kas_kernel_tree_describe(const kas_kernel_tree *g, kas_buf *out)
{
    if (g->attempt > 0)
        kas_buf_printf(
            out,
            "tree: %" PRId64 " candidates from %" PRIu64
            " attempts; %d nodes; the longest way has %d choices; nothing new came of %d leaves",
            g->found, g->attempt, kas_tree_nodes(g->tree), g->deepest, g->closed);
}
