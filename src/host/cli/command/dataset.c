#include "host/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/file/target.h"
#include "host/data/hdf5/hdf5_writer.h"
#include "host/data/import/import.h"
#include "host/net/net.h"

typedef struct arguments {
    kas_cli_common common;
    const char *words[3]; /* ACTION and what follows it */
    int word_count;
    const char *output;
    uint32_t limit_train, limit_test;    /* import; 0 = all */
    uint32_t resize;                     /* import of small images; 0 = keep their size */
    bool compress;                       /* import; with resize or folder.pixels */
    kas_folder_options folder;           /* import folder; limits and seed are separate members */
    uint32_t train, test, size, classes; /* make */
    uint64_t seed;
    unsigned given; /* a bit for each option from OPT_LIMIT_TRAIN on */
} arguments;

enum {
    OPT_LIMIT_TRAIN = 256,
    OPT_LIMIT_TEST,
    OPT_RESIZE,
    OPT_COMPRESS,
    OPT_INPUT,
    OPT_GREY,
    OPT_PIXELS,
    OPT_TEST_SHARE,
    OPT_SKIP_DAMAGED,
    OPT_TRAIN,
    OPT_TEST,
    OPT_SIZE,
    OPT_CLASSES,
    OPT_SEED
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "The HDF5 file to write", 1},
    {0, 0, 0, 0, "For import:", 2},
    {"limit-train", OPT_LIMIT_TRAIN, "N", 0,
     "Keep N training images, the same number of each class", 2},
    {"limit-test", OPT_LIMIT_TEST, "N", 0, "Keep N test images, the same number of each class", 2},
    {"resize", OPT_RESIZE, "S", 0, "cifar10, cifar100, idx: store images as S x S pixels", 2},
    {"input", OPT_INPUT, "S", 0, "folder: a network gets S x S pixels of an image (default 224)",
     2},
    {"grey", OPT_GREY, 0, 0, "folder: store images in one channel (grey)", 2},
    {"pixels", OPT_PIXELS, 0, 0, "folder: store the middle as S x S pixels, not the files", 2},
    {"compress", OPT_COMPRESS, 0, 0, "With --resize or --pixels: compress the images by gzip", 2},
    {"test-share", OPT_TEST_SHARE, "X", 0,
     "folder: share of the images that becomes the test set, when there is no val or test folder "
     "(default 0.1)",
     2},
    {"skip-damaged", OPT_SKIP_DAMAGED, 0, 0, "folder: leave damaged images out, with a warning", 2},
    {0, 0, 0, 0, "For make:", 3},
    {"train", OPT_TRAIN, "N", 0, "Training images (default 2000)", 3},
    {"test", OPT_TEST, "N", 0, "Test images (default 500)", 3},
    {"size", OPT_SIZE, "S", 0, "Height and width in pixels, 8 to 256 (default 32)", 3},
    {"classes", OPT_CLASSES, "K", 0, "Number of classes, 2 to 12 (default 10)", 3},
    {"seed", OPT_SEED, "S", 0,
     "Seed of the drawn images; import folder: seed of order and test share (default 0)", 3},
    {0}};

enum { MOST_IMAGES = 100000000 };
static const kas_cli_value values[] = {
    {'o', KAS_CLI_TEXT(arguments, output)},
    {OPT_LIMIT_TRAIN, KAS_CLI_INT(arguments, limit_train, 1, MOST_IMAGES)},
    {OPT_LIMIT_TEST, KAS_CLI_INT(arguments, limit_test, 1, MOST_IMAGES)},
    {OPT_RESIZE, KAS_CLI_INT(arguments, resize, 8, KAS_NET_MAX_IMAGE)},
    {OPT_COMPRESS, KAS_CLI_FLAG(arguments, compress)},
    {OPT_INPUT, KAS_CLI_INT(arguments, folder.side, 8, KAS_NET_MAX_IMAGE)},
    {OPT_PIXELS, KAS_CLI_FLAG(arguments, folder.pixels)},
    {OPT_TEST_SHARE, KAS_CLI_NUMBER(arguments, folder.test_share, 1e-6, 1 - 1e-6)},
    {OPT_SKIP_DAMAGED, KAS_CLI_FLAG(arguments, folder.skip_damaged)},
    {OPT_TRAIN, KAS_CLI_INT(arguments, train, 1, MOST_IMAGES)},
    {OPT_TEST, KAS_CLI_INT(arguments, test, 1, MOST_IMAGES)},
    {OPT_SIZE, KAS_CLI_INT(arguments, size, 8, 256)},
    {OPT_CLASSES, KAS_CLI_INT(arguments, classes, 2, 12)},
    {OPT_SEED, KAS_CLI_SEED(arguments, seed)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    if (key >= OPT_LIMIT_TRAIN && key <= OPT_SEED)
        a->given |= 1U << (key - OPT_LIMIT_TRAIN);
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        return 0;
    case OPT_GREY:
        a->folder.c = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (a->word_count == 3)
            argp_error(state, "unexpected argument \"%s\"", arg);
        else
            a->words[a->word_count++] = arg;
        return 0;
    default:
        return kas_cli_set(state, options, values, key, arg);
    }
}

