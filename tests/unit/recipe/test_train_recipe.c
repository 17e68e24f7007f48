/* Schedules against their formulas, recipe files good and bad, and the digest that names a run. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/core/embedded.h"
#include "host/train/digest.h"
#include "host/train/schedule.h"

TEST(rate_rises_then_falls)
{
    kas_recipe r = kas_recipe_default();
    r.epochs = 10;
    r.lr = 0.4;
    r.warmup_epochs = 2;
    enum { STEPS = 50 };
    double worst = 0;
    for (int s = 0; s < 10 * STEPS; s++) {
        double t = s + 0.5, x = (t - 100) / 400;
        double expected = t < 100 ? 0.4 * t / 100 : 0.2 * (1 + cos(3.14159265358979323846 * x));
        double error = fabs(kas_recipe_lr(&r, STEPS, (uint64_t)s) - expected);
        assert_true(kas_recipe_lr(&r, STEPS, (uint64_t)s) > 0);
        worst = error > worst ? error : worst;
    }
    print_message("schedule: largest error %g, tolerance 1e-15\n", worst);
    assert_true(worst <= 1e-15);
    r.warmup_epochs = 0;
    assert_true(kas_recipe_lr(&r, STEPS, 0) > 0.3999);
    r.warmup_epochs = 1000; /* longer than the run: still falls at the end */
    assert_true(kas_recipe_lr(&r, STEPS, 499) < 0.01 * 0.4);
    r.epochs = 1;
    r.warmup_epochs = 1;
    assert_true(isfinite(kas_recipe_lr(&r, 1, 0)));
}

/* The other schedules, after a warm-up of 2 of 10 epochs. */
TEST(schedules_follow_their_formulas)
{
    kas_recipe r = {.epochs = 10, .lr = 0.4, .warmup_epochs = 2, .step_factor = 0.5};
    r.steps = (kas_int_list){2, {3, 7}};
    enum { STEPS = 20 };
    for (uint64_t s = 0; s < 10 * STEPS; s++) {
        double t = (double)s + 0.5, warm = 0.4 * t / 40, epoch = floor(t / STEPS);
        r.schedule = KAS_LINEAR;
        double linear = kas_recipe_lr(&r, STEPS, s);
        r.schedule = KAS_CONSTANT;
        double constant = kas_recipe_lr(&r, STEPS, s);
        r.schedule = KAS_STEPS;
        double steps = kas_recipe_lr(&r, STEPS, s);
        double fallen = epoch < 3 ? 0.4 : epoch < 7 ? 0.2 : 0.1;
        assert_true(fabs(linear - (t < 40 ? warm : 0.4 * (200 - t) / 160)) <= 1e-15);
        assert_true(fabs(constant - (t < 40 ? warm : 0.4)) <= 1e-15);
        assert_true(fabs(steps - (t < 40 ? warm : fallen)) <= 1e-15);
    }
}

enum { DRAWS = 20000, SIDE = 32 };

/* Mean and variance of Beta(a, a) are 1/2 and 1/(4(2a + 1)). */
TEST(mixup_draws_from_beta)
{
    static const double alphas[] = {0.2, 1, 3};
    for (int k = 0; k < 3; k++) {
        const kas_recipe r = {.epochs = 1, .lr = 1, .mixup = alphas[k]};
        const kas_run_plan plan = {&r, DRAWS, 5, SIDE, SIDE};
        double sum = 0, squares = 0;
        for (uint64_t s = 0; s < DRAWS; s++) {
            kas_step_row row = kas_schedule_row(&plan, s);
            assert_true(row.share >= 0 && row.share <= 1 && row.blend == row.share);
            assert_true(row.height == 0 && row.width == 0);
            sum += (double)row.share;
            squares += (double)row.share * (double)row.share;
        }
        double mean = sum / DRAWS, variance = squares / DRAWS - mean * mean;
        double expected = 1 / (4 * (2 * alphas[k] + 1));
        print_message("Beta(%g): mean %.4f, variance %.4f, expected 0.5 and %.4f\n", alphas[k],
                      mean, variance, expected);
        assert_true(fabs(mean - 0.5) < 0.01 && fabs(variance / expected - 1) < 0.03);
    }
}

/* The share is what the rectangle leaves; both kinds come when both are on; rows are a function of
 * seed and step. */
