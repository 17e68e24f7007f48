/* cuDNN: convolution on channels-last tensors, from the definition, by the strides of the
 * descriptors (sim_cudnn_graph.c). */
#include <math.h>
#include <string.h>

#include "sim_dnn.h"

enum { CUDNN_INTERNAL_ERROR = 4000, WORKSPACE = 1000 /* for each image */ };

/* Like a real ranking: engines that may not be taken stand before those that may, and the first
 * that may is not the fastest. More are compiled than are worth it, and many of the fallbacks refuse. */
const sim_engine sim_engines[SIM_ENGINES] = {
    {.id = 9, .tile = 3, .note = -1, .compiled = true, .microseconds = 20000},
    {.id = 9, .tile = 4, .note = -1, .compiled = true, .microseconds = 20000},
    {.id = 9, .tile = 5, .note = -1, .compiled = true, .microseconds = 1},
    {.id = 10, .note = KAS_DNN_NOTE_NONDETERMINISTIC, .microseconds = 1},
    {.id = 11, .note = KAS_DNN_NOTE_TENSOR_CORE, .microseconds = 500},
    {.id = 16, .note = KAS_DNN_NOTE_WINOGRAD_4X4, .microseconds = 1},
    {.id = 12, .note = -1, .refuses = true, .microseconds = 1},
    {.id = 13, .tile = 1, .note = -1, .microseconds = 3000},
    {.id = 13, .tile = 2, .note = -1, .microseconds = 1000},
    {.id = 14, .note = -1, .fallback = true, .microseconds = 9000},
    [10 ... SIM_ENGINES - 1] = {.id = 15, .note = -1, .refuses = true, .fallback = true},
};

size_t cudnnGetCudartVersion(void)
{
    return 13000;
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    if (status / 1000 == KAS_CUDNN_BAD_PARAM / 1000)
        return "CUDNN_STATUS_BAD_PARAM";
    return status == KAS_CUDNN_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                             : "CUDNN_STATUS_OF_THE_STAND_IN";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    if (size)
        message[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    SIM_CALL(cudnnCreate, KAS_CUDNN_DEVICE_ALLOCATION_FAILED, 1001 /* not initialized */);
    if (!sim_context)
        sim_broken("cudnnCreate without a current context");
    *handle = sim_new(sizeof **handle);
    (*handle)->device = sim_context->device;
    sim_live++;
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    SIM_LOCKED();
    free(handle);
    sim_live--;
    return sim_call("cudnnDestroy", CUDNN_INTERNAL_ERROR, 0);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    SIM_CALL(cudnnSetStream, CUDNN_INTERNAL_ERROR, 0);
    if (sim_stream_device(stream) != handle->device)
        return KAS_CUDNN_BAD_PARAM;
    handle->stream = stream;
    return KAS_CUDNN_SUCCESS;
}

/* ---- what is taken --------------------------------------------------------------------------- */

static int64_t groups_of(const sim_conv *c)
{
    return c->x.size[1] / c->w.size[1];
}

bool sim_conv_fits(const sim_conv *c)
{
    if (c->w.size[1] < 1 || c->x.size[1] % c->w.size[1] || c->w.size[0] % groups_of(c) ||
        c->x.size[0] != c->y.size[0] || c->w.size[0] != c->y.size[1])
        return false;
    for (int i = 0; i < 2; i++) {
        const int64_t span = c->dilation[i] * (c->w.size[2 + i] - 1) + 1;
        if (c->dilation[i] < 1 || c->stride[i] < 1 || c->pad[i] < 0 ||
            (c->x.size[2 + i] + 2 * c->pad[i] - span) / c->stride[i] + 1 != c->y.size[2 + i])
            return false;
    }
    return true;
}

static bool is_bias(const sim_pointwise *p)
{
    return p->binary && p->b.size[0] == 1 && p->b.size[2] == 1 && p->b.size[3] == 1;
}

static bool supported_behind(const sim_conv *c)
{
    int stage = 0; /* 1: the tensor like y, 2: that of the channels, 3: the activation */
    for (int i = 0; i < c->behind; i++) {
        const sim_pointwise *p = &c->op[i];
        const int next = !p->binary ? 3 : is_bias(p) ? 2 : 1;
        if (next <= stage || (p->binary && (p->b.type != c->x.type || p->b.stride[1] != 1)))
            return false;
        stage = next;
    }
    return c->pass == SIM_FORWARD || !c->behind;
}

bool sim_conv_supported(const sim_conv *c)
{
    return c->x.type == c->w.type && c->x.type == c->out.type && c->x.stride[1] == 1 &&
           c->y.stride[1] == 1 && c->w.stride[1] == 1 && supported_behind(c) &&
           !sim_refuses("cudnn");
}

size_t sim_conv_workspace(const sim_conv *c)
{
    return (size_t)c->x.size[0] * WORKSPACE;
}

static sim_number number_of(const sim_tensor *t)
{
    return t->type == KAS_CUDNN_DATA_FLOAT  ? SIM_F32
           : t->type == KAS_CUDNN_DATA_HALF ? SIM_F16
                                            : SIM_BF16;
}

/* Returns what a tensor core sees of a float32: 10 bits of its fraction. */
static double tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0xFFF + (bits >> 13 & 1)) & ~(uint32_t)0x1FFF;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* ---- the three passes ------------------------------------------------------------------------ */

