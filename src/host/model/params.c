#include "host/model/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/random.h"

enum { ALIGN = 64, MAX_SLOTS = KAS_PARAM_GAIN_SLOT };

/* Adds a parameter to the list. Its offset is set when all are known. */
static kas_status add(kas_params *p, kas_param param, const char *layer, const char *suffix)
{
    if (!KAS_GROW(p->param, p->count))
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of parameters");
    snprintf(param.name, sizeof param.name, "%s.%s", layer, suffix);
    param.size = 1;
    for (int i = 0; i < param.rank; i++)
        param.size *= param.shape[i];
    p->param[p->count++] = param;
    return KAS_OK;
}

/* Adds a vector with an element for each channel of the layer, which does not decay. */
static kas_status add_vector(kas_params *p, const kas_net *net, int i, int slot, const char *suffix,
                             kas_init init, double scale)
{
    kas_param param = {
        .kind = KAS_PARAM_PLAIN,
        .layer = i,
        .slot = slot,
        .rank = 1,
        .shape = {(uint64_t)net->layer[i].c},
        .init = init,
        .scale = scale,
    };
    return add(p, param, net->layer[i].name, suffix);
}

static kas_status add_conv(kas_params *p, const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    uint64_t c_in = (uint64_t)(net->layer[l->in[0]].c / l->groups);
    double fan_out = (double)l->c * l->kernel_h * l->kernel_w;
    kas_param param = {
        .kind = KAS_PARAM_WEIGHT,
        .layer = i,
        .rank = 4,
        .shape = {(uint64_t)l->c, c_in, (uint64_t)l->kernel_h, (uint64_t)l->kernel_w},
        .init = KAS_INIT_NORMAL,
        .scale = sqrt(2 / fan_out),
    };
    KAS_TRY(add(p, param, l->name, "weight"));
    return l->bias ? add_vector(p, net, i, 1, "bias", KAS_INIT_CONSTANT, 0) : KAS_OK;
}

static kas_status add_linear(kas_params *p, const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    uint64_t fan_in = (uint64_t)net->layer[l->in[0]].c;
    kas_param weight = {
        .kind = KAS_PARAM_WEIGHT,
        .layer = i,
        .rank = 2,
        .shape = {(uint64_t)l->c, fan_in},
        .init = KAS_INIT_UNIFORM,
        .scale = 1 / sqrt((double)fan_in),
    };
    KAS_TRY(add(p, weight, l->name, "weight"));
    return l->bias ? add_vector(p, net, i, 1, "bias", KAS_INIT_UNIFORM, weight.scale) : KAS_OK;
}

static kas_status add_layer_norm(kas_params *p, const kas_net *net, int i)
{
    KAS_TRY(add_vector(p, net, i, 0, "weight", KAS_INIT_CONSTANT, 1));
    return add_vector(p, net, i, 1, "bias", KAS_INIT_CONSTANT, 0);
}

static kas_status add_batch_norm(kas_params *p, const kas_net *net, int i)
{
    static const char *const suffix[4] = {"weight", "bias", "running_mean", "running_var"};
    for (int slot = 0; slot < 4; slot++) {
        kas_param param = {
            .kind = slot < 2 ? KAS_PARAM_PLAIN : KAS_PARAM_STATISTIC,
            .layer = i,
            .slot = slot,
            .rank = 1,
            .shape = {(uint64_t)net->layer[i].c},
            .init = KAS_INIT_CONSTANT,
            .scale = slot == 0 || slot == 3 ? 1 : 0,
        };
        KAS_TRY(add(p, param, net->layer[i].name, suffix[slot]));
    }
    return KAS_OK;
}

static kas_status add_gain(kas_params *p, const kas_net *net, int i, const kas_programs *programs)
{
    kas_param param = {
        .kind = KAS_PARAM_STATISTIC,
        .layer = i,
        .slot = KAS_PARAM_GAIN_SLOT,
        .rank = 1,
        .shape = {1},
        .init = KAS_INIT_CONSTANT,
        .scale = (double)kas_programs_gain(programs, i),
    };
    return kas_replacement_scales(programs->replacement) ? add(p, param, net->layer[i].name, "gain")
                                                         : KAS_OK;
}

