#include "host/space/evolve/rebuild.h"

#include "host/space/commute.h"

typedef struct rebuild {
    kas_guided *d;
    const kas_outline *outline;
    uint8_t place[KAS_MAX_NODES]; /* place of an outline's node in the growth */
    uint8_t maker[KAS_MAX_VARS];  /* node of the outline that made a variable of the growth */
    int built;                    /* nodes of the outline that are in the growth */
} rebuild;

/* Finds the size that node n had in its parent, in the growth's variables. Returns false where
 * nothing is wanted, or the node whose size it holds is not there. */
static bool wanted_size(const rebuild *r, int n, kas_dim *out)
{
    const kas_dim *size = &r->outline->node[n].out;
    if (size->num == 0)
        return false;
    const int var = kas_dim_var(size);
    if (var < 0) {
        *out = *size;
        return true;
    }
    const kas_dim symbol = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + var));
    for (int i = 1; i < r->built; i++)
        if (i != n && kas_dim_equal(&r->outline->node[i].out, &symbol))
            return kas_dim_substitute(size, var, &r->d->growth->kernel.node[r->place[i]].out, out);
    return false;
}

/* Picks the value that the size had in the parent, or draws one. */
static int pick_value(void *context, const kas_candidate_op *use, int var,
                      const kas_value *const *value, int count)
{
    rebuild *r = context;
    kas_dim wanted;
    if (wanted_size(r, r->maker[var], &wanted))
        for (int i = 0; i < count; i++)
            if (kas_dim_equal(&value[i]->size, &wanted) &&
                kas_growth_takes(r->d->growth, var, &wanted))
                return i;
    return kas_guided_draw_value(r->d, use, var, value, count);
}

static kas_candidate_op use_of(const rebuild *r, int n)
{
    kas_candidate_op use = r->outline->node[n].use;
    kas_node node;
    for (int k = 0; k < use.inputs; k++)
        use.in[k] = r->place[use.in[k]];
    kas_candidate_op_node(&use, 0, &node);
    if (kas_operands_commute(&r->d->growth->kernel, &node) && use.in[0] > use.in[1]) {
        use.in[0] = node.in[1]; /* the one order that the pruning rules leave */
        use.in[1] = node.in[0];
    }
    return use;
}

static kas_reject reason_of(kas_refusal why)
{
    switch (why) {
    case KAS_REFUSED_PRUNED:
        return KAS_REJECT_REDUNDANT;
    case KAS_REFUSED_OUTPUT:
        return KAS_REJECT_OUTPUT;
    case KAS_REFUSED_SIZE:
    case KAS_REFUSED_VALUE:
        return KAS_REJECT_VARIABLES;
    default:
        return KAS_REJECT_DEAD_END;
    }
}

static kas_reject append(rebuild *r, int n, bool keep_sizes)
{
    kas_growth *g = r->d->growth;
    const kas_candidate_op use = use_of(r, n);
    const int var = g->vars;
    kas_dim size;
    if (!kas_candidate_op_passes(&r->d->guide.filter, &use))
        return KAS_REJECT_DEAD_END;
    if (!kas_growth_try(g, &use, pick_value, r))
        return reason_of(g->refused);
    r->place[n] = (uint8_t)(g->kernel.nodes - 1);
    r->built = n + 1;
    if (g->vars > var) {
        r->maker[var] = (uint8_t)n;
        if (keep_sizes && wanted_size(r, n, &size) && kas_growth_may_use(g, &size) &&
            kas_growth_takes(g, var, &size) && !kas_growth_fix(g, &size))
            return KAS_REJECT_VARIABLES;
    }
    return kas_guide_admits(&r->d->guide);
}

kas_reject kas_rebuild(kas_guided *d, const kas_outline *outline, int nodes, int primitives,
                       bool keep_sizes)
{
    rebuild r = {.d = d, .outline = outline, .built = 1};
    kas_growth *g = d->growth;
    kas_reject why = KAS_REJECT_NONE;
    const bool whole = nodes == primitives + 1;
    /* How all leaves will be merged is settled in a whole kernel. So nothing need look ahead, and
     * a concatenation may merge more leaves at once than a growing kernel counts on. */
    kas_growth_begin(g, whole ? KAS_MAX_NODES - 1 : primitives, outline->group, outline->split);
    kas_guide_begin(&d->guide);
    for (int n = 1; n < nodes && why == KAS_REJECT_NONE; n++) {
        if (n == primitives)
            g->primitives = primitives;
        why = append(&r, n, keep_sizes);
    }
    return whole && why == KAS_REJECT_NONE ? kas_guide_finish(&d->guide) : why;
}
