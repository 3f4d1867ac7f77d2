"""The report as rows for a page: metrics, slices, classes, plots and examples."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.config.task import CONSTANT, TASKS
from tasks.evaluation import MIN_EXAMPLES, too_few
from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import document_of_targets
from tasks.models.features import TOKENS, model_inputs
from tasks.snapshots.text import Codec
from tasks.view.facts import Facts
from tasks.view.words import span

PICTURES = {
    "confusion": "Rows are labels, columns predictions.",
    "reliability": "Accuracy by confidence.",
    "curves": "Precision against recall, and true positive rate against false positive rate: of two classes those of "
    "the positive one, of several of each against the others, of more than 20 their mean. The titles have average "
    "precision and area; of several classes the macro average, in which each class counts the same.",
    "most_wrong": "The wrong predictions with the highest confidence.",
    "bits_by_size": "Bits per byte of each file by its size; lines are the totals of all files.",
    "loss_by_position": "Mean loss by position in the row, which begins without context.",
    "labels": "Predicted probability of each label, for examples with and without it.",
    "predicted": "Predictions against targets, and the distribution of the errors.",
}
FIGURES = {"macro_f1": "mean of the classes' F1, higher is better"}
"""Descriptions of figures that are no metrics."""

CLASSES = 40
"""Classes or slices that a table shows, at most: those with the most examples."""

PASSAGES, WINDOW = 3, 160
"""Number of passages that are shown, and their length in tokens."""

READABLE = 20_000_000
"""Tokens of a split, at most, in which passages are searched."""

SURPRISES = (1.0, 2.5, 4.0, 6.0)
"""Losses in nats from which a token has the next shade of red."""

NUMBERS = 12
"""Numbers of an example that are shown, at most."""


def metrics(facts: Facts) -> list[dict[str, Any]]:
    """Return a row per metric, with value and interval for each split."""
    task, own = TASKS[facts.config.model.task], facts.config.evaluate.own_metrics
    rows = []
    constant = f"{CONSTANT}{facts.metric}"
    for name in (*task.metrics, *own, *task.figures, *task.baselines, constant):
        values = [
            (each[0], each[1] + _unsure(facts, split, name))
            if (each := span(facts.metrics, f"{split}/{name}")) is not None
            else None
            for split in ("validation", "test")
        ]
        if any(values):
            losses = (*facts.config.evaluate.lower_is_better, *task.lower_is_better)
            better = "lower is better" if name in losses else "higher is better"
            described = {**FIGURES, **task.baselines, **own, constant: "of the best constant answer"}.get(name, better)
            decides = ", decides" if name == facts.metric else ""
            rows.append({"name": name.replace("_", " "), "better": described + decides, "values": values})
    return rows


def methods(facts: Facts) -> str:
    """Return the methods of the test intervals with their metrics, as the rest of a sentence."""
    named: dict[str, list[str]] = {}
    for name, row in _test(facts).get("metrics", {}).items():
        if row["low"] is not None:
            named.setdefault(row["method"], []).append(name.replace("_", " "))
    return "".join(f"; of {', '.join(names)}: {method}" for method, names in named.items())


def few(facts: Facts) -> dict[str, int]:
    """Return the splits that have too few examples for an interval, with their number of examples."""
    splits = facts.report["splits"] if facts.report else {}
    counts = {name: splits[name]["examples"] for name in ("validation", "test") if splits}
    return {name: count for name, count in counts.items() if count < MIN_EXAMPLES}


def over(facts: Facts, split: str) -> str:
    """Return over what the intervals of a split are, as text: its examples, in how many groups."""
    found = facts.report["splits"][split] if facts.report else {}
    examples = f"{found['examples']:,} {split} {facts.judged}"
    return f"{examples} in {found['units']:,} groups" if "units" in found else examples


def chosen_on_validation(facts: Facts) -> str:
    """Return what was chosen by the scores of the validation split, as text: they flatter it."""
    train, evaluate, compress = facts.config.train, facts.config.evaluate, facts.config.compress
    what = {
        "weights": train.select == "best" or train.early_stopping is not None,
        "seed": train.seeds > 1,
        "trial": facts.trials is not None,
        "temperature": evaluate.calibrate is not None,
        "thresholds": evaluate.threshold is not None,
        "compression": compress.search is not None,
    }
    return ", ".join(name for name, chosen in what.items() if chosen)


def looks(facts: Facts) -> str:
    """Return how many models were judged on this test split before, as text; empty where none was."""
    count = facts.judged_before
    if not count:
        return ""
    models = "model was" if count == 1 else "models were"
    return f"{count:,} other {models} judged on this test split before: the best of several looks better than it is."


def _unsure(facts: Facts, split: str, name: str) -> str:
    """Return that too few units decide a metric of a split for a 95 % interval, as text; empty where they do not."""
    splits = facts.report["splits"] if facts.report else {}
    row = splits.get(split, {}).get("metrics", {}).get(name, {})
    few_examples = splits and splits[split]["examples"] < MIN_EXAMPLES
    if row.get("low") is None or few_examples:
        return ""
    return (weakness := too_few(row["units"])) and f", {weakness}"


def slices(facts: Facts) -> list[dict[str, Any]]:
    """Return the primary metric on slices of the test split; positions in percent of the range of all intervals."""
    rows = _shown_slices(facts)
    low, high = min((row["low"] for row in rows), default=0), max((row["high"] for row in rows), default=0)
    width = (high - low) or 1

    def position(value: float) -> float:
        return 100 * (value - low) / width

    return [
        {
            **row,
            "slice": row["slice"] + (f" ({row['divided']:,} more in part)" if "divided" in row else ""),
            "few": row["units"] < MIN_EXAMPLES,
            "at": position(row["value"]),
            "from": position(row["low"]),
            "width": position(row["high"]) - position(row["low"]),
        }
        for row in rows
    ]


def slices_without_score(facts: Facts) -> str:
    """Return the slices that the table leaves out as text: name, examples and reason."""
    rows = _test(facts).get("slices", [])
    shown = {row["slice"] for row in _shown_slices(facts)}
    others = [row for row in rows if row["slice"] not in shown]
    names = [f"{row['slice']} ({row['examples']:,}, {row.get('why') or 'not among the largest'})" for row in others]
    more = f" and {len(names) - CLASSES} more, in report.json" if len(names) > CLASSES else ""
    return ", ".join(names[:CLASSES]) + more


def _shown_slices(facts: Facts) -> list[dict[str, Any]]:
    """Return the slices that have an interval; if there are many, the largest."""
    rows = [row for row in _test(facts).get("slices", []) if row["low"] is not None]
    return sorted(rows, key=lambda row: -row["examples"])[:CLASSES] if len(rows) > CLASSES else rows


def classes(facts: Facts) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of each type of entities and each class on the test split."""
    rows: list[dict[str, Any]] = [*_test(facts).get("entities", []), *_test(facts).get("classes", [])]
    return sorted(rows, key=lambda row: -row["support"])[:CLASSES] if len(rows) > CLASSES else rows


