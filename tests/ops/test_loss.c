/* Cross entropy with its gradient and its sums. */
#include "op_case.h"

#include "host/reference/net/layers.h"

static kas_metrics *new_metrics(void)
{
    kas_metrics *metrics;
    OK(kas_mem_alloc(the_device, sizeof *metrics, (void **)&metrics));
    OK(kas_mem_zero(the_device, metrics, sizeof *metrics));
    return metrics;
}

static uint16_t *upload_labels(const uint16_t *host, int n)
{
    uint16_t *labels;
    OK(kas_mem_alloc(the_device, (size_t)n * 2, (void **)&labels));
    OK(kas_mem_upload(the_device, labels, host, (size_t)n * 2));
    return labels;
}

static int answer(const double *logits, int classes)
{
    int best = 0;
    for (int k = 1; k < classes; k++)
        if (logits[k] > logits[best])
            best = k;
    return best;
}

static void run_case(int n, int classes, double smoothing, double scale)
{
    double *logits = random_values((size_t)n * classes, 1), *want = nan_values((size_t)n * classes);
    uint16_t host[300];
    int correct = 0;
    for (int i = 0; i < n * classes; i++)
        logits[i] = (float)(logits[i] * scale);
    if (classes > 2)
        logits[1] = logits[2] = 40; /* a tie: the first is the answer */
    for (int i = 0; i < n; i++) {
        const int best = answer(logits + (size_t)i * classes, classes);
        host[i] = (uint16_t)(i % 3 == 0 ? best : (best + i) % classes);
        correct += host[i] == best;
    }
    const double loss = kas_ref_cross_entropy(n, classes, smoothing, logits, host, want);
    kas_tensor z = make_tensor(logits, n, classes, 1, 1), dz = make_tensor(NULL, n, classes, 1, 1);
    uint16_t *labels = upload_labels(host, n);
    kas_metrics *metrics = new_metrics(), got;
    float *scratch = array_to_device(NULL, 2 * (size_t)n);
    kas_plan *plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, smoothing, NULL, dz, NULL, metrics, scratch));
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, smoothing, NULL, dz, NULL, metrics, scratch));
    run_plan();
    check_tensor("dlogits", &dz, want, 2e-6);
    OK(kas_mem_download(the_device, &got, metrics, sizeof got));
    compare("loss", &got.batch_loss, &loss, 1, 2e-6);
    const double sum = 2 * n * loss;
    compare("sum of losses", &got.loss_sum, &sum, 1, 2e-6);
    assert_int_equal(got.correct, 2 * correct);
    assert_int_equal(got.counted, 2 * n);
    FREE(z.data, dz.data, labels, metrics, scratch);
    free(logits), free(want);
}

TEST(test_cross_entropy)
{
    EACH_ORDER(order)
    {
        run_case(7, 10, 0, 1);
        run_case(128, 10, 0.1, 3);
        run_case(31, 100, 0.1, 1);
        run_case(3, 1000, 0.1, 1);
        run_case(300, 3, 0, 1);
        run_case(5, 2, 0.2, 30);
        run_case(2, 65535, 0, 1); /* as many as a data set may have */
    }
    print_worst("cross entropy");
}

/* One operand off a multiple of 16 bytes. */
TEST(test_crooked)
{
    EACH_CROOKED(2)
    EACH_ORDER(order)
    run_case(31, 100, 0.1, 1);
}

/* Padding of the last batch: label 0xFFFF, logits NaN. Nothing of it may reach the sums. */
TEST(test_padding)
{
    double logits[4 * 5];
    for (int i = 0; i < 20; i++)
        logits[i] = i < 10 ? i % 3 : NAN;
    uint16_t host[4] = {2, 1, KAS_NO_LABEL, KAS_NO_LABEL};
    kas_tensor z = make_tensor(logits, 4, 5, 1, 1), dz = make_tensor(NULL, 4, 5, 1, 1), none = {0};
    uint16_t *labels = upload_labels(host, 4);
    kas_metrics *metrics = new_metrics(), got;
    float *scratch = array_to_device(NULL, 8);
    kas_plan *plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, 0, NULL, dz, NULL, metrics, scratch));
    run_plan();
    double want[20] = {0}, *gradient = from_device(dz.data, 4, 5, 1, 1, dz.pitch);
    compare("dlogits of padding", gradient + 10, want, 10, 0);
    plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, 0, NULL, none, NULL, metrics, scratch));
    run_plan();
    OK(kas_mem_download(the_device, &got, metrics, sizeof got));
    const double loss = kas_ref_cross_entropy(2, 5, 0, logits, host, NULL);
    compare("loss", &got.batch_loss, &loss, 1, 1e-6);
    assert_int_equal(got.counted, 4);
    assert_int_equal(got.correct, 2);
    FREE(z.data, dz.data, labels, metrics, scratch);
    free(gradient);
}

