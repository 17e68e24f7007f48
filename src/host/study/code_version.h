/* Identifies the code that computes a study's results by a short text that the study keeps, so that
 * results of different programs are never compared.
 *
 * The version is not a number that somebody raises: it is the digest of the code that is executed,
 * and it is the same on every machine. It covers the device code without its comments and white
 * space; the programs that the JIT writes for a fixed set of kernels with every primitive, in both
 * passes and each dtype, for the CPU and for GPUs; the operations of a training step; and samples
 * of the host's arithmetic: initial weights, the order of images, the schedule. Moving files and
 * changing comments does not change it.
 *
 * KAS_HOST_ARITHMETIC and KAS_CHOICE_VERSION stand for changes that the digest cannot see. Compilers,
 * libraries and processors are not covered: a study names its device. */
#ifndef KAS_STUDY_CODE_VERSION_H
#define KAS_STUDY_CODE_VERSION_H

#include "host/core/buf.h"
#include "host/core/status.h"

/* Raise this when the host's part of a result changes and no sample shows it: how latency or
 * accuracy is measured, or how a library is called. */
enum { KAS_HOST_ARITHMETIC = 5, KAS_CODE_VERSION_SIZE = 17 };

/* Raise this when a search chooses otherwise from the same results: other parents, another way
 * through the tree, or others that go on from a rung. */
enum { KAS_CHOICE_VERSION = 5 };

/* Computes the version, 16 hex digits, in some ten milliseconds. */
kas_status kas_code_version(char out[KAS_CODE_VERSION_SIZE]);

/* Appends `text` without comments and indentation. */
void kas_code_text(const char *text, kas_buf *out);

#endif
