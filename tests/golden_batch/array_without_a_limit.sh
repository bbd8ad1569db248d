#!/bin/sh
#SBATCH --job-name=dd-20260101-writer-a1b2-1
#SBATCH --account=research
#SBATCH --partition=gpu,gpu-long
#SBATCH --time=03:55:00
#SBATCH --array=0-2
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --gres=gpu:8
#SBATCH --mem-per-gpu=80G
#SBATCH --chdir=/scratch/dd/runs/r1
#SBATCH --output=/scratch/dd/runs/r1/submissions/1/slurm-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --signal=B:USR1@600
umask 077
exec /opt/venv/bin/python -P -m shell.run --run-dir /scratch/dd/runs/r1 --shard-from-env
