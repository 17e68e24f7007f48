/* Pruning by curve against the numbers of the formula. */
#include "support/test.h"

#include <math.h>

#include "host/train/prune.h"

TEST(lambda_rises_from_theta_to_one)
{
    const double expected[5] = {0.5, 0.625, 0.75, 0.875, 1};
    for (int e = 0; e < 5; e++)
        assert_true(kas_prune_lambda(KAS_PRUNE_THETA, e, 5) == expected[e]);
    assert_true(kas_prune_lambda(0.5, 0, 1) == 1);
}

TEST(prunes_below_the_curve_only)
{
    assert_true(kas_prune_now(0.5, 0, 5, 0.199, 0.4));
    assert_false(kas_prune_now(0.5, 0, 5, 0.2, 0.4));
    assert_true(kas_prune_now(0.5, 2, 5, 0.29, 0.4));
    assert_false(kas_prune_now(0.5, 2, 5, 0.31, 0.4));
    assert_false(kas_prune_now(0.5, 4, 5, 0.1, 0.4)); /* the last epoch has been paid for */
    assert_false(kas_prune_now(0.5, 0, 1, 0.1, 0.4));
    assert_false(kas_prune_now(0.5, 1, 5, 0.01, NAN)); /* nobody has finished yet */
    assert_false(kas_prune_now(0.5, 1, 5, 0.01, -1));
    assert_true(kas_prune_now(0.5, 1, 5, NAN, NAN));
}

RUN_TESTS()
