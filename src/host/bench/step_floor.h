/* Compares a step with the limits of the device: its bytes and FLOPs, and the fields of a
 * result line. */
#ifndef KAS_BENCH_STEP_FLOOR_H
#define KAS_BENCH_STEP_FLOOR_H

#include "host/bench/bench.h"
#include "host/model/planned_bytes.h"

typedef struct kas_bench_floor {
    double bytes;                    /* bytes that the plan moves */
    double floor_bytes, floor_flops; /* planned_bytes.h */
    double seconds;                  /* the floor in seconds */
} kas_bench_floor;

kas_status kas_bench_floor_of(const kas_model *model, kas_tape_mode mode,
                              const kas_machine *machine, kas_precision precision,
                              kas_bench_floor *out);
/* Returns why a pass that takes `seconds` is faster than its floor, which counts the bandwidth of
 * memory; NULL when it is not. */
const char *kas_bench_beyond_floor(const kas_machine *machine, kas_precision precision,
                                   double bytes, double flops, double seconds);
/* Adds a cell with the share of the floor and, beyond 100%, the reason. */
void kas_bench_floor_cell(kas_table *table, const kas_bench_floor *floor,
                          const kas_machine *machine, kas_precision precision, double seconds);
/* Adds the fields plan_bytes, floor_bytes, floor_flops, bytes_per_second, flops_per_second,
 * floor_seconds, share_of_floor and beyond_floor. `seconds` is the measured time. */
void kas_bench_floor_line(kas_buf *line, const kas_bench_floor *floor, const kas_machine *machine,
                          kas_precision precision, double seconds);

#endif
