"""Every config field, changed, changes a digest or a behaviour, or is listed here with its reason."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from tasks.artifacts import Model, Records, Snapshot, Variant
from tasks.compression.specs import VariantSpec, compressed
from tasks.config.base import NamesOwnCode, identity
from tasks.config.compose import Config, resolve
from tasks.config.flags import mappings
from tasks.config.kinds import kind_of
from tasks.config.paths import add_folders
from tasks.config.reference import _entries, _sections
from tasks.runner import identities
from tasks.store.files import canonical
from tasks.training.optimizers import Optimizer
from tests.support.homes import ROOT

TRAINED = ("prune", "qat", "distill", "low_rank", "prune_structured")
"""Methods of compression that train."""
TABLES = ("csv", "jsonl", "parquet", "tfrecord", "webdataset")
TYPES = {
    "a": "number",
    "b": "category",
    "c": "category",
    "d": "time",
    "e": "category",
    "f": "number",
    "g": "number",
    "h": "image",
}
NEEDED: dict[str, dict[str, Any]] = {
    "train": {"steps": 100},
    "tune": {"trials": 9, "space": {"train.ema": {"kind": "choice", "values": [0.5]}}},
    "tune.pruner[halving]": {"first": 10},
    "tune.pruner[hyperband]": {"first": 10, "last": 100},
    "tune.space.NAME[float]": {"low": 0.25, "high": 0.75},
    "tune.space.NAME[int]": {"low": 1, "high": 64},
    "tune.space.NAME[choice]": {"values": [1]},
    **{f"source[{kind}]": {"path": "tables", "columns": TYPES} for kind in TABLES},
    "source[sql]": {"url": "sqlite:///people.db", "query": "people", "key": "e", "columns": TYPES},
    "source[python]": {"function": "rows:read", "columns": TYPES},
    **{f"source[{kind}].formats.NAME": {"unit": "%"} for kind in (*TABLES, "sql", "python", "tfds")},
    "source[text_files]": {"path": "texts"},
    "source[image_folder]": {"path": "images"},
    "source[audio_folder]": {"path": "sounds"},
    "source[tfds]": {"dataset": "mnist", "columns": TYPES},
    **{f"train.optimizer[{kind}]": {"weight_decay": 0.02} for kind in Optimizer.kinds()},
    "train.optimizer[sgd]": {"momentum": 0.5, "weight_decay": 0.02},
    "train.schedule[piecewise]": {"boundaries": [2], "factors": [0.75]},
    "model[transformer]": {"experts": 4},
    "model[import]": {"target": "nets:make"},
    "model[keras_file]": {"path": "model.json"},
    "train.losses.NAME": {"task": "regression"},
    "train.rate_scaling": {"kind": "linear", "batch_size": 32},
    "train.init[model]": {"model": "0123456789"},
    "train.init[file]": {"path": "model.keras"},
    "train.init[keras_hub]": {"preset": "bert_tiny_en_uncased"},
    "evaluate.threshold": {"maximize": "f1"},
    **{f"compress.methods.NUMBER[{kind}]": {"fine_tune": {"steps": 9}} for kind in TRAINED},
    **{f"compress.methods.NUMBER[{kind}].fine_tune": {"steps": 9} for kind in TRAINED},
    "compress.methods.NUMBER[distill]": {
        "student": {"kind": "mlp"},
        "hidden": {"dense0": "dense0"},
        "fine_tune": {"steps": 9},
    },
    "compress.methods.NUMBER[low_rank]": {"rank": 3, "fine_tune": {"steps": 9}},
    "compress.methods.NUMBER[distill].student[transformer]": {"experts": 4},
    **{f"{section}.gates.NUMBER[absolute]": {"at_least": 0.125} for section in ("compress", "promote")},
    "compress.gates.NUMBER[float]": {"max_loss": 0.125},
    **{f"{section}.gates.NUMBER[slices]": {"max_loss": 0.125} for section in ("compress", "promote")},
    "promote.gates.NUMBER[champion]": {"max_loss": 0.125},
    "compress.search": {"trials": 9},
    "compress.want": {"bytes": 1000, "latency": 0.75, "quality_loss": 0.75},
    "snapshot[tokens]": {"packing": "best_fit"},
    "snapshot[table].transforms.NAME[hash_words]": {"output": "ids"},
    "snapshot[table].transforms.NAME[function]": {"function": "own.code:f"},
}
"""What a section needs to be whole, or to have a field of it matter."""

LISTED = {
    "name": "names the model in registry and pages",
    "source[text_files].path": "the content is in the digest, by key and content",
    "source[image_folder].path": "the content is in the digest, by key and content",
    "source[audio_folder].path": "the content is in the digest, by key and content",
    **{f"source[{kind}].path": "the content is in the digest, by key and content" for kind in TABLES},
    "source[sql].url": "the content of the rows is in the digest",
    "source[python].folder": "the modules are in the digest, by path and content",
    "records.schema_file": "the content is in the digest (test_convert_columns)",
    "source[tfds].data_dir": "the content is in the digest, by key and content",
    "source[tfds].module": "imported before a download",
    "source[tfds].download": "prepares what is then in the digest by its content",
    "records.max_age": "refuses old data before any work (test_convert_refuses_old_data)",
    "snapshot[table].transforms.NAME[function].folder": "the files are in the digest (test_snapshot_table)",
    "train.accumulate": "layout (test_train_options)",
    "train.fit_memory": "finds train.accumulate (test_train_memory)",
    "train.strategy[mirrored].devices": "layout (test_train_options)",
    **{f"train.strategy[multi_worker].{name}": "layout (test_train_workers)" for name in ("workers", "devices")},
    "train.strategy[multi_worker].communication": "layout (test_train_workers)",
    "train.strategy[horovod].workers": "layout (test_train_horovod)",
    **{
        f"train.strategy[parameter_server].{name}": "where parameters are (test_train_parameter_server)"
        for name in ("servers", "min_shard_bytes")
    },
    **{f"train.cluster.{name}": "where processes are (test_train_hosts)" for name in ("hosts", "port", "wait")},
    "train.evaluate": "which process evaluates (test_train_workers)",
    **{f"train.strategy[tpu].{name}": "layout (test_train_options)" for name in ("address", "devices")},
    **{
        f"train.strategy[pipeline].{name}": "layout (test_train_pipeline)"
        for name in ("devices", "micro_batches", "schedule", "workers")
    },
    "train.restarts": "how often lost processes are started again (test_run_tries_again)",
    "train.checkpoint.every": "when the state is committed",
    **{f"train.checkpoint.{name}": "which checkpoints are kept" for name in ("keep", "keep_every", "keep_best")},
    "train.log_every": "points of the curves",
    "train.evaluate_every": "decides only with select or early_stopping (test_golden_digests)",
    "train.continue_from": "enters as a parent (test_golden_digests)",
    "model[import].folder": "the modules are in the digest (test_model_import)",
    "model[keras_file].path": "the content is in the digest (test_model_keras_file)",
    "evaluate.folder": "the modules of own metrics are in the digest (test_evaluate_own_metrics)",
    **{f"train.tensorboard.{name}": "what is written (test_train_board)" for name in ("histograms", "trace")},
    "train.folder": "the module of train.loss is in the digest (test_train_own_loss)",
    "train.init[model].model": "enters as a parent (test_train_init)",
    "train.init[file].path": "the content is in the digest (test_train_init)",
    "train.init[keras_hub].download": "what is downloaded is named by the preset",
    "compress.methods.NUMBER[distill].teacher": "enters as a parent (test_compress_trains)",
    **{
        f"{section}.gates.NUMBER[{kind}].{name}": "decides what is exported or promoted (test_compress_gates)"
        for section, kinds in {
            "compress": {
                "absolute": ("metric", "at_least", "at_most"),
                "float": ("metric", "max_loss", "max_ratio"),
                "slices": ("metric", "max_loss", "least"),
            },
            "promote": {
                "absolute": ("metric", "at_least", "at_most"),
                "champion": ("metric", "max_loss"),
                "slices": ("metric", "max_loss", "least"),
            },
        }.items()
        for kind, names in kinds.items()
        for name in names
    },
    "compress.gates": "decides what is exported (test_compress_gates)",
    "promote.gates": "decides in the registry (test_promote_gates)",
    **{f"compress.want.{name}": "which variant is chosen (test_compress_front)" for name in ("bytes", "latency")},
    **{f"compress.search.{name}": "what is tried (test_compress_search)" for name in ("trials", "minutes", "seed")},
    "compress.want.quality_loss": "which variant is chosen (test_compress_front)",
    "compress.undecided": "decides what is exported (test_compress_variants)",
    "export.formats": "which float variants there are; each is an artifact of its own (test_export_formats)",
    "promote.margin": "decides in the registry (test_promote_approval)",
    "promote.require": "decides in the registry (test_promote_approval)",
    "promote.baseline": "decides in the registry (test_promote_approval)",
    "promote.approval": "decides in the registry (test_promote_approval)",
    "tune.direction": "the metric's own, or refused (test_tune_search)",
    "tune.trials": "when the search ends; a study with more trials begins with the same",
    "tune.minutes": "when the search ends",
    "tune.parallel": "trials at the same time (test_tune_flow)",
    "tune.storage": "where the study is (test_tune_search)",
    "release.model": "the model that the flow release begins with, a parent of all that it makes",
    "notify.events": "who gets messages (test_run_notifies)",
    "notify.webhook": "who gets messages (test_run_notifies)",
    "notify.mail_to": "who gets messages (test_run_notifies)",
    "notify.mail_server": "who gets messages (test_run_notifies)",
    "notify.mail_from": "who gets messages (test_run_notifies)",
    "resources.threads": "what the machine gives",
    "resources.grace": "what the machine gives",
    "resources.timeout": "what the machine gives",
    **{f"resources.timeouts.{stage}": "what the machine gives" for stage in get_args(Literal["convert", "snapshot"])},
    **{f"resources.timeouts.{stage}": "what the machine gives" for stage in ("train", "evaluate", "compress")},
    **{f"resources.timeouts.{stage}": "what the machine gives" for stage in ("export", "promote")},
}

CANDIDATES: list[Any] = [
    *("own.code:g", 8000, {"odd": {"kind": "log"}}),
    *(True, False, 1, 2, 3, 5, 7, 64, 257, 2_000_000, 0.1, 0.25, 0.5, 2.5, None),
    *("other", "adam", "sgd", "skip", "linear", "env:SECRET", "3d", "smtp", "balanced", "**/*.md"),
    *([], ["other"], [2, 3], ["loss"], ["r2"], ["failed"], ["a@b.c"]),
    *({"train": 0.5, "validation": 0.25, "test": 0.25}, {"odd": 2.0}),
]


OF_FIELD: dict[str, list[Any]] = {
    "columns": [{**TYPES, "h": "number"}],
    "key": ["b"],
    "label": ["b"],
    "targets": [["f"]],
    "outputs": [["c"]],
    "losses": [{"c": {"task": "classification"}}],
    "weight": ["g"],
    "group": ["c"],
    "split": ["c"],
    "time": ["d"],
    "classes": [["x", "y"]],
    "delimiter": [";"],
    "date": ["%d/%m/%Y"],
    "decimal": [","],
    "thousands": [" "],
    "separator": ["|"],
    "formats": [{"a": {"unit": "%"}}],
    "files": [{"h": "train/{}.jpg"}],
    "labels": [{"Yes": "yes"}],
    "quote": ["'"],
    "escape": ["\\"],
    "header": [list(TYPES), list(reversed(TYPES))],
    "encoding": ["latin-1"],
    "filter": ["a > 1"],
    "official": [{"train": ["a"], "validation": ["b"], "test": ["c"]}],
    "split_times": [{"validation": "2024-01-01", "test": "2024-02-01"}],
    "transforms": [{"a": {"kind": "keep"}}],
    "query": ["SELECT * FROM people"],
    "function": ["other:read"],
    "target": ["other:make"],
    "arguments": [{"a": 1}],
    "augment": [[{"kind": "flip"}]],
    "area": [[0.1, 0.9]],
    "ratio": [[0.5, 2.0]],
    "prompt": ["question"],
    "path": ["other.keras"],
    "hidden": [{"dense1": "dense1"}],
    "slices": [["a > 1"]],
    "robustness": [["noise"]],
    "groups": ["c"],
    "positive": ["yes"],
    "gates": [[{"kind": "absolute", "metric": "accuracy", "at_least": 0.5}]],
    "metric": ["loss"],
    "own_metrics": [{"profit": "money:profit"}],
    "rename": [{"a": "b"}],
    "beta_2_decay": [-0.5],
    "learning_rate_power": [-0.25],
    "boundaries": [[3], [50]],
    "factors": [[0.5], [0.1]],
    "trace": [[5, 9]],
    "space": [{"train.ema": {"kind": "choice", "values": [0.5, 0.75]}}],
    "high": [0.625, 63],
    "values": [[2]],
}
"""Further candidates by the name of a setting."""

WITH_IT: dict[str, dict[str, Any]] = {
    "outputs": {"label": "b"},
    "recall_at_precision": {"maximize": None},
    "precision_at_recall": {"maximize": None},
    "recall_at_false_positive_rate": {"maximize": None},
    "positive": {"groups": "c"},
    "at_most": {"at_least": None},
    "max_ratio": {"metric": "bytes", "max_loss": None},
    "steps": {"epochs": None},
    **{f"compress.methods.NUMBER[{kind}].fine_tune.steps": {} for kind in TRAINED},
    "epochs": {"steps": None},
    "compress.methods.NUMBER[low_rank].rank": {"energy": None},
    "compress.methods.NUMBER[low_rank].energy": {"rank": None},
    "mail_to": {"mail_server": "env:SERVER"},
    "mail_server": {"mail_to": ["a@b.c"]},
    "classes": {"label": "b"},
    "labels": {"label": "b"},
    "date": {"unit": None},
    "separator": {"unit": None},
    "unknown_class": {"label": "b", "classes": ["x", "y"]},
    "official": {"splits": "official"},
    "validation_share": {"splits": "official"},
    "split_times": {"splits": "time"},
}
"""What must change with a setting."""


MAPPINGS = {
    "splits": "shares are taken in order of name (test_convert_split)",
    "official": "a name is in one split (test_config_refusals)",
    "split_times": "has two keys",
    "columns": "are read in order of name (test_convert_columns)",
    "formats": "each is of its column",
    "files": "each is of its column",
    "labels": "each names one class",
    "transforms": "each is of its column",
    "arguments": "are passed in order of name (test_model_import, test_source_python)",
    "own_metrics": "each is computed alone",
    "class_weights": "are taken in order of the classes",
    "layer_rates": "give a variable one factor, or are refused (test_train_optimizers)",
    "rename": "the longest beginning counts (test_train_init)",
    "hidden": "their terms are added in order of name",
    "losses": "their terms are added in the order of the snapshot's outputs",
    "space": "values are chosen in order of key (test_tune_search)",
}
"""Mappings, whose order digests do not have: why it decides nothing."""


class Leaf:
    """A setting, and a way to make the whole config's sections with another value of it."""

    def __init__(self, path: str, field: Any, owner: BaseModel, whole: Callable[[BaseModel], dict[str, Any]]) -> None:
        self.path, self.field, self.owner, self.whole = path, field, owner, whole
        self.name = path.rpartition(".")[2]

    def changed(self) -> Iterator[dict[str, Any]]:
        """The sections with each other value that the setting takes, by itself or beside what must change with it."""
        values = self.owner.model_dump(exclude_unset=True)
        with_it = WITH_IT.get(self.path, WITH_IT.get(self.name, {}))
        for candidate in [*_literals(self.field.annotation), *OF_FIELD.get(self.name, []), *CANDIDATES]:
            try:
                other = type(self.owner).model_validate({**values, self.name: candidate, **with_it})
            except ValidationError:
                continue
            if getattr(other, self.name) != getattr(self.owner, self.name):
                yield self.whole(other)


