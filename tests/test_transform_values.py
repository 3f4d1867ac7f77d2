"""What each kind of transform makes of a few values, worked out by hand: by the reader, and by its graph alike."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from tasks.errors import Failed
from tasks.reader import Reader, Unusable, cast, transform
from tasks.reader.function import FOLDER
from tasks.reader.log_mel import log_mel, mel_filters
from tasks.reader.numbers import bucketize
from tasks.reader.values import NO_TIME
from tasks.snapshots.fitting import TRANSFORMS, lay_out, target_names
from tasks.snapshots.transforms.categories import Vocabulary
from tasks.snapshots.transforms.function import Function
from tasks.snapshots.transforms.media import LogMel
from tasks.snapshots.transforms.numbers import Bucketize, Keep, Missing, Quantile
from tasks.snapshots.transforms.texts import HashWords, Words
from tasks.snapshots.transforms.times import TimeParts
from tasks.sources.features import Feature
from tests.support.tables import applied, feature

NAN = float("nan")
PLAIN = {"shape": [], "fill": -3.0, "indicator": False}
FILLED = {"shape": [], "fill": -3.0, "indicator": True}
ARRAY = {"shape": [2], "fill": [5.0, 7.0], "indicator": False}
RANKED = {"values": [0.0, 10.0, 30.0], "levels": [0.0, 0.5, 1.0]}
LEAP = 951_782_400_000_000 + 23 * 3_600_000_000
"""The 29th of February 2000, a Tuesday, at 23 o'clock."""


