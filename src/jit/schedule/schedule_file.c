#include "jit/schedule/schedule_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "jit/schedule/sequence_text.h"

enum { WORDS = 5, LINE = 512, LARGEST = 1 << 20, MOST_BATCH = 65536 /* of --batch, too */ };

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    int line, words;
    char text[LINE], *word[WORDS];
} reader;

/* Copies the next line and cuts it into words; returns the text behind it. */
static const char *next_line(reader *r, const char *text)
{
    const size_t size = strcspn(text, "\n");
    char *rest;
    snprintf(r->text, sizeof r->text, "%.*s", (int)(size < LINE ? size : LINE - 1), text);
    r->text[strcspn(r->text, "#")] = '\0';
    r->line++;
    r->words = 0;
    for (char *w = strtok_r(r->text, " \t\r", &rest); w && r->words < WORDS;
         w = strtok_r(NULL, " \t\r", &rest))
        r->word[r->words++] = w;
    return text + size + (text[size] == '\n');
}

static kas_status bad(const reader *r, const char *found, const char *wanted)
{
    return kas_fail(KAS_BAD_INPUT, "%s:%d: found \"%s\"; %s", r->path, r->line, found, wanted);
}

static kas_status read_number(const reader *r, const char *word, int32_t *n)
{
    char *end;
    const long long value = strtoll(word, &end, 10);
    if (*end || end == word || value < 1 || value > INT32_MAX)
        return bad(r, word, "a number from 1 to 2147483647 is expected");
    *n = (int32_t)value;
    return KAS_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The words of the head. */
enum { HEAD_LAYER, HEAD_DEVICE, HEAD_BATCH, HEAD_PHASE, HEAD_PRECISION, HEAD_INPUT, HEAD };
static const unsigned needed = 1u << HEAD_LAYER | 1u << HEAD_DEVICE | 1u << HEAD_BATCH;

static kas_status add_kernel(const reader *r, const char *rest, kas_schedule_file *out)
{
    if (strlen(r->word[1]) >= sizeof out->kernel->name ||
        kas_schedule_file_find(out, r->word[1]) >= 0)
        return bad(r, r->word[1],
                   "a kernel that does not stand above already is expected, like f0");
    if (out->kernels == KAS_SCHEDULE_KERNELS)
        return bad(r, r->word[1], "a file has at most 256 kernels");
    snprintf(out->kernel[out->kernels].name, sizeof out->kernel->name, "%s", r->word[1]);
    out->kernel[out->kernels].line = r->line + 1;
    out->kernel[out->kernels++].text = (size_t)(rest - kas_buf_text(&out->text));
    return KAS_OK;
}

const char *const kas_schedule_passes[3] = {"forward", "data", "weights"};

int kas_schedule_file_find_map(const kas_schedule_file *file, int node, kas_conv_pass pass)
{
    for (int m = 0; m < file->maps; m++)
        if (file->map[m].node == node && file->map[m].pass == pass)
            return m;
    return -1;
}

static kas_status add_map(const reader *r, kas_schedule_file *out)
{
    int32_t node;
    int pass = 0;
    if (r->words != 4 || out->kernels > 0 || out->maps == KAS_SCHEDULE_MAPS)
        return bad(
            r, r->word[0],
            "at most 256 maps are expected in front of the first kernel, with three words: a "
            "node's number, its pass, and library or loops");
    KAS_TRY(read_number(r, r->word[1], &node));
    while (pass < 3 && strcmp(kas_schedule_passes[pass], r->word[2]) != 0)
        pass++;
    if (pass == 3)
        return bad(r, r->word[2], "forward, data or weights is expected");
    const bool loops = strcmp(r->word[3], "loops") == 0;
    if (!loops && strcmp(r->word[3], "library") != 0)
        return bad(r, r->word[3], "library or loops is expected");
    if (kas_schedule_file_find_map(out, node, (kas_conv_pass)pass) >= 0)
        return bad(r, r->word[1], "a map's pass that does not stand above already is expected");
    out->map[out->maps].node = node;
    out->map[out->maps].line = r->line;
    out->map[out->maps].pass = (kas_conv_pass)pass;
    out->map[out->maps++].loops = loops;
    return KAS_OK;
}

static kas_status read_layer(const reader *r, const char *value, kas_schedule_file *out)
{
    if (strlen(value) >= sizeof out->layer)
        return bad(r, value, "a layer's name of at most 127 characters is expected");
    strcpy(out->layer, value);
    return KAS_OK;
}

static kas_status read_batch(const reader *r, const char *value, kas_schedule_file *out)
{
    KAS_TRY(read_number(r, value, &out->batch));
    return out->batch <= MOST_BATCH ? KAS_OK : bad(r, value, "at most 65536 images are expected");
}

/* Reads one of two words. */
static kas_status read_either(const reader *r, const char *value, const char *no, const char *yes,
                              bool *out)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s or %s is expected", no, yes);
    *out = strcmp(value, yes) == 0;
    return *out || strcmp(value, no) == 0 ? KAS_OK : bad(r, value, wanted);
}

