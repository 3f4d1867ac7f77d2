"""`mlflow.pyfunc.load_model` takes raw columns by name and answers as `millrace predict` does."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import Model

from tasks.exporting.predict import predict
from tasks.registry import registry
from tasks.snapshots.transforms import categories, media, texts
from tests.support import kinds
from tests.support.registries import RegistryHome
from tests.support.tables import feature, from_rows, snapshot, write_model

pytestmark = [pytest.mark.filterwarnings(f"ignore:.*{about}:UserWarning") for about in ("AnyType", "extra inputs")]

FEATURES = {
    **{name: feature("number") for name in ("a number", "z")},
    "grid": feature("number", shape=(2,)),
    "town": feature("category"),
    "when": feature("time"),
    "note": feature("text"),
    "sentence": feature("words", shape=(-1,)),
    "photo": feature("image"),
    "sound": feature("audio"),
    "label": feature("label", classes=("no", "yes")),
}
TRANSFORMS: dict[str, Any] = {
    "town": categories.Vocabulary(min_count=1),
    "note": texts.Tokens(method="bytes", length=6),
    "sentence": texts.Words(vocabulary=6, length=5, min_count=1),
    "photo": media.Image(height=4, width=4, channels=1),
    "sound": media.LogMel(rate=8000, seconds=0.1, mels=8),
}


def raw_row(number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "a number": 1.5 * number,
        "z": 100.0 - number,
        "grid": [float(number), 1.0],
        "town": ["Ulm", "Köln", "Hof"][number % 3],
        "when": f"2001-0{1 + number % 9}-02T03:04:05",
        "note": f"note {number}",
        "sentence": ["the", "sea", "a"][: number % 4],
        "label": number % 2,
        "photo": kinds.image(1, Path()),
        "sound": kinds.sound(1, Path()),
    }
    return row | (dict.fromkeys(("z", "town", "when", "note", "sentence", "photo", "sound")) if number == 3 else {})


@dataclass
class Registered:
    """An export and the model that MLflow loads of it."""

    export: Path
    model: Any
    folder: Path


@pytest.fixture(scope="module")
def registered(tf: Any, tmp_path_factory: pytest.TempPathFactory, empty_registry: Path) -> Registered:
    folder = tmp_path_factory.mktemp("pyfunc")
    home = RegistryHome(folder / "home", empty_registry)
    rows = [raw_row(number) for number in range(12)]
    outcome = snapshot(folder / "snapshot", from_rows(FEATURES, {"train": rows[:8], "test": rows[8:]}), TRANSFORMS)
    export = folder / "export"
    shutil.copytree(folder / "snapshot/transform", export / "transform")
    write_model(folder / "snapshot", export / "saved_model/saved_model", outcome.features)
    serve = tf.saved_model.load(str(export / "saved_model/saved_model")).signatures["serving_default"]
    specs = serve.structured_input_signature[1]
    inputs = {
        name: np.zeros([size or 2 for size in spec.shape], spec.dtype.as_numpy_dtype) for name, spec in specs.items()
    }
    named = {f"inputs/{name}": array for name, array in inputs.items()}
    np.savez(export / "golden.npz", **named, outputs=np.zeros((2, 2), np.float32))
    run = home.client.create_run("0").info.run_id
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MLFLOW_TRACKING_URI", "")  # where MLflow's client leaves the address of the registry
        registry.register(home.home.mlflow_uri, run, "rows", export, {})
    model = mlflow.pyfunc.load_model("models:/rows/1")
    source = home.client.get_model_version("rows", "1").source
    return Registered(export, model, Path(mlflow.artifacts.download_artifacts(source)))


def frame() -> pd.DataFrame:
    """Raw rows: of texts, missing cells, an unknown category; the columns in another order than that of the export."""
    rows = [raw_row(number) for number in range(6)]
    rows[4]["town"] = "never seen"
    rows[5] |= {"a number": "7.5", "z": " 3e1 ", "town": None}
    return pd.DataFrame(rows, columns=sorted(FEATURES, reverse=True)).assign(other=1).drop(columns="label")


def predicted(registered: Registered, rows: pd.DataFrame, folder: Path) -> list[dict[str, Any]]:
    """What `millrace predict` answers for single rows, as a column of Parquet has values of one type."""
    answers = []
    for number, row in enumerate(rows.to_dict("records")):
        plain = {name: None if pd.isna(value) is True else value for name, value in row.items()}
        (path := folder / str(number)).mkdir()
        files = {name: plain.pop(name) for name in ("photo", "sound")}
        for name, content in files.items():
            (path / name).write_bytes(content or b"")
        named = {name: name if content else None for name, content in files.items()}
        (path / "row.jsonl").write_text(json.dumps(plain | named))
        [answer] = predict(registered.export, [str(path / "row.jsonl")])
        del answer["input"]
        answers.append(answer)
    return answers


def test_rows_of_raw_columns_in_any_order_are_answered_as_predict_answers(
    registered: Registered, tmp_path: Path
) -> None:
    rows = frame()
    answers, expected = registered.model.predict(rows), predicted(registered, rows, tmp_path)
    assert [answer["class"] for answer in answers] == [answer["class"] for answer in expected]
    confidences = [answer["confidence"] for answer in expected]
    assert [answer["confidence"] for answer in answers] == pytest.approx(confidences, abs=1e-6)
    assert len(set(confidences)) == 6, "or the rows show nothing"
    assert registered.model.predict(rows, params={"raw": True}).shape == (6, 2)


def test_files_are_bytes_or_base64_and_never_a_path_of_the_server(registered: Registered, tmp_path: Path) -> None:
    rows = frame()[:1]
    in_base64 = rows.assign(photo=[base64.b64encode(rows["photo"][0]).decode()])
    assert registered.model.predict(in_base64) == registered.model.predict(rows)
    (tmp_path / "photo.png").write_bytes(rows["photo"][0])
    with pytest.raises(MlflowException, match="column photo: .*must be the bytes of a file, or them in base64"):
        registered.model.predict(rows.assign(photo=[str(tmp_path / "photo.png")]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"z": "many"}, "row 1, column z: 'many'; must be a decimal number such as 12, -0.5 or 1e-3"),
        ({"photo": b"no image"}, "row 1, column photo: 8 bytes"),
        ({"when": "soon"}, "row 1, column when: 'soon'; must be a date or time of ISO 8601"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_by_row_column_and_rule(
    registered: Registered, change: dict[str, Any], says: str
) -> None:
    rows = frame()[:2].astype(object)
    for name, value in change.items():
        rows.at[1, name] = value
    with pytest.raises(MlflowException) as caught:
        registered.model.predict(rows)
    assert caught.value.message.startswith(says) and "\n" not in caught.value.message
    assert caught.value.get_http_status_code() == 400


def test_a_column_that_is_not_there_is_named(registered: Registered) -> None:
    with pytest.raises(MlflowException, match=r"missing inputs \['town'\]"):
        registered.model.predict(frame().drop(columns="town"))


def test_a_version_lists_its_columns_and_what_its_reader_imports(registered: Registered) -> None:
    signature = Model.load(registered.folder).signature
    assert signature.inputs.input_names() == sorted(FEATURES.keys() - {"label"})
    needs = (registered.folder / "requirements.txt").read_text().splitlines()
    named = [need.partition("==")[0] for need in needs]
    assert named == ["mlflow", "numpy", "pandas", "tensorflow", "pillow", "soundfile", "tokenizers"]


def test_loading_leaves_no_files_beside_the_reader(registered: Registered) -> None:
    assert not list(registered.export.rglob("__pycache__")) and not list(registered.folder.rglob("__pycache__"))


def asked(port: int, body: Any) -> tuple[int, Any]:
    """The status and the answer of the server for a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", content, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.slow
