"""An export of a model trained on digits: reproducible, readable, and correct for raw files."""

import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting import verify
from tasks.exporting.export import fault_of, keep_verified
from tasks.exporting.formats import litert
from tasks.exporting.fresh_process import Verified, fresh_process
from tasks.exporting.predict import predict
from tasks.exporting.score import score
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.reader import Reader
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.store.files import pretty
from tasks.store.store import digest_of
from tests.support.chain import CHAIN, chain
from tests.support.fresh import Fresh
from tests.support.pasted import pasted
from tests.support.registries import RegistryHome
from tests.support.toy_format import ToyFormat


@pytest.fixture(scope="module")
def chains(digits, tmp_path_factory):
    """Everything from the model to the export and the report, in a fresh process and in this one, whose strings have
    other hashes."""
    root = tmp_path_factory.mktemp("chains")
    (root / "handles").write_bytes(pickle.dumps((digits.model, digits.snapshot, digits.records)))
    there = Fresh(f"{CHAIN}print(hash('text'))", root / "1", ours=True)
    chain(root / "2", digits.model, digits.snapshot, digits.records)
    assert int(there.answer().split()[-1]) != hash("text")
    return root / "1", root / "2"


@pytest.fixture(scope="module")
def export(chains):
    return chains[0] / "export"


def test_every_byte_repeats_in_another_process(chains):
    names = [
        path.relative_to(chains[0])
        for folder in ("saved_model", "litert", "int8_dynamic", "export", "report", "keras")
        for path in sorted((chains[0] / folder).rglob("*"))
        if path.is_file() and ".pieces" not in path.parts
    ]
    assert {"model.keras", "model.tflite", "saved_model.pb", "golden.npz", "README.md"} <= {name.name for name in names}
    assert len(names) > 15
    for name in names:
        assert (chains[0] / name).read_bytes() == (chains[1] / name).read_bytes(), name


def test_every_file_keeps_its_weights_bytes_from_the_model(chains, digits):
    for name in ("model.keras", "model.weights.h5", "architecture.json"):
        assert (chains[0] / "keras" / name).read_bytes() == (digits.model.path / name).read_bytes(), name


def test_readme_works_when_pasted(export, tmp_path):
    folder = Path(shutil.copytree(export, tmp_path / "export"))
    blocks = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 4, "one for each variant, and one for image files"
    with np.load(folder / "golden.npz") as golden:
        expected = golden["outputs"].argmax(axis=-1)
        Image.fromarray(golden["inputs/image"][0][..., 0]).save(folder / "example.png")
    for each in pasted({folder: blocks}):
        answers = np.array([line.split(": ")[0] for line in each.splitlines()], int)
        assert (answers == expected[: len(answers)]).mean() > 0.9
    assert len(answers) == 1


def test_fresh_process_found_names_types_and_parity(export):
    verified = json.loads((export / "manifest.json").read_bytes())["statistics"]["verified"]
    assert set(verified) == {"saved_model", "litert", "int8_dynamic"}
    for variant in verified.values():
        (feature, (shape, dtype)), (output, (outputs, kind)) = *variant["inputs"].items(), *variant["outputs"].items()
        assert (feature, shape[1:], dtype) == ("image", [8, 8, 1], "uint8")
        assert (output, outputs[1:], kind) == ("logits", [10], "float32")
        assert "serving_default" in variant["signatures"]
    assert verified["saved_model"]["max_abs_difference"] <= 1e-5
    assert verified["litert"]["max_abs_difference"] <= 1e-4
    assert verified["int8_dynamic"]["argmax_agreement"] > 0.9


def test_a_float_variant_that_does_not_keep_to_its_own_limit_is_named(export, bench):
    verified = json.loads((export / "manifest.json").read_bytes())["statistics"]["verified"]["saved_model"]
    described = [{**json.loads((export / "saved_model" / "variant.json").read_bytes()), "tolerance": 1e-12}]
    with pytest.raises(Failed) as failed:
        keep_verified(described, {"saved_model": Verified(verified)}, "", bench)
    error = str(failed.value)
    assert error.startswith("variant saved_model: outputs differ from Keras' by at most")
    assert "over the tolerance 1.00e-12" in error and "raise compress.max_difference" in error


