/* Exports a kernel or network to a folder that can be used without this program.
 *
 *     kernel.json           the kernel file, or the file of layers, as it was
 *     kernel.py             the kernel as a plain PyTorch module
 *     network.py            the whole replaced network; loads weights.safetensors
 *     weights.safetensors   trained weights, or initial ones when there are none
 *     check.safetensors     fixed images and the logits that they must give
 *     kernel.cu, kernel.c   generated source of both passes for the GPU and the CPU
 *     prelude.h             the definitions in which the two differ
 *     kernel.dot            a picture of the micro-DAG
 *     README.md             how to use each of them
 *
 * Where layers have different kernels, the folder has kernel0.py and kernel0.dot, kernel1.py and so
 * on instead of kernel.py and kernel.dot.
 *
 * The logits of check.safetensors come from the float64 reference with exactly these weights. With
 * torch, `network.py --check` therefore shows that the module is the network that was trained. */
#ifndef KAS_EXPORT_EXPORT_H
#define KAS_EXPORT_EXPORT_H

#include "host/device/device.h"
#include "host/export/python.h"

#define KAS_EXPORT_MARK "# A kernel from kas-gpu" /* the first line of README.md */

typedef struct kas_export_options {
    const char *dir;         /* created when missing; the files of an earlier export are replaced */
    const char *title;       /* where the kernel comes from: a file, or a study's candidate */
    const char *kernel_text; /* the text of the kernel file, unchanged */
    kas_export_net net;
    const char *weights;      /* safetensors; NULL = initial weights of `seed` */
    const char *weights_note; /* for the README: where the weights come from */
    const char *facts;        /* more lines for the README (Markdown), or NULL */
    uint64_t seed;
    /* The source is that of this device, with the schedules that were tuned on it; NULL: the source
     * is the common one, with the default schedules */
    const kas_device_info *tuned_on;
} kas_export_options;

/* Writes the folder. Fails with KAS_BAD_INPUT when the weights do not fit, and with KAS_FAILURE when
 * the folder has one of these files and no README.md with the mark: they are then the user's. A kernel
 * that the JIT cannot lower is written without its source, with a warning. */
kas_status kas_export(const kas_export_options *options);

typedef enum kas_verified { KAS_VERIFY_OK, KAS_VERIFY_FAILED, KAS_VERIFY_SKIPPED } kas_verified;
/* Runs network.py --check in `dir` with the first Python that has torch. `report` gets the one line
 * that it prints, or the reason why nothing could be run. */
kas_status kas_export_verify(const char *dir, kas_verified *verdict, kas_buf *report);

/* Compares the logits that a device computes from the written weights, with the kernels of a
 * training run, with those of check.safetensors. `error` is relative to the largest logit (NaN: not
 * finite). `tolerance` is 1e-3, or, where the network amplifies rounding more than usual, 100 times
 * the change that half a unit in the last place of every input and parameter causes (weights.h).
 * The verdict is SKIPPED when that exceeds 10%, because float32 then proves nothing. */
typedef struct kas_device_verified {
    kas_verified verdict;
    double error, tolerance;
} kas_device_verified;
kas_status kas_export_verify_device(const kas_export_options *options, const char *device,
                                    int threads, kas_device_verified *out);

/* ---- parts ----------------------------------------------------------------------------------- */

/* Writes "DIR/name" to `out`. */
kas_status kas_export_path(const char *dir, const char *name, char out[4096]);
/* Appends the generated program text of every distinct target shape, without the prelude.
 * `tuned_on`: as in the options. */
kas_status kas_export_source(const kas_export_net *net, const kas_device_info *tuned_on,
                             kas_buf *out);
/* Appends the README. `source` says that kernel.cu, kernel.c and prelude.h were written. */
kas_status kas_export_readme(const kas_export_options *options, bool source, kas_buf *out);

#endif
