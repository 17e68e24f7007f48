#include "support/made_study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/sha256.h"
#include "host/store/sql.h"
#include "host/study/options.h"
#include "host/study/study_dir.h"

static const char *const kernel_files[] = {"group_conv",      "depthwise_separable", "involution",
                                           "squeeze_excite",  "shift_conv",          "residual",
                                           "canvas_kernel_b", "bottleneck"};
enum { KERNELS = 8, GENERATION = 20 };
#define BEGUN 1.79e9

/* A number in [0, 1) for each pair of arguments. */
static double draw(uint64_t seed, uint64_t k)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15u + k * 0xD1B54A32D192ED03u + 1;
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return (double)(x >> 11) / 9007199254740992.0;
}

static void name_of(const made_study *how, int k, char out[17])
{
    snprintf(out, 17, "%08x%08x", (unsigned)(draw(how->seed, (uint64_t)k * 7 + 1) * 4294967295.0),
             (unsigned)k * 2654435761u);
}

static kas_work_state state_of(const made_study *how, int k)
{
    static const kas_work_state rest[] = {KAS_WORK_PRUNED, KAS_WORK_SCREENED, KAS_WORK_OVER_LATENCY,
                                          KAS_WORK_FAILED, KAS_WORK_DIVERGED, KAS_WORK_PRUNED};
    if (how->under_way && k >= how->candidates - 2)
        return KAS_WORK_RUNNING;
    if (k % 10 < 4)
        return KAS_WORK_FINISHED;
    if (how->evolved && k % 10 > 7)
        return k % 10 == 8 ? KAS_WORK_NOT_PROMOTED : KAS_WORK_PREDICTED_SLOW;
    return rest[k % 10 - 4];
}

static const char *reason_of(const made_study *how, kas_work_state state, int k, char out[200])
{
    snprintf(out, 200, "%s", "");
    if (state == KAS_WORK_PRUNED)
        snprintf(out, 200, "%.2f%% after epoch 2, less than %.2f of the best curve", 5.0 + k % 7,
                 0.6);
    else if (state == KAS_WORK_OVER_LATENCY)
        snprintf(out, 200, "%.2f times the unmodified network's latency", 1 + k % 5 * 0.7);
    else if (state > KAS_WORK_FINISHED)
        snprintf(out, 200, "%.150s %d", how->text ? how->text : "layer1.0.conv1: not this time", k);
    return out;
}

static kas_status put_epochs(kas_store *store, int64_t id, int count, int all, double last,
                             double shape)
{
    for (int e = 0; e < count; e++)
        KAS_TRY(kas_sql_run(
            store, NULL, "INSERT INTO epoch VALUES (?, ?, ?, ?, ?, ?, ?)", "iiddddd", id,
            (int64_t)e, 3.0 / (e + 1), last * 0.9, 2.5 / (e + 1),
            last * (1 - exp(-(e + 1) * (2 + 2 * shape) / all)) / (1 - exp(-(2 + 2 * shape))), 2.5));
    return KAS_OK;
}

typedef struct item {
    kas_work_kind kind;
    int64_t k, seed;
    const char *name, *kernel, *origin, *parents, *reason;
    int generation, rung, epochs;
    double predicted, flops, accuracy, latency, started;
    kas_work_state state;
} item;

static kas_status put_item(kas_store *store, const made_study *how, const item *i, int64_t id)
{
    const bool ended = kas_work_ended(i->state);
    KAS_TRY(kas_sql_run(
        store, NULL,
        "INSERT INTO work (id, kind, k, seed, attempt, name, kernel, flops, params, conv_flops,"
        " conv_params, state, reason, lease, created, started, ended, accuracy, latency,"
        " latency_iqr, step_seconds, generation, origin, parents, rung, predicted, answers)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "iiiiittddddttdddddddittidi", id, (int64_t)i->kind, i->k, i->seed, i->k, i->name, i->kernel,
        i->flops * 4e7, i->flops * 2.5e5, 4e7, 2.5e5, kas_work_state_name(i->state), i->reason,
        BEGUN, i->started, ended ? i->started + 3.0 * i->epochs + 2 : NAN, i->accuracy, i->latency,
        i->latency * 0.04, i->latency * 2.4, (int64_t)i->generation, i->origin, i->parents,
        (int64_t)i->rung, i->predicted, (int64_t)(i->kind == KAS_WORK_FINAL)));
    return put_epochs(store, id, i->epochs, how->epochs,
                      isfinite(i->accuracy) ? i->accuracy : 0.2 + 0.2 * draw(3, (uint64_t)id),
                      draw(4, (uint64_t)id));
}

