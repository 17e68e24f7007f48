#include "host/tune/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "jit/tuned.h"

/* The first line of a record; a file that a user wrote may have none. */
static void read_figures(const char *text, int *trials, kas_tuned_launch *launch)
{
    *trials = 0;
    launch->ratio = launch->ratio_low = launch->ratio_high = 1;
    sscanf(text, "# %lf s by default; tuned %lf of it, %lf to %lf; %d trials", &launch->seconds,
           &launch->ratio, &launch->ratio_low, &launch->ratio_high, trials);
}

/* Reads a record of so many trials or more. Of a shallower one only *steps is taken. */
static kas_status read(const char *folder, const char *record, int trials, kas_tuned_launch *launch,
                       char **steps, kas_buf *text)
{
    int had;
    bool found;
    kas_tuned_launch known = *launch;
    kas_schedule_file *file = calloc(1, sizeof *file);
    if (!file)
        return kas_tune_no_memory();
    kas_status status = kas_tuned_read(folder, record, file, &found);
    if (status == KAS_OK && found) {
        kas_buf_puts(text, kas_buf_text(&file->text));
        read_figures(kas_buf_text(text), &had, &known);
        known.known = true;
        known.kept = file->kernels > 0 || (file->maps > 0 && file->map[0].loops);
        if (had >= trials)
            *launch = known;
        if (file->kernels > 0 && !(*steps = strdup(kas_buf_text(text) + file->kernel[0].text)))
            status = kas_tune_no_memory();
        kas_schedule_file_free(file);
    }
    free(file);
    return status;
}

/* Whether the record was made since options->made was empty. */
static bool was_made(const kas_tune_options *options, const char *record)
{
    return options->made && strstr(kas_buf_text(options->made), record);
}

kas_status kas_tune_find(const kas_tune_options *options, const char *record, int trials,
                         kas_tuned_launch *launch, char **steps)
{
    kas_buf text = {0};
    kas_status status = KAS_OK;
    if (options->pins)
        status = read(options->pins, record, 0, launch, steps, &text);
    if (status == KAS_OK && !launch->known && (!options->again || was_made(options, record))) {
        status = read(options->folder, record, trials, launch, steps, &text);
        if (status == KAS_OK && launch->known && options->pins)
            status = kas_tuned_write(options->pins, record, kas_buf_text(&text), false);
    }
    kas_buf_free(&text);
    return status;
}

kas_status kas_tune_keep(const kas_tune_options *options, const char *record, int trials,
                         const char *head, const kas_tuned_launch *launch, const char *steps)
{
    kas_buf text = {0};
    kas_buf_printf(&text, "# %.4g s by default; tuned %.4g of it, %.4g to %.4g; %d trials\n%s",
                   launch->seconds, launch->ratio, launch->ratio_low, launch->ratio_high, trials,
                   head);
    if (steps)
        kas_buf_printf(&text, "kernel %s\n%s", launch->name, steps);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK &&
        kas_tuned_write(options->folder, record, kas_buf_text(&text), true) != KAS_OK)
        kas_warn("a tuned schedule cannot be kept: %s", kas_error());
    else if (status == KAS_OK && options->made)
        kas_buf_printf(options->made, "%s\n", record);
    if (status == KAS_OK && options->pins)
        status = kas_tuned_write(options->pins, record, kas_buf_text(&text), launch->illegal);
    kas_buf_free(&text);
    return status;
}

void kas_tune_share(kas_tuned_launch *launch, const kas_tuned_launch *from)
{
    kas_tuned_launch own = *from;
    memcpy(own.name, launch->name, sizeof own.name);
    own.times = launch->times;
    *launch = own;
}

kas_status kas_tune_no_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
}

void kas_tune_tell(const kas_tune_options *options, const char *format, ...)
{
    char what[128];
    va_list args;
    if (!options->progress)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    options->progress(options->progress_context, what);
}