def bucket(text: str, buckets: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") % buckets


def circle(place: int, period: int) -> list[float]:
    return [math.sin(2 * math.pi * place / period), math.cos(2 * math.pi * place / period)]


MADE: dict[str, tuple[dict[str, Any], Any, list[Any]]] = {
    "standardise": ({"kind": "standardise", **PLAIN}, [2.0, NAN], [[2.0], [-3.0]]),
    "standardise, indicated": ({"kind": "standardise", **FILLED}, [2.0, NAN], [[2.0, 0.0], [-3.0, 1.0]]),
    "keep": ({"kind": "keep", **FILLED}, [0.0, NAN], [[0.0, 0.0], [-3.0, 1.0]]),
    "keep of an array": ({"kind": "keep", **ARRAY}, [[NAN, 1.0], [2.0, NAN]], [[5.0, 1.0], [2.0, 7.0]]),
    "log": (
        {"kind": "log", **FILLED},
        [math.e - 1, NAN, 0.0, -7.0],
        [[1.0, 0.0], [-math.log(4), 1.0], [0.0, 0.0], [-math.log(8), 0.0]],
    ),
    "uniform": (
        {"kind": "quantile", **FILLED, **RANKED, "output": "uniform"},
        [-1.0, 0.0, 5.0, 10.0, 25.0, 30.0, 31.0, NAN],
        [[0, 0], [0, 0], [0.25, 0], [0.5, 0], [0.875, 0], [1, 0], [1, 0], [0, 1]],
    ),
    # the standard normal distribution is below -5.1993 once in ten million times, and below 1.15035 in 7 of 8
    "normal": (
        {"kind": "quantile", **PLAIN, **RANKED, "output": "normal"},
        [-1.0, 10.0, 25.0, 99.0],
        [[-5.199338], [0.0], [1.150349], [5.199338]],
    ),
    "bucketize": (
        {"kind": "bucketize", "boundaries": [-1.0, 0.0, 2.5]},
        [-1.5, -1.0, 0.0, 2.4, 2.5, 1e9, NAN],
        [[1], [2], [3], [3], [4], [4], [0]],
    ),
    "vocabulary": (
        {"kind": "vocabulary", "values": ["b", "a", "zürich"]},
        ["a", "b", "zürich", "c", ""],
        [[3], [2], [4], [1], [0]],
    ),
    "vocabulary of none": ({"kind": "vocabulary", "values": []}, ["a", ""], [[1], [0]]),
    "hash": (
        {"kind": "hash", "buckets": 7},
        ["a", "Zürich", "", "x" * 129],
        [[1 + bucket("a", 7)], [1 + bucket("Zürich", 7)], [0], [1 + bucket("x" * 129, 7)]],
    ),
    "time_parts": (
        {
            "kind": "time_parts",
            "parts": ["hour", "weekday", "day", "month", "year"],
            "cyclical": False,
            "fill": [1.5, 2.5, 3.5, 4.5, 5.5],
            "indicator": True,
        },
        [LEAP, 0, -1, NO_TIME],
        [[23, 1, 29, 2, 2000, 0], [0, 3, 1, 1, 1970, 0], [23, 2, 31, 12, 1969, 0], [1.5, 2.5, 3.5, 4.5, 5.5, 1]],
    ),
    "time_parts on circles": (
        {
            "kind": "time_parts",
            "parts": ["year", "month", "day", "weekday", "hour"],
            "cyclical": True,
            "fill": list(range(9)),
            "indicator": False,
        },
        [LEAP, NO_TIME],
        [[2000, *circle(1, 12), *circle(28, 31), *circle(1, 7), *circle(23, 24)], list(range(9))],
    ),
    "bytes": (
        {"kind": "tokens", "method": "bytes", "length": 4, "lowercase": False, "dtype": "uint16"},
        ["aé", "ABCDE", "", "abcd"],
        [[98, 196, 170, 0], [66, 67, 68, 69], [0, 0, 0, 0], [98, 99, 100, 101]],
    ),
    "bytes in small letters": (
        {"kind": "tokens", "method": "bytes", "length": 3, "lowercase": True, "dtype": "uint16"},
        ["AbÉ"],
        [[98, 99, 196]],
    ),
    "words": (
        {"kind": "words", "values": ["The", "cat"], "length": 3, "lowercase": False, "dtype": "uint16"},
        [["The", "the", "cat", "The"], ["cat"], []],
        [[2, 1, 3], [3, 0, 0], [0, 0, 0]],
    ),
    "words in small letters": (
        {"kind": "words", "values": ["the"], "length": 2, "lowercase": True, "dtype": "uint16"},
        [["The", "THE"]],
        [[2, 2]],
    ),
    "counts of words": (
        {"kind": "hash_words", "output": "counts", "buckets": 1, "length": 1, "lowercase": True}
        | {"shape": [1], "dtype": "float32"},
        ["One, two (one)", "", "…"],
        [[3], [0], [0]],
    ),
    "ids of words": (
        {"kind": "hash_words", "output": "ids", "buckets": 50, "length": 3, "lowercase": False}
        | {"shape": [3], "dtype": "uint16"},
        ["One one-two three", "x"],
        [[1 + bucket(word, 50) for word in ("One", "one", "two")], [1 + bucket("x", 50), 0, 0]],
    ),
}


def typed(values: Any) -> Any:
    """Numbers as float32 and times as int64; texts and lists of words stay lists."""
    flat = values[0][0] if isinstance(values[0], list) and values[0] else values[0]
    return np.array(values, {float: np.float32, int: np.int64}[type(flat)]) if not isinstance(flat, str) else values


@pytest.mark.parametrize("name", MADE)
def test_the_reader_makes_of_values_what_the_transform_is_for(name: str) -> None:
    state, values, expected = MADE[name]
    found = transform(state, Path())(typed(values))
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, np.array(expected, found.dtype), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MADE)
def test_the_graph_makes_of_values_what_the_reader_does_or_says_why_there_is_none(name: str) -> None:
    state, values, expected = MADE[name]
    graph = TRANSFORMS[state["kind"]].graph([state])
    if isinstance(graph, str):
        assert state["kind"] in ("words", "hash_words") or state["lowercase"], "the others have operations"
        return
    raw = typed(values)
    number = isinstance(raw, np.ndarray) and raw.dtype == np.float32
    found = graph(tf.constant(raw.astype(np.float64) if number else raw)[:, None]).numpy()[:, 0]
    np.testing.assert_allclose(found, np.array(expected, found.dtype), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1e-40, -1e-40, 2.0**-126, -(2.0**-149), 0.0])
def test_a_tiny_number_has_in_the_graph_the_bits_of_the_reader(size: float) -> None:
    """TensorFlow takes a number below the smallest normal one for 0."""
    values = np.array([size], np.float32)
    state = {"kind": "keep", **PLAIN}
    [[made]] = Keep.graph([state])(tf.constant(values.astype(np.float64))[:, None]).numpy()
    assert made.tobytes() == values.tobytes()


def test_a_boundary_that_is_too_small_for_float32_parts_what_is_below_from_what_is_above() -> None:
    """Of the numbers of float32 only 0 is below 1e-60, and not above -1e-60."""
    numbers = [-1.0, 0.0, 2.0**-149, 1.0]
    for boundary, expected in ((1e-60, [1, 1, 2, 2]), (-1e-60, [1, 2, 2, 2]), (0.0, [1, 2, 2, 2])):
        state = {"kind": "bucketize", "boundaries": [boundary]}
        made = Bucketize.graph([state])(tf.constant(numbers, tf.float64)[:, None])
        read = bucketize(state, Path())(np.array(numbers, np.float32))
        assert made.numpy()[:, 0, 0].tolist() == read[:, 0].tolist() == expected, boundary


