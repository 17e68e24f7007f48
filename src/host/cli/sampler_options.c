#include "host/cli/sampler_options.h"

#include <stdio.h>

#include "host/cli/given.h"

/* Options are numbered from here, by their place in the table of fields. */
enum { KEY_FIELDS = 0x6000, MOST_FIELDS = 32, GROUP = 15 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    int count;
    const kas_field *field = kas_sample_fields(&count);
    if (key == ARGP_KEY_END) {
        if (kas_sample_options_check(state->input) != KAS_OK)
            argp_error(state, "%s", kas_error());
        return 0;
    }
    if (key < KEY_FIELDS || key >= KEY_FIELDS + count)
        return ARGP_ERR_UNKNOWN;
    if (kas_field_parse(&field[key - KEY_FIELDS], arg ? arg : "on", state->input) != KAS_OK)
        argp_error(state, "%s", kas_error());
    return 0;
}

/* Writes the help of an option: "Most branches at once (default 3)". For a list that is empty by
 * default it says what that means. */
static void write_help(const kas_field *field, const kas_sample_options *usual, char *out,
                       size_t size)
{
    kas_buf value = {0};
    kas_field_print(field, usual, &value);
    if (value.size)
        snprintf(out, size, "%s (default %s)", field->help, value.data);
    else
        snprintf(out, size, "%s", field->help);
    kas_buf_free(&value);
}

const struct argp *kas_cli_sampler_argp(void)
{
    static char help[MOST_FIELDS][160];
    static struct argp_option options[MOST_FIELDS + 1];
    static const struct argp argp = {options, parse, 0, 0, 0, 0, 0};
    kas_sample_options usual = kas_sample_defaults();
    int count;
    const kas_field *field = kas_sample_fields(&count);
    for (int i = 0; i < count && i < MOST_FIELDS; i++) {
        write_help(&field[i], &usual, help[i], sizeof help[i]);
        int bare = field[i].type == KAS_FIELD_FLAG ? OPTION_ARG_OPTIONAL : 0; /* means "on" */
        options[i] = (struct argp_option){
            field[i].option + 2, KEY_FIELDS + i, field[i].argument, bare, help[i], GROUP};
    }
    return &argp;
}
