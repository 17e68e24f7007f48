/* Writes arrays in shared memory (schedule/boxes.c): how the threads of a block fill them. */
#include "jit/emit/emitter.h"

/* Names the first lane of the block, and the first of the rows that run together. */
static void name_first(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    if (n->lanes < e->ir->var_size[n->lane])
        kas_emit_line(e, "const int v%d = first;", kas_emit_var_name(e, n->first_lane));
    if (n->rows < 0)
        return;
    const bool chunks = n->block_rows < e->ir->var_size[n->rows];
    const int to = kas_emit_var_name(e, n->first_row), row = kas_emit_var_name(e, n->rows);
    if (n->boxed < 0 && chunks)
        kas_emit_line(e, "const int v%d = row;", to);
    else if (n->boxed >= 0 && chunks)
        kas_emit_line(e, "const int v%d = row + (v%d - row) / %u * %u;", to, row, n->block[1],
                      n->block[1]);
    else if (n->boxed >= 0 && n->block[1] < n->block_rows)
        kas_emit_line(e, "const int v%d = v%d / %u * %u;", to, row, n->block[1], n->block[1]);
}

/* Writes in which of two arrays, one behind the other, the elements of a turn lie. */
static void put_half(kas_emitter *e, const kas_shared_box *box)
{
    if (e->nest->ahead >= 0)
        kas_buf_printf(e->out, " + %lld * (v%d %% 2)", (long long)box->elements,
                       kas_emit_var_name(e, e->nest->ahead));
}

static void fill(kas_emitter *e, int number)
{
    const kas_nest *n = e->nest;
    const kas_shared_box *box = &n->box[number];
    const kas_ex_node *load = kas_ex_get(e->ir, box->load);
    const bool real = kas_emit_is_real(e, load->tensor);
    int name[KAS_BOX_DIMS];
    long long size[KAS_BOX_DIMS] = {1, 1};
    for (int i = 0; i < box->dims; i++) {
        name[i] = kas_emit_var_name(e, box->dim[i]);
        size[i] = (long long)e->ir->var_size[box->dim[i]];
    }
    for (int i = box->dims - 1; i > 1; i--) {
        kas_emit_line(e, "for (int v%d = 0; v%d < %lld; v%d++) {", name[i], name[i], size[i],
                      name[i]);
        e->indent++;
    }
    kas_emit_line(e, "KAS_FILL (r%d, v%d, %lld, %lld, %u) {", number, name[0], size[1], size[0],
                  n->block[0] * n->block[1]);
    e->indent++;
    if (box->dims > 1)
        kas_emit_line(e, "const int v%d = r%d;", name[1], number);
    kas_emit_start(e);
    kas_buf_printf(e->out, n->ahead >= 0 ? "KAS_COPY(&box%d[" : "box%d[", number);
    for (int i = 0; i < box->dims; i++)
        kas_buf_printf(e->out, i ? " + %lld * v%d" : "%lld * v%d", (long long)box->step[i],
                       name[i]);
    put_half(e, box);
    kas_buf_printf(e->out,
                   n->ahead >= 0 ? "], &p%d["
                   : real        ? "] = kas_value(p%d["
                                 : "] = p%d[",
                   kas_emit_arg(e, load->tensor));
    kas_emit_put_ix(e, box->from);
    kas_buf_puts(e->out, n->ahead >= 0 || real ? "]);\n" : "];\n");
    for (int i = 0; i < (box->dims > 2 ? box->dims - 1 : 1); i++)
        kas_emit_close_block(e);
}

/* Writes what keeps banks apart, too: compilers read it in vectors with what lies around it. */
static void fill_pads(kas_emitter *e, int number)
{
    const kas_nest *n = e->nest;
    const kas_shared_box *box = &n->box[number];
    if (box->pads == 0)
        return;
    kas_emit_line(e, "KAS_FILL (r%d, c%d, %lld, %lld, %u) {", number, number, (long long)box->pads,
                  (long long)box->pad, n->block[0] * n->block[1]);
    kas_emit_start(e);
    kas_buf_printf(e->out, "    box%d[%lld * r%d + c%d + %lld", number, (long long)box->pad_step,
                   number, number, (long long)(box->pad_step - box->pad));
    put_half(e, box);
    kas_buf_puts(e->out, "] = 0.0f;\n");
    kas_emit_line(e, "}");
}

/* Declares the arrays, and waits for those who may still read what the last turn filled in. */
static void declare(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    for (int i = 0; i < n->boxes; i++)
        kas_emit_line(e, "KAS_SHARED(float, box%d, %lld);", i,
                      (long long)n->box[i].elements * (n->ahead < 0 ? 1 : 2));
    name_first(e);
    if (n->boxed >= 0 || n->serials > 0)
        kas_emit_line(e, "KAS_BARRIER();");
}

static void fill_all(kas_emitter *e)
{
    for (int i = 0; i < e->nest->boxes; i++) {
        fill(e, i);
        fill_pads(e, i);
    }
}

void kas_emit_fill_boxes(kas_emitter *e)
{
    declare(e);
    fill_all(e);
    kas_emit_line(e, "KAS_BARRIER();");
    e->filled = true;
}

/* Fills the arrays for a turn that is not the one that runs. */
static void fill_for(kas_emitter *e, const char *turn)
{
    kas_emit_line(e, "const int v%d = %s;", kas_emit_var_name(e, e->nest->ahead), turn);
    fill_all(e);
    kas_emit_close_block(e);
}

void kas_emit_fill_first(kas_emitter *e)
{
    declare(e);
    kas_emit_line(e, "{");
    e->indent++;
    fill_for(e, "0");
}

void kas_emit_fill_next(kas_emitter *e)
{
    const int v = kas_emit_var_name(e, e->nest->ahead);
    kas_emit_line(e, "KAS_COPIED();");
    kas_emit_line(e, "KAS_BARRIER();");
    kas_emit_line(e, "const int next = v%d + 1;", v);
    kas_emit_line(e, "if (next < %lld) {", (long long)e->ir->var_size[e->nest->ahead]);
    e->indent++;
    fill_for(e, "next");
    e->filled = true;
}

bool kas_emit_put_boxed(kas_emitter *e, kas_ex x)
{
    const kas_shared_box *box = e->filled ? kas_nest_box_of(e->nest, x) : NULL;
    if (!box)
        return false;
    kas_buf_printf(e->out, "box%d[", (int)(box - e->nest->box));
    kas_emit_put_ix(e, box->place);
    put_half(e, box);
    kas_buf_puts(e->out, "]");
    return true;
}
