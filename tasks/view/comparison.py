"""The comparison of two runs, as rows and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from tasks.artifacts import Artifact
from tasks.runs.differences import Difference, Keys, between, keys
from tasks.runs.provenance import History, between_commits, short
from tasks.runs.runs import Run
from tasks.view import charts, figure, in_words, results, run_page, sections, some, trainings
from tasks.view.facts import Facts
from tasks.view.results import Examples, Pair, Row

MOST = 20
"""Lines of a section that the text shows, at most; the page and `--json` have all."""
NAMED = 5
"""Keys that the text shows in a line, at most."""


class Comparison:
    """The differences between two runs, as far as their artifacts are in the store."""

    def __init__(self, before: Run, after: Run) -> None:
        self.before, self.after = Facts(before), Facts(after)

    @property
    def both(self) -> tuple[Facts, Facts]:
        """The facts of a and b."""
        return self.before, self.after

    @cached_property
    def raw(self) -> Keys:
        """Added, removed and changed files or examples of the source."""
        return keys(*(_sources(facts) for facts in self.both))

    @cached_property
    def statistics(self) -> list[Difference]:
        """Statistics of the records that differ: examples, classes, sizes and means by split."""
        return between(*(_statistics(facts) for facts in self.both))

    @cached_property
    def config(self) -> list[Difference]:
        """Settings that differ."""
        return between(self.before.record["config"], self.after.record["config"])

    @cached_property
    def code(self) -> list[Difference]:
        """Commits and code versions that differ, of the stages that both runs have."""
        a, b = (dict(_results(facts)) for facts in self.both)
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
        """Commits and files between the code of a and of b; None without the repository."""
        commits = [_commit(facts) for facts in self.both]
        if None in commits or commits[0] == commits[1]:
            return None
        return between_commits(str(commits[0]), str(commits[1]))

    @cached_property
    def environment(self) -> list[Difference]:
        """Packages, hosts and layouts that differ."""
        return between(*(_environment(facts) for facts in self.both))

    @cached_property
    def _pairs(self) -> dict[str, Pair | None]:
        """Contributions by split, for those on which both were evaluated with the same examples."""
        return {split: results.pair(*self.both, split) for split in results.SPLITS}

    @cached_property
    def results(self) -> list[Row]:
        """A row per metric of each split, and rows with size and primary metric of each variant."""
        return results.compare(*self.both, self._pairs) + results.variants(*self.both)

    @cached_property
    def examples(self) -> Examples | None:
        """Test examples that are right in only one of the runs; None if the metric counts no examples."""
        return results.examples(self.after, self._pairs["test"])

    @property
    def verdict(self) -> str:
        """The comparison by the primary metric on the test split, as a sentence."""
        name = f"test/{self.after.metric}"
        row = next((row for row in self.results if row.name == name), None)
        if row is None:
            return "The runs have no common metric."
        metric = in_words(name)
        if row.difference == 0:
            return f"b is as good as a in {metric}: {row.verdict}."
        better = (row.difference > 0) == row.higher_is_better
        how, by = "better" if better else "worse", figure(abs(row.difference))
        if row.more_than_noise:
            return f"b is {how} than a by {by} in {metric}: {row.verdict}."
        return f"b is not shown to differ from a in {metric}, {how} by {by}: {row.verdict or 'not compared'}."

    def as_json(self) -> dict[str, Any]:
        """Return the whole comparison."""
        return {
            "verdict": self.verdict,
            "data": {**asdict(self.raw), "statistics": _texts(self.statistics)},
            "config": _texts(self.config),
            "code": {"versions": _texts(self.code), **(asdict(self.history) if self.history else {})},
            "environment": _texts(self.environment),
            "results": [row.as_json() for row in self.results],
            "examples": asdict(self.examples) if self.examples else None,
        }

    def lines(self) -> Iterator[str]:
        """Yield the comparison as text."""
        for name, facts in zip("ab", self.both, strict=True):
            yield f"{name}  {facts.run.run_id}  {facts.record['flow']}, {facts.record['status']}"
        yield self.verdict
        yield from self._data_lines()
        yield from _part("config", _texts(self.config))
        yield from _part("code", _texts(self.code))
        if self.history:
            yield from _part(f"  commits that only one has ({len(self.history.commits)})", self.history.commits, "    ")
            yield from _part(f"  files ({len(self.history.files)})", self.history.files, "    ")
        yield from _part("environment", _texts(self.environment))
        if self.results:
            longest = max(len(row.name) for row in self.results)
            yield f"results: {'':<{max(longest - 7, 0)}}{'a':>12}{'b':>12}{'b - a':>12}"
        for row in self.results:
            figures = f"{row.formatted(row.a):>12}{row.formatted(row.b):>12}{row.change:>12}"
            yield f"  {row.name:<{longest}}{figures}  {row.verdict}".rstrip()
        if self.examples:
            yield from _part("test examples", list(self.examples.lines(NAMED)))

    def _data_lines(self) -> Iterator[str]:
        raw = self.raw
        if not (raw.added or raw.removed or raw.changed or self.statistics):
            yield "data: the same"
            return
        yield f"data: {raw.same:,} {self.after.counted} are the same"
        for word, names in (("added", raw.added), ("removed", raw.removed), ("changed", raw.changed)):
            if names:
                yield f"  {len(names):,} {word}: {some(names, NAMED)}"
        yield from _part("  statistics", _texts(self.statistics), "    ")


def _part(title: str, lines: list[str], indent: str = "  ") -> Iterator[str]:
    if not lines:
        yield f"{title}: the same"
        return
    yield f"{title}:"
    yield from (f"{indent}{line}" for line in lines[:MOST])
    if len(lines) > MOST:
        yield f"{indent}and {len(lines) - MOST} more (--json and --html have all)"


def _texts(differences: list[Difference]) -> list[str]:
    return [str(difference) for difference in differences]


def _sources(facts: Facts) -> list[list[str]]:
    records = facts.one("records")
    sources: list[list[str]] = records.manifest["inputs"]["sources"] if records else []
    return sources


def _statistics(facts: Facts) -> dict[str, str]:
    """Return the statistics on the page of a run as a flat mapping."""
    data = sections.data(facts)
    if data is None:
        return {}
    statistics = {f"{split}: {facts.counted}": f"{count:,}" for split, count in data.splits.items()}
    for feature, rows, _ in data.balance:
        for name, counts in rows:
            for split, (count, _) in zip(data.splits, counts, strict=True):
                statistics[f"{split}: {feature} {name}"] = f"{count:,}"
    for feature, what, values in data.figures:
        for split, value in zip(data.splits, values, strict=True):
            statistics[f"{split}: {feature}, {what}"] = value
    return statistics


def _results(facts: Facts) -> Iterator[tuple[str, Artifact]]:
    """Yield stage and name, and the artifact, of each result that is in the store."""
    for row in facts.results:
        if row.digest in facts.named and row.kind != "release":
            what = row.stage if row.name == row.kind else f"{row.stage}.{row.name}"
            yield what, facts.named[row.digest]


def _commit(facts: Facts) -> str | None:
    """Return the commit that made the last result."""
    commits = [artifact.manifest["produced_by"]["git_commit"] for _, artifact in _results(facts)]
    return commits[-1] if commits else None


def _environment(facts: Facts) -> dict[str, str]:
    """Return packages, hosts and layouts by name; several values are joined by commas."""
    values_of: dict[str, set[str]] = {}
    for _, artifact in _results(facts):
        by = artifact.manifest["produced_by"]
        for name, value in {**by["packages"], "host": by["host"], **by["layout"]}.items():
            values_of.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in values_of.items()}


def render(comparison: Comparison) -> str:
    """Return the HTML of the page."""
    runs = {name: _points(facts) for name, facts in zip("ab", comparison.both, strict=True)}
    return run_page.page("comparison.html.j2", comparison=comparison, curves=charts.draw_both(runs))


def _points(facts: Facts) -> dict[str, charts.Points]:
    """Return the curves of the training of a run's model; of several seeds, that of the chosen one."""
    trained = trainings.trained(facts)
    model = next(iter(trained.values()), None) if facts.choice is None else trained.get(facts.choice.chosen)
    return {} if model is None else trainings.points_of(facts, model)
