"""The code of an export's README, pasted into its folder: for every task, kind of input and format."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from scipy.special import expit, softmax

from tasks.artifacts import Model, Records, Snapshot
from tasks.config.task import TARGET, TASKS
from tasks.exporting import FORMATS, LITERT, SAVED_MODEL, readme
from tasks.exporting.export import GOLDEN, golden_arrays, golden_inputs, packages_of, task_of
from tasks.exporting.predict import predict
from tasks.exporting.preprocess import TASK, codec, in_graph, read_transform
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.features import model_inputs
from tasks.models.forward import predict as forward
from tasks.models.keras_file import save
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot, TableSnapshot, TokensSnapshot
from tasks.sources import Piece, Rows, Source
from tasks.sources.features import Feature
from tasks.store.files import pretty, write_arrays
from tests.support.pasted import pasted

CLASSES, LABELS, NUMBERS = ("cat", "dog", "owl"), ("spots", "stripes"), ("age", "weight")
MEASURES = ("height", "legs", "length")


class Zoo(Source):
    """Examples with an input of one kind and what a task predicts."""

    def __init__(self, kind: str, task: str) -> None:
        self.kind, self.task = kind, task

    @property
    def features(self) -> Mapping[str, Feature]:
        of_kind = {
            "image": {"image": Feature("image", "uint8", (-1, -1, 3))},
            "table": dict.fromkeys(MEASURES, Feature("number", "float32")),
            "tokens": {"text": Feature("text", "string")},
            "pairs": {"question": Feature("text", "string"), "text": Feature("text", "string")},
        }
        of_task = {
            "classification": {"label": Feature("label", "int64", role="label", classes=CLASSES)},
            "multilabel": dict.fromkeys(LABELS, Feature("number", "float32", role="target")),
            "regression": dict.fromkeys(NUMBERS, Feature("number", "float32", role="target")),
            "language_model": {},
        }
        return {**of_kind[self.kind], **of_task[self.task]}

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(f"{number:02d}", f"{number:064d}") for number in range(24)]

    def pieces(self) -> list[Piece]:
        return [Piece("all", 24, ())]

    def read(self, piece: Piece) -> Iterator[Rows]:
        keys = [key for key, _ in self.fingerprint()]
        examples = [self.example(number) for number in range(24)]
        columns = {name: pa.array([example[name] for example in examples]) for name in self.features}
        yield Rows(columns, pa.array(keys), keys.__getitem__)

    def example(self, number: int) -> dict[str, Any]:
        random = np.random.default_rng(number)
        picture = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (8, 6, 3), np.uint8)).save(picture, "PNG")
        example = {
            "image": picture.getvalue(),
            **dict(zip(MEASURES, random.normal(size=3).tolist(), strict=True)),
            "question": f"Number {number}?",
            "text": "The one and the other. " * 8 + str(number),
            "label": CLASSES[number % 3],
        }
        names = {"multilabel": LABELS, "regression": NUMBERS}.get(self.task, ())
        return {**example, **{name: int(random.integers(0, 2)) for name in names}}


@dataclass(frozen=True)
class Job:
    """An export, and the blocks of its README with what they printed."""

    export: Path
    kind: str
    task: str
    blocks: list[str]
    printed: list[str]

    @property
    def outputs(self) -> np.ndarray:
        with np.load(self.export / GOLDEN) as golden:
            return golden["outputs"].astype(np.float64)

    def golden_text(self) -> str:
        """The first of a language model's golden inputs."""
        tokenizer = codec(self.export)
        with np.load(self.export / GOLDEN) as golden:
            return tokenizer.decode(golden["inputs/tokens"][0]).decode()


