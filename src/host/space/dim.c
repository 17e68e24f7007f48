#include "host/space/dim.h"
#include "host/core/gcd.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SIZE ((uint64_t)1 << 40)

static const char *const symbol_names[KAS_SYM_COUNT] = {
    "C",  "H",  "W",  "K_H", "K_W", "R0", "R1", "R2", "R3",  "G0",  "G1",  "G2",  "G3",  "x0", "x1",
    "x2", "x3", "x4", "x5",  "x6",  "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"};

const char *kas_symbol_name(kas_symbol symbol)
{
    return (unsigned)symbol < KAS_SYM_COUNT ? symbol_names[symbol] : NULL;
}

int kas_symbol_find(const char *name)
{
    for (int i = 0; i < KAS_SYM_COUNT; i++)
        if (strcmp(symbol_names[i], name) == 0)
            return i;
    return -1;
}

/* Computes num/den of a product. */
static bool combine_constants(const kas_dim *a, uint64_t b_num, uint64_t b_den, kas_dim *out)
{
    uint64_t left = kas_gcd(a->num, b_den), right = kas_gcd(b_num, a->den);
    uint64_t num = (a->num / left) * (b_num / right);
    uint64_t den = (a->den / right) * (b_den / left);
    if (num > UINT32_MAX || den > UINT32_MAX)
        return false;
    out->num = (uint32_t)num;
    out->den = (uint32_t)den;
    return true;
}

/* The exponents of a size, as vectors: a fifth of the time of sampling was spent on their sums when
 * the compiler chose the instructions. */
typedef int8_t some_exponents __attribute__((vector_size(16)));
enum { VECTORS = KAS_DIM_EXPONENTS / (int)sizeof(some_exponents) };
typedef struct exponents {
    some_exponents at[VECTORS];
} exponents;

static inline exponents exponents_of(const kas_dim *a)
{
    exponents e;
    memcpy(&e, a->exp, sizeof e);
    return e;
}

/* Adds b's exponents to x, or subtracts them, and marks in `beyond` which leave their range. The
 * operands' exponents are in range, so no sum leaves its 8 bits. */
static inline void add_exponents(exponents *x, const kas_dim *b, int sign, exponents *beyond)
{
    const exponents y = exponents_of(b);
    for (int i = 0; i < VECTORS; i++) {
        x->at[i] = sign > 0 ? x->at[i] + y.at[i] : x->at[i] - y.at[i];
        beyond->at[i] |= (x->at[i] > KAS_MAX_EXPONENT) | (x->at[i] < -KAS_MAX_EXPONENT);
    }
}

