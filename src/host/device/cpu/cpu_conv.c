/* Convolution on the CPU: oneDNN runs a pass if it has good code for it, as matrix products where it is
 * a list of these, and otherwise our own kernels do, over lines of pixels where they can. oneDNN
 * computes epilogues at inference, except for activations that lose NaN there: for those our own
 * kernel makes a pass over y, in place. Kernels over lines add bias and residual, and all their
 * activations are such passes. */
#include "host/device/cpu/cpu_conv.h"

#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"

#include <stdlib.h>

/* FORWARD with an epilogue. */
typedef struct fused {
    kas_conv_epilogue epilogue;
    kas_dnnl_pass *pass;      /* NULL: lines */
    kas_function *activation; /* our own; NULL: none, or oneDNN's */
} fused;

struct kas_conv {
    kas_device *device;
    kas_conv_desc desc;
    kas_dnnl_pass *library[3];      /* by pass; NULL: another one of these, or our loops */
    kas_products *products[3];      /* by pass */
    bool lines[3];                  /* by pass */
    fused fused[KAS_EPILOGUES_MAX]; /* [fusions] */
    int fusions;
    kas_wide_conv wide; /* 16 bits with oneDNN, in float32 */
    kas_loop_conv loops;
    float *wt;      /* scratch of our loops */
    float *partial; /* scratch of lines */
};

/* oneDNN's reorders of float16, and without AVX-512 those of bf16, are a hundred times slower than
 * ours. */
static kas_conv_desc library_desc(const kas_conv *conv)
{
    kas_conv_desc desc = conv->desc;
    if (desc.dtype == KAS_F16 || !kas_cpu_avx512)
        desc.dtype = KAS_F32;
    return desc;
}

/* Creates a pass by oneDNN. KAS_UNSUPPORTED where it has none. */
static kas_status create_library(kas_cpu *cpu, kas_conv *conv, kas_conv_pass pass)
{
    const kas_conv_desc desc = library_desc(conv);
    if (!cpu->use_library)
        return KAS_UNSUPPORTED;
    if (kas_products_pay(&conv->desc, pass)) {
        const kas_status status = kas_products_create(cpu, &desc, pass, &conv->products[pass]);
        if (status != KAS_UNSUPPORTED)
            return status;
    }
    return kas_dnnl_pass_create(cpu, &desc, pass, NULL, &conv->library[pass]);
}

static kas_status create_passes(kas_cpu *cpu, kas_conv *conv)
{
    const int lanes = kas_cpu_avx2 ? kas_cpu_lanes() : 4;
    bool loops = false, wide = false;
    const kas_conv_desc desc = library_desc(conv);
    for (int pass = 0; pass < 3; pass++) {
        if (!kas_conv_uses(&conv->desc, (kas_conv_pass)pass))
            continue;
        conv->lines[pass] =
            cpu->use_library && kas_lines_pay(&conv->desc, (kas_conv_pass)pass, lanes);
        if (conv->lines[pass])
            continue;
        const kas_status status = create_library(cpu, conv, (kas_conv_pass)pass);
        wide = wide || (status == KAS_OK && desc.dtype != conv->desc.dtype);
        if (status == KAS_UNSUPPORTED)
            loops = true;
        else if (status != KAS_OK)
            return status;
    }
    if (conv->lines[KAS_CONV_BACKWARD_WEIGHTS])
        KAS_TRY(
            kas_mem_alloc(conv->device, kas_lines_partial(&conv->desc), (void **)&conv->partial));
    if (wide)
        KAS_TRY(kas_wide_conv_create(cpu, &conv->desc, &conv->wide));
    if (!loops)
        return KAS_OK;
    const kas_conv_desc *d = &conv->desc;
    const size_t weights =
        (size_t)d->c_out * d->kernel_h * d->kernel_w * (size_t)(d->c_in / d->groups);
    KAS_TRY(kas_mem_alloc(conv->device, weights * sizeof(float), (void **)&conv->wt));
    return kas_loop_conv_create(cpu, d, &conv->loops);
}

