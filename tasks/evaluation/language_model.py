"""Language modelling: the next token at each place, judged in bits for each raw byte of files never seen.

Bits per byte do not hang on the tokenizer, and a compressor's result on the same bytes stands beside them.
"""

from __future__ import annotations

import gzip
import lzma
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tasks.config import EvaluateConfig
from tasks.data.text import Codec
from tasks.evaluation.judging import Call, Kept, Split, quarters
from tasks.evaluation.metrics import Floats, Metric, ratio
from tasks.evaluation.pictures import ACCENT, INK, MUTED, WARM, dots, picture
from tasks.evaluation.sampling import sample
from tasks.models.features import TOKENS, Contexts, outputs_of

AT_ONCE = 1 << 18
"""Logits whose exponentials are taken at once: what a processor's cache holds."""
SMOOTH = 8
"""Neighbouring places whose loss is averaged in the picture."""


@dataclass(frozen=True)
class Answers:
    """What the model said of each file: sums over its tokens, in file order, [files]."""

    nats: Floats
    right: Floats
    tokens: Floats
    bytes: Floats
    by_place: Floats
    """[block]: mean nats of the tokens at each place of a row."""

    @property
    def bits(self) -> Floats:
        """Bits per byte of each file; 0 of an empty one."""
        return self.nats / log(2) / np.maximum(self.bytes, 1)


def bits_per_byte(answers: Answers) -> Floats:
    """Bits that the model needs for a file, beside the file's bytes."""
    return np.stack([answers.nats / log(2), answers.bytes], axis=-1)


def loss(answers: Answers) -> Floats:
    """Nats beside tokens: what training minimises."""
    return np.stack([answers.nats, answers.tokens], axis=-1)


def token_accuracy(answers: Answers) -> Floats:
    """Tokens that were thought most likely, beside all."""
    return np.stack([answers.right, answers.tokens], axis=-1)


METRICS = {
    "bits_per_byte": Metric(bits_per_byte, ratio),
    "loss": Metric(loss, ratio),
    "token_accuracy": Metric(token_accuracy, ratio),
}


