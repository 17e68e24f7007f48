/* Ends a test with the statement and its message unless it gives KAS_OK. */
#ifndef KAS_SUPPORT_OK_H
#define KAS_SUPPORT_OK_H

#include "host/core/status.h"

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != KAS_OK)                                                                \
            fail_msg("%s: %s", #expression, kas_error());                                          \
    } while (0)

#endif
