/* Monte-Carlo tree search, on small trees whose rewards are known. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/strategy/tree.h"

enum { NODES = 4096, DEEPEST = 8, VISITS = 1024 };
#define SYNO (4 * sqrt(2))

/* A tree in which every node above `depth` has as many choices. */
typedef struct garden {
    int width, depth;
    int nodes, parent[NODES], choice[NODES], level[NODES];
    int barren; /* a choice of the root of which nothing comes; -1 = none */
} garden;

static kas_status make(void *context, int parent, int choice, int *choices, bool *open)
{
    garden *g = context;
    const int new = g->nodes++;
    assert_true(new < NODES);
    g->parent[new] = parent;
    g->choice[new] = choice;
    g->level[new] = parent < 0 ? 0 : g->level[parent] + 1;
    *choices = g->level[new] < g->depth ? g->width : 0;
    *open = !(g->level[new] == 1 && choice == g->barren);
    return KAS_OK;
}

static uint64_t key(void *context, int node, int choice)
{
    const garden *g = context;
    return (uint64_t)(100 * g->level[node] + choice + 1);
}

static kas_tree *plant(garden *g, double exploration)
{
    kas_tree *tree;
    OK(kas_tree_create(exploration, &(kas_tree_space){make, key, g}, &tree));
    return tree;
}

static int pick(kas_tree *tree, uint64_t seed, uint64_t number)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, number);
    int leaf;
    OK(kas_tree_select(tree, &rng, &leaf));
    return leaf;
}

/* Completes the way to a leaf at random. Returns the choices on it, and the keys. */
static void complete(const garden *g, int leaf, uint64_t seed, uint64_t number, int way[DEEPEST],
                     uint64_t keys[DEEPEST])
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_SAMPLE, number);
    for (int d = g->level[leaf]; d < g->depth; d++)
        way[d] = (int)kas_rng_below(&rng, (uint32_t)g->width);
    for (int at = leaf; at > 0; at = g->parent[at])
        way[g->level[at] - 1] = g->choice[at];
    for (int d = 0; d < g->depth; d++)
        keys[d] = (uint64_t)(100 * d + way[d] + 1);
}

typedef double reward_of(const int *way, int depth);

/* What the last 100 visits of a search gave. */
typedef struct outcome {
    int treasures; /* visits that go 3, 1 first */
    double reward; /* mean */
} outcome;

static outcome search(garden *g, double exploration, uint64_t seed, int visits, int generation,
                      reward_of *reward)
{
    kas_tree *tree = plant(g, exploration);
    double rewards[VISITS];
    outcome out = {0};
    for (int v = 0; v < visits; v++) {
        int way[DEEPEST];
        uint64_t keys[DEEPEST];
        const int leaf = pick(tree, seed, (uint64_t)v);
        assert_true(leaf >= 0);
        complete(g, leaf, seed, (uint64_t)v, way, keys);
        OK(kas_tree_visit(tree, leaf, keys, g->depth));
        rewards[v] = reward(way, g->depth);
        out.treasures += v >= visits - 100 && way[0] == 3 && way[1] == 1;
        out.reward += v >= visits - 100 ? rewards[v] / 100 : 0;
        if ((v + 1) % generation == 0)
            kas_tree_reward(tree, rewards);
    }
    kas_tree_free(tree);
    return out;
}

/* ---- the best arm ---------------------------------------------------------------------------- */

/* Good only behind 3, 1: neither choice says anything by itself elsewhere. */
static double hidden_treasure(const int *way, int depth)
{
    (void)depth;
    return way[0] == 3 && way[1] == 1 ? 0.9 : 0.1 * (way[0] + way[1]) / 8;
}

/* By chance 4 of 100 visits would go there. */
TEST(finds_the_best_arm)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        garden g = {.width = 5, .depth = 4, .barren = -1};
        const int eager = search(&g, 0.5, seed, 400, 4, hidden_treasure).treasures;
        g.nodes = 0;
        const int patient = search(&g, SYNO, seed, 400, 4, hidden_treasure).treasures;
        print_message("seed %d: %d of the last 100 visits with c = 0.5, %d with 4 sqrt 2\n",
                      (int)seed, eager, patient);
        assert_true(eager >= 90);
        assert_true(patient >= 40);
    }
}

/* Every 2 adds to the reward, wherever it stands. */
static double number_of_twos(const int *way, int depth)
{
    double twos = 0;
    for (int d = 0; d < depth; d++)
        twos += way[d] == 2;
    return twos / depth;
}

/* A tree of 20 to the 6th, of which 600 visits see next to nothing: by chance the mean reward would
 * be 0.05, and without RAVE it is hardly more. */
