/* What every test begins with: cmocka and the headers that it needs. */
#ifndef KAS_SUPPORT_TEST_H
#define KAS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/core/status.h"

/* Ends a test with the statement and its message unless it gives KAS_OK. */
#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != KAS_OK)                                                                \
            fail_msg("%s: %s", #expression, kas_error());                                          \
    } while (0)

#endif
