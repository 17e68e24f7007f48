/* Convolution on the CPU: each pass by oneDNN where it has good code, else by our own loops. */
#include "host/device/cpu_conv.h"

#include <stdlib.h>

#include "host/core/log.h"

struct kas_conv {
    kas_device *device;
    kas_conv_desc desc;
    kas_dnnl_pass *library[3]; /* by pass; NULL: our loops */
    kas_wide_conv wide;        /* float16 with oneDNN */
    kas_loop_conv loops;
    float *wt; /* scratch of our loops */
};

static kas_status create_passes(kas_cpu *cpu, kas_conv *conv)
{
    bool loops = false, wide = false;
    kas_conv_desc desc = conv->desc;
    if (desc.number == KAS_F16)
        desc.number =
            KAS_F32; /* oneDNN's reorders of float16 are a hundred times slower than ours */
    for (int pass = 0; pass < 3; pass++) {
        kas_status status = KAS_UNSUPPORTED;
        if (cpu->use_library)
            status = kas_dnnl_pass_create(cpu, &desc, (kas_conv_pass)pass, &conv->library[pass]);
        wide = wide || (status == KAS_OK && desc.number != conv->desc.number);
        if (status == KAS_UNSUPPORTED)
            loops = true;
        else if (status != KAS_OK)
            return status;
    }
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
    for (int pass = 0; pass < 3; pass++)
        kas_dnnl_pass_free(conv->library[pass]);
    kas_wide_conv_free((kas_cpu *)conv->device, &conv->wide);
    kas_mem_free(conv->device, conv->wt);
    free(conv);
}

kas_status kas_cpu_conv_run(kas_conv *conv, kas_conv_pass pass, void *x, void *w, void *y)
{
    kas_cpu *cpu = (kas_cpu *)conv->device;
    if (conv->library[pass] && conv->wide.widen)
        return kas_wide_conv_run(cpu, &conv->wide, &conv->desc, conv->library[pass], pass, x, w, y);
    if (conv->library[pass])
        return kas_dnnl_pass_run(cpu, conv->library[pass], x, w, y);
    kas_loop_conv_run(cpu, &conv->loops, &conv->desc, pass, x, w, conv->wt, y);
    return KAS_OK;
}

const char *kas_conv_cpu_implementation(const kas_conv *conv, kas_conv_pass pass)
{
    return conv->library[pass] ? kas_dnnl_pass_name(conv->library[pass]) : "our loops";
}
