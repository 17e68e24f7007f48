/* Fuzz test of the reader of network files.
 *
 * A file is refused with a message that names it, or accepted; then its layers read what comes
 * before them and have the shapes that they should, its cost is finite, it reads again as the same
 * network, and what a study keeps of it is that network too.  Those in which something can be
 * replaced count as having gone all the way. */
#include <math.h>

#include "fuzz_run.h"
#include "host/net/net.h"
#include "host/net/targets.h"
#include "mutate.h"

/* Sizes of images that are not square, and one that most networks shrink to nothing. */
static const int sizes[][3] = {{8, 8, 3}, {32, 32, 3}, {33, 17, 1}, {1, 1, 3}};
enum { SIZES = sizeof sizes / sizeof *sizes, CLASSES = 7 };

static void check_layers(const kas_net *net)
{
    const kas_layer *last = &net->layer[net->layers - 1];
    for (int i = 0; i < net->layers; i++) {
        const kas_layer *layer = &net->layer[i];
        MUST(layer->h > 0 && layer->w > 0 && layer->c > 0 && (i == 0) == (layer->inputs == 0));
        MUST(i == 0 || *layer->name);
        for (int k = 0; k < layer->inputs; k++)
            MUST(layer->in[k] >= 0 && layer->in[k] < i);
        MUST(isfinite(kas_layer_flops(net, i)) && isfinite(kas_layer_params(net, i)));
    }
    MUST(last->h == 1 && last->w == 1 && last->c == CLASSES && net->classes == CLASSES);
}

static void check_targets(const kas_net *net)
{
    kas_target *targets = NULL;
    int count = 0;
    const kas_status status = kas_net_targets(net, NULL, &targets, &count);
    MUST(status == KAS_OK || status == KAS_BAD_INPUT);
    if (status == KAS_OK) {
        const double share = kas_targets_flops_share(net, targets, count);
        MUST(count > 0 && share > 0 && share <= 1);
        fuzz.solved++;
    }
    free(targets);
}

static void check_same(const kas_net *net, const kas_net *other)
{
    MUST(net->layers == other->layers && kas_net_flops(net) == kas_net_flops(other) &&
         kas_net_params(net) == kas_net_params(other));
    for (int i = 0; i < net->layers; i++) {
        kas_layer a = net->layer[i], b = other->layer[i];
        MUST(memcmp(a.in, b.in, sizeof *a.in * (size_t)a.inputs) == 0);
        a.in = b.in = NULL;
        MUST(memcmp(&a, &b, sizeof a) == 0);
    }
}

/* A study builds the network from the text that it keeps. */
static void check_kept(const char *path, const int size[3], const kas_net *net)
{
    char name[KAS_NET_KEPT_NAME];
    const char *text;
    kas_net *again = NULL;
    MUST(kas_net_keep(path, name, &text) == KAS_OK && *name && *text);
    MUST(kas_net_build(text, size[0], size[1], size[2], CLASSES, &again) == KAS_OK);
    check_same(net, again);
    kas_net_free(again);
}

static void make_mutant(kas_rng *rng, kas_buf *text)
{
    fuzz_json_mutant(rng, NULL, text);
}

static bool read_net(kas_rng *rng, const char *text, size_t size, const kas_buf *kept)
{
    const char *path = fuzz_path("mutant.json");
    const int *image = sizes[kas_rng_below(rng, SIZES)];
    kas_net *net = NULL;
    fuzz_write(path, text, size);
    if (!fuzz_accepts(kas_net_build(path, image[0], image[1], image[2], CLASSES, &net), path))
        return false;
    check_layers(net);
    check_targets(net);
    if (kas_rng_below(rng, 8) == 0) /* what is kept is never freed */
        check_kept(path, image, net);
    kas_net_free(net);
    fuzz_keep(rng, kept);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 10000);
    fuzz_add_folder("networks");
    fuzz_add_folder("tests/networks");
    fuzz_cases(make_mutant, read_net);
    fuzz_end(5, 1, 25);
    return 0;
}