static const struct argp_child children[] = {{&kas_cli_common_argp, 0, 0, 90}, {0}};
static const struct argp argp = {
    options,
    parse,
    "import cifar10|cifar100|idx|folder SRC -o FILE\nmake shapes -o FILE\ninfo FILE",
    "Makes data sets in HDF5 and says what is in one.\n\n"
    "  kas-gpu dataset make shapes -o shapes.h5\n"
    "  kas-gpu dataset import cifar100 cifar-100-binary.tar.gz -o cifar100.h5\n"
    "  kas-gpu dataset import cifar10 DIR -o small.h5 --limit-train 5000\n"
    "  kas-gpu dataset import cifar100 DIR -o large.h5 --resize 224\n"
    "  kas-gpu dataset import idx mnist/ -o mnist.h5\n"
    "  kas-gpu dataset import folder imagenet/ -o imagenet.h5\n"
    "  kas-gpu dataset info cifar100.h5\n\v"
    "SRC of CIFAR is the unpacked folder or the .tar.gz of the binary version; datasets/fetch.sh "
    "gets it. idx is a folder of IDX files, as MNIST's, plain or .gz. folder has train/CLASS/*.jpg "
    "and val/CLASS/*.jpg (.jpeg, .png), or CLASS/*.jpg and a test share is split off. "
    "The layout of the files is described in datasets/FORMAT.md: any HDF5 file of that layout "
    "works, whoever wrote it.",
    children,
    0,
    0};

static void add_floats(kas_buf *out, const char *name, const float *values, uint32_t count)
{
    kas_buf_printf(out, ", \"%s\": [", name);
    for (uint32_t i = 0; i < count; i++)
        kas_buf_printf(out, "%s%.9g", i ? ", " : "", (double)values[i]);
    kas_buf_puts(out, "]");
}

static kas_status print_json(const kas_dataset *d, const char *path)
{
    kas_buf out = {0};
    kas_buf_puts(&out, "{\"schema_version\": 1, \"file\": ");
    kas_buf_json_string(&out, path);
    kas_buf_printf(&out,
                   ", \"height\": %u, \"width\": %u, \"channels\": %u, \"encoded\": %s, "
                   "\"train\": %u, \"test\": %u",
                   d->h, d->w, d->c, d->encoded ? "true" : "false", d->train.count, d->test.count);
    add_floats(&out, "mean", d->mean, d->c);
    add_floats(&out, "std", d->std, d->c);
    kas_buf_printf(&out, ", \"digest\": \"%s\", \"classes\": [", d->digest);
    for (uint32_t i = 0; i < d->classes; i++) {
        kas_buf_puts(&out, i ? ", " : "");
        kas_buf_json_string(&out, d->class_name[i]);
    }
    kas_buf_puts(&out, "]}\n");
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    return status;
}

static void print_floats(const char *name, const float *values, uint32_t count)
{
    printf("%-10s", name);
    for (uint32_t i = 0; i < count; i++)
        printf(" %.4f", (double)values[i]);
    printf("\n");
}

