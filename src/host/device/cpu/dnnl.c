#include "host/device/cpu/cpu.h"

#ifdef KAS_HAVE_DNNL

#include <stdlib.h>

#include "host/device/cpu/dnnl.h"

kas_status kas_dnnl_fail(dnnl_status_t code, const char *statement)
{
    if (code == dnnl_unimplemented)
        return kas_fail(KAS_UNSUPPORTED, "oneDNN refuses: %s", statement);
    if (code == dnnl_out_of_memory)
        return kas_fail(KAS_NO_MEMORY, "oneDNN is out of memory: %s", statement);
    return kas_fail(KAS_DEVICE, "%s: oneDNN status %d", statement, (int)code);
}

kas_status kas_dnnl_open(kas_cpu *cpu)
{
    if (!cpu->engine)
        TRY_DNNL(dnnl_engine_create((dnnl_engine_t *)&cpu->engine, dnnl_cpu, 0));
    if (!cpu->stream)
        TRY_DNNL(dnnl_stream_create((dnnl_stream_t *)&cpu->stream, cpu->engine,
                                    dnnl_stream_default_flags));
    return KAS_OK;
}

#if DNNL_VERSION_MAJOR < 3

/* ---- version 2 ------------------------------------------------------------------------------- */

static kas_status finish_desc(kas_dnnl_desc desc, dnnl_status_t code, kas_dnnl_desc *out)
{
    if (code != dnnl_success) {
        free(desc);
        return kas_dnnl_fail(code, "descriptor of a tensor");
    }
    *out = desc;
    return KAS_OK;
}

kas_status kas_dnnl_describe(const kas_dnnl_shape *shape, dnnl_format_tag_t tag, kas_dnnl_desc *out)
{
    kas_dnnl_desc desc = malloc(sizeof *desc);
    if (!desc)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    return finish_desc(
        desc, dnnl_memory_desc_init_by_tag(desc, shape->count, shape->size, shape->type, tag), out);
}

kas_status kas_dnnl_describe_strides(const kas_dnnl_shape *shape, const dnnl_dims_t strides,
                                     kas_dnnl_desc *out)
{
    kas_dnnl_desc desc = malloc(sizeof *desc);
    if (!desc)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    return finish_desc(
        desc,
        dnnl_memory_desc_init_by_strides(desc, shape->count, shape->size, shape->type, strides),
        out);
}

void kas_dnnl_undescribe(kas_dnnl_desc desc)
{
    free(desc);
}

static dnnl_status_t describe_pass(const kas_dnnl_conv *c, kas_conv_pass pass,
                                   dnnl_convolution_desc_t *out)
{
    switch (pass) {
    case KAS_CONV_FORWARD:
        return dnnl_dilated_convolution_forward_desc_init(out, c->forward, dnnl_convolution_direct,
                                                          c->x, c->w, c->bias, c->y, c->strides,
                                                          c->dilates, c->pad, c->pad);
    case KAS_CONV_BACKWARD_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, dnnl_convolution_direct, c->x, c->w, c->y, c->strides, c->dilates, c->pad, c->pad);
    default:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, dnnl_convolution_direct, c->x, c->w, NULL, c->y, c->strides, c->dilates, c->pad,
            c->pad);
    }
}

static dnnl_status_t create_hint(const kas_cpu *cpu, const kas_dnnl_conv *c,
                                 dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t code = describe_pass(c, KAS_CONV_FORWARD, &desc);
    return code == dnnl_success ? dnnl_primitive_desc_create(out, &desc, NULL, cpu->engine, NULL)
                                : code;
}

static dnnl_status_t choose(const kas_cpu *cpu, const kas_dnnl_conv *c, kas_dnnl_refuses *refuses,
                            const void *context, const_dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_iterator_t all;
    dnnl_status_t code = describe_pass(c, c->pass, &desc);
    if (code == dnnl_success)
        code = dnnl_primitive_desc_iterator_create(&all, &desc, c->attr, cpu->engine, hint);
    if (code != dnnl_success)
        return code;
    *out = dnnl_primitive_desc_iterator_fetch(all);
    while (*out && refuses(*out, context)) {
        dnnl_primitive_desc_destroy(*out);
        *out = dnnl_primitive_desc_iterator_next(all) == dnnl_success
                   ? dnnl_primitive_desc_iterator_fetch(all)
                   : NULL;
    }
    dnnl_primitive_desc_iterator_destroy(all);
    return *out ? dnnl_success : dnnl_unimplemented;
}

