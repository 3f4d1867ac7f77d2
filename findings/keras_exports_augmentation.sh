#!/bin/sh
# Keras 3.15.1 with TensorFlow 2.21.0, Python 3.11, Linux (CPU).
#
# Behaviour: the SavedModel that `model.export` writes augments what it is asked: `serve` of a model with `RandomRotation`
# turns the image by another angle in each call. `model(x)` does so too, and `model.predict(x)` does not.
# What one would guess: what is exported for serving works as in inference, as Dropout in the same model does.
# Cause: the layers' argument `training` is True by default, and the exporter does not give it.
# What works instead: `ExportArchive` with a function that calls `model(x, training=False)`.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow-cpu==2.21.0 ||
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 tensorflow==2.21.0
cat > "$folder/export.py" <<'SCRIPT'
import sys

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
images = np.random.default_rng(1).uniform(0, 1, (8, 8, 8, 1)).astype("float32")
augmenting = {
    layer.__name__: layer
    for layer in (keras.layers.RandomFlip, keras.layers.RandomRotation, keras.layers.RandomContrast)
}
arguments = {"RandomFlip": [], "RandomRotation": [0.3], "RandomContrast": [0.5], "Dropout": [0.5]}
SPEC = tf.TensorSpec((None, 8, 8, 1))


def exported_in_inference(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", lambda images: model(images, training=False), input_signature=[SPEC])
    archive.write_out(path, verbose=False)


def served(path):
    loaded = tf.saved_model.load(path)  # its variables live as long as it does
    return loaded.serve(images)


changed = {}
for name, layer in {**augmenting, "Dropout": keras.layers.Dropout}.items():
    model = keras.Sequential([keras.Input((8, 8, 1)), layer(*arguments[name])])
    path = f"{sys.argv[1]}/{name}"
    model.export(path, verbose=False)
    exported_in_inference(model, f"{path}_of_inference")
    answers = {
        "predict": model.predict(images, verbose=0),
        "model(x)": model(images),
        "export": served(path),
        "training=False": served(f"{path}_of_inference"),
    }
    changed[name] = [way for way, answer in answers.items() if np.abs(np.asarray(answer) - images).max() > 1e-3]
print(f"Keras {keras.__version__}: what changes the images")
for name, ways in changed.items():
    print(f"  {name:14} {', '.join(ways) or 'nothing'}")
raise SystemExit(any(changed[name] != ["model(x)", "export"] for name in augmenting) or changed["Dropout"] != [])
SCRIPT
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/export.py" "$folder" 2> "$folder/errors" || {
    status=$?
    cat "$folder/errors" >&2
    exit "$status"
}
# Output seen:
#   Keras 3.15.1: what changes the images
#     RandomFlip     model(x), export
#     RandomRotation model(x), export
#     RandomContrast model(x), export
#     Dropout        nothing
