"""What the tests of several stages share: a workbench on a temporary folder, and an artifact made from it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.environment import process
from tasks.models.architectures.mlp import MlpModel
from tasks.processes import threads
from tasks.processes.fork_server import SHARED
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.tracking.runs import make_database
from tasks.training.fit import fit
from tests.support.benches import Kind, RowsSource, published, workbench
from tests.support.digits import Digits, kept_digits
from tests.support.homes import DIGITS, SMALL, Answer, CommandHome, asked_home, finished_home, prepared_home
from tests.support.registries import RegistryHome
from tests.support.shared import start_for_all, wait_for_fork_servers
from tests.support.stacks import Up, copied_stack, free_ports
from tests.support.tiny import CONFIG, write_snapshot
from tests.support.training import PLAIN, Training

pytest_plugins = ["tests.support.slowest"]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # a thread that asks the network, and draws random numbers
TRACKING = os.environ.get("MLFLOW_TRACKING_URI")  # before any test

SHARING = (
    "test_platform_housekeeping.py",
    "test_platform_pages.py",
    "test_platform_approval.py",
    "test_platform_alerts.py",
    "test_platform_runs.py",
    "test_platform_docs.py",
    "test_platform_stack.py",
)
"""The files that share a stack, in this order: the first counts what is in it, the last begins with it down."""

LONGEST = (
    *SHARING,
    "test_docs_are_true.py",
    "test_demo_works.py",
    "test_language_model_beats_gzip.py",
    "test_run_meets_trouble.py",
    "test_train_workers.py",
    "test_model_pipelines.py",
    "test_platform_access.py",
    "test_run_survives_kills.py",
    "test_train_hosts.py",
    "test_language_model_survives_kills.py",
    "test_tune_flow.py",
    "test_train_seeds.py",
    "test_run_meets_damage.py",
    "test_tracking_outages.py",
    "test_run_contract.py",
    "test_run_stops.py",
)
"""The longest files. They go first, so that the workers end together; those that compute, and those that wait, take
turns."""


@pytest.fixture(autouse=True)
def nothing_is_left_of_tracking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run in the test's own process leaves a thread that may be making MLflow's database, and MLflow's address.

    What a fixture of a module leaves there is taken away too: the address is what it was when the session began.
    """
    yield
    for thread in threading.enumerate():
        if thread.name == "shipping":
            thread.join(60)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    if TRACKING is not None:
        os.environ["MLFLOW_TRACKING_URI"] = TRACKING


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_of_graphs() -> Iterator[None]:
    """TensorFlow 2.21 keeps the graph of each `tf.custom_gradient` that is traced (findings/)."""
    yield
    if ops := sys.modules.get("tensorflow.python.framework.ops"):
        registered = ops.gradient_registry._registry
        graphs = [name for name in registered if name.startswith("CustomGradient-")]
        for name in graphs:
            del registered[name]
        if graphs:
            gc.collect()


def pytest_configure(config: pytest.Config) -> None:
    """Servers are started above the processes that xdist starts; the test files are imported in those."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        start_for_all()
    else:
        process.pause()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without a slow test out of the slow suite: each of its processes would import them."""
    if config.getoption("markexpr") != "slow" or not collection_path.match("test_*.py"):
        return None
    return "mark.slow" not in collection_path.read_text() or None


def pytest_collection_finish() -> None:
    """Collect garbage as processes of ours do: not while files are imported, and then not what they have imported."""
    if SHARED in os.environ:
        wait_for_fork_servers(os.environ[SHARED])
    gc.collect()
    process.resume()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """`--dist=loadfile`, where the files that share a stack count as one: a worker takes them all.

    `--dist=loadgroup` cannot do it: xdist 3.8.0 writes the groups into an attribute that pytest 9 does not read.
    """
    return Sharing(config, log) if config.getvalue("dist") == "loadfile" else None


