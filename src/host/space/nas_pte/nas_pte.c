/* Draws, writes and reads sequences of transformations. */
#include "host/space/nas_pte/nas_pte.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/space/nas_pte/nas_pte_tree.h"

/* ---- drawing --------------------------------------------------------------------------------- */

/* Draws a leaf and a step for it. Returns false when no step fits the leaf. */
static bool draw_step(kas_rng *rng, kas_pte_tree *tree, kas_pte_step *step)
{
    kas_pte_kind fits[KAS_PTE_DRAWN_KINDS];
    uint16_t factor[KAS_PTE_MOST_FACTORS];
    int count = 0;
    *step = (kas_pte_step){.factor = 1};
    step->leaf = (uint8_t)kas_rng_below(rng, (uint32_t)kas_pte_leaves(tree));
    const int part = kas_pte_find_leaf(tree, step->leaf);
    for (int kind = 0; kind < KAS_PTE_DRAWN_KINDS; kind++) {
        step->kind = (uint8_t)kind;
        if (kas_pte_factors(tree, part, (kas_pte_kind)kind, factor) > 0 &&
            !kas_pte_misfit(tree, part, &(kas_pte_step){.kind = step->kind, .factor = factor[0]}))
            fits[count++] = (kas_pte_kind)kind;
    }
    if (count == 0)
        return false;
    const kas_pte_kind kind = fits[kas_rng_below(rng, (uint32_t)count)];
    const int factors = kas_pte_factors(tree, part, kind, factor);
    step->kind = (uint8_t)kind;
    step->factor = factor[kas_rng_below(rng, (uint32_t)factors)];
    kas_pte_change(tree, part, step);
    return true;
}

static bool fits(const kas_pte_fit *fit, const kas_kernel *kernel)
{
    return !fit->has_sizes || fit->has_sizes(fit->context, kernel);
}

/* Draws `steps` steps, or fewer when no more are found. */
static void draw_steps(kas_rng *rng, const kas_pte_fit *fit, int steps, kas_pte_sequence *out,
                       kas_kernel *kernel)
{
    enum { TRIES = 32 };
    kas_pte_tree tree, next;
    kas_pte_begin(&tree, &fit->sizes);
    *out = (kas_pte_sequence){.groups = fit->sizes.groups, .stride_inside = fit->sizes.stride > 1};
    for (int tries = 0; out->steps < steps && tries < TRIES; tries++) {
        next = tree;
        if (!draw_step(rng, &next, &out->step[out->steps]))
            continue;
        out->steps++;
        if (kas_pte_kernel(out, kernel) == KAS_OK && fits(fit, kernel)) {
            tree = next;
            tries = 0;
        } else {
            out->step[--out->steps] = (kas_pte_step){0};
        }
    }
}

bool kas_pte_draw(kas_rng *rng, const kas_pte_fit *fit, int least, kas_pte_sequence *out,
                  kas_kernel *kernel)
{
    enum { TRIES = 32 };
    const int steps = least + (int)kas_rng_below(rng, (uint32_t)(KAS_PTE_DRAWN_STEPS + 1 - least));
    bool redundant = true;
    for (int tries = 0; redundant && tries < TRIES; tries++) {
        draw_steps(rng, fit, steps, out, kernel);
        if (out->steps == 0)
            return least == 0;
        if (kas_pte_is_redundant(out, &redundant) != KAS_OK)
            return false;
    }
    return !redundant && kas_pte_kernel(out, kernel) == KAS_OK; /* the last try may have failed */
}

kas_rng kas_pte_rng(uint64_t seed, uint64_t attempt)
{
    return kas_rng_make(seed ^ ((uint64_t)KAS_PTE_VERSION << 48), KAS_PURPOSE_SAMPLE, attempt);
}

/* ---- reading --------------------------------------------------------------------- */

static kas_status wrong(const char *word, const char *expected)
{
    return kas_fail(KAS_BAD_INPUT, "transformation \"%.*s\": expected %s", (int)strcspn(word, " "),
                    word, expected);
}

