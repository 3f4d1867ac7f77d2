"""millrace diff: two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from flows.commands.reply import AsJson, replying
from tasks.pages.summary import metrics_of
from tasks.store.differences import between, between_sources
from tasks.store.home import find_home
from tasks.store.runs import Run, resolve_run
from tasks.store.store import Store

MOST = 20
JUDGED = ("test/", "validation/")


def diff(
    run_a: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    run_b: Annotated[str, typer.Argument(help="Another run.")],
    as_json: AsJson = False,
) -> None:
    """Data, code, config, environment and results of two runs side by side."""
    with replying("diff", as_json) as reply:
        home = find_home().readable()
        one, other = resolve_run(home, run_a), resolve_run(home, run_b)
        store = Store(home.store)
        before, after = made(store, one), made(store, other)
        found: dict[str, Any] = {
            "config": told(between(one.record["config"], other.record["config"])),
            "data": told(between_sources(sources(before), sources(after))),
            "code": told(between(code(before), code(after))),
            "environment": told(between(environment(before), environment(after))),
            "results": results(metrics_of(one), metrics_of(other)),
        }
        reply.add(run_a=one.run_id, run_b=other.run_id, **found)
        if not as_json:
            for line in lines(one, other, found):
                typer.echo(line)


def made(store: Store, run: Run) -> dict[str, dict[str, Any]]:
    """The manifests of what a run handed on, by stage and name, as far as they lie in the store."""
    found = {}
    for stage, rows in run.record["stages"].items():
        for row in rows:
            path = store.path(row["kind"], row["digest"])
            if (path / "manifest.json").exists():
                found[f"{stage}/{row['name']}"] = store.resolve(f"{row['kind']}/{row['digest']}").manifest
    return found


def sources(manifests: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The raw examples or files behind a run."""
    return manifests.get("convert/records", {}).get("inputs", {}).get("sources", [])


def code(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The commits and code versions that made a run's artifacts."""
    return {
        name: {"commit": manifest["produced_by"]["git_commit"], "version": manifest["inputs"]["code"]["version"]}
        for name, manifest in manifests.items()
    }


def environment(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Packages, host and layout that made a run's artifacts; one entry where all agree."""
    found: dict[str, set[str]] = {}
    for manifest in manifests.values():
        by = manifest["produced_by"]
        for name, value in {**by["packages"], "host": by["host"], **by["layout"]}.items():
            found.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def results(before: dict[str, float], after: dict[str, float]) -> list[dict[str, Any]]:
    """Judged metrics of both, the difference, and whether their 95 % intervals lie apart."""
    rows = []
    for name in sorted(before.keys() & after.keys()):
        if not name.startswith(JUDGED) or name.endswith(("/low", "/high")):
            continue
        low, high = f"{name}/low", f"{name}/high"
        apart = None
        if low in before and low in after:
            apart = before[high] < after[low] or after[high] < before[low]
        row = {"metric": name, "a": before[name], "b": after[name], "difference": after[name] - before[name]}
        rows.append({**row, "intervals_apart": apart})
    return rows


def told(differences: list[Any]) -> list[str]:
    """Differences as text."""
    return [str(difference) for difference in differences]


def lines(one: Run, other: Run, found: dict[str, Any]) -> Iterator[str]:
    """The comparison for a person."""
    yield f"a  {one.run_id}  {one.record['status']}"
    yield f"b  {other.run_id}  {other.record['status']}"
    for part in ("data", "config", "code", "environment"):
        if not found[part]:
            yield f"{part}: the same"
            continue
        yield f"{part}:"
        yield from (f"  {line}" for line in found[part][:MOST])
        if len(found[part]) > MOST:
            yield f"  and {len(found[part]) - MOST} more (--json lists all)"
    if found["results"]:
        yield f"results: {'':<24}{'a':>10}{'b':>10}{'b - a':>11}"
    for row in found["results"]:
        apart = {None: "", True: "  more than noise", False: "  within noise"}[row["intervals_apart"]]
        yield f"  {row['metric']:<31}{row['a']:>10.4f}{row['b']:>10.4f}{row['difference']:>+11.4f}{apart}"