static kas_status read_precision(const reader *r, const char *value, kas_schedule_file *out)
{
    int dtype = 0;
    out->tf32 = strcmp(value, "tf32") == 0;
    while (!out->tf32 && dtype < KAS_DTYPES && strcmp(value, kas_dtype_names[dtype]) != 0)
        dtype++;
    if (dtype == KAS_DTYPES)
        return bad(r, value, "fp32, tf32, bf16 or fp16 is expected");
    out->dtype = (kas_dtype)dtype;
    return KAS_OK;
}

static kas_status read_input(const reader *r, const char *value, kas_schedule_file *out)
{
    char again[64] = "";
    if (sscanf(value, "%9dx%9dx%9d", &out->c, &out->h, &out->w) == 3)
        snprintf(again, sizeof again, "%dx%dx%d", out->c, out->h, out->w);
    return strcmp(value, again) == 0 && out->c > 0 && out->h > 0 && out->w > 0
               ? KAS_OK
               : bad(r, value,
                     "channels, height and width of an image such as 3x32x32 are expected");
}

/* Reads a line in front of the first kernel. Each stands there once. */
static kas_status read_head(const reader *r, kas_schedule_file *out, unsigned *seen)
{
    static const char *const words[] = {"layer", "device", "batch", "phase", "precision", "input"};
    const char *value = r->word[1];
    int k = 0;
    while (k < HEAD && strcmp(r->word[0], words[k]) != 0)
        k++;
    if (k == HEAD)
        return bad(r, r->word[0],
                   "input, layer, device, batch, phase, precision, map or kernel is expected");
    if (*seen >> k & 1)
        return bad(r, r->word[0], "it stands above already");
    *seen |= 1u << k;
    return k == HEAD_LAYER    ? read_layer(r, value, out)
           : k == HEAD_BATCH  ? read_batch(r, value, out)
           : k == HEAD_DEVICE ? read_either(r, value, "cuda", "cpu", &out->cpu)
           : k == HEAD_INPUT  ? read_input(r, value, out)
           : k == HEAD_PHASE  ? read_either(r, value, "training", "inference", &out->inference)
                              : read_precision(r, value, out);
}

static kas_status parse(kas_schedule_file *out)
{
    reader r = {.path = out->path};
    unsigned seen = 0;
    for (const char *text = kas_buf_text(&out->text); *text;) {
        if (strcspn(text, "\n") >= LINE)
            return kas_fail(KAS_BAD_INPUT, "%s:%d: a line has at most %d characters", r.path,
                            r.line + 1, LINE - 1);
        text = next_line(&r, text);
        const bool is_kernel = r.words > 0 && strcmp(r.word[0], "kernel") == 0;
        if (r.words == 0 || (out->kernels > 0 && !is_kernel))
            continue;
        if (strcmp(r.word[0], "map") == 0) {
            KAS_TRY(add_map(&r, out));
            continue;
        }
        if (r.words != 2)
            return bad(&r, r.word[0],
                       "input, layer, device, batch, phase, precision or kernel and one word are "
                       "expected, or map and three");
        KAS_TRY(is_kernel ? add_kernel(&r, text, out) : read_head(&r, out, &seen));
    }
    return (seen & needed) == needed ? KAS_OK
                                     : kas_fail(KAS_BAD_INPUT,
                                                "%s: layer, device and batch are expected in front "
                                                "of the first kernel",
                                                out->path);
}

kas_status kas_schedule_file_parse(const char *path, const char *text, kas_schedule_file *out)
{
    *out = (kas_schedule_file){.path = path};
    kas_buf_puts(&out->text, text);
    KAS_TRY(kas_buf_status(&out->text));
    return parse(out);
}

kas_status kas_schedule_file_read(const char *path, kas_schedule_file *out)
{
    *out = (kas_schedule_file){.path = path};
    KAS_TRY(kas_file_read(path, LARGEST, &out->text));
    if (strlen(kas_buf_text(&out->text)) != out->text.size)
        return kas_fail(KAS_BAD_INPUT, "%s: found a NUL byte; a text is expected", path);
    return parse(out);
}

void kas_schedule_file_put_input(int c, int h, int w, kas_buf *out)
{
    kas_buf_printf(out, "input %dx%dx%d\n", c, h, w);
}

