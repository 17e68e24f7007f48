/* The pipeline: lowers, differentiates, fuses, schedules, checks and emits a kernel, and
 * makes the program. */
#include "jit/ir/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "jit/emit/emit.h"
#include "jit/lower/epilogue.h"
#include "jit/lower/lower.h"
#include "jit/maps.h"
#include "jit/once.h"
#include "jit/pieces.h"
#include "jit/saved.h"
#include "jit/schedule/dependence.h"
#include "jit/schedule/schedule_file.h"
#include "jit/schedule/sequence_text.h"
#include "jit/schedule/vary.h"
#include "jit/schedule/wide.h"
#include "jit/tuned.h"

typedef struct builder {
    kas_ir ir;
    kas_lower lower;
    kas_inliner inliner;
    kas_buf source, schedules;
    const kas_program_options *options;
    bool prescribed[KAS_SCHEDULE_KERNELS]; /* kernels of the schedule file that were met */
    kas_maps maps;
    kas_program *program;
    bool has_epilogues;
    kas_epilogue_tensors epilogue; /* what they read */
    kas_schedule y_schedule;       /* of y's kernel and of all epilogues */
    int scaling;                   /* operation that makes weights times the gain; -1: none */
} builder;

/* ---- buffers --------------------------------------------------------------------------------- */

static kas_status add_buffer(builder *b, int tensor, int *number)
{
    const kas_ir_tensor *t = &b->ir.tensor[tensor];
    kas_program *p = b->program;
    if (!KAS_GROW(p->buffer, p->buffers))
        return kas_ir_no_memory();
    const size_t size = kas_dtype_size(t->dtype);
    const bool shares = t->role == KAS_ROLE_X || t->role == KAS_ROLE_Y || t->role == KAS_ROLE_DX ||
                        t->role == KAS_ROLE_DY || t->role == KAS_ROLE_RESIDUAL;
    kas_buffer *buffer = &p->buffer[p->buffers];
    *buffer = (kas_buffer){.role = t->role, .index = t->role_index, .dtype = t->dtype};
    buffer->bytes = size * (size_t)kas_ir_memory(&b->ir, tensor);
    buffer->once = t->once;
    if (shares)
        kas_pieces_cut(p, buffer, size * (size_t)t->floats);
    *number = p->buffers++;
    return KAS_OK;
}

/* Finds the buffer of a tensor; an inner tensor gets one at first use. */
static kas_status buffer_of(builder *b, int tensor, int *number)
{
    const int memory = kas_fuse_memory(&b->ir, tensor);
    kas_ir_tensor *t = &b->ir.tensor[memory];
    if (t->buffer < 0)
        KAS_TRY(add_buffer(b, memory, &t->buffer));
    *number = t->buffer;
    return KAS_OK;
}