def test_a_server_of_mlflow_answers_rows_and_names_what_is_wrong_with_them(
    registered: Registered, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("mlflow"), "models", "serve", "--model-uri", registered.folder]
    process = subprocess.Popen(
        [*command, "--env-manager", "local", "--port", str(port), "--workers", "1"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"},
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None and not answers_at(port):
            time.sleep(0.5)
        rows = frame()[:4]  # the last one without files
        files = ("photo", "sound")
        sent = json.loads(rows.drop(columns=list(files)).to_json(orient="records"))
        for row, contents in zip(sent, rows[list(files)].to_dict("records"), strict=True):
            row |= {name: content and base64.b64encode(content).decode() for name, content in contents.items()}
        status, answer = asked(port, {"dataframe_records": sent})
        assert (status, answer["predictions"]) == (200, registered.model.predict(rows))
        bad = [sent[0], {**sent[1], "z": "many"}]
        status, answer = asked(port, {"dataframe_records": bad})
        says = "row 1, column z: 'many'; must be a decimal number such as 12, -0.5 or 1e-3"
        assert (status, answer["message"].splitlines()[-1]) == (400, f"Error: {says}")
        status, answer = asked(port, {"dataframe_records": [{"z": 1}]})
        assert status == 400 and "missing inputs ['a number', 'grid'" in answer["message"]
        assert asked(port, b"not JSON")[0] == 400
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def answers_at(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2):
            return True
    except OSError:
        return False
