/* Average pools and the shortcut of option A, both passes. */
#include "op_case.h"

#include "host/reference/layers.h"

/* x [2][c][h][w] <-> y [2][c_out][oh][ow] */
typedef struct pair {
    int h, w, c, oh, ow, c_out;
    double *vx, *vy, *x, *dy, *y, *dx; /* expected, given */
    kas_tensor tx, tdy, ty, tdx;
} pair;

static pair make_pair(int h, int w, int c, int oh, int ow, int c_out)
{
    const size_t large = (size_t)2 * c * h * w, small = (size_t)2 * c_out * oh * ow;
    pair p = {h, w, c, oh, ow, c_out, .x = random_values(large, 1), .dy = random_values(small, 2)};
    p.y = nan_values(small), p.dx = nan_values(large);
    p.tx = make_tensor(p.x, 2, c, h, w), p.tdy = make_tensor(p.dy, 2, c_out, oh, ow);
    p.ty = make_tensor(NULL, 2, c_out, oh, ow), p.tdx = make_tensor(NULL, 2, c, h, w);
    return p;
}

static void check_pair(pair *p, const char *what, double tolerance)
{
    run_plan();
    check_tensor(what, &p->ty, p->y, tolerance);
    check_tensor(what, &p->tdx, p->dx, tolerance);
    FREE(p->tx.data, p->tdy.data, p->ty.data, p->tdx.data);
    free(p->x), free(p->dy), free(p->y), free(p->dx);
}

static const int sizes[][2] = {{8, 8}, {9, 7}, {1, 5}, {5, 6}};

static void test_avg_pool(void **state)
{
    (void)state;
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int i = 0; i < 4; i++)
        for (int s = 1; s <= 3; s++) {
            const int h = sizes[i][0], w = sizes[i][1];
            pair p = make_pair(h, w, (int)c, (h + s - 1) / s, (w + s - 1) / s, (int)c);
            kas_ref_avg_pool_forward(2, (int)c, h, w, s, p.x, p.y);
            kas_ref_avg_pool_backward(2, (int)c, h, w, s, p.dy, p.dx);
            kas_plan *plan = new_plan();
            OK(kas_op_avg_pool_forward(the_ops, plan, s, p.tx, p.ty));
            OK(kas_op_avg_pool_backward(the_ops, plan, s, p.tdy, p.tdx));
            check_pair(&p, "average pool", 3e-7);
        }
    print_worst("average pool");
}

static void test_global_pool(void **state)
{
    (void)state;
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int i = 0; i < 4; i++) {
        const int h = sizes[i][0], w = sizes[i][1];
        pair p = make_pair(h, w, (int)c, 1, 1, (int)c);
        for (size_t k = 0; k < 2 * c; k++) {
            p.y[k] = 0;
            for (int j = 0; j < h * w; j++) {
                p.y[k] += p.x[k * h * w + j] / (h * w);
                p.dx[k * h * w + j] = p.dy[k] / (h * w);
            }
        }
        kas_plan *plan = new_plan();
        OK(kas_op_global_pool_forward(the_ops, plan, p.tx, p.ty));
        OK(kas_op_global_pool_backward(the_ops, plan, p.tdy, p.tdx));
        check_pair(&p, "global pool", 1e-6);
    }
    print_worst("global pool");
}

static void test_shortcut_a(void **state)
{
    (void)state;
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int i = 0; i < 4; i++)
        for (int s = 1; s <= 2; s++) {
            const int h = sizes[i][0], w = sizes[i][1], more = (int)c * s;
            pair p = make_pair(h, w, (int)c, (h + s - 1) / s, (w + s - 1) / s, more);
            kas_ref_shortcut_a_forward(2, (int)c, h, w, more, s, p.x, p.y);
            kas_ref_shortcut_a_backward(2, (int)c, h, w, more, s, p.dy, p.dx);
            kas_plan *plan = new_plan();
            OK(kas_op_shortcut_a_forward(the_ops, plan, s, p.tx, p.ty));
            OK(kas_op_shortcut_a_backward(the_ops, plan, s, p.tdy, p.tdx));
            check_pair(&p, "shortcut", 0);
        }
    print_worst("shortcut");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avg_pool),
        cmocka_unit_test(test_global_pool),
        cmocka_unit_test(test_shortcut_a),
    };
    return cmocka_run_group_tests(tests, open_the_ops, close_the_ops);
}
