/* Checkpoints: what a run needs to go on as if it had never stopped.
 *
 *     magic "KASCKPT2" | options SHA-256 | device | state | counts | epochs | kept |
 *     SHA-256 of all before it
 *
 * What is kept (parameters, the optimiser's moments, averages, running statistics) lies as in
 * device memory (model.h), so a resumed run is bit-identical.  The digest of the options (train.c)
 * says for which run the file is; one of another run is refused with what to do, a damaged one is
 * found by the checksum.  Written atomically: a crash leaves the previous one.  The file stays on
 * the machine (or kind of machine) that wrote it: little-endian, no version but the magic's; the
 * digest tells the order of a kernel's weights.
 */
#ifndef KAS_TRAIN_CHECKPOINT_H
#define KAS_TRAIN_CHECKPOINT_H

#include "host/train/train.h"

enum { KAS_CHECKPOINT_STATE = 256 };

typedef struct kas_checkpoint {
    uint8_t options[32];                 /* digest of what determines the run */
    char device[128];                    /* name of the device that trained so far */
    uint64_t step;                       /* done, of the whole run */
    double seconds;                      /* spent in the unfinished epoch */
    uint8_t state[KAS_CHECKPOINT_STATE]; /* of the device's step state, as it lies there */
    int epochs;
    kas_epoch *epoch; /* [epochs] finished */
    size_t size;      /* bytes of: */
    void *kept;       /* kas_model_download */
} kas_checkpoint;

kas_status kas_checkpoint_write(const char *path, const kas_checkpoint *checkpoint);
/* Reads a checkpoint of the run with digest `options`. KAS_BAD_INPUT when it is damaged or of
 * another run. */
kas_status kas_checkpoint_read(const char *path, const uint8_t options[32], kas_checkpoint *out);
void kas_checkpoint_free(kas_checkpoint *checkpoint);

#endif
