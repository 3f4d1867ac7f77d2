"""Compression of parts that are not alike: layers, groups, units and files of other sizes, and each of a closed set."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as of_keras

from tasks.artifacts import Model, Snapshot
from tasks.compression import changed, inputs, keras_layers, variants, verdicts
from tasks.compression.config import CompressConfig
from tasks.compression.inputs import MethodInputs
from tasks.compression.litert import MIN_VALUES, Layer
from tasks.compression.methods.low_rank import LowRank
from tasks.compression.methods.method import FineTune
from tasks.compression.methods.prune import Prune, PruneStructured
from tasks.compression.methods.qat import Qat
from tasks.compression.methods.quantise import Int8Selective
from tasks.compression.search import Trial, ask, on_front, space
from tasks.compression.verdicts import by_slice, subject_of
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gates import Ratio
from tasks.evaluation.gating import Subject
from tasks.evaluation.intervals import difference
from tasks.evaluation.metrics import Share
from tasks.exporting import EVIDENCE
from tasks.models.architectures.mlp import MlpModel
from tasks.models.prunable import Group
from tasks.runner import identities
from tasks.runner import starting_models as of_methods
from tasks.store.files import write_arrays

TUNED = FineTune(steps=10)
SHARE = Share(lambda values: values)


def test_each_kind_of_layer_with_a_kernel_is_compressed() -> None:
    def built(layer: Any, *shape: int) -> Any:
        layer.build((None, *shape))
        return layer

    made = [
        built(of_keras.Dense(3), 4),
        built(of_keras.EinsumDense("ab,bc->ac", 3), 4),
        built(of_keras.Conv1D(3, 2), 8, 4),
        built(of_keras.Conv2D(3, 2), 8, 8, 4),
        built(of_keras.Conv3D(3, 2), 8, 8, 8, 4),
        built(of_keras.DepthwiseConv2D(2), 8, 8, 4),
        built(of_keras.Embedding(9, 3)),
        built(of_keras.LayerNormalization(), 4),
        built(of_keras.EinsumDense("ab,b->ab", (4,)), 4),  # of one axis
        built(of_keras.Dense(2), 5),
    ]
    model: Any = SimpleNamespace(_flatten_layers=lambda: made)
    found = [type(layer).__name__ for layer in keras_layers.layers_with_kernels(model)]
    assert found == ["Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D", "Dense"]
    assert [kernel.shape for kernel in keras_layers.kernels(model)][2:4] == [(2, 4, 3), (2, 2, 4, 3)]


def test_factors_of_a_convolution_make_its_kernel() -> None:
    """Of a height and a width that are not equal; and what reads the factor is a convolution of one position."""
    random = np.random.default_rng(0)
    inputs = keras.Input((9, 9, 4))
    hidden = keras.layers.Conv2D(12, (2, 3), name="conv")(inputs)
    line = keras.layers.Conv1D(10, 3, name="line")(keras.layers.Reshape((-1, 12))(hidden))
    outputs = keras.layers.Dense(2, name="logits")(keras.layers.Flatten()(line))
    model = keras.Model(inputs, outputs)
    for name, rank in (("conv", 3), ("line", 2)):
        layer = model.get_layer(name)
        size, out = int(np.prod(layer.kernel.shape[:-1])), layer.kernel.shape[-1]
        product = random.normal(size=(size, rank)) @ random.normal(size=(rank, out))
        layer.kernel.assign(product.reshape(layer.kernel.shape))
    found, weights = LowRank(rank=3, fine_tune=TUNED).prepare(MlpModel(units=(4,)), model)
    assert found.ranks["conv"] == 3 and found.ranks["line"] == 3
    from tasks.compression.keras_layers import FACTOR

    assert weights[f"conv{FACTOR}/kernel"].shape == (2, 3, 4, 3) and weights["conv/kernel"].shape == (1, 1, 3, 12)
    assert weights[f"line{FACTOR}/kernel"].shape == (3, 12, 3) and weights["line/kernel"].shape == (1, 3, 10)
    for name in ("conv", "line"):
        first, second = weights[f"{name}{FACTOR}/kernel"], weights[f"{name}/kernel"]
        kernel = np.asarray(model.get_layer(name).kernel)
        assert first.reshape(-1, 3) @ second.reshape(3, -1) == pytest.approx(
            kernel.reshape(-1, kernel.shape[-1]), abs=1e-4
        )


def two_layers(trained: bool = True) -> tuple[keras.Model, list[Any]]:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(3, name="b")])
    first, second = model.layers
    random = np.random.default_rng(0)
    first.kernel.assign(random.normal(0, 0.1, (6, 4)))
    second.kernel.assign(random.normal(0, 1.0, (4, 3)))
    first.kernel.trainable = trained
    return model, [first, second]


def updated(layers: list[Any]) -> None:
    """Do what an optimizer does after an update."""
    for layer in layers:
        if layer.kernel.constraint is not None:
            layer.kernel.assign(layer.kernel.constraint(layer.kernel))


def test_masks_of_several_layers_are_of_all_their_weights_together_and_a_step_counts_once() -> None:
    model, layers = two_layers()
    before = np.concatenate([np.abs(layer.kernel.numpy()).ravel() for layer in layers])
    keras_layers.add_masks(model, [keras_layers.MaskedTogether(layers, 20)], 8)
    steps = []
    for _ in range(8):
        updated(layers)
        steps.append(int(next(each for each in model.pruning.weights if each.name == "step").numpy()))
    assert steps == list(range(1, 9))
    zero = np.concatenate([(layer.kernel.numpy() == 0).ravel() for layer in layers])
    expected = np.zeros(36, bool)
    expected[np.argsort(before, kind="stable")[:20]] = True
    assert (zero == expected).all() and zero[:24].sum() > zero[24:].sum()


def test_each_group_of_masks_has_its_own_number_of_zeros() -> None:
    model, layers = two_layers()
    together = [keras_layers.MaskedTogether([layer], zeros) for layer, zeros in zip(layers, (5, 8), strict=True)]
    keras_layers.add_masks(model, together, 4)
    for _ in range(6):
        updated(layers)
    assert [int((layer.kernel.numpy() == 0).sum()) for layer in layers] == [5, 8]


def test_masks_advance_where_the_first_layer_is_frozen() -> None:
    model, layers = two_layers(trained=False)
    keras_layers.add_masks(model, [keras_layers.MaskedTogether([layer], 6) for layer in layers], 4)
    for _ in range(4):
        updated(layers)
    assert int((layers[1].kernel.numpy() == 0).sum()) == 6 and layers[0].kernel.constraint is None


@pytest.mark.parametrize(("ramp", "steps", "reached"), [(0.5, 30, 15), (0.25, 30, 8), (1.0, 30, 30), (0.1, 2, 1)])
def test_zeros_become_more_for_the_share_of_the_steps_that_is_set(
    ramp: float, steps: int, reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(keras_layers, "add_masks", lambda model, groups, count: seen.append((len(groups), count)))
    model, _ = two_layers()
    Prune(scope="layer", ramp=ramp, fine_tune=FineTune(steps=steps)).attach(model)
    assert seen == [(2, reached)]


def test_each_layer_keeps_its_own_number_of_units() -> None:
    inputs = keras.Input((3,))
    wide = keras.layers.Dense(10, name="dense0")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="logits")(keras.layers.Dense(4, name="dense1")(wide)))
    config = MlpModel(units=(10, 4))
    made, weights = PruneStructured(share=0.3, fine_tune=TUNED).prepare(config, model)
    assert made.units == (7, 3)
    assert [weights[f"{name}/kernel"].shape for name in ("dense0", "dense1", "logits")] == [(3, 7), (7, 3), (3, 2)]
    for norm, order in (("l1", 1), ("l2", 2)):
        model.get_layer("dense0").kernel.assign(np.array([[3.0] * 9 + [2.0], [0.0] * 9 + [2], [0] * 10]))
        _, own = PruneStructured(share=0.1, norm=norm, fine_tune=TUNED).prepare(config, model)  # type: ignore[arg-type]
        kept = own["dense0/kernel"]
        assert (kept == 2.0).any() == (order == 1), "2 + 2 is more than 3, and the root of 8 is less"


def test_units_of_unequal_sections_are_taken_from_each_with_their_scale_and_offset() -> None:
    """Three heads: each two columns of queries, one of keys and one of values, and two rows of what reads it."""
    weights = {
        "qkv/kernel": np.arange(12.0)[None] + np.array([[0.0], [100.0]]),
        "qkv/bias": np.arange(12.0) * 10,
        "norm/gamma": np.arange(12.0) * 2,
        "norm/beta": np.arange(12.0) * 3,
        "out/kernel": np.arange(12.0).reshape(6, 2),
    }
    group = Group(3, "qkv", "out", (2, 1, 1), 2, between="norm")
    made = group.sliced(weights, np.array([0, 2]))
    columns = [0, 1, 4, 5, 6, 8, 9, 11]
    assert made["qkv/kernel"].tolist() == [columns, [100 + each for each in columns]]
    assert made["qkv/bias"].tolist() == [10 * each for each in columns]
    assert made["norm/gamma"].tolist() == [2 * each for each in columns]
    assert made["norm/beta"].tolist() == [3 * each for each in columns]
    assert made["out/kernel"][:, 0].tolist() == [0, 2, 8, 10]
    gated = Group(3, "gate", "out", (1,), 2)
    twice = gated.sliced({"gate/kernel": np.arange(6.0)[None], "out/kernel": weights["out/kernel"]}, np.array([1]))
    assert twice["gate/kernel"].tolist() == [[1, 4]] and twice["out/kernel"][:, 0].tolist() == [4, 6]


def test_tables_of_embeddings_are_rounded_as_they_are_quantised() -> None:
    width = 8
    tied, small, large = (
        of_keras.ReversibleEmbedding(5, 4, tie_weights=True, name="tied"),
        of_keras.Embedding(MIN_VALUES // width - 1, width, name="small"),
        of_keras.Embedding(MIN_VALUES // width, width, name="large"),
    )
    dense = of_keras.Dense(3, name="dense")
    for layer in (tied, small, large):
        layer.build()
    dense.build((None, 4))
    model: Any = SimpleNamespace(_flatten_layers=lambda: [tied, small, large, dense])
    found = {each.layer.name: (each.axes, each.bits) for each in Qat(bits=4, fine_tune=TUNED).rounded(model)}
    assert found == {"tied": ((1,), 4), "large": ((0, 1), 8), "dense": ((0,), 4)}


def noted(kept: list[Any], value: Any, answer: Any) -> Any:
    """Keep what was asked for, and answer."""
    kept.append(value)
    return answer


def rows_of(count: int) -> Any:
    class Rows:
        def __len__(self) -> int:
            return count

        def __getitem__(self, key: Any) -> dict[str, Any]:
            return {"numbers": np.arange(count)[key]}

    return Rows()


def given_of(**more: Any) -> MethodInputs:
    snapshot: Any = SimpleNamespace(manifest={"features": {}}, path=Path("snapshot"))
    records: Any = SimpleNamespace(path=Path("records"))
    values: dict[str, Any] = {"task": "classification", "loss": "own_loss", "evaluate": EvaluateConfig(), **more}
    return MethodInputs(
        lambda name: Path(name),
        values["task"],
        values["loss"],
        snapshot,
        records,
        values["evaluate"],
        values.get("limit"),
    )


def test_examples_of_every_batch_are_those_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(inputs, "input_arrays", lambda features, arrays: rows_of(1000))
    opened = SimpleNamespace(arrays=lambda split: noted(asked, split, {}))
    monkeypatch.setattr(inputs, "open_snapshot", lambda path: opened)
    batches = [batch["numbers"] for batch in given_of().examples("validation", 50)]
    assert [len(batch) for batch in batches] == [32, 18] and asked == ["validation"]
    assert np.concatenate(batches).tolist() == inputs.evenly(1000, 50).tolist()


def test_a_loss_on_a_split_is_against_the_float_file_there_by_the_loss_of_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, run = [], []

    def judge(task: str, split: Any, evaluate: Any, loss: str) -> Any:
        made.append((task, split, evaluate, loss))
        return SimpleNamespace(split=split, metrics={"accuracy": SHARE}, predictions=lambda kept: np.ones((10, 1)))

    def run_model(judge: Any, call: Any, *, name: str) -> Any:
        run.append((judge.split, call, name))
        return SimpleNamespace(kept=f"answers of {call}")

    compared: list[Any] = []
    monkeypatch.setattr(inputs, "SnapshotSplit", lambda snapshot, records, split: (str(snapshot), str(records), split))
    monkeypatch.setattr(inputs, "make_judge", judge)
    monkeypatch.setattr(inputs, "LiteRT", lambda path, threads: f"{path} on {threads}")
    monkeypatch.setattr(inputs, "run_model", run_model)
    monkeypatch.setattr(
        inputs, "compare", lambda task, judge, *both: noted(compared, both[:2], SimpleNamespace(loss=0.25))
    )
    of = given_of(limit=0.125)
    for split in ("validation", "test", "validation"):
        assert of.lost(split, "variant") == 0.25  # type: ignore[arg-type]
    where = [("snapshot", "records", split) for split in ("validation", "test")]
    assert made == [("classification", split, EvaluateConfig(), "own_loss") for split in where], "each split once"
    assert [(split[2], call) for split, call, _ in run] == [
        ("validation", "litert on 1"),
        ("validation", "variant"),
        ("test", "litert on 1"),
        ("test", "variant"),
        ("validation", "variant"),
    ]
    assert set(compared) == {("answers of litert on 1", "answers of variant")}
    assert of.limit("test") == 0.125


@pytest.mark.parametrize(("most", "limit", "kept"), [(None, 0.08, 2), (None, 0.2, 1), (0.0, 9.0, 3), (0.07, 0.0, 1)])
def test_the_most_sensitive_layers_stay_float_until_the_loss_is_within_half_of_the_limit(
    most: float | None, limit: float, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers a, b, c whose errors are 1, 9 and 4, in the second batch alone; with b float the loss is 0.06."""
    named = [Layer(name, "FULLY_CONNECTED", name, (1, 1)) for name in "abc"]
    errors, losses = {"a": 1.0, "b": 3.0, "c": 2.0}, {0: 0.3, 1: 0.06, 2: 0.03, 3: 0.0}

    def int8(content: bytes, but: Any) -> bytes:
        return ",".join(layer.name for layer in but).encode()

    class File:
        def __init__(self, path: Path, threads: int) -> None:
            self.floats = path.read_bytes().decode()

        def __call__(self, batch: Any) -> Any:
            wrong = (
                0.0
                if self.floats == "model"
                else sum(errors[name] for name in "abc" if name not in self.floats.split(","))
            )
            return np.full(2, wrong * batch)

    monkeypatch.setattr("tasks.compression.litert.with_int8_tables", lambda content: content)
    monkeypatch.setattr("tasks.compression.litert.layers_of", lambda content: named)
    monkeypatch.setattr("tasks.compression.methods.quantise.int8_but", int8)
    monkeypatch.setattr("tasks.exporting.formats.litert.LiteRT", File)
    (tmp_path / "litert").write_bytes(b"model")
    asked: list[Any] = []
    of: Any = SimpleNamespace(
        litert=tmp_path / "litert",
        examples=lambda split, count: noted(asked, (split, count), [0.0, 1.0]),
        limit=lambda split: limit,
        lost=lambda split, call: losses[len(call.floats.split(",")) if call.floats else 0],
    )
    made = Int8Selective(max_loss=most, examples=17).write(of)
    assert made.decode() == ",".join(["b", "c", "a"][:kept]) and asked == [("validation", 17)]


