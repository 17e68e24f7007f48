/* The kernels of a study or a folder, as search takes them by --from and assemble as an argument,
 * collected into one text.
 *
 * The study keeps the text as STUDY/from.json, and its SHA-256 among its options: what happens to
 * the folder later does not matter.  The text is a JSON list of {"name", "kernel"}, where the
 * kernel is the text of a kernel file or a file of layers.  Other folders include this header. */
#ifndef KAS_STRATEGY_FROM_H
#define KAS_STRATEGY_FROM_H

#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/study/study_dir.h"

enum { KAS_FROM_KERNELS = 1000, KAS_FROM_BYTES = 64 << 20 };

/* Collects the finished candidates of a study, or else the kernel files (*.json) of a folder, in the
 * order of their names; at most KAS_FROM_KERNELS. Those of a study come as parents are selected with
 * --objective frontier (kas_objective_select); candidates that the study does not tell apart from an
 * earlier one come last. A file is such a text already, as a study keeps it. KAS_BAD_INPUT when there
 * is no kernel. Messages begin with the path. */
kas_status kas_from_collect(const char *path, kas_buf *out);

/* Calls `take` for every kernel of such a text. */
typedef kas_status kas_from_taker(void *context, const char *name, const char *kernel);
kas_status kas_from_read(const char *text, kas_from_taker *take, void *context);

#endif
