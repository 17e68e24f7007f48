/* Writes tiles (schedule/tiles.c) and picks (schedule/picks.c): how they are filled, and how lanes
 * read them. */
#include "jit/emit/emitter.h"

/* Writes the place of the turn of loops inside the lanes. */
static void put_turns(kas_emitter *e, const int *var, int vars)
{
    kas_buf_puts(e->out, "(0");
    for (int i = 0; i < vars; i++) {
        long long stride = 1;
        for (int k = i + 1; k < vars; k++)
            stride *= (long long)e->ir->var_size[var[k]];
        kas_buf_printf(e->out, " + %lld * v%d", stride, kas_emit_var_name(e, var[i]));
    }
    kas_buf_puts(e->out, ")");
}

/* Writes the number of the turn in the tile. */
static void put_turn(kas_emitter *e, const kas_tile *tile)
{
    const kas_nest *n = e->nest;
    if (tile->vars) {
        kas_buf_printf(e->out, "(%lld * ", (long long)tile->turns);
        put_turns(e, tile->var, tile->vars);
        kas_buf_puts(e->out, " + ");
    }
    if (n->tiles_within) {
        kas_buf_puts(e->out, "(");
        kas_emit_put_ix(e, tile->turn);
        kas_buf_puts(e->out, ")");
        return;
    }
    const int turn = kas_emit_var_name(e, n->turned);
    kas_buf_printf(e->out,
                   n->rows == n->turned && n->block_rows < e->ir->var_size[n->rows] ? "(v%d - row)"
                                                                                    : "v%d",
                   turn);
    kas_buf_puts(e->out, tile->vars ? ")" : "");
}

void kas_emit_fill_tiles(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const long long lanes = (long long)n->lanes;
    const int64_t extent = e->ir->var_size[n->lane];
    e->filled = true;
    for (int i = 0; i < n->tiles; i++) {
        const kas_tile *tile = &n->tile[i];
        const long long turns = (long long)tile->turns;
        const int tensor = kas_ex_get(e->ir, tile->load)->tensor;
        kas_emit_line(e, "KAS_TILE(tile%d, %lld, %lld);", i, turns * (long long)tile->copies,
                      lanes);
        for (int k = 0; k < tile->vars; k++)
            kas_emit_open_loop(e, tile->var[k]);
        kas_emit_start(e);
        kas_buf_printf(e->out, "%s(tile%d",
                       kas_emit_is_real(e, tensor) ? "KAS_TILE_FILL_REAL" : "KAS_TILE_FILL", i);
        if (tile->vars) {
            kas_buf_printf(e->out, " + %lld * ", turns * lanes);
            put_turns(e, tile->var, tile->vars);
        }
        kas_buf_printf(e->out, ", %lld, %lld, ", turns, lanes);
        if (extent % lanes)
            kas_buf_puts(e->out, "count, ");
        else
            kas_buf_printf(e->out, "%lld, ", lanes);
        kas_buf_printf(e->out, "p%d + (", kas_emit_arg(e, tensor));
        kas_emit_put_ix(e, tile->base);
        if (extent > lanes)
            kas_buf_printf(e->out, " + %lld%s * first", (long long)tile->stride,
                           n->wide ? "LL" : "");
        if (n->rows == n->turned && n->block_rows < e->ir->var_size[n->rows])
            kas_buf_puts(e->out, " + row");
        kas_buf_printf(e->out, "), %lld);\n", (long long)tile->stride);
        kas_emit_close_loops(e, tile->var, tile->vars);
    }
}

/* ---- a tile that is written ------------------------------------------------------------------ */

void kas_emit_open_spill(kas_emitter *e)
{
    enum { AT_ONCE = 8 }; /* turns that are transposed together */
    const kas_nest *n = e->nest;
    kas_emit_line(e, "KAS_TILE(spill, %lld, %lld);",
                  (long long)((n->spill.turns + AT_ONCE - 1) / AT_ONCE * AT_ONCE),
                  (long long)n->lanes);
}

