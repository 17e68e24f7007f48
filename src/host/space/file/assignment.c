/* Assignments: the canonical form, the name, and the place in a network. */
#include "host/space/file/assignment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/core/sha256.h"
#include "host/space/file/assignment_layers.h"

void kas_assignment_free(kas_assignment *assignment)
{
    free(assignment->kernel);
    free(assignment->layer);
    free(assignment->kernel_of);
    kas_gains_free(&assignment->gains);
    *assignment = (kas_assignment){0};
}

kas_status kas_assignment_allocate(int kernels, int layers, kas_assignment *out)
{
    *out = (kas_assignment){.kernels = kernels, .layers = layers};
    out->kernel = calloc((size_t)kernels + 1, sizeof *out->kernel);
    out->layer = calloc((size_t)layers + 1, sizeof *out->layer);
    out->kernel_of = calloc((size_t)layers + 1, sizeof *out->kernel_of);
    if (out->kernel && out->layer && out->kernel_of)
        return KAS_OK;
    kas_assignment_free(out);
    return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels at %d layers", kernels, layers);
}

/* ---- the canonical form ---------------------------------------------------------------------- */

/* Sorts by insertion: a network has tens of layers, and its own order is nearly that of the
 * names. */
static void sort_layers(kas_assignment *a)
{
    char name[KAS_ASSIGNED_NAME];
    for (int i = 1; i < a->layers; i++) {
        const int kernel = a->kernel_of[i];
        int to = i;
        memcpy(name, a->layer[i], sizeof name);
        for (; to > 0 && strcmp(a->layer[to - 1], name) > 0; to--) {
            memcpy(a->layer[to], a->layer[to - 1], sizeof name);
            a->kernel_of[to] = a->kernel_of[to - 1];
        }
        memcpy(a->layer[to], name, sizeof name);
        a->kernel_of[to] = kernel;
    }
}

/* Returns the number of the kernel with that text among the first `count`, or -1. */
static int find_text(const kas_buf *text, int count, const kas_buf *wanted)
{
    for (int k = 0; k < count; k++)
        if (text[k].size == wanted->size && memcmp(text[k].data, wanted->data, wanted->size) == 0)
            return k;
    return -1;
}

/* Replaces kernel[] by canonical kernels, each once, in the order of the layers. `ordered` and
 * `text` have room for one more than that, the one at hand. */
static kas_status order_kernels(kas_assignment *a, kas_kernel *ordered, kas_buf *text)
{
    int count = 0;
    for (int i = 0; i < a->layers; i++) {
        if (a->kernel_of[i] == KAS_KEPT)
            continue;
        kas_buf_clear(&text[count]);
        KAS_TRY(kas_kernel_canonicalize(&a->kernel[a->kernel_of[i]], &ordered[count]));
        KAS_TRY(kas_canonical_text(&ordered[count], &text[count]));
        const int known = find_text(text, count, &text[count]);
        a->kernel_of[i] = known < 0 ? count++ : known;
    }
    memcpy(a->kernel, ordered, (size_t)count * sizeof *ordered);
    a->kernels = count;
    return KAS_OK;
}

kas_status kas_assignment_canonicalize(kas_assignment *a)
{
    const size_t room = (size_t)a->layers + 1; /* one more than there are kernels */
    kas_kernel *ordered = calloc(room, sizeof *ordered);
    kas_buf *text = calloc(room, sizeof *text);
    sort_layers(a);
    kas_status status = ordered && text
                            ? order_kernels(a, ordered, text)
                            : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", a->layers);
    for (size_t k = 0; text && k < room; k++)
        kas_buf_free(&text[k]);
    free(text);
    free(ordered);
    return status;
}

kas_status kas_assignment_make(const kas_replacement *r, kas_assignment *out)
{
    const int count = r->solution.targets;
    KAS_TRY(kas_assignment_allocate(r->kernels, count, out));
    memcpy(out->kernel, r->kernel, (size_t)r->kernels * sizeof *r->kernel);
    memcpy(out->kernel_of, r->kernel_of, (size_t)count * sizeof *r->kernel_of);
    for (int t = 0; t < count; t++)
        snprintf(out->layer[t], sizeof out->layer[t], "%s", r->target[t].name);
    kas_status status = kas_assignment_canonicalize(out);
    if (status != KAS_OK)
        kas_assignment_free(out);
    return status;
}

