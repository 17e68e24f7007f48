/* Steps that use the memory that a GPU's block shares (schedule/sequence.h): `rfactor`, `stage` and
 * `prefetch`. What they do to a nest, what forbids them, and what they are predicted to gain. */
#include "sequence_fixture.h"

#include "jit/schedule/nest.h"

/* A reduction whose turns are rows of the block: of Algorithm 1 the threads y have parts of a sum. */
TEST_WITH(test_parts, set_up, free_ir)
{
    kas_nest open, nest;
    ir.cpu = false;
    algorithm_1(&open);
    take_same(&open,
              "split r0 8\ninterchange r0/8 r0%8\nlane d2\nrfactor r0%8\nblock d0 x\nblock d1 y\n",
              1e-12, &nest);
    assert_int_equal(nest.block[1], 8);
    assert_true(reorders(&open, &nest));
    assert_true(nest.part_words == 8.0 * (double)nest.lanes);
    take_same(&open, "split r0 8\nlane d2\nrfactor r0/8\nserial d0\nblock d1 y\n", 1e-12, &nest);
    assert_int_equal(nest.parts, ir.var_size[nest.var_of[4]]);
}

/* Returns what a GPU is predicted to take for a schedule. */
static double predicted(const kas_nest *open, const char *steps)
{
    kas_nest nest;
    double seconds, least;
    take_same(open, steps, 1e-12, &nest);
    OK(kas_nest_price(&ir, &nest, &seconds, &least));
    return seconds;
}

/* Few results of a long sum: threads that share a sum wait for fewer loads, one behind the other;
 * and where they are staged, for those of the first turn only. */
TEST_WITH(test_predicted, set_up, free_ir)
{
    kas_nest open;
    const int64_t size = 16;
    const int x = tensor(KAS_TENSOR_EXTERN, 2, (const int64_t[]){256, 16}),
              z = tensor(KAS_TENSOR_EXTERN, 2, (const int64_t[]){16, 256}),
              y = tensor(KAS_TENSOR_DEF, 1, &size), r = kas_ir_var(&ir, 256);
    const int *v = ir.tensor[y].var;
    const kas_ix aligned[2] = {var(r), var(v[0])}, apart[2] = {var(v[0]), var(r)};
    ir.cpu = false;
    OK(kas_nest_open(&ir, y, sum(r, load(x, aligned)), &open));
    const double alone = predicted(&open, "lane d0\naround r0\n");
    assert_true(predicted(&open, "split r0 8\nlane d0\nrfactor r0/8\n") < alone / 4);
    assert_true(predicted(&open, "split r0 128\nlane d0\nrfactor r0/128\n") > alone / 4);
    OK(kas_nest_open(&ir, y, sum(r, load(z, apart)), &open));
    const double staged = predicted(&open, "split r0 8\nlane d0\naround r0/8\nstage r0%8 8\n");
    assert_true(predicted(&open, "split r0 8\nlane d0\naround r0/8\nstage r0%8 8\n"
                                 "prefetch r0%8\n") < 0.7 * staged);
}

/* A GPU's block copies what its lanes read apart to shared memory: in front of its rows, or in each
 * turn of a reduction around the lanes, where all threads must have as many rows. */