static kas_status add_kernel(kas_params *p, const kas_net *net, int i, const kas_program *program)
{
    if (program->weights > MAX_SLOTS)
        return kas_fail(KAS_UNSUPPORTED, "%s: a kernel of %d weights; at most %d are supported",
                        net->layer[i].name, program->weights, MAX_SLOTS);
    for (int w = 0; w < program->weights; w++) {
        const kas_weight *weight = &program->weight[w];
        const bool is_factor = weight->init == KAS_WEIGHT_ONES;
        char suffix[24];
        snprintf(suffix, sizeof suffix, "weight%d", w);
        kas_param param = {
            .kind = is_factor ? KAS_PARAM_PLAIN : KAS_PARAM_WEIGHT,
            .layer = i,
            .slot = w,
            .rank = 4,
            .shape = {weight->instances, weight->groups, weight->fan_out, weight->fan_in},
            .map = weight,
            .init = is_factor ? KAS_INIT_CONSTANT : KAS_INIT_NORMAL,
            .scale = is_factor ? 1 : 1 / sqrt((double)weight->fan_in),
        };
        KAS_TRY(add(p, param, net->layer[i].name, suffix));
    }
    return KAS_OK;
}

static size_t place(kas_params *p, kas_param_kind kind, size_t at)
{
    for (int i = 0; i < p->count; i++)
        if (p->param[i].kind == kind) {
            p->param[i].offset = at;
            at += (p->param[i].size + ALIGN - 1) / ALIGN * ALIGN;
        }
    return at;
}

kas_status kas_params_build(const kas_net *net, const kas_programs *programs, kas_params *out)
{
    *out = (kas_params){0};
    kas_status status = KAS_OK;
    for (int i = 0; i < net->layers; i++) {
        int program = kas_programs_of_layer(programs, i);
        if (program >= 0) {
            KAS_TRY_GOTO(add_kernel(out, net, i, programs->program[program]), fail);
            KAS_TRY_GOTO(add_gain(out, net, i, programs), fail);
        } else if (net->layer[i].op == KAS_LAYER_CONV)
            KAS_TRY_GOTO(add_conv(out, net, i), fail);
        else if (net->layer[i].op == KAS_LAYER_LINEAR)
            KAS_TRY_GOTO(add_linear(out, net, i), fail);
        else if (net->layer[i].op == KAS_LAYER_BATCH_NORM)
            KAS_TRY_GOTO(add_batch_norm(out, net, i), fail);
        else if (net->layer[i].op == KAS_LAYER_LAYER_NORM)
            KAS_TRY_GOTO(add_layer_norm(out, net, i), fail);
    }
    out->decayed = place(out, KAS_PARAM_WEIGHT, 0);
    out->learned = place(out, KAS_PARAM_PLAIN, out->decayed);
    out->statistics = place(out, KAS_PARAM_STATISTIC, 0);
    return KAS_OK;
fail:
    kas_params_free(out);
    return status;
}

void kas_params_free(kas_params *params)
{
    free(params->param);
    *params = (kas_params){0};
}

int kas_params_find(const kas_params *params, int layer, int slot)
{
    for (int i = 0; i < params->count; i++)
        if (params->param[i].layer == layer && params->param[i].slot == slot)
            return i;
    return -1;
}

int kas_params_find_name(const kas_params *params, const char *name)
{
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->param[i].name, name) == 0)
            return i;
    return -1;
}

void kas_param_init(const kas_param *param, uint64_t seed, float *values)
{
    uint64_t stream = (uint64_t)param->layer * MAX_SLOTS + (uint64_t)param->slot;
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_INIT, stream);
    for (size_t i = 0; i < param->size; i++)
        switch (param->init) {
        case KAS_INIT_CONSTANT:
            values[i] = (float)param->scale;
            break;
        case KAS_INIT_NORMAL:
            values[i] = (float)(param->scale * kas_rng_normal(&rng));
            break;
        case KAS_INIT_UNIFORM:
            values[i] = (float)(param->scale * (2 * kas_rng_unit(&rng) - 1));
            break;
        }
}

/* Returns the place in memory of logical element i, in floats from the tensor's start. */
static size_t memory_index(const kas_param *p, size_t i)
{
    if (p->map) {
        size_t in = i % p->shape[3], rest = i / p->shape[3];
        size_t out = rest % p->shape[2];
        rest /= p->shape[2];
        return kas_weight_offset(p->map, (uint32_t)(rest / p->shape[1]),
                                 (uint32_t)(rest % p->shape[1]), (uint32_t)out, (uint32_t)in);
    }
    if (p->rank != 4)
        return i;
    size_t taps = p->shape[2] * p->shape[3], tap = i % taps, rest = i / taps; /* OIHW -> OHWI */
    size_t in = rest % p->shape[1], out = rest / p->shape[1];
    return (out * taps + tap) * p->shape[1] + in;
}

void kas_param_to_memory(const kas_param *param, const float *logical, float *memory)
{
    for (size_t i = 0; i < param->size; i++)
        memory[memory_index(param, i)] = logical[i];
}

void kas_param_from_memory(const kas_param *param, const float *memory, float *logical)
{
    for (size_t i = 0; i < param->size; i++)
        logical[i] = memory[memory_index(param, i)];
}
