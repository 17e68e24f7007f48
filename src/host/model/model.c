#include "host/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/machine.h"
#include "host/model/model_impl.h"

/* ---- parts that need no device --------------------------------------------------------------- */

/* Lays out the memory of a model of whose moments this rank has `share` floats; 0: all. */
static void lay_out(const kas_model *m, size_t folded, size_t share, kas_model_layout *l)
{
    enum { ALIGN = 256 };
    size_t transient = 0, learned = m->params.learned * sizeof(float);
    size_t statistics = m->params.statistics * sizeof(float);
    const size_t gathered = share ? share * (size_t)m->ranks : m->params.learned;
    const size_t copy = m->dtype == KAS_F32 ? 0 : gathered * kas_dtype_size(m->dtype);
    const size_t moments = share ? share * sizeof(float) : learned;
    for (int i = 0; i < KAS_TAPE_MODES; i++)
        transient = m->tape[i].bytes > transient ? m->tape[i].bytes : transient;
    const bool clips = m->clipped || kas_model_scales(m);
    const struct {
        size_t *offset, size;
    } parts[] = {
        {&l->parameters, gathered * sizeof(float)},
        {&l->first, m->training ? moments : 0},
        {&l->second, m->adamw ? moments : 0},
        {&l->average, m->averaged ? learned : 0},
        {&l->running, statistics},
        {&l->average_running, m->averaged ? statistics : 0},
        {&l->scale, kas_model_scales(m) ? sizeof(kas_loss_scale) : 0},
        {&l->kept, 0},
        {&l->copy, copy},
        {&l->average_copy, m->averaged ? copy : 0},
        {&l->folded, folded},
        {&l->one, m->programs && m->programs->count ? sizeof(float) : 0},
        {&l->gradients, m->training ? learned : 0},
        {&l->decay, m->training ? learned / KAS_UPDATE_GROUP : 0},
        {&l->clip, clips ? sizeof(float) * (1 + kas_clip_scratch(m->params.learned)) : 0},
        {&l->state, sizeof(kas_step_state)},
        {&l->metrics, sizeof(kas_metrics)},
        {&l->imitated, sizeof(kas_imitated) * (size_t)m->twins},
        {&l->transient, transient},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].offset = at;
        at += (parts[i].size + ALIGN - 1) / ALIGN * ALIGN;
    }
    l->total = at;
}

static kas_program_options program_options(const kas_model_options *options)
{
    return (kas_program_options){.batch = options->batch,
                                 .training = options->training,
                                 .dtype = kas_precision_dtype(options->precision),
                                 .tf32 = options->precision == KAS_PRECISION_TF32};
}

kas_status kas_model_build_programs(const kas_model_options *options,
                                    const kas_replacement *replacement, const char *device,
                                    kas_programs *out)
{
    kas_program_options programs = program_options(options);
    programs.linear_policy = kas_linear_policy_of(device);
    programs.lanes = kas_cpu_lanes();
    programs.piece_bytes = kas_piece_bytes(programs.linear_policy, kas_cores());
    programs.tuned = options->tuned;
    return kas_programs_build(replacement, &programs, out);
}

static bool serves(const kas_program_options *built, const kas_program_options *wanted)
{
    return built->batch == wanted->batch && built->training == wanted->training &&
           built->dtype == wanted->dtype && built->tf32 == wanted->tf32;
}

static kas_status build_tape(kas_model *m, const kas_model_options *options, kas_tape_mode mode)
{
    const kas_tape_options tape = {.batch = m->batch,
                                   .mode = mode,
                                   .dtype = m->dtype,
                                   .recompute = options->recompute,
                                   .folded = !m->training && !m->separate,
                                   .separate = m->separate,
                                   .twin = m->twin,
                                   .norm_ranks = m->sync_batch_norm ? options->ranks : 1};
    return kas_tape_build(m->net, m->programs, &tape, &m->tape[mode]);
}

/* Returns whether the model has steps of this mode. */
static bool has_mode(const kas_model *m, kas_tape_mode mode)
{
    return mode == KAS_TAPE_TRAIN     ? m->training && !m->twin
           : mode == KAS_TAPE_IMITATE ? m->training && m->twin
                                      : true;
}