/* Makes the buffers that the caller gives, whether or not this kernel uses all of them. */
static kas_status add_caller_buffers(builder *b)
{
    const kas_lower *l = &b->lower;
    int number;
    KAS_TRY(buffer_of(b, l->x, &number));
    KAS_TRY(buffer_of(b, l->y, &number));
    for (int i = 0; i < l->weights; i++)
        KAS_TRY(buffer_of(b, l->weight_tensor[i], &number));
    if (l->gain >= 0)
        KAS_TRY(buffer_of(b, l->gain, &number));
    if (!l->training)
        return KAS_OK;
    KAS_TRY(buffer_of(b, l->dx, &number));
    KAS_TRY(buffer_of(b, l->dy, &number));
    for (int i = 0; i < l->weights; i++)
        KAS_TRY(buffer_of(b, l->dweight[i], &number));
    return KAS_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static kas_status add_operation(builder *b, bool backward, kas_operation **out)
{
    kas_program *p = b->program;
    kas_operation **list = backward ? &p->backward : &p->forward;
    int *count = backward ? &p->backwards : &p->forwards;
    if (!KAS_GROW(*list, *count))
        return kas_ir_no_memory();
    *out = &(*list)[(*count)++];
    memset(*out, 0, sizeof **out);
    (*out)->times = p->pieces;
    return KAS_OK;
}

static double tensor_bytes(const kas_ir *ir, int tensor)
{
    return (double)kas_dtype_size(ir->tensor[tensor].dtype) * (double)ir->tensor[tensor].elements;
}

/* Finds whether a batch norm can be folded into a convolution: outside training, where it writes Y, its
 * outputs are the layer's channels, and its weights are the kernel's own or these times the gain. */
static void find_fold(builder *b, int tensor, const kas_operation *op)
{
    const kas_lower *l = &b->lower;
    kas_program *p = b->program;
    if (p->training || p->buffer[op->y].role != KAS_ROLE_Y ||
        op->conv.c_out != (int)p->target.c_out)
        return;
    for (int k = 0; k < l->kernel->nodes; k++)
        if (l->fc[k].library && l->fc[k].output == tensor && l->fc[k].windows != KAS_FC_MERGED)
            p->fold = (kas_fold_place){p->forwards - 1, l->fc[k].weight, b->scaling};
}

static kas_status add_conv(builder *b, int tensor)
{
    const kas_ir_tensor t = b->ir.tensor[tensor];
    kas_operation *op;
    KAS_TRY(add_operation(b, t.backward, &op));
    op->kind = KAS_OPERATION_CONV;
    op->pass = t.pass;
    op->conv = t.conv;
    if (b->options->tuned || b->options->list_schedules)
        kas_tuned_map_name(b->ir.cpu, b->program->training, &t.conv, t.pass, op->record);
    /* Which tensor is x, w and y of the pass; x and y bring their pitch. */
    const int x = t.pass == KAS_CONV_BACKWARD_DATA ? tensor : t.conv_in[0];
    const int w = t.pass == KAS_CONV_BACKWARD_WEIGHTS ? tensor : t.conv_in[1];
    const int y = t.pass == KAS_CONV_FORWARD         ? tensor
                  : t.pass == KAS_CONV_BACKWARD_DATA ? t.conv_in[0]
                                                     : t.conv_in[1];
    op->conv.x_pitch = b->ir.tensor[x].pitch;
    op->conv.y_pitch = b->ir.tensor[y].pitch;
    op->flops = kas_conv_flops(&op->conv);
    op->bytes = tensor_bytes(&b->ir, x) + tensor_bytes(&b->ir, w) + tensor_bytes(&b->ir, y);
    KAS_TRY(buffer_of(b, x, &op->x));
    KAS_TRY(buffer_of(b, w, &op->w));
    KAS_TRY(buffer_of(b, y, &op->y));
    op->x_offset = (size_t)kas_fuse_offset(&b->ir, x) * kas_dtype_size(b->ir.dtype);
    op->y_offset = (size_t)kas_fuse_offset(&b->ir, y) * kas_dtype_size(b->ir.dtype);
    find_fold(b, tensor, op);
    return KAS_OK;
}

static kas_ex value_of(builder *b, int tensor)
{
    const kas_ir_tensor *t = &b->ir.tensor[tensor];
    return t->row_var >= 0 ? t->row_value : kas_inline(&b->inliner, tensor);
}

/* Compares the order of a nest's sums with that of the default one's. */
static kas_status compare_sums(builder *b, const kas_nest *plain, const kas_nest *nest)
{
    kas_buf own = {0}, usual = {0};
    kas_status status = kas_nest_print_sums(&b->ir, nest, &own);
    if (status == KAS_OK)
        status = kas_nest_print_sums(&b->ir, plain, &usual);
    b->program->other_sums |= strcmp(kas_buf_text(&own), kas_buf_text(&usual)) != 0;
    kas_buf_free(&own);
    kas_buf_free(&usual);
    return status;
}

/* Names the record of a launch by its text under the default schedule. */
static kas_status name_record(builder *b, const kas_nest *plain, kas_operation *op)
{
    kas_buf text = {0};
    int args[KAS_MAX_LAUNCH_ARGS], count;
    kas_status status = kas_emit_kernel(&b->ir, plain, "kernel", &text, args, &count);
    if (status == KAS_OK)
        status = kas_buf_status(&text);
    if (status == KAS_OK)
        kas_tuned_name(&b->ir, plain, kas_buf_text(&text), op->record);
    kas_buf_free(&text);
    return status;
}

/* Chooses a kernel's schedule: that of the schedule file, a tuned one, one that is drawn, or the
 * default. */
static kas_status choose_schedule(builder *b, const kas_nest *open, const kas_nest *plain, int k,
                                  uint64_t tensor, kas_operation *op, kas_schedule *out)
{
    const kas_program_options *o = b->options;
    kas_rng rng = kas_rng_make(o->schedule_seed, KAS_PURPOSE_TEST, tensor);
    *out = plain->schedule;
    if (o->tuned || o->list_schedules)
        KAS_TRY(name_record(b, plain, op));
    if (k >= 0)
        KAS_TRY(kas_schedule_file_steps(&b->ir, open, o->schedule_file, k, out));
    else if (o->tuned)
        KAS_TRY(kas_tuned_take(&b->ir, open, o->tuned, op, out, &b->program->tuned));
    else if (o->schedule_seed)
        KAS_TRY(kas_schedule_vary(&b->ir, open, &plain->schedule, &rng, out));
    return KAS_OK;
}

/* Schedules a kernel by default. Epilogues have the loops and sums of y's own kernel, and so all of
 * them have one schedule, where that is legal. */
static kas_status schedule_by_default(builder *b, const kas_nest *open, int tensor, kas_nest *plain)
{
    kas_schedule schedule;
    *plain = *open;
    if (tensor == b->lower.y && b->has_epilogues) {
        const bool quiet = kas_quiet(true);
        const kas_status status = kas_schedule_apply(&b->ir, &b->y_schedule, plain);
        kas_quiet(quiet);
        if (status == KAS_OK)
            return KAS_OK;
        *plain = *open;
    }
    KAS_TRY(kas_schedule_default(&b->ir, open, &schedule));
    return kas_schedule_apply(&b->ir, &schedule, plain);
}

static kas_status schedule_kernel(builder *b, int tensor, kas_ex value, kas_operation *op,
                                  kas_nest *nest)
{
    const kas_program_options *o = b->options;
    const char *name = op->function + strlen(b->program->prefix) + 1;
    const int k = o->schedule_file ? kas_schedule_file_find(o->schedule_file, name) : -1;
    kas_nest open, plain;
    kas_schedule schedule;
    KAS_TRY(kas_nest_open(&b->ir, tensor, value, &open));
    KAS_TRY(schedule_by_default(b, &open, tensor, &plain));
    *nest = plain;
    if (k >= 0 || o->tuned || o->schedule_seed || o->list_schedules) {
        KAS_TRY(choose_schedule(b, &open, &plain, k, (uint64_t)tensor, op, &schedule));
        *nest = open;
        const kas_status status = kas_schedule_apply(&b->ir, &schedule, nest);
        if (status != KAS_OK)
            return k < 0 ? status
                         : kas_fail_context(status, "%s: kernel %s", o->schedule_file->path, name);
        KAS_TRY(compare_sums(b, &plain, nest));
    }
    if (k >= 0)
        b->prescribed[k] = true;
    if (o->list_schedules)
        kas_schedule_print(&b->ir, nest, name, &b->schedules);
    return kas_buf_status(&b->schedules);
}

/* Makes the kernel, already named by `op`, that writes `value` to the tensor's memory. */
static kas_status write_kernel(builder *b, int tensor, kas_ex value, kas_operation *op)
{
    kas_ir *ir = &b->ir;
    kas_nest nest;
    int args[KAS_MAX_LAUNCH_ARGS];
    KAS_TRY(ir->status);
    KAS_TRY(schedule_kernel(b, tensor, value, op, &nest));
    KAS_TRY(kas_nest_prove_bounds(ir, &nest));
    op->kind = KAS_OPERATION_LAUNCH;
    memcpy(op->grid, nest.grid, sizeof op->grid);
    memcpy(op->block, nest.block, sizeof op->block);
    op->width = nest.width;
    KAS_TRY(kas_nest_count(ir, &nest, &op->flops, &op->bytes, &op->effort));
    KAS_TRY(kas_nest_accessed(ir, &nest, &op->accessed));
    if (b->options->unwritten)
        return KAS_OK;
    op->text = b->source.size;
    KAS_TRY(kas_emit_kernel(ir, &nest, op->function, &b->source, args, &op->args));
    op->text_size = b->source.size - op->text;
    memcpy(op->symbol, op->function, sizeof op->symbol);
    for (int i = 0; i < op->args; i++)
        KAS_TRY(buffer_of(b, args[i], &op->arg[i]));
    return KAS_OK;
}

static kas_status add_launch_of(builder *b, int tensor, kas_ex value, kas_operation **op)
{
    kas_program *p = b->program;
    const bool backward = b->ir.tensor[tensor].backward;
    KAS_TRY(add_operation(b, backward, op));
    snprintf((*op)->function, sizeof(*op)->function, "%s_%c%d", p->prefix, backward ? 'b' : 'f',
             (backward ? p->backwards : p->forwards) - 1);
    if (b->ir.tensor[tensor].once)
        (*op)->times = 1;
    return write_kernel(b, tensor, value, *op);
}

/* Chooses the schedule of y's kernel and its epilogues by the first one that the caller wants: what
 * runs is mostly an epilogue. */
static kas_status begin_epilogues(builder *b, kas_ex value)
{
    const kas_program_options *o = b->options;
    kas_nest open;
    int first = 0;
    while (first < o->epilogues && !o->epilogue[first].norm)
        first++;
    KAS_TRY(b->ir.status);
    if (first == o->epilogues || !kas_epilogue_fits(&b->ir, value))
        return KAS_OK;
    kas_epilogue_add_tensors(&b->ir, b->lower.y, &b->epilogue);
    const kas_ex e = kas_epilogue_value(&b->ir, &b->epilogue, value, o->epilogue[first]);
    KAS_TRY(b->ir.status);
    KAS_TRY(kas_nest_open(&b->ir, b->lower.y, e, &open));
    KAS_TRY(kas_schedule_default(&b->ir, &open, &b->y_schedule));
    b->has_epilogues = true;
    return KAS_OK;
}

static kas_status add_launch(builder *b, int tensor)
{
    kas_operation *op;
    const kas_ex value = value_of(b, tensor);
    if (tensor == b->lower.y)
        KAS_TRY(begin_epilogues(b, value));
    KAS_TRY(add_launch_of(b, tensor, value, &op));
    if (tensor == b->lower.scaled)
        b->scaling = b->program->forwards - 1;
    if (tensor == b->lower.y)
        b->program->written_by = b->program->forwards - 1;
    return KAS_OK;
}

static void replace_buffer(kas_operation *op, int from, int to)
{
    int *const used[] = {&op->x, &op->w, &op->y};
    for (int i = 0; i < 3 && op->kind == KAS_OPERATION_CONV; i++)
        *used[i] = *used[i] == from ? to : *used[i];
    for (int i = 0; i < op->args; i++)
        op->arg[i] = op->arg[i] == from ? to : op->arg[i];
}

/* Makes the memory of a weight's gradient hold one for each piece, and the kernel that adds them up in
 * the order of the pieces, and multiplies by the gain where a library reads the weight times it. */
static kas_status total_gradient(builder *b, int weight)
{
    kas_program *p = b->program;
    kas_ir *ir = &b->ir;
    const kas_ir_tensor dw = ir->tensor[b->lower.dweight[weight]];
    const int64_t floats[2] = {p->pieces, (dw.floats + 15) / 16 * 16};
    const int parts = kas_ir_add_tensor(ir, KAS_TENSOR_EXTERN, 2, floats, 0),
              sum = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 1, &dw.floats, 0);
    const int piece = kas_ir_loop_var(ir, p->pieces);
    int number, whole;
    kas_operation *op;
    KAS_TRY(ir->status);
    ir->tensor[parts].dtype = KAS_F32;
    ir->tensor[sum].backward = true;
    KAS_TRY(buffer_of(b, b->lower.dweight[weight], &whole));
    KAS_TRY(buffer_of(b, parts, &number));
    p->buffer[number].step = sizeof(float) * (size_t)floats[1];
    for (int i = 0; i < p->backwards; i++)
        replace_buffer(&p->backward[i], whole, number);
    ir->tensor[sum].buffer = whole;
    const kas_ix at = kas_ix_add(ir, kas_ix_scale(ir, kas_ix_var(ir, piece), floats[1]),
                                 kas_ix_var(ir, ir->tensor[sum].var[0]));
    kas_ex e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, piece, kas_ex_load(ir, parts, at));
    if (b->lower.scaled_weights >> weight & 1)
        e = kas_ex_binary(ir, KAS_FN_MUL, kas_ex_load(ir, b->lower.gain, 0), e);
    KAS_TRY(add_launch_of(b, sum, e, &op));
    op->times = 1;
    op->total = p->pieces > 1;
    return KAS_OK;
}

