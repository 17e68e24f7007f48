/* Sizes of dimensions as monomials.
 *
 * In the paper (Canvas, 6.2) every dimension has the form numerator/denominator, for example C/G or
 * C*K_H. Here a size is
 *
 *     (num/den) * C^a * H^b * W^c * K_H^d * K_W^e * R0^f ... * G0^g ... * x0^i * x1^j ...
 *
 * with small integer exponents and num/den reduced. The form is unique, so symbolic
 * equality is equality of the fields. A kas_binding gives the symbols their numbers at one
 * target (target.h, solve/solve.h). */
#ifndef KAS_SPACE_DIM_H
#define KAS_SPACE_DIM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "host/core/buf.h"

enum {
    KAS_MAX_SPLITS = 4, /* splits S0..S3 of a kernel, and their rests R0..R3 (split.h) */
    KAS_MAX_GROUPS = 4, /* group symbols G0..G3; one value for the whole network (paper 6.3) */
    KAS_MAX_VARS = 16, /* dynamic variables x0..x15; each FC, CONV or MIX node brings at most one */
    KAS_MAX_EXPONENT = 31
};

typedef enum kas_symbol {
    KAS_SYM_C, /* channels of the template [C, H, W] */
    KAS_SYM_H,
    KAS_SYM_W,
    KAS_SYM_KH, /* height and width of the window of the replaced convolution */
    KAS_SYM_KW,
    KAS_SYM_R0, /* the rest of split S0: what follows its first elements */
    KAS_SYM_G0 = KAS_SYM_R0 + KAS_MAX_SPLITS,
    KAS_SYM_X0 = KAS_SYM_G0 + KAS_MAX_GROUPS,
    KAS_SYM_COUNT = KAS_SYM_X0 + KAS_MAX_VARS
} kas_symbol;

/* Room for the exponents: a power of two, so that loops over them use whole vectors. Entries beyond
 * the last symbol stay 0. */
enum { KAS_DIM_EXPONENTS = 32 };
_Static_assert((int)KAS_SYM_COUNT <= (int)KAS_DIM_EXPONENTS, "a symbol without an exponent");

typedef struct kas_dim {
    uint32_t num, den; /* reduced, both >= 1 */
    int8_t exp[KAS_DIM_EXPONENTS];
} kas_dim;

/* The number of every symbol at one target; 0 means that the symbol has none. */
typedef struct kas_binding {
    uint32_t value[KAS_SYM_COUNT];
} kas_binding;

/* Returns the constant n, or a single symbol, as a size. */
static inline kas_dim kas_dim_const(uint32_t n)
{
    return (kas_dim){.num = n, .den = 1};
}
static inline kas_dim kas_dim_symbol(kas_symbol symbol)
{
    kas_dim dim = kas_dim_const(1);
    dim.exp[symbol] = 1;
    return dim;
}

/* Returns the symbol's name: "C", "K_H", "G0", "x3", ...; NULL when it is out of range. */
const char *kas_symbol_name(kas_symbol symbol);
/* Returns the symbol that has this name, or -1. */
int kas_symbol_find(const char *name);

/* Multiplies or divides two sizes. Returns false when a constant or an exponent leaves its range;
 * *out is then unspecified. */
bool kas_dim_mul(const kas_dim *a, const kas_dim *b, kas_dim *out);
bool kas_dim_div(const kas_dim *a, const kas_dim *b, kas_dim *out);
/* Multiplies *out by a[0] * ... * a[count - 1]. Returns false as kas_dim_mul does. */
bool kas_dim_mul_all(const kas_dim *a, int count, kas_dim *out);
static inline bool kas_dim_equal(const kas_dim *a, const kas_dim *b)
{
    uint64_t x[sizeof *a / sizeof(uint64_t)], y[sizeof *a / sizeof(uint64_t)], differ = 0;
    _Static_assert(sizeof x == sizeof *a, "a size is whole words");
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (size_t w = 0; w < sizeof x / sizeof *x; w++)
        differ |= x[w] ^ y[w];
    return differ == 0;
}
bool kas_dim_is_one(const kas_dim *a);

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first exponent is the lowest byte");

/* Returns the first symbol >= s whose exponent is not 0, or KAS_DIM_EXPONENTS. It looks at eight
 * exponents at a time, because most are 0. */
static inline int kas_dim_next_symbol(const kas_dim *a, int s)
{
    uint64_t eight;
    for (; s < KAS_DIM_EXPONENTS; s = (s | 7) + 1) {
        memcpy(&eight, &a->exp[s & ~7], sizeof eight);
        eight >>= 8 * (s & 7);
        if (eight)
            return s + __builtin_ctzll(eight) / 8;
    }
    return s;
}

/* Returns the index 0..15 of the size's dynamic variable, or -1. By Theorem 1 there is at most one,
 * with exponent 1. */
static inline int kas_dim_var(const kas_dim *a)
{
    const int s = kas_dim_next_symbol(a, KAS_SYM_X0);
    return s < KAS_SYM_COUNT ? s - KAS_SYM_X0 : -1;
}
/* Replaces variable `var` by `value` (6.2: "propagate to the whole micro-DAG"). Returns false as
 * kas_dim_mul does. */
bool kas_dim_substitute(const kas_dim *a, int var, const kas_dim *value, kas_dim *out);

/* Evaluates the size under a binding. Returns false when a symbol has no value, the result is no
 * integer, or it exceeds 2^40. */
bool kas_dim_eval(const kas_dim *a, const kas_binding *binding, uint64_t *out);

/* Evaluates the size as a reduced fraction p/q, for sizes that need not be integers. Returns false
 * when a symbol has no value or p or q exceeds 2^40. */
bool kas_dim_fraction(const kas_dim *a, const kas_binding *binding, uint64_t *p, uint64_t *q);

/* Returns the size as a number, integer or not, however large. Symbols without a value count as 0.
 * The result is exact where numerator and denominator are below 2^53. */
double kas_dim_number(const kas_dim *a, const kas_binding *binding);

/* Returns whether the size is an integer whatever the symbols are: its denominator is 1. */
bool kas_dim_is_whole(const kas_dim *a);

/* Returns whether the size is an integer at every target, given that group numbers divide C: then
 * each C in the numerator cancels one group symbol in the denominator, and nothing else may stand
 * there. Variables are not looked at. */
bool kas_dim_is_whole_by_default(const kas_dim *a);

/* Appends the size as text: "C/G0", "K_H*x1", "C^2/G0/K_H", "3/2*C", "1". The text is canonical:
 * symbols in the order of kas_symbol, the numerator first, then the denominator. */
void kas_dim_print(const kas_dim *a, kas_buf *out);
/* Reads what kas_dim_print writes; factors may stand in any order. Returns false on anything
 * else. */
bool kas_dim_parse(const char *text, kas_dim *out);

#endif
