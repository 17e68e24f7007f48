/* Reads recipes from files, and those that are part of the program. */
#include <string.h>

#include "host/core/embedded.h"
#include "host/core/file/files.h"
#include "host/recipe/recipe.h"

enum { MAX_BYTES = 64 << 10, MAX_DEPTH = 2, VERSION = 1, MAX_FIELDS = 64 };
static const char format_name[] = "kas-gpu recipe";

static kas_status check_format(const cJSON *root, const char *where)
{
    const char *allowed[MAX_FIELDS] = {"format", "version", "about"};
    const char *format;
    int64_t version;
    if (!cJSON_IsObject(root))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an object", where);
    for (int i = 0; i < kas_recipe_field_count; i++)
        allowed[3 + i] = kas_recipe_fields[i].key;
    KAS_TRY(kas_json_string(root, where, "format", &format));
    if (strcmp(format, format_name) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"format\": expected \"%s\", found \"%.64s\"",
                        where, format_name, format);
    KAS_TRY(kas_json_int(root, where, "version", 1, INT32_MAX, &version));
    if (version > VERSION)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"version\" is %lld; this kas-gpu reads up to %d: a newer one "
                        "is needed",
                        where, (long long)version, VERSION);
    return kas_json_only(root, where, allowed);
}

static kas_status read_about(const cJSON *root, const char *where, char *out)
{
    const char *about = "";
    if (kas_json_has(root, "about"))
        KAS_TRY(kas_json_string(root, where, "about", &about));
    if (strlen(about) > KAS_RECIPE_ABOUT)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"about\": longer than %d characters", where,
                        KAS_RECIPE_ABOUT);
    if (out)
        strcpy(out, about);
    return KAS_OK;
}

kas_status kas_recipe_read(const char *where, const char *text, size_t size, kas_recipe *out,
                           char about[KAS_RECIPE_ABOUT + 1])
{
    cJSON *root;
    kas_status status = KAS_OK;
    *out = (kas_recipe){0};
    KAS_TRY(kas_json_parse(where, text, size, (kas_json_limits){MAX_BYTES, MAX_DEPTH}, &root));
    KAS_TRY_GOTO(check_format(root, where), out);
    KAS_TRY_GOTO(read_about(root, where, about), out);
    KAS_TRY_GOTO(kas_fields_read(kas_recipe_fields, kas_recipe_field_count, root, where, out), out);
    status = kas_recipe_check(out);
    if (status != KAS_OK)
        status = kas_fail_context(status, "%s", where);
out:
    cJSON_Delete(root);
    return status;
}

static kas_status load_file(const char *path, kas_recipe *out, char *about)
{
    kas_buf text = {0};
    KAS_TRY(kas_file_read(path, MAX_BYTES, &text));
    kas_status status = kas_recipe_read(path, kas_buf_text(&text), text.size, out, about);
    kas_buf_free(&text);
    return status;
}

static kas_status fail_name(const char *name)
{
    kas_buf known = {0};
    kas_embedded_list(kas_embedded_recipes, &known);
    kas_status status = kas_fail(KAS_BAD_INPUT,
                                 "no recipe \"%.64s\"; known are: %s; a file is given by its path, "
                                 "such as ./mine.json",
                                 name, kas_buf_text(&known));
    kas_buf_free(&known);
    return status;
}

kas_status kas_recipe_load(const char *name, kas_recipe *out, char about[KAS_RECIPE_ABOUT + 1])
{
    const char *text = kas_embedded_find(kas_embedded_recipes, name);
    if (text)
        return kas_recipe_read(name, text, strlen(text), out, about);
    if (strchr(name, '/') || strchr(name, '.'))
        return load_file(name, out, about);
    return fail_name(name);
}

kas_recipe kas_recipe_default(void)
{
    kas_recipe recipe;
    /* This cannot fail, because the file is part of the program and tested. If it did, it would
     * leave 0 epochs, which kas_recipe_check refuses. */
    if (kas_recipe_load("search", &recipe, NULL) != KAS_OK)
        recipe = (kas_recipe){0};
    return recipe;
}
