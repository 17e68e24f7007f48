/* A data set without images: shared by what makes one and what opens one. */
#ifndef KAS_DATA_DATASET_SHELL_H
#define KAS_DATA_DATASET_SHELL_H

#include "host/data/dataset.h"
#include "host/data/hdf5/packet.h"

/* Sizes, mean and std of the packet, no names, no images; NULL and a message without memory. */
kas_dataset *kas_dataset_shell(const kas_packet *packet);

#endif
