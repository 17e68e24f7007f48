/* Tiles: on a CPU, what lanes read apart is read side by side and transposed.
 *
 *     y[lane] = sum(u) x[16 * lane + u]
 *
 * is a gather for each element: of each cache line that the lanes touch they take one element in a
 * turn. Where the loads of a kernel that lie apart walk side by side along one variable u, a block
 * of turns x lanes elements of each is transposed in front of the loop (cuda/kernels/tile.h), and
 * the lanes find theirs side by side. u is
 *
 *     a loop of the kernel       it becomes the rows of a block, in front of which tiles are filled
 *     of a long reduction        its innermost loop, likewise
 *     of a short reduction       a loop inside the lanes; tiles are filled in front of these, with
 *                                all that the loops of the reduction reach
 *
 * A load along a loop of the kernel may stand in short reductions (the taps of a window): then each
 * of their turns has a tile.
 *
 * What lanes write apart, but side by side along a loop, goes through a tile likewise: all turns of
 * u, where it is the rows of a block, or of a short loop inside the lanes. Lanes write to the tile
 * side by side, and it is transposed to memory behind them. Two short loops along which a lane's
 * results lie side by side (the taps of a window) are made one for that.
 *
 * A GPU has no tiles: it fetches sectors and keeps them in L1 from turn to turn, or copies what a
 * block reads to shared memory (boxes.c). */
#include "jit/schedule/nest.h"

enum {
    TURNS = 16,     /* of a tile: a cache line of float32 */
    LEAST = 8,      /* lanes and turns: what is transposed at once */
    SPILLED = 4096, /* most elements of the tile there */
    COPIES = 9,     /* most turns of short reductions, each with a tile of its own */
    REDUCED = 4     /* weight of a load at every turn of a reduction, as in lanes.c */
};

bool kas_ix_is_turned(const kas_ir *ir, kas_ix ix, int lane, int turned)
{
    int64_t apart, between;
    return turned >= 0 && kas_ix_coeff(ir, ix, lane, &apart) && apart > 1 &&
           kas_ix_coeff(ir, ix, turned, &between) && between == 1;
}

/* Returns the turns of a tile along a loop of this size, 0 when there is no good number. */
static int64_t turns_of(int64_t size)
{
    int64_t turns = size < 2 * TURNS ? size : TURNS;
    while (turns >= LEAST && size % turns)
        turns--;
    if (turns < LEAST)
        turns = size <= KAS_MOST_TILE_TURNS ? size : 0;
    return turns < LEAST ? 0 : turns;
}

typedef struct search {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    uint64_t own;        /* the loops around the lanes */
    uint64_t around[64]; /* by variable of the masks: what is open where its tiles are filled */
    uint64_t chain[64];  /* of a short reduction: all of its variables */
    bool legal[64], within[64];
    double weight[64];
} search;

/* Finds where the loops of reductions stand. Expressions are seen operands first, so the last chain
 * of reductions that holds a variable is the whole. */
static void see_reduction(void *context, kas_ex e, const kas_ex_node *node)
{
    search *s = context;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const bool nested = kas_masks_ex(&s->masks, e) >> s->nest->loops != 0;
    const bool around = kas_nest_is_long(s->ir, s->nest, e);
    if (around && node->fn == KAS_FN_REDUCE_ARGMAX) /* its loop is not cut */
        return;
    uint64_t chain = 0;
    int last = -1;
    for (const kas_ex_node *r = node; r->kind == KAS_EX_REDUCE && r->fn == node->fn;
         r = kas_ex_get(s->ir, r->a[0])) {
        last = kas_masks_index(&s->masks, r->var);
        s->legal[last] = false;
        chain |= UINT64_C(1) << last;
    }
    for (int i = s->nest->loops; i < s->masks.vars; i++)
        if (chain >> i & 1) {
            s->legal[i] = !nested && (!around || i == last);
            s->around[i] = s->own | chain;
            s->chain[i] = around ? 0 : chain;
            s->within[i] = !around;
        }
}

/* Finds which turn an index is of, where the loops of `chain` turn inside the lanes. Returns the
 * number of turns, 0 where tiles would be small, large or for the greater part not read. */
