"""What is sent to MLflow and given to processes where there are several: parameters, kinds, states, ranks and hosts."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from multiprocessing import Pipe
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Param
from mlflow.utils.validation import _validate_param

from tasks.artifacts import Model, Records, Snapshot
from tasks.config.compose import load
from tasks.errors import Failed, Lost, Stopped
from tasks.processes import gang as gang_module
from tasks.processes.child import Child
from tasks.processes.config import CHIEF, SIDECAR, WORKER, expanded, slurm, tf_config
from tasks.processes.gang import Gang
from tasks.processes.threads import processor
from tasks.processes.workbench import Limits, Request, Work
from tasks.runner import attempt as attempts
from tasks.runner import starting_models
from tasks.runner.attempt import Attempt
from tasks.runner.hosts import expectations
from tasks.runner.showing import MOST, Presence
from tasks.runner.signals import Signals
from tasks.runner.trials import _trained
from tasks.runner.tuning import Search
from tasks.search import study as studies
from tasks.search.config import TuneConfig
from tasks.search.monitor import TrialMonitor
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, Table, Trial
from tasks.store.journal import JournalFile, read
from tasks.tracking import prefect_page
from tasks.tracking import runs as tracked_runs
from tasks.tracking.shipping import Shipper
from tasks.training.config import TrainConfig
from tests.support.homes import DIGITS


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("completed", "FINISHED"),
        ("rejected", "FINISHED"),
        ("awaiting_approval", "FINISHED"),
        ("stopped", "KILLED"),
        ("pruned", "KILLED"),
        ("failed", "FAILED"),
        ("refused", "FAILED"),
    ],
)
def test_each_end_of_a_run_has_its_status_in_mlflow(status: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(tracked_runs, "log_result", lambda *given: ended.append(given[3:]))
    client: Any = SimpleNamespace(set_terminated=lambda run, word, at: ended.append((run, word, at)))
    run: Any = SimpleNamespace(record={"status": status})
    monkeypatch.setattr("time.time", lambda: 1.7e9 + 0.25)
    tracked_runs.end(client, "id", run, ["page"], "words")  # type: ignore[list-item]
    assert ended == [(["page"], "words"), ("id", shown, 1_700_000_000_250)]


class Store:
    """A tracking store that keeps what it is told."""

    tracking_uri = "sqlite:///x"

    def __init__(self, found: bool) -> None:
        self.found = found
        self.params: list[Any] = []
        self.sizes: list[int] = []
        self.tags: dict[str, str] = {}
        self.calls: list[Any] = []

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id="7", artifact_location="mlflow-artifacts:/7", tags={})

    def set_experiment_tag(self, experiment: str, name: str, value: str) -> None:
        assert (experiment, name) == ("7", tracked_runs.VIEW)

    def search_runs(self, experiments: list[str], query: str, **more: Any) -> list[Any]:
        assert experiments == ["7"] and query == "tags.`millrace.run` = 'the-run'"
        return [SimpleNamespace(info=SimpleNamespace(run_id="old"))] if self.found else []

    def update_run(self, run: str, status: str) -> None:
        self.calls.append((run, status))

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        self.calls.append((experiment, run_name))
        self.tags |= tags
        return SimpleNamespace(info=SimpleNamespace(run_id="new"))

    def log_batch(self, run: str, params: Any = (), tags: Any = ()) -> None:
        self.sizes.append(len(params))
        self.params += params
        self.tags |= {tag.key: tag.value for tag in tags}

    def set_tag(self, run: str, name: str, value: str) -> None:
        self.tags[name] = value

    def log_inputs(self, run: str, inputs: list[Any]) -> None:
        self.calls += [each.dataset.name for each in inputs]

    def log_dict(self, run: str, content: Any, name: str) -> None:
        self.calls.append(name)


def run_of(config: dict[str, Any], parent: Any = None) -> Any:
    record = {"name": "digits", "flow": "tuning", "config": config}
    home: Any = SimpleNamespace(runs=Path("none"))
    return SimpleNamespace(record=record, run_id="the-run", attempt=3, title="title", parent=parent, home=home)


def test_parameters_of_columns_have_names_that_mlflow_takes() -> None:
    """A run ended before its release where a column is called as in a survey."""
    names = ["Income (USD)", "Income [USD]", "What is your age?", "a//b", "../up", "x" * 300, "x" * 301, "Größe/m"]
    columns = {name: f"type {number}" for number, name in enumerate(names)}
    store: Any = Store(found=False)
    tracked_runs.find_or_begin(store, run_of({"source": {"columns": columns}}))
    sent = {param.key: param.value for param in store.params}
    assert list(sent.values()) == list(columns.values()), "none takes the place of another"
    assert list(sent)[:3] == [
        "source.columns.Income _USD_",
        "source.columns.Income _USD_ 2",
        "source.columns.What is your age_",
    ]
    for key, value in sent.items():
        assert _validate_param(key, value) == Param(key, value), "as it is, nothing cut"


def test_every_parameter_is_sent_in_parts_of_a_hundred_and_what_says_nothing_is_not() -> None:
    config: dict[str, Any] = {f"k{number:03d}": {"a": number} for number in range(230)} | {
        "none": None,
        "text": "",
        "map": {},
        "no": 0,
    }
    store: Any = Store(found=False)
    assert tracked_runs.find_or_begin(store, run_of(config)) == "new"
    sent = {param.key: param.value for param in store.params}
    assert store.sizes == [100, 100, 31] and sent == {f"k{n:03d}.a": str(n) for n in range(230)} | {"no": "0"}
    assert store.calls == [("7", "first run")] and store.tags["millrace.attempts"] == "3"
    assert (store.tags["millrace.run"], store.tags["millrace.flow"]) == ("the-run", "tuning")
    assert "mlflow.parentRunId" not in store.tags
    again: Any = Store(found=True)
    assert tracked_runs.find_or_begin(again, run_of({"a": 1})) == "old" and again.calls == [("old", "RUNNING")]


def test_a_trial_stands_below_its_tuning_which_must_be_there() -> None:
    store: Any = Store(found=False)
    parent = SimpleNamespace(record={"mlflow_run_id": "above"})
    tracked_runs.find_or_begin(store, run_of({}, parent))
    assert store.tags["mlflow.parentRunId"] == "above"
    parent.record["mlflow_run_id"] = None
    with pytest.raises(LookupError):
        tracked_runs.find_or_begin(store, run_of({}, parent))


@pytest.mark.parametrize(
    ("kind", "name", "tag", "inputs"),
    [
        (Records, "records", "millrace.convert", ["records"]),
        (Snapshot, "snapshot", "millrace.convert", ["snapshot"]),
        (Model, "model", "millrace.convert", []),
        (Model, "seed_1", "millrace.convert.seed_1", []),
    ],
)
def test_data_is_an_input_and_every_artifact_a_tag(kind: Any, name: str, tag: str, inputs: list[str]) -> None:
    manifest = {"features": {}, "counts": {}, "produced_by": {"run": "another"}}
    artifact = kind("d" * 64, Path(), name, manifest)
    for cached in (False, True):
        store: Any = Store(found=False)
        tracked_runs.note_stage(store, "id", "convert", artifact, cached)
        made_by = {"millrace.made_by.convert": "another"} if cached else {}
        assert store.tags == {tag: "d" * 12} | made_by
        assert store.calls == [*inputs, f"manifests/convert-{name}.json"]


def test_what_is_queued_is_sent_in_order_and_what_failed_first_again(tmp_path: Path) -> None:
    shipper: Any = Shipper.__new__(Shipper)
    shipper.client, shipper.mlflow_id, shipper._unsent = Store(found=False), "id", None
    shipper._queue = SimpleQueue()
    shipper.tags({"a": "1", "b": "2", "c": "4"})
    shipper.tags({"b": "3"})
    shipper._send_queued()
    assert shipper.client.tags == {"a": "1", "b": "3", "c": "4"}
    tries: list[str] = []

    def fails_once(client: Any, run: str) -> None:
        tries.append("first")
        if len(tries) == 1:
            raise ConnectionError

    shipper._queue.put(fails_once)
    shipper._queue.put(lambda client, run: tries.append("second"))
    with pytest.raises(ConnectionError):
        shipper._send_queued()
    shipper._send_queued()
    assert tries == ["first", "first", "second"]


def test_each_trial_is_a_row_with_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[Any] = []
    monkeypatch.setattr(prefect_page, "_create", lambda what, create: create())
    monkeypatch.setattr(prefect_page, "create_table_artifact", lambda rows, **more: created.append((rows, more["key"])))
    rows = [
        Trial(0, COMPLETE, {"train.ema": 0.5}, 0.75, 10, 1.0, None, False, None),
        Trial(1, FAILED, {"train.ema": 0.9}, None, 0, 1.0, None, False, "why"),
    ]
    prefect_page.trials(Table("s", "accuracy", True, rows))
    assert created == [
        (
            [
                {"trial": 0, "state": COMPLETE, "accuracy": 0.75, "steps": 10, "train.ema": 0.5},
                {"trial": 1, "state": FAILED, "accuracy": None, "steps": 0, "train.ema": 0.9},
            ],
            "trials",
        )
    ]


# Journals.


def test_the_journal_of_a_training_knows_each_name_at_each_step_and_none_of_another(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    journal = JournalFile(path)
    for name, loss in (("seed_1", 0.5), ("seed_10", 0.25)):
        journal.of(name).append(20, {"train/loss": loss, "train/rate": 1.0})
    journal.append(30, {"train/loss": 9.0})
    again = JournalFile(path)
    again.of("seed_1").append(20, {"train/rate": 7.0, "train/loss": 7.0, "new": 7.0})
    again.of("seed_1").append(40, {"train/loss": 0.1})
    points = [(point.step, point.metrics) for point in read(path)]
    assert points[3] == (20, {"seed_1/new": 7.0}) and len(points) == 5
    reached = [JournalFile(path, prefix).reached for prefix in ("", "seed_1/", "seed_10/", "seed_2/")]
    assert reached == [30, 40, 20, 0] and JournalFile(path).of("seed_1").folder == tmp_path / "seed_1"
    offsets = [point.end for point in read(path)]
    assert [point.step for point in read(path, offsets[2])] == [20, 40] and offsets[-1] == path.stat().st_size


# Processes.


class Near:
    """A compute process that is done as soon as it is called."""

    def __init__(self, rank: int) -> None:
        self.rank, self.host, self.address = rank, f"host{rank}", f"10.0.0.{rank}:5"
        self.threads, self.log, self.seen = 10 + rank, Path("x.log"), None
        self.connection, self._far = Pipe()
        self.request: Any = None

    def call(self, request: Any) -> None:
        self.request = request
        self._far.send(("done", f"result of {self.rank}"))

    def lines(self) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("threads", [None, 4])
def test_every_process_of_a_gang_knows_its_own_place_and_that_of_all(threads: int | None) -> None:
    gang = Gang(Near, (CHIEF, WORKER, SIDECAR))  # type: ignore[arg-type]
    layout = {"devices": 3}
    made = gang.call(
        Work(sees, (1, "two")),
        "staging",  # type: ignore[arg-type]
        Path("journal"),
        limits=Limits(),
        on_report=lambda *report: None,
        threads=threads,
        layout=layout,
    )
    assert made == "result of 0"
    for rank, process in enumerate(gang.processes):
        request = process.request  # type: ignore[attr-defined]
        assert (request.rank, request.role) == (rank, ("chief", "worker", "sidecar")[rank])
        assert request.threads == (threads or 10 + rank) and request.layout == layout
        assert request.peers == ("chief", "worker", "sidecar") and request.work.arguments == (1, "two")
        assert request.hosts == ("host0", "host1", "host2")
        assert request.addresses == ("10.0.0.0:5", "10.0.0.1:5", "10.0.0.2:5")


SEEN: list[Any] = []


def sees(bench: Any, *arguments: Any) -> str:
    SEEN.append((bench, arguments, os.environ.get("OF_A_SECRET")))
    return "outcome"


def test_work_is_given_all_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[int] = []
    monkeypatch.setattr("tasks.processes.threads.pin", pinned.append)
    monkeypatch.delenv("OF_A_SECRET", raising=False)
    monkeypatch.setitem(os.environ, "OF_A_SECRET", "before")
    sent: list[Any] = []
    connection: Any = SimpleNamespace(send=sent.append)
    staging: Any = "staging"
    more: dict[str, Any] = {"peers": ("chief", "chief2"), "addresses": ("a:1", "b:2"), "hosts": ("x", "y")}
    request = Request(
        Work(sees, (1, 2)), staging, None, 5, {"a": 3}, role="chief", rank=0, **more, secrets={"OF_A_SECRET": "known"}
    )
    Child(connection)._work(request)
    bench, arguments, secret = SEEN.pop()
    assert (bench.staging, bench.threads, bench.layout, bench.role, bench.rank) == ("staging", 5, {"a": 3}, "chief", 0)
    assert {name: getattr(bench, name) for name in more} == more and arguments == (1, 2)
    assert secret == "known" and pinned == [5] and sent[-1] == ("done", "outcome") and ("alive",) in sent


def test_each_process_of_a_crew_has_its_own_log_and_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    networks: list[Any] = []

    def process(stage: str, log: Path, threads: int, rank: int, address: str, network: Any) -> Any:
        made.append((stage, log.name, threads, rank, address))
        networks.append(network)
        return SimpleNamespace(rank=rank, close=lambda: made.append(f"close {rank}"), kill=lambda: made.append(rank))

    monkeypatch.setattr(gang_module, "Process", process)
    launcher = gang_module.ProcessLauncher(tmp_path, 3)
    with launcher.gang("train", (CHIEF, WORKER, SIDECAR)):
        assert [row[:4] for row in made] == [
            ("train", "train.log", 3, 0),
            ("train", "train-1.log", 3, 1),
            ("train", "train-2.log", 3, 2),
        ]
        assert len({row[4] for row in made}) == 3
        assert networks[0].descriptors and networks == [networks[0]] * 3, "one network for all of them"
    assert not networks[0].descriptors, "it ends with them"
    assert made[3:] == ["close 0", "close 1", 2], "what serves is still working"
    with pytest.raises(ZeroDivisionError), launcher.gang("train", (CHIEF, WORKER)):
        made.clear()
        raise ZeroDivisionError
    assert made == [0, 1]


def test_processes_that_share_the_network_of_the_machine_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("unshare: Operation not permitted")

    networks: list[Any] = []

    def process(*given: Any) -> Any:
        networks.append(given[-1])
        return SimpleNamespace(rank=given[3], close=lambda: None, kill=lambda: None)

    monkeypatch.setattr(gang_module, "PrivateNetwork", refuse)
    monkeypatch.setattr(gang_module, "Process", process)
    said: list[str] = []
    with gang_module.ProcessLauncher(tmp_path, 3).gang("train", (CHIEF, WORKER), said.append):
        assert networks == [None, None]
    with gang_module.ProcessLauncher(tmp_path, 3).gang("train", (CHIEF,), said.append):
        pass
    [warning] = said
    assert "whoever reaches this machine over its network" in warning and "Operation not permitted" in warning


def test_other_hosts_are_waited_for_where_several_work_together_and_not_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def process(stage: str, log: Path, threads: int, rank: int, address: str, network: Any) -> Any:
        made.append(("here", rank, threads))
        return SimpleNamespace(rank=rank, close=lambda: None, kill=lambda: None)

    def elsewhere(rank: int, stage: str, threads: int) -> Any:
        made.append(("there", rank, stage, threads))
        return SimpleNamespace(rank=rank, close=lambda: None, kill=lambda: None)

    monkeypatch.setattr(gang_module, "Process", process)
    cluster = SimpleNamespace(chief="127.0.0.1", port_of=lambda rank: 0)
    rendezvous: Any = SimpleNamespace(cluster=cluster, wait=lambda waiting: made.append("waited"), process=elsewhere)
    launcher = gang_module.ProcessLauncher(tmp_path, 3, rendezvous)
    with launcher.gang("convert"):
        assert made == [("here", 0, 3)]
    made.clear()
    with launcher.gang("train", (CHIEF, WORKER, WORKER)):
        assert made == ["waited", ("here", 0, 3), ("there", 1, "train", 3), ("there", 2, "train", 3)]


@pytest.mark.parametrize("job", ["chief", "master", "worker", "ps"])
def test_each_job_of_tensorflows_variable_has_a_rank(job: str) -> None:
    jobs = {"ps": ["p:1"], "worker": ["w:1", "w:2"], "master": ["m:1"], "chief": ["c:1"], "evaluator": ["e:1"]}
    text = json.dumps({"cluster": jobs, "task": {"type": job, "index": len(jobs[job]) - 1}})
    found = tf_config({"TF_CONFIG": text}, None, 1)
    assert found is not None
    hosts, rank, _ = found
    assert hosts == ["c:1", "m:1", "w:1", "w:2", "p:1"] and hosts[rank] == jobs[job][-1]


def test_the_nodes_of_a_step_come_before_those_of_the_job() -> None:
    variables = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "a[1-4]"}
    config = TrainConfig.model_validate({"steps": 1})
    found = slurm({**variables, "SLURM_STEP_NODELIST": "a[03-04]"}, config.cluster, config.strategy.processes)
    assert found == (["a03", "a04"], 1, "Slurm")
    assert expanded("gpu[08-11,2]x,login,n[1]") == ["gpu08x", "gpu09x", "gpu10x", "gpu11x", "gpu2x", "login", "n1"]


# Stages.


class Shown:
    """A gang that keeps how it is called."""

    def __init__(self) -> None:
        self.gangs: list[Any] = []
        self.calls: list[Any] = []

    @contextlib.contextmanager
    def gang(self, stage: str, roles: Any, waiting: Any) -> Any:
        self.gangs.append((stage, roles))
        yield self

    def call(self, work: Work[Any], staging: Any, journal: Path, **more: Any) -> Any:
        self.calls.append((work, staging, journal, more))
        return "outcome"


def attempt_of(flags: list[tuple[str, str]], threads: int = 8) -> Any:
    attempt: Any = Attempt.__new__(Attempt)
    attempt.config, attempt.threads, attempt.rendezvous = load(DIGITS, flags), threads, None
    attempt.launcher = Shown()
    attempt.run = SimpleNamespace(folder=Path("run"), measure=lambda *given: None)
    attempt.signals = SimpleNamespace(working=contextlib.nullcontext, raise_if_stopped=lambda: None, number=0)
    return attempt


def test_work_has_the_limits_threads_and_layout_of_its_stage() -> None:
    flags = [("resources.timeout", "500"), ("resources.grace", "7"), ("resources.timeouts.train", "90")]
    attempt = attempt_of([*flags, ("train.strategy", "{kind: multi_worker, workers: 2}")])
    roles = attempt.config.train.roles
    assert attempt.work("train", Work(sees, (1,)), "staging", roles=roles) == "outcome"
    attempt.work("evaluate", Work(sees), None)
    attempt.work("export", Work(sees), None, threads=1)
    assert attempt.launcher.gangs == [("train", roles), ("evaluate", (CHIEF,)), ("export", (CHIEF,))]
    training, evaluation, export = attempt.launcher.calls
    assert training[:3] == (Work(sees, (1,)), "staging", Path("run/metrics.jsonl"))
    limits = [call[3]["limits"] for call in (training, evaluation)]
    assert [(each.field, each.seconds, each.grace) for each in limits] == [
        ("resources.timeouts.train", 90, 7),
        ("resources.timeout", 500, 7),
    ]
    assert [call[3]["threads"] for call in (training, evaluation, export)] == [4, 8, 1]
    assert training[3]["layout"]["workers"] == 2


def test_the_layout_names_threads_and_processor_of_each_host_where_they_differ() -> None:
    """Each decides last bits: a training that goes on on another host than before is not bit-identical."""
    attempt = attempt_of([("train.strategy", "{kind: multi_worker, workers: 3}"), ("train.batch_size", "63")])
    alone = attempt.layout
    for others, threads, machine in (
        ([(attempt.threads, processor())] * 2, attempt.threads, processor()),
        (
            [(attempt.threads, processor()), (3, "other")],
            f"{attempt.threads}, {attempt.threads}, 3",
            f"{processor()}, {processor()}, other",
        ),
    ):
        attempt.rendezvous = SimpleNamespace(machines=lambda others=others: others)
        assert attempt.layout == {**alone, "threads": threads, "processor": machine}


class Scripted(Shown):
    """A gang that reports at each call that a step is saved and is lost, but at the last one."""

    def __init__(self, *steps: int) -> None:
        super().__init__()
        self.left = list(steps)

    def call(self, *given: Any, on_report: Any, **more: Any) -> Any:
        super().call(*given, **more)
        if not self.left:
            return "outcome"
        on_report("saved", self.left.pop(0))
        raise Lost("train.strategy", "it was killed", "it must answer", "run again")


@pytest.mark.parametrize(
    ("steps", "restarts", "pauses", "ends"),
    [
        ((10, 10, 20, 20), 2, [2.0, 4.0, 2.0, 4.0], "outcome"),
        ((10, 10, 10), 2, [2.0, 4.0], "train.restarts allows 2"),
        ((0,), None, [], "it was killed; it must answer"),
    ],
)
def test_lost_work_begins_again_as_long_as_it_gets_on(
    steps: tuple[int, ...], restarts: int | None, pauses: list[float], ends: str
) -> None:
    attempt, waited = attempt_of([]), list[float]()
    attempt.launcher, attempt._pause = Scripted(*steps), waited.append
    if ends == "outcome":
        assert attempt.work("train", Work(sees), None, restarts=restarts) == "outcome"
    else:
        with pytest.raises(Failed, match=ends):
            attempt.work("train", Work(sees), None, restarts=restarts)
    assert waited == pauses


def test_a_signal_during_the_pause_before_a_restart_ends_the_work() -> None:
    attempt = attempt_of([])
    attempt.launcher, attempt.signals = Scripted(1, 2, 3), Signals()
    attempt._pause = lambda seconds: setattr(attempt.signals, "number", 15)
    with pytest.raises(Stopped):
        attempt.work("train", Work(sees), None, restarts=5)
    assert len(attempt.launcher.calls) == 1


def test_processes_at_work_are_asked_to_stop_and_what_they_report_goes_where_it_belongs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempt, progress, measured, stops = attempt_of([]), list[Any](), list[Any](), list[int]()
    attempt.signals = Signals()
    attempt.run.measure = lambda *given: measured.append(given)

    class Reporting(Shown):
        def call(self, *given: Any, on_report: Any, stop: Any, **more: Any) -> None:
            on_report("progress", 3, 7, "steps", {})
            on_report("measure", "train/rate", 5.0)
            on_report("log", 1, "a line")
            stops.append(stop())
            attempt.signals._handle(15, None)  # is left to the processes, which may save
            stops.append(stop())

    attempt.launcher = Reporting()
    with caplog.at_level(logging.INFO, "tasks.processes.gang"):
        attempt.work("train", Work(sees), None, on_progress=lambda *given: progress.append(given))
    assert progress == [(3, 7, "steps", {})] and measured == [("train/rate", 5.0)] and stops == [0, 15]
    assert "[train 1] a line" in caplog.messages


def test_a_fork_server_begins_for_the_run_and_for_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(attempts, "finished_before", lambda home, flow, config: flow == "done")
    monkeypatch.setattr(attempts, "fork_server", lambda threads, log: started.append((threads, log.name)))
    home: Any = SimpleNamespace(root=Path("home"))
    config: Any = SimpleNamespace(resources=SimpleNamespace(threads=6), tune=SimpleNamespace(parallel=3))
    assert attempts.start_fork_server(home, "tuning", config)
    assert sorted(started) == [(2, "fork-server.log"), (6, "fork-server.log")]
    assert not attempts.start_fork_server(home, "done", config) and len(started) == 2


def test_hosts_must_agree_on_the_seed_the_model_and_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = ("train.strategy", "{kind: multi_worker, workers: 2}")

    def expected(*flags: tuple[str, str]) -> dict[str, Any]:
        return expectations(load(DIGITS, [strategy, *flags]))

    before = expected()
    for flag in (("seed", "77"), ("train.batch_size", "48"), ("train.ema", "0.5")):
        other = expected(flag)
        assert [name for name in {**before, **other} if before.get(name) != other.get(name)] == [flag[0]]
    monkeypatch.setattr("tasks.runner.hosts.installed", lambda package: f"of {package}")
    versions = {name: value for name, value in expected().items() if value == f"of {name}"}
    assert {"tensorflow", "keras", "numpy"} <= versions.keys()
    monkeypatch.setattr("tasks.runner.hosts.MODEL_VERSION", -1)
    assert expected()["code of training"] == -1


def test_each_strategy_is_tested_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tested: list[Any] = []

    def work(stage: str, work: Work[Any], staging: Any, roles: Any) -> str:
        strategy, precision = work.arguments
        tested.append((strategy.kind, strategy.devices_of_each, precision, len(roles)))
        return "verdict"

    recorded: list[Any] = []
    run = SimpleNamespace(home=SimpleNamespace(root=tmp_path), measure=lambda name, value: recorded.append(value))
    attempt: Any = SimpleNamespace(run=run, work=work)
    monkeypatch.setattr(starting_models, "current", SimpleNamespace(get=lambda: attempt))
    strategies = [{"kind": "mirrored", "devices": 2}, {"kind": "mirrored", "devices": 4}]
    strategies += [{"kind": "multi_worker", "workers": 2}]
    for _ in range(2):
        for strategy in strategies:
            starting_models.check_strategy(TrainConfig.model_validate({"steps": 1, "strategy": strategy}))
    assert [row[3] for row in tested] == [1, 1, 2] and len(set(tested)) == 3
    monkeypatch.setattr(starting_models, "SELF_TEST_VERSION", -1)
    starting_models.check_strategy(TrainConfig.model_validate({"steps": 1, "strategy": strategies[0]}))
    assert len(tested) == 4
    assert len(json.loads((tmp_path / "self_tests.json").read_bytes())) == 4, "verdicts are kept beside one another"
    assert [row["result"] for row in recorded] == ["verdict"] * 7, "with each run, also what an earlier one has found"
    assert {row["strategy"]["kind"] for row in recorded} == {"mirrored", "multi_worker"}


def test_a_verdict_is_on_the_precision_and_the_packages_of_its_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[Any] = []
    run = SimpleNamespace(home=SimpleNamespace(root=tmp_path), measure=lambda name, value: None)
    attempt: Any = SimpleNamespace(run=run, work=lambda *given, roles: tested.append(given[1].arguments[1]))
    monkeypatch.setattr(starting_models, "current", SimpleNamespace(get=lambda: attempt))
    versions = {"horovod": "1"}
    monkeypatch.setattr(starting_models, "installed", lambda name: versions.get(name, "0"))

    def check(strategy: dict[str, Any], precision: str) -> int:
        starting_models.check_strategy(
            TrainConfig.model_validate({"steps": 1, "strategy": strategy, "precision": precision})
        )
        return len(tested)

    mirrored = {"kind": "mirrored", "devices": 2}
    assert [check(mirrored, precision) for precision in ("float32", "bfloat16", "float16", "float32")] == [1, 2, 3, 3]
    assert check({"kind": "one_device"}, "bfloat16") == 3, "it computes as Keras does"
    assert check({"kind": "one_device"}, "float16") == 4, "its loss is scaled"
    assert check({"kind": "parameter_server", "workers": 2}, "float32") == 4, "its order of updates is not repeatable"
    for number in (1, 1, 2):
        versions["horovod"] = str(number)
        check({"kind": "horovod", "workers": 2}, "float32")
    assert tested[4:] == ["float32", "float32"]


def test_the_newest_events_of_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Any] = []
    monkeypatch.setattr(prefect_page, "processes", lambda stage, events: None)
    run: Any = SimpleNamespace(measure=lambda name, value: measured.append((name, value)))
    presence = Presence("train", (CHIEF, WORKER), run)
    for number in range(MOST):
        presence.note(number % 2, f"host{number % 2}", f"lost {number}")
    presence.note(1, "host1", "the last")
    name, events = measured[-1]
    assert name == "train/processes" and len(events) == MOST and events[-1]["event"] == "the last"
    assert [(each["rank"], each["role"], each["host"]) for each in events[-2:]] == [
        (1, "worker", "host1"),
        (1, "worker", "host1"),
    ]


@pytest.mark.parametrize(("higher", "best"), [(True, [0.5, 0.75, 0.75]), (False, [0.5, 0.5, 0.25])])
def test_the_best_score_so_far_is_that_of_the_direction(higher: bool, best: list[float], tmp_path: Path) -> None:
    def trial(number: int, state: str, value: float | None) -> Trial:
        return Trial(number, state, {}, value, 10, 1.0, None, False, None)

    rows = [trial(0, COMPLETE, 0.5), trial(1, PRUNED, 0.0 if not higher else 9.0), trial(2, COMPLETE, 0.75)]
    rows += [trial(3, COMPLETE, 0.25), trial(4, RUNNING, None)]
    search: Any = Search.__new__(Search)
    search.recording, search.higher = contextlib.nullcontext(), higher
    search.table = lambda: Table("s", "m", higher, rows)
    search.attempt = SimpleNamespace(run=SimpleNamespace(folder=tmp_path))
    search.journal = JournalFile(tmp_path / "metrics.jsonl")
    search.record()
    points = [
        (point.step, point.metrics["tune/score"], point.metrics["tune/best"]) for point in read(search.journal.path)
    ]
    assert points == list(zip([1, 3, 4], [0.5, 0.75, 0.25], best, strict=True)) and search.ended == 4
    assert search.best.number == (2 if higher else 3)


@pytest.mark.parametrize("field", ["model.units", "train.learning_rate", "source.path", "resources.timeout"])
def test_an_error_of_either_section_of_a_trial_is_its_own(field: str) -> None:
    failed: list[Any] = []

    def train(*given: Any) -> None:
        raise Failed(field, "saw", "rule", "remedy")

    judge: Any = SimpleNamespace(
        study=SimpleNamespace(fail=lambda number, **facts: failed.append((number, facts["seconds"]))),
        number=5,
        take=lambda journal: False,
    )
    attempt: Any = SimpleNamespace(journal=Path(), seconds=2.5, signals=SimpleNamespace(number=0))
    config: Any = SimpleNamespace(model=None, train=None, seed=0, evaluate=None)
    if field.startswith(("model", "train")):
        assert _trained(attempt, judge, config, train, None) == FAILED and failed == [(5, 2.5)]  # type: ignore[arg-type]
        return
    with pytest.raises(Failed, match=field):
        _trained(attempt, judge, config, train, None)  # type: ignore[arg-type]
    assert failed == [] and issubclass(Lost, Failed)


def test_each_journal_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    reported: list[tuple[int, float]] = []
    study: Any = SimpleNamespace(
        report=lambda number, step, score: reported.append((step, score)), prunes=lambda number, step: False
    )
    judge = TrialMonitor(study, 3, "accuracy", TrainConfig.model_validate({"steps": 100}), 100)

    def written(name: str, *steps: int) -> Path:
        journal = JournalFile(tmp_path / name)
        for step in steps:
            journal.append(step, {"validation/accuracy": step / 100, "validation/loss": 1.0, "train/loss": 1.0})
        return journal.path

    long, short = written("long", 10, 20, 30), written("short", 40)
    for path in (long, short, long):
        assert not judge.take(path)
    written("short", 50)
    written("long", 60)
    judge.take(short)
    judge.take(long)
    assert reported == [(step, step / 100) for step in (10, 20, 30, 40, 50, 60)]
    assert judge.offsets == {path: path.stat().st_size for path in (long, short)}


def test_values_are_chosen_like_those_of_the_trials_that_are_better(tmp_path: Path) -> None:
    """Of the same trials a study that looks for low scores chooses others than one that looks for high ones."""
    space = {"train.ema": {"kind": "float", "low": 0.0, "high": 0.9}}
    config = TuneConfig.model_validate({"space": space, "trials": 40, "sampler": {"kind": "tpe", "startup": 6}})
    chosen = []
    for higher in (True, False):
        path = tmp_path / f"{higher}.db"
        with studies.opened(path, "study", config, higher_is_better=higher, seed=1) as study:
            for _ in range(6):
                trial = study.ask()
                study.complete(trial.number, trial.values["train.ema"])
            chosen.append([study.ask().values["train.ema"] for _ in range(3)])
    assert sum(chosen[0]) > sum(chosen[1]) + 0.3
