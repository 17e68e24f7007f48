/* kas-gpu bench: measures how fast this build is on this machine. */
#include <stdio.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/cli/sampler_options.h"

enum { MAX_SUITES = 64 };

typedef struct bench_cli {
    kas_cli_common common;
    kas_cli_net net;
    kas_bench_options bench;
    const char *machine_name;
    kas_machine machine;
    const kas_bench_suite *suite[MAX_SUITES];
    int suites;
} bench_cli;

enum {
    KEY_SECONDS = 0x300,
    KEY_SEED,
    KEY_PASSES,
    KEY_PRECISION,
    KEY_DRY_RUN,
    KEY_TIMES,
    KEY_TUNED,
    KEY_MACHINE
};

static const struct argp_option option_list[] = {
    {"repeats", 'r', "N", 0, "How often each thing is measured (default: the suite's own)", 0},
    {"seconds", KEY_SECONDS, "S", 0,
     "Time to measure, all repeats: sampler (default 2), children (5), store (3)", 0},
    {"seed", KEY_SEED, "S", 0,
     "sampler, children, known, jit, data, predicted: seed of the first repeat (default 0)", 0},
    {"batch", 'b', "N", 0,
     "step, models, layers, jit, data, predicted: images in a step (default: the suite's own)", 0},
    {"kernel", 'k', "KERNEL.json", 0,
     "step: compare with this kernel, or file of layers, in place; layers: this kernel or a folder "
     "of them (default: kernels); predicted: likewise, beside or instead of sampled ones; known: "
     "look for those of this folder",
     0},
    {"machine", KEY_MACHINE, "M", 0,
     "predicted: a100, h100 (default), h200, ... or a file of doctor --calibrate", 0},
    {"precision", KEY_PRECISION, "P", 0,
     "step, models, layers, jit, predicted: fp32 (default), tf32, bf16 or fp16", 0},
    {"passes", KEY_PASSES, NULL, 0, "step: list every pass over memory with its bytes", 0},
    {"tuned", KEY_TUNED, NULL, 0,
     "layers: kernels run by the schedules that kas-gpu tune found on this device", 0},
    {"times", KEY_TIMES, NULL, 0, "step: like --passes, with the time that each pass took", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0,
     "step: print the list of --passes and measure nothing; needs no device, and allows a batch of "
     "any size",
     0},
    {"dataset", 'd', "F.h5", 0, "data: measure this file (default: files made for it)", 0},
    {"device", 'D', "D", 0,
     "step, models, layers, data; predicted: of --machine auto and --keep-slower. auto (default), "
     "cpu, cuda, cuda:N",
     0},
    {0}};

/* Which options a suite takes, beside those of every command. */
#define NET "net input classes "
#define LAYERS NET "targets flops params "
#define SAMPLER                                                                                    \
    "max-width min-weighted max-weighted min-receptive allow forbid require kernels "              \
    "dilations shifts spatial-weights "
#define PRIMITIVES "min-primitives max-primitives "
static const struct {
    const char *suite, *options;
} takes[] = {
    {"sampler", LAYERS SAMPLER "repeats seconds seed"},
    {"children", LAYERS SAMPLER PRIMITIVES "repeats seconds seed"},
    {"known", LAYERS "repeats seed kernel"},
    {"jit", LAYERS "repeats seed batch precision"},
    {"layers", LAYERS "repeats batch kernel precision device tuned"},
    {"step", LAYERS "keep-slower repeats batch kernel precision device passes times dry-run"},
    {"models", NET "repeats batch precision device"},
    {"data", "repeats seed batch device dataset"},
    {"store", "seconds"},
    {"predicted",
     LAYERS SAMPLER PRIMITIVES "keep-slower repeats seed batch kernel precision device machine"},
};
enum { SUITES = sizeof takes / sizeof *takes };
/* These change what the other suites do, so every suite must take them. */
static const char of_all[] = "dry-run machine";

