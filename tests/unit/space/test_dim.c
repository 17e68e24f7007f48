#include "support/test.h"

#include "host/core/random.h"
#include "host/space/dim.h"

static kas_dim parse(const char *text)
{
    kas_dim dim;
    if (!kas_dim_parse(text, &dim))
        fail_msg("\"%s\" was not read", text);
    return dim;
}

static void assert_prints(const kas_dim *dim, const char *text)
{
    kas_buf buf = {0};
    kas_dim_print(dim, &buf);
    assert_string_equal(kas_buf_text(&buf), text);
    kas_buf_free(&buf);
}

TEST(test_print_is_canonical)
{
    static const struct {
        const char *in, *out;
    } cases[] = {{"1", "1"},
                 {"C", "C"},
                 {"C/G0", "C/G0"},
                 {"x1*K_H", "K_H*x1"},
                 {"x12*x1", "x1*x12"},
                 {"3/2*C", "3/2*C"},
                 {"C*6/4", "3/2*C"},
                 {"C*C", "C^2"},
                 {"C^3/C", "C^2"},
                 {"C/C", "1"},
                 {"1/2", "1/2"},
                 {"1/G0/K_H^2", "1/K_H^2/G0"},
                 {"4294967295*W", "4294967295*W"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_dim dim = parse(cases[i].in);
        assert_prints(&dim, cases[i].out);
    }
}

TEST(test_parse_rejects)
{
    static const char *const bad[] = {
        "",    "0",   "-1",         "C*",  "*C", "C//G0",  "C G0",       "c",    "G4",
        "x16", "x",   "K",          "01",  "C^", "C^0",    "C^32",       "C^-1", "1.5",
        "(C)", "C*0", "4294967296", "C/0", "+1", "C^31*C", "65536*65536"};
    kas_dim dim;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kas_dim_parse(bad[i], &dim))
            fail_msg("\"%s\" was accepted", bad[i]);
}

TEST(test_multiply_and_divide)
{
    kas_dim a = parse("2/3*C/G0"), b = parse("9/4*G0*K_H"), out;
    assert_true(kas_dim_mul(&a, &b, &out));
    assert_prints(&out, "3/2*C*K_H");
    assert_true(kas_dim_div(&out, &b, &out));
    assert_true(kas_dim_equal(&out, &a));
    assert_true(kas_dim_div(&a, &a, &out));
    assert_true(kas_dim_is_one(&out));
    assert_false(kas_dim_is_one(&a));
    kas_dim big = kas_dim_const(1u << 31);
    assert_false(kas_dim_mul(&big, &big, &out));
}

TEST(test_variables)
{
    kas_dim a = parse("x3/G0"), value = parse("x2*G0*K_W"), out;
    assert_int_equal(kas_dim_var(&a), 3);
    assert_true(kas_dim_substitute(&a, 3, &value, &out));
    assert_prints(&out, "K_W*x2");
    assert_int_equal(kas_dim_var(&out), 2);
    kas_dim c = parse("C");
    assert_int_equal(kas_dim_var(&c), -1);
    assert_true(kas_dim_substitute(&c, 3, &value, &out));
    assert_true(kas_dim_equal(&c, &out));
}

TEST(test_eval)
{
    kas_binding binding = {0};
    binding.value[KAS_SYM_C] = 48;
    binding.value[KAS_SYM_G0] = 16;
    binding.value[KAS_SYM_KH] = 3;
    uint64_t value, p, q;
    kas_dim dim = parse("C/G0*K_H");
    assert_true(kas_dim_eval(&dim, &binding, &value));
    assert_int_equal(value, 9);
    dim = parse("C/G0/K_H^2");
    assert_false(kas_dim_eval(&dim, &binding, &value));
    assert_true(kas_dim_fraction(&dim, &binding, &p, &q));
    assert_int_equal(p, 1);
    assert_int_equal(q, 3);
    dim = parse("x0");
    assert_false(kas_dim_eval(&dim, &binding, &value));
    binding.value[KAS_SYM_C] = 1u << 20;
    dim = parse("C^2");
    assert_true(kas_dim_eval(&dim, &binding, &value));
    assert_true(value == (uint64_t)1 << 40);
    dim = parse("C^2*K_H");
    assert_false(kas_dim_eval(&dim, &binding, &value));
    dim = parse("C^31/C^29"); /* large on the way, small at the end */
    assert_true(kas_dim_eval(&dim, &binding, &value));
}

/* Random monomials: printing and reading gives the same, and the value of a product is the product
 * of the values (computed here with plain fractions of small numbers). */
TEST(test_random_monomials)
{
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    kas_binding binding;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        binding.value[s] = 1 + kas_rng_below(&rng, 12);
    for (int n = 0; n < 20000; n++) {
        kas_dim dim = kas_dim_const(1 + kas_rng_below(&rng, 9));
        double expected = dim.num;
        for (int f = 0; f < 5; f++) {
            int s = (int)kas_rng_below(&rng, KAS_SYM_COUNT);
            kas_dim factor = kas_dim_symbol((kas_symbol)s);
            bool up = kas_rng_below(&rng, 2);
            assert_true((up ? kas_dim_mul : kas_dim_div)(&dim, &factor, &dim));
            expected = up ? expected * binding.value[s] : expected / binding.value[s];
        }
        kas_buf text = {0};
        kas_dim_print(&dim, &text);
        kas_dim again = parse(kas_buf_text(&text));
        kas_buf_free(&text);
        assert_true(kas_dim_equal(&dim, &again));
        uint64_t p, q, value;
        assert_true(kas_dim_fraction(&dim, &binding, &p, &q));
        double relative = ((double)p / (double)q - expected) / expected;
        assert_true(relative <= 1e-12 && relative >= -1e-12);
        assert_int_equal(kas_dim_eval(&dim, &binding, &value), q == 1);
    }
}

RUN_TESTS()