KINDS = [
    ("image", "classification"),
    ("table", "multilabel"),
    ("table", "regression"),
    ("tokens", "language_model"),
    ("pairs", "language_model"),
]
"""Each task and each kind of input: what is printed depends on the one, how it is read on the other."""
SNAPSHOTS = {
    "image": ImageSnapshot(height=8, width=6, channels=3),
    "table": TableSnapshot(),
    "tokens": TokensSnapshot(vocabulary=300, block=16),
    "pairs": TokensSnapshot(vocabulary=300, block=64, packing="best_fit", prompt="question"),
}
TEXT_MODEL = TransformerModel(task="language_model", width=16, layers=1, heads=2, hidden=16)


def exported(root: Path, kind: str, task: str, workbench: Callable[[Path], Any], publish: Any) -> Path:
    """The export of a model that is not trained, in both formats."""
    bench = workbench(root / "records")
    shares = {"train": 0.5, "validation": 0.25, "test": 0.25}
    made = publish(Records, bench, conversion.convert(bench, "zoo", Zoo(kind, task), RecordsConfig(splits=shares)))
    bench = workbench(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, SNAPSHOTS[kind]))
    bench = workbench(root / "model")
    config = TEXT_MODEL if task == "language_model" else MlpModel(task=task, units=(8,))  # type: ignore[arg-type]
    network = config.build(snapshot.manifest["features"], seed=1)
    if task == "language_model":  # its first weights are small: every token would be as probable as any other
        random = np.random.default_rng(0)
        network.set_weights([random.normal(0.0, 0.5, weight.shape) for weight in network.get_weights()])
    also = save(network, bench.staging, config, snapshot.manifest["features"], 1, TASKS[task].losses[0])
    (bench.staging.root / "manifest.json").write_bytes(pretty({"files": [], **also}))
    model = Model("0" * 64, bench.staging.root, "model")

    export = root / "export"
    shutil.copytree(snapshot.path / "transform", export / "transform")
    if TARGET in snapshot.manifest["features"]:
        (export / "transform" / TASK).write_bytes(pretty(task_of(model, snapshot)))
    inputs = golden_inputs(snapshot, 8)
    named = golden_arrays(snapshot, made, inputs)
    write_arrays(export / GOLDEN, {**named, "outputs": forward(network, inputs)})
    metric = TASKS[task].metrics[0]
    measured = {"metrics": {metric: {"value": 0.5, "low": 0.4, "high": 0.6}}}
    variants, verified = [], {}
    for name in (SAVED_MODEL, LITERT):
        form = FORMATS[name]
        parent = export / SAVED_MODEL / FORMATS[SAVED_MODEL].file if form.parent else None
        (export / name).mkdir()
        others = config.functions(snapshot.manifest["features"], network) if kind == "tokens" else []
        form.write(network, in_graph(snapshot.path), parent, export / name / form.file, others)
        verified[name] = {"max_abs_difference": 1e-6, "signatures": [each.name for each in others]}
        described = {"name": name, "format": name, "file": form.file, "bytes": 1, "tolerance": 1e-4}
        variants.append({**described, "against_float": {"metric": metric}, "quality": measured})
    text = readme.write(
        variants,
        verified,
        read_transform(export),
        model_inputs(snapshot.manifest["features"]),
        {name: array.shape for name, array in inputs.arrays.items()},
        dict.fromkeys((SAVED_MODEL, LITERT), ("outputs", 0.00149)),
        dict.fromkeys(packages_of(variants), "1.2.3"),
        LITERT,
        {LITERT: "about 124 more would decide"},
    )
    assert f"`{LITERT}` is the run's choice, by `compress.want`." in text
    [row] = [line for line in text.splitlines() if line.startswith(f"| {LITERT} ")]
    assert "0.5000 (0.4000 to 0.6000); about 124 more would decide |" in row
    (export / "README.md").write_text(text)
    write_example(export, kind, inputs.arrays)
    return export


