#include "host/store/server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/store/postgres.h"
#include "host/store/server_lock.h"

enum { BEAT = 5, PASSWORD = 32, CANNOT_ENTER = 125, CONNECTIONS = 300 };

/* The folder is short, because it has the path of a socket. */
static void in_folder(const char *dir, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.200s/%.200s", dir, name);
}

/* ---- PostgreSQL's programs ------------------------------------------------------------------- */

/* Debian has them in a folder of each version: the newest is taken. */
static bool find_debian(const char *name, char out[PATH_MAX])
{
    DIR *dir = opendir("/usr/lib/postgresql");
    int newest = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "/usr/lib/postgresql/%s/bin/%s", e->d_name, name);
        if (atoi(e->d_name) > newest && access(path, X_OK) == 0) {
            newest = atoi(e->d_name);
            snprintf(out, PATH_MAX, "%s", path);
        }
    }
    if (dir)
        closedir(dir);
    return newest > 0;
}

static kas_status find_program(const char *name, char out[PATH_MAX])
{
    for (const char *p = getenv("PATH"); p && *p; p += strcspn(p, ":"), p += *p == ':') {
        snprintf(out, PATH_MAX, "%.*s/%s", (int)strcspn(p, ":"), p, name);
        if (*out == '/' && access(out, X_OK) == 0)
            return KAS_OK;
    }
    return find_debian(name, out)
               ? KAS_OK
               : kas_fail(KAS_STORE,
                          "%s of PostgreSQL is neither in $PATH nor in /usr/lib/postgresql/*/bin; "
                          "install PostgreSQL (Debian: postgresql)",
                          name);
}

kas_status kas_server_installed(void)
{
    char path[PATH_MAX];
    KAS_TRY(find_program("initdb", path));
    return find_program("pg_ctl", path);
}

/* The user that PostgreSQL's programs run as: this one, but not root. */
static const struct passwd *server_user(void)
{
    if (geteuid() != 0)
        return NULL;
    const struct passwd *user = getpwnam("postgres");
    return user ? user : getpwnam("nobody");
}

static void become(const struct passwd *user, const char *dir, const char *log)
{
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0)
        _exit(CANNOT_ENTER);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    if (user && (fchown(1, user->pw_uid, user->pw_gid) != 0 ||
                 initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
                 setuid(user->pw_uid) != 0))
        _exit(CANNOT_ENTER);
    if (chdir(dir) != 0)
        _exit(CANNOT_ENTER);
    setenv("LC_ALL", "C", 1); /* messages that this program recognises */
    unsetenv("PGDATA");
}

