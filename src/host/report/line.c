#include "host/report/line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void kas_line_begin(kas_buf *out)
{
    kas_buf_printf(out, "{\"schema_version\": %d", KAS_REPORT_SCHEMA);
}

void kas_line_key(kas_buf *out, const char *name)
{
    kas_buf_puts(out, ", ");
    kas_buf_json_string(out, name);
    kas_buf_puts(out, ": ");
}

void kas_line_json(kas_buf *out, const char *name, const char *json)
{
    kas_line_key(out, name);
    kas_buf_puts(out, json);
}

void kas_line_text(kas_buf *out, const char *name, const char *value)
{
    kas_line_key(out, name);
    if (value)
        kas_buf_json_string(out, value);
    else
        kas_buf_puts(out, "null");
}

/* 15 digits read well and are nearly always exact; 17 digits always are. */
void kas_line_number(kas_buf *out, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (isfinite(value) && strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    kas_line_json(out, name, isfinite(value) ? text : "null");
}

void kas_line_int(kas_buf *out, const char *name, int64_t value)
{
    kas_line_key(out, name);
    kas_buf_printf(out, "%lld", (long long)value);
}

void kas_line_uint(kas_buf *out, const char *name, uint64_t value)
{
    kas_line_key(out, name);
    kas_buf_printf(out, "%llu", (unsigned long long)value);
}

void kas_line_bool(kas_buf *out, const char *name, bool value)
{
    kas_line_json(out, name, value ? "true" : "false");
}

void kas_line_end(kas_buf *out)
{
    kas_buf_puts(out, "}\n");
}

/* Writes three digits: 1.23, 12.3, 123. A value that rounds to 1000 gets the next unit. */
static const char *three_digits(double value, double base, const char *const *unit, int units,
                                char out[32])
{
    if (!isfinite(value)) {
        snprintf(out, 32, "-");
        return out;
    }
    int i = 0;
    while (i + 1 < units && fabs(value) >= (base == 1000 ? 999.5 : base - .5)) {
        value /= base;
        i++;
    }
    double size = fabs(value);
    int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    if (value == round(value) && i == 0)
        decimals = 0;
    snprintf(out, 32, "%.*f%s%s", decimals, value, *unit[i] ? " " : "", unit[i]);
    return out;
}

const char *kas_human_count(double value, char out[32])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    return three_digits(value, 1000, units, 6, out);
}

const char *kas_human_bytes(double bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return three_digits(bytes, 1024, units, 5, out);
}

const char *kas_human_seconds(double seconds, char out[32])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return three_digits(seconds * 1e9, 1000, units, 4, out);
}

const char *kas_human_duration(double seconds, char out[32])
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e12) {
        snprintf(out, 32, "-");
        return out;
    }
    long long s = llround(seconds);
    if (s < 60)
        snprintf(out, 32, "%llds", s);
    else if (s < 3600)
        snprintf(out, 32, "%lldm%02llds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, 32, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, 32, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    return out;
}
