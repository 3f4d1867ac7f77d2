#!/bin/sh
# TensorFlow 2.21.0, Python 3.11, Linux (CPU split into two logical devices).
#
# Behaviour: in a tf.function, operations with side effects that use no resource, such as `tf.numpy_function`, run one
# after the other in the order of tracing, also where they are on different devices and none needs another's result.
# What one would guess: as with all other operations, those that do not depend on each other run at the same time; each
# device has a queue of its own. A model whose parts lie on several devices, with one such function in each part, uses
# one device at a time, and nothing says so. Cause: automatic control dependencies chain all such operations of a graph.
# With `stateful=False`, for functions without side effects, they run at the same time.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow==2.21.0
cat > "$folder/devices.py" <<'SCRIPT'
import time

import tensorflow as tf

SECONDS = 0.5
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.threading.set_inter_op_parallelism_threads(4)


def nap(x):
    time.sleep(SECONDS)
    return x


def seconds_of(stateful):
    @tf.function
    def both(x):
        results = []
        for device in ("CPU:0", "CPU:1"):
            with tf.device(device):
                results.append(tf.numpy_function(nap, [x], tf.float32, stateful=stateful))
        return results

    both(tf.constant(1.0))  # traced
    begun = time.perf_counter()
    both(tf.constant(1.0))
    return time.perf_counter() - begun


with_effects, without = seconds_of(True), seconds_of(False)
in_turn, at_once = with_effects > 1.8 * SECONDS, without < 1.8 * SECONDS
words = {True: "one after the other", False: "at once"}
print(f"TensorFlow {tf.__version__}: functions of {SECONDS} s on two devices, by default {words[in_turn]}, "
      f"with stateful=False {words[not at_once]}")
raise SystemExit(not (in_turn and at_once))
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/devices.py"
# Output seen:
#   TensorFlow 2.21.0: functions of 0.5 s on two devices, by default one after the other, with stateful=False at once
