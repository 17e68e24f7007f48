/* Windows: a thread of a GPU, or a turn of a CPU's lanes, computes neighbouring pixels, whose windows
 * overlap.
 *
 *     y[h] = sum(k) x[h + k - 2]: a pixel of five taps loads 5 values, four pixels together load 8
 *
 * A loop along which windows slide is cut, and its innermost turns run inside the lanes with a sum
 * for each (emit_slide.c): then the compiler sees the loads of all turns side by side and makes
 * each of them once. A GPU's block so covers more pixels, too, and fetches less of what its
 * neighbours fetch again; so there a value that neighbours share without a window counts, too. */
#include <stdlib.h>

#include "host/core/gcd.h"
#include "jit/schedule/nest.h"
#include "jit/schedule/wide.h"

enum {
    MOST_TURNS = 8,
    SUMS = 64,             /* registers for the sums of a thread */
    LEAST_THREADS = 16384, /* of a launch, which keep a large GPU's memory busy */
    MOST_LANES_CPU = 512,
    LEAST_TERMS = 8 /* of a sum that a CPU keeps in registers */
};

/* Most of the loads that may be left over: for less a longer text does not pay. */
static const double most_left = 0.7;

/* In how many sums of an index one of two variables stands, and their coefficients in the last. */
typedef struct places {
    int sums;
    int64_t of_loop, of_tap;
} places;

static void find_places(const kas_ir *ir, kas_ix ix, int loop, int tap, places *p)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    int64_t of_loop = 0, of_tap = 0;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        if (atom->kind != KAS_ATOM_VAR)
            find_places(ir, atom->of, loop, tap, p);
        else if (atom->of == loop)
            of_loop = s->term[i].coeff;
        else if (atom->of == tap)
            of_tap = s->term[i].coeff;
    }
    if (!of_loop && !of_tap)
        return;
    p->sums++;
    p->of_loop = of_loop;
    p->of_tap = of_tap;
}

/* Returns how many turns of the loop lie between neighbouring taps, where an index depends on a sum
 * of both alone; else 0. */
static int64_t distance(const kas_ir *ir, kas_ix ix, int loop, int tap)
{
    places p = {0};
    find_places(ir, ix, loop, tap, &p);
    if (p.sums != 1 || !p.of_loop || !p.of_tap || p.of_tap % p.of_loop)
        return 0;
    const int64_t d = p.of_tap / p.of_loop;
    return d < 0 ? -d : d;
}

/* Over how many taps a loop's windows step from turn to turn; 1 where that is not known. */
typedef struct striding {
    const kas_ir *ir;
    int loop, tap;
    int64_t stride;
} striding;

static void see_stride(void *context, kas_ex e, const kas_ex_node *node)
{
    striding *w = context;
    places p = {0};
    (void)e;
    if (node->kind != KAS_EX_LOAD || w->stride > 1)
        return;
    find_places(w->ir, node->ix, w->loop, w->tap, &p);
    if (p.sums == 1 && p.of_loop && p.of_tap && p.of_loop % p.of_tap == 0)
        w->stride = llabs(p.of_loop / p.of_tap);
}

kas_status kas_nest_split_taps(kas_ir *ir, kas_nest *nest, int loop)
{
    for (int id = nest->opened; id < nest->ids; id++) {
        striding w = {.ir = ir, .loop = loop, .tap = nest->var_of[id], .stride = 1};
        if (nest->state[id] != KAS_LOOP_OPEN || kas_nest_place_in(nest, w.tap) >= 0)
            continue;
        KAS_TRY(kas_ex_visit(ir, nest->value, see_stride, &w));
        if (w.stride > 1 && w.stride < ir->var_size[w.tap] && ir->var_size[w.tap] % w.stride == 0)
            return kas_nest_step_on(ir, nest, KAS_STEP_SPLIT, w.tap, w.stride);
    }
    return KAS_OK;
}

/* Returns how many loads at `ix` are made when `turns` turns of a loop are computed together, of
 * the turns * taps that they have along the windows; all variables from number `loops` on are
 * taps. */
static double loads_of(const kas_masks *m, kas_ix ix, int loops, int loop, int64_t turns,
                       double *taps)
{
    const uint64_t mask = kas_masks_ix(m, ix);
    *taps = 1;
    for (int i = loops; i < m->vars; i++) {
        const int64_t size = m->ir->var_size[m->var[i]];
        const int64_t d = mask >> i & 1 ? distance(m->ir, ix, loop, m->var[i]) : 0;
        if (d == 0 || d >= turns)
            continue;
        *taps = (double)size;
        return (double)(turns + d * (size - 1));
    }
    return kas_ix_has_var(m->ir, ix, loop) ? (double)turns : 1;
}

double kas_nest_slide_loads(const kas_masks *m, const kas_nest *nest, kas_ix ix, double *taps)
{
    *taps = 1;
    return nest->slides
               ? loads_of(m, ix, nest->loops, nest->inner, m->ir->var_size[nest->inner], taps)
               : 1;
}

typedef struct taps {
    const kas_ir *ir;
    const kas_nest *nest;
    int var;
    bool slide;
} taps;

