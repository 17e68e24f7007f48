/* Linear operators (fc, conv, conv_depthwise, mix): a library convolution, or a direct loop when a
 * group is as small as that of a depthwise convolution.
 *
 * An unfold before the operator, or a convolution's own window, is never made in memory for
 * it: its tap dims become the kernel of the convolution (1x1 without any). Dims of the operand
 * are sorted into
 *     kept    (of a mix) as they are: they count as pixels, [n][h][w, kept...]
 *     group   kept apart, the convolution's groups
 *     channel contracted
 *     tap     contracted, made by an unfold that the convolution takes over, or by itself
 * which fc_plan.c decides.
 *
 * The convolution's operand is [n][h][w] [q][p][group...] [channel...], its result [n][h][w][q][p]
 * [group...][out]. When all q read one input they are outputs of one map: [p][group...][q][out]. */

#include "jit/lower/lower_fc.h"

void kas_lower_fc(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const kas_status status = kas_fc_plan(l, node);
    if (status != KAS_OK) {
        kas_ir_fail(ir, status);
        return;
    }
    if (fc->library)
        kas_fc_library(l, node);
    else
        kas_fc_direct(l, node);
    kas_ir_tensor *w = &ir->tensor[l->weight_tensor[fc->weight]];
    w->role = KAS_ROLE_WEIGHT;
    w->role_index = fc->weight;
    const int tensor = kas_lower_result(l, node, l->target->parts_out);
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    kas_fc_output_index(l, node, idx, at);
    ir->tensor[tensor].def = kas_ex_read(ir, fc->output, at);
}

void kas_lower_fc_gradient(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    if (fc->library) {
        kas_fc_library_gradient(l, node);
    } else {
        kas_fc_direct_gradient(l, node);
    }
    if (kas_fc_has_own_windows(fc) && l->gradient[fc->in] != 0) {
        kas_lower_sum_gradient(l, fc->in);
        kas_lower_windows_gradient(l, node, fc->in);
    }
    kas_ir_tensor *dw = &l->ir->tensor[l->dweight[fc->weight]];
    dw->role = KAS_ROLE_DWEIGHT;
    dw->role_index = fc->weight;
}
