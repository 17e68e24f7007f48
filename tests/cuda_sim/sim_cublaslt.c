/* cuBLASLt: D = alpha op(A) op(B) + beta C, column-major, straight from that definition.
 *
 * Element (i, j) of a matrix with leading dimension ld lies at i + j ld; matrix g of a batch starts
 * g strides further on.  op(A) is m x k, op(B) k x n, D m x n. */
#include <math.h>
#include <string.h>

#include "sim.h"

enum { CUBLAS_INTERNAL_ERROR = 14, MAGIC = 0x4C54, ALGORITHMS = 3, WORKSPACE = 4096 };

struct cublasLtContext {
    int device;
};
struct cublasLtMatmulDescOpaque_s {
    int32_t trans_a, trans_b;
    uint32_t epilogue; /* 0: the default */
    void *bias;
    cublasComputeType_t compute;
    cudaDataType scale;
};
struct cublasLtMatrixLayoutOpaque_s {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t leading, stride;
    int32_t batch;
};
struct cublasLtMatmulPreferenceOpaque_s {
    uint64_t workspace;
    uint32_t alignment[4], reductions;
};

typedef struct cublasLtMatrixLayoutOpaque_s layout;
typedef struct problem {
    struct cublasLtMatmulDescOpaque_s desc;
    layout a, b, c, d;
} problem;

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == KAS_CUBLAS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                              : "CUBLAS_STATUS_OF_THE_STAND_IN";
}

#define LT_CALL(name) SIM_CALL(name, CUBLAS_INTERNAL_ERROR, 0)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    SIM_CALL(cublasLtCreate, KAS_CUBLAS_ALLOC_FAILED, 1 /* not initialized */);
    if (!sim_context)
        sim_broken("cublasLtCreate without a current context");
    *handle = sim_new(sizeof **handle);
    (*handle)->device = sim_context->device;
    sim_live++;
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    SIM_LOCKED();
    free(handle);
    sim_live--;
    return sim_call("cublasLtDestroy", CUBLAS_INTERNAL_ERROR, 0);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    LT_CALL(cublasLtMatmulDescCreate);
    *desc = sim_new(sizeof **desc);
    (*desc)->compute = compute;
    (*desc)->scale = scale;
    sim_live++;
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    SIM_LOCKED();
    free(desc);
    sim_live--;
    return sim_call("cublasLtMatmulDescDestroy", CUBLAS_INTERNAL_ERROR, 0);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    LT_CALL(cublasLtMatmulDescSetAttribute);
    const struct {
        int attribute;
        size_t size;
        void *to;
    } known[] = {{KAS_LT_DESC_TRANSA, sizeof desc->trans_a, &desc->trans_a},
                 {KAS_LT_DESC_TRANSB, sizeof desc->trans_b, &desc->trans_b},
                 {KAS_LT_DESC_EPILOGUE, sizeof desc->epilogue, &desc->epilogue},
                 {KAS_LT_DESC_BIAS_POINTER, sizeof desc->bias, &desc->bias}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (attribute == known[i].attribute && size == known[i].size) {
            memcpy(known[i].to, value, size);
            return KAS_CUBLAS_SUCCESS;
        }
    return KAS_CUBLAS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
    LT_CALL(cublasLtMatrixLayoutCreate);
    *out = sim_new(sizeof **out);
    **out = (layout){type, rows, columns, leading, 0, 1};
    sim_live++;
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    SIM_LOCKED();
    free(l);
    sim_live--;
    return sim_call("cublasLtMatrixLayoutDestroy", CUBLAS_INTERNAL_ERROR, 0);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size)
{
    LT_CALL(cublasLtMatrixLayoutSetAttribute);
    if (attribute == KAS_LT_LAYOUT_BATCH_COUNT && size == sizeof l->batch)
        memcpy(&l->batch, value, size);
    else if (attribute == KAS_LT_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof l->stride)
        memcpy(&l->stride, value, size);
    else
        return KAS_CUBLAS_INVALID_VALUE;
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    LT_CALL(cublasLtMatmulPreferenceCreate);
    *preference = sim_new(sizeof **preference);
    for (int i = 0; i < 4; i++)
        (*preference)->alignment[i] = 256;
    (*preference)->reductions = 7; /* all */
    sim_live++;
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    SIM_LOCKED();
    free(preference);
    sim_live--;
    return sim_call("cublasLtMatmulPreferenceDestroy", CUBLAS_INTERNAL_ERROR, 0);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    LT_CALL(cublasLtMatmulPreferenceSetAttribute);
    if (attribute == KAS_LT_PREFERENCE_MAX_WORKSPACE && size == sizeof preference->workspace)
        memcpy(&preference->workspace, value, size);
    else if (attribute == KAS_LT_PREFERENCE_REDUCTION_SCHEMES &&
             size == sizeof preference->reductions)
        memcpy(&preference->reductions, value, size);
    else if (attribute >= KAS_LT_PREFERENCE_ALIGNMENT_A &&
             attribute <= KAS_LT_PREFERENCE_ALIGNMENT_D && size == sizeof(uint32_t))
        memcpy(&preference->alignment[attribute - KAS_LT_PREFERENCE_ALIGNMENT_A], value, size);
    else
        return KAS_CUBLAS_INVALID_VALUE;
    return KAS_CUBLAS_SUCCESS;
}

