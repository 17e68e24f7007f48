/* Creates a data set without images, for the code that makes or opens one. */
#ifndef KAS_DATA_DATASET_SHELL_H
#define KAS_DATA_DATASET_SHELL_H

#include "host/data/dataset.h"
#include "host/data/hdf5/packet.h"

/* Returns a data set with the sizes, mean and std of the packet, without names and images. Returns
 * NULL and sets the message when memory is exhausted. */
kas_dataset *kas_dataset_shell(const kas_packet *packet);

#endif
