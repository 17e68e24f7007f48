/* Gains: by how much the output of each replaced layer's kernel is multiplied, as a kernel file, a
 * file of layers, the store and the messages of workers have them (docs/kernel-file.md, "Gains").
 *
 *     {"layer1.0.conv1": 8, "layer1.0.conv2": 0.125}
 *
 * They belong to the layers of one network and not to the kernel: a kernel's name does not depend
 * on them.  Other folders include this header. */
#ifndef KAS_SPACE_FILE_GAINS_H
#define KAS_SPACE_FILE_GAINS_H

#include <cjson/cJSON.h>

#include "host/core/buf.h"
#include "host/space/solve/replacement.h"

enum { KAS_ASSIGNED_NAME = 64 }; /* bytes of a layer's name, NUL included */

/* A gain is a number in this range. */
#define KAS_GAIN_LEAST 0x1p-96
#define KAS_GAIN_MOST 0x1p96

typedef struct kas_gain {
    char layer[KAS_ASSIGNED_NAME];
    float value;
} kas_gain;

typedef struct kas_gains {
    int count; /* 0: the file has none */
    kas_gain *gain;
} kas_gains;

void kas_gains_free(kas_gains *gains);

/* Read the field "gains" of an object, if it has one, or the text of its value; `name` stands for
 * the file in messages. KAS_BAD_INPUT names the layer and the value. The caller frees *out. */
kas_status kas_gains_read(const char *name, const cJSON *root, kas_gains *out);
kas_status kas_gains_parse(const char *name, const char *text, kas_gains *out);

/* Appends the value of the field "gains": of the gains, or of the replacement's at its replaced
 * targets. */
void kas_gains_write(const kas_gains *gains, kas_buf *out);
kas_status kas_gains_write_replacement(const kas_replacement *replacement, kas_buf *out);
/* Appends the text of a kernel file or a file of layers, as kas-gpu writes it, with gains. */
kas_status kas_gains_insert(const char *file, const char *gains, kas_buf *out);

/* Gives a replacement the gains, when they name exactly its replaced targets. Otherwise it fails
 * with KAS_BAD_INPUT, which names a layer, and changes nothing. */
kas_status kas_gains_fit(const kas_gains *gains, kas_replacement *replacement);

#endif
