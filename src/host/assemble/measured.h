/* What has been measured, kept in a file: a command that was interrupted measures nothing twice.
 *
 * Each line of the file is a JSON object with a key and a list of numbers (null: none).  The key is
 * a digest of everything that determines the numbers, so a line is found only by a command that
 * would measure the same; others lie there and do no harm.  A line that was not written to its end
 * is ignored. */
#ifndef KAS_ASSEMBLE_MEASURED_H
#define KAS_ASSEMBLE_MEASURED_H

#include "host/core/status.h"

enum { KAS_MEASURED_KEY = 33 };

typedef struct kas_measured kas_measured;

/* Opens the file, or begins it. KAS_BAD_INPUT while another process has it open. The caller closes
 * *out. */
kas_status kas_measured_open(const char *path, kas_measured **out);
void kas_measured_close(kas_measured *file); /* NULL is allowed */

/* Makes the key of a text: the first 128 bits of its SHA-256. */
void kas_measured_key(const char *text, char key[KAS_MEASURED_KEY]);
/* Returns the `count` numbers of a key, NaN for null; NULL: there are none. They live until the
 * file is closed. */
const double *kas_measured_find(const kas_measured *file, const char *key, int count);
/* Appends a line. `what` says to people whose numbers these are. */
kas_status kas_measured_add(kas_measured *file, const char *key, const char *what,
                            const double *value, int count);

#endif
