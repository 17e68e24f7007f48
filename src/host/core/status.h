/* Status codes and error messages.
 *
 * Library code never prints and never ends the process: a function that can fail returns a
 * kas_status, and the place where the failure is first seen fills the message of the calling thread
 * with kas_fail().  A message names the file, the field, the value found, what was allowed and what
 * to do next.  It may quote a file as it is: what a terminal would obey is replaced (plain.h).
 * Callers pass the status upward with KAS_TRY and may put context in front of the
 * message with kas_fail_context().  Only main() turns a status into an exit code.
 *
 * The message is thread-local: no ownership, valid until the next failure on the same thread.
 */
#ifndef KAS_CORE_STATUS_H
#define KAS_CORE_STATUS_H

#include <stdbool.h>

/* The numbers are the exit codes of the program, except those of 200 and more, which are told apart
 * inside the program only (see kas_exit_code). */
typedef enum kas_status {
    KAS_OK = 0,
    KAS_FAILURE = 1,       /* anything that has no better code */
    KAS_USAGE = 2,         /* wrong command line */
    KAS_BAD_INPUT = 3,     /* a file or value from the user is not acceptable */
    KAS_STORE = 4,         /* the study's data base */
    KAS_DEVICE = 5,        /* the compute device, or a library of it */
    KAS_NOTHING_VALID = 6, /* the search ended without one valid candidate */
    KAS_PREEMPTED = 75,
    KAS_INTERRUPTED = 130,
    KAS_NO_MEMORY = 200,   /* host or device memory exhausted */
    KAS_UNSUPPORTED = 201, /* a library refuses this case: use the fallback */
    KAS_DEVICE_LOST = 202, /* sticky device error: the process must be restarted */
    KAS_ILLEGAL = 203,     /* a kernel breaks a rule of the search space */
    KAS_OVER_BUDGET = 204, /* a kernel fits the rules but not the budget */
    KAS_MACHINE = 205      /* the machine is at fault, not what was asked of it: a full disk, no
                              memory, no compiler; the same may succeed later or elsewhere */
} kas_status;

/* Sets the message of this thread and returns `code`, so that a failure is one line:
 *     return kas_fail(KAS_BAD_INPUT, "%s: dataset train/labels is missing", path);      */
kas_status kas_fail(kas_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of the present message; returns `code`. */
kas_status kas_fail_context(kas_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For who asks a thousand times a millisecond whether a kernel is legal and reads no answer but the
 * status: while quiet, a thread writes no messages for KAS_ILLEGAL, KAS_OVER_BUDGET and
 * KAS_UNSUPPORTED. Returns what was before, to be put back. */
bool kas_quiet(bool on);
/* Would a failure of that kind leave no message? */
bool kas_is_quiet(kas_status code);

/* The message of the last failure on this thread; "" when there was none. */
const char *kas_error(void);

/* The exit code for a status (codes of 200 and more become 1, 3 or 5). */
int kas_exit_code(kas_status status);

/* Passes a failure upward. */
#define KAS_TRY(expression)                                                                        \
    do {                                                                                           \
        kas_status kas_try_status_ = (expression);                                                 \
        if (kas_try_status_ != KAS_OK)                                                             \
            return kas_try_status_;                                                                \
    } while (0)

/* Passes a failure to the unwind ladder of a function that owns resources.  The function declares
 * `kas_status status = KAS_OK;` and has a label. */
#define KAS_TRY_GOTO(expression, label)                                                            \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != KAS_OK)                                                                      \
            goto label;                                                                            \
    } while (0)

/* Checks a call of libc that sets errno and that no file or value of the user makes fail: the
 * message is the statement and strerror. */
#define KAS_CHECK_LIBC(condition, code)                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return kas_fail_errno((code), #condition);                                             \
    } while (0)

/* strerror, and for errors of a limit that the user has set (`ulimit`) which one it is. Valid until
 * the next call on the same thread. */
const char *kas_strerror(int error);

/* KAS_MACHINE when errno names a fault of the machine (ENOSPC, EIO, EMFILE, ENOMEM, ...), else
 * `otherwise`. kas_fail_errno and the functions of files.h decide so. */
kas_status kas_machine_or(kas_status otherwise);

/* "what: why", with the reason that errno gives; `what` is a path, or the call that failed. */
kas_status kas_fail_errno(kas_status code, const char *what);

#endif
