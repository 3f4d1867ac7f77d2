"""Two runs, a and b, held against each other: data, config, code, environment, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from tasks.artifacts import Artifact
from tasks.display.words import figure
from tasks.pages import results, sections
from tasks.pages.facts import Facts
from tasks.pages.results import Examples, Pair, Row
from tasks.runs.differences import Difference, Keys, between, keys
from tasks.runs.history import History, between_commits, short
from tasks.runs.runs import Run

MOST = 20
"""Lines of a part that the text shows; the page and `--json` have all."""
NAMED = 5
"""Keys that the text names of each sort."""


class Comparison:
    """What is the same and what is not between two runs, as far as their artifacts still lie in the store."""

    def __init__(self, before: Run, after: Run) -> None:
        self.before, self.after = Facts(before), Facts(after)

    @property
    def both(self) -> tuple[Facts, Facts]:
        """a and b."""
        return self.before, self.after

    @cached_property
    def raw(self) -> Keys:
        """Raw files or examples by key."""
        return keys(*(_sources(facts) for facts in self.both))

    @cached_property
    def statistics(self) -> list[Difference]:
        """Figures of the records that differ: examples, classes, sizes, means by split."""
        return between(*(_statistics(facts) for facts in self.both))

    @cached_property
    def config(self) -> list[Difference]:
        """Settings."""
        return between(self.before.record["config"], self.after.record["config"])

    @cached_property
    def code(self) -> list[Difference]:
        """The commits that made the artifacts of stages that both went through, and versions of these stages' code."""
        a, b = (dict(_handed(facts)) for facts in self.both)
        moved: dict[tuple[str, str], list[str]] = {}
        versions = []
        for what in (what for what in a if what in b):
            first, second = (str(row.manifest["produced_by"]["git_commit"]) for row in (a[what], b[what]))
            if first != second:
                moved.setdefault((short(first), short(second)), []).append(what)
            old, new = (row.manifest["inputs"]["code"]["version"] for row in (a[what], b[what]))
            if old != new:
                versions.append(Difference(f"version of {what}", old, new))
        return [Difference(f"commit of {', '.join(stages)}", *pair) for pair, stages in moved.items()] + versions

    @cached_property
    def history(self) -> History | None:
        """The commits and files between the code of the one and of the other, where its repository is at hand."""
        commits = [_commit(facts) for facts in self.both]
        if None in commits or commits[0] == commits[1]:
            return None
        return between_commits(str(commits[0]), str(commits[1]))

    @cached_property
    def environment(self) -> list[Difference]:
        """Packages, hosts and layouts that made the artifacts."""
        return between(*(_environment(facts) for facts in self.both))

    @cached_property
    def _pairs(self) -> dict[str, Pair | None]:
        """By split what each of its examples gives, where both were judged on the same ones."""
        return {split: results.pair(*self.both, split) for split in results.SPLITS}

    @cached_property
    def results(self) -> list[Row]:
        """A row per metric of each split, and per variant its size and score."""
        return results.compare(*self.both, self._pairs) + results.variants(*self.both)

    @cached_property
    def examples(self) -> Examples | None:
        """Test examples that only one of the two got right, where examples are right or wrong."""
        return results.examples(self.after, self._pairs["test"])

    @property
    def verdict(self) -> str:
        """In a sentence, by the primary metric on the test split."""
        name = f"test/{self.after.metric}"
        row = next((row for row in self.results if row.name == name), None)
        if row is None:
            return "They were not judged by the same metric."
        if row.difference == 0:
            how = "as good as a"
        else:
            better = (row.difference > 0) == row.higher_is_better
            how = f"{'better' if better else 'worse'} than a by {figure(abs(row.difference))}"
        return f"b is {how} in {name.replace('/', ' ').replace('_', ' ')}: {row.verdict}."

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "verdict": self.verdict,
            "data": {**asdict(self.raw), "statistics": _told(self.statistics)},
            "config": _told(self.config),
            "code": {"versions": _told(self.code), **(asdict(self.history) if self.history else {})},
            "environment": _told(self.environment),
            "results": [row.as_json() for row in self.results],
            "examples": asdict(self.examples) if self.examples else None,
        }

    def lines(self) -> Iterator[str]:
        """For a person at a terminal."""
        for name, facts in zip("ab", self.both, strict=True):
            yield f"{name}  {facts.run.run_id}  {facts.record['flow']}, {facts.record['status']}"
        yield self.verdict
        yield from self._data_lines()
        yield from _part("config", _told(self.config))
        yield from _part("code", _told(self.code))
        if self.history:
            yield from _part(f"  commits that only one has ({len(self.history.commits)})", self.history.commits, "    ")
            yield from _part(f"  files ({len(self.history.files)})", self.history.files, "    ")
        yield from _part("environment", _told(self.environment))
        if self.results:
            longest = max(len(row.name) for row in self.results)
            yield f"results: {'':<{max(longest - 7, 0)}}{'a':>12}{'b':>12}{'b - a':>12}"
        for row in self.results:
            figures = f"{row.told(row.a):>12}{row.told(row.b):>12}{row.change:>12}"
            yield f"  {row.name:<{longest}}{figures}  {row.verdict}".rstrip()
        if self.examples:
            yield from _part("test examples", list(self.examples.lines(NAMED)))

    def _data_lines(self) -> Iterator[str]:
        raw = self.raw
        if not (raw.added or raw.removed or raw.changed or self.statistics):
            yield "data: the same"
            return
        yield f"data: {raw.same:,} {self.after.counted} are the same"
        for word, found in (("added", raw.added), ("removed", raw.removed), ("changed", raw.changed)):
            if found:
                yield f"  {len(found):,} {word}: {some(found, NAMED)}"
        yield from _part("  statistics", _told(self.statistics), "    ")


