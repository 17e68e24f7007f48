/* cuDNN's graph interface: descriptors with attributes, and what is made of them.
 *
 * Four patterns are taken: a convolution, its backward data, its backward weights, and a
 * convolution with pointwise operations behind it, one after the other.  Every attribute must have
 * the type and number of values that cuDNN documents. */
#include <math.h>
#include <string.h>

#include "sim_dnn.h"

enum { BAD_POINTER = 2003, NOT_FINALIZED = 2004, INTERNAL_ERROR = 4000, ROOM = 64 };

/* The attributes that may be set: of which descriptor, which one, how many values. */
typedef struct rule {
    int32_t kind, name, type;
    int64_t least, most;
} rule;

#define CONV_RULES(kind, first)                                                                    \
    {(kind), (first), KAS_DNN_TYPE_FLOAT, 1, 1}, {(kind), (first) + 1, KAS_DNN_TYPE_FLOAT, 1, 1},  \
        {(kind), (first) + 2, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},                                      \
        {(kind), (first) + 3, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},                                      \
        {(kind), (first) + 4, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},                                      \
    {                                                                                              \
        (kind), (first) + 5, KAS_DNN_TYPE_DESCRIPTOR, 1, 1                                         \
    }

#define POINTWISE_RULE(name)                                                                       \
    {                                                                                              \
        KAS_DNN_OPERATION_POINTWISE, (name), KAS_DNN_TYPE_DESCRIPTOR, 1, 1                         \
    }

static const rule rules[] = {
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_ALIGNMENT, KAS_DNN_TYPE_INT64, 1, 1},
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_DATA_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1, 1},
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_DIMENSIONS, KAS_DNN_TYPE_INT64, 4, 4},
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_STRIDES, KAS_DNN_TYPE_INT64, 4, 4},
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_UNIQUE_ID, KAS_DNN_TYPE_INT64, 1, 1},
    {KAS_DNN_TENSOR, KAS_DNN_TENSOR_IS_VIRTUAL, KAS_DNN_TYPE_BOOL, 1, 1},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_COMPUTE_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1, 1},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_MODE, KAS_DNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_DILATIONS, KAS_DNN_TYPE_INT64, 2, 2},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_STRIDES, KAS_DNN_TYPE_INT64, 2, 2},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_POST_PADDINGS, KAS_DNN_TYPE_INT64, 2, 2},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_PRE_PADDINGS, KAS_DNN_TYPE_INT64, 2, 2},
    {KAS_DNN_CONVOLUTION, KAS_DNN_CONVOLUTION_SPATIAL_DIMS, KAS_DNN_TYPE_INT64, 1, 1},
    CONV_RULES(KAS_DNN_FORWARD, KAS_DNN_FORWARD_ALPHA),
    CONV_RULES(KAS_DNN_BACKWARD_DATA, KAS_DNN_DATA_ALPHA),
    CONV_RULES(KAS_DNN_BACKWARD_FILTER, KAS_DNN_FILTER_ALPHA),
    {KAS_DNN_POINTWISE, KAS_DNN_POINTWISE_MODE, KAS_DNN_TYPE_POINTWISE_MODE, 1, 1},
    {KAS_DNN_POINTWISE, KAS_DNN_POINTWISE_COMPUTE_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1, 1},
    {KAS_DNN_POINTWISE, KAS_DNN_POINTWISE_NAN_PROPAGATION, KAS_DNN_TYPE_NAN_PROPAGATION, 1, 1},
    {KAS_DNN_POINTWISE, KAS_DNN_POINTWISE_UPPER_CLIP, KAS_DNN_TYPE_FLOAT, 1, 1},
    {KAS_DNN_POINTWISE, KAS_DNN_POINTWISE_SWISH_BETA, KAS_DNN_TYPE_FLOAT, 1, 1},
    POINTWISE_RULE(KAS_DNN_OPERATION_POINTWISE_POINTWISE),
    POINTWISE_RULE(KAS_DNN_OPERATION_POINTWISE_X),
    POINTWISE_RULE(KAS_DNN_OPERATION_POINTWISE_B),
    POINTWISE_RULE(KAS_DNN_OPERATION_POINTWISE_Y),
    {KAS_DNN_GRAPH, KAS_DNN_GRAPH_HANDLE, KAS_DNN_TYPE_HANDLE, 1, 1},
    {KAS_DNN_GRAPH, KAS_DNN_GRAPH_OPERATIONS, KAS_DNN_TYPE_DESCRIPTOR, 1, 8},
    {KAS_DNN_HEURISTICS, KAS_DNN_HEURISTICS_GRAPH, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},
    {KAS_DNN_HEURISTICS, KAS_DNN_HEURISTICS_MODE, KAS_DNN_TYPE_HEURISTICS_MODE, 1, 1},
    {KAS_DNN_ENGINE, KAS_DNN_ENGINE_GRAPH, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},
    {KAS_DNN_ENGINE, KAS_DNN_ENGINE_INDEX, KAS_DNN_TYPE_INT64, 1, 1},
    {KAS_DNN_KNOB_CHOICE, KAS_DNN_KNOB_TYPE, KAS_DNN_TYPE_KNOB, 1, 1},
    {KAS_DNN_KNOB_CHOICE, KAS_DNN_KNOB_VALUE, KAS_DNN_TYPE_INT64, 1, 1},
    {KAS_DNN_ENGINE_CONFIG, KAS_DNN_CONFIG_ENGINE, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},
    {KAS_DNN_ENGINE_CONFIG, KAS_DNN_CONFIG_KNOBS, KAS_DNN_TYPE_DESCRIPTOR, 1, ROOM},
    {KAS_DNN_PLAN, KAS_DNN_PLAN_HANDLE, KAS_DNN_TYPE_HANDLE, 1, 1},
    {KAS_DNN_PLAN, KAS_DNN_PLAN_CONFIG, KAS_DNN_TYPE_DESCRIPTOR, 1, 1},
    {KAS_DNN_VARIANT_PACK, KAS_DNN_PACK_UNIQUE_IDS, KAS_DNN_TYPE_INT64, 1, ROOM},
    {KAS_DNN_VARIANT_PACK, KAS_DNN_PACK_POINTERS, KAS_DNN_TYPE_POINTER, 1, ROOM},
    {KAS_DNN_VARIANT_PACK, KAS_DNN_PACK_WORKSPACE, KAS_DNN_TYPE_POINTER, 1, 1},
};

