/* Implements `kas-gpu show` for a file of layers: which layer has which kernel, and what it
 * costs there. */
#ifndef KAS_CLI_SHOW_LAYERS_H
#define KAS_CLI_SHOW_LAYERS_H

#include "host/space/file/assignment.h"

/* Appends the text, or one line of JSON (docs/json.md, "show"). `net`, the name of a network, and
 * `fit`, the assignment at its targets, may both be NULL. */
kas_status kas_show_layers(const kas_assignment *assignment, const char *net,
                           const kas_replacement *fit, bool json, kas_buf *out);

/* Append the gains of a file: a table of those that are not 1, or the field "gains" with all.
 * Nothing when there are none. */
kas_status kas_show_gains(const kas_gains *gains, kas_buf *out);
void kas_show_gains_json(const kas_gains *gains, kas_buf *out);

#endif
