/* What the fuzz tests of the readers share: the arguments, the corpus, a finding, and layers to put
 * kernels into. */
#ifndef KAS_TESTS_FUZZ_FUZZ_RUN_H
#define KAS_TESTS_FUZZ_FUZZ_RUN_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/buf.h"
#include "host/core/files.h"
#include "host/core/random.h"
#include "host/space/sampler.h"

enum {
    CORPUS = 512,
    LARGEST = 16 << 10, /* bytes of a mutant that is kept */
    TARGETS = 3
};

/* Small layers with unequal channels, an image that is not square, and kernels of several sizes. */
static const kas_target even[TARGETS] = {KAS_TARGET_PLAIN("layer1", 16, 8, 8, 3),
                                         {.name = "layer2",
                                          .c_in = 16,
                                          .c_out = 32,
                                          .c = 16,
                                          .parts_in = 1,
                                          .parts_out = 2,
                                          .h = 4,
                                          .w = 4,
                                          .kernel_h = 3,
                                          .kernel_w = 3,
                                          .stride = 2},
                                         {.name = "layer3",
                                          .c_in = 64,
                                          .c_out = 32,
                                          .c = 32,
                                          .parts_in = 2,
                                          .parts_out = 1,
                                          .h = 2,
                                          .w = 2,
                                          .kernel_h = 1,
                                          .kernel_w = 1,
                                          .stride = 1}};
static const kas_target odd[TARGETS] = {{.name = "layer1",
                                         .c_in = 24,
                                         .c_out = 36,
                                         .c = 12,
                                         .parts_in = 2,
                                         .parts_out = 3,
                                         .h = 7,
                                         .w = 5,
                                         .kernel_h = 5,
                                         .kernel_w = 5,
                                         .stride = 1},
                                        KAS_TARGET_PLAIN("layer2", 18, 9, 9, 7),
                                        KAS_TARGET_PLAIN("layer3", 30, 1, 3, 3)};

typedef struct fuzz {
    unsigned long long usual, executions, seed, now;
    kas_buf corpus[CORPUS];
    int files, fixed; /* the first `fixed` are never replaced */
    unsigned long long accepted, refused, solved;
} fuzz;

static const kas_buf *present; /* the text at hand, for the message of a finding */
static fuzz state;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            finding(#condition, __LINE__);                                                         \
    } while (0)

static void finding(const char *condition, int line)
{
    fprintf(stderr, "FINDING at line %d, execution %llu of seed %llu: not so: %s\nmessage: %s\n",
            line, state.now, state.seed, condition, kas_error());
    if (present)
        fprintf(stderr, "%.*s\n", (int)present->size, kas_buf_text(present));
    exit(1);
}

/* ---- the first corpus ------------------------------------------------------------------------ */

static void add_file(const char *text, size_t size)
{
    if (state.files == CORPUS)
        return;
    kas_buf_add(&state.corpus[state.files++], text, size);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_folder(const char *folder)
{
    struct dirent **list;
    const int count = scandir(folder, &list, NULL, by_name);
    MUST(count > 2);
    for (int i = 0; i < count; i++) {
        char path[300];
        kas_buf text = {0};
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (strstr(path, ".json")) {
            MUST(kas_file_read(path, 1 << 20, &text) == KAS_OK);
            add_file(text.data, text.size);
        }
        kas_buf_free(&text);
        free(list[i]);
    }
    free(list);
}

static void keep(kas_rng *rng, const kas_buf *text)
{
    if (text->size > LARGEST || kas_rng_below(rng, 4) != 0)
        return;
    if (state.files < CORPUS) {
        add_file(text->data, text->size);
        return;
    }
    kas_buf *slot =
        &state.corpus[state.fixed + (int)kas_rng_below(rng, (uint32_t)(CORPUS - state.fixed))];
    kas_buf_clear(slot);
    kas_buf_add(slot, text->data, text->size);
}

static unsigned long long number(const char *text)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || end == text) {
        fprintf(stderr, "usage: TEST [EXECUTIONS [SEED]]\n");
        exit(2);
    }
    return value;
}

/* `usual`: executions when no number is given. */
static void fuzz_begin(int argc, char **argv, unsigned long long usual)
{
    state.usual = usual;
    state.executions = argc > 1 ? number(argv[1]) : usual;
    state.seed = argc > 2 ? number(argv[2]) : 1;
}

/* Makes a text. */
typedef void fuzz_mutate(kas_rng *rng, kas_buf *text);
/* Reads it and holds what comes of it against what must be true.  Was it accepted?  `text` ends
 * where its memory does, so that a read past the end is seen; `kept` is the same for whoever wants
 * to keep it. */
typedef bool fuzz_read(kas_rng *rng, const char *text, size_t size, const kas_buf *kept);

static void fuzz_execute(unsigned long long n, fuzz_mutate *mutate, fuzz_read *read)
{
    kas_rng rng = kas_rng_make(state.seed, KAS_PURPOSE_TEST, n);
    kas_buf text = {0};
    mutate(&rng, &text);
    present = &text;
    char *tight = malloc(text.size ? text.size : 1);
    MUST(tight);
    memcpy(tight, kas_buf_text(&text), text.size);
    *(read(&rng, tight, text.size, &text) ? &state.accepted : &state.refused) += 1;
    free(tight);
    present = NULL;
    kas_buf_free(&text);
}

/* What the corpus has by now is never replaced. */
static void fuzz_run(fuzz_mutate *mutate, fuzz_read *read)
{
    state.fixed = state.files;
    for (state.now = 0; state.now < state.executions; state.now++)
        fuzz_execute(state.now, mutate, read);
}

/* Says what was done, and frees the corpus. A run that accepts or refuses nearly all looks at half
 * of the code: that is a finding too. */
static void fuzz_end(void)
{
    MUST(state.executions < state.usual ||
         (state.accepted > state.executions / 20 && state.solved > state.executions / 100 &&
          state.refused > state.executions / 4));
    printf("ok: %llu executions of seed %llu: %llu accepted (%llu of them solved), %llu refused, "
           "0 findings\n",
           state.executions, state.seed, state.accepted, state.solved, state.refused);
    for (int i = 0; i < state.files; i++)
        kas_buf_free(&state.corpus[i]);
}

#endif
