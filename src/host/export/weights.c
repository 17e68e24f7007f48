#include "host/export/weights.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/model/safetensors.h"
#include "host/reference/net/net_replaced.h"

static kas_status read_one(const char *path, const kas_safetensors *file, kas_ref_param *p)
{
    const kas_named_tensor *t = kas_safetensors_find(file, p->name);
    if (!t)
        return kas_fail(
            KAS_BAD_INPUT,
            "%s: tensor \"%s\" is missing: the weights belong to another network or kernel", path,
            p->name);
    if (!kas_dtype_is_real(t->dtype))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: tensor \"%s\" has dtype %s; expected F32, F64, F16 or BF16", path,
                        p->name, kas_safetensors_dtype_name(t->dtype));
    bool same = t->rank == p->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == p->shape[i];
    if (!same) {
        kas_buf text = {0};
        for (int i = 0; i < p->rank; i++)
            kas_buf_printf(&text, "%s%llu", i ? ", " : "", (unsigned long long)p->shape[i]);
        kas_status status = kas_fail(
            KAS_BAD_INPUT,
            "%s: tensor \"%s\" has another shape than [%s]: check --net, --classes, --input, "
            "--flops and --params",
            path, p->name, kas_buf_text(&text));
        kas_buf_free(&text);
        return status;
    }
    for (size_t i = 0; i < p->size; i++) {
        p->value[i] = kas_named_tensor_get(t, i);
        if (!isfinite(p->value[i]))
            return kas_fail(KAS_BAD_INPUT,
                            "%s: tensor \"%s\" holds %g at element %zu, expected finite numbers: "
                            "the network diverged; train it with a smaller --lr",
                            path, p->name, p->value[i], i);
    }
    return KAS_OK;
}

kas_status kas_export_read_weights(const char *path, kas_ref_net *net)
{
    kas_safetensors file = {0};
    kas_status status = KAS_OK;
    KAS_TRY(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file));
    for (int i = 0; i < net->params; i++)
        KAS_TRY_GOTO(read_one(path, &file, &net->param[i]), out);
    for (int i = 0; i < file.count; i++)
        if (!kas_ref_net_find(net, file.tensor[i].name) &&
            !kas_safetensors_is_batch_count(file.tensor[i].name)) {
            status = kas_fail(KAS_BAD_INPUT,
                              "%s: tensor \"%s\" does not belong to this network and kernel", path,
                              file.tensor[i].name);
            goto out;
        }
out:
    kas_safetensors_free(&file);
    return status;
}

static void round_to_float(kas_ref_param *p)
{
    for (size_t i = 0; i < p->size; i++)
        p->value[i] = (float)p->value[i];
}

static void fill(kas_ref_param *p, double value)
{
    for (size_t i = 0; i < p->size; i++)
        p->value[i] = value;
}

kas_status kas_export_init_weights(kas_ref_net *net, uint64_t seed, int n, const double *images)
{
    for (int i = 0; i < net->params; i++) {
        kas_ref_param *p = &net->param[i];
        if (p->rank < 2)
            continue;
        if (p->init == KAS_WEIGHT_ONES) {
            fill(p, 1);
            continue;
        }
        /* fan_in: all dims except the outputs; for a kernel's weight the last dim alone. */
        bool of_kernel = kas_ref_replaced_target(net, p->layer) >= 0;
        double fan_in = of_kernel ? (double)p->shape[3] : (double)p->size / (double)p->shape[0];
        kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_INIT, (uint64_t)i);
        for (size_t k = 0; k < p->size; k++)
            p->value[k] = (float)(kas_rng_normal(&rng) / sqrt(fan_in));
    }
    KAS_TRY(kas_ref_net_calibrate(net, n, images));
    for (int i = 0; i < net->params; i++)
        round_to_float(&net->param[i]);
    return KAS_OK;
}