def write_example(export: Path, kind: str, inputs: dict[str, np.ndarray]) -> None:
    """Write the raw file that the README names: of golden inputs, or its text."""
    if kind == "image":
        Image.fromarray(inputs["image"][0]).save(export / "example.png")
    elif kind == "table":
        rows = [["legs", "length", "height"], *([row[1], row[2], row[0]] for row in inputs["numbers"][:2].tolist())]
        (export / "example.csv").write_text("\n".join(",".join(map(str, row)) for row in rows), "utf-8-sig")
    else:
        (export / "example.txt").write_text("The ")


@pytest.fixture(scope="module")
def jobs(tf: Any, tmp_path_factory: Any, workbench_at: Any, publish: Any) -> dict[tuple[str, str], Job]:
    root = tmp_path_factory.mktemp("zoo")
    exports = {
        (kind, task): exported(root / f"{kind}-{task}", kind, task, workbench_at, publish) for kind, task in KINDS
    }
    blocks = {
        job: re.findall(r"```python\n(.*?)```", (export / "README.md").read_text(), re.DOTALL)
        for job, export in exports.items()
    }
    answers = iter(pasted({exports[job]: blocks[job] for job in KINDS}))
    return {job: Job(exports[job], *job, blocks[job], [next(answers) for _ in blocks[job]]) for job in KINDS}


@pytest.fixture(params=KINDS, ids="-".join)
def job(request: Any, jobs: dict[tuple[str, str], Job]) -> Job:
    return jobs[request.param]


def shown(task: str, outputs: np.ndarray) -> str:
    """The line for the outputs of an example."""
    if task == "classification":
        return f"{CLASSES[outputs.argmax()]}: {softmax(outputs).max():.3f}"
    if task == "multilabel":
        return shown_labels(dict(zip(LABELS, expit(outputs), strict=True)))
    return shown_numbers(dict(zip(NUMBERS, outputs, strict=True)))


def shown_labels(labels: Mapping[str, float]) -> str:
    predicted = [name for name, probability in labels.items() if probability > 0.5]
    every = ", ".join(f"{name}: {probability:.3f}" for name, probability in labels.items())
    return f"{every}; predicted: {', '.join(predicted) or 'none'}"


def shown_numbers(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {value:.6g}" for name, value in values.items())


SHOWN_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "classification": lambda row: f"{row['class']}: {row['confidence']:.3f}",
    "multilabel": lambda row: shown_labels(row["labels"]),
    "regression": lambda row: shown_numbers(row["values"]),
    "language_model": lambda row: f"The {row['continuation']}",
}
"""The line for a row of `millrace predict`, by task."""


def same(first: str, second: str) -> bool:
    """Whether two texts are equal but for the last digits of their numbers."""
    number = r"-?\d+\.?\d*(?:e-?\d+)?"
    numbers = [[float(text) for text in re.findall(number, each)] for each in (first, second)]
    return re.sub(number, "#", first) == re.sub(number, "#", second) and np.allclose(*numbers, rtol=1e-3, atol=2e-3)


def test_each_format_prints_what_its_outputs_mean(job: Job) -> None:
    others = "a table has raw columns besides, and a language model that has a cache generation with it"
    assert len(job.blocks) == (4 if job.kind in ("table", "tokens") else 3), f"two formats and a raw file; {others}"
    for block, printed in list(zip(job.blocks, job.printed, strict=True))[:-1]:
        if "prefill" in block:  # it compares the last outputs with those of all tokens
            assert len(json.loads(printed)) == 4 + readme.GENERATED
            continue
        if job.task == "language_model":
            begin = job.golden_text()
            assert printed.startswith(begin) and len(printed) > len(begin) + 10, (printed, begin)
            assert printed == job.printed[0]
            continue
        expected = "\n".join(shown(job.task, outputs) for outputs in job.outputs)
        assert same(printed.strip(), expected), (printed, expected)
        assert ("argmax" in block) is (job.task == "classification")


def test_a_raw_file_is_answered_as_millrace_answers_it(job: Job) -> None:
    [path] = job.export.glob("example.*")
    rows = predict(job.export, [str(path)])
    assert len(rows) == (2 if job.kind == "table" else 1)
    expected = "\n".join(SHOWN_ROWS[job.task](row) for row in rows)
    assert same(job.printed[-1].strip(), expected.strip()), (job.printed[-1], expected)


