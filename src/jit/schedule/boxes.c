/* Shared memory on a GPU: what the lanes of a block read apart is copied there first.
 *
 *     y[pixel][c] = x[c][pixel]: of each sector that 32 lanes along c touch they use one element
 *
 * All that a block reads of x lies in a box: along each coordinate of its memory the block's
 * lanes, rows and reductions reach from a first element to a last one. The threads copy the box
 * together, neighbours in memory by neighbouring threads, meet at a barrier, and read what they
 * want from the copy. No dependence forbids that, because a kernel writes nothing that it reads.
 *
 * An index is a sum of terms, coefficient times atom. Its atoms rise with each of their variables
 * (v, v / 8, clamp(v - 1)), so the first element is where all variables of the block are at their
 * ends, and v % 8 counts as 0 to 7. A term becomes a dim of the box. Terms that overlap, as those
 * of x[2 * w + k], share one. Whatever the variables are, what is read is in the box; elements
 * behind the last that any block reads are not copied (kas_ix_clamp).
 *
 * Boxes are filled in front of the rows of a block, with all that its reductions read, or in front
 * of the turns of a reduction that runs around the lanes. Then rows that run together share a box,
 * and so all threads must have the same number of rows: they meet in each turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jit/schedule/nest.h"

enum { BANKS = 32, SECTOR_BYTES = 32, MOST_PARTS = 16, PADS = 5 };

/* A term of an index that changes within the block. */
typedef struct part {
    int64_t coeff, atom;
    int64_t span; /* the atom's largest value in the block less its smallest */
    int dim;
    int64_t value[KAS_WARP]; /* of a warp's lanes, where all other variables are 0 */
} part;

typedef struct dim {
    int64_t stride, count, step; /* stride: elements of memory */
} dim;

typedef struct boxing {
    kas_ir *ir;
    kas_nest *nest;
    kas_masks masks;
    uint64_t local; /* variables that change while a box is in use */
    uint64_t chain; /* of reductions that must be among them: `loop`, or nothing */
    int parts, dims;
    part part[MOST_PARTS];
    dim dim[MOST_PARTS];
    int64_t bytes; /* of all boxes so far */
} boxing;

/* ---- what a block reaches -------------------------------------------------------------------- */

/* Returns how many values a variable of the block takes. */
static int64_t count_of(const boxing *b, int var)
{
    const kas_nest *n = b->nest;
    const int64_t size = b->ir->var_size[var];
    const int64_t here = var == n->lane   ? n->lanes
                         : var != n->rows ? size
                         : n->boxed < 0   ? n->block_rows
                                          : n->block[1];
    return here < size ? here : size;
}

static bool is_local(const boxing *b, int var)
{
    return b->local >> kas_masks_index(&b->masks, var) & 1;
}

/* Returns the first value of a variable in the block, or the last one. */
static kas_ix end_of(boxing *b, int var, bool last)
{
    const kas_nest *n = b->nest;
    const int64_t count = count_of(b, var);
    kas_ix first = 0;
    if (count < b->ir->var_size[var])
        first = kas_ix_var(b->ir, var == n->lane ? n->first_lane : n->first_row);
    return last ? kas_ix_add(b->ir, first, kas_ix_const(b->ir, count - 1)) : first;
}

static kas_ix least(boxing *b, kas_ix ix, bool most);

/* Returns the least value of an atom in the block, or the largest one. */
static kas_ix least_atom(boxing *b, int64_t handle, bool most)
{
    const kas_atom atom = *kas_atom_get(b->ir, handle);
    switch ((kas_atom_kind)atom.kind) {
    case KAS_ATOM_VAR:
        return is_local(b, atom.of) ? end_of(b, atom.of, most) : kas_ix_var(b->ir, atom.of);
    case KAS_ATOM_DIV: {
        /* The last rows of a block may be beyond the loop's end */
        const kas_range r = kas_ix_range(b->ir, atom.of);
        const kas_ix of = kas_ix_clamp(b->ir, least(b, atom.of, most), r.low, r.high);
        return kas_ix_div(b->ir, of, atom.a);
    }
    case KAS_ATOM_CLAMP:
        return kas_ix_clamp(b->ir, least(b, atom.of, most), atom.a, atom.b);
    default:
        if (kas_masks_ix(&b->masks, atom.of) & b->local)
            return kas_ix_const(b->ir, most ? atom.a - 1 : 0);
        return kas_ix_mod(b->ir, atom.of, atom.a);
    }
}

