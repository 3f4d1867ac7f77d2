"""Entries of `compress.methods` that would not do what they say are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows import preflight
from tasks.artifacts import Model, Snapshot
from tasks.compression.methods.method import FineTune
from tasks.config.compose import Config, validate
from tasks.errors import Failed, Refused
from tasks.runner import starting_models
from tasks.runs.home import Home
from tasks.training.config import TrainConfig

PRUNE = {"kind": "prune", "fine_tune": {"steps": 100}}
LOW_RANK = {"kind": "low_rank", "rank": 2, "fine_tune": {"steps": 9}}
STUDENT = {"kind": "distill", "student": {"kind": "mlp", "units": [8]}, "fine_tune": {"steps": 9}}


def config(*entries: Any, **others: Any) -> Config:
    return validate({"name": "a", "train": {"steps": 9}, "compress": {"methods": list(entries)}, **others})


@pytest.mark.parametrize(
    ("one", "other", "name", "fields"),
    [
        (PRUNE, {**PRUNE, "scope": "layer", "fine_tune": {"steps": 200}}, "prune_trained_50", "scope, fine_tune"),
        (PRUNE, {**PRUNE, "ramp": 0.25}, "prune_trained_50", "ramp"),
        ("prune", {"kind": "prune", "share": 0.501}, "prune_50", "share"),
        (STUDENT, {**STUDENT, "student": {"kind": "mlp", "units": [4]}}, "distill_mlp", "student"),
        (STUDENT, {**STUDENT, "teacher": "0123456789"}, "distill_mlp", "teacher"),
        (STUDENT, {**STUDENT, "name": "mlp"}, "distill_mlp", "name"),
        (STUDENT, {**STUDENT, "temperature": 2.0}, "distill_mlp", "temperature"),
    ],
)
def test_two_models_of_one_name_and_other_settings_are_refused(
    one: Any, other: dict[str, Any], name: str, fields: str
) -> None:
    for entries in (
        ([one, "int8_dynamic"], [other, "int4_dynamic"]),
        (one, [other, "int8_dynamic"]),
        ([LOW_RANK, one, "int8_dynamic"], "float16", [LOW_RANK, other]),
    ):
        with pytest.raises(Refused) as refused:
            config(*entries)
        assert refused.value.field == "compress.methods" and str(refused.value.saw).endswith(name)
        assert refused.value.rule == f"names the models of two entries, whose settings differ: {fields}"
    config([one, "int8_dynamic"], [one, "int4_dynamic"], one)


def test_a_default_that_is_written_is_no_difference() -> None:
    made = config(["prune", "int8_dynamic"], [{"kind": "prune", "share": 0.5}, "int4_dynamic"]).compress.by_name
    assert sorted(made) == ["prune_50", "prune_50-int4_dynamic", "prune_50-int8_dynamic"]


def test_other_settings_with_other_names_stand_side_by_side() -> None:
    sizes = {"s": 4, "m": 8}
    students = [{**STUDENT, "name": name, "student": {"kind": "mlp", "units": [size]}} for name, size in sizes.items()]
    made = config(*students, ["prune", "int8_dynamic"], [{"kind": "prune", "share": 0.3}, "int8_dynamic"]).compress
    assert {"distill_s", "distill_m", "prune_50-int8_dynamic", "prune_30-int8_dynamic"} <= set(made.by_name)


FLOAT = {"kind": "float", "max_loss": 0.01}


@pytest.mark.parametrize(
    ("compress", "field", "rule"),
    [
        ({"methods": [], "gates": [FLOAT]}, "compress.gates", "without methods or search there are none"),
        ({"methods": [], "undecided": "reject"}, "compress.undecided", "and there are none"),
        ({"gates": [], "undecided": "keep"}, "compress.undecided", "and there are none"),
        ({"methods": [], "want": {"bytes": "2kB"}}, "compress.want", "export.formats saved_model, keras has none"),
    ],
)
def test_what_would_judge_or_choose_nothing_is_refused(compress: dict[str, Any], field: str, rule: str) -> None:
    values = {"name": "a", "train": {"steps": 9}, "export": {"formats": ["saved_model", "keras"]}}
    with pytest.raises(Refused) as refused:
        validate({**values, "compress": compress})
    assert refused.value.field == field and rule in refused.value.rule and refused.value.remedy
    validate({**values, "compress": {**compress, "methods": ["float16"], "gates": [FLOAT]}})
    validate({**values, "compress": {**compress, "search": {"trials": 3}, "gates": [FLOAT]}})


def test_without_methods_the_default_gates_and_a_choice_of_the_float_file_stay() -> None:
    values = {"name": "a", "train": {"steps": 9}}
    validate({**values, "compress": {"methods": [], "want": {"bytes": "2kB"}}})
    validate({**values, "export": {"formats": ["saved_model"]}, "compress": {"methods": []}})
    written = validate({**values, "compress": {"methods": []}}).model_dump(mode="json")
    assert validate(written).compress.methods == (), "as the config of a run is: with all defaults"


def qat(bits: int = 4) -> dict[str, Any]:
    return {"kind": "qat", "bits": bits, "fine_tune": {"steps": 9}}


BLOCKS = {"kind": "int4_dynamic", "block": 32}


@pytest.mark.parametrize(
    ("entry", "saw", "rule"),
    [
        ([qat(8), "int4_dynamic"], "qat, int4_dynamic", "qat rounds weights to 8 bits, and int4_dynamic to 4 again"),
        ([qat(8), "prune", "gptq"], "qat, gptq", "and gptq to 4 again"),
        ([qat(4), BLOCKS], "qat, int4_dynamic", "and int4_dynamic those of a block by another"),
        ([qat(4), LOW_RANK, "int4_dynamic"], "qat, low_rank", "low_rank trains all weights, and what qat does"),
        ([qat(4), "cluster", "int4_dynamic"], "qat, cluster", "and cluster gives them other values"),
        (["prune", qat(4), "int4_dynamic"], "prune, qat", "what prune does to their values is lost"),
        (["cluster", "prune", LOW_RANK], "cluster, low_rank", "what cluster does to their values is lost"),
        (["int8_dynamic", "prune"], "int8_dynamic, prune", "changes the finished file, and prune would come after it"),
    ],
)
def test_a_method_that_one_behind_it_undoes_is_refused(entry: list[Any], saw: str, rule: str) -> None:
    with pytest.raises(Refused) as refused:
        config(entry)
    assert refused.value.field == "compress.methods" and refused.value.saw == saw
    assert rule in refused.value.rule and refused.value.remedy


@pytest.mark.parametrize(
    "entry",
    [
        [qat(4), "int4_dynamic"],
        [qat(4), "gptq"],
        [qat(8), "int8_static"],
        [qat(4), "int8_dynamic"],
        [qat(4), "float16"],
        [qat(8), qat(4), "int4_dynamic"],
        [qat(8), STUDENT, "int4_dynamic"],
        [qat(4), "prune", "int4_dynamic"],
        [LOW_RANK, qat(4), "int4_dynamic"],
        ["prune", PRUNE, "int8_dynamic"],
        ["prune", "cluster", "int8_dynamic"],
        qat(4),
    ],
)
def test_a_method_whose_work_stays_is_accepted(entry: Any) -> None:
    assert len(config(entry).compress.chains) == 1


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"weight": 0}, "weight", "all that the student learns from the teacher"),
        ({"weight": 0, "hidden": {"dense0": "dense0"}, "temperature": 2.0}, "temperature", "whose weight is 0"),
        ({"hidden": {"dense0": "dense0"}, "hidden_weight": 0}, "hidden_weight", "factor of the layers in hidden"),
    ],
)
def test_a_teacher_that_teaches_nothing_is_refused(changes: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(Refused) as refused:
        config({**STUDENT, **changes})
    assert refused.value.field.endswith(f".{field}") and rule in refused.value.rule
    config({**STUDENT, "weight": 0, "hidden": {"dense0": "dense0"}})


@pytest.mark.parametrize("method", ["int8_static", "int8_selective", "gptq"])
def test_what_looks_at_one_signature_is_not_for_language_models(method: str) -> None:
    texts = {"source": {"kind": "text_files", "path": "texts"}, "snapshot": {"kind": "tokens"}}
    with pytest.raises(Refused, match=f"compress.methods: {method}; .* that of a language model has three"):
        config(["prune", method], **texts, model={"kind": "transformer"})


def test_a_teacher_has_the_classes_and_the_tokens_of_the_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot(digest: str, tokenizer: str, **text: Any) -> Snapshot:
        files = [{"path": "transform/tokenizer.json", "sha256": tokenizer}]
        features = {"text": {"vocabulary": 9, **text}, "label": {"classes": ["a", "b"]}}
        return Snapshot(digest, tmp_path, "snapshot", {"features": features, "files": files})

    own, same, other = (snapshot(*each) for each in (("1", "x"), ("2", "x"), ("3", "y")))
    known = {"2": same, "3": other}
    monkeypatch.setattr(
        starting_models, "parent_of", lambda teacher, *_: known[teacher.manifest["parents"]["snapshot"]]
    )

    def teacher(examples: Snapshot, **label: Any) -> Model:
        features = {**examples.manifest["features"], "label": {"classes": ["a", "b"], **label}}
        return Model("0" * 64, tmp_path, "model", {"features": features, "parents": {"snapshot": examples.digest}})

    for taught in (own, same):
        starting_models.check_teacher(teacher(taught), own)
    for wrong, says in (
        (teacher(own, classes=["b", "a"]), r"label has classes \['b', 'a'\]; .* the snapshot has classes \['a', 'b'\]"),
        (teacher(snapshot("2", "x", vocabulary=8)), "text has vocabulary 8; .* the snapshot has vocabulary 9"),
        (teacher(other), "which was trained with another tokenizer"),
    ):
        with pytest.raises(Failed, match=says):
            starting_models.check_teacher(wrong, own)


def test_a_teacher_that_is_not_in_the_store_is_refused_before_the_run_begins(tmp_path: Path) -> None:
    taught = config([{**STUDENT, "teacher": "abcdef123456"}, "int8_dynamic"])
    for flow in ("pipeline", "release"):
        with pytest.raises(Refused, match="compress.methods: abcdef123456: no such artifact"):
            preflight.check_brought(flow, taught, Home(tmp_path))
    preflight.check_brought("training", taught, Home(tmp_path))


OF_THE_TRAINING_BEFORE: dict[str, Any] = {
    "epochs": 3,
    "init": {"kind": "file", "path": "a.keras"},
    "freeze": ["dense"],
    "lora": {"rank": 2},
    "layer_rates": {"dense*": 0.1},
    "seeds": 3,
    "select": "best",
    "early_stopping": {"patience": 2},
    "continue_from": "0123456789",
    "tensorboard": True,
    "schedule": {"kind": "constant", "warmup": 3},
}
"""A value of each setting of `train` that a training within `compress` does not have."""
OF_BOTH: dict[str, Any] = {
    "order": "blocks",
    "batch_size": 32,
    "precision": "bfloat16",
    "augment": [{"kind": "flip"}],
    "accumulate": 2,
    "fit_memory": True,
    "remat": True,
    "jit": True,
    "loss": "squared_error",
    "losses": {"sold": {"task": "classification", "weight": 0.5}},
    "folder": "own",
    "label_smoothing": 0.1,
    "class_weights": "balanced",
    "optimizer": {"kind": "sgd", "momentum": 0.5},
    "learning_rate": 0.5,
    "rate_scaling": {"kind": "linear", "batch_size": 16},
    "clip_norm": 0.5,
    "on_spike": "rollback",
    "ema": 0.9,
    "strategy": {"kind": "mirrored", "devices": 2},
    "cluster": {"port": 7401},
    "restarts": 1,
    "checkpoint": {"every": 9},
    "log_every": 7,
    "evaluate_every": 8,
    "evaluate": "sidecar",
}
"""And of each that it shares with the training before."""


def train(steps: int, values: dict[str, Any]) -> TrainConfig:
    processes = {"strategy": {"kind": "multi_worker", "workers": 2}} if "cluster" in values else {}
    length = {} if "epochs" in values else {"steps": steps}
    return TrainConfig.model_validate({**length, **processes, **values})


@pytest.mark.parametrize("name", OF_THE_TRAINING_BEFORE)
def test_a_training_of_a_method_leaves_what_is_of_the_training_before(name: str) -> None:
    before = train(40, {name: OF_THE_TRAINING_BEFORE[name]})
    assert before != TrainConfig(steps=40) and FineTune(steps=7).of(before) == TrainConfig(steps=7)


@pytest.mark.parametrize("name", OF_BOTH)
def test_a_training_of_a_method_shares_all_other_settings(name: str) -> None:
    values = {name: OF_BOTH[name]}
    assert train(7, values) != TrainConfig(steps=7) and FineTune(steps=7).of(train(40, values)) == train(7, values)


def test_each_setting_of_a_training_is_of_one_or_of_both() -> None:
    assert {"steps", *OF_THE_TRAINING_BEFORE, *OF_BOTH} == set(TrainConfig.model_fields)
    assert not OF_THE_TRAINING_BEFORE.keys() & OF_BOTH.keys()
