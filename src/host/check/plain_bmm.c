/* The product of two data tensors.
 *
 * Three decisions depend on equal sizes at all targets, not on equal numbers at one, where C/G may
 * happen to be G: which dims are the batch, where a tensor without pixels is cut, and which rows
 * are pixels again. So these decisions read the sizes as they are written in the kernel's shapes;
 * everything else is counted in whole numbers. */
#include "host/check/plain_step.h"

/* One operand: dims [0, batch) of its list, then rows [batch, cut), then columns. */
typedef struct operand {
    const kas_plain_tensor *t;
    const kas_shape *written;
    int batch, cut, rank;
    bool contracts_rows;
} operand;

static bool has_pixels(const operand *o)
{
    return o->t->h || o->t->w;
}

/* Finds the part that is summed over, as dims [*from, *to). */
static void contracted(const operand *o, int *from, int *to)
{
    *from = o->contracts_rows ? o->batch : o->cut;
    *to = o->contracts_rows ? o->cut : o->rank;
}

static bool written_product(const operand *o, int from, int to, kas_dim *out)
{
    *out = kas_dim_const(1);
    for (int d = from; d < to; d++) {
        const kas_dim dim = kas_shape_dim(o->written, d);
        if (!kas_dim_mul(out, &dim, out))
            return false;
    }
    return true;
}

static double product(const operand *o, int from, int to)
{
    kas_plain_tensor t = *o->t;
    double n = 1;
    for (int d = from; d < to; d++)
        n *= (double)*kas_plain_dim(&t, d);
    return n;
}

static int batch_of(const operand *l, const operand *r)
{
    int n = 0;
    while (n < l->t->channels && n < r->t->channels && l->t->marked[n] && r->t->marked[n] &&
           kas_dim_equal(&l->written->channel[n], &r->written->channel[n]))
        n++;
    return n;
}

/* Cuts an operand without pixels where the contracted part is the shortest one of size `wanted`. */
static bool cut_to(operand *o, const kas_dim *wanted)
{
    for (int length = 1; length <= o->rank - o->batch; length++) {
        kas_dim size;
        o->cut = o->contracts_rows ? o->batch + length : o->rank - length;
        const int from = o->contracts_rows ? o->batch : o->cut;
        if (written_product(o, from, from + length, &size) && kas_dim_equal(&size, wanted))
            return true;
    }
    return false;
}

static kas_status append(kas_plain_step *s, const operand *o, int d)
{
    kas_plain_tensor t = *o->t;
    kas_plain_tensor *y = s->y;
    if (y->channels == KAS_MAX_CHANNEL_DIMS)
        return kas_plain_illegal(s, "the result has more than 8 channel dims");
    y->marked[y->channels] = d < t.channels && t.marked[d];
    y->channel[y->channels++] = *kas_plain_dim(&t, d);
    return KAS_OK;
}

/* Makes rows that are exactly [H], [W] or [H, W] pixels again. */
static bool become_pixels(const operand *o, kas_plain_tensor *y)
{
    const kas_dim h = kas_dim_symbol(KAS_SYM_H), w = kas_dim_symbol(KAS_SYM_W);
    kas_plain_tensor t = *o->t;
    int d = o->batch;
    if (d == o->cut || o->contracts_rows)
        return false;
    const kas_dim first = kas_shape_dim(o->written, d),
                  last = kas_shape_dim(o->written, o->cut - 1);
    const bool has_h = kas_dim_equal(&first, &h), has_w = kas_dim_equal(&last, &w);
    if (has_h + has_w != o->cut - d)
        return false;
    y->h = has_h ? *kas_plain_dim(&t, d++) : 0;
    y->w = has_w ? *kas_plain_dim(&t, d) : 0;
    return true;
}

static kas_status keep_rhs(kas_plain_step *s, const operand *r)
{
    if (r->contracts_rows) { /* columns stay what they are */
        for (int d = r->cut; d < r->t->channels; d++)
            KAS_TRY(append(s, r, d));
        s->y->h = r->t->h;
        s->y->w = r->t->w;
        return KAS_OK;
    }
    if (become_pixels(r, s->y))
        return KAS_OK;
    for (int d = r->batch; d < r->cut; d++)
        KAS_TRY(append(s, r, d));
    return KAS_OK;
}

static kas_status cut_both(const kas_plain_step *s, operand *l, operand *r)
{
    kas_dim wanted, other;
    int from, to;
    if (!has_pixels(l) && !has_pixels(r))
        return kas_plain_illegal(s, "neither operand has pixels");
    const operand *known = has_pixels(l) ? l : r;
    operand *second = known == l ? r : l;
    contracted(known, &from, &to);
    if (from == to || !written_product(known, from, to, &wanted))
        return kas_plain_illegal(s, "nothing is contracted");
    if (!has_pixels(second) && !cut_to(second, &wanted))
        return kas_plain_illegal(s, "no part of the operand has the contracted size");
    contracted(second, &from, &to);
    if (from == to || !written_product(second, from, to, &other) || !kas_dim_equal(&wanted, &other))
        return kas_plain_illegal(s, "the contracted sizes differ");
    return KAS_OK;
}

kas_status kas_plain_bmm(kas_plain_step *s)
{
    const kas_node *n = s->node;
    operand l = {.t = s->a, .written = &s->kernel->node[n->in[0]].shape};
    operand r = {.t = s->b, .written = &s->kernel->node[n->in[1]].shape};
    int from, to;
    l.rank = kas_plain_rank(s->a);
    r.rank = kas_plain_rank(s->b);
    if (l.rank != kas_shape_rank(l.written) || r.rank != kas_shape_rank(r.written))
        return kas_plain_illegal(s, "the operands' shapes are not those of the kernel");
    l.contracts_rows = n->transpose & KAS_TRANSPOSE_LHS;
    r.contracts_rows = !(n->transpose & KAS_TRANSPOSE_RHS);
    l.batch = r.batch = batch_of(&l, &r);
    l.cut = s->a->channels;
    r.cut = s->b->channels;
    KAS_TRY(cut_both(s, &l, &r));
    contracted(&l, &from, &to);
    const double k = product(&l, from, to);
    *s->y = (kas_plain_tensor){0};
    for (int d = 0; d < l.batch; d++)
        KAS_TRY(append(s, &l, d));
    for (int d = l.contracts_rows ? l.cut : l.batch; d < (l.contracts_rows ? l.rank : l.cut); d++)
        KAS_TRY(append(s, &l, d));
    KAS_TRY(keep_rhs(s, &r));
    contracted(&r, &from, &to);
    if (product(&r, from, to) != k)
        return kas_plain_illegal(s, "the contracted sizes %g and %g differ", k,
                                 product(&r, from, to));
    s->flops = kas_plain_elements(s->y) * (k + (n->softmax ? 1 : 0));
    return KAS_OK;
}