static kas_ix least(boxing *b, kas_ix ix, bool most)
{
    const kas_ix_sum *s = kas_ix_get(b->ir, ix);
    kas_ix sum = kas_ix_const(b->ir, s->constant);
    for (int i = 0; i < s->terms; i++)
        sum = kas_ix_add(
            b->ir, sum,
            kas_ix_scale(b->ir, least_atom(b, s->term[i].atom, most == (s->term[i].coeff > 0)),
                         s->term[i].coeff));
    return sum;
}

static int64_t span_of(const boxing *b, kas_ix ix);

/* Returns at most by how much an atom changes in the block. */
static int64_t atom_span(const boxing *b, const kas_atom *atom)
{
    if (atom->kind == KAS_ATOM_VAR)
        return is_local(b, atom->of) ? count_of(b, atom->of) - 1 : 0;
    const kas_range r = kas_ix_range(b->ir, atom->of);
    const int64_t of = span_of(b, atom->of);
    int64_t span = atom->kind == KAS_ATOM_CLAMP ? atom->b - atom->a : atom->a - 1;
    if (of == 0)
        return 0;
    if (atom->kind == KAS_ATOM_DIV) /* its quotients may begin in the middle of a divisor */
        span = r.high / atom->a - r.low / atom->a;
    const int64_t own = atom->kind == KAS_ATOM_DIV   ? (of + atom->a - 1) / atom->a
                        : atom->kind == KAS_ATOM_MOD ? span /* it may begin anywhere */
                                                     : of;
    return own < span ? own : span;
}

static int64_t span_of(const boxing *b, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(b->ir, ix);
    int64_t span = 0;
    for (int i = 0; i < s->terms; i++)
        span += llabs(s->term[i].coeff) * atom_span(b, kas_atom_get(b->ir, s->term[i].atom));
    return span;
}

/* ---- dims ------------------------------------------------------------------------------------ */

static int by_stride(const void *x, const void *y)
{
    const int64_t a = llabs(((const part *)x)->coeff), b = llabs(((const part *)y)->coeff);
    return (a > b) - (a < b);
}

/* Lists the parts of an index, and the dims of its box. Returns false when there is none, or when
 * there are too many. */
static bool find_dims(boxing *b, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(b->ir, ix);
    b->parts = b->dims = 0;
    for (int i = 0; i < s->terms; i++) {
        const int64_t span = atom_span(b, kas_atom_get(b->ir, s->term[i].atom));
        if (span == 0)
            continue;
        if (b->parts == MOST_PARTS)
            return false;
        b->part[b->parts++] =
            (part){.coeff = s->term[i].coeff, .atom = s->term[i].atom, .span = span};
    }
    qsort(b->part, (size_t)b->parts, sizeof *b->part, by_stride);
    for (int i = 0; i < b->parts; i++) {
        const int64_t stride = llabs(b->part[i].coeff);
        dim *d = b->dims ? &b->dim[b->dims - 1] : NULL;
        if (!d || stride % d->stride || stride >= d->count * d->stride) {
            d = &b->dim[b->dims++];
            *d = (dim){stride, 1, 0};
        }
        d->count += b->part[i].span * (stride / d->stride);
        b->part[i].dim = b->dims - 1;
    }
    return b->dims > 0 && b->dims <= KAS_BOX_DIMS;
}

/* ---- banks ----------------------------------------------------------------------------------- */

static int64_t value_at(const boxing *b, kas_ix ix, int64_t lane, int64_t row);

/* Returns an atom's value where lane and row have these values and all others are 0. */
static int64_t atom_at(const boxing *b, int64_t handle, int64_t lane, int64_t row)
{
    const kas_atom *atom = kas_atom_get(b->ir, handle);
    if (atom->kind == KAS_ATOM_VAR)
        return atom->of == b->nest->lane ? lane : atom->of == b->nest->rows ? row : 0;
    return kas_atom_at(atom, value_at(b, atom->of, lane, row));
}

