#include "host/core/intern.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next;
    char text[];
} entry;

const char *kas_intern(const char *text)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static entry *first;
    pthread_mutex_lock(&mutex);
    entry *e = first;
    while (e && strcmp(e->text, text) != 0)
        e = e->next;
    if (!e && (e = malloc(sizeof *e + strlen(text) + 1))) {
        strcpy(e->text, text);
        e->next = first;
        first = e;
    }
    pthread_mutex_unlock(&mutex);
    return e ? e->text : NULL;
}
