/* Training curves: the leaders named, the rest in the background, a cross where one was given
 * up. */
#include "host/report/html/curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/report/html/chart.h"
#include "host/report/html/markup.h"

enum { LEADERS = 4, POINTS = 60, ROOM = 128 }; /* ROOM: for the labels, in pixels */

void kas_report_curves_free(kas_report_curve *curve, int count)
{
    for (int i = 0; curve && i < count; i++)
        free(curve[i].epoch);
    free(curve);
}

static kas_status add(const kas_report_view *v, const kas_work *w, int leader,
                      kas_report_curve *list, int *count)
{
    kas_report_curve *c = &list[*count];
    *c = (kas_report_curve){.work = w, .leader = leader};
    KAS_TRY(kas_store_epochs(v->store, w->id, &c->epoch, &c->epochs));
    *count += c->epochs > 0;
    return KAS_OK;
}

/* Pruned or not promoted. A curve that broke off for another reason says little. */
static bool given_up(const kas_work *w)
{
    return w->kind == KAS_WORK_CANDIDATE && w->epochs > 0 &&
           (w->state == KAS_WORK_PRUNED || w->state == KAS_WORK_NOT_PROMOTED);
}

static kas_status read_all(const kas_report_view *v, int limit, kas_report_curve *list, int *count)
{
    int ended = 0, seen = 0;
    for (int i = 0; i < v->count; i++)
        ended += given_up(&v->work[i]);
    for (int i = 0; i < v->count; i++)
        if (given_up(&v->work[i]) && kas_report_spread(seen++, ended, limit / 2))
            KAS_TRY(add(v, &v->work[i], 0, list, count));
    /* From the last to the first, so that the leaders are drawn over the others. */
    const int leaders = v->finished < LEADERS ? v->finished : LEADERS;
    const int others = v->finished - leaders;
    for (int i = others - 1; i >= 0; i--)
        if (kas_report_spread(i, others, limit / 2))
            KAS_TRY(add(v, v->ranked[leaders + i].work, 0, list, count));
    for (int i = leaders - 1; i >= 0; i--)
        KAS_TRY(add(v, v->ranked[i].work, i + 1, list, count));
    if (v->baseline)
        KAS_TRY(add(v, v->baseline, 0, list, count));
    return KAS_OK;
}

kas_status kas_report_curves_read(const kas_report_view *v, int limit, kas_report_curve **out,
                                  int *count)
{
    *count = 0;
    *out = calloc((size_t)limit + LEADERS + 4, sizeof **out);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", v->folder);
    const kas_status status = read_all(v, limit, *out, count);
    if (status != KAS_OK) {
        kas_report_curves_free(*out, *count);
        *out = NULL;
        *count = 0;
    }
    return status;
}

typedef struct bounds {
    double low, high;
    int epochs;
} bounds;

static bounds find_bounds(const kas_report_curve *curve, int count)
{
    bounds b = {INFINITY, -INFINITY, 0};
    for (int i = 0; i < count; i++)
        for (int e = 0; e < curve[i].epochs; e++) {
            const double a = curve[i].epoch[e].validation_accuracy;
            if (!isfinite(a))
                continue;
            b.low = a < b.low ? a : b.low;
            b.high = a > b.high ? a : b.high;
            b.epochs =
                curve[i].epoch[e].epoch + 1 > b.epochs ? curve[i].epoch[e].epoch + 1 : b.epochs;
        }
    return b;
}

static const char *class_of(const kas_report_view *v, const kas_report_curve *c)
{
    if (c->work == v->baseline)
        return "curve base";
    if (c->work->state != KAS_WORK_FINISHED)
        return "curve bad";
    return c->leader == 1 ? "curve on strong" : c->leader ? "curve on" : "curve";
}

