"""Several seeds: each a model of its own, the best or the average of them by the validation split, with intervals."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.config.base import Conflict, identity
from tasks.errors import Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import over_seeds
from tasks.feed import open_snapshot
from tasks.models import forward, keras_file
from tasks.models.architectures.convnet import ConvnetModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.runs.home import Home
from tasks.runs.runs import resolve_run
from tasks.store.journal import JournalFile, read
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.optimizers import Sgd
from tasks.training.samples import FILE as SAMPLES
from tasks.training.samples import read as read_samples
from tasks.training.seeds import Choice, choice_of, choose, mean_of, name_of, rank, scored, seed_of
from tasks.training.starting import check_base
from tasks.training.strategies import MultiWorker
from tasks.view import comparison
from tasks.view.comparison import Comparison
from tasks.view.examples import samples
from tasks.view.facts import Facts
from tasks.view.summary import describe_run
from tests.support.digits import Digits
from tests.support.golden import GOLDEN, digests
from tests.support.homes import DIGITS, SMALL, CommandHome
from tests.support.kills import Unbroken
from tests.support.shared import shared_server
from tests.support.tiny import CONFIG, MODEL, files
from tests.support.training import distance, raise_conflict

TWO = CONFIG.model_copy(update={"seeds": 2})
AVERAGE = CONFIG.model_copy(update={"seeds": 2, "select": "average"})


@pytest.fixture
def shifted(digits: Digits, benches: Callable[[str], Workbench], publish: Callable) -> Callable[[float], Model]:
    """The trained model of the digits with a multiple of the same noise added to its weights."""

    def make(multiple: float) -> Model:
        model = keras_file.load(digits.model.path)
        random = np.random.default_rng(3)
        for variable in model.trainable_variables:
            values = np.asarray(variable)
            variable.assign(values + multiple * random.normal(size=values.shape, scale=values.std() + 1e-3))
        bench = benches(f"shifted{multiple}")
        features = digits.snapshot.manifest["features"]
        saved = keras_file.save(model, bench.staging, ConvnetModel(dropout=0.0), features, seed=0)
        bench.staging.put("state/state.npz", b"of a training")
        made: Model = publish(Model, bench, Outcome(counts={"steps": 9, "parameters": 1}))
        path = made.path / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **saved, "steps": 9}))
        return made

    return make


@pytest.fixture
def chosen(digits: Digits, benches: Callable[[str], Workbench]) -> Callable[..., tuple[Choice, Workbench, Outcome]]:
    def make(trained: list[Model], config: TrainConfig) -> tuple[Choice, Workbench, Outcome]:
        bench = benches("chosen")
        arguments = (digits.snapshot, digits.records, ConvnetModel(dropout=0.0), config, 7)
        outcome = choose(bench, trained, *arguments, EvaluateConfig())
        choice = choice_of(Model("0" * 64, bench.staging.root, "model"))
        assert choice is not None
        return choice, bench, outcome

    return make


def weights(folder: Path) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable) for variable in keras_file.load(folder).weights}


def test_a_seed_is_a_function_of_the_runs_seed_and_its_number() -> None:
    assert seed_of(5, 0) == 5, "the training of a run without seeds"
    assert [seed_of(5, number) for number in (1, 2)] == [383301987537132269, 1911686682003627095]
    many = {seed_of(seed, number) for seed in range(50) for number in range(50)}
    assert len(many) == 2500 and all(0 <= seed < 2**63 for seed in many)


def test_the_first_of_several_is_the_model_of_a_run_without_seeds(tmp_path: Path) -> None:
    planned = digests(tmp_path, train__seeds="3", train__select="average")
    assert planned["train/seed_0"] == GOLDEN["train/model"]
    models = [planned[f"train/{name}"] for name in ("seed_0", "seed_1", "seed_2", "model")]
    assert len(set(models)) == 4 and planned["evaluate/report"] != GOLDEN["evaluate/report"]
    assert identity(AVERAGE.alone) == identity(CONFIG)
    best = TWO.model_copy(update={"select": "best"})
    assert best.alone.select == "best"


def test_the_interval_over_seeds_is_that_of_student() -> None:
    found = over_seeds([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-5)


def test_validation_decides_and_equal_scores_are_told_apart_by_the_loss() -> None:
    scores = {"validation/accuracy": 0.9, "validation/loss": 0.3, "test/accuracy": 0.8, "test/loss": 0.5}
    better = {**scores, "validation/accuracy": 0.91, "validation/loss": 0.9, "test/accuracy": 0.1, "test/loss": 9.0}
    equal = {**scores, "validation/loss": 0.29}
    assert rank(better, "accuracy", higher=True) < rank(equal, "accuracy", higher=True)
    assert rank(equal, "accuracy", higher=True) < rank(scores, "accuracy", higher=True)
    assert rank(equal, "loss", higher=False) < rank(scores, "loss", higher=False)


def test_a_choice_has_the_numbers_of_every_model_of_the_average_and_over_all() -> None:
    names, scores = ("validation/accuracy", "test/loss"), (0.5, 0.25)
    seeds = {f"seed_{number}": {"seed": number, "metrics": dict(zip(names, scores, strict=True))} for number in (0, 1)}
    over = {name: {"value": 1.0, "low": 0.5, "high": 1.5} for name in names}
    average = {"validation/accuracy": 0.75, "test/loss": 0.125}
    made = Choice("accuracy", "seed_1", "average", seeds, average, over)
    assert made.metrics == {
        **{f"seed_{number}/{name}": score for number in (0, 1) for name, score in zip(names, scores, strict=True)},
        "average/validation/accuracy": 0.75,
        "average/test/loss": 0.125,
        **{f"seeds/{name}": 1.0 for name in names},
        **{f"seeds/{name}/{end}": value for name in names for end, value in (("low", 0.5), ("high", 1.5))},
    }
    without = Choice("accuracy", "seed_1", "best", seeds, None, over).metrics
    assert without == {name: value for name, value in made.metrics.items() if not name.startswith("average/")}


SIGNS = (("accuracy", 1), ("loss", -1))


def test_a_model_is_scored_on_every_split_by_its_metric_and_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(split: str) -> Any:
        """Its scores are lengths of texts, as what is kept is the name of the split."""
        kinds = {name: SimpleNamespace(of=lambda text, sign=sign: sign * len(text)) for name, sign in SIGNS}
        return SimpleNamespace(metrics=kinds)

    monkeypatch.setattr("tasks.models.forward.inference_function", lambda model: None)
    monkeypatch.setattr("tasks.evaluation.judging.run_model", lambda judge, call, name: SimpleNamespace(kept=name))
    judges: Any = {split: judge(split) for split in ("validation", "test")}
    model: Any = None
    monkeypatch.setattr(
        "tasks.evaluation.judging.contributions_of", lambda judge, kept, _: dict.fromkeys(("accuracy", "loss"), kept)
    )
    found = scored(model, judges, "accuracy", EvaluateConfig())
    assert found == {f"{split}/{name}": sign * len(split) for split in judges for name, sign in SIGNS}


def test_the_best_model_is_taken_whole_with_the_scores_of_all(
    shifted: Callable[[float], Model], chosen: Callable, digits: Digits
) -> None:
    trained = [shifted(1.5), shifted(0.1), shifted(-1.5)]
    choice, bench, outcome = chosen(trained, CONFIG.model_copy(update={"seeds": 3}))
    assert choice.chosen == "seed_1" and choice.average is None
    root = bench.staging.root
    for name in ("model.keras", "model.weights.h5", "architecture.json"):
        assert (root / name).read_bytes() == (trained[1].path / name).read_bytes()
    assert outcome.also == {"weights_sha256": trained[1].manifest["weights_sha256"], "steps": 9}
    assert not (root / "state").exists(), "of one training"
    for split in ("validation", "test"):
        arrays = open_snapshot(digits.snapshot.path).arrays(split)
        rows = forward.Batch({"image": np.asarray(arrays["image"][:])})
        predicted = forward.predict(keras_file.load(trained[1].path), rows).argmax(-1)
        expected = float((predicted == arrays["label"][:]).mean())
        assert choice.metrics[f"seed_1/{split}/accuracy"] == pytest.approx(expected, abs=1e-9)
    values = [choice.metrics[f"seed_{number}/validation/loss"] for number in range(3)]
    mean = {key: choice.metrics[f"seeds/validation/loss{key}"] for key in ("", "/low", "/high")}
    assert mean == {"": over_seeds(values).value, "/low": over_seeds(values).low, "/high": over_seeds(values).high}
    assert outcome.statistics["metrics"] == choice.metrics and outcome.counts["seeds"] == 3
    assert [row["seed"] for row in choice.seeds.values()] == [seed_of(7, number) for number in range(3)]
    assert choice.verdict.startswith("seed_1, the best of 3 seeds, validation accuracy 0.9")


def test_the_average_is_taken_where_it_is_better(shifted: Callable[[float], Model], chosen: Callable) -> None:
    trained = [shifted(1.0), shifted(-1.0)]
    path = trained[0].path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "steps": 7}))
    choice, bench, outcome = chosen(trained, AVERAGE)
    assert choice.chosen == "average" and outcome.counts["steps"] == outcome.also["steps"] == 9, "of the longest"
    assert choice.metrics["average/validation/accuracy"] > choice.metrics["seeds/validation/accuracy"]
    one, other, mean = (weights(folder) for folder in (*(model.path for model in trained), bench.staging.root))
    for path, values in mean.items():
        expected = (one[path].astype(np.float64) + other[path].astype(np.float64)) / 2
        assert np.array_equal(values, expected.astype(np.float32)), path
    assert outcome.also["weights_sha256"] == keras_file.weights_sha256(keras_file.load(bench.staging.root))
    assert choice.verdict.startswith("the average of 2 seeds, validation accuracy 0.9")


def test_a_worse_average_is_said_and_the_best_is_taken(shifted: Callable[[float], Model], chosen: Callable) -> None:
    choice, _, _ = chosen([shifted(0.0), shifted(3.0)], AVERAGE)
    assert choice.chosen == "seed_0"
    assert "seed_0, the best of 2 seeds" in choice.verdict and "their average has" in choice.verdict
    assert choice.verdict.endswith("and is not better")


def test_an_average_has_statistics_of_batches_averaged_and_counters_of_the_first(
    benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(
        "import keras\n"
        "class Counts(keras.layers.Layer):\n"
        "    def build(self, shape):\n"
        "        self.count = self.add_weight(name='count', shape=(), dtype='int32', trainable=False)\n"
        "    def call(self, x):\n"
        "        return x\n"
        "    def compute_output_shape(self, shape):\n"
        "        return shape\n"
        "def make(outputs):\n"
        "    flat, normed = keras.layers.Flatten(), keras.layers.BatchNormalization()\n"
        "    return keras.Sequential([flat, normed, Counts(), keras.layers.Dense(outputs)])\n"
    )
    config = ImportedModel(target="nets:make", folder=str(tmp_path))
    features = {
        "image": {"dtype": "float32", "shape": [2, 2, 1]},
        "label": {"dtype": "int64", "shape": [], "classes": ["a", "b"]},
    }
    made = []
    for number in (2, 5, 11):
        model = config.build(features, seed=0)
        for variable in model.weights:
            variable.assign(np.full(variable.shape, number, str(variable.dtype)))
        bench = benches(f"model{number}")
        keras_file.save(model, bench.staging, config, features, 0)
        made.append(Model("0" * 64, bench.staging.root, "model"))
    values = {variable.path: np.asarray(variable) for variable in mean_of(made).weights}
    moving = [path for path in values if "moving" in path]
    assert len(moving) == 2 and all((values[path] == 6.0).all() for path in moving)
    assert [int(value) for path, value in values.items() if path.endswith("count")] == [2]


def test_points_of_several_trainings_have_names_of_their_own(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "metrics.jsonl")
    journal.of("seed_0").append(20, {"train/loss": 1.0})
    journal.of("seed_1").append(20, {"train/loss": 2.0})
    journal.of("seed_1").append(20, {"train/loss": 3.0})
    journal.of("seed_1").append(40, {"train/loss": 4.0})
    points = [(point.step, point.metrics) for point in read(tmp_path / "metrics.jsonl")]
    assert points == [(20, {"seed_0/train/loss": 1}), (20, {"seed_1/train/loss": 2}), (40, {"seed_1/train/loss": 4})]
    again = JournalFile(tmp_path / "metrics.jsonl")
    assert [again.of(name_of(number)).reached for number in range(3)] == [20, 40, 0]


def test_a_training_under_a_name_makes_the_bytes_of_a_plain_one(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    plain, named = benches("plain"), benches("named")
    fit(plain, tiny, MODEL, CONFIG, 5)
    path = tmp_path / "metrics.jsonl"
    fit(replace(named, journal=JournalFile(path)), tiny, MODEL, CONFIG, 5, name="seed_1")
    assert files(named) == files(plain)
    assert {name.split("/")[0] for point in read(path) for name in point.metrics} == {"seed_1"}


@pytest.mark.slow
def test_two_workers_train_under_a_name_as_one(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    config = CONFIG.model_copy(update={"optimizer": Sgd()})
    model = MODEL.model_copy(update={"dropout": 0.0})
    one, two, path = benches("one"), benches("two"), tmp_path / "metrics.jsonl"
    fit(one, tiny, model, config, 5)
    config = config.model_copy(update={"strategy": MultiWorker(workers=2)})
    with ProcessLauncher(tmp_path, 1).gang("train", config.roles) as gang:
        limits, nothing = Limits("resources.timeout", 120), lambda *_: None
        work = Work(fit, (tiny, model, config, 5, None, None, None, None, "seed_1"))
        gang.call(work, two.staging, path, limits=limits, on_report=nothing)
    assert distance(one, two) < 3e-7
    assert {name.split("/")[0] for point in read(path) for name in point.metrics} == {"seed_1"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"select": "average"}, "select .*is the mean of the weights of several trainings, and train.seeds is 1"),
        ({"seeds": 3, "continue_from": "0123"}, "continue_from .*goes on with one training and its seed"),
    ],
)
def test_what_several_seeds_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Conflict, match=says):
        raise_conflict(lambda: TrainConfig(steps=10, **options))


def test_a_chosen_model_is_not_continued(shifted: Callable[[float], Model], chosen: Callable, digits: Digits) -> None:
    _, bench, _ = chosen([shifted(0.0), shifted(1.0)], TWO)
    with pytest.raises(Refused, match="train.continue_from: 111111111111; a choice among models of several seeds has"):
        check_base(Model("1" * 64, bench.staging.root, "model"), digits.snapshot, {"train": CONFIG}, {})


def shipped(home: CommandHome) -> set[str]:
    """The names of the metrics that MLflow has."""
    with contextlib.closing(sqlite3.connect(home.root / "mlflow.db")) as database:
        return {name for (name,) in database.execute("SELECT key FROM latest_metrics")}


def prefect_table(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table of seeds that the run left in Prefect."""
    flow_run = {"any_": [record["attempts"][-1]["prefect_flow_run_id"]]}
    query = {"artifacts": {"flow_run_id": flow_run, "key": {"any_": ["train-seeds"]}}}
    [artifact] = httpx.post(f"{shared_server()}/artifacts/filter", json=query).json()
    return json.loads(artifact["data"])


