#include "jit/schedule/wide.h"

#include "host/core/gcd.h"

/* ---- one index ------------------------------------------------------------------------------- */

/* The values of the lanes of a group: start, start + slope, start + 2 slope, ...; `divisor` divides
 * every start, and the size of a group. */
typedef struct line {
    bool straight;
    int64_t slope, divisor;
} line;

static line line_of(const kas_ir *ir, kas_ix ix, int lane);

static line atom_line(const kas_ir *ir, const kas_atom *atom, int lane)
{
    if (atom->kind == KAS_ATOM_VAR)
        return atom->of == lane ? (line){true, 1, kas_wide(ir)} : (line){true, 0, 1};
    const line of = line_of(ir, atom->of, lane);
    const bool same = of.straight && of.slope == 0;
    if (atom->kind == KAS_ATOM_CLAMP)
        return (line){same, 0, kas_gcd_signed(kas_gcd_signed(of.divisor, atom->a), atom->b)};
    /* Starts are multiples of `step`, and so is the divisor of the index: a group that is shorter
     * than a step stays within one quotient. */
    const int64_t step = kas_gcd_signed(of.divisor, atom->a);
    const bool within = of.straight && of.slope >= 0 && of.slope * (kas_wide(ir) - 1) < step;
    if (atom->kind == KAS_ATOM_MOD)
        return (line){same || within, same ? 0 : of.slope, step};
    return (line){same || within, 0, 1};
}

static line line_of(const kas_ir *ir, kas_ix ix, int lane)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    line sum = {true, 0, kas_gcd_signed(kas_wide(ir), s->constant)};
    for (int i = 0; i < s->terms; i++) {
        const line term = atom_line(ir, kas_atom_get(ir, s->term[i].atom), lane);
        sum.straight &= term.straight;
        sum.slope += s->term[i].coeff * term.slope;
        sum.divisor = kas_gcd_signed(sum.divisor, s->term[i].coeff % kas_wide(ir) * term.divisor);
    }
    return sum;
}

kas_group kas_ix_group(const kas_ir *ir, kas_ix ix, int lane)
{
    const line l = lane < 0 ? (line){true, 0, 1} : line_of(ir, ix, lane);
    const kas_group_kind kind = !l.straight || l.slope < 0 || l.slope > 1 ? KAS_GROUP_APART
                                : l.slope == 1                            ? KAS_GROUP_RUN
                                                                          : KAS_GROUP_SAME;
    return (kas_group){kind, l.divisor == kas_wide(ir)};
}

/* ---- a kernel -------------------------------------------------------------------------------- */

typedef struct survey {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    double same, aligned, run, apart; /* bytes; aligned ones are not counted among the runs */
} survey;

static void see_access(void *context, const kas_ex_node *node, kas_ix ix)
{
    survey *s = context;
    if (node && node->kind != KAS_EX_LOAD)
        return;
    /* Every lane of every block makes the access, in every turn of the reductions on which its
     * address depends. */
    const uint64_t mask = kas_masks_ix(&s->masks, ix) | ((UINT64_C(1) << s->nest->loops) - 1);
    const int tensor = node ? node->tensor : s->nest->tensor;
    const double bytes =
        (double)kas_dtype_size(s->ir->tensor[tensor].dtype) * kas_masks_turns(&s->masks, mask);
    const kas_group g = kas_ix_group(s->ir, ix, s->nest->lane);
    double *sum = g.kind == KAS_GROUP_SAME    ? &s->same
                  : g.kind == KAS_GROUP_APART ? &s->apart
                  : g.aligned                 ? &s->aligned
                                              : &s->run;
    *sum += bytes;
}

static kas_status look(const kas_ir *ir, const kas_nest *nest, survey *s)
{
    *s = (survey){.ir = ir, .nest = nest};
    KAS_TRY(kas_masks_init(&s->masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = kas_nest_visit(ir, nest, see_access, s);
    kas_masks_free(&s->masks);
    return status;
}

bool kas_nest_can_widen(const kas_ir *ir, const kas_nest *nest)
{
    if (nest->lane < 0 || (nest->inner >= 0 && !nest->slides) ||
        ir->var_size[nest->lane] % kas_wide(ir) || nest->lanes % kas_wide(ir))
        return false;
    const kas_group store = kas_ix_group(ir, nest->store, nest->lane);
    return store.kind == KAS_GROUP_RUN && store.aligned;
}

kas_status kas_nest_width(const kas_ir *ir, const kas_nest *nest, int *width)
{
    *width = 1;
    if (!kas_nest_can_widen(ir, nest))
        return KAS_OK;
    /* Scalar loads of a wide kernel touch a warp's sectors four times. */
    survey s;
    KAS_TRY(look(ir, nest, &s));
    if (s.aligned >= s.run + s.apart)
        *width = kas_wide(ir);
    return KAS_OK;
}

kas_status kas_nest_accessed(const kas_ir *ir, const kas_nest *nest, kas_accessed *out)
{
    survey s;
    KAS_TRY(look(ir, nest, &s));
    *out = (kas_accessed){.all = s.aligned + s.run + s.apart,
                          .contiguous = s.aligned + s.run,
                          .wide = nest->width > 1 ? s.aligned : 0};
    return KAS_OK;
}