@pytest.mark.parametrize("uses_ours", [False, True])
def test_where_we_are_installed_beside_the_packages_a_variant_must_still_not_need_us(uses_ours, export, tmp_path):
    """As a wheel is; an editable install is not on the path of the process."""
    shutil.copytree(Path(litert.__file__).parent, tmp_path / "formats")
    form = tmp_path / "formats" / "litert.py"
    form.write_text(form.read_text() + "\nimport tasks.errors\n" * uses_ours)
    command = [sys.executable, "-P", verify.__file__, "verify", str(form), "LiteRT", str(export / "litert"), "--"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input="")
    assert done.returncode == int(uses_ours), done.stderr
    assert ("['tasks'] were imported" in done.stderr) == uses_ours


def test_the_fresh_process_waits_for_the_export_replays_raw_columns_and_has_one_thread_and_no_keras(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "of the shell")
    numbers = np.ones((4, 2), np.float32)
    with fresh_process(tmp_path / "export" / "toy", ToyFormat, tmp_path) as verify_variant:
        time.sleep(1.0)  # it has done its imports, and would miss the files if it did not wait
        (tmp_path / "export" / "toy").mkdir(parents=True)
        golden = {"inputs/numbers": numbers, "raw/numbers": np.nextafter(numbers, np.float32(2))}
        np.savez(tmp_path / "export" / "golden.npz", **golden, outputs=numbers)
        variant = {"format": "toy_format", "file": "model"}
        (tmp_path / "export" / "toy" / "variant.json").write_text(json.dumps(variant))
        found = verify_variant()
    verified, measured = found.figures, found.measured
    assert (verified["threads"], verified["keras"], verified["max_abs_difference"]) == (1, False, 2.0**-23)
    assert fault_of(found, 1e-4, "") == "its graph makes another numbers of raw columns than the snapshot has"
    assert fault_of(found, 1e-8, "") == "outputs differ from Keras' by at most 1.19e-07, over the tolerance 1.00e-08"
    named = replace(found, figures={**verified, "raw_differs": [], "weights_sha256": "1"})
    assert fault_of(named, 1e-4, "2") == "its weights are not those of the model" and fault_of(named, 1e-4, "1") is None
    assert 0 < measured["p50_seconds"] <= measured["p99_seconds"] and measured["calls"] == 200
    assert measured["peak_bytes"] > measured["model_peak_bytes"] >= 0
    assert verified["variables"] == {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
    }


def test_predict_reads_images_of_many_kinds_alike(export, digits, tmp_path):
    arrays = open_snapshot(digits.snapshot.path).arrays("test")
    pixels = np.asarray(arrays["image"][0])[..., 0]
    grey = Image.fromarray(pixels)
    rotated = Image.Exif()
    rotated[0x0112] = 6  # a viewer turns the file's pixels a quarter clockwise
    kinds = {
        "grey.png": (grey, {}),
        "colour.png": (grey.convert("RGB"), {}),
        "alpha.png": (grey.convert("RGBA"), {}),
        "palette.png": (grey.convert("P"), {}),
        "sixteen.png": (Image.fromarray(pixels.astype(np.uint16) << 8), {}),
        "photo.jpg": (grey, {"quality": 98}),
        "turned.jpg": (grey.rotate(90, expand=True), {"quality": 98, "exif": rotated}),
        "large.tiff": (grey.resize((64, 64), Image.Resampling.NEAREST), {}),
    }
    for name, (image, options) in kinds.items():
        image.save(tmp_path / name, **options)
    rows = predict(export, [str(tmp_path / name) for name in kinds])
    assert {row["class"] for row in rows} == {str(arrays["label"][0])}
    for row, name in zip(rows, kinds, strict=True):
        assert row["input"] == str(tmp_path / name)
        assert row["top"][0] == {"class": row["class"], "confidence": row["confidence"]}
        assert len(row["top"]) == 3
    exact = [row["confidence"] for row in rows[:5]]
    assert max(exact) - min(exact) < 0.01


