"""The pictures of the documentation: of a run's page, the terminal, MLflow, Prefect and TensorBoard, made anew.

    python -m tests.benchmarks.pictures [NAME ...]     takes ten minutes; NAME: only these, such as run-page

In a home of its own, with servers on free ports, the digits are run three times: as they are, with another rate, and
stopped. Each picture is taken in Chromium, cut to what the documentation is about, and written to `docs/images/`.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Error, Page
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from tasks.view.summary import MODE
from tests.support.browser import browsing
from tests.support.homes import DIGITS, ROOT
from tests.support.stacks import free_ports

PRESET = DIGITS.relative_to(ROOT)
IMAGES = ROOT / "docs/images"
COLOURS = 128
"""Colours of a picture, which make it small."""

ASSISTANT = 340
"""Width in pixels of what MLflow's pages have on the right, which is left out."""

SETTLED = 3_000
"""Milliseconds for the charts of a page that has answered."""

STOPPED_AFTER = 8.0
"""Seconds of its training after which a run gets Ctrl-C."""


@dataclass
class Shown:
    """A home with its servers, and the runs in it."""

    root: Path
    prefect: str = ""
    mlflow: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)
    said: str = ""
    """What the first run printed."""

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command; its output is in a pipe."""
        command = [sys.executable, "-m", "flows", *map(str, words)]
        environment = {**os.environ, "MILLRACE_HOME": str(self.root)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, env=environment, cwd=ROOT, **pipes)

    def __call__(self, *words: str | Path) -> str:
        """Run a command; return what it printed."""
        process = self.start(*words)
        output, _ = process.communicate()
        return output

    def records(self) -> list[dict[str, Any]]:
        """The records of all runs, oldest first."""
        return [json.loads(path.read_bytes()) for path in sorted(self.root.glob("runs/*/run.json"))]


@contextmanager
def prepared() -> Iterator[Shown]:
    """A home with three runs, whose servers run within the block."""
    with tempfile.TemporaryDirectory(prefix="millrace-pictures-") as folder:
        shown = Shown(Path(folder) / ".millrace")
        ports = free_ports()
        shown("up", "--prefect-port", ports[0], "--mlflow-port", ports[1])
        shown.prefect, shown.mlflow = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        try:
            shown.said = shown("run", PRESET, "--train.tensorboard", "true")
            shown("run", PRESET, "--train.learning_rate", "0.0002", "--train.steps", "200")
            stopped = shown.start("run", PRESET, "--train.steps", "20000")
            for line in stopped.stdout or ():
                if "train " in line and "step " in line:
                    break
            time.sleep(STOPPED_AFTER)
            stopped.send_signal(signal.SIGINT)
            stopped.communicate()
            shown.runs = shown.records()
            yield shown
        finally:
            shown("down")


def keep(page: Page, name: str, height: int | None = None, without: int = 0) -> None:
    """Write what a page shows, from its top to a height, with few colours; `without` a strip on the right."""
    size = page.viewport_size
    assert size is not None
    area = {"x": 0, "y": 0, "width": size["width"] - without, "height": height or size["height"]}
    with Image.open(io.BytesIO(page.screenshot(full_page=height is not None, clip=area))) as image:
        image.convert("RGB").quantize(COLOURS).save(IMAGES / f"{name}.png", optimize=True)
    print(f"docs/images/{name}.png: {(IMAGES / f'{name}.png').stat().st_size / 1000:.0f} kB", flush=True)


def open_page(page: Page, address: str, wanted: str) -> None:
    """Open an address, and wait for a text and for the charts."""
    page.goto("about:blank")
    page.goto(address)
    page.get_by_text(wanted).first.wait_for()
    page.wait_for_timeout(SETTLED)


def run_page(shown: Shown, page: Page) -> None:
    """The page of a run, wide."""
    open_page(page, (shown.root / "runs" / shown.runs[0]["run_id"] / "page.html").as_uri(), "Quality")
    keep(page, "run-page", 2000)


def phone_page(shown: Shown, page: Page) -> None:
    """The page on a telephone, in the dark."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    open_page(page, (shown.root / "runs" / shown.runs[0]["run_id"] / "page.html").as_uri(), "Quality")
    keep(page, "phone-page")


def diff_page(shown: Shown, page: Page) -> None:
    """Two runs compared."""
    html = shown.root / "comparison.html"
    shown("diff", shown.runs[0]["run_id"], shown.runs[1]["run_id"], "--html", html)
    open_page(page, html.as_uri(), "results")
    keep(page, "diff-page", 1500)


