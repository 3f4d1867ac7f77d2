"""Language models: the loss of tokens, in bits a byte, and texts that are sampled with a fixed seed.

Bits per byte do not depend on the tokenizer and can be compared with compressors on the same bytes.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tasks.config.task import SCORED
from tasks.errors import Failed
from tasks.evaluation import SAMPLE_SEED, bigrams
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge, Kept, quarters
from tasks.evaluation.metrics import Means, Metric, Score, ratio
from tasks.evaluation.pictures import ACCENT, INK, MUTED, WARM, dots, picture
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Floats
from tasks.models.features import TOKENS, output_size
from tasks.models.forward import Call
from tasks.snapshots.text import Codec


def sample(
    call: Call, codec: Codec, prompt: str, count: int, temperature: float, block: int, *, document: bool = True
) -> str:
    """Generate up to `count` tokens after `prompt`, sampled from softmax(logits / temperature); return their text.

    The context is at most the last `block` tokens. `document`: the prompt begins a document, with a BOS before it.
    Generation ends early where the model begins another document.
    """
    tokens = [codec.bos] * document + [int(token) for token in codec.encode([prompt])[0]]
    tokens = tokens or [codec.bos]
    prompt_length, random = len(tokens), np.random.default_rng(SAMPLE_SEED)
    for _ in range(count):
        logits = call({TOKENS: np.array([tokens[-block:]], np.int32)})[0, -1].astype(np.float64)
        chances = np.exp((logits - logits.max()) / temperature)
        token = int(np.searchsorted(np.cumsum(chances), random.random() * chances.sum(), side="right"))
        token = min(token, len(chances) - 1)
        if token == codec.bos:
            break
        tokens.append(token)
    return codec.decode(tokens[prompt_length:]).decode(errors="replace")


MAX_LOGITS = 1 << 18
"""Logits whose exponentials are computed at once, so that they fit into the processor's cache."""
SMOOTHED_POSITIONS = 8
"""Width of the moving average in the plot, in positions."""


@dataclass(frozen=True)
class Predictions:
    """Sums over the scored tokens of each file, float64 [files]: nats, correct tokens, tokens; and its bytes."""

    nats: Floats
    right: Floats
    tokens: Floats
    bytes: Floats
    by_position: Floats
    """Mean nats of the tokens at each position of a row, float64 [block]."""

    @property
    def bits(self) -> Floats:
        """Bits per byte of each file, [files]; 0 for an empty one."""
        return self.nats / log(2) / np.maximum(self.bytes, 1)


def bits_per_byte(predictions: Predictions) -> Floats:
    """Return bits and bytes of each file, [files, 2]."""
    return np.stack([predictions.nats / log(2), predictions.bytes], axis=-1)


def loss(predictions: Predictions) -> Floats:
    """Return nats and tokens of each file, [files, 2]: their ratio is the loss of training."""
    return np.stack([predictions.nats, predictions.tokens], axis=-1)


def token_accuracy(predictions: Predictions) -> Floats:
    """Return correctly predicted tokens and all tokens of each file, [files, 2]."""
    return np.stack([predictions.right, predictions.tokens], axis=-1)


METRICS: dict[str, Metric] = {
    "bits_per_byte": Means(bits_per_byte, ratio, size=1),
    "loss": Means(loss, ratio, size=1),
    "token_accuracy": Score(token_accuracy, ratio, size=1),
}


