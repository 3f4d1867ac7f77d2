"""The sections of a run's page, as plain rows for its template; one without content is empty."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tasks.artifacts import Artifact, Model
from tasks.view import seeds
from tasks.view.facts import Facts
from tasks.view.numbers import kilobytes, seconds

FLOW: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": 10**9}

PROVABLE = 20_000_000
"""Examples fed, at most, for which the page recomputes the order; that of a longer training takes too long."""

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


def attempts(facts: Facts) -> list[dict[str, Any]]:
    """Return the attempts of a run that had more than one."""
    rows: list[dict[str, Any]] = facts.record["attempts"]
    return [] if len(rows) < 2 else [{"status": "killed", **row} for row in rows]


def training(facts: Facts) -> dict[str, Any]:
    """Return the training curves, from the run that trained the model, and the check of its ledger."""
    folder, drawn = trained_in(facts), seeds.drawn(facts)
    elsewhere = folder.relative_to(facts.run.home.runs) if folder and folder != facts.run.folder else None
    measured = measurements(folder) if folder else {}
    return {
        "curves": drawn,
        "by": elsewhere if drawn else None,
        "ledger": ledger(facts),
        "goodput": goodput(measured),
        "accumulate": measured.get("train/accumulate"),
        "memory": memory(measured),
        "ranks": measured.get("train/ranks", []),
        "events": measured.get("train/processes", []),
        "exact": facts.config.train.strategy.exact,
    }


def goodput(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return where the time of a training went, over all its attempts: each part with its time, the longest first."""
    lives = [parts for name, parts in sorted(measured.items()) if name.startswith("train/goodput/")]
    names = {name for parts in lives for name in parts}
    total = {name: sum(parts.get(name, 0.0) for parts in lives) for name in names}
    whole = sum(total.values())
    return [
        {"part": name, "seconds": seconds(value), "percent": 100 * value / whole}
        for name, value in sorted(total.items(), key=lambda part: (-part[1], part[0]))
        if value >= 0.0005 * whole > 0
    ]


def memory(measured: dict[str, Any]) -> dict[str, int]:
    """Return the largest memory over all attempts in bytes, of `host` and `accelerator` (0 without one); empty where
    none was measured."""
    peaks = [each for name, each in measured.items() if name.startswith("train/peak_memory_bytes/")]
    return {where: max(each.get(where, 0) for each in peaks) for where in ("host", "accelerator") if peaks}


def measurements(folder: Path) -> dict[str, Any]:
    """Return the measurements of a run by its folder."""
    path = folder / "measurements.json"
    return json.loads(path.read_bytes()) if path.exists() else {}


def trained_in(facts: Facts) -> Path | None:
    """Return the folder of the run that trained the model; None if it was deleted."""
    model = facts.one("model")
    return facts.run.folder if model is None else facts.maker(model)


def ledger(facts: Facts) -> str:
    """Return the result of checking the ledger of each training against the input order, as text."""
    proofs = {name: _ledger_of(facts, model) for name, model in seeds.trained(facts).items()}
    if len(proofs) > 1 and len(set(proofs.values())) == 1:
        return f"of each seed, {next(iter(proofs.values()))}"
    return "; ".join(f"{name}, {text}" if len(proofs) > 1 else text for name, text in proofs.items())


def _ledger_of(facts: Facts, model: Model) -> str:
    snapshot = facts.one("snapshot")
    if snapshot is None or model.trained_by is None:
        return ""
    if model.manifest["counts"]["steps"] * model.trained_by["train"]["batch_size"] > PROVABLE:
        return f"not checked here, as the training was long: run `millrace show {facts.run.run_id}`"
    from tasks.training.ledger import prove

    return str(prove(model.path, snapshot.path)["text"])


def lineage(facts: Facts) -> list[dict[str, Any]]:
    """Return the tree of artifacts from the source down, each below its deepest parent."""
    depth: dict[str, int] = {}
    under: dict[str | None, list[Artifact]] = {}
    for artifact in facts.named.values():  # parents first
        parents = [digest for digest in artifact.manifest["parents"].values() if digest in depth]
        if (chosen := artifact.manifest["statistics"].get("chosen")) in artifact.manifest["parents"]:
            parents = [artifact.manifest["parents"][chosen]]
        if artifact.kind == "export":
            parents = [digest for digest in parents if facts.named[digest].kind == "model"] or parents
        nearest = max(parents, key=lambda digest: depth[digest], default=None)
        depth[artifact.digest] = 0 if nearest is None else depth[nearest] + 1
        under.setdefault(nearest, []).append(artifact)
    roots = [_leaf(facts, artifact, under) for artifact in under.get(None, [])]
    records = facts.one("records")
    if records is None:
        return roots
    raw = sum(not path.startswith("package/") for path, _ in records.manifest["inputs"]["sources"])
    source = facts.config.source
    what = f"{raw:,} raw {source.listed} of {source.name}, each by key and SHA-256"
    return [{"kind": "source", "name": f"{source.kind} {source.name}", "what": what, "under": roots}]


