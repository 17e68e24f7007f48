#include "jit/tuned.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/private.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "jit/compile/cache.h"
#include "jit/schedule/sequence_text.h"

enum { FORMAT = 5 }; /* part of every name: raised when steps get another meaning */

void kas_tuned_name(const kas_ir *ir, const kas_nest *nest, const char *text, char name[65])
{
    kas_buf all = {0};
    kas_buf_printf(&all, "schedule %d.%d|%s|%d|%u %u %u|%u %u %u|", KAS_CACHE_FORMAT, FORMAT,
                   ir->cpu ? "cpu" : "cuda", ir->dtype, nest->grid[0], nest->grid[1], nest->grid[2],
                   nest->block[0], nest->block[1], nest->block[2]);
    for (int id = 0; id < nest->bases; id++) /* equal texts can have loops of other names */
        kas_loop_print(ir, nest, id, &all);
    kas_buf_printf(&all, "|%s", text);
    kas_sha256_hex(kas_buf_text(&all), all.size, name);
    kas_buf_free(&all);
}

void kas_tuned_map_name(bool cpu, bool training, const kas_conv_desc *d, kas_conv_pass pass,
                        char name[65])
{
    const bool held = !training && pass == KAS_CONV_FORWARD;
    kas_buf all = {0};
    kas_buf_printf(
        &all, "convolution %d.%d|%s|%d %d|%s%s|%d %d %d, %d %d / %d, %d %d, %d %d, %d, %d, %d %d",
        KAS_CACHE_FORMAT, FORMAT, cpu ? "cpu" : "cuda", d->dtype, d->tf32,
        kas_schedule_passes[pass], held ? ", held" : "", d->n, d->h, d->w, d->c_in, d->c_out,
        d->groups, d->kernel_h, d->kernel_w, d->pad_h, d->pad_w, d->stride, kas_conv_dilation(d),
        d->x_pitch, d->y_pitch);
    kas_sha256_hex(kas_buf_text(&all), all.size, name);
    kas_buf_free(&all);
}

kas_status kas_tuned_map(const char *folder, const char *name, bool *loops)
{
    bool found;
    kas_schedule_file *file = calloc(1, sizeof *file);
    if (!file)
        return kas_ir_no_memory();
    const kas_status status = kas_tuned_read(folder, name, file, &found);
    if (status == KAS_OK && found) {
        *loops = file->maps > 0 ? file->map[0].loops : *loops;
        kas_schedule_file_free(file);
    }
    free(file);
    return status;
}

kas_status kas_tuned_read(const char *folder, const char *name, kas_schedule_file *out, bool *found)
{
    char path[4096];
    kas_buf text = {0};
    KAS_TRY(kas_cache_shared_path(folder, name, "schedule", path));
    kas_status status = kas_cache_read(path, &text, found);
    if (status == KAS_OK && *found) {
        status = kas_schedule_file_parse("tuned schedule", kas_buf_text(&text), out);
        if (status == KAS_BAD_INPUT) {
            kas_warn("%s: %s; the launch has its default schedule", path, kas_error());
            status = KAS_OK;
            *found = false;
        }
        if (status != KAS_OK || !*found)
            kas_schedule_file_free(out);
    }
    kas_buf_free(&text);
    return status;
}

kas_status kas_tuned_take(kas_ir *ir, const kas_nest *open, const char *folder,
                          const kas_operation *op, kas_schedule *out, int *taken)
{
    kas_nest complete = *open;
    kas_schedule tuned;
    bool found;
    kas_schedule_file *file = calloc(1, sizeof *file);
    if (!file)
        return kas_ir_no_memory();
    kas_status status = kas_tuned_read(folder, op->record, file, &found);
    if (status != KAS_OK || !found)
        goto done;
    if (file->kernels > 0)
        status = kas_schedule_file_steps(ir, open, file, 0, &tuned);
    if (status == KAS_OK && file->kernels > 0)
        status = kas_schedule_apply(ir, &tuned, &complete);
    if (status == KAS_OK && file->kernels > 0) {
        *out = tuned;
        ++*taken;
    } else if (status == KAS_ILLEGAL || status == KAS_BAD_INPUT) {
        kas_warn("the tuned schedule %.12s of %s: %s; the launch has its default schedule",
                 op->record, op->function, kas_error());
        status = KAS_OK;
    }
    kas_schedule_file_free(file);
done:
    free(file);
    return status;
}

kas_status kas_tuned_write(const char *folder, const char *name, const char *text, bool replace)
{
    char path[4096];
    bool existed;
    KAS_TRY(kas_cache_shared_path(folder, name, "schedule", path));
    return replace ? kas_cache_write(path, text, strlen(text))
                   : kas_cache_write_new(path, text, strlen(text), &existed);
}

kas_status kas_tuned_folder(const kas_device_info *info, char folder[4096])
{
    char cache[4096], device[sizeof info->name];
    KAS_TRY(kas_cache_dir(cache));
    for (size_t i = 0; i < sizeof device; i++)
        device[i] = info->name[i] && !isalnum((unsigned char)info->name[i]) ? '-' : info->name[i];
    if (snprintf(folder, 4096, "%s/schedules/%s", cache, device) >= 4096)
        return kas_fail(KAS_FAILURE, "%s: the cache folder's path is too long", cache);
    return KAS_OK;
}
