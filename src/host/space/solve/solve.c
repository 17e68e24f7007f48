/* The solver by analytical constraints, paper 6.3: integers, limits and the base values. */
#include "host/space/solve/solve.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/gcd.h"
#include "host/space/primitive.h"
#include "host/space/solve/solver.h"
#include "host/space/split.h"

static bool same_sizes(const kas_target *a, const kas_target *b)
{
    return a->c_in == b->c_in && a->c_out == b->c_out && a->c == b->c &&
           a->parts_in == b->parts_in && a->parts_out == b->parts_out && a->h == b->h &&
           a->w == b->w && a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w &&
           a->stride == b->stride;
}

static void make_classes(kas_solver *s)
{
    for (int t = 0; t < s->count; t++) {
        const kas_target *target = &s->targets[t];
        int i = 0;
        while (i < s->classes && !same_sizes(s->class_[i].target, target))
            i++;
        if (i == s->classes)
            s->class_[s->classes++].target = target;
        s->class_of[t] = i;
        s->class_[i].members++;
        s->conv_flops += kas_target_conv_flops(target);
        s->conv_params += kas_target_conv_params(target);
    }
}

kas_status kas_solver_create(const kas_target *targets, int count, kas_solver **out)
{
    *out = NULL;
    if (count < 1)
        return kas_fail(KAS_FAILURE, "there is no target to solve a kernel for");
    kas_solver *s = calloc(1, sizeof *s);
    size_t n = (size_t)count;
    if (s) {
        s->targets = malloc(n * sizeof *targets);
        s->class_of = calloc(n, sizeof *s->class_of);
        s->class_ = calloc(n, sizeof *s->class_);
        s->doubling = malloc(n * KAS_MAX_VARS * sizeof *s->doubling);
    }
    if (!s || !s->targets || !s->class_of || !s->class_ || !s->doubling) {
        kas_solver_free(s);
        return kas_fail(KAS_NO_MEMORY, "no memory to solve a kernel at %d targets", count);
    }
    memcpy(s->targets, targets, n * sizeof *targets);
    s->count = count;
    make_classes(s);
    *out = s;
    return KAS_OK;
}

void kas_solver_free(kas_solver *solver)
{
    if (!solver)
        return;
    free(solver->targets);
    free(solver->class_of);
    free(solver->class_);
    free(solver->doubling);
    free(solver);
}

/* ---- integers ---- */

static bool lcm_with(uint64_t *lcm, uint64_t q)
{
    const uint64_t times = q / kas_gcd(*lcm, q);
    if (times > KAS_MAX_VARIABLE / *lcm)
        return false;
    *lcm *= times;
    return true;
}

/* A size that must be an integer. */
typedef struct condition {
    int node, d; /* size number d of kas_node_integers */
    const kas_dim *size;
    int x;        /* its variable, or -1 */
    kas_dim rest; /* the size without it */
} condition;

static kas_status not_an_integer(const kas_solver *s, const kas_layer_class *class_,
                                 const condition *c)
{
    kas_buf value = {0};
    uint64_t p, q;
    if (kas_is_quiet(KAS_ILLEGAL)) /* samplers ask often */
        return KAS_ILLEGAL;
    kas_dim_print(c->size, &value);
    if (kas_dim_fraction(&c->rest, &class_->binding, &p, &q))
        kas_buf_printf(&value, " = %llu/%llu", (unsigned long long)p, (unsigned long long)q);
    const kas_status status = kas_node_fail(s->kernel, c->node, "%s %.150s is not an integer at %s",
                                            kas_node_integer_name(s->kernel, c->node, c->d),
                                            kas_buf_text(&value), class_->target->name);
    kas_buf_free(&value);
    return status;
}

/* Adds the condition for one class: without a variable the size must be an integer; with one, x is
 * a multiple of q. */
static kas_status add_condition(const kas_solver *s, kas_layer_class *class_, const condition *c)
{
    uint64_t p, q;
    if (!kas_dim_fraction(&c->rest, &class_->binding, &p, &q) || (c->x < 0 && q != 1))
        return not_an_integer(s, class_, c);
    if (c->x >= 0 && !lcm_with(&class_->lcm[c->x], q))
        return kas_node_fail(s->kernel, c->node, "x%d would exceed 2^30 at %s", c->x,
                             class_->target->name);
    return KAS_OK;
}

static kas_status add_conditions(kas_solver *s, int node, int d, const kas_dim *size)
{
    const int x = kas_dim_var(size);
    condition c = {.node = node, .d = d, .size = size, .x = x, .rest = *size};
    if (x >= 0) {
        c.rest.exp[KAS_SYM_X0 + x]--;
        if (kas_dim_var(&c.rest) >= 0)
            return kas_node_fail(
                s->kernel, node,
                "x%d stands in the denominator or beside another variable: LHS must "
                "get a value that tiles RHS first",
                x);
    }
    for (int i = 0; i < s->classes && !kas_dim_is_whole(&c.rest); i++)
        KAS_TRY(add_condition(s, &s->class_[i], &c));
    return KAS_OK;
}

