/* How long a supervisor takes to read all items of a study, which it does at every claim, epoch and
 * end: prints the number of items and the processor seconds of one reading, the store's not
 * included where it is a server.
 *     build/bench/store_list STUDY/study.db */
#include <stdio.h>

#include "host/core/clock.h"
#include "host/store/store.h"

int main(int argc, char **argv)
{
    enum { READINGS = 5 };
    kas_store *store;
    int count = 0;
    if (argc != 2 || kas_store_open(argv[1], KAS_STORE_READ, &store) != KAS_OK) {
        fprintf(stderr, "%s\n", argc == 2 ? kas_error() : "usage: store_list STUDY/study.db");
        return 1;
    }
    const double before = kas_processor_seconds();
    for (int i = 0; i < READINGS; i++) {
        kas_work *list;
        if (kas_store_list(store, &list, &count) != KAS_OK) {
            fprintf(stderr, "%s\n", kas_error());
            return 1;
        }
        kas_work_list_free(list, count);
    }
    printf("{\"items\": %d, \"seconds\": %.3g}\n", count,
           (kas_processor_seconds() - before) / READINGS);
    kas_store_close(store);
    return 0;
}
