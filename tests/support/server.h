/* A PostgreSQL server for a test program, where PostgreSQL is installed. */
#ifndef KAS_SUPPORT_SERVER_H
#define KAS_SUPPORT_SERVER_H

#include "support/test.h"

#include "host/store/store.h"
#include "support/folder.h"

/* As cmocka calls them, before and after all tests of a program, and before each test on a file and on
 * the server. */
int start_server(void **state);
int stop_server(void **state);
int on_file(void **state);
int on_server(void **state);
#define TEST_BOTH(name)                                                                            \
    DEFINE_TEST(name, add_test(#name, name, on_file, remove_folder);                               \
                add_test(#name " on PostgreSQL", name, on_server, remove_folder))

const char *server_url(void); /* NULL where there is none */
const char *server_folder(void);

/* Opens the store of a test: the file folder/study.db, or a study of the server, another one for each
 * test (see next_study). */
typedef enum backend { SQLITE, POSTGRESQL } backend;
extern backend on;
kas_status open_backend(kas_store_mode mode, kas_store **out);
void next_study(void);

/* Skips a test of the server where there is none. Here, because programs without cmocka link what is
 * in server.c too. */
static inline void need_server(void)
{
    if (on == POSTGRESQL && !server_url())
        skip();
}
static inline kas_status open_on(kas_store_mode mode, kas_store **out)
{
    need_server();
    return open_backend(mode, out);
}
static inline kas_store *open_store(void)
{
    kas_store *store;
    OK(open_on(KAS_STORE_CREATE, &store));
    return store;
}

#endif
