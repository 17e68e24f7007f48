/* Registers, local memory and accesses of kernels, read from cubins that NVRTC makes here. */
#include "support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/library.h"
#include "cuda/nvrtc/resources.h"
#include "cuda/nvrtc/respill.h"
#include "host/core/file/files.h"
#include "jit/compile/compile.h"

/* The second keeps an array that is indexed by what it reads: registers have no addresses. */
static const char text[] = "typedef struct { const float *x; float *y; const int *i; } t_args;\n"
                           "KAS_KERNEL(plain, t_args)\n"
                           "{\n"
                           "    KAS_LANES (c, 64) { a.y[c] = 2.0f * a.x[c]; }\n"
                           "}\n"
                           "KAS_KERNEL(indexed, t_args)\n"
                           "{\n"
                           "    KAS_LANES (c, 64) {\n"
                           "        float kept[64];\n"
                           "        for (int k = 0; k < 64; k++) kept[a.i[k + c] & 63] = a.x[k];\n"
                           "        a.y[c] = kept[a.i[c] & 63];\n"
                           "    }\n"
                           "}\n"
                           "KAS_KERNEL(wide, t_args)\n"
                           "{\n"
                           "    KAS_WIDE_THREADS (c, 64) {\n"
                           "        KAS_WIDE_LOAD(t, a.x, c);\n"
                           "        KAS_EACH(KAS_EACH_VALUE(t) *= 2.0f;)\n"
                           "        KAS_WIDE_STORE(a.y, c, t);\n"
                           "    }\n"
                           "}\n"
                           "KAS_KERNEL(shared, t_args)\n"
                           "{\n"
                           "    KAS_SHARED(float, s, 64);\n"
                           "    KAS_THREADS (c, 64) { s[c] = a.x[c]; }\n"
                           "    KAS_BARRIER();\n"
                           "    KAS_THREADS (c, 64) { a.y[c] = s[63 - c]; }\n"
                           "}\n";

static kas_buf compile(const char *arch, const char *kernels)
{
    const kas_nvrtc *nvrtc;
    kas_compiler *compiler;
    kas_buf image = {0};
    char path[4096];
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    OK(kas_compiler_open(arch, NULL, &compiler));
    OK(kas_compile(compiler, kernels, path, NULL));
    OK(kas_file_read(path, 1 << 26, &image));
    kas_compiler_close(compiler);
    return image;
}

static const kas_resources *find(const kas_resources *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no kernel \"%s\"", name);
    return NULL;
}

TEST(what_kernels_need_is_read)
{
    static const char *const archs[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 2; i++) {
        kas_buf image = compile(archs[i], text);
        kas_resources *list;
        int count;
        OK(kas_cubin_resources(image.data, image.size, &list, &count));
        assert_int_equal(count, 4);
        const kas_resources *plain = find(list, count, "plain"),
                            *indexed = find(list, count, "indexed");
        printf("%s: plain %d registers, %d bytes; indexed %d registers, %d bytes\n", archs[i],
               plain->registers, plain->local_bytes, indexed->registers, indexed->local_bytes);
        assert_in_range(plain->registers, 4, 32);
        assert_int_equal(plain->local_bytes, 0);
        assert_in_range(indexed->registers, 4, 255);
        assert_int_equal(indexed->local_bytes, 64 * 4);
        /* the plain kernel's loop may be unrolled: pairs of a load and a store */
        assert_true(plain->accesses >= 2 && plain->accesses % 2 == 0);
        assert_int_equal(plain->wide, 0);
        assert_int_equal(plain->bytes, 4 * plain->accesses);
        const kas_resources *wide = find(list, count, "wide"),
                            *shared = find(list, count, "shared");
        assert_int_equal(wide->accesses, 2);
        assert_int_equal(wide->wide, 2);
        assert_int_equal(wide->wide_stores, 1);
        assert_int_equal(wide->bytes, 2 * 16);
        assert_int_equal(shared->accesses, 2); /* shared memory is not global */
        assert_int_equal(shared->wide, 0);
        free(list);
        kas_buf_free(&image);
    }
}

