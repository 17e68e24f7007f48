/* kas-gpu interpolate: networks between two, whose layers change over one after the other (NAS-PTE,
 * section 7.7). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/cli/net_options.h"
#include "host/core/file/files.h"
#include "host/core/file/target.h"
#include "host/core/log.h"
#include "host/report/line.h"
#include "host/report/plot/plot.h"
#include "host/report/table.h"
#include "host/space/evolve/blend.h"
#include "host/space/file/assignment.h"

typedef struct interpolate_options {
    kas_cli_common common;
    kas_cli_net net;
    const char *machine, *folder, *picture, *path[2];
    int points, within;
} interpolate_options;

enum { KEY_MACHINE = 0x200, KEY_POINTS, KEY_WITHIN, KEY_PICTURE, MOST_POINTS = 1024 };

static const struct argp_option option_list[] = {
    {"output", 'o', "DIR", 0,
     "Write each network to DIR/NUMBER.json, a file of layers; those of an earlier run are removed",
     0},
    {"points", KEY_POINTS, "N", 0, "Networks, with both ends (default 9)", 0},
    {"within", KEY_WITHIN, "N", 0,
     "Shares of a layer's outputs that change over one by one: 1, 2 (default), 3 or 4", 0},
    {"machine", KEY_MACHINE, "M", 0,
     "Machine whose times are predicted, as of kas-gpu predict (default: this one)", 0},
    {"picture", KEY_PICTURE, "F.svg", 0, "Also draw time, FLOPs and parameters of the networks", 0},
    {0}};

static const kas_cli_value values[] = {
    {'o', KAS_CLI_TEXT(interpolate_options, folder)},
    {KEY_MACHINE, KAS_CLI_TEXT(interpolate_options, machine)},
    {KEY_POINTS, KAS_CLI_INT(interpolate_options, points, 2, MOST_POINTS)},
    {KEY_PICTURE, KAS_CLI_TEXT(interpolate_options, picture)},
    {KEY_WITHIN, KAS_CLI_INT(interpolate_options, within, 1, KAS_BLEND_SHARES)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    interpolate_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num < 2)
            o->path[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->net.name || state->arg_num != 2)
            argp_error(state, "expected two kernel files or files of layers, and --net NAME");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Make the networks that lie between two, from kernel files or files of layers A and B: layer "
    "by layer A's kernel gives way to B's, first for some of the layer's outputs.\n\n"
    "  kas-gpu interpolate kernels/group_conv.json kernels/depthwise.json --net resnet34 -o path\n"
    "  kas-gpu interpolate a.json b.json --net resnet34 --points 17 --within 4 --machine h100\n"
    "  for f in path/*.json; do kas-gpu train --net resnet34 --dataset D.h5 --kernel $f; done\n"
    "\vOutputs can change over in shares where both kernels end in a fully-connected map; "
    "elsewhere, and where a layer has a kernel on one side only, it changes as a whole.";

enum { TIME, FLOPS, PARAMS, RATIOS };

typedef struct session {
    const interpolate_options *o;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_replacement end[2];
    int *changed, changes; /* targets at which the ends differ, in network order */
    int *step, steps;      /* the networks on the way, both ends included, as `at` of a point */
    kas_predictor *predictor;
    kas_table *table;
    /* For the picture: how many layers have changed, and ratios to the unmodified network */
    int points;
    double x[MOST_POINTS], y[RATIOS * MOST_POINTS]; /* y [RATIOS][points] */
    char name[MOST_POINTS][KAS_NAME_SIZE];
} session;

/* A network on the way. */
typedef struct point {
    int number, at;     /* at: how many steps of all from A to B */
    kas_kernel *kernel; /* [targets] */
    int *kernel_of;     /* [targets] */
    kas_assignment layers;
    kas_replacement replacement;
    char name[KAS_NAME_SIZE];
} point;

/* ---- the ends -------------------------------------------------------------------------------- */

static kas_status same_kernel(const kas_kernel *a, const kas_kernel *b, bool *same)
{
    char name[2][KAS_NAME_SIZE];
    *same = !a && !b;
    if (!a || !b)
        return KAS_OK;
    KAS_TRY(kas_kernel_name(a, name[0]));
    KAS_TRY(kas_kernel_name(b, name[1]));
    *same = strcmp(name[0], name[1]) == 0;
    return KAS_OK;
}

