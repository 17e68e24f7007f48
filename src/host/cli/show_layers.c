#include "host/cli/show_layers.h"

#include "host/report/line.h"
#include "host/report/table.h"

/* ---- gains ----------------------------------------------------------------------------------- */

kas_status kas_show_gains(const kas_gains *gains, kas_buf *out)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT}, {"gain", KAS_RIGHT}};
    int ones = 0;
    kas_table *table = kas_table_create(columns, 2);
    kas_status status = KAS_OK;
    for (int i = 0; i < gains->count; i++) {
        ones += gains->gain[i].value == 1;
        if (gains->gain[i].value == 1)
            continue;
        kas_table_cell(table, "%s", gains->gain[i].layer);
        kas_table_cell(table, "%.9g", (double)gains->gain[i].value);
    }
    if (ones < gains->count) {
        kas_buf_puts(out, "\n");
        status = kas_table_write(table, out);
    }
    if (ones)
        kas_buf_printf(out, "\ngain 1 at %s%d layers\n",
                       ones == gains->count ? "all " : "the other ", ones);
    kas_table_free(table);
    return status;
}

void kas_show_gains_json(const kas_gains *gains, kas_buf *out)
{
    if (gains->count == 0)
        return;
    kas_line_key(out, "gains");
    kas_gains_write(gains, out);
}

/* ---- text ------------------------------------------------------------------------------------ */

static kas_status put_head(const kas_assignment *a, kas_buf *out)
{
    char name[KAS_NAME_SIZE];
    int kept = 0;
    for (int i = 0; i < a->layers; i++)
        kept += a->kernel_of[i] == KAS_KEPT;
    KAS_TRY(kas_assignment_name(a, name));
    kas_buf_printf(out, "layers %s: %d kernel%s for %d layers", name, a->kernels,
                   a->kernels == 1 ? "" : "s", a->layers - kept);
    if (kept)
        kas_buf_printf(out, "; %d convolution%s stay%s", kept, kept == 1 ? "" : "s",
                       kept == 1 ? "s" : "");
    kas_buf_puts(out, "\n\n");
    return KAS_OK;
}

static kas_status put_kernels(const kas_assignment *a, kas_buf *out)
{
    static const kas_column columns[] = {{"kernel", KAS_RIGHT},
                                         {"name", KAS_LEFT},
                                         {"primitives", KAS_RIGHT},
                                         {"structure", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, 4);
    kas_status status = KAS_OK;
    for (int k = 0; k < a->kernels && status == KAS_OK; k++) {
        char name[KAS_NAME_SIZE];
        kas_buf text = {0};
        status = kas_kernel_name(&a->kernel[k], name);
        if (status == KAS_OK)
            status = kas_kernel_canonical_text(&a->kernel[k], &text);
        if (status == KAS_OK) {
            kas_table_cell(table, "%d", k);
            kas_table_cell(table, "%s", name);
            kas_table_cell(table, "%d", a->kernel[k].nodes - 1);
            kas_table_cell(table, "%s", kas_buf_text(&text));
        }
        kas_buf_free(&text);
    }
    if (status == KAS_OK)
        status = kas_table_write(table, out);
    kas_table_free(table);
    return status;
}

static void put_kernel(int kernel, kas_table *table)
{
    if (kernel == KAS_KEPT)
        kas_table_cell(table, "none");
    else
        kas_table_cell(table, "%d", kernel);
}

static kas_status cost_of(const kas_replacement *r, int t, kas_cost *cost)
{
    const kas_kernel *kernel = kas_replacement_kernel(r, t);
    *cost = (kas_cost){.flops = kas_target_conv_flops(&r->target[t]),
                       .params = kas_target_conv_params(&r->target[t])};
    return kernel ? kas_layer_cost(kernel, &r->target[t], &r->solution.binding[t], cost) : KAS_OK;
}

/* Writes the layers in the order of the file, without costs. */
static kas_status put_layers(const kas_assignment *a, kas_buf *out)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT}, {"kernel", KAS_RIGHT}};
    kas_table *table = kas_table_create(columns, 2);
    for (int i = 0; i < a->layers; i++) {
        kas_table_cell(table, "%s", a->layer[i]);
        put_kernel(a->kernel_of[i], table);
    }
    kas_table_end(table, out);
    return kas_buf_status(out);
}

