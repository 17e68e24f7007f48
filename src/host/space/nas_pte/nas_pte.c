/* Draws, writes and reads sequences of transformations. */
#include "host/space/nas_pte/nas_pte.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host/space/nas_pte/nas_pte_tree.h"

/* ---- drawing --------------------------------------------------------------------------------- */

/* Draws a leaf and a step for it. Returns false when no step fits the leaf. */
static bool draw_step(kas_rng *rng, kas_pte_tree *tree, kas_pte_step *step)
{
    kas_pte_kind fits[KAS_PTE_KINDS];
    int count = 0, factors;
    step->leaf = (uint8_t)kas_rng_below(rng, (uint32_t)kas_pte_leaves(tree));
    const int part = kas_pte_find_leaf(tree, step->leaf);
    for (int kind = 0; kind < KAS_PTE_KINDS; kind++)
        if (!kas_pte_misfit(tree, part, (kas_pte_kind)kind))
            fits[count++] = (kas_pte_kind)kind;
    if (count == 0)
        return false;
    const kas_pte_kind kind = fits[kas_rng_below(rng, (uint32_t)count)];
    const uint8_t *factor = kas_pte_factors(kind, &factors);
    step->kind = (uint8_t)kind;
    step->factor = factor[kas_rng_below(rng, (uint32_t)factors)];
    kas_pte_change(tree, part, kind, step->factor);
    return true;
}

static bool fits(const kas_pte_fit *fit, const kas_kernel *kernel)
{
    return !fit || fit->has_sizes(fit->context, kernel);
}

/* Draws `steps` steps, or fewer when no more are found. */
static void draw_steps(kas_rng *rng, const kas_pte_fit *fit, int steps, kas_pte_sequence *out,
                       kas_kernel *kernel)
{
    enum { TRIES = 32 };
    kas_pte_tree tree, next;
    kas_pte_begin(&tree);
    *out = (kas_pte_sequence){0};
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

/* Reads a factor such as "(4)" and moves *at behind it. */
static kas_status read_factor(const char *word, const char **at, kas_pte_step *step)
{
    int count;
    const uint8_t *factor = kas_pte_factors((kas_pte_kind)step->kind, &count);
    char *end = (char *)*at;
    step->factor = factor[0];
    if (step->kind == KAS_PTE_DEPTHWISE)
        return KAS_OK;
    const long value =
        **at == '(' && isdigit((unsigned char)(*at)[1]) ? strtol(*at + 1, &end, 10) : 0;
    for (int i = 0; i < count; i++)
        if (factor[i] == value && *end == ')') {
            step->factor = factor[i];
            *at = end + 1;
            return KAS_OK;
        }
    kas_buf list = {0};
    for (int i = 0; i < count; i++)
        kas_buf_printf(&list, "%s(%d)", i ? ", " : "one of ", factor[i]);
    kas_status status = wrong(word, kas_buf_text(&list));
    kas_buf_free(&list);
    return status;
}

static kas_status read_step(const char **at, kas_pte_step *step)
{
    const char *word = *at;
    const size_t length = strcspn(word, " (@");
    const int kind = find_kind(word, length);
    *step = (kas_pte_step){0};
    if (kind < 0)
        return wrong(word, "group, depthwise, bottleneck_in, bottleneck_out, bottleneck_space, "
                           "split, unroll, bands_h or bands_w");
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
    static const char *const named[][2] = {{"pte-1", "bands_h(2)"},
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
