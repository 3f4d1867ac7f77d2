"""The front of the variants: which one dominates another, which is chosen, and the picture."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.compression.config import WantConfig
from tasks.compression.judgement import FrontEntry, choose, dominated_by, missed
from tasks.config.base import size_in_bytes
from tasks.config.compose import Config, validate
from tasks.errors import Refused
from tasks.view import charts

few = st.integers(1, 4)
points = st.lists(st.tuples(few, few, few, st.booleans()), min_size=1, max_size=8).map(
    lambda rows: [
        FrontEntry(f"v{number}", size, loss / 100, latency / 4, accepted)
        for number, (size, loss, latency, accepted) in enumerate(rows)
    ]
)
A, B, C = (FrontEntry("a", 100, 0.02, 0.5), FrontEntry("b", 200, 0.0, 0.4), FrontEntry("c", 200, 0.02, 0.5))


def test_what_is_nowhere_better_and_somewhere_worse_is_dominated() -> None:
    assert dominated_by([A, B, C]) == {"a": None, "b": None, "c": "a"}
    rejected = FrontEntry("a", 100, 0.02, 0.5, accepted=False)
    assert dominated_by([rejected, B, C]) == {"a": None, "b": None, "c": "b"}, "what is rejected dominates nothing"
    behind = FrontEntry("d", 300, 0.02, 0.5)
    assert dominated_by([rejected, C, behind]) == {"a": None, "c": None, "d": "c"}, (
        "nor does it push others off the front"
    )
    twice = FrontEntry("d", 200, 0.02, 0.5)
    assert dominated_by([C, twice]) == {"c": None, "d": None}, "two that are equal"


@given(points)
def test_the_front_is_what_nothing_dominates_and_dominates_all_else(variants: list[FrontEntry]) -> None:
    found = dominated_by(variants)
    by_name = {point.name: point for point in variants}
    front = [point for point in variants if point.accepted and found[point.name] is None]
    assert bool(front) == any(point.accepted for point in variants)
    for point in variants:
        beaten = [other for other in variants if other.accepted and other.dominates(point)]
        assert (found[point.name] is None) == (not beaten)
        if (name := found[point.name]) is not None:
            assert by_name[name] in front and by_name[name].dominates(point)
    for one in front:
        assert not one.dominates(one)
        assert not any(one.dominates(other) for other in front)


@given(points, st.tuples(*[st.none() | few] * 3).filter(any))
def test_the_choice_meets_all_limits_and_is_the_smallest_on_the_front(
    variants: list[FrontEntry], limits: tuple[int | None, ...]
) -> None:
    size, loss, latency = limits
    want = WantConfig(
        bytes=size, quality_loss=None if loss is None else loss / 100, latency=None if latency is None else latency / 4
    )
    chosen = choose(variants, want)
    meeting = [point for point in variants if point.accepted and not point.misses(want)]
    assert (chosen is None) == (not meeting)
    if chosen is not None:
        assert chosen.bytes == min(point.bytes for point in meeting)
        assert dominated_by(variants)[chosen.name] is None


def test_a_missed_want_names_for_each_variant_what_it_misses() -> None:
    want = WantConfig(bytes=150, quality_loss=0.01)
    assert choose([A, B], want) is None
    text = missed([A, B], want, {"b": "loses at least 0.1"})
    assert text == "a: quality_loss 0.02 of at most 0.01; b: bytes 200 of at most 150, loses at least 0.1"
    assert missed([], want, {}) == "no LiteRT file was made", "as by a search that found nothing"
    assert FrontEntry("d", 402_780, 0.0, 1.0).misses(WantConfig(bytes=10_000)) == ["bytes 402,780 of at most 10,000"]
    assert FrontEntry("d", 1, 0.0, None).misses(WantConfig(latency=1.0)) == ["latency not measured of at most 1"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("2MB", 2_000_000), ("500kB", 500_000), ("1.5 MiB", 1_572_864), ("7B", 7), (12, 12), ("3GB", 3 * 10**9)],
)
def test_sizes_are_numbers_or_have_a_unit(text: Any, size: int) -> None:
    assert WantConfig(bytes=text).bytes == size


@pytest.mark.parametrize("text", ["2", "MB", "2mb", "-1MB", "0B", "nanMB", "1e30GB", "", "2 M B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="; write a"):
        size_in_bytes(text)
    base = {"name": "a", "train": {"steps": 1}, "compress": {"want": {"bytes": text}}}
    with pytest.raises(Refused, match=r"compress\.want\.bytes"):
        validate(base)


def test_an_empty_want_is_refused() -> None:
    with pytest.raises(ValidationError, match="wants nothing"):
        WantConfig()
    assert Config.model_validate({"name": "a", "train": {"steps": 1}}).compress.want is None


def test_the_picture_shows_every_variant_the_front_and_what_is_rejected() -> None:
    rejected = FrontEntry("<d>", 50, 0.3, 2.0, accepted=False)
    given_points = [A, B, C, rejected]
    found = dominated_by(given_points)
    rows = {each.name: replace(each, dominated_by=found[each.name]) for each in given_points}
    svg = charts.front(rows, "accuracy")
    assert svg.count("<circle") == 4 and svg.count('class="dot c0"') == 2 and "&lt;d&gt;" in svg and "<d>" not in svg
    centres = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert centres[0][0] < centres[1][0] and centres[0][1] < centres[1][1], "smaller is left, and a loss is up"
    radii = [float(radius) for radius in re.findall(r' r="([\d.]+)"', svg)]
    assert radii[3] == max(radii) and radii[1] == min(radii), "the slowest is the largest"
    assert charts.front({"a": rows["a"]}, "accuracy") == ""
