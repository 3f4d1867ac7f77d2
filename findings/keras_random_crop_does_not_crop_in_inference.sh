#!/bin/sh
# Keras 3.15.1 with TensorFlow 2.21.0, Python 3.11, Linux (CPU).
#
# Behaviour: in inference `layers.RandomCrop(6, 6)` returns the whole image of 8 x 8. The model's `output_shape` says
# 6 x 6. A Dense layer after it then fails; a global pooling works on another part of the image than in training.
# What one would guess: the middle of 6 x 6, or a resized image, as the layer's documentation says. Cause: the middle is
# computed, and what crops and resizes is within `if training`.
# What works instead: `layers.CenterCrop` in the model, and random crops of the data before it.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow-cpu==2.21.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
cat > "$folder/crop.py" <<'SCRIPT'
import keras
import numpy as np

images = np.arange(64, dtype="float32").reshape(1, 8, 8, 1)
model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.RandomCrop(6, 6)])
training, inference = model(images, training=True), np.asarray(model(images, training=False))
unchanged = inference.shape == images.shape and bool((inference == images).all())
print(f"Keras {keras.__version__}: declared {model.output_shape}, in training {tuple(training.shape)}")
print(f"  in inference {inference.shape}, the image as it was: {unchanged}")
raise SystemExit(not (model.output_shape == (None, 6, 6, 1) == (None, *training.shape[1:]) and unchanged))
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/crop.py"
# Output seen:
#   Keras 3.15.1: declared (None, 6, 6, 1), in training (1, 6, 6, 1)
#     in inference (1, 8, 8, 1), the image as it was: True
