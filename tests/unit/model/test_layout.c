/* Placing buffers by lifetime: nothing that is alive together overlaps, and memory is reused. */
#include "support/test.h"

#include "host/core/random.h"
#include "host/model/layout.h"

/* Bytes alive at the busiest moment: no layout can be smaller. */
static size_t lower_bound(const kas_layout_buffer *buffers, int count, int times)
{
    size_t most = 0;
    for (int t = 0; t < times; t++) {
        size_t sum = 0;
        for (int i = 0; i < count; i++)
            if (buffers[i].first <= t && t <= buffers[i].last)
                sum += (buffers[i].bytes + 255) / 256 * 256;
        most = sum > most ? sum : most;
    }
    return most;
}

static void check(const kas_layout_buffer *buffers, int count, size_t total)
{
    for (int i = 0; i < count; i++) {
        if (buffers[i].first > buffers[i].last || buffers[i].bytes == 0)
            continue;
        assert_int_equal(buffers[i].offset % 256, 0);
        assert_true(buffers[i].offset + buffers[i].bytes <= total);
        for (int k = 0; k < i; k++) {
            if (buffers[k].first > buffers[k].last || buffers[k].bytes == 0 ||
                buffers[i].first > buffers[k].last || buffers[k].first > buffers[i].last)
                continue;
            assert_true(buffers[i].offset + buffers[i].bytes <= buffers[k].offset ||
                        buffers[k].offset + buffers[k].bytes <= buffers[i].offset);
        }
    }
}

TEST(random_lifetimes)
{
    enum { COUNT = 60, TIMES = 40 };
    double worst = 0;
    for (uint64_t trial = 0; trial < 200; trial++) {
        kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, trial);
        kas_layout_buffer buffers[COUNT];
        for (int i = 0; i < COUNT; i++) {
            int first = (int)kas_rng_below(&rng, TIMES), length = (int)kas_rng_below(&rng, 12) - 1;
            int last = first + length < TIMES ? first + length : TIMES - 1;
            buffers[i] = (kas_layout_buffer){kas_rng_below(&rng, 5000), first, last, 12345};
        }
        size_t total = 0;
        assert_int_equal(kas_layout_solve(buffers, COUNT, &total), KAS_OK);
        check(buffers, COUNT, total);
        double ratio = (double)total / (double)lower_bound(buffers, COUNT, TIMES);
        worst = ratio > worst ? ratio : worst;
    }
    print_message("largest total over lower bound: %.3f, allowed 1.5\n", worst);
    assert_true(worst >= 1 && worst <= 1.5);
}

TEST(a_chain_needs_two_buffers)
{
    kas_layout_buffer buffers[10];
    for (int i = 0; i < 10; i++)
        buffers[i] = (kas_layout_buffer){1024, i, i + 1, 0};
    size_t total = 0;
    assert_int_equal(kas_layout_solve(buffers, 10, &total), KAS_OK);
    check(buffers, 10, total);
    assert_int_equal(total, 2048);
    assert_int_equal(kas_layout_solve(buffers, 0, &total), KAS_OK);
    assert_int_equal(total, 0);
}

RUN_TESTS()
