/* A file that prescribes schedules: a program's kernels that it names have its steps in place of
 * those that kas_schedule_default would choose.
 *
 *     input 3x32x32                 of the network; where it is missing, whoever reads the file must know
 *     layer layer1.0.conv1          what the program is for: the loops' sizes follow from these
 *     device cpu
 *     batch 2
 *     phase training                or inference: the forward pass alone; training where it is missing
 *     precision fp32                or tf32, bf16, fp16; fp32 where it is missing
 *     map 3 forward loops           who computes a pass (forward, data, weights) of the map at node
 *                                   3 of the kernel: loops of our own, or the library
 *     kernel f0                     the first kernel of the forward pass; b0: of the backward pass;
 *     fuse n h                      e0: of the epilogues
 *     ...                           steps (sequence_text.h)
 *
 * Layer, device and batch (at most 65536) stand in front of the first kernel, once each, and so
 * do input, phase and precision where they are given.
 * `kas-gpu show --schedule` writes such files. A `#` begins a comment. Other folders include this
 * header. */
#ifndef KAS_JIT_SCHEDULE_SCHEDULE_FILE_H
#define KAS_JIT_SCHEDULE_SCHEDULE_FILE_H

#include "host/core/buf.h"
#include "host/device/device.h"
#include "jit/schedule/schedule.h"

enum { KAS_SCHEDULE_KERNELS = 256, KAS_SCHEDULE_MAPS = 256 };

typedef struct kas_schedule_file {
    const char *path;
    int c, h, w; /* of an image; 0: not said */
    char layer[128];
    bool cpu;
    int batch;
    bool inference;
    kas_dtype dtype;
    bool tf32;
    int maps;
    struct {
        int node, line;
        kas_conv_pass pass;
        bool loops;
    } map[KAS_SCHEDULE_MAPS];
    int kernels;
    struct {
        char name[16];
        int line;    /* of its first step */
        size_t text; /* place of that line in the file */
    } kernel[KAS_SCHEDULE_KERNELS];
    kas_buf text;
} kas_schedule_file;

/* Reads a file and finds its kernels; kas_schedule_file_free frees it, also after a failure. `path`
 * must outlive it. Returns KAS_BAD_INPUT with a message that names file and line. */
kas_status kas_schedule_file_read(const char *path, kas_schedule_file *out);
/* The same of a text; `path` is what messages call it. */
kas_status kas_schedule_file_parse(const char *path, const char *text, kas_schedule_file *out);
void kas_schedule_file_free(kas_schedule_file *file);

/* Writes the lines in front of maps and kernels; kas_schedule_file_put_input writes that of the input,
 * which a record of a launch does not have (jit/tuned.h). */
void kas_schedule_file_put_input(int c, int h, int w, kas_buf *out);
void kas_schedule_file_put_head(const char *layer, bool cpu, int batch, bool inference,
                                kas_dtype dtype, bool tf32, kas_buf *out);

/* Names of a convolution's passes, in the order of kas_conv_pass. */
extern const char *const kas_schedule_passes[3];
/* Returns the number of a map's pass in the file, or -1. */
int kas_schedule_file_find_map(const kas_schedule_file *file, int node, kas_conv_pass pass);
/* Returns the number of a kernel in the file, or -1. */
int kas_schedule_file_find(const kas_schedule_file *file, const char *kernel);
/* Reads the schedule of kernel number k for a nest that is open. Returns KAS_BAD_INPUT, or
 * KAS_ILLEGAL for a step that is, with a message that names file and line. */
kas_status kas_schedule_file_steps(kas_ir *ir, const kas_nest *open, const kas_schedule_file *file,
                                   int k, kas_schedule *out);

#endif