static bool is_taken(const char *suite, const char *option)
{
    for (int i = 0; i < SUITES; i++)
        if (strcmp(takes[i].suite, suite) == 0)
            return kas_cli_names_have(takes[i].options, option);
    return false;
}

/* Writes the names of suites for a message: "sampler, step". Of an option they are those that take
 * it; NULL means all suites. */
static void list_names(const char *option, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (const kas_bench_suite *const *s = kas_bench_suites(); *s && at < size; s++)
        if (!option || is_taken((*s)->name, option))
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", (*s)->name);
}

static void add_suite(bench_cli *o, const char *name, struct argp_state *state)
{
    char known[256];
    const kas_bench_suite *suite = kas_bench_find(name);
    list_names(NULL, known, sizeof known);
    if (!suite)
        argp_error(state, "unknown suite \"%s\"; known are: %s", name, known);
    else if (o->suites == MAX_SUITES)
        argp_error(state, "more than %d suites", MAX_SUITES);
    else
        o->suite[o->suites++] = suite;
}

/* Returns whether an option has an effect on the suites that are named, or on all of them where none
 * is. */
static bool has_effect(const bench_cli *o, const char *option)
{
    const int suites = o->suites ? o->suites : SUITES;
    int take = 0;
    if (kas_cli_names_have("json quiet threads", option))
        return true;
    for (int i = 0; i < suites; i++)
        take += is_taken(o->suites ? o->suite[i]->name : takes[i].suite, option);
    return kas_cli_names_have(of_all, option) ? take == suites : take > 0;
}

static bool only(const bench_cli *o, const char *suite)
{
    return o->suites == 1 && strcmp(o->suite[0]->name, suite) == 0;
}

static void check_options(const bench_cli *o, struct argp_state *state)
{
    kas_cli_given given;
    char known[256];
    kas_cli_given_read(state, &given);
    for (int i = 0; i < given.options; i++)
        if (!has_effect(o, given.option[i])) {
            list_names(given.option[i], known, sizeof known);
            argp_error(state, "--%s is an option of %s%s%s", given.option[i],
                       strchr(known, ',') ? "the suites "
                       : *known           ? "the suite "
                                          : "no suite",
                       known, *known ? " only" : "");
        }
    if (o->bench.dry_run && o->bench.kernel)
        argp_error(state, "--dry-run lists unmodified networks; leave out --kernel");
    if (!o->bench.kernel)
        kas_cli_refuse(state, "keep-slower", "needs --kernel");
    if (!o->bench.kernel && only(o, "step"))
        kas_cli_refuse(state, "targets flops params", "needs --kernel");
    if (!o->machine_name && !o->net.keep.machine && only(o, "predicted"))
        kas_cli_refuse(state, "device", "needs --machine auto or --keep-slower");
}

