/* The lowering of pools and shuffles, against the float64 reference. */
#include "agree_fixture.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* Windows of the convolution and of their own, beyond small images, behind a map and in front. */
TEST(test_pools)
{
    static const kas_op op[] = {KAS_OP_POOL_AVG, KAS_OP_POOL_MAX};
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "pool_max" : "pool_avg";
        for (int axes = KAS_AXIS_H; axes <= HW; axes++) {
            kas_kernel k = {0};
            const int x = kas_build_input(&k);
            const int p =
                kas_build_pool(&k, op[i], kas_build_elementwise(&k, KAS_OP_SIN, x), axes, 0);
            kas_build_broadcast(&k, KAS_OP_MUL, x, p);
            agree(name, &k);
        }
        kas_kernel own = {0}, row = {0};
        int x = kas_build_fc(&own, kas_build_input(&own), false, "C");
        x = kas_build_pool(&own, op[i], kas_build_group(&own, x, 0, 0), HW, 5);
        kas_build_fc(&own, x, true, "C");
        agree_large(name, &own);
        x = kas_build_input(&row); /* H is gone */
        const int p =
            kas_build_pool(&row, op[i], kas_build_fold(&row, KAS_OP_FOLD_AVG, x, 1), KAS_AXIS_W, 7);
        kas_build_broadcast(&row, KAS_OP_ADD, p, x);
        agree(name, &row);
    }
}

/* Whole numbers: many windows have their maximum more than once. */
TEST(test_ties)
{
    static const int windows[] = {3, 5, 7}; /* the larger ones in stages */
    whole_numbers = true;
    for (int i = 0; i < 3; i++) {
        kas_kernel k = {0};
        const int x = kas_build_input(&k);
        kas_build_broadcast(&k, KAS_OP_ADD, x,
                            kas_build_pool(&k, KAS_OP_POOL_MAX, x, HW, windows[i]));
        agree("ties of a pool", &k);
    }
    whole_numbers = false;
}

TEST(test_shuffle)
{
    kas_kernel k = {0}, net = {0}, inner = {0};
    kas_build_shuffle(&k, kas_build_input(&k), 0, 1);
    agree("shuffle", &k);
    int x = kas_build_group(&net, kas_build_input(&net), 0, 0); /* as ShuffleNet's unit */
    x = kas_build_shuffle(&net, kas_build_fc(&net, x, true, "C"), 0, 0);
    x = kas_build_unfold(&net, kas_build_group_all(&net, x, 0), HW);
    x = kas_build_group(&net, kas_build_fc(&net, x, true, "C"), 0, 0);
    kas_build_fc(&net, x, true, "C");
    agree_large("a unit of ShuffleNet", &net);
    x = kas_build_unfold_window(&inner, kas_build_group(&inner, kas_build_input(&inner), 0, 0),
                                KAS_AXIS_W, 3, 0);
    x = kas_build_shuffle(&inner, x, 1, 0);
    kas_build_fold(&inner, KAS_OP_FOLD_MAX, x, 2);
    agree("shuffle within groups", &inner);
}

RUN_TESTS(set_up, tear_down)
