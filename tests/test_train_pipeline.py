"""Training by stages on several devices: equal to one device, overlapping, each variable in its place, exact."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tasks.artifacts import Snapshot
from tasks.errors import Failed, Lost, Stopped
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.stages import balanced, cut, separators
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.runner.attempt import Attempt
from tasks.store.journal import read
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.segmented_steps import in_order
from tasks.training.fit import fit
from tasks.training.optimizers import AdamW, Sgd
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import OneDevice, Pipeline
from tests.support.tiny import CONFIG, MODEL, files
from tests.support.training import PLAIN, Training, distance, send, variables

TWO = Pipeline(devices=2, micro_batches=2)
HYBRID = Pipeline(devices=2, micro_batches=2, workers=2)
TOKENS = {"tokens": {"dtype": "uint16", "shape": [9], "vocabulary": 23, "bos": 0}}
TRANSFORMER = TransformerModel(width=8, layers=2, heads=2, hidden=10)
IMAGES = {
    "image": {"dtype": "uint8", "shape": [3, 4, 1]},
    "label": {"dtype": "int64", "shape": [], "classes": ["even", "odd"]},
}
LONG = {"steps": 400, "checkpoint": CheckpointConfig(every=50), "log_every": 10, "evaluate_every": 400}
MLP = MlpModel(units=(7, 6, 5), dropout=0.5)


@pytest.mark.parametrize(("precision", "accumulate", "tolerance"), [("float32", 2, 3e-7), ("float16", 1, 1e-4)])
def test_micro_batches_that_overlap_equal_those_one_after_the_other(
    trained: Callable[..., Workbench],
    apart: Callable[..., Workbench],
    precision: str,
    accumulate: int,
    tolerance: float,
    tmp_path: Path,
) -> None:
    """With dropout in both stages: the micro-batches have the masks, and leave the seeds, of `accumulate`."""
    options = {"optimizer": Sgd(), "clip_norm": 0.5, "steps": None, "epochs": 3, "precision": precision}
    serial = trained("serial", MODEL, accumulate=2 * accumulate, **options)
    piped = apart("piped", MODEL, accumulate=accumulate, strategy=TWO, **options)
    assert distance(serial, piped) < tolerance
    assert len([values for values in variables(piped) if values.dtype == np.int64 and values.shape == (2,)]) == 2, (
        "seeds"
    )
    points: Any = serial.journal
    losses = [values["validation/loss"] for _, values in points.points if "validation/loss" in values]
    piped_points = [point.metrics for point in read(tmp_path / "piped.jsonl")]
    assert losses == pytest.approx(
        [values["validation/loss"] for values in piped_points if "validation/loss" in values], rel=1e-3
    )


@pytest.mark.parametrize(
    ("options", "killed"),
    [
        pytest.param({"strategy": TWO, "precision": "float16"}, "its process", id="one"),
        pytest.param({"strategy": HYBRID, "steps": 300}, "rank 1 on .*", id="several"),
        pytest.param(
            {"strategy": HYBRID, "steps": 300, "precision": "float16", "accumulate": 2, "batch_size": 8},
            "rank 1 on .*",
            id="several-float16-accumulate",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_killed_and_stopped_it_ends_with_the_same_bytes(
    options: dict[str, Any], killed: str, training: Callable[[str], Training]
) -> None:
    """With dropout; of several processes the last one is killed, and the chief stopped."""
    options = {**LONG, **options}
    last = options["strategy"].workers - 1
    unbroken, broken = training("unbroken"), training("broken")
    unbroken(MODEL, **options)
    if last:
        rows = unbroken.measured["train/ranks"]
        assert [row["rank"] for row in rows] == [0, 1] and all(row["reducing_ms"] > 0 for row in rows)
    with pytest.raises(Lost, match=f"{killed} was killed by signal 9"):
        broken(MODEL, at=send(signal.SIGKILL, last, 60), **options)
    with pytest.raises(Stopped) as stopped:
        broken(MODEL, at=send(signal.SIGTERM, 0, 100), **options)
    assert stopped.value.saved == broken.on_disk
    broken(MODEL, **options)
    assert broken.went_on_from == stopped.value.saved
    assert files(broken.bench) == files(unbroken.bench)


def test_it_continues_what_one_device_began_and_the_reverse(
    trained: Callable[..., Workbench], apart: Callable[..., Workbench]
) -> None:
    options = {**LONG, "optimizer": Sgd()}
    whole = trained("whole", **options)
    with pytest.raises(Stopped):
        apart("parts", stop_after=1, **options)
    with pytest.raises(Stopped):
        apart("parts", stop_after=50, strategy=TWO, **options)
    assert distance(whole, apart("parts", **options)) < 3e-7


def in_process(folder: Path, function: Callable[..., Any], *arguments: Any, threads: int = 1) -> Any:
    """Call a function of this module in a compute process."""
    with ProcessLauncher(folder, threads).gang("test") as gang:
        work = Work(function, arguments)
        return gang.call(work, None, folder / "journal", limits=Limits(), on_report=lambda *_: None)


def step_by(strategy: Any, model_config: Any, features: dict[str, Any], optimizer: Any, precision: str) -> Any:
    """Return a step of a model whose weights are far from their initial zeros."""
    from tasks.training.engines.objectives import Classification, LanguageModel
    from tasks.training.engines.tensorflow.engine import POLICY, policy
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.step import Step

    with strategy.scope():
        with policy(POLICY[precision]):
            model = strategy.place(model_config.build(features, 3))
        random = np.random.default_rng(0)
        for weight in model.trainable_variables:
            weight.assign(weight + random.normal(0, 0.1, weight.shape).astype("float32"))
        built = make_optimizer(optimizer, model.trainable_variables, precision)
    objective = LanguageModel("cross_entropy") if features is TOKENS else Classification("cross_entropy")
    return Step(model, built, objective, clip_norm=0.5)


def batches(features: dict[str, Any], steps: int, rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    weight = random.uniform(0.5, 2, (steps, rows)).astype(np.float32)
    if features is TOKENS:
        return {"tokens": random.integers(0, 23, (steps, rows, 9)).astype(np.uint16), "weight": weight}
    images = random.integers(0, 256, (steps, rows, 3, 4, 1)).astype(np.uint8)
    return {"image": images, "label": random.integers(0, 2, (steps, rows)), "weight": weight}


def specs(batch: dict[str, np.ndarray]) -> dict[str, Any]:
    import tensorflow as tf

    return {name: tf.TensorSpec(values.shape[1:], values.dtype) for name, values in batch.items()}


def transformers(bench: Workbench, devices: int, precision: str) -> tuple[float, float]:
    """Return the differences of weights after three steps, and of outputs, between stages and one device."""
    import tensorflow as tf

    from tasks.training.group import Cluster

    batch, results = batches(TOKENS, 3, 4), []
    for config in (Pipeline(devices=devices, micro_batches=2), OneDevice()):
        strategy = config.create(Cluster())
        step = step_by(strategy, TRANSFORMER, TOKENS, Sgd(), precision)
        strategy.prepare(step, specs(batch))(batch, np.full(3, 0.1, np.float32))
        variables = [variable.value.numpy() for variable in step.model.variables]
        results.append((variables, step.model(tf.constant(batch["tokens"][0, :, :-1], tf.int32)).numpy()))
    (own, outputs), (expected, expected_outputs) = results
    difference = max(float(np.abs(a - b).max()) for a, b in zip(own, expected, strict=True))
    return difference, float(np.abs(outputs - expected_outputs).max())


@pytest.mark.parametrize(
    ("devices", "precision", "tolerance"),
    [(4, "float32", 3e-7), pytest.param(2, "float16", 2e-4, marks=pytest.mark.slow)],
)
def test_a_transformer_whose_first_and_last_stage_share_the_embedding_equals_one_device(
    devices: int, precision: str, tolerance: float, tmp_path: Path
) -> None:
    difference, outputs = in_process(tmp_path, transformers, devices, precision)
    assert difference < tolerance and outputs < 10 * tolerance


def pipelined(schedule: Any = "1f1b") -> tuple[Any, Any]:
    """Return a step of an mlp on two devices with three micro-batches, and a batch."""
    from tasks.training.group import Cluster

    strategy: Any = Pipeline(devices=2, micro_batches=3, schedule=schedule).create(Cluster())
    step = strategy.pipelined(step_by(strategy, MLP, IMAGES, AdamW(), "float32"))
    return step, {name: values[0] for name, values in batches(IMAGES, 1, 12).items()}


def traced(function: Callable[[Any], Any], batch: dict[str, np.ndarray]) -> list[Any]:
    """Return the operations of a function of a batch, in the order of tracing."""
    import tensorflow as tf

    signature = {name: tf.TensorSpec(values.shape, values.dtype) for name, values in batch.items()}
    concrete = tf.function(function, autograph=False).get_concrete_function(signature)
    operations: list[Any] = concrete.graph.get_operations()
    return operations


def places(bench: Workbench) -> dict[str, Any]:
    import tensorflow as tf

    step, batch = pipelined()
    inner = step.optimizer
    shapes = {tuple(v.shape): v.value.device[-5:] for v in step.model.trainable_variables if len(v.shape) == 2}
    # activations but those that are handed on
    shapes |= {(4, 12): "CPU:0", (4, 6): "CPU:1", (4, 5): "CPU:1", (4, 2): "CPU:1"}
    whole = traced(lambda batch: step(batch, lambda tensors: tensors), batch)
    wrong = [
        (op.type, op.name, op.device)
        for op in [*traced(step.sums, batch), *whole]
        for output in op.outputs
        if output.shape.rank is not None
        and tuple(output.shape) in shapes
        and op.type not in ("ReadVariableOp", "Placeholder", "Identity")
        and op.device[-5:] != shapes[tuple(output.shape)]
    ]
    return {
        "model": {variable.path: variable.value.device[-5:] for variable in step.model.variables},
        "optimizer": {variable.path: variable.value.device[-5:] for variable in inner.variables},
        "wrong": wrong,
        "threads": (
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
        ),
    }


def test_variables_slots_and_what_is_computed_of_them_are_on_the_device_of_their_stage(tmp_path: Path) -> None:
    found = in_process(tmp_path, places)
    assert found["wrong"] == []
    stages = {"dense0": "CPU:0", "dense1": "CPU:1", "dense2": "CPU:1", "logits": "CPU:1"}
    weights = {path: device for path, device in found["model"].items() if "seed" not in path}
    assert weights == {f"{layer}/{kind}": stages[layer] for layer in stages for kind in ("kernel", "bias")}
    assert sorted(device for path, device in found["model"].items() if "seed" in path) == ["CPU:0", "CPU:1", "CPU:1"]
    slots = {path.split("/")[1]: device for path, device in found["optimizer"].items()}
    for layer, device in stages.items():
        for kind in ("kernel", "bias"):
            assert {slots[f"{layer}_{kind}_momentum"], slots[f"{layer}_{kind}_velocity"]} == {device}
    assert found["threads"] == (1, 2), "one for each operation, and an operation of each device at once"


@pytest.mark.slow
def test_devices_share_the_threads_of_the_process(tmp_path: Path) -> None:
    assert in_process(tmp_path, places, threads=4)["threads"] == (2, 2)


def dependencies(bench: Workbench, schedule: str) -> dict[str, bool]:
    """Return which matrix products of a step wait for which; `F01` is stage 0, micro-batch 1, forward."""
    step, batch = pipelined(schedule)
    operations = traced(step.sums, batch)
    first, last = step.model.trainable_variables[0].shape, step.model.trainable_variables[-2].shape
    products = [op for op in operations if op.type == "MatMul"]
    shapes = {"F0": (4, first[1]), "F1": (4, last[1]), "B0": tuple(first), "B1": tuple(last)}
    found = {
        name: [op for op in products if tuple(op.outputs[0].shape) == shape and not op.get_attr("transpose_b")]
        for name, shape in shapes.items()
    }
    assert {name: len(ops) for name, ops in found.items()} == {"F0": 3, "F1": 3, "B0": 3, "B1": 3}
    named = {f"{name}{k}": op for name, ops in found.items() for k, op in enumerate(ops)}
    above = {name: everything_above(op) for name, op in named.items()}
    waits = {f"{a} {b}": named[a] in above[b] for a in named for b in named}
    return {**waits, "seeds": all(seeds_in_turn(operations, handle) for handle in seed_handles(operations))}


def seed_handles(operations: list[Any]) -> list[Any]:
    handles = {op.inputs[0].op.name: op.inputs[0] for op in operations if op.type == "AssignVariableOp"}
    assert len(handles) == 3, "a seed for each dropout"
    return list(handles.values())


def seeds_in_turn(operations: list[Any], handle: Any) -> bool:
    """Return whether each micro-batch reads a seed only after the one before has replaced it."""
    uses = [op for op in operations if op.inputs and op.inputs[0] is handle]
    replaced = [op for op in uses if op.type == "AssignVariableOp"]
    assert len(replaced) == 3 and len(uses) > 6
    above = {op: everything_above(op) for op in uses}
    turns = [sum(one in above[op] for one in replaced) for op in uses]
    return turns == sorted(turns) and {turns[uses.index(op)] for op in uses if op not in replaced} == {0, 1, 2}


def everything_above(operation: Any) -> set[Any]:
    """Return the operations that must be over before one can begin."""
    found: set[Any] = set()
    left = [operation]
    while left:
        one = left.pop()
        sources = {tensor.op for tensor in one.inputs} | set(one.control_inputs)
        left += sources - found
        found |= sources
    return found


@pytest.mark.parametrize(
    ("schedule", "at_once", "in_turn"),
    [
        (
            "gpipe",
            "F10 F01, F11 F02, F10 F02, B00 B11, B01 B12, B00 B12",
            "F00 F01, F01 F02, F10 F11, F00 F10, F12 B10, B10 B11, B00 B01, F12 B00, F02 B00",
        ),
        (
            "1f1b",
            "F10 F01, B10 F01, F11 B00, F11 F02, B11 B00, B11 F02, F12 B01, B12 B01",
            "F00 F01, F01 B00, B00 F02, F02 B01, B01 B02, F10 B10, B10 F11, F11 B11, B11 F12, F12 B12",
        ),
    ],
)
def test_stages_of_different_micro_batches_do_not_wait_for_each_other(
    schedule: str, at_once: str, in_turn: str, tmp_path: Path
) -> None:
    waits = in_process(tmp_path, dependencies, schedule)
    for pair in at_once.split(", "):
        assert not waits[pair] and not waits[" ".join(reversed(pair.split()))], pair
    assert [pair for pair in in_turn.split(", ") if not waits[pair]] == []
    assert waits["seeds"]


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (3, 2), (4, 4), (4, 16)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_every_pass_comes_once_and_after_what_it_needs(schedule: str, stages: int, micro_batches: int) -> None:
    done: list[tuple[int, bool, int]] = []
    kept = [0] * stages
    most = [0] * stages
    for stage, backward, k in in_order(schedule, stages, micro_batches):
        if backward:
            assert (stage, False, k) in done
            assert stage == stages - 1 or (stage + 1, True, k) in done
        else:
            assert stage == 0 or (stage - 1, False, k) in done
        done.append((stage, backward, k))
        kept[stage] += -1 if backward else 1
        most[stage] = max(most[stage], kept[stage])
    assert len(done) == len(set(done)) == 2 * stages * micro_batches
    for stage in range(stages):
        for backward in (False, True):
            turns = [k for at, way, k in done if (at, way) == (stage, backward)]
            assert turns == list(range(micro_batches)), "sums are added in one order by all schedules"
    in_flight = [micro_batches] * stages if schedule == "gpipe" else range(stages, 0, -1)
    assert most == [min(each, micro_batches) for each in in_flight]


def by_schedule(bench: Workbench, schedule: str, sleeping: bool) -> tuple[list[Any], float]:
    """Return the variables after steps of three stages, with dropout, and the fewest seconds of a step.

    Each stage may sleep 20 ms in a pass, in a function that TensorFlow takes for stateful.
    """
    import keras
    import tensorflow as tf

    from tasks.training.group import Cluster

    @tf.custom_gradient
    def slow(x: Any) -> Any:
        def nap(values: np.ndarray) -> np.ndarray:
            time.sleep(0.02)
            return values

        def after(values: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(nap, [values], values.dtype), values.shape)

        return after(x), after

    class Slow(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return slow(inputs) if sleeping else tf.identity(inputs)

        def compute_output_spec(self, inputs: Any) -> Any:
            return keras.KerasTensor(inputs.shape, inputs.dtype)

    class Model:
        @staticmethod
        def build(features: Any, seed: int) -> Any:
            keras.utils.set_random_seed(seed)
            inputs = keras.Input((3, 4, 1), name="image")
            x = keras.layers.Flatten()(inputs)
            for units in (7, 6, 2):
                x = Slow()(keras.layers.Dropout(0.2, seed=units)(keras.layers.Dense(units)(x)))
            return keras.Model(inputs, x)

    strategy = Pipeline(devices=3, micro_batches=6, schedule=schedule).create(Cluster())  # type: ignore[arg-type]
    step = step_by(strategy, Model, IMAGES, AdamW(), "float32")
    batch = batches(IMAGES, 1, 12)
    run, taken = strategy.prepare(step, specs(batch)), []
    for _ in range(5):
        started = time.perf_counter()
        run(batch, np.full(1, 0.1, np.float32))
        taken.append(time.perf_counter() - started)
    kept = [*step.model.variables, *step.optimizer.variables]
    return [variable.value.numpy() for variable in kept], min(taken[1:])


def test_both_schedules_compute_the_same_bits(tmp_path: Path) -> None:
    [first, second] = [in_process(tmp_path, by_schedule, name, False)[0] for name in ("gpipe", "1f1b")]
    assert len(first) > 20 and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_work_at_once_also_where_they_call_functions_with_side_effects(schedule: str, tmp_path: Path) -> None:
    """One after the other 36 passes would take 0.72 s; on three devices it is 16 of them, 0.32 s."""
    assert 0.3 < in_process(tmp_path, by_schedule, schedule, True)[1] < 0.55


def side_effects(bench: Workbench) -> list[tuple[str, list[bool]]]:
    """Return of each call of a function with side effects its device, and which of all calls come before it."""
    import keras
    import tensorflow as tf

    from tasks.training.group import Cluster

    class Noisy(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs + tf.ensure_shape(tf.numpy_function(lambda: np.float32(0), [], tf.float32), ())

    class Model:
        @staticmethod
        def build(features: Any, seed: int) -> Any:
            inputs = keras.Input((3, 4, 1), name="image")
            x = keras.layers.Flatten()(inputs)
            for units in (7, 2):
                x = Noisy()(keras.layers.Dense(units)(x))
            return keras.Model(inputs, x)

    strategy: Any = Pipeline(devices=2, micro_batches=3).create(Cluster())
    step = strategy.pipelined(step_by(strategy, Model, IMAGES, Sgd(), "float32"))
    operations = traced(step.sums, {name: values[0] for name, values in batches(IMAGES, 1, 12).items()})
    calls = [operation for operation in operations if operation.type == "PyFunc"]
    return [(call.device[-5:], [other in everything_above(call) for other in calls]) for call in calls]


def test_functions_with_side_effects_are_called_in_one_order_on_each_device(tmp_path: Path) -> None:
    """Also where their arguments are there from the beginning."""
    calls = in_process(tmp_path, side_effects)
    assert sorted(device for device, _ in calls) == ["CPU:0"] * 3 + ["CPU:1"] * 3
    for device in ("CPU:0", "CPU:1"):
        places = [place for place, (own, _) in enumerate(calls) if own == device]
        for number, place in enumerate(places):
            assert [calls[place][1][other] for other in places] == [True] * number + [False] * (3 - number)


def test_several_pipelines_equal_one_device_and_are_fed_the_same_batches(
    tiny: Snapshot, training: Callable[[str], Training], benches: Callable[[str], Workbench]
) -> None:
    """Two processes of two stages each, then three, then one device."""
    options = {"optimizer": Sgd(), "steps": 40, "batch_size": 12, "clip_norm": 0.5}
    options |= {"checkpoint": CheckpointConfig(every=5)}
    one, resized = benches("one"), training("resized")
    fit(one, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    for workers, step in ((2, 10), (3, 20)):
        with pytest.raises(Lost, match=f"rank {workers - 1} on .* was killed by signal 9"):
            layout = {"strategy": HYBRID.model_copy(update={"workers": workers})}
            resized(PLAIN, at=send(signal.SIGKILL, workers - 1, step), **options, **layout)
    fit(resized.bench, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    assert distance(one, resized.bench) < 3e-7
    assert files(one)["state/ledger.jsonl"] == files(resized.bench)["state/ledger.jsonl"]


def test_devices_and_micro_batches_are_in_the_layout() -> None:
    config = SimpleNamespace(train=SimpleNamespace(strategy=Pipeline(devices=3, micro_batches=5)))
    layout = Attempt.layout.fget(SimpleNamespace(config=config, threads=2, rendezvous=None))  # type: ignore[attr-defined]
    assert layout.pop("processor")
    assert layout == {"threads": 2, "strategy": "pipeline", "devices": 3, "micro_batches": 5}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"jit": True},
            "jit .True. XLA compiles for one device, and the variables of pipeline are on several; set it to false",
        ),
        ({"batch_size": 12}, "must divide by replicas x accumulate x micro_batches = 8; use 8 or 16"),
    ],
)
def test_what_cannot_be_pipelined_is_refused(options: dict[str, Any], says: str) -> None:
    values = {"steps": 3, "batch_size": 16, "accumulate": 2, "strategy": Pipeline(), **options}
    with pytest.raises(ValidationError, match=says):
        TrainConfig.model_validate(values)


def test_the_most_costly_stage_costs_as_little_as_possible() -> None:
    assert balanced([1, 1, 1, 9, 1, 1], 3) == [(0, 3), (3, 4), (4, 6)]
    assert balanced([5, 0, 0, 5], 2) == [(0, 1), (1, 4)]
    assert balanced([4, 3, 2], 3) == [(0, 1), (1, 2), (2, 3)]


def test_a_mask_is_computed_by_each_stage_and_an_embedding_costs_nothing() -> None:
    """By its weights the embedding of 900 tokens would be a stage of its own."""
    model = TRANSFORMER.build({"tokens": {**TOKENS["tokens"], "vocabulary": 900}}, 1)
    assert len(separators(model)) == 6, "after the embedding, attention and feed-forward of each block, the last norm"
    stages = cut(model, 3)
    assert [stage.reads for stage in stages] == [("tokens",), ("tokens",), ()]
    layers = [{weight.path.split("_")[0] for weight in stage.trainable_variables} for stage in stages]
    assert layers == [{"embedding/embeddings", "block0"}, {"block1"}, {"final", "embedding/embeddings"}]


@pytest.fixture
def own(tf: Any) -> Any:
    """A model without a graph."""
    import keras

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inputs = [keras.Input((4,), name="x")]
            self.first, self.second = keras.layers.Dense(3, "relu"), keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    model = Own()
    model(tf.ones((1, 4)))
    return model


def test_a_model_without_a_graph_lists_its_stages(own: Any, tf: Any) -> None:
    with pytest.raises(Failed, match="train.strategy.kind: pipeline of Own; a model is cut between the layers of its"):
        cut(own, 2)
    own.stages = [own.first, own.second]
    x = tf.random.normal((5, 4))
    stages = cut(own, 2)
    assert [len(stage.trainable_variables) for stage in stages] == [2, 2]
    outputs = stages[1](stages[0](None, {"x": x}, True), {"x": x}, True)
    assert np.array_equal(outputs, own(x))
    with pytest.raises(Failed, match="train.strategy.devices: 3; this model can be cut into 2 stages at most"):
        cut(own, 3)


def test_more_devices_than_stages_are_refused_when_the_model_is_built(apart: Callable[..., Workbench]) -> None:
    with pytest.raises(Failed, match="train.strategy.devices: 4; this model can be cut into 3 stages at most; use 3 d"):
        apart("four", strategy=Pipeline(devices=4, micro_batches=1))
