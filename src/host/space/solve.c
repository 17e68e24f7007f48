/* The solver by analytical constraints, paper 6.3. */
#include "host/space/solve.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/primitive.h"

#define MAX_VALUE ((uint64_t)1 << 30)

/* Targets that agree in every size. */
typedef struct layer_class {
    const kas_target *target; /* the first of them */
    int members;
    kas_binding binding;
    uint64_t lcm[KAS_MAX_VARS];
    kas_cost cost; /* of one layer, at `binding` */
} layer_class;

typedef struct solver {
    const kas_kernel *kernel;
    const kas_budget *budget;
    uint32_t vars;
    layer_class *class_;
    int classes;
    double conv_flops, conv_params;
    double flops, params; /* of all layers, at the present bindings */
    double growth_flops, growth_params;
} solver;

static bool same_sizes(const kas_target *a, const kas_target *b)
{
    return a->c_in == b->c_in && a->c_out == b->c_out && a->c == b->c &&
           a->parts_in == b->parts_in && a->parts_out == b->parts_out && a->h == b->h &&
           a->w == b->w && a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w &&
           a->stride == b->stride;
}

static int find_class(const solver *s, const kas_target *target)
{
    int i = 0;
    while (i < s->classes && !same_sizes(s->class_[i].target, target))
        i++;
    return i;
}

static void make_classes(solver *s, const kas_target *targets, int count)
{
    for (int t = 0; t < count; t++) {
        int i = find_class(s, &targets[t]);
        if (i == s->classes) {
            s->class_[s->classes++] = (layer_class){
                .target = &targets[t], .binding = kas_target_binding(s->kernel, &targets[t])};
            for (int v = 0; v < KAS_MAX_VARS; v++)
                s->class_[i].lcm[v] = 1;
        }
        s->class_[i].members++;
        s->conv_flops += kas_target_conv_flops(&targets[t]);
        s->conv_params += kas_target_conv_params(&targets[t]);
    }
}

static bool lcm_with(uint64_t *lcm, uint64_t q)
{
    uint64_t a = *lcm, b = q;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (*lcm / a > MAX_VALUE / q)
        return false;
    *lcm = *lcm / a * q;
    return true;
}

/* What a size says: without a variable that it is an integer already, with one that x is a multiple
 * of q. */
static kas_status add_condition(const solver *s, layer_class *class_, int node, const kas_dim *size)
{
    int x = kas_dim_var(size);
    uint64_t p, q;
    kas_dim rest = *size;
    if (x >= 0) {
        rest.exp[KAS_SYM_X0 + x]--;
        if (kas_dim_var(&rest) >= 0)
            return kas_node_fail(s->kernel, node,
                                 "x%d stands below the line or beside another variable: LHS must "
                                 "get a value that tiles RHS first",
                                 x);
    }
    if (!kas_dim_fraction(&rest, &class_->binding, &p, &q) || (x < 0 && q != 1))
        return kas_node_fail(s->kernel, node, "a size is no integer at %s", class_->target->name);
    if (x >= 0 && !lcm_with(&class_->lcm[x], q))
        return kas_node_fail(s->kernel, node, "x%d would exceed 2^30 at %s", x,
                             class_->target->name);
    return KAS_OK;
}

static kas_status find_conditions(const solver *s, layer_class *class_)
{
    for (int i = 0; i < s->kernel->nodes; i++) {
        kas_dim sizes[KAS_MAX_DIMS + 1];
        int count = kas_node_integers(s->kernel, i, sizes);
        if (count < 0)
            return KAS_ILLEGAL;
        for (int d = 0; d < count; d++)
            KAS_TRY(add_condition(s, class_, i, &sizes[d]));
    }
    return KAS_OK;
}

