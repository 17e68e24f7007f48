/* 1x1 convolutions as matrix products on cuBLASLt.
 *
 * With P = n h w pixels and ci, co channels of a group, one group of each pass is, row-major,
 *
 *     forward             Y  [P, co]  = X  [P, ci]  * W [co, ci]^T
 *     backward data       DX [P, ci]  = DY [P, co]  * W [co, ci]
 *     backward weights    DW [co, ci] = DY [P, co]^T * X [P, ci]
 *
 * cuBLASLt is column-major: a row-major [r, c] matrix with pitch p is there a c x r matrix with
 * leading dimension p.  So each product is computed transposed, with the operands in the other
 * order:
 *
 *     D (rows x columns)  =  op(A)        *  op(B)
 *     Y  (co x P,  y_pitch)  W (ci x co)^T   X  (ci x P, x_pitch)
 *     DX (ci x P,  x_pitch)  W (ci x co)     DY (co x P, y_pitch)
 *     DW (ci x co, ci)       X (ci x P)      DY (co x P)^T
 *
 * A residual is C, of D's type and layout, which is added before the epilogue; the epilogue adds a
 * bias of D's type (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: other types beside 8-bit
 * operands only) and may end with a ReLU.  Its GELU is by tanh, which ours is not.
 *
 * Groups are a strided batch: the matrices of neighbouring groups lie ci (or co) numbers apart,
 * with the same leading dimension.  Of 16-bit numbers DW alone is float32; sums are float32 always.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/conv_cuda.h"
#include "cuda/tuning.h"

enum { ALIGNMENT = KAS_CONV_ALIGNMENT };

typedef struct matrix {
    uint64_t rows, columns;
    int64_t leading, group_stride;
    cudaDataType type;
} matrix;

struct kas_matmul {
    kas_conv_pass pass;
    kas_conv_beside beside;
    bool narrow; /* the result has 16 bits */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes;
    cublasLtMatmulHeuristicResult_t candidate[KAS_MAX_CANDIDATES];
};

static const cudaDataType types[KAS_DTYPES] = {
    [KAS_F32] = KAS_CUDA_R_32F, [KAS_BF16] = KAS_CUDA_R_16BF, [KAS_F16] = KAS_CUDA_R_16F};

static kas_status make_layout(kas_cuda *cuda, matrix m, int groups, cublasLtMatrixLayout_t *out)
{
    const int32_t count = groups;
    KAS_TRY(KAS_LT(cuda, cublasLtMatrixLayoutCreate(out, m.type, m.rows, m.columns, m.leading)));
    KAS_TRY(KAS_LT(cuda, cublasLtMatrixLayoutSetAttribute(*out, KAS_LT_LAYOUT_BATCH_COUNT, &count,
                                                          sizeof count)));
    return KAS_LT(cuda, cublasLtMatrixLayoutSetAttribute(*out, KAS_LT_LAYOUT_STRIDED_BATCH_OFFSET,
                                                         &m.group_stride, sizeof m.group_stride));
}

static kas_status set_bias(kas_cuda *cuda, const kas_matmul *matmul, void *bias)
{
    return KAS_LT(cuda, cublasLtMatmulDescSetAttribute(matmul->desc, KAS_LT_DESC_BIAS_POINTER,
                                                       &bias, sizeof bias));
}

/* Returns the epilogue of cuBLASLt that does this, or 0 when there is none. */
static uint32_t epilogue_of(const kas_conv_desc *c, const kas_matmul *matmul)
{
    const kas_conv_beside *b = &matmul->beside;
    if (c->groups != 1 || !b->bias)
        return 0;
    if (matmul->pass == KAS_CONV_BACKWARD_WEIGHTS)
        return KAS_LT_EPILOGUE_BGRADB;
    if (matmul->pass == KAS_CONV_BACKWARD_DATA || b->activation > KAS_ACTIVATION_RELU)
        return 0;
    return b->activation == KAS_ACTIVATION_RELU ? KAS_LT_EPILOGUE_RELU_BIAS : KAS_LT_EPILOGUE_BIAS;
}

/* Sets the epilogue. The ranking reads only the alignment of the bias pointer. */
static kas_status describe_epilogue(kas_cuda *cuda, const kas_conv_desc *c, kas_matmul *matmul)
{
    const uint32_t epilogue = epilogue_of(c, matmul);
    if (!epilogue)
        return kas_fail(KAS_UNSUPPORTED, "cuBLASLt has no such epilogue for this product");
    KAS_TRY(KAS_LT(cuda, cublasLtMatmulDescSetAttribute(matmul->desc, KAS_LT_DESC_EPILOGUE,
                                                        &epilogue, sizeof epilogue)));
    return set_bias(cuda, matmul, (void *)(uintptr_t)ALIGNMENT);
}