MISSING = np.array([1.0, NAN, 3.0], np.float32)
WHOLE = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.mark.parametrize(
    ("setting", "values", "indicated"),
    [("auto", MISSING, True), ("auto", WHOLE, False), (True, WHOLE, True), (False, MISSING, False)],
)
def test_a_missing_value_is_indicated_where_there_is_one_or_where_it_is_asked_for(
    setting: Any, values: np.ndarray, indicated: bool
) -> None:
    fitter = Keep(missing=Missing(fill="zero", indicator=setting)).fitter("x", feature("number"), Path())
    fitter.add(values, np.arange(3))
    made = fitter.fitted()
    assert made.feature["names"] == (["x", "x.missing"] if indicated else ["x"])
    assert made.feature["mean"] == [0.0] * len(made.feature["names"]), "the model takes it as it is"
    assert made.feature["variance"] == [1.0] * len(made.feature["names"])
    assert applied(made, values).shape == (3, 1 + indicated)
    times = TimeParts(parts=("year",), indicator=setting).fitter("t", feature("time"), Path())
    times.add(np.where(np.isnan(values), NO_TIME, 0).astype(np.int64), np.arange(3))
    of_times = times.fitted().feature
    assert of_times["names"] == (["t.year", "t.missing"] if indicated else ["t.year"])
    assert of_times["mean"] == [1970.0, 0.0][: 1 + indicated] and of_times["variance"] == [1.0, 1.0][: 1 + indicated]


def test_a_missing_number_is_filled_by_what_is_set() -> None:
    values = np.array([1.0, NAN, 2.0, 9.0, NAN], np.float32)
    fills: Any = (("mean", 4.0), ("median", 2.0), ("zero", 0.0), (-7.5, -7.5))
    for fill, expected in fills:
        fitter = Keep(missing=Missing(fill=fill)).fitter("x", feature("number"), Path())
        fitter.add(values, np.arange(5))
        assert fitter.fitted().state["fill"] == expected
    nothing = Keep(missing=Missing(fill="median")).fitter("x", feature("number"), Path())
    nothing.add(np.array([NAN], np.float32), np.arange(1))
    assert nothing.fitted().state["fill"] == 0.0


def test_ranks_are_not_standardised_and_their_ends_are_those_of_the_sample() -> None:
    fitter = Quantile(quantiles=3, output="uniform").fitter("x", feature("number"), Path())
    fitter.add(np.array([4.0, 0.0, 2.0, 2.0, 2.0, 8.0], np.float32), np.arange(6))
    made = fitter.fitted()
    assert (made.state["values"], made.state["levels"]) == ([0.0, 2.0, 8.0], [0.0, 0.5, 1.0])
    assert made.feature == {"names": ["x"], "mean": [0.0], "variance": [1.0]}


def test_ids_of_words_and_categories_fit_their_type() -> None:
    """65,534 words beside padding and the unknown one are the last that 16 bits hold."""
    for count, dtype in ((2**16 - 2, "uint16"), (2**16 - 1, "uint32")):
        fitter = Words(min_count=1, vocabulary=100_000).fitter("w", feature("words"), Path())
        fitter.add([[str(number) for number in range(count)]], np.arange(1))
        made = fitter.fitted()
        assert made.feature["dtype"] == made.state["dtype"] == dtype and made.feature["vocabulary"] == count + 2
    counted = HashWords(buckets=9).fitter("w", feature("text"), Path()).fitted()
    assert counted.feature == {"dtype": "float32", "shape": [9]}
    kept = HashWords(buckets=9, output="ids", length=4).fitter("w", feature("text"), Path()).fitted()
    assert kept.feature == {"dtype": "uint16", "shape": [4], "vocabulary": 10, "padding": 0}
    chosen = Vocabulary(size=4, min_count=1).fitter("c", feature("category"), Path())
    chosen.add(["a", "b", "b", "c"], np.arange(4))
    made = chosen.fitted()
    assert made.state["values"] == ["b", "a"] and made.feature["sizes"] == [4] and made.summary["size"] == 4
    assert made.summary["categories"] == 3 and made.summary["rare"] == 1 / 4