/* ---- the product ----------------------------------------------------------------------------- */

static sim_number number_of(const layout *l)
{
    return l->type == KAS_CUDA_R_32F ? SIM_F32 : l->type == KAS_CUDA_R_16F ? SIM_F16 : SIM_BF16;
}

static bool good_layout(const layout *l)
{
    return (l->type == KAS_CUDA_R_32F || l->type == KAS_CUDA_R_16F || l->type == KAS_CUDA_R_16BF) &&
           l->rows > 0 && l->columns > 0 && l->leading >= (int64_t)l->rows && l->batch >= 1;
}

/* Returns whether a batch of outputs does not overlap itself: its matrices either follow each other
 * or interleave within a column. */
static bool good_output(const layout *l)
{
    return l->batch == 1 ||
           l->stride >= l->leading * (int64_t)(l->columns - 1) + (int64_t)l->rows ||
           (l->stride >= (int64_t)l->rows &&
            l->stride * (l->batch - 1) + (int64_t)l->rows <= l->leading);
}

/* Returns whether the epilogue is one that kas-gpu uses, with one matrix. A bias has D's type,
 * unless an attribute that is not known here says otherwise. */
static bool good_epilogue(const problem *p)
{
    const uint32_t e = p->desc.epilogue;
    return !e || ((e == KAS_LT_EPILOGUE_BIAS || e == KAS_LT_EPILOGUE_RELU_BIAS ||
                   e == KAS_LT_EPILOGUE_BGRADB) &&
                  p->desc.bias && (uintptr_t)p->desc.bias % 16 == 0 && p->d.batch == 1);
}

static bool good_problem(const problem *p)
{
    const bool ta = p->desc.trans_a == KAS_CUBLAS_OP_T, tb = p->desc.trans_b == KAS_CUBLAS_OP_T;
    const uint64_t m = ta ? p->a.columns : p->a.rows, k = ta ? p->a.rows : p->a.columns,
                   k2 = tb ? p->b.columns : p->b.rows, n = tb ? p->b.rows : p->b.columns;
    return (p->desc.compute == KAS_CUBLAS_COMPUTE_32F ||
            p->desc.compute == KAS_CUBLAS_COMPUTE_32F_FAST_TF32) &&
           p->desc.scale == KAS_CUDA_R_32F && good_layout(&p->a) && good_layout(&p->b) &&
           good_layout(&p->d) && good_output(&p->d) && m == p->d.rows && n == p->d.columns &&
           k == k2 && p->a.batch == p->d.batch && p->b.batch == p->d.batch &&
           memcmp(&p->c, &p->d, sizeof p->c) == 0 && good_epilogue(p);
}

