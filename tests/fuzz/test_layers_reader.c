/* Fuzz test of the reader of files of layers and of what stands behind it.
 *
 * As test_kernel_reader: a file is refused with a message that names it and the place in it, or
 * accepted, and then it is canonical, reads back from what is written as the same assignment, byte
 * for byte, has one name in whatever order its layers stand, and goes into a network: sizes at each
 * layer that the plain checker accepts, or a message that names a layer or kernel. */
#include "fuzz_run.h"
#include "host/check/recheck_layers.h"
#include "host/space/file/assignment.h"
#include "layers_mutate.h"
#include "targets.h"

enum { COMPOSED = 64 }; /* files in the first corpus */

/* ---- the first corpus ------------------------------------------------------------------------ */

/* Gains of the layers that have a kernel. */
static void add_gains(cJSON *root, const cJSON *layers)
{
    cJSON *gains = cJSON_AddObjectToObject(root, "gains");
    const cJSON *layer;
    cJSON_SetNumberValue(cJSON_GetObjectItem(root, "version"), 2);
    cJSON_ArrayForEach(layer, layers) if (!cJSON_IsNull(layer))
        cJSON_AddNumberToObject(gains, layer->string, 0.125);
}

/* One to three kernels of kernel files, at layers of the targets' names. */
static cJSON *compose(kas_rng *rng, const kas_buf *kernel_file, int files)
{
    cJSON *root = cJSON_CreateObject(), *kernels, *layers;
    const int count = 1 + (int)kas_rng_below(rng, TARGETS);
    cJSON_AddStringToObject(root, "format", "kas-gpu layers");
    cJSON_AddNumberToObject(root, "version", 1);
    kernels = cJSON_AddArrayToObject(root, "kernels");
    layers = cJSON_AddObjectToObject(root, "layers");
    for (int k = 0; k < count; k++) {
        const kas_buf *file = &kernel_file[kas_rng_below(rng, (uint32_t)files)];
        cJSON *kernel = cJSON_ParseWithLength(file->data, file->size);
        cJSON_DeleteItemFromObject(kernel, "gains"); /* they stand beside the layers */
        cJSON_AddItemToArray(kernels, kernel);
    }
    for (int t = 0; t < TARGETS; t++) /* the first ones have each kernel once */
        cJSON_AddItemToObject(layers, even[t].name,
                              t < count               ? cJSON_CreateNumber(t)
                              : kas_rng_below(rng, 2) ? cJSON_CreateNull()
                                                      : cJSON_CreateNumber(0));
    if (kas_rng_below(rng, 2))
        add_gains(root, layers);
    return root;
}

/* From the kernel files that the corpus holds until then. */
static void add_composed_files(void)
{
    static kas_buf kernel_file[FUZZ_CORPUS];
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    const int files = fuzz.files;
    memcpy(kernel_file, fuzz.corpus, sizeof kernel_file);
    memset(fuzz.corpus, 0, sizeof fuzz.corpus);
    fuzz.files = 0;
    for (int i = 0; i < COMPOSED; i++) {
        cJSON *root = compose(&rng, kernel_file, files);
        char *text = cJSON_PrintUnformatted(root);
        MUST(text);
        fuzz_add(text, strlen(text));
        free(text);
        cJSON_Delete(root);
    }
    for (int i = 0; i < files; i++)
        kas_buf_free(&kernel_file[i]);
}

/* ---- what must hold of an assignment that was accepted --------------------------------------- */

/* Layers ascend, kernels are numbered as layers first use them, and each is legal. */
static void check_canonical(const kas_assignment *a)
{
    int used = 0;
    for (int i = 0; i < a->layers; i++) {
        MUST(i == 0 || strcmp(a->layer[i - 1], a->layer[i]) < 0);
        MUST(a->kernel_of[i] == KAS_KEPT || (a->kernel_of[i] >= 0 && a->kernel_of[i] <= used));
        used += a->kernel_of[i] == used;
    }
    MUST(a->layers == 0 ? a->kernels == 1 : a->kernels == used);
    for (int k = 0; k < a->kernels; k++) {
        kas_kernel copy = a->kernel[k];
        MUST(kas_kernel_infer(&copy) == KAS_OK);
    }
}

static void check_round_trip(const kas_assignment *a)
{
    kas_buf first = {0}, second = {0};
    kas_assignment again;
    char name[KAS_NAME_SIZE], other[KAS_NAME_SIZE];
    MUST(kas_assignment_name(a, name) == KAS_OK);
    MUST(kas_assignment_write_json(a, &first) == KAS_OK);
    MUST(kas_assignment_read_json("written", first.data, first.size, &again) == KAS_OK);
    MUST(kas_assignment_name(&again, other) == KAS_OK && strcmp(name, other) == 0);
    MUST(kas_assignment_write_json(&again, &second) == KAS_OK);
    MUST(strcmp(kas_buf_text(&first), kas_buf_text(&second)) == 0);
    kas_assignment_free(&again);
    kas_buf_free(&first);
    kas_buf_free(&second);
}

