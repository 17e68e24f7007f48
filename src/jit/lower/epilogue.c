#include "jit/lower/epilogue.h"

#include <math.h>
#include <string.h>

#include "jit/schedule/rows.h"

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct loads {
    int tensor[KAS_MAX_LAUNCH_ARGS], count;
} loads;

static void see_load(void *context, kas_ex e, const kas_ex_node *node)
{
    loads *l = context;
    (void)e;
    if (node->kind != KAS_EX_LOAD)
        return;
    for (int i = 0; i < l->count; i++)
        if (l->tensor[i] == node->tensor)
            return;
    if (l->count < KAS_MAX_LAUNCH_ARGS)
        l->tensor[l->count++] = node->tensor;
}

bool kas_epilogue_fits(const kas_ir *ir, kas_ex value)
{
    enum { OWN = KAS_NORM_PARTS + 2 }; /* four vectors, the residual, Y */
    loads l = {.count = 0};
    return kas_ex_visit(ir, value, see_load, &l) == KAS_OK && l.count + OWN <= KAS_MAX_LAUNCH_ARGS;
}

static int extern_tensor(kas_ir *ir, int rank, const int64_t *size, int pitch, kas_role role,
                         int index)
{
    const int tensor = kas_ir_add_tensor(ir, KAS_TENSOR_EXTERN, rank, size, pitch);
    ir->tensor[tensor].role = role;
    ir->tensor[tensor].role_index = index;
    return tensor;
}

/* Returns the flat index over the dims from `first` on, in the variables of Y's kernel. */
static kas_ix index_from(kas_ir *ir, const kas_ir_tensor *y, int first)
{
    kas_ix ix = 0, idx[KAS_IR_RANK];
    kas_row_index(ir, y, idx);
    for (int d = first; d < y->rank; d++)
        ix = kas_ix_add(ir, ix, kas_ix_scale(ir, idx[d], y->stride[d]));
    return ix;
}

void kas_epilogue_add_tensors(kas_ir *ir, int number, kas_epilogue_tensors *out)
{
    const kas_ir_tensor y = ir->tensor[number];
    const int64_t channels =
        y.elements / (y.size[KAS_DIM_N] * y.size[KAS_DIM_H] * y.size[KAS_DIM_W]);
    for (int i = 0; i < KAS_NORM_PARTS; i++) {
        out->norm[i] = extern_tensor(ir, 1, &channels, 0, KAS_ROLE_NORM, i);
        ir->tensor[out->norm[i]].dtype = KAS_F32;
    }
    out->residual = extern_tensor(ir, y.rank, y.size, y.pitch, KAS_ROLE_RESIDUAL, 0);
    out->channel = index_from(ir, &y, KAS_DIM_Q);
    out->address = index_from(ir, &y, KAS_DIM_N);
}

/* ---- expressions: those of cuda/kernels/activation.h ----------------------------------------- */

static kas_ex relu6(kas_ir *ir, kas_ex x)
{
    return kas_ex_binary(ir, KAS_FN_MIN, kas_ex_binary(ir, KAS_FN_MAX, x, kas_ex_const(ir, 0)),
                         kas_ex_const(ir, 6));
}

static kas_ex hard_sigmoid(kas_ir *ir, kas_ex x)
{
    return kas_ex_mul(ir, relu6(ir, kas_ex_binary(ir, KAS_FN_ADD, x, kas_ex_const(ir, 3))),
                      kas_ex_const(ir, 1.0 / 6));
}

static kas_ex normal_cdf(kas_ir *ir, kas_ex x)
{
    const kas_ex erf = kas_ex_unary(ir, KAS_FN_ERF, kas_ex_mul(ir, x, kas_ex_const(ir, sqrt(0.5))));
    return kas_ex_binary(ir, KAS_FN_ADD, kas_ex_const(ir, 0.5),
                         kas_ex_mul(ir, kas_ex_const(ir, 0.5), erf));
}

static kas_ex activate(kas_ir *ir, kas_activation kind, kas_ex x)
{
    switch (kind) {
    case KAS_ACTIVATION_NONE:
        return x;
    case KAS_ACTIVATION_RELU:
        return kas_ex_binary(ir, KAS_FN_MAX, x, kas_ex_const(ir, 0));
    case KAS_ACTIVATION_RELU6:
        return relu6(ir, x);
    case KAS_ACTIVATION_SIGMOID:
        return kas_ex_unary(ir, KAS_FN_SIGMOID, x);
    case KAS_ACTIVATION_HARD_SIGMOID:
        return hard_sigmoid(ir, x);
    case KAS_ACTIVATION_SILU:
        return kas_ex_mul(ir, x, kas_ex_unary(ir, KAS_FN_SIGMOID, x));
    case KAS_ACTIVATION_HARD_SWISH:
        return kas_ex_mul(ir, x, hard_sigmoid(ir, x));
    case KAS_ACTIVATION_GELU:
        return kas_ex_mul(ir, x, normal_cdf(ir, x));
    }
    kas_ir_fail(ir, kas_fail(KAS_UNSUPPORTED, "activation %d cannot be lowered", (int)kind));
    return 0;
}

/* Computes as batch_norm.cu does. The norm is not folded into a factor and a summand, which would
 * lose digits where the mean is large compared with the deviation. */
kas_ex kas_epilogue_value(kas_ir *ir, const kas_epilogue_tensors *t, kas_ex value,
                          kas_epilogue epilogue)
{
    kas_ex part[KAS_NORM_PARTS];
    for (int i = 0; i < KAS_NORM_PARTS; i++)
        part[i] = kas_ex_load(ir, t->norm[i], t->channel);
    const kas_ex deviations =
        kas_ex_mul(ir, kas_ex_sub(ir, value, part[KAS_NORM_MEAN]), part[KAS_NORM_RSTD]);
    kas_ex y = kas_ex_binary(ir, KAS_FN_ADD, kas_ex_mul(ir, deviations, part[KAS_NORM_GAMMA]),
                             part[KAS_NORM_BETA]);
    if (epilogue.residual)
        y = kas_ex_binary(ir, KAS_FN_ADD, y, kas_ex_load(ir, t->residual, t->address));
    return activate(ir, epilogue.activation, y);
}
