/* Training steps and inferences of a network on a device, at the command of another program
 * (step.py) that runs the same network its own way and takes turns with this one.
 *
 *     serve_step NET CxHxW CLASSES BATCH IMAGES DEVICE THREADS PRECISION
 *
 * IMAGES random images lie on the device; a step is a search's own: load, crop and mirror, forward,
 * loss, backward, update.  "ready", then line by line on standard input: "train N" runs N steps of
 * a new epoch, "infer N" N forward passes, and the answer is the device's seconds of all N. "check"
 * answers "ok" when every image of every step was counted and the loss is finite.  The end of the
 * input ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/step_model.h"

typedef struct session {
    kas_net *net;
    kas_device *device;
    kas_dataset *images;
    kas_bench_model model;
    bool made, infers; /* infers: the batch of the inferences is in place */
    int epoch;
} session;

static kas_status make(session *s, char **argv)
{
    int c, h, w;
    int precision;
    const int classes = atoi(argv[3]), batch = atoi(argv[4]), images = atoi(argv[5]);
    if (sscanf(argv[2], "%dx%dx%d", &c, &h, &w) != 3 || classes < 2 || batch < 1 || images < batch)
        return kas_fail(KAS_USAGE,
                        "input %s, %d classes, batch %d of %d images: expected CxHxW, 2 "
                        "classes or more, a batch of the images or fewer",
                        argv[2], classes, batch, images);
    KAS_TRY(kas_choice_parse("precision", kas_precision_names, argv[8], &precision));
    KAS_TRY(kas_net_build(argv[1], h, w, c, classes, &s->net));
    KAS_TRY(kas_device_open(argv[6], atoi(argv[7]), &s->device));
    KAS_TRY(kas_bench_images(s->net, images, &s->images));
    KAS_TRY(kas_bench_model_create(s->device, s->net, NULL, s->images, batch, precision, NULL,
                                   &s->model));
    s->made = true;
    return kas_bench_model_begin(&s->model, KAS_TAPE_TRAIN);
}

static kas_status infer(session *s, int runs, double *seconds)
{
    if (!s->infers)
        KAS_TRY(kas_bench_model_begin(&s->model, KAS_TAPE_INFER));
    s->infers = true;
    *seconds = 0;
    for (int i = 0; i < runs; i++) {
        kas_bench_time time;
        KAS_TRY(kas_bench_model_run(&s->model, KAS_TAPE_INFER, &time));
        *seconds += time.device;
    }
    return KAS_OK;
}

static kas_status answer(session *s, const char *line)
{
    int runs;
    double seconds;
    if (strcmp(line, "check\n") == 0) {
        KAS_TRY(kas_bench_model_check(&s->model, KAS_TAPE_TRAIN));
        puts("ok");
        return KAS_OK;
    }
    if (sscanf(line, "train %d", &runs) == 1 && runs > 0)
        KAS_TRY(kas_bench_model_train(&s->model, s->epoch++, (uint32_t)runs, &seconds));
    else if (sscanf(line, "infer %d", &runs) == 1 && runs > 0)
        KAS_TRY(infer(s, runs, &seconds));
    else
        return kas_fail(KAS_USAGE, "\"%s\": expected \"train N\", \"infer N\" or \"check\"", line);
    printf("%.9g\n", seconds);
    return KAS_OK;
}

static kas_status run(session *s, char **argv)
{
    char line[64];
    KAS_TRY(make(s, argv));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        KAS_TRY(answer(s, line));
        fflush(stdout);
    }
    return KAS_OK;
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fputs("usage: serve_step NET CxHxW CLASSES BATCH IMAGES DEVICE THREADS PRECISION\n",
              stderr);
        return 2;
    }
    session s = {0};
    const kas_status status = run(&s, argv);
    if (status != KAS_OK)
        fprintf(stderr, "serve_step: %s\n", kas_error());
    if (s.made)
        kas_bench_model_free(&s.model);
    kas_dataset_close(s.images);
    kas_device_close(s.device);
    kas_net_free(s.net);
    return status == KAS_OK ? 0 : 1;
}
