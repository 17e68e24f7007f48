/* Which passes run over lines of pixels (conv_lines.h), and how they are launched. */
#include "host/device/conv_loops.h"
#include "host/device/cpu/conv_lines.h"
#include "host/device/cpu/cpu_conv.h"

#define KERNELS_OF(name)                                                                           \
    kas_cpu_kernel name##_00, name##_10, name##_20;                                                \
    static kas_cpu_kernel *const name[KAS_DTYPES] = {name##_00, name##_10, name##_20}
KERNELS_OF(kas_lines_groups);
KERNELS_OF(kas_lines_few_results);
KERNELS_OF(kas_lines_weight_parts);
KERNELS_OF(kas_lines_map_total);
KERNELS_OF(kas_lines_group_total);

int kas_cpu_lanes(void)
{
    return kas_cpu_avx512 ? 16 : 8;
}

static bool has_groups(const kas_conv_desc *d)
{
    return d->groups > 1 || kas_conv_is_depthwise(d);
}

/* Returns whether the lanes of groups are channels of x, which read dy. */
static bool groups_read_y(const kas_conv_desc *d, kas_conv_pass pass)
{
    return pass == KAS_CONV_BACKWARD_DATA ||
           (pass == KAS_CONV_BACKWARD_WEIGHTS && d->c_in > d->c_out);
}

static kas_lines_args args_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    const bool grouped = has_groups(d), outs_few = d->c_out < d->c_in;
    const int reach_h = (d->kernel_h - 1) * kas_conv_dilation(d),
              reach_w = (d->kernel_w - 1) * kas_conv_dilation(d);
    /* The gradient of the weights has the lines of the wide side. */
    const bool from_y = grouped ? groups_read_y(d, pass)
                                : pass == KAS_CONV_BACKWARD_DATA ||
                                      (pass == KAS_CONV_BACKWARD_WEIGHTS && !outs_few);
    const int out_h = kas_conv_out_h(d), out_w = kas_conv_out_w(d);
    const int lanes = from_y ? d->c_in : d->c_out, read = from_y ? d->c_out : d->c_in;
    const bool halves = grouped && !kas_conv_is_depthwise(d) && pass != KAS_CONV_BACKWARD_WEIGHTS &&
                        lanes <= KAS_LINE_LANES / 2 && read <= KAS_LINE_LANES && d->n > 1;
    return (kas_lines_args){
        .n = d->n,
        .h = from_y ? out_h : d->h,
        .width = from_y ? out_w : d->w,
        .out_h = from_y ? d->h : out_h,
        .out_w = from_y ? d->w : out_w,
        .from_pitch = from_y ? d->y_pitch : d->x_pitch,
        .to_pitch = from_y ? d->x_pitch : d->y_pitch,
        .channels = grouped    ? lanes
                    : outs_few ? d->c_in
                               : d->c_out,
        .few = grouped    ? 0
               : outs_few ? d->c_out
                          : d->c_in,
        .reads = grouped ? read / d->groups : 1,
        .lanes = grouped ? lanes / d->groups : 1,
        .kernel_h = d->kernel_h,
        .kernel_w = d->kernel_w,
        .dilation = kas_conv_dilation(d),
        .pad_h = from_y ? reach_h - d->pad_h : d->pad_h,
        .pad_w = from_y ? reach_w - d->pad_w : d->pad_w,
        .flipped = from_y,
        .images = halves ? 2 : 1,
        .slots = d->n < KAS_LINE_SLOTS ? d->n : KAS_LINE_SLOTS,
    };
}

/* Returns how many neighbouring channels a vector of lanes reads at most. */
static int span_of(const kas_lines_args *a)
{
    const int lanes = a->channels < KAS_LINE_LANES ? a->channels : KAS_LINE_LANES;
    const bool whole = lanes % a->lanes == 0 || a->lanes % lanes == 0; /* no group begins earlier */
    return (lanes / a->lanes + (whole ? lanes < a->lanes : 2)) * a->reads;
}

