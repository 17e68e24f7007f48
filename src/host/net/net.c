#include "host/net/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/core/file/files.h"
#include "host/core/intern.h"
#include "host/core/json/json.h"
#include "host/core/sha256.h"
#include "host/net/net_file.h"

enum { MAX_CLASSES = 65535 };

/* ---- specs of networks ----------------------------------------------------------------------- */

static bool is_text(const char *spec)
{
    return spec[strspn(spec, " \t\r\n")] == '{';
}

/* Returns where the options of a spec such as "resnet18:small=1" begin, or its end. In a text they
 * are behind its last brace, because "like" inside it has options of its own. */
static const char *find_options(const char *spec)
{
    const char *brace = is_text(spec) ? strrchr(spec, '}') : NULL;
    const char *colon = strrchr(brace ? brace : spec, ':');
    if (!colon)
        return spec + strlen(spec);
    size_t name = strspn(colon + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_");
    return name && colon[1 + name] == '=' ? colon : spec + strlen(spec);
}

static bool is_path(const char *spec, size_t length)
{
    return memchr(spec, '/', length) || (length > 5 && strncmp(spec + length - 5, ".json", 5) == 0);
}

static kas_status fail_unknown(const char *name)
{
    kas_buf list = {0};
    kas_embedded_list(kas_embedded_networks, &list);
    kas_status status = kas_fail(
        KAS_BAD_INPUT, "unknown network \"%s\"; known are: %s, and files (\"./mine.json\")", name,
        kas_buf_text(&list));
    kas_buf_free(&list);
    return status;
}

/* Gets the text for which `spec` (without options) stands; *file is its name in messages. */
static kas_status find_text(const char *spec, kas_buf *text, const char **file)
{
    const char *known = kas_embedded_find(kas_embedded_networks, spec);
    *file = spec;
    if (known) {
        kas_buf_puts(text, known);
    } else if (is_text(spec)) {
        kas_buf_puts(text, spec);
        *file = "network";
    } else if (is_path(spec, strlen(spec))) {
        KAS_TRY(kas_file_read(spec, KAS_NET_FILE_BYTES, text));
    } else {
        return fail_unknown(spec);
    }
    return kas_buf_status(text);
}

/* ---- building -------------------------------------------------------------------------------- */

static kas_status check_range(const char *what, int value, int low, int high)
{
    if (value >= low && value <= high)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "%s is %d; expected %d to %d", what, value, low, high);
}

static kas_status check_request(const kas_net_source *s)
{
    KAS_TRY(check_range("height of the images", s->h, 1, KAS_NET_MAX_IMAGE));
    KAS_TRY(check_range("width of the images", s->w, 1, KAS_NET_MAX_IMAGE));
    KAS_TRY(check_range("number of image channels", s->c, 1, KAS_NET_MAX_IMAGE));
    return check_range("number of classes", s->classes, 2, MAX_CLASSES);
}

/* Gets the text of the built-in network `like`, which must have layers. */
static kas_status find_layers(const char *like, kas_buf *text)
{
    char further[256], name[32];
    const char *known = kas_embedded_find(kas_embedded_networks, like);
    if (!known)
        return fail_unknown(like);
    KAS_TRY(kas_net_file_like(like, known, further, name));
    if (*further)
        return kas_fail(KAS_BAD_INPUT,
                        "field \"like\": %s is itself like another network; expected \"%s\"", like,
                        further);
    kas_buf_clear(text);
    kas_buf_puts(text, known);
    return KAS_OK;
}

/* Resolves a file with "like": the text of the network that it names takes the file's place, and
 * its options hold where the user gives no other ones. */
static kas_status follow_like(kas_net_source *s, kas_buf *text, kas_buf *defaults, kas_buf *origin,
                              char name[32])
{
    char like[256];
    KAS_TRY(kas_net_file_like(s->file, kas_buf_text(text), like, name));
    s->name = name;
    if (!*like)
        return KAS_OK;
    char *more = like + (find_options(like) - like);
    if (*more)
        kas_buf_puts(defaults, more + 1);
    *more = 0;
    kas_status status = find_layers(like, text);
    if (status != KAS_OK)
        return kas_fail_context(status, "%s", s->file);
    kas_buf_printf(origin, "%s (like %s)", s->file, like);
    s->file = kas_buf_text(origin);
    return KAS_OK;
}