kas_status kas_model_describe(kas_model *m, const kas_model_options *options)
{
    m->net = options->net;
    m->programs = options->programs;
    m->batch = options->batch;
    m->training = options->training;
    m->separate = options->separate;
    m->twin = options->twin;
    m->group = options->group;
    m->sync_batch_norm = options->sync_batch_norm && options->ranks > 1;
    for (int i = 0; m->twin && i < m->net->layers; i++)
        m->twins += m->twin[i];
    const kas_program_options programs = program_options(options);
    m->dtype = programs.dtype;
    m->tf32 = programs.tf32;
    if (m->training && options->recipe) {
        m->adamw = options->recipe->optimiser == KAS_ADAMW;
        m->averaged = options->recipe->ema > 0;
        m->clipped = options->recipe->clip > 0;
    }
    if (m->programs && m->programs->count && !serves(&m->programs->options, &programs))
        return kas_fail(KAS_FAILURE, "programs of another batch, pass or precision than the model");
    KAS_TRY(kas_params_build(m->net, m->programs, &m->params));
    for (int mode = 0; mode < KAS_TAPE_MODES; mode++)
        if (has_mode(m, (kas_tape_mode)mode))
            KAS_TRY(build_tape(m, options, (kas_tape_mode)mode));
    size_t folded;
    KAS_TRY(kas_folds_build(m, &m->tape[KAS_TAPE_INFER], &m->folds, &folded));
    if (options->shard_optimiser && options->ranks > 1 && m->training) {
        const size_t groups = m->params.learned / KAS_UPDATE_GROUP, ranks = (size_t)options->ranks;
        m->ranks = options->ranks;
        m->share = (groups + ranks - 1) / ranks * KAS_UPDATE_GROUP;
    }
    lay_out(m, folded, 0, &m->whole);
    lay_out(m, folded, m->share, &m->layout);
    return KAS_OK;
}

void kas_model_forget(kas_model *m)
{
    for (int mode = 0; mode < KAS_TAPE_MODES; mode++)
        kas_tape_free(&m->tape[mode]);
    kas_folds_free(&m->folds);
    kas_params_free(&m->params);
}

kas_status kas_model_plan_memory(const kas_model_options *options, kas_memory_plan *out)
{
    kas_model m = {0};
    kas_status status = kas_model_describe(&m, options);
    const kas_model_layout *l = &m.layout;
    *out = (kas_memory_plan){.kept = l->kept,
                             .gradients = l->transient - l->kept,
                             .activations = l->total - l->transient,
                             .total = l->total};
    kas_model_forget(&m);
    return status;
}

/* ---- creation -------------------------------------------------------------------------------- */

kas_conv_desc kas_layer_conv_desc(const kas_net *net, int layer, int batch, kas_dtype dtype)
{
    const kas_layer *l = &net->layer[layer], *in = &net->layer[l->in[0]];
    kas_conv_desc d = {.n = batch,
                       .h = in->h,
                       .w = in->w,
                       .c_in = in->c,
                       .c_out = l->c,
                       .groups = 1,
                       .kernel_h = 1,
                       .kernel_w = 1,
                       .stride = 1,
                       .x_pitch = kas_pitch_of(dtype, in->c),
                       .y_pitch = kas_pitch_of(dtype, l->c),
                       .dtype = dtype,
                       .finite_padding = l->in[0] == 0};
    if (l->op == KAS_LAYER_CONV) {
        d.groups = l->groups;
        d.kernel_h = l->kernel_h;
        d.kernel_w = l->kernel_w;
        d.stride = l->stride;
        d.pad_h = l->pad_h;
        d.pad_w = l->pad_w;
    }
    return d;
}

static kas_conv_desc describe_conv(const kas_model *m, int layer)
{
    const bool exact = layer == m->tape[KAS_TAPE_INFER].exact;
    kas_conv_desc d = kas_layer_conv_desc(m->net, layer, m->batch, exact ? KAS_F32 : m->dtype);
    d.tf32 = m->tf32;
    d.passes = 1u << KAS_CONV_FORWARD;
    if (m->training)
        d.passes |= 1u << KAS_CONV_BACKWARD_WEIGHTS;
    if (m->training && m->net->layer[layer].in[0] != 0) /* images need no gradient */
        d.passes |= 1u << KAS_CONV_BACKWARD_DATA;
    d.finite_padding &= d.dtype == m->dtype; /* else x is a cast of the images */
    return d;
}

static bool same_conv(const kas_conv_desc *a, const kas_conv_desc *b)
{
    return memcmp(a, b, offsetof(kas_conv_desc, tf32)) == 0 && a->tf32 == b->tf32 &&
           a->finite_padding == b->finite_padding && a->passes == b->passes;
}

/* Prepares a layer's convolution. Layers of one shape share it: ResNet-20 has 20 layers of
 * 8 shapes. */
