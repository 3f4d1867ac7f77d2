"""Metrics where they are easily wrong: queries of one document, entities side by side, channels of an image."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.probes import PROBES
from tasks.evaluation.robustness import draws_of
from tasks.evaluation.tasks.ranking import METRICS, Predictions, RankingJudge
from tasks.evaluation.tasks.tagging import scheme_of

CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def conlleval(tags: list[str]) -> list[tuple[int, int, str]]:
    """Entities as the script of CoNLL finds them: (start, stop, type)."""
    found, begun = [], None
    for place, tag in enumerate([*tags, "O"]):
        kind = tag[2:]
        goes_on = tag.startswith("I-") and begun is not None and begun[1] == kind
        if begun is not None and not goes_on:
            found.append((begun[0], place, begun[1]))
            begun = None
        if tag != "O" and not goes_on:
            begun = (place, kind)
    return found


@given(st.lists(st.lists(st.sampled_from(range(-1, 5)), min_size=7, max_size=7), min_size=1, max_size=5))
def test_entities_are_those_of_conlleval(rows: list[list[int]]) -> None:
    scheme = scheme_of(CLASSES)
    assert scheme is not None
    made = scheme.entities(np.array(rows))
    listed = [
        (row, start, stop, scheme.types[kind])
        for row, start, stop, kind in zip(made.row, made.start, made.stop, made.type, strict=True)
    ]
    assert listed == [
        (number, *each) for number, row in enumerate(rows) for each in conlleval([CLASSES[max(tag, 0)] for tag in row])
    ]


def test_two_entities_of_one_type_side_by_side_are_two() -> None:
    scheme = scheme_of(CLASSES)
    assert scheme is not None
    made = scheme.entities(np.array([[1, 1, 2, 0, 3, 1]]))
    assert list(zip(made.start.tolist(), made.stop.tolist(), strict=True)) == [(0, 1), (1, 3), (4, 5), (5, 6)]
    whole = scheme.entities(np.array([[1, 2, 2, 0, 3, 1]]))
    assert scheme.found(whole, made, (1, 6)).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("queries", "relevant", "judged"),
    [
        ("aabbb", [1, 0, 0, 1, 0], [0, 0, 1, 1, 1]),
        ("abbb", [1, 0, 1, 0], [-1, 0, 0, 0]),  # one document has no order, a relevant one neither
        ("aabb", [0, 0, 1, 0], [-1, -1, 0, 0]),
        ("abb", [0, 1, 1], [-1, 0, 0]),
        ("bab", [1, 1, 0], [0, -1, 0]),
    ],
)
def test_a_query_is_judged_where_there_is_an_order(queries: str, relevant: list[int], judged: list[int]) -> None:
    judge = ranked(queries, relevant)
    assert judge.query.tolist() == judged
    assert (judge.examples, judge.left_out) == (max(judged) + 1, len(set(queries)) - max(judged) - 1)


@pytest.mark.parametrize(("queries", "relevant"), [("ab", [1, 1]), ("aabb", [0, 0, 0, 0]), ("abb", [1, 0, 0])])
def test_without_any_order_there_is_nothing_to_judge(queries: str, relevant: list[int]) -> None:
    with pytest.raises(Failed, match="has a relevant document and another one"):
        ranked(queries, relevant)


def ranked(queries: str, relevant: list[int]) -> RankingJudge:
    target = np.array(relevant, np.float32)[:, None]
    split: Any = SimpleNamespace(
        name="test",
        features={"target": {"names": ["relevant"]}, "numbers": {"dtype": "float32", "shape": [1]}},
        arrays={"target": target, "numbers": target},
        queries=lambda: np.array(list(queries)),
        count=len(queries),
    )
    return RankingJudge(split, EvaluateConfig(), "binary_cross_entropy")


def test_rows_that_are_left_out_count_in_no_metric() -> None:
    logits, truth = np.array([[9.0], [1], [2], [0]]), np.array([[1.0], [1], [0], [0]])
    with_one = Predictions(logits, truth, np.array([-1, 0, 0, 0]), at=3)
    without = Predictions(logits[1:], truth[1:], np.zeros(3, np.int64), at=3)
    for metric in METRICS.values():
        assert metric(with_one) == metric(without)


def test_contrast_is_towards_the_mean_of_the_image_and_not_of_a_channel() -> None:
    image = np.zeros((1, 4, 4, 3), np.uint8)
    image[..., 0], image[..., 1] = 240, 120
    grey = PROBES["contrast"](factor=0.0).change(image, draws_of(0, 0, np.arange(1)), {})  # type: ignore[call-arg]
    assert (grey == 120).all()
    half = PROBES["contrast"](factor=0.5).change(image, draws_of(0, 0, np.arange(1)), {})  # type: ignore[call-arg]
    assert half[0, 0, 0].tolist() == [180, 120, 60]
