#include "host/store/server_lock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/owner.h"

enum { SILENCE = 15, SETTLE = 2 }; /* seconds; the heart beats every 5 */

static void lock_path(const char *dir, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/lock", dir);
}

/* Reads the lock: who has it, and the whole text, which changes with every heartbeat. */
static bool read_lock(const char *dir, char owner[KAS_OWNER_SIZE], kas_buf *text)
{
    char path[PATH_MAX];
    lock_path(dir, path);
    kas_buf_clear(text);
    if (!kas_file_exists(path) || kas_file_read(path, 4096, text) != KAS_OK)
        return false;
    snprintf(owner, KAS_OWNER_SIZE, "%.*s", (int)strcspn(kas_buf_text(text), "\n"),
             kas_buf_text(text));
    return true;
}

static kas_status write_lock(const char *dir, bool replace, bool *existed)
{
    static int beats;
    char path[PATH_MAX], owner[KAS_OWNER_SIZE], text[KAS_OWNER_SIZE + 64];
    kas_owner_self(owner);
    lock_path(dir, path);
    const int size =
        snprintf(text, sizeof text, "%s\n%lld %d\n", owner, (long long)time(NULL), ++beats);
    *existed = false;
    return replace ? kas_file_write_atomic(path, text, (size_t)size)
                   : kas_file_write_new(path, text, (size_t)size, existed);
}

/* Returns whether the owner is a process of this machine: everything but process and start time is
 * the same. */
static bool is_here(const char *owner)
{
    char self[KAS_OWNER_SIZE];
    kas_owner_self(self);
    const char *end = self;
    for (int i = 0; i < 3 && end; i++)
        end = strchr(end + (i > 0), '|');
    return end && strncmp(owner, self, (size_t)(end - self + 1)) == 0;
}

bool kas_server_holds(const char *dir)
{
    kas_buf text = {0};
    char owner[KAS_OWNER_SIZE], self[KAS_OWNER_SIZE];
    kas_owner_self(self);
    const bool mine = read_lock(dir, owner, &text) && strcmp(owner, self) == 0;
    kas_buf_free(&text);
    return mine;
}

/* Listens for a heartbeat. */
static bool beats(const char *dir, kas_buf *text)
{
    char owner[KAS_OWNER_SIZE];
    kas_buf now = {0};
    bool heard = false;
    for (int i = 0; i < SILENCE && !heard; i++) {
        sleep(1);
        heard = read_lock(dir, owner, &now) && strcmp(kas_buf_text(&now), kas_buf_text(text)) != 0;
    }
    kas_buf_free(&now);
    return heard;
}

static kas_status refuse(const char *dir, const char *owner, bool here)
{
    return kas_fail(KAS_STORE,
                    "%s: its server is run by a process of the machine %.*s%s; stop it there "
                    "(kas-gpu store stop)",
                    dir, (int)strcspn(owner, "|"), owner, here ? ", this one" : "");
}

/* Takes a lock over that nobody keeps. Two machines that do so at once both find out who was
 * last. */
static kas_status take_over(const char *dir, const char *owner)
{
    bool existed;
    KAS_TRY(write_lock(dir, true, &existed));
    sleep(SETTLE);
    return kas_server_holds(dir) ? KAS_OK : refuse(dir, owner, false);
}

kas_status kas_server_lock(const char *dir, bool *here)
{
    kas_buf text = {0};
    char owner[KAS_OWNER_SIZE];
    bool existed;
    *here = false;
    for (int tries = 0;; tries++) { /* again when it is given up just between */
        KAS_TRY(write_lock(dir, false, &existed));
        if (!existed)
            return KAS_OK;
        if (read_lock(dir, owner, &text))
            break;
        if (tries == 100) {
            kas_buf_free(&text);
            return kas_fail(KAS_STORE,
                            "%s/lock: it exists and cannot be read; when no server runs there, "
                            "remove it",
                            dir);
        }
    }
    kas_status status = KAS_OK;
    if (kas_owner_is_gone(owner))
        status = write_lock(dir, true, &existed);
    else if (is_here(owner))
        *here = true;
    if (status == KAS_OK && (*here || (!kas_owner_is_gone(owner) && beats(dir, &text))))
        status = refuse(dir, owner, *here);
    else if (status == KAS_OK && !kas_server_holds(dir))
        status = take_over(dir, owner);
    kas_buf_free(&text);
    return status;
}

bool kas_server_beat(const char *dir)
{
    bool existed;
    if (!kas_server_holds(dir))
        return false;
    (void)write_lock(dir, true, &existed); /* a full disk must not end the server */
    return true;
}

void kas_server_unlock(const char *dir)
{
    char path[PATH_MAX];
    lock_path(dir, path);
    if (kas_server_holds(dir))
        unlink(path);
}

bool kas_server_locked(const char *dir, char host[65], bool *here)
{
    kas_buf text = {0};
    char owner[KAS_OWNER_SIZE];
    const bool locked = read_lock(dir, owner, &text) && !kas_owner_is_gone(owner);
    kas_buf_free(&text);
    snprintf(host, 65, "%.*s", locked ? (int)strcspn(owner, "|") : 0, owner);
    *here = locked && is_here(owner);
    return locked;
}
