/* Programs that store activations and weights in bf16 or float16, against the float64 reference. */
#include "agree_fixture.h"
#include "cuda/library.h"
#include "cuda/nvrtc/resources.h"
#include "host/core/file/files.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

static kas_dtype both(int i)
{
    return stored = i ? KAS_F16 : KAS_BF16;
}

static void done(void)
{
    printf("%s: errors up to %.2g forward, %.2g of gradients; %d comparisons ill-conditioned\n",
           kas_dtype_names[stored], worst[stored].forward, worst[stored].gradient, ill_conditioned);
    ill_conditioned = 0;
    stored = KAS_F32;
}

/* Taps of windows, sums over channels, everything in between in 16 bits. */
TEST(test_windows)
{
    for (int i = 0; i < 2; i++) {
        both(i);
        kas_kernel depthwise = {0}, involution = {0};
        int x = kas_build_group_all(&depthwise, kas_build_input(&depthwise), 0);
        kas_build_fc(&depthwise, kas_build_unfold(&depthwise, x, HW), true, "C");
        agree_large("depthwise", &depthwise);
        x = kas_build_input(&involution);
        const int windows =
            kas_build_unfold(&involution, kas_build_group(&involution, x, 0, 0), HW);
        int w = kas_build_elementwise(&involution, KAS_OP_TANH,
                                      kas_build_fc(&involution, x, false, "x0"));
        w = kas_build_fc(&involution, w, false, "G0*K_H*K_W");
        int y = kas_build_broadcast(&involution, KAS_OP_MUL, w, windows);
        y = kas_build_fold(&involution, KAS_OP_FOLD_AVG, y, 2);
        kas_build_fold(&involution, KAS_OP_FOLD_AVG, y, 2);
        agree_large("involution", &involution);
        done();
    }
}

/* What softmax and norm divide by, and the winners of a maximum, need more than 16 bits. */
TEST(test_statistics)
{
    for (int i = 0; i < 2; i++) {
        both(i);
        kas_kernel softmax = {0}, norm = {0}, fold = {0};
        int x = kas_build_input(&softmax);
        kas_build_broadcast(&softmax, KAS_OP_MUL, kas_build_softmax(&softmax, x, 1, 3), x);
        agree_large("softmax", &softmax);
        x = kas_build_input(&norm);
        x = kas_build_along(&norm, KAS_OP_NORM, x, 0, 1);
        kas_build_along(&norm, KAS_OP_SCALE, x, 0, 1);
        agree_large("norm and scale", &norm);
        x = kas_build_input(&fold); /* the winner of 840 pixels: bf16 counts to 256 */
        int f = kas_build_fold(&fold, KAS_OP_FOLD_MAX, x, 1);
        f = kas_build_fold(&fold, KAS_OP_FOLD_MAX, f, 1);
        kas_build_broadcast(&fold, KAS_OP_MUL, f, x);
        agree_large("fold_max", &fold);
        done();
    }
}

/* Library convolutions and products read and write the same numbers. */
TEST(test_libraries)
{
    for (int i = 0; i < 2; i++) {
        both(i);
        kas_kernel conv = {0}, product = {0};
        kas_build_fc(&conv, kas_build_unfold(&conv, kas_build_input(&conv), HW), false, "C");
        assert_int_equal(agree("convolution", &conv), 3);
        agree_large("convolution", &conv);
        const int x = kas_build_fc(&product, kas_build_input(&product), false, "C");
        const int score = kas_build_bmm(&product, x, kas_build_fc(&product, 0, false, "C"),
                                        KAS_TRANSPOSE_RHS, true);
        kas_build_bmm(&product, score, x, 0, false);
        agree("attention", &product);
        done();
    }
}

/* Sums of a library's product over 840 pixels are beyond 65504, the largest float16, until 1 / sqrt(840)
 * scales them. */
TEST(test_product_of_large_numbers)
{
    kas_kernel k = {0};
    int x = kas_build_elementwise(&k, KAS_OP_ABS, kas_build_input(&k));
    for (int i = 0; i < 4; i++)
        x = kas_build_broadcast(&k, KAS_OP_ADD, x, x);
    x = kas_build_bmm(&k, x, x, KAS_TRANSPOSE_RHS, false);
    kas_build_bmm(&k, x, kas_build_elementwise(&k, KAS_OP_TANH, 0), 0, false);
    stored = KAS_F16;
    agree_large("product of large numbers", &k);
    done();
}