def test_a_measure_is_that_of_its_own_name(tmp_path: Path) -> None:
    write_arrays(tmp_path / EVIDENCE, {"own/accuracy": np.ones((2, 1)), "float/accuracy": np.zeros((2, 1))})

    def variant(name: str, size: int, gzip: int) -> Any:
        return SimpleNamespace(name=name, path=tmp_path, manifest={"statistics": {"bytes": size, "gzip_bytes": gzip}})

    methods = [SimpleNamespace(size_ratio=0.3, gzip_limit=0.7), SimpleNamespace(size_ratio=0.5, gzip_limit=0.9)]
    form: Any = SimpleNamespace(methods=methods)
    rows = [{"batch": 1, "threads": 1, "conclusive": True, "again": 1.0, "variants": {"int8": {"ratio": 0.625}}}]
    latency: Any = {"peak_bytes": {"int8": 60, "litert": 240}, "settings": rows}
    masks_of = {"some": np.array([True, False])}
    made = subject_of(
        "classification", form, variant("int8", 25, 20), variant("litert", 100, 50), masks_of, latency, EvaluateConfig()
    )
    assert made.ratios == {
        "bytes": Ratio(0.25),
        "gzip_bytes": Ratio(0.4),
        "peak_bytes": Ratio(0.25),
        "latency": Ratio(0.625),
    }
    assert made.measures == {"bytes": 25, "gzip_bytes": 20, "peak_bytes": 60}
    assert (
        made.limits == {"bytes": 0.15, "gzip_bytes": 0.63}
        and made.primary == ("accuracy", True)
        and made.masks is masks_of
    )


