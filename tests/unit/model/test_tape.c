/* A planned step played through with tokens in place of numbers: every operation must find in
 * memory what was written for it, although buffers share bytes. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/model/tape.h"
#include "host/net/net.h"
#include "zoo_net.h"

typedef struct player {
    const kas_tape *tape;
    bool *valid; /* [slots] holds what was last written to it */
    int op;
} player;

static bool overlap(const kas_layout_buffer *a, const kas_layout_buffer *b)
{
    return a->bytes && b->bytes && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void put(player *p, int slot)
{
    if (slot < 0 || p->tape->buffer[slot].bytes == 0)
        return;
    assert_true(p->tape->buffer[slot].offset + p->tape->buffer[slot].bytes <= p->tape->bytes);
    for (int i = 0; i < p->tape->slots; i++)
        if (overlap(&p->tape->buffer[i], &p->tape->buffer[slot]))
            p->valid[i] = false;
    p->valid[slot] = true;
}

static void get(player *p, int slot)
{
    if (slot >= 0 && p->tape->buffer[slot].bytes > 0 && !p->valid[slot])
        fail_msg("operation %d (kind %d, layer %d) reads buffer %d, which was overwritten", p->op,
                 p->tape->op[p->op].kind, p->tape->op[p->op].layer, slot);
}

static void play(player *p, const kas_tape_op *op)
{
    if (op->kind == KAS_TAPE_LOSS)
        get(p, p->tape->labels);
    if (op->kind == KAS_TAPE_LOAD)
        put(p, p->tape->labels);
    get(p, op->x.slot);
    get(p, op->x1.slot);
    get(p, op->dy.slot);
    get(p, op->dy1.slot);
    get(p, op->base.slot);
    if (op->kind == KAS_TAPE_BACKWARD)
        get(p, op->y.slot);
    if (op->kind == KAS_TAPE_BACKWARD || op->kind == KAS_TAPE_AGAIN)
        get(p, op->saved);
    put(p, op->work);
    put(p, op->pooled);
    if (op->kind == KAS_TAPE_FORWARD)
        put(p, op->saved);
    if (op->kind != KAS_TAPE_BACKWARD)
        put(p, op->y.slot);
    put(p, op->dx.slot);
    if (op->dx1.slot >= 0 && op->dx1.slot != op->dx.slot)
        put(p, op->dx1.slot);
}

static void play_all(const kas_tape *tape, int repeats)
{
    player p = {.tape = tape, .valid = calloc((size_t)tape->slots + 1, sizeof(bool))};
    assert_non_null(p.valid);
    if (tape->op[0].kind == KAS_TAPE_FORWARD)
        put(&p, tape->images); /* given once, for all runs */
    for (int r = 0; r < repeats; r++) {
        for (p.op = 0; p.op < tape->ops; p.op++)
            play(&p, &tape->op[p.op]);
        get(&p, tape->logits.slot);
    }
    free(p.valid);
}

static size_t play_mode(const kas_net *net, kas_tape_mode mode, bool recompute)
{
    kas_tape tape;
    assert_int_equal(
        kas_tape_build(net, NULL,
                       &(kas_tape_options){.batch = 4, .mode = mode, .recompute = recompute},
                       &tape),
        KAS_OK);
    play_all(&tape, 3);
    size_t bytes = tape.bytes;
    kas_tape_free(&tape);
    return bytes;
}

/* Takes over the network. */
static void play_net(kas_net *net)
{
    const size_t train = play_mode(net, KAS_TAPE_TRAIN, false);
    const size_t less = play_mode(net, KAS_TAPE_TRAIN, true);
    const size_t evaluate = play_mode(net, KAS_TAPE_EVALUATE, false);
    const size_t infer = play_mode(net, KAS_TAPE_INFER, false);
    print_message("%s: %zu bytes to train, %zu with recomputation, %zu to evaluate, %zu to infer\n",
                  net->name, train, less, evaluate, infer);
    assert_true(less < train);
    assert_true(evaluate < train / 2); /* evaluation forgets what it has passed */
    kas_net_free(net);
}

TEST(every_operation_finds_its_inputs)
{
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++) {
        kas_net *net = NULL;
        assert_int_equal(kas_net_build(e->name, 63, 64, 3, 10, &net), KAS_OK);
        play_net(net);
    }
    play_net(zoo_net(31, 32));
}

