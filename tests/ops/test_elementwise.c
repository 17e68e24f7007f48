/* add, ReLU, bias and the step counter. */
#include "op_case.h"

static void test_add_and_relu(void **state)
{
    (void)state;
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 3, h = 5, w = 7;
        const size_t size = n * c * h * w;
        double *va = random_values(size, 1), *vb = random_values(size, 2);
        double *sum = nan_values(size), *relu = nan_values(size), *dx = nan_values(size);
        va[3] = 0; /* where the ReLU's gradient is 0 */
        for (size_t i = 0; i < size; i++) {
            sum[i] = va[i] + vb[i];
            relu[i] = va[i] > 0 ? va[i] : 0;
            dx[i] = relu[i] > 0 ? vb[i] : 0;
        }
        kas_tensor a = make_tensor(va, n, c, h, w), b = make_tensor(vb, n, c, h, w);
        kas_tensor s = make_tensor(NULL, n, c, h, w), r = make_tensor(NULL, n, c, h, w),
                   d = make_tensor(NULL, n, c, h, w);
        kas_plan *plan = new_plan();
        OK(kas_op_add(the_ops, plan, a, b, s));
        OK(kas_op_relu_forward(the_ops, plan, a, r));
        OK(kas_op_relu_backward(the_ops, plan, r, b, d));
        OK(kas_op_add(the_ops, plan, a, b, a)); /* in place */
        OK(kas_op_relu_backward(the_ops, plan, r, b, b));
        run_plan();
        check_tensor("add", &s, sum, 6e-8);
        check_tensor("relu", &r, relu, 0);
        check_tensor("relu backward", &d, dx, 0);
        check_tensor("add in place", &a, sum, 6e-8);
        check_tensor("relu backward in place", &b, dx, 0);
        FREE(a.data, b.data, s.data, r.data, d.data);
        free(va), free(vb), free(sum), free(relu), free(dx);
    }
    print_worst("element-wise");
}

static void test_bias(void **state)
{
    (void)state;
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const size_t n = 37, size = n * c;
        double *vy = random_values(size, 1), *vb = random_values(c, 2), *db = nan_values(c);
        kas_tensor y = make_tensor(vy, n, c, 1, 1), dy = make_tensor(vy, n, c, 1, 1);
        float *bias = array_to_device(vb, c), *dbias = array_to_device(NULL, c);
        for (size_t k = 0; k < c; k++) {
            db[k] = 0;
            for (size_t i = 0; i < n; i++)
                db[k] += vy[i * c + k];
        }
        for (size_t i = 0; i < size; i++)
            vy[i] += vb[i % c];
        kas_plan *plan = new_plan();
        OK(kas_op_bias_forward(the_ops, plan, y, bias));
        OK(kas_op_bias_backward(the_ops, plan, dy, dbias));
        run_plan();
        check_tensor("bias", &y, vy, 6e-8);
        check_array("bias backward", dbias, db, c, 1e-6);
        FREE(y.data, dy.data, bias, dbias);
        free(vy), free(vb), free(db);
    }
    print_worst("bias");
}

static void test_advance(void **state)
{
    (void)state;
    kas_step_state host = {.step = 5, .cursor = 256, .epoch = 3}, *device;
    OK(kas_mem_alloc(the_device, sizeof host, (void **)&device));
    OK(kas_mem_upload(the_device, device, &host, sizeof host));
    kas_plan *plan = new_plan();
    OK(kas_op_advance(the_ops, plan, device, 128));
    run_plan();
    OK(kas_mem_download(the_device, &host, device, sizeof host));
    assert_int_equal(host.step, 6);
    assert_int_equal(host.cursor, 384);
    assert_int_equal(host.epoch, 3);
    FREE(device);
}

static void test_refusals(void **state)
{
    (void)state;
    kas_tensor a = make_tensor(NULL, 2, 3, 4, 4), b = a, none = a;
    b.h = 3;
    none.data = NULL;
    kas_plan *plan = new_plan();
    assert_int_equal(kas_op_add(the_ops, plan, a, a, b), KAS_BAD_INPUT);
    assert_int_equal(kas_op_add(the_ops, plan, a, none, a), KAS_BAD_INPUT);
    assert_int_equal(kas_op_avg_pool_forward(the_ops, plan, 2, a, a), KAS_BAD_INPUT);
    assert_int_equal(kas_op_global_pool_forward(the_ops, plan, a, a), KAS_BAD_INPUT);
    a.pitch = 2;
    assert_int_equal(kas_op_relu_forward(the_ops, plan, a, a), KAS_BAD_INPUT);
    run_plan();
    FREE(a.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_and_relu),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_advance),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_the_ops, close_the_ops);
}
