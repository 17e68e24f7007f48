/* A PostgreSQL server for a test program, where PostgreSQL is installed. */
#ifndef KAS_SUPPORT_SERVER_H
#define KAS_SUPPORT_SERVER_H

#include "host/store/store.h"

/* As cmocka calls them, before and after all tests of a program. */
int start_server(void **state);
int stop_server(void **state);
/* NULL when there is none: the test is to be skipped. */
const char *server_url(void);
const char *server_folder(void);

/* Opens the store of a test: the file folder/study.db, or a study of the server, another one for each
 * test (see next_study). */
typedef enum backend { SQLITE, POSTGRESQL } backend;
extern backend on;
kas_status open_on(kas_store_mode mode, kas_store **out);
void next_study(void);

#endif