static void print_range(const kas_dataset *d, const kas_images *images, uint32_t *tally)
{
    uint32_t low = UINT32_MAX, high = 0;
    memset(tally, 0, d->classes * sizeof *tally);
    for (uint32_t i = 0; i < images->count; i++)
        tally[images->labels[i]]++;
    for (uint32_t k = 0; k < d->classes; k++) {
        low = tally[k] < low ? tally[k] : low;
        high = tally[k] > high ? tally[k] : high;
    }
    printf("%u images, ", images->count);
    if (low == high)
        printf("%u of each class\n", low);
    else
        printf("%u to %u of each class\n", low, high);
}

static kas_status print_text(const kas_dataset *d, const char *path)
{
    uint32_t *tally = malloc(d->classes * sizeof *tally);
    if (!tally)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %u classes", d->classes);
    printf("%s\n%-10s %u x %u pixels, %u channel%s%s\n", path, "images", d->h, d->w, d->c,
           d->c == 1 ? "" : "s", d->encoded ? ", cut out of JPEG or PNG images of any size" : "");
    printf("%-10s ", "train");
    print_range(d, &d->train, tally);
    printf("%-10s ", "test");
    print_range(d, &d->test, tally);
    print_floats("mean", d->mean, d->c);
    print_floats("std", d->std, d->c);
    printf("%-10s %u:", "classes", d->classes);
    for (uint32_t i = 0; i < d->classes && i < 12; i++)
        printf("%s %s", i ? "," : "", d->class_name[i]);
    printf("%s\n%-10s %s\n", d->classes > 12 ? ", ..." : "", "digest", d->digest);
    free(tally);
    return KAS_OK;
}

static kas_status print_dataset(const arguments *a, const kas_dataset *d, const char *path)
{
    if (a->common.json)
        return print_json(d, path);
    return a->common.quiet ? KAS_OK : print_text(d, path);
}

static kas_status usage(const char *problem)
{
    return kas_fail(KAS_USAGE, "%s; see kas-gpu dataset --help", problem);
}

/* Loads a data set that is created or imported in memory. */
static kas_status load(const arguments *a, kas_dataset **out)
{
    const char *what = a->words[1];
    if (strcmp(a->words[0], "make") == 0)
        return kas_make_shapes(a->train, a->test, a->size, a->classes, a->seed, out);
    if (strcmp(what, "idx") == 0)
        KAS_TRY(kas_import_idx(a->words[2], out));
    else
        KAS_TRY(kas_import_cifar(strcmp(what, "cifar10") == 0 ? KAS_CIFAR10 : KAS_CIFAR100,
                                 a->words[2], out));
    KAS_TRY(kas_dataset_limit(*out, a->limit_train, a->limit_test));
    kas_dataset_finish(*out);
    return KAS_OK;
}

static kas_status write_loaded(const arguments *a)
{
    kas_dataset *d = NULL;
    kas_status status = load(a, &d);
    if (status == KAS_OK && a->resize)
        status = kas_dataset_write_resized(a->output, d, a->resize, a->resize, a->compress);
    else if (status == KAS_OK)
        status = kas_dataset_write(a->output, d);
    kas_dataset_close(d);
    return status;
}

