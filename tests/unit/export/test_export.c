/* Texts of the exports, and what they refuse; that the modules compute the right thing is
 * tests/e2e/export.sh. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/export/export.h"
#include "host/export/python_node.h"
#include "host/export/weights.h"
#include "host/model/safetensors.h"
#include "host/net/targets.h"
#include "support/build.h"
#include "support/folder.h"

static void assert_text(kas_buf *found, const char *expected)
{
    assert_string_equal(kas_buf_text(found), expected);
    kas_buf_free(found);
}

TEST(test_sizes)
{
    static const struct {
        const char *dim, *python;
    } cases[] = {
        {"1", "1"},
        {"C", "C"},
        {"C/G0", "C // G0"},
        {"3/2*C", "(C * 3) // 2"},
        {"C*K_H", "C * K_H"},
        {"G0*K_H*K_W/C", "(K_H * K_W * G0) // C"},
        {"x1*K_H", "K_H * x1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_dim dim;
        kas_buf text = {0};
        assert_true(kas_dim_parse(cases[i].dim, &dim));
        kas_python_dim(&dim, &text);
        assert_text(&text, cases[i].python);
    }
}

static void assert_node(const kas_kernel *k, int node, const char *expected)
{
    kas_buf text = {0};
    assert_int_equal(kas_python_node(k, node, 0, &text), KAS_OK);
    if (!strstr(kas_buf_text(&text), expected))
        fail_msg("node %d: expected \"%s\" in:\n%s", node, expected, kas_buf_text(&text));
    kas_buf_free(&text);
}

TEST(test_nodes)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    assert_node(&k, kas_build_shift(&k, x, KAS_AXIS_W, -1), "torch.roll(n0, 1, dims=4)");
    int row = kas_build_fold(&k, KAS_OP_FOLD_MAX, x, 1); /* [C, W] */
    assert_node(&k, row, "n0.max(3).values");
    assert_node(&k, kas_build_shift(&k, row, KAS_AXIS_W, 1), "torch.roll(n2, -1, dims=3)");
    assert_node(&k, kas_build_unfold(&k, row, KAS_AXIS_W), "taps(n2, along=3, count=K_W, place=3)");
    int both = kas_build_unfold(&k, x, KAS_AXIS_H | KAS_AXIS_W); /* [C, K_H, K_W, H, W] */
    assert_node(&k, both, "taps(n0, along=3, count=K_H, place=3)");
    assert_node(&k, both, "taps(n5, along=5, count=K_W, place=4)");
    int wide = kas_build_unfold_window(&k, x, KAS_AXIS_H, 5, 2);
    assert_node(&k, wide, "n6 = taps(n0, along=3, count=5, place=3, dilation=2)");
    int apart = kas_build_group_all(&k, both, 1); /* [C, K_H, 1, K_W, H, W], K_H is a group */
    assert_node(&k, apart, "n5.reshape(B, R, C, K_H, 1, K_W, H, W)");
    int map = kas_build_fc(&k, apart, true, "K_H*C");
    assert_node(
        &k, map,
        "self.weight0 @ n7.permute(0, 1, 3, 2, 4, 5, 6, 7).reshape(B, R, K_H, C * K_W, -1)");
    assert_node(&k, kas_build_softmax(&k, x, 1, 3), "torch.softmax(n0.flatten(3, 4), 3)");
    assert_node(&k, kas_build_broadcast(&k, KAS_OP_MIN, row, x),
                "torch.minimum(tile(n2, n0, prefix=1, suffix=1), n0)");
}

/* ---- a small export -------------------------------------------------------------------------- */

typedef struct fixture {
    kas_kernel kernel;
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
    kas_ref_net *ref;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    kas_budget budget = {0};
    int count;
    f = (fixture){0};
    assert_int_equal(make_folder(state), 0);
    int x = kas_build_input(&f.kernel);
    kas_build_fc(&f.kernel, kas_build_unfold(&f.kernel, x, 3), false, "C");
    assert_int_equal(kas_kernel_infer(&f.kernel), KAS_OK);
    assert_int_equal(kas_net_build("resnet20", 4, 4, 3, 5, &f.net), KAS_OK);
    assert_int_equal(kas_net_targets(f.net, NULL, &f.target, &count), KAS_OK);
    assert_int_equal(
        kas_replacement_solve(&f.kernel, 1, NULL, f.target, count, &budget, &f.replacement),
        KAS_OK);
    assert_int_equal(kas_ref_net_create_replaced(f.net, &f.replacement, &f.ref), KAS_OK);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    kas_ref_net_free(f->ref);
    kas_replacement_free(&f->replacement);
    free(f->target);
    kas_net_free(f->net);
    return remove_folder(state);
}

