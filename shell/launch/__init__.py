"""Job steps and the processes that carry them: `srun` in an allocation, or processes of this machine."""
