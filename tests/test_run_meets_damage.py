"""A damaged file of the store is detected before use, moved away, and made again; a second damage ends the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.homes import DIGITS, SMALL, CommandHome


def test_a_second_damage_in_one_run_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow starts once more from the top, and only once: a disk that goes on losing bytes is not worked on."""
    from tasks.artifacts import Outcome, Records
    from tasks.config.compose import load
    from tasks.errors import Damaged
    from tasks.runner.attempt import RunRequest, attempt_run, current
    from tasks.store.store import digest_of

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    inputs = {"kind": "records", "config": {}, "parents": {}, "sources": []}
    begun = []

    def body() -> None:
        begun.append(1)
        store = current.get().store
        with store.claim(Records, digest_of(inputs), "records") as claim:
            claim.staging.put("file", b"whole")
            made = claim.publish(inputs, Outcome(counts={}), {"run": "r"})
        (made.path / "file").write_bytes(b"whale")
        store.find(Records, made.digest, "records")

    request = RunRequest()
    with pytest.raises(Damaged, match="never changes"):
        attempt_run("dataset", load(DIGITS), body, request, None)
    assert len(begun) == 2
    assert request.run is not None and request.run.exit_code == 1


@pytest.fixture(scope="module")
def copied(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    home = CommandHome(tmp_path_factory.mktemp("damage") / "home")
    shutil.copytree(finished.root, home.root)
    return home


HARMS = ("flip", "truncate", "remove", "manifest")
CASES = [
    *(("model", harm) for harm in HARMS),
    *zip(("records", "snapshot", "variant", "export", "report"), (*HARMS, "flip"), strict=True),
]


@pytest.mark.parametrize(
    ("kind", "harm"),
    [pytest.param(*case, marks=() if case == ("report", "flip") else pytest.mark.slow) for case in CASES],
)
def test_damage_is_named_moved_away_and_remade(
    copied: CommandHome, finished: CommandHome, kind: str, harm: str
) -> None:
    [artifact, *_] = sorted((copied.root / "store" / kind).iterdir())
    files = sorted(path for path in artifact.rglob("*") if path.is_file() and path.name != "manifest.json")
    victim = artifact / "manifest.json" if harm == "manifest" else files[len(files) // 2]
    content = victim.read_bytes()
    if harm == "remove":
        victim.unlink()
    elif harm == "truncate":
        victim.write_bytes(content[:-1])
    elif harm == "flip":
        victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        victim.write_bytes(content.replace(b'"counts"', b'"count5"'))
    answer = copied.here("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.stderr.count("warning: ") == 1
    assert f"{kind}/{artifact.name[:12]}/{victim.relative_to(artifact)}" in answer.stderr
    assert any((copied.root / "store/.damaged").glob(f"{kind}-*"))
    assert copied.artifacts() == finished.artifacts()
