#!/bin/sh
# TensorFlow 2.21.0 (TFLiteConverter), run by ai-edge-litert 2.3.0, Python 3.11, Linux (CPU).
#
# Behaviour: `relu` after a matrix product is left out of the `.tflite` file where the second factor has two axes and is
# computed from the inputs. So are `relu6`, `maximum(x, 0)` and clipping to -1 and 1. No error, no warning.
# What one would guess: the same numbers as before, but for rounding. They are the same where the second factor is a
# weight, has a batch axis, or where a bias is added before `relu`, and for `tanh`.
# Cause, by the operators in the file: the product becomes FULLY_CONNECTED, into which `relu` is joined, and then, its
# second factor being no constant, BATCH_MATMUL, which has no place for it.
# What works instead: a batch axis of 1, `relu(x[None] @ y[None])[0]`.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow==2.21.0 ai-edge-litert==2.3.0
cat > "$folder/convert.py" <<'SCRIPT'
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

ROWS, MATRIX = np.random.default_rng(1).normal(size=(2, 4, 4)).astype("float32")
FUNCTIONS = {
    "relu(x @ y)": lambda x, y: tf.nn.relu(x @ y),
    "relu6(x @ y)": lambda x, y: tf.nn.relu6(x @ y),
    "maximum(x @ y, 0)": lambda x, y: tf.maximum(x @ y, 0.0),
    "clip(x @ y, -1, 1)": lambda x, y: tf.clip_by_value(x @ y, -1.0, 1.0),
    "relu(x @ constant)": lambda x, y: tf.nn.relu(x @ tf.constant(MATRIX)) + 0 * tf.reduce_sum(y),
    "relu(x[None] @ y[None])": lambda x, y: tf.nn.relu(x[None] @ y[None])[0],
    "relu(x @ y + 1)": lambda x, y: tf.nn.relu(x @ y + tf.ones(4)),
    "tanh(x @ y)": lambda x, y: tf.tanh(x @ y),
}
DROPPED = ["relu(x @ y)", "relu6(x @ y)", "maximum(x @ y, 0)", "clip(x @ y, -1, 1)"]


def difference(function):
    spec = tf.TensorSpec((4, 4), tf.float32)
    module = tf.Module()
    module.call = tf.function(function, input_signature=[spec, spec], autograph=False)
    content = tf.lite.TFLiteConverter.from_concrete_functions([module.call.get_concrete_function()], module).convert()
    serve = Interpreter(model_content=content).get_signature_runner()
    [answer] = serve(x=ROWS, y=MATRIX).values()
    return float(np.abs(answer - function(ROWS, MATRIX).numpy()).max())


found = {name: difference(function) for name, function in FUNCTIONS.items()}
print(f"TensorFlow {tf.__version__}: largest difference of the file's answers")
for name, value in found.items():
    print(f"  {name:24} {value:.2g}")
raise SystemExit([name for name, value in found.items() if value > 0.01] != DROPPED)
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/convert.py"
# Output seen:
#   TensorFlow 2.21.0: largest difference of the file's answers
#     relu(x @ y)              2
#     relu6(x @ y)             2
#     maximum(x @ y, 0)        2
#     clip(x @ y, -1, 1)       1
#     relu(x @ constant)       0
#     relu(x[None] @ y[None])  0
#     relu(x @ y + 1)          0
#     tanh(x @ y)              1.2e-07
