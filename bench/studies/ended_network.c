/* What a run of `kas-gpu train` ended with, also one that diverged, whose weights are not written:
 * the tensors of its checkpoint by name, and what the network answers with them.
 *
 *     ended_network NET CxHxW CLASSES BATCH KERNEL.json CHECKPOINT OUT.safetensors
 *
 * OUT has every parameter and running statistic, whether finite or not, "images" and "logits":
 * BATCH images of normal numbers, every second of them with one NaN, and the CPU device's logits.
 * The recipe is that of `train` without options. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/model/model.h"
#include "host/net/targets.h"
#include "host/space/file/assignment.h"
#include "host/train/checkpoint.h"

enum { OPTIONS_AT = 8 }; /* of the digest, behind the magic (checkpoint.h) */

typedef struct session {
    char **argv;
    int c, h, w, batch;
    kas_net *net;
    kas_assignment kernels;
    kas_target *target;
    kas_replacement replacement;
    kas_device *device;
    kas_programs programs;
    kas_model *model;
    kas_plan *plan;
    kas_named_tensor *tensor;
    int tensors;
} session;

static kas_status read_arguments(session *s)
{
    int targets;
    const int classes = atoi(s->argv[3]);
    const kas_budget budget = {0};
    s->batch = atoi(s->argv[4]);
    if (sscanf(s->argv[2], "%dx%dx%d", &s->c, &s->h, &s->w) != 3 || classes < 2 || s->batch < 1)
        return kas_fail(KAS_USAGE, "input %s, %s classes, batch %s: expected CxHxW, 2, 1 or more",
                        s->argv[2], s->argv[3], s->argv[4]);
    KAS_TRY(kas_net_build(s->argv[1], s->h, s->w, s->c, classes, &s->net));
    KAS_TRY(kas_assignment_read_file(s->argv[5], &s->kernels));
    KAS_TRY(kas_net_targets(s->net, NULL, &s->target, &targets));
    return kas_assignment_fit(&s->kernels, s->target, targets, &budget, &s->replacement);
}

/* The digest is read from the file itself: any run of the network will do. */
static kas_status load_checkpoint(session *s)
{
    uint8_t begin[OPTIONS_AT + 32];
    kas_checkpoint c;
    FILE *file = fopen(s->argv[6], "rb");
    const bool whole = file && fread(begin, sizeof begin, 1, file) == 1;
    if (file)
        fclose(file);
    if (!whole)
        return kas_fail(KAS_BAD_INPUT, "%s: cannot be read, or too short", s->argv[6]);
    KAS_TRY(kas_checkpoint_read(s->argv[6], begin + OPTIONS_AT, &c));
    const kas_status status = c.size == kas_model_kept(s->model)
                                  ? kas_model_upload(s->model, c.kept)
                                  : kas_fail(KAS_BAD_INPUT, "%s: of another network", s->argv[6]);
    kas_checkpoint_free(&c);
    return status;
}

/* Room for the values of one more tensor of the result. */
static kas_status add(session *s, const char *name, int rank, const uint64_t *shape, float **values)
{
    kas_named_tensor *t = &s->tensor[s->tensors];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->dtype = KAS_SAFETENSORS_F32;
    t->rank = rank;
    memcpy(t->shape, shape, sizeof *shape * (size_t)rank);
    *values = malloc(sizeof **values * (kas_named_tensor_elements(t) + 1));
    if (!*values)
        return kas_fail(KAS_NO_MEMORY, "no memory for %s", name);
    t->data = *values;
    s->tensors++;
    return KAS_OK;
}

static kas_status add_answers(session *s)
{
    const uint64_t shape[] = {s->batch, s->c, s->h, s->w}, answers[] = {s->batch, s->net->classes};
    const size_t image = (size_t)s->c * s->h * s->w;
    const kas_step_options options = {.mode = KAS_TAPE_INFER};
    float *images, *logits;
    KAS_TRY(add(s, "images", 4, shape, &images));
    KAS_TRY(add(s, "logits", 2, answers, &logits));
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 2);
    for (size_t i = 0; i < image * (size_t)s->batch; i++)
        images[i] = (float)kas_rng_normal(&rng);
    for (int i = 1; i < s->batch; i += 2)
        images[(size_t)i * image + kas_rng_below(&rng, (uint32_t)image)] = NAN;
    KAS_TRY(kas_model_record(s->model, &options, &s->plan));
    KAS_TRY(kas_model_set_batch(s->model, KAS_TAPE_INFER, images, NULL));
    KAS_TRY(kas_plan_run(s->plan));
    return kas_model_get_logits(s->model, KAS_TAPE_INFER, logits);
}

static kas_status run(session *s)
{
    const kas_recipe recipe = {.optimiser = KAS_NESTEROV};
    KAS_TRY(read_arguments(s));
    const kas_model_options options = {.net = s->net,
                                       .programs = &s->programs,
                                       .batch = s->batch,
                                       .training = true,
                                       .recipe = &recipe};
    KAS_TRY(kas_device_open("cpu", 1, &s->device));
    KAS_TRY(kas_model_build_programs(&options, &s->replacement, "cpu", &s->programs));
    KAS_TRY(kas_model_create(s->device, &options, &s->model));
    KAS_TRY(load_checkpoint(s));
    const kas_params *params = kas_model_params(s->model);
    s->tensor = calloc((size_t)params->count + 2, sizeof *s->tensor);
    if (!s->tensor)
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of tensors");
    for (int i = 0; i < params->count; i++) {
        const kas_param *p = &params->param[i];
        float *values;
        KAS_TRY(add(s, p->name, p->rank, p->shape, &values));
        KAS_TRY(kas_model_get(s->model, i, values));
    }
    KAS_TRY(add_answers(s));
    return kas_safetensors_write(s->argv[7], s->tensor, s->tensors, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fputs("usage: ended_network NET CxHxW CLASSES BATCH KERNEL.json CHECKPOINT "
              "OUT.safetensors\n",
              stderr);
        return 2;
    }
    session s = {.argv = argv};
    const kas_status status = run(&s);
    if (status != KAS_OK)
        fprintf(stderr, "ended_network: %s\n", kas_error());
    for (int i = 0; i < s.tensors; i++)
        free((void *)(uintptr_t)s.tensor[i].data);
    free(s.tensor);
    kas_plan_free(s.plan);
    kas_model_free(s.model);
    kas_programs_free(&s.programs);
    kas_device_close(s.device);
    kas_replacement_free(&s.replacement);
    free(s.target);
    kas_assignment_free(&s.kernels);
    kas_net_free(s.net);
    return status == KAS_OK ? 0 : 1;
}
