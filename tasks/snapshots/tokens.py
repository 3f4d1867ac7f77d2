"""The snapshot of text: rows of tokens, packed from the documents of a split (`tasks.snapshots.packing`).

A document is BOS and its tokens. BOS has no weight as a target, and rows are padded with BOS, so that no mask is
needed. A pair of a prompt and a text is BOS, both, and a BOS by which a model learns to end; `scored` says which of its
tokens are targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config.task import SCORED
from tasks.draws import permutation
from tasks.errors import Failed
from tasks.records.arrays import ArrayWriter
from tasks.records.reading import RecordsReader
from tasks.snapshots import ArrayShard, Progress, packing, parts_of, write_array, write_hashes
from tasks.snapshots.packing import Packed
from tasks.snapshots.text import (
    LAYOUT,
    TOKENIZER,
    Codec,
    Columns,
    fit,
    layout,
    pin,
    read_layout,
    scored,
    text_columns,
    text_of,
)
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


@dataclass(frozen=True)
class Rows:
    """How documents become rows of tokens."""

    block: int
    """Tokens of a row that are predicted; a row holds one more."""
    packing: Literal["stream", "best_fit"]
    prompt: str | None
    """The column that is given and not learned, of pairs."""
    vocabulary: int
    """Tokens at most."""
    sample_bytes: int
    """Bytes of the tokenizer's sample at most."""
    shards: int
    """Array files of each feature and split, at most."""


