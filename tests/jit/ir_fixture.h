/* An IR for each test of a program, and what an index is for given variables. */
#ifndef KAS_TESTS_JIT_IR_FIXTURE_H
#define KAS_TESTS_JIT_IR_FIXTURE_H

#include "jit/ir/ir.h"

static kas_ir ir;

static inline int make_ir(void **state)
{
    (void)state;
    return kas_ir_init(&ir) == KAS_OK ? 0 : 1;
}

static inline int free_ir(void **state)
{
    (void)state;
    kas_ir_free(&ir);
    return 0;
}

static inline int64_t ix_value(kas_ix x, const int64_t *var)
{
    const kas_ix_sum *s = kas_ix_get(&ir, x);
    int64_t total = s->constant;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(&ir, s->term[i].atom);
        int64_t v = atom->kind == KAS_ATOM_VAR ? var[atom->of] : ix_value(atom->of, var);
        if (atom->kind == KAS_ATOM_DIV)
            v /= atom->a;
        else if (atom->kind == KAS_ATOM_MOD)
            v %= atom->a;
        else if (atom->kind == KAS_ATOM_CLAMP)
            v = v < atom->a ? atom->a : v > atom->b ? atom->b : v;
        total += s->term[i].coeff * v;
    }
    return total;
}

#endif
