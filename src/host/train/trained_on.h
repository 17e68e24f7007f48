/* Which images a file of weights was trained on.
 *
 * A network that begins with weights of another split has seen images that are held out now: its
 * accuracy on them is that of images learnt by heart. The weights file therefore says, in its metadata,
 * which images of which data set the network and the weights that it began with were trained on. */
#ifndef KAS_TRAIN_TRAINED_ON_H
#define KAS_TRAIN_TRAINED_ON_H

#include "host/model/model.h"
#include "host/train/train.h"

/* Keys of the metadata: the images, and the numbers by which they were normalised
 * (kas_dataset_scaling). */
#define KAS_TRAINED_ON "trained_on"
#define KAS_TRAINED_SCALING "scaling"
enum { KAS_TRAINED_ON_SIZE = 160 };

/* Describes the images of a training that writes weights, those of the weights that it begins with
 * included; call it while these are read. "" where no weights are written. */
kas_status kas_trained_on(const kas_train_options *options, char out[KAS_TRAINED_ON_SIZE]);
/* Writes the file of weights of a training, if the options name one. */
kas_status kas_trained_save(kas_model *model, const kas_train_options *options, const char *images);

/* Warns when the file's network has seen images of this data set that kas_dataset_split holds out with
 * this seed and share. A file that says nothing gets no warning. */
kas_status kas_trained_on_check(const char *path, const kas_dataset *dataset, uint64_t seed,
                                double validation);

#endif