static kas_program *build(const kas_kernel *k, kas_dtype dtype, uint32_t c)
{
    const kas_target target = make_target((setting){c, 1, 1, 8, 8, 3});
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {
        .batch = 2, .training = true, .dtype = dtype, .prefix = "k"};
    kas_program *program;
    OK(kas_program_build(k, &target, &binding, &options, &program));
    return program;
}

TEST(test_buffers)
{
    kas_kernel k = {0};
    const int map = kas_build_fc(&k, kas_build_input(&k), false, "C");
    kas_build_broadcast(&k, KAS_OP_MUL, kas_build_fold(&k, KAS_OP_FOLD_MAX, map, 1), map);
    OK(kas_kernel_infer(&k));
    kas_program *p = build(&k, KAS_BF16, 12); /* 12 channels: pixels of 16, in steps of 16 bytes */
    assert_int_equal(p->dtype, KAS_BF16);
    int indices = 0;
    for (int i = 0; i < p->buffers; i++) {
        const kas_buffer *b = &p->buffer[i];
        if (b->role == KAS_ROLE_X || b->role == KAS_ROLE_Y || b->role == KAS_ROLE_DX ||
            b->role == KAS_ROLE_DY) {
            assert_int_equal(b->dtype, KAS_BF16);
            assert_int_equal(b->bytes, 2 * 2 * 8 * 8 * 16);
        } else if (b->role == KAS_ROLE_WEIGHT) {
            assert_int_equal(b->dtype, KAS_BF16);
            assert_int_equal(b->bytes, 2 * 12 * 12);
        } else if (b->role == KAS_ROLE_DWEIGHT) {
            assert_int_equal(b->dtype, KAS_F32);
            assert_int_equal(b->bytes, 4 * 12 * 12);
        } else {
            indices += b->role == KAS_ROLE_SAVED && b->dtype == KAS_F32;
        }
    }
    assert_int_equal(indices, 1);
    for (int i = 0; i < p->forwards; i++)
        if (p->forward[i].kind == KAS_OPERATION_CONV) {
            assert_int_equal(p->forward[i].conv.dtype, KAS_BF16);
            assert_int_equal(p->forward[i].conv.x_pitch, 16);
        }
    kas_program_free(p);
    const kas_target target = make_target(settings[0]);
    const kas_binding binding = make_binding(&target);
    const kas_program_options wrong = {.batch = 1, .dtype = KAS_BF16, .tf32 = true, .prefix = "k"};
    assert_int_equal(kas_program_build(&k, &target, &binding, &wrong, &p), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "bf16"));
}

/* On GPUs eight numbers go in one access: the same bytes by half as many as in float32. */
TEST(test_accesses)
{
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    kas_kernel k = {0};
    kas_build_elementwise(&k, KAS_OP_RELU, kas_build_input(&k));
    OK(kas_kernel_infer(&k));
    static const char *const archs[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 6; i++) {
        const kas_dtype dtype = (kas_dtype)(i % KAS_DTYPES);
        kas_program *p = build(&k, dtype, 16);
        kas_compiler *gpu;
        kas_buf image = {0};
        kas_resources *list;
        char path[4096];
        int count;
        assert_int_equal(p->forward[0].width, dtype == KAS_F32 ? 4 : 8);
        assert_true(p->forward[0].accessed.wide == 2.0 * p->buffer[0].bytes);
        OK(kas_compiler_open(archs[i / KAS_DTYPES], NULL, &gpu));
        OK(kas_compile(gpu, p->source, path, NULL));
        OK(kas_file_read(path, 1 << 26, &image));
        OK(kas_cubin_resources(image.data, image.size, &list, &count));
        assert_int_equal(count, 2);
        for (int j = 0; j < count; j++) {
            assert_int_equal(list[j].local_bytes, 0);
            assert_true(list[j].accesses >= 3);
            assert_int_equal(list[j].wide, list[j].accesses - 1); /* the gain */
        }
        free(list);
        kas_buf_free(&image);
        kas_compiler_close(gpu);
        kas_program_free(p);
    }
}

RUN_TESTS(set_up, tear_down)
