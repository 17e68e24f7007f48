#include "host/train/digest.h"

#include <inttypes.h>

#include "host/core/file/files.h"
#include "host/core/sha256.h"
#include "host/model/safetensors.h"
#include "host/space/canonical.h"

/* Writes options only if they differ from the defaults, so that digests of older networks do
 * not change. */
static void add_options(const kas_layer *l, kas_buf *text)
{
    if (l->bias != (l->op == KAS_LAYER_LINEAR))
        kas_buf_printf(text, " bias %d", l->bias);
    if (l->ceil_mode || l->count_include_pad)
        kas_buf_printf(text, " ceil %d padding %d", l->ceil_mode, l->count_include_pad);
    if (l->eps != 1e-5 || l->momentum != 0.1)
        kas_buf_printf(text, " eps %.17g momentum %.17g", l->eps, l->momentum);
    if (l->probability != 0)
        kas_buf_printf(text, " probability %.17g", l->probability);
}

static void add_net(const kas_net *net, kas_buf *text)
{
    kas_buf_printf(text, "net %s %d classes\n", net->name, net->classes);
    for (int i = 0; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        kas_buf_printf(text, "%d %s", l->op, l->name);
        for (int k = 0; k < l->inputs || k < 2; k++)
            kas_buf_printf(text, " %d", k < l->inputs ? l->in[k] : -1);
        kas_buf_printf(text, " %d %d %d %d %d %d %d %d %d", l->h, l->w, l->c, l->kernel_h,
                       l->kernel_w, l->stride, l->pad_h, l->pad_w, l->groups);
        add_options(l, text);
        kas_buf_puts(text, "\n");
    }
}

/* Writes a target, with the number of its kernel if there are several. */
static void add_target(const kas_replacement *r, int t, kas_buf *text)
{
    kas_buf_printf(text, "\n%s", r->target[t].name);
    if (r->kernel_of)
        kas_buf_printf(text, " kernel %d", r->kernel_of[t]);
    if (kas_replacement_kernel(r, t))
        for (int s = 0; s < KAS_SYM_COUNT; s++)
            if (s < KAS_SYM_R0 || s >= KAS_SYM_G0) /* rests follow from the other sizes */
                kas_buf_printf(text, " %" PRIu32, r->solution.binding[t].value[s]);
    if (kas_replacement_scales(r))
        kas_buf_printf(text, " gain %.9g", (double)kas_replacement_gain(r, t));
}

/* Adds where the elements of a program's weights lie. That depends on the device, and on a GPU on the
 * way that a library computes windows, which depends on the images of a rank. */
static void add_orders(const kas_program *p, kas_buf *text)
{
    for (int i = 0; i < p->weights; i++) {
        const kas_weight *w = &p->weight[i];
        kas_buf_printf(text, "order %zu %zu %zu", w->stride[0], w->stride[1], w->stride[2]);
        for (int d = 0; d < w->digits; d++)
            kas_buf_printf(text, " %" PRIu32 " %zu", w->size[d], w->stride_in[d]);
        kas_buf_puts(text, "\n");
    }
}

/* Adds the replacement. Checkpoints have the order of memory. */
static kas_status add_programs(const kas_programs *programs, kas_buf *text)
{
    const kas_replacement *r = programs ? programs->replacement : NULL;
    if (!r)
        return KAS_OK;
    kas_buf_printf(text, "weights in order %d, maps %d\n", KAS_WEIGHT_ORDER,
                   programs->options.linear_policy);
    for (int k = 0; k < r->kernels; k++) {
        kas_buf_puts(text, k ? "\n" : "");
        KAS_TRY(kas_kernel_canonical_text(&r->kernel[k], text));
    }
    for (int t = 0; t < r->solution.targets; t++)
        add_target(r, t, text);
    for (int i = 0; i < programs->count; i++)
        add_orders(programs->program[i], text);
    kas_buf_puts(text, "\n");
    return KAS_OK;
}

static void add_index(const char *name, const uint32_t *index, uint32_t count, kas_buf *text)
{
    kas_buf_printf(text, "%s %" PRIu32 " %s\n", name, count, index ? "of list" : "first");
    if (index)
        kas_buf_add(text, index, sizeof *index * count);
}

static kas_status add_initial_weights(const char *path, bool partial, kas_buf *text)
{
    if (!path)
        return KAS_OK;
    char hex[65];
    KAS_TRY(kas_file_digest(path, KAS_WEIGHTS_LIMIT, hex));
    kas_buf_printf(text, "init %s%s\n", hex, partial ? " partial" : "");
    return KAS_OK;
}

kas_status kas_train_digest(const kas_train_options *o, uint8_t digest[32])
{
    kas_buf text = {0};
    char scaling[KAS_SCALING_TEXT];
    kas_status status = KAS_OK;
    kas_dataset_scaling(o->dataset, scaling);
    kas_buf_puts(&text, "kas-gpu run 3\n");
    add_net(o->net, &text);
    KAS_TRY_GOTO(add_programs(o->programs, &text), out);
    kas_buf_printf(&text, "data %s %s\nseed %" PRIu64 " test %d\n", o->dataset->digest, scaling,
                   o->seed, o->evaluate_test);
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, &o->recipe, &text);
    kas_buf_puts(&text, o->sync_batch_norm ? "\nbatch norm of all ranks\n" : "\n");
    add_index("train", o->train_index, o->train_count, &text);
    add_index("validation", o->validation_index, o->validation_count, &text);
    if (o->confirm_count)
        add_index("confirm", o->validation_index + o->validation_count, o->confirm_count, &text);
    KAS_TRY_GOTO(add_initial_weights(o->weights_in, o->init_partial, &text), out);
    KAS_TRY_GOTO(kas_buf_status(&text), out);
    kas_sha256 hash;
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, text.data, text.size);
    kas_sha256_final(&hash, digest);
out:
    kas_buf_free(&text);
    return status;
}
