/* Statistics of the kernels that `sample` drew: number of primitives, types, depth and width. */
#ifndef KAS_CLI_SAMPLE_HISTOGRAMS_H
#define KAS_CLI_SAMPLE_HISTOGRAMS_H

#include "host/space/canvas/candidate_ops.h"

/* Counts of kernels by each number, and of nodes by type. Zero-initialise it. */
typedef struct kas_sample_histograms {
    uint64_t primitives[KAS_MAX_NODES];
    uint64_t depth[KAS_MAX_NODES];     /* primitives on the longest path from the input */
    uint64_t width[KAS_MAX_NODES + 1]; /* most tensors that are still needed at one time, in the
                                          order of the nodes */
    uint64_t type[KAS_TYPE_COUNT];
} kas_sample_histograms;

void kas_sample_histograms_add(kas_sample_histograms *histograms, const kas_kernel *kernel);
/* Appends the members "primitives", "depth", "width" and "types" of a JSON object, each behind
 * a comma. */
void kas_sample_histograms_json(const kas_sample_histograms *histograms, kas_buf *out);
/* Appends the same as four lines of text. */
void kas_sample_histograms_text(const kas_sample_histograms *histograms, kas_buf *out);

#endif
