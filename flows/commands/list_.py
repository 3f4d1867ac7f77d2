"""millrace list: list artifacts."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.artifacts import KINDS
from tasks.display.numbers import kilobytes
from tasks.errors import Refused
from tasks.runs.home import find_home
from tasks.store.store import Store


def list_(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the artifacts in the store, newest last."""
    with replying("list", as_json) as reply:
        from tasks.display.words import describe

        if kind is not None and kind not in KINDS:
            raise Refused("KIND", kind, f"a kind is one of {', '.join(KINDS)}", "choose one of them")
        artifacts = Store(find_home().readable().store).artifacts(kind)
        rows = []
        for artifact in artifacts:
            manifest = artifact.manifest
            size = sum(file["bytes"] for file in manifest["files"])
            made = {"created": manifest["created"], "run": manifest["produced_by"]["run"]}
            rows.append(
                {"kind": artifact.kind, "digest": artifact.digest, "bytes": size, "path": artifact.path, **made}
            )
            if not as_json:
                when = manifest["created"][:16].replace("T", " ")
                typer.echo(
                    f"{artifact.kind:<9}{artifact.digest[:12]}  {kilobytes(size):>9}  {when}  {describe(artifact)}"
                )
        if not artifacts and not as_json:
            typer.echo("no artifacts; next: millrace run pipeline flows/presets/digits.yaml")
        reply.add(artifacts=rows)
