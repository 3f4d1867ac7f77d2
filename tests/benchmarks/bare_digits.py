"""What a person would write by hand for the digits job, in one process and with no promise kept: the floor that the
pipeline's time is held against. Same data, model, steps, files and tracking; no store, no resume, no proof.

usage: bare_digits.py FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", KERAS_BACKEND="tensorflow", MPLBACKEND="Agg", GIT_PYTHON_REFRESH="quiet")
began = time.time()
out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)

import io

import keras
import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits()
rng = np.random.default_rng(0)
rows = rng.permutation(len(digits.images))
cuts = np.split(rows, [int(0.6 * len(rows)), int(0.7 * len(rows))])
for split, chosen in zip(("train", "validation", "test"), cuts):
    with tf.io.TFRecordWriter(str(out / f"{split}.tfrecord")) as writer:
        for row in chosen:
            png = io.BytesIO()
            Image.fromarray((digits.images[row] * 255 / 16).astype("uint8")).save(png, "PNG")
            writer.write(
                tf.train.Example(
                    features=tf.train.Features(
                        feature={
                            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png.getvalue()])),
                            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(digits.target[row])])),
                        }
                    )
                ).SerializeToString()
            )


def read(split):
    def parse(raw):
        example = tf.io.parse_single_example(
            raw, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        )
        return tf.cast(tf.io.decode_png(example["image"], 1), tf.float32) / 255, example["label"]

    return tf.data.TFRecordDataset(str(out / f"{split}.tfrecord")).map(parse)


train = read("train").cache().shuffle(2000, seed=0).repeat().batch(64).prefetch(2)
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(10),
    ]
)
schedule = keras.optimizers.schedules.CosineDecay(0.0, 560, warmup_target=0.002, warmup_steps=40)
model.compile(
    keras.optimizers.AdamW(schedule, weight_decay=0.01, clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(train, steps_per_epoch=100, epochs=6, validation_data=read("validation").batch(151), verbose=0)

images, labels = next(iter(read("test").batch(2000)))
images, labels = images.numpy(), labels.numpy()
scores = {"keras": float((model.predict(images, verbose=0).argmax(1) == labels).mean())}

import matplotlib.pyplot as plt
from sklearn.metrics import ConfusionMatrixDisplay

ConfusionMatrixDisplay.from_predictions(labels, model.predict(images, verbose=0).argmax(1))
plt.savefig(out / "confusion.png")

model.export(str(out / "saved_model"), verbose=False)
float_model = tf.lite.TFLiteConverter.from_saved_model(str(out / "saved_model")).convert()
(out / "float.tflite").write_bytes(float_model)
from ai_edge_quantizer import quantizer, recipe

quantizer.Quantizer(str(out / "float.tflite"), recipe.dynamic_wi8_afp32()).quantize().export_model(
    str(out / "int8.tflite"), overwrite=True
)
model.save(out / "model.keras")
np.savez(out / "test.npz", images=images, labels=labels)
CHECK = """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter
data = np.load(sys.argv[1] + "/test.npz")
for name in ("float", "int8"):
    reader = Interpreter(f"{sys.argv[1]}/{name}.tflite")
    given, made = reader.get_input_details()[0]["index"], reader.get_output_details()[0]["index"]
    reader.resize_tensor_input(given, data["images"].shape); reader.allocate_tensors()
    reader.set_tensor(given, data["images"]); reader.invoke()
    print(name, (reader.get_tensor(made).argmax(1) == data["labels"]).mean())
"""
checked = subprocess.run([sys.executable, "-c", CHECK, str(out)], capture_output=True, text=True, check=True).stdout
scores |= {line.split()[0]: float(line.split()[1]) for line in checked.splitlines()}

import mlflow

mlflow.set_tracking_uri(f"sqlite:///{out}/mlflow.db")
mlflow.set_experiment("digits")
with mlflow.start_run():
    mlflow.log_params({"steps": 600, "rate": 0.002})
    for step, loss in enumerate(history.history["loss"]):
        mlflow.log_metric("loss", loss, step)
    mlflow.log_metrics({f"test_accuracy_{name}": value for name, value in scores.items()})
    for name in ("confusion.png", "int8.tflite", "model.keras"):
        mlflow.log_artifact(out / name)
print(json.dumps({"seconds": time.time() - began, **scores}))
