"""Text to a snapshot: rows of tokens, cut from the documents of a split one after another.

Each document is BOS and its tokens. Row i is `stream[i * block : i * block + block + 1]`: the last token of a row is
the first of the next, so every token is predicted exactly once, but for those that are BOS, which have no weight. The
last row is filled up with BOS; so no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config import TokensSnapshot
from tasks.data.arrays import ArrayWriter
from tasks.data.order import permutation
from tasks.data.reading import RecordsReader
from tasks.data.snapshots import Part, parts_of, write_array
from tasks.data.text import LAYOUT, TEXT, TOKENIZER, Codec, fit, layout, pin, text_of
from tasks.errors import Failed
from tasks.store.files import pretty
from tasks.store.staging import PASSING

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

TRAIN = "train"
CHUNK_BYTES = 4 << 20
"""Records that are encoded at once, and lost at most when the process is killed."""
ROWS = 4096
"""Of one write."""
DRAWN = 1
"""Keys the permutation by which documents are drawn for the tokenizer."""
PACE = 256
"""Documents between reports of progress."""

Stream = NDArray[Any]


def build(bench: Workbench, records: Records, config: TokensSnapshot) -> Outcome:
    """Fit a byte-level BPE on a sample of the train split, encode every split, and pack its documents into rows.

    Encoding uses `bench.threads` threads of the tokenizer's own, which share one Python process: nothing is forked.
    Counts: rows of each split; features: dtype, shape, vocabulary and `bos` of `tokens`; statistics: documents, tokens
    and bytes of each split, and how much of the train split the tokenizer was fitted on. Raises `Failed` for records
    without text, text that is not UTF-8, a split without any.
    """
    pin(bench.threads)
    reader = RecordsReader(records.path)
    if (text := reader.features.get(TEXT)) is None or text.kind != "bytes":
        saw = f"records of {', '.join(sorted(reader.features))}"
        raise Failed("snapshot.kind", saw, "tokens are made of a feature text", "choose a source of text")
    bench.staging.reserve(records.bytes)  # a token has two bytes, stands for three, and lies here twice for a while
    codec, fitted_on = _fitted(bench, reader, config)
    bench.staging.put(f"transform/{LAYOUT}", pretty(layout(codec, config.block)))
    counts, splits = {}, {}
    done = 0
    for split, documents in reader.counts.items():
        stream, lengths, size = _encoded(bench, reader, codec, split, done)
        counts[split] = _pack(bench, split, stream, lengths, codec.bos, config)
        tokens = len(stream) - documents
        splits[split] = {"documents": documents, "tokens": tokens, "bytes": size, "rows": counts[split]}
        done += documents
    feature = {"dtype": codec.dtype, "shape": [config.block + 1], "vocabulary": codec.vocabulary, "bos": codec.bos}
    shares = {f"snapshot/{split}/bytes_per_token": row["bytes"] / row["tokens"] for split, row in splits.items()}
    return Outcome(
        counts=counts,
        features={"tokens": feature},
        statistics={
            "splits": splits,
            "tokenizer": {**fitted_on, "of_bytes": splits[TRAIN]["bytes"]},
            "metrics": {
                **{f"snapshot/{split}": count for split, count in counts.items()},
                "snapshot/vocabulary": codec.vocabulary,
                **shares,
            },
        },
    )


def _fitted(bench: Workbench, reader: RecordsReader, config: TokensSnapshot) -> tuple[Codec, dict[str, int]]:
    """The tokenizer, and how many documents and bytes it was fitted on."""
    name = f"transform/{TOKENIZER}"
    note = bench.staging.adopt(name)
    if note is None:
        drawn = _sample(reader.sizes(TRAIN), config.tokenizer_bytes)
        note = {"documents": len(drawn), "bytes": 0}

        def texts() -> Iterator[str]:
            left = config.tokenizer_bytes
            for number, index in enumerate(drawn):
                if number % PACE == 0:
                    bench.progress(number, len(drawn), "documents for the tokenizer")
                content = text_of(reader, TRAIN, int(index)).encode()[:left]
                left -= len(content)
                note["bytes"] += len(content)
                yield content.decode(errors="ignore")  # the last one may be cut inside a character
            bench.progress(len(drawn), len(drawn), "documents for the tokenizer")

        fitted = fit(texts(), config.vocabulary)
        with bench.staging.piece(name) as piece:
            piece.path.write_text(fitted, encoding="utf-8")
            piece.note.update(note)
    return Codec.open(bench.staging.root / "transform"), {"documents": note["documents"], "bytes": note["bytes"]}


def _sample(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The records whose text the tokenizer is fitted on, rising: all of them where they have at most `most` bytes.

    `sizes` are of the whole records, a few bytes more than their texts: of the last one drawn only a part is used.
    """
    if sizes.sum() <= most:
        return np.arange(len(sizes))
    drawn = permutation(np.arange(len(sizes)), len(sizes), DRAWN, 0)
    before = np.cumsum(sizes[drawn]) - sizes[drawn]
    return np.sort(drawn[before < most])


