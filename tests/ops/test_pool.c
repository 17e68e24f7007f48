/* Pools and the shortcut of option A, both passes. */
#include "op_case.h"

#include "host/reference/net/layers.h"

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

static bool special; /* NaN is among the inputs */

static void check_pair(pair *p, const char *what, double tolerance)
{
    run_plan();
    (special ? check_special : check_tensor)(what, &p->ty, p->y, tolerance);
    (special ? check_special : check_tensor)(what, &p->tdx, p->dx, tolerance);
    FREE(p->tx.data, p->tdy.data, p->ty.data, p->tdx.data);
    free(p->x), free(p->dy), free(p->y), free(p->dx);
}

static const int sizes[][2] = {{8, 8}, {9, 7}, {1, 5}, {5, 6}};

TEST(test_avg_pool)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int i = 0; i < 4; i++)
        for (int s = 1; s <= 3; s++) {
            const int h = sizes[i][0], w = sizes[i][1];
            pair p = make_pair(h, w, (int)c, (h + s - 1) / s, (w + s - 1) / s, (int)c);
            const kas_ref_pool ref = {s, s, s, 0, 0, false};
            kas_ref_avg_pool_forward(&ref, 2, (int)c, h, w, p.oh, p.ow, p.x, p.y);
            kas_ref_avg_pool_backward(&ref, 2, (int)c, h, w, p.oh, p.ow, p.dy, p.dx);
            kas_plan *plan = new_plan();
            const kas_pool pool = kas_pool_of_stride(s);
            OK(kas_op_avg_pool_forward(the_ops, plan, &pool, p.tx, p.ty));
            OK(kas_op_avg_pool_backward(the_ops, plan, &pool, p.tdy, p.tdx));
            check_pair(&p, "average pool", 3e-7);
        }
    print_worst("average pool");
}

/* Windows that overlap, are not square, reach into padding and beyond it. */
static const struct {
    int h, w, kernel_h, kernel_w, stride, pad_h, pad_w, oh, ow;
} windows[] = {
    {9, 7, 3, 3, 2, 1, 1, 5, 4}, {8, 8, 3, 3, 2, 1, 1, 4, 4}, /* of the ResNets */
    {8, 6, 3, 2, 2, 1, 1, 5, 4},                              /* ceil mode */
    {6, 5, 3, 3, 1, 1, 1, 6, 5}, {5, 11, 1, 7, 3, 0, 3, 2, 4}, {7, 7, 7, 7, 1, 0, 0, 1, 1},
};
#define EACH_WINDOW(v) for (size_t v = 0; v < sizeof windows / sizeof *windows; v++)
/* Less than a vector, whole vectors, and several blocks of lanes. */
static const int few_channels[] = {6, 16, 130};
#define FEW_CHANNELS(c) EACH_OF_CHANNELS(c, few_channels)

TEST(test_windows)
{
    FEW_CHANNELS(c)
    EACH_ORDER(order)
    EACH_WINDOW(v)
    for (int counted = 0; counted < 2; counted++) {
        const int h = windows[v].h, w = windows[v].w, oh = windows[v].oh, ow = windows[v].ow;
        const kas_pool pool = {windows[v].kernel_h,
                               windows[v].kernel_w,
                               windows[v].stride,
                               windows[v].pad_h,
                               windows[v].pad_w,
                               counted,
                               false};
        const kas_ref_pool ref = {pool.kernel_h, pool.kernel_w, pool.stride,
                                  pool.pad_h,    pool.pad_w,    counted};
        pair p = make_pair(h, w, (int)c, oh, ow, (int)c);
        kas_ref_avg_pool_forward(&ref, 2, (int)c, h, w, oh, ow, p.x, p.y);
        kas_ref_avg_pool_backward(&ref, 2, (int)c, h, w, oh, ow, p.dy, p.dx);
        kas_plan *plan = new_plan();
        OK(kas_op_avg_pool_forward(the_ops, plan, &pool, p.tx, p.ty));
        OK(kas_op_avg_pool_backward(the_ops, plan, &pool, p.tdy, p.tdx));
        check_pair(&p, "average pool", 1e-6);
    }
    print_worst("average pool, any window");
}

