/* Bytes of a step: counted by hand for a small network, and never below the floor for the networks
 * that come with kas-gpu. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/model/planned_bytes.h"

/* A convolution of 3 -> 8 channels, batch norm and ReLU, twice, the second with the first's output
 * added; global pool; linear layer to 10 classes. */
static const char small_net[] =
    "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"small\", \"layers\": ["
    "{\"conv\": \"conv1\", \"channels\": 8, \"kernel\": 3}, {\"batch_norm\": \"bn1\"},"
    "{\"relu\": \"a\"}, {\"conv\": \"conv2\", \"channels\": 8, \"kernel\": 3},"
    "{\"batch_norm\": \"bn2\"}, {\"add\": \"sum\", \"from\": [\"bn2\", \"a\"]},"
    "{\"relu\": \"b\"}, {\"global_avg_pool\": \"pool\"},"
    "{\"linear\": \"fc\", \"channels\": \"classes\"}]}";

static kas_planned_bytes count(const kas_net *net, int batch, kas_tape_mode mode)
{
    kas_planned_bytes planned;
    const kas_model_options options = {.net = net, .batch = batch, .training = true};
    OK(kas_planned_bytes_plan(&options, mode, &planned));
    return planned;
}

static double of(const kas_planned_bytes *t, const char *what)
{
    double bytes = 0;
    int found = 0;
    for (int i = 0; i < t->passes; i++)
        if (strcmp(t->pass[i].what, what) == 0) {
            bytes += t->pass[i].bytes;
            found++;
        }
    if (!found)
        fail_msg("no pass \"%s\"", what);
    return bytes;
}

static void exactly(const char *what, double found, double expected)
{
    if (found != expected)
        fail_msg("%s: %.17g bytes, expected %.17g", what, found, expected);
}

TEST(a_small_network_by_hand)
{
    kas_net *net;
    OK(kas_net_build(small_net, 4, 4, 3, 10, &net));
    const double image = 4.0 * 5 * 4 * 4 * 3, map = 4.0 * 5 * 4 * 4 * 8, pooled = 4.0 * 5 * 8,
                 logits = 4.0 * 5 * 10, w1 = 4.0 * 8 * 3 * 9, w2 = 4.0 * 8 * 8 * 9,
                 fc = 4.0 * (80 + 10);
    kas_planned_bytes t = count(net, 5, KAS_TAPE_TRAIN);
    exactly("forward", of(&t, "convolution forward"),
            image + w1 + map + map + w2 + map + pooled + fc + logits);
    exactly("weights", of(&t, "convolution backward, weights"),
            image + w1 + map + map + w2 + map + pooled + fc + logits);
    /* none for the stem */
    exactly("data", of(&t, "convolution backward, data"), map + w2 + map + pooled + fc + logits);
    exactly("pool", of(&t, "pool forward"), map + pooled);
    exactly("gradients", of(&t, "pool backward"), map + pooled);
    /* multiply-adds: the gradient of the images is not wanted */
    const double first = 5.0 * 16 * 8 * 27, second = 5.0 * 16 * 8 * 72, last = 5.0 * 80;
    exactly("FLOPs", t.floor_flops, 2 * first + 3 * second + 3 * last);
    double sum = 0;
    for (int i = 0; i < t.passes; i++)
        sum += t.pass[i].bytes;
    exactly("sum", sum, t.bytes);
    kas_planned_bytes_free(&t);

    t = count(net, 5, KAS_TAPE_INFER);
    exactly("inference", t.floor_bytes,
            image + w1 + map + map + w2 + map + map + pooled + fc + logits);
    exactly("normalise", of(&t, "batch norm normalise"), 2 * map + 3 * map);
    exactly("FLOPs of inference", t.floor_flops, first + second + last);
    kas_planned_bytes_free(&t);
    kas_net_free(net);
}

/* The floor of training: forward, backward, what norms, sums and forks need, the optimiser. */
TEST(the_floor_by_hand)
{
    kas_net *net;
    OK(kas_net_build(small_net, 4, 4, 3, 10, &net));
    const double image = 4.0 * 5 * 4 * 4 * 3, map = 4.0 * 5 * 4 * 4 * 8, pooled = 4.0 * 5 * 8,
                 logits = 4.0 * 5 * 10, w1 = 4.0 * 8 * 3 * 9, w2 = 4.0 * 8 * 8 * 9,
                 fc = 4.0 * (80 + 10);
    kas_planned_bytes t = count(net, 5, KAS_TAPE_TRAIN);
    double expected = of(&t, "optimiser");
    expected += 2 * image / 4 + 2 * map + 3 * w1; /* conv1 reads bytes; no gradient of x */
    expected += 3 * map + 2 * map + 3 * w2;
    expected += 3 * pooled + 2 * logits + 3 * fc;
    expected += 2 * map; /* norms read their inputs again */
    expected += map;     /* the sum's other input */
    expected += map;     /* "a" has two readers */
    exactly("floor", t.floor_bytes, expected);
    kas_planned_bytes_free(&t);
    kas_net_free(net);
}

TEST(no_network_is_below_its_floor)
{
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++)
        for (int mode = KAS_TAPE_TRAIN; mode <= KAS_TAPE_INFER; mode += KAS_TAPE_INFER) {
            kas_net *net;
            kas_sweep_kind kind[KAS_SWEEP_KINDS];
            double sum = 0;
            OK(kas_net_build(e->name, 32, 32, 3, 10, &net));
            kas_planned_bytes t = count(net, 64, (kas_tape_mode)mode);
            const int kinds = kas_planned_bytes_kinds(&t, kind);
            for (int k = 0; k < kinds; k++) {
                sum += kind[k].bytes;
                assert_true(k == 0 || kind[k].bytes <= kind[k - 1].bytes);
            }
            if (!(t.floor_bytes <= t.bytes) || !(sum >= t.bytes * (1 - 1e-12)))
                fail_msg("%s: floor %g, plan %g, sum of kinds %g", e->name, t.floor_bytes, t.bytes,
                         sum);
            printf("%s, %s: %.2f times the floor\n", e->name,
                   mode == KAS_TAPE_TRAIN ? "training" : "inference", t.bytes / t.floor_bytes);
            kas_planned_bytes_free(&t);
            kas_net_free(net);
        }
}

RUN_TESTS()
