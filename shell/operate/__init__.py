"""What is done with a run between its jobs: look at it, give shards to a new job, end it."""
