/* Prints the output of `kas-gpu net show`. */
#ifndef KAS_CLI_NET_SHOW_H
#define KAS_CLI_NET_SHOW_H

#include "host/net/targets.h"

kas_status kas_net_show_text(const kas_net *net, const kas_target *targets, int count);
/* Prints one line of JSON (docs/json.md, "net show"). */
kas_status kas_net_show_json(const kas_net *net, const kas_target *targets, int count);

#endif
