"""Each architecture learns, is exported with the same numbers, and is quantised; its config refuses what cannot be."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Outcome, Snapshot
from tasks.compression.config import CompressConfig
from tasks.compression.methods import quantise
from tasks.compression.methods.quantise import Int8Dynamic
from tasks.config.base import Conflict
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import gates
from tasks.evaluation.intervals import ONE_SIDED
from tasks.evaluation.metrics import Means, mean
from tasks.exporting import FORMATS, verify
from tasks.exporting.formats import stablehlo
from tasks.exporting.formats.litert import LiteRT
from tasks.exporting.formats.saved_model import SavedModel
from tasks.models import forward, keras_file
from tasks.models.architectures.convnet import Convnet1dModel, ResNetModel
from tasks.models.architectures.encoder import EncoderModel, ViTModel
from tasks.models.architectures.mlp import DlrmModel, MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.processes.workbench import Workbench
from tasks.training.fit import fit
from tasks.training.optimizers import Adam
from tasks.training.schedules import Constant
from tasks.training.strategies import Pipeline
from tests.support.documents import added
from tests.support.fresh import in_fresh_process
from tests.support.homes import ROOT
from tests.support.tiny import CONFIG, write_hashes
from tests.support.training import raise_conflict

ROWS = 48
ROWS_JUDGED = 160
"""With fewer no loss can be shown to be within 2 points."""
LABEL = {"dtype": "int64", "shape": [], "classes": ["low", "high"]}
IMAGE = {"image": {"dtype": "uint8", "shape": [8, 8, 1]}, "label": LABEL}
SOUND = {"sound": {"dtype": "float32", "shape": [16, 4]}, "label": LABEL}
TABLE = {
    "categories": {"dtype": "int32", "shape": [2], "sizes": [4, 3]},
    "numbers": {"dtype": "float32", "shape": [2], "mean": [0.0, 1.0], "variance": [1.0, 4.0]},
    "label": LABEL,
}
TEXT = {"text": {"dtype": "uint16", "shape": [12], "vocabulary": 20, "padding": 0}, "label": LABEL}
TOKENS = {"tokens": {"dtype": "uint16", "shape": [17], "vocabulary": 20, "bos": 19}}

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "resnet": (ResNetModel(blocks=(1, 1), filters=8, groups=2), IMAGE),
    "vit": (ViTModel(patch=4, width=16, layers=1, heads=2, hidden=24), IMAGE),
    "dlrm": (DlrmModel(embedding=4, bottom=(8,), top=(16,)), TABLE),
    "mlp": (MlpModel(units=(16,), embedding=4), TABLE),
    "convnet1d": (Convnet1dModel(filters=(8, 8), window=3, dense=8), SOUND),
    "encoder": (EncoderModel(width=16, layers=1, heads=2, hidden=24), TEXT),
    "transformer": (TransformerModel(width=16, layers=1, heads=4, kv_heads=2, hidden=24), TOKENS),
    "experts": (TransformerModel(width=16, layers=2, heads=2, hidden=12, experts=4), TOKENS),
    "switch": (TransformerModel(width=16, layers=1, heads=2, hidden=12, experts=3, experts_per_token=1), TOKENS),
}
USUAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "resnet": (ResNetModel(blocks=(1, 1)), IMAGE),
    "vit": (ViTModel(layers=1), IMAGE),
    "dlrm": (DlrmModel(), {**TABLE, "categories": {"dtype": "int32", "shape": [2], "sizes": [5000, 9000]}}),
    "mlp": (MlpModel(), TABLE),
    "convnet1d": (Convnet1dModel(), SOUND),
    "encoder": (EncoderModel(layers=1), TEXT),
    "experts": (TransformerModel(layers=1, kv_heads=2, hidden=256, experts=4, experts_per_token=1), TOKENS),
}
"""Layers as wide as they usually are, and as few as suffice. The stock convnet is that of the digits, which learns, is
exported and is quantised by all tests of compression; several experts for a token are in `test_export_generation`."""

QUICK = ("dlrm", "mlp", "convnet1d")
"""Those whose graphs are compiled in a second or two."""


def built(kind: str, seed: int) -> Any:
    config, features = KINDS[kind]
    return config.build(features, seed)


def arrays(features: dict[str, Any], rows: int, seed: int) -> dict[str, np.ndarray]:
    """Examples whose class is plain to see in each input; rows of tokens count upwards.

    Of a table it is in the categories alone: that of the first one, in no order of its ids. Its numbers are noise.
    """
    random = np.random.default_rng(seed)
    label = np.arange(rows, dtype=np.int64) % 2
    made: dict[str, np.ndarray] = {}
    for name, feature in features.items():
        shape, side = (rows, *feature["shape"]), label.reshape(-1, *[1] * len(feature["shape"]))
        if name == "tokens":
            made[name] = ((np.arange(17) + random.integers(0, 19, (rows, 1))) % 19).astype(np.uint16)
        elif name == "label":
            made[name] = label
        elif name == "image":
            made[name] = (random.integers(0, 90, shape) + 120 * side).astype(np.uint8)
        elif "sizes" in feature:
            first = np.where(label, random.integers(1, 3, rows), 3 * random.integers(0, 2, rows))
            made[name] = np.stack([first, random.integers(0, 3, rows)], 1).astype(np.int32)
        elif "mean" in feature:
            made[name] = random.normal(size=shape).astype(np.float32)
        elif "vocabulary" in feature:
            made[name] = (random.integers(1, 8, shape) + 10 * side).astype(np.uint16)
        else:
            made[name] = (random.normal(size=shape) + 2 * side - 1).astype(np.float32)
    return made


def write(bench: Workbench, features: dict[str, Any]) -> Outcome:
    counts = {"train": ROWS, "validation": 8, "test": 8}
    for number, (split, count) in enumerate(counts.items()):
        index = np.arange(count)
        extra = {"origin": np.stack([index, index], 1), "pieces": np.stack([index, 0 * index, 0 * index + 1], 1)}
        for name, values in {**arrays(features, count, number), **extra}.items():
            buffer = io.BytesIO()
            np.save(buffer, values)
            bench.staging.put(f"{split}/{name}-00000-of-00001.npy", buffer.getvalue())
        write_hashes(bench, split, count)
    return Outcome(counts=counts, features=features)


def inputs(features: dict[str, Any], rows: int) -> dict[str, np.ndarray]:
    """What a served model reads."""
    given = {name: values for name, values in arrays(features, rows, 9).items() if name != "label"}
    served = {"text": np.int32, "tokens": np.int32}
    return {name: values.astype(served.get(name, values.dtype)) for name, values in given.items()}


def lost(task: str, features: dict[str, Any], before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How much worse other outputs are for each row: of a class whether it is wrong now, of tokens bits per token."""
    given = arrays(features, len(before), 9)
    if task == "classification":
        right, still = (outputs.argmax(-1) == given["label"] for outputs in (before, after))
        return right.astype(float) - still
    targets = given["tokens"][:, 1:, None].astype(np.int64)
    bits = [
        (np.log(np.exp(each).sum(-1)) - np.take_along_axis(each, targets, -1)[..., 0]).mean(-1) / np.log(2)
        for each in (before[:, :-1].astype(np.float64), after[:, :-1].astype(np.float64))
    ]
    return np.asarray(bits[1] - bits[0])


