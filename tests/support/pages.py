"""The page of a run that did not take place, from given artifacts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from tasks.artifacts import Artifact
from tasks.config.compose import Config
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.store.store import digest_of
from tasks.view import run_page


def page_of(root: Path, config: Config, **made: Artifact) -> str:
    """`page_of(root, config, convert=records, evaluate=report)`: the HTML."""
    return (run_of(root, config, [("key", "sha256")], **made).folder / "page.html").read_text(encoding="utf-8")


def run_of(root: Path, config: Config, sources: Sequence[tuple[str, str]], **made: Artifact) -> Run:
    """A finished run in the home `root` that handed on what was made elsewhere, of these raw examples."""
    with opened(Home(root), "training", config, new=True, prefect_id=None, waiting=print) as run:
        for number, (stage, artifact) in enumerate(made.items()):
            digest = digest_of({"run": run.run_id, "number": number})
            folder = shutil.copytree(artifact.path, run.store.path(artifact.kind, digest))
            by = {"run": run.run_id, "layout": {"threads": 2, "strategy": "one_device"}}
            also = {
                "digest": digest,
                "parents": {},
                "inputs": {"config": {}, "sources": [list(row) for row in sources], "code": {"version": 1}},
                "produced_by": {**by, "git_commit": "0" * 40, "packages": {"python": "3"}, "host": "here"},
            }
            (folder / "manifest.json").write_text(json.dumps({**artifact.manifest, **also}))
            run.made(stage, type(artifact)(digest, folder, artifact.kind), 1.0)
        run.end(0, "completed", None)
        run_page.publish(run)
    return run


class Loads(HTMLParser):
    """What a browser would fetch for a page, and the text that it shows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self._styling = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._styling = tag == "style"
        fetching = {"src", "srcset", "data", "poster"} | ({"href", "xlink:href"} if tag != "a" else set())
        self.addresses += [value or "" for name, value in attrs if name in fetching]

    def handle_endtag(self, tag: str) -> None:
        self._styling = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._styling else data
