#include "host/cli/sample_histograms.h"

static int depth_of(const kas_kernel *kernel)
{
    int depth[KAS_MAX_NODES] = {0};
    for (int i = 1; i < kernel->nodes; i++)
        for (int k = 0; k < kernel->node[i].inputs; k++)
            if (depth[kernel->node[i].in[k]] + 1 > depth[i])
                depth[i] = depth[kernel->node[i].in[k]] + 1;
    return depth[kernel->nodes - 1]; /* every node leads to the output */
}

static int width_of(const kas_kernel *kernel)
{
    int last_reader[KAS_MAX_NODES] = {0}, width = 0;
    for (int i = 1; i < kernel->nodes; i++)
        for (int k = 0; k < kernel->node[i].inputs; k++)
            last_reader[kernel->node[i].in[k]] = i;
    for (int i = 0; i + 1 < kernel->nodes; i++) {
        int needed = 0;
        for (int j = 0; j <= i; j++)
            needed += last_reader[j] > i;
        width = needed > width ? needed : width;
    }
    return width;
}

void kas_sample_histograms_add(kas_sample_histograms *h, const kas_kernel *kernel)
{
    h->primitives[kernel->nodes - 1]++;
    h->depth[depth_of(kernel)]++;
    h->width[width_of(kernel)]++;
    for (int i = 1; i < kernel->nodes; i++)
        h->type[kas_type_of(kernel->node[i].op)]++;
}

static void put_numbers(const char *name, const uint64_t *count, int most, bool json, kas_buf *out)
{
    const char *between = "";
    kas_buf_printf(out, json ? ", \"%s\": {" : "%-11s", name);
    for (int n = 0; n < most; n++)
        if (count[n]) {
            kas_buf_printf(out, json ? "%s\"%d\": %llu" : "%s%d: %llu", between, n,
                           (unsigned long long)count[n]);
            between = json ? ", " : "  ";
        }
    kas_buf_puts(out, json ? "}" : "\n");
}

static void put_types(const uint64_t *count, bool json, kas_buf *out)
{
    const char *between = "";
    kas_buf_printf(out, json ? ", \"types\": {" : "%-11s", "types");
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        if (count[t]) {
            kas_buf_printf(out, json ? "%s\"%s\": %llu" : "%s%s: %llu", between,
                           kas_type_name((kas_type)t), (unsigned long long)count[t]);
            between = json ? ", " : "  ";
        }
    kas_buf_puts(out, json ? "}" : "\n");
}

static void put_all(const kas_sample_histograms *h, bool json, kas_buf *out)
{
    put_numbers("primitives", h->primitives, KAS_MAX_NODES, json, out);
    put_numbers("depth", h->depth, KAS_MAX_NODES, json, out);
    put_numbers("width", h->width, KAS_MAX_NODES + 1, json, out);
    put_types(h->type, json, out);
}

void kas_sample_histograms_json(const kas_sample_histograms *histograms, kas_buf *out)
{
    put_all(histograms, true, out);
}

void kas_sample_histograms_text(const kas_sample_histograms *histograms, kas_buf *out)
{
    put_all(histograms, false, out);
}
