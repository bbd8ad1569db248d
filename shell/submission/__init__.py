"""From a plan to a job of Slurm: the folder of the run, the checks before, the durable intent, the receipt."""
