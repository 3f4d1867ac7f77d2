"""What `compress` does beside making variants: the search for methods, and the judgement of what was made.

Each trial is written when it ends, so that nothing is tried twice; a judgement is made once for the same variants and
gates, and kept with each run.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Variant
from tasks.compression.config import SearchConfig
from tasks.compression.judgement import FILE, JUDGEMENT, REJECTED, SEARCH, Judgement
from tasks.compression.methods.method import Chain
from tasks.errors import Failed, of_the_machine
from tasks.evaluation.gates import open_gates, reasons
from tasks.runner.attempt import current
from tasks.runner.stages import runner
from tasks.store.files import pretty, write
from tasks.store.store import digest_of
from tasks.view import kilobytes, terminal

if TYPE_CHECKING:
    from tasks.compression.search import Space


def search(
    config: SearchConfig,
    key: Mapping[str, Any],
    space: Space,
    make: Callable[[Chain], Variant],
    lost: Callable[[Variant], float],
) -> list[Chain]:
    """Return the methods whose variants are on the front of bytes and loss on the validation split.

    A trial is a function of the seed and of the trials before it; those that this home has with the same key are taken
    as they are. In a preview only these are known.

    Args:
        key: what decides the result of a trial.
        make: makes a variant, or finds it in the store.
        lost: measures a variant on the validation split.
    """
    from tasks.compression.search import Trial, ask, on_front

    digest = digest_of({**key, "seed": config.seed})
    computes = runner().computes
    known = max(_stored(runner().home.runs, digest), key=len, default=[])
    trials: list[Trial] = []
    started = time.monotonic()
    while len(trials) < config.trials:
        number = len(trials)
        if number < len(known):
            trials.append(Trial(**known[number]))
            continue
        if not computes or (config.minutes is not None and time.monotonic() - started > 60 * config.minutes):
            break
        values = ask(trials, space, config.seed)
        methods = space.chain(values)
        trial = _again(trials, methods.name, number, values) or _tried(number, values, methods, make, lost)
        trials.append(trial)
        write(current.get().run.folder / SEARCH, pretty({"key": digest, "trials": [each.as_json() for each in trials]}))
        found = trial.reason
        if trial.bytes is not None:
            found = f"{kilobytes(trial.bytes)}, loses {trial.loss:.4f} on validation"
        terminal.say(f"  … compress  trial {number + 1} of {config.trials}: {trial.name}: {found}")
    if computes:
        write(current.get().run.folder / SEARCH, pretty({"key": digest, "trials": [each.as_json() for each in trials]}))
        if config.minutes is not None:
            terminal.say("  … compress  with search.minutes the trials depend on the machine's speed: not repeatable")
    return [space.chain(trial.values) for trial in on_front(trials)]


def _again(trials: Any, name: str, number: int, values: dict[str, str]) -> Any:
    """Return the result of an earlier trial of the same methods under this number; None where there was none."""
    found = next((trial for trial in trials if trial.name == name), None)
    return None if found is None else replace(found, number=number, values=values)


def _tried(
    number: int,
    values: dict[str, str],
    methods: Chain,
    make: Callable[[Chain], Variant],
    lost: Callable[[Variant], float],
) -> Any:
    """Make a variant and measure it; a method that does not fit the model is a trial without a result."""
    from tasks.compression.search import Trial

    try:
        variant = make(methods)
    except Failed as unfit:
        if type(unfit) is not Failed or of_the_machine(unfit) is not None:
            raise
        return Trial(number, values, methods.name, reason=str(unfit))
    return Trial(number, values, methods.name, variant.manifest["statistics"]["bytes"], lost(variant))


def _stored(runs: Path, digest: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the trials of each run of the home with this key."""
    for path in runs.glob(f"*/{SEARCH}"):
        content = json.loads(path.read_bytes())
        if content["key"] == digest:
            yield content["trials"]


def judged(stage: str, key: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> Judgement:
    """Return the judgement of what a stage returned, write it to the run's folder, and tag the MLflow run with it.

    It is that of an earlier run with the same key, with the latencies of then, where this run made nothing of the
    stage; otherwise `work` makes it. In a preview it is an earlier one, or empty.
    """
    digest = digest_of(dict(key))
    if not runner().computes:
        return JUDGEMENT.validate_python(_earlier(runner().home.runs, digest) or {})
    attempt = current.get()
    run = attempt.run
    cached = all(row["cached"] for row in run.record["stages"][stage])
    made = (_earlier(run.home.runs, digest) if cached else None) or {**work(), "key": digest}
    write(run.folder / FILE, pretty(made))
    judgement = JUDGEMENT.validate_python(made)
    attempt.shipper.tags(judgement.tags())
    return judgement


def kept(variants: Sequence[Variant], judgement: Judgement) -> list[Variant]:
    """Return the variants that go into an export, with a note where a gate is undecided, and the chosen one marked.

    A warning is logged for each rejected and each undecided one.

    Raises:
        Failed: none of them is what `compress.want` asks for.
    """
    log, accepted = logging.getLogger(__name__), []
    for variant in variants:
        verdicts = judgement.verdicts.get(variant.name, ())
        if judgement.standing.get(variant.name) == REJECTED:
            log.warning("variant %s is rejected: %s", variant.name, reasons(verdicts))
            continue
        note = open_gates(verdicts)
        if note:
            log.warning("variant %s is kept, but undecided: %s", variant.name, note)
        chosen = judgement.chosen == variant.name
        accepted.append(replace(variant, note=note, chosen=chosen) if note or chosen else variant)
    if judgement.missed and judgement.want is not None:
        wanted = ", ".join(f"{name} {value:,}" for name, value in judgement.want if value is not None)
        remedy = "add a method to compress.methods, or ask for less; the variants are kept"
        raise Failed("compress.want", wanted, f"no variant meets it: {judgement.missed}", remedy)
    return accepted


def _earlier(runs: Path, digest: str) -> dict[str, Any] | None:
    """Return the newest judgement of the home with this key."""
    for path in sorted(runs.glob(f"*/{FILE}"), reverse=True):
        judgement: dict[str, Any] = json.loads(path.read_bytes())
        if judgement["key"] == digest:
            return judgement
    return None