void kas_emit_put_spill(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const bool real = kas_emit_is_real(e, n->tensor);
    const bool part = n->spill.var == n->rows && n->block_rows < e->ir->var_size[n->rows];
    kas_buf_printf(e->out, "KAS_TILE_PUT%s(spill, %lld * %sv%d%s + i, p%d[", real ? "_REAL" : "",
                   (long long)n->lanes, part ? "(" : "", kas_emit_var_name(e, n->spill.var),
                   part ? " - row)" : "", e->args - 1);
    kas_emit_put_ix(e, n->store);
    kas_buf_puts(e->out, "], ");
}

void kas_emit_spill(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const long long lanes = (long long)n->lanes, stride = (long long)n->spill.stride;
    const int64_t extent = e->ir->var_size[n->lane];
    kas_emit_start(e);
    kas_buf_printf(e->out, "KAS_TILE_STORE%s(spill, %lld, %lld, ",
                   kas_emit_is_real(e, n->tensor) ? "_REAL" : "", (long long)n->spill.turns, lanes);
    if (extent % lanes)
        kas_buf_puts(e->out, "count, ");
    else
        kas_buf_printf(e->out, "%lld, ", lanes);
    kas_buf_printf(e->out, "p%d + (", e->args - 1);
    kas_emit_put_ix(e, n->spill.base);
    if (extent > lanes)
        kas_buf_printf(e->out, " + %lld%s * first", stride, n->wide ? "LL" : "");
    if (n->spill.var == n->rows && n->block_rows < e->ir->var_size[n->rows])
        kas_buf_puts(e->out, " + row");
    kas_buf_printf(e->out, "), %lld);\n", stride);
}

/* ---- picks ----------------------------------------------------------------------------------- */

enum { MOST_PICKED = 2048 }; /* elements that the lanes pick of a load: they stay in L1 */

/* Lists the loops inside the lanes on which a load depends. Returns false when they are too
 * many. */
static bool find_turns(kas_emitter *e, kas_ex x, kas_picked *p, double *turns)
{
    const uint64_t mask = kas_masks_ex(&e->masks, x) & ~e->open;
    *p = (kas_picked){.load = x};
    *turns = 1;
    for (int i = 0; i < e->masks.vars; i++) {
        if (!(mask >> i & 1))
            continue;
        if (p->vars == (int)(sizeof p->var / sizeof *p->var))
            return false;
        p->var[p->vars++] = e->masks.var[i];
        *turns *= (double)e->ir->var_size[e->masks.var[i]];
    }
    return *turns * (double)e->nest->lanes <= MOST_PICKED;
}

/* Writes how some of the lanes pick. */
static void emit_pick(kas_emitter *e, const kas_picked *p, int first, const kas_pick *pick)
{
    const kas_ex_node *node = kas_ex_get(e->ir, p->load);
    const kas_ix_sum *ix = kas_ix_get(e->ir, node->ix);
    kas_ix_sum base = {.constant = ix->constant + pick->start};
    for (int i = 0; i < ix->terms; i++)
        if (!kas_atom_has_lane(e->ir, kas_atom_get(e->ir, ix->term[i].atom), e->nest->lane))
            base.term[base.terms++] = ix->term[i];
    kas_emit_start(e);
    kas_buf_puts(e->out, kas_emit_is_real(e, node->tensor) ? "KAS_PICK_REAL(" : "KAS_PICK(");
    kas_buf_printf(e->out, "pick%d + %lld * ", p->number, (long long)e->nest->lanes);
    put_turns(e, p->var, p->vars);
    kas_buf_printf(e->out, " + %d, %d, p%d + (", first, pick->window,
                   kas_emit_arg(e, node->tensor));
    kas_emit_put_sum(e, &base);
    kas_buf_puts(e->out, ")");
    for (int l = 0; l < pick->lanes; l++)
        kas_buf_printf(e->out, ", %d", pick->place[l]);
    kas_buf_puts(e->out, ")\n");
}