/* The results of a map are the narrow side. */
bool kas_lines_fit(const kas_conv_desc *d, kas_conv_pass pass)
{
    const kas_lines_args a = args_of(d, pass);
    const bool whole = pass != KAS_CONV_BACKWARD_WEIGHTS && a.few > 0;
    const int floats = (whole ? kas_lines_vectors(&a) : a.reads) * KAS_LINE_LANES;
    if (whole && (pass == KAS_CONV_FORWARD) != (d->c_out < d->c_in))
        return false;
    return d->stride == 1 && a.few <= KAS_LINE_FEW && a.reads <= KAS_LINE_READS &&
           span_of(&a) <= KAS_LINE_SPAN && a.pad_h >= 0 && a.pad_w >= 0 &&
           a.pad_h <= (a.kernel_h - 1) * a.dilation && a.pad_w <= (a.kernel_w - 1) * a.dilation &&
           a.out_w <= KAS_LINE_WIDTH &&
           (a.few ? a.few : 1) * a.kernel_h * a.kernel_w * floats <= KAS_LINE_WEIGHTS &&
           kas_lines_band(&a, floats) >= 1;
}

/* Returns the multiply-adds of vectors for each pixel of groups, or of a map with few results. A
 * pixel is copied `again` times, each in the time of two, and the lanes of one of few results are
 * added up in as much. `tap`: what a multiply-add takes with its loads. */
static double vector_steps(const kas_lines_args *a, double again, double tap)
{
    const double copies = 2 * again, totals = 2, taps = tap * a->kernel_h * a->kernel_w;
    const double vectors = kas_lines_vectors(a);
    return a->few ? vectors * (a->few * taps + copies) + a->few * totals
                  : vectors / a->images * a->reads * (taps + copies);
}

/* Predicts whether windows of groups take less time than with oneDNN 2.6, in multiply-adds of
 * vectors. oneDNN has a vector for each group, of 4 lanes where the group has at most 4 channels on
 * either side, else of 8, and reads as many channels: it makes 5 multiply-adds while we make 2.4,
 * and twice as many in bf16. Measured on a core with AVX-512 over 40 shapes (bench/results). */
static bool groups_pay(const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { NARROW = 4, VECTOR = 8 };
    const double slower = 2.1;
    const kas_lines_args a = args_of(d, pass);
    const int taps = d->kernel_h * d->kernel_w;
    const bool narrow = a.reads <= NARROW && a.lanes <= NARROW;
    const int reads = narrow ? NARROW : (a.reads + VECTOR - 1) / VECTOR * VECTOR;
    const int vectors = (a.lanes + VECTOR - 1) / VECTOR;
    const bool halves = d->dtype == KAS_BF16 && pass != KAS_CONV_BACKWARD_WEIGHTS;
    const double library = (double)d->groups * reads * vectors * taps / (halves ? 2 : 1);
    return slower * vector_steps(&a, 1, 1) < library;
}

/* The same with AVX2. oneDNN multiplies matrices for the results of groups that read fewer channels
 * than a vector has, which takes it long unless they are many and read without windows. For gradients
 * it has a vector for each group, and takes long for the weights of taps that lie apart. Without AVX2
 * channels are picked one by one. */
static bool groups_pay_avx2(const kas_conv_desc *d, kas_conv_pass pass, int lanes)
{
    enum { VECTOR = 8 };
    const kas_lines_args a = args_of(d, pass);
    const bool windows = d->kernel_h * d->kernel_w > 1;
    if (lanes < VECTOR)
        return false;
    return pass == KAS_CONV_FORWARD
               ? a.reads < VECTOR && (a.reads == 1 || a.lanes < VECTOR || windows)
           : pass == KAS_CONV_BACKWARD_DATA ? a.lanes <= 2
                                            : a.dilation > 1 || a.lanes <= 3;
}

/* oneDNN is fast where a depthwise window's taps are few and lie side by side: gradients of taps that
 * lie apart take it 3 to 20 times as long as these kernels, those of wide windows 4 to 5 times, and
 * windows that begin far in front of a row 7 to 30 times. */
static bool depthwise_pays(const kas_conv_desc *d, kas_conv_pass pass, bool avx512)
{
    enum { WIDE = 5 };
    const int most = avx512 ? 8 : 4; /* pixels in front of a row */
    const bool apart = d->kernel_h * d->kernel_w > 1 && kas_conv_dilation(d) > 1,
               far = d->kernel_w / 2 * kas_conv_dilation(d) > most;
    return far || (apart && pass != KAS_CONV_FORWARD) ||
           (d->kernel_w >= WIDE && pass == KAS_CONV_BACKWARD_WEIGHTS);
}

