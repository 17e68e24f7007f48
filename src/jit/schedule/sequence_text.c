#include "jit/schedule/sequence_text.h"

const kas_step_form kas_step_forms[KAS_STEP_KINDS] = {
    [KAS_STEP_SPLIT] = {"split", KAS_A_LOOP, true},
    [KAS_STEP_FUSE] = {"fuse", KAS_TWO_LOOPS, false},
    [KAS_STEP_INTERCHANGE] = {"interchange", KAS_TWO_LOOPS, false},
    [KAS_STEP_UNROLL] = {"unroll", KAS_A_LOOP, false},
    [KAS_STEP_AROUND] = {"around", KAS_A_LOOP, false},
    [KAS_STEP_LANE] = {"lane", KAS_A_LOOP, false},
    [KAS_STEP_VTHREAD] = {"vthread", KAS_A_LOOP, false},
    [KAS_STEP_STAGE] = {"stage", KAS_A_LOOP, true},
    [KAS_STEP_LANES] = {"lanes", KAS_NO_LOOP, true},
    [KAS_STEP_VECTORISE] = {"vectorise", KAS_NO_LOOP, true},
    [KAS_STEP_ROWS] = {"rows", KAS_A_LOOP, true},
    [KAS_STEP_RFACTOR] = {"rfactor", KAS_A_LOOP, false},
    [KAS_STEP_SERIAL] = {"serial", KAS_A_LOOP, false},
    [KAS_STEP_BLOCK] = {"block", KAS_A_LOOP_AND_AXIS, false},
    [KAS_STEP_UNSWITCH] = {"unswitch", KAS_NO_LOOP, false},
    [KAS_STEP_PREFETCH] = {"prefetch", KAS_A_LOOP, false},
};

/* ---- names ----------------------------------------------------------------------------------- */

static void print_dim(const kas_ir_tensor *t, int d, kas_buf *out)
{
    static const char first[KAS_DIM_C] = {'n', 'h', 'w', 'q', 'p'};
    if (t->pitch == 0)
        kas_buf_printf(out, "d%d", d);
    else if (d < KAS_DIM_C)
        kas_buf_add(out, &first[d], 1);
    else
        kas_buf_printf(out, "c%d", d - KAS_DIM_C);
}

/* Prints a loop of the nest before any step, in the order of kas_nest_open. */
static void print_base(const kas_ir *ir, const kas_nest *nest, int id, kas_buf *out)
{
    const kas_ir_tensor *t = &ir->tensor[nest->tensor];
    int next = nest->column >= 0, dim[KAS_IR_RANK];
    if (id >= nest->opened) {
        kas_buf_printf(out, "r%d", id - nest->opened);
        return;
    }
    if (nest->column >= 0 && id == 0) {
        kas_buf_puts(out, "column");
        return;
    }
    kas_ir_memory_order(t, dim);
    for (int i = 0; i < t->rank; i++)
        if (t->var[dim[i]] >= 0 && !kas_row_has_dim(t, dim[i]) && next++ == id) {
            print_dim(t, dim[i], out);
            return;
        }
    kas_buf_puts(out, id + 1 == nest->opened ? "row" : "row_block");
}

void kas_loop_print(const kas_ir *ir, const kas_nest *nest, int id, kas_buf *out)
{
    int next = nest->bases;
    if (id >= KAS_LOOP_ROWS) {
        kas_buf_puts(out, id == KAS_LOOP_LANES ? "lanes" : "rows");
        return;
    }
    if (id < nest->bases)
        print_base(ir, nest, id, out);
    for (int i = 0; i < nest->schedule.steps && next <= id; i++) {
        const kas_step s = nest->schedule.step[i];
        if (s.kind == KAS_STEP_SPLIT && id - next < 2) {
            kas_loop_print(ir, nest, s.loop, out);
            kas_buf_printf(out, "%c%d", id == next ? '/' : '%', s.n);
        } else if (s.kind == KAS_STEP_FUSE && id == next) {
            kas_loop_print(ir, nest, s.loop, out);
            kas_buf_puts(out, "*");
            kas_loop_print(ir, nest, s.other, out);
        }
        next += s.kind == KAS_STEP_SPLIT ? 2 : s.kind == KAS_STEP_FUSE;
    }
}

void kas_step_print(const kas_ir *ir, const kas_nest *nest, kas_step step, kas_buf *out)
{
    const kas_step_operands of = kas_step_forms[step.kind].operands;
    kas_buf_puts(out, kas_step_forms[step.kind].word);
    if (of != KAS_NO_LOOP) {
        kas_buf_puts(out, " ");
        kas_loop_print(ir, nest, step.loop, out);
    }
    if (of == KAS_TWO_LOOPS) {
        kas_buf_puts(out, " ");
        kas_loop_print(ir, nest, step.other, out);
    }
    if (of == KAS_A_LOOP_AND_AXIS)
        kas_buf_printf(out, " %c", 'x' + step.other);
    if (kas_step_forms[step.kind].number)
        kas_buf_printf(out, " %d", step.n);
}

/* Prints which dims count parts of a sum: lowering split it, and another kernel adds them up. */
static void print_parts(const kas_ir_tensor *t, kas_buf *out)
{
    const char *between = "; parts of a sum: ";
    for (int d = 0; d < t->parts; d++) {
        if (t->var[d] < 0)
            continue;
        kas_buf_puts(out, between);
        print_dim(t, d, out);
        between = ", ";
    }
}

/* Prints the loops of the nest before any step, whose sizes its steps tell. */
static void print_bases(const kas_ir *ir, const kas_nest *nest, kas_buf *out)
{
    kas_buf_puts(out, "# loops:");
    for (int id = 0; id < nest->bases; id++) {
        kas_buf_puts(out, id == 0 ? " " : id == nest->opened ? "; reductions: " : ", ");
        kas_loop_print(ir, nest, id, out);
        kas_buf_printf(out, " %lld", (long long)ir->var_size[nest->var_of[id]]);
    }
    print_parts(&ir->tensor[nest->tensor], out);
    kas_buf_puts(out, "\n");
}

void kas_schedule_print(const kas_ir *ir, const kas_nest *nest, const char *name, kas_buf *out)
{
    kas_buf_printf(out, "kernel %s\n", name);
    print_bases(ir, nest, out);
    for (int i = 0; i < nest->schedule.steps; i++) {
        kas_step_print(ir, nest, nest->schedule.step[i], out);
        kas_buf_puts(out, "\n");
    }
}
