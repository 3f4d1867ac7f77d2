"""Every optimizer of Keras by its name: its own arguments, the same bytes after a resume, averages, rates by layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict
from tasks.errors import Failed, Stopped
from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.processes.workbench import Workbench
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Engine
from tasks.training.fit import fit, make_engine
from tasks.training.group import Cluster
from tasks.training.loop import make_plan
from tasks.training.optimizers import AdamW, Lamb, Muon, Optimizer, Sgd
from tasks.training.schedules import Constant, RateScaling, Schedule, ScheduleConfig
from tasks.training.strategies import ParameterServer
from tests.support.tiny import CONFIG, MODEL, files, stopping_after
from tests.support.training import raise_conflict

NOT_OFFERED = {
    "LossScaleOptimizer": "made by train.precision float16",
    "MultiOptimizer": "several optimizers; train.layer_rates and Muon serve",
    "ScheduleFreeAdamW": "its evaluations need other weights than its steps",
}
OF_EVERY_OPTIMIZER = {
    *("name", "learning_rate", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum", "kwargs", "self"),
    *("ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps"),
}
"""Arguments that `train` has other settings for, or none."""
ARGUMENTS_NOT_OFFERED = {
    "exclude_embeddings": "embeddings are vectors by number, which Muon is not for",
    "muon_a": "coefficients of one polynomial, of which ns_steps changes the number of applications",
    "muon_b": "as muon_a",
    "muon_c": "as muon_a",
}
DECAYS = {"weight_decay": 0.1}
OPTIMIZERS = Optimizer.kinds()


@pytest.fixture(scope="module")
def snapshot(tiny: Snapshot) -> SnapshotReader:
    return open_snapshot(tiny.path)


def engine_of(snapshot: SnapshotReader, **options: Any) -> Engine:
    config = CONFIG.model_copy(update=options)
    plan = make_plan(config, snapshot.counts["train"], (config.steps,))
    return make_engine(config, MODEL, snapshot, plan, 5, Cluster())


def rates(start: int, stop: int, schedule: Schedule = CONFIG.schedule) -> np.ndarray:
    return make_plan(CONFIG.model_copy(update={"schedule": schedule}), 10, ()).rates(start, stop)


def advanced(engine: Engine, start: int, stop: int, schedule: Schedule = CONFIG.schedule) -> Arrays:
    """The state after steps [start, stop), and the weights."""
    engine.seek(start)
    engine.step(rates(start, stop, schedule))
    state = {**engine.state(), **{f"weights/{name}": values for name, values in engine.weights().items()}}
    engine.close()
    return state


def test_every_optimizer_that_keras_has_is_offered_or_has_a_reason() -> None:
    named = {name for name in dir(keras.optimizers) if inspect.isclass(getattr(keras.optimizers, name))}
    theirs = {name for name in named if issubclass(getattr(keras.optimizers, name), keras.optimizers.Optimizer)} - {
        "Optimizer"
    }
    assert theirs - NOT_OFFERED.keys() == {config.keras_class for config in OPTIMIZERS.values()}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_settings_are_arguments_of_keras_with_its_defaults(kind: str) -> None:
    config: Optimizer = OPTIMIZERS[kind]()
    theirs = inspect.signature(getattr(keras.optimizers, config.keras_class).__init__).parameters
    own = config.arguments()
    assert own.keys() <= theirs.keys()
    others = OF_EVERY_OPTIMIZER | ARGUMENTS_NOT_OFFERED.keys()
    assert theirs.keys() - own.keys() - others <= {*config.layers.values()}
    assert {*config.layers.values()} <= theirs.keys()
    chosen = {"relative_step", "weight_decay", "adam_weight_decay", "epsilon_1"}
    assert {name: value for name, value in own.items() if name not in chosen} == {
        name: theirs[name].default for name in own.keys() - chosen
    }


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_resumed_optimizer_takes_the_same_steps(kind: str) -> None:
    """What an engine saves, the optimizer's variables, is all that one of another process needs."""
    from tasks.training.engines.tensorflow.optimizers import make_optimizer

    random = np.random.default_rng(1)
    shapes = {"first/kernel": (4, 3), "first/bias": (3,), "second/kernel": (3, 2), "second/bias": (2,)}
    start = [random.normal(size=shape).astype(np.float32) for shape in shapes.values()]
    gradients = [[random.normal(size=each.shape).astype(np.float32) for each in start] for _ in range(4)]
    more = {"amsgrad": True} if kind == "adamw" else {}

    def begun(values: list[np.ndarray]) -> tuple[list[keras.Variable], keras.optimizers.Optimizer]:
        made = [keras.Variable(value, name=path.replace("/", "_")) for value, path in zip(values, shapes, strict=True)]
        paths = [*shapes]
        return made, make_optimizer(OPTIMIZERS[kind](**DECAYS, **more), made, paths=paths, ema=0.9)

    def advance(optimizer: keras.optimizers.Optimizer, start: int, stop: int) -> None:
        for step in range(start, stop):
            optimizer.learning_rate.assign(0.01 * (step + 1))
            optimizer.apply([keras.ops.convert_to_tensor(each) for each in gradients[step]])

    def arrays(of: Any) -> list[np.ndarray]:
        return [np.array(each) for each in of]

    variables, whole = begun(start)
    advance(whole, 0, 2)
    saved, slots = arrays(variables), arrays(whole.variables)
    advance(whole, 2, 4)
    others, resumed = begun(saved)
    for variable, value in zip(resumed.variables, slots, strict=True):
        variable.assign(value)
    advance(resumed, 2, 4)
    pairs = zip(arrays(variables + whole.variables), arrays(others + resumed.variables), strict=True)
    assert all(np.array_equal(expected, got) for expected, got in pairs)
    assert not any(np.array_equal(one, other) for one, other in zip(saved, arrays(variables), strict=True)), "all move"