def files(facts: Facts) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the files with the highest and with the lowest bits per byte of a language model."""
    test = _test(facts)
    return [(title, test[name]) for title, name in (("highest", "worst"), ("lowest", "best")) if test.get(name)]


def passages(facts: Facts) -> list[dict[str, Any]]:
    """Return the passage with the highest loss of each of the worst files: its tokens as text, with a shade each."""
    snapshot, report, worst = facts.one("snapshot"), facts.one("report"), _test(facts).get("worst", [])
    if snapshot is None or report is None or not worst or "row" not in worst[0]:
        return []
    nats = np.load(report.path / "predictions" / "test.npy", mmap_mode="r")
    if nats.size > READABLE:
        return []
    reader, codec = open_snapshot(snapshot.path), Codec.open(snapshot.path / "transform")
    tokens = np.asarray(reader.arrays("test")[TOKENS][:])[:, 1:].ravel()
    document, nats = document_of_targets(reader, "test").ravel(), np.asarray(nats).ravel()
    rows = []
    for row in worst[:PASSAGES]:
        own = np.flatnonzero((document == row["row"]) & (tokens != codec.bos))
        begin = _hardest(nats[own])
        shown = own[begin : begin + WINDOW]
        rows.append(
            {
                "key": row["key"],
                "bits_per_byte": row["bits_per_byte"],
                "begins": "…" if begin else "",
                "tokens": _marked(codec, tokens[shown], np.searchsorted(SURPRISES, nats[shown], side="right")),
            }
        )
    return rows


def _hardest(nats: NDArray[Any]) -> int:
    """Return the start of the window of tokens with the highest loss."""
    if len(nats) <= WINDOW:
        return 0
    sums = np.cumsum(np.concatenate([[0.0], nats], dtype=np.float64))
    return int(np.argmax(sums[WINDOW:] - sums[:-WINDOW]))


def _marked(codec: Codec, tokens: NDArray[Any], shades: NDArray[Any]) -> list[tuple[str, int]]:
    """Return texts and their shades; tokens that are bytes of one character are joined and get their highest shade."""
    marked: list[tuple[str, int]] = []
    pending, reddest = b"", 0
    for token, shade in zip(tokens.tolist(), shades.tolist(), strict=True):
        pending, reddest = pending + codec.decode([token]), max(reddest, shade)
        try:
            marked.append((pending.decode(), reddest))
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":  # the next token has the rest of the character
                continue
            marked.append((pending.decode(errors="replace"), reddest))
        pending, reddest = b"", 0
    return marked + ([(pending.decode(errors="replace"), reddest)] if pending else [])


def furthest(facts: Facts) -> dict[str, Any]:
    """Return the examples of a regression with the largest errors: content, targets and predictions."""
    test = _test(facts)
    rows = test.get("furthest", [])
    if not rows:
        return {}
    snapshot = facts.one("snapshot")
    if snapshot is not None and all("row" in row for row in rows):
        rows = [{**row, **_content(snapshot.path, row["row"])} for row in rows]
    return {"targets": test["targets"], "rows": rows}


def _content(snapshot: Path, row: int) -> dict[str, str]:
    """Return a test example as an image, or as text with its numbers by name."""
    reader = open_snapshot(snapshot)
    values = {each.name: np.asarray(reader.arrays("test")[each.name][row]) for each in model_inputs(reader.features)}
    for value in values.values():
        if value.ndim == 3 and value.dtype == np.uint8:
            buffer = io.BytesIO()
            Image.fromarray(value.squeeze(-1) if value.shape[-1] == 1 else value).save(buffer, format="png")
            return {"image": data_uri(buffer.getvalue())}
    numbers = []
    for feature, value in values.items():
        names = reader.features[feature].get("names") or [f"{feature} {number}" for number in range(value.size)]
        numbers += [f"{name} {number:.4g}" for name, number in zip(names, value.ravel(), strict=False)]
    return {
        "text": ", ".join(numbers[:NUMBERS]) + (f" and {len(numbers) - NUMBERS} more" if len(numbers) > NUMBERS else "")
    }


def pictures(facts: Facts) -> list[tuple[str, str, str]]:
    """Return name, caption and data URI of the plots in the report."""
    report = facts.one("report")
    folder = report.path / "pictures" if report else Path("nowhere")
    known = [folder / f"{name}.png" for name in PICTURES]
    others = sorted(set(folder.glob("*.png")) - set(known)) if report else []
    return [
        (path.stem.replace("_", " "), PICTURES.get(path.stem, ""), data_uri(path.read_bytes()))
        for path in [*known, *others]
        if path.exists()
    ]


def data_uri(png: bytes) -> str:
    """Return a PNG as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _test(facts: Facts) -> dict[str, Any]:
    test: dict[str, Any] = facts.report["splits"]["test"] if facts.report else {}
    return test
