/* Windows inside the image: where all taps of a kernel's windows lie inside, its guards hold and
 * its clamps change nothing.
 *
 * A guard is a few scalar operations for each tap and row of lanes, and rows are as short as the
 * channels of a pixel: on a CPU that is more than what the lanes do. So there a kernel with
 * windows has its lanes twice, behind one test of the pixel's place. */
#include "jit/schedule/nest.h"

enum { MOST_TAPS = 64 };

/* The least share of the pixels for which a second text pays. */
static const double least_share = 0.3;

/* What an index depends on: sums of open loops (`outer`), and of loops inside them (`rest`). */
typedef struct parts {
    bool clear; /* it is a sum of both, without the lanes */
    kas_ix_sum outer, rest;
} parts;

static bool is_open(const kas_nest *nest, int var)
{
    /* short rows of lanes may be taps, turns are */
    return var != nest->lane && var != nest->inner && kas_nest_place_in(nest, var) >= 0;
}

/* Finds whether an index has variables of open loops, and others. */
static void find_vars(const kas_ir *ir, const kas_nest *nest, const kas_atom *atom, bool *open,
                      bool *other)
{
    if (atom->kind == KAS_ATOM_VAR) {
        *(is_open(nest, atom->of) ? open : other) = true;
        return;
    }
    const kas_ix_sum *s = kas_ix_get(ir, atom->of);
    for (int i = 0; i < s->terms; i++)
        find_vars(ir, nest, kas_atom_get(ir, s->term[i].atom), open, other);
}

static parts parts_of(const kas_ir *ir, const kas_nest *nest, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    parts p = {.outer = {.constant = s->constant}};
    if ((nest->lane >= 0 && ir->var_size[nest->lane] > MOST_TAPS &&
         kas_ix_has_var(ir, ix, nest->lane)) ||
        (nest->slides && kas_ix_has_var(ir, ix, nest->inner)))
        return p;
    for (int i = 0; i < s->terms; i++) {
        bool open = false, other = false;
        find_vars(ir, nest, kas_atom_get(ir, s->term[i].atom), &open, &other);
        if (open && other)
            return p;
        kas_ix_sum *to = other ? &p.rest : &p.outer;
        to->term[to->terms++] = s->term[i];
    }
    p.clear = p.outer.terms > 0 && p.rest.terms > 0;
    return p;
}

bool kas_nest_covers(const kas_ir *ir, const kas_nest *nest, kas_ix ix)
{
    return nest->insides > 0 && parts_of(ir, nest, ix).clear;
}

bool kas_nest_guards_taps(const kas_ir *ir, const kas_nest *nest, const kas_masks *masks, kas_ix ix)
{
    const uint64_t mask = kas_masks_ix(masks, ix);
    return ir->cpu && (mask >> nest->loops || (nest->inner >= 0 && !nest->slides &&
                                               mask >> kas_masks_index(masks, nest->inner) & 1));
}

typedef struct search {
    kas_ir *ir;
    kas_nest *nest;
    bool full;
} search;

static void add(search *s, kas_ix ix, int64_t low, int64_t high)
{
    kas_nest *n = s->nest;
    const kas_range all = kas_ix_range(s->ir, ix);
    if (all.low >= low && all.high <= high)
        return;
    const parts p = parts_of(s->ir, n, ix);
    if (!p.clear)
        return;
    const kas_range rest = kas_ix_range(s->ir, kas_ix_put(s->ir, &p.rest));
    const kas_inside found = {kas_ix_put(s->ir, &p.outer), low - rest.low, high - rest.high};
    for (int i = 0; i < n->insides; i++)
        if (n->inside[i].ix == found.ix && n->inside[i].low == found.low &&
            n->inside[i].high == found.high)
            return;
    if (n->insides == KAS_INSIDES)
        s->full = true;
    else
        n->inside[n->insides++] = found;
}

static void see(void *context, const kas_ex_node *node, kas_ix ix)
{
    search *s = context;
    if (node && node->kind == KAS_EX_GUARD)
        add(s, ix, node->low, node->high);
    for (int i = 0; i < kas_ix_get(s->ir, ix)->terms; i++) { /* what it points to may move */
        const kas_atom atom = *kas_atom_get(s->ir, kas_ix_get(s->ir, ix)->term[i].atom);
        if (atom.kind == KAS_ATOM_CLAMP)
            add(s, atom.of, atom.a, atom.b);
        if (atom.kind != KAS_ATOM_VAR)
            see(s, NULL, atom.of);
    }
}

kas_status kas_nest_find_insides(kas_ir *ir, kas_nest *nest)
{
    search s = {.ir = ir, .nest = nest};
    if (!ir->cpu || nest->row || nest->column >= 0)
        return KAS_OK;
    KAS_TRY(kas_nest_visit(ir, nest, see, &s));
    nest->inside_share = 1;
    for (int i = 0; i < nest->insides; i++) {
        const kas_range r = kas_ix_range(ir, nest->inside[i].ix);
        const int64_t low = nest->inside[i].low > r.low ? nest->inside[i].low : r.low,
                      high = nest->inside[i].high < r.high ? nest->inside[i].high : r.high;
        nest->inside_share *=
            high < low ? 0 : (double)(high - low + 1) / (double)(r.high - r.low + 1);
    }
    if (s.full || nest->inside_share < least_share)
        nest->insides = 0;
    if (nest->insides == 0)
        nest->inside_share = 0;
    return ir->status;
}