def _literals(annotation: Any) -> list[Any]:
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [*parts, [parts[0]], []]
    return [value for part in parts if not isinstance(part, str) for value in _literals(part)]


def leaves(section: type[BaseModel], path: str, whole: Callable[[BaseModel], dict[str, Any]]) -> Iterator[Leaf]:
    """Every setting of a section, and of those in it, of every kind."""
    made = section.model_validate(NEEDED.get(path, {}))
    for name, field in section.model_fields.items():
        inner = _sections(field.annotation)
        key = f"{path}.{name}"
        for each in inner:
            kind = each.model_fields.get("kind")
            several = len(inner) > 1 and kind is not None
            yield from leaves(
                each,
                f"{key}[{kind.default}]" if several and kind else key,
                lambda value, name=name: whole(made.model_copy(update={name: value})),  # type: ignore[misc]
            )
        for each in _entries(field.annotation):
            several = get_origin(field.annotation) is dict
            entry = each.model_fields["kind"].default if "kind" in each.model_fields else ""
            yield from leaves(
                each,
                f"{key}.{'NAME' if several else 'NUMBER'}" + (f"[{entry}]" if entry else ""),
                lambda value, name=name, named=several: whole(  # type: ignore[misc]
                    made.model_copy(update={name: {"column": value} if named else (value,)})
                ),
            )
        only = get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        if not inner and not only:
            yield Leaf(key, field, made, whole)