def test_a_slice_loses_by_its_own_examples() -> None:
    random = np.random.default_rng(0)
    before, own = (random.random((90, 1)) < 0.8).astype(float), (random.random((90, 1)) < 0.6).astype(float)
    masks_of = {"few": np.arange(90) < 25, "many": np.arange(90) >= 25}
    rows = by_slice(
        Subject("classification", ("accuracy", True), {"accuracy": own}, {"accuracy": before}, "float"), masks_of
    )
    for row, mask in zip(rows, masks_of.values(), strict=True):
        change = difference(SHARE, before[mask], own[mask])
        assert row["value"] == own[mask].mean() and row["loss"]["value"] == -change.value
        assert (row["loss"]["low"], row["loss"]["high"]) == (-change.high, -change.low)


def test_an_undecided_variant_is_on_the_front_with_its_own_latency() -> None:
    names = {"litert": (90, 0.0), "int8": (30, 0.02), "int4": (20, 0.01)}
    described = {
        name: {"format": "litert", "bytes": size, "against_float": {"loss": loss}}
        for name, (size, loss) in names.items()
    }
    described["onnx"] = {"format": "onnx", "bytes": 1, "against_float": {"loss": 0.0}}
    standing = {"litert": "accepted", "int8": "undecided", "int4": "rejected", "onnx": "accepted"}
    ratios = {"litert": {"ratio": 1.25}, "int8": {"ratio": 0.5}, "int4": {"ratio": 0.75}}
    latency = {"settings": [{"threads": 1, "conclusive": True, "again": 1.0, "variants": ratios}]}
    made = verdicts._front(described, {name: [] for name in described}, standing, latency, CompressConfig())
    front = {name: (each["accepted"], each["latency"], each["loss"]) for name, each in made["front"].items()}
    assert front == {"litert": (True, 1.0, 0.0), "int8": (True, 0.5, 0.02), "int4": (False, 0.75, 0.01)}
    assert made["front"]["int8"]["dominated_by"] is None and made["chosen"] is made["want"] is None