/* A block of DenseNet: each layer reads the images' convolution and all layers before it, which are
 * listed, or are the concatenation before it (`nested`). */
static kas_net *dense_block(int layers, bool nested)
{
    kas_net *net = NULL;
    kas_builder b;
    int read[64] = {0}, count = 0, concat = 0;
    kas_builder_start(&b, "block", 16, 16, 3, 10);
    read[count++] = kas_builder_relu(&b, kas_builder_conv(&b, 0, "stem", 16, 3, 1), "relu");
    concat = read[0];
    for (int i = 0; i < layers; i++) {
        char name[3][24];
        for (int k = 0; k < 3; k++)
            snprintf(name[k], sizeof name[k], "layer%d.%s", i,
                     (const char *[]){"bn", "conv", "cat"}[k]);
        read[count++] =
            kas_builder_conv(&b, kas_builder_batch_norm(&b, concat, name[0]), name[1], 8, 3, 1);
        concat = nested
                     ? zoo_join(&b, KAS_LAYER_CONCAT, name[2], 2, (int[]){concat, read[count - 1]})
                     : zoo_join(&b, KAS_LAYER_CONCAT, name[2], count, read);
    }
    kas_builder_linear(&b, kas_builder_global_avg_pool(&b, concat, "gap"), "fc", 10);
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    return net;
}

/* One copy of each tensor however many concatenations have it: none of the first, which is written
 * where it belongs, one of each convolution's output and of its gradient. */
TEST(dense_blocks_share_a_buffer)
{
    enum { LAYERS = 12 };
    for (int nested = 0; nested < 2; nested++) {
        kas_net *net = dense_block(LAYERS, nested);
        kas_tape tape;
        int copies = 0;
        assert_int_equal(
            kas_tape_build(
                net, NULL,
                &(kas_tape_options){.batch = 4, .mode = KAS_TAPE_TRAIN, .recompute = false}, &tape),
            KAS_OK);
        play_all(&tape, 2);
        for (int i = 0; i < tape.ops; i++)
            copies += tape.op[i].kind == KAS_TAPE_COPY;
        assert_int_equal(copies, 2 * LAYERS);
        kas_tape_free(&tape);
        kas_net_free(net);
    }
}

/* Each layer with something to learn gets its gradient once, after all readers of its output. */
TEST(every_layer_goes_back_once)
{
    kas_net *net = NULL;
    kas_tape tape;
    assert_int_equal(kas_net_build("resnet18", 32, 32, 3, 10, &net), KAS_OK);
    assert_int_equal(
        kas_tape_build(net, NULL,
                       &(kas_tape_options){.batch = 2, .mode = KAS_TAPE_TRAIN, .recompute = false},
                       &tape),
        KAS_OK);
    int *seen = calloc((size_t)net->layers, sizeof *seen);
    assert_non_null(seen);
    int updates = 0;
    for (int i = 0; i < tape.ops; i++) {
        const kas_tape_op *op = &tape.op[i];
        updates += op->kind == KAS_TAPE_UPDATE;
        if (op->kind != KAS_TAPE_BACKWARD)
            continue;
        seen[op->layer]++;
        for (int i = op->layer + 1; i <= op->last; i++) /* a fused sum and ReLU */
            seen[i] += op->last != op->layer && net->layer[i].in[0] >= op->layer &&
                       (i == op->last || net->layer[i].op == KAS_LAYER_ADD);
        for (int reader = op->last + 1; reader < net->layers; reader++)
            for (int k = 0; k < net->layer[reader].inputs; k++)
                if (net->layer[reader].in[k] == op->last)
                    assert_int_equal(seen[reader], 1);
        bool first = net->layer[op->layer].in[0] == 0;
        assert_true(first == (op->dx.slot < 0));
    }
    for (int i = 1; i < net->layers; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(updates, 1);
    assert_int_equal(tape.op[tape.ops - 1].kind, KAS_TAPE_UPDATE);
    free(seen);
    kas_tape_free(&tape);
    kas_net_free(net);
}

RUN_TESTS()