def test_predict_names_what_is_no_image_and_answers_the_others(export, tmp_path):
    (tmp_path / "notes.png").write_text("not a picture")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "black.png")
    names = [str(tmp_path / name) for name in ("black.png", "notes.png", "black.png")]
    first, bad, last = predict(export, names)
    assert first == last and first["class"]
    assert (bad["input"], bad["error"]["field"]) == (names[1], names[1])
    assert "column image: 13 bytes, cannot identify image file" in bad["error"]["saw"]
    with pytest.raises(Failed, match="not an export"):
        predict(tmp_path, [str(tmp_path / "notes.png")])


def test_raw_images_are_prepared_as_the_snapshot_does_it(benches, publish, rows_source, tmp_path):
    random = np.random.default_rng(0)
    rows = {}
    for number in range(24):
        buffer = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (20, 13 + number), "uint8")).save(buffer, "PNG")
        rows[f"row{number}"] = (buffer.getvalue(), number % 2)
    bench = benches("records")
    shares = {"train": 0.4, "validation": 0.3, "test": 0.3}
    made = publish(Records, bench, conversion.convert(bench, "rows", rows_source(rows), RecordsConfig(splits=shares)))
    bench = benches("snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, ImageSnapshot(height=8, width=9, channels=1)))
    preprocess = Reader.open(snapshot.path / "transform")
    reader, images = RecordsReader(made.path), open_snapshot(snapshot.path).arrays("test")["image"]
    for index in range(len(images)):
        payload, _ = rows[reader.key("test", index)]
        np.testing.assert_array_equal(preprocess([{"image": payload}])["image"][0], images[index])


def test_score_on_records_is_the_quality_on_their_snapshot(chains, export, digits, bench):
    scored = score(bench, export, digits.records.path, "test", EvaluateConfig(resamples=100))
    quality = json.loads((export / "litert" / "variant.json").read_bytes())["quality"]["metrics"]
    assert scored["accuracy"] == quality["accuracy"]["value"] == np.mean(scored["contributions"]["accuracy"])
    assert scored["loss"] == pytest.approx(quality["loss"]["value"], rel=1e-5)
    report = json.loads((chains[0] / "report" / "report.json").read_bytes())["splits"]["test"]["metrics"]
    for name in ("accuracy", "loss"):
        for end in ("low", "high"):
            assert scored[f"{name}/{end}"] == pytest.approx(report[name][end], rel=1e-4), "the same resamples"
    assert scored["examples"] == len(scored["contributions"]["loss"]) == digits.snapshot.manifest["counts"]["test"]


@pytest.mark.parametrize(("new", "status"), [(0.5, "rejected"), (1.0, "completed")])
def test_a_champion_is_scored_again_on_new_records_and_that_number_decides(
    new: float, status: str, export: Path, digits: Any, registry_home: RegistryHome, bench: Workbench
) -> None:
    """Its registered score, 0.01, is of other records; by that number 0.5 would win."""
    registry_home.promote(registry_home.run(1, required=False), 1, 0.01)
    inputs = {"parents": {}}
    digest = digest_of(inputs)
    held = Path(shutil.copytree(export, registry_home.home.store / "export" / digest))
    manifest = json.loads((held / "manifest.json").read_bytes())
    forged = {"format": 1, "kind": "export", "digest": digest, "inputs": inputs, "parents": {}}
    (held / "manifest.json").write_bytes(pretty({**manifest, **forged}))
    registry_home.client.set_model_version_tag("digits", "1", "millrace.export", digest)
    assert (
        registry_home.promote(registry_home.run(2, required=False), 2, new, records=digits.records, workbench=bench)
        == status
    )
    accuracy = json.loads((export / "litert" / "variant.json").read_bytes())["quality"]["metrics"]["accuracy"]["value"]
    assert 0.9 < accuracy < 1 and f" against {accuracy:.4f} of champion version 1 (" in registry_home.tags("2")["gate"]
