"""What others build on and a change must mean: keys of the config and what they may be, exit codes, files of artifacts.

The digests are in test_golden_digests, the bytes in test_golden_bytes and test_snapshot_repeats.
"""

from __future__ import annotations

import ast
import re
import signal
from collections.abc import Iterator

import pytest

from tasks import errors
from tasks.artifacts import KINDS
from tasks.config.reference import page
from tasks.errors import Stopped, UserError
from tests.support.fields import facts, fields
from tests.support.golden import pinned
from tests.support.homes import ROOT, CommandHome

USAGE = ("usage/usage.json", "usage/trained.npy", "usage/chosen.npy")
FILES = {
    "records": {
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "digits-SPLIT.tfrecord-N-of-N",
        "index/digits-SPLIT.tfrecord-N-of-N.npy",
        "rows/digits-SPLIT.tfrecord-N-of-N.npy",
    },
    "snapshot": {
        "manifest.json",
        *(f"SPLIT/{name}-N-of-N.npy" for name in ("image", "label", "origin", "pieces")),
        "SPLIT/records.npy",
        "transform/transform.json",
        *(f"transform/reader/{name}.py" for name in ("__init__", "cast", "formats", "image", "values")),
    },
    "model": {
        "manifest.json",
        "model.keras",
        "model.weights.h5",
        "architecture.json",
        *USAGE,
        "state/state.npz",
        "state/ledger.jsonl",
    },
    "report": {
        "manifest.json",
        "report.json",
        "slices.npy",
        *(f"pictures/{name}.png" for name in ("confusion", "curves", "most_wrong", "reliability")),
        "predictions/SPLIT.npy",
    },
    "variant": {
        "manifest.json",
        "variant.json",
        "judged.npz",
        "model.tflite",
        "saved_model/saved_model.pb",
        "saved_model/variables/variables.index",
        "saved_model/variables/variables.data-N-of-N",
    },
    "export": {
        "manifest.json",
        "README.md",
        "golden.npz",
        *USAGE,
        *(f"{name}/variant.json" for name in ("saved_model", "litert", "int8_dynamic")),
        *(f"{name}/model.tflite" for name in ("litert", "int8_dynamic")),
        "saved_model/saved_model/saved_model.pb",
        "saved_model/saved_model/variables/variables.index",
        "saved_model/saved_model/variables/variables.data-N-of-N",
        "transform/transform.json",
        *(f"transform/reader/{name}.py" for name in ("__init__", "cast", "formats", "image", "values")),
    },
}
"""Of the digits preset, by kind; numbers of shards and names of splits are left open."""

RUN = {
    *("run.json", "config.yaml", "uses", "lock", "metrics.jsonl", "shipped.json", "ledger.jsonl", "samples.jsonl"),
    *("measurements.json", "judgement.json", "release.json", "page.html", "description.md", "example.png"),
    *(f"logs/{stage}.log" for stage in ("convert", "snapshot", "train", "evaluate", "compress", "export")),
}


def keys() -> Iterator[str]:
    """The keys of the reference page, a line for each section."""
    for section in page().split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        names = [key.rpartition(".")[2] for key in re.findall(r"^\| `([^`]+)`", body, re.M)]
        yield f"{title}: {' '.join(names)}"


def test_keys_of_the_config() -> None:
    pinned("keys.txt", keys())


def test_types_bounds_marks_and_defaults_of_the_config() -> None:
    pinned("fields.txt", fields())


def test_facts_about_kinds_of_sections_and_about_tasks() -> None:
    pinned("facts.txt", facts())


def test_versions_of_what_enters_digests_and_files() -> None:
    """Each is raised where the same inputs would give other bytes; artifacts of another version are made anew."""
    found = []
    for path in sorted((ROOT / "tasks").rglob("*.py")):
        text = path.read_text()
        numbers = re.findall(r"^((?:[A-Z_]+_)?(?:VERSION|FORMAT) = \d+)$", text, re.M)
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        numbers += [f"{each.name}.{number}" for each in classes for number in versions(each)]
        found += [f"{path.relative_to(ROOT)}: {number}" for number in numbers]
    pinned("versions.txt", found)


def versions(kind: ast.ClassDef) -> list[str]:
    """`version = 2` of the class of a kind, whose code version it is."""
    fields = [node for node in kind.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "version"]
    return [f"version = {ast.unparse(field.value)}" for field in fields if field.value is not None]


JUDGING = (
    "guess",
    "records/column_types",
    "records/near",
    "records/profile.py",
    "reader",
    "evaluation",
    "view/facts.py",
    "view/examples.py",
    "view/rows.py",
    "view/report.py",
    "view/confusion.py",
    "view/worst.py",
)
"""Where numbers decide what is guessed, read, found to be similar or suspicious, and judged."""
OF_MEMORY = re.compile(
    r"BYTES|BLOCK|CHUNK|STRIP|THREADS|MAX_LOGITS|MAX_VALUES|CHARACTERS, TEXTS|MOST_CONDITIONS|METRICS|ENTITIES"
)


def limits() -> Iterator[str]:
    """The numbers that a module or a class names, without those that say how much is in memory, or name metrics."""
    for where in JUDGING:
        place = ROOT / "tasks" / where
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            body = ast.parse(path.read_text()).body
            inner = [(f"{each.name}.", node) for each in body if isinstance(each, ast.ClassDef) for node in each.body]
            for of, node in [*(("", node) for node in body), *inner]:
                if not isinstance(node, ast.Assign) or OF_MEMORY.search(name := ast.unparse(node.targets[0])):
                    continue
                named = [name.rpartition("_")[2] for name in re.findall(r"[A-Z_]+", name)]
                numbers = [each for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
                if any(type(each.value) in (int, float) for each in numbers) and "VERSION" not in named:
                    yield f"{path.relative_to(ROOT)}: {of}{name} = {ast.unparse(node.value)}"


def test_limits_by_which_data_are_guessed_and_models_are_judged() -> None:
    """Each decides what somebody is told: a change is one of behaviour, though no schema has it."""
    pinned("limits.txt", limits())


def test_exit_codes() -> None:
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    codes = {name: kind.exit_code for name, kind in classes.items() if issubclass(kind, UserError)}
    assert codes == {"UserError": 1, "Refused": 2, "Failed": 1, "Lost": 1, "Damaged": 1, "Superseded": 1}
    signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    assert [Stopped(number).exit_code for number in signals] == [75, 75, 130]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_an_artifact(kind: str, finished: CommandHome) -> None:
    assert shapes(finished, f"store/{kind}/*/") == FILES[kind]


def test_files_of_a_run(finished: CommandHome) -> None:
    assert {re.sub(r"-\d+\.log", ".log", name) for name in shapes(finished, "runs/2*/")} == RUN


def shapes(home: CommandHome, folders: str) -> set[str]:
    """The files of folders of a home, without numbers of shards and names of splits."""
    found = set()
    for folder in home.root.glob(folders):
        for path in folder.rglob("*"):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                name = re.sub(r"\d{5}-of-\d{5}", "N-of-N", name)
                found.add(re.sub(r"\b(train|validation|test)(?=[/.])(?!\.log)", "SPLIT", name))
    return found
