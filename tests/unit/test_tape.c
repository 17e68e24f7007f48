/* A planned step played through with tokens in place of numbers: every operation must find in
 * memory what was written for it, although buffers share bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/net/net.h"
#include "host/train/tape.h"

typedef struct player {
    const kas_tape *tape;
    bool *valid; /* [slots] holds what was last written to it */
    int op;
} player;

static bool overlap(const kas_slot *a, const kas_slot *b)
{
    return a->bytes && b->bytes && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void put(player *p, int slot)
{
    if (slot < 0 || p->tape->slot[slot].bytes == 0)
        return;
    assert_true(p->tape->slot[slot].offset + p->tape->slot[slot].bytes <= p->tape->bytes);
    for (int i = 0; i < p->tape->slots; i++)
        if (overlap(&p->tape->slot[i], &p->tape->slot[slot]))
            p->valid[i] = false;
    p->valid[slot] = true;
}

static void get(player *p, int slot)
{
    if (slot >= 0 && p->tape->slot[slot].bytes > 0 && !p->valid[slot])
        fail_msg("operation %d (kind %d, layer %d) reads buffer %d, which was overwritten", p->op,
                 p->tape->op[p->op].kind, p->tape->op[p->op].layer, slot);
}

static void play(player *p, const kas_tape_op *op)
{
    if (op->kind == KAS_TAPE_LOSS)
        get(p, p->tape->labels);
    if (op->kind == KAS_TAPE_LOAD)
        put(p, p->tape->labels);
    get(p, op->x);
    get(p, op->x1);
    get(p, op->dy);
    if (op->kind == KAS_TAPE_BACKWARD) {
        get(p, op->y);
        get(p, op->saved);
    }
    put(p, op->work);
    put(p, op->pooled);
    if (op->kind != KAS_TAPE_BACKWARD) {
        put(p, op->saved);
        put(p, op->y);
    }
    put(p, op->dx);
    if (op->dx1 >= 0 && op->dx1 != op->dx)
        put(p, op->dx1);
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
        get(&p, tape->logits);
    }
    free(p.valid);
}

static void every_operation_finds_its_inputs(void **state)
{
    (void)state;
    static const kas_replaced none;
    for (const char *const *name = kas_net_names(); *name; name++) {
        kas_net *net = NULL;
        assert_int_equal(kas_net_build(*name, 63, 64, 3, 10, &net), KAS_OK);
        if (kas_net_runnable(net) != KAS_OK) {
            print_message("%s\n", kas_error());
            kas_net_free(net);
            continue;
        }
        size_t bytes[3];
        for (int mode = KAS_TAPE_TRAIN; mode <= KAS_TAPE_INFER; mode++) {
            kas_tape tape;
            assert_int_equal(kas_tape_build(net, &none, 4, (kas_tape_mode)mode, &tape), KAS_OK);
            play_all(&tape, 3);
            bytes[mode] = tape.bytes;
            kas_tape_free(&tape);
        }
        print_message("%s: %zu bytes to train, %zu to evaluate, %zu to infer\n", *name, bytes[0],
                      bytes[1], bytes[2]);
        assert_true(bytes[1] < bytes[0] / 3); /* evaluation forgets what it has passed */
        kas_net_free(net);
    }
}

/* Each layer with something to learn gets its gradient once, after all readers of its output. */
static void every_layer_goes_back_once(void **state)
{
    (void)state;
    static const kas_replaced none;
    kas_net *net = NULL;
    kas_tape tape;
    assert_int_equal(kas_net_build("resnet18", 32, 32, 3, 10, &net), KAS_OK);
    assert_int_equal(kas_tape_build(net, &none, 2, KAS_TAPE_TRAIN, &tape), KAS_OK);
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
        assert_true(first == (op->dx < 0));
    }
    for (int i = 1; i < net->layers; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(updates, 1);
    assert_int_equal(tape.op[tape.ops - 1].kind, KAS_TAPE_UPDATE);
    free(seen);
    kas_tape_free(&tape);
    kas_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_finds_its_inputs),
        cmocka_unit_test(every_layer_goes_back_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