static int find_kind(const char *word, size_t length)
{
    for (int kind = 0; kind < KAS_PTE_KINDS; kind++) {
        const char *name = kas_pte_kind_name((kas_pte_kind)kind);
        if (strlen(name) == length && strncmp(name, word, length) == 0)
            return kind;
    }
    return -1;
}

static int find_loop(const char *word, size_t length)
{
    for (int loop = 0; loop < KAS_PTE_LOOPS; loop++) {
        const char *name = kas_pte_loop_name((kas_pte_loop)loop);
        if (strlen(name) == length && strncmp(name, word, length) == 0)
            return loop;
    }
    return -1;
}

/* Reads two loops such as "(co,ci)" and moves *at behind them. */
static kas_status read_loops(const char *word, const char **at, kas_pte_step *step)
{
    const char *p = *at;
    for (int i = 0; i < 2; i++) {
        const size_t length = *p == "(,"[i] ? strcspn(p + 1, ",) @") : 0;
        const int loop = find_loop(p + 1, length);
        if (length == 0 || loop < 0)
            return wrong(word, "two loops of co, ci, h, w, kh, kw, g, g2, g3, such as (co,ci)");
        step->loop[i] = (uint8_t)loop;
        p += 1 + length;
    }
    *at = p + 1;
    return *p == ')' ? KAS_OK : wrong(word, "two loops and a closing parenthesis");
}

/* Reads a factor such as "(4)" and moves *at behind it. */
static kas_status read_factor(const char *word, const char **at, kas_pte_step *step)
{
    int least, most;
    char *end = (char *)*at, expected[64];
    kas_pte_factor_range((kas_pte_kind)step->kind, &least, &most);
    step->factor = 1;
    if (step->kind == KAS_PTE_INTERCHANGE || step->kind == KAS_PTE_FUSE)
        return read_loops(word, at, step);
    if (most == 1)
        return KAS_OK;
    const long value =
        **at == '(' && isdigit((unsigned char)(*at)[1]) ? strtol(*at + 1, &end, 10) : 0;
    snprintf(expected, sizeof expected, "a factor from (%d) to (%d)", least, most);
    if (value < least || value > most || *end != ')')
        return wrong(word, expected);
    step->factor = (uint16_t)value;
    *at = end + 1;
    return KAS_OK;
}

static kas_status read_step(const char **at, kas_pte_step *step)
{
    const char *word = *at;
    const size_t length = strcspn(word, " (@");
    const int kind = find_kind(word, length);
    *step = (kas_pte_step){0};
    if (kind < 0)
        return wrong(word, "interchange, fuse, group, group_h, group_w, depthwise, bottleneck, "
                           "bottleneck_in, _out, _h, _w, _space, _kh or _kw, split, unroll, "
                           "bands_h or bands_w");
    step->kind = (uint8_t)kind;
    *at += length;
    KAS_TRY(read_factor(word, at, step));
    if (**at == '@') {
        char *end = (char *)*at + 1;
        const long leaf = isdigit((unsigned char)*end) ? strtol(end, &end, 10) : -1;
        if (leaf < 0 || leaf >= KAS_PTE_MAX_PARTS)
            return wrong(word, "the number of a leaf after @");
        step->leaf = (uint8_t)leaf;
        *at = end;
    }
    return **at == ' ' || **at == '\0' ? KAS_OK : wrong(word, "a space after it");
}

kas_status kas_pte_parse(const char *text, kas_pte_sequence *out)
{
    static const char *const named[][2] = {{"pte-1", "bands_h(2) group(2) group(2)@1"},
                                           {"pte-1-bands", "bands_h(2)"},
                                           {"pte-2", "unroll(16) group(2)"},
                                           {"pte-3", "split(2) group(2) group(4)@1"}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(text, named[i][0]) == 0)
            text = named[i][1];
    *out = (kas_pte_sequence){0};
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        if (out->steps == KAS_PTE_MAX_STEPS)
            return kas_fail(KAS_BAD_INPUT, "a sequence has at most %d transformations",
                            KAS_PTE_MAX_STEPS);
        KAS_TRY(read_step(&at, &out->step[out->steps++]));
    }
    return KAS_OK;
}
