#!/bin/sh
# Keras 3.15.1 with TensorFlow 2.21.0, Python 3.11, Linux (CPU).
#
# Behaviour: `load_weights` of a `.weights.h5` file of another model, in which the layers of the same names stand in
# another order, gives each layer the weights of another one. No error, no warning, as long as the shapes fit.
# What one would guess: weights go to the layers of their names, or names that do not fit are an error. Cause: the file
# does not have the names: layers are called by their class and a number, in their order ("layers/dense_1").
# What works instead: `save` and `load_model` with the architecture, or copying weights by `get_layer(name)`.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow-cpu==2.21.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
cat > "$folder/load.py" <<'SCRIPT'
import sys
import warnings

import h5py
import keras
import numpy as np

warnings.simplefilter("error", UserWarning)


def model(*names):
    return keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(4, name=name) for name in names)])


saved, other = model("encoder", "head"), model("head", "encoder")
saved.save_weights(sys.argv[1])
other.load_weights(sys.argv[1])
came_from = {
    layer.name: next(each.name for each in saved.layers if np.array_equal(each.kernel, layer.kernel))
    for layer in other.layers
}
with h5py.File(sys.argv[1]) as file:
    names = sorted(file["layers"])
print(f"Keras {keras.__version__}: each layer has the weights of {came_from}; the file has {names}")
raise SystemExit(came_from != {"head": "encoder", "encoder": "head"})
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/load.py" "$folder/model.weights.h5"
# Output seen:
#   Keras 3.15.1: each layer has the weights of {'head': 'encoder', 'encoder': 'head'}; the file has ['dense', 'dense_1']