kas_status kas_cpu_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out)
{
    kas_conv *conv = calloc(1, sizeof *conv);
    if (!conv)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    conv->device = device;
    conv->desc = *desc;
    kas_cpu_use_threads((kas_cpu *)device);
    const kas_status status = create_passes((kas_cpu *)device, conv);
    if (status != KAS_OK) {
        kas_cpu_conv_free(conv);
        return status;
    }
    *out = conv;
    return KAS_OK;
}

void kas_cpu_conv_free(kas_conv *conv)
{
    for (int pass = 0; pass < 3; pass++) {
        kas_dnnl_pass_free(conv->library[pass]);
        kas_products_free(conv->products[pass]);
    }
    for (int i = 0; i < conv->fusions; i++)
        kas_dnnl_pass_free(conv->fused[i].pass);
    kas_wide_conv_free((kas_cpu *)conv->device, &conv->wide);
    kas_mem_free(conv->device, conv->wt);
    kas_mem_free(conv->device, conv->partial);
    free(conv);
}

/* ---- epilogue -------------------------------------------------------------------------------- */

/* Returns the prepared epilogue; NULL when there is none. */
static const fused *find_fused(const kas_conv *conv, kas_conv_epilogue e)
{
    for (int i = 0; i < conv->fusions; i++)
        if (conv->fused[i].epilogue.residual == e.residual &&
            conv->fused[i].epilogue.activation == e.activation)
            return &conv->fused[i];
    return NULL;
}

/* Returns whether oneDNN's activation loses NaN: its relu and clip turn NaN into 0 (2.6 with
 * AVX-512, alone and behind a convolution, float32 and bf16); its other functions keep it. */
static bool loses_nan(kas_activation activation)
{
    return activation == KAS_ACTIVATION_RELU || activation == KAS_ACTIVATION_RELU6 ||
           activation == KAS_ACTIVATION_HARD_SIGMOID;
}

/* Returns whether a pass of our own computes the activation. */
static bool is_own(const kas_conv *conv, kas_activation activation)
{
    return loses_nan(activation) ||
           (conv->lines[KAS_CONV_FORWARD] && activation != KAS_ACTIVATION_NONE);
}

/* Returns whether the epilogue can be computed. y is rounded before our own activation. The bounds
 * of ReLU and ReLU6 are exact in 16 bits, so nothing is rounded twice; other activations would
 * be. */
static bool can_be_done(const kas_conv *conv, kas_conv_epilogue e)
{
    return conv->desc.dtype == KAS_F32 || !is_own(conv, e.activation) ||
           e.activation == KAS_ACTIVATION_RELU || e.activation == KAS_ACTIVATION_RELU6;
}

static kas_status find_activation(const kas_conv *conv, kas_function **out)
{
    kas_module *module;
    KAS_TRY(kas_module_builtin(conv->device, conv->desc.dtype, &module));
    return kas_module_function(module, "kas_dev_activation_forward", out);
}

static void activate(const kas_conv *conv, const fused *f, void *y)
{
    const kas_conv_desc *d = &conv->desc;
    const kas_activation_args args = {.kept = y,
                                      .out = y,
                                      .rows = d->n * kas_conv_out_h(d) * kas_conv_out_w(d),
                                      .c = d->c_out,
                                      .pitch_kept = d->y_pitch,
                                      .pitch_out = d->y_pitch,
                                      .rows_per_block = d->c_out < 4096 ? 4096 / d->c_out : 1,
                                      .whole = d->c_out % 8 == 0 && d->y_pitch % 8 == 0 &&
                                               kas_is_aligned(y),
                                      .kind = (int)f->epilogue.activation};
    const unsigned blocks = (unsigned)((args.rows + args.rows_per_block - 1) / args.rows_per_block);
    kas_cpu_launch((const kas_cpu *)conv->device, f->activation, (unsigned[3]){blocks, 1, 1},
                   &args);
}

static kas_status create_fused(kas_cpu *cpu, kas_conv *conv, kas_conv_epilogue epilogue, fused *f)
{
    const kas_conv_desc desc = library_desc(conv);
    if (f->activation)
        epilogue.activation = KAS_ACTIVATION_NONE;
    kas_cpu_use_threads(cpu);
    if (epilogue.residual && conv->wide.widen)
        KAS_TRY(kas_wide_conv_add_residual(cpu, &conv->desc, &conv->wide));
    return kas_dnnl_pass_create(cpu, &desc, KAS_CONV_FORWARD, &epilogue, &f->pass);
}

