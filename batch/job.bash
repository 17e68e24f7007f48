# What the jobs share; they source it after study.bash.
#
# A job has to go when Slurm preempts it or its time ends. kas-gpu then saves checkpoints, gives its items back and ends with
# exit code 75:
#   - Preemption with a grace time sends SIGTERM to steps and not to the script, so kas-gpu is a step.
#   - --signal=B:USR1@... sends SIGUSR1 to the script, which tells the step.
#   - The time limit is known: kas-gpu stops by itself (--until) `spare` seconds before it.
# A job that ends early does not come back by itself, so it asks for that. One that was cancelled must not.

# The last task of an array has the array's number as its own, so a task is named by both.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}

# The options for the time limit; none where the job has no limit.
until_limit() {
    local end=${SLURM_JOB_END_TIME:-}
    if [ -z "$end" ]; then
        end=$(squeue -h -j "$job" -o %e) && [ -n "$end" ] || return 0 # of nothing date makes midnight
        end=$(date -d "$end" +%s 2>/dev/null) || return 0
    fi
    echo "--until $((end - spare))"
}

come_back() {
    if [ "$requeue" = wait ]; then
        echo "waiting for Slurm to end this job"
        while :; do sleep 60 & wait $!; done
    fi
    # Preempted with a grace time it still runs; once Slurm ends it, Slurm knows whether it comes back.
    [ "$(squeue -h -j "$job" -o %T)" != RUNNING ] || scontrol requeue "$job"
}

# Runs a command in a step, on every node of the job, once or as often as `tasks` says, and to its end whatever signals come; returns its exit code, and asks
# for this job again when the command ends because it had to go.
step() { # command...
    local rc=0 pid
    trap 'scancel --signal=TERM "$job"' USR1 USR2 # reaches the steps only
    trap : TERM # the step has got it too
    srun --ntasks-per-node="${tasks:-1}" "$@" &
    pid=$!
    until { wait $pid && rc=0 || rc=$?; } && ! kill -0 $pid 2>/dev/null; do :; done
    case $rc in 75 | 143) come_back ;; esac # 143: it had hardly begun, and SIGTERM ended it
    return $rc
}
