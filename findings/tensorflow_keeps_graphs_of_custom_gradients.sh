#!/bin/sh
# TensorFlow 2.21.0, Python 3.11, Linux (CPU).
#
# Behaviour: each time a function with `tf.custom_gradient` is traced, its graph stays in memory until the process ends,
# also after the tf.function, its variables and its results are gone and garbage was collected.
# What one would guess: a graph that nothing refers to is freed, as it is without a custom gradient. A process that
# builds many models one after the other (a search, a test suite) grows with each of them; Keras' `clear_session` does
# not help. Cause: the gradient is registered under a new name, "CustomGradient-N", in a registry from which nothing is
# removed, and holds the tensors of the graph that it was made in.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow==2.21.0
cat > "$folder/graphs.py" <<'SCRIPT'
import gc

import tensorflow as tf


@tf.custom_gradient
def custom(x):
    return x * 2.0, lambda upstream: upstream * 2.0


def plain(x):
    return x * 2.0


def graphs_after(times, double):
    for _ in range(times):

        @tf.function
        def traced(x):
            return double(x)

        traced(tf.constant(1.0))
        del traced
    gc.collect()
    return sum(type(each).__name__ == "FuncGraph" for each in gc.get_objects())


without, with_custom = graphs_after(20, plain), graphs_after(20, custom)
print(f"TensorFlow {tf.__version__}: graphs that live on after 20 traces: {without} plain, {with_custom} custom gradient")
raise SystemExit(not (without == 0 and with_custom >= 20))
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/graphs.py"
# Output seen:
#   TensorFlow 2.21.0: graphs that live on after 20 traces: 0 plain, 20 custom gradient
