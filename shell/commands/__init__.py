"""What ``dd-slurm`` does, one module for one command: text for people, JSON for programs, problems on stderr."""