/* Writes how a candidate came, and from which earlier ones. */
static void set_origin(const made_study *how, int k, char parents[64], char origin[64])
{
    static const char *const children[] = {"change", "replace", "insert", "delete", "regrow"};
    *parents = 0;
    snprintf(origin, 64, "%s", "sampled");
    if (how->text)
        snprintf(origin, 64, "known:%.50s", how->text);
    else if (k < KERNELS)
        snprintf(origin, 64, "known:%s", kernel_files[k]);
    if (!how->evolved || k < GENERATION)
        return;
    char name[17];
    const int first = k / GENERATION * GENERATION, one = (int)(draw(5, (uint64_t)k) * first),
              two = (int)(draw(6, (uint64_t)k) * first);
    name_of(how, one - one % 10, parents); /* of those that finished */
    snprintf(origin, 64, "%s", children[k % 5]);
    if (k % 4 == 0) {
        name_of(how, two - two % 10 + 1, name);
        snprintf(parents + 16, 48, ",%s", name);
        snprintf(origin, 64, "graft");
    }
}

static kas_status put_candidate(kas_store *store, const made_study *how, int k, const char *kernel)
{
    char name[17], parents[64], origin[64], reason[200];
    const kas_work_state state = state_of(how, k);
    const int generation = how->evolved ? k / GENERATION : 0;
    const double luck = draw(how->seed, (uint64_t)k), speed = draw(how->seed + 9, (uint64_t)k);
    const bool trained = state == KAS_WORK_FINISHED || state == KAS_WORK_PRUNED ||
                         state == KAS_WORK_NOT_PROMOTED || state == KAS_WORK_DIVERGED;
    name_of(how, k, name);
    set_origin(how, k, parents, origin);
    const double latency = 0.004 * exp(2.2 * (speed - 0.45));
    const item i = {
        .kind = KAS_WORK_CANDIDATE,
        .k = k,
        .name = name,
        .kernel = kernel,
        .origin = origin,
        .parents = parents,
        .reason = reason_of(how, state, k, reason),
        .generation = generation,
        .rung = how->evolved && state == KAS_WORK_FINISHED ? 2 : 0,
        .epochs = state == KAS_WORK_FINISHED  ? how->epochs
                  : state == KAS_WORK_RUNNING ? how->epochs / 2
                  : trained                   ? 1 + how->epochs / 4
                                              : 0,
        .predicted = how->evolved ? latency * (0.8 + 0.4 * draw(8, (uint64_t)k)) : NAN,
        .flops = 0.1 + 0.4 * draw(7, (uint64_t)k),
        .accuracy =
            trained ? (0.52 - 0.25 * exp(-generation / 8.0) + 0.3 * luck * luck + 0.05 * speed) *
                          (state == KAS_WORK_FINISHED ? 1 : 0.5)
                    : NAN,
        .latency = state == KAS_WORK_SCREENED || state == KAS_WORK_PREDICTED_SLOW ? NAN : latency,
        .started = BEGUN + 60 + 40.0 * k,
        .state = state};
    return put_item(store, how, &i, 10 + k);
}

