/* Places a graph with Graphviz' program `dot`: a description goes to its standard input, and the
 * places come back as lines of numbers (dot -Tplain). No text of the graph travels, so none has to
 * be quoted. */
#include "host/report/html/graph.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { INCH = 72, MARGIN = 2, LIMIT_MS = 10000, MOST_BYTES = 1 << 20 };

static void describe(const kas_graph *g, kas_buf *out)
{
    kas_buf_puts(out,
                 "digraph {nodesep=0.2;ranksep=0.35;node [shape=box,fixedsize=true,label=\"\"];"
                 "edge [arrowhead=none];\n");
    for (int i = 0; i < g->nodes; i++)
        kas_buf_printf(out, "n%d [width=%.4f,height=%.4f];\n", i, g->node[i].width / INCH,
                       g->node[i].height / INCH);
    for (int i = 0; i < g->edges; i++)
        kas_buf_printf(out, "n%d -> n%d;\n", g->edge[i].from, g->edge[i].to);
    kas_buf_puts(out, "}\n");
}

/* Waits for the program, and ends it when it takes too long. Returns whether it succeeded. */
static bool wait_for(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int ms = 0;; ms += 2) {
        int status;
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (got < 0 && errno != EINTR)
            return false;
        if (ms == LIMIT_MS)
            kill(pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

static bool start(int in, int out, pid_t *pid)
{
    static char name[] = "dot", plain[] = "-Tplain", *const argv[] = {name, plain, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    const bool started = posix_spawn_file_actions_adddup2(&actions, in, 0) == 0 &&
                         posix_spawn_file_actions_adddup2(&actions, out, 1) == 0 &&
                         posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0) == 0 &&
                         posix_spawnp(pid, argv[0], &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return started;
}

/* Runs dot on files in memory, so that neither side waits for the other. */
static bool run(const kas_buf *text, kas_buf *answer)
{
    const int in = memfd_create("graph", MFD_CLOEXEC), out = memfd_create("places", MFD_CLOEXEC);
    bool done = false;
    pid_t pid;
    if (in >= 0 && out >= 0 && write(in, text->data, text->size) == (ssize_t)text->size &&
        lseek(in, 0, SEEK_SET) == 0 && start(in, out, &pid))
        done = wait_for(pid);
    const off_t size = done ? lseek(out, 0, SEEK_END) : 0;
    char *data = size > 0 && size < MOST_BYTES ? malloc((size_t)size) : NULL;
    done = data && pread(out, data, (size_t)size, 0) == (ssize_t)size;
    if (done)
        kas_buf_add(answer, data, (size_t)size);
    free(data);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return done && !answer->failed;
}

/* Reads "edge n0 n3 4 x y x y x y x y solid black" into the first such edge without points. */
static bool read_edge(const char *line, double height, kas_graph *g)
{
    int from, to, points, used;
    if (sscanf(line, "edge n%d n%d %d%n", &from, &to, &points, &used) != 3 || points < 4 ||
        points > KAS_GRAPH_POINTS || points % 3 != 1)
        return false;
    kas_graph_edge *e = NULL;
    for (int i = 0; i < g->edges && !e; i++)
        if (g->edge[i].from == from && g->edge[i].to == to && !g->edge[i].points)
            e = &g->edge[i];
    if (!e)
        return false;
    for (int i = 0; i < points; i++) {
        int more;
        line += used;
        if (sscanf(line, "%lf %lf%n", &e->x[i], &e->y[i], &more) != 2)
            return false;
        e->x[i] = e->x[i] * INCH + MARGIN;
        e->y[i] = (height - e->y[i]) * INCH + MARGIN;
        used = more;
    }
    e->points = points;
    return true;
}

static bool read_places(char *text, kas_graph *g)
{
    double scale, width = 0, height = 0;
    int nodes = 0, edges = 0;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int i;
        double x, y;
        if (strcmp(line, "stop") == 0)
            break;
        if (sscanf(line, "graph %lf %lf %lf", &scale, &width, &height) == 3)
            continue;
        if (sscanf(line, "node n%d %lf %lf", &i, &x, &y) == 3 && i >= 0 && i < g->nodes) {
            g->node[i].x = x * INCH + MARGIN;
            g->node[i].y = (height - y) * INCH + MARGIN;
            nodes++;
        } else if (read_edge(line, height, g)) {
            edges++;
        } else {
            return false;
        }
    }
    g->width = width * INCH + 2 * MARGIN;
    g->height = height * INCH + 2 * MARGIN;
    return nodes == g->nodes && edges == g->edges && width > 0 && height > 0;
}

kas_status kas_graph_by_dot(kas_graph *g, bool *done)
{
    kas_buf text = {0}, answer = {0};
    describe(g, &text);
    kas_status status = kas_buf_status(&text);
    *done = status == KAS_OK && run(&text, &answer) && read_places(answer.data, g);
    if (!*done)
        for (int i = 0; i < g->edges; i++)
            g->edge[i].points = 0;
    kas_buf_free(&text);
    kas_buf_free(&answer);
    return status;
}