kas_status kas_export_write_weights(const kas_ref_net *net, const char *title, const char *path)
{
    kas_status status = KAS_OK;
    float **data = calloc((size_t)net->params, sizeof *data);
    kas_named_tensor *tensor = calloc((size_t)net->params, sizeof *tensor);
    if (!data || !tensor) {
        status = kas_fail(KAS_NO_MEMORY, "export: no memory for the weights");
        goto out;
    }
    for (int i = 0; i < net->params; i++) {
        const kas_ref_param *p = &net->param[i];
        data[i] = malloc(p->size * sizeof **data);
        if (!data[i]) {
            status = kas_fail(KAS_NO_MEMORY, "export: no memory for %s", p->name);
            goto out;
        }
        for (size_t k = 0; k < p->size; k++)
            data[i][k] = (float)p->value[k];
        tensor[i] =
            (kas_named_tensor){.dtype = KAS_SAFETENSORS_F32, .rank = p->rank, .data = data[i]};
        snprintf(tensor[i].name, sizeof tensor[i].name, "%s", p->name);
        for (int d = 0; d < p->rank; d++)
            tensor[i].shape[d] = p->shape[d];
    }
    const char *const metadata[] = {"kernel", title, NULL};
    status = kas_safetensors_write(path, tensor, net->params, metadata);
out:
    for (int i = 0; data && i < net->params; i++)
        free(data[i]);
    free(data);
    free(tensor);
    return status;
}

void kas_export_check_images(const kas_net *net, int n, double *images)
{
    const kas_layer *input = &net->layer[0];
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    for (size_t i = 0; i < (size_t)n * input->c * input->h * input->w; i++)
        images[i] = (float)kas_rng_normal(&rng);
}

kas_status kas_export_logits(kas_ref_net *net, int n, const double *images, double *logits)
{
    KAS_TRY(kas_ref_net_eval(net, n, images, logits));
    for (int i = 0; i < n * net->net->classes; i++)
        if (!isfinite(logits[i]))
            return kas_fail(KAS_FAILURE,
                            "the network's logits are not finite with these weights (%g for image "
                            "%d): they overflow; batch norm's running averages are far off after "
                            "a few steps: train longer",
                            logits[i], i / net->net->classes);
    return KAS_OK;
}

static void nudge(double *x, size_t size, kas_rng *rng)
{
    for (size_t i = 0; i < size; i++)
        x[i] *= 1 + FLT_EPSILON / 2 * (2 * kas_rng_unit(rng) - 1);
}

/* Computes the sensitivity of the logits. It changes the network's parameters, which the caller no
 * longer needs. */
static kas_status find_sensitivity(kas_ref_net *net, int n, const double *images,
                                   const double *logits, double *sensitivity)
{
    const kas_layer *in = &net->net->layer[0];
    size_t size = (size_t)n * in->c * in->h * in->w, outputs = (size_t)n * net->net->classes;
    double *moved = malloc((size + outputs) * sizeof *moved), *found = moved + size;
    double change = 0, largest = 0;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    if (!moved)
        return kas_fail(KAS_NO_MEMORY, "export: no memory for %d images", n);
    memcpy(moved, images, size * sizeof *moved);
    nudge(moved, size, &rng);
    for (int i = 0; i < net->params; i++)
        nudge(net->param[i].value, net->param[i].size, &rng);
    kas_status status = kas_ref_net_eval(net, n, moved, found);
    for (size_t i = 0; i < outputs; i++) {
        change = fmax(change, isfinite(found[i]) ? fabs(found[i] - logits[i]) : DBL_MAX);
        largest = fmax(largest, fabs(logits[i]));
    }
    if (largest > FLT_MAX) /* float32 cannot represent them */
        change = DBL_MAX;
    *sensitivity = largest > 0 ? change == DBL_MAX ? DBL_MAX : change / largest : 0;
    free(moved);
    return status;
}

kas_status kas_export_write_check(kas_ref_net *net, int n, const double *images,
                                  const double *logits, const char *path)
{
    const kas_layer *in = &net->net->layer[0];
    const uint64_t classes = (uint64_t)net->net->classes;
    double sensitivity;
    KAS_TRY(find_sensitivity(net, n, images, logits, &sensitivity));
    const kas_named_tensor tensors[] = {
        {"images",
         KAS_SAFETENSORS_F64,
         4,
         {(uint64_t)n, (uint64_t)in->c, (uint64_t)in->h, (uint64_t)in->w},
         images},
        {"logits", KAS_SAFETENSORS_F64, 2, {(uint64_t)n, classes}, logits},
        {"sensitivity", KAS_SAFETENSORS_F64, 1, {1}, &sensitivity}};
    return kas_safetensors_write(path, tensors, 3, NULL);
}
