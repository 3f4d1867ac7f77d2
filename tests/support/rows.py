"""Everything that a source yields, for tests of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.sources import Source
from tasks.sources.kinds import SourceConfig


@dataclass
class Everything:
    """The rows of all partitions, in their order."""

    keys: list[str] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    """By place, why a row is bad."""
    bad_keys: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*self.columns.values(), strict=True))


def everything(source: Source | SourceConfig, backwards: bool = False) -> Everything:
    """All that a source, or that of a config, yields; with the partitions read from the last to the first."""
    opened: Any = source if hasattr(source, "partitions") else source.open()  # type: ignore[arg-type]
    partitions = opened.partitions()
    parts = {
        number: _partition(opened, partitions[number]) for number in sorted(range(len(partitions)), reverse=backwards)
    }
    result = Everything()
    for number in range(len(partitions)):
        part = parts[number]
        result.keys += part.keys
        result.places += part.places
        result.bad |= part.bad
        result.bad_keys += part.bad_keys
        for name, values in part.columns.items():
            result.columns.setdefault(name, []).extend(values)
    return result


def _partition(source: Source, partition: Any) -> Everything:
    result = Everything()
    for rows in source.read(partition):
        columns: Mapping[str, Any] = rows.columns
        assert {len(column) for column in columns.values()} == {len(rows.keys)}
        result.keys += rows.keys.to_pylist()
        result.places += [rows.place(number) for number in range(len(rows.keys))]
        result.bad |= {bad.place: bad.reason for bad in rows.bad}
        result.bad_keys += [bad.key for bad in rows.bad]
        for name, values in columns.items():
            result.columns.setdefault(name, []).extend(values.to_pylist())
    return result
