#include "host/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "host/core/clock.h"

static volatile sig_atomic_t first;
static double end; /* seconds since 1970; 0 = never */

static void on_signal(int number)
{
    first = number;
}

enum { SIGNALS = 5 };
static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static struct sigaction before[SIGNALS];

static void watch(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(numbers[i], &action, &before[i]);
}

void kas_interrupt_watch(void)
{
    watch((int)SA_RESETHAND); /* the second one ends the process at once */
}

void kas_interrupt_watch_all(void)
{
    watch(0);
}

void kas_interrupt_end(void)
{
    for (int i = 0; i < SIGNALS; i++)
        sigaction(numbers[i], &before[i], NULL);
    end = 0;
}

void kas_interrupt_at(double until)
{
    end = until;
}

bool kas_interrupted(void)
{
    return first != 0 || kas_seconds_until(end) <= 0;
}

kas_status kas_interrupt_status(void)
{
    return kas_fail(first == SIGINT ? KAS_INTERRUPTED : KAS_PREEMPTED, "%s", "");
}
