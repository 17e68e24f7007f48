/* Batch norm, every fusion, against the float64 reference with activation and residual around it.
 */
#include "op_case.h"

#include "host/net/epilogues.h"
#include "host/reference/net/layers.h"

typedef struct norm_case {
    int n, h, w, c;
    kas_layer_op activation; /* INPUT: none */
    bool residual;
    double mean; /* of x: large against its spread to show cancellation */
    bool two;    /* the gradient of y comes in two parts */
    bool base;   /* dx is added to what is there */
} norm_case;

typedef struct norm_values {
    double *x, *add, *dy, *gamma, *beta, *running_mean, *running_var;
    double *mean, *rstd, *y, *dx, *dadd, *dgamma, *dbeta;
    double *dy0, *dy1, *base; /* dy is the sum of the first two */
} norm_values;

static void reference(const norm_case *c, norm_values *v)
{
    const size_t size = (size_t)c->n * c->c * c->h * c->w;
    v->x = random_values(size, 1), v->add = random_values(size, 2), v->dy = nan_values(size);
    v->dy0 = random_values(size, 3), v->dy1 = random_values(size, 8);
    v->base = random_values(size, 9);
    v->gamma = random_values(c->c, 4), v->beta = random_values(c->c, 5);
    v->running_mean = random_values(c->c, 6), v->running_var = random_values(c->c, 7);
    v->mean = nan_values(c->c), v->rstd = nan_values(c->c), v->y = nan_values(size);
    v->dx = nan_values(size), v->dadd = nan_values(size);
    v->dgamma = nan_values(c->c), v->dbeta = nan_values(c->c);
    for (int k = 0; k < c->c; k++)
        v->running_var[k] = fabs(v->running_var[k]) + 0.5;
    for (size_t i = 0; i < size; i++) {
        v->x[i] = number_round(the_dtype, (float)(v->x[i] + c->mean));
        v->dy[i] = v->dy0[i] + (c->two ? v->dy1[i] : 0);
    }
}

static void reference_step(const norm_case *c, norm_values *v)
{
    const size_t size = (size_t)c->n * c->c * c->h * c->w;
    kas_ref_batch_norm_forward(c->n, c->c, c->h, c->w, 1e-5, 0.1, v->x, v->gamma, v->beta,
                               v->running_mean, v->running_var, v->mean, v->rstd, v->y);
    for (size_t i = 0; i < size; i++) {
        const double z = v->y[i] + (c->residual ? v->add[i] : 0);
        const bool active = c->activation != KAS_LAYER_INPUT;
        v->y[i] = active ? kas_ref_activation(c->activation, z) : z;
        v->dadd[i] = active ? kas_ref_activation_slope(c->activation, z) * v->dy[i] : v->dy[i];
    }
    kas_ref_batch_norm_backward(c->n, c->c, c->h, c->w, v->x, v->gamma, v->mean, v->rstd, v->dadd,
                                v->dx, v->dgamma, v->dbeta);
    for (size_t i = 0; i < size && c->base; i++)
        v->dx[i] += v->base[i];
}