/* Runs a program to its end, its output at the end of DIR/run/server.log. */
static kas_status run_program(const char *dir, const char *name, const char *const *arguments)
{
    char path[PATH_MAX], log[PATH_MAX], data[PATH_MAX];
    const char *argv[16] = {path};
    const struct passwd *user = server_user();
    KAS_TRY(find_program(name, path));
    in_folder(dir, "run/server.log", log);
    in_folder(dir, "run", data);
    for (int i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    const pid_t pid = fork();
    if (pid == 0) {
        become(user, data, log);
        execv(path, (char *const *)argv);
        _exit(127);
    }
    int status;
    KAS_CHECK_LIBC(pid > 0 && waitpid(pid, &status, 0) == pid, KAS_STORE);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_ENTER)
        return kas_fail(KAS_STORE,
                        "%s: the user %s, as which PostgreSQL runs, cannot enter it; make the "
                        "folders above it searchable (chmod o+x), or choose another",
                        dir, user ? user->pw_name : "of this process");
    if (status != 0)
        return kas_fail(KAS_STORE, "%s failed; its messages are at the end of %s", path, log);
    return KAS_OK;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static kas_status give(const char *path)
{
    const struct passwd *user = server_user();
    KAS_CHECK_LIBC(!user || chown(path, user->pw_uid, user->pw_gid) == 0, KAS_STORE);
    return KAS_OK;
}

static kas_status make_folder(const char *dir, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    in_folder(dir, name, path);
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return kas_fail_errno(KAS_STORE, path);
    return give(path);
}

/* Writes a file that only this user can read. */
static kas_status write_text(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    in_folder(dir, name, path);
    const mode_t mask = umask(077);
    FILE *file = fopen(path, "we");
    umask(mask);
    if (!file)
        return kas_fail_errno(KAS_STORE, path);
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written ? KAS_OK : kas_fail_errno(KAS_STORE, path);
}

/* And one for PostgreSQL. */
static kas_status write_theirs(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    in_folder(dir, name, path);
    KAS_TRY(write_text(dir, name, text));
    return give(path);
}

/* Reads the password from DIR/url; "" when there is none. */
static void read_password(const char *dir, char out[PASSWORD + 1])
{
    char path[PATH_MAX];
    kas_buf text = {0};
    *out = 0;
    in_folder(dir, "url", path);
    if (kas_file_exists(path) && kas_file_read(path, KAS_STORE_URL, &text) == KAS_OK)
        (void)sscanf(kas_buf_text(&text), "postgresql://kas:%32[0-9a-f]", out);
    kas_buf_free(&text);
}

static kas_status draw_password(char out[PASSWORD + 1])
{
    unsigned char bytes[PASSWORD / 2];
    KAS_CHECK_LIBC(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, KAS_STORE);
    for (int i = 0; i < PASSWORD / 2; i++)
        snprintf(out + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return KAS_OK;
}

/* Writes DIR/url, which only its owner can read. */
static kas_status write_url(const char *dir, const char *password, const char *listen, int port)
{
    char path[PATH_MAX], fresh[PATH_MAX];
    kas_buf url = {0};
    kas_buf_printf(&url, "postgresql://kas:%s@", password);
    if (listen)
        kas_buf_printf(&url, strchr(listen, ':') ? "[%s]:%d/postgres\n" : "%s:%d/postgres\n",
                       listen, port);
    else {
        kas_buf_printf(&url, "/postgres?port=%d&host=", port);
        for (const char *p = dir; *p; p++)
            kas_buf_printf(&url, strchr("%&#?=+ ", *p) ? "%%%02X" : "%c", (unsigned char)*p);
        kas_buf_puts(&url, "/run\n");
    }
    in_folder(dir, "url", path);
    in_folder(dir, "url.new", fresh);
    kas_status status = kas_buf_status(&url);
    if (status == KAS_OK)
        status = write_text(dir, "url.new", kas_buf_text(&url));
    kas_buf_free(&url);
    KAS_TRY(status);
    KAS_CHECK_LIBC(rename(fresh, path) == 0, KAS_STORE);
    return KAS_OK;
}

/* Makes the databases. They get their name when they are whole. */
static kas_status make_data(const char *dir, char password[PASSWORD + 1])
{
    char data[PATH_MAX], path[PATH_MAX], secret[PATH_MAX], option[PATH_MAX + 16];
    in_folder(dir, "data", path);
    if (kas_file_exists(path))
        return *password
                   ? KAS_OK
                   : kas_fail(KAS_STORE,
                              "%s/url: no password in it; restore the file, or choose another "
                              "folder",
                              dir);
    in_folder(dir, "data.new", data);
    in_folder(dir, "run/password", secret);
    snprintf(option, sizeof option, "--pwfile=%s", secret);
    KAS_TRY(draw_password(password));
    KAS_TRY(write_url(dir, password, NULL, 0)); /* it keeps the password */
    KAS_TRY(kas_remove_tree(data));
    KAS_TRY(make_folder(dir, "data.new", 0700));
    KAS_TRY(write_theirs(dir, "run/password", password));
    const char *const arguments[] = {"-D", data,   "-U",         "kas",  "-A", "scram-sha-256",
                                     "-E", "UTF8", "--locale=C", option, NULL};
    const kas_status status = run_program(dir, "initdb", arguments);
    unlink(secret);
    KAS_TRY(status);
    KAS_CHECK_LIBC(rename(data, path) == 0, KAS_STORE);
    return KAS_OK;
}

static kas_status configure(const char *dir, const char *listen, int port)
{
    kas_buf text = {0};
    kas_buf_printf(&text,
                   "listen_addresses = '%s'\nport = %d\nmax_connections = %d\n"
                   "password_encryption = 'scram-sha-256'\nlog_timezone = 'UTC'\n"
                   "timezone = 'UTC'\nunix_socket_directories = '",
                   listen ? listen : "", port, CONNECTIONS);
    for (const char *p = dir; *p; p++)
        kas_buf_printf(&text, *p == '\'' ? "''" : *p == '\\' ? "\\\\" : "%c", *p);
    kas_buf_puts(&text, "/run'\n");
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = write_theirs(dir, "data/postgresql.conf", kas_buf_text(&text));
    kas_buf_free(&text);
    KAS_TRY(status);
    return write_theirs(dir, "data/pg_hba.conf",
                        "local all all scram-sha-256\nhost all all all scram-sha-256\n");
}

/* Finds a free port of the interface; it stays free unless another program is quick. */
static kas_status free_port(const char *listen, int *port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const bool is_v4 = inet_pton(AF_INET, listen, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, listen, &v6.sin6_addr) != 1)
        return kas_fail(KAS_USAGE,
                        "--listen: expected the address of an interface of this machine, such as "
                        "10.0.0.5, found \"%s\"",
                        listen);
    struct sockaddr *address = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = is_v4 ? sizeof v4 : sizeof v6;
    const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    KAS_CHECK_LIBC(fd >= 0, KAS_STORE);
    const bool bound = bind(fd, address, size) == 0 && getsockname(fd, address, &size) == 0;
    const int error = errno;
    close(fd);
    if (!bound)
        return kas_fail(KAS_STORE, "--listen %s: %s", listen, kas_strerror(error));
    if (*port == 0)
        *port = ntohs(is_v4 ? v4.sin_port : v6.sin6_port);
    return KAS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Returns whether a process lives: one that was killed exists until its parent has collected it. */
static bool lives(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool found = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return found && state != 'Z' && state != 'X';
}

/* Returns the process of the server; 0 when there is none. */
static pid_t server_process(const char *dir)
{
    char path[PATH_MAX];
    long pid = 0;
    in_folder(dir, "data/postmaster.pid", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const bool found = fscanf(file, "%ld", &pid) == 1 && pid > 0;
    fclose(file);
    return found && lives((pid_t)pid) ? (pid_t)pid : 0;
}

static void pause_ms(int ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

/* The server's process is this one's child, because pg_ctl, which started it, has ended. */
static bool any_child(void)
{
    pid_t pid;
    do
        pid = waitpid(-1, NULL, WNOHANG);
    while (pid > 0);
    return pid == 0;
}

/* The keeper's life: a heartbeat, until the server and all that it has started have ended. When
 * another machine has taken the lock, which it does when it hears no heartbeat (this machine was
 * suspended), the server must end at once. */
static void keep(const char *dir)
{
    double beaten = kas_monotonic();
    while (any_child() || server_process(dir)) {
        if (kas_monotonic() - beaten >= BEAT) {
            beaten = kas_monotonic();
            const pid_t pid = server_process(dir);
            if (!kas_server_beat(dir) && pid)
                kill(pid, SIGQUIT);
        }
        pause_ms(100);
    }
    kas_server_unlock(dir);
}

static kas_status start_server(const char *dir)
{
    char data[PATH_MAX];
    in_folder(dir, "data", data);
    const char *const arguments[] = {"-D", data, "-w", "-t", "120", "-s", "start", NULL};
    return run_program(dir, "pg_ctl", arguments);
}

static kas_status absolute(const char *dir, char out[PATH_MAX])
{
    if (!realpath(dir, out))
        return kas_fail(KAS_STORE, "%s: %s; `kas-gpu store start DIR` makes the folder of a server",
                        dir, kas_strerror(errno));
    if (strlen(out) + sizeof "/run/.s.PGSQL.65535" > sizeof((struct sockaddr_un *)0)->sun_path)
        return kas_fail(KAS_STORE, "%s: too long for the path of a socket; choose a shorter one",
                        out);
    return KAS_OK;
}

/* Returns whether DIR/url says that the server listens there. `port` 0 = at any port. */
static bool listens(const char *dir, const char *listen, int port)
{
    char path[PATH_MAX], start[300];
    kas_buf url = {0};
    in_folder(dir, "url", path);
    int size =
        snprintf(start, sizeof start, strchr(listen, ':') ? "@[%.250s]:" : "@%.250s:", listen);
    if (port)
        size += snprintf(start + size, sizeof start - (size_t)size, "%d/", port);
    const bool read = kas_file_read(path, KAS_STORE_URL, &url) == KAS_OK;
    const char *at = read ? strchr(kas_buf_text(&url), '@') : NULL;
    const bool found = at && strncmp(at, start, (size_t)size) == 0;
    kas_buf_free(&url);
    return found;
}

/* A server that runs already listens where it did. */
static kas_status check_listens(const char *dir, const char *listen, int port)
{
    if (!listen || listens(dir, listen, port))
        return KAS_OK;
    char at[16] = "";
    if (port)
        snprintf(at, sizeof at, " --port %d", port);
    return kas_fail(KAS_STORE,
                    "%s: its server runs already, and without --listen %s%s; stop it first "
                    "(kas-gpu store stop %s)",
                    dir, listen, at, dir);
}

/* A server whose keeper was killed goes on with another keeper, where it listens already. */
static kas_status start_locked(const char *dir, const char *listen, int port)
{
    char password[PASSWORD + 1];
    if (server_process(dir))
        return check_listens(dir, listen, port);
    const struct passwd *user = server_user();
    if (user)
        kas_info("%s: PostgreSQL refuses to run as root, so it runs as the user %s", dir,
                 user->pw_name);
    if (listen)
        KAS_TRY(free_port(listen, &port));
    else
        port = 5432; /* of the socket's name */
    read_password(dir, password);
    KAS_TRY(make_folder(dir, "run", 0755));
    KAS_TRY(make_data(dir, password));
    KAS_TRY(configure(dir, listen, port));
    KAS_TRY(start_server(dir));
    return write_url(dir, password, listen, port);
}

/* A server that was killed a moment ago looks alive for a little longer. */
static bool still_runs(const char *dir)
{
    if (!server_process(dir))
        return false;
    pause_ms(300);
    return server_process(dir);
}

static kas_status start_here(const char *dir, const char *listen, int port)
{
    bool here;
    kas_status status = kas_server_lock(dir, &here);
    for (int i = 0; i < 80 && status != KAS_OK && here && !still_runs(dir); i++) {
        pause_ms(250); /* the server was killed, and its keeper waits for the rest of it */
        status = kas_server_lock(dir, &here);
    }
    if (status != KAS_OK && here && server_process(dir)) {
        KAS_TRY(check_listens(dir, listen, port));
        kas_info("%s: its server runs already", dir);
        return KAS_OK;
    }
    KAS_TRY(status);
    status = start_locked(dir, listen, port);
    if (status != KAS_OK)
        kas_server_unlock(dir);
    return status;
}

typedef struct outcome {
    kas_status status;
    char message[1024];
} outcome;

/* The life of the keeper, which belongs to no terminal. It tells how the start went. */
static void become_keeper(const char *dir, const char *listen, int port, int tell)
{
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    outcome result = {.status = start_here(dir, listen, port)};
    snprintf(result.message, sizeof result.message, "%s",
             result.status == KAS_OK ? "" : kas_error());
    signal(SIGPIPE, SIG_IGN); /* who waited may have been killed */
    if (write(tell, &result, sizeof result) != sizeof result)
        result.status = KAS_STORE; /* nobody waits any more, but the server runs */
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    if (kas_server_holds(dir))
        keep(dir);
}

kas_status kas_server_start(const char *folder, const char *listen, int port, kas_server *out)
{
    char dir[PATH_MAX];
    int tell[2];
    outcome result;
    KAS_TRY(kas_server_installed());
    KAS_TRY(kas_mkdirs(folder));
    KAS_TRY(absolute(folder, dir));
    KAS_CHECK_LIBC(pipe2(tell, O_CLOEXEC) == 0, KAS_STORE);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(tell[0]);
        become_keeper(dir, listen, port, tell[1]);
        _exit(0);
    }
    close(tell[1]);
    const bool told = pid > 0 && read(tell[0], &result, sizeof result) == sizeof result;
    close(tell[0]);
    if (!told)
        return kas_fail(KAS_STORE, "%s: the start was interrupted; run the command again", dir);
    if (result.status != KAS_OK)
        return kas_fail(result.status, "%s", result.message);
    return kas_server_find(dir, out);
}

kas_status kas_server_find(const char *folder, kas_server *out)
{
    char path[PATH_MAX];
    kas_buf url = {0};
    *out = (kas_server){0};
    KAS_TRY(absolute(folder, path));
    snprintf(out->dir, sizeof out->dir, "%s", path);
    out->running = kas_server_locked(out->dir, out->host, &out->here);
    if (out->here && !server_process(out->dir))
        out->running = out->here = false;
    in_folder(out->dir, "url", path);
    if (kas_file_exists(path) && kas_file_read(path, KAS_STORE_URL, &url) == KAS_OK) {
        kas_pg_url_shown(kas_buf_text(&url), out->shown, sizeof out->shown);
        out->shown[strcspn(out->shown, "\n")] = 0;
    }
    kas_buf_free(&url);
    return KAS_OK;
}

kas_status kas_server_stop(const char *dir)
{
    kas_server server;
    char data[PATH_MAX];
    KAS_TRY(kas_server_find(dir, &server));
    if (!server.running)
        return kas_fail(KAS_STORE, "%s: no server runs", server.dir);
    if (!server.here)
        return kas_fail(KAS_STORE, "%s: its server runs on the machine %s; stop it there",
                        server.dir, server.host);
    in_folder(server.dir, "data", data);
    const char *const arguments[] = {"-D", data, "-m", "fast", "-w", "-s", "stop", NULL};
    KAS_TRY(run_program(server.dir, "pg_ctl", arguments));
    for (int i = 0; i < 100 && kas_server_locked(server.dir, server.host, &server.here); i++)
        pause_ms(50); /* its keeper ends too */
    return KAS_OK;
}
