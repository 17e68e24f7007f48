/* Schedules as sequences of steps (schedule/sequence.h): what each step does to a nest, which
 * dependence forbids it, the paper's algorithms, and that no legal sequence changes a value.
 *
 * The judge is an interpreter of nests. (That the text does the same is what test_schedules
 * compares. Section 5's transformations, which change what is computed, are steps of NAS-PTE's
 * sequences: tests/unit/space/test_nas_pte_nest.) */
#include "sequence_fixture.h"

#include "jit/schedule/vary.h"

/* ---- kernels --------------------------------------------------------------------------------- */

/* Algorithm 2, with kernels of 1x1, and its loops as section 5.1 has them: T(co, ci, J'') = (g,
 * co/G, ci/G, J''). `whole`: all input channels, W is 0 outside of the groups. */
static void algorithm_2(bool whole, kas_nest *nest)
{
    const int64_t o[3] = {CO, OH, OW}, w[2] = {CO, CI}, in[3] = {CI, OH, OW};
    const int image = tensor(KAS_TENSOR_EXTERN, 3, in), weight = tensor(KAS_TENSOR_EXTERN, 2, w),
              out = tensor(KAS_TENSOR_DEF, 3, o);
    const int ci = kas_ir_var(&ir, whole ? CI : CI / GROUPS);
    const int *v = ir.tensor[out].var;
    const kas_ix first = kas_ix_scale(&ir, kas_ix_div(&ir, var(v[0]), CO / GROUPS), CI / GROUPS);
    const kas_ix c = whole ? var(ci) : kas_ix_add(&ir, first, var(ci));
    const kas_ix wi[2] = {var(v[0]), c}, ii[3] = {c, var(v[1]), var(v[2])};
    kas_ex e = product(load(weight, wi), load(image, ii));
    if (whole)
        e = kas_ex_guard(&ir, kas_ix_add(&ir, c, kas_ix_scale(&ir, first, -1)), 0, CI / GROUPS - 1,
                         e);
    OK(kas_nest_open(&ir, out, sum(ci, e), nest));
}

/* Algorithm 3: O[g][oh][ow] += W[g][kh][kw] * I[g][oh + kh][ow + kw] */
static void algorithm_3(kas_nest *nest)
{
    const int64_t o[3] = {CO, OH, OW}, w[3] = {CO, KERNEL, KERNEL},
                  in[3] = {CO, OH + KERNEL - 1, OW + KERNEL - 1};
    const int image = tensor(KAS_TENSOR_EXTERN, 3, in), weight = tensor(KAS_TENSOR_EXTERN, 3, w),
              out = tensor(KAS_TENSOR_DEF, 3, o), kh = kas_ir_var(&ir, KERNEL),
              kw = kas_ir_var(&ir, KERNEL);
    const int *v = ir.tensor[out].var;
    const kas_ix wi[3] = {var(v[0]), var(kh), var(kw)},
                 ii[3] = {var(v[0]), kas_ix_add(&ir, var(v[1]), var(kh)),
                          kas_ix_add(&ir, var(v[2]), var(kw))};
    OK(kas_nest_open(&ir, out, sum(kh, sum(kw, product(load(weight, wi), load(image, ii)))), nest));
}

static void assert_dependences(const kas_nest *nest, const char *wanted)
{
    kas_dependence list[8];
    kas_buf text = {0};
    int count;
    OK(kas_nest_dependences(&ir, nest, list, 8, &count));
    for (int i = 0; i < count; i++) {
        kas_buf_puts(&text, i ? "; " : "");
        kas_dependence_print(&list[i], &text);
    }
    assert_string_equal(kas_buf_text(&text), wanted);
    kas_buf_free(&text);
}

/* ---- the paper ------------------------------------------------------------------------------- */

