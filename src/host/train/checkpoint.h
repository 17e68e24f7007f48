/* Checkpoints: everything that a run needs to continue as if it had never stopped.
 *
 *     magic "KASCKPT2" | options SHA-256 | device | state | counts | epochs | kept |
 *     SHA-256 of all before it
 *
 * The kept part (parameters, the optimiser's moments, averages, running statistics) has the layout
 * of device memory (model.h), so a resumed run is bit-identical. The digest of the options
 * (digest.h) identifies the run to which the file belongs. A checkpoint of another run is refused
 * with advice, and the checksum reveals a damaged one. Checkpoints are written atomically: a crash
 * leaves the previous one. The file is meant for the machine (or kind of machine) that wrote it: it
 * is little-endian and has no version except in the magic; the digest covers the order of a
 * kernel's weights. */
#ifndef KAS_TRAIN_CHECKPOINT_H
#define KAS_TRAIN_CHECKPOINT_H

#include "host/train/train.h"

enum { KAS_CHECKPOINT_STATE = 256 };

typedef struct kas_checkpoint {
    uint8_t options[32];                 /* digest of everything that determines the run
                                            (digest.h) */
    char device[128];                    /* name of the device that trained so far */
    uint64_t step;                       /* steps done in the whole run */
    double seconds;                      /* spent in the unfinished epoch */
    uint8_t state[KAS_CHECKPOINT_STATE]; /* copy of the step state in device memory */
    int epochs;
    kas_epoch *epoch; /* [epochs] the finished epochs */
    size_t size;      /* bytes of `kept` */
    void *kept;       /* from kas_model_download */
} kas_checkpoint;

/* Writes a checkpoint atomically. */
kas_status kas_checkpoint_write(const char *path, const kas_checkpoint *checkpoint);
/* Reads a checkpoint of the run with digest `options`. Fails with KAS_BAD_INPUT when it is damaged
 * or belongs to another run. The caller frees *out with kas_checkpoint_free. */
kas_status kas_checkpoint_read(const char *path, const uint8_t options[32], kas_checkpoint *out);
void kas_checkpoint_free(kas_checkpoint *checkpoint);

#endif
