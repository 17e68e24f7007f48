/* The legality of NAS-PTE's sequences (section 4.1 of its paper): a transformed loop nest computes
 * what the kernel of its sequence computes, and a sequence that keeps every dependence computes what
 * the convolution computes.
 *
 * The judge is a small interpreter of loop nests, written from docs/sampling.md alone. It shares
 * the reader of sequences with the code that it judges, and nothing else. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/reference/kernel/reference.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/solve/solve.h"

enum { C = 16, SIDE = 12, K = 3, SIZE = C * SIDE * SIDE, LEAVES = 32, ORDER = 16 };

static const kas_target layer = KAS_TARGET_PLAIN("a", C, SIDE, SIDE, K);

/* ---- the interpreter ------------------------------------------------------------------------- */

/* A convolution over a part of the outputs. Ranges are [first, first + count). */
typedef struct nest {
    int co, cos, ci, cis, h, hs, w, ws; /* the outputs that it owns, and the inputs that it reads */
    int part[6];                        /* by loop: only the first 1/part is executed */
    int tiles, tile[4];
    int order[ORDER], loops;
    int weights; /* nests with different numbers have different weights */
    bool depthwise, fixed;
} nest;

typedef struct program {
    int nests;
    nest nest[LEAVES]; /* in the order of the output's parts */
} program;

static double x[SIZE], y[SIZE];

/* Those of the nest that was asked for last are kept: each of its statements asks. */
static double weight_of(int number, int co, int ci, int kh, int kw)
{
    enum { WEIGHTS = C * C * K * K };
    static double weight[WEIGHTS];
    static int kept = -1;
    for (int i = 0; number != kept && i < WEIGHTS; i++) {
        kas_rng rng = kas_rng_make(7 + (uint64_t)number, KAS_PURPOSE_TEST, (uint64_t)i);
        weight[i] = kas_rng_normal(&rng);
    }
    kept = number;
    return weight[((co * C + ci) * K + kh) * K + kw];
}

static int groups_of(const nest *n)
{
    int groups = 1;
    for (int t = 0; t < n->tiles; t++)
        groups *= n->tile[t];
    return groups;
}

/* How often a loop turns. */
static int extent(const nest *n, int loop)
{
    const int groups = n->depthwise ? 1 : groups_of(n);
    switch (loop) {
    case KAS_PTE_CO:
        return n->cos / n->part[KAS_PTE_CO] / groups;
    case KAS_PTE_CI:
        return n->cis / n->part[KAS_PTE_CI] / groups;
    case KAS_PTE_H:
        return n->hs / n->part[KAS_PTE_H];
    case KAS_PTE_W:
        return n->ws / n->part[KAS_PTE_W];
    case KAS_PTE_KH:
    case KAS_PTE_KW:
        return K / n->part[loop];
    default:
        return n->depthwise ? n->cos / n->part[KAS_PTE_CO] : n->tile[loop - KAS_PTE_G];
    }
}

/* Channel number of the group digits and the innermost one. */
static int channel(const nest *n, const int *at, int loop)
{
    int number = 0;
    if (n->depthwise)
        return at[KAS_PTE_G];
    for (int t = 0; t < n->tiles; t++)
        number = number * n->tile[t] + at[KAS_PTE_G + t];
    return number * extent(n, loop) + at[loop];
}

static void statement(const nest *n, const int *at)
{
    const int co = n->co + channel(n, at, KAS_PTE_CO), ci = n->ci + channel(n, at, KAS_PTE_CI);
    const int kh = n->part[KAS_PTE_KH] > 1 ? K / 2 : at[KAS_PTE_KH];
    const int kw = n->part[KAS_PTE_KW] > 1 ? K / 2 : at[KAS_PTE_KW];
    const int row = at[KAS_PTE_H] + kh - K / 2, column = at[KAS_PTE_W] + kw - K / 2;
    if (row < 0 || row >= extent(n, KAS_PTE_H) || column < 0 || column >= extent(n, KAS_PTE_W))
        return;
    y[(co * SIDE + n->h + at[KAS_PTE_H]) * SIDE + n->w + at[KAS_PTE_W]] +=
        weight_of(n->weights, co, ci, kh, kw) * x[(ci * SIDE + n->h + row) * SIDE + n->w + column];
}

static void run_loops(const nest *n, int depth, int *at)
{
    if (depth == n->loops) {
        statement(n, at);
        return;
    }
    const int loop = n->order[depth];
    for (at[loop] = 0; at[loop] < extent(n, loop); at[loop]++)
        run_loops(n, depth + 1, at);
    at[loop] = 0;
}

