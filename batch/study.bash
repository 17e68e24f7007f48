# What the jobs in this folder search: edit these lines. All paths lie on a disk that all nodes see.
kas=kas-gpu
study=/shared/$USER/first
search=(--dataset /shared/$USER/cifar100.h5 --net resnet18 --candidates 1000 --epochs 30)
device=cuda # all GPUs that the job has

# Only for several nodes: the folder of the PostgreSQL server (docs/cluster.md), and the address at which the others reach
# its node.
store=/shared/$USER/store
address=$(hostname -I | cut -d' ' -f1)

spare=120    # seconds before its time limit in which a job saves its checkpoints and goes
requeue=self # how a job comes back that had to go before the study was complete: self asks Slurm for it (scontrol requeue);
             # wait does nothing and waits for Slurm to end the job, where only the administrators requeue
