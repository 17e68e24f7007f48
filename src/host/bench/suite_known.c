/* How often does random sampling find the kernels that people have designed?
 *
 * Attempts of each space are drawn, including duplicates, and every resulting kernel is compared
 * with the files of kernels/. A kernel is found when the sample is equivalent to it: the same graph
 * up to the order of commuting operands (plain.h) and to convolutions written as one primitive or
 * as two. Group numbers do not matter, and neither does whether a size is free or a fixed share of
 * C, because a budget decides that and not the structure. With 1 to 14 primitives and no budget
 * every file can be found. The figure of a rare kernel depends much on chance, so counts are
 * reported with the rates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/bench/bench.h"
#include "host/check/plain.h"
#include "host/core/file/folder.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"

enum { REPEATS = 25, ATTEMPTS = 4000, FEWEST = 1, MOST = 14, SIDE = 32, MAX_KNOWN = 256 };

typedef struct known {
    char name[64];
    kas_kernel kernel; /* in comparable form */
    uint64_t hash;
    uint64_t met[KAS_SPACE_COUNT];
} known;

typedef struct subject {
    const kas_bench_options *o;
    const kas_bench_sink *sink;
    const char *net;
    kas_target *target;
    int targets, count;
    uint64_t attempts, kernels[KAS_SPACE_COUNT];
    known known[MAX_KNOWN];
} subject;

/* ---- comparable form ------------------------------------------------------------------------- */

/* Appends a node that reads the one before it. */
static int append(kas_kernel *k, kas_node node)
{
    if (k->nodes == KAS_MAX_NODES)
        return -1;
    if (node.inputs == 0 && node.op != KAS_OP_INPUT) {
        node.inputs = 1;
        node.in[0] = (uint8_t)(k->nodes - 1);
    }
    k->node[k->nodes++] = node;
    return k->nodes - 1;
}

/* Appends a convolution as the unfold and the map that it is by definition (docs/primitives.md).
 * The copy reads the node at `at`. */
static int append_conv(kas_kernel *k, const kas_node *conv, int at, const kas_shape *in)
{
    const kas_node window = {.op = KAS_OP_UNFOLD,
                             .inputs = 1,
                             .in = {(uint8_t)at},
                             .axes = conv->axes,
                             .kernel = conv->kernel,
                             .dilation = conv->dilation};
    if (conv->op == KAS_OP_CONV) {
        append(k, window);
        return append(k, (kas_node){.op = KAS_OP_FC, .grouped = conv->grouped, .out = conv->out});
    }
    kas_node unfold = window;
    append(k, (kas_node){.op = KAS_OP_GROUP_ALL, .inputs = 1, .in = {(uint8_t)at}});
    unfold.inputs = 0;
    append(k, unfold);
    return append(k, (kas_node){.op = KAS_OP_FC, .grouped = 1, .out = in->channel[0]});
}

static bool is_written_out(const kas_node *node, const kas_shape *in)
{
    return node->op == KAS_OP_CONV || (node->op == KAS_OP_CONV_DEPTHWISE && in->channels == 1 &&
                                       !in->is_group[0] && kas_dim_var(&in->channel[0]) < 0);
}

/* Writes out every convolution. Leaves the kernel alone when there is no room for that. */
static void write_out_convs(kas_kernel *kernel)
{
    kas_kernel out = *kernel;
    int place[KAS_MAX_NODES] = {0};
    out.nodes = 0;
    for (int i = 0; i < kernel->nodes; i++) {
        kas_node node = kernel->node[i];
        const kas_shape *in = &kernel->node[node.in[0]].shape;
        for (int k = 0; k < node.inputs; k++)
            node.in[k] = (uint8_t)place[node.in[k]];
        place[i] = is_written_out(&node, in) ? append_conv(&out, &node, node.in[0], in)
                                             : append(&out, node);
        if (place[i] < 0)
            return;
    }
    *kernel = out;
}

static int free_variable(const kas_kernel *kernel)
{
    const uint32_t used = kas_kernel_vars(kernel);
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (!(used >> v & 1))
            return v;
    return -1;
}

/* Gives the sizes of `nodes` (bits) to a variable that no node has, if the kernel stays legal. */
static bool set_free(kas_kernel *kernel, uint64_t nodes)
{
    kas_kernel with = *kernel;
    const int v = free_variable(kernel);
    if (v < 0)
        return false;
    for (; nodes; nodes &= nodes - 1)
        with.node[__builtin_ctzll(nodes)].out = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + v));
    const bool quiet = kas_quiet(true);
    const bool legal = kas_kernel_infer(&with) == KAS_OK;
    kas_quiet(quiet);
    if (legal)
        *kernel = with;
    return legal;
}