static int64_t turns_within(const search *s, kas_ix ix, uint64_t chain, kas_ix_sum *turn)
{
    const kas_ix_sum *sum = kas_ix_get(s->ir, ix);
    int64_t last = 0, read = 1;
    *turn = (kas_ix_sum){0};
    for (int i = 0; i < sum->terms; i++) {
        const kas_atom *atom = kas_atom_get(s->ir, sum->term[i].atom);
        if (atom->kind != KAS_ATOM_VAR) {
            if (kas_masks_ix(&s->masks, atom->of) & chain)
                return 0;
            continue;
        }
        if (!(chain >> kas_masks_index(&s->masks, atom->of) & 1))
            continue;
        if (sum->term[i].coeff < 0)
            return 0;
        turn->term[turn->terms++] = sum->term[i];
        last += sum->term[i].coeff * (s->ir->var_size[atom->of] - 1);
        read *= s->ir->var_size[atom->of];
    }
    return last + 1 < LEAST || last + 1 > KAS_MOST_TILE_TURNS || 2 * read < last + 1 ? 0 : last + 1;
}

/* Finds the reductions for whose turns a tile along loop i has copies. Returns false where a load
 * depends on more than these and what is open in front of the loop. */
static bool find_copies(const search *s, kas_ix ix, int i, kas_tile *tile)
{
    const uint64_t more = kas_masks_ix(&s->masks, ix) & ~s->around[i];
    tile->vars = 0;
    tile->copies = 1;
    if (more && (i >= s->nest->loops || more & s->own))
        return false;
    for (int v = s->nest->loops; v < s->masks.vars; v++) {
        if (!(more >> v & 1))
            continue;
        if (tile->vars == KAS_TILE_VARS)
            return false;
        tile->var[tile->vars++] = s->masks.var[v];
        tile->copies *= s->ir->var_size[s->masks.var[v]];
    }
    return tile->copies <= COPIES && more >> s->masks.vars == 0 &&
           (more & ((UINT64_C(1) << s->nest->loops) - 1)) == 0;
}

static bool fits(const search *s, const kas_ex_node *node, int i)
{
    kas_ix_sum turn;
    kas_tile tile;
    return s->legal[i] && kas_ix_is_turned(s->ir, node->ix, s->nest->lane, s->masks.var[i]) &&
           find_copies(s, node->ix, i, &tile) &&
           (!s->within[i] || turns_within(s, node->ix, s->chain[i], &turn) > 0);
}

static void see_load(void *context, kas_ex e, const kas_ex_node *node)
{
    search *s = context;
    (void)e;
    if (node->kind != KAS_EX_LOAD)
        return;
    const bool reduced = kas_masks_ix(&s->masks, node->ix) >> s->nest->loops != 0;
    for (int i = 0; i < s->masks.vars; i++)
        if (fits(s, node, i))
            s->weight[i] += reduced ? REDUCED : 1;
}

static kas_status look(const kas_ir *ir, const kas_nest *nest, search *s)
{
    *s = (search){.ir = ir, .nest = nest};
    KAS_TRY(kas_masks_init(&s->masks, ir, nest->value, nest->loops, nest->loop));
    s->own = (UINT64_C(1) << nest->loops) - 1;
    if (nest->inner >= 0)
        s->own &= ~(UINT64_C(1) << kas_masks_index(&s->masks, nest->inner));
    kas_status status = kas_ex_visit(ir, nest->value, see_reduction, s);
    for (int i = 0; i < s->masks.vars; i++) {
        const int var = s->masks.var[i];
        if (i < nest->loops) {
            s->legal[i] = var != nest->lane && var != nest->inner && var != nest->column;
            s->around[i] = s->own;
        }
        s->legal[i] = s->legal[i] && (s->within[i] || turns_of(ir->var_size[var]) > 0);
    }
    for (int i = 0; i < nest->loops && nest->inner < 0; i++)
        if (s->legal[i] && kas_ix_is_turned(ir, nest->store, nest->lane, s->masks.var[i]))
            s->weight[i] += 1;
    if (status == KAS_OK)
        status = kas_ex_visit(ir, nest->value, see_load, s);
    return status;
}

void kas_nest_find_spill(kas_ir *ir, kas_nest *nest)
{
    const bool rows = nest->inner < 0 && kas_nest_place_in(nest, nest->turned) >= 0;
    const int var = rows ? nest->turned : nest->inner;
    kas_subst first = {0};
    nest->spill = (kas_spill){.var = var};
    if (!ir->cpu || nest->lane < 0 || nest->row || nest->column >= 0 || var < 0 ||
        !kas_ix_is_turned(ir, nest->store, nest->lane, var))
        return;
    const int64_t turns = rows ? nest->turns : ir->var_size[var];
    kas_ix_coeff(ir, nest->store, nest->lane, &nest->spill.stride);
    const bool pairs = (turns & (turns - 1)) == 0; /* inside the lanes, compilers interleave them */
    if (nest->lanes < LEAST || (!rows && (pairs || turns * nest->lanes > SPILLED)))
        return;
    kas_subst_add(ir, &first, nest->lane, kas_ix_const(ir, 0));
    kas_subst_add(ir, &first, var, kas_ix_const(ir, 0));
    nest->spill.base = kas_ix_subst(ir, nest->store, &first);
    nest->spill.turns = turns;
}