static kas_status read_end(session *s, int i)
{
    kas_assignment kernels;
    KAS_TRY(kas_assignment_read_file(s->o->path[i], &kernels));
    const kas_status status =
        kas_cli_fit(&s->o->net, s->o->path[i], s->net, s->target, s->targets, &kernels, &s->end[i]);
    kas_assignment_free(&kernels);
    return status;
}

static kas_status read_ends(session *s)
{
    KAS_TRY(read_end(s, 0));
    KAS_TRY(read_end(s, 1));
    s->changed = calloc((size_t)s->targets, sizeof *s->changed);
    if (!s->changed)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", s->targets);
    for (int t = 0; t < s->targets; t++) {
        bool same;
        KAS_TRY(same_kernel(kas_replacement_kernel(&s->end[0], t),
                            kas_replacement_kernel(&s->end[1], t), &same));
        if (!same)
            s->changed[s->changes++] = t;
    }
    return s->changes ? KAS_OK
                      : kas_fail(KAS_BAD_INPUT, "%s and %s are the same at every layer of %s",
                                 s->o->path[0], s->o->path[1], s->net->name);
}

/* ---- a network between ----------------------------------------------------------------------- */

/* Gives target t the kernel of which so many shares of the outputs are B's. */
static kas_status set_kernel(const session *s, point *p, int t, int share)
{
    const kas_kernel *a = kas_replacement_kernel(&s->end[0], t);
    const kas_kernel *b = kas_replacement_kernel(&s->end[1], t);
    const kas_kernel *whole = share < s->o->within ? a : b;
    p->kernel_of[t] = t;
    if (share > 0 && share < s->o->within)
        return a && b ? kas_blend(a, b, share, s->o->within, &p->kernel[t])
                      : kas_fail(KAS_ILLEGAL, "the layer has a kernel on one side only");
    if (whole)
        p->kernel[t] = *whole;
    else
        p->kernel_of[t] = KAS_KEPT;
    return KAS_OK;
}

static kas_status set_kernels(const session *s, point *p)
{
    const int shares = s->o->within;
    for (int t = 0, c = 0; t < s->targets; t++) {
        const int done = p->at - shares * c, share = done < 0 ? 0 : done < shares ? done : shares;
        const bool changes = c < s->changes && s->changed[c] == t;
        KAS_TRY(set_kernel(s, p, t, changes ? share : 0));
        c += changes;
    }
    if (p->at == 0 || p->at == shares * s->changes) { /* an end may have no kernel at all */
        bool any = false;
        for (int t = 0; t < s->targets; t++)
            any |= p->kernel_of[t] != KAS_KEPT;
        if (!any)
            return kas_fail(KAS_BAD_INPUT, "%s has no kernel", s->o->path[p->at != 0]);
    }
    return KAS_OK;
}

static kas_status make_point(const session *s, point *p)
{
    const kas_budget *budget = &s->o->net.budget;
    kas_replacement drawn;
    KAS_TRY(set_kernels(s, p));
    KAS_TRY(kas_replacement_solve(p->kernel, s->targets, p->kernel_of, s->target, s->targets,
                                  budget, &drawn));
    const kas_status status = kas_assignment_make(&drawn, &p->layers);
    kas_replacement_free(&drawn);
    KAS_TRY(status);
    KAS_TRY(kas_assignment_name(&p->layers, p->name));
    return kas_assignment_fit(&p->layers, s->target, s->targets, budget, &p->replacement);
}

static kas_status with_point(session *s, int number, int at, kas_status (*use)(session *, point *))
{
    point p = {.number = number, .at = at};
    p.kernel = calloc((size_t)s->targets, sizeof *p.kernel);
    p.kernel_of = calloc((size_t)s->targets, sizeof *p.kernel_of);
    kas_status status = p.kernel && p.kernel_of
                            ? make_point(s, &p)
                            : kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", s->targets);
    if (status == KAS_OK)
        status = use(s, &p);
    kas_replacement_free(&p.replacement);
    kas_assignment_free(&p.layers);
    free(p.kernel);
    free(p.kernel_of);
    return status;
}

static kas_status note_step(session *s, point *p)
{
    s->step[s->steps++] = p->at;
    return KAS_OK;
}

/* Lists the networks on the way. Where a share of a layer's outputs cannot change over, there is no
 * network with that share. */
