/* Asks the disk for images before they are wanted, so that threads seldom wait for it. */
#ifndef KAS_DATA_READ_AHEAD_H
#define KAS_DATA_READ_AHEAD_H

#include "host/data/hdf5/storage.h"
#include "host/data/order.h"

/* Reading begins at position `first` of order[count]: asks for the images that kas_read_ahead takes
 * for granted, so that the first ones are not waited for one by one.  Beside the threads that read
 * them already, who lose nothing. */
void kas_read_ahead_begin(const kas_storage *storage, const uint32_t *order, uint32_t count,
                          uint32_t first);

/* Positions [from, to) of order[count] are being read now.  FULL: the images 256 positions further
 * on are asked for.  WINDOW: these too, and for every 256 positions a thirty-second of the next
 * window, in the order of the file and neighbours together: long runs, as the shuffle promises. */
void kas_read_ahead(const kas_storage *storage, kas_shuffle shuffle, const uint32_t *order,
                    uint32_t count, uint32_t from, uint32_t to);

#endif
