/* What the kernels that `sample` drew look like: by number of primitives, type, depth and width. */
#ifndef KAS_CLI_SAMPLE_HISTOGRAMS_H
#define KAS_CLI_SAMPLE_HISTOGRAMS_H

#include "host/space/canvas/candidate_ops.h"

/* Kernels by a number, and nodes by type. Zero-initialise. */
typedef struct kas_sample_histograms {
    uint64_t primitives[KAS_MAX_NODES];
    uint64_t depth[KAS_MAX_NODES];     /* primitives on the longest path from the input */
    uint64_t width[KAS_MAX_NODES + 1]; /* most tensors that are still to be read at one time, in
                                          the order of the nodes */
    uint64_t type[KAS_TYPE_COUNT];
} kas_sample_histograms;

void kas_sample_histograms_add(kas_sample_histograms *histograms, const kas_kernel *kernel);
/* Members "primitives", "depth", "width" and "types" of a JSON object, each behind a comma. */
void kas_sample_histograms_json(const kas_sample_histograms *histograms, kas_buf *out);
/* The same as four lines of text. */
void kas_sample_histograms_text(const kas_sample_histograms *histograms, kas_buf *out);

#endif
