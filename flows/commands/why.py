"""millrace why: would a stage run or come from the store, and which input differs from the nearest artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.reply import AsJson, replying
from flows.commands.run import read_flags
from tasks.artifacts import Artifact, Export, Model, Records, Report, Snapshot, Variant
from tasks.config import Config
from tasks.errors import Refused
from tasks.store.differences import Foreseen, nearest
from tasks.store.home import find_home
from tasks.store.store import Store

STAGES = ("convert", "snapshot", "train", "evaluate", "compress", "export")
MOST = 20
"""Differences shown; `--json` has all."""


def why(
    context: typer.Context,
    stage: Annotated[str, typer.Argument(help=f"One of {', '.join(STAGES)}.")],
    preset: Annotated[Path, typer.Argument(metavar="PRESET.yaml", help="Flags may follow: --dotted.key VALUE.")],
    as_json: AsJson = False,
) -> None:
    """Would this stage run or come from the store, and which input differs from the nearest artifact."""
    with replying("why", as_json) as reply:
        if stage not in STAGES:
            raise Refused("STAGE", stage, f"must be one of {', '.join(STAGES)}", "promote always runs")
        from tasks import console
        from tasks.config.load import load

        config = load(preset, read_flags(context.args), console.say)
        store = Store(find_home().readable().store)
        answers = []
        for wanted in foresee(store, config)[stage]:
            made = (store.path(wanted.kind, wanted.digest) / "manifest.json").exists()
            found = None if made else nearest(store, wanted)
            differences = [str(difference) for difference in found[1]] if found else []
            near = f"{found[0].kind}/{found[0].digest}" if found else None
            artifact = f"{wanted.kind}/{wanted.digest}"
            row = {"name": wanted.name, "artifact": artifact, "in_store": made, "nearest": near}
            answers.append({**row, "differences": differences})
            if not as_json:
                tell(stage, wanted, made, near, differences)
        reply.add(stage=stage, answers=answers)


def tell(stage: str, wanted: Foreseen, made: bool, near: str | None, differences: list[str]) -> None:
    """The answer for one artifact, for a person."""
    name = f"{stage} ({wanted.name})" if wanted.kind == "variant" else stage
    if made:
        typer.echo(f"{name} comes from the store: {wanted.kind}/{wanted.digest[:12]}")
        return
    if near is None:
        typer.echo(f"{name} would run: the store has no {wanted.kind} yet")
        return
    typer.echo(f"{name} would run; the nearest {near[: near.index('/') + 13]} differs in")
    for difference in differences[:MOST]:
        typer.echo(f"  {difference}")
    if len(differences) > MOST:
        typer.echo(f"  and {len(differences) - MOST} more (--json lists all)")


def foresee(store: Store, config: Config) -> dict[str, list[Foreseen]]:
    """What each stage of the pipeline would be asked for, without doing anything."""
    from tasks import identities
    from tasks.identities import Identity

    def foreseen(kind: type[Artifact], identity: Identity, name: str, *parents: Foreseen) -> Foreseen:
        held = {parent.digest: parent for parent in parents}
        inputs = identity.inputs(kind)
        return Foreseen(name, inputs, {role: held[digest] for role, digest in inputs["parents"].items()})

    def of(wanted: Foreseen) -> Artifact:
        return wanted.handle(store)

    records = foreseen(Records, identities.records(config.source, config.records, store.root / ".verified"), "records")
    examples = foreseen(Snapshot, identities.snapshot(of(records), config.snapshot), "snapshot", records)
    given = config.train.continue_from
    base = [] if given is None else [_made(store.resolve(given, "model"))]
    continued = of(base[0]) if base else None
    identity = identities.model(of(examples), config.model, config.train, config.seed, continued)
    trained = foreseen(Model, identity, "model", examples, *base)
    report = foreseen(
        Report, identities.report(of(trained), of(examples), config.evaluate), "report", trained, examples
    )

    def variant(name: str, made_from: Foreseen | None) -> Foreseen:
        base = of(made_from) if made_from else None
        parents = [trained, examples, *([made_from] if made_from else [])]
        identity = identities.variant(name, of(trained), of(examples), base, config.compress, config.evaluate)
        return foreseen(Variant, identity, name, *parents)

    saved_model = variant("saved_model", None)
    litert = variant("litert", saved_model)
    variants = [saved_model, litert, *(variant(method, litert) for method in config.compress.methods)]
    accepted = [wanted for wanted in variants if _accepted(of(wanted), config)]
    identity = identities.export(of(trained), of(examples), [of(wanted) for wanted in accepted], config.export)
    export = foreseen(Export, identity, "export", trained, examples, *accepted)
    return {
        "convert": [records],
        "snapshot": [examples],
        "train": [trained],
        "evaluate": [report],
        "compress": variants,
        "export": [export],
    }


def _made(artifact: Artifact) -> Foreseen:
    """An artifact of the store as one that is asked for; what it was made from is not asked for again."""
    return Foreseen(artifact.name, artifact.manifest["inputs"], {})


def _accepted(variant: Artifact, config: Config) -> bool:
    """Whether its gates let it pass; one that is not made yet is taken to."""
    from tasks.compression import accepted

    if not (variant.path / "manifest.json").exists():
        return True
    return accepted(variant.manifest["statistics"]["gates"], config.compress)
