/* What became of all candidates: how many in each state, with the most frequent reasons. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/markup.h"
#include "host/report/html/sections.h"

enum { REASONS = 3, REASON_TEXT = 120 }; /* shown for each state; bytes that are compared */

typedef struct reason {
    char text[REASON_TEXT]; /* numbers replaced by #, so that equal causes are counted together */
    const kas_work *example;
    int count;
} reason;

static void generalise(const char *text, char out[REASON_TEXT])
{
    int n = 0;
    while (*text && n < REASON_TEXT - 1) {
        if (isdigit((unsigned char)*text)) {
            out[n++] = '#';
            text += strspn(text, "0123456789.");
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = 0;
}

static int by_count(const void *a, const void *b)
{
    const reason *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->text, y->text);
}

/* Collects the reasons of one state, the most frequent first. Reasons beyond `most` different ones
 * are counted by nobody. */
static int find_reasons(const kas_report_view *v, kas_work_state state, reason *list, int most)
{
    int count = 0;
    for (int i = 0; i < v->count; i++) {
        const kas_work *w = &v->work[i];
        char text[REASON_TEXT];
        int k = 0;
        if (w->kind != KAS_WORK_CANDIDATE || w->state != state || !*w->reason)
            continue;
        generalise(w->reason, text);
        while (k < count && strcmp(list[k].text, text) != 0)
            k++;
        if (k == most)
            continue;
        if (k == count) {
            list[count] = (reason){.example = w};
            memcpy(list[count++].text, text, sizeof text);
        }
        list[k].count++;
    }
    qsort(list, (size_t)count, sizeof *list, by_count);
    return count;
}

static void put_reasons(const kas_report_view *v, kas_work_state state, reason *list, int most,
                        kas_buf *out)
{
    const int count = find_reasons(v, state, list, most);
    kas_buf_puts(out, "<td>");
    for (int i = 0; i < count && i < REASONS; i++) {
        kas_buf_puts(out, i ? "<br>" : "");
        if (count > 1)
            kas_buf_printf(out, "%d×: ", list[i].count);
        kas_html_put(out, "%.200s", list[i].example->reason);
        kas_html_put(out, " (candidate %lld)", (long long)list[i].example->index);
    }
    if (count > REASONS)
        kas_buf_puts(out, "<br>and others");
    kas_buf_puts(out, "</td>");
}

kas_status kas_report_ended(const kas_report_view *v, kas_buf *out)
{
    enum { MOST = 200 };
    int tally[KAS_WORK_STATES] = {0}, most = 0;
    for (int i = 0; i < v->count; i++)
        if (v->work[i].kind == KAS_WORK_CANDIDATE)
            tally[v->work[i].state]++;
    for (int s = 0; s < KAS_WORK_STATES; s++)
        most = tally[s] > most ? tally[s] : most;
    if (!most)
        return KAS_OK;
    reason *list = calloc(MOST, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", v->folder);
    kas_html_section(out, "What became of the candidates");
    kas_buf_puts(out, "<div class=\"scroll\"><table class=\"reasons\">\n<thead><tr><th>state</th>"
                      "<th class=\"n\">candidates</th><td></td><th>reasons, the most frequent first"
                      "</th></tr></thead>\n<tbody>\n");
    for (int s = 0; s < KAS_WORK_STATES; s++) {
        if (!tally[s])
            continue;
        kas_buf_printf(out, "<tr><th scope=\"row\">%s</th><td class=\"n\">%d</td>",
                       kas_work_state_name((kas_work_state)s), tally[s]);
        kas_buf_printf(
            out,
            "<td><svg class=\"bar\" width=\"120\" height=\"10\" aria-hidden=\"true\"><rect "
            "width=\"%.1f\" height=\"10\"%s/></svg></td>",
            120.0 * tally[s] / most, s == KAS_WORK_FINISHED ? " class=\"on\"" : "");
        put_reasons(v, (kas_work_state)s, list, MOST, out);
        kas_buf_puts(out, "</tr>\n");
    }
    kas_buf_puts(out, "</tbody></table></div>\n");
    kas_html_section_end(out);
    free(list);
    return KAS_OK;
}
