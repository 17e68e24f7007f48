/* Every row of the table of primitives, asked at every stage: what docs/adding-a-primitive.md lists
 * and somebody forgot shows here, by the file that lacks it. */
#include "agree_fixture.h"
#include "host/check/plain.h"
#include "host/core/file/files.h"
#include "host/export/python.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/canvas/pair_ops.h"
#include "host/space/canvas/receptive_field.h"
#include "host/space/file/kernel_json.h"
#include "host/space/primitive.h"

static int missing;

static void lacks(int op, const char *where, const char *why)
{
    printf("primitive %s: %s: %s\n", kas_op_get((kas_op)op)->name, where, why);
    missing++;
}

/* Takes out the nodes that the last one does not need. */
static void keep_needed(kas_kernel *k)
{
    const kas_kernel all = *k;
    uint64_t needed = (uint64_t)1 << (all.nodes - 1) | 1;
    uint8_t number[KAS_MAX_NODES];
    for (int i = all.nodes - 1; i > 0; i--)
        for (int n = 0; (needed >> i & 1) && n < all.node[i].inputs; n++)
            needed |= (uint64_t)1 << all.node[i].in[n];
    k->nodes = 0;
    for (int i = 0; i < all.nodes; i++) {
        if (!(needed >> i & 1))
            continue;
        kas_node *node = &k->node[number[i] = (uint8_t)k->nodes++];
        *node = all.node[i];
        for (int n = 0; n < node->inputs; n++)
            node->in[n] = number[node->in[n]];
    }
    if (!kas_kernel_splits(k))
        k->split[0] = (kas_split){0};
}

/* Appends a use whose result still is an image. */
static bool append_use(kas_kernel *k, const kas_candidate_op *use, int op)
{
    if (use->op != op)
        return false;
    const int i = k->nodes++;
    kas_candidate_op_node(use, 0, &k->node[i]);
    if (kas_node_infer(k, i) == KAS_OK && kas_shape_has_image(&k->node[i].shape))
        return true;
    k->nodes--;
    return false;
}

static bool append_some_use(kas_kernel *k, int op)
{
    static kas_candidate_op use[KAS_MAX_CANDIDATE_OPS];
    const kas_op_filter filter = {
        .ops = KAS_OP_BIT(op), .kernels = 1, .dilations = 2, .shifts = 1 << (KAS_MAX_SHIFT + 1)};
    const kas_type type = kas_type_of(op);
    const int count = kas_list_candidate_ops(k, type, &filter, use);
    for (int u = 0; u < count; u++)
        if (append_use(k, &use[u], op))
            return true;
    const kas_operands pair = {.lhs = 0, .rhs = 0};
    for (int u = 0; type == KAS_TYPE_BMM && u < KAS_PRODUCTS; u++) {
        const kas_candidate_op product = kas_pair_op(type, &pair, u);
        if (append_use(k, &product, op))
            return true;
    }
    return false;
}

/* A kernel [C, H, W] -> ... op ... -> [C, H, W], whichever operands and attributes are legal. */
static bool kernel_with(int op, kas_kernel *k)
{
    *k = (kas_kernel){.group_value = {2}};
    const int x = kas_build_input(k), split = kas_build_split(k, "C", 2, 0);
    kas_build_group(k, x, 0, 0);
    for (int segment = 0; segment < 2; segment++)
        kas_build_slice(k, x, 0, split, segment);
    if (!append_some_use(k, op))
        return false;
    assert_true(kas_build_fc(k, k->nodes - 1, false, "C") > 0);
    keep_needed(k);
    OK(kas_kernel_infer(k));
    return true;
}

