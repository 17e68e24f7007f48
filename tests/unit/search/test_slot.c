/* What a slot of a worker tells an evaluation, without processes. */
#include "support/test.h"

#include <unistd.h>

#include "host/core/log.h"
#include "host/search/worker/crew.h"

/* When the supervisor is gone the slot stops, and knows that nobody has judged the epoch. */
TEST(a_question_without_an_answer)
{
    int end[2];
    assert_int_equal(pipe(end), 0);
    kas_crew crew = {.channel = {.in = -1, .out = end[1]},
                     .sending = PTHREAD_MUTEX_INITIALIZER,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER,
                     .lost = true};
    kas_slot slot = {.crew = &crew, .answered = true, .verdict = KAS_PRUNE};
    const kas_epoch epoch = {.epoch = 3};
    assert_int_equal(kas_slot_epoch(&slot, &epoch), KAS_STOP);
    assert_false(kas_slot_answered(&slot));
    kas_channel_free(&crew.channel);
    close(end[0]);
    close(end[1]);
}

int main(void)
{
    kas_log_set_level(KAS_LOG_QUIET);
    return run_all_tests(NULL, NULL);
}
