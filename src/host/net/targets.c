#include "host/net/targets.h"
#include "host/core/gcd.h"
#include "host/net/epilogues.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 4 };
static const int sizes[SIZES] = {1, 3, 5, 7};

/* Which layers are wanted. */
typedef struct wanted {
    bool window[SIZES][SIZES]; /* in one group, by rows and columns */
    bool grouped, depthwise, linear;
} wanted;

/* Returns the index of a window's size, or -1 when convolutions with this size are never
 * replaced. */
static int size_index(int kernel)
{
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] == kernel)
            return i;
    return -1;
}

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : 0;
}

/* Adds what one word of the list names. */
static bool add_word(const char *word, size_t length, wanted *w)
{
    static const char *const words[] = {"square",    "non-square", "grouped",
                                        "depthwise", "linear",     "all"};
    enum { SQUARE, OTHER, GROUPED, DEPTHWISE, LINEAR, ALL, WORDS };
    int found = 0;
    while (found < WORDS &&
           (strlen(words[found]) != length || strncmp(words[found], word, length) != 0))
        found++;
    if (found == WORDS) {
        const int row = length == 3 ? size_index(digit(word[0])) : -1;
        const int column = length == 3 && word[1] == 'x' ? size_index(digit(word[2])) : -1;
        if (row < 0 || column < 0)
            return false;
        w->window[row][column] = true;
        return true;
    }
    for (int i = 0; i < SIZES * SIZES; i++)
        w->window[i / SIZES][i % SIZES] |=
            found == ALL || found == (i / SIZES == i % SIZES ? SQUARE : OTHER);
    w->grouped |= found == ALL || found == GROUPED;
    w->depthwise |= found == ALL || found == DEPTHWISE;
    w->linear |= found == ALL || found == LINEAR;
    return true;
}

/* Parses a filter such as "3x3,1x1". */
static kas_status parse_filter(const char *filter, wanted *w)
{
    *w = (wanted){0};
    for (const char *p = filter ? filter : "square"; p;) {
        const size_t length = strcspn(p, ",");
        if (!add_word(p, length, w))
            return kas_fail(
                KAS_USAGE,
                "--targets: found \"%s\", expected a list of windows of 1, 3, 5 or 7 rows and "
                "columns (3x3, 1x7), square, non-square, grouped, depthwise, linear and all, with "
                "commas between, such as \"3x3,1x1\"",
                filter);
        p = p[length] ? p + length + 1 : NULL;
    }
    return KAS_OK;
}

/* Returns the layer that gives the logits. */
static int logits_of(const kas_net *net)
{
    int i = net->layers - 1;
    while (net->layer[i].op == KAS_LAYER_FLATTEN || net->layer[i].op == KAS_LAYER_DROPOUT)
        i = net->layer[i].in[0];
    return i;
}

static bool matches(const kas_net *net, int i, const wanted *w)
{
    const kas_layer *l = &net->layer[i];
    if (l->op == KAS_LAYER_LINEAR)
        return w->linear && i != logits_of(net);
    if (l->op != KAS_LAYER_CONV || l->stem)
        return false;
    const int row = size_index(l->kernel_h), column = size_index(l->kernel_w);
    if (row < 0 || column < 0 || l->pad_h != l->kernel_h / 2 || l->pad_w != l->kernel_w / 2)
        return false;
    if (l->groups == 1)
        return w->window[row][column];
    return l->groups == net->layer[l->in[0]].c ? w->depthwise : w->grouped;
}

static kas_target make_target(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    uint32_t c_in = (uint32_t)net->layer[l->in[0]].c, c_out = (uint32_t)l->c;
    uint32_t c = kas_gcd(c_in, c_out);
    kas_target target = {
        .layer = i,
        .c_in = c_in,
        .c_out = c_out,
        .c = c,
        .parts_in = c_in / c,
        .parts_out = c_out / c,
        .h = (uint32_t)l->h,
        .w = (uint32_t)l->w,
        .kernel_h = l->op == KAS_LAYER_CONV ? (uint32_t)l->kernel_h : 1,
        .kernel_w = l->op == KAS_LAYER_CONV ? (uint32_t)l->kernel_w : 1,
        .stride = (uint32_t)l->stride,
        .epilogue = kas_net_group_behind(net, i).epilogue,
        .in_h = (uint32_t)net->layer[l->in[0]].h,
        .in_w = (uint32_t)net->layer[l->in[0]].w,
        .groups = l->op == KAS_LAYER_CONV ? (uint32_t)l->groups : 1,
    };
    snprintf(target.name, sizeof target.name, "%s", l->name);
    return target;
}

kas_status kas_net_targets(const kas_net *net, const char *filter, kas_target **out, int *count)
{
    wanted w;
    KAS_TRY(parse_filter(filter, &w));
    int n = 0;
    for (int i = 0; i < net->layers; i++)
        n += matches(net, i, &w);
    if (n == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "network %s has no layer to replace that is one of \"%s\" (--targets: "
                        "convolutions with a window of 1, 3, 5 or 7 and \"same\" padding but the "
                        "first one, and linear layers but the last one)",
                        net->file, filter ? filter : "square");
    kas_target *targets = calloc((size_t)n, sizeof *targets);
    if (!targets)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d targets", n);
    n = 0;
    for (int i = 0; i < net->layers; i++)
        if (matches(net, i, &w))
            targets[n++] = make_target(net, i);
    *out = targets;
    *count = n;
    return KAS_OK;
}

double kas_targets_flops_share(const kas_net *net, const kas_target *targets, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += kas_target_conv_flops(&targets[i]);
    return sum / kas_net_flops(net);
}
