/* ResNet-18's targets at 32x32, as a fixture of a group of tests. */
#ifndef KAS_TESTS_SPACE_RESNET18_H
#define KAS_TESTS_SPACE_RESNET18_H

#include <stdlib.h>

#include "host/net/targets.h"

static kas_net *net;
static kas_target *target; /* [targets] */
static int targets;

static int find_targets(void **state)
{
    (void)state;
    return kas_net_build("resnet18", 32, 32, 3, 10, &net) != KAS_OK ||
           kas_net_targets(net, NULL, &target, &targets) != KAS_OK;
}

static int free_targets(void **state)
{
    (void)state;
    free(target);
    kas_net_free(net);
    return 0;
}

#endif