static kas_status describe(kas_cuda *cuda, const kas_conv_desc *c, kas_matmul *matmul)
{
    const int64_t ci = c->c_in / c->groups, co = c->c_out / c->groups;
    const uint64_t pixels = (uint64_t)c->n * (uint64_t)c->h * (uint64_t)c->w;
    const kas_conv_pass pass = matmul->pass;
    const cudaDataType type = types[c->dtype],
                       w_type = pass == KAS_CONV_BACKWARD_WEIGHTS ? KAS_CUDA_R_32F : type;
    const matrix x = {(uint64_t)ci, pixels, c->x_pitch, ci, type},
                 w = {(uint64_t)ci, (uint64_t)co, ci, ci * co, w_type},
                 y = {(uint64_t)co, pixels, c->y_pitch, co, type};
    const matrix a = pass == KAS_CONV_BACKWARD_WEIGHTS ? x : w;
    const matrix b = pass == KAS_CONV_FORWARD ? x : y;
    const matrix d = pass == KAS_CONV_FORWARD ? y : pass == KAS_CONV_BACKWARD_DATA ? x : w;
    const int32_t trans_a = pass == KAS_CONV_FORWARD ? KAS_CUBLAS_OP_T : KAS_CUBLAS_OP_N,
                  trans_b = pass == KAS_CONV_BACKWARD_WEIGHTS ? KAS_CUBLAS_OP_T : KAS_CUBLAS_OP_N;
    const cublasComputeType_t compute =
        c->tf32 ? KAS_CUBLAS_COMPUTE_32F_FAST_TF32 : KAS_CUBLAS_COMPUTE_32F;
    KAS_TRY(KAS_LT(cuda, cublasLtMatmulDescCreate(&matmul->desc, compute, KAS_CUDA_R_32F)));
    KAS_TRY(KAS_LT(cuda, cublasLtMatmulDescSetAttribute(matmul->desc, KAS_LT_DESC_TRANSA, &trans_a,
                                                        sizeof trans_a)));
    KAS_TRY(KAS_LT(cuda, cublasLtMatmulDescSetAttribute(matmul->desc, KAS_LT_DESC_TRANSB, &trans_b,
                                                        sizeof trans_b)));
    matmul->narrow = d.type != KAS_CUDA_R_32F;
    if (kas_conv_has_beside(matmul->beside))
        KAS_TRY(describe_epilogue(cuda, c, matmul));
    KAS_TRY(make_layout(cuda, a, c->groups, &matmul->a));
    KAS_TRY(make_layout(cuda, b, c->groups, &matmul->b));
    return make_layout(cuda, d, c->groups, &matmul->d);
}

/* Allows only sums in the compute type: otherwise the library may add the parts of a split sum in
 * the result's type. */
static kas_status add_parts_in_float32(kas_cuda *cuda, cublasLtMatmulPreference_t preference)
{
    const uint32_t schemes = KAS_LT_REDUCTION_IN_COMPUTE_TYPE;
    return KAS_LT(cuda, cublasLtMatmulPreferenceSetAttribute(preference,
                                                             KAS_LT_PREFERENCE_REDUCTION_SCHEMES,
                                                             &schemes, sizeof schemes));
}

static kas_status set_preference(kas_cuda *cuda, const kas_matmul *matmul,
                                 cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t of_matrix[] = {
        KAS_LT_PREFERENCE_ALIGNMENT_A, KAS_LT_PREFERENCE_ALIGNMENT_B, KAS_LT_PREFERENCE_ALIGNMENT_C,
        KAS_LT_PREFERENCE_ALIGNMENT_D};
    const uint64_t workspace = cuda->most_workspace;
    const uint32_t alignment = ALIGNMENT;
    KAS_TRY(KAS_LT(cuda,
                   cublasLtMatmulPreferenceSetAttribute(preference, KAS_LT_PREFERENCE_MAX_WORKSPACE,
                                                        &workspace, sizeof workspace)));
    for (int i = 0; i < 4; i++) /* the default, 256 bytes, is more than our pointers keep */
        KAS_TRY(KAS_LT(cuda, cublasLtMatmulPreferenceSetAttribute(preference, of_matrix[i],
                                                                  &alignment, sizeof alignment)));
    return matmul->narrow ? add_parts_in_float32(cuda, preference) : KAS_OK;
}

/* ---- the algorithm: cuBLASLt's ranking, a choice among it, and the choice as text ------------ */

