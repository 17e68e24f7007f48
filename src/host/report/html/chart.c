#include "host/report/html/chart.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/report/html/markup.h"

/* Sizes in pixels; the text of charts has 12 of them (chart.css). */
enum { NARROW = 358, NARROW_HEIGHT = 300, LEFT = 44, TOP = 26, BELOW = 44, LINE_HEIGHT = 14 };

static void widen(kas_axis *axis, double share)
{
    double low = axis->log ? log(axis->low) : axis->low;
    double high = axis->log ? log(axis->high) : axis->high;
    double room = (high - low) * share;
    if (!(room > 0))
        room = axis->log ? 0.2 : fabs(high) * 0.1 + 1e-9;
    low -= room;
    high += room;
    axis->low = axis->log ? exp(low) : low;
    axis->high = axis->log ? exp(high) : high;
}

kas_axis kas_axis_percent(const char *title, double low, double high)
{
    kas_axis axis = {.low = low, .high = high, .scale = 100, .suffix = "%"};
    snprintf(axis.title, sizeof axis.title, "%s", title);
    widen(&axis, 0.06);
    axis.low = axis.low < 0 ? 0 : axis.low;
    axis.high = axis.high > 1 ? 1 : axis.high;
    return axis;
}

kas_axis kas_axis_seconds(const char *title, double low, double high, bool log)
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}, {86400, "days"}};
    int unit = 0;
    while (unit + 1 < 6 && high >= 2 * units[unit + 1].size)
        unit++;
    kas_axis axis = {.low = low, .high = high, .log = log, .suffix = ""};
    axis.scale = 1 / units[unit].size;
    snprintf(axis.title, sizeof axis.title, "%s, %s", title, units[unit].name);
    widen(&axis, 0.06);
    if (!log && axis.low < 0)
        axis.low = 0;
    return axis;
}

kas_axis kas_axis_epochs(const char *title, double high)
{
    kas_axis axis = {.low = 1, .high = high > 1 ? high : 2, .scale = 1, .suffix = ""};
    snprintf(axis.title, sizeof axis.title, "%s", title);
    return axis;
}

kas_axis kas_axis_ratio(const char *title, double low, double high)
{
    kas_axis axis = {.low = low, .high = high, .scale = 1, .suffix = "x"};
    snprintf(axis.title, sizeof axis.title, "%s", title);
    axis.log = low > 0 && high > 10 * low;
    widen(&axis, 0.06);
    axis.low = axis.low < 0 && low >= 0 ? 0 : axis.low;
    return axis;
}

static double share_of(const kas_axis *axis, double value)
{
    if (axis->log)
        return log(value / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

double kas_chart_x(const kas_chart *c, double value)
{
    return c->left + share_of(&c->x, value) * (c->right - c->left);
}

double kas_chart_y(const kas_chart *c, double value)
{
    return c->bottom - share_of(&c->y, value) * (c->bottom - c->top);
}

/* ---- ticks ---- */

enum { MOST_TICKS = 16 };

/* Steps of 1, 2 or 5 times a power of ten, of which about `wanted` fit. */
static int linear_ticks(const kas_axis *axis, int wanted, double tick[MOST_TICKS], int *decimals)
{
    const double low = axis->low * axis->scale, high = axis->high * axis->scale;
    const double rough = (high - low) / wanted, ten = pow(10, floor(log10(rough)));
    const double times = rough / ten;
    const double step = ten * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
    int count = 0;
    for (double i = ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) && count < MOST_TICKS;
         i++)
        tick[count++] = i * step / axis->scale;
    const double digits = ceil(-log10(step) - 1e-9);
    *decimals = digits > 0 ? (int)fmin(digits, 6) : 0;
    return count;
}

static int log_ticks(const kas_axis *axis, int wanted, double tick[MOST_TICKS])
{
    static const double steps[2][3] = {{1, 2, 5}, {1, 0, 0}};
    const double low = axis->low * axis->scale, high = axis->high * axis->scale;
    const int coarse = log10(high / low) * 3 > 2 * wanted;
    int count = 0;
    for (double ten = pow(10, floor(log10(low))); ten <= high; ten *= 10)
        for (int i = 0; i < 3 && steps[coarse][i] > 0; i++) {
            const double value = ten * steps[coarse][i];
            if (value >= low && value <= high && count < MOST_TICKS)
                tick[count++] = value / axis->scale;
        }
    return count;
}

/* Writes the value of a tick with no more digits than it needs. */
static void tick_text(const kas_axis *axis, double value, int decimals, char out[32])
{
    const double shown = value * axis->scale + 0.0; /* not -0 */
    if (decimals < 0)
        snprintf(out, 32, "%g%s", (double)(float)shown, axis->suffix);
    else
        snprintf(out, 32, "%.*f%s", decimals, shown, axis->suffix);
}

static int ticks_of(const kas_axis *axis, int wanted, double tick[MOST_TICKS], int *decimals)
{
    int count = 0;
    *decimals = -1;
    if (axis->log)
        count = log_ticks(axis, wanted, tick);
    if (count < 2)
        count = linear_ticks(axis, wanted, tick, decimals);
    return count;
}

static void draw_axes(kas_chart *c)
{
    double tick[MOST_TICKS];
    char text[32];
    int decimals, count = ticks_of(&c->y, c->wide ? 6 : 5, tick, &decimals);
    kas_buf_puts(c->out, "<g class=\"axis\">");
    for (int i = 0; i < count; i++) {
        const double y = kas_chart_y(c, tick[i]);
        tick_text(&c->y, tick[i], decimals, text);
        kas_buf_printf(c->out,
                       "<path class=\"grid\" d=\"M%.0f %.1fH%.1f\"/><text class=\"end\" x=\"%.0f\" "
                       "y=\"%.1f\">%s</text>",
                       c->left, y, c->right, c->left - 6, y + 4, text);
    }
    count = ticks_of(&c->x, c->wide ? 8 : 4, tick, &decimals);
    for (int i = 0; i < count; i++) {
        const double x = kas_chart_x(c, tick[i]);
        tick_text(&c->x, tick[i], decimals, text);
        kas_buf_printf(c->out,
                       "<path d=\"M%.1f %.1fv4\"/><text class=\"middle\" x=\"%.1f\" "
                       "y=\"%.1f\">%s</text>",
                       x, c->bottom, x, c->bottom + 18, text);
    }
    kas_buf_printf(c->out, "<path d=\"M%.0f %.1fH%.1f\"/><text class=\"title\" x=\"0\" y=\"12\">",
                   c->left, c->bottom, c->right);
    kas_html_text(c->out, c->y.title);
    kas_buf_printf(c->out, "</text><text class=\"title end\" x=\"%.1f\" y=\"%.1f\">", c->right,
                   c->bottom + 36);
    kas_html_text(c->out, c->x.title);
    kas_buf_puts(c->out, "</text></g>\n");
}

void kas_chart_open(kas_chart *c, kas_buf *out, bool wide, const kas_axis *x, const kas_axis *y,
                    double room, const char *about)
{
    *c = (kas_chart){.out = out, .wide = wide, .x = *x, .y = *y};
    c->width = wide ? KAS_CHART_WIDE : NARROW;
    c->height = wide ? KAS_CHART_WIDE_HEIGHT : NARROW_HEIGHT;
    c->left = LEFT;
    c->right = c->width - (room > 8 ? room : 8);
    c->top = TOP;
    c->bottom = c->height - BELOW;
    kas_buf_printf(
        out,
        "<svg class=\"chart %s\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"img\" aria-label=\"",
        wide ? "wide" : "narrow", c->width, c->height, c->width, c->height);
    kas_html_text(out, about);
    kas_buf_puts(out, "\">\n");
    draw_axes(c);
}

void kas_chart_close(kas_chart *c)
{
    kas_buf_puts(c->out, "</svg>\n");
}

/* ---- labels ---- */

/* The letters of DejaVu Sans, which are wider than those of most fonts. */
double kas_chart_text_width(const char *text)
{
    double width = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if ((c & 0xc0) == 0x80) /* goes on with a character of UTF-8 */
            continue;
        width += isupper(c) ? 8.3 : isdigit(c) || c >= 0x80 ? 7.6 : isalpha(c) ? 6.9 : 4.8;
    }
    return width;
}

