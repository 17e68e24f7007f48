/* A PostgreSQL server for studies, started by a plain user inside a job: nothing of it is installed
 * in the system, and it ends with the job.
 *
 *     DIR/url              its address with the password, mode 600; --store @DIR/url
 *     DIR/data             the databases
 *     DIR/run              the socket, and server.log
 *     DIR/lock             who runs it: a process of a machine, and a heartbeat every few seconds
 *
 * PostgreSQL notices by itself when two servers of one machine open one folder. The lock is for a
 * folder on a shared disk: a start on another machine is refused as long as the heartbeat is heard.
 * It is written by a process of its own, the keeper, which ends with the server. */
#ifndef KAS_STORE_SERVER_H
#define KAS_STORE_SERVER_H

#include <stdbool.h>

#include "host/core/status.h"

typedef struct kas_server {
    char dir[4096];   /* absolute */
    bool running;     /* a server answers to the lock, here or on another machine */
    bool here;        /* on this machine */
    char host[65];    /* "" when it does not run */
    char shown[1200]; /* its URL without the password */
} kas_server;

/* Starts the server of a folder, which is made if it is missing, and waits until it accepts
 * connections. `listen` is the address of the interface on which it listens besides its socket;
 * NULL = none. `port` is its port there; 0 = a free one. One that runs here already is left alone;
 * it is an error when it does not listen there. Fails with KAS_STORE. */
kas_status kas_server_start(const char *dir, const char *listen, int port, kas_server *out);
/* Ends the server; connections are closed, and nothing that was committed is lost. */
kas_status kas_server_stop(const char *dir);
kas_status kas_server_find(const char *dir, kas_server *out);
/* Returns KAS_OK when PostgreSQL's programs are installed; otherwise the message says what is
 * missing. */
kas_status kas_server_installed(void);

#endif
