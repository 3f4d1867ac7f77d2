"""How people write cells: what `millrace init` recognises, and what records and exports read, by one reader."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.config.sources.formats import CellFormat
from tasks.config.sources.tables import CsvSource
from tasks.data import cells
from tasks.data.features import Feature
from tasks.data.guess import Choices, guess_source
from tasks.data.guess.column import look
from tasks.data.kinds.number import fall_together
from tasks.data.reader import cast
from tasks.data.reader.formats import Dates, Lists, Numbers
from tasks.errors import Refused

NUMBER, TIME = Feature("number", "float32"), Feature("time", "int64")


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("texts", "state", "first"),
    [
        (["$1,200.00", "$30.50", "$-5.00"], {"thousands": ",", "unit": "$"}, "1200.00"),
        (["-$1,200.00", "$7"], {"thousands": ",", "unit": "$"}, "-1200.00"),
        (["45%", "7%"], {"unit": "%"}, "45"),
        (["5 kg", "3.5 kg"], {"unit": "kg"}, "5"),
        (["3 sq ft", "12 sq ft"], {"unit": "sq ft"}, "3"),
        (["EUR 5", "EUR 1,000"], {"thousands": ",", "unit": "EUR"}, "5"),
        (["1.234,56", "7,5"], {"decimal": ",", "thousands": "."}, "1234.56"),
        (["12,5", "0,123"], {"decimal": ","}, "12.5"),
        (["1,870", "45", "912"], {"thousands": ","}, "1870"),
        (["1,870", "2500"], {"decimal": ","}, "1.870"),
        (["12,34,567", "1,000"], {"thousands": ","}, "1234567"),
        (["1 234,5", "12 345"], {"decimal": ",", "thousands": " "}, "1234.5"),
        (["\u22125 m", "2 m"], {"unit": "m"}, "-5"),
    ],
)
def test_numbers_as_people_write_them(texts: list[str], state: dict[str, str], first: str) -> None:
    [form] = Numbers.recognise(texts)
    assert form.state() == state and form.read(texts[0]) == first


@pytest.mark.parametrize(
    "texts", [["A12", "A13"], ["Room 5", "Room 6"], ["5 kg", "3 lb"], ["007 m", "12 m"], ["1,2,3"]]
)
def test_names_codes_and_several_units_are_no_numbers(texts: list[str]) -> None:
    assert Numbers.recognise(texts) == []


@pytest.mark.parametrize(
    ("texts", "dates", "first"),
    [
        (["2022-01-01 08:30:05 UTC"], ["%Y-%m-%d %H:%M:%S UTC"], "2022-01-01T08:30:05"),
        (["13/01/2022", "02/03/2022"], ["%d/%m/%Y"], "2022-01-13T00:00:00"),
        (["01/13/2022 08:30"], ["%m/%d/%Y %H:%M"], "2022-01-13T08:30:00"),
        (["05-Jan-22"], ["%d-%b-%y"], "2022-01-05T00:00:00"),
        (["31.12.2019"], ["%d.%m.%Y"], "2019-12-31T00:00:00"),
        (["12:51 AM", "1:03 PM"], ["%I:%M %p"], "1900-01-01T00:51:00"),
        (["11/1/16", "1/30/16"], ["%m/%d/%y"], "2016-11-01T00:00:00"),
        (["1973-01"], ["%Y-%m"], "1973-01-01T00:00:00"),
        (["01/02/2022", "03/04/2022"], ["%d/%m/%Y", "%m/%d/%Y"], "2022-02-01T00:00:00"),
        (["1.2.3", "4.5.6"], [], ""),
    ],
)
def test_dates_as_people_write_them(texts: list[str], dates: list[str], first: str) -> None:
    forms = Dates.recognise(texts)
    assert [form.state()["date"] for form in forms] == dates
    assert not forms or forms[0].read(texts[0]) == first


def test_several_values_of_a_cell() -> None:
    texts = ["a|b", "b|c", "a", "c|a"]
    assert [form.state() for form in Lists.recognise(texts)] == [{"separator": "|"}]
    assert [form.state() for form in Lists.recognise(["['a', 'b']", "['c']", "[]"])] == [{"separator": ","}]
    assert Lists(",").read("['a', \"b c\"]") == ["a", "b c"]
    for others in (["smith, john", "doe, jane", "roe, mary"], ["one two", "three"], ["a|a", "b|b"]):
        assert Lists.recognise(others) == []


@pytest.mark.parametrize(
    ("feature", "given", "texts"),
    [
        (NUMBER, {"unit": "$", "thousands": ","}, ["$1,234.5", " $7 ", "NA", "", "$-2"]),
        (NUMBER, {"decimal": ",", "missing": ["-", "-999"]}, ["1,5", "-", "-999,0", "2"]),
        (NUMBER, {"offset": 1.7e12}, ["1700000000001", "1700000000002", "1700003600000"]),
        (NUMBER, {"missing": ["-9999"]}, ["-9999.0", "1", "2"]),
        (TIME, {"date": "%d/%m/%Y"}, ["13/01/2022", "NA", "01/02/2022"]),
    ],
)
def test_records_and_exports_read_the_same(feature: Feature, given: dict[str, Any], texts: list[str]) -> None:
    state = CellFormat.model_validate(given).state()
    written = Feature(feature.kind, feature.dtype, format=state)
    typed = cells.typed(written, pa.array(texts), 0)
    assert not typed.bad
    alone = cast.column(texts, feature.kind, written=state)
    np.testing.assert_array_equal(np.asarray(typed.values), alone)
    if state["kind"] in ("numbers", "plain") and "unit" not in given and "decimal" not in given:
        numbers = cells.typed(written, pa.array([float(text) for text in texts]), 0)
        np.testing.assert_array_equal(np.asarray(numbers.values), alone)


def test_a_cell_of_another_form_is_bad_by_its_rule() -> None:
    number = Feature("number", "float32", format={"kind": "numbers", "unit": "kg"})
    [reason] = cells.typed(number, pa.array(["5 kg", "3 lb"]), 0).bad.values()
    assert reason == "'3 lb' must be a number such as 1234.5 kg"
    with pytest.raises(
        ValueError, match=r"'31/12/2022'; must be a date or time of the form %m/%d/%Y, such as 05/31/2024"
    ):
        cast.column(["31/12/2022"], "time", written={"kind": "dates", "date": "%m/%d/%Y"})


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, "a format says how cells are written"),
        ({"date": "%d", "unit": "$"}, "unit.*is no part of the format of dates"),
        ({"date": "%Q"}, "date.*is no form of dates that Python reads"),
        ({"date": "today"}, "names no part of a date"),
        ({"thousands": ".", "unit": "%"}, "differs from the decimal sign"),
    ],
)
def test_a_format_says_one_thing(given: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=refused):
        CellFormat.model_validate(given)


def test_numbers_that_float32_cannot_tell_apart_are_no_copies_and_get_an_offset() -> None:
    seconds = 1_700_000_000 + np.arange(600.0)
    assert fall_together(seconds).sum() == 600 - len(np.unique(seconds.astype(np.float32)))
    infinite = np.asarray([np.inf, -np.inf, 1e39, np.inf, np.nan, np.nan, 1e40, 7.0, 7.0])
    assert not fall_together(infinite).any(), "equal numbers are copies, and those beyond float32 are refused"
    assert fall_together(np.empty(0)).tolist() == []
    column = look(pa.array(seconds), Path())
    assert column.format == {"offset": 1_700_000_000.0}
    [worry] = column.worries
    assert "fall together in float32" in worry and "none do" in worry and "seconds since 1970" in worry
    typed = cells.typed(NUMBER, pa.array(seconds), 0)
    assert len({bytes(value.as_buffer()) for value in typed.exact[0]}) == 600, "copies are found by what was read"
    assert look(pa.array([0.1, 0.2, 0.3]), Path()).worries == ()


def test_the_largest_float32_by_its_shortest_text_is_a_number_and_likely_none() -> None:
    texts = ["3.4028235e+38"] * 4 + [str(number) for number in range(50)]
    assert not cells.typed(NUMBER, pa.array(texts), 0).bad
    assert cast.number("3.4028235e+38") and np.isfinite(np.float32(cast.number("3.4028235e+38")))
    assert look(pa.array(texts), Path()).format == {"missing": ["3.4028235e+38"]}
    far = look(pa.array([float(number) for number in range(50)] + [99999.0] * 3), Path())
    assert far.format is None and 'source.formats: {COLUMN: {missing: ["99999"]}}' in far.worries[0]
    below = look(pa.array([float(number) for number in range(50)] + [-9999.0] * 3), Path())
    assert below.format == {"missing": ["-9999"]}


def test_few_cells_among_numbers_stand_for_a_missing_one(tmp_path: Path) -> None:
    rows = [
        {"wind": "Calm" if n % 9 == 0 else n / 10, "rain": "?" if n % 7 == 0 else n % 11 / 2, "zip": f"{n % 40:05d}"}
        | {"label": "ab"[n % 2]}
        for n in range(200)
    ]
    guess = guess_source(table(tmp_path / "t.csv", rows))
    assert guess.columns.types == {"wind": "number", "rain": "number", "zip": "category", "label": "category"}
    assert guess.source["missing"][-1] == "?" and guess.source["formats"] == {"wind": {"missing": ["Calm"]}}
    said = "\n".join(guess.said)
    assert "wind: Calm in 23 rows is read as missing" in said and "rain: ? in 29 rows is read as missing" in said
    assert "zip: category, as 00000 begins with 0, which a number does not" in said


def test_a_first_line_with_a_number_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "flowers.csv"
    path.write_text("".join(f"{n % 7}.5,{n % 5},{['aster', 'rose'][n % 2]}\n" for n in range(100)))
    guess = guess_source(path)
    assert guess.examples == 100 and guess.source["header"] == ["column0", "column1", "column2"]
    assert guess.counts == {"aster": 50, "rose": 50}
    letters = tmp_path / "letters.csv"
    letters.write_text("".join(f"{'xyz'[n % 3]},{'pq'[n % 2]},{'ab'[n % 2]}\n" for n in range(60)))
    assert guess_source(letters).source["header"] == ["column0", "column1", "column2"]


def test_classes_are_called_by_one_name(tmp_path: Path) -> None:
    names = ["yes", "yes ", "Yes", "no", " no"]
    rows = [{"a": n, "label": names[n % 5]} for n in range(100)]
    guess = guess_source(table(tmp_path / "spaces.csv", rows))
    assert guess.counts == {"Yes": 20, "no": 40, "yes": 40}
    assert "label: classes differ by case only: yes 40, Yes 20; source.labels: {Yes: yes} merges them" in guess.said
    numbers = [{"a": n, "label": ["2", "10", "2.0", "10.", "3.00"][n % 5]} for n in range(100)]
    guess = guess_source(table(tmp_path / "numbers.csv", numbers))
    assert guess.counts == {"2": 40, "3": 20, "10": 40} and list(guess.counts) == ["2", "3", "10"]


def test_none_is_a_class_where_it_is_frequent_and_a_label_has_two(tmp_path: Path) -> None:
    rows = [{"a": n, "label": ["None", "x", "y"][n % 3], "one": "k", "no": ""} for n in range(90)]
    path = table(tmp_path / "sleep.csv", rows)
    guess = guess_source(path, Choices(label="label"))
    assert guess.counts == {"None": 30, "x": 30, "y": 30} and "None" not in guess.source["missing"]
    assert "label: None, of 30 rows, is a class, not a missing value" in guess.said
    with pytest.raises(Refused, match=r"one: only k in 90 rows; a label has two classes or more"):
        guess_source(path, Choices(label="one"))
    with pytest.raises(Refused, match=r"no: no value in 90 rows"):
        guess_source(path, Choices(label="no"))
    with pytest.raises(Refused, match="did you mean label"):
        guess_source(path, Choices(label="lable"))


def test_rows_of_a_patient_stay_together_and_a_fold_is_no_input(tmp_path: Path) -> None:
    rows = [
        {"patient_id": 1000 + n // 8, "fold": n % 5, "age": n % 60, "case": n // 3, "ill": "yn"[n % 2]}
        for n in range(480)
    ]
    guess = guess_source(table(tmp_path / "visits.csv", rows))
    assert guess.source["group"] == "patient_id" and guess.columns.inputs == ["age", "case"]
    said = "\n".join(guess.said)
    assert "patient_id: the group, as 60 values have 8.0 rows each" in said
    assert "fold: ignored, as it numbers 5 parts" in said and "source.split: fold" in said
    counter = [{"n": 500 + n // 3, "a": n % 7, "y": "ab"[n % 2]} for n in range(300)]
    assert guess_source(table(tmp_path / "counter.csv", counter)).source["group"] == "n"


def test_a_target_keeps_its_scale_and_a_key_its_text(tmp_path: Path) -> None:
    rows = [{"id": f"{n + 1} kg", "size": n % 17, "price": f"${1_700_000_000 + n}.00"} for n in range(200)]
    guess = guess_source(table(tmp_path / "t.csv", rows))
    assert guess.source["formats"] == {"price": {"unit": "$"}} and guess.source["targets"] == ["price"]
    assert (guess.source["key"], guess.columns.types["id"]) == ("id", "category")
    columns = {"size": "number", "price": "number"}
    with pytest.raises(ValueError, match="is a target, whose numbers keep their scale"):
        CsvSource.model_validate(
            {"path": "t.csv", "columns": columns, "targets": ["price"], "formats": {"price": {"offset": 1.7e9}}}
        )


def test_several_labels_of_a_cell_are_a_task_of_their_own(tmp_path: Path) -> None:
    names = ["action", "comedy", "drama"]
    rows = [
        {
            "plot": f"words of film {n} here",
            "genres": "|".join(names[k] for k in range(3) if n % 7 >> k & 1 or k == n % 3),
        }
        for n in range(120)
    ]
    guess = guess_source(table(tmp_path / "films.csv", rows))
    assert guess.task == "multilabel" and guess.source["targets"] == ["genres"]
    assert guess.source["classes"] == names and guess.source["formats"] == {"genres": {"separator": "|"}}
    feature = Feature("number", "float32", (3,), "target", names=tuple(names), of_labels=True)
    typed = cells.typed(feature, pa.array([["drama", "action"], [], None, ["other"]]), 0)
    assert typed.values.to_pylist()[:2] == [[1, 0, 1], [0, 0, 0]]
    assert typed.bad == {2: "missing", 3: "'other' is none of source.classes"}


def test_codes_are_categories_by_their_name_or_where_the_label_is_not_on_a_line(tmp_path: Path) -> None:
    rows = [
        {"pain_type": n % 4, "part": n % 6, "rooms": n % 5, "level": n * 7 % 13, "label": "ab"[int(n % 6 in (1, 4))]}
        for n in range(600)
    ]
    guess = guess_source(table(tmp_path / "codes.csv", rows))
    types = guess.columns.types
    assert (types["pain_type"], types["part"]) == ("category", "category")
    assert (types["rooms"], types["level"]) == ("number", "number")
