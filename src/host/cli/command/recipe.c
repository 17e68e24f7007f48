/* kas-gpu recipe: lists and prints the recipes that have a name. */
#include <stdio.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/core/embedded.h"
#include "host/recipe/recipe.h"
#include "host/report/line.h"
#include "host/report/table.h"

typedef struct recipe_options {
    kas_cli_common common;
    const char *action, *name;
} recipe_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    recipe_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        kas_cli_action(state, arg, &o->action, &o->name);
        return 0;
    case ARGP_KEY_END:
        if (!o->action || (strcmp(o->action, "list") != 0 && strcmp(o->action, "show") != 0))
            argp_error(state, "expected list, or show and the name or file of a recipe");
        else if (strcmp(o->action, "show") == 0 && !o->name)
            argp_error(state, "no recipe is given; give its name or file");
        else if (strcmp(o->action, "list") == 0 && o->name)
            argp_error(state, "unexpected argument \"%s\"", o->name);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "The recipes of search and train: optimiser, schedule, loss and augmentation as numbers.\n\n"
    "  kas-gpu recipe list\n"
    "  kas-gpu recipe show cifar200 > mine.json\n"
    "  kas-gpu train --net resnet18 --dataset cifar100.h5 --recipe ./mine.json\n"
    "\vA file is checked before it is shown. docs/recipe-file.md describes the format.";

static void print_line(const char *name, const char *about, const kas_recipe *r, kas_buf *out)
{
    kas_line_begin(out);
    kas_line_text(out, "name", name);
    kas_line_text(out, "about", about);
    kas_line_key(out, "recipe");
    kas_buf_puts(out, "{");
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, r, out);
    kas_buf_puts(out, "}");
    kas_line_end(out);
}

/* Prints a recipe as a file, one number a line. */
static void print_file(const char *about, const kas_recipe *r, kas_buf *out)
{
    kas_buf_puts(out, "{\n  \"format\": \"kas-gpu recipe\",\n  \"version\": 1,\n  \"about\": ");
    kas_buf_json_string(out, about);
    for (int i = 0; i < kas_recipe_field_count; i++) {
        kas_buf_printf(out, ",\n  \"%s\": ", kas_recipe_fields[i].key);
        kas_field_write(&kas_recipe_fields[i], r, out);
    }
    kas_buf_puts(out, "\n}\n");
}

static kas_status show(const recipe_options *o, kas_buf *out)
{
    char about[KAS_RECIPE_ABOUT + 1];
    kas_recipe recipe;
    KAS_TRY(kas_recipe_load(o->name, &recipe, about));
    if (o->common.json)
        print_line(o->name, about, &recipe, out);
    else
        print_file(about, &recipe, out);
    return kas_buf_status(out);
}

static int first_sentence(const char *text)
{
    const char *end = text;
    while (*end && !(strchr(".:", *end) && (end[1] == ' ' || !end[1])))
        end++;
    return (int)(end - text);
}

static kas_status list(const recipe_options *o, kas_buf *out)
{
    static const kas_column columns[] = {
        {"recipe", KAS_LEFT}, {"epochs", KAS_RIGHT}, {"batch", KAS_RIGHT}, {"for", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, 4);
    kas_status status = KAS_OK;
    for (const kas_embedded *e = kas_embedded_recipes; e->name && status == KAS_OK; e++) {
        char about[KAS_RECIPE_ABOUT + 1];
        kas_recipe recipe;
        status = kas_recipe_load(e->name, &recipe, about);
        if (status == KAS_OK && o->common.json)
            print_line(e->name, about, &recipe, out);
        kas_table_cell(table, "%s", e->name);
        kas_table_cell(table, "%d", recipe.epochs);
        kas_table_cell(table, "%d", recipe.batch);
        kas_table_cell(table, "%.*s", first_sentence(about), about);
    }
    if (status == KAS_OK && !o->common.json)
        status = kas_table_write(table, out);
    kas_table_free(table);
    return status == KAS_OK ? kas_buf_status(out) : status;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL, parse, "list\nshow NAME|FILE", doc, children, 0, 0};
    recipe_options o = {0};
    kas_buf out = {0};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_status status = strcmp(o.action, "list") == 0 ? list(&o, &out) : show(&o, &out);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    return status;
}

const kas_command kas_command_recipe = {"recipe", "List and show recipes of training", run};
