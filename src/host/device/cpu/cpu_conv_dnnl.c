/* Runs convolution passes with oneDNN.
 *
 * bf16 is computed directly when the CPU has instructions for it; otherwise oneDNN's reorders
 * convert it to float32 and back. float16 arrives as float32 (cpu_conv_wide.c).
 *
 * Activations stay channels-last. A padded pitch, or another layout that the implementation needs,
 * takes a reorder of oneDNN's into memory of the pass. Weights are reordered from KRSC in every
 * run, because they change in every step; held weights (device.h) are reordered once.
 *
 * An epilogue is a list of post-operations of the primitive. The residual is a binary
 * post-operation: a sum, which adds to the contents of y, would first need a copy. */
#include "host/device/cpu/cpu_conv.h"

#ifdef KAS_HAVE_DNNL

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/device/cpu/dnnl.h"

/* One tensor: the caller's memory, and the memory on which the primitive works (the same object
 * when the layouts agree). */
typedef struct port {
    kas_dnnl_shape shape;
    kas_dnnl_desc user_desc;
    dnnl_memory_t user, inner;
    dnnl_primitive_t reorder; /* NULL when inner == user */
} port;

enum { PORT_X, PORT_W, PORT_Y, MAIN_PORTS, PORT_RESIDUAL = MAIN_PORTS, PORTS };

/* Weights in the primitive's layout, and the address that is their key. */
typedef struct held {
    const void *as;
    dnnl_memory_t memory;
    struct held *next;
} held;

struct kas_dnnl_pass {
    dnnl_primitive_t primitive;
    port port[PORTS];
    int ports;          /* all of them with a residual */
    int arg[PORTS];     /* oneDNN's argument number of each port */
    int output;         /* the port that is written */
    dnnl_memory_t bias; /* with an epilogue; else NULL */
    held *held;
    char name[64];
};

