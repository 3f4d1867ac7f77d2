"""The spans of a backfill, and the values of each."""

from __future__ import annotations

import itertools

import pytest

from flows.commands.backfill import filled, span_name, spans
from tasks.config.compose import load
from tasks.errors import Refused
from tests.support.homes import DIGITS


def test_spans_are_whole_and_in_order() -> None:
    all_spans = spans("2026-02-27", "2026-03-02", "1d")
    assert [span_name(begin) for begin, _ in all_spans] == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(all_spans))
    assert [span_name(begin) for begin, _ in spans("2026-01-01T06:00", "2026-01-01T18:00", "6h")] == [
        "2026-01-01T06:00",
        "2026-01-01T12:00",
    ]


@pytest.mark.parametrize(
    ("since", "until", "every", "field"),
    [
        ("yesterday", "2026-01-02", "1d", "--since"),
        ("2026-01-02", "2026-01-02", "1d", "--until"),
        ("2026-01-01", "2026-01-02T12:00", "1d", "--until"),
        ("2026-01-01", "2126-01-01", "7d", "--until"),
        ("2026-01-01", "2026-01-02", "1x", "--every"),
        ("2000-01-01", "2026-01-01", "1h", "--until"),
    ],
)
def test_a_wrong_span_is_refused_by_name(since: str, until: str, every: str, field: str) -> None:
    with pytest.raises(Refused) as refused:
        spans(since, until, every)
    assert refused.value.field == field


def test_values_differ_by_span_and_are_checked_against_the_config() -> None:
    parameters = {"config": load(DIGITS).model_dump(mode="json")}
    [span] = spans("2026-03-09", "2026-03-10", "1d")
    config = filled(parameters, [("records.split_seed", "{begin:%Y%m%d}"), ("name", "d_{end:%j}")], span)
    assert config["records"]["split_seed"] == 20260309 and config["name"] == "d_069"
    assert parameters["config"] == load(DIGITS).model_dump(mode="json")
    for text in ("{week}", "{begin.nothing}", "{0}", "{begin"):
        with pytest.raises(Refused) as refused:
            filled(parameters, [("name", text)], span)
        assert refused.value.field == "--name"
    with pytest.raises(Refused, match="records.split_seed"):
        filled(parameters, [("records.split_seed", "s{begin:%d}")], span)
