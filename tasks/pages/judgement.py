"""What the report says, as plain rows for a page: metrics, slices, classes, pictures, and examples as they are."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.data import open_snapshot
from tasks.data.text import Codec, document_of_targets
from tasks.display.words import span
from tasks.evaluation import MIN_EXAMPLES, TASKS
from tasks.models.features import TOKENS, model_input
from tasks.pages.facts import Facts

PICTURES = {
    "confusion": "Rows are labels, columns what the model said.",
    "reliability": "How often it is right when it says how sure it is.",
    "curves": "Precision against recall, and true against false positives.",
    "most_wrong": "The examples it got most confidently wrong.",
    "bits_by_size": "Bits per byte of each file, by its size; all files together as lines.",
    "loss_by_place": "How much the tokens before help: each row begins without any.",
    "labels": "How sure it was of each label, where the label holds and where it does not.",
    "predicted": "What the model said against what was true, and how the differences are spread.",
}
FIGURES = {"macro_f1": "mean of the classes' F1, higher is better", "majority_share": "of the most frequent class"}
"""What is said of a figure that is no metric."""

CLASSES = 40
"""Classes or slices that a table shows; of more, those with the most examples."""

PASSAGES, WINDOW = 3, 160
"""Files of which the hardest passage is shown, and its tokens."""

READABLE = 20_000_000
"""Tokens of a split that are looked through for passages."""

SURPRISES = (1.0, 2.5, 4.0, 6.0)
"""Nats from which a token is marked one shade redder."""

NUMBERS = 12
"""Of an example's own numbers that are shown."""


def metrics(facts: Facts) -> list[dict[str, Any]]:
    """A row per metric, with value and interval per split."""
    task = TASKS[facts.config.model.task]
    rows = []
    for name in (*task.metrics, *task.figures, *task.baselines):
        values = [span(facts.metrics, f"{split}/{name}") for split in ("validation", "test")]
        if any(values):
            better = "higher is better" if name in task.higher_is_better else "lower is better"
            rows.append({"name": name.replace("_", " "), "better": FIGURES.get(name, better), "values": values})
    return rows


def few(facts: Facts) -> dict[str, int]:
    """The splits of fewer examples than an interval needs, and how many they have."""
    splits = facts.report["splits"] if facts.report else {}
    counts = {name: splits[name]["examples"] for name in ("validation", "test") if splits}
    return {name: count for name, count in counts.items() if count < MIN_EXAMPLES}


def slices(facts: Facts) -> list[dict[str, Any]]:
    """The primary metric on groups of the test examples, with where the interval lies between the extremes of all."""
    rows = _shown_slices(facts)
    low, high = min((row["low"] for row in rows), default=0), max((row["high"] for row in rows), default=0)
    wide = (high - low) or 1

    def place(value: float) -> float:
        return 100 * (value - low) / wide

    return [
        {**row, "at": place(row["value"]), "from": place(row["low"]), "width": place(row["high"]) - place(row["low"])}
        for row in rows
    ]


def unjudged(facts: Facts) -> str:
    """The slices that the table does not have, by name with their examples, and why."""
    rows = _test(facts).get("slices", [])
    shown = {row["slice"] for row in _shown_slices(facts)}
    left = [row for row in rows if row["slice"] not in shown]
    names = [f"{row['slice']} ({row['examples']:,}, {row.get('why') or 'of many the smaller ones'})" for row in left]
    more = f" and {len(names) - CLASSES} more, in report.json" if len(names) > CLASSES else ""
    return ", ".join(names[:CLASSES]) + more


def _shown_slices(facts: Facts) -> list[dict[str, Any]]:
    """Those with an interval; of many the largest."""
    rows = [row for row in _test(facts).get("slices", []) if row["low"] is not None]
    return sorted(rows, key=lambda row: -row["examples"])[:CLASSES] if len(rows) > CLASSES else rows