static int64_t value_at(const boxing *b, kas_ix ix, int64_t lane, int64_t row)
{
    const kas_ix_sum *s = kas_ix_get(b->ir, ix);
    int64_t sum = s->constant;
    for (int i = 0; i < s->terms; i++)
        sum += s->term[i].coeff * atom_at(b, s->term[i].atom, lane, row);
    return sum;
}

/* Returns how many turns the banks need for the places of a warp: the most different elements of one
 * bank. */
static int waves_at(const int64_t place[KAS_WARP])
{
    int64_t held[BANKS][KAS_WARP];
    int of_bank[BANKS] = {0}, most = 1;
    for (int t = 0; t < KAS_WARP; t++) {
        const int bank = (int)(((place[t] % BANKS) + BANKS) % BANKS);
        int i = of_bank[bank] - 1;
        while (i >= 0 && held[bank][i] != place[t])
            i--;
        if (i >= 0)
            continue;
        held[bank][of_bank[bank]++] = place[t];
        most = of_bank[bank] > most ? of_bank[bank] : most;
    }
    return most;
}

/* Returns how many turns the banks need for what the lanes of a warp read. */
static int waves_of(const boxing *b)
{
    int64_t place[KAS_WARP] = {0};
    for (int i = 0; i < b->parts; i++) {
        const dim *d = &b->dim[b->part[i].dim];
        const int64_t step = b->part[i].coeff / d->stride * d->step;
        for (int t = 0; t < KAS_WARP; t++)
            place[t] += step * b->part[i].value[t];
    }
    return waves_at(place);
}

/* Sets what the lanes of a warp have as the values of each part. */
static void set_values(boxing *b)
{
    const kas_nest *n = b->nest;
    for (int t = 0; t < KAS_WARP; t++) {
        const int64_t lane = t % (int64_t)n->block[0] * n->width, row = t / (int64_t)n->block[0];
        for (int i = 0; i < b->parts; i++)
            b->part[i].value[t] = atom_at(b, b->part[i].atom, lane < n->lanes ? lane : 0,
                                          row < n->block[1] ? row : 0);
    }
}

static int64_t lay_out(boxing *b, int padded, int64_t pad)
{
    int64_t step = 1;
    for (int i = 0; i < b->dims; i++) {
        b->dim[i].step = step;
        step = step * b->dim[i].count + (i == padded ? pad : 0);
    }
    return b->dim[b->dims - 1].step * b->dim[b->dims - 1].count;
}

