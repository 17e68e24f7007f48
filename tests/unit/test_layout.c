/* Placing buffers by lifetime: nothing that is alive together overlaps, and memory is reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "host/core/random.h"
#include "host/train/layout.h"

/* Bytes alive at the busiest moment: no layout can be smaller. */
static size_t lower_bound(const kas_slot *slots, int count, int times)
{
    size_t most = 0;
    for (int t = 0; t < times; t++) {
        size_t sum = 0;
        for (int i = 0; i < count; i++)
            if (slots[i].first <= t && t <= slots[i].last)
                sum += (slots[i].bytes + 255) / 256 * 256;
        most = sum > most ? sum : most;
    }
    return most;
}

static void check(const kas_slot *slots, int count, size_t total)
{
    for (int i = 0; i < count; i++) {
        if (slots[i].first > slots[i].last || slots[i].bytes == 0)
            continue;
        assert_int_equal(slots[i].offset % 256, 0);
        assert_true(slots[i].offset + slots[i].bytes <= total);
        for (int k = 0; k < i; k++) {
            if (slots[k].first > slots[k].last || slots[k].bytes == 0 ||
                slots[i].first > slots[k].last || slots[k].first > slots[i].last)
                continue;
            assert_true(slots[i].offset + slots[i].bytes <= slots[k].offset ||
                        slots[k].offset + slots[k].bytes <= slots[i].offset);
        }
    }
}

static void random_lifetimes(void **state)
{
    (void)state;
    enum { COUNT = 60, TIMES = 40 };
    double worst = 0;
    for (uint64_t trial = 0; trial < 200; trial++) {
        kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, trial);
        kas_slot slots[COUNT];
        for (int i = 0; i < COUNT; i++) {
            int first = (int)kas_rng_below(&rng, TIMES), length = (int)kas_rng_below(&rng, 12) - 1;
            int last = first + length < TIMES ? first + length : TIMES - 1;
            slots[i] = (kas_slot){kas_rng_below(&rng, 5000), first, last, 12345};
        }
        size_t total = 0;
        assert_int_equal(kas_layout_solve(slots, COUNT, &total), KAS_OK);
        check(slots, COUNT, total);
        double ratio = (double)total / (double)lower_bound(slots, COUNT, TIMES);
        worst = ratio > worst ? ratio : worst;
    }
    print_message("largest total over lower bound: %.3f, allowed 1.5\n", worst);
    assert_true(worst >= 1 && worst <= 1.5);
}

static void a_chain_needs_two_buffers(void **state)
{
    (void)state;
    kas_slot slots[10];
    for (int i = 0; i < 10; i++)
        slots[i] = (kas_slot){1024, i, i + 1, 0};
    size_t total = 0;
    assert_int_equal(kas_layout_solve(slots, 10, &total), KAS_OK);
    check(slots, 10, total);
    assert_int_equal(total, 2048);
    assert_int_equal(kas_layout_solve(slots, 0, &total), KAS_OK);
    assert_int_equal(total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lifetimes),
        cmocka_unit_test(a_chain_needs_two_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
