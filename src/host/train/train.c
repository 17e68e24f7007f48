#include "host/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/train/checkpoint.h"
#include "host/train/chunks.h"
#include "host/train/feed.h"
#include "host/model/model.h"
#include "host/score/correct.h"
#include "host/train/digest.h"
#include "host/train/ranks.h"
#include "host/train/stats.h"

typedef struct run {
    const kas_train_options *o;
    kas_device *device;
    kas_model *model;
    kas_feed feed;
    kas_plan *train_plan, *evaluation_plan[2]; /* of the parts of the feed; NULL: not needed */
    kas_plan *average_plan;                    /* runs before an evaluation; NULL: not needed */
    kas_chunks chunks;
    uint8_t digest[32];
    uint32_t steps;        /* of an epoch */
    uint64_t step;         /* done or enqueued, of the whole run */
    double earlier;        /* seconds of the unfinished epoch before a resume */
    kas_metrics resumed;   /* sums of the unfinished epoch before a resume */
    kas_epoch *epoch;      /* [recipe.epochs] */
    int epochs;            /* done */
    kas_samples step_time; /* seconds of steps */
    kas_verdict wanted;    /* the last verdict of a callback of this rank */
    kas_verdict verdict;   /* what the ranks agree on */
    const char *diverged;  /* what was not finite; NULL: nothing */
    bool captures;         /* exchanges, as far as on_exchange knows */
    kas_buf correct;       /* of the last evaluations: see kas_train_result */
} run;

/* Returns what is not finite; NULL: everything is. Parameters come first, because a loss that is
 * not finite follows from them, or they from it. */
