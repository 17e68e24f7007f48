/* A network that trains in milliseconds, for the tests of files of weights and of checkpoints. */
#ifndef KAS_TESTS_FUZZ_SMALL_NET_H
#define KAS_TESTS_FUZZ_SMALL_NET_H

#include "fuzz_run.h"
#include "host/net/net.h"

enum { SIDE = 6, CLASSES = 3 };

static inline kas_net *small_net(void)
{
    static const char text[] =
        "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"small\", \"layers\": ["
        "{\"conv\": \"stem\", \"channels\": 4, \"kernel\": 3}, {\"batch_norm\": \"bn\"},"
        "{\"relu\": \"relu\"}, {\"conv\": \"conv\", \"channels\": 4, \"kernel\": 1},"
        "{\"global_avg_pool\": \"pool\"}, {\"linear\": \"fc\", \"channels\": \"classes\"}]}";
    kas_net *net = NULL;
    MUST(kas_net_build(text, SIDE, SIDE, 3, CLASSES, &net) == KAS_OK);
    return net;
}

#endif
