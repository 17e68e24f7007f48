/* The result of one epoch of training: the trainer makes it, workers send it, and the store keeps
 * it. Other folders include this header. */
#ifndef KAS_RECIPE_EPOCH_H
#define KAS_RECIPE_EPOCH_H

typedef struct kas_epoch {
    int epoch;                         /* 0-based */
    double train_loss, train_accuracy; /* means over the epoch's training steps */
    /* Accuracy is top-1, 0..1. NaN: not evaluated, as for the test set before the last epoch. */
    double validation_loss, validation_accuracy;
    double seconds;
} kas_epoch;

#endif
