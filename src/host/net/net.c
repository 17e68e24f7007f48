#include "host/net/net.h"

#include <stdlib.h>
#include <string.h>

#include "host/net/builder.h"
#include "host/net/resnet.h"

static const struct {
    const char *name;
    void (*build)(kas_builder *b, int classes);
} networks[] = {{"resnet20", kas_build_resnet20}, {"resnet18", kas_build_resnet18}};

enum { NETWORKS = sizeof networks / sizeof *networks, MAX_SIZE = 1024, MAX_CLASSES = 65536 };

const char *const *kas_net_names(void)
{
    static const char *const names[NETWORKS + 1] = {"resnet20", "resnet18", NULL};
    return names;
}

static kas_status fail_unknown(const char *name)
{
    kas_buf list = {0};
    for (int i = 0; i < NETWORKS; i++)
        kas_buf_printf(&list, "%s%s", i ? ", " : "", networks[i].name);
    kas_status status =
        kas_fail(KAS_BAD_INPUT, "unknown network \"%s\"; known are: %s", name, kas_buf_text(&list));
    kas_buf_free(&list);
    return status;
}

static kas_status check_range(const char *net, const char *what, int value, int low, int high)
{
    if (value >= low && value <= high)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "network %s: %s is %d; expected %d to %d", net, what, value, low,
                    high);
}

kas_status kas_net_build(const char *name, int h, int w, int c, int classes, kas_net **out)
{
    for (int i = 0; i < NETWORKS; i++) {
        if (strcmp(name, networks[i].name) != 0)
            continue;
        KAS_TRY(check_range(name, "height of the images", h, 1, MAX_SIZE));
        KAS_TRY(check_range(name, "width of the images", w, 1, MAX_SIZE));
        KAS_TRY(check_range(name, "number of image channels", c, 1, MAX_SIZE));
        KAS_TRY(check_range(name, "number of classes", classes, 2, MAX_CLASSES));
        kas_builder b;
        kas_builder_start(&b, name, h, w, c, classes);
        networks[i].build(&b, classes);
        return kas_builder_finish(&b, out);
    }
    return fail_unknown(name);
}

void kas_net_free(kas_net *net)
{
    if (!net)
        return;
    kas_arena_free(net->inputs);
    free(net->layer);
    free(net);
}
