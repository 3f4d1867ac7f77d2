"""millrace diff: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Refused
from tasks.runs.home import find_home
from tasks.runs.runs import resolve_run
from tasks.store.files import write


def diff(
    run_a: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    run_b: Annotated[str, typer.Argument(help="Another run.")],
    html: Annotated[Path | None, typer.Option(help="Also write it as a page that needs no network.")] = None,
    as_json: AsJson = False,
) -> None:
    """Data, code, config, environment and results of two runs, and whether the difference is more than noise."""
    with replying("diff", as_json) as reply:
        # they need SciPy, which else would be loaded whenever any command starts
        from tasks.pages import comparison_page
        from tasks.pages.comparison import Comparison

        if html is not None and html.is_dir():
            raise Refused("--html", html, "a folder is there", "name a file, as in --html comparison.html")
        home = find_home().readable()
        found = Comparison(resolve_run(home, run_a), resolve_run(home, run_b))
        reply.add(run_a=found.before.run.run_id, run_b=found.after.run.run_id, **found.as_json())
        if html is not None:
            write(html, comparison_page.render(found).encode())
        if not as_json:
            for line in found.lines():
                typer.echo(line)
