#!/bin/sh
# tf2onnx 1.17.0 with TensorFlow 2.21.0, run by onnxruntime 1.31.1, Python 3.11, Linux (CPU).
#
# Behaviour: `x // y` and `x % y` of whole numbers are those of C in the ONNX file: -1 // 4 is 0, and -1 % 4 is -1.
# What one would guess: -1 and 3, as in TensorFlow, NumPy and Python, and as in the file for numbers with a fraction.
# Cause: FloorDiv becomes Div, which truncates whole numbers, and a Floor behind it for numbers with a fraction only.
# What works instead: divide as float and take the floor, `tf.floor(tf.cast(x, tf.float32) / 4)`, within 24 bits.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
others="tf2onnx==1.17.0 onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 $others ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow==2.21.0 $others
cat > "$folder/convert.py" <<'SCRIPT'
import warnings

import numpy as np
import onnxruntime
import tensorflow as tf

warnings.simplefilter("ignore")
for name, kind in {"object": object, "bool": bool, "cast": np.asarray}.items():  # names that NumPy 2 has no more
    if name not in vars(np):
        setattr(np, name, kind)
import tf2onnx

NUMBERS = [-5, -4, -1, 1, 4, 5]


def answers(function, dtype):
    signature = [tf.TensorSpec([None], dtype, name="x")]
    proto, _ = tf2onnx.convert.from_function(tf.function(function, autograph=False), input_signature=signature, opset=18)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    numbers = np.array(NUMBERS, dtype.as_numpy_dtype)
    return [function(tf.constant(numbers)).numpy().tolist(), session.run(None, {"x": numbers})[0].tolist()]


print(f"tf2onnx {tf2onnx.__version__}: of {NUMBERS}")
found = {}
for name, function in {"x // 4": lambda x: x // 4, "x % 4": lambda x: x % 4}.items():
    for dtype in (tf.int32, tf.float32):
        before, after = found[name, dtype] = answers(function, dtype)
        print(f"  {name:6} {dtype.name:7} TensorFlow {before}, ONNX {after}")
raise SystemExit([before != after for before, after in found.values()] != [True, False, True, False])
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/convert.py"
# Output seen:
#   tf2onnx 1.17.0: of [-5, -4, -1, 1, 4, 5]
#     x // 4 int32   TensorFlow [-2, -1, -1, 0, 1, 1], ONNX [-1, -1, 0, 0, 1, 1]
#     x // 4 float32 TensorFlow [-2.0, -1.0, -1.0, 0.0, 1.0, 1.0], ONNX [-2.0, -1.0, -1.0, 0.0, 1.0, 1.0]
#     x % 4  int32   TensorFlow [3, 0, 3, 1, 0, 1], ONNX [-1, 0, -1, 1, 0, 1]
#     x % 4  float32 TensorFlow [3.0, -0.0, 3.0, 1.0, 0.0, 1.0], ONNX [3.0, 0.0, 3.0, 1.0, 0.0, 1.0]