class LanguageModelJudge(Judge):
    """Judges by files."""

    task = "language_model"
    metrics = METRICS
    saved = "nats"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.tokens = split.arrays[TOKENS]
        self.outputs = output_size(split.features)
        self.bos = int(split.features[TOKENS]["bos"])
        self.documents = split.documents()
        if not any(self.documents.contents):
            saw, rule = f"none of {len(self.documents.keys)} files has a byte that is scored", "bits are per byte"
            raise Failed(f"split {split.name}", saw, rule, "raise snapshot.block, shorten the prompts or add data")
        targets = np.asarray(self.tokens[:])[:, 1:]
        self.scored = (self.documents.of_targets >= 0) & (
            np.asarray(split.arrays[SCORED][:])[:, 1:] > 0 if SCORED in split.features else targets != self.bos
        )
        self.examples = len(self.documents.keys)

    @property
    def targets(self) -> npt.NDArray[Any]:
        """The tokens that follow, [rows, block]; own metrics of files there are none."""
        return np.asarray(self.tokens[:])[:, 1:]

    @cached_property
    def baselines(self) -> dict[str, float]:
        """Bits per byte of the files by a bigram model of bytes, and concatenated by gzip -9 and xz -9e."""
        raw = b"".join(self.documents.contents)
        seen = bigrams.count(zip(self.documents.before, self.documents.contents, strict=True))
        sizes = {
            "bigram": bigrams.bits(seen, self.split.fitted_bigrams()),
            "gzip": 8 * len(gzip.compress(raw, 9, mtime=0)),
            "xz": 8 * len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)),
        }
        return {f"{name}_bits_per_byte": size / len(raw) for name, size in sizes.items()}

    def constants(self, predictions: Predictions) -> Iterator[Predictions]:
        """Yield the nats of each file by the bigram model of bytes, which is fitted on train; which token is the
        likeliest it does not know."""
        texts = zip(self.documents.before, self.documents.contents, strict=True)
        nats = bigrams.bits_of_texts(texts, self.split.fitted_bigrams()) * log(2)
        yield replace(predictions, nats=nats, right=np.full(len(nats), np.nan))

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """Keep the nats of each target, float32 [rows, block], and the most probable token, uint32 [rows, block]."""
        targets = np.asarray(self.tokens[start : start + len(outputs)])[:, 1:].astype(np.int64)
        return {"nats": nats(outputs, targets), "likeliest": outputs.argmax(axis=-1).astype(np.uint32)}

    def predictions(self, kept: Kept) -> Predictions:
        """Sum over the scored tokens of each file, without the BOS that begins a document and without prompts."""
        of, targets, scored = self.documents.of_targets, np.asarray(self.tokens[:])[:, 1:], self.scored

        def by_file(values: npt.NDArray) -> Floats:
            return np.bincount(of[scored], values[scored].astype(np.float64), self.examples).astype(np.float64)

        positions = np.maximum(scored.sum(axis=0), 1)
        return Predictions(
            nats=by_file(kept["nats"]),
            right=by_file(kept["likeliest"] == targets) if "likeliest" in kept else np.full(self.examples, np.nan),
            tokens=by_file(np.ones(of.shape)),
            bytes=np.array([len(content) for content in self.documents.contents], np.float64),
            by_position=np.where(scored, kept["nats"], 0).sum(axis=0, dtype=np.float64) / positions,
        )

    def extents(self, predictions: Predictions) -> Floats:
        """Return the bytes of each file that are scored, which depend on what of a pair is cut."""
        return predictions.bytes

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the most probable tokens of all scored targets, [targets]."""
        return kept["likeliest"][self.scored]

    def details(self, predictions: Predictions) -> dict[str, Any]:
        """Return the files with the highest and the lowest bits per byte; no file is in both lists."""
        files = np.flatnonzero(predictions.bytes)
        order = files[np.lexsort((files, -predictions.bits[files]))]
        rows = [
            {
                "row": int(file),
                "key": self.documents.keys[file],
                "bytes": int(predictions.bytes[file]),
                "bits_per_byte": float(predictions.bits[file]),
            }
            for file in order
        ]
        most = min(self.config.most_wrong, (len(rows) + 1) // 2)
        return {
            "bytes": int(predictions.bytes.sum()),
            "tokens": int(predictions.tokens.sum()),
            "worst": rows[:most],
            "best": rows[max(len(rows) - most, most) :][::-1],
        }

    def slices(self, predictions: Predictions) -> dict[str, npt.NDArray[np.bool_]]:
        """Return masks of the files of each top folder, and of the quartiles of file size, where a byte is scored."""
        folders = np.array([key.rpartition("/")[0].partition("/")[0] for key in self.documents.keys])
        scored = {folder for folder, content in zip(folders.tolist(), self.documents.contents, strict=True) if content}
        by_size = quarters(predictions.bytes, "{} bytes".format, ",.0f")
        return {f"folder {name}": folders == name for name in sorted(scored - {""})} | {
            name: mask for name, mask in by_size.items() if predictions.bytes[mask].any()
        }

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot bits per byte by file size, and nats by position in the row."""
        return {
            "bits_by_size": bits_by_size(predictions, self.baselines, self.split.name),
            "loss_by_position": loss_by_position(predictions, self.split.name),
        }

    def show(self, call: Call) -> dict[str, Any]:
        """Generate a sample text."""
        config = self.config
        if not config.sample_tokens:
            return {}
        codec, block = Codec.open(self.split.transform), self.tokens.shape[1] - 1
        text = sample(call, codec, config.sample_prompt, config.sample_tokens, config.sample_temperature, block)
        return {"sample": {"prompt": config.sample_prompt, "temperature": config.sample_temperature, "text": text}}


