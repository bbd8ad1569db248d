"""The files that users write, read from the disk, and the plan that core makes of them."""
