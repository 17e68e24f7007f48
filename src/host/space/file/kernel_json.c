#include "host/space/file/kernel_json.h"

#include <stdio.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/json/json.h"
#include "host/space/file/kernel_json_node.h"
#include "host/space/primitive.h"

enum {
    MAX_BYTES = 256 << 10,
    MAX_DEPTH = 8,
    MAX_ABOUT = 4096,
    MAX_TARGETS = 1024,
    MAX_GROUP_VALUE = 1 << 16
};

static kas_status read_nodes(const char *name, const cJSON *root, kas_kernel *kernel)
{
    const cJSON *list, *item;
    KAS_TRY(kas_json_array(root, name, "nodes", &list));
    int count = cJSON_GetArraySize(list), i = 0;
    if (count < 2 || count > KAS_MAX_NODES)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"nodes\": expected 2 to %d nodes, found %d",
                        name, KAS_MAX_NODES, count);
    cJSON_ArrayForEach(item, list)
    {
        KAS_TRY(kas_kernel_read_node(name, item, i, &kernel->node[i]));
        i++;
    }
    kernel->nodes = count;
    return KAS_OK;
}

static uint32_t groups_in(const kas_dim *dim)
{
    uint32_t groups = 0;
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (dim->exp[KAS_SYM_G0 + g] != 0)
            groups |= 1u << g;
    return groups;
}

static uint32_t groups_used(const kas_kernel *kernel)
{
    uint32_t used = 0;
    for (int i = 0; i < kernel->nodes; i++) {
        if (kas_primitive_get(kernel->node[i].op)->attributes & KAS_ATTR_SYMBOL)
            used |= 1u << kernel->node[i].symbol;
        if (kas_node_has_out(&kernel->node[i]))
            used |= groups_in(&kernel->node[i].out);
    }
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        used |= groups_in(&kernel->split[s].whole);
    return used;
}

/* Reads the group values: exactly the symbols in use must have one. */
static kas_status read_groups(const char *name, const cJSON *root, kas_kernel *kernel)
{
    const cJSON *groups = NULL, *item;
    char where[256];
    uint32_t used = groups_used(kernel);
    snprintf(where, sizeof where, "%.200s: groups", name);
    if (kas_json_has(root, "groups"))
        KAS_TRY(kas_json_object(root, name, "groups", &groups));
    cJSON_ArrayForEach(item, groups)
    {
        int64_t value;
        int g = kas_symbol_find(item->string) - KAS_SYM_G0;
        if (g < 0 || g >= KAS_MAX_GROUPS || !(used & (1u << g)))
            return kas_fail(KAS_BAD_INPUT, "%s: no node uses \"%.40s\"", where, item->string);
        KAS_TRY(kas_json_int(groups, where, item->string, 2, MAX_GROUP_VALUE, &value));
        kernel->group_value[g] = (uint32_t)value;
    }
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if ((used & (1u << g)) && kernel->group_value[g] == 0)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: \"G%d\" is used but has no value; add it, for example \"groups\": "
                            "{\"G%d\": 4}",
                            where, g, g);
    return KAS_OK;
}

/* Checks the values that a solver once chose. They are not used, because a kernel is solved for the
 * network at hand, but a damaged file is not accepted. */
static kas_status check_targets(const char *name, const cJSON *root)
{
    const cJSON *list, *target, *item;
    char where[256];
    int64_t value;
    if (!kas_json_has(root, "targets"))
        return KAS_OK;
    KAS_TRY(kas_json_array(root, name, "targets", &list));
    if (cJSON_GetArraySize(list) > MAX_TARGETS)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"targets\": at most %d are allowed", name,
                        MAX_TARGETS);
    snprintf(where, sizeof where, "%.200s: targets", name);
    cJSON_ArrayForEach(target, list)
    {
        if (!cJSON_IsObject(target))
            return kas_fail(KAS_BAD_INPUT, "%s: expected objects", where);
        cJSON_ArrayForEach(item, target)
        {
            if (kas_symbol_find(item->string) < 0)
                return kas_fail(KAS_BAD_INPUT, "%s: unknown symbol \"%.40s\"", where, item->string);
            KAS_TRY(kas_json_int(target, where, item->string, 1, UINT32_MAX, &value));
        }
    }
    return KAS_OK;
}

