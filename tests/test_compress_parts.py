"""The arithmetic of compression: which weights go, how much is kept, what is rounded, and what is judged of a file."""

from __future__ import annotations

import errno
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flatbuffers
import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from scipy.special import expit, log_softmax, softmax

from tasks.artifacts import Model, Snapshot
from tasks.compression import keras_layers
from tasks.compression.config import CompressConfig, WantConfig
from tasks.compression.inputs import BATCH, TOKENS_OF_BATCH, MethodInputs, evenly
from tasks.compression.judgement import FrontEntry, choose
from tasks.compression.keras_layers import Constraint
from tasks.compression.litert import MIN_VALUES, Layer, with_int8_tables
from tasks.compression.methods import distill, low_rank, prune, qat
from tasks.compression.methods.low_rank import LowRank
from tasks.compression.methods.method import FineTune
from tasks.compression.methods.prune import Prune, PruneStructured
from tasks.compression.methods.qat import Qat
from tasks.compression.methods.quantise import fewest
from tasks.compression.search import Trial, _frozen, ask, space
from tasks.compression.variants import FloatForms, gzip_bytes, tolerance
from tasks.compression.verdicts import _front, by_slice, product, subject_of
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gating import Subject
from tasks.exporting import EVIDENCE
from tasks.models.architectures.mlp import MlpModel
from tasks.models.prunable import Group
from tasks.runner.starting_models import check_teacher
from tasks.store.files import write_arrays

TUNED = FineTune(steps=10)


def test_of_equal_sizes_the_faster_is_chosen_and_what_was_not_measured_misses_a_limit() -> None:
    def point(name: str, size: int, loss: float, latency: float | None, accepted: bool = True) -> FrontEntry:
        return FrontEntry(name, size, loss, latency, accepted)

    slow, fast = point("slow", 10, 0.0, 0.9), point("fast", 10, 0.01, 0.5)
    rejected, unknown = point("rejected", 5, 0.0, 0.1, accepted=False), point("unknown", 6, 0.0, None)
    want = WantConfig(bytes=20)
    for points, name in (([slow, fast], "fast"), ([slow, rejected], "slow"), ([slow, unknown], "unknown")):
        found = choose(points, want)
        assert found is not None and found.name == name
    by_latency = choose([unknown, slow], WantConfig(latency=0.9))
    assert by_latency is slow, "at the limit is within it"
    assert unknown.misses(WantConfig(latency=5)) == ["latency not measured of at most 5"]
    assert choose([rejected], want) is None


def test_examples_are_spread_over_the_whole_split() -> None:
    assert evenly(100, 5).tolist() == [0, 24, 49, 74, 99] and evenly(3, 10).tolist() == [0, 1, 2]


