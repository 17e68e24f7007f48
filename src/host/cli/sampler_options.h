/* The options of every command that samples: one for each field of kas_sample_fields. */
#ifndef KAS_CLI_SAMPLER_OPTIONS_H
#define KAS_CLI_SAMPLER_OPTIONS_H

#include "host/cli/cli.h"
#include "host/space/canvas/sample_options.h"

/* Returns the parser, whose input is a kas_sample_options with the defaults in it. Options that
 * contradict each other are a usage error that names them. */
const struct argp *kas_cli_sampler_argp(void);

#endif