def test_a_spectrogram_is_measured_in_samples_of_its_rate() -> None:
    config = LogMel(rate=8000, seconds=0.5, window=0.02, hop=0.005, mels=12)
    state = config.fitter("sound", feature("audio"), Path()).fitted().state
    assert {key: state[key] for key in ("window", "hop", "samples", "rate", "seconds")} == {
        "window": 160,
        "hop": 40,
        "samples": 4000,
        "rate": 8000,
        "seconds": 0.5,
    }
    assert state["shape"] == [1 + (4000 - 160) // 40, 12]


@pytest.mark.parametrize(("window", "size"), [(200, 256), (256, 256), (257, 512)])
def test_the_power_of_a_window_is_that_of_the_next_power_of_two(window: int, size: int) -> None:
    state = {"shape": [1, 5], "window": window, "hop": 40, "samples": window, "rate": 8000, "seconds": window / 8000}
    tone = np.sin(np.arange(window) * 0.9)
    payload = io.BytesIO()
    soundfile.write(payload, tone, 8000, format="WAV", subtype="DOUBLE")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(window)) / size)
    spectrum = np.abs(turns @ (tone * hann)) ** 2
    bands = [(spectrum[low : low + len(of)] * of).sum() for low, of in mel_filters(5, size, 8000)]
    logarithm = np.log10(bands)
    expected = (np.maximum(logarithm, logarithm.max() - 8) + 4) / 4
    made = log_mel(state, Path())([payload.getvalue()])
    np.testing.assert_allclose(made[0, 0], expected, rtol=1e-5)


OWN = """
import numpy as np

def plain(values):
    return np.array([len(value) for value in values])

def pixels(values):
    return np.zeros((len(values), 2), np.uint8)

def numbers(values):
    return np.array([[len(value), 1.0] for value in values], np.float64)

def text(values):
    return np.array(["x"] * len(values))

def few(values):
    return np.zeros(len(values) - 1)

def wider(values):
    return np.zeros((len(values), len(values)))

def small(values):
    return np.ones(len(values), np.uint8)
"""


def fitted_by(name: str, folder: Path, *batches: list[str]) -> Any:
    """The transform of an own function after these batches; its code is in `folder`, in a module of its own."""
    module = f"own_{folder.name.replace('-', '_')}"
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / f"{module}.py").write_text(OWN)
    fitter = Function(function=f"{module}:{name}").fitter("c", feature("text"), folder)
    for batch in batches:
        fitter.add(batch, np.arange(len(batch)))
    return fitter.fitted()


