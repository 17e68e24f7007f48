/* Schedules of single launches that were tuned on one device, in a folder.
 *
 * A record is named by what it is for: a digest of the launch's text by its default schedule, with
 * dtype, grid and the names of its loops. So kernel, shape, images and precision are in the name,
 * programs share records where they have launches in common, and no record is ever taken for another
 * launch. It is a schedule file (schedule_file.h) with one kernel, or with none where nothing beat the
 * default. So is the record of a pass of a convolution, with one map: whether the library computes it or loops of our
 * own. Its first line, a comment, has the figures that the tuner found, and in how many trials.
 * Steps are checked wherever they are read; a record that has become illegal counts as missing.
 * Other folders include this header. */
#ifndef KAS_JIT_TUNED_H
#define KAS_JIT_TUNED_H

#include "jit/ir/program.h"
#include "jit/schedule/schedule_file.h"

/* Names the record of a launch. `text`: of its kernel by the default schedule, called "kernel". */
void kas_tuned_name(const kas_ir *ir, const kas_nest *nest, const char *text, char name[65]);

/* Names the record of a pass of a convolution, by all of which it depends on: its description, and
 * whether its weights stay fixed, as those of a forward pass outside training do: then a library holds
 * them in an order of its own (kas_conv_hold), and takes less time. What is found is who computes it, as
 * a map of the file. */
void kas_tuned_map_name(bool cpu, bool training, const kas_conv_desc *desc, kas_conv_pass pass,
                        char name[65]);
/* Asks the record of a pass: *loops stays where there is none. */
kas_status kas_tuned_map(const char *folder, const char *name, bool *loops);

/* Reads a record; kas_schedule_file_free frees *out where there was one. A damaged record counts as
 * missing. */
kas_status kas_tuned_read(const char *folder, const char *name, kas_schedule_file *out,
                          bool *found);
/* Takes the tuned schedule of a launch, where op->record has one that is better than the default:
 * *out is then the schedule, and *taken counts it. A record that has become illegal is warned
 * of. */
kas_status kas_tuned_take(kas_ir *ir, const kas_nest *open, const char *folder,
                          const kas_operation *op, kas_schedule *out, int *taken);
/* Writes a record: in place of one that is there, or else only where there is none, so that of
 * several that write the first one counts. */
kas_status kas_tuned_write(const char *folder, const char *name, const char *text, bool replace);

/* The folder of a device's records in the folder for caches; it goes by the device's name. */
kas_status kas_tuned_folder(const kas_device_info *info, char folder[4096]);

#endif
