#include "host/cli/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "host/report/line.h"
#include "host/report/table.h"
#include "host/search/worker/programs.h"
#include "host/study/study_store.h"

enum { SHOWN = 5 }; /* candidates */

/* Computes the bytes of device memory of a training, with or without a kernel. */
static kas_status plan_memory(const kas_session *s, const kas_replacement *replacement,
                              size_t *bytes)
{
    kas_programs programs;
    kas_train_options options = {.net = s->problem.net,
                                 .dataset = s->problem.dataset,
                                 .programs = &programs,
                                 .recipe = s->search.recipe,
                                 .seed = s->search.seed,
                                 .train_count = s->problem.dataset->train.count,
                                 .evaluate_test = true};
    kas_memory_plan plan = {0};
    KAS_TRY(kas_stage_build(replacement, &s->search, KAS_STAGE_TRAINING, s->devices.kind, NULL,
                            &programs));
    const kas_status status = kas_train_plan_memory(&options, &plan);
    kas_programs_free(&programs);
    *bytes = plan.total;
    return status;
}

static kas_status kernel_memory(const kas_session *s, const kas_work *work, size_t *bytes)
{
    kas_replacement candidate;
    KAS_TRY(kas_problem_place(&s->search, work->name, work->kernel, work->gains, s->problem.target,
                              s->problem.targets, &candidate));
    const kas_status status = plan_memory(s, &candidate, bytes);
    kas_replacement_free(&candidate);
    return status;
}

static kas_status print_targets(const kas_session *s)
{
    static const kas_column columns[] = {{"replaced convolution", KAS_LEFT},
                                         {"channels", KAS_RIGHT},
                                         {"size", KAS_RIGHT},
                                         {"kernel", KAS_RIGHT},
                                         {"instances", KAS_RIGHT},
                                         {"FLOPs", KAS_RIGHT},
                                         {"params", KAS_RIGHT}};
    kas_table *table = kas_table_create(columns, 7);
    for (int i = 0; i < s->problem.targets; i++) {
        const kas_target *t = &s->problem.target[i];
        char text[32];
        kas_table_cell(table, "%s", t->name);
        kas_table_cell(table, "%u -> %u", t->c_in, t->c_out);
        kas_table_cell(table, "%ux%u", t->h, t->w);
        kas_table_cell(table, "%ux%u%s", t->kernel_h, t->kernel_w, t->stride > 1 ? " strided" : "");
        kas_table_cell(table, "%u", t->parts_in * t->parts_out);
        kas_table_cell(table, "%s", kas_human_count(kas_target_conv_flops(t), text));
        kas_table_cell(table, "%s", kas_human_count(kas_target_conv_params(t), text));
    }
    kas_buf out = {0};
    kas_table_end(table, &out);
    kas_buf_printf(
        &out, "\nreplaced: %d convolutions, %.1f%% of the FLOPs of %s\n", s->problem.targets,
        100 * kas_targets_flops_share(s->problem.net, s->problem.target, s->problem.targets),
        s->search.net);
    return kas_print_buf(&out);
}

static void print_candidate(const kas_work *w, size_t memory, bool json)
{
    char bytes[32];
    if (json) {
        kas_buf line = {0};
        kas_line_begin(&line);
        kas_line_text(&line, "kind", "candidate");
        kas_line_int(&line, "index", w->index);
        kas_line_text(&line, "kernel", w->name);
        kas_line_text(&line, "origin", w->origin);
        kas_line_number(&line, "flops_ratio", w->flops / w->conv_flops);
        kas_line_number(&line, "params_ratio", w->params / w->conv_params);
        kas_line_number(&line, "memory_bytes", (double)memory);
        kas_line_text(&line, "state", kas_work_state_name(w->state));
        kas_line_text(&line, "reason", w->reason);
        kas_line_end(&line);
        printf("%s", kas_buf_text(&line));
        kas_buf_free(&line);
    } else {
        printf("candidate %lld: %s  %s  FLOPs %.3fx  params %.3fx  memory %s\n",
               (long long)w->index, w->name, w->origin, w->flops / w->conv_flops,
               w->params / w->conv_params, kas_human_bytes((double)memory, bytes));
        if (kas_work_discarded(w->state))
            printf("    would not be trained: %s: %s\n", kas_work_state_name(w->state), w->reason);
    }
}

/* Ancestors take minutes, so a dry run does without them. */
static void print_what_comes(const kas_session *s)
{
    if (s->search.ancestors)
        printf("Without ancestors the search would begin with these. It lets %d kernels evolve "
               "first, and begins with those of them and of these that imitate best (--ancestors):"
               "\n",
               s->search.ancestors);
    else
        printf("The search begins with these:\n");
}

static kas_status print_candidates(const kas_session *s, bool json)
{
    const kas_strategy *strategy = &s->strategy;
    int count = s->search.candidates && s->search.candidates < SHOWN ? s->search.candidates : SHOWN;
    for (int k = 0; k < count; k++) {
        kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k};
        size_t memory = 0;
        bool ready;
        KAS_TRY(strategy->next(strategy->context, NULL, 0, &work, &ready));
        if (!ready) /* the next generation needs results */
            return KAS_OK;
        kas_status status = kernel_memory(s, &work, &memory);
        if (status == KAS_OK)
            print_candidate(&work, memory, json);
        kas_work_clear(&work);
        KAS_TRY(status);
    }
    return KAS_OK;
}

static void print_plan(const kas_session *s, size_t memory)
{
    char text[32];
    if (s->search.candidates)
        printf("candidates: %d", s->search.candidates);
    else
        printf("candidates: as many as %s allow", kas_human_duration(s->search.time_limit, text));
    printf(", %d epochs each, batches of %d; %d %s on %s (%s%s), %d %s each\n",
           kas_search_recipe(&s->search, true).epochs, s->search.recipe.batch, s->workers,
           s->workers == 1 ? "worker" : "workers", s->devices.kind, s->devices.spec[0],
           s->devices.count > 1 ? ", ..." : "", s->search.threads,
           s->search.threads == 1 ? "thread" : "threads");
    if (s->packing.chosen)
        printf("%d trainings at once in a worker: one fills %.0f%% of the GPU, so %d fill it; its "
               "memory holds %d\n",
               s->pack, 100 * s->packing.filled, s->packing.fills, s->packing.fits);
    else
        printf("trainings at once in a worker: %d\n", s->pack);
    printf("memory of a worker with the unmodified network: %s\nstudy: %s (%s)\n",
           kas_human_bytes((double)memory, text), s->study,
           kas_study_exists(s->study) ? "exists; the search would go on with it" : "not created");
}

kas_status kas_dry_run(kas_session *session, const kas_cli_common *common)
{
    size_t memory = 0;
    KAS_TRY(plan_memory(session, NULL, &memory));
    if (!common->json) {
        KAS_TRY(print_targets(session));
        print_plan(session, memory);
        print_what_comes(session);
    }
    return print_candidates(session, common->json);
}
