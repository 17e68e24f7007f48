/* The dispatcher: chooses a device and passes calls to its table. */
#include "host/device/device.h"

#include <stdio.h>
#include <string.h>

#include "host/core/integer.h"
#include "host/core/log.h"
#include "host/device/backend.h"

static bool read_ordinals(const char *at, kas_device_spec *out)
{
    for (;; at++) {
        char part[8];
        int64_t ordinal;
        const size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        if (length >= sizeof part || out->ordinals == KAS_MAX_DEVICES ||
            !kas_integer_read(part, 0, KAS_MAX_DEVICES - 1, &ordinal))
            return false;
        out->ordinal[out->ordinals++] = (int)ordinal;
        at += length;
        if (!*at)
            return true;
    }
}

kas_status kas_device_spec_read(const char *text, kas_device_spec *out)
{
    const bool automatic = strcmp(text, "auto") == 0, named = strncmp(text, "cuda:", 5) == 0;
    *out = (kas_device_spec){.cpu = automatic || strcmp(text, "cpu") == 0,
                             .cuda = automatic || named || strcmp(text, "cuda") == 0};
    if ((out->cpu || out->cuda) && (!named || read_ordinals(text + 5, out)))
        return KAS_OK;
    return kas_fail(KAS_USAGE,
                    "--device: expected auto, cpu, cuda or cuda: and numbers of GPUs from 0 to %d "
                    "such as cuda:0,1, found \"%s\"",
                    KAS_MAX_DEVICES - 1, text);
}

kas_status kas_device_open(const char *spec, int threads, kas_device **out)
{
    kas_device_spec asked;
    *out = NULL;
    if (threads < 0 || threads > 4096)
        return kas_fail(KAS_USAGE, "threads %d: expected 1 to 4096, or 0 for all cores", threads);
    KAS_TRY(kas_device_spec_read(spec, &asked));
    if (asked.ordinals > 1)
        return kas_fail(KAS_USAGE, "--device: expected one GPU, such as cuda:%d, found \"%s\"",
                        asked.ordinal[0], spec);
    if (asked.cuda) {
        const kas_status status = kas_device_open_cuda(asked.ordinal[0], out);
        if (status == KAS_OK || !asked.cpu)
            return status;
        kas_debug("no GPU is used: %s", kas_error());
    }
    return kas_device_open_cpu(threads, out);
}

void kas_device_close(kas_device *device)
{
    if (device)
        device->backend->close(device);
}

const char *const kas_dtype_names[] = {"fp32", "bf16", "fp16", NULL};

const kas_device_info *kas_device_get_info(const kas_device *device)
{
    return &device->info;
}

/* Returns the table of the device that created `object`. */
static const kas_backend *backend_of(const void *object)
{
    return ((const struct kas_object *)object)->device->backend;
}

kas_status kas_mem_alloc(kas_device *device, size_t bytes, void **out)
{
    *out = NULL;
    return device->backend->mem_alloc(device, bytes, out);
}

void kas_mem_free(kas_device *device, void *memory)
{
    if (memory)
        device->backend->mem_free(device, memory);
}

kas_status kas_mem_upload(kas_device *device, void *to_device, const void *from_host, size_t bytes)
{
    return device->backend->mem_upload(device, to_device, from_host, bytes);
}

kas_status kas_mem_download(kas_device *device, void *to_host, const void *from_device,
                            size_t bytes)
{
    return device->backend->mem_download(device, to_host, from_device, bytes);
}

kas_status kas_mem_zero(kas_device *device, void *memory, size_t bytes)
{
    return device->backend->mem_zero(device, memory, bytes);
}

kas_status kas_mem_download_later(kas_device *device, void *to_host, const void *from_device,
                                  size_t bytes)
{
    return device->backend->mem_download_later(device, to_host, from_device, bytes);
}

kas_status kas_host_alloc(kas_device *device, size_t bytes, void **out)
{
    *out = NULL;
    return device->backend->host_alloc(device, bytes, out);
}

void kas_host_free(kas_device *device, void *memory)
{
    if (memory)
        device->backend->host_free(device, memory);
}

kas_status kas_upload_create(kas_device *device, int slots, kas_upload **out)
{
    *out = NULL;
    if (slots < 1 || slots > 64)
        return kas_fail(KAS_DEVICE, "a ring of %d uploads: expected 1 to 64", slots);
    return device->backend->upload_create(device, slots, out);
}

void kas_upload_free(kas_upload *upload)
{
    if (upload)
        upload->device->backend->upload_free(upload);
}

static kas_status check_slot(const kas_upload *upload, int slot)
{
    if (slot < 0 || slot >= upload->slots)
        return kas_fail(KAS_DEVICE, "upload slot %d of a ring of %d", slot, upload->slots);
    return KAS_OK;
}

kas_status kas_upload_start(kas_upload *upload, int slot, void *to_device, const void *from_host,
                            size_t bytes)
{
    KAS_TRY(check_slot(upload, slot));
    return upload->device->backend->upload_start(upload, slot, to_device, from_host, bytes);
}

kas_status kas_upload_use(kas_upload *upload, int slot)
{
    KAS_TRY(check_slot(upload, slot));
    return upload->device->backend->upload_use(upload, slot);
}

kas_status kas_upload_done(kas_upload *upload, int slot)
{
    KAS_TRY(check_slot(upload, slot));
    return upload->device->backend->upload_done(upload, slot);
}

kas_status kas_upload_wait(kas_upload *upload, int slot)
{
    KAS_TRY(check_slot(upload, slot));
    return upload->device->backend->upload_wait(upload, slot);
}