/* A sampled kernel: unrolled whole, it takes 8 to 24 bytes of local memory (NVRTC 13.0). */
#define WINDOW(name)                                                                               \
    "KAS_KERNEL(" name ", w_args)\n"                                                               \
    "{\n"                                                                                          \
    "    const float *KAS_RESTRICT p0 = a.x;\n"                                                    \
    "    const float *KAS_RESTRICT p1 = a.w;\n"                                                    \
    "    float *KAS_RESTRICT p2 = a.y;\n"                                                          \
    "    const int v0 = KAS_BLOCK_X;\n"                                                            \
    "    KAS_ROWS (v1, 0, 4) {\n"                                                                  \
    "        KAS_WIDE_THREADS (v2, 32) {\n"                                                        \
    "            KAS_WIDE_VALUE(t0, 0.0f);\n"                                                      \
    "            KAS_UNROLL\n"                                                                     \
    "            for (int v3 = 0; v3 < 20; v3++) {\n"                                              \
    "                KAS_WIDE_LOAD(t1, p0, 640 * v1 + v2 + 32 * v3 + 2560 * v0);\n"                \
    "                KAS_WIDE_VALUE(t2, p1[(int)(TAP / 5u) + 128 * PIXEL + 512 * v0]);\n"          \
    "                KAS_WIDE_VALUE(t3, INSIDE ? KAS_EACH_VALUE(t2) : 0.0f);\n"                    \
    "                KAS_WIDE_VALUE(t4, -KAS_EACH_VALUE(t3));\n"                                   \
    "                KAS_WIDE_VALUE(t5, KAS_EACH_VALUE(t1) * KAS_EACH_VALUE(t4));\n"               \
    "                KAS_EACH(KAS_EACH_VALUE(t0) += KAS_EACH_VALUE(t5);)\n"                        \
    "            }\n"                                                                              \
    "            KAS_WIDE_STORE(p2, 32 * v1 + v2 + 128 * v0, t0);\n"                               \
    "        }\n"                                                                                  \
    "    }\n"                                                                                      \
    "}\n"

#define WINDOW_HEAD                                                                                \
    "typedef struct { const float *x, *w; float *y; } w_args;\n"                                   \
    "#define TAP (kas_u32)(KAS_EACH_LANE(v2) + 32 * v3)\n"                                         \
    "#define OUT v1 + 3 * (int)(TAP % 5u) - 6\n"                                                   \
    "#define PIXEL kas_imin(kas_imax(OUT, 0), 3)\n"                                                \
    "#define INSIDE (OUT >= 0 && OUT <= 3)\n"

/* An array of its own, indexed by what it reads, and a loop that is unrolled. */
#define ARRAY                                                                                      \
    "KAS_KERNEL(array, w_args)\n"                                                                  \
    "{\n"                                                                                          \
    "    KAS_LANES (c, 64) {\n"                                                                    \
    "        float kept[64], sum = 0;\n"                                                           \
    "        for (int k = 0; k < 64; k++) kept[(int)a.w[k + c] & 63] = a.x[k];\n"                  \
    "        KAS_UNROLL\n"                                                                         \
    "        for (int k = 0; k < 24; k++) sum += a.x[k * 64 + c];\n"                               \
    "        a.y[c] = sum + kept[(int)a.w[c] & 63];\n"                                             \
    "    }\n"                                                                                      \
    "}\n"

/* Kernels that spill come out lean, the others as they are. */
TEST(spills_are_mended)
{
    static const char windows[] = WINDOW_HEAD WINDOW("first") WINDOW("second");
    static const char *const archs[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 2; i++) {
        kas_buf image = compile(archs[i], windows);
        kas_resources *list;
        int count;
        assert_int_equal(kas_cubin_resources(image.data, image.size, &list, &count), KAS_OK);
        assert_int_equal(count, 2);
        for (int k = 0; k < count; k++) {
            printf("%s: %s %d registers, %d bytes\n", archs[i], list[k].name, list[k].registers,
                   list[k].local_bytes);
            assert_int_equal(list[k].local_bytes, 0);
        }
        free(list);
        kas_buf_free(&image);
    }
}