static inline bool is_any(const exponents *marked)
{
    uint64_t word[sizeof *marked / sizeof(uint64_t)], any = 0;
    memcpy(word, marked, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        any |= word[i];
    return any != 0;
}

/* `out` may be `a` or `b`. */
static inline bool combine_exponents(const kas_dim *a, const kas_dim *b, int sign, kas_dim *out)
{
    exponents sum = exponents_of(a), beyond = {0};
    add_exponents(&sum, b, sign, &beyond);
    memcpy(out->exp, &sum, sizeof sum);
    return !is_any(&beyond);
}

bool kas_dim_mul(const kas_dim *a, const kas_dim *b, kas_dim *out)
{
    const uint32_t num = a->num, den = a->den;
    if (b->num == 1 && b->den == 1)
        out->num = num, out->den = den;
    else if (!combine_constants(a, b->num, b->den, out))
        return false;
    return combine_exponents(a, b, 1, out);
}

bool kas_dim_mul_all(const kas_dim *a, int count, kas_dim *out)
{
    exponents sum = exponents_of(out), beyond = {0};
    for (int i = 0; i < count; i++) {
        if ((a[i].num != 1 || a[i].den != 1) && !combine_constants(out, a[i].num, a[i].den, out))
            return false;
        add_exponents(&sum, &a[i], 1, &beyond);
    }
    memcpy(out->exp, &sum, sizeof sum);
    return !is_any(&beyond);
}

bool kas_dim_div(const kas_dim *a, const kas_dim *b, kas_dim *out)
{
    const uint32_t num = a->num, den = a->den;
    if (b->num == 1 && b->den == 1)
        out->num = num, out->den = den;
    else if (!combine_constants(a, b->den, b->num, out))
        return false;
    return combine_exponents(a, b, -1, out);
}

bool kas_dim_is_one(const kas_dim *a)
{
    uint64_t words[KAS_DIM_EXPONENTS / 8], any = 0;
    memcpy(words, a->exp, sizeof words);
    for (int w = 0; w < KAS_DIM_EXPONENTS / 8; w++)
        any |= words[w];
    return a->num == 1 && a->den == 1 && !any;
}

bool kas_dim_substitute(const kas_dim *a, int var, const kas_dim *value, kas_dim *out)
{
    kas_dim result = *a;
    int e = result.exp[KAS_SYM_X0 + var];
    result.exp[KAS_SYM_X0 + var] = 0;
    for (; e > 0; e--)
        if (!kas_dim_mul(&result, value, &result))
            return false;
    for (; e < 0; e++)
        if (!kas_dim_div(&result, value, &result))
            return false;
    *out = result;
    return true;
}

/* The factors of numerator and denominator, as numbers. */
typedef struct factors {
    int above_count, below_count;
    uint64_t above[1 + KAS_SYM_COUNT * KAS_MAX_EXPONENT];
    uint64_t below[1 + KAS_SYM_COUNT * KAS_MAX_EXPONENT];
} factors;

static bool collect(const kas_dim *a, const kas_binding *binding, factors *f)
{
    f->above_count = f->below_count = 1;
    f->above[0] = a->num;
    f->below[0] = a->den;
    for (int s = 0; s < KAS_SYM_COUNT; s++) {
        int e = a->exp[s];
        if (e != 0 && binding->value[s] == 0)
            return false;
        for (; e > 0; e--)
            f->above[f->above_count++] = binding->value[s];
        for (; e < 0; e++)
            f->below[f->below_count++] = binding->value[s];
    }
    return true;
}

static bool product(const uint64_t *factor, int count, uint64_t *out)
{
    uint64_t result = 1;
    for (int i = 0; i < count; i++) {
        if (factor[i] > MAX_SIZE / result)
            return false;
        result *= factor[i];
    }
    *out = result;
    return true;
}

/* Computes a reduced fraction. Each pair of factors is divided by its greatest common divisor
 * before anything is multiplied: afterwards no factor of the denominator shares a divisor with one
 * of the numerator, so the fraction is reduced and nothing overflowed on the way. */
static bool careful_fraction(const kas_dim *a, const kas_binding *binding, uint64_t *p, uint64_t *q)
{
    factors f;
    if (!collect(a, binding, &f))
        return false;
    for (int d = 0; d < f.below_count; d++)
        for (int n = 0; n < f.above_count && f.below[d] != 1; n++) {
            uint64_t common = kas_gcd(f.above[n], f.below[d]);
            f.above[n] /= common;
            f.below[d] /= common;
        }
    return product(f.above, f.above_count, p) && product(f.below, f.below_count, q);
}

/* Computes numerator and denominator, not reduced. Returns false when one leaves 64 bits or a
 * symbol has no value. */
static bool multiply_out(const kas_dim *a, const kas_binding *binding, uint64_t *above,
                         uint64_t *below)
{
    *above = a->num;
    *below = a->den;
    for (int s = kas_dim_next_symbol(a, 0); s < KAS_DIM_EXPONENTS;
         s = kas_dim_next_symbol(a, s + 1)) {
        uint64_t *side = a->exp[s] > 0 ? above : below;
        for (int e = abs(a->exp[s]); e > 0; e--)
            if (binding->value[s] == 0 ||
                __builtin_mul_overflow(*side, (uint64_t)binding->value[s], side))
                return false;
    }
    return true;
}

double kas_dim_number(const kas_dim *a, const kas_binding *binding)
{
    double above = a->num, below = a->den;
    for (int s = kas_dim_next_symbol(a, 0); s < KAS_DIM_EXPONENTS;
         s = kas_dim_next_symbol(a, s + 1)) {
        double *side = a->exp[s] > 0 ? &above : &below;
        for (int e = abs(a->exp[s]); e > 0; e--)
            *side *= binding->value[s];
    }
    return above / below;
}

/* Returns whether no exponent is negative. */
static bool nothing_is_below(const kas_dim *a)
{
    const uint64_t signs = 0x8080808080808080; /* the signs of eight exponents */
    uint64_t words[KAS_DIM_EXPONENTS / 8], any = 0;
    memcpy(words, a->exp, sizeof words);
    for (int w = 0; w < KAS_DIM_EXPONENTS / 8; w++)
        any |= words[w];
    return !(any & signs);
}

bool kas_dim_is_whole(const kas_dim *a)
{
    return a->den == 1 && nothing_is_below(a);
}

bool kas_dim_is_whole_by_default(const kas_dim *a)
{
    int below = 0;
    if (a->den != 1)
        return false;
    if (nothing_is_below(a))
        return true;
    for (int s = KAS_SYM_C; s < KAS_SYM_G0; s++)
        if (a->exp[s] < 0)
            return false;
    for (int s = KAS_SYM_G0; s < KAS_SYM_X0; s++)
        below += a->exp[s] < 0 ? -a->exp[s] : 0;
    return below <= a->exp[KAS_SYM_C];
}

bool kas_dim_fraction(const kas_dim *a, const kas_binding *binding, uint64_t *p, uint64_t *q)
{
    uint64_t above, below;
    if (!multiply_out(a, binding, &above, &below))
        return careful_fraction(a, binding, p, q);
    uint64_t common = below == 1 ? 1 : kas_gcd(above, below);
    *p = above / common;
    *q = below / common;
    return *p <= MAX_SIZE && *q <= MAX_SIZE;
}

bool kas_dim_eval(const kas_dim *a, const kas_binding *binding, uint64_t *out)
{
    uint64_t above, below;
    if (!multiply_out(a, binding, &above, &below))
        return careful_fraction(a, binding, out, &below) && below == 1;
    *out = below == 1 ? above : above / below;
    return *out <= MAX_SIZE && (below == 1 || above % below == 0);
}

static void print_symbol(int symbol, int exponent, kas_buf *out)
{
    kas_buf_puts(out, symbol_names[symbol]);
    if (exponent > 1)
        kas_buf_printf(out, "^%d", exponent);
}

void kas_dim_print(const kas_dim *a, kas_buf *out)
{
    bool first = a->num == 1 && a->den == 1;
    if (!first)
        kas_buf_printf(out, "%u", a->num);
    if (a->den != 1)
        kas_buf_printf(out, "/%u", a->den);
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (a->exp[s] > 0) {
            kas_buf_puts(out, first ? "" : "*");
            print_symbol(s, a->exp[s], out);
            first = false;
        }
    if (first)
        kas_buf_puts(out, "1");
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (a->exp[s] < 0) {
            kas_buf_puts(out, "/");
            print_symbol(s, -a->exp[s], out);
        }
}

/* Reads a number in [1, limit] without sign, blanks or leading zeros. */
static bool parse_number(const char **text, uint32_t limit, uint32_t *out)
{
    const char *t = *text;
    uint64_t value = 0;
    if (*t < '1' || *t > '9')
        return false;
    for (; *t >= '0' && *t <= '9'; t++) {
        value = value * 10 + (uint64_t)(*t - '0');
        if (value > limit)
            return false;
    }
    *text = t;
    *out = (uint32_t)value;
    return true;
}

/* Reads the longest name with which the text begins: "x1" must not win over "x12". */
static int parse_symbol(const char **text)
{
    int best = -1;
    size_t best_length = 0;
    for (int s = 0; s < KAS_SYM_COUNT; s++) {
        size_t length = strlen(symbol_names[s]);
        if (length > best_length && strncmp(*text, symbol_names[s], length) == 0) {
            best = s;
            best_length = length;
        }
    }
    *text += best_length;
    return best;
}

static bool parse_factor(const char **text, kas_dim *out)
{
    uint32_t number, exponent = 1;
    if (parse_number(text, UINT32_MAX, &number)) {
        *out = kas_dim_const(number);
        return true;
    }
    int symbol = parse_symbol(text);
    if (symbol < 0)
        return false;
    if (**text == '^') {
        ++*text;
        if (!parse_number(text, KAS_MAX_EXPONENT, &exponent))
            return false;
    }
    *out = kas_dim_const(1);
    out->exp[symbol] = (int8_t)exponent;
    return true;
}

bool kas_dim_parse(const char *text, kas_dim *out)
{
    kas_dim result, factor;
    if (!parse_factor(&text, &result))
        return false;
    while (*text) {
        char sign = *text++;
        if ((sign != '*' && sign != '/') || !parse_factor(&text, &factor))
            return false;
        if (!(sign == '*' ? kas_dim_mul : kas_dim_div)(&result, &factor, &result))
            return false;
    }
    *out = result;
    return true;
}
