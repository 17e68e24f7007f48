#include "host/core/thread.h"

bool kas_thread_create(pthread_t *thread, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    const bool created = pthread_attr_setstacksize(&attributes, KAS_THREAD_STACK) == 0 &&
                         pthread_create(thread, &attributes, run, context) == 0;
    pthread_attr_destroy(&attributes);
    return created;
}