class Sharing(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "stack" if Path(file).name in SHARING else file


@pytest.fixture(scope="session", autouse=True)
def pinned() -> None:
    """Pin TensorFlow's threads as a compute process does: they cannot be pinned any more once it has computed."""
    threads.pin(2)


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow, with its threads pinned, for tests that have it compute before any stage does."""
    import tensorflow

    threads.pin(2)
    return tensorflow


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A workbench on `tmp_path/staging`."""
    return workbench(tmp_path / "staging")


@pytest.fixture
def benches(tmp_path: Path) -> Callable[[str], Workbench]:
    """`benches(name)`: further workbenches, on `tmp_path/name`."""
    return lambda name: workbench(tmp_path / name)


@pytest.fixture(scope="session")
def workbench_at() -> Callable[[Path], Workbench]:
    """`workbench_at(folder)`, for what outlives a test."""
    return workbench


@pytest.fixture(scope="session")
def publish() -> Callable[[type[Kind], Workbench, Outcome], Kind]:
    """`publish(kind, bench, outcome)`: the handle of what was made on a workbench, under a minimal manifest."""
    return published


@pytest.fixture(scope="session")
def rows_source() -> type[RowsSource]:
    """`rows_source(rows)`: a source of rows given in memory."""
    return RowsSource


@pytest.fixture(scope="session")
def digits() -> Digits:
    """The first stages on scikit-learn's digits, once for all tests that judge, compress and export."""
    return kept_digits()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Ten training images of two classes (`tests.support.tiny`)."""
    bench = workbench(tmp_path_factory.mktemp("tiny") / "snapshot")
    return published(Snapshot, bench, write_snapshot(bench))


@pytest.fixture
def trained(tiny: Snapshot, benches: Callable[[str], Workbench]) -> Callable[..., Workbench]:
    """`trained(name, model, **options)`: a training on a workbench of its own."""

    def train(name: str, model: MlpModel = PLAIN, base: Model | None = None, **options: Any) -> Workbench:
        bench = benches(name)
        fit(bench, tiny, model, CONFIG.model_copy(update=options), seed=5, base=base)
        return bench

    return train


@pytest.fixture(scope="session")
def finished() -> CommandHome:
    """A home in which the digits preset, made small, has run once from end to end. Not to be changed."""
    return finished_home()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """The finished home, and in it a second run, which awaits approval of another export; to be changed."""
    return asked_home().copied_to(tmp_path_factory.mktemp("asking") / "home")


@pytest.fixture(scope="module")
def asked(asking: CommandHome) -> Answer:
    """What that second run answered."""
    return Answer(3, **json.loads((asking.root / "asked.json").read_bytes()))


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[[str], CommandHome]:
    """`prepared(name)`: a home with the records and the snapshot of the digits preset, to be changed."""
    return lambda name: prepared_home().copied_to(tmp_path / name)


@contextmanager
def taken_down(stack: Up) -> Iterator[Up]:
    try:
        yield stack
    finally:
        stack("down")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A home for `millrace up`, which the files of `SHARING` have in common; whatever happens, it is taken down."""
    with taken_down(copied_stack(tmp_path_factory.mktemp("home") / "stack")) as home:
        yield home


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A home for `millrace up` of one file: it must begin where none has run, or changes what others rely on."""
    with taken_down(copied_stack(tmp_path_factory.mktemp("home") / "stack")) as home:
        yield home


@pytest.fixture(scope="session")
def ran(stack: Up) -> list[dict[str, Any]]:
    """Three finished runs on the shared stack, and what each said: the first made the champion."""
    stack.up()
    done = [
        stack("run", "pipeline", DIGITS, *SMALL, "--json"),
        stack("run", "training", DIGITS, *SMALL, "--seed", "3", "--json"),
        stack("run", "dataset", DIGITS, *SMALL, "--json"),
    ]
    assert [answer.code for answer in done] == [0, 0, 0], done
    return [answer.json for answer in done]


@pytest.fixture
def running(stack: Up) -> dict[str, Any]:
    """What `millrace up` says; it is up, however the last test left it."""
    return stack.up()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address, with a password, of an empty database on a real server."""
    installations = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = Path(str(installations[-1] if installations else shutil.which("initdb") or ""))
    if not initdb.is_file():
        pytest.skip("no PostgreSQL on this machine (its package gives initdb)")
    place, port = Path(tempfile.mkdtemp(prefix="millrace-postgres-", dir="/tmp")), free_ports()[0]
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    (place / "password").write_text("T0PS3CRET/@%")
    if as_owner:
        shutil.chown(place, "postgres")
        shutil.chown(place / "password", "postgres")

    def run(program: str, *words: str) -> None:
        subprocess.run([*as_owner, str(initdb.with_name(program)), *words], check=True, capture_output=True, cwd=place)

    options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1"
    try:
        run("initdb", "-D", f"{place}/data", "-A", "scram-sha-256", "-U", "millrace", f"--pwfile={place}/password")
        run("pg_ctl", "-D", f"{place}/data", "-w", "-l", f"{place}/log", "-o", options, "start")
        yield f"postgresql://millrace:T0PS3CRET%2F%40%25@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run(
            [*as_owner, str(initdb.with_name("pg_ctl")), "-D", f"{place}/data", "-m", "immediate", "stop"], check=False
        )
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty registry: MLflow takes seconds to make one."""
    path = tmp_path_factory.mktemp("registry") / "mlflow.db"
    make_database(path)
    return path


@pytest.fixture
def new_registry_home(
    tmp_path: Path, empty_registry: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], RegistryHome]:
    def make(name: str) -> RegistryHome:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # where MLflow's client leaves the address of the registry before
        return RegistryHome(tmp_path / name, empty_registry)

    return make


@pytest.fixture
def registry_home(new_registry_home: Callable[[str], RegistryHome]) -> RegistryHome:
    return new_registry_home("home")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, to be filled."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("this machine does not let us mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=False)


@pytest.fixture
def apart(tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path) -> Callable[..., Workbench]:
    """`apart(name, model, stop_after=None, **options)`: a training in a compute process, as `millrace run` does it.

    Logical devices must be made before TensorFlow computes anything. With `stop_after` it is sent SIGTERM after
    that many steps, and goes on when called again.
    """

    def train(name: str, model: MlpModel = PLAIN, stop_after: int | None = None, **options: Any) -> Workbench:
        bench = benches(name)
        seen = [0]
        with ProcessLauncher(tmp_path, 1).gang("train") as gang:
            gang.call(
                Work(fit, (tiny, model, CONFIG.model_copy(update=options), 5)),
                bench.staging,
                tmp_path / f"{name}.jsonl",
                limits=Limits("resources.timeout", 120),
                on_report=lambda kind, *values: seen.__setitem__(0, values[0]) if kind == "progress" else None,
                stop=lambda: 15 if stop_after is not None and seen[0] >= stop_after else 0,
            )
        return bench

    return train


@pytest.fixture
def training(tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path) -> Callable[[str], Training]:
    """`training(name)`: a training on a workbench of its own."""
    return lambda name: Training(tiny, benches(name), tmp_path / f"{name}-logs")