/* x_1j = lcm_1j at the target with the fewest channels, the others in proportion to theirs. */
static kas_status set_base(const solver *s)
{
    const layer_class *first = &s->class_[0];
    for (int i = 1; i < s->classes; i++)
        if (s->class_[i].target->c < first->target->c)
            first = &s->class_[i];
    for (int i = 0; i < s->classes; i++)
        for (int v = 0; v < KAS_MAX_VARS; v++) {
            layer_class *class_ = &s->class_[i];
            if (!(s->vars & (1u << v)))
                continue;
            uint64_t wanted = class_->target->c * first->lcm[v]; /* < 2^62 */
            uint64_t unit = first->target->c * class_->lcm[v];
            uint64_t value = (wanted + unit - 1) / unit * class_->lcm[v];
            if (value > MAX_VALUE)
                return kas_fail(KAS_ILLEGAL, "x%d would exceed 2^30 at %s", v,
                                class_->target->name);
            class_->binding.value[KAS_SYM_X0 + v] = (uint32_t)value;
        }
    return KAS_OK;
}

static double default_tensor_limit(const kas_target *t)
{
    double unfolded = (double)t->c_in * t->kernel_h * t->kernel_w * t->h * t->w;
    return unfolded > KAS_MAX_TENSOR ? unfolded : KAS_MAX_TENSOR;
}

static bool within_limits(const solver *s, const kas_target *target, const kas_cost *cost)
{
    double tensor = s->budget->max_tensor, weight = s->budget->max_weight;
    return cost->largest_tensor <= (tensor > 0 ? tensor : default_tensor_limit(target)) &&
           cost->largest_weight <= (weight > 0 ? weight : KAS_MAX_WEIGHT);
}

static kas_status cost_base(solver *s)
{
    for (int i = 0; i < s->classes; i++) {
        layer_class *class_ = &s->class_[i];
        KAS_TRY(kas_kernel_check_binding(s->kernel, &class_->binding));
        KAS_TRY(kas_layer_cost(s->kernel, class_->target, &class_->binding, &class_->cost));
        if (!within_limits(s, class_->target, &class_->cost))
            return kas_fail(KAS_UNSUPPORTED,
                            "at %s a tensor has %.0f elements an image, a weight %.0f: over the "
                            "limits",
                            class_->target->name, class_->cost.largest_tensor,
                            class_->cost.largest_weight);
        s->flops += class_->members * class_->cost.flops;
        s->params += class_->members * class_->cost.params;
    }
    return KAS_OK;
}

static double growth_limit(double ratio, double conv, double base)
{
    if (ratio > 0)
        return ratio * conv;
    return base > conv ? base : conv;
}

static kas_status check_base_budget(solver *s)
{
    s->growth_flops = growth_limit(s->budget->max_flops_ratio, s->conv_flops, s->flops);
    s->growth_params = growth_limit(s->budget->max_params_ratio, s->conv_params, s->params);
    bool flops = s->flops > s->growth_flops; /* then there is a limit, and it is what failed */
    if (flops || s->params > s->growth_params)
        return kas_fail(
            KAS_OVER_BUDGET,
            "it needs at least %.3g times the convolutions' %s, and %.3g times are allowed",
            flops ? s->flops / s->conv_flops : s->params / s->conv_params,
            flops ? "FLOPs" : "parameters",
            flops ? s->budget->max_flops_ratio : s->budget->max_params_ratio);
    return KAS_OK;
}

typedef struct doubling {
    int class_, var;
    /* Of the added cost. Only quotients of whole numbers and one sum: no compiler can contract that
     * to a fused operation, so the order is the same on every machine. */
    double weight;
    kas_cost cost; /* of the class afterwards */
} doubling;

