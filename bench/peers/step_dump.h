/* One training step on tensors from a file, by the reference or by a device, for comparison with
 * other programs (network_step.py).  The files are safetensors:
 *
 *     in:   images [n,c,h,w], labels [n], every parameter and statistic under its PyTorch name,
 *           optionally "velocity.NAME" (momentum buffers; 0 when missing)
 *     out:  loss [1], logits [n,classes], "grad.NAME" for everything learned; the reference also
 *           gives the parameters, statistics and "velocity.NAME" after the step
 */
#ifndef KAS_BENCH_PEERS_STEP_DUMP_H
#define KAS_BENCH_PEERS_STEP_DUMP_H

#include "host/model/safetensors.h"
#include "host/net/net.h"

typedef struct step_options {
    double lr, momentum, decay, smoothing;
    bool weights_only;  /* decay not on batch norm and biases */
    bool no_dropout;    /* dropout drops nothing */
    const char *device; /* for the device: "cpu", "cuda", ... */
} step_options;

typedef struct step_input {
    const kas_net *net;
    const kas_safetensors *file;
    int n;
    double *images;   /* [n][c][h][w] */
    uint16_t *labels; /* [n] */
} step_input;

kas_status step_reference(const step_input *in, const step_options *options, const char *out_path);
/* Loss, logits and gradients in float32. */
kas_status step_device(const step_input *in, const step_options *options, const char *out_path);

/* Copies tensor `name` of the file, which must have `size` elements. */
kas_status step_copy(const kas_safetensors *file, const char *name, size_t size, double *to);

#endif
