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

/* Finds the part of an index that depends on the lane. Returns false where that part depends on
 * other variables too, or is none. */
static bool lane_part(const kas_ir *ir, kas_ix ix, int lane, kas_ix_sum *part)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    *part = (kas_ix_sum){0};
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        if (!kas_atom_has_lane(ir, atom, lane))
            continue;
        if (!has_only(ir, atom, lane))
            return false;
        part->term[part->terms++] = s->term[i];
    }
    return part->terms > 0;
}

/* Finds how lanes first .. first + lanes - 1 pick. */
static bool pick_of(const kas_ir *ir, const kas_ex_node *load, const kas_ix_sum *part, int lane,
                    int first, int lanes, kas_pick *out)
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
    const kas_range r = kas_ix_range(ir, load->ix);
    const int64_t more = out->window - (high - low + 1);
    const bool fits = r.high + more < kas_ir_memory(ir, load->tensor);
    if (!fits && r.low < more)
        return false;
    out->start = fits ? low : low - more;
    for (int l = 0; l < lanes; l++)
        out->place[l] = (int)(place[l] - out->start);
    return true;
}

bool kas_nest_pick(const kas_ir *ir, const kas_ex_node *load, int lane, int first, kas_pick *out)
{
    kas_ix_sum part;
    int64_t stride;
    const int64_t extent = lane < 0 ? 0 : ir->var_size[lane];
    if (!ir->cpu || extent > LANES || extent % VECTOR ||
        (kas_ix_coeff(ir, load->ix, lane, &stride) && stride > 0 && stride <= NEAR) ||
        !lane_part(ir, load->ix, lane, &part))
        return false;
    return (extent - first >= 2 * VECTOR &&
            pick_of(ir, load, &part, lane, first, 2 * VECTOR, out)) ||
           pick_of(ir, load, &part, lane, first, VECTOR, out);
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
