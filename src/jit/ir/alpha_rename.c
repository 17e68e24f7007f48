/* Names of bound variables.
 *
 * A definition that is substituted twice gets new variables for its reductions each time, so that
 * none stands for two loops at once.  Where the two turn out to be at the same place, they are the
 * same value under two names, and a kernel would compute it twice:
 *
 *     max(c) sum(a) x[c + a]   and   exp(sum(b) x[c + b] - ..)
 *
 * So every reduction takes the first name of its size that stands nowhere inside it: a function of
 * what is summed up alone. */
#include <stdlib.h>
#include <string.h>

#include "jit/ir/ir.h"

typedef struct renamer {
    kas_ir *ir;
    kas_alpha_names *names;
    int *memo; /* by kas_ex: result + 1; operands come before their users */
} renamer;

typedef struct used {
    const kas_ir *ir;
    const kas_alpha_names *names;
    uint64_t mask; /* names that stand anywhere, as bits */
} used;

static void see_used(void *context, kas_ex e, const kas_ex_node *node)
{
    used *u = context;
    const bool indexed =
        node->kind == KAS_EX_LOAD || node->kind == KAS_EX_INDEX || node->kind == KAS_EX_GUARD;
    (void)e;
    for (int i = 0; i < u->names->count; i++) {
        const int var = u->names->var[i];
        if ((node->kind == KAS_EX_REDUCE && node->var == var) ||
            (indexed && kas_ix_has_var(u->ir, node->ix, var)))
            u->mask |= UINT64_C(1) << i;
    }
}

/* Returns the first name of this size that `body` does not use; `var` itself when there is
 * no more room. */
static int name_for(renamer *r, kas_ex body, int var)
{
    kas_ir *ir = r->ir;
    kas_alpha_names *names = r->names;
    used u = {ir, names, 0};
    const kas_status status = kas_ex_visit(ir, body, see_used, &u);
    if (status != KAS_OK)
        kas_ir_fail(ir, status);
    for (int i = 0; i < names->count; i++)
        if (!(u.mask >> i & 1) && ir->var_size[names->var[i]] == ir->var_size[var])
            return names->var[i];
    if (names->count == KAS_ALPHA_NAMES)
        return var;
    return names->var[names->count++] = kas_ir_var(ir, ir->var_size[var]);
}

static kas_ex rename_bound(renamer *r, kas_ex e);

static kas_ex rename_node(renamer *r, kas_ex e)
{
    kas_ir *ir = r->ir;
    const kas_ex_node *node = kas_ex_get(ir, e);
    kas_ex a[4];
    if (kas_ex_children(node) == 0)
        return e;
    for (int i = 0; i < kas_ex_children(node); i++)
        a[i] = rename_bound(r, node->a[i]);
    if (node->kind != KAS_EX_REDUCE)
        return kas_ex_with(ir, node, a);
    const int var = name_for(r, a[0], node->var);
    kas_subst s = {0};
    kas_subst_add(ir, &s, node->var, kas_ix_var(ir, var));
    return kas_ex_reduce(ir, (kas_fn)node->fn, var, kas_ex_map(ir, a[0], &s, false));
}

static kas_ex rename_bound(renamer *r, kas_ex e)
{
    if (!r->memo[e])
        r->memo[e] = rename_node(r, e) + 1;
    return r->memo[e] - 1;
}

kas_ex kas_ex_alpha_rename(kas_ir *ir, kas_alpha_names *names, kas_ex e)
{
    renamer r = {.ir = ir, .names = names};
    r.memo = calloc((size_t)e + 1, sizeof *r.memo);
    if (!r.memo) {
        kas_ir_fail(ir, kas_ir_no_memory());
        return 0;
    }
    const kas_ex result = rename_bound(&r, e);
    free(r.memo);
    return result;
}
