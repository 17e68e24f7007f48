/* Compiles several texts at once: each thread takes the next text until none is left. */
#include <pthread.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/thread.h"
#include "jit/compile/compile.h"

enum { MAX_THREADS = 256, MESSAGE_SIZE = 2048 };

typedef struct queue {
    kas_compiler *compiler;
    const char *const *text;
    char (*path)[4096];
    int count;
    pthread_mutex_t lock; /* guards what follows */
    int next, failed;     /* failed: the first text that failed, or count */
    kas_status status;    /* of that text */
    char message[MESSAGE_SIZE];
    kas_compile_stats *stats;
} queue;

static void take_in(queue *q, int i, kas_status status, const kas_compile_stats *stats)
{
    q->stats->cached &= stats->cached;
    q->stats->waited |= stats->waited;
    q->stats->cpu_seconds += stats->cpu_seconds;
    q->stats->image_bytes += stats->image_bytes;
    if (status == KAS_OK || i >= q->failed)
        return;
    q->failed = i;
    q->status = status;
    strncpy(q->message, kas_error(), sizeof q->message - 1);
}

static void *work(void *context)
{
    queue *q = context;
    pthread_mutex_lock(&q->lock);
    while (q->next < q->count && q->status == KAS_OK) {
        kas_compile_stats stats;
        const int i = q->next++;
        pthread_mutex_unlock(&q->lock);
        const kas_status status = kas_compile(q->compiler, q->text[i], q->path[i], &stats);
        pthread_mutex_lock(&q->lock);
        take_in(q, i, status, &stats);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

kas_status kas_compile_all(kas_compiler *compiler, const char *const *text, int count, int threads,
                           char (*path)[4096], kas_compile_stats *stats)
{
    kas_compile_stats unused;
    pthread_t thread[MAX_THREADS];
    int started = 0;
    const double start = kas_monotonic();
    if (!stats)
        stats = &unused;
    *stats = (kas_compile_stats){.cached = true};
    queue q = {.compiler = compiler,
               .text = text,
               .path = path,
               .count = count,
               .failed = count,
               .stats = stats,
               .lock = PTHREAD_MUTEX_INITIALIZER};
    const int wanted = threads < count ? threads : count;
    /* The caller does a share too, and all of it when no thread could be started. */
    while (started < wanted - 1 && started < MAX_THREADS &&
           kas_thread_create(&thread[started], work, &q))
        started++;
    work(&q);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    stats->seconds = kas_monotonic() - start;
    return q.status == KAS_OK ? KAS_OK : kas_fail(q.status, "%s", q.message);
}