/* The final trainings of a late candidate and of the unmodified network, by two seeds each. */
static kas_status put_others(kas_store *store, const made_study *how, const char *kernel)
{
    const int answer = (how->candidates - 1) / 10 * 10; /* one that finished */
    char name[17];
    name_of(how, answer, name);
    item i = {.kind = KAS_WORK_BASELINE,
              .name = "",
              .origin = "",
              .parents = "",
              .reason = "",
              .epochs = how->epochs,
              .predicted = 0.0046,
              .flops = NAN,
              .accuracy = 0.62,
              .latency = 0.005,
              .started = BEGUN,
              .state = KAS_WORK_FINISHED};
    KAS_TRY(put_item(store, how, &i, 1));
    for (int seed = 0; seed < 2 && !how->under_way && !how->unanswered; seed++) {
        i.kind = KAS_WORK_FINAL_BASELINE;
        i.seed = seed;
        i.accuracy = 0.63 + 0.01 * seed;
        KAS_TRY(put_item(store, how, &i, 2 + seed));
        item final = i;
        final.kind = KAS_WORK_FINAL;
        final.k = answer;
        final.name = name;
        final.kernel = kernel;
        final.flops = 0.25;
        final.accuracy = 0.65 + 0.01 * seed;
        KAS_TRY(put_item(store, how, &final, 4 + seed));
    }
    return KAS_OK;
}

static kas_status put_items(kas_store *store, const made_study *how, const kas_buf *kernel)
{
    KAS_TRY(put_others(store, how, kas_buf_text(&kernel[0])));
    for (int k = 0; k < how->candidates; k++)
        KAS_TRY(put_candidate(store, how, k,
                              how->text && k % 3 == 1 ? how->text
                                                      : kas_buf_text(&kernel[k % KERNELS])));
    return KAS_OK;
}

static kas_status put_all(kas_store *store, const made_study *how)
{
    kas_buf kernel[KERNELS] = {{0}};
    kas_status status = KAS_OK;
    for (int i = 0; i < KERNELS && status == KAS_OK; i++) {
        char path[100];
        snprintf(path, sizeof path, "kernels/%s.json", kernel_files[i]);
        status = kas_file_read(path, 1 << 20, &kernel[i]);
    }
    if (status == KAS_OK)
        KAS_SQL_TRANSACTION(store, status, put_items(store, how, kernel));
    for (int i = 0; i < KERNELS; i++)
        kas_buf_free(&kernel[i]);
    return status;
}

kas_status make_study(const char *folder, const made_study *how)
{
    char path[KAS_STUDY_PATH];
    kas_search_options options = kas_search_options_default();
    options.recipe = kas_recipe_default();
    options.recipe.epochs = how->epochs;
    options.seed = how->seed;
    options.candidates = how->asked ? how->asked : how->candidates;
    options.prune_window = how->evolved ? 9 : 8; /* what tells the two kinds apart */
    if (how->unanswered)
        options.objective = KAS_OBJECTIVE_LATENCY;
    if (how->evolved)
        options.rungs = (kas_int_list){.count = 2, .value = {1, 2}};
    snprintf(options.net, sizeof options.net, "resnet20");
    snprintf(options.device, sizeof options.device, "cpu");
    if (how->latency_on)
        snprintf(options.latency_on, sizeof options.latency_on, "%s", how->latency_on);
    kas_buf text = {0};
    kas_search_options_write(&options, &text);
    kas_study study = {.options = text.data, .seed = how->seed, .sampler_version = 3};
    kas_sha256_hex(text.data, text.size, study.options_digest);
    kas_sha256_hex("data", 4, study.dataset_digest);
    snprintf(study.dataset_path, sizeof study.dataset_path, "/nowhere/%s.h5",
             how->text ? how->text : "made");
    kas_store *store = NULL;
    bool created;
    kas_status status = kas_mkdirs(folder);
    if (status == KAS_OK)
        status = kas_study_path(folder, "study.db", path);
    if (status == KAS_OK)
        status = kas_store_open(path, KAS_STORE_CREATE, &store);
    if (status == KAS_OK)
        status = kas_store_begin_study(store, &study, &created);
    if (status == KAS_OK)
        status = kas_store_set_device(store, how->text ? how->text : "made device");
    if (status == KAS_OK)
        status = put_all(store, how);
    kas_store_close(store);
    kas_buf_free(&text);
    return status;
}