static const kas_cli_value values[] = {
    {'r', KAS_CLI_INT(bench_cli, bench.repeats, 1, 100000)},
    {KEY_SECONDS, KAS_CLI_NUMBER(bench_cli, bench.seconds, 1e-6, 1e6)},
    {KEY_SEED, KAS_CLI_SEED(bench_cli, bench.seed)},
    {KEY_PRECISION, KAS_CLI_CHOICE(bench_cli, bench.precision, kas_precision_names)},
    {KEY_DRY_RUN, KAS_CLI_FLAG(bench_cli, bench.dry_run)},
    {KEY_PASSES, KAS_CLI_FLAG(bench_cli, bench.passes)},
    {KEY_TUNED, KAS_CLI_FLAG(bench_cli, bench.tuned)},
    {KEY_TIMES, KAS_CLI_FLAG(bench_cli, bench.times)},
    {'b', KAS_CLI_INT(bench_cli, bench.batch, 1, 65536)},
    {'k', KAS_CLI_TEXT(bench_cli, bench.kernel)},
    {KEY_MACHINE, KAS_CLI_TEXT(bench_cli, machine_name)},
    {'d', KAS_CLI_TEXT(bench_cli, bench.dataset)},
    {'D', KAS_CLI_TEXT(bench_cli, bench.device)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench_cli *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->bench.sample;
        state->child_inputs[2] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        add_suite(o, arg, state);
        return 0;
    case ARGP_KEY_END:
        check_options(o, state);
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Measure how fast this build is on this machine.\n\n"
    "  kas-gpu bench\n"
    "  kas-gpu bench sampler --net resnet18 --seconds 10\n"
    "  kas-gpu bench layers --kernel best.json\n"
    "  kas-gpu bench step --net resnet20 --batch 128 --device cpu --repeats 20\n"
    "  kas-gpu bench step --net resnet20 --kernel best.json --json\n"
    "  kas-gpu bench step --net resnet18 --batch 512 --precision bf16 --dry-run\n"
    "  kas-gpu bench step --net resnet18 --batch 512 --precision bf16 --times\n"
    "  kas-gpu bench models --net resnet18,mobilenet_v2 --batch 32\n"
    "  kas-gpu bench data --dataset imagenet.h5 --batch 256\n"
    "  kas-gpu bench predicted --net resnet18 --input 3x56x56 --repeats 300 --precision bf16\n"
    "\vWithout --net each suite runs every network it knows, at sizes of its own. Medians with "
    "quartiles, never the best of several runs. docs/benchmarks.md explains every figure.\n\n"
    "Suites (default: all):";

/* The list of suites comes from their table, so that the help cannot leave one out. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC || !text)
        return (char *)text;
    kas_buf out = {0};
    kas_buf_puts(&out, text);
    for (const kas_bench_suite *const *s = kas_bench_suites(); *s; s++)
        kas_buf_printf(&out, "\n  %-9s %s", (*s)->name, (*s)->question);
    if (kas_buf_status(&out) == KAS_OK)
        return out.data; /* argp frees it */
    kas_buf_free(&out);
    return (char *)text;
}

static void put(void *context, const char *text)
{
    (void)context;
    printf("%s", text);
    kas_print_flush(); /* a long run shows each line as it is measured */
}

static void take_net(bench_cli *o)
{
    o->bench.net = o->net.name;
    o->bench.c = o->net.c;
    o->bench.h = o->net.h;
    o->bench.w = o->net.w;
    o->bench.classes = o->net.classes;
    o->bench.filter = o->net.filter;
    o->bench.budget = o->net.budget;
    kas_cli_keep_on_device(&o->net, o->bench.device, o->common.threads);
    o->bench.keep = o->net.keep;
    o->bench.threads = o->common.threads;
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {
        {&kas_cli_bench_net_argp, 0, NULL, 0},
        {kas_cli_sampler_argp(), 0, "Of the suites sampler, children and predicted:", 0},
        {&kas_cli_common_argp, 0, NULL, 0},
        {0}};
    const struct argp argp = {option_list, parse, "[SUITE...]", doc, children, help_filter, 0};
    bench_cli o = {.net = kas_cli_net_defaults(), .bench.sample = kas_sample_defaults()};
    o.net.h = 0; /* stays 0 without --input: each suite then has its own sizes */
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    take_net(&o);
    if (o.machine_name) {
        KAS_TRY(kas_machine_find(o.machine_name, o.bench.device, o.common.threads, &o.machine));
        o.bench.machine = &o.machine;
    }
    kas_bench_sink sink = {.json = o.common.json, .put = put};
    const bool named = o.suites > 0;
    for (const kas_bench_suite *const *s = kas_bench_suites(); !named && *s; s++)
        o.suite[o.suites++] = *s;
    if (!o.bench.dry_run)
        kas_bench_announce(o.suite, o.suites, &o.bench);
    if (!named)
        return kas_bench_run_all(o.suite, o.suites, &o.bench, &sink);
    for (int i = 0; i < o.suites; i++)
        KAS_TRY(o.suite[i]->run(&o.bench, &sink));
    return KAS_OK;
}

const kas_command kas_command_bench = {"bench", "Measure how fast this build is here", run};
