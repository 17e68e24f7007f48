#include "host/check/recheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/plain.h"
#include "host/check/recheck_layers.h"
#include "host/core/arena.h"

/* A kernel in little memory: only the nodes that it has, without shapes, and the values
 * of its variables. */
typedef struct entry {
    struct entry *next;
    char name[KAS_NAME_SIZE];
    int nodes;
    uint32_t group_value[KAS_MAX_GROUPS];
    kas_split split[KAS_MAX_SPLITS];
    bool stride_inside;
    char *node;      /* [nodes] of NODE_BYTES */
    uint32_t *value; /* [targets][KAS_SYM_COUNT] */
    double flops, params, conv_flops, conv_params;
    uint64_t hash;
} entry;

#define NODE_BYTES offsetof(kas_node, shape)

struct kas_recheck {
    const kas_target *targets;
    int count;
    kas_budget budget;
    bool spatial_weights;
    kas_arena *arena;
    entry *first, **last;
    uint64_t kernels;
    kas_layers_checked layers;
};

kas_status kas_recheck_create(const kas_target *targets, int count,
                              const kas_sample_options *options, kas_recheck **out)
{
    kas_recheck *r = calloc(1, sizeof *r);
    kas_arena *arena = kas_arena_create();
    if (!r || !arena) {
        free(r);
        kas_arena_free(arena);
        return kas_fail(KAS_NO_MEMORY, "no memory for the kernels to check again");
    }
    *r = (kas_recheck){.targets = targets,
                       .count = count,
                       .budget = options->budget,
                       .spatial_weights = options->spatial_weights,
                       .arena = arena};
    r->last = &r->first;
    *out = r;
    return KAS_OK;
}

void kas_recheck_free(kas_recheck *r)
{
    if (!r)
        return;
    kas_layers_checked_free(&r->layers);
    kas_arena_free(r->arena);
    free(r);
}

kas_status kas_recheck_layers(kas_recheck *r, const char name[KAS_NAME_SIZE],
                              const kas_replacement *replacement)
{
    return kas_layers_check(&r->layers, name, replacement, &r->budget);
}

/* ---- packing --------------------------------------------------------------------------------- */

kas_status kas_recheck_add(kas_recheck *r, const char name[KAS_NAME_SIZE], const kas_kernel *kernel,
                           const kas_solution *solution)
{
    entry *e = KAS_ARENA_NEW(r->arena, entry, 1);
    char *node = kas_arena_alloc(r->arena, NODE_BYTES * (size_t)kernel->nodes);
    uint32_t *value = KAS_ARENA_NEW(r->arena, uint32_t, r->count * KAS_SYM_COUNT);
    if (!e || !node || !value)
        return kas_fail(KAS_NO_MEMORY, "no memory to check %llu kernels again",
                        (unsigned long long)r->kernels + 1);
    if (solution->targets != r->count)
        return kas_fail(KAS_FAILURE, "the solution of a kernel has %d targets, expected %d",
                        solution->targets, r->count);
    *e = (entry){.nodes = kernel->nodes,
                 .node = node,
                 .value = value,
                 .flops = solution->flops,
                 .params = solution->params,
                 .conv_flops = solution->conv_flops,
                 .conv_params = solution->conv_params};
    memcpy(e->name, name, KAS_NAME_SIZE);
    memcpy(e->group_value, kernel->group_value, sizeof e->group_value);
    memcpy(e->split, kernel->split, sizeof e->split);
    e->stride_inside = kernel->stride_inside;
    for (int i = 0; i < kernel->nodes; i++)
        memcpy(node + NODE_BYTES * (size_t)i, &kernel->node[i], NODE_BYTES);
    for (int t = 0; t < r->count; t++)
        memcpy(value + t * KAS_SYM_COUNT, solution->binding[t].value,
               sizeof solution->binding[t].value);
    *r->last = e;
    r->last = &e->next;
    r->kernels++;
    return KAS_OK;
}

