/* Which of several versions of NVIDIA's libraries is taken, with libraries made for the purpose:
 * they have every function that is looked up, and versions to order. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda/library.h"
#include "host/core/file/files.h"
#include "support/folder.h"

#define NAME(symbol, result, parameters) #symbol,
static const char *const driver_names[] = {KAS_DRIVER_FUNCTIONS(NAME) NULL};
static const char *const nvrtc_names[] = {KAS_NVRTC_FUNCTIONS(NAME) NULL};
static const char *const cublaslt_names[] = {KAS_CUBLASLT_FUNCTIONS(NAME) NULL};
static const char *const cudnn_names[] = {KAS_CUDNN_FUNCTIONS(NAME) NULL};

static int set_up(void **state)
{
    kas_cuda_libraries_reset();
    unsetenv("KAS_CUDA_LIBS");
    return make_folder(state) == 0 && setenv("KAS_CUDA_PATH", folder, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    kas_cuda_libraries_reset();
    return remove_folder(state);
}

/* `special` is the text of functions that do something; all others of the list return 0. */
static void make_library(const char *soname, const char *const *names, const char *special,
                         const char *without)
{
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/text.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", special);
    for (int i = 0; names[i]; i++)
        if (!strstr(special, names[i]) && (!without || strcmp(names[i], without) != 0))
            fprintf(file, "int %s(void) { return 0; }\n", names[i]);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "cc -w -shared -fPIC -o %s/%s %s", folder, soname, path);
    assert_int_equal(system(command), 0);
}

static void make_driver(int version)
{
    char text[256];
    snprintf(text, sizeof text, "int cuDriverGetVersion(int *v) { *v = %d; return 0; }", version);
    make_library("libcuda.so.1", driver_names, text, NULL);
}

static void make_nvrtc(const char *soname, int major, int minor)
{
    char text[256];
    snprintf(text, sizeof text, "int nvrtcVersion(int *a, int *b) { *a = %d; *b = %d; return 0; }",
             major, minor);
    make_library(soname, nvrtc_names, text, NULL);
}

TEST_WITH(the_newest_that_the_driver_takes, set_up, tear_down)
{
    const struct {
        int driver;
        const char *expected;
    } list[] = {{12080, "12.9"}, {13000, "13.1"}, {14000, "13.1"}};
    const kas_nvrtc *nvrtc;
    for (int i = 0; i < 3; i++) {
        if (i > 0) { /* a folder each: the loader knows a library by its path */
            tear_down(state);
            set_up(state);
        }
        make_nvrtc("libnvrtc.so.12", 12, 9);
        make_nvrtc("libnvrtc.so.13", 13, 1);
        make_driver(list[i].driver);
        OK(kas_nvrtc_load(&nvrtc));
        assert_string_equal(nvrtc->library.version, list[i].expected);
        assert_non_null(strstr(nvrtc->library.path, folder));
    }
}

/* Checks that what the test has made is not taken, and that the message says why. A real library may
 * lie further on, and is taken then: `table` is what was loaded. */
static void assert_refused(kas_status status, const void *table, const char *why)
{
    if (status == KAS_OK)
        assert_null(strstr(((const kas_cuda_library *)table)->path, folder));
    else if (!strstr(kas_error(), why))
        fail_msg("\"%s\" expected: %s", why, kas_error());
}

TEST_WITH(versions_that_are_too_old, set_up, tear_down)
{
    const kas_driver *driver;
    make_driver(11080);
    kas_status status = kas_driver_load(&driver);
    assert_refused(status, driver, "11.8 is too old; at least 12.0");

    const kas_cublaslt *lt;
    static const char *const sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    for (int i = 0; i < 2; i++)
        make_library(sonames[i], cublaslt_names,
                     "unsigned long cublasLtGetVersion(void) { return 120603; }", NULL);
    status = kas_cublaslt_load(&lt);
    assert_refused(status, lt, "12.6.3 is too old; at least 12.8");
}

/* A library that is too old hides none that lies in a later folder. */
TEST_WITH(a_good_one_behind_an_old_one, set_up, tear_down)
{
    char old[128], from[128], to[192], path[256];
    const kas_nvrtc *nvrtc;
    make_driver(13000);
    make_nvrtc("libnvrtc.so.13", 12, 6);
    snprintf(old, sizeof old, "%s/old", folder);
    snprintf(from, sizeof from, "%s/libnvrtc.so.13", folder);
    snprintf(to, sizeof to, "%s/libnvrtc.so.13", old);
    assert_int_equal(mkdir(old, 0777), 0);
    assert_int_equal(rename(from, to), 0);
    make_nvrtc("libnvrtc.so.13", 13, 1);
    snprintf(path, sizeof path, "%s:%s", old, folder);
    setenv("KAS_CUDA_PATH", path, 1);
    OK(kas_nvrtc_load(&nvrtc));
    assert_string_equal(nvrtc->library.version, "13.1");
}

TEST_WITH(one_that_is_too_new, set_up, tear_down)
{
    const kas_nvrtc *nvrtc;
    make_driver(12080);
    make_nvrtc("libnvrtc.so.13", 13, 1);
    kas_status status = kas_nvrtc_load(&nvrtc);
    assert_refused(status, nvrtc, "libnvrtc.so.13: found, but newer than the driver (CUDA 12)");
    if (status != KAS_OK)
        assert_non_null(strstr(kas_error(), "install the 12.x libraries"));
}

/* cuDNN for a newer CUDA than the driver has would refuse every call. */
TEST_WITH(cudnn_for_a_newer_driver, set_up, tear_down)
{
    const kas_cudnn *dnn;
    make_driver(12080);
    make_library("libcudnn.so.9", cudnn_names,
                 "unsigned long cudnnGetVersion(void) { return 91900; } "
                 "unsigned long cudnnGetCudartVersion(void) { return 13000; }",
                 NULL);
    kas_status status = kas_cudnn_load(&dnn);
    assert_refused(status, dnn, "is built for CUDA 13, and the driver has CUDA 12");
}

TEST_WITH(a_library_without_a_function, set_up, tear_down)
{
    const kas_driver *driver;
    make_library("libcuda.so.1", driver_names, "", "cuLaunchKernel");
    kas_status status = kas_driver_load(&driver);
    assert_refused(status, driver, "has no function cuLaunchKernel");
}

TEST_WITH(a_file_that_is_no_library, set_up, tear_down)
{
    char path[128];
    const kas_driver *driver;
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    assert_int_equal(kas_file_write_atomic(path, "text", 4), KAS_OK);
    kas_status status = kas_driver_load(&driver);
    assert_refused(status, driver, "libcuda.so.1");
}

RUN_TESTS()
