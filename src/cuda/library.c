#include "cuda/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"

enum { OLDEST_TOOLKIT = 12080, OLDEST_CUDNN = 90000, OLDEST_NCCL = 21400 };

typedef struct symbol {
    const char *name;
    size_t offset; /* offset of the function pointer in the table */
} symbol;

typedef struct kind {
    const char *what;           /* the library's name in messages */
    const char *const *sonames; /* best first, NULL-terminated */
    const int *majors;          /* CUDA major version that each soname belongs to; 0 = any */
    /* Checks the version and writes it */
    kas_status (*version)(void *table, kas_cuda_library *library);
    size_t size;
    const symbol *symbols;
    size_t count;
} kind;

/* A table is loaded at most once; a failure is remembered with its message. */
typedef struct slot {
    bool tried;
    kas_status status;
    char message[1024];
    void *table;
} slot;

enum { DRIVER, NVRTC, CUBLASLT, CUDNN, NCCL, KINDS };
static slot slots[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kas_status load(int which, void **out);

/* ---- versions ----------------------------------------------------------------------------- */

static kas_status too_old(const kas_cuda_library *library, const char *oldest)
{
    return kas_fail(KAS_UNSUPPORTED, "%s: version %s is too old; at least %s is needed",
                    library->path, library->version, oldest);
}

static int driver_major(void);

static kas_status driver_version(void *table, kas_cuda_library *library)
{
    const kas_driver *driver = table;
    CUresult result = driver->cuInit(0);
    if (result != KAS_CUDA_SUCCESS) {
        const char *text = NULL;
        driver->cuGetErrorString(result, &text);
        return kas_fail(KAS_UNSUPPORTED, "%s: cuInit(0): %s (error %d)", library->path,
                        text ? text : "unknown error", (int)result);
    }
    int version = 0;
    if (driver->cuDriverGetVersion(&version) != KAS_CUDA_SUCCESS)
        return kas_fail(KAS_UNSUPPORTED, "%s: cuDriverGetVersion failed", library->path);
    snprintf(library->version, sizeof library->version, "%d.%d", version / 1000,
             version % 1000 / 10);
    return version < 12000 ? too_old(library, "12.0") : KAS_OK;
}

static kas_status nvrtc_version(void *table, kas_cuda_library *library)
{
    int major = 0, minor = 0;
    if (((const kas_nvrtc *)table)->nvrtcVersion(&major, &minor) != KAS_NVRTC_SUCCESS)
        return kas_fail(KAS_UNSUPPORTED, "%s: nvrtcVersion failed", library->path);
    snprintf(library->version, sizeof library->version, "%d.%d", major, minor);
    return major * 1000 + minor * 10 < OLDEST_TOOLKIT ? too_old(library, "12.8") : KAS_OK;
}

static kas_status cublaslt_version(void *table, kas_cuda_library *library)
{
    size_t version = ((const kas_cublaslt *)table)->cublasLtGetVersion();
    snprintf(library->version, sizeof library->version, "%zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return version < 120800 ? too_old(library, "12.8") : KAS_OK;
}

static kas_status cudnn_version(void *table, kas_cuda_library *library)
{
    size_t version = ((const kas_cudnn *)table)->cudnnGetVersion();
    snprintf(library->version, sizeof library->version, "%zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    if (version < OLDEST_CUDNN)
        return too_old(library, "9.0");
    const int newest = driver_major(),
              built = (int)(((const kas_cudnn *)table)->cudnnGetCudartVersion() / 1000);
    return newest && built > newest
               ? kas_fail(KAS_UNSUPPORTED,
                          "%s: cuDNN %s is built for CUDA %d, and the driver has CUDA %d",
                          library->path, library->version, built, newest)
               : KAS_OK;
}

static kas_status nccl_version(void *table, kas_cuda_library *library)
{
    int version = 0;
    if (((const kas_nccl *)table)->ncclGetVersion(&version) != KAS_NCCL_SUCCESS)
        return kas_fail(KAS_UNSUPPORTED, "%s: ncclGetVersion failed", library->path);
    snprintf(library->version, sizeof library->version, "%d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    return version < OLDEST_NCCL ? too_old(library, "2.14") : KAS_OK;
}

/* ---- the five libraries ---------------------------------------------------------------------- */

#define DRIVER_SYMBOL(name, result, parameters) {#name, offsetof(kas_driver, name)},
#define NVRTC_SYMBOL(name, result, parameters) {#name, offsetof(kas_nvrtc, name)},
#define CUBLASLT_SYMBOL(name, result, parameters) {#name, offsetof(kas_cublaslt, name)},
#define CUDNN_SYMBOL(name, result, parameters) {#name, offsetof(kas_cudnn, name)},
#define NCCL_SYMBOL(name, result, parameters) {#name, offsetof(kas_nccl, name)},
static const symbol driver_symbols[] = {KAS_DRIVER_FUNCTIONS(DRIVER_SYMBOL)};
static const symbol nvrtc_symbols[] = {KAS_NVRTC_FUNCTIONS(NVRTC_SYMBOL)};
static const symbol cublaslt_symbols[] = {KAS_CUBLASLT_FUNCTIONS(CUBLASLT_SYMBOL)};
static const symbol cudnn_symbols[] = {KAS_CUDNN_FUNCTIONS(CUDNN_SYMBOL)};
static const symbol nccl_symbols[] = {KAS_NCCL_FUNCTIONS(NCCL_SYMBOL)};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
static const char *const cublaslt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const char *const cudnn_names[] = {"libcudnn.so.9", NULL};
static const char *const nccl_names[] = {"libnccl.so.2", NULL};
static const int any_version[] = {0}, toolkit_versions[] = {13, 12};

static const kind kinds[KINDS] = {
    [DRIVER] = {"the NVIDIA driver", driver_names, any_version, driver_version, sizeof(kas_driver),
                driver_symbols, COUNT(driver_symbols)},
    [NVRTC] = {"NVRTC, the CUDA compiler library", nvrtc_names, toolkit_versions, nvrtc_version,
               sizeof(kas_nvrtc), nvrtc_symbols, COUNT(nvrtc_symbols)},
    [CUBLASLT] = {"cuBLASLt", cublaslt_names, toolkit_versions, cublaslt_version,
                  sizeof(kas_cublaslt), cublaslt_symbols, COUNT(cublaslt_symbols)},
    [CUDNN] = {"cuDNN 9", cudnn_names, any_version, cudnn_version, sizeof(kas_cudnn), cudnn_symbols,
               COUNT(cudnn_symbols)},
    [NCCL] = {"NCCL 2", nccl_names, any_version, nccl_version, sizeof(kas_nccl), nccl_symbols,
              COUNT(nccl_symbols)},
};

/* ---- finding and filling --------------------------------------------------------------------- */

/* Remembers why a file that is there could not be used: that is what the user must read, not the
 * "no such file" of the last place. */
static void *open_file(const char *folder, const char *soname, char reason[512])
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", soname) >=
        (int)sizeof path)
        return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && *folder && kas_file_exists(path))
        snprintf(reason, 512, "%s", dlerror());
    return handle;
}

static kas_status fill(const kind *k, void *handle, void *table)
{
    kas_cuda_library *library = table;
    for (size_t i = 0; i < k->count; i++) {
        void *function = dlsym(handle, k->symbols[i].name);
        Dl_info info;
        if (function && !library->path[0] && dladdr(function, &info) && info.dli_fname)
            snprintf(library->path, sizeof library->path, "%s", info.dli_fname);
        if (!function)
            return kas_fail(KAS_UNSUPPORTED, "%s has no function %s: its version is not supported",
                            library->path[0] ? library->path : k->what, k->symbols[i].name);
        memcpy((char *)table + k->symbols[i].offset, &function, sizeof function);
    }
    return k->version(table, library);
}

static kas_status try_handle(const kind *k, void *handle, void **out)
{
    void *table = calloc(1, k->size);
    kas_status status = table ? fill(k, handle, table) : kas_fail(KAS_NO_MEMORY, "out of memory");
    if (status != KAS_OK) {
        free(table);
        dlclose(handle);
        return status;
    }
    *out = table;
    return KAS_OK;
}

/* Returns the CUDA major version of the driver; 0 when there is none, which allows everything
 * (compiling for a GPU that is not here). */
static int driver_major(void)
{
    void *driver = NULL;
    return load(DRIVER, &driver) == KAS_OK ? atoi(((kas_driver *)driver)->library.version) : 0;
}

/* A search for a library that can be used. A file that cannot, because it is too old for instance, hides
 * none that lies in a later place. */
typedef struct search {
    const kind *k;
    void **out;
    char reason[512];  /* why a file could not be opened; "" */
    kas_status failed; /* KAS_OK, or why one that was opened is of no use, with its message */
} search;

/* Returns whether the search has ended, with a table or for want of memory. */
static bool try_place(search *s, const char *folder, const char *soname)
{
    void *handle = open_file(folder, soname, s->reason);
    if (!handle)
        return false;
    s->failed = try_handle(s->k, handle, s->out);
    return s->failed == KAS_OK || s->failed == KAS_NO_MEMORY;
}

static bool try_list(search *s, const char *list, const char *soname)
{
    for (const char *p = list; p && *p;) {
        const size_t length = strcspn(p, ":");
        char folder[4096];
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, p, length);
            folder[length] = '\0';
            if (try_place(s, folder, soname))
                return true;
        }
        p += length + (p[length] == ':');
    }
    return false;
}

