#include "host/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/score/correct.h"
#include "host/train/digest.h"
#include "host/train/ranks.h"
#include "host/train/run.h"
#include "host/train/trained_on.h"

/* Parameters come first, because a loss that is not finite follows from them, or they from it. */
const char *kas_run_not_finite(const kas_metrics *m)
{
    return m->not_finite.parameters   ? "a parameter"
           : m->not_finite.statistics ? "a running statistic"
           : m->not_finite.averages   ? "an average of the parameters or running statistics"
           : !isfinite(m->loss_sum) || !isfinite(m->batch_loss) ? "the loss"
                                                                : NULL;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

kas_status kas_run_sum(const kas_run *r, const kas_chunk_words *words, kas_metrics *sum,
                       kas_verdict *verdict)
{
    kas_chunk_words all[KAS_MAX_DEVICES];
    if (!r->o->group) {
        kas_chunk_words_sum(words, 1, sum, verdict);
        return KAS_OK;
    }
    KAS_TRY(kas_group_gather(r->o->group, words, sizeof *words, all));
    kas_chunk_words_sum(all, kas_group_ranks(r->o->group), sum, verdict);
    return KAS_OK;
}

static kas_status agree(kas_run *r)
{
    const kas_chunk_words words = {.verdict = (uint32_t)r->wanted};
    kas_metrics none;
    return kas_run_sum(r, &words, &none, &r->verdict);
}

/* Sets the sums with which the epoch goes on: of all ranks, so one rank alone has them. */
static kas_status set_metrics(const kas_run *r, const kas_metrics *metrics)
{
    const kas_metrics zero = {0};
    return kas_model_set_metrics(r->model, kas_group_rank(r->o->group) == 0 ? metrics : &zero);
}

static void tell_exchange(kas_run *r)
{
    const kas_train_options *o = r->o;
    const char *exchange = kas_model_exchange(r->model);
    r->captures = kas_group_captures(o->group);
    if (kas_group_rank(o->group) == 0)
        kas_info("%s", exchange);
    if (o->on_exchange)
        o->on_exchange(o->context, exchange);
}

static kas_step_state state_at(const kas_run *r, uint32_t image)
{
    const uint32_t rank = (uint32_t)kas_group_rank(r->o->group);
    return (kas_step_state){.cursor = image + rank * (uint32_t)kas_train_batch(r->o), .rank = rank};
}

/* ---- an epoch -------------------------------------------------------------------------------- */

static kas_status run_step(kas_run *r, kas_plan *plan)
{
    kas_group_wait(r->o->group, true);
    return kas_feed_run(&r->feed, plan);
}

static kas_status enqueue_chunk(kas_run *r, uint32_t steps)
{
    KAS_TRY(kas_chunks_begin(&r->chunks));
    for (uint32_t i = 0; i < steps; i++)
        KAS_TRY(run_step(r, r->train_plan));
    r->step += steps;
    return kas_chunks_end(&r->chunks, r->step, steps, r->wanted);
}

static kas_status look(kas_run *r, kas_chunk *chunk)
{
    KAS_TRY(kas_chunks_look(&r->chunks, chunk));
    if (r->captures && !kas_group_captures(r->o->group))
        tell_exchange(r);
    if (r->verdict == KAS_CONTINUE)
        r->verdict = chunk->verdict;
    return KAS_OK;
}

/* Asks the callback, unless the run has ended: what was enqueued then is not reported any more. */
static void report(kas_run *r, uint64_t step, double loss)
{
    const kas_train_options *o = r->o;
    if (o->on_progress && !r->diverged && r->wanted == KAS_CONTINUE)
        r->wanted =
            o->on_progress(o->context, step, (uint64_t)r->steps * (uint64_t)o->recipe.epochs, loss);
    if (!o->group && r->verdict == KAS_CONTINUE)
        r->verdict = r->wanted; /* nobody else has to know */
}

/* Looks at a chunk of training: its time, whether the run diverged, and the callback's verdict. */
static kas_status look_at_training(kas_run *r, kas_metrics *metrics)
{
    kas_chunk chunk;
    KAS_TRY(look(r, &chunk));
    *metrics = chunk.metrics;
    KAS_TRY(kas_samples_add(&r->step_time, chunk.seconds / chunk.steps));
    if (!r->diverged)
        r->diverged = kas_run_not_finite(metrics);
    report(r, chunk.step, metrics->batch_loss);
    return KAS_OK;
}

/* Trains the rest of the present epoch. It ends early when the run diverges or a callback says so,
 * after all enqueued work is done: `*metrics` and a checkpoint are those of r->step. */
static kas_status train_epoch(kas_run *r, kas_metrics *metrics)
{
    const kas_train_options *o = r->o;
    uint32_t done = (uint32_t)(r->step - (uint64_t)r->epochs * r->steps);
    kas_step_state state = state_at(r, done * (uint32_t)o->recipe.batch);
    state.step = (uint32_t)r->step;
    state.epoch = (uint32_t)r->epochs;
    KAS_TRY(set_metrics(r, &r->resumed));
    *metrics = r->resumed;
    r->resumed = (kas_metrics){0};
    if (done == r->steps) /* the run was stopped while it was evaluated */
        return KAS_OK;
    KAS_TRY(kas_feed_begin_training(&r->feed, r->epochs, done));
    KAS_TRY(kas_model_set_state(r->model, state));
    while (done < r->steps && !r->diverged && r->verdict == KAS_CONTINUE) {
        uint32_t left = r->steps - done, chunk = kas_chunks_size(&r->chunks);
        chunk = chunk < left ? chunk : left;
        KAS_TRY(enqueue_chunk(r, chunk));
        done += chunk;
        if (kas_chunks_due(&r->chunks))
            KAS_TRY(look_at_training(r, metrics));
    }
    while (kas_chunks_pending(&r->chunks))
        KAS_TRY(look_at_training(r, metrics));
    return KAS_OK;
}

static kas_status look_at_evaluation(kas_run *r, kas_metrics *metrics)
{
    kas_chunk chunk;
    KAS_TRY(look(r, &chunk));
    *metrics = chunk.metrics;
    report(r, r->step, NAN);
    return KAS_OK;
}

static kas_status evaluate_chunk(kas_run *r, int part, uint32_t *at, float *hit)
{
    const uint32_t count = r->feed.evaluation_count[part], most = kas_chunks_size(&r->chunks);
    uint32_t steps = 0;
    KAS_TRY(kas_chunks_begin(&r->chunks));
    for (; steps < most && *at < count; steps++, *at += (uint32_t)r->o->recipe.batch) {
        KAS_TRY(run_step(r, r->evaluation_plan[part]));
        if (hit)
            KAS_TRY(kas_model_get_hits(r->model, hit + state_at(r, *at).cursor));
    }
    return kas_chunks_end(&r->chunks, r->step, steps, r->wanted);
}

/* Evaluates a part of the images; `hit` gets which of this rank's are right and has room for whole
 * batches. It may be NULL: nobody then waits for the device after each batch. It may take longer than an
 * epoch of training, so it too is reported and can be stopped, which r->left says. */
static kas_status evaluate(kas_run *r, int part, kas_metrics *metrics, float *hit)
{
    const uint32_t count = r->feed.evaluation_count[part];
    *metrics = (kas_metrics){0};
    KAS_TRY(kas_model_set_state(r->model, state_at(r, 0)));
    KAS_TRY(kas_model_set_metrics(r->model, metrics));
    KAS_TRY(kas_feed_begin_evaluation(&r->feed, part));
    if (r->average_plan)
        KAS_TRY(kas_plan_run(r->average_plan));
    for (uint32_t at = 0; at < count && r->verdict != KAS_STOP;) {
        KAS_TRY(evaluate_chunk(r, part, &at, hit));
        if (kas_chunks_due(&r->chunks))
            KAS_TRY(look_at_evaluation(r, metrics));
    }
    while (kas_chunks_pending(&r->chunks))
        KAS_TRY(look_at_evaluation(r, metrics));
    r->left = r->verdict == KAS_STOP && metrics->counted < count;
    if (!r->left && metrics->counted != count)
        return kas_fail(KAS_FAILURE, "evaluation counted %" PRIu64 " of %" PRIu32 " images",
                        (uint64_t)metrics->counted, count);
    return KAS_OK;
}

/* Adds the hits of the other ranks, each of which has only its own images'. */
static kas_status gather_hits(const kas_run *r, float *hit, size_t room)
{
    const int ranks = kas_group_ranks(r->o->group);
    float *all = malloc((size_t)ranks * room * sizeof *all);
    if (!all)
        return kas_fail(KAS_NO_MEMORY, "no memory for the evaluations of %d ranks", ranks);
    const kas_status status = kas_group_gather(r->o->group, hit, room * sizeof *hit, all);
    for (size_t i = 0; status == KAS_OK && i < room; i++) {
        hit[i] = 0;
        for (int rank = 0; rank < ranks; rank++)
            hit[i] += all[(size_t)rank * room + i];
    }
    free(all);
    return status;
}

/* Evaluates a part and notes which of its images are right. */
static kas_status evaluate_images(kas_run *r, int part, kas_metrics *metrics)
{
    const uint32_t batch = (uint32_t)r->o->recipe.batch, count = r->feed.evaluation_count[part];
    const size_t room = (size_t)count + batch;
    float *hit = calloc(room, sizeof *hit);
    if (!hit)
        return kas_fail(KAS_NO_MEMORY, "no memory for an evaluation of %" PRIu32 " images", count);
    kas_status status = evaluate(r, part, metrics, hit);
    if (status == KAS_OK && !r->left && r->o->group)
        status = gather_hits(r, hit, room);
    if (status == KAS_OK && !r->left)
        kas_correct_add(hit, count, &r->correct);
    free(hit);
    return status;
}

/* Fills the validation figures of the epoch that was just trained. The test set is evaluated only
 * after the last epoch, so that nobody can choose among its figures. */
static kas_status score_epoch(kas_run *r, kas_epoch *epoch)
{
    bool last = r->epochs + 1 == r->o->recipe.epochs;
    if (r->o->evaluate_test && !last) {
        epoch->validation_loss = epoch->validation_accuracy = NAN;
        return KAS_OK;
    }
    kas_metrics seen;
    KAS_TRY(last ? evaluate_images(r, 0, &seen) : evaluate(r, 0, &seen, NULL));
    /* A maximum may hide logits that are not finite, but their cross entropy is not finite. */
    epoch->validation_loss = seen.not_finite.logits ? NAN : seen.loss_sum / (double)seen.counted;
    epoch->validation_accuracy = (double)seen.correct / (double)seen.counted;
    return KAS_OK;
}

/* Trains and evaluates one epoch; *finished says whether it was trained and evaluated to its end. A kill
 * in the last evaluation, which may be that of a whole test set, costs no training. */
static kas_status one_epoch(kas_run *r, bool *finished)
{
    double start = kas_monotonic() - r->earlier;
    kas_metrics train;
    *finished = false;
    KAS_TRY(train_epoch(r, &train));
    bool whole = r->step == (uint64_t)(r->epochs + 1) * r->steps;
    if (r->verdict == KAS_PRUNE && !r->diverged)
        return KAS_OK;
    /* a diverged run is recognised at once when it is run again */
    if (r->diverged || !whole || r->epochs + 1 == r->o->recipe.epochs)
        KAS_TRY(kas_run_save(r, kas_monotonic() - start));
    if (r->diverged || !whole)
        return KAS_OK;
    kas_epoch epoch = {.epoch = r->epochs,
                       .train_loss = train.loss_sum / (double)train.counted,
                       .train_accuracy = (double)train.correct / (double)train.counted};
    KAS_TRY(score_epoch(r, &epoch));
    epoch.seconds = kas_monotonic() - start;
    if (r->left) {
        KAS_TRY(set_metrics(r, &train));
        return kas_run_save(r, epoch.seconds);
    }
    r->epoch[r->epochs] = epoch;
    r->earlier = 0;
    r->epochs++;
    *finished = true;
    const kas_metrics zero = {0};
    return kas_model_set_metrics(r->model, &zero);
}

/* Returns the number of epochs after which the run pauses or ends. */
static int last_epoch(const kas_train_options *o)
{
    return o->until > 0 && o->until < o->recipe.epochs ? o->until : o->recipe.epochs;
}

static kas_status all_epochs(kas_run *r)
{
    const kas_train_options *o = r->o;
    const int last = last_epoch(o);
    while (r->epochs < last && r->verdict == KAS_CONTINUE && !r->diverged) {
        bool finished;
        KAS_TRY(one_epoch(r, &finished));
        if (!finished)
            return KAS_OK;
        if (o->on_epoch && r->verdict != KAS_PRUNE) {
            kas_verdict verdict = o->on_epoch(o->context, &r->epoch[r->epochs - 1]);
            if (verdict != KAS_CONTINUE)
                r->wanted = verdict;
        }
        KAS_TRY(agree(r));
        if (r->verdict != KAS_PRUNE)
            KAS_TRY(kas_run_save(r, 0));
    }
    return KAS_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static kas_model_options model_options(const kas_train_options *o)
{
    return (kas_model_options){.net = o->net,
                               .precision = (kas_precision)o->recipe.precision,
                               .programs = o->programs,
                               .batch = kas_train_batch(o),
                               .training = true,
                               .recompute = o->recompute,
                               .recipe = &o->recipe,
                               .cache_dir = o->cache_dir,
                               .group = o->group,
                               .ranks = kas_train_ranks(o),
                               .sync_batch_norm = o->sync_batch_norm,
                               .shard_optimiser = o->shard_optimiser};
}

/* Turns on recomputation when the run would not fit otherwise; libraries need some of the device's
 * memory too. */
static kas_status fit(const kas_run *r, kas_model_options *model)
{
    const size_t memory = kas_device_get_info(r->device)->memory, room = memory - memory / 16;
    kas_memory_plan plan;
    KAS_TRY(kas_model_plan_memory(model, &plan));
    const size_t images = kas_feed_plan(r->o, true).total; /* the least that the feed needs */
    if (memory == 0 || plan.total + images <= room || model->recompute)
        return KAS_OK;
    model->recompute = true;
    kas_info("a step needs %.1f GiB and the device has %.1f: batch norms are computed again in the "
             "backward pass instead of being kept",
             (double)plan.total / (1 << 30), (double)memory / (1 << 30));
    return KAS_OK;
}

static kas_status record_plans(kas_run *r)
{
    kas_step_options train = {.mode = KAS_TAPE_TRAIN,
                              .images = &r->feed.train,
                              .recipe = &r->o->recipe,
                              .dropout_seed = r->o->seed,
                              .rows = r->feed.rows};
    KAS_TRY(kas_model_record(r->model, &train, &r->train_plan));
    KAS_TRY(kas_model_record_average(r->model, &r->average_plan));
    for (int part = 0; part < 2 && r->feed.evaluation_count[part] > 0; part++) {
        const kas_step_options evaluation = {
            .mode = KAS_TAPE_EVALUATE, .images = &r->feed.evaluation[part], .averaged = true};
        KAS_TRY(kas_model_record(r->model, &evaluation, &r->evaluation_plan[part]));
    }
    return KAS_OK;
}

static kas_status prepare(kas_run *r)
{
    const kas_train_options *o = r->o;
    kas_model_options options = model_options(o);
    KAS_TRY(kas_feed_check(o));
    KAS_TRY(kas_train_digest(o, r->digest));
    KAS_TRY(kas_trained_on(o, r->trained_on));
    r->steps = kas_feed_steps(o);
    if ((uint64_t)r->steps * (uint64_t)o->recipe.epochs > UINT32_MAX)
        return kas_fail(KAS_BAD_INPUT, "%d epochs of %" PRIu32 " steps are too many",
                        o->recipe.epochs, r->steps);
    r->epoch = calloc((size_t)o->recipe.epochs, sizeof *r->epoch);
    if (!r->epoch)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d epochs", o->recipe.epochs);
    KAS_TRY(fit(r, &options));
    KAS_TRY(kas_model_create(r->device, &options, &r->model));
    KAS_TRY(kas_feed_create(r->device, o, kas_model_memory(r->model), &r->feed));
    KAS_TRY(kas_chunks_create(r->device, r->model, o->group, &r->chunks));
    KAS_TRY(record_plans(r));
    KAS_TRY(kas_run_start(r));
    KAS_TRY(kas_train_check_ranks(o, r->digest, r->step));
    if (o->group)
        tell_exchange(r);
    return KAS_OK;
}

/* Marks a run as diverged when its last evaluation is not finite, because such a network is
 * useless, or when float16 skipped its last steps however small the loss was. An earlier evaluation may
 * be not finite: batch norm's running averages need some steps to settle. */
static kas_status look_at_the_end(kas_run *r)
{
    enum { USUAL = 10, SHARE = 20 }; /* skipped steps: until the scale has settled; a 20th of all */
    KAS_TRY(kas_model_get_scale(r->model, &r->scale));
    const uint64_t skipped = r->scale.skipped;
    if (skipped > USUAL && skipped > r->step / SHARE && kas_group_rank(r->o->group) == 0)
        kas_warn("%" PRIu64 " of %" PRIu64
                 " steps were skipped, because a gradient overflowed float16; "
                 "the loss scale is %g",
                 skipped, r->step, (double)r->scale.scale);
    if (r->diverged || r->epochs < r->o->recipe.epochs)
        return KAS_OK;
    if (!isfinite(r->epoch[r->epochs - 1].validation_loss))
        r->diverged = "a logit or the loss of the last evaluation";
    else if (r->scale.scale <= KAS_SCALE_LEAST)
        r->diverged = "a gradient, at float16's least loss scale,";
    return KAS_OK;
}

/* Evaluates what is still missing of `correct`: the images that confirm, and all of them where the
 * run was resumed behind its last epoch. */
static kas_status confirm(kas_run *r)
{
    kas_metrics seen;
    if (r->correct.size == 0)
        KAS_TRY(evaluate_images(r, 0, &seen));
    if (r->evaluation_plan[1] && !r->left)
        KAS_TRY(evaluate_images(r, 1, &seen));
    return kas_buf_status(&r->correct);
}

static void fill_result(kas_run *r, kas_train_result *out)
{
    *out = (kas_train_result){
        .state = r->diverged                        ? KAS_DIVERGED
                 : r->left                          ? KAS_STOPPED
                 : r->epochs == r->o->recipe.epochs ? KAS_TRAINED
                 : r->verdict == KAS_PRUNE          ? KAS_PRUNED
                 : r->verdict == KAS_STOP           ? KAS_STOPPED
                 : r->epochs >= last_epoch(r->o)    ? KAS_PAUSED
                                                    : KAS_STOPPED,
        .not_finite = r->diverged,
        .epochs = r->epochs,
        .epoch = r->epoch,
        .accuracy = r->epochs ? r->epoch[r->epochs - 1].validation_accuracy : NAN,
        .step_seconds = r->step_time.count ? kas_samples_quantile(&r->step_time, 0.5) : NAN,
        .compile_seconds = kas_model_compile_seconds(r->model),
        .scale = r->scale.scale,
        .skipped = r->scale.skipped,
        .memory = kas_model_memory(r->model) + r->feed.layout.total,
    };
    r->epoch = NULL; /* owned by the result now */
    if (out->state == KAS_TRAINED) {
        out->correct = r->correct.data;
        r->correct = (kas_buf){0};
    }
}

kas_status kas_train(kas_device *device, const kas_train_options *options, kas_train_result *out)
{
    kas_run r = {.o = options, .device = device};
    kas_status status = KAS_OK;
    *out = (kas_train_result){0};
    KAS_TRY_GOTO(prepare(&r), out);
    KAS_TRY_GOTO(all_epochs(&r), out);
    KAS_TRY_GOTO(look_at_the_end(&r), out);
    if (!r.diverged && r.epochs == options->recipe.epochs) {
        KAS_TRY_GOTO(confirm(&r), out);
        if (!r.left && kas_group_rank(options->group) == 0)
            KAS_TRY_GOTO(kas_trained_save(r.model, options, r.trained_on), out);
    }
    fill_result(&r, out);
out:
    kas_group_wait(options->group, false);
    kas_group_abort(options->group, status);
    kas_plan_free(r.train_plan);
    kas_plan_free(r.evaluation_plan[0]);
    kas_plan_free(r.evaluation_plan[1]);
    kas_plan_free(r.average_plan);
    kas_chunks_free(&r.chunks);
    kas_feed_free(&r.feed);
    kas_model_free(r.model);
    kas_samples_free(&r.step_time);
    kas_buf_free(&r.correct);
    free(r.epoch);
    return status;
}

void kas_train_result_free(kas_train_result *result)
{
    free(result->epoch);
    free(result->correct);
    result->epoch = NULL;
    result->correct = NULL;
}

kas_status kas_train_plan_memory(const kas_train_options *options, kas_memory_plan *out)
{
    kas_model_options model = model_options(options);
    KAS_TRY(kas_feed_check(options));
    KAS_TRY(kas_model_plan_memory(&model, out));
    out->images = kas_feed_plan(options, kas_feed_must_stream(options)).total;
    out->total += out->images;
    return KAS_OK;
}
