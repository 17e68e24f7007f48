/* Picks: on a CPU, lanes that read a few neighbouring elements in an order of their own.
 *
 *     y[lane] = x[4 * (lane % 4) + lane / 4]        a shuffle of 16 channels
 *     y[lane] = w[9 * (lane / 4)] * x[lane]         a value for each group of 4 channels
 *
 * are gathers from places that are known when the kernel is made. A few vectors that hold all these
 * elements are read instead, and one or two instructions pick from them (cuda/kernels/tile.h). What
 * is picked is kept for the lanes in front of their loop. */
#include "jit/schedule/nest.h"

enum {
    VECTOR = 8, /* lanes; as many or twice as many are picked together */
    LEAST = 2,  /* elements from which they pick */
    MOST = 64,
    LANES = 160, /* of a row */
    NEAR = 4     /* largest distance of neighbours that compilers interleave as well */
};

static bool has_only(const kas_ir *ir, const kas_atom *atom, int lane)
{
    if (atom->kind == KAS_ATOM_VAR)
        return atom->of == lane;
    const kas_ix_sum *s = kas_ix_get(ir, atom->of);
    for (int i = 0; i < s->terms; i++)
        if (!has_only(ir, kas_atom_get(ir, s->term[i].atom), lane))
            return false;
    return true;
}

bool kas_atom_has_lane(const kas_ir *ir, const kas_atom *atom, int lane)
{
    return atom->kind == KAS_ATOM_VAR ? atom->of == lane : kas_ix_has_var(ir, atom->of, lane);
}

/* Finds the part of an index that depends on the lane, and the rest. Returns false where that part
 * depends on other variables too, or is none. */
static bool lane_part(const kas_ir *ir, kas_ix ix, int lane, kas_ix_sum *part, kas_ix_sum *rest)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    *part = (kas_ix_sum){0};
    *rest = (kas_ix_sum){.constant = s->constant};
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        const bool own = kas_atom_has_lane(ir, atom, lane);
        if (own && !has_only(ir, atom, lane))
            return false;
        kas_ix_sum *to = own ? part : rest;
        to->term[to->terms++] = s->term[i];
    }
    return part->terms > 0;
}

/* Returns whether compilers interleave what lanes read `stride` elements apart: not where a loop reads
 * what lies between two lanes, each turn from another place (the taps of a window's gradient). */
static bool is_interleaved(const kas_ir *ir, kas_ix ix, int64_t stride)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *between = kas_atom_get(ir, s->term[i].atom);
        if (between->kind != KAS_ATOM_VAR || s->term[i].coeff != 1 ||
            ir->var_size[between->of] != stride)
            continue;
        for (int k = 0; k < s->terms; k++)
            if (k != i && kas_atom_has_lane(ir, kas_atom_get(ir, s->term[k].atom), between->of))
                return false;
    }
    return true;
}

/* Finds how lanes first .. first + lanes - 1 pick. `rest`: of the index beside the lanes' part. */
static bool pick_of(const kas_ir *ir, const kas_ex_node *load, const kas_ix_sum *part,
                    kas_range rest, int lane, int first, int lanes, kas_pick *out)
{
    int64_t place[2 * VECTOR], low = INT64_MAX, high = INT64_MIN;
    *out = (kas_pick){.lanes = lanes, .window = LEAST};
    kas_ix_sum_at(ir, part, lane, first, lanes, place);
    for (int l = 0; l < lanes; l++) {
        low = place[l] < low ? place[l] : low;
        high = place[l] > high ? place[l] : high;
    }
    while (out->window < high - low + 1)
        out->window *= 2;
    if (out->window > MOST)
        return false;
    /* The window must lie in the tensor's memory wherever the kernel is. */
    const bool fits = rest.high + low + out->window <= kas_ir_memory(ir, load->tensor);
    out->start = fits ? low : high + 1 - out->window;
    if (rest.low + out->start < 0)
        return false;
    for (int l = 0; l < lanes; l++)
        out->place[l] = (int)(place[l] - out->start);
    return true;
}

bool kas_nest_pick(const kas_ir *ir, const kas_ex_node *load, int lane, int first, kas_pick *out)
{
    kas_ix_sum part, other;
    int64_t stride;
    const int64_t extent = lane < 0 ? 0 : ir->var_size[lane];
    if (!ir->cpu || extent > LANES || extent % VECTOR ||
        (kas_ix_coeff(ir, load->ix, lane, &stride) && stride > 0 && stride <= NEAR &&
         is_interleaved(ir, load->ix, stride)) ||
        !lane_part(ir, load->ix, lane, &part, &other))
        return false;
    const kas_range rest = kas_ix_sum_range(ir, &other);
    return (extent - first >= 2 * VECTOR &&
            pick_of(ir, load, &part, rest, lane, first, 2 * VECTOR, out)) ||
           pick_of(ir, load, &part, rest, lane, first, VECTOR, out);
}

bool kas_nest_picks(const kas_ir *ir, const kas_ex_node *load, int lane)
{
    kas_pick pick;
    if (load->kind != KAS_EX_LOAD || !kas_nest_pick(ir, load, lane, 0, &pick))
        return false;
    for (int first = pick.lanes; first < ir->var_size[lane]; first += pick.lanes)
        if (!kas_nest_pick(ir, load, lane, first, &pick))
            return false;
    return true;
}
