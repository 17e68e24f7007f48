/* Convolutions on cuDNN 9: a graph for each pass, and the plan that runs it.
 *
 * Gradients of weights are float32 to our callers and of the pixels' dtype to cuDNN, and channels
 * that pad the pixels may be channels to cuDNN alone (kas_dnn_conv_desc).  Where the library's
 * weights so differ from the caller's, they stand behind its workspace, and a kernel of ours makes
 * them, or makes the caller's gradient of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/conv_cuda.h"
#include "cuda/dnn_plan.h"
#include "cuda/tuning.h"

struct kas_cudnn_conv {
    bool tensor_cores; /* whether they may be used */
    bool ranked_only;  /* see `list` */
    bool no_library;   /* it refuses the graph */
    /* Our own kernels are a candidate of convolutions in groups, and the plan where taken. */
    kas_direct direct;
    bool has_direct;
    kas_activation activation; /* beside the pass */
    kas_conv_desc desc;
    kas_conv_pass pass;
    kas_dnn_graph graph;
    /* NULL: the library reads and writes the caller's weights */
    const kas_function *convert;
    int rows, columns, pitch; /* of the weights; the pitch is the library's */
    kas_dnn_choice candidate[KAS_MAX_CANDIDATES];
    /* Plans of the candidates, kept until one is chosen: it would be made twice. */
    kas_dnn_plan made[KAS_MAX_CANDIDATES];
    const kas_dnn_plan *plan; /* one of them; NULL: our own kernels */
};

enum { DIRECT = -1 }; /* in place of an engine: our own kernels */

/* Lists our own kernels behind those that the library ranks, but eighth at most: so many are timed, and
 * what is not timed is the library's first. */
static void add_direct(kas_cudnn_conv *c, int ranked, int *count)
{
    const int at = ranked < 7 ? ranked : 7;
    if (*count == KAS_MAX_CANDIDATES)
        --*count;
    memmove(&c->candidate[at + 1], &c->candidate[at], (size_t)(*count - at) * sizeof *c->candidate);
    c->candidate[at] = (kas_dnn_choice){.engine = DIRECT};
    ++*count;
}

static void forget_plans(kas_cuda *cuda, kas_cudnn_conv *c, const kas_dnn_plan *but)
{
    for (int i = 0; i < KAS_MAX_CANDIDATES; i++)
        if (&c->made[i] != but)
            kas_dnn_plan_free(cuda, &c->made[i]);
    c->plan = but;
}

/* Lists the choices. Beside an epilogue a fallback of the library's is left out, because it may cost more
 * than the pass that it saves, unless our own kernels are a choice: then it is timed beside them. */
static kas_status list(kas_cuda *cuda, void *self, int *count)
{
    kas_cudnn_conv *c = self;
    kas_status status = KAS_OK;
    *count = 0;
    forget_plans(cuda, c, NULL);
    if (!c->no_library)
        status = kas_dnn_choices(cuda, &c->graph, c->tensor_cores, c->candidate, KAS_MAX_CANDIDATES,
                                 count);
    if (status != KAS_OK && !(c->has_direct && kas_cuda_is_refusal(cuda, status)))
        return status;
    int ranked = *count;
    while (c->ranked_only && ranked > 0 && c->candidate[ranked - 1].fallback)
        ranked--;
    if (c->has_direct)
        add_direct(c, ranked, count);
    else
        *count = ranked;
    return KAS_OK;
}

/* Returns the offset of the library's weights in the workspace. */
static size_t weights_at(const kas_cudnn_conv *c)
{
    return (c->plan->workspace_bytes + 255) / 256 * 256;
}

static kas_status take(kas_cuda *cuda, void *self, int candidate)
{
    kas_cudnn_conv *c = self;
    kas_dnn_plan *plan = &c->made[candidate];
    c->plan = NULL;
    if (c->candidate[candidate].engine == DIRECT)
        return kas_cuda_reserve_workspace(cuda, c->direct.workspace_bytes);
    if (!plan->plan)
        KAS_TRY(kas_dnn_plan_make(cuda, &c->graph, &c->candidate[candidate], plan));
    c->plan = plan;
    const size_t weights =
        c->convert ? (size_t)c->rows * (size_t)c->pitch * kas_dtype_size(c->desc.dtype) : 0;
    return kas_cuda_reserve_workspace(cuda, weights_at(c) + weights);
}

