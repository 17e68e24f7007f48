#include "host/study/code_version.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/device_code.h"
#include "host/core/sha256.h"
#include "host/data/order.h"
#include "host/model/params.h"
#include "host/model/tape.h"
#include "host/net/targets.h"
#include "host/space/evolve/evolve.h"
#include "host/space/file/assignment.h"
#include "host/train/schedule.h"
#include "jit/programs.h"

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *skip_comment(const char *at)
{
    if (at[1] == '/')
        return at + strcspn(at, "\n");
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

/* Appends a text without comments. White space of any length becomes one blank, or a line's end
 * where a preprocessor directive needs it. */
static void add_code(const char *at, kas_buf *out)
{
    while (*at) {
        if (at[0] == '/' && (at[1] == '/' || at[1] == '*')) {
            at = skip_comment(at);
            kas_buf_puts(out, " ");
        } else if (isspace((unsigned char)*at)) {
            const size_t length = strspn(at, " \t\r\n");
            kas_buf_puts(out, memchr(at, '\n', length) ? "\n" : " ");
            at += length ? length : 1;
        } else {
            const size_t length = strcspn(at + 1, "/ \t\r\n\v\f") + 1;
            kas_buf_add(out, at, length);
            at += length;
        }
    }
}

/* Removes the double blanks that comments between words have left. */
static void collapse(kas_buf *text)
{
    size_t end = 0;
    for (size_t i = 0; i < text->size; i++) {
        const char c = text->data[i], before = end ? text->data[end - 1] : '\n';
        if (c == ' ' && (before == ' ' || before == '\n'))
            continue;
        if (c == '\n' && end && before == ' ')
            end--;
        if (c == '\n' && (end == 0 || text->data[end - 1] == '\n'))
            continue;
        text->data[end++] = c;
    }
    text->size = end;
}

void kas_code_text(const char *text, kas_buf *out)
{
    kas_buf own = {0};
    add_code(text, &own);
    if (own.size)
        collapse(&own);
    kas_buf_add(out, own.data, own.size);
    out->failed |= own.failed;
    kas_buf_free(&own);
}

static void add_device_code(kas_buf *out)
{
    kas_code_text(kas_prelude_text, out);
    for (int number = 0; number < 3; number++)
        kas_code_text(kas_builtin_text[number], out);
    for (int i = 0; kas_device_code_flags[i]; i++)
        kas_buf_printf(out, " %s", kas_device_code_flags[i]);
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char *const kernels[] = {
    "[{\"op\":\"input\"},{\"op\":\"group\",\"in\":[0],\"dim\":0,\"by\":\"G0\"},"
    "{\"op\":\"mix\",\"in\":[1],\"dim\":1,\"dim_end\":2,\"out\":\"x0\"},"
    "{\"op\":\"mix\",\"in\":[1],\"dim\":1,\"dim_end\":2,\"out\":\"x0\"},"
    "{\"op\":\"bmm\",\"in\":[2,3],\"transpose\":\"lhs\",\"softmax\":true},"
    "{\"op\":\"bmm\",\"in\":[1,4],\"transpose\":\"rhs\"},"
    "{\"op\":\"bmm\",\"in\":[1,1],\"transpose\":\"rhs\",\"softmax\":true},"
    "{\"op\":\"bmm\",\"in\":[6,5]},{\"op\":\"add\",\"in\":[5,7]},"
    "{\"op\":\"fc\",\"in\":[8],\"out\":\"C\"}],\"groups\":{\"G0\":4}",

    "[{\"op\":\"input\"},{\"op\":\"group\",\"in\":[0],\"dim\":0,\"by\":\"G0\"},"
    "{\"op\":\"conv\",\"in\":[1],\"axes\":\"hw\",\"kernel\":5,\"grouped\":true,\"out\":\"C\"},"
    "{\"op\":\"relu\",\"in\":[2]},"
    "{\"op\":\"conv_depthwise\",\"in\":[3],\"axes\":\"w\",\"kernel\":3,\"dilation\":2},"
    "{\"op\":\"conv\",\"in\":[4],\"axes\":\"h\",\"out\":\"C\"}],\"groups\":{\"G0\":4}",

    "[{\"op\":\"input\"},{\"op\":\"pool_max\",\"in\":[0],\"axes\":\"hw\",\"kernel\":5},"
    "{\"op\":\"pool_avg\",\"in\":[1],\"axes\":\"w\"},{\"op\":\"sub\",\"in\":[2,0]},"
    "{\"op\":\"group\",\"in\":[3],\"dim\":0,\"by\":\"G0\"},"
    "{\"op\":\"fc\",\"in\":[4],\"grouped\":true,\"out\":\"C\"},"
    "{\"op\":\"shuffle\",\"in\":[5],\"dim\":0,\"by\":\"G0\"},{\"op\":\"relu\",\"in\":[6]},"
    "{\"op\":\"group_all\",\"in\":[7],\"dim\":0},"
    "{\"op\":\"unfold\",\"in\":[8],\"axes\":\"hw\",\"dilation\":2},"
    "{\"op\":\"fc\",\"in\":[9],\"grouped\":true,\"out\":\"C\"}],\"groups\":{\"G0\":4}",

    "[{\"op\":\"input\"},{\"op\":\"group\",\"in\":[0],\"dim\":0,\"by\":\"G0\"},"
    "{\"op\":\"norm\",\"in\":[1],\"dim\":1,\"dim_end\":4},"
    "{\"op\":\"scale\",\"in\":[2],\"dim\":0,\"dim_end\":2},{\"op\":\"gelu\",\"in\":[3]},"
    "{\"op\":\"unfold\",\"in\":[4],\"axes\":\"hw\"},{\"op\":\"fold_max\",\"in\":[5],\"dim\":2},"
    "{\"op\":\"fold_avg\",\"in\":[6],\"dim\":2},{\"op\":\"fc\",\"in\":[7],\"out\":\"C\"},"
    "{\"op\":\"softmax\",\"in\":[8],\"dim\":0,\"dim_end\":1}],\"groups\":{\"G0\":4}",

    "[{\"op\":\"input\"},{\"op\":\"slice\",\"in\":[0],\"dim\":1,\"split\":\"S0\",\"segment\":0},"
    "{\"op\":\"slice\",\"in\":[0],\"dim\":1,\"split\":\"S0\",\"segment\":1},"
    "{\"op\":\"shift\",\"in\":[2],\"axes\":\"h\",\"offset\":-1},"
    "{\"op\":\"unfold\",\"in\":[1],\"axes\":\"hw\"},{\"op\":\"fc\",\"in\":[4],\"out\":\"C\"},"
    "{\"op\":\"concat\",\"in\":[5,3],\"dim\":1,\"split\":\"S0\"},"
    "{\"op\":\"fc\",\"in\":[6],\"out\":\"C\"}],"
    "\"splits\":{\"S0\":{\"whole\":\"H\",\"first\":1}}",

    "[{\"op\":\"input\"},{\"op\":\"sigmoid\",\"in\":[0]},{\"op\":\"tanh\",\"in\":[0]},"
    "{\"op\":\"mul\",\"in\":[1,2]},{\"op\":\"abs\",\"in\":[3]},{\"op\":\"sqrt\",\"in\":[4]},"
    "{\"op\":\"sin\",\"in\":[5]},{\"op\":\"min\",\"in\":[6,0]},{\"op\":\"square\",\"in\":[7]},"
    "{\"op\":\"max\",\"in\":[8,3]},{\"op\":\"neg\",\"in\":[9]},{\"op\":\"exp\",\"in\":[10]},"
    "{\"op\":\"fc\",\"in\":[11],\"out\":\"C\"}]",
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static void add_operation(const kas_operation *op, kas_buf *out)
{
    const kas_conv_desc *c = &op->conv;
    kas_buf_printf(out, "%d %s", op->kind, op->function);
    for (int i = 0; i < 3; i++)
        kas_buf_printf(out, " %u %u", op->grid[i], op->block[i]);
    for (int i = 0; i < op->args; i++)
        kas_buf_printf(out, " %d", op->arg[i]);
    kas_buf_printf(out, " %d %d", op->times, op->total);
    if (op->kind == KAS_OPERATION_CONV)
        kas_buf_printf(out, " %d %d+%zu %d %d+%zu: %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d",
                       op->pass, op->x, op->x_offset, op->w, op->y, op->y_offset, c->n, c->h, c->w,
                       c->c_in, c->c_out, c->groups, c->kernel_h, c->kernel_w, c->stride, c->pad_h,
                       c->pad_w, c->x_pitch, c->y_pitch, c->dilation, c->dtype, c->tf32);
    kas_buf_puts(out, "\n");
}

static void add_program(const kas_program *p, kas_buf *out)
{
    kas_code_text(p->source, out);
    for (int i = 0; i < p->forwards; i++)
        add_operation(&p->forward[i], out);
    for (int i = 0; i < p->backwards; i++)
        add_operation(&p->backward[i], out);
    for (int i = 0; i < p->weights; i++)
        kas_buf_printf(out, "%d %zu\n", p->weight[i].init, p->weight[i].elements);
}

/* Adds the operations of a training step, and the first of its initial weights. */
static kas_status add_step(const kas_net *net, const kas_programs *programs, kas_dtype dtype,
                           kas_buf *out)
{
    const kas_tape_options options = {.batch = 8, .mode = KAS_TAPE_TRAIN, .dtype = dtype};
    kas_tape tape = {0};
    kas_params params = {0};
    float *values = NULL;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_tape_build(net, programs, &options, &tape), out);
    kas_buf_add(out, tape.op, sizeof *tape.op * (size_t)tape.ops); /* consists of int only */
    KAS_TRY_GOTO(kas_params_build(net, programs, &params), out);
    for (int i = 0; i < params.count && i < 4; i++) {
        float *grown = realloc(values, sizeof *values * params.param[i].size);
        if (!grown) {
            status = kas_fail(KAS_NO_MEMORY, "the code's version: out of memory");
            goto out;
        }
        values = grown;
        kas_param_init(&params.param[i], 1, values);
        kas_buf_add(out, values, sizeof *values * params.param[i].size);
    }
out:
    free(values);
    kas_params_free(&params);
    kas_tape_free(&tape);
    return status;
}

static kas_status add_replacement(const kas_net *net, const kas_replacement *replacement,
                                  const kas_program_options *options, kas_buf *out)
{
    kas_programs programs;
    KAS_TRY(kas_programs_build(replacement, options, &programs));
    for (int p = 0; p < programs.count; p++)
        add_program(programs.program[p], out);
    const kas_status status =
        options->training ? add_step(net, &programs, options->dtype, out) : KAS_OK;
    kas_programs_free(&programs);
    return status;
}

/* Adds a kernel at one convolution, each kernel at another shape, and not at all convolutions: with
 * a few dtypes and devices that gives some twenty programs and not hundreds. */
static kas_status add_kernel(const kas_net *net, const kas_target *target, int k, kas_buf *out)
{
    const kas_program_options options[] = {
        {.batch = 8, .training = true, .linear_policy = KAS_LINEAR_CPU},
        {.batch = 8,
         .training = true,
         .dtype = k % 2 ? KAS_F16 : KAS_BF16,
         .linear_policy = KAS_LINEAR_GPU},
        {.batch = 8, .linear_policy = KAS_LINEAR_GPU}};
    const int count = k == 0 || k == 4 ? 3 : 2;
    const kas_budget no_budget = {0};
    kas_buf text = {0};
    kas_assignment kernel;
    kas_replacement fit;
    kas_buf_printf(&text, "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":%s}", kernels[k]);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status =
            kas_assignment_read_json("the code's version", kas_buf_text(&text), text.size, &kernel);
    kas_buf_free(&text);
    KAS_TRY(status);
    KAS_TRY_GOTO(kas_assignment_fit(&kernel, target, 1, &no_budget, &fit), out);
    for (int i = 0; i < count && status == KAS_OK; i++)
        status = add_replacement(net, &fit, &options[i], out);
    kas_replacement_free(&fit);
out:
    kas_assignment_free(&kernel);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "kernel %d", k);
}

static kas_status add_programs(kas_buf *out)
{
    kas_net *net = NULL;
    kas_target *target = NULL;
    int targets = 0;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_net_build("resnet20", 8, 8, 3, 10, &net), out);
    KAS_TRY_GOTO(kas_net_targets(net, NULL, &target, &targets), out);
    for (int k = 0; k < KERNELS && status == KAS_OK; k++)
        status = add_kernel(net, &target[k * (targets - 1) / (KERNELS - 1)], k, out);
out:
    free(target);
    if (net)
        kas_net_free(net);
    return status;
}

