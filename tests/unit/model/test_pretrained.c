/* Which tensors of a file become which parameters: whole networks, kernels in place of layers, and
 * what does not fit. No device. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/model/pretrained.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"

static char path[64];
static kas_kernel kernel; /* large */

/* A network, as it is or with a kernel, and its parameters. */
typedef struct fixture {
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
    kas_programs programs;
    kas_params params;
} fixture;

static void make(fixture *f, int classes, const char *kernel_file)
{
    *f = (fixture){0};
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, classes, &f->net), KAS_OK);
    if (kernel_file) {
        const kas_budget budget = {0};
        int count;
        OK(kas_kernel_read_file(kernel_file, &kernel));
        OK(kas_net_targets(f->net, NULL, &f->target, &count));
        OK(kas_replacement_solve(&kernel, 1, NULL, f->target, count, &budget, &f->replacement));
    }
    assert_int_equal(kas_programs_build(kernel_file ? &f->replacement : NULL,
                                        &(kas_program_options){.batch = 2}, &f->programs),
                     KAS_OK);
    assert_int_equal(kas_params_build(f->net, &f->programs, &f->params), KAS_OK);
}

static void clear(fixture *f)
{
    kas_params_free(&f->params);
    kas_programs_free(&f->programs);
    kas_replacement_free(&f->replacement);
    free(f->target);
    kas_net_free(f->net);
}

/* Writes a file with the tensors of `f`, all zero, but not `without`, and with `extra` (an integer,
 * as PyTorch's num_batches_tracked is); both may be NULL. */
static kas_safetensors_dtype dtype_of_first; /* of a file's first tensor */

static void write_file(const fixture *f, const char *without, const char *extra)
{
    static float zeros[1 << 16];
    const int64_t seven = 7;
    int count = 0;
    kas_named_tensor *t = calloc((size_t)f->params.count + 1, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < f->params.count; i++) {
        const kas_param *p = &f->params.param[i];
        if (without && strcmp(p->name, without) == 0)
            continue;
        assert_true(p->size <= sizeof zeros / sizeof *zeros);
        memcpy(t[count].name, p->name, sizeof p->name);
        t[count].rank = p->rank;
        memcpy(t[count].shape, p->shape, sizeof p->shape);
        t[count].dtype = i == 0 ? dtype_of_first : KAS_SAFETENSORS_F32;
        t[count++].data = zeros;
    }
    if (extra) {
        snprintf(t[count].name, sizeof t[count].name, "%s", extra);
        t[count].dtype = KAS_SAFETENSORS_I64;
        t[count++].data = &seven;
    }
    assert_int_equal(kas_safetensors_write(path, t, count, NULL), KAS_OK);
    free(t);
}

static kas_status match(const fixture *f, bool partial, kas_pretrained *out)
{
    kas_safetensors file;
    assert_int_equal(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file), KAS_OK);
    kas_status status =
        kas_pretrained_match(path, &file, f->net, &f->programs, &f->params, partial, out);
    kas_safetensors_free(&file); /* only counts are looked at after this */
    return status;
}

static void expect(const fixture *f, bool partial, int taken, int begun_anew, int left_out)
{
    kas_pretrained got;
    OK(match(f, partial, &got));
    assert_int_equal(got.taken, taken);
    assert_int_equal(got.begun_anew, begun_anew);
    assert_int_equal(got.left_out, left_out);
    kas_pretrained_free(&got);
}

static void refused(const fixture *f, bool partial, const char *complaint)
{
    kas_pretrained got;
    assert_int_equal(match(f, partial, &got), KAS_BAD_INPUT);
    kas_pretrained_free(&got);
    if (!strstr(kas_error(), complaint) || !strstr(kas_error(), path))
        fail_msg("expected \"%s\" in: %s", complaint, kas_error());
}

static int kernel_weights(const kas_params *params)
{
    int count = 0;
    for (int i = 0; i < params->count; i++)
        count += params->param[i].map != NULL;
    return count;
}

/* Integers of the right shape are counts or indices, and no weights. */
TEST(integers_are_no_weights)
{
    static const kas_safetensors_dtype integers[] = {KAS_SAFETENSORS_I32, KAS_SAFETENSORS_I64,
                                                     KAS_SAFETENSORS_U8};
    fixture f;
    make(&f, 10, NULL);
    for (int i = 0; i < 3; i++) {
        char complaint[64];
        dtype_of_first = integers[i];
        write_file(&f, NULL, NULL);
        snprintf(complaint, sizeof complaint, "has dtype %s; expected F32, F64, F16 or BF16",
                 kas_safetensors_dtype_name(integers[i]));
        refused(&f, false, complaint);
        expect(&f, true, f.params.count - 1, 0, 1);
    }
    dtype_of_first = KAS_SAFETENSORS_F16;
    write_file(&f, NULL, NULL);
    dtype_of_first = KAS_SAFETENSORS_F32;
    expect(&f, false, f.params.count, 0, 0);
    clear(&f);
}