/* The cost of doubling one variable in one class; false when that is not allowed. */
static bool try_doubling(const solver *s, doubling *d)
{
    const layer_class *class_ = &s->class_[d->class_];
    kas_binding binding = class_->binding;
    uint32_t *value = &binding.value[KAS_SYM_X0 + d->var];
    if (*value > MAX_VALUE / 2)
        return false;
    *value *= 2;
    if (kas_layer_cost(s->kernel, class_->target, &binding, &d->cost) != KAS_OK ||
        !within_limits(s, class_->target, &d->cost))
        return false;
    double flops = class_->members * (d->cost.flops - class_->cost.flops);
    double params = class_->members * (d->cost.params - class_->cost.params);
    d->weight = flops / s->conv_flops + params / s->conv_params;
    return s->flops + flops <= s->growth_flops && s->params + params <= s->growth_params;
}

static void apply_doubling(solver *s, const doubling *d)
{
    layer_class *class_ = &s->class_[d->class_];
    class_->binding.value[KAS_SYM_X0 + d->var] *= 2;
    s->flops += class_->members * (d->cost.flops - class_->cost.flops);
    s->params += class_->members * (d->cost.params - class_->cost.params);
    class_->cost = d->cost;
}

static int compare_doublings(const void *a, const void *b)
{
    const doubling *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    return x->class_ != y->class_ ? x->class_ - y->class_ : x->var - y->var;
}

/* One iteration; how many variables were doubled. */
static int double_once(solver *s, doubling *list)
{
    int count = 0, done = 0;
    for (int i = 0; i < s->classes; i++)
        for (int v = 0; v < KAS_MAX_VARS; v++) {
            list[count] = (doubling){.class_ = i, .var = v};
            if ((s->vars & (1u << v)) && try_doubling(s, &list[count]))
                count++;
        }
    qsort(list, (size_t)count, sizeof *list, compare_doublings);
    for (int k = 0; k < count; k++)
        if (try_doubling(s, &list[k])) { /* again: those before it have taken from the budget */
            apply_doubling(s, &list[k]);
            done++;
        }
    return done;
}

static kas_status solve_classes(solver *s)
{
    for (int i = 0; i < s->classes; i++)
        KAS_TRY(find_conditions(s, &s->class_[i]));
    KAS_TRY(set_base(s));
    KAS_TRY(cost_base(s));
    KAS_TRY(check_base_budget(s));
    if (s->vars == 0)
        return KAS_OK;
    doubling *list = calloc((size_t)s->classes * KAS_MAX_VARS + 1, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "no memory to solve a kernel at %d layers", s->classes);
    while (double_once(s, list) > 0) {
    }
    free(list);
    return KAS_OK;
}

static kas_status fill_solution(const solver *s, const kas_target *targets, int count,
                                kas_solution *out)
{
    kas_binding *binding = calloc((size_t)count, sizeof *binding);
    if (!binding)
        return kas_fail(KAS_NO_MEMORY, "no memory for the sizes at %d targets", count);
    for (int t = 0; t < count; t++)
        binding[t] = s->class_[find_class(s, &targets[t])].binding;
    *out = (kas_solution){.targets = count,
                          .binding = binding,
                          .flops = s->flops,
                          .params = s->params,
                          .conv_flops = s->conv_flops,
                          .conv_params = s->conv_params};
    return KAS_OK;
}

kas_status kas_solve(const kas_kernel *kernel, const kas_target *targets, int count,
                     const kas_budget *budget, kas_solution *out)
{
    solver s = {.kernel = kernel, .budget = budget, .vars = kas_kernel_vars(kernel)};
    if (count < 1)
        return kas_fail(KAS_FAILURE, "there is no target to solve the kernel for");
    s.class_ = calloc((size_t)count, sizeof *s.class_);
    if (!s.class_)
        return kas_fail(KAS_NO_MEMORY, "no memory to solve a kernel at %d targets", count);
    make_classes(&s, targets, count);
    kas_status status = solve_classes(&s);
    if (status == KAS_OK)
        status = fill_solution(&s, targets, count, out);
    free(s.class_);
    return status;
}

void kas_solution_free(kas_solution *solution)
{
    free(solution->binding);
    *solution = (kas_solution){0};
}