static kas_status find_steps(session *s)
{
    const int last = s->changes * s->o->within;
    s->step = calloc((size_t)last + 1, sizeof *s->step);
    if (!s->step)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", s->changes);
    for (int at = 0; at <= last; at++) {
        if (at % s->o->within == 0) {
            s->step[s->steps++] = at;
            continue;
        }
        const bool quiet = kas_quiet(true);
        const kas_status status = with_point(s, 0, at, note_step);
        kas_quiet(quiet);
        if (!kas_is_misfit(status))
            KAS_TRY(status);
    }
    return KAS_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Three digits, or four from the thousandth on: not a kernel's name, which may have digits alone. */
static int is_network(const struct dirent *entry)
{
    const size_t digits = strspn(entry->d_name, "0123456789");
    return (digits == 3 || digits == 4) && strcmp(entry->d_name + digits, ".json") == 0;
}

/* Removes a file, or only checks that it may be removed: an input of this command may not. */
static kas_status remove_network(const char *folder, const char *file, bool check)
{
    char target[PATH_MAX];
    kas_buf path = {0};
    kas_buf_printf(&path, "%s/%s", folder, file);
    kas_status status = kas_buf_status(&path);
    if (status == KAS_OK && check)
        status = kas_file_target(path.data, target);
    else if (status == KAS_OK && unlink(path.data) != 0)
        status = kas_fail_errno(KAS_FAILURE, path.data);
    kas_buf_free(&path);
    return status;
}

/* Makes the folder, without the networks of an earlier run: they may be of other ends, and more. */
static kas_status clear_folder(const char *folder)
{
    struct dirent **file;
    KAS_TRY(kas_mkdirs(folder));
    const int files = scandir(folder, &file, is_network, alphasort);
    if (files < 0)
        return kas_fail_errno(KAS_FAILURE, folder);
    kas_status status = KAS_OK;
    for (int i = 0; i < 2 * files && status == KAS_OK; i++)
        status = remove_network(folder, file[i % files]->d_name, i < files);
    for (int i = 0; i < files; i++)
        free(file[i]);
    free(file);
    return status;
}

static kas_status write_point(const session *s, const point *p)
{
    kas_buf text = {0}, path = {0};
    kas_status status = kas_assignment_write_json(&p->layers, &text);
    kas_buf_printf(&path, "%s/%03d.json", s->o->folder, p->number);
    if (status == KAS_OK)
        status = kas_buf_status(&path);
    status = kas_buf_save(&text, kas_buf_text(&path), status);
    kas_buf_free(&path);
    return status;
}

static void add_row(session *s, const point *p, double seconds)
{
    const kas_solution *q = &p->replacement.solution;
    char human[32];
    kas_table_cell(s->table, "%d", p->number);
    kas_table_cell(s->table, "%s", p->name);
    kas_table_cell(s->table, "%.2f of %d", (double)p->at / s->o->within, s->changes);
    kas_table_cell(s->table, "%.3f", q->flops / q->conv_flops);
    kas_table_cell(s->table, "%.3f", q->params / q->conv_params);
    kas_table_cell(s->table, "%s", kas_human_seconds(seconds, human));
    kas_table_cell(s->table, "%.3f", seconds / kas_predictor_unmodified(s->predictor));
}

static kas_status put_line(const session *s, const point *p, double seconds)
{
    const kas_solution *q = &p->replacement.solution;
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "between");
    kas_line_int(&line, "number", p->number);
    kas_line_text(&line, "kernel", p->name);
    kas_line_number(&line, "layers_changed", (double)p->at / s->o->within);
    kas_line_int(&line, "layers_to_change", s->changes);
    kas_line_number(&line, "flops_ratio", q->flops / q->conv_flops);
    kas_line_number(&line, "params_ratio", q->params / q->conv_params);
    kas_line_number(&line, "seconds", seconds);
    kas_line_number(&line, "ratio_to_unmodified", seconds / kas_predictor_unmodified(s->predictor));
    kas_line_end(&line);
    const kas_status status = kas_buf_status(&line);
    if (status == KAS_OK)
        printf("%s", line.data);
    kas_buf_free(&line);
    return status;
}

static void note_point(session *s, const point *p, double seconds)
{
    const kas_solution *q = &p->replacement.solution;
    double *to = s->y + p->number;
    s->x[p->number] = (double)p->at / s->o->within;
    memcpy(s->name[p->number], p->name, sizeof p->name);
    to[TIME * s->points] = seconds / kas_predictor_unmodified(s->predictor);
    to[FLOPS * s->points] = q->flops / q->conv_flops;
    to[PARAMS * s->points] = q->params / q->conv_params;
}

