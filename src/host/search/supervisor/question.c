/* The question to a proposer (docs/proposals.md). */
#include "host/leaderboard/leaderboard.h"
#include "host/report/line.h"
#include "host/search/supervisor/proposer.h"

static void put_targets(const kas_target *target, int targets, kas_buf *out)
{
    kas_line_key(out, "targets");
    kas_buf_puts(out, "[");
    for (int i = 0; i < targets; i++) {
        const kas_target *t = &target[i];
        kas_buf_puts(out, i ? ", {\"name\": " : "{\"name\": ");
        kas_buf_json_string(out, t->name);
        kas_buf_printf(out,
                       ", \"c\": %u, \"h\": %u, \"w\": %u, \"kernel\": [%u, %u], \"instances\": %u,"
                       " \"flops\": %.17g, \"parameters\": %.17g}",
                       t->c, t->h, t->w, t->kernel_h, t->kernel_w, t->parts_in * t->parts_out,
                       kas_target_conv_flops(t), kas_target_conv_params(t));
    }
    kas_buf_puts(out, "]");
}

static void put_study(const kas_search_options *options, const kas_target *target, int targets,
                      const kas_question *question, kas_buf *out)
{
    kas_line_begin(out);
    kas_line_text(out, "kind", "question");
    kas_line_int(out, "generation", question->generation);
    kas_line_int(out, "wanted", question->wanted);
    kas_line_key(out, "options");
    kas_search_options_write(options, out);
    put_targets(target, targets, out);
    kas_line_end(out);
}

/* Earlier generations have ended, and so has the unmodified network when there are any. So nothing
 * here depends on what other workers do at the moment. */
void kas_question_write(const kas_search_options *options, const kas_target *target, int targets,
                        const kas_question *question, kas_buf *out)
{
    put_study(options, target, targets, question, out);
    for (int i = 0; i < question->count && question->generation > 0; i++) {
        const kas_work *w = &question->items[i];
        if (w->kind == KAS_WORK_BASELINE ||
            (w->kind == KAS_WORK_CANDIDATE && w->generation < question->generation))
            kas_work_history(question->items, question->count, w, out);
    }
}