TEST(cutmix_pastes_rectangles)
{
    kas_recipe r = {.epochs = 1, .lr = 1, .cutmix = 1};
    kas_run_plan plan = {&r, DRAWS, 5, SIDE, 2 * SIDE};
    double sum = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        kas_step_row row = kas_schedule_row(&plan, s), again = kas_schedule_row(&plan, s);
        assert_memory_equal(&row, &again, sizeof row);
        assert_true(row.blend == 1 && row.top + row.height <= SIDE &&
                    row.left + row.width <= 2 * SIDE);
        double share = 1 - (double)row.height * row.width / (2 * SIDE * SIDE);
        assert_true(fabs((double)row.share - share) <= 1e-6);
        sum += share;
    }
    assert_true(sum / DRAWS > 0.5 && sum / DRAWS < 0.75); /* the border cuts off: above 1/2 */
    r.mixup = 1;
    int blended = 0;
    for (uint64_t s = 0; s < DRAWS; s++)
        blended += kas_schedule_row(&plan, s).blend < 1;
    assert_in_range(blended, DRAWS * 48 / 100, DRAWS * 52 / 100);
    r = (kas_recipe){.epochs = 1, .lr = 1};
    kas_step_row plain = kas_schedule_row(&plan, 0);
    assert_true(plain.blend == 1 && plain.share == 1 && plain.height == 0);
}

TEST(limits_are_explained)
{
    kas_recipe r = kas_recipe_default();
    assert_int_equal(kas_recipe_check(&r), KAS_OK);
    r.lr = NAN;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "lr is nan"));
    r = kas_recipe_default();
    r.batch = 0;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "batch"));
    r = kas_recipe_default();
    r.label_smoothing = 1;
    assert_int_equal(kas_recipe_check(&r), KAS_BAD_INPUT);
}

/* Every shipped recipe reads, shows every number there is, and says where they come from. */
TEST(shipped_recipes_are_complete)
{
    static const char *const names[] = {"canvas300", "cifar200",  "cifar70", "imagenet90",
                                        "imitation", "naspte200", "search"};
    size_t count = 0;
    for (const kas_embedded *e = kas_embedded_recipes; e->name; e++, count++) {
        kas_recipe recipe;
        char about[KAS_RECIPE_ABOUT + 1];
        assert_true(count < sizeof names / sizeof *names);
        assert_string_equal(e->name, names[count]);
        OK(kas_recipe_load(e->name, &recipe, about));
        assert_true(strlen(about) > 40);
        for (int i = 0; i < kas_recipe_field_count; i++) {
            char key[64];
            snprintf(key, sizeof key, "\n  \"%s\": ", kas_recipe_fields[i].key);
            if (!strstr(e->text, key))
                fail_msg("recipes/%s.json does not show %s", e->name, kas_recipe_fields[i].key);
        }
    }
    assert_int_equal(count, sizeof names / sizeof *names);
    kas_recipe r; /* the paper's numbers: NAS-PTE, section 6 */
    assert_int_equal(kas_recipe_load("naspte200", &r, NULL), KAS_OK);
    assert_true(r.epochs == 200 && r.lr == 0.1 && r.steps.count == 3);
    assert_true(fabs(kas_recipe_lr(&r, 100, 60 * 100 - 1) - 0.1) <= 1e-15);
    assert_true(fabs(kas_recipe_lr(&r, 100, 60 * 100) - 0.01) <= 1e-15);
    assert_true(fabs(kas_recipe_lr(&r, 100, 160 * 100) - 0.0001) <= 1e-15);
}

static const char good[] =
    "{\"format\": \"kas-gpu recipe\", \"version\": 1, \"epochs\": 3, \"batch\": 8,"
    " \"momentum\": 0.5, \"weight_decay\": 0, \"lr\": 0.25, \"warmup_epochs\": 0,"
    " \"label_smoothing\": 0, \"crop_pad\": 0, \"flip\": false}";

TEST(recipes_may_leave_out_what_is_off)
{
    kas_recipe r;
    assert_int_equal(kas_recipe_read("good", good, strlen(good), &r, NULL), KAS_OK);
    assert_true(r.epochs == 3 && r.batch == 8 && r.momentum == 0.5 && r.lr == 0.25 && !r.flip);
    assert_true(r.optimiser == KAS_NESTEROV && r.schedule == KAS_COSINE && r.steps.count == 0);
}

