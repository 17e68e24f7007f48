#include "host/bench/step_floor.h"

kas_status kas_bench_floor_of(const kas_model *model, kas_tape_mode mode,
                              const kas_machine *machine, kas_precision precision,
                              kas_bench_floor *out)
{
    kas_planned_bytes planned;
    KAS_TRY(kas_planned_bytes_count(model, mode, &planned));
    *out = (kas_bench_floor){
        .bytes = planned.bytes,
        .floor_bytes = planned.floor_bytes,
        .floor_flops = planned.floor_flops,
        .seconds = kas_machine_floor(machine, precision, planned.floor_bytes, planned.floor_flops)};
    kas_planned_bytes_free(&planned);
    return KAS_OK;
}

const char *kas_bench_beyond_floor(const kas_machine *machine, kas_precision precision,
                                   double bytes, double flops, double seconds)
{
    if (seconds >= kas_machine_floor(machine, precision, bytes, flops))
        return NULL;
    if (flops / machine->rate[precision] > bytes / machine->memory_bandwidth)
        return "a higher rate than the product by which it was measured";
    return bytes <= machine->outer_bytes ? "tensors in a cache"
                                         : "a bandwidth that was measured under load";
}

void kas_bench_floor_cell(kas_table *table, const kas_bench_floor *floor,
                          const kas_machine *machine, kas_precision precision, double seconds)
{
    const char *reason =
        kas_bench_beyond_floor(machine, precision, floor->floor_bytes, floor->floor_flops, seconds);
    kas_table_cell(table, "%.0f%%%s%s", 100 * floor->seconds / seconds, reason ? ": " : "",
                   reason ? reason : "");
}

void kas_bench_floor_line(kas_buf *line, const kas_bench_floor *floor, const kas_machine *machine,
                          kas_precision precision, double seconds)
{
    kas_line_number(line, "plan_bytes", floor->bytes);
    kas_line_number(line, "floor_bytes", floor->floor_bytes);
    kas_line_number(line, "floor_flops", floor->floor_flops);
    kas_line_number(line, "bytes_per_second", machine->memory_bandwidth);
    kas_line_number(line, "flops_per_second", machine->rate[precision]);
    kas_line_number(line, "floor_seconds", floor->seconds);
    kas_line_number(line, "share_of_floor", floor->seconds / seconds);
    kas_line_text(line, "beyond_floor",
                  kas_bench_beyond_floor(machine, precision, floor->floor_bytes, floor->floor_flops,
                                         seconds));
}
