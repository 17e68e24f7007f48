#include "host/space/file/kernel_json_node.h"

#include <stdio.h>
#include <string.h>

#include "host/core/json/json.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

const char *kas_axes_name(uint8_t axes)
{
    return axes == KAS_AXIS_H ? "h" : axes == KAS_AXIS_W ? "w" : "hw";
}

const char *kas_transpose_name(uint8_t transpose)
{
    static const char *const name[4] = {"none", "lhs", "rhs", "both"};
    return name[transpose & 3];
}

static kas_status read_op(const cJSON *item, const char *where, int *op)
{
    const char *text;
    KAS_TRY(kas_json_string(item, where, "op", &text));
    for (*op = 0; *op < KAS_OP_COUNT; ++*op)
        if (strcmp(kas_op_get((kas_op)*op)->name, text) == 0)
            return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "%s: unknown primitive \"%.40s\"; docs/kernel-file.md lists the primitives",
                    where, text);
}

static kas_status read_operands(const cJSON *item, const char *where, int i, kas_node *node)
{
    const cJSON *list;
    if (node->inputs == 0)
        return KAS_OK;
    KAS_TRY(kas_json_array(item, where, "in", &list));
    const int count = cJSON_GetArraySize(list);
    if (kas_op_has_trait(node->op, KAS_TRAIT_VARIADIC) && count >= node->inputs &&
        count <= KAS_MAX_INPUTS)
        node->inputs = (uint8_t)count;
    if (count != node->inputs)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"in\": expected %d node number%s, found %d",
                        where, node->inputs, node->inputs == 1 ? "" : "s", count);
    for (int k = 0; k < node->inputs; k++) {
        const cJSON *number = cJSON_GetArrayItem(list, k);
        double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
        if (!(value >= 0 && value < i) || value != (double)(int)value)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: field \"in\": expected numbers of earlier nodes, in [0, %d]",
                            where, i - 1);
        node->in[k] = (uint8_t)value;
    }
    return KAS_OK;
}

static kas_status read_axes(const cJSON *item, const char *where, kas_node *node)
{
    const char *text;
    KAS_TRY(kas_json_string(item, where, "axes", &text));
    for (uint8_t axes = 1; axes <= 3; axes++)
        if (strcmp(text, kas_axes_name(axes)) == 0) {
            node->axes = axes;
            return KAS_OK;
        }
    return kas_fail(KAS_BAD_INPUT,
                    "%s: field \"axes\": expected \"h\", \"w\" or \"hw\", found \"%.40s\"", where,
                    text);
}

static kas_status read_group_symbol(const cJSON *item, const char *where, kas_node *node)
{
    const char *text;
    KAS_TRY(kas_json_string(item, where, "by", &text));
    int symbol = kas_symbol_find(text);
    if (symbol < KAS_SYM_G0 || symbol >= KAS_SYM_X0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"by\": expected \"G0\" to \"G%d\", found \"%.40s\"", where,
                        KAS_MAX_GROUPS - 1, text);
    node->symbol = (uint8_t)(symbol - KAS_SYM_G0);
    return KAS_OK;
}

static kas_status read_split_name(const cJSON *item, const char *where, kas_node *node)
{
    const char *text;
    KAS_TRY(kas_json_string(item, where, "split", &text));
    const int split = kas_split_find(text);
    if (split < 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"split\": expected \"S0\" to \"S%d\", found \"%.40s\"", where,
                        KAS_MAX_SPLITS - 1, text);
    node->split = (uint8_t)split;
    return KAS_OK;
}

/* Reads an optional flag: false when the field is not there. */
static kas_status read_flag(const cJSON *item, const char *where, const char *field, uint8_t *out)
{
    const cJSON *flag = cJSON_GetObjectItemCaseSensitive(item, field);
    if (flag && !cJSON_IsBool(flag))
        return kas_fail(KAS_BAD_INPUT, "%s: field \"%s\": expected true or false", where, field);
    *out = flag && cJSON_IsTrue(flag);
    return KAS_OK;
}

static kas_status read_product(const cJSON *item, const char *where, kas_node *node)
{
    const char *text = kas_transpose_name(0);
    KAS_TRY(read_flag(item, where, "softmax", &node->softmax));
    if (kas_json_has(item, "transpose"))
        KAS_TRY(kas_json_string(item, where, "transpose", &text));
    for (uint8_t transpose = 0; transpose < 4; transpose++)
        if (strcmp(text, kas_transpose_name(transpose)) == 0) {
            node->transpose = transpose;
            return KAS_OK;
        }
    return kas_fail(KAS_BAD_INPUT,
                    "%s: field \"transpose\": expected \"lhs\", \"rhs\", \"both\" or \"none\", "
                    "found \"%.40s\"",
                    where, text);
}

/* `grouped` was refused before where it is no attribute. */
static kas_status read_map(const cJSON *item, const char *where, kas_node *node)
{
    const char *text;
    KAS_TRY(read_flag(item, where, "grouped", &node->grouped));
    KAS_TRY(kas_json_string(item, where, "out", &text));
    if (!kas_dim_parse(text, &node->out))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"out\": expected a size such as \"C\", \"x0\", \"G0*K_H\" or "
                        "\"C/G0\", found \"%.40s\"",
                        where, text);
    return KAS_OK;
}

