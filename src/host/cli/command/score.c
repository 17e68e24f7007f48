/* kas-gpu score: says what scores without training promise of kernels in a network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/core/log.h"
#include "host/model/pretrained.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/core/rank.h"
#include "host/score/untrained/score.h"
#include "host/space/file/assignment.h"
#include "host/space/sample/sampler.h"
#include "host/study/options.h"

typedef struct score_options {
    kas_cli_common common;
    kas_cli_net net;
    const char *dataset, *init, *machine, *scores;
    char **path; /* [paths] kernel files */
    int paths, sampled, space, batch, draws;
    uint64_t seed;
    bool agreement;
    bool asked[KAS_SCORES];
} score_options;

enum {
    KEY_INIT = 0x200,
    KEY_SCORES,
    KEY_SAMPLED,
    KEY_SPACE,
    KEY_DRAWS,
    KEY_AGREEMENT,
    KEY_MACHINE
};
enum { MOST_DRAWS = 1000, MOST_SAMPLED = 1000000 };
enum { LEAST_RANKED = 3 }; /* kernels whose ranks have a correlation */

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Data set: its training images, and their shape", 0},
    {"init", KEY_INIT, "F.safetensors", 0,
     "Trained weights of the network: the score imitation imitates its convolutions", 0},
    {"scores", KEY_SCORES, "LIST", 0,
     "Scores with commas between them, or all (default fisher,naswot,synflow,params,flops)", 0},
    {"sampled", KEY_SAMPLED, "N", 0, "Also score N sampled kernels", 0},
    {"space", KEY_SPACE, "SPACE", 0, "Space of the sampled kernels: canvas (default) or nas-pte",
     0},
    {"batch", 'b', "N", 0, "Images of a minibatch, 8 or more (default 16)", 0},
    {"initialisations", KEY_DRAWS, "N", 0, "Draws of the initial weights to average (default 1)",
     0},
    {"agreement", KEY_AGREEMENT, 0, 0,
     "Also score another minibatch, and other initial weights, and tell how well the ranks of the "
     "kernels agree",
     0},
    {"seed", 's', "S", 0, "Seed of images, weights and sampled kernels (default 0)", 0},
    {"machine", KEY_MACHINE, "M", 0,
     "Of the score latency and of --keep-slower, as in kas-gpu predict (default auto)", 0},
    {0}};

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(score_options, dataset)},
    {KEY_INIT, KAS_CLI_TEXT(score_options, init)},
    {KEY_SCORES, KAS_CLI_TEXT(score_options, scores)},
    {KEY_SAMPLED, KAS_CLI_INT(score_options, sampled, 1, MOST_SAMPLED)},
    {KEY_SPACE, KAS_CLI_CHOICE(score_options, space, kas_space_names)},
    {'b', KAS_CLI_INT(score_options, batch, KAS_SCORE_LEAST_BATCH, KAS_SCORE_MOST_BATCH)},
    {KEY_DRAWS, KAS_CLI_INT(score_options, draws, 1, MOST_DRAWS)},
    {KEY_AGREEMENT, KAS_CLI_FLAG(score_options, agreement)},
    {'s', KAS_CLI_SEED(score_options, seed)},
    {KEY_MACHINE, KAS_CLI_TEXT(score_options, machine)},
    {0}};

