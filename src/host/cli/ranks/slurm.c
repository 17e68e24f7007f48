/* The place of this process in a job step of Slurm. srun sets these variables for each task. */
#include "host/cli/ranks/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/integer.h"

typedef struct step {
    int rank, ranks, local, nodes; /* local: number of the task on its node */
    int64_t job, number, attempt;  /* number: of the step in its job */
} step;

static kas_status read_variable(const char *name, int64_t high, int64_t *out)
{
    const char *text = getenv(name);
    if (!text)
        return kas_fail(KAS_USAGE,
                        "--nodes: %s is not set; start the ranks with srun, such as `srun "
                        "--ntasks-per-node=4 kas-gpu train --nodes FOLDER ...`",
                        name);
    return kas_integer_read(text, 0, high, out)
               ? KAS_OK
               : kas_fail(KAS_USAGE, "%s=%.64s: expected a number from 0 to %lld", name, text,
                          (long long)high);
}

/* Reads a variable that has this value when it is not set. */
static kas_status read_optional(const char *name, int64_t high, int64_t absent, int64_t *out)
{
    *out = absent;
    return getenv(name) ? read_variable(name, high, out) : KAS_OK;
}

static kas_status read_step(step *out)
{
    int64_t rank, ranks, tasks, local, nodes;
    KAS_TRY(read_variable("SLURM_PROCID", INT32_MAX, &rank));
    KAS_TRY(read_variable("SLURM_NTASKS", INT32_MAX, &ranks));
    KAS_TRY(read_variable("SLURM_LOCALID", INT32_MAX, &local));
    KAS_TRY(read_variable("SLURM_JOB_ID", INT64_MAX, &out->job));
    KAS_TRY(read_variable("SLURM_STEP_ID", INT64_MAX, &out->number));
    KAS_TRY(read_variable("SLURM_NNODES", INT32_MAX, &nodes));
    KAS_TRY(read_optional("SLURM_STEP_NUM_NODES", INT32_MAX, nodes, &nodes));
    KAS_TRY(read_optional("SLURM_STEP_NUM_TASKS", INT32_MAX, ranks, &tasks));
    KAS_TRY(read_optional("SLURM_RESTART_COUNT", INT64_MAX, 0, &out->attempt));
    if (tasks != ranks)
        return kas_fail(
            KAS_USAGE,
            "SLURM_NTASKS=%lld and SLURM_STEP_NUM_TASKS=%lld contradict each other; start "
            "the ranks with srun",
            (long long)ranks, (long long)tasks);
    if (rank >= ranks || local > rank)
        return kas_fail(
            KAS_USAGE,
            "SLURM_PROCID=%lld, SLURM_LOCALID=%lld and SLURM_NTASKS=%lld contradict each "
            "other: tasks are numbered from 0, on each node too",
            (long long)rank, (long long)local, (long long)ranks);
    if (ranks > KAS_MAX_DEVICES)
        return kas_fail(KAS_USAGE, "SLURM_NTASKS=%lld: at most %d ranks train together",
                        (long long)ranks, KAS_MAX_DEVICES);
    out->rank = (int)rank;
    out->ranks = (int)ranks;
    out->local = (int)local;
    out->nodes = (int)nodes;
    return KAS_OK;
}

/* Returns the number of this task's GPU. Where Slurm shows each task its own GPU only, that is 0. */
static int own_gpu(int local)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && *visible && !strchr(visible, ',') ? 0 : local;
}

static kas_status find_device(const char *device, const step *s, char out[32])
{
    kas_device_spec spec;
    KAS_TRY(kas_device_spec_read(device, &spec));
    if (spec.cpu && spec.cuda)
        return kas_fail(KAS_USAGE, "--nodes: which device is meant must not depend on the machine; "
                                   "add --device cuda or --device cpu");
    if (spec.cpu && s->nodes > 1)
        return kas_fail(
            KAS_USAGE,
            "--nodes: ranks on the CPU share memory, and this job step has %d nodes; use "
            "--device cuda, or one node",
            s->nodes);
    if (spec.ordinals && s->local >= spec.ordinals)
        return kas_fail(
            KAS_USAGE, "SLURM_LOCALID=%d and --device %s: expected as many GPUs as tasks on a node",
            s->local, device);
    if (spec.cpu)
        snprintf(out, 32, "cpu");
    else
        snprintf(out, 32, "cuda:%d", spec.ordinals ? spec.ordinal[s->local] : own_gpu(s->local));
    return KAS_OK;
}

kas_status kas_cli_slurm_find(const char *device, int asked, const char *folder, kas_cli_ranks *out)
{
    step s;
    KAS_TRY(read_step(&s));
    if (asked && asked != s.ranks)
        return kas_fail(KAS_USAGE, "--ranks %d and SLURM_NTASKS=%d: each task is a rank", asked,
                        s.ranks);
    if (strlen(folder) >= sizeof out->folder)
        return kas_fail(KAS_USAGE, "--nodes: a path of %zu bytes is too long", strlen(folder));
    KAS_TRY(find_device(device, &s, out->device));
    KAS_TRY(kas_mkdirs(folder));
    out->rank = s.rank;
    out->ranks = s.ranks;
    out->started = s.ranks > 1;
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    snprintf(out->name, sizeof out->name, "job-%lld-step-%lld-attempt-%lld-of-%d-ranks",
             (long long)s.job, (long long)s.number, (long long)s.attempt, s.ranks);
    return KAS_OK;
}