def test_batches_of_long_texts_have_fewer_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.compression import inputs as module

    def sizes(name: str, width: int) -> list[int]:
        rows = SimpleNamespace(values=np.zeros((40, width), np.int32))

        class Rows:
            def __len__(self) -> int:
                return len(rows.values)

            def __getitem__(self, key: Any) -> dict[str, Any]:
                return {name: rows.values[key]}

        monkeypatch.setattr(module, "input_arrays", lambda features, arrays: Rows())
        monkeypatch.setattr(module, "open_snapshot", lambda path: SimpleNamespace(arrays=lambda split: {}))
        snapshot: Any = SimpleNamespace(manifest={"features": {}}, path=Path())
        given: Any = MethodInputs(lambda name: Path(), "t", "l", snapshot, snapshot, SimpleNamespace(), None)  # type: ignore[arg-type]
        return [len(batch[name]) for batch in given.examples("train", 40)]

    assert sizes("numbers", 4) == [BATCH, 40 - BATCH]
    assert set(sizes("tokens", 256)) == {TOKENS_OF_BATCH // 256}
    assert set(sizes("tokens", 5000)) == {1}


def test_the_fewest_that_suffice_are_found_and_all_of_them_always_do() -> None:
    for most in range(9):
        for enough in range(most + 1):
            tried: list[int] = []

            def suffices(count: int, enough: int = enough, tried: list[int] = tried) -> bool:
                tried.append(count)
                return count >= enough

            assert fewest(most, suffices) == enough and most not in tried


def test_a_layer_is_selected_by_its_whole_name_as_it_is_written() -> None:
    import re

    layer = Layer("net/dense+1.x", "FULLY_CONNECTED", "net_1/dense_1/MatMul", (4, 8))
    assert re.search(layer.selector, "net/dense+1.x;") and not re.search(layer.selector, "net/denses1_x;")
    assert not re.search(layer.selector, "net/dense+1.x2;") and layer.said == "dense"


def test_the_limit_of_several_methods_is_the_product_of_theirs() -> None:
    methods: Any = [SimpleNamespace(size_ratio=0.5), SimpleNamespace(size_ratio=0.35)]
    assert product(methods, "size_ratio") == 0.175 and product([], "size_ratio") == 1.0


def test_a_float_form_keeps_to_the_configured_difference_and_a_quantised_one_to_its_own() -> None:
    config = CompressConfig(max_difference=1e-4)

    def outputs(difference: float, largest: float) -> Any:
        return SimpleNamespace(max_abs_difference=difference, largest=largest)

    method: Any = object()
    assert tolerance(config, None, outputs(5.0, 0.5)) == 1e-4
    assert tolerance(config, None, outputs(5.0, 100.0)) == pytest.approx(1e-2)
    assert tolerance(config, method, outputs(0.5, 1.0)) == 1.0 and tolerance(config, method, outputs(0.0, 1.0)) == 1e-4


def test_the_size_after_gzip_is_that_of_the_whole_file(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 9, 3_000_000, np.uint8).tobytes()
    (tmp_path / "file").write_bytes(content)
    size = gzip_bytes(tmp_path / "file")
    assert len(zlib.compress(content, 6)) - 100 < size < len(zlib.compress(content, 6)) + 100


def test_a_full_disk_is_no_property_of_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.compression import variants as module

    def converted(error: Exception) -> None:
        def write(*words: Any) -> None:
            raise error

        monkeypatch.setattr(module, "FORMATS", {"onnx": SimpleNamespace(parent=None, file="x", write=write)})
        monkeypatch.setattr(module, "functions_of", lambda *words: ())
        monkeypatch.setattr(module, "in_graph", lambda path: None)
        model: Any = SimpleNamespace(path=tmp_path)
        forms = FloatForms(SimpleNamespace(), model, model, None)  # type: ignore[arg-type]
        forms.__dict__["network"] = None
        forms.write("onnx", tmp_path)

    with pytest.raises(Failed, match="export.formats: onnx: no such operator"):
        converted(ValueError("no such operator"))
    with pytest.raises(OSError, match="No space left"):
        converted(OSError(errno.ENOSPC, "No space left on device"))


def test_the_slices_of_a_variant_have_its_own_values_and_what_it_lost() -> None:
    own, before = np.zeros((60, 1)), np.ones((60, 1))
    own[:40] = 1.0
    made = Subject("classification", ("accuracy", True), {"accuracy": own}, {"accuracy": before}, "float")
    [row] = by_slice(made, {"half": np.arange(60) % 2 == 0})
    assert (
        row["examples"] == 30 and row["value"] == pytest.approx(2 / 3) and row["loss"]["value"] == pytest.approx(1 / 3)
    )
    assert 0 < row["loss"]["low"] < row["loss"]["value"] < row["loss"]["high"] < 1
    error = Subject("regression", ("rmse", False), {"rmse": 4 * before}, {"rmse": before}, "float")
    [worse] = by_slice(error, {"all": np.ones(60, bool)})
    assert worse["value"] == 2.0 and worse["loss"]["value"] == 1.0, "of an error more is worse"


def test_a_measure_is_a_share_of_the_float_files(tmp_path: Path) -> None:
    write_arrays(tmp_path / EVIDENCE, {"own/accuracy": np.ones((2, 1)), "float/accuracy": np.zeros((2, 1))})

    def variant(name: str, size: int, gzip: int) -> Any:
        return SimpleNamespace(name=name, path=tmp_path, manifest={"statistics": {"bytes": size, "gzip_bytes": gzip}})

    form: Any = SimpleNamespace(methods=[SimpleNamespace(size_ratio=0.3, gzip_limit=1.0)])
    latency = {"peak_bytes": {"int8": 60, "litert": 0}, "settings": []}
    made = subject_of(
        "classification", form, variant("int8", 25, 20), variant("litert", 100, 80), {}, latency, EvaluateConfig()
    )
    assert {name: ratio.value for name, ratio in made.ratios.items()} == {"bytes": 0.25, "gzip_bytes": 0.25}
    assert made.measures == {"bytes": 25, "gzip_bytes": 20, "peak_bytes": 60} and made.limits["bytes"] == 0.3
    assert made.own["accuracy"].sum() == 2 and made.reference["accuracy"].sum() == 0
    latency["peak_bytes"] = {"int8": 60, "litert": 80}
    made = subject_of(
        "classification", form, variant("int8", 25, 20), variant("litert", 100, 80), {}, latency, EvaluateConfig()
    )
    assert made.ratios["peak_bytes"].value == 0.75


def test_a_rejected_variant_is_on_no_front_and_is_not_chosen() -> None:
    config = CompressConfig(want=WantConfig(bytes=100))
    described = {
        name: {"format": "litert", "bytes": size, "against_float": {"loss": 0.0}}
        for name, size in (("litert", 90), ("int8", 30))
    }
    made = _front(described, {"litert": [], "int8": []}, {"litert": "accepted", "int8": "rejected"}, {}, config)
    assert made["chosen"] == "litert" and made["front"]["int8"]["accepted"] is False and made["missed"] is None
    assert made["front"]["litert"]["dominated_by"] is None
    none = _front(described, {"litert": [], "int8": []}, dict.fromkeys(described, "rejected"), {}, config)
    assert none["chosen"] is None and none["missed"]


@pytest.mark.parametrize(("energy", "rank"), [(0.5, 1), (0.9, 2), (0.98, 2), (0.999, 3)])
def test_factors_keep_as_much_of_the_squares_as_is_asked_for(energy: float, rank: int) -> None:
    left, right = (np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0] for seed in (0, 1))
    values = np.array([8.0, 5.0, 1.0, 0, 0, 0])  # of the squares 64, 25 and 1 of 90
    kernel = (left * values @ right).astype(np.float32)
    first, second = low_rank.factors(kernel, LowRank(energy=energy, fine_tune=TUNED))
    assert second.shape[0] == rank
    kept = ((first @ second) ** 2).sum() / (kernel**2).sum()
    assert kept >= energy - 1e-5
    assert np.linalg.norm(first) == pytest.approx(np.linalg.norm(second), rel=1e-3), "each has the roots"