@pytest.mark.parametrize(
    "kind", [*QUICK, *(pytest.param(kind, marks=pytest.mark.slow) for kind in USUAL if kind not in QUICK)]
)
def test_a_kind_learns_is_exported_and_quantised_within_the_gates(
    kind: str, benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path
) -> None:
    model_config, features = USUAL[kind]
    snapshot = publish(Snapshot, (bench := benches("data")), write(bench, features))
    options = {"steps": 30, "batch_size": 16, "optimizer": Adam(), "learning_rate": 0.002, "evaluate_every": 30}
    model_bench = benches("model")
    fit(model_bench, snapshot, model_config, CONFIG.model_copy(update={**options, "schedule": Constant()}), seed=1)
    points: list[tuple[int, dict[str, float]]] = model_bench.journal.points  # type: ignore[attr-defined]
    [accuracy] = [metrics["validation/accuracy"] for _, metrics in points if "validation/accuracy" in metrics]
    assert accuracy > 0.9

    model, compressing = keras_file.load(model_bench.staging.root), CompressConfig()
    folder, file, small = tmp_path / "saved_model", tmp_path / "model.tflite", tmp_path / "int8.tflite"
    folder.mkdir()
    SavedModel.write(model, None, None, folder)
    LiteRT.write(model, None, folder, file)
    small.write_bytes(quantise.int8(file.read_bytes()))
    given, one = inputs(features, ROWS_JUDGED), inputs(features, 1)
    if "tokens" in one:
        one["tokens"] = one["tokens"][:, :7]
    expected = forward.predict(model, forward.Batch(given))
    largest = float(np.abs(expected).max())
    run = LiteRT(file, 1)
    difference = float(np.abs(run(given) - expected).max())
    assert gates.parity(difference, largest, compressing.max_difference).passed
    np.testing.assert_allclose(run(one), forward.predict(model, forward.Batch(one)), atol=1e-3)
    assert small.stat().st_size <= Int8Dynamic.size_ratio * file.stat().st_size
    losses = lost(model_config.task, features, expected, LiteRT(small, 1)(given))
    upper = Means(lambda values: values, mean, lowest=-np.inf).estimate(losses[:, None], None).ends(ONE_SIDED)[1]
    assert upper <= TASKS[model_config.task].default_quality_loss