static void free_values(norm_values *v)
{
    double *all[] = {v->x,           v->add,   v->dy,   v->gamma, v->beta, v->running_mean,
                     v->running_var, v->mean,  v->rstd, v->y,     v->dx,   v->dadd,
                     v->dgamma,      v->dbeta, v->dy0,  v->dy1,   v->base};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static kas_batch_norm make_norm(const norm_case *c, const norm_values *v)
{
    kas_batch_norm norm = {.x = make_tensor(v->x, c->n, c->c, c->h, c->w),
                           .y = make_tensor(NULL, c->n, c->c, c->h, c->w),
                           .activation = kas_layer_activation(c->activation),
                           .eps = 1e-5f,
                           .momentum = 0.1f,
                           .gamma = array_to_device(v->gamma, c->c),
                           .beta = array_to_device(v->beta, c->c),
                           .running_mean = array_to_device(v->running_mean, c->c),
                           .running_var = array_to_device(v->running_var, c->c),
                           .saved_mean = array_to_device(NULL, c->c),
                           .saved_rstd = array_to_device(NULL, c->c)};
    norm.scratch = array_to_device(NULL, kas_batch_norm_scratch(&norm.x));
    if (c->residual)
        norm.residual = make_tensor(v->add, c->n, c->c, c->h, c->w);
    return norm;
}

static void free_norm(kas_batch_norm *norm)
{
    FREE(norm->x.data, norm->y.data, norm->residual.data, (void *)norm->gamma, (void *)norm->beta,
         norm->running_mean, norm->running_var, norm->saved_mean, norm->saved_rstd, norm->scratch);
}

static kas_batch_norm_gradient make_gradient(const norm_case *c, const norm_values *v,
                                             const kas_batch_norm *norm)
{
    const bool from_y = c->residual && c->activation == KAS_LAYER_RELU;
    kas_batch_norm_gradient d = {.dy = make_tensor(v->dy0, c->n, c->c, c->h, c->w),
                                 .dx = make_tensor(NULL, c->n, c->c, c->h, c->w),
                                 .dgamma = array_to_device(NULL, c->c),
                                 .dbeta = array_to_device(NULL, c->c)};
    if (from_y)
        d.y = norm->y;
    if (c->two)
        d.dy1 = make_tensor(v->dy1, c->n, c->c, c->h, c->w);
    if (from_y || c->two)
        d.g = make_tensor(NULL, c->n, c->c, c->h, c->w);
    if (c->base)
        d.base = make_tensor(v->base, c->n, c->c, c->h, c->w);
    return d;
}

static void free_gradient(kas_batch_norm_gradient *d)
{
    FREE(d->dy.data, d->dy1.data, d->g.data, d->base.data, d->dx.data, d->dgamma, d->dbeta);
}

static void run_case(const norm_case *c)
{
    norm_values v;
    reference(c, &v);
    kas_batch_norm norm = make_norm(c, &v);
    kas_batch_norm_gradient d = make_gradient(c, &v, &norm);
    reference_step(c, &v);
    kas_plan *plan = new_plan();
    OK(kas_op_batch_norm_forward(the_ops, plan, &norm));
    OK(kas_op_batch_norm_backward(the_ops, plan, &norm, &d));
    run_plan();
    /* (x - mean) loses |mean| / spread of float's precision whatever is done */
    const double tolerance = 3e-6 * (1 + fabs(c->mean));
    /* dx is made of a g that was rounded */
    const double slopes = tolerance + (d.g.data ? 4 * rounding() : 0);
    check_tensor("y", &norm.y, v.y, tolerance);
    check_array("mean", norm.saved_mean, v.mean, c->c, 1e-6);
    check_array("rstd", norm.saved_rstd, v.rstd, c->c, 2e-6 * (1 + fabs(c->mean)));
    check_array("running mean", norm.running_mean, v.running_mean, c->c, 1e-6);
    check_array("running var", norm.running_var, v.running_var, c->c, 2e-6);
    check_array("dgamma", d.dgamma, v.dgamma, c->c, tolerance);
    check_array("dbeta", d.dbeta, v.dbeta, c->c, tolerance);
    check_tensor("dx", &d.dx, v.dx, slopes);
    if (d.g.data) /* one gradient is passed on as it is, of two there is one rounded sum */
        check_tensor("g", &d.g, v.dadd, c->two ? 1e-7 : 0);
    free_gradient(&d);
    free_norm(&norm);
    free_values(&v);
}

/* The places that the header allows: g over a gradient, dx over the other, the base, or g. */
static void run_in_place(const norm_case *c, int place)
{
    norm_values v;
    reference(c, &v);
    kas_batch_norm norm = make_norm(c, &v);
    kas_batch_norm_gradient d = make_gradient(c, &v, &norm), in_place = d;
    reference_step(c, &v);
    if (d.g.data)
        in_place.g = place & 1 && c->two ? d.dy1 : d.dy;
    in_place.dx = c->base ? d.base : place & 2 && d.g.data ? in_place.g : place & 1 ? d.dy : d.dx;
    if (in_place.dx.data == d.dy.data && in_place.g.data == d.dy.data && !(place & 2))
        in_place.dx = c->two ? d.dy1 : d.dx;
    kas_plan *plan = new_plan();
    OK(kas_op_batch_norm_forward(the_ops, plan, &norm));
    OK(kas_op_batch_norm_backward(the_ops, plan, &norm, &in_place));
    run_plan();
    check_tensor("dx in place", &in_place.dx, v.dx,
                 3e-6 * (1 + fabs(c->mean)) + (d.g.data ? 4 * rounding() : 0));
    free_gradient(&d);
    free_norm(&norm);
    free_values(&v);
}

TEST(test_training)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        for (int fused = 0; fused < 16; fused++)
            run_case(&(norm_case){2, 9, 7, (int)c, fused & 1 ? KAS_LAYER_RELU : KAS_LAYER_INPUT,
                                  fused >> 1 & 1, 0.5, fused >> 2 & 1, fused >> 3});
    }
    print_worst("batch norm");
}

