"""The training loop: step, optimiser, batches, checkpoints."""