TEST(rave_guides_the_opening)
{
    garden *g = calloc(1, sizeof *g);
    assert_non_null(g);
    for (uint64_t seed = 0; seed < 5; seed++) {
        *g = (garden){.width = 20, .depth = 6, .barren = -1};
        const double mean = search(g, 0.5, seed, 600, 6, number_of_twos).reward;
        print_message("seed %d: the last 100 visits gave %.3f\n", (int)seed, mean);
        assert_true(mean >= 0.5);
    }
    free(g);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* With N visits N^0.8 choices of the root are open. While no visit has a result they are visited evenly,
 * first themselves and then below. */
TEST(widens_with_the_visits)
{
    garden g = {.width = 200, .depth = 2, .barren = 7};
    kas_tree *tree = plant(&g, SYNO);
    int visited[NODES] = {0};
    for (int v = 0; v < 300; v++) {
        const int leaf = pick(tree, 1, (uint64_t)v);
        const int first = g.level[leaf] == 1 ? leaf : g.parent[leaf];
        int open = 0;
        assert_int_equal(kas_tree_nodes(tree), g.nodes);
        assert_int_equal(kas_tree_level(tree, leaf), g.level[leaf]);
        assert_int_equal(g.level[leaf], visited[first] ? 2 : 1);
        assert_true(g.choice[first] != g.barren);
        visited[first]++;
        for (int i = 1; i < g.nodes; i++)
            if (g.parent[i] == 0 && g.choice[i] != g.barren) {
                open++;
                assert_true(visited[i] >= visited[first] - 1);
            }
        assert_int_equal(open, (int)fmax(1, floor(pow(v, 0.8))));
        OK(kas_tree_visit(tree, leaf, NULL, 0));
    }
    kas_tree_free(tree);
}

/* A key that was good elsewhere is opened first, at a node where it was never tried. */
TEST(opens_what_was_good_elsewhere)
{
    garden *g = calloc(1, sizeof *g);
    kas_tree *tree;
    double rewards[41];
    int child, first;
    assert_non_null(g);
    *g = (garden){.width = 50, .depth = 2, .barren = -1};
    tree = plant(g, SYNO);
    OK(kas_tree_open(tree, 0, 0, &child));
    for (int v = 0; v < 40; v++) {
        const uint64_t keys[] = {1, 101 + (uint64_t)(v % 4 == 0 ? 17 : v)};
        OK(kas_tree_visit(tree, child, keys, 2));
        rewards[v] = v % 4 == 0;
    }
    kas_tree_reward(tree, rewards);
    kas_tree_close(tree, child);
    OK(kas_tree_open(tree, 0, 1, &child)); /* the other way on */
    OK(kas_tree_visit(tree, child, NULL, 0));
    rewards[40] = 1;
    kas_tree_reward(tree, rewards);
    do { /* until all others are closed */
        first = pick(tree, 1, (uint64_t)kas_tree_nodes(tree));
        if (g->parent[first] == 0)
            kas_tree_close(tree, first);
    } while (g->parent[first] == 0);
    assert_int_equal(g->parent[first], child);
    assert_int_equal(g->choice[first], 17);
    kas_tree_free(tree);
    free(g);
}

/* ---- the same again, and the end ------------------------------------------------------------- */

TEST(repeats_itself)
{
    garden g[2] = {{.width = 6, .depth = 4, .barren = 2}, {.width = 6, .depth = 4, .barren = 2}};
    kas_tree *tree[2] = {plant(&g[0], SYNO), plant(&g[1], SYNO)};
    double rewards[VISITS];
    for (int v = 0; v < 300; v++) {
        int leaf[2], way[DEEPEST];
        uint64_t keys[DEEPEST];
        for (int i = 0; i < 2; i++) {
            leaf[i] = pick(tree[i], 4, (uint64_t)v);
            complete(&g[i], leaf[i], 4, (uint64_t)v, way, keys);
            OK(kas_tree_visit(tree[i], leaf[i], keys, 4));
        }
        assert_int_equal(leaf[0], leaf[1]);
        rewards[v] = hidden_treasure(way, 4);
        if (v % 7 == 6) { /* rewards take the place of those before */
            kas_tree_reward(tree[0], rewards);
            kas_tree_reward(tree[1], rewards);
            kas_tree_reward(tree[1], rewards);
        }
    }
    assert_int_equal(kas_tree_visits(tree[0]), 300);
    kas_tree_free(tree[0]);
    kas_tree_free(tree[1]);
}

/* A generation spreads: no way is chosen twice before its first result is there. */
TEST(generations_spread)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        garden g = {.width = 6, .depth = 4, .barren = -1};
        kas_tree *tree = plant(&g, SYNO);
        double rewards[VISITS];
        int last[NODES] = {0}; /* generation that chose the node */
        for (int v = 0; v < 270; v++) {
            int way[DEEPEST];
            uint64_t keys[DEEPEST];
            const int leaf = pick(tree, seed, (uint64_t)v), generation = 1 + v / 27;
            assert_int_not_equal(last[leaf], generation);
            last[leaf] = generation;
            complete(&g, leaf, seed, (uint64_t)v, way, keys);
            OK(kas_tree_visit(tree, leaf, keys, 4));
            rewards[v] = number_of_twos(way, 4);
            if (v % 27 == 26)
                kas_tree_reward(tree, rewards);
        }
        kas_tree_free(tree);
    }
}

/* Every end of the tree gives one result and nothing more; then the tree is exhausted. In the
 * second round no result is ever there, and all other leaves are passed over. */
TEST(ends_when_exhausted)
{
    for (int round = 0; round < 2; round++) {
        garden g = {.width = 3, .depth = 2, .barren = 1};
        kas_tree *tree = plant(&g, SYNO);
        double rewards[64] = {0};
        int ends[NODES] = {0}, visits = 0, leaf;
        while ((leaf = pick(tree, 2, (uint64_t)visits)) >= 0) {
            assert_true(visits < 64);
            assert_false(ends[leaf]);
            OK(kas_tree_visit(tree, leaf, NULL, 0));
            visits++;
            ends[leaf] = g.level[leaf] == 2;
            if (ends[leaf])
                kas_tree_close(tree, leaf);
            else if (round == 1)
                kas_tree_pass(tree, leaf);
            if (round == 0)
                kas_tree_reward(tree, rewards);
        }
        int leaves = 0;
        for (int i = 0; i < g.nodes; i++)
            leaves += ends[i];
        assert_int_equal(leaves, 6); /* behind two of the three choices */
        assert_int_equal(pick(tree, 2, 99), -1);
        kas_tree_free(tree);
    }
}

RUN_TESTS()