static kas_status prepare_conv(kas_model *m, int layer)
{
    const kas_conv_desc desc = describe_conv(m, layer);
    for (int i = 0; i < layer; i++) {
        if (!m->conv[i])
            continue;
        const kas_conv_desc other = describe_conv(m, i);
        if (same_conv(&desc, &other)) {
            m->conv[layer] = m->conv[i];
            return KAS_OK;
        }
    }
    KAS_TRY(kas_conv_create(m->device, &desc, &m->conv[layer]));
    m->conv_owner[layer] = true;
    return KAS_OK;
}

static kas_status prepare_layer(kas_model *m, int layer)
{
    const bool replaced = kas_programs_of_layer(m->programs, layer) >= 0;
    if (!replaced)
        KAS_TRY(prepare_conv(m, layer));
    const kas_fold *fold = kas_folds_find(&m->folds, layer);
    if (fold && !fold->own)
        KAS_TRY(kas_conv_add_epilogue(kas_folded_conv(m, layer), fold->epilogue));
    return m->net->layer[layer].bias && !replaced ? kas_conv_add_bias(m->conv[layer]) : KAS_OK;
}

static kas_status prepare_convs(kas_model *m)
{
    for (int i = 0; i < m->net->layers; i++) {
        if (!kas_layer_is_linear(&m->net->layer[i]))
            continue;
        kas_status status = prepare_layer(m, i);
        if (status != KAS_OK)
            return kas_fail_context(status, "layer %s", m->net->layer[i].name);
    }
    return KAS_OK;
}

static kas_status allocate_lists(kas_model *m)
{
    size_t layers = (size_t)m->net->layers, most = 1;
    for (int p = 0; m->programs && p < m->programs->count; p++)
        if ((size_t)m->programs->program[p]->buffers > most)
            most = (size_t)m->programs->program[p]->buffers;
    m->conv = calloc(layers, sizeof(*m->conv));
    m->conv_owner = calloc(layers, sizeof(*m->conv_owner));
    m->address = calloc(most, sizeof(*m->address));
    if (!m->conv || !m->conv_owner || !m->address)
        return kas_fail(KAS_NO_MEMORY, "no memory for a network of %zu layers", layers);
    return KAS_OK;
}

kas_status kas_model_create(kas_device *device, const kas_model_options *options, kas_model **out)
{
    kas_model *m = calloc(1, sizeof *m);
    if (!m)
        return kas_fail(KAS_NO_MEMORY, "no memory for a network");
    m->device = device;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_model_describe(m, options), fail);
    KAS_TRY_GOTO(allocate_lists(m), fail);
    if (options->programs)
        KAS_TRY_GOTO(
            kas_programs_load(options->programs, device, options->cache_dir, &m->compile_seconds),
            fail);
    KAS_TRY_GOTO(kas_ops_create(device, &m->ops), fail);
    if (m->dtype != KAS_F32)
        KAS_TRY_GOTO(kas_ops_use(m->ops, m->dtype), fail);
    KAS_TRY_GOTO(prepare_convs(m), fail);
    void *memory = NULL;
    KAS_TRY_GOTO(kas_mem_alloc(device, m->layout.total, &memory), fail);
    m->memory = memory;
    /* Padding between gradients must stay zero; the rest is zeroed to be deterministic. */
    KAS_TRY_GOTO(kas_mem_zero(device, m->memory, m->layout.total), fail);
    if (m->programs && m->programs->count)
        KAS_TRY_GOTO(kas_mem_upload(device, m->memory + m->layout.one, &(float){1}, sizeof(float)),
                     fail);
    KAS_TRY_GOTO(kas_model_reset_scale(m), fail);
    *out = m;
    return KAS_OK;
fail:
    kas_model_free(m);
    return status;
}

void kas_model_free(kas_model *m)
{
    if (!m)
        return;
    if (m->memory)
        kas_mem_free(m->device, m->memory);
    for (int i = 0; m->conv && m->conv_owner && i < m->net->layers; i++)
        if (m->conv_owner[i])
            kas_conv_free(m->conv[i]);
    kas_ops_free(m->ops);
    free(m->conv);
    free(m->conv_owner);
    free(m->address);
    kas_model_forget(m);
    free(m);
}

size_t kas_model_memory(const kas_model *model)
{
    return model->layout.total;
}

double kas_model_compile_seconds(const kas_model *model)
{
    return model->compile_seconds;
}

size_t kas_model_kept(const kas_model *model)
{
    return model->whole.kept;
}

const kas_params *kas_model_params(const kas_model *model)
{
    return &model->params;
}