@pytest.mark.parametrize("kind", ["adamw", "nadam"])
def test_a_resumed_engine_takes_the_same_steps(kind: str, snapshot: SnapshotReader) -> None:
    options: dict[str, Any] = {"optimizer": OPTIMIZERS[kind](**DECAYS), "ema": 0.9}
    whole = engine_of(snapshot, **options)
    whole.seek(0)
    whole.step(rates(0, 2))
    saved = whole.state()
    expected = advanced(whole, 2, 4)
    resumed = engine_of(snapshot, **options)
    resumed.load(saved)
    got = advanced(resumed, 2, 4)
    assert got.keys() == expected.keys() and all(np.array_equal(got[name], expected[name]) for name in expected)
    moved = [name for name in expected if name.startswith("model/") and not np.array_equal(saved[name], expected[name])]
    assert len(moved) >= 6, "every kernel and bias moves"


def test_weight_decay_leaves_vectors_and_named_layers(snapshot: SnapshotReader) -> None:
    """Without a gradient only the decay moves weights."""

    def moved(config: Optimizer) -> list[str]:
        from tasks.training.engines.tensorflow.optimizers import make_optimizer

        paths = {"hidden_0/kernel": (3, 4), "hidden_0/bias": (4,), "logits/kernel": (4, 2)}
        variables = []
        for path, shape in paths.items():
            with keras.name_scope(path.partition("/")[0]):
                variables.append(keras.Variable(np.ones(shape, np.float32), name=path.partition("/")[2]))
        optimizer = make_optimizer(config, variables)
        optimizer.apply([np.zeros(shape, np.float32) for shape in paths.values()])
        return [variable.path for variable in variables if not np.array_equal(variable, np.ones(variable.shape))]

    assert moved(AdamW()) == ["hidden_0/kernel", "logits/kernel"]
    assert moved(Sgd(weight_decay=0.1, no_decay=("log*",))) == ["hidden_0/kernel"]
    assert moved(Sgd()) == []
    with pytest.raises(Failed, match="train.optimizer.no_decay: nope; names no layer that is trained; use names of"):
        moved(Sgd(weight_decay=0.1, no_decay=("nope",)))
    with pytest.raises(Conflict, match="is ignored where nothing decays"):
        raise_conflict(lambda: Sgd(no_decay=("log*",)))


