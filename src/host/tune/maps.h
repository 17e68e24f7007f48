/* Times who computes the passes of a program's maps: the library, or loops of our own
 * (jit/lower/fc_loops.c). Internal to tune.
 *
 * The other way of each pass is a program of its own. What its operations and those of the program as
 * it is do not have in common is timed in turns, on data that stay in the caches: so copies that only
 * one of the ways needs, and what is fused with it, are in the figures. As for schedules (tune.h) a second
 * timing confirms the first; it must show as large a gain, and there is none with caches swept and no
 * floor. The library stays where the loops do not compile, or cannot be timed: a warning says so. */
#ifndef KAS_TUNE_MAPS_H
#define KAS_TUNE_MAPS_H

#include "host/tune/tune.h"

/* Fills out->map, and appends to `lines` what a schedule file must prescribe for the ways that were
 * found. `head`: of schedule files, for the records. */
kas_status kas_tune_maps(kas_device *device, const char *cache_dir, const kas_programs *programs,
                         int p, const kas_tune_options *options, const char *head, kas_tuned *out,
                         kas_buf *lines);

#endif
