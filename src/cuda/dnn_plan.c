#include "cuda/dnn_plan.h"

#include <stdlib.h>

#include "host/core/clock.h"
#include "host/core/log.h"

enum {
    MAX_CONFIGS = 1024, /* of a ranking; the most ever seen are 36 */
    MAX_COMPILED = 2    /* choices of a ranking that are compiled at run time */
};

static int least(int64_t count, int room)
{
    return count < room ? (int)count : room;
}

/* ---- what an engine is ----------------------------------------------------------------------- */

static bool takes_numerics(const int32_t *note, int notes, bool tensor_cores)
{
    for (int i = 0; i < notes; i++)
        switch (note[i]) {
        case KAS_DNN_NOTE_NONDETERMINISTIC:
        case KAS_DNN_NOTE_DOWN_CONVERT_INPUTS:
        case KAS_DNN_NOTE_REDUCED_PRECISION_REDUCTION:
        case KAS_DNN_NOTE_FFT:
        case KAS_DNN_NOTE_WINOGRAD:
        case KAS_DNN_NOTE_WINOGRAD_4X4:
        case KAS_DNN_NOTE_WINOGRAD_6X6:
        case KAS_DNN_NOTE_WINOGRAD_13X13:
            return false;
        case KAS_DNN_NOTE_TENSOR_CORE:
            if (!tensor_cores)
                return false;
        }
    return true;
}

static bool has_note(int32_t wanted, const int32_t *note, int notes)
{
    for (int i = 0; i < notes; i++)
        if (note[i] == wanted)
            return true;
    return false;
}

/* Sets *wanted, and whether the engine is compiled at run time. */
static kas_status read_notes(kas_cuda *cuda, cudnnBackendDescriptor_t engine, bool tensor_cores,
                             kas_dnn_choice *choice, bool *wanted)
{
    int32_t numerical[KAS_DNN_MAX_NOTES], behavior[KAS_DNN_MAX_NOTES];
    int64_t numericals = 0, behaviors = 0;
    KAS_TRY(kas_dnn_get(cuda, engine, KAS_DNN_ENGINE_NUMERICAL_NOTES, KAS_DNN_TYPE_NUMERICAL_NOTE,
                        KAS_DNN_MAX_NOTES, &numericals, numerical));
    KAS_TRY(kas_dnn_get(cuda, engine, KAS_DNN_ENGINE_BEHAVIOR_NOTES, KAS_DNN_TYPE_BEHAVIOR_NOTE,
                        KAS_DNN_MAX_NOTES, &behaviors, behavior));
    const int notes = least(behaviors, KAS_DNN_MAX_NOTES);
    /* Weights or biases in another order are for int8. */
    *wanted = takes_numerics(numerical, least(numericals, KAS_DNN_MAX_NOTES), tensor_cores) &&
              !has_note(KAS_DNN_BEHAVIOR_FILTER_REORDER, behavior, notes) &&
              !has_note(KAS_DNN_BEHAVIOR_BIAS_REORDER, behavior, notes);
    choice->compiled = has_note(KAS_DNN_BEHAVIOR_RUNTIME_COMPILATION, behavior, notes);
    return KAS_OK;
}

/* ---- configurations of a ranking --------------------------------------------------------------
 *
 * cuDNN fills descriptors that the caller made, of an engine and of each knob. */

static void delete_many(kas_cuda *cuda, int count, cudnnBackendDescriptor_t *desc)
{
    for (int i = 0; i < count; i++)
        kas_dnn_delete(cuda, desc[i]);
}

static kas_status make_many(kas_cuda *cuda, cudnnBackendDescriptorType_t kind, int count,
                            cudnnBackendDescriptor_t *out)
{
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    for (int i = 0; i < count; i++)
        KAS_TRY(kas_dnn_new(cuda, kind, &out[i]));
    return KAS_OK;
}

static kas_status read_knob(kas_cuda *cuda, cudnnBackendDescriptor_t desc, kas_dnn_knob *knob)
{
    int64_t one = 0;
    KAS_TRY(kas_dnn_get(cuda, desc, KAS_DNN_KNOB_TYPE, KAS_DNN_TYPE_KNOB, 1, &one, &knob->type));
    return kas_dnn_get(cuda, desc, KAS_DNN_KNOB_VALUE, KAS_DNN_TYPE_INT64, 1, &one, &knob->value);
}

/* Reads the knobs of a configuration. Asked for no descriptor at all, cuDNN 9.19 says that
 * there are no knobs, so as many descriptors are made as there is room for. *fits is false when
 * there are more. */