static bool overlap(const kas_box *a, const kas_box *b)
{
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

static bool is_free(const kas_chart *c, const kas_box *box)
{
    if (box->x0 < c->left || box->x1 > c->width || box->y0 < c->top - LINE_HEIGHT ||
        box->y1 > c->bottom)
        return false;
    for (int i = 0; i < c->boxes; i++)
        if (overlap(&c->box[i], box))
            return false;
    return true;
}

static void take(kas_chart *c, kas_box box)
{
    if (c->boxes < KAS_CHART_BOXES)
        c->box[c->boxes++] = box;
}

void kas_chart_keep_free(kas_chart *c, double x, double y, double radius)
{
    take(c, (kas_box){x - radius, y - radius, x + radius, y + radius});
}

static void put_text(kas_chart *c, double x, double y, const char *class, const char *text)
{
    kas_buf_printf(c->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    kas_html_text(c->out, text);
    kas_buf_puts(c->out, "</text>\n");
}

bool kas_chart_label(kas_chart *c, double x, double y, const char *class, const char *text,
                     bool needed)
{
    /* Where the label's left edge and its middle line lie: as shares of its width, and in pixels
     * from the mark. Nearer places come first. */
    static const struct {
        double share, dx, dy;
    } places[] = {{0, 6, -11},    {-1, -6, -11}, {-0.5, 0, -14}, {0, 9, 0},    {0, 6, 11},
                  {-1, -9, 0},    {-1, -6, 11},  {-0.5, 0, 14},  {0, 10, -22}, {-1, -10, -22},
                  {-0.5, 0, -26}, {0, 10, 22},   {-1, -10, 22},  {-0.5, 0, 26}};
    const double width = kas_chart_text_width(text);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const double left = x + places[i].dx + places[i].share * width, middle = y + places[i].dy;
        const kas_box box = {left - 1, middle - 7, left + width + 1, middle + 7};
        if (!is_free(c, &box))
            continue;
        take(c, box);
        put_text(c, left, middle + 4, class, text);
        return true;
    }
    if (needed)
        put_text(c, x + places[0].dx, y + places[0].dy + 4, class, text);
    return needed;
}

static int by_y(const void *a, const void *b)
{
    const kas_end_label *p = a, *q = b;
    return (p->y > q->y) - (p->y < q->y);
}

void kas_chart_end_labels(kas_chart *c, kas_end_label *label, int count)
{
    qsort(label, (size_t)count, sizeof *label, by_y);
    for (int i = 0; i < count; i++) { /* downward, then back up from the lower edge */
        const double least = i ? label[i - 1].y + LINE_HEIGHT : c->top;
        label[i].y = label[i].y < least ? least : label[i].y;
    }
    for (int i = count - 1; i >= 0; i--) {
        const double most = i + 1 < count ? label[i + 1].y - LINE_HEIGHT : c->bottom;
        label[i].y = label[i].y > most ? most : label[i].y;
    }
    for (int i = 0; i < count; i++)
        put_text(c, label[i].x + 7, label[i].y + 4, label[i].class, label[i].text);
}
