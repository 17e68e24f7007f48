#include "host/net/expression.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "host/core/buf.h"

enum { MAX_BYTES = 256, MAX_DEPTH = 16 };
#define MAX_VALUE ((int64_t)1 << 31)

typedef struct parser {
    const char *text, *at;
    const kas_names *names;
    int depth;
    bool dead; /* in the branch that a choice does not take: nothing is computed */
    kas_status status;
} parser;

/* ---- names ----------------------------------------------------------------------------------- */

static size_t word_length(const char *text)
{
    size_t n = 0;
    if (isalpha((unsigned char)text[0]) || text[0] == '_')
        while (isalnum((unsigned char)text[n]) || text[n] == '_')
            n++;
    return n;
}

static bool is_reserved(const char *name)
{
    static const char *const words[] = {"and", "or", "not", "min", "max"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0)
            return true;
    return false;
}

kas_status kas_names_set(kas_names *names, const char *name, int64_t value)
{
    size_t length = word_length(name);
    if (!length || name[length] || length >= KAS_NAME_BYTES || is_reserved(name))
        return kas_fail(KAS_BAD_INPUT,
                        "\"%.64s\": expected a name: a letter, then letters, digits and "
                        "underscores, at most %d, and not and, or, not, min, max",
                        name, KAS_NAME_BYTES - 1);
    int i = 0;
    while (i < names->count && strcmp(names->entry[i].name, name) != 0)
        i++;
    if (i == KAS_NAMES)
        return kas_fail(KAS_BAD_INPUT, "\"%s\": more than %d names", name, KAS_NAMES);
    names->count += i == names->count;
    memcpy(names->entry[i].name, name, length + 1);
    names->entry[i].value = value;
    return KAS_OK;
}

const int64_t *kas_names_get(const kas_names *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->entry[i].name, name) == 0)
            return &names->entry[i].value;
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static int64_t choice(parser *p);

/* Records a failure; only the first one counts. */
static int64_t fail(parser *p, const char *what)
{
    if (p->status == KAS_OK)
        p->status = kas_fail(KAS_BAD_INPUT, "expression \"%.*s\", byte %d: %s", MAX_BYTES, p->text,
                             (int)(p->at - p->text) + 1, what);
    return 0;
}

static void skip_space(parser *p)
{
    while (*p->at == ' ')
        p->at++;
}

/* Consumes `token` if it comes next. A word must end where the token ends. */
static bool take(parser *p, const char *token)
{
    skip_space(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0)
        return false;
    if (isalpha((unsigned char)*token) && word_length(p->at) != length)
        return false;
    p->at += length;
    return true;
}

static int64_t in_range(parser *p, int64_t value)
{
    if (p->dead)
        return 0;
    return value > MAX_VALUE || value < -MAX_VALUE ? fail(p, "a number beyond 2^31") : value;
}

static int64_t number(parser *p)
{
    int64_t value = 0;
    while (isdigit((unsigned char)*p->at) && value <= MAX_VALUE)
        value = 10 * value + (*p->at++ - '0');
    if (isdigit((unsigned char)*p->at) || *p->at == '.' || isalpha((unsigned char)*p->at))
        return fail(p, "expected a whole number of at most 2^31");
    return value > MAX_VALUE ? fail(p, "a number beyond 2^31") : value;
}

static int64_t unknown(parser *p, const char *name)
{
    kas_buf list = {0};
    kas_buf_printf(&list, "unknown name \"%s\"; known are:", name);
    for (int i = 0; i < p->names->count; i++)
        kas_buf_printf(&list, " %s", p->names->entry[i].name);
    fail(p, kas_buf_text(&list));
    kas_buf_free(&list);
    return 0;
}

static int64_t named(parser *p)
{
    char name[KAS_NAME_BYTES] = "";
    size_t length = word_length(p->at);
    snprintf(name, sizeof name, "%.*s", (int)length, p->at);
    const int64_t *value = kas_names_get(p->names, name);
    if (!value || length >= sizeof name)
        return unknown(p, name);
    p->at += length;
    return *value;
}

static int64_t smaller_or_larger(parser *p, bool larger)
{
    int64_t a, b;
    if (!take(p, "("))
        return fail(p, "expected (a, b)");
    a = choice(p);
    if (!take(p, ","))
        return fail(p, "expected a comma and a second value");
    b = choice(p);
    if (!take(p, ")"))
        return fail(p, "expected )");
    return (a > b) == larger ? a : b;
}

static int64_t value(parser *p)
{
    int64_t inner;
    if (p->status != KAS_OK)
        return 0;
    if (take(p, "(")) {
        inner = choice(p);
        return take(p, ")") ? inner : fail(p, "expected )");
    }
    if (take(p, "min"))
        return smaller_or_larger(p, false);
    if (take(p, "max"))
        return smaller_or_larger(p, true);
    skip_space(p);
    if (isdigit((unsigned char)*p->at))
        return number(p);
    if (word_length(p->at))
        return named(p);
    return fail(p, "expected a number, a name or (");
}

static int64_t signed_value(parser *p)
{
    bool minus = false, inverted = false, logical = false;
    for (;;)
        if (take(p, "-")) {
            minus = !minus;
        } else if (take(p, "not")) {
            inverted = !inverted;
            logical = true;
        } else {
            break;
        }
    int64_t v = value(p);
    v = minus ? -v : v;
    return logical ? (v != 0) != inverted : v;
}