static kas_status read_knobs(kas_cuda *cuda, cudnnBackendDescriptor_t config,
                             kas_dnn_choice *choice, bool *fits)
{
    cudnnBackendDescriptor_t knob[KAS_DNN_MAX_KNOBS];
    int64_t count = 0;
    kas_status status;
    KAS_TRY_GOTO(make_many(cuda, KAS_DNN_KNOB_CHOICE, KAS_DNN_MAX_KNOBS, knob), done);
    KAS_TRY_GOTO(kas_dnn_get(cuda, config, KAS_DNN_CONFIG_KNOBS, KAS_DNN_TYPE_DESCRIPTOR,
                             KAS_DNN_MAX_KNOBS, &count, knob),
                 done);
    *fits = count <= KAS_DNN_MAX_KNOBS;
    choice->knobs = least(count, KAS_DNN_MAX_KNOBS);
    for (int i = 0; i < choice->knobs; i++)
        KAS_TRY_GOTO(read_knob(cuda, knob[i], &choice->knob[i]), done);
done:
    delete_many(cuda, KAS_DNN_MAX_KNOBS, knob);
    return status;
}

static kas_status read_config(kas_cuda *cuda, cudnnBackendDescriptor_t config, bool tensor_cores,
                              kas_dnn_choice *choice, bool *wanted)
{
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0;
    kas_status status;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_ENGINE, &engine));
    KAS_TRY_GOTO(kas_dnn_get(cuda, config, KAS_DNN_CONFIG_ENGINE, KAS_DNN_TYPE_DESCRIPTOR, 1,
                             &count, &engine),
                 done);
    KAS_TRY_GOTO(read_notes(cuda, engine, tensor_cores, choice, wanted), done);
    KAS_TRY_GOTO(kas_dnn_get(cuda, engine, KAS_DNN_ENGINE_INDEX, KAS_DNN_TYPE_INT64, 1, &count,
                             &choice->engine),
                 done);
    if (*wanted)
        status = read_knobs(cuda, config, choice, wanted);
done:
    kas_dnn_delete(cuda, engine);
    return status;
}

/* Reads the configurations that are wanted; one that cannot be read is passed over. */
static kas_status read_configs(kas_cuda *cuda, const cudnnBackendDescriptor_t *config, int configs,
                               bool tensor_cores, kas_dnn_choice *choice, int room, int *count)
{
    for (int i = 0; i < configs && *count < room; i++) {
        bool wanted = false;
        const kas_status status =
            read_config(cuda, config[i], tensor_cores, &choice[*count], &wanted);
        if (kas_cuda_is_refusal(cuda, status))
            kas_debug("cuDNN's configuration %d is passed over: %s", i, kas_error());
        else
            KAS_TRY(status);
        *count += status == KAS_OK && wanted;
    }
    return KAS_OK;
}

/* Reads the whole ranking: for float32 the first 25 and more may use tensor cores. */
static kas_status read_ranking(kas_cuda *cuda, cudnnBackendDescriptor_t heuristics,
                               bool tensor_cores, kas_dnn_choice *choice, int room, int *count)
{
    int64_t found = 0;
    kas_status status;
    KAS_TRY(kas_dnn_get(cuda, heuristics, KAS_DNN_HEURISTICS_RESULTS, KAS_DNN_TYPE_DESCRIPTOR, 0,
                        &found, NULL));
    const int configs = least(found, MAX_CONFIGS);
    if (configs < 1)
        return KAS_OK;
    cudnnBackendDescriptor_t *config = calloc((size_t)configs, sizeof *config);
    if (!config)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d configurations of cuDNN", configs);
    KAS_TRY_GOTO(make_many(cuda, KAS_DNN_ENGINE_CONFIG, configs, config), done);
    KAS_TRY_GOTO(kas_dnn_get(cuda, heuristics, KAS_DNN_HEURISTICS_RESULTS, KAS_DNN_TYPE_DESCRIPTOR,
                             configs, &found, config),
                 done);
    status = read_configs(cuda, config, least(found, configs), tensor_cores, choice, room, count);
done:
    delete_many(cuda, configs, config);
    free(config);
    return status;
}

/* Puts what is compiled at run time behind the others, and keeps the first MAX_COMPILED of it. Returns how
 * many choices are left. */
static int put_compiled_last(kas_dnn_choice *choice, int count)
{
    kas_dnn_choice compiled[MAX_COMPILED];
    int left = 0, late = 0;
    for (int i = 0; i < count; i++)
        if (!choice[i].compiled)
            choice[left++] = choice[i];
        else if (late < MAX_COMPILED)
            compiled[late++] = choice[i];
    for (int i = 0; i < late; i++)
        choice[left++] = compiled[i];
    return left;
}