/* What is computed begins at 0; the rest keeps the input's value. */
static void clear(const nest *n)
{
    for (int c = 0; c < n->cos / n->part[KAS_PTE_CO]; c++)
        for (int h = 0; h < extent(n, KAS_PTE_H); h++)
            for (int w = 0; w < extent(n, KAS_PTE_W); w++)
                y[((n->co + c) * SIDE + n->h + h) * SIDE + n->w + w] = 0;
}

static void interpret(const program *p)
{
    memcpy(y, x, sizeof y);
    for (int i = 0; i < p->nests; i++) {
        int at[KAS_PTE_LOOPS] = {0};
        clear(&p->nest[i]);
        run_loops(&p->nest[i], 0, at);
    }
}

/* ---- the steps ------------------------------------------------------------------------------- */

static program begin(void)
{
    program p = {.nests = 1};
    p.nest[0] = (nest){.cos = C,
                       .cis = C,
                       .hs = SIDE,
                       .ws = SIDE,
                       .loops = 6,
                       .part = {1, 1, 1, 1, 1, 1},
                       .order = {0, 1, 2, 3, 4, 5}};
    return p;
}

static int find(const program *p, int leaf)
{
    for (int i = 0; i < p->nests; i++)
        if (!p->nest[i].fixed && leaf-- == 0)
            return i;
    fail_msg("no leaf");
    return 0;
}

/* Replaces nest i by n copies and returns the first. */
static nest *multiply(program *p, int i, int n)
{
    assert_true(p->nests + n - 1 <= LEAVES);
    memmove(&p->nest[i + n], &p->nest[i + 1], sizeof(nest) * (size_t)(p->nests - i - 1));
    for (int k = 1; k < n; k++)
        p->nest[i + k] = p->nest[i];
    p->nests += n - 1;
    return &p->nest[i];
}

static void swap(nest *n, int a, int b)
{
    for (int d = 0; d < n->loops; d++)
        n->order[d] = n->order[d] == a ? b : n->order[d] == b ? a : n->order[d];
}

static void drop(nest *n, int loop)
{
    int to = 0;
    for (int d = 0; d < n->loops; d++)
        if (n->order[d] != loop)
            n->order[to++] = n->order[d];
    n->loops = to;
}

static void bands(program *p, int i, bool rows, int count, bool slices)
{
    static int next = 1;
    nest *n = multiply(p, i, count);
    for (int k = 0; k < count; k++) {
        n[k].weights = next++;
        if (rows)
            n[k].h += k * (n[k].hs /= count);
        else
            n[k].w += k * (n[k].ws /= count);
        if (slices)
            n[k].ci += k * (n[k].cis /= count);
    }
}

static void tile(nest *n, int factor)
{
    memmove(n->order + 1, n->order, sizeof *n->order * (size_t)n->loops++);
    n->order[0] = KAS_PTE_G + n->tiles;
    n->tile[n->tiles++] = factor;
}

static void fuse(nest *n, int a, int b)
{
    n->tile[a - KAS_PTE_G] *= n->tile[b - KAS_PTE_G];
    drop(n, b);
    n->tiles--;
    for (int t = b - KAS_PTE_G; t < n->tiles; t++) {
        n->tile[t] = n->tile[t + 1];
        swap(n, KAS_PTE_G + t + 1, KAS_PTE_G + t);
    }
}