static kas_status import_folder(const arguments *a)
{
    kas_folder_options o = a->folder;
    o.limit_train = a->limit_train;
    o.limit_test = a->limit_test;
    o.compress = a->compress;
    o.seed = a->seed;
    return kas_import_folder(a->words[2], a->output, &o);
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* Refuses options that do nothing for this action. */
static kas_status check_given(const arguments *a, bool folder)
{
    enum { MAKE = 1, SMALL = 2, FOLDER = 4 };
    static const int used[OPT_SEED - OPT_LIMIT_TRAIN + 1] = {
        [OPT_LIMIT_TRAIN - OPT_LIMIT_TRAIN] = SMALL | FOLDER,
        [OPT_LIMIT_TEST - OPT_LIMIT_TRAIN] = SMALL | FOLDER,
        [OPT_RESIZE - OPT_LIMIT_TRAIN] = SMALL,
        [OPT_COMPRESS - OPT_LIMIT_TRAIN] = SMALL | FOLDER,
        [OPT_INPUT - OPT_LIMIT_TRAIN] = FOLDER,
        [OPT_GREY - OPT_LIMIT_TRAIN] = FOLDER,
        [OPT_PIXELS - OPT_LIMIT_TRAIN] = FOLDER,
        [OPT_TEST_SHARE - OPT_LIMIT_TRAIN] = FOLDER,
        [OPT_SKIP_DAMAGED - OPT_LIMIT_TRAIN] = FOLDER,
        [OPT_TRAIN - OPT_LIMIT_TRAIN] = MAKE,
        [OPT_TEST - OPT_LIMIT_TRAIN] = MAKE,
        [OPT_SIZE - OPT_LIMIT_TRAIN] = MAKE,
        [OPT_CLASSES - OPT_LIMIT_TRAIN] = MAKE,
        [OPT_SEED - OPT_LIMIT_TRAIN] = MAKE | FOLDER,
    };
    const bool info = strcmp(a->words[0], "info") == 0;
    const int here = info ? 0 : strcmp(a->words[0], "make") == 0 ? MAKE : folder ? FOLDER : SMALL;
    for (const struct argp_option *o = options; o->name || o->doc; o++)
        if (o->key >= OPT_LIMIT_TRAIN && !(used[o->key - OPT_LIMIT_TRAIN] & here) &&
            a->given >> (o->key - OPT_LIMIT_TRAIN) & 1)
            return kas_fail(KAS_USAGE, "%s%s%s takes no --%s; see kas-gpu dataset --help",
                            a->words[0], info ? "" : " ", info ? "" : a->words[1], o->name);
    return info && a->output ? usage("info writes no file; leave out -o") : KAS_OK;
}

static kas_status check_words(const arguments *a, bool folder)
{
    static const char *const sources[] = {"cifar10", "cifar100", "idx", "folder", NULL};
    const char *what = a->word_count > 1 ? a->words[1] : "";
    if (strcmp(a->words[0], "make") == 0)
        return a->word_count == 2 && strcmp(what, "shapes") == 0
                   ? KAS_OK
                   : usage("make: expected: make shapes -o FILE");
    if (a->word_count != 3 || !is_one_of(what, sources))
        return usage("import: expected: import cifar10|cifar100|idx|folder SRC -o FILE");
    if (a->compress && !(folder ? a->folder.pixels : a->resize > 0))
        return usage("--compress needs --resize, or import folder with --pixels");
    return KAS_OK;
}

/* Checks the output. An HDF5 file in a folder of images is the output of an earlier import, and
 * no input. */
static kas_status check_output(const arguments *a)
{
    KAS_TRY(kas_file_check_writable(a->output));
    if (a->word_count == 3 && !kas_hdf5_is_file(a->output))
        KAS_TRY(kas_file_is_input(a->words[2]));
    return kas_file_check_writable(a->output);
}

/* Writes the file, and prints a description that is read from it. */
static kas_status run_write(const arguments *a)
{
    kas_dataset *d = NULL;
    bool folder = a->word_count > 1 && strcmp(a->words[1], "folder") == 0;
    KAS_TRY(check_words(a, folder));
    KAS_TRY(check_given(a, folder));
    if (!a->output)
        return usage("expected -o FILE, the file to write");
    KAS_TRY(check_output(a));
    KAS_TRY(folder ? import_folder(a) : write_loaded(a));
    KAS_TRY(kas_dataset_open_streamed(a->output, &d));
    kas_status status = print_dataset(a, d, a->output);
    kas_dataset_close(d);
    return status;
}

static kas_status run_info(const arguments *a)
{
    if (a->word_count != 2)
        return usage("info: expected one file");
    KAS_TRY(check_given(a, false));
    kas_dataset *d = NULL;
    kas_status status = kas_dataset_open(a->words[1], &d);
    if (status == KAS_OK)
        status = a->common.json ? print_json(d, a->words[1]) : print_text(d, a->words[1]);
    kas_dataset_close(d);
    return status;
}

static kas_status run(int argc, char **argv)
{
    arguments a = {.train = 2000,
                   .test = 500,
                   .size = 32,
                   .classes = 10,
                   .folder = {.side = 224, .c = 3, .test_share = 0.1}};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &a));
    const char *action = a.word_count ? a.words[0] : "";
    if (strcmp(action, "info") == 0)
        return run_info(&a);
    if (strcmp(action, "import") == 0 || strcmp(action, "make") == 0)
        return run_write(&a);
    return usage("expected import, make or info");
}

const kas_command kas_command_dataset = {"dataset", "Import, make and inspect data sets", run};