TEST_WITH(test_boxes, set_up, free_ir)
{
    kas_nest open, nest;
    const int64_t size[2] = {24, 32};
    const int x = tensor(KAS_TENSOR_EXTERN, 2, (const int64_t[]){32, 24}),
              y = tensor(KAS_TENSOR_DEF, 2, size), z = tensor(KAS_TENSOR_DEF, 2, size);
    const int *v = ir.tensor[y].var, *w = ir.tensor[z].var, k = kas_ir_var(&ir, 24);
    const kas_ix turned[2] = {var(v[1]), var(v[0])};
    const kas_ix shifted[2] = {var(w[1]), kas_ix_mod(&ir, kas_ix_add(&ir, var(k), var(w[0])), 24)};
    static const char *const refused[][2] = {
        {"stage d0 8\n", "all loops of the nest have their place before"},
        {"rows d0 8\nblock rows x\nstage d0 4\n", "all turns of its rows"},
        {"rows d0 8\nblock rows x\nstage d1 32\n", "all turns of its rows"},
        {"rows d0 8\nblock rows x\nstage d0 8\nstage d0 8\n", "filled at one place"},
        {"rows d0 8\nstage d0 8\nblock rows x\n", "the order is"},
        {"block d0 x\nstage d1 16\n", "all turns of its rows"},
    };
    ir.cpu = false;
    OK(kas_nest_open(&ir, y, load(x, turned), &open));
    take_same(&open, "lane d1\nrows d0 8\nblock rows x\nstage d0 8\n", 0, &nest);
    assert_int_equal(nest.boxes, 1);
    assert_int_equal(nest.box[0].run, 8);
    assert_int_equal(ir.var_size[nest.box[0].dim[1]], 32);
    assert_true(nest.box[0].step[1] > 8 && nest.box[0].waves <= 2); /* 8 of them: 8 waves */
    take_same(&open, "lane d1\nlanes 20\nrows d0 10\nblock lanes x\nblock rows y\nstage d0 10\n", 0,
              &nest);
    take_same(&open, "lane d1\nlanes 16\nblock lanes x\nserial d0\nstage d1 16\n", 0, &nest);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char steps[128];
        snprintf(steps, sizeof steps, "lane d1\n%s", refused[i][0]);
        assert_refused(&open, steps, refused[i][1]);
    }
    assert_refused(&open, "lane d0\nblock d1 x\nstage d0 24\n", "no load there lies apart");
    OK(kas_nest_open(&ir, z, sum(k, load(x, shifted)), &open));
    take_same(&open, "split r0 8\nlane d1\nrows d0 8\nblock rows x\naround r0/8\nstage r0%8 8\n", 0,
              &nest);
    assert_int_equal(nest.boxed, nest.var_of[4]);
    assert_true(nest.fills == 3);
    take_same(&open,
              "split r0 8\nlane d1\nrows d0 8\nblock rows x\naround r0/8\nstage r0%8 8\n"
              "prefetch r0%8\n",
              0, &nest);
    assert_int_equal(nest.ahead, nest.var_of[3]);
    assert_refused(&open, "lane d1\nserial d0\naround r0\nprefetch r0\n", "are not staged");
    assert_refused(&open, "lane d1\nserial d0\naround r0\nstage r0 24\nprefetch r0\n",
                   "dependence C -> S2: no reduction stands right around it");
    assert_refused(&open,
                   "split r0 8\nlane d1\nserial d0\naround r0/8\nstage r0%8 8\nprefetch r0%8\n"
                   "prefetch r0%8\n",
                   "under way already");
    assert_refused(&open,
                   "split r0 12\nsplit r0%12 4\nlane d1\nserial d0\naround r0/12\n"
                   "stage r0%12%4 4\nunroll r0%12/4\n",
                   "what its turns read is staged, turn by turn");
    assert_refused(&open, "split r0 8\nlane d1\nserial d0\nstage r0%8 8\n",
                   "the reduction does not run around the lanes");
    assert_refused(&open, "lane d1\nserial d0\naround r0\nstage r0 8\n", "split it first");
    assert_refused(&open,
                   "lane d1\nlanes 16\nrows d0 18\nblock lanes x\nblock rows y\naround r0\n"
                   "stage r0 24\n",
                   "all must have the same number of rows");
}

/* What forbids `rfactor` and `prefetch` beside dependences: memory, and on which loops boxes are. */
TEST_WITH(test_refused, set_up, free_ir)
{
    enum { PARTS = 27, LANES = 91, SUMS = 5 }; /* 49140 bytes of 49152, but for their alignment */
    static const char staged[] =
        "split r0 64\nlane d0\naround r0/64\nstage r0%64 64\nprefetch r0%64\n";
    kas_nest open;
    const int x = tensor(KAS_TENSOR_EXTERN, 2, (const int64_t[]){PARTS, LANES}),
              y = tensor(KAS_TENSOR_DEF, 1, (const int64_t[]){LANES}),
              z = tensor(KAS_TENSOR_EXTERN, 2, (const int64_t[]){128, 256}),
              u = tensor(KAS_TENSOR_DEF, 1, (const int64_t[]){128}), k = kas_ir_var(&ir, PARTS),
              r = kas_ir_var(&ir, 256), around = kas_ir_var(&ir, 4);
    const kas_ix idx[2] = {var(k), var(ir.tensor[y].var[0])},
                 apart[2] = {var(ir.tensor[u].var[0]), var(r)};
    kas_ex e = sum(k, load(x, idx));
    ir.cpu = false;
    for (int i = 1; i < SUMS; i++)
        e = product(e, sum(k, product(kas_ex_const(&ir, 1 + i), load(x, idx))));
    OK(kas_nest_open(&ir, y, e, &open));
    assert_refused(&open, "lane d0\nrfactor r0\n", "do not fit into 48 KB");
    OK(kas_nest_open(&ir, u, sum(r, load(z, apart)), &open));
    assert_refused(&open, staged, "two arrays do not fit");
    ir.tensor[z].dtype = KAS_BF16;
    assert_refused(&open, staged, "16-bit elements");
    ir.tensor[z].dtype = KAS_F32;
    OK(kas_nest_open(&ir, u, sum(around, sum(r, load(z, apart))), &open));
    assert_refused(&open,
                   "lane d0\nlanes 32\nblock lanes x\naround r1\nstage r1 256\nprefetch r1\n",
                   "no reduction stands right around it");
}

RUN_TESTS()