kas_status kas_dnnl_matmul_create(const kas_cpu *cpu, kas_dnnl_const_desc a, kas_dnnl_const_desc b,
                                  kas_dnnl_const_desc c, dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t desc;
    TRY_DNNL(dnnl_matmul_desc_init(&desc, a, b, NULL, c));
    TRY_DNNL(dnnl_primitive_desc_create(out, &desc, NULL, cpu->engine, NULL));
    return KAS_OK;
}

kas_status kas_dnnl_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    TRY_DNNL(dnnl_post_ops_append_eltwise(ops, 1.0f, kind, kind == dnnl_eltwise_swish ? 1 : 0, 0));
    return KAS_OK;
}

#else

/* ---- version 3 ------------------------------------------------------------------------------- */

kas_status kas_dnnl_describe(const kas_dnnl_shape *shape, dnnl_format_tag_t tag, kas_dnnl_desc *out)
{
    TRY_DNNL(dnnl_memory_desc_create_with_tag(out, shape->count, shape->size, shape->type, tag));
    return KAS_OK;
}

kas_status kas_dnnl_describe_strides(const kas_dnnl_shape *shape, const dnnl_dims_t strides,
                                     kas_dnnl_desc *out)
{
    TRY_DNNL(
        dnnl_memory_desc_create_with_strides(out, shape->count, shape->size, shape->type, strides));
    return KAS_OK;
}

void kas_dnnl_undescribe(kas_dnnl_desc desc)
{
    if (desc)
        dnnl_memory_desc_destroy(desc);
}

static dnnl_status_t create_forward(const kas_cpu *cpu, const kas_dnnl_conv *c,
                                    dnnl_primitive_desc_t *out)
{
    return dnnl_convolution_forward_primitive_desc_create(
        out, cpu->engine, c->forward, dnnl_convolution_direct, c->x, c->w, c->bias, c->y,
        c->strides, c->dilates, c->pad, c->pad, c->attr);
}

static dnnl_status_t create_hint(const kas_cpu *cpu, const kas_dnnl_conv *c,
                                 dnnl_primitive_desc_t *out)
{
    return create_forward(cpu, c, out);
}

static dnnl_status_t create_first(const kas_cpu *cpu, const kas_dnnl_conv *c,
                                  const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    switch (c->pass) {
    case KAS_CONV_FORWARD:
        return create_forward(cpu, c, out);
    case KAS_CONV_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, cpu->engine, dnnl_convolution_direct, c->x, c->w, c->y, c->strides, c->dilates,
            c->pad, c->pad, hint, c->attr);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, cpu->engine, dnnl_convolution_direct, c->x, c->w, NULL, c->y, c->strides,
            c->dilates, c->pad, c->pad, hint, c->attr);
    }
}

static dnnl_status_t choose(const kas_cpu *cpu, const kas_dnnl_conv *c, kas_dnnl_refuses *refuses,
                            const void *context, const_dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out)
{
    dnnl_status_t code = create_first(cpu, c, hint, out);
    if (code != dnnl_success)
        return code;
    while (code == dnnl_success && refuses(*out, context))
        code = dnnl_primitive_desc_next_impl(*out);
    if (code == dnnl_success)
        return code;
    dnnl_primitive_desc_destroy(*out);
    *out = NULL;
    return code == dnnl_last_impl_reached ? dnnl_unimplemented : code;
}

kas_status kas_dnnl_matmul_create(const kas_cpu *cpu, kas_dnnl_const_desc a, kas_dnnl_const_desc b,
                                  kas_dnnl_const_desc c, dnnl_primitive_desc_t *out)
{
    TRY_DNNL(dnnl_matmul_primitive_desc_create(out, cpu->engine, a, b, NULL, c, NULL));
    return KAS_OK;
}

kas_status kas_dnnl_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    const bool hard = kind == dnnl_eltwise_hardswish;
    const float alpha = hard                         ? 1.0f / 6
                        : kind == dnnl_eltwise_swish ? 1
                                                     : 0,
                beta = hard ? 0.5f : 0;
    TRY_DNNL(dnnl_post_ops_append_eltwise(ops, kind, alpha, beta));
    return KAS_OK;
}

#endif

/* ---- both ------------------------------------------------------------------------------------ */

kas_status kas_dnnl_conv_create(const kas_cpu *cpu, const kas_dnnl_conv *conv,
                                kas_dnnl_refuses *refuses, const void *context,
                                dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint = NULL;
    if (conv->pass != KAS_CONV_FORWARD)
        TRY_DNNL(create_hint(cpu, conv, &hint));
    const dnnl_status_t code = choose(cpu, conv, refuses, context, hint, out);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return code == dnnl_success ? KAS_OK : kas_dnnl_fail(code, "convolution");
}

#endif