bool kas_nest_merge_taps(kas_ir *ir, const kas_nest *nest, int lane, kas_nest *to)
{
    int64_t apart, inner, outer;
    if (!ir->cpu || !kas_ix_coeff(ir, nest->store, lane, &apart))
        return false;
    for (int i = 0; i + 1 < nest->loops; i++) {
        const int64_t size = ir->var_size[nest->loop[i + 1]];
        const int64_t both = size * ir->var_size[nest->loop[i]];
        if (kas_ix_coeff(ir, nest->store, nest->loop[i + 1], &inner) && inner == 1 &&
            kas_ix_coeff(ir, nest->store, nest->loop[i], &outer) && outer == size &&
            apart == both && both <= KAS_MOST_TILE_TURNS)
            return kas_nest_merge_pair(ir, nest, i, to);
    }
    return false;
}

kas_status kas_nest_find_turned(const kas_ir *ir, kas_nest *nest)
{
    search s;
    nest->turned = -1;
    if (!ir->cpu || nest->lane < 0 || nest->column >= 0 || ir->var_size[nest->lane] < LEAST)
        return KAS_OK;
    const kas_status status = look(ir, nest, &s);
    double most = 0;
    for (int i = 0; i < s.masks.vars && status == KAS_OK; i++)
        if (s.weight[i] > most) {
            most = s.weight[i];
            nest->turned = s.masks.var[i];
        }
    kas_masks_free(&s.masks);
    return status;
}

typedef struct listing {
    search search;
    kas_nest *nest;
    int at; /* of the turned variable in the masks */
} listing;

static void see_tile(void *context, kas_ex e, const kas_ex_node *node)
{
    listing *l = context;
    if (node->kind != KAS_EX_LOAD || l->nest->tiles == KAS_TILES || !fits(&l->search, node, l->at))
        return;
    l->nest->tile[l->nest->tiles++].load = e;
}

/* Also computes where the first lane's first turn lies. */
kas_status kas_nest_list_tiles(kas_ir *ir, kas_nest *nest)
{
    listing l = {.nest = nest};
    kas_subst first = {0};
    kas_status status = look(ir, nest, &l.search);
    if (status == KAS_OK) {
        l.at = kas_masks_index(&l.search.masks, nest->turned);
        nest->tiles_within = l.search.within[l.at];
        status = kas_ex_visit(ir, nest->value, see_tile, &l);
    }
    kas_subst_add(ir, &first, nest->lane, kas_ix_const(ir, 0));
    kas_subst_add(ir, &first, nest->turned, kas_ix_const(ir, 0));
    for (int i = 0; i < l.search.masks.vars && status == KAS_OK; i++)
        if (nest->tiles_within && l.search.chain[l.at] >> i & 1 && i != l.at)
            kas_subst_add(ir, &first, l.search.masks.var[i], kas_ix_const(ir, 0));
    for (int i = 0; i < nest->tiles; i++) {
        const kas_ix ix = kas_ex_get(ir, nest->tile[i].load)->ix;
        kas_ix_sum turn;
        nest->tile[i].turns = nest->turns;
        find_copies(&l.search, ix, l.at, &nest->tile[i]);
        if (nest->tiles_within) {
            nest->tile[i].turns = turns_within(&l.search, ix, l.search.chain[l.at], &turn);
            nest->tile[i].turn = kas_ix_put(ir, &turn);
        }
        kas_ix_coeff(ir, ix, nest->lane, &nest->tile[i].stride);
        nest->tile[i].base = kas_ix_subst(ir, ix, &first);
    }
    kas_masks_free(&l.search.masks);
    return status;
}

kas_status kas_nest_turn(kas_ir *ir, kas_nest *nest)
{
    if (nest->turned < 0)
        return KAS_OK;
    const bool is_loop = kas_nest_place_in(nest, nest->turned) >= 0;
    const int64_t size = ir->var_size[nest->turned], turns = turns_of(size);
    if (!is_loop && turns > 0 && turns < size) {
        kas_nest cut;
        if (!kas_nest_split_loop(ir, nest, nest->turned, turns, &cut))
            return ir->status;
        *nest = cut;
        nest->turned = ir->vars - 1; /* the inner loop is the last variable that was made */
    }
    return kas_nest_step_on(ir, nest, KAS_STEP_STAGE, nest->turned,
                            is_loop ? turns : ir->var_size[nest->turned]);
}
