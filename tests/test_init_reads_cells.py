"""How people write cells: what `millrace init` recognises, and what records and exports read, by one reader."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import Refused
from tasks.exporting import raw_rows
from tasks.guess import Choices, guess_source
from tasks.guess.candidates import disorder
from tasks.guess.column import look
from tasks.reader import cast
from tasks.reader.formats import Dates, Lists, Numbers
from tasks.records import column_types
from tasks.records.column_types.categories import plain_classes
from tasks.records.column_types.numbers import fall_together
from tasks.sources.features import Feature
from tasks.sources.kinds.formats import CellFormat
from tasks.sources.kinds.tables import CsvSource

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
    typed = column_types.typed(written, pa.array(texts), 0)
    assert not typed.bad
    alone = cast.column(texts, feature.kind, written=state)
    np.testing.assert_array_equal(np.asarray(typed.values), alone)
    if state["kind"] in ("numbers", "plain") and "unit" not in given and "decimal" not in given:
        numbers = column_types.typed(written, pa.array([float(text) for text in texts]), 0)
        np.testing.assert_array_equal(np.asarray(numbers.values), alone)


def test_a_cell_of_another_form_is_bad_by_its_rule() -> None:
    number = Feature("number", "float32", format={"kind": "numbers", "unit": "kg"})
    [reason] = column_types.typed(number, pa.array(["5 kg", "3 lb"]), 0).bad.values()
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
    typed = column_types.typed(NUMBER, pa.array(seconds), 0)
    assert len({bytes(value.as_buffer()) for value in typed.exact[0]}) == 600, "copies are found by what was read"
    assert look(pa.array([0.1, 0.2, 0.3]), Path()).worries == ()


def test_the_largest_float32_by_its_shortest_text_is_a_number_and_likely_none() -> None:
    texts = ["3.4028235e+38"] * 4 + [str(number) for number in range(50)]
    assert not column_types.typed(NUMBER, pa.array(texts), 0).bad
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
    assert plain_classes(pa.array([" 1.50", "1.5", "10.0", "0.500"])).to_pylist() == ["1.5", "1.5", "10", "0.5"]


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
    typed = column_types.typed(feature, pa.array([["drama", "action"], [], None, ["other"]]), 0)
    assert typed.values.to_pylist()[:2] == [[1, 0, 1], [0, 0, 0]]
    assert typed.bad == {2: "missing", 3: "'other' is none of source.classes"}


def test_columns_of_0_and_1_beside_a_text_are_labels_that_apply_together(tmp_path: Path) -> None:
    rows = [
        {"comment": f"some words about comment {n} and more", "rude": n % 3 // 2, "threat": n % 7 // 6, "odd": n % 2}
        for n in range(120)
    ]
    guess = guess_source(table(tmp_path / "comments.csv", rows))
    assert guess.task == "multilabel" and guess.source["targets"] == ["rude", "threat", "odd"]
    assert guess.columns.inputs == ["comment"] and "classes" not in guess.source
    assert "rude, threat, odd: predicted as labels that are there or not (multilabel)" in guess.said
    numbers = [{**row, "comment": n % 17} for n, row in enumerate(rows)]
    guess = guess_source(table(tmp_path / "numbers.csv", numbers))
    assert guess.source["label"] == "odd" and guess.columns.inputs == ["comment", "rude", "threat"]
    offer = "rude, threat, odd: if they are labels that apply together, source.targets: [rude, threat, odd]"
    assert f"{offer} and task: multilabel" in guess.said
    one = [
        {"comment": row["comment"], **{name: int(n % 3 == k) for k, name in enumerate("abc")}}
        for n, row in enumerate(rows)
    ]
    assert guess_source(table(tmp_path / "one.csv", one)).task == "classification", "one class a row"
    named = [{**row, "label": n % 2} for n, row in enumerate(rows)]
    assert guess_source(table(tmp_path / "named.csv", named)).source["label"] == "label"


def test_whole_numbers_are_codes_where_their_name_their_few_values_or_the_label_say_so(tmp_path: Path) -> None:
    """A label that rises and falls with numbers tells codes; one that rises in steps, however unevenly, does not."""
    grades = np.random.default_rng(0).integers(0, 10, 600).tolist()
    rare = [0] * 300 + [1] * 180 + [2] * 90 + [3] * 30
    rows = [
        {
            "pain_type": n % 9,
            "part": n % 9 + 3,
            "grade": grades[n] + 2,
            "rooms": n % 5,
            "smoker": n // 2 % 2,
            "stage": n * 7 % 4 + 1,
            "slope": (3, 6, 7)[n // 5 % 3],
            "falls": rare[n * 7 % 600],
            "depth": n * 7 % 13,
            "month": n // 13 % 12 + 1,
            "label": "ab"[int(n % 9 in (1, 4, 7) or grades[n] > 6)],
        }
        for n in range(600)
    ]
    guess = guess_source(table(tmp_path / "codes.csv", rows))
    said = {line.partition(": ")[0]: line.partition(": ")[2] for line in guess.said}
    assert said["part"].startswith("category, as what is predicted neither rises nor falls with its 9 whole numbers (p")
    assert said["pain_type"] == "category, as its name says that its 9 whole numbers are codes"
    assert said["month"] == "category, as its name says that its 12 whole numbers are codes"
    assert said["smoker"] == "category, as it has only 2 values: 0, 1"
    assert said["slope"] == "category, as it has only 3 values: 3, 6, 7"
    assert said["stage"] == "category, as its values are the whole numbers from 1 to 4"
    numbers = [name for name, kind in guess.columns.types.items() if kind == "number"]
    assert numbers == ["grade", "rooms", "falls", "depth"]


def test_means_that_rise_or_fall_have_an_order() -> None:
    """Of the hypothesis that they do, p is small for others only; one of few rows is never sure."""
    drawn = np.random.default_rng(0)
    x = np.repeat(np.arange(6.0), 200)
    rising = np.repeat([0, 0, 0, 0.1, 2.0, 2.1], 200) + drawn.normal(size=1200)
    falls = np.repeat([0, 2, 0, 0.1, 2.0, 0], 200) + drawn.normal(size=1200)
    assert disorder(x, [rising]) > 0.01 < disorder(x, [-rising]) and disorder(x, [falls]) < 1e-9
    assert disorder(x, [rising, falls]) == pytest.approx(2 * disorder(x, [falls])), "of several the smallest, times two"
    assert disorder(x[:17], [falls[:17]]) == 1 == disorder(np.arange(17.0), [np.arange(17.0) % 3]), "nothing to compare"
    assert disorder(x, [np.where(x == 2, 5.0, x)]) == 0, "without any noise"
    level = [disorder(x[::20], [drawn.normal(size=60)]) < 0.05 for _ in range(400)]
    assert sum(level) <= 0.07 * 400, "no more often than it says where nothing rises or falls"


def test_ids_that_repeat_are_the_group_or_no_input(tmp_path: Path) -> None:
    rows = [
        {"subject_id": n // 2 if n < 20 else n, "item_id": n * 7919 % 1500, "x": n % 17, "label": "ab"[n % 2]}
        for n in range(2000)
    ]
    guess = guess_source(table(tmp_path / "ids.csv", rows))
    assert guess.source["group"] == "subject_id" and guess.columns.inputs == ["x"]
    assert "item_id: ignored, as its 1,500 numbers name things, and measure nothing" in guess.said
    trend = [{"trend": n // 60, "x": n % 17, "label": "ab"[n % 2]} for n in range(1500)]
    assert "group" not in guess_source(table(tmp_path / "trend.csv", trend)).source, "sixty rows each: a month, say"


def test_numbers_are_classes_where_each_has_some_rows(tmp_path: Path) -> None:
    rows = [{"x": n % 17, "visits": n * n % 11 if n else 40} for n in range(90)]
    guess = guess_source(table(tmp_path / "visits.csv", rows), Choices(label="visits"))
    assert guess.source["targets"] == ["visits"], "seven values, one of them in one row"
    guess = guess_source(table(tmp_path / "visits.csv", rows[1:]), Choices(label="visits"))
    assert guess.source["label"] == "visits" and list(guess.counts) == ["0", "1", "3", "4", "5", "9"]
    gone = [{"x": n % 17, "damage": "NA" if n == 7 else n % 3} for n in range(90)]
    guess = guess_source(table(tmp_path / "gone.csv", gone))
    assert list(guess.counts) == ["0", "1", "2"], "among numbers NA is no class"


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    """As R and pandas write the numbers of rows."""
    path = tmp_path / "rows.csv"
    path.write_text('"","x",,"label"\n' + "".join(f'"{n + 1}",{n % 7},,{"ab"[n % 2]}\n' for n in range(60)))
    guess = guess_source(path)
    assert guess.source["key"] == "column0" and guess.columns.inputs == ["x"]
    assert "a column without a name is called by its place, from 0: column0, column2" in guess.said
    source = CsvSource.model_validate(guess.source).open()
    source.fingerprint()
    [rows] = [rows for partition in source.partitions() for rows in source.read(partition)]
    assert rows.columns["column0"].to_pylist()[:2] == ["1", "2"]
    [first, *_] = raw_rows.csv_rows(path, ["x"], None)
    assert first == {"column0": "1", "x": "0", "column2": "", "label": "a"}
    path.write_text("column1,,y\n" + "".join(f"{n},{n},{n % 2}\n" for n in range(60)))
    with pytest.raises(Refused, match="'column1' more than once"):
        guess_source(path)


@pytest.mark.parametrize(
    ("written", "form", "read"),
    [
        ("Sat Jul 02 10:36:00 2016", "%a %b %d %H:%M:%S %Y", "2016-07-02T10:36:00"),
        ("Sat Jul 02 10:36:00 +0200 2016", "%a %b %d %H:%M:%S %z %Y", "2016-07-02T10:36:00+02:00"),
        ("02/Jul/2016:10:36:00 +0000", "%d/%b/%Y:%H:%M:%S %z", "2016-07-02T10:36:00+00:00"),
        ("20160702103600", "%Y%m%d%H%M%S", "2016-07-02T10:36:00"),
    ],
)
def test_moments_of_logs(written: str, form: str, read: str) -> None:
    column = look(pa.array([written]), Path())
    assert (column.type, column.format) == ("time", {"date": form})
    assert Dates(form).read(written) == read
    assert look(pa.array(["2016111213"]), Path()).type == "number", "ten digits are no time"
    assert look(pa.array(["10am", "3pm"]), Path()).format == {"date": "%I%p"}


def test_a_time_offers_to_split_by_it(tmp_path: Path) -> None:
    rows = [{"day": f"{n % 28 + 1:02d}.{n // 28 % 12 + 1:02d}.2020", "x": n % 7, "y": "ab"[n % 2]} for n in range(300)]
    path = table(tmp_path / "days.csv", rows)
    [offer] = [line for line in guess_source(path).said if "records.split_times" in line]
    assert offer == (
        "day: a time; to predict later rows from earlier ones, split by it: source.time: day, records.splits: time, "
        "and in place of the shares records.split_times: {validation: 2020-09-17, test: 2020-10-19}"
    )
    clock = [{"at": f"{n % 24:02d}:{n % 60:02d}", "x": n % 7, "y": "ab"[n % 2]} for n in range(300)]
    assert not any("split_times" in line for line in guess_source(table(tmp_path / "clock.csv", clock)).said)


@pytest.mark.parametrize(
    ("written", "form", "read"),
    [
        (
            ["($1,200.00)", "$5,300.00"],
            {"thousands": ",", "unit": "$", "negative": "brackets"},
            ["-1200.00", "5300.00"],
        ),
        (["(12)", "7"], {"negative": "brackets"}, ["-12", "7"]),
        (["658.14-", "2.50"], {"negative": "trailing"}, ["-658.14", "2.50"]),
        (["23 045", "658 140"], {"thousands": " "}, ["23045", "658140"]),
        (["23\u202f045,5", "1\u202f658\u202f140,0"], {"decimal": ",", "thousands": "\u202f"}, ["23045.5", "1658140.0"]),
        (["658'040.00", "12.50"], {"thousands": "'"}, ["658040.00", "12.50"]),
    ],
)
def test_numbers_below_0_and_between_thousands(written: list[str], form: dict[str, str], read: list[str]) -> None:
    column = look(pa.array(written), Path())
    assert (column.type, column.format) == ("number", form)
    assert [Numbers(**form).read(text) for text in written] == read
    given_format = CellFormat.model_validate(form)
    assert column_types.typed(
        replace(NUMBER, format=given_format.state()), pa.array(written), 0
    ).values.to_pylist() == [np.float32(text) for text in read]


def test_codes_are_no_numbers_with_blanks() -> None:
    for codes in (["02 134", "03 250"], ["$ 012", "$ 13"]):
        assert look(pa.array(codes), Path()).type == "category"


def test_cells_that_are_read_as_missing_are_counted(tmp_path: Path) -> None:
    rows = [
        {
            "lead": "<0.1" if n % 5 == 0 else n % 17 / 10,
            "country": "NA" if n % 4 == 0 else "DF"[n % 2],
            "y": "ab"[n % 2],
        }
        for n in range(200)
    ]
    guess = guess_source(table(tmp_path / "water.csv", rows))
    assert guess.columns.types["lead"] == "number" and guess.source["formats"] == {"lead": {"missing": ["<0.1"]}}
    assert "lead: <0.1 in 40 rows is read as missing" in guess.said
    assert "country: NA in 50 rows is read as missing" in guess.said


def test_a_column_that_names_the_classes_again_is_no_input(tmp_path: Path) -> None:
    rows = [{"x": n % 17, "target": n % 3, "category": ["dog", "rain", "siren"][n % 3]} for n in range(90)]
    guess = guess_source(table(tmp_path / "clips.csv", rows))
    assert guess.source["label"] == "category" and guess.columns.inputs == ["x"]
    assert "target: ignored, as it numbers the 3 classes of category" in guess.said
    rows[5]["target"] = 0
    assert guess_source(table(tmp_path / "clips.csv", rows)).columns.inputs == ["x", "target"]


def test_a_table_of_one_column_has_no_input(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no column beside x; a model needs an input"):
        guess_source(table(tmp_path / "series.csv", [{"x": n * 37 % 53 / 10} for n in range(60)]))


def test_what_is_called_a_label_and_cannot_be_predicted_is_named(tmp_path: Path) -> None:
    rows = [{"x": n, "kind": f"k{n}", "label": "one"} for n in range(60)]
    with pytest.raises(Refused, match="label has one value alone"):
        guess_source(table(tmp_path / "one.csv", [{**row, "kind": f"k{n}"} for n, row in enumerate(rows)]))


def test_fractions_are_no_lists() -> None:
    sizes = pa.array([f"{195 - 10 * (n % 5)}/{60 + 5 * (n % 3)}" for n in range(60)])
    assert look(sizes, Path()).type == "category"