TEST(test_weights_round_trip)
{
    fixture *f = *state;
    const char *path = in_folder("w.safetensors");
    double images[2 * 48];
    kas_export_check_images(f->net, 2, images);
    assert_int_equal(kas_export_init_weights(f->ref, 3, 2, images), KAS_OK);
    assert_int_equal(kas_export_write_weights(f->ref, "test", path), KAS_OK);
    kas_ref_param *p = kas_ref_net_find(f->ref, "layer2.0.conv1.weight0");
    assert_non_null(p);
    double saved = p->value[11];
    p->value[11] = 1e9;
    assert_int_equal(kas_export_read_weights(path, f->ref), KAS_OK);
    assert_true(p->value[11] == saved); /* initial values are floats, so nothing is lost */
}

/* A state_dict of PyTorch also has the number of batches of each batch norm. */
TEST(test_counts_of_batches)
{
    fixture *f = *state;
    const char *path = in_folder("w.safetensors");
    const int64_t batches = 7;
    kas_safetensors file;
    assert_int_equal(kas_export_write_weights(f->ref, "test", path), KAS_OK);
    assert_int_equal(kas_safetensors_read(path, 1 << 24, &file), KAS_OK);
    kas_named_tensor *all = malloc(sizeof *all * ((size_t)file.count + 1));
    assert_non_null(all);
    memcpy(all, file.tensor, sizeof *all * (size_t)file.count);
    all[file.count] = (kas_named_tensor){
        .name = "bn1.num_batches_tracked", .dtype = KAS_SAFETENSORS_I64, .data = &batches};
    assert_int_equal(kas_safetensors_write(path, all, file.count + 1, NULL), KAS_OK);
    OK(kas_export_read_weights(path, f->ref));
    free(all);
    kas_safetensors_free(&file);
}

/* One tensor, which is not of this network. */
TEST(test_foreign_weights)
{
    fixture *f = *state;
    const char *path = in_folder("foreign.safetensors");
    const float data[4] = {1, 2, 3, 4};
    kas_named_tensor tensor = {"conv1.weight", KAS_SAFETENSORS_F32, 2, {2, 2}, data};
    assert_int_equal(kas_safetensors_write(path, &tensor, 1, NULL), KAS_OK);
    assert_int_equal(kas_export_read_weights(path, f->ref), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "\"conv1.weight\" has another shape than [16, 3, 3, 3]"));
    snprintf(tensor.name, sizeof tensor.name, "something");
    assert_int_equal(kas_safetensors_write(path, &tensor, 1, NULL), KAS_OK);
    assert_int_equal(kas_export_read_weights(path, f->ref), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "\"conv1.weight\" is missing"));
}

TEST(test_logits_not_finite)
{
    fixture *f = *state;
    const char *path = in_folder("check.safetensors");
    double images[2 * 48], logits[2 * 16];
    kas_export_check_images(f->net, 2, images);
    assert_int_equal(kas_export_init_weights(f->ref, 3, 2, images), KAS_OK);
    assert_true(f->net->classes <= 16);
    assert_int_equal(kas_export_logits(f->ref, 2, images, logits), KAS_OK);
    assert_int_equal(kas_export_write_check(f->ref, 2, images, logits, path), KAS_OK);
    kas_ref_net_find(f->ref, "fc.bias")->value[2] = 1 / 0.0;
    assert_int_equal(kas_export_logits(f->ref, 2, images, logits), KAS_FAILURE);
}

/* Verification reports what the script says, by its exit code. */
TEST(test_verify)
{
    const char *path = in_folder("network.py");
    kas_verified verdict;
    kas_buf report = {0};
    const char *text = "print('no'); raise SystemExit(1)\n";
    assert_int_equal(kas_file_write_atomic(path, text, strlen(text)), KAS_OK);
    assert_int_equal(kas_export_verify(folder, &verdict, &report), KAS_OK);
    if (verdict == KAS_VERIFY_SKIPPED) {
        kas_buf_free(&report);
        printf("SKIPPED: no python with torch\n");
        skip();
    }
    assert_int_equal(verdict, KAS_VERIFY_FAILED);
    assert_text(&report, "no");
    text = "print('yes')\n";
    assert_int_equal(kas_file_write_atomic(path, text, strlen(text)), KAS_OK);
    assert_int_equal(kas_export_verify(folder, &verdict, &report), KAS_OK);
    assert_int_equal(verdict, KAS_VERIFY_OK);
    assert_text(&report, "yes");
}

RUN_TESTS(open_fixture, close_fixture)