def everything() -> list[Leaf]:
    collected = []
    base = {
        name: (lambda each, path: each.model_validate(NEEDED.get(path, {})))(_sections(field.annotation)[0], name)
        for name, field in Config.model_fields.items()
        if _sections(field.annotation)
    }
    base["seed"] = 0
    for name, field in Config.model_fields.items():
        kinds = _sections(field.annotation)
        for each in kinds:
            path = f"{name}[{each.model_fields['kind'].default}]" if len(kinds) > 1 else name
            collected += leaves(each, path, lambda value, name=name: {**base, name: value})  # type: ignore[misc]
    return collected


def decided(sections: dict[str, Any]) -> bytes:
    """What of the config goes into the digests of all stages."""
    where = Path("nowhere")
    records, snapshot = Records("r", where, "records"), Snapshot("s", where, "snapshot")
    model, variant = Model("m", where, "model"), Variant("v", where, "litert")
    stages = [
        identities.records(sections["source"], sections["records"], where),
        identities.snapshot(records, sections["snapshot"]),
        identities.model(snapshot, sections["model"], sections["train"], sections["seed"]),
        identities.report(model, snapshot, sections["evaluate"]),
        *variants(model, snapshot, sections),
        identities.export(model, snapshot, [variant], sections["export"]),
    ]
    return canonical([*(identity(stage.config) for stage in stages), identity(sections["tune"])])  # of a study