/* ---- the name -------------------------------------------------------------------------------- */

/* Appends the text that the name is computed from. Names of layers hold no blank and canonical
 * texts no line break, so the text can be read in one way only. */
static kas_status layers_text(const kas_assignment *a, kas_buf *out)
{
    kas_buf_puts(out, "kas-gpu layers\n");
    for (int i = 0; i < a->layers; i++) {
        kas_buf_printf(out, "%s ", a->layer[i]);
        if (a->kernel_of[i] == KAS_KEPT)
            kas_buf_puts(out, "-");
        else
            KAS_TRY(kas_canonical_text(&a->kernel[a->kernel_of[i]], out));
        kas_buf_puts(out, "\n");
    }
    return kas_buf_status(out);
}

kas_status kas_assignment_name(const kas_assignment *a, char name[KAS_NAME_SIZE])
{
    kas_buf text = {0};
    char hex[65];
    if (a->layers == 0)
        return kas_kernel_name(a->kernel, name);
    kas_status status = layers_text(a, &text);
    if (status == KAS_OK) {
        kas_sha256_hex(text.data, text.size, hex);
        memcpy(name, hex, KAS_NAME_SIZE - 1);
        name[KAS_NAME_SIZE - 1] = '\0';
    }
    kas_buf_free(&text);
    return status;
}

/* ---- at a network ---------------------------------------------------------------------------- */

static int find_layer(const kas_assignment *a, const char *name)
{
    for (int i = 0; i < a->layers; i++)
        if (strcmp(a->layer[i], name) == 0)
            return i;
    return -1;
}

static bool is_target(const char *name, const kas_target *targets, int count)
{
    for (int t = 0; t < count; t++)
        if (strcmp(targets[t].name, name) == 0)
            return true;
    return false;
}

/* Checks that every layer of the file is a target and every target a layer of the file. */
kas_status kas_assignment_match(const kas_assignment *a, const kas_target *targets, int count,
                                int *kernel_of)
{
    for (int i = 0; i < a->layers; i++)
        if (!is_target(a->layer[i], targets, count))
            return kas_fail(KAS_BAD_INPUT,
                            "layer \"%s\": no such convolution is replaced here; expected the %d "
                            "from \"%s\" to \"%s\" (kas-gpu net show lists them)",
                            a->layer[i], count, targets[0].name, targets[count - 1].name);
    for (int t = 0; t < count; t++) {
        const int i = find_layer(a, targets[t].name);
        if (i < 0)
            return kas_fail(KAS_BAD_INPUT,
                            "layer \"%s\" is missing; expected the number of its kernel, or null "
                            "where the convolution stays (--targets leaves layers out)",
                            targets[t].name);
        kernel_of[t] = a->kernel_of[i];
    }
    return KAS_OK;
}

/* Gives a replacement the gains of its file. */
static kas_status fit_gains(const kas_assignment *a, kas_replacement *r)
{
    if (a->gains.count == 0)
        return KAS_OK;
    const kas_status status = kas_gains_fit(&a->gains, r);
    if (status != KAS_BAD_INPUT || a->layers)
        return status;
    kas_debug("%s; the gains of the file are not used", kas_error());
    return KAS_OK;
}

kas_status kas_assignment_fit(const kas_assignment *a, const kas_target *targets, int count,
                              const kas_budget *budget, kas_replacement *out)
{
    int *kernel_of = a->layers ? calloc((size_t)count + 1, sizeof *kernel_of) : NULL;
    kas_status status = KAS_OK;
    *out = (kas_replacement){0};
    if (a->layers)
        status = kernel_of ? kas_assignment_match(a, targets, count, kernel_of)
                           : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", count);
    if (status == KAS_OK)
        status =
            kas_replacement_solve(a->kernel, a->kernels, kernel_of, targets, count, budget, out);
    free(kernel_of);
    KAS_TRY(status);
    status = fit_gains(a, out);
    if (status != KAS_OK)
        kas_replacement_free(out);
    return status;
}