/* Writes a choice as "engine 13, knobs 2=1 5=0", or "direct". */
static void write_choice(const void *self, int candidate, kas_buf *out)
{
    const kas_dnn_choice *choice = &((const kas_cudnn_conv *)self)->candidate[candidate];
    if (choice->engine == DIRECT) {
        kas_buf_puts(out, "direct");
        return;
    }
    kas_buf_printf(out, "engine %lld, knobs", (long long)choice->engine);
    for (int i = 0; i < choice->knobs; i++)
        kas_buf_printf(out, " %d=%lld", (int)choice->knob[i].type,
                       (long long)choice->knob[i].value);
}

static kas_status take_only(kas_cuda *cuda, kas_cudnn_conv *c, const kas_dnn_choice *choice)
{
    forget_plans(cuda, c, NULL);
    c->candidate[0] = *choice;
    return take(cuda, c, 0);
}

static kas_status read_choice(kas_cuda *cuda, void *self, const char *line)
{
    kas_dnn_choice choice = {.engine = DIRECT};
    long long engine, value;
    int used = 0, type;
    if (((const kas_cudnn_conv *)self)->has_direct && strcmp(line, "direct") == 0)
        return take_only(cuda, self, &choice);
    if (sscanf(line, "engine %lld, knobs%n", &engine, &used) < 1 || used == 0 || engine < 0)
        return kas_fail(KAS_BAD_INPUT, "\"%s\" is not an engine of cuDNN", line);
    choice.engine = engine;
    for (line += used; *line; line += used) {
        if (choice.knobs == KAS_DNN_MAX_KNOBS ||
            sscanf(line, " %d=%lld%n", &type, &value, &used) < 2)
            return kas_fail(KAS_BAD_INPUT, "\"%s\" are not knobs of cuDNN", line);
        choice.knob[choice.knobs++] = (kas_dnn_knob){type, value};
    }
    return take_only(cuda, self, &choice);
}

static kas_status run(kas_cuda *cuda, const void *self, const kas_conv_operands *o)
{
    return kas_cudnn_conv_run(cuda, self, o);
}

static kas_status choose(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                         kas_conv_beside beside, kas_cudnn_conv *c)
{
    char library[96];
    snprintf(library, sizeof library, "cuDNN %s, cuBLASLt %s", cuda->dnn->library.version,
             cuda->lt ? cuda->lt->library.version : "none"); /* some engines call it */
    const kas_tuned tuned = {.name = library,
                             .self = c,
                             .list = list,
                             .take = take,
                             .write = write_choice,
                             .read = read_choice,
                             .run = run};
    return kas_tune_conv(cuda, desc, pass, beside, &tuned);
}

/* Finds the kernel that makes the library's weights, or the caller's gradient; none where they are
 * the same. */
static kas_status prepare_convert(kas_cuda *cuda, const kas_conv_desc *of_library,
                                  kas_cudnn_conv *c)
{
    const kas_conv_desc *desc = &c->desc;
    const int taps = desc->kernel_h * desc->kernel_w;
    const bool pads = of_library->c_in != desc->c_in;
    const char *name = NULL;
    if (c->pass == KAS_CONV_FORWARD && pads)
        name = "kas_dev_shortcut_a_forward"; /* it pads pixels with zeros */
    else if (c->pass == KAS_CONV_BACKWARD_WEIGHTS)
        name = desc->dtype != KAS_F32 ? "kas_dev_widen" : pads ? "kas_dev_copy" : NULL;
    if (!name)
        return KAS_OK;
    kas_module *module;
    kas_function *convert;
    KAS_TRY(kas_cuda_module_builtin(&cuda->base, desc->dtype, &module));
    KAS_TRY(kas_cuda_module_function(module, name, &convert));
    c->convert = convert;
    c->rows = pads ? desc->c_out * taps : desc->c_out;
    c->columns = pads ? desc->c_in : taps * (desc->c_in / desc->groups);
    c->pitch = pads ? of_library->c_in : c->columns;
    return KAS_OK;
}

/* Finds our own kernels where they are a candidate; there are none for sizes that they do not take. */
static kas_status find_direct(kas_cuda *cuda, kas_conv_beside beside, kas_cudnn_conv *c)
{
    if (!kas_direct_takes(cuda, &c->desc, c->pass, beside))
        return KAS_OK;
    const kas_status status = kas_direct_create(cuda, &c->desc, &c->direct);
    c->has_direct = status == KAS_OK;
    return status == KAS_UNSUPPORTED ? KAS_OK : status;
}

/* Makes the library's graph. Where it refuses, our own kernel may still be a candidate. */
static kas_status make_graph(kas_cuda *cuda, const kas_conv_desc *of_library,
                             kas_conv_beside beside, kas_cudnn_conv *c)
{
    const kas_status status = kas_dnn_graph_make(cuda, of_library, c->pass, beside, &c->graph);
    c->no_library = c->has_direct && kas_cuda_is_refusal(cuda, status);
    return c->no_library ? KAS_OK : status;
}

