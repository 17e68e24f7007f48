#include "host/core/thread.h"

#include <stdlib.h>

static _Thread_local void *owner;

void kas_thread_set_owner(void *o)
{
    owner = o;
}

void *kas_thread_owner(void)
{
    return owner;
}

typedef struct beginning {
    void *(*run)(void *);
    void *context, *owner;
} beginning;

static void *begin(void *memory)
{
    const beginning b = *(beginning *)memory;
    free(memory);
    owner = b.owner;
    return b.run(b.context);
}

bool kas_thread_create(pthread_t *thread, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;
    beginning *b = malloc(sizeof *b);
    if (!b || pthread_attr_init(&attributes) != 0) {
        free(b);
        return false;
    }
    *b = (beginning){run, context, owner};
    const bool created = pthread_attr_setstacksize(&attributes, KAS_THREAD_STACK) == 0 &&
                         pthread_create(thread, &attributes, begin, b) == 0;
    pthread_attr_destroy(&attributes);
    if (!created)
        free(b);
    return created;
}
