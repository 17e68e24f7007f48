/* Dependence of expressions on variables, as bit masks. */
#include <stdlib.h>
#include <string.h>

#include "jit/fuse/fuse.h"

/* Returns the mask of a variable; 0 where it is none of the set. */
static uint64_t bit_of(const kas_masks *m, int var)
{
    const int at = kas_masks_index(m, var);
    return at < 0 ? 0 : UINT64_C(1) << at;
}

/* Adds the variables of the reductions in e. */
static bool collect(kas_masks *m, kas_ex e)
{
    if (m->known[e])
        return true;
    m->known[e] = 1;
    const kas_ex_node *node = kas_ex_get(m->ir, e);
    for (int i = 0; i < kas_ex_children(node); i++)
        if (!collect(m, node->a[i]))
            return false;
    if (node->kind != KAS_EX_REDUCE || kas_masks_index(m, node->var) >= 0)
        return true;
    if (m->vars == 64)
        return false;
    m->var[m->vars++] = node->var;
    return true;
}

kas_status kas_masks_init(kas_masks *m, const kas_ir *ir, kas_ex root, int outer, const int *var)
{
    const size_t count = (size_t)ir->exprs.count;
    *m = (kas_masks){.ir = ir};
    m->mask = malloc(sizeof *m->mask * count);
    m->known = calloc(count, 1);
    if (!m->mask || !m->known) {
        kas_masks_free(m);
        return kas_ir_no_memory();
    }
    for (int i = 0; i < outer; i++)
        if (var[i] >= 0)
            m->var[m->vars++] = var[i];
    if (!collect(m, root)) {
        kas_masks_free(m);
        return kas_fail(KAS_UNSUPPORTED, "a fused kernel has more than 64 loops");
    }
    memset(m->known, 0, count);
    return KAS_OK;
}

void kas_masks_free(kas_masks *m)
{
    free(m->mask);
    free(m->known);
    m->mask = NULL;
    m->known = NULL;
}

int kas_masks_index(const kas_masks *m, int var)
{
    for (int i = 0; i < m->vars; i++)
        if (m->var[i] == var)
            return i;
    return -1;
}

double kas_masks_turns(const kas_masks *m, uint64_t mask)
{
    double turns = 1;
    for (int i = 0; i < m->vars; i++)
        if (mask >> i & 1)
            turns *= (double)m->ir->var_size[m->var[i]];
    return turns;
}

uint64_t kas_masks_ix(const kas_masks *m, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(m->ir, ix);
    uint64_t mask = 0;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(m->ir, s->term[i].atom);
        mask |= atom->kind == KAS_ATOM_VAR ? bit_of(m, atom->of) : kas_masks_ix(m, atom->of);
    }
    return mask;
}

uint64_t kas_masks_ex(kas_masks *m, kas_ex e)
{
    if (m->known[e])
        return m->mask[e];
    const kas_ex_node *node = kas_ex_get(m->ir, e);
    uint64_t mask = 0;
    for (int i = 0; i < kas_ex_children(node); i++)
        mask |= kas_masks_ex(m, node->a[i]);
    for (int d = 0; d < node->rank; d++)
        mask |= kas_masks_ix(m, node->idx[d]);
    if (node->kind == KAS_EX_LOAD || node->kind == KAS_EX_INDEX || node->kind == KAS_EX_GUARD)
        mask |= kas_masks_ix(m, node->ix);
    if (node->kind == KAS_EX_REDUCE || node->kind == KAS_EX_ROW)
        mask &= ~bit_of(m, node->var);
    m->mask[e] = mask;
    m->known[e] = 1;
    return mask;
}
