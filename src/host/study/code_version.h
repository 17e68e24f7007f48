/* Which code makes a study's numbers, as one short text that a study keeps: numbers of two programs
 * are not compared.
 *
 * It is measured, not counted by hand: the digest of what is executed, the same on every machine.
 * It covers the device code without its comments and white space; the programs that the JIT writes
 * for a fixed set of kernels that has every primitive, both passes, each number, for the CPU and
 * for GPUs; the operations of a training step; and samples of what the host computes for it:
 * initial weights, the order of images, the schedule.  Files that move and comments that change do
 * not count.
 *
 * What it cannot see counts by hand: KAS_HOST_ARITHMETIC.  Compilers, libraries and processors are
 * not the code's affair: a study names its device. */
#ifndef KAS_STUDY_CODE_VERSION_H
#define KAS_STUDY_CODE_VERSION_H

#include "host/core/buf.h"
#include "host/core/status.h"

/* Raised when the host's part of a result changes where no sample of it shows: how latency or
 * accuracy is measured, what a library is asked for. */
enum { KAS_HOST_ARITHMETIC = 1, KAS_CODE_VERSION_SIZE = 17 };

/* 16 hex digits; takes some ten milliseconds. */
kas_status kas_code_version(char out[KAS_CODE_VERSION_SIZE]);

/* In front of the version of a study that was begun before versions were recorded, and went on. */
#define KAS_CODE_UNKNOWN "?+"
/* The version that a study recorded; "" = none. */
const char *kas_code_recorded(const char *text);

/* Adds what a compiler sees of a text: comments and indentation are gone. */
void kas_code_text(const char *text, kas_buf *out);

#endif