static void put_target(const kas_replacement *r, int t, const kas_cost *cost, kas_table *table)
{
    const kas_target *g = &r->target[t];
    char human[32];
    kas_table_cell(table, "%s", g->name);
    put_kernel(r->kernel_of[t], table);
    kas_table_cell(table, "%s", kas_human_count(cost->flops, human));
    kas_table_cell(table, "%.3f", cost->flops / kas_target_conv_flops(g));
    kas_table_cell(table, "%s", kas_human_count(cost->params, human));
    kas_table_cell(table, "%.3f", cost->params / kas_target_conv_params(g));
}

/* Writes the layers in the order of the network. */
static kas_status put_targets(const kas_replacement *r, kas_buf *out)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT},   {"kernel", KAS_RIGHT},
                                         {"FLOPs", KAS_RIGHT},  {"of conv", KAS_RIGHT},
                                         {"params", KAS_RIGHT}, {"of conv", KAS_RIGHT}};
    kas_table *table = kas_table_create(columns, 6);
    kas_status status = KAS_OK;
    for (int t = 0; t < r->solution.targets && status == KAS_OK; t++) {
        kas_cost cost;
        status = cost_of(r, t, &cost);
        if (status == KAS_OK)
            put_target(r, t, &cost, table);
    }
    if (status == KAS_OK)
        status = kas_table_write(table, out);
    kas_table_free(table);
    return status;
}

static kas_status put_text(const kas_assignment *a, const char *net, const kas_replacement *fit,
                           kas_buf *out)
{
    KAS_TRY(put_head(a, out));
    KAS_TRY(put_kernels(a, out));
    KAS_TRY(kas_show_gains(&a->gains, out));
    kas_buf_puts(out, "\n");
    if (!fit)
        return put_layers(a, out);
    const kas_solution *s = &fit->solution;
    char flops[32], params[32];
    KAS_TRY(put_targets(fit, out));
    kas_buf_printf(out,
                   "\n%s with these kernels in place of %d of %d convolutions: %s FLOPs (%.3f of "
                   "theirs), %s parameters (%.3f)\n",
                   net, kas_replacement_replaced(fit), s->targets, kas_human_count(s->flops, flops),
                   s->flops / s->conv_flops, kas_human_count(s->params, params),
                   s->params / s->conv_params);
    return kas_buf_status(out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static kas_status json_lists(const kas_assignment *a, kas_buf *out)
{
    kas_line_key(out, "kernels");
    for (int k = 0; k < a->kernels; k++) {
        char name[KAS_NAME_SIZE];
        KAS_TRY(kas_kernel_name(&a->kernel[k], name));
        kas_buf_printf(out, "%s{\"name\": \"%s\", \"primitives\": %d}", k ? ", " : "[", name,
                       a->kernel[k].nodes - 1);
    }
    kas_buf_puts(out, "]");
    kas_line_key(out, "layers");
    for (int i = 0; i < a->layers; i++) {
        kas_buf_puts(out, i ? ", " : "{");
        kas_buf_json_string(out, a->layer[i]);
        if (a->kernel_of[i] == KAS_KEPT)
            kas_buf_puts(out, ": null");
        else
            kas_buf_printf(out, ": %d", a->kernel_of[i]);
    }
    kas_buf_puts(out, "}");
    return KAS_OK;
}

static kas_status put_json(const kas_assignment *a, const char *net, const kas_replacement *fit,
                           kas_buf *out)
{
    char name[KAS_NAME_SIZE];
    KAS_TRY(kas_assignment_name(a, name));
    kas_line_begin(out);
    kas_line_text(out, "name", name);
    KAS_TRY(json_lists(a, out));
    kas_show_gains_json(&a->gains, out);
    if (fit) {
        const kas_solution *s = &fit->solution;
        kas_line_text(out, "net", net);
        kas_line_number(out, "flops", s->flops);
        kas_line_number(out, "params", s->params);
        kas_line_number(out, "flops_ratio", s->flops / s->conv_flops);
        kas_line_number(out, "params_ratio", s->params / s->conv_params);
    }
    kas_line_end(out);
    return kas_buf_status(out);
}

kas_status kas_show_layers(const kas_assignment *assignment, const char *net,
                           const kas_replacement *fit, bool json, kas_buf *out)
{
    return (json ? put_json : put_text)(assignment, net, fit, out);
}
