"""millrace diff: compare two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Refused
from tasks.runs.home import find_home
from tasks.runs.runs import resolve_run
from tasks.store.files import write
from tasks.view import terminal


def diff(
    run_a: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    run_b: Annotated[str, typer.Argument(help="Another run.")],
    html: Annotated[Path | None, typer.Option(help="Also write the comparison as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare data, code, config, environment and results of two runs: is the difference more than noise?"""
    with replying("diff", as_json) as reply:
        if html is not None and html.is_dir():
            raise Refused("--html", html, "a folder is there", "name a file, as in --html comparison.html")
        home = find_home().readable()
        with terminal.waiting("comparing the runs"):
            # these import SciPy
            from tasks.view import comparison as comparison_page
            from tasks.view.comparison import Comparison

            comparison = Comparison(resolve_run(home, run_a), resolve_run(home, run_b))
            compared = comparison.as_json()
        reply.add(run_a=comparison.before.run.run_id, run_b=comparison.after.run.run_id, **compared)
        if html is not None:
            write(html, comparison_page.render(comparison).encode())
        if not as_json:
            for line in comparison.lines():
                typer.echo(line)
