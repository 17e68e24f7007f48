/* Layer norm, both passes, against the float64 reference. */
#include "op_case.h"

#include "host/reference/net/layers.h"

typedef struct norm_values {
    double *x, *dy, *gamma, *beta, *y, *dx, *dgamma, *dbeta;
} norm_values;

static norm_values make_values(int n, int c, int h, int w)
{
    const size_t size = (size_t)n * c * h * w;
    norm_values v = {.x = random_values(size, 1),
                     .dy = random_values(size, 2),
                     .gamma = random_values(c, 3),
                     .beta = random_values(c, 4),
                     .y = nan_values(size),
                     .dx = nan_values(size),
                     .dgamma = nan_values(c),
                     .dbeta = nan_values(c)};
    for (size_t i = 0; i < size; i++)
        v.x[i] = number_round(the_dtype, (float)(v.x[i] + 2));
    kas_ref_layer_norm_forward(n, c, h, w, 1e-5, v.x, v.gamma, v.beta, v.y);
    kas_ref_layer_norm_backward(n, c, h, w, 1e-5, v.x, v.gamma, v.dy, v.dx, v.dgamma, v.dbeta);
    return v;
}

static void free_values(norm_values *v)
{
    double *all[] = {v->x, v->dy, v->gamma, v->beta, v->y, v->dx, v->dgamma, v->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void run_case(int n, int c, int h, int w)
{
    norm_values v = make_values(n, c, h, w);
    kas_layer_norm norm = {.x = make_tensor(v.x, n, c, h, w),
                           .y = make_tensor(NULL, n, c, h, w),
                           .eps = 1e-5f,
                           .gamma = array_to_device(v.gamma, c),
                           .beta = array_to_device(v.beta, c),
                           .saved_mean = array_to_device(NULL, (size_t)n * h * w),
                           .saved_rstd = array_to_device(NULL, (size_t)n * h * w)};
    norm.scratch = array_to_device(NULL, kas_batch_norm_scratch(&norm.x));
    kas_tensor dy = make_tensor(v.dy, n, c, h, w), dx = make_tensor(NULL, n, c, h, w);
    float *dgamma = array_to_device(NULL, c), *dbeta = array_to_device(NULL, c);
    kas_plan *plan = new_plan();
    OK(kas_op_layer_norm_forward(the_ops, plan, &norm));
    OK(kas_op_layer_norm_backward(the_ops, plan, &norm, dy, dx, dgamma, dbeta));
    OK(kas_op_layer_norm_backward(the_ops, plan, &norm, dy, dy, dgamma, dbeta)); /* in place */
    run_plan();
    check_tensor("y", &norm.y, v.y, 3e-6);
    check_tensor("dx", &dx, v.dx, 1e-5);
    check_tensor("dx in place of dy", &dy, v.dx, 1e-5);
    check_array("dgamma", dgamma, v.dgamma, c, 1e-5);
    check_array("dbeta", dbeta, v.dbeta, c, 1e-5);
    FREE(norm.x.data, norm.y.data, (void *)norm.gamma, (void *)norm.beta, norm.saved_mean,
         norm.saved_rstd, norm.scratch, dy.data, dx.data, dgamma, dbeta);
    free_values(&v);
}

TEST(test_channels)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    run_case(3, (int)c, 5, 4);
    print_worst("layer norm");
}

/* One operand off a multiple of 16 bytes. */
TEST(test_crooked)
{
    EACH_CROOKED(11)
    EACH_ORDER(order)
    run_case(3, 16, 5, 4);
}

/* More channels than a block has lanes; several chunks of rows; one row. */
TEST(test_sizes)
{
    run_case(2, 600, 3, 1);
    run_case(5, 12, 9, 8);
    run_case(1, 257, 1, 1);
    print_worst("layer norm, sizes");
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
