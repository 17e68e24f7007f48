#include "host/space/attempt.h"

const char *kas_reject_name(kas_reject why)
{
    static const char *const names[KAS_REJECT_COUNT] = {
        "accepted",    "dead end",  "output shape", "redundant", "no integer sizes",
        "over budget", "too large", "duplicate",    "no weight", "sees one pixel"};
    return (unsigned)why < KAS_REJECT_COUNT ? names[why] : "unknown";
}

kas_status kas_reject_of(kas_status status, kas_reject *why)
{
    switch (status) {
    case KAS_OK:
        *why = KAS_REJECT_NONE;
        return KAS_OK;
    case KAS_ILLEGAL:
        *why = KAS_REJECT_VARIABLES;
        return KAS_OK;
    case KAS_OVER_BUDGET:
        *why = KAS_REJECT_BUDGET;
        return KAS_OK;
    case KAS_UNSUPPORTED:
        *why = KAS_REJECT_SIZE;
        return KAS_OK;
    default:
        return status;
    }
}