/* Section 4: interchange, strip-mining and tiling of Algorithm 1, and where its loops may run. */
TEST_WITH(test_algorithm_1, set_up, free_ir)
{
    kas_nest open, nest;
    algorithm_1(&open);
    assert_dependences(&open, "S2 -> S2 (=, =, =, <)");
    /* T(co, h, w) = (co, w, h) */
    take_same(&open, "interchange d1 d2\nlane d1\nserial d0\nserial d2\n", 0, &nest);
    assert_int_equal(nest.loop[1], open.loop[2]);
    /* T(co, w, h, ci) = (co, w, h, ci / 32, ci mod 32) */
    take_same(&open, "split r0 32\nlane d2\nrows d1 2\nblock d0 x\nblock rows y\naround r0/32\n", 0,
              &nest);
    assert_dependences(&nest, "S2 -> S2 (=, =, =, =, <); S2 -> S2 (=, =, =, <, *)");
    /* The tile stands inside the lanes, and the loop over tiles around them: sums in two parts. */
    take_same(&open, "split r0 32\nlane d2\nblock d0 x\nserial d1\naround r0/32\nunroll r0%32\n",
              1e-12, &nest);
    /* The two parts change places: additions are marked associative. */
    take_same(&open, "split r0 32\ninterchange r0/32 r0%32\nlane d2\nblock d0 x\nserial d1\n",
              1e-12, &nest);
    /* Blocks, threads, and virtual threads */
    take_same(&open, "split d0 4\nlane d2\nvthread d0%4\nrows d1 4\nblock d0/4 x\n", 0, &nest);
    assert_true(nest.slides && nest.inner >= 0);
    assert_int_equal(nest.grid[0], CO / 4);
    assert_int_equal(nest.block[1], 4);
    /* Virtual threads share what a turn of the reduction around them loads, in either order. */
    take_same(&open, "lane d2\nvthread d0\nblock d1 x\naround r0\n", 0, &nest);
    take_same(&open, "split d0 4\nlane d2\naround r0\nvthread d0%4\nserial d1\nblock d0/4 x\n", 0,
              &nest);
    assert_true(nest.slides && nest.state[3] == KAS_LOOP_AROUND);
}

/* Section 5.1: grouping tiles both channel loops; each slice of the output then refers to its own
 * slice of the input, without a division, and is what the whole sum is with the other weights 0. */
TEST_WITH(test_algorithm_2, set_up, free_ir)
{
    static double all[VALUES], own[VALUES];
    kas_nest open, whole, nest;
    algorithm_2(false, &open);
    memcpy(memory[4], memory[1], sizeof memory[1]); /* the second kernel's operands */
    memcpy(memory[3], memory[0], sizeof memory[0]);
    algorithm_2(true, &whole);
    run(&open, own);
    run(&whole, all);
    for (int i = 0; i < CO * OH * OW; i++)
        assert_true(fabs(own[i] - all[i]) <= 1e-12);
    take_same(&open, "split d0 2\nlane d2\nrows d1 4\nblock d0/2 x\nserial d0%2\naround r0\n", 0,
              &nest);
    const kas_ex_node *body = kas_ex_get(&ir, kas_ex_get(&ir, nest.value)->a[0]);
    for (int i = 0; i < 2; i++) {
        const kas_ix_sum *s = kas_ix_get(&ir, kas_ex_get(&ir, body->a[i])->ix);
        for (int k = 0; k < s->terms; k++)
            assert_int_equal(kas_atom_get(&ir, s->term[k].atom)->kind, KAS_ATOM_VAR);
    }
}

/* Section 5.1: a bottleneck leaves out all but the first Co/B turns of the outer loop, which is
 * legal for no program: the outputs behind them are not written. What is left has the loops, the
 * dependences and the values of Algorithm 1. */
TEST_WITH(test_bottleneck, set_up, free_ir)
{
    static double all[VALUES], own[VALUES];
    kas_nest open, nest;
    algorithm_1(&open);
    run(&open, all);
    take_same(&open, "split d0 4\nlane d2\nserial d1\nblock d0/4 x\nserial d0%4\n", 0, &nest);
    ir.var_size[nest.loop[0]] /= 2; /* co / 4 < Co / 4 / 2 */
    run(&nest, own);
    for (int i = 0; i < CO * OH * OW; i++)
        assert_true(i < CO / 2 * OH * OW ? own[i] == all[i] : isnan(own[i]));
    assert_dependences(&nest, "S2 -> S2 (=, =, =, =, <)");
}

