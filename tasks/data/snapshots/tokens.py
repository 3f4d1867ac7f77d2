"""The snapshot of text: rows of tokens, cut from the concatenated documents of a split.

A document is BOS and its tokens. Row i is `stream[i * block : i * block + block + 1]`: the last token of a row is the
first of the next, so that every token is a target exactly once. BOS has no weight as a target, and the last row is
padded with BOS, so that no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config import TokensSnapshot
from tasks.data.arrays import ArrayWriter
from tasks.data.order import permutation
from tasks.data.reading import RecordsReader
from tasks.data.snapshots import Part, parts_of, write_array
from tasks.data.text import LAYOUT, TOKENIZER, Codec, fit, layout, pin, text_feature, text_of
from tasks.errors import Failed
from tasks.store.files import pretty
from tasks.store.staging import TEMPORARY

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

TRAIN = "train"
CHUNK_BYTES = 4 << 20
"""Bytes of records that are encoded at once, and encoded again after a kill."""
ROWS_PER_WRITE = 4096
"""Rows of a write."""
SAMPLE_SEED = 1
"""Seed of the sample of documents for the tokenizer."""
REPORT_EVERY = 1 << 20
"""Bytes between progress reports."""

Stream = NDArray[Any]


def build(bench: Workbench, records: Records, config: TokensSnapshot) -> Outcome:
    """Fit a byte-level BPE on a sample of the train split, encode every split, and pack its documents into rows.

    Encoding uses `bench.threads` threads of the tokenizer. Returns counts (rows of each split), features (dtype, shape,
    vocabulary and `bos` of `tokens`) and statistics (documents, tokens and bytes of each split, and the size of the
    tokenizer's sample).

    Raises:
        Failed: the records have no text, a text is not UTF-8, or a split has no text.
    """
    pin(bench.threads)
    reader = RecordsReader(records.path)
    text_feature(reader)
    bench.staging.reserve(records.bytes)  # 2 bytes for a token of about 3, written twice
    codec, fitted_sample = _fit_tokenizer(bench, reader, config)
    bench.staging.put(f"transform/{LAYOUT}", pretty(layout(codec, config.block)))
    counts, splits = {}, {}
    report = Reports(bench, int(sum(reader.sizes(split).sum() for split in reader.counts)), "bytes")
    for split, documents in reader.counts.items():
        stream, lengths, size = _encode_split(bench, reader, codec, split, report)
        counts[split] = _pack(bench, split, stream, lengths, codec.bos, config)
        tokens = len(stream) - documents
        splits[split] = {"documents": documents, "tokens": tokens, "bytes": size, "rows": counts[split]}
    feature = {"dtype": codec.dtype, "shape": [config.block + 1], "vocabulary": codec.vocabulary, "bos": codec.bos}
    shares = {f"snapshot/{split}/bytes_per_token": row["bytes"] / row["tokens"] for split, row in splits.items()}
    return Outcome(
        counts=counts,
        features={"tokens": feature},
        statistics={
            "splits": splits,
            "tokenizer": {**fitted_sample, "of_bytes": splits[TRAIN]["bytes"]},
            "metrics": {
                **{f"snapshot/{split}": count for split, count in counts.items()},
                "snapshot/vocabulary": codec.vocabulary,
                **shares,
            },
        },
    )


def transformed(records: RecordsReader, transform: Path) -> Iterator[int]:
    """Encode the texts of the train split by a fitted tokenizer; yield one for each."""
    codec = Codec.open(transform)
    for row in range(records.counts["train"]):
        codec.encode([text_of(records, "train", row)])
        yield 1


class Reports:
    """Reports the bytes that are done of a total, which the sizes of the records exceed slightly."""

    def __init__(self, bench: Workbench, total: int, unit: str) -> None:
        self._bench, self._total, self._unit = bench, total, unit
        self._finished = self._reported = 0

    def __call__(self, done: int) -> None:
        """Report the bytes that are done besides the finished ones."""
        if self._finished + done - self._reported >= REPORT_EVERY:
            self._reported = self._finished + done
            self._bench.progress(self._reported, self._total, self._unit)

    def finish(self, size: int) -> None:
        """Count bytes as finished."""
        self._finished += size
        self(0)

    def end(self, **figures: str) -> None:
        """Report that all bytes are done."""
        self._bench.progress(self._total, self._total, self._unit, **figures)


def _fit_tokenizer(bench: Workbench, reader: RecordsReader, config: TokensSnapshot) -> tuple[Codec, dict[str, int]]:
    """Fit the tokenizer; return it, and the number of documents and bytes of its sample."""
    name = f"transform/{TOKENIZER}"
    note = bench.staging.adopt(name)
    if note is None:
        sizes = reader.sizes(TRAIN)
        sample = _sample(sizes, config.tokenizer_bytes)
        note = {"documents": len(sample), "bytes": 0}
        report = Reports(bench, min(int(sizes[sample].sum()), config.tokenizer_bytes), "bytes for the tokenizer")

        def texts() -> Iterator[str]:
            remaining = config.tokenizer_bytes
            for index in sample:
                content = text_of(reader, TRAIN, int(index)).encode()[:remaining]
                remaining -= len(content)
                note["bytes"] += len(content)
                yield content.decode(errors="ignore")  # the last one may end within a character
            report.end(now="fitting the tokenizer")

        fitted = fit(texts(), config.vocabulary, report)
        with bench.staging.piece(name) as piece:
            piece.path.write_text(fitted, encoding="utf-8")
            piece.note.update(note)
    return Codec.open(bench.staging.root / "transform"), {"documents": note["documents"], "bytes": note["bytes"]}


def _sample(sizes: NDArray[np.int64], max_bytes: int) -> NDArray[np.int64]:
    """Return the sorted records of the tokenizer's sample: all of them where they have at most `max_bytes` bytes.

    `sizes` are those of the records, slightly larger than their texts. The last text of the sample is used in part.
    """
    if sizes.sum() <= max_bytes:
        return np.arange(len(sizes))
    sample = permutation(np.arange(len(sizes)), len(sizes), SAMPLE_SEED, 0)
    before = np.cumsum(sizes[sample]) - sizes[sample]
    return np.sort(sample[before < max_bytes])


def _encode_split(
    bench: Workbench, reader: RecordsReader, codec: Codec, split: str, report: Reports
) -> tuple[Stream, NDArray[np.int64], int]:
    """Return a split as one stream of tokens, the length of each document with its BOS, and the bytes of the texts."""
    streams: list[Stream] = []
    lengths: list[int] = []
    size = 0
    for number, (start, stop) in enumerate(_chunks(reader.sizes(split))):
        name = f"{TEMPORARY}{split}-{number:05d}.npy"
        note = bench.staging.adopt(name)
        if note is None:
            texts = [text_of(reader, split, index) for index in range(start, stop)]
            bos = np.array([codec.bos], codec.dtype)
            documents = [np.concatenate([bos, tokens]) for tokens in codec.encode(texts, report)]
            note = {
                "lengths": [len(tokens) for tokens in documents],
                "bytes": sum(len(text.encode()) for text in texts),
            }
            with bench.staging.piece(name, **note) as piece, open(piece.path, "wb") as file:
                np.save(file, np.concatenate(documents))
        streams.append(np.load(bench.staging.root / name))
        lengths += note["lengths"]
        size += note["bytes"]
        report.finish(note["bytes"])
    return np.concatenate(streams), np.array(lengths, np.int64), size


def _chunks(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of records of about `CHUNK_BYTES` each, none empty."""
    group = (np.cumsum(sizes) - sizes) // CHUNK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def _pack(
    bench: Workbench, split: str, stream: Stream, lengths: NDArray[np.int64], bos: int, config: TokensSnapshot
) -> int:
    """Write the rows of a split with `origin` and `pieces`; return the number of rows."""
    rows = -(-(len(stream) - 1) // config.block)
    if len(stream) == len(lengths):
        raise Failed(
            f"records.splits.{split}", "no text in it", "every split needs some", "add data or raise its share"
        )
    origin, pieces = lineage(lengths, config.block, rows)
    for part in parts_of(split, rows, config.shards):
        write_array(bench, part.file("origin"), origin[part.start : part.stop])
        _write_tokens(bench, part, stream, bos, config.block)
    # Shards of pieces have equal length too, so that a reader finds one by division.
    for part in parts_of(split, len(pieces), config.shards):
        write_array(bench, part.file("pieces"), pieces[part.start : part.stop])
    return rows


def _write_tokens(bench: Workbench, part: Part, stream: Stream, bos: int, block: int) -> None:
    if bench.staging.adopt(part.file("tokens")) is not None:
        return
    shape = (part.stop - part.start, block + 1)
    with bench.staging.piece(part.file("tokens")) as piece, ArrayWriter(piece.path, stream.dtype, shape) as writer:
        for start in range(part.start, part.stop, ROWS_PER_WRITE):
            stop = min(start + ROWS_PER_WRITE, part.stop)
            tokens = stream[start * block : stop * block + 1]
            missing = (stop - start) * block + 1 - len(tokens)
            tokens = np.concatenate([tokens, np.full(missing, bos, stream.dtype)])
            writer.append(np.lib.stride_tricks.sliding_window_view(tokens, block + 1)[::block])


def lineage(lengths: NDArray[np.int64], block: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `origin` [rows, 2] and `pieces` [pieces, 4] of documents of these lengths in rows of block + 1 tokens."""
    ends = np.cumsum(lengths)
    begins = ends - lengths
    low = np.arange(rows, dtype=np.int64) * block
    high = np.minimum(low + block + 1, ends[-1])
    first = np.searchsorted(begins, low, side="right") - 1
    number = np.searchsorted(begins, high - 1, side="right") - first
    origin = np.stack([np.cumsum(number) - number, number], axis=1)
    row = np.repeat(np.arange(rows), number)
    record = first[row] + np.arange(len(row)) - origin[row, 0]
    start = np.maximum(begins[record], low[row])
    stop = np.minimum(ends[record], high[row])
    return origin, np.stack([record, start - begins[record], stop - start, start - low[row]], axis=1)