/* ---- operators ------------------------------------------------------------------------------- */

typedef enum operation {
    OR,
    AND,
    EQ,
    NE,
    LE,
    GE,
    LT,
    GT,
    ADD,
    SUB,
    FLOOR,
    DIV,
    MUL,
    MOD
} operation;

/* A token stands before its own prefixes. */
static const struct {
    const char *token;
    int level;
} operators[] = {
    [OR] = {"or", 1}, [AND] = {"and", 2}, [EQ] = {"==", 3}, [NE] = {"!=", 3},    [LE] = {"<=", 3},
    [GE] = {">=", 3}, [LT] = {"<", 3},    [GT] = {">", 3},  [ADD] = {"+", 4},    [SUB] = {"-", 4},
    [MUL] = {"*", 5}, [MOD] = {"%", 5},   [DIV] = {"/", 5}, [FLOOR] = {"//", 5},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static int64_t divide(parser *p, operation op, int64_t a, int64_t b)
{
    if (p->dead)
        return 0;
    if (b <= 0)
        return fail(p, "the divisor is below 1");
    int64_t rest = (a % b + b) % b; /* of a division that rounds down */
    if (op == DIV && rest != 0)
        return fail(p, "\"/\" leaves a rest; \"//\" rounds down");
    return op == MOD ? rest : (a - rest) / b;
}

static int64_t apply(parser *p, operation op, int64_t a, int64_t b)
{
    switch (op) {
    case OR:
        return a || b;
    case AND:
        return a && b;
    case EQ:
        return a == b;
    case NE:
        return a != b;
    case LE:
        return a <= b;
    case GE:
        return a >= b;
    case LT:
        return a < b;
    case GT:
        return a > b;
    case ADD:
        return in_range(p, a + b);
    case SUB:
        return in_range(p, a - b);
    case MUL: /* both within 2^31: the product fits */
        return in_range(p, a * b);
    case DIV:
    case FLOOR:
    case MOD:
        return divide(p, op, a, b);
    }
    return 0;
}

/* Consumes the next operator if its level is at least `level` and returns its index;
 * otherwise -1. */
static int next_operator(parser *p, int level)
{
    for (int i = 0; i < OPERATORS; i++) {
        const char *before = p->at;
        if (operators[i].level >= level && take(p, operators[i].token))
            return i;
        p->at = before;
    }
    return -1;
}

/* Evaluates operators of at least `level`, from left to right. */
static int64_t binary(parser *p, int level)
{
    int64_t left = signed_value(p);
    for (int op; p->status == KAS_OK && (op = next_operator(p, level)) >= 0;)
        left = apply(p, (operation)op, left, binary(p, operators[op].level + 1));
    return left;
}

/* Parses one of the two branches and computes it only when `wanted`. */
static int64_t branch(parser *p, bool wanted)
{
    bool outer = p->dead;
    p->dead = outer || !wanted;
    int64_t v = choice(p);
    p->dead = outer;
    return v;
}

static int64_t choice(parser *p)
{
    if (++p->depth > MAX_DEPTH)
        return fail(p, "nested too deeply");
    int64_t v = binary(p, 1);
    if (take(p, "?")) {
        bool condition = v != 0;
        int64_t yes = branch(p, condition);
        if (!take(p, ":"))
            return fail(p, "expected : and the other value");
        int64_t no = branch(p, !condition);
        v = condition ? yes : no;
    }
    p->depth--;
    return v;
}

/* ---- the whole ------------------------------------------------------------------------------- */

kas_status kas_expression(const char *text, const kas_names *names, int64_t *out)
{
    parser p = {.text = text, .at = text, .names = names};
    if (strlen(text) > MAX_BYTES)
        return kas_fail(KAS_BAD_INPUT, "expression \"%.32s...\" has more than %d bytes", text,
                        MAX_BYTES);
    *out = choice(&p);
    skip_space(&p);
    if (p.status == KAS_OK && *p.at)
        fail(&p, "expected an operator or the end");
    return p.status;
}

kas_status kas_template(const char *text, const kas_names *names, char *out, size_t size)
{
    size_t used = 0;
    for (const char *p = text; *p;) {
        char piece[MAX_BYTES + 1];
        size_t length = strcspn(p, *p == '{' ? "}" : "{}");
        if (*p == '}' || (*p == '{' && (!p[length] || length > sizeof piece)))
            return kas_fail(KAS_BAD_INPUT, "name \"%.64s\": expected {expression} in braces", text);
        if (*p == '{') {
            int64_t v;
            snprintf(piece, sizeof piece, "%.*s", (int)length - 1, p + 1);
            KAS_TRY(kas_expression(piece, names, &v));
            snprintf(piece, sizeof piece, "%" PRId64, v);
            p += length + 1;
        } else {
            snprintf(piece, sizeof piece, "%.*s", (int)length, p);
            p += length;
            if (length >= sizeof piece)
                return kas_fail(KAS_BAD_INPUT, "name \"%.64s...\" is too long", text);
        }
        size_t more = strlen(piece);
        if (used + more >= size)
            return kas_fail(KAS_BAD_INPUT, "name \"%.64s\": expected at most %zu bytes", text,
                            size - 1);
        memcpy(out + used, piece, more);
        used += more;
    }
    out[used] = 0;
    return KAS_OK;
}
