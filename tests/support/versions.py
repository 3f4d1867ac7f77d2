"""What a version stands on, without the stages that make it: records, a snapshot, a report of a score, an export."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tasks import snapshots
from tasks.artifacts import Artifact, Export, Outcome, Records, Report, Snapshot
from tasks.config.task import TASKS
from tasks.models.usage import CHOSEN, TRAINED, Usage
from tasks.sources.features import Feature
from tasks.sources.hashes import hashes_of
from tasks.store.staging import Staging
from tasks.store.store import Store, digest_of

LOSS = {"classification": "cross_entropy", "multilabel": "binary_cross_entropy", "regression": "squared_error"}

ROWS = 100
"""Test examples of the records; the first ones are those that a model is right about."""

NOISE = 0.005
"""How far off a difference from a baseline may be."""

LAYOUT: dict[str, dict[str, Any]] = {
    "classification": {"label": {"dtype": "int64", "shape": [], "classes": ["no", "yes"]}},
    "multilabel": {"target": {"dtype": "float32", "shape": [1], "names": ["tag"]}},
    "regression": {"target": {"dtype": "float32", "shape": [1], "names": ["size"]}},
}


def inputs(kind: type[Artifact], name: str, parents: Mapping[str, str]) -> dict[str, Any]:
    """The inputs of what is called so."""
    return {"kind": kind.kind, "parents": dict(parents), "sources": [], "config": {"name": name}}


def digest(kind: type[Artifact], name: str) -> str:
    """The digest of what is called so and has no parents."""
    return digest_of(inputs(kind, name, {}))


def publish(
    store: Store, kind: type[Artifact], name: str, pieces: Mapping[str, Any], parents: Mapping[str, str], **more: Any
) -> Artifact:
    """Publish pieces, bytes or arrays, under a name; nothing where it is there."""
    also = more.pop("also", lambda staging: None)
    of = inputs(kind, name, parents)
    with store.claim(kind, digest_of(of), kind.kind) as claim:
        if (there := claim.published()) is not None:
            return there
        for path, content in pieces.items():
            written = io.BytesIO()
            if isinstance(content, np.ndarray):
                np.save(written, content)
            claim.staging.put(path, written.getvalue() or content)
        also(claim.staging)
        return claim.publish(of, Outcome(**{"counts": {}, **more}), {"run": "none"})


def evaluated(
    store: Store,
    task: str,
    records: str,
    score: float,
    metrics: Mapping[str, float],
    examples: int = ROWS,
    simple: float | None = None,
) -> Report:
    """A report of a score on so many test examples of records; `metrics`: those of its manifest, also of constant
    baselines; `simple`: the score of the learned baseline."""
    features = {"number": {"dtype": "float32", "shape": [1]}, **LAYOUT[task]}
    right = np.arange(examples) < round(examples * (score / (2 - score) if task == "multilabel" else score))
    outputs = {
        "classification": np.stack([~right, right], axis=1).astype(np.float32),
        "multilabel": np.where(right, 1.0, -1.0).astype(np.float32)[:, None],
        "regression": np.full((examples, 1), score, np.float32),
    }[task]
    truth = {
        "classification": np.ones(examples, np.int64),
        "multilabel": np.ones((examples, 1), np.float32),
        "regression": np.zeros((examples, 1), np.float32),
    }[task]
    declared = {"number": Feature("number", "float32").as_json()}
    parent = publish(store, Records, records, {}, {}, features=declared)
    rows = np.arange(examples)
    arrays = {
        "number": np.zeros((examples, 1), np.float32),
        next(iter(LAYOUT[task])): truth,
        **snapshots.lineage_of(rows),
    }
    pieces: dict[str, Any] = {f"test/{name}-00000-of-00001.npy": values for name, values in arrays.items()}
    pieces["test/records.npy"] = hashes(records, rows)
    more = {"features": features, "counts": {"test": examples}}
    snapshot = publish(store, Snapshot, task, pieces, {"records": parent.digest}, **more)
    named = {name: metrics[f"test/{name}"] for name in TASKS[task].baselines if f"test/{name}" in metrics}
    beside = {name: beside_baseline(score, value) for name, value in named.items()}
    learned = None if simple is None else {"name": "gradient boosting", **beside_baseline(score, simple)}
    test = {"examples": examples, "slices": [], "baselines": beside, "learned_baseline": learned}
    content = {"loss": LOSS[task], "splits": {"test": test}}
    pieces = {"report.json": json.dumps(content).encode(), "predictions/test.npy": outputs}
    pieces["slices.npy"] = np.zeros((0, -(-examples // 8)), np.uint8)
    name, statistics = json.dumps(dict(metrics)), {"metrics": dict(metrics)}
    made = publish(store, Report, name, pieces, {"snapshot": snapshot.digest}, statistics=statistics)
    assert isinstance(made, Report)
    return made


def beside_baseline(score: float, value: float) -> dict[str, Any]:
    """The fields of a baseline in a report: a difference of 0.005 may be noise."""
    change = score - value
    difference = {"value": change, "low": change - NOISE, "high": change + NOISE, "method": "", "units": 100}
    return {"value": value, "difference": difference, "more_than_noise": abs(change) > NOISE}


def hashes(records: str, rows: Any) -> np.ndarray:
    """Those of some test rows of records."""
    return hashes_of([f"{records} {row}".encode() for row in rows])


def exported(store: Store, name: str, trained: np.ndarray | None = None, unknown: Sequence[str] = ()) -> Export:
    """An export that says that it was trained on some rows, on none of them by default; `unknown`: what it began
    from."""
    rows = np.zeros(0, np.uint64) if trained is None else trained

    def used(staging: Staging) -> None:
        Usage({TRAINED: np.sort(rows), CHOSEN: np.zeros(0, np.uint64)}, tuple(unknown)).write(staging)

    made = publish(store, Export, name, {"README.md": b"made by hand"}, {}, also=used)
    assert isinstance(made, Export)
    return made
