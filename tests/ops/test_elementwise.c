/* Sums, products, copies, biases, flatten and the step counter. */
#include "op_case.h"

#include "host/reference/net/layers.h"

TEST(test_add)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 3, h = 5, w = 7;
        const size_t size = n * c * h * w;
        double *va = random_values(size, 1), *vb = random_values(size, 2), *sum = nan_values(size);
        for (size_t i = 0; i < size; i++)
            sum[i] = va[i] + vb[i];
        kas_tensor a = make_tensor(va, n, c, h, w), b = make_tensor(vb, n, c, h, w);
        kas_tensor s = make_tensor(NULL, n, c, h, w);
        kas_plan *plan = new_plan();
        OK(kas_op_add(the_ops, plan, a, b, s));
        OK(kas_op_add(the_ops, plan, a, b, a)); /* in place */
        run_plan();
        check_tensor("add", &s, sum, 6e-8);
        check_tensor("add in place", &a, sum, 6e-8);
        FREE(a.data, b.data, s.data);
        free(va), free(vb), free(sum);
    }
    print_worst("add");
}

/* x times `other`, of x's size or 1 x 1, and the gradients of both. */
static void run_multiply(int c, int other_h, int other_w)
{
    const int n = 3, h = 9, w = 8;
    const size_t size = (size_t)n * c * h * w, others = (size_t)n * c * other_h * other_w;
    const bool gate = other_h == 1;
    double *vx = random_values(size, 1), *vother = random_values(others, 2);
    double *vdy = random_values(size, 3), *vy = nan_values(size), *vdx = nan_values(size);
    double *vdother = nan_values(others);
    kas_ref_multiply_forward(n, c, h, w, other_h, other_w, vx, vother, vy);
    kas_ref_multiply_backward(n, c, h, w, other_h, other_w, vx, vother, vdy, vdx, vdother);
    kas_tensor x = make_tensor(vx, n, c, h, w), dy = make_tensor(vdy, n, c, h, w);
    kas_tensor other = make_tensor(vother, n, c, other_h, other_w);
    kas_tensor y = make_tensor(NULL, n, c, h, w), dx = make_tensor(NULL, n, c, h, w);
    kas_tensor dother = make_tensor(NULL, n, c, other_h, other_w);
    kas_plan *plan = new_plan();
    OK(kas_op_multiply(the_ops, plan, x, other, y));
    OK(kas_op_multiply(the_ops, plan, dy, other, dx));
    OK(gate ? kas_op_multiply_sum(the_ops, plan, dy, x, dother)
            : kas_op_multiply(the_ops, plan, dy, x, dother));
    OK(kas_op_multiply(the_ops, plan, dy, other, dy)); /* in place */
    run_plan();
    check_tensor("product", &y, vy, 6e-8);
    check_tensor("gradient of a factor", &dx, vdx, 6e-8);
    check_tensor("gradient of the other", &dother, vdother, 1e-6);
    check_tensor("in place", &dy, vdx, 6e-8);
    FREE(x.data, dy.data, other.data, y.data, dx.data, dother.data);
    free(vx), free(vother), free(vdy), free(vy), free(vdx), free(vdother);
}

TEST(test_multiply)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        run_multiply((int)c, 9, 8);
        run_multiply((int)c, 1, 1);
    }
    print_worst("multiply");
}

/* Two tensors side by side in one of more channels, whose pixels are wider, and back. */
TEST(test_copy)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 2, h = 3, w = 5, wide = 2 * (int)c, p = h * w;
        const size_t size = (size_t)n * c * p;
        double *left = random_values(size, 1), *right = random_values(size, 2);
        double *both = nan_values(2 * size);
        for (size_t i = 0; i < size; i++) {
            const size_t image = i / (c * p), rest = i % (c * p);
            both[image * wide * p + rest] = left[i];
            both[image * wide * p + c * p + rest] = right[i];
        }
        kas_tensor a = make_tensor(left, n, c, h, w), b = make_tensor(right, n, c, h, w);
        kas_tensor y = make_tensor(NULL, n, wide, h, w), back = make_tensor(NULL, n, c, h, w);
        kas_tensor first = y, second = y;
        first.c = second.c = (int)c;
        second.data = (char *)second.data + c * kas_dtype_size(the_dtype);
        kas_plan *plan = new_plan();
        OK(kas_op_copy(the_ops, plan, a, first));
        OK(kas_op_copy(the_ops, plan, b, second));
        OK(kas_op_copy(the_ops, plan, second, back));
        run_plan();
        check_tensor("concatenation", &y, both, 0);
        check_tensor("slice", &back, right, 0);
        FREE(a.data, b.data, y.data, back.data);
        free(left), free(right), free(both);
    }
}

