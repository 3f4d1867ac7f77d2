"""The variants of a run: size, quality, latency and verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from tasks.artifacts import Artifact
from tasks.compression.judgement import Judgement, QualityLoss, SliceLoss, slowest_of
from tasks.evaluation.gates import Verdict
from tasks.exporting import LITERT
from tasks.view import change, in_words, kilobytes, speed
from tasks.view.facts import Facts, measurements
from tasks.view.words import size_of_float, span


@dataclass(frozen=True)
class Speed:
    """The time of a call as a share of the float LiteRT file's, and its percentiles in milliseconds."""

    ratio: float
    p50: float
    p90: float
    p99: float
    joules: float | None = None

    @property
    def took(self) -> str:
        """The percentiles, and the energy of a call."""
        joules = "" if self.joules is None else f", {1000 * self.joules:.3g} mJ"
        return " / ".join(map(_took, (self.p50, self.p90, self.p99))) + joules


def _took(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds >= 0.1 else f"{1000 * milliseconds:.3g} µs"


@dataclass(frozen=True)
class Setting:
    """The variants with one batch size and number of threads."""

    batch: int
    threads: int
    variants: Mapping[str, Speed] = field(default_factory=dict)
    again: float = 1.0
    """The float LiteRT file relative to itself."""
    conclusive: bool = True

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True)
class Latency:
    """What `tasks.exporting.latency.measure` found."""

    settings: tuple[Setting, ...] = ()
    shared_threads: Mapping[str, int] = field(default_factory=dict)
    energy: str | None = None
    """Why no energy was measured."""
    peak_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A variant in words; what was not measured is empty or None."""

    name: str
    bytes: str
    gzip: str
    of_float: str
    """Its size as a share of the float file's."""
    score: tuple[str, str] | None
    """The primary metric, and its interval."""
    loss: float | None
    """Of quality, against the float model."""
    bound: float | None
    """The upper end of its interval."""
    compressed: bool
    speed: float | None
    """Time of a call by the judgement."""
    slowest: float | None
    """Time of a call at the slower batch size, as it was measured."""
    calls: list[Speed | None]
    """In each setting."""
    memory: str
    gates: tuple[Verdict, ...]
    standing: str
    place: str

    def cells(self, metric: str) -> tuple[str, ...]:
        """Return name, size, size of float, quality with its loss, latency, and how it stands."""
        lost = f" ({change(self.loss)})" if self.loss is not None and self.compressed else ""
        score = f"{in_words(metric)} {self.score[0]}{lost}" if self.score else ""
        beside = "" if self.speed is None or self.name == LITERT else speed(self.speed)
        took = beside and f"{beside} {'as' if beside == 'as fast' else 'than'} {LITERT}"
        standing = ", ".join(filter(None, (self.standing, self.place)))
        return self.name, self.bytes, self.of_float, score, took, standing


def row(variant: Artifact, judged: Judgement, metric: str, latency: Latency) -> Row:
    """Return a variant in words; `metric` is the primary one of the task."""
    name, statistics, metrics = variant.name, variant.manifest["statistics"], variant.metrics
    point, slowest, peak = judged.front.get(name), slowest_of(name, asdict(latency)), latency.peak_bytes.get(name)
    return Row(
        name=name,
        bytes=kilobytes(statistics["bytes"]),
        gzip=f"{kilobytes(statistics['gzip_bytes'])} after gzip" if "gzip_bytes" in statistics else "",
        of_float=size_of_float(name, metrics),
        score=span(metrics, f"{name}/test/{metric}"),
        loss=metrics.get(f"{name}/test/{metric}_loss"),
        bound=metrics.get(f"{name}/test/{metric}_loss/high"),
        compressed=bool(statistics.get("methods")),
        speed=None if point is None else point.latency,
        slowest=None if slowest is None else slowest.value,
        calls=[setting.variants.get(name) for setting in latency.settings],
        memory="" if peak is None else kilobytes(peak),
        gates=judged.verdicts.get(name, ()),
        standing=judged.words(name),
        place=judged.place(name),
    )


def rows(facts: Facts, latency: Latency) -> list[Row]:
    """Return the variants of a run in words."""
    return [row(variant, facts.judgement, facts.metric, latency) for variant in facts.variants]


def lines(facts: Facts) -> Iterator[str]:
    """Yield a line for each variant."""
    cells = [each.cells(facts.metric) for each in rows(facts, Latency())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for each in cells:
        padded = [f"{text:{'>' if n == 1 else '<'}{widths[n]}}" for n, text in enumerate(each[:5]) if widths[n]]
        yield "  ".join([*padded, each[5]]).rstrip()


def latency_of(facts: Facts) -> Latency:
    """Return the latencies measured by this run, or by the run that made the variants."""
    for folder in [facts.run.folder, *(facts.maker(variant) for variant in facts.variants)]:
        if facts.variants and folder and (latency := measurements(folder).get("latency")):
            return TypeAdapter(Latency).validate_python(latency)
    return Latency()


def losses_by_slice(slices: Mapping[str, tuple[SliceLoss, ...]]) -> list[tuple[str, int, list[QualityLoss | None]]]:
    """Return the name of each slice, its examples, and what each compressed variant loses on it; None without it."""
    of = [{each.slice: each.loss for each in rows} for rows in slices.values()]
    examples = {each.slice: each.examples for rows in slices.values() for each in rows}
    return [(name, count, [each.get(name) for each in of]) for name, count in examples.items()]
