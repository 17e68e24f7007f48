/* The solver by shape matching, paper 6.2. */
#include "host/space/solve/solve.h"

typedef struct factoring {
    const kas_dim *whole; /* M * x_LHS */
    kas_dim *out;
    int count;
    int low[KAS_SYM_COUNT], high[KAS_SYM_COUNT]; /* exponents to try */
} factoring;

static void try_factor(factoring *f, const kas_dim *factor)
{
    kas_dim rest;
    if (f->count < KAS_MAX_SUBSTITUTIONS && kas_dim_div(f->whole, factor, &rest) &&
        kas_dim_is_whole_by_default(factor) && kas_dim_is_whole_by_default(&rest))
        f->out[f->count++] = *factor;
}

/* Lists factors with every exponent of every symbol from `symbol` on. The order is that of
 * counting, so the list is the same everywhere. */
static void enumerate(factoring *f, int symbol, kas_dim *factor)
{
    while (symbol < KAS_SYM_COUNT && f->low[symbol] == 0 && f->high[symbol] == 0)
        symbol++;
    if (symbol == KAS_SYM_COUNT) {
        try_factor(f, factor);
        return;
    }
    for (int e = f->low[symbol]; e <= f->high[symbol]; e++) {
        factor->exp[symbol] = (int8_t)e;
        enumerate(f, symbol + 1, factor);
    }
    factor->exp[symbol] = 0;
}

/* Sets the exponents to try. C may be divided by G0, which every sampled kernel has, and by any
 * symbol that occurs. */
static void set_ranges(factoring *f)
{
    const kas_dim *m = f->whole;
    int c = m->exp[KAS_SYM_C];
    for (int s = 0; s < KAS_SYM_COUNT; s++) {
        bool group = s >= KAS_SYM_G0 && s < KAS_SYM_X0;
        f->low[s] = group && (s == KAS_SYM_G0 || m->exp[s]) ? -c : 0;
        f->high[s] = group ? m->exp[s] - f->low[s] : m->exp[s];
    }
}

static void all_factors(factoring *f)
{
    const uint32_t largest = 1u << 16; /* the largest constant that is factored */
    set_ranges(f);
    for (uint32_t n = 1; n <= f->whole->num && n <= largest; n++)
        if (f->whole->num % n == 0) {
            kas_dim factor = kas_dim_const(n);
            enumerate(f, 0, &factor);
        }
}

kas_status kas_match_variable(const kas_broadcast *parts, int *var, kas_dim *whole)
{
    const int x = kas_dim_var(&parts->lhs);
    kas_dim lhs = parts->lhs;
    *var = -1;
    if (x < 0 || parts->rhs.exp[KAS_SYM_X0 + x] > 0)
        return KAS_OK; /* nothing to choose, or the variable cancels */
    lhs.exp[KAS_SYM_X0 + x] = 0;
    if (!kas_dim_div(&parts->rhs, &lhs, whole))
        return kas_fail(KAS_ILLEGAL, "broadcast: a ratio of sizes leaves its range");
    if (!kas_dim_is_whole_by_default(whole) && kas_dim_var(whole) < 0)
        return kas_fail(KAS_ILLEGAL, "broadcast: x%d has no value that makes LHS tile RHS", x);
    *var = x;
    return KAS_OK;
}

kas_status kas_match_substitutions(const kas_shape *lhs, const kas_shape *rhs,
                                   kas_dim out[KAS_MAX_SUBSTITUTIONS], int *count, int *var)
{
    kas_broadcast parts;
    kas_dim whole;
    *count = 0;
    *var = -1;
    KAS_TRY(kas_broadcast_align(lhs, rhs, &parts));
    KAS_TRY(kas_match_variable(&parts, var, &whole));
    if (*var < 0)
        return KAS_OK;
    factoring f = {.whole = &whole, .out = out};
    if (kas_dim_is_whole_by_default(&whole)) {
        all_factors(&f); /* 1 is always one */
    } else {
        out[f.count++] = kas_dim_const(1);
        out[f.count++] = whole;
    }
    *count = f.count;
    return KAS_OK;
}
