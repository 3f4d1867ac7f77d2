"""The TensorFlow engine: step, objectives, optimizers, strategies."""