TEST(a_whole_network_is_taken)
{
    fixture f;
    make(&f, 10, NULL);
    write_file(&f, NULL, "layer1.0.bn1.num_batches_tracked");
    expect(&f, false, f.params.count, 0, 0);
    assert_int_equal(kas_pretrained_check(path, f.net, NULL, false), KAS_OK);
    write_file(&f, "bn1.running_var", NULL); /* statistics may be missing */
    expect(&f, false, f.params.count - 1, 0, 0);
    clear(&f);
}

TEST(kernels_begin_anew_or_go_on)
{
    fixture plain, with;
    make(&plain, 10, NULL);
    make(&with, 10, "kernels/depthwise_separable.json");
    int own = kernel_weights(&with.params);
    assert_true(own == 2 * 18); /* 18 targets */
    write_file(&plain, NULL, NULL);
    expect(&with, false, with.params.count - own, own, 0);
    write_file(&with, NULL, NULL);
    expect(&with, false, with.params.count, 0, 0);
    refused(&plain, false, "belongs to no layer");
    write_file(&with, "layer1.0.conv1.weight1", NULL); /* neither the kernel's nor the layer's */
    refused(&with, false, "\"layer1.0.conv1.weight1\" of network resnet20 is missing");
    clear(&plain);
    clear(&with);
}

TEST(another_classifier_is_left_out_when_asked)
{
    fixture ten, four;
    make(&ten, 10, NULL);
    make(&four, 4, NULL);
    write_file(&four, NULL, NULL);
    refused(&ten, false, "\"fc.weight\" has shape [4, 64]; expected [10, 64]; give weights of");
    expect(&ten, true, ten.params.count - 2, 0, 2);
    assert_int_equal(kas_pretrained_check(path, ten.net, NULL, false), KAS_BAD_INPUT);
    assert_int_equal(kas_pretrained_check(path, ten.net, NULL, true), KAS_OK);
    clear(&ten);
    clear(&four);
}

TEST(what_does_not_fit_is_named)
{
    fixture f;
    kas_pretrained got;
    make(&f, 10, NULL);
    write_file(&f, "layer2.1.bn2.weight", NULL);
    refused(&f, false, "\"layer2.1.bn2.weight\" of network resnet20 is missing");
    expect(&f, true, f.params.count - 1, 0, 1);
    write_file(&f, NULL, "head.weight");
    refused(&f, false, "\"head.weight\" belongs to no layer of network resnet20");
    assert_int_equal(match(&f, true, &got), KAS_OK);
    assert_string_equal(kas_buf_text(&got.list),
                        "head.weight (belongs to no layer of network resnet20)");
    kas_pretrained_free(&got);
    const kas_named_tensor foreign = {.name = "x", .rank = 1, .shape = {1}, .data = "1234"};
    assert_int_equal(kas_safetensors_write(path, &foreign, 1, NULL), KAS_OK);
    refused(&f, true, "no tensor fits");
    clear(&f);
}

/* Writes a file of one tensor, and asks for the gains that belong to it. */
static kas_status gains_of(kas_replacement *r, const char *name, const float *values, uint64_t size)
{
    kas_named_tensor t = {.dtype = KAS_SAFETENSORS_F32, .rank = 1, .shape = {size}, .data = values};
    snprintf(t.name, sizeof t.name, "%s", name);
    assert_int_equal(kas_safetensors_write(path, &t, 1, NULL), KAS_OK);
    return kas_pretrained_gains(path, r);
}

/* A file of weights says which gains its network had: those in it, else 1; but kernels that begin
 * anew keep those of the kernel file. */
TEST(weights_bring_their_gains)
{
    static const float eight = 8, bad[] = {0, -1, INFINITY, NAN, 1e30f}, two[] = {1, 1};
    fixture f;
    float own[64];
    make(&f, 10, "kernels/depthwise_separable.json");
    kas_replacement *r = &f.replacement;
    const int targets = r->solution.targets;
    assert_int_equal(gains_of(r, "layer1.0.conv2.gain", &eight, 1), KAS_OK);
    for (int t = 0; t < targets; t++)
        assert_true(kas_replacement_gain(r, t) == (t == 1 ? 8 : 1));
    assert_int_equal(gains_of(r, "layer1.0.conv2.weight0", &eight, 1), KAS_OK);
    assert_false(kas_replacement_scales(r));
    for (int t = 0; t < targets; t++)
        own[t] = 4;
    assert_int_equal(kas_replacement_set_gains(r, own), KAS_OK);
    assert_int_equal(gains_of(r, "layer1.0.conv1.weight", &eight, 1), KAS_OK);
    for (int t = 0; t < targets; t++)
        assert_true(kas_replacement_gain(r, t) == (t == 0 ? 4 : 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gains_of(r, "layer1.0.conv2.gain", &bad[i], 1), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), "\"layer1.0.conv2.gain\": expected one number"));
    }
    assert_int_equal(gains_of(r, "layer1.0.conv2.gain", two, 2), KAS_BAD_INPUT);
    clear(&f);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/kas_test_pretrained_%d.safetensors", (int)getpid());
    int failed = run_all_tests(NULL, NULL);
    unlink(path);
    return failed;
}
