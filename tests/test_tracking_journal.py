"""The journal keeps the first time of every point, also when it is written again after a kill."""

from __future__ import annotations

from pathlib import Path

from tasks.store.journal import JournalFile, read


def test_the_first_value_and_time_of_a_point_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JournalFile(path).append(20, {"train/loss": 0.5})
    [first] = read(path)
    with open(path, "ab") as file:
        file.write(b'{"step": 40, "time": 1')  # killed as it wrote
    resumed = JournalFile(path)
    resumed.append(20, {"train/loss": 0.4})
    resumed.append(20, {"train/loss": 0.4, "train/accuracy": 0.9})
    resumed.append(40, {"train/loss": float("nan")})
    assert next(iter(read(path))) == first
    names_and_steps = [(name, point.step) for point in read(path) for name in point.metrics]
    assert names_and_steps == [("train/loss", 20), ("train/accuracy", 20), ("train/loss", 40)]
    resumed.append(40, {"train/loss": 0.3})
    assert len(list(read(path))) == 3, "nor is it written twice by one attempt"