kas_status kas_cudnn_conv_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                                 kas_conv_beside beside, kas_cudnn_conv **out)
{
    kas_status status;
    const kas_conv_desc of_library = kas_dnn_conv_desc(desc, pass);
    if (!cuda->dnn_handle)
        return kas_fail(KAS_UNSUPPORTED, "no cuDNN");
    kas_cudnn_conv *c = calloc(1, sizeof *c);
    if (!c)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    c->tensor_cores = desc->tf32 || desc->dtype != KAS_F32;
    c->ranked_only = kas_conv_has_beside(beside);
    c->activation = beside.activation;
    c->desc = *desc;
    c->pass = pass;
    KAS_TRY_GOTO(find_direct(cuda, beside, c), failed);
    KAS_TRY_GOTO(prepare_convert(cuda, &of_library, c), failed);
    KAS_TRY_GOTO(make_graph(cuda, &of_library, beside, c), failed);
    KAS_TRY_GOTO(choose(cuda, &of_library, pass, beside, c), failed);
    forget_plans(cuda, c, c->plan);
    *out = c;
    return KAS_OK;
failed:
    kas_cudnn_conv_free(cuda, c);
    return status;
}

void kas_cudnn_conv_free(kas_cuda *cuda, kas_cudnn_conv *c)
{
    if (!c)
        return;
    forget_plans(cuda, c, NULL);
    kas_dnn_graph_free(cuda, &c->graph);
    free(c);
}

/* Launches `convert`, in a forward pass to the library's weights, else from its gradient. */
static kas_status run_convert(kas_cuda *cuda, const kas_cudnn_conv *c, void *ours, void *librarys)
{
    const kas_conv_desc *d = &c->desc;
    const int taps = d->kernel_h * d->kernel_w;
    const int rows = c->pitch != c->columns ? KAS_MAX_BLOCK : 1; /* a padded row is one thread's */
    const unsigned blocks = (unsigned)((c->rows + rows - 1) / rows);
    const unsigned grid[3] = {c->pass == KAS_CONV_FORWARD ? (unsigned)d->c_out : blocks, 1, 1};
    const unsigned block[3] = {KAS_MAX_BLOCK / (unsigned)rows, (unsigned)rows, 1};
    const kas_shortcut_args pad = {.in = ours,
                                   .out = librarys,
                                   .h = d->c_out,
                                   .width = taps,
                                   .out_h = d->c_out,
                                   .out_w = taps,
                                   .size = 1,
                                   .c = c->columns,
                                   .pitch_x = c->columns,
                                   .pitch_y = c->pitch,
                                   .c_out = c->pitch};
    const kas_rows_args copy = {.a = librarys,
                                .y = ours,
                                .rows = c->rows,
                                .c = c->columns,
                                .pitch_a = c->pitch,
                                .pitch_y = c->columns,
                                .rows_per_block = rows};
    const kas_cast_args widen = {.real = librarys,
                                 .value = ours,
                                 .rows = c->rows,
                                 .c = c->columns,
                                 .pitch_real = c->pitch,
                                 .pitch_value = c->columns,
                                 .rows_per_block = rows,
                                 .whole = c->columns % 8 == 0};
    const void *args = c->pass == KAS_CONV_FORWARD ? (const void *)&pad
                       : d->dtype == KAS_F32       ? (const void *)&copy
                                                   : (const void *)&widen;
    return kas_cuda_launch(cuda, c->convert, grid, block, args);
}

kas_status kas_cudnn_conv_run(kas_cuda *cuda, const kas_cudnn_conv *c, const kas_conv_operands *o)
{
    if (!kas_conv_operands_are_aligned(o))
        return kas_fail(KAS_UNSUPPORTED, "a tensor is not aligned to %d bytes", KAS_CONV_ALIGNMENT);
    char *workspace = (char *)(uintptr_t)cuda->workspace;
    if (!c->plan)
        return kas_direct_run(cuda, &c->direct, &c->desc, c->pass, o, c->activation);
    if (!c->convert)
        return kas_dnn_plan_run(cuda, c->plan, o, workspace);
    kas_conv_operands of_library = *o;
    of_library.w = workspace + weights_at(c);
    if (c->pass == KAS_CONV_FORWARD)
        KAS_TRY(run_convert(cuda, c, o->w, of_library.w));
    KAS_TRY(kas_dnn_plan_run(cuda, c->plan, &of_library, workspace));
    return c->pass == KAS_CONV_FORWARD ? KAS_OK : run_convert(cuda, c, o->w, of_library.w);
}