typedef struct job {
    sim_conv c;
    int device, microseconds;
    unsigned char stamp; /* what the job keeps in its workspace */
    bool tf32, loses_nan;
    void *memory[SIM_OPERANDS], *workspace;
} job;

static int64_t extent(const sim_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < 4; i++)
        last += (t->size[i] - 1) * t->stride[i];
    return last + 1;
}

static size_t bytes_of(const sim_tensor *t)
{
    return (size_t)extent(t) * sim_number_size(number_of(t));
}

static void check_job(const job *j)
{
    sim_check_range("a convolution's x", j->device, j->memory[0], bytes_of(&j->c.x));
    sim_check_range("a convolution's w", j->device, j->memory[1], bytes_of(&j->c.w));
    sim_check_range("a convolution's y", j->device, j->memory[2], bytes_of(&j->c.out));
    for (int i = 0; i < j->c.behind; i++)
        if (j->c.op[i].binary)
            sim_check_range("what is added to a convolution", j->device, j->memory[3 + i],
                            bytes_of(&j->c.op[i].b));
    sim_check_range("a convolution's workspace", j->device, j->workspace,
                    sim_conv_workspace(&j->c));
}

static int64_t at(const sim_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return n * t->stride[0] + c * t->stride[1] + h * t->stride[2] + w * t->stride[3];
}