static void assert_lean(const char *lean, const char *name, bool wanted)
{
    char head[64];
    snprintf(head, sizeof head, "%sKAS_KERNEL(%s, ", wanted ? "#define KAS_LEAN 1\n" : "}\n", name);
    if (!strstr(lean, head))
        fail_msg("%s is %slean in\n%s", name, wanted ? "not " : "", lean);
}

/* What keeps its local memory either way keeps its unrolled loop, beside kernels that are helped.
 */
TEST(kernels_are_judged_apart)
{
    kas_buf alone = compile("sm_90", WINDOW_HEAD ARRAY),
            beside = compile("sm_90", WINDOW_HEAD ARRAY WINDOW("first"));
    kas_resources *one, *two;
    int ones, twos;
    assert_int_equal(kas_cubin_resources(alone.data, alone.size, &one, &ones), KAS_OK);
    assert_int_equal(kas_cubin_resources(beside.data, beside.size, &two, &twos), KAS_OK);
    assert_int_equal(find(two, twos, "first")->local_bytes, 0);
    assert_int_equal(find(two, twos, "array")->local_bytes, 64 * 4);
    assert_true(find(one, ones, "array")->accesses > 24);
    assert_int_equal(find(two, twos, "array")->accesses, find(one, ones, "array")->accesses);
    free(one);
    free(two);
    kas_buf_free(&alone);
    kas_buf_free(&beside);
}

/* Of all kernels of a text those that use local memory, and nothing else changes. */
TEST(lean_kernels_are_marked)
{
    kas_buf image = compile("sm_90", text), out = {0};
    kas_respill respill;
    assert_int_equal(kas_respill_find(image.data, image.size, &respill), KAS_OK);
    assert_int_equal(respill.count, 1);
    assert_int_equal(respill.kernel[0].local_bytes, 64 * 4);
    assert_int_equal(kas_respill_text(text, &respill, &out), KAS_OK);
    assert_lean(kas_buf_text(&out), "indexed", true);
    assert_non_null(strstr(kas_buf_text(&out), "}\n#undef KAS_LEAN\n#define KAS_LEAN 0\n"
                                               "KAS_KERNEL(wide, "));
    assert_lean(kas_buf_text(&out), "shared", false);
    const size_t marks = 2 * strlen("#undef KAS_LEAN\n#define KAS_LEAN 0\n");
    assert_int_equal(out.size, strlen(text) + marks);
    assert_int_equal(kas_respill_keep_better(image.data, image.size, &respill), KAS_OK);
    assert_int_equal(respill.count, 0); /* the same image is no better */
    kas_respill_free(&respill);
    kas_buf_free(&out);
    kas_buf_free(&image);
    assert_int_equal(kas_respill_find("no cubin", 8, &respill), KAS_OK);
    assert_int_equal(respill.count, 0);
    kas_respill_free(&respill);
}

/* Whatever is cut off or changed, the answer is a list or a message. */
TEST(damaged_images_are_refused)
{
    kas_buf image = compile("sm_90", text);
    kas_resources *list;
    int count, refused = 0;
    for (size_t size = 0; size < image.size; size += 1 + size / 64) {
        char *cut = malloc(size + 1); /* its own block, so that a sanitizer sees what is beyond */
        assert_non_null(cut);
        memcpy(cut, image.data, size);
        refused += kas_cubin_resources(cut, size, &list, &count) == KAS_BAD_INPUT;
        free(list);
        free(cut);
    }
    assert_true(refused > 100);
    for (size_t at = 0; at < image.size; at++) {
        image.data[at] ^= 0x55;
        const kas_status status = kas_cubin_resources(image.data, image.size, &list, &count);
        assert_true(status == KAS_OK || status == KAS_BAD_INPUT || status == KAS_NO_MEMORY);
        free(list);
        image.data[at] ^= 0x55;
    }
    assert_int_equal(kas_cubin_resources("not a cubin", 11, &list, &count), KAS_BAD_INPUT);
    kas_buf_free(&image);
}

RUN_TESTS()
