/* Training in 16 bits: one step against the float64 reference. */
#include "model_fixture.h"

#include "../ops/number.h"
#include "zoo_net.h"

static const kas_precision small[] = {KAS_PRECISION_BF16};

static kas_net *resnet20(void)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, 10, &net), KAS_OK);
    return net;
}

/* Length of the error of all gradients over the length of all gradients; NaN stays. */
static double error_of_gradients(pair *p)
{
    const kas_params *params = kas_model_params(p->model);
    double squares = 0;
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        if (param->kind == KAS_PARAM_STATISTIC)
            continue;
        float *gradient = malloc(sizeof *gradient * param->size);
        assert_non_null(gradient);
        assert_int_equal(kas_model_get_gradient(p->model, i, gradient), KAS_OK);
        for (size_t k = 0; k < param->size; k++) {
            const double off = gradient[k] - p->ref->param[i].grad[k];
            squares += off * off;
        }
        free(gradient);
    }
    return sqrt(squares) / length_of_gradients(p->ref);
}

/* One step of both. `most`: allowed error of loss, logits and gradients, in roundings of the
 * number; each layer rounds a few times, and a ReLU near its kink may take the other branch. */
static void check_small(pair *p, const char *name, double most)
{
    const double epsilon = number_epsilon(kas_precision_number(the_precision));
    const size_t count = 10 * (size_t)p->n;
    double *logits64 = malloc(sizeof *logits64 * count), loss;
    float *logits = malloc(sizeof *logits * count);
    const kas_metrics zero = {0};
    kas_metrics metrics;
    assert_true(logits64 && logits);
    assert_int_equal(kas_ref_net_step(p->ref, p->n, p->images64, p->labels, 0.1, &loss, logits64),
                     KAS_OK);
    kas_plan *plan = record(p, KAS_TAPE_TRAIN);
    assert_int_equal(kas_model_set_metrics(p->model, &zero), KAS_OK);
    assert_int_equal(kas_model_set_batch(p->model, KAS_TAPE_TRAIN, p->images, p->labels), KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_metrics(p->model, &metrics), KAS_OK);
    assert_int_equal(kas_model_get_logits(p->model, KAS_TAPE_TRAIN, logits), KAS_OK);
    const double off[3] = {fabs(metrics.batch_loss - loss), relative(logits, logits64, count),
                           error_of_gradients(p)};
    print_message("%s in %s, in roundings of %.1e: loss %.2f, logits %.1f, gradients %.1f; at most "
                  "%.0f\n",
                  name, kas_number_name(kas_precision_number(the_precision)), epsilon,
                  off[0] / epsilon, off[1] / epsilon, off[2] / epsilon, most);
    for (int i = 0; i < 3; i++)
        assert_true(off[i] <= most * epsilon);
    kas_plan_free(plan);
    free(logits);
    free(logits64);
}

static void steps_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        the_precision = small[i];
        pair p = make_pair_of(resnet20(), NULL, 8);
        check_small(&p, "resnet20", 60);
        free_pair(&p);
        p = make_pair_of(zoo_net(13, 9), NULL, 5);
        check_small(&p, "zoo", 60);
        free_pair(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_agree),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
