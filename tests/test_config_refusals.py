"""Invalid config is refused in one line that names the field, the value, the rule and the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from tasks.config.base import identity
from tasks.config.compose import Config, load, validate
from tasks.errors import Refused
from tasks.models.architectures.mlp import MlpModel
from tasks.training.optimizers import AdamW
from tasks.training.schedules import Cosine
from tests.support.golden import pinned

DIGITS = Path(__file__).parent.parent / "flows/presets/digits.yaml"


REFUSED = [
    ("train.batchsize", "64", "train.batchsize"),
    ("model.filtres", "[8]", "model.filtres"),
    ("trian", "{steps: 3}", "trian"),
    ("train.batch_size", "many", "train.batch_size"),
    ("train.batch_size", "0", "train.batch_size"),
    ("train.epochs", "3", "train"),
    ("train.schedule.warmup", "601", "train.schedule.warmup"),
    ("model.kind", "perceptron", "model.kind"),
    ("model", "{kind: transformer}", "model.kind"),
    ("evaluate.metrics", "[bits_per_byte]", "evaluate.metrics"),
    ("evaluate.sample_tokens", "9", "evaluate.sample_tokens"),
    ("records.splits.train", "0.9", "records.splits"),
    ("name", "Digits!", "name"),
    ("name", "a" * 65, "name"),
    ("model", "null", "model"),
    ("train", "[1]", "train"),
    ("model.filters", "8", "model.filters"),
    ("train..steps", "8", "--train..steps"),
    ("records.splits", "{train: 0.6, train: 0.7}", "records.splits"),
    ("seed", "-1", "seed"),
    ("train.optimizer", "{kind: sgd, nesterov: true}", "train.optimizer.nesterov"),
    ("train.schedule", "{kind: constant, end: 0.1}", "train.schedule.end"),
    ("train.loss", "focal", "train.loss"),
    ("train.init", "{kind: file, path: a.txt}", "train.init.path"),
    ("model", "{kind: import, target: nets}", "model.target"),
    ("model", "{kind: keras_file, path: a.h5}", "model.path"),
    ("model", "{kind: vit, patch: 3}", "model.patch"),
    ("model", "{kind: convnet, filters: [8, 8, 8, 8]}", "model.filters"),
    ("snapshot.height", "1", "model.filters"),
    ("snapshot", "{kind: table}", "model.kind"),
    ("train.loss", "squared_error", "train.loss"),
    ("seed", "true", "seed"),
    ("train.steps", "'60'", "train.steps"),
    ("train.steps", "60.5", "train.steps"),
    ("train.steps", "[60]", "train.steps"),
    ("train.learning_rate", "'0.1'", "train.learning_rate"),
    ("train.learning_rate", "yes", "train.learning_rate"),
    ("train.learning_rate", ".nan", "train.learning_rate"),
    ("train.optimizer.epsilon", "1e-400000", "train.optimizer.epsilon"),
    ("train.jit", "1", "train.jit"),
    ("train.jit", "'true'", "train.jit"),
    ("snapshot.channels", "true", "snapshot.channels"),
    ("name", "12", "name"),
    ("name", "{a: b}", "name"),
    ("model.filters", "[8, '16']", "model.filters.1"),
    ("model.filters", "{a: 8}", "model.filters"),
    ("records.splits", "{train: 'most'}", "records.splits.train"),
    ("records.splits", "[0.8, 0.2]", "records.splits"),
    ("train.class_weights", "{0: 1.0}", "train.class_weights.0"),
    ("train.class_weights", "{'0': true}", "train.class_weights.0"),
    ("train.class_weights", "[1]", "train.class_weights"),
    ("train", "2026-13-01", "train"),
    ("source.glob", "**/*.txt", "source.glob"),
    ("model", "{kind: keras_file, path: a.json, weights: true}", "model.weights"),
    ("evaluate.folder", "metrics", "evaluate.folder"),
    ("train.folder", "losses", "train.folder"),
    ("train.tensorboard", "{trace: [600, 610]}", "train.tensorboard.trace"),
    ("records", "{splits: official, official: {train: [a, b], test: [c], validation: [b]}}", "records.official"),
    ("train.accumulate", "24", "train.batch_size"),
]
"""A flag, its value, and the field that is refused; the prose is in tests/golden/refusals.txt."""


@pytest.mark.parametrize(("flag", "value", "field"), REFUSED)
def test_a_wrong_setting_is_refused_by_name(flag: str, value: str, field: str) -> None:
    with pytest.raises(Refused) as refused:
        load(DIGITS, [(flag, value)])
    assert refused.value.field == field and refused.value.rule and refused.value.remedy
    assert "\n" not in str(refused.value)


def test_the_prose_of_refusals() -> None:
    def said(flag: str, value: str) -> str:
        with pytest.raises(Refused) as refused:
            load(DIGITS, [(flag, value)])
        return f"--{flag} {value}\n    {refused.value}".replace(str(Path.cwd()), "HERE")

    pinned("refusals.txt", "\n".join(said(flag, value) for flag, value, _ in REFUSED).splitlines())


def test_weights_that_a_training_would_not_begin_with_are_refused() -> None:
    model, init = ("model", "{kind: keras_file, path: a.keras, weights: true}"), ("train.init", "{kind: champion}")
    with pytest.raises(Refused, match="is ignored: train.init names the weights") as refused:
        load(DIGITS, [model, init])
    assert refused.value.field == "model.weights"
    assert load(DIGITS, [model]).model.weights_file and load(DIGITS, [init]).train.init


def test_a_short_training_may_have_the_default_trace_and_an_own_loss_its_folder() -> None:
    short = [("train.steps", "5"), ("train.schedule.warmup", "0"), ("train.tensorboard", "true")]
    assert load(DIGITS, short).train.tensorboard is not None
    assert load(DIGITS, [("train.loss", "own.losses:focal"), ("train.folder", "losses")]).train.folder
    assert load(DIGITS, [("train.loss", "own.losses:focal")]).train.folder == str(DIGITS.parent)


def test_own_metrics_are_of_the_presets_folder_and_text_that_looks_like_one_is_not() -> None:
    assert load(DIGITS, [("evaluate.own_metrics", "{hit: scores:hit}")]).evaluate.folder == str(DIGITS.parent)
    assert load(DIGITS, [("evaluate.groups", "ns:column")]).evaluate.folder is None


def test_a_missing_preset_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIGITS.parents[2])
    with pytest.raises(Refused, match="flows/presets/digits.yaml"):
        load(Path("nowhere.yaml"))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "a: [1\n", "\tname: x\n", "name: 2026-13-01\n"])
def test_a_preset_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(Refused, match="a preset is a"):
        load(tmp_path / "bad.yaml")


def test_a_preset_of_a_newer_version_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("format: 2\n" + DIGITS.read_text())
    with pytest.raises(Refused, match="reads presets of format 1"):
        load(tmp_path / "new.yaml")
    (tmp_path / "now.yaml").write_text("format: 1\n" + DIGITS.read_text())
    assert load(tmp_path / "now.yaml") == load(DIGITS)


def test_a_key_that_stands_twice_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(DIGITS.read_text() + "seed: 3\n")
    with pytest.raises(Refused, match=r"key seed occurs twice .*line"):
        load(tmp_path / "twice.yaml")
    (tmp_path / "merged.yaml").write_text(DIGITS.read_text().replace("cosine,", "cosine, <<: {warmup: 3},"))
    assert load(tmp_path / "merged.yaml") == load(DIGITS), "a merge key is no second key"


def test_a_misspelt_section_is_named_before_the_one_that_it_leaves_missing(tmp_path: Path) -> None:
    (tmp_path / "misspelt.yaml").write_text(DIGITS.read_text().replace("train:\n", "trian:\n"))
    with pytest.raises(Refused, match="did you mean train") as refused:
        load(tmp_path / "misspelt.yaml")
    assert refused.value.field == "trian"


def test_flags_win_and_a_new_kind_drops_aloud_what_it_does_not_have() -> None:
    messages: list[str] = []
    config = load(DIGITS, [("model.kind", "mlp"), ("train.steps", "70")], messages.append)
    assert config.model == MlpModel(dropout=load(DIGITS).model.dropout)
    assert config.train.steps == 70
    assert messages == ["model.kind is now mlp: dropped model.dense, model.filters"]


def test_a_schedule_without_a_kind_is_a_cosine(tmp_path: Path) -> None:
    (tmp_path / "preset.yaml").write_text("{name: short, train: {steps: 9}}")
    assert load(tmp_path / "preset.yaml", [("train.schedule.warmup", "5")]).train.schedule == Cosine(warmup=5)


def test_a_kind_of_one_section_drops_nothing() -> None:
    config = load(DIGITS, [("train.schedule.kind", "linear")], pytest.fail)
    assert config.train.schedule.model_dump() == {**load(DIGITS).train.schedule.model_dump(), "kind": "linear"}


@pytest.mark.parametrize(
    "flags",
    [
        [("model.dense", "8"), ("model.kind", "mlp")],
        [("model", "{dense: 8}"), ("model.kind", "mlp")],
        [("model.units", "[8]"), ("model", "{kind: convnet}")],
        [("records.splits", "{train: 0.6, validation: 0.2, test: 0.2}"), ("records.splits.train", "0.7")],
        [("model", "{kind: mlp}"), ("model.kind", "convnet")],
        [("train.early_stopping", "null"), ("train", "{steps: 3, early_stopping: {patience: 2}}")],
    ],
)
def test_a_typed_flag_is_refused_and_never_dropped(flags: list[tuple[str, str]]) -> None:
    messages = set()
    for order in (flags, flags[::-1]):
        with pytest.raises(Refused) as refused:
            load(DIGITS, order)
        messages.add(str(refused.value))
    assert len(messages) == 1, "in any order of the flags"


def test_a_text_field_takes_the_text_as_typed() -> None:
    config = load(
        DIGITS, [("source", "{kind: text_files, path: ., name: texts}"), ("source.glob", "**/*.txt"), ("name", "yes")]
    )
    assert (config.source.glob, config.name) == ("**/*.txt", "yes")  # type: ignore[union-attr]
    files = {"source.kind": "text_files", "source.glob": "[ab]*.py", "source.path": "/{x}: y # z"}
    source = load(DIGITS, files.items()).source
    assert (source.glob, source.path) == ("[ab]*.py", "/{x}: y # z")  # type: ignore[union-attr]
    assert load(DIGITS, [("source.kind", "tfds"), ("source.dataset", "x"), ("source.key", "null")]).source.key is None  # type: ignore[union-attr]


@pytest.mark.parametrize("digest", ["14e930", "0e99999", "12345678"])
def test_a_digest_that_could_be_a_number_is_text(digest: str, tmp_path: Path) -> None:
    assert load(DIGITS, [("train.continue_from", digest)]).train.continue_from == digest
    preset = tmp_path / "preset.yaml"
    preset.write_text(DIGITS.read_text() + "release: {model: 14e930}\n")
    assert load(preset).release.model == "14e930"


def test_a_path_is_relative_to_the_preset_and_in_a_flag_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "presets").mkdir()
    preset = tmp_path / "presets/preset.yaml"
    head = "name: x\ntrain: {steps: 1, batch_size: 1}\n"
    preset.write_text(head + "source: {kind: text_files, path: ../texts}\n")
    monkeypatch.chdir(tmp_path / "presets")
    for given in (preset, Path("preset.yaml")):
        assert load(given).source.path == f"{tmp_path}/presets/../texts"  # type: ignore[union-attr]
    monkeypatch.chdir(tmp_path)
    flagged = load(Path("presets/preset.yaml"), [("source.path", "texts")])
    assert flagged.source.path == f"{tmp_path}/texts"  # type: ignore[union-attr]
    preset.write_text(head.replace("batch_size: 1", "batch_size: 1, init: {kind: keras_hub, preset: ../bert}"))
    assert load(preset).train.init.preset == f"{tmp_path}/presets/../bert"  # type: ignore[union-attr]
    for name in ("bert_tiny_en_uncased", "hf://google-bert/bert-base-uncased"):
        assert load(preset, [("train.init.preset", name)]).train.init.preset == name  # type: ignore[union-attr]
    preset.write_text(head + "source: {kind: text_files, path: ../texts}\n")
    for stays in ("stdlib:", "~/texts", "/texts"):
        assert load(preset, [("source.path", stays)]).source.path == stays  # type: ignore[union-attr]
    preset.write_text(head + "source: {kind: tfds, dataset: x, data_dir: data, module: builder.py}\n")
    source = load(preset).source
    assert (source.data_dir, source.module) == tuple(f"{tmp_path}/presets/{name}" for name in ("data", "builder.py"))  # type: ignore[union-attr]
    assert load(preset, [("source.module", "package.builder")]).source.module == "package.builder"  # type: ignore[union-attr]


def test_a_mapping_replaces_the_presets_and_a_dotted_key_sets_one_entry() -> None:
    with pytest.raises(Refused, match="add validation"):
        load(DIGITS, [("records.splits", "{train: 0.5, test: 0.5}")])
    preset = load(DIGITS).records.splits
    one = [("records.splits.train", "0.7"), ("records.splits.test", str(0.3 - preset["validation"]))]
    assert load(DIGITS, one).records.splits["train"] == 0.7
    assert load(DIGITS, one).records.splits["validation"] == preset["validation"]
    assert load(DIGITS, [("train.optimizer", "{kind: adamw}")]).train.optimizer == AdamW()


@pytest.mark.parametrize("value", ["12", "2026-11-21", "{a: b}"])
def test_what_is_no_text_in_a_preset_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "odd.yaml").write_text(DIGITS.read_text().replace("name: digits", f"name: {value}", 1))
    with pytest.raises(Refused, match="must be text"):
        load(tmp_path / "odd.yaml")


def test_a_config_is_its_own_preset(tmp_path: Path) -> None:
    config = load(DIGITS)
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert load(tmp_path / "again.yaml") == config


@pytest.mark.parametrize(
    "transform",
    [
        {"kind": "tokens", "method": "bytes"},
        {"kind": "bucketize", "boundaries": [1.0, 2.0]},
        {"kind": "hash_words", "output": "counts"},
    ],
)
def test_a_written_config_with_all_defaults_is_read_again(transform: dict[str, object]) -> None:
    """As that of a run is: settings that another one ignores are at their defaults."""
    values = {"name": "a", "train": {"steps": 1}, "model": {"kind": "mlp"}}
    config = Config.model_validate({**values, "snapshot": {"kind": "table", "transforms": {"note": transform}}})
    assert Config.model_validate(json.loads(config.model_dump_json())) == config


def test_the_default_model_follows_the_snapshot_and_stays_with_the_config(tmp_path: Path) -> None:
    (tmp_path / "text.yaml").write_text("name: x\ntrain: {steps: 1}\nsnapshot: {kind: tokens}\n")
    config = load(tmp_path / "text.yaml")
    assert config.model.kind == "transformer"
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_what_cannot_change_a_result_stays_out_of_the_identity() -> None:
    config = load(DIGITS)
    flags = [("train.checkpoint.every", "3"), ("train.log_every", "2"), ("train.strategy.kind", "one_device")]
    assert identity(load(DIGITS, flags).train) == identity(config.train)
    assert identity(load(DIGITS, [("train.steps", "3"), ("train.schedule.warmup", "0")]).train) != identity(
        config.train
    )
    assert "name" not in identity(config)


def test_every_field_is_documented() -> None:
    schema = Config.model_json_schema()
    for section, body in {"Config": schema, **schema["$defs"]}.items():
        for field, spec in body.get("properties", {}).items():
            assert spec.get("description"), f"{section}.{field} has no docstring"


def test_whole_numbers_do_where_numbers_are_asked_for_and_exponents_need_no_point() -> None:
    config = load(
        DIGITS, [("train.learning_rate", "1"), ("train.optimizer.epsilon", "1e-8"), ("train.clip_norm", "2e0")]
    )
    assert (config.train.learning_rate, config.train.optimizer.epsilon, config.train.clip_norm) == (1.0, 1e-8, 2.0)


def test_what_comes_as_json_is_held_to_the_same(tmp_path: Path) -> None:
    """Prefect hands a form's parameters to the classes themselves."""
    values = load(DIGITS).model_dump(mode="json")
    assert Config.model_validate(values) == load(DIGITS)
    for wrong in ({"seed": True}, {"seed": "1"}, {"train": {**values["train"], "steps": "60"}}):
        with pytest.raises(ValidationError):
            Config.model_validate({**values, **wrong})


