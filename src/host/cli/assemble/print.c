/* What `kas-gpu assemble` says: the frontier of all budgets, and the network that was chosen. */
#include <math.h>
#include <stdlib.h>

#include "host/cli/assemble/assemble.h"
#include "host/report/line.h"
#include "host/report/table.h"

enum { MOST_LINES = 20 };

static double ratio(const kas_assemble *a, double cost)
{
    return 1 + cost / a->unmodified;
}

/* ---- the frontier ---------------------------------------------------------------------------- */

static int replaced_at(const kas_assemble *a, const kas_frontier *f, int point, int *chosen)
{
    int replaced = 0;
    kas_frontier_choice(f, point, chosen);
    for (int t = 0; t < a->choices.targets; t++)
        replaced += chosen[t] != 0;
    return replaced;
}

static kas_status frontier_lines(const kas_assemble *a, const kas_frontier *f, int *chosen)
{
    for (int i = 0; i < f->points; i++) {
        kas_buf line = {0};
        kas_line_begin(&line);
        kas_line_text(&line, "event", "frontier");
        kas_line_number(&line, "latency", ratio(a, f->point[i].cost));
        kas_line_number(&line, "loss", f->point[i].loss);
        kas_line_int(&line, "replaced", replaced_at(a, f, i, chosen));
        kas_line_number(&line, "gap", f->gap);
        kas_line_end(&line);
        KAS_TRY(kas_print_buf(&line));
    }
    return KAS_OK;
}

/* The table has a line for every so many points, and the first and the last. */
static kas_status frontier_table(const kas_assemble *a, const kas_frontier *f, int *chosen)
{
    static const kas_column columns[] = {
        {"latency", KAS_RIGHT}, {"loss", KAS_RIGHT}, {"layers replaced", KAS_RIGHT}};
    kas_table *table = kas_table_create(columns, 3);
    kas_buf out = {0};
    const int lines = f->points < MOST_LINES ? f->points : MOST_LINES;
    for (int k = 0; k < lines; k++) {
        const int i = lines > 1 ? (int)((long)k * (f->points - 1) / (lines - 1)) : 0;
        kas_table_cell(table, "%.3fx", ratio(a, f->point[i].cost));
        kas_table_cell(table, "%.4f", f->point[i].loss);
        kas_table_cell(table, "%d of %d", replaced_at(a, f, i, chosen), a->choices.targets);
    }
    kas_table_end(table, &out);
    kas_buf_printf(
        &out, "%d of the %d choices that no other beats in %s latency and loss (--json has all)",
        lines, f->points, a->measure ? "measured" : "predicted");
    if (isinf(f->gap))
        kas_buf_puts(&out,
                     "; not all were looked at, so there may be better ones within the limits");
    else if (f->gap > 0)
        kas_buf_printf(&out, "; for no latency is there a choice that loses %.3g less", f->gap);
    kas_buf_puts(&out, "\n\n");
    return kas_print_buf(&out);
}

kas_status kas_assemble_print_frontier(const kas_assemble *a, const kas_frontier *f)
{
    int *chosen = malloc(sizeof *chosen * ((size_t)a->choices.targets + 1));
    if (!chosen)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", a->choices.targets);
    const kas_status status = (a->common.json ? frontier_lines : frontier_table)(a, f, chosen);
    free(chosen);
    return status;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static const char *kernel_at(const kas_assemble *a, int t)
{
    return a->chosen[t] ? a->choices.name[a->chosen[t] - 1] : NULL;
}

static kas_status choice_lines(const kas_assemble *a, const kas_replacement *r, const char *folder,
                               double seconds)
{
    kas_buf line = {0};
    for (int t = 0; t < a->choices.targets; t++) {
        const kas_option *o = &a->option[t * kas_choices_options(&a->choices) + a->chosen[t]];
        kas_buf layer = {0};
        kas_line_begin(&layer);
        kas_line_text(&layer, "event", "layer");
        kas_line_text(&layer, "layer", a->choices.target[t].name);
        kas_line_text(&layer, "kernel", kernel_at(a, t));
        kas_line_number(&layer, "latency", o->cost / a->unmodified);
        kas_line_number(&layer, "loss", o->loss);
        kas_line_end(&layer);
        KAS_TRY(kas_print_buf(&layer));
    }
    kas_line_begin(&line);
    kas_line_text(&line, "event", "assembled");
    kas_line_text(&line, "strategy", kas_assemble_strategy_names[a->strategy]);
    kas_line_text(&line, "folder", folder);
    kas_line_number(&line, "latency", seconds / a->unmodified);
    kas_line_text(&line, "latency_from", a->measure ? "measured" : "predicted");
    kas_line_number(&line, "seconds", seconds);
    kas_line_number(&line, "flops", r->solution.flops / r->solution.conv_flops);
    kas_line_number(&line, "params", r->solution.params / r->solution.conv_params);
    kas_line_int(&line, "replaced", kas_replacement_replaced(r));
    kas_line_end(&line);
    return kas_print_buf(&line);
}

static kas_status choice_table(const kas_assemble *a, const kas_replacement *r, const char *folder,
                               double seconds)
{
    static const kas_column columns[] = {
        {"layer", KAS_LEFT}, {"kernel", KAS_LEFT}, {"latency", KAS_RIGHT}, {"loss", KAS_RIGHT}};
    const bool losses = a->strategy != KAS_ASSEMBLE_BLOCKSWAP; /* that has none of single layers */
    kas_table *table = kas_table_create(columns, losses ? 4 : 3);
    kas_buf out = {0};
    for (int t = 0; t < a->choices.targets; t++) {
        const kas_option *o = &a->option[t * kas_choices_options(&a->choices) + a->chosen[t]];
        kas_table_cell(table, "%s", a->choices.target[t].name);
        kas_table_cell(table, "%s", kernel_at(a, t) ? kernel_at(a, t) : "convolution");
        kas_table_cell(table, "%+.2f%%", 100 * o->cost / a->unmodified);
        if (losses && isfinite(o->loss))
            kas_table_cell(table, "%.4f", o->loss);
        else if (losses)
            kas_table_cell(table, "-");
    }
    kas_table_end(table, &out);
    kas_buf_printf(&out,
                   "%s/layers.json: %d of %d layers replaced, %.3fx the %s latency of the "
                   "unmodified network, %.3fx FLOPs and %.3fx parameters of the convolutions\n",
                   folder, kas_replacement_replaced(r), a->choices.targets, seconds / a->unmodified,
                   a->measure ? "measured" : "predicted",
                   r->solution.flops / r->solution.conv_flops,
                   r->solution.params / r->solution.conv_params);
    return kas_print_buf(&out);
}

kas_status kas_assemble_print_choice(const kas_assemble *a, const kas_replacement *replacement,
                                     const char *folder, double seconds)
{
    const kas_status status =
        (a->common.json ? choice_lines : choice_table)(a, replacement, folder, seconds);
    kas_print_flush();
    return status;
}