/* The same for the files of the driver's CUDA and of older ones, or of newer ones only. */
static bool try_all(search *s, int newest, bool newer)
{
    const kind *k = s->k;
    for (int i = 0; k->sonames[i]; i++) {
        const bool is_newer = newest && k->majors[i] > newest;
        if (is_newer == newer && (try_list(s, getenv("KAS_CUDA_PATH"), k->sonames[i]) ||
                                  try_place(s, "", k->sonames[i]) ||
                                  try_place(s, "/usr/local/cuda/lib64", k->sonames[i])))
            return true;
    }
    return false;
}

/* Returns whether there is a library that is only too new, and fails with that. */
static bool is_too_new(const kind *k, int newest)
{
    void *table = NULL;
    search s = {.k = k, .out = &table};
    if (!newest || !try_all(&s, newest, true) || !table)
        return false;
    kas_fail(
        KAS_UNSUPPORTED,
        "%s: found, but newer than the driver (CUDA %d); update the driver or install the %d.x "
        "libraries",
        ((const kas_cuda_library *)table)->path, newest, newest);
    free(table);
    return true;
}

static kas_status load_from_system(const kind *k, void **out)
{
    search s = {.k = k, .out = out};
    const int newest = k->majors[0] ? driver_major() : 0;
    if (try_all(&s, newest, false))
        return s.failed;
    if (s.failed != KAS_OK) /* found, but unusable: the message says why */
        return s.failed;
    if (s.reason[0])
        return kas_fail(KAS_UNSUPPORTED, "%s cannot be loaded: %s", k->what, s.reason);
    if (is_too_new(k, newest))
        return KAS_UNSUPPORTED;
    return kas_fail(KAS_UNSUPPORTED,
                    "%s (%s%s%s) was not found in $KAS_CUDA_PATH, the loader's path or "
                    "/usr/local/cuda/lib64",
                    k->what, k->sonames[0], k->sonames[1] ? " or " : "",
                    k->sonames[1] ? k->sonames[1] : "");
}

