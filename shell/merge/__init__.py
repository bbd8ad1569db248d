"""The winners of a run as one dataset, in bounded memory, whole or not at all."""