/* Compares all windows; `put` changes the values that are pooled. */
static void check_max_pool(const char *what, void (*put)(double *x, size_t count))
{
    FEW_CHANNELS(c)
    EACH_ORDER(order)
    EACH_WINDOW(v)
    {
        const int h = windows[v].h, w = windows[v].w, oh = windows[v].oh, ow = windows[v].ow;
        const kas_pool pool = {windows[v].kernel_h,
                               windows[v].kernel_w,
                               windows[v].stride,
                               windows[v].pad_h,
                               windows[v].pad_w,
                               false,
                               false};
        const kas_ref_pool ref = {pool.kernel_h, pool.kernel_w, pool.stride,
                                  pool.pad_h,    pool.pad_w,    false};
        pair p = make_pair(h, w, (int)c, oh, ow, (int)c);
        put(p.x, (size_t)2 * c * h * w);
        FREE(p.tx.data);
        p.tx = make_tensor(p.x, 2, c, h, w);
        kas_ref_max_pool_forward(&ref, 2, (int)c, h, w, oh, ow, p.x, p.y);
        kas_ref_max_pool_backward(&ref, 2, (int)c, h, w, oh, ow, p.x, p.dy, p.dx);
        float *index = array_to_device(NULL, (kas_tensor_size(&p.ty) + 3) / 4);
        kas_plan *plan = new_plan();
        OK(kas_op_max_pool_forward(the_ops, plan, &pool, p.tx, p.ty, (uint8_t *)index));
        OK(kas_op_max_pool_backward(the_ops, plan, &pool, (uint8_t *)index, p.tdy, p.tdx));
        check_pair(&p, what, 3e-7);
        FREE(index);
    }
}

static void put_ties(double *x, size_t count)
{
    for (size_t i = 0; i < count; i += 2)
        x[i] = -0.25 * (double)(i % 3);
}

TEST(test_max_pool)
{
    check_max_pool("max pool", put_ties);
    print_worst("max pool");
}

/* NaN wins over everything, the last one of a window, and infinities are numbers like others. */
TEST(test_max_pool_special)
{
    special = true;
    check_max_pool("max pool of NaN", put_special);
    special = false;
}

TEST(test_adaptive_pool)
{
    static const int to[][2] = {{1, 1}, {2, 3}, {7, 7}, {5, 4}};
    const kas_pool pool = {.adaptive = true};
    FEW_CHANNELS(c)
    EACH_ORDER(order)
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const int h = sizes[i][0], w = sizes[i][1], oh = to[k][0], ow = to[k][1];
            pair p = make_pair(h, w, (int)c, oh, ow, (int)c);
            kas_ref_adaptive_pool_forward(2, (int)c, h, w, oh, ow, p.x, p.y);
            kas_ref_adaptive_pool_backward(2, (int)c, h, w, oh, ow, p.dy, p.dx);
            kas_plan *plan = new_plan();
            OK(kas_op_avg_pool_forward(the_ops, plan, &pool, p.tx, p.ty));
            OK(kas_op_avg_pool_backward(the_ops, plan, &pool, p.tdy, p.tdx));
            check_pair(&p, "adaptive pool", 1e-6);
        }
    print_worst("adaptive pool");
}

TEST(test_global_pool)
{
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

TEST(test_shortcut_a)
{
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

/* One operand off a multiple of 16 bytes; the max pool's comes sixth, and its input is made twice.
 */
TEST(test_crooked)
{
    EACH_CROOKED(6)
    {
        test_avg_pool(state);
        test_max_pool(state);
        test_global_pool(state);
        test_shortcut_a(state);
    }
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
