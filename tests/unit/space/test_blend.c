/* Kernels between two others: those that a sequence of NAS-PTE writes out, with the costs of both. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "host/space/canonical.h"
#include "host/space/evolve/blend.h"
#include "host/space/file/kernel_json.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/solve/solve.h"

static const kas_target layer = KAS_TARGET_PLAIN("a", 96, 8, 8, 3);

static kas_kernel kernel_of(const char *steps)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    OK(kas_pte_parse(steps, &sequence));
    OK(kas_pte_kernel(&sequence, &kernel));
    return kernel;
}

static double params_of(const kas_kernel *kernel)
{
    const kas_binding binding = kas_target_binding(kernel, &layer);
    kas_cost cost;
    OK(kas_kernel_cost(kernel, &binding, &cost));
    return cost.params;
}

/* Half of the outputs in 2 groups, half in 4: the paper's sequence 3. */
TEST(halves_are_sequence_3)
{
    const kas_kernel two = kernel_of("group(2)"), four = kernel_of("group(4)"),
                     wanted = kernel_of("pte-3");
    kas_kernel blend;
    char name[2][KAS_NAME_SIZE];
    OK(kas_blend(&four, &two, 1, 2, &blend));
    OK(kas_kernel_name(&blend, name[0]));
    OK(kas_kernel_name(&wanted, name[1]));
    assert_string_equal(name[0], name[1]);
    OK(kas_blend(&four, &two, 2, 4, &blend)); /* 2 of 4 are halves */
    OK(kas_kernel_name(&blend, name[0]));
    assert_string_equal(name[0], name[1]);
}

/* Each output costs what it costs in its own kernel. */
TEST(costs_lie_between)
{
    static const char *const ends[][2] = {{"group(2)", "group(4)"},
                                          {"", "depthwise"},
                                          {"bottleneck_in(2)", "group(4)"},
                                          {"group(8)", ""},
                                          {"bottleneck_kh(3)", ""}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int shares = 2; shares <= KAS_BLEND_SHARES; shares++)
            for (int share = 1; share < shares; share++) {
                const kas_kernel a = kernel_of(ends[i][0]), b = kernel_of(ends[i][1]);
                kas_kernel blend;
                if (strcmp(ends[i][1], "depthwise") == 0) {
                    OK(kas_blend(&a, &b, share, shares, &blend));
                    const kas_binding binding = kas_target_binding(&blend, &layer);
                    assert_int_equal(kas_kernel_check_binding(&blend, &binding), KAS_ILLEGAL);
                    continue; /* a share of depthwise outputs would read all inputs */
                }
                OK(kas_blend(&a, &b, share, shares, &blend));
                const double t = (double)share / shares;
                const double wanted = (1 - t) * params_of(&a) + t * params_of(&b);
                if (!(fabs(params_of(&blend) - wanted) <= 1e-9 * wanted))
                    fail_msg("%s, %s, %d of %d: %g parameters, not %g", ends[i][0], ends[i][1],
                             share, shares, params_of(&blend), wanted);
            }
}

TEST(what_cannot_be_blended)
{
    const kas_kernel conv = kernel_of(""), bands = kernel_of("bands_h(2)");
    kas_kernel involution, inside = kernel_of("group(2)"), out;
    assert_int_equal(kas_blend(&conv, &bands, 1, 2, &out), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "the second kernel does not end in a fully-connected map"));
    OK(kas_kernel_read_file("kernels/involution.json", &involution));
    assert_int_equal(kas_blend(&involution, &conv, 1, 2, &out), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "the first kernel"));
    inside.stride_inside = true;
    assert_int_equal(kas_blend(&conv, &inside, 1, 2, &out), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "only one of the kernels takes the stride"));
}

RUN_TESTS()