static void see_tap(void *context, kas_ex x, const kas_ex_node *node)
{
    taps *t = context;
    (void)x;
    if (node->kind == KAS_EX_LOAD)
        t->slide |= distance(t->ir, node->ix, t->nest->inner, t->var) > 0;
}

void kas_nest_order_taps(const kas_ir *ir, const kas_nest *nest, kas_ex body, int *var, int vars)
{
    for (int i = 0; i + 1 < vars; i++) {
        taps t = {.ir = ir, .nest = nest, .var = var[i]};
        /* When memory is exhausted, a later step fails and says so. */
        if (kas_ex_visit(ir, body, see_tap, &t) != KAS_OK || !t.slide)
            continue;
        var[i] = var[vars - 1];
        var[vars - 1] = t.var;
        return;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct search {
    const kas_nest *nest;
    kas_masks masks;
    int loop;
    int64_t turns;
    double alone, together; /* loads of a pixel by itself, and beside its neighbours */
    bool overlap;           /* windows do */
    bool narrow;            /* a sum that all lanes share would be computed inside a CPU's lanes */
} search;

static void see_load(void *context, kas_ex e, const kas_ex_node *node)
{
    search *s = context;
    (void)e;
    if (node->kind != KAS_EX_LOAD)
        return;
    const uint64_t mask = kas_masks_ix(&s->masks, node->ix);
    if (!kas_ix_has_var(s->masks.ir, node->ix, s->nest->lane)) {
        s->narrow |= s->masks.ir->cpu && mask >> s->nest->loops &&
                     kas_ix_has_var(s->masks.ir, node->ix, s->loop);
        return;
    }
    const double loads = kas_masks_turns(&s->masks, mask & ~UINT64_C(0) << s->nest->loops);
    double taps;
    s->alone += loads;
    const double together = loads_of(&s->masks, node->ix, s->nest->loops, s->loop, s->turns, &taps);
    s->together += loads * together / (taps * (double)s->turns);
    s->overlap |= taps > 1;
}

/* Finds whether all lanes read one place or side by side. */
typedef struct plainness {
    const kas_ir *ir;
    int lane;
    bool plain;
} plainness;

static void see_plain(void *context, const kas_ex_node *node, kas_ix ix)
{
    plainness *p = context;
    int64_t apart;
    (void)node;
    p->plain &= kas_ix_coeff(p->ir, ix, p->lane, &apart) && (apart == 0 || apart == 1);
}

/* Returns whether neighbours may share what they load. On a CPU only in rows of lanes that compilers
 * make vectors of, and not beside tiles. */
static bool may_slide(const kas_ir *ir, const kas_nest *nest)
{
    plainness p = {ir, nest->lane, true};
    if (nest->lane < 0 || nest->inner >= 0 || nest->column >= 0)
        return false;
    if (!ir->cpu)
        return true;
    return nest->turned < 0 && ir->var_size[nest->lane] <= MOST_LANES_CPU &&
           kas_nest_visit(ir, nest, see_plain, &p) == KAS_OK && p.plain;
}

/* Finds the loop and its turns that leave fewest loads. */
static kas_status find(const kas_ir *ir, search *s, int *loop, int64_t *turns)
{
    const kas_nest *n = s->nest;
    const double least_threads = ir->cpu ? 0 : LEAST_THREADS;
    double least = most_left, threads = 1.0 / kas_wide(ir);
    for (int i = 0; i < n->loops; i++)
        threads *= (double)ir->var_size[n->loop[i]];
    for (int i = 0; i < n->loops; i++) {
        const int64_t size = ir->var_size[n->loop[i]];
        for (int64_t t = 2; t <= size && t <= MOST_TURNS && n->loop[i] != n->lane; t++) {
            if (size % t || t * kas_wide(ir) > SUMS || threads / (double)t < least_threads)
                continue;
            s->loop = n->loop[i];
            s->turns = t;
            s->alone = s->together = 0;
            s->narrow = false;
            s->overlap = !ir->cpu; /* a CPU's caches hold what is shared without a window */
            KAS_TRY(kas_ex_visit(ir, n->value, see_load, s));
            if (!s->overlap || s->narrow || s->together >= least * s->alone)
                continue;
            least = s->together / s->alone;
            *loop = n->loop[i];
            *turns = t;
        }
    }
    return KAS_OK;
}

/* ---- sums in registers ----------------------------------------------------------------------- */

bool kas_nest_product(const kas_ir *ir, const kas_nest *nest, kas_ex body, kas_ex *run,
                      kas_ex *number)
{
    const kas_ex_node *product = kas_ex_get(ir, body);
    if (product->kind != KAS_EX_BINARY || product->fn != KAS_FN_MUL || nest->lane < 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const kas_ex_node *a = kas_ex_get(ir, product->a[i]),
                          *b = kas_ex_get(ir, product->a[1 - i]);
        int64_t apart;
        *run = product->a[i];
        *number = product->a[1 - i];
        if (a->kind == KAS_EX_LOAD && b->kind == KAS_EX_LOAD &&
            kas_ix_coeff(ir, a->ix, nest->lane, &apart) && apart == 1 &&
            !kas_ix_has_var(ir, b->ix, nest->lane) &&
            (nest->inner < 0 || !kas_ix_has_var(ir, a->ix, nest->inner)))
            return true;
    }
    return false;
}

/* The one sum of a kernel that is long. */
typedef struct lone_sum {
    const kas_ir *ir;
    kas_ex body; /* -1: there is none; -2: there are more */
    bool is_long;
} lone_sum;

static void see_sum(void *context, kas_ex e, const kas_ex_node *node)
{
    lone_sum *s = context;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const kas_ex_node *inside = kas_ex_get(s->ir, node->a[0]);
    s->is_long |= kas_reduce_length(s->ir, e) >= LEAST_TERMS;
    if (node->fn != KAS_FN_REDUCE_SUM)
        s->body = -2;
    else if (inside->kind != KAS_EX_REDUCE)
        s->body = s->body == -1 ? node->a[0] : -2;
}

/* How the sums of a kernel lie in registers. */
typedef struct sums {
    double gain; /* multiply-adds for each load */
    int lane, loop;
    int64_t lanes, turns;
} sums;

/* Looks for the loop whose turns are virtual threads, and how many of them with so many lanes:
 * sums in registers, with as few loads for each multiply-add as these allow. */
static void choose_turns(const kas_ir *ir, const kas_nest *nest, kas_ex run, kas_ex number,
                         int64_t lanes, sums *best)
{
    /* AVX-512 has 32 registers, and 16 lanes in each; AVX2 half of both. Lanes that fill no whole vectors
     * are in vectors of half the length. */
    const int64_t registers = 3 * ir->lanes / 2,
                  vector = lanes % ir->lanes ? ir->lanes / 2 : ir->lanes,
                  vectors = (lanes + vector - 1) / vector, most = registers / vectors;
    for (int i = 0; i < nest->loops; i++) {
        const int var = nest->loop[i];
        const int64_t turns =
            kas_divisor_within(ir->var_size[var], most < KAS_MOST_INNER ? most : KAS_MOST_INNER);
        const double gain = (double)(lanes * turns) / (double)(vectors + turns);
        if (var == nest->lane || turns < 2 || gain < best->gain ||
            kas_ix_has_var(ir, kas_ex_get(ir, run)->ix, var) ||
            !kas_ix_has_var(ir, kas_ex_get(ir, number)->ix, var))
            continue;
        *best = (sums){gain, nest->lane, var, lanes, turns};
    }
}

/* Looks at all numbers of lanes of a block that are whole vectors. */
static void choose_sums(const kas_ir *ir, const kas_nest *nest, kas_ex run, kas_ex number,
                        sums *best)
{
    enum { STEP = 8 };
    const int64_t extent = ir->var_size[nest->lane];
    for (int64_t lanes = STEP; lanes <= extent && lanes <= 4 * ir->lanes; lanes += STEP)
        if (extent % lanes == 0)
            choose_turns(ir, nest, run, number, lanes, best);
}

static kas_status run_turns(kas_ir *ir, kas_nest *nest, int loop, int64_t turns)
{
    if (turns < ir->var_size[loop]) {
        kas_nest cut;
        if (!kas_nest_split_loop(ir, nest, loop, turns, &cut))
            return ir->status;
        *nest = cut;
        loop = ir->vars - 1; /* the inner loop is the last variable that was made */
    }
    return kas_nest_step_on(ir, nest, KAS_STEP_VTHREAD, loop, 0);
}

kas_status kas_nest_keep_sums(kas_ir *ir, kas_nest *nest)
{
    lone_sum s = {.ir = ir, .body = -1};
    sums best = {.loop = -1};
    KAS_TRY(kas_ex_visit(ir, nest->value, see_sum, &s));
    for (int i = 0; i < nest->loops && s.body >= 0 && s.is_long; i++) {
        kas_nest trial = *nest;
        kas_ex run, number;
        trial.lane = nest->loop[i];
        if (kas_nest_product(ir, &trial, s.body, &run, &number))
            choose_sums(ir, &trial, run, number, &best);
    }
    if (best.loop < 0)
        return KAS_OK;
    KAS_TRY(kas_nest_step_on(ir, nest, KAS_STEP_LANE, best.lane, 0));
    KAS_TRY(run_turns(ir, nest, best.loop, best.turns));
    nest->keeps_sums = true;
    return best.lanes == ir->var_size[best.lane]
               ? KAS_OK
               : kas_nest_step(ir, nest,
                               (kas_step){.kind = KAS_STEP_LANES, .n = (int32_t)best.lanes});
}

kas_status kas_nest_slide(kas_ir *ir, kas_nest *nest)
{
    search s = {.nest = nest};
    int loop = -1;
    int64_t turns = 1;
    if (!may_slide(ir, nest))
        return KAS_OK;
    KAS_TRY(kas_masks_init(&s.masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = find(ir, &s, &loop, &turns);
    kas_masks_free(&s.masks);
    if (status != KAS_OK || loop < 0)
        return status;
    return run_turns(ir, nest, loop, turns);
}