def test_only_layers_that_become_smaller_are_factored() -> None:
    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(8, name="logits")(keras.layers.Dense(8, name="dense0")(inputs)))
    config = MlpModel(units=(8,))
    made, weights = LowRank(rank=3, fine_tune=TUNED).prepare(config, model)
    assert made.ranks["dense0"] == 3 and weights["dense0/kernel"].shape == (3, 8)
    with pytest.raises(Failed, match="becomes smaller"):
        LowRank(rank=4, fine_tune=TUNED).prepare(config, model)  # 2 x 4 x 8 is as much as 8 x 8


def test_a_convolution_of_several_groups_is_left_as_it_is() -> None:
    inputs = keras.Input((8, 4))
    plain, grouped = (keras.layers.Conv1D(4, 3, groups=groups, name=f"groups{groups}") for groups in (1, 2))
    model = keras.Model(inputs, keras.layers.Dense(2, name="logits")(grouped(plain(inputs))))
    assert [layer.name for layer in low_rank.factorable(model)] == ["groups1", "logits"]


def test_the_average_of_pruned_weights_is_pruned_again() -> None:
    """Of `train.ema`, in which what was masked late is not 0."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="a")])
    architecture: Any = SimpleNamespace(model="before")
    made, weights = Prune(share=0.5, fine_tune=TUNED).finish(architecture, model)
    [kernel] = [value for path, value in weights.items() if path.endswith("kernel")]
    assert made == "before" and (kernel == 0).sum() == 8


def test_the_smallest_of_each_four_inputs_go_by_magnitude_and_of_equal_ones_the_first() -> None:
    kernel = np.array([[-9, 1], [1, -1], [-2, 1], [3, 1], [5, 0], [-6, 7], [7, -8], [8, 9]], np.float32)
    made = prune.two_of_four(kernel)
    assert made[:, 0].tolist() == [-9, 0, 0, 3, 0, 0, 7, 8] and made[:, 1].tolist() == [0, 0, 1, 1, 0, 0, -8, 9]
    assert kernel[1, 0] == 1, "the kernel itself stays"
    smaller = prune.smaller_two_of_four(keras.ops.convert_to_tensor(np.abs(kernel)))
    assert (np.asarray(smaller) == (made == 0) & (kernel != 0) | (kernel == 0)).all()
    convolution = np.random.default_rng(0).permutation(3 * 8 * 2).astype(np.float32).reshape(1, 3, 8, 2) + 1
    pruned = prune.two_of_four(convolution)
    smaller = prune.smaller_two_of_four(keras.ops.convert_to_tensor(convolution))
    assert (np.asarray(smaller) == (pruned == 0)).all() and (pruned[0, 1, :4, 0] == 0).sum() == 2


def test_a_share_is_of_all_kernels_together_or_of_each() -> None:
    small, large = np.full((2, 2), 0.1, np.float32), np.full((4, 2), 5.0, np.float32)
    first, second = prune.without_smallest([small, -large], 0.5)
    assert (first == 0).all() and (second == 0).sum() == 2 and second.min() == -5.0
    [alone] = prune.without_smallest([small], 0.6)
    assert (alone == 0).sum() == 2, "rounded down"


def test_what_does_not_divide_by_four_is_not_pruned_in_fours() -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, name="a"), keras.layers.Dense(4, name="b")])
    before = [layer.kernel.numpy() for layer in model.layers]
    Prune(pattern="2:4").change(model)
    assert (model.layers[0].kernel.numpy() == 0).mean() == 0.5 and (model.layers[1].kernel.numpy() == before[1]).all()
    groups = Prune(pattern="2:4").masked(model)
    assert [(len(group.layers), group.zeros) for group in groups] == [(1, 24)]
    whole, each = (Prune(share=0.3, scope=scope).masked(model) for scope in ("global", "layer"))
    assert [group.zeros for group in whole] == [21] and [group.zeros for group in each] == [14, 7]
    for without in (Prune(pattern="2:4").change, Prune(pattern="2:4").masked):
        with pytest.raises(Failed, match="inputs divide by 4"):
            without(keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)]))


def test_a_mask_keeps_the_models_own_constraint_and_what_was_masked() -> None:
    mask = keras.Variable(np.array([1.0, 0.0, 1.0], np.float32))
    made = Constraint(lambda values: values * 0 + 2.0, mask, None)(keras.ops.ones(3))
    assert np.asarray(made).tolist() == [2, 0, 2]
    layer: Any = SimpleNamespace(kernel=keras.Variable(np.array([[5.0, 1.0], [4.0, 3.0]], np.float32)))
    gone = keras.Variable(np.array([[0.0, 1.0], [1.0, 1.0]], np.float32))
    [kept] = keras_layers.smallest_masked(keras_layers.MaskedTogether([layer], 2), [gone], 2)
    assert np.asarray(kept).tolist() == [[0, 0], [1, 1]], "5 was masked before, and stays so"


def test_masks_are_complete_at_the_last_step_whatever_their_interval() -> None:
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(10, name="a")])
    layer = model.layers[0]
    keras_layers.add_masks(model, [keras_layers.MaskedTogether([layer], 60)], 103)
    zeros = []
    for _ in range(110):
        layer.kernel.assign(layer.kernel.constraint(layer.kernel))
        zeros.append(int((layer.kernel.numpy() == 0).sum()))
    assert zeros[102] == zeros[-1] == 60 and zeros == sorted(zeros) and 0 < zeros[10] < 30


def test_the_norm_of_a_unit_is_that_of_all_its_weights_times_the_scale_behind_it() -> None:
    weights = {
        "a/kernel": np.array([[3.0, 1.0], [4.0, 1.0]]),
        "b/kernel": np.array([[1.0, -2.0], [2.0, 2.0]]),
        "n/gamma": np.array([2.0, -1.0]),
    }
    group = Group(2, "a", "b")
    assert group.norms(weights, 1).tolist() == [7, 2] and group.norms(weights, 2) == pytest.approx([5, 2**0.5])
    scaled = Group(2, "a", "b", between="n")
    assert scaled.norms(weights, 1).tolist() == [6, 4] and scaled.norms(weights, 2) == pytest.approx([20**0.5, 8**0.5])
    gated = Group(1, "a", "b")  # one unit twice: its gate and its value
    assert gated.norms({**weights}, 1).tolist() == [9]


def test_units_that_stay_keep_their_order() -> None:
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, name="logits")(keras.layers.Dense(4, name="dense0")(inputs))
    model = keras.Model(inputs, outputs)
    kernel = np.array([[1, 8, 2, 9], [1, 8, 2, 9], [1, 8, 2, 9]], np.float32)
    model.get_layer("dense0").set_weights([kernel, np.arange(4, dtype=np.float32)])
    made, weights = PruneStructured(share=0.5, fine_tune=TUNED).prepare(MlpModel(units=(4,)), model)
    assert made.units == (2,) and weights["dense0/bias"].tolist() == [1, 3]
    assert weights["dense0/kernel"][0].tolist() == [8, 9] and weights["logits/kernel"].shape == (2, 2)
    with pytest.raises(Failed, match="leaves none out"):
        PruneStructured(share=0.05, fine_tune=TUNED).prepare(MlpModel(units=(4,)), model)


def test_divergences_are_those_of_the_distributions_at_a_temperature() -> None:
    random = np.random.default_rng(0)
    student, teacher = (random.normal(0, 2, (2, 3, 4)).astype(np.float32) for _ in range(2))
    own, other = log_softmax(student / 3, axis=-1), log_softmax(teacher / 3, axis=-1)
    each = 9 * (softmax(teacher / 3, axis=-1) * (other - own)).sum(axis=-1)
    assert np.asarray(distill.softmax_divergence(student, teacher, 3.0)) == pytest.approx(each.mean(axis=1), rel=1e-4)
    real = np.array([[1, 1, 0], [1, 0, 0]], np.float32)
    expected = (each * real).sum(axis=1) / real.sum(axis=1)
    assert np.asarray(distill.softmax_divergence(student, teacher, 3.0, real)) == pytest.approx(expected, rel=1e-4)
    assert np.asarray(distill.of_example(np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32))).tolist() == [0]
    p, q = expit(teacher[:, 0] / 3), expit(student[:, 0] / 3)
    labels = 9 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean(axis=1)
    found = np.asarray(distill.sigmoid_divergence(student[:, 0], teacher[:, 0], 3.0))
    assert found == pytest.approx(labels, rel=1e-3, abs=1e-5)
    a, b = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 5.0]], np.float32)
    assert np.asarray(distill.cosine_distance(a, b)).tolist() == pytest.approx([1.0], abs=1e-5)
    assert np.asarray(distill.cosine_distance(a, 3 * a)).tolist() == pytest.approx([0.0], abs=1e-5)


def test_weights_are_rounded_to_the_grid_of_each_output_channel() -> None:
    model = keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            keras.layers.DepthwiseConv2D(3, name="depth"),
            keras.layers.Conv2D(3, 2, name="conv"),
            keras.layers.Flatten(),
            keras.layers.Dense(2, name="dense"),
        ]
    )
    found = {each.layer.name: each for each in Qat(bits=4, fine_tune=TUNED).rounded(model)}
    assert {name: each.axes for name, each in found.items()} == {"depth": (0, 1), "conv": (0, 1, 2), "dense": (0,)}
    values = np.array([[7.0, 0.0], [-3.4, 0.0], [1.6, 0.0]], np.float32)
    made = np.asarray(qat.rounded(values, qat.Rounded(None, None, (0,), 4)))
    assert made.tolist() == [[7, 0], [-3, 0], [2, 0]]
    einsum = keras.layers.EinsumDense("abc,cde->abde", (None, 3, 2))
    einsum.build((None, 5, 4))
    assert qat.shared_axes(einsum) == (0,)


def test_a_search_tries_limits_below_the_default_and_draws_anew_for_each_trial() -> None:
    of = space("classification", CompressConfig(), "accuracy")
    limits = [getattr(method, "max_loss", None) for chain in of.file.values() for method in chain]
    losses = sorted(limit for limit in limits if limit is not None)
    assert losses == [0.0, 0.005]
    made = [Trial(number, {"file": "float16", "model": "none"}, f"t{number}", 10, 0.1) for number in range(6)]
    asked = {str(ask(made[:count], of, 3)) for count in range(7)}
    assert len(asked) > 3
    distributions: Any = {}
    assert _frozen(Trial(0, {}, "a", reason="unfit"), distributions).state.name == "FAIL"
    assert _frozen(Trial(0, {}, "a", 10, 0.5), distributions).values == [10.0, 0.5]


def test_a_teacher_whose_padding_is_another_teaches_other_positions() -> None:
    def artifact(kind: Any, padding: int) -> Any:
        features = {"tokens": {"vocabulary": 9, "bos": 8, "padding": padding}}
        manifest = {"features": features, "parents": {"snapshot": "s"}, "files": []}
        return kind("s" if kind is Snapshot else "m", Path(), "x", manifest)

    check_teacher(artifact(Model, 0), artifact(Snapshot, 0))
    with pytest.raises(Failed, match="whose tokens has padding 1"):
        check_teacher(artifact(Model, 1), artifact(Snapshot, 0))


class Lite:
    """A LiteRT model that is written operator by operator."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.buffers, self.model.operatorCodes = 3, [schema.BufferT()], []
        self.model.subgraphs, self.model.metadata = [], []

    def graph(self) -> Any:
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], np.array([], np.int32), []
        self.model.subgraphs.append(graph)
        return graph

    def buffer(self, values: np.ndarray) -> int:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def tensor(self, graph: Any, name: str, shape: tuple[int, ...], buffer: int = 0, kind: int = 0) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer, tensor.type = name.encode(), np.array(shape, np.int32), buffer, kind
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def operator(self, graph: Any, kind: int, inputs: list[int], outputs: list[int], axis: int | None = None) -> None:
        codes = [code.builtinCode for code in self.model.operatorCodes]
        if kind not in codes:
            code = schema.OperatorCodeT()
            code.builtinCode = code.deprecatedBuiltinCode = kind
            self.model.operatorCodes.append(code)
            codes.append(kind)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = (
            codes.index(kind),
            *(np.array(each, np.int32) for each in (inputs, outputs)),
        )
        if axis is not None:
            made.builtinOptionsType, made.builtinOptions = schema.BuiltinOptions.GatherOptions, schema.GatherOptionsT()
            made.builtinOptions.axis = axis
        graph.operators.append(made)

    def written(self) -> bytes:
        builder = flatbuffers.Builder()
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def gathered(graph: Any, lite: Lite, buffer: int, shape: tuple[int, ...], axis: int = 0, kind: int = 0) -> None:
    """A table, and a row or column of it that is the output."""
    ids = lite.tensor(graph, "ids", (2,), kind=schema.TensorType.INT32)
    table = lite.tensor(graph, "table", shape, buffer, kind)
    result = lite.tensor(graph, "result", (2, shape[1]), kind=kind)
    lite.operator(graph, schema.BuiltinOperator.GATHER, [table, ids], [result], axis)
    graph.inputs, graph.outputs = np.array([*graph.inputs, ids], np.int32), [*graph.outputs, result]


