"""millrace doctor: check this machine, the home and the versions; or measure the input of a preset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import preflight
from flows.launching import computed, flow_of, plan
from flows.reply import AsJson, Reply, replying
from tasks.artifacts import Records, Snapshot
from tasks.errors import Refused
from tasks.runs.home import Home, find_home
from tasks.store.store import Store
from tasks.view import terminal

if TYPE_CHECKING:
    from tasks.config.compose import Config
    from tasks.training.ceilings import Ceiling, Trained
    from tasks.training.config import Precision

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")

MARKS = {"ok": "ok     ", "warning": "WARNING", "fault": "FAULT  "}


def doctor(
    preset: Annotated[
        Path | None,
        typer.Option("--input", metavar="PRESET.yaml", help="Measure this preset's input beside its model's step."),
    ] = None,
    accelerator: Annotated[
        bool, typer.Option("--accelerator", help="Train twice on this machine's GPU, or CPU, and compare the bits.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check versions, ports, disk, memory, accelerators, home, clock and servers. Exit code 1 after a fault.

    With --input, measure instead how many examples a second each part of a preset's input reaches, and name the
    slowest. With --accelerator, train a small network twice in each precision: are the bits equal, and how long is a
    step?
    """
    with replying("doctor", as_json) as reply:
        if preset is not None and accelerator:
            raise Refused("--accelerator", "with --input", "each is a measurement of its own", "give one of them")
        if accelerator:
            _compare(reply)
            return
        if preset is not None:
            _measure(reply, preset)
            return
        from infra import health

        home = find_home()
        with terminal.waiting("asking the servers"):
            findings = health.examine(home.root)
        reply.add(findings=[finding.as_json() for finding in findings])
        for finding in findings:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            reply.say(f"{MARKS[finding.verdict]} {finding.what:<14} {finding.saw}{remedy}")
        reply.exit_code = 1 if any(finding.verdict == "fault" for finding in findings) else 0


def _measure(reply: Reply, preset: Path) -> None:
    """Print the ceilings of a preset's input and its model's step, and the slowest part."""
    from tasks.config.compose import load
    from tasks.training.ceilings import slowest

    config = load(preset, (), terminal.say)
    home = find_home().readable()
    preflight.check(flow_of(config), config, home)
    records, snapshot = _made(Store(home.store), config, preset)
    with terminal.waiting("measuring the input and the model's step"):
        ceilings = _measured(home, config, records, snapshot)
    training, conversion = slowest(ceilings, conversion=False), slowest(ceilings, conversion=True)
    reply.add(
        snapshot=snapshot.digest,
        ceilings=[asdict(each) for each in ceilings],
        bottleneck=training.part,
        conversion_bottleneck=conversion.part,
    )
    reply.say("examples/s")
    for each in ceilings:
        reply.say(f"{each.rate:>10,.0f}  {each.part:<10} {each.what}")
    reply.say(f"training waits for {training.part}: {training.advice}")
    reply.say(f"conversion waits for {conversion.part}: {conversion.advice}")


def _compare(reply: Reply) -> None:
    """Print whether two fresh trainings are equal bit for bit, by precision; exit code 1 where they are not."""
    from tasks.training.ceilings import CHECK_STEPS

    home = find_home()
    with terminal.waiting("training twice in each precision"):
        found = {precision: [_trained(home, precision) for _ in range(2)] for precision in PRECISIONS}
    [device] = {each.device for pair in found.values() for each in pair}
    rows = [
        {
            "precision": precision,
            "equal": len({each.weights_sha256 for each in pair}) == 1,
            "step_ms": round(min(each.step_ms for each in pair), 3),
            "trainings": [asdict(each) for each in pair],
        }
        for precision, pair in found.items()
    ]
    reply.add(device=device, steps=CHECK_STEPS, precisions=rows)
    reply.say(f"on {device}")
    for row in rows:
        verdict = "equal bit for bit" if row["equal"] else "DIFFERENT: a training that goes on is not exact here"
        reply.say(f"{row['precision']:<10} {row['step_ms']:>9,.2f} ms a step; two fresh trainings are {verdict}")
    reply.exit_code = 0 if all(row["equal"] for row in rows) else 1


def _trained(home: Home, precision: Precision) -> Trained:
    """Train the small network once, in a process of its own."""
    from tasks.processes.threads import available_threads
    from tasks.processes.workbench import work
    from tasks.training import ceilings

    return computed(home, "doctor", available_threads(), work(ceilings.train, precision), "--accelerator")


def _made(store: Store, config: Config, preset: Path) -> tuple[Records, Snapshot]:
    """Return records and snapshot of a config; raises `Refused` where they are not in the store."""
    planned = plan(store, config)
    [records], [snapshot] = planned["convert"], planned["snapshot"]
    found = store.find(Records, records.digest, "convert"), store.find(Snapshot, snapshot.digest, "snapshot")
    if found[0] is None or found[1] is None:
        rule, remedy = "the input is measured on the preset's own snapshot", f"run millrace run dataset {preset}"
        raise Refused("--input", f"{preset}, whose snapshot is not in the store", rule, remedy)
    return found[0], found[1]


def _measured(home: Home, config: Config, records: Records, snapshot: Snapshot) -> list[Ceiling]:
    """Measure in a compute process."""
    from tasks.processes.threads import threads_of
    from tasks.processes.workbench import work
    from tasks.training.ceilings import measure

    sections = config.source, config.snapshot, config.model, config.train, config.seed
    measuring = work(measure, *sections, records, snapshot, home.store / ".verified")
    return computed(home, "doctor", threads_of(config.resources), measuring, "--input")