static kas_status build(const char *spec, kas_net_source source, kas_net **out)
{
    kas_buf base = {0}, text = {0}, defaults = {0}, origin = {0};
    char name[32];
    const char *colon = find_options(spec);
    kas_status status = KAS_OK;
    kas_buf_add(&base, spec, (size_t)(colon - spec));
    KAS_TRY_GOTO(kas_buf_status(&base), out);
    KAS_TRY_GOTO(find_text(kas_buf_text(&base), &text, &source.file), out);
    KAS_TRY_GOTO(follow_like(&source, &text, &defaults, &origin, name), out);
    KAS_TRY_GOTO(kas_buf_status(&text), out);
    KAS_TRY_GOTO(kas_buf_status(&defaults), out);
    KAS_TRY_GOTO(kas_buf_status(&origin), out);
    if (is_text(spec))
        source.file = name;
    source.text = kas_buf_text(&text);
    source.options = *colon ? colon + 1 : "";
    source.defaults = kas_buf_text(&defaults);
    status = kas_net_file_read(&source, out);
out:
    kas_buf_free(&base);
    kas_buf_free(&text);
    kas_buf_free(&defaults);
    kas_buf_free(&origin);
    return status;
}

kas_status kas_net_build(const char *spec, int h, int w, int c, int classes, kas_net **out)
{
    kas_net_source source = {.h = h, .w = w, .c = c, .classes = classes};
    kas_status status = check_request(&source);
    if (status != KAS_OK)
        return kas_fail_context(status, "network %.64s", spec);
    return build(spec, source, out);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Computes the digest of the file without its spaces, and of the options. */
static kas_status digest_of(const char *text, const char *options, char out[65])
{
    kas_buf packed = {0};
    kas_buf_puts(&packed, text);
    KAS_TRY(kas_buf_status(&packed));
    cJSON_Minify(packed.data);
    packed.size = strlen(packed.data);
    kas_buf_puts(&packed, options);
    kas_status status = kas_buf_status(&packed);
    if (status == KAS_OK)
        kas_sha256_hex(packed.data, packed.size, out);
    kas_buf_free(&packed);
    return status;
}

/* Gets the unchanged file, so that messages about it name its lines, and then the options. */
static kas_status keep_file(const char *file, kas_buf *text, const char *options,
                            char kept[KAS_NET_KEPT_NAME], const char **out)
{
    char like[256], name[32], digest[65];
    KAS_TRY(kas_net_file_like(file, kas_buf_text(text), like, name));
    KAS_TRY(digest_of(kas_buf_text(text), options, digest));
    snprintf(kept, KAS_NET_KEPT_NAME, "%s-%.8s", name, digest);
    kas_buf_puts(text, options);
    KAS_TRY(kas_buf_status(text));
    *out = kas_intern(text->data);
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory to keep %s", file);
}

kas_status kas_net_keep(const char *spec, char name[KAS_NET_KEPT_NAME], const char **out)
{
    kas_buf base = {0}, text = {0};
    const char *options = find_options(spec), *file;
    kas_status status = KAS_OK;
    *out = "";
    kas_buf_add(&base, spec, (size_t)(options - spec));
    KAS_TRY_GOTO(kas_buf_status(&base), out);
    if (kas_embedded_find(kas_embedded_networks, kas_buf_text(&base))) {
        if (snprintf(name, KAS_NET_KEPT_NAME, "%s", spec) >= KAS_NET_KEPT_NAME)
            status = kas_fail(KAS_BAD_INPUT, "network \"%.64s...\": options of more than %d bytes",
                              spec, KAS_NET_KEPT_NAME - 1);
        goto out;
    }
    KAS_TRY_GOTO(find_text(kas_buf_text(&base), &text, &file), out);
    status = keep_file(file, &text, options, name, out);
out:
    kas_buf_free(&base);
    kas_buf_free(&text);
    return status;
}

size_t kas_net_kept_file(const char *text)
{
    return (size_t)(find_options(text) - text);
}

bool kas_net_is_cut(const kas_net *net, int i)
{
    for (int k = i + 1; k < net->layers; k++)
        for (int j = 0; j < net->layer[k].inputs; j++)
            if (net->layer[k].in[j] < i)
                return false;
    return true;
}

void kas_net_free(kas_net *net)
{
    if (!net)
        return;
    kas_arena_free(net->inputs);
    free(net->layer);
    free(net);
}
