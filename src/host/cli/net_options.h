/* Options of commands that look at a kernel through a network: --net, --input, --classes,
 * --targets, --flops, --params. */
#ifndef KAS_CLI_NET_OPTIONS_H
#define KAS_CLI_NET_OPTIONS_H

#include "host/cli/cli.h"
#include "host/net/targets.h"
#include "host/space/sample/sampler.h"

typedef struct kas_cli_net {
    const char *name, *filter; /* name NULL = no --net */
    int c, h, w, classes;      /* of the images */
    kas_budget budget;
} kas_cli_net;
/* Input of both: kas_cli_net. The first has all options, the second those of commands that take the
 * shape of images from a data set: --net, --targets, --flops, --params. */
extern const struct argp kas_cli_net_argp, kas_cli_target_argp;
/* As kas_cli_net_argp, where the images are of another shape by default. */
extern const struct argp kas_cli_check_net_argp, kas_cli_bench_net_argp;
kas_cli_net kas_cli_net_defaults(void);
/* Reads the value of --input, "CxHxW". */
void kas_cli_shape(struct argp_state *state, const char *text, int *c, int *h, int *w);

/* Builds the network and its targets. The caller frees both (kas_net_free, free). */
kas_status kas_cli_net_targets(const kas_cli_net *options, kas_net **net, kas_target **targets,
                               int *count);

/* kas_file_is_input of the file that `spec` names, with or without options behind it; NULL and the
 * networks that come with kas-gpu name none. */
kas_status kas_cli_net_is_input(const char *spec);

#endif
