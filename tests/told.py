"""The page of a run, without the run: what it would tell of artifacts made elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tasks.artifacts import Artifact
from tasks.config import Config
from tasks.pages import run_page
from tasks.store.home import Home
from tasks.store.runs import opened


def page_of(root: Path, config: Config, **made: Artifact) -> str:
    """`page_of(root, config, convert=records, evaluate=report)`: the HTML; what was made is copied into a home."""
    with opened(Home(root), "training", config, new=True, prefect_id=None, waiting=print) as run:
        for number, (stage, artifact) in enumerate(made.items()):
            digest = f"{number:064x}"
            folder = shutil.copytree(artifact.path, run.store.path(artifact.kind, digest))
            also = {
                "digest": digest,
                "parents": {},
                "inputs": {"config": {}, "sources": [["key", "sha256"]]},
                "produced_by": {"run": run.run_id, "layout": {"threads": 2, "strategy": "one_device"}},
            }
            (folder / "manifest.json").write_text(json.dumps({**artifact.manifest, **also}))
            run.made(stage, type(artifact)(digest, folder, artifact.kind), 1.0)
        run.end(0, "completed", None)
        run_page.publish(run)
        return (run.folder / "page.html").read_text(encoding="utf-8")