def nats(logits: npt.NDArray[np.float32], targets: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return minus the log-probability of each target, float32 [...], from logits [..., vocabulary]."""
    flat, target = logits.reshape(-1, logits.shape[-1]), targets.ravel()
    losses = np.empty(len(flat), np.float32)
    size = max(1, MAX_LOGITS // flat.shape[-1])
    for start in range(0, len(flat), size):
        part = flat[start : start + size]
        highest = part.max(axis=-1, keepdims=True)
        total = np.exp(part - highest).sum(axis=-1, dtype=np.float32)
        of_target = part[np.arange(len(part)), target[start : start + size]]
        losses[start : start + size] = np.log(total) + highest[:, 0] - of_target
    return losses.reshape(targets.shape)


@picture
def bits_by_size(predictions: Predictions, baselines: dict[str, float], title: str) -> Figure:
    """Plot bits per byte against size of each file, with lines for the total of the model and of the baselines."""
    files = predictions.bytes > 0
    figure = Figure((6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    dots(axes, predictions.bytes[files], predictions.bits[files])
    total = METRICS["bits_per_byte"](predictions)
    lines = {"the model": (total, ACCENT, "-")}
    lines |= {name.split("_")[0]: (value, WARM, "--") for name, value in baselines.items()}
    for name, (value, colour, style) in lines.items():
        axes.axhline(value, color=colour, linestyle=style, linewidth=1)
        across = axes.get_yaxis_transform()
        axes.text(1.01, value, f"{name} {value:.3f}", transform=across, va="center", fontsize=8, color=INK)
    axes.set(xscale="log", xlabel="bytes of the file", ylabel="bits per byte", title=f"{title}: each file a dot")
    return figure


@picture
def loss_by_position(predictions: Predictions, title: str) -> Figure:
    """Plot the mean loss by position in a row of tokens: it falls as the context grows."""
    figure = Figure((6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    positions = np.arange(1, len(predictions.by_position) + 1)
    axes.plot(positions, predictions.by_position, color=MUTED, linewidth=0.8)
    if len(positions) > 4 * SMOOTHED_POSITIONS:
        smooth = np.convolve(predictions.by_position, np.ones(SMOOTHED_POSITIONS) / SMOOTHED_POSITIONS, "valid")
        axes.plot(positions[: len(smooth)] + (SMOOTHED_POSITIONS - 1) / 2, smooth, color=ACCENT, linewidth=1.8)
    axes.set(xlabel="tokens seen before", ylabel="nats per token", ylim=(0, None), title=f"{title}: loss by position")
    return figure
