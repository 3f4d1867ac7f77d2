"""millrace init: look at raw data, write a preset."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from flows.commands.reply import AsJson, replying
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.data.guess import Guess

BATCH = 64
EPOCHS = 20
STEPS = (200, 4000)
"""The fewest and the most steps of a first try."""


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of raw data.")], as_json: AsJson = False
) -> None:
    """Look at raw data, guess the source, write a commented preset into this folder."""
    with replying("init", as_json) as reply:
        from tasks.data.guess import look

        found = look(path)
        preset = Path(f"{found.name}.yaml")
        text = preset_of(found, preset)
        try:
            with open(preset, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Refused(
                str(preset), "it is there already", "init overwrites nothing", "move it or remove it"
            ) from None
        except OSError as error:
            raise Refused(str(preset), error.strerror, "init writes into this folder", "go to another one") from None
        reply.add(preset=str(preset.resolve()), source=found.source, counts=found.counts)
        if not as_json:
            typer.echo(f"{found.said}: {_counted(found.counts)}")
            typer.echo(f"wrote {preset}; next: millrace run {preset}")


def preset_of(found: Guess, preset: Path) -> str:
    """The preset's text; raises `Refused` for data that no model here learns from."""
    if found.what == "images":
        return HEAD.format(**_head(found, preset)) + IMAGES.format(**_images(found))
    if (model := language_model()) is None:
        raise Refused("PATH", found.said, "no model here learns from text yet", "see docs/reference.md, section model")
    values = {**_head(found, preset), "model": model, "vocabulary": 4096 if found.examples >= 100 else 1024}
    return HEAD.format(**values) + TEXT.format(**values)


def language_model() -> str | None:
    """The `model.kind` whose task is language, if there is one."""
    from tasks.config import ModelConfig

    union, *_ = typing.get_args(ModelConfig)
    for model in typing.get_args(union):
        assert issubclass(model, BaseModel)
        if model.model_fields["task"].default == "language_model":
            kind: str = model.model_fields["kind"].default
            return kind
    return None


def _head(found: Guess, preset: Path) -> dict[str, Any]:
    source = "".join(f"  {key}: {_quoted(value)}\n" for key, value in found.source.items())
    splits = ", ".join(f"{name}: {share:g}" for name, share in found.splits.items())
    return {
        "said": found.said,
        "preset": preset,
        "name": found.name,
        "source": source,
        "splits": splits,
        "split_seed": found.split_seed,
    }


def _images(found: Guess) -> dict[str, Any]:
    height, width, channels = found.shape
    train = int(found.examples * found.splits["train"])
    batch = max(8, min(BATCH, train // 4))
    steps = max(STEPS[0], min(STEPS[1], EPOCHS * train // batch))
    classes = ", ".join(found.classes[:6]) + (", …" if len(found.classes) > 6 else "")
    return {
        "sizes": found.sizes,
        "height": height,
        "width": width,
        "channels": channels,
        "classes": classes,
        "filters": [32, 64] if min(height, width) < 32 else [32, 64, 128],
        "steps": steps,
        "batch": batch,
        "warmup": min(50, steps // 20),
        "every": max(20, steps // 10),
    }


def _quoted(value: Any) -> str:
    """A value as YAML: words as they are, all else as JSON, which YAML reads too."""
    plain = isinstance(value, str) and value.replace("_", "").isalnum()
    return value if plain else json.dumps(value, ensure_ascii=False)


def _counted(counts: dict[str, int]) -> str:
    few = list(counts.items())[:8]
    return ", ".join(f"{name} {count:,}" for name, count in few) + (", …" if len(counts) > len(few) else "")


HEAD = """\
# {said}; written by `millrace init`: a first try, meant to be changed.
#
#   command:  millrace run {preset}
#   time:     not measured yet; `--train.steps 50` is a short try
#   expect:   not measured yet
#
# Every key: docs/reference.md. What is left out here has its default.
name: {name}
seed: 1
source:
{source}records:
  splits: {{{splits}}}
  split_seed: {split_seed}       # decides which examples are in which split; here none of them is empty
  bad_budget: 0       # how many unreadable examples are left out, counted and named, before the run fails
"""

IMAGES = """\
snapshot:
  kind: image
  height: {height}          # the images are {sizes}; larger ones are slower and show more
  width: {width}
  channels: {channels}         # 1: grey, 3: colour
model:
  kind: convnet
  task: classification  # {classes}
  filters: {filters}   # one block for each number; every block halves height and width
  dense: 128
  dropout: 0.3
train:
  steps: {steps}
  batch_size: {batch}
  optimizer: {{kind: adamw, weight_decay: 0.01}}
  schedule: {{kind: cosine, rate: 0.001, warmup: {warmup}}}
  clip_norm: 1.0
  checkpoint: {{every: {every}, keep: 2}}
  evaluate_every: {every}
"""

TEXT = """\
snapshot:
  kind: tokens
  vocabulary: {vocabulary}    # tokens of a byte-level BPE that is fitted on the train split
  block: 256          # tokens that the model sees at once
model:
  kind: {model}
  task: language_model
train:
  steps: 500
  batch_size: 8
  optimizer: {{kind: adamw, weight_decay: 0.1}}
  schedule: {{kind: cosine, rate: 0.002, warmup: 50}}
  clip_norm: 1.0
  checkpoint: {{every: 100, keep: 2}}
"""