/* Chooses where elements that nobody reads keep the banks apart. */
static void choose_steps(boxing *b, kas_shared_box *box)
{
    static const int64_t pads[PADS] = {0, 1, 2, 4, 8};
    int best_dim = -1;
    int64_t best_pad = 0;
    set_values(b);
    lay_out(b, -1, 0);
    int fewest = waves_of(b);
    for (int d = 0; d + 1 < b->dims; d++)
        for (int i = 1; i < PADS; i++) {
            lay_out(b, d, pads[i]);
            const int now = waves_of(b);
            if (now >= fewest)
                continue;
            fewest = now;
            best_dim = d;
            best_pad = pads[i];
        }
    box->waves = fewest;
    box->elements = lay_out(b, best_dim, best_pad);
    if (best_dim < 0)
        return;
    box->pad = best_pad;
    box->pad_step = b->dim[best_dim + 1].step;
    box->pads = box->elements / box->pad_step;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* Returns how many turns the banks need for what a warp copies: KAS_FILL of tile.h. */
static int waves_to_fill(const boxing *b, const kas_shared_box *box)
{
    const int64_t threads = (int64_t)b->nest->block[0] * b->nest->block[1],
                  cols = b->ir->var_size[box->dim[0]], side = cols < threads ? cols : threads;
    int64_t place[KAS_WARP];
    for (int t = 0; t < KAS_WARP; t++)
        place[t] = t % side * box->step[0] + (box->dims > 1 ? t / side * box->step[1] : 0);
    return waves_at(place);
}

/* Sets the indices of a box, and the loops that fill it: dims that are neighbours in memory and in
 * the array are one. */
static void set_box(boxing *b, kas_ix ix, kas_shared_box *box)
{
    kas_ir *ir = b->ir;
    const kas_range r = kas_ix_range(ir, ix);
    kas_ix place = 0, from = least(b, ix, false);
    for (int i = 0; i < b->parts; i++) {
        const part *p = &b->part[i];
        const dim *d = &b->dim[p->dim];
        const int64_t factor = p->coeff / d->stride * d->step;
        const kas_ix_sum atom = {.terms = 1, .term = {{1, p->atom}}};
        const kas_ix first = least_atom(b, p->atom, p->coeff < 0);
        place = kas_ix_add(ir, place, kas_ix_scale(ir, kas_ix_put(ir, &atom), factor));
        place = kas_ix_add(ir, place, kas_ix_scale(ir, first, -factor));
    }
    box->place = place;
    box->dims = 0;
    for (int i = 0; i < b->dims; i++) {
        int64_t count = b->dim[i].count;
        const dim first = b->dim[i];
        while (i + 1 < b->dims && b->dim[i + 1].stride == first.stride * count &&
               b->dim[i + 1].step == first.step * count)
            count *= b->dim[++i].count;
        const int var = kas_ir_var(ir, count);
        box->dim[box->dims] = var;
        box->step[box->dims++] = first.step;
        from = kas_ix_add(ir, from, kas_ix_scale(ir, kas_ix_var(ir, var), first.stride));
        if (box->dims == 1)
            box->run = first.stride == 1 ? count : 1;
    }
    box->from = kas_ix_clamp(ir, from, r.low, r.high);
    box->fill_waves = waves_to_fill(b, box);
}

/* Returns whether the lanes of a warp touch more sectors than what they read fills. */
static bool is_apart(const boxing *b, kas_ix ix, size_t size)
{
    const double apart = 1.5;
    return kas_ix_lane_sectors(b->ir, ix, b->nest->lane, size) >
           apart * (double)size / SECTOR_BYTES;
}

static void see_load(void *context, kas_ex e, const kas_ex_node *node)
{
    boxing *b = context;
    kas_nest *n = b->nest;
    if (node->kind != KAS_EX_LOAD || n->boxes == KAS_BOXES || kas_nest_box_of(n, e))
        return;
    const uint64_t mask = kas_masks_ix(&b->masks, node->ix);
    const size_t size = kas_dtype_size(b->ir->tensor[node->tensor].dtype);
    if (!kas_ix_has_var(b->ir, node->ix, n->lane) || (mask & b->chain) != b->chain ||
        kas_ix_range(b->ir, node->ix).high > INT32_MAX / 2 || !is_apart(b, node->ix, size) ||
        !find_dims(b, node->ix))
        return;
    kas_shared_box *box = &n->box[n->boxes];
    *box = (kas_shared_box){.load = e};
    choose_steps(b, box);
    const int64_t bytes = kas_block_array_bytes(box->elements);
    if (b->bytes + bytes > KAS_BLOCK_BYTES)
        return;
    b->bytes += bytes;
    set_box(b, node->ix, box);
    n->boxes++;
}

/* Finds the reductions that are open where boxes of `loop` are filled: those of its chain that stand
 * around it. */
typedef struct outer_search {
    const kas_ir *ir;
    const kas_nest *nest;
    const kas_masks *masks;
    int loop;
    uint64_t outer;
    bool found;
} outer_search;

static void see_chain(void *context, kas_ex e, const kas_ex_node *node)
{
    outer_search *s = context;
    uint64_t outer = 0;
    (void)e;
    if (node->kind != KAS_EX_REDUCE || kas_nest_state_of(s->nest, node) != KAS_LOOP_AROUND)
        return;
    for (const kas_ex_node *r = node; r->kind == KAS_EX_REDUCE && r->fn == node->fn &&
                                      kas_nest_state_of(s->nest, r) != KAS_LOOP_UNROLLED;
         r = kas_ex_get(s->ir, r->a[0])) {
        if (r->var == s->loop) {
            s->found = true;
            s->outer |= outer;
        }
        outer |= UINT64_C(1) << kas_masks_index(s->masks, r->var);
        if (r->fn == KAS_FN_REDUCE_ARGMAX)
            break;
    }
}

static kas_status list(boxing *b, int loop)
{
    kas_nest *n = b->nest;
    outer_search s = {.ir = b->ir, .nest = n, .masks = &b->masks, .loop = loop};
    const int own[] = {n->lane, n->rows, n->inner};
    b->local = ~UINT64_C(0) << n->loops;
    for (int i = 0; i < 3; i++)
        if (own[i] >= 0)
            b->local |= UINT64_C(1) << kas_masks_index(&b->masks, own[i]);
    n->fills = 1;
    for (int i = 0; i < n->serials; i++)
        n->fills *= (double)b->ir->var_size[n->serial[i]];
    if (loop >= 0) {
        KAS_TRY(kas_ex_visit(b->ir, n->value, see_chain, &s));
        if (!s.found)
            return KAS_OK;
        b->local &= ~s.outer;
        b->chain = UINT64_C(1) << kas_masks_index(&b->masks, loop);
        n->fills *= kas_masks_turns(&b->masks, s.outer);
        n->fills *= n->rows < 0 ? 1 : (double)(n->block_rows / n->block[1]);
    }
    return kas_ex_visit(b->ir, n->value, see_load, b);
}

kas_status kas_nest_list_boxes(kas_ir *ir, kas_nest *nest, int loop)
{
    boxing b = {.ir = ir, .nest = nest};
    nest->boxes = 0;
    nest->boxed = loop;
    nest->first_lane = kas_ir_var(ir, ir->var_size[nest->lane]);
    nest->first_row = nest->rows < 0 ? -1 : kas_ir_var(ir, ir->var_size[nest->rows]);
    KAS_TRY(kas_masks_init(&b.masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = list(&b, loop);
    kas_masks_free(&b.masks);
    return status == KAS_OK ? ir->status : status;
}

const kas_shared_box *kas_nest_box_of(const kas_nest *nest, kas_ex load)
{
    for (int i = 0; i < nest->boxes; i++)
        if (nest->box[i].load == load)
            return &nest->box[i];
    return NULL;
}

double kas_box_turns(const kas_ir *ir, const kas_nest *nest, const kas_shared_box *box)
{
    const double threads = (double)nest->block[0] * nest->block[1];
    const double columns = (double)ir->var_size[box->dim[0]], side = fmin(columns, threads);
    double turns = ceil(columns / threads);
    for (int i = 1; i < box->dims; i++)
        turns *= ceil((double)ir->var_size[box->dim[i]] / (i == 1 ? floor(threads / side) : 1));
    return turns + ceil((double)(box->pads * box->pad) / threads);
}

double kas_box_bytes(const kas_ir *ir, const kas_shared_box *box)
{
    const int tensor = kas_ex_get(ir, box->load)->tensor;
    const double run = (double)box->run * (double)kas_dtype_size(ir->tensor[tensor].dtype);
    double runs = 1.0 / (double)box->run;
    for (int i = 0; i < box->dims; i++)
        runs *= (double)ir->var_size[box->dim[i]];
    return runs * ceil(run / SECTOR_BYTES) * SECTOR_BYTES;
}

void kas_nest_count_fills(const kas_ir *ir, const kas_nest *n, kas_effort *effort)
{
    enum { ADDRESSES = 2, WORD = 4 };
    const double threads = (double)n->block[0] * n->block[1];
    const double fills = n->fills * n->grid[0] * n->grid[1] * n->grid[2];
    for (int i = 0; i < n->boxes; i++) {
        const double each = fills * kas_box_turns(ir, n, &n->box[i]) * threads;
        effort->loads += each * (1 + n->box[i].fill_waves);
        effort->arithmetic += ADDRESSES * each;
        effort->divisions += 2 * fills * threads;
        effort->sectors += fills * (kas_box_bytes(ir, &n->box[i]) +
                                    (double)n->box[i].elements * WORD * n->box[i].fill_waves);
    }
}