def test_a_search_draws_by_its_seed() -> None:
    of = space("classification", CompressConfig(), "accuracy")
    firsts = {str(ask([], of, seed)) for seed in range(8)}
    assert len(firsts) > 3 and ask([], of, 3) == ask([], of, 3)


def test_the_front_of_a_search_has_its_trials_from_the_smallest_on() -> None:
    def trial(number: int, name: str, size: int | None, loss: float | None) -> Trial:
        return Trial(number, {"file": name, "model": "none"}, name, size, loss)

    trials = [
        trial(0, "large", 90, 0.0),
        trial(1, "small", 20, 0.3),
        trial(2, "middle", 50, 0.1),
        trial(3, "worse", 60, 0.1),
        trial(4, "small", 20, 0.3),
        trial(5, "unfit", None, None),
    ]
    assert [each.name for each in on_front(trials)] == ["small", "middle", "large"]


def test_what_a_search_loses_is_of_validation_by_the_loss_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(variants, "architecture", lambda path: {"model": {"task": "regression"}, "loss": "mae"})
    monkeypatch.setattr(variants, "SnapshotSplit", lambda snapshot, records, split: (snapshot, records, split))
    monkeypatch.setattr(variants, "make_judge", lambda *given: seen.update(judge=given) or "judge")
    monkeypatch.setattr(variants, "open_variant", lambda *given: seen.update(variant=given) or "call")
    monkeypatch.setattr(variants, "read_kept", lambda *given: seen.update(kept=given) or "float")
    monkeypatch.setattr(variants, "run_model", lambda *given, **more: SimpleNamespace(kept="own"))
    monkeypatch.setattr(variants, "compare", lambda *given: seen.update(compared=given) or SimpleNamespace(loss=0.5))
    bench: Any = SimpleNamespace(threads=3, progress=None)
    variant: Any = SimpleNamespace(path="variant", manifest={"statistics": {"format": "onnx"}})
    model, snapshot, records = (SimpleNamespace(path=name) for name in ("model", "snapshot", "records"))
    evaluate = EvaluateConfig(bins=7)
    assert variants.lost_on_validation(bench, variant, model, snapshot, records, "report", evaluate) == 0.5  # type: ignore[arg-type]
    assert seen["judge"] == ("regression", ("snapshot", "records", "validation"), evaluate, "mae")
    assert seen["variant"] == ("variant", "onnx", 3) and seen["kept"] == ("report", "validation", "judge")
    assert seen["compared"][:4] == ("regression", "judge", "float", "own")