@pytest.mark.parametrize(
    ("layers", "by_adam"),
    [
        (("logits",), {"logits/kernel"}),
        (("*attention*",), {"block_0/attention/query/kernel", "block_0/attention/out/kernel"}),
        (("block_0/mlp", "logits_2"), {"block_0/mlp/kernel", "logits_2/kernel"}),
        ((), set()),
    ],
)
def test_muon_updates_the_layers_that_are_named_by_adam(layers: tuple[str, ...], by_adam: set[str]) -> None:
    """Whose first update is the rate in each direction; that of Muon is of an orthogonal matrix, times 0.2 sqrt(4)."""
    from tasks.training.engines.tensorflow.optimizers import make_optimizer

    matrices = ["block_0/attention/query/kernel", "block_0/attention/out/kernel", "block_0/mlp/kernel"]
    matrices += ["logits/kernel", "logits_2/kernel"]
    variables = []
    for path in (*matrices, "word_embedding/embeddings", "block_0/mlp/bias"):
        *scopes, name = path.split("/")
        with ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            shape = (4,) if name == "bias" else (4, 4)
            variables.append(keras.Variable(np.zeros(shape, np.float32), name=name))
        assert variables[-1].path == path
    optimizer = make_optimizer(Muon(adam_layers=layers), variables)
    draws = np.random.default_rng(1)
    drawn = [draws.normal(size=variable.shape).astype(np.float32) for variable in variables]
    optimizer.apply([gradient + np.sign(gradient) for gradient in drawn])
    whole = {variable.path for variable in variables if np.allclose(np.abs(variable), 1, atol=1e-4)}
    assert whole == by_adam | {"word_embedding/embeddings", "block_0/mlp/bias"}
    for variable in variables:
        if variable.path not in whole:
            squares = np.linalg.svd(np.asarray(variable) / 0.4, compute_uv=False)
            assert (squares > 0.6).all() and (squares < 1.3).all(), variable.path


def test_a_layer_for_adam_that_there_is_not_is_refused(snapshot: SnapshotReader) -> None:
    for pattern in ("attention", "log", "logits/kernel"):
        with pytest.raises(Failed, match=f"train.optimizer.adam_layers: {pattern}; names no layer that is trained"):
            engine_of(snapshot, optimizer=Muon(adam_layers=(pattern,)))


def test_the_average_of_the_weights_is_the_model(snapshot: SnapshotReader) -> None:
    engine = engine_of(snapshot, ema=0.75, optimizer=Sgd(), schedule=Constant())
    average = engine.weights()
    engine.seek(0)
    for step in range(3):
        engine.step(rates(step, step + 1, Constant()))
        raw = {name: values for name, values in engine.state().items() if name.startswith("model/")}
        for name, values in raw.items():
            average[name] = values if step == 0 else 0.75 * average[name] + 0.25 * values
    got = engine.weights()
    batch = [snapshot.reader("validation", 5, order="stored")[0]]
    scores = engine.score(batch)
    after = {name: values for name, values in engine.state().items() if name.startswith("model/")}
    plain = engine_of(snapshot, optimizer=Sgd(), schedule=Constant())
    plain.begin_with(got)
    engine.close()
    kernels = [name for name in got if got[name].ndim == 2]
    assert kernels and all(np.allclose(got[name], average[name], rtol=1e-6, atol=1e-7) for name in kernels)
    assert all(not np.array_equal(got[name], raw[name]) for name in kernels), "not the last weights"
    assert all(np.array_equal(after[name], raw[name]) for name in raw), "which an evaluation leaves as they are"
    assert plain.score(batch) == scores, "and the averages are what is scored"
    plain.close()


def test_a_layer_learns_at_its_own_rate(snapshot: SnapshotReader) -> None:
    options: dict[str, Any] = {"optimizer": Sgd(weight_decay=0.5), "schedule": Constant(), "clip_norm": None}
    plain, slow = (engine_of(snapshot, **options, layer_rates=rates) for rates in ({}, {"logits": 0.25, "dense*": 1.0}))
    start, one, other = plain.weights(), advanced(plain, 0, 1, Constant()), advanced(slow, 0, 1, Constant())
    names = [variable.path for variable in slow.model.variables]  # type: ignore[attr-defined]
    for number, path in enumerate(names):
        name = f"model/{number:05d}"
        if path.endswith("seed_generator_state"):
            continue
        factor = 0.25 if path.startswith("logits") else 1.0
        np.testing.assert_allclose(other[name] - start[name], factor * (one[name] - start[name]), rtol=2e-4, atol=1e-7)
    with pytest.raises(Failed, match="train.layer_rates: logit; names no layer that is trained; use names of dense0"):
        engine_of(snapshot, layer_rates={"logit": 0.5})


def test_each_step_of_a_call_has_its_own_rate(snapshot: SnapshotReader) -> None:
    """However many steps a call has, which depends on how fast the machine is."""
    options: dict[str, Any] = {"optimizer": Sgd()}
    one = engine_of(snapshot, **options)
    together = advanced(engine_of(snapshot, **options), 0, 4)
    one.seek(0)
    for step in range(4):
        one.step(rates(step, step + 1))
    alone = {**one.state(), **{f"weights/{name}": values for name, values in one.weights().items()}}
    one.close()
    for name, values in together.items():
        np.testing.assert_array_equal(values, alone[name], err_msg=name)


