#include "host/strategy/first.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/predict/keep.h"
#include "host/space/commute.h"
#include "host/space/file/assignment.h"
#include "host/space/known/known.h"
#include "host/strategy/from.h"
#include "host/study/problem.h"

typedef struct making {
    const kas_search_options *options;
    const kas_target *target;
    int targets;
    kas_first *list;
    int count;
    int offered; /* kernels of --from */
    int taken;   /* of these */
    char why[400];
} making;

void kas_first_free(kas_first *list, int count)
{
    for (int i = 0; i < count; i++)
        kas_replacement_free(&list[i].replacement);
    free(list);
}

static bool has(const making *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->list[i].name, name) == 0)
            return true;
    return false;
}

/* Takes ownership of what the replacement holds. */
static kas_status append(making *m, const char *origin, const char *name, kas_replacement *r)
{
    if (!KAS_GROW(m->list, m->count)) {
        kas_replacement_free(r);
        return kas_fail(KAS_NO_MEMORY, "known kernels: out of memory");
    }
    kas_first *one = &m->list[m->count++];
    *one = (kas_first){.replacement = *r};
    snprintf(one->origin, sizeof one->origin, "%s", origin);
    snprintf(one->name, sizeof one->name, "%s", name);
    return KAS_OK;
}

/* Adds the kernels at the targets, unless they do not fit there. */
static kas_status add(making *m, const char *origin, kas_assignment *kernels, bool *fits)
{
    const kas_budget budget = kas_search_budget(m->options);
    kas_replacement replacement;
    char name[KAS_NAME_SIZE];
    *fits = false;
    if (kernels->layers == 0) /* the form that a sample has */
        KAS_TRY(kas_kernel_canonicalize_unordered(kernels->kernel, kernels->kernel));
    kas_status status = KAS_OK;
    if (m->options->keep_slower)
        status = kas_keep_where_none_fits(m->target, m->targets, &budget, kernels);
    if (status == KAS_OK)
        status = kas_assignment_name(kernels, name);
    if (status == KAS_OK)
        status = kas_assignment_fit(kernels, m->target, m->targets, &budget, &replacement);
    *fits = status == KAS_OK;
    if (!*fits) {
        snprintf(m->why, sizeof m->why, "%s: %.300s", origin, kas_error());
        kas_debug("%s is not used: %s", origin, kas_error());
        return status == KAS_NO_MEMORY ? status : KAS_OK;
    }
    if (!has(m, name))
        return append(m, origin, name, &replacement);
    kas_replacement_free(&replacement);
    return KAS_OK;
}

static kas_status add_text(making *m, const char *origin, const char *text, bool *fits)
{
    kas_assignment kernels;
    KAS_TRY(kas_assignment_read_json(origin, text, strlen(text), &kernels));
    const kas_status status = add(m, origin, &kernels, fits);
    kas_assignment_free(&kernels);
    return status;
}

static kas_status add_known(void *context, const char *name, kas_assignment *kernel)
{
    char origin[64];
    bool fits;
    snprintf(origin, sizeof origin, "known:%s", name);
    return add(context, origin, kernel, &fits);
}

static kas_status add_from(void *context, const char *name, const char *kernel)
{
    making *m = context;
    char origin[64];
    bool fits;
    snprintf(origin, sizeof origin, "from:%.50s", name);
    KAS_TRY(add_text(m, origin, kernel, &fits));
    m->offered++;
    m->taken += fits;
    return KAS_OK;
}

/* Gives the list away, or frees it after a failure. */
static kas_status finish(making *m, kas_status status, kas_first **out, int *count)
{
    if (status != KAS_OK) {
        kas_first_free(m->list, m->count);
        m->list = NULL;
        m->count = 0;
    }
    *out = m->list;
    *count = m->count;
    return status;
}

kas_status kas_first_list(const kas_search_options *options, const kas_target *target, int targets,
                          const char *from, kas_first **out, int *count)
{
    making m = {.options = options, .target = target, .targets = targets};
    kas_status status = options->known ? kas_known_each(add_known, &m) : KAS_OK;
    if (status == KAS_OK && *from)
        status = kas_from_read(from, add_from, &m);
    if (status == KAS_OK && *from && m.taken == 0)
        status = kas_fail(KAS_BAD_INPUT,
                          "--from: none of the %d kernels fits this network and budget; the last "
                          "one: %s",
                          m.offered, m.why);
    return finish(&m, status, out, count);
}

static kas_status add_ancestor(void *context, const char *origin, const char *kernel)
{
    making *m = context;
    bool fits;
    KAS_TRY(add_text(m, origin, kernel, &fits));
    return fits ? KAS_OK : kas_fail(KAS_STORE, "the first candidates of the study: %.400s", m->why);
}

kas_status kas_first_read(const kas_search_options *options, const kas_target *target, int targets,
                          const char *ancestors, kas_first **out, int *count)
{
    making m = {.options = options, .target = target, .targets = targets};
    return finish(&m, kas_from_read(ancestors, add_ancestor, &m), out, count);
}