/* To float32 and back, other pitches on both sides; the way there is exact. */
TEST(test_cast)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 2, h = 3, w = 5, wide = kas_pitch((int)c) + 4;
        const size_t size = (size_t)n * c * h * w;
        double *v = random_values(size, 1), *rounded = nan_values(size);
        for (size_t i = 0; i < size; i++) {
            v[i] = (float)(v[i] * 1.001);
            rounded[i] = number_round(the_dtype, v[i]);
        }
        const kas_tensor x = {to_device(v, n, c, h, w, wide), n, h, w, c, wide, KAS_F32};
        const kas_tensor back = {to_device(NULL, n, c, h, w, wide), n, h, w, c, wide, KAS_F32};
        kas_tensor y = make_tensor(NULL, n, c, h, w);
        kas_plan *plan = new_plan();
        OK(kas_op_cast(the_ops, plan, x, y));
        OK(kas_op_cast(the_ops, plan, y, back));
        y.n = 1;
        assert_int_equal(kas_op_cast(the_ops, plan, x, y), KAS_BAD_INPUT);
        run_plan();
        check_tensor("to float32 and back", &back, rounded, 0);
        FREE(x.data, back.data, y.data);
        free(v), free(rounded);
    }
}

/* The reference's order is PyTorch's: flattening is the identity there. */
TEST(test_flatten)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 3, h = 2, w = 5, flat = (int)c * h * w;
        double *v = random_values((size_t)n * flat, 1);
        kas_tensor x = make_tensor(v, n, c, h, w), y = make_tensor(NULL, n, flat, 1, 1);
        kas_tensor back = make_tensor(NULL, n, c, h, w), wrong = y;
        wrong.c--;
        kas_plan *plan = new_plan();
        OK(kas_op_flatten_forward(the_ops, plan, x, y));
        OK(kas_op_flatten_backward(the_ops, plan, y, back));
        assert_int_equal(kas_op_flatten_forward(the_ops, plan, x, wrong), KAS_BAD_INPUT);
        run_plan();
        check_tensor("flatten", &y, v, 0);
        check_tensor("flatten backward", &back, v, 0);
        FREE(x.data, y.data, back.data);
        free(v);
    }
}

/* `n` pixels: one chunk (a classifier's few rows), or several. */
static void run_bias(size_t n, size_t c)
{
    const size_t size = n * c;
    double *vy = random_values(size, 1), *vb = random_values(c, 2), *db = nan_values(c);
    kas_tensor y = make_tensor(vy, n, c, 1, 1), dy = make_tensor(vy, n, c, 1, 1);
    float *bias = array_to_device(vb, c), *dbias = array_to_device(NULL, c);
    float *scratch = array_to_device(NULL, kas_bias_scratch(&dy) + 1);
    for (size_t k = 0; k < c; k++) {
        db[k] = 0;
        for (size_t i = 0; i < n; i++)
            db[k] += vy[i * c + k];
    }
    for (size_t i = 0; i < size; i++)
        vy[i] += vb[i % c];
    kas_plan *plan = new_plan();
    OK(kas_op_bias_forward(the_ops, plan, y, bias));
    OK(kas_op_bias_backward(the_ops, plan, dy, dbias, scratch));
    run_plan();
    check_tensor("bias", &y, vy, 6e-8);
    check_array("bias backward", dbias, db, c, 3e-6);
    FREE(y.data, dy.data, bias, dbias, scratch);
    free(vy), free(vb), free(db);
}

TEST(test_bias)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        run_bias(37, c);
        run_bias(700, c);
    }
    print_worst("bias");
}

/* One operand off a multiple of 16 bytes. */
TEST(test_crooked)
{
    EACH_CROOKED(6)
    {
        test_add(state);
        test_multiply(state);
        test_copy(state);
        test_cast(state);
        test_bias(state);
    }
}

TEST(test_advance)
{
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

TEST(test_refusals)
{
    kas_tensor a = make_tensor(NULL, 2, 3, 4, 4), b = a, none = a;
    b.h = 3;
    none.data = NULL;
    kas_plan *plan = new_plan();
    assert_int_equal(kas_op_add(the_ops, plan, a, a, b), KAS_BAD_INPUT);
    assert_int_equal(kas_op_add(the_ops, plan, a, none, a), KAS_BAD_INPUT);
    const kas_pool pool = {.kernel_h = 2, .kernel_w = 2, .stride = 2, .pad_w = 2};
    assert_int_equal(kas_op_avg_pool_forward(the_ops, plan, &pool, a, a), KAS_BAD_INPUT);
    assert_int_equal(kas_op_max_pool_forward(the_ops, plan, &pool, a, a, NULL), KAS_BAD_INPUT);
    assert_int_equal(kas_op_multiply(the_ops, plan, a, b, a), KAS_BAD_INPUT);
    assert_int_equal(kas_op_multiply_sum(the_ops, plan, a, a, a), KAS_BAD_INPUT);
    assert_int_equal(kas_op_copy(the_ops, plan, a, b), KAS_BAD_INPUT);
    assert_int_equal(kas_op_global_pool_forward(the_ops, plan, a, a), KAS_BAD_INPUT);
    b = a;
    b.dtype = a.dtype == KAS_F32 ? KAS_BF16 : KAS_F32;
    assert_int_equal(kas_op_copy(the_ops, plan, a, b), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), kas_dtype_names[b.dtype]));
    a.pitch = 2;
    assert_int_equal(kas_op_copy(the_ops, plan, a, a), KAS_BAD_INPUT);
    run_plan();
    FREE(a.data);
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
