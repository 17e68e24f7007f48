/* Uses the budget (paper 6.3): doubles variables until none can be doubled any more. */
#include "host/space/solve/solver.h"

/* Computes the cost of doubling one variable in one class. Returns false when that is not allowed;
 * it never will be later, because costs only rise and the rest of the budget only falls. */
static bool try_doubling(const kas_solver *s, kas_doubling *d)
{
    const kas_layer_class *class_ = &s->class_[d->class_];
    kas_cost part[KAS_MAX_LAWS];
    if (class_->binding.value[KAS_SYM_X0 + d->var] > KAS_MAX_VARIABLE / 2)
        return false;
    for (int l = 0; l < s->laws; l++) {
        double factor = (double)(1u << s->law[l].power[d->var]);
        part[l] = (kas_cost){.flops = class_->part[l].flops * factor,
                             .params = class_->part[l].params * factor,
                             .largest_tensor = class_->part[l].largest_tensor * factor,
                             .largest_weight = class_->part[l].largest_weight * factor};
    }
    d->cost = kas_class_cost(class_, part, s->laws, s->kernel->stride_inside);
    if (!kas_within_limits(s, class_->target, &d->cost))
        return false;
    double flops = class_->members * (d->cost.flops - class_->cost.flops);
    double params = class_->members * (d->cost.params - class_->cost.params);
    d->weight = flops / s->conv_flops + params / s->conv_params;
    return s->flops + flops <= s->growth_flops && s->params + params <= s->growth_params;
}

static void apply_doubling(kas_solver *s, const kas_doubling *d)
{
    kas_layer_class *class_ = &s->class_[d->class_];
    class_->binding.value[KAS_SYM_X0 + d->var] *= 2;
    s->flops += class_->members * (d->cost.flops - class_->cost.flops);
    s->params += class_->members * (d->cost.params - class_->cost.params);
    class_->cost = d->cost;
    for (int l = 0; l < s->laws; l++) {
        kas_cost *part = &class_->part[l];
        double factor = (double)(1u << s->law[l].power[d->var]);
        part->flops *= factor;
        part->params *= factor;
        part->largest_tensor *= factor;
        part->largest_weight *= factor;
    }
}

static bool comes_before(const kas_doubling *a, const kas_doubling *b)
{
    if (a->weight != b->weight)
        return a->weight < b->weight;
    return a->class_ != b->class_ ? a->class_ < b->class_ : a->var < b->var;
}

/* Sorts by insertion: the list is short, and nearly sorted from one round to the next. */
static void sort(kas_doubling *list, int count)
{
    for (int i = 1; i < count; i++) {
        kas_doubling moved = list[i];
        int at = i;
        for (; at > 0 && comes_before(&moved, &list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = moved;
    }
}

static int keep_possible(const kas_solver *s, kas_doubling *list, int count)
{
    int kept = 0;
    for (int k = 0; k < count; k++)
        if (try_doubling(s, &list[k]))
            list[kept++] = list[k];
    return kept;
}

void kas_budget_fill(kas_solver *s)
{
    kas_doubling *list = s->doubling;
    int count = 0;
    for (int i = 0; i < s->classes; i++)
        for (int v = 0; v < KAS_MAX_VARS; v++)
            if (s->vars & (1u << v))
                list[count++] = (kas_doubling){.class_ = i, .var = v};
    while ((count = keep_possible(s, list, count)) > 0) {
        sort(list, count);
        for (int k = 0; k < count; k++)
            /* Asked again: the doublings before it took from the budget */
            if (try_doubling(s, &list[k]))
                apply_doubling(s, &list[k]);
    }
}