def _encoded(
    bench: Workbench, reader: RecordsReader, codec: Codec, split: str, before: int
) -> tuple[Stream, NDArray[np.int64], int]:
    """The split as one stream, the length of each document in it, BOS included, and its raw bytes."""
    total = sum(reader.counts.values())
    streams: list[Stream] = []
    lengths: list[int] = []
    size = 0
    for number, (start, stop) in enumerate(_chunks(reader.sizes(split))):
        name = f"{PASSING}{split}-{number:05d}.npy"
        note = bench.staging.adopt(name)
        if note is None:
            texts = [text_of(reader, split, index) for index in range(start, stop)]
            bos = np.array([codec.bos], codec.dtype)
            documents = [np.concatenate([bos, tokens]) for tokens in codec.encode(texts)]
            note = {
                "lengths": [len(tokens) for tokens in documents],
                "bytes": sum(len(text.encode()) for text in texts),
            }
            with bench.staging.piece(name, **note) as piece, open(piece.path, "wb") as file:
                np.save(file, np.concatenate(documents))
        streams.append(np.load(bench.staging.root / name))
        lengths += note["lengths"]
        size += note["bytes"]
        bench.progress(before + stop, total, "documents")
    return np.concatenate(streams), np.array(lengths, np.int64), size


def _chunks(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of records of about `CHUNK_BYTES` each, none empty."""
    group = (np.cumsum(sizes) - sizes) // CHUNK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def _pack(
    bench: Workbench, split: str, stream: Stream, lengths: NDArray[np.int64], bos: int, config: TokensSnapshot
) -> int:
    """Write the rows of a split and the way back to its records; gives their number."""
    rows = -(-(len(stream) - 1) // config.block)
    if len(stream) == len(lengths):
        raise Failed(
            f"records.splits.{split}", "no text in it", "every split needs some", "add data or raise its share"
        )
    origin, pieces = lineage(lengths, config.block, rows)
    for part in parts_of(split, rows, config.shards):
        write_array(bench, part.file("origin"), origin[part.start : part.stop])
        _write_tokens(bench, part, stream, bos, config.block)
    # Pieces are cut evenly too, wherever their rows lie: a reader finds a shard by one division.
    for part in parts_of(split, len(pieces), config.shards):
        write_array(bench, part.file("pieces"), pieces[part.start : part.stop])
    return rows


def _write_tokens(bench: Workbench, part: Part, stream: Stream, bos: int, block: int) -> None:
    if bench.staging.adopt(part.file("tokens")) is not None:
        return
    shape = (part.stop - part.start, block + 1)
    with bench.staging.piece(part.file("tokens")) as piece, ArrayWriter(piece.path, stream.dtype, shape) as writer:
        for start in range(part.start, part.stop, ROWS):
            stop = min(start + ROWS, part.stop)
            tokens = stream[start * block : stop * block + 1]
            missing = (stop - start) * block + 1 - len(tokens)
            tokens = np.concatenate([tokens, np.full(missing, bos, stream.dtype)])
            writer.append(np.lib.stride_tricks.sliding_window_view(tokens, block + 1)[::block])


def lineage(lengths: NDArray[np.int64], block: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`origin` [rows, 2] and `pieces` [pieces, 4] of documents of these lengths, packed into rows of block + 1."""
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