class Kept(list[Any]):
    """Keeps the arguments of calls."""

    def __call__(self, *given: Any, **more: Any) -> Any:
        self.append((*given, more) if more else given)
        return "made"


@pytest.mark.parametrize("seed", [0, 7])
def test_a_prepared_model_has_the_seed_that_it_is_built_with(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 0 as well; what is changed at once keeps that of its model."""
    plan = {"features": "features", "seed": 5, "loss": "mae", "model": {}}
    built, written = Kept(), Kept()
    network: Any = SimpleNamespace(variables=[])
    prepared = SimpleNamespace(build=lambda *given: built(*given) and network)
    method: Any = SimpleNamespace(prepare=lambda *given: (prepared, {}), change=lambda *given: None)
    for name, stub in {
        "architecture": lambda path: plan,
        "load": lambda path: network,
        "config_of": lambda model: "config",
        "save": lambda *given: written(*given) and {},
    }.items():
        monkeypatch.setattr(changed, name, stub)
    monkeypatch.setattr("tasks.models.layers.count_weights", lambda network: 5)
    zeros = [np.array([0.0, 1.0, 0.0]), np.array([[0.0, 2.0]])]
    monkeypatch.setattr(keras_layers, "kernels", lambda network: zeros)
    monkeypatch.setattr(changed.Usage, "of_model", lambda folder: SimpleNamespace(write=lambda staging: None))
    bench: Any = SimpleNamespace(staging="staging")
    model: Any = SimpleNamespace(path=Path(), manifest={"counts": {"train": 9}, "steps": 30})
    outcome = changed.prepare(bench, method, model, seed)
    assert built == [("features", seed)]
    assert written.pop() == (network, "staging", prepared, "features", seed, "mae")
    assert outcome.counts == {"train": 9, "parameters": 5, "zeros": 3} and outcome.also["steps"] == 30
    changed.build(bench, method, model)
    assert written.pop()[3:] == ("features", 5, "mae")


def test_a_training_of_a_method_has_a_name_of_its_own_and_begins_with_what_was_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Bench:
        journal: Any
        measure: Any

    fitted = Kept()
    monkeypatch.setattr("tasks.training.fit.fit", fitted)
    described: Any = SimpleNamespace(task="classification", model_copy=lambda update: ("described", update))
    monkeypatch.setattr(changed, "config_of", lambda model: described)
    monkeypatch.setattr(changed, "architecture", lambda path: {"model": {"task": path.name}})
    measured = Kept()
    bench: Any = Bench(SimpleNamespace(of=lambda name: f"journal of {name}"), measured)

    def stored(name: str) -> Any:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").touch()
        return SimpleNamespace(path=tmp_path / name)

    prepared, teacher = stored("prepared"), stored("classification")
    call: Any = changed.train
    for taught, given_to in ((None, described), (teacher, ("described", {"teacher": str(teacher.path)}))):
        assert call(bench, "prune", "examples", prepared, taught, "config", 7) == "made"
        own, *rest = fitted.pop()
        assert own.journal == "journal of prune"
        assert rest == ["examples", given_to, "config", 7, {"start": prepared}]
        own.measure("goodput", 3)
        assert measured.pop() == ("prune/goodput", 3)
    with pytest.raises(Failed, match="a teacher of the task tagging"):
        call(bench, "prune", "examples", prepared, stored("tagging"), "config", 7)


@pytest.mark.parametrize("kind", ["classes", "sizes", "vocabulary", "bos", "padding"])
def test_a_teacher_of_other_meanings_in_any_respect_is_refused(kind: str) -> None:
    def artifact(made: Any, **other: Any) -> Any:
        same = {"classes": ["a"], "sizes": [3], "vocabulary": 9, "bos": 8, "padding": 0}
        features = {"first": same, "second": {**same, **other}}
        manifest = {"features": features, "parents": {"snapshot": "s"}, "files": []}
        return made("s" if made is Snapshot else "m", Path(), "x", manifest)

    of_methods.check_teacher(artifact(Model), artifact(Snapshot))
    with pytest.raises(Failed, match=f"second has {kind} other"):
        of_methods.check_teacher(artifact(Model, **{kind: "other"}), artifact(Snapshot))


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The stages that are asked for, each of which makes a model of its number."""
    asked: list[dict[str, Any]] = []

    def run_stage(stage: str, kind: Any, identity: Any, work: Any, **more: Any) -> Any:
        asked.append({"stage": stage, "identity": identity, "work": work, **more})
        return Model(str(len(asked)) * 64, Path(), "model")

    monkeypatch.setattr(of_methods, "run_stage", run_stage)
    for name in ("prepared", "retrained", "changed"):
        monkeypatch.setattr(identities, name, lambda *given, name=name: (name, *given))
    return asked


@pytest.mark.parametrize("seed", [0, 7])
def test_a_method_that_trains_is_prepared_trained_and_finished_of_one_another(
    seed: int, stages: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(of_methods, "check_strategy", checked.append)
    prune_slowly = Prune(fine_tune=FineTune(steps=9))
    from tasks.config.compose import load
    from tests.support.homes import DIGITS

    train = load(DIGITS).train
    before, examples = Model("m" * 64, Path(), "model"), Snapshot("s" * 64, Path(), "snapshot")
    of_methods.change_model(prune_slowly, before, examples, "prune", train, seed)
    prepared, trained, finished = stages
    first, second = (Model(number * 64, Path(), "model") for number in "12")
    assert prepared["identity"] == ("prepared", before, examples, prune_slowly, seed)
    assert prepared["work"].arguments == (prune_slowly, before, seed) and prepared["name"] == "prune-prepared"
    config = trained["work"].arguments[4]
    assert trained["work"].arguments == ("prune", examples, first, None, config, seed)
    assert trained["identity"] == ("retrained", first, examples, config, seed, None)
    assert config.steps == 9 and config.init.model == first.digest
    assert (trained["roles"], trained["restarts"]) == (config.roles, config.restarts)
    assert trained["keep"][1] == "ledger-prune.jsonl"
    trained["prepare"]()
    assert checked == [config]
    assert finished["work"].arguments == (prune_slowly, second) and finished["work"].function is changed.finish
    assert finished["identity"] == ("changed", second, examples, prune_slowly)


def test_a_model_is_changed_at_once_where_a_method_does_not_train(stages: list[dict[str, Any]]) -> None:
    before, examples = Model("m" * 64, Path(), "model"), Snapshot("s" * 64, Path(), "snapshot")
    of_methods.change_model(Prune(), before, examples, "prune", None, 7)  # type: ignore[arg-type]
    [only] = stages
    assert only["work"].function is changed.build and only["work"].arguments == (Prune(), before)
    assert (only["name"], only["identity"]) == ("prune-model", ("changed", before, examples, Prune()))
