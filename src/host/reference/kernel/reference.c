/* A kernel at one target: walks the nodes forward and backward for every image and instance, and
 * puts the instances together (space/target.h). */
#include "host/reference/kernel/evaluate.h"
#include "host/space/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t weight_per_instance(const kas_ref_node *n)
{
    return n->groups * n->fan_out * n->fan_in;
}

static const kas_ref_node *weight_node(const kas_reference *ref, int i)
{
    for (int k = 0; k < ref->kernel.nodes; k++)
        if (ref->node[k].weight == i)
            return &ref->node[k];
    return NULL;
}

static kas_status check_target(const kas_reference *ref)
{
    const kas_target *t = &ref->target;
    const kas_ref_shape *in = &ref->node[0].out;
    if (in->rank != 3 || in->size[0] != t->c || in->size[1] != t->h * ref->stride ||
        in->size[2] != t->w * ref->stride)
        return kas_fail(KAS_ILLEGAL, "reference: the binding is not that of target %s", t->name);
    if (ref->node[ref->kernel.nodes - 1].out.elements != in->elements)
        return kas_fail(KAS_ILLEGAL, "reference: the kernel's output is not [C, H, W] at target %s",
                        t->name);
    return KAS_OK;
}

static kas_status allocate(kas_reference *ref)
{
    size_t copies = (size_t)ref->batch * ref->instances;
    bool ok = true;
    for (int i = 0; i < ref->kernel.nodes; i++) {
        size_t elements = ref->node[i].out.elements;
        ref->value[i] = calloc(copies * elements, sizeof(double));
        ref->grad[i] = calloc(copies * elements, sizeof(double));
        ref->branch[i] = calloc(copies * elements, sizeof(uint32_t));
        ok = ok && ref->value[i] && ref->grad[i] && ref->branch[i];
    }
    for (int i = 0; i < ref->weights; i++) {
        ref->weight[i] = calloc(kas_reference_weight_size(ref, i), sizeof(double));
        ok = ok && ref->weight[i];
    }
    return ok ? KAS_OK
              : kas_fail(KAS_NO_MEMORY, "reference: no memory for %d images at target %s",
                         ref->batch, ref->target.name);
}

kas_status kas_reference_create(const kas_kernel *kernel, const kas_target *target,
                                const kas_binding *binding, int batch, kas_reference **out)
{
    kas_status status = KAS_OK;
    kas_reference *ref = calloc(1, sizeof *ref);
    if (!ref)
        return kas_fail(KAS_NO_MEMORY, "reference: no memory");
    ref->kernel = *kernel;
    ref->target = *target;
    ref->batch = batch;
    ref->instances = (int)(target->parts_in * target->parts_out);
    ref->gain = 1;
    ref->stride = kernel->stride_inside ? (int)target->stride : 1;
    kas_target_read(target, kernel->stride_inside, &ref->x_h, &ref->x_w);
    kas_binding at = *binding; /* the kernel is computed at every pixel, and most are left out */
    at.value[KAS_SYM_H] *= (uint32_t)ref->stride;
    at.value[KAS_SYM_W] *= (uint32_t)ref->stride;
    for (int i = 0; i < kernel->nodes; i++) {
        KAS_TRY_GOTO(kas_ref_node_make(&ref->kernel, i, &at, &ref->node[i]), fail);
        if (kas_op_has_weight((kas_op)kernel->node[i].op))
            ref->node[i].weight = ref->weights++;
    }
    KAS_TRY_GOTO(check_target(ref), fail);
    KAS_TRY_GOTO(allocate(ref), fail);
    *out = ref;
    return KAS_OK;
fail:
    kas_reference_free(ref);
    return status;
}

void kas_reference_free(kas_reference *ref)
{
    if (!ref)
        return;
    for (int i = 0; i < KAS_MAX_NODES; i++) {
        free(ref->value[i]);
        free(ref->grad[i]);
        free(ref->branch[i]);
        free(ref->weight[i]);
    }
    free(ref);
}

void kas_reference_set_gain(kas_reference *ref, double gain)
{
    ref->gain = gain;
}

int kas_reference_weights(const kas_reference *ref)
{
    return ref->weights;
}

size_t kas_reference_weight_size(const kas_reference *ref, int i)
{
    return ref->instances * weight_per_instance(weight_node(ref, i));
}

const double *kas_reference_node_value(const kas_reference *ref, int node, size_t *elements)
{
    *elements = ref->node[node].out.elements;
    return ref->value[node];
}

/* Returns the tensors of node i for copy number k = image * instances + instance. */
static kas_ref_values values_at(kas_reference *ref, int i, size_t k, const double *const *weight,
                                bool frozen)
{
    const kas_ref_node *n = &ref->node[i];
    kas_ref_values v = {.frozen = frozen, .rounded = ref};
    for (int j = 0; j < n->node->inputs; j++)
        v.in[j] = ref->value[n->node->in[j]] + k * n->in[j].elements;
    if (n->weight >= 0)
        v.weight = weight[n->weight] + k % ref->instances * weight_per_instance(n);
    v.y = ref->value[i] + k * n->out.elements;
    v.branch = ref->branch[i] + k * n->out.elements;
    return v;
}

/* Returns the place of pixel (h, w) of channel c in the first and in the last node, whose rows and
 * columns are so many times those of the output. */
static size_t place(const kas_reference *ref, size_t c, size_t h, size_t w)
{
    const uint32_t *size = ref->node[0].out.size;
    return (c * size[1] + h) * size[2] + w;
}

