# A Slurm cluster of two nodes on this machine, with pretended GPUs, for tests; sourced behind expect.bash, and the test is skipped
# where Slurm is not installed. Jobs of the partition `high` preempt those of `low`, which get 20 seconds.
for program in slurmctld slurmd munged sbatch; do
    command -v $program >/dev/null || { echo "SKIPPED: no $program: Slurm is not installed"; exit 77; }
done

slurm_start() { # folder GPUs of a node
    local at=$1 port=$((20000 + RANDOM % 20000)) name gpu
    export SLURM_CONF=$at/slurm.conf # before anything can fail: slurm_stop must never speak to a cluster that this machine belongs to
    name=$(hostname -s)
    mkdir -p "$at/state"
    head -c 128 /dev/urandom >"$at/key"
    chmod 400 "$at/key"
    munged --force --socket="$at/munge" --key-file="$at/key" --pid-file="$at/munged.pid" --log-file="$at/munged.log" --seed-file="$at/seed"
    cat >"$SLURM_CONF" <<CONF
ClusterName=kas
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$at/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool-%n
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd-%n.pid
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
NodeName=kas[1-2] NodeHostname=$name NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=4 Gres=gpu:$2
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF
CONF
    for ((gpu = 1; gpu <= $2; gpu++)); do touch "$at/gpu$gpu"; done # Slurm asks for a file
    echo "NodeName=kas[1-2] Name=gpu File=$at/gpu[1-$2]" >"$at/gres.conf"
    slurmctld -c
    slurmd -N kas1
    slurmd -N kas2
    await "the nodes of Slurm" slurm_idle
}
slurm_idle() { [ "$(sinfo -h -N -p low -t idle -o %N 2>/dev/null | wc -l)" = 2 ]; }

# Slurm lets a requeued job wait for two minutes; at once would be too early for its credentials. On a busy machine it may have begun
# since it was asked for the last time, and then it cannot be changed any more.
slurm_begin_again() { # job
    [ "$(squeue -h -j "$1" -o %T)" = RUNNING ] || scontrol update JobId="$1" StartTime=now+3
}

slurm_stop() { # folder: jobs and daemons
    local file
    [ -e "$SLURM_CONF" ] && scancel --user "$(id -un)" 2>/dev/null
    for _ in $(seq 300); do [ -n "$(squeue -h 2>/dev/null)" ] || break; sleep 0.2; done # Slurm kills after 30 s
    for file in "$1"/slurmd-*.pid "$1/slurmctld.pid" "$1/munged.pid"; do
        [ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null
    done
    for file in "$1"/slurmd-*.pid "$1/slurmctld.pid"; do
        for _ in $(seq 100); do [ -e "$file" ] || break; sleep 0.1; done
    done
}