def variants(model: Model, snapshot: Snapshot, sections: dict[str, Any]) -> list[identities.Identity]:
    """A float form, and what each entry of `compress.methods` makes of it."""
    forms = [VariantSpec("litert"), *map(compressed, sections["compress"].chains)]
    arguments = (sections["model"].task, sections["compress"], sections["evaluate"])
    return [identities.variant(form, model, snapshot, None, None, *arguments) for form in forms]


LEAVES = everything()
PATHS = {leaf.path for leaf in LEAVES}


def test_the_list_names_settings_that_there_are() -> None:
    assert LISTED.keys() - PATHS == {"name"}, "a scalar of the config itself"
    assert len(PATHS) > 100 and {"train.optimizer[adamw].weight_decay", "model[transformer].heads"} <= PATHS


REFUSED = {"source[tfds].outputs"}
"""Settings that a kind shares with others, and of which it takes no other value."""


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.path)
def test_a_setting_changes_a_digest_or_is_listed(leaf: Leaf) -> None:
    before = decided(leaf.whole(leaf.owner))
    others = [decided(sections) for sections in leaf.changed()]
    if leaf.path in REFUSED:
        assert not others
        return
    assert others, f"no other value of {leaf.path} is among the candidates of this test"
    changes = [other != before for other in others]
    if leaf.path in LISTED:
        assert not any(changes), f"{leaf.path} changes a digest: it does not belong on the list"
    else:
        assert all(changes), f"{leaf.path} changes no digest: a result must not depend on it, or it is read by nothing"


