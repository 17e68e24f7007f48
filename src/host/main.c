#include <stdlib.h>
#include <unistd.h>

#include "host/cli/cli.h"

/* libgomp's threads spin for milliseconds at the end of every parallel loop.  Where other processes
 * want the cores too (several workers, a shared machine) that time is lost many hundred times a
 * step: with a load of 10 on 2 cores a training step of ResNet-20 took 3,640 ms, and 490 ms with a
 * short spin.  The variable is read before main begins, so the program starts itself once more. */
static void spin_briefly(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    char path[4096]; /* the real path, so that the process keeps its name in `ps` */
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv("GOMP_SPINCOUNT", "1000", 1) != 0)
        return;
    path[length] = '\0';
    execv(path, argv); /* returns only when it fails: go on as we are */
}

int main(int argc, char **argv)
{
    if (argc > 0)
        spin_briefly(argv);
    return kas_cli_main(argc, argv);
}
