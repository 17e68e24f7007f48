/* The answers of a program that proposes candidates. */
#include "support/test.h"

#include <string.h>

#include "host/store/store.h"
#include "support/server.h"

static void assert_answer(kas_store *store, int generation, const char *text, const char *fault)
{
    kas_answer found;
    OK(kas_store_find_answer(store, generation, &found));
    assert_true((text == NULL) == (found.text == NULL));
    if (text) {
        assert_string_equal(found.text, text);
        assert_string_equal(found.fault, fault);
    }
    kas_answer_clear(&found);
}

/* The first answer of a generation counts, unless the generation has begun without it. Stores
 * without an answer have no table for them. */
TEST_BOTH(answers)
{
    kas_store *store = open_store();
    bool has, added;
    OK(kas_store_has_answers(store, &has));
    assert_false(has);
    assert_answer(store, 0, NULL, NULL);
    kas_answer one = {"a line\nanother \"one\"\n", "ended with exit code 3"}, empty = {"", ""};
    OK(kas_store_record_answer(store, 0, 0, &one));
    OK(kas_store_record_answer(store, 0, 0, &empty));
    assert_answer(store, 0, one.text, one.fault);
    const kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = 5};
    OK(kas_store_add(store, &work, &added));
    OK(kas_store_record_answer(store, 1, 5, &one));
    assert_answer(store, 1, NULL, NULL);
    OK(kas_store_record_answer(store, 1, 6, &empty)); /* nothing was proposed */
    kas_store_close(store);
    OK(open_on(KAS_STORE_READ, &store));
    assert_answer(store, 0, one.text, one.fault);
    assert_answer(store, 1, "", "");
    assert_answer(store, 2, NULL, NULL);
    OK(kas_store_has_answers(store, &has));
    assert_true(has);
    kas_store_close(store);
}

RUN_TESTS(start_server, stop_server)