/* Two labels: the loss is linear in the target, so it is the sum of both by their shares. */
static void run_mixed(int n, int classes, double smoothing, float share)
{
    double *logits = random_values((size_t)n * classes, 1), *want = nan_values((size_t)n * classes),
           *second = nan_values((size_t)n * classes);
    uint16_t host[64], next[64];
    int correct = 0;
    for (int i = 0; i < n; i++)
        host[i] = (uint16_t)(i * 7 % classes);
    host[1] = host[0]; /* an image whose next has the same label */
    for (int i = 0; i < n; i++) {
        next[i] = host[(i + 1) % n];
        correct += answer(logits + (size_t)i * classes, classes) == (share < 0.5f ? next : host)[i];
    }
    double loss = (double)share * kas_ref_cross_entropy(n, classes, smoothing, logits, host, want);
    loss +=
        (1 - (double)share) * kas_ref_cross_entropy(n, classes, smoothing, logits, next, second);
    for (int i = 0; i < n * classes; i++)
        want[i] = (double)share * want[i] + (1 - (double)share) * second[i];
    const kas_step_row rows[2] = {{.share = NAN}, {.share = share}};
    const kas_step_state at = {.step = 1};
    void *device_rows, *state;
    OK(kas_mem_alloc(the_device, sizeof rows, &device_rows));
    OK(kas_mem_upload(the_device, device_rows, rows, sizeof rows));
    OK(kas_mem_alloc(the_device, sizeof at, &state));
    OK(kas_mem_upload(the_device, state, &at, sizeof at));
    kas_tensor z = make_tensor(logits, n, classes, 1, 1), dz = make_tensor(NULL, n, classes, 1, 1);
    uint16_t *labels = upload_labels(host, n);
    kas_metrics *metrics = new_metrics(), got;
    float *scratch = array_to_device(NULL, 2 * (size_t)n);
    const kas_mix mix = {device_rows, state};
    kas_plan *plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, smoothing, &mix, dz, NULL, metrics, scratch));
    run_plan();
    check_tensor("dlogits of mixed images", &dz, want, 2e-6);
    OK(kas_mem_download(the_device, &got, metrics, sizeof got));
    compare("loss of mixed images", &got.batch_loss, &loss, 1, 2e-6);
    assert_int_equal(got.correct, correct);
    FREE(z.data, dz.data, labels, metrics, scratch, device_rows, state);
    free(logits), free(want), free(second);
}

TEST(test_mixed)
{
    EACH_ORDER(order)
    {
        run_mixed(16, 10, 0.1, 0.7f);
        run_mixed(5, 300, 0, 0.2f);
        run_mixed(64, 3, 0.1, 0);
        run_mixed(64, 3, 0.1, 1);
    }
    print_worst("two labels");
}

/* A loss that is not finite must show. */
TEST(test_nan_shows)
{
    double logits[6] = {1, 2, 3, 1, NAN, 3};
    kas_tensor z = make_tensor(logits, 2, 3, 1, 1), none = {0};
    uint16_t *labels = upload_labels((uint16_t[]){0, 1}, 2);
    kas_metrics *metrics = new_metrics(), got;
    float *scratch = array_to_device(NULL, 4);
    kas_plan *plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, labels, 0, NULL, none, NULL, metrics, scratch));
    run_plan();
    OK(kas_mem_download(the_device, &got, metrics, sizeof got));
    assert_false(isfinite(got.batch_loss));
    assert_int_equal(got.correct, 0);
    FREE(z.data, labels, metrics, scratch);
}

RUN_TESTS(open_the_ops, close_the_ops)