static void check_row(int op, const kas_kernel *k)
{
    const kas_primitive *row = kas_primitive_get(op);
    const kas_node *node = k->node;
    while (node->op != op)
        node++;
    const kas_shape *in = &k->node[node->in[0]].shape;
    if (kas_op_has_trait(op, KAS_TRAIT_SAME_SHAPE) && !kas_shape_equal(&node->shape, in))
        lacks(op, "space/primitives.c", "the row says SAME_SHAPE, and the shape differs");
    if (row->attributes && !kas_op_has_trait(op, KAS_TRAIT_SPATIAL)) {
        const kas_receptive_field own = {0}, *const operands[] = {&own, &own, &own, &own};
        const uint32_t window[2] = {3, 3};
        const kas_receptive_field field =
            kas_receptive_field_of(k, (int)(node - k->node), operands, window);
        if (kas_receptive_field_across(&field) != 1)
            lacks(op, "space/primitives.c",
                  "it looks at other pixels, and the row does not say so");
    }
}

static void check_texts(int op, const kas_kernel *k)
{
    kas_buf text = {0};
    kas_kernel again;
    char name[64];
    if (kas_kernel_write_json(k, NULL, &text) != KAS_OK ||
        kas_kernel_read_json("again", text.data, text.size, &again) != KAS_OK)
        lacks(op, "space/file/kernel_json_node.c", kas_error());
    kas_buf_clear(&text);
    if (kas_export_kernel_py(k, &text) != KAS_OK)
        lacks(op, "export/python_*.c", kas_error());
    static const char *const docs[] = {"docs/primitives.md", "docs/kernel-file.md"};
    snprintf(name, sizeof name, "`%s`", kas_op_get((kas_op)op)->name);
    for (int d = 0; d < 2; d++) {
        kas_buf_clear(&text);
        OK(kas_file_read(docs[d], 1 << 20, &text));
        if (!strstr(kas_buf_text(&text), name))
            lacks(op, docs[d], "it is not there");
    }
    kas_buf_free(&text);
}

/* Two counts of the same cost: by the row, and by the plain checker's own rule. */
static void check_cost(int op, const kas_kernel *k, const kas_binding *b)
{
    kas_plain_layer layer;
    kas_plain_tensor tensor[KAS_MAX_NODES];
    kas_plain_cost plain;
    kas_cost cost;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        layer.value[s] = b->value[s];
    if (kas_plain_nodes(k, &layer, tensor, &plain) != KAS_OK) {
        lacks(op, "check/plain_*.c", kas_error());
        return;
    }
    OK(kas_kernel_cost(k, b, &cost));
    if (plain.flops != cost.flops || plain.params != cost.params)
        lacks(op, "check/plain_*.c or space/primitives.c", "they count different FLOPs or weights");
}

/* The reference's gradient against finite differences, and generated code against the reference. */
static void check_values(int op, const kas_kernel *k, const kas_target *t, const kas_binding *b)
{
    const kas_agree_options options = {.batch = 2, .seed = 1, .directions = 2};
    kas_agreement result;
    if (kas_agree(device, compiler[0], k, t, b, 1, &options, &result) != KAS_OK) {
        lacks(op, "reference/kernel or jit/lower", kas_error());
        return;
    }
    if (result.verdict != KAS_AGREE_OK)
        lacks(op, "reference/kernel/eval_*.c, jit/lower/lower_*.c",
              "they compute different values");
    record(&result, kas_op_get((kas_op)op)->name, t);
}

TEST(test_every_primitive)
{
    const kas_target t = make_target(settings[0]);
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++) {
        kas_kernel k;
        kas_binding b = make_binding(&t);
        if (!kas_op_get((kas_op)op)->name || !kas_primitive_get(op)->infer)
            fail_msg("primitive number %d has no row in space/primitives.c", op);
        if (!kernel_with(op, &k)) {
            lacks(op, "space/canvas/candidate_ops.c", "the sampler lists no legal use of it");
            continue;
        }
        kas_splits_bind(&k, &b);
        check_row(op, &k);
        check_texts(op, &k);
        check_cost(op, &k, &b);
        check_values(op, &k, &t, &b);
    }
    assert_int_equal(missing, 0);
}

RUN_TESTS(set_up, tear_down)