def test_a_result_of_an_own_function_keeps_its_type_where_it_is_an_array_of_small_whole_numbers(tmp_path: Path) -> None:
    plain = fitted_by("plain", tmp_path, ["a", "abc"], ["ab"])
    assert plain.feature == {"names": ["c"], "mean": [2.0], "variance": [pytest.approx(2 / 3)]}
    assert plain.state["dtype"] == fitted_by("small", tmp_path, ["a", "b"]).state["dtype"] == "float32"
    pixels = fitted_by("pixels", tmp_path, ["a", "b"])
    assert pixels.feature == {"dtype": "uint8", "shape": [2]} == {key: pixels.state[key] for key in pixels.feature}
    numbers = fitted_by("numbers", tmp_path, ["a", "abc"])
    assert numbers.feature == {"dtype": "float32", "shape": [2], "mean": [2.0, 1.0], "variance": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("name", "batches"), [("text", [["a"]]), ("few", [["a", "b"]]), ("wider", [["a"], ["a", "b"]])]
)
def test_what_an_own_function_must_not_return_is_refused(name: str, batches: list[list[str]], tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        fitted_by(name, tmp_path, *batches)
    assert failed.value.field == "snapshot.transforms.c"


def test_columns_share_arrays_in_the_order_of_their_names_and_are_described_as_they_are_read() -> None:
    features = {
        "zip": feature("category"),
        "age": feature("number"),
        "grid": feature("number", shape=(2, 3)),
        "b": feature("number", role="target"),
        "a": feature("number", role="target", shape=(2,)),
    }
    fitters: dict[str, Any] = {
        "zip": Vocabulary(min_count=1).fitter("zip", features["zip"], Path()),
        "age": Keep().fitter("age", features["age"], Path()),
        "grid": Keep().fitter("grid", features["grid"], Path()),
    }
    fitters["zip"].add(["x", "y"], np.arange(2))
    fitters["age"].add(np.array([1.0, NAN], np.float32), np.arange(2))
    fitters["grid"].add(np.zeros((2, 2, 3), np.float32), np.arange(2))
    source = {"kind": "csv", "label": None, "targets": ["b", "a"], "missing": ["?"], "header": ["zip", "age"]}
    form = {"encoding": "latin-1", "delimiter": ";", "quote": "'", "escape": "\\"}
    made = lay_out(features, {name: fitter.fitted() for name, fitter in fitters.items()}, source | form)
    assert made.description["csv"] == {**form, "header": ["zip", "age"], "outputs": ["b", "a"]}
    assert made.description["missing"] == ["?"] and made.description["targets"] == ["a.0", "a.1", "b"]
    places = {place["column"]: place for place in made.description["layout"]}
    assert [place["column"] for place in made.description["layout"]] == ["age", "grid", "zip"]
    assert (places["age"]["start"], places["age"]["stop"]) == (0, 2) and "start" not in places["grid"]
    assert (places["zip"]["start"], places["zip"]["stop"]) == (0, 1)
    assert made.features["grid"]["shape"] == [2, 3] and list(made.features) == sorted(made.features)
    reader = Reader(made.description, Path())
    assert reader.columns == {"age": "number", "grid": "number[2, 3]", "zip": "category"}
    rows = [{"zip": "y", "age": "?", "grid": [[1, 2, 3], [4, 5, 6]]}, {"zip": "?", "age": "7", "grid": [[0] * 3] * 2}]
    found = reader(rows)
    numbers, categories = (places[name]["array"] for name in ("age", "zip"))
    assert found[numbers].tolist() == [[1.0, 1.0], [7.0, 0.0]] and found[categories].tolist() == [[3], [0]]
    assert found["grid"][0].tolist() == [[1, 2, 3], [4, 5, 6]]
    for row, column in (
        ({"zip": "y", "age": "1"}, "grid"),
        ({**rows[0], "age": "x"}, "age"),
        ({**rows[0], "grid": 1}, "grid"),
    ):
        with pytest.raises(Unusable) as unusable:
            reader([rows[1], row])
        assert (unusable.value.row, unusable.value.column) == (1, column)
    plain = lay_out(features, {name: fitter.fitted() for name, fitter in fitters.items()}, {"kind": "jsonl"})
    assert plain.description["csv"] is None and plain.description["missing"] == []


def test_values_of_a_target_have_names_of_their_own_or_of_their_column_and_place() -> None:
    targets = {
        "b": Feature("number", "float32", role="target"),
        "c": Feature("number", "float32", role="target", shape=(2,)),
        "a": Feature("number", "float32", role="target", shape=(2,), names=("left", "right")),
    }
    assert target_names(targets) == ["left", "right", "b", "c.0", "c.1"]


@pytest.mark.parametrize(
    ("value", "saw"),
    [
        (b"abc", "3 bytes"),
        (bytearray(2), "2 bytes"),
        ("x" * 78, repr("x" * 78)),
        ("x" * 79, f"'{'x' * 76}..."),
        ([1], "[1]"),
    ],
)
def test_a_value_that_cannot_be_used_is_shown_in_a_line(value: Any, saw: str) -> None:
    with pytest.raises(Unusable) as unusable:
        cast.column([1.0, value], "number")
    assert (unusable.value.row, unusable.value.saw) == (1, saw)


NO_TEXTS: list[Any] = [b"\xff", {}, datetime.datetime(2024, 5, 31), decimal.Decimal("NaN"), "\ud800"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((value, None) for value in NO_TEXTS),
        (True, "true"),
        (np.bool_(False), "false"),
        (np.int8(-3), "-3"),
        (2.50, "2.5"),
        (decimal.Decimal("1.10"), "1.10"),
        (datetime.date(2024, 5, 31), "2024-05-31"),
        (b"\xc3\xbc", "ü"),
        (None, ""),
    ],
)
def test_a_text_is_one_of_the_values_that_can_be_written_as_one(value: Any, text: str | None) -> None:
    if text is not None:
        assert cast.column([value], "text") == [text]
        return
    with pytest.raises(Unusable):
        cast.column([value], "text")


@pytest.mark.parametrize("path", ["a\0b", "nowhere.png", "."])
def test_a_path_that_cannot_be_read_is_a_value_that_cannot_be_used(path: str, tmp_path: Path) -> None:
    with pytest.raises(Unusable):
        cast.column([path], "image", folder=tmp_path)


def test_a_function_that_saw_no_row_makes_one_number_of_each(tmp_path: Path) -> None:
    assert fitted_by("plain", tmp_path).state["shape"] == []
