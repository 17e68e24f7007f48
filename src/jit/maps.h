/* Who computes the passes of a program's linear maps: a library, or loops of our own
 * (lower/fc_loops.c). Internal to the pipeline. */
#ifndef KAS_JIT_MAPS_H
#define KAS_JIT_MAPS_H

#include "jit/schedule/schedule_file.h"
#include "jit/ir/program.h"

typedef struct kas_maps {
    const kas_program_options *options;
    kas_program *program;               /* gets the list of maps */
    bool prescribed[KAS_SCHEDULE_MAPS]; /* those of the schedule file that were met */
} kas_maps;

/* Chooses for a pass of node's convolution what the schedule file says, or a record, or else the
 * library (kas_choose_loops of lower.h), and adds it to the list. `maps`: a kas_maps. */
kas_status kas_maps_choose(void *maps, int node, kas_conv_pass pass, const kas_conv_desc *desc,
                           bool *loops);
/* Prints the list as lines of a schedule file. */
void kas_maps_print(const kas_maps *maps, kas_buf *out);
/* Refuses a schedule file with a map that the program does not have. */
kas_status kas_maps_check(const kas_maps *maps);

#endif