def close(run: Any, model: Any, given: dict[str, Any]) -> bool:
    """Whether a file answers as its model."""
    expected = forward.predict(model, forward.Batch(given))
    difference = float(np.abs(run(given) - expected).max())
    return gates.parity(difference, float(np.abs(expected).max()), CompressConfig().max_difference).passed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_answers_alike_in_every_format(kind: str, tmp_path: Path) -> None:
    """LiteRT's file is that of the test above, which comes from the SavedModel; StableHLO's that of the one below."""
    model_config, features = KINDS[kind]
    model, given, paths = model_config.build(features, seed=1), inputs(features, 5), dict[str, Path]()
    for name in FORMATS.keys() - {"litert", "stablehlo"}:
        form = FORMATS[name]
        (tmp_path / name).mkdir()
        paths[name] = tmp_path / name / form.file
    for name in (name for name in FORMATS if name in paths):
        form = FORMATS[name]
        form.write(model, None, paths.get(form.parent or ""), paths[name])
        assert close(form(paths[name], 1), model, given), name


CONVERT = """
import pathlib, runpy, sys
form = runpy.run_path(sys.argv[1])["load_format"](sys.argv[2], "StableHlo")
for folder in map(pathlib.Path, sys.argv[3:]):
    form.convert(folder / "model.keras", folder / "model.stablehlo")
"""


@pytest.mark.slow
def test_every_kind_answers_alike_in_stablehlo(tmp_path: Path) -> None:
    """One process of JAX writes all: its start takes seconds."""
    models = {kind: built(kind, 1) for kind in KINDS}
    for kind, model in models.items():
        (tmp_path / kind).mkdir()
        FORMATS["keras"].write(model, None, None, tmp_path / kind / "model.keras")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    folders = [str(tmp_path / kind) for kind in KINDS]
    subprocess.run(
        [sys.executable, "-c", CONVERT, verify.__file__, stablehlo.__file__, *folders], env=environment, check=True
    )
    for kind, model in models.items():
        run = stablehlo.StableHlo(tmp_path / kind / "model.stablehlo", 1)
        assert close(run, model, inputs(KINDS[kind][1], 5)), kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_pure_function_whose_layers_have_names_of_ours(kind: str) -> None:
    one, other = (built(kind, 3) for _ in range(2))
    assert [operation.name for operation in one.operations] == [operation.name for operation in other.operations]
    assert [weight.path for weight in one.weights] == [weight.path for weight in other.weights]
    assert all(np.array_equal(a, b) for a, b in zip(one.get_weights(), other.get_weights(), strict=True))
    differ = built(kind, 4).get_weights()
    assert not all(np.array_equal(a, b) for a, b in zip(one.get_weights(), differ, strict=True))


@pytest.mark.parametrize("kind", ["resnet", "convnet1d", "encoder"])
def test_kernels_begin_as_the_initializer_of_that_name_has_it(kind: str) -> None:
    config, features = KINDS[kind]
    stock, other = (config.model_copy(update=more).build(features, 1) for more in ({}, {"initializer": "orthogonal"}))
    before, after = ({v.path: np.asarray(v) for v in model.weights} for model in (stock, other))
    changed = {path for path in before if not np.array_equal(before[path], after[path])}
    kernels = {path for path, values in before.items() if path.endswith("/kernel") and values.any()}
    assert changed == kernels - {"logits/kernel"} and changed
    matrix = after[min(changed)].reshape(-1, after[min(changed)].shape[-1])
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)


