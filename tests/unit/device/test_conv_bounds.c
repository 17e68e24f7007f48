/* Convolutions of the CPU device stay within memory: that of their tensors, and what the library
 * takes for itself. The memory of both comes from aligned_alloc and posix_memalign, which this program
 * replaces: known bytes lie behind each block, and none of them may change. Under AddressSanitizer,
 * which does the same for what it compiles, this only runs the convolutions. */
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host/device/device.h"
#include "support/sanitized.h"
#include "support/sizes.h"

enum { BLOCKS = 4096, BEHIND = 4096, MARK = 0xa5 };

static struct {
    unsigned char *at;
    size_t size;
} blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int checked; /* blocks in all */

#ifndef __SANITIZE_ADDRESS__ /* which replaces them itself */
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *at);

static void *take(size_t alignment, size_t size)
{
    unsigned char *at = __libc_memalign(alignment, size + BEHIND);
    if (!at)
        return NULL;
    memset(at + size, MARK, BEHIND);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < BLOCKS && blocks[i].at)
        i++;
    if (i == BLOCKS)
        abort();
    blocks[i].at = at;
    blocks[i].size = size;
    checked++;
    pthread_mutex_unlock(&lock);
    return at;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return take(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = take(alignment, size);
    return *out ? 0 : ENOMEM;
}

void free(void *at)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; at && i < BLOCKS; i++)
        if (blocks[i].at == at)
            blocks[i].at = NULL;
    pthread_mutex_unlock(&lock);
    __libc_free(at);
}

#endif

/* Returns how many bytes behind the blocks were written. */
static size_t written_behind(void)
{
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; i++)
        for (size_t b = 0; blocks[i].at && b < BEHIND; b++)
            bytes += blocks[i].at[blocks[i].size + b] != MARK;
    pthread_mutex_unlock(&lock);
    return bytes;
}

static void check_passes(kas_device *device, const kas_conv_desc *d)
{
    static const char *const name[] = {"forward", "data", "weights"};
    kas_conv *conv;
    float *x, *w, *y;
    const size_t pixels = (size_t)d->n * (size_t)d->h * (size_t)d->w;
    const size_t out = (size_t)d->n * (size_t)(kas_conv_out_h(d) * kas_conv_out_w(d));
    const size_t taps = (size_t)(d->kernel_h * d->kernel_w * d->c_out * d->c_in / d->groups);
    OK(kas_conv_create(device, d, &conv));
    OK(kas_mem_alloc(device, sizeof *x * pixels * (size_t)d->x_pitch, (void **)&x));
    OK(kas_mem_alloc(device, sizeof *w * taps, (void **)&w));
    OK(kas_mem_alloc(device, sizeof *y * out * (size_t)d->y_pitch, (void **)&y));
    for (int pass = 0; pass < 3; pass++) {
        kas_plan *plan;
        OK(kas_plan_create(device, &plan));
        OK(kas_plan_conv(plan, conv, (kas_conv_pass)pass, x, w, y));
        OK(kas_plan_run(plan));
        const size_t bytes = written_behind();
        if (bytes)
            fail_msg("%zu bytes behind a block were written: %d->%d channels in %d groups, %dx%d, "
                     "stride %d, %dx%d pixels, %s",
                     bytes, d->c_in, d->c_out, d->groups, d->kernel_h, d->kernel_w, d->stride, d->h,
                     d->w, name[pass]);
        kas_plan_free(plan);
    }
    kas_mem_free(device, x);
    kas_mem_free(device, w);
    kas_mem_free(device, y);
    kas_conv_free(conv);
}

TEST(within_memory)
{
    static const int channels[] = {1, 4, 6, 12, 24}, sizes[] = {7, 16};
    enum { CHANNELS = sizeof channels / sizeof *channels, SIZES = sizeof sizes / sizeof *sizes };
    kas_device *device;
    OK(kas_device_open("cpu", 1, &device));
    const int before = checked;
    for (int i = 0; i < CHANNELS * CHANNELS * SIZES; i++)
        for (int kernel = 1; kernel <= 3; kernel += 2)
            for (int stride = 1; stride <= 2; stride++) {
                const int in = channels[i % CHANNELS], out = channels[i / CHANNELS % CHANNELS],
                          size = sizes[i / CHANNELS / CHANNELS];
                const kas_conv_desc d =
                    CONV_OF(2, size, in, out, in % 4 || out % 4 ? 1 : 1 + i % 4 / 3, kernel, stride,
                            .x_pitch = kas_pitch_of(KAS_F32, in),
                            .y_pitch = kas_pitch_of(KAS_F32, out), .dtype = KAS_F32);
                check_passes(device, &d);
            }
    assert_true(checked > before + 3 * CHANNELS * CHANNELS * SIZES || SANITIZED);
    kas_device_close(device);
}

RUN_TESTS()