OF_FILES = {"path", "folder", "data_dir", "schema_file", "module", "preset"}
"""Settings with the path of a file or folder, of whatever section."""


def resolved_with(leaf: Leaf, value: str) -> str:
    """The section as text, with that value of a setting, after the paths of the config are made absolute."""
    top = section_of(leaf.path)
    section: Any = leaf.whole(leaf.owner.model_copy(update={leaf.name: value}))[top]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not be valid
        values = {top: section.model_dump()}
    resolve(values, Path("/presets"))
    return str(values)


def section_of(path: str) -> str:
    return re.split(r"[\[.]", path)[0]


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf.name in OF_FILES], ids=lambda leaf: leaf.path)
def test_a_path_is_relative_to_the_folder_of_the_preset_in_every_section(leaf: Leaf) -> None:
    assert "'/presets/deep/own.py'" in resolved_with(leaf, "deep/own.py")
    for stays in ("/elsewhere/own.py", "~/own.py"):
        assert f"'{stays}'" in resolved_with(leaf, stays)


def test_what_is_no_path_is_not_made_one() -> None:
    """A pattern of file names, a name of a column, a function, an address."""
    others = [leaf for leaf in LEAVES if leaf.name not in OF_FILES and "str" in str(leaf.field.annotation)]
    assert len(others) > 50
    for leaf in others:
        assert "'deep/own.py'" in resolved_with(leaf, "deep/own.py"), leaf.path


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("train.init", {"kind": "file", "path": "PATH"}, "a.keras"),
        ("train.init.path", "PATH", "a.keras"),
        ("train", {"steps": 1, "init": {"kind": "file", "path": "PATH"}}, "a.keras"),
        ("model", {"kind": "keras_file", "path": "PATH"}, "a.json"),
        ("model.folder", "PATH", "code"),
    ],
)
def test_a_path_among_the_values_of_a_search_is_relative_to_the_preset_too(key: str, value: Any, path: str) -> None:
    def choices(path: str) -> dict[str, Any]:
        given = yaml.safe_load(yaml.safe_dump(value).replace("PATH", path))
        return {"tune": {"space": {key: {"kind": "choice", "values": [given, None]}}}}

    values = choices(path)
    resolve(values, Path("/presets"))
    assert values == choices(f"/presets/{path}")