/* The same layers from the last to the first. */
static void check_order(const kas_assignment *a, const kas_buf *text)
{
    cJSON *root = cJSON_ParseWithLength(text->data, text->size);
    cJSON *layers = cJSON_GetObjectItemCaseSensitive(root, "layers"), *back, *last;
    char name[KAS_NAME_SIZE], other[KAS_NAME_SIZE];
    kas_assignment again;
    MUST(root && layers);
    back = cJSON_CreateObject();
    while ((last = cJSON_DetachItemFromArray(layers, cJSON_GetArraySize(layers) - 1)))
        cJSON_AddItemToArray(back, last); /* keeps its name */
    cJSON_ReplaceItemInObjectCaseSensitive(root, "layers", back);
    char *printed = cJSON_PrintUnformatted(root);
    MUST(printed && kas_assignment_read_json("turned", printed, strlen(printed), &again) == KAS_OK);
    MUST(kas_assignment_name(a, name) == KAS_OK && kas_assignment_name(&again, other) == KAS_OK);
    MUST(strcmp(name, other) == 0);
    kas_assignment_free(&again);
    free(printed);
    cJSON_Delete(root);
}

/* The layer that is not there or has no gain, or the kernel and where it does not fit. */
static void check_unfit(kas_status status, bool layers)
{
    if (status == KAS_BAD_INPUT)
        MUST(layers &&
             (strncmp(kas_error(), "layer \"", 7) == 0 || strncmp(kas_error(), "gains: ", 7) == 0));
    else if (status != KAS_OVER_BUDGET) {
        MUST(status == KAS_ILLEGAL || status == KAS_UNSUPPORTED);
        MUST(!layers || strncmp(kas_error(), "kernel ", 7) == 0);
        MUST(strstr(kas_error(), "layer") || strstr(kas_error(), "node "));
    }
}

static void check_fit(const kas_assignment *a, const kas_target *targets, const kas_budget *budget)
{
    kas_replacement fit;
    kas_layers_checked checked = {0};
    char name[KAS_NAME_SIZE];
    const kas_status status = kas_assignment_fit(a, targets, TARGETS, budget, &fit);
    if (status != KAS_OK) {
        check_unfit(status, a->layers > 0);
        return;
    }
    MUST(kas_assignment_name(a, name) == KAS_OK);
    if (a->layers) {
        MUST(kas_layers_check(&checked, name, &fit, budget) == KAS_OK);
        if (checked.illegal || checked.over_budget)
            fprintf(stderr, "%s\n", checked.first);
        MUST(checked.illegal == 0 && checked.over_budget == 0);
    }
    kas_layers_checked_free(&checked);
    kas_replacement_free(&fit);
    fuzz.solved++;
}

/* A place in the file follows its name: a layer, a kernel and its node, a field or a line. */
static void check_refused(kas_status status)
{
    static const char *const places[] = {": gains",      ": layer", ": kernels",     ": field",
                                         ": line",       ".layer",  ": format",      ": version",
                                         "field \"",     "key \"",  "nested deeper", "NUL byte",
                                         "bytes of JSON"};
    bool placed = false;
    MUST(status == KAS_BAD_INPUT && strncmp(kas_error(), "mutant.json: ", 13) == 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        placed |= strstr(kas_error(), places[i]) != NULL;
    MUST(placed);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void make_mutant(kas_rng *rng, kas_buf *text)
{
    fuzz_json_mutant(rng, fuzz_mutate_layers, text);
}

static void check_accepted(kas_rng *rng, const kas_assignment *a, const kas_buf *text)
{
    static const double ratios[] = {0, 0.1, 0.5, 1, 4};
    const kas_budget budget = {.max_flops_ratio = ratios[kas_rng_below(rng, 5)],
                               .max_params_ratio = ratios[kas_rng_below(rng, 5)]};
    check_canonical(a);
    check_round_trip(a);
    check_fit(a, kas_rng_below(rng, 4) ? even : odd, &budget);
    if (a->layers == 0)
        return; /* a kernel file, by mutation of the format */
    check_order(a, text);
    fuzz_keep(rng, text);
}

static bool read_layers(kas_rng *rng, const char *text, size_t size, const kas_buf *kept)
{
    kas_assignment assignment;
    const kas_status status = kas_assignment_read_json("mutant.json", text, size, &assignment);
    if (status != KAS_OK) {
        check_refused(status);
        return false;
    }
    check_accepted(rng, &assignment, kept);
    kas_assignment_free(&assignment);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 25000);
    fuzz_add_folder("kernels");
    fuzz_add_folder("tests/kernels");
    fuzz_add_folder("tests/fuzz/corpus");
    add_composed_files();
    fuzz_cases(make_mutant, read_layers);
    fuzz_end(5, 1, 25);
    return 0;
}
