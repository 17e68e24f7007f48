/* What the two files of the stand-in for cuDNN share: a convolution as its descriptors describe
 * it. */
#ifndef KAS_TESTS_CUDA_SIM_SIM_DNN_H
#define KAS_TESTS_CUDA_SIM_SIM_DNN_H

#include "sim.h"

struct cudnnContext {
    int device;
    CUstream stream;
};

typedef struct sim_tensor {
    int64_t size[4], stride[4], id, alignment; /* n, c, h, w */
    int32_t type;
    bool is_virtual;
} sim_tensor;

typedef enum sim_pass { SIM_FORWARD, SIM_DATA, SIM_FILTER } sim_pass;

/* An operation y = mode(x) or, with `b`, mode(x, b), where b may be the same for all pixels. */
typedef struct sim_pointwise {
    int32_t mode;
    float upper_clip, swish_beta;
    bool keeps_nan; /* whether a ReLU keeps NaN, where the engine looks at this */
    bool binary;
    sim_tensor b;
} sim_pointwise;

/* A graph: a convolution and what follows it. `y` is the convolution's output, `out` that of the
 * graph; they are the same where nothing follows. */
enum { SIM_MAX_BEHIND = 3 };
typedef struct sim_conv {
    sim_pass pass;
    sim_tensor x, w, y, out;
    int64_t pad[2], stride[2], dilation[2];
    int behind;
    sim_pointwise op[SIM_MAX_BEHIND];
} sim_conv;

/* Returns whether the shapes fit each other. The numbers of x's and w's channels give the
 * groups. */
bool sim_conv_fits(const sim_conv *c);
/* Returns whether cuDNN takes the graph: inputs and outputs of one type, x and y with their
 * channels side by side; after a forward pass a tensor like y may be added, then one for each
 * channel, then an activation follows. */
bool sim_conv_supported(const sim_conv *c);

/* The engines of a ranking. Durations are pretended: "time passes" on the events of a stream. */
enum { SIM_ENGINES = 20, SIM_KNOB = 2 /* tile size */ };
typedef struct sim_engine {
    int64_t id, tile; /* tile 0: it has no knob */
    int32_t note;     /* -1: none */
    bool compiled;    /* at run time */
    bool refuses;     /* it refuses when a plan is made */
    bool fallback;
    int microseconds;
} sim_engine;
extern const sim_engine sim_engines[SIM_ENGINES];

size_t sim_conv_workspace(const sim_conv *c);
/* Queues the convolution; aborts when a pointer is not in live memory of the device. */
enum { SIM_OPERANDS = 3 + SIM_MAX_BEHIND }; /* x, w, out, then b of each operation or NULL */
void sim_conv_queue(cudnnHandle_t handle, const sim_conv *c, const sim_engine *engine,
                    void *const memory[SIM_OPERANDS], void *workspace);

#endif
