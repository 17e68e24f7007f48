#include "host/space/known/known.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/space/commute.h"
#include "host/space/nas_pte/nas_pte.h"

/* Four groups are group_conv, and as many as there are channels are depthwise. */
static const char *const variants[] = {
    "group(2)",         "group(8)",          "group(16)",         "bottleneck_in(2)",
    "bottleneck_in(4)", "bottleneck_out(2)", "bottleneck_out(4)", "bottleneck_space(2)",
};

static kas_status give_variant(const char *steps, kas_known_taker *take, void *context)
{
    char name[KAS_KNOWN_SIZE];
    kas_pte_sequence sequence;
    kas_assignment one = {.kernels = 1, .kernel = malloc(sizeof *one.kernel)};
    kas_status status = one.kernel ? kas_pte_parse(steps, &sequence)
                                   : kas_fail(KAS_NO_MEMORY, "known kernels: out of memory");
    if (status == KAS_OK)
        status = kas_pte_kernel(&sequence, one.kernel);
    snprintf(name, sizeof name, "conv %s", steps);
    if (status == KAS_OK)
        status = take(context, name, &one);
    kas_assignment_free(&one);
    return status;
}

static kas_status give_file(const kas_embedded *file, kas_known_taker *take, void *context)
{
    char name[KAS_KNOWN_SIZE];
    kas_assignment one;
    KAS_TRY(kas_assignment_read_json(file->name, file->text, strlen(file->text), &one));
    snprintf(name, sizeof name, "%s", file->name);
    const kas_status status = take(context, name, &one);
    kas_assignment_free(&one);
    return status;
}

kas_status kas_known_each(kas_known_taker *take, void *context)
{
    for (const kas_embedded *file = kas_embedded_kernels; file->name; file++)
        KAS_TRY(give_file(file, take, context));
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        KAS_TRY(give_variant(variants[i], take, context));
    return KAS_OK;
}

/* ---- by name --------------------------------------------------------------------------------- */

enum { MOST = 128 };
static struct {
    char hash[KAS_NAME_SIZE], name[KAS_KNOWN_SIZE];
} table[MOST];
static int listed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns the name that a sample of this kernel would have. */
static kas_status name_kernel(kas_assignment *kernel, char hash[KAS_NAME_SIZE])
{
    KAS_TRY(kas_kernel_canonicalize_unordered(kernel->kernel, kernel->kernel));
    return kas_kernel_name(kernel->kernel, hash);
}

static kas_status list(void *context, const char *name, kas_assignment *kernel)
{
    (void)context;
    if (listed == MOST)
        return KAS_OK;
    KAS_TRY(name_kernel(kernel, table[listed].hash));
    snprintf(table[listed++].name, KAS_KNOWN_SIZE, "%s", name);
    return KAS_OK;
}

static void list_all(void)
{
    kas_known_each(list, NULL);
}

static const char *find(const char *hash)
{
    for (int i = 0; i < listed; i++)
        if (strcmp(table[i].hash, hash) == 0)
            return table[i].name;
    return NULL;
}

static const char *find_only(const char *text)
{
    kas_assignment layers;
    char hash[KAS_NAME_SIZE];
    const char *name = NULL;
    if (kas_assignment_read_json("candidate", text, strlen(text), &layers) != KAS_OK)
        return NULL;
    if (layers.kernels == 1 && name_kernel(&layers, hash) == KAS_OK)
        name = find(hash);
    kas_assignment_free(&layers);
    return name;
}

const char *kas_known_as(const char *hash, const char *text)
{
    pthread_once(&once, list_all);
    const char *name = find(hash);
    if (!name && text && strstr(text, "\"layers\""))
        name = find_only(text);
    return name;
}