static kas_status find_conditions(kas_solver *s)
{
    for (int i = 0; i < s->classes; i++)
        if (kas_splits_check_binding(s->kernel, &s->class_[i].binding) != KAS_OK)
            return kas_fail_context(KAS_ILLEGAL, "%s", s->class_[i].target->name);
    for (int i = 0; i < s->kernel->nodes; i++) {
        kas_dim sizes[KAS_MAX_DIMS + 1];
        int count = kas_node_integers(s->kernel, i, sizes);
        if (count < 0)
            return KAS_ILLEGAL;
        for (int d = 0; d < count; d++)
            KAS_TRY(add_conditions(s, i, d, &sizes[d]));
    }
    return KAS_OK;
}

/* ---- base values ---- */

/* Sets the base values: x_1j = lcm_1j at the target with the fewest channels, the others in
 * proportion to their channels. */
static kas_status set_base(kas_solver *s)
{
    const kas_layer_class *first = &s->class_[0];
    for (int i = 1; i < s->classes; i++)
        if (s->class_[i].target->c < first->target->c)
            first = &s->class_[i];
    for (int i = 0; i < s->classes; i++)
        for (int v = 0; v < KAS_MAX_VARS; v++) {
            kas_layer_class *class_ = &s->class_[i];
            if (!(s->vars & (1u << v)))
                continue;
            uint64_t wanted = class_->target->c * first->lcm[v]; /* < 2^62 */
            uint64_t unit = first->target->c * class_->lcm[v];
            uint64_t value = (wanted + unit - 1) / unit * class_->lcm[v];
            if (value > KAS_MAX_VARIABLE)
                return kas_fail(KAS_ILLEGAL, "x%d would exceed 2^30 at %s", v,
                                class_->target->name);
            class_->binding.value[KAS_SYM_X0 + v] = (uint32_t)value;
        }
    return KAS_OK;
}

static kas_status find_law(kas_solver *s, const kas_dim *size, int *out)
{
    kas_growth_law law;
    for (int v = 0; v < KAS_MAX_VARS; v++)
        law.power[v] = (uint8_t)size->exp[KAS_SYM_X0 + v];
    int l = 0;
    while (l < s->laws && memcmp(&s->law[l], &law, sizeof law) != 0)
        l++;
    if (l == KAS_MAX_LAWS)
        return kas_fail(KAS_ILLEGAL, "the cost grows with its variables in more than %d ways",
                        KAS_MAX_LAWS);
    if (l == s->laws)
        s->law[s->laws++] = law;
    *out = l;
    return KAS_OK;
}

static kas_status find_laws(kas_solver *s)
{
    s->laws = 0;
    KAS_TRY(kas_cost_terms_of(s->kernel, &s->terms));
    for (int i = 0; i < s->terms.count; i++)
        KAS_TRY(find_law(s, &s->terms.term[i].size, &s->law_of[i]));
    return KAS_OK;
}

kas_cost kas_class_cost(const kas_layer_class *class_, const kas_cost *part, int laws,
                        bool stride_inside)
{
    const kas_target *t = class_->target;
    double instances = (double)t->parts_in * t->parts_out;
    kas_cost cost = {0};
    for (int l = 0; l < laws; l++) {
        cost.flops += part[l].flops;
        cost.params += part[l].params;
        if (part[l].largest_tensor > cost.largest_tensor)
            cost.largest_tensor = part[l].largest_tensor;
        if (part[l].largest_weight > cost.largest_weight)
            cost.largest_weight = part[l].largest_weight;
    }
    cost.flops = cost.flops * instances + kas_target_fixed_flops(t, stride_inside);
    cost.params *= instances;
    cost.largest_tensor *= instances;
    cost.largest_weight *= instances;
    return cost;
}

double kas_default_tensor_limit(const kas_target *t)
{
    /* The largest tensor of a kernel that is the convolution itself, over all instances */
    const double unfolded =
        (double)t->parts_in * t->parts_out * t->c * t->kernel_h * t->kernel_w * t->h * t->w;
    return unfolded > KAS_MAX_TENSOR ? unfolded : KAS_MAX_TENSOR;
}

static double tensor_limit(const kas_solver *s, const kas_target *target)
{
    return s->budget->max_tensor > 0 ? s->budget->max_tensor : kas_default_tensor_limit(target);
}

static double weight_limit(const kas_solver *s)
{
    return s->budget->max_weight > 0 ? s->budget->max_weight : KAS_MAX_WEIGHT;
}

