#include "jit/maps.h"

#include "host/core/arena.h"
#include "jit/tuned.h"

static kas_status add(kas_maps *maps, const kas_map *map)
{
    kas_program *p = maps->program;
    if (!KAS_GROW(p->map, p->maps))
        return kas_ir_no_memory();
    p->map[p->maps++] = *map;
    return KAS_OK;
}

kas_status kas_maps_choose(void *context, int node, kas_conv_pass pass, const kas_conv_desc *desc,
                           bool *loops)
{
    kas_maps *maps = context;
    const kas_program_options *o = maps->options;
    const bool cpu = o->linear_policy == KAS_LINEAR_CPU;
    const int m = o->schedule_file ? kas_schedule_file_find_map(o->schedule_file, node, pass) : -1;
    kas_map map = {.node = node, .pass = pass};
    *loops = false;
    if (o->tuned || o->list_schedules)
        kas_tuned_map_name(cpu, o->training, desc, pass, map.record);
    if (m >= 0) {
        *loops = o->schedule_file->map[m].loops;
        maps->prescribed[m] = true;
        maps->program->other_sums |= *loops;
    } else if (o->tuned) {
        KAS_TRY(kas_tuned_map(o->tuned, map.record, loops));
    }
    map.loops = *loops;
    return add(maps, &map);
}

void kas_maps_print(const kas_maps *maps, kas_buf *out)
{
    const kas_program *p = maps->program;
    for (int i = 0; i < p->maps; i++)
        kas_buf_printf(out, "map %d %s %s\n", p->map[i].node, kas_schedule_passes[p->map[i].pass],
                       p->map[i].loops ? "loops" : "library");
}

kas_status kas_maps_check(const kas_maps *maps)
{
    const kas_schedule_file *file = maps->options->schedule_file;
    for (int m = 0; file && m < file->maps; m++)
        if (!maps->prescribed[m])
            return kas_fail(KAS_BAD_INPUT,
                            "%s:%d: found map %d %s, which is none of this program's: only maps "
                            "that a library's "
                            "convolution computes can be loops (show --schedule lists them)",
                            file->path, file->map[m].line, file->map[m].node,
                            kas_schedule_passes[file->map[m].pass]);
    return KAS_OK;
}
