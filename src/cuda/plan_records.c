#include "cuda/plan_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/private.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "jit/compile/cache.h"

static void key_of(const kas_cuda *cuda, const kas_tuned *t, const char *problem, char key[65])
{
    kas_buf text = {0};
    kas_buf_printf(&text, "plan %d.%d|%s|%s|driver %s|%s|%s", KAS_CACHE_FORMAT, KAS_PLAN_RULES,
                   cuda->base.info.name, cuda->base.info.arch, cuda->driver->library.version,
                   t->name, problem);
    kas_sha256_hex(kas_buf_text(&text), text.size, key);
    kas_buf_free(&text);
}

static kas_status find_mode(bool *timed)
{
    const char *mode = getenv("KAS_CUDA_PLANS");
    *timed = !mode || !*mode || strcmp(mode, "timed") == 0;
    if (!*timed && strcmp(mode, "heuristic") != 0)
        return kas_fail(KAS_USAGE, "KAS_CUDA_PLANS=%s: expected \"timed\" or \"heuristic\"", mode);
    return KAS_OK;
}

kas_status kas_plan_places_find(const kas_cuda *cuda, const kas_tuned *t, const char *problem,
                                kas_plan_places *p)
{
    const char *pins = getenv("KAS_CUDA_PINS");
    char key[65], cache[4096], folder[4096];
    *p = (kas_plan_places){0};
    KAS_TRY(find_mode(&p->timed));
    key_of(cuda, t, problem, key);
    if (pins && *pins)
        KAS_TRY(kas_cache_shared_path(pins, key, "plan", p->pinned));
    if (!p->timed)
        return KAS_OK;
    KAS_TRY(kas_cache_dir(cache));
    if (snprintf(folder, sizeof folder, "%s/plans", cache) >= (int)sizeof folder ||
        snprintf(p->lock, sizeof p->lock, "%s/timing", folder) >= (int)sizeof p->lock)
        return kas_fail(KAS_FAILURE, "%s: the cache folder's path is too long", cache);
    return kas_cache_path(folder, key, "plan", p->cached);
}

static kas_status take_text(kas_cuda *cuda, const kas_tuned *t, const kas_buf *record)
{
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(kas_buf_text(record), "\n"),
             kas_buf_text(record));
    return t->read(cuda, t->self, line);
}

static const char no_plan[] = "none\n"; /* how the record begins that there is none */

/* A record that cannot be used is as good as none. */
static kas_status take_record(kas_cuda *cuda, const kas_tuned *t, const char *path, kas_buf *record,
                              kas_plan_known *what)
{
    bool found = false;
    *what = KAS_PLAN_UNKNOWN;
    kas_buf_clear(record);
    if (!path[0])
        return KAS_OK;
    KAS_TRY(kas_cache_read(path, record, &found));
    if (!found)
        return KAS_OK;
    if (strncmp(kas_buf_text(record), no_plan, sizeof no_plan - 1) == 0) {
        *what = KAS_PLAN_NONE;
        return KAS_OK;
    }
    const kas_status status = take_text(cuda, t, record);
    if (status == KAS_BAD_INPUT || kas_cuda_is_refusal(cuda, status)) {
        kas_warn("%s: this plan cannot be used: %s; another is chosen", path, kas_error());
        return KAS_OK;
    }
    *what = KAS_PLAN_KNOWN;
    return status;
}

/* Pins what is known, the plan that `self` has taken or none, or takes what another process has
 * pinned since. A pinned record that cannot be used is replaced. */
static kas_status pin(kas_cuda *cuda, const kas_tuned *t, const kas_plan_places *p,
                      const kas_buf *record, kas_plan_known *what)
{
    bool existed = false;
    kas_plan_known pinned;
    kas_buf other = {0};
    KAS_TRY(kas_cache_write_new(p->pinned, record->data, record->size, &existed));
    if (!existed)
        return KAS_OK;
    kas_status status = take_record(cuda, t, p->pinned, &other, &pinned);
    kas_buf_free(&other);
    if (status == KAS_OK && pinned == KAS_PLAN_UNKNOWN) {
        KAS_TRY(kas_cache_write(p->pinned, record->data, record->size));
        return *what == KAS_PLAN_NONE ? KAS_OK : take_text(cuda, t, record);
    }
    *what = pinned;
    return status;
}

kas_status kas_plan_record_find(kas_cuda *cuda, const kas_tuned *t, const kas_plan_places *p,
                                kas_plan_known *what)
{
    kas_buf record = {0};
    kas_status status;
    KAS_TRY_GOTO(take_record(cuda, t, p->pinned, &record, what), done);
    if (*what != KAS_PLAN_UNKNOWN)
        goto done;
    KAS_TRY_GOTO(take_record(cuda, t, p->cached, &record, what), done);
    if (*what != KAS_PLAN_UNKNOWN && p->pinned[0])
        status = pin(cuda, t, p, &record, what);
done:
    kas_buf_free(&record);
    return status;
}

kas_status kas_plan_record_write(kas_cuda *cuda, const kas_tuned *t, const kas_plan_places *p,
                                 int candidate, const char *remarks, bool cache,
                                 kas_plan_known *what)
{
    kas_buf record = {0};
    if (*what == KAS_PLAN_NONE)
        kas_buf_puts(&record, no_plan);
    else
        t->write(t->self, candidate, &record);
    kas_buf_printf(&record, "\n%s", remarks);
    kas_status status = kas_buf_status(&record);
    if (status == KAS_OK && cache && p->cached[0] &&
        kas_cache_write(p->cached, record.data, record.size) != KAS_OK)
        kas_warn("the plan cannot be saved: %s", kas_error());
    if (status == KAS_OK && p->pinned[0])
        status = pin(cuda, t, p, &record, what);
    kas_buf_free(&record);
    return status;
}