static kas_status rank(kas_cuda *cuda, const kas_dnn_graph *graph, int32_t mode, bool tensor_cores,
                       kas_dnn_choice *choice, int room, int *count)
{
    cudnnBackendDescriptor_t heuristics = NULL;
    kas_status status;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_HEURISTICS, &heuristics));
    KAS_TRY_GOTO(kas_dnn_set(cuda, heuristics, KAS_DNN_HEURISTICS_GRAPH, KAS_DNN_TYPE_DESCRIPTOR, 1,
                             &graph->graph),
                 done);
    KAS_TRY_GOTO(kas_dnn_set(cuda, heuristics, KAS_DNN_HEURISTICS_MODE,
                             KAS_DNN_TYPE_HEURISTICS_MODE, 1, &mode),
                 done);
    if (cuda->dnn_gpu)
        KAS_TRY_GOTO(kas_dnn_set(cuda, heuristics, KAS_DNN_HEURISTICS_GPU, KAS_DNN_TYPE_DESCRIPTOR,
                                 1, &cuda->dnn_gpu),
                     done);
    KAS_TRY_GOTO(kas_dnn_finalize(cuda, heuristics), done);
    const int before = *count;
    status = read_ranking(cuda, heuristics, tensor_cores, choice, room, count);
    *count = before + put_compiled_last(choice + before, *count - before);
    for (int i = before; i < *count; i++)
        choice[i].fallback = mode == KAS_DNN_HEURISTICS_FALLBACK;
done:
    kas_dnn_delete(cuda, heuristics);
    return kas_dnn_refuse_bad_parameters(status);
}

kas_status kas_dnn_choices(kas_cuda *cuda, const kas_dnn_graph *graph, bool tensor_cores,
                           kas_dnn_choice *choice, int room, int *count)
{
    *count = 0;
    /* After the heuristics comes what needs none. Where neither ranks anything, a failure that may pass is
     * returned: nobody shall write down that there is no plan. */
    static const int32_t modes[] = {KAS_DNN_HEURISTICS_A, KAS_DNN_HEURISTICS_FALLBACK};
    kas_status failure = KAS_OK;
    for (int i = 0; i < 2; i++) {
        const kas_status status = rank(cuda, graph, modes[i], tensor_cores, choice, room, count);
        if (kas_cuda_is_refusal(cuda, status))
            kas_debug("cuDNN ranks nothing in mode %d: %s", (int)modes[i], kas_error());
        else
            KAS_TRY(status);
        if (failure == KAS_OK && status != KAS_UNSUPPORTED)
            failure = status;
    }
    return *count == 0 ? failure : KAS_OK;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static kas_status make_engine(kas_cuda *cuda, const kas_dnn_graph *graph, int64_t index,
                              cudnnBackendDescriptor_t *out)
{
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_ENGINE, out));
    KAS_TRY(
        kas_dnn_set(cuda, *out, KAS_DNN_ENGINE_GRAPH, KAS_DNN_TYPE_DESCRIPTOR, 1, &graph->graph));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_ENGINE_INDEX, KAS_DNN_TYPE_INT64, 1, &index));
    if (cuda->dnn_gpu)
        KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_ENGINE_GPU, KAS_DNN_TYPE_DESCRIPTOR, 1,
                            &cuda->dnn_gpu));
    return kas_dnn_finalize(cuda, *out);
}

static kas_status make_knob(kas_cuda *cuda, const kas_dnn_knob *knob, cudnnBackendDescriptor_t *out)
{
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_KNOB_CHOICE, out));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_KNOB_TYPE, KAS_DNN_TYPE_KNOB, 1, &knob->type));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_KNOB_VALUE, KAS_DNN_TYPE_INT64, 1, &knob->value));
    return kas_dnn_finalize(cuda, *out);
}

static kas_status make_config(kas_cuda *cuda, cudnnBackendDescriptor_t engine,
                              const kas_dnn_choice *choice, cudnnBackendDescriptor_t *out)
{
    cudnnBackendDescriptor_t knob[KAS_DNN_MAX_KNOBS] = {NULL};
    kas_status status;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_ENGINE_CONFIG, out));
    KAS_TRY_GOTO(
        kas_dnn_set(cuda, *out, KAS_DNN_CONFIG_ENGINE, KAS_DNN_TYPE_DESCRIPTOR, 1, &engine), done);
    for (int i = 0; i < choice->knobs; i++)
        KAS_TRY_GOTO(make_knob(cuda, &choice->knob[i], &knob[i]), done);
    if (choice->knobs)
        KAS_TRY_GOTO(kas_dnn_set(cuda, *out, KAS_DNN_CONFIG_KNOBS, KAS_DNN_TYPE_DESCRIPTOR,
                                 choice->knobs, knob),
                     done);
    status = kas_dnn_finalize(cuda, *out);
