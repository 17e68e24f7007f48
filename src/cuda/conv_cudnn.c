/* Convolutions on cuDNN 9: a graph for each pass, and the plan that runs it. */
#include <stdlib.h>

#include "cuda/conv_cuda.h"
#include "cuda/dnn_plan.h"

enum { MAX_CHOICES = 8 };

struct kas_cudnn_conv {
    kas_dnn_graph graph;
    kas_dnn_plan plan;
};

/* The first of the ranking that can be made and is content with the workspace that may be had. */
static kas_status choose(kas_cuda *cuda, const kas_conv_desc *desc, kas_cudnn_conv *c)
{
    const bool tensor_cores = desc->tf32 || desc->number != KAS_F32;
    kas_dnn_choice choice[MAX_CHOICES];
    int count = 0;
    KAS_TRY(kas_dnn_choices(cuda, &c->graph, tensor_cores, choice, MAX_CHOICES, &count));
    for (int i = 0; i < count; i++) {
        const kas_status status = kas_dnn_plan_make(cuda, &c->graph, &choice[i], &c->plan);
        if (status == KAS_OK && c->plan.workspace_bytes <= KAS_CUDA_MAX_WORKSPACE)
            return kas_cuda_reserve_workspace(cuda, c->plan.workspace_bytes);
        if (status != KAS_OK && status != KAS_UNSUPPORTED)
            return status;
        kas_dnn_plan_free(cuda, &c->plan);
    }
    return kas_fail(KAS_UNSUPPORTED, "cuDNN has no deterministic float32 engine for these sizes");
}

kas_status kas_cudnn_conv_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                                 kas_cudnn_conv **out)
{
    kas_status status;
    if (!cuda->dnn_handle)
        return kas_fail(KAS_UNSUPPORTED, "no cuDNN");
    kas_cudnn_conv *c = calloc(1, sizeof *c);
    if (!c)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    KAS_TRY_GOTO(kas_dnn_graph_make(cuda, desc, pass, &c->graph), failed);
    KAS_TRY_GOTO(choose(cuda, desc, c), failed);
    *out = c;
    return KAS_OK;
failed:
    kas_cudnn_conv_free(cuda, c);
    return status;
}

void kas_cudnn_conv_free(kas_cuda *cuda, kas_cudnn_conv *c)
{
    if (!c)
        return;
    kas_dnn_plan_free(cuda, &c->plan);
    kas_dnn_graph_free(cuda, &c->graph);
    free(c);
}

kas_status kas_cudnn_conv_run(kas_cuda *cuda, const kas_cudnn_conv *c, void *x, void *w, void *y)
{
    if (((uintptr_t)x | (uintptr_t)w | (uintptr_t)y) % KAS_DNN_ALIGNMENT)
        return kas_fail(KAS_UNSUPPORTED, "a tensor is not aligned to %d bytes", KAS_DNN_ALIGNMENT);
    return kas_dnn_plan_run(cuda, &c->plan, x, w, y, (void *)(uintptr_t)cuda->workspace);
}
