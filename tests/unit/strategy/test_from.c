/* --from: the kernels of a folder and of a study, in their order, and what is refused. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/core/file/files.h"
#include "host/score/correct.h"
#include "host/store/store.h"
#include "host/strategy/from.h"
#include "walk.h"

static void write_file(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    OK(kas_file_write_atomic(path, text, strlen(text)));
}

static const char *known_kernel(const char *name)
{
    return kas_embedded_find(kas_embedded_kernels, name);
}

TEST_WITH(kernels_of_a_folder, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    kas_buf text = {0};
    kas_strategy strategy;
    study s = {.count = 0};
    write_file("b.json", known_kernel("bottleneck"));
    write_file("a.json", known_kernel("group_conv"));
    write_file("c.json", known_kernel("conv")); /* does not fit the budget */
    write_file("d.json", "{\"no\": \"kernel\"}");
    write_file("e.txt", known_kernel("depthwise"));
    OK(kas_from_collect(folder, &text));
    OK(kas_strategy_open(&o, target, targets, kas_buf_text(&text), NULL, &strategy));
    walk(&strategy, &s, 3);
    assert_string_equal(s.work[0].origin, "from:a");
    assert_string_equal(s.work[1].origin, "from:b");
    assert_string_equal(s.work[2].origin, "sampled");
    kas_strategy_close(&strategy);
    kas_buf_free(&text);
    forget(&s);
}

/* Adds a candidate that finished, of which the first `hits` of 400 images are correct. */
static void add_finished(kas_store *store, int64_t index, const char *name, int hits, double cost)
{
    kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = index, .kernel = "{}", .predicted = cost};
    kas_measured measured = kas_measured_unknown();
    kas_work claimed;
    kas_buf correct = {0};
    float hit[400];
    bool is;
    snprintf(work.name, sizeof work.name, "%s", name);
    OK(kas_store_add(store, &work, &is));
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 60, &claimed, &is));
    assert_string_equal(claimed.name, name);
    for (int i = 0; i < 400; i++)
        hit[i] = i < hits;
    kas_correct_add(hit, 400, &correct);
    measured.accuracy = hits / 400.0;
    OK(kas_store_record_correct(store, claimed.id, claimed.lease, kas_buf_text(&correct), &is));
    OK(kas_store_finish(store, claimed.id, claimed.lease, KAS_WORK_FINISHED, "", &measured, &is));
    kas_buf_free(&correct);
    kas_work_clear(&claimed);
}

static kas_status take_name(void *context, const char *name, const char *kernel)
{
    (void)kernel;
    kas_buf_puts(context, name);
    return KAS_OK;
}

/* Those in reach of the best come by fronts, the ends of a front first, then the rest by accuracy;
 * what is like another one comes last. */
TEST_WITH(kernels_of_a_study, set_up, tear_down)
{
    const kas_study begun = {.options = "{}", .options_digest = "d"};
    kas_store *store;
    kas_buf text = {0}, names = {0};
    bool created;
    OK(kas_store_open(in_folder("study.db"), KAS_STORE_CREATE, &store));
    OK(kas_store_begin_study(store, &begun, &created));
    add_finished(store, 0, "a", 160, 0.60);
    add_finished(store, 1, "b", 160, 0.601); /* like a */
    add_finished(store, 2, "c", 157, 0.70);  /* beaten by a */
    add_finished(store, 3, "d", 150, 0.20);  /* the cheapest */
    add_finished(store, 4, "e", 90, 0.10);   /* too far behind */
    add_finished(store, 5, "f", 154, 0.40);
    kas_store_close(store);
    OK(kas_from_collect(folder, &text));
    OK(kas_from_read(kas_buf_text(&text), take_name, &names));
    assert_string_equal(kas_buf_text(&names), "adfceb");
    kas_buf_free(&text);
    kas_buf_free(&names);
}

TEST_WITH(bad_folders, set_up, tear_down)
{
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    kas_strategy strategy;
    kas_buf text = {0};
    assert_int_equal(kas_from_collect("/no/such/folder", &text), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "/no/such/folder"));
    assert_int_equal(kas_from_collect(folder, &text), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "there is no kernel file"));
    write_file("d.json", "{\"no\": \"kernel\"}");
    assert_int_equal(kas_from_collect(folder, &text), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "there is no kernel file"));
    assert_non_null(strstr(kas_error(), "d.json"));
    kas_buf_clear(&text);
    write_file("c.json", known_kernel("conv"));
    OK(kas_from_collect(folder, &text));
    assert_int_equal(kas_strategy_open(&o, target, targets, kas_buf_text(&text), NULL, &strategy),
                     KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "none of the 1 kernels fits"));
    kas_buf_free(&text);
}

RUN_TESTS()