kas_status kas_module_load(kas_device *device, const char *image_path, kas_module **out)
{
    *out = NULL;
    return device->backend->module_load(device, image_path, out);
}

kas_status kas_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out)
{
    *out = NULL;
    return device->backend->module_builtin(device, dtype, out);
}

void kas_module_free(kas_module *module)
{
    if (module)
        backend_of(module)->module_free(module);
}

kas_status kas_module_function(kas_module *module, const char *name, kas_function **out)
{
    *out = NULL;
    return backend_of(module)->module_function(module, name, out);
}

/* Checks a descriptor; both devices rely on it. */
static kas_status check_conv(const kas_conv_desc *d)
{
    if (d->n < 1 || d->h < 1 || d->w < 1 || d->c_in < 1 || d->c_out < 1 || d->groups < 1 ||
        d->kernel_h < 1 || d->kernel_w < 1 || d->stride < 1 || d->pad_h < 0 || d->pad_w < 0 ||
        d->dilation < 0)
        return kas_fail(
            KAS_BAD_INPUT,
            "convolution: n %d, h %d, w %d, c_in %d, c_out %d, groups %d, kernel "
            "%dx%d, stride %d must be at least 1, padding %d,%d and dilation %d at least 0",
            d->n, d->h, d->w, d->c_in, d->c_out, d->groups, d->kernel_h, d->kernel_w, d->stride,
            d->pad_h, d->pad_w, d->dilation);
    if (d->c_in % d->groups || d->c_out % d->groups)
        return kas_fail(KAS_BAD_INPUT, "convolution: %d groups do not divide %d and %d channels",
                        d->groups, d->c_in, d->c_out);
    if (d->x_pitch < d->c_in || d->y_pitch < d->c_out)
        return kas_fail(KAS_BAD_INPUT, "convolution: pitches %d, %d are below channels %d, %d",
                        d->x_pitch, d->y_pitch, d->c_in, d->c_out);
    if ((unsigned)d->dtype >= KAS_DTYPES || (d->tf32 && d->dtype != KAS_F32))
        return kas_fail(KAS_BAD_INPUT,
                        "convolution: dtype %d%s: expected 0 (fp32), 1 (bf16) or 2 (fp16), and "
                        "TF32 with fp32 alone",
                        (int)d->dtype, d->tf32 ? " with TF32" : "");
    if (d->h + 2 * d->pad_h < kas_conv_span(d, d->kernel_h) ||
        d->w + 2 * d->pad_w < kas_conv_span(d, d->kernel_w))
        return kas_fail(KAS_BAD_INPUT,
                        "convolution: kernel %dx%d of dilation %d is larger than the padded image",
                        d->kernel_h, d->kernel_w, kas_conv_dilation(d));
    return KAS_OK;
}

kas_status kas_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out)
{
    *out = NULL;
    KAS_TRY(check_conv(desc));
    return device->backend->conv_create(device, desc, out);
}

void kas_conv_free(kas_conv *conv)
{
    if (conv)
        backend_of(conv)->conv_free(conv);
}

kas_status kas_conv_add_bias(kas_conv *conv)
{
    const kas_backend *backend = backend_of(conv);
    return backend->conv_add_bias ? backend->conv_add_bias(conv) : KAS_OK;
}

bool kas_conv_takes_bias(const kas_conv *conv, kas_conv_pass pass, const void *x, const void *w,
                         const void *y, const void *bias)
{
    const kas_backend *backend = backend_of(conv);
    return backend->conv_takes_bias && backend->conv_takes_bias(conv, pass, x, w, y, bias);
}

kas_status kas_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue)
{
    const kas_backend *backend = backend_of(conv);
    if (epilogue.residual && epilogue.activation > KAS_ACTIVATION_RELU)
        return kas_fail(KAS_BAD_INPUT,
                        "convolution: activation %d with a residual; expected none or ReLU",
                        (int)epilogue.activation);
    return backend->conv_add_epilogue ? backend->conv_add_epilogue(conv, epilogue) : KAS_OK;
}

bool kas_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                             const kas_conv_call *call)
{
    const kas_backend *backend = backend_of(conv);
    return epilogue.residual == (call->residual != NULL) && backend->conv_takes_epilogue &&
           backend->conv_takes_epilogue(conv, epilogue, call);
}

kas_status kas_conv_hold(kas_conv *conv, const kas_conv_epilogue *epilogue, const void *w)
{
    const kas_backend *backend = backend_of(conv);
    return backend->conv_hold ? backend->conv_hold(conv, epilogue, w) : KAS_OK;
}

void kas_device_trim(kas_device *device)
{
    if (device->backend->trim)
        device->backend->trim(device);
}

void kas_device_set_quiet(kas_device *device, void (*begin)(void *context), void *context)
{
    device->quiet = begin;
    device->quiet_context = context;
}

kas_status kas_device_sync(kas_device *device)
{
    return device->backend->sync(device);
}

kas_status kas_timer_create(kas_device *device, kas_timer **out)
{
    *out = NULL;
    return device->backend->timer_create(device, out);
}

void kas_timer_free(kas_timer *timer)
{
    if (timer)
        backend_of(timer)->timer_free(timer);
}

kas_status kas_timer_start(kas_timer *timer)
{
    return backend_of(timer)->timer_start(timer);
}

kas_status kas_timer_end(kas_timer *timer)
{
    return backend_of(timer)->timer_end(timer);
}

kas_status kas_timer_read(kas_timer *timer, double *seconds)
{
    return backend_of(timer)->timer_read(timer, seconds);
}

kas_status kas_timer_stop(kas_timer *timer, double *seconds)
{
    KAS_TRY(kas_timer_end(timer));
    return kas_timer_read(timer, seconds);
}
