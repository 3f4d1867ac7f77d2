"""The language model's preset, killed and run again; apart from the digits, so that both run in parallel."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest

from tasks.artifacts import STAGES
from tests.support.homes import SMALL_LM, STDLIB_LM, CommandHome
from tests.support.kills import Unbroken, disturbed_in_each_stage

pytestmark = pytest.mark.slow

COMMAND = ("run", "pipeline", STDLIB_LM, *SMALL_LM, "--promote.baseline", "none")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    home = CommandHome(tmp_path_factory.mktemp("unbroken"))
    answer = home(*COMMAND, "--json")
    assert answer.code == 0, answer.stderr
    return Unbroken(COMMAND, home)


def test_killed_stopped_or_interrupted_in_each_stage_that_computes_with_text(
    unbroken: Unbroken, tmp_path: Path
) -> None:
    """Evaluation and promotion are those of the digits, in `test_run_survives_kills`."""
    numbers = itertools.cycle([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    with_text = [stage for stage in STAGES if stage not in ("evaluate", "promote")]
    disturbed_in_each_stage(unbroken, CommandHome(tmp_path), numbers, with_text)