/* Reads optional fields of a window: 0 stays when a field is not there. */
static kas_status read_window(const cJSON *item, const char *where, unsigned attributes,
                              kas_node *node)
{
    int64_t value;
    if ((attributes & KAS_ATTR_KERNEL) && kas_json_has(item, "kernel")) {
        KAS_TRY(kas_json_int(item, where, "kernel", 3, KAS_MAX_WINDOW, &value));
        node->kernel = (uint8_t)value;
    }
    if ((attributes & KAS_ATTR_DILATION) && kas_json_has(item, "dilation")) {
        KAS_TRY(kas_json_int(item, where, "dilation", 1, KAS_MAX_DILATION, &value));
        node->dilation = (uint8_t)value;
    }
    return KAS_OK;
}

static kas_status read_attributes(const cJSON *item, const char *where, kas_node *node)
{
    unsigned attributes = kas_primitive_get(node->op)->attributes;
    int64_t value;
    if (attributes & KAS_ATTR_DIM) {
        KAS_TRY(kas_json_int(item, where, "dim", 0, KAS_MAX_DIMS - 1, &value));
        node->dim = (int8_t)value;
    }
    if (attributes & KAS_ATTR_DIM_END) {
        KAS_TRY(kas_json_int(item, where, "dim_end", 1, KAS_MAX_DIMS, &value));
        node->dim_end = (int8_t)value;
    }
    if (attributes & KAS_ATTR_AXES)
        KAS_TRY(read_axes(item, where, node));
    if (attributes & KAS_ATTR_OFFSET) {
        KAS_TRY(kas_json_int(item, where, "offset", -KAS_MAX_SHIFT, KAS_MAX_SHIFT, &value));
        node->offset = (int8_t)value;
    }
    KAS_TRY(read_window(item, where, attributes, node));
    if (attributes & KAS_ATTR_SPLIT)
        KAS_TRY(read_split_name(item, where, node));
    if (attributes & KAS_ATTR_SEGMENT) {
        KAS_TRY(kas_json_int(item, where, "segment", 0, KAS_MAX_SHARES - 1, &value));
        node->segment = (uint8_t)value;
    }
    if (attributes & KAS_ATTR_SYMBOL)
        KAS_TRY(read_group_symbol(item, where, node));
    if (attributes & KAS_ATTR_PRODUCT)
        KAS_TRY(read_product(item, where, node));
    return attributes & KAS_ATTR_OUT ? read_map(item, where, node) : KAS_OK;
}

enum { MAX_FIELDS = 16 };

/* Lists the fields that a node of this primitive may have. */
static void allowed_fields(const kas_node *node, const char *list[MAX_FIELDS])
{
    unsigned attributes = kas_primitive_get(node->op)->attributes;
    int n = 0;
    list[n++] = "op";
    if (node->inputs)
        list[n++] = "in";
    if (attributes & KAS_ATTR_DIM)
        list[n++] = "dim";
    if (attributes & KAS_ATTR_DIM_END)
        list[n++] = "dim_end";
    if (attributes & KAS_ATTR_AXES)
        list[n++] = "axes";
    if (attributes & KAS_ATTR_OFFSET)
        list[n++] = "offset";
    if (attributes & KAS_ATTR_KERNEL)
        list[n++] = "kernel";
    if (attributes & KAS_ATTR_DILATION)
        list[n++] = "dilation";
    if (attributes & KAS_ATTR_SPLIT)
        list[n++] = "split";
    if (attributes & KAS_ATTR_SEGMENT)
        list[n++] = "segment";
    if (attributes & KAS_ATTR_SYMBOL)
        list[n++] = "by";
    if (attributes & KAS_ATTR_GROUPED)
        list[n++] = "grouped";
    if (attributes & KAS_ATTR_PRODUCT) {
        list[n++] = "transpose";
        list[n++] = "softmax";
    }
    if (attributes & KAS_ATTR_OUT)
        list[n++] = "out";
    list[n] = NULL;
}

kas_status kas_kernel_read_node(const char *name, const cJSON *item, int i, kas_node *node)
{
    char where[256];
    const char *fields[MAX_FIELDS];
    int op;
    snprintf(where, sizeof where, "%.200s: node %d", name, i);
    if (!cJSON_IsObject(item))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an object", where);
    KAS_TRY(read_op(item, where, &op));
    *node = (kas_node){.op = (uint8_t)op, .inputs = kas_op_get((kas_op)op)->inputs};
    if ((op == KAS_OP_INPUT) != (i == 0))
        return kas_fail(KAS_BAD_INPUT, "%s: node 0 and only node 0 is the \"input\"", where);
    allowed_fields(node, fields);
    KAS_TRY(kas_json_only(item, where, fields));
    KAS_TRY(read_operands(item, where, i, node));
    return read_attributes(item, where, node);
}