kas_status kas_kernel_read_version(const char *name, const cJSON *root)
{
    int64_t version;
    KAS_TRY(kas_json_int(root, name, "version", 1, KAS_KERNEL_FORMAT_GAINS, &version));
    if (version < KAS_KERNEL_FORMAT_GAINS && kas_json_has(root, "gains"))
        return kas_fail(KAS_BAD_INPUT, "%s: field \"gains\": expected \"version\": %d, found %d",
                        name, KAS_KERNEL_FORMAT_GAINS, (int)version);
    return KAS_OK;
}

static kas_status read_header(const char *name, const cJSON *root)
{
    static const char *const fields[] = {"format", "version", "about",   "nodes", "groups",
                                         "splits", "stride",  "targets", "gains", NULL};
    const char *text;
    if (!cJSON_IsObject(root))
        return kas_fail(KAS_BAD_INPUT, "%s: expected a JSON object", name);
    KAS_TRY(kas_json_string(root, name, "format", &text)); /* first: what kind of file it is */
    if (strcmp(text, KAS_KERNEL_FORMAT) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"format\": expected \"%s\", found \"%.40s\"",
                        name, KAS_KERNEL_FORMAT, text);
    KAS_TRY(kas_json_only(root, name, fields));
    KAS_TRY(kas_kernel_read_version(name, root));
    if (!kas_json_has(root, "about"))
        return KAS_OK;
    KAS_TRY(kas_json_string(root, name, "about", &text));
    if (strlen(text) > MAX_ABOUT)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"about\": longer than %d bytes", name,
                        MAX_ABOUT);
    return KAS_OK;
}

static kas_status read_stride(const char *name, const cJSON *root, kas_kernel *kernel)
{
    const char *text;
    if (!kas_json_has(root, "stride"))
        return KAS_OK;
    KAS_TRY(kas_json_string(root, name, "stride", &text));
    if (strcmp(text, "inside") != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"stride\": expected \"inside\" or no such field, found "
                        "\"%.40s\"",
                        name, text);
    kernel->stride_inside = true;
    return KAS_OK;
}

kas_status kas_kernel_read_object(const char *name, const cJSON *root, kas_kernel *kernel)
{
    KAS_TRY(read_header(name, root));
    KAS_TRY(read_nodes(name, root, kernel));
    KAS_TRY(kas_kernel_read_splits(name, root, kernel));
    KAS_TRY(read_stride(name, root, kernel));
    KAS_TRY(read_groups(name, root, kernel));
    KAS_TRY(check_targets(name, root));
    if (kas_kernel_infer(kernel) != KAS_OK)
        return kas_fail_context(KAS_BAD_INPUT, "%.200s", name);
    return KAS_OK;
}

kas_status kas_kernel_read_json(const char *name, const char *text, size_t size, kas_kernel *out)
{
    kas_gains gains;
    KAS_TRY(kas_kernel_read_json_gains(name, text, size, out, &gains));
    kas_gains_free(&gains);
    return KAS_OK;
}

kas_status kas_kernel_read_json_gains(const char *name, const char *text, size_t size,
                                      kas_kernel *out, kas_gains *gains)
{
    const kas_json_limits limits = {.bytes = MAX_BYTES, .depth = MAX_DEPTH};
    kas_kernel kernel = {0};
    cJSON *root;
    KAS_TRY(kas_json_parse(name, text, size, limits, &root));
    kas_status status = kas_kernel_read_object(name, root, &kernel);
    if (status == KAS_OK)
        status = kas_gains_read(name, root, gains);
    cJSON_Delete(root);
    if (status == KAS_OK)
        *out = kernel;
    return status;
}

kas_status kas_kernel_read_file(const char *path, kas_kernel *out)
{
    kas_buf text = {0};
    kas_status status = kas_file_read(path, MAX_BYTES, &text);
    if (status == KAS_OK)
        status = kas_kernel_read_json(path, kas_buf_text(&text), text.size, out);
    kas_buf_free(&text);
    return status;
}
