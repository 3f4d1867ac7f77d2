"""Whether a step fits into memory: the micro-batches that do, and the error where it does not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.environment import hardware
from tasks.errors import Failed
from tasks.store.staging import TEMPORARY
from tasks.training.config import TrainConfig
from tasks.training.engines import Engine, OutOfMemory

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

log = logging.getLogger(__name__)

FITTED = f"{TEMPORARY}accumulate.json"
"""The number of micro-batches that fitted, so that a training that goes on has the same."""
CAREFUL = 4
"""The part of the free memory, a quarter, from which on the need of a step is measured before the first one."""


def micro_batches(engine: Engine, config: TrainConfig, bench: Workbench) -> int:
    """Return the micro-batches of a step; with `train.fit_memory` the least number that fits in all processes.

    Raises:
        Failed: they do not fit; with `train.fit_memory` not even single examples, or the micro-batches of
            `train.accumulate` where the model does not allow more.
    """
    if not config.fit_memory:
        check(engine, config, bench)
        return config.accumulate
    chief = bench.rank == 0
    [number] = engine.group.totals([fitted(bench) if chief else 0])
    if not number:
        available = share_of_host(bench)
        tried = candidates(config) if engine.divisible else [config.accumulate]
        number = next((each for each in tried if not any(engine.group.totals([not engine.fits(each, available)]))), 0)
        if not number:
            raise too_large(config, f"the {available >> 20:,} MiB that are free", 0)
        if chief:
            bench.staging.put(FITTED, json.dumps(number).encode())
        log.info("train.fit_memory: steps in %d micro-batches fit into memory", number)
    bench.measure("train/accumulate", number)
    if number != config.accumulate:
        engine.accumulate(number)
    return number


def check(engine: Engine, config: TrainConfig, bench: Workbench) -> None:
    """Raise `Failed` where a step would need more memory than its host has left, whose system would kill a process.

    It is measured where the activations are estimated at a good part of that.
    """
    available = share_of_host(bench)
    share = config.batch_size // config.strategy.replicas // config.accumulate
    large = config.strategy.alone and engine.activations * share > available // CAREFUL
    if large and not engine.fits(config.accumulate, available):
        raise too_large(config, f"the {available >> 20:,} MiB that are free", fitting(engine, config, available))


@contextmanager
def explained(engine: Engine, config: TrainConfig, bench: Workbench) -> Iterator[None]:
    """Raise `Failed` where a step does not fit into memory, which names the micro-batches that would."""
    try:
        yield
    except OutOfMemory as error:
        raise too_large(config, str(error), fitting(engine, config, share_of_host(bench))) from None


def fitting(engine: Engine, config: TrainConfig, available: int) -> int:
    """Return a larger number of micro-batches that fits; 0 where none does, or the model does not allow it."""
    larger = candidates(config, config.accumulate) if config.strategy.alone and engine.divisible else []
    return next((each for each in larger if engine.fits(each, available)), 0)


def too_large(config: TrainConfig, saw: str, number: int) -> Failed:
    """Return the error of a step that needs too much memory: the tensor, or what there is, and what would fit."""
    share = config.batch_size // config.strategy.replicas // config.accumulate
    rule = f"the activations of {share} examples and the gradients must fit into memory"
    smaller = "use a smaller batch or model"
    other = smaller if config.remat or not config.strategy.alone else f"set train.remat: true, or {smaller}"
    remedy = f"set it to {number}, which fits, or set train.fit_memory: true" if number else other
    return Failed("train.accumulate", f"{config.accumulate}, which is too much for {saw}", rule, remedy)


def share_of_host(bench: Workbench) -> int:
    """Return the free bytes of a process' host, divided by the processes of the training there."""
    return hardware.available() // bench.hosts.count(bench.hosts[bench.rank])


def fitted(bench: Workbench) -> int:
    """Return the number of micro-batches of an earlier attempt; 0 where there is none."""
    kept = bench.staging.adopt(FITTED) is not None
    return int(json.loads((bench.staging.root / FITTED).read_bytes())) if kept else 0


def candidates(config: TrainConfig, above: int = 0) -> list[int]:
    """Return numbers of micro-batches that divide a replica's examples, each at least twice the one before."""
    share = config.batch_size // config.strategy.replicas
    chosen: list[int] = []
    for number in range(max(config.accumulate, above + 1), share + 1):
        if share % number == 0 and (not chosen or number >= 2 * chosen[-1]):
            chosen.append(number)
    if chosen and chosen[-1] != share:
        chosen.append(share)
    return chosen
