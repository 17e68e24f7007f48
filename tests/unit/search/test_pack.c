/* --pack auto (src/host/search/pack.h): what a step fills of a GPU, and how many trainings follow.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "host/search/pack.h"

enum { H100 = 132 * 8, LARGE = 1 << 30 };

/* Two passes of the same bytes over a layer of 64 blocks, and one of one block. */
TEST(small_launches_weigh_by_their_time)
{
    kas_layer layer[2] = {{.h = 8, .w = 8, .c = 4096}, {.h = 1, .w = 1, .c = 4096}};
    const kas_net net = {.layer = layer, .layers = 2};
    kas_sweep pass[] = {
        {.what = "a", .layer = 0, .operation = 0, .bytes = 100, .seconds = NAN},
        {.what = "b", .layer = 1, .operation = 1, .bytes = 100, .seconds = NAN},
        {.what = "c", .layer = -1, .operation = 2, .bytes = 4 * 4096, .seconds = NAN}};
    kas_planned_bytes one = {.pass = pass, .passes = 1, .bytes = 100},
                      two = {.pass = pass, .passes = 2, .bytes = 200},
                      rest = {.pass = pass + 2, .passes = 1, .bytes = 4 * 4096};
    assert_float_equal(kas_pack_filled(&one, &net, 1, 64), 1, 1e-12);
    assert_float_equal(kas_pack_filled(&one, &net, 1, 128), 0.5, 1e-12);
    assert_float_equal(kas_pack_filled(&one, &net, 4, 128), 1,
                       1e-12); /* more than it runs at once */
    assert_float_equal(kas_pack_filled(&two, &net, 1, 64), 200.0 / (100 + 100 * 64), 1e-12);
    assert_float_equal(kas_pack_filled(&rest, &net, 1, 4), 0.25, 1e-12);
}

static int chosen(double filled, size_t training, size_t room)
{
    return kas_pack_choose(filled, training, room).chosen;
}

TEST(memory_and_bounds_limit_it)
{
    assert_int_equal(chosen(1, 1, LARGE), 1);
    assert_int_equal(chosen(0.5, 1, LARGE), 2);
    assert_int_equal(chosen(0.3, 1, LARGE), 4);
    assert_int_equal(chosen(0.01, 1, LARGE), KAS_PACK_MOST);
    assert_int_equal(chosen(1e-30, 1, LARGE), KAS_PACK_MOST);
    assert_int_equal(chosen(0.1, 100, 350), 3);
    assert_int_equal(chosen(0.1, 100, 50), 1); /* alone it may recompute */
    assert_int_equal(chosen(0.25, 100, 0), 4); /* memory that is not known limits nothing */
    const kas_pack p = kas_pack_choose(0.1, 100, 350);
    assert_int_equal(p.fills, 10);
    assert_int_equal(p.fits, 3);
}

static double filled(const char *name, int side, int batch)
{
    kas_net *net;
    kas_planned_bytes step;
    assert_int_equal(kas_net_build(name, side, side, 3, 10, &net), KAS_OK);
    const kas_model_options model = {.net = net, .batch = batch, .training = true};
    assert_int_equal(kas_planned_bytes_plan(&model, KAS_TAPE_TRAIN, &step), KAS_OK);
    const double share = kas_pack_filled(&step, net, batch, H100);
    printf("%s, 3x%dx%d, batch %d: %.1f%%\n", name, side, side, batch, 100 * share);
    kas_planned_bytes_free(&step);
    kas_net_free(net);
    return share;
}

/* More images fill more; a large network at a large batch needs no neighbour. */
TEST(networks_are_told_apart)
{
    const double small = filled("resnet20", 32, 64), more = filled("resnet20", 32, 256),
                 large = filled("resnet18", 224, 256);
    assert_true(small < more && more < large);
    assert_true(chosen(small, 1, LARGE) > 4);
    assert_true(chosen(large, 1, LARGE) <= 2);
}

RUN_TESTS()
