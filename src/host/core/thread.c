#include "host/core/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/core/machine.h"

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

/* ---- a loop on several threads --------------------------------------------------------------- */

typedef struct loop {
    kas_status (*work)(void *context, int thread, int item);
    void *context;
    int items;
    atomic_int threads, next; /* of threads that have begun; the next item */
    pthread_mutex_t lock;
    atomic_int failed; /* kas_status of the first failure */
    char message[1024];
} loop;

static void note_failure(loop *l, kas_status status)
{
    pthread_mutex_lock(&l->lock);
    if (atomic_load(&l->failed) == KAS_OK) {
        snprintf(l->message, sizeof l->message, "%s", kas_error());
        atomic_store(&l->failed, (int)status);
    }
    pthread_mutex_unlock(&l->lock);
}

static void *run_loop(void *context)
{
    loop *l = context;
    const int thread = atomic_fetch_add(&l->threads, 1);
    int item;
    while (atomic_load(&l->failed) == KAS_OK && (item = atomic_fetch_add(&l->next, 1)) < l->items) {
        const kas_status status = l->work(l->context, thread, item);
        if (status != KAS_OK)
            note_failure(l, status);
    }
    return NULL;
}

int kas_thread_count(int threads, int items)
{
    if (threads <= 0)
        threads = kas_cores();
    if (threads > items)
        threads = items;
    return threads > KAS_THREADS_MOST ? KAS_THREADS_MOST : threads;
}

kas_status kas_thread_each(int threads, int items,
                           kas_status (*work)(void *context, int thread, int item), void *context)
{
    pthread_t thread[KAS_THREADS_MOST];
    loop l = {.work = work, .context = context, .items = items, .lock = PTHREAD_MUTEX_INITIALIZER};
    const int wanted = kas_thread_count(threads, items);
    int started = 0;
    while (started + 1 < wanted && kas_thread_create(&thread[started], run_loop, &l))
        started++;
    run_loop(&l);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    const kas_status failed = (kas_status)atomic_load(&l.failed);
    return failed == KAS_OK ? KAS_OK : kas_fail(failed, "%s", l.message);
}