OWN_CODE = {
    "source[python].function": "own.code:f",
    "snapshot[table].transforms.NAME[function].function": "own.code:f",
    "model[import].target": "own.code:f",
    "train.loss": "own.code:f",
    "train.losses": {"sold": {"task": "regression", "loss": "own.code:f"}},
    "evaluate.own_metrics": {"profit": "own.code:f"},
}
"""The settings that name functions of the user's."""


@pytest.mark.parametrize("path", OWN_CODE)
def test_a_function_of_the_users_is_imported_from_the_folder_of_the_preset_unless_another_is_named(path: str) -> None:
    leaf = next(leaf for leaf in LEAVES if leaf.path == path)

    def folders(**more: str) -> list[str]:
        kind = {"kind": leaf.owner.kind} if "kind" in type(leaf.owner).model_fields else {}  # type: ignore[attr-defined]
        section = {**kind, leaf.name: OWN_CODE[path], **more}
        if path.startswith("snapshot"):
            section = {"kind": "table", "transforms": {"column": section}}
        values = {section_of(path): section}
        add_folders(values, [Config], Path("/presets"))
        return re.findall(r"'folder': '([^']*)'", str(values))

    assert folders() == ["/presets"] and folders(folder="/other") == ["/other"]


def test_every_setting_that_takes_a_function_of_the_users_is_among_them() -> None:
    patterns = [leaf.path for leaf in LEAVES if "package.module:function" in (leaf.field.description or "")]
    marked = [leaf.path for leaf in LEAVES if any(isinstance(mark, NamesOwnCode) for mark in leaf.field.metadata)]
    assert set(marked) == OWN_CODE.keys() >= set(patterns)