static uint64_t fingerprint(const problem *p)
{
    const layout *l[] = {&p->a, &p->b, &p->d};
    uint64_t hash =
        ((uint64_t)p->desc.trans_a * 31 + (uint64_t)p->desc.trans_b) * 1000003 + p->desc.epilogue;
    for (int i = 0; i < 3; i++)
        hash = (((hash * 1000003 + l[i]->rows) * 1000003 + l[i]->columns) * 1000003 +
                (uint64_t)l[i]->leading) *
                   1000003 +
               (uint64_t)l[i]->stride;
    return hash;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    SIM_CALL(cublasLtMatmulAlgoGetHeuristic, CUBLAS_INTERNAL_ERROR, CUBLAS_INTERNAL_ERROR);
    (void)handle;
    const problem p = {*desc, *a, *b, *c, *d};
    *found = 0;
    if (wanted < 1 || !good_problem(&p))
        return KAS_CUBLAS_INVALID_VALUE;
    if (d->type != KAS_CUDA_R_32F && preference->reductions != KAS_LT_REDUCTION_IN_COMPUTE_TYPE)
        sim_broken("cublasLtMatmulAlgoGetHeuristic: partial sums of 16 bits are allowed");
    if (sim_refuses("cublasLt"))
        return KAS_CUBLAS_NOT_SUPPORTED;
    /* The first is not the fastest, and the last is refused. */
    static const int microseconds[ALGORITHMS] = {300, 100, 50};
    *found = wanted < ALGORITHMS ? wanted : ALGORITHMS;
    memset(results, 0, (size_t)*found * sizeof *results);
    for (int i = 0; i < *found; i++) {
        results[i].algo.data[0] = MAGIC;
        results[i].algo.data[1] = fingerprint(&p);
        results[i].algo.data[2] = preference->alignment[0];
        results[i].algo.data[3] = (uint64_t)microseconds[i];
        results[i].workspaceSize = preference->workspace < WORKSPACE ? 0 : WORKSPACE;
        results[i].state = i == ALGORITHMS - 1 ? KAS_CUBLAS_NOT_SUPPORTED : KAS_CUBLAS_SUCCESS;
    }
    return KAS_CUBLAS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    SIM_CALL(cublasLtMatmulAlgoCheck, CUBLAS_INTERNAL_ERROR, CUBLAS_INTERNAL_ERROR);
    (void)handle;
    const problem p = {*desc, *a, *b, *c, *d};
    if (!good_problem(&p) || algo->data[0] != MAGIC)
        return KAS_CUBLAS_INVALID_VALUE;
    if (algo->data[1] != fingerprint(&p) || sim_refuses("cublasLt"))
        return KAS_CUBLAS_NOT_SUPPORTED;
    result->workspaceSize = WORKSPACE;
    return KAS_CUBLAS_SUCCESS;
}

typedef struct product {
    problem p;
    const void *a, *b, *c; /* c: NULL where beta is 0 */
    void *d, *workspace;
    size_t workspace_bytes;
    int device, microseconds;
} product;

static size_t extent(const layout *l)
{
    return sim_number_size(number_of(l)) *
           (size_t)(l->stride * (l->batch - 1) + l->leading * (int64_t)(l->columns - 1) +
                    (int64_t)l->rows);
}

static void check_product(const product *w)
{
    sim_check_range("cublasLtMatmul's A", w->device, w->a, extent(&w->p.a));
    sim_check_range("cublasLtMatmul's B", w->device, w->b, extent(&w->p.b));
    sim_check_range("cublasLtMatmul's D", w->device, w->d, extent(&w->p.d));
    if (w->c)
        sim_check_range("cublasLtMatmul's C", w->device, w->c, extent(&w->p.c));
    if (w->p.desc.epilogue)
        sim_check_range(
            "cublasLtMatmul's bias", w->device, w->p.desc.bias,
            sim_number_size(number_of(&w->p.d)) *
                (w->p.desc.epilogue == KAS_LT_EPILOGUE_BGRADB ? w->p.d.columns : w->p.d.rows));
    if (w->workspace_bytes)
        sim_check_range("cublasLtMatmul's workspace", w->device, w->workspace, w->workspace_bytes);
}