done:
    delete_many(cuda, choice->knobs, knob);
    return status;
}

static kas_status make_plan(kas_cuda *cuda, kas_dnn_plan *p)
{
    int64_t bytes = 0, count = 0;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_PLAN, &p->plan));
    if (cuda->dnn_handle)
        KAS_TRY(kas_dnn_set(cuda, p->plan, KAS_DNN_PLAN_HANDLE, KAS_DNN_TYPE_HANDLE, 1,
                            &cuda->dnn_handle));
    else
        KAS_TRY(kas_dnn_set(cuda, p->plan, KAS_DNN_PLAN_GPU, KAS_DNN_TYPE_DESCRIPTOR, 1,
                            &cuda->dnn_gpu));
    KAS_TRY(
        kas_dnn_set(cuda, p->plan, KAS_DNN_PLAN_CONFIG, KAS_DNN_TYPE_DESCRIPTOR, 1, &p->config));
    KAS_TRY(kas_dnn_finalize(cuda, p->plan));
    KAS_TRY(
        kas_dnn_get(cuda, p->plan, KAS_DNN_PLAN_WORKSPACE, KAS_DNN_TYPE_INT64, 1, &count, &bytes));
    p->workspace_bytes = bytes > 0 ? (size_t)bytes : 0;
    return KAS_OK;
}

void kas_dnn_plan_free(kas_cuda *cuda, kas_dnn_plan *p)
{
    kas_dnn_delete(cuda, p->plan);
    kas_dnn_delete(cuda, p->config);
    kas_dnn_delete(cuda, p->engine);
    *p = (kas_dnn_plan){NULL};
}

kas_status kas_dnn_plan_make(kas_cuda *cuda, const kas_dnn_graph *graph,
                             const kas_dnn_choice *choice, kas_dnn_plan *out)
{
    const double begin = kas_monotonic();
    kas_status status;
    *out = (kas_dnn_plan){NULL};
    KAS_TRY_GOTO(make_engine(cuda, graph, choice->engine, &out->engine), done);
    KAS_TRY_GOTO(make_config(cuda, out->engine, choice, &out->config), done);
    KAS_TRY_GOTO(make_plan(cuda, out), done);
done:
    kas_debug("a plan of cuDNN's engine %lld%s: %.3f s%s", (long long)choice->engine,
              choice->compiled ? ", compiled at run time" : "", kas_monotonic() - begin,
              status == KAS_OK ? "" : ", refused");
    if (status == KAS_OK)
        return KAS_OK;
    kas_dnn_plan_free(cuda, out);
    return kas_dnn_refuse_bad_parameters(status);
}

/* The pointers of the tensors that there are. */
typedef struct pointers {
    int64_t count, id[KAS_DNN_BETWEEN];
    void *pointer[KAS_DNN_BETWEEN];
} pointers;

static pointers pointers_of(const kas_conv_operands *o)
{
    void *const all[KAS_DNN_BETWEEN] = {[KAS_DNN_X] = o->x,
                                        [KAS_DNN_W] = o->w,
                                        [KAS_DNN_Y] = o->y,
                                        [KAS_DNN_BIAS] = o->bias,
                                        [KAS_DNN_RESIDUAL] = (void *)(uintptr_t)o->residual};
    pointers p = {0};
    for (int64_t id = KAS_DNN_X; id < KAS_DNN_BETWEEN; id++)
        if (all[id]) {
            p.id[p.count] = id;
            p.pointer[p.count++] = all[id];
        }
    return p;
}

kas_status kas_dnn_plan_run(kas_cuda *cuda, const kas_dnn_plan *plan, const kas_conv_operands *o,
                            void *workspace)
{
    const pointers p = pointers_of(o);
    cudnnBackendDescriptor_t pack = NULL;
    kas_status status;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_VARIANT_PACK, &pack));
    KAS_TRY_GOTO(
        kas_dnn_set(cuda, pack, KAS_DNN_PACK_UNIQUE_IDS, KAS_DNN_TYPE_INT64, p.count, p.id), done);
    KAS_TRY_GOTO(
        kas_dnn_set(cuda, pack, KAS_DNN_PACK_POINTERS, KAS_DNN_TYPE_POINTER, p.count, p.pointer),
        done);
    KAS_TRY_GOTO(
        kas_dnn_set(cuda, pack, KAS_DNN_PACK_WORKSPACE, KAS_DNN_TYPE_POINTER, 1, &workspace), done);
    KAS_TRY_GOTO(kas_dnn_finalize(cuda, pack), done);
    status = KAS_CUDNN(cuda, cudnnBackendExecute(cuda->dnn_handle, plan->plan, pack));
done:
    kas_dnn_delete(cuda, pack);
    return status;
}
