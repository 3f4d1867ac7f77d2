"""How TensorFlow runs in this process: the number of threads decides the last bits of a result."""

from __future__ import annotations


def pin(threads: int) -> None:
    """Let one operation use `threads` CPU threads and run one at a time; call it before anything computes.

    Calling it again with the same number does nothing; TensorFlow cannot change it once it has computed
    (RuntimeError), which is why every stage that counts its bytes has a fresh process.
    """
    import tensorflow as tf

    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if tf.config.threading.get_inter_op_parallelism_threads() != 1:
        tf.config.threading.set_inter_op_parallelism_threads(1)
