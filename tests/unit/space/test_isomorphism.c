/* Equal canonical text exactly when two kernels are isomorphic: by brute force on small DAGs, by
 * random relabelling on large ones. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/space/canonical.h"
#include "host/space/sample/sampler.h"

/* ---- brute force ---- */

enum { MOST = 7, TEXT = 160 };

/* Nodes 1 to nodes - 1 are relu or sub; every shape is the input's, so any wiring is legal. */
typedef struct dag {
    int nodes;
    uint8_t op[MOST], in[MOST][2]; /* a relu's second operand is 0 */
    char text[TEXT];
} dag;

static bool all_are_read(const dag *d)
{
    uint32_t read = 1u << (d->nodes - 1);
    for (int i = d->nodes - 1; i > 0; i--) {
        if (!(read >> i & 1))
            return false;
        read |= 1u << d->in[i][0] | (d->op[i] == KAS_OP_SUB ? 1u << d->in[i][1] : 0);
    }
    return read & 1;
}

static void write_text(dag *d)
{
    kas_kernel k = {.nodes = d->nodes};
    kas_buf text = {0};
    for (int i = 1; i < d->nodes; i++)
        k.node[i] = (kas_node){.op = d->op[i],
                               .inputs = d->op[i] == KAS_OP_SUB ? 2 : 1,
                               .in = {d->in[i][0], d->in[i][1]}};
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_int_equal(kas_kernel_canonical_text(&k, &text), KAS_OK);
    assert_true(text.size < TEXT);
    memcpy(d->text, text.data, text.size + 1);
    kas_buf_free(&text);
}

static bool maps(const dag *a, const dag *b, const int *to)
{
    for (int i = 1; i < a->nodes; i++)
        if (a->op[i] != b->op[to[i]] || to[a->in[i][0]] != b->in[to[i]][0] ||
            (a->op[i] == KAS_OP_SUB && to[a->in[i][1]] != b->in[to[i]][1]))
            return false;
    return true;
}

/* Tries every way of giving nodes `next` and later, but the last, a node that is not taken. */
static bool permute(const dag *a, const dag *b, int *to, int next, uint32_t taken)
{
    if (next == a->nodes - 1)
        return maps(a, b, to);
    for (int i = 1; i < a->nodes - 1; i++)
        if (!(taken >> i & 1)) {
            to[next] = i;
            if (permute(a, b, to, next + 1, taken | 1u << i))
                return true;
        }
    return false;
}

static bool isomorphic(const dag *a, const dag *b)
{
    int to[MOST] = {0};
    if (a->nodes != b->nodes)
        return false;
    to[a->nodes - 1] = a->nodes - 1;
    return permute(a, b, to, 1, 0);
}

typedef struct set {
    dag *dag;
    int count;
} set;

/* Every DAG whose nodes before `i` are those of `d`. */
static void enumerate(set *s, dag *d, int i)
{
    if (i == d->nodes) {
        if (all_are_read(d)) {
            s->dag[s->count] = *d;
            write_text(&s->dag[s->count++]);
        }
        return;
    }
    for (d->in[i][0] = 0; d->in[i][0] < i; d->in[i][0]++) {
        d->op[i] = KAS_OP_RELU;
        d->in[i][1] = 0;
        enumerate(s, d, i + 1);
        d->op[i] = KAS_OP_SUB;
        for (d->in[i][1] = 0; d->in[i][1] < i; d->in[i][1]++)
            enumerate(s, d, i + 1);
    }
}

TEST(test_all_small_dags)
{
    set s = {.dag = malloc(4000 * sizeof *s.dag)};
    long same = 0, pairs = 0;
    assert_non_null(s.dag);
    for (int nodes = 2; nodes <= 5; nodes++) {
        dag d = {.nodes = nodes};
        enumerate(&s, &d, 1);
    }
    for (int a = 0; a < s.count; a++)
        for (int b = 0; b <= a; b++) {
            const bool equal = strcmp(s.dag[a].text, s.dag[b].text) == 0;
            if (equal != isomorphic(&s.dag[a], &s.dag[b]))
                fail_msg("%s and %s", s.dag[a].text, s.dag[b].text);
            same += equal && a != b;
            pairs++;
        }
    print_message("%d DAGs of up to 5 nodes, %ld pairs, %ld isomorphic\n", s.count, pairs, same);
    assert_true(same > 100);
    free(s.dag);
}

