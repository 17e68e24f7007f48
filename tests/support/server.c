#include "support/server.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/server.h"

backend on;
static char root[64], url[KAS_STORE_URL];
static int study;

/* In memory where there is room: a server's thousand files are flushed when they are made. */
static const char *folder_of_servers(void)
{
    struct statvfs info;
    return statvfs("/dev/shm", &info) == 0 && access("/dev/shm", W_OK) == 0 &&
                   (double)info.f_bavail * (double)info.f_frsize > 500e6
               ? "/dev/shm"
               : "/tmp";
}

int start_server(void **state)
{
    kas_server server;
    kas_buf text = {0};
    char path[128];
    (void)state;
    if (kas_server_installed() != KAS_OK) {
        fprintf(stderr, "SKIPPED: PostgreSQL is not installed: %s\n", kas_error());
        return 0;
    }
    snprintf(root, sizeof root, "%s/kas-server-XXXXXX", folder_of_servers());
    if (!mkdtemp(root) || chmod(root, 0755) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/pg/url", root);
    path[strlen(path) - 4] = 0;
    if (kas_server_start(path, NULL, 0, &server) != KAS_OK) {
        fprintf(stderr, "%s\n", kas_error());
        return -1;
    }
    path[strlen(path)] = '/';
    if (kas_file_read(path, KAS_STORE_URL - 1, &text) != KAS_OK)
        return -1;
    snprintf(url, sizeof url, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    kas_buf_free(&text);
    return 0;
}

const char *server_folder(void)
{
    static char path[80];
    snprintf(path, sizeof path, "%s/pg", root);
    return path;
}

int stop_server(void **state)
{
    (void)state;
    if (!*url)
        return 0;
    const bool stopped = kas_server_stop(server_folder()) == KAS_OK;
    return kas_remove_tree(root) == KAS_OK && stopped ? 0 : -1;
}

const char *server_url(void)
{
    return *url ? url : NULL;
}

void next_study(void)
{
    study++;
}

int on_file(void **state)
{
    on = SQLITE;
    return make_folder(state);
}

int on_server(void **state)
{
    on = POSTGRESQL;
    next_study();
    return make_folder(state);
}

kas_status open_backend(kas_store_mode mode, kas_store **out)
{
    char path[300];
    kas_store_place place = {.id = "00000000000000000000000000000000"};
    snprintf(path, sizeof path, "%s/study.db", folder);
    if (on == SQLITE)
        return kas_store_open(path, mode, out);
    snprintf(place.url, sizeof place.url, "%s", url);
    snprintf(place.study, sizeof place.study, "test %d \"quoted\"", study);
    snprintf(place.folder, sizeof place.folder, "%s", folder);
    return kas_store_open_server(&place, mode, out);
}
