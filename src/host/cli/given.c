#include "host/cli/given.h"

#include <string.h>

/* Options without a letter are numbered from here, because two groups may use the same number. */
enum { KEY_FIRST = 0x1000, MOST_OPTIONS = 256, MOST_LETTER = 127 };

typedef struct reader {
    struct argp_option option[MOST_OPTIONS + 1]; /* of all groups; one without a name ends them */
    int options;
    kas_cli_given *given;
} reader;

static void add_options(const struct argp *argp, reader *r)
{
    for (const struct argp_option *o = argp->options; o && o->name; o++) {
        if (r->options == MOST_OPTIONS)
            return;
        struct argp_option *to = &r->option[r->options];
        *to = *o;
        if (o->key > MOST_LETTER)
            to->key = KEY_FIRST + r->options;
        r->options++;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        add_options(c->argp, r);
}

static error_t record(int key, char *arg, struct argp_state *state)
{
    reader *r = state->input;
    (void)arg;
    for (int i = 0; i < r->options; i++)
        if (r->option[i].key == key) {
            if (r->given->options < KAS_CLI_GIVEN)
                r->given->option[r->given->options++] = r->option[i].name;
            return 0;
        }
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

void kas_cli_given_read(const struct argp_state *state, kas_cli_given *out)
{
    reader r = {.given = out};
    out->options = 0;
    add_options(state->root_argp, &r);
    const struct argp all = {r.option, record, NULL, NULL, NULL, NULL, NULL};
    argp_parse(&all, state->argc, state->argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &r);
}

bool kas_cli_names_have(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = names; *at; at += *at == ' ') {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, length) == 0)
            return true;
        at += word;
    }
    return false;
}

void kas_cli_refuse(struct argp_state *state, const char *names, const char *why)
{
    kas_cli_given given;
    kas_cli_given_read(state, &given);
    for (int i = 0; i < given.options; i++)
        if (kas_cli_names_have(names, given.option[i])) {
            argp_error(state, "--%s %s", given.option[i], why);
            return;
        }
}
