/* Which options stand on a command line. Whether an option was given cannot be told from its value,
 * which may be the default's; and an option that has no effect is refused, so that nobody believes
 * that it had one. */
#ifndef KAS_CLI_GIVEN_H
#define KAS_CLI_GIVEN_H

#include "host/cli/cli.h"

enum { KAS_CLI_GIVEN = 256 };

typedef struct kas_cli_given {
    const char *option[KAS_CLI_GIVEN]; /* names without "--", in the order of the command line */
    int options;
} kas_cli_given;

/* For ARGP_KEY_END, when the options are known to be right: goes over the command line once more,
 * with the options of the command and of all its groups. */
void kas_cli_given_read(const struct argp_state *state, kas_cli_given *out);

/* Returns whether a list of names, with blanks between them, has this one. */
bool kas_cli_names_have(const char *names, const char *name);

/* For ARGP_KEY_END: calls argp_error with "--NAME WHY" if one of the options `names` is given. */
void kas_cli_refuse(struct argp_state *state, const char *names, const char *why);

#endif