/* Copies an input part [c][x_h][x_w] into the first node, with zeros where a stride goes on behind
 * the last row or column; or adds the first node's gradient to that of the part. */
static void move_input(const kas_reference *ref, double *part, double *node, bool back)
{
    for (size_t c = 0; c < ref->target.c; c++)
        for (size_t h = 0; h < ref->x_h; h++)
            for (size_t w = 0; w < ref->x_w; w++) {
                double *x = &part[(c * ref->x_h + h) * ref->x_w + w];
                if (back)
                    *x += node[place(ref, c, h, w)];
                else
                    node[place(ref, c, h, w)] = *x;
            }
}

void kas_ref_evaluate(kas_reference *ref, const double *x, const double *const *weight, double *y,
                      bool frozen, int first)
{
    int nodes = ref->kernel.nodes, parts_in = (int)ref->target.parts_in;
    const kas_target *t = &ref->target;
    const size_t part = (size_t)t->c * t->h * t->w, x_part = (size_t)t->c * ref->x_h * ref->x_w;
    const size_t whole = ref->node[0].out.elements, s = (size_t)ref->stride;
    memset(y, 0, sizeof *y * part * ref->target.parts_out * ref->batch);
    for (size_t k = 0; k < (size_t)ref->batch * ref->instances; k++) {
        size_t image = k / ref->instances, q = k % ref->instances / parts_in, p = k % parts_in;
        if (first == 0)
            move_input(ref, (double *)x + (image * parts_in + p) * x_part,
                       ref->value[0] + k * whole, false);
        for (int i = first > 0 ? first : 1; i < nodes; i++) {
            kas_ref_values v = values_at(ref, i, k, weight, frozen);
            kas_ref_op_get(ref->node[i].node->op)->forward(&ref->node[i], &v);
            kas_ref_round(ref, v.y, ref->node[i].out.elements);
        }
        double *to = y + (image * ref->target.parts_out + q) * part;
        for (size_t e = 0; e < part; e++) {
            const size_t c = e / (t->h * t->w), h = e / t->w % t->h, w = e % t->w;
            const double value = ref->value[nodes - 1][k * whole + place(ref, c, h * s, w * s)];
            to[e] += ref->gain * value / sqrt(parts_in);
        }
    }
}

kas_status kas_reference_forward(kas_reference *ref, const double *x, const double *const *weight,
                                 double *y)
{
    for (int i = 0; i < ref->weights; i++)
        memcpy(ref->weight[i], weight[i], kas_reference_weight_size(ref, i) * sizeof(double));
    kas_ref_evaluate(ref, x, weight, y, false, 0);
    ref->evaluated = true;
    return KAS_OK;
}

/* Runs the nodes in reverse order, so that every reader of a node has added its part before the
 * node's turn comes. */
static void backward_copy(kas_reference *ref, size_t k, double *const *dweight)
{
    for (int i = ref->kernel.nodes - 1; i > 0; i--) {
        const kas_ref_node *n = &ref->node[i];
        kas_ref_values v = values_at(ref, i, k, (const double *const *)ref->weight, true);
        double *dy = ref->grad[i] + k * n->out.elements;
        kas_ref_gradients g = {.dy = dy};
        kas_ref_round(ref, dy, n->out.elements);
        for (int j = 0; j < n->node->inputs; j++)
            g.din[j] = ref->grad[n->node->in[j]] + k * n->in[j].elements;
        if (n->weight >= 0)
            g.dweight = dweight[n->weight] + k % ref->instances * weight_per_instance(n);
        kas_ref_op_get(n->node->op)->backward(n, &v, &g);
    }
}

kas_status kas_reference_backward(kas_reference *ref, const double *dy, double *dx,
                                  double *const *dweight)
{
    int nodes = ref->kernel.nodes, parts_in = (int)ref->target.parts_in;
    const kas_target *t = &ref->target;
    const size_t part = (size_t)t->c * t->h * t->w, x_part = (size_t)t->c * ref->x_h * ref->x_w;
    const size_t whole = ref->node[0].out.elements, s = (size_t)ref->stride;
    const size_t copies = (size_t)ref->batch * ref->instances;
    if (!ref->evaluated)
        return kas_fail(KAS_FAILURE, "reference: backward before any forward");
    memset(dx, 0, sizeof *dx * x_part * parts_in * ref->batch);
    for (int i = 0; i < ref->weights; i++)
        memset(dweight[i], 0, kas_reference_weight_size(ref, i) * sizeof(double));
    for (int i = 0; i < nodes; i++)
        memset(ref->grad[i], 0, copies * ref->node[i].out.elements * sizeof(double));
    for (size_t k = 0; k < copies; k++) {
        size_t image = k / ref->instances, q = k % ref->instances / parts_in, p = k % parts_in;
        const double *from = dy + (image * ref->target.parts_out + q) * part;
        for (size_t e = 0; e < part; e++) {
            const size_t c = e / (t->h * t->w), h = e / t->w % t->h, w = e % t->w;
            ref->grad[nodes - 1][k * whole + place(ref, c, h * s, w * s)] =
                ref->gain * from[e] / sqrt(parts_in);
        }
        backward_copy(ref, k, dweight);
        move_input(ref, dx + (image * parts_in + p) * x_part, ref->grad[0] + k * whole, true);
    }
    return KAS_OK;
}