static void unpack(const entry *e, kas_kernel *kernel)
{
    memset(kernel, 0, sizeof *kernel);
    kernel->nodes = e->nodes;
    memcpy(kernel->group_value, e->group_value, sizeof e->group_value);
    memcpy(kernel->split, e->split, sizeof e->split);
    kernel->stride_inside = e->stride_inside;
    for (int i = 0; i < e->nodes; i++)
        memcpy(&kernel->node[i], e->node + NODE_BYTES * (size_t)i, NODE_BYTES);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void find(kas_recheck_report *out, uint64_t *counter, const entry *e, const char *what)
{
    ++*counter;
    if (!out->first[0])
        snprintf(out->first, sizeof out->first, "kernel %s: %s", e->name, what);
}

static void check_one(const kas_recheck *r, const entry *e, const kas_kernel *kernel,
                      kas_binding *binding, kas_recheck_report *out)
{
    for (int t = 0; t < r->count; t++)
        memcpy(binding[t].value, e->value + t * KAS_SYM_COUNT, sizeof binding[t].value);
    const kas_solution solution = {.targets = r->count,
                                   .binding = binding,
                                   .flops = e->flops,
                                   .params = e->params,
                                   .conv_flops = e->conv_flops,
                                   .conv_params = e->conv_params};
    const kas_status status = kas_plain_check(kernel, r->targets, r->count, &r->budget, &solution);
    if (status == KAS_OVER_BUDGET || status == KAS_UNSUPPORTED)
        find(out, &out->over_budget, e, kas_error());
    else if (status != KAS_OK)
        find(out, &out->illegal, e, kas_error());
    else if (!r->spatial_weights &&
             kas_plain_any_image(kernel, r->targets, r->count, &solution) != KAS_OK)
        find(out, &out->one_image, e, kas_error());
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(entry *const *)a)->name, (*(entry *const *)b)->name);
}

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = (*(entry *const *)a)->hash, y = (*(entry *const *)b)->hash;
    return x < y ? -1 : x > y;
}

/* Returns an earlier entry with the same hash that is the same kernel as entry `i`, or NULL.
 * Shapes, which decide whether operands may change places, are inferred again. */
static const entry *same_before(entry *const *list, uint64_t i, kas_kernel pair[2])
{
    bool unpacked = false;
    for (uint64_t j = i; j > 0 && list[j - 1]->hash == list[i]->hash; j--) {
        unpack(list[j - 1], &pair[1]);
        if (!unpacked) {
            unpack(list[i], &pair[0]);
            unpacked = true;
            if (kas_kernel_infer(&pair[0]) != KAS_OK)
                return NULL; /* counted as illegal */
        }
        if (kas_kernel_infer(&pair[1]) == KAS_OK && kas_plain_same(&pair[0], &pair[1]))
            return list[j - 1];
    }
    return NULL;
}

static void find_duplicates(const kas_recheck *r, entry **list, kas_kernel pair[2],
                            kas_recheck_report *out)
{
    char text[64];
    qsort(list, r->kernels, sizeof *list, by_name);
    for (uint64_t i = 1; i < r->kernels; i++)
        if (strcmp(list[i - 1]->name, list[i]->name) == 0)
            find(out, &out->same_name, list[i], "its name came before");
    qsort(list, r->kernels, sizeof *list, by_hash);
    for (uint64_t i = 1; i < r->kernels; i++) {
        const entry *other = same_before(list, i, pair);
        if (other) {
            snprintf(text, sizeof text, "the same kernel as %s", other->name);
            find(out, &out->same_kernel, list[i], text);
        }
    }
}

kas_status kas_recheck_run(kas_recheck *r, kas_recheck_report *out)
{
    kas_kernel *pair = calloc(2, sizeof *pair);
    kas_binding *binding = calloc((size_t)r->count, sizeof *binding);
    entry **list = calloc(r->kernels + 1, sizeof *list);
    kas_status status = KAS_OK;
    uint64_t i = 0;
    *out = (kas_recheck_report){.kernels = r->kernels};
    if (!pair || !binding || !list) {
        status = kas_fail(KAS_NO_MEMORY, "no memory to check %llu kernels again",
                          (unsigned long long)r->kernels);
        goto out;
    }
    for (entry *e = r->first; e; e = e->next) {
        list[i++] = e;
        unpack(e, &pair[0]);
        if (kas_kernel_infer(&pair[0]) != KAS_OK) {
            find(out, &out->illegal, e, kas_error());
            continue;
        }
        check_one(r, e, &pair[0], binding, out);
        e->hash = kas_plain_hash(&pair[0]);
    }
    find_duplicates(r, list, pair, out);
    kas_layers_report(&r->layers, out);
out:
    free(list);
    free(binding);
    free(pair);
    return status;
}