/* Depthwise: there are no channel loops left but g; windows may be staged and slide. */
TEST_WITH(test_algorithm_3, set_up, free_ir)
{
    kas_nest open, nest;
    algorithm_3(&open);
    assert_dependences(&open, "S2 -> S2 (=, =, =, =, <); S2 -> S2 (=, =, =, <, *)");
    take_same(&open, "lane d0\nvthread d2\nblock d1 x\nunroll r0\n", 1e-12, &nest);
    take_same(&open, "interchange r0 r1\nlane d0\nserial d1\nblock d2 x\nunroll r1\n", 1e-12,
              &nest);
    assert_dependences(&nest, "S2 -> S2 (=, =, =, =, <); S2 -> S2 (=, =, =, <, *)");
    assert_int_equal(kas_ex_get(&ir, nest.value)->var,
                     kas_ex_get(&ir, kas_ex_get(&ir, open.value)->a[0])->var);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST_WITH(test_refused, set_up, free_ir)
{
    static const char *const of_algorithm_1[][2] = {
        {"lane r0\n", "s:5: lane r0: illegal: dependence S2 -> S2"},
        {"block r0 x\n", "dependence S2 -> S2"},
        {"rows r0 8\n", "dependence S2 -> S2"},
        {"vthread d0\n", "only lanes that are no row"},
        {"lane d2\nvthread r0\n", "dependence S2 -> S2"},
        {"interchange d0 r0\n", "dependence S1 -> S2"},
        {"split d2 4\n", "the number must divide"},
        {"split d2 6\n", "the number must divide"},
        {"fuse d0 d2\n", "right inside the first"},
        {"fuse d2 r0\n", "right inside the first"},
        {"unroll r0\nunroll r0\n", "the reduction has its place already"},
        {"lane d2\nlane d1\n", "the lanes are another loop"},
        {"lane d2\nsplit d2 2\n", "the loop has its place already"},
        {"lane d2\nrows d2 2\n", "the loop has its place already"},
        {"lane d2\nrows d1 5\n", "a block has 2 rows or more"},
        {"lane d2\nrows d1 2\nrows d0 2\n", "the rows of a block are a loop already"},
        {"lane d2\nserial d1\nrows d0 2\n", "the order is lane, "},
        {"lane d2\nlanes 3\nlanes 2\nblock lanes x\n", "it was taken already"},
        {"lane d2\nlanes 7\n", "a block has 1 lane to all of them"},
        {"lane d2\nblock lanes x\n", "there is one chunk only"},
        {"lane d2\nblock rows x\n", "there is one chunk only"},
        {"lane d2\naround lanes\n", "no such loop"}, /* chunks have no variable */
        {"lane d2\nunroll rows\n", "no such loop"},
        {"lane d2\nrfactor lanes\n", "no such loop"},
        {"split lanes 2\n", "no such loop"},
        {"lane d2\nlanes 2\nblock lanes x\nblock lanes y\n", "the loop has its place already"},
        {"lane d2\nblock d1 x\nblock d0 x\n", "this coordinate of the block"},
        {"lane d2\nvectorise 4\n", "aligned runs of 16 bytes"},
        {"lane d0\nstage d1 4\n", "no load lies apart"},
        {"lane d2\nunswitch\n", "no windows"},
        {"lane d2\nblock d0 x\n", "loop d1 has no place"},
        {"lane d2\nlanes 2\nblock d0 x\nblock d1 y\n", "chunks of `lanes`"},
        {"lane d2\nunroll d1\nblock d0 x\naround r0\n", "keeps its sums there"},
        {"lane d2\naround r0\nunroll d1\n", "beside no reduction around them"},
        {"split r0 32\naround r0%32\n", "each turn of the reduction outside it uses its result"},
        {"lane d2\nrfactor d0\n", "only a reduction has parts"},
        {"split r0 32\nlane d2\nrfactor r0%32\n",
         "dependence S2 -> S2: each turn of the reduction"},
        {"lane d2\nrows d0 2\nrfactor r0\n", "the rows of a block are a loop already"},
        {"lane d2\nrfactor r0\nrows d0 2\n", "the rows of a block are a loop already"},
        {"lane d2\nrfactor r0\naround r0\n", "the reduction has its place already"},
        {"lane d2\nvthread d0\nrfactor r0\n", "hold a loop"},
        {"lane q\n", "s:5: found \"q\"; the loops here are lanes, rows, d0, d1, d2, r0"},
        {"split r0 32\nsplit r0 2\n", "found \"r0\""},
        {"tile d0 4\n", "a step is expected"},
        {"split d0\n", "found 1 word behind split; 2 are expected"},
        {"split d0 0\n", "a number from 1"},
        {"lane d2\nblock d0 q\n", "x, y or z"},
    };
    kas_nest open;
    ir.cpu = true;
    algorithm_1(&open);
    for (size_t i = 0; i < sizeof of_algorithm_1 / sizeof *of_algorithm_1; i++)
        assert_refused(&open, of_algorithm_1[i][0], of_algorithm_1[i][1]);
    assert_refused(&open, "lane d2\nprefetch r0\n", "dependence C -> S2: on a CPU");
    ir.cpu = false;
    assert_refused(&open, "lane d2\nstage d1 4\n", "all loops of the nest have their place before");
}

/* A short sum inside the lanes, each of which walks elements of its own: its tile holds all turns. */
TEST_WITH(test_refused_around_a_tile, set_up, free_ir)
{
    kas_nest open;
    const int64_t lanes = 8, elements = 64;
    const int x = tensor(KAS_TENSOR_EXTERN, 1, &elements), y = tensor(KAS_TENSOR_DEF, 1, &lanes);
    const int turn = kas_ir_var(&ir, 8);
    const kas_ix place = kas_ix_add(&ir, kas_ix_scale(&ir, var(ir.tensor[y].var[0]), 8), var(turn));
    ir.cpu = true;
    OK(kas_nest_open(&ir, y, sum(turn, kas_ex_load(&ir, x, place)), &open));
    assert_refused(&open, "lane d0\nstage r0 8\naround r0\n", "for all of them, inside the lanes");
    /* A long sum around the lanes, whose inner part is staged in each turn of what stands around it. */
    const int64_t longer = 8 * 64;
    const int z = tensor(KAS_TENSOR_EXTERN, 1, &longer), turns = kas_ir_var(&ir, 64);
    const kas_ix far = kas_ix_add(&ir, kas_ix_scale(&ir, var(ir.tensor[y].var[0]), 64), var(turns));
    OK(kas_nest_open(&ir, y, sum(turns, kas_ex_load(&ir, z, far)), &open));
    kas_nest nest;
    take_same(&open, "split r0 16\nsplit r0/16 2\nlane d0\nstage r0%16 16\naround r0/16/2\n", 0,
              &nest);
    assert_int_equal(nest.tiles, 1);
    assert_refused(&open, "split r0 32\nlane d0\nstage r0%32 32\nunroll r0/32\n", "turn by turn");
    assert_refused(&open, "split r0 32\nlane d0\nstage r0%32 32\nunroll r0%32\n", "turn by turn");
    ir.cpu = false;
}

/* Dependences that no convolution has: places of maxima, rows, columns, and elements written twice.
 * */
TEST_WITH(test_refused_dependences, set_up, free_ir)
{
    kas_nest open;
    const int64_t size = 8;
    const int x = tensor(KAS_TENSOR_EXTERN, 1, &size), y = tensor(KAS_TENSOR_DEF, 1, &size);
    const int a = kas_ir_var(&ir, 4), b = kas_ir_var(&ir, 2), d = ir.tensor[y].var[0];
    const kas_ix place = kas_ix_add(&ir, kas_ix_scale(&ir, var(a), 2), var(b));
    const kas_ex e = kas_ex_load(&ir, x, place);
    const kas_ex last =
        kas_ex_reduce(&ir, KAS_FN_REDUCE_ARGMAX, a, kas_ex_reduce(&ir, KAS_FN_REDUCE_ARGMAX, b, e));
    OK(kas_nest_open(&ir, y, last, &open));
    assert_refused(&open, "interchange r0 r1\n", "it reverses the dependence S2 -> S2 (=, <, *)");
    assert_refused(&open, "split r0 2\n", "is the number of its turn");
    assert_refused(&open, "lane d0\nrfactor r0\n", "dependence S2 -> S2: of equal elements");
    const kas_ex inner = kas_ex_reduce(&ir, KAS_FN_REDUCE_MAX, a, sum(b, e));
    OK(kas_nest_open(&ir, y, inner, &open));
    assert_refused(&open, "around r1\n", "each turn of the reduction outside it uses its result");
    assert_refused(&open, "interchange r0 r1\n", "be of its kind");
    OK(kas_nest_open(&ir, y, e, &open));
    open.store = kas_ix_const(&ir, 0); /* all turns write one element */
    assert_refused(&open, "lane d0\n", "dependence S3 -> S3");
    assert_refused(&open, "block d0 x\n", "dependence S3 -> S3");
    open.store = kas_ix_var(&ir, d);
    open.column = d;
    assert_refused(&open, "lane column\n", "dependence S2 -> S2'");
    assert_refused(&open, "split column 2\n", "dependence S2 -> S2'");
    open.column = -1;
    open.row = true;
    open.lane = d;
    open.lanes = size;
    assert_refused(&open, "block d0 x\n", "dependence S2 -> S3");
    assert_refused(&open, "split d0 2\n", "dependence S2 -> S3");
    assert_refused(&open, "lanes 4\n", "a row's lanes share a block");
}

/* Transposed operands are staged in tiles, along a loop or a reduction; windows lie inside the
 * image for most pixels; 16 bytes are written at once. */
TEST_WITH(test_tiles, set_up, free_ir)
{
    kas_nest open, nest;
    const int64_t size[2] = {32, 32};
    const int x = tensor(KAS_TENSOR_EXTERN, 2, size), y = tensor(KAS_TENSOR_DEF, 2, size),
              z = tensor(KAS_TENSOR_DEF, 1, size);
    const int *v = ir.tensor[y].var, k = kas_ir_var(&ir, 32);
    const kas_ix turned[2] = {var(v[1]), var(v[0])}, row[2] = {var(ir.tensor[z].var[0]), var(k)};
    ir.cpu = true;
    OK(kas_nest_open(&ir, y, load(x, turned), &open));
    take_same(&open, "lane d1\nstage d0 16\nlanes 16\nrows d0 16\nblock rows x\nblock lanes y\n", 0,
              &nest);
    assert_int_equal(nest.tiles, 1);
    assert_int_equal(nest.tile[0].turns, 16);
    assert_refused(&open, "lane d1\nstage d0 16\nrows d0 8\n", "has its place already");
    assert_refused(&open, "lane d1\nstage d0 16\nserial d0\n", "has its place already");
    assert_refused(&open, "lane d1\nstage d0 16\nsplit d0 2\n", "before tiles and blocks");
    assert_refused(&open, "lane d1\nstage d0 5\n", "a tile has at most 64 turns");
    assert_refused(&open, "lane d0\nvectorise 4\nserial d1\n", "aligned runs of 16 bytes");
    OK(kas_nest_open(&ir, z, sum(k, load(x, row)), &open));
    take_same(&open, "lane d0\nstage r0 32\naround r0\n", 0, &nest);
    assert_int_equal(nest.tiles, 1);
}

/* ---- random kernels -------------------------------------------------------------------------- */

static int64_t pick(kas_rng *rng, const int64_t *of, uint32_t count)
{
    return of[kas_rng_below(rng, count)];
}

/* Returns a load whose index is a random sum of the variables, clamped into its tensor. */
static kas_ex random_load(kas_rng *rng, int x, const int *v, int vars)
{
    static const int64_t strides[] = {0, 1, 1, 1, 4, 8, 16, 24};
    kas_ix ix = kas_ix_const(&ir, kas_rng_below(rng, 4));
    for (int i = 0; i < vars; i++) {
        kas_ix term = var(v[i]);
        if (v[i] >= 0 && kas_rng_below(rng, 4) == 0)
            term = kas_rng_below(rng, 2) ? kas_ix_div(&ir, term, 2) : kas_ix_mod(&ir, term, 2);
        ix = kas_ix_add(&ir, ix, kas_ix_scale(&ir, term, pick(rng, strides, 8)));
    }
    const kas_ex e = kas_ex_load(&ir, x, kas_ix_clamp(&ir, ix, 0, VALUES - 1));
    return kas_rng_below(rng, 3) ? e : kas_ex_guard(&ir, ix, 2, 200, e);
}

/* Makes a kernel of up to four loops and a chain of up to three reductions. */
static void random_kernel(kas_rng *rng, kas_nest *open)
{
    static const int64_t sizes[] = {1, 2, 3, 8, 12, 16, 16}, lengths[] = {2, 3, 4, 16};
    static const kas_fn fns[] = {KAS_FN_REDUCE_SUM, KAS_FN_REDUCE_SUM, KAS_FN_REDUCE_MAX,
                                 KAS_FN_REDUCE_ARGMAX};
    const int64_t flat = VALUES;
    int64_t size[4];
    int v[8], vars = 0;
    const int rank = 1 + (int)kas_rng_below(rng, 4), reductions = (int)kas_rng_below(rng, 4);
    for (int d = 0; d < rank; d++)
        size[d] = d < 2 ? pick(rng, sizes, 7) : pick(rng, sizes, 3);
    ir.cpu = kas_rng_below(rng, 2);
    const int x = tensor(KAS_TENSOR_EXTERN, 1, &flat), y = tensor(KAS_TENSOR_DEF, rank, size);
    for (int d = 0; d < rank; d++)
        v[vars++] = ir.tensor[y].var[d];
    for (int r = 0; r < reductions; r++)
        v[vars++] = kas_ir_var(&ir, pick(rng, lengths, 4));
    kas_ex e = product(random_load(rng, x, v, vars), random_load(rng, x, v, vars));
    const kas_fn one = fns[kas_rng_below(rng, 4)];
    for (int r = 0; r < reductions; r++) {
        const kas_fn fn = kas_rng_below(rng, 3) ? one : fns[kas_rng_below(rng, 4)];
        e = kas_ex_reduce(&ir, fn, v[rank + r], e);
    }
    OK(kas_nest_open(&ir, y, kas_ex_binary(&ir, KAS_FN_ADD, e, random_load(rng, x, v, rank)),
                     open));
}

/* A schedule comes back from its text, and the same text of the kernel with it. */
static void assert_round_trip(const kas_nest *open, const kas_nest *nest)
{
    kas_buf text = {0}, second = {0};
    kas_nest again;
    kas_schedule_print(&ir, nest, "f0", &text);
    const char *steps = strchr(strchr(kas_buf_text(&text), '\n') + 1, '\n') + 1;
    if (take(open, steps, &again) != KAS_OK)
        fail_msg("%s\n%s", kas_error(), kas_buf_text(&text));
    kas_schedule_print(&ir, &again, "f0", &second);
    assert_string_equal(kas_buf_text(&second), kas_buf_text(&text));
    kas_buf_free(&text);
    kas_buf_free(&second);
}

TEST_WITH(test_random, set_up, free_ir)
{
    enum { KERNELS = 500 };
    int steps[KAS_STEP_KINDS] = {0}, exact = 0, boxed = 0;
    for (int k = 0; k < KERNELS; k++) {
        kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, (uint64_t)k);
        kas_nest open, nest;
        kas_schedule schedule, usual;
        kas_ir_free(&ir);
        OK(kas_ir_init(&ir));
        random_kernel(&rng, &open);
        nest = open;
        OK(kas_schedule_default(&ir, &open, &usual));
        OK(kas_schedule_vary(&ir, &open, &usual, &rng, &schedule));
        OK(kas_schedule_apply(&ir, &schedule, &nest));
        OK(kas_nest_prove_bounds(&ir, &nest));
        const bool other = reorders(&open, &nest);
        same_values(&open, &nest, other ? 1e-12 : 0);
        assert_round_trip(&open, &nest);
        exact += !other;
        boxed += nest.boxes > 0;
        for (int i = 0; i < schedule.steps; i++)
            steps[schedule.step[i].kind]++;
    }
    printf("%d of %d schedules keep the order of sums, %d read shared memory; steps:", exact,
           KERNELS, boxed);
    for (int i = 0; i < KAS_STEP_KINDS; i++)
        printf(" %s %d", kas_step_forms[i].word, steps[i]);
    printf("\n");
    for (int i = 0; i < KAS_STEP_KINDS; i++)
        assert_true(steps[i] > 0 || i == KAS_STEP_UNSWITCH);
    assert_true(exact >= KERNELS / 3 && boxed >= KERNELS / 50);
}

RUN_TESTS()
