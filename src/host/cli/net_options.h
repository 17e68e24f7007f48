/* The options of commands that use a kernel in a network: --net, --input, --classes, --targets,
 * --keep-slower, --flops, --params. */
#ifndef KAS_CLI_NET_OPTIONS_H
#define KAS_CLI_NET_OPTIONS_H

#include "host/cli/cli.h"
#include "host/data/dataset.h"
#include "host/net/targets.h"
#include "host/predict/keep.h"
#include "host/space/sample/sampler.h"
#include "host/train/train.h"

/* The help of --targets, of all commands that have it (net/targets.h). */
#define KAS_CLI_TARGETS_HELP                                                                       \
    "Layers to replace: windows such as 3x3,1x7, and square (default), non-square, grouped, "      \
    "depthwise, linear, all"

typedef struct kas_cli_net {
    const char *name, *filter; /* name NULL = no --net */
    int c, h, w, classes;      /* of the images */
    kas_budget budget;
    kas_keep keep;
} kas_cli_net;
/* Parsers whose input is a kas_cli_net. The first has all options. The second is for commands that
 * take the shape of images from a data set, and has --net, --targets, --keep-slower, --flops and
 * --params. Plain ones have no --keep-slower. */
extern const struct argp kas_cli_net_argp, kas_cli_target_argp;
extern const struct argp kas_cli_plain_net_argp, kas_cli_plain_target_argp;
/* Like kas_cli_net_argp, with another default shape of images. */
extern const struct argp kas_cli_check_net_argp, kas_cli_bench_net_argp;
kas_cli_net kas_cli_net_defaults(void);
/* Reads the value of --input, "CxHxW". */
void kas_cli_shape(struct argp_state *state, const char *text, int *c, int *h, int *w);
/* Says on which device, or for which machine, --keep-slower decides where it names none. */
void kas_cli_keep_on_device(kas_cli_net *options, const char *device, int threads);
void kas_cli_keep_on_machine(kas_cli_net *options, const char *machine);

/* Builds the network and its targets. The caller frees both (kas_net_free, free). */
kas_status kas_cli_net_targets(const kas_cli_net *options, kas_net **net, kas_target **targets,
                               int *count);

/* Places an assignment at the targets of `net`, within the budget; with --keep-slower it first
 * becomes one of the layers at which a kernel is not slower. `name` stands for it in messages. */
kas_status kas_cli_fit(const kas_cli_net *options, const char *name, const kas_net *net,
                       const kas_target *targets, int count, kas_assignment *kernels,
                       kas_replacement *out);

/* What a training works on: a data set, the network for its images, and a kernel in it. */
typedef struct kas_cli_training {
    kas_dataset *dataset;
    kas_net *net;
    kas_target *targets;
    kas_replacement replacement; /* zero without a kernel */
} kas_cli_training;
/* Opens the data set, streamed if that is asked for, and reads the kernel (NULL: none). The caller
 * closes *out, also after a failure. */
kas_status kas_cli_training_open(const char *dataset, bool stream, const kas_cli_net *options,
                                 const char *kernel, kas_cli_training *out);
void kas_cli_training_close(kas_cli_training *training);
/* Gives the kernels their gains: those that belong to the weights to start from, else those of their
 * file, else, with a device, calibrated ones, as in a search. A kernel that a search would not train
 * gets a warning and none. The programs of `options` are built afterwards. */
kas_status kas_cli_set_gains(kas_device *device, const kas_train_options *options,
                             kas_replacement *replacement);

/* Calls kas_file_is_input for the file that `spec` names, with or without options behind it. NULL
 * and the networks that come with kas-gpu name no file. */
kas_status kas_cli_net_is_input(const char *spec);
/* The same for a network and for other files of a command; NULL is left out. */
kas_status kas_cli_are_inputs(const char *net, const char *const *path, int paths);

#endif