/* For each pass: the names of x, w and y in its descriptor, and their argument numbers. */
static const dnnl_query_t port_query[3][PORTS] = {
    {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
    {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
    {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
static const int port_arg[3][PORTS] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
static const int port_output[3] = {PORT_Y, PORT_X, PORT_W};

/* Describes channels-last pixels with a pitch, in oneDNN's logical order n, c, h, w. */
static kas_status describe_pixels(port *p, dnnl_data_type_t type, int n, int c, int h, int w,
                                  int pitch)
{
    p->shape = (kas_dnnl_shape){4, {n, c, h, w}, type};
    if (pitch == c)
        return kas_dnnl_describe(&p->shape, dnnl_nhwc, &p->user_desc);
    const dnnl_dims_t strides = {(dnnl_dim_t)h * w * pitch, 1, (dnnl_dim_t)w * pitch, pitch};
    return kas_dnnl_describe_strides(&p->shape, strides, &p->user_desc);
}

static kas_status describe_weights(port *p, dnnl_data_type_t type, const kas_conv_desc *d)
{
    const int in = d->c_in / d->groups, out = d->c_out / d->groups;
    const bool grouped = d->groups > 1;
    p->shape = grouped ? (kas_dnnl_shape){5, {d->groups, out, in, d->kernel_h, d->kernel_w}, type}
                       : (kas_dnnl_shape){4, {out, in, d->kernel_h, d->kernel_w}, type};
    return kas_dnnl_describe(&p->shape, grouped ? dnnl_gohwi : dnnl_ohwi, &p->user_desc);
}

/* Describes the caller's tensors; that of a residual only where an epilogue has one. */
static kas_status describe_user(const kas_conv_desc *d, kas_conv_pass pass, int ports,
                                port port[PORTS])
{
    const dnnl_data_type_t type = d->dtype == KAS_BF16 ? dnnl_bf16 : dnnl_f32;
    KAS_TRY(describe_pixels(&port[PORT_X], type, d->n, d->c_in, d->h, d->w, d->x_pitch));
    KAS_TRY(
        describe_weights(&port[PORT_W], pass == KAS_CONV_BACKWARD_WEIGHTS ? dnnl_f32 : type, d));
    for (int i = PORT_Y; i < ports; i++) /* and the residual */
        KAS_TRY(describe_pixels(&port[i], type, d->n, d->c_out, kas_conv_out_h(d),
                                kas_conv_out_w(d), d->y_pitch));
    return KAS_OK;
}

/* How the primitive works: on the stored dtype or on float32, and over channels-last pixels or over
 * a layout of its choice. */
typedef struct way {
    bool as_they_are, any_layout;
} way;

/* Describes the wanted layouts: weights in the primitive's choice; activations dense channels-last,
 * or in its choice too. */
static kas_status describe_wanted(const kas_dnnl_pass *pass, way way, kas_dnnl_desc want[PORTS])
{
    for (int i = 0; i < pass->ports; i++) {
        const bool free = i == PORT_W || (way.any_layout && i != PORT_RESIDUAL);
        kas_dnnl_shape shape = pass->port[i].shape;
        shape.type = way.as_they_are ? shape.type : dnnl_f32;
        KAS_TRY(kas_dnnl_describe(&shape, free ? dnnl_format_tag_any : dnnl_nhwc, &want[i]));
    }
    return KAS_OK;
}

/* ---- epilogue -------------------------------------------------------------------------------- */

/* Appends an activation (formulas: net.h). Only activations that keep NaN are supported, which
 * excludes ReLU, ReLU6 and the hard sigmoid (cpu_conv.c). */
static kas_status append_activation(dnnl_post_ops_t ops, kas_activation activation)
{
    switch (activation) {
    case KAS_ACTIVATION_NONE:
        return KAS_OK;
    case KAS_ACTIVATION_SIGMOID:
        return kas_dnnl_append_eltwise(ops, dnnl_eltwise_logistic);
    case KAS_ACTIVATION_SILU:
        return kas_dnnl_append_eltwise(ops, dnnl_eltwise_swish);
    case KAS_ACTIVATION_HARD_SWISH:
        return kas_dnnl_append_eltwise(ops, dnnl_eltwise_hardswish);
    case KAS_ACTIVATION_GELU:
        return kas_dnnl_append_eltwise(ops, dnnl_eltwise_gelu_erf);
    default:
        break;
    }
    return kas_fail(KAS_UNSUPPORTED, "oneDNN has no activation %d", (int)activation);
}

static kas_status append_all(dnnl_post_ops_t ops, const kas_conv_epilogue *epilogue,
                             kas_dnnl_const_desc residual)
{
    if (epilogue->residual)
        TRY_DNNL(dnnl_post_ops_append_binary(ops, dnnl_binary_add, residual));
    return append_activation(ops, epilogue->activation);
}

static kas_status create_attr(const kas_conv_epilogue *epilogue, kas_dnnl_const_desc residual,
                              dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_t attr = NULL;
    TRY_DNNL(dnnl_post_ops_create(&ops));
    dnnl_status_t code = dnnl_primitive_attr_create(&attr);
    kas_status status = code == dnnl_success ? append_all(ops, epilogue, residual)
                                             : kas_dnnl_fail(code, "attributes");
    if (status == KAS_OK && (code = dnnl_primitive_attr_set_post_ops(attr, ops)) != dnnl_success)
        status = kas_dnnl_fail(code, "post-operations");
    dnnl_post_ops_destroy(ops);
    if (status != KAS_OK && attr)
        dnnl_primitive_attr_destroy(attr);
    *out = attr;
    return status;
}

static kas_status describe_bias(const kas_conv_desc *d, kas_dnnl_desc *out)
{
    return kas_dnnl_describe(&(kas_dnnl_shape){1, {d->c_out}, dnnl_f32}, dnnl_a, out);
}

/* ---- choice ---------------------------------------------------------------------------------- */

static const char *implementation(dnnl_primitive_desc_t desc)
{
    const char *name = "?";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    return name;
}

/* Returns whether an implementation is slow. oneDNN's first choice over rows of one to three pixels
 * reads all weights for each of them: it took 21 ms for 16 images of 2x2 pixels, 512 channels and a
 * 3x3 kernel on one core, and the second choice 5.3 ms. From 4 pixels on they are equal (float32;
 * in bf16 the first is as good). */
static bool is_slow(dnnl_primitive_desc_t desc, const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { SHORT_ROW = 3 };
    return pass == KAS_CONV_FORWARD && kas_conv_out_w(d) <= SHORT_ROW &&
           strcmp(implementation(desc), "brgconv:avx512_core") == 0;
}

/* Returns whether an implementation writes beyond its memory. oneDNN 2.6's gradient of the weights of
 * 1x1 convolutions first copies every `stride`-th pixel, and where these have fewer channels than a
 * vector, it has too little room for the copies (seen with AVX2, images of 6x6 pixels and more, and
 * stride 2). The kernels of AVX-512 share that code; there it was not looked for. */
static bool is_unsafe(dnnl_primitive_desc_t desc, const kas_conv_desc *d, kas_conv_pass pass)
{
    const char *name = implementation(desc);
    const int lanes = strstr(name, "avx512") ? 16 : 8;
    return pass == KAS_CONV_BACKWARD_WEIGHTS && d->stride > 1 && d->c_in / d->groups < lanes &&
           strncmp(name, "jit_1x1:", 8) == 0;
}

/* Returns whether an implementation is wrong with the epilogue. oneDNN 2.6's matrix products, its
 * choice for some convolutions on CPUs without AVX-512, add the wrong elements of a residual (0.73
 * instead of -0.88) and turn NaN into 0 behind a sigmoid. */
static bool is_wrong_with(const kas_conv_epilogue *epilogue, dnnl_primitive_desc_t desc)
{
    return (epilogue->residual || epilogue->activation != KAS_ACTIVATION_NONE) &&
           strstr(implementation(desc), "gemm") != NULL;
}

/* What an implementation is chosen for. */
typedef struct purpose {
    const kas_conv_desc *desc;
    kas_conv_pass pass;
    const kas_conv_epilogue *epilogue; /* NULL: none */
} purpose;

static bool is_refused(dnnl_primitive_desc_t implementation, const void *context)
{
    const purpose *p = context;
    return is_slow(implementation, p->desc, p->pass) || is_unsafe(implementation, p->desc, p->pass);
}

/* ---- creation -------------------------------------------------------------------------------- */

static kas_status create_desc(const kas_cpu *cpu, const purpose *p, kas_dnnl_desc want[PORTS],
                              kas_dnnl_const_desc bias, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t *out)
{
    const kas_conv_desc *d = p->desc;
    const int between = kas_conv_dilation(d) - 1; /* pixels between two taps */
    const kas_dnnl_conv conv = {.pass = p->pass,
                                .forward =
                                    p->epilogue ? dnnl_forward_inference : dnnl_forward_training,
                                .x = want[PORT_X],
                                .w = want[PORT_W],
                                .y = want[PORT_Y],
                                .bias = bias,
                                .strides = {d->stride, d->stride},
                                .dilates = {between, between},
                                .pad = {d->pad_h, d->pad_w},
                                .attr = attr};
    return kas_dnnl_conv_create(cpu, &conv, is_refused, p, out);
}

/* Creates the descriptor of FORWARD with an epilogue. */
static kas_status create_fused_desc(const kas_cpu *cpu, const purpose *p, kas_dnnl_desc want[PORTS],
                                    dnnl_primitive_desc_t *out)
{
    kas_dnnl_desc bias = NULL;
    dnnl_primitive_attr_t attr = NULL;
    kas_status status;
    KAS_TRY_GOTO(describe_bias(p->desc, &bias), done);
    KAS_TRY_GOTO(create_attr(p->epilogue, want[PORT_RESIDUAL], &attr), done);
    KAS_TRY_GOTO(create_desc(cpu, p, want, bias, attr, out), done);
    if (is_wrong_with(p->epilogue, *out)) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        status = kas_fail(KAS_UNSUPPORTED,
                          "oneDNN computes matrix products with these post-operations wrongly");
    }
done:
    kas_dnnl_undescribe(bias);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static kas_status connect_port(const kas_cpu *cpu, port *p, kas_dnnl_const_desc inner, bool output)
{
    TRY_DNNL(dnnl_memory_create(&p->user, p->user_desc, cpu->engine, DNNL_MEMORY_NONE));
    if (dnnl_memory_desc_equal(p->user_desc, inner)) {
        p->inner = p->user;
        return KAS_OK;
    }
    TRY_DNNL(dnnl_memory_create(&p->inner, inner, cpu->engine, DNNL_MEMORY_ALLOCATE));
    dnnl_primitive_desc_t desc;
    TRY_DNNL(dnnl_reorder_primitive_desc_create(&desc, output ? inner : p->user_desc, cpu->engine,
                                                output ? p->user_desc : inner, cpu->engine, NULL));
    const dnnl_status_t code = dnnl_primitive_create(&p->reorder, desc);
    dnnl_primitive_desc_destroy(desc);
    return code == dnnl_success ? KAS_OK : kas_dnnl_fail(code, "reorder");
}

/* Connects all ports in the layouts that the primitive has chosen; the residual keeps the
 * described layout. */
static kas_status connect_ports(const kas_cpu *cpu, kas_conv_pass number,
                                dnnl_primitive_desc_t desc, kas_dnnl_const_desc residual,
                                kas_dnnl_pass *pass)
{
    for (int i = 0; i < pass->ports; i++) {
        kas_dnnl_const_desc inner =
            i == PORT_RESIDUAL ? residual
                               : dnnl_primitive_desc_query_md(desc, port_query[number][i], 0);
        if (!inner)
            return kas_fail(KAS_DEVICE, "oneDNN describes no argument %d", i);
        KAS_TRY(connect_port(cpu, &pass->port[i], inner, i == pass->output));
    }
    return KAS_OK;
}

/* Creates the best implementation for this way; fails with KAS_UNSUPPORTED when it is the
 * plain reference. */
static kas_status create_primitive(const kas_cpu *cpu, const kas_conv_desc *d, kas_conv_pass number,
                                   const kas_conv_epilogue *epilogue, way way, kas_dnnl_pass *pass)
{
    const purpose purpose = {d, number, epilogue};
    kas_dnnl_desc want[PORTS] = {NULL};
    dnnl_primitive_desc_t desc = NULL;
    kas_status status;
    KAS_TRY_GOTO(describe_wanted(pass, way, want), done);
    KAS_TRY_GOTO(epilogue ? create_fused_desc(cpu, &purpose, want, &desc)
                          : create_desc(cpu, &purpose, want, NULL, NULL, &desc),
                 done);
    const char *name = implementation(desc);
    snprintf(pass->name, sizeof pass->name, "%s", name);
    if (!strncmp(name, "ref", 3)) {
        status = kas_fail(KAS_UNSUPPORTED, "oneDNN has only its reference loops");
        goto done;
    }
    KAS_TRY_GOTO(connect_ports(cpu, number, desc, want[PORT_RESIDUAL], pass), done);
    const dnnl_status_t code = dnnl_primitive_create(&pass->primitive, desc);
    if (code != dnnl_success)
        status = kas_dnnl_fail(code, "dnnl_primitive_create");
done:
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    for (int i = 0; i < PORTS; i++)
        kas_dnnl_undescribe(want[i]);
    return status;
}

static kas_status make_bias(const kas_cpu *cpu, const kas_conv_desc *d, kas_dnnl_pass *pass)
{
    kas_dnnl_desc desc;
    KAS_TRY(describe_bias(d, &desc));
    const dnnl_status_t code = dnnl_memory_create(&pass->bias, desc, cpu->engine, DNNL_MEMORY_NONE);
    kas_dnnl_undescribe(desc);
    return code == dnnl_success ? KAS_OK : kas_dnnl_fail(code, "bias");
}

static kas_status try_layout(const kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass number,
                             const kas_conv_epilogue *epilogue, way way, kas_dnnl_pass **out)
{
    kas_dnnl_pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    pass->output = port_output[number];
    for (int i = 0; i < MAIN_PORTS; i++)
        pass->arg[i] = port_arg[number][i];
    pass->arg[PORT_RESIDUAL] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
    pass->ports = epilogue && epilogue->residual ? PORTS : MAIN_PORTS;
    kas_status status = describe_user(desc, number, pass->ports, pass->port);
    if (status == KAS_OK && epilogue)
        status = make_bias(cpu, desc, pass);
    if (status == KAS_OK)
        status = create_primitive(cpu, desc, number, epilogue, way, pass);
    if (status != KAS_OK) {
        kas_dnnl_pass_free(pass);
        return status;
    }
    *out = pass;
    return KAS_OK;
}

/* Returns whether the CPU has instructions for bf16. Without them oneDNN emulates them, and float32
 * is faster. */
static bool has_bf16(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* Returns whether the layout that oneDNN chooses, blocks of channels, is worth two reorders. AVX2's
 * small windows of oneDNN 2 write channels-last pixels slowly where these are large and memory holds them: 3x3 at
 * 128 channels and 28x28 pixels takes up to 1.5 times as long (bench/results: peer-layers). A residual
 * would be reordered as well. */
static bool prefers_blocks(const kas_conv_desc *d, kas_conv_pass pass,
                           const kas_conv_epilogue *epilogue)
{
    enum { LEAST_CHANNELS = 64, LEAST_OF_GROUP = 16, MOST_TAPS = 9, LEAST_BYTES = 8 << 20 };
    const int taps = d->kernel_h * d->kernel_w, least = LEAST_OF_GROUP * d->groups;
    const double bytes = sizeof(float) * (double)d->n * d->h * d->w * d->c_in;
    return DNNL_VERSION_MAJOR < 3 && !kas_cpu_avx512 && pass == KAS_CONV_FORWARD &&
           !(epilogue && epilogue->residual) && taps > 1 && taps <= MOST_TAPS &&
           d->c_in >= LEAST_CHANNELS && d->c_out >= LEAST_CHANNELS && d->c_in >= least &&
           d->c_out >= least && bytes * d->c_in / LEAST_CHANNELS >= LEAST_BYTES;
}

kas_status kas_dnnl_pass_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass number,
                                const kas_conv_epilogue *epilogue, kas_dnnl_pass **out)
{
    KAS_TRY(kas_dnnl_open(cpu));
    const bool as_they_are = desc->dtype == KAS_F32 || (desc->dtype == KAS_BF16 && has_bf16());
    const bool blocks = prefers_blocks(desc, number, epilogue);
    const way ways[] = {{true, blocks}, {true, !blocks}, {false, false}, {false, true}};
    const int first = as_they_are ? 0 : 2, last = desc->dtype == KAS_F32 ? 2 : 4;
    kas_status status = KAS_UNSUPPORTED;
    for (int i = first; i < last && status == KAS_UNSUPPORTED; i++)
        status = try_layout(cpu, desc, number, epilogue, ways[i], out);
    return status;
}

void kas_dnnl_pass_free(kas_dnnl_pass *pass)
{
    if (!pass)
        return;
    if (pass->primitive)
        dnnl_primitive_destroy(pass->primitive);
    for (int i = 0; i < PORTS; i++) {
        port *p = &pass->port[i];
        if (p->reorder)
            dnnl_primitive_destroy(p->reorder);
        if (p->inner && p->inner != p->user)
            dnnl_memory_destroy(p->inner);
        if (p->user)
            dnnl_memory_destroy(p->user);
        kas_dnnl_undescribe(p->user_desc);
    }
    if (pass->bias)
        dnnl_memory_destroy(pass->bias);
    for (held *h = pass->held, *next; h; h = next) {
        next = h->next;
        dnnl_memory_destroy(h->memory);
        free(h);
    }
    free(pass);
}

/* ---- weights that are held ------------------------------------------------------------------- */

static held *find_held(const kas_dnnl_pass *pass, const void *as)
{
    held *h = as ? pass->held : NULL;
    while (h && h->as != as)
        h = h->next;
    return h;
}

bool kas_dnnl_pass_holds(const kas_dnnl_pass *pass, const void *as)
{
    return find_held(pass, as) != NULL;
}

static kas_status add_held(const kas_cpu *cpu, kas_dnnl_pass *pass, const void *as, held **out)
{
    kas_dnnl_const_desc desc;
    TRY_DNNL(dnnl_memory_get_memory_desc(pass->port[PORT_W].inner, &desc));
    held *h = calloc(1, sizeof *h);
    if (!h)
        return kas_fail(KAS_NO_MEMORY, "no memory for weights that are held");
    const dnnl_status_t code =
        dnnl_memory_create(&h->memory, desc, cpu->engine, DNNL_MEMORY_ALLOCATE);
    if (code != dnnl_success) {
        free(h);
        return kas_dnnl_fail(code, "memory of weights");
    }
    h->as = as;
    h->next = pass->held;
    pass->held = *out = h;
    return KAS_OK;
}

kas_status kas_dnnl_pass_hold(kas_cpu *cpu, kas_dnnl_pass *pass, void *w, const void *as)
{
    const port *p = &pass->port[PORT_W];
    held *h = find_held(pass, as);
    if (!p->reorder)
        return KAS_OK;
    if (!h)
        KAS_TRY(add_held(cpu, pass, as, &h));
    TRY_DNNL(dnnl_memory_set_data_handle(p->user, w));
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, p->user}, {DNNL_ARG_TO, h->memory}};
    TRY_DNNL(dnnl_primitive_execute(p->reorder, cpu->stream, 2, args));
    TRY_DNNL(dnnl_stream_wait(cpu->stream));
    return KAS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static kas_status reorder_port(const kas_cpu *cpu, const port *p, bool output)
{
    if (!p->reorder)
        return KAS_OK;
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, output ? p->inner : p->user},
                                     {DNNL_ARG_TO, output ? p->user : p->inner}};
    TRY_DNNL(dnnl_primitive_execute(p->reorder, cpu->stream, 2, args));
    return KAS_OK;
}

kas_status kas_dnnl_pass_run(kas_cpu *cpu, kas_dnnl_pass *pass, const kas_cpu_call *call)
{
    void *const memory[PORTS] = {call->x, call->w, call->y, call->residual};
    const held *weights = find_held(pass, call->held);
    dnnl_exec_arg_t args[PORTS + 1];
    int count = pass->ports;
    for (int i = 0; i < pass->ports; i++) {
        if (i == PORT_W && weights) {
            args[i] = (dnnl_exec_arg_t){pass->arg[i], weights->memory};
            continue;
        }
        TRY_DNNL(dnnl_memory_set_data_handle(pass->port[i].user, memory[i]));
        if (i != pass->output)
            KAS_TRY(reorder_port(cpu, &pass->port[i], false));
        args[i] = (dnnl_exec_arg_t){pass->arg[i], pass->port[i].inner};
    }
    if (pass->bias) {
        TRY_DNNL(dnnl_memory_set_data_handle(pass->bias, call->bias));
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, pass->bias};
    }
    TRY_DNNL(dnnl_primitive_execute(pass->primitive, cpu->stream, count, args));
    KAS_TRY(reorder_port(cpu, &pass->port[pass->output], true));
    TRY_DNNL(dnnl_stream_wait(cpu->stream));
    return KAS_OK;
}

const char *kas_dnnl_pass_name(const kas_dnnl_pass *pass)
{
    return pass->name;
}

#else

kas_status kas_dnnl_pass_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_conv_pass pass,
                                const kas_conv_epilogue *epilogue, kas_dnnl_pass **out)
{
    (void)cpu, (void)desc, (void)pass, (void)epilogue, (void)out;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no oneDNN");
}

void kas_dnnl_pass_free(kas_dnnl_pass *pass)
{
    (void)pass;
}

kas_status kas_dnnl_pass_run(kas_cpu *cpu, kas_dnnl_pass *pass, const kas_cpu_call *call)
{
    (void)cpu, (void)pass, (void)call;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no oneDNN");
}

kas_status kas_dnnl_pass_hold(kas_cpu *cpu, kas_dnnl_pass *pass, void *w, const void *as)
{
    (void)cpu, (void)pass, (void)w, (void)as;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no oneDNN");
}

bool kas_dnnl_pass_holds(const kas_dnnl_pass *pass, const void *as)
{
    (void)pass, (void)as;
    return false;
}

const char *kas_dnnl_pass_name(const kas_dnnl_pass *pass)
{
    (void)pass;
    return "none";
}

#endif
