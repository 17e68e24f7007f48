/* What one epoch of training gave: the trainer makes it, workers send it, the store keeps it. Other
 * folders include this header. */
#ifndef KAS_RECIPE_EPOCH_H
#define KAS_RECIPE_EPOCH_H

typedef struct kas_epoch {
    int epoch;                         /* 0-based */
    double train_loss, train_accuracy; /* mean over the epoch, as seen while training */
    /* Top-1, 0..1. NaN: not evaluated, as the test set is before the last epoch. */
    double validation_loss, validation_accuracy;
    double seconds;
} kas_epoch;

#endif