/* Draws one curve; *x and *y get its end. Returns false when it has no point. */
static bool draw_curve(kas_chart *c, const char *class, const kas_report_curve *curve, double *x,
                       double *y)
{
    int drawn = 0;
    for (int e = 0; e < curve->epochs; e++) {
        const kas_epoch *epoch = &curve->epoch[e];
        if (!isfinite(epoch->validation_accuracy) ||
            (e + 1 < curve->epochs && !kas_report_spread(e, curve->epochs, POINTS)))
            continue;
        *x = kas_chart_x(c, epoch->epoch + 1);
        *y = kas_chart_y(c, epoch->validation_accuracy);
        if (drawn++)
            kas_buf_printf(c->out, "L%.1f %.1f", *x, *y);
        else
            kas_buf_printf(c->out, "<path class=\"%s\" d=\"M%.1f %.1fh.1", class, *x, *y);
    }
    if (drawn)
        kas_buf_puts(c->out, "\"/>\n");
    return drawn > 0;
}

static void draw(const kas_report_view *v, const kas_report_curve *curve, int count,
                 const bounds *b, bool wide, kas_buf *out)
{
    kas_chart c;
    kas_end_label label[LEADERS + 1];
    int labels = 0;
    const kas_axis x = kas_axis_epochs("epoch", b->epochs),
                   y = kas_axis_percent("validation top-1", b->low, b->high);
    kas_chart_open(&c, out, wide, &x, &y, wide ? ROOM : ROOM - 52,
                   "Accuracy on the validation split after each epoch");
    for (int i = 0; i < v->options.rungs.count; i++)
        if (v->options.rungs.value[i] > KAS_RUNG_OF_IMITATION &&
            v->options.rungs.value[i] < b->epochs)
            kas_buf_printf(out, "<path class=\"rung\" d=\"M%.1f %.1fV%.1f\"/>\n",
                           kas_chart_x(&c, v->options.rungs.value[i]), c.top, c.bottom);
    for (int i = 0; i < count; i++) {
        const kas_work *w = curve[i].work;
        double ex, ey;
        if (!draw_curve(&c, class_of(v, &curve[i]), &curve[i], &ex, &ey))
            continue;
        if (given_up(w))
            kas_buf_printf(out, "<path class=\"cross\" d=\"M%.1f %.1fl6 6m0 -6l-6 6\"><title>",
                           ex - 3, ey - 3);
        if (given_up(w)) {
            kas_html_put(out, "%s: %s", w->name, kas_work_state_name(w->state));
            kas_buf_puts(out, "</title></path>\n");
        }
        if (!curve[i].leader && w != v->baseline)
            continue;
        label[labels] = (kas_end_label){ex, ey, curve[i].leader ? "label on" : "label base", ""};
        snprintf(label[labels].text, sizeof label[0].text, "%.*s",
                 curve[i].leader ? KAS_SHORT_NAME : 40,
                 curve[i].leader ? w->name
                 : wide          ? "unmodified network"
                                 : "unmodified");
        labels++;
    }
    kas_chart_end_labels(&c, label, labels);
    kas_chart_close(&c);
}

kas_status kas_report_curves(const kas_report_view *v, const kas_report_limits *limits,
                             kas_buf *out)
{
    kas_report_curve *curve;
    int count, gone = 0, ended = 0;
    KAS_TRY(kas_report_curves_read(v, limits->curves, &curve, &count));
    const bounds b = find_bounds(curve, count);
    if (b.epochs > 1) {
        for (int i = 0; i < count; i++)
            gone += given_up(curve[i].work);
        for (int i = 0; i < v->count; i++)
            ended += given_up(&v->work[i]);
        kas_html_section(out, "Training curves");
        kas_buf_puts(out, "<figure>\n");
        draw(v, curve, count, &b, true, out);
        draw(v, curve, count, &b, false, out);
        kas_buf_puts(out, "<figcaption>Accuracy on the validation split after each epoch.");
        if (v->finished)
            kas_buf_puts(out, " The best candidates are named.");
        if (gone)
            kas_buf_puts(out, " A cross ends the curve of a candidate that was given up.");
        if (v->options.rungs.count)
            kas_buf_puts(out, " Dotted lines are rungs.");
        if (count - (v->baseline != NULL) < v->finished + ended)
            kas_buf_printf(out, " %d of %d curves are drawn.", count - (v->baseline != NULL),
                           v->finished + ended);
        kas_buf_puts(out, "</figcaption>\n</figure>\n");
        kas_html_section_end(out);
    }
    kas_report_curves_free(curve, count);
    return KAS_OK;
}