static dag random_dag(kas_rng *rng, int nodes)
{
    dag d = {.nodes = nodes};
    do
        for (int i = 1; i < nodes; i++) {
            d.op[i] = kas_rng_below(rng, 2) ? KAS_OP_SUB : KAS_OP_RELU;
            d.in[i][0] = (uint8_t)kas_rng_below(rng, (uint32_t)i);
            d.in[i][1] = d.op[i] == KAS_OP_SUB ? (uint8_t)kas_rng_below(rng, (uint32_t)i) : 0;
        }
    while (!all_are_read(&d));
    return d;
}

/* Of 6 and 7 nodes: pairs that are alike or differ in one operand. */
TEST(test_random_pairs)
{
    kas_rng rng = kas_rng_make(17, KAS_PURPOSE_TEST, 0);
    int same = 0, different = 0;
    for (int n = 0; n < 20000; n++) {
        dag a = random_dag(&rng, 6 + n % 2), b = a;
        const int i = 1 + (int)kas_rng_below(&rng, (uint32_t)a.nodes - 1);
        const int j = b.op[i] == KAS_OP_SUB ? (int)kas_rng_below(&rng, 2) : 0;
        b.in[i][j] = (uint8_t)kas_rng_below(&rng, (uint32_t)i);
        if (!all_are_read(&b))
            continue;
        write_text(&a);
        write_text(&b);
        const bool equal = strcmp(a.text, b.text) == 0;
        assert_int_equal(equal, isomorphic(&a, &b));
        same += equal;
        different += !equal;
    }
    print_message("%d pairs isomorphic, %d not\n", same, different);
    assert_true(same > 1000 && different > 1000);
}

/* ---- relabelling ---- */

/* Another topological order, other variables. */
static void relabel(const kas_kernel *base, kas_rng *rng, kas_kernel *out)
{
    int place[KAS_MAX_NODES], var[KAS_MAX_VARS];
    bool placed[KAS_MAX_NODES] = {false};
    *out = *base;
    for (int v = 0; v < KAS_MAX_VARS; v++) {
        const int at = (int)kas_rng_below(rng, (uint32_t)v + 1);
        var[v] = var[at];
        var[at] = v;
    }
    for (int done = 0; done < base->nodes;) {
        const int i = (int)kas_rng_below(rng, (uint32_t)base->nodes);
        bool ready = !placed[i];
        for (int o = 0; o < base->node[i].inputs; o++)
            ready = ready && placed[base->node[i].in[o]];
        if (!ready)
            continue;
        kas_node *node = &out->node[done];
        *node = base->node[i];
        for (int o = 0; o < node->inputs; o++)
            node->in[o] = (uint8_t)place[node->in[o]];
        for (int v = 0; v < KAS_MAX_VARS; v++)
            node->out.exp[KAS_SYM_X0 + var[v]] = base->node[i].out.exp[KAS_SYM_X0 + v];
        placed[i] = true;
        place[i] = done++;
    }
}

TEST(test_large_kernels_relabelled)
{
    enum { KERNELS = 150, LABELLINGS = 5 };
    const kas_target t = kas_target_plain(64, 56, 56, 3);
    kas_sample_options o = kas_sample_defaults();
    kas_rng rng = kas_rng_make(18, KAS_PURPOSE_TEST, 0);
    kas_sampler *sampler;
    kas_sample s;
    o.min_primitives = 15;
    o.max_primitives = 40;
    assert_int_equal(kas_sampler_create(&o, &t, 1, &sampler), KAS_OK);
    for (int n = 0; n < KERNELS; n++) {
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        for (int l = 0; l < LABELLINGS; l++) {
            static kas_kernel other;
            char name[KAS_NAME_SIZE];
            relabel(s.replacement.kernel, &rng, &other);
            assert_int_equal(kas_kernel_infer(&other), KAS_OK);
            assert_int_equal(kas_kernel_name(&other, name), KAS_OK);
            assert_string_equal(name, s.name);
        }
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
}

RUN_TESTS()
