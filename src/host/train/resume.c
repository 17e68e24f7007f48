#include "host/train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/train/checkpoint.h"

/* Gets the sums of all ranks. */
static kas_status get_metrics(const kas_run *r, kas_metrics *metrics)
{
    kas_chunk_words words = {0};
    kas_verdict none;
    KAS_TRY(kas_model_get_metrics(r->model, &words.metrics));
    return kas_run_sum(r, &words, metrics, &none);
}

kas_status kas_run_save(kas_run *r, double seconds)
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
static bool contradicts_itself(const kas_run *r, const kas_checkpoint *c,
                               const kas_metrics *metrics)
{
    const uint64_t before = (uint64_t)c->epochs * r->steps, done = c->step - before;
    if (c->size != kas_model_kept(r->model) || c->epochs > r->o->recipe.epochs ||
        c->step < before || done > r->steps || !is_time(c->seconds))
        return true;
    for (int i = 0; i < c->epochs; i++)
        if (!is_epoch(&c->epoch[i], i))
            return true;
    return metrics->counted > done * (uint64_t)r->o->recipe.batch ||
           (done > 0 && metrics->counted == 0) || metrics->correct > metrics->counted;
}

static kas_status apply_checkpoint(kas_run *r, const kas_checkpoint *c)
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
    r->diverged = kas_run_not_finite(&r->resumed);
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

kas_status kas_run_start(kas_run *r)
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