/* Returns, as bits, the nodes from `first` on whose size is this share of C, or this number. */
static uint64_t nodes_of_size(const kas_kernel *kernel, int first, const kas_dim *size)
{
    uint64_t nodes = 0;
    for (int i = first; i < kernel->nodes; i++)
        nodes |= (uint64_t)(kernel->node[i].out.num && kas_dim_equal(&kernel->node[i].out, size))
                 << i;
    return nodes;
}

/* Reduces a kernel to its structure: one group number for all, and a variable for each size that
 * is a share of C or a number, as in the sampler before the sizes are solved. Sizes that must be
 * equal get one variable: first all equal sizes get it, and then each its own where that is legal
 * too. A share for which no variable may stand, and shares next to a split, are part of the
 * structure and stay. */
static kas_status make_comparable(kas_kernel *kernel)
{
    write_out_convs(kernel);
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        kernel->group_value[g] = kernel->group_value[g] ? 2 : 0;
    KAS_TRY(kas_kernel_infer(kernel));
    for (int i = 0; kernel->split[0].whole.num == 0 && i < kernel->nodes; i++) {
        const kas_dim size = kernel->node[i].out;
        uint64_t nodes = size.den > 1 ? nodes_of_size(kernel, i, &size) : 0;
        if (nodes && set_free(kernel, nodes))
            for (nodes &= nodes - 1; nodes; nodes &= nodes - 1)
                set_free(kernel, nodes & -nodes);
    }
    return KAS_OK;
}

static kas_status read_one(void *context, const char *path)
{
    subject *s = context;
    known *k = &s->known[s->count];
    const char *file = strrchr(path, '/') + 1;
    if (s->count == MAX_KNOWN)
        return KAS_OK;
    s->count++;
    snprintf(k->name, sizeof k->name, "%.*s", (int)strcspn(file, "."), file);
    KAS_TRY(kas_kernel_read_file(path, &k->kernel));
    if (make_comparable(&k->kernel) != KAS_OK)
        return kas_fail_context(KAS_BAD_INPUT, "%s", path);
    k->hash = kas_plain_hash(&k->kernel);
    return KAS_OK;
}

