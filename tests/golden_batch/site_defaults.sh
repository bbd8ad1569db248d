#!/bin/sh
#SBATCH --job-name=dd-20260101-writer-a1b2-1
#SBATCH --time=03:55:00
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
#SBATCH --chdir=/scratch/dd/runs/r1
#SBATCH --output=/scratch/dd/runs/r1/submissions/1/slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --export=ALL
umask 077
exec /opt/venv/bin/python -P -m shell.run --run-dir /scratch/dd/runs/r1 --shard-from-env
