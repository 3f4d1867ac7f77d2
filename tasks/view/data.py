"""The section of a run's page on its data: splits, what was left out, classes, columns, and what is suspicious."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tasks.artifacts import Artifact
from tasks.view.facts import Facts

CLASSES = 40
"""Classes that a table shows; of more, the most frequent."""

LISTED = 100
"""Keys of excluded examples that the page lists, at most; the manifest of the records has all."""

WIDTH, HEIGHT = 160, 36
"""Size of a column's picture."""


def data(facts: Facts) -> dict[str, Any]:
    """Return the number of examples, the classes and statistics of each split of the records."""
    records = facts.one("records")
    if records is None:
        return {}
    splits: dict[str, Any] = records.manifest["statistics"].get("splits", {})
    order: list[str] = [name for name in ("train", "validation", "test") if name in splits]
    order += [name for name in splits if name not in order]
    counts = {name: records.manifest["counts"][name] for name in order}
    balance, figures = [], []
    for feature in next(iter(splits.values()), {}):
        columns = [splits[split].get(feature, {}) for split in order]
        if any("classes" in column for column in columns):
            balance.append({"feature": feature, **_balance(columns)})
        for what, values in _figures(columns):
            figures.append({"feature": feature, "what": what, "values": values})
    return {
        "splits": counts,
        "total": sum(counts.values()),
        "left_out": _left_out(records),
        "duplicates": records.manifest["statistics"].get("duplicates"),
        "near": _near(records),
        "balance": balance,
        "figures": figures,
        **_profile(records),
    }


def _near(records: Artifact) -> dict[str, Any] | None:
    """Return the near-duplicates, with what became of those in several splits, in words."""
    near: dict[str, Any] | None = records.manifest["statistics"].get("near_duplicates")
    if not near:
        return near
    fate = {
        "report": "are in more than one split: a score on test may be too high",
        "group": "would be in more than one split, and are whole in that of their first example",
        "drop": "would be in more than one split; only their first example is kept",
    }
    return {**near, "fate": fate[near["handling"]], "harmful": near["handling"] == "report" and near["across_splits"]}


def _profile(records: Artifact) -> dict[str, Any]:
    """Return a picture, quantiles and association of each column, and what is suspicious."""
    profile = records.manifest["statistics"].get("profile", {})
    columns = profile.get("columns", {})
    statistics = records.manifest["statistics"]["splits"].get("train", {})
    rows = [
        {
            "name": name,
            "kind": records.manifest["features"][name]["kind"],
            "missing": _missing(statistics.get(name, {})),
            "picture": histogram(column["histogram"]),
            "middle": _middle(column),
            "association": column.get("association"),
        }
        for name, column in sorted(columns.items(), key=lambda item: -item[1].get("association", 1.1))
    ]
    predicted = next((n for n, f in records.manifest["features"].items() if f.get("role") in ("label", "target")), "")
    return {"columns": rows, "suspicions": profile.get("suspicions", []), "predicted": predicted}


def _missing(statistics: dict[str, Any]) -> str:
    missing = statistics.get("missing", 0)
    rows = missing + statistics["count"] if "mean" in statistics else statistics.get("count", 0)
    return f"{missing / rows:.1%}" if missing and rows else ""


def _middle(column: dict[str, Any]) -> str:
    """Return the median with the middle half of train, or the number of its most frequent values."""
    if quantiles := column.get("quantiles", {}).get("train"):
        return f"{quantiles[3]:.4g} ({quantiles[2]:.4g} to {quantiles[4]:.4g})"
    values = column["histogram"].get("values", [])
    return ", ".join(values[:3]) + (", …" if len(values) > 3 else "")


def histogram(shares: dict[str, Any]) -> str:
    """Draw the shares of train as bars and those of test as a line, as SVG."""
    train, test = shares["shares"].get("train", []), shares["shares"].get("test", [])
    top = max([*train, *test], default=0.0) or 1.0
    width = WIDTH / max(len(train), 1)
    bars = "".join(
        f'<rect x="{number * width + 0.5:.1f}" y="{HEIGHT * (1 - share / top):.1f}" width="{width - 1:.1f}" '
        f'height="{HEIGHT * share / top:.1f}" class="share"/>'
        for number, share in enumerate(train)
    )
    points = " ".join(f"{(n + 0.5) * width:.1f},{HEIGHT * (1 - share / top):.1f}" for n, share in enumerate(test))
    line = f'<polyline points="{points}" class="curve test"/>' if test else ""
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="small" role="img">{bars}{line}</svg>'


def _left_out(records: Artifact) -> list[dict[str, Any]]:
    """Return the examples of the source that are in no split, by key, with the reason."""
    statistics = records.manifest["statistics"]
    reasons = [
        ("skipped (source.undecodable: skip)", "skipped"),
        ("quarantined (within records.bad_budget)", "quarantined"),
    ]
    return [
        {"what": what, "count": len(rows), "rows": rows[:LISTED], "more": max(len(rows) - LISTED, 0)}
        for what, name in reasons
        if (rows := statistics.get(name, []))
    ]


def _balance(columns: list[dict[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for column in columns:
        total.update(column.get("classes", {}))
    names = list(total) if len(total) <= CLASSES else [name for name, _ in total.most_common(CLASSES)]
    most = [max(column.get("classes", {}).values(), default=0) or 1 for column in columns]
    rows = [
        {
            "class": name,
            "counts": [
                (column.get("classes", {}).get(name, 0), 100 * column.get("classes", {}).get(name, 0) / high)
                for column, high in zip(columns, most, strict=True)
            ],
        }
        for name in names
    ]
    return {"rows": rows, "left_out": len(total) - len(names)}


def _figures(columns: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    rows = []
    if any("shapes" in column for column in columns):
        rows.append(("shapes", [_shapes(column.get("shapes", {})) for column in columns]))
        for channels in {key: None for column in columns for key in column.get("pixels", {})}:
            pixels = [column.get("pixels", {}).get(channels) for column in columns]
            spread = [f"{_list(row['mean'])} ± {_list(row['std'])}" if row else "" for row in pixels]
            rows.append((f"pixels, {channels} channel{'s' if channels != '1' else ''}", spread))
    if any("std" in column for column in columns):
        rows.append(
            ("mean ± standard deviation", [f"{c['mean']:.4g} ± {c['std']:.3g}" if "std" in c else "" for c in columns])
        )
        rows.append(("range", [f"{c['min']:.4g} to {c['max']:.4g}" if "std" in c else "" for c in columns]))
    if any("bytes" in column for column in columns):
        sizes = [column.get("bytes") for column in columns]
        rows.append(("bytes, mean (range)", [_range(size) if size else "" for size in sizes]))
    return rows


def _shapes(shapes: dict[str, int]) -> str:
    shown = [shape.replace("x", " x ") for shape in list(shapes)[:3]]
    return ", ".join(shown) + (f" and {len(shapes) - 3} more" if len(shapes) > 3 else "")


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _range(size: dict[str, float]) -> str:
    return f"{size['mean']:,.0f} ({size['min']:,} to {size['max']:,})"
