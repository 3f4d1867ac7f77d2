"""The page of a run (to be replaced by the real one)."""

from __future__ import annotations

from pathlib import Path

from tasks.store.runs import Run


def publish(run: Run) -> tuple[list[tuple[Path, str]], str]:
    """Make `page.html`; the files for MLflow's artifact viewer with their folders, and the run's description."""
    page = run.folder / "page.html"
    page.write_text("<html></html>")
    return [(page, "")], "…"
