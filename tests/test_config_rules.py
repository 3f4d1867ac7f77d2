"""Each rule of the config refuses what is just beyond it, on each of its sides, and accepts what is just within."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.compression.config import CompressConfig, WantConfig
from tasks.compression.methods.distill import Distill
from tasks.compression.methods.low_rank import LowRank
from tasks.compression.methods.prune import Prune, PruneStructured
from tasks.config.base import Conflict, Section
from tasks.config.compose import Config
from tasks.config.notify import NotifyConfig
from tasks.config.yaml_values import read_yaml
from tasks.evaluation.config import EvaluateConfig, ThresholdConfig
from tasks.evaluation.gating import AbsoluteGate, ChampionGate, FloatGate, PromoteConfig, SlicesGate
from tasks.exporting.config import ExportConfig
from tasks.feed.augmentations import ResizedCrop
from tasks.models.architectures.convnet import ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import EncoderModel, ViTModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.architectures.user_models import KerasFileModel
from tasks.processes.config import ClusterConfig
from tasks.records.config import RecordsConfig
from tasks.search.choosing import HalvingPruner, HyperbandPruner, MedianPruner, NoPruner
from tasks.search.config import TuneConfig
from tasks.search.space import FloatRange, IntRange
from tasks.snapshots.config import ImageSnapshot, TokensSnapshot
from tasks.snapshots.transforms.media import Image, LogMel
from tasks.snapshots.transforms.numbers import Bucketize, Missing
from tasks.snapshots.transforms.texts import HashWords, Tokens
from tasks.snapshots.transforms.times import TimeParts
from tasks.sources.kinds.catalogues import TfdsSource
from tasks.sources.kinds.tables import (
    CsvSource,
    JsonlSource,
    ParquetSource,
    PythonSource,
    SqlSource,
    TfrecordSource,
    WebdatasetSource,
)
from tasks.training.config import TrainConfig
from tasks.training.initial import FileInit, KerasHubInit
from tasks.training.optimizers import Adam, AdamW, Sgd
from tasks.training.schedules import Constant, Cosine, Piecewise
from tasks.training.sections import TensorBoard
from tasks.training.strategies import Horovod, Mirrored, MultiWorker, OneDevice, ParameterServer, Pipeline, Tpu

NEEDED: dict[type[Section], str] = {
    ChampionGate: "{max_loss: 0.1}",
    Config: "{name: a, train: {steps: 9}}",
    CsvSource: "{path: x, columns: {a: number, b: number}}",
    Distill: "{student: {kind: mlp}, fine_tune: {steps: 1}}",
    HyperbandPruner: "{last: 9}",
    IntRange: "{low: 0}",
    FloatRange: "{low: 0}",
    JsonlSource: "{path: x}",
    ParquetSource: "{path: x}",
    PythonSource: "{function: 'a:b'}",
    TfrecordSource: "{path: x}",
    WebdatasetSource: "{path: x}",
    LowRank: "{fine_tune: {steps: 1}}",
    PruneStructured: "{fine_tune: {steps: 1}}",
    SlicesGate: "{max_loss: 0.1}",
    SqlSource: "{url: 'sqlite:///x', query: t, columns: {a: number, k: number}}",
    TfdsSource: "{dataset: x}",
    TrainConfig: "{steps: 9}",
    TuneConfig: "{trials: 1, space: {train.learning_rate: {kind: choice, values: [0.1, 0.2]}}}",
}
"""What a section must have, whatever the rule; a case may say otherwise."""


def made(section: type[Section], text: str) -> Any:
    return section.model_validate({**read_yaml(NEEDED.get(section, "{}")), **read_yaml(text)})


def assert_refused(call: Callable[[], Any], field: str, says: str) -> None:
    """The field and the rule, of a `Conflict` alone or in an error of pydantic; of other errors the place."""
    with pytest.raises((ValidationError, Conflict)) as caught:
        call()
    error: Any = caught.value
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False)[0]
        error = fault.get("ctx", {}).get("error")
        seen, rule = ".".join(str(part) for part in fault["loc"]), fault["msg"]
    if isinstance(error, Conflict):
        seen, rule = error.field, error.rule
    assert seen == field and says in rule


QAT = "{kind: qat, fine_tune: {steps: 1}}"
QAT8 = "{kind: qat, bits: 8, fine_tune: {steps: 1}}"
RANKS = "{kind: low_rank, rank: 1, fine_tune: {steps: 1}}"
STUDENT = "{kind: distill, student: {kind: mlp}, fine_tune: {steps: 1}}"
UNITS = "{kind: prune_structured, fine_tune: {steps: 1}}"
ZEROS = "{kind: prune, fine_tune: {steps: 1}}"
ON_FILE = (
    *("float16", "int8_dynamic", "int8_weight_only", "int8_static"),
    *("int8_selective", "int4_dynamic", "int4_weight_only", "gptq"),
)
PIPELINE = "strategy: {kind: pipeline, micro_batches: 1}"
SERVERS = "strategy: {kind: parameter_server}"
WORKERS = "strategy: {kind: multi_worker}"
TIMES = "splits: time, split_times: {validation: '2024-01-01', test: '2024-01-02'}"
LR = "train.learning_rate: {kind: choice, values: [0.1, 0.2]}"
WHOLE = ("one_device", "mirrored", "multi_worker", "horovod", "tpu")
"""The strategies of which each process has whole replicas."""
UNMIXED = (
    *("flip", "crop", "resized_crop", "colour", "rand_augment"),
    *("cutout", "noise", "time_mask", "band_mask", "token_dropout"),
)
"""The augmentations that mix no two examples."""
OF_PIECES = ("adam", "adamw", "nadam", "adamax", "lion", "rmsprop", "adagrad", "adadelta", "ftrl", "sgd")
"""The optimizers that can update pieces of a matrix."""
TASKS = ("classification", "multilabel", "anomaly", "ranking", "regression", "language_model", "tagging")
WIDE = "columns: {c: category, d: category, n: number, m: number, t: text, w: time, i: image}"

Rule = tuple[type[Section], str, str, list[str], list[str]]
"""A section, the field that is refused, a piece of the rule, what is refused by it, and what is not."""

RULES: list[Rule] = [
    # records
    (
        RecordsConfig,
        "splits",
        "must name the splits train, validation and test",
        [
            "{splits: {validation: 0.9, test: 0.1}}",
            "{splits: {train: 0.9, test: 0.1}}",
            "{splits: {train: 0.9, validation: 0.1}}",
        ],
        [
            "{splits: {train: 0.8, validation: 0.1, test: 0.1}}",
            "{splits: {train: 0.7, validation: 0.1, test: 0.1, later: 0.1}}",
        ],
    ),
    (
        RecordsConfig,
        "splits",
        "a split must not be named",
        [
            f"{{splits: {{train: 0.7, validation: 0.1, test: 0.1, {name}: 0.1}}}}"
            for name in ("examples", "read", "quarantined", "filtered", "skipped", "duplicates", "near_duplicates")
        ],
        ["{splits: {train: 0.7, validation: 0.1, test: 0.1, example: 0.1}}"],
    ),
    (
        RecordsConfig,
        "splits",
        "shares must sum to 1",
        [
            "{splits: {train: 0.8, validation: 0.1, test: 0.10000000101}}",
            "{splits: {train: 0.8, validation: 0.1, test: 0.09999999899}}",
        ],
        [
            "{splits: {train: 0.8, validation: 0.1, test: 0.10000000099}}",
            "{splits: {train: 0.8, validation: 0.1, test: 0.09999999901}}",
        ],
    ),
    (
        RecordsConfig,
        "bad_budget",
        "must be a number of examples or a share below 1",
        ["{bad_budget: true}", "{bad_budget: false}"],
        ["{bad_budget: 0}", "{bad_budget: 1}", "{bad_budget: 0.99}"],
    ),
    (
        RecordsConfig,
        "official",
        "is ignored unless records.splits is official",
        ["{official: {train: [a]}}", f"{{{TIMES}, official: {{train: [a]}}}}"],
        ["{official: {}}", "{splits: official, official: {train: [a]}}", "{splits: official}"],
    ),
    (
        RecordsConfig,
        "validation_share",
        "is ignored unless records.splits is official",
        ["{validation_share: 0.2}", f"{{{TIMES}, validation_share: 0.2}}"],
        ["{validation_share: 0.1}", "{splits: official, validation_share: 0.2}"],
    ),
    (
        RecordsConfig,
        "split_times",
        "is ignored unless records.splits is time",
        ["{split_times: {test: '2024-01-01'}}", "{splits: official, split_times: {test: '2024-01-01'}}"],
        ["{split_times: {}}", f"{{{TIMES}}}"],
    ),
    (
        RecordsConfig,
        "official",
        "must be one of train, validation, test",
        ["{splits: official, official: {dev: [a]}}", "{splits: official, official: {train: [a], dev: [b]}}"],
        ["{splits: official, official: {train: [a], validation: [b], test: [c]}}"],
    ),
    (
        RecordsConfig,
        "official",
        "becomes test and train, and an example is in one split",
        ["{splits: official, official: {train: [a], test: [a]}}"],
        [
            "{splits: official, official: {train: [a], test: [b]}}",
            "{splits: official, official: {train: [a, a], test: [b]}}",
        ],
    ),
    (
        RecordsConfig,
        "split_times",
        "must say when validation and when test begins",
        [
            "{splits: time}",
            "{splits: time, split_times: {validation: '2024-01-01'}}",
            "{splits: time, split_times: {test: '2024-01-01'}}",
        ],
        [f"{{{TIMES}}}"],
    ),
    (
        RecordsConfig,
        "split_times",
        "validation must begin before test",
        [
            "{splits: time, split_times: {validation: '2024-01-01', test: '2024-01-01'}}",
            "{splits: time, split_times: {validation: '2024-01-02', test: '2024-01-01'}}",
            "{splits: time, split_times: {validation: '2024-01-01', test: '2024-01-01T02:00:00+02:00'}}",
        ],
        [
            "{splits: time, split_times: {validation: '2024-01-01', test: '2024-01-01T00:00:00.000001'}}",
            "{splits: time, split_times: {validation: '2024-01-01', test: '2024-01-01T02:00:01+02:00'}}",
            "{splits: time, split_times: {validation: '2024-01-01T02:00:00+03:00', test: '2024-01-01'}}",
        ],
    ),
    (
        RecordsConfig,
        "split_times",
        "must be a time in ISO 8601",
        [
            "{splits: time, split_times: {validation: '2024-13-01', test: '2024-01-02'}}",
            "{splits: time, split_times: {validation: '2024-01-01', test: later}}",
        ],
        ["{splits: time, split_times: {validation: '2024-12-01', test: '2024-12-01T12:00:00+02:00'}}"],
    ),
    (
        RecordsConfig,
        "near_duplicates.handling",
        "is less than records.duplicates: keep allows",
        [
            "{duplicates: keep, near_duplicates: {handling: group}}",
            "{duplicates: keep, near_duplicates: {handling: drop}}",
        ],
        [
            "{duplicates: keep}",
            "{duplicates: keep, near_duplicates: {handling: report}}",
            "{duplicates: drop, near_duplicates: {handling: group}}",
            "{duplicates: group, near_duplicates: {handling: drop}}",
        ],
    ),
    (
        RecordsConfig,
        "near_duplicates.handling",
        "would move examples out of splits",
        [
            "{splits: official, near_duplicates: {handling: group}}",
            f"{{{TIMES}, near_duplicates: {{handling: group}}}}",
        ],
        [
            "{near_duplicates: {handling: group}}",
            "{splits: official, near_duplicates: {handling: drop}}",
            "{splits: official, near_duplicates: {handling: report}}",
        ],
    ),
    # sources
    (
        CsvSource,
        "columns",
        "are lists, which JSON lines, Parquet and functions have",
        ["{columns: {a: number, w: words}}", "{columns: {a: number, t: tags}, label: t}"],
        ["{columns: {a: number, t: text}}"],
    ),
    *[
        (
            section,
            "columns",
            "are lists, which JSON lines, Parquet and functions have",
            ["{columns: {k: text, w: words}, key: k}"],
            ["{columns: {k: text, w: text}, key: k}"],
        )
        for section in (SqlSource, TfdsSource, TfrecordSource, WebdatasetSource)
    ],
    *[(section, "", "", [], ["{columns: {w: words}}"]) for section in (JsonlSource, ParquetSource, PythonSource)],
    (
        JsonlSource,
        "columns",
        "is of type tags, which is a label",
        ["{columns: {w: words, t: tags}}", "{columns: {w: words, t: tags, u: tags}, label: t}"],
        ["{columns: {w: words, t: tags}, label: t}", "{columns: {w: words}}"],
    ),
    (
        JsonlSource,
        "label",
        "has a class for each word",
        ["{columns: {a: text, t: tags}, label: t}"],
        ["{columns: {w: words, t: tags}, label: t}", "{columns: {a: text, t: category}, label: t}"],
    ),
    *[
        (
            JsonlSource,
            role,
            f"is of type {wrong}, and {role} must be",
            [f"{{{WIDE}, {role}: {name}}}"],
            [f"{{{WIDE}, {role}: {right}}}" for right in fitting],
        )
        for role, wrong, name, fitting in [
            ("key", "time", "w", ["c", "t", "n"]),
            ("label", "text", "t", ["c"]),
            ("label", "number", "n", ["d"]),
            ("targets", "category", "[c]", ["[n]", "[n, m]"]),
            ("weight", "category", "c", ["n"]),
            ("group", "image", "i", ["c", "t", "n"]),
            ("split", "text", "t", ["c"]),
            ("time", "number", "n", ["w"]),
        ]
    ],
    *[
        (JsonlSource, role, "must be one of source.columns", [f"{{{WIDE}, {role}: {name}}}"], [f"{{{WIDE}}}"])
        for role, name in [
            *((role, "x") for role in ("key", "label", "weight", "group", "split", "time")),
            ("targets", "[n, x]"),
        ]
    ],
    (
        TfdsSource,
        "label",
        "must be one of source.columns",
        ["{columns: {a: number}, label: b}"],
        ["{label: b}", "{columns: {a: number, b: category}, label: b}"],
    ),
    (JsonlSource, "group", "is the key too", [f"{{{WIDE}, key: c, group: c}}"], [f"{{{WIDE}, key: c, group: d}}"]),
    (
        JsonlSource,
        "split",
        "is the label too",
        [f"{{{WIDE}, label: c, split: c}}"],
        [f"{{{WIDE}, label: c, split: d}}"],
    ),
    (JsonlSource, "targets", "is the targets too", [f"{{{WIDE}, targets: [n, n]}}"], [f"{{{WIDE}, targets: [n, m]}}"]),
    (
        JsonlSource,
        "targets",
        "cannot be predicted beside a label",
        [f"{{{WIDE}, label: c, targets: [n]}}"],
        [f"{{{WIDE}, label: c, targets: []}}", f"{{{WIDE}, targets: [n]}}"],
    ),
    (
        JsonlSource,
        "classes",
        "need a label",
        [f"{{{WIDE}, classes: [x]}}"],
        [f"{{{WIDE}, classes: []}}", f"{{{WIDE}, classes: [x], label: c}}"],
    ),
    (
        JsonlSource,
        "unknown_class",
        "needs classes that are known",
        [f"{{{WIDE}, label: c, unknown_class: bucket}}"],
        [f"{{{WIDE}, label: c, unknown_class: bucket, classes: [x]}}", f"{{{WIDE}, label: c, unknown_class: error}}"],
    ),
    (
        JsonlSource,
        "classes",
        "must differ",
        [f"{{{WIDE}, label: c, classes: [x, y, x]}}"],
        [f"{{{WIDE}, label: c, classes: [x, y, X]}}"],
    ),
    (
        JsonlSource,
        "columns",
        "names the key of an example in records",
        ["{columns: {key: number, a: number}}"],
        [
            "{columns: {key: ignore, a: number}}",
            "{columns: {key: category, a: number}, key: key}",
            "{columns: {key: category, a: number}, label: key}",
            "{columns: {keys: number, a: number}}",
        ],
    ),
    (
        JsonlSource,
        "columns",
        "leave no input for a model",
        ["{columns: {a: ignore}}", "{columns: {a: category}, label: a}"],
        ["{columns: {a: ignore, b: number}}", "{columns: {a: category, b: number}, label: a}"],
    ),
    (
        CsvSource,
        "delimiter",
        "differs from quote and escape",
        [
            "{delimiter: ';', quote: ';'}",
            "{delimiter: ';', escape: ';'}",
            "{quote: '!', escape: '!'}",
            "{delimiter: ';', quote: '', escape: ';'}",
        ],
        ["{delimiter: ';', quote: '!', escape: '+'}", "{delimiter: ';', quote: '', escape: ''}"],
    ),
    (
        CsvSource,
        "header",
        "names each of source.columns once",
        ["{header: [a]}", "{header: [a, b, b]}", "{header: [a, c]}"],
        ["{header: [a, b]}", "{header: [b, a]}", "{header: true}"],
    ),
    (SqlSource, "key", "is what orders the rows of a database", ["{}", "{key: null}"], ["{key: k}"]),
    (
        SqlSource,
        "url",
        "a secret must be a reference",
        [
            "{key: k, url: 'postgresql://user:word@host/db'}",
            "{key: k, url: 'postgresql://user:@host/db'}",
            *(f"{{key: k, url: 'x://host/db?{name}=word'}}" for name in ("password", "passwd", "PWD", "sslpassword")),
            *(f"{{key: k, url: 'x://host/db?a=b{sign}pwd=word'}}" for sign in ("&", ";", "%3B")),
            "{key: k, url: 'x://?odbc_connect=PWD%3Dword'}",
        ],
        [
            "{key: k, url: 'postgresql://user@host/db'}",
            "{key: k, url: 'postgresql://host:5432/db'}",
            "{key: k, url: 'x://host/db?password_file=word'}",
            "{key: k, url: 'env:NAME'}",
            "{key: k, url: 'file:x//user:word@host'}",
        ],
    ),
    # snapshot
    *[
        (section, "channels", says, ["{channels: true}", "{channels: false}"], ["{channels: 1}", "{channels: 3}"])
        for section, says in ((ImageSnapshot, "must be 1 or 3"), (Image, "must be"))
    ],
    (
        TokensSnapshot,
        "prompt",
        "needs packing: best_fit",
        ["{prompt: a}", "{prompt: a, packing: stream}"],
        ["{prompt: a, packing: best_fit}", "{packing: best_fit}", "{packing: stream}"],
    ),
    (
        Missing,
        "fill",
        "must be a number, or a word",
        ["{fill: true}", "{fill: false}"],
        ["{fill: 1}", "{fill: 0}", "{fill: median}"],
    ),
    (
        Bucketize,
        "buckets",
        "is ignored where boundaries are given",
        ["{buckets: 9, boundaries: [1]}", "{buckets: 11, boundaries: [1]}"],
        ["{buckets: 10, boundaries: [1]}", "{buckets: 9}"],
    ),
    (
        Bucketize,
        "boundaries",
        "must ascend",
        ["{boundaries: [1, 1]}", "{boundaries: [1, 2, 2]}", "{boundaries: [2, 1, 3]}"],
        ["{boundaries: [1, 1.001]}", "{boundaries: [1]}", "{boundaries: []}"],
    ),
    (TimeParts, "parts", "must differ", ["{parts: [day, hour, day]}"], ["{parts: [day, hour]}", "{parts: [day]}"]),
    (
        Tokens,
        "vocabulary",
        "is ignored by method bytes",
        ["{method: bytes, vocabulary: 8193}", "{method: bytes, vocabulary: 8191}"],
        [
            "{method: bytes, vocabulary: 8192}",
            "{method: bpe, vocabulary: 8193}",
            "{method: wordpiece, vocabulary: 300}",
        ],
    ),
    (
        Tokens,
        "tokenizer_bytes",
        "is ignored by method bytes",
        ["{method: bytes, tokenizer_bytes: 16000001}"],
        ["{method: bytes, tokenizer_bytes: 16000000}", "{method: bpe, tokenizer_bytes: 16000001}"],
    ),
    (
        HashWords,
        "length",
        "is ignored where the output is counts",
        ["{length: 127}", "{output: counts, length: 129}"],
        ["{output: counts, length: 128}", "{output: ids, length: 127}"],
    ),
    (
        LogMel,
        "window",
        "is longer than a sound of 0.499 s",
        ["{window: 0.5, seconds: 0.499}"],
        ["{window: 0.5, seconds: 0.5}"],
    ),
    (
        LogMel,
        "window",
        "has no two samples at this rate",
        ["{rate: 1000, window: 0.0014, hop: 0.1}", "{rate: 1000, window: 0.0001, hop: 0.1}"],
        ["{rate: 1000, window: 0.0016, hop: 0.1}"],
    ),
    (
        LogMel,
        "hop",
        "has no two samples at this rate",
        ["{rate: 1000, hop: 0.0004}"],
        ["{rate: 1000, hop: 0.0006}", "{rate: 1000, hop: 0.0014}"],
    ),
    # model
    *[
        (
            section,
            "head_dim",
            "must be even",
            ["{head_dim: 3}", "{head_dim: 5}"],
            ["{head_dim: 2}", "{head_dim: 4}", "{width: 12, heads: 4, head_dim: 4}"],
        )
        for section in (EncoderModel, TransformerModel, ViTModel)
    ],
    *[
        (
            section,
            "heads",
            "into even parts",
            ["{width: 12, heads: 4}", "{width: 4, heads: 4}", "{width: 20, heads: 4}"],
            ["{width: 8, heads: 4}", "{width: 16, heads: 4}", "{width: 12, heads: 2, head_dim: null}"],
        )
        for section in (EncoderModel, TransformerModel)
    ],
    (ViTModel, "heads", "into even parts", ["{width: 12, heads: 4}"], ["{width: 8, heads: 4}"]),
    (
        ViTModel,
        "width",
        "must divide by 4",
        ["{width: 6, heads: 1}", "{width: 6, head_dim: 2}"],
        ["{width: 4, heads: 1}", "{width: 8, heads: 1}", "{width: 4, head_dim: 2}"],
    ),
    (
        TransformerModel,
        "kv_heads",
        "must divide 4 heads",
        ["{kv_heads: 3}", "{kv_heads: 5}", "{kv_heads: 8}"],
        ["{kv_heads: 1}", "{kv_heads: 2}", "{kv_heads: 4}", "{kv_heads: null}"],
    ),
    (
        TransformerModel,
        "experts_per_token",
        "is ignored without experts",
        ["{experts_per_token: 1}", "{experts_per_token: 3}"],
        ["{experts_per_token: 2}", "{experts: 3, experts_per_token: 3}"],
    ),
    (
        TransformerModel,
        "balance_weight",
        "is ignored without experts",
        ["{balance_weight: 0}", "{balance_weight: 0.011}"],
        ["{balance_weight: 0.01}", "{experts: 2, balance_weight: 0}"],
    ),
    (
        TransformerModel,
        "experts",
        "there must be two at least, and as many as experts_per_token",
        ["{experts: 1, experts_per_token: 1}", "{experts: 1}", "{experts: 3, experts_per_token: 4}"],
        ["{experts: 2, experts_per_token: 1}", "{experts: 2}", "{experts: 4, experts_per_token: 4}"],
    ),
    # train
    (ResizedCrop, "area", "the smallest comes first", ["{area: [0.5, 0.499]}"], ["{area: [0.5, 0.5]}"]),
    (ResizedCrop, "ratio", "the smallest comes first", ["{ratio: [2, 1.999]}"], ["{ratio: [2, 2]}"]),
    (
        ResizedCrop,
        "area",
        "is a share of the image's area",
        ["{area: [0.5, 1.001]}", "{area: [1.5, 2]}"],
        ["{area: [0.5, 1]}", "{area: [1, 1]}"],
    ),
    (
        Piecewise,
        "boundaries",
        "must ascend",
        ["{boundaries: [2, 2], factors: [1, 1]}", "{boundaries: [3, 2], factors: [1, 1]}"],
        ["{boundaries: [2, 3], factors: [1, 1]}"],
    ),
    (
        Piecewise,
        "factors",
        "each of the 2 boundaries has one",
        ["{boundaries: [2, 3], factors: [1]}", "{boundaries: [2, 3], factors: [1, 1, 1]}"],
        ["{boundaries: [2, 3], factors: [1, 1]}"],
    ),
    (
        Piecewise,
        "boundaries",
        "is within the warm-up of 2 steps",
        ["{boundaries: [2, 3], factors: [1, 1], warmup: 2}", "{boundaries: [1, 3], factors: [1, 1], warmup: 2}"],
        ["{boundaries: [3], factors: [1], warmup: 2}", "{boundaries: [1], factors: [1]}"],
    ),
    (
        Adam,
        "no_decay",
        "is ignored where nothing decays",
        ["{no_decay: [a]}"],
        ["{no_decay: []}", "{no_decay: [a], weight_decay: 1e-9}", "{weight_decay: 0.1}"],
    ),
    (
        AdamW,
        "no_decay",
        "is ignored where nothing decays",
        ["{no_decay: [a], weight_decay: 0}"],
        ["{no_decay: [a]}", "{weight_decay: 0}"],
    ),
    (
        Sgd,
        "nesterov",
        "is ignored without momentum",
        ["{nesterov: true}", "{nesterov: true, momentum: 0}"],
        ["{nesterov: true, momentum: 1e-9}", "{nesterov: false, momentum: 0}"],
    ),
    (
        TensorBoard,
        "trace",
        "must be two steps, the first one lower",
        ["{trace: [10, 10]}", "{trace: [10, 9]}"],
        ["{trace: [10, 11]}"],
    ),
    *[
        (
            FileInit,
            name,
            "a file of weights has no layer names",
            [f"{{path: a.weights.h5, {value}}}"],
            [f"{{path: a.keras, {value}}}", "{path: a.weights.h5}"],
        )
        for name, value in (("new", "new: [a]"), ("rename", "rename: {a: b}"))
    ],
    (
        KerasHubInit,
        "download",
        "is ignored: ./bert is a folder",
        ["{preset: ./bert, download: true}"],
        [
            "{preset: ./bert}",
            "{preset: bert, download: true}",
            "{preset: 'hf://a/bert', download: true}",
            "{preset: 'hf://a/bert', download: false}",
        ],
    ),
    (
        ClusterConfig,
        "hosts",
        "each process has a host of its own",
        ["{hosts: [a, a]}", "{hosts: ['a:1', b, 'a:1']}"],
        ["{hosts: [a, b]}", "{hosts: ['a:1', 'a:2']}", "{hosts: []}"],
    ),
    (
        TrainConfig,
        "augment",
        "mixes two examples that the others have changed",
        ["{augment: [{kind: mixup}, {kind: flip}]}", "{augment: [{kind: cutmix}, {kind: mixup}]}"],
        [
            *(f"{{augment: [{{kind: {kind}}}, {{kind: mixup}}]}}" for kind in UNMIXED),
            "{augment: [{kind: cutmix}]}",
            "{augment: []}",
        ],
    ),
    (
        TrainConfig,
        "batch_size",
        "must divide by replicas x accumulate = 6",
        [
            "{batch_size: 5, accumulate: 3, strategy: {kind: mirrored}}",
            "{batch_size: 3, accumulate: 3, strategy: {kind: mirrored}}",
            "{batch_size: 4, accumulate: 3, strategy: {kind: mirrored}}",
            f"{{batch_size: 7, accumulate: 6, {PIPELINE}}}",
        ],
        [
            "{batch_size: 6, accumulate: 3, strategy: {kind: mirrored}}",
            "{batch_size: 12, accumulate: 3, strategy: {kind: mirrored}}",
            f"{{batch_size: 6, accumulate: 6, {PIPELINE}}}",
        ],
    ),
    (
        TrainConfig,
        "batch_size",
        "must divide by replicas x accumulate x micro_batches = 6",
        [
            "{batch_size: 3, accumulate: 3, strategy: {kind: pipeline, micro_batches: 2}}",
            "{batch_size: 2, accumulate: 3, strategy: {kind: pipeline, micro_batches: 2}}",
        ],
        ["{batch_size: 6, accumulate: 3, strategy: {kind: pipeline, micro_batches: 2}}"],
    ),
    *[
        (
            TrainConfig,
            name,
            "where no process has a whole replica",
            [f"{{{name}: true, {PIPELINE}}}", f"{{{name}: true, {SERVERS}}}"],
            [
                *(f"{{{name}: true, strategy: {{kind: {kind}}}}}" for kind in WHOLE),
                f"{{{name}: false, {PIPELINE}}}",
                f"{{{name}: false, {SERVERS}}}",
            ],
        )
        for name in ("fit_memory", "remat")
    ],
    (
        TrainConfig,
        "jit",
        "XLA compiles for one device",
        [f"{{jit: true, {PIPELINE}}}", f"{{jit: true, {SERVERS}}}"],
        [f"{{jit: false, {PIPELINE}}}", *(f"{{jit: true, strategy: {{kind: {kind}}}}}" for kind in WHOLE)],
    ),
    (
        TrainConfig,
        "order",
        "makes batches of several lengths, and tpu compiles for one",
        ["{order: lengths, strategy: {kind: tpu}}"],
        [
            "{order: blocks, strategy: {kind: tpu}}",
            "{order: shuffled, strategy: {kind: tpu}}",
            *(f"{{order: lengths, strategy: {{kind: {kind}}}}}" for kind in WHOLE if kind != "tpu"),
            f"{{order: lengths, {PIPELINE}}}",
            f"{{order: lengths, {SERVERS}}}",
        ],
    ),
    *[
        (
            TrainConfig,
            "evaluate",
            says,
            [f"{{evaluate: sidecar, {setting}}}"],
            [f"{{evaluate: inline, {setting}}}", "{evaluate: sidecar}"],
        )
        for setting, says in [
            ("early_stopping: {}", "its scores come when the training has gone on"),
            (f"cluster: {{}}, {WORKERS}", "is a process of the chief's host"),
            ("on_spike: rollback", "scores steps that train.on_spike may undo"),
            ("lora: {}", "gets merged weights"),
        ]
    ],
    (
        TrainConfig,
        "continue_from",
        "has no checkpoints any more",
        ["{on_spike: rollback, continue_from: abc}"],
        ["{on_spike: rollback}", "{continue_from: abc}"],
    ),
    (
        TrainConfig,
        "continue_from",
        "promises the bytes of one longer training",
        [f"{{continue_from: abc, {SERVERS}}}"],
        [
            f"{{{SERVERS}}}",
            f"{{continue_from: abc, {PIPELINE}}}",
            *(f"{{continue_from: abc, strategy: {{kind: {kind}}}}}" for kind in WHOLE),
        ],
    ),
    (
        TrainConfig,
        "optimizer.kind",
        "needs whole matrices",
        [f"{{optimizer: {{kind: {kind}}}, {SERVERS}}}" for kind in ("lamb", "muon", "adafactor")],
        [
            *(f"{{optimizer: {{kind: {kind}}}, {SERVERS}}}" for kind in OF_PIECES),
            *(f"{{optimizer: {{kind: {kind}}}, {WORKERS}}}" for kind in ("lamb", "muon", "adafactor")),
        ],
    ),
    *[
        (
            TrainConfig,
            setting.partition(":")[0],
            "is not there for parameter_server",
            [f"{{{setting}, {SERVERS}}}"],
            [f"{{{setting}, {WORKERS}}}"],
        )
        for setting in ("ema: 0.9", "layer_rates: {a: 2}", "lora: {}", "on_spike: rollback")
    ],
    (
        TrainConfig,
        "freeze",
        "train.lora freezes all layers but those it names",
        ["{lora: {}, freeze: [a]}"],
        ["{lora: {}, freeze: []}", "{freeze: [a]}"],
    ),
    (
        TrainConfig,
        "cluster",
        "is for several processes",
        [f"{{cluster: {{}}, strategy: {{kind: {kind}}}}}" for kind in ("one_device", "mirrored", "tpu", "pipeline")],
        [
            f"{{cluster: {{}}, {WORKERS}}}",
            "{cluster: {}, strategy: {kind: horovod}}",
            "{cluster: {}, strategy: {kind: parameter_server, workers: 1}}",
            "{strategy: {kind: mirrored}}",
        ],
    ),
    (
        TrainConfig,
        "cluster.hosts",
        "of 2 processes needs as many hosts",
        [f"{{cluster: {{hosts: [a]}}, {WORKERS}}}", f"{{cluster: {{hosts: [a, b, c]}}, {WORKERS}}}"],
        [f"{{cluster: {{hosts: [a, b]}}, {WORKERS}}}", f"{{cluster: {{hosts: []}}, {WORKERS}}}"],
    ),
    (
        TrainConfig,
        "",
        "needs exactly one of steps and epochs",
        ["{epochs: 1}", "{steps: null}"],
        ["{steps: 1}", "{steps: null, epochs: 1}"],
    ),
    (
        TrainConfig,
        "schedule.warmup",
        "must not pass the 9 steps",
        ["{schedule: {warmup: 10}}"],
        ["{schedule: {warmup: 9}}", "{steps: null, epochs: 1, schedule: {warmup: 10}}"],
    ),
    (
        TrainConfig,
        "tensorboard.trace",
        "the training ends before it, after 9 steps",
        ["{tensorboard: {trace: [9, 20]}}", "{tensorboard: {trace: [10, 21]}}"],
        [
            "{tensorboard: {trace: [8, 20]}}",
            "{tensorboard: {trace: [10, 20]}}",
            "{tensorboard: false}",
            "{steps: null, epochs: 1, tensorboard: {trace: [11, 20]}}",
        ],
    ),
    (
        TrainConfig,
        "select",
        "is the mean of the weights of several trainings",
        ["{select: average}", "{select: average, seeds: 1}"],
        ["{select: average, seeds: 2}", "{select: best, seeds: 1}", "{select: last, seeds: 1}"],
    ),
    (
        TrainConfig,
        "continue_from",
        "goes on with one training and its seed",
        ["{seeds: 2, continue_from: abc}"],
        ["{seeds: 1, continue_from: abc}", "{seeds: 2}"],
    ),
    (
        TrainConfig,
        "label_smoothing",
        "is ignored by a loss of yours",
        ["{loss: 'a:b', label_smoothing: 1e-9}"],
        ["{loss: 'a:b', label_smoothing: 0}", "{loss: cross_entropy, label_smoothing: 0.1}", "{label_smoothing: 0.1}"],
    ),
    # evaluate
    (
        ThresholdConfig,
        "",
        "needs exactly one of maximize, recall_at_precision, precision_at_recall, recall_at_false_positive_rate",
        [
            "{}",
            "{maximize: f1, recall_at_precision: 0.9}",
            "{precision_at_recall: 0.9, recall_at_false_positive_rate: 0.1}",
        ],
        [
            "{maximize: f1}",
            "{recall_at_precision: 0.9}",
            "{precision_at_recall: 0.9}",
            "{recall_at_false_positive_rate: 0.1}",
        ],
    ),
    # gates, compress, export
    (
        AbsoluteGate,
        "",
        "needs exactly one of at_least and at_most",
        ["{}", "{at_least: 0, at_most: 1}", "{at_least: 1, at_most: 1}"],
        ["{at_least: 0}", "{at_most: 1}"],
    ),
    (
        AbsoluteGate,
        "at_least",
        "asks for a large",
        [f"{{metric: {name}, at_least: 1}}" for name in ("bytes", "gzip_bytes", "peak_bytes", "latency")],
        ["{metric: bytes, at_most: 1}", "{metric: accuracy, at_least: 1}", "{at_least: 1}"],
    ),
    (
        FloatGate,
        "max_loss",
        "is ignored for",
        [f"{{metric: {name}, max_loss: 0}}" for name in ("bytes", "gzip_bytes", "peak_bytes", "latency")],
        ["{metric: bytes}", "{metric: loss, max_loss: 0}", "{max_loss: 0}"],
    ),
    (
        FloatGate,
        "max_ratio",
        "is ignored for a metric of quality",
        ["{max_ratio: 1}", "{metric: loss, max_ratio: 1}"],
        ["{metric: bytes, max_ratio: 1}", "{metric: latency, max_ratio: 1}", "{}"],
    ),
    (FloatGate, "max_loss", "loss has no default", ["{metric: loss}"], ["{metric: loss, max_loss: 0}", "{}"]),
    (
        FloatGate,
        "max_ratio",
        "latency has no default",
        ["{metric: latency}"],
        ["{metric: latency, max_ratio: 0.1}", "{metric: bytes}"],
    ),
    (
        WantConfig,
        "",
        "wants nothing",
        ["{}", "{bytes: null, latency: null}"],
        ["{bytes: 1}", "{latency: 0.1}", "{quality_loss: 0}"],
    ),
    (
        WantConfig,
        "bytes",
        "must be a size",
        ["{bytes: '5'}", "{bytes: kB}", "{bytes: 2XB}", "{bytes: 2Mb}", "{bytes: ''}"],
        ["{bytes: 5B}", "{bytes: 2 kB}", "{bytes: ' 2MB '}", "{bytes: 1e3B}", "{bytes: 1KiB}", "{bytes: 5}"],
    ),
    (
        WantConfig,
        "bytes",
        "must be at least one byte",
        ["{bytes: 0B}", "{bytes: 0.999B}", "{bytes: -1B}", "{bytes: 0.0009kB}", "{bytes: nanB}"],
        ["{bytes: 1B}", "{bytes: 0.001kB}", "{bytes: 9223372036854774784B}"],
    ),
    (
        WantConfig,
        "bytes",
        "less than 8 EiB",
        ["{bytes: 9223372036854775808B}", "{bytes: infB}"],
        ["{bytes: 9223372036854774784B}"],
    ),
    (
        Prune,
        "share",
        "is ignored by pattern 2:4",
        ["{pattern: '2:4', share: 0.51}", "{pattern: '2:4', share: 0.49}"],
        ["{pattern: '2:4', share: 0.5}", "{pattern: any, share: 0.51}"],
    ),
    (
        Prune,
        "scope",
        "is ignored by pattern 2:4",
        ["{pattern: '2:4', scope: layer}"],
        ["{pattern: '2:4', scope: global}", "{pattern: any, scope: layer}"],
    ),
    (
        Prune,
        "ramp",
        "is the share of the steps of a fine_tune that is not there",
        ["{ramp: 0.51}", "{ramp: 0.49}"],
        ["{ramp: 0.5}", "{ramp: 0.51, fine_tune: {steps: 1}}"],
    ),
    (
        Distill,
        "hidden_weight",
        "is the factor of the layers in hidden",
        ["{hidden: {a: b}, hidden_weight: 0}"],
        ["{hidden: {a: b}, hidden_weight: 1e-9}", "{hidden: {a: b}}"],
    ),
    (
        Distill,
        "weight",
        "is the factor of all that the student learns from the teacher",
        ["{weight: 0}"],
        ["{weight: 1e-9}", "{weight: 0, hidden: {a: b}}"],
    ),
    (
        Distill,
        "temperature",
        "is of the divergence of the outputs, whose weight is 0",
        ["{weight: 0, hidden: {a: b}, temperature: 4.1}", "{weight: 0, hidden: {a: b}, temperature: 3.9}"],
        ["{weight: 0, hidden: {a: b}, temperature: 4}", "{weight: 1e-9, hidden: {a: b}, temperature: 4.1}"],
    ),
    (
        Distill,
        "hidden_weight",
        "is the factor of layers that are not named",
        ["{hidden_weight: 0}", "{hidden_weight: 1.1}"],
        ["{hidden_weight: 1}", "{hidden_weight: 1.1, hidden: {a: b}}"],
    ),
    (
        Distill,
        "student.task",
        "its outputs are no logits of probabilities",
        ["{student: {kind: mlp, task: regression}}"],
        ["{student: {kind: mlp, task: classification}}", "{student: {kind: mlp, task: multilabel}}"],
    ),
    (
        LowRank,
        "",
        "needs exactly one of rank and energy",
        ["{}", "{rank: 1, energy: 0.5}"],
        ["{rank: 1}", "{energy: 0.5}"],
    ),
    (
        PruneStructured,
        "share",
        "leaves nothing out",
        ["{share: 0}", "{share: 0, heads: 0}"],
        ["{share: 1e-9}", "{share: 0, heads: 1e-9}", "{share: 0.1, heads: 0}"],
    ),
    (
        CompressConfig,
        "methods",
        "changes the finished file",
        [*(f"{{methods: [[{kind}, prune]]}}" for kind in ON_FILE), "{methods: [[float16, float16]]}"],
        [
            *(f"{{methods: [[prune, {kind}]]}}" for kind in ON_FILE),
            *(f"{{methods: [[{method}, float16]]}}" for method in ("prune", "cluster", QAT, RANKS, STUDENT, UNITS)),
            "{methods: [int8_dynamic, prune]}",
        ],
    ),
    (
        CompressConfig,
        "methods",
        "trains all weights",
        [
            f"{{methods: [[prune, {QAT}]]}}",
            f"{{methods: [[cluster, {RANKS}]]}}",
            f"{{methods: [[{QAT}, {RANKS}]]}}",
            f"{{methods: [[{QAT}, {ZEROS}]]}}",
            f"{{methods: [[prune, {UNITS}]]}}",
            f"{{methods: [[prune, cluster, {QAT}]]}}",
        ],
        [
            *(f"{{methods: [[{method}, {QAT}]]}}" for method in (RANKS, UNITS, STUDENT)),
            f"{{methods: [[{QAT}, prune]]}}",
            "{methods: [[prune, cluster]]}",
            "{methods: [[prune, {kind: prune, share: 0.6, fine_tune: {steps: 1}}]]}",
            f"{{methods: [[prune, {STUDENT}]]}}",
            f"{{methods: [[prune, {STUDENT}, {QAT}]]}}",
        ],
    ),
    (
        CompressConfig,
        "methods",
        "qat rounds weights to 8 bits, and ",
        [
            f"{{methods: [[{QAT8}, {kind}]]}}"
            for kind in ON_FILE
            if kind in ("gptq", "int4_dynamic", "int4_weight_only")
        ],
        [
            *(f"{{methods: [[{QAT8}, {kind}]]}}" for kind in ON_FILE if kind.startswith(("int8", "float"))),
            *(f"{{methods: [[{QAT}, {kind}]]}}" for kind in ON_FILE),
        ],
    ),
    (
        CompressConfig,
        "methods",
        "qat rounds the weights of a channel by one scale",
        [f"{{methods: [[{QAT}, {{kind: int4_dynamic, block: 32}}]]}}"],
        [
            f"{{methods: [[{QAT}, {{kind: int4_dynamic, block: null}}]]}}",
            "{methods: [{kind: int4_dynamic, block: 32}]}",
        ],
    ),
    (
        CompressConfig,
        "methods",
        "qat rounds weights as a method that quantises does",
        [f"{{methods: [[{QAT}, cluster]]}}"],
        [f"{{methods: [[{QAT}, prune]]}}", "{methods: [[prune, cluster]]}"],
    ),
    (
        CompressConfig,
        "gates",
        "judge compressed files",
        ["{methods: [], gates: [{kind: float}]}"],
        [
            "{methods: [], gates: []}",
            "{methods: [], gates: [{kind: float, metric: bytes}, {kind: float}]}",
            "{methods: [prune], gates: [{kind: float}]}",
            "{methods: [], search: {trials: 1}, gates: [{kind: float}]}",
        ],
    ),
    (
        CompressConfig,
        "undecided",
        "is of compressed files that gates judge",
        ["{methods: [], undecided: keep}", "{gates: [], undecided: keep}", "{gates: [], undecided: reject}"],
        [
            "{undecided: keep}",
            "{methods: [], undecided: keep_if_few}",
            "{gates: [], undecided: keep_if_few}",
            "{methods: [], search: {trials: 1}, undecided: keep}",
        ],
    ),
    *[
        (CompressConfig, "methods", f"is a name alone, and needs {needed}", [f"{{methods: {entry}}}"], [accepted])
        for entry, needed, accepted in [
            ("[qat]", "fine_tune", f"{{methods: [{QAT}]}}"),
            ("[prune, low_rank]", "fine_tune", f"{{methods: [prune, {RANKS}]}}"),
            ("[distill]", "fine_tune and student", f"{{methods: [{STUDENT}]}}"),
            ("[[prune_structured, prune]]", "fine_tune", "{methods: [[cluster, prune]]}"),
        ]
    ],
    (
        CompressConfig,
        "methods",
        "make 2 variants called prune_50",
        ["{methods: [prune, prune]}", "{methods: [prune, [prune]]}", "{methods: [prune, {kind: prune, share: 0.504}]}"],
        ["{methods: [prune, cluster]}", "{methods: [prune, {kind: prune, share: 0.506}]}"],
    ),
    (
        CompressConfig,
        "methods",
        "names the models of two entries, whose settings differ: share",
        ["{methods: [[{kind: prune, share: 0.501}, float16], [prune, int8_dynamic]]}"],
        [
            "{methods: [[prune, float16], [prune, int8_dynamic]]}",
            "{methods: [[{kind: prune, share: 0.506}, float16], [prune, int8_dynamic]]}",
        ],
    ),
    (
        ExportConfig,
        "formats",
        "must name saved_model",
        ["{formats: [litert]}", "{formats: []}"],
        ["{formats: [saved_model]}"],
    ),
    (
        ExportConfig,
        "formats",
        "must name each format once",
        ["{formats: [saved_model, litert, saved_model]}"],
        ["{formats: [saved_model, litert, keras]}"],
    ),
    # tune
    *[
        (
            section,
            "high",
            "must be above low = 1",
            ["{low: 1, high: 1}", "{low: 1, high: 0}"],
            ["{low: 1, high: 2}", "{low: -1, high: 1}"],
        )
        for section in (FloatRange, IntRange)
    ],
    (FloatRange, "high", "must be above low = 1", ["{low: 1, high: 0.999}"], ["{low: 1, high: 1.001}"]),
    *[
        (
            section,
            "low",
            "must be above 0 where log is true",
            ["{low: 0, high: 3, log: true}", "{low: -1, high: 3, log: true}"],
            ["{low: 0, high: 3}", "{low: 1, high: 3, log: true}"],
        )
        for section in (FloatRange, IntRange)
    ],
    (FloatRange, "low", "must be above 0", ["{low: 0, high: 1, log: true}"], ["{low: 1e-9, high: 1, log: true}"]),
    *[
        (section, "step", "is larger than the range, 2", ["{high: 2, step: 3}"], ["{high: 2, step: 2}", "{high: 2}"])
        for section in (FloatRange, IntRange)
    ],
    (FloatRange, "step", "is larger", ["{low: 0.1, high: 0.3, step: 0.201}"], ["{low: 0.1, high: 0.3, step: 0.2}"]),
    (
        IntRange,
        "high",
        "is not reached from low = 1 by steps of 3",
        ["{low: 1, high: 5, step: 3}", "{low: 1, high: 6, step: 3}"],
        ["{low: 1, high: 4, step: 3}", "{low: 1, high: 7, step: 3}"],
    ),
    (
        FloatRange,
        "high",
        "is not reached from low = 0.1 by steps of 0.1",
        ["{low: 0.1, high: 0.35, step: 0.1}"],
        ["{low: 0.1, high: 0.3, step: 0.1}", "{low: 0.1, high: 0.35}"],
    ),
    (
        FloatRange,
        "step",
        "is for a linear scale",
        ["{low: 1, high: 3, step: 1, log: true}"],
        ["{low: 1, high: 3, step: 1}", "{low: 1, high: 3, log: true}"],
    ),
    (
        IntRange,
        "step",
        "is for a linear scale",
        ["{low: 1, high: 3, step: 2, log: true}"],
        ["{low: 1, high: 3, step: 2}", "{low: 1, high: 3, step: 1, log: true}"],
    ),
    (HyperbandPruner, "first", "must be below last = 9", ["{first: 9}", "{first: 10}"], ["{first: 8}"]),
    (
        TuneConfig,
        "storage",
        "a secret must be a reference",
        ["{storage: 'postgresql://host/db'}", "{storage: 'env:1'}", "{storage: 'file:'}"],
        ["{storage: 'env:A1'}", "{storage: 'file:x'}", "{storage: null}"],
    ),
    (
        TuneConfig,
        "trials",
        "a search needs an end",
        ["{trials: null}", "{trials: null, sampler: {kind: random}}"],
        ["{trials: 1}", "{trials: null, minutes: 0.1}", "{trials: null, sampler: {kind: grid}}"],
    ),
    (
        TuneConfig,
        "space.a",
        "a grid needs a finite number of values",
        ["{sampler: {kind: grid}, space: {a: {kind: float, low: 0, high: 1}}}"],
        [
            "{sampler: {kind: grid}, space: {a: {kind: float, low: 0, high: 1, step: 0.5}}}",
            "{sampler: {kind: random}, space: {a: {kind: float, low: 0, high: 1}}}",
        ],
    ),
    (
        TuneConfig,
        "space",
        "a grid has at most 10,000 trials",
        [
            "{sampler: {kind: grid}, space: {a: {kind: int, low: 0, high: 10000}}}",
            "{sampler: {kind: grid}, space: {a: {kind: int, low: 1, high: 5001}, b: {kind: choice, values: [1, 2]}}}",
        ],
        [
            "{sampler: {kind: grid}, space: {a: {kind: int, low: 1, high: 10000}}}",
            "{sampler: {kind: grid}, space: {a: {kind: int, low: 1, high: 5000}, b: {kind: choice, values: [1, 2]}}}",
            "{sampler: {kind: random}, space: {a: {kind: int, low: 0, high: 10000}}}",
        ],
    ),
    # notify
    *[
        (
            NotifyConfig,
            name,
            "a secret must be a reference",
            [f"{{{more}{name}: '{value}'}}" for value in ("http://host", "env:1", "xenv:A")],
            [f"{{{more}{name}: '{value}'}}" for value in ("env:_1", "file:x")],
        )
        for name, more in (("webhook", ""), ("mail_server", "mail_to: [a], "))
    ],
    (
        NotifyConfig,
        "mail_server",
        "is needed beside notify.mail_to",
        ["{mail_to: [a]}"],
        ["{mail_to: []}", "{mail_to: [a], mail_server: 'env:A'}"],
    ),
    (
        NotifyConfig,
        "mail_to",
        "is needed beside notify.mail_server",
        ["{mail_server: 'env:A'}", "{mail_server: 'env:A', mail_to: []}"],
        ["{webhook: 'env:A'}"],
    ),
    # where sections meet
    (
        Config,
        "model.balance_weight",
        "train.remat computes no loss but that of the outputs",
        ["{snapshot: {kind: tokens}, model: {kind: transformer, experts: 2}, train: {steps: 9, remat: true}}"],
        ["{snapshot: {kind: tokens}, model: {kind: transformer, experts: 2}, train: {steps: 9, remat: false}}"],
    ),
    (
        Config,
        "model.weights",
        "train.init names the weights",
        ["{model: {kind: keras_file, path: a.keras, weights: true}, train: {steps: 9, init: {kind: champion}}}"],
        ["{model: {kind: keras_file, path: a.keras, weights: true}}"],
    ),
    (
        Config,
        "train.seeds",
        "a trial is one training, of one seed",
        [f"{{train: {{steps: 9, seeds: 2}}, tune: {{trials: 1, space: {{{LR}}}}}}}"],
        [f"{{train: {{steps: 9, seeds: 1}}, tune: {{trials: 1, space: {{{LR}}}}}}}", "{train: {steps: 9, seeds: 2}}"],
    ),
    (
        Config,
        "model.kind",
        "reads snapshots of kind table",
        ["{model: {kind: encoder}}"],
        ["{model: {kind: encoder}, snapshot: {kind: table}}", "{model: {kind: mlp}}"],
    ),
    *[
        (
            Config,
            "model.kind",
            "reads snapshots of kind",
            [
                f"{{snapshot: {{kind: {kind}}}, model: {{{model}}}}}"
                for kind in ("image", "table", "tokens")
                if kind not in read
            ],
            [f"{{snapshot: {{kind: {kind}}}, model: {{{model}}}}}" for kind in read],
        )
        for model, read in [
            *((f"kind: {kind}", ["image"]) for kind in ("convnet", "resnet", "vit")),
            *((f"kind: {kind}", ["table"]) for kind in ("encoder", "dlrm", "convnet1d")),
            ("kind: mlp", ["image", "table"]),
            ("kind: transformer", ["tokens"]),
            ("kind: import, target: 'a:b'", ["image", "table", "tokens"]),
            ("kind: keras_file, path: a.keras", ["image", "table", "tokens"]),
        ]
    ],
    (
        Config,
        "compress.methods.kind",
        "reads snapshots of kind image",
        [
            "{model: {kind: mlp}, snapshot: {kind: table}, compress: {methods: "
            "[{kind: distill, student: {kind: convnet}, fine_tune: {steps: 1}}]}}"
        ],
        [f"{{model: {{kind: mlp}}, snapshot: {{kind: table}}, compress: {{methods: [{STUDENT}]}}}}"],
    ),
    (
        Config,
        "model.patch",
        "must divide 8 x 6 pixels",
        ["{model: {kind: vit}, snapshot: {kind: image, height: 8, width: 6}}"],
        ["{model: {kind: vit}, snapshot: {kind: image, height: 8, width: 4}}"],
    ),
    (
        Config,
        "compress.methods.patch",
        "must divide 28 x 28 pixels",
        ["{compress: {methods: [{kind: distill, student: {kind: vit, patch: 3}, fine_tune: {steps: 1}}]}}"],
        ["{compress: {methods: [{kind: distill, student: {kind: vit, patch: 7}, fine_tune: {steps: 1}}]}}"],
    ),
    (
        Config,
        "compress.want",
        "chooses among LiteRT files",
        ["{compress: {methods: [], want: {bytes: 9}}, export: {formats: [saved_model]}}"],
        [
            "{compress: {methods: []}, export: {formats: [saved_model]}}",
            "{compress: {methods: [prune], want: {bytes: 9}}, export: {formats: [saved_model]}}",
            "{compress: {methods: [], want: {bytes: 9}}, export: {formats: [saved_model, litert]}}",
            "{compress: {methods: [], search: {trials: 1}, want: {bytes: 9}}, export: {formats: [saved_model]}}",
        ],
    ),
    *[
        (Config, field, says, [f"{{{refused}}}"], [f"{{{accepted}}}"])
        for field, says, refused, accepted in [
            ("train.loss", "the losses of", "train: {steps: 9, loss: squared_error}", "train: {steps: 9, loss: null}"),
            ("evaluate.metrics", "the metrics of", "evaluate: {metrics: [rmse]}", "evaluate: {metrics: [loss]}"),
            (
                "compress.gates.0.metric",
                "is no metric of",
                "compress: {gates: [{kind: float, metric: rmse, max_loss: 1}]}",
                "compress: {gates: [{kind: float, metric: loss, max_loss: 1}]}",
            ),
            (
                "promote.gates.0.metric",
                "is no metric of",
                "promote: {gates: [{kind: champion, metric: rmse, max_loss: 1}]}",
                "promote: {gates: [{kind: champion, metric: loss, max_loss: 1}]}",
            ),
            (
                "tune.direction",
                "accuracy is better where it is higher",
                f"tune: {{trials: 1, direction: minimize, space: {{{LR}}}}}",
                f"tune: {{trials: 1, direction: maximize, space: {{{LR}}}}}",
            ),
            (
                "tune.pruner.warmup",
                "a training ends before it, after 9 steps",
                f"tune: {{trials: 1, pruner: {{kind: median, warmup: 9}}, space: {{{LR}}}}}",
                f"tune: {{trials: 1, pruner: {{kind: median, warmup: 8}}, space: {{{LR}}}}}",
            ),
        ]
    ],
    *[
        (
            Config,
            f"{gates}.gates.0.kind",
            "judges slices, and a report of multilabel has none",
            [f"{{model: {{kind: mlp, task: multilabel}}, {gates}: {{gates: [{{kind: slices, max_loss: 1}}]}}}}"],
            [
                f"{{model: {{kind: mlp, task: multilabel}}, evaluate: {{slices: [a]}}, "
                f"{gates}: {{gates: [{{kind: slices, max_loss: 1}}]}}}}",
                f"{{{gates}: {{gates: [{{kind: slices, max_loss: 1}}]}}}}",
            ],
        )
        for gates in ("compress", "promote")
    ],
]

SPACES: list[tuple[str, str, list[str], list[str]]] = [
    (
        "seed",
        "all trials are made of one snapshot",
        ["{space: {seed: {kind: choice, values: [1, 2]}}}"],
        [f"{{space: {{{LR}}}}}", "{space: {model.dense: {kind: choice, values: [8, 9]}}}"],
    ),
    (
        "snapshot.height",
        "all trials are made of one snapshot",
        ["{space: {snapshot.height: {kind: choice, values: [8, 9]}}}"],
        ["{space: {model.dropout: {kind: float, low: 0, high: 0.5}}}"],
    ),
    (
        "model.task",
        "trials of different tasks cannot be compared",
        ["{space: {model.task: {kind: choice, values: [classification, multilabel]}}}"],
        ["{space: {model: {kind: choice, values: [{kind: mlp}, {kind: convnet}]}}}"],
    ),
    (
        "train.seeds",
        "a trial is one training, of one seed",
        ["{space: {train.seeds: {kind: choice, values: [1]}}}"],
        ["{space: {train.steps: {kind: choice, values: [1, 2]}}}"],
    ),
    (
        "train.init",
        "the champion is looked up once",
        ["{space: {train.init: {kind: choice, values: [null, {kind: champion}]}}}"],
        [
            "{space: {train.init: {kind: choice, values: [null, {kind: model, model: abc}]}}}",
            f"{{space: {{{LR}}}, train: {{steps: 9, init: {{kind: champion}}}}}}",
        ],
    ),
    (
        "train",
        "the champion is looked up once",
        ["{space: {train: {kind: choice, values: [{steps: 1}, {steps: 1, init: {kind: champion}}]}}}"],
        ["{space: {train: {kind: choice, values: [{steps: 1}, {steps: 1, init: {kind: model, model: abc}}]}}}"],
    ),
    (
        "train.init.kind",
        "the champion is looked up once",
        [
            "{space: {train.init.kind: {kind: choice, values: [champion]}}, "
            "train: {steps: 9, init: {kind: model, model: abc}}}"
        ],
        [
            "{space: {train.init.kind: {kind: choice, values: [model]}}, "
            "train: {steps: 9, init: {kind: model, model: abc}}}"
        ],
    ),
    (
        "train.loss",
        "is looked for in train.folder",
        ["{space: {train.loss: {kind: choice, values: [cross_entropy, 'a:b']}}}"],
        [
            "{space: {train.loss: {kind: choice, values: [cross_entropy, 'a:b']}}, "
            "train: {steps: 9, loss: 'a:c', folder: x}}",
            "{space: {train: {kind: choice, values: [{steps: 1}, {steps: 1, loss: 'a:b', folder: x}]}}}",
        ],
    ),
    (
        "train.log_every",
        "changes no model by itself",
        ["{space: {train.log_every: {kind: choice, values: [1, 2]}}}"],
        [
            "{space: {train.log_every: {kind: choice, values: [1]}}}",
            "{space: {train.learning_rate: {kind: choice, values: [0.1, 0.1, 0.2]}}}",
            "{space: {model.filters: {kind: choice, values: [[8], [9]]}}}",
        ],
    ),
    (
        "train.init.path",
        "changes no model by itself",
        [
            "{space: {train.init.path: {kind: choice, values: [a.keras, a.keras]}}, "
            "train: {steps: 9, init: {kind: file, path: b.keras}}}"
        ],
        [
            "{space: {train.init.path: {kind: choice, values: [a.keras, b.keras]}}, "
            "train: {steps: 9, init: {kind: file, path: b.keras}}}",
            "{space: {train.init.model: {kind: choice, values: [abc, abd]}}, "
            "train: {steps: 9, init: {kind: model, model: abc}}}",
            "{space: {model.path: {kind: choice, values: [a.keras, b.keras]}}, "
            "model: {kind: keras_file, path: c.keras}}",
        ],
    ),
    (
        "train.batch_size",
        "greater than or equal to 1",
        ["{space: {train.batch_size: {kind: int, low: 0, high: 4}}}"],
        ["{space: {train.batch_size: {kind: int, low: 1, high: 4}}}"],
    ),
    (
        "train.accumulate (3), train.batch_size",
        "must divide by replicas x accumulate = 3",
        ["{space: {train.accumulate: {kind: choice, values: [2, 3]}, train.steps: {kind: int, low: 1, high: 2}}}"],
        [f"{{space: {{{LR}}}, train: {{steps: 9, accumulate: 4}}}}"],
    ),
    ("rate.x (1), rate", "unknown key of the preset", ["{space: {rate.x: {kind: choice, values: [1]}}}"], []),
]
"""A key of `tune.space`, with what follows of the field, a piece of the rule, what is refused by it, and what is not;
in these configs `space` is `tune.space`."""


def tuned(text: str) -> Config:
    values = read_yaml(text)
    tune = {"trials": 1, "space": values.pop("space")}
    return Config.model_validate({"name": "a", "train": {"steps": 9}, **values, "tune": tune})


@pytest.mark.parametrize(
    ("section", "text", "field", "says"),
    [(section, text, field, says) for section, field, says, refused, _ in RULES for text in refused],
)
def test_what_is_just_beyond_a_rule_is_refused(section: type[Section], text: str, field: str, says: str) -> None:
    assert_refused(lambda: made(section, text), field, says)


@pytest.mark.parametrize(
    ("section", "text"), [(section, text) for section, _, _, _, accepted in RULES for text in accepted]
)
def test_what_is_just_within_a_rule_is_accepted(section: type[Section], text: str) -> None:
    assert isinstance(made(section, text), section)


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [(text, f"tune.space.{key}", says) for key, says, refused, _ in SPACES for text in refused],
)
def test_a_key_that_no_trial_can_have_is_refused(text: str, field: str, says: str) -> None:
    assert_refused(lambda: tuned(text), field, says)


@pytest.mark.parametrize("text", [text for _, _, _, accepted in SPACES for text in accepted])
def test_a_key_that_each_trial_can_have_is_accepted(text: str) -> None:
    assert tuned(text).tune


def train(text: str = "{}") -> TrainConfig:
    return made(TrainConfig, text)


Call = tuple[Any, ...]
"""A section, and what its function is called with."""

FITS: list[tuple[Any, str, str, str, Sequence[Call], Sequence[Call]]] = [
    (
        ConvnetModel,
        "fit_image",
        "filters",
        "pixels have room for 2",
        [("{filters: [1, 1, 1]}", 7, 8), ("{filters: [1, 1, 1]}", 8, 7), ("{filters: [1, 1, 1]}", 4, 4)],
        [("{filters: [1, 1, 1]}", 8, 8), ("{filters: [1, 1]}", 4, 7), ("{filters: [1, 1]}", 7, 4)],
    ),
    (
        ConvnetModel,
        "fit_image",
        "filters",
        "pixels have room for 0",
        [("{filters: [1]}", 1, 8), ("{filters: [1]}", 8, 1)],
        [("{filters: [1]}", 2, 2)],
    ),
    (
        ResNetModel,
        "fit_image",
        "groups",
        "must divide the 12 filters",
        [("{filters: 12, groups: 8}", 8, 8), ("{filters: 12, groups: 24}", 8, 8)],
        [("{filters: 12, groups: 12}", 8, 8), ("{filters: 12, groups: 6}", 8, 8)],
    ),
    (
        ResNetModel,
        "fit_image",
        "blocks",
        "pixels have room for 3",
        [("{blocks: [1, 1, 1, 1]}", 7, 8), ("{blocks: [1, 1, 1, 1]}", 8, 7), ("{blocks: [1, 1, 1, 1]}", 4, 4)],
        [("{blocks: [1, 1, 1, 1]}", 8, 8), ("{blocks: [1, 1, 1]}", 4, 7), ("{blocks: [1, 1, 1]}", 7, 4)],
    ),
    (
        ViTModel,
        "fit_image",
        "patch",
        "must divide 10 x 8 pixels",
        [("{patch: 4}", 10, 8), ("{patch: 5}", 10, 8)],
        [("{patch: 4}", 12, 8), ("{patch: 2}", 10, 8)],
    ),
    (
        ViTModel,
        "fit_image",
        "patch",
        "must divide 8 x 10 pixels",
        [("{patch: 4}", 8, 10), ("{patch: 5}", 8, 10)],
        [("{patch: 4}", 8, 12), ("{patch: 8}", 8, 8)],
    ),
    (
        TransformerModel,
        "fit_training",
        "balance_weight",
        "computes no loss but that of the outputs",
        [
            ("{experts: 2}", OneDevice(), True),
            ("{experts: 2}", Pipeline(), False),
            ("{experts: 2}", ParameterServer(), False),
            ("{experts: 2, balance_weight: 1e-9}", Pipeline(), True),
        ],
        [
            ("{experts: 2}", OneDevice(), False),
            *(("{experts: 2}", each, False) for each in (Mirrored(), MultiWorker(), Horovod(), Tpu())),
            ("{experts: 2, balance_weight: 0}", OneDevice(), True),
            ("{experts: 2, balance_weight: 0}", Pipeline(), False),
            ("{experts: 0}", OneDevice(), True),
            ("{experts: 0}", Pipeline(), False),
        ],
    ),
    (
        TransformerModel,
        "fit_training",
        "balance_weight",
        "train.remat computes",
        [("{experts: 2}", Pipeline(), True), ("{experts: 2}", Mirrored(), True)],
        [],
    ),
    (
        TransformerModel,
        "fit_training",
        "balance_weight",
        "parameter_server computes",
        [("{experts: 2}", ParameterServer(), False)],
        [],
    ),
    (
        KerasFileModel,
        "fit_start",
        "weights",
        "a.json has an architecture alone",
        [("{path: a.json, weights: true}", False), ("{path: a.json, weights: true}", True)],
        [("{path: a.json}", False), ("{path: a.json}", True), ("{path: a.keras, weights: true}", False)],
    ),
    (
        KerasFileModel,
        "fit_start",
        "weights",
        "train.init names the weights",
        [("{path: a.keras, weights: true}", True)],
        [("{path: a.keras, weights: true}", False), ("{path: a.keras}", True)],
    ),
    *[
        (section, "check", "warmup", "must not pass the 8 steps", [("{warmup: 9}", 8)], [("{warmup: 9}", 9), ("{}", 1)])
        for section in (Constant, Cosine)
    ],
    (
        Piecewise,
        "check",
        "warmup",
        "must not pass the 8 steps",
        [("{warmup: 9, boundaries: [10], factors: [1]}", 8)],
        [("{warmup: 8, boundaries: [9], factors: [1]}", 10)],
    ),
    (
        Piecewise,
        "check",
        "boundaries",
        "the training ends before it, after 8 steps",
        [("{boundaries: [2, 8], factors: [1, 1]}", 8), ("{boundaries: [9], factors: [1]}", 8)],
        [("{boundaries: [2, 7], factors: [1, 1]}", 8)],
    ),
    *[
        (
            section,
            "fit_steps",
            name,
            "a training ends before it, after 8 steps",
            [(f"{{{name}: 8, {more}}}", 8), (f"{{{name}: 9, {more}}}", 8)],
            [(f"{{{name}: 7, {more}}}", 8)],
        )
        for section, name, more in [
            (MedianPruner, "warmup", "startup: 9"),
            (HalvingPruner, "first", "factor: 9"),
            (HyperbandPruner, "first", "last: 99"),
        ]
    ],
    (NoPruner, "fit_steps", "", "", [], [("{}", 1)]),
    (
        TuneConfig,
        "fit_steps",
        "tune.pruner.warmup",
        "a training ends before it, after 8 steps",
        [
            ("{pruner: {kind: median, warmup: 8}}", 8),
            ("{pruner: {kind: median, warmup: 8}, space: {train.steps: {kind: choice, values: [8, 3]}}}", 9),
            ("{pruner: {kind: median, warmup: 8}, space: {train.steps: {kind: int, low: 3, high: 8}}}", 9),
        ],
        [
            ("{pruner: {kind: median, warmup: 7}}", 8),
            ("{pruner: {kind: median, warmup: 8}}", None),
            ("{pruner: {kind: median, warmup: 8}, space: {train: {kind: choice, values: [{steps: 1}]}}}", 8),
            ("{pruner: {kind: median, warmup: 8}, space: {train.steps: {kind: choice, values: [9, 3]}}}", 1),
            ("{pruner: {kind: none}}", 1),
        ],
    ),
    (
        TuneConfig,
        "fit",
        "tune.direction",
        "loss is better where it is lower",
        [("{metric: loss, direction: maximize}", ("accuracy", True)), ("{direction: maximize}", ("loss", False))],
        [
            ("{metric: loss, direction: minimize}", ("accuracy", True)),
            ("{metric: loss}", ("accuracy", True)),
            ("{direction: minimize}", ("loss", False)),
        ],
    ),
    (
        TuneConfig,
        "fit",
        "tune.direction",
        "accuracy is better where it is higher",
        [("{direction: minimize}", ("accuracy", True))],
        [("{direction: maximize}", ("accuracy", True)), ("{}", ("accuracy", True))],
    ),
    (
        TrainConfig,
        "fit",
        "train.loss",
        "the losses of",
        [
            ("{loss: squared_error}", "classification"),
            ("{loss: binary_cross_entropy}", "classification"),
            ("{loss: cross_entropy}", "regression"),
        ],
        [
            ("{loss: cross_entropy}", "classification"),
            ("{loss: null}", "classification"),
            ("{loss: 'a:b'}", "classification"),
            ("{loss: absolute_error}", "regression"),
        ],
    ),
    (
        TrainConfig,
        "fit",
        "train.folder",
        "is ignored: the loss cross_entropy is none of yours",
        [("{folder: x}", "classification"), ("{folder: x, loss: cross_entropy}", "classification")],
        [("{folder: x, loss: 'a:b'}", "classification"), ("{loss: 'a:b'}", "classification")],
    ),
    (
        EvaluateConfig,
        "fit",
        "evaluate.metrics",
        "the metrics of classification are",
        [("{metrics: [rmse]}", "classification"), ("{metrics: [loss, micro_f1]}", "classification")],
        [("{metrics: [loss, accuracy]}", "classification"), ("{metrics: []}", "classification")],
    ),
    (
        EvaluateConfig,
        "fit",
        "evaluate.own_metrics",
        "is a metric of classification already",
        [
            (f"{{own_metrics: {{hit: 'a:b', {name}: 'a:b'}}}}", "classification")
            for name in ("accuracy", "macro_f1", "majority_accuracy")
        ],
        [("{own_metrics: {hit: 'a:b', rmse: 'a:b'}}", "classification")],
    ),
    (
        EvaluateConfig,
        "fit",
        "evaluate.folder",
        "is ignored without evaluate.own_metrics",
        [("{folder: x}", "classification")],
        [("{folder: x, own_metrics: {hit: 'a:b'}}", "classification"), ("{own_metrics: {h: 'a:b'}}", "classification")],
    ),
    (
        EvaluateConfig,
        "fit",
        "evaluate.own_metrics",
        "is not there for language_model",
        [("{own_metrics: {hit: 'a:b'}}", "language_model")],
        [("{}", "language_model"), ("{own_metrics: {hit: 'a:b'}}", "tagging")],
    ),
    *[
        (
            section,
            "fit",
            f"{name}.{setting.partition(':')[0]}",
            "is ignored by ",
            [(f"{{{setting}}}", task) for task in TASKS if task not in having],
            [*((f"{{{setting}}}", task) for task in having), *(("{}", task) for task in TASKS)],
        )
        for section, name, setting, having in [
            (TrainConfig, "train", "label_smoothing: 0.1", [task for task in TASKS if task != "regression"]),
            (TrainConfig, "train", "class_weights: balanced", ["classification", "tagging"]),
            (EvaluateConfig, "evaluate", "bins: 14", ["classification"]),
            (EvaluateConfig, "evaluate", "at: 9", ["ranking"]),
            (EvaluateConfig, "evaluate", "calibrate: temperature", ["classification", "multilabel", "anomaly"]),
            (EvaluateConfig, "evaluate", "threshold: {maximize: f1}", ["classification", "multilabel", "anomaly"]),
            (EvaluateConfig, "evaluate", "find_slices: true", [task for task in TASKS if task != "anomaly"]),
            (EvaluateConfig, "evaluate", "slices: [a]", [task for task in TASKS if task != "anomaly"]),
            (EvaluateConfig, "evaluate", "robustness: [noise]", [task for task in TASKS if task != "language_model"]),
            (EvaluateConfig, "evaluate", "groups: a", list(TASKS)),
            (EvaluateConfig, "evaluate", "sample_tokens: 0", ["language_model"]),
            (EvaluateConfig, "evaluate", "sample_temperature: 0.9", ["language_model"]),
            (EvaluateConfig, "evaluate", "sample_prompt: a", ["language_model"]),
        ]
    ],
    (
        EvaluateConfig,
        "fit",
        "evaluate.positive",
        "is ignored by multilabel",
        [("{positive: a, groups: b}", "multilabel")],
        [("{positive: a, groups: b}", "classification"), ("{groups: b}", "multilabel")],
    ),
    (
        AbsoluteGate,
        "fit",
        "gates.0.metric",
        "is no metric of classification",
        [
            (f"{{metric: {name}, at_most: 1}}", "classification", True, "gates.0")
            for name in ("rmse", "latency", "micro_f1")
        ],
        [
            *(
                (f"{{metric: {name}, at_most: 1}}", "classification", True, "gates.0")
                for name in ("loss", "accuracy", "bytes", "gzip_bytes", "peak_bytes")
            ),
            ("{at_most: 1}", "classification", False, "gates.0"),
            ("{metric: rmse, at_most: 1}", "regression", True, "gates.0"),
        ],
    ),
    (
        AbsoluteGate,
        "fit",
        "gates.0.metric",
        "has no interval",
        [("{metric: calibration_error, at_most: 1}", "classification", True, "gates.0")],
        [],
    ),
    (
        FloatGate,
        "fit",
        "gates.0.metric",
        "is no metric of classification",
        [("{metric: rmse, max_loss: 1}", "classification", True, "gates.0")],
        [
            (f"{{metric: {name}, max_ratio: 1}}", "classification", True, "gates.0")
            for name in ("bytes", "gzip_bytes", "peak_bytes", "latency")
        ],
    ),
    (
        ChampionGate,
        "fit",
        "gates.0.metric",
        "is no metric of classification",
        [("{metric: bytes}", "classification", True, "gates.0")],
        [("{metric: accuracy}", "classification", False, "gates.0")],
    ),
    (
        SlicesGate,
        "fit",
        "gates.0.kind",
        "a report of multilabel has none without evaluate.slices",
        [("{}", "multilabel", False, "gates.0")],
        [("{}", "multilabel", True, "gates.0")],
    ),
    (
        SlicesGate,
        "fit",
        "gates.0.metric",
        "is no metric of multilabel",
        [("{metric: rmse}", "multilabel", False, "gates.0"), ("{metric: rmse}", "multilabel", True, "gates.0")],
        [("{metric: loss}", "multilabel", True, "gates.0")],
    ),
    (
        PromoteConfig,
        "fit",
        "promote.gates.1.metric",
        "is no metric of regression",
        [
            (
                "{gates: [{kind: absolute, at_most: 1}, {kind: champion, metric: accuracy, max_loss: 1}]}",
                "regression",
                True,
            )
        ],
        [("{gates: [{kind: absolute, at_most: 1}, {kind: champion, metric: rmse, max_loss: 1}]}", "regression", True)],
    ),
    (
        PromoteConfig,
        "fit",
        "promote.gates.1.metric",
        "is of a file, and a version has several",
        [
            (
                f"{{gates: [{{kind: absolute, at_most: 1}}, {{kind: absolute, metric: {name}, at_most: 1}}]}}",
                "regression",
                True,
            )
            for name in ("bytes", "gzip_bytes", "peak_bytes")
        ],
        [("{gates: [{kind: absolute, at_most: 1}, {kind: absolute, metric: mae, at_most: 1}]}", "regression", True)],
    ),
    (
        CompressConfig,
        "fit",
        "compress.gates.1.metric",
        "is no metric of regression",
        [("{gates: [{kind: float}, {kind: float, metric: accuracy, max_loss: 1}]}", train(), "regression", True)],
        [("{gates: [{kind: float}, {kind: float, metric: rmse, max_loss: 1}]}", train(), "regression", True)],
    ),
    (
        CompressConfig,
        "fit",
        "compress.gates.0.kind",
        "judges slices",
        [("{gates: [{kind: slices, max_loss: 1}]}", train(), "multilabel", False)],
        [("{gates: [{kind: slices, max_loss: 1}]}", train(), "multilabel", True)],
    ),
    (
        CompressConfig,
        "fit",
        "compress.methods",
        "looks at one signature of a file",
        [
            *(
                (f"{{methods: [{kind}]}}", train(), "language_model", True)
                for kind in ("int8_static", "int8_selective")
            ),
            ("{methods: [float16, [prune, gptq]]}", train(), "language_model", True),
        ],
        [
            ("{methods: [gptq]}", train(), "classification", True),
            ("{methods: [gptq]}", train(), "tagging", True),
            *(
                (f"{{methods: [{kind}]}}", train(), "language_model", True)
                for kind in ON_FILE
                if kind not in ("int8_static", "int8_selective", "gptq")
            ),
            *(
                (f"{{methods: [{method}]}}", train(), "language_model", True)
                for method in ("prune", "cluster", QAT, RANKS, UNITS)
            ),
        ],
    ),
    (
        CompressConfig,
        "fit",
        "compress.methods",
        "trains a whole model in each process",
        [
            *(
                (f"{{methods: [{method}]}}", train(f"{{{SERVERS}}}"), "classification", True)
                for method in (QAT, RANKS, UNITS, ZEROS, STUDENT)
            ),
            (f"{{methods: [prune, [{QAT}, int4_dynamic]]}}", train(f"{{{SERVERS}}}"), "classification", True),
        ],
        [
            (f"{{methods: [{QAT}]}}", train(f"{{{WORKERS}}}"), "classification", True),
            ("{methods: [prune]}", train(f"{{{SERVERS}}}"), "classification", True),
        ],
    ),
    (
        CompressConfig,
        "fit",
        "compress.methods",
        "which pipeline does not compute",
        [(f"{{methods: [{STUDENT}]}}", train(f"{{{PIPELINE}}}"), "classification", True)],
        [
            *(
                (f"{{methods: [{method}]}}", train(f"{{{PIPELINE}}}"), "classification", True)
                for method in (QAT, RANKS, UNITS, ZEROS)
            )
        ],
    ),
    (
        CompressConfig,
        "fit",
        "compress.methods",
        "which train.remat does not compute",
        [(f"{{methods: [{STUDENT}]}}", train("{remat: true}"), "classification", True)],
        [
            (f"{{methods: [{STUDENT}]}}", train(), "classification", True),
            *(
                (f"{{methods: [{method}]}}", train("{remat: true}"), "classification", True)
                for method in (QAT, RANKS, UNITS, ZEROS)
            ),
        ],
    ),
    (
        CompressConfig,
        "fit",
        "compress.methods",
        "the student of distill has another task than the model",
        [(f"{{methods: [{STUDENT}]}}", train(), "multilabel", True)],
        [(f"{{methods: [{STUDENT}]}}", train(), "classification", True)],
    ),
]
"""A section, its function, the field that is refused, a piece of the rule, calls that are refused by it, others."""


@pytest.mark.parametrize(
    ("section", "function", "call", "field", "says"),
    [(section, function, call, *rest) for section, function, *rest, refused, _ in FITS for call in refused],
)
def test_what_just_does_not_fit_is_refused(
    section: type[Section], function: str, call: Call, field: str, says: str
) -> None:
    text, *arguments = call
    fit = getattr(made(section, text), function)
    assert_refused(lambda: fit(*arguments), field, says)


@pytest.mark.parametrize(
    ("section", "function", "call"),
    [(section, function, call) for section, function, *_, accepted in FITS for call in accepted],
)
def test_what_just_fits_is_accepted(section: type[Section], function: str, call: Call) -> None:
    text, *arguments = call
    assert getattr(made(section, text), function)(*arguments) is None


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: made(IntRange, "{low: 1, high: 5, step: 3}"), "use 4 or 7"),
        (lambda: made(FloatRange, "{low: 0.1, high: 0.35, step: 0.1}"), "use 0.3 or 0.4"),
        (lambda: train("{batch_size: 5, accumulate: 6}"), "use 6"),
        (lambda: train("{batch_size: 7, accumulate: 6}"), "use 6 or 12"),
        (lambda: train("{batch_size: 17, accumulate: 6}"), "use 12 or 18"),
        (lambda: made(EncoderModel, "{width: 4, heads: 4}"), "set model.width to 8"),
        (lambda: made(EncoderModel, "{width: 12, heads: 4}"), "set model.width to 8 or 16"),
        (lambda: made(EncoderModel, "{width: 28, heads: 4}"), "set model.width to 24 or 32"),
        (lambda: made(EncoderModel, "{head_dim: 5}"), "use 4 or 6"),
        (lambda: ConvnetModel(filters=(1, 1, 1)).fit_image(7, 8), "give at most 2 values, or make the image larger"),
        (lambda: ConvnetModel(filters=(1,)).fit_image(1, 8), "use model.kind mlp, or make the image larger"),
        (lambda: ResNetModel(blocks=(1, 1, 1)).fit_image(3, 8), "give at most 2 values, or make the image larger"),
        (lambda: Cosine(warmup=9).check(8), "lower it to 8"),
        (lambda: made(Piecewise, "{boundaries: [1, 2, 3], factors: [1]}"), "give 3"),
    ],
)
def test_the_nearest_values_that_would_do_are_named(call: Callable[[], Any], remedy: str) -> None:
    with pytest.raises((ValidationError, Conflict)) as caught:
        call()
    error: Any = caught.value
    if isinstance(error, ValidationError):
        error = error.errors(include_url=False)[0]["ctx"]["error"]
    assert error.remedy == remedy


def test_only_where_slices_can_be_set_a_gate_of_them_says_so() -> None:
    for task, settable in (("multilabel", True), ("ranking", True), ("anomaly", False)):
        with pytest.raises(Conflict) as caught:
            SlicesGate(max_loss=1).fit(task, False, "gates.0")
        assert ("evaluate.slices" in caught.value.rule) == settable == ("evaluate.slices" in caught.value.remedy)


@pytest.mark.parametrize(
    ("installed", "says"),
    [
        (None, "and none is installed"),
        ("0.28.1", "and 0.28.1 is installed"),
        ("2.21.0", "and 2.21.0 is installed"),
        ("0.28.1+tensorflow2.20.0", "needs horovod built for tensorflow2.21.0"),
        ("0.28.1+tensorflow2.21.0.1", "needs horovod built for tensorflow2.21.0"),
        ("0.28.1+tensorflow2.21.0", None),
    ],
)
def test_horovod_is_built_for_the_tensorflow_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None, says: str | None
) -> None:
    for name, version in (("tensorflow", "2.21.0"), ("horovod", installed)):
        if version is not None:
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    if says is None:
        Horovod().check_packages()
    else:
        assert_refused(Horovod().check_packages, "train.strategy.kind", says)