def some(names: list[str], most: int) -> str:
    """The first few of many names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _part(title: str, told: list[str], indent: str = "  ") -> Iterator[str]:
    if not told:
        yield f"{title}: the same"
        return
    yield f"{title}:"
    yield from (f"{indent}{line}" for line in told[:MOST])
    if len(told) > MOST:
        yield f"{indent}and {len(told) - MOST} more (--json and --html have all)"


def _told(differences: list[Difference]) -> list[str]:
    return [str(difference) for difference in differences]


def _sources(facts: Facts) -> list[list[str]]:
    records = facts.one("records")
    found: list[list[str]] = records.manifest["inputs"]["sources"] if records else []
    return found


def _statistics(facts: Facts) -> dict[str, str]:
    """What the run's page tells of its data, as one flat mapping."""
    told = sections.data(facts)
    if not told:
        return {}
    splits = list(told["splits"])
    found = {f"{split}: {facts.counted}": f"{count:,}" for split, count in told["splits"].items()}
    for balance in told["balance"]:
        for row in balance["rows"]:
            for split, (count, _) in zip(splits, row["counts"], strict=True):
                found[f"{split}: {balance['feature']} {row['class']}"] = f"{count:,}"
    for row in told["figures"]:
        for split, value in zip(splits, row["values"], strict=True):
            found[f"{split}: {row['feature']}, {row['what']}"] = value
    return found


def _handed(facts: Facts) -> Iterator[tuple[str, Artifact]]:
    """What the run handed on, by stage and name, as far as it lies in the store."""
    for row in facts.handed:
        if row.digest in facts.named and row.kind != "release":
            what = row.stage if row.name == row.kind else f"{row.stage}.{row.name}"
            yield what, facts.named[row.digest]


def _commit(facts: Facts) -> str | None:
    """That of the last thing it handed on."""
    commits = [artifact.manifest["produced_by"]["git_commit"] for _, artifact in _handed(facts)]
    return commits[-1] if commits else None


def _environment(facts: Facts) -> dict[str, str]:
    """By name; several values where a run's artifacts were made in several surroundings."""
    found: dict[str, set[str]] = {}
    for _, artifact in _handed(facts):
        by = artifact.manifest["produced_by"]
        for name, value in {**by["packages"], "host": by["host"], **by["layout"]}.items():
            found.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}
