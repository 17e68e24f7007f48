/* Status codes and error messages.
 *
 * Library code never prints and never ends the process: a function that can fail returns a
 * kas_status, and the code that sees the failure first sets the message of the calling thread with
 * kas_fail().  A message names the file, the field, the value found, what was allowed and what to
 * do next.  It may quote a file literally, because characters that a terminal would obey are
 * replaced (plain.h). Callers pass the status upward with KAS_TRY and may put context in front of
 * the message with kas_fail_context().  Only main() turns a status into an exit code.
 *
 * The message is thread-local: nobody has to free it, and it is valid until the next failure on the
 * same thread. */
#ifndef KAS_CORE_STATUS_H
#define KAS_CORE_STATUS_H

#include <stdbool.h>

/* The numbers are the exit codes of the program, except those from 200 on, which are distinguished
 * inside the program only (see kas_exit_code). */
typedef enum kas_status {
    KAS_OK = 0,
    KAS_FAILURE = 1,       /* a failure without a code of its own */
    KAS_USAGE = 2,         /* wrong command line */
    KAS_BAD_INPUT = 3,     /* a file or value from the user is not acceptable */
    KAS_STORE = 4,         /* the study's database failed */
    KAS_DEVICE = 5,        /* the compute device or one of its libraries failed */
    KAS_NOTHING_VALID = 6, /* the search ended without one valid candidate */
    KAS_PREEMPTED = 75,
    KAS_INTERRUPTED = 130,
    KAS_NO_MEMORY = 200,   /* host or device memory exhausted */
    KAS_UNSUPPORTED = 201, /* a library refuses this case; the caller uses the fallback */
    KAS_DEVICE_LOST = 202, /* sticky device error: the process must be restarted */
    KAS_ILLEGAL = 203,     /* a kernel breaks a rule of the search space */
    KAS_OVER_BUDGET = 204, /* a kernel obeys the rules but exceeds the budget */
    KAS_MACHINE = 205,     /* a fault of the machine: a full disk, no memory, no compiler; the
                              same call may succeed later or elsewhere */
    KAS_SHOWN = 206 /* no failure: help was asked for and printed, and nothing is left to do */
} kas_status;

/* Returns whether a kernel does not fit where it was put: illegal, over the budget or unsupported. */
static inline bool kas_is_misfit(kas_status status)
{
    return status == KAS_ILLEGAL || status == KAS_OVER_BUDGET || status == KAS_UNSUPPORTED;
}

/* Sets the message of this thread and returns `code`, so that a failure is one line:
 *     return kas_fail(KAS_BAD_INPUT, "%s: dataset train/labels is missing", path);      */
kas_status kas_fail(kas_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of the present message; returns `code`. */
kas_status kas_fail_context(kas_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Switches quiet mode for this thread and returns the mode before, which the caller restores. While
 * it is on, failures with KAS_ILLEGAL, KAS_OVER_BUDGET and KAS_UNSUPPORTED write no message. The
 * sampler uses it: it asks very often whether a kernel is legal and reads only the status. */
bool kas_quiet(bool on);
/* Returns whether a failure with `code` would now leave no message. */
bool kas_is_quiet(kas_status code);

/* Returns the message of the last failure on this thread; "" when there was none. */
const char *kas_error(void);

/* Returns the exit code for a status (codes from 200 on become 1, 3 or 5). */
int kas_exit_code(kas_status status);

/* Returns from the calling function when `expression` fails, with its status. */
#define KAS_TRY(expression)                                                                        \
    do {                                                                                           \
        kas_status kas_try_status_ = (expression);                                                 \
        if (kas_try_status_ != KAS_OK)                                                             \
            return kas_try_status_;                                                                \
    } while (0)

/* Jumps to `label`, the unwind ladder of a function that owns resources, when `expression` fails.
 * The function declares `kas_status status = KAS_OK;`. */
#define KAS_TRY_GOTO(expression, label)                                                            \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != KAS_OK)                                                                      \
            goto label;                                                                            \
    } while (0)

/* Checks a libc call that sets errno and that fails for no file or value of the user. The message
 * is the text of the condition and strerror. */
#define KAS_CHECK_LIBC(condition, code)                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return kas_fail_errno((code), #condition);                                             \
    } while (0)

/* Returns the text of strerror; for an error that comes from a limit of the user's (`ulimit`) it
 * also names that limit. Valid until the next call on the same thread. */
const char *kas_strerror(int error);

/* Returns KAS_MACHINE when errno names a fault of the machine (ENOSPC, EIO, EMFILE, ENOMEM, ...),
 * else `otherwise`. kas_fail_errno and the functions of files.h choose their status with it. */
kas_status kas_machine_or(kas_status otherwise);

/* Fails with the message "what: why", where the reason comes from errno. `what` is a path, or the
 * call that failed. */
kas_status kas_fail_errno(kas_status code, const char *what);

#endif
