/* Tables and JSON lines: alignment, UTF-8, numbers that are not finite, exact read-back. */
#include "support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "host/report/line.h"
#include "host/report/table.h"

TEST(table_is_aligned)
{
    kas_table *t = kas_table_create(
        (kas_column[]){{"kernel", KAS_LEFT}, {"top-1", KAS_RIGHT}, {"state", KAS_LEFT}}, 3);
    assert_non_null(t);
    kas_table_cell(t, "%s", "é1");
    kas_table_cell(t, "%.1f%%", 7.25);
    kas_table_cell(t, "finished");
    kas_table_cell(t, "longer one");
    kas_table_cell(t, "%.1f%%", 12.3);
    kas_buf out = {0};
    assert_int_equal(kas_table_write(t, &out), KAS_OK);
    assert_string_equal(kas_buf_text(&out), "kernel      top-1  state\n"
                                            "----------  -----  --------\n"
                                            "é1           7.2%  finished\n"
                                            "longer one  12.3%\n");
    kas_buf_free(&out);
    kas_table_free(t);
    t = kas_table_create((kas_column[]){{"a", KAS_RIGHT}}, 1);
    assert_int_equal(kas_table_write(t, &out), KAS_OK);
    assert_string_equal(kas_buf_text(&out), "a\n-\n");
    kas_buf_free(&out);
    kas_table_free(t);
    assert_int_equal(kas_table_write(NULL, &out), KAS_NO_MEMORY);
}

TEST(line_reads_back)
{
    const double values[] = {0.1, 1.0 / 3, 1e300, -5e-324, 123456789.0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        kas_buf out = {0};
        kas_line_begin(&out);
        kas_line_number(&out, "value", values[i]);
        kas_line_number(&out, "nan", NAN);
        kas_line_number(&out, "infinite", -INFINITY);
        kas_line_text(&out, "text", "a \"b\"\n");
        kas_line_text(&out, "none", NULL);
        kas_line_int(&out, "int", -42);
        kas_line_bool(&out, "bool", true);
        kas_line_json(&out, "list", "[1, 2]");
        kas_line_end(&out);
        assert_int_equal(out.data[out.size - 1], '\n');
        assert_null(memchr(out.data, '\n', out.size - 1));
        cJSON *json = cJSON_Parse(out.data);
        assert_non_null(json);
        assert_true(cJSON_GetObjectItem(json, "value")->valuedouble == values[i]);
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "nan")));
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "infinite")));
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "none")));
        assert_string_equal(cJSON_GetObjectItem(json, "text")->valuestring, "a \"b\"\n");
        assert_int_equal(cJSON_GetObjectItem(json, "int")->valueint, -42);
        assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "bool")));
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "list")), 2);
        assert_int_equal(cJSON_GetObjectItem(json, "schema_version")->valueint, KAS_REPORT_SCHEMA);
        cJSON_Delete(json);
        kas_buf_free(&out);
    }
}

TEST(numbers_for_people)
{
    char t[32];
    assert_string_equal(kas_human_count(8, t), "8");
    assert_string_equal(kas_human_count(0.5, t), "0.50");
    assert_string_equal(kas_human_count(999, t), "999");
    assert_string_equal(kas_human_count(269722, t), "270 k");
    assert_string_equal(kas_human_count(999.6, t), "1.00 k");
    assert_string_equal(kas_human_count(40.55e6, t), "40.5 M");
    assert_string_equal(kas_human_count(NAN, t), "-");
    assert_string_equal(kas_human_seconds(12.34e-6, t), "12.3 us");
    assert_string_equal(kas_human_seconds(0.9999, t), "1.00 s");
    assert_string_equal(kas_human_seconds(INFINITY, t), "-");
    assert_string_equal(kas_human_bytes(12, t), "12 B");
    assert_string_equal(kas_human_bytes(1024, t), "1.00 KiB");
    assert_string_equal(kas_human_bytes(1023.7 * 1024, t), "1.00 MiB");
    assert_string_equal(kas_human_duration(59.4, t), "59s");
    assert_string_equal(kas_human_duration(59.6, t), "1m00s");
    assert_string_equal(kas_human_duration(3600 * 26.5, t), "1d02h");
    assert_string_equal(kas_human_duration(7625, t), "2h07m");
    assert_string_equal(kas_human_duration(NAN, t), "-");
    assert_string_equal(kas_human_duration(-1, t), "-");
}

RUN_TESTS()