static double element(const void *matrix, const layout *l, int g, int32_t trans, uint64_t i,
                      uint64_t j)
{
    const uint64_t at =
        trans == KAS_CUBLAS_OP_T ? j + i * (uint64_t)l->leading : i + j * (uint64_t)l->leading;
    return sim_load(number_of(l), matrix, g * l->stride + (int64_t)at);
}

static uint64_t depth_of(const problem *p)
{
    return p->desc.trans_a == KAS_CUBLAS_OP_T ? p->a.rows : p->a.columns;
}

/* Computes the sums of op(B)'s columns. */
static void do_bias_gradient(const product *w)
{
    const problem *p = &w->p;
    for (uint64_t j = 0; j < p->d.columns; j++) {
        double sum = 0;
        for (uint64_t l = 0; l < depth_of(p); l++)
            sum += element(w->b, &p->b, 0, p->desc.trans_b, l, j);
        sim_store(number_of(&p->d), p->desc.bias, (int64_t)j, sum);
    }
}

/* Returns what is stored for a sum, alpha op(A) op(B) + beta C. */
static double finished(const problem *p, uint64_t row, double sum)
{
    if (p->desc.epilogue == KAS_LT_EPILOGUE_BIAS || p->desc.epilogue == KAS_LT_EPILOGUE_RELU_BIAS)
        sum += sim_load(number_of(&p->d), p->desc.bias, (int64_t)row);
    if (p->desc.epilogue != KAS_LT_EPILOGUE_RELU_BIAS || sum > 0)
        return sum;
    return isnan(sum) && !sim_loses_nan("cublasLt") ? sum : 0;
}

static void do_product(void *data)
{
    const product *w = data;
    const problem *p = &w->p;
    const uint64_t k = depth_of(p);
    check_product(w);
    memset(w->workspace, 0xA5, w->workspace_bytes);
    for (int g = 0; g < p->d.batch; g++)
        for (uint64_t j = 0; j < p->d.columns; j++)
            for (uint64_t i = 0; i < p->d.rows; i++) {
                double sum = w->c ? element(w->c, &p->c, g, KAS_CUBLAS_OP_N, i, j) : 0;
                for (uint64_t l = 0; l < k; l++)
                    sum += element(w->a, &p->a, g, p->desc.trans_a, i, l) *
                           element(w->b, &p->b, g, p->desc.trans_b, l, j);
                sim_store(number_of(&p->d), w->d,
                          g * p->d.stride + (int64_t)(i + j * (uint64_t)p->d.leading),
                          finished(p, i, sum));
            }
    if (p->desc.epilogue == KAS_LT_EPILOGUE_BGRADB)
        do_bias_gradient(w);
    sim_pass_time(w->microseconds);
    sim_matmuls++;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    SIM_CALL(cublasLtMatmul, KAS_CUBLAS_EXECUTION_FAILED, KAS_CUBLAS_EXECUTION_FAILED);
    const problem p = {*desc, *a_layout, *b_layout, *c_layout, *d_layout};
    const bool adds = *(const float *)beta == 1.0f;
    if (handle->device != sim_stream_device(stream) || !good_problem(&p) ||
        *(const float *)alpha != 1.0f || (!adds && (*(const float *)beta != 0.0f || c != d)))
        return KAS_CUBLAS_INVALID_VALUE;
    if (algo->data[0] != MAGIC || algo->data[1] != fingerprint(&p))
        sim_broken("cublasLtMatmul: the algorithm was chosen for another problem");
    if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % algo->data[2])
        sim_broken("cublasLtMatmul: an operand is not aligned to the %d bytes that were promised",
                   (int)algo->data[2]);
    product *w = sim_new(sizeof *w);
    *w = (product){p,
                   a,
                   b,
                   adds ? c : NULL,
                   d,
                   workspace,
                   workspace_bytes,
                   handle->device,
                   (int)algo->data[3]};
    check_product(w);
    sim_enqueue(stream, do_product, w, sizeof *w);
    return KAS_CUBLAS_SUCCESS;
}
