#include "host/net/resnet.h"

#include <stdio.h>

typedef struct name {
    char text[64];
} name;

static name join(const char *prefix, const char *rest)
{
    name n;
    snprintf(n.text, sizeof n.text, "%s.%s", prefix, rest);
    return n;
}

/* conv1-bn1-relu-conv2-bn2, plus the shortcut, relu. */
static int basic_block(kas_builder *b, int in, const char *prefix, int c_out, int stride,
                       bool option_a)
{
    int x = kas_builder_conv(b, in, join(prefix, "conv1").text, c_out, 3, stride);
    x = kas_builder_batch_norm(b, x, join(prefix, "bn1").text);
    x = kas_builder_relu(b, x, join(prefix, "relu1").text);
    x = kas_builder_conv(b, x, join(prefix, "conv2").text, c_out, 3, 1);
    x = kas_builder_batch_norm(b, x, join(prefix, "bn2").text);
    int shortcut = in;
    bool same = stride == 1 && b->status == KAS_OK && b->net->layer[in].c == c_out;
    if (!same && option_a) {
        shortcut = kas_builder_shortcut_a(b, in, join(prefix, "shortcut").text, c_out, stride);
    } else if (!same) {
        shortcut = kas_builder_conv(b, in, join(prefix, "downsample.0").text, c_out, 1, stride);
        shortcut = kas_builder_batch_norm(b, shortcut, join(prefix, "downsample.1").text);
    }
    x = kas_builder_add(b, x, shortcut, join(prefix, "add").text);
    return kas_builder_relu(b, x, join(prefix, "relu2").text);
}

static void resnet(kas_builder *b, int stages, int blocks, int width, bool option_a, int classes)
{
    int x = kas_builder_conv(b, 0, "conv1", width, 3, 1);
    x = kas_builder_batch_norm(b, x, "bn1");
    x = kas_builder_relu(b, x, "relu");
    for (int stage = 0; stage < stages; stage++)
        for (int block = 0; block < blocks; block++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, block);
            int stride = stage > 0 && block == 0 ? 2 : 1;
            x = basic_block(b, x, prefix, width << stage, stride, option_a);
        }
    x = kas_builder_global_avg_pool(b, x, "avgpool");
    kas_builder_linear(b, x, "fc", classes);
}

void kas_build_resnet20(kas_builder *b, int classes)
{
    resnet(b, 3, 3, 16, true, classes);
}

void kas_build_resnet18(kas_builder *b, int classes)
{
    resnet(b, 4, 2, 64, false, classes);
}