TEST(test_in_place)
{
    EACH_ORDER(order)
    {
        for (int fused = 0; fused < 16; fused++)
            for (int place = 0; place < 4; place++)
                run_in_place(&(norm_case){2, 5, 7, 20, fused & 1 ? KAS_LAYER_RELU : KAS_LAYER_INPUT,
                                          fused >> 1 & 1, 0.5, fused >> 2 & 1, fused >> 3},
                             place);
    }
    print_worst("batch norm in place");
}

TEST(test_activations)
{
    static const kas_layer_op ops[] = {KAS_LAYER_RELU6, KAS_LAYER_SIGMOID, KAS_LAYER_HARD_SIGMOID,
                                       KAS_LAYER_SILU,  KAS_LAYER_GELU,    KAS_LAYER_HARD_SWISH};
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
            run_case(&(norm_case){2, 9, 7, (int)c, ops[i], false, 0.5, false, false});
    }
    print_worst("batch norm and activation");
}

/* Only none and ReLU go with a residual. */
TEST(test_refusal)
{
    const norm_case one = {2, 3, 3, 8, KAS_LAYER_SILU, true, 0, false, false};
    norm_values v;
    reference(&one, &v);
    kas_batch_norm norm = make_norm(&one, &v);
    kas_plan *plan = new_plan();
    assert_int_equal(kas_op_batch_norm_forward(the_ops, plan, &norm), KAS_BAD_INPUT);
    run_plan();
    /* g without a reason, a reason without g, and activations that only one way knows */
    kas_batch_norm_gradient d = make_gradient(&one, &v, &norm), wrong[4] = {d, d, d, d};
    norm.activation = KAS_ACTIVATION_RELU;
    wrong[0].g = wrong[0].dx;
    wrong[1].dy1 = wrong[1].dy;
    wrong[2].y = norm.y;
    wrong[3].base = wrong[3].dy;
    plan = new_plan();
    for (int i = 0; i < 4; i++) {
        norm.activation = i == 3 ? KAS_ACTIVATION_SILU : KAS_ACTIVATION_RELU;
        assert_int_equal(kas_op_batch_norm_backward(the_ops, plan, &norm, &wrong[i]),
                         KAS_BAD_INPUT);
    }
    run_plan();
    free_gradient(&d);
    free_norm(&norm);
    free_values(&v);
}

/* Several chunks with a short last one, and a single image. */
TEST(test_sizes)
{
    run_case(&(norm_case){3, 31, 29, 20, KAS_LAYER_RELU, true, 0, false, false});
    run_case(&(norm_case){1, 1, 2, 16, KAS_LAYER_INPUT, false, 0, false, false});
    run_case(&(norm_case){300, 16, 16, 3, KAS_LAYER_RELU, false, 0, false,
                          false}); /* chunks longer than 128 rows */
    print_worst("batch norm, sizes");
}

/* A mean 300 times the spread: E[x^2] - E[x]^2 in float would have no digit left. */
TEST(test_large_mean)
{
    run_case(&(norm_case){8, 16, 16, 12, KAS_LAYER_INPUT, false, 300, false, false});
    print_worst("batch norm, large mean");
}

TEST(test_inference)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const norm_case one = {2, 5, 3, (int)c, KAS_LAYER_RELU, true, 0, false, false};
        norm_values v;
        reference(&one, &v);
        kas_batch_norm norm = make_norm(&one, &v);
        for (int i = 0; i < 2 * (int)c * 15; i++) {
            const int k = i / 15 % (int)c;
            const double y = (v.x[i] - v.running_mean[k]) / sqrt(v.running_var[k] + 1e-5);
            v.y[i] = fmax(y * v.gamma[k] + v.beta[k] + v.add[i], 0);
        }
        kas_plan *plan = new_plan();
        OK(kas_op_batch_norm_inference(the_ops, plan, &norm));
        run_plan();
        check_tensor("y", &norm.y, v.y, 1e-6);
        check_array("running mean", norm.running_mean, v.running_mean, c, 0);
        check_array("running var", norm.running_var, v.running_var, c, 1e-7);
        free_norm(&norm);
        free_values(&v);
    }
    print_worst("batch norm, inference");
}

/* One operand off a multiple of 16 bytes: with all that can be fused, and without the residual. */
TEST(test_crooked)
{
    EACH_CROOKED(17)
    {
        EACH_ORDER(order)
        for (int residual = 0; residual < 2; residual++)
            run_case(&(norm_case){2, 9, 7, 16, KAS_LAYER_RELU, residual, 0.5, true, true});
        test_inference(state);
    }
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
