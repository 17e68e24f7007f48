/* The reference with its values rounded at random: what is rounded, how far, and that it ends. */
#include <float.h>
#include <math.h>

#include "reference_fixture.h"

enum { SIZE = 2 * 3 * 4 };

/* y = sin(x) + relu(x): the one must be rounded, of the other nothing. */
static int build(fixture *f, int *sine, int *relu)
{
    fixture_target(f, 2, 3, 4, 3, 3);
    const int x = kas_build_input(&f->kernel);
    *sine = kas_build_elementwise(&f->kernel, KAS_OP_SIN, x);
    *relu = kas_build_elementwise(&f->kernel, KAS_OP_RELU, x);
    fixture_create(f, kas_build_broadcast(&f->kernel, KAS_OP_ADD, *sine, *relu));
    fd_random(f->x, SIZE, 1);
    fd_random(f->dy, SIZE, 2);
    for (int i = 0; i < SIZE; i++) {
        f->x[i] = (double)(float)f->x[i];
        f->dy[i] = (double)(float)f->dy[i];
    }
    return SIZE;
}

TEST(test_neighbours)
{
    fixture f;
    int sine, relu, up = 0, down = 0;
    size_t elements;
    build(&f, &sine, &relu);
    for (uint64_t seed = 0; seed < 20; seed++) {
        kas_reference_round(f.ref, FLT_MANT_DIG, seed);
        fixture_forward(&f);
        const double *s = kas_reference_node_value(f.ref, sine, &elements);
        const double *r = kas_reference_node_value(f.ref, relu, &elements);
        for (int i = 0; i < SIZE; i++) {
            const double exact = sin(f.x[i]);
            assert_true(s[i] == (double)(float)s[i]);
            assert_true(fabs(s[i] - exact) < fabs(exact) * (double)FLT_EPSILON);
            assert_true(r[i] == fmax(f.x[i], 0));
            up += s[i] > exact;
            down += s[i] < exact;
        }
    }
    assert_int_equal(up + down, 20 * SIZE); /* no sine of a float but 0 is one */
    assert_true(up > 200 && down > 200);    /* of 480 */
    fixture_free(&f);
}

/* dx = cos(x) dy + (x > 0) dy: only what a node passes on is rounded, and the gradient of x. */
TEST(test_gradients)
{
    fixture f;
    int sine, relu, other = 0;
    double exact[SIZE];
    build(&f, &sine, &relu);
    fixture_forward(&f);
    fixture_backward(&f);
    memcpy(exact, f.dx, sizeof exact);
    kas_reference_round(f.ref, 8, 3); /* bfloat16 */
    fixture_forward(&f);
    fixture_backward(&f);
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabs(f.dx[i] - exact[i]) < 4 * fabs(f.dy[i]) / 128);
        other += f.dx[i] != exact[i];
    }
    assert_true(other > SIZE / 2);
    kas_reference_round(f.ref, 0, 0);
    fixture_forward(&f);
    fixture_backward(&f);
    assert_memory_equal(f.dx, exact, sizeof exact);
    fixture_free(&f);
}

/* A norm of equal numbers is 0, and its mean is one that the format holds.  A device that sums gets
 * it wrong by half a unit in its last place, which is divided by sqrt(eps): rounding must show it.
 */
TEST(test_equal_numbers)
{
    fixture f;
    const double bound = ldexp(1, -FLT_MANT_DIG) / sqrt(1e-5) * (1 + 1e-6);
    double largest = 0;
    fixture_target(&f, 2, 3, 4, 3, 3);
    kas_build_along(&f.kernel, KAS_OP_NORM, kas_build_input(&f.kernel), 0, 3);
    fixture_create(&f, f.kernel.nodes - 1);
    for (int i = 0; i < SIZE; i++)
        f.x[i] = 1;
    fixture_forward(&f);
    for (int i = 0; i < SIZE; i++)
        assert_true(f.y[i] == 0);
    kas_reference_round(f.ref, FLT_MANT_DIG, 1);
    fixture_forward(&f);
    for (int i = 0; i < SIZE; i++)
        largest = fmax(largest, fabs(f.y[i]));
    print_message("largest movement %.3g, at most %.3g\n", largest, bound);
    assert_true(largest > 0.9 * bound);
    assert_true(largest <= bound);
    fixture_free(&f);
}

RUN_TESTS()