bool kas_within_limits(const kas_solver *s, const kas_target *target, const kas_cost *cost)
{
    return cost->largest_tensor <= tensor_limit(s, target) &&
           cost->largest_weight <= weight_limit(s);
}

static kas_status fail_limits(const kas_solver *s, const kas_layer_class *class_)
{
    const kas_cost *cost = &class_->cost;
    const double tensor = tensor_limit(s, class_->target);
    const bool large = cost->largest_tensor > tensor;
    return kas_fail(KAS_UNSUPPORTED, "at %s a %s has %.0f elements%s, more than the limit of %.0f",
                    class_->target->name, large ? "tensor" : "weight",
                    large ? cost->largest_tensor : cost->largest_weight, large ? " an image" : "",
                    large ? tensor : weight_limit(s));
}

static kas_status cost_class(kas_solver *s, kas_layer_class *class_)
{
    memset(class_->part, 0, (size_t)s->laws * sizeof *class_->part);
    for (int i = 0; i < s->terms.count; i++)
        kas_cost_count(&class_->part[s->law_of[i]], s->terms.term[i].kind,
                       kas_dim_number(&s->terms.term[i].size, &class_->binding));
    class_->cost = kas_class_cost(class_, class_->part, s->laws, s->kernel->stride_inside);
    if (!kas_within_limits(s, class_->target, &class_->cost))
        return fail_limits(s, class_);
    s->flops += class_->members * class_->cost.flops;
    s->params += class_->members * class_->cost.params;
    return KAS_OK;
}

static double growth_limit(double ratio, double conv, double base)
{
    if (ratio > 0)
        return ratio * conv;
    return base > conv ? base : conv;
}

static kas_status check_base_budget(kas_solver *s)
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

static void begin(kas_solver *s, const kas_kernel *kernel, const kas_budget *budget)
{
    s->kernel = kernel;
    s->budget = budget;
    s->vars = kas_kernel_vars(kernel);
    s->flops = s->params = 0;
    for (int i = 0; i < s->classes; i++) {
        s->class_[i].binding = kas_target_binding(kernel, s->class_[i].target);
        for (int v = 0; v < KAS_MAX_VARS; v++)
            s->class_[i].lcm[v] = 1;
    }
}

/* Returns whether the kernel cuts rows or columns. */
static bool has_bands(const kas_kernel *kernel)
{
    for (int i = 1; i < kernel->nodes; i++)
        if (kernel->node[i].op == KAS_OP_SLICE &&
            kernel->node[i].dim >= kernel->node[i].shape.channels)
            return true;
    return false;
}

/* Checks that a kernel that takes the stride can cut the layer's input where it cuts the output. */
static kas_status check_strides(const kas_solver *s)
{
    if (!s->kernel->stride_inside || !has_bands(s->kernel))
        return KAS_OK;
    for (int i = 0; i < s->count; i++) {
        const kas_target *t = &s->targets[i];
        uint32_t h, w;
        kas_target_read(t, true, &h, &w);
        if (h != t->h * t->stride || w != t->w * t->stride)
            return kas_fail(KAS_ILLEGAL,
                            "%s: bands of an input of %ux%u pixels, which the stride of %u does "
                            "not divide",
                            t->name, h, w, t->stride);
    }
    return KAS_OK;
}

kas_status kas_solver_run(kas_solver *s, const kas_kernel *kernel, const kas_budget *budget)
{
    begin(s, kernel, budget);
    KAS_TRY(check_strides(s));
    KAS_TRY(find_conditions(s));
    KAS_TRY(set_base(s));
    KAS_TRY(find_laws(s));
    for (int i = 0; i < s->classes; i++)
        KAS_TRY(cost_class(s, &s->class_[i]));
    KAS_TRY(check_base_budget(s));
    kas_budget_fill(s);
    return KAS_OK;
}

kas_status kas_solver_solution(const kas_solver *s, kas_solution *out)
{
    kas_binding *binding = calloc((size_t)s->count, sizeof *binding);
    if (!binding)
        return kas_fail(KAS_NO_MEMORY, "no memory for the sizes at %d targets", s->count);
    for (int t = 0; t < s->count; t++)
        binding[t] = s->class_[s->class_of[t]].binding;
    *out = (kas_solution){.targets = s->count,
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
    kas_solver *solver;
    KAS_TRY(kas_solver_create(targets, count, &solver));
    kas_status status = kas_solver_run(solver, kernel, budget);
    if (status == KAS_OK)
        status = kas_solver_solution(solver, out);
    kas_solver_free(solver);
    return status;
}

void kas_solution_free(kas_solution *solution)
{
    free(solution->binding);
    *solution = (kas_solution){0};
}