/* Returns whether a map of windows to very few channels pays (with oneDNN 4 to 7 times as long). */
static bool map_pays(const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { FEWEST = 8, MANY = 32 };
    const bool windows = d->kernel_h * d->kernel_w > 1;
    const int channels = d->c_in > d->c_out ? d->c_in : d->c_out;
    return pass == KAS_CONV_BACKWARD_WEIGHTS ? windows && d->c_out < d->c_in && channels >= FEWEST
                                             : channels >= (windows ? FEWEST : MANY);
}

/* The same without AVX-512: oneDNN makes a multiply-add for each channel and tap of 8 results, of
 * which few are wanted, in a third of the time of ours. */
static bool map_pays_avx2(const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { FEWEST = 9, MANY = 64 }; /* taps, channels */
    const double slower = 2.9;
    const kas_lines_args a = args_of(d, pass);
    const int taps = d->kernel_h * d->kernel_w;
    return pass == KAS_CONV_BACKWARD_WEIGHTS
               ? d->c_out < d->c_in && taps > 1 &&
                     (a.dilation > 1 || (d->c_out == 1 && taps >= FEWEST))
               : (taps > 1 || a.channels >= MANY) &&
                     (double)a.channels * taps > slower * vector_steps(&a, 1, 1);
}

/* Measured against oneDNN 2.6, with AVX-512 and without (bench/results). Elsewhere oneDNN is as fast or
 * faster. */
bool kas_lines_pay(const kas_conv_desc *d, kas_conv_pass pass, int lanes)
{
    const bool avx512 = lanes >= 16;
    if (!kas_lines_fit(d, pass))
        return false;
    if (kas_conv_is_depthwise(d))
        return depthwise_pays(d, pass, avx512);
    if (has_groups(d))
        return avx512 ? groups_pay(d, pass) : groups_pay_avx2(d, pass, lanes);
    return avx512 ? map_pays(d, pass) : map_pays_avx2(d, pass);
}

double kas_lines_macs(const kas_conv_desc *d)
{
    const kas_lines_args a = args_of(d, KAS_CONV_FORWARD);
    const int floats = (a.few > 0 ? kas_lines_vectors(&a) : a.reads) * KAS_LINE_LANES;
    const double band = kas_lines_band(&a, floats), reach = (a.kernel_h - 1) * a.dilation;
    /* 8 neighbours and 3 taps load 10 vectors, else each multiply-add its own */
    const bool shares = a.kernel_w == 3 && a.dilation == 1;
    const double loads = shares ? (KAS_LINE_RUN + 2.0) / (3 * KAS_LINE_RUN) : 1;
    return (double)a.n * a.out_h * a.out_w * KAS_LINE_LANES *
           vector_steps(&a, (band + reach) / band, 1 + loads);
}

size_t kas_lines_partial(const kas_conv_desc *d)
{
    const kas_lines_args a = args_of(d, KAS_CONV_BACKWARD_WEIGHTS);
    return sizeof(float) * (size_t)a.slots * (size_t)(a.few ? a.few : a.reads) *
           (size_t)(a.kernel_h * a.kernel_w) * (size_t)a.channels;
}

static void launch(const kas_cpu *cpu, kas_cpu_kernel *run, int x, int y,
                   const kas_lines_args *args)
{
    const kas_function function = {.run = {run, run, run}};
    const unsigned grid[3] = {(unsigned)x, (unsigned)y, 1};
    kas_cpu_launch(cpu, &function, grid, args);
}

void kas_lines_run(const kas_cpu *cpu, const kas_conv_desc *d, kas_conv_pass pass,
                   const kas_cpu_call *call, float *partial)
{
    kas_lines_args a = args_of(d, pass);
    a.from = a.flipped ? call->y : call->x;
    a.to = a.flipped ? call->x : call->y;
    a.w = call->w;
    a.dw = call->w;
    a.bias = call->bias;
    a.residual = call->residual;
    a.partial = partial;
    if (pass == KAS_CONV_BACKWARD_WEIGHTS) {
        launch(cpu, kas_lines_weight_parts[d->dtype], kas_lines_vectors(&a), a.slots, &a);
        if (a.few)
            launch(cpu, kas_lines_map_total[d->dtype], 1, 1, &a);
        else
            launch(cpu, kas_lines_group_total[d->dtype], kas_lines_vectors(&a), 1, &a);
    } else if (a.few) {
        launch(cpu, kas_lines_few_results[d->dtype], 1, a.slots, &a);
    } else {
        launch(cpu, kas_lines_groups[d->dtype], kas_lines_vectors(&a), a.slots, &a);
    }
}