def test_the_packages_to_install_are_those_that_the_code_imports(job: Job) -> None:
    text = (job.export / "README.md").read_text()
    names = {"PIL": "pillow", "ai_edge_litert": "ai-edge-litert"}
    for packages, block in re.findall(r"`pip install (.*?)`\n\n```python\n(.*?)```", text, re.DOTALL):
        modules = set(re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE)) - sys.stdlib_module_names
        if "reader" in modules:
            files = [path.read_text() for path in (job.export / "transform/reader").glob("*.py")]
            inner = {name for file in files for name in re.findall(r"^ *(?:import|from) (\w+)", file, re.MULTILINE)}
            modules = (modules | inner) - {"reader"} - sys.stdlib_module_names
        imported = {names.get(module, module) for module in modules}
        assert imported == {package.partition("==")[0] for package in packages.split()}


def image_files() -> dict[str, tuple[Image.Image, dict[str, Any]]]:
    """Images of many formats and pixel modes by file name, with the options for saving."""
    few = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8))
    colour = few.resize((120, 90), Image.Resampling.BICUBIC)
    grey, transparent = colour.convert("L"), colour.convert("RGBA")
    transparent.putalpha(grey)
    rotated = Image.Exif()
    rotated[0x0112] = 6
    wide = np.asarray(grey).astype(np.uint16) * 257
    return {
        "colour.png": (colour, {}),
        "grey.png": (grey, {}),
        "transparent.png": (transparent, {}),
        "palette.png": (colour.quantize(16), {"transparency": 3}),
        "sixteen.png": (Image.fromarray(wide), {}),
        "sixteen.tiff": (Image.fromarray(wide), {}),
        "photo.jpg": (colour, {"quality": 95}),
        "rotated.jpg": (colour, {"quality": 95, "exif": rotated}),
        "print.jpg": (colour.convert("CMYK"), {"quality": 95}),
    }


def test_the_text_speaks_of_this_task_and_this_input(job: Job) -> None:
    text = (job.export / "README.md").read_text()
    says = {
        "image": (
            "uint8 [batch, 8, 6, 3]",
            "No file takes raw columns itself, as the reader alone makes image (Pillow decodes",
            "From raw rows",
            "pillow==1.2.3",
            "A raw row has the columns image (image)",
        ),
        "table": (
            "float32 [batch, 3]",
            "height (number), legs (number), length (number)",
            "The signature `raw` of `saved_model` takes raw columns",
            "| legs | `legs` | float64 [batch] | NaN |",
            "csv.DictReader",
        ),
        "tokens": ("int32 [batch, length]", "transform/tokenizer.json", "From text to text"),
        "pairs": ("the tokens of `question`, the tokens of the text", "# any question", "From text to text"),
        "classification": ("3 classes: cat, dog, owl", "float32 [batch, 3], the logit of each class", "softmax"),
        "multilabel": (
            "2 labels: spots, stripes",
            "float32 [batch, 2], the logit of each label",
            "sigmoid",
            "above 0.5",
        ),
        "regression": ("Predicted numbers: age, weight", "float32 [batch, 2], the predicted numbers in the units"),
        "language_model": ("A language model of", "the logits of the next token"),
    }
    for word in (*says[job.kind], *says[job.task]):
        assert word in text, word
    assert text.count("<= 0.00149\n") == len(job.blocks) - 1, "not rounded to less than the limit of the variant"
    assert ("pillow" in text) is (job.kind == "image")
    assert "$" not in text and "`pip install tensorflow==1.2.3 numpy" in text
    assert ("trained on pairs" in text) is (job.kind == "pairs")
    for other in {"image", "table", "tokens"} - {"tokens" if job.kind == "pairs" else job.kind}:
        assert says[other][-1] not in text