void kas_schedule_file_put_head(const char *layer, bool cpu, int batch, bool inference,
                                kas_dtype dtype, bool tf32, kas_buf *out)
{
    kas_buf_printf(out, "layer %s\ndevice %s\nbatch %d\nphase %s\nprecision %s\n", layer,
                   cpu ? "cpu" : "cuda", batch, inference ? "inference" : "training",
                   tf32 ? "tf32" : kas_dtype_names[dtype]);
}

void kas_schedule_file_free(kas_schedule_file *file)
{
    kas_buf_free(&file->text);
}

int kas_schedule_file_find(const kas_schedule_file *file, const char *kernel)
{
    for (int k = 0; k < file->kernels; k++)
        if (strcmp(file->kernel[k].name, kernel) == 0)
            return k;
    return -1;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Finds a loop by its name, which must be one of those that the nest has by now. */
static kas_status find_loop(const reader *r, const kas_ir *ir, const kas_nest *nest,
                            const char *name, uint8_t *loop)
{
    kas_buf known = {0}, one = {0};
    bool found = false;
    for (int i = -2; i < nest->ids && !found; i++) {
        const int id = i == -2 ? KAS_LOOP_LANES : i == -1 ? KAS_LOOP_ROWS : i;
        if (i >= 0 && nest->state[i] == KAS_LOOP_REPLACED)
            continue;
        kas_buf_clear(&one);
        kas_loop_print(ir, nest, id, &one);
        found = strcmp(kas_buf_text(&one), name) == 0;
        kas_buf_printf(&known, "%s%s", known.size ? ", " : "", kas_buf_text(&one));
        *loop = (uint8_t)id;
    }
    const kas_status status =
        found ? KAS_OK
              : kas_fail(KAS_BAD_INPUT, "%s:%d: found \"%s\"; the loops here are %s", r->path,
                         r->line, name, kas_buf_text(&known));
    kas_buf_free(&known);
    kas_buf_free(&one);
    return status;
}

static kas_status read_step(const reader *r, const kas_ir *ir, const kas_nest *nest, kas_step *step)
{
    int kind = 0, next = 1;
    while (kind < KAS_STEP_KINDS && strcmp(kas_step_forms[kind].word, r->word[0]) != 0)
        kind++;
    if (kind == KAS_STEP_KINDS)
        return bad(r, r->word[0],
                   "a step is expected: split, fuse, interchange, unroll, around, lane, vthread, "
                   "stage, lanes, vectorise, rows, rfactor, serial, block, unswitch or prefetch");
    *step = (kas_step){.kind = (uint8_t)kind};
    const kas_step_form form = kas_step_forms[kind];
    const int wanted = (form.operands != KAS_NO_LOOP) + (form.operands > KAS_A_LOOP) + form.number;
    if (r->words != 1 + wanted)
        return kas_fail(KAS_BAD_INPUT, "%s:%d: found %d word%s behind %s; %d are expected", r->path,
                        r->line, r->words - 1, r->words == 2 ? "" : "s", form.word, wanted);
    if (form.operands != KAS_NO_LOOP)
        KAS_TRY(find_loop(r, ir, nest, r->word[next++], &step->loop));
    if (form.operands == KAS_TWO_LOOPS)
        KAS_TRY(find_loop(r, ir, nest, r->word[next++], &step->other));
    if (form.operands == KAS_A_LOOP_AND_AXIS) {
        const char *axis = r->word[next++];
        if (strlen(axis) != 1 || *axis < 'x' || *axis > 'z')
            return bad(r, axis, "x, y or z is expected");
        step->other = (uint8_t)(*axis - 'x');
    }
    return form.number ? read_number(r, r->word[next], &step->n) : KAS_OK;
}

kas_status kas_schedule_file_steps(kas_ir *ir, const kas_nest *open, const kas_schedule_file *file,
                                   int k, kas_schedule *out)
{
    kas_nest nest = *open;
    reader r = {.path = file->path, .line = file->kernel[k].line - 1};
    for (const char *text = kas_buf_text(&file->text) + file->kernel[k].text; *text;) {
        kas_step step;
        text = next_line(&r, text);
        if (r.words == 0)
            continue;
        if (strcmp(r.word[0], "kernel") == 0)
            break;
        KAS_TRY(read_step(&r, ir, &nest, &step));
        const kas_status status = kas_nest_step(ir, &nest, step);
        if (status != KAS_OK)
            return kas_fail_context(status, "%s:%d", file->path, r.line);
    }
    *out = nest.schedule;
    return KAS_OK;
}