def _leaf(facts: Facts, artifact: Artifact, under: dict[str | None, list[Artifact]]) -> dict[str, Any]:
    children = [_leaf(facts, child, under) for child in under.get(artifact.digest, [])]
    manifest = artifact.manifest
    by = manifest["produced_by"]["run"]
    what = kilobytes(sum(file["bytes"] for file in manifest["files"]))
    if artifact.kind == "export":
        contents = [facts.named[d].name for d in manifest["parents"].values() if d in facts.named]
        what += " with " + ", ".join(name for name in contents if name not in ("model", "snapshot"))
        release = facts.release
        if release is not None:
            version = {"kind": "release", "name": f"{release['name']} version {release['version']}"}
            children.append({**version, "what": f"as {release['alias']}", "under": []})
    return {
        "kind": artifact.kind,
        "name": artifact.name if artifact.name != artifact.kind else "",
        "digest": artifact.digest,
        "what": what,
        "by": None if by == facts.run.run_id else by,
        "under": children,
    }


def config(facts: Facts) -> list[tuple[str, str]]:
    """Return the sections of the config as YAML."""
    sections: dict[str, Any] = facts.config.model_dump(mode="json")
    plain = {key: value for key, value in sections.items() if not isinstance(value, dict)}
    grouped = {"run": plain, **{key: value for key, value in sections.items() if isinstance(value, dict)}}
    return [(name, as_yaml(values)) for name, values in grouped.items()]


def as_yaml(values: dict[str, Any]) -> str:
    """Return a line per key, in the order of the config class; nested values are in flow style."""
    lines = [yaml.safe_dump({key: value}, **FLOW).strip()[1:-1] for key, value in values.items()]
    return "\n".join(lines)


def as_preset(values: dict[str, Any]) -> str:
    """Return the whole config as a preset."""
    lines = []
    for name, section in values.items():
        if isinstance(section, dict):
            lines += [f"{name}:", *(f"  {line}" for line in as_yaml(section).splitlines())]
        else:
            lines.append(as_yaml({name: section}))
    return "\n".join(lines) + "\n"


def environment(facts: Facts) -> dict[str, Any]:
    """Return host, layout, commit and packages of the last attempt, and its ids in MLflow and Prefect."""
    attempt = facts.record["attempts"][-1]
    layouts = [
        facts.named[row.digest].manifest["produced_by"]["layout"] for row in facts.made if row.digest in facts.named
    ]
    rows = {
        "host": attempt["host"],
        "threads": layouts[-1]["threads"] if layouts else facts.config.resources.threads or "",
        "strategy": layouts[-1]["strategy"] if layouts else "",
        "layouts": "; ".join(_spans(layouts)),
        "git commit": attempt["git_commit"] or "",
        "MLflow run": facts.record["mlflow_run_id"] or "",
        "Prefect flow run": attempt["prefect_flow_run_id"] or "",
    }
    return {"rows": {key: value for key, value in rows.items() if value != ""}, "packages": attempt["packages"]}


def _spans(layouts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the layouts of a training that was continued under another one, with their steps."""
    for steps in (steps for layout in layouts for steps in layout.get("spans", [])):
        under = ", ".join(f"{name} {value}" for name, value in steps.items() if name not in ("from", "to"))
        yield f"steps {steps['from']} to {steps['to']}: {under}"


def cost(facts: Facts) -> list[dict[str, Any]]:
    """Return the seconds of each result, also as a percentage of the longest."""
    longest = max((row.seconds for row in facts.results), default=0) or 1
    return [
        {
            "stage": row.stage,
            "name": row.name if row.kind in ("model", "variant") and row.name != row.kind else "",
            "cached": row.cached,
            "seconds": seconds(row.seconds),
            "percent": 100 * row.seconds / longest,
        }
        for row in facts.results
    ]