def test_grouped_queries_have_fewer_weights_and_one_group_each_is_the_stock_attention() -> None:
    stock, same, grouped = (
        TransformerModel(width=16, layers=1, heads=4, hidden=24, kv_heads=heads).build(TOKENS, 1)
        for heads in (None, 4, 1)
    )
    given = inputs(TOKENS, 2)["tokens"]
    assert np.array_equal(stock(given), same(given)) and grouped.count_params() < stock.count_params()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ResNetModel(filters=10, groups=4).fit_image(8, 8), "groups .* must divide the 10 filters"),
        (lambda: ResNetModel(blocks=(1,) * 5).fit_image(8, 8), "8 x 8 pixels have room for 4"),
        (lambda: ViTModel(patch=3).fit_image(8, 8), "patch .* must divide 8 x 8 pixels"),
        (lambda: ViTModel(patch=4).fit_image(8, 10), "patch .* must divide 8 x 10 pixels"),
        (lambda: ViTModel(patch=4).fit_image(10, 8), "patch .* must divide 10 x 8 pixels"),
        (lambda: ViTModel(width=18, heads=3), "width .* must divide by 4"),
        (lambda: TransformerModel(heads=4, kv_heads=3), "kv_heads .* must divide 4 heads"),
        (lambda: TransformerModel(experts=1), "experts .* there must be two at least"),
        (lambda: TransformerModel(experts=3, experts_per_token=4), "experts .* as many as experts_per_token, 4"),
        (lambda: TransformerModel(experts_per_token=1), "experts_per_token .* is ignored without experts"),
        (lambda: TransformerModel(balance_weight=0.1), "balance_weight .* is ignored without experts"),
        (
            lambda: TransformerModel(experts=4).fit_training(Pipeline(), remat=False),
            "balance_weight .*pipeline computes no loss but that of the outputs; set it to 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(Conflict, match=says):
        raise_conflict(make)


def test_an_input_of_another_form_is_refused() -> None:
    for model in (ResNetModel(), ViTModel()):
        with pytest.raises(Failed, match="it reads images; use kind: mlp"):
            model.build(SOUND, 1)
    with pytest.raises(Failed, match="convnet1d on image of shape"):
        Convnet1dModel().build(IMAGE, 1)
    with pytest.raises(Failed, match="every block halves the 16 steps, which have room for 4"):
        Convnet1dModel(filters=(4,) * 5).build(SOUND, 1)


TOY = added("tasks/models/architectures/toy.py")
ADDED = """
import json, os, re, sys
from pathlib import Path

sys.path.insert(0, os.getcwd())
import numpy as np

from tasks.config.compose import Config
from tasks.config.compose import validate
from tasks.config.reference import page
from tasks.errors import Refused
from tasks.models import MODELS, keras_file, models_for

values = {"name": "n", "train": {"steps": 7}, "model": {"kind": "toy", "width": 5, "initializer": "orthogonal"}}
config = validate(values)
assert MODELS["toy"](width=5, initializer="orthogonal") == config.model
assert models_for("image") == ("convnet", "mlp", "resnet", "vit", "toy", "import", "keras_file")
assert "ToyModel" in Config.model_json_schema()["$defs"]
assert "## model (toy)\\n\\nA perceptron with one hidden layer." in page()
assert "| `model.width` | integer (≥ 1) | `8` | Units of the hidden layer. |" in page()
distill = {"kind": "distill", "student": {"kind": "toy", "width": 2}, "fine_tune": {"steps": 2}}
assert validate({**values, "compress": {"methods": [[distill]]}}).compress.on_models[0].student_model.width == 2
for wrong, says in (
    ({"kind": "toys"}, "must be one of 'convnet', .*, 'convnet1d', 'toy', 'import', 'keras_file'"),
    ({"kind": "toy", "widht": 5}, "unknown key of model; did you mean model.width"),
):
    try:
        validate({**values, "model": wrong})
        raise AssertionError(wrong)
    except Refused as refused:
        assert re.search(says, str(refused)), refused

from tasks.artifacts import Snapshot
from tasks.training.fit import fit
from tests.support.benches import published, workbench
from tests.support.tiny import CONFIG, write_snapshot

bench, trained = workbench(Path("snapshot")), workbench(Path("model"))
snapshot = published(Snapshot, bench, write_snapshot(bench))
fit(trained, snapshot, config.model, CONFIG, seed=1)
model = keras_file.load(trained.staging.root)
assert [layer.name for layer in model.layers] == ["image", "image_rescale", "flat", "hidden", "logits"]
begun = config.model.build(snapshot.manifest["features"], 1)
assert not np.array_equal(model.get_layer("hidden").kernel, begun.get_layer("hidden").kernel)
print(json.dumps(json.loads((trained.staging.root / "architecture.json").read_bytes())["model"]))
"""


def test_an_architecture_is_added_by_one_class_in_one_file(tmp_path: Path) -> None:
    """It is in the schema, the reference, the errors and the students of a distillation, and is trained and loaded."""
    for folder in ("tasks", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/__init__.py").touch()
    (tmp_path / "tasks/models/architectures/toy.py").write_text(TOY)
    described = json.loads(in_fresh_process(ADDED, folder=tmp_path))
    assert described == {"initializer": "orthogonal", "kind": "toy", "task": "classification", "width": 5}
