/* Requests images from the disk before they are needed, so that threads seldom wait for it. */
#ifndef KAS_DATA_READ_AHEAD_H
#define KAS_DATA_READ_AHEAD_H

#include "host/data/hdf5/storage.h"
#include "host/data/order.h"

/* Call this when reading begins at position `first` of order[count]. It requests the first images,
 * which kas_read_ahead assumes to be requested already, so that they are not waited for one by one.
 * It may run at the same time as the threads that read them. */
void kas_read_ahead_begin(const kas_storage *storage, const uint32_t *order, uint32_t count,
                          uint32_t first);

/* Call this when positions [from, to) of order[count] are about to be read. It requests the images
 * 256 positions later. With WINDOW it also requests, for every 256 positions, a thirty-second of
 * the next window, in the order of the file and with neighbours together: these are the long runs
 * that this kind of shuffle is for. */
void kas_read_ahead(const kas_storage *storage, kas_shuffle shuffle, const uint32_t *order,
                    uint32_t count, uint32_t from, uint32_t to);

#endif