static kas_status load_table(const kind *k, void **out)
{
    const char *stand_in = getenv("KAS_CUDA_LIBS");
    if (!stand_in || !*stand_in)
        return load_from_system(k, out);
    void *handle = dlopen(stand_in, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return kas_fail(KAS_UNSUPPORTED, "KAS_CUDA_LIBS: %s", dlerror());
    return try_handle(k, handle, out);
}

/* Loads a table at first use; the caller holds the lock. */
static kas_status load(int which, void **out)
{
    slot *s = &slots[which];
    if (!s->tried) {
        s->tried = true;
        s->status = load_table(&kinds[which], &s->table);
        snprintf(s->message, sizeof s->message, "%s", s->status == KAS_OK ? "" : kas_error());
    }
    *out = s->table;
    return s->status == KAS_OK ? KAS_OK : kas_fail(s->status, "%s", s->message);
}

/* The table, or NULL. */
static const void *load_locked(int which, kas_status *status)
{
    void *table = NULL;
    pthread_mutex_lock(&lock);
    *status = load(which, &table);
    pthread_mutex_unlock(&lock);
    return table;
}

kas_status kas_driver_load(const kas_driver **out)
{
    kas_status status;
    *out = load_locked(DRIVER, &status);
    return status;
}

kas_status kas_nvrtc_load(const kas_nvrtc **out)
{
    kas_status status;
    *out = load_locked(NVRTC, &status);
    return status;
}

kas_status kas_cublaslt_load(const kas_cublaslt **out)
{
    kas_status status;
    *out = load_locked(CUBLASLT, &status);
    return status;
}

kas_status kas_cudnn_load(const kas_cudnn **out)
{
    void *table = NULL;
    pthread_mutex_lock(&lock);
    /* cuDNN needs both libraries and asks for them by bare name; what is loaded already is
     * found. */
    load(CUBLASLT, &table);
    load(NVRTC, &table);
    kas_status status = load(CUDNN, &table);
    pthread_mutex_unlock(&lock);
    *out = table;
    return status;
}

kas_status kas_nccl_load(const kas_nccl **out)
{
    kas_status status;
    *out = load_locked(NCCL, &status);
    return status;
}

void kas_cuda_libraries_reset(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KINDS; i++)
        free(slots[i].table);
    memset(slots, 0, sizeof slots);
    pthread_mutex_unlock(&lock);
}
