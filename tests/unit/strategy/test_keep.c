/* Strategies with --keep-slower: candidates are what is left of kernels that lose layers. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/space/file/assignment.h"
#include "walk.h"

static kas_status no_forecast(void *context, const kas_replacement *replacement, kas_work *work)
{
    (void)context, (void)replacement, (void)work;
    return KAS_OK;
}

/* Takes the kernel of one layer away, all of some candidates, and nothing of others. */
static kas_status keep_some(void *context, kas_replacement *candidate, char name[KAS_NAME_SIZE])
{
    const int what = (int)(strtoull(name, NULL, 16) % 5);
    const kas_budget budget = {0};
    int kernel_of[64] = {0};
    kas_assignment kept;
    kas_replacement r;
    ++*(int *)context;
    if (what == 0)
        return kas_fail(KAS_ILLEGAL, "nothing is left");
    if (what == 1)
        return KAS_OK;
    assert_true(targets <= 64);
    for (int t = 0; t < targets; t++) /* known kernels may not fit some layers */
        kernel_of[t] = candidate->kernel_of ? candidate->kernel_of[t] : 0;
    kernel_of[targets - what] = KAS_KEPT;
    OK(kas_replacement_solve(candidate->kernel, 1, kernel_of, target, targets, &budget, &r));
    OK(kas_assignment_make(&r, &kept));
    OK(kas_assignment_name(&kept, name));
    kas_assignment_free(&kept);
    kas_replacement_free(candidate);
    *candidate = r;
    return KAS_OK;
}

static kas_search_options keeping(void)
{
    kas_search_options o = options_of(KAS_STRATEGY_EVOLUTION);
    o.keep_slower = o.known = true;
    o.flops = 0;
    return o;
}

/* With --keep-slower the list is the same whoever walks it, candidates have the names and texts of
 * what is left of them, and those that lost a layer have children. */
TEST_WITH(layers_are_kept, set_up, tear_down)
{
    const kas_search_options o = keeping();
    int calls = 0, whole = 0, children = 0;
    const kas_forecast forecast = {.judge = no_forecast, .context = &calls, .keep = keep_some};
    study s = {.count = 0};
    open_and_walk(&o, &forecast, &s, 70);
    assert_true(calls > 70); /* some were asked about in vain */
    open_and_walk(&o, &forecast, &s, 80);
    for (int k = 0; k < 80; k++) {
        kas_assignment read;
        char name[KAS_NAME_SIZE];
        OK(kas_assignment_read_json("candidate", s.work[k].kernel, strlen(s.work[k].kernel),
                                    &read));
        OK(kas_assignment_name(&read, name));
        assert_string_equal(name, s.work[k].name);
        whole += read.layers == 0;
        kas_assignment_free(&read);
        for (int j = 0; j < k; j++)
            assert_string_not_equal(s.work[j].name, s.work[k].name);
        if (*s.work[k].parents) {
            char first[17];
            snprintf(first, sizeof first, "%.16s", s.work[k].parents);
            children += strstr(named(&s, first)->kernel, "kas-gpu layers") != NULL;
        }
    }
    print_message("%d of 80 lost no layer, %d are children of some that did\n", whole, children);
    assert_in_range(whole, 5, 40);
    assert_true(children > 5);
    forget(&s);
}

/* Writes the kernels of the candidates that come from files as ancestors, as they are in the files. */
static void write_ancestors(const study *s, kas_buf *out)
{
    const char *between = "{\"kernels\": [";
    for (int k = 0; k < s->count; k++) {
        const char *origin = s->work[k].origin;
        const char *file = strncmp(origin, "known:", 6) == 0
                               ? kas_embedded_find(kas_embedded_kernels, origin + 6)
                               : NULL;
        if (!file)
            continue;
        kas_buf_printf(out, "%s{\"name\": \"%s\", \"kernel\": ", between, origin);
        kas_buf_json_string(out, file);
        kas_buf_puts(out, "}");
        between = ", ";
    }
    kas_buf_puts(out, "]}");
    OK(kas_buf_status(out));
}

/* Ancestors name the same kernels again, and none is taken for one that has come already. */
TEST_WITH(kernels_that_lose_layers_stay_among_ancestors, set_up, tear_down)
{
    const kas_search_options o = keeping();
    int calls = 0, shortened = 0, from_files = 0;
    const kas_forecast forecast = {.judge = no_forecast, .context = &calls, .keep = keep_some};
    study s = {.count = 0};
    kas_buf text = {0};
    kas_strategy strategy;
    open_and_walk(&o, &forecast, &s, 12);
    write_ancestors(&s, &text);
    OK(kas_strategy_open(&o, target, targets, "", &forecast, &strategy));
    OK(kas_strategy_take_ancestors(&strategy, kas_buf_text(&text)));
    for (int k = 0; k < 12; k++) {
        const kas_work *expected = &s.work[k];
        if (strncmp(expected->origin, "known:", 6) != 0 ||
            !kas_embedded_find(kas_embedded_kernels, expected->origin + 6))
            continue;
        kas_work work = {.kind = KAS_WORK_CANDIDATE};
        bool ready;
        OK(strategy.next(strategy.context, NULL, 0, &work, &ready));
        assert_string_equal(work.origin, expected->origin);
        assert_string_equal(work.name, expected->name);
        shortened += strstr(work.kernel, "kas-gpu layers") != NULL;
        from_files++;
        kas_work_clear(&work);
    }
    print_message("%d of %d lost a layer\n", shortened, from_files);
    assert_true(shortened >= 2);
    kas_strategy_close(&strategy);
    kas_buf_free(&text);
    forget(&s);
}

static kas_status keep_two(void *context, kas_replacement *candidate, char name[KAS_NAME_SIZE])
{
    (void)candidate, (void)name;
    return ++*(int *)context <= 2 ? KAS_OK : kas_fail(KAS_ILLEGAL, "nothing is left");
}

static kas_status same_score(void *context, const kas_replacement *replacement,
                             double score[KAS_BUCKET_SCORES])
{
    (void)context, (void)replacement;
    score[0] = 1;
    return KAS_OK;
}

/* The list ends while candidates wait for others to be compared with (--prefilter): these are the
 * strategy's alone. */
TEST_WITH(the_list_ends_while_some_wait, set_up, tear_down)
{
    kas_search_options o = keeping();
    o.strategy = KAS_STRATEGY_RANDOM;
    o.known = false;
    int calls = 0;
    const kas_forecast forecast = {.judge = no_forecast,
                                   .context = &calls,
                                   .keep = keep_two,
                                   .score = same_score,
                                   .proposals = 32,
                                   .scores = 1};
    kas_strategy strategy;
    kas_work work = {.kind = KAS_WORK_CANDIDATE};
    bool ready;
    OK(kas_strategy_open(&o, target, targets, "", &forecast, &strategy));
    assert_int_equal(strategy.next(strategy.context, NULL, 0, &work, &ready), KAS_NOTHING_VALID);
    assert_null(work.kernel);
    kas_strategy_close(&strategy);
}

RUN_TESTS()