static void apply(program *p, const kas_pte_step *s)
{
    const int i = find(p, s->leaf), f = s->factor;
    nest *n = &p->nest[i];
    const int outer = n->order[0], second = n->order[1];
    const bool over_h = outer == KAS_PTE_H || second == KAS_PTE_H;
    const bool over_w = outer == KAS_PTE_W || second == KAS_PTE_W;
    switch (s->kind) {
    case KAS_PTE_INTERCHANGE:
        swap(n, s->loop[0], s->loop[1]);
        break;
    case KAS_PTE_FUSE:
        fuse(n, s->loop[0], s->loop[1]);
        break;
    case KAS_PTE_GROUP:
        if (over_h || over_w)
            bands(p, i, over_h, f, true);
        else
            tile(n, f);
        break;
    case KAS_PTE_GROUP_H:
    case KAS_PTE_GROUP_W:
        bands(p, i, s->kind == KAS_PTE_GROUP_H, f, true);
        break;
    case KAS_PTE_BANDS_H:
    case KAS_PTE_BANDS_W:
        bands(p, i, s->kind == KAS_PTE_BANDS_H, f, false);
        break;
    case KAS_PTE_DEPTHWISE:
        n->depthwise = true;
        drop(n, KAS_PTE_CI);
        for (int d = 0; d < n->loops; d++)
            n->order[d] = n->order[d] == KAS_PTE_CO ? KAS_PTE_G : n->order[d];
        break;
    case KAS_PTE_BOTTLENECK:
        n->part[outer] = f;
        break;
    case KAS_PTE_BOTTLENECK_IN:
        n->part[KAS_PTE_CI] = f;
        break;
    case KAS_PTE_BOTTLENECK_OUT:
        n->part[KAS_PTE_CO] = f;
        break;
    case KAS_PTE_BOTTLENECK_SPACE:
        n->part[KAS_PTE_H] = n->part[KAS_PTE_W] = f;
        break;
    case KAS_PTE_BOTTLENECK_H:
        n->part[KAS_PTE_H] = f;
        break;
    case KAS_PTE_BOTTLENECK_W:
        n->part[KAS_PTE_W] = f;
        break;
    case KAS_PTE_BOTTLENECK_KH:
        n->part[KAS_PTE_KH] = f;
        break;
    case KAS_PTE_BOTTLENECK_KW:
        n->part[KAS_PTE_KW] = f;
        break;
    case KAS_PTE_SPLIT:
        n = multiply(p, i, f);
        for (int k = 0; k < f; k++)
            n[k].co += k * (n[k].cos /= f);
        break;
    case KAS_PTE_UNROLL:
        n = multiply(p, i, 2);
        n[0].cos = f;
        n[0].fixed = true;
        for (int t = 0; t < n[0].tiles; t++)
            drop(&n[0], KAS_PTE_G + t);
        n[0].tiles = 0;
        n[1].co += f;
        n[1].ci += f;
        n[1].cos -= f;
        n[1].cis -= f;
        break;
    default:
        fail_msg("kind %d", s->kind);
    }
}

static program transform(const kas_pte_sequence *sequence)
{
    program p = begin();
    for (int s = 0; s < sequence->steps; s++)
        apply(&p, &sequence->step[s]);
    return p;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Fills the weights of a map: [groups][outputs][inputs of the group * rows * columns]. */
static void fill(const nest *n, double *weight, size_t size)
{
    const int groups = n->depthwise ? n->cos / n->part[KAS_PTE_CO] : groups_of(n);
    const int outs = n->depthwise ? 1 : extent(n, KAS_PTE_CO);
    const int ins = n->depthwise ? 1 : extent(n, KAS_PTE_CI);
    const int rows = extent(n, KAS_PTE_KH), columns = extent(n, KAS_PTE_KW);
    size_t at = 0;
    assert_int_equal(size, groups * outs * ins * rows * columns);
    for (int g = 0; g < groups; g++)
        for (int o = 0; o < outs; o++)
            for (int i = 0; i < ins; i++)
                for (int kh = 0; kh < rows; kh++)
                    for (int kw = 0; kw < columns; kw++)
                        weight[at++] =
                            weight_of(n->weights, n->co + g * outs + o, n->ci + g * ins + i,
                                      rows == 1 ? K / 2 : kh, columns == 1 ? K / 2 : kw);
}

static void evaluate(const kas_kernel *kernel, const program *p, double *out)
{
    const kas_binding binding = kas_target_binding(kernel, &layer);
    kas_reference *reference;
    double *weight[KAS_MAX_NODES];
    assert_int_equal(kas_reference_create(kernel, &layer, &binding, 1, &reference), KAS_OK);
    const int weights = kas_reference_weights(reference);
    assert_int_equal(weights, p->nests);
    for (int i = 0; i < weights; i++) {
        const size_t size = kas_reference_weight_size(reference, i);
        weight[i] = calloc(size, sizeof *weight[i]);
        assert_non_null(weight[i]);
        fill(&p->nest[i], weight[i], size);
    }
    assert_int_equal(kas_reference_forward(reference, x, (const double *const *)weight, out),
                     KAS_OK);
    for (int i = 0; i < weights; i++)
        free(weight[i]);
    kas_reference_free(reference);
}

/* Returns the largest difference, infinite when one is not finite. */
static double difference(const double *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < SIZE; i++) {
        const double d = fabs(a[i] - b[i]);
        if (!(d <= most))
            most = isfinite(d) ? d : INFINITY;
    }
    return most;
}