def test_patterns_give_a_variable_one_rate_in_any_order() -> None:
    from tasks.training.engines.tensorflow.weights import rate_factor

    rates, path = {"block*": 0.5, "block0*": 0.1, "*": 0.5}, "block0_conv/kernel"
    said = set()
    for order in (rates, dict(reversed(rates.items()))):
        with pytest.raises(Failed) as refused:
            rate_factor(path, order)
        said.add(str(refused.value))
        assert rate_factor("block1_conv/kernel", order) == 0.5, "of both patterns that name it"
    [message] = said
    assert message.startswith("train.layer_rates: block0_conv/kernel by *: 0.5 and block0*: 0.1; a variable has one")


def test_rates_follow_the_batch(snapshot: SnapshotReader) -> None:
    def peak(kind: Any) -> float:
        config = CONFIG.model_copy(update={"rate_scaling": RateScaling(kind=kind, batch_size=1)})
        return float(make_plan(config, 10, ()).rates(0, 3).max())

    assert peak("linear") == pytest.approx(0.04) and peak("sqrt") == pytest.approx(0.02), "of a batch of 4"


def test_each_schedule_has_its_shape() -> None:
    def shares(steps: int, **options: Any) -> list[float]:
        schedule = TypeAdapter(ScheduleConfig).validate_python(options)
        return [schedule.factor(step, steps) for step in range(steps)]

    stable = shares(11, kind="wsd", decay=0.4, end=0.2)
    assert stable == pytest.approx([1.0] * 7 + [0.8, 0.6, 0.4, 0.2])
    assert shares(6, kind="piecewise", warmup=2, boundaries=[3, 5], factors=[0.5, 0.1]) == pytest.approx(
        [0.5, 1.0, 1.0, 0.5, 0.5, 0.1]
    )
    cycle = shares(11, kind="one_cycle", rise=0.3, start=0.1)
    assert (cycle[0], cycle[3], cycle[10]) == pytest.approx((0.1, 1.0, 0.0)) and max(cycle) == cycle[3]
    assert cycle[:4] == sorted(cycle[:4]) and cycle[3:] == sorted(cycle[3:], reverse=True)
    assert shares(1, kind="one_cycle") == pytest.approx([0.04]) and shares(1, kind="wsd") == [1.0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "piecewise", "boundaries": [5, 3], "factors": [0.5, 0.1]}, "must ascend"),
        ({"kind": "piecewise", "boundaries": [5], "factors": [0.5, 0.1]}, "each of the 1 boundaries has one; give 1"),
        ({"kind": "piecewise", "boundaries": [2], "factors": [0.5], "warmup": 2}, "is within the warm-up of 2 steps"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Conflict, match=says):
        raise_conflict(lambda: TypeAdapter(ScheduleConfig).validate_python(options))


def test_a_boundary_after_the_last_step_is_refused() -> None:
    schedule = {"kind": "piecewise", "boundaries": [7], "factors": [0.5]}
    with pytest.raises(Conflict, match=r"schedule.boundaries \(7\) the training ends before it, after 7 steps"):
        raise_conflict(lambda: TrainConfig(steps=7, schedule=schedule))


def test_what_needs_whole_variables_is_refused_for_pieces_of_them() -> None:
    for options in ({"optimizer": Muon()}, {"optimizer": Lamb()}, {"ema": 0.9}, {"layer_rates": {"a": 0.5}}):
        with pytest.raises(Conflict, match="parameter_server"):
            raise_conflict(lambda options=options: TrainConfig(steps=7, strategy=ParameterServer(), **options))


def test_averages_and_rates_by_layer_resume_exactly(
    benches: Callable[[str], Workbench], snapshot: SnapshotReader
) -> None:
    """Under float16, whose optimizer is within another one."""
    options = {"ema": 0.8, "layer_rates": {"logits": 0.5}, "optimizer": Muon(weight_decay=0.1), "precision": "float16"}
    config, examples = CONFIG.model_copy(update=options), Snapshot("s", snapshot.path, "snapshot")
    whole, broken = benches("whole"), benches("broken")
    fit(whole, examples, MODEL, config, seed=5)
    with pytest.raises(Stopped):
        fit(replace(broken, stopping=stopping_after(2)), examples, MODEL, config, seed=5)
    fit(broken, examples, MODEL, config, seed=5)
    assert files(broken) == files(whole)