static kas_status total_gradients(builder *b)
{
    for (int i = 0; i < b->lower.weights && b->lower.training; i++)
        if (b->program->pieces > 1 || b->lower.scaled_weights >> i & 1)
            KAS_TRY(total_gradient(b, i));
    return KAS_OK;
}

static kas_status add_operations(builder *b, int tensors, bool once)
{
    for (int i = 0; i < tensors; i++) {
        const int t = b->ir.order[i];
        const kas_ir_tensor *tensor = &b->ir.tensor[t];
        if (!tensor->materialised || tensor->kind == KAS_TENSOR_EXTERN || tensor->row_owner >= 0 ||
            tensor->once != once)
            continue;
        if (tensor->kind == KAS_TENSOR_CONV)
            KAS_TRY(add_conv(b, t));
        else
            KAS_TRY(add_launch(b, t));
    }
    return KAS_OK;
}

/* Makes the kernels of the epilogues that the caller wants. */
static kas_status add_epilogues(builder *b, const kas_program_options *options)
{
    kas_program *p = b->program;
    const int y = b->lower.y;
    if (!b->has_epilogues)
        return KAS_OK;
    const kas_ex value = value_of(b, y);
    KAS_TRY(b->ir.status);
    p->epilogue = calloc((size_t)options->epilogues, sizeof *p->epilogue);
    p->epilogue_kernel = calloc((size_t)options->epilogues, sizeof *p->epilogue_kernel);
    if (!p->epilogue || !p->epilogue_kernel)
        return kas_ir_no_memory();
    for (int i = 0; i < options->epilogues; i++) {
        if (!options->epilogue[i].norm || kas_program_epilogue(p, options->epilogue[i]) >= 0)
            continue;
        kas_operation *op = &p->epilogue_kernel[p->epilogues];
        snprintf(op->function, sizeof op->function, "%s_e%d", p->prefix, p->epilogues);
        op->times = p->pieces;
        p->epilogue[p->epilogues++] = options->epilogue[i];
        KAS_TRY(write_kernel(
            b, y, kas_epilogue_value(&b->ir, &b->epilogue, value, options->epilogue[i]), op));
    }
    return KAS_OK;
}

