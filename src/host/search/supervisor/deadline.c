/* How long before --until an item may still begin. An item that is stopped before its first
 * checkpoint would be compiled, calibrated and measured in vain.
 *
 * What one needs to its first checkpoint is the longest time of an item of this run; while none has
 * come so far, the mean time of the study's items, whichever machine they ran on (a mean, because one
 * that was slow by chance must not keep later runs from beginning anything); and while there are
 * none of these either, what the options say. */
#include <math.h>
#include <stdio.h>

#include "host/search/supervisor/supervisor_state.h"

kas_status kas_deadline_begin(kas_supervisor *s)
{
    if (s->options->until > 0)
        KAS_TRY(kas_store_mean_start(s->store, &s->first_checkpoint));
    if (s->first_checkpoint > 0)
        s->checkpoint_of = KAS_OF_STUDY;
    else
        s->first_checkpoint = s->options->least > 0 ? s->options->least : KAS_UNTIL_LEAST;
    return KAS_OK;
}

void kas_deadline_hear(kas_supervisor *s, kas_item *item)
{
    const double took = kas_monotonic() - item->given;
    if (item->given > 0 && !s->stopping) {
        s->first_checkpoint =
            s->checkpoint_of == KAS_OF_RUN ? fmax(s->first_checkpoint, took) : took;
        s->checkpoint_of = KAS_OF_RUN;
    }
    item->given = 0;
}

bool kas_deadline_is_near(const kas_supervisor *s)
{
    return kas_seconds_until(s->options->until) < s->first_checkpoint;
}

void kas_deadline_tell(kas_supervisor *s)
{
    static const char *const why[] = {
        [KAS_OF_NOBODY] = "how long one needs to its first checkpoint is not known yet",
        [KAS_OF_STUDY] = "those of this study have needed so long to their first checkpoints",
        [KAS_OF_RUN] = "one of this run has needed so long to its first checkpoint"};
    char text[256];
    snprintf(text, sizeof text, "no item begins in the last %.0f s before --until: %s",
             ceil(s->first_checkpoint), why[s->checkpoint_of]);
    kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, text);
}
