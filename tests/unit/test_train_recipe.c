/* The schedule against its formula, the recipe's limits, and the digest that names a run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/train/recipe.h"

static void rate_rises_then_falls(void **state)
{
    (void)state;
    kas_recipe r = kas_recipe_default();
    r.epochs = 10;
    r.lr = 0.4;
    r.warmup_epochs = 2;
    enum { STEPS = 50 };
    double worst = 0;
    for (int s = 0; s < 10 * STEPS; s++) {
        double t = s + 0.5, x = (t - 100) / 400;
        double expected = t < 100 ? 0.4 * t / 100 : 0.2 * (1 + cos(3.14159265358979323846 * x));
        double error = fabs(kas_recipe_lr(&r, STEPS, (uint64_t)s) - expected);
        assert_true(kas_recipe_lr(&r, STEPS, (uint64_t)s) > 0);
        worst = error > worst ? error : worst;
    }
    print_message("schedule: largest error %g, tolerance 1e-15\n", worst);
    assert_true(worst <= 1e-15);
    r.warmup_epochs = 0;
    assert_true(kas_recipe_lr(&r, STEPS, 0) > 0.3999);
    r.warmup_epochs = 1000; /* longer than the run: still falls at the end */
    assert_true(kas_recipe_lr(&r, STEPS, 499) < 0.01 * 0.4);
    r.epochs = 1;
    r.warmup_epochs = 1;
    assert_true(isfinite(kas_recipe_lr(&r, 1, 0)));
}

static void limits_are_explained(void **state)
{
    (void)state;
    kas_recipe r = kas_recipe_default();
    assert_int_equal(kas_recipe_check(&r), KAS_OK);
    r.lr = NAN;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "learning rate"));
    r = kas_recipe_default();
    r.batch = 0;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "batch"));
    r = kas_recipe_default();
    r.label_smoothing = 1;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
}

static void digest_names_the_run(void **state)
{
    (void)state;
    kas_net *net20 = NULL, *net18 = NULL;
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, 4, &net20), KAS_OK);
    assert_int_equal(kas_net_build("resnet18", 8, 8, 3, 4, &net18), KAS_OK);
    kas_dataset data = {.digest = "aaaa"}, other = {.digest = "bbbb"};
    const uint32_t index[4] = {0, 1, 2, 3}, permuted[4] = {0, 1, 3, 2};
    kas_train_options base = {.net = net20,
                              .dataset = &data,
                              .recipe = kas_recipe_default(),
                              .train_index = index,
                              .train_count = 4,
                              .checkpoint = "a"};
    kas_train_options changed[9];
    for (int i = 0; i < 9; i++)
        changed[i] = base;
    changed[0].net = net18;
    changed[1].dataset = &other;
    changed[2].seed = 1;
    changed[3].train_index = permuted;
    changed[4].train_count = 3;
    changed[5].recipe.lr = nextafter(base.recipe.lr, 1);
    changed[6].recipe.flip = !base.recipe.flip;
    changed[7].evaluate_test = true;
    changed[8].recipe.epochs++;
    uint8_t first[32], digest[32];
    assert_int_equal(kas_train_digest(&base, first), KAS_OK);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(kas_train_digest(&changed[i], digest), KAS_OK);
        assert_memory_not_equal(first, digest, 32);
    }
    base.checkpoint = "b"; /* where it is saved does not matter */
    base.weights_out = "c";
    assert_int_equal(kas_train_digest(&base, digest), KAS_OK);
    assert_memory_equal(first, digest, 32);
    kas_net_free(net20);
    kas_net_free(net18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_rises_then_falls),
        cmocka_unit_test(limits_are_explained),
        cmocka_unit_test(digest_names_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