/* Refuses a schedule file with a kernel or a map that the program does not have. */
static kas_status check_prescribed(const builder *b)
{
    const kas_schedule_file *file = b->options->schedule_file;
    KAS_TRY(kas_maps_check(&b->maps));
    for (int k = 0; file && k < file->kernels; k++)
        if (!b->prescribed[k])
            return kas_fail(
                KAS_BAD_INPUT,
                "%s:%d: found kernel \"%s\", which is none of this program's: these are "
                "f0, f1, ..., b0, b1, ... and e0, e1, ..., without the library's convolutions",
                file->path, file->kernel[k].line - 1, file->kernel[k].name);
    return KAS_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static kas_status check_options(const kas_target *t, const kas_program_options *o)
{
    if (o->batch < 1)
        return kas_fail(KAS_USAGE, "batch %d; at least 1 is needed", o->batch);
    if ((unsigned)o->dtype >= KAS_DTYPES || (o->tf32 && o->dtype != KAS_F32))
        return kas_fail(KAS_USAGE, "dtype %d%s; float32 (also with TF32 products), bf16 or float16",
                        o->dtype, o->tf32 ? " with TF32 products" : "");
    if (!o->prefix || !*o->prefix || strlen(o->prefix) > 24 ||
        strspn(o->prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
            strlen(o->prefix))
        return kas_fail(KAS_USAGE, "prefix \"%s\"; 1 to 24 letters, digits or _ are needed",
                        o->prefix ? o->prefix : "");
    if ((o->x_pitch && o->x_pitch < (int)t->c_in) || (o->y_pitch && o->y_pitch < (int)t->c_out))
        return kas_fail(KAS_USAGE, "pitches %d and %d are too small for %u and %u channels",
                        o->x_pitch, o->y_pitch, t->c_in, t->c_out);
    return KAS_OK;
}

static kas_status lower(builder *b, const kas_kernel *kernel, const kas_program_options *o,
                        uint64_t left)
{
    const kas_target *target = &b->program->target;
    const int x_pitch = kas_pitch_of(o->dtype, (int)target->c_in),
              y_pitch = kas_pitch_of(o->dtype, (int)target->c_out);
    KAS_TRY(kas_ir_init(&b->ir));
    b->program->maps = 0;
    b->ir.dtype = o->dtype;
    b->ir.cpu = o->linear_policy == KAS_LINEAR_CPU;
    b->ir.lanes = o->lanes ? o->lanes : KAS_PROGRAM_LANES;
    b->lower = (kas_lower){.ir = &b->ir,
                           .kernel = kernel,
                           .target = target,
                           .binding = &b->program->binding,
                           .batch = o->batch / b->program->pieces,
                           .training = o->training,
                           .tf32 = o->tf32,
                           .gained = o->gained,
                           .choose = kas_maps_choose,
                           .chooser = &b->maps,
                           .linear_policy = o->linear_policy,
                           .x_pitch = o->x_pitch ? o->x_pitch : x_pitch,
                           .y_pitch = o->y_pitch ? o->y_pitch : y_pitch,
                           .left = left};
    KAS_TRY(kas_lower_kernel(&b->lower));
    KAS_TRY(kas_fuse(&b->ir));
    KAS_TRY(kas_once_find(&b->ir));
    return kas_rows_find(&b->ir);
}

static kas_status lower_all(builder *b, const kas_kernel *kernel,
                            const kas_program_options *options)
{
    KAS_TRY(lower(b, kernel, options, 0));
    const uint64_t left = kas_lower_alongs_left(&b->lower);
    if (left)
        kas_ir_free(&b->ir);
    return left ? lower(b, kernel, options, left) : KAS_OK;
}

static kas_status build(builder *b, const kas_kernel *kernel, const kas_program_options *options)
{
    kas_program *p = b->program;
    KAS_TRY(lower_all(b, kernel, options));
    const int pieces = kas_pieces_within(&b->ir, options, p->pieces);
    if (pieces != p->pieces) {
        kas_ir_free(&b->ir);
        p->pieces = pieces;
        KAS_TRY(lower_all(b, kernel, options));
    }
    KAS_TRY(add_caller_buffers(b));
    if (options->list_schedules)
        kas_maps_print(&b->maps, &b->schedules);
    b->inliner.ir = &b->ir;
    /* Programs of several dtypes may be compiled together. */
    kas_buf_printf(&b->source, "#undef KAS_DTYPE\n#define KAS_DTYPE %d\n\n", b->ir.dtype);
    const int tensors = b->ir.tensors; /* without those of epilogues */
    for (int once = 1; once >= 0; once--)
        KAS_TRY(add_operations(b, tensors, once));
    KAS_TRY(total_gradients(b));
    KAS_TRY(add_epilogues(b, options));
    KAS_TRY(b->ir.status);
    KAS_TRY(check_prescribed(b));
    KAS_TRY(kas_program_mark_saved(p));
    p->weight = malloc(sizeof *p->weight * (size_t)(b->lower.weights + 1));
    p->source = strdup(kas_buf_text(&b->source));
    p->schedules = options->list_schedules ? strdup(kas_buf_text(&b->schedules)) : NULL;
    if (!p->weight || !p->source || (options->list_schedules && !p->schedules))
        return kas_ir_no_memory();
    p->weights = b->lower.weights;
    memcpy(p->weight, b->lower.weight, sizeof *p->weight * (size_t)p->weights);
    return KAS_OK;
}

kas_status kas_program_build(const kas_kernel *kernel, const kas_target *target,
                             const kas_binding *binding, const kas_program_options *options,
                             kas_program **out)
{
    *out = NULL;
    KAS_TRY(check_options(target, options));
    KAS_TRY(kas_kernel_check_binding(kernel, binding));
    builder *b = calloc(1, sizeof *b);
    kas_program *p = calloc(1, sizeof *p);
    if (!b || !p) {
        free(b);
        free(p);
        return kas_ir_no_memory();
    }
    b->program = p;
    snprintf(p->prefix, sizeof p->prefix, "%s", options->prefix);
    p->batch = options->batch;
    p->pieces = kas_pieces_of(target, kernel->stride_inside, options);
    p->target = *target;
    p->binding = *binding;
    kas_target_read(target, kernel->stride_inside, &p->x_h, &p->x_w);
    p->training = options->training;
    p->dtype = options->dtype;
    p->written_by = p->fold.operation = b->scaling = -1;
    b->options = options;
    b->maps = (kas_maps){.options = options, .program = p};
    const kas_status status = build(b, kernel, options);
    kas_inliner_free(&b->inliner);
    kas_buf_free(&b->source);
    kas_buf_free(&b->schedules);
    kas_ir_free(&b->ir);
    if (status == KAS_OK)
        *out = p;
    else
        kas_program_free(p);
    free(b);
    return status;
}

int kas_program_epilogue(const kas_program *program, kas_epilogue epilogue)
{
    for (int i = 0; i < program->epilogues; i++)
        if (kas_epilogue_same(program->epilogue[i], epilogue))
            return i;
    return -1;
}

void kas_program_free(kas_program *program)
{
    if (!program)
        return;
    free(program->buffer);
    free(program->weight);
    free(program->map);
    free(program->forward);
    free(program->backward);
    free(program->epilogue);
    free(program->epilogue_kernel);
    free(program->source);
    free(program->schedules);
    free(program);
}
