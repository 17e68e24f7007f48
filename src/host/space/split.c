#include "host/space/split.h"

#include <string.h>

#include "host/space/primitive.h"

static const char *const names[KAS_MAX_SPLITS] = {"S0", "S1", "S2", "S3"};

const char *kas_split_name(int split)
{
    return split >= 0 && split < KAS_MAX_SPLITS ? names[split] : NULL;
}

int kas_split_find(const char *name)
{
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (strcmp(names[s], name) == 0)
            return s;
    return -1;
}

static bool uses_split(const kas_node *node)
{
    return kas_primitive_get(node->op)->attributes & KAS_ATTR_SPLIT;
}

uint32_t kas_kernel_splits(const kas_kernel *kernel)
{
    uint32_t used = 0;
    for (int i = 0; i < kernel->nodes; i++)
        if (uses_split(&kernel->node[i]))
            used |= 1u << kernel->node[i].split;
    return used;
}

int kas_split_segments(const kas_split *split)
{
    return split->shares ? split->shares : 2;
}

bool kas_split_segment(const kas_kernel *kernel, int split, int segment, kas_dim *out)
{
    return kas_split_part(&kernel->split[split], split, segment, out);
}

bool kas_split_part(const kas_split *s, int split, int segment, kas_dim *out)
{
    const kas_dim shares = kas_dim_const(s->part ? s->part : s->shares);
    const kas_dim taken = kas_dim_const(s->part && segment ? s->part - 1u : 1);
    if (!s->first)
        return kas_dim_div(&s->whole, &shares, out) && kas_dim_mul(out, &taken, out);
    *out =
        segment == 0 ? kas_dim_const(s->first) : kas_dim_symbol((kas_symbol)(KAS_SYM_R0 + split));
    return true;
}

uint32_t kas_split_begin(const kas_split *split, int segment, uint32_t size)
{
    if (split->shares || segment == 0)
        return (uint32_t)segment * size;
    return split->first ? split->first : size / (split->part - 1u);
}

/* Returns the rests that a split's whole holds, directly or through other splits, as bits. */
static uint32_t rests_below(const kas_kernel *kernel, int split)
{
    uint32_t rests = 0, before;
    for (int r = 0; r < KAS_MAX_SPLITS; r++)
        if (kernel->split[split].whole.exp[KAS_SYM_R0 + r] != 0)
            rests |= 1u << r;
    do {
        before = rests;
        for (int s = 0; s < KAS_MAX_SPLITS; s++)
            for (int r = 0; r < KAS_MAX_SPLITS && (before & (1u << s)); r++)
                if (kernel->split[s].whole.exp[KAS_SYM_R0 + r] != 0)
                    rests |= 1u << r;
    } while (rests != before);
    return rests;
}

bool kas_splits_equal(const kas_split *a, const kas_split *b)
{
    return a->first == b->first && a->shares == b->shares && a->part == b->part &&
           kas_dim_equal(&a->whole, &b->whole);
}

kas_status kas_split_check(const kas_kernel *kernel, int i)
{
    const int split = kernel->node[i].split;
    if (split >= KAS_MAX_SPLITS || kernel->split[split].whole.num == 0)
        return kas_node_fail(kernel, i, "there is no split S%d", split);
    const kas_split *s = &kernel->split[split];
    if ((s->first != 0) + (s->shares != 0) + (s->part != 0) != 1 || s->first > KAS_MAX_FIRST ||
        s->shares == 1 || s->shares > KAS_MAX_SHARES || (s->part && s->part < 3) ||
        s->part > KAS_MAX_PART)
        return kas_node_fail(kernel, i,
                             "%s must have 2 to %d shares, or the number of its first elements, at "
                             "most %d, or the part of the whole that they are, 3 to %d",
                             names[split], KAS_MAX_SHARES, KAS_MAX_FIRST, KAS_MAX_PART);
    if (s->first && kas_dim_var(&s->whole) >= 0)
        return kas_node_fail(kernel, i,
                             "%s takes a number of first elements from a size with a dynamic "
                             "variable: the rest would have no value",
                             names[split]);
    if (rests_below(kernel, split) & (1u << split))
        return kas_node_fail(kernel, i, "%s cuts a size that depends on its own rest",
                             names[split]);
    for (int other = 0; other < KAS_MAX_SPLITS; other++)
        if (other != split && kas_splits_equal(s, &kernel->split[other]))
            return kas_node_fail(kernel, i, "%s and %s are the same: use one of them", names[split],
                                 names[other]);
    return KAS_OK;
}

static bool has_rest(const kas_kernel *kernel, uint32_t used, int rest)
{
    return (used & (1u << rest)) && kernel->split[rest].first;
}

kas_status kas_splits_check(const kas_kernel *kernel)
{
    const uint32_t used = kas_kernel_splits(kernel);
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        const kas_dim *size = uses_split(node) ? &kernel->split[node->split].whole : &node->out;
        for (int r = 0; r < KAS_MAX_SPLITS; r++)
            if (size->exp[KAS_SYM_R0 + r] != 0 && !has_rest(kernel, used, r))
                return kas_node_fail(kernel, i,
                                     "R%d is the rest of nothing: no slice and no concat takes "
                                     "the first elements of a split S%d",
                                     r, r);
    }
    return KAS_OK;
}

void kas_splits_bind(const kas_kernel *kernel, kas_binding *binding)
{
    /* The value of a rest may need that of another rest */
    for (int pass = 0; pass < KAS_MAX_SPLITS; pass++)
        for (int s = 0; s < KAS_MAX_SPLITS; s++) {
            const kas_split *split = &kernel->split[s];
            uint64_t whole;
            if (split->first && kas_dim_eval(&split->whole, binding, &whole) &&
                whole > split->first && whole - split->first <= UINT32_MAX)
                binding->value[KAS_SYM_R0 + s] = (uint32_t)(whole - split->first);
        }
}

static int first_user(const kas_kernel *kernel, int split)
{
    for (int i = 0; i < kernel->nodes; i++)
        if (uses_split(&kernel->node[i]) && kernel->node[i].split == split)
            return i;
    return -1;
}

kas_status kas_splits_check_binding(const kas_kernel *kernel, const kas_binding *binding)
{
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        const kas_split *split = &kernel->split[s];
        const int user = first_user(kernel, s);
        uint64_t whole;
        if (!split->first || user < 0 || binding->value[KAS_SYM_R0 + s] != 0)
            continue;
        if (!kas_dim_eval(&split->whole, binding, &whole))
            return kas_node_fail(kernel, user,
                                 "%s cuts a size that is not an integer at this target", names[s]);
        return kas_node_fail(kernel, user,
                             "%s takes the first %u of %llu elements at this target: nothing is "
                             "left",
                             names[s], split->first, (unsigned long long)whole);
    }
    return KAS_OK;
}

void kas_split_print(const kas_kernel *kernel, int split, kas_buf *out)
{
    const kas_split *s = &kernel->split[split];
    if (s->first)
        kas_buf_printf(out, "the first %u of ", s->first);
    if (s->part)
        kas_buf_printf(out, "the first 1/%u of ", s->part);
    kas_dim_print(&s->whole, out);
    if (s->first)
        kas_buf_printf(out, ", the rest is R%d", split);
    else if (s->shares)
        kas_buf_printf(out, " in %d shares", s->shares);
}