static uint64_t bit_of(const kas_emitter *e, int var)
{
    return var < 0 ? 0 : UINT64_C(1) << kas_masks_index(&e->masks, var);
}

bool kas_emit_is_picked(const kas_emitter *e, kas_ex x)
{
    for (int i = 0; i < e->picks; i++)
        if (e->pick[i].load == x)
            return true;
    return false;
}

static void emit_load_picks(kas_emitter *e, kas_ex x)
{
    const kas_nest *n = e->nest;
    if (kas_emit_is_picked(e, x) || (kas_masks_ex(&e->masks, x) & e->not_picked))
        return;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    kas_picked p;
    kas_pick pick;
    double turns;
    if (e->picks == (int)(sizeof e->pick / sizeof *e->pick) || !find_turns(e, x, &p, &turns) ||
        (n->inner >= 0 && kas_ix_has_var(e->ir, node->ix, n->inner)) ||
        !kas_nest_picks(e->ir, node, n->lane))
        return;
    p.number = e->pick_names++;
    kas_emit_line(e, "KAS_TILE(pick%d, %.0f, %lld);", p.number, turns, (long long)n->lanes);
    for (int i = 0; i < p.vars; i++) {
        kas_emit_line(e, "KAS_UNROLL");
        kas_emit_open_loop(e, p.var[i]);
    }
    for (int first = 0; first < n->lanes; first += pick.lanes) {
        kas_nest_pick(e->ir, node, n->lane, first, &pick);
        emit_pick(e, &p, first, &pick);
    }
    kas_emit_close_loops(e, p.var, p.vars);
    kas_emit_line(e, "KAS_PICKED(pick%d);", p.number);
    e->pick[e->picks++] = p;
}

static void find_picks(kas_emitter *e, kas_ex x, int turn)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->hoisted[x] == turn || e->name[x] != KAS_NOT_EMITTED)
        return;
    e->hoisted[x] = turn;
    for (int i = 0; i < kas_ex_children(node); i++)
        find_picks(e, node->a[i], turn);
    if (node->kind == KAS_EX_LOAD)
        emit_load_picks(e, x);
}

void kas_emit_picks(kas_emitter *e, kas_ex x)
{
    const kas_nest *n = e->nest;
    if (e->ir->cpu && n->lane >= 0 && n->lanes == e->ir->var_size[n->lane])
        find_picks(e, x, ++e->turns);
}

void kas_emit_row_picks(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    e->not_picked = bit_of(e, n->rows) | bit_of(e, n->column);
    kas_emit_picks(e, n->value);
    e->not_picked = 0;
    e->row_picks = e->picks;
}

void kas_emit_forget_picks(kas_emitter *e)
{
    e->picks = e->row_picks;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool put_picked(kas_emitter *e, kas_ex x)
{
    for (int i = 0; i < e->picks; i++) {
        if (e->pick[i].load != x)
            continue;
        kas_buf_printf(e->out, "KAS_TILED(pick%d, %lld * ", e->pick[i].number,
                       (long long)e->nest->lanes);
        put_turns(e, e->pick[i].var, e->pick[i].vars);
        kas_buf_puts(e->out, e->each ? " + KAS_EACH_LANE(i), " : " + i, ");
        kas_emit_put_load(e, kas_ex_get(e->ir, x));
        kas_buf_puts(e->out, ")");
        return true;
    }
    return false;
}

bool kas_emit_put_tiled(kas_emitter *e, kas_ex x)
{
    const kas_nest *n = e->nest;
    for (int i = 0; i < n->tiles && e->filled; i++) {
        if (n->tile[i].load != x)
            continue;
        kas_buf_printf(e->out, "KAS_TILED(tile%d, %lld * ", i, (long long)n->lanes);
        put_turn(e, &n->tile[i]);
        kas_buf_puts(e->out, " + i, ");
        kas_emit_put_load(e, kas_ex_get(e->ir, x));
        kas_buf_puts(e->out, ")");
        return true;
    }
    return put_picked(e, x);
}