typedef struct attribute {
    struct attribute *next;
    int32_t name;
    int64_t count;
    char values[];
} attribute;

typedef struct descriptor {
    int32_t kind;
    bool finalized;
    attribute *first;
    /* Made by finalize, or by cuDNN itself */
    sim_conv conv;            /* GRAPH, ENGINE, ENGINE_CONFIG, PLAN */
    const sim_engine *engine; /* ENGINE, ENGINE_CONFIG, PLAN; of the tile when it has one */
    int64_t tile;             /* KNOB_CHOICE, ENGINE_CONFIG */
    bool fallback;            /* HEURISTICS */
} descriptor;

static size_t size_of(int32_t type)
{
    switch (type) {
    case KAS_DNN_TYPE_DATA_TYPE:
    case KAS_DNN_TYPE_CONVOLUTION_MODE:
    case KAS_DNN_TYPE_HEURISTICS_MODE:
    case KAS_DNN_TYPE_KNOB:
    case KAS_DNN_TYPE_POINTWISE_MODE:
    case KAS_DNN_TYPE_NAN_PROPAGATION:
    case KAS_DNN_TYPE_FLOAT:
        return 4;
    case KAS_DNN_TYPE_BOOL:
        return sizeof(bool);
    default:
        return 8;
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const attribute *find(const descriptor *d, int32_t name)
{
    const attribute *a = d->first;
    while (a && a->name != name)
        a = a->next;
    return a;
}

/* Returns the values of an attribute that must be there; NULL when it is not. */
static const void *values(const descriptor *d, int32_t name)
{
    const attribute *a = find(d, name);
    return a ? a->values : NULL;
}

static bool read_into(const descriptor *d, int32_t name, void *to, size_t bytes)
{
    const void *from = values(d, name);
    if (from)
        memcpy(to, from, bytes);
    return from != NULL;
}

/* Returns another descriptor, which must be of a kind and finalized. */
static const descriptor *part(const descriptor *d, int32_t name, int32_t kind)
{
    descriptor *const *other = values(d, name);
    return other && *other && (*other)->kind == kind && (*other)->finalized ? *other : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    SIM_CALL(cudnnBackendCreateDescriptor, KAS_CUDNN_ALLOCATION_FAILED, 0);
    descriptor *d = sim_new(sizeof *d);
    d->kind = type;
    sim_live++;
    *out = d;
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t desc)
{
    SIM_LOCKED();
    descriptor *d = desc;
    for (attribute *a = d->first; a;) {
        attribute *next = a->next;
        free(a);
        a = next;
    }
    free(d);
    sim_live--;
    return sim_call("cudnnBackendDestroyDescriptor", INTERNAL_ERROR, 0);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *from)
{
    SIM_CALL(cudnnBackendSetAttribute, INTERNAL_ERROR, 0);
    descriptor *d = desc;
    const rule *r = rules, *end = rules + sizeof rules / sizeof *rules;
    while (r < end && (r->kind != d->kind || r->name != name))
        r++;
    if (r == end || r->type != type || count < r->least || count > r->most || d->finalized ||
        find(d, name))
        return KAS_CUDNN_BAD_PARAM;
    const size_t bytes = size_of(type) * (size_t)count;
    attribute *a = sim_new(sizeof *a + bytes);
    *a = (attribute){d->first, name, count};
    memcpy(a->values, from, bytes);
    d->first = a;
    return KAS_CUDNN_SUCCESS;
}

/* ---- finalize: each kind from its attributes ------------------------------------------------- */

static bool good_tensor(const descriptor *d, sim_tensor *t)
{
    if (!read_into(d, KAS_DNN_TENSOR_DIMENSIONS, t->size, sizeof t->size) ||
        !read_into(d, KAS_DNN_TENSOR_STRIDES, t->stride, sizeof t->stride) ||
        !read_into(d, KAS_DNN_TENSOR_UNIQUE_ID, &t->id, sizeof t->id) ||
        !read_into(d, KAS_DNN_TENSOR_ALIGNMENT, &t->alignment, sizeof t->alignment) ||
        !read_into(d, KAS_DNN_TENSOR_DATA_TYPE, &t->type, sizeof t->type))
        return false;
    t->is_virtual = false;
    read_into(d, KAS_DNN_TENSOR_IS_VIRTUAL, &t->is_virtual, sizeof t->is_virtual);
    for (int i = 0; i < 4; i++)
        if (t->size[i] < 1 || t->stride[i] < 1)
            return false;
    return t->alignment >= 1 &&
           (t->type == KAS_CUDNN_DATA_FLOAT || t->type == KAS_CUDNN_DATA_HALF ||
            t->type == KAS_CUDNN_DATA_BFLOAT16);
}

static bool good_convolution(const descriptor *d, sim_conv *c)
{
    int64_t dims, post[2];
    int32_t compute, mode;
    return read_into(d, KAS_DNN_CONVOLUTION_SPATIAL_DIMS, &dims, sizeof dims) && dims == 2 &&
           read_into(d, KAS_DNN_CONVOLUTION_COMPUTE_TYPE, &compute, sizeof compute) &&
           compute == KAS_CUDNN_DATA_FLOAT &&
           read_into(d, KAS_DNN_CONVOLUTION_MODE, &mode, sizeof mode) &&
           mode == KAS_CUDNN_CROSS_CORRELATION &&
           read_into(d, KAS_DNN_CONVOLUTION_PRE_PADDINGS, c->pad, sizeof c->pad) &&
           read_into(d, KAS_DNN_CONVOLUTION_POST_PADDINGS, post, sizeof post) &&
           memcmp(post, c->pad, sizeof post) == 0 &&
           read_into(d, KAS_DNN_CONVOLUTION_STRIDES, c->stride, sizeof c->stride) &&
           read_into(d, KAS_DNN_CONVOLUTION_DILATIONS, c->dilation, sizeof c->dilation);
}

/* Names of an operation's attributes: alpha, beta, convolution, then the tensors in an order that
 * each pass has for itself. */
static bool good_operation(const descriptor *d, sim_conv *c)
{
    static const struct {
        int32_t first, x, w, y;
    } names[3] = {
        [SIM_FORWARD] = {KAS_DNN_FORWARD_ALPHA, KAS_DNN_FORWARD_X, KAS_DNN_FORWARD_W,
                         KAS_DNN_FORWARD_Y},
        [SIM_DATA] = {KAS_DNN_DATA_ALPHA, KAS_DNN_DATA_DX, KAS_DNN_DATA_W, KAS_DNN_DATA_DY},
        [SIM_FILTER] = {KAS_DNN_FILTER_ALPHA, KAS_DNN_FILTER_X, KAS_DNN_FILTER_DW,
                        KAS_DNN_FILTER_DY},
    };
    c->pass = d->kind == KAS_DNN_FORWARD         ? SIM_FORWARD
              : d->kind == KAS_DNN_BACKWARD_DATA ? SIM_DATA
                                                 : SIM_FILTER;
    const int32_t first = names[c->pass].first;
    const descriptor *x = part(d, names[c->pass].x, KAS_DNN_TENSOR),
                     *w = part(d, names[c->pass].w, KAS_DNN_TENSOR),
                     *y = part(d, names[c->pass].y, KAS_DNN_TENSOR),
                     *convolution = part(d, first + 2, KAS_DNN_CONVOLUTION);
    float alpha, beta;
    return x && w && y && convolution && read_into(d, first, &alpha, sizeof alpha) && alpha == 1 &&
           read_into(d, first + 1, &beta, sizeof beta) && beta == 0 && good_tensor(x, &c->x) &&
           good_tensor(w, &c->w) && good_tensor(y, &c->y) && good_convolution(convolution, c) &&
           c->x.id != c->w.id && c->x.id != c->y.id && c->w.id != c->y.id && sim_conv_fits(c);
}

static bool good_pointwise(const descriptor *d, sim_pointwise *p)
{
    int32_t compute, nan = 0; /* CUDNN_NOT_PROPAGATE_NAN */
    p->upper_clip = INFINITY;
    p->swish_beta = 1;
    read_into(d, KAS_DNN_POINTWISE_UPPER_CLIP, &p->upper_clip, sizeof p->upper_clip);
    read_into(d, KAS_DNN_POINTWISE_SWISH_BETA, &p->swish_beta, sizeof p->swish_beta);
    read_into(d, KAS_DNN_POINTWISE_NAN_PROPAGATION, &nan, sizeof nan);
    p->keeps_nan = nan == 1;
    return read_into(d, KAS_DNN_POINTWISE_COMPUTE_TYPE, &compute, sizeof compute) &&
           compute == KAS_CUDNN_DATA_FLOAT &&
           read_into(d, KAS_DNN_POINTWISE_MODE, &p->mode, sizeof p->mode) &&
           (p->mode == KAS_DNN_MODE_ADD || p->mode == KAS_DNN_MODE_RELU ||
            p->mode == KAS_DNN_MODE_SIGMOID || p->mode == KAS_DNN_MODE_GELU ||
            p->mode == KAS_DNN_MODE_SWISH);
}

static bool same_size(const sim_tensor *a, const sim_tensor *b)
{
    return memcmp(a->size, b->size, sizeof a->size) == 0;
}

/* Returns whether b is like x, or has one number for each channel. */
static bool good_operand(const sim_tensor *b, const sim_tensor *x)
{
    const int64_t channels[4] = {1, x->size[1], 1, 1};
    return !b->is_virtual && (same_size(b, x) || memcmp(b->size, channels, sizeof channels) == 0);
}

/* Reads an operation from x to y. */
static bool good_behind(const descriptor *d, sim_pointwise *p, sim_tensor *x, sim_tensor *y)
{
    const descriptor *mode = part(d, KAS_DNN_OPERATION_POINTWISE_POINTWISE, KAS_DNN_POINTWISE),
                     *from = part(d, KAS_DNN_OPERATION_POINTWISE_X, KAS_DNN_TENSOR),
                     *b = part(d, KAS_DNN_OPERATION_POINTWISE_B, KAS_DNN_TENSOR),
                     *to = part(d, KAS_DNN_OPERATION_POINTWISE_Y, KAS_DNN_TENSOR);
    *p = (sim_pointwise){.binary = b != NULL};
    return mode && from && to && good_pointwise(mode, p) && good_tensor(from, x) &&
           good_tensor(to, y) && same_size(x, y) && x->id != y->id &&
           p->binary == (p->mode == KAS_DNN_MODE_ADD) &&
           (!b || (good_tensor(b, &p->b) && good_operand(&p->b, x)));
}

/* Reads the operations after the first: each reads what the one before it writes, which is virtual
 * and float32; only the last output is in memory. */
static bool good_chain(descriptor *const *operation, int64_t count, sim_conv *c)
{
    c->out = c->y;
    c->behind = (int)count - 1;
    for (int i = 0; i < c->behind; i++) {
        const sim_tensor before = c->out;
        sim_tensor x;
        const descriptor *o = operation[1 + i];
        if (o->kind != KAS_DNN_OPERATION_POINTWISE || !o->finalized ||
            !good_behind(o, &c->op[i], &x, &c->out) || x.id != before.id || !before.is_virtual ||
            before.type != KAS_CUDNN_DATA_FLOAT)
            return false;
    }
    return !c->out.is_virtual;
}

static cudnnStatus_t finalize_graph(descriptor *d)
{
    const attribute *operations = find(d, KAS_DNN_GRAPH_OPERATIONS);
    if (!operations || !find(d, KAS_DNN_GRAPH_HANDLE))
        return KAS_CUDNN_BAD_PARAM;
    const descriptor *o = *(descriptor *const *)operations->values;
    if (!o->finalized)
        return NOT_FINALIZED;
    if (operations->count > 1 + SIM_MAX_BEHIND || o->kind == KAS_DNN_OPERATION_POINTWISE)
        return KAS_CUDNN_NOT_SUPPORTED; /* a pattern that nobody asked for so far */
    return good_operation(o, &d->conv) &&
                   good_chain((descriptor *const *)operations->values, operations->count, &d->conv)
               ? KAS_CUDNN_SUCCESS
               : KAS_CUDNN_BAD_PARAM;
}

static cudnnStatus_t finalize_heuristics(descriptor *d)
{
    const descriptor *graph = part(d, KAS_DNN_HEURISTICS_GRAPH, KAS_DNN_GRAPH);
    int32_t mode;
    if (!graph || !read_into(d, KAS_DNN_HEURISTICS_MODE, &mode, sizeof mode) ||
        (mode != KAS_DNN_HEURISTICS_A && mode != KAS_DNN_HEURISTICS_FALLBACK))
        return KAS_CUDNN_BAD_PARAM;
    d->conv = graph->conv;
    d->fallback = mode == KAS_DNN_HEURISTICS_FALLBACK;
    return sim_conv_supported(&d->conv) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_NOT_SUPPORTED;
}

static const sim_engine *engine_of(int64_t id, int64_t tile)
{
    for (int i = 0; i < SIM_ENGINES; i++)
        if (sim_engines[i].id == id && (tile < 0 || sim_engines[i].tile == tile))
            return &sim_engines[i];
    return NULL;
}

static cudnnStatus_t finalize_engine(descriptor *d)
{
    const descriptor *graph = part(d, KAS_DNN_ENGINE_GRAPH, KAS_DNN_GRAPH);
    int64_t id;
    if (!graph || !read_into(d, KAS_DNN_ENGINE_INDEX, &id, sizeof id) || !engine_of(id, -1))
        return KAS_CUDNN_BAD_PARAM;
    d->conv = graph->conv;
    d->engine = engine_of(id, -1);
    return sim_conv_supported(&d->conv) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_NOT_SUPPORTED;
}

static cudnnStatus_t finalize_config(descriptor *d)
{
    const descriptor *engine = part(d, KAS_DNN_CONFIG_ENGINE, KAS_DNN_ENGINE);
    const attribute *knobs = find(d, KAS_DNN_CONFIG_KNOBS);
    const descriptor *knob = knobs ? part(d, KAS_DNN_CONFIG_KNOBS, KAS_DNN_KNOB_CHOICE) : NULL;
    if (!engine || (knobs && (!knob || knobs->count != 1)))
        return KAS_CUDNN_BAD_PARAM;
    d->conv = engine->conv;
    d->engine = engine_of(engine->engine->id, knob ? knob->tile : 0);
    return d->engine ? KAS_CUDNN_SUCCESS : KAS_CUDNN_BAD_PARAM;
}

static cudnnStatus_t finalize_plan(descriptor *d)
{
    const descriptor *config = part(d, KAS_DNN_PLAN_CONFIG, KAS_DNN_ENGINE_CONFIG);
    if (!config || !find(d, KAS_DNN_PLAN_HANDLE))
        return KAS_CUDNN_BAD_PARAM;
    d->conv = config->conv;
    d->engine = config->engine;
    sim_plans++;
    return d->engine->refuses ? KAS_CUDNN_NOT_SUPPORTED : KAS_CUDNN_SUCCESS;
}

static cudnnStatus_t finalize_knob(descriptor *d)
{
    int32_t type;
    return read_into(d, KAS_DNN_KNOB_TYPE, &type, sizeof type) && type == SIM_KNOB &&
                   read_into(d, KAS_DNN_KNOB_VALUE, &d->tile, sizeof d->tile)
               ? KAS_CUDNN_SUCCESS
               : KAS_CUDNN_BAD_PARAM;
}

static cudnnStatus_t finalize(descriptor *d)
{
    sim_tensor tensor, other;
    sim_pointwise pointwise;
    sim_conv conv;
    switch (d->kind) {
    case KAS_DNN_TENSOR:
        return good_tensor(d, &tensor) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_BAD_PARAM;
    case KAS_DNN_CONVOLUTION:
        return good_convolution(d, &conv) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_BAD_PARAM;
    case KAS_DNN_FORWARD:
    case KAS_DNN_BACKWARD_DATA:
    case KAS_DNN_BACKWARD_FILTER:
        return good_operation(d, &conv) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_BAD_PARAM;
    case KAS_DNN_POINTWISE:
        return good_pointwise(d, &pointwise) ? KAS_CUDNN_SUCCESS : KAS_CUDNN_BAD_PARAM;
    case KAS_DNN_OPERATION_POINTWISE:
        return good_behind(d, &pointwise, &tensor, &other) ? KAS_CUDNN_SUCCESS
                                                           : KAS_CUDNN_BAD_PARAM;
    case KAS_DNN_GRAPH:
        return finalize_graph(d);
    case KAS_DNN_HEURISTICS:
        return finalize_heuristics(d);
    case KAS_DNN_ENGINE:
        return finalize_engine(d);
    case KAS_DNN_KNOB_CHOICE:
        return finalize_knob(d);
    case KAS_DNN_ENGINE_CONFIG:
        return finalize_config(d);
    case KAS_DNN_PLAN:
        return finalize_plan(d);
    case KAS_DNN_VARIANT_PACK:
        return KAS_CUDNN_SUCCESS;
    default:
        return KAS_CUDNN_NOT_SUPPORTED;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t desc)
{
    SIM_CALL(cudnnBackendFinalize, INTERNAL_ERROR, 0);
    descriptor *d = desc;
    const cudnnStatus_t status = finalize(d);
    d->finalized = status == KAS_CUDNN_SUCCESS;
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Writes the ranking into the caller's descriptors. */
static cudnnStatus_t get_results(const descriptor *d, int64_t room, int64_t *count,
                                 descriptor **out)
{
    *count = 0;
    for (int i = 0; i < SIM_ENGINES; i++) {
        if (sim_engines[i].fallback != d->fallback)
            continue;
        if (*count < room) {
            if (out[*count]->kind != KAS_DNN_ENGINE_CONFIG || out[*count]->finalized)
                return KAS_CUDNN_BAD_PARAM;
            out[*count]->conv = d->conv;
            out[*count]->engine = &sim_engines[i];
            out[*count]->finalized = true;
        }
        ++*count;
    }
    return KAS_CUDNN_SUCCESS;
}

static cudnnStatus_t get_part(const descriptor *d, int32_t kind, int64_t room, int64_t *count,
                              descriptor **out)
{
    *count = room > 0 && (kind == KAS_DNN_ENGINE || d->engine->tile) ? 1 : 0; /* as 9.19 does */
    if (*count && out[0]->kind != kind)
        return KAS_CUDNN_BAD_PARAM;
    if (*count) {
        out[0]->conv = d->conv;
        out[0]->engine = d->engine;
        out[0]->tile = d->engine->tile;
        out[0]->finalized = true;
    }
    return KAS_CUDNN_SUCCESS;
}

static cudnnStatus_t get_number(int64_t value, int64_t *count, void *out)
{
    *count = 1;
    memcpy(out, &value, sizeof value);
    return KAS_CUDNN_SUCCESS;
}

static cudnnStatus_t get_notes(const descriptor *d, int64_t *count, int32_t *out)
{
    *count = d->engine->note >= 0;
    if (*count)
        out[0] = d->engine->note;
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *out)
{
    SIM_CALL(cudnnBackendGetAttribute, INTERNAL_ERROR, 0);
    const descriptor *d = desc;
    if (!d->finalized)
        return NOT_FINALIZED;
    if (wanted < (type == KAS_DNN_TYPE_DESCRIPTOR ? 0 : 1)) /* 0: only how many there are */
        return KAS_CUDNN_BAD_PARAM;
    switch (name * 32 + type) { /* a type is below 32 */
    case KAS_DNN_HEURISTICS_RESULTS * 32 + KAS_DNN_TYPE_DESCRIPTOR:
        return get_results(d, wanted, count, out);
    case KAS_DNN_CONFIG_ENGINE * 32 + KAS_DNN_TYPE_DESCRIPTOR:
        return get_part(d, KAS_DNN_ENGINE, wanted, count, out);
    case KAS_DNN_CONFIG_KNOBS * 32 + KAS_DNN_TYPE_DESCRIPTOR:
        return get_part(d, KAS_DNN_KNOB_CHOICE, wanted, count, out);
    case KAS_DNN_ENGINE_INDEX * 32 + KAS_DNN_TYPE_INT64:
        return get_number(d->engine->id, count, out);
    case KAS_DNN_ENGINE_NUMERICAL_NOTES * 32 + KAS_DNN_TYPE_NUMERICAL_NOTE:
        return get_notes(d, count, out);
    case KAS_DNN_ENGINE_BEHAVIOR_NOTES * 32 + KAS_DNN_TYPE_BEHAVIOR_NOTE:
        *count = d->engine->compiled;
        if (*count)
            *(int32_t *)out = KAS_DNN_BEHAVIOR_RUNTIME_COMPILATION;
        return KAS_CUDNN_SUCCESS;
    case KAS_DNN_KNOB_TYPE * 32 + KAS_DNN_TYPE_KNOB:
        *count = 1;
        *(int32_t *)out = SIM_KNOB;
        return KAS_CUDNN_SUCCESS;
    case KAS_DNN_KNOB_VALUE * 32 + KAS_DNN_TYPE_INT64:
        return get_number(d->tile, count, out);
    case KAS_DNN_PLAN_WORKSPACE * 32 + KAS_DNN_TYPE_INT64:
        return get_number((int64_t)sim_conv_workspace(&d->conv), count, out);
    default:
        return KAS_CUDNN_BAD_PARAM;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static void *pointer_of(const descriptor *pack, int64_t id)
{
    const attribute *ids = find(pack, KAS_DNN_PACK_UNIQUE_IDS),
                    *pointers = find(pack, KAS_DNN_PACK_POINTERS);
    if (!ids || !pointers || ids->count != pointers->count)
        return NULL;
    for (int64_t i = 0; i < ids->count; i++)
        if (((const int64_t *)ids->values)[i] == id)
            return ((void *const *)pointers->values)[i];
    return NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    SIM_CALL(cudnnBackendExecute, KAS_CUDNN_EXECUTION_FAILED, KAS_CUDNN_EXECUTION_FAILED);
    const descriptor *d = plan, *v = pack;
    if (d->kind != KAS_DNN_PLAN || v->kind != KAS_DNN_VARIANT_PACK || !d->finalized ||
        !v->finalized)
        return NOT_FINALIZED;
    if (!handle->stream)
        sim_broken("a convolution on the default stream");
    const sim_tensor *tensor[SIM_OPERANDS] = {&d->conv.x, &d->conv.w, &d->conv.out};
    void *memory[SIM_OPERANDS] = {NULL}, *const *workspace = values(v, KAS_DNN_PACK_WORKSPACE);
    for (int i = 0; i < d->conv.behind; i++)
        tensor[3 + i] = d->conv.op[i].binary ? &d->conv.op[i].b : NULL;
    for (int i = 0; i < SIM_OPERANDS; i++) {
        if (!tensor[i])
            continue;
        memory[i] = pointer_of(v, tensor[i]->id);
        if (!memory[i] || (uintptr_t)memory[i] % (uintptr_t)tensor[i]->alignment)
            return BAD_POINTER;
    }
    if (!workspace || !*workspace)
        return KAS_CUDNN_BAD_PARAM;
    sim_conv_queue(handle, &d->conv, d->engine, memory, *workspace);
    return KAS_CUDNN_SUCCESS;
}