class Judge:
    """As `tasks.evaluation.judging.Judge` says; examples are files."""

    metrics = METRICS
    saved = "nats"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        self.split, self.config = split, config
        self.tokens = split.arrays[TOKENS]
        self.inputs = Contexts(self.tokens)
        self.outputs = outputs_of(split.features)
        self.bos = int(split.features[TOKENS]["bos"])
        self.documents = split.documents()
        self.examples = len(self.documents.keys)

    @cached_property
    def baselines(self) -> dict[str, float]:
        """Bits per byte of all the files, one after another, as two compressors see them."""
        raw = b"".join(self.documents.contents)
        packed = {"gzip": gzip.compress(raw, 9, mtime=0), "xz": lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)}
        return {f"{name}_bits_per_byte": 8 * len(found) / len(raw) for name, found in packed.items()}

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """Nats of each target, float32 [rows, block], and the likeliest token there."""
        targets = np.asarray(self.tokens[start : start + len(outputs)])[:, 1:].astype(np.int64)
        return {"nats": nats(outputs, targets), "likeliest": outputs.argmax(axis=-1).astype(np.uint32)}

    def answers(self, kept: Kept) -> Answers:
        """Sums over files; a BOS, which begins a document, is given and not predicted."""
        of, targets = self.documents.of_targets, np.asarray(self.tokens[:])[:, 1:]
        scored = (of >= 0) & (targets != self.bos)

        def by_file(values: npt.NDArray) -> Floats:
            return np.bincount(of[scored], values[scored].astype(np.float64), self.examples).astype(np.float64)

        places = np.maximum(scored.sum(axis=0), 1)
        return Answers(
            nats=by_file(kept["nats"]),
            right=by_file(kept["likeliest"] == targets) if "likeliest" in kept else np.full(self.examples, np.nan),
            tokens=by_file(np.ones(of.shape)),
            bytes=np.array([len(content) for content in self.documents.contents], np.float64),
            by_place=np.where(scored, kept["nats"], 0).sum(axis=0, dtype=np.float64) / places,
        )

    def decisions(self, kept: Kept) -> npt.NDArray:
        """The likeliest tokens, where one is predicted."""
        return kept["likeliest"][self.documents.of_targets >= 0]

    def figures(self, answers: Answers) -> dict[str, float]:
        """None: every figure is a metric."""
        return {}

    def details(self, answers: Answers) -> dict[str, Any]:
        """The files that are hardest and easiest to foresee; of few files none is both."""
        files = np.flatnonzero(answers.bytes)
        order = files[np.lexsort((files, -answers.bits[files]))]
        rows = [
            {
                "row": int(file),
                "key": self.documents.keys[file],
                "bytes": int(answers.bytes[file]),
                "bits_per_byte": float(answers.bits[file]),
            }
            for file in order
        ]
        most = min(self.config.most_wrong, (len(rows) + 1) // 2)
        return {
            "bytes": int(answers.bytes.sum()),
            "tokens": int(answers.tokens.sum()),
            "worst": rows[:most],
            "best": rows[max(len(rows) - most, most) :][::-1],
        }

    def slices(self, answers: Answers) -> dict[str, npt.NDArray[np.bool_]]:
        """The files of each folder, and quarters of the files by their size."""
        folders = np.array([key.rpartition("/")[0].partition("/")[0] for key in self.documents.keys])
        names = sorted(set(folders.tolist()) - {""})
        return {f"folder {name}": folders == name for name in names} | quarters(
            answers.bytes, "{low:,.0f} to {high:,.0f} bytes"
        )

    def pictures(self, answers: Answers, details: dict[str, Any]) -> dict[str, bytes]:
        """Bits per byte by size of the file, nats by place in the row."""
        return {
            "bits_by_size": bits_by_size(answers, self.baselines, self.split.name),
            "loss_by_place": loss_by_place(answers, self.split.name),
        }

    def show(self, call: Call) -> dict[str, Any]:
        """A text that the model makes up."""
        config = self.config
        if not config.sample_tokens:
            return {}
        codec, block = Codec.open(self.split.transform), self.tokens.shape[1] - 1
        text = sample(call, codec, config.sample_prompt, config.sample_tokens, config.sample_temperature, block)
        return {"sample": {"prompt": config.sample_prompt, "temperature": config.sample_temperature, "text": text}}


def nats(logits: npt.NDArray[np.float32], targets: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Minus the log-probability of each target, [...], from logits [..., vocabulary]."""
    flat, wanted = logits.reshape(-1, logits.shape[-1]), targets.ravel()
    found = np.empty(len(flat), np.float32)
    size = max(1, AT_ONCE // flat.shape[-1])
    for start in range(0, len(flat), size):
        part = flat[start : start + size]
        highest = part.max(axis=-1, keepdims=True)
        total = np.exp(part - highest).sum(axis=-1, dtype=np.float32)
        chosen = part[np.arange(len(part)), wanted[start : start + size]]
        found[start : start + size] = np.log(total) + highest[:, 0] - chosen
    return found.reshape(targets.shape)


@picture
def bits_by_size(answers: Answers, baselines: dict[str, float], title: str) -> Figure:
    """Each file a dot; lines where all files together lie, for the model and for the compressors."""
    files = answers.bytes > 0
    figure = Figure((6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    dots(axes, answers.bytes[files], answers.bits[files])
    total = METRICS["bits_per_byte"](answers)
    lines = {"the model": (total, ACCENT, "-")}
    lines |= {name.split("_")[0]: (value, WARM, "--") for name, value in baselines.items()}
    for name, (value, colour, style) in lines.items():
        axes.axhline(value, color=colour, linestyle=style, linewidth=1)
        across = axes.get_yaxis_transform()
        axes.text(1.01, value, f"{name} {value:.3f}", transform=across, va="center", fontsize=8, color=INK)
    axes.set(xscale="log", xlabel="bytes of the file", ylabel="bits per byte", title=f"{title}: each file a dot")
    return figure


@picture
def loss_by_place(answers: Answers, title: str) -> Figure:
    """How much the text before helps: each row of tokens begins without any."""
    figure = Figure((6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(1, len(answers.by_place) + 1)
    axes.plot(places, answers.by_place, color=MUTED, linewidth=0.8)
    if len(places) > 4 * SMOOTH:
        smooth = np.convolve(answers.by_place, np.ones(SMOOTH) / SMOOTH, "valid")
        axes.plot(places[: len(smooth)] + (SMOOTH - 1) / 2, smooth, color=ACCENT, linewidth=1.8)
    axes.set(xlabel="tokens seen before", ylabel="nats per token", ylim=(0, None), title=f"{title}: loss by place")
    return figure