def classes(facts: Facts) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class on the test split."""
    rows: list[dict[str, Any]] = _test(facts).get("classes", [])
    return sorted(rows, key=lambda row: -row["support"])[:CLASSES] if len(rows) > CLASSES else rows


def files(facts: Facts) -> list[tuple[str, list[dict[str, Any]]]]:
    """Of a language model the files that were hardest and easiest to foresee."""
    test = _test(facts)
    return [(title, test[name]) for title, name in (("hardest", "worst"), ("easiest", "best")) if test.get(name)]


def passages(facts: Facts) -> list[dict[str, Any]]:
    """Of the hardest files the passage that surprised the model most: its tokens as text, each with its shade."""
    snapshot, report, worst = facts.one("snapshot"), facts.one("report"), _test(facts).get("worst", [])
    if snapshot is None or report is None or not worst or "row" not in worst[0]:
        return []
    nats = np.load(report.path / "predictions" / "test.npy", mmap_mode="r")
    if nats.size > READABLE:
        return []
    reader, codec = open_snapshot(snapshot.path), Codec.open(snapshot.path / "transform")
    tokens = np.asarray(reader.arrays("test")[TOKENS][:])[:, 1:].ravel()
    of, paid = document_of_targets(reader, "test").ravel(), np.asarray(nats).ravel()
    found = []
    for row in worst[:PASSAGES]:
        own = np.flatnonzero((of == row["row"]) & (tokens != codec.bos))
        begin = _hardest(paid[own])
        shown = own[begin : begin + WINDOW]
        found.append(
            {
                "key": row["key"],
                "bits_per_byte": row["bits_per_byte"],
                "begins": "…" if begin else "",
                "tokens": _marked(codec, tokens[shown], np.searchsorted(SURPRISES, paid[shown], side="right")),
            }
        )
    return found


def _hardest(paid: NDArray[Any]) -> int:
    """Where the window of tokens begins that was hardest to foresee."""
    if len(paid) <= WINDOW:
        return 0
    sums = np.cumsum(np.concatenate([[0.0], paid], dtype=np.float64))
    return int(np.argmax(sums[WINDOW:] - sums[:-WINDOW]))


def _marked(codec: Codec, tokens: NDArray[Any], shades: NDArray[Any]) -> list[tuple[str, int]]:
    """Texts and their shades; tokens that are parts of one sign are joined to it, and bear its reddest shade."""
    found: list[tuple[str, int]] = []
    pending, reddest = b"", 0
    for token, shade in zip(tokens.tolist(), shades.tolist(), strict=True):
        pending, reddest = pending + codec.decode([token]), max(reddest, shade)
        try:
            found.append((pending.decode(), reddest))
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":  # the next token has the rest of the sign
                continue
            found.append((pending.decode(errors="replace"), reddest))
        pending, reddest = b"", 0
    return found + ([(pending.decode(errors="replace"), reddest)] if pending else [])


def furthest(facts: Facts) -> dict[str, Any]:
    """Of a regression the examples that it was furthest from: what they are, what was true and what it said."""
    test = _test(facts)
    rows = test.get("furthest", [])
    if not rows:
        return {}
    snapshot = facts.one("snapshot")
    if snapshot is not None and all("row" in row for row in rows):
        rows = [{**row, **_as_is(snapshot.path, row["row"])} for row in rows]
    return {"targets": test["targets"], "rows": rows}


def _as_is(snapshot: Path, row: int) -> dict[str, str]:
    """A test example as a person sees it: an image, or its numbers by name."""
    reader = open_snapshot(snapshot)
    feature = model_input(reader.features)
    value = np.asarray(reader.arrays("test")[feature.name][row])
    if value.ndim == 3 and value.dtype == np.uint8:
        buffer = io.BytesIO()
        Image.fromarray(value.squeeze(-1) if value.shape[-1] == 1 else value).save(buffer, format="png")
        return {"image": _uri(buffer.getvalue())}
    names = reader.features[feature.name].get("names") or [f"#{number}" for number in range(value.size)]
    told = [f"{name} {number:.4g}" for name, number in zip(names, value.ravel(), strict=False)]
    return {"text": ", ".join(told[:NUMBERS]) + (f" and {len(told) - NUMBERS} more" if len(told) > NUMBERS else "")}


def pictures(facts: Facts) -> list[tuple[str, str, str]]:
    """Name, caption and data URI of the report's pictures."""
    report = facts.one("report")
    folder = report.path / "pictures" if report else Path("nowhere")
    known = [folder / f"{name}.png" for name in PICTURES]
    others = sorted(set(folder.glob("*.png")) - set(known)) if report else []
    return [
        (path.stem.replace("_", " "), PICTURES.get(path.stem, ""), _uri(path.read_bytes()))
        for path in [*known, *others]
        if path.exists()
    ]


def _uri(png: bytes) -> str:
    """A PNG inside the page."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _test(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = facts.report["splits"]["test"] if facts.report else {}
    return found