/* One thing of a good file changed; the message says which, and what was expected. */
TEST(bad_recipes_are_refused)
{
    static const char *const change[][3] = {
        {"kas-gpu recipe", "kas-gpu kernel", "expected \"kas-gpu recipe\""},
        {"\"version\": 1", "\"version\": 2", "reads up to 1"},
        {"\"epochs\": 3", "\"epochs\": 0", "\"epochs\": expected an integer in [1, 100000]"},
        {"\"epochs\": 3", "\"epochs\": 1.5", "\"epochs\": expected an integer"},
        {"\"epochs\": 3, ", "", "\"epochs\" is missing"},
        {"\"epochs\": 3", "\"epochs\": 3, \"epochs\": 3", "epochs"},
        {"\"lr\": 0.25", "\"lr\": \"x\"", "\"lr\": expected a number, found a string"},
        {"\"lr\"", "\"rate\"", "unknown field \"rate\""},
        {"\"flip\": false", "\"flip\": 0", "\"flip\": expected true or false"},
        {"\"flip\"", "\"schedule\": \"stairs\", \"flip\"", "cosine, steps, linear, constant"},
        {"\"flip\"", "\"schedule\": \"steps\", \"flip\"", "steps is empty"},
        {"\"flip\"", "\"steps\": [2, 2], \"flip\"", "rising order"},
        {"\"flip\"", "\"steps\": [0.5], \"flip\"", "a list of integers"},
        {"\"flip\"", "\"about\": [], \"flip\"", "about"},
        {"false}", "false", "JSON"},
    };
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        char changed[1024];
        kas_recipe r;
        const char *at = strstr(good, change[i][0]);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - good), good, change[i][1],
                 at + strlen(change[i][0]));
        assert_int_equal(kas_recipe_read("bad.json", changed, strlen(changed), &r, NULL),
                         KAS_BAD_INPUT);
        if (!strstr(kas_error(), change[i][2]) || !strstr(kas_error(), "bad.json"))
            fail_msg("expected \"%s\" in: %s", change[i][2], kas_error());
    }
}

/* What a field prints for the command line it also reads from there. */
TEST(options_read_back)
{
    kas_recipe r, back = {0};
    assert_int_equal(kas_recipe_load("cifar200", &r, NULL), KAS_OK);
    for (int i = 0; i < kas_recipe_field_count; i++) {
        kas_buf text = {0};
        kas_field_print(&kas_recipe_fields[i], &r, &text);
        assert_int_equal(kas_field_parse(&kas_recipe_fields[i], kas_buf_text(&text), &back),
                         KAS_OK);
        kas_buf_free(&text);
    }
    kas_buf a = {0}, b = {0};
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, &r, &a);
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, &back, &b);
    assert_string_equal(a.data, b.data);
    kas_buf_free(&a);
    kas_buf_free(&b);
    assert_int_equal(kas_recipe_load("no_such", &r, NULL), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "known are: canvas300"));
    assert_int_equal(kas_recipe_load("./no_such.json", &r, NULL), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "./no_such.json"));
}

TEST(digest_names_the_run)
{
    kas_net *net20 = NULL, *net18 = NULL;
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, 4, &net20), KAS_OK);
    assert_int_equal(kas_net_build("resnet18", 8, 8, 3, 4, &net18), KAS_OK);
    kas_dataset data = {.digest = "aaaa"}, other = {.digest = "bbbb"};
    const uint32_t index[4] = {0, 1, 2, 3}, permuted[4] = {0, 1, 3, 2};
    kas_train_options base = {.net = net20,
                              .dataset = &data,
                              .recipe = kas_recipe_default(),
                              .train_index = index,
                              .train_count = 4,
                              .checkpoint = "a"};
    kas_train_options changed[10];
    for (int i = 0; i < 10; i++)
        changed[i] = base;
    changed[0].net = net18;
    changed[1].dataset = &other;
    changed[2].seed = 1;
    changed[3].train_index = permuted;
    changed[4].train_count = 3;
    changed[5].recipe.lr = nextafter(base.recipe.lr, 1);
    changed[6].recipe.flip = !base.recipe.flip;
    changed[7].evaluate_test = true;
    changed[8].recipe.epochs++;
    changed[9].recipe.decay_all = true;
    uint8_t first[32], digest[32];
    assert_int_equal(kas_train_digest(&base, first), KAS_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(kas_train_digest(&changed[i], digest), KAS_OK);
        assert_memory_not_equal(first, digest, 32);
    }
    base.checkpoint = "b"; /* where it is saved does not matter */
    base.weights_out = "c";
    assert_int_equal(kas_train_digest(&base, digest), KAS_OK);
    assert_memory_equal(first, digest, 32);
    kas_net_free(net20);
    kas_net_free(net18);
}

RUN_TESTS()