static kas_status give_point(session *s, point *p)
{
    double seconds;
    KAS_TRY(kas_predict_candidate(s->predictor, &p->replacement, &seconds));
    note_point(s, p, seconds);
    if (s->o->folder)
        KAS_TRY(write_point(s, p));
    if (s->o->common.json)
        return put_line(s, p, seconds);
    add_row(s, p, seconds);
    return KAS_OK;
}

static kas_status draw(const session *s)
{
    static const char *const names[RATIOS] = {"predicted time", "FLOPs", "parameters"};
    const kas_plot_panel panel = {"time of the whole network, sizes of what is replaced", s->y};
    const char *point[MOST_POINTS];
    for (int i = 0; i < s->points; i++)
        point[i] = s->name[i];
    const kas_plot plot = {.about = "Networks between two",
                           .x_title = "layers that have changed",
                           .points = s->points,
                           .lines = RATIOS,
                           .panels = 1,
                           .x = s->x,
                           .point = point,
                           .line = names,
                           .panel = &panel};
    return kas_plot_write(&plot, s->o->picture);
}

static kas_status print_table(const session *s)
{
    kas_buf out = {0};
    kas_table_write(s->table, &out);
    kas_buf_printf(&out,
                   "\nfrom %s to %s; FLOPs, params: relative to the replaced convolutions; time: "
                   "predicted, of %d images\n",
                   s->o->path[0], s->o->path[1], KAS_KEEP_BATCH);
    return kas_print_buf(&out);
}

/* Spreads the points evenly over all networks on the way. */
static kas_status give_points(session *s)
{
    const int steps = s->steps - 1, points = s->o->points - 1 < steps ? s->o->points - 1 : steps;
    if (points + 1 < s->o->points)
        kas_info("there are only %d networks on the way", points + 1);
    s->points = points + 1;
    for (int i = 0; i <= points; i++)
        KAS_TRY(with_point(s, i, s->step[(2 * i * steps + points) / (2 * points)], give_point));
    return KAS_OK;
}

static kas_status run_all(session *s)
{
    static const kas_column columns[] = {{"network", KAS_RIGHT},        {"kernel", KAS_LEFT},
                                         {"layers changed", KAS_RIGHT}, {"FLOPs", KAS_RIGHT},
                                         {"params", KAS_RIGHT},         {"time", KAS_RIGHT},
                                         {"of unmodified", KAS_RIGHT}};
    kas_machine machine;
    const char *const inputs[] = {s->o->path[0], s->o->path[1], s->o->machine};
    KAS_TRY(kas_cli_are_inputs(s->o->net.name, inputs, 3));
    if (s->o->picture)
        KAS_TRY(kas_file_check_writable(s->o->picture));
    KAS_TRY(kas_machine_find(s->o->machine, "auto", s->o->common.threads, &machine));
    KAS_TRY(kas_cli_net_targets(&s->o->net, &s->net, &s->target, &s->targets));
    KAS_TRY(
        kas_predictor_create(&machine, s->net, KAS_KEEP_BATCH, KAS_PRECISION_FP32, &s->predictor));
    KAS_TRY(read_ends(s));
    KAS_TRY(find_steps(s));
    if (s->o->folder)
        KAS_TRY(clear_folder(s->o->folder));
    s->table = kas_table_create(columns, sizeof columns / sizeof *columns);
    KAS_TRY(give_points(s));
    if (!s->o->common.json)
        KAS_TRY(print_table(s));
    return s->o->picture ? draw(s) : KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "A.json B.json", doc, children, 0, 0};
    interpolate_options o = {
        .net = kas_cli_net_defaults(), .machine = "auto", .points = 9, .within = 2};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_cli_keep_on_machine(&o.net, o.machine);
    o.net.keep.threads = o.common.threads;
    session s = {.o = &o};
    const kas_status status = run_all(&s);
    kas_table_free(s.table);
    kas_predictor_free(s.predictor);
    for (int i = 0; i < 2; i++)
        kas_replacement_free(&s.end[i]);
    free(s.changed);
    free(s.step);
    free(s.target);
    kas_net_free(s.net);
    return status;
}

const kas_command kas_command_interpolate = {"interpolate",
                                             "Make the networks that lie between two", run};