static kas_status read_known(subject *s)
{
    const char *folder = s->o->kernel ? s->o->kernel : "kernels";
    struct stat found;
    int files;
    if (!s->o->kernel && stat(folder, &found) != 0)
        return kas_fail(KAS_UNSUPPORTED, "there is no folder \"%s\" here (--kernel FOLDER)",
                        folder);
    return kas_folder_each(folder, ".json", read_one, s, &files);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static kas_status compare(subject *s, kas_kernel *kernel, kas_space space)
{
    char name[KAS_NAME_SIZE];
    KAS_TRY(kas_kernel_name(kernel, name));
    kernel->stride_inside = false; /* files leave the stride to the pool */
    if (make_comparable(kernel) != KAS_OK)
        return kas_fail_context(KAS_FAILURE, "sampled kernel %s", name);
    const uint64_t hash = kas_plain_hash(kernel);
    s->kernels[space]++;
    for (int i = 0; i < s->count; i++)
        s->known[i].met[space] +=
            s->known[i].hash == hash && kas_plain_same(&s->known[i].kernel, kernel);
    return KAS_OK;
}

static kas_status sample(subject *s, kas_space space)
{
    kas_sample_options options = kas_sample_defaults();
    options.space = space;
    options.per_layer = KAS_PER_LAYER_NO; /* single kernels are compared */
    options.seed = s->o->seed;
    options.budget = s->o->budget;
    if (space == KAS_SPACE_CANVAS) {
        options.min_primitives = FEWEST;
        options.max_primitives = MOST;
    }
    for (uint64_t n = 0; n < s->attempts; n++) {
        kas_replacement found;
        kas_attempt how;
        KAS_TRY(kas_sample_attempt(&options, s->target, s->targets, n, &found, &how));
        if (how.why != KAS_REJECT_NONE)
            continue;
        const kas_status status = compare(s, found.kernel, space);
        kas_replacement_free(&found);
        KAS_TRY(status);
    }
    return KAS_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static double per_million(const subject *s, const known *k, kas_space space)
{
    return s->kernels[space] ? 1e6 * (double)k->met[space] / (double)s->kernels[space] : 0;
}

static kas_status put_json(const subject *s, const known *k, const kas_device_info *info)
{
    kas_buf line = {0};
    kas_bench_line_begin(&line, kas_bench_find("known")->name, info);
    kas_line_text(&line, "net", s->net);
    kas_line_text(&line, "kernel", k->name);
    kas_line_int(&line, "primitives", k->kernel.nodes - 1);
    kas_line_int(&line, "attempts", (int64_t)s->attempts);
    for (int space = 0; space < KAS_SPACE_COUNT; space++) {
        char field[64];
        const char *name = space == KAS_SPACE_CANVAS ? "canvas" : "nas_pte";
        snprintf(field, sizeof field, "%s_kernels", name);
        kas_line_int(&line, field, (int64_t)s->kernels[space]);
        snprintf(field, sizeof field, "%s_met", name);
        kas_line_int(&line, field, (int64_t)k->met[space]);
    }
    return kas_bench_line_put(&line, s->sink);
}

static kas_status put_all(const subject *s, const kas_device_info *info)
{
    static const kas_column columns[] = {{"kernel", KAS_LEFT},   {"primitives", KAS_RIGHT},
                                         {"canvas", KAS_RIGHT},  {"per million", KAS_RIGHT},
                                         {"nas-pte", KAS_RIGHT}, {"per million", KAS_RIGHT}};
    if (s->sink->json) {
        for (int i = 0; i < s->count; i++)
            KAS_TRY(put_json(s, &s->known[i], info));
        return KAS_OK;
    }
    char title[160];
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < s->count; i++) {
        kas_table_cell(table, "%s", s->known[i].name);
        kas_table_cell(table, "%d", s->known[i].kernel.nodes - 1);
        for (int space = 0; space < KAS_SPACE_COUNT; space++) {
            kas_table_cell(table, "%llu", (unsigned long long)s->known[i].met[space]);
            kas_table_cell(table, "%.0f", per_million(s, &s->known[i], (kas_space)space));
        }
    }
    snprintf(title, sizeof title,
             "known: known kernels met among %llu (canvas) and %llu (nas-pte) sampled ones, %s",
             (unsigned long long)s->kernels[KAS_SPACE_CANVAS],
             (unsigned long long)s->kernels[KAS_SPACE_NAS_PTE], s->net);
    kas_status status = kas_bench_table_put(table, title, s->sink);
    kas_table_free(table);
    return status;
}

static kas_status run_all(subject *s)
{
    kas_device *cpu;
    KAS_TRY(kas_device_open("cpu", 1, &cpu)); /* only for its name */
    const kas_device_info info = *kas_device_get_info(cpu);
    kas_device_close(cpu);
    KAS_TRY(read_known(s));
    for (int space = 0; space < KAS_SPACE_COUNT; space++) {
        if (!s->sink->json)
            kas_info("known: %llu attempts of %s", (unsigned long long)s->attempts,
                     kas_space_names[space]);
        KAS_TRY(sample(s, (kas_space)space));
    }
    return put_all(s, &info);
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    subject *s = calloc(1, sizeof *s); /* large */
    kas_net *net = NULL;
    kas_status status = KAS_OK;
    const int h = o->h ? o->h : SIDE, w = o->h ? o->w : SIDE, c = o->h ? o->c : 3;
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "no memory for the known kernels");
    s->o = o;
    s->sink = sink;
    s->net = o->net ? o->net : "resnet18";
    s->attempts = (uint64_t)(o->repeats ? o->repeats : REPEATS) * ATTEMPTS;
    KAS_TRY_GOTO(kas_net_build(s->net, h, w, c, o->classes, &net), out);
    KAS_TRY_GOTO(kas_net_targets(net, o->filter, &s->target, &s->targets), out);
    status = run_all(s);
out:
    kas_net_free(net);
    free(s->target);
    free(s);
    return status;
}

static const double known_attempt = 3.5e-4;

static double seconds(const kas_bench_options *o)
{
    return known_attempt * KAS_SPACE_COUNT * ATTEMPTS * (o->repeats ? o->repeats : REPEATS);
}

const kas_bench_suite kas_bench_suite_known = {
    "known", "how often random sampling meets the kernels of kernels/", run, seconds};
