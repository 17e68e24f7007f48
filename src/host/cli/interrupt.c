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

static void handle(void (*handler)(int), int flags)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

void kas_interrupt_watch(void)
{
    handle(on_signal, (int)SA_RESETHAND); /* the second one ends the process at once */
}

void kas_interrupt_watch_all(void)
{
    handle(on_signal, 0);
}

void kas_interrupt_end(void)
{
    handle(SIG_DFL, 0);
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