/* ---- arithmetic of the host ------------------------------------------------------------------ */

static kas_status add_run(kas_buf *out)
{
    uint32_t order[64];
    for (int schedule = 0; schedule < 3; schedule++) {
        kas_recipe recipe = kas_recipe_default();
        recipe.epochs = 4;
        recipe.mixup = schedule == 1 ? 0.5f : 0;
        recipe.cutmix = schedule == 2 ? 1 : 0;
        recipe.ema = 0.99f;
        const kas_run_plan plan = {
            .recipe = &recipe, .steps_per_epoch = 4, .seed = 1, .h = 8, .w = 8};
        for (uint64_t step = 0; step < 16; step++) {
            const kas_step_row row = kas_schedule_row(&plan, step);
            kas_buf_add(out, &row, sizeof row);
        }
        KAS_TRY(kas_epoch_order(1, (uint32_t)schedule,
                                schedule ? KAS_SHUFFLE_WINDOW : KAS_SHUFFLE_FULL, NULL, 64, order));
        kas_buf_add(out, order, sizeof order);
    }
    return KAS_OK;
}

kas_status kas_code_version(char out[KAS_CODE_VERSION_SIZE])
{
    char hex[65];
    kas_buf text = {0};
    kas_status status = KAS_OK;
    kas_buf_printf(&text, "kas-gpu code, host %d, children %d, choice %d\n", KAS_HOST_ARITHMETIC,
                   KAS_CHILDREN_VERSION, KAS_CHOICE_VERSION);
    add_device_code(&text);
    KAS_TRY_GOTO(add_programs(&text), out);
    KAS_TRY_GOTO(add_run(&text), out);
    KAS_TRY_GOTO(kas_buf_status(&text), out);
    kas_sha256_hex(text.data, text.size, hex);
    snprintf(out, KAS_CODE_VERSION_SIZE, "%.16s", hex);
out:
    kas_buf_free(&text);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "the code's version");
}
