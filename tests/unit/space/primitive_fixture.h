/* Checks for every primitive: its rules, weight, cost, text in all forms, and its gradient. */
#ifndef KAS_TESTS_UNIT_SPACE_PRIMITIVE_FIXTURE_H
#define KAS_TESTS_UNIT_SPACE_PRIMITIVE_FIXTURE_H

#include "host/export/python_node.h"
#include "host/space/canonical.h"
#include "host/space/canvas/prune.h"
#include "host/space/describe.h"
#include "host/space/file/kernel_json.h"
#include "host/space/weights.h"
#include "unit/reference/reference_fixture.h"

static inline void assert_refused(int node, const char *words)
{
    assert_int_equal(node, -1);
    if (!strstr(kas_error(), words))
        fail_msg("\"%s\" is missing in \"%s\"", words, kas_error());
}

static inline void assert_shape(const kas_kernel *k, int node, const char *shape)
{
    kas_buf text = {0};
    if (node < 0)
        fail_msg("%s", kas_error());
    kas_shape_print(&k->node[node].shape, &text);
    assert_string_equal(kas_buf_text(&text), shape);
    kas_buf_free(&text);
}

/* [8, 5, 7], K_H = 3, K_W = 5, G0 = 2, every variable 6. */
static inline kas_binding primitive_binding(void)
{
    kas_binding b = {.value = {8, 5, 7, 3, 5, [KAS_SYM_G0] = 2}};
    for (int v = KAS_SYM_X0; v < KAS_SYM_COUNT; v++)
        b.value[v] = 6;
    return b;
}

static inline void assert_weight(const kas_kernel *k, int node, uint32_t groups, uint32_t fan_out,
                                 uint32_t fan_in, kas_weight_init init)
{
    const kas_binding b = primitive_binding();
    kas_weight_sizes sizes;
    OK(kas_weight_sizes_at(k, node, &b, &sizes));
    assert_int_equal(sizes.groups, groups);
    assert_int_equal(sizes.fan_out, fan_out);
    assert_int_equal(sizes.fan_in, fan_in);
    assert_int_equal(sizes.init, init);
}

static inline void assert_cost(const kas_kernel *k, double flops, double params)
{
    const kas_binding b = primitive_binding();
    kas_cost cost;
    assert_int_equal(kas_kernel_cost(k, &b, &cost), KAS_OK);
    assert_true(cost.flops == flops);
    assert_true(cost.params == params);
}

/* Checks the canonical text, and that the kernel comes back from its file. */
static inline void assert_round_trip(kas_kernel *k, const char *canonical)
{
    kas_kernel again;
    kas_buf json = {0}, text = {0}, text_again = {0};
    OK(kas_kernel_infer(k));
    OK(kas_kernel_write_json(k, NULL, &json));
    OK(kas_kernel_read_json("again", json.data, json.size, &again));
    assert_int_equal(kas_kernel_canonical_text(k, &text), KAS_OK);
    assert_int_equal(kas_kernel_canonical_text(&again, &text_again), KAS_OK);
    assert_string_equal(kas_buf_text(&text), canonical);
    assert_string_equal(kas_buf_text(&text_again), canonical);
    kas_buf_free(&json);
    kas_buf_free(&text);
    kas_buf_free(&text_again);
}

/* Checks whether the sampler leaves the node out as redundant. */
static inline void assert_redundant(const kas_kernel *k, int node, bool redundant)
{
    if (node < 0)
        fail_msg("%s", kas_error());
    if (kas_prune_node(k, node) != redundant)
        fail_msg("node %d is %sredundant", node, redundant ? "not " : "");
}

static inline void assert_says(const kas_kernel *k, int node, const char *words)
{
    kas_buf text = {0};
    kas_node_describe(k, node, &text);
    assert_string_equal(kas_buf_text(&text), words);
    kas_buf_free(&text);
}

static inline void assert_python(const kas_kernel *k, int node, const char *statement)
{
    kas_buf text = {0};
    assert_int_equal(kas_python_node(k, node, 0, &text), KAS_OK);
    if (!strstr(kas_buf_text(&text), statement))
        fail_msg("\"%s\" is missing in\n%s", statement, kas_buf_text(&text));
    kas_buf_free(&text);
}

/* Checks the reference's gradient against finite differences, at [4, 3, 4] with two parts in. */
static inline void assert_differentiates(const char *name, int (*build)(kas_kernel *k, int x))
{
    static fixture f;
    double worst = NAN;
    fixture_target(&f, 4, 3, 4, 3, 3);
    fixture_parts(&f, 2, 1);
    f.batch = 2;
    fixture_create(&f, build(&f.kernel, kas_build_input(&f.kernel)));
    fd_random(f.x, f.x_size, 50);
    fd_random(f.dy, f.y_size, 51);
    for (int i = 0; i < kas_reference_weights(f.ref); i++)
        fd_random(f.weight[i], kas_reference_weight_size(f.ref, i), 52 + (uint64_t)i);
    const double *weight[FIXTURE_WEIGHTS] = {f.weight[0], f.weight[1], f.weight[2], f.weight[3]};
    assert_int_equal(kas_reference_check_gradient(f.ref, f.x, weight, f.dy, 4, 3, &worst), KAS_OK);
    assert_true(fd_within(name, worst, 1e-6));
    fixture_free(&f);
}

#endif