static const char *what_is_not_finite(const kas_metrics *m)
{
    return m->not_finite.parameters   ? "a parameter"
           : m->not_finite.statistics ? "a running statistic"
           : m->not_finite.averages   ? "an average of the parameters or running statistics"
           : !isfinite(m->loss_sum) || !isfinite(m->batch_loss) ? "the loss"
                                                                : NULL;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Gathers what all ranks have in `words`; their sum is the same on all of them. */
static kas_status sum_words(const run *r, const kas_chunk_words *words, kas_metrics *sum,
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

/* Gets the sums of all ranks. */
static kas_status get_metrics(const run *r, kas_metrics *metrics)
{
    kas_chunk_words words = {0};
    kas_verdict none;
    KAS_TRY(kas_model_get_metrics(r->model, &words.metrics));
    return sum_words(r, &words, metrics, &none);
}

static kas_status agree(run *r)
{
    const kas_chunk_words words = {.verdict = (uint32_t)r->wanted};
    kas_metrics none;
    return sum_words(r, &words, &none, &r->verdict);
}

/* Sets the sums with which the epoch goes on: of all ranks, so one rank alone has them. */
static kas_status set_metrics(const run *r, const kas_metrics *metrics)
{
    const kas_metrics zero = {0};
    return kas_model_set_metrics(r->model, kas_group_rank(r->o->group) == 0 ? metrics : &zero);
}

static void tell_exchange(run *r)
{
    const kas_train_options *o = r->o;
    const char *exchange = kas_model_exchange(r->model);
    r->captures = kas_group_captures(o->group);
    if (kas_group_rank(o->group) == 0)
        kas_info("%s", exchange);
    if (o->on_exchange)
        o->on_exchange(o->context, exchange);
}

static kas_step_state state_at(const run *r, uint32_t image)
{
    const uint32_t rank = (uint32_t)kas_group_rank(r->o->group);
    return (kas_step_state){.cursor = image + rank * (uint32_t)kas_train_batch(r->o), .rank = rank};
}

/* ---- checkpoint ------------------------------------------------------------------------------ */

static kas_status save_checkpoint(run *r, double seconds)
{
    kas_metrics metrics;
    if (!r->o->checkpoint)
        return KAS_OK;
    KAS_TRY(get_metrics(r, &metrics));
    if (kas_group_rank(r->o->group) != 0)
        return kas_model_download(r->model, NULL); /* its share of the moments */
    kas_checkpoint c = {.step = r->step,
                        .seconds = seconds,
                        .epochs = r->epochs,
                        .epoch = r->epoch,
                        .size = kas_model_kept(r->model)};
    kas_status status = KAS_OK;
    memcpy(c.options, r->digest, sizeof c.options);
    snprintf(c.device, sizeof c.device, "%s", kas_device_get_info(r->device)->name);
    c.kept = malloc(c.size + 1);
    if (!c.kept) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for a checkpoint");
        goto out;
    }
    KAS_TRY_GOTO(kas_model_download(r->model, c.kept), out);
    _Static_assert(sizeof metrics <= sizeof c.state, "the sums fit into a checkpoint");
    memcpy(c.state, &metrics, sizeof metrics);
    status = kas_checkpoint_write(r->o->checkpoint, &c);
out:
    c.epoch = NULL; /* owned by the run now */
    kas_checkpoint_free(&c);
    return status;
}

static bool is_time(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

/* Returns whether the record of an epoch is plausible. Values of a validation that did not take
 * place are NaN (score_epoch). */
static bool is_epoch(const kas_epoch *e, int number)
{
    const bool unseen = isnan(e->validation_loss) && isnan(e->validation_accuracy);
    return e->epoch == number && is_time(e->seconds) && isfinite(e->train_loss) &&
           e->train_accuracy >= 0 && e->train_accuracy <= 1 &&
           (unseen || (e->validation_accuracy >= 0 && e->validation_accuracy <= 1));
}

/* Returns whether the checkpoint has values that no run can have written. The checksum shows
 * only damage. */
static bool contradicts_itself(const run *r, const kas_checkpoint *c, const kas_metrics *metrics)
{
    const uint64_t before = (uint64_t)c->epochs * r->steps, done = c->step - before;
    /* An epoch whose last step made the run diverge was not ended (one_epoch). */
    const uint64_t most = what_is_not_finite(metrics) ? r->steps : r->steps - 1;
    if (c->size != kas_model_kept(r->model) || c->epochs > r->o->recipe.epochs ||
        c->step < before || done > most || !is_time(c->seconds))
        return true;
    for (int i = 0; i < c->epochs; i++)
        if (!is_epoch(&c->epoch[i], i))
            return true;
    return metrics->counted > done * (uint64_t)r->o->recipe.batch ||
           metrics->correct > metrics->counted;
}

static kas_status apply_checkpoint(run *r, const kas_checkpoint *c)
{
    const char *device = kas_device_get_info(r->device)->name;
    kas_metrics metrics;
    memcpy(&metrics, c->state, sizeof metrics);
    if (contradicts_itself(r, c, &metrics))
        return kas_fail(KAS_BAD_INPUT, "%s: the checkpoint is inconsistent; remove it",
                        r->o->checkpoint);
    if (strcmp(c->device, device) != 0)
        kas_warn("%s was written on \"%s\"; on \"%s\" the result may differ in the last bits",
                 r->o->checkpoint, c->device, device);
    KAS_TRY(kas_model_upload(r->model, c->kept));
    r->resumed = metrics;
    r->diverged = what_is_not_finite(&r->resumed);
    const kas_param *broken = kas_model_kept_not_finite(r->model, c->kept);
    if (broken) {
        kas_warn("%s: %s is not finite: the run had diverged", r->o->checkpoint, broken->name);
        r->diverged = "a tensor of the checkpoint";
    }
    memcpy(r->epoch, c->epoch, sizeof *r->epoch * (size_t)c->epochs);
    r->epochs = c->epochs;
    r->step = c->step;
    r->earlier = c->seconds;
    const uint64_t more = c->step - (uint64_t)c->epochs * r->steps;
    kas_info("%s: going on after %d epoch%s and %" PRIu64 " step%s", r->o->checkpoint, c->epochs,
             c->epochs == 1 ? "" : "s", more, more == 1 ? "" : "s");
    return KAS_OK;
}

static kas_status start_or_resume(run *r)
{
    const kas_train_options *o = r->o;
    const char *const outputs[] = {o->checkpoint, o->weights_out};
    for (int i = 0; i < 2 && kas_group_rank(o->group) == 0; i++)
        if (outputs[i])
            kas_file_remove_unfinished(outputs[i], 0);
    if (o->checkpoint && kas_file_exists(o->checkpoint)) {
        kas_checkpoint c;
        KAS_TRY(kas_checkpoint_read(o->checkpoint, r->digest, &c));
        kas_status status = apply_checkpoint(r, &c);
        kas_checkpoint_free(&c);
        return status;
    }
    KAS_TRY(kas_model_init(r->model, o->seed));
    return o->weights_in ? kas_model_load_and_tell(r->model, o->weights_in, o->init_partial)
                         : KAS_OK;
}

/* ---- an epoch -------------------------------------------------------------------------------- */

static kas_status run_step(run *r, kas_plan *plan)
{
    kas_group_wait(r->o->group, true);
    return kas_feed_run(&r->feed, plan);
}

static kas_status enqueue_chunk(run *r, uint32_t steps)
{
    KAS_TRY(kas_chunks_begin(&r->chunks));
    for (uint32_t i = 0; i < steps; i++)
        KAS_TRY(run_step(r, r->train_plan));
    r->step += steps;
    return kas_chunks_end(&r->chunks, r->step, steps, r->wanted);
}

/* Looks at a chunk: its time, whether the run diverged, and the callback's verdict. Chunks that
 * were enqueued when one of these ended the run are not reported any more. */
static kas_status look(run *r, kas_metrics *metrics)
{
    const kas_train_options *o = r->o;
    kas_chunk chunk;
    KAS_TRY(kas_chunks_look(&r->chunks, &chunk));
    *metrics = chunk.metrics;
    if (r->captures && !kas_group_captures(o->group))
        tell_exchange(r);
    KAS_TRY(kas_samples_add(&r->step_time, chunk.seconds / chunk.steps));
    if (!r->diverged)
        r->diverged = what_is_not_finite(metrics);
    if (r->verdict == KAS_CONTINUE)
        r->verdict = chunk.verdict;
    if (o->on_progress && !r->diverged && r->wanted == KAS_CONTINUE)
        r->wanted =
            o->on_progress(o->context, chunk.step, (uint64_t)r->steps * (uint64_t)o->recipe.epochs,
                           metrics->batch_loss);
    if (!o->group && r->verdict == KAS_CONTINUE)
        r->verdict = r->wanted; /* nobody else has to know */
    return KAS_OK;
}

/* Trains the rest of the present epoch. It ends early when the run diverges or a callback says so,
 * after all enqueued work is done: `*metrics` and a checkpoint are those of r->step. */
static kas_status train_epoch(run *r, kas_metrics *metrics)
{
    const kas_train_options *o = r->o;
    uint32_t done = (uint32_t)(r->step - (uint64_t)r->epochs * r->steps);
    kas_step_state state = state_at(r, done * (uint32_t)o->recipe.batch);
    state.step = (uint32_t)r->step;
    state.epoch = (uint32_t)r->epochs;
    KAS_TRY(kas_feed_begin_training(&r->feed, r->epochs, done));
    KAS_TRY(kas_model_set_state(r->model, state));
    KAS_TRY(set_metrics(r, &r->resumed));
    *metrics = r->resumed;
    r->resumed = (kas_metrics){0};
    while (done < r->steps && !r->diverged && r->verdict == KAS_CONTINUE) {
        uint32_t left = r->steps - done, chunk = kas_chunks_size(&r->chunks);
        chunk = chunk < left ? chunk : left;
        KAS_TRY(enqueue_chunk(r, chunk));
        done += chunk;
        if (kas_chunks_due(&r->chunks))
            KAS_TRY(look(r, metrics));
    }
    while (kas_chunks_pending(&r->chunks))
        KAS_TRY(look(r, metrics));
    return KAS_OK;
}

/* Evaluates a part of the images; `hit` gets which of this rank's are right and has room for whole
 * batches. It may be NULL: nobody then waits for the device after each batch. */
static kas_status evaluate(run *r, int part, kas_metrics *metrics, float *hit)
{
    uint32_t batch = (uint32_t)r->o->recipe.batch, count = r->feed.evaluation_count[part];
    const kas_metrics zero = {0};
    KAS_TRY(kas_model_set_state(r->model, state_at(r, 0)));
    KAS_TRY(kas_model_set_metrics(r->model, &zero));
    KAS_TRY(kas_feed_begin_evaluation(&r->feed, part));
    if (r->average_plan)
        KAS_TRY(kas_plan_run(r->average_plan));
    for (uint32_t at = 0; at < count; at += batch) {
        KAS_TRY(run_step(r, r->evaluation_plan[part]));
        if (hit)
            KAS_TRY(kas_model_get_hits(r->model, hit + state_at(r, at).cursor));
    }
    KAS_TRY(get_metrics(r, metrics));
    if (metrics->counted != count)
        return kas_fail(KAS_FAILURE, "evaluation counted %" PRIu64 " of %" PRIu32 " images",
                        (uint64_t)metrics->counted, count);
    return KAS_OK;
}

/* Adds the hits of the other ranks, each of which has only its own images'. */
static kas_status gather_hits(const run *r, float *hit, size_t room)
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
static kas_status evaluate_images(run *r, int part, kas_metrics *metrics)
{
    const uint32_t batch = (uint32_t)r->o->recipe.batch, count = r->feed.evaluation_count[part];
    const size_t room = (size_t)count + batch;
    float *hit = calloc(room, sizeof *hit);
    if (!hit)
        return kas_fail(KAS_NO_MEMORY, "no memory for an evaluation of %" PRIu32 " images", count);
    kas_status status = evaluate(r, part, metrics, hit);
    if (status == KAS_OK && r->o->group)
        status = gather_hits(r, hit, room);
    if (status == KAS_OK)
        kas_correct_add(hit, count, &r->correct);
    free(hit);
    return status;
}

/* Fills the validation figures of the epoch that was just trained. The test set is evaluated only
 * after the last epoch, so that nobody can choose among its figures. */
static kas_status score_epoch(run *r, kas_epoch *epoch)
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

/* Trains and evaluates one epoch; *finished says whether it was trained to its end. */
static kas_status one_epoch(run *r, bool *finished)
{
    double start = kas_monotonic();
    kas_metrics train;
    *finished = false;
    KAS_TRY(train_epoch(r, &train));
    bool whole = r->step == (uint64_t)(r->epochs + 1) * r->steps;
    if (r->verdict == KAS_PRUNE && !r->diverged)
        return KAS_OK;
    if (r->diverged || !whole) /* a diverged run is recognised at once when it is run again */
        return save_checkpoint(r, r->earlier + kas_monotonic() - start);
    kas_epoch epoch = {.epoch = r->epochs,
                       .train_loss = train.loss_sum / (double)train.counted,
                       .train_accuracy = (double)train.correct / (double)train.counted};
    KAS_TRY(score_epoch(r, &epoch));
    epoch.seconds = r->earlier + kas_monotonic() - start;
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

static kas_status all_epochs(run *r)
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
            KAS_TRY(save_checkpoint(r, 0));
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
static kas_status fit(const run *r, kas_model_options *model)
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

static kas_status record_plans(run *r)
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

static kas_status prepare(run *r)
{
    const kas_train_options *o = r->o;
    kas_model_options options = model_options(o);
    KAS_TRY(kas_feed_check(o));
    KAS_TRY(kas_train_digest(o, r->digest));
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
    KAS_TRY(start_or_resume(r));
    KAS_TRY(kas_train_check_ranks(o, r->digest, r->step));
    if (o->group)
        tell_exchange(r);
    return KAS_OK;
}

static kas_status write_weights(const run *r)
{
    const kas_train_options *o = r->o;
    const char *const metadata[] = {"format",  "pt",         "generator", "kas-gpu " KAS_VERSION,
                                    "network", o->net->name, NULL};
    if (!o->weights_out || kas_group_rank(o->group) != 0)
        return KAS_OK;
    return kas_model_save(r->model, o->weights_out, metadata);
}

/* Marks a run as diverged when its last evaluation is not finite, because such a network is
 * useless. An earlier evaluation may be not finite: batch norm's running averages need some steps
 * to settle. */
static void look_at_the_end(run *r)
{
    if (!r->diverged && r->epochs == r->o->recipe.epochs && r->epochs > 0 &&
        !isfinite(r->epoch[r->epochs - 1].validation_loss))
        r->diverged = "a logit or the loss of the last evaluation";
}

/* Evaluates what is still missing of `correct`: the images that confirm, and all of them where the
 * run was resumed behind its last epoch. */
static kas_status confirm(run *r)
{
    kas_metrics seen;
    if (r->correct.size == 0)
        KAS_TRY(evaluate_images(r, 0, &seen));
    if (r->evaluation_plan[1])
        KAS_TRY(evaluate_images(r, 1, &seen));
    return kas_buf_status(&r->correct);
}

static void fill_result(run *r, kas_train_result *out)
{
    *out = (kas_train_result){
        .state = r->diverged                        ? KAS_DIVERGED
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
    run r = {.o = options, .device = device};
    kas_status status = KAS_OK;
    *out = (kas_train_result){0};
    KAS_TRY_GOTO(prepare(&r), out);
    KAS_TRY_GOTO(all_epochs(&r), out);
    look_at_the_end(&r);
    if (!r.diverged && r.epochs == options->recipe.epochs) {
        KAS_TRY_GOTO(confirm(&r), out);
        KAS_TRY_GOTO(write_weights(&r), out);
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
