"""The end of a run in the terminal: what was made, how good it is, where it is, what to type next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tasks.pages.words import kilobytes, score, seconds
from tasks.store.runs import Run


def metrics_of(run: Run) -> dict[str, float]:
    """All metrics that the stages of the last attempt found, by flat name."""
    found: dict[str, float] = {}
    for rows in run.record["stages"].values():
        for row in rows:
            manifest = Path(row["path"]) / "manifest.json"
            if manifest.is_file():
                found |= json.loads(manifest.read_bytes())["statistics"].get("metrics", {})
    return found


def lines(run: Run) -> Iterator[str]:
    """The summary, line by line."""
    stages, metrics = run.record["stages"], metrics_of(run)
    spent = sum(row["seconds"] for rows in stages.values() for row in rows)
    made = sum(not row["cached"] for rows in stages.values() for row in rows)
    yield ""
    yield f"{run.record['flow']} {run.record['status']} in {seconds(spent)}: {made} made, the rest from the store"
    if "evaluate" in stages:
        yield f"  quality   test {score(metrics, 'test/accuracy')}"
    for row in stages.get("compress", []):
        name = row["name"]
        size, quality = (metrics.get(f"{name}/bytes"), metrics.get(f"{name}/test/accuracy"))
        if size and quality is not None:
            yield f"  {name:<14}{kilobytes(int(size)):>9}  accuracy {quality:.4f}"
    if "promote" in stages:
        release = json.loads((run.folder / "release.json").read_bytes())
        yield f"  release   {release['verdict']}"
    yield f"  page      {run.folder / 'page.html'}"
    if "export" in stages:
        digest = stages["export"][0]["digest"][:12]
        yield f"  export    {stages['export'][0]['path']}"
        yield f"  next      millrace predict {digest} IMAGE.png"
    elif "train" in stages:
        yield f"  next      millrace run release PRESET.yaml --release.model {stages['train'][0]['digest'][:12]}"
    else:
        yield f"  next      millrace show {run.run_id}"