/* Prepares nothing without oneDNN or lines, or when oneDNN refuses. */
kas_status kas_cpu_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue)
{
    kas_cpu *cpu = (kas_cpu *)conv->device;
    fused *f = &conv->fused[conv->fusions];
    const bool lines = conv->lines[KAS_CONV_FORWARD];
    if ((!conv->library[KAS_CONV_FORWARD] && !lines) || find_fused(conv, epilogue) ||
        !can_be_done(conv, epilogue) || conv->fusions == KAS_EPILOGUES_MAX)
        return KAS_OK;
    *f = (fused){.epilogue = epilogue};
    if (is_own(conv, epilogue.activation))
        KAS_TRY(find_activation(conv, &f->activation));
    const kas_status status = lines ? KAS_OK : create_fused(cpu, conv, epilogue, f);
    if (status != KAS_OK)
        return status == KAS_UNSUPPORTED ? KAS_OK : status;
    conv->fusions++;
    return KAS_OK;
}

bool kas_cpu_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                                 const kas_conv_call *call)
{
    (void)call;
    return find_fused(conv, epilogue) != NULL;
}

kas_status kas_cpu_conv_hold(kas_conv *conv, const kas_conv_epilogue *epilogue, const void *w)
{
    kas_cpu *cpu = (kas_cpu *)conv->device;
    const fused *f = epilogue ? find_fused(conv, *epilogue) : NULL;
    kas_dnnl_pass *pass = f ? f->pass : conv->library[KAS_CONV_FORWARD];
    void *weights = (void *)(uintptr_t)w;
    if (!pass || (epilogue && !f))
        return KAS_OK;
    kas_cpu_use_threads(cpu);
    if (conv->wide.widen)
        return kas_wide_conv_hold(cpu, &conv->wide, &conv->desc, pass, weights);
    return kas_dnnl_pass_hold(cpu, pass, weights, w);
}

/* ---- running --------------------------------------------------------------------------------- */

static kas_status run_library(const kas_step *step, kas_dnnl_pass *library,
                              const kas_cpu_call *call)
{
    const kas_conv *conv = step->conv;
    kas_cpu *cpu = (kas_cpu *)conv->device;
    if (conv->wide.widen)
        return kas_wide_conv_run(cpu, &conv->wide, &conv->desc, library, step->pass, call);
    return kas_dnnl_pass_run(cpu, library, call);
}

kas_status kas_cpu_conv_run(const kas_step *step)
{
    kas_conv *conv = step->conv;
    const fused *f = step->fused ? find_fused(conv, step->epilogue) : NULL;
    kas_dnnl_pass *library = f ? f->pass : conv->library[step->pass];
    const kas_cpu_call call = {.x = step->x,
                               .w = step->w,
                               .y = step->y,
                               .bias = step->bias,
                               .residual = (void *)(uintptr_t)step->residual,
                               .held = step->pass == KAS_CONV_FORWARD ? step->w : NULL};
    if (library)
        KAS_TRY(run_library(step, library, &call));
    else if (conv->products[step->pass])
        KAS_TRY(kas_products_run((kas_cpu *)conv->device, conv->products[step->pass], step->pass,
                                 &call));
    else if (conv->lines[step->pass])
        kas_lines_run((kas_cpu *)conv->device, &conv->desc, step->pass, &call, conv->partial);
    else
        kas_loop_conv_run((kas_cpu *)conv->device, &conv->loops, &conv->desc, step->pass, step->x,
                          step->w, conv->wt, step->y);
    if (f && f->activation)
        activate(conv, f, step->y);
    return KAS_OK;
}

const char *kas_conv_cpu_implementation(const kas_conv *conv, kas_conv_pass pass)
{
    if (conv->library[pass])
        return kas_dnnl_pass_name(conv->library[pass]);
    return conv->products[pass] ? "products" : conv->lines[pass] ? "lines" : "our loops";
}