def test_large_tables_of_rows_become_int8_once_for_all_signatures_and_are_dequantised_behind() -> None:
    lite = Lite()
    values = np.random.default_rng(0).normal(0, 3, (300, 4)).astype(np.float32)
    shared, noughts = lite.buffer(values), lite.buffer(np.zeros((256, 4), np.float32))
    kept = lite.buffer(np.arange(3, dtype=np.float32))
    entry = schema.MetadataT()
    entry.name, entry.buffer = b"about", kept
    lite.model.metadata.append(entry)
    first, second = lite.graph(), lite.graph()
    gathered(first, lite, shared, (300, 4))
    gathered(first, lite, noughts, (256, 4))
    gathered(second, lite, shared, (300, 4))
    made = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(with_int8_tables(lite.written()), 0))
    kinds = {number: code.builtinCode for number, code in enumerate(made.operatorCodes)}
    found = []
    for graph in made.subgraphs:
        operators = [kinds[operator.opcodeIndex] for operator in graph.operators]
        pair = [schema.BuiltinOperator.GATHER, schema.BuiltinOperator.DEQUANTIZE]
        assert operators == pair * (len(operators) // 2)
        for gather, back in zip(graph.operators[::2], graph.operators[1::2], strict=True):
            table, between = graph.tensors[gather.inputs[0]], graph.tensors[gather.outputs[0]]
            assert back.inputs.tolist() == gather.outputs.tolist() and back.outputs[0] in graph.outputs
            assert (table.type, between.type, between.shape.tolist()) == (9, 9, [2, 4])
            assert graph.tensors[gather.inputs[1]].name == b"ids"
            [scale], [zero] = table.quantization.scale, table.quantization.zeroPoint
            assert between.quantization.scale.tolist() == [scale] and zero == between.quantization.zeroPoint[0] == 0
            integers = np.frombuffer(made.buffers[table.buffer].data.tobytes(), np.int8).reshape(table.shape)
            found.append((table.buffer, scale, integers))
    (one, scale, integers), (_, nought, zeros), (other, _, _) = found
    assert one == other, "a table of two signatures is in the file once"
    assert scale == pytest.approx(float(np.abs(values).max()) / 127) and np.abs(integers).max() == 127
    assert np.abs(integers * scale - values).max() <= scale / 2 + 1e-6
    assert nought == 1.0 and not zeros.any(), "a table of noughts has a scale as well"
    assert made.buffers[shared].data is None and made.buffers[noughts].data is None
    assert bytes(made.buffers[kept].data) == np.arange(3, dtype=np.float32).tobytes()


@pytest.mark.parametrize(
    ("rows", "axis", "kind", "constant"),
    [
        (MIN_VALUES // 4 - 1, 0, schema.TensorType.FLOAT32, True),
        (300, 1, schema.TensorType.FLOAT32, True),
        (300, 0, schema.TensorType.INT32, True),
        (300, 0, schema.TensorType.FLOAT32, False),
    ],
    ids=["small", "columns", "integers", "computed"],
)
def test_a_table_that_is_small_read_by_columns_of_integers_or_computed_stays(
    rows: int, axis: int, kind: int, constant: bool
) -> None:
    lite = Lite()
    dtype = np.int32 if kind == schema.TensorType.INT32 else np.float32
    graph, buffer = lite.graph(), lite.buffer(np.ones((rows, 4), dtype)) if constant else 0
    gathered(graph, lite, buffer, (rows, 4), axis, kind)
    content = lite.written()
    assert with_int8_tables(content) == content
    large = Lite()
    gathered(large.graph(), large, large.buffer(np.ones((MIN_VALUES // 4, 4), np.float32)), (MIN_VALUES // 4, 4))
    assert with_int8_tables(large.written()) != large.written(), "as many as that are enough"