static kas_status list(kas_cuda *cuda, void *self, int *count)
{
    kas_matmul *m = self;
    cublasLtMatmulPreference_t preference = NULL;
    kas_status status;
    *count = 0;
    memset(m->candidate, 0, sizeof m->candidate);
    KAS_TRY(KAS_LT(cuda, cublasLtMatmulPreferenceCreate(&preference)));
    KAS_TRY_GOTO(set_preference(cuda, m, preference), done);
    KAS_TRY_GOTO(KAS_LT(cuda, cublasLtMatmulAlgoGetHeuristic(
                                  cuda->lt_handle, m->desc, m->a, m->b, m->d, m->d, preference,
                                  KAS_MAX_CANDIDATES, m->candidate, count)),
                 done);
done:
    cuda->lt->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static kas_status take(kas_cuda *cuda, void *self, int candidate)
{
    kas_matmul *m = self;
    const cublasLtMatmulHeuristicResult_t *result = &m->candidate[candidate];
    if (result->state != KAS_CUBLAS_SUCCESS)
        return kas_fail(KAS_UNSUPPORTED, "cuBLASLt refuses candidate %d", candidate);
    m->algo = result->algo;
    m->workspace_bytes = result->workspaceSize;
    return kas_cuda_reserve_workspace(cuda, m->workspace_bytes);
}

/* Writes an algorithm as "algorithm 0000000000000000 ...": 8 words. They are opaque, but NVIDIA
 * allows them to be kept for the same version of the library. */
static void write_algorithm(const void *self, int candidate, kas_buf *out)
{
    const cublasLtMatmulAlgo_t *algo = &((const kas_matmul *)self)->candidate[candidate].algo;
    kas_buf_puts(out, "algorithm");
    for (int i = 0; i < 8; i++)
        kas_buf_printf(out, " %016llx", (unsigned long long)algo->data[i]);
}

/* Checks an algorithm: the library has the last word on whether it fits the problem. */
static kas_status read_algorithm(kas_cuda *cuda, void *self, const char *line)
{
    kas_matmul *m = self;
    cublasLtMatmulHeuristicResult_t *result = &m->candidate[0];
    unsigned long long word[8];
    if (sscanf(line, "algorithm %llx %llx %llx %llx %llx %llx %llx %llx", &word[0], &word[1],
               &word[2], &word[3], &word[4], &word[5], &word[6], &word[7]) < 8)
        return kas_fail(KAS_BAD_INPUT, "\"%s\" is not an algorithm of cuBLASLt", line);
    memset(result, 0, sizeof *result);
    for (int i = 0; i < 8; i++)
        m->algo.data[i] = word[i];
    const cublasStatus_t answer = cuda->lt->cublasLtMatmulAlgoCheck(
        cuda->lt_handle, m->desc, m->a, m->b, m->d, m->d, &m->algo, result);
    if (answer != KAS_CUBLAS_SUCCESS || result->workspaceSize > cuda->most_workspace)
        return kas_fail(KAS_UNSUPPORTED, "cuBLASLt refuses it: %s",
                        cuda->lt->cublasLtGetStatusString(answer));
    m->workspace_bytes = result->workspaceSize;
    return kas_cuda_reserve_workspace(cuda, m->workspace_bytes);
}

static kas_status run(kas_cuda *cuda, const void *self, const kas_conv_operands *o)
{
    return kas_matmul_run(cuda, self, o);
}

static kas_status choose(kas_cuda *cuda, const kas_conv_desc *desc, kas_matmul *m)
{
    char library[64];
    snprintf(library, sizeof library, "cuBLASLt %s", cuda->lt->library.version);
    const kas_tuned tuned = {.name = library,
                             .self = m,
                             .list = list,
                             .take = take,
                             .write = write_algorithm,
                             .read = read_algorithm,
                             .run = run};
    return kas_tune_conv(cuda, desc, m->pass, m->beside, &tuned);
}

kas_status kas_matmul_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                             kas_conv_beside beside, kas_matmul **out)
{
    kas_status status;
    if (!cuda->lt_handle)
        return kas_fail(KAS_UNSUPPORTED, "no cuBLASLt");
    kas_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul)
        return kas_fail(KAS_NO_MEMORY, "no memory for a matrix product");
    matmul->pass = pass;
    matmul->beside = beside;
    KAS_TRY_GOTO(describe(cuda, desc, matmul), failed);
    KAS_TRY_GOTO(choose(cuda, desc, matmul), failed);
    *out = matmul;
    return KAS_OK;
failed:
    kas_matmul_free(cuda, matmul);
    return status;
}

void kas_matmul_free(kas_cuda *cuda, kas_matmul *matmul)
{
    if (!matmul)
        return;
    cublasLtMatrixLayout_t layouts[] = {matmul->a, matmul->b, matmul->d};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            cuda->lt->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (matmul->desc)
        cuda->lt->cublasLtMatmulDescDestroy(matmul->desc);
    free(matmul);
}

kas_status kas_matmul_run(kas_cuda *cuda, const kas_matmul *matmul, const kas_conv_operands *o)
{
    static const float one = 1.0f, zero = 0.0f;
    const kas_conv_pass pass = matmul->pass;
    const void *a = pass == KAS_CONV_BACKWARD_WEIGHTS ? o->x : o->w;
    const void *b = pass == KAS_CONV_FORWARD ? o->x : o->y;
    void *d = pass == KAS_CONV_FORWARD ? o->y : pass == KAS_CONV_BACKWARD_DATA ? o->x : o->w;
    const void *c = o->residual ? o->residual : d;
    if (!kas_conv_operands_are_aligned(o))
        return kas_fail(KAS_UNSUPPORTED, "an operand is not aligned to %d bytes", ALIGNMENT);
    if (matmul->beside.bias)
        KAS_TRY(set_bias(cuda, matmul, o->bias));
    return KAS_LT(cuda, cublasLtMatmul(cuda->lt_handle, matmul->desc, &one, a, matmul->a, b,
                                       matmul->b, o->residual ? &one : &zero, c, matmul->d, d,
                                       matmul->d, &matmul->algo, (void *)(uintptr_t)cuda->workspace,
                                       matmul->workspace_bytes, cuda->stream));
}