def build(bench: Workbench, records: Records, rows: Rows) -> Outcome:
    """Fit a byte-level BPE on a sample of the train split, encode every split, and pack its documents into rows.

    Encoding uses `bench.threads` threads of the tokenizer. Returns counts (rows of each split), features (dtype, shape,
    vocabulary and `bos` of `tokens`) and statistics (documents, tokens and bytes of each split, and the size of the
    tokenizer's sample).

    Raises:
        Failed: the records have no text, a text is not UTF-8, or a split has no text.
    """
    pin(bench.threads)
    reader = RecordsReader(records.path)
    columns = text_columns(reader, rows.prompt)
    bench.staging.reserve(records.bytes)  # 2 bytes for a token of about 3, written twice
    codec, fitted_sample = _fit_tokenizer(bench, reader, columns, rows)
    bench.staging.put(f"transform/{LAYOUT}", pretty(layout(codec, columns, rows.block, rows.packing)))
    counts, splits = {}, {}
    total = int(sum(reader.sizes(split).sum() for split in reader.counts))  # slightly more than all texts have
    report = Progress(bench, total, "bytes", REPORT_EVERY)
    for split, documents in reader.counts.items():
        encoded = _encode_split(bench, reader, codec, columns, split, report)
        write_hashes(bench, reader.row_hashes(split), split)
        counts[split], figures = _pack(bench, split, encoded, codec, rows)
        tokens = int((encoded.stream != codec.bos).sum())
        splits[split] = {
            "documents": documents,
            "tokens": tokens,
            "bytes": encoded.bytes,
            "rows": counts[split],
        } | figures
    shares = {f"snapshot/{split}/bytes_per_token": row["bytes"] / row["tokens"] for split, row in splits.items()}
    for split, row in splits.items():
        if "padding" in row:
            shares[f"snapshot/{split}/padding"] = row["padding"] / (row["rows"] * (rows.block + 1))
        if "cut" in row:
            shares[f"snapshot/{split}/cut"] = row["cut"] / row["documents"]
    return Outcome(
        counts=counts,
        features=_features(codec, columns, rows),
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


def _features(codec: Codec, columns: Columns, rows: Rows) -> dict[str, Any]:
    """Return what the manifest says of the arrays."""
    tokens: dict[str, Any] = {"dtype": codec.dtype, "shape": [rows.block + 1], "vocabulary": codec.vocabulary}
    tokens["bos"] = codec.bos
    if rows.packing == "best_fit":
        tokens["packing"] = rows.packing
    if columns.prompt is None:
        return {"tokens": tokens}
    tokens |= {"prompt": columns.prompt, "text": columns.text}
    return {"tokens": tokens, SCORED: {"dtype": "uint8", "shape": [rows.block + 1]}}


def transformed(records: RecordsReader, transform: Path) -> Iterator[int]:
    """Encode the texts of the train split by a fitted tokenizer; yield one for each row."""
    codec, columns = Codec.open(transform), text_columns(records, read_layout(transform)["prompt"])
    for row in range(records.counts[TRAIN]):
        codec.encode([text_of(records, TRAIN, row, column) for column in columns])
        yield 1


def _fit_tokenizer(
    bench: Workbench, reader: RecordsReader, columns: Columns, rows: Rows
) -> tuple[Codec, dict[str, int]]:
    """Fit the tokenizer; return it, and the number of documents and bytes of its sample."""
    name = f"transform/{TOKENIZER}"
    note = bench.staging.adopt(name)
    if note is None:
        sizes, most = reader.sizes(TRAIN), rows.sample_bytes
        sample = _sample(sizes, most)
        note = {"documents": len(sample), "bytes": 0}
        total, unit = min(int(sizes[sample].sum()), most), "bytes for the tokenizer"

        def texts() -> Iterator[str]:
            remaining = most
            for index, column in product(sample, columns):
                content = text_of(reader, TRAIN, int(index), column).encode()[:remaining]
                remaining -= len(content)
                note["bytes"] += len(content)
                yield content.decode(errors="ignore")  # the last one may end within a character
            bench.progress(total, total, unit, now="fitting the tokenizer")

        fitted = fit(texts(), rows.vocabulary, Progress(bench, total, unit, REPORT_EVERY))
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


@dataclass(frozen=True)
class Encoded:
    """A split as one stream of tokens: documents, each with a BOS before it; of pairs also one after it."""

    stream: Stream
    lengths: NDArray[np.int64]
    """Tokens of each document."""
    scored: NDArray[np.bool_]
    """Which tokens are targets: not the BOS before a document, nor a prompt."""
    bytes: int
    """Bytes of the texts."""


def _encode_split(
    bench: Workbench, reader: RecordsReader, codec: Codec, columns: Columns, split: str, report: Progress
) -> Encoded:
    """Encode all documents of a split."""
    streams: list[Stream] = []
    lengths, given, size = list[int](), list[int](), 0
    for number, (start, stop) in enumerate(_chunks(reader.sizes(split))):
        name = f"{TEMPORARY}{split}-{number:05d}.npy"
        note = bench.staging.adopt(name)
        if note is None:
            texts = [text_of(reader, split, index, column) for column in columns for index in range(start, stop)]
            encoded, pairs = codec.encode(texts, report), columns.prompt is not None
            documents, own = codec.documents(encoded[start - stop :], encoded[: stop - start] if pairs else None)
            note = {
                "lengths": [len(tokens) for tokens in documents],
                "given": own,
                "bytes": sum(len(text.encode()) for text in texts),
            }
            with bench.staging.piece(name, **note) as piece, open(piece.path, "wb") as file:
                np.save(file, np.concatenate(documents))
        streams.append(np.load(bench.staging.root / name))
        lengths += note["lengths"]
        given += note["given"]
        size += note["bytes"]
        report.finish(note["bytes"])
    of_document = np.array(lengths, np.int64)
    return Encoded(np.concatenate(streams), of_document, scored(of_document, np.array(given)), size)


def _chunks(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of records of about `CHUNK_BYTES` each, none empty."""
    group = (np.cumsum(sizes) - sizes) // CHUNK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def _pack(bench: Workbench, split: str, encoded: Encoded, codec: Codec, rows: Rows) -> tuple[int, dict[str, int]]:
    """Write the rows of a split with `origin` and `pieces`; return their number, and figures of the packing."""
    lengths, block, pairs = encoded.lengths, rows.block, rows.prompt is not None
    given = lengths - np.add.reduceat(encoded.scored, np.cumsum(lengths) - lengths, dtype=np.int64)
    # Of a pair, text is left in the row if the prompt ends before it; the last token is a BOS.
    if not (given < (np.minimum(lengths - 1, block + 1) if pairs else lengths)).any():
        saw = "no text within snapshot.block" if pairs else "no text in it"
        raise Failed(f"records.splits.{split}", saw, "every split needs some", "add data or raise its share")
    in_stream = rows.packing == "stream"
    packed = packing.stream(lengths, block) if in_stream else packing.best_fit(lengths, block, pairs)
    for part in parts_of(split, packed.rows, rows.shards):
        write_array(bench, part.file("origin"), packed.origin[part.start : part.stop])
        _write_rows(bench, part, packed, encoded, codec, pairs)
    # Shards of pieces have equal length too, so that a reader finds one by division.
    for part in parts_of(split, len(packed.pieces), rows.shards):
        write_array(bench, part.file("pieces"), packed.pieces[part.start : part.stop])
    filled = int(packed.pieces[:, 2].sum())
    figures = {} if in_stream else {"padding": packed.rows * packed.width - filled}
    return packed.rows, {**figures, **({"cut": int((lengths > block + 1).sum())} if pairs else {})}


def _write_rows(
    bench: Workbench, part: ArrayShard, packed: Packed, encoded: Encoded, codec: Codec, pairs: bool
) -> None:
    """Write `tokens`, and of pairs `scored`, of a part."""
    begins = np.cumsum(encoded.lengths) - encoded.lengths
    arrays: dict[str, tuple[Stream, int]] = {"tokens": (encoded.stream, codec.bos)}
    if pairs:
        arrays[SCORED] = (encoded.scored.astype(np.uint8), 0)
    for name, (values, padding) in arrays.items():
        if bench.staging.adopt(part.file(name)) is not None:
            continue
        shape = (part.stop - part.start, packed.width)
        with bench.staging.piece(part.file(name)) as piece, ArrayWriter(piece.path, values.dtype, shape) as writer:
            for start in range(part.start, part.stop, ROWS_PER_WRITE):
                stop = min(start + ROWS_PER_WRITE, part.stop)
                writer.append(packed.gather(start, stop, values, begins, padding))