def mlflow_page(name: str, of: str, wanted: str) -> Callable[[Shown, Page], None]:
    """A page of MLflow: its address, with `{run}` for the first run and `{all}` for all runs, and a text on it."""

    def take(shown: Shown, page: Page) -> None:
        facts = {"run": shown.runs[0]["mlflow_run_id"], "all": quote(json.dumps(mlflow_ids(shown)))}
        page.set_viewport_size({"width": 1200 + ASSISTANT, "height": 900})
        open_page(page, f"{shown.mlflow}/{of.format(**facts)}", wanted)
        keep(page, name, without=ASSISTANT)

    return take


def mlflow_ids(shown: Shown) -> list[str]:
    """The runs in MLflow."""
    return [str(run["mlflow_run_id"]) for run in shown.runs]


def prefect_runs(shown: Shown, page: Page) -> None:
    """The list of flow runs."""
    open_page(page, f"{shown.prefect}/runs", "digits-pipeline")
    keep(page, "prefect-runs")


def prefect_run(shown: Shown, page: Page) -> None:
    """A flow run."""
    flow_run = shown.runs[0]["attempts"][-1]["prefect_flow_run_id"]
    open_page(page, f"{shown.prefect}/runs/flow-run/{flow_run}", "Completed")
    keep(page, "prefect-run")


def prefect_form(shown: Shown, page: Page) -> None:
    """The form of a deployment."""
    with urlopen(f"{shown.prefect}/api/deployments/name/pipeline/digits") as answer:
        deployment = json.loads(answer.read())["id"]
    page.goto(f"{shown.prefect}/deployments/deployment/{deployment}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("A whole pipeline").wait_for()
    page.wait_for_timeout(SETTLED)
    keep(page, "prefect-form", 1250)


def tensorboard(shown: Shown, page: Page) -> None:
    """The curves in TensorBoard."""
    port = free_ports()[0]
    process = shown.start("board", shown.runs[0]["run_id"], "--port", port)
    try:
        for _ in range(60):
            try:
                page.goto(f"http://127.0.0.1:{port}/?tagFilter=%5E(train%7Cvalidation)%2F(loss%7Caccuracy)%7Cworst")
                break
            except Error:
                page.wait_for_timeout(1000)
        page.get_by_text("train").first.wait_for()
        page.wait_for_timeout(2 * SETTLED)
        keep(page, "tensorboard")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def terminal(shown: Shown, page: Page) -> None:
    """What a run prints, as SVG."""
    console = Console(record=True, width=150, file=io.StringIO(), highlight=False, markup=False)
    said = shown.said.replace(f"MILLRACE_HOME={shown.root} ", "").replace(str(shown.root), ".millrace")
    for line in re.sub(r"\S*bin/millrace", "millrace", said).splitlines():
        if not line.startswith("  … "):  # progress, which a terminal shows in a line that is redrawn
            console.print(line)
    svg = console.export_svg(title="millrace run flows/presets/digits.yaml", theme=DEFAULT_TERMINAL_THEME)
    (IMAGES / "terminal.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


RUNS = "#/experiments/1/runs"
PICTURES: dict[str, Callable[[Shown, Page], None]] = {
    "run-page": run_page,
    "phone-page": phone_page,
    "diff-page": diff_page,
    "terminal": terminal,
    "mlflow-list": mlflow_page("mlflow-list", f"{RUNS}{MODE}&viewStateShareKey=millrace", "rejected"),
    "mlflow-run": mlflow_page("mlflow-run", f"{RUNS}/{{run}}{MODE}", "millrace.score"),
    "mlflow-metrics": mlflow_page("mlflow-metrics", f"{RUNS}/{{run}}/model-metrics{MODE}", "Quality"),
    "mlflow-page": mlflow_page("mlflow-page", f"{RUNS}/{{run}}/artifacts/page.html{MODE}", "page.html"),
    "mlflow-compare": mlflow_page(
        "mlflow-compare", "#/compare-runs?runs={all}&experiments=%5B%221%22%5D", "Show diff only"
    ),
    "registry": mlflow_page("registry", f"#/models/digits/versions/1{MODE}", "champion"),
    "prefect-runs": prefect_runs,
    "prefect-run": prefect_run,
    "prefect-form": prefect_form,
    "tensorboard": tensorboard,
}


def main() -> None:
    """Take the pictures that are named, or all."""
    names = sys.argv[1:] or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        sys.exit(f"no picture {unknown[0]}; there are {', '.join(PICTURES)}")
    with prepared() as shown:
        for name in names:
            with browsing(1200, 900) as page:
                PICTURES[name](shown, page)


if __name__ == "__main__":
    main()
