#include "host/net/targets.h"
#include "host/core/gcd.h"
#include "host/net/epilogues.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 4 };
static const int sizes[SIZES] = {1, 3, 5, 7};

/* Returns the index of a kernel size, or -1 when convolutions with this size are never replaced. */
static int size_index(int kernel)
{
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] == kernel)
            return i;
    return -1;
}

/* Parses a filter such as "3x3,1x1" into the wanted sizes. */
static kas_status parse_filter(const char *filter, bool wanted[SIZES])
{
    for (int i = 0; i < SIZES; i++)
        wanted[i] = filter == NULL;
    const char *p = filter;
    while (p) {
        int found = size_index(isdigit((unsigned char)*p) ? *p - '0' : 0);
        if (found < 0 || p[1] != 'x' || p[2] != p[0] || (p[3] != ',' && p[3] != '\0'))
            return kas_fail(
                KAS_USAGE,
                "--targets: found \"%s\", expected a list of 1x1, 3x3, 5x5, 7x7 with commas "
                "between, such as \"3x3,1x1\"",
                filter);
        wanted[found] = true;
        p = p[3] == ',' ? p + 4 : NULL;
    }
    return KAS_OK;
}

static bool matches(const kas_layer *l, const bool wanted[SIZES])
{
    if (l->op != KAS_LAYER_CONV || l->stem || l->groups != 1 || l->kernel_h != l->kernel_w)
        return false;
    int size = size_index(l->kernel_h);
    return size >= 0 && wanted[size] && l->pad_h == l->kernel_h / 2 && l->pad_w == l->kernel_w / 2;
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
        .kernel_h = (uint32_t)l->kernel_h,
        .kernel_w = (uint32_t)l->kernel_w,
        .stride = (uint32_t)l->stride,
        .epilogue = kas_net_group_behind(net, i).epilogue,
    };
    snprintf(target.name, sizeof target.name, "%s", l->name);
    return target;
}

kas_status kas_net_targets(const kas_net *net, const char *filter, kas_target **out, int *count)
{
    bool wanted[SIZES];
    KAS_TRY(parse_filter(filter, wanted));
    int n = 0;
    for (int i = 0; i < net->layers; i++)
        n += matches(&net->layer[i], wanted);
    if (n == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "network %s has no convolution to replace%s%s (kernel 1, 3, 5 or 7, "
                        "\"same\" padding, no groups, not the first one)",
                        net->file, filter ? " of size " : "", filter ? filter : "");
    kas_target *targets = calloc((size_t)n, sizeof *targets);
    if (!targets)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d targets", n);
    n = 0;
    for (int i = 0; i < net->layers; i++)
        if (matches(&net->layer[i], wanted))
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