static double *unpack(const job *j, const sim_tensor *t, const void *memory)
{
    const int64_t count = extent(t);
    double *values = sim_new((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        const float value = sim_load(number_of(t), memory, i);
        values[i] = j->tf32 ? tf32(value) : (double)value;
    }
    return values;
}

/* Computes the channels of one tap: y[k] += x[c] w[k][c], or one of its two transposes. */
static void one_tap(const sim_conv *c, double *x, double *w, double *y)
{
    for (int64_t i = 0; i < c->w.size[1]; i++)
        if (c->pass == SIM_FORWARD)
            *y += x[i] * w[i];
        else if (c->pass == SIM_DATA)
            x[i] += *y * w[i];
        else
            w[i] += *y * x[i];
}

static void one_output(const sim_conv *c, double *x, double *w, double *y, const int64_t o[4])
{
    const int64_t first = o[1] / (c->w.size[0] / groups_of(c)) * c->w.size[1];
    for (int64_t r = 0; r < c->w.size[2]; r++)
        for (int64_t s = 0; s < c->w.size[3]; s++) {
            const int64_t h = o[2] * c->stride[0] + r * c->dilation[0] - c->pad[0],
                          k = o[3] * c->stride[1] + s * c->dilation[1] - c->pad[1];
            if (h >= 0 && h < c->x.size[2] && k >= 0 && k < c->x.size[3])
                one_tap(c, x + at(&c->x, o[0], first, h, k), w + at(&c->w, o[1], 0, r, s),
                        y + at(&c->y, o[0], o[1], o[2], o[3]));
        }
}

static void all_outputs(const sim_conv *c, double *x, double *w, double *y)
{
    int64_t o[4];
    for (o[0] = 0; o[0] < c->y.size[0]; o[0]++)
        for (o[1] = 0; o[1] < c->y.size[1]; o[1]++)
            for (o[2] = 0; o[2] < c->y.size[2]; o[2]++)
                for (o[3] = 0; o[3] < c->y.size[3]; o[3]++)
                    one_output(c, x, w, y, o);
}

/* Writes only what belongs to the tensor: what lies between its pixels stays. */
static void store(const sim_tensor *t, const double *values, void *memory)
{
    for (int64_t n = 0; n < t->size[0]; n++)
        for (int64_t h = 0; h < t->size[2]; h++)
            for (int64_t w = 0; w < t->size[3]; w++)
                for (int64_t c = 0; c < t->size[1]; c++)
                    sim_store(number_of(t), memory, at(t, n, c, h, w), values[at(t, n, c, h, w)]);
}

/* ---- what stands behind ---------------------------------------------------------------------- */

/* fmin and fmax give the operand that is no NaN. */
static double activated(const job *j, const sim_pointwise *p, double x)
{
    switch (p->mode) {
    case KAS_DNN_MODE_RELU:
        return isnan(x) && p->keeps_nan && !j->loses_nan ? x : fmin(fmax(x, 0), p->upper_clip);
    case KAS_DNN_MODE_SIGMOID:
        return 1 / (1 + exp(-x));
    case KAS_DNN_MODE_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    default:
        return x / (1 + exp(-p->swish_beta * x)); /* swish */
    }
}

static double added(const job *j, int i, const int64_t o[4])
{
    const sim_tensor *b = &j->c.op[i].b;
    const bool bias = is_bias(&j->c.op[i]);
    return sim_load(number_of(b), j->memory[3 + i],
                    bias ? at(b, 0, o[1], 0, 0) : at(b, o[0], o[1], o[2], o[3]));
}

static void pass_through(const job *j, double *y)
{
    const sim_conv *c = &j->c;
    int64_t o[4];
    for (o[0] = 0; o[0] < c->y.size[0]; o[0]++)
        for (o[1] = 0; o[1] < c->y.size[1]; o[1]++)
            for (o[2] = 0; o[2] < c->y.size[2]; o[2]++)
                for (o[3] = 0; o[3] < c->y.size[3]; o[3]++) {
                    double *value = &y[at(&c->y, o[0], o[1], o[2], o[3])];
                    for (int i = 0; i < c->behind; i++)
                        *value = c->op[i].binary ? *value + added(j, i, o)
                                                 : activated(j, &c->op[i], *value);
                }
}

/* A convolution is queued as two jobs: what the first puts into the workspace must still be there
 * when the second runs. */
static void fill_workspace(void *data)
{
    const job *j = data;
    check_job(j);
    memset(j->workspace, j->stamp, sim_conv_workspace(&j->c));
}

static void check_workspace(const job *j)
{
    const unsigned char *byte = j->workspace;
    for (size_t i = 0; i < sim_conv_workspace(&j->c); i++)
        if (byte[i] != j->stamp)
            sim_broken("a convolution's workspace was written by somebody else");
}

static void do_job(void *data)
{
    const job *j = data;
    const sim_conv *c = &j->c;
    const sim_tensor *tensor[3] = {&c->x, &c->w, &c->y};
    const int out = c->pass == SIM_FORWARD ? 2 : c->pass == SIM_DATA ? 0 : 1;
    double *values[3];
    check_job(j);
    check_workspace(j);
    for (int i = 0; i < 3; i++)
        values[i] = i == out ? sim_new((size_t)extent(tensor[i]) * sizeof **values)
                             : unpack(j, tensor[i], j->memory[i]);
    all_outputs(c, values[0], values[1], values[2]);
    pass_through(j, values[2]);
    store(out == 2 ? &c->out : tensor[out], values[out], j->memory[out]);
    for (int i = 0; i < 3; i++)
        free(values[i]);
    sim_pass_time(j->microseconds);
    sim_convolutions++;
}

void sim_conv_queue(cudnnHandle_t handle, const sim_conv *c, const sim_engine *engine,
                    void *const memory[SIM_OPERANDS], void *workspace)
{
    static unsigned char stamps;
    job *begin = sim_new(sizeof *begin), *j = sim_new(sizeof *j);
    *j = (job){.c = *c,
               .device = handle->device,
               .microseconds = engine->microseconds,
               .tf32 = engine->note == KAS_DNN_NOTE_TENSOR_CORE,
               .loses_nan =
                   sim_loses_nan("cudnn") || (engine->tile == 2 && sim_loses_nan("fastest")),
               .workspace = workspace,
               .stamp = ++stamps};
    memcpy(j->memory, memory, sizeof j->memory);
    check_job(j);
    *begin = *j;
    sim_enqueue(handle->stream, fill_workspace, begin, sizeof *begin);
    sim_enqueue(handle->stream, do_job, j, sizeof *j);
}