@pytest.mark.parametrize(
    ("train", "field"),
    [
        (("train.label_smoothing", "0.1"), "train.label_smoothing"),
        (("train.class_weights", "balanced"), "train.class_weights"),
    ],
)
def test_settings_that_a_task_would_ignore_are_refused(train: tuple[str, str], field: str) -> None:
    with pytest.raises(Refused, match="ignored by regression") as refused:
        load(DIGITS, [("model.kind", "mlp"), ("model.task", "regression"), train])
    assert refused.value.field == field


def test_the_default_model_of_a_table_reads_one(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("name: x\ntrain: {steps: 1}\nsnapshot: {kind: table}\n")
    assert load(tmp_path / "rows.yaml").model.kind == "mlp"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1: 2\nname: x\n", "the preset: a key 1; keys are text"),
        ("name: x\ntrain: {steps: 1, on: 3}\n", "train: a key true; keys are text"),
        ('format: "1"\nname: x\n', 'format: "1"; this Millrace reads presets of format 1'),
        ("name: {\n", "line 2, column 1"),
    ],
)
def test_what_a_preset_cannot_hold_is_named(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(Refused) as refused:
        load(tmp_path / "odd.yaml")
    assert says in str(refused.value)
    assert "unicode string" not in str(refused.value)


def test_a_folder_is_no_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        Refused, match="a folder; a preset is a YAML file; correct the path, or take one of flows/presets"
    ):
        load(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match="no such file; a preset is a YAML file; correct the path$"):
        load(tmp_path / "gone.yaml")


def test_a_section_that_is_missing_is_not_offered_as_a_flag() -> None:
    with pytest.raises(Refused, match="train: nothing; this key is needed; set train in the preset$"):
        validate({"name": "n"})
    with pytest.raises(Refused, match="name: nothing; this key is needed; set name in the preset or by --name VALUE$"):
        validate({"train": {"steps": 1}})


def test_every_choice_is_a_choice_of_tabs_in_prefects_form() -> None:
    schema = json.dumps(Config.model_json_schema())
    assert "oneOf" not in schema
    for kind in ("SklearnSource", "TokensSnapshot", "TransformerModel", "AdamW", "Mirrored"):
        assert f'{{"$ref": "#/$defs/{kind}"}}' in schema
