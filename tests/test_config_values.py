"""What settings come to: schedules, spaces, sizes, strategies, gates, and which of them are in a digest."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tasks.compression.methods.method import FineTune
from tasks.compression.methods.prune import PruneStructured
from tasks.config.base import Bytes, Conflict, identity, size_in_bytes
from tasks.config.compose import Config, with_values
from tasks.config.paths import located
from tasks.config.refusals import _remedy
from tasks.config.task import TASKS
from tasks.evaluation.config import EvaluateConfig, ThresholdConfig
from tasks.evaluation.gating import AbsoluteGate, ChampionGate, FloatGate, SlicesGate, fit_gates
from tasks.processes.config import CHIEF, SIDECAR, ClusterConfig
from tasks.records.config import RecordsConfig
from tasks.search.choosing import GridSampler, HalvingPruner, HyperbandPruner, MedianPruner, TpeSampler
from tasks.search.config import TuneConfig
from tasks.search.space import Choice, FloatRange, IntRange
from tasks.sources.kinds.tables import CsvSource
from tasks.training.config import TrainConfig
from tasks.training.initial import ChampionInit, KerasHubInit, ModelInit
from tasks.training.loop import peak_rate
from tasks.training.optimizers import Muon, Sgd
from tasks.training.schedules import OneCycle, Piecewise, RateScaling, WarmupStableDecay
from tasks.training.sections import CheckpointConfig, Rollback
from tasks.training.strategies import Horovod, Mirrored, MultiWorker, ParameterServer, Pipeline, Tpu
from tests.support.training import raise_conflict


def rates(schedule: Any, steps: int) -> list[float]:
    return [schedule.factor(step, steps) for step in range(steps)]


def test_a_stable_rate_falls_in_the_last_share_of_the_steps_after_the_warm_up() -> None:
    found = rates(WarmupStableDecay(warmup=2, decay=0.5, end=0.2), 10)
    assert found[:6] == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0] and found[-1] == pytest.approx(0.2)
    # of eight steps after the peak the last four fall; step 6 is the fifth
    assert found[6:] == pytest.approx([0.2 + 0.8 * left for left in (3 / 4, 1 / 2, 1 / 4, 0)])
    assert rates(WarmupStableDecay(decay=1.0), 5) == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])


def test_a_boundary_is_the_first_step_of_its_rate() -> None:
    schedule = Piecewise(warmup=2, boundaries=(4, 6), factors=(0.5, 0.1))
    assert rates(schedule, 8) == [0.5, 1.0, 1.0, 1.0, 0.5, 0.5, 0.1, 0.1]
    schedule.check(7)
    with pytest.raises(Conflict, match="boundaries .6. the training ends before it, after 6 steps"):
        schedule.check(6)
    for wrong in ({"boundaries": (4, 4)}, {"boundaries": (6, 4)}, {"factors": (0.5,)}, {"boundaries": (2, 4)}):
        values = {"warmup": 2, "boundaries": (4, 6), "factors": (0.5, 0.1), **wrong}
        with pytest.raises(ValidationError):
            Piecewise(**values)


def test_a_cycle_rises_to_its_peak_and_falls_to_the_last_step() -> None:
    found = rates(OneCycle(rise=0.25, start=0.1, end=0.02), 9)
    assert found[0] == pytest.approx(0.1) and found[1] == pytest.approx(0.55)
    assert found[2] == 1.0 and found[5] == pytest.approx(0.51) and found[-1] == pytest.approx(0.02)
    for steps in (1, 2, 3):
        short = rates(OneCycle(rise=0.9), steps)
        assert len(short) == steps and short[0] == pytest.approx(0.04) and all(0 <= rate <= 1 for rate in short)


def test_rates_scale_with_the_batch_or_its_root() -> None:
    assert peak_rate(TrainConfig(steps=1, learning_rate=0.25, batch_size=8)) == 0.25
    scaled = {kind: RateScaling(kind=kind, batch_size=16) for kind in ("linear", "sqrt")}
    rates = [
        peak_rate(TrainConfig(steps=1, learning_rate=0.25, batch_size=64, accumulate=2, rate_scaling=each))
        for each in scaled.values()
    ]
    assert rates == [1.0, 0.5], "whatever the micro-batches"


@pytest.mark.parametrize(
    ("text", "size"),
    [("2MB", 2_000_000), ("1.5MiB", 3 << 19), (" 500 kB ", 500_000), ("1KiB", 1024), ("3GB", 3 * 10**9), ("7B", 7)],
)
def test_sizes_have_units_of_ten_and_of_two(text: str, size: int) -> None:
    assert size_in_bytes(text) == size and TypeAdapter(Bytes).validate_python(text) == size


@pytest.mark.parametrize("text", ["2", "MB", "two MB", "0.5B", "0MB", "-1MB", "nanMB", "10000000000GB", "2 MBit"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Bytes).validate_python(text)


def test_places_of_values_on_an_axis_are_between_its_ends() -> None:
    assert FloatRange(low=1.0, high=100.0, log=True).position(10.0) == pytest.approx(0.5)
    assert FloatRange(low=1.0, high=3.0).position(1.5) == 0.25 and IntRange(low=2, high=10).position(4) == 0.25
    assert IntRange(low=1, high=100, log=True).position(10) == pytest.approx(0.5)
    assert Choice(values=("a", "b", "c")).position("b") == 0.5 and Choice(values=("a", "b", "c")).position("c") == 1.0
    assert Choice(values=("only",)).position("only") == 0.5


def test_points_of_a_range_end_at_its_high_end() -> None:
    assert IntRange(low=2, high=8, step=3).points == [2, 5, 8]
    assert FloatRange(low=0.0, high=1.0).points is None
    assert FloatRange(low=0.1, high=0.7, step=0.1).points == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    for make in (
        lambda: IntRange(low=2, high=9, step=3),
        lambda: FloatRange(low=0.1, high=0.75, step=0.1),
        lambda: IntRange(low=2, high=2),
        lambda: FloatRange(low=2.0, high=1.0),
        lambda: IntRange(low=0, high=9, log=True),
        lambda: IntRange(low=1, high=9, log=True, step=2),
        lambda: FloatRange(low=0.0, high=1.0, step=2.0),
    ):
        with pytest.raises(Conflict):
            raise_conflict(make)
    with pytest.raises(Conflict, match="use 8 or 11"):
        raise_conflict(lambda: IntRange(low=2, high=9, step=3))


SPACE: Any = {
    "train.learning_rate": {"kind": "choice", "values": [0.1, 0.2]},
    "model.units": {"kind": "choice", "values": [[1], [2], [3]]},
}


def test_a_study_ends_at_its_trials_or_with_its_grid() -> None:
    def most(**options: Any) -> int:
        return TuneConfig(space=SPACE, **options).most

    assert most(trials=7) == 7 and most(minutes=2.5) == 10_000
    assert most(sampler=GridSampler()) == 6 and most(sampler=GridSampler(), trials=4) == 4
    assert most(sampler=GridSampler(), trials=9) == 6
    with pytest.raises(Conflict, match="a search needs an end"):
        raise_conflict(lambda: TuneConfig(space=SPACE, sampler=TpeSampler()))
    endless = {"train.learning_rate": {"kind": "float", "low": 0.1, "high": 1.0}}
    with pytest.raises(Conflict, match="needs a finite number of values"):
        raise_conflict(lambda: TuneConfig(space=endless, sampler=GridSampler()))  # type: ignore[arg-type]
    large = {f"model.x{n}": {"kind": "int", "low": 1, "high": 10} for n in range(5)}
    with pytest.raises(Conflict, match="100,000 combinations"):
        raise_conflict(lambda: TuneConfig(space=large, sampler=GridSampler()))  # type: ignore[arg-type]
    four = {name: large[name] for name in list(large)[:4]}
    assert TuneConfig(space=four, sampler=GridSampler()).most == 10_000  # type: ignore[arg-type]


def test_a_study_is_judged_in_the_direction_of_its_metric() -> None:
    tune, accuracy, error = TuneConfig(space=SPACE, trials=1), ("accuracy", True), ("squared_error", False)
    assert tune.judged_by(accuracy) == accuracy and tune.judged_by(error) == error
    assert TuneConfig(space=SPACE, trials=1, metric="loss").judged_by(accuracy) == ("loss", False)
    TuneConfig(space=SPACE, trials=1, direction="maximize").fit(accuracy)
    TuneConfig(space=SPACE, trials=1, direction="minimize").fit(error)
    for watched, direction in ((accuracy, "minimize"), (error, "maximize")):
        with pytest.raises(Conflict, match="leave it out, or use"):
            TuneConfig(space=SPACE, trials=1, direction=direction).fit(watched)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "evaluate", "watched"),
    [
        ("classification", {}, ("accuracy", True)),
        ("classification", {"primary": "f1"}, ("f1", True)),
        ("classification", {"primary": "loss"}, ("loss", False)),
        ("regression", {}, ("squared_error", False)),
        ("regression", {"primary": "r2"}, ("r2", True)),
        ("regression", {"primary": "mae"}, ("mae", False)),
        ("multilabel", {}, ("macro_f1", True)),
        ("anomaly", {}, ("average_precision", True)),
        ("classification", {"primary": "cost", "own_metrics": {"cost": "a:b"}}, ("cost", True)),
        (
            "classification",
            {"primary": "cost", "own_metrics": {"cost": "a:b"}, "lower_is_better": ["cost"]},
            ("cost", False),
        ),
    ],
)
def test_evaluations_decide_by_the_primary_metric_or_a_mean_that_stands_for_it(
    task: str, evaluate: dict[str, Any], watched: tuple[str, bool]
) -> None:
    values = {"name": "n", "model": {"kind": "mlp", "task": task}, "train": {"steps": 9}, "evaluate": evaluate}
    config = Config.model_validate({**values, "snapshot": {"kind": "table"}})
    assert config.watched == watched


def test_a_pruner_begins_before_the_longest_trial_ends() -> None:
    for pruner in (MedianPruner(warmup=9), HalvingPruner(first=9), HyperbandPruner(first=9, last=20)):
        pruner.fit_steps(10)
        with pytest.raises(Conflict, match="a training ends before it, after 9 steps"):
            pruner.fit_steps(9)
        tune = TuneConfig(space=SPACE, trials=1, pruner=pruner)
        with pytest.raises(Conflict, match="tune.pruner"):
            tune.fit_steps(9)
        tune.fit_steps(None)
    longer = SPACE | {"train.steps": {"kind": "choice", "values": [5, 10]}}
    TuneConfig(space=longer, trials=1, pruner=HalvingPruner(first=9)).fit_steps(5)
    with pytest.raises(Conflict, match="must be below last"):
        raise_conflict(lambda: HyperbandPruner(first=9, last=9))


def test_nested_keys_of_a_space_are_the_dotted_ones() -> None:
    nested: Any = {
        "train": {"learning_rate": {"high": 0.3}},
        "train.learning_rate": {"kind": "float", "low": 0.1, "high": 9.0},
    }
    space = TuneConfig(space=nested, trials=1).space
    assert list(space) == ["train.learning_rate"] and space["train.learning_rate"].examples == [0.1, 0.3]


@pytest.mark.parametrize(
    ("strategy", "processes", "replicas", "roles"),
    [
        (Mirrored(devices=3), 1, 3, 1),
        (MultiWorker(workers=2, devices=4), 2, 8, 2),
        (Horovod(workers=3), 3, 3, 3),
        (Tpu(devices=8), 1, 8, 1),
        (Pipeline(devices=2), 1, 1, 1),
        (ParameterServer(workers=3, servers=2), 6, 1, 6),
    ],
)
def test_a_strategy_has_its_processes_and_copies_of_the_model(
    strategy: Any, processes: int, replicas: int, roles: int
) -> None:
    assert (strategy.processes, strategy.replicas, len(strategy.roles)) == (processes, replicas, roles)
    assert strategy.roles[0] is CHIEF
    served = [(role.serves, role.replaced) for role in ParameterServer(workers=2, servers=1).roles]
    assert served == [(False, False), (True, True), (True, True), (True, False)]
    assert TrainConfig(steps=1, evaluate="sidecar").roles == (CHIEF, SIDECAR)
    assert [(role.name, role.serves, role.replaced) for role in (CHIEF, SIDECAR)] == [
        ("chief", False, False),
        ("sidecar", True, False),
    ]


@pytest.mark.parametrize(
    ("options", "nearest"),
    [
        ({"strategy": Mirrored(devices=3)}, "use 9 or 12"),
        ({"strategy": MultiWorker(workers=2), "accumulate": 2}, "use 8 or 12"),
        ({"accumulate": 16}, "use 16"),
        ({"strategy": Pipeline(devices=2, micro_batches=4)}, "use 8 or 12"),
    ],
)
def test_a_batch_that_does_not_divide_is_refused_with_the_nearest_that_do(options: Any, nearest: str) -> None:
    with pytest.raises(Conflict) as conflict:
        raise_conflict(lambda: TrainConfig(steps=1, batch_size=10, **options))
    assert (conflict.value.field, conflict.value.remedy) == ("batch_size", nearest)
    TrainConfig(steps=1, batch_size=int(nearest.split()[-1]), **options)


def test_only_what_decides_a_model_is_in_the_digest_of_its_training() -> None:
    plain = TrainConfig(steps=9)

    def differs(**options: Any) -> bool:
        return identity(TrainConfig(steps=9, **options)) != identity(plain)

    for layout in ({"strategy": Mirrored(devices=2)}, {"accumulate": 2}, {"fit_memory": True}, {"restarts": 1}):
        assert not differs(**layout)
    for layout in ({"log_every": 3}, {"evaluate": "sidecar"}, {"continue_from": "0" * 64}, {"evaluate_every": 3}):
        assert not differs(**layout)
    asynchronous = TrainConfig(steps=9, strategy=ParameterServer(workers=2, servers=1))
    assert identity(asynchronous)["strategy"] == {"kind": "parameter_server", "workers": 2}
    assert identity(asynchronous.model_copy(update={"strategy": ParameterServer(servers=3)})) == identity(asynchronous)
    spiking = identity(TrainConfig(steps=9, on_spike=Rollback(), checkpoint=CheckpointConfig(every=7)))
    assert spiking["checkpoint"]["every"] == 7
    for decides in (
        {"learning_rate": 0.5},
        {"batch_size": 32},
        {"jit": True},
        {"remat": True},
        {"order": "blocks"},
        {"ema": 0.5},
        {"seeds": 2},
        {"select": "best"},
        {"layer_rates": {"a": 0.5}},
        {"freeze": ("a",)},
        {"clip_norm": 1.0},
        {"precision": "bfloat16"},
        {"label_smoothing": 0.1},
    ):
        assert differs(**decides), decides
    assert identity(TrainConfig(steps=9, seeds=3, select="average").alone) == identity(plain)


def test_checkpoints_that_are_kept_are_counted_for_the_disk() -> None:
    assert CheckpointConfig(keep=3).most(100) == 3
    assert CheckpointConfig(keep=3, keep_every=10, keep_best=True).most(99) == 3 + 1 + 9


def test_an_optimizers_settings_are_the_arguments_of_keras() -> None:
    assert Sgd().arguments()["weight_decay"] is None and Sgd(weight_decay=0.1).arguments()["weight_decay"] == 0.1
    assert not {"kind", "no_decay"} & Sgd(weight_decay=0.1, no_decay=("a",)).arguments().keys()
    muon = Muon(weight_decay=0.1).arguments()
    assert muon["adam_weight_decay"] == muon["weight_decay"] == 0.1 and "adam_layers" not in muon


def test_heads_are_left_out_by_their_own_share_where_they_have_one() -> None:
    fine_tune = FineTune(steps=1)
    for share, heads, expected, label in (
        (0.5, None, (0.5, 0.5), "prune_structured_50"),
        (0.5, 0.25, (0.5, 0.25), "prune_structured_50_heads_25"),
        (0.5, 0.0, (0.5, 0.0), "prune_structured_50_heads_0"),
        (0.0, 0.125, (0.0, 0.125), "prune_structured_0_heads_12"),
    ):
        method = PruneStructured(share=share, heads=heads, fine_tune=fine_tune)
        assert (method.share_of("units"), method.share_of("heads")) == expected and method.label == label


def test_hosts_have_names_and_ports() -> None:
    cluster = ClusterConfig(hosts=("one:7001", "two"))
    assert (cluster.chief, cluster.host(0), cluster.host(1)) == ("one", "one", "two")
    assert (cluster.port_of(0), cluster.port_of(1)) == (7001, 0)
    with pytest.raises(ValidationError, match="give each one once"):
        ClusterConfig(hosts=("one", "one"))
    ClusterConfig(hosts=("one:1", "one:2"))


def test_times_without_an_offset_are_in_utc_and_ages_have_their_units() -> None:
    times: Any = {"validation": "2024-06-01T12:00:00+02:00", "test": "2024-06-01T11:00:00"}
    config = RecordsConfig(splits="time", split_times=times)
    assert config.times == (datetime(2024, 6, 1, 10, tzinfo=UTC), datetime(2024, 6, 1, 11, tzinfo=UTC))
    ages = [RecordsConfig(max_age=age).oldest() for age in ("45m", "36h", "7d", None)]
    assert ages == [timedelta(minutes=45), timedelta(hours=36), timedelta(days=7), None]
    assert identity(RecordsConfig(max_age="7d")) == identity(RecordsConfig())
    assert identity(RecordsConfig(bad_budget=3)) != identity(RecordsConfig())


def test_gates_say_what_they_judge_and_refuse_what_no_report_has() -> None:
    gates = [
        (AbsoluteGate(at_least=0.9), "quality at least 0.9"),
        (AbsoluteGate(at_least=0.0), "quality at least 0"),
        (AbsoluteGate(metric="bytes", at_most=2_000_000), "size at most 2e+06"),
        (FloatGate(metric="latency", max_ratio=0.5), "latency"),
        (ChampionGate(metric="loss", max_loss=0.1), "loss against the champion"),
        (SlicesGate(metric="accuracy", max_loss=0.1), "accuracy by slice"),
    ]
    assert [gate.label for gate, _ in gates] == [label for _, label in gates]
    fit_gates([gate for gate, _ in gates], "classification", sliced=True)
    for task, sliced, gate, field in (
        ("regression", True, AbsoluteGate(metric="accuracy", at_least=0.5), "gates.1.metric"),
        ("classification", True, AbsoluteGate(metric="calibration_error", at_most=0.5), "gates.1.metric"),
        ("classification", True, ChampionGate(metric="bytes", max_loss=0.5), "gates.1.metric"),
        ("classification", True, AbsoluteGate(metric="latency", at_most=0.5), "gates.1.metric"),
        ("multilabel", False, SlicesGate(max_loss=0.5), "gates.1.kind"),
    ):
        with pytest.raises(Conflict) as conflict:
            fit_gates([FloatGate(), gate], task, sliced)
        assert conflict.value.field == field
    for make in (
        lambda: AbsoluteGate(metric="bytes", at_least=1.0),
        lambda: FloatGate(metric="bytes", max_loss=0.1),
        lambda: FloatGate(metric="accuracy", max_ratio=0.1),
        lambda: FloatGate(metric="accuracy"),
        lambda: FloatGate(metric="latency"),
    ):
        with pytest.raises(Conflict):
            raise_conflict(make)
    assert FloatGate(metric="bytes").max_ratio is None and FloatGate().max_loss is None
    for bounds in ({}, {"at_least": 0.1, "at_most": 0.2}):
        with pytest.raises(ValidationError, match="exactly one of at_least and at_most"):
            AbsoluteGate(**bounds)


def test_each_task_is_judged_by_its_first_metric_in_its_direction() -> None:
    assert {name: EvaluateConfig().primary_of(name) for name in TASKS} == {
        "classification": ("accuracy", True),
        "multilabel": ("macro_f1", True),
        "anomaly": ("average_precision", True),
        "ranking": ("ndcg", True),
        "regression": ("rmse", False),
        "language_model": ("bits_per_byte", False),
        "tagging": ("macro_f1", True),
    }
    lower = {name: task.lower_is_better for name, task in TASKS.items()}
    assert lower == {
        **{name: {"loss"} for name in ("multilabel", "anomaly", "ranking", "tagging")},
        "classification": {"loss", "calibration_error"},
        "regression": {"rmse", "mae", "loss"},
        "language_model": {"bits_per_byte", "loss"},
    }
    assert [name for name, task in TASKS.items() if task.generates] == ["language_model"]
    assert [name for name, task in TASKS.items() if task.in_target_units] == ["regression"]
    found = TASKS["classification"].baselines_in({"test/majority_accuracy": 0.5, "validation/majority_accuracy": 0.4})
    assert found == {"majority": 0.5}


def test_splits_are_those_that_have_a_share_or_the_usual_ones() -> None:
    shares = {"train": 0.5, "validation": 0.25, "test": 0.125, "held_out": 0.125}
    assert RecordsConfig(splits=shares).names == ["held_out", "test", "train", "validation"]
    assert RecordsConfig().names == RecordsConfig(splits="official").names == ["test", "train", "validation"]


def test_a_threshold_has_a_goal_and_what_it_requires() -> None:
    assert ThresholdConfig(maximize="mcc").goal == ("mcc", None, 0.0)
    for goal in ("recall_at_precision", "precision_at_recall", "recall_at_false_positive_rate"):
        config = ThresholdConfig.model_validate({goal: 0.75})
        assert config.goal == (*goal.split("_at_"), 0.75)


def test_the_model_of_the_champion_takes_the_settings_of_its_start() -> None:
    given = ChampionInit(new=("logits",), rename={"encoder/": "backbone/"})
    assert given.of_model("abc") == ModelInit(model="abc", new=("logits",), rename={"encoder/": "backbone/"})


def test_a_folder_of_weights_decides_by_its_files_and_a_name_by_itself() -> None:
    here, there, name, other = (KerasHubInit(preset=preset) for preset in ("./bert", "/models/bert", "bert", "roberta"))
    assert identity(here) == identity(there) != identity(name) != identity(other)
    assert identity(KerasHubInit(preset="hf://a/b", download=True)) != identity(KerasHubInit(preset="hf://a/c"))
    assert [each.may_be_absent for each in (here, KerasHubInit(preset="bert", download=True))] == [False, True]


def test_slices_that_are_found_are_five_or_as_many_as_are_asked_for() -> None:
    assert [EvaluateConfig(find_slices=asked).found for asked in (True, False, 1, 7)] == [5, 0, 1, 7]
    reads = [
        EvaluateConfig(**each).reads_columns for each in ({}, {"slices": ("a",)}, {"groups": "g"}, {"find_slices": 1})
    ]  # type: ignore[arg-type]
    assert reads == [False, True, True, True]


def test_a_path_is_below_its_folder_unless_it_has_another_beginning() -> None:
    folder = Path("/data/presets")
    given = ["x.csv", "../x.csv", "/other/x.csv", "~/x.csv", "stdlib:json", "env:DATA", ""]
    assert [located(path, folder) for path in given] == [
        *("/data/presets/x.csv", "/data/presets/../x.csv", "/other/x.csv"),
        *("~/x.csv", "stdlib:json", "env:DATA", ""),
    ]
    assert located("x.csv", Path("presets")) == str(Path.cwd() / "presets/x.csv"), "whoever reads it, from anywhere"


@pytest.mark.parametrize(
    ("kind", "value", "remedy"),
    [
        ("string_type", 7, "put it in quotes"),
        ("string_type", False, "put it in quotes"),
        *(("string_type", value, "set a.b to such a value") for value in ({}, [], None)),
        *(("int_type", value, "write it without quotes") for value in ("7", "0.5", "true")),
        ("int_type", "seven", "set a.b to such a value"),
        ("int_type", "2024-01-01", "set a.b to such a value"),
        ("int_type", 0.5, "set a.b to such a value"),
    ],
)
def test_quotes_are_the_remedy_where_they_make_the_type(kind: str, value: Any, remedy: str) -> None:
    assert _remedy("a.b", kind, value) == remedy


@pytest.mark.parametrize("backwards", [False, True])
def test_values_of_a_trial_are_set_from_the_outside_in_and_kinds_first(backwards: bool) -> None:
    values: dict[str, Any] = {
        "train.optimizer.momentum": 0.5,
        "train.optimizer.kind": "sgd",
        "model.dropout": 0.25,
        "model": {"kind": "mlp", "units": [7]},
        "train.optimizer": {"kind": "rmsprop", "rho": 0.5},
    }
    config = Config(name="a", train=TrainConfig(steps=9))
    given = copy.deepcopy(values)
    made = with_values(config, dict([*values.items()][:: -1 if backwards else 1]))
    assert values == given, "the choices of the study stay as they are"
    assert made.train.optimizer == Sgd(momentum=0.5)
    assert (made.model.kind, made.model.units, made.model.dropout) == ("mlp", (7,), 0.25)  # type: ignore[union-attr]


def test_inputs_are_the_columns_without_a_role_by_name() -> None:
    names = [f"{letter}{number}" for letter in "zxya" for number in range(9)]
    columns: Any = {**dict.fromkeys(names, "number"), "left": "ignore", "kind": "category", "id": "text"}
    source = CsvSource(path="x.csv", columns=columns, label="kind", key="id")
    assert list(source.inputs) == sorted(names)