/* Returns how far the nest is from its kernel; *changed: how far from the convolution. */
static double judge(const kas_pte_sequence *sequence, const kas_kernel *kernel, double *changed)
{
    static double of_kernel[SIZE], convolution[SIZE];
    const program plain = begin(), p = transform(sequence);
    interpret(&plain);
    memcpy(convolution, y, sizeof y);
    interpret(&p);
    *changed = difference(convolution, y);
    evaluate(kernel, &p, of_kernel);
    return difference(of_kernel, y);
}

static void draw_input(void)
{
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < SIZE; i++)
        x[i] = kas_rng_normal(&rng);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static double judge_text(const char *text, double *changed, bool *program_only)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    if (kas_pte_parse(text, &sequence) != KAS_OK || kas_pte_kernel(&sequence, &kernel) != KAS_OK)
        fail_msg("%s: %s", text, kas_error());
    *program_only = kas_pte_check_program(&sequence) == KAS_OK;
    return judge(&sequence, &kernel, changed);
}

/* Each step, alone and in compositions, means the same to the interpreter and to the kernel. */
TEST(test_a_nest_computes_what_its_kernel_computes)
{
    static const struct {
        const char *sequence;
        bool program;
    } cases[] = {
        {"", true},
        {"interchange(co,ci)", true},
        {"interchange(ci,kw) interchange(h,kh) interchange(co,w)", true},
        {"split(2)", true},
        {"split(4) interchange(co,kh)@3", true},
        {"group(2)", false},
        {"depthwise", false},
        {"depthwise interchange(g,w)", false},
        {"bottleneck_in(8)", false},
        {"interchange(co,ci) bottleneck(8)", false},
        {"bottleneck(2)", false},
        {"interchange(co,h) bottleneck(3)", false},
        {"interchange(co,kw) bottleneck(3)", false},
        {"bottleneck_out(16)", false},
        {"bottleneck_h(6)", false},
        {"bottleneck_w(12)", false},
        {"bottleneck_kh(3)", false},
        {"bottleneck_kw(3)", false},
        {"bottleneck_kh(3) bottleneck_kw(3) group(4)", false},
        {"bottleneck_space(3) bottleneck_out(2)", false},
        {"bands_h(3)", false},
        {"bands_w(2) group(4)@1", false},
        {"unroll(4) group(3)", false},
        {"bands_h(2) unroll(4)@1 group(2)@0", false},
        /* a grouped leaf is grouped again, and the two group loops become one */
        {"group(2) interchange(g,ci) group(2)", false},
        {"group(2) interchange(g,ci) group(4) interchange(g2,co) interchange(g,ci) "
         "interchange(g,co)",
         false},
        {"group(2) interchange(g,ci) group(2) interchange(g2,g) interchange(ci,g2) fuse(g,g2)",
         false},
        /* bands that read a slice of the channels each, by steps and in short */
        {"interchange(co,h) group(2) interchange(co,h)@1", false},
        {"group_h(2) group(2)@1", false},
        {"group_w(4) bottleneck_in(2)@2", false},
        {"bands_h(2) group(2) group(2)@1", false},
    };
    double worst = 0;
    draw_input();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double changed;
        bool program_only;
        const double error = judge_text(cases[i].sequence, &changed, &program_only);
        worst = error > worst ? error : worst;
        if (!(error <= 1e-11))
            fail_msg("%s: the kernel is %g away from its nest", cases[i].sequence, error);
        if (program_only != cases[i].program || (changed <= 1e-11) != cases[i].program)
            fail_msg("%s: %s, and %g away from the convolution", cases[i].sequence,
                     program_only ? "a program transformation" : kas_error(), changed);
    }
    print_message("largest error %.3g, tolerance 1e-11\n", worst);
}

/* What is drawn, with loops interchanged behind it. */
TEST(test_drawn_nests)
{
    const kas_pte_fit fit = {.sizes = {C, SIDE, SIDE, K, K}};
    double worst = 0;
    int judged = 0;
    enum { DRAWS = 150 };
    draw_input();
    for (int n = 0; n < DRAWS; n++) {
        kas_rng rng = kas_rng_make(5, KAS_PURPOSE_TEST, (uint64_t)n);
        kas_pte_sequence drawn;
        kas_kernel kernel;
        double changed;
        if (!kas_pte_draw(&rng, &fit, 1, &drawn, &kernel))
            continue;
        const kas_binding binding = kas_target_binding(&kernel, &layer);
        if (kas_kernel_check_binding(&kernel, &binding) != KAS_OK)
            continue; /* nobody asked for sizes */
        drawn.step[drawn.steps++] = (kas_pte_step){
            .kind = KAS_PTE_INTERCHANGE, .factor = 1, .loop = {KAS_PTE_KH, KAS_PTE_KW}};
        OK(kas_pte_kernel(&drawn, &kernel));
        const double error = judge(&drawn, &kernel, &changed);
        worst = error > worst ? error : worst;
        judged++;
        if (!(error <= 1e-11))
            fail_msg("draw %d: the kernel is %g away from its nest", n, error);
        if (kas_pte_check_program(&drawn) == KAS_OK && !(changed <= 1e-11))
            fail_msg("draw %d: said to keep every dependence, but %g away", n, changed);
    }
    print_message("%d sequences, largest error %.3g, tolerance 1e-11\n", judged, worst);
    assert_in_range(judged, 75, DRAWS);
}