def test_the_order_of_a_mapping_decides_nothing() -> None:
    """By the reasons of the list."""
    assert {leaf.name for leaf in LEAVES if mappings(leaf.field.annotation)} == MAPPINGS.keys()


def test_a_setting_outside_of_digests_is_read_by_the_code() -> None:
    """By its name; a setting that nothing reads would be ignored in silence."""
    files = [path for top in ("tasks", "flows", "infra") for path in (ROOT / top).rglob("*.py")]
    code = "\n".join(path.read_text() for path in files if "config" not in path.parent.name)
    for path in LISTED:
        name = path.rpartition(".")[2]
        by_limit = path.startswith("resources.time")  # by `ResourcesConfig.limit`
        assert by_limit or re.search(rf"[.\"']{name}\b", code), path


@pytest.mark.parametrize("kind", TABLES)
def test_further_outputs_decide_beside_the_same_label(kind: str) -> None:
    source = next(each for each in _sections(Config.model_fields["source"].annotation) if kind_of(each) == kind)
    values = {"path": "tables", "columns": TYPES, "label": "b"}
    one, other = (source.model_validate({**values, **more}) for more in ({}, {"outputs": ["c"]}))
    assert identity(one) != identity(other)


def test_the_seed_decides_and_the_name_does_not() -> None:
    config = {"name": "a", "train": {"steps": 1}}
    one, other = (Config.model_validate({**config, **change}) for change in ({"name": "b"}, {"seed": 1}))
    base = identity(Config.model_validate(config))
    assert identity(one) == base != identity(other)


def test_how_an_evaluation_counts_reaches_the_variants_too() -> None:
    leaf = next(leaf for leaf in LEAVES if leaf.path == "evaluate.resamples")
    model, snapshot = Model("m", Path(), "model"), Snapshot("s", Path(), "snapshot")

    def variant(sections: dict[str, Any]) -> Any:
        return [each.config for each in variants(model, snapshot, sections)]

    sections = leaf.whole(leaf.owner)
    for name, value in (("primary", "loss"), ("bins", 3), ("at", 3)):
        other = {**sections, "evaluate": sections["evaluate"].model_copy(update={name: value})}
        assert variant(other) != variant(sections)


def test_the_limit_of_quality_reaches_a_method_that_reads_it() -> None:
    leaf = next(leaf for leaf in LEAVES if leaf.path == "compress.gates")
    sections = leaf.whole(leaf.owner)
    model, snapshot = Model("m", Path(), "model"), Snapshot("s", Path(), "snapshot")

    def variant(method: str, *limits: float, **gate: Any) -> Any:
        gates = [{"kind": "float", **gate, "max_loss": limit} for limit in limits]
        values = {"methods": [method], "gates": gates}
        compress = type(sections["compress"]).model_validate(values)
        return [each.config for each in variants(model, snapshot, {**sections, "compress": compress})]

    assert variant("int8_selective", 0.01) != variant("int8_selective", 0.02)
    assert variant("int8_dynamic", 0.01) == variant("int8_dynamic", 0.02)
    named = variant("int8_selective", 0.01, metric="accuracy")
    assert named == variant("int8_selective", 0.01), "the primary metric, by its name"
    assert variant("int8_selective", 0.5, metric="loss") == variant("int8_selective"), "no limit of the primary metric"
    assert variant("int8_selective", 0.02, 0.01) == named, "the smaller one decides"