static void check_options(score_options *o, struct argp_state *state)
{
    if (!o->net.name)
        argp_error(state, "no network is given; give one, for example --net resnet20");
    if (o->dataset && (o->net.h || o->net.classes))
        argp_error(state, "--input and --classes: the data set has them; leave them out, or leave "
                          "out --dataset");
    if (kas_scores_parse(o->scores, o->asked) != KAS_OK)
        argp_error(state, "%s", kas_error());
    if (!o->asked[KAS_SCORE_LATENCY] && !o->net.keep.machine)
        kas_cli_refuse(state, "machine", "needs --scores latency or --keep-slower");
    if (!o->sampled)
        kas_cli_refuse(state, "space", "needs --sampled");
    if (o->paths + o->sampled < LEAST_RANKED)
        kas_cli_refuse(state, "agreement", "compares the ranks of kernels; give three or more");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    score_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARGS:
        o->path = state->argv + state->next;
        o->paths = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        check_options(o, state);
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Scores kernels in a network, and the unmodified network, without training and without "
    "compiling anything.\n\n"
    "  kas-gpu score --net resnet20 --dataset cifar100.h5 kernels/*.json\n"
    "  kas-gpu score --net resnet20 --dataset cifar100.h5 --sampled 100 --agreement\n"
    "  kas-gpu score --net resnet34 --scores synflow,zen,params kernels/conv.json\n"
    "\vA larger score promises more. Scores that need no images (synflow, zen, meco, AZ-NAS's, and "
    "those that count) work without --dataset. docs/scores.md defines all of them and says what "
    "they "
    "miss.";

/* A network to be scored: the unmodified one, or one with kernels. */
typedef struct subject {
    const char *path; /* NULL: sampled, or unmodified */
    char name[KAS_NAME_SIZE];
    kas_replacement replacement;
    bool unmodified, left_out;
    kas_scored scored, other_images, other_weights; /* the last two with --agreement */
} subject;

typedef struct session {
    const score_options *o;
    kas_dataset *dataset;
    kas_safetensors trained;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    kas_predictor *predictor;
    kas_score_setup setup;
    kas_sampler *sampler;
    subject *subject; /* [subjects], the unmodified network first */
    int subjects;
} session;

/* ---- what is scored -------------------------------------------------------------------------- */

static kas_status read_kernel(session *s, const char *path, subject *out)
{
    kas_assignment kernels;
    out->path = path;
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    kas_status status =
        kas_cli_fit(&s->o->net, path, s->net, s->target, s->targets, &kernels, &out->replacement);
    if (status == KAS_OK)
        status = kas_assignment_name(&kernels, out->name);
    kas_assignment_free(&kernels);
    return status;
}

/* Among several kernels, one that does not fit the network is left out with a message. */
static kas_status read_kernels(session *s)
{
    for (int i = 0; i < s->o->paths; i++) {
        subject *to = &s->subject[s->subjects];
        const kas_status status = read_kernel(s, s->o->path[i], to);
        if (kas_is_misfit(status) && s->o->paths > 1) {
            kas_warn("left out: %s", kas_error());
            *to = (subject){0};
            continue;
        }
        KAS_TRY(status);
        s->subjects++;
    }
    return KAS_OK;
}

/* A sampled kernel's replacement stands on the sampler's targets, which are the session's. */
static kas_status sample_kernels(session *s)
{
    kas_sample_options options = kas_sample_defaults();
    options.space = s->o->space;
    options.per_layer = s->o->space == KAS_SPACE_NAS_PTE ? KAS_PER_LAYER_YES : KAS_PER_LAYER_NO;
    options.seed = s->o->seed;
    options.budget = s->o->net.budget;
    if (!s->o->sampled)
        return KAS_OK;
    KAS_TRY(kas_sample_options_check(&options));
    KAS_TRY(kas_sampler_create(&options, s->target, s->targets, &s->sampler));
    for (int i = 0; i < s->o->sampled; i++) {
        kas_sample sample;
        KAS_TRY(kas_sampler_next(s->sampler, 0, &sample));
        subject *to = &s->subject[s->subjects++];
        memcpy(to->name, sample.name, sizeof to->name);
        to->replacement = sample.replacement;
    }
    return KAS_OK;
}

static kas_status find_subjects(session *s)
{
    s->subject = calloc((size_t)s->o->paths + (size_t)s->o->sampled + 1, sizeof *s->subject);
    if (!s->subject)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", s->o->paths + s->o->sampled);
    s->subject[s->subjects++].unmodified = true;
    KAS_TRY(read_kernels(s));
    return sample_kernels(s);
}

/* ---- scoring --------------------------------------------------------------------------------- */

static kas_status score(const session *s, subject *to, kas_score_memory *memory)
{
    const kas_replacement *r = to->unmodified ? NULL : &to->replacement;
    const score_options *o = s->o;
    KAS_TRY(kas_score_average(&s->setup, r, 0, o->seed, o->draws, memory, &to->scored));
    if (!o->agreement)
        return KAS_OK;
    KAS_TRY(kas_score_average(&s->setup, r, 1, o->seed, o->draws, memory, &to->other_images));
    return kas_score_average(&s->setup, r, 0, o->seed + (uint64_t)o->draws, o->draws, memory,
                             &to->other_weights);
}

static kas_status score_one(void *context, kas_score_memory *memory, int item)
{
    session *s = context;
    subject *to = &s->subject[item];
    const kas_status status = score(s, to, memory);
    if (!kas_is_misfit(status))
        return status;
    to->left_out = true;
    kas_warn("left out: %s: %s", to->path ? to->path : to->name, kas_error());
    return KAS_OK;
}

/* Takes those that could not be scored out of the list. */
static void drop_left_out(session *s)
{
    int kept = 0;
    for (int i = 0; i < s->subjects; i++) {
        if (s->subject[i].left_out)
            kas_replacement_free(&s->subject[i].replacement);
        else
            s->subject[kept++] = s->subject[i];
    }
    s->subjects = kept;
    if (s->o->agreement && kept - 1 < LEAST_RANKED)
        kas_warn("--agreement: %d of the kernels could be scored, too few to compare ranks",
                 kept - 1);
}

/* Ranks compare the kernels, not the unmodified network. */
static kas_status rank(session *s)
{
    const int kernels = s->subjects - 1;
    kas_scored *all = malloc(sizeof *all * ((size_t)kernels + 1));
    kas_status status = all ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d ranks", kernels);
    for (int which = 0; which < (s->o->agreement ? 3 : 1) && status == KAS_OK; which++) {
        for (int k = 0; k < kernels; k++) {
            const subject *from = &s->subject[k + 1];
            all[k] = which == 0   ? from->scored
                     : which == 1 ? from->other_images
                                  : from->other_weights;
        }
        status = kas_score_rank(&s->setup, all, kernels);
        for (int k = 0; k < kernels && status == KAS_OK; k++) {
            subject *to = &s->subject[k + 1];
            *(which == 0   ? &to->scored
              : which == 1 ? &to->other_images
                           : &to->other_weights) = all[k];
        }
    }
    free(all);
    return status;
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *label(const subject *s)
{
    return s->unmodified ? "unmodified network" : s->path ? s->path : s->name;
}

/* Costs are whole numbers or have a unit; the other scores are numbers of any size. */
static void score_cell(kas_table *table, int id, double value)
{
    char text[32];
    if (id == KAS_SCORE_LATENCY)
        kas_table_cell(table, "%s", kas_human_seconds(value, text));
    else if (id == KAS_SCORE_FLOPS)
        kas_table_cell(table, "%s", kas_human_count(value, text));
    else if (id == KAS_SCORE_PARAMS || id == KAS_SCORE_LAYERS)
        kas_table_cell(table, "%.0f", value);
    else
        kas_table_cell(table, "%.5g", value);
}

static kas_status print_table(const session *s)
{
    kas_column columns[KAS_SCORES + 1] = {{"kernel", KAS_LEFT}};
    int count = 1;
    double cpu = 0;
    kas_buf out = {0};
    for (int i = 0; i < KAS_SCORES; i++)
        if (s->setup.asked[i])
            columns[count++] = (kas_column){kas_score_get(i)->name, KAS_RIGHT};
    kas_table *table = kas_table_create(columns, count);
    for (int k = 0; k < s->subjects; k++) {
        const subject *from = &s->subject[k];
        kas_table_cell(table, "%s", label(from));
        for (int i = 0; i < KAS_SCORES; i++)
            if (from->scored.state[i] == KAS_SCORED)
                score_cell(table, i, from->scored.value[i]);
            else if (from->scored.state[i] != KAS_SCORE_NOT_ASKED)
                kas_table_cell(table, "%s", kas_score_states[from->scored.state[i]]);
            else if (s->setup.asked[i]) /* ranks, of the unmodified network */
                kas_table_cell(table, "-");
        cpu += k ? from->scored.cpu_seconds : 0;
    }
    kas_table_end(table, &out);
    kas_buf_printf(&out, "\n%s, %s; minibatch of %d images, %d draw%s of the weights, seed %llu",
                   s->net->name, s->dataset ? s->dataset->path : "no data set", s->o->batch,
                   s->o->draws, s->o->draws > 1 ? "s" : "", (unsigned long long)s->o->seed);
    if (s->subjects > 1)
        kas_buf_printf(&out, "; %.0f ms of a core for each kernel", 1e3 * cpu / (s->subjects - 1));
    kas_buf_puts(&out, "\n");
    return kas_print_buf(&out);
}

/* Writes an object with a member for each score that was asked for: its number, or its state. */
static void json_scores(const session *s, const kas_scored *scored, bool states, kas_buf *out)
{
    const char *before = "{";
    for (int i = 0; i < KAS_SCORES; i++) {
        if (!s->setup.asked[i])
            continue;
        kas_buf_printf(out, "%s\"%s\": ", before, kas_score_get(i)->name);
        if (states)
            kas_buf_printf(out, "\"%s\"", kas_score_states[scored->state[i]]);
        else if (scored->state[i] == KAS_SCORED)
            kas_buf_printf(out, "%.17g", scored->value[i]);
        else
            kas_buf_puts(out, "null");
        before = ", ";
    }
    kas_buf_puts(out, "}");
}

static kas_status print_line(const session *s, const subject *from)
{
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "score");
    kas_line_text(&line, "file", from->path);
    kas_line_text(&line, "kernel", from->unmodified ? NULL : from->name);
    kas_line_text(&line, "net", s->net->name);
    kas_line_int(&line, "batch", s->o->batch);
    kas_line_int(&line, "initialisations", s->o->draws);
    kas_line_text(&line, "init", s->o->init);
    kas_line_uint(&line, "seed", s->o->seed);
    kas_line_key(&line, "scores");
    json_scores(s, &from->scored, false, &line);
    kas_line_key(&line, "states");
    json_scores(s, &from->scored, true, &line);
    kas_line_text(&line, "not_finite_at", from->scored.layer[0] ? from->scored.layer : NULL);
    kas_line_number(&line, "cpu_seconds", from->scored.cpu_seconds);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

/* Spearman's correlation of a score over the kernels between two ways of computing it. */
static kas_status agreement_of(const session *s, int id, bool images, double *out)
{
    const int kernels = s->subjects - 1;
    double *both = malloc(sizeof *both * 2 * ((size_t)kernels + 1));
    if (!both)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d scores", kernels);
    for (int k = 0; k < kernels; k++) {
        const subject *from = &s->subject[k + 1];
        both[k] = from->scored.value[id];
        both[kernels + k] = (images ? &from->other_images : &from->other_weights)->value[id];
    }
    const kas_status status = kas_spearman(kernels, both, both + kernels, out);
    free(both);
    return status;
}

static kas_status print_agreement_line(int id, double images, double weights)
{
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "agreement");
    kas_line_text(&line, "score", kas_score_get(id)->name);
    kas_line_number(&line, "minibatches", images);
    kas_line_number(&line, "initialisations", weights);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

static void correlation_cell(kas_table *table, double value)
{
    if (isfinite(value))
        kas_table_cell(table, "%.3f", value);
    else
        kas_table_cell(table, "-");
}

static kas_status print_agreement(const session *s)
{
    static const kas_column columns[] = {
        {"score", KAS_LEFT}, {"two minibatches", KAS_RIGHT}, {"two initialisations", KAS_RIGHT}};
    kas_table *table = kas_table_create(columns, 3);
    kas_buf out = {0};
    kas_status status = KAS_OK;
    for (int i = 0; i < KAS_SCORES; i++) {
        double images, weights;
        if (!s->setup.asked[i])
            continue;
        KAS_TRY_GOTO(agreement_of(s, i, true, &images), done);
        KAS_TRY_GOTO(agreement_of(s, i, false, &weights), done);
        if (s->o->common.json) {
            KAS_TRY_GOTO(print_agreement_line(i, images, weights), done);
            continue;
        }
        kas_table_cell(table, "%s", kas_score_get(i)->name);
        correlation_cell(table, images);
        correlation_cell(table, weights);
    }
    if (!s->o->common.json)
        status = kas_table_write(table, &out);
    if (!s->o->common.json && status == KAS_OK)
        printf("\nSpearman's rank correlation over the %d kernels:\n%s", s->subjects - 1,
               kas_buf_text(&out));
done:
    kas_table_free(table);
    kas_buf_free(&out);
    return status;
}

static kas_status print_all(const session *s)
{
    for (int k = 0; s->o->common.json && k < s->subjects; k++)
        KAS_TRY(print_line(s, &s->subject[k]));
    if (!s->o->common.json)
        KAS_TRY(print_table(s));
    const bool shown = s->o->common.json || s->subjects - 1 >= LEAST_RANKED;
    return s->o->agreement && shown ? print_agreement(s) : KAS_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static kas_status draw_minibatches(session *s, int count)
{
    const int batch = s->o->batch;
    const uint32_t images = s->dataset->train.count, most = images / (uint32_t)count;
    char smaller[64] = "";
    if (most >= (uint32_t)batch)
        return kas_minibatches_draw(s->dataset, batch, count, s->o->seed, s->minibatch);
    if (most >= KAS_SCORE_LEAST_BATCH)
        snprintf(smaller, sizeof smaller, "--batch %u or less, or ", most);
    return kas_fail(KAS_BAD_INPUT,
                    "--batch %d: %s: train/images: %u images are too few for %d minibatch%s of %d; "
                    "give %sa data set with more",
                    batch, s->dataset->path, images, count, count > 1 ? "es" : "", batch, smaller);
}

static kas_status open_network(session *s)
{
    const kas_cli_net usual = kas_cli_net_defaults();
    kas_cli_net net = s->o->net;
    if (s->o->dataset) {
        KAS_TRY(kas_dataset_open(s->o->dataset, &s->dataset));
        net.h = (int)s->dataset->h;
        net.w = (int)s->dataset->w;
        net.c = (int)s->dataset->c;
        net.classes = (int)s->dataset->classes;
    }
    if (!net.h) {
        net.c = usual.c;
        net.h = usual.h;
        net.w = usual.w;
    }
    if (!net.classes)
        net.classes = usual.classes;
    return kas_cli_net_targets(&net, &s->net, &s->target, &s->targets);
}

/* Draws as many minibatches as the scores look at. */
static kas_status open_minibatches(session *s)
{
    const int count = kas_scores_minibatches(s->o->asked);
    if (!count || !s->dataset)
        return KAS_OK;
    s->setup.minibatch = s->minibatch;
    return draw_minibatches(s, s->o->agreement ? 2 : count);
}

/* Reads the weights that are imitated. */
static kas_status open_trained(session *s)
{
    if (!s->o->init)
        return KAS_OK;
    if (!s->o->asked[KAS_SCORE_IMITATION])
        return kas_fail(KAS_USAGE, "--init is for the score imitation: give --scores imitation");
    KAS_TRY(kas_pretrained_check(s->o->init, s->net, NULL, false));
    KAS_TRY(kas_safetensors_read(s->o->init, KAS_WEIGHTS_LIMIT, &s->trained));
    s->setup.trained = &s->trained;
    return KAS_OK;
}

static kas_status open_predictor(session *s)
{
    kas_machine machine;
    if (!s->o->asked[KAS_SCORE_LATENCY])
        return KAS_OK;
    /* --threads are workers here, and change no score. */
    KAS_TRY(kas_machine_find(s->o->machine, "auto", 0, &machine));
    return kas_predictor_create(&machine, s->net, KAS_LATENCY_BATCH, KAS_PRECISION_FP32,
                                &s->predictor);
}

static kas_status run_session(session *s)
{
    KAS_TRY(open_network(s));
    KAS_TRY(open_predictor(s));
    s->setup = (kas_score_setup){.net = s->net,
                                 .target = s->target,
                                 .targets = s->targets,
                                 .batch = s->o->batch,
                                 .seed = s->o->seed,
                                 .predictor = s->predictor};
    memcpy(s->setup.asked, s->o->asked, sizeof s->setup.asked);
    KAS_TRY(open_minibatches(s));
    KAS_TRY(kas_score_check(&s->setup));
    KAS_TRY(open_trained(s));
    KAS_TRY(find_subjects(s));
    KAS_TRY(kas_score_each(s->o->common.threads, s->subjects, score_one, s));
    drop_left_out(s);
    KAS_TRY(rank(s));
    return print_all(s);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "[KERNEL.json...]", doc, children, 0, 0};
    score_options o = {.net = kas_cli_net_defaults(),
                       .machine = "auto",
                       .scores = "fisher,naswot,synflow,params,flops",
                       .batch = 16,
                       .draws = 1};
    o.net.h = o.net.classes = 0; /* stay 0 without --input and --classes */
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_cli_keep_on_machine(&o.net, o.machine);
    session s = {.o = &o};
    const kas_status status = run_session(&s);
    for (int i = 0; i < s.subjects; i++)
        kas_replacement_free(&s.subject[i].replacement);
    free(s.subject);
    kas_sampler_free(s.sampler);
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        kas_minibatch_free(&s.minibatch[m]);
    kas_predictor_free(s.predictor);
    kas_safetensors_free(&s.trained);
    free(s.target);
    kas_net_free(s.net);
    kas_dataset_close(s.dataset);
    return status;
}

const kas_command kas_command_score = {"score", "Score kernels without training", run};