/* What no kernel can express is refused, and the message says what stands against it. */
TEST(test_illegal_sequences_name_the_dependence)
{
    static const struct {
        const char *sequence, *words;
    } cases[] = {
        {"group(2) group(2)", "step 1, group of leaf 0: one of its two outermost loops is a group"},
        {"interchange(ci,h) group(2)", "leave outputs without a write, and the next layer depends"},
        {"interchange(co,kh) group(3)", "both summed over"},
        {"fuse(co,ci)", "carry the dependence of the sum"},
        {"fuse(h,w)", "only loops that number parts of the same channels"},
        {"group(2) interchange(g,ci) group(2) fuse(g,g2)",
         "directly inside the first one: the "
         "iterations between them depend on both"},
        {"group(2) interchange(g,ci) group(2) interchange(g2,g) fuse(g,g2)", "directly inside"},
        {"group(2) interchange(g,ci) group(2) fuse(g2,g)", "g, then g2"},
        {"interchange(g,co)", "no such loop"},
        {"depthwise interchange(co,ci)", "no such loop"},
        {"interchange(co,co)", "two loops"},
        {"group(2) bottleneck(2)", "numbers outputs and inputs alike"},
        {"depthwise bottleneck(2)", "numbers outputs and inputs alike"},
        {"interchange(co,h) group(8)", "larger than the number of parts"},
        {"interchange(co,kh) bottleneck(2)", "less than 3"},
        {"bottleneck_kh(3) bottleneck_kh(3)", "one row already"},
        {"bottleneck_h(2) bottleneck_space(2)", "pixels are fewer already"},
        {"bottleneck_in(2) group_h(2)", "its inputs are fewer already"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_pte_sequence sequence;
        kas_kernel kernel;
        assert_int_equal(kas_pte_parse(cases[i].sequence, &sequence), KAS_OK);
        if (kas_pte_kernel(&sequence, &kernel) != KAS_ILLEGAL ||
            !strstr(kas_error(), cases[i].words))
            fail_msg("%s: \"%s\"", cases[i].sequence, kas_error());
    }
}

/* Section 5.3: the spatial bottleneck as a composition of interchanges and bottlenecks of the
 * outermost loop, as the paper writes it, is the one of BlockSwap's list. */
TEST(test_spatial_bottleneck_is_a_composition)
{
    static double short_one[SIZE];
    static const char *const chain =
        "interchange(co,h) interchange(ci,w) "                  /* [H, W, Co, Ci, Kh, Kw] */
        "bottleneck(2) "                                        /* [H(b), W, Co, Ci, Kh, Kw] */
        "interchange(h,w) "                                     /* [W, H(b), Co, Ci, Kh, Kw] */
        "bottleneck(2) "                                        /* [W(b), H(b), Co, Ci, Kh, Kw] */
        "interchange(w,co) interchange(h,ci) interchange(w,h)"; /* [Co, Ci, H(b), W(b), Kh, Kw] */
    double changed;
    bool program_only;
    draw_input();
    assert_true(judge_text("bottleneck_space(2)", &changed, &program_only) <= 1e-11);
    memcpy(short_one, y, sizeof y);
    assert_true(judge_text(chain, &changed, &program_only) <= 1e-11);
    assert_true(changed > 1e-3 && !program_only);
    assert_true(difference(short_one, y) <= 1e-11);
}

/* A neural transformation is marked as one, by the dependence that its first such step removes. */
TEST(test_neural_transformations_are_marked)
{
    kas_pte_sequence sequence;
    assert_int_equal(kas_pte_parse("split(2) bottleneck_in(2)@1 group(2)", &sequence), KAS_OK);
    assert_int_equal(kas_pte_check_program(&sequence), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "by step 1, bottleneck_in: no output depends on the input "
                                        "channels behind the first ones"));
}

RUN_TESTS()