@pytest.mark.slow
def test_killed_between_seeds_it_trains_none_twice_and_makes_the_same_bytes(
    prepared: Callable[[str], CommandHome],
) -> None:
    """The second kill is within the choice, if it is quick enough; each form of output has the scores of all seeds."""
    seeds = ("--train.seeds", "2", "--train.select", "average", "--train.tensorboard", "true")
    command = ("run", "training", DIGITS, *SMALL, *seeds, "--json")
    whole, broken = prepared("whole"), prepared("broken")
    answer = whole(*command)
    assert answer.code == 0, answer.stderr

    def made(name: str) -> Callable[[], bool]:
        return lambda: any(row["name"] == name for row in broken.newest_run()["stages"].get("train", []))

    assert broken.kill_when(made("seed_0"), *command)
    assert broken.kill_when(made("seed_1"), *command)
    assert Unbroken(command, whole).same_in(broken) == 3
    run = broken.newest_run()
    assert [(row["name"], row["cached"]) for row in run["stages"]["train"]][:2] == [("seed_0", True), ("seed_1", True)]
    metrics, record = answer.json["metrics"], whole.newest_run()
    values = [metrics[f"seed_{number}/validation/accuracy"] for number in range(2)]
    assert metrics["seeds/validation/accuracy"] == pytest.approx(np.mean(values))
    shown = whole("show", record["run_id"], "--json").json
    assert shown["seeds"]["chosen"] in ("seed_0", "seed_1")
    assert list(shown["ledgers"]) == ["seed_0", "seed_1"]
    assert "mean over 2 seeds, 95 % t interval: validation accuracy" in whole("show", record["run_id"]).stdout
    page = (whole.root / "runs" / record["run_id"] / "page.html").read_text()
    assert "Over 2 seeds" in page and "loss, train, by seed" in page and "of each seed, 1,075 examples" in page
    folder = whole.root / "runs" / record["run_id"]
    assert whole("board", record["run_id"], "--json").json["folder"] == str(folder), "that of all seeds"
    facts = Facts(resolve_run(Home(whole.root), record["run_id"]))
    assert f"TensorBoard: `millrace board {record['run_id']}`" in describe_run(facts)
    shown_samples, taken = samples(facts), read_samples(folder / shown["seeds"]["chosen"] / SAMPLES)
    assert shown_samples is not None and shown_samples[0] == [step for step, _ in taken]
    assert shipped(whole) >= {f"seed_{number}/train/loss" for number in range(2)} | {"seeds/validation/accuracy/low"}
    assert [row["model"] for row in prefect_table(record)] == ["seed_0", "seed_1", "average"]
    plain = whole("run", "training", DIGITS, *SMALL, "--json")
    assert plain.json["artifacts"]["train"][0]["cached"], "it has the first of the seeds"
    both = Comparison(*(resolve_run(Home(whole.root), each) for each in (plain.json["run_id"], record["run_id"])))
    assert "train a" in (html := comparison.render(both)) and "train b" in html, "from a training with a name"
